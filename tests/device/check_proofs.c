/* SPDX-License-Identifier: MIT */
/* Proves that each program is proved by its cases of the self-test: with any programs that a
 * context may have by then, which may be more than those of its own sampler, or no others. A
 * program that does nothing is found out, and one that lacks what its variant has beyond a smaller
 * one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "fixture.h"
#include "selftest/selftest.h"

/* ---------------------------------------------------------------- all pairs of features */

static int compare(const void *a, const void *b)
{
    const cls_variant_set x = *(const cls_variant_set *)a, y = *(const cls_variant_set *)b;
    return x < y ? -1 : x > y;
}

/* Sorts sets and removes those that are there twice; returns how many are left. */
static uint32_t sort_sets(cls_variant_set *sets, uint32_t n)
{
    uint32_t left = 0;
    qsort(sets, n, sizeof *sets, compare);
    for (uint32_t i = 0; i < n; i++)
        if (left == 0 || sets[i] != sets[left - 1])
            sets[left++] = sets[i];
    return left;
}

/* Returns the variants that may run in the proof of a variant: those of the kernels of a step, and
 * of its own kernel. Those of outputs, verifications and shards run in each other's proofs, too. */
static cls_variant_set run_with(int variant)
{
    const enum cls_kernel own = cls_variants[variant].kernel;
    cls_variant_set set = 0;
    for (int v = CLS_SLOTS_0; v < CLS_VARIANTS; v++) {
        const enum cls_kernel k = cls_variants[v].kernel;
        if (k <= CLS_SEARCH || k == own || (k >= CLS_DISTRIBUTION && own >= CLS_DISTRIBUTION))
            set |= CLS_VARIANT_BIT(v);
    }
    return set;
}

/* Lists what there may be of run_with(variant) when the variant is proved: all that a first sampler
 * and a second one have, of which the second needs the variant. Returns the number. */
static uint32_t list_pairs(int variant, const cls_variant_set *samplers, uint32_t n,
                           cls_variant_set **pairs)
{
    const cls_variant_set with = run_with(variant);
    cls_variant_set *const first = must_malloc(n * sizeof *first);
    cls_variant_set *const second = must_malloc(n * sizeof *second);
    uint32_t n_first = n, n_second = 0, count = 0;
    for (uint32_t i = 0; i < n; i++) {
        first[i] = samplers[i] & with;
        if (samplers[i] >> variant & 1u)
            second[n_second++] = samplers[i] & with;
    }
    n_first = sort_sets(first, n_first);
    n_second = sort_sets(second, n_second);
    *pairs = malloc((size_t)n_first * n_second * sizeof **pairs);
    ck_assert_ptr_nonnull(*pairs);
    for (uint32_t i = 0; i < n_first; i++)
        for (uint32_t j = 0; j < n_second; j++)
            (*pairs)[count++] = first[i] | second[j];
    free(first);
    free(second);
    return sort_sets(*pairs, count);
}

/* Proves a variant in a context that has only some of its programs. */
static void prove_with(cls_context *context, int variant, cls_variant_set set, const char *where)
{
    cls_program there[CLS_DTYPES][CLS_VARIANTS];
    cls_variant_set launched;
    memcpy(there, context->program, sizeof there);
    for (int v = 0; v < CLS_VARIANTS; v++)
        if (!(set >> v & 1u))
            context->program[0][v].program = NULL;
    const cls_status status = cls_prove(context, variant, CLS_F32, &launched);
    memcpy(context->program, there, sizeof there);
    ck_assert_msg(status == CLS_OK, "%s: %s with the programs 0x%llx: %s", where,
                  cls_variants[variant].name, (unsigned long long)set, cls_error_message());
}

/* All programs in one context, which proves each of them, in groups of the size that was asked for.
 * Alone this is short enough for Oclgrind in groups of 256. */
START_TEST(compiled)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    must(cls_compile(context, 1u << CLS_F32, cls_variants_all()));
    const cls_shape *const shape = &context->shape, *const wanted = &context->requested_shape;
    ck_assert_uint_eq(shape->work_group, wanted->work_group);
    ck_assert_uint_eq(shape->row_group, wanted->row_group);
    printf("%s: groups of %u and %u, vectors of %u\n", d->name, shape->work_group, shape->row_group,
           shape->vector);
}
END_TEST

/* Of each variant, all the sets of programs that it can be proved with; if not in full, some of
 * them, since each is a step of two tokens. */
START_TEST(all_pairs)
{
    static cls_variant_set samplers[CLS_FEATURES_KNOWN];
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    const uint32_t stride = fixture_by_size(97, 97, 1);
    uint32_t proofs = 0;
    for (uint32_t features = 1; features <= CLS_FEATURES_KNOWN; features++)
        samplers[features - 1] = cls_variants_of(features);
    const uint32_t n = sort_sets(samplers, CLS_FEATURES_KNOWN);
    must(cls_compile(context, 1u << CLS_F32, cls_variants_all()));
    for (int v = CLS_SLOTS_0; v < CLS_VARIANTS; v++) {
        cls_variant_set *pairs;
        const uint32_t count = list_pairs(v, samplers, n, &pairs);
        for (uint32_t i = stride / 2 % count; i < count; i += stride, proofs++)
            prove_with(context, v, pairs[i], d->name);
        free(pairs);
    }
    printf("%s: %u proofs\n", d->name, (unsigned)proofs);
}
END_TEST

