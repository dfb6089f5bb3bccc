/* SPDX-License-Identifier: MIT */
/* Proves that the host gives the known distributions of tests/vectors/goldens.txt. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "one_row.h"
#include "request/request.h"

enum { MOST = 100, GOLDEN_WORDS = 16 };
enum { GOLDEN_MOST = 10000 };

typedef struct golden {
    char name[192]; /* its record */
    cls_params params;
    int32_t breaker; /* a DRY breaker of one token */
    cls_ids breakers;
    uint32_t vocab;
    float logits[GOLDEN_MOST];
    int32_t history[8]; /* output so far */
    uint32_t history_count;
    int is_set;                   /* 1: only the kept tokens are known, `first` to `last` */
    double expected[GOLDEN_MOST]; /* the final distribution, by id; in a set 1 or 0 */
    uint32_t kept;
} golden;

static void must_be(int right, const char *line)
{
    if (right)
        return;
    fprintf(stderr, "tests/vectors/goldens.txt has no such record: %s\n", line);
    exit(99);
}

/* Returns a number or a fraction. */
static double number(const char *word)
{
    char *end;
    const double x = strtod(word, &end);
    return *end == '/' ? x / strtod(end + 1, NULL) : x;
}

static void set_parameter(golden *g, const char *field, double value)
{
    const cls_param *param;
    const float real = (float)value;
    const int32_t whole = (int32_t)value;
    if (strcmp(field, "dry_breaker") == 0) {
        g->breaker = whole;
        g->breakers = (cls_ids){&g->breaker, 1};
        g->params.dry_breakers.sequences = &g->breakers;
        g->params.dry_breakers.count = 1;
        return;
    }
    for (uint32_t id = 1; (param = cls_param_by_id(id)) != NULL; id++)
        if (strcmp(param->field, field) == 0)
            break;
    must_be(param != NULL, g->name);
    memcpy(cls_param_in(param, &g->params),
           param->type == CLS_PARAM_FLOAT ? (const void *)&real : &whole, 4);
}

static uint8_t stage(const char *word)
{
    static const char *const names[] = {"end", "temperature", "top-k", "top-p", "min-p"};
    uint8_t i = 0;
    while (i < 5 && strcmp(names[i], word) != 0)
        i++;
    must_be(i < 5, word);
    return i;
}

/* ------------------------------------------------------------------------ records */

static char *at; /* the next word of the record; NULL at its end */

static int skip(const char *word)
{
    const int is_there = at != NULL && strcmp(at, word) == 0;
    if (is_there)
        at = strtok(NULL, " \n");
    return is_there;
}

/* Takes the numbers that come next, and returns how many there are. */
static uint32_t numbers(double x[GOLDEN_WORDS])
{
    uint32_t n = 0;
    for (; at != NULL && n < GOLDEN_WORDS && strchr(".0123456789", *at) != NULL; n++) {
        x[n] = number(at);
        skip(at);
    }
    return n;
}

static void read_parameters(golden *g)
{
    double x[GOLDEN_WORDS];
    cls_params_init(&g->params);
    while (at != NULL && strcmp(at, "of") != 0) {
        const char *const field = at;
        skip(at);
        if (strcmp(field, "stages") == 0) {
            g->params.chain = CLS_CHAIN_CUSTOM;
            for (uint32_t n = 0; strchr("oa", *at) == NULL; n++, skip(at))
                g->params.stages[n] = stage(at);
        } else if (strcmp(field, "after") == 0) {
            g->history_count = numbers(x);
            for (uint32_t i = 0; i < g->history_count; i++)
                g->history[i] = (int32_t)x[i];
        } else {
            must_be(numbers(x) == 1, g->name);
            set_parameter(g, field, x[0]);
        }
    }
}

static void read_logits(golden *g)
{
    double x[GOLDEN_WORDS];
    const int is_zipf = at != NULL && *at == 'z';
    g->is_set = skip("log") || skip("zipf");
    g->vocab = numbers(x);
    if (g->is_set && g->vocab == 1)
        g->vocab = (uint32_t)x[0];
    must_be(g->vocab > 0 && g->vocab <= GOLDEN_MOST, g->name);
    for (uint32_t i = 0; i < g->vocab; i++)
        g->logits[i] = (float)(!g->is_set ? log(x[i])
                               : is_zipf  ? -1.5 * log(i + 1.0)
                               : i == 0   ? -INFINITY
                                          : log((double)i));
}

static void read_golden(golden *g, const char *line)
{
    static char words[sizeof g->name];
    double x[GOLDEN_WORDS];
    snprintf(g->name, sizeof g->name, "%.*s", (int)strcspn(line, "\n"), line);
    memcpy(words, g->name, sizeof words);
    at = strtok(words, " ");
    must_be(skip("golden"), line);
    read_parameters(g);
    must_be(skip("of"), line);
    read_logits(g);
    must_be(skip(g->is_set ? "keeps" : "gives"), line);
    const uint32_t n = numbers(x);
    must_be(n == (g->is_set ? 2 : g->vocab) && at == NULL, line);
    for (uint32_t i = 0; i < g->vocab; i++) {
        g->expected[i] = g->is_set ? i >= (uint32_t)x[0] && i <= (uint32_t)x[1] : x[i];
        g->kept += g->expected[i] > 0.0 || g->history_count != 0; /* penalties remove no token */
    }
}

/* Returns the goldens and their number. Ends the program if the file cannot be read. */
static const golden *goldens(uint32_t *n)
{
    static golden all[MOST];
    static uint32_t count;
    const char *const source = getenv("srcdir") != NULL ? getenv("srcdir") : ".";
    char path[4096], line[256];
    snprintf(path, sizeof path, "%s/tests/vectors/goldens.txt", source);
    FILE *const f = count == 0 ? fopen(path, "r") : NULL;
    must_be(f != NULL || count != 0, "the file cannot be opened");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (line[0] != '#') {
            must_be(count < MOST, line);
            read_golden(&all[count++], line);
        }
    if (f != NULL)
        fclose(f);
    *n = count;
    return all;
}

START_TEST(distributions)
{
    static float probs[GOLDEN_MOST];
    uint32_t n;
    const golden *const all = goldens(&n);
    for (const golden *g = all; g < all + n; g++) {
        one_result result = {.probs = probs};
        one_row row = host_row(g->logits, g->vocab, &g->params);
        row.output = g->history;
        row.output_count = g->history_count;
        for (row.position = 0; row.position < (g->is_set ? 1 : 20); row.position++) {
            must(one_sample(&row, &result));
            ck_assert_msg(g->expected[result.token] > 0.0, "%s: drew %d", g->name, result.token);
        }
        for (uint32_t i = 0; i < g->vocab; i++)
            ck_assert_msg(g->is_set ? (probs[i] > 0.0f) == (g->expected[i] > 0.0)
                                    : fabs((double)probs[i] - g->expected[i]) <= 1e-5,
                          "%s: token %u: %.9g, not %.9g", g->name, i, (double)probs[i],
                          g->expected[i]);
        ck_assert_msg(result.kept_count == g->kept, "%s: %u kept, not %u", g->name,
                      result.kept_count, g->kept);
        ck_assert(fabs((double)result.logprob_final - log((double)probs[result.token])) < 1e-6);
    }
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(distributions);
    return fixture_end();
}
