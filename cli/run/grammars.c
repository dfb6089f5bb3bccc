/* SPDX-License-Identifier: MIT */
/* Grammars of words: by their transitions, or random ones. */
#include <inttypes.h>
#include <stdio.h>

#include "run/data.h"

/* Creates a grammar; a refusal ends the command. */
static cls_grammar *create(const run_statement *s, const cls_grammar_options *o)
{
    cls_grammar *grammar;
    const char *const fault = cli_grammar_fault(o, "final", "end", "drafts");
    if (fault != NULL)
        run_die(s, "%s", fault);
    if (cls_grammar_create(o, &grammar) != CLS_OK)
        run_die(s, "%s", cls_error_message());
    return grammar;
}

cls_grammar *run_listed_grammar(const run_statement *s, uint32_t vocab)
{
    cls_grammar_options o;
    const char *at = run_value(s, "of");
    uint64_t *offsets = NULL;
    int32_t *ids = NULL;
    uint32_t *next = NULL, n = 0, states = 0, finals, drafts;
    for (bool more = true; more; states++) {
        offsets = cli_grow(offsets, states + (size_t)2, sizeof *offsets);
        offsets[states] = n;
        while (*at != '/' && *at != '\0') {
            int32_t id, to, length = 0;
            ids = cli_grow(ids, n + (size_t)1, sizeof *ids);
            next = cli_grow(next, n + (size_t)1, sizeof *next);
            if (sscanf(at, "%" SCNd32 ":%" SCNd32 "%n", &id, &to, &length) != 2 || length == 0)
                run_die(s, "of: '%.20s' is no transition, such as 3:1", at);
            ids[n] = id;
            next[n++] = (uint32_t)to;
            at += length + (at[length] == ',');
        }
        offsets[states + 1] = n;
        more = *at == '/';
        at += more;
    }
    uint8_t *const final = cli_alloc(states, 1);
    const int32_t *const listed = run_list(s, "final", &finals);
    for (uint32_t i = 0; i < finals; i++) {
        if (listed[i] < 0 || (uint32_t)listed[i] >= states)
            run_die(s, "final: %" PRId32 " is not a state", listed[i]);
        final[listed[i]] = 1;
    }
    cls_grammar_options_init(&o);
    o.vocab = vocab;
    o.states = states;
    o.offsets = offsets;
    o.ids = ids != NULL ? ids : cli_alloc(1, sizeof *ids);
    o.next = next != NULL ? next : cli_alloc(1, sizeof *next);
    o.final_states = final;
    o.end_ids.ids = run_list(s, "end", &o.end_ids.count);
    o.draft_ids = run_list(s, "drafts", &drafts);
    if (o.draft_ids != NULL && drafts != states)
        run_die(s, "drafts has %" PRIu32 " ids, and of %" PRIu32 " states", drafts, states);
    return create(s, &o);
}

cls_grammar *run_random_grammar(const run_statement *s, uint64_t seed, uint32_t states,
                                uint32_t vocab)
{
    rng r = {seed ^ 0x6772616d};
    cls_grammar_options o;
    const int32_t end = 0;
    if (states < 1 || (uint64_t)states * vocab > RUN_MOST_ELEMENTS)
        run_die(s, "states=%u: a grammar has 1 to %u states here", (unsigned)states,
                (unsigned)(RUN_MOST_ELEMENTS / vocab));
    uint64_t *const offsets = cli_alloc(states + (size_t)1, sizeof *offsets);
    int32_t *const ids = cli_alloc((size_t)states * vocab, sizeof *ids);
    uint32_t *const next = cli_alloc((size_t)states * vocab, sizeof *next);
    uint8_t *const final = cli_alloc(states, 1);
    int32_t *const drafts = cli_alloc(states, sizeof *drafts);
    uint64_t n = 0;
    for (uint32_t state = 0; state < states; state++) {
        const uint32_t dense = rng_below(&r, 3) == 0 ? 2 : 2 + rng_below(&r, 30);
        const uint32_t few = rng_below(&r, 4);
        final[state] = vocab < 2 || rng_below(&r, 3) == 0;
        for (uint32_t id = 1; id < vocab; id++)
            if (rng_below(&r, dense) == 0 || (few == 0 && id == 1 + state % (vocab - 1))) {
                ids[n] = (int32_t)id;
                next[n++] = rng_below(&r, 4) ? rng_below(&r, states) : state;
            }
        offsets[state + 1] = n;
        final[state] |= offsets[state] == n;
    }
    for (uint32_t state = 0; state < states; state++) { /* behind the draws of the automaton */
        const uint32_t count = (uint32_t)(offsets[state + 1] - offsets[state]);
        drafts[state] =
            count != 0 && rng_below(&r, 4) != 0 ? ids[offsets[state] + rng_below(&r, count)] : -1;
    }
    cls_grammar_options_init(&o);
    o.vocab = vocab;
    o.states = states;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final;
    o.end_ids = (cls_ids){&end, 1};
    o.draft_ids = drafts;
    return create(s, &o);
}
