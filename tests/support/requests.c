/* SPDX-License-Identifier: MIT */
/* Makes the requests of a batch's rows: tokens, penalties, biases, stop ids. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"

static void *copy_of(const void *array, size_t size)
{
    void *const p = must_malloc(size ? size : 1);
    if (size)
        memcpy(p, array, size);
    return p;
}

/* Allocates a list that is freed with the batch. */
static void *own_list(batch *b, const void *array, size_t size)
{
    if (size == 0)
        return NULL;
    b->lists = realloc(b->lists, (b->n_lists + 1) * sizeof *b->lists);
    ck_assert_msg(b->lists != NULL, "out of memory");
    return b->lists[b->n_lists++] = copy_of(array, size);
}

static const cls_ids *own_sequences(batch *b, const cls_ids *sequences, uint32_t count)
{
    cls_ids *const mine = own_list(b, sequences, count * sizeof *sequences);
    for (uint32_t i = 0; i < count; i++)
        mine[i].ids = own_list(b, sequences[i].ids, sequences[i].count * sizeof *sequences[i].ids);
    return mine;
}

/* Keeps a grammar as long as the batch. */
static void own_grammar(batch *b, const cls_grammar *grammar)
{
    if (grammar == NULL)
        return;
    b->grammars = realloc(b->grammars, (b->n_grammars + 1) * sizeof *b->grammars);
    ck_assert_msg(b->grammars != NULL, "out of memory");
    cls_grammar_retain(grammar);
    b->grammars[b->n_grammars++] = grammar;
}

static void set_request(batch *b, uint32_t row, const cls_params *p, const tokens *t)
{
    tokens *const mine = &b->tokens[row];
    free(mine->prompt);
    free(mine->output);
    free(mine->forced);
    *mine = *t;
    mine->prompt = copy_of(t->prompt, t->prompt_count * sizeof *t->prompt);
    mine->output = copy_of(t->output, t->output_count * sizeof *t->output);
    mine->forced = copy_of(t->forced, t->forced_count * sizeof *t->forced);
    b->params[row] = *p;
    b->params[row].stop_ids.ids =
        own_list(b, p->stop_ids.ids, p->stop_ids.count * sizeof *p->stop_ids.ids);
    b->params[row].logit_bias.biases =
        own_list(b, p->logit_bias.biases, p->logit_bias.count * sizeof *p->logit_bias.biases);
    b->params[row].allowed_ids.ids =
        own_list(b, p->allowed_ids.ids, p->allowed_ids.count * sizeof *p->allowed_ids.ids);
    b->params[row].ngram_exempt_ids.ids = own_list(
        b, p->ngram_exempt_ids.ids, p->ngram_exempt_ids.count * sizeof *p->ngram_exempt_ids.ids);
    b->params[row].penalty_exempt_ids.ids =
        own_list(b, p->penalty_exempt_ids.ids,
                 p->penalty_exempt_ids.count * sizeof *p->penalty_exempt_ids.ids);
    b->params[row].xtc_exempt_ids.ids =
        own_list(b, p->xtc_exempt_ids.ids, p->xtc_exempt_ids.count * sizeof *p->xtc_exempt_ids.ids);
    b->params[row].dry_breakers.sequences =
        own_sequences(b, p->dry_breakers.sequences, p->dry_breakers.count);
    b->params[row].bad_words.sequences =
        own_sequences(b, p->bad_words.sequences, p->bad_words.count);
    b->params[row].thinking_start.ids =
        own_list(b, p->thinking_start.ids, p->thinking_start.count * sizeof *p->thinking_start.ids);
    b->params[row].thinking_ends.sequences =
        own_sequences(b, p->thinking_ends.sequences, p->thinking_ends.count);
    b->params[row].thinking_forced.ids = own_list(
        b, p->thinking_forced.ids, p->thinking_forced.count * sizeof *p->thinking_forced.ids);
    own_grammar(b, p->grammar);
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
    request_forced(t, 1);
}

