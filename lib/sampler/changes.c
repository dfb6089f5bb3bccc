/* SPDX-License-Identifier: MIT */
/* Slot calls on their way to the device: the room that they take, which join each other, and
 * which wait for which. */
#include "sampler/sampler.h"

#include <stdlib.h>

/* Tokens of a call that one launch takes: a work-item's loops stay below the
 * 65,535 trips that llvmpipe allows it. */
#define CHUNK 8192u

/* ----------------------------------------------------------------------- room */

static cls_status grow_host(cls_block *block, size_t more, const char *what)
{
    const size_t need = more <= SIZE_MAX - block->used ? block->used + more : SIZE_MAX;
    if (need <= block->size)
        return CLS_OK;
    const size_t size = need <= SIZE_MAX / 3 * 2 ? need + need / 2 : need;
    void *const data = realloc(block->data, size);
    if (data == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for %zu bytes of %s",
                        size, what);
    block->data = data;
    block->size = size;
    return CLS_OK;
}

uint32_t cls_words_end(const cls_sampler *s)
{
    return (uint32_t)(s->pending_words.used / sizeof(uint32_t));
}

/* Behind the changes lie two numbers for each, and one more: their order by round, and
 * where rounds end. */
cls_status cls_changes_reserve(cls_sampler *s, size_t tokens, size_t others)
{
    const size_t changes = 1 + tokens / CHUNK, words = tokens + others;
    const size_t all = s->pending_changes.used / sizeof(cls_change) + changes;
    const size_t size = changes * sizeof(cls_change) + (2 * all + 1) * sizeof(uint32_t);
    if (all > UINT32_MAX / 8 / (sizeof(cls_change) / sizeof(uint32_t) + 2) ||
        words > UINT32_MAX / 8 - cls_words_end(s))
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                        "too many slot calls without a step: %zu, of %zu words", all,
                        cls_words_end(s) + words);
    cls_status status = grow_host(&s->pending_changes, size, "slot calls");
    if (status == CLS_OK)
        status = grow_host(&s->pending_words, words * sizeof(uint32_t), "slot calls");
    if (status == CLS_OK)
        status = cls_device_grow(s, &s->changes, s->pending_changes.used + size, "slot calls");
    if (status == CLS_OK)
        status = cls_device_grow(s, &s->words, s->pending_words.used + words * sizeof(uint32_t),
                                 "slot calls");
    return status;
}

/* ---------------------------------------------------------------------- noting */

/* A slot's request, with the numbers that belong to the pending changes. */
static cls_request *noted(cls_sampler *s, uint32_t slot)
{
    cls_request *const r = &s->request[slot];
    if (r->flush != s->flush) {
        r->flush = s->flush;
        r->round = r->read = 0;
    }
    return r;
}

static cls_change *change_at(const cls_sampler *s, uint32_t i)
{
    return (cls_change *)s->pending_changes.data + i;
}

/* The latest change on a slot, which may still become another: no copy has read it. */
static cls_change *latest(cls_sampler *s, uint32_t slot)
{
    const cls_request *const r = noted(s, slot);
    return r->round > r->read ? change_at(s, r->latest) : NULL;
}

/* What the leaner of the kernels leaves out. */
static int changes_state(uint32_t kind)
{
    return kind != CLS_CHANGE_BEGIN && kind != CLS_CHANGE_APPEND && kind != CLS_CHANGE_RESET;
}

/* Makes the latest change of a slot what is asked. */
static cls_change *make_latest(cls_sampler *s, uint32_t kind, uint32_t slot, uint32_t round)
{
    cls_request *const r = &s->request[slot];
    cls_change *const c = change_at(s, r->latest);
    memset(c, 0, sizeof *c);
    c->kind = kind;
    c->slot = c->from = slot;
    c->round = r->round = round;
    r->room = 0;
    r->traceless = 0;
    s->pending_state |= changes_state(kind);
    if (round > s->rounds)
        s->rounds = round;
    return c;
}

/* Notes a change that follows those of a round, and all that was noted for its slot. */
static cls_change *note_after(cls_sampler *s, uint32_t kind, uint32_t slot, uint32_t round)
{
    cls_request *const r = noted(s, slot);
    round = round > r->round ? round : r->round;
    round = round > r->read ? round : r->read;
    r->latest = (uint32_t)(s->pending_changes.used / sizeof(cls_change));
    s->pending_changes.used += sizeof(cls_change);
    return make_latest(s, kind, slot, round + 1);
}

cls_change *cls_change_note(cls_sampler *s, uint32_t kind, uint32_t slot)
{
    return note_after(s, kind, slot, 0);
}

cls_change *cls_change_note_over(cls_sampler *s, uint32_t kind, uint32_t slot)
{
    const cls_change *const c = latest(s, slot);
    return c != NULL ? make_latest(s, kind, slot, c->round) : cls_change_note(s, kind, slot);
}

