/* SPDX-License-Identifier: MIT */
/* Proves DRY, bans and the other effects of a request's earlier tokens on the host, with small
 * requests worked out by hand. check_reference.c tests random ones. */
#include "example.h"
#include "inputs.h"

START_TEST(bans)
{
    const int32_t stop[] = {6, 7}, allowed[] = {1, 2, 4, 6}, first[] = {1, 6},
                  prompt[] = {1, 2, 3, -5, 1}, output[] = {2, 4, 99, 2};
    const cls_logit_bias bias[] = {{3, 50.0f}, {2, 1.0f}, {6, -INFINITY}};
    example e;
    start(&e);
    e.p.allowed_ids = (cls_ids){allowed, 4};
    EXPECT_KEPT(&e, "1246");
    e.p.logit_bias = (cls_biases){bias, 3};
    EXPECT_KEPT(&e, "124");
    ck_assert(fabs((double)(e.probs[2] / e.probs[1]) - exp(1.0)) < 1e-5);

    start(&e);
    e.p.stop_ids = (cls_ids){stop, 2};
    e.p.min_tokens = 3;
    PROMPT(&e, prompt);
    OUTPUT(&e, output); /* three of its tokens are valid */
    EXPECT_KEPT(&e, "0123456789");
    e.p.min_tokens = 4;
    EXPECT_KEPT(&e, "01234589");
    e.p.allowed_ids = (cls_ids){stop, 2}; /* without other ids there is no min_tokens */
    EXPECT_KEPT(&e, "67");
    e.p.allowed_ids = (cls_ids){first, 2};
    EXPECT_KEPT(&e, "1");
    e.p.allowed_ids = (cls_ids){allowed, 4};
    EXPECT_KEPT(&e, "124");
    e.p.allowed_ids = (cls_ids){NULL, 0};
    e.p.penalty_scope = CLS_SCOPE_ALL; /* a penalty does not allow a banned token again */
    e.p.presence_penalty = -2.0f;
    e.row.prompt = stop;
    e.row.prompt_count = 2;
    EXPECT_KEPT(&e, "01234589");
}
END_TEST

START_TEST(words)
{
    const int32_t prompt[] = {4, 1, 2}, output[] = {3, -1, 4, 2};
    const int32_t one[] = {8}, two[] = {2, 9}, three[] = {4, 2, 5}, of_prompt[] = {2, 3, 4, 2, 0},
                  others[] = {3, 4, 6};
    const cls_ids all[] = {{one, 1}, {two, 2}, {three, 3}, {of_prompt, 5}, {others, 3}};
    example e;
    start(&e);
    e.p.bad_words = (cls_sequences){all, 5};
    PROMPT(&e, prompt);
    EXPECT_KEPT(&e, "012345679"); /* the prompt does not begin a bad word */
    OUTPUT(&e, output);
    EXPECT_KEPT(&e, "0123467");
    e.row.max_history = 1;
    EXPECT_KEPT(&e, "01234567");
    e.row.output_count = 3;
    e.row.max_history = 0;
    EXPECT_KEPT(&e, "01234579");
}
END_TEST

START_TEST(ngrams)
{
    const int32_t prompt[] = {1, 2, 3, 1, 2, 4}, output[] = {5, 1, -7, 2};
    example e;
    start(&e);
    PROMPT(&e, prompt);
    OUTPUT(&e, output);
    e.p.no_repeat_ngram = 3;
    EXPECT_KEPT(&e, "01256789"); /* 3 and 4 followed 1 2 */
    e.row.max_history = 7;
    EXPECT_KEPT(&e, "012356789"); /* the history begins after the first 1 2 */
    e.row.max_history = 0;
    e.p.no_repeat_ngram = 2;
    EXPECT_KEPT(&e, "01256789");
    e.p.no_repeat_ngram = 1;
    EXPECT_KEPT(&e, "06789");
    e.row.max_history = 2;
    EXPECT_KEPT(&e, "03456789");
    e.row.max_history = 0;
    e.p.no_repeat_ngram = 4; /* 5 1 2 has not occurred before */
    EXPECT_KEPT(&e, "0123456789");
    e.p.no_repeat_ngram = 100;
    EXPECT_KEPT(&e, "0123456789");
    e.row.prompt_count = e.row.output_count = 0;
    e.p.no_repeat_ngram = 1;
    EXPECT_KEPT(&e, "0123456789");
}
END_TEST

