#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves the table, the sentences and the exit statuses of `clsample selftest`. A library that
# reports faults stands in for a faulty device. CLSAMPLE is the command's path. Exits 77 if
# there is no device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

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
says "--help" 'The exit status is 0 if all agree' out
check "clsample --help" "$clsample" --help
says "clsample --help" '^  selftest ' out
not_run "unknown option '--wrong'" --wrong
not_run "unexpected argument 'x'" x
not_run "--dtype: 'f64' is not one of all|f32|f16|bf16" --dtype f64
not_run "--work-group: '-1'" --work-group -1
needs_device
not_run "there is no device 99" --device 99
not_run "3" --dtype f32 --vector 3

# --------------------------------------------------------------------- it runs

exits 0 "selftest" "$clsample" selftest --dtype f32
cp out table
says "the device" '^device    [0-9]*: .' table
says "the driver" '^platform  .*, driver .' table
says "the shape" \
    '^shape     work-group [0-9]*, row-group [0-9]*, vector [0-9]*, shortlist [0-9]*$' table
says "the tier" '^tier      ' table
says "the end" '^all [0-9]* cases agree: [0-9.]* s, after [0-9.]* s for the kernels$' table
is "failures" "$(grep -c ' [0-9][0-9]*  *0$' table)" 33
is "stages in order" \
    "$(sed -n 's/^\(arithmetic\|survey\|top-k\|draw\|slots\|verify: typical\) .*/\1/p' table |
    tr '\n' ' ')" \
    "arithmetic survey top-k draw slots verify: typical "
is "messages" "$(wc -c <err | tr -d ' ')" 0

# ------------------------------------------------------------------------ JSON

# What reads JSON here: what it prints of FILE's PATH (as jq writes it); nothing where the file is
# none.
if command -v jq >/dev/null; then
    value() { jq -r "$1" "$2" 2>&1; }
elif command -v python3 >/dev/null; then
    value() {
        python3 -c 'import json, re, sys
x = json.load(open(sys.argv[2]))
for key in re.findall(r"[A-Za-z_]+|[0-9]+", sys.argv[1]):
    x = len(x) if key == "length" else x[int(key)] if key.isdigit() else x[key]
print(str(x).lower() if isinstance(x, bool) else x)' "$1" "$2" 2>&1
    }
else
    value() { echo "nothing reads JSON here"; }
fi

exits 0 "selftest --json" "$clsample" selftest --dtype f32 --json
cp out told.json
is "messages" "$(wc -c <err | tr -d ' ')" 0
if [ "$(value .failed told.json)" != "nothing reads JSON here" ]; then
    is "JSON: failed" "$(value .failed told.json)" 0
    is "JSON: stages" "$(value '.stages|length' told.json)" 33
    is "JSON: cases" "$(value .cases told.json)" "$(sed -n 's/^all \([0-9]*\) cases.*/\1/p' table)"
    is "JSON: a stage" \
        "$(value '.stages[0].name' told.json) $(value '.stages[0].failed' told.json)" "arithmetic 0"
    is "JSON: a stage's cases" "$(value '.stages[0].cases' told.json)" \
        "$(sed -n 's/^arithmetic  *\([0-9]*\) .*/\1/p' table)"
    is "JSON: programs" "$([ "$(value '.programs|length' told.json)" -gt 20 ] && echo many)" many
    is "JSON: the device" "$(value .device.name told.json)" \
        "$(sed -n 's/^device    [0-9]*: \(.*\), [^,]*$/\1/p' table)"
    is "JSON: it can be used" "$(value .device.usable told.json)" true
    is "JSON: the shape" "$(value .shape.work_group told.json)" \
        "$(sed -n 's/^shape     work-group \([0-9]*\),.*/\1/p' table)"
fi
not_run "there is no device 99" --device 99 --json

# ------------------------------------------------------- it fails, it breaks off

