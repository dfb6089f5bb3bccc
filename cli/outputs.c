/* SPDX-License-Identifier: MIT */
/* Further outputs of a step: where they are in a step's buffer, how the host computes them, and
 * their JSON. */
#include "outputs.h"

#include "../bench/bench.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* How many numbers of each part a row has, and the buffer of a step that they go to. */
static const struct part {
    enum { TOP, IF_TOP, CANDIDATES, IF_CANDIDATES, SET, IF_SET, WIDTHS } width;
    size_t field;
} parts[CLI_PARTS] = {[CLI_RANKS] = {IF_TOP, offsetof(cls_outputs, ranks)},
                      [CLI_TOP_IDS] = {TOP, offsetof(cls_outputs, top.ids)},
                      [CLI_TOP_LOGPROBS] = {TOP, offsetof(cls_outputs, top.logprobs)},
                      [CLI_CANDIDATE_IDS] = {CANDIDATES, offsetof(cls_outputs, kept.ids)},
                      [CLI_CANDIDATE_LOGITS] = {CANDIDATES, offsetof(cls_outputs, kept.logits)},
                      [CLI_CANDIDATE_PROBS] = {CANDIDATES, offsetof(cls_outputs, kept.probs)},
                      [CLI_CANDIDATE_COUNTS] = {IF_CANDIDATES, offsetof(cls_outputs, kept.counts)},
                      [CLI_ENTROPY] = {IF_CANDIDATES, offsetof(cls_outputs, entropy)},
                      [CLI_KEPT_MASS] = {IF_CANDIDATES, offsetof(cls_outputs, kept_mass)},
                      [CLI_SET_IDS] = {SET, offsetof(cls_outputs, kept_set.ids)},
                      [CLI_SET_COUNTS] = {IF_SET, offsetof(cls_outputs, kept_set.counts)}};

void cli_outputs_alloc(cli_outputs *outputs, uint32_t rows, uint32_t most)
{
    const size_t top = outputs->top_n, n = outputs->candidates ? most : 0, set = outputs->set_n,
                 widths[WIDTHS] = {top, top != 0, n, n != 0, set, set != 0};
    size_t sum = 0;
    for (int i = 0; i < CLI_PARTS; i++)
        sum += outputs->width[i] = widths[parts[i].width];
    outputs->candidates_n = (uint32_t)n;
    outputs->rows = rows;
    outputs->size = rows * sum * 4;
    outputs->data = cli_alloc(rows, sum * 4);
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
    to->top.count = outputs->top_n;
    to->kept.count = outputs->candidates_n;
    to->kept_set.capacity = outputs->set_n;
    for (int i = 0; i < CLI_PARTS; i++)
        if (outputs->width[i] != 0)
            *(cls_buffer *)(void *)((char *)to + parts[i].field) =
                (cls_buffer){buffer, offset_of(outputs, (cli_part)i, 0) * 4};
}

/* ------------------------------------------------------------------------ host */

/* A logit as the sampler reads it: NaN is -inf, and infinities and subnormals are replaced. */
static float logit_at(const cli_logits *logits, size_t i)
{
    const float x = bench_get(logits->data, logits->dtype, i);
    return isnan(x) ? -INFINITY : x > FLT_MAX ? FLT_MAX : fabsf(x) < FLT_MIN ? 0.0f : x;
}

/* Computes rank and likeliest tokens of a row by the raw logits. */
static void find_top(const cli_logits *logits, uint32_t row, int32_t token,
                     const cli_outputs *outputs)
{
    int32_t *const rank = (int32_t *)outputs->data + offset_of(outputs, CLI_RANKS, row);
    int32_t *const ids = (int32_t *)outputs->data + offset_of(outputs, CLI_TOP_IDS, row);
    float *const tops = (float *)outputs->data + offset_of(outputs, CLI_TOP_LOGPROBS, row);
    float *const x = cli_alloc(logits->vocab, sizeof *x);
    double most = -INFINITY, sum = 0;
    for (uint32_t t = 0; t < logits->vocab; t++) {
        x[t] = logit_at(logits, (size_t)row * logits->vocab + t);
        most = fmax(most, (double)x[t]);
    }
    for (uint32_t t = 0; t < logits->vocab; t++)
        if (x[t] > -INFINITY) {
            *rank += token >= 0 && x[t] >= x[token];
            sum += exp((double)x[t] - most);
        }
    const uint32_t n = cli_likeliest(x, logits->vocab, -INFINITY, outputs->top_n, (uint32_t *)ids);
    for (uint32_t i = 0; i < outputs->top_n; i++) {
        tops[i] = i < n ? (float)((double)x[ids[i]] - most - log(sum)) : -INFINITY;
        ids[i] = i < n ? ids[i] : -1;
    }
    cli_free(x);
}

