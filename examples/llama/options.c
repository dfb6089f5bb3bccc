/* SPDX-License-Identifier: MIT */
/* Reads the command line and the file of prompts, and makes the requests. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

typedef enum kind { STRING, COUNT, SIGNED, SEED, NUMBER, FLAG } kind;

typedef struct option {
    const char *name;
    kind kind;
    size_t offset;
    uint32_t least, most; /* of a COUNT */
    const char *help;
} option;

#define OF(field) offsetof(options, field)
static const option general[] = {
    {"checkpoint", STRING, OF(checkpoint), 0, 0, "FILE  the model, a checkpoint of llama2.c"},
    {"tokenizer", STRING, OF(tokenizer), 0, 0, "FILE  the tokenizer of the model"},
    {"prompts", STRING, OF(prompts), 0, 0,
     "FILE  one prompt on each line, optionally after options for it and a tab"},
    {"requests", COUNT, OF(n_requests), 0, 1000000,
     "N  texts; prompts repeat (as many as prompts, but at least as streams)"},
    {"streams", COUNT, OF(streams), 1, 4096, "N  requests at a time (1)"},
    {"batch", COUNT, OF(batch), 1, 4096,
     "N  rows in a step (64, or more if the streams need more)"},
    {"chunk", COUNT, OF(chunk), 1, 4096, "N  the most rows of a prompt in a step (16)"},
    {"ahead", COUNT, OF(ahead), 0, 64,
     "N  steps enqueued before the host reads the tokens of one (2)"},
    {"draft", STRING, OF(draft), 0, 0,
     "ngram|layers=N  make drafts from the text so far, or by the first N layers"},
    {"drafts", COUNT, OF(drafts), 1, MOST_DRAFTS, "N  drafts for each request and step (4)"},
    {"method", STRING, OF(method), 0, 0,
     "match|standard|block|typical  how drafts are verified (match)"},
    {"device", COUNT, OF(device), 0, 63,
     "N  the number from 'clsample devices' (the first usable device)"},
    {"cache-dir", STRING, OF(cache_dir), 0, 0,
     "DIR  load compiled kernels of clsample from this directory and store them there"},
    {"stream", FLAG, OF(stream), 0, 0, " print texts while they grow"},
    {"half", FLAG, OF(half), 0, 0, " keep the weight of the last layer in float16"},
    {"json", FLAG, OF(json), 0, 0, " print texts and times as JSON"},
    {"check-logits", STRING, OF(check_logits), 0, 0,
     "FILE.npy  compare the model with recorded logits"},
    {"check-tokens", STRING, OF(check_tokens), 0, 0,
     "FILE.npy  the tokens drawn from these logits, in texts of --max-tokens"},
    {"make-random", FLAG, OF(make_random), 0, 0,
     " write a random checkpoint and tokenizer to these files"},
};
#undef OF

/* Options that each request may have. */
#define OF(field) offsetof(cls_params, field)
static const option own[] = {
    {"max-tokens", COUNT, OF(max_tokens), 1, UINT32_MAX,
     "N  output tokens (as many as fit the context)"},
    {"temperature", NUMBER, OF(temperature), 0, 0, "X  0: greedy (1)"},
    {"top-k", SIGNED, OF(top_k), 0, 0, "N  0: off (0)"},
    {"top-p", NUMBER, OF(top_p), 0, 0, "X  1: off (1)"},
    {"min-p", NUMBER, OF(min_p), 0, 0, "X  0: off (0)"},
    {"repetition-penalty", NUMBER, OF(repetition_penalty), 0, 0, "X  1: off (1)"},
    {"frequency-penalty", NUMBER, OF(frequency_penalty), 0, 0, "X  0: off (0)"},
    {"presence-penalty", NUMBER, OF(presence_penalty), 0, 0, "X  0: off (0)"},
    {"penalty-window", COUNT, OF(penalty_window), 0, 16384,
     "N  the latest tokens that penalties count; 0: all (0)"},
    {"seed", SEED, OF(seed), 0, 0, "N  request i draws from stream i of this seed (0)"},
};
#undef OF

enum { GENERAL = sizeof general / sizeof *general, OWN = sizeof own / sizeof *own };

static void help(void)
{
    printf("usage: llama --checkpoint FILE --tokenizer FILE [--prompt TEXT]... [options]\n\n"
           "  --prompt TEXT  the beginning of a text; may be repeated (empty)\n");
    for (int i = 0; i < GENERAL; i++)
        printf("  --%s %s\n", general[i].name, general[i].help);
    printf("\nfor all requests, or in a line of --prompts for one:\n");
    for (int i = 0; i < OWN; i++)
        printf("  --%s %s\n", own[i].name, own[i].help);
    exit(0);
}

