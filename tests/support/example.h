/* SPDX-License-Identifier: MIT */
/* A row of ten tokens and its request, by hand, for tests on the host; each test
 * sets what it needs. */
#ifndef TESTS_EXAMPLE_H
#define TESTS_EXAMPLE_H

#include <math.h>
#include <string.h>

#include "fixture.h"

typedef struct example {
    float x[10];
    cls_params p;
    cls_host_row row;
    cls_host_result result;
    float probs[10];
} example;

#define LENGTH(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define PROMPT(e, array) ((e)->row.prompt = (array), (e)->row.prompt_count = LENGTH(array))
#define OUTPUT(e, array) ((e)->row.output = (array), (e)->row.output_count = LENGTH(array))

static inline void start(example *e)
{
    memset(e, 0, sizeof *e);
    cls_params_default(&e->p, sizeof e->p);
    cls_host_row_default(&e->row, sizeof e->row);
    e->row.logits = e->x;
    e->row.vocab = 10;
    e->row.params = &e->p;
    e->result.struct_size = sizeof e->result;
    e->result.probs = e->probs;
}

/* The first n tokens have probabilities, and the others are not there. */
static inline void start_probs(example *e, const double *probs, uint32_t n)
{
    start(e);
    for (uint32_t i = 0; i < 10; i++)
        e->x[i] = i < n ? (float)log(probs[i]) : -INFINITY;
}
#define START_PROBS(e, ...) \
    start_probs((e), (const double[]){__VA_ARGS__}, LENGTH(((const double[]){__VA_ARGS__})))

/* Samples, and expects these tokens to be left, a digit each. */
static inline void expect_kept(example *e, const char *ids, int line)
{
    char kept[11] = "";
    must(cls_host_sample(&e->row, &e->result));
    for (uint32_t i = 0, n = 0; i < 10; i++)
        if (e->probs[i] > 0.0f) {
            kept[n++] = (char)('0' + i);
            kept[n] = 0;
        }
    ck_assert_msg(strcmp(kept, ids) == 0, "line %d: kept %s, not %s", line, kept, ids);
    ck_assert_msg(e->result.kept == strlen(ids), "line %d: %u kept", line, e->result.kept);
}
#define EXPECT_KEPT(e, ids) expect_kept((e), (ids), __LINE__)

#endif
