/* SPDX-License-Identifier: MIT */
/* What a row reports beside its token: of the raw row or of the distribution that the token was
 * drawn from, by their definitions. */
#include "host/host.h"

#include <math.h>

/* --------------------------------------------------------------------- arrays */

/* Sets n numbers; `to` is NULL if they are not wanted. */
static void fill_ints(int32_t *to, uint32_t n, int32_t value)
{
    for (uint32_t i = 0; i < n && to != NULL; i++)
        to[i] = value;
}
static void fill_floats(float *to, uint32_t n, float value)
{
    for (uint32_t i = 0; i < n && to != NULL; i++)
        to[i] = value;
}
static void set_int(int32_t *to, uint32_t i, uint32_t value)
{
    if (to != NULL)
        to[i] = (int32_t)value;
}
static void set_float(float *to, uint32_t i, float value)
{
    if (to != NULL)
        to[i] = value;
}

void cls_outputs_clear(const cls_row_outputs *out, uint32_t vocab)
{
    fill_floats(out->at[CLS_OUT_LOGPROBS], 1, -INFINITY);
    fill_ints(out->at[CLS_OUT_RANKS], 1, 0);
    fill_ints(out->at[CLS_OUT_TOP_IDS], out->top, -1);
    fill_floats(out->at[CLS_OUT_TOP_LOGPROBS], out->top, -INFINITY);
    fill_floats(out->at[CLS_OUT_GIVEN_LOGPROBS], out->given, -INFINITY);
    fill_ints(out->at[CLS_OUT_GIVEN_RANKS], out->given, 0);
    fill_floats(out->at[CLS_OUT_ENTROPY], 1, 0.0f);
    fill_ints(out->at[CLS_OUT_KEPT], 1, 0);
    fill_floats(out->at[CLS_OUT_KEPT_MASS], 1, 0.0f);
    fill_ints(out->at[CLS_OUT_CANDIDATE_IDS], out->kept, -1);
    fill_floats(out->at[CLS_OUT_CANDIDATE_LOGITS], out->kept, -INFINITY);
    fill_floats(out->at[CLS_OUT_CANDIDATE_PROBS], out->kept, 0.0f);
    fill_floats(out->at[CLS_OUT_PROBS], vocab, 0.0f);
    fill_floats(out->at[CLS_OUT_FINAL_LOGITS], vocab, -INFINITY);
    fill_ints(out->at[CLS_OUT_SET_IDS], out->packed ? 0 : out->set, -1);
    fill_ints(out->at[CLS_OUT_SET_COUNTS], 1, 0);
}

/* --------------------------------------------------- logarithms and ranks of tokens */

static int is_greedy(const cls_sampled *w) { return (w->slot.flags & CLS_SLOT_GREEDY) != 0; }

/* Returns 1 if the set has a token: after a draw it is marked, and the raw row is all tokens. */
static int has(const cls_sampled *w, int raw, int32_t id)
{
    return id >= 0 && (uint32_t)id < w->vocab && (raw ? w->z[id] > -INFINITY : w->mark[id] != 0);
}

/* Returns the log-probability of a token of the set. Where nothing truncates a row, its draw adds
 * the weights of a tile before it rounds, and may choose a token whose own mass is 0: `drawn`. */
static float logprob_in_set(const cls_sampled *w, uint32_t id, int raw, uint64_t mass, int drawn)
{
    if (raw)
        return logprob_of(w->z[id], w->top, w->scale, mass);
    if (is_greedy(w))
        return 0.0f;
    if (cls_is_adaptive(w))
        return cls_drawn_weight(w, id) == 0
                   ? -INFINITY
                   : (float)(log2_q24(cls_drawn_weight(w, id)) - log2_q24(cls_drawn_sum(w))) *
                         (0x1p-24f * 0x1.62e430p-1f);
    return !drawn && cls_token_mass(w, id) == 0 ? -INFINITY
                                                : logprob_of(w->z[id], w->top, w->scale, mass);
}

/* Writes the log-probabilities and ranks of tokens of one distribution, which is that of the sorted
 * set: of the token, the first ones, and the given ones. */
static void write_tokens(cls_sampled *w, const cls_row_outputs *out, int raw)
{
    const uint64_t mass = raw ? cls_row_mass(w) : w->trace.mass;
    const int32_t token = w->trace.token, *const given = out->at[CLS_OUT_GIVEN_IDS];
    const int drawn = !w->trace.forced;
    if (has(w, raw, token)) {
        set_float(out->at[CLS_OUT_LOGPROBS], 0,
                  logprob_in_set(w, (uint32_t)token, raw, mass, drawn));
        set_int(out->at[CLS_OUT_RANKS], 0, cls_at_key(w, key_of(w->z[token])));
    }
    cls_select(w, out->top < w->n ? out->top : w->n);
    for (uint32_t i = 0; i < out->top && i < w->n; i++) {
        set_int(out->at[CLS_OUT_TOP_IDS], i, w->set[i]);
        set_float(out->at[CLS_OUT_TOP_LOGPROBS], i, logprob_in_set(w, w->set[i], raw, mass, 0));
    }
    for (uint32_t i = 0; i < out->given; i++) {
        if (!has(w, raw, given[i]))
            continue;
        set_float(out->at[CLS_OUT_GIVEN_LOGPROBS], i,
                  logprob_in_set(w, (uint32_t)given[i], raw, mass, 0));
        set_int(out->at[CLS_OUT_GIVEN_RANKS], i, cls_at_key(w, key_of(w->z[given[i]])));
    }
}

