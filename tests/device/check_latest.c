/* SPDX-License-Identifier: MIT */
/* Proves what a server's loop relies on: which calls write `latest` and which do not, and
 * which row first reports that a request has ended. check_interface tests that each row writes
 * at its slot's index. */
#include "bench.h"

enum { VOCAB = 16, SLOTS = 5, MARK = -7, ENDED = CLS_ROW_STOPPED | CLS_ROW_SKIPPED };

/* Greedy requests; row t of the logits gives token t. */
typedef struct desk {
    bench b;           /* its steps have one row */
    cls_params params; /* of requests: 3 tokens, or until token 9 */
    cls_outputs outputs;
    int32_t slot; /* of the row */
} desk;

static const int32_t stop_ids[] = {9}, prompt[] = {1, 2, 3};

static void desk_open(desk *s, device *d)
{
    float logits[VOCAB][VOCAB] = {{0}};
    const int32_t marks[SLOTS] = {MARK, MARK, MARK, MARK, MARK};
    cls_sampler_options o = sampler_options(VOCAB, SLOTS);
    o.max_rows = VOCAB;
    o.max_rollback = 4;
    o.features =
        CLS_FEATURE_SHORTLIST | CLS_FEATURE_STATE | CLS_FEATURE_VERIFY | CLS_FEATURE_ACCEPT;
    for (int t = 0; t < VOCAB; t++)
        logits[t][t] = 1.0f;
    s->b = bench_open(d, &o, logits[0]);
    cls_params_init(&s->params);
    s->params.temperature = 0.0f;
    s->params.max_tokens = 3;
    s->params.stop_ids = (cls_ids){stop_ids, 1};
    cls_outputs_init(&s->outputs);
    s->b.step.outputs = &s->outputs;
    s->b.step.rows = 1;
    s->b.step.slots.host = &s->slot;
    s->outputs.latest.buffer = buffer_of(d, sizeof marks, marks);
}

static void desk_close(desk *s)
{
    bench_close(&s->b);
    clReleaseMemObject(s->outputs.latest.buffer);
}

static void begin(desk *s, uint32_t slot, const int32_t *output, uint32_t n)
{
    must(cls_slot_begin(s->b.sampler, slot, &s->params, prompt, 3, output, n));
}

/* Enqueues a row of a slot whose likeliest token is `token`. */
static void row(desk *s, int32_t slot, int32_t token)
{
    s->slot = slot;
    s->b.step.logits.values.offset = (uint64_t)token * VOCAB * sizeof(float);
    must(cls_sample(s->b.sampler, s->b.d->queue, &s->b.step, 0, NULL, NULL));
}

static void expect_row(desk *s, int32_t slot, int32_t token, int32_t want, int32_t want_status,
                       int line)
{
    row(s, slot, token);
    bench_read(&s->b);
    const int32_t got = s->b.token[0], status = s->b.status[0];
    ck_assert_msg(got == want && status == want_status, "line %d: token %d, status %d; not %d, %d",
                  line, got, status, want, want_status);
}
#define EXPECT_ROW(s, slot, token, want, status) \
    expect_row((s), (slot), (token), (want), (status), __LINE__)

static void expect_latest(desk *s, int32_t slot, int32_t want, int line)
{
    int32_t got[SLOTS];
    buffer_read(s->b.d, s->outputs.latest.buffer, sizeof got, got);
    ck_assert_msg(got[slot] == want, "line %d: the latest token of slot %d is %d, not %d", line,
                  slot, got[slot], want);
}
#define EXPECT_LATEST(s, slot, want) expect_latest((s), (slot), (want), __LINE__)

/* Forks a request on the device after the steps that are enqueued. */
static void copy_latest(desk *s, size_t to, size_t from)
{
    const cl_mem latest = s->outputs.latest.buffer;
    must_cl(clEnqueueCopyBuffer(s->b.d->queue, latest, latest, 4 * from, 4 * to, 4, 0, NULL, NULL));
}

/* Slot calls and cls_accept() do not write `latest`. Steps and verifications do if a row has a
 * token. */
START_TEST(rows_alone_write_it)
{
    desk s;
    const int32_t output[] = {8}, accepted[] = {7};
    const cls_ints tokens = {.host = accepted};
    static char bytes[4096];
    size_t size = sizeof bytes;
    desk_open(&s, fixture_device(_i));
    begin(&s, 0, NULL, 0);   /* a join: a prompt ... */
    begin(&s, 1, output, 1); /* ... and an output */
    begin(&s, 2, NULL, 0);
    EXPECT_ROW(&s, 2, 5, 5, CLS_ROW_OK);
    must(cls_slot_append_prompt(s.b.sampler, 0, prompt, 2));
    must(cls_slot_next_turn(s.b.sampler, 1, prompt, 2));
    must(cls_slot_copy(s.b.sampler, 3, 2)); /* a fork */
    EXPECT_ROW(&s, 2, 6, 6, CLS_ROW_OK);
    EXPECT_LATEST(&s, 0, MARK);
    EXPECT_LATEST(&s, 1, MARK);
    EXPECT_LATEST(&s, 2, 6);
    EXPECT_LATEST(&s, 3, MARK);
    must(cls_slot_rollback(s.b.sampler, 2, 1)); /* to 5 */
    EXPECT_ROW(&s, 3, 4, 4, CLS_ROW_OK);
    EXPECT_LATEST(&s, 2, 6);
    must(cls_slot_params(s.b.sampler, 2, &s.params));
    must(accept_ints(s.b.sampler, s.b.d->queue, 1, 1, &tokens,
                     &(cls_ints){.host = (const int32_t[]){2}}, 0, NULL, NULL));
    EXPECT_LATEST(&s, 2, 6);
    must(cls_slot_save(s.b.sampler, s.b.d->queue, 2, bytes, &size));
    must(cls_slot_load(s.b.sampler, 4, bytes, size, NULL));
    must(cls_slot_reset(s.b.sampler, 2));
    EXPECT_ROW(&s, 3, 8, 8, CLS_ROW_STOPPED | CLS_ROW_LENGTH); /* 5, 4, 8 */
    EXPECT_LATEST(&s, 2, 6);
    EXPECT_LATEST(&s, 3, 8);
    EXPECT_LATEST(&s, 4, MARK);
    EXPECT_ROW(&s, 4, 2, 2, CLS_ROW_STOPPED | CLS_ROW_LENGTH); /* 5, 7 by cls_accept(), 2 */
    EXPECT_ROW(&s, 3, 2, -1, ENDED);                           /* nor does a row without a token */
    EXPECT_LATEST(&s, 3, 8);
    desk_close(&s);
}
END_TEST

