/* SPDX-License-Identifier: MIT */
/* Proves that exported programs load again, and that a program which does not fit or is
 * damaged never reaches the driver. The driver has no compiler in some tests; in others it
 * refuses work-groups above a size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binaries.h"
#include "subgroups.h"

static struct exported {
    uint8_t *bytes;
    size_t size;
} exports[8]; /* of the devices */

void driver_reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.gpu = 1;
    fake.build_refusal = CL_BUILD_PROGRAM_FAILURE;
    fake.max_built_group = MOST_BUILT;
    fake.max_launched_group = MOST_LAUNCHED;
    fake.max_local_group = UINT32_MAX;
    fake.refusal = CL_OUT_OF_RESOURCES;
}

cls_context_options plain_options(void)
{
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    o.max_work_group = GROUP;
    o.cache_always = 1;
    return o;
}

int gives_none(device *d)
{
    size_t size = 0;
    if (cls_binary_check(d->id) == CLS_OK)
        return 0;
    driver_reset();
    const cls_context_options o = plain_options();
    cls_context *const context = new_context(d, &o);
    must_fail(cls_context_export(context, NULL, &size), CLS_UNSUPPORTED_DEVICE,
              "is not asked for compiled programs");
    printf("left out on %s: %s\n", d->name, cls_error_message());
    cls_context_destroy(context);
    return 1;
}

const char *const binaries_programs[PROGRAMS] = {"self-test", "slots", "survey", "token-list"};

void check_tokens(device *d, cls_context *context)
{
    rng r = {fixture_seed() + 40};
    batch *const b = batch_new(8, 3000, CLS_F32, 0, 0);
    for (uint32_t row = 0; row < b->rows; row++) {
        cls_params *const p = &b->params[row];
        batch_row(b, row, row % 3 == 2 ? ROW_EQUAL : ROW_NORMAL3, rng_bits(&r));
        p->temperature = row == 0 ? 0.0f : 0.5f + 0.25f * (float)rng_below(&r, 5);
        p->top_k = (int32_t)rng_below(&r, 200) + 1;
        p->top_p = row % 2 ? 0.9f : 1.0f;
        p->min_p = row % 4 == 1 ? 0.01f : 0.0f;
    }
    batch_check(b, d, context);
    batch_free(b);
}

void expect(device *d, const cls_context_options *o, cls_origin origin, unsigned binaries,
            const char *what)
{
    expect_but(d, o, origin, origin == CLS_ORIGIN_SOURCE ? ALL_PROGRAMS : 0, binaries, what);
}

void expect_but(device *d, const cls_context_options *o, cls_origin origin, unsigned sources,
                unsigned binaries, const char *what)
{
    cls_context *context = NULL;
    cls_program_info info = {.struct_size = sizeof info};
    uint32_t n = 0;
    fake.from_source = fake.from_binary = 0;
    cls_status status = cls_context_create(d->context, d->id, o, &context);
    ck_assert_msg(status == CLS_OK, "%s: %s: %s", d->name, what, cls_error_message());
    status = cls_context_compile(context, 0, 0);
    ck_assert_msg(status == CLS_OK, "%s: %s: %s", d->name, what, cls_error_message());
    for (; cls_context_program(context, n, &info) == CLS_OK; n++) {
        const uint32_t wanted = sources >> n & 1u ? CLS_ORIGIN_SOURCE : (uint32_t)origin;
        ck_assert_msg(n < PROGRAMS && strcmp(info.name, binaries_programs[n]) == 0,
                      "%s: %s: program %u is %s", d->name, what, n, info.name);
        ck_assert_msg(info.origin == wanted, "%s: %s: %s is of origin %u", d->name, what, info.name,
                      info.origin);
        ck_assert_msg(info.work_group == MOST_LAUNCHED, "%s: %s: %s is in groups of %u", d->name,
                      what, info.name, info.work_group);
        ck_assert_msg(n > 0 || context_info(context).origin == wanted, "%s: %s: origin %u", d->name,
                      what, context_info(context).origin);
    }
    ck_assert_msg(n == PROGRAMS, "%s: %s: %u programs", d->name, what, n);
    /* The test of work-groups is from source, too, unless there is no compiler. */
    const unsigned least = fake.no_compiler ? 0 : 1;
    ck_assert_msg((fake.from_source > least) == (sources != 0) && fake.from_source >= least,
                  "%s: %s: %u from source", d->name, what, fake.from_source);
    ck_assert_msg(fake.from_binary == binaries, "%s: %s: the driver saw %u", d->name, what,
                  fake.from_binary);
    check_tokens(d, context);
    ck_assert_msg(cls_context_program(context, PROGRAMS, &info) == CLS_BAD_ARGUMENT,
                  "%s: %s: more was compiled: %s", d->name, what, info.name);
    cls_context_destroy(context);
}

