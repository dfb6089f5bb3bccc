/* SPDX-License-Identifier: MIT */
/* Proves a program by its cases of the self-test. No sampler uses a program before. */
#include "selftest/selftest.h"

/* Sets the length of a row, and returns how many tiles each group gets, or 0 for as many as usual.
 * A group that reads several tiles at once gets a quarter more, so that it also does what follows a
 * first round of tiles and has work for some of its items only; another group gets a part of a
 * tile. */
static uint32_t proof_shape(const cls_shape *shape, uint32_t *vocab)
{
    const uint32_t round = cls_shape_round(shape), wanted = round + (round + 3) / 4;
    const uint32_t tiles = wanted < CLS_MOST_TILES_PER_GROUP ? wanted : CLS_MOST_TILES_PER_GROUP;
    *vocab = cls_test_proof_vocab != 0 ? cls_test_proof_vocab
             : round == 1              ? SELFTEST_VOCAB
                                       : tiles * CLS_TILE + 28;
    return round == 1 ? 0 : tiles;
}

/* Returns the features that the request of a case needs. */
static cls_status find_features(const cls_sampler *s, uint32_t which, uint32_t *features)
{
    const cls_selftest_case *const c = &cls_selftest_cases[which];
    cls_checked_params checked;
    cls_params params[2];
    cls_selftest_params(which, s->vocab, params);
    cls_status status = cls_selftest_grammar(which, s->vocab, params);
    if (status == CLS_OK)
        status = cls_checked_params_create(s, params, &checked);
    cls_grammar_release(params[0].grammar);
    if (status != CLS_OK)
        return status;
    *features = cls_features_to_begin(&checked);
    cls_checked_params_free(&checked);
    *features |= (c->with & WITH_MASK ? CLS_FEATURE_MASK : 0u) |
                 (c->with & WITH_DENSE ? CLS_FEATURE_BIAS : 0u) |
                 (c->with & WITH_FORCED ? CLS_FEATURE_FORCED | CLS_FEATURE_STATE : 0u) |
                 (c->stage == ST_SHARDS ? CLS_FEATURE_SHARD : 0u);
    if (c->setup == BY_ACCEPT || c->setup == BY_ROLLBACK || c->setup == BY_REPLACE)
        *features |= CLS_FEATURE_ACCEPT;
    if (c->setup == BY_COPY || c->setup == BY_ROLLBACK || c->setup == BY_REPLACE ||
        c->setup == BY_LOAD)
        *features |= CLS_FEATURE_STATE;
    return CLS_OK;
}

/* Returns the parts of the self-test in which a variant runs, and the features that these need.
 * Where there are programs to report on the tokens of a verification, the proof of the last one
 * compares these reports, too. */
static uint32_t parts_of(int variant, cls_variant_set available, uint32_t *features)
{
    const uint32_t verified = CLS_FEATURE_VERIFY | CLS_FEATURE_LOGPROBS;
    const int reported = cls_variants_suffice(available, verified);
    switch (cls_variants[variant].kernel) {
    case CLS_DISTRIBUTION:
        *features = CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS;
        return PART_STEPS | PART_OUTPUTS;
    case CLS_REPORT:
        *features = CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS | (reported ? verified : 0u);
        return PART_STEPS | PART_OUTPUTS | (reported ? PART_DRAFTS : 0u);
    case CLS_KEPT:
        *features = CLS_FEATURE_KEPT_SETS;
        return PART_STEPS | PART_OUTPUTS;
    case CLS_RESIDUAL:
    case CLS_VERIFY:
        *features = reported ? verified : CLS_FEATURE_VERIFY;
        return PART_DRAFTS;
    case CLS_LOOKUP:
        *features = CLS_FEATURE_VERIFY;
        return PART_LOOKUP;
    default:
        *features = 0;
        return PART_STEPS;
    }
}

/* Lists the variants that may run in the proof of a variant: those that are compiled, but of its
 * own kernel no other. */
static cls_variant_set list_available(const cls_context *context, int variant, int32_t dtype)
{
    cls_variant_set set = CLS_VARIANT_BIT(variant);
    for (int v = 0; v < CLS_VARIANTS; v++)
        if (context->program[cls_variants[v].typed ? dtype : 0][v].program != NULL &&
            cls_variants[v].kernel != cls_variants[variant].kernel)
            set |= CLS_VARIANT_BIT(v);
    return set;
}

/* Plans the first cases of a variant for which there are programs, and gives the sampler what they
 * need. */
