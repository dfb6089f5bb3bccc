/* SPDX-License-Identifier: MIT */
/* The results of a job: where they are in a step's buffer, how the host computes them, and their
 * files and JSON. */
#include "results.h"

#include "../bench/bench.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The numbers of each part that a row has, their type, how many dimensions a file of them has, and
 * the buffer that they go to: a field of cls_step or of cls_outputs. */
static const struct part {
    enum {
        DRAWS,
        LOGPROBS,
        PROBS,
        TOP,
        ANY_TOP,
        CANDIDATES,
        ANY_CANDIDATES,
        SET,
        ANY_SET,
        WIDTHS
    } width;
    char kind;
    unsigned dims;
    bool of_step;
    size_t field;
} parts[CLI_PARTS] = {
#define OF_STEP(width, kind, dims, field) \
    { \
        width, kind, dims, true, offsetof(cls_step, field) \
    }
#define OUTPUT(width, kind, dims, field) \
    { \
        width, kind, dims, false, offsetof(cls_outputs, field) \
    }
    [CLI_TOKENS] = OF_STEP(DRAWS, 'i', 2, tokens),
    [CLI_STATUS] = OF_STEP(DRAWS, 'i', 2, status),
    [CLI_LOGPROBS] = OUTPUT(LOGPROBS, 'f', 2, logprobs),
    [CLI_FINAL_LOGPROBS] = OUTPUT(LOGPROBS, 'f', 2, logprobs),
    [CLI_PROBS] = OUTPUT(PROBS, 'f', 2, probs),
    [CLI_RANKS] = OUTPUT(ANY_TOP, 'i', 1, ranks),
    [CLI_TOP_IDS] = OUTPUT(TOP, 'i', 2, top.ids),
    [CLI_TOP_LOGPROBS] = OUTPUT(TOP, 'f', 2, top.logprobs),
    [CLI_CANDIDATE_IDS] = OUTPUT(CANDIDATES, 'i', 2, kept.ids),
    [CLI_CANDIDATE_LOGITS] = OUTPUT(CANDIDATES, 'f', 2, kept.logits),
    [CLI_CANDIDATE_PROBS] = OUTPUT(CANDIDATES, 'f', 2, kept.probs),
    [CLI_CANDIDATE_COUNTS] = OUTPUT(ANY_CANDIDATES, 'i', 1, kept.counts),
    [CLI_ENTROPY] = OUTPUT(ANY_CANDIDATES, 'f', 1, entropy),
    [CLI_KEPT_MASS] = OUTPUT(ANY_CANDIDATES, 'f', 1, kept_mass),
    [CLI_SET_IDS] = OUTPUT(SET, 'i', 2, kept_set.ids),
    [CLI_SET_COUNTS] = OUTPUT(ANY_SET, 'i', 1, kept_set.counts)};

/* The parts of all draws are the first ones. */
enum { OF_ALL_DRAWS = CLI_FINAL_LOGPROBS + 1 };

void cli_results_alloc(const cli_job *job, uint32_t most)
{
    cli_results *const a = job->results;
    const size_t n = a->candidates ? most : 0;
    const size_t widths[WIDTHS] = {[DRAWS] = a->draws,
                                   [LOGPROBS] = a->logprobs ? a->draws : 0,
                                   [PROBS] = a->probs ? job->logits->vocab : 0,
                                   [TOP] = a->top_n,
                                   [ANY_TOP] = a->top_n != 0,
                                   [CANDIDATES] = n,
                                   [ANY_CANDIDATES] = n != 0,
                                   [SET] = a->set_n,
                                   [ANY_SET] = a->set_n != 0};
    a->size = 0;
    a->rows = job->logits->rows;
    a->candidates_n = (uint32_t)n;
    for (int i = 0; i < CLI_PARTS; i++)
        a->size += 4 * a->rows * (a->width[i] = widths[parts[i].width]);
    a->data = cli_alloc(1, a->size);
}

