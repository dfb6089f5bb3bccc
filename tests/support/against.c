/* SPDX-License-Identifier: MIT */
/* Compares the reference's results for a row of a batch with the oracle. */
#include <math.h>
#include <stdlib.h>

#include "batch.h"

static int close_to(double a, double b, double tolerance)
{
    if (isinf(b) || fabs(b) > 1e38) /* beyond float32 */
        return a == b || (isinf(a) && a < 0) || fabs(a / b - 1.0) < 1e-5;
    return fabs(a - b) <= tolerance;
}

/* Compares the row's results with the oracle's, after oracle_follow(). */
static void compare(const batch *b, uint32_t row, const oracle *o, const one_row *h,
                    const float *probs, double *expected)
{
    const float *const values = b->values + (size_t)row * b->vocab;
    const one_result *const result = &b->host[row];
    const int nothing = o->finite == 0 || o->empty_status,
              status = o->status | (nothing ? o->empty_status : oracle_stops(h, result->token));
    ck_assert_msg(result->status == status, "%s: status %d, not %d", batch_words(b, row),
                  result->status, status);
    ck_assert_msg(result->kept_count == o->kept, "%s: %u kept, not %u", batch_words(b, row),
                  result->kept_count, o->kept);
    if (nothing) {
        ck_assert_msg(result->token == -1, "%s: token %d", batch_words(b, row), result->token);
        ck_assert(isinf(result->logprob_raw) && isinf(result->logprob_final));
        for (uint32_t i = 0; i < b->vocab; i++)
            ck_assert(probs[i] == 0.0f);
        return;
    }
    double variation = 0.0;
    const double slack = oracle_probs(o, expected);
    for (uint32_t i = 0; i < b->vocab; i++) {
        variation += fabs((double)probs[i] - expected[i]) / 2;
        ck_assert_msg(probs[i] == 0.0f || expected[i] > 0.0,
                      "%s: token %u is cut, and has a probability", batch_words(b, row), i);
    }
    ck_assert_msg(variation <= slack, "%s: total variation %g, slack %g", batch_words(b, row),
                  variation, slack);
    const double p = expected[result->token], final = log(p);
    ck_assert_msg(p > 0.0, "%s: token %d is not in the set", batch_words(b, row), result->token);
    ck_assert_msg(close_to((double)result->logprob_final, final,
                           1e-5 * (1 + fabs(final)) + slack + o->scale_error * fabs(final)),
                  "%s: final logprob %.9g, not %.9g", batch_words(b, row),
                  (double)result->logprob_final, final);
    const double raw = oracle_logprob_raw(values, b->vocab, result->token);
    ck_assert_msg(close_to((double)result->logprob_raw, raw, 1e-5 * (1 + fabs(raw))),
                  "%s: raw logprob %.9g, not %.9g", batch_words(b, row),
                  (double)result->logprob_raw, raw);
    const char *const fault = oracle_adaptive_fault(o, result->token, &result->adaptive);
    ck_assert_msg(fault == NULL, "%s: %s", batch_words(b, row), fault);
}

int batch_against_oracle(batch *b, uint32_t row)
{
    float *const probs = must_malloc(b->vocab * sizeof *probs);
    double *const expected = must_malloc(b->vocab * sizeof *expected);
    oracle o;
    one_result *const result = &b->host[row];
    const one_row h = batch_host_row(b, row);
    result->probs = probs;
    must(one_sample(&h, result));
    result->probs = NULL;
    ck_assert_msg(oracle_make(&o, &h), "%s: %s", batch_words(b, row), o.fault);
    ck_assert_msg(oracle_follow(&o, &h), "%s: %s", batch_words(b, row), o.fault);
    if (!o.undecided)
        compare(b, row, &o, &h, probs, expected);
    free(probs);
    free(expected);
    oracle_free(&o);
    return !o.undecided;
}
