# SPDX-License-Identifier: MIT
# Sourced before each test: takes a folder of PoCL's compiled kernels for as long
# as the test runs, POCL_CACHE_DIR. Fifty programs compile the same kernels, so
# the folders outlive them; but processes that share one at the same time have
# crashed (pocl#1480), so each holds a lock. What the test before left in the folder
# goes to all the others through `all`. Without flock(1): a folder of its own.
# Loading a program from the library's own folder, CLS_TEST_PROGRAMS, takes a third of the time,
# since PoCL preprocesses a source before it looks into its cache; all tests share that folder. It
# does not know of POCL_EXTRA_BUILD_FLAGS, so tests for which these are set share another one.
# usage: kernels=FOLDER own=FOLDER; . kernels.sh
mkdir -p "$kernels/all"
for n in 1 2 3 4 5 6 7 8; do
    exec 9>"$kernels/$n.lock"
    POCL_CACHE_DIR=$kernels/$n
    flock -n 9 2>/dev/null && break
    POCL_CACHE_DIR=$own
done
CLS_TEST_PROGRAMS=$kernels/programs${POCL_EXTRA_BUILD_FLAGS:+-with-flags}
export POCL_CACHE_DIR CLS_TEST_PROGRAMS
mkdir -p "$CLS_TEST_PROGRAMS"
if [ "$POCL_CACHE_DIR" != "$own" ]; then
    stamp=$POCL_CACHE_DIR.stamp # when the folder was last as `all` was
    mkdir -p "$POCL_CACHE_DIR"
    exec 8>"$kernels/all.lock"
    flock 8
    [ -e "$stamp" ] || touch -t 200001010000 "$stamp"
    # To copy nothing takes 0.1 s, more than some tests. PoCL makes a folder for each kernel.
    if find "$POCL_CACHE_DIR" -mindepth 1 -type d -newer "$stamp" | grep -q .; then
        cp -an "$POCL_CACHE_DIR/." "$kernels/all" # some cp(1) fail where -n leaves a file as it is
        touch "$kernels/all.stamp"
    fi
    if [ "$kernels/all.stamp" -nt "$stamp" ]; then
        cp -an "$kernels/all/." "$POCL_CACHE_DIR"
    fi
    touch "$stamp"
    exec 8>&-
fi
