#!/bin/sh
# SPDX-License-Identifier: MIT
# Shows what greedy, temperature, top-k, top-p and min-p make of a few rows of
# a real model's logits, and one row's way through a chain.  usage: demo.sh [path of the command
# clsample]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
clsample=${1:-clsample}
tokenizer=$here/../../shared/data/tok512.bin

echo "A small language model is writing a story. These are its logits at three places,"
echo "and the tokens that each sampler leaves of them, with three draws from what is left."
echo
set -- --logits "$here/data/stories260K-logits.npy"
if [ -r "$tokenizer" ]; then
    set -- "$@" --pieces "$tokenizer"
fi
"$clsample" demo "$@" --rows 8,29,47 --seed 11
echo
echo "And the last of them by llama.cpp's chain, a stage at a time:"
echo
"$clsample" explain "$@" --row 47 --seed 11 --top 4 --chain llama \
    --top-k 40 --top-p 0.95 --min-p 0.05 --temperature 0.8 --dynatemp-range 0.3
if [ ! -r "$tokenizer" ]; then
    echo
    echo "(Tokens are shown by number. With the model's tokenizer, tok512.bin of tinyllamas, they"
    echo "show as text: clsample demo --pieces tok512.bin ...)"
fi
