/* SPDX-License-Identifier: MIT */
/* Proves that what a verification reports on its tokens is, bit for bit, what steps report that
 * emit the same tokens one at a time, and what the reference reports; and that tokens, statuses and
 * slots are the same as without reports. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verifier.h"

enum { GIVEN = 3, TOP = 4, KEPT = 5, MOST = 16, ROUNDS = 2, MINUS_INF = (int)0xff800000u };

/* ---------------------------------------------------------------------- outputs */

/* The outputs of tokens: what each is called, how many elements a token has, and what stands where
 * there is no token. */
enum {
    OUT_LOGPROBS,
    OUT_RANKS,
    OUT_TOP_IDS,
    OUT_TOP_LOGPROBS,
    OUT_GIVEN_LOGPROBS,
    OUT_GIVEN_RANKS,
    OUT_ENTROPY,
    OUT_KEPT_MASS,
    OUT_KEPT_COUNTS,
    OUT_KEPT_IDS,
    OUT_KEPT_LOGITS,
    OUT_KEPT_PROBS,
    OUT_SET_IDS,
    OUT_SET_COUNTS,
    OUT_STATUS,
    OUTPUTS
};
static const struct {
    const char *name;
    uint32_t width;
    int32_t none;
} outputs[OUTPUTS] = {
    [OUT_LOGPROBS] = {"logprob", 1, MINUS_INF},
    [OUT_RANKS] = {"rank", 1, 0},
    [OUT_TOP_IDS] = {"top id", TOP, -1},
    [OUT_TOP_LOGPROBS] = {"top logprob", TOP, MINUS_INF},
    [OUT_GIVEN_LOGPROBS] = {"given logprob", GIVEN, MINUS_INF},
    [OUT_GIVEN_RANKS] = {"given rank", GIVEN, 0},
    [OUT_ENTROPY] = {"entropy", 1, 0},
    [OUT_KEPT_MASS] = {"kept mass", 1, 0},
    [OUT_KEPT_COUNTS] = {"number of candidates", 1, 0},
    [OUT_KEPT_IDS] = {"candidate", KEPT, -1},
    [OUT_KEPT_LOGITS] = {"candidate's logit", KEPT, MINUS_INF},
    [OUT_KEPT_PROBS] = {"candidate's probability", KEPT, 0},
    [OUT_SET_IDS] = {"kept id", 0, -1}, /* of the capacity */
    [OUT_SET_COUNTS] = {"number of kept ids", 1, 0},
    [OUT_STATUS] = {"status", 1, CLS_ROW_SKIPPED},
};

/* Outputs of some places, all in one buffer, the given ids in another one, and kept sets that lie
 * one behind the other, with their offsets, in a third. */
typedef struct reports {
    uint32_t places, capacity, packed; /* ids of all sets; 0: the fixed form */
    int *lost;                         /* which sets had no room among all */
    cl_mem sets;
    cls_outputs call;
    cl_mem buffer, given;
    cls_buffer of[OUTPUTS];
    int32_t *all, *ids;
} reports;

static uint32_t width_of(const reports *o, int which)
{
    return which == OUT_SET_IDS ? o->capacity : outputs[which].width;
}

static const int32_t *report_at(const reports *o, int which, uint32_t place)
{
    return o->all + o->of[which].offset / sizeof *o->all + (size_t)place * width_of(o, which);
}

