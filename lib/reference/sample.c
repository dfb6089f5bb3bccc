/* SPDX-License-Identifier: MIT */
/* The reference of cls_sample(): samples a row on the host in plain C, from its logits to its
 * token. The tests compare every kernel with it. */
#include "reference/reference.h"

#include <math.h>

/* ---------------------------------------------------------------- adaptive state */

/* Returns the state before the token: the one that the caller passed, or the state after the output
 * that the row has. */
static cls_slot_adaptive adaptive_before(const cls_scratch *w)
{
    cls_slot_adaptive state = adaptive_begin(&w->slot);
    if (w->row.adaptive.begun != 0)
        return w->given;
    for (uint32_t i = w->length - w->outputs; i < w->length && (w->slot.flags & CLS_SLOT_DECAYS);
         i++)
        state.top_p = top_p_next(&w->slot, state.top_p, (int32_t)w->text[i]);
    return state;
}

/* Returns the state after the token that was drawn. */
static cls_slot_adaptive adaptive_after(const cls_scratch *w)
{
    const cls_slot *const slot = &w->slot;
    const cls_row *const trace = &w->trace;
    const uint32_t id = (uint32_t)trace->token;
    cls_slot_adaptive state = slot->adaptive;
    if (slot->flags & CLS_SLOT_MIROSTAT)
        state.mu = mirostat_next(state.mu,
                                 cls_token_depth(w, id) + mass_q20(trace->mass, w->top, w->scale),
                                 slot->tau, slot->eta);
    if (slot->flags & CLS_SLOT_ADAPTIVE)
        adaptive_p_accept(&state, probability_q30(cls_token_mass(w, id), trace->mass),
                          slot->adaptive_decay);
    if (slot->flags & CLS_SLOT_DECAYS)
        state.top_p = top_p_next(slot, state.top_p, trace->token);
    return state;
}

/* ------------------------------------------------------------------------- draw */

/* Draws from the whole row. As on the device, it selects a tile first, and then the first token of
 * it at which the sum of weights exceeds what is left. */
static void draw_from_row(cls_scratch *w, uint64_t random)
{
    cls_row *const trace = &w->trace;
    trace->mass = trace->total = cls_row_mass(w);
    trace->drawn = u64_mul_hi(random, trace->mass);
    uint64_t rest = trace->drawn;
    uint32_t t = 0;
    for (uint64_t mass; (mass = cls_tile_mass(w, t)) <= rest; t++)
        rest -= mass;
    uint32_t i = t * CLS_TILE;
    uint64_t sum = cls_token_weight(w, i);
    while (to_row_units(sum, w->unit[t].shift) <= rest)
        sum += cls_token_weight(w, ++i);
    trace->token = (int32_t)i;
}

static int is_adaptive(const cls_scratch *w) { return (w->slot.flags & CLS_SLOT_ADAPTIVE) != 0; }

/* Returns the weight of a token of the set in the draw, and the sum of these weights. Those of
 * adaptive p replace the masses. */
static uint64_t drawn_weight(const cls_scratch *w, uint32_t id)
{
    const uint64_t mass = cls_token_mass(w, id);
    return is_adaptive(w) ? adaptive_weight(probability_q30(mass, w->trace.mass), w->trace.aim,
                                            w->trace.min_depth)
                          : mass;
}
static uint64_t drawn_sum(const cls_scratch *w)
{
    return is_adaptive(w) ? w->trace.adapted : w->trace.mass;
}

static void set_adaptive_weights(cls_scratch *w)
{
    cls_row *const trace = &w->trace;
    trace->aim = adaptive_aim(w->slot.target, w->slot.adaptive.sum, w->slot.adaptive.weight);
    trace->min_depth = UINT32_MAX;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t d =
            adaptive_depth(probability_q30(cls_token_mass(w, w->set[i]), trace->mass), trace->aim);
        trace->min_depth = d < trace->min_depth ? d : trace->min_depth;
    }
    for (uint32_t i = 0; i < w->n; i++)
        trace->adapted += drawn_weight(w, w->set[i]);
}

/* Marks the tokens of the set, and no others. */
static void mark_set(cls_scratch *w)
{
    memset(w->mark, 0, w->vocab);
    for (uint32_t i = 0; i < w->n; i++)
        w->mark[w->set[i]] = 1;
}

/* Draws from the set in ascending order of ids. */
static void draw_from_set(cls_scratch *w, uint64_t random)
{
    w->trace.mass = cls_need(w, CLS_SUM_MASS);
    if (is_adaptive(w))
        set_adaptive_weights(w);
    w->trace.drawn = u64_mul_hi(random, drawn_sum(w));
    uint64_t rest = w->trace.drawn;
    for (uint32_t i = 0; i < w->vocab; i++) {
        const uint64_t mass = w->mark[i] ? drawn_weight(w, i) : 0;
        if (rest < mass) {
            w->trace.token = (int32_t)i;
            return;
        }
        rest -= mass;
    }
}

