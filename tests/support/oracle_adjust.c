/* SPDX-License-Identifier: MIT */
/* Computes the adjustments before the chain by brute force: penalties, biases, bans and DRY. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rows/kinds.h"
#include "oracle.h"

/* ------------------------------------------------------------------------ bans */

static int has_id(const cls_ids *list, int32_t id)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->ids[i] == id)
            return 1;
    return 0;
}

static void mark_unlisted(const cls_params *p, uint32_t vocab, oracle_effect *of)
{
    for (uint32_t id = 0; id < vocab && (p->only_allowed != 0 || p->allowed_ids.count != 0); id++)
        of[id].unlisted = !has_id(&p->allowed_ids, (int32_t)id);
}

uint32_t oracle_min_tokens(const cls_params *p)
{
    for (uint32_t i = 0; i < p->allowed_ids.count; i++)
        if (!has_id(&p->stop_ids, p->allowed_ids.ids[i]))
            return p->min_tokens;
    return p->allowed_ids.count != 0 ? 0 : p->min_tokens;
}

/* Bans the last id of a sequence if the output ends with the ids before it. */
static void ban_last(const cls_ids *word, const oracle_story *s, oracle_effect *of)
{
    const uint32_t before = word->count - 1;
    if (before > s->n - s->first)
        return;
    for (uint32_t i = 0; i < before; i++)
        if (s->id[s->n - before + i] != word->ids[i] || !s->is_output[s->n - before + i])
            return;
    of[word->ids[before]].banned = 1;
}

/* Bans each token that followed an earlier occurrence of the last n - 1 tokens. */
static void ban_repeats(const cls_params *p, const oracle_story *s, oracle_effect *of)
{
    const uint32_t n = p->no_repeat_ngram;
    uint32_t first = s->first;
    if (p->ngram_window != 0 && s->n - first > p->ngram_window)
        first = s->n - p->ngram_window;
    for (uint32_t i = first; i < s->n && p->ngram_output_only; i++)
        first = s->is_output[i] ? first : i + 1;
    if (n == 0 || s->n - first < n)
        return;
    for (uint32_t end = first + n - 1; end < s->n; end++)
        if (memcmp(s->id + end - (n - 1), s->id + s->n - (n - 1), (n - 1) * sizeof *s->id) == 0 &&
            !has_id(&p->ngram_exempt_ids, s->id[end]))
            of[s->id[end]].banned = 1;
}

/* ------------------------------------------------------------------------- DRY */

/* Returns the longest possible repetition: the number of tokens since the last breaker. */
static uint32_t since_breaker(const cls_params *p, const int32_t *id, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) { /* i tokens follow the breaker's first token */
        const int32_t *const head = id + n - 1 - i;
        int64_t longest = -1;
        for (uint32_t b = 0; b < p->dry_breakers.count; b++) {
            const cls_ids *const breaker = &p->dry_breakers.sequences[b];
            if (breaker->count - 1 <= i &&
                memcmp(head, breaker->ids, breaker->count * sizeof *head) == 0 &&
                (int64_t)breaker->count - 1 > longest)
                longest = breaker->count - 1;
        }
        if (longest >= 0)
            return i - (uint32_t)longest;
    }
    return n;
}

static void repeat_penalties(const cls_params *p, const oracle_story *s, oracle_effect *of)
{
    const uint32_t in_context = s->n - s->first,
                   n = p->dry_window != 0 && p->dry_window < in_context ? p->dry_window
                                                                        : in_context;
    const int32_t *const id = s->id + s->n - n;
    if (p->dry_multiplier == 0.0f || !(p->dry_base >= 1.0f) || n <= p->dry_allowed_length)
        return;
    const uint32_t most = since_breaker(p, id, n);
    const int64_t max_exponent =
        p->dry_base > 1.000001f ? (int64_t)(88.7228391 / log((double)p->dry_base)) : 0;
    if (most < p->dry_allowed_length)
        return;
    for (uint32_t j = 0; j + 1 < n; j++) {
        uint32_t length = 0;
        while (length <= j && length < most && id[j - length] == id[n - 1 - length])
            length++;
        if (length < p->dry_allowed_length)
            continue;
        int64_t exponent = length - p->dry_allowed_length;
        if (max_exponent > 0 && exponent > max_exponent)
            exponent = max_exponent;
        if (exponent > of[id[j + 1]].dry)
            of[id[j + 1]].dry = (int32_t)exponent;
    }
    for (uint32_t b = 0; b < p->dry_breakers.count; b++)
        if (p->dry_breakers.sequences[b].count == 1)
            of[p->dry_breakers.sequences[b].ids[0]].dry = -1;
}

