/* SPDX-License-Identifier: MIT */
#include "rounds.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin_on(const side *s, const request *requests, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        cls_text text;
        cls_text_init(&text);
        text.prompt = (cls_ids){requests[i].feed, requests[i].feed_count};
        must(cls_slot_begin(s->sampler, i, &requests[i].params, &text));
    }
}

void begin(engine *e, request *requests, uint32_t n)
{
    llama_memory_clear(llama_get_memory(e->llama), true);
    for (uint32_t i = 0; i < n; i++) {
        request *const r = &requests[i];
        r->feed_count = tokenize(e->m, r->prompt, r->feed);
        r->draft_count = r->past = r->tokens = r->drafted = r->accepted = 0;
        r->ended = false;
        r->logprobs = 0;
        r->text[0] = '\0';
    }
    begin_on(&e->device, requests, n);
    begin_on(&e->host, requests, n);
}

/* What a call of the samplers takes: the requests that have not ended. */
typedef struct call {
    uint32_t requests, rows;
    int32_t slots[REQUESTS], offsets[REQUESTS + 1], ids[REQUESTS * DRAFTS];
} call;

static void add(call *c, struct llama_batch *batch, const request *r, uint32_t slot)
{
    for (uint32_t k = 0; k < r->feed_count; k++)
        batch_add(batch, r->feed[k], r->past + k, slot, k == r->feed_count - 1);
    for (uint32_t k = 0; k < r->draft_count; k++) {
        batch_add(batch, r->drafts[k], r->past + r->feed_count + k, slot, true);
        c->ids[c->rows - c->requests + k] = r->drafts[k];
    }
    c->slots[c->requests] = (int32_t)slot;
    c->offsets[c->requests++] = (int32_t)c->rows;
    c->rows += 1 + r->draft_count;
    c->offsets[c->requests] = (int32_t)c->rows;
}

/* Tokens, and what they were drawn from, of one side. */
static void sample(const side *s, cl_command_queue queue, const call *c, const cls_logits *logits,
                   bool drafts)
{
    cls_verify_call verify;
    cls_outputs outputs;
    cls_outputs_init(&outputs);
    cls_verify_call_init(&verify);
    outputs.logprobs = PART(s, results, logprobs);
    verify.requests = c->requests;
    verify.method = CLS_VERIFY_MATCH;
    verify.row_offsets = c->offsets;
    verify.slots.host = c->slots;
    verify.draft_ids.host = c->rows > c->requests ? c->ids : NULL;
    verify.logits = *logits;
    verify.max_drafts = DRAFTS;
    verify.tokens = PART(s, results, tokens);
    verify.accepted = PART(s, results, accepted);
    verify.emitted = PART(s, results, emitted);
    verify.token_status = PART(s, results, statuses);
    verify.outputs = &outputs;
    must(cls_verify(s->sampler, queue, &verify, 0, NULL, NULL));
    if (!drafts)
        return;
    cls_draft_call look_up;
    cls_draft_call_init(&look_up);
    look_up.requests = c->requests;
    look_up.k = DRAFTS;
    look_up.slots.host = c->slots;
    look_up.draft_ids = PART(s, results, drafts);
    must(cls_draft(s->sampler, queue, &look_up, 0, NULL, NULL));
}

/* Takes what a call has found for request number i of it. */
static void take(engine *e, request *r, const results *found, uint32_t i, bool drafts)
{
    const int32_t emitted = found->emitted[i];
    r->drafted += r->draft_count;
    r->accepted += (uint32_t)found->accepted[i];
    r->past += r->feed_count;
    for (int32_t k = 0; k < emitted; k++) {
        if (!llama_vocab_is_eog(e->m->vocab, found->tokens[i][k]))
            append_piece(e->m, found->tokens[i][k], r->text, sizeof r->text);
        r->logprobs += (double)found->logprobs[i][k];
        r->ended |= (found->statuses[i][k] & CLS_ROW_STOPPED) != 0;
    }
    r->tokens += (uint32_t)emitted;
    if (emitted == 0)
        fail("%s: a row without a token, status %d", r->name, (int)found->statuses[i][0]);
    /* The model has seen the drafts, too: all but the last token that was emitted stay. */
    r->past += (uint32_t)emitted - 1;
    r->feed[0] = found->tokens[i][emitted - 1];
    r->feed_count = 1;
    for (r->draft_count = 0;
         drafts && r->draft_count < DRAFTS && found->drafts[i][r->draft_count] >= 0;
         r->draft_count++)
        r->drafts[r->draft_count] = found->drafts[i][r->draft_count];
}

static uint32_t differing(const results *a, const results *b, const call *c, bool drafts)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->requests; i++)
        n += memcmp(a->tokens[i], b->tokens[i], sizeof a->tokens[i]) != 0 ||
             memcmp(a->statuses[i], b->statuses[i], sizeof a->statuses[i]) != 0 ||
             memcmp(a->logprobs[i], b->logprobs[i], sizeof a->logprobs[i]) != 0 ||
             (drafts && memcmp(a->drafts[i], b->drafts[i], sizeof a->drafts[i]) != 0);
    return n;
}

