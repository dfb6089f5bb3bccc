/* SPDX-License-Identifier: MIT */
/* For targets that run on a device: the tests' helpers. The first assertion that fails ends the
 * process. */
#ifndef CLS_FUZZ_DEVICE_H
#define CLS_FUZZ_DEVICE_H

#include "tests/support/client.h"

/* The first usable device, which is opened once. If there is none, the process exits with 77. */
device *the_device(void);

/* The context of this device, for float32 logits. */
cls_context *the_context(void);

#endif
