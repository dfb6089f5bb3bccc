/* SPDX-License-Identifier: MIT */
/* Proves that one_verify(), where chance accepts drafts, decides as double precision does, and that
 * the emitted tokens follow the target's distribution, whatever distribution the drafts are drawn
 * from. verify.run and drafts.run prove that devices give the same tokens. */
#include "fixture.h"
#include "oracle.h"
#include "rows/kinds.h"
#include "core/philox.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------ models */

enum { VOCAB = 16, FIRST = 5, LONGEST = 8, DRAW = 3, FEW = 4 };

/* Models in which a token depends on the one before it. */
typedef struct models {
    float target[VOCAB][VOCAB], draft[VOCAB][VOCAB],
        probs[VOCAB][VOCAB]; /* logits, and the draft's probabilities */
    double p[VOCAB][VOCAB], q[VOCAB][VOCAB];
    /* The draft's likeliest tokens, likeliest last, and their probabilities, which are 0 for all
     * others. */
    int32_t few[VOCAB][FEW];
    float few_probs[VOCAB][FEW];
    double few_q[VOCAB][VOCAB];
    cls_params params;
} models;

enum { SAME, NEGATIVE, ONE_HOT, DISJOINT, FILTERED, PENALIZED, PAIRS };

static void make_few(models *m, int32_t a)
{
    double sum = 0.0;
    memset(m->few_q[a], 0, sizeof m->few_q[a]);
    for (int i = FEW; i-- > 0;) {
        int32_t best = -1;
        for (int32_t b = 0; b < VOCAB; b++)
            if (m->few_q[a][b] == 0.0 && (best < 0 || m->q[a][b] > m->q[a][best]))
                best = b;
        m->few[a][i] = best;
        m->few_q[a][best] = fmax(m->q[a][best], 1e-300); /* listed */
        sum += m->q[a][best];
    }
    for (int i = 0; i < FEW; i++) {
        double *const q = &m->few_q[a][m->few[a][i]];
        *q = *q > 1e-200 ? *q / sum : 0.0;
        m->few_probs[a][i] = (float)*q;
    }
}

static void make_models(models *m, int pair, rng *r)
{
    cls_params_init(&m->params);
    m->params.seed = rng_bits(r);
    m->params.stream = rng_bits(r);
    if (pair == FILTERED) {
        m->params.temperature = 0.7f;
        m->params.top_k = 9;
        m->params.top_p = 0.9f;
    }
    if (pair == PENALIZED) {
        m->params.frequency_penalty = 2.0f;
        m->params.repetition_penalty = 1.5f;
        m->params.penalty_window = 1; /* depends on the token before, too */
    }
    for (int32_t a = 0; a < VOCAB; a++) {
        double sum = 0.0;
        for (int b = 0; b < VOCAB; b++) {
            float x = (float)(1.5 * rng_normal(r)), y = (float)rng_normal(r);
            if (pair == SAME || pair == NEGATIVE)
                y = pair == SAME ? x : -x;
            if (pair == ONE_HOT)
                y = b == (a * 5 + 2) % VOCAB ? y : -INFINITY;
            if (pair == DISJOINT)
                *(b % 2 ? &x : &y) = -INFINITY;
            m->target[a][b] = x;
            m->draft[a][b] = y;
            sum += exp((double)y);
        }
        for (int b = 0; b < VOCAB; b++) {
            m->q[a][b] = exp((double)m->draft[a][b]) / sum;
            m->probs[a][b] = (float)m->q[a][b];
        }
        make_few(m, a);
        oracle o;
        one_row row = host_row(m->target[a], VOCAB, &m->params);
        row.output = &a;
        row.output_count = 1;
        ck_assert(oracle_make(&o, &row));
        oracle_probs(&o, m->p[a]);
        oracle_free(&o);
    }
}

static int32_t draw(const double *law, rng *r)
{
    double rest = rng_unit(r);
    int32_t i = 0, last = 0;
    for (; i < VOCAB && rest >= 0.0; i++)
        if (law[i] > 0.0) {
            rest -= law[i];
            last = i;
        }
    return last;
}