static void reports_open(reports *o, device *d, uint32_t places, uint32_t capacity, int kind)
{
    size_t ints = 0;
    memset(o, 0, sizeof *o);
    o->places = places;
    o->capacity = capacity;
    for (int which = 0; which < OUTPUTS; which++) {
        o->of[which].offset = ints * sizeof *o->all;
        ints += (size_t)places * width_of(o, which);
    }
    o->all = must_calloc(ints, sizeof *o->all);
    o->ids = must_calloc((size_t)places * GIVEN, sizeof *o->ids);
    o->buffer = buffer_of(d, ints * sizeof *o->all, NULL);
    o->given = buffer_of(d, (size_t)places * GIVEN * sizeof *o->ids, NULL);
    for (int which = 0; which < OUTPUTS; which++)
        o->of[which].buffer = o->buffer;
    cls_outputs_init(&o->call);
    o->call.logprob_kind = kind;
    o->call.logprobs = o->of[OUT_LOGPROBS];
    o->call.ranks = o->of[OUT_RANKS];
    o->call.top = (cls_top_tokens){
        .count = TOP, .ids = o->of[OUT_TOP_IDS], .logprobs = o->of[OUT_TOP_LOGPROBS]};
    o->call.given = (cls_given_tokens){.count = GIVEN,
                                       .ids = {.buffer = o->given},
                                       .logprobs = o->of[OUT_GIVEN_LOGPROBS],
                                       .ranks = o->of[OUT_GIVEN_RANKS]};
    o->call.entropy = o->of[OUT_ENTROPY];
    o->call.kept_mass = o->of[OUT_KEPT_MASS];
    o->call.kept = (cls_candidates){.count = KEPT,
                                    .counts = o->of[OUT_KEPT_COUNTS],
                                    .ids = o->of[OUT_KEPT_IDS],
                                    .logits = o->of[OUT_KEPT_LOGITS],
                                    .probs = o->of[OUT_KEPT_PROBS]};
    o->call.kept_set = (cls_kept_set){
        .capacity = capacity, .ids = o->of[OUT_SET_IDS], .counts = o->of[OUT_SET_COUNTS]};
}

static uint32_t places_of(const verifier *v) { return v->width + 1; }

/* Lets the kept sets lie one behind the other, with room for so many ids. */
static void reports_pack(reports *o, device *d, uint32_t ids)
{
    const size_t size = ids * sizeof *o->all;
    o->packed = ids;
    o->lost = must_calloc(o->places, sizeof *o->lost);
    o->sets = buffer_of(d, size + (o->places + 1) * sizeof *o->all, NULL);
    o->call.kept_set.capacity = ids;
    o->call.kept_set.ids = (cls_buffer){.buffer = o->sets};
    o->call.kept_set.offsets = (cls_buffer){.buffer = o->sets, .offset = size};
}

/* Checks the offsets and which sets had no room, and brings sets and statuses into the fixed form.
 */
static void reports_unpack(reports *o, const verifier *v, const char *where)
{
    const size_t ints = o->packed + (size_t)o->places + 1;
    int32_t *const sets = must_calloc(ints, sizeof *sets), *const offsets = sets + o->packed,
                   *const wanted = must_calloc(o->places + 1, sizeof *wanted);
    int any = 0, larger = 0; /* of a request */
    buffer_read(v->d, o->sets, ints * sizeof *sets, sets);
    must(cls_host_kept_offsets(o->places, report_at(o, OUT_SET_COUNTS, 0), o->packed, wanted));
    ck_assert_msg(memcmp(wanted, offsets, (o->places + 1) * sizeof *wanted) == 0,
                  "%s: the offsets differ from those of the host", where);
    for (uint32_t place = 0; place < o->places; place++) {
        int32_t *const request = v->status + place / places_of(v);
        const uint32_t count = (uint32_t)report_at(o, OUT_SET_COUNTS, place)[0];
        int32_t *const status = (int32_t *)report_at(o, OUT_STATUS, place),
                       *const ids = (int32_t *)report_at(o, OUT_SET_IDS, place);
        o->lost[place] = offsets[place + 1] - offsets[place] != (int32_t)count;
        ck_assert_msg(!(*status & CLS_ROW_OVERFLOW) == !o->lost[place],
                      "%s: place %u has %u ids and the status %d", where, place, count, *status);
        any |= o->lost[place];
        larger |= count > o->capacity;
        *status &= ~CLS_ROW_OVERFLOW;
        *status |= count > o->capacity ? CLS_ROW_OVERFLOW : 0;
        if ((place + 1) % places_of(v) == 0) {
            ck_assert_msg(!(*request & CLS_ROW_OVERFLOW) == !any,
                          "%s: the status of place %u is "
                          "%d",
                          where, place, *request);
            *request &= ~CLS_ROW_OVERFLOW;
            *request |= larger ? CLS_ROW_OVERFLOW : 0;
            any = larger = 0;
        }
        for (uint32_t i = 0; i < o->capacity && !o->lost[place]; i++)
            ids[i] = i < count ? sets[(uint32_t)offsets[place] + i] : -1;
    }
    free(sets);
    free(wanted);
}

