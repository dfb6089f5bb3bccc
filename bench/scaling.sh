#!/bin/sh
# SPDX-License-Identifier: MIT
# Takes the measurements of doc/scaling.md: what shards exchange and how long they work, on the
# first usable device, which OCL_ICD_VENDORS selects; then, where mpicc and mpirun are installed,
# how long an all-gather takes between 2, 4 and 8 processes of this machine.
#
#     make bench/scaling && sh bench/scaling.sh bench/scaling [N ...]
set -eu
program=${1:?usage: scaling.sh PROGRAM [N ...]}
shift
"$program" "$@"
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
    echo "scaling: no mpicc or no mpirun; the time of an exchange is not measured"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMPI_MCA_rmaps_base_oversubscribe=1 # more processes than cores, with Open MPI
mpicc -O2 -o "$folder/allgather" "$(dirname "$0")/allgather.c"
for processes in 2 4 8; do
    mpirun -n $processes "$folder/allgather"
done
