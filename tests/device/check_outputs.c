/* SPDX-License-Identifier: MIT */
/* Proves a step's outputs beyond its tokens against brute force in double precision, and
 * log-probabilities against the reference, bit for bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brute.h"
#include "client.h"

enum { EXTRA = 3 }; /* elements before each output in its buffer */

/* A step's outputs, on the device and back. */
typedef struct outputs {
    uint32_t rows, vocab, top_n, given_n, candidates_n;
    float *logprobs, *top_logprobs, *given_logprobs, *entropy, *kept_mass, *candidate_logits,
        *candidate_probs, *probs, *final_logits;
    int32_t *ranks, *top_ids, *given_ids, *given_ranks, *kept, *candidate_ids;
} outputs;

enum { OUTPUTS = 15 };

/* Each output's field in the step, its copy on the host, and its elements per row. */
typedef struct output {
    cls_buffer *buffer;
    void **data;
    uint32_t width;
} output;

static void list_outputs(outputs *o, cls_outputs *s, output list[OUTPUTS])
{
    const output table[OUTPUTS] = {
        {&s->logprobs, (void **)&o->logprobs, 1},
        {&s->ranks, (void **)&o->ranks, 1},
        {&s->top.ids, (void **)&o->top_ids, o->top_n},
        {&s->top.logprobs, (void **)&o->top_logprobs, o->top_n},
        {&s->given.ids, (void **)&o->given_ids, o->given_n},
        {&s->given.logprobs, (void **)&o->given_logprobs, o->given_n},
        {&s->given.ranks, (void **)&o->given_ranks, o->given_n},
        {&s->entropy, (void **)&o->entropy, 1},
        {&s->kept.counts, (void **)&o->kept, 1},
        {&s->kept_mass, (void **)&o->kept_mass, 1},
        {&s->kept.ids, (void **)&o->candidate_ids, o->candidates_n},
        {&s->kept.logits, (void **)&o->candidate_logits, o->candidates_n},
        {&s->kept.probs, (void **)&o->candidate_probs, o->candidates_n},
        {&s->probs, (void **)&o->probs, o->vocab},
        {&s->final_logits, (void **)&o->final_logits, o->vocab},
    };
    memcpy(list, table, sizeof table);
}

static void open_outputs(outputs *o, client *s, rng *r)
{
    output list[OUTPUTS];
    list_outputs(o, &s->outputs, list);
    for (int i = 0; i < OUTPUTS; i++) {
        const size_t n = EXTRA + (size_t)o->rows * list[i].width;
        int32_t *const data = *list[i].data = calloc(n, 4);
        ck_assert(data != NULL);
        if (list[i].data == (void **)&o->given_ids)
            for (size_t j = EXTRA; j < n; j++)
                data[j] = rng_below(r, 8) ? (int32_t)rng_below(r, o->vocab)
                                          : (int32_t)rng_below(r, o->vocab + 3) - 1;
        list[i].buffer->buffer = buffer_of(s->d, n * 4, data);
        list[i].buffer->offset = EXTRA * 4;
    }
    s->outputs.top.count = o->top_n;
    s->outputs.given.count = o->given_n;
    s->outputs.kept.count = o->candidates_n;
}

/* Reads all outputs, without the elements before them. */
static void read_outputs(outputs *o, client *s)
{
    output list[OUTPUTS];
    list_outputs(o, &s->outputs, list);
    for (int i = 0; i < OUTPUTS; i++)
        buffer_read_at(s->d, list[i].buffer->buffer, EXTRA * 4, (size_t)o->rows * list[i].width * 4,
                       *list[i].data);
}

static void close_outputs(outputs *o, client *s)
{
    output list[OUTPUTS];
    list_outputs(o, &s->outputs, list);
    for (int i = 0; i < OUTPUTS; i++) {
        clReleaseMemObject(list[i].buffer->buffer);
        memset(list[i].buffer, 0, sizeof *list[i].buffer);
        free(*list[i].data);
    }
}

