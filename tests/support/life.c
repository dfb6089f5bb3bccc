/* SPDX-License-Identifier: MIT */
#include "life.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "faulty.h"
#include "faulty_memory.h"
#include "rows/kinds.h"

enum { SLOTS = 4, DRAFTS = 3, WORDS = 600, HIDDEN = 16, HEAD_ROWS = 4, TOP = 5, CANDIDATES = 8 };

static const int32_t prompt[] = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3,
                                 2, 3,  8,  4, 6,  2, 6,  4, 3, 3, 8, 3};
static const int32_t output[] = {3, 14, 15};

/* ------------------------------------------------------------------ parameters */

static cls_params plain(uint32_t seed)
{
    cls_params p;
    cls_params_init(&p);
    p.seed = seed;
    p.temperature = 0.9f;
    return p;
}

static cls_status begin_rich(life *l)
{
    static const int32_t stops[] = {38, 37}, single[] = {1}, pair[] = {2, 3}, bad[] = {5, 6},
                         worse[] = {7}, thinks[] = {2, 3}, answers[] = {20, 21};
    static const cls_ids breakers[] = {{single, 1}, {pair, 2}}, words[] = {{bad, 2}, {worse, 1}};
    static const cls_logit_bias biases[] = {{4, 1.5f}, {11, -INFINITY}, {4, 0.25f}};
    cls_params p = plain(1);
    p.top_p = 0.95f;
    p.top_k = 30;
    p.repetition_penalty = 1.2f;
    p.frequency_penalty = 0.3f;
    p.dry_multiplier = 0.8f;
    p.dry_breakers = (cls_sequences){breakers, 2};
    p.bad_words = (cls_sequences){words, 2};
    p.logit_bias = (cls_biases){biases, 3};
    p.stop_ids = (cls_ids){stops, 2};
    p.min_tokens = 2;
    p.thinking_start = (cls_ids){thinks, 2};
    p.thinking_ends = (cls_sequences){&(cls_ids){answers + 1, 1}, 1};
    p.thinking_forced = (cls_ids){answers, 2};
    p.thinking_budget = 4; /* one token after the output's three */
    return cls_slot_begin(l->sampler, 0, &p, TEXT(prompt, 24, output, 3));
}

static cls_status begin_greedy(life *l)
{
    cls_params p = plain(2);
    p.temperature = 0.0f;
    p.presence_penalty = 1.0f;
    p.penalty_window = 8;
    return cls_slot_begin(l->sampler, 1, &p, TEXT(prompt, 10, NULL, 0));
}

static cls_status begin_mirostat(life *l)
{
    cls_params p = plain(3);
    p.mirostat = 2;
    return cls_slot_begin(l->sampler, 2, &p, NULL);
}

static cls_status begin_infill(life *l)
{
    cls_params p = plain(4);
    p.infill = 1;
    p.top_k = 20;
    p.loop_repeats = 4;
    p.loop_max = 5;
    return cls_slot_begin(l->sampler, 3, &p, TEXT(prompt, 5, NULL, 0));
}

/* The bad words require a larger buffer for the lists. In a large vocabulary, top-k requires the
 * search. */
static cls_status change_params(life *l)
{
    static int32_t ids[WORDS][2];
    static cls_ids words[WORDS];
    cls_params p = plain(5);
    for (int32_t i = 0; i < WORDS; i++) {
        ids[i][0] = i % 20;
        ids[i][1] = 20 + i / 20 % 20;
        words[i] = (cls_ids){ids[i], 2};
    }
    cls_params answer = p; /* outside the thinking */
    answer.seed = 0;
    answer.top_k = 50;
    p.thinking_start = (cls_ids){ids[1], 2};
    p.thinking_ends = (cls_sequences){&p.thinking_start, 1};
    p.post_thinking = &answer;
    p.bad_words = (cls_sequences){words, WORDS};
    p.top_k = 1100;
    p.logit_bias.biases = &(const cls_logit_bias){9, 2.0f};
    p.logit_bias.count = 1;
    return cls_slot_params(l->sampler, 0, &p);
}

