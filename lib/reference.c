/* SPDX-License-Identifier: MIT */
/* The reference: one row on the host, in plain C, by a full sort. It shares
 * cl/arithmetic.h with the kernels and nothing else; every kernel is tested
 * for equality with it. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

/* A row on the way: cleaned logits, and what their tiles weigh. */
typedef struct row_work {
    uint32_t vocab, tiles;
    float *z;           /* [vocab] cleaned; -inf where masked */
    uint64_t *order;    /* [alive] the order: key descending, id ascending; the id in the low half */
    uint32_t alive;
    float *tile_max;    /* [tiles] */
    uint32_t *count;    /* [vocab] how often a token counts; SEEN_ONLY: it occurs, for the repetition penalty alone */
    uint32_t *lists;    /* the biases' ids, their values, the stop ids */
    uint32_t n_bias, n_stop;
    cls_unit *unit;     /* [tiles] at the scale of the last weigh() */
    float max;
} row_work;

size_t cls_dtype_size(int32_t dtype)
{
    return dtype == CLS_F32 ? 4 : 2;
}

static float half_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 0x3ffu;
    if (exponent == 0) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    const uint32_t bits = exponent == 31 ? 0x7f800000u | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
    return CLS_AS_F32((int32_t)(sign | bits));
}

static float load(const void *values, int32_t dtype, uint32_t i)
{
    switch (dtype) {
    case CLS_F16: return half_to_float(((const uint16_t *)values)[i]);
    case CLS_BF16: return CLS_AS_F32((int32_t)((uint32_t)((const uint16_t *)values)[i] << 16));
    default: return ((const float *)values)[i];
    }
}

static int allowed(const cls_host_row *row, uint32_t i)
{
    if (row->mask == NULL)
        return 1;
    if (row->mask_kind == CLS_MASK_BOOL)
        return i < row->mask_width && ((const uint8_t *)row->mask)[i] != 0;
    return i / 32 < row->mask_width && (((const uint32_t *)row->mask)[i / 32] >> (i % 32) & 1u);
}

/* ----------------------------------------------------------------- adjustments */

#define SEEN_ONLY 0x80000000u

static void count_token(row_work *w, int32_t id, int counts)
{
    if (id < 0 || (uint32_t)id >= w->vocab)
        return;
    uint32_t *const count = &w->count[id];
    if (counts)
        *count = (*count & ~SEEN_ONLY) < CLS_MAX_COUNT ? *count + 1 : *count;
    else
        *count |= SEEN_ONLY;
}

static uint32_t valid_ids(const int32_t *ids, uint32_t n, uint32_t vocab)
{
    uint32_t valid = 0;
    for (uint32_t i = 0; i < n; i++)
        valid += ids[i] >= 0 && (uint32_t)ids[i] < vocab;
    return valid;
}

/* Counts the tokens that are in the window: the last of prompt and output. */
static void count_tokens(row_work *w, const cls_host_row *row, const cls_slot *slot)
{
    const uint32_t prompt = valid_ids(row->prompt, row->prompt_count, w->vocab);
    const uint32_t output = valid_ids(row->output, row->output_count, w->vocab);
    uint32_t before = slot->window != 0 && prompt + output > slot->window ? prompt + output - slot->window : 0;
    for (uint32_t i = 0; i < row->prompt_count + row->output_count; i++) {
        const int is_output = i >= row->prompt_count;
        const int32_t id = is_output ? row->output[i - row->prompt_count] : row->prompt[i];
        if (id < 0 || (uint32_t)id >= w->vocab)
            continue;
        if (before > 0)
            before--;
        else
            count_token(w, id, is_output || (slot->flags & CLS_SLOT_SCOPE_ALL));
    }
}

/* Whether an ascending list has an id, and where. */
static int find_id(const uint32_t *ids, uint32_t n, uint32_t id, uint32_t *at)
{
    for (*at = 0; *at < n; ++*at)
        if (ids[*at] == id)
            return 1;
    return 0;
}

/* Applies biases and penalties to the cleaned row. */
static void adjust_row(row_work *w, const cls_slot *slot)
{
    for (uint32_t n = 0; n < w->n_bias; n++)
        w->z[w->lists[n]] = add_bias(w->z[w->lists[n]], CLS_AS_F32((int32_t)w->lists[w->n_bias + n]));
    for (uint32_t i = 0; i < w->vocab; i++)
        if (w->count[i] != 0)
            w->z[i] = penalize(w->z[i], w->count[i] & ~SEEN_ONLY, slot->repetition, slot->reciprocal, slot->frequency,
                               slot->presence);
}

