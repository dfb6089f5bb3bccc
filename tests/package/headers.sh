#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header compiles alone, as C99, C11 and C++, without a warning (clsample-mpi.h where
# MPI is there), and none but clsample.h is longer than 300 lines of 100 columns.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
check() {
    if "$@" >"$dir/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $*"
        cat "$dir/log"
    fi
}
short() {
    awk 'length > 100 { print FILENAME ":" FNR ": " length " columns"; bad = 1 }
         END { if (NR > 300) print FILENAME ": " NR " lines"; exit bad || NR > 300 }' "$1"
}
flags="-pedantic-errors -Wall -Wextra -Werror -DCL_TARGET_OPENCL_VERSION=120 -I$srcdir/include"
flags="$flags ${CPPFLAGS-} ${OPENCL_CFLAGS-} ${MPI_CFLAGS-}"
for std in c99 c11 c++11 c++17; do
    case $std in c++*) compiler=${CXX:-c++} suffix=cc ;; *) compiler=${CC:-cc} suffix=c ;; esac
    command -v "${compiler%% *}" >/dev/null || {
        echo "no $compiler: headers not compiled as $std"
        continue
    }
    for header in clsample.h $(cd "$srcdir/include" && echo clsample/*.h) \
        ${MPI_CFLAGS:+clsample-mpi.h}; do
        printf '#include "%s"\n' "$header" >"$dir/alone.$suffix"
        # shellcheck disable=SC2086 # compiler and flags are lists of words
        check $compiler -std=$std $flags -c "$dir/alone.$suffix" -o "$dir/alone.o"
    done
done
for header in "$srcdir"/include/clsample/*.h "$srcdir/include/clsample-mpi.h"; do
    check short "$header"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
