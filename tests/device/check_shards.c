/* SPDX-License-Identifier: MIT */
/* Proves that partials that are damaged, forged or of another step are refused, and that nothing is
 * accepted before a step is complete. shards.run has the tokens of requests of all kinds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/shard.h"
#include "split.h"

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
    ck_assert_str_eq(cls_error_field(), strcmp(words, "size is") == 0 ? "size" : "");
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
    /* A header that is whole is read, also where nothing follows it. */
    memcpy(bad, p->partials, p->size);
    bad[one + 8] ^= 0x40;
    must_not_merge(p, bad, one + sizeof(cls_partial_header), "complete steps");
    must_not_merge(p, bad, one + sizeof(cls_partial_header) - 1, "size is");
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

/* Numbers of a section that are one more than the shard can have. */
START_TEST(ends_of_shards)
{
    enum { GREEDY, TOP_K = 2 };
    pair t;
    pair_open(&t, fixture_device(_i));
    splits *const p = &t.p;
    const cls_shard *const h = p->shard[0];
    const uint32_t first = h->borders[0], last = h->borders[1], k = h->rows[TOP_K].k;
    const struct {
        uint32_t row, word, value;
    } forged[] = {{GREEDY, CLS_SECTION_WORDS + 1, last},
                  {TOP_K, CLS_SECTION_WORDS + 1, last},
                  {TOP_K, CLS_SECTION_WORDS + 2 * (k - 1) + 1, last},
                  {GREEDY, CLS_SECTION_LISTED, 2},
                  {TOP_K, CLS_SECTION_LISTED, k + 1},
                  {TOP_K, CLS_SECTION_REACH, last - first + 1}};
    ck_assert_uint_eq(h->rows[GREEDY].k, 1);
    ck_assert_uint_eq(h->rows[TOP_K].sends & CLS_SENDS_LIST, CLS_SENDS_LIST);
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        unsigned char *const word =
            p->partials + sizeof(cls_partial_header) +
            (h->rows[forged[i].row].offset + forged[i].word) * sizeof(uint32_t);
        uint32_t was;
        memcpy(&was, word, sizeof was);
        memcpy(word, &forged[i].value, sizeof was);
        reseal(p->partials);
        must_not_merge(p, p->partials, p->size, "names tokens that shard 0 does not have");
        memcpy(word, &was, sizeof was);
        reseal(p->partials);
    }
    for (uint32_t i = 0; i < 2; i++)
        must(cls_shard_abandon(p->shard[i]));
    split_step(p);
    for (uint32_t i = 0; i < 2; i++) {
        split_tokens(p, i);
        batch_equal(t.s.b, "after forged numbers");
    }
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
    add_device_test(damaged_partials);
    add_device_test(forged_partials);
    add_device_test(ends_of_shards);
    add_device_test(states);
    add_device_test(options);
    return fixture_end();
}
