/* SPDX-License-Identifier: MIT */
/* A request on the host: what a slot keeps of its tokens, and how slot calls and accepted tokens
 * change that. An entry of the ring either counts (output tokens do, and with CLS_SLOT_SCOPE_ALL
 * prompt tokens, too) and is in the counts, or it is in context, for the repetition penalty
 * alone. */
#include "host/host.h"

#include <stdlib.h>

/* Stores what a rollback restores, before the token at an index. */
static void store_states(const cls_host_slot *h, uint32_t at)
{
    if (CLS_LAYOUT_ROLLBACK(h->layout) == 0)
        return;
    *cls_host_slot_adaptive(h, at) = h->slot.adaptive;
    *cls_host_slot_thinking(h, at) = h->slot.thinking;
    *cls_host_slot_grammar(h, at) = h->slot.grammar_state;
}

/* --------------------------------------------------------------------- counts */

static int counts_tokens(const cls_host_slot *h)
{
    return CLS_LAYOUT_COUNTS(h->layout) != CLS_COUNTS_NONE;
}

static int entry_counts(const cls_host_slot *h, uint32_t entry)
{
    return (entry & CLS_ENTRY_OUTPUT) != 0 || (h->slot.flags & CLS_SLOT_SCOPE_ALL) != 0;
}

/* Counts an entry. Returns it, with CLS_ENTRY_FIRST if no equal token counted before it. */
static uint32_t add_entry(const cls_host_slot *h, uint32_t entry)
{
    const uint32_t id = entry & CLS_ENTRY_ID, count = cls_host_slot_count(h, id);
    const int counted = entry_counts(h, entry), in_context = cls_host_slot_in_context(h, id);
    entry &= ~CLS_ENTRY_FIRST;
    if (!counts_tokens(h))
        return entry;
    cls_host_slot_set_count(h, id, counted && count < CLS_MAX_COUNT ? count + 1 : count,
                            in_context || !counted);
    return counted && count == 0 ? entry | CLS_ENTRY_FIRST : entry;
}

/* Takes an entry out of the counts. `last`: no other one of its token and kind is left. A count
 * that has reached its maximum stays there, since its true value is unknown. */
static void remove_entry(const cls_host_slot *h, uint32_t entry, int last)
{
    const uint32_t id = entry & CLS_ENTRY_ID, count = cls_host_slot_count(h, id);
    const int in_context = cls_host_slot_in_context(h, id);
    if (!counts_tokens(h))
        return;
    if (!entry_counts(h, entry))
        cls_host_slot_set_count(h, id, count, in_context && !last);
    else if (CLS_LAYOUT_COUNTS(h->layout) == CLS_COUNTS_PRESENCE)
        cls_host_slot_set_count(h, id, last ? 0 : count, in_context);
    else if (count > 0 && count < CLS_MAX_COUNT)
        cls_host_slot_set_count(h, id, count - 1, in_context);
}

/* Counts the latest n tokens again, and no others. */
static void recount(const cls_host_slot *h, uint32_t n)
{
    if (!counts_tokens(h))
        return;
    cls_host_slot_clear(h);
    for (uint32_t i = h->slot.length - n; i < h->slot.length; i++)
        *cls_host_slot_entry(h, i) = add_entry(h, *cls_host_slot_entry(h, i));
}

/* Counts what is in the penalty window, if there is one. */
static void recount_window(const cls_host_slot *h)
{
    const cls_slot *const s = &h->slot;
    if (s->window != 0)
        recount(h, s->window < s->length ? s->window : s->length);
}

/* Returns 1 if two entries count as one token. */
static int entries_are_alike(const cls_host_slot *h, uint32_t a, uint32_t b)
{
    return ((a ^ b) & CLS_ENTRY_ID) == 0 && entry_counts(h, a) == entry_counts(h, b);
}

/* Takes the entry out of the counts that the next one pushes out of the window. */
static void leave_window(const cls_host_slot *h, uint32_t next)
{
    const cls_slot *const s = &h->slot;
    if (s->window == 0 || s->length < s->window)
        return;
    const uint32_t first = s->length - s->window, leaving = *cls_host_slot_entry(h, first);
    int others = entries_are_alike(h, leaving, next);
    for (uint32_t i = first + 1; i < s->length; i++)
        others |= entries_are_alike(h, leaving, *cls_host_slot_entry(h, i));
    remove_entry(h, leaving, !others);
}

