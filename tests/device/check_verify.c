/* SPDX-License-Identifier: MIT */
/* Proves that verified drafts on the device equal the reference in every output, and that
 * requests continue as if they had never had drafts. It also tests malformed drafts, worked
 * out by hand, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verifier.h"

enum { MATCH = CLS_VERIFY_MATCH, METHODS = CLS_VERIFY_TYPICAL + 1, ROUNDS = 2 };

/* ---------------------------------------------------------------------- random */

typedef struct census {
    uint32_t requests, trees, drafts, accepted, emitted, whole, empty, stopped, unfit, launches;
} census;

static void count(census *c, const verifier *v)
{
    const drafts *const of = v->of;
    c->trees += of->parents != NULL;
    c->launches = v->launches > c->launches ? v->launches : c->launches;
    for (uint32_t i = 0; i < of->n; i++) {
        const cls_host_verified *const h = &of->host[i];
        c->requests++;
        c->drafts += drafts_count(of, i);
        c->accepted += (uint32_t)h->accepted;
        c->emitted += (uint32_t)h->emitted;
        c->whole += h->accepted > 0 && (uint32_t)h->accepted == drafts_count(of, i);
        c->empty += (h->status & CLS_ROW_EMPTY) != 0;
        c->stopped += h->emitted > 0 && (h->status & CLS_ROW_STOPPED);
        c->unfit += (h->status & CLS_ROW_UNFIT) != 0;
    }
}

/* Some requests take part in the step, but not in the verification. */
static void random_absence(drafts *d, int32_t *slots, rng *r)
{
    memcpy(slots, d->slots, d->n * sizeof *slots);
    for (uint32_t i = 0; i < d->n; i++)
        if (rng_below(r, 20) == 0)
            d->slots[i] = -1;
}

/* The default shape, a small shortlist, and work-groups of several items. */
static cls_context *some_context(device *d, const drafts *of, uint32_t i)
{
    const uint32_t shape = fixture_size() == TEST_FULL && of->rows->dtype == CLS_F32 ? i % 3 : 0;
    cls_context *const context = fixture_context(d, shape ? 1u << CLS_F32 : 0, shape == 2 ? 8 : 0,
                                                 shape == 2 ? 4 : 0, shape == 1 ? 64 : 0);
    return context ? context : fixture_context(d, 0, 0, 0, 0);
}

/* Rows whose kept tokens fit the shortlist as the reference requires. */
static void random_infill(drafts *d, cls_context *context, rng *r)
{
    const cls_device_info info = context_info(context);
    if (info.shortlist < ORACLE_INFILL_MOST)
        return;
    for (uint32_t i = 0; i < d->n; i++)
        if (rng_below(r, 20) == 0)
            params_infill(&d->requests->params[i], d->rows->vocab, r);
}

START_TEST(random_drafts)
{
    static const uint32_t sizes[] = {16, 100, 1000, 5000, 1, 1025, 31, 2, 100, 1000};
    static const char *const names[METHODS] = {"match", "standard", "block", "typical"};
    device *const d = fixture_device(_i);
    const uint32_t calls = fixture_by_size(10, 150, 500);
    census all[METHODS] = {{0}};
    rng r = {fixture_seed() + 60};
    for (uint32_t i = 0; i < calls; i++) {
        const uint32_t n = rng_below(&r, 8) ? 1 + rng_below(&r, 6) : fixture_by_size(8, 16, 16);
        const int method = (int)(i % METHODS);
        drafts *const of =
            drafts_random(n, sizes[rng_below(&r, fixture_by_size(2, 10, 10))], method, &r);
        const uint32_t wide = of->most <= 100 && rng_below(&r, 3) == 0 ? rng_below(&r, 5) : 0;
        int32_t slots[16];
        char where[240];
        verifier v;
        cls_context *const context = some_context(d, of, i / METHODS);
        random_infill(of, context, &r);
        drafts_choose(of, &r);
        verifier_open(&v, d, context, of, (int)rng_below(&r, 2), wide);
        verifier_spread(&v, rng_below(&r, SPREADS));
        const int search = rng_below(&r, 3) == 0;
        cls_sampler_force_search(v.sampler, search);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            snprintf(where, sizeof where, "%s, call %u, round %u%s", d->name, i, round,
                     search ? ", by search" : "");
            if (round)
                drafts_choose(of, &r);
            random_absence(of, slots, &r);
            drafts_reference(of);
            verifier_run(&v);
            verifier_equal(&v, where);
            ck_assert_msg(v.launches <= 8, "%s: %u launches", where, v.launches);
            count(&all[method], &v);
            drafts_accept(of);
            memcpy(of->slots, slots, n * sizeof *slots);
        }
        snprintf(where, sizeof where, "%s, call %u, the step after it", d->name, i);
        verifier_step(&v, where);
        verifier_close(&v);
        drafts_free(of);
    }
    for (int m = 0; m < METHODS; m++) {
        const census *const c = &all[m];
        printf("%s: %s: %u requests, %u calls with trees; of %u drafts %u accepted, %u tokens; %u "
               "times all, %u "
               "stopped, %u met an empty row, %u unfit; up to %u launches\n",
               d->name, names[m], c->requests, c->trees, c->drafts, c->accepted, c->emitted,
               c->whole, c->stopped, c->empty, c->unfit, c->launches);
        ck_assert(c->accepted > c->requests / 4 && c->whole > 0);
    }
}
END_TEST

