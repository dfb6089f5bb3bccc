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
bytes() { size -A clsample.o | awk '/^\.(text|rodata|data)/ { n += $2 } END { print n }'; }

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
# A program's own allocator has all memory of the library.
own='-Dmalloc=own_malloc -Dcalloc=own_calloc -Drealloc=own_realloc -Dfree=own_free'
# shellcheck disable=SC2086 # a list of words
compile "$cc" -Os $own && {
    nm -u clsample.o | grep -w 'malloc\|calloc\|realloc\|free\|strdup\|aligned_alloc' >names
    [ ! -s names ] && yes_ || no_ "its own allocator: $(cat names)"
    kept=$libraries libraries="$top/tests/package/own_memory.c $libraries"
    draws "$cc" $own
    libraries=$kept
}
compile "$cc" -Os
# refuses PARTS: what needs one of these parts, and nothing else, is refused by the macro's name.
refuses() {
    # shellcheck disable=SC2086
    "$cc" -w -I"$single" "$top/tests/package/left_out.c" clsample.o $libraries -o left_out \
        2>cc.log && ./left_out >asked || no_ "left_out: $(cat cc.log asked)"
    awk -v parts=" $1 " '
        { named = match($0, /CLS_WITHOUT_[A-Z]+/) ? substr($0, RSTART + 12, RLENGTH - 12) : "" }
        named == "" ? index(parts, " " $1 " ") : !index(parts, " " named " ")' asked >wrong
    if [ -s asked ] && [ ! -s wrong ]; then yes_; else no_ "without $1: $(head -3 wrong)"; fi
}
refuses ''
parts=$(sed -n 's/.*foreach(part \(.*\))/\1/p' "$single/CMakeLists.txt")
all=
for part in $parts; do
    all="$all -DCLS_WITHOUT_$part"
    compile "$cc" -Os "-DCLS_WITHOUT_$part" && draws "$cc" "without $part" || continue
    echo "$((whole - $(bytes))) bytes less with CLS_WITHOUT_$part"
    case $part in
    HOST) refuses 'HOST SELFTEST' ;;
    SAMPLERS) refuses 'SAMPLERS VERIFY' ;;
    *) refuses "$part" ;;
    esac
done
# shellcheck disable=SC2086 # a list of words
compile "$cc" -Os $all && draws "$cc" 'without all parts' && refuses "$parts"
# shellcheck disable=SC2086
compile "$cc" -Os $(echo "$all" | sed 's/-DCLS_WITHOUT_BINARIES//') &&
    draws "$cc" 'usual sampling' && echo "$(bytes) bytes for usual sampling with cache_dir" &&
    [ "$(bytes)" -le 260000 ] || no_ 'usual sampling takes more than 260,000 bytes'

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
if command -v meson >/dev/null; then
    rm -rf project out tokens
    mkdir -p project/subprojects
    cp -R "$single" project/subprojects/clsample
    cp "$top/examples/minimal.c" project
    cat >project/meson.build <<'EOC'
project('program', 'c')
executable('minimal', 'minimal.c', dependencies: [
  dependency('clsample', fallback: ['clsample', 'clsample_dep']),
  meson.get_compiler('c').find_library('OpenCL')])
EOC
    CC=$cc meson setup -Dclsample:without=SHARDS,HOST out project >meson.log 2>&1 &&
        ninja -C out >>meson.log 2>&1 && out/minimal >tokens 2>&1
    same "meson: $(tail -3 meson.log)" tokens expected
fi
# What ndk-build does with a module, as far as Android.mk needs it.
rm -rf ndk tokens && mkdir ndk
: >ndk/clear.mk
cat >ndk/static.mk <<'EOC'
lib$(LOCAL_MODULE).a: $(LOCAL_PATH)/$(LOCAL_SRC_FILES)
	$(CC) $(LOCAL_CFLAGS) $(LOCAL_C_INCLUDES:%=-I%) -c $< -o $(LOCAL_MODULE).o
	$(AR) rc $@ $(LOCAL_MODULE).o
EOC
printf '%s\n' "my-dir = $single" 'CLEAR_VARS = ndk/clear.mk' \
    'BUILD_STATIC_LIBRARY = ndk/static.mk' \
    'CLSAMPLE_WITHOUT = SHARDS VERIFY' "include $single/Android.mk" >ndk/Makefile
MAKEFLAGS='' MFLAGS='' make -f ndk/Makefile CC="$cc" libclsample.a >make.log 2>&1 &&
    # shellcheck disable=SC2086
    "$cc" -I"$single" "$top/examples/minimal.c" libclsample.a $libraries -o minimal 2>>make.log &&
    ./minimal >tokens 2>&1
same "Android.mk: $(tail -3 make.log)" tokens expected
says "Android.mk's parts" 'DCLS_WITHOUT_SHARDS -DCLS_WITHOUT_VERIFY' make.log
# The README's own commands.
cp "$single/clsample.c" "$single/clsample.h" "$top/examples/minimal.c" .
sed -n 's/^    \(cc .*\)/\1/p' "$single/README.md" |
    sed "s|^cc|$cc|; s|program\.c|-I. minimal.c|" >commands
rm -f tokens
sh -e ./commands 2>cc.log && ./a.out >tokens 2>&1
same "the README's commands: $(head -3 cc.log)" tokens expected
finish
