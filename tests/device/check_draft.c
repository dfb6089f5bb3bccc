/* SPDX-License-Identifier: MIT */
/* Proves that cls_draft() and cls_host_draft() find the drafts that trying all places one after the
 * other finds: for random texts, after all that happens to a request, for all layouts and in groups
 * of several items. What cls_verify() does with them, and what is refused.
 *
 *     check_draft [n]     n times as many random calls */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "inputs.h"
#include "selftest/compile.h"

enum { VOCAB = 40, STOP = VOCAB - 1, SLOTS = 6, MARK = -7, ROWS = 21, MOST_TEXT = 150000 };

static uint32_t times = 1;

/* ------------------------------------------------------------------------- the oracle */

/* A request as the test knows it. */
typedef struct request {
    int begun, gone, stopped;    /* gone: an impossible rollback ended it */
    uint32_t n, prompt, longest; /* tokens; those that cannot be rolled back; the most ever */
    int32_t text[MOST_TEXT];
} request;

/* Returns 1 if the last n of `count` tokens are also those before place `at`. */
static int matches(const int32_t *text, uint32_t count, uint32_t n, uint32_t at)
{
    return n <= at && memcmp(text + at - n, text + count - n, n * sizeof *text) == 0;
}

/* Writes the drafts of a text, and returns their number. */
static int32_t expect_drafts(const int32_t *text, uint32_t count, const cls_draft_call *call,
                             int32_t *ids)
{
    for (uint32_t n = call->max_n; n >= call->min_n; n--)
        for (uint32_t at = count; at-- > 0;)
            if (at > 0 && matches(text, count, n, at)) {
                for (uint32_t i = 0; i < call->k; i++)
                    ids[i] = at + i < count ? text[at + i] : ids[at + i - count];
                return (int32_t)call->k;
            }
    for (uint32_t i = 0; i < call->k; i++)
        ids[i] = call->fill;
    return 0;
}

/* ------------------------------------------------------------------------- samplers */

typedef struct desk {
    device *d;
    cls_sampler *sampler;
    uint32_t history, rollback;
    cl_mem logits, tokens, ids, counts, map;
    rng r;
    uint32_t drafted, calls; /* requests that got drafts */
    request at[SLOTS];
} desk;

static desk *desk_new(device *d, uint32_t history, uint32_t rollback)
{
    desk *const s = must_calloc(1, sizeof *s);
    float x[VOCAB];
    for (uint32_t i = 0; i < VOCAB; i++)
        x[i] = i == 3 ? 1.0f : 0.0f;
    s->d = d;
    s->history = history;
    s->rollback = rollback;
    s->r = (rng){fixture_seed() + history};
    s->logits = buffer_of(d, sizeof x, x);
    s->tokens = buffer_of(d, sizeof(int32_t), NULL);
    s->ids = buffer_of(d, ROWS * 2 * CLS_MAX_DRAFTS * 4 * sizeof(int32_t), NULL);
    s->counts = buffer_of(d, ROWS * sizeof(int32_t), NULL);
    s->map = buffer_of(d, ROWS * sizeof(int32_t), NULL);
    return s;
}

static cls_sampler_options desk_options(const desk *s)
{
    cls_sampler_options o = sampler_options(VOCAB, SLOTS);
    o.max_rows = ROWS;
    o.dtypes = 1u << CLS_F32;
    o.max_history = s->history;
    o.max_rollback = s->rollback;
    o.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_VERIFY | CLS_FEATURE_ACCEPT |
                 CLS_FEATURE_STATE | CLS_FEATURE_FORCED;
    return o;
}

static desk *desk_open(device *d, uint32_t history, uint32_t rollback)
{
    desk *const s = desk_new(d, history, rollback);
    const cls_sampler_options o = desk_options(s);
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &s->sampler));
    return s;
}

static void desk_close(desk *s)
{
    cls_sampler_destroy(s->sampler);
    release_buffers(s->logits, s->tokens, s->ids, s->counts, s->map);
    free(s);
}

/* ------------------------------------------------------------------------- drafts */