static const option *find(const char *name, const option *table, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, table[i].name) == 0)
            return &table[i];
    return NULL;
}

static uint64_t whole(const char *name, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    const uint64_t x = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || x < least || x > most)
        die("--%s: '%s' is not a whole number from %llu to %llu", name, text,
            (unsigned long long)least, (unsigned long long)most);
    return x;
}

static void set(const option *o, void *base, const char *text)
{
    void *at = (char *)base + o->offset;
    char *end;
    long x;
    switch (o->kind) {
    case STRING:
        *(const char **)at = text;
        break;
    case COUNT:
        *(uint32_t *)at = (uint32_t)whole(o->name, text, o->least, o->most);
        break;
    case SEED:
        *(uint64_t *)at = whole(o->name, text, 0, UINT64_MAX);
        break;
    case FLAG:
        *(bool *)at = true;
        break;
    case SIGNED:
        errno = 0;
        x = strtol(text, &end, 10);
        if (end == text || *end != '\0' || errno != 0 || x < INT32_MIN || x > INT32_MAX)
            die("--%s: '%s' is not a whole number", o->name, text);
        *(int32_t *)at = (int32_t)x;
        break;
    case NUMBER:
        *(float *)at = strtof(text, &end);
        if (end == text || *end != '\0')
            die("--%s: '%s' is not a number", o->name, text);
    }
}

/* ------------------------------------------------------------------- prompts */

typedef struct prompt {
    char *text;
    cls_params params;
} prompt;

typedef struct prompts {
    prompt *all;
    uint32_t n;
} prompts;

static void add(prompts *list, const char *text, const cls_params *params)
{
    prompt *grown = realloc(list->all, (list->n + 1) * sizeof *grown);
    if (grown == NULL)
        die("out of memory");
    list->all = grown;
    list->all[list->n].text = allocate(strlen(text) + 1, 1);
    strcpy(list->all[list->n].text, text);
    list->all[list->n++].params = *params;
}

static void read_prompts(prompts *list, const char *path, const cls_params *defaults)
{
    FILE *file = fopen(path, "rb");
    char *line = NULL;
    size_t room = 0;
    if (file == NULL)
        die("%s: cannot be opened", path);
    while (getline(&line, &room, file) >= 0) {
        cls_params params = *defaults;
        line[strcspn(line, "\n")] = '\0';
        char *text = strncmp(line, "--", 2) == 0 ? strchr(line, '\t') : NULL;
        if (text != NULL) {
            *text++ = '\0';
            for (char *name = strtok(line, " "); name != NULL; name = strtok(NULL, " ")) {
                const option *o = strncmp(name, "--", 2) == 0 ? find(name + 2, own, OWN) : NULL;
                const char *value = strtok(NULL, " ");
                if (o == NULL || value == NULL)
                    die("%s: line %u: '%s' %s", path, list->n + 1, name,
                        o == NULL ? "is not an option of a request" : "lacks its value");
                set(o, &params, value);
            }
        }
        add(list, text != NULL ? text : line, &params);
    }
    free(line);
    if (ferror(file) || list->n == 0)
        die("%s: %s", path, list->n == 0 ? "there is no prompt" : "cannot be read");
    fclose(file);
}

static void make_requests(options *o, const prompts *list)
{
    static const int32_t stops[] = {EOS,
                                    BOS}; /* the model was trained on stories with BOS between */
    if (o->n_requests == 0)
        o->n_requests = list->n > o->streams ? list->n : o->streams;
    o->requests = allocate(o->n_requests, sizeof *o->requests);
    for (uint32_t i = 0; i < o->n_requests; i++) {
        const prompt *p = &list->all[i % list->n];
        request *r = &o->requests[i];
        r->prompt = p->text;
        r->params = p->params;
        r->params.stream = i;
        r->params.stop_ids.ids = stops;
        r->params.stop_ids.count = 2;
    }
}

/* Evaluates --draft, --drafts and --method. A step with drafts depends on the tokens of the step
 * before it, so the host waits for each step: `ahead` is 0. */
