/* SPDX-License-Identifier: MIT */
/* Makes random drafts, of which enough are accepted to test the later rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "drafts.h"

/* ------------------------------------------------------------------- requests */

static row_kind some_kind(rng *r)
{
    return (row_kind)rng_below(r, rng_below(r, 20) ? ROW_GOOD : ROW_KINDS);
}

/* Fills a request's rows. They are often similar, so that tokens repeat. */
static void random_rows(drafts *d, rng *r)
{
    for (uint32_t i = 0; i < d->n; i++) {
        row_kind kind = some_kind(r);
        uint64_t seed = rng_bits(r);
        batch_row(d->requests, i, kind, seed);
        for (int32_t row = d->cu[i]; row < d->cu[i + 1]; row++) {
            batch_row(d->rows, (uint32_t)row, kind, seed);
            if (rng_below(r, 2) == 0)
                kind = some_kind(r), seed = rng_bits(r);
        }
    }
}

static void random_requests(drafts *d, rng *r)
{
    static const uint32_t histories[] = {100, 100, 5, 0}; /* the penalty window is at most this */
    batch *const b = d->requests;
    for (uint32_t i = 0; i < d->n; i++) {
        params_random(&b->params[i], b->vocab, r);
        if (rng_below(r, 4) == 0)
            b->params[i].temperature = 0.0f;
    }
    b->history = histories[rng_below(r, 4)];
    b->keep = rng_below(r, 3) ? CLS_COUNTS_ALL : CLS_COUNTS_PRESENCE;
    b->forces = rng_below(r, 3) == 0;
    batch_requests(b, r);
    for (uint32_t i = 0; i < d->n;
         i++) { /* most do not stop, and accept more than one token per call */
        cls_params *const p = &b->params[i];
        if (rng_below(r, 3)) {
            p->stop_ids = (cls_ids){NULL, 0};
        } else if (rng_below(r, 2)) { /* the request may stop after some of its drafts */
            p->min_tokens = b->tokens[i].output_count + rng_below(r, 6);
        }
        if (rng_below(r, 5) == 0)
            continue;
        p->mirostat = 0;
        p->adaptive_target = -1.0f;
        p->top_p_decay = 1.0f;
    }
}

/* Some requests accept relaxed, half of them without a thinking budget. */
static void random_relaxed(drafts *d, rng *r)
{
    static const float deltas[] = {0.0f, 0.1f, 0.5f, 1.0f};
    batch *const b = d->requests;
    for (uint32_t i = 0; i < d->n && b->forces && d->parents == NULL; i++) {
        cls_params *const p = &b->params[i];
        if (rng_below(r, 2))
            continue;
        p->relaxed_top_k = rng_below(r, 8) ? 1 + rng_below(r, 6) : b->vocab;
        p->relaxed_delta = deltas[rng_below(r, 4)];
        if (rng_below(r, 2)) {
            p->thinking_forced.count = 0;
            p->thinking_budget = 0;
        }
    }
}

static void random_masks(drafts *d, rng *r)
{
    static const uint32_t shares[] = {50, 5, 90};
    batch *const b = d->rows;
    b->mask_kind = (int)rng_below(r, 2);
    const uint32_t whole = b->mask_kind == CLS_MASK_BOOL ? b->vocab : (b->vocab + 31) / 32;
    batch_mask(b, r, shares[rng_below(r, 3)], rng_below(r, 3) ? 0 : 1 + rng_below(r, whole + 3));
    b->mask_map = must_calloc(b->rows, sizeof *b->mask_map);
    for (uint32_t row = 0; row < b->rows; row++)
        b->mask_map[row] = rng_below(r, 4) ? (int32_t)rng_below(r, b->rows) : -1;
}

static int32_t *random_ints(uint32_t n, uint32_t limit, rng *r)
{
    int32_t *const ints = must_calloc(n, sizeof *ints);
    for (uint32_t i = 0; i < n; i++)
        ints[i] = (int32_t)rng_below(r, limit);
    return ints;
}

