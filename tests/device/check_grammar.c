/* SPDX-License-Identifier: MIT */
/* Proves that requests with a grammar draw, on the device and by the host functions, what the same
 * requests draw with masks that the host makes for each step from the table of the automaton: alone
 * and beside other requests, with thinking, stop ids before and after min_tokens, rollbacks, forks,
 * saved slots, deferred rows and tokens from outside, with steps enqueued ahead; and what happens
 * at the ends of a grammar. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "automaton.h"
#include "bench.h"

#define FEATURES \
    (CLS_FEATURE_FORCED | CLS_FEATURE_ACCEPT | CLS_FEATURE_MASK | CLS_FEATURE_HISTORY | \
     CLS_FEATURE_VERIFY)

enum { SLOTS = 4, LENGTH = 24, ROLLBACK = 6, PROMPT = 5 };
/* Slot 0 follows the grammar, slot 1 has masks, slot 2 has neither, and slot 3 is for forks. */
enum { FOLLOWS = 0, MASKED = 1, FREE = 2, FORK = 3 };

static const int32_t prompt[PROMPT] = {1, 2, 3, 2, 3};

/* A request and its text, as the host knows them. */
typedef struct story {
    device *d;
    automaton *a;
    cls_grammar *g;
    bench b;
    cls_params p; /* with the grammar */
    int32_t allowed[40], stop[3], start[2], end[1];
    float *logits;  /* [SLOTS, vocab] */
    uint32_t *mask; /* [SLOTS, words] */
    int32_t map[SLOTS];
    int32_t text[2][LENGTH + 1];                 /* of slots 0 and 2 */
    uint32_t length, longest, state[LENGTH + 2]; /* state: before each token, as is thinks: */
    int thinks[LENGTH + 2], stopped;
} story;

/* Returns the words of a mask. */
static uint32_t words_of(const story *s) { return (s->a->vocab + 31) / 32; }

/* ----------------------------------------------- the request's rules, from the table */

static int has_id(const cls_ids *list, int32_t id)
{
    uint32_t i = 0;
    while (i < list->count && list->ids[i] != id)
        i++;
    return i < list->count;
}

/* Returns whether the first n tokens of prompt and output end with a sequence. */
static int text_ends(const story *s, uint32_t n, const cls_ids *with)
{
    uint32_t same = 0;
    while (same < with->count && same < n) {
        const uint32_t at = n - 1 - same;
        if ((at < PROMPT ? prompt[at] : s->text[0][at - PROMPT]) !=
            with->ids[with->count - 1 - same])
            return 0;
        same++;
    }
    return with->count != 0 && same == with->count;
}

/* Returns whether the request thinks when its output begins. */
static int thinks_first(const story *s)
{
    int thinks = s->p.thinking_start.count == 0 && s->p.thinking_end.count != 0;
    for (uint32_t n = 1; n <= PROMPT; n++)
        thinks =
            thinks ? !text_ends(s, n, &s->p.thinking_end) : text_ends(s, n, &s->p.thinking_start);
    return thinks;
}

/* Returns whether the next row may draw ids, but only ids that end the text. */
static int leaves_ends(const story *s)
{
    int any = 0;
    for (uint32_t id = 0; id < s->a->vocab; id++) {
        const int32_t token = (int32_t)id;
        const uint32_t after = automaton_after(s->a, s->state[s->length], token);
        if (!s->thinks[s->length] && after == CLS_GRAMMAR_DEAD)
            continue;
        if (s->p.allowed_ids.count != 0 && !has_id(&s->p.allowed_ids, token))
            continue;
        if (!has_id(&s->p.stop_ids, token) && (s->thinks[s->length] || after != CLS_GRAMMAR_ENDED))
            return 0;
        any = 1;
    }
    return any;
}

/* Returns min_tokens; 0 where allowed_ids allow stop ids only. */
static uint32_t least_tokens(const story *s)
{
    uint32_t i = 0;
    while (i < s->p.allowed_ids.count && has_id(&s->p.stop_ids, s->p.allowed_ids.ids[i]))
        i++;
    return i != 0 && i == s->p.allowed_ids.count ? 0 : s->p.min_tokens;
}

/* Returns whether the next token ends the request. */
static int ends_with(const story *s, int32_t token)
{
    const uint32_t after = automaton_after(s->a, s->state[s->length], token);
    const int is_left = s->thinks[s->length] || after != CLS_GRAMMAR_DEAD;
    if (!s->thinks[s->length] && after == CLS_GRAMMAR_ENDED)
        return 1;
    return has_id(&s->p.stop_ids, token) &&
           (s->length + 1 >= least_tokens(s) || (is_left && leaves_ends(s)));
}

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
        p->allowed_ids = (cls_ids){s->allowed, 1 + rng_below(r, 40)};
    }
    if (rng_below(r, 2)) {
        const uint64_t *const from = s->a->offsets + rng_below(r, s->a->states);
        s->stop[0] = s->a->end_ids[0];
        s->stop[1] = (int32_t)rng_below(r, s->a->vocab);
        s->stop[2] = from[0] < from[1] ? s->a->ids[from[0]] : s->a->end_ids[1];
        p->stop_ids = (cls_ids){s->stop + rng_below(r, 3), 1};
        if (rng_below(r, 2))
            p->stop_ids = (cls_ids){s->stop, 3};
        p->min_tokens = rng_below(r, 12);
    }
    if (rng_below(r, 2)) {
        for (uint32_t i = 0; i < 2; i++)
            s->start[i] = (int32_t)rng_below(r, rng_below(r, 2) ? 5 : s->a->vocab);
        s->end[0] = (int32_t)rng_below(r, rng_below(r, 4) ? s->a->vocab : 5);
        p->thinking_start = (cls_ids){s->start, 1 + rng_below(r, 2)};
        p->thinking_end = (cls_ids){s->end, 1};
        if (rng_below(r, 4) == 0)
            p->thinking_start = (cls_ids){NULL, 0};
    }
}

/* Begins the request without a grammar after its text. */
static void begin_free(const story *s)
{
    cls_params p;
    cls_params_init(&p);
    must(cls_slot_begin(s->b.sampler, FREE, &p, prompt, PROMPT, s->text[1], s->length));
}

