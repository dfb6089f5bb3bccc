#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures clsample on a GPU and checks its tokens there, in steps, without a network: finds the
# vendor's OpenCL driver, builds, and runs bench/gpu_steps.py, which says what the steps are.
#
#     sh bench/gpu.sh [OPTION]...
#
#     --out FOLDER      results: gpu.json, gpu.txt, gpu.log (default gpu-results). A gpu.json that
#                       is there is continued: finished steps do not run again.
#     --limit SECONDS   ends after about this time (default 540); call again to continue
#     --quick           small sizes and few tests, to try the script on a CPU
#     --driver FILE     the OpenCL driver, in place of the one that is searched for
#     --deps FOLDER     what bench/gpu-deps.sh has gathered (default deps, where it exists)
#     --build FOLDER    of the build (default build-gpu)
#     --only STEP       only steps whose names begin so; may be repeated
#     --list            prints the steps and ends
#
# Exit status: 0 all steps are done, 1 a step failed, 2 it cannot run here, 3 call it again.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
begun=$(date +%s)
out=gpu-results limit=540 driver='' deps=$top/deps build=$top/build-gpu steps='' only=''

die() { printf 'gpu.sh: %s\n' "$*" >&2; exit 2; }

while [ $# != 0 ]; do
    case $1 in
    --quick | --list) steps="$steps $1" ;;
    --help | -h) sed -n '3,20s/^# \{0,1\}//p' "$0"; exit ;;
    --out | --limit | --driver | --deps | --build | --only)
        [ $# -ge 2 ] || die "$1: a value is missing"
        case $1 in
        --out) out=$2 ;;
        --limit) limit=$2 ;;
        --driver) driver=$2 ;;
        --deps) deps=$2 ;;
        --build) build=$2 ;;
        --only) only="$only$2/" ;;
        esac
        shift
        ;;
    *) die "unknown option '$1'; --help lists the options" ;;
    esac
    shift
done
case $limit in '' | *[!0-9]*) die "--limit: '$limit' is not a number of seconds" ;; esac
command -v python3 >/dev/null || die "python3 is missing; the steps are run by it"
# shellcheck disable=SC2086 # a list of words
case $steps in *--list*) exec python3 "$top/bench/gpu_steps.py" $steps ;; esac

# ------------------------------------------------------------------ the driver
# Vendors' drivers, and where containers and distributions put them.
names='libnvidia-opencl.so.1 libamdocl64.so libigdrcl.so'
folders='/usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/x86_64-linux-gnu
    /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/lib /usr/lib/wsl/lib /opt/rocm/lib
    /usr/lib/x86_64-linux-gnu/intel-opencl'

find_driver() {
    for name in $names; do
        # shellcheck disable=SC2046 # a list of words
        for folder in $(echo "${LD_LIBRARY_PATH-}" | tr ':' ' ') $folders; do
            [ ! -e "$folder/$name" ] || { echo "$folder/$name"; return; }
        done
        found=$( (ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null) |
            awk -v name="$name" '$1 == name { print $NF; exit }')
        [ -z "$found" ] || { echo "$found"; return; }
    done
}

if [ -z "$driver" ]; then
    driver=$(find_driver)
    # shellcheck disable=SC2086 # lists of words
    [ -n "$driver" ] || die "no OpenCL driver of a GPU was found. Searched for" $names "in the" \
        "folders of LD_LIBRARY_PATH (${LD_LIBRARY_PATH:-empty})," $folders "and in ldconfig's" \
        "list. A container needs the capability 'compute' for NVIDIA's. --driver FILE names one."
fi
[ -e "$driver" ] || die "--driver: '$driver' does not exist"
driver=$(cd "$(dirname "$driver")" && pwd)/$(basename "$driver")

