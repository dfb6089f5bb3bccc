/* SPDX-License-Identifier: MIT */
/* Proves that verifications emit forced ids, end at loops and follow grammars: against the
 * reference, and that the text with drafts is the text without. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "automaton.h"
#include "bench.h"
#include "verifier.h"

#define FEATURES \
    (CLS_FEATURE_FORCED | CLS_FEATURE_ACCEPT | CLS_FEATURE_MASK | CLS_FEATURE_LOGPROBS | \
     CLS_FEATURE_PROBS)

/* Random drafts, each with thinking budgets, forced ids and loops, against cls_host_verify(). */
START_TEST(verified)
{
    static const uint32_t sizes[] = {5, 16, 100};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 3};
    uint32_t forced = 0, loops = 0, accepted = 0, relaxed = 0;
    for (uint32_t i = 0; i < fixture_by_size(10, 60, 400); i++) {
        char where[200];
        drafts *of = NULL;
        verifier v;
        do {
            if (of != NULL)
                drafts_free(of);
            of = drafts_random(1 + rng_below(&r, 6), sizes[i % 3], (int)(i % 4), &r);
        } while (!of->requests->forces);
        for (uint32_t k = 0; k < of->n && i % 5 == 4; k++)
            of->requests->params[k].temperature = 0.0f;
        drafts_choose(of, &r);
        verifier_open(&v, d, fixture_context(d, 0, 0, 0, 0), of, (int)rng_below(&r, 2), 0);
        for (uint32_t round = 0; round < 3; round++) {
            snprintf(where, sizeof where, "%s, call %u, round %u", d->name, i, round);
            if (round)
                drafts_choose(of, &r);
            drafts_reference(of);
            verifier_run(&v);
            verifier_equal(&v, where);
            for (uint32_t k = 0; k < of->n; k++) {
                forced += (of->host[k].status & CLS_ROW_FORCED) != 0;
                loops += (of->host[k].status & CLS_ROW_LOOP) != 0;
                accepted += (uint32_t)of->host[k].accepted;
                relaxed += of->requests->params[k].relaxed_top_k != 0 && of->host[k].accepted > 0;
            }
            drafts_accept(of);
        }
        snprintf(where, sizeof where, "%s, call %u, the step after it", d->name, i);
        verifier_step(&v, where);
        verifier_close(&v);
        drafts_free(of);
    }
    printf("%s: verified: %u drafts accepted, %u requests forced, %u relaxed, %u loops\n", d->name,
           accepted, forced, relaxed, loops);
    ck_assert(forced > 5 && accepted > 5 && relaxed > 5);
}
END_TEST

enum { WORDS = 12, DRAFTS = 4, REQUESTS = 4, LENGTH = 40 };

enum { IDS = 8 };

/* Random parameters for texts over a few words, so that thinking and loops occur. */
static void text_params(cls_params *p, rng *r, int32_t *ids)
{
    cls_params_init(p);
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] = (int32_t)rng_below(r, WORDS);
    p->seed = rng_bits(r);
    p->temperature = 0.8f;
    p->presence_penalty = 0.2f;
    p->thinking_start = (cls_ids){ids, rng_below(r, 2)};
    p->thinking_end = (cls_ids){ids + 1, 1};
    p->thinking_forced = (cls_ids){ids + 2, 1 + rng_below(r, 4)};
    p->thinking_budget = rng_below(r, 9);
    p->loop_repeats = 2 + rng_below(r, 2);
    p->loop_min = 2;
    p->loop_max = 5;
    if (p->thinking_start.count == 0)
        p->thinking_start.ids = NULL;
    p->stop_ids = (cls_ids){ids + 6, 2};
    p->min_tokens = rng_below(r, 30);
}

/* Draws a grammar for a text. Its end ids sometimes stop the request or begin the thinking, too. */
static cls_grammar *text_grammar(automaton *a, rng *r, const int32_t *ids)
{
    cls_grammar *g;
    automaton_draw(a, WORDS, r);
    if (rng_below(r, 2) == 0)
        return automaton_grammar(a);
    a->end_ids[0] = ids[0];
    a->end_ids[1] = ids[6];
    for (uint32_t s = 0; s < a->states; s++) {
        uint64_t n = s == 0 ? 0 : a->offsets[s];
        for (uint32_t id = 0; id < WORDS; id++)
            if ((int32_t)id != ids[0] && (int32_t)id != ids[6] && a->to[s][id] < a->states) {
                a->ids[n] = (int32_t)id;
                a->next[n++] = a->to[s][id];
            }
        a->final_states[s] |= (uint8_t)(n == a->offsets[s]);
        a->offsets[s + 1] = n;
    }
    must(cls_grammar_create(&a->o, &g));
    return g;
}

/* The text of a toy model, in which a row of a table follows each token, is the same with drafts as
 * without, and so are the statuses. */
