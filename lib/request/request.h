/* SPDX-License-Identifier: MIT */
/* The parameters of a request: the table that describes them, their checks, and their conversion to
 * the slot and the lists that kernels read. This folder does not use OpenCL. */
#ifndef CLS_REQUEST_H
#define CLS_REQUEST_H

#include "base/base.h"
#include "base/param_table.h"

#include <stdatomic.h>

/* -------------------------------------------------------- param_table.c */

/* A row of CLS_PARAMS or CLS_PARAMS_WITHOUT_OPTION, or the length of a list. `range` is NULL if
 * every value is valid. */
typedef struct cls_param {
    const char *field;
    enum {
        CLS_PARAM_FLOAT,
        CLS_PARAM_INT,
        CLS_PARAM_UINT,
        CLS_PARAM_UINT64,
        CLS_PARAM_BYTES,
        CLS_PARAM_PARAMS
    } type;
    uint32_t id;
    int by_phase; /* 1: post_thinking has a value of its own */
    size_t offset, size;
    double least, most;
    const char *range;
} cls_param;

/* The rows of the tables: of cls_param_table, up to cls_param_end. */
extern const cls_param cls_param_table[], *const cls_param_end;

/* Returns the parameter of a saved field, or NULL if the id is unknown. Ids are consecutive from 1.
 */
const cls_param *cls_param_by_id(uint32_t id);

/* Returns a pointer to the parameter's value in a struct of parameters. */
void *cls_param_in(const cls_param *param, cls_params *params);

/* Copies the caller's parameters to this version's size of the struct; fields that the caller's
 * struct lacks have their defaults. Values are not checked. Fails if the pointer is NULL or
 * struct_size is invalid. */
cls_status cls_params_read(const cls_params *callers, cls_params *params);

/* Fails if a parameter is not in its range. */
cls_status cls_params_check_ranges(const cls_params *params);

/* Fails with the message that params->field has this value and must be `range`. */
cls_status cls_param_refuse(const char *field, double value, const char *range);

/* -------------------------------------------------------------- words.c */

/* Writes a float with its nine digits and a point, whatever the program's locale is. */
#define CLS_FLOAT_WORD 24
void cls_float_word(float x, char word[CLS_FLOAT_WORD]);

/* ------------------------------------------------------------- params.c */

/* Checks parameters that were read and converts them to a slot. The offsets of its lists are not
 * set yet. Fails if a parameter is invalid. */
cls_status cls_slot_from_params(const cls_params *params, uint32_t vocab, cls_slot *slot);

/* Fails if params->post_thinking is not valid; otherwise *slot is that of the rows outside the
 * thinking. Parameters without it leave *slot all zero. */
cls_status cls_slot_of_answer(const cls_params *params, uint32_t vocab, cls_params *merged,
                              cls_slot *slot);

/* Returns what is impossible in an adaptive state that came from the caller: the division of
 * adaptive p would fail, or Mirostat's sums overflow. Returns NULL if the state is possible. */
const char *cls_adaptive_fault(const cls_slot *slot, const cls_slot_adaptive *state);

/* Returns 1 if only the tokens of allowed_ids may be drawn. */
static inline int cls_params_allow_some(const cls_params *p)
{
    return p->only_allowed != 0 || p->allowed_ids.count != 0;
}

/* Returns -log2(x), at most 1000, in units of 2^-20. */
int32_t cls_bits_q20(float x);

/* Returns x, or 0 if x is subnormal: devices may flush subnormals. */
static inline float cls_flush_subnormal(float x) { return fabsf(x) < 0x1p-126f ? 0.0f : x; }

/* ---------------------------------------------------------- logarithm.c */

/* log2(x): -inf of 0 and of what is less. */
double cls_log2(double x);

/* base^exponent: +inf where it is far beyond the floats. `base` is at least 1. */
double cls_power(float base, uint32_t exponent);

/* ------------------------------------------------------------- infill.c */

/* Checks the tables of the infill stage. Fails if an id is not a token, if prefix_of has a cycle,
 * or if memory runs out. */
cls_status cls_infill_check(const cls_infill *infill, uint32_t vocab);

/* ----------------------------------------------------------- history.c */

/* What a parameter needs of the latest tokens. */
typedef struct cls_history_need {
    char name[64]; /* the parameter; empty if the row is of a list that is not set */
    char more[48]; /* what else a message says: a parameter that it is multiplied by, or "" */
    double value;
    uint64_t tokens; /* that it looks at */
    uint64_t least;  /* with fewer than these it is refused */
} cls_history_need;

