/* SPDX-License-Identifier: MIT */
/* Proves that the device finds the loops at the end of an output, and only these, against a search
 * that compares every token: texts over few words, texts that repeat, and those that nearly do,
 * which take the longest. */
#include <stdio.h>

#include "batch.h"
#include "bench.h"

enum { WORDS = 4, SLOTS = 32, HISTORY = 4096 };

typedef struct text {
    int32_t ids[HISTORY + 1]; /* the last one is the token that the request draws */
    uint32_t length;          /* without that token */
} text;

/* Returns whether the first `length` ids end with p->loop_repeats copies of a loop. */
static int ends_in_loop(const int32_t *ids, uint32_t length, const cls_params *p)
{
    for (uint32_t n = p->loop_min; n <= p->loop_max && n * p->loop_repeats <= length; n++) {
        uint32_t at = length - n * p->loop_repeats;
        while (at + n < length && ids[at] == ids[at + n])
            at++;
        if (at + n == length)
            return 1;
    }
    return 0;
}

/* Loops of up to CLS_MAX_LOOP tokens, mostly short ones. */
static void random_params(cls_params *p, rng *r)
{
    const uint32_t most = rng_below(r, 4) ? 16 : CLS_MAX_LOOP;
    cls_params_init(p);
    p->temperature = 0;
    p->loop_repeats = 2 + (rng_below(r, 2) ? rng_below(r, 3) : rng_below(r, HISTORY / most - 1));
    p->loop_max = 1 + rng_below(r, most);
    if (p->loop_max * p->loop_repeats > HISTORY)
        p->loop_max = HISTORY / p->loop_repeats;
    p->loop_min = 1 + rng_below(r, p->loop_max);
}

/* A text that repeats a sequence of ids from some place on, with up to two ids changed. In half of
 * the texts the drawn token completes the sequence's last copy. */
static void random_text(text *t, const cls_params *p, rng *r)
{
    const uint32_t words = 1 + rng_below(r, WORDS), unit = 1 + rng_below(r, p->loop_max),
                   begin = rng_below(r, 4) ? rng_below(r, 4) : rng_below(r, 1000);
    t->length = begin + p->loop_repeats * unit + rng_below(r, 2) * rng_below(r, 4) - 1;
    t->length = t->length < HISTORY ? t->length : HISTORY;
    for (uint32_t i = 0; i <= t->length; i++)
        t->ids[i] = i < begin + unit ? (int32_t)rng_below(r, words) : t->ids[i - unit];
    for (uint32_t i = rng_below(r, 3); i > 0; i--)
        t->ids[rng_below(r, t->length + 1)] = (int32_t)rng_below(r, WORDS);
}

/* A run of one id with another id in it, and a loop that is longer than the latter part: each
 * length up to the former part's repeats up to the other id. */
static void long_text(text *t, cls_params *p, rng *r)
{
    const uint32_t late = 1 + rng_below(r, 1400);
    p->loop_repeats = 2 + rng_below(r, 2);
    p->loop_max = CLS_MAX_LOOP;
    p->loop_min = 1 + late / p->loop_repeats + rng_below(r, 2);
    t->length = 2 * CLS_MAX_LOOP - rng_below(r, 40);
    for (uint32_t i = 0; i <= t->length; i++)
        t->ids[i] = 0;
    t->ids[t->length - late] = rng_below(r, 4) != 0;
    t->ids[t->length] = rng_below(r, 8) == 0;
}

/* Requests begin with texts and draw a token, which is the last of a loop in some. */
static void check_texts(device *d, uint32_t rounds, int longest)
{
    static text texts[SLOTS];
    rng r = {fixture_seed() + (uint64_t)longest};
    uint32_t begun_in_loop = 0, drew_loop = 0, drew = 0;
    cls_sampler_options o = sampler_options(WORDS, SLOTS);
    o.max_history = HISTORY;
    o.features = CLS_FEATURE_FORCED;
    bench b = bench_open(d, &o, NULL);
    for (uint32_t round = 0; round < rounds; round++) {
        float logits[SLOTS][WORDS];
        int32_t status[SLOTS];
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            text *const t = &texts[slot];
            cls_params p;
            random_params(&p, &r);
            if (longest)
                long_text(t, &p, &r);
            else
                random_text(t, &p, &r);
            for (int32_t i = 0; i < WORDS; i++)
                logits[slot][i] = i == t->ids[t->length];
            must(cls_slot_begin(b.sampler, slot, &p, NULL, 0, t->ids, t->length));
            status[slot] = ends_in_loop(t->ids, t->length, &p) ? CLS_ROW_STOPPED | CLS_ROW_SKIPPED
                           : ends_in_loop(t->ids, t->length + 1, &p)
                               ? CLS_ROW_STOPPED | CLS_ROW_LOOP
                               : 0;
        }
        bench_logits(&b, logits[0], SLOTS);
        bench_step(&b);
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            ck_assert_msg(b.status[slot] == status[slot],
                          "%s: round %u, slot %u, text of %u ids: status %d instead of %d", d->name,
                          round, slot, texts[slot].length, b.status[slot], status[slot]);
            begun_in_loop += (status[slot] & CLS_ROW_SKIPPED) != 0;
            drew_loop += (status[slot] & CLS_ROW_LOOP) != 0;
            drew += status[slot] == 0;
        }
    }
    printf("%s: of %u texts %u ended in a loop, %u did with one more token\n", d->name,
           rounds * SLOTS, begun_in_loop, drew_loop);
    ck_assert(begun_in_loop > 0 && drew_loop > 0 && drew > 0);
    bench_close(&b);
}

START_TEST(random_texts) { check_texts(fixture_device(_i), fixture_by_size(4, 40, 400), 0); }
END_TEST

START_TEST(long_texts) { check_texts(fixture_device(_i), fixture_by_size(4, 10, 100), 1); }
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURE_FORCED);
    fixture_begin(ON_DEVICES);
    add_device_test(random_texts);
    add_device_test(long_texts);
    return fixture_end();
}