static cls_draft_call some_call(desk *s)
{
    cls_draft_call call;
    cls_draft_call_init(&call);
    call.requests = 1 + rng_below(&s->r, ROWS);
    call.k = 1 + rng_below(&s->r, rng_below(&s->r, 8) == 0 ? CLS_MAX_DRAFTS : 9);
    call.max_n = 1 + rng_below(&s->r, rng_below(&s->r, 4) == 0 ? CLS_MAX_DRAFTS : 6);
    call.min_n = 1 + rng_below(&s->r, call.max_n < 3 ? call.max_n : 3);
    call.fill = rng_below(&s->r, 2) ? -1 : (int32_t)rng_below(&s->r, VOCAB);
    call.draft_ids.buffer = s->ids;
    call.draft_ids.offset = 4 * rng_below(&s->r, 3);
    if (rng_below(&s->r, 2))
        call.counts.buffer = s->counts;
    switch (rng_below(&s->r, 4)) {
    case 0:
        call.ids_request_stride = call.k + rng_below(&s->r, 5);
        break;
    case 1: /* [k, requests] */
        call.ids_request_stride = 1;
        call.ids_stride = call.requests + rng_below(&s->r, 3);
        break;
    case 2:
        call.ids_stride = 2;
        break;
    default:
        break;
    }
    return call;
}

/* Fills a map, and returns 1 if the host may name its slots. */
static int some_slots(desk *s, int32_t slots[ROWS])
{
    int all = 1;
    for (uint32_t i = 0; i < ROWS; i++) {
        slots[i] = (int32_t)rng_below(&s->r, SLOTS + 1) - 1;
        all &= slots[i] < 0 || s->at[slots[i]].begun;
    }
    return all;
}

/* Compares the host's drafts. Ids that are no tokens may be anywhere in its array. */
static void check_host(desk *s, const request *q, const cls_draft_call *call, const int32_t *want,
                       int32_t want_count)
{
    static int32_t text[2 * MOST_TEXT];
    int32_t ids[CLS_MAX_DRAFTS], count = MARK;
    cls_host_text host;
    cls_host_text_init(&host);
    for (uint32_t i = 0; i < q->n; i++) {
        if (rng_below(&s->r, 4) == 0)
            text[host.token_count++] = rng_below(&s->r, 2) ? -1 : VOCAB;
        text[host.token_count++] = q->text[i];
    }
    if (rng_below(&s->r, 4) == 0)
        text[host.token_count++] = -1;
    host.tokens = text;
    host.vocab = VOCAB;
    host.max_history = s->history;
    host.k = call->k;
    host.min_n = call->min_n;
    host.max_n = call->max_n;
    host.fill = call->fill;
    must(cls_host_draft(&host, ids, rng_below(&s->r, 2) ? &count : NULL));
    ck_assert(count == MARK || count == want_count);
    ck_assert_msg(memcmp(ids, want, call->k * sizeof *ids) == 0, "host: %d..., not %d...",
                  (int)ids[0], (int)want[0]);
}

/* Makes a call and compares all that it may have written, and what the host finds. */
static void draft_and_check(desk *s)
{
    enum { IDS = ROWS * 2 * CLS_MAX_DRAFTS * 4 };
    static int32_t got[IDS], want[IDS];
    int32_t slots[ROWS], counts[ROWS], want_counts[ROWS];
    cls_draft_call call = some_call(s);
    const int on_host = some_slots(s, slots);
    for (uint32_t i = 0; i < IDS; i++)
        want[i] = MARK;
    for (uint32_t i = 0; i < ROWS; i++)
        want_counts[i] = MARK;
    buffer_write(s->d, s->ids, 0, sizeof want, want);
    buffer_write(s->d, s->counts, 0, sizeof want_counts, want_counts);
    if (on_host && rng_below(&s->r, 2)) {
        call.slots.host = slots;
    } else {
        buffer_write(s->d, s->map, 0, sizeof slots, slots);
        call.slots.device.buffer = s->map;
    }
    must(cls_draft(s->sampler, s->d->queue, &call, 0, NULL, NULL));
    const uint64_t stride = call.ids_stride != 0 ? call.ids_stride : 1,
                   request_stride =
                       call.ids_request_stride != 0 ? call.ids_request_stride : call.k * stride;
    for (uint32_t i = 0; i < call.requests; i++) {
        static const request none;
        const request *const q = slots[i] >= 0 ? &s->at[slots[i]] : &none;
        const int live = q->begun && !q->gone && !q->stopped;
        const uint32_t n = !live ? 0 : q->n < s->history ? q->n : s->history;
        int32_t ids[CLS_MAX_DRAFTS];
        const int32_t count = expect_drafts(q->text + q->n - n, n, &call, ids);
        s->drafted += count != 0;
        if (call.counts.buffer != NULL)
            want_counts[i] = count;
        for (uint32_t j = 0; j < call.k; j++)
            want[call.draft_ids.offset / 4 + i * request_stride + j * stride] = ids[j];
        if (live)
            check_host(s, q, &call, ids, count);
    }
    s->calls++;
    buffer_read(s->d, s->ids, sizeof got, got);
    buffer_read(s->d, s->counts, sizeof counts, counts);
    for (uint32_t i = 0; i < IDS; i++)
        ck_assert_msg(got[i] == want[i],
                      "%s: history %u, call %u, n %u to %u, k %u: word %u is %d, not %d",
                      s->d->name, s->history, s->calls, call.min_n, call.max_n, call.k, i,
                      (int)got[i], (int)want[i]);
    ck_assert_mem_eq(counts, want_counts, sizeof counts);
}