static void reports_close(reports *o)
{
    release_buffers(o->buffer, o->given, o->sets);
    free(o->lost);
    free(o->all);
    free(o->ids);
}

static void reports_read(reports *o, device *d)
{
    const size_t ints = o->of[OUTPUTS - 1].offset / sizeof *o->all + o->places;
    buffer_read(d, o->buffer, ints * sizeof *o->all, o->all);
}

/* ------------------------------------------------------------------ one at a time */

/* A second sampler, which emits the same tokens by steps. */
typedef struct steps {
    const verifier *v;
    cls_sampler *sampler;
    cls_step call;
    reports out;
    int32_t slots[MOST], peeks[MOST], rows[MOST], masks[MOST], biases[MOST], positions[MOST];
    int32_t own[MOST], wanted[MOST];
    int forced[MOST], any_forced[MOST];
    cl_mem tokens;
} steps;

static void steps_open(steps *t, const verifier *v, cls_context *context, uint32_t capacity,
                       int kind)
{
    const batch *const b = v->of->requests;
    int infill = 0;
    memset(t, 0, sizeof *t);
    t->v = v;
    cls_sampler_options o = sampler_options(b->vocab, v->slots);
    o.max_rows = v->of->n;
    o.counts = b->keep;
    o.max_history = b->history;
    o.dtypes = 1u << b->dtype;
    o.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_MASK | CLS_FEATURE_BIAS | CLS_FEATURE_FORCED |
                 CLS_FEATURE_STATE | v->of->features;
    must(cls_sampler_create(context, &o, &t->sampler));
    for (uint32_t i = 0; i < v->of->n; i++) {
        if (b->params[i].infill && !infill++)
            must(cls_sampler_infill(t->sampler, &b->infill));
        request_start(b, i, t->sampler, (uint32_t)v->of->slots[i]);
    }
    reports_open(&t->out, v->d, v->of->n, capacity, kind);
    t->tokens = buffer_of(v->d, MOST * sizeof(int32_t), NULL);
}

static void steps_close(steps *t)
{
    cls_sampler_destroy(t->sampler);
    reports_close(&t->out);
    release_buffers(t->tokens);
}

static const int32_t *tokens_of(const verifier *v, uint32_t i)
{
    return v->tokens + v->call.tokens.offset / sizeof *v->tokens + i * places_of(v);
}

/* Returns the row after which a request has emitted k tokens, or -1 if the last of them is no
 * draft. */
static int32_t row_after(const verifier *v, uint32_t i, uint32_t k)
{
    const int32_t *const nodes = v->nodes + (size_t)i * v->width;
    return k == 0                         ? v->of->cu[i]
           : (uint32_t)v->accepted[i] < k ? -1
                                          : v->of->cu[i] + 1 + nodes[k - 1];
}

