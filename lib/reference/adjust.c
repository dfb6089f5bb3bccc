/* SPDX-License-Identifier: MIT */
/* The reference of the adjustments of logits that precede the chain: masks, biases, bans and
 * penalties. */
#include "reference/reference.h"

#include <math.h>

/* ---------------------------------------------------------------------- logits */

static float half_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u,
                   fraction = h & 0x3ffu;
    if (exponent == 0) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    const uint32_t bits =
        exponent == 31 ? 0x7f800000u | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
    return CLS_AS_F32((int32_t)(sign | bits));
}

static float load(const void *values, int32_t dtype, uint32_t i)
{
    switch (dtype) {
    case CLS_F16:
        return half_to_float(((const uint16_t *)values)[i]);
    case CLS_BF16:
        return CLS_AS_F32((int32_t)((uint32_t)((const uint16_t *)values)[i] << 16));
    default:
        return ((const float *)values)[i];
    }
}

static int mask_allows(const cls_host_row *row, uint32_t i)
{
    if (row->mask == NULL)
        return 1;
    if (row->mask_kind == CLS_MASK_BOOL)
        return i < row->mask_width && ((const uint8_t *)row->mask)[i] != 0;
    return i / 32 < row->mask_width && (((const uint32_t *)row->mask)[i / 32] >> (i % 32) & 1u);
}

int cls_scratch_allows(const cls_scratch *w, uint32_t id)
{
    return mask_allows(&w->row, id) && cls_scratch_after(w, id) != CLS_GRAMMAR_DEAD;
}

/* ------------------------------------------------------------------------ text */

static void add_text(cls_scratch *w, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= 0 && (uint32_t)ids[i] < w->vocab)
            w->text[w->length++] = (uint32_t)ids[i];
}

void cls_scratch_text(cls_scratch *w)
{
    w->length = 0;
    add_text(w, w->row.prompt, w->row.prompt_count);
    const uint32_t prompt = w->length;
    add_text(w, w->row.output, w->row.output_count);
    w->outputs = w->length - prompt;
}

static int is_output(const cls_scratch *w, uint32_t at) { return at >= w->length - w->outputs; }

/* Returns how many of the latest tokens DRY and n-grams read. */
static uint32_t history(const cls_scratch *w)
{
    const uint32_t most =
        w->row.max_history < CLS_MAX_HISTORY ? w->row.max_history : CLS_MAX_HISTORY;
    return most != 0 && most < w->length ? most : w->length;
}

uint32_t cls_scratch_stops(const cls_scratch *w, uint32_t outputs, uint32_t id)
{
    if (outputs >= w->slot.min_tokens && w->is_stop[id])
        return CLS_ROW_STOPPED;
    return w->slot.max_tokens != 0 && outputs >= w->slot.max_tokens
               ? CLS_ROW_STOPPED | CLS_ROW_LENGTH
               : 0;
}

/* ---------------------------------------------------------------------- biases */

/* Marks the tokens that params->allowed_ids and the grammar allow. */
static void mark_allowed(cls_scratch *w)
{
    uint32_t state;
    memset(w->mark, !cls_params_allow_some(&w->params), w->vocab);
    for (uint32_t i = 0; i < w->params.allowed_ids.count; i++)
        w->mark[w->params.allowed_ids.ids[i]] = 1;
    if (!cls_scratch_grammar(w, &state))
        return;
    cls_grammar_set(w->params.grammar, state, w->scratch);
    for (uint32_t i = 0; i < w->vocab; i++)
        w->mark[i] = (uint8_t)(w->mark[i] & (w->scratch[i / 32] >> (i % 32) & 1u));
}

static void add_biases(cls_scratch *w)
{
    const cls_params *const p = &w->params;
    if (p->logit_bias.count == 0)
        return;
    for (uint32_t i = 0; i < w->vocab; i++)
        w->bias[i] = NAN;
    for (uint32_t i = 0; i < p->logit_bias.count; i++) {
        double *const sum = &w->bias[p->logit_bias.biases[i].id];
        *sum = (isnan(*sum) ? 0.0 : *sum) + (double)p->logit_bias.biases[i].bias;
    }
    for (uint32_t i = 0; i < w->vocab; i++) {
        const double most = (double)CLS_FLT_MAX, sum = fmax(-most, fmin(w->bias[i], most));
        if (w->bias[i] == -INFINITY)
            w->z[i] = -INFINITY;
        else if (!isnan(w->bias[i]))
            w->z[i] = add_bias(w->z[i], cls_flush_subnormal((float)sum));
    }
}

