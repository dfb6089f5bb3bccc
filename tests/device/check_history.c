/* SPDX-License-Identifier: MIT */
/* Proves on the device the effects of a request's latest tokens: DRY with breakers, no-repeat
 * n-grams, bad words, min tokens; and allowed ids. Brute force (tests/support/history.c)
 * computes what each token loses; the test compares this with what the device prepared, bit
 * for bit, and with the tokens that follow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "oracle.h"

/* ---------------------------------------------------------------- the device */

static void world_open(world *w, device *d, cls_context *context, uint32_t vocab, uint32_t alphabet,
                       uint32_t history, int dtype, rng *r)
{
    const size_t size = dtype_size(dtype);
    memset(w, 0, sizeof *w);
    w->d = d;
    w->vocab = vocab;
    w->alphabet = alphabet < vocab ? alphabet : vocab;
    w->history = history;
    w->rollback = 30;
    w->room = history + 20000;
    w->dtype = dtype;
    cls_sampler_options o = sampler_options(vocab, ROWS);
    o.max_history = history;
    o.max_rollback = w->rollback;
    o.counts = w->keep = (int32_t)rng_below(r, 3);
    o.dtypes = 1u << dtype;
    o.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_HISTORY | CLS_FEATURE_MASK;
    must(cls_sampler_create(context, &o, &w->sampler));
    unsigned char *const data = malloc(ROWS * vocab * size);
    w->amount = malloc(vocab * sizeof *w->amount);
    w->banned = malloc(vocab);
    ck_assert(data && w->amount && w->banned && vocab <= 5000);
    for (uint32_t row = 0; row < ROWS; row++) {
        w->row[row].text = must_malloc(w->room * sizeof(int32_t));
        w->row[row].is_output = must_malloc(w->room);
        row_fill(ROW_COARSE, w->x[row], vocab, rng_bits(r));
        for (uint32_t i = 0; i < vocab; i++)
            dtype_encode(dtype, w->x[row][i], data + (row * vocab + i) * size);
    }
    w->logits = buffer_of(d, ROWS * vocab * size, data);
    w->tokens = buffer_of(d, ROWS * sizeof(int32_t), NULL);
    w->status = buffer_of(d, ROWS * sizeof(int32_t), NULL);
    for (uint32_t i = 0; i < 160; i++)
        for (uint32_t row = 0; row < ROWS; row++)
            w->words[row][i] = (uint32_t)rng_bits(r) | (uint32_t)rng_bits(r);
    if (rng_below(r, 4) == 0)
        w->mask = buffer_of(d, sizeof w->words, w->words);
    free(data);
}

static void world_close(world *w)
{
    cls_sampler_destroy(w->sampler);
    release_buffers(w->logits, w->tokens, w->status);
    if (w->mask != NULL)
        clReleaseMemObject(w->mask);
    for (uint32_t row = 0; row < ROWS; row++) {
        free(w->row[row].text);
        free(w->row[row].is_output);
    }
    free(w->amount);
    free(w->banned);
}

/* Compares the effects that the device computed for a row with the expected ones. */
static void check_prepared(const world *w, uint32_t row, const uint32_t *marks, const char *where)
{
    const cls_slot *const slot = &w->sampler->request[row].slot;
    const uint32_t *const banned = marks + effects_banned(w->vocab);
    const uint32_t *const heads = marks + effects_chains(w->vocab, w->sampler->layout);
    const uint32_t *const text = marks + effects_text(w->vocab, w->sampler->layout),
                          *const links = text + effects_length(w->sampler->layout);
    for (uint32_t id = 0; id < w->vocab; id++) {
        const uint32_t bit = 1u << (id % 32), is_marked = (marks[id / 32] & bit) != 0;
        const int is_banned = is_marked && (banned[id / 32] & bit) != 0;
        uint32_t at = is_marked && !is_banned ? heads[id / 32] : 0;
        float amount = 0.0f;
        for (; at != 0 && text[at - 1] != id; at = links[at - 1] & 0x7fff)
            ;
        if (is_marked && !is_banned) {
            ck_assert_msg(at != 0, "%s: row %u: token %u is marked, but has no entry", where, row,
                          id);
            amount = cls_dry_penalty(&w->row[row].p, links[at - 1] >> 15);
            ck_assert_uint_lt(links[at - 1] >> 15, slot->n_dry);
        }
        ck_assert_msg(is_banned == (w->banned[id] == 1) || w->banned[id] == 2,
                      "%s: row %u: token %u is %sbanned", where, row, id, is_banned ? "" : "not ");
        if (!w->banned[id])
            ck_assert_msg(amount == w->amount[id], "%s: row %u: token %u loses %g, not %g", where,
                          row, id, (double)amount, (double)w->amount[id]);
    }
}

