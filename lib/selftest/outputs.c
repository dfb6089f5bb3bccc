/* SPDX-License-Identifier: MIT */
/* The self-test of the outputs of rows: those of a step, and of cls_logprobs(). The expected values
 * are computed directly from the logits and the host's probabilities. Values that are not integers
 * are compared with a tolerance. */
#include "selftest/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = SELFTEST_OUTPUT_CASES, N = 8, GIVEN = 3, SET = 100, V = SELFTEST_MOST_VOCAB };
#define FACTOR (-0.5f) /* of the bias, in the steps with packed sets */

/* The outputs as they are in the buffer, one after the other. */
typedef struct row_outputs {
    float logprobs[ROWS];
    int32_t ranks[ROWS];
    int32_t top_ids[ROWS][N];
    float top_logprobs[ROWS][N];
    int32_t given_ids[ROWS][GIVEN];
    float given_logprobs[ROWS][GIVEN];
    int32_t given_ranks[ROWS][GIVEN];
    float entropy[ROWS];
    int32_t kept[ROWS];
    float kept_mass[ROWS];
    int32_t candidate_ids[ROWS][N];
    float candidate_logits[ROWS][N], candidate_probs[ROWS][N];
    int32_t set_ids[ROWS][SET], set_counts[ROWS], set_offsets[ROWS + 1], status[ROWS];
    float probs[ROWS * V], final_logits[ROWS * V]; /* each row has the vocabulary's length */
} row_outputs;

/* The expected outputs of a row: of its raw distribution, or of the final one. */
typedef struct expected {
    uint32_t vocab;
    int greedy;
    float logits[V], probs[V]; /* NaN becomes -inf; 0 if a token is not kept */
    float bias[V];
    int32_t order[N]; /* the likeliest tokens, then -1 */
    int32_t set[SET]; /* the kept set, as far as it fits, then -1 */
    cls_host_result result;
} expected;

/* Returns 1 if token a is likelier than b, or has the same logit and the lower id. */
static int precedes(const float *z, int32_t a, int32_t b)
{
    return b < 0 || z[a] > z[b] || (z[a] == z[b] && a < b);
}

static void sort_likeliest(expected *e)
{
    for (int j = 0; j < N; j++)
        e->order[j] = -1;
    for (int32_t i = 0; i < (int32_t)e->vocab; i++)
        if (e->probs[i] > 0.0f && precedes(e->logits, i, e->order[N - 1])) {
            int j = N - 1;
            for (; j > 0 && precedes(e->logits, i, e->order[j - 1]); j--)
                e->order[j] = e->order[j - 1];
            e->order[j] = i;
        }
}

/* Computes a row's logits, and their softmax at temperature 1. */
static void expect_raw(expected *e, uint32_t which, uint32_t vocab)
{
    double sum = 0.0, top = -INFINITY;
    memset(e, 0, sizeof *e);
    e->vocab = vocab;
    cls_selftest_row(cls_selftest_seed(which), cls_selftest_cases[which].row, CLS_F32, vocab,
                     e->logits);
    for (uint32_t i = 0; i < vocab; i++) {
        e->logits[i] = isnan(e->logits[i]) ? -INFINITY : e->logits[i];
        top = fmax(top, (double)e->logits[i]);
    }
    for (uint32_t i = 0; i < vocab && top > -INFINITY; i++)
        sum += exp((double)e->logits[i] - top);
    for (uint32_t i = 0; i < vocab && top > -INFINITY; i++)
        e->probs[i] = (float)(exp((double)e->logits[i] - top) / sum);
    sort_likeliest(e);
}

/* Computes the distribution from which the next token of a case is drawn. The output cases have no
 * text, and no adjustment but a mask and a dense bias. */
