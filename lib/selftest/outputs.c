/* SPDX-License-Identifier: MIT */
/* The self-test of what is told of rows: reports of steps, and logprobs. Expected
 * by brute force from the logits and the host's probabilities; what is not an
 * integer within a tolerance. */
#include "selftest/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = SELFTEST_TOLD, N = 8, GIVEN = 3, V = SELFTEST_VOCAB };

/* As they lie in a buffer, one behind the other. */
typedef struct outputs {
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
    int32_t candidate_counts[ROWS];
    float probs[ROWS][V], final_logits[ROWS][V];
} outputs;

/* What a row should give: of its own distribution, or of the one that was drawn from. */
typedef struct expected {
    uint32_t which; /* case */
    int greedy;
    float logits[V], probs[V]; /* NaN is -inf; 0: not kept */
    int32_t order[N];          /* the likeliest, then -1 */
    cls_host_result result;
} expected;

/* Whether a is before b. */
static int before(const float *z, int32_t a, int32_t b)
{
    return b < 0 || z[a] > z[b] || (z[a] == z[b] && a < b);
}

static void put_in_order(expected *e)
{
    for (int j = 0; j < N; j++)
        e->order[j] = -1;
    for (int32_t i = 0; i < (int32_t)V; i++)
        if (e->probs[i] > 0.0f && before(e->logits, i, e->order[N - 1])) {
            int j = N - 1;
            for (; j > 0 && before(e->logits, i, e->order[j - 1]); j--)
                e->order[j] = e->order[j - 1];
            e->order[j] = i;
        }
}

/* A row's logits, and its softmax at temperature 1. */
static void expect_raw(expected *e, uint32_t which)
{
    double sum = 0.0, top = -INFINITY;
    memset(e, 0, sizeof *e);
    e->which = which;
    cls_selftest_row(cls_selftest_seed(which), cls_selftest_cases[which].row, CLS_F32, e->logits);
    for (uint32_t i = 0; i < V; i++) {
        e->logits[i] = isnan(e->logits[i]) ? -INFINITY : e->logits[i];
        top = fmax(top, (double)e->logits[i]);
    }
    for (uint32_t i = 0; i < V && top > -INFINITY; i++)
        sum += exp((double)e->logits[i] - top);
    for (uint32_t i = 0; i < V && top > -INFINITY; i++)
        e->probs[i] = (float)(exp((double)e->logits[i] - top) / sum);
    put_in_order(e);
}

/* The distribution that a case's next token is drawn from; cases that are told
 * have neither a text nor anything else that changes logits. */
static cls_status expect_final(const cls_selftest_run *t, expected *e, uint32_t which)
{
    cls_params params;
    cls_host_row row;
    expect_raw(e, which);
    cls_selftest_params(which, &params);
    cls_host_row_default(&row, sizeof row);
    row.logits = e->logits;
    row.vocab = V;
    row.params = &params;
    for (uint32_t step = 0; step < SELFTEST_STEPS; step++)
        row.position += t->host.known[which * SELFTEST_STEPS + step].token >= 0;
    e->greedy = params.temperature < 1e-5f;
    e->result.struct_size = sizeof e->result;
    e->result.probs = e->probs;
    const cls_status status = cls_host_sample(&row, &e->result);
    put_in_order(e);
    return status;
}

/* --------------------------------------------------------------------- judging */

/* What was found wrong first. */
typedef struct finding {
    char text[120];
} finding;

static void same(finding *f, const char *what, int64_t ours, int64_t should)
{
    if (ours != should && f->text[0] == '\0')
        snprintf(f->text, sizeof f->text, "device: %s %lld, not %lld", what, (long long)ours,
                 (long long)should);
}

static void near_to(finding *f, const char *what, double ours, double should)
{
    const int both = isinf(should) && ours == should;
    if (!both && !(fabs(ours - should) <= 1e-4 * (1.0 + fabs(should))) && f->text[0] == '\0')
        snprintf(f->text, sizeof f->text, "device: %s %.9g, not %.9g", what, ours, should);
}

