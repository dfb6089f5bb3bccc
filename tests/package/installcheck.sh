#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles the installed header as C99, C11 and C++, if there is a compiler of
# that; compiles and runs each EXAMPLE, a file, and DIRECTORY's llama against the
# installed library, as clsample.pc says.
# usage: CC= [CXX=] PKG_CONFIG= libdir= destdir= prefix= installcheck.sh DIRECTORY EXAMPLE...
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
PKG_CONFIG="$PKG_CONFIG${destdir:+ --define-variable=prefix=$destdir$prefix}"
flags=$($PKG_CONFIG --cflags --libs clsample)
printf '#include <clsample.h>\nint main(void) { return cls_version() == NULL; }\n' | tee "$dir/header.c" >"$dir/header.cc"
for std in c99 c11 c++11 c++17; do
    case $std in c++*) compiler=${CXX:-c++} file=header.cc ;; *) compiler=$CC file=header.c ;; esac
    command -v "${compiler%% *}" >/dev/null || { echo "no $compiler: header not compiled as $std"; continue; }
    # The target is OpenCL's, which its header otherwise asks for aloud.
    # shellcheck disable=SC2086 # flags and compiler are lists of words
    $compiler -std=$std -pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=120 "$dir/$file" -o "$dir/header" $flags
done
LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
DYLD_LIBRARY_PATH=$libdir
POCL_CACHE_DIR=$dir/pocl
export LD_LIBRARY_PATH DYLD_LIBRARY_PATH POCL_CACHE_DIR
source=$(cd "$1" && pwd)
shift
for example; do
    # shellcheck disable=SC2086 # flags and compiler are lists of words
    $CC "$example" -o "$dir/example" $flags
    status=0
    "$dir/example" || status=$?
    # 77: no device on this machine; compiled and linked it has, all the same.
    [ "$status" = 0 ] || [ "$status" = 77 ] || { echo "$example: exit status $status"; exit 1; }
done

(cd "$dir" && MAKEFLAGS='' MFLAGS='' make -f "$source/Makefile" src="$source" CC="$CC" PKG_CONFIG="$PKG_CONFIG")
model="--checkpoint $dir/random.bin --tokenizer $dir/random.tok"
# shellcheck disable=SC2086 # a list of words
{
    "$dir/llama" $model --make-random
    [ "$status" = 77 ] || "$dir/llama" $model --streams 3 --max-tokens 20 --json
}
