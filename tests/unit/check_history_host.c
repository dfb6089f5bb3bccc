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

/* Sets the i-th parameter that looks at the latest tokens; returns their number, or 0 at the end.
 */
static uint32_t looking(cls_params *p, int i)
{
    static const int32_t ids[9] = {3, 4, 5};
    static const cls_ids words[] = {{ids, 3}, {ids, 9}, {ids, 2}};
    *p = default_params();
    switch (i) {
    case 0:
        p->penalty_window = 20;
        return 20;
    case 1:
        p->dry_multiplier = 0.8f;
        p->dry_window = 21;
        return 21;
    case 2:
        p->no_repeat_ngram = 4;
        return 4;
    case 3:
        p->no_repeat_ngram = 4;
        p->ngram_window = 9;
        return 9;
    case 4:
        p->loop_repeats = 3;
        p->loop_max = 7;
        return 21;
    case 5:
        p->bad_words = (cls_sequences){words, 3};
        return 8;
    case 6:
        p->watermark_context = 5;
        return 5;
    case 7:
    case 8:
        p->thinking_forced = words[0];
        if (i == 7)
            p->thinking_start = words[1];
        else
            p->thinking_ends = (cls_sequences){words, 2};
        return 8;
    case 9:
        p->repetition_window = 11;
        return 11;
    case 10:
        p->frequency_window = 12;
        return 12;
    case 11:
        p->presence_window = 13;
        return 13;
    default:
        return 0;
    }
}

/* cls_params_history() is the least history of a sampler that takes the parameters. */
START_TEST(needed_history)
{
    uint32_t need = 1, found;
    cls_context *context;
    cls_params p;
    must(cls_context_create_host(NULL, &context));
    for (int i = 0; (need = looking(&p, i)) != 0; i++)
        for (uint32_t less = 0; less < 2; less++) {
            cls_sampler_options o = sampler_options(100, 1);
            cls_sampler *s;
            must(cls_params_history(&p, &found));
            ck_assert_msg(found == need, "parameter %d: %u, not %u", i, found, need);
            o.max_history = need - less;
            must(cls_sampler_create(context, &o, &s));
            if (less)
                must_refuse(cls_sampler_check(s, &p), "options->max_history is");
            else
                must(cls_sampler_check(s, &p));
            cls_sampler_destroy(s);
        }
    p = default_params();
    must(cls_params_history(&p, &found));
    ck_assert_uint_eq(found, 0);
    p.dry_multiplier = 1.0f; /* it has an effect from its allowed length of 2 and a token on */
    must(cls_params_history(&p, &found));
    ck_assert_uint_eq(found, 3);
    p.loop_repeats = p.loop_max = UINT32_MAX;
    must(cls_params_history(&p, &found));
    ck_assert_uint_eq(found, UINT32_MAX);
    p.bad_words.count = 4;
    must(cls_params_history(&p, &found)); /* without an array there is nothing to look for */
    must_refuse(cls_params_history(&p, NULL), "max_history is NULL");
    must_refuse(cls_params_history(NULL, &found), "params is NULL");
    cls_context_destroy(context);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(ngrams_of_ocr_models);
    add_test(null_lists);
    add_test(long_words);
    add_test(needed_history);
    return fixture_end();
}
