/* SPDX-License-Identifier: MIT */
/* What the requests of a sampler need together: features, and the length of a shortlist. */
#ifndef CLS_SAMPLER_NEEDS_H
#define CLS_SAMPLER_NEEDS_H

#include "programs/programs.h"

/* What the requests of all slots need together. */
enum { CLS_NEED_BITS = 22 };
typedef char cls_need_bits_fit[CLS_NEEDS_ALL >> (CLS_NEED_BITS - 1) == 1 ? 1 : -1];
typedef struct cls_needs {
    uint32_t requests;               /* their number */
    uint32_t feature[CLS_NEED_BITS]; /* how many of them have each need */
    uint32_t shortlist;
    uint32_t *listed; /* [shortlist + 1]: how many have each value of cls_needs_listed() */
    uint64_t digest;  /* the sum of the requests' digests, each with the number of its slot */
    uint64_t arrays;  /* bytes of the arrays of parameters */
} cls_needs;

/* Allocates memory for a shortlist of this length. Fails if memory runs out. */
cls_status cls_needs_create(cls_needs *needs, uint32_t shortlist);

/* Add a slot's request to what all need, after its host's part has changed, and remove it before.
 * They do nothing if the slot has no request. */
void cls_needs_add(cls_sampler *sampler, uint32_t slot);
void cls_needs_remove(cls_sampler *sampler, uint32_t slot);

/* Computes the digests of all requests, when the sampler gets CLS_FEATURE_SHARD. */
void cls_needs_hash(cls_sampler *sampler);

/* Returns what the requests need: cls_feature bits and CLS_NEED_LONG_LIST. */
uint32_t cls_needs_features(const cls_needs *needs);

/* Return how many tokens from the top a request needs, and the most that one of all needs. They
 * return 0 if a request needs more of the row than such a list, or if there is no request. */
uint32_t cls_needs_listed(const cls_slot *slot);
uint32_t cls_needs_longest(const cls_needs *needs);

#endif
