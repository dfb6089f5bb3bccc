/* SPDX-License-Identifier: MIT */
/* Random automata. */
#include "automaton.h"

void automaton_finish(automaton *a)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < a->states; s++) {
        for (uint32_t id = 0; id < a->vocab; id++) {
            if (a->to[s][id] >= a->states)
                continue;
            a->ids[n] = (int32_t)id;
            a->next[n++] = a->to[s][id];
        }
        a->offsets[s + 1] = n;
    }
    cls_grammar_options_init(&a->o);
    a->o.vocab = a->vocab;
    a->o.states = a->states;
    a->o.offsets = a->offsets;
    a->o.ids = a->ids;
    a->o.next = a->next;
    a->o.final_states = a->final_states;
    a->o.end_ids = (cls_ids){a->end_ids, a->end_ids[0] >= 0 ? 2 : 0};
    a->o.draft_ids = a->drafts ? a->draft_ids : NULL;
}

void automaton_draw(automaton *a, uint32_t vocab, rng *r)
{
    memset(a, 0, sizeof *a);
    a->vocab = vocab;
    a->states = 1 + rng_below(r, MOST_STATES);
    for (int i = 0; i < 2; i++)
        a->end_ids[i] = (int32_t)rng_below(r, a->vocab);
    for (uint32_t s = 0; s < a->states; s++) {
        const uint32_t kind = rng_below(r, 3), parts = 1 + rng_below(r, 7);
        a->final_states[s] = (uint8_t)(rng_below(r, 2));
        for (uint32_t id = 0; id < a->vocab; id++) {
            const uint32_t part = id * parts / a->vocab;
            const int allowed = kind == 0   ? rng_below(r, 40) == 0
                                : kind == 1 ? rng_below(r, 20) != 0
                                            : part % 2 == s % 2;
            const int ends = (int32_t)id == a->end_ids[0] || (int32_t)id == a->end_ids[1];
            a->to[s][id] = CLS_GRAMMAR_DEAD;
            if (allowed && !ends)
                a->to[s][id] = (kind == 1 ? rng_below(r, 2) : part) % a->states;
        }
    }
    automaton_finish(a);
    for (uint32_t s = 0; s < a->states; s++)
        if (a->offsets[s] == a->offsets[s + 1])
            a->final_states[s] = 1;
    a->drafts = rng_below(r, 3) != 0;
    for (uint32_t s = 0; s < a->states; s++) {
        const uint32_t n = (uint32_t)(a->offsets[s + 1] - a->offsets[s]), i = rng_below(r, n + 2);
        a->draft_ids[s] = i < n                          ? a->ids[a->offsets[s] + i]
                          : i == n && a->final_states[s] ? a->end_ids[rng_below(r, 2)]
                                                         : -1;
    }
    a->o.draft_ids = a->drafts ? a->draft_ids : NULL;
}

int32_t automaton_draft(const automaton *a, uint32_t state)
{
    int32_t only = -1;
    uint32_t n = 0;
    for (uint32_t id = 0; id < a->vocab && state < a->states; id++)
        if (automaton_after(a, state, (int32_t)id) != CLS_GRAMMAR_DEAD) {
            only = (int32_t)id;
            n++;
        }
    return n == 1 ? only : a->drafts && state < a->states ? a->draft_ids[state] : -1;
}

uint32_t automaton_after(const automaton *a, uint32_t state, int32_t id)
{
    if (state >= a->states)
        return CLS_GRAMMAR_DEAD;
    if (id == a->end_ids[0] || id == a->end_ids[1])
        return a->final_states[state] ? CLS_GRAMMAR_ENDED : CLS_GRAMMAR_DEAD;
    return a->to[state][id];
}

cls_grammar *automaton_grammar(const automaton *a)
{
    cls_grammar *g;
    must(cls_grammar_create(&a->o, &g));
    return g;
}