/* Without a compiler no context is created, and the driver gets no binary. */
static void expect_none(device *d, const cls_context_options *o, const char *what)
{
    cls_context *context = NULL;
    fake.no_compiler = 1;
    fake.from_source = fake.from_binary = 0;
    const cls_status status = cls_context_create(d->context, d->id, o, &context);
    ck_assert_msg(status == CLS_UNSUPPORTED_DEVICE && context == NULL, "%s: %s: %s", d->name, what,
                  cls_status_name(status));
    must_say("has no compiler; give options->binary or cache_dir");
    ck_assert_msg(fake.from_source + fake.from_binary == 0, "%s: %s: the driver saw it", d->name,
                  what);
    driver_reset();
}

static cls_context_options with_export(int i)
{
    cls_context_options o = plain_options();
    ck_assert_msg(exports[i].bytes != NULL, "nothing was exported");
    o.binary = exports[i].bytes;
    o.binary_size = exports[i].size;
    return o;
}

/* ------------------------------------------------------------------------ bytes */

/* What the other tests need: programs in the first groups that are not refused. */
START_TEST(exported)
{
    device *const d = fixture_device(_i);
    const cls_context_options o = plain_options();
    cls_device_info queried = {.struct_size = sizeof queried};
    size_t size = 0, more, less;
    if (gives_none(d))
        return;
    driver_reset();
    must(cls_device_query(d->id, &o, &queried));
    ck_assert_int_eq(cls_params_check(NULL, 10), CLS_BAD_ARGUMENT);
    cls_context *const context = new_context(d, &o);
    must_say("params");
    ck_assert_uint_eq(context_info(context).shortlist, queried.shortlist);
    ck_assert_uint_eq(context_info(context).work_group, queried.work_group);
    ck_assert_int_eq(context_info(context).origin, CLS_ORIGIN_SOURCE);
    ck_assert_uint_eq(context_info(context).tier, queried.tier);
    size_t alone;
    must(cls_context_export(context, NULL, &alone));
    check_tokens(d, context);

    must(cls_context_export(context, NULL, &size));
    ck_assert_uint_gt(size, alone);
    uint8_t *const bytes = exports[_i].bytes = malloc(size + 9);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 0x55, size + 9);
    less = size - 1;
    ck_assert_int_eq(cls_context_export(context, bytes, &less), CLS_BAD_ARGUMENT);
    ck_assert(less == size && bytes[0] == 0x55);
    more = size + 9;
    must(cls_context_export(context, bytes, &more));
    ck_assert(more == size && bytes[size] == 0x55);
    exports[_i].size = size;
    ck_assert_int_eq(cls_context_export(NULL, NULL, &size), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_context_export(context, NULL, NULL), CLS_BAD_ARGUMENT);
    cls_context_destroy(context);
}
END_TEST

START_TEST(taken)
{
    device *const d = fixture_device(_i);
    if (gives_none(d))
        return;
    cls_context_options o = with_export(_i);
    size_t size = 0;
    driver_reset();
    expect(d, &o, CLS_ORIGIN_BINARY, PROGRAMS, "with a compiler");
    fake.no_compiler = 1;
    expect(d, &o, CLS_ORIGIN_BINARY, PROGRAMS, "without a compiler");

    /* Loaded programs can be exported and loaded again. */
    cls_context *const context = new_context(d, &o);
    must(cls_context_compile(context, 0, 0));
    must(cls_context_export(context, NULL, &size));
    uint8_t *const again = must_malloc(size);
    must(cls_context_export(context, again, &size));
    cls_context_destroy(context);
    o.binary = again;
    o.binary_size = size;
    expect(d, &o, CLS_ORIGIN_BINARY, PROGRAMS, "exported twice");
    free(again);
    driver_reset();
}
END_TEST

