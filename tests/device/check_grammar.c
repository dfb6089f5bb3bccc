/* SPDX-License-Identifier: MIT */
/* Proves that requests with a grammar draw, on the device and by the host functions, what the same
 * requests draw with masks that the host makes for each step from the table of the automaton: alone
 * and beside other requests, with rollbacks, forks, saved slots and tokens from outside, with steps
 * enqueued ahead; and what happens at the ends of a grammar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "automaton.h"
#include "bench.h"

#define FEATURES (CLS_FEATURE_FORCED | CLS_FEATURE_ACCEPT | CLS_FEATURE_MASK | CLS_FEATURE_HISTORY)

enum { SLOTS = 4, LENGTH = 24, ROLLBACK = 6 };
/* Slot 0 follows the grammar, slot 1 has masks, slot 2 has neither, and slot 3 is for forks. */
enum { FOLLOWS = 0, MASKED = 1, FREE = 2, FORK = 3 };

static const int32_t prompt[] = {1, 2, 3, 2, 3};

/* A request and its text, as the host knows them. */
typedef struct story {
    device *d;
    automaton *a;
    cls_grammar *g;
    bench b;
    cls_params p; /* with the grammar */
    int32_t allowed[40];
    float *logits;  /* [SLOTS, vocab] */
    uint32_t *mask; /* [SLOTS, words] */
    int32_t map[SLOTS];
    int32_t text[2][LENGTH + 1];                 /* of slots 0 and 2 */
    uint32_t length, longest, state[LENGTH + 2]; /* state: before each token */
    int stopped;
} story;

/* Returns the words of a mask. */
static uint32_t words_of(const story *s) { return (s->a->vocab + 31) / 32; }

static void draw_params(story *s, rng *r)
{
    cls_params *const p = &s->p;
    cls_params_init(p);
    p->seed = rng_bits(r);
    p->grammar = s->g;
    p->temperature = rng_below(r, 4) ? 1.0f : 0.0f;
    p->top_k = rng_below(r, 2) ? 0 : 12;
    p->top_p = rng_below(r, 3) ? 1.0f : 0.8f;
    p->presence_penalty = rng_below(r, 2) ? 0.0f : 0.5f;
    p->no_repeat_ngram = rng_below(r, 4) ? 0 : 3;
    if (rng_below(r, 3) == 0) {
        for (uint32_t i = 0; i < 40; i++)
            s->allowed[i] = (int32_t)rng_below(r, s->a->vocab);
        s->allowed[0] = s->a->end_ids[0];
        p->allowed_ids = (cls_ids){s->allowed, 40};
    }
}

/* Begins the request without a grammar after its text. */
static void begin_free(const story *s)
{
    cls_params p;
    cls_params_init(&p);
    must(cls_slot_begin(s->b.sampler, FREE, &p, prompt, 5, s->text[1], s->length));
}

/* Begins the requests of the slots after a text. */
static void begin(story *s, uint32_t length)
{
    cls_params masked = s->p;
    masked.grammar = NULL;
    masked.stop_ids = (cls_ids){s->a->end_ids, 2};
    must(cls_slot_begin(s->b.sampler, FOLLOWS, &s->p, prompt, 5, s->text[0], length));
    must(cls_slot_begin(s->b.sampler, MASKED, &masked, prompt, 5, s->text[0], length));
    s->length = s->longest = length;
    s->stopped = 0;
    begin_free(s);
}

static void open_story(story *s, device *d, uint32_t vocab, rng *r)
{
    cls_sampler_options o = sampler_options(vocab, SLOTS);
    memset(s, 0, sizeof *s);
    o.max_history = 64;
    o.max_rollback = ROLLBACK;
    s->d = d;
    s->a = must_malloc(sizeof *s->a);
    automaton_draw(s->a, vocab, r);
    s->g = automaton_grammar(s->a);
    s->b = bench_open(d, &o, NULL);
    s->b.step.rows = 3;
    s->b.step.mask.host = s->mask = must_calloc(SLOTS, words_of(s) * sizeof *s->mask);
    s->b.step.mask.rows = SLOTS;
    s->b.step.mask.row_map.host = s->map;
    s->logits = must_calloc((size_t)SLOTS * vocab, sizeof *s->logits);
    draw_params(s, r);
    begin(s, 0);
}