drafts *drafts_random(uint32_t n, uint32_t vocab, int method, rng *r)
{
    static const float epsilons[] = {0.09f, 0.5f, 1.0f, 1e-4f},
                       deltas[] = {0.3f, 1.0f, 16.0f, 0.01f};
    /* At the smallest size the longest drafts have short rows, since Oclgrind takes a second for 20
     * rows of 100 tokens. */
    const uint32_t longest =
        vocab <= 16 ? CLS_MAX_DRAFTS : fixture_by_size(33, CLS_MAX_DRAFTS, CLS_MAX_DRAFTS);
    uint32_t lengths[16];
    ck_assert(n <= 16);
    for (uint32_t i = 0; i < n; i++)
        lengths[i] = rng_below(r, 40) ? rng_below(r, 9) : longest;
    const int distributed = method == CLS_VERIFY_STANDARD || method == CLS_VERIFY_BLOCK;
    const int kind = distributed ? (int)rng_below(r, 3) : CLS_DRAFT_NONE;
    drafts *const d = drafts_new(n, lengths, vocab, (int)rng_below(r, 3), kind, r);
    d->method = method;
    d->disable_bonus = rng_below(r, 4) == 0;
    d->epsilon = epsilons[rng_below(r, 4)];
    d->delta = deltas[rng_below(r, 4)];
    random_rows(d, r);
    random_requests(d, r);
    if (rng_below(r, 3) == 0)
        random_masks(d, r);
    if (rng_below(r, 4) == 0)
        batch_bias(d->rows, r, (int)rng_below(r, 3));
    if (rng_below(r, 3) == 0)
        d->draws = random_ints(n, 1u << 24, r);
    if (rng_below(r, 3) == 0)
        d->positions = random_ints(n, UINT32_MAX, r);
    if (method == CLS_VERIFY_MATCH && rng_below(r, 2))
        d->parents = random_ints(d->total, 1, r);
    random_relaxed(d, r);
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t other = rng_below(r, i + 1);
        const int32_t slot = d->slots[i];
        d->slots[i] = d->slots[other];
        d->slots[other] = slot;
    }
    return d;
}

/* --------------------------------------------------------------------- drafts */

/* Draws by weights, which are probabilities or exp(logit). */
static int32_t drawn_from(const float *values, uint32_t n, int logits, rng *r)
{
    float top = -INFINITY;
    double sum = 0.0, *const weight = must_malloc(n * sizeof *weight);
    int32_t id = -1;
    for (uint32_t i = 0; i < n; i++)
        top = values[i] > top ? values[i] : top;
    for (uint32_t i = 0; i < n; i++) {
        weight[i] = logits ? exp((double)values[i] - (double)top) : (double)values[i];
        weight[i] = weight[i] > 0.0 ? weight[i] : 0.0;
        sum += weight[i];
    }
    double rest = rng_unit(r) * sum;
    for (uint32_t i = 0; i < n && rest >= 0.0; rest -= weight[i++])
        id = weight[i] > 0.0 ? (int32_t)i : id;
    free(weight);
    return id;
}

/* Makes a draft's distribution: the target's or one like it, a random one, a certain token, equal
 * probabilities, or invalid ones. */
static void random_probs(const float *p, float *q, uint32_t n, int32_t likely, rng *r)
{
    static const float garbage[] = {-1.0f, NAN, 2.0f, 0.0f, 1e-30f, 0.25f, INFINITY, 1e-45f};
    const uint32_t what = rng_below(r, 8);
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        q[i] = what < 2    ? p[i]
               : what < 4  ? p[i] * (float)exp(0.5 * rng_normal(r))
               : what == 4 ? (float)exp(rng_normal(r))
               : what == 5 ? (float)((int32_t)i == likely)
               : what == 6 ? 1.0f
                           : garbage[rng_below(r, 8)];
        sum += (double)q[i];
    }
    for (uint32_t i = 0; i < n && what > 1 && what < 7; i++)
        q[i] = (float)((double)q[i] / sum);
}

