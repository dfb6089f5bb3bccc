/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

batch *batch_new(uint32_t rows, uint32_t vocab, int dtype, uint32_t stride, size_t offset)
{
    batch *const b = must_calloc(1, sizeof *b);
    b->rows = rows;
    b->vocab = vocab;
    b->stride = stride ? stride : vocab;
    b->dtype = dtype;
    b->offset = offset;
    b->data_size = offset + ((size_t)(rows - 1) * b->stride + vocab) * dtype_size(dtype);
    b->data = must_calloc(b->data_size, 1);
    memset(b->data, 0x7e, b->data_size); /* what is outside the rows becomes large, or NaN in f16 */
    b->kind = must_calloc(rows, sizeof *b->kind);
    b->params = must_calloc(rows, sizeof *b->params);
    b->words = must_calloc(rows, sizeof *b->words);
    b->trace = must_calloc(rows, sizeof *b->trace);
    b->host = must_calloc(rows, sizeof *b->host);
    b->device_trace = must_calloc(rows, sizeof *b->device_trace);
    b->token = must_calloc(rows, sizeof *b->token);
    b->status = must_calloc(rows, sizeof *b->status);
    b->tokens = must_calloc(rows, sizeof *b->tokens);
    b->adaptive = must_calloc(rows, sizeof *b->adaptive);
    return b;
}

void batch_free(batch *b)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        free(b->tokens[row].prompt);
        free(b->tokens[row].output);
    }
    free(b->data);
    free(b->kind);
    free(b->params);
    free((void *)b->words);
    free(b->tokens);
    free(b->adaptive);
    free(b->trace);
    free(b->host);
    free(b->device_trace);
    free(b->token);
    free(b->status);
    free(b);
}

void batch_row(batch *b, uint32_t row, row_kind kind, uint64_t seed)
{
    float *const values = must_malloc(b->vocab * sizeof *values);
    const size_t size = dtype_size(b->dtype);
    b->kind[row] = kind;
    row_fill(kind, values, b->vocab, seed);
    for (uint32_t i = 0; i < b->vocab; i++)
        dtype_encode(b->dtype, values[i],
                     b->data + b->offset + ((size_t)row * b->stride + i) * size);
    free(values);
    cls_params_init(&b->params[row]);
    b->params[row].seed = seed;
    b->params[row].position = row;
}

/* ------------------------------------------------------------------- parameters */

enum { LARGE_TOP_K = 8 };

static const char *const kinds[PARAMS_KINDS] = {
    "temperature=0.0",
    "",
    "temperature=2.5",
    "top_k=7",
    "top_k=30 top_p=0.8",
    "top_p=0.7",
    "top_p=0.9 min_p=0.02",
    "min_p=0.05",
    [LARGE_TOP_K] = "", /* two thirds of the vocabulary */
    "top_k=1",
    "typical_p=0.6",
    "xtc_probability=0.7 xtc_threshold=0.02",
    "mirostat=1 mirostat_tau=4.0",
    "mirostat=2 mirostat_tau=4.0",
    "adaptive_target=0.3 min_p=0.01",
    "top_n_sigma=1.5",
    "top_a=0.2",
    "dynatemp_range=0.5 top_k=25",
    "top_p=0.9 top_p_decay=0.8 top_p_min=0.2",
    "top_k=40 typical_p=0.9 top_p=0.9 stages=top-k,typical,temperature,top-p",
    [PARAMS_PENALTIES] = "repetition_penalty=1.3 frequency_penalty=0.2 presence_penalty=0.4",
    "p_less=1 min_keep=3 presence_penalty=-0.5 penalty_scope=1",
    [PARAMS_HISTORY] = "dry_multiplier=0.8 dry_allowed_length=1 top_k=50",
    "no_repeat_ngram=2 repetition_penalty=0.7 penalty_window=7"};

void params_kind(cls_params *p, uint32_t kind, uint32_t vocab)
{
    p->temperature = 0.9f;
    p->chain = kind % 2 ? CLS_CHAIN_LLAMA : CLS_CHAIN_VLLM;
    params_set(p, kinds[kind]);
    if (kind == LARGE_TOP_K)
        p->top_k = (int32_t)(vocab - vocab / 3);
}

void batch_kind(batch *b, uint32_t row, uint32_t kind)
{
    b->words[row] = kinds[kind];
    params_kind(&b->params[row], kind, b->vocab);
}

void batch_prompts(batch *b, rng *r)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        tokens *const t = &b->tokens[row];
        free(t->prompt);
        t->prompt_count = 1 + rng_below(r, 60);
        t->prompt = must_malloc(t->prompt_count * sizeof *t->prompt);
        for (uint32_t i = 0; i < t->prompt_count; i++)
            t->prompt[i] = i > 0 && rng_below(r, 2) ? t->prompt[rng_below(r, i)]
                                                    : (int32_t)rng_below(r, b->vocab);
    }
}