/* Of another device, driver, shape or type. */
START_TEST(of_others)
{
    static const cl_uint of_device[] = {CL_DEVICE_NAME,    CL_DEVICE_VENDOR_ID,
                                        CL_DEVICE_VERSION, CL_DRIVER_VERSION,
                                        CL_DEVICE_PROFILE, CL_DEVICE_ADDRESS_BITS};
    static const cl_uint of_platform[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION};
    device *const d = fixture_device(_i);
    if (gives_none(d))
        return;
    const cls_context_options o = with_export(_i);
    cls_context_options other[6] = {o, o, o, o, o, o};
    cls_device_info queried = {.struct_size = sizeof queried};
    driver_reset();
    must(cls_device_query(d->id, &o, &queried));
    for (size_t k = 0; k < sizeof of_device / sizeof of_device[0]; k++) {
        fake.other_device = of_device[k];
        expect_none(d, &o, "another device");
    }
    for (size_t k = 0; k < sizeof of_platform / sizeof of_platform[0]; k++) {
        fake.other_platform = of_platform[k];
        expect_none(d, &o, "another platform");
    }
    other[0].shortlist = 16;
    other[1].vector = queried.vector == 16 ? 8 : 16;
    other[2].max_local_mem_size = queried.local_mem_size - 1;
    other[3].max_work_group = GROUP - 1;
    other[4].row_group = 1;
    other[5].work_group = 1;
    for (size_t k = 0; k < sizeof other / sizeof other[0]; k++)
        expect_none(d, &other[k], "another shape");
    test_subgroups(EMULATED_SUBGROUPS);
    expect_none(d, &o, "another tier");
    test_subgroups(CLS_SUBGROUPS_NONE);

    /* Another type alone: its programs are not there, the others are. */
    cls_context_options typed = o;
    fake.no_compiler = 1;
    typed.dtypes = 1u << CLS_F16;
    cls_context *const context = new_context(d, &typed);
    must_fail(cls_context_compile(context, 0, 0), CLS_UNSUPPORTED_DEVICE, "has no compiler");
    ck_assert_uint_eq(fake.from_source, 0);
    cls_context_destroy(context);
    driver_reset();
    const cls_context_options none = plain_options();
    expect_none(d, &none, "no programs at all");
}
END_TEST

/* Every kind of damage, with and without a compiler. */
START_TEST(damaged)
{
    device *const d = fixture_device(_i);
    if (gives_none(d))
        return;
    cls_context_options o = with_export(_i);
    uint8_t *const bytes = exports[_i].bytes;
    const size_t size = exports[_i].size;
    const size_t places[] = {0, 8, 12, 43, 44, 52, 83, 84, 100, 116, size / 2, size - 1};
    const size_t lengths[] = {0, 1, 83, 84, 116, size / 2, size - 1};
    driver_reset();
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        bytes[places[k]] ^= 4;
        expect_none(d, &o, "a bit flipped");
        if (places[k] == size / 2)
            expect(d, &o, CLS_ORIGIN_SOURCE, 0, "a bit flipped");
        bytes[places[k]] ^= 4;
    }
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        o.binary_size = lengths[k];
        expect_none(d, &o, "cut");
        if (lengths[k] == size / 2)
            expect(d, &o, CLS_ORIGIN_SOURCE, 0, "cut");
    }
    o.binary_size = size;
    expect(d, &o, CLS_ORIGIN_BINARY, PROGRAMS, "whole again");
    o.binary = NULL;
    cls_context *context;
    must_refuse(cls_context_create(d->context, d->id, &o, &context), "binary_size");
}
END_TEST

/* Undamaged programs that the driver refuses, or that compute wrong results. */
START_TEST(distrusted)
{
    device *const d = fixture_device(_i);
    if (gives_none(d))
        return;
    const cls_context_options o = with_export(_i);
    cls_context *context = NULL;
    driver_reset();
    fake.no_binaries = 1;
    expect(d, &o, CLS_ORIGIN_SOURCE, PROGRAMS, "refused by the driver");
    driver_reset();
    fake.wrong_reads = 1;
    fake.right_reads = 2; /* the test of groups is read first, twice */
    expect_but(d, &o, CLS_ORIGIN_BINARY, SELF_TEST, PROGRAMS, "another arithmetic");
    ck_assert_int_eq(fake.wrong_reads, 0);
    /* The first token of the first step: of what it took, nothing was proved before. */
    driver_reset();
    fake.wrong_reads = 1;
    fake.right_reads = 3;
    expect_but(d, &o, CLS_ORIGIN_BINARY, ALL_PROGRAMS & ~SELF_TEST, PROGRAMS, "another token");
    ck_assert_int_eq(fake.wrong_reads, 0);
    fake.no_binaries = fake.no_compiler = 1;
    ck_assert_int_eq(cls_context_create(d->context, d->id, &o, &context), CLS_UNSUPPORTED_DEVICE);
    driver_reset();
}
END_TEST

