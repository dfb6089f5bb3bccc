/* SPDX-License-Identifier: MIT */
/* Records slot calls as changes until the next step uploads them. A change belongs to a round;
 * those of one round run at the same time. Calls on one slot follow each other in later rounds, and
 * are joined where the result is the same. */
#include "sampler/sampler.h"

#include <stdlib.h>

/* Returns the most tokens of a change. With as many as usual a work-item's loops stay below the
 * 65,535 trips that llvmpipe allows. */
static uint32_t most_tokens(const cls_sampler *s)
{
    return s->change_tokens != 0 ? s->change_tokens : 8192;
}

/* --------------------------------------------------------------------- memory */

static cls_status grow_host(cls_host_buffer *block, size_t more, const char *what)
{
    const size_t need = more <= SIZE_MAX - block->used ? block->used + more : SIZE_MAX;
    if (need <= block->size)
        return CLS_OK;
    const size_t size = need <= SIZE_MAX / 3 * 2 ? need + need / 2 : need;
    void *const data = realloc(block->data, size);
    if (data == NULL)
        return cls_no_memory("%zu bytes of %s", size, what);
    block->data = data;
    block->size = size;
    return CLS_OK;
}

uint32_t cls_pending_words_count(const cls_sampler *s)
{
    return (uint32_t)(s->pending_words.used / sizeof(uint32_t));
}

/* After the changes there is memory for two numbers per change and one more. cls_changes_sort()
 * writes the order of changes and the ends of rounds there. */
cls_status cls_changes_reserve(cls_sampler *s, size_t tokens, size_t others)
{
    const size_t changes = 1 + tokens / most_tokens(s), words = tokens + others;
    const size_t all = s->pending_changes.used / sizeof(cls_change) + changes;
    const size_t size = changes * sizeof(cls_change) + (2 * all + 1) * sizeof(uint32_t);
    if (all > UINT32_MAX / 8 / (sizeof(cls_change) / sizeof(uint32_t) + 2) ||
        words > UINT32_MAX / 8 - cls_pending_words_count(s))
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                        "there are too many slot calls without a step: %zu changes, with %zu words",
                        all, cls_pending_words_count(s) + words);
    cls_status status = grow_host(&s->pending_changes, size, "slot calls");
    if (status == CLS_OK) /* with a word more, since 0 added to NULL is undefined */
        status = grow_host(&s->pending_words, (words + 1) * sizeof(uint32_t), "slot calls");
    if (status != CLS_OK || s->host != NULL)
        return status;
    status = cls_device_buffer_grow(s, &s->changes, s->pending_changes.used + size, "slot calls");
    if (status == CLS_OK)
        status = cls_device_buffer_grow(
            s, &s->words, s->pending_words.used + words * sizeof(uint32_t), "slot calls");
    return status;
}

/* --------------------------------------------------------------------- changes */

/* Returns a slot's request, with its pending changes reset if they are of an earlier batch. */
static cls_request *current_request(cls_sampler *s, uint32_t slot)
{
    cls_request *const r = &s->request[slot];
    if (r->batch != s->batch) {
        r->batch = s->batch;
        r->change_round = r->copy_round = 0;
    }
    return r;
}

static cls_change *change_at(const cls_sampler *s, size_t i)
{
    return (cls_change *)s->pending_changes.data + i;
}

/* Returns a slot's latest pending change, or NULL if there is none or if a copy has read it. */
static cls_change *open_change(cls_sampler *s, uint32_t slot)
{
    const cls_request *const r = current_request(s, slot);
    return r->change_round > r->copy_round ? change_at(s, r->latest_change) : NULL;
}

/* Returns 1 if a change needs the larger variant of the kernel. */
static int needs_state(uint32_t kind)
{
    return kind != CLS_CHANGE_BEGIN && kind != CLS_CHANGE_APPEND && kind != CLS_CHANGE_RESET;
}