void request_start(const batch *b, uint32_t row, cls_sampler *sampler, uint32_t slot)
{
    const tokens *const t = &b->tokens[row];
    must(cls_slot_begin(sampler, slot, &b->params[row],
                        TEXT(t->prompt_count ? t->prompt : NULL, t->prompt_count,
                             t->output_count ? t->output : NULL, t->output_count)));
    request_force(b, row, sampler, slot);
}

void request_force(const batch *b, uint32_t row, cls_sampler *sampler, uint32_t slot)
{
    const tokens *const t = &b->tokens[row];
    if (t->forced_count != 0)
        must(cls_slot_force(sampler, slot, t->forced, t->forced_count));
}

void request_forced(tokens *t, uint32_t n)
{
    n = n < t->forced_count ? n : t->forced_count;
    if (n == 0)
        return;
    t->forced_count -= n;
    memmove(t->forced, t->forced + n, t->forced_count * sizeof *t->forced);
}

/* ---------------------------------------------------------------------- random */

/* Returns one of the row's likelier tokens, and sometimes an invalid id. */
static int32_t random_id(const batch *b, uint32_t row, rng *r, int valid)
{
    static const int32_t none[] = {-1, INT32_MIN, INT32_MAX};
    const float *const values = b->values + (size_t)row * b->vocab;
    if (!valid && rng_below(r, 12) == 0)
        return rng_below(r, 2) ? (int32_t)b->vocab : none[rng_below(r, 3)];
    uint32_t best = rng_below(r, b->vocab);
    for (int i = 0; i < 6; i++) {
        const uint32_t other = rng_below(r, b->vocab);
        best = values[other] > values[best] ? other : best;
    }
    return (int32_t)best;
}

static void random_tokens(const batch *b, uint32_t row, rng *r, int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i > 0 && rng_below(r, 2) ? ids[rng_below(r, i)] : random_id(b, row, r, 0);
}

enum { LISTED = 20, SEQUENCES = 5, SEQUENCE = 4 };

/* The lists of a request with history. */
typedef struct looks_back {
    int32_t allowed[LISTED], exempt[LISTED], breaker_ids[SEQUENCES][SEQUENCE],
        word_ids[SEQUENCES][SEQUENCE];
    cls_ids breakers[SEQUENCES], words[SEQUENCES];
} looks_back;

/* Copies consecutive ids from the request's tokens, so that they are likely to occur again, and
 * sometimes adds another id. */
static void random_sequence(const batch *b, uint32_t row, rng *r, const int32_t *from, uint32_t n,
                            int at_end, int32_t *ids, cls_ids *sequence)
{
    const uint32_t count = 1 + rng_below(r, SEQUENCE),
                   copied = count - (at_end || rng_below(r, 3) == 0);
    const uint32_t start = copied < n ? at_end ? n - copied : rng_below(r, n - copied) : 0;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t id = i < copied && start + i < n ? from[start + i] : -1;
        ids[i] = id >= 0 && (uint32_t)id < b->vocab ? id : random_id(b, row, r, 1);
    }
    *sequence = (cls_ids){ids, count};
}

/* The lists of a request with forced ids. */
typedef struct ends {
    int32_t start[SEQUENCE], end[SEQUENCE], forced[SEQUENCE];
    cls_ids ends[2];
} ends;