/* The offset of a part of a row in the block, in 32-bit numbers. */
static size_t offset_of(const cli_results *results, cli_part part, uint32_t row)
{
    size_t at = 0;
    for (int i = 0; i < (int)part; i++)
        at += results->rows * results->width[i];
    return at + row * results->width[part];
}

int32_t *cli_ints(const cli_results *results, cli_part part, uint32_t row)
{
    return (int32_t *)results->data + offset_of(results, part, row);
}

float *cli_floats(const cli_results *results, cli_part part, uint32_t row)
{
    return (float *)results->data + offset_of(results, part, row);
}

void cli_results_bind(const cli_results *results, uint32_t draw, cl_mem buffer, cls_step *step,
                      cls_outputs *outputs)
{
    outputs->logprob_kind = (int32_t)results->kind;
    if (draw == 0) {
        outputs->top.count = results->top_n;
        outputs->kept.count = results->candidates_n;
        outputs->kept_set.capacity = results->set_n;
    }
    for (int i = 0; i < (draw == 0 ? CLI_PARTS : OF_ALL_DRAWS); i++) {
        const bool is_logprob = i == CLI_LOGPROBS || i == CLI_FINAL_LOGPROBS;
        const bool is_computed = results->by_device && i == CLI_LOGPROBS + (int)results->kind;
        if (results->width[i] != 0 && (!is_logprob || is_computed)) {
            const size_t of_draw = i < OF_ALL_DRAWS ? draw * (size_t)results->rows : 0;
            char *const to = parts[i].of_step ? (char *)step : (char *)outputs;
            *(cls_buffer *)(void *)(to + parts[i].field) = (cls_buffer){
                .buffer = buffer, .offset = 4 * (offset_of(results, (cli_part)i, 0) + of_draw)};
        }
    }
}

void cli_results_turn(const cli_results *results)
{
    const size_t rows = results->rows, draws = results->draws;
    int32_t *const turned = cli_alloc(rows * draws, 4);
    for (int i = 0; i < OF_ALL_DRAWS && draws > 1; i++) {
        int32_t *const part = cli_ints(results, (cli_part)i, 0);
        if (results->width[i] == 0)
            continue;
        for (size_t at = 0; at < rows * draws; at++)
            turned[at] = part[at % draws * rows + at / draws];
        memcpy(part, turned, rows * draws * 4);
    }
    cli_free(turned);
}

/* ------------------------------------------------------------------------ host */

/* A logit as the sampler reads it: NaN is -inf, and infinities and subnormals are replaced. */
static float logit_at(const cli_logits *logits, size_t i)
{
    const float x = bench_get(logits->data, logits->dtype, i);
    return isnan(x) ? -INFINITY : x > FLT_MAX ? FLT_MAX : fabsf(x) < FLT_MIN ? 0.0f : x;
}

/* Computes rank and likeliest tokens of a row by the raw logits. */
static void find_top(const cli_job *job, uint32_t row)
{
    const cli_logits *const logits = job->logits;
    const cli_results *const results = job->results;
    const int32_t token = *cli_ints(results, CLI_TOKENS, row);
    int32_t *const rank = cli_ints(results, CLI_RANKS, row), *const ids = cli_ints(
                                                                 results, CLI_TOP_IDS, row);
    float *const tops = cli_floats(results, CLI_TOP_LOGPROBS, row);
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
    const uint32_t n = cli_likeliest(x, logits->vocab, -INFINITY, results->top_n, (uint32_t *)ids);
    for (uint32_t i = 0; i < results->top_n; i++) {
        tops[i] = i < n ? (float)((double)x[ids[i]] - most - log(sum)) : -INFINITY;
        ids[i] = i < n ? ids[i] : -1;
    }
    cli_free(x);
}

/* Samples a row's draw by the reference. */
static void sample_host(const cli_job *job, uint32_t r, uint32_t draw, cls_host_result *result)
{
    cls_host_row row;
    cli_host_row(job, r, r, &row);
    row.position += draw;
    cli_sample_host(&row, cli_row_number(job->picked, r), result);
}