/* A verification of drafts from them. */
typedef struct trial {
    const models *m;
    int method, kind;
    uint32_t n, position;
    int32_t before[LONGEST + 1]; /* each row's token before: the text's latest, and the drafts */
    one_verified v;
} trial;

static const double *law_of(const trial *t, uint32_t k)
{
    return t->kind == CLS_DRAFT_SPARSE ? t->m->few_q[t->before[k]] : t->m->q[t->before[k]];
}

static void run(trial *t, rng *r)
{
    float target[LONGEST + 1][VOCAB], draft[LONGEST][VOCAB], few[LONGEST][FEW];
    int32_t tokens[LONGEST][FEW];
    one_drafts d;
    for (uint32_t k = 0; k < t->n; k++)
        t->before[k + 1] =
            t->kind == CLS_DRAFT_NONE ? (t->before[k] * 7 + 3) % VOCAB : draw(law_of(t, k), r);
    for (uint32_t k = 0; k <= t->n; k++)
        memcpy(target[k], t->m->target[t->before[k]], sizeof target[k]);
    for (uint32_t k = 0; k < t->n; k++)
        memcpy(draft[k],
               t->kind == CLS_DRAFT_PROBS ? t->m->probs[t->before[k]] : t->m->draft[t->before[k]],
               sizeof draft[k]);
    for (uint32_t k = 0; k < t->n; k++) {
        memcpy(few[k], t->m->few_probs[t->before[k]], sizeof few[k]);
        memcpy(tokens[k], t->m->few[t->before[k]], sizeof tokens[k]);
    }
    one_row row = host_row(target, VOCAB, &t->m->params);
    row.position = t->position;
    row.draw = DRAW;
    row.output = t->before;
    row.output_count = 1;
    one_drafts_init(&d);
    d.row = &row;
    d.draft_count = t->n;
    d.method = t->method;
    d.ids = t->before + 1;
    d.draft = draft;
    d.draft_kind = t->kind;
    if (t->kind == CLS_DRAFT_SPARSE) {
        d.draft = few;
        d.draft_tokens = &tokens[0][0];
        d.draft_width = FEW;
    }
    must(one_verify(&d, &t->v));
    ck_assert(t->v.emitted == t->v.accepted + 1 && t->v.status == 0);
}

/* ------------------------------------------------------------- in double precision */

static const double near = 1e-6; /* nearer than that, roundings decide */

static double random_unit(const trial *t, uint32_t purpose, uint32_t at)
{
    const cls_params *const p = &t->m->params;
    const u32 seed[2] = {(u32)p->seed, (u32)(p->seed >> 32)},
              stream[2] = {(u32)p->stream, (u32)(p->stream >> 32)};
    return (double)philox_bits(purpose, seed, stream, t->position + at, DRAW) * 0x1p-64;
}

static double p_of(const trial *t, uint32_t k, int32_t id) { return t->m->p[t->before[k]][id]; }
static double q_of(const trial *t, uint32_t k, int32_t id)
{
    return t->kind == CLS_DRAFT_NONE ? (double)(id == t->before[k + 1]) : law_of(t, k)[id];
}
static double left_of(const trial *t, uint32_t k, double reach, int32_t id)
{
    return fmax(reach * p_of(t, k, id) - q_of(t, k, id), 0.0);
}
static double sum_left(const trial *t, uint32_t k, double reach)
{
    double sum = 0.0;
    for (int32_t i = 0; i < VOCAB; i++)
        sum += left_of(t, k, reach, i);
    return sum;
}

/* a < b, or -1 if that is a matter of rounding. */
static int below(double a, double b) { return fabs(a - b) < near ? -1 : a < b; }

