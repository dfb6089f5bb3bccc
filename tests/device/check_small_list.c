/* SPDX-License-Identifier: MIT */
/* Proves token-small, the token kernel with a short list for devices with little local memory: it
 * gives the reference's tokens, as the usual one does on the same rows, and only steps whose rows
 * all keep few tokens are launched with it. */
#include <stdio.h>
#include <string.h>

#include "client.h"

enum { ROWS = 12 };

static const cls_variant_set small = CLS_VARIANT_BIT(CLS_TOKEN_SMALL),
                             usual = CLS_VARIANT_BIT(CLS_TOKEN_1);

/* The usual shape as on a device with little local memory. On a device of groups of one item the
 * variant is forced, since PoCL takes many minutes to compile such programs for larger groups. */
static cls_context *little(device *d)
{
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    o.max_local_mem_size = 32768;
    cls_context *const context = fixture_shaped(d, &o, CLS_SUBGROUPS_NONE);
    cls_test_small_lists = context->shape.row_group == 1;
    ck_assert(cls_shape_wants_small_lists(&context->shape));
    return context;
}

/* Rows of few and of many ties at rank k, a greedy one and one that is not truncated. Truncations
 * follow top-k or, in one row, come before it. */
static batch *rows_of(uint32_t vocab, int32_t k, uint64_t seed)
{
    static const row_kind kinds[] = {ROW_NORMAL3, ROW_TIES,      ROW_EQUAL,      ROW_LANGUAGE,
                                     ROW_HALF,    ROW_ASCENDING, ROW_DESCENDING, ROW_NORMAL1};
    batch *const b = batch_new(ROWS, vocab, CLS_F32, 0, 0);
    for (uint32_t row = 0; row < ROWS; row++) {
        cls_params *const p = &b->params[row];
        batch_row(b, row, kinds[row % 8], seed + row);
        p->temperature = row == 3 ? 0.0f : 0.5f + 0.25f * (float)(row % 5);
        p->top_k = row == 4 ? 0 : k;
        p->top_p = row == 5 || row == 6 || row == 10 ? 0.9f : 1.0f;
        p->min_p = row == 6 || row == 7 ? 0.01f : 0.0f;
        if (row == 6 || row == 7 || row == 10) {
            static const uint8_t stages[] = {CLS_STAGE_MIN_P, CLS_STAGE_TOP_K,
                                             CLS_STAGE_TEMPERATURE, CLS_STAGE_TOP_P, CLS_STAGE_END};
            p->chain = CLS_CHAIN_CUSTOM;
            memcpy(p->stages, stages, sizeof stages);
        }
    }
    return b;
}

/* Runs a step, by some variants if they are given, and compares it with the reference. Returns
 * which of the two token kernels was launched. */
static cls_variant_set run(batch *b, device *d, cls_context *context, cls_variant_set forced,
                           const char *where)
{
    client s;
    client_open(&s, b, d, context, 1);
    client_only(&s, forced);
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_tokens(&s, 0);
    must(cls_sampler_trace(s.sampler, d->queue, b->device_trace, b->rows));
    const cls_variant_set ran = s.sampler->launched_variants;
    client_close(&s);
    batch_equal(b, where);
    return ran & (small | usual);
}

START_TEST(same_tokens)
{
    static const uint32_t vocabs[] = {200, 1025, 257, 6000};
    static const int32_t ks[] = {1,   CLS_SMALL_TOP_K,     50,  2,   CLS_SMALL_TOP_K - 1,
                                 256, CLS_SMALL_TOP_K + 1, 257, 201, 1000};
    device *const d = fixture_device(_i);
    cls_context *const context = little(d);
    for (uint32_t i = 0; i < fixture_by_size(2, 4, 4) * 10; i++) {
        const uint32_t vocab = vocabs[i / 10];
        const int32_t k = ks[i % 10];
        /* Of fewer tokens than k a top-k would keep all, so that it is off. */
        if ((uint32_t)k >= vocab)
            continue;
        batch *const b = rows_of(vocab, k, fixture_seed() + 100 * i);
        char where[200];
        snprintf(where, sizeof where, "%s, %u tokens, top-k %d", d->name, vocab, k);
        batch_reference(b);
        const cls_variant_set ran = run(b, d, context, 0, where);
        ck_assert_msg(ran == (k <= CLS_SMALL_TOP_K ? small : usual), "%s: launched 0x%llx", where,
                      (unsigned long long)ran);
        ck_assert_uint_eq(run(b, d, context, usual, where), usual);
        batch_free(b);
    }
}
END_TEST

/* One row that needs more is enough for the usual kernel. */
START_TEST(mixed_rows)
{
    device *const d = fixture_device(_i);
    batch *const b = rows_of(2000, 100, fixture_seed());
    for (int more = 0; more < 3; more++) {
        b->params[9].top_k = more == 1 ? CLS_SMALL_TOP_K + 1 : more == 2 ? 0 : 100;
        b->params[9].top_p = more == 2 ? 0.5f : 1.0f;
        batch_reference(b);
        ck_assert_uint_eq(run(b, d, little(d), 0, "mixed rows"), more ? usual : small);
    }
    batch_free(b);
}
END_TEST

/* The programs that such a context has, and their local memory. The list's entries take 24 bytes
 * each. */
START_TEST(programs)
{
    device *const d = fixture_device(_i);
    cls_context *const context = little(d);
    cls_program_info info = {.struct_size = sizeof info};
    uint64_t local[2] = {0, 0};
    must(cls_context_compile(context, 0, 0));
    for (uint32_t i = 0; cls_context_program(context, i, &info) == CLS_OK; i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(info.name, k ? "token-list" : "token-small") == 0)
                local[k] = info.local_mem_size;
    printf("%s: local memory of token-small: %llu, of token-list: %llu bytes\n", d->name,
           (unsigned long long)local[0], (unsigned long long)local[1]);
    ck_assert_uint_gt(local[0], 0);
    ck_assert_uint_ge(local[1] - local[0], 24 * (context->shape.shortlist - CLS_SMALL_LIST));
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(programs);
    add_device_test(same_tokens);
    add_device_test(mixed_rows);
    return fixture_end();
}