/* Whether the request ends with a token, the output being so long with it, and
 * by what: cls_row_status bits. */
static uint32_t stops(const row_work *w, const cls_slot *slot, uint32_t outputs, int32_t token)
{
    uint32_t at;
    if (find_id(w->lists + 2 * w->n_bias, w->n_stop, (uint32_t)token, &at))
        return CLS_ROW_STOPPED;
    return slot->max_tokens != 0 && outputs >= slot->max_tokens ? CLS_ROW_STOPPED | CLS_ROW_LENGTH : 0;
}

/* Whether it has ended already. */
static int has_stopped(const row_work *w, const cls_host_row *row, const cls_slot *slot)
{
    const uint32_t outputs = valid_ids(row->output, row->output_count, w->vocab);
    for (uint32_t i = row->output_count; i-- > 0;)
        if (row->output[i] >= 0 && (uint32_t)row->output[i] < w->vocab)
            return stops(w, slot, outputs, row->output[i]) != 0;
    return 0;
}

/* Cleans the row, notes NaN and +inf; adjusts it unless `raw`. */
static uint32_t read_row(const cls_host_row *row, const cls_slot *slot, int raw, row_work *w)
{
    uint32_t status = 0;
    for (uint32_t i = 0; i < w->vocab; i++) {
        float x = load(row->logits, row->dtype, i);
        if (!raw && row->bias != NULL)
            x = x + load(row->bias, row->bias_dtype, i);
        w->z[i] = -INFINITY;
        if (!raw && !allowed(row, i))
            continue;
        if (isnan(x))
            status |= CLS_ROW_NAN;
        if (isinf(x) && x > 0)
            status |= CLS_ROW_INF;
        w->z[i] = clean(x);
    }
    if (!raw)
        adjust_row(w, slot);
    w->max = -INFINITY;
    w->alive = 0;
    for (uint32_t t = 0; t < w->tiles; t++)
        w->tile_max[t] = -INFINITY;
    for (uint32_t i = 0; i < w->vocab; i++) {
        float *const tile_max = &w->tile_max[i / CLS_TILE];
        if (w->z[i] > *tile_max)
            *tile_max = w->z[i];
        if (w->z[i] > w->max)
            w->max = w->z[i];
        w->alive += w->z[i] > -INFINITY;
    }
    return status;
}

/* --------------------------------------------------------------------- masses */

/* Takes every tile's unit at a scale. */
static void weigh(row_work *w, float scale)
{
    const cls_split row = split(w->max, scale);
    for (uint32_t t = 0; t < w->tiles; t++)
        if (w->tile_max[t] > -INFINITY)
            w->unit[t] = unit_of(w->tile_max[t], w->max, row.exponent, scale);
}

static uint32_t token_weight(const row_work *w, uint32_t i, float scale)
{
    const cls_unit *const unit = &w->unit[i / CLS_TILE];
    return w->z[i] > -INFINITY ? weight(w->z[i], unit->max, scale, unit->fraction) : 0;
}

static uint64_t token_mass(const row_work *w, uint32_t i, float scale)
{
    return up(token_weight(w, i, scale), w->unit[i / CLS_TILE].shift);
}

/* The mass of one tile of the untouched row, up to and with token `last`. */
static uint64_t tile_mass(const row_work *w, uint32_t t, uint32_t last, float scale)
{
    uint64_t sum = 0;
    for (uint32_t i = t * CLS_TILE; i < w->vocab && i <= last && i / CLS_TILE == t; i++)
        sum += token_weight(w, i, scale);
    return sum == 0 ? 0 : up(sum, w->unit[t].shift);
}

static uint64_t row_mass(const row_work *w, float scale)
{
    uint64_t mass = 0;
    for (uint32_t t = 0; t < w->tiles; t++)
        mass += tile_mass(w, t, UINT32_MAX, scale);
    return mass;
}

static uint64_t head_mass(const row_work *w, uint32_t kept, float scale)
{
    uint64_t mass = 0;
    for (uint32_t n = 0; n < kept; n++)
        mass += token_mass(w, (uint32_t)w->order[n], scale);
    return mass;
}

static int by_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort_row(row_work *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->vocab; i++)
        if (w->z[i] > -INFINITY)
            w->order[n++] = (uint64_t)(0x7fffffffu - (uint32_t)key_of(w->z[i])) << 32 | i;
    qsort(w->order, n, sizeof *w->order, by_order);
}