START_TEST(texts_with_drafts)
{
    device *const d = fixture_device(_i);
    static float table[WORDS][WORDS], of_drafts[DRAFTS + 1][WORDS];
    rng r = {fixture_seed() + 4};
    uint32_t emitted = 0, forced = 0, loops = 0, calls = 0, followed = 0;
    automaton *const a = must_malloc(sizeof *a);
    cls_sampler_options o = sampler_options(WORDS, 2);
    o.max_rows = DRAFTS + 1;
    o.max_history = 64;
    o.features = CLS_FEATURE_VERIFY;
    bench b = bench_open(d, &o, NULL);
    b.step.rows = 1;
    for (uint32_t n = 0; n < fixture_by_size(4, 20, 100); n++) {
        static const int32_t one = 1;
        int32_t ids[IDS], callers[3], text[LENGTH + 1], status[LENGTH + 1], last = 0;
        uint32_t length = 0;
        cls_params p;
        const uint32_t nans = rng_below(&r, 3) == 0;
        for (uint32_t i = 0; i < WORDS * WORDS; i++)
            table[i / WORDS][i % WORDS] =
                nans && rng_below(&r, 20) == 0 ? NAN : (float)rng_below(&r, 64) / 16.0f;
        text_params(&p, &r, ids);
        if (rng_below(&r, 2)) {
            p.grammar = text_grammar(a, &r, ids);
        }
        const uint32_t n_callers = rng_below(&r, 4);
        for (uint32_t i = 0; i < 3; i++)
            callers[i] = (int32_t)rng_below(&r, WORDS);
        for (uint32_t slot = 0; slot < 2; slot++) {
            must(cls_slot_begin(b.sampler, slot, &p, NULL, 0, NULL, 0));
            must(cls_slot_force(b.sampler, slot, n_callers ? callers : NULL, n_callers));
        }
        cls_grammar_destroy((cls_grammar *)(uintptr_t)p.grammar);
        for (int stopped = 0; length < LENGTH && !stopped; length++) {
            bench_logits(&b, table[last], 1);
            bench_step(&b);
            if (b.token[0] < 0) /* the grammar and the ids that are due allow none */
                break;
            last = text[length] = b.token[0];
            status[length] = b.status[0];
            stopped = (status[length] & CLS_ROW_STOPPED) != 0;
        }
        last = 0;
        for (uint32_t at = 0; at < length;) {
            const uint32_t tree = rng_below(&r, 2), n_drafts = rng_below(&r, DRAFTS + 1);
            int32_t guess[DRAFTS], parents[DRAFTS], result[DRAFTS + 3], expected = 0;
            uint32_t depth[DRAFTS + 1] = {0};
            const int32_t cu[2] = {0, (int32_t)n_drafts + 1};
            cls_verify_call call;
            memcpy(of_drafts[0], table[last], sizeof of_drafts[0]);
            for (uint32_t k = 0; k < n_drafts; k++) {
                parents[k] = (int32_t)(tree ? rng_below(&r, k + 1) : k) - 1;
                depth[k + 1] = depth[parents[k] + 1] + 1;
                const uint32_t place = at + depth[k + 1] - 1;
                guess[k] = place < length && rng_below(&r, 8) ? text[place]
                                                              : (int32_t)rng_below(&r, WORDS);
                memcpy(of_drafts[k + 1], table[guess[k]], sizeof of_drafts[0]);
            }
            bench_logits(&b, of_drafts[0], DRAFTS + 1);
            cls_verify_call_init(&call);
            call.requests = 1;
            call.row_offsets = cu;
            call.logits = b.step.logits;
            call.slots.host = &one;
            call.draft_ids.host = n_drafts ? guess : NULL;
            call.parents.host = n_drafts && tree ? parents : NULL;
            call.max_drafts = DRAFTS;
            call.disable_bonus = (int32_t)rng_below(&r, 2);
            call.tokens.buffer = call.emitted.buffer = call.status.buffer = b.step.tokens.buffer;
            call.emitted.offset = 4 * (DRAFTS + 1);
            call.status.offset = 4 * (DRAFTS + 2);
            must(cls_verify(b.sampler, d->queue, &call, 0, NULL, NULL));
            buffer_read(d, b.step.tokens.buffer, sizeof result, result);
            for (int32_t i = 0; i < result[DRAFTS + 1]; i++, at++) {
                if (at == LENGTH) /* the text goes on */
                    break;
                ck_assert_msg(at < length && result[i] == text[at],
                              "%s: text %u: token %u is %d with drafts, %d without", d->name, n, at,
                              result[i], at < length ? text[at] : -1);
                expected |= status[at];
                last = result[i];
                emitted++;
            }
            if (b.token[0] < 0 && at == length) /* the row after the text may have been read */
                result[DRAFTS + 2] &= ~CLS_ROW_EMPTY;
            /* So have rows that emit nothing: the bonus, and those behind loops and forced ids. */
            const int32_t ends = expected & (CLS_ROW_STOPPED | CLS_ROW_LOOP | CLS_ROW_FORCED);
            if (ends == 0 ? call.disable_bonus : ends != CLS_ROW_STOPPED)
                result[DRAFTS + 2] &= ~CLS_ROW_NAN | expected;
            ck_assert_msg(at == LENGTH || result[DRAFTS + 2] == expected,
                          "%s: text %u: status %d before token %u with drafts, %d without", d->name,
                          n, result[DRAFTS + 2], at, expected);
            forced += (expected & CLS_ROW_FORCED) != 0;
            loops += (expected & CLS_ROW_LOOP) != 0;
            calls++;
        }
        followed += p.grammar != NULL ? length : 0;
    }
    free(a);
    printf("%s: texts: %u tokens in %u calls, %u of grammars, %u with forced ids, %u loops\n",
           d->name, emitted, calls, followed, forced, loops);
    ck_assert(emitted > calls && forced > 0 && followed > 0);
    ck_assert(fixture_by_size(0, 1, 1) == 0 || loops > 0);
    bench_close(&b);
}
END_TEST

int main(void)
{
    fixture_random(FEATURES);
    fixture_begin(ON_DEVICES);
    add_device_test(verified);
    add_device_test(texts_with_drafts);
    return fixture_end();
}
