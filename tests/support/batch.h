/* SPDX-License-Identifier: MIT */
/* Some rows with their requests, and what the reference makes of them: for the tests of handles,
 * threads and shards that no text of calls can be. Texts have requests of all other kinds. */
#ifndef TESTS_BATCH_H
#define TESTS_BATCH_H

#include "fixture.h"
#include "one_row_host.h"
#include "rows/kinds.h"
#include "step/step.h"

/* A request's prompt, and its output so far. */
typedef struct tokens {
    int32_t *prompt, *output;
    uint32_t prompt_count, output_count;
} tokens;

typedef struct batch {
    uint32_t rows, vocab, stride;
    size_t offset; /* bytes */
    int dtype;
    size_t data_size;
    unsigned char *data; /* the contents of the device's buffer */
    row_kind *kind;
    cls_params *params;
    const char **words;           /* [rows] of the parameters, or NULL */
    uint32_t history;             /* of the sampler */
    tokens *tokens;               /* [rows] */
    cls_adaptive_state *adaptive; /* [rows] the state before the row's token */

    cls_row *trace; /* the reference's results */
    one_result *host;

    cls_row *device_trace;
    int32_t *token, *status; /* the device's results */
} batch;

/* Allocates a batch, whose offset is in bytes. All rows are zero. */
batch *batch_new(uint32_t rows, uint32_t vocab, int dtype, uint32_t stride, size_t offset);
void batch_free(batch *b);

/* Fills a row. Its parameters become the defaults, with a seed derived from `seed`. */
void batch_row(batch *b, uint32_t row, row_kind kind, uint64_t seed);

/* Sets parameters of one of the kinds that shards and steps treat differently. Those from
 * PARAMS_PENALTIES on have penalties, and from PARAMS_HISTORY on need a history. */
enum { PARAMS_PENALTIES = 20, PARAMS_HISTORY = 22, PARAMS_KINDS = 24 };
void params_kind(cls_params *p, uint32_t kind, uint32_t vocab);
void batch_kind(batch *b, uint32_t row, uint32_t kind);
/* Gives each row a prompt, in which tokens occur again. */
void batch_prompts(batch *b, rng *r);

/* Returns one row's input for the reference. */
one_row batch_host_row(const batch *b, uint32_t row);
/* Samples all rows by the reference into b->host and b->trace. */
void batch_reference(batch *b);
/* Appends the reference's token to the row's output and takes over its adaptive state. Does nothing
 * if the row has no token. */
void batch_accept(batch *b, uint32_t row);
/* Begins a row's request in a slot. */
void request_start(const batch *b, uint32_t row, cls_sampler *sampler, uint32_t slot);

/* Fails and names the first difference unless the device's results equal the reference's. */
void batch_equal(const batch *b, const char *where);

/* Describes a row for messages, in static memory. */
const char *batch_words(const batch *b, uint32_t row);

#endif
