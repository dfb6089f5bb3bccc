/* SPDX-License-Identifier: MIT */
/* Sub-groups of four that kernels emulate in local memory, on devices that have none. */
#ifndef TESTS_SUBGROUPS_H
#define TESTS_SUBGROUPS_H

#include "device/device.h"

/* From here on every device has this kind: CLS_SUBGROUPS_NONE, one of cls_subgroups, or one of the
 * three below, of which the others than the first compute wrong results on purpose. */
void test_subgroups(uint32_t kind);
#define EMULATED_SUBGROUPS CLS_SUBGROUPS_TEST
#define FAULTY_SUBGROUPS (CLS_SUBGROUPS_TEST + 1)
#define LATER_FAULTY_SUBGROUPS (CLS_SUBGROUPS_TEST + 2) /* in all groups but the first */

#endif
