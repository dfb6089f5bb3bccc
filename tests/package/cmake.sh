#!/bin/sh
# SPDX-License-Identifier: MIT
# CMake finds the installed libraries and builds a program for each target, EXAMPLE for libclsample;
# it also finds them after they were moved, and through a symbolic link. Where find_package() fails,
# its message names the reason. installcheck.sh runs this.
# usage: CC= prefix= libdir= includedir= cmake.sh EXAMPLE
# shellcheck disable=SC2154 # the caller and checks.sh set the variables
here=$(cd "$(dirname "$0")" && pwd)
example=$(cd "$(dirname "$1")" && pwd)/${1##*/}
# shellcheck source=tests/support/checks.sh
. "$here/../support/checks.sh"
dir=$(pwd -P)
version=$(sh "$here/../../build-aux/version.sh" "$includedir/clsample/base.h")
series=${version%.*}
export CC

mkdir project
cat >project/CMakeLists.txt <<'EOC'
cmake_minimum_required(VERSION 3.10)
project(installcheck C)
set(CMAKE_C_STANDARD 11)
find_package(clsample ${WANTED} CONFIG REQUIRED COMPONENTS ${PARTS})
foreach(target clsample clsample-static head head-static mpi mpi-static)
    if(TARGET clsample::${target})
        get_target_property(file clsample::${target} IMPORTED_LOCATION)
        message("target ${target} ${file}")
        string(REPLACE "-static" "" source ${target})
        add_executable(use-${target} ${source}.c)
        target_compile_options(use-${target} PRIVATE -Wall -Wextra -Werror)
        target_link_libraries(use-${target} clsample::${target})
    endif()
endforeach()
message("head found: ${clsample_head_FOUND}")
EOC
cp "$example" project/clsample.c
program() { # HEADER EXPRESSION
    echo '#define CL_TARGET_OPENCL_VERSION 120'
    printf '#include <%s>\nint main(void) { return %s; }\n' "$@"
}
program clsample/head.h 'cls_head_has_clblast() > 1' >project/head.c
program clsample-mpi.h 'cls_mpi_shard(0) != 0' >project/mpi.c

# PLACE WANTED PARTS: runs CMake; its lines go to `found`, and as one line to `found.line`
find_package() {
    cmake -Sproject -Bbuild -Uclsample_DIR "-DCMAKE_PREFIX_PATH=$1" "-DWANTED=$2" "-DPARTS=$3" \
        >found 2>&1
    code=$?
    tr -s ' \n' '  ' <found >found.line
    return $code
}
finds() { # FOLDER PLACE WANTED PARTS: the libraries are in FOLDER
    folder=$1
    shift
    if find_package "$@"; then
        says "find_package() of '$2' '$3'" "^target clsample $folder/libclsample\." found
    else
        no_ "find_package() of '$2' '$3': $(cat found)"
    fi
}
refuses() { # REASON PLACE WANTED PARTS
    reason=$1
    shift
    if find_package "$@"; then
        no_ "find_package() of '$2' '$3' in $1 must fail: $reason"
    else
        says "find_package() of '$2' '$3'" "$reason" found.line
    fi
}
build() { # TARGET
    if cmake --build build --target "$1" >built 2>&1; then yes_; else no_ "$1: $(cat built)"; fi
}

# The second place is for a libdir that CMake does not search.
installed="$prefix;$libdir/cmake"
finds "$libdir" "$installed" '' ''
grep '^target' found
build all
for program in build/use-*; do
    [ -x "$program" ] || continue
    status=0
    $program >out 2>&1 || status=$?
    case $status in
    0) yes_ ;;
    77) echo "no OpenCL device here: ${program##*/} was built, but not run" ;;
    *) no_ "$program: exit status $status, $(cat out)" ;;
    esac
done

finds "$libdir" "$installed" "$series" head
finds "$libdir" "$installed" "$version;EXACT" ''
found_version="clsample-config.cmake, version: $version"
refuses "$found_version" "$installed" 99 ''
refuses "$found_version" "$installed" "$series.99" ''
refuses "$found_version" "$installed" 0.1 ''
case $(cmake --version) in
*' 3.'[0-9].* | *' 3.1'[0-8].*) echo 'this CMake is older than 3.19: no ranges of versions' ;;
*)
    finds "$libdir" "$installed" "0.1...$version" ''
    refuses "$found_version" "$installed" "0.1...<$version" ''
    ;;
esac
refuses 'gpu: no such component; there are' "$installed" '' 'head;gpu'

# A copy of the files under another prefix, if all are under one.
lib=${libdir#"$prefix"/} include=${includedir#"$prefix"/}
if [ "$lib" = "$libdir" ] || [ "$include" = "$includedir" ]; then
    echo "$libdir or $includedir is not in $prefix: the libraries are not moved"
else
    moved=$dir/moved
    mkdir -p "$moved/$lib/cmake" "$moved/$include" "$dir/linked"
    cp -R "$includedir"/clsample* "$moved/$include"
    cp -RP "$libdir"/libclsample* "$moved/$lib"
    cp -R "$libdir/cmake/clsample" "$moved/$lib/cmake"
    ln -s "$moved/${lib%%/*}" "$dir/linked/${lib%%/*}"
    there="$moved;$moved/$lib/cmake"
    finds "$moved/$lib" "$dir/linked;$dir/linked/$lib/cmake" '' head
    finds "$moved/$lib" "$there" '' head
    build use-clsample

    rm "$moved/$lib"/libclsample-*
    refuses "head: $moved/$lib has no libclsample-head\." "$there" '' head
    refuses "mpi: $moved/$lib has no libclsample-mpi\." "$there" '' mpi
    finds "$moved/$lib" "$there" '' 'OPTIONAL_COMPONENTS;head'
    says 'an optional component that is missing' '^head found: FALSE' found
    if [ -f "$moved/$lib/libclsample.a" ]; then
        find "$moved/$lib" -name 'libclsample*' ! -name 'libclsample.a' -exec rm {} +
        finds "$moved/$lib" "$there" '' clsample-static
        build use-clsample
        rm "$moved/$lib/libclsample.a"
    else
        refuses "clsample-static: $moved/$lib has no libclsample.a\." "$there" '' clsample-static
        rm "$moved/$lib"/libclsample*
    fi
    refuses "clsample: $moved/$lib has no libclsample\." "$there" '' ''
    rm "$moved/$include/clsample.h"
    refuses "$moved/$include has no clsample.h" "$there" '' ''
fi
echo "CMake: $passed checks passed, $failed failed"
[ "$failed" = 0 ]
