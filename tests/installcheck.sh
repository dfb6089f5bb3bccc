#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles and runs EXAMPLE, a file, and then DIRECTORY's llama against the
# installed library, as clsample.pc says.
# usage: CC= PKG_CONFIG= libdir= destdir= prefix= installcheck.sh EXAMPLE DIRECTORY
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
PKG_CONFIG="$PKG_CONFIG${destdir:+ --define-variable=prefix=$destdir$prefix}"
flags=$($PKG_CONFIG --cflags --libs clsample)
# shellcheck disable=SC2086 # flags and compiler are lists of words
$CC "$1" -o "$dir/example" $flags
LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
DYLD_LIBRARY_PATH=$libdir
POCL_CACHE_DIR=$dir/pocl
export LD_LIBRARY_PATH DYLD_LIBRARY_PATH POCL_CACHE_DIR
status=0
"$dir/example" || status=$?
# 77: no device on this machine; compiled and linked it has, all the same.
[ "$status" = 0 ] || [ "$status" = 77 ] || exit 1

source=$(cd "$2" && pwd)
(cd "$dir" && MAKEFLAGS='' MFLAGS='' make -f "$source/Makefile" src="$source" CC="$CC" PKG_CONFIG="$PKG_CONFIG")
model="--checkpoint $dir/random.bin --tokenizer $dir/random.tok"
# shellcheck disable=SC2086 # a list of words
{
    "$dir/llama" $model --make-random
    [ "$status" = 77 ] || "$dir/llama" $model --streams 3 --max-tokens 20 --json
}
