#!/bin/sh
# SPDX-License-Identifier: MIT
# `clsample sample` draws the same tokens in groups, vectors and limits other than the device's own.
# PoCL compiles each of them for seconds. Exits 77 if there is no device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"
needs_device

programs='' # few runs have these shapes: PoCL takes longer to store them than they save
options="--logits f32.npy --top-k 9 --seed 2"
# shellcheck disable=SC2086 # a list of options
{
    check "its own shape" "$clsample" sample $options --tokens own.npy
    for shape in "1 16" "5 4" "8 8"; do
        both $options --work-group "${shape% *}" --vector "${shape#* }"
        same "tokens in groups of ${shape% *} and vectors of ${shape#* }" b.npy own.npy
    done
    both $options --tier int64 --max-work-group 64 --max-local-mem 1048576 --max-parameters 256
    same "tokens within limits" b.npy own.npy
}
finish
