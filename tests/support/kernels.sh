# SPDX-License-Identifier: MIT
# Sourced before each test: takes a folder of PoCL's compiled kernels for as long
# as the test runs, POCL_CACHE_DIR. Fifty programs compile the same kernels, so
# the folders outlive them; but processes that share one at the same time have
# crashed (pocl#1480), so each holds a lock. What the test before left in the folder
# goes to all the others through `all`. Without flock(1): a folder of its own.
# usage: kernels=FOLDER own=FOLDER; . kernels.sh
mkdir -p "$kernels/all"
for n in 1 2 3 4 5 6 7 8; do
    exec 9>"$kernels/$n.lock"
    POCL_CACHE_DIR=$kernels/$n
    flock -n 9 2>/dev/null && break
    POCL_CACHE_DIR=$own
done
export POCL_CACHE_DIR
if [ "$POCL_CACHE_DIR" != "$own" ]; then
    mkdir -p "$POCL_CACHE_DIR"
    exec 8>"$kernels/all.lock"
    flock 8
    cp -an "$POCL_CACHE_DIR/." "$kernels/all" # some cp(1) fail where -n leaves a file as it is
    cp -an "$kernels/all/." "$POCL_CACHE_DIR"
    exec 8>&-
fi
