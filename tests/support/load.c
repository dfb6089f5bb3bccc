/* SPDX-License-Identifier: MIT */
#include "load.h"

#include <stdlib.h>
#include <string.h>

enum {
    VOCAB = 96,
    HISTORY = 32,
    ROLLBACK = 8,
    LOGITS = 4096, /* rows that samples choose from */
    DEPTH = 16     /* results in flight */
};

/* ---------------------------------------------------------------------- alone */

static void step_alone(load *l, const request *q, uint32_t row)
{
    cls_status status;
    cls_step step = default_step(1, l->all_logits);
    step.logits.values.offset =
        (uint64_t)request_logits(q, &l->world, LOGITS) * VOCAB * sizeof(float);
    step.tokens = (cls_buffer){.buffer = l->output_alone, .offset = row * sizeof(int32_t)};
    step.status = (cls_buffer){.buffer = l->output_alone,
                               .offset = (SCRIPT_LIFE + 1 + row) * sizeof(int32_t)};
    while ((status = cls_sample(l->alone, l->queue[1], &step, 0, NULL, NULL)) == CLS_BUSY)
        must_cl(clFinish(l->queue[1]));
    must(status);
    l->alone_steps++;
}

/* Runs a request alone. A fork begins with the calls of the request that it was copied from. */
static void run_alone(load *l, const stream *s)
{
    script_world w = l->world; /* a copy: only requests in the load are counted */
    request q;
    for (uint32_t i = 0; i <= s->n_ancestors; i++) {
        const int own = i == s->n_ancestors;
        const ancestor a =
            own ? (ancestor){s->now.number, s->now.samples, s->now.next} : s->ancestor[i];
        if (i == 0)
            request_begin(&q, &w, a.number, l->alone, 0);
        else
            request_fork(&q, &w, a.number, l->alone, 0);
        while (q.samples < a.samples) {
            while (request_change(&q, &w, l->alone, 0))
                ;
            step_alone(l, &q, own ? q.samples : SCRIPT_LIFE);
            request_sampled(&q);
        }
        while (q.next < a.changes && request_change(&q, &w, l->alone, 0))
            ;
    }
}

/* Compares the results of a request, all of which have arrived, with those of the request alone. */
static void complete(load *l, stream *s)
{
    int32_t alone[2][SCRIPT_LIFE + 1];
    run_alone(l, s);
    must_cl(clEnqueueReadBuffer(l->queue[1], l->output_alone, CL_TRUE, 0, sizeof alone, alone, 0,
                                NULL, NULL));
    for (uint32_t i = 0; i < s->got; i++)
        ck_assert_msg(alone[0][i] == s->token[i] && alone[1][i] == s->status[i],
                      "%s: %u streams: request %u (%u times a fork), sample %u of %u: token %d, "
                      "status %d; alone: %d, %d",
                      l->d->name, l->slots, s->now.number, s->n_ancestors, i, s->got, s->token[i],
                      s->status[i], alone[0][i], alone[1][i]);
    l->replayed++;
    s->where = NOWHERE;
}

/* -------------------------------------------------------------------- results */

/* Fetches the results of the oldest step. */
static void collect(load *l)
{
    const void *data;
    must(cls_readback_get(l->readback, l->taken, 1, &data));
    const int32_t *const token = data, *const status = token + l->slots;
    stream **const row = l->row + l->taken % DEPTH * l->slots;
    for (uint32_t i = 0; i < l->slots; i++) {
        stream *const s = row[i];
        if (s == NULL) {
            ck_assert_msg(token[i] == -1 && status[i] == CLS_ROW_SKIPPED,
                          "%s: row %u was skipped, and has token %d, status %d", l->d->name, i,
                          token[i], status[i]);
            continue;
        }
        ck_assert_msg(!s->ended || s->got < s->ended_at || (status[i] & CLS_ROW_NO_SLOT),
                      "%s: request %u was ended, and has status %d", l->d->name, s->now.number,
                      status[i]);
        s->token[s->got] = token[i];
        s->status[s->got++] = status[i];
        s->stopped = (status[i] & (CLS_ROW_STOPPED | CLS_ROW_NO_SLOT)) != 0;
        l->tokens += token[i] != -1;
        l->stops += (status[i] & CLS_ROW_STOPPED) && token[i] != -1;
        l->ends += (status[i] & CLS_ROW_NO_SLOT) != 0;
    }
    l->taken++;
    for (uint32_t i = 0; i < l->slots; i++)
        if (row[i] != NULL && row[i]->where == GONE && row[i]->got == row[i]->now.samples)
            complete(l, row[i]);
}

static void collect_to(load *l, uint64_t under_way)
{
    while (l->started - l->taken > under_way)
        collect(l);
}

/* ----------------------------------------------------------- arrival, departure */

/* Returns an unused entry for a request, or NULL. */
static stream *new_stream(load *l)
{
    for (uint32_t i = 0; i < l->n_streams; i++) {
        stream *const s = &l->streams[l->look++ % l->n_streams];
        if (s->where == NOWHERE) {
            s->n_ancestors = s->got = 0;
            s->stopped = s->ended = 0;
            s->ended_at = 0;
            return s;
        }
    }
    return NULL;
}

