/* SPDX-License-Identifier: MIT */
/* Proves that verified drafts on the device follow the target's distribution, whatever
 * distribution the drafts are drawn from. The target's row depends on the token before it
 * where the vocabulary is small, and on the position otherwise. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "inputs.h"

enum { SMALL = 16, LARGE = 4096, LOOKED = 3 /* tokens of a trial */ };

typedef enum draft_law { EQUAL, NEGATIVE, ONE_HOT, DISJOINT, FILTERED, DRAFT_LAWS } draft_law;
static const char *const law_names[DRAFT_LAWS] = {"equal to the target", "the target's negative",
                                                  "one-hot", "disjoint", "of a filtered target"};

/* A model and a draft of it: rows by context. */
typedef struct world {
    uint32_t vocab, n, contexts; /* n drafts */
    int method, kind;
    cls_params p;
    float *z, *q; /* [contexts, vocab] logits; the draft's distributions as the device gets them */
    double *target, *draft; /* [contexts, vocab] cumulative */
    rng r;
    /* calls: */
    device *d;
    uint32_t requests;
    cls_sampler *sampler;
    cls_verify_call call;
    int32_t *cu, *ids, *last; /* last: the requests' texts' latest tokens, -1: none */
    int32_t *tokens, *emitted;
    float *rows, *drafts;
} world;

/* Which rows hold for the k-th token after a text that ends with `last`. */
static uint32_t context(const world *w, uint32_t k, int32_t last)
{
    return w->vocab == SMALL ? (uint32_t)(last + 1) : k;
}

static double probability(const double *cumulative, uint32_t id)
{
    return cumulative[id] - (id ? cumulative[id - 1] : 0.0);
}

