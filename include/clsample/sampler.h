/* SPDX-License-Identifier: MIT */
/* clsample: the kernels and the memory that steps use. */
#ifndef CLSAMPLE_SAMPLER_H
#define CLSAMPLE_SAMPLER_H

#include "context.h"
#include "params.h"
#include "programs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a slot counts of its request's tokens, on the device. */
typedef enum cls_counts {
    CLS_COUNTS_NONE = 0,     /* nothing: requests cannot have penalties */
    CLS_COUNTS_PRESENCE = 1, /* which tokens occur: requests cannot have a frequency penalty. 3/8
                                byte for each token of the vocabulary */
    CLS_COUNTS_ALL = 2       /* how often tokens occur. 2 1/4 bytes for each token of the
                                vocabulary. A count that has reached 65,535 stays there, even after
                                a rollback */
} cls_counts;

/* What a sampler is created for. */
typedef struct cls_sampler_options {
    size_t struct_size;
    uint32_t vocab;      /* tokens of a row, 1 to 1,048,576; there is no default */
    uint32_t max_rows;   /* the most rows of a step, 1 to 65,535; default 1 */
    uint32_t slot_count; /* requests that can be alive at once, up to 2^24; 0 (default): max_rows */
    int32_t counts;      /* a cls_counts; default CLS_COUNTS_ALL */

    /* The number of a request's latest tokens that are stored in order, 4 bytes each. It limits
     * penalty_window and what cls_draft(), DRY, n-grams and bad words see. With 0, requests with
     * DRY or no_repeat_ngram are refused. Up to 16,384, or a multiple of 64 up to 1,048,576, of
     * which DRY, n-grams and bad words see the latest 16,384; default 0. */
    uint32_t max_history;

    /* The largest number of tokens that cls_slot_rollback() can remove, 24 bytes each. Up to
     * 16,384; default 0. */
    uint32_t max_rollback;

    /* What to compile for: types of logits as bits 1u << cls_dtype, 0 (default) for those of the
     * context; and cls_feature bits, 0 (default) for CLS_FEATURE_SHORTLIST. */
    uint32_t dtypes;
    uint32_t features;

    /* 0 (default): a slot call that needs features which the sampler does not have returns
     * CLS_NOT_COMPILED, and the message names them: for a grammar CLS_FEATURE_HISTORY, _STATE and
     * _FORCED. So it does in a context of the host, where nothing is compiled: a program that runs
     * there runs on a device. 1: the call compiles them, as cls_sampler_compile() does; this may
     * take seconds, of which the context's `progress` is told. What each parameter needs is in the
     * table of doc/requests.md, "Features"; CLS_FEATURES_ALL has all. */
    int32_t late_compile;
    /* With `record`. 1: the logits, masks, biases and draft distributions of steps become files
     * beside the text, as grammars and saved slots do in either case. 0 (default): a hash of each
     * row's logits, mask and bias stands in its line, and draft distributions are left out. */
    int32_t record_arrays;

    /* The size in bytes of the largest mask.host of a step or a verification, and of the largest
     * host array of cls_accept() with several tokens a row. Memory for it is allocated when the
     * sampler is created: once on the device and 16 times on the host. Packed masks without a
     * row_stride take 4 * mask.rows * ceil(vocab / 32) bytes. 0 (default): the first steps with
     * such masks allocate the memory (each of the first 16 on the host), and so do steps with
     * larger masks than before. They may then return CLS_OUT_OF_MEMORY or CLS_OPENCL_ERROR with
     * nothing enqueued. */
    uint64_t host_mask_size;

    /* Writes the calls on the sampler as a text that `clsample run` replays, on the host and on any
     * device: slot calls with their parameters and prompts, steps with the tokens that they gave.
     * A server that draws a wrong token so becomes a short text. The text has all tokens of all
     * requests. NULL (default): no text.
     *
     * The function appends `size` bytes to a file: to the text if `file` is NULL, else to the file
     * of this name in the text's folder, which a line of the text names. `offset` is where the
     * bytes go; a file begins with 0. It returns 0, or another number if it cannot write; then the
     * text ends, and it is not called again. It is called during calls on the sampler, also by
     * cls_sampler_create() and cls_sampler_destroy(), by the thread that makes them, and must not
     * use the sampler.
     *
     * Calls do not wait for the device: what a step reads and writes on the device is read into
     * memory that the sampler has from its creation, behind the step's kernels, and a later call on
     * the sampler writes the line, which takes a processor some milliseconds for 8 rows of 128,000
     * tokens. cls_sampler_destroy() waits for all steps. The step's event is that of the last of
     * these reads, so buffers stay as they are until then, and buffers must be readable by the
     * host. Where the memory is full, where a buffer cannot be read, or where a step has failed, a
     * comment ends the text, and no call fails. A text that is whole ends with the line "end".
     *
     * Calls that were refused and those that change no request are not in it: cls_slot_save(),
     * cls_logprobs(), and the outputs of steps (cls_outputs). A sampler of a shard cannot be
     * recorded. */
    int (*record)(void *user, const char *file, uint64_t offset, const void *bytes, size_t size);
    void *record_user;
    /* How the names of files begin; up to 200 bytes of it are copied, with _ for what is no part of
     * a name: spaces, slashes, quotation marks, #. NULL: "record". */
    const char *record_name;
    /* Bytes for what steps in flight read. 0 (default): 64 MiB, or three steps of max_rows rows
     * with masks and biases if that is more. */
    uint64_t record_size;
} cls_sampler_options;

