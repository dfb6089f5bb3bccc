/* SPDX-License-Identifier: MIT */
/* Proves what tests/scripts/history.run cannot say of a request's earlier tokens: that n-grams are
 * banned as another project's processor bans them, and what is refused of lists without an array.
 */
#include "example.h"
#include "rows/kinds.h"

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
        must(one_sample(&e.row, &e.result));
        for (uint32_t id = 0; id < 10; id++)
            ck_assert_msg((e.probs[id] == 0.0f) == (banned >> id & 1u), "row %u: token %u is %s", n,
                          id, e.probs[id] == 0.0f ? "banned" : "not banned");
        found += banned != 0;
    }
    ck_assert_uint_gt(found, 2000);
}
END_TEST

/* Lists without an array, and numbers that have names in a text. */
START_TEST(null_lists)
{
    const cls_ids null[] = {{NULL, 2}};
    cls_params p = default_params();
    p.bad_words.count = 4;
    must_refuse(cls_params_check(&p, 100),
                "params->bad_words.count is 4, but params->bad_words.sequences is NULL");
    p.bad_words = (cls_sequences){null, 1};
    must_refuse(cls_params_check(&p, 100), "params->bad_words.sequences[0].ids is NULL");
    cls_params_init(&p);
    must(cls_params_check(&p, 1048576));
    must_refuse(cls_params_check(&p, 0), "vocab");
    must_refuse(cls_params_check(&p, 1048577), "vocab");
    must_refuse_with(p, chain, -1, cls_params_check(&p, 100), "chain");
    must_refuse_with(p, chain, 4, cls_params_check(&p, 100), "chain");
    must_refuse_with(p, struct_size, 0, cls_params_check(&p, 100), "struct_size");
    must_refuse_with(p, penalty_scope, -1, cls_params_check(&p, 100), "penalty_scope");
    must_refuse_with(p, penalty_scope, 2, cls_params_check(&p, 100), "penalty_scope");
    must_refuse_with(p, logit_bias.count, 1, cls_params_check(&p, 100), "logit_bias");
    must_refuse_with(p, stop_ids.count, 1, cls_params_check(&p, 100), "stop_ids");
    p.allowed_ids.count = 3;
    must_refuse(cls_params_check(&p, 100),
                "params->allowed_ids.count is 3, but params->allowed_ids.ids is NULL");
}
END_TEST

/* The longest bad word: what is seen of a history, and a token. */
START_TEST(long_words)
{
    enum { SEEN = 16384 };
    const cls_ids words[] = {{must_calloc(SEEN + 2, sizeof(int32_t)), SEEN + 1},
                             {words[0].ids, SEEN + 2}};
    cls_sampler_options o = sampler_options(100, 1);
    cls_context *context;
    cls_sampler *s;
    cls_params p = default_params();
    o.max_history = SEEN + 64;
    must(cls_context_create_host(NULL, &context));
    must(cls_sampler_create(context, &o, &s));
    p.bad_words = (cls_sequences){words, 1};
    must(cls_sampler_check(s, &p));
    p.bad_words.sequences = words + 1;
    must_refuse(cls_sampler_check(s, &p),
                "params->bad_words.sequences[0].count is 16386; it must be at most 16385");
    cls_sampler_destroy(s);
    cls_context_destroy(context);
    free((void *)(uintptr_t)words[0].ids);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(ngrams_of_ocr_models);
    add_test(null_lists);
    add_test(long_words);
    return fixture_end();
}
