/* SPDX-License-Identifier: MIT */
/* Proves of verifications on the host what no text says: how often drafts are accepted whose
 * distribution is known, and that each token of relaxed texts is the draft where a formula accepts
 * it. drafts.run has requests that are worked out by hand, check_verify_law.c the laws. */
#include "fixture.h"
#include "rows/kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 10, MOST = 6, METHODS = CLS_VERIFY_TYPICAL + 1 };

typedef struct request {
    float x[MOST + 1][VOCAB], q[MOST][VOCAB];
    int32_t ids[MOST], parents[MOST];
    uint32_t mask[MOST + 1][2];
    cls_params p;
    one_row row;
    one_drafts d;
    one_verified v;
} request;

/* Returns the token that a character stands for: a digit, or 'x' and 'y' for ids outside the
 * vocabulary. */
static int32_t id_of(char c) { return c == 'x' ? -1 : c == 'y' ? VOCAB : c - '0'; }

/* Sets a row's logits: it allows the given tokens, the likelier first. */
static void set_row(float *x, const char *tokens)
{
    for (int i = 0; i < VOCAB; i++)
        x[i] = -INFINITY;
    for (int i = 0; tokens[i] != 0; i++)
        x[id_of(tokens[i])] = (float)-i;
}

/* Starts a request with these drafts and rows. Spaces divide the rows, each of which lists its
 * tokens; further rows have token 0. */
static void start(request *r, int method, const char *drafts, const char *rows)
{
    memset(r, 0, sizeof *r);
    cls_params_init(&r->p);
    one_row_init(&r->row);
    one_drafts_init(&r->d);
    r->row.logits = r->x;
    r->row.vocab = VOCAB;
    r->row.params = &r->p;
    r->row.position = 1000;
    r->d.row = &r->row;
    r->d.method = method;
    r->d.draft_count = (uint32_t)strlen(drafts);
    r->d.ids = r->ids;
    for (uint32_t i = 0; i <= MOST; i++) {
        char tokens[VOCAB + 1] = "0";
        set_row(r->x[i], sscanf(rows, "%10s", tokens) == 1 ? tokens : "0");
        rows += strcspn(rows, " ");
        rows += *rows == ' ';
    }
    for (uint32_t i = 0; i < r->d.draft_count; i++)
        r->ids[i] = id_of(drafts[i]);
}

/* Where a draft's distribution covers the target's everywhere, no residual is left: the row draws
 * from the target. */
START_TEST(no_residual)
{
    request r;
    start(&r, _i ? CLS_VERIFY_BLOCK : CLS_VERIFY_STANDARD, "0", "0123456789");
    r.d.draft = r.q;
    r.d.draft_kind = CLS_DRAFT_PROBS;
    for (uint32_t t = 0; t < VOCAB; t++)
        r.q[0][t] = 2.0f;
    uint32_t taken = 0;
    for (r.row.position = 0; r.row.position < 50; r.row.position++) {
        one_result own = {0};
        must(one_verify(&r.d, &r.v));
        must(one_sample(&r.row, &own));
        taken += (uint32_t)r.v.accepted;
        ck_assert(r.v.accepted == 1 || (r.v.emitted == 1 && r.v.tokens[0] == own.token));
    }
    ck_assert(taken > 10 && taken < 45);
}
END_TEST

START_TEST(blocks)
{
    /* p(3) is half of q(3), but p(5) is twice q(5): p and q give both together the same
     * probability. */
    request r;
    uint32_t taken[2] = {0, 0};
    for (int block = 0; block < 2; block++) {
        start(&r, block ? CLS_VERIFY_BLOCK : CLS_VERIFY_STANDARD, "35", "34 5 7");
        r.x[0][4] = 0.0f;
        r.d.draft = r.q;
        r.d.draft_kind = CLS_DRAFT_PROBS;
        r.q[0][3] = 0.999f;
        r.q[1][5] = r.q[1][6] = 0.499f;
        for (r.row.position = 0; r.row.position < 1000; r.row.position += 10) {
            must(one_verify(&r.d, &r.v));
            taken[block] += r.v.accepted == 2;
            ck_assert(r.v.accepted == 0 ? r.v.tokens[0] == 4
                                        : r.v.accepted == 2 && r.v.tokens[2] == 7);
        }
    }
    ck_assert_msg(taken[0] > 30 && taken[0] < 70 && taken[1] == 100, "%u and %u of 100", taken[0],
                  taken[1]);
    /* Drafts after a stop id do not count. */
    const int32_t stop = 3;
    r.p.stop_ids = (cls_ids){&stop, 1};
    for (r.row.position = taken[1] = 0; r.row.position < 1000; r.row.position += 10) {
        must(one_verify(&r.d, &r.v));
        taken[1] += r.v.accepted == 1;
        ck_assert(r.v.emitted == 1 && r.v.tokens[0] == (r.v.accepted ? 3 : 4));
        ck_assert_int_eq(r.v.status, r.v.accepted ? CLS_ROW_STOPPED : 0);
    }
    ck_assert_msg(taken[1] > 30 && taken[1] < 70, "%u of 100", taken[1]);
}
END_TEST