/* Makes a grammar of two states, each of which forbids other ids. */
static cls_status grammar_create(life *l)
{
    enum { STATES = 2, MOST = 4096 };
    static int32_t ids[STATES * MOST];
    static uint32_t next[STATES * MOST];
    uint64_t offsets[STATES + 1] = {0};
    cls_grammar_options o;
    cls_grammar_options_init(&o);
    for (uint32_t s = 0; s < STATES; s++) {
        offsets[s + 1] = offsets[s];
        for (uint32_t id = 0; id < l->vocab; id++)
            if ((id + 2 * s) % 5 != 4) {
                ids[offsets[s + 1]] = (int32_t)id;
                next[offsets[s + 1]++] = id % STATES;
            }
    }
    o.vocab = l->vocab;
    o.states = STATES;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    return cls_grammar_create(&o, &l->grammar);
}

static cls_status follow(life *l)
{
    cls_params p = plain(7);
    p.grammar = l->grammar;
    return cls_slot_params(l->sampler, 3, &p);
}

/* The request keeps the grammar. */
static cls_status grammar_destroy(life *l)
{
    cls_grammar_destroy(l->grammar);
    l->grammar = NULL;
    return CLS_OK;
}

static cls_status append(life *l) { return cls_slot_append_prompt(l->sampler, 1, prompt, 7); }
static cls_status next_turn(life *l) { return cls_slot_next_turn(l->sampler, 1, prompt, 7); }
static cls_status copy(life *l) { return cls_slot_copy(l->sampler, 3, 0); }
static cls_status force(life *l)
{
    return cls_slot_force(l->sampler, 2, (const int32_t[]){30, 31, 32}, 3);
}
static cls_status rollback(life *l) { return cls_slot_rollback(l->sampler, 1, 1); }
static cls_status reset(life *l) { return cls_slot_reset(l->sampler, 3); }
static cls_status check(life *l)
{
    const cls_params p = plain(6);
    return cls_sampler_check(l->sampler, &p);
}

/* ---------------------------------------------------------------- creation and destruction */

static cls_status create(life *l)
{
    cls_sampler_options o;
    cls_sampler_options_init(&o);
    o.late_compile = 1;
    o.vocab = l->vocab;
    o.max_rows = LIFE_ROWS;
    o.slot_count = SLOTS;
    o.max_history = 20;
    o.max_rollback = 4;
    return cls_sampler_create(l->context, &o, &l->sampler);
}

static cls_status infill(life *l)
{
    static const int32_t ends[] = {0, 1};
    static int32_t prefix_of[4096];
    cls_infill tables = {sizeof tables, {ends, 2}, prefix_of};
    for (uint32_t i = 0; i < l->vocab; i++)
        prefix_of[i] = i < 10 ? -1 : (int32_t)i / 10;
    return cls_sampler_infill(l->sampler, &tables);
}

static cls_status memory(life *l)
{
    cls_memory m = {.struct_size = sizeof m};
    return cls_sampler_memory(l->sampler, &m);
}

static cls_status save_size(life *l)
{
    return cls_slot_save(l->sampler, l->queue, 0, NULL, &l->host.queried_size);
}
static cls_status save(life *l)
{
    size_t size = sizeof l->host.saved;
    const cls_status status = cls_slot_save(l->sampler, l->queue, 0, l->host.saved, &size);
    l->host.saved_size = status == CLS_OK ? size : 0;
    return status;
}
static cls_status load(life *l)
{
    return cls_slot_load(l->sampler, 2, l->host.saved, l->host.saved_size, NULL);
}

static cls_status ring_create(life *l)
{
    return cls_readback_create(l->context, LIFE_ROWS * sizeof(int32_t), 2, &l->ring);
}
static cls_status ring_start(life *l)
{
    return cls_readback_start(l->ring, l->queue, &(const cls_buffer){.buffer = l->out},
                              LIFE_ROWS * sizeof(int32_t), 2, l->waits, &l->ticket);
}
static cls_status ring_get(life *l)
{
    const void *data;
    const cls_status status = cls_readback_get(l->ring, l->ticket, 1, &data);
    if (status == CLS_OK)
        memcpy(l->host.readback, data, sizeof l->host.readback);
    return status;
}