START_TEST(ngrams_of_output)
{
    const int32_t prompt[] = {1, 2, 3, 1, 2, 4}, output[] = {1, 2, 5, 1, -7, 2, 6, 1, 2},
                  exempt[] = {6, 3};
    example e;
    start(&e);
    PROMPT(&e, prompt);
    OUTPUT(&e, output);
    e.p.no_repeat_ngram = 3;
    EXPECT_KEPT(&e, "012789"); /* 3, 4, 5 and 6 followed 1 2 */
    e.p.ngram_output_only = 1;
    EXPECT_KEPT(&e, "01234789");
    e.p.ngram_exempt_ids = (cls_ids){exempt, 2};
    EXPECT_KEPT(&e, "012346789");
    e.p.ngram_output_only = 0;
    EXPECT_KEPT(&e, "01236789");
    e.p.ngram_exempt_ids.count = 0;
    e.p.ngram_window = 6; /* 5 1 2 6 1 2: 1 2 6 lies in it, and 1 2 5 begins before it */
    EXPECT_KEPT(&e, "012345789");
    e.p.ngram_window = 4;
    EXPECT_KEPT(&e, "0123456789");
    e.p.no_repeat_ngram = 1;
    EXPECT_KEPT(&e, "0345789");
    e.p.ngram_window = 0;
    e.p.ngram_output_only = 1;
    EXPECT_KEPT(&e, "034789");
    e.row.output_count = 0;
    EXPECT_KEPT(&e, "0123456789");
}
END_TEST

/* The tokens that DeepSeek-OCR's NoRepeatNGramLogitsProcessor bans after an output, a bit each,
 * by its own formula: it compares slices of a list. */
static uint32_t banned_by_processor(const int32_t *output_ids, int32_t length, int32_t ngram_size,
                                    int32_t window_size, uint32_t whitelist)
{
    const int32_t search_start = length - window_size > 0 ? length - window_size : 0,
                  search_end = length - ngram_size + 1;
    const int32_t *const current_prefix = output_ids + length - (ngram_size - 1);
    uint32_t banned = 0;
    if (length < ngram_size)
        return 0;
    for (int32_t i = search_start; i < search_end; i++)
        if (memcmp(output_ids + i, current_prefix, (size_t)(ngram_size - 1) * sizeof *output_ids) ==
            0)
            banned |= 1u << output_ids[i + ngram_size - 1];
    return banned & ~whitelist;
}

/* Proves the rule of OCR models on random outputs of few words, after prompts that repeat them. */
START_TEST(ngrams_of_ocr_models)
{
    rng r = {fixture_seed() + 9};
    uint32_t found = 0;
    for (uint32_t n = 0; n < 20000; n++) {
        int32_t prompt[8], output[24], exempt[10];
        const uint32_t alphabet = 2 + rng_below(&r, 4);
        uint32_t whitelist = 0;
        example e;
        start(&e);
        for (uint32_t i = 0; i < 8; i++)
            prompt[i] = (int32_t)rng_below(&r, alphabet);
        for (uint32_t i = 0; i < 24; i++)
            output[i] = (int32_t)rng_below(&r, alphabet);
        PROMPT(&e, prompt);
        OUTPUT(&e, output);
        e.row.output_count = rng_below(&r, 25);
        e.p.no_repeat_ngram = 2 + rng_below(&r, 5);
        e.p.ngram_window = 1 + rng_below(&r, 26);
        e.p.ngram_output_only = 1;
        e.p.ngram_exempt_ids.ids = exempt;
        for (int32_t id = 0; id < 10; id++)
            if (rng_below(&r, 4) == 0) {
                exempt[e.p.ngram_exempt_ids.count++] = id;
                whitelist |= 1u << id;
            }
        const uint32_t banned =
            banned_by_processor(output, (int32_t)e.row.output_count, (int32_t)e.p.no_repeat_ngram,
                                (int32_t)e.p.ngram_window, whitelist);
        must(cls_host_sample(&e.row, &e.result));
        for (uint32_t id = 0; id < 10; id++)
            ck_assert_msg((e.probs[id] == 0.0f) == (banned >> id & 1u), "row %u: token %u is %s", n,
                          id, e.probs[id] == 0.0f ? "banned" : "not banned");
        found += banned != 0;
    }
    ck_assert_uint_gt(found, 2000);
}
END_TEST

/* Returns how much DRY lowers a token's logit, compared with token 0. */
static double taken(example *e, int token)
{
    must(cls_host_sample(&e->row, &e->result));
    return log((double)e->probs[0]) - log((double)e->probs[token]);
}
#define EXPECT_TAKEN(e, token, value) \
    do { \
        const double taken_ = taken((e), (token)); \
        ck_assert_msg(fabs(taken_ - (value)) < 2e-6, "token %d: %.9g, not %.9g", (token), taken_, \
                      (double)(value)); \
    } while (0)