/* Begins the requests of the slots after a text. The one with masks has all rules in them. */
static void begin(story *s, uint32_t length)
{
    cls_params masked = s->p;
    masked.grammar = NULL;
    masked.stop_ids = masked.thinking_start = masked.thinking_end = (cls_ids){NULL, 0};
    masked.min_tokens = 0;
    must(cls_slot_begin(s->b.sampler, FOLLOWS, &s->p, prompt, PROMPT, s->text[0], length));
    must(cls_slot_begin(s->b.sampler, MASKED, &masked, prompt, PROMPT, s->text[0], length));
    s->thinks[0] = thinks_first(s);
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
 * besides the grammar. The sequences of the thinking are likely. */
static void set_inputs(story *s, uint32_t step)
{
    rng r = {s->p.seed + step};
    const uint32_t vocab = s->a->vocab, has_mask = rng_below(&r, 2);
    const int thinks = s->thinks[s->length], bans = s->length < least_tokens(s) && !leaves_ends(s);
    memset(s->mask, 0, SLOTS * words_of(s) * sizeof *s->mask);
    for (uint32_t id = 0; id < vocab; id++) {
        const uint32_t bit = 1u << id % 32;
        const int32_t token = (int32_t)id;
        const int likely = has_id(&s->p.thinking_start, token) + has_id(&s->p.thinking_end, token);
        s->logits[id] = s->logits[vocab + id] = (float)(3.0 * rng_normal(&r) + 6.0 * likely);
        s->logits[2 * vocab + id] = (float)rng_normal(&r);
        if (has_mask && rng_below(&r, 4) == 0)
            continue;
        s->mask[FOLLOWS * words_of(s) + id / 32] |= bit;
        if (!s->stopped && !(bans && has_id(&s->p.stop_ids, token)) &&
            (thinks || automaton_after(s->a, s->state[s->length], token) != CLS_GRAMMAR_DEAD))
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
    row.prompt_count = PROMPT;
    row.output = s->text[0];
    row.output_count = row.position = s->length;
    row.max_history = 64;
    row.mask = s->map[FOLLOWS] >= 0 ? s->mask + FOLLOWS * words_of(s) : NULL;
    return host_result(&row);
}

/* Appends a token to the text. A stop id of the output ends the grammar, too, where only ends are
 * left. */
static void append(story *s, int32_t token, int32_t of_free)
{
    const uint32_t at = s->length, after = automaton_after(s->a, s->state[at], token);
    const int early = at + 1 < least_tokens(s) && after != CLS_GRAMMAR_DEAD && leaves_ends(s);
    s->stopped = ends_with(s, token);
    s->state[at + 1] = s->thinks[at]                            ? s->state[at]
                       : early && has_id(&s->p.stop_ids, token) ? CLS_GRAMMAR_ENDED
                                                                : after;
    s->text[0][at] = token;
    s->thinks[at + 1] = s->thinks[at] && !text_ends(s, PROMPT + at + 1, &s->p.thinking_end);
    s->text[1][s->length++] = of_free;
    s->longest = s->length > s->longest ? s->length : s->longest;
}

/* Makes the step of all requests in two calls: it draws the tokens, and accepts them then. A fork
 * of the grammar's request makes the step at once; it draws the same and is left in the same state.
 */
static void deferred_step(story *s)
{
    int32_t drawn[2];
    cls_accept_call call;
    must(cls_slot_copy(s->b.sampler, FORK, FOLLOWS));
    s->b.step.defer_accept = 1;
    bench_step(&s->b);
    s->b.step.defer_accept = 0;
    drawn[0] = s->b.token[FOLLOWS];
    drawn[1] = s->b.status[FOLLOWS];
    cls_accept_call_init(&call);
    call.rows = 3;
    call.tokens.device = s->b.step.tokens;
    must(cls_accept(s->b.sampler, s->d->queue, &call, 0, NULL, NULL));
    bench_row(&s->b, FORK);
    ck_assert_msg(drawn[0] == s->b.token[0] && drawn[1] == s->b.status[0],
                  "%s: token %d, status %d; not deferred %d, %d", s->d->name, drawn[0], drawn[1],
                  s->b.token[0], s->b.status[0]);
    ck_assert_msg(slots_are_same(s->d->queue, s->b.sampler, FOLLOWS, s->b.sampler, FORK),
                  "%s: after %u tokens in state %u a deferred row and cls_accept() leave another "
                  "slot than a row",
                  s->d->name, s->length, s->state[s->length]);
}

/* Makes a step of all requests, and compares the three ways. */
static void compare_step(story *s, uint32_t step, int defers)
{
    set_inputs(s, step);
    const cls_host_result host = on_host(s);
    if (defers)
        deferred_step(s);
    else
        bench_step(&s->b);
    const int32_t *const token = s->b.token, *const status = s->b.status;
    ck_assert_msg(token[FOLLOWS] == host.token && status[FOLLOWS] == host.status,
                  "%s: step %u after %u tokens: token %d, status %d; on the host %d, %d",
                  s->d->name, step, s->length, token[FOLLOWS], status[FOLLOWS], host.token,
                  host.status);
    const int32_t expected = s->stopped ? CLS_ROW_STOPPED | CLS_ROW_SKIPPED
                             : token[MASKED] >= 0 && ends_with(s, token[MASKED])
                                 ? status[MASKED] | CLS_ROW_STOPPED
                                 : status[MASKED];
    ck_assert_msg(
        token[FOLLOWS] == token[MASKED] && status[FOLLOWS] == expected,
        "%s: step %u after %u tokens in state %u: token %d, status %d; with a mask %d, %d",
        s->d->name, step, s->length, s->state[s->length], token[FOLLOWS], status[FOLLOWS],
        token[MASKED], expected);
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

/* Accepts a token that no row drew, often one of the request's lists. */
static void accept_any(story *s, rng *r)
{
    int32_t token[SLOTS];
    cls_accept_call call;
    token[0] = (int32_t)rng_below(r, s->a->vocab);
    if (s->p.stop_ids.count != 0 && rng_below(r, 2))
        token[0] = s->p.stop_ids.ids[rng_below(r, s->p.stop_ids.count)];
    if (s->p.thinking_start.count != 0 && rng_below(r, 2))
        token[0] = s->p.thinking_start.ids[s->length % s->p.thinking_start.count];
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
    uint32_t tokens = 0, ends = 0, dead = 0, early = 0, thinks = 0, starts = 0;
    for (uint32_t i = 0; i < fixture_by_size(4, 60, 300); i++) {
        story s;
        open_story(&s, d, vocab_of(i), &r);
        for (uint32_t step = 0; step < 2 * LENGTH; step++) {
            const uint32_t event = rng_below(&r, 8), most = s.length < 3 ? s.length : 3;
            if (s.stopped && rng_below(&r, 2)) /* it stays stopped */
                compare_step(&s, step, rng_below(&r, 4) == 0);
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
                compare_step(&s, step, rng_below(&r, 4) == 0);
            ends += s.state[s.length] == CLS_GRAMMAR_ENDED;
            dead += s.state[s.length] == CLS_GRAMMAR_DEAD;
            early += s.length < s.p.min_tokens && !s.stopped && leaves_ends(&s);
            thinks += (uint32_t)s.thinks[s.length];
            starts += s.length != 0 && !s.thinks[s.length - 1] &&
                      text_ends(&s, PROMPT + s.length, &s.p.thinking_start);
            tokens++;
        }
        close_story(&s);
    }
    printf("%s: as masks: %u steps, %u of them ended, %u dead, %u before min_tokens with ends "
           "only, %u thinking, %u behind a start that begins none\n",
           d->name, tokens, ends, dead, early, thinks, starts);
    ck_assert(ends > 0 && dead > 0);
    ck_assert(fixture_by_size(0, 1, 1) == 0 || (early > 5 && thinks > 5 && starts > 5));
}
END_TEST

/* Four steps ahead give the tokens of the host, which knows each token before the next one. */
START_TEST(ahead)
{
    enum { AHEAD = 4 };
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 1};
    for (uint32_t i = 0; i < fixture_by_size(4, 12, 60); i++) {
        story s;
        int32_t result[2][AHEAD];
        open_story(&s, d, vocab_of(i), &r);
        const size_t row = s.a->vocab * sizeof *s.logits;
        for (uint32_t k = 0; k < AHEAD * s.a->vocab; k++)
            s.logits[k] = (float)(3.0 * rng_normal(&r));
        bench_logits(&s.b, s.logits, AHEAD);
        s.b.step.rows = 1;
        s.b.step.mask = (cls_mask){.kind = CLS_MASK_PACKED};
        s.b.step.status = s.b.step.tokens;
        for (uint32_t k = 0; k < AHEAD; k++) {
            s.b.step.logits.values.offset = k * row;
            s.b.step.tokens.offset = k * sizeof(int32_t);
            s.b.step.status.offset = (AHEAD + k) * sizeof(int32_t);
            must(cls_sample(s.b.sampler, d->queue, &s.b.step, 0, NULL, NULL));
        }
        buffer_read(d, s.b.step.tokens.buffer, sizeof result, result);
        for (uint32_t k = 0; k < AHEAD; k++) {
            s.map[FOLLOWS] = -1;
            const cls_host_result host = on_host(&s);
            ck_assert_msg(result[0][k] == host.token && result[1][k] == host.status,
                          "%s: %u: token %u ahead is %d, status %d; on the host %d, %d", d->name, i,
                          k, result[0][k], result[1][k], host.token, host.status);
            if (host.token >= 0)
                append(&s, host.token, 0);
            s.logits += s.a->vocab;
        }
        s.logits -= AHEAD * (size_t)s.a->vocab;
        close_story(&s);
    }
}
END_TEST

/* 0 -1-> 1 -2,3-> 2 -4-> 0; 2 is final; the end id is 7. */
static cls_grammar *small_grammar(uint32_t vocab, int32_t first)
{
    static const uint64_t offsets[] = {0, 1, 3, 4};
    static const uint32_t next[] = {1, 2, 2, 0};
    static const uint8_t final_states[] = {0, 0, 1};
    static const int32_t end_ids[] = {7};
    const int32_t ids[] = {first, 2, 3, 4};
    cls_grammar_options o;
    cls_grammar *g;
    cls_grammar_options_init(&o);
    o.vocab = vocab;
    o.states = 3;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){end_ids, 1};
    must(cls_grammar_create(&o, &g));
    return g;
}

/* A sampler of rows in which higher ids are likelier. */
static bench open_small(device *d)
{
    cls_sampler_options o = sampler_options(8, 3);
    float x[24];
    o.max_history = 16;
    o.max_rollback = 8;
    for (int i = 0; i < 24; i++)
        x[i] = (float)(i % 8);
    bench b = bench_open(d, &o, x);
    return b;
}

static void expect_row(bench *b, int32_t token, int32_t status, const char *what)
{
    bench_row(b, 0);
    ck_assert_msg(b->token[0] == token && b->status[0] == status,
                  "%s: %s: token %d, status %d, not %d, %d", b->d->name, what, b->token[0],
                  b->status[0], token, status);
}

/* Verifies two drafts of slot 0, which are accepted. */
static void expect_drafts(bench *b, const int32_t drafts[2], int32_t token, int32_t status,
                          const char *what)
{
    static const int32_t cu[] = {0, 3};
    int32_t got[3], bits;
    cls_verify_call call;
    cls_verify_call_init(&call);
    call.requests = 1;
    call.row_offsets = cu;
    call.logits = b->step.logits;
    call.draft_ids.host = drafts;
    call.tokens = b->step.tokens;
    call.status = b->step.status;
    must(cls_verify(b->sampler, b->d->queue, &call, 0, NULL, NULL));
    buffer_read(b->d, call.tokens.buffer, sizeof got, got);
    buffer_read_at(b->d, call.status.buffer, call.status.offset, sizeof bits, &bits);
    ck_assert_msg(got[0] == drafts[0] && got[1] == drafts[1] && got[2] == token && bits == status,
                  "%s: %s: tokens %d, %d, %d, status %d, not %d, %d, %d, %d", b->d->name, what,
                  got[0], got[1], got[2], bits, drafts[0], drafts[1], token, status);
}

static void accept_one(bench *b, int32_t token)
{
    cls_accept_call call;
    cls_accept_call_init(&call);
    call.rows = 1;
    call.tokens.host = &token;
    must(cls_accept(b->sampler, b->d->queue, &call, 0, NULL, NULL));
}

enum { ENDED = CLS_ROW_STOPPED | CLS_ROW_SKIPPED };

/* Ends, tokens from outside, other parameters, turns and forced ids, step by step. */
START_TEST(ends)
{
    static const int32_t forced[] = {3, 5, 7}, text[] = {1, 2, 7}, longer[] = {4, 1, 2},
                         drafts[] = {1, 3};
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_grammar *const g = small_grammar(8, 1), *const other = small_grammar(8, 6);
    cls_params p;
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.grammar = g;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    expect_row(&b, 1, 0, "the only id of state 0");
    expect_row(&b, 3, 0, "the likelier id of state 1");
    expect_row(&b, 7, CLS_ROW_STOPPED, "the end id");
    expect_row(&b, -1, ENDED, "after the end");
    must(cls_slot_rollback(b.sampler, 0, 2));
    accept_one(&b, 5);
    expect_row(&b, -1, CLS_ROW_EMPTY, "after an id that state 1 forbids");
    accept_one(&b, 1);
    expect_row(&b, -1, CLS_ROW_EMPTY, "a dead state stays dead");
    must(cls_slot_params(b.sampler, 0, &p));
    expect_row(&b, -1, CLS_ROW_EMPTY, "the same grammar keeps its state");
    p.grammar_state = 2;
    must(cls_slot_params(b.sampler, 0, &p));
    expect_row(&b, -1, CLS_ROW_EMPTY, "and so it does where parameters name another one");
    p.grammar_state = 0;
    must(cls_slot_rollback(b.sampler, 0, 2));
    expect_row(&b, 3, 0, "state 1 again");
    p.temperature = 1.0f;
    must(cls_slot_params(b.sampler, 0, &p));
    p.temperature = 0.0f;
    must(cls_slot_params(b.sampler, 0, &p));
    expect_row(&b, 7, CLS_ROW_STOPPED, "state 2 after parameters with the same grammar");
    must(cls_slot_next_turn(b.sampler, 0, text, 3));
    expect_row(&b, 1, 0, "a turn begins in state 0");
    p.grammar = other;
    p.grammar_state = 1;
    must(cls_slot_params(b.sampler, 0, &p));
    expect_row(&b, 3, 0, "another grammar begins in the given state");
    must(cls_slot_rollback(b.sampler, 0, 2));
    expect_row(&b, 3, 0, "and so it does after a rollback to before the call");
    p.grammar = NULL;
    p.grammar_state = 0;
    must(cls_slot_params(b.sampler, 0, &p));
    expect_row(&b, 7, 0, "no grammar");
    accept_one(&b, 5);
    p.grammar = g;
    must(cls_slot_params(b.sampler, 0, &p));
    accept_one(&b, 5);
    expect_row(&b, -1, CLS_ROW_EMPTY, "dead");
    p.grammar = NULL;
    must(cls_slot_params(b.sampler, 0, &p));
    p.grammar = g;
    p.grammar_state = 2;
    must(cls_slot_params(b.sampler, 0, &p));
    expect_row(&b, 7, CLS_ROW_STOPPED, "parameters without a grammar, and then with it again");
    must(cls_slot_rollback(b.sampler, 0, 1));
    accept_one(&b, 5);
    expect_row(&b, -1, CLS_ROW_EMPTY, "dead once more");
    must(cls_slot_next_turn(b.sampler, 0, NULL, 0));
    expect_row(&b, 7, CLS_ROW_STOPPED, "a turn, which begins in the state of the parameters");
    p.grammar_state = 0;
    p.grammar = g;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, text, 2));
    must(cls_slot_append_prompt(b.sampler, 0, text, 3));
    expect_row(&b, 7, CLS_ROW_STOPPED, "prompt is no output");
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, text, 3));
    expect_row(&b, -1, ENDED, "the output ends with an end id");
    p.grammar_state = 2;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, longer, 3));
    must(cls_slot_rollback(b.sampler, 0, 2));
    expect_row(&b, 1, 0, "a rollback into the output with which the request began");
    p.grammar_state = 0;

    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, text, 1));
    must(cls_slot_force(b.sampler, 0, forced, 3));
    expect_row(&b, 3, CLS_ROW_FORCED, "a forced id that state 1 allows");
    expect_row(&b, -1, CLS_ROW_EMPTY, "a forced id that state 2 forbids");
    expect_row(&b, -1, CLS_ROW_EMPTY, "it stays due");
    must(cls_slot_force(b.sampler, 0, forced + 2, 1));
    expect_row(&b, 7, CLS_ROW_FORCED | CLS_ROW_STOPPED, "a forced end id");
    expect_row(&b, -1, ENDED, "after a forced end id");
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    must(cls_slot_force(b.sampler, 0, drafts, 2));
    expect_drafts(&b, drafts, 7, CLS_ROW_FORCED | CLS_ROW_STOPPED, "forced drafts, and the end");
    expect_row(&b, -1, ENDED, "after a verified end id");

    cls_grammar_destroy(g);
    must(cls_slot_rollback(b.sampler, 0, 1));
    must(cls_slot_force(b.sampler, 0, NULL, 0));
    expect_row(&b, 7, CLS_ROW_STOPPED, "the slot keeps the grammar");
    bench_close(&b);
    cls_grammar_destroy(other);
}
END_TEST