static cls_status select_cases(cls_selftest_run *t, int variant, uint32_t most)
{
    cls_sampler *const s = t->side[SIDE_DEVICE].sampler;
    const cls_variant_set available = list_available(s->context, variant, t->dtype);
    const enum cls_kernel kernel = cls_variants[variant].kernel;
    uint32_t features;
    cls_status status = CLS_OK;
    t->selection.parts = parts_of(variant, available, &features);
    t->selection.methods = UINT32_C(1) << CLS_VERIFY_STANDARD;
    for (uint32_t i = 0; i < cls_selftest_case_count && status == CLS_OK; i++) {
        uint32_t more = 0;
#ifdef CLS_WITHOUT_GRAMMARS
        if (cls_selftest_cases[i].with & WITH_GRAMMAR)
            continue;
#endif
        if (!(cls_selftest_cases[i].proves & CLS_VARIANT_BIT(variant)))
            continue;
        status = find_features(s, i, &more);
        if (status != CLS_OK || !cls_variants_suffice(available, features | more) ||
            t->selection.count == most)
            continue;
        features |= more;
        t->selection.cases[t->selection.count++] = i;
    }
    s->features = features;
    s->force_search = kernel == CLS_PASS || kernel == CLS_SEARCH;
    if (status == CLS_OK)
        status = cls_sampler_add_kernels(s, t->dtype, available);
    if (status == CLS_OK && (features & CLS_FEATURE_SHARD)) /* merged rows are float32 */
        status = cls_sampler_add_kernels(s, CLS_F32, available);
    return status;
}

static cls_status run_cases(cls_selftest_run *t, int variant, uint32_t most)
{
    const cls_sampler *const sampler = t->side[SIDE_DEVICE].sampler;
    cls_status status = CLS_OK;
    t->known = t->answer;
    if (cls_variants[variant].kernel == CLS_SELF_TEST)
        t->selection.parts = PART_ARITHMETIC;
    else
        status = select_cases(t, variant, most);
    if (status == CLS_OK)
        status = cls_selftest_parts(t);
    if (sampler != NULL)
        t->launched = sampler->launched_variants;
    const cls_selftest_stage *const failed = cls_selftest_failed(&t->tested);
    if (status != CLS_OK || cls_test_proofs_compare_nothing)
        return status;
    if (failed == &t->tested.stage[ST_ARITHMETIC])
        return cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                        "the device's arithmetic differs from float32 rounded to nearest, with "
                        "infinities and NaN (%s)",
                        failed->message);
    if (failed != NULL)
        return cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                        "the program %s gives other results than the host (%s: %s)",
                        cls_variants[variant].name, failed->name, failed->message);
    if (!(t->launched & CLS_VARIANT_BIT(variant)))
        return cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                        "no case of the self-test has launched the program %s",
                        cls_variants[variant].name);
    return CLS_OK;
}

/* Proves a program by its first cases in rows of some length. */
static cls_status prove_in(cls_context *context, int variant, int32_t dtype, uint32_t vocab,
                           uint32_t tiles, uint32_t most, cls_variant_set *launched)
{
    const int has_sampler = cls_variants[variant].kernel != CLS_SELF_TEST;
    cls_selftest_run *const t = cls_selftest_new(context);
    if (t == NULL)
        return cls_no_memory("the self-test");
    t->dtype = dtype;
    t->selection.vocab = vocab;
    cls_status status = cls_selftest_open(t, has_sampler ? CLS_FEATURES_ALL : 0);
    cls_sampler *const sampler = t->side[SIDE_DEVICE].sampler;
    if (sampler != NULL) {
        sampler->tiles_per_group = tiles;
        sampler->dtypes = UINT32_C(1) << dtype;
    }
    if (status == CLS_OK)
        status = run_cases(t, variant, most);
    *launched |= t->launched;
    cls_selftest_close(t);
    return cls_selftest_status(status);
}

/* Returns whether a program that was right in short rows is also proved in long ones: in groups of
 * several items, if it reads the row of a step. A compiler that kept one counter for all items of a
 * group was wrong only where a loop over a list's tiles, 8,192 tokens in groups of 4 and 32,768 in
 * groups of 16, or over a group's tiles went round again. */
static int has_long_rows(const cls_shape *shape, int variant)
{
    uint32_t features;
    return cls_test_proof_vocab == 0 && !cls_test_proofs_compare_nothing &&
           (shape->work_group > 1 || shape->row_group > 1) && cls_variants[variant].typed &&
           parts_of(variant, 0, &features) == PART_STEPS;
}

enum { LONG_ROWS = 2 }; /* of a proof; the host samples them, too */

cls_status cls_prove(cls_context *context, int variant, int32_t dtype, cls_variant_set *launched)
{
    uint32_t vocab;
    const uint32_t tiles = proof_shape(&context->shape, &vocab);
    *launched = 0;
    cls_status status = prove_in(context, variant, dtype, vocab, tiles, SELFTEST_ROWS, launched);
    if (status == CLS_OK && vocab < SELFTEST_MOST_VOCAB && has_long_rows(&context->shape, variant))
        status = prove_in(context, variant, dtype, SELFTEST_MOST_VOCAB, tiles, LONG_ROWS, launched);
    return status;
}