/* --------------------------------------------------------------------- by hand */

/* Three requests with three drafts each, which are the tokens that the target draws. */
static drafts *three(int method, int kind)
{
    static const uint32_t lengths[] = {3, 3, 3};
    rng r = {5};
    drafts *const d = drafts_new(3, lengths, 100, CLS_F32, kind, &r);
    d->method = method;
    for (uint32_t i = 0; i < d->n; i++) {
        batch_row(d->requests, i, ROW_NORMAL1, 7 + i);
        for (uint32_t row = 0; row < 4; row++)
            batch_row(d->rows, 4 * i + row, ROW_NORMAL1, 10 * i + row);
        for (uint32_t k = 0; k < 3; k++) {
            cls_host_result result;
            result.probs = NULL;
            drafts_sample(d, i, k, d->ids + 3 * i, k, &result);
            d->ids[3 * i + k] = result.token;
            drafts_values(d->q, 3 * i + k, d->rows->values + (4 * i + k) * 100);
        }
    }
    return d;
}

/* Both give this, and the neighbours everything they were given. */
static void expect(device *d, drafts *of, int32_t accepted, int32_t emitted, int32_t status,
                   const char *what)
{
    char where[300];
    verifier v;
    snprintf(where, sizeof where, "%s: %s", d->name, what);
    drafts_reference(of);
    verifier_open(&v, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), of, 0, 0);
    verifier_run(&v);
    verifier_equal(&v, where);
    ck_assert_msg(v.launches <= 6, "%s: %u launches", where, v.launches);
    for (uint32_t i = 0; i < of->n; i++) {
        const int mine = i == 1;
        ck_assert_msg(v.accepted[i] == (mine ? accepted : 3) &&
                          v.emitted[i] == (mine ? emitted : 4) &&
                          v.status[i] == (mine ? status : 0),
                      "%s: request %u accepted %d, emitted %d, status %d", where, i, v.accepted[i],
                      v.emitted[i], v.status[i]);
    }
    verifier_close(&v);
    drafts_free(of);
}

/* Drafts with the target's own distribution are all accepted. */
START_TEST(draft_is_target)
{
    device *const d = fixture_device(_i);
    expect(d, three(CLS_VERIFY_MATCH, CLS_DRAFT_NONE), 3, 4, 0, "match");
    expect(d, three(CLS_VERIFY_STANDARD, CLS_DRAFT_LOGITS), 3, 4, 0, "standard, draft is target");
    expect(d, three(CLS_VERIFY_BLOCK, CLS_DRAFT_LOGITS), 3, 4, 0, "block, draft is target");
    for (int method = CLS_VERIFY_MATCH; method <= CLS_VERIFY_BLOCK; method++) {
        drafts *const without =
            three(method, method == CLS_VERIFY_MATCH ? CLS_DRAFT_NONE : CLS_DRAFT_LOGITS);
        without->disable_bonus = 1;
        drafts_reference(without);
        for (uint32_t i = 0; i < 3; i++)
            ck_assert(without->host[i].accepted == 3 && without->host[i].emitted == 3);
        verifier v;
        verifier_open(&v, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), without, 1, 0);
        verifier_run(&v);
        verifier_equal(&v, "without a bonus");
        verifier_close(&v);
        drafts_free(without);
    }
}
END_TEST