/* The grammar does not apply while the request thinks, with and without a budget. */
START_TEST(thinking)
{
    static const int32_t start[] = {5}, end[] = {6}, forced[] = {5, 6}, thinks[] = {5, 4, 3, 6, 1},
                         drafts[] = {6, 1};
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_grammar *const g = small_grammar(8, 1);
    cls_params p;
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.grammar = g;
    p.thinking_end = (cls_ids){end, 1};
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    expect_row(&b, 7, 0, "thinking allows all ids, and ends at none");
    accept_one(&b, 6);
    expect_row(&b, 1, 0, "the grammar begins behind thinking_end");
    must(cls_slot_rollback(b.sampler, 0, 2));
    expect_row(&b, 7, 0, "thinking again");
    must(cls_slot_force(b.sampler, 0, end, 1));
    expect_drafts(&b, drafts, 3, CLS_ROW_FORCED, "thinking ends within drafts");
    p.thinking_start = (cls_ids){start, 1};
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, thinks + 4, 1));
    expect_row(&b, 3, 0, "no thinking begins");
    must(cls_slot_begin(b.sampler, 0, &p, start, 1, thinks + 1, 3));
    expect_row(&b, 1, 0, "the output has ended the thinking");
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, thinks, 1));
    expect_row(&b, -1, CLS_ROW_EMPTY, "the start is text of the grammar, which forbids it");
    p.thinking_forced = (cls_ids){forced, 2};
    p.thinking_budget = 1;
    must(cls_slot_begin(b.sampler, 0, &p, start, 1, NULL, 0));
    expect_row(&b, 7, 0, "a token of the budget");
    expect_row(&b, 5, CLS_ROW_FORCED, "the first id of thinking_forced");
    expect_row(&b, 6, CLS_ROW_FORCED, "the last id of thinking_forced");
    expect_row(&b, 1, 0, "the grammar begins behind it");
    expect_row(&b, 3, 0, "and goes on");
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.grammar = g;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    expect_row(&b, 1, 0, "a request that does not think, in the slot of one that did");
    expect_row(&b, 3, 0, "its second token");
    must(cls_slot_rollback(b.sampler, 0, 1));
    expect_row(&b, 3, 0, "a rollback makes no request think that never did");
    bench_close(&b);
    cls_grammar_destroy(g);
}
END_TEST

