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

static float load(const cls_host_row *row, uint32_t i)
{
    switch (row->dtype) {
    case CLS_F16: return half_to_float(((const uint16_t *)row->logits)[i]);
    case CLS_BF16: return CLS_AS_F32((int32_t)((uint32_t)((const uint16_t *)row->logits)[i] << 16));
    default: return ((const float *)row->logits)[i];
    }
}

static int allowed(const cls_host_row *row, uint32_t i)
{
    return row->mask == NULL || (i / 32 < row->mask_width && ((uint32_t)row->mask[i / 32] >> (i % 32) & 1u));
}

/* Cleans the row, finds the maxima, notes NaN and +inf. */
static uint32_t read_row(const cls_host_row *row, int masked, row_work *w)
{
    uint32_t status = 0;
    w->max = -INFINITY;
    w->alive = 0;
    for (uint32_t t = 0; t < w->tiles; t++)
        w->tile_max[t] = -INFINITY;
    for (uint32_t i = 0; i < w->vocab; i++) {
        const float x = load(row, i);
        float *const tile_max = &w->tile_max[i / CLS_TILE];
        w->z[i] = -INFINITY;
        if (masked && !allowed(row, i))
            continue;
        if (isnan(x))
            status |= CLS_ROW_NAN;
        if (isinf(x) && x > 0)
            status |= CLS_ROW_INF;
        w->z[i] = clean(x);
        if (w->z[i] > *tile_max)
            *tile_max = w->z[i];
        if (w->z[i] > w->max)
            w->max = w->z[i];
        w->alive += w->z[i] > -INFINITY;
    }
    return status;
}

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
                                              : philox_token(slot->seed[0], slot->seed[1], slot->stream[0],
                                                             slot->stream[1], row->position);
    trace->drawn = u64_mul_hi(bits, trace->mass);
    trace->token = walk(w, plain, keep, trace->drawn, slot->scale);
    result->logprob_final = logprob_of(w->z[trace->token], w->max, slot->scale, trace->mass);
    if (result->probs != NULL)
        for (uint32_t i = 0; i < w->vocab; i++)
            if (keep[i])
                result->probs[i] = u64_to_f32(token_mass(w, i, slot->scale)) / u64_to_f32(trace->mass);
}

cls_status cls_reference(const cls_host_row *callers, cls_row *trace, cls_host_result *result)
{
    cls_host_row row;
    cls_slot slot;
    cls_host_row_default(&row, sizeof row);
    cls_status status = cls_struct_read(&row, sizeof row, callers, "row");
    if (status == CLS_OK && row.logits == NULL)
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->logits is NULL");
    if (status == CLS_OK && (row.dtype < 0 || row.dtype >= CLS_DTYPES))
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->dtype is %d, which is no cls_dtype", (int)row.dtype);
    if (status == CLS_OK && (row.vocab < 1 || row.vocab > CLS_MAX_VOCAB))
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->vocab is %u; it must be 1 to %d", (unsigned)row.vocab,
                          CLS_MAX_VOCAB);
    if (status == CLS_OK)
        status = cls_slot_from_params(row.params, row.vocab, &slot);
    if (status != CLS_OK)
        return status;

    row_work w = { .vocab = row.vocab, .tiles = (row.vocab + CLS_TILE - 1) / CLS_TILE };
    uint8_t *const keep = calloc(w.vocab, 1);
    w.z = malloc(w.vocab * sizeof *w.z);
    w.order = malloc(w.vocab * sizeof *w.order);
    w.tile_max = malloc(w.tiles * sizeof *w.tile_max);
    w.unit = calloc(w.tiles, sizeof *w.unit);
    if (keep == NULL || w.z == NULL || w.order == NULL || w.tile_max == NULL || w.unit == NULL) {
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a row of %u tokens", (unsigned)w.vocab);
    } else {
        memset(trace, 0, sizeof *trace);
        if (result->probs != NULL)
            memset(result->probs, 0, w.vocab * sizeof *result->probs);
        result->kept = 0;
        result->logprob_raw = result->logprob_final = -INFINITY;
        trace->token = row.invalid_token;
        trace->status = read_row(&row, 1, &w);
        if (w.alive == 0) {
            trace->status |= CLS_ROW_EMPTY;
            trace->max_key = CLS_KEY_NONE;
        } else {
            sample(&w, &row, &slot, keep, trace, result);
            read_row(&row, 0, &w); /* raw logprobs know no mask */
            weigh(&w, CLS_LOG2E);
            result->logprob_raw = logprob_of(w.z[trace->token], w.max, CLS_LOG2E, row_mass(&w, CLS_LOG2E));
        }
        result->token = trace->token;
        result->status = (int32_t)trace->status;
    }
    free(keep);
    free(w.z);
    free(w.order);
    free(w.tile_max);
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