/* Sets parameters that need a history. */
static void random_history(const batch *b, uint32_t row, rng *r, const tokens *t, cls_params *p,
                           looks_back *l)
{
    static const float multipliers[] = {0.8f, 0.8f, 2.0f, -0.5f, 100.0f, 1e30f},
                       bases[] = {1.75f, 1.75f, 1.1f, 1.0f, 3.0f, 1e10f};
    static const uint32_t allowed[] = {2, 2, 1, 0, 3, 20};
    if (rng_below(r, 4) == 0) {
        p->dry_multiplier = multipliers[rng_below(r, 6)];
        p->dry_base = bases[rng_below(r, 6)];
        p->dry_allowed_length = allowed[rng_below(r, 6)];
        p->dry_window = rng_below(r, 2) ? 0 : rng_below(r, b->history + 1);
        p->dry_breakers.count = rng_below(r, 2) ? 0 : rng_below(r, SEQUENCES);
        for (uint32_t i = 0; i < p->dry_breakers.count; i++)
            random_sequence(b, row, r, t->output, t->output_count, 0, l->breaker_ids[i],
                            &l->breakers[i]);
        p->dry_breakers.sequences = p->dry_breakers.count ? l->breakers : NULL;
    }
    p->no_repeat_ngram = rng_below(r, 6) ? 0 : 1 + rng_below(r, b->history < 4 ? b->history : 4);
    if (p->no_repeat_ngram != 0) {
        p->ngram_window = rng_below(r, 2) ? 0 : rng_below(r, b->history + 1);
        p->ngram_output_only = (int32_t)rng_below(r, 2);
        p->ngram_exempt_ids.count = rng_below(r, 2) ? 0 : 1 + rng_below(r, LISTED);
        for (uint32_t i = 0; i < p->ngram_exempt_ids.count; i++)
            l->exempt[i] = random_id(b, row, r, 1);
        p->ngram_exempt_ids.ids = p->ngram_exempt_ids.count ? l->exempt : NULL;
    }
    p->bad_words.count = rng_below(r, 5) ? 0 : rng_below(r, SEQUENCES + 1);
    for (uint32_t i = 0; i < p->bad_words.count; i++)
        random_sequence(b, row, r, t->output, t->output_count, 1, l->word_ids[i], &l->words[i]);
    p->bad_words.sequences = p->bad_words.count ? l->words : NULL;
    p->min_tokens = rng_below(r, 5) ? 0 : t->output_count + rng_below(r, 3);
    p->allowed_ids.count = b->biased && rng_below(r, 10) == 0 ? 1 + rng_below(r, LISTED) : 0;
    for (uint32_t i = 0; i < p->allowed_ids.count; i++)
        l->allowed[i] = random_id(b, row, r, 1);
    if (p->stop_ids.count != 0 && rng_below(r, 4) == 0) /* stop ids only */
        for (uint32_t i = 0; i < p->allowed_ids.count; i++)
            l->allowed[i] = p->stop_ids.ids[rng_below(r, p->stop_ids.count)];
    p->allowed_ids.ids = p->allowed_ids.count ? l->allowed : NULL;
}

/* Returns an id that ends a grammar's text: sometimes one that stops the request or begins its
 * thinking. */
static int32_t random_end(const batch *b, uint32_t row, rng *r, const cls_params *p)
{
    const uint32_t what = rng_below(r, 3);
    if (what == 0 && p->stop_ids.count != 0)
        return p->stop_ids.ids[0];
    if (what == 1 && p->thinking_start.count != 0)
        return p->thinking_start.ids[p->thinking_start.count - 1];
    return random_id(b, row, r, 1);
}

/* Makes a grammar whose first state allows most ids, the second few of them, sometimes only stop
 * ids, and which follows the first tokens of an output. */
