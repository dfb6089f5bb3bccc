/* SPDX-License-Identifier: MIT */
/* For cls_groups_test: the words that a work-item writes, and the number it begins with. */
#ifndef CLS_GROUPS_TEST_H
#define CLS_GROUPS_TEST_H

#include "core/types.h"

#define CLS_GROUP_WORDS 16
CLS_INLINE u32 group_test_input(u32 lid) { return (lid + 1) * 0x9e3779b1u; }

#endif