START_TEST(bad_drafts)
{
    static const int32_t bad[] = {-1, 100, INT32_MIN, INT32_MAX};
    device *const d = fixture_device(_i);
    for (int method = CLS_VERIFY_MATCH; method <= CLS_VERIFY_BLOCK; method++) {
        const int kind = method == CLS_VERIFY_MATCH ? CLS_DRAFT_NONE : CLS_DRAFT_LOGITS;
        for (int32_t at = 0; at < 3; at++) {
            drafts *of = three(method, kind);
            of->ids[3 + at] = bad[(at + method) % 4];
            of->disable_bonus = 0;
            expect(d, of, at, at + 1, 0, "an id outside the vocabulary");
            if (kind == CLS_DRAFT_NONE)
                continue;
            float *const q = calloc(100, sizeof *q);
            for (int what = 0; what < 3; what++) { /* q(d) is 0, NaN, and all of it is NaN */
                of = three(method, kind);
                for (uint32_t id = 0; id < 100; id++)
                    q[id] = what == 2                        ? NAN
                            : (int32_t)id == of->ids[3 + at] ? what ? NAN : -INFINITY
                                                             : 0.5f;
                drafts_values(of->q, (uint32_t)(3 + at), q);
                expect(d, of, at, at + 1, 0,
                       what == 0   ? "q(d) is 0"
                       : what == 1 ? "q(d) is NaN"
                                   : "q is NaN");
            }
            free(q);
        }
    }
}
END_TEST

/* A row that allows no token ends the drafts before it. */
START_TEST(empty_in_the_middle)
{
    device *const d = fixture_device(_i);
    for (int method = CLS_VERIFY_MATCH; method <= CLS_VERIFY_BLOCK; method++)
        for (int32_t at = 0; at < 4; at++) {
            drafts *const of =
                three(method, method == CLS_VERIFY_MATCH ? CLS_DRAFT_NONE : CLS_DRAFT_LOGITS);
            rng r = {1};
            batch_mask(of->rows, &r, 0, 0);
            of->rows->mask_map = must_calloc(of->rows->rows, sizeof(int32_t));
            for (int32_t row = 0; row < 12; row++)
                of->rows->mask_map[row] = row == 4 + at ? 3 : -1;
            expect(d, of, at, at, CLS_ROW_EMPTY, "an empty row");
        }
}
END_TEST