/* How many tokens there are with a logit at least as large; 0: the token is not there. */
static int32_t rank_of(const expected *e, int32_t token)
{
    int32_t rank = 0;
    for (uint32_t i = 0; i < V && token >= 0 && e->probs[token] > 0.0f; i++)
        rank += e->probs[i] > 0.0f && e->logits[i] >= e->logits[token];
    return rank;
}

static double logprob(const expected *e, int32_t token)
{
    return token >= 0 && e->probs[token] > 0.0f ? log((double)e->probs[token]) : -INFINITY;
}

static void judge_tokens(finding *f, const expected *e, const outputs *o, uint32_t r)
{
    for (uint32_t j = 0; j < N; j++) {
        same(f, "a likeliest token", o->top_ids[r][j], e->order[j]);
        near_to(f, "a likeliest token's logprob", (double)o->top_logprobs[r][j],
                logprob(e, e->order[j]));
    }
    for (uint32_t j = 0; j < GIVEN; j++) {
        same(f, "a given token's rank", o->given_ranks[r][j], rank_of(e, o->given_ids[r][j]));
        near_to(f, "a given token's logprob", (double)o->given_logprobs[r][j],
                logprob(e, o->given_ids[r][j]));
    }
}

static void judge_set(finding *f, const expected *e, const outputs *o, uint32_t r)
{
    double entropy = 0.0, all = 0.0, kept = 0.0;
    const float top = e->order[0] < 0 ? 0.0f : e->logits[e->order[0]];
    for (uint32_t i = 0; i < V; i++) {
        const double p = (double)e->probs[i], weight = exp((double)(e->logits[i] - top));
        entropy -= p > 0.0 ? p * log(p) : 0.0;
        all += weight;
        kept += p > 0.0 ? weight : 0.0;
        near_to(f, "a probability", (double)o->probs[r][i], p);
        near_to(f, "a logit of the kept set", (double)o->final_logits[r][i],
                p > 0.0 ? (double)e->logits[i] : -INFINITY);
    }
    near_to(f, "the entropy", (double)o->entropy[r], entropy);
    near_to(f, "the kept mass", (double)o->kept_mass[r],
            e->greedy    ? e->result.token >= 0
            : kept > 0.0 ? kept / all
                         : 0.0);
    same(f, "tokens kept", o->kept[r], e->result.kept);
    same(f, "the number of candidates", o->candidate_counts[r], e->result.kept);
    for (uint32_t j = 0; j < N; j++) {
        const int32_t id = e->order[j];
        same(f, "a candidate", o->candidate_ids[r][j], id);
        near_to(f, "a candidate's logit", (double)o->candidate_logits[r][j],
                id < 0 ? -INFINITY : (double)e->logits[id]);
        near_to(f, "a candidate's probability", (double)o->candidate_probs[r][j],
                id < 0 ? 0.0 : (double)e->probs[id]);
    }
    near_to(f, "the token's logprob", (double)o->logprobs[r], (double)e->result.logprob_final);
    same(f, "the token's rank", o->ranks[r], rank_of(e, e->result.token));
}

static void judge(cls_selftest_run *t, int stage, const expected *e, const outputs *o, uint32_t r)
{
    finding f = {""};
    char name[64], what[200] = "";
    judge_tokens(&f, e, o, r);
    if (stage == ST_REPORT)
        judge_set(&f, e, o, r);
    cls_selftest_name(t, cls_selftest_told[r], 0, name, sizeof name);
    if (f.text[0] != '\0')
        snprintf(what, sizeof what, "%s: %s", name, f.text);
    cls_selftest_count(t, stage, what);
}

/* ----------------------------------------------------------------------- calls */

static cls_status logprobs_of(cls_selftest_run *t, const cls_step *step)
{
    cls_logprobs_call call;
    cls_logprobs_call_default(&call, sizeof call);
    call.rows = ROWS;
    call.top_n = N;
    call.given_n = GIVEN;
    call.logits = step->logits;
    call.given_ids = step->given_ids;
    call.given_logprobs = step->given_logprobs;
    call.given_ranks = step->given_ranks;
    call.top_ids = step->top_ids;
    call.top_logprobs = step->top_logprobs;
    return cls_logprobs(t->sampler, t->queue, &call, 0, NULL, NULL);
}

