/* SPDX-License-Identifier: MIT */
/* chain: the table of the chain's stages, the bound that they give before the chain runs, and the
 * loop that runs them. */
#include "stages/infill.cl"
#include "stages/min_p.cl"
#include "stages/mirostat.cl"
#include "stages/p_less.cl"
#include "stages/temperature.cl"
#include "stages/top_a.cl"
#include "stages/top_k.cl"
#include "stages/top_n_sigma.cl"
#include "stages/top_p.cl"
#include "stages/typical_p.cl"
#include "stages/xtc.cl"
#include "stages/make_cut.cl"

/* The stages: number, function, bound, properties. */
#define STAGES_1(STAGE) \
    STAGE(CLS_STAGE_TOP_K, top_k, top_k_bound, BY_PASS) \
    STAGE(CLS_STAGE_TOP_P, top_p, top_p_bound, NEEDS_MASS | KEEPS_LEAST | BY_PASS) \
    STAGE(CLS_STAGE_MIN_P, min_p, min_p_bound, KEEPS_LEAST | BY_KEY | BY_PASS)
#if CHAIN == 2
#define STAGES(STAGE) \
    STAGES_1(STAGE) \
    STAGE(CLS_STAGE_TOP_N_SIGMA, top_n_sigma, no_bound, NEEDS_SET | NEEDS_UNITS | KEEPS_LEAST) \
    STAGE(CLS_STAGE_TYPICAL_P, typical_p, no_bound, \
          NEEDS_SET | NEEDS_MASS | NEEDS_DEPTHS | KEEPS_LEAST) \
    STAGE(CLS_STAGE_XTC, xtc, no_bound, NEEDS_MASS) \
    STAGE(CLS_STAGE_P_LESS, p_less, no_bound, \
          NEEDS_SET | NEEDS_MASS | NEEDS_SQUARES | KEEPS_LEAST) \
    STAGE(CLS_STAGE_TOP_A, top_a, top_a_bound, NEEDS_MASS | KEEPS_LEAST) \
    STAGE(CLS_STAGE_INFILL, infill, no_bound, NEEDS_SET | NEEDS_MASS) \
    STAGE(CLS_STAGE_MIROSTAT_1, mirostat_1, mirostat_1_bound, 0u) \
    STAGE(CLS_STAGE_MIROSTAT_2, mirostat_2, mirostat_2_bound, NEEDS_MASS | BY_KEY | BY_PASS) \
    STAGE(STAGE_DYNAMIC, dynamic_temperature_of, no_bound, NEEDS_SET | NEEDS_MASS | NEEDS_DEPTHS)
#else
#define STAGES STAGES_1
#endif

#define STAGE_PROPERTIES(number, run, bound, is) stage == number ? (is):
static inline u32 stage_properties(u32 stage) { return STAGES(STAGE_PROPERTIES) 0u; }

/* Bounds the set by the chain's stages, up to one that must know more of the row than its maximum
 * and its mass, or that makes an upper cut. */
#define STAGE_BOUND(number, run, bound, is) \
    if (stage == number) \
        bound(slot, b);
static inline void bound_chain(__global const cls_slot *slot, i32 max_key, u64 total,
                               chain_bound *b)
{
    b->k = 0;
    b->lowest = CLS_KEY_NONE + 1;
    b->bounded = b->by_maxima = 0;
    b->first = b->goes_on = 1;
    b->scale = CLS_LOG2E;
    b->top = float_of_key(max_key);
    b->total = total;
    SHORT_LOOP
    for (u32 i = 0; b->goes_on && chain_stage(slot, i) != CLS_STAGE_END; i++) {
        const u32 stage = chain_stage(slot, i);
        if (stage == CLS_STAGE_TEMPERATURE) {
            b->scale = slot->scale;
            continue;
        }
        STAGES(STAGE_BOUND)
        b->first = 0;
    }
}

/* Prepares what a stage needs of the set in the list. Returns 0 if the list does not have that. */
static inline int list_begin(row_job *w, u32 is)
{
    chain_state *const c = &w->c;
    if (!c->complete && ((is & NEEDS_SET) || ((is & NEEDS_MASS) && c->truncated)))
        return 0;
    w->tokens = c->kept;
    if (is & NEEDS_MASS) {
        if (c->weighed != c->scale) {
            list_weigh(VIEW(w), w->list, w->top, c->scale);
            c->weighed = c->scale;
        }
        if (c->truncated || !(w->slot->flags & CLS_SLOT_TOTAL))
            w->mass = list_mass(w->list, c->kept);
    }
    return 1;
}

