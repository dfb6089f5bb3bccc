#!/bin/sh
# SPDX-License-Identifier: MIT
# How long a process waits until it samples: with nothing compiled, with the
# driver's cache, with the library's own folder (and none of the driver's), with
# both. The first usable device; OCL_ICD_VENDORS chooses. In milliseconds:
# to open OpenCL, for the context, the processors' time in that (which other work
# on the machine hardly changes), for a sampler, for the first step and for a
# later one (median of 100), from a row of 128,256 logits to its token on the host.
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

printf '%-26s%10s %10s %10s %10s %10s %10s   %s\n' '' OpenCL context '(CPU)' sampler first later from
for run in $(seq "$runs"); do
    caches "driver-$run"
    row 'nothing compiled'
    row "the driver's cache"
    mkdir "$folder/ours-$run"
    row 'both, as it fills' "$folder/ours-$run"
    row 'both' "$folder/ours-$run"
    caches "none-$run"
    row "the library's folder" "$folder/ours-$run"
done