/* Adaptive p's probabilities are the reference's; all others are a softmax. */
static int adapts(const cls_params *p)
{
    return p->adaptive_target >= 0.0f && p->mirostat == 0 && p->temperature >= 1e-5f;
}

/* Compares the kept set that the step reports with the adjusted row and with the reference's
 * probabilities and count. */
static void check_set(const batch *b, uint32_t row, const float *set, const float *reference,
                      const char *where)
{
    const float *const adjusted = b->adjusted + (size_t)row * b->vocab;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->vocab; i++) {
        const int in = set[i] > -INFINITY;
        kept += (uint32_t)in;
        ck_assert_msg(!in || set[i] == adjusted[i], "%s: final logit of %u is %g, not %g", where, i,
                      (double)set[i], (double)adjusted[i]);
        ck_assert_msg(in || reference[i] == 0.0f, "%s: %u of probability %g is not in the set",
                      where, i, (double)reference[i]);
    }
    ck_assert_msg(kept == b->host[row].kept_count, "%s: the set has %u, not %u", where, kept,
                  b->host[row].kept_count);
}

static void check_final(const batch *b, uint32_t row, const outputs *o, const float *reference,
                        const char *where)
{
    const float *const adjusted = b->adjusted + (size_t)row * b->vocab;
    const float *const set = o->final_logits + (size_t)row * b->vocab;
    const float *const probs = o->probs + (size_t)row * b->vocab;
    const uint32_t n = o->candidates_n;
    const int32_t *const ids = o->candidate_ids + (size_t)row * n;
    const int greedy = b->params[row].temperature < 1e-5f, none = b->token[row] < 0;
    const double scale = greedy ? 1.0 : (double)b->device_trace[row].scale / 1.4426950408889634;
    brute of, all;
    check_set(b, row, set, reference, where);
    brute_make(&of, set, b->vocab, scale, adapts(&b->params[row]) ? reference : NULL);
    brute_make(&all, adjusted, b->vocab, scale, NULL);
    /* Of an empty set a forced id may be the token. */
    double share = !none && greedy && of.n != 0 ? 1.0 : 0.0;
    for (uint32_t i = 0; i < b->vocab; i++) {
        const double expected = exp(of.logprob[i]);
        share += !greedy && set[i] > -INFINITY ? exp(all.logprob[i]) : 0.0;
        ck_assert_msg(fabs((double)probs[i] - expected) <= 1e-5,
                      "%s: probability of %u is %g, not %g", where, i, (double)probs[i], expected);
        ck_assert_msg(set[i] > -INFINITY || probs[i] == 0.0f,
                      "%s: %u has a probability and is not kept", where, i);
    }
    ck_assert_msg(fabs((double)o->entropy[row] - of.entropy) <= 1e-4, "%s: entropy %g, not %g",
                  where, (double)o->entropy[row], of.entropy);
    ck_assert_msg(o->kept[row] == (int32_t)of.n, "%s: kept %d, not %u", where, o->kept[row], of.n);
    ck_assert_msg(fabs((double)o->kept_mass[row] - share) <= 1e-5, "%s: kept mass %g, not %g",
                  where, (double)o->kept_mass[row], share);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = i < of.n ? (int32_t)of.order[i] : -1;
        const size_t at = (size_t)row * n + i;
        ck_assert_msg(ids[i] == id, "%s: candidate %u is %d, not %d", where, i, ids[i], id);
        ck_assert_msg(o->candidate_logits[at] == (id < 0 ? -INFINITY : set[id]),
                      "%s: candidate %u: logit %g", where, i, (double)o->candidate_logits[at]);
        ck_assert_msg(o->candidate_probs[at] == (id < 0 ? 0.0f : probs[id]),
                      "%s: candidate %u: probability %g", where, i, (double)o->candidate_probs[at]);
    }
    brute_free(&of);
    brute_free(&all);
}

