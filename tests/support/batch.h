/* SPDX-License-Identifier: MIT */
/* A batch of rows with everything that decides their tokens, sampled by the
 * reference and by the device, and the comparison of both, bit for bit. */
#ifndef TESTS_BATCH_H
#define TESTS_BATCH_H

#include "fixture.h"
#include "inputs.h"
#include "reference/reference.h"
#include "step/step.h"
#include "oracle.h"

/* What a request begins with, and its output since. */
typedef struct tokens {
    int32_t *prompt, *output;
    uint32_t prompt_count, output_count;
} tokens;

typedef struct batch {
    uint32_t rows, vocab, stride;
    size_t offset; /* bytes */
    int dtype;
    size_t data_size;
    unsigned char *data; /* as it lies in the device's buffer */
    float *values;       /* [rows, vocab] what it means */
    row_kind *kind;
    cls_params *params;
    void *mask;          /* [rows, mask_width], or NULL */
    int mask_kind;       /* set before batch_mask() */
    uint32_t mask_width; /* elements */
    int32_t *mask_map;   /* [rows] the row's mask or -1, or NULL: row r has mask r */
    unsigned char *bias; /* [rows, vocab] dense bias, or NULL */
    int bias_dtype;
    int32_t *bias_map;
    uint64_t *random; /* [rows], or NULL: Philox */
    int32_t *slots;   /* [rows] the rows' slots, or NULL: row r is slot r */

    /* What a sampler keeps; set before batch_requests(). Default: counts,
     * biases, no history. */
    int keep, logit_bias;
    uint32_t history;
    tokens *tokens;      /* [rows] */
    cls_host_mode *mode; /* [rows] what mirostat and the like remember, before the row's token */
    cls_infill infill; /* made-up tables for the vocabulary: some end ids; token n / 10 begins some
                          tokens n */
    float *adjusted;   /* [rows, vocab] logits as the chain sees them; by batch_reference() */
    void **lists;      /* the parameters' lists, until batch_free() */
    uint32_t n_lists;

    cls_row *trace; /* the reference's */
    cls_host_result *host;

    cls_row *device_trace;
    int32_t *token, *status; /* the device's */
    uint32_t shortlist;      /* ... which holds so many */
    uint32_t launches;
} batch;

batch *batch_new(uint32_t rows, uint32_t vocab, int dtype, uint32_t stride, size_t offset);
void batch_free(batch *b);

/* Fills a row; its parameters become the defaults with a seed of its own. */
void batch_row(batch *b, uint32_t row, row_kind kind, uint64_t seed);
/* The same with random kinds and parameters from the lists of edges. */
void batch_random(batch *b, rng *r);
/* Any chain with any parameters that need nothing but the row. */
void params_random(cls_params *p, uint32_t vocab, rng *r);
/* Now and then one of the samplers that remember: the mode. batch_random() and
 * batch_requests() call it. */
void params_mode(cls_params *p, uint32_t vocab, rng *r);
/* Puts infill into the chain. */
void params_infill(cls_params *p, uint32_t vocab, rng *r);
/* Masks that allow a share of the tokens; width in elements, 0: all of them. */
void batch_mask(batch *b, rng *r, uint32_t percent, uint32_t width);
/* Rows of a batch, with the reference's results, in another place and order
 * (NULL: the first ones), in a type that must hold the same values. No masks,
 * no dense biases. */
batch *batch_pick(const batch *b, uint32_t rows, const uint32_t *which, int dtype, uint32_t stride,
                  size_t offset);

/* One row's input for the reference. */
cls_host_row batch_host_row(const batch *b, uint32_t row);
void batch_reference(batch *b);

/* Samples a row by cls_host_sample(), into b->host, and fails unless the oracle
 * agrees: on the set, probabilities, logprobs, the mode. 0: it could not decide. */
int batch_against_oracle(batch *b, uint32_t row);

/* Chooses the random number that draws the first or the last unit of a token
 * of a row, by the masses of cl/core/arithmetic.h; after batch_reference(). Returns the
 * token that must come. Rows without a choice (greedy, empty): their token. */
int32_t batch_aim(batch *b, uint32_t row, uint32_t pick, int last);

/* Fails, naming what differs first, unless device equals reference. A row of
 * which more was left for infill than the shortlist holds must say so. */
void batch_equal(const batch *b, const char *where);

/* A row in words: for messages. Static memory. */
const char *batch_words(const batch *b, uint32_t row);

/* ------------------------------------------------------------- requests.c */

/* A random request for every row: tokens, penalties, biases, stop ids, a mode;
 * with b->history DRY, n-grams, bad words, min tokens and allowed ids, too. */
void batch_requests(batch *b, rng *r);
/* A dense bias for most of the rows, by a map. */
void batch_bias(batch *b, rng *r, int dtype);
/* The reference's token becomes output, and its mode the row's; nothing if it has none. */
void batch_accept(batch *b, uint32_t row);

/* Makes a row's parameters and tokens copies of another batch's. */
void request_take(batch *b, uint32_t row, const batch *from, uint32_t from_row);

#endif
