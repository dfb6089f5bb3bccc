#!/bin/sh
# SPDX-License-Identifier: MIT
# The library in one file: `make amalgamation` needs nothing that bootstrap does not install. The
# file compiles without a warning, computes the tokens of the library that it was made from, and
# each part can be left out. Prints what each part takes. It is built as its README says: by the
# command, by CMake inside another project, and by CMake from a release archive.
top=$(cd "$srcdir" && pwd)
build=$(pwd)
single=$build/amalgamation
# shellcheck source=tests/support/checks.sh
. "$srcdir/tests/support/checks.sh"
warnings='-std=c11 -Wall -Wextra -Wconversion -Werror -fvisibility=hidden'
libraries="${OPENCL_LIBS:--lOpenCL} -lpthread -lm"

# compile CC FLAGS...: clsample.o, which links no OpenCL.
compile() {
    # shellcheck disable=SC2086 # a list of words
    if "$@" $warnings -c "$single/clsample.c" -o clsample.o >cc.log 2>&1 &&
        ! nm -u clsample.o | grep ' cl[A-Z]' >cc.log; then
        yes_
    else
        no_ "$*: $(head -3 cc.log)"
        return 1
    fi
}
# draws CC: examples/minimal.c with clsample.o prints what it prints with the library.
draws() {
    # shellcheck disable=SC2086
    rm -f tokens
    "$1" -I"$single" "$top/examples/minimal.c" clsample.o $libraries -o minimal 2>cc.log &&
        ./minimal >tokens 2>&1
    same "the tokens of $*" tokens expected
}
bytes() { size clsample.o | awk 'NR == 2 { print $1 + $2 }'; }

# Of what bootstrap does not install, zip is the likeliest to slip in.
mkdir without && printf '#!/bin/sh\nexit 127\n' >without/zip && chmod +x without/zip
env PATH="$dir/without:$PATH" MAKEFLAGS='' MFLAGS='' make -C "$build" amalgamation >make.log 2>&1 ||
    no_ "make amalgamation: $(tail -3 make.log)"
says "make amalgamation" "^the library in one file, .*: $single$" make.log

"$build/examples/minimal" >expected
clang=$(command -v clang || command -v clang-15) && compile "$clang" -O1 && draws "$clang"
# Fused operations round once: without the pragmas in the file these flags would use them.
cc=${CC:-cc}
if [ "$(uname -m)" = x86_64 ] && grep -qw fma /proc/cpuinfo; then
    compile "$cc" -O2 -mfma -std=gnu11 && draws "$cc" -mfma
    objdump -d clsample.o >code
    if [ -s code ] && ! grep -q vfmadd code; then yes_; else no_ 'it has fused operations'; fi
fi
"$cc" -ffast-math -c "$single/clsample.c" -o fast.o 2>cc.log && no_ '-ffast-math is accepted'
says '-ffast-math' 'not -ffast-math' cc.log

compile "$cc" -Os && draws "$cc" && whole=$(bytes) && echo "$whole bytes in all"
for part in SHARDS SELFTEST BINARIES; do
    compile "$cc" -Os -DCLS_WITHOUT_$part && draws "$cc" "without $part" &&
        echo "$((whole - $(bytes))) bytes less with CLS_WITHOUT_$part"
done
compile "$cc" -Os -DCLS_WITHOUT_SHARDS -DCLS_WITHOUT_SELFTEST -DCLS_WITHOUT_BINARIES &&
    draws "$cc" 'without all parts' && echo "$(bytes) bytes without all of them"
for call in cls_shard_create cls_selftest cls_context_export; do
    printf '#define CL_TARGET_OPENCL_VERSION 120\n#include "clsample.h"\n%s\n' \
        "void (*f)(void) = (void (*)(void))$call; int main(void) { return f == 0; }" >call.c
    # shellcheck disable=SC2086
    "$cc" -w -I"$single" call.c clsample.o $libraries -o call 2>cc.log
    says "$call without its part" "undefined reference to .$call" cc.log
done

if command -v cmake >/dev/null; then
    project() { # COMMAND: examples/minimal.c as a project whose CMakeLists.txt gets clsample by it
        rm -rf project out tokens
        mkdir -p project/third_party archive/clsample-1
        cp -R "$single" project/third_party/clsample
        cp -R "$single" archive/clsample-1/amalgamation
        tar -C archive -cf project/clsample.tar clsample-1
        cp "$top/examples/minimal.c" project
        cat >project/CMakeLists.txt <<EOC
cmake_minimum_required(VERSION 3.18)
project(program C)
$1
add_executable(minimal minimal.c)
find_package(OpenCL REQUIRED)
target_link_libraries(minimal PRIVATE clsample::clsample OpenCL::OpenCL)
EOC
        cmake -S project -B out -DCLSAMPLE_WITHOUT_SHARDS=ON -DCMAKE_C_COMPILER="$cc" \
            >cmake.log 2>&1 && cmake --build out >>cmake.log 2>&1 && out/minimal >tokens 2>&1
        same "CMake, $1: $(tail -3 cmake.log)" tokens expected
    }
    project 'set(CMAKE_C_STANDARD 11)
add_subdirectory(third_party/clsample)'
    # shellcheck disable=SC2016 # the variable is CMake's
    project 'include(FetchContent)
FetchContent_Declare(clsample URL ${CMAKE_SOURCE_DIR}/clsample.tar SOURCE_SUBDIR amalgamation)
FetchContent_MakeAvailable(clsample)'
fi
# The README's own commands.
cp "$single/clsample.c" "$single/clsample.h" "$top/examples/minimal.c" .
sed -n 's/^    \(cc .*\)/\1/p' "$single/README.md" |
    sed "s|^cc|$cc|; s|program\.c|-I. minimal.c|" >commands
rm -f tokens
sh -e ./commands 2>cc.log && ./a.out >tokens 2>&1
same "the README's commands: $(head -3 cc.log)" tokens expected
finish
