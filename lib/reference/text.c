/* SPDX-License-Identifier: MIT */
/* The reference of what follows from the end of a request's text: the ids that it must emit, by its
 * thinking budget or because the caller forces them, the state of its grammar, and whether its
 * output ends in a loop. */
#include "reference/reference.h"

int cls_text_ends_with(const cls_scratch *w, uint32_t n, const int32_t *ids, uint32_t count)
{
    uint32_t same = 0;
    while (count <= n && same < count && w->text[n - count + same] == (uint32_t)ids[same])
        same++;
    return same == count;
}

/* What a text leaves: whether the request thinks, how many output tokens of the thinking count, and
 * how many ids of thinking_forced the output has; and the state of its grammar. */
typedef struct text_state {
    int thinks;
    uint32_t count, emitted, grammar;
} text_state;

/* Follows the thinking through token i of the text. */
static void think(const cls_scratch *w, uint32_t i, int is_output, text_state *t)
{
    const cls_params *const p = &w->params;
    const int is_due = t->thinks && p->thinking_forced.count != 0 && t->count >= p->thinking_budget;
    if (!t->thinks) { /* the output of a request with a grammar begins no thinking */
        t->thinks = p->thinking_start.count != 0 && !(is_output && p->grammar != NULL) &&
                    cls_text_ends_with(w, i + 1, p->thinking_start.ids, p->thinking_start.count);
    } else if (is_due && is_output && w->text[i] == (uint32_t)p->thinking_forced.ids[t->emitted]) {
        t->emitted++;
        t->thinks = t->emitted < p->thinking_forced.count;
    } else if (p->thinking_end.count != 0 &&
               cls_text_ends_with(w, i + 1, p->thinking_end.ids, p->thinking_end.count)) {
        t->thinks = 0;
    } else if (!is_due && is_output) {
        t->count++;
    }
    if (!t->thinks)
        t->count = t->emitted = 0;
}

int cls_scratch_leaves_ends(const cls_scratch *w, uint32_t state)
{
    const cls_ids *const allowed = &w->params.allowed_ids;
    const int some = cls_params_allow_some(&w->params);
    int any = 0;
    for (uint32_t i = 0; i < (some ? allowed->count : w->vocab); i++) {
        const uint32_t id = some ? (uint32_t)allowed->ids[i] : i,
                       next = grammar_next(w->params.grammar->words, state, id);
        if (next != CLS_GRAMMAR_DEAD && next != CLS_GRAMMAR_ENDED && !w->is_stop[id])
            return 0;
        any |= next != CLS_GRAMMAR_DEAD;
    }
    return any;
}

/* Returns the state of the grammar after an id, output token number `outputs`. Where only ends are
 * left, a stop id ends it before min_tokens. */
static uint32_t grammar_after(const cls_scratch *w, uint32_t state, uint32_t id, uint32_t outputs)
{
    const uint32_t next = grammar_next(w->params.grammar->words, state, id);
    return next != CLS_GRAMMAR_DEAD && outputs < w->slot.min_tokens && w->is_stop[id] &&
                   cls_scratch_leaves_ends(w, state)
               ? CLS_GRAMMAR_ENDED
               : next;
}

static text_state state_of_text(const cls_scratch *w)
{
    const cls_params *const p = &w->params;
    const uint32_t prompt = w->length - w->outputs;
    const int follows = (w->slot.flags & CLS_SLOT_THINKING) != 0;
    text_state t = {follows && p->thinking_start.count == 0, 0, 0, p->grammar_state};
    for (uint32_t i = 0; i < w->length && (follows || p->grammar != NULL); i++) {
        if (p->grammar != NULL && i >= prompt && !t.thinks)
            t.grammar = grammar_after(w, t.grammar, w->text[i], i - prompt + 1);
        if (follows)
            think(w, i, i >= prompt, &t);
    }
    return t;
}

int cls_scratch_relaxes(const cls_scratch *w)
{
    return w->params.relaxed_top_k != 0 && state_of_text(w).thinks;
}

int32_t cls_scratch_forced(const cls_scratch *w, uint32_t at)
{
    const cls_ids *const forced = &w->params.thinking_forced;
    if (at < w->row.forced_count)
        return w->row.forced_ids[at];
    if (forced->count == 0)
        return -1;
    const text_state t = state_of_text(w);
    return t.thinks && t.count >= w->params.thinking_budget ? forced->ids[t.emitted] : -1;
}

/* ------------------------------------------------------------------------ grammar */

int cls_scratch_grammar(const cls_scratch *w, uint32_t *state)
{
    if (w->params.grammar == NULL)
        return 0;
    const text_state t = state_of_text(w);
    *state = t.grammar;
    return !t.thinks;
}

uint32_t cls_scratch_after(const cls_scratch *w, uint32_t id)
{
    uint32_t state;
    return cls_scratch_grammar(w, &state) ? grammar_after(w, state, id, w->outputs + 1) : 0;
}

uint32_t cls_scratch_ends(const cls_scratch *w, uint32_t id)
{
    return cls_scratch_after(w, id) == CLS_GRAMMAR_ENDED ? CLS_ROW_STOPPED : 0;
}

int cls_scratch_ended(const cls_scratch *w)
{
    return w->params.grammar != NULL && state_of_text(w).grammar == CLS_GRAMMAR_ENDED;
}

/* -------------------------------------------------------------------------- loops */

uint32_t cls_scratch_loops(const cls_scratch *w, uint32_t length, uint32_t outputs, uint32_t id)
{
    const cls_params *const p = &w->params;
    for (uint32_t n = p->loop_min; p->loop_repeats != 0 && n <= p->loop_max; n++) {
        const uint64_t all = (uint64_t)n * p->loop_repeats;
        uint32_t same = 0; /* tokens before the end that equal those n tokens earlier */
        if (all > (uint64_t)outputs + 1)
            break;
        while (same < all - n &&
               w->text[length - same - n] == (same == 0 ? id : w->text[length - same]))
            same++;
        if (same == all - n)
            return CLS_ROW_STOPPED | CLS_ROW_LOOP;
    }
    return 0;
}
