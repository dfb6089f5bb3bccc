/* SPDX-License-Identifier: MIT */
/* Proves that cls_accept() with `rollback` and `counts` leaves slots as cls_slot_rollback() and
 * then cls_accept() do, bit for bit; that numbers out of range end their request and no other; and
 * that a draft model's slots follow a verification by its outputs alone, however it went. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"

enum { ROWS = 6, ROLLBACK = 12, DRAWN = 6, WIDTH = 8 };

/* ------------------------------------------------------------------------ alike */

typedef struct triplet {
    device *d;
    batch *b;
    cls_sampler *sampler[3]; /* by one call, by rollbacks of what differs, and of everything */
    cls_step step;
    cl_mem tokens, counts, rollback;
} triplet;

static void triplet_open(triplet *t, device *d, uint32_t vocab, rng *r)
{
    batch *const b = batch_new(ROWS, vocab, CLS_F32, vocab, 0);
    *t = (triplet){.d = d, .b = b};
    b->history = 4 + rng_below(r, 40);
    b->keep = (int32_t)rng_below(r, 3);
    b->forces = rng_below(r, 2) == 0;
    batch_random(b, r);
    batch_requests(b, r);
    cls_sampler_options o = sampler_options(vocab, ROWS);
    o.max_history = b->history;
    o.max_rollback = ROLLBACK;
    o.counts = b->keep;
    o.dtypes = 1u << CLS_F32;
    for (int i = 0; i < 3; i++) {
        must(cls_sampler_create(fixture_context(d, 0, 0, 0, 0), &o, &t->sampler[i]));
        for (uint32_t row = 0; row < ROWS; row++)
            request_start(b, row, t->sampler[i], row);
    }
    t->step = default_step(ROWS, buffer_of(d, b->data_size, b->data));
    t->step.tokens.buffer = buffer_of(d, ROWS * sizeof(int32_t), NULL);
    t->tokens = buffer_of(d, (size_t)ROWS * WIDTH * sizeof(int32_t), NULL);
    t->counts = buffer_of(d, ROWS * sizeof(int32_t), NULL);
    t->rollback = buffer_of(d, ROWS * sizeof(int32_t), NULL);
}

static void triplet_close(triplet *t)
{
    for (int i = 0; i < 3; i++)
        cls_sampler_destroy(t->sampler[i]);
    release_buffers(t->step.logits.values.buffer, t->step.tokens.buffer, t->tokens, t->counts,
                    t->rollback);
    batch_free(t->b);
}

/* Whether tokens that are taken back and accepted again teach a request's sampler less. */
static int learns(const cls_params *p) { return p->mirostat != 0 || p->adaptive_target >= 0.0f; }

/* Draws a token for each row with all samplers, which must agree. */
static void draw(triplet *t, int32_t *drawn)
{
    int32_t other[ROWS];
    for (int i = 0; i < 3; i++) {
        must(cls_sample(t->sampler[i], t->d->queue, &t->step, 0, NULL, NULL));
        buffer_read(t->d, t->step.tokens.buffer, sizeof other, i == 0 ? drawn : other);
        for (uint32_t row = 0; row < ROWS && i != 0; row++)
            if (i == 1 || !learns(&t->b->params[row]))
                ck_assert_int_eq(drawn[row], other[row]);
    }
}

/* Puts ints on the device, or leaves them on the host. */
static cls_ints ints(triplet *t, cl_mem to, const int32_t *from, size_t n, rng *r)
{
    if (rng_below(r, 2))
        return (cls_ints){.host = from};
    buffer_write(t->d, to, 0, n * sizeof *from, from);
    return (cls_ints){.device.buffer = to};
}

