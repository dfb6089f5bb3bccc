/* SPDX-License-Identifier: MIT */
/* A request's parameters and lists, as the kernels want them. Nothing of OpenCL. */
#ifndef CLS_REQUEST_H
#define CLS_REQUEST_H

#include "base/base.h"
#include "request/param_table.h"

/* -------------------------------------------------------- param_table.c */

/* A row of CLS_PARAMS or CLS_PARAMS_OF_LISTS. */
typedef struct cls_param {
    const char *field;
    enum { CLS_PARAM_FLOAT, CLS_PARAM_INT, CLS_PARAM_UINT, CLS_PARAM_UINT64, CLS_PARAM_BYTES } type;
    uint32_t id;
    size_t offset, size;
    double initial, least, most;
    const char *range;
} cls_param;

/* The parameter of a saved field; NULL if there is none. Ids are 1, 2, and so on. */
const cls_param *cls_param_by_id(uint32_t id);
void *cls_param_in(const cls_param *param, cls_params *params);

/* A caller's parameters in our size of the struct, unchecked. */
cls_status cls_params_read(const cls_params *callers, cls_params *params);

/* Whether each parameter is in its range. The other function says that one is not. */
cls_status cls_params_check_ranges(const cls_params *params);
cls_status cls_param_refuse(const char *field, double value, const char *range);

/* ------------------------------------------------------------- params.c */

/* Parameters as the kernels want them, checked. The slot's position is
 * params->position; where its lists lie is not known yet. */
cls_status cls_slot_from_params(const cls_params *params, uint32_t vocab, cls_slot *slot);

/* Whether only the tokens of a list may be drawn. */
static inline int cls_params_allow_some(const cls_params *p)
{
    return p->only_allowed != 0 || p->allowed_count != 0;
}

/* Subnormals as zero: a device may flush them. */
float cls_normal(float x);

/* ------------------------------------------------------------- infill.c */

cls_status cls_infill_check(const cls_infill *infill, uint32_t vocab);

/* ------------------------------------------------------------- arrays.c */

/* Makes the arrays that parameters point to copies, one block each; all or none. */
cls_status cls_arrays_copy(cls_params *params);
/* Frees such copies; the parameters have none any more. */
void cls_arrays_free(cls_params *params);
/* Their bytes. */
uint64_t cls_arrays_size(const cls_params *params);

/* Words of sequences as lists have them: a count and the ids of each. */
uint64_t cls_sequences_words(const cls_sequence *sequences, uint32_t count);

/* -------------------------------------------------------------- lists.c */

/* A request's lists, of checked parameters, for a sampler of a history: biases (ids ascending, then
 * their values; of many tokens a row of all), the bitmap of allowed ids, stop ids ascending, what
 * looks at the history. The slot gets their numbers and their places, from the lists' beginning;
 * *words is malloc'ed, NULL if they are empty. */
cls_status cls_lists_make(const cls_params *params, uint32_t vocab, uint32_t history,
                          cls_slot *slot, uint32_t **words, uint32_t *n_words);

/* Moves a slot's places to where the lists begin. */
void cls_lists_place(cls_slot *slot, uint32_t at);

/* DRY: whether it is on, the largest exponent, and what an exponent takes off. */
int cls_dry_is_on(const cls_params *params);
uint32_t cls_dry_most(const cls_params *params);
float cls_dry_amount(const cls_params *params, uint32_t exponent);

#endif
