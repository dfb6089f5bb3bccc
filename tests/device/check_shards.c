/* SPDX-License-Identifier: MIT */
/* Proves that a vocabulary that is split over shards gives the tokens, the statuses and the
 * row records of the reference on every shard, bit for bit: for random chains, penalties, masks,
 * biases and histories, for even and uneven borders, and with shards of different shapes. Then it
 * proves that partials that are damaged or belong to another step are refused, and that nothing is
 * accepted before a step is complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/shard.h"
#include "split.h"

enum { STEPS = 3 };

/* How many steps took how many exchanges, how many of these gathered logits, and how many rows were
 * forced. */
typedef struct census {
    uint32_t steps, gathered, forced, exchanges[SPLIT_EXCHANGES + 1];
} census;

static batch *random_batch(uint32_t i, uint32_t rows, uint32_t vocab, int dtype, rng *r)
{
    batch *const b = batch_new(rows, vocab, dtype, vocab + rng_below(r, 9), 0);
    for (uint32_t row = 0; row < rows; row++) {
        batch_row(b, row, (row_kind)rng_below(r, ROW_KINDS), rng_bits(r));
        params_random(&b->params[row], vocab, r);
        params_adaptive(&b->params[row], vocab, r);
    }
    b->mask_kind = (int)rng_below(r, 2);
    b->history = i % 3 ? 100 : 0;
    b->forces = i % 5 == 2;
    if (i % 4 == 1)
        batch_mask(b, r, i % 8 == 1 ? 50 : 5, 0);
    if (i % 3)
        batch_requests(b, r);
    if (i % 7 == 3)
        batch_bias(b, r, (int)rng_below(r, 3));
    return b;
}

/* The usual requests of engines, for which no logits are gathered. */
static void usual_params(cls_params *p, uint32_t vocab, rng *r)
{
    const uint32_t kind = rng_below(r, 6);
    p->temperature = kind == 0 ? 0.0f : 0.3f + (float)rng_unit(r) * 1.5f;
    p->top_k = kind == 2 || kind == 3 ? 1 + (int32_t)rng_below(r, 100) : 0;
    p->top_p = kind == 3 || kind == 4 ? 0.3f + 0.69f * (float)rng_unit(r) : 1.0f;
    p->min_p = kind == 5 || (kind == 3 && rng_below(r, 2)) ? 0.2f * (float)rng_unit(r) : 0.0f;
    p->chain = (int32_t)rng_below(r, 3) == 0 ? CLS_CHAIN_LLAMA : CLS_CHAIN_VLLM;
    (void)vocab;
}

/* Samples several tokens of each row's request on n shards. */
static void run_batch(batch *b, device *d, cls_context *const *contexts, uint32_t n,
                      const uint32_t *borders, census *c)
{
    char where[240];
    client s;
    splits p;
    const cls_device_info info = context_info(contexts[0]);
    b->shortlist = info.shortlist;
    client_open(&s, b, d, contexts[0], 1);
    split_open(&p, &s, contexts, n, borders);
    for (uint32_t step = 0; step < STEPS; step++) {
        batch_reference(b);
        if (step == 1) {
            split_step_at_once(&p);
        } else {
            split_step(&p);
            c->steps++;
            c->exchanges[p.exchanges]++;
            c->gathered += p.partials[20] == 0; /* the header's protocol */
        }
        for (uint32_t i = 0; i < n; i++) {
            snprintf(where, sizeof where, "%s, shard %u of %u, %u tokens, token %u", d->name, i, n,
                     b->vocab, step);
            split_tokens(&p, i);
            batch_accept_loop_limit(b, d);
            batch_equal(b, where);
        }
        for (uint32_t row = 0; row < b->rows; row++) {
            c->forced += (b->status[row] & CLS_ROW_FORCED) != 0;
            if (b->token[row] < 0)
                b->host[row].token = -1;
            batch_accept(b, row);
        }
    }
    split_close(&p);
    client_close(&s);
}

