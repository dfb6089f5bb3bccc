/* SPDX-License-Identifier: MIT */
/* Proves cls_host_verify() on small requests worked out by hand. check_verify_equal.c and
 * check_verify_law.c test random ones. */
#include "fixture.h"
#include "inputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 10, MOST = 6, METHODS = CLS_VERIFY_TYPICAL + 1 };

typedef struct request {
    float x[MOST + 1][VOCAB], q[MOST][VOCAB];
    int32_t ids[MOST], parents[MOST];
    uint32_t mask[MOST + 1][2];
    cls_params p;
    cls_host_row row;
    cls_host_drafts d;
    cls_host_verified v;
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
    cls_host_row_init(&r->row);
    cls_host_drafts_init(&r->d);
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

static void expect(request *r, const char *tokens, int accepted, int status, int line)
{
    const int n = (int)strlen(tokens);
    char got[MOST + 2] = "";
    must(cls_host_verify(&r->d, &r->v));
    for (int i = 0; i < r->v.emitted && i <= MOST; i++)
        got[i] = (char)('0' + r->v.tokens[i]);
    ck_assert_msg(strcmp(got, tokens) == 0 && r->v.emitted == n,
                  "line %d, method %d: emitted %s, not %s", line, (int)r->d.method, got, tokens);
    ck_assert_msg(r->v.accepted == accepted, "line %d, method %d: %d accepted, not %d", line,
                  (int)r->d.method, (int)r->v.accepted, accepted);
    ck_assert_msg(r->v.status == status, "line %d, method %d: status %d, not %d", line,
                  (int)r->d.method, (int)r->v.status, status);
    for (int i = n; i <= CLS_MAX_DRAFTS; i++)
        ck_assert_int_eq(r->v.tokens[i], -1);
    for (int i = 0; i < CLS_MAX_DRAFTS; i++) {
        ck_assert(i >= accepted ? r->v.nodes[i] == -1 : r->ids[r->v.nodes[i]] == r->v.tokens[i]);
        ck_assert(i >= accepted || r->d.parents != NULL || r->v.nodes[i] == i);
    }
}
#define EXPECT(r, tokens, accepted, status) expect((r), (tokens), (accepted), (status), __LINE__)

/* Proves that all methods agree where each row has one token. */
START_TEST(certain)
{
    request r;
    start(&r, _i, "34", "3 4 5");
    EXPECT(&r, "345", 2, 0);
    r.d.disable_bonus = 1;
    EXPECT(&r, "34", 2, 0);
    start(&r, _i, "94", "3 4 5");
    EXPECT(&r, "3", 0, 0);
    start(&r, _i, "36", "3 4 5");
    EXPECT(&r, "34", 1, 0);
    start(&r, _i, "", "7");
    EXPECT(&r, "7", 0, 0);
    r.d.disable_bonus = 1;
    EXPECT(&r, "7", 0, 0);
    /* An id outside the vocabulary ends the drafts before it, with disable_bonus or without. */
    for (uint32_t i = 0; i < 2; i++) {
        start(&r, _i, i ? "3y5" : "3x5", "3 4 5 6");
        r.d.disable_bonus = (int32_t)i;
        EXPECT(&r, "34", 1, 0);
    }
    start(&r, _i, "x", "3");
    r.d.disable_bonus = 1;
    EXPECT(&r, "3", 0, 0);

    start(&r, _i, "345", "3 4 5 6"); /* drafts are output, so penalties apply to them */
    r.p.presence_penalty = 50.0f;
    set_row(r.x[2], "45");
    set_row(r.x[3], "3456");
    r.p.no_repeat_ngram = 2;
    EXPECT(&r, "3456", 3, 0);
    r.ids[2] = 4;
    EXPECT(&r, "345", 2, 0);
}
END_TEST

START_TEST(rows_without_a_token)
{
    request r;
    /* A mask in the middle is empty: first a packed one, then one of bytes. */
    for (int kind = 0; kind < 2; kind++) {
        uint8_t bytes[4][12];
        memset(bytes, 1, sizeof bytes);
        start(&r, _i, "345", "3 4 5 6");
        memset(r.mask, 0xff, sizeof r.mask);
        r.row.mask = kind ? (const void *)bytes : r.mask;
        r.row.mask_kind = kind;
        r.d.mask_stride = kind ? sizeof bytes[0] : 2;
        EXPECT(&r, "3456", 3, 0);
        r.mask[2][0] = 0;
        memset(bytes[2], 0, sizeof bytes[2]);
        EXPECT(&r, "34", 2, CLS_ROW_EMPTY);
        r.d.disable_bonus = 1;
        EXPECT(&r, "34", 2, CLS_ROW_EMPTY);
        r.mask[0][0] = 0;
        memset(bytes[0], 0, sizeof bytes[0]);
        EXPECT(&r, "", 0, CLS_ROW_EMPTY);
    }
    start(&r, _i, "345", "3 4 9 6"); /* only the rows that are used report their status */
    r.x[0][0] = INFINITY;
    r.p.logit_bias.biases = (const cls_logit_bias[]){{0, -INFINITY}};
    r.p.logit_bias.count = 1;
    r.x[2][1] = r.x[3][1] = NAN;
    EXPECT(&r, "349", 2, CLS_ROW_INF | CLS_ROW_NAN);
    set_row(r.x[1], "8");
    EXPECT(&r, "38", 1, CLS_ROW_INF);
}
END_TEST

START_TEST(ends)
{
    const int32_t stop[] = {4, 8}, output[] = {1, 2};
    request r;
    start(&r, _i, "345", "3 4 5 6");
    r.p.stop_ids = (cls_ids){stop, 2};
    r.x[2][1] = NAN; /* this row is not reached */
    EXPECT(&r, "34", 2, CLS_ROW_STOPPED);
    r.ids[1] = 6; /* the target's token is the one that stops */
    EXPECT(&r, "34", 1, CLS_ROW_STOPPED);
    set_row(r.x[0], "8");
    EXPECT(&r, "8", 0, CLS_ROW_STOPPED);
    start(&r, _i, "34", "3 4 8"); /* the bonus token stops */
    r.p.stop_ids = (cls_ids){stop + 1, 1};
    EXPECT(&r, "348", 2, CLS_ROW_STOPPED);
    r.d.disable_bonus = 1;
    EXPECT(&r, "34", 2, 0);

    start(&r, _i, "345", "3 4 5 6");
    r.row.output = output;
    r.row.output_count = 2;
    for (uint32_t most = 3; most <= 7; most++) {
        static const char *const tokens[] = {"3", "34", "345", "3456", "3456"};
        r.p.max_tokens = most;
        EXPECT(&r, tokens[most - 3], most < 5 ? (int)most - 2 : 3,
               most < 7 ? CLS_ROW_STOPPED | CLS_ROW_LENGTH : 0);
    }
    r.p.max_tokens = 4;
    r.ids[1] = 7;
    EXPECT(&r, "34", 1, CLS_ROW_STOPPED | CLS_ROW_LENGTH);
    r.p.max_tokens = 2;
    EXPECT(&r, "", 0, CLS_ROW_STOPPED | CLS_ROW_SKIPPED);
    r.p.max_tokens = 0;
    r.p.stop_ids = (cls_ids){output + 1, 1};
    EXPECT(&r, "", 0, CLS_ROW_STOPPED | CLS_ROW_SKIPPED);
}
END_TEST

/* Proves that the drafts' distributions decide for the methods that use them, and for no others. */
START_TEST(distributions)
{
    const int method = _i % 2 ? CLS_VERIFY_BLOCK : CLS_VERIFY_STANDARD, logits = _i / 2;
    request r;
    start(&r, method, "345", "3 4 5 6");
    r.d.draft = r.q;
    r.d.draft_kind = logits ? CLS_DRAFT_LOGITS : CLS_DRAFT_PROBS;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t t = 0; t < VOCAB; t++)
            r.q[i][t] = logits ? -5.0f : 0.1f;
    EXPECT(&r, "3456", 3, 0);
    /* The distribution cannot give this draft, so the target's token is emitted. */
    r.q[1][4] = logits ? -INFINITY : 0.0f;
    EXPECT(&r, "34", 1, 0);
    r.d.disable_bonus = 1;
    EXPECT(&r, "34", 1, 0);
    r.q[1][4] = logits ? 0.0f : 1e-10f;
    EXPECT(&r, "345", 3, 0);
    for (uint32_t t = 0; t < VOCAB; t++)
        r.q[1][t] = NAN;
    EXPECT(&r, "34", 1, 0);
    r.q[1][4] = INFINITY; /* the probability counts as 1 */
    EXPECT(&r, "345", 3, 0);
    for (int other = 0; other < 2; other++) { /* these methods do not use the distribution */
        static const int others[] = {CLS_VERIFY_MATCH, CLS_VERIFY_TYPICAL};
        r.d.method = others[other];
        r.q[1][4] = 0.0f;
        EXPECT(&r, "345", 3, 0);
    }
    r.d.method = method;
    r.q[1][4] = logits ? -INFINITY : 0.0f;
    r.p.temperature = 0.0f; /* a greedy request does not use it either */
    EXPECT(&r, "345", 3, 0);

    /* Where the draft's distribution covers the target's everywhere, no residual is left: the row
     * draws from the target. */
    start(&r, method, "0", "0123456789");
    r.d.draft = r.q;
    r.d.draft_kind = CLS_DRAFT_PROBS;
    for (uint32_t t = 0; t < VOCAB; t++)
        r.q[0][t] = 2.0f;
    uint32_t taken = 0;
    for (r.row.position = 0; r.row.position < 50; r.row.position++) {
        cls_host_result own = {0};
        must(cls_host_verify(&r.d, &r.v));
        must(cls_host_sample(&r.row, &own));
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
            must(cls_host_verify(&r.d, &r.v));
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
        must(cls_host_verify(&r.d, &r.v));
        taken[1] += r.v.accepted == 1;
        ck_assert(r.v.emitted == 1 && r.v.tokens[0] == (r.v.accepted ? 3 : 4));
        ck_assert_int_eq(r.v.status, r.v.accepted ? CLS_ROW_STOPPED : 0);
    }
    ck_assert_msg(taken[1] > 30 && taken[1] < 70, "%u of 100", taken[1]);
}
END_TEST