static void read_drafts(options *o)
{
    static const char *const methods[] = {[CLS_VERIFY_MATCH] = "match",
                                          [CLS_VERIFY_STANDARD] = "standard",
                                          [CLS_VERIFY_BLOCK] = "block",
                                          [CLS_VERIFY_TYPICAL] = "typical"};
    const int n = sizeof methods / sizeof *methods;
    if (o->draft == NULL) {
        if (o->method != NULL || o->drafts > 0)
            die("--method and --drafts require --draft");
        return;
    }
    if (strncmp(o->draft, "layers=", 7) == 0) {
        o->drafts_from = BY_LAYERS;
        o->draft_layers = (uint32_t)whole("draft layers", o->draft + 7, 1, UINT32_MAX);
    } else if (strcmp(o->draft, "ngram") == 0) {
        o->drafts_from = BY_TEXT;
    } else {
        die("--draft: '%s' is neither ngram nor layers=N", o->draft);
    }
    o->ahead = 0;
    if (o->drafts == 0)
        o->drafts = 4;
    while (o->method != NULL && o->verify < n && strcmp(o->method, methods[o->verify]) != 0)
        o->verify++;
    if (o->verify == n)
        die("--method: '%s' is not one of match, standard, block, typical", o->method);
}

void options_read(options *o, int argc, char **argv)
{
    prompts list = {NULL, 0};
    *o = (options){.streams = 1, .chunk = 16, .ahead = 2, .device = UINT32_MAX};
    cls_params_init(&o->params);
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--help") == 0)
            help();
        const bool dashes = strncmp(name, "--", 2) == 0, is_prompt = strcmp(name, "--prompt") == 0;
        const option *wide = dashes ? find(name + 2, general, GENERAL) : NULL;
        const option *ours = dashes ? find(name + 2, own, OWN) : NULL;
        if (wide == NULL && ours == NULL && !is_prompt)
            die("'%s' is not an option; llama --help lists the options", name);
        if (wide == NULL || wide->kind != FLAG) {
            if (value == NULL)
                die("%s: a value is missing", name);
            i++;
        }
        if (is_prompt)
            add(&list, value, &o->params);
        else
            set(wide != NULL ? wide : ours, wide != NULL ? (void *)o : &o->params, value);
    }
    if (o->checkpoint == NULL || o->tokenizer == NULL)
        die("--checkpoint and --tokenizer are required; see llama --help");
    if ((o->check_logits == NULL) != (o->check_tokens == NULL))
        die("--check-logits and --check-tokens require each other");
    for (uint32_t i = 0; i < list.n; i++) /* options apply to all prompts, also to earlier ones */
        list.all[i].params = o->params;
    if (o->prompts != NULL)
        read_prompts(&list, o->prompts, &o->params);
    if (list.n == 0)
        add(&list, "", &o->params);
    read_drafts(o);
    const uint32_t rows = o->streams * (o->drafts + 1);
    if (o->batch == 0)
        o->batch = rows > 64 ? rows : 64;
    if (o->batch < rows)
        die("--batch: a step of %u rows is too small for %u streams%s", o->batch, o->streams,
            o->drafts > 0 ? " and their drafts" : "");
    make_requests(o, &list);
    o->texts = allocate(list.n, sizeof *o->texts);
    for (uint32_t i = 0; i < list.n; i++)
        o->texts[i] = list.all[i].text;
    o->n_texts = list.n;
    free(list.all);
}

/* Encodes the prompts, and limits the outputs to the context. */
void options_encode(options *o, const config *c, const tokenizer *t)
{
    if (o->draft_layers > c->layers)
        die("--draft: the model has %u layers, not %u", c->layers, o->draft_layers);
    for (uint32_t i = 0; i < o->n_requests; i++) {
        request *r = &o->requests[i];
        int32_t *tokens;
        if (cls_params_check(&r->params, c->vocab) != CLS_OK)
            die("request %u: %s", i, cls_error_message());
        r->n_prompt = tokenizer_encode(t, r->prompt, &tokens);
        if (r->n_prompt >= c->context)
            die("request %u: its prompt has %u tokens, and the model's context only %u", i,
                r->n_prompt, c->context);
        r->most = c->context - r->n_prompt;
        if (r->params.max_tokens > 0 && r->params.max_tokens < r->most)
            r->most = r->params.max_tokens;
        r->params.max_tokens = r->most;
        r->tokens = realloc(tokens, ((size_t)r->n_prompt + r->most) * sizeof *tokens);
        if (r->tokens == NULL)
            die("out of memory");
    }
}

void options_free(options *o)
{
    for (uint32_t i = 0; i < o->n_requests; i++)
        free(o->requests[i].tokens);
    for (uint32_t i = 0; i < o->n_texts; i++)
        free(o->texts[i]);
    free(o->texts);
    free(o->requests);
}