static void draw_by_host(const cli_job *job, uint32_t r, uint32_t d)
{
    const cli_results *const results = job->results;
    const bool first = d == 0;
    cls_host_result result = {.struct_size = sizeof result};
    if (first && results->probs)
        result.probs = cli_floats(results, CLI_PROBS, r);
    if (first && results->set_n != 0) {
        result.kept_capacity = results->set_n;
        result.kept_ids = cli_ints(results, CLI_SET_IDS, r);
    }
    sample_host(job, r, d, &result);
    cli_ints(results, CLI_TOKENS, r)[d] = result.token;
    cli_ints(results, CLI_STATUS, r)[d] = result.status;
    if (results->logprobs) {
        cli_floats(results, CLI_LOGPROBS, r)[d] = result.logprob_raw;
        cli_floats(results, CLI_FINAL_LOGPROBS, r)[d] = result.logprob_final;
    }
    if (first && results->set_n != 0)
        *cli_ints(results, CLI_SET_COUNTS, r) = (int32_t)result.kept_count;
    if (first && results->top_n != 0)
        find_top(job, r);
}

void cli_results_by_host(const cli_job *job)
{
    cli_results_alloc(job, 0);
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < job->results->draws; d++)
            draw_by_host(job, r, d);
}

/* The most logits for which the reference computes log-probabilities after a device: it takes less
 * time than the programs for them take to compile, less than a second. */
#define MOST_BY_HOST (UINT64_C(1) << 24)

bool cli_is_small(const cli_job *job)
{
    return (uint64_t)job->logits->rows * job->results->draws * job->logits->vocab <= MOST_BY_HOST;
}

