#!/bin/sh
# SPDX-License-Identifier: MIT
# Shows what greedy, temperature, top-k, top-p and min-p make of a few rows of
# a real model's logits.  usage: demo.sh [path of the command clsample]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
clsample=${1:-clsample}
tokenizer=$here/../../shared/data/tok512.bin

echo "A small language model is writing a story. These are its logits at three places,"
echo "and the tokens that each sampler leaves of them, with three draws from what is left."
echo
set -- demo --logits "$here/data/stories260K-logits.npy" --rows 8,29,47 --seed 11
if [ -r "$tokenizer" ]; then
    "$clsample" "$@" --pieces "$tokenizer"
else
    "$clsample" "$@"
    echo
    echo "(Tokens are shown by number. With the model's tokenizer, tok512.bin of tinyllamas, they"
    echo "show as text: clsample demo --pieces tok512.bin ...)"
fi