static void step(world *w, const char *where)
{
    const uint32_t n_words = effects_words(w->vocab, w->sampler->layout);
    int32_t token[ROWS], status[ROWS];
    cls_step s = default_step(ROWS, w->logits);
    s.logits.dtype = w->dtype;
    s.tokens.buffer = w->tokens;
    s.status.buffer = w->status;
    s.mask.words.buffer = w->mask;
    s.mask.row_stride = w->mask != NULL ? 160 : 0;
    must(cls_sample(w->sampler, w->d->queue, &s, 0, NULL, NULL));
    buffer_read(w->d, w->tokens, sizeof token, token);
    buffer_read(w->d, w->status, sizeof status, status);
    uint32_t *const words = must_malloc(ROWS * n_words * sizeof *words);
    buffer_read(w->d, w->sampler->effects, ROWS * n_words * sizeof *words, words);
    for (uint32_t row = 0; row < ROWS; row++) {
        request *const q = &w->row[row];
        const cls_params *const p = &q->p;
        q->stopped = 0;
        for (uint32_t i = 0; i < p->stop_ids.count; i++)
            q->stopped |= q->outputs >= oracle_min_tokens(p) && q->n != 0 &&
                          q->is_output[q->n - 1] && recent(q, 0) == q->stop[i];
        if (q->stopped) {
            ck_assert_int_eq(token[row], -1);
            continue;
        }
        world_expect(w, row);
        const int looks = cls_dry_is_on(p) || p->no_repeat_ngram || p->bad_words.count ||
                          (p->stop_ids.count && q->outputs < oracle_min_tokens(p));
        if (looks)
            check_prepared(w, row, words + row * n_words, where);
        const int32_t right = world_is_simple(q) ? world_best(w, row) : token[row];
        ck_assert_msg(token[row] == right, "%s: row %u of %u tokens: %d, not %d", where, row, q->n,
                      token[row], right);
        int32_t other = 0, state = 0;
        if (world_reference(w, row, &other, &state))
            ck_assert_msg(token[row] == other && status[row] == state,
                          "%s: row %u of %u tokens: %d, status %d; the reference: %d, %d", where,
                          row, q->n, token[row], status[row], other, state);
        if (right >= 0)
            request_add(q, right, 1, w);
    }
    free(words);
}

/* ------------------------------------------------------------------ the tests */

static void begin(world *w, uint32_t row, uint32_t n, uint32_t kind, rng *r)
{
    request *const q = &w->row[row];
    q->n = q->outputs = 0;
    q->position = (uint32_t)rng_bits(r);
    request_extend(w, q, n, kind, 0, r);
    const uint32_t prompt = q->n;
    request_extend(w, q, rng_below(r, 8), kind, 1, r);
    request_params(w, q, r);
    must(cls_slot_begin(w->sampler, row, &q->p, prompt ? q->text : NULL, prompt,
                        q->outputs ? q->text + prompt : NULL, q->outputs));
}

/* Makes a random slot call for a request. */
static void change(world *w, uint32_t row, rng *r)
{
    request *const q = &w->row[row];
    const uint32_t what = rng_below(r, 7), was = q->n;
    if (what == 0) {
        request_params(w, q, r);
        must(cls_slot_params(w->sampler, row, &q->p));
    } else if (what == 1) {
        request_extend(w, q, 1 + rng_below(r, 20), rng_below(r, 4), 0, r);
        must(cls_slot_append_prompt(w->sampler, row, q->text + was, q->n - was));
    } else if (what == 2) {
        uint32_t since = 0;
        while (since < q->n && since < 5 && q->is_output[q->n - 1 - since])
            since++;
        const uint32_t back = since ? rng_below(r, since + 1) : 0;
        must(cls_slot_rollback(w->sampler, row, back));
        q->n -= back;
        q->outputs -= back;
    } else if (what == 3) {
        must(cls_slot_copy(w->sampler, row, (row + 1) % ROWS));
        request_copy(q, &w->row[(row + 1) % ROWS]);
    } else if (what == 5) {
        size_t size;
        unsigned char *const bytes = slot_saved(w->sampler, w->d->queue, row, &size);
        must(cls_slot_reset(w->sampler, row));
        must(cls_slot_load(w->sampler, row, bytes, size, NULL));
        free(bytes);
    } else if (what == 4) {
        begin(w, row, rng_below(r, 60), rng_below(r, 4), r);
    }
}

