/* SPDX-License-Identifier: MIT */
/* Compares the adapter with a sampler on the host: whatever llama.cpp does with a sampler, its
 * tokens are those of the same request there. */
#include "clsample-llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB 1003
#define HISTORY 64
#define SLOTS 3

#define CHECK(truth) check((truth), #truth, __LINE__)

static void check(bool truth, const char *what, int line)
{
    if (truth)
        return;
    fprintf(stderr, "check_adapter.c:%d: failed: %s\n", line, what);
    exit(1);
}

/* The reference: a sampler on the host, whose slots have the requests. */
static cls_sampler *reference;
struct sequence {
    cls_params params;
    uint32_t slot;
};

/* The infill sampler's tables: a token's text is its id in decimal. */
static int32_t prefix_of[VOCAB];
static const int32_t ends[] = {7, 8};
static cls_infill infill = {sizeof infill, {ends, 2}, prefix_of};

static uint32_t random_state = 1;
static int many = 100; /* steps of a text; fewer on simulated devices */

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static float logits[VOCAB];
static llama_token_data data[VOCAB];

/* Random logits: peaked, so that all truncations matter, and multiples of a quarter, so that there
 * are ties. */
static void next_logits(void)
{
    for (uint32_t t = 0; t < VOCAB; t++)
        logits[t] = (float)random_below(20) / 4.0f - (t % 7 == 0 ? 1.0f : 4.0f);
}

static llama_token_data_array all_candidates(void)
{
    for (int32_t t = 0; t < VOCAB; t++)
        data[t] = (llama_token_data){t, logits[t], 0.0f};
    return (llama_token_data_array){data, VOCAB, -1, false};
}

/* The token that the sampler selects among the candidates; -1: none. */
static int32_t selected(struct llama_sampler *sampler, llama_token_data_array candidates)
{
    llama_sampler_apply(sampler, &candidates);
    if (candidates.selected < 0)
        return -1;
    CHECK((size_t)candidates.selected < candidates.size);
    CHECK(candidates.data[candidates.selected].p >= 0 && /* 0: forced, and not in the kept set */
          candidates.data[candidates.selected].p <= 1.0001f);
    return candidates.data[candidates.selected].id;
}

static cls_buffer memory(void *pointer, size_t size)
{
    return (cls_buffer){.pointer = pointer, .size = size, .kind = CLS_BUFFER_HOST};
}

static void open_reference(void)
{
    cls_context *host;
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.late_compile = 1;
    options.vocab = VOCAB;
    options.slot_count = SLOTS;
    options.max_history = HISTORY;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_MASK | CLS_FEATURE_ACCEPT;
    CHECK(cls_context_create_host(NULL, &host) == CLS_OK);
    CHECK(cls_sampler_create(host, &options, &reference) == CLS_OK);
    CHECK(cls_sampler_infill(reference, &infill) == CLS_OK);
    cls_context_destroy(host);
}

/* The token of the reference. allowed: a byte for each token, or NULL. draw: the number of earlier
 * draws for this token. */
static int32_t expected(const struct sequence *q, const unsigned char *allowed, uint32_t draw)
{
    const int32_t slot = (int32_t)q->slot, draws = (int32_t)draw;
    int32_t token;
    cls_step step;
    cls_step_init(&step);
    step.rows = 1;
    step.logits.values = memory(logits, sizeof logits);
    step.slots.host = &slot;
    step.draws.host = &draws;
    step.mask.host = allowed;
    step.mask.kind = CLS_MASK_BOOL;
    step.defer_accept = 1;
    step.tokens = memory(&token, sizeof token);
    CHECK(cls_sample(reference, NULL, &step, 0, NULL, NULL) == CLS_OK);
    return token;
}

static void put_output(const struct sequence *q, struct llama_sampler *sampler, int32_t token)
{
    const int32_t slot = (int32_t)q->slot;
    cls_accept_call call;
    llama_sampler_accept(sampler, token);
    cls_accept_call_init(&call);
    call.rows = 1;
    call.tokens.host = &token;
    call.slots.host = &slot;
    CHECK(cls_accept(reference, NULL, &call, 0, NULL, NULL) == CLS_OK);
}

static void put_prompt(const struct sequence *q, struct llama_sampler *sampler, int32_t token)
{
    llama_sampler_accept(sampler, token);
    CHECK(cls_slot_append_prompt(reference, q->slot, &token, 1) == CLS_OK);
}

/* Begins the request anew. */
static void restart(const struct sequence *q)
{
    CHECK(cls_slot_begin(reference, q->slot, &q->params, NULL) == CLS_OK);
}

