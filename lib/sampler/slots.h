/* SPDX-License-Identifier: MIT */
/* The host's part of a slot, and parameters that were checked for one. */
#ifndef CLS_SAMPLER_SLOTS_H
#define CLS_SAMPLER_SLOTS_H

#include "sampler/memory.h"

/* The host's part of a slot. */
typedef struct cls_request {
    cls_slot slot, answer; /* answer: of rows outside the thinking, if it has such parameters */
    cls_params params;     /* with copies of the caller's arrays */
    cls_lists *lists;      /* NULL if there are none */
    cls_lists *forced;     /* the ids of cls_slot_force(), on the device; NULL if there are none */
    cls_lists *grammar;    /* the grammar of `params`; NULL if there is none */

    /* The slot's pending changes. They are valid if `batch` is the sampler's; otherwise the slot
     * has no pending change. */
    uint64_t batch;
    uint32_t change_round;  /* the last round that changes the slot; 0: none */
    uint32_t copy_round;    /* the last round that copies from it; 0: none */
    uint32_t latest_change; /* index of its latest change */
    uint32_t spare_words;   /* reserved after the tokens of that change, for more tokens */
    int replaceable;        /* 1 if new parameters may replace that change */

    uint64_t forced_digest; /* of the ids in `forced` */
    uint64_t digest;        /* of parameters and lists, if it has begun; with CLS_FEATURE_SHARD */
    uint32_t features;      /* what they need, if it has begun */
} cls_request;

/* Parameters that were checked, with copies of their arrays and the lists for the device. */
typedef struct cls_checked_params {
    cls_params params;
    cls_slot slot, answer; /* as in cls_request */
    uint32_t *words;       /* the lists */
    uint32_t n_words;
    cls_lists *lists, *grammar; /* on the device, once a slot call has allocated them */
} cls_checked_params;

/* Fails if the slot does not exist, if the sampler is lost, or if `begun` is 1 and the slot has no
 * request. */
cls_status cls_slot_check(const cls_sampler *sampler, uint32_t slot, int begun);

/* Checks parameters for a sampler and copies what they point to. Fails if a parameter is invalid,
 * if the sampler was created without what it needs, or if memory runs out. */
cls_status cls_checked_params_create(const cls_sampler *sampler, const cls_params *params,
                                     cls_checked_params *out);
void cls_checked_params_free(cls_checked_params *checked);

/* Returns the features that cls_slot_begin() needs. */
uint32_t cls_features_to_begin(const cls_checked_params *p);

/* Loads a slot: its parameters, which the slot takes over, and its state in the device's form. If
 * the slot has forced ids, they lie in the lists. If it fails, the caller keeps the parameters. */
cls_status cls_slot_put(cls_sampler *sampler, uint32_t slot, cls_checked_params *checked,
                        const uint32_t *state);

/* Frees the host's part of all slots. */
void cls_requests_free(cls_sampler *sampler);

#endif
