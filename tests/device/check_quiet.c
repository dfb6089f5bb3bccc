/* SPDX-License-Identifier: MIT */
/* Proves that the library writes nothing to stderr while it compiles, nor lets a compiler do so:
 * clang, in PoCL, warned of the ABI of vectors on CPUs that have none of their size. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "layer.h"

static int saved_stderr;

/* From here on, what is written to stderr goes to a file. */
static void divert(void)
{
    const int file = open("quiet.stderr", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    fflush(stderr);
    saved_stderr = dup(2);
    ck_assert(file >= 0 && saved_stderr >= 0 && dup2(file, 2) == 2);
    close(file);
}

/* Ends that, and returns the beginning of what was written. */
static const char *diverted(void)
{
    static char text[300];
    fflush(stderr);
    ck_assert_int_eq(dup2(saved_stderr, 2), 2);
    close(saved_stderr);
    FILE *const f = fopen("quiet.stderr", "rb");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    remove("quiet.stderr");
    return text;
}

static void expect_silence(const device *d, const char *what)
{
    const char *const text = diverted();
    ck_assert_msg(text[0] == '\0', "%s: %s: stderr has: %s", d->name, what, text);
}

/* Whether this device's compiler warns of a vector that is passed by value. */
static int warns(device *d)
{
    const char *source = "float16 f(float16 x) { return x + 1.0f; }\n"
                         "kernel void k(global float16 *p) { *p = f(*p); }\n";
    cl_int code;
    divert();
    const cl_program program = clCreateProgramWithSource(d->context, 1, &source, NULL, &code);
    if (code == CL_SUCCESS)
        code = clBuildProgram(program, 1, &d->id, "-cl-std=CL1.2", NULL, NULL);
    const char *const text = diverted();
    must_cl(code);
    clReleaseProgram(program);
    return text[0] != '\0';
}

START_TEST(samplers)
{
    device *const d = fixture_device(_i);
    cls_context *context;
    cls_sampler *sampler = NULL;
    printf("%s: the compiler %s\n", d->name, warns(d) ? "warns on stderr" : "is silent by itself");
    cls_sampler_options o = sampler_options(301, 1);
    o.dtypes = 1u << CLS_F32;
    o.features = fixture_by_size(CLS_FEATURE_SHORTLIST, CLS_FEATURE_SHORTLIST, CLS_FEATURES_ALL);
    divert();
    cls_status status = cls_context_create(d->context, d->id, NULL, &context);
    if (status == CLS_OK)
        status = cls_sampler_create(context, &o, &sampler);
    expect_silence(d, "a sampler");
    must(status);
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
}
END_TEST

START_TEST(groups)
{
    device *const d = fixture_device(_i);
    cls_shape shape;
    must(cls_shape_query(d->id, NULL, &shape));
    if (shape.max_work_group < 4)
        return;
    shape.work_group = shape.row_group = 4;
    divert();
    const char *const reason = cls_groups_check(d->context, d->id, &shape);
    expect_silence(d, "the test of groups");
    ck_assert_msg(reason == NULL, "%s: %s", d->name, reason);
}
END_TEST

START_TEST(heads)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    const layer_setup w = {LAYER_F16, 60, 32, 2, 2, 1, 1, 1, 0, 0};
    layer l;
    divert();
    layer_open(&l, d, &w, &r);
    layer_run(&l, d->queue);
    expect_silence(d, "a head");
    layer_check(&l, d->name);
    layer_close(&l);
}
END_TEST

/* All is compiled anew. For PoCL the CPU is an old one: a test must be able to fail on any. */
int main(void)
{
    if (system("rm -rf quiet.pocl && mkdir quiet.pocl") != 0)
        return 99;
    unsetenv("CLS_TEST_PROGRAMS");
    setenv("POCL_CACHE_DIR", "quiet.pocl", 1);
#ifdef __x86_64__
    setenv("POCL_KERNELLIB_NAME", "sse2", 0);
#endif
    fixture_begin(ON_DEVICES);
    add_device_test(samplers);
    add_device_test(groups);
    add_device_test(heads);
    const int status = fixture_end();
    return system("rm -rf quiet.pocl") == 0 ? status : 99;
}
