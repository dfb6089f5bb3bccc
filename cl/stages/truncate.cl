/* SPDX-License-Identifier: MIT */
/* truncate: the table of the chain's stages: their properties, and the three forms of each: a bound
 * before the chain runs, on the shortlist, and over the whole row. It also runs a row's chain over
 * its shortlist: a truncation keeps a number of the list's ranks, or removes some of them. */
#include "stages/temperature.cl"
#include "stages/top_k.cl"
#include "stages/top_p.cl"
#include "stages/min_p.cl"
#include "stages/top_n_sigma.cl"
#include "stages/typical_p.cl"
#include "stages/xtc.cl"
#include "stages/p_less.cl"
#include "stages/top_a.cl"
#include "stages/mirostat.cl"
#include "stages/infill.cl"

/* These stages need the list to hold the whole set. */
#define STAGES_OF_SET \
    (STAGE(CLS_STAGE_TYPICAL_P) | STAGE(CLS_STAGE_P_LESS) | STAGE(CLS_STAGE_TOP_N_SIGMA) | \
     STAGE(CLS_STAGE_INFILL) | STAGE(STAGE_DYNAMIC))
/* These stages need the mass of the set. */
#define STAGES_OF_MASS \
    (STAGE(CLS_STAGE_TYPICAL_P) | STAGE(CLS_STAGE_P_LESS) | STAGE(CLS_STAGE_INFILL) | \
     STAGE(STAGE_DYNAMIC) | STAGE(CLS_STAGE_TOP_P) | STAGE(CLS_STAGE_XTC) | \
     STAGE(CLS_STAGE_TOP_A) | STAGE(CLS_STAGE_MIROSTAT_2))
/* As the first truncation of a row, these stages cut at a known key, or by measures of the pass. */
#define STAGES_OF_KEY (STAGE(CLS_STAGE_MIN_P) | STAGE(CLS_STAGE_MIROSTAT_2))
#define STAGES_OF_PASS (STAGES_OF_KEY | STAGE(CLS_STAGE_TOP_K) | STAGE(CLS_STAGE_TOP_P))
/* These stages keep at least min_keep tokens. XTC handles min_keep itself. */
#define STAGES_OF_LEAST \
    (STAGE(CLS_STAGE_TOP_P) | STAGE(CLS_STAGE_MIN_P) | STAGE(CLS_STAGE_TOP_N_SIGMA) | \
     STAGE(CLS_STAGE_P_LESS) | STAGE(CLS_STAGE_TYPICAL_P) | STAGE(CLS_STAGE_TOP_A))

/* Bounds the set by the chain's stages, up to one that must know more of the row than its maximum
 * and its mass, or that makes an upper cut. */
static inline void chain_bound(__global const cls_slot *slot, i32 max_key, u64 total,
                               stage_bound *b)
{
    b->k = 0;
    b->lowest = CLS_KEY_NONE + 1;
    b->bounded = b->by_maxima = 0;
    b->first = b->goes_on = 1;
    b->scale = CLS_LOG2E;
    SHORT_LOOP
    for (u32 i = 0; b->goes_on && chain_stage(slot, i) != CLS_STAGE_END; i++) {
        const u32 stage = chain_stage(slot, i);
        if (stage == CLS_STAGE_TEMPERATURE) {
            b->scale = slot->scale;
            continue;
        }
        if (stage == CLS_STAGE_TOP_K)
            top_k_bound(slot, b);
        else if (stage == CLS_STAGE_TOP_P)
            top_p_bound(b);
        else if (stage == CLS_STAGE_MIN_P)
            min_p_bound(slot, float_of_key(max_key), b);
#if CHAIN == 2
        else if (stage == CLS_STAGE_TOP_A)
            top_a_bound(slot, float_of_key(max_key), total, b);
        else if (stage == CLS_STAGE_MIROSTAT_1)
            mirostat_1_bound(b);
        else if (stage == CLS_STAGE_MIROSTAT_2 && b->first)
            mirostat_2_bound(slot, max_key, total, b);
#endif
        else
            b->goes_on = 0;
        b->first = 0;
    }
}

