/* SPDX-License-Identifier: MIT */
/* The statements of clsample run that enqueue nothing: samplers, slots, grammars. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

uint32_t run_samplers(const run_side *side) { return side->shards != 0 ? side->shards : 1; }

/* ------------------------------------------------------------------- samplers */

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
    side->compiles_late = run_find(s, "features") == NULL && !side->on_host &&
                          !side->compiles_all && !o.no_late_compile;
    if (side->compiles_late)
        o.features = CLS_FEATURE_SHORTLIST;
    if (run_find(s, "dtypes") == NULL && !side->on_host && !side->compiles_all)
        o.dtypes = side->dtypes;
    side->shards = run_least(side->most_shards, o.vocab);
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

/* ------------------------------------------------------------------ parameters */

static bool is_of_params(const char *key)
{
    return strcmp(key, "prompt") != 0 && strcmp(key, "output") != 0 &&
           strcmp(key, "grammar") != 0 && *key != '\0';
}

/* The parameters that are lists of ids, which may have ranges and random texts. */
static const struct id_list {
    const char *name;
    size_t place;
} id_lists[] = {
#define ID_LIST_ids(list) {#list, offsetof(cls_params, list)},
#define ID_LIST_biases(list)
#define ID_LIST_sequences(list)
#define ID_LIST(p, kind, list, kept, option, meta, key, help) ID_LIST_##kind(list)
    CLS_LISTS(ID_LIST, )};

static bool set_ids(const run_statement *s, const char *key, cls_params *params)
{
    for (size_t i = 0; i < sizeof id_lists / sizeof *id_lists; i++)
        if (strcmp(key, id_lists[i].name) == 0) {
            cls_ids *const list = (cls_ids *)(void *)((char *)params + id_lists[i].place);
            list->ids = run_list(s, key, &list->count);
            return true;
        }
    return false;
}

static cls_grammar *grammar_of(run_side *side, const run_statement *s)
{
    const char *const name = run_find(s, "grammar");
    const run_named *const found = name != NULL ? run_name_find(side, name) : NULL;
    if (name != NULL && (found == NULL || found->size != 0))
        run_die(s, "grammar=%.40s is no grammar of this script", name);
    return found != NULL ? found->object : NULL;
}

void run_params(run_side *side, const run_statement *s, cls_params *params)
{
    cls_params_init(params);
    for (uint32_t i = 0; i < s->words; i++) {
        char what[80];
        const char *const key = s->word[i].key;
        if (!is_of_params(key) || set_ids(s, key, params))
            continue;
        snprintf(what, sizeof what, "line %" PRIu32 ": %.50s", s->line, key);
        if (!cli_param_set(what, key, s->word[i].value, params))
            run_die(s, "'%.40s' is no parameter", key);
    }
    params->grammar = grammar_of(side, s);
}

/* ----------------------------------------------------------------------- slots */

int32_t run_slot(const run_side *side, int32_t slot)
{
    const int32_t slots = (int32_t)side->sampler_options.slot_count;
    return side->way == RUN_PERMUTED && slot >= 0 && slot < slots ? slots - 1 - slot : slot;
}

typedef struct slot_call {
    run_side *side;
    const run_statement *s;
    cls_sampler *sampler;
    uint32_t slot, from;
    cls_params params;
    const int32_t *prompt, *output;
    uint32_t prompts, outputs, number;
} slot_call;

#define SLOT_CALL(call, ...) \
    static cls_status call##_slot(const slot_call *c) \
    { \
        return cls_slot_##call(c->sampler, c->slot, __VA_ARGS__); \
    }
SLOT_CALL(begin, &c->params, c->prompt, c->prompts, c->output, c->outputs)
SLOT_CALL(params, &c->params)
SLOT_CALL(append_prompt, c->prompt, c->prompts)
SLOT_CALL(next_turn, c->prompt, c->prompts)
SLOT_CALL(force, c->prompt, c->prompts)
SLOT_CALL(rollback, c->number)
SLOT_CALL(copy, c->from)
static cls_status reset_slot(const slot_call *c) { return cls_slot_reset(c->sampler, c->slot); }