/* Begins a request again in slot 0 and accepts tokens. */
static void begin_with(bench *b, const cls_params *p, const int32_t *text, uint32_t n)
{
    must(cls_slot_begin(b->sampler, 0, p, NULL, 0, NULL, 0));
    for (uint32_t i = 0; i < n; i++)
        accept_one(b, text[i]);
}

/* Forks slot 0 and comes back, or saves and loads it. */
static void move_small(bench *b, const cls_grammar *g, int loads)
{
    uint8_t bytes[2000];
    size_t size = sizeof bytes;
    if (loads) {
        must(cls_slot_save(b->sampler, b->d->queue, 0, bytes, &size));
        must(cls_slot_reset(b->sampler, 0));
        must(cls_slot_load(b->sampler, 0, bytes, size, g));
    } else {
        must(cls_slot_copy(b->sampler, 1, 0));
        must(cls_slot_reset(b->sampler, 0));
        must(cls_slot_copy(b->sampler, 0, 1));
    }
}

/* A grammar with one state, of some ids, in which the text may end by the id 7. */
static cls_grammar *loop_grammar(const int32_t *ids, uint32_t n)
{
    static const uint32_t next[8] = {0};
    static const uint8_t final_states[] = {1};
    static const int32_t end_ids[] = {7};
    const uint64_t offsets[] = {0, n};
    cls_grammar_options o;
    cls_grammar *g;
    cls_grammar_options_init(&o);
    o.vocab = 8;
    o.states = 1;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){end_ids, 1};
    must(cls_grammar_create(&o, &g));
    return g;
}

