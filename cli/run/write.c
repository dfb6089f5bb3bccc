/* SPDX-License-Identifier: MIT */
/* Writes texts of calls: parameters and statuses as statements have them. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "private.h"
#include "run/text.h"

void run_add(run_text *t, const char *format, ...)
{
    va_list more, again;
    va_start(more, format);
    va_copy(again, more);
    const int n = vsnprintf(NULL, 0, format, more);
    va_end(more);
    t->text = cli_grow(t->text, t->length + (size_t)n + 1, 1);
    vsnprintf(t->text + t->length, (size_t)n + 1, format, again);
    va_end(again);
    t->length += (size_t)n;
}

static void add_bytes(void *to, const char *bytes, size_t n) { run_add(to, "%.*s", (int)n, bytes); }

void run_add_params(run_text *t, const cls_params *p) { cls_params_words(p, add_bytes, t); }

void run_add_status(run_text *t, int32_t status)
{
    char words[CLI_STATUS_WORDS];
    if (status == 0)
        return;
    run_add(t, " ");
    for (const char *at = cli_status_words(status, "|", words); *at != '\0'; at++)
        run_add(t, "%c", *at == ' ' ? '_' : toupper((unsigned char)*at));
}
