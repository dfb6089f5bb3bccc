/* SPDX-License-Identifier: MIT */
/* Where llama.cpp's logits lie in ggml-opencl's memory, so that cls_sample() reads them there, on
 * ggml's context and device: no logits are copied to the host.
 *
 *     struct llama_context_params options = llama_context_default_params();
 *     clsample_llama_logits *in_place = clsample_llama_logits_open(sequences);
 *     clsample_llama_logits_attach(in_place, &options);
 *     context = llama_init_from_model(model, options);
 *     ...
 *     llama_decode(context, batch);
 *     clsample_llama_place place;
 *     if (clsample_llama_logits_find(in_place, context, &batch, &place))
 *         ... step.logits = place.logits; queue = place.queue != NULL ? place.queue : own;
 *
 * llama.cpp copies the logits of an output to the host unless its sequence has a sampler that runs
 * in the graph. This one does, as far as llama.cpp can see: it adds nothing to the graph, and notes
 * the graph's tensor `result_output`. Each function that fails prints a line on standard error, and
 * nothing may be sampled then: there are no logits on the host that could stand in.
 */
#ifndef CLSAMPLE_LLAMA_LOGITS_H
#define CLSAMPLE_LLAMA_LOGITS_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <clsample.h>
#include <llama.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clsample_llama_logits clsample_llama_logits;

/* The logits of the last llama_decode(). They stay until the next one begins. */
typedef struct clsample_llama_place {
    cls_logits logits; /* [rows, vocab]: a row for each output of the batch, in its order */
    uint32_t rows;
    cl_context context;
    cl_device_id device;
    /* The queue on which the logits are computed, where a function of ggml-opencl tells it
     * (doc/runtimes.md has the patch): commands that are enqueued there come after them. NULL:
     * there is no such function; the logits have been waited for, and any queue will do. */
    cl_command_queue queue;
} clsample_llama_place;

/* For the sequences 0 to sequences - 1 of one llama_context, which it must outlive. NULL: out of
 * memory. */
clsample_llama_logits *clsample_llama_logits_open(uint32_t sequences);

/* Frees it, after its llama_context. NULL is allowed. */
void clsample_llama_logits_close(clsample_llama_logits *l);

/* Sets the options by which llama.cpp leaves the logits where they are: samplers, kv_unified. False
 * if they name samplers already, whose tokens nobody would read. */
bool clsample_llama_logits_attach(clsample_llama_logits *l, struct llama_context_params *options);

/* Finds the logits of `batch`, which llama_decode() has just taken. False if they are not in an
 * OpenCL buffer; if rows could be those of other tokens (the batch was cut into several graphs, its
 * sequences are interleaved, or a token has several); or if there are none. */
bool clsample_llama_logits_find(clsample_llama_logits *l, struct llama_context *context,
                                const struct llama_batch *batch, clsample_llama_place *place);

/* The graph that computed them, or NULL: for a look at its nodes. */
struct ggml_cgraph *clsample_llama_logits_graph(clsample_llama_logits *l);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_LLAMA_LOGITS_H */