/* The number of accepted drafts, and the reach; -1: a rounding decides. */
static int judge(const trial *t, double *reach)
{
    double reached[LONGEST + 1] = {1.0};
    const int n = (int)t->n;
    *reach = 1.0;
    for (int k = 0; k < n && t->method != CLS_VERIFY_BLOCK; k++) {
        const int32_t d = t->before[k + 1];
        const double p = p_of(t, (uint32_t)k, d);
        double h = 0.0,
               u = random_unit(t, CLS_PURPOSE_ACCEPT, (uint32_t)k) * q_of(t, (uint32_t)k, d);
        for (int32_t i = 0; i < VOCAB && t->method == CLS_VERIFY_TYPICAL; i++)
            h -= p_of(t, (uint32_t)k, i) > 0.0
                     ? p_of(t, (uint32_t)k, i) * log(p_of(t, (uint32_t)k, i))
                     : 0.0;
        if (t->method == CLS_VERIFY_TYPICAL)
            u = fmin(0.09, 0.3 * exp(-h));
        if (below(u, p) != 1)
            return below(u, p) < 0 ? -1 : k;
    }
    if (t->method != CLS_VERIFY_BLOCK)
        return n;
    for (uint32_t k = 0; k < t->n; k++)
        reached[k + 1] =
            fmin(1.0, reached[k] * p_of(t, k, t->before[k + 1]) / q_of(t, k, t->before[k + 1]));
    for (int i = n; i > 0; i--) {
        const double u = random_unit(t, CLS_PURPOSE_BLOCK + (uint32_t)i - 1, 0);
        const double left = i == n ? reached[i] : sum_left(t, (uint32_t)i, reached[i]);
        const int good = below(i == n ? u : u * (left + 1.0 - reached[i]), left);
        *reach = reached[i];
        if (good != 0)
            return good < 0 ? -1 : i;
    }
    *reach = 1.0;
    return 0;
}

/* Whether the result of a verification was certain in advance; fails if the result differs. */
static int decides_alike(const trial *t)
{
    double reach;
    const int accepted = judge(t, &reach);
    if (accepted < 0)
        return 0;
    ck_assert_msg(t->v.accepted == accepted, "%d drafts accepted, not %d", (int)t->v.accepted,
                  accepted);
    if (accepted == (int)t->n || t->method == CLS_VERIFY_TYPICAL)
        return 1;
    const uint32_t at = (uint32_t)accepted;
    double rest = random_unit(t, CLS_PURPOSE_RESIDUAL, at) * sum_left(t, at, reach);
    const int32_t token = t->v.tokens[accepted];
    for (int32_t i = 0; i < token; i++)
        rest -= left_of(t, at, reach, i);
    ck_assert_msg(rest > -near && rest < left_of(t, at, reach, token) + near,
                  "residual %d: %g of %g", (int)token, rest, left_of(t, at, reach, token));
    return 1;
}

/* --------------------------------------------------------------------------- law */

static void follows(const char *what, const trial *t, const double *law, const uint32_t *counts,
                    uint32_t n, uint32_t draws)
{
    double statistic = NAN, limit = NAN;
    ck_assert_msg(oracle_chi_square(law, counts, n, draws, &statistic, &limit),
                  "method %d, draft kind %d, %u drafts: %s: chi-square %g, limit %g", t->method,
                  t->kind, t->n, what, statistic, limit);
}

