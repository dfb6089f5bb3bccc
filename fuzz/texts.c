/* SPDX-License-Identifier: MIT */
/* Target: the texts of clsample run (cli/run/text.c and what it reads words for). A text is refused
 * by a sentence, or its calls are made on the host. Files and large samplers are left out, since
 * they take long or depend on more than the input; but nothing that is refused may take memory. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "run/script.h"

enum { MOST_BYTES = 4096 };

/* The counts that take long, up to `most`, which is what a sampler or a text may have. What is more
 * must be refused. */
static const struct count {
    const char *verb, *key;
    unsigned long long small, most;
} counts[] = {{"sampler", "vocab", 4096, 1 << 20},
              {"sampler", "slots", 32, 1 << 24},
              {"sampler", "slot_count", 32, 1 << 24},
              {"sampler", "rows", 32, 65535},
              {"sampler", "max_rows", 32, 65535},
              {"sampler", "max_history", 4096, 1 << 20},
              {"sampler", "max_rollback", 4096, 1 << 14},
              {"grammar", "states", 64, 1 << 28},
              {"random", "calls", 16, 1000000}};

/* A word that is no number is refused later. */
static bool is_taken(const run_script *script)
{
    for (uint32_t i = 0; i < script->count; i++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            const struct count *const c = &counts[k];
            const run_statement *const s = &script->statement[i];
            const char *const value = strcmp(s->verb, c->verb) == 0 ? run_find(s, c->key) : NULL;
            const unsigned long long n = value != NULL ? strtoull(value, NULL, 0) : 0;
            if (n > c->small && n <= c->most)
                return false;
        }
    return true;
}

/* Lets the process have 1 GiB, so that a size is not only refused because there is no memory for
 * it. Sanitizers reserve more; libFuzzer has limits of its own. */
static void limit_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    const struct rlimit limit = {1 << 30, RLIM_INFINITY};
    demand(setrlimit(RLIMIT_AS, &limit) == 0, "the memory cannot be limited");
#endif
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
            limit_memory();
        }
        run_script script = run_parse("input", text);
        if (is_taken(&script)) {
            script = run_expand(&script, 0, UINT32_MAX);
            run_script_on(&host, &script);
            for (uint32_t i = 0; i < host.records; i++) {
                int32_t status = CLS_OK;
                if (strcmp(host.record[i].name, "returned") == 0)
                    memcpy(&status, host.record[i].bytes, sizeof status);
                demand(status != CLS_OUT_OF_MEMORY, "a call got no memory");
            }
        }
    } else {
        const char *const message = take_message();
        demand(*message != '\0', "refused without a message");
        demand(strncmp(message, "out of memory", 13) != 0, "%s", message);
        run_abandon(&host);
    }
    cli_memory_end(NULL);
    return 0;
}