static void close_story(story *s)
{
    bench_close(&s->b);
    cls_grammar_destroy(s->g);
    free(s->mask);
    free(s->logits);
    free(s->a);
}

/* Sets the logits of a step, which depend on its number, and the masks: half of the steps have one
 * besides the grammar. */
static void set_inputs(story *s, uint32_t step)
{
    rng r = {s->p.seed + step};
    const uint32_t vocab = s->a->vocab, has_mask = rng_below(&r, 2);
    memset(s->mask, 0, SLOTS * words_of(s) * sizeof *s->mask);
    for (uint32_t id = 0; id < vocab; id++) {
        const uint32_t bit = 1u << id % 32;
        s->logits[id] = s->logits[vocab + id] = (float)(3.0 * rng_normal(&r));
        s->logits[2 * vocab + id] = (float)rng_normal(&r);
        if (has_mask && rng_below(&r, 4) == 0)
            continue;
        s->mask[FOLLOWS * words_of(s) + id / 32] |= bit;
        if (automaton_after(s->a, s->state[s->length], (int32_t)id) != CLS_GRAMMAR_DEAD)
            s->mask[MASKED * words_of(s) + id / 32] |= bit;
    }
    s->map[FOLLOWS] = has_mask ? FOLLOWS : -1;
    s->map[MASKED] = MASKED;
    s->map[FREE] = -1;
    bench_logits(&s->b, s->logits, 3);
}

/* Returns the result of the host for the grammar's row. */
static cls_host_result on_host(const story *s)
{
    cls_host_row row = host_row(s->logits, s->a->vocab, &s->p);
    row.prompt = prompt;
    row.prompt_count = 5;
    row.output = s->text[0];
    row.output_count = row.position = s->length;
    row.max_history = 64;
    row.mask = s->map[FOLLOWS] >= 0 ? s->mask + FOLLOWS * words_of(s) : NULL;
    return host_result(&row);
}

/* Appends a token to the text. */
static void append(story *s, int32_t token, int32_t of_free)
{
    s->state[s->length + 1] = automaton_after(s->a, s->state[s->length], token);
    s->text[0][s->length] = token;
    s->text[1][s->length++] = of_free;
    s->longest = s->length > s->longest ? s->length : s->longest;
}

/* Makes a step of all requests, and compares the three ways. */
static void compare_step(story *s, uint32_t step)
{
    set_inputs(s, step);
    const cls_host_result host = on_host(s);
    bench_step(&s->b);
    const int32_t *const token = s->b.token, *const status = s->b.status;
    ck_assert_msg(token[FOLLOWS] == host.token && status[FOLLOWS] == host.status,
                  "%s: step %u after %u tokens: token %d, status %d; on the host %d, %d",
                  s->d->name, step, s->length, token[FOLLOWS], status[FOLLOWS], host.token,
                  host.status);
    ck_assert_msg(
        token[FOLLOWS] == token[MASKED] && status[FOLLOWS] == status[MASKED],
        "%s: step %u after %u tokens in state %u: token %d, status %d; with a mask %d, %d",
        s->d->name, step, s->length, s->state[s->length], token[FOLLOWS], status[FOLLOWS],
        token[MASKED], status[MASKED]);
    s->stopped = (status[FOLLOWS] & CLS_ROW_STOPPED) != 0;
    if (token[FOLLOWS] >= 0) {
        append(s, token[FOLLOWS], token[FREE]);
    } else { /* all slots have equally long texts */
        begin_free(s);
    }
}