static void check_row(const batch *b, uint32_t row, const outputs *o, int final,
                      const float *reference, const char *where)
{
    float *const logits = must_malloc(b->vocab * sizeof *logits);
    const int none = b->token[row] < 0, greedy = b->params[row].temperature < 1e-5f;
    const double scale = greedy ? 1.0 : (double)b->device_trace[row].scale / 1.4426950408889634;
    brute of;
    for (uint32_t i = 0; i < b->vocab; i++)
        logits[i] = none    ? -INFINITY
                    : final ? o->final_logits[(size_t)row * b->vocab + i]
                            : b->values[(size_t)row * b->vocab + i];
    brute_make(&of, logits, b->vocab, final ? scale : 1.0,
               final && adapts(&b->params[row]) ? reference : NULL);
    for (uint32_t i = 0; i < b->vocab && final; i++) /* tokens without weight, also forced ones */
        of.logprob[i] = reference[i] == 0.0f ? -INFINITY : of.logprob[i];
    brute_given(&of, &b->token[row], &o->logprobs[row], &o->ranks[row], 1, where);
    brute_top(&of, o->top_ids + (size_t)row * o->top_n, o->top_logprobs + (size_t)row * o->top_n,
              o->top_n, where);
    brute_given(&of, o->given_ids + row * o->given_n, o->given_logprobs + row * o->given_n,
                o->given_ranks + row * o->given_n, o->given_n, where);
    brute_free(&of);
    free(logits);
    check_final(b, row, o, reference, where);
}

/* Log-probabilities of tokens are the reference's, bit for bit. */
static void check_logprobs(const batch *b, const float *logprobs, int final, const char *where)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const float host = final ? b->host[row].logprob_final : b->host[row].logprob_raw;
        ck_assert_msg(memcmp(&host, &logprobs[row], sizeof host) == 0,
                      "%s: %s: %s logprob %.9g, the reference's %.9g", where, batch_words(b, row),
                      final ? "final" : "raw", (double)logprobs[row], (double)host);
        ck_assert_msg(b->token[row] >= 0 || (isinf(host) && host < 0),
                      "%s: %s: a logprob without a token", where, batch_words(b, row));
    }
}

/* A batch's step without outputs and with all outputs of either kind gives the same tokens, and all
 * outputs are right. */
static void check_outputs(batch *b, device *d, cls_context *context, uint32_t top_n,
                          uint32_t given_n, uint32_t candidates_n, int search, rng *r)
{
    const size_t size = b->rows * sizeof *b->token;
    float *const reference = must_calloc((size_t)b->rows * b->vocab, sizeof *reference);
    int32_t *const token = must_malloc(size), *const status = must_malloc(size);
    outputs o = {.rows = b->rows,
                 .vocab = b->vocab,
                 .top_n = top_n,
                 .given_n = given_n,
                 .candidates_n = candidates_n};
    client s;
    for (uint32_t row = 0; row < b->rows; row++)
        b->host[row].probs = reference + (size_t)row * b->vocab;
    batch_reference(b);
    client_open(&s, b, d, context, 1);
    cls_sampler_force_search(s.sampler, search);
    s.step.defer_accept = 1;
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_tokens(&s, 0);
    memcpy(token, b->token, size);
    memcpy(status, b->status, size);
    const uint32_t launches = b->launches;
    for (int final = 0; final < 2; final++) {
        open_outputs(&o, &s, r);
        s.outputs.logprob_kind = final ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        ck_assert_uint_eq(b->launches, launches + (final ? 2 : 4));
        client_tokens(&s, 0);
        must(cls_sampler_trace(s.sampler, d->queue, b->device_trace, b->rows));
        ck_assert_msg(memcmp(token, b->token, size) == 0, "%s: outputs change the tokens", d->name);
        ck_assert_msg(memcmp(status, b->status, size) == 0, "%s: outputs change the statuses",
                      d->name);
        read_outputs(&o, &s);
        check_logprobs(b, o.logprobs, final, d->name);
        for (uint32_t row = 0; row < b->rows; row++) {
            char where[1024];
            snprintf(where, sizeof where, "%s, %s, top %u%s: %s", d->name, final ? "final" : "raw",
                     top_n, search ? ", search" : "", batch_words(b, row));
            check_row(b, row, &o, final, reference + (size_t)row * b->vocab, where);
        }
        close_outputs(&o, &s);
    }
    client_close(&s);
    for (uint32_t row = 0; row < b->rows; row++)
        b->host[row].probs = NULL;
    free(reference);
    free(token);
    free(status);
}

