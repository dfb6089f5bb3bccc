/* SPDX-License-Identifier: MIT */
/* Proves what shapes and tiers are chosen, that compilers and sub-groups that compute wrong are
 * found out, and what is refused. tests/scripts/shapes.sh has the tokens of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "subgroups.h"

/* A compiler that assumes that there are no infinities and NaN gives wrong tokens, and is found
 * out. */
START_TEST(finite_math)
{
    device *const d = fixture_device(_i);
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    o.work_group = 1;
    cls_context *context = NULL;
    cls_test_build_options = " -cl-finite-math-only";
    const cls_status status = cls_context_create(d->context, d->id, &o, &context);
    cls_test_build_options = NULL;
    const char *const flags = getenv("POCL_EXTRA_BUILD_FLAGS");
    const int optimizes = strstr(d->name, "Portable Computing Language") != NULL &&
                          (flags == NULL || strstr(flags, "-cl-opt-disable") == NULL);
    if (status == CLS_OK && !optimizes) {
        printf("%s: its compiler does not use that there are no infinities\n", d->name);
        cls_context_destroy(context);
        return;
    }
    must_fail(status, CLS_SELF_TEST_FAILED, "with infinities and NaN");
}
END_TEST

/* Sub-groups that compute wrong, if only in some groups, are found out, and not used. */
START_TEST(wrong_subgroups)
{
    device *const d = fixture_device(_i);
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    o.tier = CLS_TIER_SUBGROUPS;
    o.work_group = 16;
    o.vector = 4;
    cls_context *context = NULL;
    cls_shape shape = {.work_group = 16, .row_group = 1, .vector = 4, .compute_units = 2};
    test_subgroups(FAULTY_SUBGROUPS);
    must_fail(cls_context_create(d->context, d->id, &o, &context), CLS_UNSUPPORTED_DEVICE,
              "reduction is wrong");
    test_subgroups(LATER_FAULTY_SUBGROUPS);
    must_fail(cls_context_create(d->context, d->id, &o, &context), CLS_UNSUPPORTED_DEVICE,
              "differ from group to group");
    test_subgroups(EMULATED_SUBGROUPS);
    const char *const wrong = cls_subgroups_find(d->context, d->id, &shape);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    shape.row_group = 6; /* fours do not divide it */
    ck_assert_ptr_nonnull(strstr(cls_subgroups_find(d->context, d->id, &shape), "does not divide"));
    ck_assert_uint_eq(shape.subgroups, CLS_SUBGROUPS_NONE);
    /* What no device here has: the compiler refuses it, or it is never asked. */
    for (uint32_t i = CLS_SUBGROUPS_KHR; i <= CLS_SUBGROUPS_NV; i++) {
        if (i == CLS_SUBGROUPS_NV && (is_oclgrind(d) || strstr(d->name, "rusticl") != NULL))
            continue; /* their compilers end the process at an assembler's instruction */
        if (i <= CLS_SUBGROUPS_INTEL && strstr(d->name, "Portable Computing Language") != NULL)
            continue; /* PoCL 6.0 has these, and compiles them for ever */
        test_subgroups(i);
        shape.row_group = 1;
        const char *const why = cls_subgroups_find(d->context, d->id, &shape);
        printf("%s: sub-groups %u: %s\n", d->name, i, why != NULL ? why : "compute right");
    }
    test_subgroups(CLS_SUBGROUPS_NONE);
}
END_TEST

/* Groups share the tiles evenly: as many groups as asked for, as long as there are tiles, and never
 * more than 32 tiles in one. Groups that read several tiles at once get that many, or a multiple,
 * if two groups for each unit are left. */