void cli_results_logprobs(const cli_job *job)
{
    cli_results *const results = job->results;
    for (uint32_t r = 0; r < job->logits->rows; r++)
        for (uint32_t d = 0; d < results->draws; d++) {
            cls_host_result result = {.struct_size = sizeof result, .token = INT32_MIN};
            if (cli_is_small(job))
                sample_host(job, r, d, &result);
            if (result.token != cli_ints(results, CLI_TOKENS, r)[d])
                result.logprob_raw = result.logprob_final = NAN;
            const float found[] = {result.logprob_raw, result.logprob_final};
            for (int kind = CLS_LOGPROB_RAW; kind <= CLS_LOGPROB_FINAL; kind++)
                if (!results->by_device || kind != (int)results->kind)
                    cli_floats(results, (cli_part)(CLI_LOGPROBS + kind), r)[d] = found[kind];
        }
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

/* --------------------------------------------------------------- files and JSON */

void cli_part_write(const char *path, const cli_results *results, cli_part part)
{
    const unsigned dims = (int)part < OF_ALL_DRAWS && results->draws == 1 ? 1 : parts[part].dims;
    const uint64_t shape[2] = {results->rows, results->width[part]};
    cli_npy_write(path, parts[part].kind, dims, shape, cli_ints(results, part, 0));
}

void cli_sets_write(const char *ids_path, const char *offsets_path, const cli_results *results)
{
    const uint32_t rows = results->rows, most = results->set_n;
    int32_t *const counts = cli_alloc(rows, 4), *const offsets = cli_alloc(rows + (size_t)1, 4),
                   *const ids = cli_alloc(rows * (size_t)most, 4);
    for (uint32_t r = 0; r < rows; r++) {
        counts[r] = *cli_ints(results, CLI_SET_COUNTS, r);
        counts[r] = counts[r] <= (int64_t)most ? counts[r] : 0;
    }
    if (cls_host_kept_offsets(rows, counts, INT32_MAX, offsets) != CLS_OK)
        cli_die("%s: %s", offsets_path, cls_error_message());
    for (uint32_t r = 0; r < rows; r++)
        memcpy(ids + offsets[r], cli_ints(results, CLI_SET_IDS, r),
               (size_t)(offsets[r + 1] - offsets[r]) * 4);
    cli_npy_write(ids_path, 'i', 1, &(uint64_t){(uint64_t)offsets[rows]}, ids);
    cli_npy_write(offsets_path, 'i', 1, &(uint64_t){rows + (uint64_t)1}, offsets);
    cli_free(counts);
    cli_free(offsets);
    cli_free(ids);
}

json_t *cli_row_json(const cli_job *job, uint32_t row)
{
    const cli_results *const results = job->results;
    const int32_t *const tokens = cli_ints(results, CLI_TOKENS, row),
                         *const status = cli_ints(results, CLI_STATUS, row),
                         *const top_ids = cli_ints(results, CLI_TOP_IDS, row),
                         *const set_ids = cli_ints(results, CLI_SET_IDS, row);
    const float *const drawn = cli_floats(results, cli_logprobs(results), row),
                       *const raw = cli_floats(results, CLI_LOGPROBS, row),
                       *const final = cli_floats(results, CLI_FINAL_LOGPROBS, row),
                       *const tops = cli_floats(results, CLI_TOP_LOGPROBS, row);
    json_t *const logprobs = json_array(), *const top = json_array();
    char words[CLI_STATUS_WORDS];
    uint32_t set = 0;
    for (uint32_t d = 0; d < results->draws; d++)
        json_array_append_new(logprobs, cli_real((double)drawn[d]));
    json_t *const object = json_pack(
        "{s:i, s:I, s:i, s:o, s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "row",
        (int)cli_row_number(job->picked, row), "position", (json_int_t)cli_position(job, row),
        "status", (int)*status, "statuses", cli_ids_json(status, results->draws), "status_words",
        cli_status_words(*status, words), "token", (int)*tokens, "tokens",
        cli_ids_json(tokens, results->draws), "logprob", cli_real((double)*drawn), "logprobs",
        logprobs, "raw_probability", cli_real(cli_probability((double)*raw)), "final_probability",
        cli_real(cli_probability((double)*final)));
    for (uint32_t i = 0; i < results->top_n && top_ids[i] >= 0; i++)
        json_array_append_new(top, json_pack("{s:i, s:o}", "token", (int)top_ids[i], "logprob",
                                             cli_real((double)tops[i])));
    while (set < results->set_n && set_ids[set] >= 0)
        set++;
    if (results->top_n != 0)
        json_object_update(object, json_pack("{s:i, s:o}", "rank",
                                             (int)*cli_ints(results, CLI_RANKS, row), "top", top));
    if (results->set_n != 0)
        json_object_update(object, json_pack("{s:i, s:o}", "kept_count",
                                             (int)*cli_ints(results, CLI_SET_COUNTS, row),
                                             "kept_ids", cli_ids_json(set_ids, set)));
    return object;
}

static json_t *candidates_json(const cli_job *job, uint32_t row)
{
    const cli_results *const results = job->results;
    const int32_t *const ids = cli_ints(results, CLI_CANDIDATE_IDS, row);
    const float *const logits = cli_floats(results, CLI_CANDIDATE_LOGITS, row);
    const float *const probs = cli_floats(results, CLI_CANDIDATE_PROBS, row);
    json_t *const all = json_array();
    for (uint32_t i = 0; i < results->candidates_n && ids[i] >= 0; i++)
        json_array_append_new(all, json_pack("{s:i, s:o, s:o}", "token", (int)ids[i], "logit",
                                             cli_real((double)logits[i]), "probability",
                                             cli_real((double)probs[i])));
    return json_pack("{s:i, s:i, s:i, s:o, s:o, s:o}", "row", (int)cli_row_number(job->picked, row),
                     "token", (int)*cli_ints(results, CLI_TOKENS, row), "count",
                     (int)*cli_ints(results, CLI_CANDIDATE_COUNTS, row), "entropy",
                     cli_real((double)*cli_floats(results, CLI_ENTROPY, row)), "kept_mass",
                     cli_real((double)*cli_floats(results, CLI_KEPT_MASS, row)), "candidates", all);
}

void cli_candidates_write(const char *path, const cli_job *job)
{
    json_t *const array = json_array();
    for (uint32_t r = 0; r < job->results->rows; r++)
        json_array_append_new(array, candidates_json(job, r));
    if (json_dump_file(array, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0)
        cli_die("%s: cannot be written: %s", path, strerror(errno));
}
