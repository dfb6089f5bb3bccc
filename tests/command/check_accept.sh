#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves clsample accept: it accepts a right device; a program that hangs and one that aborts are
# named; wrong tokens give the shortest text and the programs that drew them; its report is whole at
# any time; little memory makes steps smaller. CLSAMPLE is the command's path. Exits 77 if there is
# no device.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"

# ------------------------------------------------------------------ what is refused
refuses() { # PATTERN OPTION...: it cannot run, and says so in one sentence
    pattern=$1
    shift
    exits 2 "$*" "$clsample" accept "$@"
    says "$*" "^clsample: $pattern" err
    is "$*: sentences" "$(wc -l <err | tr -d ' ')" 1
}
refuses "--minutes: 0 is not a time" --minutes 0
refuses "--limit: 0 is not a time" --limit 0
refuses "--json: 'nothing/a.json' cannot be written: " --json nothing/a.json
refuses "--device: the host is what devices are compared with" --device host
exits 2 "no OpenCL" env OCL_ICD_VENDORS="$PWD/nothing/" "$clsample" accept --json none.json
says "no OpenCL" "no OpenCL device found" err
says "no OpenCL: the report" '"state": "could not run"' none.json
needs_device
exits 2 "no such device" "$clsample" accept --device 99
says "no such device" "--device: there is no device 99; the devices are 0" err

# ----------------------------------------------------------------- a device with faults

# A layer over OpenCL and the library. ACCEPT_FAULT: the driver hangs or aborts at the fourth build,
# or requests with a top_k of 200 draw other tokens on a device. ACCEPT_LITTLE: the device has
# little memory.
cat >faults.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "clsample.h"
static int is(const char *what)
{
    const char *const fault = getenv("ACCEPT_FAULT");
    return fault != NULL && strcmp(fault, what) == 0;
}
cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *ids, const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    typedef cl_int function(cl_program, cl_uint, const cl_device_id *, const char *,
                            void(CL_CALLBACK *)(cl_program, void *), void *);
    static int builds;
    if (++builds == 4 && is("hang"))
        for (;;)
            sleep(1);
    if (builds == 4 && is("abort"))
        abort();
    return ((function *)dlsym(RTLD_NEXT, "clBuildProgram"))(program, n, ids, options, notify, data);
}
cl_int clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size, void *to, size_t *got)
{
    typedef cl_int function(cl_device_id, cl_device_info, size_t, void *, size_t *);
    const cl_int error =
        ((function *)dlsym(RTLD_NEXT, "clGetDeviceInfo"))(id, what, size, to, got);
    const cl_ulong little = 160 << 20;
    if (error == CL_SUCCESS && what == CL_DEVICE_GLOBAL_MEM_SIZE && to != NULL &&
        getenv("ACCEPT_LITTLE") != NULL)
        memcpy(to, &little, sizeof little);
    return error;
}
static cls_sampler *of_host[4096];
static int hosts;
cls_status cls_sampler_create(cls_context *context, const cls_sampler_options *options,
                              cls_sampler **out)
{
    typedef cls_status function(cls_context *, const cls_sampler_options *, cls_sampler **);
    const cls_status status =
        ((function *)dlsym(RTLD_NEXT, "cls_sampler_create"))(context, options, out);
    cls_device_info info = {.struct_size = sizeof info};
    if (cls_context_info(context, &info) == CLS_OK && info.host && hosts < 4096)
        of_host[hosts++] = *out;
    return status;
}
cls_status cls_slot_begin(cls_sampler *sampler, uint32_t slot, const cls_params *params,
                          const cls_text *text)
{
    typedef cls_status function(cls_sampler *, uint32_t, const cls_params *, const cls_text *);
    cls_params other = *params;
    int on_host = 0;
    for (int i = 0; i < hosts; i++)
        on_host |= of_host[i] == sampler;
    if (is("wrong") && !on_host && params->top_k == 200)
        other.seed += 12345;
    return ((function *)dlsym(RTLD_NEXT, "cls_slot_begin"))(sampler, slot, &other, text);
}
void cls_sampler_destroy(cls_sampler *sampler) /* handles come again */
{
    for (int i = 0; i < hosts; i++)
        if (of_host[i] == sampler)
            of_host[i] = NULL;
    ((void (*)(cls_sampler *))dlsym(RTLD_NEXT, "cls_sampler_destroy"))(sampler);
}
END
# shellcheck disable=SC2317 # exits calls it
accept() {
    "$clsample" accept ${CLS_TEST_PROGRAMS:+--cache-dir "$CLS_TEST_PROGRAMS"} \
        --json report.json "$@"
}
# shellcheck disable=SC2317 # exits calls it
faulty() { # FAULT OPTION...
    fault=$1
    shift
    env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$PWD/faults.so" \
        ACCEPT_FAULT="$fault" "$clsample" accept \
        ${CLS_TEST_PROGRAMS:+--cache-dir "$CLS_TEST_PROGRAMS"} --json report.json "$@"
}

# The right device first: its driver keeps what it compiles for the others.
exits 0 "a right device" accept --minutes 1
says "a right device" '^accepted: all results are the host.s$' out
says "a right device: its steps" 'a step of 64 rows of 128256 tokens takes 0[.][0-9]* s' out
says "a right device: the report" '"state": "accepted"' report.json
says "a right device: the arithmetic" '"arithmetic": 1' report.json
says "a right device: the driver" '"driver": ' report.json
is "a right device: texts" "$(grep -c '"texts": [1-9]' report.json)" 1
is "a right device: no file beside" "$(ls report.json*)" report.json

# shellcheck disable=SC2086 # a list of libraries
if ${CC:-cc} -shared -fPIC -I"$here/../../include" -DCL_TARGET_OPENCL_VERSION=120 -o faults.so \
    faults.c -ldl -Wl,--no-as-needed ${OPENCL_LIBS:--lOpenCL} 2>cc.err; then
    exits 1 "a hang" faulty hang --minutes 1 --limit 20
    says "a hang" '^the driver hangs: nothing came for 20 s after: [a-z-]* is compiled$' out
    says "a hang: its program" '^program: [a-z][a-z-]*$' out
    says "a hang: the report" '"what": "a hang"' report.json
    says "a hang: the report's end" '^}$' report.json
    exits 1 "an abort" faulty abort --minutes 1
    says "an abort" '^the driver ended the process by signal 6 after: [a-z-]* is compiled$' out
    says "an abort: its program" '^program: [a-z][a-z-]*$' out
    says "an abort: the report" '"state": "refused"' report.json
    ACCEPT_LITTLE=1
    export ACCEPT_LITTLE
    exits 1 "wrong tokens" faulty wrong --minutes 1
    says "wrong tokens" 'tokens, element [0-9]* is [0-9]*, on the host [0-9]*' out
    says "wrong tokens: the text" '^  > step ' out
    says "wrong tokens: what began it" '^    begin [0-9]* .*top_k=200' out
    is "wrong tokens: its requests" "$(grep -c '^    begin ' out)" 1
    says "wrong tokens: the program" '^program: [a-z][a-z-]*$' out
    says "wrong tokens: its programs" '^  [a-z-]* *launched [0-9]* times here, and ' out
    says "little memory" 'the device has little memory, 160 MiB: steps have at most 16 rows of' out
    says "little memory: the report" '"rows": 16' report.json
else
    no_library
fi

finish
