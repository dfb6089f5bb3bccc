/* SPDX-License-Identifier: MIT */
/* A row of ten tokens and its request for tests of the reference. Each test sets the fields that it
 * needs. */
#ifndef TESTS_EXAMPLE_H
#define TESTS_EXAMPLE_H

#include <math.h>
#include <string.h>

#include "fixture.h"

typedef struct example {
    float x[10];
    cls_params p;
    one_row row;
    one_result result;
    float probs[10];
} example;

#define LENGTH(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define PROMPT(e, array) ((e)->row.prompt = (array), (e)->row.prompt_count = LENGTH(array))
#define OUTPUT(e, array) ((e)->row.output = (array), (e)->row.output_count = LENGTH(array))

/* Sets all logits to 0 and all parameters to their defaults. */
static inline void start(example *e)
{
    memset(e, 0, sizeof *e);
    cls_params_init(&e->p);
    one_row_init(&e->row);
    e->row.logits = e->x;
    e->row.vocab = 10;
    e->row.params = &e->p;
    e->result.probs = e->probs;
}

/* Gives the first n tokens probabilities and bans all others. */
static inline void start_probs(example *e, const double *probs, uint32_t n)
{
    start(e);
    for (uint32_t i = 0; i < 10; i++)
        e->x[i] = i < n ? (float)log(probs[i]) : -INFINITY;
}
#define START_PROBS(e, ...) \
    start_probs((e), (const double[]){__VA_ARGS__}, LENGTH(((const double[]){__VA_ARGS__})))

/* Samples the row and fails unless exactly these tokens are kept; each digit of ids is a token. */
static inline void expect_kept(example *e, const char *ids, const char *where)
{
    char kept[11] = "";
    must(one_sample(&e->row, &e->result));
    for (uint32_t i = 0, n = 0; i < 10; i++)
        if (e->probs[i] > 0.0f) {
            kept[n++] = (char)('0' + i);
            kept[n] = 0;
        }
    ck_assert_msg(strcmp(kept, ids) == 0, "%s: kept %s, not %s", where, kept, ids);
    ck_assert_msg(e->result.kept_count == strlen(ids), "%s: %u kept", where, e->result.kept_count);
}
#define EXPECT_KEPT(e, ids) expect_kept((e), (ids), "line " TEXT_OF(__LINE__))
#define TEXT_OF(line) TEXT_OF_IT(line)
#define TEXT_OF_IT(line) #line

#endif
