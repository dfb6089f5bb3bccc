/* SPDX-License-Identifier: MIT */
/* Compiled programs, exported and taken again, by a driver with and without a
 * compiler: what does not fit, or is damaged, it never sees. And shapes that a
 * device refuses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binaries.h"

static struct exported {
    uint8_t *bytes;
    size_t size;
} exports[8]; /* of the devices */

void driver_reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.most_built = MOST_BUILT;
    fake.most_launched = MOST_LAUNCHED;
    fake.most_local = UINT32_MAX;
    fake.refusal = CL_OUT_OF_RESOURCES;
}

cls_context_options plain_options(void)
{
    cls_context_options o;
    cls_context_options_default(&o, sizeof o);
    o.dtypes = 1u << CLS_F32;
    return o;
}

cls_device_info info_of(const cls_context *context)
{
    cls_device_info info = {.struct_size = sizeof info};
    must(cls_context_info(context, &info));
    return info;
}

void check_tokens(device *d, cls_context *context)
{
    rng r = {fixture_seed() + 40};
    batch *const b = batch_new(8, 3000, CLS_F32, 0, 0);
    b->history = 60;
    batch_random(b, &r);
    batch_requests(b, &r);
    batch_check(b, d, context, 0);
    batch_check(b, d, context, 1);
    batch_free(b);
}

void expect(device *d, const cls_context_options *o, cls_origin origin, int seen, const char *what)
{
    cls_context *context = NULL;
    fake.from_source = fake.from_binary = 0;
    const cls_status status = cls_context_create(d->context, d->id, o, &context);
    ck_assert_msg(status == CLS_OK, "%s: %s: %s", d->name, what, cls_error_message());
    ck_assert_msg(info_of(context).origin == (uint32_t)origin, "%s: %s: origin %u", d->name, what,
                  info_of(context).origin);
    ck_assert_msg((fake.from_source > 0) == (origin == CLS_ORIGIN_SOURCE), "%s: %s: %u from source", d->name, what,
                  fake.from_source);
    ck_assert_msg((fake.from_binary > 0) == seen, "%s: %s: the driver saw %u", d->name, what, fake.from_binary);
    check_tokens(d, context);
    cls_context_destroy(context);
}

