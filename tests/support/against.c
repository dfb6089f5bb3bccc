/* SPDX-License-Identifier: MIT */
/* Compares the reference's results for a row with the oracle. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "rows/kinds.h"

static char fault[400];

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
require(int right, const char *format, ...)
{
    va_list values;
    if (right || *fault != '\0')
        return;
    va_start(values, format);
    vsnprintf(fault, sizeof fault, format, values);
    va_end(values);
}

static int close_to(double a, double b, double tolerance)
{
    if (isinf(b) || fabs(b) > 1e38) /* beyond float32 */
        return a == b || (isinf(a) && a < 0) || fabs(a / b - 1.0) < 1e-5;
    return fabs(a - b) <= tolerance;
}

static double raw_logprob(const one_row *row, int32_t token)
{
    float *const values = calloc(row->vocab, sizeof *values);
    if (values == NULL)
        abort();
    for (uint32_t i = 0; i < row->vocab; i++)
        values[i] = oracle_logit(row, i);
    const double raw = oracle_logprob_raw(values, row->vocab, token);
    free(values);
    return raw;
}

/* Compares a row's token, of which the set and the probabilities are right. */
static void compare_token(const oracle *o, const one_row *row, const one_result *result,
                          const double *expected, double slack)
{
    const double p = expected[result->token], final = log(p), raw = raw_logprob(row, result->token);
    require(p > 0.0, "token %d is not in the set", result->token);
    require(close_to((double)result->logprob_final, final,
                     1e-5 * (1 + fabs(final)) + slack + o->scale_error * fabs(final)),
            "final logprob %.9g, not %.9g", (double)result->logprob_final, final);
    require(close_to((double)result->logprob_raw, raw, 1e-5 * (1 + fabs(raw))),
            "raw logprob %.9g, not %.9g", (double)result->logprob_raw, raw);
    const char *const adaptive = oracle_adaptive_fault(o, result->token, &result->adaptive);
    require(adaptive == NULL, "%s", adaptive != NULL ? adaptive : "");
}

/* Compares the row's results with the oracle's, after oracle_follow(). */
static void compare(const oracle *o, const one_row *row, const one_result *result, double *expected)
{
    const float *const probs = result->probs;
    const int nothing = o->finite == 0 || o->empty_status,
              status = o->status | (nothing ? o->empty_status : oracle_stops(row, result->token));
    double variation = 0.0;
    require(result->status == status, "status %d, not %d", result->status, status);
    require(result->kept_count == o->kept, "%u kept, not %u", result->kept_count, o->kept);
    if (nothing) {
        require(result->token == row->invalid_token, "token %d", result->token);
        require(isinf(result->logprob_raw) && isinf(result->logprob_final), "a log-probability");
        for (uint32_t i = 0; i < row->vocab; i++)
            require(probs[i] == 0.0f, "token %u has a probability", i);
        return;
    }
    const double slack = oracle_probs(o, expected);
    for (uint32_t i = 0; i < row->vocab; i++) {
        variation += fabs((double)probs[i] - expected[i]) / 2;
        require(probs[i] == 0.0f || expected[i] > 0.0, "token %u is cut, and has a probability", i);
    }
    require(variation <= slack, "total variation %g, slack %g", variation, slack);
    require(result->token >= 0 && (uint32_t)result->token < row->vocab, "token %d", result->token);
    if (*fault == '\0')
        compare_token(o, row, result, expected, slack);
}

const char *oracle_against(const one_row *row, one_result *result, int *decided)
{
    float *const probs = calloc(row->vocab, sizeof *probs);
    double *const expected = calloc(row->vocab, sizeof *expected);
    oracle o;
    if (probs == NULL || expected == NULL)
        abort();
    *fault = '\0';
    result->probs = probs;
    require(one_sample(row, result) == CLS_OK, "%s", cls_error_message());
    if (*fault == '\0') {
        require(oracle_make(&o, row), "%s", o.fault);
        require(oracle_follow(&o, row), "%s", o.fault);
        *decided = !o.undecided;
        if (*decided && *fault == '\0')
            compare(&o, row, result, expected);
        oracle_free(&o);
    }
    result->probs = NULL;
    free(probs);
    free(expected);
    return *fault != '\0' ? fault : NULL;
}
