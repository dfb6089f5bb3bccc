#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles the kernels by clang's front end, which warns where drivers are
# silent: as OpenCL C 1.2, in the shapes of a CPU, a GPU and the least device.
# usage: kernel-syntax.sh [SOURCE DIRECTORY]
set -eu
cd "${1:-$(dirname "$0")/../..}"
if ! command -v "${CLANG:=clang}" >/dev/null; then
    echo "no clang here"
    exit 77
fi
order=build-aux/cl-order.sh
kernels=$(cd cl && echo kernels/*.cl)
# Unused: the helpers are for all kernels, and kernels share their arguments.
passed=0 failed=0
for shape in '1 16 2048' '256 4 1024' '12 2 16' '7 8 64'; do
    # shellcheck disable=SC2086 # three numbers
    set -- $shape
    for kernel in $kernels; do
        search=
        [ "$kernel" != kernels/search.cl ] || search=-DSEARCH=1
        for dtype in 0 1 2; do
            # shellcheck disable=SC2086 # an option or none
            sh $order --text cl "$kernel" |
                "$CLANG" -x cl -cl-std=CL1.2 -fsyntax-only -Xclang -finclude-default-header \
                    -Werror -Wall -Wextra -Wno-unused-function -Wno-unused-parameter \
                    -DWGS="$1" -DVEC="$2" -DLIST="$3" -DDTYPE=$dtype -DFORCED=1 $search - &&
                passed=$((passed + 1)) || failed=$((failed + 1))
        done
    done
done
# What the host compiles for rows, chains and requests that ask for less. A bare row's functions
# leave arguments alone.
for shape in '1 16 2048' '256 4 1024'; do
    # shellcheck disable=SC2086 # three numbers
    set -- $shape
    for variant \
        in 'pass -DROW=0' \
        'search -DROW=0 -DSEARCH=1' 'search -DCHAIN=1 -DSEARCH=1' \
        'search -DROW=0 -DCHAIN=1 -DSEARCH=1' \
        'token -DROW=0' 'token -DCHAIN=1' 'token -DROW=0 -DCHAIN=1' 'token -DCHAIN=0' \
        'token -DROW=0 -DCHAIN=0' 'token -DFORCED=0' \
        'search -DFORCED=0 -DSEARCH=1' 'slots -DCHANGES=0' \
        'distribution -DROW=0' 'report -DROW=0' 'kept -DROW=0' 'survey -DROW=0 -DSHARD=1' \
        'survey -DSHARD=1' \
        'partial -DCHAIN=1 -DSHARD=1' 'merge -DROW=0 -DCHAIN=0'; do
        # shellcheck disable=SC2086 # a kernel's name and options
        sh $order --text cl "kernels/${variant%% *}.cl" |
            "$CLANG" -x cl -cl-std=CL1.2 -fsyntax-only -Xclang -finclude-default-header \
                -Werror -Wall -Wextra -Wno-unused-function -Wno-unused-parameter \
                -DWGS="$1" -DVEC="$2" -DLIST="$3" -DDTYPE=1 ${variant#* } - &&
            passed=$((passed + 1)) || failed=$((failed + 1))
    done
done
# Where a compiler chooses the size of sub-groups, every kernel requires one that divides the group.
required() { # extensions, SUBGROUPS, WGS, attribute
    for kernel in $kernels; do
        # shellcheck disable=SC2086 # a list of options
        sh $order --text cl "$kernel" |
            "$CLANG" -x cl -cl-std=CL1.2 -E -P $1 -DSUBGROUPS="$2" -DWGS="$3" -DVEC=4 \
                -DLIST=64 -DDTYPE=0 -DTIER=2 - | tr '\n' ' ' |
            grep -q "__kernel *$4 *__attribute__((reqd_work_group_size($3, 1, 1)))" &&
            passed=$((passed + 1)) && continue
        echo "$kernel: not $4 in groups of $3"
        failed=$((failed + 1))
    done
}
required -Dcl_intel_required_subgroup_size 2 256 '__attribute__((intel_reqd_sub_group_size(16)))'
required -Dcl_intel_required_subgroup_size 2 12 ''
required -Dcl_qcom_reqd_sub_group_size 3 256 '__attribute__((qcom_reqd_sub_group_size("half")))'
required -Dcl_qcom_reqd_sub_group_size 3 32 ''
required '' 2 256 ''
required '-Dcl_intel_required_subgroup_size -Dcl_intel_vec_len_hint' 2 256 \
    '__attribute__((intel_vec_len_hint(1)))'
# Kernels have names of their own for special values (doc/kernels.md, rule 8).
grep -nE 'INFINITY|isnan|isinf|isfinite' cl/*/* && failed=$((failed + 1)) || passed=$((passed + 1))
# The host passes how many groups there are (doc/kernels.md, rule 14).
grep -nE 'get_num_groups|get_global_size' cl/*/*.cl && failed=$((failed + 1)) ||
    passed=$((passed + 1))
# The LM head's program: WGS LANES VEC ROWS TOKENS, with fma() and without, for both types of
# weights.
for shape in '1 1 16 4 4' '256 16 4 4 2' '7 1 2 1 1'; do
    for options in -DFUSED '' -DWEIGHT_F32 '-DWEIGHT_F32 -DFUSED'; do
        # shellcheck disable=SC2086 # five numbers
        set -- $shape
        # shellcheck disable=SC2086 # a list of options
        sh $order --text cl head/head.cl |
            "$CLANG" -x cl \
                -cl-std=CL1.2 -fsyntax-only -Xclang -finclude-default-header -Werror -Wall -Wextra \
                -Wno-unused-function -Wno-unused-parameter \
                -DWGS="$1" -DLANES="$2" -DVEC="$3" -DROWS="$4" -DTOKENS="$5" $options - &&
            passed=$((passed + 1)) || failed=$((failed + 1))
    done
done
# Vendors' ways to exchange within sub-groups, as far as clang knows them: SUBGROUPS, target,
# processor.
for vendor in '5 nvptx64 sm_70' '4 amdgcn-amd-amdhsa gfx900' '4 amdgcn-amd-amdhsa gfx1030'; do
    # shellcheck disable=SC2086 # three words
    set -- $vendor
    sh $order --text cl core/groups.cl |
        "$CLANG" -target "$2" -Xclang -target-cpu -Xclang "$3" -nogpulib -x cl \
            -cl-std=CL1.2 -fsyntax-only \
            -Xclang -finclude-default-header -Werror -Wall -Wextra -Wno-unused-function \
            -Wno-unused-parameter \
            -DWGS=64 -DSUBGROUPS="$1" - &&
        passed=$((passed + 1)) || failed=$((failed + 1))
done
# The faults that prove the self-test are built by hand only; their texts must stand in the kernels.
sh tests/stress/selftest_mutants.sh --texts && passed=$((passed + 1)) || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ $failed = 0 ]
