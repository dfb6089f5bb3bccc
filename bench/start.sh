#!/bin/sh
# SPDX-License-Identifier: MIT
# How long a process waits until it samples. The first usable device; OCL_ICD_VENDORS
# chooses. In milliseconds: to open OpenCL, for the context, for a sampler, for the first
# step, the processors' time from the context to that step (which other work on the machine
# hardly changes), and for a later step (median of 100), from a row of 128,256 logits to its
# token on the host.
#
#     make bench/start && sh bench/start.sh bench/start [RUNS]
set -eu
program=${1:?usage: start.sh PROGRAM [RUNS]}
runs=${2:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Every driver's cache that is known, in a folder of its own.
caches() {
    mkdir -p "$folder/$1"
    for name in POCL_CACHE_DIR MESA_SHADER_CACHE_DIR CUDA_CACHE_PATH NEO_CACHE_DIR; do
        export "$name=$folder/$1"
    done
}

row() {
    name=$1
    shift
    printf '%-26s' "$name"
    "$program" "$@"
}

printf '%-26s%10s %10s %10s %10s %10s %10s   %s\n' '' OpenCL context sampler first '(CPU)' later \
    from
for run in $(seq "$runs"); do
    # cls_feature bits: plain rows, lists, and the search, everything.
    for set in 'plain 1' 'lists 2' 'search 6' 'everything 0x3fff'; do
        caches "${set% *}-$run"
        row "${set% *}, nothing compiled" - "${set#* }"
        row "${set% *}, the driver's cache" - "${set#* }"
    done
    caches "driver-$run"
    mkdir "$folder/ours-$run"
    row 'a folder, as it fills' "$folder/ours-$run"
    row "the driver's cache, too" "$folder/ours-$run"
    caches "none-$run"
    row 'the folder alone' "$folder/ours-$run"
done
