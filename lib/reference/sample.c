/* SPDX-License-Identifier: MIT */
/* The reference of cls_sample(): samples a row on the host in plain C, from its logits to its
 * token. The tests compare every kernel with it. */
#include "reference/reference.h"

#include <math.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- adaptive state */

static cls_slot_adaptive callers_adaptive(const cls_host_row *row)
{
    const cls_adaptive_state *const from = &row->adaptive;
    return (cls_slot_adaptive){from->mu, from->sum, from->weight, from->top_p};
}

/* Returns the state before the token: the one that the caller passed, or the state after the output
 * that the row has. */
static cls_slot_adaptive adaptive_before(const cls_work *w)
{
    cls_slot_adaptive state = adaptive_begin(&w->slot);
    if (w->row->adaptive.begun != 0)
        return callers_adaptive(w->row);
    for (uint32_t i = w->length - w->outputs; i < w->length && (w->slot.flags & CLS_SLOT_DECAYS);
         i++)
        state.top_p = top_p_next(&w->slot, state.top_p, (int32_t)w->text[i]);
    return state;
}

/* Returns the state after the token that was drawn. */
static cls_slot_adaptive adaptive_after(const cls_work *w, const cls_row *trace)
{
    const cls_slot *const slot = &w->slot;
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

/* Returns the first token of a tile at which the sum of masses exceeds `drawn`. */
static uint32_t draw_in_tile(const cls_work *w, uint32_t tile, uint64_t drawn)
{
    uint32_t i = tile * CLS_TILE;
    uint64_t sum = cls_token_weight(w, i);
    while (to_row_units(sum, w->unit[tile].shift) <= drawn)
        sum += cls_token_weight(w, ++i);
    return i;
}

/* Draws from the whole row. As on the device, it selects a tile first. */
static void draw_from_row(cls_work *w, uint64_t random, cls_row *trace)
{
    trace->mass = trace->total = cls_row_mass(w);
    trace->drawn = u64_mul_hi(random, trace->mass);
    uint64_t rest = trace->drawn;
    uint32_t t = 0;
    for (uint64_t mass; (mass = cls_tile_mass(w, t)) <= rest; t++)
        rest -= mass;
    trace->token = (int32_t)draw_in_tile(w, t, rest);
}

/* Returns the weight of a token of the set in the draw. */
static uint64_t drawn_weight(const cls_work *w, const cls_row *trace, uint32_t id)
{
    const uint64_t mass = cls_token_mass(w, id);
    if (!(w->slot.flags & CLS_SLOT_ADAPTIVE))
        return mass;
    return adaptive_weight(probability_q30(mass, trace->mass), trace->aim, trace->min_depth);
}

/* Computes the weights of adaptive p, which replace the masses in the draw. */
static void set_adaptive_weights(const cls_work *w, cls_row *trace)
{
    trace->aim = adaptive_aim(w->slot.target, w->slot.adaptive.sum, w->slot.adaptive.weight);
    trace->min_depth = UINT32_MAX;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t d =
            adaptive_depth(probability_q30(cls_token_mass(w, w->set[i]), trace->mass), trace->aim);
        trace->min_depth = d < trace->min_depth ? d : trace->min_depth;
    }
    for (uint32_t i = 0; i < w->n; i++)
        trace->adapted += drawn_weight(w, trace, w->set[i]);
}

/* Marks the tokens of the set, and no others. */
static void mark_set(cls_work *w)
{
    memset(w->mark, 0, w->vocab);
    for (uint32_t i = 0; i < w->n; i++)
        w->mark[w->set[i]] = 1;
}

/* Draws from the set in ascending order of ids. */
static void draw_from_set(cls_work *w, uint64_t random, cls_row *trace)
{
    trace->mass = cls_stage_mass(w);
    if (w->slot.flags & CLS_SLOT_ADAPTIVE)
        set_adaptive_weights(w, trace);
    trace->drawn =
        u64_mul_hi(random, w->slot.flags & CLS_SLOT_ADAPTIVE ? trace->adapted : trace->mass);
    mark_set(w);
    uint64_t rest = trace->drawn;
    for (uint32_t i = 0; i < w->vocab; i++) {
        const uint64_t mass = w->mark[i] ? drawn_weight(w, trace, i) : 0;
        if (rest < mass) {
            trace->token = (int32_t)i;
            return;
        }
        rest -= mass;
    }
}

