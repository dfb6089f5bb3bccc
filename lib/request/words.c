/* SPDX-License-Identifier: MIT */
/* Parameters as words of a text of calls, by the tables of parameters. */
#include "request/request.h"

#include <inttypes.h>
#include <stdio.h>

/* Where the words go. */
typedef struct param_words {
    void (*add)(void *to, const char *bytes, size_t n);
    void *to;
    const char *phase; /* what begins the names */
} param_words;

/* Adds a part, which has less than 128 characters. */
#define ADD_WORD(w, ...) \
    do { \
        char part_[128]; \
        (w)->add((w)->to, part_, (size_t)snprintf(part_, sizeof part_, __VA_ARGS__)); \
    } while (0)

void cls_float_word(float x, char word[CLS_FLOAT_WORD])
{
    char text[64];
    size_t n = 0;
    snprintf(text, sizeof text, "%.9g", (double)x);
    for (size_t i = 0; text[i] != '\0' && n + 1 < CLS_FLOAT_WORD; i++) {
        const int known = strchr("0123456789+-einfa", text[i]) != NULL;
        if (known || n == 0 ||
            word[n - 1] != '.') /* the point of a locale may have several bytes */
            word[n++] = known ? text[i] : '.';
    }
    word[n] = '\0';
}

static void add_FLOAT(const param_words *w, const char *meta, const void *at)
{
    (void)meta;
    char word[CLS_FLOAT_WORD];
    cls_float_word(*(const float *)at, word);
    ADD_WORD(w, "%s", word);
}
static void add_INT(const param_words *w, const char *meta, const void *at)
{
    (void)meta;
    ADD_WORD(w, "%" PRId32, *(const int32_t *)at);
}
static void add_UINT(const param_words *w, const char *meta, const void *at)
{
    (void)meta;
    ADD_WORD(w, "%" PRIu32, *(const uint32_t *)at);
}
static void add_UINT64(const param_words *w, const char *meta, const void *at)
{
    (void)meta;
    ADD_WORD(w, "%" PRIu64, *(const uint64_t *)at);
}
#define add_SWITCH add_INT
/* The words of a choice are those of its option, which | separates. */
static void add_CHOICE(const param_words *w, const char *meta, const void *at)
{
    for (int32_t i = *(const int32_t *)at; i > 0; i--)
        meta = strchr(meta, '|') + 1;
    ADD_WORD(w, "%.*s", (int)strcspn(meta, "|"), meta);
}

static void add_list_ids(const param_words *w, const cls_ids *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        ADD_WORD(w, "%s%" PRId32, i > 0 ? "," : "", list->ids[i]);
}
static void add_list_biases(const param_words *w, const cls_biases *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        char word[CLS_FLOAT_WORD];
        cls_float_word(list->biases[i].bias, word);
        ADD_WORD(w, "%s%" PRId32 ":%s", i > 0 ? "," : "", list->biases[i].id, word);
    }
}
static void add_list_sequences(const param_words *w, const cls_sequences *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        ADD_WORD(w, "%s", i > 0 ? "/" : "");
        add_list_ids(w, &list->sequences[i]);
    }
}

static void add_chain(const param_words *w, const cls_params *p)
{
    static const char *const presets[] = {
        [CLS_CHAIN_DEFAULT] = "default", [CLS_CHAIN_VLLM] = "vllm", [CLS_CHAIN_LLAMA] = "llama"};
#define STAGE_NAME(stage, run, keeps_min, name, field, on) [CLS_STAGE_##stage] = name,
    static const char *const stages[] = {CLS_STAGE_TABLE(STAGE_NAME)};
    ADD_WORD(w, " %schain=", w->phase);
    if (p->chain != CLS_CHAIN_CUSTOM || p->stages[0] == CLS_STAGE_END)
        ADD_WORD(w, "%s", p->chain != CLS_CHAIN_CUSTOM ? presets[p->chain] : "none");
    for (int i = 0;
         p->chain == CLS_CHAIN_CUSTOM && i < CLS_CHAIN_LENGTH && p->stages[i] != CLS_STAGE_END; i++)
        ADD_WORD(w, "%s%s", i > 0 ? "," : "", stages[p->stages[i]]);
}

/* `always`: at least one is written. */
static void add_params(const param_words *w, const cls_params *p, int always)
{
    cls_params off;
    cls_params_init(&off);
    if (p->chain != off.chain || always)
        add_chain(w, p);
#define ADD_NUMBER(p, id, type, field, stage, of, initial, least, most, range, option, meta, help) \
    if (memcmp(&(p)->field, &off.field, sizeof off.field) != 0) { \
        ADD_WORD(w, " %s" #field "=", w->phase); \
        add_##type(w, meta, &(p)->field); \
    }
    CLS_PARAMS(ADD_NUMBER, p)
    if (p->only_allowed != 0)
        ADD_WORD(w, " %sonly_allowed=1", w->phase);
    if (p->grammar_state != 0)
        ADD_WORD(w, " %sgrammar_state=%" PRIu32, w->phase, p->grammar_state);
#define ADD_LIST(p, kind, list, kept, option, meta, key, help) \
    if ((p)->list.count != 0) { \
        ADD_WORD(w, " %s" #list "=", w->phase); \
        add_list_##kind(w, &(p)->list); \
    }
    CLS_LISTS(ADD_LIST, p)
}

void cls_params_words(const cls_params *params, void (*add_bytes)(void *, const char *, size_t),
                      void *to)
{
    add_params(&(param_words){add_bytes, to, ""}, params, 0);
    if (params->post_thinking != NULL)
        add_params(&(param_words){add_bytes, to, "post_thinking."}, params->post_thinking, 1);
}