/* ------------------------------------------------------------------ what happens to texts */

/* Adds tokens to a text as slots do, and returns the number of ids: a few tokens of a small
 * alphabet, often a copy of something earlier, with ids between them that are no tokens. */
static uint32_t some_ids(desk *s, request *q, uint32_t most, int32_t *ids)
{
    const uint32_t n = 1 + rng_below(&s->r, most), letters = 1 + rng_below(&s->r, 4);
    uint32_t count = 0, from = rng_below(&s->r, q->n + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (rng_below(&s->r, 6) == 0)
            ids[count++] = rng_below(&s->r, 2) ? -1 : VOCAB + 5;
        if (rng_below(&s->r, 5) == 0)
            from = rng_below(&s->r, q->n + 1);
        ids[count] = from < q->n ? q->text[from++] : (int32_t)rng_below(&s->r, letters);
        ck_assert_uint_lt(q->n, MOST_TEXT);
        q->text[q->n++] = ids[count++];
    }
    q->longest = q->n > q->longest ? q->n : q->longest;
    return count;
}

static cls_params greedy(void)
{
    static const int32_t stop[] = {STOP};
    cls_params p = default_params();
    p.temperature = 0.0f;
    p.stop_ids = (cls_ids){stop, 1};
    return p;
}

static void begin(desk *s, uint32_t slot, uint32_t most)
{
    static int32_t prompt[2 * MOST_TEXT], output[2 * MOST_TEXT];
    const cls_params p = greedy();
    request *const q = &s->at[slot];
    q->begun = 1;
    q->gone = q->stopped = 0;
    q->n = q->longest = 0;
    const uint32_t prompts = some_ids(s, q, most, prompt);
    q->prompt = q->n;
    const uint32_t outputs = rng_below(&s->r, 2) ? some_ids(s, q, 5, output) : 0;
    q->stopped = outputs != 0 && q->text[q->n - 1] == STOP;
    must(cls_slot_begin(s->sampler, slot, &p, prompt, prompts, output, outputs));
}

static void grow_prompt(desk *s, uint32_t slot, int next_turn)
{
    int32_t ids[200];
    request *const q = &s->at[slot];
    const uint32_t n = some_ids(s, q, 9, ids);
    q->stopped = 0;
    q->prompt = q->n;
    must(next_turn ? cls_slot_next_turn(s->sampler, slot, ids, n)
                   : cls_slot_append_prompt(s->sampler, slot, ids, n));
}

/* Accepts tokens, of which those behind a stop id have no effect. */
static void accept(desk *s, uint32_t slot)
{
    int32_t ids[200];
    request *const q = &s->at[slot];
    const int live = !q->gone && !q->stopped;
    const uint32_t before = q->n, longest = q->longest;
    uint32_t n = some_ids(s, q, 7, ids);
    if (rng_below(&s->r, 4) == 0)
        ids[n++] = STOP, q->text[q->n++] = STOP;
    uint32_t end = before;
    while (live && end < q->n && !q->stopped)
        q->stopped = q->text[end++] == STOP;
    q->n = end;
    q->longest = end > longest ? end : longest;
    const cls_ints tokens = {.host = ids}, slots = {.host = (const int32_t[]){(int32_t)slot}};
    must(accept_ints(s->sampler, s->d->queue, 1, n, &tokens, &slots, 0, NULL, NULL));
}

