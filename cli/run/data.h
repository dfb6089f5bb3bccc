/* SPDX-License-Identifier: MIT */
/* What the words of clsample run stand for: logits, masks, drafts, grammars. */
#ifndef CLS_CLI_RUN_DATA_H
#define CLS_CLI_RUN_DATA_H

#include "rows/kinds.h"
#include "run/text.h"

/* ------------------------------------------------------------ cli/run/data.c */

enum { RUN_MOST_ELEMENTS = 1 << 28 }; /* of what a statement makes or writes */

static inline uint32_t run_least(uint64_t a, uint64_t b) { return (uint32_t)(a < b ? a : b); }

extern const char *const run_input_names[CLI_INPUTS]; /* logits, mask, bias */

/* What a script was given, or NULL. */
const void *run_given_find(const run_given *given, const char *key);

/* The array of a statement's word WHAT=file:NAME, with the rows of WHAT_pick, unless the script was
 * given it. */
const cli_array *run_array(const run_given *given, const run_statement *s, cli_input what,
                           const char *name, int32_t dtype);

/* The path of a file that a script names: a regular one in the script's folder or, if there is
 * none, in the current one. */
const char *run_path(const run_statement *s, const char *name);

/* Adds data to a hash, which begins with RUN_HASH: FNV-1a of 64 bits. */
#define RUN_HASH UINT64_C(14695981039346656037)
uint64_t run_hash(uint64_t hash, const void *data, size_t size);

/* The hash of what a row reads, without maps. */
uint64_t run_hash_of_row(const cli_array of[CLI_INPUTS], uint32_t row);

/* Zeroed memory for rows; more than RUN_MOST_ELEMENTS end the command. */
void *run_room(uint64_t rows, uint64_t width, size_t element);

/* Rows of random logits, each of a random kind or of `kind`. */
void *run_random_logits(uint64_t seed, int kind, uint32_t rows, uint32_t vocab, int32_t dtype);
int run_kind(const run_statement *s, const char *name); /* of rows: by its name */

/* Rows of a list of numbers, "1,2.5,4*-inf/0,nan": the rows are repeated, and filled up with
 * `rest`. *width 0: it becomes the longest row's. */
double *run_rows(const run_statement *s, const char *key, const char *text, uint32_t rows,
                 uint32_t *width, double rest);

/* Masks that allow some percent of the tokens or, with 0, in each row those of a random pattern;
 * values of biases; probabilities of drafts. */
void *run_random_mask(uint64_t seed, uint32_t percent, int32_t kind, uint32_t rows, uint32_t width);
/* Row r allows token first + r alone, modulo the vocabulary. */
void *run_lone_mask(uint64_t first, bool bytes, uint32_t rows, uint32_t width, uint32_t vocab);
void *run_random_bias(uint64_t seed, uint32_t rows, uint32_t vocab, int32_t dtype);
float *run_random_probs(uint64_t seed, uint32_t rows, uint32_t vocab);

/* One of the likeliest tokens of a row of logits, or now and then another one or none. */
int32_t run_likely(rng *r, const void *logits, int32_t dtype, uint32_t vocab);

/* The rows of data in the opposite order. */
void *run_turned(const void *data, uint32_t rows, size_t row);

/* -------------------------------------------------------- cli/run/grammars.c */

/* A grammar by its transitions: of=ID:STATE,.../... of each state, final=STATES end=IDS. */
cls_grammar *run_listed_grammar(const run_statement *s, uint32_t vocab);

/* A grammar of random transitions, which ends with id 0. */
cls_grammar *run_random_grammar(const run_statement *s, uint64_t seed, uint32_t states,
                                uint32_t vocab);

#endif
