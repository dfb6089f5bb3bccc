/* SPDX-License-Identifier: MIT */
/* Replaces tests/support/fixture.c, which needs Check's runner. The runner kills the process at
 * SIGALRM, which libFuzzer uses for its timeouts. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

/* OpenCL implementations do not free all memory before the process exits. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

static int open_first(device *d)
{
    cl_platform_id platforms[16];
    cl_uint n_platforms = 0;
    clGetPlatformIDs(16, platforms, &n_platforms);
    for (cl_uint p = 0; p < n_platforms && p < 16; p++) {
        cls_device_info info = {.struct_size = sizeof info};
        cl_int code = CL_DEVICE_NOT_FOUND;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, &d->id, NULL) != CL_SUCCESS ||
            cls_device_query(d->id, NULL, &info) != CLS_OK)
            continue;
        d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
        if (code == CL_SUCCESS)
            d->queue = clCreateCommandQueue(d->context, d->id, 0, &code);
        if (code == CL_SUCCESS)
            return 1;
    }
    return 0;
}

device *the_device(void)
{
    static device d;
    if (d.queue == NULL && !open_first(&d)) {
        fprintf(stderr, "no usable OpenCL device\n");
        exit(77);
    }
    return &d;
}

cls_context *the_context(void)
{
    static cls_context *context;
    cls_context_options o;
    cls_context_options_init(&o);
    o.dtypes = 1u << CLS_F32;
    cls_test_features = CLS_FEATURES_ALL; /* an input may need any feature */
    cls_test_fewest_programs = 1;
    if (context == NULL)
        must(cls_context_create(the_device()->context, the_device()->id, &o, &context));
    return context;
}

/* --------------------------------------------- functions that the tests' helpers call */

cls_context *fixture_context(device *d, uint32_t dtypes, uint32_t work_group, uint32_t vector,
                             uint32_t shortlist)
{
    demand(d == the_device() && dtypes == 1u << CLS_F32 && (work_group | vector | shortlist) == 0,
           "a helper requested another context");
    return the_context();
}