static cls_status head_create(life *l)
{
    cls_head_options o;
    cls_head_options_init(&o);
    o.vocab = l->vocab;
    o.hidden = HIDDEN;
    o.max_rows = HEAD_ROWS;
    o.dtype = CLS_F16;
    o.weight.buffer = l->weight;
    o.bias.buffer = l->head_bias;
    o.softcap = 20.0f;
    return cls_head_create(l->queue, &o, &l->head);
}

static cls_status head_call(life *l, const int32_t *which)
{
    cls_head_call c;
    cls_head_call_init(&c);
    c.rows = HEAD_ROWS;
    c.hidden.buffer = l->hidden;
    c.which.host = which;
    c.logits.buffer = l->head_out;
    return cls_head_logits(l->head, l->queue, &c, 2, l->waits, &l->done);
}
static cls_status head_first(life *l) { return head_call(l, (const int32_t[]){1, 0, -1, 3}); }
static cls_status head_second(life *l) { return head_call(l, (const int32_t[]){3, 2, 1, 0}); }

static cls_status shard_create(life *l) { return cls_shard_create(l->sampler, NULL, &l->shard); }

static cls_status destroy(life *l)
{
    cls_shard_destroy(l->shard);
    l->shard = NULL;
    cls_sampler_destroy(l->sampler);
    cls_readback_destroy(l->ring);
    cls_head_destroy(l->head);
    grammar_destroy(l);
    l->sampler = NULL;
    l->ring = NULL;
    l->head = NULL;
    return CLS_OK;
}

/* ------------------------------------------------------------------------ steps */

/* Reserves n numbers of the output buffer. */
static cls_buffer room(life *l, size_t n)
{
    const cls_buffer b = {.buffer = l->out, .offset = l->at};
    l->at += n * sizeof(int32_t); /* the library refuses outputs beyond the buffer's end */
    return b;
}

static void step_of(life *l, cls_step *s, cls_outputs *o, uint32_t rows)
{
    cls_step_init(s);
    cls_outputs_init(o);
    s->outputs = o;
    l->at = 0;
    s->rows = rows;
    s->logits.values.buffer = l->logits;
    s->tokens = room(l, LIFE_ROWS);
    s->status = room(l, LIFE_ROWS);
    o->latest = room(l, SLOTS);
}

/* Makes a step with masks from the host, a dense bias and maps. It writes raw log-probabilities and
 * candidates. */
static cls_status masked(life *l)
{
    static const int32_t slots[] = {3, 1, 0, 2}, biases[] = {1, -1, 0, 0}, masks[] = {0, 1, -1, 0};
    cls_step s;
    cls_outputs o;
    step_of(l, &s, &o, SLOTS);
    s.slots.host = slots;
    s.mask.host = l->mask;
    s.mask.rows = 2;
    s.mask.row_map.host = masks;
    s.bias.values.buffer = l->bias;
    s.bias.dtype = CLS_F16;
    s.bias.rows = 2;
    s.bias.row_map.host = biases;
    o.top.count = TOP;
    o.top.ids = room(l, LIFE_ROWS * TOP);
    o.top.logprobs = room(l, LIFE_ROWS * TOP);
    o.given.count = 2;
    o.given.ids.buffer = l->given;
    o.given.logprobs = room(l, LIFE_ROWS * 2);
    o.kept.count = CANDIDATES;
    o.kept.ids = room(l, LIFE_ROWS * CANDIDATES);
    o.kept.logits = room(l, LIFE_ROWS * CANDIDATES);
    o.kept.counts = room(l, LIFE_ROWS);
    return cls_sample(l->sampler, l->queue, &s, 2, l->waits, &l->done);
}

/* Makes a step with all outputs of the final distribution and without an event. */
static cls_status reported(life *l)
{
    cls_step s;
    cls_outputs o;
    step_of(l, &s, &o, SLOTS);
    o.logprob_kind = CLS_LOGPROB_FINAL;
    o.logprobs = room(l, LIFE_ROWS);
    o.ranks = room(l, LIFE_ROWS);
    o.entropy = room(l, LIFE_ROWS);
    o.kept.counts = room(l, LIFE_ROWS);
    o.probs = room(l, LIFE_ROWS * (size_t)l->vocab);
    o.kept_set.capacity = CANDIDATES;
    o.kept_set.ids = room(l, LIFE_ROWS * CANDIDATES);
    o.kept_set.counts = room(l, LIFE_ROWS);
    return cls_sample(l->sampler, l->queue, &s, 0, NULL, NULL);
}

