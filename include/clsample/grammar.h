/* SPDX-License-Identifier: MIT */
/* clsample: grammars: automata over token ids that requests follow on the device.
 *
 * A grammar is made once, from arrays that outlines-core, XGrammar, llguidance or the caller's own
 * code computed for a vocabulary. Any number of requests, samplers and threads may then use it: it
 * never changes. A request follows params->grammar from params->grammar_state on. Each of its rows
 * draws only ids that its state allows, and each accepted token moves it to another state, on the
 * device, so that steps can be enqueued ahead.
 *
 * A state allows the ids of its transitions, and the end ids if it is final. After an end id the
 * request stops, whether or not stop_ids names that id. A token that the state does not allow,
 * which only cls_accept() or `output` of cls_slot_begin() can add, leaves the request without a
 * state: its rows get CLS_ROW_EMPTY until a rollback, a turn, another beginning, or parameters with
 * another grammar or none. Parameters with the same grammar keep the state, even if
 * params->grammar_state differs. A forced id that the state does not allow is not emitted: its row
 * gets CLS_ROW_EMPTY, and the id stays due, as with masks. While a request thinks
 * (params->thinking_start) its grammar does not apply; it begins behind what ended
 * it (thinking_ends). Only the prompt, or an empty thinking_start, begins the thinking of such a
 * request: its output cannot. params->min_tokens does not keep a complete text from its end: where
 * all ids that a state and allowed_ids allow are end ids or stop ids, it bans none of them.
 *
 * The method: ids that no state distinguishes form a class, so that a state's transitions are
 * stored once a class. A set of many ids is a bitmap, which all states with the same set share; a
 * set of few ids is written to the row's own bitmap when a row needs it. */
#ifndef CLSAMPLE_GRAMMAR_H
#define CLSAMPLE_GRAMMAR_H

#include "params.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a grammar is made from. All arrays are copied. */
typedef struct cls_grammar_options {
    size_t struct_size;
    uint32_t vocab;  /* 1 to 1,048,576: that of the samplers */
    uint32_t states; /* 1 to 2^30 - 1; numbered from 0 */

    /* The transitions, state after state. State s has those from offsets[s] to offsets[s + 1] - 1;
     * offsets[0] is 0. The ids of a state ascend, each at most once, and none is an end id. Every
     * state has a transition or is final. */
    const uint64_t *offsets;     /* [states + 1] */
    const int32_t *ids;          /* [offsets[states]], all in the vocabulary */
    const uint32_t *next;        /* [offsets[states]], the state after the id */
    const uint8_t *final_states; /* [states]: 1: the text may end here, else 0. NULL: nowhere */
    cls_ids end_ids;             /* what ends the text in a final state; needed if there is one */

    /* The most memory, in bytes, that the grammar may take in a sampler. Default: 2^28. */
    uint64_t max_bytes;

    /* [states]: what cls_draft() drafts in each state: an id that the state allows, or -1. A state
     * that allows one id (it may be an end id) always drafts it, but such states are rare: before
     * "name" in JSON every token that begins it is allowed, a quote alone, too. Python's makers of
     * grammars give a state the longest id that it allows, if the bytes of all others are prefixes
     * of it. NULL: -1 for all. */
    const int32_t *draft_ids;
} cls_grammar_options;

CLS_INIT_FUNCTION(cls_grammar_options)

/* What cls_grammar_query() reports. */
typedef struct cls_grammar_info {
    size_t struct_size;
    uint32_t vocab;     /* as in the options */
    uint32_t states;    /* as in the options */
    uint32_t classes;   /* of ids that no state distinguishes; ids that none allows are one */
    uint32_t bitmaps;   /* sets of ids that are stored as bitmaps */
    uint64_t bytes;     /* that each sampler takes in which a request uses the grammar */
    uint8_t digest[32]; /* SHA-256 of the automaton: equal if and only if two have equal vocab,
                           states, transitions, final states, end ids and draft tokens; the order of
                           end ids does not matter */
    uint32_t drafts;    /* states that draft a token */
} cls_grammar_info;

