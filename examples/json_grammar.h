/* SPDX-License-Identifier: MIT */
/* A grammar of JSON for json.c, which computes the tokens that may follow a text. */
#ifndef JSON_GRAMMAR_H
#define JSON_GRAMMAR_H

#include <stdbool.h>
#include <stdint.h>

/* JSON_END is the token that ends a text. */
enum { JSON_VOCAB = 135, JSON_WORDS = (JSON_VOCAB + 31) / 32, JSON_DEPTH = 5, JSON_END = 0 };

extern const char *const json_tokens[JSON_VOCAB];

/* The state of a pushdown automaton after it has read a text. All zeros: the empty text. */
typedef struct grammar {
    int at, depth;
    char open[JSON_DEPTH]; /* the brackets: [ or { */
    bool name;             /* the current string is a name in an object */
    const char *rest;      /* of true, false, null or four hexadecimal digits */
} grammar;

/* Whether a token may follow if the text may have `left` more tokens, JSON_END included. If so, *g
 * becomes the state after it. */
bool grammar_follows(grammar *g, int token, int left);

/* Makes the mask for the next token. Returns the token if it is the only one, else -1. */
int grammar_mask(const grammar *g, int left, int32_t mask[JSON_WORDS]);

/* All states of texts of at most `most` tokens, JSON_END included, as cls_grammar_options takes
 * them. State 0 is the empty text; JSON_END is no transition, but ends the text in final states. */
typedef struct json_automaton {
    uint32_t states;
    uint64_t *offsets;
    int32_t *ids;
    uint32_t *next;
    uint8_t *final_states;
} json_automaton;

/* Explores the grammar. False: there is not enough memory. Free the automaton in either case. */
bool json_automaton_make(int most, json_automaton *a);
void json_automaton_free(json_automaton *a);

#endif