/* Sets the probabilities of the final distribution. */
static void report_probs(const cls_scratch *w, cls_host_result *result)
{
    const int greedy = (w->slot.flags & CLS_SLOT_GREEDY) != 0;
    for (uint32_t i = 0; i < w->n && result->probs != NULL; i++)
        result->probs[w->set[i]] =
            greedy ? 1.0f : u64_to_f32(drawn_weight(w, w->set[i])) / u64_to_f32(drawn_sum(w));
}

/* Returns the log-probability of a token of the set in the final distribution. */
static float final_logprob(const cls_scratch *w, uint32_t token)
{
    if (w->slot.flags & CLS_SLOT_GREEDY)
        return 0.0f;
    if (is_adaptive(w))
        return (float)(log2_q24(drawn_weight(w, token)) - log2_q24(drawn_sum(w))) *
               (0x1p-24f * 0x1.62e430p-1f);
    return logprob_of(w->z[token], w->top, w->scale, w->trace.mass);
}

/* Lists the final set in ascending order of ids, and sets the status if not all of it fits. */
static void report_set(cls_scratch *w, cls_host_result *result)
{
    if (result->kept_capacity != 0 && w->n > result->kept_capacity)
        w->trace.status |= CLS_ROW_OVERFLOW;
    for (uint32_t i = 0, n = 0;
         result->kept_ids != NULL && i < w->vocab && n < result->kept_capacity; i++)
        if (w->mark[i])
            result->kept_ids[n++] = (int32_t)i;
}

/* ---------------------------------------------------------------------- the row */

/* Draws a token from the adjusted row. Returns 0 if the chain leaves no token. */
static int sample_host_row(cls_scratch *w, cls_host_result *result)
{
    const cls_slot *const slot = &w->slot;
    cls_row *const trace = &w->trace;
    const int plain = row_is_untruncated(slot);
    const uint64_t random = w->row.random_bits != NULL
                                ? *w->row.random_bits
                                : philox_bits(CLS_PURPOSE_TOKEN, slot->seed, slot->stream,
                                              w->row.position, w->row.draw);
    trace->max_key = key_of(w->top);
    w->scale = slot->scale;
    cls_sort_row(w);
    if (slot->flags & CLS_SLOT_GREEDY)
        w->n = 1;
    else
        cls_chain_run(w);
    if (w->n == 0)
        return 0;
    cls_weigh(w);
    const uint32_t last = w->set[w->n - 1];
    result->kept_count = trace->kept = w->n;
    trace->scale = w->scale;
    trace->top_key = key_of(w->top);
    trace->cut_key = plain ? CLS_KEY_NONE : key_of(w->z[last]);
    trace->cut_id = plain ? CLS_MAX_ID : (int32_t)last;
    if (!plain || result->kept_ids != NULL)
        mark_set(w);
    if (slot->flags & CLS_SLOT_GREEDY)
        trace->token = (int32_t)last;
    else if (plain)
        draw_from_row(w, random);
    else
        draw_from_set(w, random);
    report_probs(w, result);
    result->logprob_final = final_logprob(w, (uint32_t)trace->token);
    report_set(w, result);
    return 1;
}

static void clear_results(cls_scratch *w, cls_host_result *result)
{
    cls_row *const trace = &w->trace;
    memset(trace, 0, sizeof *trace);
    trace->token = w->row.invalid_token;
    trace->max_key = trace->top_key = trace->cut_key = CLS_KEY_NONE;
    trace->cut_id = trace->upper_last = CLS_MAX_ID;
    trace->upper_key = CLS_KEY_INF;
    trace->scale = CLS_LOG2E;
    trace->no_token = 1;
    if (result->probs != NULL)
        memset(result->probs, 0, w->vocab * sizeof *result->probs);
    for (uint32_t i = 0; i < result->kept_capacity && result->kept_ids != NULL; i++)
        result->kept_ids[i] = -1;
    result->kept_count = 0;
    result->logprob_raw = result->logprob_final = -INFINITY;
}

/* Emits a forced id in place of the token that was drawn, if one was. Returns the adaptive state
 * after it. */
static cls_slot_adaptive force(cls_scratch *w, int32_t id, cls_host_result *result)
{
    cls_row *const trace = &w->trace;
    const uint32_t token = (uint32_t)id;
    cls_slot_adaptive state = w->slot.adaptive;
    if (!trace->no_token && trace->token == id)
        state = adaptive_after(w);
    else if (w->slot.flags & CLS_SLOT_DECAYS)
        state.top_p = top_p_next(&w->slot, state.top_p, id);
    result->logprob_final =
        !trace->no_token && cls_set_has(w, token) &&
                ((w->slot.flags & CLS_SLOT_GREEDY) || drawn_weight(w, token) != 0)
            ? final_logprob(w, token)
            : -INFINITY;
    trace->token = id;
    trace->forced = 1;
    trace->status =
        (trace->status & (CLS_ROW_NAN | CLS_ROW_INF | CLS_ROW_OVERFLOW)) | CLS_ROW_FORCED;
    return state;
}

