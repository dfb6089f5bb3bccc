/* SPDX-License-Identifier: MIT */
/* The vocabulary is on one device: the usual case. */
#include "llama.h"

bool vocabulary_begin(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return true;
}

void vocabulary_end(void) {}

void vocabulary_open(sampling *s, const options *o)
{
    (void)o;
    s->first = 0;
    s->count = s->m->c.vocab;
}

void vocabulary_close(sampling *s) { (void)s; }

cls_status vocabulary_sample(sampling *s, const cls_step *step, cl_event *done)
{
    return cls_sample(s->sampler, s->m->d->queue, step, 0, NULL, done);
}

cls_status vocabulary_gather(sampling *s, uint32_t rows, cls_logits *logits)
{
    (void)rows;
    *logits = (cls_logits){.values.buffer = s->logits, .dtype = CLS_F32};
    return CLS_OK;
}
