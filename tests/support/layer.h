/* SPDX-License-Identifier: MIT */
/* An LM head with random weights and hidden states, on a device and in double precision on the
 * host. */
#ifndef TESTS_LAYER_H
#define TESTS_LAYER_H

#include "clsample/head.h"
#include "fixture.h"
#include "rows/kinds.h"

/* The code that multiplies: the library's kernel with float16 or float32 weights, or CLBlast. */
typedef enum layer_product { LAYER_F16, LAYER_F32, LAYER_CLBLAST, LAYER_PRODUCTS } layer_product;

typedef struct layer {
    device *d;
    cls_head *head;
    layer_product product;
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
extern const float layer_canary; /* fills the logits' buffer before the first call */

/* The properties that a test chooses. All others are random. */
typedef struct layer_setup {
    layer_product product;
    uint32_t vocab, hidden, max_rows, rows;
    int plain; /* no strides, offsets, maps */
    int biased, capped;
    uint32_t work_group, vector; /* of the context; 0: chosen for the device */
} layer_setup;

/* Returns whether a product can be tested on a device. CLBlast is slow, so only runs of size `from`
 * and larger test it. */
int layer_is_supported(const device *d, layer_product product, test_size from);
extern const char *const layer_product_names[LAYER_PRODUCTS];

void layer_open(layer *l, device *d, const layer_setup *w, rng *r);
void layer_close(layer *l);
/* Makes one call and waits for it. */
void layer_run(layer *l, cl_command_queue queue);
/* Reads the logits' buffer. */
void layer_read(layer *l);
/* Reads the logits' buffer and compares it with the product in double precision. Fails if anything
 * was written outside the logits. */
void layer_check(layer *l, const char *where);

#endif