cat >faulty.c <<'EOF'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clsample.h"
cls_status cls_selftest(cls_context *context, cls_selftest_report *r)
{
    (void)context;
    if (getenv("SELFTEST_SECONDS") != NULL)
        sleep((unsigned)atoi(getenv("SELFTEST_SECONDS")));
    r->stage_count = 2;
    r->stages[0] = (cls_selftest_stage){ "arithmetic", 5, 0, "" };
    r->stages[1] = (cls_selftest_stage){ "top-k", 4, 1, "top-k 10: device: token 17, not 23" };
    if (getenv("SELFTEST_NONE") != NULL) {
        r->stage_count = 0;
        return CLS_SELF_TEST_FAILED;
    }
    if (getenv("SELFTEST_ODD") != NULL)
        strcpy(r->stages[1].message, "a \"quote\", a \\, a\ttab, \001, no UTF-8: \377");
    r->failed = 1;
    return atoi(getenv("SELFTEST_STATUS"));
}
EOF
if ${CC:-cc} -shared -fPIC -I"$here/../../include" -DCL_TARGET_OPENCL_VERSION=120 -o faulty.so \
    faulty.c 2>cc.err; then
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 SELFTEST_STATUS=-2006 \
        LD_PRELOAD=$PWD/faulty.so
    export ASAN_OPTIONS SELFTEST_STATUS LD_PRELOAD
    exits 1 "a failure" "$clsample" selftest --dtype f32
    says "a failure" '^arithmetic  *5  *0$' out
    says "a failure" '^top-k  *4  *1  top-k 10: device: token 17, not 23$' out
    says "a failure" '^1 of 9 cases differ' out
    exits 1 "a failure, JSON" "$clsample" selftest --dtype f32 --json
    cp out failed.json
    exits 1 "an odd message, JSON" env SELFTEST_ODD=1 "$clsample" selftest --dtype f32 --json
    cp out odd.json
    # A slow device: a line every ten seconds, but not on a terminal.
    exits 1 "a slow one" env SELFTEST_SECONDS=21 "$clsample" selftest --dtype f32
    is "a slow one: its messages" "$(wc -c <err | tr -d ' ')" 0
    seconds=$(sed -n 's/^clsample: selftest, \([0-9]*\) s: self-test$/\1/p' err.all | head -n 2)
    is "a slow one: seconds between its lines" \
        "$(echo "$seconds" | awk 'NR == 2 { print $1 - last } { last = $1 }')" 10
    if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1; then
        SELFTEST_SECONDS=11 script -qec "$clsample selftest --dtype f32" /dev/null >out
        says "on a terminal" 'self-test' out
        is "on a terminal" "$(grep -c ' s: ' out)" 0
    fi
    exits 1 "a program that is wrong" env SELFTEST_NONE=1 "$clsample" selftest --dtype f32
    says "a program that is wrong" '^clsample: ' err
    SELFTEST_STATUS=-2007
    exits 2 "broken off" "$clsample" selftest --dtype f32
    says "broken off" '^clsample: ' err
    exits 2 "broken off, JSON" "$clsample" selftest --dtype f32 --json
    cp out broken.json
    says "broken off, JSON" '^clsample: ' err
    is "broken off, JSON: sentences" "$(wc -l <err | tr -d ' ')" 1
    unset LD_PRELOAD
    if [ "$(value .failed told.json)" = 0 ]; then
        is "JSON: a failure" "$(value .failed failed.json) of $(value .cases failed.json)" "1 of 9"
        is "JSON: its message" "$(value '.stages[1].message' failed.json)" \
            "top-k 10: device: token 17, not 23"
        is "JSON: an odd message" "$(value '.stages[1].message' odd.json)" \
            "$(printf 'a "quote", a \\, a\ttab, \001, no UTF-8: ?')"
        is "JSON: broken off" "$(value '.stages|length' broken.json)" 2
        is "JSON: a failure is no error" "$(value '.|length' failed.json)" 9
        is "JSON: broken off has one" "$(value '.|length' broken.json)" 10
    fi
else
    no_library
fi

OCL_ICD_VENDORS=$PWD/nothing/ not_run "no OpenCL device found"
finish