/* Sets the probabilities of the final distribution. */
static void report_probs(const cls_work *w, const cls_row *trace, cls_host_result *result)
{
    const int greedy = (w->slot.flags & CLS_SLOT_GREEDY) != 0,
              adaptive = (w->slot.flags & CLS_SLOT_ADAPTIVE) != 0;
    const uint64_t total = adaptive ? trace->adapted : trace->mass;
    for (uint32_t i = 0; i < w->n && result->probs != NULL; i++)
        result->probs[w->set[i]] =
            greedy ? 1.0f : u64_to_f32(drawn_weight(w, trace, w->set[i])) / u64_to_f32(total);
}

/* Returns the log-probability of a token of the set in the final distribution. */
static float final_logprob(const cls_work *w, const cls_row *trace, uint32_t token)
{
    if (w->slot.flags & CLS_SLOT_GREEDY)
        return 0.0f;
    if (w->slot.flags & CLS_SLOT_ADAPTIVE)
        return (float)(log2_q24(drawn_weight(w, trace, token)) - log2_q24(trace->adapted)) *
               (0x1p-24f * 0x1.62e430p-1f);
    return logprob_of(w->z[token], w->top, w->scale, trace->mass);
}

/* Returns 1 if a token is in the set and weighs something. */
static int is_drawable(const cls_work *w, const cls_row *trace, uint32_t token)
{
    uint32_t i = 0;
    while (i < w->n && w->set[i] != token)
        i++;
    return i < w->n && ((w->slot.flags & CLS_SLOT_GREEDY) || drawn_weight(w, trace, token) != 0);
}

/* Lists the final set in ascending order of ids, and sets the status if not all of it fits. */
static void report_set(cls_work *w, cls_row *trace, cls_host_result *result)
{
    if (result->kept_capacity != 0 && w->n > result->kept_capacity)
        trace->status |= CLS_ROW_OVERFLOW;
    if (result->kept_ids == NULL)
        return;
    mark_set(w);
    for (uint32_t i = 0, n = 0; i < w->vocab && n < result->kept_capacity; i++)
        if (w->mark[i])
            result->kept_ids[n++] = (int32_t)i;
}

/* ---------------------------------------------------------------------- the row */

/* Draws a token from the adjusted row. Returns 0 if the chain leaves no token. */
static int sample(cls_work *w, cls_row *trace, cls_host_result *result)
{
    const cls_slot *const slot = &w->slot;
    const int plain = row_is_untruncated(slot);
    const uint64_t random = w->row->random_bits != NULL
                                ? *w->row->random_bits
                                : philox_bits(CLS_PURPOSE_TOKEN, slot->seed, slot->stream,
                                              w->row->position, w->row->draw);
    trace->max_key = key_of(w->top);
    w->scale = slot->scale;
    cls_sort_row(w);
    if (slot->flags & CLS_SLOT_GREEDY)
        cls_keep_first(w, 1);
    else
        cls_chain_run(w, trace);
    if (w->n == 0)
        return 0;
    cls_weigh(w);
    const uint32_t last = w->set[w->n - 1];
    result->kept_count = trace->kept = w->n;
    trace->scale = w->scale;
    trace->top_key = key_of(w->top);
    trace->cut_key = plain ? CLS_KEY_NONE : key_of(w->z[last]);
    trace->cut_id = plain ? CLS_MAX_ID : (int32_t)last;
    if (slot->flags & CLS_SLOT_GREEDY)
        trace->token = (int32_t)last;
    else if (plain)
        draw_from_row(w, random, trace);
    else
        draw_from_set(w, random, trace);
    report_probs(w, trace, result);
    result->logprob_final = final_logprob(w, trace, (uint32_t)trace->token);
    report_set(w, trace, result);
    return 1;
}