static void run_shards(device *d, uint32_t batches, int usual, uint64_t seed)
{
    static const uint32_t sizes[] = {2500, 1025, 31, 5000, 1023, 111, 32000},
                          counts[] = {2, 3, 1, 4, 7, 16};
    rng r = {fixture_seed() + seed};
    census c = {0};
    for (uint32_t i = 0; i < batches; i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(4, 6, 7)],
                       n = counts[i % fixture_by_size(3, 6, 6)];
        uint32_t borders[SPLIT_MOST + 1];
        cls_context *contexts[SPLIT_MOST];
        /* Each type of logits takes a dozen more programs. */
        const int dtype = fixture_size() == TEST_FULL ? (int)rng_below(&r, 3) : (int)(i % 2);
        const int other_shape = i % 10 == 4 && dtype == CLS_F32;
        batch *const b = random_batch(i, vocab > 5000 ? 6 : 10, vocab, dtype, &r);
        for (uint32_t row = 0; row < b->rows && usual; row++) {
            cls_params *const p = &b->params[row];
            const uint64_t row_seed = p->seed;
            cls_params_init(p);
            p->seed = row_seed;
            usual_params(p, vocab, &r);
        }
        split_borders(vocab, n, i % 3 == 0, &r, borders);
        for (uint32_t k = 0; k < n; k++) {
            contexts[k] = k % 2 && other_shape ? fixture_context(d, 1u << CLS_F32, 0, 4, 0) : NULL;
            if (contexts[k] == NULL)
                contexts[k] = fixture_context(d, 0, 0, 0, 0);
        }
        run_batch(b, d, contexts, n, i % 6 == 5 ? NULL : borders, &c);
        batch_free(b);
    }
    printf("%s: %u steps on shards; %u, %u and %u took 1, 2 and 3 exchanges; %u gathered logits; "
           "%u rows forced\n",
           d->name, c.steps, c.exchanges[1], c.exchanges[2], c.exchanges[3], c.gathered, c.forced);
    ck_assert(c.forced > 0 || fixture_size() == TEST_TINY);
    ck_assert_uint_eq(c.exchanges[1] + c.exchanges[2] + c.exchanges[3], c.steps);
    ck_assert_uint_eq(c.gathered, 0);
}

START_TEST(random_chains) { run_shards(fixture_device(_i), fixture_by_size(4, 24, 200), 0, 400); }
END_TEST

START_TEST(usual_requests) { run_shards(fixture_device(_i), fixture_by_size(4, 24, 200), 1, 401); }
END_TEST

/* ----------------------------------------------------------------- hostile partials */

/* Two shards of a batch of four rows, with an open step and its partials. */
typedef struct pair {
    client s;
    splits p;
} pair;

static void pair_open(pair *t, device *d)
{
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cls_context *const contexts[2] = {context, context};
    batch *const b = batch_new(4, 2500, CLS_F32, 0, 0);
    for (uint32_t row = 0; row < b->rows; row++)
        batch_row(b, row, ROW_LANGUAGE, row);
    b->params[0].temperature = 0.0f;
    b->params[2].top_k = 20;
    b->params[3].top_p = 0.9f;
    client_open(&t->s, b, d, context, 1);
    split_open(&t->p, &t->s, contexts, 2, NULL);
    batch_reference(b);
    split_begin(&t->p);
    split_exchange(&t->p);
}

static void pair_close(pair *t)
{
    batch *const b = t->s.b;
    split_close(&t->p);
    client_close(&t->s);
    batch_free(b);
}

/* A merge must fail, and its message must have the words. */
static void must_not_merge(splits *p, const void *partials, size_t size, const char *words)
{
    int more = 7;
    must_refuse(cls_shard_merge(p->shard[0], partials, size, &more, NULL), words);
}

