/* SPDX-License-Identifier: MIT */
/* What a request's text says of its next token: the id that it must be, if it must be one, whether
 * the grammar allows it, and whether it ends the request. */
#include "host/host.h"

uint32_t cls_text_entry(const cls_host_slot *h, uint32_t back)
{
    return *cls_host_slot_entry(h, h->slot.length - back);
}

/* Returns 1 if the text, followed by an id, ends with these, of which there is at least one. */
static int ends_with(const cls_host_slot *h, uint32_t id, const cls_ids *ids)
{
    uint32_t same = 1;
    if (ids->count == 0 || ids->count - 1 > h->slot.length ||
        (uint32_t)ids->ids[ids->count - 1] != id)
        return 0;
    while (same < ids->count &&
           (cls_text_entry(h, same) & CLS_ENTRY_ID) == (uint32_t)ids->ids[ids->count - 1 - same])
        same++;
    return same == ids->count;
}

/* -------------------------------------------------------------------- thinking */

/* Returns the id that ends the thinking next, because its budget is used up, or -1. */
static int32_t due_id(const cls_host_slot *h)
{
    const cls_slot *const s = &h->slot;
    const cls_ids *const forced = &h->params->thinking_forced;
    const uint32_t count = s->thinking - 1;
    return s->thinking != 0 && count >= s->thinking_budget &&
                   count - s->thinking_budget < forced->count
               ? forced->ids[count - s->thinking_budget]
               : -1;
}

/* Returns 1 if the text, followed by an id, ends with one of the sequences that end the thinking.
 */
static int ends_thinking(const cls_host_slot *h, uint32_t id)
{
    const cls_sequences *const ends = &h->params->thinking_ends;
    uint32_t i = 0;
    while (i < ends->count && !ends_with(h, id, &ends->sequences[i]))
        i++;
    return i < ends->count;
}

int cls_text_is_stop(const cls_host_slot *h, uint32_t id)
{
    const cls_ids *const stop = &h->params->stop_ids;
    uint32_t i = 0;
    while (i < stop->count && (uint32_t)stop->ids[i] != id)
        i++;
    return i < stop->count;
}

/* Returns the state of the thinking after an id: 0 outside it, else 1 plus the output tokens that
 * count. */
static uint32_t thinking_after(const cls_host_slot *h, uint32_t id, int is_output)
{
    const cls_slot *const s = &h->slot;
    const cls_params *const p = h->params;
    const int32_t due = due_id(h);
    if (!(s->flags & CLS_SLOT_THINKING))
        return s->thinking;
    if (s->thinking == 0) /* the output of a request with a grammar begins no thinking */
        return (uint32_t)(!(is_output && p->grammar != NULL) &&
                          ends_with(h, id, &p->thinking_start));
    if (is_output && due == (int32_t)id)
        return s->thinking - s->thinking_budget < p->thinking_forced.count ? s->thinking + 1 : 0;
    if (ends_thinking(h, id))
        return 0;
    if (is_output && due < 0 && (s->flags & CLS_SLOT_STOPS_THINK) && cls_text_is_stop(h, id) &&
        s->outputs + 1 >= s->min_tokens)
        return 1 + s->thinking_budget;                           /* its end is due */
    return is_output && due < 0 ? s->thinking + 1 : s->thinking; /* due ids do not count */
}

int32_t cls_text_due(const cls_host_slot *h)
{
    const cls_slot *const s = &h->slot;
    const uint32_t at = s->outputs - s->forced_from;
    return at < s->n_forced ? h->forced[at] : due_id(h);
}

int cls_text_relaxes(const cls_host_slot *h)
{
    return (h->slot.flags & CLS_SLOT_RELAXED) != 0 && h->slot.thinking != 0;
}

/* ------------------------------------------------------------------------ grammar */

const cls_grammar *cls_text_grammar(const cls_host_slot *h)
{
    return h->slot.thinking == 0 ? h->params->grammar : NULL;
}

int cls_text_leaves_ends(const cls_host_slot *h)
{
    const cls_ids *const allowed = &h->params->allowed_ids;
    const cls_grammar *const grammar = cls_text_grammar(h);
    const int some = cls_params_allow_some(h->params);
    int any = 0;
    for (uint32_t i = 0; i < (some ? allowed->count : h->vocab) && grammar != NULL; i++) {
        const uint32_t id = some ? (uint32_t)allowed->ids[i] : i,
                       next = grammar_next(grammar->words, h->slot.grammar_state, id);
        if (next != CLS_GRAMMAR_DEAD && next != CLS_GRAMMAR_ENDED && !cls_text_is_stop(h, id))
            return 0;
        any |= next != CLS_GRAMMAR_DEAD;
    }
    return any;
}

