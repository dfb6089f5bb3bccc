/* SPDX-License-Identifier: MIT */
/* Makes texts of random calls. They are made from the sampler's options and a seed alone, so that a
 * text can be run on every side, and made shorter where one differs. */
#include <inttypes.h>
#include <string.h>

#include "run/calls.h"
#include "run/random.h"
#include "run/script.h"

enum { MOST_BYTES = 1 << 28 }; /* of a text */

/* What the lists of a random statement name. */
#define FEATURES \
    "verify|accept|draft|logprobs|params|append|turn|force|fork|rollback|reset|save|grammar|" \
    "infill|mask|bias|softcap|outputs|edges|defer|step"
#define NUMBER_WORD(p, id, type, field, stage, phase, initial, least, most, range, option, meta, \
                    help) \
#field "|"
#define LIST_WORD(p, kind, list, kept, option, meta, key, help) #list "|"
#define OFTEN CLS_PARAMS(NUMBER_WORD, ) CLS_LISTS(LIST_WORD, ) "post_thinking|mask|outputs"

/* Refuses what no text of calls can be made for: it is made before the library sees the sampler. */
static void check_sampler(const run_statement *s, const cls_sampler_options *o)
{
    const struct {
        const char *name;
        uint32_t value, least, most;
    } limits[] = {{"vocab", o->vocab, 1, 1 << 20},
                  {"slots", o->slot_count, 1, 1 << 24},
                  {"rows", o->max_rows, 1, 65535},
                  {"max_history", o->max_history, 0, 1 << 20},
                  {"max_rollback", o->max_rollback, 0, 1 << 14}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value < limits[i].least || limits[i].value > limits[i].most)
            run_die(s,
                    "the sampler has %s=%" PRIu32 "; for random calls it must be %" PRIu32
                    " to %" PRIu32,
                    limits[i].name, limits[i].value, limits[i].least, limits[i].most);
}

/* The text of a random statement: one statement a line, of so many calls at most. `sampler` is the
 * latest statement of one before it. */
static char *make_text(const run_statement *s, const run_statement *sampler, uint32_t add_to_seed,
                       uint32_t most_calls)
{
    run_maker *const m = cli_alloc(1, sizeof *m);
    const uint32_t calls = run_count(s, "calls", 100);
    const cls_sampler_options o = run_sampler_options(sampler, 0);
    run_check_keys(s, "calls seed features without often texts bits", NULL);
    check_sampler(s, &o);
    m->s = s;
    m->r.state = (run_number(s, "seed", 1) + add_to_seed) * 7919 + 17;
    m->features = run_find(s, "features");
    m->without = run_find(s, "without");
    m->often = run_find(s, "often");
    run_check_words(s, "features", FEATURES);
    run_check_words(s, "without", FEATURES);
    run_check_words(s, "often", OFTEN);
    m->texts = run_count(s, "texts", 0);
    m->bits = run_number(s, "bits", 0) != 0;
    m->has_halves = o.dtypes == 7;
    m->vocab = o.vocab;
    m->slots = run_least(o.slot_count, RUN_MOST_OF_CALL);
    m->rows = run_least(o.max_rows, RUN_MOST_OF_CALL);
    m->history = o.max_history;
    m->rollback = o.max_rollback;
    m->counts = (uint32_t)o.counts;
    if (calls > 1000000)
        run_die(s, "calls=%" PRIu32 " exceeds 1000000", calls);
    if (run_makes(m, "grammar") && m->vocab > 1)
        for (; m->grammars < 3; m->grammars++)
            run_add(&m->text, "grammar g%" PRIu32 " seed=%" PRIu32 " states=%" PRIu32 "\n",
                    m->grammars, run_below(m, 1000), 1 + run_below(m, m->grammars == 2 ? 40 : 6));
    if (run_makes(m, "infill") && (run_is_in(m->often, "infill") || run_below(m, 3) == 0)) {
        run_add(&m->text, "infill end=0 seed=%" PRIu32 "\n", run_below(m, 100));
        m->has_infill = true;
    }
    for (uint32_t i = 0; i < m->slots && i < 4; i++) {
        run_make_begin(m);
        run_add(&m->text, "\n");
    }
    for (uint32_t i = 0; i < calls && i < most_calls; i++) {
        run_make_call(m);
        if (m->text.length > MOST_BYTES)
            run_die(s, "the text of %" PRIu32 " random calls is larger than %d bytes", calls,
                    (int)MOST_BYTES);
    }
    if (run_makes(m, "save")) /* what is left in the slots */
        run_add(&m->text, "save 0-%" PRIu32 " as=saved\n", m->slots - 1);
    return m->text.text;
}

run_script run_expand(const run_script *script, uint32_t add_to_seed, uint32_t most_calls)
{
    run_script all = {.path = script->path};
    const run_statement *sampler = NULL;
    for (uint32_t i = 0; i < script->count; i++) {
        const run_statement *const s = &script->statement[i];
        run_script part = {.statement = &script->statement[i], .count = 1};
        if (strcmp(s->verb, "sampler") == 0)
            sampler = s;
        if (strcmp(s->verb, "random") == 0) {
            if (sampler == NULL)
                run_die(s, "there is no sampler yet");
            part = run_parse(script->path, make_text(s, sampler, add_to_seed, most_calls));
            for (uint32_t k = 0; k < part.count; k++) {
                part.statement[k].line = s->line;
                part.statement[k].is_random = true;
            }
        }
        all.statement = cli_grow(all.statement, (size_t)all.count + part.count, sizeof *s);
        memcpy(all.statement + all.count, part.statement, part.count * sizeof *s);
        all.count += part.count;
    }
    return all;
}
