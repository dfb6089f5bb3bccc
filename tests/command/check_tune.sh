#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves the output, the sentences and the exit statuses of `clsample bench --tune`: that it tries
# shapes, obeys --seconds, and finds wrong tokens, which a library in front of the real one makes;
# and that `clsample bench` measures the host, shows goals only where they apply, counts what shards
# exchange, and times starts. CLSAMPLE is the command's path. Exits 77 if there is no device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

check "--help" "$clsample" bench --tune --help
says "--help" '^usage: clsample bench' out
refused "unknown option '--wrong'" bench --tune --wrong
refused "unexpected argument 'x'" bench --tune x
refused "--batch: 0 is out of range; it must be 1 to 4096" bench --tune --batch 0
refused "--vocab: 1048577 is out of range; it must be 1 to 1048576" bench --tune --vocab 1048577
refused "--dtype: 'f64' is not one of f32|f16|bf16" bench --tune --dtype f64
refused "--seconds: '-1' is not an integer" bench --tune --seconds -1
refused "--tune: --case has no meaning with it" bench --tune --case topk
refused "--tune: --vector has no meaning with it" bench --tune --vector 4
refused "--seconds: it is only for --tune" bench --seconds 3
refused "--tune: it needs a device, not the host" bench --tune --device host
refused "--shards: it needs a device, not the host" bench --shards 2 --device host
refused "--case: verify is not measured on the host" bench --case verify --device host
refused "--host-threads: it is only for --device host" bench --host-threads 2
refused "options->host_threads is 257; it must be at most 256" \
    bench --device host --host-threads 257 --case topk

# -------------------------------------------------------------------- on the host
host() { "$clsample" bench --device host --host-threads 2 --batch 3 --vocab 1500 --runs 3 "$@"; }
exits 0 "the host" host
is "the host: cases" "$(grep -c '^[a-z_0-9]*  *[0-9.]*  *[0-9.]*  *-  *[0-9.]*  *0.0  *0$' out)" 27
says "the host" '^\[3, 1500\] float32; floor: a read by one thread$' out
exits 0 "the host, JSON" host --case kept --dtype f16 --json
says "the host, JSON" '^    "launches": 0,$' out

needs_device
refused "there is no device 99" bench --tune --device 99

tune() { "$clsample" bench --tune --batch 3 --vocab 1500 --cache-dir "$programs" "$@"; }

# ------------------------------------------------------------- the first shape alone
exits 0 "no time" tune --seconds 0
is "no time: messages" "$(grep -c '^clsample' err)" 0
says "no time" \
    '^work-group row-group vector per unit compile  *topk  *plain  *topp_peaked score$' out
is "no time: shapes" "$(grep -c ' s  *[0-9.]* .* 1.00 \*$' out) $(grep -c '[0-9] s  *[0-9]' out)" \
    "1 1"
is "no time: lines of more than 80 columns" "$(awk 'length > 80' out)" ""
says "no time" '^[1-9][0-9]* shapes were left out, since --seconds is 0\.$' out
says "no time" '^No shape is faster than the default by more than two hundredths\.$' out

# ------------------------------------------------------------------- goals of bench
greedy() { "$clsample" bench --cache-dir "$programs" --case greedy --runs 1 "$@"; }
goals=0
tr -d ' \n' <devices.json | sed 's/},{/}\n{/g' | grep '"default":true' |
    grep '"type":"CPU"' | grep -q '"compute_units":2,' && goals=1
exits 0 "one row" greedy --batch 1
is "one row: goals" "$(grep -c '^case .* ratio  *goal ' out)" $goals
is "one row: lines of more than 80 columns" "$(awk 'length > 80' out)" ""
is "one row: its ratio to the floor" "$(grep -c '^greedy  *[0-9.]* ' out)" 1
for options in "--vocab 128255" "--batch 2" "--dtype f16"; do
    # shellcheck disable=SC2086
    exits 0 "$options" greedy --batch 1 $options
    is "$options: goals" "$(grep -c '^case .* ratio  *goal ' out)" 0
done

# ----------------------------------------------------------------------- shards
# Of 16 rows: 416 bytes a row, 24 and 414, and each time 4 of the partial's header (doc/scaling.md).
exits 0 "shards" "$clsample" bench --cache-dir "$programs" --shards 8 --case usual \
    --case minp_alone --runs 1 --json
is "shards: bytes" "$(sed -n 's/^ *\([0-9]*\.0\),*$/\1/p' out | tr '\n' ' ')" "420.0 28.0 418.0 "

# ---------------------------------------------------------------------- the start
exits 0 "starts" "$clsample" bench --cache-dir "$programs" --vocab 1500 --case start_plain \
    --case start_search --json
is "starts" "$(sed -n 's/^ *"case": "\(.*\)",$/\1/p' out | tr '\n' ' ')" "start_plain start_search "
for key in from opencl_ms context_ms sampler_ms first_ms cpu_ms later_ms; do
    is "starts: $key" "$(grep -c "^ *\"$key\": [\"0-9]" out)" 2
