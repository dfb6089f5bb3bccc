/* SPDX-License-Identifier: MIT */
/* Random automata over token ids, as tables and as grammars. The tables share no code with the
 * library. */
#ifndef TESTS_AUTOMATON_H
#define TESTS_AUTOMATON_H

#include "fixture.h"
#include "rows/kinds.h"

enum { MOST_VOCAB = 3000, MOST_STATES = 12 };

/* An automaton as a table. */
typedef struct automaton {
    uint32_t vocab, states;
    uint32_t to[MOST_STATES][MOST_VOCAB]; /* the next state; CLS_GRAMMAR_DEAD: not allowed */
    uint8_t final_states[MOST_STATES];
    int32_t end_ids[2]; /* -1: there is none */
    int32_t draft_ids[MOST_STATES];
    int drafts; /* 0: no draft_ids are given */
    /* The same as the caller's arrays. */
    uint64_t offsets[MOST_STATES + 1];
    int32_t ids[MOST_STATES * MOST_VOCAB];
    uint32_t next[MOST_STATES * MOST_VOCAB];
    cls_grammar_options o;
} automaton;

/* Makes the caller's arrays from the fields before them. */
void automaton_finish(automaton *a);

/* Draws an automaton: its states allow few ids, most of them, or some ranges; and often drafts. */
void automaton_draw(automaton *a, uint32_t vocab, rng *r);

/* Returns the state after an id, by the table. */
uint32_t automaton_after(const automaton *a, uint32_t state, int32_t id);

/* Returns the id that a state drafts, or -1. */
int32_t automaton_draft(const automaton *a, uint32_t state);

/* Makes the grammar of the automaton. */
cls_grammar *automaton_grammar(const automaton *a);

#endif
