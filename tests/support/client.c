/* SPDX-License-Identifier: MIT */
#include "client.h"

#include <stdio.h>
#include <string.h>

cls_sampler *client_sampler(const batch *b, cls_context *context)
{
    cls_sampler *sampler;
    cls_sampler_options o = sampler_options(b->vocab, b->rows);
    o.max_history = b->history;
    o.dtypes = 1u << b->dtype;
    o.features = CLS_FEATURE_SHORTLIST;
    must(cls_sampler_create(context, &o, &sampler));
    for (uint32_t row = 0; row < b->rows; row++)
        request_start(b, row, sampler, row);
    return sampler;
}

void client_open(client *s, batch *b, device *d, cls_context *context, uint32_t steps)
{
    const size_t output = (size_t)steps * b->rows * sizeof(int32_t);
    memset(s, 0, sizeof *s);
    s->b = b;
    s->d = d;
    s->sampler = client_sampler(b, context);
    memset(b->adaptive, 0,
           b->rows * sizeof *b->adaptive); /* no adaptive state before the first step */

    cls_outputs_init(&s->outputs);
    s->step = default_step(b->rows, buffer_of(d, b->data_size, b->data));
    s->step.logits.dtype = b->dtype;
    s->step.logits.values.offset = b->offset;
    s->step.logits.row_stride = b->stride;
    s->step.tokens.buffer = buffer_of(d, output, NULL);
    s->step.status.buffer = buffer_of(d, output, NULL);
}

void client_step(client *s, cl_command_queue queue, uint32_t i, cl_uint n_wait,
                 const cl_event *wait, cl_event *done)
{
    s->step.tokens.offset = s->step.status.offset = (uint64_t)i * s->b->rows * sizeof(int32_t);
    s->step.outputs = &s->outputs;
    must(cls_sample(s->sampler, queue, &s->step, n_wait, wait, done));
}

void client_tokens(client *s, uint32_t i)
{
    const size_t size = s->b->rows * sizeof(int32_t), offset = i * size;
    buffer_read_at(s->d, s->step.tokens.buffer, offset, size, s->b->token);
    buffer_read_at(s->d, s->step.status.buffer, offset, size, s->b->status);
}

void client_check(client *s, uint32_t n, const char *where)
{
    batch *const b = s->b;
    for (uint32_t i = 0; i < n; i++) {
        client_tokens(s, i);
        batch_reference(b);
        for (uint32_t row = 0; row < b->rows; row++) {
            const one_result *const host = &b->host[row];
            ck_assert_msg(b->token[row] == host->token && b->status[row] == host->status,
                          "%s: step %u: %s: token %d, status %d; the reference: %d, %d", where, i,
                          batch_words(b, row), b->token[row], b->status[row], host->token,
                          host->status);
            batch_accept(b, row);
        }
    }
}

void client_close(client *s)
{
    cls_sampler_destroy(s->sampler);
    release_buffers(s->step.logits.values.buffer, s->step.tokens.buffer, s->step.status.buffer);
}

client small_client(device *d, uint32_t rows)
{
    client s;
    batch *const b = batch_new(rows, 100, CLS_F32, 0, 0);
    for (uint32_t row = 0; row < rows; row++)
        batch_row(b, row, ROW_NORMAL1, row);
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    return s;
}

void close_small(client *s)
{
    client_close(s);
    batch_free(s->b);
}

void batch_check(batch *b, device *d, cls_context *context)
{
    client s;
    batch_reference(b);
    client_open(&s, b, d, context, 1);
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_tokens(&s, 0);
    must(cls_sampler_trace(s.sampler, d->queue, b->device_trace, b->rows));
    client_close(&s);
    batch_equal(b, d->name);
}