/* Sets the step's inputs to the rows after k tokens. Requests that have none are skipped. */
static uint32_t step_inputs(steps *t, uint32_t k)
{
    const verifier *const v = t->v;
    const drafts *const of = v->of;
    uint32_t n = 0;
    t->call = default_step(of->n, NULL);
    t->call.logits = v->call.logits;
    t->call.logits_rows = of->rows->rows;
    t->call.mask = v->call.mask;
    t->call.bias = v->call.bias;
    for (uint32_t i = 0; i < of->n; i++) {
        const int32_t row = k < places_of(v) ? row_after(v, i, k) : -1;
        const int takes_part = of->slots[i] >= 0 && row >= 0 && k <= (uint32_t)v->emitted[i];
        const int32_t valid = takes_part ? row : 0;
        t->slots[i] = takes_part ? of->slots[i] : -1;
        /* A request that takes one token a call emits its own. A deferred step would leave the
         * state after that token in the slot. */
        t->peeks[i] = drafts_one_a_call(of, i) ? -1 : t->slots[i];
        t->rows[i] = valid;
        t->masks[i] = of->rows->mask_map ? of->rows->mask_map[valid] : valid;
        t->biases[i] = of->rows->bias_map ? of->rows->bias_map[valid] : valid;
        t->positions[i] = (int32_t)((of->positions ? (uint32_t)of->positions[i] : 0u) + k);
        t->wanted[i] = k < places_of(v) ? tokens_of(v, i)[k] : -1;
        n += (uint32_t)takes_part;
    }
    t->call.slots.host = t->slots;
    t->call.logits_map.host = t->rows;
    if (of->rows->mask) {
        t->call.mask.rows = of->rows->rows;
        t->call.mask.row_map.host = t->masks;
    }
    if (of->rows->bias) {
        t->call.bias.rows = of->rows->rows;
        t->call.bias.row_map.host = t->biases;
    }
    t->call.positions.host = of->positions ? t->positions : NULL;
    t->call.draws.host = of->draws;
    t->call.tokens.buffer = t->tokens;
    return n;
}

/* Emits token k of each request: by its own draw, or else by force. */
static uint32_t step(steps *t, const reports *of, uint32_t k)
{
    const verifier *const v = t->v;
    const uint32_t n = step_inputs(t, k);
    if (n == 0)
        return 0;
    t->call.defer_accept = 1;
    t->call.slots.host = t->peeks;
    must(cls_sample(t->sampler, v->d->queue, &t->call, 0, NULL, NULL));
    buffer_read(v->d, t->tokens, v->of->n * sizeof *t->own, t->own);
    for (uint32_t i = 0; i < v->of->n; i++) {
        t->forced[i] = t->peeks[i] >= 0 && t->wanted[i] >= 0 && t->own[i] != t->wanted[i];
        if (t->forced[i])
            must(cls_slot_force(t->sampler, (uint32_t)t->slots[i], &t->wanted[i], 1));
        t->any_forced[i] |= t->forced[i];
        if (t->wanted[i] < 0) /* what stands behind the last token is looked at, not emitted */
            t->slots[i] = t->own[i] < 0 ? t->slots[i] : -1;
        memcpy(t->out.ids + i * GIVEN, of->ids + (i * places_of(v) + k) * GIVEN,
               GIVEN * sizeof *of->ids);
    }
    buffer_write(v->d, t->out.given, 0, v->of->n * GIVEN * sizeof *of->ids, t->out.ids);
    t->call.defer_accept = 0;
    t->call.slots.host = t->slots;
    t->call.outputs = &t->out.call;
    t->call.status = t->out.of[OUT_STATUS];
    must(cls_sample(t->sampler, v->d->queue, &t->call, 0, NULL, NULL));
    reports_read(&t->out, v->d);
    buffer_read(v->d, t->tokens, v->of->n * sizeof *t->own, t->own);
    return n;
}

/* ---------------------------------------------------------------------- compare */

typedef struct census {
    uint32_t tokens, replaced, empty, overflow, trees, without, requests, many, relaxed, grammars;
    uint32_t lost, packed; /* sets */
} census;