static void clear_results(const cls_work *w, cls_row *trace, cls_host_result *result)
{
    memset(trace, 0, sizeof *trace);
    trace->token = w->row->invalid_token;
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
static cls_slot_adaptive force(const cls_work *w, int32_t id, cls_row *trace,
                               cls_host_result *result)
{
    cls_slot_adaptive state = w->slot.adaptive;
    if (!trace->no_token && trace->token == id)
        state = adaptive_after(w, trace);
    else if (w->slot.flags & CLS_SLOT_DECAYS)
        state.top_p = top_p_next(&w->slot, state.top_p, id);
    result->logprob_final = !trace->no_token && is_drawable(w, trace, (uint32_t)id)
                                ? final_logprob(w, trace, (uint32_t)id)
                                : -INFINITY;
    trace->token = id;
    trace->forced = 1;
    trace->status =
        (trace->status & (CLS_ROW_NAN | CLS_ROW_INF | CLS_ROW_OVERFLOW)) | CLS_ROW_FORCED;
    return state;
}

int cls_work_stopped(const cls_work *w)
{
    const uint32_t latest = w->outputs > 0 ? w->text[w->length - 1] : 0;
    return w->outputs > 0 && (cls_work_stops(w, w->outputs, latest) != 0 ||
                              cls_work_loops(w, w->length - 1, w->outputs - 1, latest));
}

void cls_work_run(cls_work *w, int forces, cls_row *trace, cls_host_result *result)
{
    cls_work_text(w);
    clear_results(w, trace, result);
    cls_slot_adaptive state = w->slot.adaptive = adaptive_before(w);
    if (forces && cls_work_stopped(w)) {
        trace->status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    } else {
        const int32_t forced = forces ? cls_work_forced(w, 0) : -1;
        const int is_masked = forced >= 0 && !cls_mask_allows(w->row, (uint32_t)forced);
        trace->status = cls_work_read(w, 0);
        if (is_masked || w->available == 0) {
            trace->status |= CLS_ROW_EMPTY;
        } else if (sample(w, trace, result)) {
            trace->no_token = 0;
            state = adaptive_after(w, trace);
        }
        if (forced >= 0 && !is_masked)
            state = force(w, forced, trace, result);
        if (!trace->no_token || trace->forced)
            trace->status |= cls_work_stops(w, w->outputs + 1, (uint32_t)trace->token);
        if ((!trace->no_token || trace->forced) &&
            cls_work_loops(w, w->length, w->outputs, (uint32_t)trace->token))
            trace->status |= CLS_ROW_STOPPED | CLS_ROW_LOOP;
    }
    result->token = trace->token;
    result->status = (int32_t)trace->status;
    result->adaptive = (cls_adaptive_state){1, state.mu, state.sum, state.weight, state.top_p};
}

/* Sets the raw log-probability, for which no mask applies. */
static void report_raw(cls_work *w, const cls_row *trace, cls_host_result *result)
{
    if (trace->no_token && !trace->forced)
        return;
    cls_work_read(w, 1);
    w->scale = CLS_LOG2E;
    cls_weigh(w);
    if (w->available != 0)
        result->logprob_raw = logprob_of(w->z[trace->token], w->top, CLS_LOG2E, cls_row_mass(w));
}

static cls_status check_row(const cls_host_row *row)
{
    if (row->logits == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->logits is NULL");
    if (row->dtype < 0 || row->dtype >= CLS_DTYPES)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->dtype is %d, which is not a cls_dtype",
                        (int)row->dtype);
    if (row->vocab < 1 || row->vocab > CLS_MAX_VOCAB)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->vocab is %u; it must be 1 to %d",
                        (unsigned)row->vocab, CLS_MAX_VOCAB);
    if (row->mask_kind != CLS_MASK_PACKED && row->mask_kind != CLS_MASK_BOOL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->mask_kind is %d, which is not a cls_mask_kind", (int)row->mask_kind);
    if (row->bias != NULL && row->bias_dtype != CLS_F32 && row->bias_dtype != CLS_F16)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->bias_dtype is %d; it must be CLS_F32 or CLS_F16",
                        (int)row->bias_dtype);
    if (row->prompt == NULL && row->prompt_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->prompt_count is %u, but row->prompt is NULL",
                        (unsigned)row->prompt_count);
    if (row->output == NULL && row->output_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->output_count is %u, but row->output is NULL",
                        (unsigned)row->output_count);
    if (row->forced_ids == NULL && row->forced_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->forced_count is %u, but row->forced_ids is NULL",
                        (unsigned)row->forced_count);
    for (uint32_t i = 0; i < row->forced_count; i++)
        if (row->forced_ids[i] < 0 || (uint32_t)row->forced_ids[i] >= row->vocab)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "row->forced_ids[%u] is %d, which is not a token of a vocabulary of %u",
                            (unsigned)i, (int)row->forced_ids[i], (unsigned)row->vocab);
    return CLS_OK;
}

static cls_status check_adaptive(const cls_host_row *row, const cls_slot *slot)
{
    const cls_slot_adaptive state = callers_adaptive(row);
    const char *const fault = row->adaptive.begun != 0 ? cls_adaptive_fault(slot, &state) : NULL;
    return fault == NULL
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "row->adaptive has mu %d, sum %u and weight %u: %s", (int)state.mu,
                          (unsigned)state.sum, (unsigned)state.weight, fault);
}

/* Reads the tables of the infill stage if the parameters turn it on. Fails if they are missing or
 * invalid. */