/* The bytes of a slot; size 0: the call failed with this status. */
static run_named saved_slot(run_side *side, uint32_t slot, cls_status *status)
{
    run_named saved = {.size = 0};
    run_drain(side);
    *status = cls_slot_save(side->sampler[0], side->target.queue, slot, NULL, &saved.size);
    if (*status != CLS_OK)
        return (run_named){.size = 0};
    saved.object = cli_alloc(saved.size, 1);
    *status = cls_slot_save(side->sampler[0], side->target.queue, slot, saved.object, &saved.size);
    return saved;
}

/* Slots save the place of their text's logits alone, so that the bytes are the same in any slot. */
static void save_slot(run_side *side, const run_statement *s)
{
    uint32_t n;
    const int32_t *const slots = run_slots(s, &n);
    const char *const name = run_find(s, "as");
    run_check_keys(s, "as", NULL);
    for (uint32_t i = 0; i < n; i++) {
        cls_status status;
        const uint32_t since = side->records;
        run_named saved = saved_slot(side, (uint32_t)run_slot(side, slots[i]), &status);
        if (status == CLS_OK)
            run_note(side, "saved", saved.object, saved.size);
        else /* a load of this name is refused, too */
            saved = (run_named){.object = cli_alloc(1, 1), .size = 1};
        if (name != NULL)
            run_name_set(side, name, saved.object, saved.size)->rules =
                status == CLS_OK ? side->rules[slots[i]] : NULL;
        run_returned(side, status, since);
    }
}

/* The bytes of a saved slot, or a part of them, or with another byte or other words of 32 bits at
 * some places. What has other words has the right checksum: FNV-1a of all bytes before it. */
static void *changed_bytes(const run_statement *s, const run_named *saved, size_t *size)
{
    enum { CHECKSUM = 8 };
    const uint64_t cut = run_number(s, "cut", saved->size);
    uint32_t places, words;
    const int32_t *const at = run_list(s, "at", &places), *const word = run_list(s, "word", &words);
    *size = (size_t)(cut < saved->size + 1024 ? cut : saved->size + 1024);
    unsigned char *const bytes = cli_alloc(*size + 1, 1);
    memcpy(bytes, saved->object, *size < saved->size ? *size : saved->size);
    if (run_find(s, "byte") != NULL && places == 1 && (uint32_t)at[0] < *size)
        bytes[at[0]] = (unsigned char)run_number(s, "byte", 0);
    if (words == 0 || *size < CHECKSUM)
        return bytes;
    for (uint32_t i = 0; i < words && i < places; i++)
        for (uint32_t k = 0; k < 4 && (uint64_t)(uint32_t)at[i] + 4 <= *size; k++)
            bytes[(uint32_t)at[i] + k] = (unsigned char)((uint32_t)word[i] >> 8 * k);
    const uint64_t hash = run_hash(RUN_HASH, bytes, *size - CHECKSUM);
    for (int i = 0; i < CHECKSUM; i++)
        bytes[*size - CHECKSUM + (size_t)i] = (unsigned char)(hash >> 8 * i);
    return bytes;
}

static void load_slot(run_side *side, const run_statement *s)
{
    uint32_t n;
    const int32_t *const slots = run_slots(s, &n);
    const run_named *const saved = run_name_find(side, run_value(s, "from"));
    const cls_grammar *const grammar = grammar_of(side, s);
    run_check_keys(s, "from grammar cut at byte word", NULL);
    if (saved == NULL || saved->size == 0)
        run_die(s, "from=%.40s is no saved slot of this script", run_value(s, "from"));
    size_t size;
    const void *const bytes = changed_bytes(s, saved, &size);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t since = side->records;
        cls_status status = CLS_OK;
        for (uint32_t k = 0; k < run_samplers(side) && status == CLS_OK; k++)
            status = cli_compile_done(cls_slot_load(
                side->sampler[k], (uint32_t)run_slot(side, slots[i]), bytes, size, grammar));
        if (status == CLS_OK)
            side->rules[slots[i]] = saved->rules;
        run_returned(side, status, since);
    }
}

