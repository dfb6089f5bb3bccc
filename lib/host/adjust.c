/* SPDX-License-Identifier: MIT */
/* The adjustments of logits that precede the chain: masks, biases, bans and penalties. */
#include "host/host.h"

#include <math.h>

/* ---------------------------------------------------------------------- logits */

/* The float of a float16. A subnormal one is an integer of 24 fractional bits. */
static float half_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    const uint32_t small = (uint32_t)CLS_AS_I32((float)(int32_t)magnitude * 0x1p-24f),
                   other = (magnitude << 13) + (magnitude < 0x7c00u ? 112u << 23 : 224u << 23);
    return CLS_AS_F32((int32_t)(sign | (magnitude < 0x400u ? small : other)));
}

/* Sets z to the n elements of a tile of logits or of a dense bias, and then to 0. */
static void load_tile(const char *from, int32_t dtype, uint32_t n, float *restrict z)
{
    float padded[CLS_TILE] = {0.0f};
    const uint16_t *narrow;
    if (n < CLS_TILE)
        from = memcpy(padded, from, n * cls_dtype_size(dtype));
    narrow = (const uint16_t *)(const void *)from;
    if (dtype == CLS_F16)
        for (uint32_t i = 0; i < CLS_TILE; i++)
            z[i] = half_to_float(narrow[i]);
    else if (dtype == CLS_BF16)
        for (uint32_t i = 0; i < CLS_TILE; i++)
            z[i] = CLS_AS_F32((int32_t)((uint32_t)narrow[i] << 16));
    else
        memcpy(z, from, CLS_TILE * sizeof *z);
}

/* Sets what some bytes forbid to -inf, and what the bits of a word forbid. */
static void forbid_by_bytes(float *restrict z, const uint8_t *restrict allowed)
{
    for (uint32_t i = 0; i < CLS_TILE; i++)
        z[i] = allowed[i] != 0 ? z[i] : CLS_MASKED;
}

static void forbid_by_bits(float *restrict z, uint32_t word)
{
#define FOUR_BITS(n) 1u << (n), 2u << (n), 4u << (n), 8u << (n)
    static const uint32_t bit[32] = {FOUR_BITS(0),  FOUR_BITS(4),  FOUR_BITS(8),  FOUR_BITS(12),
                                     FOUR_BITS(16), FOUR_BITS(20), FOUR_BITS(24), FOUR_BITS(28)};
    for (uint32_t i = 0; i < 32; i++) {
        const float x = z[i];
        z[i] = (word & bit[i]) != 0 ? x : CLS_MASKED;
    }
}

static void forbid_by_words(float *z, const uint32_t *words, uint32_t n)
{
    for (uint32_t k = 0; k < CLS_TILE / 32; k++) {
        const uint32_t word = k < n ? words[k] : 0;
        if (word != UINT32_MAX)
            forbid_by_bits(z + 32 * k, word);
    }
}

/* Returns how many of `width` elements a tile has that begins at `first`. */
static uint32_t within(uint32_t first, uint32_t width, uint32_t most)
{
    return width <= first ? 0 : width - first < most ? width - first : most;
}

static void apply_mask(const cls_row_inputs *row, uint32_t tile, float *z)
{
    const uint32_t first = tile * CLS_TILE;
    if (row->mask_kind == CLS_MASK_BOOL) {
        const uint32_t n = within(first, row->mask_width, CLS_TILE);
        uint8_t allowed[CLS_TILE] = {0};
        memcpy(allowed, (const uint8_t *)row->mask + (n != 0 ? first : 0), n);
        forbid_by_bytes(z, allowed);
    } else {
        const uint32_t n = within(first / 32, row->mask_width, CLS_TILE / 32);
        forbid_by_words(z, (const uint32_t *)row->mask + (n != 0 ? first / 32 : 0), n);
    }
}

/* Cleans a tile that has NaN or infinities, and counts its available tokens: clean() without
 * branches, which a mask would make unpredictable. Returns the cls_row_status bits of NaN and
 * +inf. */
static uint32_t clean_special(float *z, uint32_t *available)
{
    const int32_t masked = CLS_AS_I32(CLS_MASKED), largest = CLS_AS_I32(CLS_FLT_MAX);
    int32_t nan = 0, inf = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < CLS_TILE; i++) {
        const int32_t bits = CLS_AS_I32(z[i]), magnitude = bits & 0x7fffffff;
        const int32_t is_nan = -(magnitude > CLS_INF_BITS), is_inf = -(bits == CLS_INF_BITS);
        const int32_t finite = (bits & ~(is_nan | is_inf)) | (masked & is_nan) | (largest & is_inf);
        nan |= is_nan;
        inf |= is_inf;
        n += finite != masked;
        z[i] = CLS_AS_F32(finite);
    }
    *available += n;
    return (nan ? CLS_ROW_NAN : 0) | (inf ? CLS_ROW_INF : 0);
}

