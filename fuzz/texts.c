/* SPDX-License-Identifier: MIT */
/* Target: the texts of clsample run (cli/run_text.c and what it reads words for). A text is refused
 * by a sentence, or its calls are made on the host. Files, random statements and large samplers are
 * left out, since they take long or depend on more than the input. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "cli/run.h"

enum { MOST_BYTES = 4096, MOST_VOCAB = 4096, MOST_SLOTS = 32, MOST_HISTORY = 4096 };

/* Whether the size that a statement gives is small. A word that is no number is refused later. */
static bool is_small(const run_statement *s, const char *key, unsigned long most)
{
    const char *const value = run_find(s, key);
    return value == NULL || strtoul(value, NULL, 0) <= most;
}

static bool is_taken(const run_script *script)
{
    for (uint32_t i = 0; i < script->count; i++) {
        const run_statement *const s = &script->statement[i];
        if (strcmp(s->verb, "random") == 0)
            return false;
        if (strcmp(s->verb, "sampler") == 0 &&
            !(is_small(s, "vocab", MOST_VOCAB) && is_small(s, "slots", MOST_SLOTS) &&
              is_small(s, "rows", MOST_SLOTS) && is_small(s, "max_history", MOST_HISTORY) &&
              is_small(s, "max_rollback", MOST_HISTORY)))
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static run_side host = {.name = "host", .on_host = true};
    char text[MOST_BYTES + 1];
    if (size > MOST_BYTES)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (strlen(text) != size || strstr(text, "file:") != NULL)
        return 0;
    cli_memory_begin();
    take_message();
    if (setjmp(refusal) == 0) {
        if (host.target.context == NULL) {
            cls_context_options_init(&host.options);
            host.options.dtypes = 1u << CLS_F32 | 1u << CLS_F16 | 1u << CLS_BF16;
            run_open(&host, NULL, NULL);
        }
        const run_script script = run_parse("input", text);
        if (is_taken(&script)) {
            run_script_on(&host, &script);
            run_end(&host);
        }
    } else {
        demand(*take_message() != '\0', "refused without a message");
        run_abandon(&host);
    }
    cli_memory_end(NULL);
    return 0;
}
