/* SPDX-License-Identifier: MIT */
/* Ranks, the likeliest tokens, candidates: from the device, or the host's. */
#include "report.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int cli_report_make(cli_report *report, uint32_t rows, uint32_t most)
{
    const size_t top = report->top_n, n = report->candidates ? most : 0;
    const size_t width[CLI_PARTS] = {
        [CLI_RANKS] = top != 0,          [CLI_TOP_IDS] = top,        [CLI_TOP_LOGPROBS] = top,
        [CLI_CANDIDATE_IDS] = n,         [CLI_CANDIDATE_LOGITS] = n, [CLI_CANDIDATE_PROBS] = n,
        [CLI_CANDIDATE_COUNTS] = n != 0, [CLI_ENTROPY] = n != 0,     [CLI_KEPT_MASS] = n != 0};
    size_t sum = 0;
    memcpy(report->width, width, sizeof width);
    for (int i = 0; i < CLI_PARTS; i++)
        sum += width[i];
    report->candidates_n = (uint32_t)n;
    report->rows = rows;
    report->size = rows * sum * 4;
    report->data = calloc(rows, sum * 4 + 1);
    return report->data == NULL ? cli_no_memory() : 0;
}

/* In numbers from the block's beginning. */
static size_t place_of(const cli_report *report, cli_part part, uint32_t row)
{
    size_t at = 0;
    for (int i = 0; i < (int)part; i++)
        at += report->rows * report->width[i];
    return at + row * report->width[part];
}

const int32_t *cli_report_ints(const cli_report *report, cli_part part, uint32_t row)
{
    return (const int32_t *)report->data + place_of(report, part, row);
}

const float *cli_report_floats(const cli_report *report, cli_part part, uint32_t row)
{
    return (const float *)report->data + place_of(report, part, row);
}

void cli_report_ask(const cli_report *report, cl_mem buffer, cls_outputs *outputs)
{
    cls_buffer *const fields[CLI_PARTS] = {[CLI_RANKS] = &outputs->ranks,
                                           [CLI_TOP_IDS] = &outputs->top.ids,
                                           [CLI_TOP_LOGPROBS] = &outputs->top.logprobs,
                                           [CLI_CANDIDATE_IDS] = &outputs->kept.ids,
                                           [CLI_CANDIDATE_LOGITS] = &outputs->kept.logits,
                                           [CLI_CANDIDATE_PROBS] = &outputs->kept.probs,
                                           [CLI_CANDIDATE_COUNTS] = &outputs->kept.counts,
                                           [CLI_ENTROPY] = &outputs->entropy,
                                           [CLI_KEPT_MASS] = &outputs->kept_mass};
    outputs->top.count = report->top_n;
    outputs->kept.count = report->candidates_n;
    for (int i = 0; i < CLI_PARTS; i++)
        if (report->width[i] != 0)
            *fields[i] = (cls_buffer){buffer, place_of(report, (cli_part)i, 0) * 4};
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

/* A logit as samplers see it: finite, or -inf where there is none. */
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

void cli_report_host(const cli_logits *logits, uint32_t row, int32_t token, cli_report *report)
{
    const size_t first = (size_t)row * logits->vocab;
    const float chosen = token < 0 ? -INFINITY : logit_at(logits, first + (uint32_t)token);
    int32_t *const rank = (int32_t *)report->data + place_of(report, CLI_RANKS, row);
    int32_t *const ids = (int32_t *)report->data + place_of(report, CLI_TOP_IDS, row);
    float *const tops = (float *)report->data + place_of(report, CLI_TOP_LOGPROBS, row);
    double most = -INFINITY, sum = 0;
    uint32_t n = 0;
    for (uint32_t t = 0; t < logits->vocab; t++) {
        const float x = logit_at(logits, first + t);
        uint32_t at = n;
        if (!(x > -INFINITY))
            continue;
        *rank += token >= 0 && x >= chosen;
        most = fmax(most, (double)x);
        if (n == report->top_n && x <= tops[n - 1])
            continue;
        if (n < report->top_n)
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
    for (; n < report->top_n; n++) {
        tops[n] = -INFINITY;
        ids[n] = -1;
    }
}

/* ------------------------------------------------------------------------ JSON */

int cli_report_json(const cli_report *report, uint32_t row, json_t *object)
{
    const int32_t *const ids = cli_report_ints(report, CLI_TOP_IDS, row);
    const float *const logprobs = cli_report_floats(report, CLI_TOP_LOGPROBS, row);
    json_t *top = json_array();
    for (uint32_t i = 0; i < report->top_n && ids[i] >= 0; i++)
        json_array_append_new(top, json_pack("{s:i, s:o}", "token", (int)ids[i], "logprob",
                                             cli_real((double)logprobs[i])));
    return json_object_set_new(object, "rank",
                               json_integer(*cli_report_ints(report, CLI_RANKS, row))) != 0 ||
                   json_object_set_new(object, "top", top) != 0
               ? cli_no_memory()
               : 0;
}

static json_t *candidates_json(const cli_job *job, uint32_t row)
{
    const cli_report *const report = job->report;
    const int32_t token = job->tokens[(size_t)row * job->draws];
    const int32_t *const ids = cli_report_ints(report, CLI_CANDIDATE_IDS, row);
    const float *const logits = cli_report_floats(report, CLI_CANDIDATE_LOGITS, row);
    const float *const probs = cli_report_floats(report, CLI_CANDIDATE_PROBS, row);
    json_t *all = json_array();
    for (uint32_t i = 0; i < report->candidates_n && ids[i] >= 0; i++)
        json_array_append_new(all, json_pack("{s:i, s:o, s:o}", "token", (int)ids[i], "logit",
                                             cli_real((double)logits[i]), "probability",
                                             cli_real((double)probs[i])));
    return json_pack(
        "{s:i, s:i, s:i, s:o, s:o, s:o}", "row", (int)cli_row_number(job->picked, row), "token",
        (int)token, "count", (int)*cli_report_ints(report, CLI_CANDIDATE_COUNTS, row), "entropy",
        cli_real((double)*cli_report_floats(report, CLI_ENTROPY, row)), "kept_mass",
        cli_real((double)*cli_report_floats(report, CLI_KEPT_MASS, row)), "candidates", all);
}

int cli_candidates_write(const char *path, const cli_job *job)
{
    json_t *array = json_array();
    int failed = 0;
    for (uint32_t r = 0; r < job->report->rows && !failed; r++)
        if (json_array_append_new(array, candidates_json(job, r)) != 0)
            failed = cli_no_memory();
    if (!failed && json_dump_file(array, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0)
        failed = cli_fail("%s: cannot be written: %s", path, strerror(errno));
    json_decref(array);
    return failed;
}