static cls_status unadorned(life *l)
{
    cls_step s;
    cls_outputs o;
    step_of(l, &s, &o, SLOTS);
    return cls_sample(l->sampler, l->queue, &s, 0, NULL, &l->done);
}

/* Returns a copy that is named by a pointer, if the device has such memory. */
static cls_buffer pointer_to(life *l, cls_buffer of)
{
    return l->has_svm ? pointers_to(&l->svm, of) : of;
}

/* Makes a step some of whose buffers are pointers. */
static cls_status pointed(life *l)
{
    cls_step s;
    cls_outputs o;
    step_of(l, &s, &o, SLOTS);
    s.logits.values = pointer_to(l, s.logits.values);
    s.tokens = pointer_to(l, s.tokens);
    return cls_sample(l->sampler, l->queue, &s, 2, l->waits, &l->done);
}
static cls_status pointed_start(life *l)
{
    const cls_buffer tokens = pointer_to(l, (cls_buffer){.buffer = l->out});
    return cls_readback_start(l->ring, l->queue, &tokens, LIFE_ROWS * sizeof(int32_t), 2, l->waits,
                              &l->ticket);
}

/* Makes a step on the only shard, with all its exchanges. */
static cls_status sharded(life *l)
{
    cls_step s;
    cls_outputs o;
    int more = 1;
    step_of(l, &s, &o, SLOTS);
    cls_status status = cls_shard_sample(l->shard, l->queue, &s, 2, l->waits);
    while (status == CLS_OK && more) {
        const void *partial;
        size_t size;
        status = cls_shard_partial(l->shard, &partial, &size);
        if (status == CLS_OK)
            status = cls_shard_merge(l->shard, partial, size, &more, &l->done);
    }
    ck_assert_int_eq(cls_shard_abandon(l->shard), l->shard != NULL ? CLS_OK : CLS_BAD_ARGUMENT);
    return status;
}

/* Brings logits together, and samples from them. */
static cls_status gathered(life *l)
{
    cls_step s;
    cls_outputs o;
    const void *partial;
    size_t size;
    int more;
    step_of(l, &s, &o, SLOTS);
    cls_status status = cls_shard_gather(l->shard, l->queue, SLOTS, &s.logits, 2, l->waits);
    if (status == CLS_OK)
        status = cls_shard_partial(l->shard, &partial, &size);
    if (status == CLS_OK)
        status = cls_shard_merge(l->shard, partial, size, &more, NULL);
    ck_assert_int_eq(cls_shard_abandon(l->shard), l->shard != NULL ? CLS_OK : CLS_BAD_ARGUMENT);
    if (status == CLS_OK)
        status = cls_shard_logits(l->shard, &s.logits);
    return status == CLS_OK ? cls_sample(l->sampler, l->queue, &s, 0, NULL, &l->done) : status;
}

static cls_status deferred(life *l)
{
    cls_step s;
    cls_outputs o;
    step_of(l, &s, &o, LIFE_ROWS);
    o.latest.buffer = NULL;
    s.slots.host = (const int32_t[]){0, 0, 1, 2, 2, 3};
    s.draws.host = (const int32_t[]){0, 1, 0, 0, 1, 0};
    s.defer_accept = 1;
    return cls_sample(l->sampler, l->queue, &s, 1, l->waits, &l->done);
}

static cls_status accept(life *l)
{
    const cls_ints tokens = {.host = (const int32_t[]){1, 2, -1, 3}},
                   slots = {.host = (const int32_t[]){2, 0, 1, 3}};
    return accept_ints(l->sampler, l->queue, 4, 1, &tokens, &slots, 2, l->waits, &l->done);
}

/* Accepts several tokens of each row, which are uploaded as masks are. */
static cls_status accept_several(life *l)
{
    const cls_ints tokens = {.host = (const int32_t[]){5, 6, -1, 33, 2, 3}},
                   slots = {.host = (const int32_t[]){1, 2}};
    return accept_ints(l->sampler, l->queue, 2, 3, &tokens, &slots, 2, l->waits, &l->done);
}