static void rollback_and_accept(triplet *t, int which, const int32_t *back, const int32_t *stay,
                                const int32_t *counts, const int32_t *ids)
{
    int32_t rest[ROWS * WIDTH];
    cls_accept_call call;
    for (uint32_t row = 0; row < ROWS; row++) {
        const int32_t kept = stay ? stay[row] : 0;
        for (int32_t k = 0; k < WIDTH; k++)
            rest[row * WIDTH + (uint32_t)k] =
                k >= kept && k < counts[row] ? ids[row * WIDTH + (uint32_t)k] : -1;
        if (back[row] > kept)
            must(cls_slot_rollback(t->sampler[which], row, (uint32_t)(back[row] - kept)));
    }
    cls_accept_call_init(&call);
    call.rows = ROWS;
    call.per_row = WIDTH;
    call.tokens.host = rest;
    must(cls_accept(t->sampler[which], t->d->queue, &call, 0, NULL, NULL));
}

/* Draws some tokens, and replaces them by others that begin as they do. Returns how many stayed. */
static uint32_t replace(triplet *t, const char *where, rng *r)
{
    const batch *const b = t->b;
    int32_t drawn[DRAWN][ROWS], ids[ROWS * WIDTH], counts[ROWS], back[ROWS], stay[ROWS];
    uint32_t stayed = 0;
    cls_accept_call call;
    const uint32_t n = rng_below(r, DRAWN + 1);
    for (uint32_t k = 0; k < n; k++)
        draw(t, drawn[k]);
    for (uint32_t row = 0; row < ROWS; row++) {
        int32_t own[DRAWN], *const to = ids + (size_t)row * WIDTH, made = 0;
        for (uint32_t k = 0; k < n; k++)
            if (drawn[k][row] >= 0)
                own[made++] = drawn[k][row];
        back[row] = made != 0 ? (int32_t)rng_below(r, (uint32_t)made + 1) : 0;
        counts[row] = (int32_t)rng_below(r, WIDTH + 1);
        const int32_t same = (int32_t)rng_below(r, (uint32_t)back[row] + 1);
        for (int32_t k = 0; k < WIDTH; k++)
            to[k] = k < same                ? own[made - back[row] + k]
                    : rng_below(r, 10) == 0 ? -1 - (int32_t)rng_below(r, 9)
                                            : (int32_t)rng_below(r, b->vocab);
        for (stay[row] = 0; stay[row] < back[row] && stay[row] < counts[row] &&
                            to[stay[row]] == own[made - back[row] + stay[row]];)
            stay[row]++;
        stayed += (uint32_t)stay[row];
    }
    cls_accept_call_init(&call);
    call.rows = ROWS;
    call.per_row = WIDTH;
    call.tokens = ints(t, t->tokens, ids, (size_t)ROWS * WIDTH, r);
    call.counts = ints(t, t->counts, counts, ROWS, r);
    call.rollback = ints(t, t->rollback, back, ROWS, r);
    must(cls_accept(t->sampler[0], t->d->queue, &call, 0, NULL, NULL));
    ck_assert(n == 0 || cls_sampler_launches(t->sampler[0]) == 1); /* n = 0: slots begin */
    rollback_and_accept(t, 1, back, stay, counts, ids);
    rollback_and_accept(t, 2, back, NULL, counts, ids);
    for (uint32_t row = 0; row < ROWS; row++) {
        const cls_params *const p = &b->params[row];
        ck_assert_msg(
            slots_are_same(t->d->queue, t->sampler[0], row, t->sampler[1], row),
            "%s: %u tokens drawn, %d taken back, %d of them equal, %d accepted: the slot of %s",
            where, n, back[row], stay[row], counts[row], batch_words(b, row));
        if (learns(p) || p->penalty_window != 0)
            continue; /* a window's entries remember in which order they were counted */
        ck_assert_msg(slots_are_same(t->d->queue, t->sampler[0], row, t->sampler[2], row),
                      "%s: of %d tokens taken back %d were equal: the slot of %s", where, back[row],
                      stay[row], batch_words(b, row));
    }
    return stayed;
}

START_TEST(as_separate_calls)
{
    static const uint32_t sizes[] = {100, 1000, 33, 1025};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 700};
    uint32_t stayed = 0;
    char where[240];
    for (uint32_t i = 0; i < fixture_by_size(6, 30, 120); i++) {
        triplet t;
        triplet_open(&t, d, sizes[i % 4], &r);
        for (uint32_t round = 0; round < 3; round++) {
            snprintf(where, sizeof where, "%s, case %u, round %u", d->name, i, round);
            stayed += replace(&t, where, &r);
        }
        triplet_close(&t);
    }
    printf("%s: %u tokens stayed\n", d->name, stayed);
    ck_assert_uint_gt(stayed, 0);
}
END_TEST