/* ------------------------------------------------------------------ slot calls */

void cls_host_slot_check(cls_host_slot *h)
{
    cls_slot *const s = &h->slot;
    s->stopped = 0;
    if (!(s->flags & CLS_SLOT_BEGUN) || s->length == 0)
        return;
    const uint32_t latest = *cls_host_slot_entry(h, s->length - 1),
                   output = latest & CLS_ENTRY_OUTPUT ? latest & CLS_ENTRY_ID : UINT32_MAX;
    s->stopped =
        s->outputs != 0 && (s->grammar_state == CLS_GRAMMAR_ENDED ||
                            cls_text_stops(h, output, s->outputs, s->thinking) != CLS_ROW_OK);
    s->length--; /* a loop is found when its last token follows */
    s->stopped |= !(s->flags & CLS_SLOT_LOOPS_THINK) && cls_text_loops(h, latest) != CLS_ROW_OK;
    s->length++;
}

/* Merges the parameters outside the thinking, which were checked. */
static void merge_answer(cls_host_slot *h)
{
    if (h->params->post_thinking != NULL)
        (void)cls_slot_of_answer(h->params, h->vocab, &h->answer_params, &h->answer);
}

/* Makes parameters those of the request. Returns 1 if it goes on to follow the same grammar. */
static int take_params(cls_host_slot *h, const cls_slot *slot, const cls_params *params)
{
    static const uint8_t none[CLS_DIGEST_SIZE];
    const uint8_t *const digest = params->grammar != NULL ? params->grammar->digest : none;
    const int same = params->grammar != NULL && memcmp(h->grammar, digest, sizeof h->grammar) == 0;
    h->slot = *slot;
    h->params = params;
    merge_answer(h);
    memcpy(h->grammar, digest, sizeof h->grammar);
    return same;
}

void cls_host_slot_begin(cls_host_slot *h, const cls_slot *slot, const cls_params *params)
{
    take_params(h, slot, params);
    h->slot.n_forced = h->slot.forced_from = 0;
    cls_host_slot_clear(h);
}

void cls_host_slot_append(cls_host_slot *h, const uint32_t *entries, uint32_t n)
{
    cls_slot *const s = &h->slot;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = entries[i] & CLS_ENTRY_ID, mark = entries[i] & CLS_ENTRY_OUTPUT;
        store_states(h, s->length);
        const cls_text_state next = cls_text_next(h, id, mark != 0);
        s->thinking = next.thinking;
        s->grammar_state = next.grammar;
        if (mark != 0 && (s->flags & CLS_SLOT_DECAYS))
            s->adaptive.top_p = top_p_next(s, s->adaptive.top_p, (int32_t)id);
        *cls_host_slot_entry(h, s->length) = s->window == 0 ? add_entry(h, id | mark) : id | mark;
        s->length++;
        s->position += mark != 0;
        s->outputs += mark != 0;
    }
    s->longest = s->length > s->longest ? s->length : s->longest;
    s->pending = -1;
    recount_window(h);
}

static void turn_slot(cls_host_slot *h)
{
    cls_slot *const s = &h->slot;
    for (uint32_t i = 0; i < CLS_LAYOUT_RING(h->layout); i++)
        *cls_host_slot_entry(h, i) &= CLS_ENTRY_ID;
    if (s->window == 0 && !(s->flags & CLS_SLOT_SCOPE_ALL))
        for (uint32_t id = 0; id < h->vocab; id++)
            if (cls_host_slot_count(h, id) != 0)
                cls_host_slot_set_count(h, id, 0, 1);
    recount_window(h);
    s->outputs = 0;
    s->pending = -1;
    s->adaptive.top_p = s->top_p;
    s->thinking = s->thinking != 0; /* the budget of the turn begins */
    s->n_forced = 0;
    s->grammar_state = s->grammar_begin;
}