static int32_t drawn(const double *cumulative, uint32_t vocab, rng *r)
{
    const double u = rng_unit(r) * cumulative[vocab - 1];
    uint32_t low = 0, high = vocab - 1;
    while (low < high) { /* the first above u */
        const uint32_t middle = (low + high) / 2;
        if (cumulative[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return (int32_t)low;
}

/* ----------------------------------------------------------------------- the laws */

static double law_exp(float z, float scale)
{
    return z == -INFINITY ? 0.0 : exp((double)z * (double)scale);
}

/* e^(scale * z) of the top_k largest (0: of all), normalised and summed up. */
static void make_law(double *cumulative, const float *z, uint32_t vocab, float scale,
                     uint32_t top_k)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < vocab; i++) {
        uint32_t before = 0;
        for (uint32_t j = 0; j < vocab && top_k; j++)
            before += z[j] > z[i] || (z[j] == z[i] && j < i);
        sum += top_k == 0 || before < top_k ? law_exp(z[i], scale) : 0.0;
        cumulative[i] = sum;
    }
    for (uint32_t i = 0; i < vocab; i++)
        cumulative[i] /= sum;
}

static void make_context(world *w, draft_law law, uint32_t c)
{
    const uint32_t vocab = w->vocab, at = (c * 7 + 3) % vocab;
    float *const z = w->z + (size_t)c * vocab, *const q = w->q + (size_t)c * vocab;
    double *const target = w->target + (size_t)c * vocab;
    double *const draft = w->draft + (size_t)c * vocab;
    row_fill(ROW_NORMAL1, z, vocab, rng_bits(&w->r));
    for (uint32_t i = 0; i < vocab; i++) {
        q[i] = law == NEGATIVE ? -z[i] : z[i];
        if (law == ONE_HOT)
            q[i] = i == at ? 0.0f : -INFINITY;
        if (law == DISJOINT && i % 2 == c % 2)
            z[i] = -INFINITY;
        else if (law == DISJOINT)
            q[i] = -INFINITY;
    }
    make_law(target, z, vocab, 1.0f / w->p.temperature, (uint32_t)w->p.top_k);
    make_law(draft, q, vocab, 1.0f, 0);
    for (uint32_t i = 0; i < vocab && w->kind == CLS_DRAFT_PROBS; i++)
        q[i] = (float)probability(draft, i);
}

/* ---------------------------------------------------------------------- the calls */

static cl_mem output_of(device *d, size_t ints)
{
    return buffer_of(d, ints * sizeof(int32_t), NULL);
}

static void world_open(world *w, device *d, draft_law law, uint32_t vocab, uint32_t n, int method)
{
    memset(w, 0, sizeof *w);
    w->d = d;
    w->vocab = vocab;
    w->n = n;
    w->contexts = vocab == SMALL ? SMALL + 1 : n + LOOKED;
    w->requests = vocab == SMALL ? 1024 : 32;
    w->method = method;
    w->kind = (method == CLS_VERIFY_STANDARD) == (n == 3) ? CLS_DRAFT_PROBS : CLS_DRAFT_LOGITS;
    w->kind = law == ONE_HOT && n == 1 ? CLS_DRAFT_NONE : w->kind;
    w->r.state = fixture_seed() + 1000 * (uint64_t)law + 100 * n + 10 * (uint64_t)method + vocab;
    cls_params_init(&w->p);
    w->p.seed = rng_bits(&w->r);
    w->p.temperature = law == FILTERED ? 0.8f : 1.0f;
    w->p.top_k = law != FILTERED ? 0 : vocab == SMALL ? 5 : 400;
    w->z = must_calloc((size_t)w->contexts * vocab, sizeof *w->z);
    w->q = must_calloc((size_t)w->contexts * vocab, sizeof *w->q);
    w->target = must_calloc((size_t)w->contexts * vocab, sizeof *w->target);
    w->draft = must_calloc((size_t)w->contexts * vocab, sizeof *w->draft);
    for (uint32_t c = 0; c < w->contexts; c++)
        make_context(w, law, c);

    const uint32_t rows = w->requests * (n + 1);
    w->cu = must_calloc(w->requests + 1, sizeof *w->cu);
    w->ids = must_calloc(w->requests * n, sizeof *w->ids);
    w->last = must_calloc(w->requests, sizeof *w->last);
    w->tokens = must_calloc(rows, sizeof *w->tokens);
    w->emitted = must_calloc(w->requests, sizeof *w->emitted);
    w->rows = must_calloc((size_t)rows * vocab, sizeof *w->rows);
    w->drafts = must_calloc((size_t)w->requests * n * vocab, sizeof *w->drafts);
    cls_sampler_options o = sampler_options(vocab, w->requests);
    o.max_rows = rows;
    o.counts = CLS_COUNTS_NONE;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &w->sampler));
    for (uint32_t i = 0; i < w->requests; i++) {
        w->p.stream = i;
        must(cls_slot_begin(w->sampler, i, &w->p, NULL, 0, NULL, 0));
        w->cu[i + 1] = (int32_t)((i + 1) * (n + 1));
        w->last[i] = -1;
    }
    cls_verify_call_init(&w->call);
    w->call.requests = w->requests;
    w->call.method = method;
    w->call.row_offsets = w->cu;
    w->call.draft_ids.host = w->ids;
    w->call.draft_kind = w->kind;
    w->call.logits.values.buffer = buffer_of(d, (size_t)rows * vocab * sizeof(float), NULL);
    w->call.draft.buffer =
        w->kind != CLS_DRAFT_NONE ? output_of(d, (size_t)w->requests * n * vocab) : NULL;
    w->call.tokens.buffer = output_of(d, rows);
    w->call.emitted.buffer = output_of(d, w->requests);
}