/* Returns 1 if the formula accepts a token of a distribution, 0 if not, and -1 if it is too close
 * to tell in floats. */
static int formula_accepts(const float *p, int32_t id, const cls_params *params)
{
    uint32_t likelier = 0;
    float top = 0.0f;
    for (int32_t i = 0; i < VOCAB; i++) {
        top = fmaxf(top, p[i]);
        likelier += p[i] > p[id];
        if (i != id && p[i] != p[id] && fabsf(p[i] - p[id]) < 1e-6f)
            return -1;
    }
    if (fabsf(top - p[id] - params->relaxed_delta) < 1e-6f)
        return -1;
    return p[id] > 0.0f && likelier < params->relaxed_top_k && top - p[id] <= params->relaxed_delta;
}

/* Random rows, penalties, masks and drafts: each token is the draft if the formula accepts it while
 * the request thinks, and else what one_sample() draws there. After the thinking the text thus
 * has the law of a text without drafts. */
START_TEST(relaxed_texts)
{
    rng random = {fixture_seed() + 21}, *const g = &random;
    uint32_t likely = 0, after = 0;
    for (uint32_t n = 0; n < 4000; n++) {
        const int32_t end = (int32_t)rng_below(g, VOCAB);
        float probs[VOCAB];
        request r;
        start(&r, _i, "000000", "0 0 0 0 0 0 0");
        r.p.seed = rng_bits(g);
        r.p.temperature = n % 3 == 0 ? 0.0f : 0.8f;
        r.p.top_k = n % 2 ? 0 : 6;
        r.p.presence_penalty = n % 5 ? 0.3f : 0.0f;
        r.p.no_repeat_ngram = n % 7 ? 0 : 2;
        r.p.thinking_ends = (cls_sequences){&(cls_ids){&end, 1}, n % 4 != 0};
        r.p.relaxed_top_k = 1 + rng_below(g, 5);
        r.p.relaxed_delta = (float)rng_below(g, 11) * 0.1f;
        for (uint32_t i = 0; i < (MOST + 1) * VOCAB; i++)
            r.x[i / VOCAB][i % VOCAB] = (float)(2.0 * rng_normal(g));
        for (uint32_t i = 0; i <= MOST; i++)
            r.mask[i][0] = (uint32_t)rng_bits(g) | (uint32_t)rng_bits(g) | 1u;
        for (uint32_t i = 0; i < MOST; i++)
            r.ids[i] = (int32_t)rng_below(g, VOCAB);
        r.row.mask = r.mask;
        r.d.mask_stride = 2;
        must(one_verify(&r.d, &r.v));
        int thinks = 1;
        for (int32_t at = 0;; at++) {
            one_row row = r.row;
            one_result own = {.probs = probs};
            cls_params params = r.p;
            row.params = &params;
            row.logits = r.x[at];
            row.mask = r.mask[at];
            row.output = r.ids;
            row.output_count = (uint32_t)at;
            row.position += (uint32_t)at;
            must(one_sample(&row, &own));
            const int32_t token = own.token;
            if (params.temperature == 0.0f) { /* the formula is for temperature 1 */
                params.temperature = 1.0f;
                params.top_k = 0;
                must(one_sample(&row, &own));
            }
            const int judged = at < MOST && thinks ? formula_accepts(probs, r.ids[at], &r.p) : 0;
            if (judged < 0)
                break;
            const int32_t expected = judged ? r.ids[at] : token;
            ck_assert_msg(at < r.v.emitted && r.v.tokens[at] == expected,
                          "text %u: token %d is %d, not %d", n, at, (int)r.v.tokens[at], expected);
            likely += judged && expected != token;
            after += !thinks;
            if (at == MOST || expected != r.ids[at]) {
                ck_assert_int_eq(r.v.emitted, at + 1);
                break;
            }
            thinks &= expected != end || r.p.thinking_ends.count == 0;
        }
    }
    ck_assert_msg(likely > 500 && after > 50, "%u relaxed, %u after the thinking", likely, after);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_loop_test(no_residual, 2);
    add_test(blocks);
    add_loop_test(relaxed_texts, METHODS);
    return fixture_end();
}
