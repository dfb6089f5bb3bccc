#!/bin/sh
# SPDX-License-Identifier: MIT
# Times the start of a process on the first usable device, which OCL_ICD_VENDORS selects. The
# columns are milliseconds: opening OpenCL, creating the context, creating a sampler, the first
# step, the CPU time from the context to that step (which other work on the machine hardly changes),
# and a later step (median of 100). A step takes a row of 128,256 logits to its token on the host.
#
#     make bench/start && sh bench/start.sh bench/start [RUNS]
set -eu
program=${1:?usage: start.sh PROGRAM [RUNS]}
runs=${2:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Sets the cache directories of all known drivers to a separate directory.
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

printf '%-26s%10s %10s %10s %10s %10s %10s   %s\n' \
    '' OpenCL context sampler first '(CPU)' later from
for run in $(seq "$runs"); do
    # cls_feature bits: plain rows, lists, and the search, everything (CLS_FEATURES_ALL).
    for set in 'plain 1' 'lists 2' 'search 6' 'everything 0x1efff'; do
        caches "${set% *}-$run"
        row "${set% *}, no cache" - "${set#* }"
        row "${set% *}, driver cache" - "${set#* }"
    done
    caches "driver-$run"
    mkdir "$folder/dir-$run"
    row 'empty cache-dir' "$folder/dir-$run"
    row 'cache-dir and driver cache' "$folder/dir-$run"
    caches "none-$run"
    row 'cache-dir alone' "$folder/dir-$run"
done
