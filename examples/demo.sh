#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares greedy, temperature, top-k, top-p and min-p on a few rows of a real model's logits, and
# explains the stages of one row.  usage: demo.sh [path of the command clsample]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
clsample=${1:-clsample}
tokenizer=$here/../../shared/data/tok512.bin

echo "A small language model writes a story. For three of its tokens this shows the likeliest"
echo "candidates, the probabilities that each sampler leaves them, and three draws."
echo
set -- --logits "$here/data/stories260K-logits.npy"
if [ -r "$tokenizer" ]; then
    set -- "$@" --pieces "$tokenizer"
fi
"$clsample" demo "$@" --rows 8,29,47 --seed 11
echo
echo "The last row again, with each stage of llama.cpp's chain:"
echo
"$clsample" explain "$@" --row 47 --seed 11 --top 4 --chain llama \
    --top-k 40 --top-p 0.95 --min-p 0.05 --temperature 0.8 --dynatemp-range 0.3
if [ ! -r "$tokenizer" ]; then
    echo
    echo "(Tokens are shown as ids. With the tokenizer of the model, tok512.bin of tinyllamas, they"
    echo "are shown as text: clsample demo --pieces tok512.bin ...)"
fi