/* The ids 0 to 5, of which 3 4 begins the thinking. With a grammar only prompt begins it. The most
 * likely id, 7, ends the text by the grammar, and is banned; 6 is the likeliest of the thinking. */
START_TEST(output_begins_none)
{
    static const int32_t ids[] = {0, 1, 2, 3, 4, 5}, start[] = {3, 4}, end[] = {2}, forced[] = {2};
    static const cls_logit_bias no_end = {7, -INFINITY};
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_grammar *const g = loop_grammar(ids, 6);
    cls_params p;
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.logit_bias = (cls_biases){&no_end, 1};
    p.grammar = g;
    p.thinking_start = (cls_ids){start, 2};
    p.thinking_end = (cls_ids){end, 1};
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, start, 2));
    expect_row(&b, 5, 0, "the start in the output with which a request begins");
    must(cls_slot_begin(b.sampler, 0, &p, start, 1, start + 1, 1));
    expect_row(&b, 5, 0, "a start that ends in the output");
    begin_with(&b, &p, start, 2);
    expect_row(&b, 5, 0, "the start, accepted");
    must(cls_slot_rollback(b.sampler, 0, 1));
    expect_row(&b, 5, 0, "a rollback to before the start's end");
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    must(cls_slot_force(b.sampler, 0, start, 2));
    expect_row(&b, 3, CLS_ROW_FORCED, "the start, forced");
    expect_row(&b, 4, CLS_ROW_FORCED, "all of it");
    for (int loads = 0; loads < 2; loads++) {
        move_small(&b, g, loads);
        expect_row(&b, 5, 0, "a request that was moved behind the start");
    }
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    must(cls_slot_force(b.sampler, 0, start, 2));
    expect_drafts(&b, start, 5, CLS_ROW_FORCED, "the start in drafts");
    must(cls_slot_next_turn(b.sampler, 0, end, 1));
    expect_row(&b, 5, 0, "a turn behind an output with the start");
    must(cls_slot_next_turn(b.sampler, 0, start, 2));
    expect_row(&b, 6, 0, "a turn whose prompt begins the thinking");
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, start, 1));
    must(cls_slot_append_prompt(b.sampler, 0, start, 2));
    expect_row(&b, 6, 0, "a chunk of prompt begins the thinking");
    must(cls_slot_begin(b.sampler, 0, &p, start, 2, NULL, 0));
    expect_row(&b, 6, 0, "the prompt begins the thinking");
    accept_one(&b, 2);
    expect_row(&b, 5, 0, "its end");
    accept_one(&b, 3);
    accept_one(&b, 4);
    expect_row(&b, 5, 0, "the output begins none behind it");
    must(cls_slot_rollback(b.sampler, 0, 5));
    expect_row(&b, 6, 0, "a rollback into the thinking of the prompt");
    p.thinking_forced = (cls_ids){forced, 1};
    p.thinking_budget = 1;
    begin_with(&b, &p, start, 2);
    expect_row(&b, 5, 0, "with a budget");
    expect_row(&b, 5, 0, "which forces nothing");
    p.grammar = NULL;
    begin_with(&b, &p, start, 2);
    expect_row(&b, 6, 0, "without a grammar the output thinks");
    expect_row(&b, 2, CLS_ROW_FORCED, "and its budget ends that");
    bench_close(&b);
    cls_grammar_destroy(g);
}
END_TEST

/* 0 -1-> 1 -2-> 2, 1 -3-> 3 -4-> 2; 2 and 3 are final. */
static cls_grammar *complete_grammar(void)
{
    static const uint64_t offsets[] = {0, 1, 3, 3, 4};
    static const int32_t ids[] = {1, 2, 3, 4}, end_ids[] = {7};
    static const uint32_t next[] = {1, 2, 3, 2};
    static const uint8_t final_states[] = {0, 0, 1, 1};
    cls_grammar_options o;
    cls_grammar *g;
    cls_grammar_options_init(&o);
    o.vocab = 8;
    o.states = 4;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){end_ids, 1};
    must(cls_grammar_create(&o, &g));
    return g;
}