static void roll_back(desk *s, uint32_t slot)
{
    request *const q = &s->at[slot];
    const uint32_t n = 1 + rng_below(&s->r, 3);
    if (n > s->rollback)
        return;
    must(cls_slot_rollback(s->sampler, slot, n));
    if (q->gone)
        return;
    if (q->n - q->prompt < n || q->longest - (q->n - n) > s->rollback) {
        q->gone = 1;
        return;
    }
    q->n -= n;
    q->stopped = q->n > q->prompt && q->text[q->n - 1] == STOP;
}

/* Emits forced ids, and then the likeliest token. */
static void force(desk *s, uint32_t slot)
{
    request *const q = &s->at[slot];
    const int32_t ids[] = {(int32_t)rng_below(&s->r, 3), (int32_t)rng_below(&s->r, 3)},
                  map[] = {(int32_t)slot};
    cls_step step = default_step(1, s->logits);
    step.slots.host = map;
    step.tokens.buffer = s->tokens;
    if (q->gone)
        return;
    must(cls_slot_force(s->sampler, slot, ids, 2));
    for (int i = 0; i < 3 && !q->stopped; i++) {
        int32_t token;
        must(cls_sample(s->sampler, s->d->queue, &step, 0, NULL, NULL));
        buffer_read(s->d, s->tokens, sizeof token, &token);
        ck_assert_int_eq(token, i < 2 ? ids[i] : 3);
        q->text[q->n++] = token;
        q->longest = q->n > q->longest ? q->n : q->longest;
    }
    must(cls_slot_force(s->sampler, slot, NULL, 0));
}

static void save_and_load(desk *s, uint32_t to, uint32_t from)
{
    size_t size;
    if (s->at[from].gone)
        return;
    unsigned char *const bytes = slot_saved(s->sampler, s->d->queue, from, &size);
    must(cls_slot_load(s->sampler, to, bytes, size, NULL));
    s->at[to] = s->at[from];
    free(bytes);
}

static void happen(desk *s, uint32_t most)
{
    const uint32_t slot = rng_below(&s->r, SLOTS), to = rng_below(&s->r, SLOTS);
    request *const q = &s->at[slot];
    if (!q->begun || q->n + most + 100 > MOST_TEXT || rng_below(&s->r, 12) == 0) {
        begin(s, slot, most);
        return;
    }
    switch (rng_below(&s->r, 10)) {
    case 0:
    case 1:
        if (!q->gone)
            grow_prompt(s, slot, rng_below(&s->r, 2) != 0);
        break;
    case 2:
    case 3:
        roll_back(s, slot);
        break;
    case 4:
        must(cls_slot_copy(s->sampler, to, slot));
        if (to != slot)
            s->at[to] = *q;
        break;
    case 5:
        save_and_load(s, to, slot);
        break;
    case 6:
        force(s, slot);
        break;
    case 7:
        if (rng_below(&s->r, 3) == 0) {
            must(cls_slot_reset(s->sampler, slot));
            q->begun = 0;
        }
        break;
    default:
        accept(s, slot);
    }
}

START_TEST(lives)
{
    static const uint32_t histories[] = {1, 2, 5, 33, 100}, rollbacks[] = {0, 4, 3, 6, 40};
    for (uint32_t i = 0; i < sizeof histories / sizeof *histories; i++) {
        desk *const s = desk_open(fixture_device(_i), histories[i], rollbacks[i]);
        for (uint32_t n = 0; n < times * fixture_by_size(40, 300, 2000); n++) {
            happen(s, 2 * histories[i]);
            if (rng_below(&s->r, 2))
                draft_and_check(s);
        }
        ck_assert_uint_ge(s->drafted, histories[i] < 5 ? 0 : s->calls / 4);
        printf("%s: history %u: %u calls, %u requests with drafts\n", s->d->name, s->history,
               s->calls, s->drafted);
        desk_close(s);
    }
}
END_TEST

