/* SPDX-License-Identifier: MIT */
/* The table of programs: the variants of each kernel, and the features that each variant supports.
 */
#include "programs/programs.h"

#include <stdio.h>

#define SOURCE(NAME) \
    extern const char *const cls_source_##NAME[]; \
    extern const unsigned cls_source_##NAME##_count;
SOURCE(self_test)
SOURCE(slots)
SOURCE(prepare)
SOURCE(survey)
SOURCE(token)
SOURCE(pass)
SOURCE(search)
SOURCE(distribution)
SOURCE(report)
SOURCE(watermark)
SOURCE(force)
SOURCE(kept)
SOURCE(accept)
SOURCE(residual)
SOURCE(verify)
SOURCE(lookup)
SOURCE(partial)
SOURCE(merge)
#define FILE_OF(NAME) #NAME, cls_source_##NAME, &cls_source_##NAME##_count

#define TEXT_OF(NUMBER) #NUMBER
#define SHARED " -DSHARED_VIEW=1"
#define DEFINE_LIST(ENTRIES) " -DLIST=" TEXT_OF(ENTRIES)

/* The features that adjust a row's logits, what lists of the context's length serve, and all. */
enum {
    ROW = CLS_FEATURE_PENALTIES | CLS_FEATURE_HISTORY | CLS_FEATURE_MASK | CLS_FEATURE_BIAS |
          CLS_FEATURE_SOFTCAP,
    LISTS = CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH | (int)CLS_NEED_LONG_LIST,
    ALL = (int)CLS_NEEDS_ALL
};

/* The variants of each kernel, the smallest first. `supports` has the features that steps of the
 * variant may have beyond greedy and plain rows, of those that select a variant of the kernel.
 * -DROW=0 leaves out masks, biases, penalties and history effects, and tokens that shards drew.
 * -DCHAIN=0 leaves out all truncations, -DCHAIN=1 all but the common ones. -DFORCED=1 is for
 * kernels that follow the text of requests with thinking budgets, loop stops, forced ids or
 * grammars.
 * -DLIST=256 is for devices with little local memory (cls_shape_wants_small_lists()), which run
 * more groups at a time if a group's list takes less; rows that may keep more tokens need another
 * variant. -DROLLED=1 keeps GPU compilers from unrolling the loops over tiles (cl/row/tiles.cl).
 *
 * The last column is `registers`. Without a limit, ptxas uses as many registers as a group of 256
 * may have, and may still spill. With a limit of 80, three groups run at the same time instead of
 * two: survey-row then spills nothing, pass-row 200 bytes and distribution-row 344, where they need
 * 126 and 111 registers to spill nothing. token-list spills 44 bytes with 80 and none with 128.
 *
 * -DSHARED_VIEW=1 is for programs whose functions NVIDIA's compiler calls (cl/core/vectors.cl). */
