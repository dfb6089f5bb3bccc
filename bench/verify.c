/* SPDX-License-Identifier: MIT */
/* Compares a step with the same calls on the host. */
#include <string.h>

#include "bench/measure.h"

/* The reference's results of a case. */
typedef struct reference {
    const bench_setup *setup;
    const bench_case *c;
    int32_t *tokens; /* [batch] */
    int32_t *sets;   /* [batch, bench_kept_capacity()], or NULL: the case has no kept sets */
} reference;

static int sample_row(void *of, uint32_t row)
{
    const reference *const r = of;
    const size_t set = bench_kept_capacity(r->setup, r->c) * sizeof(int32_t);
    bench_setup twin = bench_twin(r->setup, row);
    twin.tokens = bench_memory(&r->tokens[row], sizeof *r->tokens);
    if (r->sets != NULL)
        twin.kept = bench_memory((char *)r->sets + row * set, set);
    const int failed =
        cli_interrupted() || bench_new_sampler(&twin, r->setup->window, &twin.sampler) ||
        bench_begin_slots(&twin, r->c) || bench_enqueue_step(&twin, r->c, NULL, NULL);
    cls_sampler_destroy(twin.sampler);
    return failed;
}

/* ids: the kept sets of the device; NULL where there are none. */
static int verify_rows(reference *r, const int32_t *tokens, const int32_t *ids)
{
    const uint32_t batch = r->setup->batch, capacity = bench_kept_capacity(r->setup, r->c);
    if (bench_each(batch, sample_row, r))
        return 1;
    for (uint32_t row = 0; row < batch; row++) {
        const size_t first = (size_t)row * capacity;
        if (r->tokens[row] != tokens[row])
            return cli_fail(
                "bench: %s, row %u: the device drew token %d, but the reference drew %d",
                r->c->name, (unsigned)row, (int)tokens[row], (int)r->tokens[row]);
        if (ids != NULL && memcmp(ids + first, r->sets + first, capacity * sizeof *ids) != 0)
            return cli_fail("bench: %s, row %u: the kept set is not the reference's", r->c->name,
                            (unsigned)row);
    }
    return 0;
}

/* Reads the kept sets, if the case has any, and compares all results. */
static int verify_results(reference *r, const int32_t *tokens)
{
    const size_t size =
        (size_t)r->setup->batch * bench_kept_capacity(r->setup, r->c) * sizeof(int32_t);
    if (r->c->kept_set == 0)
        return verify_rows(r, tokens, NULL);
    int32_t *const ids = cli_alloc(size, 1);
    r->sets = cli_alloc(size, 1);
    const int failed =
        bench_read(r->setup, &r->setup->kept, size, ids) || verify_rows(r, tokens, ids);
    cli_free(ids);
    cli_free(r->sets);
    return failed;
}

int bench_verify(const bench_setup *setup, const bench_case *c)
{
    int32_t *const tokens = cli_alloc(2 * setup->batch, sizeof *tokens);
    reference r = {setup, c, tokens + setup->batch, NULL};
    const int failed = bench_begin_slots(setup, c) || bench_run_step(setup, c, tokens) ||
                       verify_results(&r, tokens);
    cli_free(tokens);
    return failed;
}
