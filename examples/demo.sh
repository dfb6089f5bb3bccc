#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares greedy, temperature, top-k, top-p and min-p on a few rows of a real model's logits, and
# explains the stages of one row.  usage: demo.sh [path of the command clsample]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
clsample=${1:-clsample}

cat <<'END'
A small language model has written a story:

    Once upon a time, there was a [little] boy named Timmy. Timmy liked to play outside in the
    sun[g]lasses. He had a sweet window [that] he loved going to swing. One day, Timmy ...

For the three tokens in brackets this shows the likeliest candidates, the probabilities that each
sampler leaves them, and three draws.

END
set -- --logits "$here/data/stories260K-logits.npy" --pieces "$here/data/tok512.bin"
"$clsample" demo "$@" --rows 8,29,47 --seed 11
echo
echo "The last row again, with each stage of llama.cpp's chain:"
echo
"$clsample" explain "$@" --row 47 --seed 11 --top 4 --chain llama \
    --top-k 40 --top-p 0.95 --min-p 0.05 --temperature 0.8 --dynatemp-range 0.3
