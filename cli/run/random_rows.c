/* SPDX-License-Identifier: MIT */
/* What random calls read and write: slots, texts, maps, logits, masks, biases, outputs. */
#include <inttypes.h>
#include <string.h>

#include "run/random.h"

uint32_t run_a_slot(run_maker *m) { return run_below(m, m->slots); }

uint32_t run_a_begun_slot(run_maker *m)
{
    for (uint32_t tries = 0; tries < 8; tries++) {
        const uint32_t slot = run_a_slot(m);
        if (m->begun[slot])
            return slot;
    }
    return run_a_slot(m);
}

static int32_t a_token(run_maker *m, uint32_t words)
{
    if (run_below(m, 30) == 0)
        return run_below(m, 2) ? -1 : (int32_t)m->vocab;
    return (int32_t)run_below(m, words < m->vocab ? words : m->vocab);
}

void run_make_words(run_maker *m, const char *key, uint32_t most)
{
    const uint32_t words = run_below(m, 2) ? 4 : m->vocab, period = 1 + run_below(m, 6),
                   repeats = run_below(m, 2);
    int32_t before[8] = {0};
    uint32_t n = run_below(m, most + 1);
    if (m->texts != 0 && n != 0 && run_below(m, 2)) {
        run_add(&m->text, " %s=random:%" PRIu32 ":%" PRIu32 ":%" PRIu32, key, run_below(m, 100000),
                1 + run_below(m, m->texts), words);
        return;
    }
    if (n == 0)
        return;
    run_add(&m->text, " %s=", key);
    for (uint32_t i = 0; i < n; i++) {
        int32_t *const word = &before[i % period];
        *word = i < period || !repeats || run_below(m, 12) == 0 ? a_token(m, words) : *word;
        run_add(&m->text, "%s%" PRId32, i > 0 ? "," : "", *word);
    }
}

uint32_t run_make_slots(run_maker *m, uint32_t most, bool shared)
{
    uint32_t listed[RUN_MOST_OF_CALL], n = 0;
    const uint32_t want = 1 + run_below(m, most < 5 ? most : run_below(m, 4) ? 4 : most);
    for (uint32_t tries = 0; n < want && tries < 4 * want; tries++) {
        const uint32_t slot = run_a_begun_slot(m);
        bool twice = !m->begun[slot];
        for (uint32_t i = 0; i < n; i++)
            twice |= listed[i] == slot && !shared;
        if (!twice && n < RUN_MOST_OF_CALL)
            listed[n++] = slot;
    }
    run_add(&m->text, " slots=%s", run_below(m, 3) ? "" : "@");
    for (uint32_t i = 0; i < n; i++)
        run_add(&m->text, "%s%" PRId32, i > 0 ? "," : "",
                run_below(m, 25) ? (int32_t)listed[i] : -1);
    if (n == 0)
        run_add(&m->text, "-1");
    return n != 0 ? n : 1;
}

void run_make_map(run_maker *m, const char *key, uint32_t rows, uint32_t of)
{
    const bool on_device = run_below(m, 2);
    run_add(&m->text, " %s=%s", key, on_device ? "@" : "");
    for (uint32_t i = 0; i < rows; i++)
        run_add(&m->text, "%s%" PRId32, i > 0 ? "," : "",
                run_below(m, 8) == 0
                    ? -1
                    : (int32_t)run_below(m, of + (on_device && run_below(m, 9) == 0)));
}

void run_make_logits(run_maker *m)
{
    static const char *const types[] = {"f16", "bf16"}, *const caps[] = {"0.5", "3", "20", "30"};
    run_add(&m->text, " logits=random:%" PRIu32, run_below(m, 1000000));
    if (m->has_halves && run_below(m, 4) == 0)
        run_add(&m->text, " dtype=%s", types[run_below(m, 2)]);
    if (run_makes(m, "softcap") && run_below(m, 4) == 0)
        run_add(&m->text, " softcap=%s", caps[run_below(m, 4)]);
}

void run_make_inputs(run_maker *m, uint32_t rows)
{
    run_make_logits(m);
    if (run_makes(m, "mask") && run_below(m, run_is_in(m->often, "mask") ? 2 : 5) == 0) {
        run_add(&m->text, " mask=random:%" PRIu32 ":%d", run_below(m, 100000),
                run_below(m, 3)   ? 90
                : run_below(m, 2) ? 30
                                  : 2);
        if (run_below(m, 3) == 0)
            run_add(&m->text, " mask_kind=bool mask_width=%" PRIu32,
                    run_below(m, 2) ? m->vocab : 1 + run_below(m, m->vocab));
        else if (run_below(m, 4) == 0 && m->vocab > 32)
            run_add(&m->text, " mask_width=%" PRIu32, 1 + run_below(m, m->vocab / 32));
        if (run_below(m, 3) == 0)
            run_make_map(m, "mask_map", rows, rows);
        if (run_below(m, 3) == 0)
            run_add(&m->text, " mask_host=1");
    }
    if (run_makes(m, "bias") && run_below(m, 6) == 0) {
        run_add(&m->text, " bias=random:%" PRIu32, run_below(m, 100000));
        if (run_below(m, 3) == 0)
            run_add(&m->text, " bias_dtype=%s", run_below(m, 2) ? "f16" : "bf16");
        if (run_below(m, 3) == 0)
            run_make_map(m, "bias_map", rows, rows);
        if (run_below(m, 2))
            run_add(&m->text, " bias_factor=%s", run_below(m, 2) ? "-0.5" : "3");
    }
}

void run_make_outputs(run_maker *m, bool verifies, bool shared)
{
    const char *before = " outputs=";
    if (!run_makes(m, "outputs") || (run_below(m, 3) && !run_is_in(m->often, "outputs")))
        return;
    if (run_below(m, 2)) {
        run_add(&m->text, "%sfinal", before);
        before = ",";
    }
    static const char *const names[] = {"logprobs", "ranks",        "top",     "given",
                                        "probs",    "final_logits", "entropy", "kept_mass",
                                        "kept",     "counts",       "set",     "latest"};
    static const uint32_t counts[] = {0, 0, 7, 5, 0, 0, 0, 0, 9, 0, 20, 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (run_below(m, 3) || (verifies && (i == 4 || i == 5)) ||
            ((verifies || shared) && i == 11))
            continue;
        run_add(&m->text, "%s%s", before, names[i]);
        before = ",";
        const uint32_t most = i == 10 && run_below(m, 2) ? m->vocab : counts[i];
        if (counts[i] != 0)
            run_add(&m->text, ":%" PRIu32, 1 + run_below(m, most < m->vocab ? most : m->vocab));
    }
    if (run_below(m, 8) == 0 && strcmp(before, ",") != 0)
        run_add(&m->text, "%spacked:%" PRIu32, before,
                1 + run_below(m, m->vocab * (1 + run_below(m, 4))));
    else if (strcmp(before, ",") != 0)
        run_add(&m->text, "%slogprobs", before);
}