/* ------------------------------------------------------------------------ mutants */

static void must_not_prove(cls_context *context, int variant, const char *what)
{
    cls_variant_set launched = 0;
    const cls_status status = cls_prove(context, variant, CLS_F32, &launched);
    ck_assert_msg(status == CLS_SELF_TEST_FAILED, "%s %s: %s", cls_variants[variant].name, what,
                  cls_status_name(status));
    ck_assert_msg(variant == CLS_SELF_TEST_0 ||
                      strstr(cls_error_message(), cls_variants[variant].name) != NULL,
                  "%s", cls_error_message());
    ck_assert_msg(launched >> variant & 1u, "%s %s: 0x%llx were launched",
                  cls_variants[variant].name, what, (unsigned long long)launched);
    /* A wrong report goes no further: one without rows of its own would read records that are not
     * there in a verification. */
    ck_assert_msg(cls_variants[variant].kernel != CLS_REPORT ||
                      !(launched & CLS_VARIANT_BIT(CLS_VERIFY_0)),
                  "%s %s: it went on to a verification", cls_variants[variant].name, what);
}

/* A program does nothing once, in an otherwise right context: each one, or some of them if the test
 * is not run in full. */
START_TEST(idle)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    must(cls_compile(context, 1u << CLS_F32, cls_variants_all()));
    for (int v = 0; v < CLS_VARIANTS; v += (int)fixture_by_size(1, 5, 1)) {
        cls_variant_set launched;
        must(cls_prove(context, v, CLS_F32, &launched));
        fake.idle_kernel = cls_kernel_name(cls_variants[v].kernel);
        must_not_prove(context, v, "that does nothing");
        fake.idle_kernel = NULL;
    }
}
END_TEST

/* Rows of proofs may be as short as those of tests, and as long as large groups need. */
START_TEST(lengths)
{
    static const uint32_t vocabs[] = {1000, 5148, 32 * 1024 + 28};
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    const uint32_t usual = cls_test_proof_vocab;
    must(cls_compile(context, 1u << CLS_F32, cls_variants_all()));
    for (uint32_t i = 0; i < fixture_by_size(1, 1, 3); i++)
        for (int v = 0; v < CLS_VARIANTS; v++) {
            cls_variant_set launched;
            cls_test_proof_vocab = vocabs[i];
            must(cls_prove(context, v, CLS_F32, &launched));
            cls_test_proof_vocab = usual;
        }
}
END_TEST

/* Each program, or some of them as above, is that of a smaller variant of its kernel. */
START_TEST(smaller)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    must(cls_compile(context, 1u << CLS_F32, cls_variants_all()));
    for (int v = 0; v < CLS_VARIANTS; v += (int)fixture_by_size(1, 3, 1))
        for (int w = 0; w < v; w++) {
            cls_program *const p = &context->program[0][v];
            const cl_program own = p->program;
            if (cls_variants[w].kernel != cls_variants[v].kernel ||
                w == CLS_TOKEN_SMALL) /* its short list holds what the cases keep */
                continue;
            p->program = context->program[0][w].program;
            must_not_prove(context, v, cls_variants[w].name);
            p->program = own;
        }
}
END_TEST

/* -------------------------------------------------------------- samplers of one context */

static cls_sampler *sampler_with(cls_context *context, uint32_t features)
{
    cls_sampler *sampler;
    cls_sampler_options o = sampler_options(301, 1);
    o.dtypes = 1u << CLS_F32;
    o.features = features;
    must(cls_sampler_create(context, &o, &sampler));
    return sampler;
}

/* A first sampler reads adjusted rows. A second one or a compilation ahead then needs the search
 * with all truncations, but not of adjusted rows. */
START_TEST(search_after_adjustments)
{
    static const uint32_t first[] = {CLS_FEATURE_PENALTIES, CLS_FEATURE_HISTORY, CLS_FEATURE_MASK,
                                     CLS_FEATURE_BIAS};
    const uint32_t second = CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH | CLS_FEATURE_SAMPLERS;
    device *const d = fixture_device(_i);
    for (uint32_t i = 0; i < fixture_by_size(2, 2, 8); i++) {
        cls_context_options o = default_context_options();
        o.cache_dir = getenv("CLS_TEST_PROGRAMS");
        o.cache_always = 1;
        cls_context *const context = new_context(d, &o);
        cls_sampler *const a = sampler_with(context, CLS_FEATURE_SHORTLIST | first[i / 2]);
        if (i % 2) {
            must(cls_context_compile(context, 1u << CLS_F32, second));
        }
        cls_sampler_destroy(sampler_with(context, second));
        cls_sampler_destroy(a);
        cls_context_destroy(context);
    }
}
END_TEST

int main(void)
{
    cls_test_small_lists = 1; /* there is token-small, too */
    fixture_begin(ON_DEVICES);
    add_device_test(search_after_adjustments);
    add_device_test(compiled);
    add_device_test(all_pairs);
    add_device_test(lengths);
    add_device_test(idle);
    add_device_test(smaller);
    return fixture_end();
}
