/* SPDX-License-Identifier: MIT */
#include "twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROLLBACK = 8, CANARY = 0x5a, MOST_FAULTS = 40 };

/* ------------------------------------------------------------------------------ results */

static void set_outputs(const twin *t, twin_side *s)
{
    cls_buffer at[TWIN_RESULTS];
    for (int i = 0; i < TWIN_RESULTS; i++)
        at[i] = (cls_buffer){.buffer = s->results.buffer, .offset = t->offset[i]};
    cls_outputs_init(&s->outputs);
    s->step.tokens = at[TWIN_TOKENS];
    s->step.status = at[TWIN_STATUS];
    s->outputs.latest = at[TWIN_LATEST];
    s->step.outputs = &s->outputs;
}

/* ---------------------------------------------------------------------- open and close */

/* Makes the side release a buffer. */
static cl_mem own(twin_side *s, cl_mem buffer)
{
    ck_assert_uint_lt(s->n_owned, TWIN_OWNED);
    return s->owned[s->n_owned++] = buffer;
}

cl_mem twin_buffer(twin_side *s, size_t size, const void *contents)
{
    return own(s, buffer_of(s->d, size, contents));
}

static void create_sampler(const twin *t, twin_side *s, cls_context *context)
{
    const batch *const b = t->b;
    cls_sampler_options o = sampler_options(b->vocab, t->slots);
    o.max_rows = b->rows;
    o.max_history = b->history;
    o.max_rollback = ROLLBACK;
    o.dtypes = 1u << b->dtype;
    o.features = CLS_FEATURE_SHORTLIST;
    must(cls_sampler_create(context, &o, &s->sampler));
    for (uint32_t row = 0; row < b->rows; row++)
        request_start(b, row, s->sampler, row);
}

void twin_open(twin *t, device *d, batch *b, const twin_setup *setup, const char *where)
{
    memset(t, 0, sizeof *t);
    ck_assert_uint_le(setup->n, SPLIT_MOST);
    t->b = b;
    t->n = setup->n;
    t->sides = 1 + t->n;
    t->slots = 2 * b->rows;
    t->where = where;
    t->offset[TWIN_STATUS] = b->rows * sizeof(int32_t);
    t->offset[TWIN_LATEST] = 2 * b->rows * sizeof(int32_t);
    t->size = t->offset[TWIN_RESULTS] = (2 * b->rows + t->slots) * sizeof(int32_t);
    unsigned char *const canaries = must_malloc(t->size);
    memset(canaries, CANARY, t->size);
    for (uint32_t i = 0; i < t->sides; i++) {
        twin_side *const s = &t->side[i];
        s->d = setup->devices ? setup->devices[i] : d;
        s->queue = s->d->queue;
        s->width = b->vocab;
        create_sampler(t, s,
                       setup->contexts ? setup->contexts[i] : fixture_context(s->d, 0, 0, 0, 0));
        if (i > 0) {
            cls_shard_options o;
            cls_shard_options_init(&o);
            o.shard_count = t->n;
            o.shard = i - 1;
            o.borders = setup->borders;
            o.on_device = setup->on_device;
            must(cls_shard_create(s->sampler, &o, &s->shard));
            cls_shard_info info;
            cls_shard_info_init(&info);
            must(cls_shard_query(s->shard, &info));
            s->first = info.first;
            s->width = info.count;
        }
        s->bytes = must_malloc(t->size);
        s->results.buffer = twin_buffer(s, t->size, canaries);
        cls_step_init(&s->step);
        s->step.rows = b->rows;
        s->step.logits.dtype = b->dtype;
        split_logits(b, s->d, s->first, s->width, &s->step.logits);
        own(s, s->step.logits.values.buffer);
        set_outputs(t, s);
    }
    free(canaries);
}

void twin_close(twin *t)
{
    for (uint32_t i = 0; i < t->sides; i++) {
        twin_side *const s = &t->side[i];
        cls_shard_destroy(s->shard);
        cls_sampler_destroy(s->sampler);
        for (uint32_t k = 0; k < s->n_owned; k++)
            clReleaseMemObject(s->owned[k]);
        free(s->bytes);
    }
    free(t->partials);
    ck_assert_msg(t->faults == 0, "%s: %u differences, which are printed above", t->where,
                  t->faults);
}

/* ------------------------------------------------------------------------------- steps */

void twin_begin(twin *t)
{
    for (uint32_t i = 1; i < t->sides; i++) {
        twin_side *const s = &t->side[i];
        must(cls_shard_sample(s->shard, s->queue, &s->step, 0, NULL));
        ck_assert_uint_ne(cls_shard_digest(s->shard), 0);
        ck_assert_uint_eq(cls_shard_digest(s->shard), cls_shard_digest(t->side[1].shard));
    }
}

void twin_exchange(twin *t)
{
    cls_shard *shards[SPLIT_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        shards[i] = t->side[1 + i].shard;
    split_gather(shards, t->n, &t->partials, &t->partials_size);
}

void twin_finish(twin *t)
{
    for (int more = t->n > 0; more;) {
        int first = 0;
        twin_exchange(t);
        for (uint32_t i = 1; i < t->sides; i++) {
            twin_side *const s = &t->side[i];
            cl_event done = NULL;
            must(cls_shard_merge(s->shard, t->partials, t->partials_size, &more, &done));
            first = i == 1 ? more : first;
            ck_assert_int_eq(more, first);
            ck_assert_int_eq(done == NULL, more);
            if (done != NULL) {
                must_end(done);
            }
        }
    }
}

/* Prints the elements in which a part of the results differs. */
static void compare(twin *t, uint32_t side, int part)
{
    static const char *const names[TWIN_RESULTS] = {"token", "status", "latest token"};
    for (size_t at = t->offset[part]; at < t->offset[part + 1]; at += 4) {
        const uint32_t row = (uint32_t)(at - t->offset[part]) / 4;
        int32_t is, should;
        memcpy(&is, t->side[side].bytes + at, 4);
        memcpy(&should, t->side[0].bytes + at, 4);
        if (is != should && t->faults++ < MOST_FAULTS)
            printf("%s, shard %u of %u: %s %d, unsharded %d: %s\n", t->where, side - 1, t->n,
                   names[part], (int)is, (int)should,
                   row < t->b->rows ? batch_words(t->b, row) : "a slot");
    }
}

void twin_compare(twin *t)
{
    twin_side *const whole = &t->side[0];
    cl_event done;
    must(cls_sample(whole->sampler, whole->queue, &whole->step, 0, NULL, &done));
    must_end(done);
    for (uint32_t i = 0; i < t->sides; i++)
        buffer_read(t->side[i].d, t->side[i].results.buffer, t->size, t->side[i].bytes);
    for (uint32_t i = 1; i < t->sides; i++)
        for (int part = 0; part < TWIN_RESULTS; part++)
            compare(t, i, part);
}

void twin_step(twin *t)
{
    twin_begin(t);
    twin_finish(t);
    twin_compare(t);
}

int32_t twin_token(const twin *t, uint32_t row)
{
    int32_t token;
    memcpy(&token, t->side[0].bytes + t->offset[TWIN_TOKENS] + row * sizeof token, sizeof token);
    return token;
}

int32_t twin_status(const twin *t, uint32_t row)
{
    int32_t status;
    memcpy(&status, t->side[0].bytes + t->offset[TWIN_STATUS] + row * sizeof status, sizeof status);
    return status;
}