START_TEST(skipped_and_stopped)
{
    device *const d = fixture_device(_i);
    drafts *of = three(CLS_VERIFY_MATCH, CLS_DRAFT_NONE);
    verifier v;
    verifier_open(&v, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), of, 1, 2);
    of->slots[1] = -1;
    drafts_reference(of);
    verifier_run(&v);
    verifier_equal(&v, d->name);
    ck_assert(v.accepted[0] == 3 && v.emitted[1] == 0 && v.status[1] == CLS_ROW_SKIPPED &&
              v.accepted[2] == 3);
    ck_assert(v.counters[0] == 3 && v.counters[1] == 3 && v.counters[2] == 4 && v.counters[3] == 0);
    verifier_close(&v);
    drafts_free(of);

    of = three(CLS_VERIFY_MATCH, CLS_DRAFT_NONE);
    of->requests->params[1].stop_ids.ids = of->ids + 4; /* its second draft */
    of->requests->params[1].stop_ids.count = 1;
    const int first = of->ids[3] == of->ids[4];
    expect(d, of, first ? 1 : 2, first ? 1 : 2, CLS_ROW_STOPPED, "a draft that stops");
    of = three(CLS_VERIFY_STANDARD, CLS_DRAFT_LOGITS);
    of->requests->params[1].max_tokens = 3;
    expect(d, of, 3, 3, CLS_ROW_STOPPED | CLS_ROW_LENGTH, "the last of max_tokens");
    of = three(CLS_VERIFY_BLOCK, CLS_DRAFT_LOGITS);
    of->requests->params[1].max_tokens = 4;
    expect(d, of, 3, 4, CLS_ROW_STOPPED | CLS_ROW_LENGTH, "the bonus is the last of max_tokens");

    of = three(CLS_VERIFY_MATCH,
               CLS_DRAFT_NONE); /* a second call finds all of them stopped: nothing is counted */
    for (uint32_t i = 0; i < 3; i++)
        of->requests->params[i].max_tokens = 1;
    verifier_open(&v, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), of, 0, 0);
    for (int again = 0; again < 2; again++) {
        verifier_run(&v);
        for (uint32_t i = 0; i < 3; i++)
            ck_assert_msg(v.counters[3 * i] == 3 && v.counters[3 * i + 2] == 1,
                          "call %d: request %u: %d drafts, %d tokens", again, i, v.counters[3 * i],
                          v.counters[3 * i + 2]);
        ck_assert_int_eq(v.status[0], again ? CLS_ROW_STOPPED | CLS_ROW_SKIPPED
                                            : CLS_ROW_STOPPED | CLS_ROW_LENGTH);
    }
    verifier_close(&v);
    drafts_free(of);
}
END_TEST

/* Drafts and logits made on the device from each call's latest tokens: the host reads nothing until
 * the end, and the text is the one of token by token. The model: a row of a table follows each
 * token. */
static const char *const loop_model =
    "kernel void model(global const int *latest, global const float *table, global const int "
    "*guess,\n"
    "                  global int *drafts, global float *logits, int n, int vocab)\n"
    "{\n"
    "    const int i = get_global_id(0);\n"
    "    int t = latest[i];\n"
    "    for (int k = 0; k <= n; k++) {\n"
    "        for (int v = 0; v < vocab; v++)\n"
    "            logits[(i * (n + 1) + k) * vocab + v] = table[t * vocab + v];\n"
    "        t = guess[t];\n"
    "        if (k < n)\n"
    "            drafts[i * n + k] = t;\n"
    "    }\n"
    "}\n";