/* Every kind of row, greedy, empty, penalised ones among them; masks; lists longer than the set. */
START_TEST(told)
{
    static const uint32_t sizes[] = {2500, 31, 1, 1025, 33000}, tops[] = {5, 128, 1, 20},
                          given[] = {5, 1, 100};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(5, 15, 60); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(4, 4, 5)];
        batch *const b =
            batch_new(fixture_by_size(6, 12, 16), vocab, (int)(i % 3), vocab + rng_below(&r, 5), 0);
        batch_random(b, &r);
        if (i % 3 == 1)
            batch_mask(b, &r, 50, 0);
        b->forces = i % 2 == 0;
        if (i % 3 != 0)
            batch_requests(b, &r);
        if (i % 4 == 2)
            batch_bias(b, &r, CLS_F32);
        check_outputs(b, d, fixture_context(d, 0, 0, 0, 0), tops[i % 4], given[i % 3],
                      i % 2 ? 300 : 3, i % 5 == 4, &r);
        batch_free(b);
    }
}
END_TEST

/* A log-probability alone, and with probabilities alone, take two launches more. */
START_TEST(few_outputs)
{
    static const uint32_t sizes[] = {1025, 31, 4099, 2, 1024, 1, 32001};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(2, 18, 42); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(2, 6, 7)],
                       rows = fixture_by_size(4, 12, 16);
        batch *const b = batch_new(rows, vocab, (int)rng_below(&r, 3), vocab + rng_below(&r, 5), 0);
        const size_t n = (size_t)rows * vocab;
        float *const logprobs = must_calloc(rows, sizeof *logprobs);
        float *const probs = must_calloc(n, sizeof *probs);
        float *const expected = must_calloc(n, sizeof *expected);
        client s;
        batch_random(b, &r);
        if (i % 3 == 1)
            batch_mask(b, &r, 50, 0);
        for (uint32_t row = 0; row < rows; row++)
            b->host[row].probs = expected + (size_t)row * vocab;
        batch_reference(b);
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
        s.step.defer_accept = 1;
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        const uint32_t launches = b->launches;
        s.outputs.logprobs.buffer = buffer_of(d, (rows + 3) * sizeof *logprobs, NULL);
        s.outputs.logprobs.offset = 3 * sizeof *logprobs;
        for (int final = 0; final < 2; final++) {
            s.outputs.logprob_kind = final ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
            s.outputs.probs.buffer = final ? buffer_of(d, n * sizeof *probs, NULL) : NULL;
            client_step(&s, d->queue, 0, 0, NULL, NULL);
            ck_assert_msg(b->launches == launches + 2, "%s outputs take %u launches more",
                          final ? "final" : "raw", b->launches - launches);
            client_tokens(&s, 0);
            buffer_read_at(d, s.outputs.logprobs.buffer, 3 * sizeof *logprobs,
                           rows * sizeof *logprobs, logprobs);
            check_logprobs(b, logprobs, final, d->name);
        }
        buffer_read(d, s.outputs.probs.buffer, n * sizeof *probs, probs);
        for (size_t k = 0; k < n; k++)
            ck_assert_msg((b->status[k / vocab] & CLS_ROW_UNFIT) ||
                              (fabsf(probs[k] - expected[k]) <= 1e-5f &&
                               (expected[k] > 0.0f || probs[k] == 0.0f)),
                          "%s: %s: probability of %zu is %g, not %g", d->name,
                          batch_words(b, (uint32_t)(k / vocab)), k % vocab, (double)probs[k],
                          (double)expected[k]);
        release_buffers(s.outputs.logprobs.buffer, s.outputs.probs.buffer);
        client_close(&s);
        for (uint32_t row = 0; row < rows; row++)
            b->host[row].probs = NULL;
        batch_free(b);
        free(logprobs);
        free(probs);
        free(expected);
    }
}
END_TEST