static void settle_in(load *l, stream *s, uint32_t slot)
{
    s->where = SERVED;
    s->slot = slot;
    s->since = l->steps;
    l->of_slot[slot] = s;
}

static void arrive(load *l, uint32_t slot)
{
    stream *const s = new_stream(l);
    stream *const parent = l->of_slot[rng_below(&l->r, l->slots)];
    if (s == NULL)
        return;
    if (parent != NULL && parent->n_ancestors < GENERATIONS && rng_below(&l->r, 4) == 0) {
        must(cls_slot_copy(l->sampler, slot, parent->slot));
        s->now = parent->now;
        s->ended = parent->ended;
        s->n_ancestors = parent->n_ancestors + 1;
        memcpy(s->ancestor, parent->ancestor, sizeof s->ancestor);
        s->ancestor[parent->n_ancestors] =
            (ancestor){parent->now.number, parent->now.samples, parent->now.next};
        request_fork(&s->now, &l->world, l->requests, l->sampler, slot);
        l->forks++;
    } else {
        request_begin(&s->now, &l->world, l->requests, l->sampler, slot);
    }
    l->requests++;
    settle_in(l, s, slot);
}

/* Ends a request. Some slots are not reset, which the next request must not notice. */
static void leave(load *l, stream *s)
{
    if (l->closing || rng_below(&l->r, 4))
        must(cls_slot_reset(l->sampler, s->slot));
    l->of_slot[s->slot] = NULL;
    s->where = GONE;
    if (s->got == s->now.samples)
        complete(l, s);
}

/* Saves a request and resets its slot; it is loaded some steps later. A request that a rollback has
 * ended cannot be saved, which its rows must report, too. */
static void park(load *l, stream *s, stream **entry)
{
    const cls_status status = cls_slot_save(l->sampler, l->queue[0], s->slot, NULL, &s->saved_size);
    if (status == CLS_BAD_ARGUMENT) {
        s->ended_at = s->ended ? s->ended_at : s->now.samples;
        s->ended = 1;
        return;
    }
    must(status);
    s->saved = must_malloc(s->saved_size);
    must(cls_slot_save(l->sampler, l->queue[0], s->slot, s->saved, &s->saved_size));
    must(cls_slot_reset(l->sampler, s->slot));
    l->of_slot[s->slot] = NULL;
    s->where = PARKED;
    s->since = l->steps;
    *entry = s;
}

static int come_back(load *l, uint32_t slot)
{
    for (int i = 0; i < PARKED_AT_ONCE; i++) {
        stream *const s = l->parked[i];
        if (s == NULL || l->steps - s->since < 3)
            continue;
        must(cls_slot_load(l->sampler, slot, s->saved, s->saved_size, NULL));
        free(s->saved);
        l->parked[i] = NULL;
        settle_in(l, s, slot);
        l->moves++;
        return 1;
    }
    return 0;
}

/* ----------------------------------------------------------------------- steps */

/* Makes the slot calls for a slot between two steps. Returns the request that is sampled there, or
 * NULL. */
static stream *visit(load *l, uint32_t slot)
{
    stream *s = l->of_slot[slot];
    if (s != NULL) {
        const int over = s->now.next == s->now.n_changes && (s->stopped || s->ended);
        if (l->closing || l->rush || over || s->now.samples == s->now.life ||
            rng_below(&l->r, 500) == 0) {
            leave(l, s);
            s = NULL;
        }
    }
    if (s == NULL && !come_back(l, slot) && !l->closing && rng_below(&l->r, l->arrivals) == 0)
        arrive(l, slot);
    s = l->of_slot[slot];
    if (s == NULL || rng_below(&l->r, 16) == 0) {
        l->paused += s != NULL;
        return NULL;
    }
    l->rows++;
    while (request_change(&s->now, &l->world, l->sampler, slot))
        ;
    return s;
}