void run_move(run_side *side)
{
    for (uint32_t slot = 0; side->sampler[0] != NULL && slot < side->sampler_options.slot_count;
         slot++) {
        const run_statement *const rules = side->rules[slot];
        cls_status status;
        const run_named saved = saved_slot(side, slot, &status);
        if (status != CLS_OK) /* it has no request */
            continue;
        status = cls_slot_load(side->sampler[0], slot, saved.object, saved.size,
                               rules != NULL ? grammar_of(side, rules) : NULL);
        if (status != CLS_OK && strstr(cls_error_message(), "grammar is not the one") == NULL)
            run_die(side->now, "%s: slot %" PRIu32 " is saved, but cannot be loaded: %s",
                    side->name, slot, cls_error_message());
        cli_free(saved.object);
    }
}

static void compare_slots(run_side *side, const run_statement *s)
{
    uint32_t n;
    const int32_t *const slots = run_slots(s, &n);
    const char *const name = run_find(s, "as");
    run_named first = {.size = 0};
    int32_t equal = 1;
    run_check_keys(s, "as", NULL);
    if (name != NULL && run_name_find(side, name) == NULL)
        run_die(s, "as=%.40s is no saved slot of this script", name);
    if (name != NULL)
        first = *run_name_find(side, name);
    for (uint32_t i = 0; i < n; i++) {
        cls_status status;
        const run_named saved = saved_slot(side, (uint32_t)run_slot(side, slots[i]), &status);
        if (status != CLS_OK)
            run_die(s, "slot %" PRId32 ": %s", slots[i], cls_error_message());
        if (i == 0 && name == NULL)
            first = saved;
        else if (saved.size != first.size || memcmp(saved.object, first.object, saved.size) != 0)
            equal = 0;
    }
    run_note(side, "equal", &equal, sizeof equal);
}

/* ---------------------------------------------------------------------- others */

