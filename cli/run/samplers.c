/* SPDX-License-Identifier: MIT */
/* The statements of clsample run on samplers: their options, features, grammars and prefixes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/calls.h"

/* Numbers of words: bits of features or types, or a kind of counts. */
static const struct bit {
    const char *name;
    uint32_t value;
} feature_names[] = {{"shortlist", CLS_FEATURE_SHORTLIST},
                     {"search", CLS_FEATURE_SEARCH},
                     {"penalties", CLS_FEATURE_PENALTIES},
                     {"history", CLS_FEATURE_HISTORY},
                     {"samplers", CLS_FEATURE_SAMPLERS},
                     {"state", CLS_FEATURE_STATE},
                     {"mask", CLS_FEATURE_MASK},
                     {"bias", CLS_FEATURE_BIAS},
                     {"logprobs", CLS_FEATURE_LOGPROBS},
                     {"probs", CLS_FEATURE_PROBS},
                     {"kept_sets", CLS_FEATURE_KEPT_SETS},
                     {"accept", CLS_FEATURE_ACCEPT},
                     {"verify", CLS_FEATURE_VERIFY},
                     {"forced", CLS_FEATURE_FORCED},
                     {"watermark", CLS_FEATURE_WATERMARK},
                     {"softcap", CLS_FEATURE_SOFTCAP},
                     {"shard", CLS_FEATURE_SHARD},
                     {"all", CLS_FEATURES_ALL},
                     {NULL, 0}},
  dtype_bits[] = {{"f32", 1u << CLS_F32},
                  {"f16", 1u << CLS_F16},
                  {"bf16", 1u << CLS_BF16},
                  {"all", 7},
                  {NULL, 0}},
  count_names[] = {{"none", CLS_COUNTS_NONE},
                   {"presence", CLS_COUNTS_PRESENCE},
                   {"all", CLS_COUNTS_ALL},
                   {NULL, 0}};

static uint32_t parse_bits(const run_statement *s, const char *key, const struct bit *names,
                           uint32_t absent)
{
    const char *text = run_find(s, key);
    uint32_t bits = 0;
    if (text == NULL)
        return absent;
    if (*text >= '0' && *text <= '9')
        return run_count(s, key, 0);
    for (;; text++) {
        const size_t length = strcspn(text, ",");
        cli_near near = {.word = text, .length = length};
        const struct bit *b = names;
        for (; b->name != NULL && (strlen(b->name) != length || strncmp(b->name, text, length));
             b++)
            cli_near_try(&near, b->name);
        if (b->name == NULL)
            run_die(s, "%s: '%.*s' is unknown%s", key, (int)(length < 40 ? length : 40), text,
                    cli_near_text(&near, ""));
        bits |= b->value;
        text += length;
        if (*text == '\0')
            return bits;
    }
}

void (*run_prepare)(cls_sampler *sampler);

/* The borders of shards, which every other sampler of a text has at random: some shards have one
 * token. The others have the vocabulary's first half and one token more, or also the first token
 * alone; or they are equal: NULL. */
static const uint32_t *borders_of(const run_side *side)
{
    const uint32_t vocab = side->sampler_options.vocab, n = side->shards;
    uint32_t *const borders = cli_alloc(n + (size_t)1, sizeof *borders);
    rng r = {side->index + UINT64_C(1000003) * vocab};
    borders[n] = vocab;
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t room = vocab - borders[i - 1] - (n - i);
        borders[i] = borders[i - 1] + 1 + (rng_below(&r, 3) ? rng_below(&r, room) : 0);
    }
    if (rng_below(&r, 2))
        return borders;
    borders[1] = 1;
    borders[n - 1] = vocab / 2 + 1;
    return n < 4 && vocab > 6 ? borders : NULL;
}

static void add_shard(run_side *side, uint32_t i)
{
    cls_shard_options o;
    cls_shard_options_init(&o);
    o.shard_count = side->shards;
    o.shard = i;
    o.on_device = side->shards > 2;
    o.borders = borders_of(side);
    if (cli_compile_done(cls_shard_create(side->sampler[i], &o, &side->shard[i])) != CLS_OK)
        run_die(side->now, "%s: shard %" PRIu32 ": %s", side->name, i, cli_reason());
}

cls_sampler_options run_sampler_options(const run_statement *s, uint32_t features)
{
    static const char keys[] = "slots rows features dtypes counts";
    cls_sampler_options o;
    run_check_keys(s, keys, "cls_sampler_options");
    cls_sampler_options_init(&o);
    o.late_compile = 1;
    o.features = features;
    o.dtypes = 7;
    run_set_fields(s, keys, "cls_sampler_options", &o);
    o.slot_count = run_count(s, "slots", o.slot_count);
    o.max_rows = run_count(s, "rows", o.slot_count != 0 ? o.slot_count : o.max_rows);
    o.features = parse_bits(s, "features", feature_names, o.features);
    o.dtypes = parse_bits(s, "dtypes", dtype_bits, o.dtypes);
    o.counts = (int32_t)parse_bits(s, "counts", count_names, (uint32_t)o.counts);
    if (o.slot_count == 0)
        o.slot_count = o.max_rows;
    return o;
}