/* Returns the state of the grammar after an output token. Where only ends are left, a stop id ends
 * it before min_tokens, too. */
static uint32_t grammar_after(const cls_host_slot *h, uint32_t id)
{
    if (cls_text_grammar(h) == NULL)
        return h->slot.grammar_state;
    const uint32_t next = grammar_next(h->params->grammar->words, h->slot.grammar_state, id);
    return next != CLS_GRAMMAR_DEAD && h->slot.outputs + 1 < h->slot.min_tokens &&
                   cls_text_is_stop(h, id) && cls_text_leaves_ends(h)
               ? CLS_GRAMMAR_ENDED
               : next;
}

int cls_text_allows(const cls_host_slot *h, uint32_t id)
{
    return cls_text_grammar(h) == NULL ||
           grammar_next(h->params->grammar->words, h->slot.grammar_state, id) != CLS_GRAMMAR_DEAD;
}

/* ------------------------------------------------------------------------ the end */

uint32_t cls_text_stops(const cls_host_slot *h, uint32_t id, uint32_t outputs, uint32_t thinking)
{
    const cls_slot *const s = &h->slot;
    const int goes_on = thinking != 0 && (s->flags & CLS_SLOT_STOPS) != 0;
    if (!goes_on && outputs >= s->min_tokens && cls_text_is_stop(h, id))
        return CLS_ROW_STOPPED;
    return s->max_tokens != 0 && outputs >= s->max_tokens ? CLS_ROW_STOPPED | CLS_ROW_LENGTH
                                                          : CLS_ROW_OK;
}

cls_text_state cls_text_next(const cls_host_slot *h, uint32_t id, int is_output)
{
    const uint32_t entry = id | (is_output ? CLS_ENTRY_OUTPUT : 0);
    cls_text_state next = {thinking_after(h, id, is_output), h->slot.grammar_state, CLS_ROW_OK};
    if (is_output) {
        next.grammar = grammar_after(h, id);
        next.ends = cls_text_stops(h, id, h->slot.outputs + 1, next.thinking) |
                    (next.grammar == CLS_GRAMMAR_ENDED ? CLS_ROW_STOPPED : CLS_ROW_OK);
    }
    if ((h->slot.flags & CLS_SLOT_LOOPS_THINK) && cls_text_loops(h, entry) != CLS_ROW_OK)
        next.thinking = 1 + h->slot.thinking_budget; /* its end is due */
    return next;
}

/* Returns 1 if the text, followed by an entry, ends with n output tokens that stand there `times`
 * times, without prompt between them. */
static int repeats(const cls_host_slot *h, uint32_t entry, uint32_t n, uint32_t times)
{
    const uint32_t kind = CLS_ENTRY_ID | CLS_ENTRY_OUTPUT, all = n * times;
    uint32_t same = 0;
    while (same < all - n) {
        const uint32_t later = same == 0 ? entry : cls_text_entry(h, same);
        if (!(later & CLS_ENTRY_OUTPUT) || ((later ^ cls_text_entry(h, same + n)) & kind) != 0)
            return 0;
        same++;
    }
    return 1;
}

uint32_t cls_text_loops(const cls_host_slot *h, uint32_t entry)
{
    const cls_slot *const s = &h->slot;
    if (!(s->flags & CLS_SLOT_LOOPS) || !(entry & CLS_ENTRY_OUTPUT))
        return CLS_ROW_OK;
    const int ends_thinking = (s->flags & CLS_SLOT_LOOPS_THINK) != 0;
    const uint32_t text = s->length + 1,
                   most = ends_thinking && s->thinking < text ? s->thinking : text;
    if (ends_thinking && (due_id(h) >= 0 || thinking_after(h, entry & CLS_ENTRY_ID, 1) == 0))
        return CLS_ROW_OK;
    for (uint32_t n = s->loop_min; n <= s->loop_max && n * s->loop_repeats <= most; n++)
        if (repeats(h, entry, n, s->loop_repeats))
            return (ends_thinking ? CLS_ROW_OK : CLS_ROW_STOPPED) | CLS_ROW_LOOP;
    return CLS_ROW_OK;
}

uint32_t cls_text_end(const cls_host_slot *h, uint32_t id)
{
    return cls_text_next(h, id, 1).ends | cls_text_loops(h, id | CLS_ENTRY_OUTPUT);
}