/* ------------------------------------------------------- the final distribution */

static float probability(const cls_sampled *w, uint32_t id)
{
    return is_greedy(w) ? 1.0f : u64_to_f32(cls_drawn_weight(w, id)) / u64_to_f32(cls_drawn_sum(w));
}

/* Returns the entropy in nats, from the mean depth of the set's tokens. With adaptive p depths are
 * relative to the greatest possible weight. */
static float entropy(const cls_sampled *w)
{
    uint64_t terms = 0;
    uint32_t bits;
    if (is_greedy(w))
        return 0.0f;
    for (uint32_t id = cls_next_marked(w, 0); id < w->vocab; id = cls_next_marked(w, id + 1)) {
        const uint64_t mass = cls_drawn_weight(w, id);
        if (!cls_is_adaptive(w))
            terms += depth_term(mass, cls_token_depth(w, id));
        else if (mass != 0 && log2_q24(mass) < 30 << 24)
            terms += depth_term(mass << 13, (uint32_t)((30 << 24) - log2_q24(mass)) >> 4);
    }
    if (cls_is_adaptive(w))
        bits = (uint32_t)((log2_q24(w->trace.adapted) - (30 << 24)) >> 4) +
               mean_depth_q20(terms, w->trace.adapted << 13);
    else
        bits = mass_q20(w->trace.mass, w->top, w->scale) + mean_depth_q20(terms, w->trace.mass);
    return (float)bits * (0x1p-20f * 0x1.62e430p-1f);
}

/* Returns the share of the set in the mass of all tokens at the final scale, in units of the whole
 * row, whose largest logit the set may lack. */
static float kept_mass(cls_sampled *w)
{
    const float top = w->top;
    uint64_t all = 0, kept = 0;
    if (is_greedy(w))
        return 1.0f;
    w->top = float_of_key(w->trace.max_key);
    cls_weigh(w);
    for (uint32_t i = 0; i < w->vocab; i++) {
        const uint64_t mass = cls_token_mass(w, i);
        all += mass;
        kept += w->mark[i] ? mass : 0;
    }
    w->top = top;
    cls_weigh(w);
    return u64_to_f32(kept) / u64_to_f32(all);
}

static void write_candidates(cls_sampled *w, const cls_row_outputs *out)
{
    const int all = out->at[CLS_OUT_PROBS] != NULL || out->at[CLS_OUT_FINAL_LOGITS] != NULL;
    set_int(out->at[CLS_OUT_KEPT], 0, w->n);
    cls_select(w, out->kept < w->n ? out->kept : w->n);
    for (uint32_t i = 0; i < out->kept && i < w->n; i++) {
        set_int(out->at[CLS_OUT_CANDIDATE_IDS], i, w->set[i]);
        set_float(out->at[CLS_OUT_CANDIDATE_LOGITS], i, w->z[w->set[i]]);
        if (out->at[CLS_OUT_CANDIDATE_PROBS] != NULL)
            set_float(out->at[CLS_OUT_CANDIDATE_PROBS], i, probability(w, w->set[i]));
    }
    for (uint32_t i = 0; all && (i = cls_next_marked(w, i)) < w->vocab; i++) {
        if (out->at[CLS_OUT_PROBS] != NULL)
            set_float(out->at[CLS_OUT_PROBS], i, probability(w, i));
        set_float(out->at[CLS_OUT_FINAL_LOGITS], i, w->z[i]);
    }
}

/* Writes the ids of the set, ascending, and its size. Returns how many ids were written. */
static uint32_t write_set(cls_sampled *w, const cls_row_outputs *out)
{
    const uint32_t room = !out->packed || w->n <= out->set ? out->set : 0;
    uint32_t n = 0;
    for (uint32_t i = 0; n < room && (i = cls_next_marked(w, i)) < w->vocab; i++)
        set_int(out->at[CLS_OUT_SET_IDS], n++, i);
    set_int(out->at[CLS_OUT_SET_COUNTS], 0, w->n);
    if (w->n > room)
        w->trace.status |= CLS_ROW_OVERFLOW;
    return n;
}

/* --------------------------------------------------------------------- the row */

uint32_t cls_outputs_write(cls_sampled *w, const cls_row_outputs *out)
{
    const cls_row *const trace = &w->trace;
    uint32_t written = 0;
    cls_outputs_clear(out, w->vocab);
    if (!trace->no_token) {
        if (!out->raw)
            write_tokens(w, out, 0);
        if (out->at[CLS_OUT_ENTROPY] != NULL)
            set_float(out->at[CLS_OUT_ENTROPY], 0, entropy(w));
        if (out->at[CLS_OUT_KEPT_MASS] != NULL)
            set_float(out->at[CLS_OUT_KEPT_MASS], 0, kept_mass(w));
        write_candidates(w, out);
        if (out->wants_set)
            written = write_set(w, out);
    }
    if (out->raw && (!trace->no_token || trace->forced))
        cls_outputs_write_raw(w, out);
    return written;
}

void cls_outputs_write_raw(cls_sampled *w, const cls_row_outputs *out)
{
    cls_sampled_read(w, 1);
    cls_set_begin(w);
    write_tokens(w, out, 1);
}
