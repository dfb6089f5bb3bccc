/* SPDX-License-Identifier: MIT */
/* Further outputs of a step: where they are in a step's buffer, how the host computes them, and
 * their JSON. */
#include "outputs.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int cli_outputs_alloc(cli_outputs *outputs, uint32_t rows, uint32_t most)
{
    const size_t top = outputs->top_n, n = outputs->candidates ? most : 0;
    const size_t width[CLI_PARTS] = {[CLI_RANKS] = top != 0,
                                     [CLI_TOP_IDS] = top,
                                     [CLI_TOP_LOGPROBS] = top,
                                     [CLI_CANDIDATE_IDS] = n,
                                     [CLI_CANDIDATE_LOGITS] = n,
                                     [CLI_CANDIDATE_PROBS] = n,
                                     [CLI_CANDIDATE_COUNTS] = n != 0,
                                     [CLI_ENTROPY] = n != 0,
                                     [CLI_KEPT_MASS] = n != 0,
                                     [CLI_SET_IDS] = outputs->set_n,
                                     [CLI_SET_COUNTS] = outputs->set_n != 0};
    size_t sum = 0;
    memcpy(outputs->width, width, sizeof width);
    for (int i = 0; i < CLI_PARTS; i++)
        sum += width[i];
    outputs->candidates_n = (uint32_t)n;
    outputs->rows = rows;
    outputs->size = rows * sum * 4;
    outputs->data = calloc(rows, sum * 4 + 1);
    return outputs->data == NULL ? cli_no_memory() : 0;
}

/* The offset of an output of a row in the block, in 32-bit numbers. */
static size_t offset_of(const cli_outputs *outputs, cli_part part, uint32_t row)
{
    size_t at = 0;
    for (int i = 0; i < (int)part; i++)
        at += outputs->rows * outputs->width[i];
    return at + row * outputs->width[part];
}

const int32_t *cli_outputs_ints(const cli_outputs *outputs, cli_part part, uint32_t row)
{
    return (const int32_t *)outputs->data + offset_of(outputs, part, row);
}

const float *cli_outputs_floats(const cli_outputs *outputs, cli_part part, uint32_t row)
{
    return (const float *)outputs->data + offset_of(outputs, part, row);
}

void cli_outputs_bind(const cli_outputs *outputs, cl_mem buffer, cls_outputs *to)
{
    cls_buffer *const fields[CLI_PARTS] = {[CLI_RANKS] = &to->ranks,
                                           [CLI_TOP_IDS] = &to->top.ids,
                                           [CLI_TOP_LOGPROBS] = &to->top.logprobs,
                                           [CLI_CANDIDATE_IDS] = &to->kept.ids,
                                           [CLI_CANDIDATE_LOGITS] = &to->kept.logits,
                                           [CLI_CANDIDATE_PROBS] = &to->kept.probs,
                                           [CLI_CANDIDATE_COUNTS] = &to->kept.counts,
                                           [CLI_ENTROPY] = &to->entropy,
                                           [CLI_KEPT_MASS] = &to->kept_mass,
                                           [CLI_SET_IDS] = &to->kept_set.ids,
                                           [CLI_SET_COUNTS] = &to->kept_set.counts};
    to->top.count = outputs->top_n;
    to->kept.count = outputs->candidates_n;
    to->kept_set.capacity = outputs->set_n;
    for (int i = 0; i < CLI_PARTS; i++)
        if (outputs->width[i] != 0)
            *fields[i] = (cls_buffer){buffer, offset_of(outputs, (cli_part)i, 0) * 4};
}

/* ------------------------------------------------------------------------ host */

static float half(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float x = exponent == 31  ? fraction != 0 ? NAN : INFINITY
                    : exponent == 0 ? ldexpf((float)fraction, -24)
                                    : ldexpf((float)(fraction + 1024), exponent - 25);
    return h & 0x8000 ? -x : x;
}

/* A logit as the sampler reads it: NaN is -inf, and infinities and subnormals are replaced. */
static float logit_at(const cli_logits *logits, size_t i)
{
    float x;
    if (logits->dtype == CLS_F32) {
        memcpy(&x, (const char *)logits->data + 4 * i, sizeof x);
    } else if (logits->dtype == CLS_F16) {
        x = half(((const uint16_t *)logits->data)[i]);
    } else {
        const uint32_t bits = (uint32_t)((const uint16_t *)logits->data)[i] << 16;
        memcpy(&x, &bits, sizeof x);
    }
    return isnan(x) ? -INFINITY : x > FLT_MAX ? FLT_MAX : fabsf(x) < FLT_MIN ? 0.0f : x;
}

void cli_outputs_host_begin(const cli_outputs *outputs, uint32_t row, cls_host_result *result)
{
    if (outputs->set_n == 0)
        return;
    result->kept_capacity = outputs->set_n;
    result->kept_ids = (int32_t *)outputs->data + offset_of(outputs, CLI_SET_IDS, row);
}

void cli_outputs_host_end(const cli_outputs *outputs, uint32_t row, const cls_host_result *result)
{
    if (outputs->set_n != 0)
        ((int32_t *)outputs->data)[offset_of(outputs, CLI_SET_COUNTS, row)] =
            (int32_t)result->kept_count;
}

