/* SPDX-License-Identifier: MIT */
/* Proves compiled programs: runs each one in a small step on the device and compares the results
 * with those of the reference on the host. No sampler uses a program before it is proved. */
#ifndef CLS_PROOF_H
#define CLS_PROOF_H

#include "reference/reference.h"
#include "step/step.h"

/* Proves one program. It is a cls_prove_function, which programs.h describes. */
cls_status cls_prove(cls_context *context, int variant, int32_t dtype, uint32_t available,
                     uint32_t *launched);

#endif