static void same(const verifier *v, uint32_t i, uint32_t k, int which, uint32_t at, int32_t ours,
                 int32_t wanted, const char *where)
{
    float ours_float, wanted_float;
    memcpy(&ours_float, &ours, sizeof ours);
    memcpy(&wanted_float, &wanted, sizeof wanted);
    ck_assert_msg(ours == wanted, "%s: %s: token %u of %d: %s %u is %d (%g), not %d (%g)", where,
                  drafts_words(v->of, i), k, v->emitted[i], outputs[which].name, at, ours,
                  (double)ours_float, wanted, (double)wanted_float);
}

/* Compares token k of a request, which may be behind the last one. */
static void compare(const verifier *v, const reports *ours, const steps *t, uint32_t i, uint32_t k,
                    const char *where, census *c)
{
    const uint32_t place = i * places_of(v) + k;
    const int exists = k < (uint32_t)v->emitted[i], looked = t->slots[i] >= 0,
              lost = ours->packed != 0 && ours->lost[place];
    for (int which = 0; which < OUTPUTS; which++)
        for (uint32_t at = 0; at < width_of(ours, which) && !(lost && which == OUT_SET_IDS); at++) {
            const int32_t *const by_step = report_at(&t->out, which, i);
            int32_t wanted = exists || looked ? by_step[at] : outputs[which].none;
            if (which == OUT_STATUS && exists && t->forced[i])
                wanted &= ~CLS_ROW_FORCED;
            /* A request that stopped in the call has not been looked at again. */
            if (which == OUT_STATUS && !exists && k > 0 && (wanted & CLS_ROW_STOPPED))
                wanted = CLS_ROW_SKIPPED;
            same(v, i, k, which, at, report_at(ours, which, place)[at], wanted, where);
        }
    if (exists)
        ck_assert_msg(t->own[i] == t->wanted[i], "%s: the step emits %d, not %d", where, t->own[i],
                      t->wanted[i]);
    c->tokens += (uint32_t)exists;
    c->replaced += exists && t->forced[i];
    c->empty += !exists && looked && (report_at(&t->out, OUT_STATUS, i)[0] & CLS_ROW_EMPTY);
    c->overflow += exists && (report_at(ours, OUT_STATUS, place)[0] & CLS_ROW_OVERFLOW);
    c->without += !exists;
    c->lost += (uint32_t)lost;
    c->packed += ours->packed != 0 && !lost && report_at(ours, OUT_SET_COUNTS, place)[0] > 0;
}

/* The reports of a call are those of steps, and the slots are the same after both. */
static void compare_call(verifier *v, const reports *ours, steps *t, const char *where, census *c)
{
    for (uint32_t k = 0; k <= v->width; k++) {
        if (step(t, ours, k) == 0)
            for (uint32_t i = 0; i < v->of->n; i++)
                t->slots[i] = -1;
        for (uint32_t i = 0; i < v->of->n; i++)
            compare(v, ours, t, i, k, where, c);
    }
    for (uint32_t i = 0; i < v->of->n; i++) {
        const int32_t slot = v->of->slots[i];
        c->requests++;
        c->relaxed += v->of->requests->params[i].relaxed_top_k != 0;
        c->grammars += v->of->requests->params[i].grammar != NULL;
        c->many += v->emitted[i] > 1;
        if (slot >= 0 && t->any_forced[i]) { /* both forget which ids were forced */
            must(cls_slot_force(t->sampler, (uint32_t)slot, NULL, 0));
            must(cls_slot_force(v->sampler, (uint32_t)slot, NULL, 0));
        }
        if (slot >= 0)
            ck_assert_msg(
                slots_are_same(v->d->queue, v->sampler, (uint32_t)slot, t->sampler, (uint32_t)slot),
                "%s: %s: the slots differ", where, drafts_words(v->of, i));
    }
}

static void random_given(reports *o, device *d, uint32_t vocab, rng *r)
{
    for (uint32_t i = 0; i < o->places * GIVEN; i++)
        o->ids[i] = (int32_t)rng_below(r, vocab + 2) - 1;
    buffer_write(d, o->given, 0, o->places * GIVEN * sizeof *o->ids, o->ids);
}