/* ----------------------------------------------------------------- out of range */

START_TEST(out_of_range)
{
    enum { CASES = 9, OUTPUTS = 5 };
    static const struct {
        int32_t rollback, count;
        int ends;
    } cases[CASES] = {{OUTPUTS, 1, 0},   {OUTPUTS + 1, 1, 1}, {-1, 1, 1},
                      {13, 1, 1},        {0, -1, 1},          {0, WIDTH + 1, 1},
                      {INT32_MIN, 0, 1}, {1, INT32_MAX, 1},   {0, WIDTH, 0}};
    device *const d = fixture_device(_i);
    static float logits[CASES][64];
    const int32_t output[OUTPUTS] = {1, 2, 3, 4, 5};
    int32_t ids[CASES * WIDTH], back[CASES], counts[CASES], got[2][2][CASES];
    cls_sampler *sampler[2];
    cls_accept_call call;
    cls_params p = default_params();
    cls_sampler_options o = sampler_options(64, CASES);
    p.repetition_penalty = 1.3f;
    p.temperature = 1.0f;
    o.max_rollback = ROLLBACK;
    row_fill(ROW_NORMAL1, logits[0], CASES * 64, 4);
    for (int i = 0; i < 2; i++) {
        must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler[i]));
        for (uint32_t row = 0; row < CASES; row++)
            must(cls_slot_begin(sampler[i], row, &p, output, 2, output, OUTPUTS));
    }
    for (uint32_t row = 0; row < CASES; row++) {
        back[row] = cases[row].rollback;
        counts[row] = cases[row].count;
        for (uint32_t k = 0; k < WIDTH; k++)
            ids[row * WIDTH + k] = (int32_t)(20 + 2 * k + row);
    }
    cls_step step = default_step(CASES, buffer_of(d, sizeof logits, logits));
    step.tokens.buffer = buffer_of(d, sizeof counts, NULL);
    step.status.buffer = buffer_of(d, sizeof counts, NULL);
    cls_accept_call_init(&call);
    call.rows = CASES;
    call.per_row = WIDTH;
    call.tokens.host = ids;
    call.counts.device.buffer = buffer_of(d, sizeof counts, counts);
    call.rollback.device.buffer = buffer_of(d, sizeof back, back);
    must(cls_accept(sampler[0], d->queue, &call, 0, NULL, NULL));
    for (uint32_t row = 0; row < CASES; row++) /* the other one gets what is right */
        counts[row] = cases[row].ends ? 0 : counts[row];
    for (uint32_t row = 0; row < CASES; row++)
        if (!cases[row].ends && back[row] != 0)
            must(cls_slot_rollback(sampler[1], row, (uint32_t)back[row]));
    call.rollback = (cls_ints){.host = NULL};
    const cl_mem buffer = call.counts.device.buffer;
    call.counts = (cls_ints){.host = counts};
    must(cls_accept(sampler[1], d->queue, &call, 0, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        must(cls_sample(sampler[i], d->queue, &step, 0, NULL, NULL));
        buffer_read(d, step.tokens.buffer, sizeof got[i][0], got[i][0]);
        buffer_read(d, step.status.buffer, sizeof got[i][1], got[i][1]);
    }
    for (uint32_t row = 0; row < CASES; row++) {
        ck_assert_msg(got[0][1][row] == (cases[row].ends ? CLS_ROW_NO_SLOT : 0) &&
                          got[0][0][row] == (cases[row].ends ? -1 : got[1][0][row]),
                      "%s: rollback %d, count %d: token %d, status %d", d->name, back[row],
                      cases[row].count, got[0][0][row], got[0][1][row]);
        if (!cases[row].ends)
            ck_assert(slots_are_same(d->queue, sampler[0], row, sampler[1], row));
    }
    must(cls_slot_begin(sampler[0], 2, &p, output, 2, NULL, 0)); /* the slot serves again */
    must(cls_sample(sampler[0], d->queue, &step, 0, NULL, NULL));
    buffer_read(d, step.status.buffer, sizeof got[0][1], got[0][1]);
    ck_assert_int_eq(got[0][1][2], 0);
    for (int i = 0; i < 2; i++)
        cls_sampler_destroy(sampler[i]);
    release_buffers(step.logits.values.buffer, step.tokens.buffer, step.status.buffer, buffer);
}
END_TEST

