/* SPDX-License-Identifier: MIT */
/* Proves what of penalties, biases and stop ids no text can say is refused: lists without an array,
 * and numbers that have names in texts. */
#include "example.h"

START_TEST(parameters_refused)
{
    example e;
    start(&e);
    cls_params *const p = &e.p;
    must_refuse_with(*p, penalty_scope, -1, cls_params_check(p, 10), "penalty_scope");
    must_refuse_with(*p, penalty_scope, 2, cls_params_check(p, 10), "penalty_scope");
    must_refuse_with(*p, logit_bias.count, 1, cls_params_check(p, 10), "logit_bias");
    must_refuse_with(*p, stop_ids.count, 1, cls_params_check(p, 10), "stop_ids");
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(parameters_refused);
    return fixture_end();
}