int cls_scratch_stopped(const cls_scratch *w)
{
    const uint32_t latest = w->outputs > 0 ? w->text[w->length - 1] : 0;
    return w->outputs > 0 && ((cls_scratch_stops(w, w->outputs, latest) |
                               cls_scratch_loops(w, w->length - 1, w->outputs - 1, latest)) != 0 ||
                              cls_scratch_ended(w));
}

void cls_scratch_run(cls_scratch *w, int forces, cls_host_result *result)
{
    cls_row *const trace = &w->trace;
    cls_scratch_text(w);
    clear_results(w, result);
    cls_slot_adaptive state = w->slot.adaptive = adaptive_before(w);
    if (forces && cls_scratch_stopped(w)) {
        trace->status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    } else {
        const int32_t forced = forces ? cls_scratch_forced(w, 0) : -1;
        const int is_masked = forced >= 0 && !cls_scratch_allows(w, (uint32_t)forced);
        trace->status = cls_scratch_read(w, 0);
        if (is_masked || w->available == 0) {
            trace->status |= CLS_ROW_EMPTY;
        } else if (sample_host_row(w, result)) {
            trace->no_token = 0;
            state = adaptive_after(w);
        }
        if (forced >= 0 && !is_masked)
            state = force(w, forced, result);
        if (!trace->no_token || trace->forced)
            trace->status |= cls_scratch_stops(w, w->outputs + 1, (uint32_t)trace->token) |
                             cls_scratch_loops(w, w->length, w->outputs, (uint32_t)trace->token) |
                             cls_scratch_ends(w, (uint32_t)trace->token);
    }
    result->token = trace->token;
    result->status = (int32_t)trace->status;
    result->adaptive = (cls_adaptive_state){1, state.mu, state.sum, state.weight, state.top_p};
}

/* Sets the raw log-probability, for which no mask applies. */
static void report_raw(cls_scratch *w, cls_host_result *result)
{
    if (w->trace.no_token && !w->trace.forced)
        return;
    cls_scratch_read(w, 1);
    if (w->available != 0)
        result->logprob_raw = logprob_of(w->z[w->trace.token], w->top, w->scale, cls_row_mass(w));
}

void cls_scratch_emit(cls_scratch *w, int32_t token, int forced, cls_host_result *result)
{
    cls_row *const trace = &w->trace;
    if (forced || token != trace->token)
        force(w, token, result);
    trace->status = (trace->status & (CLS_ROW_NAN | CLS_ROW_INF | CLS_ROW_OVERFLOW)) |
                    (forced ? CLS_ROW_FORCED : 0u) |
                    cls_scratch_stops(w, w->outputs + 1, (uint32_t)token) |
                    cls_scratch_ends(w, (uint32_t)token) |
                    cls_scratch_loops(w, w->length, w->outputs, (uint32_t)token);
    result->status = (int32_t)trace->status;
    report_raw(w, result);
}

cls_status cls_kept_check(const char *name, const int32_t *ids, uint32_t capacity, uint32_t vocab)
{
    if (capacity > vocab)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->kept_capacity is %u; it must be at most row->vocab, %u", name,
                        (unsigned)capacity, (unsigned)vocab);
    return ids == NULL || capacity != 0
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "%s->kept_ids is set, but %s->kept_capacity is 0", name, name);
}

cls_status cls_reference(const cls_host_row *callers, cls_row *trace, cls_host_result *result)
{
    cls_scratch w;
    cls_status status = cls_scratch_open(&w, callers, 0);
    if (status == CLS_OK)
        status = cls_kept_check("result", result->kept_ids, result->kept_capacity, w.vocab);
    if (status == CLS_OK) {
        cls_scratch_run(&w, 1, result);
        *trace = w.trace;
        report_raw(&w, result);
    }
    cls_scratch_close(&w);
    return status;
}

cls_status cls_host_sample(const cls_host_row *row, cls_host_result *callers)
{
    cls_host_result result;
    cls_row trace;
    cls_status status = CLS_STRUCT_READ_OUTPUT(&result, callers, "result");
    if (status != CLS_OK)
        return status;
    status = cls_reference(row, &trace, &result);
    if (status == CLS_OK)
        CLS_STRUCT_WRITE(&result, callers);
    return status;
}

cls_status cls_host_kept_offsets(uint32_t rows, const int32_t *counts, uint32_t capacity,
                                 int32_t *offsets)
{
    uint32_t at = 0;
    if (counts == NULL || offsets == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s is NULL",
                        counts == NULL ? "counts" : "offsets");
    if (capacity > INT32_MAX)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "capacity is %u; it must be at most 2147483647", (unsigned)capacity);
    for (uint32_t r = 0; r < rows; r++)
        if (counts[r] < 0)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "counts[%u] is %d", (unsigned)r,
                            (int)counts[r]);
    for (uint32_t r = 0; r < rows; r++) {
        offsets[r] = (int32_t)at;
        at += (uint32_t)counts[r] <= capacity - at ? (uint32_t)counts[r] : 0;
    }
    offsets[rows] = (int32_t)at;
    return CLS_OK;
}