/* Whether a penalty with this window considers a token that `age` others follow. */
static int is_within(const cls_params *p, uint32_t age, uint32_t window)
{
    const uint32_t most = window != 0 ? window : p->penalty_window;
    return most == 0 || age < most;
}

void oracle_effects_of(const cls_params *p, uint32_t vocab, const oracle_story *s,
                       oracle_effect *of)
{
    for (uint32_t i = 0; i < vocab; i++)
        of[i] = (oracle_effect){.dry = -1};
    for (uint32_t i = s->n, age = 0; i-- > 0; age++) {
        const int counts = s->is_output[i] || p->penalty_scope == CLS_SCOPE_ALL;
        of[s->id[i]].repeats += (uint32_t)is_within(p, age, p->repetition_window);
        of[s->id[i]].counted += (uint32_t)(counts && is_within(p, age, p->frequency_window));
        of[s->id[i]].present += (uint32_t)(counts && is_within(p, age, p->presence_window));
    }
    mark_unlisted(p, vocab, of);
    for (uint32_t i = 0; i < p->penalty_exempt_ids.count; i++)
        of[p->penalty_exempt_ids.ids[i]].spared = 1;
    for (uint32_t i = 0; i < p->stop_ids.count && s->outputs < oracle_min_tokens(p); i++)
        of[p->stop_ids.ids[i]].banned = 1;
    for (uint32_t i = 0; i < p->bad_words.count; i++)
        ban_last(&p->bad_words.sequences[i], s, of);
    ban_repeats(p, s, of);
    repeat_penalties(p, s, of);
}

void oracle_effects(const one_row *row, oracle_effect *of)
{
    const uint32_t prompt = row->prompt_count, given = prompt + row->output_count;
    int32_t *const id = malloc((given + 1) * sizeof *id);
    uint8_t *const is_output = malloc(given + 1);
    oracle_story s = {.id = id, .is_output = is_output};
    if (id == NULL || is_output == NULL)
        abort();
    for (uint32_t i = 0; i < given; i++) {
        const int32_t next = i < prompt ? row->prompt[i] : row->output[i - prompt];
        if (next < 0 || (uint32_t)next >= row->vocab)
            continue;
        is_output[s.n] = i >= prompt;
        id[s.n++] = next;
        s.outputs += i >= prompt;
    }
    s.first = row->max_history != 0 && row->max_history < s.n ? s.n - row->max_history : 0;
    oracle_effects_of(row->params, row->vocab, &s, of);
    free(id);
    free(is_output);
}

/* ---------------------------------------------------------------------- logits */

/* A dense bias's value times the factor: the exact product, limited and rounded once. */
static float times_factor(float value, float factor)
{
    const double product = (double)value * (double)factor;
    if (factor == 0.0f || factor == 1.0f || value == -INFINITY)
        return value;
    if (!isfinite(value))
        return NAN;
    return fabsf(value) < FLT_MIN || fabs(product) < 0x1p-120
               ? 0.0f
               : (float)fmax(-(double)FLT_MAX, fmin(product, (double)FLT_MAX));
}

/* Horner's rule, with one rounding for each product and each sum. */
static float polynomial(const float *factor, int degree, float x)
{
    float sum = factor[degree];
    for (int i = degree - 1; i >= 0; i--) {
        sum = (float)((double)sum * (double)x);
        sum = (float)((double)sum + (double)factor[i]);
    }
    return sum;
}