CLS_INIT_FUNCTION(cls_grammar_info)

/* Makes a grammar, on the host alone; a sampler uploads it with the first request that uses it, and
 * frees that memory with the last one. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: the message names the array and the index, or says how many bytes the
 * grammar would take if that is more than max_bytes; CLS_OUT_OF_MEMORY. */
CLS_API CLS_WARN_UNUSED cls_status cls_grammar_create(const cls_grammar_options *options,
                                                      cls_grammar **grammar);

/* Writes a grammar to bytes, from which cls_grammar_load() makes it again, in another process or on
 * another machine: a program with a tokenizer makes grammars, and a server loads them.
 * vocabulary: uint8 [32], which names the tokens that the ids stand for, such as
 * cls_vocabulary_digest() gives; NULL: nothing does. *size: on entry the size of `out` in bytes, on
 * return that of the grammar: 88 bytes, 4 for each id of the vocabulary and each state, 8 for each
 * transition of a class, and with draft_ids 4 more for each state. If `out` is NULL only the size
 * is returned. Any thread may call this. CLS_OK; CLS_BAD_ARGUMENT: among others, `out` is too
 * small, and *size is the size that is needed.
 */
CLS_API CLS_WARN_UNUSED cls_status cls_grammar_save(const cls_grammar *grammar,
                                                    const uint8_t *vocabulary, void *out,
                                                    size_t *size);

/* A grammar that was saved. */
typedef struct cls_saved_grammar {
    size_t struct_size;
    const void *bytes; /* [size] */
    size_t size;       /* of the bytes */

    /* uint8 [32]: the tokens that the ids must stand for. NULL (default): any. A grammar that was
     * saved without them, or for others, is refused. */
    const uint8_t *vocabulary;
    uint64_t max_bytes; /* as in cls_grammar_options */
} cls_saved_grammar;

CLS_INIT_FUNCTION(cls_saved_grammar)

/* Makes a saved grammar again; its digest is the same. The bytes are checked, whoever made them,
 * and are not needed afterwards. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: the bytes are damaged, cut short, of a format that this version does
 * not read, or of another vocabulary, or the grammar would take more than max_bytes;
 * CLS_OUT_OF_MEMORY.
 */
CLS_API CLS_WARN_UNUSED cls_status cls_grammar_load(const cls_saved_grammar *saved,
                                                    cls_grammar **grammar);

/* Writes a name of a vocabulary to `digest`, uint8 [32]: the SHA-256 of the text of each id, from 0
 * on, behind its length as a uint32 in little-endian order. A token without a text, such as a
 * special one, has the length 0. texts: [vocab], lengths: [vocab], in bytes. Any thread may call
 * this.
 * CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API CLS_WARN_UNUSED cls_status cls_vocabulary_digest(const void *const *texts,
                                                         const uint32_t *lengths, uint32_t vocab,
                                                         uint8_t *digest);

/* Releases a grammar. Requests that use it continue. NULL does nothing. Any thread may call this.
 */
CLS_API void cls_grammar_destroy(cls_grammar *grammar);

/* CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API CLS_WARN_UNUSED cls_status cls_grammar_query(const cls_grammar *grammar,
                                                     cls_grammar_info *info);

/* States that no transition leads to: that of a request which an end id has ended, and that of a
 * text which has left the grammar. Neither allows an id. */
#define CLS_GRAMMAR_ENDED 2147483646u
#define CLS_GRAMMAR_DEAD 2147483647u

/* Writes the ids that a state allows as a packed mask (cls_mask): int32 [ceil(vocab / 32)].
 * CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API CLS_WARN_UNUSED cls_status cls_grammar_mask(const cls_grammar *grammar, uint32_t state,
                                                    int32_t *words);

/* Sets *state to the state after a text: int32 [count], from *state on. This is what the device
 * does with accepted tokens. Ids outside the vocabulary are ignored, as everywhere.
 * CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API CLS_WARN_UNUSED cls_status cls_grammar_advance(const cls_grammar *grammar,
                                                       const int32_t *ids, uint32_t count,
                                                       uint32_t *state);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_GRAMMAR_H */