START_TEST(loop_on_device)
{
    enum { VOCAB = 64, DRAFTS = 3, REQUESTS = 2, CALLS = 12, WIDTH = DRAFTS + 1 };
    device *const d = fixture_device(_i);
    static float table[VOCAB][VOCAB];
    static const int32_t seeds[REQUESTS] = {5, 60}, cu[REQUESTS + 1] = {0, WIDTH, 2 * WIDTH};
    int32_t guess[VOCAB], got[CALLS][REQUESTS][WIDTH], accepted = 0;
    const cl_int n = DRAFTS, vocab = VOCAB;
    rng r = {fixture_seed() + 5};
    cls_sampler *sampler;
    cls_params p[REQUESTS];
    cls_verify_call call;
    cl_int code = CL_SUCCESS;
    for (uint32_t t = 0; t < VOCAB; t++) {
        guess[t] = 0;
        for (uint32_t v = 0; v < VOCAB; v++) {
            table[t][v] = (float)rng_below(&r, 1000) / 100.0f;
            guess[t] = table[t][v] > table[t][guess[t]] ? (int32_t)v : guess[t];
        }
    }
    cls_sampler_options o = sampler_options(VOCAB, REQUESTS * WIDTH);
    o.features = CLS_FEATURE_VERIFY;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        cls_params_init(&p[i]);
        p[i].seed = 100 + i;
        p[i].top_k = 8;
        p[i].temperature = 0.9f;
        must(cls_slot_begin(sampler, i, &p[i], &seeds[i], 1, NULL, 0));
    }
    cl_mem m_table = buffer_of(d, sizeof table, table), m_guess = buffer_of(d, sizeof guess, guess);
    cl_mem latest = buffer_of(d, (size_t)o.max_rows * sizeof(int32_t), NULL),
           proposed = buffer_of(d, REQUESTS * DRAFTS * 4, NULL);
    cl_mem logits = buffer_of(d, (size_t)REQUESTS * WIDTH * VOCAB * sizeof(float), NULL),
           out = buffer_of(d, sizeof got, NULL);
    buffer_write(d, latest, 0, sizeof seeds, seeds);
    const cl_program program = clCreateProgramWithSource(
        d->context, 1, (const char **)(uintptr_t)&loop_model, NULL, &code);
    must_cl(code);
    must_cl(clBuildProgram(program, 1, &d->id, "", NULL, NULL));
    const cl_kernel kernel = clCreateKernel(program, "model", &code);
    must_cl(code);
    const cl_mem buffers[] = {latest, m_table, m_guess, proposed, logits};
    for (cl_uint i = 0; i < 5; i++)
        must_cl(clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]));
    must_cl(clSetKernelArg(kernel, 5, sizeof n, &n));
    must_cl(clSetKernelArg(kernel, 6, sizeof vocab, &vocab));
    cls_verify_call_init(&call);
    call.requests = REQUESTS;
    call.row_offsets = cu;
    call.logits.values.buffer = logits;
    call.draft_ids.device.buffer = proposed;
    call.latest.buffer = latest;
    call.tokens.buffer = out;
    for (uint32_t c = 0; c < CALLS; c++) {
        const size_t requests = REQUESTS;
        must_cl(clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &requests, NULL, 0, NULL, NULL));
        call.tokens.offset = c * sizeof got[0];
        must(cls_verify(sampler, d->queue, &call, 0, NULL, NULL));
    }
    buffer_read(d, out, sizeof got, got);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        int32_t t = seeds[i];
        uint32_t position = 0;
        for (uint32_t c = 0; c < CALLS; c++)
            for (uint32_t k = 0; k < WIDTH && got[c][i][k] >= 0; k++) {
                cls_host_row h = host_row(table[t], VOCAB, &p[i]);
                h.position = position++;
                const cls_host_result result = host_result(&h);
                ck_assert_msg(got[c][i][k] == result.token,
                              "%s: request %u, call %u, token %u: %d, not %d", d->name, i, c, k,
                              got[c][i][k], result.token);
                t = result.token;
                accepted += k > 0;
            }
    }
    ck_assert_int_gt(accepted, 0); /* some drafts were right: calls emitted several tokens */
    release_buffers(latest, m_table, m_guess, proposed, logits, out);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    cls_sampler_destroy(sampler);
}
END_TEST

/* However long the drafts are. */
START_TEST(launches)
{
    static const uint32_t lengths[] = {0, 1, 128};
    device *const d = fixture_device(_i);
    rng r = {1};
    uint32_t counts[3];
    for (int i = 0; i < 3; i++) {
        drafts *const of = drafts_new(1, &lengths[i], 16, CLS_F32, CLS_DRAFT_NONE, &r);
        verifier v;
        for (uint32_t row = 0; row < of->rows->rows; row++)
            batch_row(of->rows, row, ROW_NORMAL1, row);
        batch_row(of->requests, 0, ROW_NORMAL1, 1);
        of->requests->params[0].top_p = i == 2 ? 0.9f : 1.0f;
        verifier_open(&v, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), of, 0, 0);
        drafts_reference(of);
        verifier_run(&v);
        verifier_equal(&v, d->name);
        counts[i] = v.launches;
        verifier_close(&v);
        drafts_free(of);
    }
    ck_assert_msg(counts[0] <= 6 && counts[1] <= 6 && counts[2] <= 8, "%u, %u, %u launches",
                  counts[0], counts[1], counts[2]);
}
END_TEST

/* Tokens of a text below n_ids: frequent ones, and some that come once. */
static int32_t *text_of(uint32_t n, uint32_t n_ids, rng *r)
{
    int32_t *const ids = must_malloc((n ? n : 1) * sizeof *ids);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)rng_below(r, 1 + rng_below(r, rng_below(r, 4) ? 20 : n_ids));
    return ids;
}

/* Requests whose rows ask whether what the drafts before them have pushed out of the
 * window is still in it: then, penalized, it falls behind another token, one of each row's. */