/* Overwrites the latest change of a slot. */
static cls_change *set_latest(cls_sampler *s, uint32_t kind, uint32_t slot, uint32_t round)
{
    cls_request *const r = &s->request[slot];
    cls_change *const c = change_at(s, r->latest_change);
    memset(c, 0, sizeof *c);
    c->kind = kind;
    c->slot = c->from = slot;
    c->round = r->change_round = round;
    r->spare_words = 0;
    r->replaceable = 0;
    s->pending_needs_state |= needs_state(kind);
    if (round > s->rounds)
        s->rounds = round;
    return c;
}

/* Adds a change in a round after `round` and after all pending changes of its slot. */
static cls_change *add_after(cls_sampler *s, uint32_t kind, uint32_t slot, uint32_t round)
{
    cls_request *const r = current_request(s, slot);
    round = round > r->change_round ? round : r->change_round;
    round = round > r->copy_round ? round : r->copy_round;
    r->latest_change = (uint32_t)(s->pending_changes.used / sizeof(cls_change));
    s->pending_changes.used += sizeof(cls_change);
    return set_latest(s, kind, slot, round + 1);
}

cls_change *cls_change_add(cls_sampler *s, uint32_t kind, uint32_t slot)
{
    return add_after(s, kind, slot, 0);
}

cls_change *cls_change_replace(cls_sampler *s, uint32_t kind, uint32_t slot)
{
    const cls_change *const c = open_change(s, slot);
    return c != NULL ? set_latest(s, kind, slot, c->round) : cls_change_add(s, kind, slot);
}

void cls_change_add_copy(cls_sampler *s, uint32_t to, uint32_t from)
{
    cls_request *const r = current_request(s, from);
    cls_change *const c = add_after(s, CLS_CHANGE_COPY, to, r->change_round);
    c->from = from;
    if (c->round > r->copy_round)
        r->copy_round = c->round;
}

/* Returns 1 if new parameters change nothing but themselves, so that later ones may replace them:
 * the counts stay what they were, and so do the adaptive state and those of the thinking budget and
 * the grammar (change_slot() in cl/kernels/slots.cl). */
static int changes_only_params(const cls_slot *was, const cls_slot *now)
{
    return ((was->flags ^ now->flags) &
            (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS | CLS_SLOT_SCOPE_ALL)) == 0 &&
           ((was->flags | now->flags) & (CLS_SLOT_THINKING | CLS_SLOT_GRAMMAR)) == 0 &&
           was->window == now->window && was->top_p == now->top_p;
}

cls_change *cls_change_add_params(cls_sampler *s, uint32_t slot, const cls_slot *now)
{
    cls_request *const r = &s->request[slot];
    const int replaceable = changes_only_params(&r->slot, now);
    const uint32_t kind = CLS_CHANGE_PARAMS;
    cls_change *const c =
        r->replaceable ? cls_change_replace(s, kind, slot) : cls_change_add(s, kind, slot);
    r->replaceable = replaceable;
    return c;
}

cls_status cls_changes_end(cls_sampler *s, cls_status status)
{
    if (s == NULL || s->host == NULL)
        return status;
    const size_t n = s->pending_changes.used / sizeof(cls_change);
    for (size_t i = 0; i < n; i++) {
        const cls_change *const c = change_at(s, i);
        cls_host_slot_change(&s->host->slot[c->slot], c, s->pending_words.data,
                             &s->request[c->slot].params, &s->host->slot[c->from]);
    }
    s->pending_changes.used = s->pending_words.used = 0;
    s->rounds = 0;
    s->pending_needs_state = 0;
    s->batch++;
    return status;
}

/* --------------------------------------------------------------- words, tokens */

static void add_word(cls_sampler *s, uint32_t word)
{
    memcpy((char *)s->pending_words.data + s->pending_words.used, &word, sizeof word);
    s->pending_words.used += sizeof word;
}

void cls_pending_words_add(cls_sampler *s, const uint32_t *words, size_t n)
{
    if (n == 0)
        return;
    memcpy((char *)s->pending_words.data + s->pending_words.used, words, n * sizeof *words);
    s->pending_words.used += n * sizeof *words;
}

