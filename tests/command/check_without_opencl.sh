#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that the command and the library start and work on the host where OpenCL's library cannot
# be opened, and that a device is then refused by a sentence that says what is missing. OpenCL's
# functions are those of the process, if it has them all, and else the library's. CLSAMPLE is the
# command's path, and BUILD the build folder.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"
build=${BUILD:-$(dirname "$clsample")}
lines='^OpenCL was not found: libOpenCL.so.1 cannot be opened; install OpenCL.s loader and a device'

# The linker and dlopen() find this folder's files first, and they are no libraries.
mkdir none
: >none/libOpenCL.so.1
: >none/libOpenCL.so
without() { env LD_LIBRARY_PATH="$PWD/none" "$@"; }
cat >opens.c <<'END'
#include <dlfcn.h>
int main(void) { return dlopen("libOpenCL.so.1", RTLD_NOW) || dlopen("libOpenCL.so", RTLD_NOW); }
END
if ! ${CC:-cc} -o opens opens.c -ldl 2>cc.err || ! without ./opens; then
    echo "OpenCL's library cannot be hidden here: $(head -1 cc.err)"
    exit 77
fi

# -------------------------------------------------------------------- the command

exits 0 "--help" without "$clsample" --help
says "--help" '^  devices ' out
exits 0 "help params" without "$clsample" help params
exits 1 "devices" without "$clsample" devices
sed -i 's/^clsample: //' err
says "devices" "$lines" err
is "devices: messages" "$(wc -l <err | tr -d ' ')" 1
exits 1 "devices --json" without "$clsample" devices --json
is "devices --json" "$(cat out)" '[]'
exits 1 "sample" without "$clsample" sample --logits f32.npy
says "sample" "OpenCL was not found" err
everywhere() { # COMMAND ARGUMENTS...: the same with and without
    check "$1" "$clsample" "$@"
    cp out with.out
    check "$1 without OpenCL" without "$clsample" "$@"
    same "$1" with.out out
}
everywhere sample --device host --logits f32.npy --top-k 5 --seed 3 --json
printf 'sampler vocab=1000 slots=4\nbegin 0 seed=1 top_k=5\nstep slots=0\n' >calls.txt
everywhere run calls.txt
everywhere explain --logits f32.npy --top-p 0.5

# ------------------------------------------------------------- the process's OpenCL

# layer NAME [WITHOUT]: a library of all functions that are looked up, which all return an error.
layer() {
    sed -n 's/^#define \(cl[A-Z][A-Za-z]*\)(.*/int \1(void) { return -37; }/p' \
        "$here/../../lib/base/opencl.h" | grep -v " ${2:-nothing}(" >"$1.c"
    ${CC:-cc} -w -fno-builtin -shared -fPIC -o "$1.so" "$1.c" 2>cc.err
}
preloaded() { # LIBRARY COMMAND...
    library=$1
    shift
    without env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
        LD_PRELOAD="$PWD/$library" "$@"
}
if layer whole && layer part clFinish; then
    exits 1 "a layer" preloaded whole.so "$clsample" devices
    says "a layer" 'listing the platforms: OpenCL error -37' err
    exits 1 "a part of a layer" preloaded part.so "$clsample" devices
    says "a part of a layer" 'OpenCL was not found' err
    cp part.so none/libOpenCL.so.1
    exits 1 "a library that lacks a function" without "$clsample" devices
    says "a library that lacks a function" \
        'this OpenCL has no function clFinish, which is of version 1.2' err
    cp whole.so none/libOpenCL.so.1
    exits 1 "another library" without "$clsample" devices
    says "another library" 'listing the platforms: OpenCL error -37' err
    : >none/libOpenCL.so.1
else
    no_library
fi

# -------------------------------------------------------------------- the library

cat >host.c <<'END'
#include <clsample.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    const float logits[4] = {1.0f, 4.0f, 2.0f, 3.0f};
    int32_t token = -7;
    cls_context *context;
    cls_sampler *sampler;
    cls_sampler_options options;
    cls_params params;
    cls_step step;
    cls_device_info info;
    cl_device_id device = (cl_device_id)&info; /* nothing may read what it points to */
    cls_device_info_init(&info);
    for (int again = 0; again < 2; again++) {
        printf("%d %s\n", cls_context_create((cl_context)&info, device, NULL, &context),
               cls_error_message());
        printf("%d %s\n", cls_device_query(device, NULL, &info), cls_error_message());
    }
    cls_sampler_options_init(&options);
    options.vocab = 4;
    options.max_rows = 1;
    cls_params_init(&params);
    params.temperature = 0.0f;
    cls_step_init(&step);
    step.rows = 1;
    step.logits.values = (cls_buffer){.pointer = (void *)logits, .size = sizeof logits,
                                      .kind = CLS_BUFFER_HOST};
    step.tokens = (cls_buffer){.pointer = &token, .size = sizeof token, .kind = CLS_BUFFER_HOST};
    if (cls_context_create_host(NULL, &context) != CLS_OK ||
        cls_sampler_create(context, &options, &sampler) != CLS_OK ||
        cls_slot_begin(sampler, 0, &params, NULL) != CLS_OK ||
        cls_sample(sampler, NULL, &step, 0, NULL, NULL) != CLS_OK)
        puts(cls_error_message());
    printf("token %d\n", (int)token);
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
    return 0;
}
END
for library in so a; do
    file=$build/.libs/libclsample.$library
    [ -f "$file" ] || continue
    # shellcheck disable=SC2086 # a list of words
    if ${CC:-cc} ${CFLAGS--O2} -I"$here/../../include" ${OPENCL_CFLAGS-} \
        -DCL_TARGET_OPENCL_VERSION=120 host.c "$file" -o host -lm -lpthread -ldl 2>cc.err; then
        check "libclsample.$library" env LD_LIBRARY_PATH="$PWD/none:$build/.libs" ./host
        is "libclsample.$library: refusals" \
            "$(grep -c "^-2004 ${lines#^}" out)" 4
        is "libclsample.$library: on the host" "$(tail -1 out)" 'token 1'
    else
        no_ "libclsample.$library: $(head -1 cc.err)"
    fi
done
finish
