/* SPDX-License-Identifier: MIT */
/* Rows of logits with chains, and what the reference computes from them. */
#include "vectors.h"

#include <inttypes.h>

/* --------------------------------------------------------------------- logits */

static float next_logit(sequence *s, row_kind kind, uint32_t id)
{
    const float x = next_normal(s);
    switch (kind) {
    case ROW_TIES:
        return (float)next_below(s, 9) - 4.0f;
    case ROW_BRAIN:
        return float_of(bits_of(x * 4.0f) & 0xffff0000u);
    case ROW_SPECIAL:
        return next_is_one_in(s, 8) ? next_special(s) : x;
    case ROW_BITS:
        return float_of((uint32_t)next_bits(s));
    case ROW_HUGE:
        return x * 0x1p+100f;
    case ROW_LEVELS:
        return x - (float)(id / CLS_TILE * 7);
    case ROW_RISING:
        return x + (float)(id / CLS_TILE * 20);
    case ROW_TAIL:
        return id == 0 ? 0.0f : -18.0f - (float)next_below(s, 12 << 14) * 0x1p-14f;
    case ROW_FLAT:
        return 1.5f;
    case ROW_NOTHING:
        return float_of(next_is_one_in(s, 2) ? 0x7fc00000u : 0xff800000u);
    default:
        return x;
    }
}

/* Writes the logits, eight a line. */
static void write_logits(FILE *f, const float *logits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "%s%08x%s", i % 8 == 0 ? "logits " : " ", bits_of(logits[i]),
                i % 8 == 7 || i + 1 == n ? "\n" : "");
}

static void write_mask(FILE *f, const uint8_t *allowed, uint32_t n)
{
    fprintf(f, "masked");
    for (uint32_t i = 0; i < n; i++)
        if (!allowed[i])
            fprintf(f, " %u", (unsigned)i);
    fprintf(f, "\n");
}

/* ------------------------------------------------------------------ parameters */

static const char *const stage_names[] = {"end", "temperature", "top-k", "top-p", "min-p"};

static void write_parameters(FILE *f, const cls_params *p)
{
    fprintf(f, "chain %d", (int)p->chain);
    for (int i = 0; p->chain == CLS_CHAIN_CUSTOM && p->stages[i] != CLS_STAGE_END; i++)
        fprintf(f, " %s", stage_names[p->stages[i]]);
    fprintf(f, "\ntemperature %08x\ntop_k %d\ntop_p %08x\nmin_p %08x\nmin_keep %u\n",
            bits_of(p->temperature), (int)p->top_k, bits_of(p->top_p), bits_of(p->min_p),
            (unsigned)p->min_keep);
    fprintf(f, "seed %" PRIu64 " %" PRIu64 "\n", p->seed, p->stream);
}

static void set_parameters(const vector_row *row, sequence *s, cls_params *p)
{
    cls_params_init(p);
    p->chain = row->chain;
    memcpy(p->stages, row->stages, sizeof p->stages);
    p->temperature = row->temperature;
    p->top_k = row->top_k;
    p->top_p = row->top_p;
    p->min_p = row->min_p;
    p->min_keep = row->min_keep;
    p->seed = next_bits(s);
    p->stream = next_wide(s, 63);
}

/* -------------------------------------------------------------------- results */

/* Writes the final set and the tiles at the final scale, as the work has them. */
static void write_work(FILE *f, const cls_work *w)
{
    const cls_row *const trace = &w->trace;
    const int greedy = (w->slot.flags & CLS_SLOT_GREEDY) != 0;
    fprintf(f, "status %u\n", (unsigned)trace->status);
    if (trace->no_token)
        return;
    fprintf(f, "kept %u", (unsigned)w->n);
    for (uint32_t i = 0; i < w->n && i < 16; i++)
        fprintf(f, " %u", (unsigned)w->set[i]);
    fprintf(f, "\nlast %u\n", (unsigned)w->set[w->n - 1]);
    if (greedy)
        return;
    fprintf(f, "scale %08x\n", bits_of(w->scale));
    for (uint32_t t = 0; t < w->tiles; t++) {
        const cls_split at = split(w->tile_max[t], w->scale);
        uint64_t sum = 0;
        if (!(w->tile_max[t] > CLS_MASKED))
            continue;
        for (uint32_t i = t * CLS_TILE; i < w->vocab && i / CLS_TILE == t; i++)
            sum += cls_token_weight(w, i);
        fprintf(f, "tile %u %08x %d %d %" PRIu64 " %u %" PRIu64 "\n", (unsigned)t,
                bits_of(w->tile_max[t]), (int)at.exponent, (int)(at.fraction * 16777216.0f), sum,
                (unsigned)w->unit[t].shift, cls_tile_mass(w, t));
    }
    if (trace->target != 0)
        fprintf(f, "top_p_target %" PRIu64 " %" PRIu64 "\n", trace->total, trace->target);
    fprintf(f, "mass %" PRIu64 "\n", trace->mass);
}