/* Before min_tokens stop ids are banned, except where a state and allowed_ids leave ends only. */
START_TEST(complete)
{
    static const int32_t two[] = {1, 2}, three[] = {1, 3}, four[] = {1, 3, 4}, seven[] = {7},
                         longer[] = {1, 3, 4, 7}, five[] = {4, 5}, both[] = {4, 7},
                         some[] = {1, 3, 7}, more[] = {1, 3, 4, 7}, drafts[] = {2, 7},
                         thinks[] = {6};
    static const cls_logit_bias no_end = {7, -INFINITY};
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_grammar *const g = complete_grammar(), *const alike = loop_grammar(five, 2);
    cls_params p;
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.grammar = g;
    p.stop_ids = (cls_ids){seven, 1};
    p.min_tokens = 9;
    begin_with(&b, &p, two, 2);
    expect_row(&b, 7, CLS_ROW_STOPPED, "state 2 leaves the end only");
    expect_row(&b, -1, ENDED, "after it");
    must(cls_slot_rollback(b.sampler, 0, 1));
    expect_row(&b, 7, CLS_ROW_STOPPED, "state 2 again");
    begin_with(&b, &p, three, 2);
    expect_row(&b, 4, 0, "state 3 leaves 4, too, and the end is banned");
    expect_row(&b, 7, CLS_ROW_STOPPED, "state 2 behind it");
    begin_with(&b, &p, two, 1);
    must(cls_slot_force(b.sampler, 0, drafts, 1));
    expect_drafts(&b, drafts, -1, CLS_ROW_FORCED | CLS_ROW_STOPPED, "the end in drafts");
    begin_with(&b, &p, two, 2);
    accept_one(&b, 7);
    expect_row(&b, -1, ENDED, "the end from outside");
    begin_with(&b, &p, three, 2);
    b.step.mask.host = (const uint32_t[]){1u << 7};
    b.step.mask.rows = 1;
    expect_row(&b, -1, CLS_ROW_EMPTY, "a mask that leaves the end only does not count");
    b.step.mask.host = NULL;
    b.step.mask.rows = 0;

    p.allowed_ids = (cls_ids){some, 3};
    begin_with(&b, &p, three, 2);
    expect_row(&b, 7, CLS_ROW_STOPPED, "state 3 and allowed_ids leave the end only");
    p.allowed_ids = (cls_ids){more, 4};
    begin_with(&b, &p, three, 2);
    expect_row(&b, 4, 0, "they leave 4, too");
    p.allowed_ids = (cls_ids){both, 2};
    begin_with(&b, &p, three, 2);
    expect_row(&b, 4, 0, "as the first of them");
    p.allowed_ids = (cls_ids){three, 1};
    p.stop_ids = (cls_ids){both, 1};
    begin_with(&b, &p, three, 2);
    must(cls_slot_force(b.sampler, 0, both, 1));
    expect_row(&b, 4, CLS_ROW_FORCED, "they leave nothing, and 4 stops nothing before min_tokens");
    p.allowed_ids = (cls_ids){five, 2};
    p.stop_ids = (cls_ids){five + 1, 1};
    p.grammar = alike;
    begin_with(&b, &p, NULL, 0);
    expect_row(&b, 4, 0, "a stop id and one that is none, which no state distinguishes");
    p.grammar = g;
    p.allowed_ids = (cls_ids){NULL, 0};

    p.stop_ids = (cls_ids){both, 1}; /* 4, and the end is not banned anyway */
    p.min_tokens = 4;                /* the next token is the third */
    begin_with(&b, &p, three, 2);
    expect_row(&b, 7, CLS_ROW_STOPPED, "state 3 leaves a stop id and the end");
    p.logit_bias = (cls_biases){&no_end, 1};
    begin_with(&b, &p, three, 2);
    expect_row(&b, 4, CLS_ROW_STOPPED, "the stop id ends the text before min_tokens");
    for (int loads = 0; loads < 2; loads++) {
        move_small(&b, g, loads);
        expect_row(&b, -1, ENDED, "a moved request has ended, too");
    }
    p.temperature = 1.0f;
    must(cls_slot_params(b.sampler, 0, &p));
    p.temperature = 0.0f;
    expect_row(&b, -1, ENDED, "other parameters do not let it go on");
    must(cls_slot_next_turn(b.sampler, 0, NULL, 0));
    must(cls_slot_params(b.sampler, 0, &p));
    expect_row(&b, 1, 0, "a turn begins again");
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, four, 3));
    expect_row(&b, -1, ENDED, "a request that begins with an ended text");
    must(cls_slot_rollback(b.sampler, 0, 0));
    expect_row(&b, -1, ENDED, "a rollback of nothing");
    p.min_tokens = 3;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, longer, 4));
    expect_row(&b, -1, ENDED, "from min_tokens on the stop id is text of the grammar");
    begin_with(&b, &p, three, 2);
    expect_row(&b, 4, CLS_ROW_STOPPED, "the stop id as the third token");
    p.stop_ids = (cls_ids){NULL, 0};
    p.logit_bias = (cls_biases){NULL, 0};
    must(cls_slot_params(b.sampler, 0, &p));
    expect_row(&b, 7, CLS_ROW_STOPPED, "without stop ids the request goes on in state 2");
    p.stop_ids = (cls_ids){both, 1};
    p.logit_bias = (cls_biases){&no_end, 1};
    p.min_tokens = 4;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, four, 2));
    must(cls_slot_force(b.sampler, 0, both, 1));
    expect_row(&b, 4, CLS_ROW_FORCED | CLS_ROW_STOPPED, "the stop id, forced");
    p.logit_bias = (cls_biases){NULL, 0};
    p.stop_ids = (cls_ids){both, 2};
    begin_with(&b, &p, three, 2);
    expect_row(&b, 7, CLS_ROW_STOPPED, "both are stop ids");
    p.stop_ids = (cls_ids){two + 1, 1};
    begin_with(&b, &p, two, 2);
    expect_row(&b, 7, CLS_ROW_STOPPED, "an id that stops no request in state 1, which has 3, too");

    p.stop_ids = (cls_ids){seven, 1};
    p.min_tokens = 1;
    p.grammar_state = 2;
    begin_with(&b, &p, NULL, 0);
    expect_row(&b, 7, CLS_ROW_STOPPED, "the first token is the end, in spite of a min_tokens of 1");
    p.grammar_state = 0;
    p.min_tokens = 9;
    p.thinking_end = (cls_ids){thinks, 1};
    begin_with(&b, &p, two, 2);
    expect_row(&b, 6, 0, "while the request thinks, the state does not count");
    expect_row(&b, 1, 0, "state 0 behind it");
    cls_grammar_destroy(g);
    cls_grammar_destroy(alike);
    bench_close(&b);
}
END_TEST