/* Copies of one slot run side by side; what changes it later comes after them. */
void cls_change_note_copy(cls_sampler *s, uint32_t to, uint32_t from)
{
    cls_request *const r = noted(s, from);
    cls_change *const c = note_after(s, CLS_CHANGE_COPY, to, r->round);
    c->from = from;
    if (c->round > r->read)
        r->read = c->round;
}

/* Whether parameters leave nothing behind where others follow them: the counts stay
 * what they were, and so do the modes (change_slot() in cl/kernels/slots.cl). */
static int is_traceless(const cls_slot *was, const cls_slot *now)
{
    return ((was->flags ^ now->flags) & (CLS_SLOT_MODES | CLS_SLOT_DECAYS | CLS_SLOT_SCOPE_ALL)) ==
               0 &&
           was->window == now->window && was->top_p == now->top_p;
}

cls_change *cls_change_note_params(cls_sampler *s, uint32_t slot, const cls_slot *now)
{
    cls_request *const r = &s->request[slot];
    const int traceless = is_traceless(&r->slot, now);
    const uint32_t kind = CLS_CHANGE_PARAMS;
    cls_change *const c =
        r->traceless ? cls_change_note_over(s, kind, slot) : cls_change_note(s, kind, slot);
    r->traceless = traceless;
    return c;
}

/* --------------------------------------------------------------- words, tokens */

static void add_word(cls_sampler *s, uint32_t word)
{
    memcpy((char *)s->pending_words.data + s->pending_words.used, &word, sizeof word);
    s->pending_words.used += sizeof word;
}

void cls_words_add(cls_sampler *s, const uint32_t *words, size_t n)
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
    cls_change *c = change_at(s, r->latest);
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->vocab)
            continue;
        if (c->tokens == CHUNK) {
            c = cls_change_note(s, CLS_CHANGE_APPEND, slot);
            c->words = cls_words_end(s);
        }
        if (r->room == 0) {
            add_word(s, (uint32_t)ids[i] | mark);
        } else {
            ((uint32_t *)s->pending_words.data)[c->words + c->tokens] = (uint32_t)ids[i] | mark;
            r->room--;
        }
        c->tokens++;
    }
}

/* The change that tokens may join: a beginning or an appending without another call behind it. */
static cls_change *open_change(cls_sampler *s, uint32_t slot)
{
    cls_change *const c = latest(s, slot);
    const int appends = c != NULL && (c->kind == CLS_CHANGE_BEGIN || c->kind == CLS_CHANGE_APPEND);
    return appends && c->tokens < CHUNK ? c : NULL;
}

/* A change's tokens lie together. Where n more would not, since words of other calls lie
 * behind them, they move to the end, with room for as many again: so there are fewer than two
 * moves a token, however many calls there are. Returns the room, 0: they need not move. */
static uint32_t room_after_move(const cls_sampler *s, const cls_change *c, uint32_t n)
{
    const uint32_t room = s->request[c->slot].room, left = CHUNK - c->tokens;
    const uint32_t wanted = c->tokens + (n < left ? n : left);
    if (n <= room || c->words + c->tokens + room == cls_words_end(s))
        return 0;
    return wanted < left ? wanted : left;
}

static void move_tokens(cls_sampler *s, cls_change *c, uint32_t room)
{
    const uint32_t words = cls_words_end(s);
    cls_words_add(s, (const uint32_t *)s->pending_words.data + c->words, c->tokens);
    memset((uint32_t *)s->pending_words.data + cls_words_end(s), 0, room * sizeof(uint32_t));
    s->pending_words.used += room * sizeof(uint32_t);
    s->request[c->slot].room = room;
    c->words = words;
}

cls_status cls_change_append(cls_sampler *s, uint32_t slot, const int32_t *ids, uint32_t n)
{
    const cls_change *const open = open_change(s, slot);
    const uint32_t room = open != NULL ? room_after_move(s, open, n) : 0;
    const cls_status status = cls_changes_reserve(s, n, room != 0 ? open->tokens + room : 0);
    if (status != CLS_OK)
        return status;
    if (open == NULL)
        cls_change_note(s, CLS_CHANGE_APPEND, slot)->words = cls_words_end(s);
    else if (room != 0)
        move_tokens(s, change_at(s, s->request[slot].latest),
                    room); /* `open` may lie elsewhere now */
    cls_change_add_tokens(s, slot, ids, n, 0);
    return CLS_OK;
}

/* --------------------------------------------------------------------- running */

const uint32_t *cls_changes_order(cls_sampler *s)
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
        end[round] = sum; /* so far */
        sum += of_round;
    }
    for (uint32_t i = 0; i < n; i++)
        order[end[change[i].round]++] = i;
    return end;
}