/* -------------------------------------------------------------------- the groups */

static void must_not_open(device *d, const cls_context_options *o, cls_status status, cl_int code)
{
    cls_context *context = NULL;
    fake.builds = 0;
    ck_assert_int_eq(cls_context_create(d->context, d->id, o, &context), status);
    ck_assert_ptr_null(context);
    ck_assert_int_eq(cls_error_opencl(), code);
}

/* Does the same with a program that a context compiles later; the context remains usable. Returns
 * the message. */
static const char *must_not_compile(device *d, cls_context *context, cls_status status, cl_int code)
{
    static char said[512];
    cls_program_info info = {.struct_size = sizeof info};
    uint32_t n = 0, after = 0;
    while (cls_context_program(context, n, &info) == CLS_OK)
        n++;
    fake.builds = 0;
    const cls_status is = cls_context_compile(context, 0, 0);
    snprintf(said, sizeof said, "%s", cls_error_message());
    ck_assert_msg(is == status && cls_error_opencl() == code, "%s: %s", d->name, said);
    while (cls_context_program(context, after, &info) == CLS_OK)
        after++;
    ck_assert_uint_eq(after, n);
    return said;
}

/* The n-th build that was of a program, and not of the test of groups. */
static const char *build_of(int n)
{
    for (unsigned i = 0; i < fake.builds && i < DRIVER_BUILDS; i++)
        if (strstr(fake.options[i], "-DLIST=") != NULL && n-- == 0)
            return fake.options[i];
    return "no such build";
}

static void expect_build(int n, const char *words)
{
    ck_assert_msg(strstr(build_of(n), words) != NULL, "build %d: \"%s\" lacks \"%s\"", n,
                  build_of(n), words);
}

static uint32_t group_of(cls_context *context, const char *name)
{
    cls_program_info info = {.struct_size = sizeof info};
    for (uint32_t i = 0; cls_context_program(context, i, &info) == CLS_OK; i++)
        if (strcmp(info.name, name) == 0)
            return info.work_group;
    ck_abort_msg("there is no program %s", name);
    return 0;
}

/* Whatever the code is with which a compiler refuses a group, a smaller one is tried. */
START_TEST(refused_codes)
{
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY,
                                   CL_INVALID_WORK_GROUP_SIZE, CL_INVALID_BUILD_OPTIONS, -9999};
    device *const d = fixture_device(_i);
    const cls_context_options o = plain_options();
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        driver_reset();
        fake.max_built_group = 0;
        fake.build_refusal = codes[i];
        must_not_open(d, &o, CLS_BUILD_FAILED, codes[i]);
        must_say("the last of 1 work-items");
        expect_build(2, "-DWGS=1 ");
    }
    fake.build_refusal = CL_COMPILER_NOT_AVAILABLE;
    must_not_open(d, &o, CLS_BUILD_FAILED, CL_COMPILER_NOT_AVAILABLE);
    expect_build(1, "no such build");
    driver_reset();
}
END_TEST

