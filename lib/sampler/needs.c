/* SPDX-License-Identifier: MIT */
/* What the requests of a sampler need together. Slot calls keep it up to date, so that a step whose
 * map of slots is on the device, which may name any of them, need not look at each. */
#include "sampler/sampler.h"

#include <stdlib.h>

cls_status cls_needs_create(cls_needs *needs, uint32_t shortlist)
{
    needs->shortlist = shortlist;
    needs->listed = calloc((size_t)shortlist + 1, sizeof *needs->listed);
    return needs->listed != NULL ? CLS_OK : cls_no_memory("what slots need");
}

uint32_t cls_needs_listed(const cls_slot *slot)
{
    if (slot->flags & CLS_SLOT_GREEDY)
        return 1;
    return slot->flags & (CLS_SLOT_UNTRUNCATED | CLS_SLOT_SEARCH | CLS_SLOT_TOTAL) ||
                   cls_slot_infills(slot)
               ? 0
               : (uint32_t)slot->top_k;
}

/* Returns a digest of a request's parameters and lists. Where its lists begin is a matter of each
 * sampler, and is not in the host's copy of a slot. */
static uint64_t digest_of(const cls_request *r)
{
    uint64_t hash = cls_arrays_hash(r->forced != NULL ? r->forced_digest : 1, &r->params);
    if (r->grammar != NULL)
        hash = cls_hash_bytes(hash, r->grammar->grammar->digest, CLS_DIGEST_SIZE);
    const size_t size = offsetof(cls_slot, next_adaptive) - offsetof(cls_slot, flags);
    hash = cls_hash_bytes(hash, &r->answer.flags, size);
    return cls_hash_bytes(hash, &r->slot.flags, size);
}

/* Adds a request's share so many times: once, or -1 times, as a number modulo 2^64. */
static void add(cls_needs *needs, uint32_t slot, const cls_request *r, uint64_t times)
{
    const uint32_t features = r->features, n = (uint32_t)times;
    for (uint32_t i = 0; i < CLS_NEED_BITS; i++)
        needs->feature[i] += (features >> i & 1u) * n;
    const uint32_t listed = cls_needs_listed(&r->slot),
                   answer = r->slot.answer != 0 ? cls_needs_listed(&r->answer) : listed;
    needs->listed[listed == 0 || answer == 0 ? 0 : listed > answer ? listed : answer] += n;
    needs->requests += n;
    needs->digest += cls_hash_word(r->digest, slot) * times;
    needs->arrays += cls_arrays_size(&r->params) * times;
}

void cls_needs_add(cls_sampler *s, uint32_t slot)
{
    cls_request *const r = &s->request[slot];
    if (!(r->slot.flags & CLS_SLOT_BEGUN))
        return;
    if (s->features & CLS_FEATURE_SHARD)
        r->digest = digest_of(r);
    r->features = cls_features_of_slot(&r->slot) | cls_features_of_slot(&r->answer);
    if (r->slot.answer != 0 && ((r->slot.flags ^ r->answer.flags) & CLS_SLOT_GREEDY))
        r->features |= CLS_NEED_MIXED;
    if ((r->slot.flags & CLS_SLOT_TOTAL) && r->slot.total_scale != CLS_LOG2E)
        r->features |= CLS_NEED_SCALED;
    if (r->slot.flags & CLS_SLOT_STOPS)
        r->features |= CLS_NEED_STOPS;
    add(&s->needs, slot, r, 1);
}

void cls_needs_hash(cls_sampler *s)
{
    s->needs.digest = 0;
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        cls_request *const r = &s->request[slot];
        if (!(r->slot.flags & CLS_SLOT_BEGUN))
            continue;
        r->digest = digest_of(r);
        s->needs.digest += cls_hash_word(r->digest, slot);
    }
}

void cls_needs_remove(cls_sampler *s, uint32_t slot)
{
    if (s->request[slot].slot.flags & CLS_SLOT_BEGUN)
        add(&s->needs, slot, &s->request[slot], UINT64_MAX);
}

uint32_t cls_needs_features(const cls_needs *needs)
{
    uint32_t features = 0;
    for (uint32_t i = 0; i < CLS_NEED_BITS; i++)
        features |= (uint32_t)(needs->feature[i] != 0) << i;
    return features;
}

uint32_t cls_needs_longest(const cls_needs *needs)
{
    uint32_t k = needs->listed[0] == 0 ? needs->shortlist : 0;
    while (k > 0 && needs->listed[k] == 0)
        k--;
    return k;
}