static cls_status of_head(life *l)
{
    cls_step s;
    cls_outputs o;
    step_of(l, &s, &o, SLOTS);
    s.logits.values.buffer = l->head_out;
    return cls_sample(l->sampler, l->queue, &s, 2, l->waits, &l->done);
}

static cls_status verify(life *l)
{
    cls_verify_call c;
    cls_verify_call_init(&c);
    l->at = 0;
    c.requests = 2;
    c.method = CLS_VERIFY_STANDARD;
    c.row_offsets = (const int32_t[]){0, 3, 5};
    c.slots.host = (const int32_t[]){3, 0};
    c.logits.values.buffer = l->logits;
    c.draft_ids.host = (const int32_t[]){12, 25, 31};
    c.draft_kind = CLS_DRAFT_PROBS;
    c.draft.buffer = l->drafts;
    c.mask.host = l->mask;
    c.mask.rows = 2;
    c.mask.row_map.host = (const int32_t[]){-1, 0, 1, -1, 1};
    c.tokens = room(l, 2 * (DRAFTS + 1));
    c.accepted = room(l, 2);
    c.emitted = room(l, 2);
    c.nodes = room(l, 2 * DRAFTS);
    c.status = room(l, 2);
    l->at = l->out_size -
            SLOTS * 3 * sizeof(int32_t); /* counters are accumulated, so no other output is there */
    c.counters = room(l, SLOTS * 3);
    return cls_verify(l->sampler, l->queue, &c, 2, l->waits, &l->done);
}

/* Drafts from the texts, in a column for each request. */
static cls_status draft(life *l)
{
    cls_draft_call c;
    cls_draft_call_init(&c);
    l->at = 0;
    c.requests = 4;
    c.k = 3;
    c.min_n = 1;
    c.ids_stride = 4;
    c.ids_request_stride = 1;
    c.slots.host = (const int32_t[]){2, 0, -1, 3};
    c.draft_ids = room(l, 4 * 3);
    c.counts = room(l, 4);
    return cls_draft(l->sampler, l->queue, &c, 2, l->waits, &l->done);
}

static cls_status logprobs(life *l)
{
    cls_logprobs_call c;
    cls_logprobs_call_init(&c);
    l->at = 0;
    c.rows = 3;
    c.given.count = 2;
    c.logits.values.buffer = l->logits;
    c.given.ids.buffer = l->given;
    c.given.logprobs = room(l, LIFE_ROWS * 2);
    c.given.ranks = room(l, LIFE_ROWS * 2);
    return cls_logprobs(l->sampler, l->queue, &c, 1, l->waits, &l->done);
}

