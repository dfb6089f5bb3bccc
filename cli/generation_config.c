/* SPDX-License-Identifier: MIT */
/* Reads the generation_config.json of Hugging Face Transformers: what its names are here. The names
 * are those of python/clsample/_params.py; tests/python/test_params.py compares the two. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "params.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---------------------------------------------------------------- conversions */

static json_t *same(const char *what, json_t *value)
{
    (void)what;
    return json_incref(value);
}

/* One id, or a list of them. */
static json_t *ids(const char *what, json_t *value)
{
    return json_is_array(value) ? same(what, value) : json_pack("[O]", value);
}

static json_t *bans(const char *what, json_t *value)
{
    json_t *const found = json_array(), *const list = ids(what, value), *id;
    size_t i;
    json_array_foreach(list, i, id) json_array_append_new(found, json_pack("[O, s]", id, "-inf"));
    return found;
}

/* Pairs of the ids of a sequence and a bias. */
static json_t *sequence_biases(const char *what, json_t *value)
{
    json_t *const found = json_array();
    for (size_t i = 0; i < json_array_size(value) || !json_is_array(value); i++) {
        json_t *const pair = json_array_get(value, i), *const sequence = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || json_array_size(sequence) != 1)
            cli_die("%s: entry %zu is no pair of one id, in a list, and a bias", what, i);
        json_array_append_new(
            found, json_pack("[O, O]", json_array_get(sequence, 0), json_array_get(pair, 1)));
    }
    return found;
}

/* --------------------------------------------------------------------- tables */

/* clang-format off */
static const struct rule {
    const char *theirs, *ours; /* ours: a key of cli_params_from_json() */
    json_t *(*convert)(const char *what, json_t *value);
} rules[] = {
    {"temperature", "temperature", same},
    {"top_k", "top_k", same},
    {"top_p", "top_p", same},
    {"min_p", "min_p", same},
    {"typical_p", "typical_p", same},
    {"repetition_penalty", "repetition_penalty", same},
    {"no_repeat_ngram_size", "no_repeat_ngram", same},
    {"bad_words_ids", "bad_words", same},
    {"sequence_bias", "logit_bias", sequence_biases},
    {"suppress_tokens", "logit_bias", bans},
    {"eos_token_id", "stop_ids", ids},
    {"max_new_tokens", "max_tokens", same},
    {"min_new_tokens", "min_tokens", same},
};

/* What has no equal here, and the numbers that turn it off, beside null, false and []. */
static const struct refusal {
    const char *theirs;
    double off, also_off;
} refusals[] = {
    {"num_beams", 1, NAN},
    {"num_beam_groups", 1, NAN},
    {"diversity_penalty", 0, NAN},
    {"constraints", NAN, NAN},
    {"force_words_ids", NAN, NAN},
    {"penalty_alpha", 0, NAN},
    {"dola_layers", NAN, NAN},
    {"epsilon_cutoff", 0, 1},
    {"eta_cutoff", 0, 1},
    {"top_h", NAN, NAN},
    {"guidance_scale", 1, NAN},
    {"encoder_repetition_penalty", 1, NAN},
    {"encoder_no_repeat_ngram_size", 0, NAN},
    {"watermarking_config", NAN, NAN},
    {"exponential_decay_length_penalty", NAN, NAN},
    {"forced_bos_token_id", NAN, NAN},
    {"forced_eos_token_id", NAN, NAN},
    {"begin_suppress_tokens", NAN, NAN},
    {"prompt_lookup_num_tokens", 0, NAN},
    {"use_mtp", NAN, NAN},
    {"token_healing", NAN, NAN},
    {"min_length", 0, NAN},
};
/* clang-format on */

/* What concerns the loop around the steps, or the model. */
static const char *const unused[] = {"max_length",
                                     "max_time",
                                     "stop_strings",
                                     "num_return_sequences",
                                     "remove_invalid_values",
                                     "assistant_confidence_threshold",
                                     "assistant_early_exit",
                                     "assistant_ensemble_weight",
                                     "assistant_lookbehind",
                                     "bos_token_id",
                                     "cache_config",
                                     "cache_implementation",
                                     "compile_config",
                                     "continuous_batching_config",
                                     "decoder_start_token_id",
                                     "disable_compile",
                                     "early_stopping",
                                     "is_assistant",
                                     "length_penalty",
                                     "low_memory",
                                     "max_cache_len",
                                     "max_matching_ngram_size",
                                     "num_assistant_tokens",
                                     "num_assistant_tokens_schedule",
                                     "output_attentions",
                                     "output_hidden_states",
                                     "output_logits",
                                     "output_scores",
                                     "pad_token_id",
                                     "prefill_chunk_size",
                                     "renormalize_logits",
                                     "return_dict_in_generate",
                                     "speculation_type",
                                     "target_lookbehind",
                                     "transformers_version",
                                     "use_cache"};

