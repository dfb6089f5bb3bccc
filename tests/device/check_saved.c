/* SPDX-License-Identifier: MIT */
/* Proves that saved slots keep their format: slots that were saved before are loaded. Their
 * parameters, their next tokens and their bytes when they are saved again are those of then, and a
 * request that is begun with the same parameters is saved as the same bytes. Texts have the rest.
 * It does so on each device and on the host. Slots of format 7, slots-7.txt, are loaded, too.
 *
 *     check_saved --host          on the host alone, where there is no device
 *     check_saved --write FILE    writes the saved slots anew, which only a new format requires
 *
 * tests/vectors/README.md describes FILE, slots.txt. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "rows/kinds.h"
#include "sampler/sampler.h"

enum { VOCAB = 100, FIRST = 3, STEPS = 8, MOST = 4096 };

/* Which lists a request has. */
enum { BIASES = 1, STOPS = 2, ALLOWED = 4, BREAKERS = 8, WORDS = 16, START = 32, END = 64 };
enum { FINISH = 128, FORCED = 256, SECOND_END = 512, PENALTIES = 1024 };

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
    {"thinking-ends", END | SECOND_END | FINISH},
    {"penalties", PENALTIES},
};
enum { KINDS = sizeof kinds / sizeof kinds[0], KINDS_OF_7 = KINDS - 2 };
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
    static const cls_ids ends[] = {{end, 3}, {end + 1, 1}};
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
    if (lists & PENALTIES) {
        p->repetition_penalty = 1.5f;
        p->presence_penalty = 1.0f;
        p->repetition_window = 7;
        p->presence_window = 3;
        p->penalty_exempt_ids = (cls_ids){ids, 3};
        p->xtc_probability = 1.0f;
        p->xtc_exempt_ids = (cls_ids){ids + 1, 3};
    }
    if (lists & START) {
        p->thinking_start = (cls_ids){start, 2};
    }
    if (lists & END) {
        p->thinking_ends = (cls_sequences){ends, lists & SECOND_END ? 2 : 1};
    }
    if (lists & FINISH) {
        p->thinking_forced = (cls_ids){finish, 3};
        p->thinking_budget = 5;
    }
}

static rig open_rig(device *d, uint32_t rows)
{
    cls_sampler_options o = sampler_options(VOCAB, rows);
    float logits[RIG_ROWS * VOCAB];
    o.max_history = 12;
    o.max_rollback = 4;
    for (uint32_t i = 0; i < rows; i++)
        row_fill(ROW_NORMAL3, logits + (size_t)i * VOCAB, VOCAB, 5);
    return rig_open(d, &o, logits);
}

/* Samples n tokens of a slot. */
static void sample(rig *b, int32_t slot, int32_t *drawn, int n)
{
    for (int i = 0; i < n; i++) {
        rig_row(b, slot);
        drawn[i] = b->token[0];
    }
}

/* Begins the request of a kind and samples its first tokens. */
static void begin(rig *b, uint32_t slot, const struct kind *kind)
{
    static const int32_t prompt[] = {1, 34, 22, 43, 34, 22, 37}, output = 4,
                         forced[] = {99, 0, 14, 14, 6};
    cls_params p;
    int32_t drawn[FIRST];
    make_params(&p, kind->lists);
    must(cls_slot_begin(b->sampler, slot, &p, TEXT(prompt, 7, &output, 1)));
    if (kind->lists & FORCED)
        must(cls_slot_force(b->sampler, slot, forced, 5));
    sample(b, (int32_t)slot, drawn, FIRST);
}

static size_t save(rig *b, uint32_t slot, unsigned char bytes[MOST])
{
    size_t size = MOST;
    must(cls_slot_save(b->sampler, b->d == NULL ? NULL : b->d->queue, slot, bytes, &size));
    return size;
}

/* ---------------------------------------------------------------------- the file */

static void write_all(FILE *file, rig *b)
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
static void compare_params(const rig *b, uint32_t slot, const struct kind *kind)
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

static void expect_saved(rig *b, uint32_t slot, const saved *s, const char *what, const char *name)
{
    unsigned char bytes[MOST];
    const size_t size = save(b, slot, bytes);
    ck_assert_msg(size == s->size && memcmp(bytes, s->bytes, size) == 0,
                  "%s: %zu other bytes of the %s slot, which had %zu", name, size, what, s->size);
}

static void expect_tokens(rig *b, int32_t slot, const saved *s, const char *what, const char *name)
{
    int32_t drawn[STEPS];
    sample(b, slot, drawn, STEPS);
    for (int k = 0; k < STEPS; k++)
        ck_assert_msg(drawn[k] == s->tokens[k], "%s: token %d of the %s slot is %d, not %d", name,
                      k, what, drawn[k], s->tokens[k]);
}

static FILE *open_vectors(const char *name)
{
    const char *const source = getenv("srcdir") != NULL ? getenv("srcdir") : ".";
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/vectors/%s", source, name);
    FILE *const file = fopen(path, "r");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    return file;
}

/* Opens the file of saved slots, which it writes before if --write says so. */
static FILE *open_saved(rig *b)
{
    if (write_to == NULL)
        return open_vectors("slots.txt");
    FILE *const file = fopen(write_to, "w+");
    ck_assert_msg(file != NULL, "cannot write %s", write_to);
    write_all(file, b);
    rewind(file);
    return file;
}

/* On each device, and last on the host. */
START_TEST(saved_before)
{
    rig b = open_rig(_i < fixture_devices() ? fixture_device(_i) : NULL, 2);
    FILE *const file = open_saved(&b);
    static saved s;
    for (int i = 0; i < KINDS; i++) {
        const struct kind *const kind = &kinds[i];
        read_next(file, kind->name, &s);
        ck_assert_int_eq(s.bytes[8], 8);
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
    rig_close(&b);
}
END_TEST

/* A slot of format 7 is the same request, and is saved again in today's format. */
START_TEST(saved_in_format_7)
{
    rig b = open_rig(_i < fixture_devices() ? fixture_device(_i) : NULL, 2);
    FILE *const file = open_vectors("slots-7.txt");
    static saved s, now;
    for (int i = 0; i < KINDS_OF_7; i++) {
        const struct kind *const kind = &kinds[i];
        read_next(file, kind->name, &s);
        ck_assert_int_eq(s.bytes[8], 7);
        begin(&b, 0, kind);
        now.size = save(&b, 0, now.bytes);
        must(cls_slot_load(b.sampler, 1, s.bytes, s.size, NULL));
        compare_params(&b, 1, kind);
        expect_saved(&b, 1, &now, "older", kind->name);
        expect_tokens(&b, 1, &s, "older", kind->name);
    }
    fclose(file);
    rig_close(&b);
}
END_TEST

int main(int argc, char **argv)
{
    int on_host = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--host") == 0)
            on_host = 1;
        else if (strcmp(argv[i], "--write") == 0 && i + 1 < argc)
            write_to = argv[++i];
    }
    fixture_random(CLS_FEATURE_FORCED);
    fixture_begin(on_host ? ON_HOST : ON_DEVICES);
    add_loop_test(saved_before, fixture_devices() + 1);
    add_loop_test(saved_in_format_7, fixture_devices() + 1);
    return fixture_end();
}