START_TEST(dry)
{
    /* The text ends in 1 2 3. Earlier, 4 followed 1 2 3; 5 followed 3; 6 followed 2 3. */
    const int32_t prompt[] = {1, 2, 3, 4, 9, 3, 5, -1}, output[] = {8, 2, 3, 6, 1, 2, 3};
    const int32_t a[] = {9}, b[] = {6, 1, 2}, c[] = {6, 1}, d[] = {3}, f[] = {7, 6, 1},
                  g[] = {1, 2, 3};
    example e;
    cls_ids breakers[2] = {{a, 1}, {b, 3}};
    start(&e);
    PROMPT(&e, prompt);
    OUTPUT(&e, output);
    e.p.dry_multiplier = 0.5f;
    e.p.dry_base = 2.0f;
    e.p.dry_allowed_length = 1;
    EXPECT_TAKEN(&e, 4, 0.5 * 4);
    EXPECT_TAKEN(&e, 5, 0.5);
    EXPECT_TAKEN(&e, 6, 0.5 * 2);
    EXPECT_TAKEN(&e, 7, 0.0);
    e.p.dry_allowed_length = 2;
    EXPECT_TAKEN(&e, 4, 0.5 * 2);
    EXPECT_TAKEN(&e, 5, 0.0);
    e.p.dry_multiplier = -0.5f; /* a negative one raises logits */
    EXPECT_TAKEN(&e, 4, -0.5 * 2);
    e.p.dry_multiplier = 0.5f;
    e.p.dry_base = 0.99f; /* a base below 1 turns DRY off */
    EXPECT_TAKEN(&e, 4, 0.0);
    e.p.dry_base = 1.0f;
    EXPECT_TAKEN(&e, 4, 0.5);
    e.p.dry_base = 2.0f;

    e.p.dry_window = 12; /* the window has 3 4, but not 2 3 4 */
    e.p.dry_allowed_length = 1;
    EXPECT_TAKEN(&e, 4, 0.5);
    e.p.dry_window = 0;
    e.row.max_history = 12;
    EXPECT_TAKEN(&e, 4, 0.5);
    e.p.dry_window = 11; /* the window does not have 3 4 either */
    EXPECT_TAKEN(&e, 4, 0.0);
    EXPECT_TAKEN(&e, 6, 0.5 * 2);
    e.row.max_history = 0;
    e.p.dry_window = 0;
    e.p.dry_allowed_length = 0; /* a token that followed any token is a repetition of length 0 */
    EXPECT_TAKEN(&e, 4, 0.5 * 8);
    EXPECT_TAKEN(&e, 1, 0.5);
    EXPECT_TAKEN(&e, 7, 0.0);
    e.p.dry_allowed_length = 1;

    e.p.dry_breakers.sequences =
        breakers; /* the longer breaker, 6 1 2, ends just before the last token */
    e.p.dry_breakers.count = 1;
    EXPECT_TAKEN(&e, 4, 0.5 * 4);
    e.p.dry_breakers.count = 2;
    EXPECT_TAKEN(&e, 4, 0.5);
    EXPECT_TAKEN(&e, 6, 0.5);
    /* Of breakers with the same first token the longest counts. */
    breakers[0] = (cls_ids){c, 2};
    EXPECT_TAKEN(&e, 4, 0.5);
    breakers[1] = (cls_ids){f, 3}; /* this breaker does not occur in the text */
    EXPECT_TAKEN(&e, 4, 0.5 * 2);
    /* The nearest breaker ends the text, so nothing is left to repeat. */
    breakers[1] = (cls_ids){g, 3};
    EXPECT_TAKEN(&e, 4, 0.0);
    breakers[0] = (cls_ids){d, 1};
    EXPECT_TAKEN(&e, 4, 0.0);
    e.row.output_count = 6; /* The text ends in 2, which 3 followed twice, but 3 is a breaker. */
    EXPECT_TAKEN(&e, 3, 0.0);
    e.p.dry_breakers.count = 0;
    EXPECT_TAKEN(&e, 3, 0.5 * 2);

    /* The exponent is limited so that base^exponent is finite, as 1e20^2 is not. */
    e.row.output_count = 7;
    e.p.dry_base = 1e20f;
    e.p.dry_multiplier = 1e-20f;
    EXPECT_TAKEN(&e, 4, 1.0);
    e.x[4] = -INFINITY; /* a reward does not allow the token again */
    e.p.dry_multiplier = -1e-20f;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_uint_eq(e.result.kept_count, 9);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(bans);
    add_test(words);
    add_test(ngrams);
    add_test(ngrams_of_output);
    add_test(ngrams_of_ocr_models);
    add_test(dry);
    return fixture_end();
}