/* Of 70 states, which are final and lead to the next one by an id, the last one leaves the end
 * only. So do others where their ids are stop ids. */
START_TEST(many_states)
{
    enum { STATES = 70 };
    static const int32_t end_ids[] = {7}, stop_ids[] = {7, 3, 4};
    uint64_t offsets[STATES + 1] = {0};
    int32_t ids[STATES];
    uint32_t next[STATES];
    uint8_t final_states[STATES];
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_grammar_options o;
    cls_grammar *g;
    cls_params p;
    for (uint32_t s = 0; s < STATES; s++) {
        offsets[s + 1] = s + 1 < STATES ? s + 1 : s;
        ids[s] = (int32_t)(s % 7);
        next[s] = s + 1;
        final_states[s] = 1;
    }
    cls_grammar_options_init(&o);
    o.vocab = 8;
    o.states = STATES;
    o.offsets = offsets;
    o.ids = ids;
    o.next = next;
    o.final_states = final_states;
    o.end_ids = (cls_ids){end_ids, 1};
    must(cls_grammar_create(&o, &g));
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.grammar = g;
    p.min_tokens = 9;
    for (uint32_t i = 0; i < 2 * STATES; i++) {
        const uint32_t s = i / 2, stops = i % 2 ? 3 : 1;
        const int stops_it = s + 1 == STATES || (stops == 3 && (ids[s] == 3 || ids[s] == 4));
        p.grammar_state = s;
        p.stop_ids = (cls_ids){stop_ids, stops};
        begin_with(&b, &p, NULL, 0);
        expect_row(&b, stops_it ? 7 : ids[s], stops_it ? CLS_ROW_STOPPED : 0, "a state");
    }
    bench_close(&b);
    cls_grammar_destroy(g);
}
END_TEST

/* Rows behind a draft that ends the grammar are not read, and the NaN behind it are not reported:
 * an end id that would begin the thinking of the output, and a stop id that ends a complete text
 * one token before min_tokens. */
START_TEST(behind_the_end)
{
    static const int32_t ids[] = {0, 1, 2, 3, 4, 5}, seven[] = {7, 3}, four[] = {4, 3}, end[] = {2},
                         three[] = {1, 3}, cu[] = {0, 3};
    static const cls_logit_bias no_end = {7, -INFINITY};
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_grammar *const g[] = {loop_grammar(ids, 6), complete_grammar()};
    float x[24];
    for (int i = 0; i < 24; i++)
        x[i] = i < 8 ? (float)i : NAN;
    for (int i = 0; i < 2 * (CLS_VERIFY_TYPICAL + 1); i++) {
        const int method = i / 2, stops = i % 2;
        const int32_t *const ids_of = stops ? four : seven;
        cls_params p;
        cls_host_row row = host_row(x, 8, &p);
        cls_host_verified host = {0};
        cls_host_drafts drafts;
        cls_verify_call call;
        int32_t got[4];
        cls_params_init(&p);
        p.temperature = method == CLS_VERIFY_MATCH ? 0.0f : 0.01f;
        p.grammar = g[stops];
        p.thinking_start = (cls_ids){seven, 1};
        p.thinking_end = (cls_ids){end, 1};
        p.logit_bias = (cls_biases){&no_end, (uint32_t)stops};
        p.stop_ids = (cls_ids){four, (uint32_t)stops};
        p.min_tokens = stops ? 4 : 0;
        row.output = three;
        row.output_count = stops ? 2 : 0;
        must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, three, row.output_count));
        bench_logits(&b, x, 3);
        cls_verify_call_init(&call);
        call.requests = 1;
        call.method = method;
        call.epsilon = call.delta = 0.5f;
        call.row_offsets = cu;
        call.logits = b.step.logits;
        call.draft_ids.host = ids_of;
        call.tokens = b.step.tokens;
        call.status.buffer = b.step.tokens.buffer;
        call.status.offset = b.step.tokens.offset + 3 * sizeof *got;
        must(cls_verify(b.sampler, d->queue, &call, 0, NULL, NULL));
        buffer_read_at(d, call.tokens.buffer, call.tokens.offset, sizeof got, got);
        cls_host_drafts_init(&drafts);
        drafts.row = &row;
        drafts.draft_count = 2;
        drafts.ids = ids_of;
        drafts.method = method;
        drafts.epsilon = drafts.delta = 0.5f;
        must(cls_host_verify(&drafts, &host));
        ck_assert_msg(got[0] == ids_of[0] && got[1] == -1 && got[2] == -1 &&
                          got[3] == CLS_ROW_STOPPED,
                      "%s: method %d, %d: tokens %d, %d, %d, status %d", d->name, method, stops,
                      got[0], got[1], got[2], got[3]);
        ck_assert_msg(host.tokens[0] == ids_of[0] && host.emitted == 1 &&
                          host.status == CLS_ROW_STOPPED,
                      "method %d, %d: on the host token %d of %d, status %d", method, stops,
                      host.tokens[0], host.emitted, host.status);
        expect_row(&b, -1, ENDED, "after the end");
    }
    bench_close(&b);
    cls_grammar_destroy(g[0]);
    cls_grammar_destroy(g[1]);
}
END_TEST

/* Without a grammar: where allowed_ids allow stop ids only, there is no min_tokens. */
START_TEST(stops_only)
{
    static const int32_t stops[] = {5, 6}, allowed[] = {4, 5, 6};
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_params p;
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.stop_ids = (cls_ids){stops, 2};
    p.min_tokens = 3;
    p.allowed_ids = (cls_ids){stops, 2};
    begin_with(&b, &p, NULL, 0);
    expect_row(&b, 6, CLS_ROW_STOPPED, "both allowed ids are stop ids");
    p.allowed_ids = (cls_ids){stops, 1};
    begin_with(&b, &p, NULL, 0);
    expect_row(&b, 5, CLS_ROW_STOPPED, "the one that is");
    begin_with(&b, &p, stops + 1, 1);
    expect_row(&b, -1, ENDED, "another stop id from outside");
    p.allowed_ids = (cls_ids){allowed, 3};
    begin_with(&b, &p, stops, 1);
    expect_row(&b, 4, 0, "one allowed id is none");
    expect_row(&b, 4, 0, "the third token");
    expect_row(&b, 6, CLS_ROW_STOPPED, "a token after min_tokens");
    p.allowed_ids = (cls_ids){NULL, 0};
    p.only_allowed = 1;
    begin_with(&b, &p, stops, 1);
    expect_row(&b, -1, CLS_ROW_EMPTY, "an empty list allows no stop id");
    bench_close(&b);
}
END_TEST

