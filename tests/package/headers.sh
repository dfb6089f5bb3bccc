#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header compiles alone, as C99, C11 and C++, without a warning (clsample-mpi.h where
# MPI is there), and none but clsample.h is longer than 360 lines of 100 columns. The code
# in README.md compiles, too.
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
         END { if (NR > 360) print FILENAME ": " NR " lines"; exit bad || NR > 360 }' "$1"
}
warnings='-pedantic-errors -Wall -Wextra -Werror'
include="-I$srcdir/include ${CPPFLAGS-} ${OPENCL_CFLAGS-} ${MPI_CFLAGS-}"
flags="$warnings $include -DCL_TARGET_OPENCL_VERSION=120"
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
# The code of README.md, as a function. Its variables are those that it takes for granted.
awk '/^## / { on = $0 ~ /Use it/ } on && /^    / && !/^    cc /' "$srcdir/README.md" >"$dir/code"
check test "$(wc -l <"$dir/code")" -gt 20
{
    grep '^    #' "$dir/code"
    echo 'void must(cls_status status);'
    echo 'void show(void *user, const char *program, uint32_t done, uint32_t count);'
    echo '#define ARGUMENTS cl_context cl, cl_device_id device, cl_command_queue queue, \'
    echo '    cl_mem logits, cl_mem tokens'
    echo 'void run(ARGUMENTS);'
    echo 'void run(ARGUMENTS) {'
    grep -v '^    #' "$dir/code"
    echo '}'
} >"$dir/readme.c"
# shellcheck disable=SC2086 # compiler and flags are lists of words
check ${CC:-cc} -std=c11 $warnings $include -c "$dir/readme.c" -o "$dir/readme.o"
for header in "$srcdir"/include/clsample/*.h "$srcdir/include/clsample-mpi.h"; do
    check short "$header"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