static cls_grammar *random_grammar(const batch *b, uint32_t row, rng *r, const tokens *t,
                                   const cls_params *p)
{
    enum { STATES = 3, FEW = 12, FOLLOWED = 20 };
    const uint32_t vocab = b->vocab, odd = 3 + rng_below(r, 30);
    int32_t *const ids = must_malloc((size_t)STATES * vocab * sizeof *ids);
    uint32_t *const next = must_malloc((size_t)STATES * vocab * sizeof *next), state = 0;
    uint8_t *const allowed = must_calloc(STATES, vocab), final_states[STATES] = {1, 0, 1};
    uint64_t offsets[STATES + 1] = {0};
    const int32_t end = random_end(b, row, r, p);
    const int stops_only = p->stop_ids.count != 0 && rng_below(r, 2);
    cls_grammar_options o;
    cls_grammar *g;
    for (uint32_t i = 0; i < vocab; i++)
        allowed[i] = i % odd != 0;
    for (uint32_t i = 0; i < FEW; i++)
        allowed[vocab + (uint32_t)(stops_only ? p->stop_ids.ids[i % p->stop_ids.count]
                                              : random_id(b, row, r, 1))] = 1;
    for (uint32_t i = 0; i < vocab; i++)
        allowed[2 * vocab + i] = i % 2 == 0 || i % odd == 1;
    for (uint32_t i = 0; i < t->output_count && i < FOLLOWED; i++) {
        const uint32_t id = (uint32_t)t->output[i];
        if (id < vocab) {
            allowed[state * vocab + id] = 1;
            state = (state + id) % STATES;
        }
    }
    for (uint32_t s = 0; s < STATES; s++) {
        offsets[s + 1] = offsets[s];
        final_states[s] |= (uint8_t)(vocab < 3);
        for (uint32_t i = 0; i < vocab; i++) {
            if (!allowed[s * vocab + i] || (int32_t)i == end)
                continue;
            ids[offsets[s + 1]] = (int32_t)i;
            next[offsets[s + 1]++] = (s + i) % STATES;
        }
        final_states[s] |= (uint8_t)(offsets[s] == offsets[s + 1]);
    }
    cls_grammar_options_init(&o);
    o.vocab = vocab;
    o.states = STATES;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){&end, 1};
    must(cls_grammar_create(&o, &g));
    free(ids);
    free(next);
    free(allowed);
    return g;
}

/* Turns on a thinking budget whose ids are often due soon, and a loop stop, and forces ids. */
static void random_ends(const batch *b, uint32_t row, rng *r, tokens *t, cls_params *p, ends *e)
{
    const uint32_t most = b->history + 1 < SEQUENCE ? b->history + 1 : SEQUENCE;
    if (rng_below(r, 2)) {
        cls_ids start, *const end = &e->ends[0];
        uint32_t valid = 0;
        for (uint32_t i = 0; i < t->output_count; i++)
            valid += t->output[i] >= 0 && (uint32_t)t->output[i] < b->vocab;
        random_sequence(b, row, r, t->output, t->output_count, 0, e->start, &start);
        random_sequence(b, row, r, t->prompt, t->prompt_count, 0, e->end, end);
        p->thinking_start.count = rng_below(r, 2) ? 0 : start.count < most ? start.count : most;
        end->count = end->count < most ? end->count : most;
        e->ends[1] = (cls_ids){e->end, 1}; /* a second end */
        p->thinking_ends.count = rng_below(r, 2) || end->count == 0 ? 0 : 1 + rng_below(r, 2);
        p->thinking_forced.count = 1 + rng_below(r, SEQUENCE);
        for (uint32_t i = 0; i < p->thinking_forced.count; i++)
            e->forced[i] = random_id(b, row, r, 1);
        p->thinking_budget = rng_below(r, 3) && p->thinking_start.count == 0
                                 ? valid + rng_below(r, 3)
                                 : rng_below(r, 3);
        p->thinking_start.ids = p->thinking_start.count ? e->start : NULL;
        p->thinking_ends.sequences = p->thinking_ends.count ? e->ends : NULL;
        p->thinking_forced.ids = e->forced;
    }
    if (b->history >= 2 && rng_below(r, 4) == 0) {
        p->loop_repeats = 2 + rng_below(r, b->history < 8 ? 1 : 3);
        p->loop_max = 1 + rng_below(r, b->history / p->loop_repeats);
        p->loop_min = 1 + rng_below(r, p->loop_max);
    }
    t->forced_count = rng_below(r, 4) ? 0 : 1 + rng_below(r, SEQUENCE);
    for (uint32_t i = 0; i < t->forced_count; i++)
        t->forced[i] = random_id(b, row, r, 1);
}