float oracle_softcap(float x, float cap)
{
    static const float below[] = {0x1.5554dap-2f, -0x1.10ea8ep-3f, 0x1.b29c1cp-5f, -0x1.1abd18p-6f},
                       power[] = {1.0f,           0x1.62e4bap-1f, 0x1.ebdb56p-3f,
                                  0x1.c91ce6p-5f, 0x1.277854p-7f, 0x1.e974fcp-10f},
                       above[] = {0x1.fffdbep-2f,  -0x1.ffa88ep-3f, 0x1.fb0048p-4f,
                                  -0x1.db1bd6p-5f, 0x1.68461ap-6f,  -0x1.2eca02p-8f};
    if (!isfinite(x) || cap == 0.0f)
        return x;
    const float size = fabsf(x), reciprocal = (float)(1.0 / (double)cap);
    const float y = (float)fmin((double)size * (double)reciprocal, 10.0);
    float t;
    if (y < 0.5f) {
        const float u = (float)((double)y * (double)y),
                    p = (float)((double)polynomial(below, 3, u) * (double)u);
        t = (float)((double)y - (double)(float)((double)p * (double)y));
    } else {
        const float z = (float)((double)y * (double)0x1.715476p+1f), whole = floorf(z) + 1.0f;
        const float g = ldexpf(polynomial(power, 5, whole - z), 1 - (int)whole),
                    p = (float)((double)polynomial(above, 5, g) * (double)g);
        t = (float)(1.0 - (double)(float)((double)g - (double)(float)((double)p * (double)g)));
    }
    t = fmaxf((float)((double)t * (double)cap), cap / 8192.0f);
    return copysignf(fminf(t, size), x);
}

float oracle_logit(const one_row *row, uint32_t id)
{
    return oracle_softcap(
        dtype_decode(row->dtype, (const char *)row->logits + id * dtype_size(row->dtype)),
        row->softcap);
}

float oracle_raw(const one_row *row, uint32_t id)
{
    float x = oracle_logit(row, id);
    if (row->bias != NULL)
        x += times_factor(dtype_decode(row->bias_dtype,
                                       (const char *)row->bias + id * dtype_size(row->bias_dtype)),
                          row->bias_factor);
    return x;
}

int oracle_allows(const one_row *row, uint32_t id)
{
    if (row->mask == NULL)
        return 1;
    if (row->mask_kind == CLS_MASK_BOOL)
        return id < row->mask_width && ((const unsigned char *)row->mask)[id];
    return id / 32 < row->mask_width && (((const uint32_t *)row->mask)[id / 32] >> id % 32) % 2;
}

int oracle_biases(const cls_params *p, uint32_t id, double *bias)
{
    int has = 0;
    *bias = 0.0;
    for (uint32_t n = 0; n < p->logit_bias.count; n++)
        if ((uint32_t)p->logit_bias.biases[n].id == id) {
            *bias += (double)p->logit_bias.biases[n].bias;
            has = 1;
        }
    return has;
}

double oracle_meant(float x)
{
    if (isnan(x))
        return -INFINITY;
    if (isinf(x))
        return x > 0 ? (double)FLT_MAX : -INFINITY;
    return fabsf(x) < FLT_MIN ? 0.0 : (double)x;
}

static double limited(double x) { return fmax(-(double)FLT_MAX, fmin(x, (double)FLT_MAX)); }

double oracle_dry_amount(const cls_params *p, int32_t exponent)
{
    return exponent < 0 ? 0.0
                        : limited((double)p->dry_multiplier * pow((double)p->dry_base, exponent));
}

double oracle_adjusted(const one_row *row, uint32_t i, float x, const oracle_effect *t,
                       double *error)
{
    const cls_params *const p = row->params;
    double y = oracle_meant(x), bias;
    const int biased = oracle_biases(p, i, &bias);
    *error = 0.0;
    if (isinf(y) || isinf(bias) || t->banned)
        return -INFINITY;
    if (biased) {
        y = limited(y + bias);
        *error += 0x1p-23 * (fabs(y) + fabs(bias));
    }
    if (t->repeats > 0 && !t->spared) {
        y = limited(y > 0.0 ? y / (double)p->repetition_penalty
                            : y * (double)p->repetition_penalty);
        *error = *error * fmax((double)p->repetition_penalty, 1.0 / (double)p->repetition_penalty) +
                 0x1p-23 * fabs(y);
    }
    if (t->counted > 0 && !t->spared) {
        const double often = (double)p->frequency_penalty * fmin(t->counted, 65535.0);
        y = limited(y - limited(often));
        *error += 0x1p-23 * (fabs(y) + fabs(often));
    }
    if (t->present > 0 && !t->spared) {
        y = limited(y - (double)p->presence_penalty);
        *error += 0x1p-23 * fabs(y);
    }
    if (t->dry >= 0) {
        const double amount = oracle_dry_amount(p, t->dry);
        y = limited(y - amount);
        *error += 0x1p-23 * (fabs(y) + fabs(amount));
    }
    if (*error > 0.0)
        *error += 0x1p-119; /* less than 2^-120 counts as 0 */
    return y;
}
