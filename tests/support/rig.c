/* SPDX-License-Identifier: MIT */
#include "rig.h"

#include <stdlib.h>

/* Logits, or room for tokens and statuses: on the device or on the host. */
static cls_buffer memory(const rig *b, size_t size, const void *contents)
{
    if (b->d != NULL)
        return (cls_buffer){.buffer = buffer_of(b->d, size, contents)};
    void *const bytes = must_calloc(1, size);
    if (contents != NULL)
        memcpy(bytes, contents, size);
    return (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = bytes, .size = size};
}

rig rig_open(device *d, const cls_sampler_options *o, const float *logits)
{
    rig b = {.d = d, .vocab = o->vocab, .rows = o->max_rows};
    ck_assert_uint_le(b.rows, RIG_ROWS);
    if (d == NULL)
        must(cls_context_create_host(NULL, &b.host));
    must(cls_sampler_create(d == NULL ? b.host : fixture_context(d, 1u << CLS_F32, 0, 0, 0), o,
                            &b.sampler));
    b.step = default_step(b.rows, NULL);
    b.step.logits.values = memory(&b, (size_t)b.rows * b.vocab * sizeof *logits, logits);
    b.step.tokens = b.step.status = memory(&b, 2 * sizeof b.token, NULL);
    b.step.status.offset = sizeof b.token;
    return b;
}

void rig_close(rig *b)
{
    cls_sampler_destroy(b->sampler);
    if (b->d != NULL) {
        release_buffers(b->step.logits.values.buffer, b->step.tokens.buffer);
        return;
    }
    cls_context_destroy(b->host);
    free(b->step.logits.values.pointer);
    free(b->step.tokens.pointer);
}

void rig_step(rig *b)
{
    int32_t out[2][RIG_ROWS];
    must(cls_sample(b->sampler, b->d == NULL ? NULL : b->d->queue, &b->step, 0, NULL, NULL));
    if (b->d != NULL)
        buffer_read(b->d, b->step.tokens.buffer, sizeof out, out);
    else
        memcpy(out, b->step.tokens.pointer, sizeof out);
    memcpy(b->token, out[0], sizeof b->token);
    memcpy(b->status, out[1], sizeof b->status);
}

void rig_row(rig *b, int32_t slot)
{
    const cls_step all = b->step;
    b->step.rows = 1;
    b->step.slots.host = &slot;
    rig_step(b);
    b->step = all;
}