void batch_requests(batch *b, rng *r)
{
    static const float repetitions[] = {1.0f, 1.0f, 1.1f, 1.3f, 2.0f, 0.5f, 0.9f, 50.0f};
    static const float amounts[] = {0.0f, 0.0f, 0.1f, 0.5f, 2.0f, -0.3f, -1.0f, 100.0f};
    static const uint32_t lengths[] = {0, 1, 3, 17, 60, 200};
    static const float biases[] = {-INFINITY, -1.0f, 0.5f, 3.0f, -100.0f, 100.0f, 0.0f, 1e30f};
    int32_t prompt[200], output[200], forced[SEQUENCE], stop[4];
    cls_logit_bias bias[20];
    looks_back back;
    ends finish;
    for (uint32_t row = 0; row < b->rows; row++) {
        cls_params p = b->params[row];
        tokens t = {.prompt = prompt, .output = output, .forced = forced};
        t.prompt_count = lengths[rng_below(r, 6)];
        t.output_count = lengths[rng_below(r, 6)];
        random_tokens(b, row, r, prompt, t.prompt_count);
        random_tokens(b, row, r, output, t.output_count);
        if (b->keep != CLS_COUNTS_NONE) {
            p.repetition_penalty = repetitions[rng_below(r, 8)];
            p.presence_penalty = amounts[rng_below(r, 8)];
            p.frequency_penalty = b->keep == CLS_COUNTS_ALL ? amounts[rng_below(r, 8)] : 0.0f;
            p.penalty_scope = (int32_t)rng_below(r, 2);
            p.penalty_window = rng_below(r, 2) ? 0 : rng_below(r, b->history + 1);
        }
        p.logit_bias = (cls_biases){bias, b->biased && rng_below(r, 2) ? rng_below(r, 21) : 0};
        for (uint32_t i = 0; i < p.logit_bias.count; i++)
            bias[i] = (cls_logit_bias){i && rng_below(r, 4) == 0 ? bias[i - 1].id
                                                                 : random_id(b, row, r, 1),
                                       biases[rng_below(r, 8)]};
        p.stop_ids = (cls_ids){stop, rng_below(r, 5)};
        for (uint32_t i = 0; i < p.stop_ids.count; i++)
            stop[i] = random_id(b, row, r, 1);
        p.max_tokens = rng_below(r, 8) ? 0 : t.output_count + 1 + rng_below(r, 3);
        if (p.logit_bias.count == 0)
            p.logit_bias.biases = NULL;
        if (p.stop_ids.count == 0)
            p.stop_ids.ids = NULL;
        params_adaptive(&p, b->vocab, r);
        if (b->history > 0)
            random_history(b, row, r, &t, &p, &back);
        if (b->forces)
            random_ends(b, row, r, &t, &p, &finish);
        cls_grammar *const grammar =
            b->forces && rng_below(r, 4) == 0 ? random_grammar(b, row, r, &t, &p) : NULL;
        p.grammar = grammar;
        set_request(b, row, &p, &t);
        cls_grammar_destroy(grammar); /* the batch keeps it */
    }
}

void batch_bias(batch *b, rng *r, int dtype)
{
    static const float factors[8] = {0.0f,  1.0f, -0.5f,  -0.8666667f,
                                     -1.0f, 3.1f, -1e38f, 0x1p-126f};
    const size_t size = dtype_size(dtype);
    free(b->bias);
    free(b->bias_map);
    b->bias_dtype = dtype;
    b->bias_factor = factors[rng_below(r, 8)];
    b->bias = must_calloc((size_t)b->rows * b->vocab, size);
    b->bias_map = must_calloc(b->rows, sizeof *b->bias_map);
    for (size_t i = 0; i < (size_t)b->rows * b->vocab; i++) {
        const uint32_t what = rng_below(r, 200);
        dtype_encode(dtype, what == 0 ? -INFINITY : (float)(what < 100 ? 0.0 : 2.0 * rng_normal(r)),
                     b->bias + i * size);
    }
    dtype_encode(dtype, NAN, b->bias + rng_below(r, b->rows * b->vocab) * size);
    dtype_encode(dtype, INFINITY, b->bias + rng_below(r, b->rows * b->vocab) * size);
    for (uint32_t row = 0; row < b->rows; row++)
        b->bias_map[row] = (int32_t)rng_below(r, b->rows + 1) - 1;
}