void cli_outputs_host_begin(const cli_outputs *outputs, uint32_t row, cls_host_result *result)
{
    if (outputs->set_n == 0)
        return;
    result->kept_capacity = outputs->set_n;
    result->kept_ids = (int32_t *)outputs->data + offset_of(outputs, CLI_SET_IDS, row);
}

void cli_outputs_host_end(const cli_outputs *outputs, const cli_logits *logits, uint32_t row,
                          const cls_host_result *result)
{
    if (outputs->set_n != 0)
        ((int32_t *)outputs->data)[offset_of(outputs, CLI_SET_COUNTS, row)] =
            (int32_t)result->kept_count;
    if (outputs->top_n != 0)
        find_top(logits, row, result->token, outputs);
}

uint32_t cli_likeliest(const float *probs, uint32_t vocab, float above, uint32_t most,
                       uint32_t *top)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < vocab && most != 0; t++) {
        uint32_t at = n;
        if (!(probs[t] > above) || (n == most && probs[t] <= probs[top[n - 1]]))
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

void cli_outputs_json(const cli_outputs *outputs, uint32_t row, json_t *object)
{
    const int32_t *const top_ids = cli_outputs_ints(outputs, CLI_TOP_IDS, row);
    const int32_t *const set_ids = cli_outputs_ints(outputs, CLI_SET_IDS, row);
    const float *const logprobs = cli_outputs_floats(outputs, CLI_TOP_LOGPROBS, row);
    json_t *const top = json_array();
    uint32_t set = 0;
    for (uint32_t i = 0; i < outputs->top_n && top_ids[i] >= 0; i++)
        json_array_append_new(top, json_pack("{s:i, s:o}", "token", (int)top_ids[i], "logprob",
                                             cli_real((double)logprobs[i])));
    while (set < outputs->set_n && set_ids[set] >= 0)
        set++;
    if (outputs->top_n != 0)
        json_object_update(object,
                           json_pack("{s:i, s:o}", "rank",
                                     (int)*cli_outputs_ints(outputs, CLI_RANKS, row), "top", top));
    if (outputs->set_n != 0)
        json_object_update(object, json_pack("{s:i, s:o}", "kept_count",
                                             (int)*cli_outputs_ints(outputs, CLI_SET_COUNTS, row),
                                             "kept_ids", cli_ids_json(set_ids, set)));
}

static json_t *candidates_json(const cli_job *job, uint32_t row)
{
    const cli_outputs *const outputs = job->outputs;
    const int32_t *const ids = cli_outputs_ints(outputs, CLI_CANDIDATE_IDS, row);
    const float *const logits = cli_outputs_floats(outputs, CLI_CANDIDATE_LOGITS, row);
    const float *const probs = cli_outputs_floats(outputs, CLI_CANDIDATE_PROBS, row);
    json_t *const all = json_array();
    for (uint32_t i = 0; i < outputs->candidates_n && ids[i] >= 0; i++)
        json_array_append_new(all, json_pack("{s:i, s:o, s:o}", "token", (int)ids[i], "logit",
                                             cli_real((double)logits[i]), "probability",
                                             cli_real((double)probs[i])));
    return json_pack("{s:i, s:i, s:i, s:o, s:o, s:o}", "row", (int)cli_row_number(job->picked, row),
                     "token", (int)job->tokens[(size_t)row * job->draws], "count",
                     (int)*cli_outputs_ints(outputs, CLI_CANDIDATE_COUNTS, row), "entropy",
                     cli_real((double)*cli_outputs_floats(outputs, CLI_ENTROPY, row)), "kept_mass",
                     cli_real((double)*cli_outputs_floats(outputs, CLI_KEPT_MASS, row)),
                     "candidates", all);
}

int cli_candidates_write(const char *path, const cli_job *job)
{
    json_t *const array = json_array();
    for (uint32_t r = 0; r < job->outputs->rows; r++)
        json_array_append_new(array, candidates_json(job, r));
    return json_dump_file(array, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0
               ? 0
               : cli_fail("%s: cannot be written: %s", path, strerror(errno));
}