/* Runs the chain: how many tokens of the order are kept. */
static uint32_t truncate_row(row_work *w, const cls_slot *slot, cls_row *trace)
{
    float scale = CLS_LOG2E;
    uint32_t kept = w->alive;
    int touched = 0;
    for (uint32_t n = 0; n < CLS_MAX_STAGES; n++) {
        switch (cls_slot_stage(slot, n)) {
        case CLS_STAGE_TEMPERATURE:
            scale = slot->scale;
            continue;
        case CLS_STAGE_TOP_K:
            if (kept > (uint32_t)slot->top_k)
                kept = (uint32_t)slot->top_k;
            break;
        case CLS_STAGE_TOP_P: {
            uint32_t i = 0;
            uint64_t sum = 0;
            weigh(w, scale);
            trace->total = row_mass(w, scale);
            if (touched)
                trace->total = head_mass(w, kept, scale);
            trace->target = top_p_target(trace->total, slot->top_p);
            do
                sum += token_mass(w, (uint32_t)w->order[i++], scale);
            while (i < kept && sum < trace->target);
            kept = i;
            break;
        }
        case CLS_STAGE_MIN_P:
            for (uint32_t i = 0; i < kept; i++)
                if (!(depth(w->z[(uint32_t)w->order[i]], w->max, scale) <= slot->min_p))
                    kept = i;
            break;
        default:
            return kept;
        }
        touched = 1;
    }
    return kept;
}

/* The token whose interval holds `drawn`, ids ascending. */
static int32_t walk(const row_work *w, int plain, const uint8_t *keep, uint64_t drawn, float scale)
{
    if (plain) {
        for (uint32_t t = 0; t < w->tiles; t++) {
            const uint64_t mass = tile_mass(w, t, UINT32_MAX, scale);
            if (drawn < mass) {
                uint32_t i = t * CLS_TILE;
                for (uint64_t sum = token_weight(w, i, scale); up(sum, w->unit[t].shift) <= drawn;)
                    sum += token_weight(w, ++i, scale);
                return (int32_t)i;
            }
            drawn -= mass;
        }
        return -1;
    }
    for (uint32_t i = 0; i < w->vocab; i++) {
        const uint64_t mass = keep[i] ? token_mass(w, i, scale) : 0;
        if (drawn < mass)
            return (int32_t)i;
        drawn -= mass;
    }
    return -1;
}

static void sample(row_work *w, const cls_host_row *row, const cls_slot *slot, uint8_t *keep, cls_row *trace,
                   cls_host_result *result)
{
    const int greedy = (slot->flags & CLS_SLOT_GREEDY) != 0, plain = (slot->flags & CLS_SLOT_PLAIN) != 0;
    sort_row(w);
    trace->max_key = key_of(w->max);
    trace->scale = slot->scale;
    const uint32_t kept = greedy ? 1 : truncate_row(w, slot, trace);
    const uint32_t last = (uint32_t)w->order[kept - 1];
    result->kept = kept;
    trace->cut_key = plain ? CLS_KEY_NONE : key_of(w->z[last]);
    trace->cut_id = plain ? CLS_MAX_ID : (int32_t)last;
    if (greedy) {
        trace->token = (int32_t)last;
        result->logprob_final = 0.0f;
        if (result->probs != NULL)
            result->probs[last] = 1.0f;
        return;
    }
    weigh(w, slot->scale);
    for (uint32_t n = 0; n < kept; n++)
        keep[(uint32_t)w->order[n]] = 1;
    trace->mass = plain ? row_mass(w, slot->scale) : head_mass(w, kept, slot->scale);
    if (plain)
        trace->total = trace->mass;
    const uint64_t bits = row->random != NULL ? *row->random
                                              : philox_bits(CLS_PURPOSE_TOKEN, slot->seed, slot->stream, row->position, row->draw);
    trace->drawn = u64_mul_hi(bits, trace->mass);
    trace->token = walk(w, plain, keep, trace->drawn, slot->scale);
    result->logprob_final = logprob_of(w->z[trace->token], w->max, slot->scale, trace->mass);
    if (result->probs != NULL)
        for (uint32_t i = 0; i < w->vocab; i++)
            if (keep[i])
                result->probs[i] = u64_to_f32(token_mass(w, i, slot->scale)) / u64_to_f32(trace->mass);
}

