/* SPDX-License-Identifier: MIT */
/* The memory of a request on the host: its parts, in the layout of a device's (cl/core/state.h). */
#include "host/host.h"

/* ------------------------------------------------------------------ the state */

static uint32_t ring_size(const cls_host_slot *h) { return CLS_LAYOUT_RING(h->layout); }
static uint32_t rollback_of(const cls_host_slot *h) { return CLS_LAYOUT_ROLLBACK(h->layout); }
static uint32_t counting(const cls_host_slot *h) { return CLS_LAYOUT_COUNTS(h->layout); }

uint32_t *cls_host_slot_entry(const cls_host_slot *h, uint32_t at)
{
    return h->state + state_ring(h->vocab, h->layout) + at % ring_size(h);
}

cls_slot_adaptive *cls_host_slot_adaptive(const cls_host_slot *h, uint32_t at)
{
    return (cls_slot_adaptive *)(void *)(h->state + state_adaptive(h->vocab, h->layout) +
                                         at % rollback_of(h) * CLS_ADAPTIVE_WORDS);
}

uint32_t *cls_host_slot_thinking(const cls_host_slot *h, uint32_t at)
{
    return h->state + state_thinking(h->vocab, h->layout) + at % rollback_of(h);
}

uint32_t *cls_host_slot_grammar(const cls_host_slot *h, uint32_t at)
{
    return h->state + state_grammar(h->vocab, h->layout) + at % rollback_of(h);
}

uint32_t cls_host_slot_removable(const cls_host_slot *h)
{
    const cls_slot *const s = &h->slot;
    const uint32_t gone = s->longest - s->length, all = rollback_of(h);
    uint32_t n = 0;
    while (n + gone < all && n < s->length &&
           (*cls_host_slot_entry(h, s->length - 1 - n) & CLS_ENTRY_OUTPUT))
        n++;
    return n;
}

/* --------------------------------------------------------------------- counts */

static uint32_t *counts_of(const cls_host_slot *h)
{
    return h->state + state_counts(h->vocab, h->layout);
}
static uint32_t *in_context_of(const cls_host_slot *h)
{
    return h->state + state_in_context(h->vocab, h->layout);
}

static void put_bit(uint32_t *bitmap, uint32_t id, int on)
{
    const uint32_t bit = 1u << (id % 32);
    bitmap[id / 32] = on ? bitmap[id / 32] | bit : bitmap[id / 32] & ~bit;
}
static int has_bit(const uint32_t *bitmap, uint32_t id)
{
    return (int)(bitmap[id / 32] >> (id % 32) & 1u);
}

uint32_t cls_host_slot_count(const cls_host_slot *h, uint32_t id)
{
    uint16_t count;
    if (counting(h) != CLS_COUNTS_ALL)
        return counting(h) == CLS_COUNTS_PRESENCE ? (uint32_t)has_bit(counts_of(h), id) : 0;
    memcpy(&count, (const char *)counts_of(h) + sizeof count * (size_t)id, sizeof count);
    return count;
}

int cls_host_slot_in_context(const cls_host_slot *h, uint32_t id)
{
    return counting(h) != CLS_COUNTS_NONE && has_bit(in_context_of(h), id);
}

void cls_host_slot_clear(const cls_host_slot *h)
{
    memset(h->state, 0, state_ring(h->vocab, h->layout) * sizeof *h->state);
}

static void set_count(const cls_host_slot *h, uint32_t id, uint32_t count)
{
    const uint16_t narrow = (uint16_t)count;
    if (counting(h) == CLS_COUNTS_PRESENCE)
        put_bit(counts_of(h), id, count != 0);
    else
        memcpy((char *)counts_of(h) + sizeof narrow * (size_t)id, &narrow, sizeof narrow);
}

/* Marks a token that is counted or in context as adjusted, and no other. */
static void set_adjusted(const cls_host_slot *h, uint32_t id)
{
    put_bit(h->state + state_adjusted(), id,
            cls_host_slot_in_context(h, id) || cls_host_slot_count(h, id) != 0);
}

void cls_host_slot_set_count(const cls_host_slot *h, uint32_t id, uint32_t count, int in_context)
{
    set_count(h, id, count);
    put_bit(in_context_of(h), id, in_context);
    set_adjusted(h, id);
}