#if SEARCH
#if CHAIN == 2
#define SET_SUMS (FOLD_COUNT | FOLD_MASS | FOLD_DEPTHS | FOLD_SQUARES | FOLD_UNITS | FOLD_RANGE)
#else
#define SET_SUMS (FOLD_COUNT | FOLD_MASS)
#endif
/* Measures what is left of the row, for a stage; if that fits the list, the list takes over.
 * Mirostat 1 gets its first ranks in the list. It is a loop so that compilers that inline
 * everything compile one fold. */
ONE_COPY void measure_set(row_job *w, u32 stage, u32 is, int needs_mass)
{
    SHARED shortlist *const list = w->list;
    const u32 begins = stage == CLS_STAGE_END ? 0 : needs_mass ? FOLD_MASS : FOLD_COUNT;
    u32 what = w->finds_top ? FOLD_RANGE : begins;
    f32 scale = w->scale;
    SHORT_LOOP
    while (what != 0) {
        const fold q = fold_of(w->top, scale);
        u64 sum[CLS_PIVOTS];
        fold_row(VIEW(w), SET_SUMS, what, &q, sum, list->scratch);
        w->sum = sum[0];
        w->sum_of_squares = sum[1];
        if (what == FOLD_RANGE && w->finds_top) {
            new_top(&w->c.set, w->upper_before, key_of(clean(as_float(u64_lo(sum[1])))));
            w->top = float_of_key(w->c.set.top_key);
            w->finds_top = 0;
            what = begins;
            continue;
        }
        if (what == FOLD_RANGE) { /* of sigma: what it sums up depends on the range */
            w->least = clean(as_float(u64_lo(sum[0])));
            scale = sigma_grid(w->top - w->least);
            what = w->top - w->least > 0.0f ? FOLD_UNITS : 0;
            continue;
        }
        if (what != FOLD_MASS && what != FOLD_COUNT)
            return;
        w->tokens = u64_lo(what == FOLD_MASS ? sum[1] : sum[0]);
        w->mass = what == FOLD_MASS ? sum[0] : w->mass;
        u32 first = 0;
#if CHAIN == 2 && LIST >= CLS_MIROSTAT_RANKS
        first = stage == CLS_STAGE_MIROSTAT_1 ? CLS_MIROSTAT_RANKS : 0;
#endif
        if ((w->tokens <= LIST || first != 0) &&
            collect_first(VIEW(w), w->tokens <= LIST ? 0 : first,
                          max(w->c.set.cut.key, CLS_KEY_NONE + 1), w->c.set.top_key,
                          list) != CLS_KEY_NONE) {
            list_sort(list);
            w->listed = w->tokens <= LIST;
            w->c.kept = list->n;
            w->c.weighed = 0.0f;
        }
        what = is & NEEDS_DEPTHS    ? FOLD_DEPTHS
               : is & NEEDS_SQUARES ? FOLD_SQUARES
               : is & NEEDS_UNITS   ? FOLD_RANGE
                                    : 0;
        what = w->listed ? 0 : what;
    }
}
#endif

/* Runs the chain from stage c->at on. Returns 0 if the list cannot decide a stage, or in the end
 * holds too little of the row. */
#define STAGE_RUN(number, run, bound, is) \
    if (stage == number) \
        run(s, w);
ONE_COPY int run_chain(const step_args *s, row_job *w)
{
    chain_state *const c = &w->c;
    SHORT_LOOP
    for (;; c->at++) {
        const u32 stage = chain_stage(w->slot, c->at), is = stage_properties(stage);
        const int is_first = !c->truncated;
        if (stage == CLS_STAGE_TEMPERATURE) {
            c->scale = w->slot->scale;
            continue;
        }
        w->top = float_of_key(c->set.top_key);
        w->scale = c->scale;
        w->tokens = 0;
        w->mass = w->out.total;
        w->cut = CUT_NOTHING;
#if SEARCH
        if (!w->listed && (stage != CLS_STAGE_END || w->finds_top)) {
            if (!is_first) {
                row_truncate(VIEW(w), &c->set.cut);
                w->pass.last.pivot = -1; /* the pass measured the first truncation only */
            }
            if (!is_first || !(is & BY_PASS))
                measure_set(w, stage, is,
                            (is & NEEDS_MASS) && !(is_first && (w->slot->flags & CLS_SLOT_TOTAL)));
        }
#endif
        if (stage == CLS_STAGE_END)
            return c->complete;
        if (LISTED(w) && !list_begin(w, is))
            return 0;
        c->truncated = 1;
        STAGES(STAGE_RUN)
        if (w->cut == CUT_UNDECIDED)
            return 0;
        if (w->cut == CUT_EMPTY)
            return 1;
        make_cut(s, w, is, is_first);
    }
}