const cls_variant cls_variants[CLS_VARIANTS] = {
    [CLS_SELF_TEST_0] = {"self-test", CLS_SELF_TEST, FILE_OF(self_test), "", ALL, 0, 0},
    [CLS_SLOTS_0] = {"slots", CLS_SLOTS, FILE_OF(slots), " -DCHANGES=0", 0, 0, 80},
    [CLS_SLOTS_1] = {"slots-state", CLS_SLOTS, FILE_OF(slots), " -DFORCED=1", ALL, 0, 128},
    [CLS_PREPARE_0] = {"prepare", CLS_PREPARE, FILE_OF(prepare), " -DFORCED=1", ALL, 0, 64},
    [CLS_SURVEY_0] = {"survey", CLS_SURVEY, FILE_OF(survey), " -DROW=0 -DSHARD=1", 0, 1, 0},
    [CLS_SURVEY_1] = {"survey-row", CLS_SURVEY, FILE_OF(survey), " -DSHARD=1", ALL, 1, 80},
    [CLS_TOKEN_0] = {"token-plain", CLS_TOKEN, FILE_OF(token), " -DROW=0 -DCHAIN=0",
                     CLS_FEATURE_PLAIN, 1, 0},
    [CLS_TOKEN_SMALL] = {"token-small", CLS_TOKEN, FILE_OF(token),
                         " -DROW=0 -DCHAIN=1" DEFINE_LIST(CLS_SMALL_LIST), CLS_FEATURE_SHORTLIST, 1,
                         128},
    [CLS_TOKEN_1] = {"token-list", CLS_TOKEN, FILE_OF(token), " -DROW=0 -DCHAIN=1", LISTS, 1, 128},
    [CLS_TOKEN_2] = {"token-row", CLS_TOKEN, FILE_OF(token), " -DCHAIN=1 -DROLLED=1" SHARED,
                     LISTS | CLS_FEATURE_SHARD | ROW, 1, 128},
    [CLS_TOKEN_3] = {"token-all", CLS_TOKEN, FILE_OF(token), " -DROLLED=1" SHARED, ALL, 1, 128},
    [CLS_PASS_0] = {"pass", CLS_PASS, FILE_OF(pass), " -DROW=0", 0, 1, 0},
    [CLS_PASS_1] = {"pass-row", CLS_PASS, FILE_OF(pass), "", ALL, 1, 80},
    [CLS_SEARCH_0] = {"search", CLS_SEARCH, FILE_OF(search), " -DSEARCH=1 -DROW=0 -DCHAIN=1" SHARED,
                      0, 1, 128},
    [CLS_SEARCH_1] = {"search-row", CLS_SEARCH, FILE_OF(search), " -DSEARCH=1 -DCHAIN=1" SHARED,
                      ROW, 1, 128},
    [CLS_SEARCH_2] = {"search-all", CLS_SEARCH, FILE_OF(search), " -DSEARCH=1" SHARED, ALL, 1, 128},
    [CLS_DISTRIBUTION_0] = {"distribution", CLS_DISTRIBUTION, FILE_OF(distribution), " -DROW=0", 0,
                            1, 64},
    [CLS_DISTRIBUTION_1] = {"distribution-row", CLS_DISTRIBUTION, FILE_OF(distribution), "", ALL, 1,
                            80},
    [CLS_REPORT_0] = {"report", CLS_REPORT, FILE_OF(report), " -DROW=0", 0, 1, 80},
    [CLS_REPORT_1] = {"report-row", CLS_REPORT, FILE_OF(report), SHARED, ALL, 1, 128},
    [CLS_WATERMARK_0] = {"watermark", CLS_WATERMARK, FILE_OF(watermark), " -DFORCED=1", ALL, 1,
                         128},
    [CLS_FORCE_0] = {"force", CLS_FORCE, FILE_OF(force), " -DFORCED=1", ALL, 0, 0},
    [CLS_KEPT_0] = {"kept", CLS_KEPT, FILE_OF(kept), " -DROW=0", 0, 1, 0},
    [CLS_KEPT_1] = {"kept-row", CLS_KEPT, FILE_OF(kept), "", ALL, 1, 64},
    [CLS_ACCEPT_0] = {"accept", CLS_ACCEPT, FILE_OF(accept), " -DFORCED=1", ALL, 0, 128},
    [CLS_RESIDUAL_0] = {"residual", CLS_RESIDUAL, FILE_OF(residual), "", ALL, 1, 128},
    [CLS_VERIFY_0] = {"verify", CLS_VERIFY, FILE_OF(verify), " -DFORCED=1" SHARED, ALL, 1, 128},
    [CLS_LOOKUP_0] = {"lookup", CLS_LOOKUP, FILE_OF(lookup), " -DFORCED=1", ALL, 0, 0},
    [CLS_PARTIAL_0] = {"partial", CLS_PARTIAL, FILE_OF(partial), " -DCHAIN=1 -DSHARD=1" SHARED, ALL,
                       1, 128},
    [CLS_MERGE_0] = {"merge", CLS_MERGE, FILE_OF(merge), " -DROW=0 -DCHAIN=0", ALL, 0, 0},
};

/* For each kernel: the name of its function, the features that need the kernel (0: every step
 * does), and the features that select its variant. */
static const struct {
    const char *name;
    uint32_t needed_by, selected_by;
} kernels[CLS_KERNELS] = {
    [CLS_SELF_TEST] = {"cls_self_test", 0, 0},
    [CLS_SLOTS] = {"cls_slots", 0, CLS_FEATURE_STATE | CLS_FEATURE_FORCED},
    [CLS_PREPARE] = {"cls_prepare_rows", CLS_FEATURE_HISTORY | CLS_FEATURE_VERIFY, 0},
    [CLS_SURVEY] = {"cls_survey", 0, ROW | CLS_FEATURE_VERIFY},
    [CLS_TOKEN] = {"cls_token", 0,
                   ROW | LISTS | CLS_FEATURE_SAMPLERS | CLS_FEATURE_VERIFY | CLS_FEATURE_SHARD},
    [CLS_PASS] = {"cls_pass", CLS_FEATURE_SEARCH, ROW | CLS_FEATURE_VERIFY},
    [CLS_SEARCH] = {"cls_search", CLS_FEATURE_SEARCH,
                    ROW | CLS_FEATURE_SAMPLERS | CLS_FEATURE_VERIFY},
    [CLS_DISTRIBUTION] = {"cls_distribution", CLS_FEATURE_PROBS | CLS_FEATURE_LOGPROBS, ROW},
    [CLS_REPORT] = {"cls_report", CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS,
                    ROW | CLS_FEATURE_VERIFY},
    [CLS_WATERMARK] = {"cls_watermark", CLS_FEATURE_WATERMARK, 0},
    [CLS_FORCE] = {"cls_force", CLS_FEATURE_FORCED | CLS_FEATURE_WATERMARK, 0},
    [CLS_KEPT] = {"cls_kept", CLS_FEATURE_KEPT_SETS, ROW | CLS_FEATURE_VERIFY},
    [CLS_ACCEPT] = {"cls_accept",
                    CLS_FEATURE_ACCEPT | CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS |
                        CLS_FEATURE_KEPT_SETS,
                    0},
    [CLS_RESIDUAL] = {"cls_residual", CLS_FEATURE_VERIFY, 0},
    [CLS_VERIFY] = {"cls_verify", CLS_FEATURE_VERIFY, 0},
    [CLS_LOOKUP] = {"cls_lookup", CLS_FEATURE_VERIFY, 0},
    [CLS_PARTIAL] = {"cls_partial", CLS_FEATURE_SHARD, 0},
    [CLS_MERGE] = {"cls_merge", CLS_FEATURE_SHARD, 0},
};