CLS_INIT_FUNCTION(cls_sampler_options)

/* The memory that steps need, and the state of the requests. It is used by one thread at a time. */
typedef struct cls_sampler cls_sampler;

/* Creates a sampler: compiles the programs for options->features that the context does not have
 * yet, as cls_context_compile() does, and allocates all memory on the host and on the device.
 * Blocks. Steps then compile nothing, and allocate only for a mask.host that is larger than
 * options->host_mask_size. Retains `context`. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED: the library was built without a
 * feature. On failure *out is NULL. */
CLS_API CLS_WARN_UNUSED cls_status cls_sampler_create(cls_context *context,
                                                      const cls_sampler_options *options,
                                                      cls_sampler **out);

/* Compiles cls_feature bits that the sampler does not have yet, as creating it with them does.
 * Enqueues nothing, so that it may be called between any two steps. Blocks.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED: the library was built without a
 * feature; CLS_IN_USE. After a failure the sampler has the features that it had before. */
CLS_API CLS_WARN_UNUSED cls_status cls_sampler_compile(cls_sampler *sampler, uint32_t features);

/* Returns the cls_feature bits that the last cls_sample(), cls_verify(), cls_draft(), cls_accept(),
 * cls_logprobs() or cls_shard_sample(), or the last slot call, lacked when it was refused with
 * CLS_NOT_COMPILED. Returns 0 if features were not the reason, or if they have been compiled since.
 * After cls_sampler_compile() with them the call can be made again. */
CLS_API uint32_t cls_sampler_missing(const cls_sampler *sampler);

/* Releases a sampler; OpenCL keeps what steps in flight use. Blocks until the last steps that
 * uploaded parameters, maps or masks are complete. NULL is allowed. */
CLS_API void cls_sampler_destroy(cls_sampler *sampler);

/* Checks parameters as cls_slot_begin() does, without a slot. Any thread may call this at any time,
 * also while another call uses the sampler.
 * CLS_OK; CLS_BAD_ARGUMENT: the message names the field; CLS_OUT_OF_MEMORY. */
CLS_API CLS_WARN_UNUSED cls_status cls_sampler_check(const cls_sampler *sampler,
                                                     const cls_params *params);

/* The memory of a sampler, in bytes. */
typedef struct cls_memory {
    size_t struct_size;
    uint64_t parameters; /* on the device: the slots' parameters and positions */
    uint64_t penalties;  /* on the device: which tokens prompts and outputs have, and how often */
    uint64_t history;    /* on the device: the latest tokens in order */
    uint64_t lists;      /* on the device: logit biases, allowed and stop ids, the infill stage's
                            tables; grows with them */
    uint64_t changes;    /* on the device: what slot calls and mask.host upload; grows with the
                            longest prompt and the largest of these masks */
    uint64_t rows;       /* on the device: what the kernels of a step pass to each other */
    uint64_t device;     /* the sum of these */
    uint64_t host;       /* on the host, including 16 copies of the largest mask.host and what
                            options->record_size says */
} cls_memory;
CLS_INIT_FUNCTION(cls_memory)

/* Reports a sampler's memory. *memory was initialized.
 * CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API CLS_WARN_UNUSED cls_status cls_sampler_memory(const cls_sampler *sampler,
                                                      cls_memory *memory);

/* What the infill stage (params->infill) knows of a model's tokens. */
typedef struct cls_infill {
    size_t struct_size;
    /* At least one token that ends a generation. If no other token remains, the first one does. */
    cls_ids end_ids;
    /* [vocab]: for each token the longest other token whose text is a prefix of this token's text;
     * -1: none. */
    const int32_t *prefix_of;
} cls_infill;
CLS_INIT_FUNCTION(cls_infill)

/* Sets the tables of a sampler's infill stage in place of earlier ones. Copies them; blocks. Steps
 * in flight finish with the tables that they began with.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR; CLS_IN_USE. */
CLS_API CLS_WARN_UNUSED cls_status cls_sampler_infill(cls_sampler *sampler,
                                                      const cls_infill *infill);

/* Returns the number of kernel launches of the last call that enqueued a step. A cls_sample() takes
 * 2 if the parameters of all rows limit the kept sets to the shortlist, and 4 otherwise; the page
 * "Design" says what else adds launches ("Launches"). */
CLS_API uint32_t cls_sampler_launches(const cls_sampler *sampler);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_SAMPLER_H */
