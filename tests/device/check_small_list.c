/* SPDX-License-Identifier: MIT */
/* Proves when token-small runs, the token kernel with a short list for devices with little local
 * memory: in steps whose rows all keep few tokens. Texts have its tokens (small-lists of hooked.c).
 */
#include <stdio.h>
#include <string.h>

#include "client.h"

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

/* Only a step whose rows all keep few tokens is launched with it. */
START_TEST(few_tokens)
{
    static const struct {
        int32_t top_k; /* of the last row */
        float top_p;
        cls_variant_set runs;
    } cases[] = {{1, 1.0f, small},
                 {CLS_SMALL_TOP_K, 0.9f, small},
                 {CLS_SMALL_TOP_K + 1, 1.0f, usual},
                 {0, 1.0f, small},
                 {0, 0.5f, usual}};
    device *const d = fixture_device(_i);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        batch *const b = batch_new(4, 2000, CLS_F32, 0, 0);
        client s;
        for (uint32_t row = 0; row < 4; row++) {
            batch_row(b, row, row % 2 ? ROW_TIES : ROW_NORMAL1, row);
            b->params[row].top_k = row < 3 ? CLS_SMALL_TOP_K : cases[i].top_k;
            b->params[row].top_p = row < 3 ? 1.0f : cases[i].top_p;
        }
        batch_reference(b);
        client_open(&s, b, d, little(d), 1);
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        for (uint32_t row = 0; row < 4; row++)
            ck_assert_int_eq(b->token[row], b->host[row].token);
        ck_assert_uint_eq(s.sampler->launched_variants & (small | usual), cases[i].runs);
        client_close(&s);
        batch_free(b);
    }
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
    add_device_test(few_tokens);
    return fixture_end();
}