void load_step(load *l)
{
    const uint32_t entry = (uint32_t)(l->started % DEPTH), shift = rng_below(&l->r, l->slots),
                   park_at = rng_below(&l->r, PARKED_AT_ONCE);
    float *const logits = l->staged + (size_t)entry * l->slots * VOCAB;
    stream **const row = l->row + entry * l->slots;
    stream *const any = l->of_slot[rng_below(&l->r, l->slots)];
    const cls_buffer output = {.buffer = l->output};
    int32_t map[LOAD_STREAMS];
    cls_status status;
    uint64_t ticket;
    if (l->steps % 32 == 0) {
        static const uint32_t arrivals[] = {1, 1, 8, 40};
        l->ahead = 8 + rng_below(&l->r, DEPTH - 8);
        l->arrivals = l->steps == 0 ? 1 : arrivals[rng_below(&l->r, 4)];
    }
    if (any != NULL && any->now.samples < any->now.life && l->parked[park_at] == NULL &&
        !l->closing && rng_below(&l->r, 24) == 0)
        park(l, any, &l->parked[park_at]);
    for (uint32_t slot = 0; slot < l->slots; slot++)
        row[(slot + shift) % l->slots] = visit(l, slot);
    for (uint32_t i = 0; i < l->slots; i++) {
        map[i] = row[i] != NULL ? (int32_t)row[i]->slot : -1;
        if (row[i] == NULL)
            continue;
        memcpy(logits + (size_t)i * VOCAB,
               l->logits + (size_t)request_logits(&row[i]->now, &l->world, LOGITS) * VOCAB,
               VOCAB * sizeof *logits);
        request_sampled(&row[i]->now);
    }
    must_cl(clEnqueueWriteBuffer(l->queue[0], l->input, CL_FALSE, 0,
                                 (size_t)l->slots * VOCAB * sizeof *logits, logits, 0, NULL, NULL));
    cls_step step = default_step(l->slots, l->input);
    step.slots.host = map;
    step.tokens = output;
    step.status = (cls_buffer){.buffer = l->output, .offset = l->slots * sizeof(int32_t)};
    while ((status = cls_sample(l->sampler, l->queue[0], &step, 0, NULL, NULL)) == CLS_BUSY) {
        collect(l);
        l->busy++;
    }
    must(status);
    must(cls_readback_start(l->readback, l->queue[0], &output, 2 * l->slots * sizeof(int32_t), 0,
                            NULL, &ticket));
    must_cl(clFlush(l->queue[0]));
    ck_assert_uint_eq(ticket, l->started);
    l->started++;
    l->steps++;
    collect_to(l, l->ahead);
}

void load_lull(load *l)
{
    l->closing = 1;
    for (int i = 0; i < 6; i++)
        load_step(l);
    collect_to(l, 0);
    l->closing = 0;
    ck_assert_uint_eq(l->replayed, l->requests);
}

/* -------------------------------------------------------------- open, close */

static cls_sampler *sampler_of(load *l, uint32_t slots)
{
    cls_sampler *sampler;
    l->world.o.slot_count = l->world.o.max_rows = slots;
    must(cls_sampler_create(fixture_context(l->d, 1u << CLS_F32, 0, 0, 0), &l->world.o, &sampler));
    return sampler;
}

void load_open(load *l, device *d, uint32_t streams)
{
    static const row_kind kinds[] = {ROW_NORMAL1, ROW_LANGUAGE, ROW_NORMAL3, ROW_TIES,
                                     ROW_EQUAL,   ROW_COARSE,   ROW_PEAKED,  ROW_HALF};
    memset(l, 0, sizeof *l);
    l->d = d;
    l->slots = streams;
    l->r.state = fixture_seed();
    l->world.seed = fixture_seed() + 1;
    cls_sampler_options_init(&l->world.o);
    l->world.o.vocab = VOCAB;
    l->world.o.max_history = HISTORY;
    l->world.o.max_rollback = ROLLBACK;
    l->sampler = sampler_of(l, streams);
    l->alone = sampler_of(l, 1);
    l->queue[0] = queue_in_order(d);
    l->queue[1] = queue_in_order(d);
    l->logits = must_calloc((size_t)LOGITS * VOCAB, sizeof *l->logits);
    for (uint32_t i = 0; i < LOGITS; i++)
        row_fill(i % 256 == 255 ? ROW_ALL_NAN
                 : i % 64 == 63 ? ROW_SPRINKLED
                                : kinds[i % 8],
                 l->logits + (size_t)i * VOCAB, VOCAB, fixture_seed() + i);
    l->all_logits = buffer_of(d, (size_t)LOGITS * VOCAB * sizeof *l->logits, l->logits);
    l->staged = must_calloc((size_t)DEPTH * streams * VOCAB, sizeof *l->staged);
    l->input = buffer_of(d, (size_t)streams * VOCAB * sizeof(float), NULL);
    l->output = buffer_of(d, 2 * streams * sizeof(int32_t), NULL);
    l->output_alone = buffer_of(d, 2 * (SCRIPT_LIFE + 1) * sizeof(int32_t), NULL);
    must(cls_readback_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0),
                             2 * streams * sizeof(int32_t), DEPTH, &l->readback));
    l->row = must_calloc((size_t)DEPTH * streams, sizeof(stream *));
    l->of_slot = must_calloc(streams, sizeof(stream *));
    l->n_streams = 4 * streams + 64;
    l->streams = must_calloc(l->n_streams, sizeof *l->streams);
}

void load_close(load *l)
{
    cls_readback_destroy(l->readback);
    cls_sampler_destroy(l->sampler);
    cls_sampler_destroy(l->alone);
    release_buffers(l->all_logits, l->input, l->output, l->output_alone);
    clReleaseCommandQueue(l->queue[0]);
    clReleaseCommandQueue(l->queue[1]);
    free(l->logits);
    free(l->staged);
    free(l->row);
    free(l->of_slot);
    free(l->streams);
}