const life_call life_calls[] = {
    {"cls_sampler_create()", create, LIFE_OTHER},
    {"cls_sampler_infill()", infill, LIFE_OTHER},
    {"cls_slot_begin(), all sorts of lists", begin_rich, LIFE_SLOT},
    {"cls_slot_begin(), greedy", begin_greedy, LIFE_SLOT},
    {"cls_slot_begin(), mirostat", begin_mirostat, LIFE_SLOT},
    {"cls_slot_begin(), infill", begin_infill, LIFE_SLOT},
    {"cls_sample(), masked", masked, LIFE_STEP},
    {"cls_sampler_infill(), again", infill, LIFE_OTHER},
    {"cls_slot_params()", change_params, LIFE_SLOT},
    {"cls_slot_append_prompt()", append, LIFE_SLOT},
    {"cls_slot_next_turn()", next_turn, LIFE_SLOT},
    {"cls_sample(), reported", reported, LIFE_STEP},
    {"cls_readback_create()", ring_create, LIFE_OTHER},
    {"cls_readback_start()", ring_start, LIFE_OTHER},
    {"cls_slot_copy()", copy, LIFE_SLOT},
    {"cls_sampler_check()", check, LIFE_OTHER},
    {"cls_readback_get()", ring_get, LIFE_OTHER},
    {"cls_grammar_create()", grammar_create, LIFE_OTHER},
    {"cls_slot_params(), with a grammar", follow, LIFE_SLOT},
    {"cls_grammar_destroy()", grammar_destroy, LIFE_OTHER},
    {"cls_sample(), deferred", deferred, LIFE_STEP},
    {"cls_accept()", accept, LIFE_STEP},
    {"cls_slot_force()", force, LIFE_SLOT},
    {"cls_accept(), several tokens", accept_several, LIFE_STEP},
    {"cls_draft()", draft, LIFE_STEP},
    {"cls_slot_rollback()", rollback, LIFE_SLOT},
    {"cls_slot_save(), its size", save_size, LIFE_STEP},
    {"cls_verify()", verify, LIFE_STEP},
    {"cls_slot_save()", save, LIFE_STEP},
    {"cls_slot_load()", load, LIFE_SLOT},
    {"cls_slot_reset()", reset, LIFE_SLOT},
    {"cls_slot_begin(), again", begin_infill, LIFE_SLOT},
    {"cls_sampler_memory()", memory, LIFE_OTHER},
    {"cls_logprobs()", logprobs, LIFE_STEP},
    {"cls_sample()", unadorned, LIFE_STEP},
    {"cls_sample(), with pointers", pointed, LIFE_STEP},
    {"cls_readback_start(), of a pointer", pointed_start, LIFE_OTHER},
    {"cls_readback_get(), of a pointer", ring_get, LIFE_OTHER},
    {"cls_head_create()", head_create, LIFE_OTHER},
    {"cls_head_logits()", head_first, LIFE_OTHER},
    {"cls_head_logits(), another map", head_second, LIFE_OTHER},
    {"cls_sample(), of the head's logits", of_head, LIFE_STEP},
    {"cls_readback_start(), again", ring_start, LIFE_OTHER},
    {"cls_shard_create()", shard_create, LIFE_OTHER},
    {"cls_shard_sample()", sharded, LIFE_STEP},
    {"cls_shard_gather()", gathered, LIFE_STEP},
    {"cls_shard_sample(), again", sharded, LIFE_STEP},
    {"cls_grammar_create(), again", grammar_create, LIFE_OTHER},
    {"cls_slot_params(), with a grammar that no step copies", follow, LIFE_SLOT},
    {"the end", destroy, LIFE_OTHER},
};
const uint32_t life_count = sizeof life_calls / sizeof life_calls[0];

/* ------------------------------------------------------------------ set-up and output */

static cl_mem half_buffer(device *d, size_t n, uint64_t seed)
{
    uint16_t *const half = calloc(n, sizeof *half);
    rng r = {seed};
    ck_assert(half != NULL);
    for (size_t i = 0; i < n; i++)
        dtype_encode(CLS_F16, (float)rng_normal(&r), &half[i]);
    const cl_mem buffer = buffer_of(d, n * sizeof *half, half);
    free(half);
    return buffer;
}

static cl_mem row_buffer(device *d, uint32_t rows, uint32_t n, uint64_t seed)
{
    float *const x = calloc((size_t)rows * n, sizeof *x);
    ck_assert(x != NULL);
    for (uint32_t row = 0; row < rows; row++)
        row_fill(ROW_NORMAL3, x + (size_t)row * n, n, seed + row);
    const cl_mem buffer = buffer_of(d, (size_t)rows * n * sizeof *x, x);
    free(x);
    return buffer;
}