/* ------------------------------------------------------- following a verification */

enum { DRAFTS = 3, REQUESTS = 8, VOCAB = 64, ROUNDS = 2 };
static const struct {
    const char *name;
    int32_t wants[DRAFTS + 1], drafts[DRAFTS]; /* the model's tokens, and the drafts */
    int32_t stop;                              /* an id that ends the request, or -1 */
    uint32_t max_tokens;
    int skipped;
    int32_t drafted, emitted[2]; /* in the first round: with a bonus, without one */
} followed[REQUESTS] = {
    {"all accepted", {10, 11, 12, 13}, {10, 11, 12}, -1, 0, 0, 3, {4, 3}},
    {"the first one refused", {10, 11, 12, 13}, {20, 11, 12}, -1, 0, 0, 3, {1, 1}},
    {"the last one refused", {10, 11, 12, 13}, {10, 11, 20}, -1, 0, 0, 3, {3, 3}},
    {"ends on an accepted draft", {10, 11, 12, 13}, {10, 11, 12}, 11, 0, 0, 3, {2, 2}},
    {"the last of max_tokens", {10, 11, 12, 13}, {10, 11, 12}, -1, 3, 0, 3, {3, 3}},
    {"fewer drafts", {10, 11, 12, 13}, {10, -1, -1}, -1, 0, 0, 1, {2, 2}},
    {"a gap in the drafts", {10, 11, 12, 13}, {-1, 11, VOCAB}, -1, 0, 0, 1, {1, 1}},
    {"skipped", {10, 11, 12, 13}, {10, 11, 12}, -1, 0, 1, 3, {0, 0}},
};

/* A draft model's slots get nothing but the outputs of a verification. "Accept the last token"
 * would be wrong where a request ends on a draft, and where all are accepted without a bonus. */