/* Two drafts of slot 0, which ends there, and none of slot 1. */
START_TEST(of_verifications)
{
    desk s;
    const int32_t cu[] = {0, 3, 4}, drafts[] = {4, 5}, slots[] = {0, 1};
    int32_t emitted[2], status[2];
    desk_open(&s, fixture_device(_i));
    cls_verify_call call;
    cls_verify_call_init(&call);
    call.requests = 2;
    call.row_offsets = cu;
    call.slots.host = slots;
    call.logits = s.b.step.logits;
    call.logits.values.offset = 4 * VOCAB * sizeof(float); /* rows 4, 5, 6; 7 */
    call.draft_ids.host = drafts;
    call.emitted.buffer = buffer_of(s.b.d, sizeof emitted, NULL);
    call.status.buffer = buffer_of(s.b.d, sizeof status, NULL);
    call.latest = s.outputs.latest;
    begin(&s, 0, NULL, 0);
    begin(&s, 1, NULL, 0);
    for (int turn = 0; turn < 2; turn++) {
        must(cls_verify(s.b.sampler, s.b.d->queue, &call, 0, NULL, NULL));
        must(cls_slot_copy(s.b.sampler, 2, 0));
        buffer_read(s.b.d, call.emitted.buffer, sizeof emitted, emitted);
        buffer_read(s.b.d, call.status.buffer, sizeof status, status);
        ck_assert_int_eq(emitted[0], turn == 0 ? 3 : 0);
        ck_assert_int_eq(status[0], turn == 0 ? CLS_ROW_STOPPED | CLS_ROW_LENGTH : ENDED);
        ck_assert_int_eq(emitted[1], 1);
        EXPECT_LATEST(&s, 0, 6); /* the last that was emitted, and stays */
        EXPECT_LATEST(&s, 1, 7);
        EXPECT_LATEST(&s, 2, MARK);
    }
    must(cls_slot_rollback(s.b.sampler, 1, 1));
    EXPECT_ROW(&s, 2, 3, -1, ENDED); /* the copy of what stopped among drafts */
    EXPECT_ROW(&s, 1, 2, 2, CLS_ROW_OK);
    release_buffers(call.emitted.buffer, call.status.buffer);
    desk_close(&s);
}
END_TEST

/* A fork after a step whose result the host has not read. The child continues after that step, so
 * the token of the step before would be the wrong one to embed. */
START_TEST(forks_ahead)
{
    desk s;
    desk_open(&s, fixture_device(_i));
    begin(&s, 0, NULL, 0);
    EXPECT_ROW(&s, 0, 4, 4, CLS_ROW_OK); /* the last that the host has seen */
    row(&s, 0, 5);                       /* in flight */
    must(cls_slot_copy(s.b.sampler, 1, 0));
    copy_latest(&s, 1, 0);
    EXPECT_LATEST(&s, 1, 5);
    EXPECT_ROW(&s, 1, 6, 6, CLS_ROW_STOPPED | CLS_ROW_LENGTH); /* its third: it has 4 and 5 */
    EXPECT_LATEST(&s, 0, 5);
    EXPECT_ROW(&s, 0, 7, 7, CLS_ROW_STOPPED | CLS_ROW_LENGTH);
    desk_close(&s);
}
END_TEST

/* Requests that have ended before their first row: each of their rows is stopped and skipped. */
START_TEST(ended_from_the_start)
{
    desk s;
    const int32_t full[] = {4, 5, 6}, stopped[] = {4, 9}, open[] = {9, 4};
    desk_open(&s, fixture_device(_i));
    begin(&s, 0, full, 3);
    begin(&s, 1, stopped, 2);
    begin(&s, 2, open, 2); /* its stop id is not its latest token */
    EXPECT_ROW(&s, 0, 7, -1, ENDED);
    EXPECT_ROW(&s, 1, 7, -1, ENDED);
    must(cls_slot_copy(s.b.sampler, 3, 1));
    EXPECT_ROW(&s, 3, 7, -1, ENDED); /* a copy of a request that never had a row */
    row(&s, 2, 8);                   /* its last: in flight */
    must(cls_slot_copy(s.b.sampler, 4, 2));
    EXPECT_ROW(&s, 4, 7, -1, ENDED);
    EXPECT_ROW(&s, 4, 7, -1, ENDED); /* and so on */
    for (int32_t slot = 0; slot < SLOTS; slot++)
        EXPECT_LATEST(&s, slot, slot == 2 ? 8 : MARK);
    desk_close(&s);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(rows_alone_write_it);
    add_device_test(of_verifications);
    add_device_test(forks_ahead);
    add_device_test(ended_from_the_start);
    return fixture_end();
}