/* Returns an adaptive state under new parameters: the parts of samplers that were on stay. */
static cls_slot_adaptive carry_adaptive(const cls_slot *now, const cls_slot *was,
                                        const cls_slot_adaptive *state)
{
    const uint32_t both = now->flags & was->flags;
    const cls_slot_adaptive begins = adaptive_begin(now);
    cls_slot_adaptive carried = *state;
    if (!(both & CLS_SLOT_MIROSTAT))
        carried.mu = begins.mu;
    if (!(both & CLS_SLOT_ADAPTIVE)) {
        carried.sum = begins.sum;
        carried.weight = begins.weight;
    }
    if (!(both & CLS_SLOT_DECAYS) || now->top_p != was->top_p)
        carried.top_p = begins.top_p;
    return carried;
}

/* Returns a state of the thinking under new parameters, of which `begins` is the state in which
 * they begin. The tokens that counted still count, but not for more than the new budget; and of the
 * ids that end the thinking as many have been emitted as before. `ids`: how many of them there are.
 * Without any, no more count than the `outputs` that there are: a loop had used up the budget. */
static uint32_t carry_thinking(const cls_slot *now, const cls_slot *was, uint32_t begins,
                               uint32_t ids, uint32_t outputs, uint32_t state)
{
    if (!(now->flags & CLS_SLOT_THINKING))
        return 0;
    if (!(was->flags & CLS_SLOT_THINKING))
        return begins;
    if (state == 0)
        return 0;
    const uint32_t count = state - 1, budget = was->thinking_budget,
                   emitted = count > budget ? count - budget : 0;
    if (emitted != 0)
        return emitted < ids ? 1 + now->thinking_budget + emitted : 0;
    const uint32_t most = ids != 0 ? now->thinking_budget : outputs;
    return 1 + (count < most ? count : most);
}

static void change_params(cls_host_slot *h, const cls_slot *slot, const cls_params *params)
{
    const cls_slot was = h->slot;
    cls_slot *const s = &h->slot;
    const int keeps_grammar = take_params(h, slot, params);
    s->position = was.position;
    s->outputs = was.outputs;
    s->length = was.length;
    s->longest = was.longest;
    s->n_forced = was.n_forced;
    s->forced_from = was.forced_from;
    const uint32_t rollback = CLS_LAYOUT_ROLLBACK(h->layout), ids = params->thinking_forced.count;
    s->thinking = carry_thinking(s, &was, slot->thinking, ids, s->outputs, was.thinking);
    s->adaptive = carry_adaptive(s, &was, &was.adaptive);
    s->grammar_state = keeps_grammar ? was.grammar_state : slot->grammar_state;
    for (uint32_t i = 0; i < rollback; i++) {
        uint32_t *const thinking = cls_host_slot_thinking(h, i);
        cls_slot_adaptive *const adaptive = cls_host_slot_adaptive(h, i);
        const uint32_t back = state_back(s->length, i, rollback);
        *thinking = carry_thinking(s, &was, slot->thinking, ids,
                                   s->outputs - (back < s->outputs ? back : s->outputs), *thinking);
        *adaptive = carry_adaptive(s, &was, adaptive);
        if (!keeps_grammar)
            *cls_host_slot_grammar(h, i) = slot->grammar_state;
    }
    if (s->window != was.window || ((s->flags ^ was.flags) & CLS_SLOT_SCOPE_ALL)) {
        const uint32_t most = s->window != 0 ? s->window : CLS_LAYOUT_HISTORY(h->layout);
        recount(h, most < s->length ? most : s->length);
    }
}

void cls_host_slot_force(cls_host_slot *h, const int32_t *ids, uint32_t n)
{
    h->forced = ids;
    h->slot.n_forced = n;
    h->slot.forced_from = h->slot.outputs;
}

void cls_host_slot_copy(cls_host_slot *h, const cls_host_slot *from)
{
    h->slot = from->slot;
    h->params = from->params;
    h->answer_params = from->answer_params;
    h->answer = from->answer;
    h->forced = from->forced;
    memcpy(h->grammar, from->grammar, sizeof h->grammar);
    memcpy(h->state, from->state, state_words(h->vocab, h->layout) * sizeof *h->state);
}