static cls_status expect_final(const cls_selftest_run *t, expected *e, uint32_t position,
                               float factor)
{
    const uint32_t which = t->selection.cases[position], with = cls_selftest_cases[which].with;
    cls_params params;
    cls_host_row row;
    expect_raw(e, which, t->selection.vocab);
    cls_selftest_dense(CLS_F32, e->vocab, e->bias);
    for (uint32_t i = 0; i < e->vocab; i++) {
        e->logits[i] += with & WITH_DENSE ? factor * e->bias[i] : 0.0f; /* exact */
        if ((with & WITH_MASK) && !t->in.bools[i])
            e->logits[i] = -INFINITY;
    }
    cls_selftest_params(which, e->vocab, &params);
    cls_host_row_init(&row);
    row.logits = e->logits;
    row.vocab = e->vocab;
    row.params = &params;
    for (uint32_t step = 0; step < SELFTEST_STEPS; step++)
        row.position += t->host.known[position * SELFTEST_STEPS + step].token >= 0;
    e->greedy = params.temperature < 1e-5f;
    e->result.struct_size = sizeof e->result;
    e->result.probs = e->probs;
    e->result.kept_ids = e->set;
    e->result.kept_capacity = SET;
    const cls_status status = cls_host_sample(&row, &e->result);
    sort_likeliest(e);
    return status;
}

/* -------------------------------------------------------------------- checking */

/* The message of the first difference, or "". */
typedef struct finding {
    char text[120];
} finding;

static void expect_equal(finding *f, const char *name, int64_t value, int64_t expected_value)
{
    if (value != expected_value && f->text[0] == '\0')
        snprintf(f->text, sizeof f->text, "device: %s %lld, not %lld", name, (long long)value,
                 (long long)expected_value);
}

static void expect_near(finding *f, const char *name, double value, double expected_value)
{
    const int both = isinf(expected_value) && value == expected_value;
    if (!both && !(fabs(value - expected_value) <= 1e-4 * (1.0 + fabs(expected_value))) &&
        f->text[0] == '\0')
        snprintf(f->text, sizeof f->text, "device: %s %.9g, not %.9g", name, value, expected_value);
}

/* Returns how many tokens have a logit at least as large, or 0 if the token is not kept. */
static int32_t rank_of(const expected *e, int32_t token)
{
    int32_t rank = 0;
    for (uint32_t i = 0; i < e->vocab && token >= 0 && e->probs[token] > 0.0f; i++)
        rank += e->probs[i] > 0.0f && e->logits[i] >= e->logits[token];
    return rank;
}

static double logprob(const expected *e, int32_t token)
{
    return token >= 0 && e->probs[token] > 0.0f ? log((double)e->probs[token]) : -INFINITY;
}

static void compare_tokens(finding *f, const expected *e, const row_outputs *o, uint32_t r)
{
    for (uint32_t j = 0; j < N; j++) {
        expect_equal(f, "a likeliest token", o->top_ids[r][j], e->order[j]);
        expect_near(f, "a likeliest token's logprob", (double)o->top_logprobs[r][j],
                    logprob(e, e->order[j]));
    }
    for (uint32_t j = 0; j < GIVEN; j++) {
        expect_equal(f, "a given token's rank", o->given_ranks[r][j],
                     rank_of(e, o->given_ids[r][j]));
        expect_near(f, "a given token's logprob", (double)o->given_logprobs[r][j],
                    logprob(e, o->given_ids[r][j]));
    }
}