enum { WINDOWED = 6 };
static drafts *windowed(int keep, uint32_t n, uint32_t longest, uint32_t vocab, rng *r)
{
    uint32_t lengths[WINDOWED] = {n, n, n, n, n, n};
    drafts *const of = drafts_new(WINDOWED, lengths, vocab, CLS_F32, CLS_DRAFT_NONE, r);
    float *const values = must_calloc(vocab, sizeof *values);
    of->requests->keep = keep;
    of->requests->history = longest;
    of->method = CLS_VERIFY_MATCH;
    for (uint32_t i = 0; i < WINDOWED; i++) {
        tokens *const t = &of->requests->tokens[i];
        cls_params *const p = &of->requests->params[i];
        batch_row(of->requests, i, ROW_TIES, i);
        p->temperature = 0.0f;
        p->penalty_window = i % 3 == 0 ? longest : i % 3 == 1 ? longest - 5 : n / 2;
        p->penalty_scope = i >= WINDOWED / 2 ? CLS_SCOPE_ALL : CLS_SCOPE_OUTPUT;
        p->repetition_penalty = 1.25f;
        p->presence_penalty = 0.5f;
        p->frequency_penalty = keep == CLS_COUNTS_ALL ? 0.125f : 0.0f;
        t->prompt_count =
            i % 3 == 0 ? longest - n / 2 : longest + longest / 2; /* then the ring goes round */
        t->output_count = n / 3;
        t->prompt = text_of(t->prompt_count, vocab - n, r);
        t->output = text_of(t->output_count, vocab - n, r);
        for (uint32_t k = 0; k <= n; k++) {
            const uint32_t row = i * (n + 1) + k, before = t->prompt_count + k + t->output_count;
            const uint32_t left = before > p->penalty_window + 4
                                      ? before - p->penalty_window - 1 - rng_below(r, 4)
                                      : k;
            cls_host_result result = {.probs = NULL};
            memset(values, 0, vocab * sizeof *values);
            values[t->prompt[left < t->prompt_count ? left : k]] = 3.0f;
            values[vocab - n + k % n] = 2.5f;
            batch_row(of->rows, row, ROW_EQUAL, row);
            drafts_values(of->rows, row, values);
            drafts_sample(of, i, k, of->ids + i * n, k, &result);
            if (k < n)
                of->ids[i * n + k] = result.token;
        }
    }
    free(values);
    return of;
}

/* Windows as long as they may be, and shorter than the drafts; prompt that leaves them
 * and output, ids that are still in them and ids that are not. */
START_TEST(long_windows)
{
    device *const d = fixture_device(_i);
    const uint32_t n = fixture_by_size(20, 64, CLS_MAX_DRAFTS),
                   longest = fixture_by_size(700, 4000, 16384);
    rng r = {fixture_seed() + 62};
    for (int keep = CLS_COUNTS_PRESENCE; keep <= CLS_COUNTS_ALL; keep++) {
        drafts *const of = windowed(keep, n, longest, fixture_by_size(300, 2000, 5000), &r);
        uint32_t gone = 0;
        verifier v;
        for (uint32_t k = 0; k < of->total; k++)
            gone += of->ids[k] < (int32_t)(of->rows->vocab - n);
        ck_assert_msg(gone > of->total / 20 && gone < of->total / 2,
                      "%u of %u tokens left the window", gone, of->total);
        verifier_open(&v, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), of, 0, 0);
        drafts_reference(of);
        verifier_run(&v);
        verifier_equal(&v, d->name);
        for (uint32_t i = 0; i < of->n; i++)
            ck_assert_msg(v.emitted[i] == (int32_t)n + 1, "%s: request %u emitted %d tokens",
                          d->name, i, v.emitted[i]);
        verifier_close(&v);
        drafts_free(of);
    }
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_PROBS);
    fixture_begin(ON_DEVICES);
    add_device_test(draft_is_target);
    add_device_test(bad_drafts);
    add_device_test(empty_in_the_middle);
    add_device_test(skipped_and_stopped);
    add_device_test(launches);
    add_device_test(loop_on_device);
    add_device_test(random_drafts);
    add_device_test(long_windows);
    return fixture_end();
}