static void make_grammar(run_side *side, const run_statement *s)
{
    const char *const name = run_value(s, ""), *const path = run_find(s, "file"),
                      *const expected = run_find(s, "digest");
    const uint32_t vocab = side->sampler_options.vocab;
    const cls_grammar *const given = run_given_find(side, "grammar");
    cls_grammar *grammar;
    char digest[CLI_DIGEST];
    run_check_keys(s, "file digest seed states of final end", NULL);
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
static void set_infill(run_side *side, const run_statement *s)
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
    } else if (run_given_find(side, "prefix") != NULL) {
        infill.prefix_of = run_given_find(side, "prefix");
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

static void compile_features(run_side *side, const run_statement *s)
{
    const uint32_t since = side->records;
    cls_status status = CLS_OK;
    run_check_keys(s, "features", NULL);
    for (uint32_t i = 0; i < run_samplers(side) && status == CLS_OK; i++)
        status = cli_compile_done(cls_sampler_compile(
            side->sampler[i], parse_bits(s, "features", feature_names, CLS_FEATURES_ALL)));
    run_returned(side, status, since);
}

/* ------------------------------------------------------------------ all statements */

static void set_logits(run_side *side, const run_statement *s) { side->logits = s; }
static void set_outputs(run_side *side, const run_statement *s) { side->outputs = s; }

/* version N [arithmetic=N]: what wrote the text. Its tokens are those of one arithmetic. */
static void check_version(run_side *side, const run_statement *s)
{
    (void)side;
    run_check_keys(s, "arithmetic", NULL);
    const uint64_t theirs = run_number(s, "arithmetic", cls_arithmetic_version());
    if (theirs != cls_arithmetic_version())
        run_die(s,
                "the text is of arithmetic %" PRIu64 "; this library has arithmetic %" PRIu32
                ", which may draw other tokens",
                theirs, cls_arithmetic_version());
}

static void do_nothing(run_side *side, const run_statement *s) { (void)side, (void)s; }

/* leave SIDE,...: leaves the rest of the script out on sides whose names begin so. */
static void leave(run_side *side, const run_statement *s)
{
    const char *at = run_value(s, "");
    while (*at != '\0') {
        const size_t length = strcspn(at, ",");
        if (!run_begins_side(at, length))
            run_die(s, "leave: no side's name begins with '%.*s'", (int)(length < 40 ? length : 40),
                    at);
        if (strncmp(side->name, at, length) == 0)
            run_leave_out(side, "its statement leave names this side");
        at += length + (at[length] == ',');
    }
}

static void run_slot_call(run_side *side, const run_statement *s);

/* The statements: what runs them, and of a slot call also the call, and the words that it knows
 * beside its slots; NULL: parameters. The first ones need no sampler. */
static const struct verb {
    const char *name;
    void (*run)(run_side *side, const run_statement *s);
    cls_status (*call)(const slot_call *c);
    const char *keys;
} verbs[] = {
    {"leave", leave, NULL, NULL},
    {"version", check_version, NULL, NULL},
    {"wrote", do_nothing, NULL, NULL},
    {"end", do_nothing, NULL, NULL},
    {"sampler", run_sampler, NULL, NULL},
    {"logits", set_logits, NULL, NULL},
    {"outputs", set_outputs, NULL, NULL},
    {"grammar", make_grammar, NULL, NULL},
    {"infill", set_infill, NULL, NULL},
    {"begin", run_slot_call, begin_slot, NULL},
    {"params", run_slot_call, params_slot, NULL},
    {"append", run_slot_call, append_prompt_slot, "prompt"},
    {"turn", run_slot_call, next_turn_slot, "prompt"},
    {"force", run_slot_call, force_slot, "ids"},
    {"copy", run_slot_call, copy_slot, "from"},
    {"rollback", run_slot_call, rollback_slot, "count"},
    {"reset", run_slot_call, reset_slot, ""},
    {"save", save_slot, NULL, NULL},
    {"load", load_slot, NULL, NULL},
    {"same", compare_slots, NULL, NULL},
    {"compile", compile_features, NULL, NULL},
    {"step", run_step, NULL, NULL},
    {"verify", run_verify, NULL, NULL},
    {"accept", run_accept, NULL, NULL},
    {"draft", run_draft, NULL, NULL},
    {"logprobs", run_logprobs, NULL, NULL},
    {"launches", run_launches, NULL, NULL},
};
enum { VERBS = sizeof verbs / sizeof *verbs, FREE = 7 };

static const struct verb *verb_of(const run_statement *s)
{
    cli_near near = {.word = s->verb, .length = strlen(s->verb)};
    for (int i = 0; i < VERBS; i++) {
        if (strcmp(s->verb, verbs[i].name) == 0)
            return &verbs[i];
        cli_near_try(&near, verbs[i].name);
    }
    run_die(s, "'%.40s' is no statement%s", s->verb, cli_near_text(&near, ""));
}

void run_statement_on(run_side *side, const run_statement *s)
{
    const struct verb *const verb = verb_of(s);
    if (verb - verbs >= FREE && side->sampler[0] == NULL)
        run_die(s, "there is no sampler yet: a script begins with one, such as sampler "
                   "vocab=40 slots=3");
    verb->run(side, s);
}

static void run_slot_call(run_side *side, const run_statement *s)
{
    const struct verb *const verb = verb_of(s);
    slot_call c = {.side = side, .s = s};
    uint32_t n;
    const int32_t *const slots = run_slots(s, &n);
    if (verb->keys != NULL)
        run_check_keys(s, verb->keys, NULL);
    else
        run_params(side, s, &c.params);
    c.prompt = run_list(s, verb->call == force_slot ? "ids" : "prompt", &c.prompts);
    c.output = run_list(s, "output", &c.outputs);
    c.number = run_count(s, "count", 0);
    c.from = (uint32_t)run_slot(side, (int32_t)run_count(s, "from", 0));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t since = side->records;
        cls_status status = CLS_OK;
        const uint32_t place = (uint32_t)slots[i], count = side->sampler_options.slot_count;
        c.slot = (uint32_t)run_slot(side, slots[i]);
        for (uint32_t k = 0; k < run_samplers(side) && status == CLS_OK; k++) {
            c.sampler = side->sampler[k];
            status = cli_compile_done(verb->call(&c));
        }
        if (status == CLS_OK && place < count && verb->keys == NULL)
            side->rules[place] = s;
        if (status == CLS_OK && place < count && verb->call == copy_slot)
            side->rules[place] = side->rules[run_count(s, "from", 0)];
        if (status == CLS_OK && side->way == RUN_EACH)
            run_flush(side);
        run_returned(side, status, since);
    }
}