/* Many given ids, some of them twice, masked or none: counted in one read or by fours, in several
 * groups; among far values that leave all others in one bucket of a table, among ties, and in lists
 * of the least length. */
START_TEST(many_given)
{
    static const uint32_t numbers[] = {1024, 9, 513, 130};
    static const float far[] = {-1e30f, 3e38f, INFINITY, -3e38f,    NAN,       1e-40f,
                                -0.0f,  0.0f,  -1e-40f,  0x1p-126f, -0x1p-126f};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(4, 12, 36); i++) {
        const uint32_t vocab = i % 4 == 3 ? 300 : fixture_by_size(2500, 4099, 20000),
                       n_far = i % 3 * 10;
        batch *const b = batch_new(4, vocab, CLS_F32, vocab + rng_below(&r, 5), 0);
        batch_random(b, &r);
        for (uint32_t row = 0; row < b->rows; row++) {
            float *const values = b->values + (size_t)row * vocab;
            if (row % 2 == 0) {
                batch_row(b, row, ROW_NORMAL1, rng_bits(&r));
                b->params[row].top_k = row == 0 ? 0 : (int32_t)rng_below(&r, vocab);
            }
            for (uint32_t j = 0; j < n_far; j++)
                values[rng_below(&r, vocab)] = far[rng_below(&r, sizeof far / sizeof *far)];
            for (uint32_t j = 0; j < vocab && row % 4 == 2 && i % 2; j++) /* as bfloat16 has them */
                values[j] = floorf(values[j] * 32.0f) / 32.0f;
            memcpy(b->data + b->offset + (size_t)row * b->stride * 4, values,
                   vocab * sizeof *values);
        }
        if (i % 3 == 1)
            batch_mask(b, &r, 50, 0);
        b->forces = i % 8 == 2;
        if (i % 4 == 2)
            batch_requests(b, &r);
        const uint32_t shortlist = i % 4 == 1 ? 16 : 0, top_n = shortlist ? 16 : 128;
        check_outputs(b, d, fixture_context(d, 1u << CLS_F32, 0, 0, shortlist), top_n,
                      numbers[i % 4], top_n, 0, &r);
        batch_free(b);
    }
}
END_TEST

/* Tokens that weigh nothing, beside those that weigh just a unit: in the head's tile, whose unit is
 * 2^-30 of it or, where log2(e) times its logit lies just above an integer, 2^-29.03; in other
 * tiles below 2^-43. Of the final distribution their log-probability is -inf where the probability
 * is 0, and nowhere else; the raw one is finite. */
