/* SPDX-License-Identifier: MIT */
/* For targets that run on a device: the tests' helpers, of whose assertions the
 * first that fails ends the process. */
#ifndef CLS_FUZZ_DEVICE_H
#define CLS_FUZZ_DEVICE_H

#include "tests/support/client.h"

/* The first usable device; opened once. Without one the process ends, 77. */
device *the_device(void);

/* Its context, compiled for float32. */
cls_context *the_context(void);

#endif