START_TEST(typical)
{
    /* The probabilities are 1/2, 1/4, 1/8 and 1/8. Their entropy is 1.75 bits; 2^-1.75 is .297. */
    static const struct {
        float epsilon, delta;
        const char *accepted;
    } cases[] = {
        {0.3f, 1.0f, "0"},      {0.26f, 1.0f, "0"},    {0.24f, 1.0f, "01"}, {0.13f, 1.0f, "01"},
        {0.12f, 1.0f, "0123"},  {1.0f, 1.69f, ""},     {1.0f, 1.67f, "0"},  {1.0f, 0.85f, "0"},
        {1.0f, 0.83f, "01"},    {1.0f, 0.41f, "0123"}, {1.0f, 16.0f, ""},   {0.51f, 16.0f, ""},
        {1e-30f, 1.0f, "0123"},
    };
    request r;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int32_t id = 0; id < 5; id++) {
            start(&r, CLS_VERIFY_TYPICAL, "0", "0123 9");
            for (int i = 1; i < 4; i++)
                r.x[0][i] = (float)(-i * log(2.0) + (i == 3 ? log(2.0) : 0.0));
            r.p.temperature = 0.5f;
            for (int i = 0; i < 4; i++)
                r.x[0][i] *= 0.5f;
            r.ids[0] = id;
            r.d.epsilon = cases[c].epsilon;
            r.d.delta = cases[c].delta;
            cls_host_result own = {0};
            must(cls_host_verify(&r.d, &r.v));
            must(cls_host_sample(&r.row, &own));
            const int taken = strchr(cases[c].accepted, '0' + id) != NULL;
            ck_assert_msg(r.v.accepted == taken, "case %zu, token %d: %d", c, (int)id,
                          (int)r.v.accepted);
            ck_assert_int_eq(r.v.tokens[0], taken ? id : own.token);
            ck_assert_int_eq(r.v.tokens[1], taken ? 9 : -1);
        }
    r.p.top_k = 2; /* a token that a truncation removed is not accepted, however likely it is */
    r.d.epsilon = 1e-30f;
    for (r.ids[0] = 0; r.ids[0] < 4; r.ids[0]++) {
        must(cls_host_verify(&r.d, &r.v));
        ck_assert_int_eq(r.v.accepted, r.ids[0] < 2);
    }
}
END_TEST