void run_sampler(run_side *side, const run_statement *s)
{
    const uint32_t all =
        CLS_FEATURES_KNOWN & ~(side->most_shards != 0 ? 0u : (uint32_t)CLS_FEATURE_SHARD);
    cls_sampler_options o = run_sampler_options(s, all);
    run_drain(side);
    run_end_samplers(side);
    cls_infill_init(&side->infill);
    side->sampler_options = o;
    /* Nothing is compiled for the host. */
    side->compiles_late =
        run_find(s, "features") == NULL && !side->on_host && !side->compiles_all && o.late_compile;
    if (side->compiles_late)
        o.features = CLS_FEATURE_SHORTLIST;
    if (run_find(s, "dtypes") == NULL && !side->on_host && !side->compiles_all)
        o.dtypes = side->dtypes;
    side->shards = run_least(side->most_shards, o.vocab);
    run_record_calls(side, &o);
    const uint32_t since = side->records;
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < run_samplers(side) && status == CLS_OK; i++)
        status = cli_compile_done(cls_sampler_create(side->target.context, &o, &side->sampler[i]));
    if (status == CLS_OK) /* else there may be more slots than memory */
        side->rules = cli_alloc(o.slot_count, sizeof *side->rules);
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
        add_shard(side, i);
    for (uint32_t i = 0; i < run_samplers(side) && status == CLS_OK; i++)
        if (run_prepare != NULL && !side->on_host)
            run_prepare(side->sampler[i]);
    run_returned(side, status, since);
    if (status != CLS_OK)
        run_end_samplers(side);
}

/* ---------------------------------------------------------------------- others */

void run_grammar(run_side *side, const run_statement *s)
{
    const char *const name = run_value(s, ""), *const path = run_find(s, "file"),
                      *const expected = run_find(s, "digest");
    const uint32_t vocab = side->sampler_options.vocab;
    const cls_grammar *const given = run_given_find(side->given, "grammar");
    cls_grammar *grammar;
    char digest[CLI_DIGEST];
    run_check_keys(s, "file digest seed states of final end drafts", NULL);
    memcpy(&grammar, &given, sizeof given);
    if (grammar == NULL)
        grammar =
            path != NULL ? cli_grammar_read(run_path(s, path), vocab)
            : run_find(s, "of") != NULL
                ? run_listed_grammar(s, vocab)
                : run_random_grammar(s, run_number(s, "seed", 1), run_count(s, "states", 8), vocab);
    run_name_set(side, name, grammar, 0)->given = given != NULL;
    cli_grammar_digest(grammar, digest);
    if (expected != NULL && strcmp(digest, expected) != 0)
        run_die(s, "%s is another grammar than when the text was written", path);
}

/* By a seed, half of the tokens have a prefix among the ids below them. */
void run_infill(run_side *side, const run_statement *s)
{
    const uint32_t vocab = side->sampler_options.vocab;
    const uint64_t seed = run_number(s, "seed", 1);
    const char *const path = run_find(s, "prefix");
    cls_infill infill;
    rng r = {seed};
    run_check_keys(s, "end prefix prefixes seed", NULL);
    cls_infill_init(&infill);
    if (run_find(s, "prefixes") != NULL) {
        uint32_t n;
        infill.prefix_of = run_list(s, "prefixes", &n);
        if (n < vocab)
            run_die(s, "prefixes has %" PRIu32 " ids for a vocabulary of %" PRIu32, n, vocab);
    } else if (run_given_find(side->given, "prefix") != NULL) {
        infill.prefix_of = run_given_find(side->given, "prefix");
    } else if (path != NULL || run_find(s, "seed") == NULL) {
        cli_prefixes_read(path != NULL ? run_path(s, path) : NULL, vocab, &infill);
    } else {
        int32_t *const prefix = cli_alloc(vocab, sizeof *prefix);
        for (uint32_t id = 0; id < vocab; id++)
            prefix[id] = id == 0 || rng_below(&r, 2) ? -1 : (int32_t)rng_below(&r, id);
        infill.prefix_of = prefix;
    }
    infill.end_ids.ids = run_list(s, "end", &infill.end_ids.count);
    side->infill = infill;
    const uint32_t since = side->records;
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < run_samplers(side) && status == CLS_OK; i++)
        status = cls_sampler_infill(side->sampler[i], &infill);
    run_returned(side, status, since);
}

void run_compile(run_side *side, const run_statement *s)
{
    const uint32_t since = side->records;
    cls_status status = CLS_OK;
    run_check_keys(s, "features", NULL);
    for (uint32_t i = 0; i < run_samplers(side) && status == CLS_OK; i++)
        status = cli_compile_done(cls_sampler_compile(
            side->sampler[i], parse_bits(s, "features", feature_names, CLS_FEATURES_ALL)));
    run_returned(side, status, since);
}