/* The reference reports the same. */
static void compare_host(const verifier *v, const reports *o, int kind, const char *where)
{
    const drafts *const of = v->of;
    for (uint32_t i = 0; i < of->n; i++)
        for (uint32_t k = 0; k <= drafts_count(of, i) && of->slots[i] >= 0; k++) {
            const uint32_t place = i * places_of(v) + k;
            int32_t logprob;
            memcpy(&logprob, &of->logprobs[kind][place], sizeof logprob);
            same(v, i, k, OUT_LOGPROBS, 0, report_at(o, OUT_LOGPROBS, place)[0], logprob, where);
            same(v, i, k, OUT_STATUS, 0, report_at(o, OUT_STATUS, place)[0],
                 of->token_status[place], where);
            same(v, i, k, OUT_SET_COUNTS, 0, report_at(o, OUT_SET_COUNTS, place)[0],
                 (int32_t)of->kept_counts[place], where);
            for (uint32_t at = 0; at < o->capacity && !(o->packed != 0 && o->lost[place]); at++)
                same(v, i, k, OUT_SET_IDS, at, report_at(o, OUT_SET_IDS, place)[at],
                     of->kept_ids[(size_t)place * o->capacity + at], where);
        }
}

START_TEST(as_one_at_a_time)
{
    static const uint32_t sizes[] = {16, 100, 1000, 5000, 1, 1025, 31, 2, 100, 1000};
    device *const d = fixture_device(_i);
    census c = {0};
    rng r = {fixture_seed() + 71};
    for (uint32_t call = 0; call < fixture_by_size(16, 120, 800); call++) {
        const uint32_t n = 1 + rng_below(&r, 6);
        drafts *const of =
            drafts_random(n, sizes[rng_below(&r, fixture_by_size(2, 10, 10))], (int)(call % 4), &r);
        const uint32_t vocab = of->rows->vocab,
                       wide = of->most <= 100 && rng_below(&r, 3) == 0 ? rng_below(&r, 5) : 0,
                       capacity = 1 + rng_below(&r, rng_below(&r, 2) ? vocab
                                                    : vocab < 8      ? 1
                                                                     : 8);
        const int kind = (int)rng_below(&r, 2), search = rng_below(&r, 3) == 0;
        cls_context *const context = fixture_context(d, 0, 0, 0, 0);
        int32_t slots[MOST];
        char where[240];
        verifier v;
        reports o;
        steps t;
        of->features = CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS | CLS_FEATURE_KEPT_SETS;
        drafts_choose(of, &r);
        verifier_open(&v, d, context, of, (int)rng_below(&r, 2), wide);
        steps_open(&t, &v, context, capacity, kind);
        reports_open(&o, d, n * places_of(&v), capacity, kind);
        if (rng_below(&r, 2)) /* room for few sets, or for all */
            reports_pack(&o, d, 1 + rng_below(&r, rng_below(&r, 2) ? vocab : o.places * vocab));
        drafts_report(of, places_of(&v), capacity);
        cls_sampler_force_search(v.sampler, search);
        cls_sampler_force_search(t.sampler, search);
        v.call.outputs = &o.call;
        v.call.token_status = o.of[OUT_STATUS];
        memcpy(slots, of->slots, n * sizeof *slots);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            snprintf(where, sizeof where, "%s, call %u, round %u%s%s", d->name, call, round,
                     kind ? ", final" : "", search ? ", by search" : "");
            if (round)
                drafts_choose(of, &r);
            if (rng_below(&r, 4) == 0)
                of->slots[rng_below(&r, n)] = -1;
            random_given(&o, d, vocab, &r);
            drafts_reference(of);
            verifier_run(&v);
            reports_read(&o, d);
            if (o.packed != 0)
                reports_unpack(&o, &v, where);
            verifier_equal(&v, where);
            compare_host(&v, &o, kind, where);
            compare_call(&v, &o, &t, where, &c);
            c.trees += of->parents != NULL;
            drafts_accept(of);
            memcpy(of->slots, slots, n * sizeof *slots);
        }
        reports_close(&o);
        steps_close(&t);
        verifier_close(&v);
        drafts_free(of);
    }
    printf("%s: %u requests, %u with several tokens; %u tokens, %u not drawn from their rows, %u "
           "rows too large for their sets, %u empty rows, %u places without a token, %u trees; %u "
           "requests relaxed, %u with grammars; %u sets one behind the other, %u without room\n",
           d->name, c.requests, c.many, c.tokens, c.replaced, c.overflow, c.empty, c.without,
           c.trees, c.relaxed, c.grammars, c.packed, c.lost);
    ck_assert(c.packed > 0 && c.lost > 0);
    ck_assert(c.tokens > c.requests / 2 && c.many > 0 && c.overflow > 0 && c.trees > 0);
    ck_assert(fixture_by_size(0, 1, 1) == 0 || (c.grammars > 0 && c.relaxed > 0));
}
END_TEST

