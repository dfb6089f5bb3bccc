/* SPDX-License-Identifier: MIT */
/* The changes that slot calls made since the last step. */
#ifndef CLS_SAMPLER_CHANGES_H
#define CLS_SAMPLER_CHANGES_H

#include "core/change.h"
#include "clsample.h"

#include <stddef.h>

/* Reserves memory for the changes of one slot call, with so many tokens and other words. The
 * functions that add them cannot fail then. */
cls_status cls_changes_reserve(cls_sampler *sampler, size_t tokens, size_t words);

/* Ends a slot call: makes its changes on the host, if the sampler has no device. Returns `status`.
 */
cls_status cls_changes_end(cls_sampler *sampler, cls_status status);

/* Adds a change of a slot, which runs after all pending changes of the slot. */
cls_change *cls_change_add(cls_sampler *sampler, uint32_t kind, uint32_t slot);

/* Adds a change that overwrites the whole slot. It replaces the slot's latest change, unless a copy
 * has read that one. */
cls_change *cls_change_replace(cls_sampler *sampler, uint32_t kind, uint32_t slot);

/* Adds new parameters. They replace pending parameters that left nothing else behind. */
cls_change *cls_change_add_params(cls_sampler *sampler, uint32_t slot, const cls_slot *now);

/* Adds a copy of a slot. Copies from one slot may run in the same round; later changes of that slot
 * run after them. */
void cls_change_add_copy(cls_sampler *sampler, uint32_t to, uint32_t from);

/* Adds words to the pending ones, and returns the number of pending words, which is the index of
 * the next one. */
void cls_pending_words_add(cls_sampler *sampler, const uint32_t *words, size_t n);
uint32_t cls_pending_words_count(const cls_sampler *sampler);

/* Adds tokens to a slot's latest change and, when it is full, to further changes. Ids that are not
 * in the vocabulary are left out. `mark` is CLS_ENTRY_OUTPUT, or 0 for a prompt. */
void cls_change_add_tokens(cls_sampler *sampler, uint32_t slot, const int32_t *ids, uint32_t n,
                           uint32_t mark);

/* Appends tokens of a prompt to a slot. They join the slot's latest change if it appends tokens,
 * too. Fails if memory runs out. */
cls_status cls_change_append_tokens(cls_sampler *sampler, uint32_t slot, const int32_t *ids,
                                    uint32_t n);

/* Writes the indices of the pending changes after them, sorted by round. Returns an array with the
 * end of each round in that order; round 0 is empty. */
const uint32_t *cls_changes_sort(cls_sampler *sampler);

#endif