/* The host's turn: the same call with the logits that the tensor has. */
static uint32_t check_call(engine *e, const call *c, const results *found, bool drafts)
{
    const size_t size = sizeof(float) * c->rows * e->m->words;
    float *const rows = malloc(size);
    if (rows == NULL)
        fail("out of memory");
    engine_read_logits(e, c->rows, rows);
    const cls_logits logits = {.values = {.pointer = rows, .size = size, .kind = CLS_BUFFER_HOST}};
    sample(&e->host, NULL, c, &logits, drafts);
    free(rows);
    return differing(found, &e->host_results, c, drafts);
}

uint32_t step(engine *e, request *requests, uint32_t n, bool drafts, bool check, uint32_t *differ)
{
    call c = {0};
    results found;
    clsample_llama_place place;
    for (uint32_t i = 0; i < n; i++)
        if (!requests[i].ended)
            add(&c, &e->batch, &requests[i], i);
    if (c.requests == 0)
        return 0;
    const cl_command_queue queue = engine_decode(e, &place);
    sample(&e->device, queue, &c, &place.logits, drafts);
    must(clEnqueueReadBuffer(queue, e->device.memory, CL_TRUE, 0, sizeof found, &found, 0, NULL,
                             NULL));
    if (check)
        *differ += check_call(e, &c, &found, drafts);
    for (uint32_t i = 0; i < c.requests; i++) {
        request *const r = &requests[c.slots[i]];
        take(e, r, &found, i, drafts);
        if (!llama_memory_seq_rm(llama_get_memory(e->llama), c.slots[i], (llama_pos)r->past, -1))
            fail("llama.cpp's memory does not forget drafts");
    }
    return c.requests;
}

/* -------------------------------------------------------------------- requests */

#define FORM "{\"name\": \"\\u\\l\\l\\l\\l\", \"born\": \\d\\d\\d\\d}"
#define FORM_REGEX "^\\{\"name\": \"[A-Z][a-z]{4}\", \"born\": [0-9]{4}\\}$"

enum { GREEDY, PENALTIES, GRAMMAR, REPEATING, CREATIVE, KINDS };

request *requests_of(const model *m, uint32_t tokens, uint32_t *n)
{
    static const char *const names[KINDS] = {"greedy", "penalties", "grammar", "repeating",
                                             "creative"};
    static const char *const prompts[KINDS] = {
        "The capital of France is", "Once upon a time", "A person as JSON: ",
        "red green blue yellow red green blue yellow red green blue yellow red green",
        "The old lighthouse keeper"};
    request *const r = calloc(KINDS, sizeof *r);
    if (r == NULL)
        fail("out of memory");
    for (uint32_t i = 0; i < KINDS; i++) {
        cls_params *const p = &r[i].params;
        r[i].name = names[i];
        r[i].prompt = prompts[i];
        cls_params_init(p);
        p->chain = CLS_CHAIN_LLAMA;
        p->seed = 100 + i;
        p->max_tokens = tokens;
        p->stop_ids = (cls_ids){m->ends, m->end_count};
    }
    r[GREEDY].params.temperature = 0;
    r[PENALTIES].params.temperature = 0.8f;
    r[PENALTIES].params.top_k = 40;
    r[PENALTIES].params.top_p = 0.95f;
    r[PENALTIES].params.repetition_penalty = 1.1f;
    r[PENALTIES].params.frequency_penalty = 0.2f;
    r[GRAMMAR].params.grammar = grammar_of(m, FORM);
    r[REPEATING].params.temperature = 0.5f;
    r[REPEATING].params.top_k = 20;
    r[CREATIVE].params.top_k = 100;
    r[CREATIVE].params.min_p = 0.05f;
    r[CREATIVE].params.dry_multiplier = 0.8f;
    *n = KINDS;
    return r;
}

static int judge(const request *r, uint32_t steps, uint32_t differ)
{
    regex_t form;
    int failed = differ != 0;
    uint32_t tokens = 0, drafted = 0, accepted = 0;
    for (uint32_t i = 0; i < KINDS; i++) {
        printf("%-10s %3u tokens, %3u of %3u drafts, log-probability %8.3f: %s\n", r[i].name,
               (unsigned)r[i].tokens, (unsigned)r[i].accepted, (unsigned)r[i].drafted,
               r[i].logprobs, r[i].text);
        tokens += r[i].tokens;
        drafted += r[i].drafted;
        accepted += r[i].accepted;
    }
    if (regcomp(&form, FORM_REGEX, REG_EXTENDED | REG_NOSUB) != 0 ||
        regexec(&form, r[GRAMMAR].text, 0, NULL, 0) != 0) {
        printf("FAILED: the text does not follow its grammar\n");
        failed = 1;
    }
    if (accepted == 0) {
        printf("FAILED: no draft was accepted\n");
        failed = 1;
    }
    printf("%u tokens in %u steps, %u of %u drafts accepted; %u calls differ from the host's\n",
           (unsigned)tokens, (unsigned)steps, (unsigned)accepted, (unsigned)drafted,
           (unsigned)differ);
    return failed;
}

int mode_requests(const model *m, const char *cache, uint32_t tokens)
{
    static engine e;
    uint32_t n, steps = 0, differ = 0;
    request *const requests = requests_of(m, tokens, &n);
    engine_open(&e, m, n, cache);
    begin(&e, requests, n);
    while (step(&e, requests, n, true, true, &differ) != 0)
        steps++;
    const int failed = judge(requests, steps, differ);
    cls_grammar_destroy((cls_grammar *)requests[GRAMMAR].params.grammar);
    free(requests);
    engine_close(&e);
    return failed;
}