/* The longest n-grams in long texts: of one token, of two that alternate, and one whose only
 * earlier place is the farthest. */
static void long_texts_of(device *d, uint32_t history, uint32_t n, uint32_t calls)
{
    static int32_t text[MOST_TEXT];
    desk *const s = desk_open(d, history, 64);
    const cls_params p = greedy();
    for (int kind = 0; kind < 4; kind++) {
        request *const q = &s->at[kind];
        const uint32_t window = n < s->history ? n : s->history;
        for (uint32_t i = 0; i < n; i++)
            text[i] = kind == 0 ? 1 : kind == 1 ? (int32_t)(i % 2) : (int32_t)rng_below(&s->r, 2);
        if (kind == 2)
            for (uint32_t i = 0; i < 2; i++)
                text[n - window + i] = text[n - 2 + i] = 5 + (int32_t)i;
        must(cls_slot_begin(s->sampler, (uint32_t)kind, &p, text, n, NULL, 0));
        memcpy(q->text, text, n * sizeof *text);
        q->n = q->prompt = q->longest = n;
        q->begun = 1;
    }
    for (uint32_t i = 0; i < calls; i++) {
        draft_and_check(s);
        accept(s, rng_below(&s->r, 2));
    }
    save_and_load(s, 4, 2);
    must(cls_slot_copy(s->sampler, 5, 3));
    s->at[5] = s->at[3];
    draft_and_check(s);
    desk_close(s);
}

START_TEST(long_texts)
{
    device *const d = fixture_device(_i);
    long_texts_of(d, 16384, fixture_by_size(5000, 20000, 20000), fixture_by_size(2, 6, 40));
    if (fixture_size() != TEST_TINY)
        long_texts_of(d, 131072, 140000, fixture_by_size(0, 2, 20));
}
END_TEST

/* Groups of several items, of the kernels of slots and of the look-up alone: PoCL takes minutes to
 * compile the others. */
START_TEST(groups)
{
    static const uint32_t sizes[] = {2, 7, 64}, variants[] = {CLS_SLOTS_0, CLS_LOOKUP_0};
    device *const d = fixture_device(_i);
    for (uint32_t i = 0; i < fixture_by_size(1, 3, 3); i++) {
        cls_context *context;
        cls_context_options o = default_context_options();
        cls_variant_set launched;
        desk *const s = desk_new(d, 50, 7);
        o.row_group = sizes[i];
        must(cls_context_create(d->context, d->id, &o, &context));
        for (uint32_t v = 0; v < 2; v++) {
            cls_program *const program = &context->program[0][variants[v]];
            program->variant = (int)variants[v];
            must(cls_program_compile(context, program));
        }
        must(cls_prove(context, CLS_LOOKUP_0, CLS_F32, &launched));
        const cls_sampler_options so = desk_options(s);
        must(cls_sampler_open(context, &so, &s->sampler));
        must(cls_sampler_add_kernels(s->sampler, CLS_F32, CLS_ALL_VARIANTS));
        s->sampler->features = CLS_FEATURE_VERIFY;
        for (uint32_t n = 0; n < times * fixture_by_size(20, 100, 500); n++) {
            begin(s, rng_below(&s->r, SLOTS), 100);
            draft_and_check(s);
        }
        ck_assert_uint_ge(s->drafted, s->calls / 4);
        desk_close(s);
        cls_context_destroy(context);
    }
}
END_TEST

/* ------------------------------------------------------------- drafts for cls_verify() */

/* A row is certain of the token that follows in a text of period 5. Drafts go straight to a
 * verification, whose rows they have on the device; without a draft it emits one token. */