/* Returns the least random bits that draw at least the mass of the kept token of least id: the
 * first after that token. */
static uint64_t bits_after_first(const cls_work *w, uint64_t mass)
{
    uint64_t low = 0, high = UINT64_MAX;
    uint32_t first = w->set[0];
    for (uint32_t i = 1; i < w->n; i++)
        first = w->set[i] < first ? w->set[i] : first;
    const uint64_t end = cls_token_mass(w, first);
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (u64_mul_hi(middle, mass) >= end)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* Writes one token that cls_host_sample() draws. */
static int write_draw(FILE *f, cls_host_row *row, const cls_work *w, uint64_t after, sequence *s,
                      uint32_t i)
{
    const uint64_t given = i == 1   ? 0
                           : i == 3 ? UINT64_MAX
                           : i == 5 ? after
                           : i == 7 ? after - 1
                                    : next_bits(s);
    cls_host_result result = {.struct_size = sizeof result};
    cls_row trace;
    row->position = next_below(s, 1u << 20);
    row->draw = next_is_one_in(s, 4) ? next_below(s, 1u << 24) : 0;
    row->random_bits = i % 2 != 0 && i < 8 ? &given : NULL;
    if (cls_host_sample(row, &result) != CLS_OK || cls_reference(row, &trace, &result) != CLS_OK ||
        trace.token != result.token)
        return 0;
    if (row->random_bits != NULL)
        fprintf(f, "given %016" PRIx64, given);
    else
        fprintf(
            f, "draw %u %u %016" PRIx64, (unsigned)row->position, (unsigned)row->draw,
            philox_bits(CLS_PURPOSE_TOKEN, w->slot.seed, w->slot.stream, row->position, row->draw));
    fprintf(f, " %" PRIu64 " %d\n", trace.drawn, (int)result.token);
    return 1;
}

int write_row(FILE *f, const vector_row *vector, sequence *s)
{
    static float logits[VECTOR_MOST];
    static uint8_t allowed[VECTOR_MOST];
    cls_params p;
    cls_host_row row;
    cls_host_result result = {.struct_size = sizeof result};
    cls_work w;
    for (uint32_t i = 0; i < vector->vocab; i++) {
        logits[i] = next_logit(s, vector->kind, i);
        allowed[i] = !next_is_one_in(s, 4);
    }
    set_parameters(vector, s, &p);
    cls_host_row_init(&row);
    row.logits = logits;
    row.vocab = vector->vocab;
    row.params = &p;
    row.mask_kind = CLS_MASK_BOOL;
    row.mask = vector->masked ? allowed : NULL;
    fprintf(f, "row %s\nvocab %u\n", vector->name, (unsigned)row.vocab);
    write_logits(f, logits, row.vocab);
    if (row.mask != NULL)
        write_mask(f, allowed, row.vocab);
    write_parameters(f, &p);
    uint64_t after = 0;
    int ok = cls_work_open(&w, &row, 0) == CLS_OK;
    if (ok) {
        cls_work_run(&w, 1, &result);
        write_work(f, &w);
        after = w.trace.no_token ? 0 : bits_after_first(&w, w.trace.mass);
    }
    for (uint32_t i = 0; ok && i < vector->draws; i++)
        ok = write_draw(f, &row, &w, after, s, i);
    fprintf(f, "end\n");
    cls_work_close(&w);
    return ok;
}

/* ------------------------------------------------------------------- the vectors */

static const vector_row rows[] = {
    {"one-token", 1, ROW_NORMAL, 0, {0}, 0.8f, 0, 1.0f, 0.0f, 1, 0, 4},
    {"plain", 8, ROW_NORMAL, 0, {0}, 1.0f, 0, 1.0f, 0.0f, 1, 0, 8},
    {"greedy", 12, ROW_NORMAL, 0, {0}, 0.0f, 5, 0.9f, 0.1f, 1, 0, 2},
    {"greedy-ties", 40, ROW_TIES, 0, {0}, 0x1.4f8b56p-17f, 0, 1.0f, 0.0f, 1, 0, 2},
    {"coldest", 20, ROW_TIES, 0, {0}, 0x1.4f8b58p-17f, 0, 1.0f, 0.0f, 1, 0, 6},
    {"cold", 20, ROW_NORMAL, 0, {0}, 0.05f, 0, 1.0f, 0.0f, 1, 0, 6},
    {"warm", 20, ROW_NORMAL, 0, {0}, 1.7f, 0, 1.0f, 0.0f, 1, 0, 6},
    {"hottest", 20, ROW_HUGE, 0, {0}, 3e+38f, 0, 1.0f, 0.0f, 1, 0, 6},
    {"masked", 40, ROW_NORMAL, 0, {0}, 0.9f, 0, 1.0f, 0.0f, 1, 1, 8},
    {"special", 48, ROW_SPECIAL, 0, {0}, 1.0f, 0, 1.0f, 0.0f, 1, 0, 8},
    {"any-bits", 48, ROW_BITS, 0, {0}, 1.0f, 0, 1.0f, 0.0f, 1, 0, 8},
    {"empty", 10, ROW_NOTHING, 0, {0}, 1.0f, 0, 0.9f, 0.0f, 1, 0, 2},
    {"top-k", 30, ROW_NORMAL, 0, {0}, 0.7f, 5, 1.0f, 0.0f, 1, 0, 8},
    {"top-k-ties", 60, ROW_TIES, 0, {0}, 1.0f, 10, 1.0f, 0.0f, 1, 0, 8},
    {"top-k-more-than-available", 30, ROW_SPECIAL, 0, {0}, 1.0f, 29, 1.0f, 0.0f, 1, 1, 8},
    {"top-p", 30, ROW_NORMAL, 0, {0}, 0.7f, 0, 0.9f, 0.0f, 1, 0, 8},
    {"top-p-ties", 60, ROW_TIES, 0, {0}, 1.0f, 0, 0.5f, 0.0f, 1, 0, 8},
    {"top-p-all", 30, ROW_NORMAL, 0, {0}, 1.0f, 0, 0x1.fffffep-1f, 0.0f, 1, 0, 8},
    {"top-p-none", 30, ROW_NORMAL, 0, {0}, 1.0f, 0, 0.0f, 0.0f, 1, 0, 4},
    {"top-p-min-keep", 30, ROW_NORMAL, 0, {0}, 1.0f, 0, 0.1f, 0.0f, 4, 0, 8},
    {"min-p", 30, ROW_NORMAL, 0, {0}, 0.8f, 0, 1.0f, 0.05f, 1, 0, 8},
    {"min-p-one", 30, ROW_TIES, 0, {0}, 0.8f, 0, 1.0f, 1.0f, 1, 0, 8},
    {"min-p-equal", 40, ROW_TIES, 0, {0}, 0x1.715476p+0f, 0, 1.0f, 0.25f, 1, 0, 8},
    {"min-p-all", 30, ROW_NORMAL, 0, {0}, 1.0f, 0, 1.0f, 1e-20f, 1, 0, 8},
    {"default-order", 50, ROW_NORMAL, 0, {0}, 0.6f, 20, 0.9f, 0.05f, 1, 0, 8},
    {"vllm-order", 50, ROW_NORMAL, 1, {0}, 0.6f, 20, 0.9f, 0.05f, 1, 0, 8},
    {"llama-order", 50, ROW_NORMAL, 2, {0}, 0.6f, 20, 0.9f, 0.05f, 1, 0, 8},
    {"custom-order", 50, ROW_BRAIN, 3, {3, 4, 2, 1}, 1.4f, 30, 0.95f, 0.02f, 2, 1, 8},
    {"top-p-before-temperature", 50, ROW_NORMAL, 3, {3, 1}, 0.5f, 0, 0.8f, 0.0f, 1, 0, 8},
    {"two-tiles", 1030, ROW_LEVELS, 0, {0}, 0.9f, 0, 1.0f, 0.0f, 1, 0, 10},
    {"top-k-min-keep", 30, ROW_NORMAL, 0, {0}, 1.0f, 2, 1.0f, 0.0f, 5, 0, 8},
    {"rising-tiles", 1030, ROW_RISING, 0, {0}, 0.5f, 0, 1.0f, 0.0f, 1, 0, 10},
    {"set-with-nothing-removed", 1030, ROW_RISING, 0, {0}, 0.9f, 0, 1.0f, 1e-37f, 1, 0, 10},
    {"top-p-of-tiles", 1030, ROW_RISING, 0, {0}, 0.9f, 0, 0.999f, 0.0f, 1, 0, 10},
    {"huge-tiles", 1030, ROW_HUGE, 0, {0}, 1.0f, 0, 1.0f, 0.0f, 1, 0, 8},
    {"top-p-half", 4, ROW_FLAT, 0, {0}, 1.0f, 0, 0.5f, 0.0f, 1, 0, 8},
    {"tail", 1100, ROW_TAIL, 0, {0}, 1.0f, 0, 1.0f, 0.0f, 1, 0, 10},
    {"three-tiles", 2100, ROW_LEVELS, 0, {0}, 1.1f, 1500, 0.999f, 0.0f, 1, 1, 10},
};

int write_rows(FILE *f)
{
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sequence s = {1000 + i};
        if (!write_row(f, &rows[i], &s))
            return 0;
    }
    return 1;
}