/* Runs the chain from stage c->at over the sorted list. Returns 0 if the list cannot decide a
 * stage, because more of the row must be known or might be kept. */
ONE_COPY int truncate_list(__global const cls_slot *slot, shortlist *list, const row_logits *r,
                           int xtc_cuts, __global const i32 *infill, u32 n_end, chain_state *c,
                           cls_row *out)
{
    list_stage w = {slot, list, r, c, out, 0.0f, 0, CLS_KEY_INF};
    SHORT_LOOP
    for (; chain_stage(slot, c->at) != CLS_STAGE_END; c->at++) {
        const u32 stage = chain_stage(slot, c->at);
        const int of_mass = STAGE_IS(stage, STAGES_OF_MASS);
        if (stage == CLS_STAGE_TEMPERATURE) {
            c->scale = slot->scale;
            continue;
        }
        w.top = float_of_key(c->set.top_key);
        w.mass = out->total;
        w.key = CLS_KEY_INF;
        if (!c->complete && (STAGE_IS(stage, STAGES_OF_SET) || (of_mass && c->truncated)))
            return 0;
        if (of_mass && c->weighed != c->scale) {
            list_weigh(r, list, w.top, c->scale);
            c->weighed = c->scale;
        }
        if (of_mass && (c->truncated || !(slot->flags & CLS_SLOT_TOTAL)))
            w.mass = list_mass(list, c->kept);
        c->truncated = 1;
        if (stage == CLS_STAGE_TOP_K)
            top_k_list(&w);
        else if (stage == CLS_STAGE_TOP_P)
            top_p_list(&w);
        else if (stage == CLS_STAGE_MIN_P)
            min_p_list(&w);
#if CHAIN == 2
        else if (stage == CLS_STAGE_TOP_N_SIGMA)
            top_n_sigma_list(&w);
        else if (stage == CLS_STAGE_P_LESS)
            p_less_list(&w);
        else if (stage == CLS_STAGE_TOP_A)
            top_a_list(&w);
        else if (stage == CLS_STAGE_TYPICAL_P)
            typical_list(&w);
        else if (stage == STAGE_DYNAMIC)
            dynamic_list(&w);
        else if (stage == CLS_STAGE_MIROSTAT_2)
            mirostat_2_list(&w);
        else if (stage == CLS_STAGE_XTC) {
            if (!xtc_list(&w, xtc_cuts))
                return 0;
        } else if (stage == CLS_STAGE_MIROSTAT_1) {
            if (!mirostat_1_list(&w))
                return 0;
        } else if (!infill_list(&w, infill, n_end)) {
            return 1;
        }
#endif
        if (w.key != CLS_KEY_INF)
            keep_ranks(&w, list_count(list, c->kept, w.key), w.key >= c->floor);
    }
    return c->complete;
}

/* Runs one stage over the row: it returns how to cut in w->cut. */
static inline void run_stage(u32 stage, row_stage *w)
{
    w->cut = CUT_NOTHING;
    w->counts = 1;
    w->key = CLS_KEY_NONE + 1;
    w->target = 1;
    if (stage == CLS_STAGE_TOP_K)
        top_k_row(w);
    else if (stage == CLS_STAGE_TOP_P)
        top_p_row(w);
    else if (stage == CLS_STAGE_MIN_P)
        min_p_row(w);
#if CHAIN == 2
    else if (stage == CLS_STAGE_TOP_N_SIGMA)
        top_n_sigma_row(w);
    else if (stage == CLS_STAGE_P_LESS)
        p_less_row(w);
    else if (stage == CLS_STAGE_TOP_A)
        top_a_row(w);
    else if (stage == CLS_STAGE_TYPICAL_P)
        typical_row(w);
    else if (stage == STAGE_DYNAMIC)
        dynamic_row(w);
    else if (stage == CLS_STAGE_XTC)
        xtc_row(w);
    else if (stage == CLS_STAGE_MIROSTAT_1)
        mirostat_1_row(w);
    else
        mirostat_2_row(w);
#endif
}