/* ------------------------------------------------------------------------ bans */

/* Bans the last id of each sequence if the output ends with its other ids. */
static void ban_words(cls_scratch *w)
{
    for (uint32_t i = 0; i < w->params.bad_words.count; i++) {
        const cls_ids *const word = &w->params.bad_words.sequences[i];
        const uint32_t before = word->count - 1;
        if (before <= w->outputs && before <= history(w) &&
            cls_text_ends_with(w, w->length, word->ids, before))
            w->z[word->ids[before]] = -INFINITY;
    }
}

/* Returns how many of the last `most` of the text's first n tokens equal those at its end. */
static uint32_t same_before(const cls_scratch *w, uint32_t n, uint32_t most)
{
    uint32_t same = 0;
    while (same < most && w->text[n - 1 - same] == w->text[w->length - 1 - same])
        same++;
    return same;
}

static int is_exempt(const cls_ids *exempt, uint32_t id)
{
    uint32_t i = 0;
    while (i < exempt->count && (uint32_t)exempt->ids[i] != id)
        i++;
    return i < exempt->count;
}

/* Bans the tokens that followed earlier occurrences of the last n - 1 tokens. */
static void ban_ngrams(cls_scratch *w, uint32_t n)
{
    const cls_params *const p = &w->params;
    uint32_t most = history(w);
    if (p->ngram_window != 0 && p->ngram_window < most)
        most = p->ngram_window;
    if (p->ngram_output_only && w->outputs < most)
        most = w->outputs;
    const uint32_t first = w->length - most;
    for (uint32_t at = first; n != 0 && at < w->length; at++)
        if (at - first >= n - 1 && same_before(w, at, n - 1) == n - 1 &&
            !is_exempt(&p->ngram_exempt_ids, w->text[at]))
            w->z[w->text[at]] = -INFINITY;
}

static void ban_stops(cls_scratch *w)
{
    uint32_t state;
    if (w->outputs >= w->slot.min_tokens ||
        (cls_scratch_grammar(w, &state) && cls_scratch_leaves_ends(w, state)))
        return;
    for (uint32_t i = 0; i < w->params.stop_ids.count; i++)
        w->z[w->params.stop_ids.ids[i]] = -INFINITY;
}

/* ------------------------------------------------------------------- penalties */

/* Marks the count of a token that occurs but to which only the repetition penalty applies. */
#define REPETITION_ONLY 0x80000000u

static void add_penalties(cls_scratch *w)
{
    const cls_slot *const slot = &w->slot;
    memset(w->scratch, 0, w->vocab * sizeof *w->scratch);
    for (uint32_t i = slot->window != 0 && w->length > slot->window ? w->length - slot->window : 0;
         i < w->length; i++) {
        uint32_t *const count = &w->scratch[w->text[i]];
        if (!is_output(w, i) && !(slot->flags & CLS_SLOT_SCOPE_ALL))
            *count |= REPETITION_ONLY;
        else if ((*count & ~REPETITION_ONLY) < CLS_MAX_COUNT)
            *count += 1;
    }
    for (uint32_t i = 0; i < w->vocab; i++)
        if (w->scratch[i] != 0)
            w->z[i] = penalize(w->z[i], w->scratch[i] & ~REPETITION_ONLY, slot->repetition,
                               slot->reciprocal, slot->frequency, slot->presence);
}

/* ------------------------------------------------------------------------- DRY */

/* Returns the length of the longest breaker that begins `back` tokens before the last, or 0. */
static uint32_t breaker_at(const cls_scratch *w, uint32_t back)
{
    uint32_t longest = 0;
    for (uint32_t b = 0; b < w->params.dry_breakers.count; b++) {
        const cls_ids *const breaker = &w->params.dry_breakers.sequences[b];
        if (breaker->count > longest && breaker->count <= back + 1 &&
            cls_text_ends_with(w, w->length - (back + 1) + breaker->count, breaker->ids,
                               breaker->count))
            longest = breaker->count;
    }
    return longest;
}

