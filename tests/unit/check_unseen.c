/* SPDX-License-Identifier: MIT */
/* Proves what the library does on devices that no test has: how large a proof is where a group
 * reads several tiles at once, and which sub-groups are tried for which extensions and drivers. The
 * OpenCL is a stub, which computes nothing (stub_cl.h). */
#include <string.h>

#include "fixture.h"
#include "proof/proof.h"
#include "step/step.h"
#include "stub_cl.h"

/* ---------------------------------------------------------------------- proofs */

static struct {
    cl_mem args[64]; /* of the launches over tiles, retained */
    uint32_t n;
} launches;

static void spy(cl_kernel kernel)
{
    static const char *const names[] = {"cls_survey", "cls_pass", "cls_distribution"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(kernel->name, names[i]) == 0 && launches.n < 64) {
            must_cl(clRetainMemObject(kernel->argument[0].mem));
            launches.args[launches.n++] = kernel->argument[0].mem;
        }
}

/* A group of a proof reads more tiles than at once, so that it does a second round, in which some
 * of its items idle; and another group reads a part of a tile. */
START_TEST(rounds)
{
    static const struct {
        uint32_t work_group, vector, tiles, vocab;
    } shapes[] = {
        {256, 4, 5, 5 * 1024 + 28}, {128, 4, 3, 3 * 1024 + 28}, {1024, 4, 20, 20 * 1024 + 28},
        {64, 4, 1, 3100},           {1, 16, 1, 3100},           {1024, 16, 32, 32 * 1024 + 28}};
    device *const d = fixture_device(_i);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        cls_context_options o;
        cls_context *context;
        cls_compile_options c;
        cls_context_options_default(&o, sizeof o);
        must(cls_context_create(d->context, d->id, &o, &context));
        context->shape.work_group = shapes[i].work_group;
        context->shape.vector = shapes[i].vector;
        cls_compile_options_default(&c, sizeof c);
        c.features = CLS_FEATURES_ALL;
        launches.n = 0;
        stub_spy = spy;
        must(cls_context_compile(context, &c));
        stub_spy = NULL;
        ck_assert_uint_gt(launches.n, 10);
        for (uint32_t k = 0; k < launches.n; k++) {
            cls_args a;
            memcpy(&a, stub_memory(launches.args[k]), sizeof a);
            ck_assert_uint_eq(a.vocab, shapes[i].vocab);
            ck_assert_uint_eq(a.tiles_per_group, shapes[i].tiles);
            clReleaseMemObject(launches.args[k]);
        }
        cls_context_destroy(context);
    }
}
END_TEST

static Suite *make(void)
{
    Suite *const s = suite_create("unseen");
    TCase *const t = tcase_create("unseen");
    tcase_set_timeout(t, 0);
    add_device_test(t, rounds);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    cls_test_proofs_compare_nothing = 1; /* this OpenCL computes nothing */
    return fixture_run(make, 1);
}