/* Relaxed acceptance of a single draft. The probabilities are 1/2, 1/4, 1/8 and 1/8. */
START_TEST(relaxed)
{
    static const struct {
        uint32_t k;
        float delta;
        const char *accepted;
    } cases[] = {
        {1, 1.0f, "0"},   {1, 0.0f, "0"},   {2, 1.0f, "01"},    {2, 0.24f, "0"},
        {2, 0.26f, "01"}, {9, 0.37f, "01"}, {9, 0.38f, "0123"}, {3, 0.38f, "0123"},
        {2, 0.38f, "01"}, {9, 0.0f, "0"},
    };
    request r;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int greedy = 0; greedy < 2; greedy++)
            for (int32_t id = 0; id < 6; id++) {
                start(&r, _i, "0", "0123 9");
                r.x[0][1] = (float)log(0.5);
                r.x[0][2] = r.x[0][3] = (float)log(0.25);
                r.p.temperature = greedy ? 0.0f : 1.0f;
                r.p.relaxed_top_k = cases[c].k;
                r.p.relaxed_delta = cases[c].delta;
                r.ids[0] = id < 5 ? id : -1;
                r.mask[0][0] = r.mask[1][0] = ~(id == 1 && greedy && c == 2 ? 2u : 0u);
                r.row.mask = r.mask;
                r.d.mask_stride = 2;
                cls_host_result own = {0};
                must(cls_host_verify(&r.d, &r.v));
                must(cls_host_sample(&r.row, &own));
                /* A masked token is not accepted. */
                const int taken =
                    (strchr(cases[c].accepted, '0' + id) != NULL && (r.mask[0][0] >> id & 1u)) ||
                    own.token == r.ids[0];
                ck_assert_msg(r.v.accepted == taken, "case %zu, greedy %d, token %d: %d", c, greedy,
                              (int)id, (int)r.v.accepted);
                ck_assert_int_eq(r.v.tokens[0], taken ? id : own.token);
                ck_assert_int_eq(r.v.tokens[1], taken ? 9 : -1);
            }
    r.p.temperature = 1.0f;
    r.p.top_k = 2; /* the set has neither 2 nor 3 */
    r.p.relaxed_top_k = 9;
    r.p.relaxed_delta = 1.0f;
    for (r.ids[0] = 0; r.ids[0] < 4; r.ids[0]++) {
        must(cls_host_verify(&r.d, &r.v));
        ck_assert_int_eq(r.v.accepted, r.ids[0] < 2);
    }
    r.p.mirostat = 2; /* one token a call */
    r.ids[0] = 0;
    must(cls_host_verify(&r.d, &r.v));
    ck_assert(r.v.emitted == 1 && r.v.accepted == 0);
}
END_TEST

