#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the library for other machines, as doc/porting.md tells users to, and
# links a program with it; runs nothing of it. There is no OpenCL for them here:
# headers are this machine's, and what the program links is a library of the
# names alone. A target without a compiler is skipped, or with --install gets one.
# usage: cross.sh [--install] [TARGET...]       on Debian; as root, or with sudo
#        cross.sh --packages                      what it would install
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
headers=${OPENCL_HEADERS:-/usr/include}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0 skipped=0

install=no
[ "${1-}" != --install ] || { install=yes; shift; }
targets='x86_64-w64-mingw32 aarch64-linux-gnu arm-linux-gnueabihf'
# shellcheck disable=SC2086 # a list of words
[ $# != 0 ] || set -- $targets

package() {
    case $1 in
    x86_64-w64-mingw32) echo gcc-mingw-w64-x86-64-win32 ;;
    aarch64-linux-gnu) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
    arm-linux-gnueabihf) echo gcc-arm-linux-gnueabihf libc6-dev-armhf-cross ;;
    *) echo "a C compiler named $1-gcc" ;;
    esac
}

if [ "${1-}" = --packages ]; then
    for target in $targets; do package "$target"; done
    exit
fi

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -- "$@"; fi
}

# An OpenCL for the example to link to: every function that it calls.
opencl() {
    names=$(grep -o '\bcl[A-Z][A-Za-z]*(' "$top/examples/minimal.c" | tr -d '(' | sort -u)
    case $1 in
    *mingw*)
        { printf 'LIBRARY OpenCL.dll\nEXPORTS\n'; printf '    %s\n' $names; } >OpenCL.def
        "$1-dlltool" -d OpenCL.def -l libOpenCL.dll.a
        ;;
    *)
        printf 'void %s(void) {}\n' $names >OpenCL.c
        "$1-gcc" -w -fno-builtin -shared -fPIC -Wl,-soname,libOpenCL.so.1 OpenCL.c -o libOpenCL.so
        ;;
    esac
}

build() {
    mkdir -p "$dir/$1/include" "$dir/$1/build" && cd "$dir/$1" &&
        ln -s "$headers/CL" include/CL && opencl "$1" || return
    cd build
    "$top/configure" -q --host="$1" --enable-werror --disable-dependency-tracking CFLAGS=-O1 \
        OPENCL_CFLAGS="-I$dir/$1/include" ||
        { cat config.log; return 1; }
    make -s && make -s install DESTDIR="$dir/$1/root" >install.log || return
    NM=$1-nm srcdir=$top sh "$top/tests/package/symbols.sh" &&
        NM=$1-nm sh "$top/tests/package/portable.sh" || return
    # The library in one file, as programs vendor it.
    make -s amalgamation/clsample.c &&
        "$1-gcc" -std=c11 -O1 -Wall -Wextra -Wconversion -Werror -I"$dir/$1/include" \
            -c amalgamation/clsample.c -o single.o || return
    for library in -lclsample "$dir/$1/root/usr/local/lib/libclsample.a"; do
        "$1-gcc" "$top/examples/minimal.c" -I"$dir/$1/root/usr/local/include" -I"$dir/$1/include" \
            -L"$dir/$1/root/usr/local/lib" "$library" -L"$dir/$1" -lOpenCL -lm -o minimal || return
    done
}

for target; do
    if ! command -v "$target-gcc" >/dev/null && [ $install = yes ]; then
        # shellcheck disable=SC2046 # a list of words
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install \
            -y -q --no-install-recommends $(package "$target")
    fi
    if ! command -v "$target-gcc" >/dev/null; then
        echo "== $target: skipped; it needs $(package "$target")"
        skipped=$((skipped + 1))
        continue
    fi
    echo "== $target"
    if (build "$target"); then
        passed=$((passed + 1))
    else
        echo "$target: failed"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