/* Checks the outputs of the kernels of reports. */
static void check_report(finding *f, const expected *e, const row_outputs *o, uint32_t r)
{
    double entropy = 0.0, all = 0.0, kept = 0.0;
    const float top = e->order[0] < 0 ? 0.0f : e->logits[e->order[0]];
    for (uint32_t i = 0; i < e->vocab; i++) {
        const double p = (double)e->probs[i], weight = exp((double)(e->logits[i] - top));
        entropy -= p > 0.0 ? p * log(p) : 0.0;
        all += weight;
        kept += p > 0.0 ? weight : 0.0;
        expect_near(f, "a probability", (double)o->probs[r * e->vocab + i], p);
        expect_near(f, "a logit of the kept set", (double)o->final_logits[r * e->vocab + i],
                    p > 0.0 ? (double)e->logits[i] : -INFINITY);
    }
    expect_near(f, "the entropy", (double)o->entropy[r], entropy);
    expect_near(f, "the kept mass", (double)o->kept_mass[r],
                e->greedy    ? e->result.token >= 0
                : kept > 0.0 ? kept / all
                             : 0.0);
    expect_equal(f, "tokens kept", o->kept[r], e->result.kept_count);
    for (uint32_t j = 0; j < N; j++) {
        const int32_t id = e->order[j];
        expect_equal(f, "a candidate", o->candidate_ids[r][j], id);
        expect_near(f, "a candidate's logit", (double)o->candidate_logits[r][j],
                    id < 0 ? -INFINITY : (double)e->logits[id]);
        expect_near(f, "a candidate's probability", (double)o->candidate_probs[r][j],
                    id < 0 ? 0.0 : (double)e->probs[id]);
    }
    expect_near(f, "the token's logprob", (double)o->logprobs[r], (double)e->result.logprob_final);
    expect_equal(f, "the token's rank", o->ranks[r], rank_of(e, e->result.token));
}

static void check_set(finding *f, const expected *e, const row_outputs *o, uint32_t r)
{
    expect_equal(f, "the number of the kept set", o->set_counts[r], e->result.kept_count);
    expect_equal(f, "the status of the kept set", o->status[r] & CLS_ROW_OVERFLOW,
                 e->result.status & CLS_ROW_OVERFLOW);
    for (uint32_t j = 0; j < SET; j++)
        expect_equal(f, "a token of the kept set", o->set_ids[r][j], e->set[j]);
}

/* Checks a row's set where sets lie one behind the other, of which *at ids were before. */
static void check_packed(finding *f, const expected *e, const row_outputs *o, uint32_t r,
                         uint32_t *at)
{
    const int32_t *const ids = o->set_ids[0] + *at;
    const uint32_t count = e->result.kept_count, n = count <= SET - *at ? count : 0;
    expect_equal(f, "the number of a packed set", o->set_counts[r], count);
    expect_equal(f, "the offset of a packed set", o->set_offsets[r], *at);
    expect_equal(f, "the end of a packed set", o->set_offsets[r + 1], *at + n);
    expect_equal(f, "the status of a packed set", o->status[r] & CLS_ROW_OVERFLOW,
                 n < count ? CLS_ROW_OVERFLOW : 0);
    for (uint32_t j = 0; j < n; j++)
        expect_equal(f, "a token of a packed set", ids[j], e->set[j]);
    *at += n;
}

static void compare_row(const cls_selftest_run *t, int stage, const expected *e,
                        const row_outputs *o, uint32_t r, finding *f)
{
    const uint32_t features = t->sampler->features;
    if (features & CLS_FEATURE_LOGPROBS)
        compare_tokens(f, e, o, r);
    if ((features & CLS_FEATURE_LOGPROBS) && stage == ST_REPORT)
        check_report(f, e, o, r);
    if ((features & CLS_FEATURE_KEPT_SETS) && stage == ST_REPORT)
        check_set(f, e, o, r);
}

/* Counts a row and what was found out about it. */
static void count_row(cls_selftest_run *t, int stage, const char *which, const finding *f)
{
    char name[64], message[200] = "";
    cls_selftest_name(t, which, 0, name, sizeof name);
    if (f->text[0] != '\0')
        snprintf(message, sizeof message, "%s: %s", name, f->text);
    cls_selftest_count(t, stage, message);
}

/* ----------------------------------------------------------------------- calls */

static cls_status logprobs_of(cls_selftest_run *t, const cls_step *step)
{
    cls_logprobs_call call;
    cls_logprobs_call_init(&call);
    call.rows = step->rows;
    call.logits = step->logits;
    call.given = step->outputs->given;
    call.top = step->outputs->top;
    return cls_logprobs(t->sampler, t->queue, &call, 0, NULL, NULL);
}

/* The rows of the calls: the output cases of the selection with a mask or a bias, or those without.
 */
typedef struct output_rows {
    int guided;
    uint32_t n, position[ROWS];
    const char *name[ROWS];
    int32_t slots[ROWS], masks[ROWS], biases[ROWS];
    cl_mem logits, out;
} output_rows;