static void world_close(world *w)
{
    void *const arrays[] = {w->z,    w->q,      w->target,  w->draft, w->cu,    w->ids,
                            w->last, w->tokens, w->emitted, w->rows,  w->drafts};
    cls_sampler_destroy(w->sampler);
    release_buffers(w->call.logits.values.buffer, w->call.tokens.buffer, w->call.emitted.buffer);
    if (w->call.draft.buffer)
        clReleaseMemObject(w->call.draft.buffer);
    for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

static void write_floats(world *w, cl_mem buffer, const float *values, size_t n)
{
    buffer_write(w->d, buffer, 0, n * sizeof *values, values);
}

/* Draws drafts after each text, verifies them. again: the rows are those of the call before. */
static void world_call(world *w, int again)
{
    const size_t size = w->vocab * sizeof(float);
    for (uint32_t i = 0; i < w->requests; i++) {
        int32_t last = w->last[i];
        for (uint32_t k = 0; k <= w->n; k++) {
            const uint32_t c = context(w, k, last);
            if (!again)
                memcpy(w->rows + (size_t)(i * (w->n + 1) + k) * w->vocab,
                       w->z + (size_t)c * w->vocab, size);
            if (k == w->n)
                break;
            if (!again)
                memcpy(w->drafts + (size_t)(i * w->n + k) * w->vocab, w->q + (size_t)c * w->vocab,
                       size);
            last = drawn(w->draft + (size_t)c * w->vocab, w->vocab, &w->r);
            w->ids[i * w->n + k] = last;
        }
    }
    if (!again) {
        write_floats(w, w->call.logits.values.buffer, w->rows,
                     (size_t)w->requests * (w->n + 1) * w->vocab);
        if (w->call.draft.buffer)
            write_floats(w, w->call.draft.buffer, w->drafts, (size_t)w->requests * w->n * w->vocab);
    }
    must(cls_verify(w->sampler, w->d->queue, &w->call, 0, NULL, NULL));
    buffer_read(w->d, w->call.tokens.buffer, w->requests * (w->n + 1) * sizeof(int32_t), w->tokens);
    buffer_read(w->d, w->call.emitted.buffer, w->requests * sizeof(int32_t), w->emitted);
}

/* ---------------------------------------------------------------------- chi-square */

typedef struct verdict {
    double statistic, df;
    int outside; /* tokens that have no probability */
} verdict;

/* Adds what was counted of one distribution; cells that expect fewer than 5 are one. */
static void chi_square(verdict *v, const double *probs, const uint32_t *counts, uint32_t n)
{
    double expected = 0.0, few = 0.0, sum = 0.0, cells = 0.0;
    uint64_t trials = 0, met = 0;
    for (uint32_t i = 0; i < n; i++)
        trials += counts[i];
    for (uint32_t i = 0; i < n; i++) {
        expected = probs[i] * (double)trials;
        v->outside += probs[i] == 0.0 && counts[i] != 0;
        if (expected < 5.0) {
            few += expected;
            met += counts[i];
            continue;
        }
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
        cells += 1.0;
    }
    if (few >= 5.0) {
        sum += ((double)met - few) * ((double)met - few) / few;
        cells += 1.0;
    }
    if (cells > 1.0) {
        v->statistic += sum;
        v->df += cells - 1.0;
    }
}

static int is_law(const verdict *v)
{
    return v->statistic < v->df + 4.0 * sqrt(2.0 * v->df) || v->df == 0.0;
}

/* ------------------------------------------------------------------------- trials */

/* Counts the first tokens of texts: what a call emits, and what is missing drawn
 * from the target. Each trial is a separate draw at one position. */
static void count_trials(world *w, uint32_t trials, uint32_t first_draw, uint32_t *counts)
{
    int32_t *const zeroes = must_calloc(w->requests, sizeof *zeroes);
    int32_t *const draws = must_calloc(w->requests, sizeof *draws);
    w->call.positions.host = zeroes;
    w->call.draws.host = draws;
    for (uint32_t t = 0; t < trials; t += w->requests) {
        for (uint32_t i = 0; i < w->requests; i++)
            draws[i] = (int32_t)(first_draw + t + i);
        world_call(w, t > 0 && w->vocab != SMALL);
        for (uint32_t i = 0; i < w->requests; i++) {
            int32_t last = -1;
            ck_assert(w->emitted[i] >= 1 && w->emitted[i] <= (int32_t)w->n + 1);
            for (uint32_t k = 0; k < LOOKED; k++) {
                const double *const law = w->target + (size_t)context(w, k, last) * w->vocab;
                const int32_t id = (int32_t)k < w->emitted[i] ? w->tokens[i * (w->n + 1) + k]
                                                              : drawn(law, w->vocab, &w->r);
                ck_assert_msg(
                    id >= 0 && (uint32_t)id < w->vocab && probability(law, (uint32_t)id) > 0.0,
                    "%s: token %u is %d, which the target does not have", w->d->name, k, id);
                counts[k * w->vocab + (uint32_t)id]++;
                last = id;
            }
        }
    }
    w->call.positions.host = w->call.draws.host = NULL;
    free(zeroes);
    free(draws);
}

/* The law of each of the first tokens. */
static void laws_of_tokens(const world *w, double *laws)
{
    for (uint32_t id = 0; id < w->vocab; id++)
        laws[id] = probability(w->target + (size_t)context(w, 0, -1) * w->vocab, id);
    for (uint32_t k = 1; k < LOOKED; k++)
        for (uint32_t last = 0; last < (w->vocab == SMALL ? w->vocab : 1); last++) {
            const double *const law = w->target + (size_t)context(w, k, (int32_t)last) * w->vocab;
            const double share = w->vocab == SMALL ? laws[(k - 1) * w->vocab + last] : 1.0;
            for (uint32_t id = 0; id < w->vocab; id++)
                laws[k * w->vocab + id] += share * probability(law, id);
        }
}

/* What is right exceeds the limit once in some hundred times, and twice never. */
static void check_trials(world *w, draft_law law, uint32_t trials)
{
    double *const laws = must_calloc((size_t)LOOKED * w->vocab, sizeof *laws);
    uint32_t *const counts = must_calloc((size_t)LOOKED * w->vocab, sizeof *counts);
    int bad = 0;
    laws_of_tokens(w, laws);
    for (uint32_t try = 0; try == 0 || (bad && try < 2); try++) {
        bad = 0;
        memset(counts, 0, (size_t)LOOKED * w->vocab * sizeof *counts);
        count_trials(w, trials, try * (1u << 23), counts);
        for (uint32_t k = 0; k < LOOKED; k++) {
            verdict v = {0};
            chi_square(&v, laws + k * w->vocab, counts + k * w->vocab, w->vocab);
            if (!is_law(&v))
                printf("%s: %s, drafts %s, %u of them, vocab %u: token %u: chi-square %.1f, %.0f "
                       "degrees of freedom\n",
                       w->d->name, w->method == CLS_VERIFY_BLOCK ? "block" : "standard",
                       law_names[law], w->n, w->vocab, k, v.statistic, v.df);
            bad |= !is_law(&v) || v.outside;
        }
    }
    ck_assert_msg(!bad, "%s: twice in succession beyond the limit", w->d->name);
    free(laws);
    free(counts);
}

static void check_laws(device *d, uint32_t vocab, const uint32_t *trials)
{
    static const uint32_t lengths[] = {1, 3, 8};
    for (int law = 0; law < DRAFT_LAWS; law++)
        for (int method = CLS_VERIFY_STANDARD; method <= CLS_VERIFY_BLOCK; method++)
            for (int i = 0; i < 3; i++) {
                world w;
                world_open(&w, d, (draft_law)law, vocab, lengths[i], method);
                check_trials(&w, (draft_law)law, trials[i]);
                world_close(&w);
            }
}

/* The program's argument, or 0: the number of trials for each number of drafts. */
static uint32_t wanted_trials;

START_TEST(small_vocabulary)
{
    const uint32_t n = wanted_trials != 0 ? wanted_trials : fixture_by_size(2000, 20000, 50000),
                   trials[] = {n, n, n};
    check_laws(fixture_device(_i), SMALL, trials);
}
END_TEST

/* Rows are 256 times as long here, so there are fewer trials unless the argument says otherwise. */
START_TEST(large_vocabulary)
{
    const uint32_t n = fixture_by_size(0, 2000, 8000), few[] = {n, n / 2, n / 4},
                   all[] = {wanted_trials, wanted_trials, wanted_trials};
    if (n > 0 || wanted_trials > 0)
        check_laws(fixture_device(_i), LARGE, wanted_trials != 0 ? all : few);
}
END_TEST

/* -------------------------------------------------------------------------- texts */

/* Four tokens, whatever the context, of which drafts are rejected often enough. */
static void make_four(world *w)
{
    static const float z[] = {0.5f, 0.2f, 0.0f, -0.5f}, q[] = {1.0f, -1.0f, 0.5f, 0.7f};
    for (uint32_t c = 0; c < w->contexts; c++) {
        const size_t at = (size_t)c * w->vocab;
        for (uint32_t i = 0; i < w->vocab; i++) {
            w->z[at + i] = i < 4 ? z[i] : -INFINITY;
            w->q[at + i] = i < 4 ? q[i] : -INFINITY;
        }
        make_law(w->target + at, w->z + at, w->vocab, 1.0f, 0);
        make_law(w->draft + at, w->q + at, w->vocab, 1.0f, 0);
        for (uint32_t i = 0; i < w->vocab && w->kind == CLS_DRAFT_PROBS; i++)
            w->q[at + i] = (float)probability(w->draft + at, i);
    }
}

/* Whether what follows each token has the target's law. */
static int texts_are_right(device *d, uint32_t n, int method, uint32_t calls, uint64_t streams)
{
    uint32_t counts[SMALL + 1][SMALL] = {{0}};
    double laws[SMALL];
    verdict v = {0};
    world w;
    world_open(&w, d, NEGATIVE, SMALL, n, method);
    make_four(&w);
    w.r.state += streams;
    for (uint32_t slot = 0; slot < w.requests; slot++) {
        w.p.stream = streams + slot;
        must(cls_slot_begin(w.sampler, slot, &w.p, NULL, 0, NULL, 0));
    }
    for (uint32_t call = 0; call < calls; call++) {
        world_call(&w, 0);
        for (uint32_t slot = 0; slot < w.requests; slot++)
            for (int32_t k = 0; k < w.emitted[slot]; k++) {
                const int32_t id = w.tokens[slot * (n + 1) + (uint32_t)k];
                ck_assert(id >= 0 && id < SMALL);
                counts[w.last[slot] + 1][id]++;
                w.last[slot] = id;
            }
    }
    for (uint32_t c = 0; c < w.contexts; c++) {
        for (uint32_t id = 0; id < SMALL; id++)
            laws[id] = probability(w.target + (size_t)c * SMALL, id);
        chi_square(&v, laws, counts[c], SMALL);
    }
    printf("%s: texts, %s, %u drafts a call: chi-square %.1f, %.0f degrees of freedom\n", d->name,
           method == CLS_VERIFY_BLOCK ? "block" : "standard", n, v.statistic, v.df);
    world_close(&w);
    return is_law(&v) && !v.outside;
}

/* Texts made by call after call, at their own positions: no call may know what an
 * earlier one has made of a random number. */
START_TEST(texts)
{
    device *const d = fixture_device(_i);
    const uint32_t calls = fixture_by_size(4, 20, 100);
    for (int method = CLS_VERIFY_STANDARD; method <= CLS_VERIFY_BLOCK; method++)
        for (uint32_t n = 2; n <= 3; n++)
            ck_assert(texts_are_right(d, n, method, calls, 0) ||
                      texts_are_right(d, n, method, calls, 1u << 20));
}
END_TEST

/* An argument: how many trials of each, 200,000 take half an hour. */
int main(int argc, char **argv)
{
    fixture_random(CLS_FEATURE_VERIFY);
    if (argc > 1)
        wanted_trials = (uint32_t)strtoul(argv[1], NULL, 0);
    fixture_begin(ON_DEVICES);
    add_device_test(texts);
    add_device_test(small_vocabulary);
    add_device_test(large_vocabulary);
    return fixture_end();
}
