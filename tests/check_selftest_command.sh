#!/bin/sh
# SPDX-License-Identifier: MIT
# clsample selftest: its table, its sentences, its exit statuses; a library that
# finds faults stands in for a device that has some.
# CLSAMPLE: the command's path. Exits 77 if there is no device.
# shellcheck source=tests/command.sh
. "$(dirname "$0")/command.sh"

exits() { # STATUS WHAT COMMAND...
    wanted=$1 what=$2
    shift 2
    "$@" >out 2>err
    code=$?
    if [ $code -eq "$wanted" ]; then yes_; else no_ "$what: exit $code, not $wanted: $(head -1 err)"; fi
}
not_run() { # PATTERN ARGUMENTS...: exit 2, one sentence, nothing else
    pattern=$1
    shift
    exits 2 "selftest $*" "$clsample" selftest "$@"
    says "selftest $*" "^clsample: .*$pattern" err
    is "selftest $*: sentences" "$(wc -l <err | tr -d ' ')" 1
    is "selftest $*: output" "$(wc -c <out | tr -d ' ')" 0
}

check "--help" "$clsample" selftest --help
says "--help" '^usage: clsample selftest' out
says "--help" 'Exits 0 if all agree' out
check "clsample --help" "$clsample" --help
says "clsample --help" '^  selftest ' out
not_run "unknown option '--wrong'" --wrong
not_run "unexpected argument 'x'" x
not_run "--dtype: 'f64' is none of all|f32|f16|bf16" --dtype f64
not_run "--work-group: '-1'" --work-group -1
needs_device
not_run "there is no device 99" --device 99
not_run "3" --dtype f32 --vector 3

# --------------------------------------------------------------------- it runs

exits 0 "selftest" "$clsample" selftest --dtype f32
cp out table
says "the device" '^device    [0-9]*: .' table
says "the driver" '^platform  .*, driver .' table
says "the shape" '^shape     work-group [0-9]*, row-group [0-9]*, vector [0-9]*, shortlist [0-9]*$' table
says "the tier" '^tier      ' table
says "the end" '^all [0-9]* cases agree: [0-9.]* s, after [0-9.]* s for the kernels$' table
is "failures" "$(grep -c ' [0-9][0-9]*  *0$' table)" 31
is "stages in order" "$(sed -n 's/^\(arithmetic\|survey\|top-k\|draw\|slots\|verify: greedy\) .*/\1/p' table | tr '\n' ' ')" \
    "arithmetic survey top-k draw slots verify: greedy "
is "messages" "$(wc -c <err | tr -d ' ')" 0

# ------------------------------------------------------- it fails, it breaks off

cat >faulty.c <<'EOF'
#include <stdlib.h>
#include <string.h>
#include "clsample.h"
cls_status cls_selftest(cls_context *context, cls_selftest_report *r)
{
    (void)context;
    r->stages = 2;
    r->stage[0] = (cls_selftest_stage){ "arithmetic", 5, 0, "" };
    r->stage[1] = (cls_selftest_stage){ "top-k", 4, 1, "top-k 10: device: token 17, not 23" };
    r->failed = 1;
    return atoi(getenv("SELFTEST_STATUS"));
}
EOF
if ${CC:-cc} -shared -fPIC -I"$here/../include" -DCL_TARGET_OPENCL_VERSION=120 -o faulty.so faulty.c 2>cc.err; then
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 SELFTEST_STATUS=-2006 LD_PRELOAD=$PWD/faulty.so
    export ASAN_OPTIONS SELFTEST_STATUS LD_PRELOAD
    exits 1 "a failure" "$clsample" selftest --dtype f32
    says "a failure" '^arithmetic  *5  *0$' out
    says "a failure" '^top-k  *4  *1  top-k 10: device: token 17, not 23$' out
    says "a failure" '^1 of 9 cases differ' out
    SELFTEST_STATUS=-2007
    exits 2 "broken off" "$clsample" selftest --dtype f32
    says "broken off" '^clsample: ' err
    unset LD_PRELOAD
else
    echo "left out: no shared library could be made: $(head -1 cc.err)"
fi

OCL_ICD_VENDORS=$PWD/nothing/ not_run "no OpenCL device found"
finish
