/* SPDX-License-Identifier: MIT */
/* The variables of base/hooks.h, for the library that tests link. */
#include "base/hooks.h"

const char *cls_test_text, *cls_test_build_options;
int cls_test_small_lists, cls_test_fewest_programs, cls_test_proofs_compare_nothing,
    cls_test_head_product, cls_test_whole_sort;
uint32_t cls_test_subgroups, cls_test_features, cls_test_proof_vocab;
