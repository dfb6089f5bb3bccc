/* SPDX-License-Identifier: MIT */
/* The adjustments of logits that precede the chain: masks, biases, bans and
 * penalties. */
#include "host/host.h"

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

static int mask_allows(const cls_row_inputs *row, uint32_t i)
{
    if (row->mask == NULL)
        return 1;
    if (row->mask_kind == CLS_MASK_BOOL)
        return i < row->mask_width && ((const uint8_t *)row->mask)[i] != 0;
    return i / 32 < row->mask_width && (((const uint32_t *)row->mask)[i / 32] >> (i % 32) & 1u);
}

int cls_sampled_allows(const cls_sampled *w, uint32_t id)
{
    return mask_allows(&w->row, id) && cls_text_allows(w->request, id);
}

/* ------------------------------------------------------------------------ text */

/* Sets the text to what DRY, n-grams and bad words see. */
static void read_text(cls_sampled *w)
{
    const cls_host_slot *const h = w->request;
    const uint32_t most = CLS_LAYOUT_HISTORY(h->layout) < CLS_MAX_HISTORY
                              ? CLS_LAYOUT_HISTORY(h->layout)
                              : CLS_MAX_HISTORY;
    w->length = h->slot.length < most ? h->slot.length : most;
    w->outputs = 0;
    for (uint32_t i = 0; i < w->length; i++) {
        const uint32_t entry = cls_text_entry(h, w->length - i);
        w->text[i] = entry & CLS_ENTRY_ID;
        w->outputs = entry & CLS_ENTRY_OUTPUT ? w->outputs + 1 : 0;
    }
}

/* Returns 1 if the first n tokens of the text end with these. */
static int latest_are(const cls_sampled *w, uint32_t n, const int32_t *ids, uint32_t count)
{
    uint32_t same = 0;
    while (count <= n && same < count && w->text[n - count + same] == (uint32_t)ids[same])
        same++;
    return same == count;
}

/* ---------------------------------------------------------------------- biases */

/* Marks the tokens that params->allowed_ids and the grammar allow. */
static void mark_allowed(cls_sampled *w)
{
    const cls_grammar *const g = w->params.grammar;
    memset(w->mark, !cls_params_allow_some(&w->params), w->vocab);
    for (uint32_t i = 0; i < w->params.allowed_ids.count; i++)
        w->mark[w->params.allowed_ids.ids[i]] = 1;
    if (g == NULL || w->slot.thinking != 0)
        return;
    cls_grammar_set(g, w->slot.grammar_state, w->scratch);
    for (uint32_t i = 0; i < w->vocab; i++)
        w->mark[i] = (uint8_t)(w->mark[i] & (w->scratch[i / 32] >> (i % 32) & 1u));
}

static void add_biases(cls_sampled *w)
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
static void ban_words(cls_sampled *w)
{
    for (uint32_t i = 0; i < w->params.bad_words.count; i++) {
        const cls_ids *const word = &w->params.bad_words.sequences[i];
        const uint32_t before = word->count - 1;
        if (before <= w->outputs && latest_are(w, w->length, word->ids, before))
            w->z[word->ids[before]] = -INFINITY;
    }
}

/* Returns how many of the last `most` of the text's first n tokens equal those at its end. */
static uint32_t same_before(const cls_sampled *w, uint32_t n, uint32_t most)
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
static void ban_ngrams(cls_sampled *w, uint32_t n)
{
    const cls_params *const p = &w->params;
    uint32_t most = w->length;
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

static void ban_stops(cls_sampled *w)
{
    if (w->slot.outputs >= w->request->slot.min_tokens || cls_text_leaves_ends(w->request))
        return;
    for (uint32_t i = 0; i < w->params.stop_ids.count; i++)
        w->z[w->params.stop_ids.ids[i]] = -INFINITY;
}

/* ------------------------------------------------------------------- penalties */

static void add_penalties(cls_sampled *w)
{
    const cls_slot *const slot = &w->slot;
    for (uint32_t i = 0; i < w->vocab; i++) {
        const uint32_t count = cls_host_slot_count(w->request, i);
        if (count != 0 || cls_host_slot_in_context(w->request, i))
            w->z[i] = penalize(w->z[i], count, slot->repetition, slot->reciprocal, slot->frequency,
                               slot->presence);
    }
}

/* ------------------------------------------------------------------------- DRY */

/* Returns the length of the longest breaker that begins `back` tokens before the last, or 0. */
static uint32_t breaker_at(const cls_sampled *w, uint32_t back)
{
    uint32_t longest = 0;
    for (uint32_t b = 0; b < w->params.dry_breakers.count; b++) {
        const cls_ids *const breaker = &w->params.dry_breakers.sequences[b];
        if (breaker->count > longest && breaker->count <= back + 1 &&
            latest_are(w, w->length - (back + 1) + breaker->count, breaker->ids, breaker->count))
            longest = breaker->count;
    }
    return longest;
}

/* Returns how many of the latest n tokens come after the nearest breaker. */
static uint32_t count_after_breaker(const cls_sampled *w, uint32_t n)
{
    for (uint32_t back = 0; back < n; back++) {
        const uint32_t breaker = breaker_at(w, back);
        if (breaker != 0)
            return back + 1 - breaker;
    }
    return n;
}

/* Subtracts DRY's penalty of an exponent from a logit. */
static void subtract_penalty(cls_sampled *w, uint32_t id, uint32_t exponent)
{
    const double base = (double)w->params.dry_base,
                 limit = base > 1.000001 ? floor(88.7228391 / log(base)) : (double)exponent;
    if (w->z[id] > -INFINITY)
        w->z[id] = settle(w->z[id] - cls_dry_penalty(&w->params, (uint32_t)fmin(exponent, limit)));
}

/* DRY: penalizes each token that followed an earlier occurrence of the end of the text, by the
 * length of its longest such occurrence. */
static void add_dry(cls_sampled *w)
{
    const cls_params *const p = &w->params;
    const uint32_t n = p->dry_window != 0 && p->dry_window < w->length ? p->dry_window : w->length;
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
static float dense_bias(const cls_row_inputs *row, uint32_t id)
{
    const float value = load(row->bias, row->bias_dtype, id);
    return row->bias_factor == 1.0f ? value : scale_bias(value, row->bias_factor);
}

uint32_t cls_sampled_read(cls_sampled *w, int raw)
{
    const cls_row_inputs *const row = &w->row;
    uint32_t status = 0;
    if (!raw) {
        read_text(w);
        mark_allowed(w);
    }
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