START_TEST(random_texts)
{
    static const uint32_t alphabets[] = {2, 5, 100, 1}, vocabs[] = {4099, 70, 1024, 200, 33},
                          histories[] = {64, 1000, 7, 1, 130, 0};
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    char where[300];
    for (uint32_t i = 0; i < fixture_by_size(4, 60, 300); i++) {
        world w;
        cls_context *const small =
            fixture_context(d, 1u << CLS_F32, 0, fixture_by_size(0, 0, 4), 16);
        const int other = i % 4 == 3 && small != NULL;
        const uint32_t vocab = vocabs[fixture_size() == TEST_TINY ? 1 + i % 4 : i % 5];
        world_open(&w, d, other ? small : fixture_context(d, 0, 0, 0, 0), vocab,
                   alphabets[i / 2 % 4], histories[i / 3 % 6], other ? CLS_F32 : (int)(i % 3), &r);
        for (uint32_t row = 0; row < ROWS; row++)
            begin(&w, row, rng_below(&r, 4) ? rng_below(&r, 300) : rng_below(&r, 4),
                  rng_below(&r, 4), &r);
        for (uint32_t k = 0; k < fixture_by_size(5, 30, 30); k++) {
            snprintf(where, sizeof where,
                     "%s: world %u (vocabulary %u, alphabet %u, history %u), step %u", d->name, i,
                     vocab, w.alphabet, w.history, k);
            step(&w, where);
            for (uint32_t row = 0; row < ROWS; row++)
                if (rng_below(&r, 3) == 0)
                    change(&w, row, &r);
        }
        world_close(&w);
    }
}
END_TEST

/* Full histories, among them the text that needs the most comparisons, and one that is longer than
 * what is seen of it. */
START_TEST(long_texts)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 1};
    char where[300];
    for (uint32_t i = 0; i < fixture_by_size(0, 8, 16); i++) {
        world w;
        const uint32_t history = i % 4 == 3 ? 16384 : i % 4 == 2 ? 16384 + 8192 : 8192;
        world_open(&w, d, fixture_context(d, 0, 0, 0, 0), 4099, i % 4 == 1 ? 32 : 300, history,
                   CLS_F32, &r);
        w.history = history < 16384 ? history : 16384;
        for (uint32_t row = 0; row < ROWS; row++) {
            request *const q = &w.row[row];
            request_extend(&w, q, history - 20, row, 0, &r);
            for (uint32_t k = 1; row == 4 && k < q->n;
                 k += 2) /* a token, and then each of a word */
                q->text[k] = (int32_t)(32 * 7 + rng_below(&r, 32));
            for (uint32_t k = 0; row == 4 && k < q->n; k += 2)
                q->text[k] = 5;
            cls_params_init(&q->p);
            q->p.temperature = 0.0f;
            q->p.dry_multiplier = 0.25f;
            q->p.dry_base = i % 2 ? 1.75f : 1.0005f;
            q->p.dry_allowed_length = i % 3;
            q->p.no_repeat_ngram = i % 5 == 4 ? 9000 : 0;
            must(cls_slot_begin(w.sampler, row, &q->p, q->text, q->n, NULL, 0));
        }
        for (uint32_t k = 0; k < 3; k++) {
            snprintf(where, sizeof where, "%s: history %u, text %u, step %u", d->name, history, i,
                     k);
            step(&w, where);
        }
        world_close(&w);
    }
}
END_TEST

