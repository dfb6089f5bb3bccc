/* SPDX-License-Identifier: MIT */
/* A grammar of JSON for json.c: which tokens may follow. */
#ifndef JSON_GRAMMAR_H
#define JSON_GRAMMAR_H

#include <stdbool.h>
#include <stdint.h>

/* END is the token that ends a text. */
enum { JSON_VOCAB = 135, JSON_WORDS = (JSON_VOCAB + 31) / 32, JSON_DEPTH = 5, JSON_END = 0 };

extern const char *const json_tokens[JSON_VOCAB];

/* A text so far: where a pushdown automaton is that has read it. All zeros: nothing yet. */
typedef struct grammar {
    int at, depth;
    char open[JSON_DEPTH]; /* the brackets: [ or { */
    bool name;             /* the latest string is a name in an object */
    const char *rest;      /* of true, false, null, \u0000 */
} grammar;

/* Whether a token may follow where `left` more may, the end among them; if so,
 * *g becomes what is behind it. */
bool grammar_follows(grammar *g, int token, int left);

/* The mask for the next token. Returns the token if it is the only one, else -1. */
int grammar_mask(const grammar *g, int left, int32_t mask[JSON_WORDS]);

#endif
