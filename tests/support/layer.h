/* SPDX-License-Identifier: MIT */
/* An LM head with random weights and hidden rows, on a device and in double
 * precision on the host. */
#ifndef TESTS_LAYER_H
#define TESTS_LAYER_H

#include "fixture.h"
#include "inputs.h"

typedef struct layer {
    device *d;
    cls_head *head;
    cls_head_options options;
    cls_head_call call;
    uint64_t weight_stride, hidden_stride;
    uint32_t hidden_rows;
    double *weight, *hidden, *bias; /* dense */
    cl_mem weight_buffer, hidden_buffer, bias_buffer, map_buffer, logits_buffer;
    size_t logits_size; /* bytes, with a margin on both sides */
    float *logits;      /* LAYER_MARGIN, [max_rows, vocab], LAYER_MARGIN */
    int32_t *map;       /* [rows], or NULL */
} layer;

enum { LAYER_MARGIN = 16 };
extern const float layer_canary; /* what the logits' buffer holds before the first call */

/* What a test chooses; the rest follows from the seed. */
typedef struct layer_wish {
    int dtype;
    uint32_t vocab, hidden, max_rows, rows;
    int plain; /* no strides, offsets, maps */
    int biased, capped;
    uint32_t work_group, vector; /* of the context; 0s: by device */
} layer_wish;

/* Whether heads of float32 weights can be tested. */
int layer_has_f32(const device *d);

void layer_open(layer *l, device *d, const layer_wish *w, rng *r);
void layer_close(layer *l);
/* One call, and its end; blocking. */
void layer_run(layer *l, cl_command_queue queue);
/* Reads the logits' buffer. */
void layer_read(layer *l);
/* That, and the comparison with the product of `call` and `map` in double
 * precision; that nothing was written beside the logits. */
void layer_check(layer *l, const char *where);

#endif