void cls_change_add_tokens(cls_sampler *s, uint32_t slot, const int32_t *ids, uint32_t n,
                           uint32_t mark)
{
    cls_request *const r = &s->request[slot];
    cls_change *c = change_at(s, r->latest_change);
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->vocab)
            continue;
        if (c->tokens == most_tokens(s)) {
            c = cls_change_add(s, CLS_CHANGE_APPEND, slot);
            c->words = cls_pending_words_count(s);
        }
        if (r->spare_words == 0) {
            add_word(s, (uint32_t)ids[i] | mark);
        } else {
            ((uint32_t *)s->pending_words.data)[c->words + c->tokens] = (uint32_t)ids[i] | mark;
            r->spare_words--;
        }
        c->tokens++;
    }
}

/* Returns the change that tokens may join, or NULL: the slot's latest change, if it begins the slot
 * or appends tokens and is not full. */
static cls_change *appendable_change(cls_sampler *s, uint32_t slot)
{
    cls_change *const c = open_change(s, slot);
    const int appends = c != NULL && (c->kind == CLS_CHANGE_BEGIN || c->kind == CLS_CHANGE_APPEND);
    return appends && c->tokens < most_tokens(s) ? c : NULL;
}

/* The tokens of a change are contiguous. If words of other calls follow them, so that n more do not
 * fit, they move to the end, with spare words for as many again. There are then fewer than two
 * moves per token, however many calls there are. Returns the number of spare words, or 0 if the
 * tokens need not move. */
static uint32_t spare_after_move(const cls_sampler *s, const cls_change *c, uint32_t n)
{
    const uint32_t spare = s->request[c->slot].spare_words, left = most_tokens(s) - c->tokens;
    const uint32_t wanted = c->tokens + (n < left ? n : left);
    if (n <= spare || c->words + c->tokens + spare == cls_pending_words_count(s))
        return 0;
    return wanted < left ? wanted : left;
}

static void move_tokens(cls_sampler *s, cls_change *c, uint32_t spare)
{
    const uint32_t words = cls_pending_words_count(s);
    cls_pending_words_add(s, (const uint32_t *)s->pending_words.data + c->words, c->tokens);
    memset((uint32_t *)s->pending_words.data + cls_pending_words_count(s), 0,
           spare * sizeof(uint32_t));
    s->pending_words.used += spare * sizeof(uint32_t);
    s->request[c->slot].spare_words = spare;
    c->words = words;
}

cls_status cls_change_append_tokens(cls_sampler *s, uint32_t slot, const int32_t *ids, uint32_t n)
{
    const cls_change *const joined = appendable_change(s, slot);
    const uint32_t spare = joined != NULL ? spare_after_move(s, joined, n) : 0;
    const cls_status status = cls_changes_reserve(s, n, spare != 0 ? joined->tokens + spare : 0);
    if (status != CLS_OK)
        return status;
    if (joined == NULL)
        cls_change_add(s, CLS_CHANGE_APPEND, slot)->words = cls_pending_words_count(s);
    else if (spare != 0) /* reserving may have moved the change itself */
        move_tokens(s, change_at(s, s->request[slot].latest_change), spare);
    cls_change_add_tokens(s, slot, ids, n, 0);
    return CLS_OK;
}

/* --------------------------------------------------------------------- sorting */

const uint32_t *cls_changes_sort(cls_sampler *s)
{
    const cls_change *const change = s->pending_changes.data;
    const uint32_t n = (uint32_t)(s->pending_changes.used / sizeof *change);
    uint32_t *const order =
        (uint32_t *)(void *)((char *)s->pending_changes.data + s->pending_changes.used);
    uint32_t *const end = order + n, sum = 0;
    memset(end, 0, (s->rounds + 1) * sizeof *end);
    for (uint32_t i = 0; i < n; i++)
        end[change[i].round]++;
    for (uint32_t round = 0; round <= s->rounds; round++) {
        const uint32_t of_round = end[round];
        end[round] = sum; /* the beginning of the round, until the next loop */
        sum += of_round;
    }
    for (uint32_t i = 0; i < n; i++)
        order[end[change[i].round]++] = i;
    return end;
}