/* Returns how many of the latest n tokens come after the nearest breaker. */
static uint32_t count_after_breaker(const cls_scratch *w, uint32_t n)
{
    for (uint32_t back = 0; back < n; back++) {
        const uint32_t breaker = breaker_at(w, back);
        if (breaker != 0)
            return back + 1 - breaker;
    }
    return n;
}

/* Subtracts DRY's penalty of an exponent from a logit. */
static void subtract_penalty(cls_scratch *w, uint32_t id, uint32_t exponent)
{
    const double base = (double)w->params.dry_base,
                 limit = base > 1.000001 ? floor(88.7228391 / log(base)) : (double)exponent;
    if (w->z[id] > -INFINITY)
        w->z[id] = settle(w->z[id] - cls_dry_penalty(&w->params, (uint32_t)fmin(exponent, limit)));
}

/* DRY: penalizes each token that followed an earlier occurrence of the end of the text, by the
 * length of its longest such occurrence. */
static void add_dry(cls_scratch *w)
{
    const cls_params *const p = &w->params;
    const uint32_t n =
        p->dry_window != 0 && p->dry_window < history(w) ? p->dry_window : history(w);
    if (!cls_dry_is_on(p) || n <= p->dry_allowed_length)
        return;
    const uint32_t first = w->length - n, most = count_after_breaker(w, n);
    memset(w->scratch, 0, w->vocab * sizeof *w->scratch); /* exponents + 1 */
    for (uint32_t j = 1; j < n; j++) {
        uint32_t *const count = &w->scratch[w->text[first + j]];
        const uint32_t same = same_before(w, first + j, j < most ? j : most);
        if (same >= p->dry_allowed_length && same - p->dry_allowed_length + 1 > *count)
            *count = same - p->dry_allowed_length + 1;
    }
    for (uint32_t b = 0; b < p->dry_breakers.count; b++)
        if (p->dry_breakers.sequences[b].count == 1)
            w->scratch[p->dry_breakers.sequences[b].ids[0]] = 0;
    for (uint32_t i = 0; i < w->vocab; i++)
        if (w->scratch[i] != 0)
            subtract_penalty(w, i, w->scratch[i] - 1);
}

/* --------------------------------------------------------------------- the row */

/* Returns what the dense bias adds to a token. A factor of 1 adds the values as they are. */
static float dense_bias(const cls_host_row *row, uint32_t id)
{
    const float value = load(row->bias, row->bias_dtype, id);
    return row->bias_factor == 1.0f ? value : scale_bias(value, row->bias_factor);
}

uint32_t cls_scratch_read(cls_scratch *w, int raw)
{
    const cls_host_row *const row = &w->row;
    uint32_t status = 0;
    mark_allowed(w);
    for (uint32_t i = 0; i < w->vocab; i++) {
        float x = load(row->logits, row->dtype, i);
        if (!raw && row->bias != NULL)
            x = x + dense_bias(row, i);
        w->z[i] = -INFINITY;
        if (!raw && !(w->mark[i] && mask_allows(row, i)))
            continue;
        if (isnan(x))
            status |= CLS_ROW_NAN;
        if (isinf(x) && x > 0)
            status |= CLS_ROW_INF;
        w->z[i] = clean(x);
    }
    if (!raw) {
        add_biases(w);
        ban_words(w);
        ban_ngrams(w, w->params.no_repeat_ngram);
        ban_stops(w);
        if (w->slot.flags & CLS_SLOT_PENALIZED)
            add_penalties(w);
        add_dry(w);
    }
    w->top = -INFINITY;
    w->scale = CLS_LOG2E;
    w->available = 0;
    for (uint32_t t = 0; t < w->tiles; t++)
        w->tile_max[t] = -INFINITY;
    for (uint32_t i = 0; i < w->vocab; i++) {
        float *const tile_max = &w->tile_max[i / CLS_TILE];
        if (w->z[i] > *tile_max)
            *tile_max = w->z[i];
        if (w->z[i] > w->top)
            w->top = w->z[i];
        w->available += w->z[i] > -INFINITY;
    }
    cls_weigh(w);
    return status;
}