void life_open(life *l, device *d, cls_context *context, uint32_t vocab)
{
    const int32_t given[LIFE_ROWS * 2] = {1, 2, 3, -1, 5, 6, 7, 8, 9, 39, 11, 12};
    const uint32_t words = (vocab + 31) / 32;
    cl_int code;
    memset(l, 0, sizeof *l);
    l->d = d;
    l->context = context;
    l->vocab = vocab;
    l->queues[0] = clCreateCommandQueue(d->context, d->id, 0, &code);
    must_cl(code);
    l->queues[1] =
        clCreateCommandQueue(d->context, d->id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (code != CL_SUCCESS)
        l->queues[1] = clCreateCommandQueue(d->context, d->id, 0, &code);
    must_cl(code);
    l->logits = row_buffer(d, LIFE_ROWS, vocab, 100);
    l->bias = half_buffer(d, 2 * (size_t)vocab, 200);
    l->given = buffer_of(d, sizeof given, given);
    l->weight = half_buffer(d, HIDDEN * (size_t)vocab, 300);
    l->head_bias = row_buffer(d, 1, vocab, 400);
    l->hidden = row_buffer(d, HEAD_ROWS, HIDDEN, 500);
    l->draft = calloc((size_t)DRAFTS * vocab, sizeof *l->draft);
    l->mask = calloc(2 * (size_t)words, sizeof *l->mask);
    ck_assert(l->draft != NULL && l->mask != NULL);
    for (size_t i = 0; i < (size_t)DRAFTS * vocab; i++)
        l->draft[i] = i % vocab == 12 ? 0.5f : 0.5f / (float)(vocab - 1);
    for (uint32_t i = 0; i < 2 * words; i++)
        l->mask[i] = i < words ? 0x55555555u : 0x7ffffff7u;
    l->drafts = buffer_of(d, (size_t)DRAFTS * vocab * sizeof *l->draft, l->draft);
    l->out_size = LIFE_ROWS * ((size_t)vocab + 64) * sizeof(int32_t);
    l->head_out_size = HEAD_ROWS * (size_t)vocab * sizeof(float);
    l->out = buffer_of(d, l->out_size, NULL);
    l->head_out = buffer_of(d, l->head_out_size, NULL);
    l->has_svm = pointers_open(&l->svm, d, CLS_BUFFER_SVM);
    pointer_to(l, (cls_buffer){.buffer = l->logits}); /* before any fault */
    pointer_to(l, (cls_buffer){.buffer = l->out});
}

void life_close(life *l)
{
    pointers_close(&l->svm);
    release_buffers(l->logits, l->bias, l->given, l->drafts, l->weight, l->head_bias, l->hidden,
                    l->out, l->head_out);
    for (int i = 0; i < 2; i++)
        clReleaseCommandQueue(l->queues[i]);
    free(l->draft);
    free(l->mask);
}

void life_begin(life *l)
{
    const uint32_t zero = 0;
    must_cl(clEnqueueFillBuffer(l->queues[0], l->out, &zero, sizeof zero, 0, l->out_size, 0, NULL,
                                NULL));
    must_cl(clEnqueueFillBuffer(l->queues[0], l->head_out, &zero, sizeof zero, 0, l->head_out_size,
                                0, NULL, NULL));
    must_cl(clFinish(l->queues[0]));
    memset(&l->host, 0, sizeof l->host);
}

static void settle(const life *l)
{
    for (int i = 0; i < 2; i++)
        must_cl(clFinish(l->queues[i]));
}

void life_end(life *l)
{
    settle(l);
    destroy(l);
}

cls_status life_call_make(life *l, uint32_t i, uint32_t which)
{
    l->queue = l->queues[which];
    l->other = l->queues[1 - which];
    /* Each call waits for everything that was enqueued before. */
    must_cl(clEnqueueMarkerWithWaitList(l->other, 0, NULL, &l->waits[0]));
    must_cl(clEnqueueMarkerWithWaitList(l->queue, 0, NULL, &l->waits[1]));
    must_cl(clFlush(l->other));
    faulty_on = faulty_memory_on = 1;
    const cls_status status = life_calls[i].make(l);
    faulty_on = faulty_memory_on = 0;
    for (int k = 0; k < 2; k++)
        clReleaseEvent(l->waits[k]);
    ck_assert_msg(status == CLS_OK || l->done == NULL, "%s failed but returned an event",
                  life_calls[i].name);
    if (l->done != NULL)
        clReleaseEvent(l->done);
    l->done = NULL;
    return status;
}

size_t life_output_size(const life *l) { return l->out_size + l->head_out_size + sizeof l->host; }

void life_read_output(life *l, unsigned char *bytes)
{
    settle(l);
    must_cl(
        clEnqueueReadBuffer(l->queues[0], l->out, CL_TRUE, 0, l->out_size, bytes, 0, NULL, NULL));
    must_cl(clEnqueueReadBuffer(l->queues[0], l->head_out, CL_TRUE, 0, l->head_out_size,
                                bytes + l->out_size, 0, NULL, NULL));
    memcpy(bytes + l->out_size + l->head_out_size, &l->host, sizeof l->host);
}
