/* SPDX-License-Identifier: MIT */
/* Proves what the library does on devices that no test has: how large a proof is where a group
 * reads several tiles at once, which sub-groups are tried for which extensions and drivers, and how
 * groups that compute nothing are refused. The OpenCL is a stub, which computes nothing
 * (stub_cl.h).
 */
#include <stdio.h>
#include <string.h>

#include "fixture.h"
#include "sampler/sampler.h"
#include "step/step.h"
#include "stub_cl.h"

/* ---------------------------------------------------------------------- proofs */

static struct {
    cl_mem args[64]; /* of the launches over tiles, retained */
    uint32_t n;
} launches;

static void spy(cl_kernel kernel)
{
    static const char *const names[] = {"cls_survey", "cls_pass", "cls_distribution"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(kernel->name, names[i]) == 0 && launches.n < 64) {
            must_cl(clRetainMemObject(kernel->argument[0].mem));
            launches.args[launches.n++] = kernel->argument[0].mem;
        }
}

/* A group of a proof reads more tiles than at once, so that it does a second round, in which some
 * of its items idle; and another group reads a part of a tile. */
START_TEST(rounds)
{
    static const struct {
        uint32_t work_group, vector, tiles, vocab;
    } shapes[] = {
        {256, 4, 5, 5 * 1024 + 28}, {128, 4, 3, 3 * 1024 + 28}, {1024, 4, 20, 20 * 1024 + 28},
        {64, 4, 1, 5003},           {1, 16, 1, 5003},           {1024, 16, 32, 32 * 1024 + 28}};
    device *const d = fixture_device(_i);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        cls_context_options o = default_context_options();
        cls_context *const context = new_context(d, &o);
        context->shape.work_group = shapes[i].work_group;
        context->shape.vector = shapes[i].vector;
        launches.n = 0;
        stub_spy = spy;
        must(cls_context_compile(context, 0, CLS_FEATURES_ALL));
        stub_spy = NULL;
        ck_assert_uint_gt(launches.n, 10);
        for (uint32_t k = 0; k < launches.n; k++) {
            cls_args a;
            memcpy(&a, stub_memory(launches.args[k]), sizeof a);
            ck_assert_uint_eq(a.vocab, shapes[i].vocab);
            ck_assert_uint_eq(a.tiles_per_group, shapes[i].tiles);
            clReleaseMemObject(launches.args[k]);
        }
        cls_context_destroy(context);
    }
}
END_TEST

/* ------------------------------------------------------------------- sub-groups */

static char tried[8][8]; /* the versions of OpenCL C for which sub-groups were compiled */
static uint32_t n_tried;

static cl_int count_build(const char *options)
{
    if (strstr(options, "-DSUBGROUPS=0") == NULL && n_tried < 8)
        snprintf(tried[n_tried++], sizeof tried[0], "%.3s", strstr(options, "-cl-std=CL") + 10);
    return CL_BUILD_PROGRAM_FAILURE;
}

#define QCOM "cl_khr_subgroups cl_qcom_subgroup_shuffle cl_qcom_reqd_sub_group_size"
#define KHRONOS "cl_khr_subgroups cl_khr_subgroup_shuffle"
#define POCL "Portable Computing Language"
#define DRIVER(compiler) "OpenCL 3.0 QUALCOMM build: 0676.77.1 Compiler " compiler