/* Whatever of a saved slot is changed, it is refused or can be sampled. */
static void load_changed(bench *b, const uint8_t *bytes, size_t size, const cls_grammar *g)
{
    static const uint32_t words[] = {0, 1, 3, 4, CLS_GRAMMAR_ENDED, CLS_GRAMMAR_DEAD, UINT32_MAX};
    uint8_t changed[2000];
    uint32_t refused = 0;
    for (size_t at = 12; at + 12 <= size; at += 4)
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            memcpy(changed, bytes, size);
            for (int k = 0; k < 4; k++)
                changed[at + (size_t)k] = (uint8_t)(words[i] >> 8 * k);
            fixture_put_checksum(changed, size - 8);
            const cls_status status = cls_slot_load(b->sampler, 1, changed, size, g);
            ck_assert(status == CLS_OK || status == CLS_BAD_ARGUMENT);
            refused += status != CLS_OK;
            if (status == CLS_OK)
                bench_row(b, 1);
            else if (at + 20 == size && words[i] == 3) /* a state: there are three */
                must_say("a state of the grammar is impossible");
        }
    ck_assert_uint_gt(refused, size / 4);
}

/* What is refused, and what requests share. */
START_TEST(grammars)
{
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    cls_grammar *const g = small_grammar(8, 1), *const equal = small_grammar(8, 1),
                       *const other = small_grammar(8, 6), *const wide = small_grammar(9, 1);
    cls_memory one = {.struct_size = sizeof one}, two = one;
    uint8_t bytes[2000];
    size_t size = sizeof bytes;
    cls_params p;
    cls_params_init(&p);
    p.temperature = 0.0f;
    p.grammar = wide;
    must_refuse(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0),
                "params->grammar is of a vocabulary of 9; it must be of 8");
    p.grammar = g;
    p.grammar_state = 3;
    must_refuse(cls_sampler_check(b.sampler, &p),
                "params->grammar_state is 3, but params->grammar has 3 states");
    p.grammar_state = 1;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    must(cls_sampler_memory(b.sampler, &one));
    p.grammar = equal;
    must(cls_slot_begin(b.sampler, 1, &p, NULL, 0, NULL, 0));
    must(cls_sampler_memory(b.sampler, &two));
    ck_assert_uint_eq(one.lists, two.lists);
    expect_row(&b, 3, 0, "state 1");
    must(cls_slot_save(b.sampler, d->queue, 0, bytes, &size));
    must_refuse(cls_slot_load(b.sampler, 1, bytes, size, NULL), "grammar is NULL");
    must_refuse(cls_slot_load(b.sampler, 1, bytes, size, other), "grammar is not the one");
    must_refuse(cls_slot_load(b.sampler, 1, bytes, size - 1, g), "damaged or cut short");
    load_changed(&b, bytes, size, g);
    must(cls_slot_load(b.sampler, 1, bytes, size, equal));
    bench_row(&b, 1);
    ck_assert_int_eq(b.token[0], 7);
    must(cls_slot_next_turn(b.sampler, 1, NULL, 0));
    bench_row(&b, 1);
    ck_assert_int_eq(b.token[0], 3); /* a turn of the loaded slot begins in state 1, too */
    p.grammar = NULL;
    p.grammar_state = 0;
    must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
    size = sizeof bytes;
    must(cls_slot_save(b.sampler, d->queue, 0, bytes, &size));
    must_refuse(cls_slot_load(b.sampler, 1, bytes, size, g), "bytes are a slot without one");
    bench_close(&b);
    cls_grammar_destroy(g);
    cls_grammar_destroy(equal);
    cls_grammar_destroy(other);
    cls_grammar_destroy(wide);
}
END_TEST

/* Returns the likeliest id that the first state of an automaton allows. */
static int32_t first_of(const automaton *a)
{
    int32_t id = (int32_t)a->vocab - 1;
    while (automaton_after(a, 0, id) == CLS_GRAMMAR_DEAD)
        id--;
    return id;
}

/* What a grammar takes is given free when the last of the requests that follow it leaves, whether
 * that is the first one or its fork. */
START_TEST(leaving)
{
    device *const d = fixture_device(_i);
    bench b = open_small(d);
    automaton *const a = must_malloc(sizeof *a);
    rng r = {fixture_seed() + 2};
    cls_memory m[2] = {{.struct_size = sizeof m[0]}, {.struct_size = sizeof m[0]}};
    cls_params p, none;
    cls_params_init(&none);
    none.temperature = 0.0f;
    p = none;
    for (uint32_t i = 0; i < 60; i++) {
        const uint32_t left = i % 2, stays = 1 - left;
        automaton_draw(a, 8, &r);
        cls_grammar *const g = automaton_grammar(a);
        p.grammar = g;
        must(cls_slot_begin(b.sampler, 0, &p, NULL, 0, NULL, 0));
        must(cls_slot_copy(b.sampler, 1, 0));
        cls_grammar_destroy(g);
        bench_row(&b, 0);
        must(cls_slot_begin(b.sampler, left, &none, NULL, 0, NULL, 0));
        must(cls_slot_begin(b.sampler, 2, &none, NULL, 0, NULL, 0));
        bench_row(&b, 2);
        must(cls_slot_next_turn(b.sampler, stays, NULL, 0));
        bench_row(&b, (int32_t)stays);
        ck_assert_int_eq(b.token[0], first_of(a));
        must(cls_slot_begin(b.sampler, stays, &none, NULL, 0, NULL, 0));
        bench_row(&b, 2);
        must(cls_sampler_memory(b.sampler, &m[i > 20]));
    }
    ck_assert_uint_eq(m[0].host, m[1].host);
    ck_assert_uint_eq(m[0].lists, m[1].lists);
    bench_close(&b);
    free(a);
}
END_TEST

int main(void)
{
    fixture_random(FEATURES);
    fixture_begin(ON_DEVICES);
    add_device_test(as_masks);
    add_device_test(ahead);
    add_device_test(ends);
    add_device_test(thinking);
    add_device_test(output_begins_none);
    add_device_test(many_states);
    add_device_test(behind_the_end);
    add_device_test(complete);
    add_device_test(stops_only);
    add_device_test(grammars);
    add_device_test(leaving);
    return fixture_end();
}