START_TEST(verified)
{
    enum { K = 6, PERIOD = 5, REQUESTS = 3 };
    desk *const s = desk_open(fixture_device(_i), 64, 0);
    float x[REQUESTS * (K + 1)][VOCAB] = {{0}};
    int32_t text[12], offsets[REQUESTS + 1] = {0}, tokens[REQUESTS][K + 1], accepted[REQUESTS],
                                         counters[SLOTS][3] = {{0}};
    const cls_params p = greedy();
    for (uint32_t i = 0; i < 12; i++)
        text[i] = (int32_t)(i % PERIOD);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        offsets[i + 1] = offsets[i] + K + 1;
        for (uint32_t row = 0; row <= K; row++) /* request 2's rows want other tokens from row 3 */
            x[offsets[i] + (int32_t)row][(12 + row) % PERIOD + (i == 2 && row >= 3 ? 20 : 0)] =
                9.0f;
    }
    const cl_mem logits = buffer_of(s->d, sizeof x, x), out = buffer_of(s->d, sizeof tokens, NULL),
                 out_accepted = buffer_of(s->d, sizeof accepted, NULL),
                 out_counters = buffer_of(s->d, sizeof counters, counters);
    for (int fill = -1; fill < 1; fill++) {
        cls_draft_call draft;
        cls_verify_call verify;
        must(cls_slot_begin(s->sampler, 0, &p, text, 12, NULL, 0));
        must(cls_slot_begin(s->sampler, 1, &p, text, 0, text + 1, 1)); /* repeats nothing */
        must(cls_slot_begin(s->sampler, 2, &p, text, 12, NULL, 0));
        cls_draft_call_init(&draft);
        draft.requests = REQUESTS;
        draft.k = K;
        draft.fill = fill;
        draft.draft_ids.buffer = s->ids;
        must(cls_draft(s->sampler, s->d->queue, &draft, 0, NULL, NULL));
        cls_verify_call_init(&verify);
        verify.requests = REQUESTS;
        verify.row_offsets = offsets;
        verify.logits.values.buffer = logits;
        verify.draft_ids.device.buffer = s->ids;
        verify.tokens.buffer = out;
        verify.accepted.buffer = out_accepted;
        verify.counters.buffer = out_counters;
        must(cls_verify(s->sampler, s->d->queue, &verify, 0, NULL, NULL));
        buffer_read(s->d, out, sizeof tokens, tokens);
        buffer_read(s->d, out_accepted, sizeof accepted, accepted);
        ck_assert(accepted[0] == K && accepted[1] == 0 && accepted[2] == 3);
        for (int32_t i = 0; i <= K; i++) {
            ck_assert_int_eq(tokens[0][i], (12 + i) % PERIOD);
            ck_assert_int_eq(tokens[1][i], i == 0 ? 12 % PERIOD : -1);
            ck_assert_int_eq(tokens[2][i], i < 3 ? (12 + i) % PERIOD : i == 3 ? 20 : -1);
        }
    }
    buffer_read(s->d, out_counters, sizeof counters, counters);
    ck_assert(counters[0][0] == 2 * K && counters[0][1] == 2 * K && counters[1][0] == 2 * K &&
              counters[1][1] == 0 && counters[2][1] == 6);
    release_buffers(logits, out, out_accepted, out_counters);
    desk_close(s);
}
END_TEST

/* ------------------------------------------------------------------------------ costs */

enum { TIMED = 8, TIMED_K = 4, TIMED_VOCAB = 32000 };

/* A text whose tokens occur about as often as words do, with a copy of earlier text every now and
 * then. */
static void write_text(rng *r, int32_t *text, uint32_t n)
{
    for (uint32_t i = 0, from = 0, left = 0; i < n; i++) {
        const double u = rng_unit(r);
        if (left == 0 && i > 100 && rng_below(r, 50) == 0) {
            from = rng_below(r, i);
            left = 20;
        }
        text[i] = left > 0 ? text[from++] : (int32_t)(u * u * u * u * (TIMED_VOCAB - 1));
        left -= left > 0;
    }
}

/* Seconds of `rounds` rounds, in each of which every request accepts a token and gets drafts: by
 * cls_draft(), or on the host, which reads what was accepted and writes the drafts. */
