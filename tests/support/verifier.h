/* SPDX-License-Identifier: MIT */
/* Verifies drafts on a device and compares the results with the reference. A verifier owns the
 * drafts' buffers and a sampler with their requests. */
#ifndef TESTS_VERIFIER_H
#define TESTS_VERIFIER_H

#include "drafts.h"

typedef struct verifier {
    device *d;
    drafts *of;
    cls_sampler *sampler;
    cls_verify_call call;
    cls_step step;  /* a step with one row per request */
    uint32_t width; /* drafts in a row of the outputs */
    uint32_t slots;
    uint32_t launches; /* of the last call, without those that slot calls add */
    uint32_t begun;
    /* Results that are read back. */
    int32_t *tokens, *accepted, *emitted, *nodes, *status, *counters;
    int32_t *latest;
    int32_t *counted; /* [slots, 3] the expected counters */
    int32_t *last;    /* [slots] the expected `latest` */
    cl_mem output;    /* all results, with margins around them */
} verifier;

/* Begins the requests in their slots; every request must have one. on_device: 1 stores the drafts'
 * ids and the masks in buffers, 0 on the host. wide: additional columns of the outputs. */
void verifier_open(verifier *v, device *d, cls_context *context, drafts *of, int on_device,
                   uint32_t wide);
void verifier_close(verifier *v);

/* Uploads the drafts, verifies them and reads the results back. */
void verifier_run(verifier *v);
/* Fails and names the first difference unless the device's results equal the reference's for all
 * requests and nothing else was written, and updates the expected counters. */
void verifier_equal(verifier *v, const char *where);

/* Samples one step of all requests and compares it with the reference by batch_equal(). */
void verifier_step(verifier *v, const char *where);

#endif