/* A copy in another slot. */
static struct sequence fork_of(const struct sequence *q, uint32_t slot)
{
    CHECK(cls_slot_copy(reference, slot, q->slot) == CLS_OK);
    return (struct sequence){q->params, slot};
}

static void generate(const struct sequence *q, struct llama_sampler *sampler, int steps)
{
    for (int s = 0; s < steps; s++) {
        next_logits();
        int32_t token = selected(sampler, all_candidates());
        CHECK(token >= 0 && token == expected(q, NULL, 0));
        if (s % 4 == 1) { /* another draw for the same token */
            token = selected(sampler, all_candidates());
            CHECK(token == expected(q, NULL, 1));
        }
        llama_sampler_accept(sampler, -1); /* not a token: not counted */
        llama_sampler_accept(sampler, VOCAB);
        put_output(q, sampler, token);
    }
}

/* What the samplers of a text do: llama.cpp's defaults; penalties; no draws; another preset; all
 * that has lists, in another order; an adaptive state; infill. */
enum { DEFAULTS, PENALTIES, GREEDY, VLLM, LISTS, MIROSTAT, INFILL, KINDS };

/* The first tokens are likely with LISTS, so that texts repeat themselves. */
static void set_params(cls_params *p, int kind)
{
    static const cls_logit_bias biases[] = {{0, 4}, {1, 4}, {2, 4},        {3, 4},
                                            {4, 4}, {5, 4}, {6, -INFINITY}};
    static const int32_t breaker[] = {5, 6}, bad[] = {1, 2},
                         allowed[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 50, 100, 150, 200},
                         thinking[] = {3}, forced[] = {50, 900, 8}, exempt[] = {0, 1};
    static const cls_ids breakers[] = {{breaker, 2}, {breaker + 1, 1}}, bad_words[] = {{bad, 2}};
    clsample_llama_params(p);
    p->seed = 7 + (uint64_t)kind;
    if (kind >= PENALTIES && kind <= VLLM) {
        p->repetition_penalty = 1.3f;
        p->frequency_penalty = 0.2f;
        p->presence_penalty = 0.1f;
    }
    if (kind == GREEDY)
        p->temperature = 0;
    if (kind == VLLM) {
        p->chain = CLS_CHAIN_VLLM;
        p->penalty_scope = CLS_SCOPE_OUTPUT;
        p->penalty_window = 0;
        p->position = 1000;
    }
    if (kind == LISTS) {
        p->logit_bias = (cls_biases){biases, 7};
        p->dry_multiplier = 0.8f;
        p->dry_allowed_length = 1;
        p->dry_breakers = (cls_sequences){breakers, 2};
        p->bad_words = (cls_sequences){bad_words, 1};
        p->no_repeat_ngram = 3;
        p->ngram_exempt_ids = (cls_ids){exempt, 1};
        p->presence_penalty = 0.5f;
        p->penalty_exempt_ids = (cls_ids){exempt, 2};
        p->xtc_exempt_ids = (cls_ids){exempt, 1};
        p->allowed_ids = (cls_ids){allowed, 13};
        p->thinking_start = (cls_ids){thinking, 1};
        p->thinking_ends = (cls_sequences){bad_words, 1};
        p->thinking_forced = (cls_ids){forced, 3};
        p->thinking_budget = 2;
        p->top_n_sigma = 3;
        p->typical_p = 0.9f;
        p->xtc_probability = 0.5f;
        p->dynatemp_range = 0.5f;
        p->top_p_decay = 0.9f;
        p->adaptive_target = 0.3f;
        CHECK(clsample_llama_order(p, "dxteyspmka"));
    }
    if (kind == MIROSTAT) {
        p->mirostat = 2;
        p->mirostat_tau = 3;
    }
    if (kind == INFILL) {
        p->top_k = 5;
        CHECK(clsample_llama_order(p, "dki"));
    }
}

static void begin(struct sequence *q, int kind)
{
    q->slot = 0;
    set_params(&q->params, kind);
    restart(q);
}

/* Prompt, text, more prompt (a token that is accepted without apply()), text and reset; then the
 * same once more. */