mkdir -p "$out" "$build"
out=$(cd "$out" && pwd)
build=$(cd "$build" && pwd)
log=$out/gpu.log
printf '\n==== gpu.sh, %s, driver %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$driver" >>"$log"
# One implementation alone: a folder with its .icd file.
rm -rf "$build/icd"
mkdir "$build/icd"
echo "$driver" >"$build/icd/gpu.icd"
export OCL_ICD_VENDORS="$build/icd/"
# The driver's own parts lie beside it.
LD_LIBRARY_PATH=$(dirname "$driver")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# Compiled kernels outlive a step, but not the build; they may not come from elsewhere.
export CUDA_CACHE_PATH="$build/cuda-cache" CUDA_CACHE_MAXSIZE=4294967296
export POCL_CACHE_DIR="${POCL_CACHE_DIR-$build/pocl-cache}" CLS_TEST_KERNELS="$build/test-kernels"
mkdir -p "$CUDA_CACHE_PATH" "$POCL_CACHE_DIR" "$build/programs"

# ---------------------------------------------------------- headers and libraries
unpack() { # PACKAGE FOLDER
    if command -v dpkg-deb >/dev/null; then
        dpkg-deb -x "$1" "$2"
    else
        data=$(ar t "$1" | grep '^data\.tar')
        case $data in
        *.xz) ar p "$1" "$data" | tar -xJ -C "$2" ;;
        *.zst) ar p "$1" "$data" | tar --zstd -x -C "$2" ;;
        *) ar p "$1" "$data" | tar -xz -C "$2" ;;
        esac
    fi
}

root=$build/root
if [ -d "$deps" ] && [ ! -d "$root" ]; then
    mkdir "$root.new"
    for package in "$deps"/*.deb; do
        [ ! -e "$package" ] || unpack "$package" "$root.new"
    done
    mkdir -p "$root.new/python"
    for wheel in "$deps"/*.whl; do
        [ ! -e "$wheel" ] || python3 -m zipfile -e "$wheel" "$root.new/python"
    done
    mv "$root.new" "$root"
fi
set -- --without-clblast
if [ -d "$root/usr/include/CL" ]; then
    libraries=$(dirname "$(find "$root" -name libOpenCL.so)")
    export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$libraries" PYTHONPATH="$root/python"
    set -- "$@" OPENCL_CFLAGS="-I$root/usr/include" OPENCL_LIBS="-L$libraries -lOpenCL" \
        JANSSON_CFLAGS="-I$root/usr/include" JANSSON_LIBS="-L$libraries -ljansson" \
        CHECK_CFLAGS="-I$root/usr/include" \
        CHECK_LIBS="-L$libraries -lcheck -lsubunit -lrt -lm -lpthread"
fi

# -------------------------------------------------------------------- the build
source=$top
if [ ! -x "$top/configure" ]; then
    archive=$(find "$deps" -maxdepth 1 -name 'clsample-*.tar.xz' 2>/dev/null | head -n 1)
    [ -n "$archive" ] || die "there is neither $top/configure nor an archive in $deps; run" \
        "autoreconf -i here, or bench/gpu-deps.sh on a machine with autotools"
    source=$build/source
    if [ ! -d "$source" ]; then
        mkdir "$source.new"
        tar -xJf "$archive" -C "$source.new" --strip-components=1
        mv "$source.new" "$source"
    fi
fi
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
programs='bench/profile bench/programs'
build_all() {
    cd "$build"
    [ -f Makefile ] || "$source/configure" -q "$@" || return
    # shellcheck disable=SC2086 # a list of words
    make -s -j"$jobs" && make -s -j"$jobs" $programs
}
printf 'building in %s\n' "$build"
(build_all "$@") >>"$log" 2>&1 || { tail -n 30 "$log" >&2; die "the build failed; log: $log"; }

commit=$(git -C "$top" describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null ||
    cat "$deps/commit" 2>/dev/null || echo unknown)
spent=$(($(date +%s) - begun))
# shellcheck disable=SC2086 # a list of words
exec python3 "$top/bench/gpu_steps.py" --build "$build" --source "$source" --out "$out" \
    --driver "$driver" --commit "$commit" --only "$only" \
    --limit $((limit > spent ? limit - spent : 0)) $steps
