/* SPDX-License-Identifier: MIT */
/* A text of random calls while it is made; run/script.h has what makes it. */
#ifndef CLS_CLI_RUN_RANDOM_H
#define CLS_CLI_RUN_RANDOM_H

#include "run/data.h"

enum { RUN_MOST_OF_CALL = 256 }; /* slots and rows of which random calls make use */

/* A script while it is made. */
typedef struct run_maker {
    const run_statement *s;
    rng r;
    run_text text;
    const char *features, *without; /* NULL: all, and none */
    const char *often;              /* parameters of most requests; or NULL */
    uint32_t texts;                 /* the longest random text of a request */
    bool bits;                      /* parameters may have any bits */
    bool has_halves;                /* whether some logits are f16 or bf16 */
    uint32_t vocab, slots, rows, history, rollback, counts;
    uint32_t grammars;
    bool begun[RUN_MOST_OF_CALL];
    bool follows[RUN_MOST_OF_CALL]; /* a grammar, whose name is the slot's */
    char grammar[RUN_MOST_OF_CALL][8];
    bool saved, has_infill;
    char saved_grammar[8];
} run_maker;

/* A random number below n. */
static inline uint32_t run_below(run_maker *m, uint32_t n) { return rng_below(&m->r, n); }

/* Whether a list, or NULL, has a name. */
static inline bool run_is_in(const char *list, const char *name)
{
    return run_listed(list, ',', name) != NULL;
}

/* Whether the statement asks for calls of this kind. */
static inline bool run_makes(const run_maker *m, const char *name)
{
    return (m->features == NULL || run_is_in(m->features, name)) && !run_is_in(m->without, name);
}

/* ---------------------------------------------------- cli/run/random_params.c */

/* Parameters; only whether there is a grammar counts. */
void run_make_params(run_maker *m, cls_params *p, const char *grammar);

/* Sets some numbers to any bits that the library accepts. */
void run_make_bits(run_maker *m, cls_params *p);

/* ------------------------------------------------------ cli/run/random_rows.c */

uint32_t run_a_slot(run_maker *m);
uint32_t run_a_begun_slot(run_maker *m); /* mostly */

/* A text of few words or of many. Half of the texts repeat themselves. */
void run_make_words(run_maker *m, const char *key, uint32_t most);

/* Writes slots of rows, each once unless they may be shared; returns their number. */
uint32_t run_make_slots(run_maker *m, uint32_t most, bool shared);

/* Writes a map of rows of which there are `of`. */
void run_make_map(run_maker *m, const char *key, uint32_t rows, uint32_t of);

void run_make_logits(run_maker *m);
void run_make_inputs(run_maker *m, uint32_t rows);

/* shared: rows may share a slot. */
void run_make_outputs(run_maker *m, bool verifies, bool shared);

/* ----------------------------------------------------- cli/run/random_calls.c */

void run_make_begin(run_maker *m); /* of a slot */
void run_make_call(run_maker *m);  /* of any kind; it ends the line */

#endif
