#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles each installed header as C99, C11 and C++, if there is a compiler of that, into a program
# that calls its library, and runs it; compiles and runs each EXAMPLE, a file, against the installed
# libraries, as clsample.pc says, and builds tensor_parallel.c beside the first one by
# clsample-mpi.pc and clsample-head.pc. The first EXAMPLE is also compiled as C++17 by GCC and
# Clang, and built by CMake (cmake.sh). The last line says that all passed.
# usage: CC= [CXX=] PKG_CONFIG= libdir= includedir= destdir= prefix= installcheck.sh EXAMPLE...
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
PKG_CONFIG="$PKG_CONFIG${destdir:+ --define-variable=prefix=$destdir$prefix}"
flags=$($PKG_CONFIG --cflags --libs clsample)
LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
DYLD_LIBRARY_PATH=$libdir
POCL_CACHE_DIR=$dir/pocl
export LD_LIBRARY_PATH DYLD_LIBRARY_PATH POCL_CACHE_DIR
warnings='-pedantic-errors -Wall -Wextra -Werror'
# HEADER EXPRESSION FLAGS...: programs that include it and use the library; the expression is 0.
headers() {
    header=$1
    printf '#include <%s>\nint main(void) { return %s; }\n' "$1" "$2" |
        tee "$dir/header.c" >"$dir/header.cc"
    shift 2
    for std in c99 c11 c++11 c++17; do
        case $std in
        c++*) compiler=${CXX:-c++} file=header.cc ;;
        *) compiler=$CC file=header.c ;;
        esac
        command -v "${compiler%% *}" >/dev/null ||
            { echo "no $compiler: header not compiled as $std"; continue; }
        # The target is OpenCL's, which its header otherwise asks for aloud.
        # shellcheck disable=SC2086 # a list of words
        $compiler -std=$std $warnings -DCL_TARGET_OPENCL_VERSION=120 "$dir/$file" \
            -o "$dir/header" "$@"
        "$dir/header" || { echo "$header: the program fails"; exit 1; }
    done
}
# shellcheck disable=SC2086 # flags are lists of words
for part in base chain params context programs sampler slot step outputs verify readback \
    shard host selftest layout; do
    headers "clsample/$part.h" 0 $flags
done
# shellcheck disable=SC2086 # likewise
headers clsample.h 'cls_version_number() != CLS_VERSION_NUMBER' $flags
# shellcheck disable=SC2046 # flags are lists of words
headers clsample/head.h 'cls_head_has_clblast() > 1' $($PKG_CONFIG --cflags --libs clsample-head)
if $PKG_CONFIG --exists clsample-mpi; then
    # shellcheck disable=SC2046 # flags are lists of words
    headers clsample-mpi.h 'cls_mpi_shard(0) != 0' $($PKG_CONFIG --cflags --libs clsample-mpi)
fi
case $($PKG_CONFIG --libs --static clsample) in
*clblast* | *mpi*)
    echo "clsample.pc names CLBlast or MPI"
    exit 1
    ;;
esac
run='and the examples run'
example() { # FILE COMPILER...: compiles it and runs it
    file=$1
    shift
    # shellcheck disable=SC2086 # flags are lists of words
    "$@" $warnings "$file" -o "$dir/example" $flags
    status=0
    "$dir/example" || status=$?
    case $status in
    0) echo "$file: compiled by $*, and run" ;;
    77)
        run='but the examples were not run: no OpenCL device here'
        echo "$file: compiled by $*, but not run: no OpenCL device here"
        ;;
    *) echo "$file: exit status $status, by $*"; exit 1 ;;
    esac
}
minimal=$1
for compiler in g++ clang++; do
    if command -v $compiler >/dev/null; then
        example "$minimal" $compiler -std=c++17 -x c++
    else
        echo "no $compiler: $minimal is not compiled as C++17"
    fi
done
for file; do
    # shellcheck disable=SC2086 # a list of words
    example "$file" $CC
done

if $PKG_CONFIG --exists clsample-mpi; then
    # shellcheck disable=SC2046,SC2086 # lists of words
    $CC $warnings "${minimal%/*}/tensor_parallel.c" -o "$dir/example" \
        $($PKG_CONFIG --cflags --libs clsample-mpi clsample-head)
    echo 'tensor_parallel.c: compiled'
fi
if command -v cmake >/dev/null; then
    # shellcheck disable=SC2154 # the caller sets the variables
    CC=$CC prefix=$destdir$prefix libdir=$libdir includedir=$includedir \
        sh "${0%/*}/cmake.sh" "$minimal"
else
    echo 'no cmake: find_package(clsample) is not tested'
fi
echo "installcheck passed: headers and examples compile against $libdir, $run"