/* Groups get smaller by halves; the message says what was last. The shortlist stays. */
START_TEST(refused_builds)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    cls_device_info queried = {.struct_size = sizeof queried};
    driver_reset();
    fake.max_built_group = 0;
    must(cls_device_query(d->id, &o, &queried));
    ck_assert_uint_eq(queried.row_group, GROUP);
    must_not_open(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_msg(strstr(cls_error_message(),
                         "smaller groups were tried, the last of 1 work-items: OpenCL error "
                         "CL_BUILD_PROGRAM_FAILURE") != NULL &&
                      strstr(cls_error_message(), "the program self-test did not compile") != NULL,
                  "%s", cls_error_message());
    for (int k = 0; k < 3; k++) {
        static const char *const groups[] = {"-DWGS=4 ", "-DWGS=2 ", "-DWGS=1 "};
        char list[32];
        snprintf(list, sizeof list, "-DLIST=%u ", queried.shortlist);
        ck_assert_msg(strstr(build_of(k), groups[k]) != NULL && strstr(build_of(k), list) != NULL,
                      "build %d: %s", k, build_of(k));
    }
    expect_build(3, "no such build");

    /* One program among others: these stay as they are. */
    driver_reset();
    o.max_work_group = 2;
    fake.max_built_group = 1;
    fake.failing_kernel = "cls_self_test";
    fake.max_launched_group = UINT32_MAX;
    cls_context *const context = new_context(d, &o);
    ck_assert_uint_eq(group_of(context, "self-test"), 1);
    ck_assert_uint_eq(context_info(context).row_group, 2);
    fake.max_built_group = 0;
    fake.failing_kernel = "cls_token";
    const char *said = must_not_compile(d, context, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_msg(strstr(said, "the program token-list did not compile") != NULL &&
                      strstr(said, "the last of 1 work-items") != NULL,
                  "%s", said);
    cls_context_destroy(context);

    /* What the caller forces stays. */
    driver_reset();
    fake.max_built_group = 0;
    o = plain_options();
    o.work_group = 2;
    o.shortlist = 16;
    must_not_open(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    expect_build(1, "no such build");
    ck_assert_ptr_null(strstr(cls_error_message(), "the last"));
    o.row_group = 2;
    o.shortlist = 0;
    must_not_open(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    must_say("-DWGS=2 ");
    expect_build(1, "no such build");
    driver_reset();
}
END_TEST

/* A kernel that the device does not launch is the one that gets smaller groups,
 * whichever program's proof launched it. */
/* NVIDIA's options only make kernels faster: without them where they are refused. */
START_TEST(refused_options)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    unsigned builds = 0;
    driver_reset();
    fake.nvidia = 1;
    o.max_work_group = 1;
    cls_context *const context = new_context(d, &o);
    must(cls_context_compile(context, 0, 0));
    for (int k = 0; k < (int)fake.builds; k++)
        if (strstr(build_of(k), " -cl-nv-maxrregcount=") != NULL) {
            const size_t before = strlen(build_of(k + 1));
            ck_assert_msg(strncmp(build_of(k), build_of(k + 1), before) == 0 &&
                              build_of(k)[before] == ' ' &&
                              strstr(build_of(k + 1), "-cl-nv-") == NULL,
                          "%s, then %s", build_of(k), build_of(k + 1));
            builds++;
        }
    ck_assert_uint_ge(builds, 1);
    check_tokens(d, context);
    cls_context_destroy(context);
    driver_reset();
}
END_TEST

/* What options->log was told. */
static char told[1 << 14];
static void tell(void *user, const char *sentence)
{
    const size_t n = strlen(told);
    ck_assert_ptr_eq(user, told);
    snprintf(told + n, sizeof told - n, "%s\n", sentence);
}

START_TEST(refused_launches)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    driver_reset();
    o.max_work_group = 2;
    fake.max_built_group = UINT32_MAX;
    fake.exempt_kernel = "cls_slots"; /* whose proof comes first, and takes the others */
    o.log = tell;
    o.log_user = told;
    told[0] = '\0';
    cls_context *const context = new_context(d, &o);
    fake.builds = 0;
    must(cls_context_compile(context, 0, 0));
    ck_assert_uint_eq(group_of(context, "self-test"), 1);
    ck_assert_uint_eq(group_of(context, "slots"), 2);
    ck_assert_uint_eq(group_of(context, "survey"), 1);
    ck_assert_uint_eq(group_of(context, "token-list"), 1);
    ck_assert_uint_eq(fake.builds, 5);
    ck_assert_ptr_nonnull(strstr(told, "\nsurvey is compiled again, for smaller groups, because "));
    ck_assert_ptr_nonnull(strstr(told, "\nsurvey of float32 is compiled and proved in "));
    check_tokens(d, context);
    cls_context_destroy(context);
    o.log = NULL;

    driver_reset();
    fake.max_launched_group = 0;
    o.shortlist = 16;
    fake.refusal = CL_INVALID_WORK_GROUP_SIZE;
    o.work_group = o.row_group = 1;
    must_not_open(d, &o, CLS_OPENCL_ERROR, CL_INVALID_WORK_GROUP_SIZE);
    ck_assert_uint_eq(fake.builds, 1);
    /* An error that is not about the work-group is reported at once. */
    o.work_group = o.row_group = o.shortlist = 0;
    fake.refusal = CL_OUT_OF_HOST_MEMORY;
    fake.max_built_group = UINT32_MAX;
    must_not_open(d, &o, CLS_OPENCL_ERROR, CL_OUT_OF_HOST_MEMORY);
    expect_build(1, "no such build");
    driver_reset();
}
END_TEST

/* Limits that are known only after the build. */
START_TEST(kernels_limits)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    driver_reset();
    fake.max_built_group = UINT32_MAX;
    fake.max_local_group = 1;
    o.max_local_mem_size = 65536;
    cls_context *const context = new_context(d, &o);
    ck_assert_uint_eq(group_of(context, "self-test"), 1);
    ck_assert_uint_eq(context_info(context).row_group, GROUP);
    ck_assert_uint_eq(context_info(context).local_mem_size, 65536);
    expect_build(0, "-DWGS=4 ");
    fake.max_local_group = 0;
    const char *const said = must_not_compile(d, context, CLS_UNSUPPORTED_DEVICE, CL_SUCCESS);
    ck_assert_msg(
        strstr(said, "the program slots takes 100000 bytes of local memory in groups of 1") != NULL,
        "%s", said);
    cls_context_destroy(context);
    o.row_group = 2;
    must_not_open(d, &o, CLS_BAD_ARGUMENT, CL_SUCCESS);
    must_say("takes 100000 bytes of local memory in groups of 2");

    driver_reset();
    fake.max_built_group = UINT32_MAX;
    fake.kernel_group = 2;
    fake.max_launched_group = 0;
    o = plain_options();
    o.max_work_group = 8;
    o.shortlist = 16;
    must_not_open(d, &o, CLS_OPENCL_ERROR, CL_OUT_OF_RESOURCES);
    for (int k = 0; k < 3; k++) {
        static const char *const groups[] = {"WGS=8 ", "WGS=2 ", "WGS=1 "};
        expect_build(k, groups[k]);
    }
    expect_build(3, "no such build");
    o.work_group = o.row_group = 8;
    must_not_open(d, &o, CLS_BAD_ARGUMENT, CL_SUCCESS);
    must_say("row_group is 8, but the program self-test runs in groups of at most 2");
    o.row_group = 0; /* then work_group decides */
    must_not_open(d, &o, CLS_BAD_ARGUMENT, CL_SUCCESS);
    must_say("options->work_group is 8, but the program");
    driver_reset();
}
END_TEST