static void check_text(clsample_llama *shared, int kind)
{
    struct sequence q;
    begin(&q, kind);
    struct llama_sampler *sampler = clsample_llama_sampler_init(shared, &q.params);
    CHECK(sampler != NULL);
    CHECK(strcmp(llama_sampler_name(sampler), "clsample") == 0);
    for (int part = 0; part < 4; part++) {
        for (int i = 0; i < 50; i++)
            put_prompt(&q, sampler, (int32_t)random_below(kind == LISTS ? 8 : VOCAB));
        generate(&q, sampler, many / 2);
        if (part == 1) {
            llama_sampler_reset(sampler);
            restart(&q);
        }
    }
    llama_sampler_free(sampler);
}

/* A grammar that refuses the first choice, so that the token is banned and drawn again. And a
 * caller that accepts another token than the selected one. */
static void check_refused(clsample_llama *shared, int kind)
{
    struct sequence q;
    static unsigned char allowed[VOCAB];
    int changed = 0;
    begin(&q, kind);
    struct llama_sampler *sampler = clsample_llama_sampler_init(shared, &q.params);
    for (int s = 0; s < many / 2; s++) {
        next_logits();
        memset(allowed, 1, sizeof allowed);
        int32_t token = selected(sampler, all_candidates());
        CHECK(token == expected(&q, NULL, 0));
        for (uint32_t draw = 1; draw <= (uint32_t)s % 3; draw++) {
            int32_t refused = token;
            allowed[refused] = 0;
            llama_token_data_array candidates = all_candidates();
            for (int32_t t = 0; t < VOCAB; t++)
                if (!allowed[t])
                    data[t].logit = -INFINITY;
            token = selected(sampler, candidates);
            changed += token != expected(&q, allowed, 0);
            CHECK(token == expected(&q, allowed, draw));
            CHECK(allowed[token]);
        }
        if (s % 5 == 4)
            token = (int32_t)random_below(VOCAB);
        put_output(&q, sampler, token);
    }
    CHECK(changed > 0); /* another random number than the first */
    llama_sampler_free(sampler);
}

/* Earlier samplers of a chain remove and reorder candidates. */
static void check_fewer(clsample_llama *shared)
{
    struct sequence q;
    static unsigned char allowed[VOCAB];
    begin(&q, PENALTIES);
    struct llama_sampler *sampler = clsample_llama_sampler_init(shared, &q.params);
    for (int s = 0; s < many / 2; s++) {
        next_logits();
        llama_token_data_array candidates = all_candidates();
        for (uint32_t i = VOCAB - 1; i > 0; i--) {
            uint32_t k = random_below(i + 1);
            llama_token_data swap = data[i];
            data[i] = data[k];
            data[k] = swap;
        }
        candidates.size = 1 + random_below(s % 2 ? 20 : VOCAB);
        memset(allowed, 0, sizeof allowed);
        for (size_t i = 0; i < candidates.size; i++)
            allowed[data[i].id] = 1;
        int32_t token = selected(sampler, candidates);
        CHECK(token == expected(&q, allowed, 0));
        put_output(&q, sampler, token);
    }
    llama_sampler_free(sampler);
}

/* A clone and its original first get the same tokens, then different ones; a copy restores. */
static void check_clones(clsample_llama *shared, int kind)
{
    struct sequence q, twin, saved;
    begin(&q, kind);
    struct llama_sampler *sampler = clsample_llama_sampler_init(shared, &q.params);
    for (int i = 0; i < 30; i++)
        put_prompt(&q, sampler, (int32_t)random_below(VOCAB));
    struct llama_sampler *clone = llama_sampler_clone(sampler); /* before the slot has the prompt */
    twin = fork_of(&q, 1);
    generate(&q, sampler, many / 5);
    generate(&twin, clone, many / 5);
    for (int s = 0; s < many / 5; s++) { /* in turn, with different tokens and rows */
        generate(&q, sampler, 1);
        CHECK(selected(clone, all_candidates()) == expected(&twin, NULL, 0));
        put_output(&twin, clone, (int32_t)random_below(VOCAB));
    }
    generate(&twin, clone, 5);
    llama_sampler_free(clone);

    struct llama_sampler *keep = llama_sampler_clone(sampler); /* speculative decoding does this */
    saved = fork_of(&q, 2);
    generate(&q, sampler, 7);
    llama_sampler_copy(keep, sampler);
    q = fork_of(&saved, 0);
    generate(&q, sampler, many / 5);
    generate(&saved, keep, many / 5);
    llama_sampler_free(keep);
    llama_sampler_free(sampler);
}

