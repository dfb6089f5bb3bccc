#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves the two files, the sentences and the exit statuses of `clsample report`. A library that
# reports faults stands in for a faulty device. CLSAMPLE is the command's path. Exits 77 if
# there is no device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

not_run() { # PATTERN ARGUMENTS...: exit 2, one sentence, nothing measured, no file
    sentence=$1
    shift
    rm -f clsample-report.json clsample-report.md
    exits 2 "report $*" "$clsample" report "$@"
    says "report $*" "^clsample: .*$sentence" err
    is "report $*: sentences" "$(wc -l <err | tr -d ' ')" 1
    is "report $*: output" "$(wc -c <out | tr -d ' ')" 0
    is "report $*: files" "$(echo clsample-report.*)" 'clsample-report.*'
}
# WHAT FILE: as many objects and arrays are closed as opened, and the last line closes the first
balanced() {
    is "$1: braces" "$(grep -c '[[{]$' "$2")" "$(grep -c '^ *[]}],*$' "$2")"
    is "$1: ends" "$(head -1 "$2")$(tail -1 "$2")" '{}'
}

check "--help" "$clsample" report --help
says "--help" '^usage: clsample report' out
says "--help" 'status is 0 if' out
check "clsample --help" "$clsample" --help
says "clsample --help" '^  report ' out
not_run "unknown option '--wrong'" --wrong
not_run "unexpected argument 'x'" x
not_run "--dtype: 'f64' is not one of all|f32|f16|bf16" --dtype f64
not_run "--output: a value is missing" --output
not_run "--output: '.json' is not a usable file name" --output .json
not_run "--output: 'own.md' is the name of a page" --output own.md
echo "my notes" >own.md
not_run "--output: the page would overwrite own.md, which is no page of a report" --output own.json
is "a page that no report wrote" "$(cat own.*)" "my notes"
needs_device
not_run "there is no device 99" --device 99
not_run "--output: nowhere/x.json: cannot be written: No such file or directory" --output \
    nowhere/x.json
mkdir is-folder.md
not_run "--output: is-folder.md: cannot be written: Is a directory" --output is-folder.json

# ------------------------------------------------------------------ it runs

echo "# clsample report: an earlier one" >mine.md
exits 0 "report --quick" "$clsample" report --quick --output mine.json
cp out told
is "messages" "$(wc -c <err | tr -d ' ')" 0
name=$(sed -n 's/^device     [0-9]*: \(.*\), [^,]*$/\1/p' told)
is "the device" "${name:+named}" named
says "the end" '^All parts ran, and all results agree\.$' told
is "the files" "$(tail -2 told | tr -d ' ' | tr '\n' ' ')" "mine.json mine.md "
balanced "mine.json" mine.json
for key in report_version clsample time system machine complete doing failures device name \
    platform driver opencl_c \
    version profile address_bits compute_units max_work_group local_mem_bytes global_mem_bytes \
    max_parameter_bytes \
    infinities extensions shape work_group row_group vector shortlist tier subgroups start \
    queue_seconds \
    context_seconds sampler_seconds first_step_seconds later_step_seconds compile feature programs \
    dtype origin seconds \
    private_mem_bytes preferred_multiple selftest stages cases failed bench floor_shape floor_us \
    step_us ratio; do
    says "mine.json" "^ *\"$key\": " mine.json
done
says "it is complete" '^  "complete": true,$' mine.json
says "no failures" '^  "failures": \[\],$' mine.json
is "stages" "$(grep -c '"message": ' mine.json)" 33
is "types" "$(sed -n '/"dtypes"/,/]/p' mine.json | tr -d ' \n')" '"dtypes":["float32"],'
is "cases" "$(sed -n 's/^ *"case": "\(.*\)",$/\1/p' mine.json | tr '\n' ' ')" \
    "greedy topk plain topp_peaked "
is "the page's title" "$(head -1 mine.md)" "# clsample report: $name"
for part in Device Shape Self-test Start Programs Bench; do says "mine.md" "^## $part\$" mine.md; \
    done
says "mine.md" '^All parts ran, and all results agree\.$' mine.md
says "mine.md" '^| token-list | float32 | ' mine.md
says "mine.md" '^| verify: typical | [1-9][0-9]* | 0 |' mine.md
says "mine.md" '^| topk | [0-9.]* | [0-9.]* | [0-9.]* |' mine.md

# ------------------------------------------------ it fails, and goes on to the end