static cls_status check_row(const cls_host_row *row)
{
    if (row->logits == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->logits is NULL");
    if (row->dtype < 0 || row->dtype >= CLS_DTYPES)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->dtype is %d, which is no cls_dtype", (int)row->dtype);
    if (row->vocab < 1 || row->vocab > CLS_MAX_VOCAB)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->vocab is %u; it must be 1 to %d", (unsigned)row->vocab,
                        CLS_MAX_VOCAB);
    if (row->mask_kind != CLS_MASK_PACKED && row->mask_kind != CLS_MASK_BOOL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->mask_kind is %d, which is no cls_mask_kind", (int)row->mask_kind);
    if (row->bias != NULL && row->bias_dtype != CLS_F32 && row->bias_dtype != CLS_F16)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->bias_dtype is %d; it must be CLS_F32 or CLS_F16", (int)row->bias_dtype);
    if (row->prompt == NULL && row->prompt_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->prompt_count is %u, but row->prompt is NULL", (unsigned)row->prompt_count);
    if (row->output == NULL && row->output_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->output_count is %u, but row->output is NULL", (unsigned)row->output_count);
    return CLS_OK;
}

static void reference(row_work *w, const cls_host_row *row, const cls_slot *slot, uint8_t *keep, cls_row *trace,
                      cls_host_result *result)
{
    memset(trace, 0, sizeof *trace);
    if (result->probs != NULL)
        memset(result->probs, 0, w->vocab * sizeof *result->probs);
    result->kept = 0;
    result->logprob_raw = result->logprob_final = -INFINITY;
    trace->token = row->invalid_token;
    trace->max_key = CLS_KEY_NONE;
    if (has_stopped(w, row, slot)) {
        trace->status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
        return;
    }
    if (slot->flags & CLS_SLOT_PENALIZED)
        count_tokens(w, row, slot);
    trace->status = read_row(row, slot, 0, w);
    if (w->alive == 0) {
        trace->status |= CLS_ROW_EMPTY;
        return;
    }
    sample(w, row, slot, keep, trace, result);
    trace->status |= stops(w, slot, valid_ids(row->output, row->output_count, w->vocab) + 1, trace->token);
    read_row(row, slot, 1, w); /* raw logprobs know no mask */
    if (w->alive == 0)
        return;
    weigh(w, CLS_LOG2E);
    result->logprob_raw = logprob_of(w->z[trace->token], w->max, CLS_LOG2E, row_mass(w, CLS_LOG2E));
}

cls_status cls_reference(const cls_host_row *callers, cls_row *trace, cls_host_result *result)
{
    cls_host_row row;
    cls_params params;
    cls_slot slot;
    row_work w;
    memset(&w, 0, sizeof w);
    cls_host_row_default(&row, sizeof row);
    cls_status status = cls_struct_read(&row, sizeof row, callers, "row");
    if (status == CLS_OK)
        status = check_row(&row);
    if (row.mask_width == 0)
        row.mask_width = row.mask_kind == CLS_MASK_BOOL ? row.vocab : (row.vocab + 31) / 32;
    if (status == CLS_OK)
        status = cls_slot_from_params(row.params, row.vocab, &slot);
    if (status == CLS_OK)
        status = cls_params_read(row.params, &params);
    if (status == CLS_OK)
        status = cls_lists_make(&params, &w.lists, &w.n_bias, &w.n_stop);
    if (status != CLS_OK)
        return status;

    w.vocab = row.vocab;
    w.tiles = (row.vocab + CLS_TILE - 1) / CLS_TILE;
    uint8_t *const keep = calloc(w.vocab, 1);
    w.z = malloc(w.vocab * sizeof *w.z);
    w.order = malloc(w.vocab * sizeof *w.order);
    w.tile_max = malloc(w.tiles * sizeof *w.tile_max);
    w.count = calloc(w.vocab, sizeof *w.count);
    w.unit = calloc(w.tiles, sizeof *w.unit);
    if (keep == NULL || w.z == NULL || w.order == NULL || w.tile_max == NULL || w.count == NULL || w.unit == NULL) {
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a row of %u tokens", (unsigned)w.vocab);
    } else {
        reference(&w, &row, &slot, keep, trace, result);
        result->token = trace->token;
        result->status = (int32_t)trace->status;
    }
    free(keep);
    free(w.z);
    free(w.order);
    free(w.tile_max);
    free(w.count);
    free(w.lists);
    free(w.unit);
    return status;
}

void cls_host_row_default(cls_host_row *row, size_t struct_size)
{
    cls_struct_init(row, struct_size);
    if (struct_size >= offsetof(cls_host_row, invalid_token) + sizeof row->invalid_token)
        row->invalid_token = -1;
}

cls_status cls_host_sample(const cls_host_row *row, cls_host_result *callers)
{
    cls_host_result result;
    cls_row trace;
    cls_struct_init(&result, sizeof result);
    cls_status status = cls_struct_read(&result, sizeof result, callers, "result");
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