/* Makes a step that requests the outputs of the sampler's kernels and leaves the slots unchanged.
 */
static void request_outputs(cls_step *step, cls_outputs *outputs, const cls_selftest_run *t,
                            const output_rows *rows)
{
#define SET_OUTPUT(field, member) \
    outputs->field = (cls_buffer){.buffer = rows->out, .offset = offsetof(row_outputs, member)}
    cls_outputs_init(outputs);
    cls_step_init(step);
    step->outputs = outputs;
    step->rows = rows->n;
    step->logits.dtype = t->dtype;
    step->logits.values.buffer = rows->logits;
    step->slots.host = rows->slots;
    step->defer_accept = 1;
    step->status = (cls_buffer){.buffer = rows->out, .offset = offsetof(row_outputs, status)};
    if (rows->guided)
        cls_selftest_guide(t, 1, rows->masks, rows->biases, step);
    if (t->sampler->features & CLS_FEATURE_KEPT_SETS) {
        outputs->kept_set.capacity = SET;
        SET_OUTPUT(kept_set.ids, set_ids);
        SET_OUTPUT(kept_set.counts, set_counts);
    }
    if (!(t->sampler->features & CLS_FEATURE_LOGPROBS))
        return;
    outputs->logprob_kind = CLS_LOGPROB_FINAL;
    outputs->top.count = outputs->kept.count = N;
    outputs->given.count = GIVEN;
    SET_OUTPUT(logprobs, logprobs);
    SET_OUTPUT(ranks, ranks);
    SET_OUTPUT(top.ids, top_ids);
    SET_OUTPUT(top.logprobs, top_logprobs);
    SET_OUTPUT(given.ids, given_ids);
    SET_OUTPUT(given.logprobs, given_logprobs);
    SET_OUTPUT(given.ranks, given_ranks);
    SET_OUTPUT(entropy, entropy);
    SET_OUTPUT(kept_mass, kept_mass);
    SET_OUTPUT(kept.ids, candidate_ids);
    SET_OUTPUT(kept.logits, candidate_logits);
    SET_OUTPUT(kept.probs, candidate_probs);
    SET_OUTPUT(kept.counts, kept);
    SET_OUTPUT(probs, probs);
    SET_OUTPUT(final_logits, final_logits);
#undef SET_OUTPUT
}