/* The phase is the row's: what begins or ends the thinking may be a draft. */
START_TEST(relaxed_phases)
{
    static const int32_t mark = 4;
    const cls_ids marks = {&mark, 1};
    request r;
    start(&r, _i, "1411", "01 04 01 01 0");
    r.p.temperature = 0.0f;
    r.p.relaxed_top_k = 2;
    r.p.relaxed_delta = 1.0f;
    EXPECT(&r, "14110", 4, 0);
    r.p.thinking_end = marks;
    EXPECT(&r, "140", 2, 0);
    r.p.thinking_start = marks;
    r.p.thinking_end = (cls_ids){NULL, 0};
    EXPECT(&r, "0", 0, 0);
    r.ids[0] = 0;
    set_row(r.x[1], "40");
    EXPECT(&r, "04110", 4, 0);
    r.p.relaxed_delta = 0.0f; /* the draft of a row in the thinking must be as likely as any */
    EXPECT(&r, "040", 2, 0);
    r.p.relaxed_delta = 1.0f;
    r.row.prompt = &mark; /* the prompt begins it */
    r.row.prompt_count = 1;
    r.ids[0] = 1;
    EXPECT(&r, "14110", 4, 0);
    r.d.disable_bonus = 1;
    EXPECT(&r, "1411", 4, 0);
    const int32_t forced[] = {7, 8}; /* forced ids come first, and end the thinking */
    r.p.thinking_forced = (cls_ids){forced, 2};
    r.p.thinking_budget = 1;
    EXPECT(&r, "17", 1, CLS_ROW_FORCED);
    r.ids[1] = 7;
    r.ids[2] = 8;
    EXPECT(&r, "1780", 3, CLS_ROW_FORCED);
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
 * the request thinks, and else what cls_host_sample() draws there. After the thinking the text thus
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
        r.p.thinking_end = (cls_ids){&end, n % 4 != 0};
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
        must(cls_host_verify(&r.d, &r.v));
        int thinks = 1;
        for (int32_t at = 0;; at++) {
            cls_host_row row = r.row;
            cls_host_result own = {.probs = probs};
            cls_params params = r.p;
            row.params = &params;
            row.logits = r.x[at];
            row.mask = r.mask[at];
            row.output = r.ids;
            row.output_count = (uint32_t)at;
            row.position += (uint32_t)at;
            must(cls_host_sample(&row, &own));
            const int32_t token = own.token;
            if (params.temperature == 0.0f) { /* the formula is for temperature 1 */
                params.temperature = 1.0f;
                params.top_k = 0;
                must(cls_host_sample(&row, &own));
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
            thinks &= expected != end || r.p.thinking_end.count == 0;
        }
    }
    ck_assert_msg(likely > 500 && after > 50, "%u relaxed, %u after the thinking", likely, after);
}
END_TEST