/* The caller may change or free the arrays of the parameters after the call. */
static void check_arrays(clsample_llama *shared)
{
    struct sequence q;
    begin(&q, LISTS);
    cls_params given = q.params;
    cls_logit_bias biases[7];
    int32_t allowed[13], ids[2] = {1, 2}, thinking[1] = {3}, end[2] = {1, 2}, exempt[2] = {0, 1},
                         forced[3] = {50, 900, 8};
    cls_ids bad_word = {ids, 2}, last = {end, 2},
            breakers[2] = {{(int32_t[]){5, 6}, 2}, {(int32_t[]){6}, 1}};
    memcpy(biases, given.logit_bias.biases, sizeof biases);
    memcpy(allowed, given.allowed_ids.ids, sizeof allowed);
    given.logit_bias.biases = biases;
    given.allowed_ids.ids = allowed;
    given.bad_words.sequences = &bad_word;
    given.dry_breakers.sequences = breakers;
    given.ngram_exempt_ids.ids = given.penalty_exempt_ids.ids = exempt;
    given.xtc_exempt_ids.ids = exempt;
    given.thinking_start.ids = thinking;
    given.thinking_ends.sequences = &last;
    given.thinking_forced.ids = forced;
    struct llama_sampler *sampler = clsample_llama_sampler_init(shared, &given);
    memset(biases, -1, sizeof biases);
    memset(allowed, -1, sizeof allowed);
    memset(ids, -1, sizeof ids);
    memset(exempt, -1, sizeof exempt);
    memset(thinking, -1, sizeof thinking);
    memset(end, -1, sizeof end);
    memset(forced, -1, sizeof forced);
    memset(breakers, 0, sizeof breakers);
    llama_sampler_reset(sampler); /* begins again with the sampler's copies */
    struct llama_sampler *clone = llama_sampler_clone(sampler);
    llama_sampler_free(sampler);
    llama_sampler_reset(clone);
    generate(&q, clone, many / 5);
    llama_sampler_free(clone);

    static const int32_t begins[1] = {3}, ends_it[1] = {4};
    cls_params answer;
    begin(&q, DEFAULTS);
    cls_params_init(&answer);
    answer.temperature = 0;
    q.params.thinking_start = (cls_ids){begins, 1};
    q.params.thinking_ends = (cls_sequences){&(cls_ids){ends_it, 1}, 1};
    given = q.params;
    q.params.post_thinking = given.post_thinking = &answer;
    restart(&q);
    sampler = clsample_llama_sampler_init(shared, &given);
    memset(&answer, -1, sizeof answer);
    llama_sampler_reset(sampler);
    generate(&q, sampler, many / 5);
    llama_sampler_free(sampler);
}

/* Orders that are refused change nothing. Samplers that an order does not name are off. */
static void check_order(void)
{
    static const uint8_t stages[CLS_CHAIN_LENGTH] = {
        CLS_STAGE_INFILL, CLS_STAGE_TYPICAL_P,   CLS_STAGE_XTC,
        CLS_STAGE_TOP_K,  CLS_STAGE_TEMPERATURE, CLS_STAGE_TOP_N_SIGMA,
        CLS_STAGE_TOP_P,  CLS_STAGE_MIN_P,       CLS_STAGE_P_LESS};
    struct sequence q;
    cls_params *p = &q.params, off, before;
    begin(&q, LISTS);
    p->repetition_penalty = p->frequency_penalty = p->presence_penalty = 1.5f;
    p->adaptive_target = 0.5f;
    before = *p;
    CHECK(!clsample_llama_order(p, "kk") && !clsample_llama_order(p, "kz"));
    CHECK(!clsample_llama_order(p, "?") && !clsample_llama_order(p, "ee"));
    CHECK(memcmp(p, &before, sizeof *p) == 0);

    CHECK(clsample_llama_order(p, "iyexktasdpm"));
    CHECK(p->chain == CLS_CHAIN_CUSTOM && memcmp(p->stages, stages, sizeof stages) == 0 &&
          p->infill == 1);
    p->infill = before.infill;
    memcpy(p->stages, before.stages, sizeof p->stages);
    CHECK(memcmp(p, &before, sizeof *p) == 0); /* all are named, so nothing changes */

    cls_params_init(&off);
    CHECK(clsample_llama_order(p, ""));
    CHECK(p->temperature == off.temperature && p->dynatemp_range == off.dynatemp_range &&
          p->top_k == off.top_k);
    CHECK(p->top_p == off.top_p && p->min_p == off.min_p && p->top_n_sigma == off.top_n_sigma);
    CHECK(p->typical_p == off.typical_p && p->xtc_probability == off.xtc_probability &&
          p->infill == off.infill);
    CHECK(p->repetition_penalty == off.repetition_penalty &&
          p->frequency_penalty == off.frequency_penalty);
    CHECK(p->presence_penalty == off.presence_penalty && p->dry_multiplier == off.dry_multiplier);
    CHECK(p->adaptive_target == off.adaptive_target);
}