static void follow(device *d, int disable_bonus)
{
    enum { ROWS_OF_ALL = REQUESTS * (DRAFTS + 1) };
    static float logits[ROWS_OF_ALL][VOCAB];
    const int32_t prompt[] = {1, 2, 1, 3};
    int32_t cu[REQUESTS + 1] = {0}, slots[REQUESTS], text[REQUESTS][(ROUNDS + 1) * (DRAFTS + 1)],
                          n[REQUESTS] = {0}, ids[REQUESTS][DRAFTS], got[REQUESTS][DRAFTS + 1],
                          drafted[REQUESTS], emitted[REQUESTS], longest[REQUESTS] = {0};
    cls_sampler *target, *draft, *fresh;
    cls_params p = default_params(), own = p;
    cls_verify_call call;
    cls_accept_call made, after;
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cls_sampler_options o = sampler_options(VOCAB, ROWS_OF_ALL);
    o.slot_count = REQUESTS;
    o.max_rollback = DRAFTS;
    must(cls_sampler_create(context, &o, &target));
    must(cls_sampler_create(context, &o, &draft));
    must(cls_sampler_create(context, &o, &fresh));
    p.temperature = 0.0f;
    own.repetition_penalty = 1.5f;
    own.frequency_penalty = 0.25f;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        p.stop_ids.ids = &followed[i].stop;
        p.stop_ids.count = followed[i].stop >= 0;
        p.max_tokens = followed[i].max_tokens;
        must(cls_slot_begin(target, i, &p, prompt, 4, NULL, 0));
        must(cls_slot_begin(draft, i, &own, prompt, 4, NULL, 0));
        slots[i] = followed[i].skipped ? -1 : (int32_t)i;
        cu[i + 1] = cu[i] + DRAFTS + 1;
    }
    cls_verify_call_init(&call);
    call.requests = REQUESTS;
    call.row_offsets = cu;
    call.slots.host = slots;
    call.disable_bonus = disable_bonus;
    call.logits.values.buffer = buffer_of(d, sizeof logits, NULL);
    call.draft_ids.device.buffer = buffer_of(d, sizeof ids, NULL);
    call.tokens.buffer = buffer_of(d, sizeof got, NULL);
    call.emitted.buffer = buffer_of(d, sizeof emitted, NULL);
    call.drafted.buffer = buffer_of(d, sizeof drafted, NULL);
    cls_accept_call_init(&made);
    made.rows = REQUESTS;
    made.per_row = DRAFTS;
    made.tokens = call.draft_ids;
    after = made;
    after.per_row = DRAFTS + 1;
    after.tokens.device = call.tokens;
    after.counts.device = call.emitted;
    after.rollback.device = call.drafted;
    for (int32_t round = 0; round < ROUNDS; round++) {
        memset(logits, 0, sizeof logits);
        for (uint32_t i = 0; i < REQUESTS; i++)
            for (int32_t k = 0; k <= DRAFTS; k++) {
                logits[cu[i] + k][followed[i].wants[k] + 30 * round] = 9.0f;
                if (k < DRAFTS)
                    ids[i][k] =
                        followed[i].drafts[k] + (followed[i].drafts[k] < 0 ? 0 : 30 * round);
            }
        buffer_write(d, call.logits.values.buffer, 0, sizeof logits, logits);
        buffer_write(d, call.draft_ids.device.buffer, 0, sizeof ids, ids);
        must(cls_accept(draft, d->queue, &made, 0, NULL, NULL));
        must(cls_verify(target, d->queue, &call, 0, NULL, NULL));
        must(cls_accept(draft, d->queue, &after, 0, NULL, NULL));
        ck_assert_uint_eq(cls_sampler_launches(draft), 1);
        buffer_read(d, call.tokens.buffer, sizeof got, got);
        buffer_read(d, call.emitted.buffer, sizeof emitted, emitted);
        buffer_read(d, call.drafted.buffer, sizeof drafted, drafted);
        for (uint32_t i = 0; i < REQUESTS; i++) {
            longest[i] = n[i] + drafted[i] > longest[i] ? n[i] + drafted[i] : longest[i];
            memcpy(text[i] + n[i], got[i], (size_t)emitted[i] * sizeof **got);
            n[i] += emitted[i];
            longest[i] = n[i] > longest[i] ? n[i] : longest[i];
            /* A request that was once as long, and has this text. */
            for (int32_t k = n[i]; k < longest[i]; k++)
                text[i][k] = 5;
            must(cls_slot_begin(fresh, i, &own, prompt, 4, text[i], (uint32_t)longest[i]));
            if (n[i] < longest[i])
                must(cls_slot_rollback(fresh, i, (uint32_t)(longest[i] - n[i])));
            if (round == 0)
                ck_assert_msg(emitted[i] == followed[i].emitted[disable_bonus] &&
                                  drafted[i] == followed[i].drafted,
                              "%s: %s: emitted %d, drafted %d", d->name, followed[i].name,
                              emitted[i], drafted[i]);
            ck_assert_msg(slots_are_same(d->queue, draft, i, fresh, i),
                          "%s: %s, round %d%s: after %d tokens the draft's slot is wrong", d->name,
                          followed[i].name, round, disable_bonus ? ", no bonus" : "", n[i]);
        }
    }
    cls_sampler_destroy(target);
    cls_sampler_destroy(draft);
    cls_sampler_destroy(fresh);
    release_buffers(call.logits.values.buffer, call.draft_ids.device.buffer, call.tokens.buffer,
                    call.emitted.buffer, call.drafted.buffer);
}

START_TEST(draft_follows_verification)
{
    follow(fixture_device(_i), 0);
    follow(fixture_device(_i), 1);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_ACCEPT | CLS_FEATURE_STATE | CLS_FEATURE_VERIFY |
                   CLS_FEATURE_FORCED);
    fixture_begin(ON_DEVICES);
    add_device_test(as_separate_calls);
    add_device_test(out_of_range);
    add_device_test(draft_follows_verification);
    return fixture_end();
}