START_TEST(greedy_and_modes)
{
    for (int method = 0; method < METHODS; method++) {
        request r;
        start(&r, method, "34", "35 48 67");
        r.p.temperature = 0.0f;
        r.p.mirostat = 2; /* a greedy request ignores mirostat */
        EXPECT(&r, "346", 2, 0);
        r.ids[1] = 8;
        EXPECT(&r, "34", 1, 0);
        for (int kind = 0; kind < 3; kind++) {
            start(&r, method, "34", "3 4 5");
            r.p.mirostat = kind == 0 ? 2 : 0;
            r.p.adaptive_target = kind == 1 ? 0.5f : -1.0f;
            r.p.top_p = 0.9f;
            r.p.top_p_decay = kind == 2 ? 0.5f : 1.0f;
            EXPECT(&r, "3", 0, 0);
            r.d.disable_bonus = 1;
            EXPECT(&r, "3", 0, 0);
        }
    }
}
END_TEST

START_TEST(trees)
{
    /* The tree, as node:token. Of two equal drafts of one parent, 4 and 5, the first counts.
     *
     *            0:3       1:4
     *          2:5 3:6   4:6 5:6 */
    static const int32_t parents[] = {-1, -1, 0, 0, 1, 1};
    for (int greedy = 0; greedy < 2; greedy++) {
        request r;
        start(&r, CLS_VERIFY_MATCH, "345666", "4 5 6 0 0 8 9");
        r.p.temperature = greedy ? 0.0f : r.p.temperature;
        r.d.parents = parents;
        EXPECT(&r, "468", 2, 0);
        ck_assert(r.v.nodes[0] == 1 && r.v.nodes[1] == 4);
        r.d.disable_bonus = 1; /* the path ends in a leaf */
        EXPECT(&r, "46", 2, 0);
        set_row(r.x[0], "3");
        EXPECT(&r, "35", 2, 0);
        ck_assert(r.v.nodes[0] == 0 && r.v.nodes[1] == 2);
        set_row(r.x[1], "6");
        EXPECT(&r, "36", 2, 0);
        ck_assert(r.v.nodes[0] == 0 && r.v.nodes[1] == 3);
        set_row(r.x[1], "4"); /* none of the row's drafts is its token */
        EXPECT(&r, "34", 1, 0);
        set_row(r.x[0], "9");
        EXPECT(&r, "9", 0, 0);
        r.ids[0] = -1;
        EXPECT(&r, "9", 0, 0);
        set_row(r.x[0], "4"); /* penalties apply to the path, and to no other draft */
        r.p.presence_penalty = 100.0f;
        set_row(r.x[2], "456");
        r.ids[4] = 5;
        EXPECT(&r, "45", 2, 0);
    }
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_loop_test(certain, METHODS);
    add_loop_test(rows_without_a_token, METHODS);
    add_loop_test(ends, METHODS);
    add_loop_test(distributions, 4);
    add_test(blocks);
    add_test(typical);
    add_loop_test(relaxed, METHODS);
    add_loop_test(relaxed_phases, METHODS);
    add_loop_test(relaxed_texts, METHODS);
    add_test(greedy_and_modes);
    add_test(trees);
    return fixture_end();
}
