# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck disable=SC2034 # what is set here is used there
# What the tests of the command share: checks, files, runs.
here=$(cd "$(dirname "$0")" && pwd) || exit 99
clsample=${CLSAMPLE:-./clsample}
case $clsample in
*/*) clsample=$(cd "$(dirname "$clsample")" && pwd)/$(basename "$clsample") ;;
esac
# shellcheck source=tests/support/checks.sh
. "$here/../support/checks.sh"

# ----------------------------------------------------------------- the checks

refused() { refused_by clsample "$clsample" "$@"; }

check() { # WHAT COMMAND...: the command succeeds
    what=$1
    shift
    if run_quietly "$@"; then yes_; else no_ "$what: $(head -1 err)"; fi
}

is() { # WHAT A B: the strings are equal
    if [ "$2" = "$3" ]; then yes_; else no_ "$1: '$2' is not '$3'"; fi
}

exits() { # STATUS WHAT COMMAND...: the command exits with the status
    wanted=$1 what=$2
    shift 2
    run_quietly "$@"
    if [ $code -eq "$wanted" ]; then
        yes_
    else
        no_ "$what: exit $code, not $wanted: $(head -1 err)"
    fi
}

# ------------------------------------------------------------------ .npy files

npy() { # FILE DESCR SHAPE: starts a file; the data follow
    printf "\\223NUMPY\\001\\000\\166\\000%-117s\\n" \
        "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }" >"$1"
}

bytes() { # FILE HEX...: little-endian numbers, as hexadecimal digits
    file=$1
    shift
    for number; do
        octal=
        while [ -n "$number" ]; do
            rest=${number%??}
            octal=$octal\\$(printf %03o "0x${number#"$rest"}")
            number=$rest
        done
        # shellcheck disable=SC2059
        printf "$octal" >>"$file"
    done
}

ints() { # FILE SHAPE NUMBER...: int32
    file=$1
    npy "$file" '<i4' "$2"
    shift 2
    for number; do bytes "$file" "$(printf %08x $((number & 4294967295)))"; done
}

data() { tail -c +129 "$1" | od -An -v -t d4 | tr -s ' \n' ' '; }

# 8 rows of 37 tokens, whose values float16 and bfloat16 hold, too: quarters
# from -4 to 4, scattered.
npy f32.npy '<f4' '8, 37'
npy f16.npy '<f2' '8, 37'
npy bf16.npy '<u2' '8, 37'
f32='' f16='' bf16=''
i=0
while [ $i -lt 296 ]; do
    case $(((i * i * 7 + i * 13) % 8)) in
    0) f32="$f32 00000000" f16="$f16 0000" bf16="$bf16 0000" ;;
    1) f32="$f32 3f800000" f16="$f16 3c00" bf16="$bf16 3f80" ;;
    2) f32="$f32 c0000000" f16="$f16 c000" bf16="$bf16 c000" ;;
    3) f32="$f32 40200000" f16="$f16 4100" bf16="$bf16 4020" ;;
    4) f32="$f32 bf000000" f16="$f16 b800" bf16="$bf16 bf00" ;;
    5) f32="$f32 40800000" f16="$f16 4400" bf16="$bf16 4080" ;;
    6) f32="$f32 3fa00000" f16="$f16 3d00" bf16="$bf16 3fa0" ;;
    7) f32="$f32 c0400000" f16="$f16 c200" bf16="$bf16 c040" ;;
    esac
    i=$((i + 1))
done
# shellcheck disable=SC2086
{ bytes f32.npy $f32; bytes f16.npy $f16; bytes bf16.npy $bf16; }

# A clean row, one with NaN, one with +inf, one with nothing.
npy bad.npy '<f4' '4, 3'
bytes bad.npy 3f800000 40000000 3f800000 7fc00000 3f800000 3f800000 7f800000 00000000 00000000 \
    ff800000 ff800000 7fc00000

# Row r allows token r alone; its words are wider than the vocabulary.
npy mask.npy '<i4' '8, 2'
bytes mask.npy 00000001 00000000 00000002 00000000 00000004 00000000 00000008 00000000 \
    00000010 00000000 00000020 00000000 00000040 00000000 00000000 00000010

# ------------------------------------------------------------- host and device

# Runs on a device take their programs from this folder, unless this is empty: without it, each of
# some hundred runs has the driver preprocess all kernels, which is two thirds of its time. What it
# holds outlives the test, as the driver's own cache does (tests/support/kernels.sh).
programs=${CLS_TEST_PROGRAMS:-$dir/clsample}
mkdir -p "$programs" || exit 99

"$clsample" devices --json >devices.json
devices=host
grep -q '"default": true' devices.json && devices="host device"

host() { "$clsample" sample --device host --logits f32.npy "$@"; }
host_refused() { # PATTERN ARGUMENTS...
    pattern_=$1
    shift
    refused "$pattern_" sample --device host --logits f32.npy "$@"
}

json() { echo "$1" >p.json; shift; host_refused "p.json: $1" --params p.json; }

run_on() { # host|device ARGUMENTS
    where=$1
    shift
    if [ "$where" = host ]; then
        "$clsample" sample --device host "$@"
    else
        "$clsample" sample ${programs:+--cache-dir "$programs"} "$@"
    fi
}

both() { # OPTIONS: the same positions, tokens and status on host and device
    name=$*
    check "host $name" "$clsample" sample --device host --tokens a.npy --json "$@"
    sed '/"logprob/,/]/d' out >a.out
    check "device $name" "$clsample" sample ${programs:+--cache-dir "$programs"} --tokens b.npy \
        --json "$@"
    sed '/"logprob/,/]/d' out >b.out
    same "tokens of $name" a.npy b.npy
    same "status of $name" a.out b.out
}

needs_device() { # exits 77 without one
    if [ "$devices" = host ]; then
        echo "no device: $passed passed, $failed failed on the host"
        [ $failed -eq 0 ] && exit 77
        exit 1
    fi
}

# -------------------------------------------------------------------- interrupts

# interrupting.so raises SIGINT at the INTERRUPT_AT-th case of a bench, or with INTERRUPT_AT_STEP
# at that step of serving; twice with INTERRUPT_TWICE.
make_interrupting() {
    cat >interrupting.c <<'EOF'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include "clsample.h"
/* A script's background ignores it. */
__attribute__((constructor)) static void hear(void) { signal(SIGINT, SIG_DFL); }
static void count(const char *name, int *n)
{
    const char *const at = getenv(name);
    if (at == NULL || ++*n != atoi(at))
        return;
    raise(SIGINT);
    if (getenv("INTERRUPT_TWICE") != NULL)
        raise(SIGINT);
}
uint32_t cls_sampler_launches(const cls_sampler *sampler)
{
    static int n;
    (void)sampler;
    count("INTERRUPT_AT", &n);
    return 1;
}
cls_status cls_readback_get(cls_readback *readback, uint64_t ticket, int block, const void **data)
{
    static int n;
    cls_status (*const get)(cls_readback *, uint64_t, int, const void **) =
        (cls_status (*)(cls_readback *, uint64_t, int, const void **))dlsym(
            RTLD_NEXT, "cls_readback_get");
    count("INTERRUPT_AT_STEP", &n);
    return get(readback, ticket, block, data);
}
EOF
    ${CC:-cc} -shared -fPIC -I"$here/../../include" -DCL_TARGET_OPENCL_VERSION=120 \
        -o interrupting.so interrupting.c -ldl \
        2>cc.err
}

interrupted() { # VARIABLE=VALUE... COMMAND...: with interrupting.so; its status is in code
    env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
        LD_PRELOAD="$PWD/interrupting.so" "$@" >out 2>err
    code=$?
}