START_TEST(weightless)
{
    enum { VOCAB = 3000, TOLD = 14 };
    static const int32_t ids[TOLD] = {0, 1, 2, 3, 4, 5, 6, 7, 1024, 1025, 1026, 2048, 2049, 2999};
    static const float logits[TOLD] = {0.0f,   -20.0f, -20.11f, -20.14f, -20.78f, -20.81f, -21.0f,
                                       -88.0f, -25.0f, -29.0f,  -30.0f,  -31.0f,  -45.0f,  -100.0f};
    device *const d = fixture_device(_i);
    for (int with = 0; with < 4; with++) {
        const int cut = with % 2;
        const float head = with < 2 ? 0.0f : 0.0208f;
        batch *const b = batch_new(1, VOCAB, CLS_F32, 0, 0);
        float probs[VOCAB], final[TOLD], raw[TOLD];
        uint32_t finite = 0;
        client s;
        batch_row(b, 0, ROW_NORMAL1, 1);
        for (uint32_t i = 0; i < VOCAB; i++)
            b->values[i] = -INFINITY;
        for (uint32_t i = 0; i < TOLD; i++)
            b->values[ids[i]] = logits[i] + head;
        memcpy(b->data, b->values, sizeof probs);
        b->params[0].top_k = cut ? TOLD : 0;
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
        s.step.defer_accept = 1;
        s.outputs.given.count = TOLD;
        s.outputs.given.ids.buffer = buffer_of(d, sizeof ids, ids);
        s.outputs.given.logprobs.buffer = buffer_of(d, sizeof raw, NULL);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        buffer_read(d, s.outputs.given.logprobs.buffer, sizeof raw, raw);
        s.outputs.logprob_kind = CLS_LOGPROB_FINAL;
        s.outputs.probs.buffer = buffer_of(d, sizeof probs, NULL);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        buffer_read(d, s.outputs.given.logprobs.buffer, sizeof final, final);
        buffer_read(d, s.outputs.probs.buffer, sizeof probs, probs);
        for (uint32_t i = 0; i < TOLD; i++) {
            const int none = probs[ids[i]] == 0.0f;
            ck_assert_msg((final[i] == -INFINITY) == none,
                          "%s: cut %d, token %d at %g has probability %g and log-probability %g",
                          d->name, cut, (int)ids[i], (double)logits[i], (double)probs[ids[i]],
                          (double) final[i]);
            ck_assert_msg(fabs((double)(raw[i] - logits[i])) < 1e-4,
                          "%s: raw log-probability %g, not %g", d->name, (double)raw[i],
                          (double)logits[i]);
            finite += (uint32_t)!none;
        }
        ck_assert_uint_eq(finite, with < 2 ? 7 : 5); /* 0 to -20.78 or -20.11, -25, -29 */
        release_buffers(s.outputs.given.ids.buffer, s.outputs.given.logprobs.buffer,
                        s.outputs.probs.buffer);
        client_close(&s);
        batch_free(b);
    }
}
END_TEST

/* Sets that are not contiguous in the order of tokens. */
START_TEST(infills)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(1, 4, 12); i++) {
        const uint32_t vocab = i % 2 ? 900 : 40;
        batch *const b = batch_new(12, vocab, CLS_F32, 0, 0);
        for (uint32_t row = 0; row < b->rows; row++) {
            batch_row(b, row, (row_kind)rng_below(&r, ROW_KINDS), rng_bits(&r));
            b->params[row].temperature = row ? 1.5f : 0.0f;
            b->params[row].top_k = 1 + (int32_t)rng_below(&r, 100);
            b->params[row].adaptive_target = row % 4 == 3 ? 0.3f : -1.0f;
            params_infill(&b->params[row], vocab, &r);
        }
        check_outputs(b, d, fixture_context(d, 0, 0, 0, 0), 20, 1024, 100, 0, &r);
        batch_free(b);
    }
}
END_TEST

/* More ties than a list holds, at the end and in the middle of the requested tokens. */
START_TEST(ties)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    batch *const b = batch_new(6, fixture_by_size(1500, 4000, 9000), CLS_F32, 0, 0);
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, row % 2 ? ROW_EQUAL : ROW_TIES, row);
        b->params[row].top_k = row < 2 ? 0 : row < 4 ? 1300 : 40;
        b->params[row].temperature = row == 3 ? 0.0f : 0.7f;
    }
    check_outputs(b, d, fixture_context(d, 0, 0, 0, 0), 128, 5, 1000, 0, &r);
    batch_free(b);
}
END_TEST