static const char do_sample[] = "do_sample";

static const struct rule *rule_of(const char *key)
{
    for (size_t i = 0; i < COUNT(rules); i++)
        if (strcmp(rules[i].theirs, key) == 0)
            return &rules[i];
    return NULL;
}

static const struct refusal *refusal_of(const char *key)
{
    for (size_t i = 0; i < COUNT(refusals); i++)
        if (strcmp(refusals[i].theirs, key) == 0)
            return &refusals[i];
    return NULL;
}

static bool is_unused(const char *key)
{
    bool found = key[0] == '_'; /* _from_model_config */
    for (size_t i = 0; i < COUNT(unused); i++)
        found |= strcmp(unused[i], key) == 0;
    return found;
}

_Noreturn static void refuse_key(const char *what, const char *key)
{
    cli_near near = {.word = key, .length = strlen(key)};
    cli_near_try(&near, do_sample);
    for (size_t i = 0; i < COUNT(rules); i++)
        cli_near_try(&near, rules[i].theirs);
    for (size_t i = 0; i < COUNT(refusals); i++)
        cli_near_try(&near, refusals[i].theirs);
    for (size_t i = 0; i < COUNT(unused); i++)
        cli_near_try(&near, unused[i]);
    cli_die("%s is not a known key of Transformers%s", what, cli_near_text(&near, ""));
}

static void refuse_unless_off(const char *what, const struct refusal *entry, const json_t *value)
{
    const double number = json_number_value(value);
    if (json_is_number(value) ? number == entry->off || number == entry->also_off
                              : json_is_false(value) || json_equal(value, json_array()))
        return;
    cli_die("%s has no equal here; without it the tokens are others", what);
}

/* ----------------------------------------------------------------------- file */

/* As Transformers does, leaves out of the words to ban those that are a stop id alone. */
static void keep_ends(json_t *params)
{
    json_t *const words = json_object_get(params, "bad_words"), *id;
    size_t k;
    json_array_foreach(json_object_get(params, "stop_ids"), k,
                       id) for (size_t i = json_array_size(words);
                                i-- >
                                0;) if (json_array_size(json_array_get(words, i)) == 1 &&
                                        json_equal(json_array_get(json_array_get(words, i), 0), id))
        json_array_remove(words, i);
}

/* Adds a value; lists to which several names contribute are joined. */
static void add(json_t *params, const char *ours, json_t *value)
{
    json_t *const before = json_object_get(params, ours);
    if (json_is_array(before))
        json_array_extend(before, value);
    else
        json_object_set_new(params, ours, value);
}

json_t *cli_generation_config(const char *path, json_t *config)
{
    json_t *const params = json_object(), *value;
    char others[2000] = "";
    const char *key;
    if (json_object_get(config, do_sample) == NULL &&
        json_object_get(config, "transformers_version") == NULL)
        return config;
    json_object_foreach(config, key, value)
    {
        const struct rule *const rule = rule_of(key);
        const struct refusal *const refusal = refusal_of(key);
        char what[PATH_MAX + 160];
        snprintf(what, sizeof what, "%s: \"%.64s\"", path, key);
        if (json_is_null(value) || strcmp(key, do_sample) == 0)
            continue;
        if (rule != NULL)
            add(params, rule->ours, rule->convert(what, value));
        else if (refusal != NULL)
            refuse_unless_off(what, refusal, value);
        else if (is_unused(key))
            snprintf(others + strlen(others), sizeof others - strlen(others), "%s%.64s",
                     others[0] != '\0' ? ", " : "", key);
        else
            refuse_key(what, key);
    }
    if (!json_is_true(json_object_get(config, do_sample))) {
        const double ignored = json_number_value(json_object_get(params, "temperature"));
        if (ignored != 0 && ignored != 1)
            cli_warn("%s: \"do_sample\" is not true, so that the rows are greedy, and the "
                     "temperature of %g has no effect",
                     path, ignored);
        json_object_set_new(params, "temperature", json_integer(0));
    } else if (json_object_get(params, "top_k") == NULL)
        json_object_set_new(params, "top_k", json_integer(50));
    keep_ends(params);
    if (others[0] != '\0')
        cli_warn("%s: steps do not use %s", path, others);
    return params;
}
