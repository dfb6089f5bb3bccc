/* SPDX-License-Identifier: MIT */
/* Proves that saved slots keep their format: slots that were saved before are loaded. Their
 * parameters, their next tokens and their bytes when they are saved again are those of then, and a
 * request that is begun with the same parameters is saved as the same bytes. And that a request
 * which is saved and loaded, or forked, goes on as if it had not been.
 *
 *     check_saved --write FILE    writes the saved slots anew, which only a new format requires
 *
 * tests/vectors/README.md describes FILE, slots.txt. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "automaton.h"
#include "bench.h"
#include "inputs.h"
#include "sampler/sampler.h"

enum { VOCAB = 100, FIRST = 3, STEPS = 8, MOST = 4096 };

/* Which lists a request has. */
enum { BIASES = 1, STOPS = 2, ALLOWED = 4, BREAKERS = 8, WORDS = 16, START = 32, END = 64 };
enum { FINISH = 128, FORCED = 256 };

static const struct kind {
    const char *name;
    uint32_t lists;
} kinds[] = {
    {"plain", 0},
    {"biases", BIASES},
    {"stop-ids", STOPS},
    {"allowed-ids", ALLOWED},
    {"dry", BREAKERS},
    {"bad-words", WORDS},
    {"all-lists", BIASES | STOPS | ALLOWED | BREAKERS | WORDS},
    {"forced", FORCED},
    {"thinking", FINISH},
    {"thinking-start", START | FINISH},
    {"thinking-end", END | FINISH},
    {"everything", 511},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
static const char *write_to; /* NULL: the slots are only read */

typedef struct saved {
    unsigned char bytes[MOST];
    size_t size;
    int32_t tokens[STEPS];
} saved;

/* ------------------------------------------------------------------- requests */

/* Each list changes some of the tokens that follow. */
static void make_params(cls_params *p, uint32_t lists)
{
    static const int32_t stops[] = {98, 43, 5, 98}, start[] = {95, 37}, end[] = {14, 95, 37},
                         finish[] = {60, 71, 23}, pair[] = {34, 22}, three[] = {37, 43, 48},
                         ids[] = {98, 9, 3, 22};
    static const cls_ids words[] = {{ids, 1}, {three, 3}, {pair, 2}, {ids + 2, 1}};
    static const cls_ids breakers[] = {{three, 2}, {ids + 3, 1}, {ids + 1, 3}};
    static const cls_logit_bias biases[] = {{60, 4.5f}, {40, -INFINITY}, {60, 0.25f}, {11, -1.0f}};
    static int32_t allowed[40];
    cls_params_init(p);
    p->temperature = 0.9f;
    p->top_k = 30;
    p->seed = 77;
    p->presence_penalty = 0.1f;
    if (lists & BIASES) {
        p->logit_bias = (cls_biases){biases, 4};
    }
    if (lists & STOPS) {
        p->stop_ids = (cls_ids){stops, 4};
        p->min_tokens = 9;
    }
    for (int32_t i = 0; i < 40 && lists & ALLOWED; i++)
        allowed[i] = i * 67 % VOCAB;
    if (lists & ALLOWED) {
        p->allowed_ids = (cls_ids){allowed, 40};
    }
    if (lists & BREAKERS) {
        p->dry_multiplier = 2.0f;
        p->dry_allowed_length = 1;
        p->dry_breakers = (cls_sequences){breakers, 3};
    }
    if (lists & WORDS) {
        p->bad_words = (cls_sequences){words, 4};
    }
    if (lists & START) {
        p->thinking_start = (cls_ids){start, 2};
    }
    if (lists & END) {
        p->thinking_end = (cls_ids){end, 3};
    }
    if (lists & FINISH) {
        p->thinking_forced = (cls_ids){finish, 3};
        p->thinking_budget = 5;
    }
}

static bench open_bench(device *d, uint32_t rows)
{
    cls_sampler_options o = sampler_options(VOCAB, rows);
    float logits[BENCH_ROWS * VOCAB];
    o.max_history = 12;
    o.max_rollback = 4;
    for (uint32_t i = 0; i < rows; i++)
        row_fill(ROW_NORMAL3, logits + (size_t)i * VOCAB, VOCAB, 5);
    return bench_open(d, &o, logits);
}

/* Samples n tokens of a slot. */
static void sample(bench *b, int32_t slot, int32_t *drawn, int n)
{
    for (int i = 0; i < n; i++) {
        bench_row(b, slot);
        drawn[i] = b->token[0];
    }
}

/* Begins the request of a kind and samples its first tokens. */
static void begin(bench *b, uint32_t slot, const struct kind *kind)
{
    static const int32_t prompt[] = {1, 34, 22, 43, 34, 22, 37}, output = 4,
                         forced[] = {99, 0, 14, 14, 6};
    cls_params p;
    int32_t drawn[FIRST];
    make_params(&p, kind->lists);
    must(cls_slot_begin(b->sampler, slot, &p, prompt, 7, &output, 1));
    if (kind->lists & FORCED)
        must(cls_slot_force(b->sampler, slot, forced, 5));
    sample(b, (int32_t)slot, drawn, FIRST);
}

static size_t save(bench *b, uint32_t slot, unsigned char bytes[MOST])
{
    size_t size = MOST;
    must(cls_slot_save(b->sampler, b->d->queue, slot, bytes, &size));
    return size;
}

/* ---------------------------------------------------------------------- the file */

static void write_all(FILE *file, bench *b)
{
    fputs("# Saved slots. Made by check_saved --write. README.md has the format.\n", file);
    for (int i = 0; i < KINDS; i++) {
        saved s;
        begin(b, 0, &kinds[i]);
        s.size = save(b, 0, s.bytes);
        sample(b, 0, s.tokens, STEPS);
        fprintf(file, "slot %s\ntokens", kinds[i].name);
        for (int k = 0; k < STEPS; k++)
            fprintf(file, " %d", s.tokens[k]);
        for (size_t k = 0; k < s.size; k++)
            fprintf(file, "%s%02x", k % 40 == 0 ? "\nbytes " : "", s.bytes[k]);
        fputs("\nend\n", file);
    }
}

/* Reads the next slot of the file, which must be of this kind. */
static void read_next(FILE *file, const char *name, saved *s)
{
    char line[128], other[32] = "";
    s->size = 0;
    while (fgets(line, sizeof line, file) != NULL && strcmp(line, "end\n") != 0) {
        if (strncmp(line, "bytes ", 6) == 0)
            for (unsigned byte; sscanf(line + 6 + 2 * (s->size % 40), "%2x", &byte) == 1;) {
                ck_assert_uint_lt(s->size, MOST);
                s->bytes[s->size++] = (unsigned char)byte;
                if (s->size % 40 == 0)
                    break;
            }
        else if (strncmp(line, "tokens ", 7) == 0) {
            char *at = line + 7;
            for (int k = 0; k < STEPS; k++)
                s->tokens[k] = (int32_t)strtol(at, &at, 10);
        } else
            sscanf(line, "slot %31s", other);
    }
    ck_assert_str_eq(other, name);
}

/* --------------------------------------------------------------------- the test */

static void same_sequences(const char *name, const cls_ids *a, const cls_ids *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(a[i].count == b[i].count &&
                          memcmp(a[i].ids, b[i].ids, a[i].count * sizeof *a[i].ids) == 0,
                      "%s: sequence %u", name, (unsigned)i);
}

/* Compares the parameters of a slot with those of its kind. */
static void compare_params(const bench *b, uint32_t slot, const struct kind *kind)
{
    const cls_params *const p = &b->sampler->request[slot].params;
    cls_params q;
    make_params(&q, kind->lists);
    for (const cls_list_param *l = cls_list_table; l < cls_list_table + CLS_LIST_COUNT; l++) {
        const cls_list a = cls_list_get(l, p), other = cls_list_get(l, &q);
        ck_assert_msg(a.count == other.count, "%s: other count of %s", kind->name, l->name);
        if (l->kind == CLS_LIST_sequences)
            same_sequences(kind->name, a.array, other.array, a.count);
        else
            ck_assert_msg(a.count == 0 || memcmp(a.array, other.array, a.count * l->size) == 0,
                          "%s: other %s", kind->name, l->name);
    }
    ck_assert(p->temperature == q.temperature && p->top_k == q.top_k && p->seed == q.seed);
    ck_assert(p->presence_penalty == q.presence_penalty && p->dry_multiplier == q.dry_multiplier &&
              p->min_tokens == q.min_tokens && p->thinking_budget == q.thinking_budget);
}

static void expect_saved(bench *b, uint32_t slot, const saved *s, const char *what,
                         const char *name)
{
    unsigned char bytes[MOST];
    const size_t size = save(b, slot, bytes);
    ck_assert_msg(size == s->size && memcmp(bytes, s->bytes, size) == 0,
                  "%s: %zu other bytes of the %s slot, which had %zu", name, size, what, s->size);
}

static void expect_tokens(bench *b, int32_t slot, const saved *s, const char *what,
                          const char *name)
{
    int32_t drawn[STEPS];
    sample(b, slot, drawn, STEPS);
    for (int k = 0; k < STEPS; k++)
        ck_assert_msg(drawn[k] == s->tokens[k], "%s: token %d of the %s slot is %d, not %d", name,
                      k, what, drawn[k], s->tokens[k]);
}

/* Opens the file of saved slots, which it writes before if --write says so. */
static FILE *open_saved(bench *b)
{
    const char *const source = getenv("srcdir") != NULL ? getenv("srcdir") : ".";
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/vectors/slots.txt", source);
    if (write_to != NULL) {
        FILE *const out = fopen(write_to, "w");
        ck_assert_msg(out != NULL, "cannot write %s", write_to);
        write_all(out, b);
        ck_assert_int_eq(fclose(out), 0);
    }
    FILE *const file = fopen(write_to != NULL ? write_to : path, "r");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    return file;
}

START_TEST(saved_before)
{
    bench b = open_bench(fixture_device(_i), 2);
    FILE *const file = open_saved(&b);
    static saved s;
    for (int i = 0; i < KINDS; i++) {
        const struct kind *const kind = &kinds[i];
        read_next(file, kind->name, &s);
        ck_assert_int_eq(s.bytes[8], 7);
        begin(&b, 0, kind);
        expect_saved(&b, 0, &s, "new", kind->name);
        must(cls_slot_load(b.sampler, 1, s.bytes, s.size, NULL));
        compare_params(&b, 1, kind);
        expect_saved(&b, 1, &s, "loaded", kind->name);
        must(cls_slot_reset(b.sampler, 0)); /* so that its lists are not those that are used */
        expect_tokens(&b, 1, &s, "loaded", kind->name);
        must(cls_slot_load(b.sampler, 0, s.bytes, s.size, NULL));
        must(cls_slot_copy(b.sampler, 1, 0));
        must(cls_slot_reset(b.sampler, 0));
        expect_saved(&b, 1, &s, "copied", kind->name);
        expect_tokens(&b, 1, &s, "copied", kind->name);
    }
    fclose(file);
    bench_close(&b);
}
END_TEST

/* Loads n bytes of a slot, of which one word may be another, with the right checksum. The bytes lie
 * in memory of exactly their size. */
static cls_status load_changed(bench *b, const saved *s, size_t n, size_t at, uint32_t word)
{
    unsigned char *const bytes = must_malloc(n + 8);
    memcpy(bytes, s->bytes, n);
    for (size_t i = 0; i < 4 && at + 4 <= n; i++)
        bytes[at + i] = (unsigned char)(word >> 8 * i);
    fixture_put_checksum(bytes, n);
    const cls_status status = cls_slot_load(b->sampler, 1, bytes, n + 8, NULL);
    free(bytes);
    return status;
}

/* Returns where a slot has the second of two words. */
static size_t end_of(const saved *s, const int32_t pair[2])
{
    size_t at = 32;
    for (; at + 8 < s->size && memcmp(s->bytes + at, pair, 8) != 0; at++)
        continue;
    ck_assert_uint_lt(at + 8, s->size);
    return at + 4;
}

/* Slots that end anywhere, or have a list or a sequence with more elements than there are bytes,
 * are refused, by name where a list is cut. */
START_TEST(cut_lists)
{
    static const struct {
        int kind;
        int32_t pair[2]; /* in the list of the kind; the list is cut before the second */
    } lists[] = {{1, {60, 0x40900000}}, {2, {43, 5}},  {3, {67, 34}}, {4, {2, 37}},
                 {5, {37, 43}},         {8, {71, 23}}, {9, {95, 37}}, {10, {14, 95}}};
    bench b = open_bench(fixture_device(_i), 2);
    FILE *const file = open_saved(&b);
    static saved s[KINDS];
    for (int i = 0; i < KINDS; i++) {
        read_next(file, kinds[i].name, &s[i]);
        const size_t end = s[i].size - 8;
        for (size_t n = 32; n < end; n += 4)
            ck_assert_msg(load_changed(&b, &s[i], n, n, 0) == CLS_BAD_ARGUMENT,
                          "%s is loaded from %zu bytes", kinds[i].name, n);
        for (size_t at = 32; at < end; at += 4) /* nothing is read or written beyond its end */
            load_changed(&b, &s[i], end, at, at % 8 == 0 ? UINT32_MAX : (uint32_t)INT32_MAX);
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const saved *const whole = &s[lists[i].kind];
        const size_t n = end_of(whole, lists[i].pair);
        must_refuse(load_changed(&b, whole, n, n, 0), "cut short");
    }
    fclose(file);
    bench_close(&b);
}
END_TEST

/* ------------------------------------------------------------------- going on */

/* A request, its fork, the same one saved and loaded, and a fork without one of its parameters. */
enum { STAYED, FORKED, LOADED, WITHOUT, WAYS };
enum { DRAFTS = 2, EMITTED = DRAFTS + 1, ROUNDS = 6, SEEDS = 6 };

/* The first, second and third likeliest id of a row are 77, 95 and 37. */
static const int32_t likely[] = {37, 77, 95}, drafts[DRAFTS] = {98, 22};
enum { EXEMPT = 1, THINKS = 2, FOLLOWS = 4 };

static const struct {
    const char *name, *with, *without; /* parameters, and what is other without one of them */
    uint32_t lists, lists_without;
} parameters[] = {
    {"ngram_window", "no_repeat_ngram=1 ngram_window=4", "ngram_window=0", 0, 0},
    {"ngram_output_only", "no_repeat_ngram=1 ngram_output_only=1", "ngram_output_only=0", 0, 0},
    {"ngram_exempt_ids", "no_repeat_ngram=1", "", EXEMPT, 0},
    {"relaxed_top_k", "relaxed_top_k=9 relaxed_delta=1.0", "relaxed_top_k=1", THINKS, THINKS},
    {"relaxed_delta", "relaxed_top_k=9 relaxed_delta=1.0", "relaxed_delta=0.0", THINKS, THINKS},
    {"thinking_end", "relaxed_top_k=9 relaxed_delta=1.0", "", THINKS, 0},
    {"grammar", "", "", FOLLOWS, 0},
    {"grammar behind thinking_end", "", "", THINKS | FOLLOWS, FOLLOWS},
};

/* Verifies the same drafts for all slots. */
static void verify(bench *b, int32_t tokens[WAYS][EMITTED])
{
    int32_t cu[WAYS + 1] = {0}, ids[WAYS * DRAFTS];
    cls_verify_call call;
    for (int i = 0; i < WAYS; i++) {
        cu[i + 1] = cu[i] + DRAFTS + 1;
        memcpy(ids + DRAFTS * i, drafts, sizeof drafts);
    }
    cls_verify_call_init(&call);
    call.requests = WAYS;
    call.row_offsets = cu;
    call.logits = b->step.logits;
    call.draft_ids.host = ids;
    call.tokens = b->step.tokens;
    must(cls_verify(b->sampler, b->d->queue, &call, 0, NULL, NULL));
    buffer_read(b->d, call.tokens.buffer, WAYS * sizeof *tokens, tokens);
}

static void set_lists(cls_params *p, uint32_t lists, const cls_grammar *g)
{
    p->ngram_exempt_ids = (cls_ids){likely, lists & EXEMPT ? 3 : 0};
    p->thinking_end = (cls_ids){likely, lists & THINKS ? 1 : 0};
    p->grammar = lists & FOLLOWS ? g : NULL;
}

/* Returns how many tokens of a request differ from those that it has without the parameter. */
static uint32_t go_on(bench *b, size_t which, uint64_t seed, const cls_grammar *g)
{
    int32_t tokens[WAYS][EMITTED];
    uint32_t others = 0;
    size_t size;
    cls_params p = default_params();
    p.seed = seed;
    p.top_k = 8;
    params_set(&p, parameters[which].with);
    set_lists(&p, parameters[which].lists, g);
    for (uint32_t way = 0; way < WAYS; way++)
        must(cls_slot_begin(b->sampler, way, &p, likely + 1, 2, NULL, 0));
    for (int round = 0; round < 2; round++)
        verify(b, tokens);
    unsigned char *const bytes = slot_saved(b->sampler, b->d->queue, STAYED, &size);
    must(cls_slot_load(b->sampler, LOADED, bytes, size, p.grammar));
    free(bytes);
    must(cls_slot_copy(b->sampler, FORKED, STAYED));
    must(cls_slot_copy(b->sampler, WITHOUT, STAYED));
    params_set(&p, parameters[which].without);
    set_lists(&p, parameters[which].lists_without, g);
    must(cls_slot_params(b->sampler, WITHOUT, &p));
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t way = 0; way < WAYS && round == ROUNDS / 2; way++)
            must(cls_slot_rollback(b->sampler, way, 1));
        verify(b, tokens);
        for (int way = FORKED; way <= LOADED; way++)
            ck_assert_msg(
                memcmp(tokens[way], tokens[STAYED], sizeof *tokens) == 0 &&
                    slots_are_same(b->d->queue, b->sampler, (uint32_t)way, b->sampler, STAYED),
                "%s, seed %llu, round %d: the %s slot has %d %d %d, not %d %d %d",
                parameters[which].name, (unsigned long long)seed, round,
                way == LOADED ? "loaded" : "forked", tokens[way][0], tokens[way][1], tokens[way][2],
                tokens[STAYED][0], tokens[STAYED][1], tokens[STAYED][2]);
        others += memcmp(tokens[WITHOUT], tokens[STAYED], sizeof *tokens) != 0;
    }
    return others;
}

START_TEST(goes_on)
{
    bench b = open_bench(fixture_device(_i), WAYS * (DRAFTS + 1));
    automaton *const a = must_malloc(sizeof *a);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        uint32_t others = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            rng r = {seed};
            automaton_draw(a, VOCAB, &r);
            cls_grammar *const g = automaton_grammar(a);
            others += go_on(&b, i, seed, g);
            cls_grammar_destroy(g);
        }
        ck_assert_msg(others != 0, "%s changes no token", parameters[i].name);
        printf("%s: %u of %u calls differ\n", parameters[i].name, others, SEEDS * ROUNDS);
    }
    free(a);
    bench_close(&b);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        write_to = argv[2];
    fixture_random(CLS_FEATURE_ACCEPT | CLS_FEATURE_FORCED | CLS_FEATURE_VERIFY);
    fixture_begin(ON_DEVICES);
    add_device_test(saved_before);
    add_device_test(cut_lists);
    add_device_test(goes_on);
    return fixture_end();
}
