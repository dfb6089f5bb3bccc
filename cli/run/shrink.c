/* SPDX-License-Identifier: MIT */
/* Makes a text that differs shorter. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "run/script.h"

/* Whether a script still fails; side NULL: by a test's judge. */
static bool fails(run_side *host, run_side *side, const run_script *script, run_difference *d)
{
    jmp_buf escape;
    run_escape = &escape;
    if (setjmp(escape) != 0) { /* what was left out is needed */
        run_abandon(host);
        if (side != NULL)
            run_abandon(side);
        run_escape = NULL;
        return false;
    }
    run_script_on(host, script);
    if (side != NULL) {
        side->reference = host;
        run_script_on(side, script);
    }
    run_escape = NULL;
    return side == NULL ? run_is_faulty(host, d) : run_sides_differ(host, side, d);
}

/* Lets steps that name no slots sample one slot alone, so that the other requests can go. */
static void shrink_rows(run_side *host, run_side *side, run_script *script, run_difference *d)
{
    char slot[16];
    run_statement *const all = cli_alloc(script->count, sizeof *all);
    const run_script less = {.path = script->path, .statement = all, .count = script->count};
    uint32_t slots = 0;
    memcpy(all, script->statement, script->count * sizeof *all);
    for (uint32_t i = 0; i < script->count; i++) {
        run_statement *const s = &all[i];
        if (strcmp(s->verb, "sampler") == 0)
            slots = run_count(s, "slots", 1);
        if (strcmp(s->verb, "step") != 0 || run_find(s, "") != NULL || run_find(s, "slots") != NULL)
            continue;
        s->word = cli_alloc(s->words + (size_t)1, sizeof *s->word);
        memcpy(s->word, script->statement[i].word, s->words * sizeof *s->word);
        s->word[s->words++] = (run_word){"slots", slot};
    }
    for (uint32_t k = 0; k < slots && k < 64; k++) {
        const void *const memory = cli_memory();
        run_difference other;
        snprintf(slot, sizeof slot, "%" PRIu32, k);
        const bool found = fails(host, side, &less, &other);
        cli_memory_end(memory);
        if (!found)
            continue;
        char *const kept = cli_alloc(sizeof slot, 1);
        memcpy(kept, slot, sizeof slot);
        for (uint32_t i = 0; i < script->count; i++)
            for (uint32_t w = 0; w < all[i].words; w++)
                if (all[i].word[w].value == slot)
                    all[i].word[w].value = kept;
        memcpy(script->statement, all, script->count * sizeof *all);
        *d = other;
        return;
    }
}

void run_shrink(run_side *host, run_side *side, run_script *script, uint32_t seconds,
                run_difference *d)
{
    const time_t until = time(NULL) + (time_t)seconds;
    run_statement *const kept = cli_alloc(script->count, sizeof *kept);
    uint32_t tries = 0;
    shrink_rows(host, side, script, d);
    for (uint32_t part = script->count / 2; part >= 1 && tries < 400 && time(NULL) <= until;
         part /= 2)
        for (uint32_t from = 1; from < script->count && tries < 400 && time(NULL) <= until;) {
            const uint32_t n = part < script->count - from ? part : script->count - from;
            const run_script less = {
                .path = script->path, .statement = kept, .count = script->count - n};
            const void *const memory = cli_memory();
            run_difference other;
            memcpy(kept, script->statement, from * sizeof *kept);
            memcpy(kept + from, script->statement + from + n,
                   (script->count - from - n) * sizeof *kept);
            tries++;
            if (fails(host, side, &less, &other)) {
                *d = other;
                memcpy(script->statement, kept, less.count * sizeof *kept);
                script->count = less.count;
            } else {
                from += n;
            }
            cli_memory_end(memory);
        }
    for (uint32_t i = 0; i < script->count; i++)
        for (uint32_t w = script->statement[i].words;
             w-- > 0 && tries < 1000 && time(NULL) <= until; tries++) {
            run_statement *const s = &script->statement[i];
            const run_word word = s->word[w];
            const void *const memory = cli_memory();
            run_difference other;
            if (*word.key == '\0' || strcmp(s->verb, "sampler") == 0 ||
                strcmp(word.key, "slots") == 0 || strcmp(word.key, "from") == 0 ||
                strcmp(word.key, "drafts") == 0 || strcmp(word.key, "tokens") == 0)
                continue;
            memmove(s->word + w, s->word + w + 1, (s->words - w - 1) * sizeof *s->word);
            s->words--;
            if (fails(host, side, script, &other)) {
                *d = other;
            } else {
                memmove(s->word + w + 1, s->word + w, (s->words - w) * sizeof *s->word);
                s->word[w] = word;
                s->words++;
            }
            cli_memory_end(memory);
        }
}

void run_add_script(const run_side *host, const run_script *script, const run_difference *d,
                    run_text *t)
{
    for (uint32_t i = 0; i < script->count; i++) {
        const run_statement *const s = &script->statement[i];
        run_add(t, "  %s%s", i == d->statement ? "> " : "  ", s->verb);
        for (uint32_t w = 0; w < s->words; w++)
            run_add(t, " %s%s%s", s->word[w].key, *s->word[w].key != '\0' ? "=" : "",
                    s->word[w].value);
        run_add(t, "%s\n", run_record_of(host, i, "refusal") != NULL ? " -> refused" : "");
    }
}