/* Sub-groups are given up first. */
START_TEST(refused_subgroups)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    driver_reset();
    test_subgroups(EMULATED_SUBGROUPS);
    fake.max_built_group = 0;
    o.max_work_group = 0;
    o.work_group = o.row_group = 16;
    o.shortlist = 16;
    must_not_open(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_uint_ge(fake.builds, 3); /* with the test of sub-groups */
    expect_build(0, "SUBGROUPS=6");
    expect_build(1, "SUBGROUPS=0");
    expect_build(1, "-DWGS=16 ");
    expect_build(2, "no such build");
    o.tier = CLS_TIER_SUBGROUPS;
    must_not_open(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    expect_build(0, "SUBGROUPS=6");
    expect_build(1, "no such build");
    /* A built program has a limit, too, which may be another without sub-groups. */
    fake.max_built_group = UINT32_MAX;
    fake.kernel_group = 2;
    o.tier = CLS_TIER_AUTO;
    must_not_open(d, &o, CLS_BAD_ARGUMENT, CL_SUCCESS);
    expect_build(0, "SUBGROUPS=6");
    expect_build(1, "SUBGROUPS=0");
    expect_build(1, "-DWGS=16 ");
    expect_build(2, "no such build");
    test_subgroups(CLS_SUBGROUPS_NONE);
    driver_reset();
}
END_TEST

int main(int argc, char **argv)
{
    binaries_self = argv[0];
    driver_reset();
    fixture_begin(ON_DEVICES);
    if (argc > 1) {
        binaries_folder = argv[1];
        add_writer();
        return fixture_end();
    }
    add_device_test(exported);
    add_device_test(taken);
    add_device_test(of_others);
    add_device_test(damaged);
    add_device_test(distrusted);
    add_cache_tests();
    add_device_test(refused_codes);
    add_device_test(refused_builds);
    add_device_test(refused_options);
    add_device_test(refused_launches);
    add_device_test(kernels_limits);
    add_device_test(refused_subgroups);
    const int failed = fixture_end();
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++)
        free(exports[i].bytes);
    return failed;
}