/* Rolls n tokens back, or begins again without them where that is too far. */
static void roll_back(story *s, uint32_t n)
{
    if (s->longest - s->length + n > ROLLBACK) {
        begin(s, s->length - n);
        return;
    }
    must(cls_slot_rollback(s->b.sampler, FOLLOWS, n));
    must(cls_slot_rollback(s->b.sampler, MASKED, n));
    s->length -= n;
    s->stopped = 0;
    begin_free(s);
}

/* Accepts a token that no row drew. One that ends nothing in this state is no end id. */
static void accept_any(story *s, rng *r)
{
    int32_t token[SLOTS];
    cls_accept_call call;
    do
        token[0] = (int32_t)rng_below(r, s->a->vocab);
    while (token[0] == s->a->end_ids[0] || token[0] == s->a->end_ids[1]);
    token[1] = token[2] = token[0];
    cls_accept_call_init(&call);
    call.rows = 3;
    call.tokens.host = token;
    must(cls_accept(s->b.sampler, s->d->queue, &call, 0, NULL, NULL));
    append(s, token[0], token[0]);
}

/* Saves and loads the slot, or forks it and comes back by another fork. */
static void move(story *s, int loads)
{
    size_t size = 0;
    cls_grammar *equal = automaton_grammar(s->a);
    if (loads) {
        must(cls_slot_save(s->b.sampler, s->d->queue, FOLLOWS, NULL, &size));
        void *const bytes = must_malloc(size);
        must(cls_slot_save(s->b.sampler, s->d->queue, FOLLOWS, bytes, &size));
        must(cls_slot_reset(s->b.sampler, FOLLOWS));
        must(cls_slot_load(s->b.sampler, FOLLOWS, bytes, size, equal));
        free(bytes);
    } else {
        must(cls_slot_copy(s->b.sampler, FORK, FOLLOWS));
        must(cls_slot_reset(s->b.sampler, FOLLOWS));
        must(cls_slot_copy(s->b.sampler, FOLLOWS, FORK));
    }
    cls_grammar_destroy(equal);
}

static uint32_t vocab_of(uint32_t i)
{
    static const uint32_t sizes[] = {40, 700, MOST_VOCAB};
    return sizes[i % (fixture_size() == TEST_TINY ? 2 : 3)];
}

START_TEST(as_masks)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    uint32_t tokens = 0, ends = 0, dead = 0;
    for (uint32_t i = 0; i < fixture_by_size(4, 24, 120); i++) {
        story s;
        open_story(&s, d, vocab_of(i), &r);
        for (uint32_t step = 0; step < 2 * LENGTH; step++) {
            const uint32_t event = rng_below(&r, 8), most = s.length < 3 ? s.length : 3;
            if (s.stopped && rng_below(&r, 2)) /* it stays stopped */
                compare_step(&s, step);
            else if (s.stopped || s.length == LENGTH)
                roll_back(&s, most);
            else if (s.state[s.length] == CLS_GRAMMAR_DEAD && event < 4)
                roll_back(&s, most);
            else if (event == 0)
                roll_back(&s, rng_below(&r, most + 1));
            else if (event == 1 && most != 0)
                accept_any(&s, &r);
            else if (event == 2)
                move(&s, (int)rng_below(&r, 2));
            else if (event == 3 && rng_below(&r, 2))
                begin(&s, s.length);
            else
                compare_step(&s, step);
            ends += s.state[s.length] == CLS_GRAMMAR_ENDED;
            dead += s.state[s.length] == CLS_GRAMMAR_DEAD;
            tokens++;
        }
        close_story(&s);
    }
    printf("%s: as masks: %u steps, %u of them ended, %u dead\n", d->name, tokens, ends, dead);
    ck_assert(ends > 0 && dead > 0);
}
END_TEST

int main(void)
{
    fixture_random(FEATURES);
    fixture_begin(ON_DEVICES);
    add_device_test(as_masks);
    return fixture_end();
}