const char *cls_kernel_name(enum cls_kernel kernel) { return kernels[kernel].name; }

int cls_variant_supports(int variant, uint32_t features)
{
    const cls_variant *const v = &cls_variants[variant];
    return (features & kernels[v->kernel].selected_by & ~v->supports) == 0;
}

int cls_variant_find(enum cls_kernel kernel, uint32_t features)
{
    int v = 0;
    while (cls_variants[v].kernel != kernel || !cls_variant_supports(v, features))
        v++;
    return v;
}

int cls_variants_suffice(cls_variant_set variants, uint32_t features)
{
    uint32_t missing = 0; /* kernels, a bit each */
    for (uint32_t k = CLS_SELF_TEST + 1; k < CLS_KERNELS; k++)
        if (kernels[k].needed_by == 0 || (kernels[k].needed_by & features) != 0)
            missing |= UINT32_C(1) << k;
    for (int v = 0; v < CLS_VARIANTS; v++)
        if ((variants >> v & 1u) && cls_variant_supports(v, features))
            missing &= ~(UINT32_C(1) << cls_variants[v].kernel);
    return missing == 0;
}

/* A sampler launches the smallest variant that supports a step. So it has four variants of each
 * kernel: the one that supports all of its features, the one for common steps, the one for those
 * whose rows keep few tokens and, with CLS_FEATURE_PLAIN, the one for steps without truncation. */
cls_variant_set cls_variants_of(uint32_t features)
{
    const uint32_t usual = features & CLS_FEATURE_SHORTLIST, lists = usual ? CLS_NEED_LONG_LIST : 0;
    cls_variant_set set = 0;
    features &= cls_features_built();
    for (int k = 0; k < CLS_KERNELS; k++) {
        if (k == CLS_SELF_TEST ||
            (kernels[k].needed_by != 0 && (kernels[k].needed_by & features) == 0))
            continue;
        set |= CLS_VARIANT_BIT(cls_variant_find((enum cls_kernel)k, features | lists));
        if (cls_test_fewest_programs)
            continue;
        set |= CLS_VARIANT_BIT(cls_variant_find((enum cls_kernel)k, usual | lists));
        set |= CLS_VARIANT_BIT(cls_variant_find((enum cls_kernel)k, usual));
        if (features & CLS_FEATURE_PLAIN)
            set |= CLS_VARIANT_BIT(cls_variant_find((enum cls_kernel)k, 0));
    }
    return set;
}

/* A variant that comes after one with all features that were built is never selected. */
cls_variant_set cls_variants_all(void)
{
    const uint32_t built = cls_features_built();
    cls_variant_set set = 0;
    for (int v = 0; v < CLS_VARIANTS; v++) {
        const uint32_t needed_by = kernels[cls_variants[v].kernel].needed_by;
        if ((needed_by == 0 || (needed_by & built) != 0) &&
            v <= cls_variant_find(cls_variants[v].kernel, built | CLS_NEED_LONG_LIST))
            set |= CLS_VARIANT_BIT(v);
    }
    return set;
}

/* ------------------------------------------------------------------- features */

