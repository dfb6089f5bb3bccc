# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by tests that start ranks of MPI: on_ranks N SECONDS PROGRAM [ARGUMENT...]. MPIEXEC is the
# launcher, of Open MPI or of MPICH. Exits 77 if there is none.
# Processes that share PoCL's folder of compiled kernels have crashed (pocl#1480), so each rank has
# its own, POCL_CACHE_DIR with its number, which begins as a copy of POCL_CACHE_DIR.
launcher=${MPIEXEC:-mpiexec}
if ! command -v "${launcher%% *}" >/dev/null; then
    echo "no ${launcher%% *}: nothing can be started on ranks"
    exit 77
fi
# Open MPI refuses to run as root, as containers do, and more ranks than there are cores, unless
# it is asked to; versions 4 and 5 have different names for that.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# Reading another process's memory is forbidden in many containers.
OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe \
    PRTE_MCA_rmaps_default_mapping_policy OMPI_MCA_btl_vader_single_copy_mechanism

# The script that each rank runs.
# shellcheck disable=SC2016 # the rank's shell expands it
as_rank='
    rank=${OMPI_COMM_WORLD_RANK-${PMI_RANK-${PMIX_RANK-0}}}
    if [ -n "${POCL_CACHE_DIR-}" ] && [ "$rank" != 0 ]; then
        mkdir -p "$POCL_CACHE_DIR.rank$rank"
        [ ! -d "$POCL_CACHE_DIR" ] ||
            cp -an "$POCL_CACHE_DIR/." "$POCL_CACHE_DIR.rank$rank" 2>/dev/null
        POCL_CACHE_DIR=$POCL_CACHE_DIR.rank$rank
    fi
    exec "$@"'
on_ranks() {
    n=$1 seconds=$2
    shift 2
    limit=
    command -v timeout >/dev/null && limit="timeout -k 5 $seconds"
    # shellcheck disable=SC2086 # lists of words
    $limit $launcher -n "$n" sh -c "$as_rank" rank "$@" </dev/null
}