START_TEST(refused)
{
    device *const d = fixture_device(_i);
    const int32_t ids[] = {5, 100, -1, 6}, good[] = {1, 2, 3};
    const cls_ids bad[] = {{good, 3}, {good, 1}, {ids, 1}, {ids, 4}}, none[] = {{good, 0}},
                  null[] = {{NULL, 2}};
    cls_sampler *s;
    cls_params p = default_params();
    p.bad_words.count = 4;
    must_refuse(cls_params_check(&p, 100),
                "params->bad_words.count is 4, but params->bad_words.sequences is NULL");
    p.bad_words.sequences = bad;
    must_refuse(
        cls_params_check(&p, 100),
        "params->bad_words.sequences[3].ids[1] is 100, which is not a token of a vocabulary of "
        "100");
    p.bad_words = (cls_sequences){none, 1};
    must_refuse(cls_params_check(&p, 100), "params->bad_words.sequences[0].count is 0");
    p.bad_words.sequences = null;
    must_refuse(cls_params_check(&p, 100), "params->bad_words.sequences[0].ids is NULL");
    cls_params_init(&p);
    p.dry_breakers = (cls_sequences){bad, 4};
    must_refuse(cls_params_check(&p, 100), "params->dry_breakers.sequences[3].ids[1] is 100");
    cls_params_init(&p);
    p.allowed_ids = (cls_ids){ids, 3};
    must_refuse(cls_params_check(&p, 100), "params->allowed_ids.ids[1] is 100");
    p.allowed_ids.ids = NULL;
    must_refuse(cls_params_check(&p, 100),
                "params->allowed_ids.count is 3, but params->allowed_ids.ids is NULL");
    cls_params_init(&p);
    p.dry_multiplier = NAN;
    must_refuse(cls_params_check(&p, 100), "params->dry_multiplier is");
    p.dry_multiplier = 1.0f;
    p.dry_base = INFINITY;
    must_refuse(cls_params_check(&p, 100), "params->dry_base is inf");
    p.dry_base = 1.75f;
    p.dry_window = 16385;
    must_refuse(cls_params_check(&p, 100), "params->dry_window is 16385");

    cls_sampler_options o = sampler_options(100, 1);
    must(cls_sampler_create(fixture_context(d, 0, 0, 0, 0), &o, &s));
    p.dry_window = 0;
    must_refuse(cls_sampler_check(s, &p),
                "params->dry_multiplier is 1, but options->max_history is 0: at least 3 is needed");
    p.dry_allowed_length = 5;
    must_refuse(cls_sampler_check(s, &p),
                "params->dry_multiplier is 1, but options->max_history is 0: at least 6 is needed");
    p.dry_base = 0.5f; /* off */
    must(cls_sampler_check(s, &p));
    p.no_repeat_ngram = 2;
    must_refuse(
        cls_sampler_check(s, &p),
        "params->no_repeat_ngram is 2, but options->max_history is 0: at least 2 is needed");
    p.no_repeat_ngram = 0;
    p.penalty_window = 64;
    must_refuse(
        cls_sampler_check(s, &p),
        "params->penalty_window is 64, but options->max_history is 0: at least 64 is needed");
    cls_params_init(&p);
    p.bad_words = (cls_sequences){bad + 1, 1};
    must(cls_sampler_check(s, &p)); /* of one id */
    p.bad_words.sequences = bad;
    must_refuse(
        cls_sampler_check(s, &p),
        "params->bad_words.sequences[0].count is 3, but options->max_history is 0: at least 2 is "
        "needed");
    cls_params_init(&p);
    p.stop_ids.ids = p.allowed_ids.ids = good;
    p.stop_ids.count = p.min_tokens = 3;
    must(cls_sampler_check(s, &p));
    cls_sampler_destroy(s);

    enum { SEEN = 16384 }; /* of a longer history */
    const cls_ids longest[] = {{must_calloc(SEEN + 2, sizeof(int32_t)), SEEN + 1}},
                  longer[] = {{longest[0].ids, SEEN + 2}};
    o.max_history = SEEN + 64;
    must(cls_sampler_create(fixture_context(d, 0, 0, 0, 0), &o, &s));
    cls_params_init(&p);
    p.bad_words = (cls_sequences){longest, 1};
    must(cls_sampler_check(s, &p));
    p.bad_words.sequences = longer;
    must_refuse(cls_sampler_check(s, &p),
                "params->bad_words.sequences[0].count is 16386; it must be at most 16385");
    cls_sampler_destroy(s);
    free((void *)(uintptr_t)longest[0].ids);

    o.max_history = 8;
    must(cls_sampler_create(fixture_context(d, 0, 0, 0, 0), &o, &s));
    cls_params_init(&p);
    p.dry_multiplier = 1.0f;
    p.dry_window = 9;
    must_refuse(cls_sampler_check(s, &p),
                "params->dry_window is 9, but options->max_history is 8: at least 9 is needed");
    p.dry_window = 8;
    must(cls_sampler_check(s, &p));
    cls_params_init(&p);
    p.ngram_window = 9; /* of no effect */
    must(cls_sampler_check(s, &p));
    p.no_repeat_ngram = 2;
    must_refuse(cls_sampler_check(s, &p),
                "params->ngram_window is 9, but options->max_history is 8: at least 9 is needed");
    p.ngram_window = 16385;
    must_refuse(cls_params_check(&p, 100),
                "params->ngram_window is 16385; it must be at most 16384; 0 is all");
    p.ngram_window = 8;
    p.ngram_output_only = 2;
    must_refuse(cls_params_check(&p, 100), "params->ngram_output_only is 2; it must be 0 or 1");
    p.ngram_output_only = 1;
    p.ngram_exempt_ids = (cls_ids){(const int32_t[]){7, 100}, 2};
    must_refuse(cls_params_check(&p, 100), "params->ngram_exempt_ids.ids[1] is 100");
    p.ngram_exempt_ids.count = 1;
    must(cls_sampler_check(s, &p));
    cls_sampler_destroy(s);
}
END_TEST

int main(void)
{
    fixture_random(0);
    fixture_begin(ON_DEVICES);
    add_device_test(random_texts);
    if (fixture_size() != TEST_TINY)
        add_device_test(long_texts);
    add_device_test(refused);
    return fixture_end();
}
