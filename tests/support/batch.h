/* SPDX-License-Identifier: MIT */
/* A batch of rows with everything that decides their tokens. It is sampled by the reference and by
 * the device, and batch_equal() compares both results bit for bit. */
#ifndef TESTS_BATCH_H
#define TESTS_BATCH_H

#include "fixture.h"
#include "rows/kinds.h"
#include "one_row_host.h"
#include "step/step.h"
#include "oracle.h"

/* A request's prompt, its output so far, and the ids that cls_slot_force() forces after it. */
typedef struct tokens {
    int32_t *prompt, *output, *forced;
    uint32_t prompt_count, output_count, forced_count;
} tokens;

typedef struct batch {
    uint32_t rows, vocab, stride;
    size_t offset; /* bytes */
    int dtype;
    size_t data_size;
    unsigned char *data; /* the contents of the device's buffer */
    float *values;       /* [rows, vocab] the decoded logits */
    row_kind *kind;
    cls_params *params;
    void *mask;          /* [rows, mask_width], or NULL */
    int mask_kind;       /* set before batch_mask() */
    uint32_t mask_width; /* elements */
    int32_t *mask_map;   /* [rows] each row's mask, or -1; NULL: row r has mask r */
    unsigned char *bias; /* [rows, vocab] dense bias, or NULL */
    int bias_dtype;
    float bias_factor;
    int32_t *bias_map;
    uint64_t *random; /* [rows], or NULL: Philox */
    int32_t *slots;   /* [rows] each row's slot; NULL: row r has slot r */

    /* The sampler's options; set before batch_requests(). The defaults are counts and biases, but
     * no history. */
    int keep, biased;
    uint32_t history;
    int forces;     /* 1: some requests have thinking budgets, forced ids or loop stops; set before
                       batch_requests() */
    tokens *tokens; /* [rows] */
    cls_adaptive_state *adaptive; /* [rows] the state before the row's token */
    cls_infill infill; /* made-up tables for the vocabulary: some end ids; token n / 10 begins some
                          tokens n */
    float *adjusted;   /* [rows, vocab] logits as the chain sees them; set by batch_reference() */
    const cls_grammar **grammars; /* of the parameters, released by batch_free() */
    uint32_t n_grammars;
    void **lists; /* the parameters' lists, freed by batch_free() */
    uint32_t n_lists;

    cls_row *trace; /* the reference's results */
    one_result *host;

    cls_row *device_trace;
    int32_t *token, *status; /* the device's results */
    uint32_t shortlist;      /* the number of tokens in the device's shortlist */
    uint32_t launches;
} batch;

/* Allocates a batch, whose offset is in bytes. All rows are zero. */
batch *batch_new(uint32_t rows, uint32_t vocab, int dtype, uint32_t stride, size_t offset);
void batch_free(batch *b);

/* Fills a row. Its parameters become the defaults, with a seed derived from `seed`. */
void batch_row(batch *b, uint32_t row, row_kind kind, uint64_t seed);
/* Stores values [vocab] in a row. */
void batch_values(batch *b, uint32_t row, const float *values);
/* Fills all rows with random kinds, and parameters that are often at the edges of their ranges. */
void batch_random(batch *b, rng *r);
/* Sets a random chain and random parameters, except those that need the request's tokens. */
void params_random(cls_params *p, uint32_t vocab, rng *r);
/* Sometimes turns on Mirostat, adaptive p or top-p decay, which keep an adaptive state.
 * batch_random() and batch_requests() call it. */
void params_adaptive(cls_params *p, uint32_t vocab, rng *r);
/* Turns the infill stage on and adds it to the chain. */
void params_infill(cls_params *p, uint32_t vocab, rng *r);
/* Creates masks that allow `percent` percent of the tokens. width: elements of a mask; 0: enough
 * for the whole vocabulary. */
void batch_mask(batch *b, rng *r, uint32_t percent, uint32_t width);

/* Creates the buffers of the batch's masks, dense biases and random bits for a step. */
void batch_inputs(const batch *b, device *d, cls_step *step);

/* Returns one row's input for the reference. */
one_row batch_host_row(const batch *b, uint32_t row);
/* Samples all rows by the reference into b->host and b->trace. */
void batch_reference(batch *b);

/* Sets b->random[row] to the number that draws the first or the last unit of mass of a token, by
 * the masses of cl/core/arithmetic.h. batch_reference() comes before. Returns the token that must
 * be drawn; for greedy and empty rows, the row's token. */
int32_t batch_aim(batch *b, uint32_t row, uint32_t pick, int last);

/* Fails and names the first difference unless the device's results equal the reference's. If more
 * tokens were left for infill than the shortlist holds, the row's status must say so. */
void batch_equal(const batch *b, const char *where);

/* Describes a row for messages, in static memory. */
const char *batch_words(const batch *b, uint32_t row);

/* ------------------------------------------------------------- requests.c */

/* Makes a random request for every row: tokens, penalties, biases, stop ids, an adaptive state. If
 * b->history is not 0, also DRY, n-grams, bad words, min tokens and allowed ids. */
void batch_requests(batch *b, rng *r);
/* Adds dense biases and a map that gives most of the rows one. */
void batch_bias(batch *b, rng *r, int dtype);
/* Appends the reference's token to the row's output and takes over its adaptive state. Does nothing
 * if the row has no token. */
void batch_accept(batch *b, uint32_t row);
/* Begins a row's request in a slot, and forces its ids. */
void request_start(const batch *b, uint32_t row, cls_sampler *sampler, uint32_t slot);

/* Forces the ids of a row's request, if it has any. */
void request_force(const batch *b, uint32_t row, cls_sampler *sampler, uint32_t slot);
/* Removes the first n of the forced ids, which the output has now. */
void request_forced(tokens *t, uint32_t n);

#endif