uint32_t cls_features_of_slot(const cls_slot *slot)
{
    uint32_t features = 0;
    if (!(slot->flags & CLS_SLOT_BEGUN))
        return 0;
    if (!(slot->flags & (CLS_SLOT_GREEDY | CLS_SLOT_UNTRUNCATED)))
        features |=
            CLS_FEATURE_SHORTLIST | (slot->top_k > CLS_SMALL_TOP_K ? CLS_NEED_LONG_LIST : 0);
    if (slot->flags & CLS_SLOT_SEARCH)
        features |= CLS_FEATURE_SEARCH;
    if (slot->flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS | CLS_SLOT_DYNAMIC))
        features |= CLS_FEATURE_SAMPLERS;
    for (uint32_t i = 0; i < CLS_MAX_STAGES && cls_slot_stage(slot, i) != CLS_STAGE_END; i++)
        if (cls_slot_stage(slot, i) > CLS_STAGE_MIN_P)
            features |= CLS_FEATURE_SAMPLERS;
    if ((slot->flags & (CLS_SLOT_PENALIZED | CLS_SLOT_ALLOWED)) || slot->window != 0)
        features |= CLS_FEATURE_PENALTIES;
    if (slot->flags & (CLS_SLOT_HISTORY | CLS_SLOT_GRAMMAR))
        features |= CLS_FEATURE_HISTORY;
    if (slot->flags & (CLS_SLOT_THINKING | CLS_SLOT_LOOPS | CLS_SLOT_FORCED | CLS_SLOT_GRAMMAR))
        features |= CLS_FEATURE_FORCED;
    if (slot->watermark != 0)
        features |= CLS_FEATURE_WATERMARK;
    if (slot->answer != 0) /* the smallest variants know one phase */
        features |= CLS_FEATURE_PENALTIES;
    return features;
}

static const char *const features[] = {
    "CLS_FEATURE_PLAIN",     "CLS_FEATURE_SHORTLIST", "CLS_FEATURE_SEARCH", "CLS_FEATURE_SAMPLERS",
    "CLS_FEATURE_PENALTIES", "CLS_FEATURE_HISTORY",   "CLS_FEATURE_STATE",  "CLS_FEATURE_MASK",
    "CLS_FEATURE_BIAS",      "CLS_FEATURE_LOGPROBS",  "CLS_FEATURE_PROBS",  "CLS_FEATURE_ACCEPT",
    "CLS_FEATURE_VERIFY",    "CLS_FEATURE_SHARD",     "CLS_FEATURE_FORCED", "CLS_FEATURE_KEPT_SETS",
    "CLS_FEATURE_WATERMARK", "CLS_FEATURE_SOFTCAP",
};
enum { FEATURES = sizeof features / sizeof features[0] };

void cls_features_name(char text[CLS_FEATURE_NAMES], uint32_t bits)
{
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; i < FEATURES; i++)
        if (bits >> i & 1u)
            n += (size_t)snprintf(text + n, CLS_FEATURE_NAMES - n, "%s%s", n != 0 ? " | " : "",
                                  features[i]);
}

/* The features of the parts that the library in one file may leave out. */
static const struct {
    uint32_t features;
    const char *macro;
} left_out[] = {
#ifdef CLS_WITHOUT_SHARDS
    {CLS_FEATURE_SHARD, "CLS_WITHOUT_SHARDS"},
#endif
#ifdef CLS_WITHOUT_VERIFY
    {CLS_FEATURE_VERIFY, "CLS_WITHOUT_VERIFY"},
#endif
#ifdef CLS_WITHOUT_SEARCH
    {CLS_FEATURE_SEARCH, "CLS_WITHOUT_SEARCH"},
#endif
#ifdef CLS_WITHOUT_SAMPLERS
    {CLS_FEATURE_SAMPLERS | CLS_FEATURE_WATERMARK, "CLS_WITHOUT_SAMPLERS"},
#endif
#ifdef CLS_WITHOUT_OUTPUTS
    {CLS_FEATURE_PROBS | CLS_FEATURE_KEPT_SETS, "CLS_WITHOUT_OUTPUTS"},
#endif
    {0, ""},
};
enum { LEFT_OUT = sizeof left_out / sizeof left_out[0] };

uint32_t cls_features_built(void)
{
    uint32_t built = CLS_FEATURES_KNOWN;
    for (int i = 0; i < LEFT_OUT; i++)
        built &= ~left_out[i].features;
    return built;
}

cls_status cls_features_refuse(const char *where, uint32_t bits)
{
    char names[CLS_FEATURE_NAMES];
    for (int i = 0; i < LEFT_OUT; i++)
        if ((bits & left_out[i].features) != 0) {
            cls_features_name(names, bits & left_out[i].features);
            return cls_not_compiled("%s%s, which this library was built without (%s)", where, names,
                                    left_out[i].macro);
        }
    return CLS_OK;
}

cls_status cls_features_check(const char *where, uint32_t dtypes, uint32_t requested)
{
    if (dtypes >> CLS_DTYPES != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%sdtypes is 0x%x, which has bits beyond the dtypes", where,
                        (unsigned)dtypes);
    if (requested == CLS_FEATURES_ALL)
        return CLS_OK; /* all that the library has */
    if ((requested & ~CLS_FEATURES_KNOWN) != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%sfeatures is 0x%x, which has bits beyond the features", where,
                        (unsigned)requested);
    return cls_features_refuse("features has ", requested);
}