void cls_host_slot_rollback(cls_host_slot *h, uint32_t n)
{
    cls_slot *const s = &h->slot;
    if (n > cls_host_slot_removable(h)) {
        s->flags = 0;
        return;
    }
    for (; n > 0; n--) {
        const uint32_t entry = *cls_host_slot_entry(h, --s->length);
        if (s->window == 0)
            remove_entry(h, entry, (entry & CLS_ENTRY_FIRST) != 0);
        s->adaptive = *cls_host_slot_adaptive(h, s->length);
        s->thinking = *cls_host_slot_thinking(h, s->length);
        s->grammar_state = *cls_host_slot_grammar(h, s->length);
        s->position--;
        s->outputs--;
    }
    s->pending = -1;
    recount_window(h);
}

int cls_host_slot_reserve(cls_host_slot *h, uint32_t n)
{
    int32_t *const room = n > h->room_size ? realloc(h->room, n * sizeof *room) : NULL;
    if (room != NULL) {
        h->forced = h->room = room;
        h->room_size = n;
    }
    return n <= h->room_size;
}

/* Copies the ids that are forced to the slot's own memory, which was reserved. */
static void own_forced(cls_host_slot *h, const void *ids)
{
    if (h->slot.n_forced != 0)
        memcpy(h->room, ids, h->slot.n_forced * sizeof *h->room);
    h->forced = h->room;
}

void cls_host_slot_change(cls_host_slot *h, const cls_change *c, const uint32_t *words,
                          const cls_params *params, const cls_host_slot *from)
{
    const int begun = (h->slot.flags & CLS_SLOT_BEGUN) != 0;
    if (c->kind == CLS_CHANGE_RESET) {
        h->slot.flags = 0;
    } else if (c->kind == CLS_CHANGE_COPY) {
        cls_host_slot_copy(h, from);
        h->params = params;
        merge_answer(h); /* with the arrays of the copy */
        own_forced(h, from->forced);
    } else if (c->kind == CLS_CHANGE_LOAD) {
        take_params(h, &c->params, params);
        own_forced(h, words + c->lists + (c->params.forced - c->params.lists));
        memcpy(h->state, words + c->words, state_words(h->vocab, h->layout) * sizeof *h->state);
    } else if (c->kind == CLS_CHANGE_BEGIN) {
        cls_host_slot_begin(h, &c->params, params);
        cls_host_slot_append(h, words + c->words, c->tokens);
    } else if (begun && c->kind == CLS_CHANGE_PARAMS) {
        change_params(h, &c->params, params);
    } else if (begun && c->kind == CLS_CHANGE_FORCE) {
        cls_host_slot_force(h, NULL, c->tokens);
        own_forced(h, words + c->lists);
    } else if (begun && c->kind == CLS_CHANGE_ROLLBACK) {
        cls_host_slot_rollback(h, c->tokens);
    } else if (begun) {
        if (c->kind == CLS_CHANGE_TURN)
            turn_slot(h);
        cls_host_slot_append(h, words + c->words, c->tokens);
    }
    cls_host_slot_check(h);
}

/* -------------------------------------------------------------------- a token */

void cls_host_slot_accept(cls_host_slot *h, uint32_t id, const cls_slot_adaptive *next)
{
    cls_slot *const s = &h->slot;
    const cls_text_state after = cls_text_next(h, id, 1);
    const uint32_t loops = cls_text_loops(h, id | CLS_ENTRY_OUTPUT), top_p = s->adaptive.top_p;
    store_states(h, s->length);
    s->thinking = after.thinking;
    s->grammar_state = after.grammar;
    const uint32_t entry = add_entry(h, id | CLS_ENTRY_OUTPUT);
    leave_window(h, entry);
    *cls_host_slot_entry(h, s->length) = entry;
    if (next != NULL)
        s->adaptive = *next;
    else if (s->pending == (int32_t)id)
        s->adaptive = s->next_adaptive;
    s->adaptive.top_p = s->flags & CLS_SLOT_DECAYS ? top_p_next(s, top_p, (int32_t)id) : top_p;
    s->pending = -1;
    s->position++;
    s->outputs++;
    s->length++;
    s->longest = s->length > s->longest ? s->length : s->longest;
    s->stopped = ((after.ends | loops) & CLS_ROW_STOPPED) != 0;
}