/* The token is accepted in the same step; the outputs describe the row before its token. */
START_TEST(before_accepting)
{
    device *const d = fixture_device(_i);
    batch *const b = batch_new(4, 900, CLS_F32, 0, 0);
    float entropy[2][4], logprobs[2][4];
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, ROW_NORMAL1, row);
        b->params[row].presence_penalty = 9.0f;
        b->params[row].top_k = row % 2 ? 30 : 0;
    }
    for (int defer = 0; defer < 2; defer++) {
        client s;
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 2);
        s.step.defer_accept = defer;
        s.outputs.logprob_kind = CLS_LOGPROB_FINAL;
        s.outputs.entropy.buffer = buffer_of(d, sizeof *entropy, NULL);
        s.outputs.logprobs.buffer = buffer_of(d, sizeof *logprobs, NULL);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        buffer_read(d, s.outputs.entropy.buffer, sizeof *entropy, entropy[defer]);
        buffer_read(d, s.outputs.logprobs.buffer, sizeof *logprobs, logprobs[defer]);
        release_buffers(s.outputs.entropy.buffer, s.outputs.logprobs.buffer);
        client_close(&s);
    }
    ck_assert_mem_eq(entropy[0], entropy[1], sizeof entropy[0]);
    ck_assert_mem_eq(logprobs[0], logprobs[1], sizeof logprobs[0]);
    batch_free(b);
}
END_TEST

#define REFUSED(sentence) \
    must_refuse_exactly(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), sentence)

START_TEST(numbers_and_buffers)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 2);
    char words[200];
    const cl_mem buffer = buffer_of(d, 4096, NULL);
    const cls_device_info info = context_info(fixture_context(d, 1u << CLS_F32, 0, 0, 0));
    s.step.outputs = &s.outputs;
    s.outputs.top.count = 5;
    REFUSED("outputs->top.count is 5, but no buffer for it is set (such as outputs->top.ids)");
    s.outputs.top.ids.buffer = buffer;
    s.outputs.top.count = 0;
    REFUSED("outputs->top.ids is set, but outputs->top.count is 0");
    s.outputs.top.count = 129;
    REFUSED("outputs->top.count is 129; it must be at most 128");
    s.outputs.top.count = 128;
    s.outputs.top.ids.offset = 4096 - 2 * 128 * 4 + 4;
    REFUSED("outputs->top.ids needs 1024 bytes from offset 3076 on, 4100 in all, and the "
            "buffer has 4096");
    s.outputs.top.ids.offset = 2;
    REFUSED("outputs->top.ids: offset 2 is no multiple of the element's 4 bytes");
    s.outputs.top.ids = (cls_buffer){.buffer = NULL};
    s.outputs.top.count = 0;
    s.outputs.given.logprobs.buffer = buffer;
    REFUSED("outputs->given.logprobs is set, but outputs->given.count is 0");
    s.outputs.given.count = 2;
    REFUSED("outputs->given.count is 2, but outputs->given.ids.buffer is NULL");
    s.outputs.given.ids.buffer = buffer;
    s.outputs.given.logprobs.buffer = NULL;
    REFUSED(
        "outputs->given.count is 2, but no buffer for it is set (such as outputs->given.logprobs)");
    s.outputs.given.count = 1025;
    REFUSED("outputs->given.count is 1025; it must be at most 1024");
    s.outputs.given.ids.buffer = NULL;
    s.outputs.given.count = 0;
    s.outputs.kept.counts.buffer = buffer; /* which needs no count */
    s.outputs.kept.ids.buffer = buffer;
    REFUSED("outputs->kept.ids is set, but outputs->kept.count is 0");
    s.outputs.kept.count = info.shortlist + 1;
    snprintf(words, sizeof words,
             "outputs->kept.count is %u, but the kernels' lists hold %u: see the context's "
             "options->shortlist",
             info.shortlist + 1, info.shortlist);
    REFUSED(words);
    clReleaseMemObject(buffer);
    close_small(&s);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS | CLS_FEATURE_FORCED);
    fixture_begin(ON_DEVICES);
    add_device_test(told);
    add_device_test(few_outputs);
    add_device_test(many_given);
    add_device_test(weightless);
    add_device_test(infills);
    add_device_test(ties);
    add_device_test(before_accepting);
    add_device_test(numbers_and_buffers);
    return fixture_end();
}
