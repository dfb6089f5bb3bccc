/* SPDX-License-Identifier: MIT */
/* What tests change in the library. Only the library that tests link has these variables, which
 * lib/base/hooks.c defines: in the one that is installed each is the constant 0. */
#ifndef CLS_HOOKS_H
#define CLS_HOOKS_H

#include <stdint.h>

#ifdef CLS_TEST_HOOKS
#define CLS_TEST_HOOK(type, name) extern type cls_test_##name
#else
#define CLS_TEST_HOOK(type, name) static type const cls_test_##name = 0
#endif

/* If it is not NULL, each program begins with this text. */
CLS_TEST_HOOK(const char *, text);

/* If it is not NULL, this text, which begins with a space, is appended to the options of the
 * compiler for kernels. */
CLS_TEST_HOOK(const char *, build_options);

/* If it is 1, cls_shape_wants_small_lists() returns 1 for every device. */
CLS_TEST_HOOK(int, small_lists);

/* If it is not CLS_SUBGROUPS_NONE, cls_subgroups_candidate() returns it for every device. It may
 * also be CLS_SUBGROUPS_TEST, whose macros (see cl/core/groups.cl) cls_test_text then defines. */
CLS_TEST_HOOK(uint32_t, subgroups);

/* If it is 1, a sampler has one variant of each kernel, which supports all of its features, and so
 * compiles the fewest programs. */
CLS_TEST_HOOK(int, fewest_programs);

/* Every sampler is created with these features in addition to its options'. */
CLS_TEST_HOOK(uint32_t, features);

/* If it is 1, proofs launch programs but do not compare their results: for an OpenCL that computes
 * nothing. */
CLS_TEST_HOOK(int, proofs_compare_nothing);

/* If it is 1, the host sorts each row whole, and lists no part of one. */
CLS_TEST_HOOK(int, whole_sort);

/* If it is not 0, rows of proofs have this many tokens, 1,000 or more, and no program is also
 * proved in long rows. */
CLS_TEST_HOOK(uint32_t, proof_vocab);

#endif
