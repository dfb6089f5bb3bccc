/* SPDX-License-Identifier: MIT */
/* Drafts on a device: their buffers, a sampler with their requests, calls of
 * cls_verify(), and what these give against the reference. */
#ifndef TESTS_VERIFIER_H
#define TESTS_VERIFIER_H

#include "drafts.h"

typedef struct verifier {
    device *d;
    drafts *of;
    cls_sampler *sampler;
    cls_verify_call call;
    cls_step step;  /* of one row a request, as many as there are */
    uint32_t width; /* drafts in a row of the outputs */
    uint32_t slots;
    uint32_t launches; /* of the last call, without what slot calls add */
    uint32_t begun;
    /* read back: */
    int32_t *tokens, *accepted, *emitted, *nodes, *status, *counters;
    int32_t *latest;
    int32_t *counted; /* [slots, 3] what the counters must be */
    int32_t *last;    /* [slots] what `latest` must be */
    cl_mem output;    /* all of these, with margins */
} verifier;

/* Begins the requests in their slots, which all have one. on_device: the drafts'
 * ids and the masks lie in buffers, else on the host. wide: how much wider the
 * outputs are than needed. */
void verifier_open(verifier *v, device *d, cls_context *context, drafts *of, int on_device,
                   uint32_t wide);
void verifier_close(verifier *v);

/* Uploads drafts, verifies, reads back. */
void verifier_run(verifier *v);
/* Fails, naming what differs first, unless the device gave `host` for request i ... */
void verifier_equal_one(verifier *v, uint32_t i, const cls_host_verified *host, const char *where);
/* ... or the reference's results for all of them; that nothing else was written; counts. */
void verifier_equal(verifier *v, const char *where);

/* A step of all requests, against the reference, by batch_equal(). */
void verifier_step(verifier *v, const char *where);

#endif