/* What a driver says decides which sub-groups are compiled at all, and as which OpenCL C. */
START_TEST(subgroups)
{
    static const struct {
        const char *version, *driver, *extensions;
        uint32_t found;
        const char *standards[5], *cpu; /* NULL: a GPU; otherwise a CPU of this platform */
    } cases[] = {
        {"OpenCL 3.0",
         DRIVER("E031.45.02.16"),
         QCOM,
         CLS_SUBGROUPS_QCOM,
         {"1.2", "3.0", "2.0"},
         NULL},
        {"OpenCL 3.0",
         DRIVER("E031.50.00.00"),
         QCOM,
         CLS_SUBGROUPS_QCOM,
         {"1.2", "3.0", "2.0"},
         NULL},
        {"OpenCL 3.0",
         DRIVER("E17.51.00.00"),
         QCOM,
         CLS_SUBGROUPS_QCOM,
         {"1.2", "3.0", "2.0"},
         NULL},
        {"OpenCL 3.0", DRIVER("E031.38.01.00"), QCOM, CLS_SUBGROUPS_NONE, {NULL}, NULL},
        {"OpenCL 3.0", DRIVER("E031.38.11.14"), QCOM, CLS_SUBGROUPS_NONE, {NULL}, NULL},
        {"OpenCL 3.0", DRIVER("E031.41.03.64"), QCOM, CLS_SUBGROUPS_NONE, {NULL}, NULL},
        {"OpenCL 2.0", DRIVER("E031.9.0"), QCOM, CLS_SUBGROUPS_NONE, {NULL}, NULL},
        /* Such a driver may list Khronos' extension, too. */
        {"OpenCL 3.0",
         DRIVER("E031.41.03.64"),
         QCOM " cl_khr_subgroup_shuffle",
         CLS_SUBGROUPS_NONE,
         {NULL},
         NULL},
        /* Another driver's words are not looked at. */
        {"OpenCL 3.0",
         "Compiler E031.38",
         "cl_khr_subgroup_shuffle",
         CLS_SUBGROUPS_KHR,
         {"1.2", "3.0", "2.0"},
         NULL},
        {"OpenCL 3.0", "1", "cl_khr_subgroups", CLS_SUBGROUPS_NONE, {NULL}, NULL},
        {"OpenCL 3.1",
         "1",
         "cl_khr_subgroups",
         CLS_SUBGROUPS_KHR,
         {"3.1", "1.2", "3.0", "2.0"},
         NULL},
        {"OpenCL 3.1 x", "1", "", CLS_SUBGROUPS_KHR, {"3.1", "1.2", "3.0", "2.0"}, NULL},
        {"OpenCL 4.0", "1", "", CLS_SUBGROUPS_KHR, {"3.1", "1.2", "3.0", "2.0"}, NULL},
        {"OpenCL 3.1", "1", "cl_intel_subgroups", CLS_SUBGROUPS_INTEL, {"1.2"}, NULL},
        {"OpenCL 3.1", DRIVER("E031.41.03.64"), QCOM, CLS_SUBGROUPS_NONE, {NULL}, NULL},
        /* On CPUs none but Intel's, whatever a driver offers. */
        {"OpenCL 3.0", "6.0-6", KHRONOS, CLS_SUBGROUPS_NONE, {NULL}, POCL},
        {"OpenCL 3.0", "7.1-9", KHRONOS " cl_intel_subgroups", CLS_SUBGROUPS_NONE, {NULL}, POCL},
        {"OpenCL 3.1", "8.0", "", CLS_SUBGROUPS_NONE, {NULL}, POCL},
        {"OpenCL 3.0", "25.0.7", KHRONOS, CLS_SUBGROUPS_NONE, {NULL}, "rusticl"},
        {"OpenCL 3.0", "1", "cl_intel_subgroups", CLS_SUBGROUPS_INTEL, {"1.2"}, "Intel(R) OpenCL"},
        {"OpenCL 3.0", "1", KHRONOS, CLS_SUBGROUPS_NONE, {NULL}, "Intel(R) OpenCL Graphics"},
        {"OpenCL 3.0", "6.0-6", KHRONOS, CLS_SUBGROUPS_KHR, {"1.2", "3.0", "2.0"}, NULL},
    };
    const stub_device_texts usual = stub_texts;
    device *const d = fixture_device(_i);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cls_shape shape = {.work_group = 256, .row_group = 256, .vector = 4};
        uint32_t n = 0;
        const char *const cpu = cases[i].cpu, *reason, *why;
        stub_texts = (stub_device_texts){cases[i].version,
                                         cases[i].driver,
                                         cases[i].extensions,
                                         cpu != NULL ? cpu : usual.platform,
                                         cpu != NULL ? CL_DEVICE_TYPE_CPU : usual.type,
                                         NULL};
        n_tried = 0;
        stub_build = count_build;
        const uint32_t found = cls_subgroups_candidate(d->id, &reason);
        ck_assert_msg(found == cases[i].found, "case %zu: %u", i, found);
        ck_assert_int_eq(reason == NULL, found != CLS_SUBGROUPS_NONE);
        why = cls_subgroups_find(d->context, d->id, &shape);
        ck_assert_ptr_nonnull(why);
        if (reason != NULL)
            ck_assert_str_eq(why, reason);
        if (reason != NULL && cpu != NULL)
            ck_assert_ptr_nonnull(strstr(reason, "is a CPU"));
        for (; cases[i].standards[n] != NULL; n++)
            ck_assert_msg(n < n_tried && strcmp(tried[n], cases[i].standards[n]) == 0,
                          "case %zu: build %u", i, n);
        ck_assert_msg(n_tried == n, "case %zu: %u builds", i, n_tried);
        stub_build = NULL;
        stub_texts = usual;
    }
}
END_TEST