void cli_outputs_host(const cli_logits *logits, uint32_t row, int32_t token, cli_outputs *outputs)
{
    const size_t first = (size_t)row * logits->vocab;
    const float chosen = token < 0 ? -INFINITY : logit_at(logits, first + (uint32_t)token);
    int32_t *const rank = (int32_t *)outputs->data + offset_of(outputs, CLI_RANKS, row);
    int32_t *const ids = (int32_t *)outputs->data + offset_of(outputs, CLI_TOP_IDS, row);
    float *const tops = (float *)outputs->data + offset_of(outputs, CLI_TOP_LOGPROBS, row);
    double most = -INFINITY, sum = 0;
    uint32_t n = 0;
    for (uint32_t t = 0; t < logits->vocab; t++) {
        const float x = logit_at(logits, first + t);
        uint32_t at = n;
        if (!(x > -INFINITY))
            continue;
        *rank += token >= 0 && x >= chosen;
        most = fmax(most, (double)x);
        if (n == outputs->top_n && x <= tops[n - 1])
            continue;
        if (n < outputs->top_n)
            n++;
        else
            at--;
        for (; at > 0 && tops[at - 1] < x; at--) {
            tops[at] = tops[at - 1];
            ids[at] = ids[at - 1];
        }
        tops[at] = x;
        ids[at] = (int32_t)t;
    }
    for (uint32_t t = 0; t < logits->vocab; t++) {
        const double x = (double)logit_at(logits, first + t);
        sum += x > -INFINITY ? exp(x - most) : 0;
    }
    for (uint32_t i = 0; i < n; i++)
        tops[i] = (float)((double)tops[i] - most - log(sum));
    for (; n < outputs->top_n; n++) {
        tops[n] = -INFINITY;
        ids[n] = -1;
    }
}

uint32_t cli_likeliest(const float *probs, uint32_t vocab, uint32_t most, uint32_t *top)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < vocab && most != 0; t++) {
        uint32_t at = n;
        if (probs[t] <= 0.0f || (n == most && probs[t] <= probs[top[n - 1]]))
            continue;
        if (n < most)
            n++;
        else
            at--;
        for (; at > 0 && probs[top[at - 1]] < probs[t]; at--)
            top[at] = top[at - 1];
        top[at] = t;
    }
    return n;
}

/* ------------------------------------------------------------------------ JSON */

json_t *cli_outputs_json(const cli_outputs *outputs, uint32_t row, json_t *object)
{
    const int32_t *const top_ids = cli_outputs_ints(outputs, CLI_TOP_IDS, row);
    const int32_t *const set_ids = cli_outputs_ints(outputs, CLI_SET_IDS, row);
    const float *const logprobs = cli_outputs_floats(outputs, CLI_TOP_LOGPROBS, row);
    json_t *top = json_array(), *set = json_array();
    int failed = 0;
    for (uint32_t i = 0; i < outputs->top_n && top_ids[i] >= 0; i++)
        cli_append(&top, json_pack("{s:i, s:o}", "token", (int)top_ids[i], "logprob",
                                   cli_real((double)logprobs[i])));
    for (uint32_t i = 0; i < outputs->set_n && set_ids[i] >= 0; i++)
        cli_append(&set, json_integer(set_ids[i]));
    if (outputs->top_n != 0)
        failed |= json_object_set_new(object, "rank",
                                      json_integer(*cli_outputs_ints(outputs, CLI_RANKS, row))) |
                  json_object_set(object, "top", top);
    if (outputs->set_n != 0)
        failed |=
            json_object_set_new(object, "kept_count",
                                json_integer(*cli_outputs_ints(outputs, CLI_SET_COUNTS, row))) |
            json_object_set(object, "kept_ids", set);
    json_decref(top);
    json_decref(set);
    if (failed == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *candidates_json(const cli_job *job, uint32_t row)
{
    const cli_outputs *const outputs = job->outputs;
    const int32_t token = job->tokens[(size_t)row * job->draws];
    const int32_t *const ids = cli_outputs_ints(outputs, CLI_CANDIDATE_IDS, row);
    const float *const logits = cli_outputs_floats(outputs, CLI_CANDIDATE_LOGITS, row);
    const float *const probs = cli_outputs_floats(outputs, CLI_CANDIDATE_PROBS, row);
    json_t *all = json_array();
    for (uint32_t i = 0; i < outputs->candidates_n && ids[i] >= 0; i++)
        cli_append(&all, json_pack("{s:i, s:o, s:o}", "token", (int)ids[i], "logit",
                                   cli_real((double)logits[i]), "probability",
                                   cli_real((double)probs[i])));
    return json_pack(
        "{s:i, s:i, s:i, s:o, s:o, s:o}", "row", (int)cli_row_number(job->picked, row), "token",
        (int)token, "count", (int)*cli_outputs_ints(outputs, CLI_CANDIDATE_COUNTS, row), "entropy",
        cli_real((double)*cli_outputs_floats(outputs, CLI_ENTROPY, row)), "kept_mass",
        cli_real((double)*cli_outputs_floats(outputs, CLI_KEPT_MASS, row)), "candidates", all);
}

int cli_candidates_write(const char *path, const cli_job *job)
{
    json_t *array = json_array();
    int failed;
    for (uint32_t r = 0; r < job->outputs->rows; r++)
        cli_append(&array, candidates_json(job, r));
    if (array == NULL)
        return cli_no_memory();
    failed = json_dump_file(array, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(array);
    return failed == 0 ? 0 : cli_fail("%s: cannot be written: %s", path, strerror(errno));
}
