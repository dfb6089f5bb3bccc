/* SPDX-License-Identifier: MIT */
/* Proves that long lists are applied completely, against the host: most of a vocabulary as
 * allowed ids, biases or stop ids, in consecutive slot calls. Some devices stop a loop
 * silently after a number of trips (llvmpipe: 65,535). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "inputs.h"

enum { SLOTS = 4, STEPS = 4 };

typedef struct lists {
    bench b;
    uint32_t vocab;
    float *logits; /* one row, which all slots sample */
    cls_params params[SLOTS];
    int begun[SLOTS];
    int32_t output[SLOTS][STEPS]; /* the first `position` tokens are valid */
    uint32_t position[SLOTS];
    int32_t *ids[2]; /* the first list has two thirds of the vocabulary, with the last token; the
                        second has the other third, with the first token */
    uint32_t n[2];
    cls_logit_bias *bias;
} lists;

static void lists_open(lists *l, device *d)
{
    rng r = {fixture_seed() + 3};
    *l = (lists){.vocab = fixture_by_size(3001, 151936, 151936)};
    l->logits = must_malloc(l->vocab * sizeof *l->logits);
    l->ids[0] = must_malloc(l->vocab * sizeof(int32_t));
    l->ids[1] = must_malloc(l->vocab * sizeof(int32_t));
    l->bias = must_malloc(l->vocab * sizeof *l->bias);
    for (uint32_t i = 0; i < l->vocab; i++) { /* likelier tokens are later in the lists */
        l->logits[i] = (float)i / (float)l->vocab * 4.0f + (float)rng_below(&r, 64) / 512.0f;
        const int which = (l->vocab - 1 - i) % 3 == 1;
        l->ids[which][l->n[which]++] = (int32_t)i;
        l->bias[i] = (cls_logit_bias){(int32_t)i, i % 2 ? -INFINITY : -(float)(i % 7)};
    }
    cls_sampler_options o = sampler_options(l->vocab, SLOTS);
    o.max_rows = 1;
    o.dtypes = 1u << CLS_F32;
    o.max_history = 4;
    l->b = bench_open(d, &o, l->logits);
}

static void lists_close(lists *l)
{
    bench_close(&l->b);
    free(l->logits);
    free(l->ids[0]);
    free(l->ids[1]);
    free(l->bias);
}

static cls_params allowing(const lists *l, int which, float temperature)
{
    cls_params p = default_params();
    p.temperature = temperature;
    p.seed = 5;
    if (which >= 0) {
        p.allowed_ids = (cls_ids){l->ids[which], l->n[which]};
    }
    return p;
}

static void begin(lists *l, uint32_t slot, cls_params p)
{
    must(cls_slot_begin(l->b.sampler, slot, &p, NULL, 0, NULL, 0));
    l->params[slot] = p;
    l->begun[slot] = 1;
    l->position[slot] = 0;
}

static void change(lists *l, uint32_t slot, cls_params p)
{
    must(cls_slot_params(l->b.sampler, slot, &p));
    l->params[slot] = p;
}

static void copy(lists *l, uint32_t to, uint32_t from)
{
    must(cls_slot_copy(l->b.sampler, to, from));
    l->params[to] = l->params[from];
    l->position[to] = l->position[from];
    memcpy(l->output[to], l->output[from], sizeof l->output[to]);
    l->begun[to] = 1;
}

/* Samples the row with each slot that has begun, and compares the tokens with the reference. */
static void lists_step(lists *l, const char *what)
{
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        if (!l->begun[slot])
            continue;
        bench_row(&l->b, slot);
        const int32_t token = l->b.token[0];
        cls_host_row row = host_row(l->logits, l->vocab, &l->params[slot]);
        row.position = row.output_count = l->position[slot];
        row.output = l->output[slot];
        const cls_host_result result = host_result(&row);
        ck_assert_msg(token == result.token, "%s: %s, slot %d: token %d, not %d", l->b.d->name,
                      what, slot, token, result.token);
        l->output[slot][l->position[slot]++] = token;
    }
}

/* Proves that a slot's next list replaces the one before it, also where slots are copied. */
START_TEST(allowed_and_biased)
{
    lists l;
    lists_open(&l, fixture_device(_i));
    cls_params biased = allowing(&l, -1, 0.0f);
    biased.logit_bias = (cls_biases){l.bias, l.vocab};
    begin(&l, 0, allowing(&l, 0, 0.0f));
    begin(&l, 1, allowing(&l, 1, 1.0f));
    begin(&l, 2, biased);
    lists_step(&l, "begun");
    change(&l, 0, allowing(&l, 1, 0.0f));
    change(&l, 1, biased);
    change(&l, 2, allowing(&l, 0, 1.0f));
    copy(&l, 3, 0);
    lists_step(&l, "other lists");
    change(&l, 0, allowing(&l, -1, 0.0f));
    copy(&l, 1, 2);
    begin(&l, 2, allowing(&l, 1, 0.0f));
    change(&l, 3, biased);
    lists_step(&l, "other lists once more");
    lists_close(&l);
}
END_TEST

/* Proves that long lists of stop ids are banned before min_tokens. Another kernel reads them. */
START_TEST(stop_ids)
{
    lists l;
    lists_open(&l, fixture_device(_i));
    for (uint32_t slot = 0; slot < 2; slot++) {
        cls_params p = allowing(&l, -1, slot == 0 ? 0.0f : 1.0f);
        p.stop_ids = (cls_ids){l.ids[slot], l.n[slot]};
        p.min_tokens = 2;
        begin(&l, slot, p);
    }
    lists_step(&l, "of min_tokens 2");
    lists_step(&l, "the last of min_tokens 2");
    lists_step(&l, "after min_tokens");
    lists_close(&l);
}
END_TEST

/* Proves that long lists of bad words are applied: words of one token, and words of two tokens
 * whose first is what the slot's first step draws. */
START_TEST(bad_words)
{
    lists l;
    lists_open(&l, fixture_device(_i));
    cls_ids *const words = must_calloc(2 * (size_t)l.n[0], sizeof *words);
    int32_t *const pairs = must_calloc(2 * (size_t)l.n[0], sizeof *pairs);
    for (uint32_t i = 0; i < l.n[0]; i++) {
        words[i] = (cls_ids){&l.ids[0][i], 1};
        pairs[2 * i] = (int32_t)(l.vocab - 1 - i % 64);
        pairs[2 * i + 1] = l.ids[0][i];
        words[l.n[0] + i] = (cls_ids){pairs + 2 * (size_t)i, 2};
    }
    for (uint32_t slot = 0; slot < 2; slot++) {
        cls_params p = allowing(&l, -1, slot == 0 ? 0.0f : 1.0f);
        p.bad_words = (cls_sequences){words + slot * l.n[0], l.n[0]};
        begin(&l, slot, p);
    }
    lists_step(&l, "of bad words");
    lists_step(&l, "of bad words, again");
    lists_close(&l);
    free(words);
    free(pairs);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURE_PLAIN | CLS_FEATURE_PENALTIES | CLS_FEATURE_STATE |
                     CLS_FEATURE_HISTORY);
    fixture_begin(ON_DEVICES);
    add_device_test(allowed_and_biased);
    add_device_test(stop_ids);
    add_device_test(bad_words);
    return fixture_end();
}