/* A device whose groups compute nothing is refused where a program chose its groups, without a word
 * about sub-groups, which it does not have. Groups of one have no test. */
START_TEST(groups)
{
    device *const d = fixture_device(_i);
    cls_context_options o = default_context_options();
    cls_context *context = NULL;
    o.work_group = o.row_group = 32;
    must_fail(cls_context_create(d->context, d->id, &o, &context), CLS_UNSUPPORTED_DEVICE,
              "require groups of 32 and 32, but work-items do not write what they compute");
    o.work_group = o.row_group = 0;
    context = new_context(d, &o);
    ck_assert_uint_eq(context->shape.work_group, 1);
    cls_context_destroy(context);
}
END_TEST

/* PoCL 5 and 6 may end the process when they are asked for compiled programs: they are not. */
START_TEST(binaries)
{
    static const struct {
        const char *platform, *version;
        cls_status status;
    } cases[] = {
        {POCL, "OpenCL 1.2 PoCL 1.8  Linux, RELOC", CLS_OK},
        {POCL, "OpenCL 3.0 PoCL 3.1+debian  Linux, None+Asserts, LLVM 15.0.6", CLS_OK},
        {POCL, "OpenCL 3.0 PoCL 5.0+debian  Linux, LLVM 16.0.6", CLS_UNSUPPORTED_DEVICE},
        {POCL, "OpenCL 3.0 PoCL 6.0+debian  Linux, LLVM 18.1.8", CLS_UNSUPPORTED_DEVICE},
        {POCL, "OpenCL 3.0 PoCL 7.1+debian  Linux, LLVM 21.1.8", CLS_OK},
        {POCL, "OpenCL 3.0 PoCL 60.0", CLS_OK},
        {POCL, "OpenCL 3.0", CLS_OK},
        {"Stub", "OpenCL 3.0 PoCL 6.0", CLS_OK},
    };
    const stub_device_texts usual = stub_texts;
    device *const d = fixture_device(_i);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cls_context_options o = default_context_options();
        size_t size = 0;
        stub_texts.platform = cases[i].platform;
        stub_texts.platform_version = cases[i].version;
        cls_context *const context = new_context(d, &o);
        const cls_status status = cls_context_export(context, NULL, &size);
        ck_assert_msg(status == cases[i].status, "case %zu: %s", i, cls_status_name(status));
        if (status != CLS_OK)
            must_say("is not asked for compiled programs");
        else
            ck_assert_uint_gt(size, 0);
        cls_context_destroy(context);
        stub_texts = usual;
    }
}
END_TEST

int main(void)
{
    cls_test_proofs_compare_nothing = 1; /* this OpenCL computes nothing */
    fixture_begin(ON_DEVICES);
    add_device_test(rounds);
    add_device_test(subgroups);
    add_device_test(groups);
    add_device_test(binaries);
    return fixture_end();
}