/* A sampler that fails selects nothing and does not affect the others. */
static void check_failures(clsample_llama *shared)
{
    struct sequence q, other;
    struct llama_sampler *samplers[SLOTS + 1];
    begin(&q, PENALTIES);
    const int32_t stop = 3;
    for (int i = 0; i < 6; i++) {
        cls_params bad = q.params;
        bad.stop_ids = (cls_ids){&stop, i == 0};
        bad.max_tokens = i == 1 ? 5 : 0;
        bad.loop_repeats = i == 2 ? 2 : 0;
        bad.top_p = i == 3 ? 2 : 1;
        bad.penalty_window = i == 4 ? HISTORY + 1 : 1;
        bad.min_tokens = i == 5 ? 2 : 0;
        CHECK(clsample_llama_sampler_init(shared, &bad) == NULL);
    }

    samplers[0] = clsample_llama_sampler_init(shared, &q.params);
    for (int i = 1; i <= SLOTS; i++)
        samplers[i] = llama_sampler_clone(samplers[0]); /* there is no slot for the last one */
    CHECK(clsample_llama_sampler_init(shared, &q.params) == NULL);
    next_logits();
    llama_sampler_accept(samplers[SLOTS], 1);
    llama_sampler_reset(samplers[SLOTS]);
    CHECK(selected(samplers[SLOTS], all_candidates()) == -1);
    other = fork_of(&q, 1);
    generate(&q, samplers[0], 5);
    for (uint32_t t = 0; t < VOCAB; t++)
        logits[t] = t % 2 ? -INFINITY : NAN;
    CHECK(selected(samplers[0], all_candidates()) == -1);
    llama_token_data_array outside = all_candidates();
    data[3] = (llama_token_data){VOCAB, 9.0f, 0.0f};
    CHECK(selected(samplers[0], outside) == -1);
    llama_sampler_reset(samplers[0]); /* the token was not accepted */
    generate(&other, samplers[0], 5);
    q = fork_of(&other, 0);
    llama_sampler_copy(samplers[0], samplers[1]); /* needs no further slot */
    generate(&other, samplers[1], 5);
    llama_sampler_free(samplers[1]);
    samplers[1] = NULL;
    llama_sampler_copy(samplers[0], samplers[SLOTS]); /* the failed one takes the free slot */
    generate(&q, samplers[SLOTS], 5);
    for (int i = 0; i <= SLOTS; i++)
        llama_sampler_free(samplers[i]);
    samplers[0] = clsample_llama_sampler_init(shared, &q.params); /* slots can be used again */
    CHECK(samplers[0] != NULL);
    llama_sampler_free(samplers[0]);
}

int main(void)
{
    struct sequence q;
    const char *size = getenv("CLS_TEST_SIZE");
    if (size != NULL && strcmp(size, "tiny") == 0)
        many = 15;
    clsample_llama *shared = clsample_llama_open(NULL, VOCAB, SLOTS, HISTORY);
    if (shared == NULL)
        return 77; /* no device */
    for (int32_t t = 0; t < VOCAB; t++)
        prefix_of[t] = t < 10 ? -1 : t / 10;
    open_reference();
    begin(&q, INFILL);
    fprintf(stderr, "check_adapter: a message about infill without its tables follows\n");
    CHECK(clsample_llama_sampler_init(shared, &q.params) == NULL);
    CHECK(clsample_llama_infill(shared, &infill));
    for (int kind = 0; kind < KINDS; kind++)
        check_text(shared, kind);
    check_refused(shared, PENALTIES);
    check_refused(shared, MIROSTAT);
    check_fewer(shared);
    check_clones(shared, PENALTIES);
    check_clones(shared, LISTS);
    check_arrays(shared);
    fprintf(stderr,
            "check_adapter: messages about orders, bad parameters, slots and candidates follow\n");
    check_order();
    check_failures(shared);

    begin(&q, DEFAULTS);
    struct llama_sampler *sampler = clsample_llama_sampler_init(shared, &q.params);
    clsample_llama_close(shared); /* before its last sampler */
    generate(&q, sampler, 3);
    llama_sampler_free(sampler);
    cls_sampler_destroy(reference);
    CHECK(clsample_llama_open(NULL, 0, 1, 0) == NULL);
    printf("check_adapter: all tokens equal the reference's\n");
    return 0;
}