/* Sets the i-th of all needs, from 0 on; returns 0 behind the last one. */
int cls_history_need_of(const cls_params *params, int i, cls_history_need *need);

/* ----------------------------------------------------------- grammar.c */

/* A grammar. It never changes, but for the references: the caller's, and one of each sampler that
 * has it on the device. */
struct cls_grammar {
    atomic_int references;
    uint32_t vocab, states, classes, bitmaps, drafts;
    uint8_t digest[CLS_DIGEST_SIZE];
    uint32_t *words; /* [n_words] as kernels read them (cl/core/grammar.h) */
    uint32_t n_words;
};

void cls_grammar_retain(const cls_grammar *grammar);
void cls_grammar_release(const cls_grammar *grammar); /* NULL does nothing */

/* Writes the ids that a state allows, as cls_grammar_mask() does. The state is not checked. */
void cls_grammar_set(const cls_grammar *grammar, uint32_t state, uint32_t *words);

/* ------------------------------------------------- arrays.c and lists.c */

/* A row of CLS_LISTS. */
typedef struct cls_list_param {
    const char *name;  /* the field of cls_params */
    const char *array; /* of this field: the field that points to the elements */
    size_t size;       /* bytes of an element */
    enum { CLS_LIST_ids, CLS_LIST_id = CLS_LIST_ids, CLS_LIST_biases, CLS_LIST_sequences } kind;
    size_t at; /* where the list is in cls_params */
    uint32_t id;
    int matched;
    size_t length, offset; /* where these fields are in cls_slot; 0: none */
} cls_list_param;

enum {
#define CLS_LIST_COUNTED(p, kind, list, kept, option, meta, key, help) CLS_LIST_COUNTED_##list,
    CLS_LISTS(CLS_LIST_COUNTED, )
#undef CLS_LIST_COUNTED
        CLS_LIST_COUNT
};

/* The rows in the order of CLS_LISTS. */
extern const cls_list_param cls_list_table[CLS_LIST_COUNT];

/* Makes the lists of checked parameters for a sampler with this history: biases (a list in
 * ascending order of ids, or a row of all tokens if there are many), the bitmap of allowed ids,
 * stop ids in ascending order, and the lists of adjustments by the history. The slot gets their
 * lengths and their offsets from the beginning of the lists. The caller frees *words, which is NULL
 * if the lists are empty. Fails if the lists are too long or memory runs out. */
cls_status cls_lists_create(const cls_params *params, uint32_t vocab, uint32_t history,
                            cls_slot *slot, uint32_t **words, uint32_t *n_words);

/* DRY: return 1 if it is on, the largest exponent, and the penalty of an exponent. */
/* Returns how many of the latest tokens a penalty considers; 0: all. */
uint32_t cls_penalty_window(const cls_params *params, cls_penalty penalty);
int cls_dry_is_on(const cls_params *params);
uint32_t cls_dry_max_exponent(const cls_params *params);
float cls_dry_penalty(const cls_params *params, uint32_t exponent);

/* Sets the words of SGLang's watermark. */
void cls_sglang_words(const cls_params *params, uint32_t words[CLS_SGLANG_WORDS]);

/* What cls_ids, cls_biases and cls_sequences have in common. */
typedef struct cls_list {
    void *array;
    uint32_t count;
} cls_list;

/* Returns a list of parameters, its array, or its count. */
cls_list cls_list_get(const cls_list_param *list, const cls_params *params);
static inline void *cls_list_array(const cls_list_param *list, const cls_params *params)
{
    return cls_list_get(list, params).array;
}
static inline uint32_t cls_list_count(const cls_list_param *list, const cls_params *params)
{
    return cls_list_get(list, params).count;
}

/* Sets the array of a list, but not its count. */
void cls_list_set_array(const cls_list_param *list, cls_params *params, void *array);

/* Returns the list that is saved after another one, or the first one after NULL; NULL after the
 * last.
 */
const cls_list_param *cls_list_after(const cls_list_param *before);

/* Replaces the arrays that parameters point to by copies, one block each. Fails if memory runs out;
 * then the parameters are unchanged. */
cls_status cls_arrays_copy(cls_params *params);

/* Frees such copies and sets their pointers to NULL. */
void cls_arrays_free(cls_params *params);

/* Mixes the lists of parameters into a hash, and returns it. */
uint64_t cls_arrays_hash(uint64_t hash, const cls_params *params);

/* Returns the size of the arrays in bytes. */
uint64_t cls_arrays_size(const cls_params *params);

/* Returns the number of words of sequences in lists: a count and the ids of each. */
uint64_t cls_sequences_words(const cls_ids *sequences, uint32_t count);

#endif