static cls_status read_infill(cls_work *w)
{
    if (w->params->infill == 0)
        return CLS_OK;
    if (w->row->infill == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->infill is NULL, but params->infill is %d", (int)w->params->infill);
    CLS_STRUCT_INIT(&w->infill, sizeof w->infill);
    const cls_status status = CLS_STRUCT_READ(&w->infill, w->row->infill, "row->infill");
    return status == CLS_OK ? cls_infill_check(&w->infill, w->vocab) : status;
}

/* Allocates the arrays. Returns 0 if memory runs out; cls_work_close() frees what was allocated. */
static int allocate(cls_work *w, uint32_t more)
{
    const size_t n = w->vocab, tiles = (n + CLS_TILE - 1) / CLS_TILE;
    const size_t text = (size_t)w->row->prompt_count + w->row->output_count + more;
    w->tiles = (uint32_t)tiles;
    w->text = text < SIZE_MAX / sizeof *w->text ? malloc((text + 1) * sizeof *w->text) : NULL;
    w->z = malloc(n * sizeof *w->z);
    w->tile_max = malloc(tiles * sizeof *w->tile_max);
    w->set = malloc(n * sizeof *w->set);
    w->unit = calloc(tiles, sizeof *w->unit);
    w->mass = malloc(n * sizeof *w->mass);
    w->count = malloc(n * sizeof *w->count);
    w->bias = malloc(n * sizeof *w->bias);
    w->mark = malloc(n);
    w->order = malloc(n * sizeof *w->order);
    w->sorting = malloc(n * sizeof *w->sorting);
    return w->text != NULL && w->z != NULL && w->tile_max != NULL && w->set != NULL &&
           w->unit != NULL && w->mass != NULL && w->count != NULL && w->bias != NULL &&
           w->mark != NULL && w->order != NULL && w->sorting != NULL;
}

void cls_work_close(cls_work *w)
{
    free(w->text);
    free(w->z);
    free(w->tile_max);
    free(w->set);
    free(w->unit);
    free(w->mass);
    free(w->count);
    free(w->bias);
    free(w->mark);
    free(w->order);
    free(w->sorting);
}

cls_status cls_work_open(cls_work *w, cls_host_row *row, cls_params *params,
                         const cls_host_row *callers, uint32_t more)
{
    memset(w, 0, sizeof *w);
    w->row = row;
    w->params = params;
    cls_host_row_default(row, sizeof *row);
    cls_status status = CLS_STRUCT_READ(row, callers, "row");
    if (status == CLS_OK)
        status = check_row(row);
    if (status == CLS_OK)
        status = cls_reserved_check("row->reserved", row->reserved);
    if (row->mask_width == 0)
        row->mask_width = row->mask_kind == CLS_MASK_BOOL ? row->vocab : (row->vocab + 31) / 32;
    w->vocab = row->vocab;
    if (status == CLS_OK)
        status = cls_slot_from_params(row->params, row->vocab, &w->slot);
    if (status == CLS_OK)
        status = check_adaptive(row, &w->slot);
    if (status == CLS_OK)
        status = cls_params_read(row->params, params);
    if (status == CLS_OK)
        status = read_infill(w);
    if (status == CLS_OK && !allocate(w, more))
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                          "out of host memory for a row of %u tokens", (unsigned)w->vocab);
    return status;
}

/* Checks what the caller has set in the result. */
static cls_status check_result(const cls_work *w, const cls_host_result *result)
{
    if (result->kept_capacity > w->vocab)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "result->kept_capacity is %u; it must be at most row->vocab, %u",
                        (unsigned)result->kept_capacity, (unsigned)w->vocab);
    if (result->kept_ids != NULL && result->kept_capacity == 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "result->kept_ids is set, but result->kept_capacity is 0");
    return CLS_OK;
}

cls_status cls_reference(const cls_host_row *callers, cls_row *trace, cls_host_result *result)
{
    cls_host_row row;
    cls_params params;
    cls_work w;
    cls_status status = cls_work_open(&w, &row, &params, callers, 0);
    if (status == CLS_OK)
        status = check_result(&w, result);
    if (status == CLS_OK) {
        cls_work_run(&w, 1, trace, result);
        report_raw(&w, trace, result);
    }
    cls_work_close(&w);
    return status;
}

void cls_host_row_default(cls_host_row *row, size_t struct_size)
{
    if (!CLS_STRUCT_INIT(row, struct_size))
        return;
    row->invalid_token = -1;
}

cls_status cls_host_sample(const cls_host_row *row, cls_host_result *callers)
{
    cls_host_result result;
    cls_row trace;
    CLS_STRUCT_INIT(&result, sizeof result);
    cls_status status = CLS_STRUCT_READ_OUTPUT(&result, callers, "result");
    if (status != CLS_OK)
        return status;
    status = cls_reference(row, &trace, &result);
    if (status == CLS_OK) {
        const size_t size = callers->struct_size;
        memcpy(callers, &result, size < sizeof result ? size : sizeof result);
        callers->struct_size = size;
    }
    return status;
}