/* Lists the rows, and uploads their logits and the given ids. */
static cls_status open_rows(cls_selftest_run *t, output_rows *rows, row_outputs *o)
{
    const uint32_t vocab = t->selection.vocab;
    const size_t size = vocab * cls_dtype_size(t->dtype);
    char *const logits = malloc(size * ROWS);
    if (logits == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    for (int i = 0; i < ROWS; i++) {
        const int32_t at = cls_selftest_position(&t->selection, cls_selftest_output_cases[i]);
        if (at < 0 || (cls_selftest_cases[t->selection.cases[at]].with != 0) != rows->guided)
            continue;
        const uint32_t r = rows->n++, which = t->selection.cases[at];
        rows->name[r] = cls_selftest_output_cases[i];
        rows->position[r] = (uint32_t)at;
        rows->slots[r] = at;
        rows->masks[r] = t->in.maps[1][at];
        rows->biases[r] = t->in.maps[2][at];
        cls_selftest_row(cls_selftest_seed(which), cls_selftest_cases[which].row, t->dtype, vocab,
                         logits + r * size);
        o->given_ids[r][0] = 900 + (int32_t)r;
        o->given_ids[r][1] = -1;
        o->given_ids[r][2] = (int32_t)vocab - 1;
    }
    cls_status status = cls_selftest_buffer(t, size * ROWS, logits, &rows->logits);
    if (status == CLS_OK)
        status = cls_selftest_buffer(t, sizeof *o, o, &rows->out);
    free(logits);
    return status;
}

/* Runs a step whose kept sets lie one behind the other, with the bias in bfloat16 and a factor. */
static cls_status run_packed(cls_selftest_run *t, const output_rows *rows, cls_step *step,
                             row_outputs *o)
{
    cls_outputs outputs;
    cls_outputs_init(&outputs);
    outputs.kept_set = step->outputs->kept_set;
    outputs.kept_set.offsets =
        (cls_buffer){.buffer = rows->out, .offset = offsetof(row_outputs, set_offsets)};
    step->outputs = &outputs;
    if (step->bias.values.buffer != NULL) {
        step->bias.values.buffer = t->in.dense[2];
        step->bias.dtype = CLS_BF16;
        step->bias.factor = FACTOR;
    }
    const cls_status status = cls_sample(t->sampler, t->queue, step, 0, NULL, NULL);
    return status == CLS_OK ? cls_selftest_read(t, rows->out, sizeof *o, o) : status;
}

/* Runs the calls. o[0] gets the outputs of the step, o[1] those of cls_logprobs(), and o[2] the
 * kept sets with offsets. */
static cls_status run_outputs(cls_selftest_run *t, const output_rows *rows, row_outputs *o)
{
    cls_step step;
    cls_outputs outputs;
    cls_status status = CLS_OK;
    request_outputs(&step, &outputs, t, rows);
    if (t->sampler->features & CLS_FEATURE_LOGPROBS)
        status = logprobs_of(t, &step);
    if (status == CLS_OK)
        status = cls_selftest_read(t, rows->out, sizeof *o, &o[1]);
    if (status == CLS_OK)
        status = cls_sample(t->sampler, t->queue, &step, 0, NULL, NULL);
    if (status == CLS_OK)
        status = cls_selftest_read(t, rows->out, sizeof *o, &o[0]);
    return status == CLS_OK && (t->sampler->features & CLS_FEATURE_KEPT_SETS)
               ? run_packed(t, rows, &step, &o[2])
               : status;
}

/* Compares row r; *at is the number of the rows' ids before it in o[2]. */
static cls_status test_row(cls_selftest_run *t, const output_rows *rows, const row_outputs *o,
                           uint32_t r, expected *e, uint32_t *at)
{
    const char *const name = rows->name[r];
    finding raw = {""}, final = {""};
    expect_raw(e, t->selection.cases[rows->position[r]], t->selection.vocab);
    compare_row(t, ST_LOGPROBS, e, &o[1], r, &raw);
    if (t->sampler->features & CLS_FEATURE_LOGPROBS)
        count_row(t, ST_LOGPROBS, name, &raw);
    cls_status status = expect_final(t, e, rows->position[r], 1.0f);
    if (status == CLS_OK)
        compare_row(t, ST_REPORT, e, &o[0], r, &final);
    if (status == CLS_OK && (t->sampler->features & CLS_FEATURE_KEPT_SETS)) {
        status = expect_final(t, e, rows->position[r], FACTOR);
        check_packed(&final, e, &o[2], r, at);
    }
    if (status == CLS_OK)
        count_row(t, ST_REPORT, name, &final);
    return status;
}

static cls_status test_rows(cls_selftest_run *t, output_rows *rows, row_outputs *o, expected *e)
{
    uint32_t at = 0;
    cls_status status = open_rows(t, rows, o);
    if (status == CLS_OK && rows->n != 0)
        status = run_outputs(t, rows, o);
    for (uint32_t r = 0; r < rows->n && status == CLS_OK; r++)
        status = test_row(t, rows, o, r, e, &at);
    if (rows->logits != NULL)
        clReleaseMemObject(rows->logits);
    if (rows->out != NULL)
        clReleaseMemObject(rows->out);
    return status;
}

cls_status cls_selftest_outputs(cls_selftest_run *t)
{
    row_outputs *const o = calloc(3, sizeof *o);
    expected *const e = malloc(sizeof *e);
    cls_status status = CLS_OK;
    if (o == NULL || e == NULL)
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    for (int guided = 0; guided < 2 && status == CLS_OK; guided++)
        status = test_rows(t, &(output_rows){.guided = guided}, o, e);
    free(o);
    free(e);
    return status;
}