START_TEST(law)
{
    static const uint32_t lengths[] = {1, 3, LONGEST};
    const int pair = _i / 8;
    const uint32_t trials = fixture_by_size(500, 5000, 20000);
    rng r = {fixture_seed() + 200 + (uint64_t)_i};
    models m;
    double law1[VOCAB], law2[VOCAB] = {0}, law3[VOCAB] = {0}, both[VOCAB * VOCAB];
    make_models(&m, pair, &r);
    memcpy(law1, m.p[FIRST], sizeof law1);
    for (int a = 0; a < VOCAB; a++)
        for (int b = 0; b < VOCAB; b++) {
            both[a * VOCAB + b] = law1[a] * m.p[a][b];
            law2[b] += law1[a] * m.p[a][b];
        }
    for (int a = 0; a < VOCAB; a++)
        for (int b = 0; b < VOCAB; b++)
            law3[b] += law2[a] * m.p[a][b];
    for (int length = 0; length < 3; length++) {
        uint32_t count1[VOCAB] = {0}, count2[VOCAB] = {0}, count3[VOCAB] = {0},
                 count[VOCAB * VOCAB] = {0}, predicted = 0;
        trial t = {.m = &m, .kind = _i / 2 % 4, .n = lengths[length], .before = {FIRST}};
        t.method = _i % 2 ? CLS_VERIFY_BLOCK : CLS_VERIFY_STANDARD;
        for (uint32_t i = 0; i < trials; i++) {
            t.position += 16;
            run(&t, &r);
            predicted += (uint32_t)decides_alike(&t);
            ck_assert(pair != SAME || t.kind != CLS_DRAFT_LOGITS || t.v.accepted == (int32_t)t.n);
            for (int32_t *token = t.v.tokens + 1; token < t.v.tokens + 3; token++)
                if (*token < 0) /* not emitted yet: the target itself goes on */
                    *token = draw(m.p[token[-1]], &r);
            count1[t.v.tokens[0]]++;
            count2[t.v.tokens[1]]++;
            count3[t.v.tokens[2]]++;
            count[t.v.tokens[0] * VOCAB + t.v.tokens[1]]++;
        }
        ck_assert_msg(predicted * 50 > trials * 49, "%u of %u decisions were certain", predicted,
                      trials);
        follows("first token", &t, law1, count1, VOCAB, trials);
        follows("second token", &t, law2, count2, VOCAB, trials);
        follows("third token", &t, law3, count3, VOCAB, trials);
        follows("first two tokens", &t, both, count, VOCAB * VOCAB, trials);
    }
}
END_TEST

/* Texts made by call after call, each at the position that the one before has reached: no call may
 * know what an earlier one has made of a random number. */
START_TEST(texts)
{
    const uint32_t calls = fixture_by_size(1000, 10000, 50000);
    rng r = {fixture_seed() + 250 + (uint64_t)_i};
    models m;
    uint32_t counts[VOCAB][VOCAB] = {{0}};
    make_models(&m, NEGATIVE, &r);
    trial t = {.m = &m, .kind = CLS_DRAFT_LOGITS, .n = 2 + (uint32_t)_i / 2, .before = {FIRST}};
    t.method = _i % 2 ? CLS_VERIFY_BLOCK : CLS_VERIFY_STANDARD;
    for (uint32_t i = 0; i < calls; i++) {
        run(&t, &r);
        for (int32_t k = 0; k < t.v.emitted; k++) {
            counts[t.before[0]][t.v.tokens[k]]++;
            t.before[0] = t.v.tokens[k];
        }
        t.position += (uint32_t)t.v.emitted;
    }
    for (int32_t a = 0; a < VOCAB; a++) {
        uint32_t draws = 0;
        for (int32_t b = 0; b < VOCAB; b++)
            draws += counts[a][b];
        if (draws > 500)
            follows("what follows a token", &t, m.p[a], counts[a], VOCAB, draws);
    }
}
END_TEST

START_TEST(typical)
{
    rng r = {fixture_seed() + 300 + (uint64_t)_i};
    models m;
    uint32_t predicted = 0, accepted = 0;
    const uint32_t trials = fixture_by_size(200, 2000, 5000);
    make_models(&m, _i, &r);
    trial t = {
        .m = &m, .method = CLS_VERIFY_TYPICAL, .kind = CLS_DRAFT_LOGITS, .n = 4, .before = {FIRST}};
    for (uint32_t i = 0; i < trials; i++) {
        t.position += 16;
        run(&t, &r);
        predicted += (uint32_t)decides_alike(&t);
        accepted += (uint32_t)t.v.accepted;
    }
    ck_assert_msg(predicted * 50 > trials * 49, "%u of %u decisions were certain", predicted,
                  trials);
    ck_assert(_i == SAME ? accepted > 0 : _i != DISJOINT || accepted == 0);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_loop_test(law, PAIRS * 8);
    add_loop_test(texts, 4);
    add_loop_test(typical, PAIRS);
    return fixture_end();
}
