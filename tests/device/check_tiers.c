/* SPDX-License-Identifier: MIT */
/* Proves that every tier and every limit gives the same tokens: each configuration samples the
 * same random rows, and all give the reference's tokens bit for bit.
 *
 *     check_tiers        the configurations that differ most
 *     check_tiers all    every tier with every limit and vector */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "subgroups.h"

typedef struct configuration {
    uint32_t tier, work_group, vector, shortlist, max_work_group;
    uint64_t max_local_mem;
    uint32_t subgroups; /* sub-groups that this device has not */
    uint32_t groups_per_unit;
} configuration;

static const configuration few[] = {
    {.tier = CLS_TIER_INT64},
    {.tier = CLS_TIER_INT64, .groups_per_unit = 1},
    {.tier = CLS_TIER_INT64, .work_group = 12, .vector = 4, .shortlist = 64},
    {.tier = CLS_TIER_SUBGROUPS, .work_group = 16, .vector = 8, .subgroups = EMULATED_SUBGROUPS},
    {.tier = CLS_TIER_INT64, .work_group = 7, .max_local_mem = 1024},
};

static int all;

static configuration configuration_of(uint32_t i)
{
    static const uint32_t vectors[] = {0, 4, 8, 16}, groups[] = {0, 1, 12, 64};
    static const uint64_t locals[] = {0, 1024, 4096};
    if (!all)
        return few[i];
    configuration c = {.tier = CLS_TIER_INT64 + i % 2, .vector = vectors[i / 2 % 4]};
    const uint32_t limit = i / 8;
    if (limit < 4)
        c.max_work_group = groups[limit];
    else
        c.max_local_mem = locals[limit - 3];
    if (c.tier == CLS_TIER_SUBGROUPS) {
        c.subgroups = EMULATED_SUBGROUPS;
        c.work_group = c.max_work_group == 1 || c.max_work_group == 12 ? 4 : 16;
        c.max_work_group = c.max_work_group == 64 ? 64 : 0;
    }
    return c;
}

/* The smallest size: those of a single item on PoCL, which takes a minute to compile
 * groups of several, and five under AddressSanitizer; four configurations on Oclgrind. */
static uint32_t configurations(const device *d)
{
    return all ? 2 * 4 * 6 : fixture_by_size(is_oclgrind(d) ? 4 : 2, 5, 5);
}

static cls_context_options options_of(const configuration *c)
{
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    o.tier = c->tier;
    o.work_group = c->work_group;
    o.vector = c->vector;
    o.shortlist = c->shortlist;
    o.max_work_group = c->max_work_group;
    o.max_local_mem_size = c->max_local_mem;
    o.max_parameter_size = c->max_local_mem != 0 ? 256 : 0; /* the least device's */
    o.groups_per_unit = c->groups_per_unit;
    return o;
}

static batch *random_batch(uint32_t vocab, rng *r)
{
    batch *const b = batch_new(6, vocab, CLS_F32, vocab + rng_below(r, 5), 0);
    batch_random(b, r);
    b->history = 60;
    b->forces = 1;
    batch_mask(b, r, 50, 0);
    batch_requests(b, r);
    batch_bias(b, r, CLS_F32);
    return b;
}

START_TEST(same_tokens)
{
    static const uint32_t sizes[] = {1025, 111, 2500, 5000};
    device *const d = fixture_device(_i);
    uint32_t rows = 0, ran = 0;
    for (uint32_t i = 0; i < configurations(d); i++) {
        const configuration c = configuration_of(i);
        const cls_context_options o = options_of(&c);
        cls_context *const context = fixture_shaped(d, &o, c.subgroups);
        rng r = {fixture_seed() + 90};
        if (context == NULL)
            continue;
        const cls_device_info info = context_info(context);
        ck_assert_uint_eq(info.tier, c.tier);
        ck_assert_uint_eq(info.groups_per_unit, c.groups_per_unit != 0 ? c.groups_per_unit : 32);
        ck_assert(c.max_work_group == 0 ||
                  (info.work_group <= c.max_work_group && info.row_group <= c.max_work_group));
        ck_assert((c.tier == CLS_TIER_SUBGROUPS) == (info.subgroups != CLS_SUBGROUPS_NONE));
        for (uint32_t k = 0; k < fixture_by_size(2, 6, 12); k++, rows += 6) {
            batch *const b = random_batch(sizes[k % fixture_by_size(2, 3, 4)], &r);
            b->shortlist = info.shortlist;
            batch_check(b, d, context, k % 3 == 2);
            batch_free(b);
        }
        ran++;
        printf("%s: tier %u, work-group %u, row group %u, vector %u, local memory %llu, "
               "%u groups per unit: equal\n",
               d->name, info.tier, info.work_group, info.row_group, info.vector,
               (unsigned long long)c.max_local_mem, info.groups_per_unit);
    }
    printf("%s: %u configurations, %u rows each\n", d->name, ran, ran != 0 ? rows / ran : 0);
    ck_assert(ran > 0);
}
END_TEST

/* A compiler that assumes that there are no infinities and NaN gives wrong tokens, and is found
 * out. */
START_TEST(finite_math)
{
    device *const d = fixture_device(_i);
    const configuration c = {.work_group = 1};
    const cls_context_options o = options_of(&c);
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
    configuration c = {.tier = CLS_TIER_SUBGROUPS, .work_group = 16, .vector = 4};
    cls_context_options o = options_of(&c);
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
    if (cls_subgroups_candidate(d->id) == CLS_SUBGROUPS_NONE)
        must_fail(cls_device_query(d->id, &o, &info), CLS_UNSUPPORTED_DEVICE, "CLS_TIER_SUBGROUPS");
}
END_TEST

int main(int argc, char **argv)
{
    fixture_random(CLS_FEATURE_FORCED);
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    fixture_begin(ON_DEVICES);
    add_test(spread);
    add_device_test(refused);
    add_device_test(wrong_subgroups);
    add_device_test(same_tokens);
    add_device_test(finite_math);
    return fixture_end();
}
