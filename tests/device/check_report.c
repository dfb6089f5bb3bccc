/* SPDX-License-Identifier: MIT */
/* Proves log-probabilities against the reference, bit for bit, and log-probabilities and
 * probabilities against the oracle. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "client.h"

static int near(double ours, double expected)
{
    if (isinf(expected) || fabs(expected) > 1e38)
        return ours == expected || (isinf(ours) && ours < 0) || fabs(ours / expected - 1.0) < 1e-5;
    return fabs(ours - expected) <= 1e-5 * (1.0 + fabs(expected));
}

static void check_logprobs(const batch *b, const float *logprobs, int final, const char *where)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const float host = final ? b->host[row].logprob_final : b->host[row].logprob_raw;
        ck_assert_msg(memcmp(&host, &logprobs[row], sizeof host) == 0,
                      "%s: %s: %s logprob %.9g, the reference's %.9g", where, batch_words(b, row),
                      final ? "final" : "raw", (double)logprobs[row], (double)host);
        if (b->token[row] < 0)
            ck_assert_msg(isinf(host) && host < 0, "%s: %s: a logprob without a token", where,
                          batch_words(b, row));
        else if (!final)
            ck_assert_msg(near((double)host, oracle_logprob_raw(b->values + (size_t)row * b->vocab,
                                                                b->vocab, b->token[row])),
                          "%s: %s: raw logprob %.9g", where, batch_words(b, row), (double)host);
    }
}

static void check_probs(const batch *b, const float *probs, const float *logprobs,
                        const char *where)
{
    double *const expected = must_malloc(b->vocab * sizeof *expected);
    for (uint32_t row = 0; row < b->rows; row++) {
        const float *const p = probs + (size_t)row * b->vocab;
        const cls_host_row h = batch_host_row(b, row);
        oracle o;
        double slack = 0.0;
        ck_assert(oracle_make(&o, &h));
        ck_assert_msg(oracle_follow(&o, &h), "%s: %s", batch_words(b, row), o.fault);
        if (o.finite == 0)
            memset(expected, 0, b->vocab * sizeof *expected);
        else
            slack = oracle_probs(&o, expected);
        for (uint32_t i = 0; i < b->vocab && !o.undecided; i++)
            ck_assert_msg(fabs((double)p[i] - expected[i]) <= 1e-5 + slack &&
                              (expected[i] > 0.0 || p[i] == 0.0f),
                          "%s: %s: probability of %u is %g, not %g", where, batch_words(b, row), i,
                          (double)p[i], expected[i]);
        if (b->token[row] >= 0 && !o.undecided) {
            const double final = o.kept == 1 ? 0.0 : log(expected[b->token[row]]),
                         off = o.scale_error * fabs(final);
            ck_assert_msg(near((double)logprobs[row], final) ||
                              fabs((double)logprobs[row] - final) <= slack + off,
                          "%s: %s: final logprob %.9g, not %.9g", where, batch_words(b, row),
                          (double)logprobs[row], final);
        }
        oracle_free(&o);
    }
    free(expected);
}

/* With a logprob alone, with probs alone, with both, before and after plain steps. */
START_TEST(report)
{
    static const uint32_t sizes[] = {1025, 31, 4099, 2, 1024, 1, 32001};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(2, 18, 42); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(2, 6, 7)],
                       rows = fixture_by_size(4, 12, 16);
        batch *const b = batch_new(rows, vocab, (int)rng_below(&r, 3), vocab + rng_below(&r, 5), 0);
        float *const logprobs = must_calloc(rows, sizeof *logprobs);
        float *const finals = must_calloc(rows, sizeof *finals);
        float *const probs = must_calloc((size_t)rows * vocab, sizeof *probs);
        client s;
        batch_random(b, &r);
        if (i % 3 == 1)
            batch_mask(b, &r, 50, 0);
        batch_reference(b);
        client_open(&s, b, d, fixture_context(d, 0, 0, 0, 0), 1);
        s.step.defer_accept = 1;
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        const uint32_t launches = b->launches;
        cl_mem logprob_buffer = buffer_of(d, (rows + 3) * sizeof(float), NULL);
        s.outputs.logprobs.buffer = logprob_buffer;
        s.outputs.logprobs.offset = 3 * sizeof(float);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        ck_assert_msg(b->launches == launches + 2, "raw logprobs take %u launches more",
                      b->launches - launches);
        buffer_read_at(d, logprob_buffer, 12, rows * sizeof(float), logprobs);
        client_tokens(&s, 0);
        check_logprobs(b, logprobs, 0, d->name);
        s.outputs.logprob_kind = CLS_LOGPROB_FINAL;
        s.outputs.probs.buffer = buffer_of(d, (size_t)rows * vocab * sizeof(float), NULL);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        ck_assert_msg(b->launches == launches + 2, "final logprobs and probs take %u launches more",
                      b->launches - launches);
        buffer_read_at(d, logprob_buffer, 12, rows * sizeof(float), finals);
        buffer_read(d, s.outputs.probs.buffer, (size_t)rows * vocab * sizeof(float), probs);
        client_tokens(&s, 0);
        check_logprobs(b, finals, 1, d->name);
        check_probs(b, probs, finals, d->name);
        clReleaseMemObject(logprob_buffer);
        clReleaseMemObject(s.outputs.probs.buffer);
        client_close(&s);
        batch_free(b);
        free(logprobs);
        free(finals);
        free(probs);
    }
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS);
    fixture_begin(ON_DEVICES);
    add_device_test(report);
    return fixture_end();
}
