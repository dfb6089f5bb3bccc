/* SPDX-License-Identifier: MIT */
/* Writes texts of calls: parameters and statuses as statements have them. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

static void add_ids(run_text *t, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        run_add(t, "%s%" PRId32, i > 0 ? "," : "", ids[i]);
}

/* Values of a type, as run_params() reads them. */
static void add_number(run_text *t, const char *field, cli_type type, const char *meta,
                       const void *at)
{
    json_t *const value = cli_to_json(type, at, meta);
    if (type == CLI_FLOAT)
        run_add(t, " %s=%.9g", field, (double)*(const float *)at);
    else if (type == CLI_UINT64)
        run_add(t, " %s=%" PRIu64, field, *(const uint64_t *)at);
    else if (json_is_string(value))
        run_add(t, " %s=%s", field, json_string_value(value));
    else
        run_add(t, " %s=%" JSON_INTEGER_FORMAT, field,
                json_is_boolean(value) ? (json_int_t)json_is_true(value)
                                       : json_integer_value(value));
    json_decref(value);
}

static void add_list_ids(run_text *t, const cls_ids *list) { add_ids(t, list->ids, list->count); }
static void add_list_biases(run_text *t, const cls_biases *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        run_add(t, "%s%" PRId32 ":%.9g", i > 0 ? "," : "", list->biases[i].id,
                (double)list->biases[i].bias);
}
static void add_list_sequences(run_text *t, const cls_sequences *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        run_add(t, "%s", i > 0 ? "/" : "");
        add_list_ids(t, &list->sequences[i]);
    }
}

/* The parameters outside the thinking, of which at least one is written. */
static void add_phase(run_text *t, const cls_params *second)
{
    run_text words = {NULL, 0};
    run_add_params(&words, second);
    if (words.text == NULL)
        run_add(&words, " temperature=%.9g", (double)second->temperature);
    for (const char *at = words.text; *at != '\0'; at++)
        run_add(t, "%c%s", *at, *at == ' ' ? "post_thinking." : "");
}

void run_add_params(run_text *t, const cls_params *p)
{
    cls_params off;
    cls_params_init(&off);
    if (p->chain != off.chain) {
        json_t *const chain = cli_chain_json(p);
        if (json_is_string(chain))
            run_add(t, " chain=%s", json_string_value(chain));
        for (size_t i = 0; i < json_array_size(chain); i++)
            run_add(t, "%s%s", i == 0 ? " chain=" : ",",
                    json_string_value(json_array_get(chain, i)));
        json_decref(chain);
    }
#define ADD_NUMBER(p, id, type, field, stage, phase, initial, least, most, range, option, meta, \
                   help) \
    if (memcmp(&(p)->field, &off.field, sizeof off.field) != 0) \
        add_number(t, #field, CLI_##type, meta, &(p)->field);
    CLS_PARAMS(ADD_NUMBER, p)
    if (p->only_allowed != 0)
        run_add(t, " only_allowed=1");
    if (p->grammar_state != 0)
        run_add(t, " grammar_state=%" PRIu32, p->grammar_state);
#define add_list_id add_list_ids
#define ADD_LIST(p, kind, list, kept, option, meta, key, help) \
    if ((p)->list.count != 0) { \
        run_add(t, " " #list "="); \
        add_list_##kind(t, &(p)->list); \
    }
    CLS_LISTS(ADD_LIST, p)
    if (p->post_thinking != NULL)
        add_phase(t, p->post_thinking);
}

void run_add_status(run_text *t, int32_t status)
{
    char words[CLI_STATUS_WORDS];
    if (status == 0)
        return;
    run_add(t, " ");
    for (const char *at = cli_status_words(status, "|", words); *at != '\0'; at++)
        run_add(t, "%c", *at == ' ' ? '_' : toupper((unsigned char)*at));
}