static double seconds_of(cls_sampler *sampler, device *d, int on_host, uint32_t n, uint32_t rounds,
                         int32_t *text, cl_mem accepted, cl_mem drafts, int32_t *ids)
{
    cls_params p = default_params();
    cls_draft_call call;
    cls_host_text host;
    p.temperature = 0.0f;
    cls_draft_call_init(&call);
    call.requests = TIMED;
    call.k = TIMED_K;
    call.draft_ids.buffer = drafts;
    cls_host_text_init(&host);
    host.k = TIMED_K;
    for (uint32_t i = 0; i < TIMED; i++)
        must(cls_slot_begin(sampler, i, &p, text + (size_t)i * (n + rounds), n, NULL, 0));
    must(cls_draft(sampler, d->queue, &call, 0, NULL, NULL));
    must_cl(clFinish(d->queue));
    const double start = cls_now();
    for (uint32_t round = 0; round < rounds; round++) {
        const cls_ints tokens = {
            .device = {.buffer = accepted, .offset = round * TIMED * sizeof(int32_t)}};
        must(accept_ints(sampler, d->queue, TIMED, 1, &tokens, NULL, 0, NULL, NULL));
        if (on_host) {
            int32_t got[TIMED];
            buffer_read_at(d, accepted, round * sizeof got, sizeof got, got);
            for (uint32_t i = 0; i < TIMED; i++) {
                int32_t *const own = text + (size_t)i * (n + rounds);
                own[n + round] = got[i];
                host.tokens = own;
                host.token_count = n + round + 1;
                host.max_history = n;
                must(cls_host_draft(&host, ids + (size_t)i * TIMED_K, NULL));
            }
            buffer_write(d, drafts, 0, TIMED * TIMED_K * sizeof *ids, ids);
        } else {
            must(cls_draft(sampler, d->queue, &call, 0, NULL, NULL));
        }
    }
    must_cl(clFinish(d->queue));
    return cls_now() - start;
}

/* Prints what a round takes on the device and on the host, for short and for long texts. Both end
 * with the same drafts. */
START_TEST(costs)
{
    device *const d = fixture_device(_i);
    const uint32_t rounds = fixture_by_size(4, 50, 400);
    for (uint32_t n = 1024; n <= fixture_by_size(1024, 16384, 16384); n *= 4) {
        rng r = {fixture_seed()};
        cls_sampler *sampler;
        cls_sampler_options o = sampler_options(TIMED_VOCAB, TIMED);
        o.max_history = n;
        o.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_VERIFY | CLS_FEATURE_ACCEPT;
        must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
        int32_t *const text = must_malloc(TIMED * (n + rounds) * sizeof *text),
                       *const next = must_malloc(rounds * TIMED * sizeof *next);
        int32_t found[2][TIMED * TIMED_K];
        for (uint32_t i = 0; i < TIMED; i++) {
            write_text(&r, text + (size_t)i * (n + rounds), n + rounds);
            for (uint32_t round = 0; round < rounds; round++)
                next[round * TIMED + i] = text[(size_t)i * (n + rounds) + n + round];
        }
        const cl_mem accepted = buffer_of(d, rounds * TIMED * sizeof *next, next),
                     drafts = buffer_of(d, sizeof found[0], NULL);
        double best[2] = {1e9, 1e9};
        for (int trial = 0; trial < 6; trial++) {
            const int on_host = trial % 2;
            const double t =
                seconds_of(sampler, d, on_host, n, rounds, text, accepted, drafts, found[on_host]);
            best[on_host] = t < best[on_host] ? t : best[on_host];
            buffer_read(d, drafts, sizeof found[0], found[on_host]);
        }
        ck_assert_mem_eq(found[0], found[1], sizeof found[0]);
        printf("%s: %u texts of %u tokens: %.0f us a round on the device, %.0f on the host: %.2f\n",
               d->name, TIMED, n, 1e6 * best[0] / rounds, 1e6 * best[1] / rounds,
               best[0] / best[1]);
        release_buffers(accepted, drafts);
        cls_sampler_destroy(sampler);
        free(next);
        free(text);
    }
}
END_TEST

/* -------------------------------------------------------------------------- refusals */