/* Without a compiler: no context, and nothing for the driver to see. */
static void expect_none(device *d, const cls_context_options *o, const char *what)
{
    cls_context *context = NULL;
    fake.no_compiler = 1;
    fake.from_source = fake.from_binary = 0;
    const cls_status status = cls_context_create(d->context, d->id, o, &context);
    ck_assert_msg(status == CLS_UNSUPPORTED_DEVICE && context == NULL, "%s: %s: %s", d->name, what,
                  cls_status_name(status));
    ck_assert_msg(strstr(cls_error_message(), "has no compiler; give options->binary or cache_dir") != NULL, "%s: %s",
                  what, cls_error_message());
    ck_assert_msg(fake.from_source + fake.from_binary == 0, "%s: %s: the driver saw it", d->name, what);
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

/* What the other tests need: programs in the first shape that is not refused. */
START_TEST(exported)
{
    device *const d = fixture_device(_i);
    const cls_context_options o = plain_options();
    cls_device_info asked = {.struct_size = sizeof asked};
    cls_context *context = NULL;
    size_t size = 0, more, less;
    driver_reset();
    must(cls_device_query(d->id, &o, &asked));
    ck_assert_int_eq(cls_params_check(NULL, 10), CLS_BAD_ARGUMENT);
    must(cls_context_create(d->context, d->id, &o, &context));
    ck_assert_msg(strstr(cls_error_message(), "params") != NULL, "success says: %s", cls_error_message());
    ck_assert_uint_eq(info_of(context).shortlist, asked.shortlist < MOST_LAUNCHED ? asked.shortlist : MOST_LAUNCHED);
    ck_assert_int_eq(info_of(context).origin, CLS_ORIGIN_SOURCE);
    ck_assert_uint_eq(info_of(context).tier, asked.tier);
    check_tokens(d, context);

    must(cls_context_export(context, NULL, &size));
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
    cls_context_options o = with_export(_i);
    cls_context *context = NULL;
    size_t size = 0;
    driver_reset();
    expect(d, &o, CLS_ORIGIN_BINARY, 1, "with a compiler");
    fake.no_compiler = 1;
    expect(d, &o, CLS_ORIGIN_BINARY, 1, "without a compiler");

    /* What was taken can be exported, and taken again. */
    must(cls_context_create(d->context, d->id, &o, &context));
    must(cls_context_export(context, NULL, &size));
    uint8_t *const again = malloc(size);
    ck_assert_ptr_nonnull(again);
    must(cls_context_export(context, again, &size));
    cls_context_destroy(context);
    o.binary = again;
    o.binary_size = size;
    expect(d, &o, CLS_ORIGIN_BINARY, 1, "exported twice");
    free(again);
    driver_reset();
}
END_TEST

/* Of another device, driver, shape or type. */
START_TEST(of_others)
{
    static const cl_uint of_device[] = {CL_DEVICE_NAME,    CL_DEVICE_VENDOR_ID, CL_DEVICE_VERSION,
                                        CL_DRIVER_VERSION, CL_DEVICE_PROFILE,   CL_DEVICE_ADDRESS_BITS};
    static const cl_uint of_platform[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION};
    device *const d = fixture_device(_i);
    const cls_context_options o = with_export(_i);
    cls_context_options other[7] = {o, o, o, o, o, o, o};
    cls_device_info asked = {.struct_size = sizeof asked};
    driver_reset();
    must(cls_device_query(d->id, &o, &asked));
    for (size_t k = 0; k < sizeof of_device / sizeof of_device[0]; k++) {
        fake.other_device = of_device[k];
        expect_none(d, &o, "another device");
    }
    for (size_t k = 0; k < sizeof of_platform / sizeof of_platform[0]; k++) {
        fake.other_platform = of_platform[k];
        expect_none(d, &o, "another platform");
    }
    other[0].shortlist = 16;
    other[1].vector = asked.vector == 16 ? 8 : 16;
    other[2].tier = CLS_TIER_BASE;
    other[3].max_local_mem = asked.local_mem_size - 1;
    other[4].dtypes = 1u << CLS_F16;
    other[5].dtypes |= 1u << CLS_BF16;
    other[6].work_group = asked.work_group + 1;
    for (size_t k = 0; k < sizeof other / sizeof other[0]; k++)
        expect_none(d, &other[k], "another shape or type");
    const cls_context_options none = plain_options();
    expect_none(d, &none, "no programs at all");
}
END_TEST

/* Every kind of damage, with and without a compiler. */
START_TEST(damaged)
{
    device *const d = fixture_device(_i);
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
    expect(d, &o, CLS_ORIGIN_BINARY, 1, "whole again");
    o.binary = NULL;
    cls_context *context;
    ck_assert_int_eq(cls_context_create(d->context, d->id, &o, &context), CLS_BAD_ARGUMENT);
    ck_assert(strstr(cls_error_message(), "binary_size") != NULL);
}
END_TEST

/* Whole, but the driver does not want them, or they compute something else. */
START_TEST(distrusted)
{
    device *const d = fixture_device(_i);
    const cls_context_options o = with_export(_i);
    cls_context *context = NULL;
    driver_reset();
    fake.no_binaries = 1;
    expect(d, &o, CLS_ORIGIN_SOURCE, 1, "refused by the driver");
    driver_reset();
    fake.lies = 1;
    expect(d, &o, CLS_ORIGIN_SOURCE, 1, "another arithmetic");
    ck_assert_int_eq(fake.lies, 0);
    fake.no_binaries = fake.no_compiler = 1;
    ck_assert_int_eq(cls_context_create(d->context, d->id, &o, &context), CLS_UNSUPPORTED_DEVICE);
    driver_reset();
}
END_TEST

/* -------------------------------------------------------------------- the shape */

static void must_refuse(device *d, const cls_context_options *o, cls_status status, cl_int code)
{
    cls_context *context = NULL;
    fake.builds = 0;
    ck_assert_int_eq(cls_context_create(d->context, d->id, o, &context), status);
    ck_assert_ptr_null(context);
    ck_assert_int_eq(cls_error_opencl(), code);
}

/* Groups and lists get smaller by turns; the message says what was last. */
START_TEST(refused_builds)
{
    static const char *const shapes[] = {"WGS=256 -DLIST=1024", "WGS=128 -DLIST=1024", "WGS=128 -DLIST=512",
                                         "WGS=64 -DLIST=512",   "WGS=64 -DLIST=256",   "WGS=32 -DLIST=256"};
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    cls_device_info asked = {.struct_size = sizeof asked};
    driver_reset();
    fake.gpu = 1;
    fake.most_built = 0;
    must(cls_device_query(d->id, &o, &asked));
    must_refuse(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_msg(strstr(cls_error_message(), "the last with work_group 1, row_group 1, ") != NULL &&
                      strstr(cls_error_message(), "shortlist 16: OpenCL says CL_BUILD_PROGRAM_FAILURE") != NULL,
                  "%s", cls_error_message());
    for (uint32_t k = 0; asked.work_group == 256 && asked.shortlist == 1024 && k < 6; k++)
        ck_assert_msg(strstr(fake.options[k], shapes[k]) != NULL, "build %u: %s", k, fake.options[k]);

    /* What the caller forces stays. */
    o.work_group = 2;
    o.shortlist = 16;
    must_refuse(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_uint_eq(fake.builds, 1);
    ck_assert_ptr_null(strstr(cls_error_message(), "the last"));
    o.row_group = 2;
    o.shortlist = 0;
    must_refuse(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_msg(strstr(cls_error_message(), "work_group 2, row_group 2, ") != NULL, "%s", cls_error_message());
    driver_reset();
}
END_TEST

START_TEST(refused_launches)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    driver_reset();
    fake.most_launched = 0;
    o.shortlist = 16;
    fake.refusal = CL_INVALID_WORK_GROUP_SIZE;
    o.work_group = o.row_group = 1;
    must_refuse(d, &o, CLS_OPENCL_ERROR, CL_INVALID_WORK_GROUP_SIZE);
    /* No refusal of the shape: told at once. */
    o.shortlist = 0;
    fake.refusal = CL_OUT_OF_HOST_MEMORY;
    fake.most_built = UINT32_MAX;
    must_refuse(d, &o, CLS_OPENCL_ERROR, CL_OUT_OF_HOST_MEMORY);
    ck_assert_uint_eq(fake.builds, 1);
    driver_reset();
}
END_TEST

/* Limits that are known after the build. */
START_TEST(kernels_limits)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    cls_device_info asked = {.struct_size = sizeof asked};
    cls_context *context = NULL;
    driver_reset();
    must(cls_device_query(d->id, &o, &asked));
    if (asked.shortlist == 1024) {
        fake.most_built = UINT32_MAX;
        fake.most_local = 512;
        o.max_local_mem = 65536;
        must(cls_context_create(d->context, d->id, &o, &context));
        ck_assert_uint_eq(info_of(context).shortlist, 256);
        ck_assert_uint_eq(info_of(context).local_mem_size, 65536);
        ck_assert_msg(strstr(fake.options[0], "LIST=1024") != NULL, "%s", fake.options[0]);
        cls_context_destroy(context);
        o.shortlist = 1024;
        must_refuse(d, &o, CLS_BAD_ARGUMENT, CL_SUCCESS);
        ck_assert_msg(strstr(cls_error_message(), "take 100000 bytes of local memory") != NULL, "%s",
                      cls_error_message());
    }
    driver_reset();
    fake.gpu = 1;
    fake.kernel_group = 2;
    fake.most_launched = 0;
    o = plain_options();
    o.max_work_group = 8;
    o.shortlist = 16;
    must_refuse(d, &o, CLS_OPENCL_ERROR, CL_OUT_OF_RESOURCES);
    ck_assert_uint_eq(fake.builds, 3);
    for (int k = 0; k < 3; k++) {
        static const char *const groups[] = {"WGS=8 ", "WGS=2 ", "WGS=1 "};
        ck_assert_msg(strstr(fake.options[k], groups[k]) != NULL, "%s", fake.options[k]);
    }
    o.work_group = 8;
    must_refuse(d, &o, CLS_BAD_ARGUMENT, CL_SUCCESS);
    ck_assert_msg(strstr(cls_error_message(), "work_group is 8; the kernels run with at most 2") != NULL, "%s",
                  cls_error_message());
    driver_reset();
}
END_TEST

/* Sub-groups are the first that goes. */
START_TEST(refused_subgroups)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    driver_reset();
    cls_subgroups_pretended = CLS_SUBGROUPS_MADE;
    fake.most_built = 0;
    o.work_group = 16;
    o.shortlist = 16;
    must_refuse(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_uint_ge(fake.builds, 3); /* with the test of sub-groups */
    ck_assert_msg(strstr(fake.options[fake.builds - 2], "TIER=2 -DSUBGROUPS=6") != NULL, "%s",
                  fake.options[fake.builds - 2]);
    ck_assert_msg(strstr(fake.options[fake.builds - 1], "TIER=1 -DSUBGROUPS=0") != NULL, "%s",
                  fake.options[fake.builds - 1]);
    o.tier = CLS_TIER_SUBGROUPS;
    must_refuse(d, &o, CLS_BUILD_FAILED, CL_BUILD_PROGRAM_FAILURE);
    ck_assert_msg(strstr(fake.options[fake.builds - 1], "TIER=2") != NULL, "%s", fake.options[fake.builds - 1]);
    cls_subgroups_pretended = CLS_SUBGROUPS_NONE;
    driver_reset();
}
END_TEST

static Suite *suite(void)
{
    Suite *const s = suite_create("binaries");
    TCase *const t = tcase_create("binaries");
    tcase_set_timeout(t, 0);
    add_device_test(t, exported);
    add_device_test(t, taken);
    add_device_test(t, of_others);
    add_device_test(t, damaged);
    add_device_test(t, distrusted);
    add_cache_tests(t);
    add_device_test(t, refused_builds);
    add_device_test(t, refused_launches);
    add_device_test(t, kernels_limits);
    add_device_test(t, refused_subgroups);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    binaries_self = argv[0];
    driver_reset();
    if (argc > 1) {
        binaries_folder = argv[1];
        return fixture_run(writer_suite, 1);
    }
    const int failed = fixture_run(suite, 1);
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++)
        free(exports[i].bytes);
    return failed;
}
