#!/bin/sh
# SPDX-License-Identifier: MIT
# What bench/peers.py compares is the same: the bench's cases keep as many tokens of a row as the
# definitions of their chains, and as PyTorch and llama.cpp do where they are installed.
# shellcheck disable=SC2154 # checks.sh sets passed and failed
bench=$(cd "${srcdir-.}/bench" && pwd)
# shellcheck source=tests/support/checks.sh
. "${srcdir-.}/tests/support/checks.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }

if python3 "$bench/peers.py" --kept --clsample "$CLSAMPLE" >out 2>error; then
    yes_
else
    no_ "$(cat error)"
fi
cases=$(grep -c '"definition"' out)
if [ "$cases" = 6 ] && [ "$(grep -c '"clsample"' out)" = 6 ]; then yes_; else no_ "$(cat out)"; fi

finish