cat >faulty.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include "clsample.h"
static const char *sentence = "nothing yet";
const char *cls_error_message(void) { return sentence; }
cls_status cls_selftest(cls_context *context, cls_selftest_report *r)
{
    (void)context;
    r->stage_count = 2;
    sentence = "the program prepare gives another token than the host";
    if (getenv("NO_CASES") != NULL)
        return CLS_SELF_TEST_FAILED;
    r->stages[0] = (cls_selftest_stage){ "arithmetic", 5, 0, "" };
    r->stages[1] = (cls_selftest_stage){ "top-k", 4, 1, "top-k 10: device: token 17|23" };
    r->failed = 1;
    return CLS_SELF_TEST_FAILED;
}
cls_status cls_context_compile(cls_context *context, uint32_t dtypes, uint32_t features)
{
    (void)context;
    (void)dtypes;
    sentence = "the program accept did not compile";
    return features & CLS_FEATURE_ACCEPT ? CLS_BUILD_FAILED : CLS_OK;
}
/* The samplers of the command's reference, but not those of proofs, draw a wrong token. */
static __thread cls_sampler *reference;
cls_status cls_sampler_create(cls_context *context, const cls_sampler_options *options,
                              cls_sampler **out)
{
    typedef cls_status function(cls_context *, const cls_sampler_options *, cls_sampler **);
    cls_device_info info = {.struct_size = sizeof info};
    const cls_status status =
        ((function *)dlsym(RTLD_NEXT, "cls_sampler_create"))(context, options, out);
    if (cls_context_info(context, &info) == CLS_OK && info.host)
        reference = *out;
    return status;
}
cls_status cls_sample(cls_sampler *sampler, cl_command_queue queue, const cls_step *step,
                      cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    typedef cls_status function(cls_sampler *, cl_command_queue, const cls_step *, cl_uint,
                                const cl_event *, cl_event *);
    const cls_status status =
        ((function *)dlsym(RTLD_NEXT, "cls_sample"))(sampler, queue, step, n_wait, wait, done);
    if (sampler == reference)
        *(int32_t *)step->tokens.pointer = -7;
    return status;
}
cls_status cls_host_sample(const cls_host_row *row, cls_host_result *result)
{
    (void)row;
    result->token = -7;
    return CLS_OK;
}
END
if ${CC:-cc} -shared -fPIC -I"$here/../../include" -DCL_TARGET_OPENCL_VERSION=120 -o faulty.so \
    faulty.c -ldl 2>cc.err; then
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 LD_PRELOAD=$PWD/faulty.so
    export ASAN_OPTIONS LD_PRELOAD
    exits 1 "failures" "$clsample" report --quick
    unset LD_PRELOAD
    says "failures" '^8 parts failed; the report lists them\.$' out
    is "the files" "$(tail -2 out | tr -d ' ' | tr '\n' ' ')" \
        "clsample-report.json clsample-report.md "
    balanced "with failures" clsample-report.json
    says "failures" '^  "complete": true,$' clsample-report.json
    says "a program" '"error": "the program accept did not compile"' clsample-report.json
    says "a stage" '"part": "self-test, top-k"' clsample-report.json
    says "a case" '"part": "bench, topp_peaked"' clsample-report.json
    says "a program" \
        '^- programs of CLS_FEATURE_ACCEPT for float32: the program accept did not compile$' \
        clsample-report.md
    says "a stage" '^| top-k | 4 | 1 | top-k 10: device: token 17\\|23 |$' clsample-report.md
    says "a token" '^- first token: the first token is [0-9]*, but the reference has -7$' \
        clsample-report.md
    says "a case" \
        '^| greedy | bench: greedy, row 0: the device drew token [0-9]*, '\
'but the reference drew -7 |' \
        clsample-report.md

    # By a fault of the proof there are no cases at all.
    NO_CASES=1 LD_PRELOAD=$PWD/faulty.so
    export NO_CASES LD_PRELOAD
    exits 1 "no cases" "$clsample" report --quick
    unset LD_PRELOAD
    says "no cases" '^self-test  0 of 0 cases differ; the self-test did not finish' out
    says "no cases" '^- self-test: the program prepare gives another token than the host$' \
        clsample-report.md
else
    no_library
fi

# ------------------------------------------------------------------ interrupted

rm -f clsample-report.*
if make_interrupting; then
    interrupted INTERRUPT_AT=3 "$clsample" report --quick
    is "interrupted: status" $code 130
    says "interrupted" \
        '^Interrupted during: bench. The report has the results up to this part[.]$' out
    balanced "interrupted" clsample-report.json
    says "interrupted" '^  "complete": false,$' clsample-report.json
    says "interrupted" '^  "doing": "bench",$' clsample-report.json
    says "interrupted" '^  "failures": \[\],$' clsample-report.json
    is "interrupted: cases" \
        "$(sed -n 's/^ *"case": "\(.*\)",$/\1/p' clsample-report.json | tr '\n' ' ')" "greedy topk "
    says "interrupted" 'The report is not complete. The last part that started is: bench' \
        clsample-report.md
else
    no_library
fi

# ------------------------------------------------------------- nothing can be run

rm -f clsample-report.*
exits 2 "no context" "$clsample" report --tier subgroups --max-work-group 1 --max-local-mem 1
says "no context" '^Please send these two files:$' out
says "no context" '^  "complete": true,$' clsample-report.json
says "no context" '^- device: ' clsample-report.md
OCL_ICD_VENDORS=$PWD/nothing/ not_run "no OpenCL device found"
finish
