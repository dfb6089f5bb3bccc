/* SPDX-License-Identifier: MIT */
/* Makes the data that the words of clsample run stand for. The same words make the same data on
 * every side. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/data.h"

enum { MOST_LISTED = 1 << 20 };

/* ----------------------------------------------------------------------- files */

const char *const run_input_names[CLI_INPUTS] = {"logits", "mask", "bias"};

uint64_t run_hash(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *const bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t run_hash_of_row(const cli_array of[CLI_INPUTS], uint32_t row)
{
    uint64_t hash = RUN_HASH;
    for (cli_input i = 0; i < CLI_INPUTS; i++) {
        const size_t size = of[i].width * of[i].size;
        if (of[i].data != NULL && row < of[i].rows) /* a map may use fewer rows than there are */
            hash = run_hash(hash, (const char *)of[i].data + row * size, size);
    }
    return hash;
}

const char *run_path(const run_statement *s, const char *name)
{
    const char *const slash = s->path != NULL ? strrchr(s->path, '/') : NULL;
    const size_t folder = slash == NULL || *name == '/' ? 0 : (size_t)(slash - s->path) + 1;
    char *const path = cli_alloc(folder + strlen(name) + 1, 1);
    if (folder != 0)
        memcpy(path, s->path, folder);
    strcpy(path + folder, name);
    cli_file_kind kind = cli_kind_of(path);
    if (folder != 0 && kind == CLI_NO_FILE) {
        strcpy(path, name);
        kind = cli_kind_of(path);
    }
    if (kind == CLI_OTHER) /* of a pipe the command would wait for the writer */
        run_die(s, "%s is not a regular file", path);
    if (kind == CLI_NO_FILE && folder != 0)
        run_die(s, "%s is neither in the folder of the text nor in the current one", name);
    return path;
}

const void *run_given_find(const run_given *given, const char *key)
{
    for (const run_given *g = given; g != NULL && g->key != NULL; g++)
        if (strcmp(g->key, key) == 0)
            return g->object;
    return NULL;
}

const cli_array *run_array(const run_given *things, const run_statement *s, cli_input what,
                           const char *name, int32_t dtype)
{
    const cli_array *const given = run_given_find(things, run_input_names[what]);
    char key[16];
    cli_npy npy;
    cli_array *const array = cli_alloc(1, sizeof *array);
    cli_picked *const picked = cli_alloc(1, sizeof *picked);
    if (given != NULL)
        return given;
    snprintf(key, sizeof key, "%s_pick", run_input_names[what]);
    picked->option = key;
    picked->row = (uint32_t *)run_list(s, key, &picked->count);
    cli_array_open(what, run_path(s, name), dtype, &npy, array);
    cli_array_read(&npy, picked->row != NULL ? picked : NULL, array);
    array->picked = NULL;
    return array;
}

void *run_room(uint64_t rows, uint64_t width, size_t element)
{
    if (rows * width > RUN_MOST_ELEMENTS)
        cli_die("%" PRIu64 " rows of %" PRIu64 " elements are too many", rows, width);
    return cli_alloc((size_t)(rows * width), element);
}

void *run_turned(const void *data, uint32_t rows, size_t row)
{
    char *const to = cli_alloc((size_t)rows * row, 1);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(to + i * row, (const char *)data + (rows - 1 - i) * row, row);
    return to;
}

/* ----------------------------------------------------------------- rows by hand */

double *run_rows(const run_statement *s, const char *key, const char *text, uint32_t rows,
                 uint32_t *width, double rest)
{
    double *all = NULL;
    size_t *begin = NULL, n = 0;
    uint32_t given = 0, longest = 1;
    do {
        begin = cli_grow(begin, given + (size_t)2, sizeof *begin);
        text += given != 0;
        while (*text != '/' && *text != '\0') {
            char *end;
            double x = strtod(text, &end), times = 1.0;
            if (*end == '*') {
                times = x;
                x = strtod(end + 1, &end);
            }
            if (end == text || strchr(",/", *end) == NULL ||
                !(times >= 0.0 && times + (double)n <= MOST_LISTED))
                run_die(s, "%s: '%.20s' is not a number, or there are more than %d", key, text,
                        (int)MOST_LISTED);
            all = cli_grow(all, n + (size_t)times, sizeof *all);
            for (; times >= 1.0; times--)
                all[n++] = x;
            text = end + (*end == ',');
        }
        begin[given + 1] = n;
        begin[given] = given == 0 ? 0 : begin[given];
        longest = n - begin[given] > longest ? (uint32_t)(n - begin[given]) : longest;
        given++;
    } while (*text == '/');
    *width = *width != 0 ? *width : longest;
    double *const to = run_room(rows, *width, sizeof *to);
    for (size_t i = 0; i < (size_t)rows * *width; i++) {
        const size_t row = i / *width % given, at = begin[row] + i % *width;
        to[i] = at < begin[row + 1] ? all[at] : rest;
    }
    return to;
}

/* ---------------------------------------------------------------- random arrays */

int run_kind(const run_statement *s, const char *name)
{
    for (int i = 0; i < ROW_KINDS; i++) {
        const char *const known = row_kind_names[i];
        size_t k = 0;
        while (name[k] != '\0' && name[k] == (known[k] == ' ' ? '-' : known[k]))
            k++;
        if (name[k] == '\0' && known[k] == '\0')
            return i;
    }
    run_die(s,
            "kind=%.40s is no kind of rows; some are spread-1e-6, peaked, language, "
            "quarter-ties, bits, all-NaN",
            name);
}

void *run_random_logits(uint64_t seed, int kind, uint32_t rows, uint32_t vocab, int32_t dtype)
{
    const size_t size = dtype_size(dtype);
    char *const to = run_room(rows, vocab, size);
    float *const row = cli_alloc(vocab, sizeof *row);
    for (uint32_t r = 0; r < rows; r++) {
        rng any = {seed * 1000003 + r};
        /* Rows without a token are rare. */
        const int of =
            kind >= 0 ? kind : (int)rng_below(&any, rng_below(&any, 8) ? ROW_GOOD : ROW_KINDS);
        row_fill((row_kind)of, row, vocab, rng_bits(&any));
        for (uint32_t i = 0; i < vocab; i++)
            dtype_encode(dtype, row[i], to + ((size_t)r * vocab + i) * size);
    }
    cli_free(row);
    return to;
}

/* What a row of a random mask allows. */
typedef enum pattern {
    HALF,
    PERCENT, /* one in a hundred */
    ALL_BUT_ONE,
    ONLY_ONE,
    WORDS, /* of 32 tokens, all or none; likewise: */
    MAX_TILES,
    MASS_TILES,
    MIXED, /* words that are all, none, or random */
    EVERYTHING,
    NOTHING,
    PATTERNS
} pattern;

/* Whether all tokens of a block are allowed. */
static bool block_of(uint64_t key, uint32_t i, uint32_t size)
{
    rng r = {key + 77u * (i / size)};
    return rng_below(&r, 2) != 0;
}

static bool is_allowed(pattern p, uint32_t i, uint32_t one, uint64_t key, rng *r)
{
    switch (p) {
    case HALF:
        return rng_below(r, 2) != 0;
    case PERCENT:
        return rng_below(r, 100) == 0;
    case ALL_BUT_ONE:
        return i != one;
    case ONLY_ONE:
        return i == one;
    case WORDS:
        return block_of(key, i, 32);
    case MAX_TILES:
        return block_of(key, i, 64);
    case MASS_TILES:
        return block_of(key, i, 1024);
    case MIXED:
        return block_of(key, i, 32) ? block_of(key + 1, i, 32) : rng_below(r, 2) != 0;
    default:
        return p == EVERYTHING;
    }
}

void *run_random_mask(uint64_t seed, uint32_t percent, int32_t kind, uint32_t rows, uint32_t width)
{
    const bool bytes = kind == CLS_MASK_BOOL;
    unsigned char *const to = run_room(rows, width, bytes ? 1 : sizeof(uint32_t));
    rng r = {seed ^ 0x6d61736b};
    for (uint32_t row = 0; row < rows; row++) {
        const uint32_t n = width * (bytes ? 1 : 32), one = rng_below(&r, n);
        const uint64_t key = rng_bits(&r);
        const pattern p = rng_below(&r, PATTERNS + 1) % PATTERNS; /* some rows more have half */
        uint32_t word = 0;
        for (uint32_t i = 0; i < n; i++) {
            const bool allowed =
                percent != 0 ? rng_below(&r, 100) < percent : is_allowed(p, i, one, key, &r);
            const size_t at = (size_t)row * width + (bytes ? i : i / 32);
            word = (i % 32 == 0 ? 0 : word) | (uint32_t)allowed << i % 32;
            if (bytes)
                to[at] = allowed ? (unsigned char)(1 + rng_below(&r, 255)) : 0;
            else if (i % 32 == 31)
                memcpy(to + at * sizeof word, &word, sizeof word);
        }
    }
    return to;
}

void *run_lone_mask(uint64_t first, bool bytes, uint32_t rows, uint32_t width, uint32_t vocab)
{
    unsigned char *const to = run_room(rows, width, bytes ? 1 : sizeof(uint32_t));
    const uint32_t n = width * (bytes ? 1 : 32);
    for (uint32_t r = 0; r < rows; r++) {
        const size_t one = (size_t)((first + r) % (n < vocab ? n : vocab));
        if (bytes)
            to[(size_t)r * width + one] = 1;
        else
            ((uint32_t *)(void *)to)[(size_t)r * width + one / 32] = UINT32_C(1) << one % 32;
    }
    return to;
}

void *run_random_bias(uint64_t seed, uint32_t rows, uint32_t vocab, int32_t dtype)
{
    const size_t size = dtype_size(dtype), n = (size_t)rows * vocab;
    char *const to = run_room(rows, vocab, size);
    rng r = {seed ^ 0x62696173};
    for (size_t i = 0; i < n; i++) {
        const uint32_t what = rng_below(&r, 400);
        const float x = what < 4 ? -INFINITY : what < 200 ? 0.0f : (float)(2.0 * rng_normal(&r));
        dtype_encode(dtype, what == 4 && seed % 4 == 0 ? NAN : x, to + i * size);
    }
    return to;
}

float *run_random_probs(uint64_t seed, uint32_t rows, uint32_t vocab)
{
    float *const to = run_room(rows, vocab, sizeof *to);
    rng r = {seed ^ 0x70726f62};
    for (uint32_t row = 0; row < rows; row++) {
        float *const p = to + (size_t)row * vocab;
        float sum = 0.0f;
        for (uint32_t i = 0; i < vocab; i++)
            sum += p[i] = rng_below(&r, 8) == 0 ? 0.0f : (float)exp(2.0 * rng_normal(&r));
        for (uint32_t i = 0; i < vocab; i++)
            p[i] /= sum > 0.0f ? sum : 1.0f;
        if (rng_below(&r, 16) == 0)
            p[rng_below(&r, vocab)] = rng_below(&r, 2) ? NAN : -1.0f;
    }
    return to;
}

int32_t run_likely(rng *r, const void *logits, int32_t dtype, uint32_t vocab)
{
    const uint32_t what = rng_below(r, 20), skip = rng_below(r, 8) < 5 ? 0 : rng_below(r, 4);
    int32_t found = -1;
    float limit = INFINITY;
    if (what == 0)
        return rng_below(r, 2) ? -1 : (int32_t)vocab;
    if (what == 1)
        return (int32_t)rng_below(r, vocab);
    for (uint32_t n = 0; n <= skip; n++) {
        float best = -INFINITY;
        for (uint32_t i = 0; i < vocab; i++) {
            const float x = dtype_decode(dtype, (const char *)logits + i * dtype_size(dtype));
            if (x < limit && x > best) {
                best = x;
                found = (int32_t)i;
            }
        }
        limit = best;
    }
    return found;
}
