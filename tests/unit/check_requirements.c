/* SPDX-License-Identifier: MIT */
/* Proves that a device which lacks what the kernels need is refused with a sentence that names it,
 * before anything is compiled, and so is a size of groups that a device is known to get wrong. The
 * OpenCL is a stub, which computes nothing (stub_cl.h). */
#include <string.h>

#include "fixture.h"
#include "stub_cl.h"

static void refuse(device *d, stub_lack lacks, const char *sentence)
{
    cls_context *context = NULL;
    cls_device_info info = {.struct_size = sizeof info};
    cls_context_options o = default_context_options();
    stub_lacks = lacks;
    ck_assert_int_eq(cls_context_create(d->context, d->id, &o, &context), CLS_UNSUPPORTED_DEVICE);
    ck_assert_str_eq(cls_error_message(), sentence);
    ck_assert_ptr_null(context);
    ck_assert_int_eq(cls_device_query(d->id, &o, &info), CLS_UNSUPPORTED_DEVICE);
    ck_assert_int_eq(stub_alive(STUB_PROGRAM), 0);
    stub_lacks = STUB_LACKS_NOTHING;
    must(cls_device_query(d->id, &o, &info));
}

START_TEST(infinities)
{
    refuse(fixture_device(_i), STUB_LACKS_INFINITIES,
           "the device has no infinities and NaN (its CL_DEVICE_SINGLE_FP_CONFIG lacks "
           "CL_FP_INF_NAN), which the library requires");
}
END_TEST

START_TEST(int64)
{
    refuse(fixture_device(_i), STUB_LACKS_INT64,
           "the device has no 64-bit integers (it is of the embedded profile and lacks "
           "cles_khr_int64), which the library requires");
}
END_TEST

/* A limit of 12 gives groups of 8. A caller may choose any number, but not on Intel's runtime for
 * CPUs. */
START_TEST(powers_of_two)
{
    device *const d = fixture_device(_i);
    const stub_device_texts usual = stub_texts;
    cls_device_info info = {.struct_size = sizeof info};
    cls_context_options o = default_context_options();
    o.max_work_group = 12;
    must(cls_device_query(d->id, &o, &info));
    ck_assert_uint_eq(info.work_group, 8);
    ck_assert_uint_eq(info.row_group, 8);
    o.work_group = 12;
    must(cls_device_query(d->id, &o, &info));
    ck_assert_uint_eq(info.work_group, 12);
    ck_assert_uint_eq(info.row_group, 8);
    o.row_group = 5;
    must(cls_device_query(d->id, &o, &info));
    ck_assert_uint_eq(info.row_group, 5);
    stub_texts.extensions = "cl_intel_vec_len_hint";
    ck_assert_int_eq(cls_device_query(d->id, &o, &info), CLS_BAD_ARGUMENT);
    ck_assert_str_eq(cls_error_message(),
                     "options->work_group is 12; on Intel's runtime for CPUs it must be a power of "
                     "two, since other groups may get wrong tokens there");
    o.work_group = 4;
    ck_assert_int_eq(cls_device_query(d->id, &o, &info), CLS_BAD_ARGUMENT);
    ck_assert_str_eq(cls_error_message(),
                     "options->row_group is 5; on Intel's runtime for CPUs it must be a power of "
                     "two, since other groups may get wrong tokens there");
    o.row_group = 0;
    must(cls_device_query(d->id, &o, &info));
    ck_assert_uint_eq(info.row_group, 4);
    stub_texts = usual;
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(infinities);
    add_device_test(int64);
    add_device_test(powers_of_two);
    return fixture_end();
}