/* A draft of the weight 0 that typical acceptance takes has no final log-probability, as where it
 * is forced: only a token that the row draws always has one. */
START_TEST(weightless)
{
    enum { VOCAB = 16, DRAFT = 3 };
    static const uint32_t lengths[] = {1};
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    for (int kind = CLS_LOGPROB_RAW; kind <= CLS_LOGPROB_FINAL; kind++) {
        float values[VOCAB] = {40.0f};
        rng r = {1};
        census c = {0};
        drafts *const of = drafts_new(1, lengths, VOCAB, CLS_F32, CLS_DRAFT_NONE, &r);
        verifier v;
        reports o;
        steps t;
        batch_row(of->requests, 0, ROW_NORMAL1, 1);
        for (uint32_t row = 0; row < 2; row++)
            drafts_values(of->rows, row, values);
        of->ids[0] = DRAFT;
        of->method = CLS_VERIFY_TYPICAL;
        of->epsilon = of->delta = 1e-30f;
        of->features = CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS | CLS_FEATURE_KEPT_SETS;
        verifier_open(&v, d, context, of, 0, 0);
        steps_open(&t, &v, context, VOCAB, kind);
        reports_open(&o, d, places_of(&v), VOCAB, kind);
        drafts_report(of, places_of(&v), VOCAB);
        v.call.outputs = &o.call;
        v.call.token_status = o.of[OUT_STATUS];
        random_given(&o, d, VOCAB, &r);
        drafts_reference(of);
        verifier_run(&v);
        reports_read(&o, d);
        verifier_equal(&v, d->name);
        compare_host(&v, &o, kind, d->name);
        compare_call(&v, &o, &t, d->name, &c);
        ck_assert_msg(v.accepted[0] == 1 && c.replaced == 1, "the draft was not accepted");
        ck_assert_msg((report_at(&o, OUT_LOGPROBS, 0)[0] == MINUS_INF) ==
                          (kind == CLS_LOGPROB_FINAL),
                      "the draft has a final log-probability, or no raw one");
        reports_close(&o);
        steps_close(&t);
        verifier_close(&v);
        drafts_free(of);
    }
}
END_TEST

/* More places than a launch has groups in its second dimension: requests without drafts, whose one
 * place gets what it gets if there are no others. */