START_TEST(refused)
{
    const int32_t outside[] = {0, SLOTS}, free_slot[] = {0, 1};
    device *const d = fixture_device(_i);
    desk *const s = desk_open(d, 8, 0);
    const cl_mem small = buffer_of(d, 9 * sizeof(int32_t), NULL);
    const cls_params p = greedy();
    const cls_buffer none = {.buffer = NULL}, short_one = {.buffer = small},
                     odd = {.buffer = s->ids, .offset = 2}, same = {.buffer = s->ids, .offset = 36};
    cls_draft_call call;
    cls_draft_call_init(&call);
    ck_assert(call.min_n == 2 && call.max_n == 8 && call.fill == -1 && call.k == 0);
    call.requests = 2;
    call.k = 5;
    call.draft_ids.buffer = s->ids;
    call.slots.host = (const int32_t[]){0, 0};
    must(cls_slot_begin(s->sampler, 0, &p, NULL, 0, NULL, 0));
    for (int i = 0; i < 2; i++) /* the first call also begins the request */
        must(cls_draft(s->sampler, d->queue, &call, 0, NULL, NULL));
    ck_assert_uint_eq(cls_sampler_launches(s->sampler), 1);
#define REFUSE(field, value, words) \
    must_refuse_with(call, field, value, cls_draft(s->sampler, d->queue, &call, 0, NULL, NULL), \
                     words)
    REFUSE(struct_size, 0, "struct_size");
    REFUSE(requests, 0, "call->requests is 0; the sampler was created for 1 to 21 rows");
    REFUSE(requests, ROWS + 1, "call->requests is 22");
    REFUSE(k, 0, "call->k is 0; it must be 1 to 128");
    REFUSE(k, CLS_MAX_DRAFTS + 1, "call->k is 129");
    REFUSE(min_n, 0, "call->min_n is 0 and call->max_n 8");
    REFUSE(max_n, 1, "call->min_n is 2 and call->max_n 1");
    REFUSE(max_n, CLS_MAX_DRAFTS + 1, "call->max_n 129");
    REFUSE(fill, -2, "call->fill is -2");
    REFUSE(fill, VOCAB, "call->fill is 40; it must be -1 or a token of the vocabulary of 40");
    REFUSE(reserved, 1, "call->reserved");
    REFUSE(slots.host, outside, "row 1 uses slot 6");
    REFUSE(slots.host, free_slot, "row 1 uses slot 1, which has no request");
    REFUSE(slots.device.buffer, small, "call->slots has a host array and a buffer");
    REFUSE(draft_ids, none, "call->draft_ids.buffer is NULL");
    REFUSE(draft_ids, short_one, "call->draft_ids");
    REFUSE(draft_ids, odd, "call->draft_ids");
    REFUSE(counts, same, "call->counts");
    REFUSE(ids_request_stride, 4, "call->ids_stride is 1 and call->ids_request_stride 4");
    REFUSE(ids_request_stride, UINT64_MAX, "call->draft_ids");
    REFUSE(ids_stride, UINT64_MAX, "call->ids_stride is 18446744073709551615");
    REFUSE(ids_stride, UINT64_MAX / 4, "call->ids_stride");
    must_refuse(cls_draft(NULL, d->queue, &call, 0, NULL, NULL), "sampler is NULL");
    must_refuse(cls_draft(s->sampler, d->queue, NULL, 0, NULL, NULL), "call is NULL");
    call.requests = call.k = 1; /* strides do not matter then */
    call.ids_request_stride = 1;
    must(cls_draft(s->sampler, d->queue, &call, 0, NULL, NULL));
    call.k = 3;
    must(cls_draft(s->sampler, d->queue, &call, 0, NULL, NULL));
    call.k = 1;
    call.requests = 2;
    call.ids_stride = 7;
    must(cls_draft(s->sampler, d->queue, &call, 0, NULL, NULL));
    desk_close(s);

    desk *const none_kept = desk_open(d, 0, 0);
    must(cls_slot_begin(none_kept->sampler, 0, &p, NULL, 0, NULL, 0));
    call.draft_ids.buffer = none_kept->ids;
    must_refuse(cls_draft(none_kept->sampler, d->queue, &call, 0, NULL, NULL),
                "options->max_history of 0");
    desk_close(none_kept);
    release_buffers(small);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        times = (uint32_t)strtoul(argv[1], NULL, 10);
    fixture_begin(ON_DEVICES);
    add_device_test(lives);
    add_device_test(long_texts);
    add_device_test(groups);
    add_device_test(verified);
    add_device_test(refused);
    add_device_test(costs);
    return fixture_end();
}
