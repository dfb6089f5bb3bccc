/* SPDX-License-Identifier: MIT */
/* The proof of a program: a small step of it on the device gives what the host computes. */
#ifndef CLS_PROOF_H
#define CLS_PROOF_H

#include "reference/reference.h"
#include "step/step.h"

/* A cls_prover. */
cls_status cls_prove(cls_context *context, int variant, int32_t dtype, uint32_t with,
                     uint32_t *ran);

/* For tests, whose OpenCL computes nothing: programs are run, and what they give is
 * not looked at. */
extern int cls_proofs_only_run;

#endif
