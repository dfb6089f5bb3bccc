/* SPDX-License-Identifier: MIT */
/* A grammar while it is made: from the caller's arrays, or from bytes that were saved. */
#ifndef CLS_MAKER_H
#define CLS_MAKER_H

#include "request/request.h"

enum {
    CLS_CLASS_NEVER = 0,
    CLS_CLASS_ENDS = 1,
    CLS_CLASS_FIRST = 2
}; /* classes: no state allows it; an end id */

/* A grammar while it is made. */
typedef struct cls_grammar_maker {
    cls_grammar_options o;
    uint32_t most;      /* classes: one for each id, and one that an id enters before its own, where
                           it was alone, is unused */
    uint8_t *is_end;    /* [vocab] */
    uint32_t *class_of; /* [vocab] */
    uint32_t *size;     /* [most] the number of ids of a class */
    uint32_t *renamed;  /* [most] unused classes; then the final numbers */
    struct cls_class_key {
        uint32_t state, from, next, to; /* state: plus 1, or 0 if the entry was never used */
    } * key; /* [keys] where ids of a class go that have this next state */
    uint32_t keys, classes;

    uint64_t *offsets; /* [states + 1] of the transitions by class */
    uint32_t *pairs;   /* class and next state of each */
    uint64_t n_pairs, pairs_size;
    uint32_t *drafts; /* [states] as cl/core/grammar.h has them; NULL: there is none */
    uint32_t *set;    /* [states] the bitmap of a state plus 1, or 0 */
    uint32_t *owner;  /* [bitmaps] a state that has it */
    uint32_t *lookup; /* [lookups] bitmaps plus 1, by hash */
    uint32_t bitmaps, lookups;
} cls_grammar_maker;

/* Allocates all but the pairs and what the last step needs, by o.vocab and o.states. Returns 0 if
 * there is no memory. */
int cls_maker_allocate(cls_grammar_maker *maker);
void cls_maker_free(cls_grammar_maker *maker);

/* Return whether a state allows an id, and whether it allows one id. */
int cls_maker_allows(const cls_grammar_maker *maker, uint32_t state, uint32_t id);
int cls_maker_allows_one(const cls_grammar_maker *maker, uint32_t state);

/* Makes a grammar of the classes and the transitions. Fails if it takes more than o.max_bytes, or
 * if memory runs out. */
cls_status cls_maker_finish(cls_grammar_maker *maker, cls_grammar **out);

/* The digest is of the classes, the transitions and the draft tokens, whatever else the words are.
 */
void cls_maker_digest(const cls_grammar_maker *maker, uint8_t digest[CLS_DIGEST_SIZE]);

/* Adds words in little-endian order to a digest. */
void cls_hash_words(cls_sha256 *hash, const uint32_t *words, uint64_t n);

cls_status cls_no_grammar_memory(void);

#endif