/* A step with everything that can be told, which leaves the slots as they are. */
static void ask(cls_step *step, const cls_selftest_run *t, cl_mem logits, cl_mem out,
                const int32_t *slots)
{
#define ASK(field, place) step->field = (cls_buffer){out, offsetof(outputs, place)}
    cls_step_default(step, sizeof *step);
    step->rows = ROWS;
    step->logits.dtype = t->dtype;
    step->logits.buffer = logits;
    step->slots.host = slots;
    step->defer_accept = 1;
    step->logprob_kind = CLS_LOGPROB_FINAL;
    step->top_n = step->candidates_n = N;
    step->given_n = GIVEN;
    ASK(logprobs, logprobs);
    ASK(ranks, ranks);
    ASK(top_ids, top_ids);
    ASK(top_logprobs, top_logprobs);
    ASK(given_ids, given_ids);
    ASK(given_logprobs, given_logprobs);
    ASK(given_ranks, given_ranks);
    ASK(entropy, entropy);
    ASK(kept, kept);
    ASK(kept_mass, kept_mass);
    ASK(candidate_ids, candidate_ids);
    ASK(candidate_logits, candidate_logits);
    ASK(candidate_probs, candidate_probs);
    ASK(candidate_counts, candidate_counts);
    ASK(probs, probs);
    ASK(final_logits, final_logits);
#undef ASK
}

/* Both calls into one after the other of the outputs. */
static cls_status run(cls_selftest_run *t, outputs *o)
{
    const size_t size = V * cls_dtype_size(t->dtype);
    int32_t slots[ROWS];
    cl_mem logits = NULL, out = NULL;
    cls_step step;
    char *const rows = malloc(size * ROWS);
    cls_status status = CLS_OK;
    if (rows == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t which = cls_selftest_find(cls_selftest_told[r]);
        cls_selftest_row(cls_selftest_seed(which), cls_selftest_cases[which].row, t->dtype,
                         rows + r * size);
        slots[r] = (int32_t)which;
        o->given_ids[r][0] = 1000 + (int32_t)r;
        o->given_ids[r][1] = -1;
        o->given_ids[r][2] = (int32_t)V - 1;
    }
    status = cls_selftest_buffer(t, size * ROWS, rows, &logits);
    if (status == CLS_OK)
        status = cls_selftest_buffer(t, sizeof *o, o, &out);
    ask(&step, t, logits, out, slots);
    if (status == CLS_OK)
        status = logprobs_of(t, &step);
    if (status == CLS_OK)
        status = cls_selftest_read(t, out, sizeof *o, &o[1]);
    if (status == CLS_OK)
        status = cls_sample(t->sampler, t->queue, &step, 0, NULL, NULL);
    if (status == CLS_OK)
        status = cls_selftest_read(t, out, sizeof *o, &o[0]);
    if (logits != NULL)
        clReleaseMemObject(logits);
    if (out != NULL)
        clReleaseMemObject(out);
    free(rows);
    return status;
}

cls_status cls_selftest_tell(cls_selftest_run *t)
{
    outputs *const o = calloc(2, sizeof *o);
    expected *const e = malloc(sizeof *e);
    cls_status status = CLS_OK;
    if (o == NULL || e == NULL)
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    if (status == CLS_OK)
        status = run(t, o);
    for (uint32_t r = 0; r < ROWS && status == CLS_OK; r++) {
        const uint32_t which = cls_selftest_find(cls_selftest_told[r]);
        expect_raw(e, which);
        judge(t, ST_LOGPROBS, e, &o[1], r);
        status = expect_final(t, e, which);
        if (status == CLS_OK)
            judge(t, ST_REPORT, e, &o[0], r);
    }
    free(o);
    free(e);
    return status;
}