done
is "starts: a time of 0" "$(grep -c '_ms": 0.0,*$' out)" 0
exits 0 "a start" "$clsample" bench --cache-dir "$programs" --vocab 1500 --case start
is "a start" "$(grep -c '^start  *[0-9.]*  *[0-9.]*  *[0-9.]* .* [a-z]*$' out)" 1
is "a start: lines of more than 80 columns" "$(awk 'length > 80' out)" ""

# --------------------------------------------------------------------- all shapes
exits 0 "all shapes" tune --seconds 1000 --dtype bf16 --json
values() { sed -n "s/^ *\"$1\": \"*\([^\",]*\)\"*,*\$/\1/p" out; }
is "all shapes: left out" "$(values left_out)" 0
is "all shapes: type" "$(values dtype) $(values batch) $(values vocab)" "bfloat16 3 1500"
for key in clsample device seconds best trials work_group row_group vector groups_per_unit \
    compile_seconds score case step_us default_us; do
    says "JSON" "^ *\"$key\": " out
done
shapes=$(values compile_seconds | wc -l)
is "all shapes: several" "$([ "$shapes" -ge 6 ] && echo yes)" yes
is "all shapes: errors" "$(grep -c '"error"' out)" 0
is "all shapes: cases" "$(grep -c '"case"' out)" $((3 * shapes))
is "the first shape's score" "$(values score | head -1)" 1.0
is "groups per unit" "$(values groups_per_unit | sort -n | uniq | tr '\n' ' ')" "4 8 16 32 64 "
sed -n 's/^      "\(work_group\|row_group\|vector\|groups_per_unit\)": \([0-9]*\),$/\2/p' out |
    paste -d ' ' - - - - >shapes
is "different shapes" "$(sort -u shapes | wc -l)" "$shapes"
says "an option" '^      "options": {$' out

# ------------------------------------------------------------------- wrong tokens
# WRONG=reference: steps on the host are wrong. WRONG=shapes: the command's samplers on the device
# after the first one draw with other seeds; those of the library's own proofs do not.
cat >wrong.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "clsample.h"
static int is(const char *what) { return strcmp(getenv("WRONG"), what) == 0; }
static __thread cls_sampler *reference;
cls_status cls_sample(cls_sampler *sampler, cl_command_queue queue, const cls_step *step,
                      cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    typedef cls_status function(cls_sampler *, cl_command_queue, const cls_step *, cl_uint,
                                const cl_event *, cl_event *);
    const cls_status status =
        ((function *)dlsym(RTLD_NEXT, "cls_sample"))(sampler, queue, step, n_wait, wait, done);
    if (sampler == reference && is("reference"))
        *(int32_t *)step->tokens.pointer = -7;
    return status;
}
static cls_sampler *samplers[99];
static int count;
cls_status cls_sampler_create(cls_context *context, const cls_sampler_options *options,
                              cls_sampler **out)
{
    typedef cls_status function(cls_context *, const cls_sampler_options *, cls_sampler **);
    const cls_status status =
        ((function *)dlsym(RTLD_NEXT, "cls_sampler_create"))(context, options, out);
    cls_device_info info = {.struct_size = sizeof info};
    if (cls_context_info(context, &info) == CLS_OK && info.host)
        reference = *out;
    else
        samplers[count++] = *out;
    return status;
}
cls_status cls_slot_begin(cls_sampler *sampler, uint32_t slot, const cls_params *params,
                          const cls_text *text)
{
    typedef cls_status function(cls_sampler *, uint32_t, const cls_params *, const cls_text *);
    cls_params other = *params;
    for (int i = 1; i < count; i++)
        if (is("shapes") && samplers[i] == sampler && sampler != samplers[0])
            other.seed = params->seed + 12345;
    return ((function *)dlsym(RTLD_NEXT, "cls_slot_begin"))(sampler, slot, &other, text);
}
END
if ${CC:-cc} -shared -fPIC -I"$here/../../include" -DCL_TARGET_OPENCL_VERSION=120 -o wrong.so \
    wrong.c -ldl 2>cc.err; then
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 LD_PRELOAD=$PWD/wrong.so
    WRONG=reference
    export ASAN_OPTIONS LD_PRELOAD WRONG
    exits 1 "a wrong reference" tune --seconds 0
    says "a wrong reference" \
        'tune: the default shape: bench: topk, row 0: the device drew token [0-9]*, but the '\
'reference drew -7$' err
    is "a wrong reference: no table" "$(wc -c <out | tr -d ' ')" 0
    WRONG=shapes
    exits 1 "wrong shapes" tune --seconds 1000 --dtype bf16
    unset LD_PRELOAD
    says "wrong shapes" \
        '^clsample: tune: tokens of [1-9][0-9]* shapes differ from those of the default shape$' err
    is "wrong shapes: listed" "$(grep -c '[a-z], row [0-9]: token [0-9]*, not [0-9]*$' out)" \
        $((shapes - 1))
    says "wrong shapes" '^No shape is faster than the default' out
else
    no_library
fi

finish