START_TEST(damaged_partials)
{
    pair t;
    pair_open(&t, fixture_device(_i));
    splits *const p = &t.p;
    const size_t one = p->bytes[0];
    unsigned char *const bad = must_malloc(p->size);
    static const struct {
        size_t at;
        const char *words;
    } fields[] = {{0, "not a partial"},  {4, "the format"},  {8, "complete steps"},
                  {16, "of exchange"},   {20, "of kind"},    {24, "is expected there"},
                  {28, "of a split"},    {32, "rows"},       {36, "a vocabulary"},
                  {40, "other borders"}, {48, "is damaged"}, {56, "is damaged"}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        memcpy(bad, p->partials, p->size);
        bad[one + fields[i].at] ^= 0x40;
        must_not_merge(p, bad, p->size, fields[i].words);
    }
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < 200; i++) { /* each flipped bit is found */
        memcpy(bad, p->partials, p->size);
        bad[rng_below(&r, (uint32_t)p->size)] ^= (unsigned char)(1u << rng_below(&r, 8));
        must_not_merge(p, bad, p->size, "partial ");
    }
    must_not_merge(p, p->partials, p->size - 1, "size is");
    must_not_merge(p, p->partials, 0, "size is");
    memcpy(bad, p->partials + one, one); /* in another order */
    memcpy(bad + one, p->partials, one);
    must_not_merge(p, bad, p->size, "is expected there");
    free(bad);
    /* The step is as it was: the right partials complete it. */
    for (uint32_t i = 0; i < 2; i++) {
        int more = 7;
        must(cls_shard_merge(p->shard[i], p->partials, p->size, &more, NULL));
        if (more == 0) {
            split_tokens(p, i);
            batch_equal(t.s.b, "after damaged partials");
        } else if (i == 1) {
            split_finish(p);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        split_tokens(p, i);
        batch_equal(t.s.b, "after damaged partials");
    }
    pair_close(&t);
}
END_TEST

/* Gives a changed partial a checksum that matches. */
static void reseal(unsigned char *partial)
{
    cls_partial_header header;
    memcpy(&header, partial, sizeof header);
    header.checksum =
        cls_hash_bytes(cls_hash_bytes(2, &header, offsetof(cls_partial_header, checksum)),
                       partial + sizeof header, (size_t)header.size - sizeof header);
    memcpy(partial, &header, sizeof header);
}

/* Fails unless every row has a token of the vocabulary, or none and a status that says why. */
static void tokens_exist(splits *p, uint32_t shard)
{
    const batch *const b = p->client->b;
    split_tokens(p, shard);
    for (uint32_t row = 0; row < b->rows; row++)
        ck_assert_msg((uint32_t)b->token[row] < b->vocab || (b->token[row] == -1 && b->status[row]),
                      "row %u of shard %u has token %d and status %d", row, shard, b->token[row],
                      b->status[row]);
}

/* Partials that somebody has forged: every word of the body may have any value. They are refused,
 * or give some token; nothing is read or written that is not the step's. */
START_TEST(forged_partials)
{
    pair t;
    rng r = {fixture_seed() + 7};
    uint32_t refused = 0, steps = fixture_by_size(20, 100, 1000);
    pair_open(&t, fixture_device(_i));
    splits *const p = &t.p;
    for (uint32_t i = 0; i < steps; i++) {
        int more = 1, bad = 0;
        for (uint32_t exchange = 0; more && !bad; exchange++) {
            if (exchange != 0 || i != 0)
                split_exchange(p);
            const size_t one = p->size / p->n, body = one - sizeof(cls_partial_header);
            unsigned char *const partial = p->partials + rng_below(&r, p->n) * one;
            const size_t at = sizeof(cls_partial_header) + rng_below(&r, (uint32_t)(body / 4)) * 4;
            const uint32_t word = rng_below(&r, 2) ? (uint32_t)rng_bits(&r) : rng_below(&r, 4000);
            if (rng_below(&r, 3) != 0) {
                memcpy(partial + at, &word, sizeof word);
                reseal(partial);
            }
            for (uint32_t k = 0; k < p->n; k++)
                bad |= cls_shard_merge(p->shard[k], p->partials, p->size, &more, NULL) != CLS_OK;
        }
        refused += (uint32_t)bad;
        for (uint32_t k = 0; k < p->n; k++) {
            if (!bad)
                tokens_exist(p, k);
            must(cls_shard_abandon(p->shard[k]));
        }
        if (i + 1 < steps)
            split_begin(p);
    }
    must_cl(clFinish(t.s.d->queue));
    printf("%u of %u forged steps were refused\n", refused, steps);
    ck_assert(refused != 0 && refused != steps);
    pair_close(&t);
}
END_TEST