/* -------------------------------------------------------------------- reference */

one_row batch_host_row(const batch *b, uint32_t row)
{
    const tokens *const t = &b->tokens[row];
    one_row h;
    one_row_init(&h);
    h.logits = b->data + b->offset + (size_t)row * b->stride * dtype_size(b->dtype);
    h.dtype = b->dtype;
    h.vocab = b->vocab;
    h.prompt = t->prompt;
    h.prompt_count = t->prompt_count;
    h.output = t->output;
    h.output_count = t->output_count;
    h.position = b->params[row].position + t->output_count;
    h.params = &b->params[row];
    h.max_history = b->history;
    h.adaptive = b->adaptive[row];
    return h;
}

void batch_reference(batch *b)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const one_row h = batch_host_row(b, row);
        must(cls_reference(&h, &b->trace[row], &b->host[row]));
    }
}

void batch_accept(batch *b, uint32_t row)
{
    tokens *const t = &b->tokens[row];
    if (b->host[row].token < 0)
        return;
    t->output = realloc(t->output, (t->output_count + 1) * sizeof *t->output);
    ck_assert_msg(t->output != NULL, "out of memory");
    t->output[t->output_count++] = b->host[row].token;
    b->adaptive[row] = b->host[row].adaptive;
}

void request_start(const batch *b, uint32_t row, cls_sampler *sampler, uint32_t slot)
{
    const tokens *const t = &b->tokens[row];
    must(cls_slot_begin(sampler, slot, &b->params[row],
                        TEXT(t->prompt, t->prompt_count, t->output, t->output_count)));
}

/* ------------------------------------------------------------------- comparison */

const char *batch_words(const batch *b, uint32_t row)
{
    static char words[400];
    const cls_params *const p = &b->params[row];
    const tokens *const t = &b->tokens[row];
    snprintf(words, sizeof words,
             "row %u of %u, %s, vocab %u, stride %u, offset %zu, %s, \"%s\", temperature %g, top-k "
             "%d, top-p %g, min-p %g, seed %llu, position %u, %u of prompt, %u of output, history "
             "%u",
             row, b->rows, row_kind_names[b->kind[row]], b->vocab, b->stride, b->offset,
             dtype_names[b->dtype], b->words[row] != NULL ? b->words[row] : "",
             (double)p->temperature, p->top_k, (double)p->top_p, (double)p->min_p,
             (unsigned long long)p->seed, p->position, t->prompt_count, t->output_count,
             b->history);
    return words;
}

static void compare(const batch *b, uint32_t row, const char *where, const char *what,
                    uint64_t ours, uint64_t host)
{
    ck_assert_msg(ours == host, "%s: %s: %s is %llu on the device, %llu in the reference", where,
                  batch_words(b, row), what, (unsigned long long)ours, (unsigned long long)host);
}

/* Compares the numbers of the kept set, and the inputs of the draw. */
static void compare_sets(const batch *b, uint32_t row, const char *where)
{
    const cls_row *const d = &b->device_trace[row], *const h = &b->trace[row];
    const cls_params *const p = &b->params[row];
    if (p->top_p < 1.0f && p->mirostat == 0)
        compare(b, row, where, "top-p's target", d->target, h->target);
    if (d->kept != 0)
        compare(b, row, where, "the number kept", d->kept, b->host[row].kept_count);
    compare(b, row, where, "the top's key", (uint32_t)d->top_key, (uint32_t)h->top_key);
    compare(b, row, where, "the scale", (uint32_t)key_of(d->scale), (uint32_t)key_of(h->scale));
    compare(b, row, where, "the set's mass", d->mass, h->mass);
    if (p->adaptive_target >= 0.0f && p->mirostat == 0) {
        compare(b, row, where, "the probability aimed at", d->aim, h->aim);
        compare(b, row, where, "adaptive p's least depth", d->min_depth, h->min_depth);
        compare(b, row, where, "adaptive p's mass", d->adapted, h->adapted);
    }
    compare(b, row, where, "the number drawn", d->drawn, h->drawn);
}

void batch_equal(const batch *b, const char *where)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        ck_assert_msg(b->status[row] == b->host[row].status,
                      "%s: %s: status is %d on the device, %d in the reference", where,
                      batch_words(b, row), b->status[row], b->host[row].status);
        if (b->params[row].temperature >= 1e-5f && !b->trace[row].no_token)
            compare_sets(b, row, where);
        ck_assert_msg(b->token[row] == b->host[row].token,
                      "%s: %s: token is %d on the device, %d in the reference", where,
                      batch_words(b, row), b->token[row], b->host[row].token);
    }
}