static void random_logits(const float *p, float *q, uint32_t n, rng *r)
{
    const uint32_t what = rng_below(r, 8);
    row_fill(what < 6 ? ROW_NORMAL1 : (row_kind)rng_below(r, ROW_KINDS), q, n, rng_bits(r));
    for (uint32_t i = 0; i < n && what < 6; i++)
        q[i] = what < 2 ? p[i] : what == 5 ? -p[i] : p[i] + 0.5f * q[i];
}

/* Stores the ids on the path to a draft, and returns their number. */
static uint32_t path_to(const drafts *d, uint32_t i, int32_t draft, int32_t *path)
{
    const uint32_t first = drafts_first(d, i);
    if (draft < 0)
        return 0;
    const uint32_t n =
        path_to(d, i, d->parents ? d->parents[first + (uint32_t)draft] : draft - 1, path);
    path[n] = d->ids[first + (uint32_t)draft];
    return n + 1;
}

/* Returns the token that has n tokens with larger logits, or with equal ones and lower ids; -1 if
 * there is none. */
static int32_t ranked(const float *x, uint32_t vocab, uint32_t n)
{
    for (uint32_t i = 0; i < vocab; i++) {
        uint32_t before = 0;
        for (uint32_t j = 0; j < vocab; j++)
            before += x[j] > x[i] || (x[j] == x[i] && j < i);
        if (before == n)
            return (int32_t)i;
    }
    return -1;
}

static void choose_one(drafts *d, uint32_t i, uint32_t k, int faithful, rng *r)
{
    static const int32_t none[] = {-1, INT32_MIN, INT32_MAX};
    const uint32_t vocab = d->rows->vocab, at = drafts_first(d, i) + k;
    const int32_t parent = !d->parents ? (int32_t)k - 1 : d->parents[at];
    int32_t path[CLS_MAX_DRAFTS];
    float *const p = must_calloc(vocab, sizeof *p), *const q = d->q->values + (size_t)at * vocab;
    float *const values = must_calloc(vocab, sizeof *values);
    one_result result = {.probs = p};
    drafts_sample(d, i, (uint32_t)(parent + 1), path, path_to(d, i, parent, path), &result);
    if (d->kind == CLS_DRAFT_PROBS)
        random_probs(p, values, vocab, result.token, r);
    else if (d->kind == CLS_DRAFT_LOGITS)
        random_logits(d->rows->values + (size_t)((uint32_t)d->cu[i] + k) * vocab, values, vocab, r);
    if (d->kind != CLS_DRAFT_NONE)
        drafts_values(d->q, at, values);
    d->ids[at] = result.token;
    if (rng_below(r, faithful ? 20 : 2) == 0)
        d->ids[at] = d->kind != CLS_DRAFT_NONE
                         ? drawn_from(q, vocab, d->kind == CLS_DRAFT_LOGITS, r)
                         : drawn_from(p, vocab, 0, r);
    const uint32_t most = d->requests->params[i].relaxed_top_k;
    if (most != 0 && rng_below(r, 2)) /* near the last rank that passes */
        d->ids[at] =
            ranked(d->rows->values + (size_t)((uint32_t)d->cu[i] + (uint32_t)(parent + 1)) * vocab,
                   vocab, rng_below(r, most < vocab ? most + 2 : vocab));
    if (d->ids[at] < 0 || rng_below(r, faithful ? 60 : 12) == 0)
        d->ids[at] = (int32_t)rng_below(r, vocab);
    if (rng_below(r, faithful ? 100 : 20) == 0)
        d->ids[at] = rng_below(r, 2) ? (int32_t)vocab : none[rng_below(r, 3)];
    free(p);
    free(values);
}

void drafts_choose(drafts *d, rng *r)
{
    for (uint32_t i = 0; i < d->n; i++) {
        const int faithful = rng_below(r, 3) != 0;
        for (uint32_t k = 0; k < drafts_count(d, i); k++) {
            if (d->parents)
                d->parents[drafts_first(d, i) + k] =
                    (int32_t)(rng_below(r, 3) ? k : rng_below(r, k + 1)) - 1;
            choose_one(d, i, k, faithful, r);
        }
    }
}
