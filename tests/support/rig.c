/* SPDX-License-Identifier: MIT */
#include "rig.h"

rig rig_open(device *d, const cls_sampler_options *o, const float *logits)
{
    rig b = {.d = d, .vocab = o->vocab, .rows = o->max_rows};
    ck_assert_uint_le(b.rows, RIG_ROWS);
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), o, &b.sampler));
    b.step = default_step(b.rows, buffer_of(d, (size_t)b.rows * b.vocab * sizeof *logits, logits));
    b.step.tokens.buffer = b.step.status.buffer = buffer_of(d, 2 * sizeof b.token, NULL);
    b.step.status.offset = sizeof b.token;
    return b;
}

void rig_close(rig *b)
{
    cls_sampler_destroy(b->sampler);
    release_buffers(b->step.logits.values.buffer, b->step.tokens.buffer);
}

void rig_step(rig *b)
{
    int32_t out[2][RIG_ROWS];
    must(cls_sample(b->sampler, b->d->queue, &b->step, 0, NULL, NULL));
    buffer_read(b->d, b->step.tokens.buffer, sizeof out, out);
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