START_TEST(many_places)
{
    enum { VOCAB = 16, REQUESTS = 520, DRAFTS = CLS_MAX_DRAFTS, CAPACITY = 3 };
    static int32_t cu[REQUESTS + 1], slots[REQUESTS];
    static float logits[REQUESTS * VOCAB];
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    cls_sampler_options options = sampler_options(VOCAB, REQUESTS);
    cls_sampler *sampler;
    cls_verify_call call;
    cls_params p = default_params();
    reports all, few;
    options.dtypes = 1u << CLS_F32;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_VERIFY | CLS_FEATURE_LOGPROBS |
                       CLS_FEATURE_PROBS | CLS_FEATURE_KEPT_SETS;
    must(cls_sampler_create(fixture_context(d, 0, 0, 0, 0), &options, &sampler));
    p.temperature = 0.0f;
    for (int32_t i = 0; i < REQUESTS; i++) {
        slots[i] = i;
        cu[i + 1] = i + 1;
        must(cls_slot_begin(sampler, (uint32_t)i, &p, NULL, 0, NULL, 0));
    }
    for (int i = 0; i < REQUESTS * VOCAB; i++)
        logits[i] = (float)rng_normal(&r);
    cls_verify_call_init(&call);
    call.requests = REQUESTS;
    call.row_offsets = cu;
    call.slots.host = slots;
    call.logits.values.buffer = buffer_of(d, sizeof logits, logits);
    for (int with = 0; with < 2; with++) {
        reports *const o = with ? &all : &few;
        call.max_drafts = with ? DRAFTS : 0;
        reports_open(o, d, REQUESTS * (call.max_drafts + 1), CAPACITY, CLS_LOGPROB_RAW);
        random_given(o, d, VOCAB, &(rng){1});
        call.outputs = &o->call;
        call.token_status = o->of[OUT_STATUS];
        must(cls_verify(sampler, d->queue, &call, 0, NULL, NULL));
        reports_read(o, d);
    }
    ck_assert_uint_gt(all.places, 65535);
    for (uint32_t place = 0; place < all.places; place++)
        for (int which = 0; which < OUTPUTS; which++)
            for (uint32_t at = 0; at < width_of(&all, which); at++) {
                const int32_t ours = report_at(&all, which, place)[at],
                              wanted = place % (DRAFTS + 1) == 0
                                           ? report_at(&few, which, place / (DRAFTS + 1))[at]
                                           : outputs[which].none;
                const int given = which == OUT_GIVEN_LOGPROBS || which == OUT_GIVEN_RANKS;
                ck_assert_msg(given || ours == wanted, "%s: place %u: %s %u is %d, not %d", d->name,
                              place, outputs[which].name, at, ours, wanted);
            }
    cls_sampler_destroy(sampler);
    release_buffers(call.logits.values.buffer);
    reports_close(&all);
    reports_close(&few);
}
END_TEST

/* A sampler without the features of the outputs refuses them, and says what is missing. */
START_TEST(features)
{
    device *const d = fixture_device(_i);
    rng r = {1};
    drafts *const of = drafts_random(2, 16, CLS_VERIFY_MATCH, &r);
    verifier v;
    reports o;
    drafts_choose(of, &r);
    verifier_open(&v, d, fixture_context(d, 0, 0, 0, 0), of, 0, 0);
    reports_open(&o, d, of->n * places_of(&v), 1, CLS_LOGPROB_RAW);
    verifier_run(&v);
    cls_outputs only;
    cls_outputs_init(&only);
    v.call.outputs = &only;
    only.logprobs = o.call.logprobs;
    must_refuse(cls_verify(v.sampler, d->queue, &v.call, 0, NULL, NULL), "CLS_FEATURE_LOGPROBS");
    only.logprobs.buffer = NULL;
    only.kept_set = o.call.kept_set;
    must_refuse(cls_verify(v.sampler, d->queue, &v.call, 0, NULL, NULL), "CLS_FEATURE_KEPT_SETS");
    v.call.outputs = NULL;
    v.call.token_status = o.of[OUT_STATUS];
    must_refuse(cls_verify(v.sampler, d->queue, &v.call, 0, NULL, NULL), "CLS_FEATURE_LOGPROBS");
    reports_close(&o);
    verifier_close(&v);
    drafts_free(of);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(as_one_at_a_time);
    add_device_test(weightless);
    add_device_test(many_places);
    add_device_test(features);
    return fixture_end();
}