START_TEST(spread)
{
    static const struct {
        uint32_t units, groups_per_unit;
        uint64_t tiles;
        uint32_t per_group, work_group, vector;
    } cases[] = {{132, 32, 126, 1, 0, 0},
                 {132, 32, 4224, 1, 0, 0},
                 {132, 32, 8447, 1, 0, 0},
                 {132, 32, 8448, 2, 0, 0},
                 {132, 8, 8448, 8, 0, 0},
                 {132, 1, 8448, 32, 0, 0},
                 {1, 1, 33, 32, 0, 0},
                 {1, 1, 31, 31, 0, 0},
                 {2, 1024, 2048, 1, 0, 0},
                 {2, 1024, 4096, 2, 0, 0},
                 {1, 1, 1, 1, 0, 0},
                 {4, 4, 16, 1, 0, 0},
                 {1024, 1024, 65535ull * 1024, 32, 0, 0},
                 {132, 32, 1055, 1, 256, 4}, /* of 256 items with vectors of 4: four at once */
                 {132, 32, 1056, 4, 256, 4},
                 {132, 32, 16 * 126, 4, 256, 4},
                 {132, 32, 256 * 126, 4, 256, 4},
                 {132, 32, 512 * 126, 12, 256, 4},
                 {132, 32, 4224, 1, 64, 4},
                 {6, 8, 1000, 20, 256, 4},
                 {6, 8, 1000, 20, 128, 4},
                 {6, 8, 1000, 20, 100, 4},
                 {4, 1, 1000, 32, 1024, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const cls_shape shape = {.work_group = cases[i].work_group != 0 ? cases[i].work_group : 1,
                                 .vector = cases[i].vector != 0 ? cases[i].vector : 16,
                                 .compute_units = cases[i].units,
                                 .groups_per_unit = cases[i].groups_per_unit};
        ck_assert_uint_eq(cls_shape_tiles_per_group(&shape, cases[i].tiles), cases[i].per_group);
    }
}
END_TEST

/* A device is opened in the tier and within the limits that are asked for. */
START_TEST(chosen)
{
    device *const d = fixture_device(_i);
    for (uint32_t i = 0; i < 4; i++) {
        cls_context_options o = default_context_options();
        cls_device_info info = {.struct_size = sizeof info};
        o.tier = i == 1 ? CLS_TIER_SUBGROUPS : CLS_TIER_INT64;
        o.work_group = i == 1 ? 16 : 0;
        o.max_work_group = i == 2 ? 12 : 0;
        o.max_local_mem_size = i == 3 ? 1024 : 0;
        o.groups_per_unit = i == 3 ? 1 : 0;
        test_subgroups(i == 1 ? EMULATED_SUBGROUPS : CLS_SUBGROUPS_NONE);
        must(cls_device_query(d->id, &o, &info));
        ck_assert_uint_eq(info.tier, o.tier);
        ck_assert_uint_eq(info.groups_per_unit, i == 3 ? 1 : 32);
        ck_assert(i != 2 || (info.work_group <= 12 && info.row_group <= 12));
        ck_assert((i == 1) == (info.subgroups != CLS_SUBGROUPS_NONE));
    }
    test_subgroups(CLS_SUBGROUPS_NONE);
}
END_TEST

/* What cannot be had is refused with its reason. */
START_TEST(refused)
{
    device *const d = fixture_device(_i);
    cls_context *context = NULL;
    cls_context_options o = default_context_options();
#define REFUSE(field, value, words) \
    must_refuse_with(o, field, value, cls_context_create(d->context, d->id, &o, &context), words)
    REFUSE(tier, 3, "tier is 3");
    REFUSE(max_local_mem_size, 1023, "at least 1024");
    REFUSE(groups_per_unit, 1025, "groups_per_unit is 1025; it must be at most 1024");
    o.work_group = 4;
    REFUSE(max_work_group, 3, "max_work_group");
    o.work_group = 0;
#undef REFUSE
    o.tier = CLS_TIER_SUBGROUPS;
    cls_device_info info = {.struct_size = sizeof info};
    o.work_group = 1;
    o.row_group = 1;
    must_fail(cls_device_query(d->id, &o, &info), CLS_UNSUPPORTED_DEVICE,
              "options->tier is CLS_TIER_SUBGROUPS, but groups have one work-item");
    o.work_group = 4;
    const char *reason;
    if (cls_subgroups_candidate(d->id, &reason) != CLS_SUBGROUPS_NONE) {
        ck_assert_ptr_null(reason);
        return;
    }
    must_fail(cls_device_query(d->id, &o, &info), CLS_UNSUPPORTED_DEVICE, reason);
    must_fail(cls_context_create(d->context, d->id, &o, &context), CLS_UNSUPPORTED_DEVICE, reason);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_test(spread);
    add_device_test(refused);
    add_device_test(wrong_subgroups);
    add_device_test(chosen);
    add_device_test(finite_math);
    return fixture_end();
}
