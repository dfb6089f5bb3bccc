/* SPDX-License-Identifier: MIT */
/* Proves what of penalties, biases and stop ids no text can say is refused: lists without an array,
 * numbers that have names in texts, and the rows of cls_host_sample(). */
#include "example.h"

/* A mask of width 0 is as wide as the vocabulary. */
START_TEST(masks_without_width)
{
    static const unsigned char bytes[10] = {0, 0, 1, 0, 255, 0, 0, 0, 0, 2};
    static const int32_t words[1] = {1 << 4};
    example e;
    start(&e);
    e.p.temperature = 0.0f;
    e.row.mask = bytes;
    e.row.mask_kind = CLS_MASK_BOOL;
    e.x[9] = 50.0f;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.token, 9);
    e.row.mask = words;
    e.row.mask_kind = CLS_MASK_PACKED;
    must(cls_host_sample(&e.row, &e.result));
    ck_assert_int_eq(e.result.token, 4);
}
END_TEST

START_TEST(parameters_refused)
{
    example e;
    start(&e);
    cls_params *const p = &e.p;
    must_refuse_with(*p, penalty_scope, -1, cls_params_check(p, 10), "penalty_scope");
    must_refuse_with(*p, penalty_scope, 2, cls_params_check(p, 10), "penalty_scope");
    must_refuse_with(*p, logit_bias.count, 1, cls_params_check(p, 10), "logit_bias");
    must_refuse_with(*p, stop_ids.count, 1, cls_params_check(p, 10), "stop_ids");

#define REFUSE(field, value) \
    must_refuse_with(e.row, field, value, cls_host_sample(&e.row, &e.result), #field)
    REFUSE(mask_kind, 2);
    REFUSE(prompt_count, 1);
    REFUSE(output_count, 1);
    e.row.bias = e.x;
    REFUSE(bias_dtype, 3);
    REFUSE(bias_factor, NAN);
    REFUSE(bias_factor, INFINITY);
    REFUSE(bias_factor, -0x1p-127f);
#undef REFUSE
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(masks_without_width);
    add_test(parameters_refused);
    return fixture_end();
}