/* The same for any tile. Most have finite logits only, of which subnormal ones become 0. */
static uint32_t clean_tile(float *z, uint32_t *available)
{
    int32_t special = 0; /* negative if a magnitude is that of an infinity or of NaN */
    for (uint32_t i = 0; i < CLS_TILE; i++) {
        const int32_t bits = CLS_AS_I32(z[i]), magnitude = bits & 0x7fffffff;
        special |= (int32_t)((uint32_t)magnitude + 0x00800000u);
        z[i] = CLS_AS_F32(magnitude < 0x00800000 ? 0 : bits);
    }
    if (special < 0)
        return clean_special(z, available);
    *available += CLS_TILE;
    return 0;
}

/* Changes the logit of a token. Its tile is measured again. */
static void set_logit(cls_sampled *w, uint32_t id, float x)
{
    w->available -= w->z[id] > CLS_MASKED;
    w->available += x > CLS_MASKED;
    w->z[id] = x;
    w->stale[id / CLS_TILE] = 1;
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

/* Marks the tokens that params->allowed_ids has. */
static void mark_allowed(cls_sampled *w)
{
    memset(w->mark, 0, w->vocab);
    for (uint32_t i = 0; i < w->params.allowed_ids.count; i++)
        w->mark[w->params.allowed_ids.ids[i]] = 1;
}

/* A token may have several biases, whose sum is rounded once. */
static void add_biases(cls_sampled *w)
{
    const cls_biases *const list = &w->params.logit_bias;
    for (uint32_t i = 0; i < list->count; i++)
        w->bias[list->biases[i].id] = 0.0;
    for (uint32_t i = 0; i < list->count; i++)
        w->bias[list->biases[i].id] += (double)list->biases[i].bias;
    for (uint32_t i = 0; i < list->count; i++) {
        const double most = (double)CLS_FLT_MAX;
        const uint32_t id = (uint32_t)list->biases[i].id;
        const double sum = fmax(-most, fmin(w->bias[id], most));
        if (w->bias[id] == -INFINITY)
            set_logit(w, id, -INFINITY);
        else if (!isnan(w->bias[id]))
            set_logit(w, id, add_bias(w->z[id], cls_flush_subnormal((float)sum)));
        w->bias[id] = NAN; /* it is added */
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
            set_logit(w, (uint32_t)word->ids[before], -INFINITY);
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
            set_logit(w, w->text[at], -INFINITY);
}

static void ban_stops(cls_sampled *w)
{
    const cls_slot *const s = &w->request->slot;
    if (!((s->flags & CLS_SLOT_STOPS_BANNED) && s->thinking != 0) &&
        (s->outputs >= s->min_tokens || cls_text_leaves_ends(w->request)))
        return;
    for (uint32_t i = 0; i < w->params.stop_ids.count; i++)
        set_logit(w, (uint32_t)w->params.stop_ids.ids[i], -INFINITY);
}

/* ------------------------------------------------------------------- penalties */

/* Returns how often a token occurs in the window of a penalty; if it must count, as tokens do for
 * frequency and presence. */
static uint32_t occurrences(const cls_sampled *w, uint32_t id, cls_penalty penalty)
{
    const cls_host_slot *const h = w->request;
    const uint32_t window = cls_penalty_window(&w->params, penalty), length = h->slot.length,
                   all = w->slot.flags & CLS_SLOT_SCOPE_ALL;
    uint32_t n = 0;
    for (uint32_t i = window < length ? length - window : 0; i < length; i++) {
        const uint32_t entry = *cls_host_slot_entry(h, i);
        const int counts = penalty == CLS_REPETITION || all || (entry & CLS_ENTRY_OUTPUT);
        n += counts && (entry & CLS_ENTRY_ID) == id;
    }
    return n;
}

/* Applies the penalties to a token that occurs in the longest of their windows. */
static void penalize_token(cls_sampled *w, uint32_t id)
{
    const cls_slot *const slot = &w->slot;
    const uint32_t counted = cls_host_slot_count(w->request, id);
    uint32_t n[3] = {1, counted, counted};
    for (cls_penalty i = CLS_REPETITION; i <= CLS_PRESENCE; i++)
        if (cls_penalty_window(&w->params, i) != slot->window)
            n[i] = occurrences(w, id, i);
    set_logit(w, id,
              penalize_each(w->z[id], n[CLS_REPETITION] != 0, n[CLS_FREQUENCY],
                            n[CLS_PRESENCE] != 0, slot->repetition, slot->reciprocal,
                            slot->frequency, slot->presence));
}

/* The slot's state marks the tokens that are counted or in context, if it counts any. */
static void add_penalties(cls_sampled *w)
{
    if (CLS_LAYOUT_COUNTS(w->request->layout) == CLS_COUNTS_NONE)
        return;
    const uint32_t *const adjusted = w->request->state + state_adjusted();
    for (uint32_t i = 0; i < w->vocab; i++) {
        if (i % 32 == 0 && adjusted[i / 32] == 0)
            i += 31;
        else if ((adjusted[i / 32] >> (i % 32) & 1u) &&
                 !is_exempt(&w->params.penalty_exempt_ids, i))
            penalize_token(w, i);
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
    const uint32_t most = cls_dry_max_exponent(&w->params);
    if (w->z[id] > -INFINITY)
        set_logit(
            w, id,
            settle(w->z[id] - cls_dry_penalty(&w->params, exponent < most ? exponent : most)));
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
    for (uint32_t j = 1; j < n; j++)
        w->scratch[w->text[first + j]] = 0; /* exponents + 1 */
    for (uint32_t j = 1; j < n; j++) {
        uint32_t *const count = &w->scratch[w->text[first + j]];
        const uint32_t same = same_before(w, first + j, j < most ? j : most);
        if (same >= p->dry_allowed_length && same - p->dry_allowed_length + 1 > *count)
            *count = same - p->dry_allowed_length + 1;
    }
    for (uint32_t b = 0; b < p->dry_breakers.count; b++)
        if (p->dry_breakers.sequences[b].count == 1)
            w->scratch[p->dry_breakers.sequences[b].ids[0]] = 0;
    for (uint32_t j = 1; j < n; j++) {
        const uint32_t id = w->text[first + j], count = w->scratch[id];
        w->scratch[id] = 0;
        if (count != 0)
            subtract_penalty(w, id, count - 1);
    }
}

/* --------------------------------------------------------------------- the row */

/* Adds the dense bias. A factor of 1 adds the values as they are. */
static void add_dense_bias(const cls_row_inputs *row, uint32_t tile, uint32_t n, float *restrict z)
{
    float bias[CLS_TILE];
    load_tile((const char *)row->bias + (size_t)tile * CLS_TILE * cls_dtype_size(row->bias_dtype),
              row->bias_dtype, n, bias);
    if (row->bias_factor != 1.0f)
        for (uint32_t i = 0; i < CLS_TILE; i++)
            bias[i] = scale_bias(bias[i], row->bias_factor);
    for (uint32_t i = 0; i < CLS_TILE; i++)
        z[i] = z[i] + bias[i];
}

static void cap_tile(float cap, float *restrict z)
{
    const float reciprocal = cls_softcap_reciprocal(cap);
    for (uint32_t i = 0; i < CLS_TILE; i++)
        z[i] = softcap(z[i], cap, reciprocal);
}

/* Sets a tile of z to the cleaned logits of the tokens that may be drawn. */
static uint32_t read_tile(cls_sampled *w, uint32_t tile, int raw)
{
    const cls_row_inputs *const row = &w->row;
    const uint32_t first = tile * CLS_TILE, n = within(first, w->vocab, CLS_TILE);
    const cls_grammar *const grammar = w->slot.thinking == 0 ? w->params.grammar : NULL;
    float *const z = w->z + first;
    load_tile((const char *)row->logits + (size_t)first * cls_dtype_size(row->dtype), row->dtype, n,
              z);
    if (row->softcap != 0.0f)
        cap_tile(row->softcap, z);
    if (!raw && row->bias != NULL)
        add_dense_bias(row, tile, n, z);
    if (!raw && row->mask != NULL)
        apply_mask(row, tile, z);
    if (!raw && cls_params_allow_some(&w->params))
        forbid_by_bytes(z, w->mark + first);
    if (!raw && grammar != NULL)
        forbid_by_words(z, w->scratch + first / 32, CLS_TILE / 32);
    for (uint32_t i = n; i < CLS_TILE; i++)
        z[i] = CLS_MASKED;
    const uint32_t status = clean_tile(z, &w->available);
    cls_measure_tile(w, tile);
    return status;
}

uint32_t cls_sampled_read(cls_sampled *w, int raw)
{
    uint32_t status = 0;
    if (!raw && cls_params_allow_some(&w->params))
        mark_allowed(w);
    if (!raw && w->params.grammar != NULL && w->slot.thinking == 0)
        cls_grammar_set(w->params.grammar, w->slot.grammar_state, w->scratch);
    w->available = 0;
    memset(w->stale, 0, w->tiles);
    for (uint32_t t = 0; t < w->tiles; t++)
        status |= read_tile(w, t, raw);
    if (!raw) {
        if (w->slot.flags & CLS_SLOT_HISTORY)
            read_text(w);
        add_biases(w);
        ban_words(w);
        ban_ngrams(w, w->params.no_repeat_ngram);
        ban_stops(w);
        if (w->slot.flags & CLS_SLOT_PENALIZED)
            add_penalties(w);
        add_dry(w);
    }
    for (uint32_t t = 0; t < w->tiles; t++)
        if (w->stale[t])
            cls_measure_tile(w, t);
    cls_measure_row(w);
    w->scale = CLS_LOG2E;
    cls_weigh(w);
    return status;
}