START_TEST(states)
{
    pair t;
    device *const d = fixture_device(_i);
    pair_open(&t, d);
    splits *const p = &t.p;
    cls_shard *const h = p->shard[0];
    const void *partial;
    size_t size;
    int more;
    cls_logits logits;
    /* While a step is open, nothing else may use the sampler. */
    must_refuse(cls_slot_reset(p->sampler[0], 0), "cls_shard_abandon()");
    ck_assert_int_eq(cls_sample(p->sampler[0], d->queue, &t.s.step, 0, NULL, NULL),
                     CLS_BAD_ARGUMENT);
    must_refuse(cls_shard_sample(h, d->queue, &p->step[0], 0, NULL), "open step");
    /* A step that is abandoned changes nothing: the next one gives the same tokens. */
    for (uint32_t i = 0; i < 2; i++)
        must(cls_shard_abandon(p->shard[i]));
    must(cls_shard_abandon(h));
    ck_assert_uint_eq(cls_shard_digest(h), 0);
    ck_assert_uint_eq(cls_shard_partial_size(h), 0);
    must_refuse(cls_shard_partial(h, &partial, &size), "no open step");
    ck_assert_int_eq(cls_shard_merge(h, p->partials, p->size, &more, NULL), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_shard_logits(h, &logits), CLS_BAD_ARGUMENT);
    split_step(p);
    for (uint32_t i = 0; i < 2; i++) {
        split_tokens(p, i);
        batch_equal(t.s.b, "after an abandoned step");
    }
    /* Partials of the step before are refused. */
    unsigned char *const old = must_malloc(p->size);
    const size_t old_size = p->size;
    memcpy(old, p->partials, old_size);
    split_begin(p);
    split_exchange(p);
    if (p->size == old_size)
        must_not_merge(p, old, old_size, "complete steps");
    free(old);
    /* Without a step, the sampler works as one of the whole vocabulary. */
    for (uint32_t i = 0; i < 2; i++)
        must(cls_shard_abandon(p->shard[i]));
    must(cls_slot_reset(p->sampler[0], 0));
    /* One sampler has one shard. */
    cls_shard *second;
    cls_shard_options o;
    cls_shard_options_init(&o);
    must_refuse(cls_shard_create(p->sampler[0], &o, &second), "already has a shard");
    pair_close(&t);
}
END_TEST

START_TEST(options)
{
    device *const d = fixture_device(_i);
    static const struct {
        uint32_t count, shard, borders[4];
        const char *words;
    } bad[] = {{0, 0, {0}, "shard_count is 0"},
               {101, 0, {0}, "at most the vocabulary"},
               {5000, 0, {0}, "shard_count is 5000"},
               {2, 2, {0}, "options->shard is 2"},
               {2, 0, {1, 50, 100}, "borders[0] is 1"},
               {2, 0, {0, 0, 100}, "not above borders[0]"},
               {2, 0, {0, 60, 50}, "borders[2] is 50"},
               {2, 0, {0, 60, 99}, "it must be the sampler's vocabulary of 100"}};
    client s = small_client(d, 1);
    cls_shard *shard;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cls_shard_options o;
        cls_shard_options_init(&o);
        o.shard_count = bad[i].count;
        o.shard = bad[i].shard;
        o.borders = bad[i].borders[2] != 0 ? bad[i].borders : NULL;
        ck_assert_int_eq(cls_shard_create(s.sampler, &o, &shard), CLS_BAD_ARGUMENT);
        ck_assert_ptr_null(shard);
        must_say(bad[i].words);
    }
    cls_shard_options o;
    cls_shard_options_init(&o);
    o.on_device = 2;
    ck_assert_int_eq(cls_shard_create(s.sampler, &o, &shard), CLS_BAD_ARGUMENT);
    ck_assert_str_eq(cls_error_message(), "options->on_device is 2; it must be 0 or 1");
    close_small(&s);
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURE_MASK | CLS_FEATURE_BIAS);
    fixture_begin(ON_DEVICES);
    add_device_test(random_chains);
    add_device_test(usual_requests);
    add_device_test(damaged_partials);
    add_device_test(forged_partials);
    add_device_test(states);
    add_device_test(options);
    return fixture_end();
}
