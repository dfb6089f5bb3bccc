/* SPDX-License-Identifier: MIT */
/*
 * libclsample-head: the LM head of a language model, on an OpenCL device.
 *
 * The LM head is the layer before the sampler. It multiplies hidden states by a weight matrix and
 * leaves logits in a buffer, where cls_sample() reads them:
 *
 *     logits = scale * (hidden * weight^T) + bias
 *     logits = softcap * tanh(logits / softcap)        if softcap is not 0
 *
 *     hidden  float32 [hidden_rows, hidden]      one row for each position of the model's batch
 *     weight  float32 or float16 [vocab, hidden] one row for each token of the vocabulary
 *     bias    float32 [vocab]                    optional
 *     logits  float32 [rows, vocab]              one row for each token to be sampled
 *
 * The library is optional: a runtime that computes its logits itself does not need it. It is
 * installed with libclsample. Link a program with
 *
 *     cc program.c $(pkg-config --cflags --libs clsample-head)
 *
 * Both libraries must be from the same release.
 *
 * Life cycle. cls_head_create() binds a weight to a head, compiles its kernels and allocates its
 * memory. cls_head_logits() enqueues one product; it may be called once per decoding step, ahead
 * of the device. cls_head_destroy() releases the head.
 *
 * Units. Sizes and offsets of buffers are bytes; strides are elements. Matrices are row-major, and
 * consecutive rows are `stride` elements apart.
 *
 * Two products. Which one a head uses depends on the weight's type and on the device:
 *
 *     float16                                            the library's kernel
 *     float32, on a device that is not a GPU             the library's kernel
 *     float32, on a GPU, built with CLBlast              CLBlast's GEMM
 *     float32, on a GPU, built without CLBlast           the library's kernel
 *
 * The library's kernel also serves a matrix that is too large for CLBlast, which counts elements
 * in 32 bits. It sums in float32 for both types and does not need cl_khr_fp16. A row's logits are
 * the same bits in any batch, at any place in the batch, and in any head with this weight on the
 * same device. They differ between devices by rounding, because the kernel uses fma() only where
 * the device has it in hardware, and because the order of a sum follows the device's vectors. The
 * sampler's tokens are still the same wherever the logits are the same.
 *
 * CLBlast's GEMM (Nugteren 2018) is made for GPUs. The head always calls it for max_rows rows, so
 * that one shape is compiled and a row's logits do not depend on the rest of the batch. They do
 * not depend on the row's place either, provided that the device's compiler treats the edge of a
 * tile as it treats the inside. Heads with another max_rows may round differently.
 *
 * Some guarantees of libclsample do not hold for CLBlast. Its programs live as long as the process
 * and retain the OpenCL context: CLBlastClearCache(), or CLBlast's destructors when the process
 * exits, release them. CLBlast may write to standard output when it fails to compile a program, and
 * it may allocate memory in every call. A head that uses the library's kernel never calls CLBlast.
 * A library that was configured with `--without-clblast` does not contain it.
 *
 * Threads. A cls_head is used by one thread at a time; the library does not check that. Two heads
 * may be used by two threads at once, also if they share an OpenCL context or a weight.
 * cls_head_has_clblast() and the functions that set defaults may be called from any thread.
 *
 * Errors. A function that fails returns a negative cls_status and leaves one sentence, which names
 * the argument at fault, for cls_error_message() of the same thread; cls_error_opencl() returns
 * OpenCL's own code. A call that returns CLS_BAD_ARGUMENT or CLS_BUSY has enqueued nothing.
 *
 * Growth. The structs follow the rules of clsample.h.
 */
#ifndef CLSAMPLE_HEAD_H
#define CLSAMPLE_HEAD_H

#include <clsample.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(CLS_HEAD_BUILD)
#define CLS_HEAD_API __declspec(dllexport)
#elif !defined(_WIN32) && defined(__GNUC__)
#define CLS_HEAD_API __attribute__((visibility("default")))
#else
#define CLS_HEAD_API
#endif

/* An LM head: a weight, the kernels for it and the memory that its calls share. */
typedef struct cls_head cls_head;

/* Returns 1 if the library was built with CLBlast, which then multiplies float32 weights on GPUs,
 * and 0 if the library's kernel multiplies all weights. */
CLS_HEAD_API int cls_head_has_clblast(void);

/* What a head is created for. The buffers belong to the caller, who may release them after
 * cls_head_create(): the head retains them until cls_head_destroy(). Memory at pointers cannot be
 * retained, so that it must stay until then; a weight at a pointer is multiplied by the library's
 * kernel. */
typedef struct cls_head_options {
    size_t struct_size;
    uint32_t vocab;    /* rows of the weight, 1 to 1,048,576; no default */
    uint32_t hidden;   /* length of a hidden row, 1 to 65,536; no default */
    uint32_t max_rows; /* most rows of logits in a call, 1 to 65,535; default 1 */
    int32_t dtype;     /* type of the weight, CLS_F32 (default) or CLS_F16 */
    cls_buffer weight; /* [vocab, hidden]; every call reads it, so it must not change during one */
    uint64_t weight_stride; /* elements from row to row of the weight; 0 (default): hidden */
    cls_buffer bias;        /* float32 [vocab]; absent (default): no bias */
    float scale;            /* factor of the product; finite; default 1 */
    float softcap; /* limits logits to plus and minus this value, by the function and in the
                      range of cls_logits.softcap; 0 (default): no limit */
} cls_head_options;

/* Creates a head for the OpenCL context and the device of `queue`. The call compiles the kernels
 * and runs them twice on `queue`, so that no later call compiles anything; it blocks until they
 * have run. The contents of the weight do not matter yet. The head keeps max_rows hidden rows of
 * float32 on the device; the call needs memory for max_rows rows of logits in addition, and frees
 * it before it returns.
 *
 * Later calls may use other queues of this context and device. The head retains the context.
 *
 * CLS_OK: *out is the head, which the caller destroys. Otherwise *out is NULL.
 * - CLS_BAD_ARGUMENT: an argument is wrong, or libclsample is from another release.
 * - CLS_OUT_OF_MEMORY: there is not enough memory on the host.
 * - CLS_UNSUPPORTED_DEVICE: CLBlast refuses the device, or no OpenCL was found.
 * - CLS_BUILD_FAILED: the kernels do not compile; the message has the beginning of the log.
 * - CLS_OPENCL_ERROR: OpenCL refused a call. */
CLS_HEAD_API CLS_WARN_UNUSED cls_status cls_head_create(cl_command_queue queue,
                                                        const cls_head_options *options,
                                                        cls_head **out);

/* Destroys a head; NULL is allowed. Commands in flight run to their end. The call blocks until the
 * commands that upload maps from the host are complete. */
CLS_HEAD_API void cls_head_destroy(cls_head *head);

/* One product. The buffers belong to the caller; `logits` may not overlap what the call reads, and
 * must be a cl_mem if CLBlast multiplies. */
typedef struct cls_head_call {
    size_t struct_size;
    uint32_t rows;          /* rows of logits to compute, 1 to max_rows; no default */
    uint32_t hidden_rows;   /* rows of `hidden`; 0 (default): rows */
    cls_buffer hidden;      /* float32 [hidden_rows, hidden] */
    uint64_t hidden_stride; /* elements from row to row of `hidden`; 0 (default): hidden */
    cls_ints which;    /* for each row of logits the index of its hidden row, for example the last
                          position of each request. -1 stands for a hidden row of zeros. An index
                          outside -1 to hidden_rows - 1 is refused on the host, and stands for zeros
                          on the device. Absent (default): row r of `logits` is computed from row r
                          of `hidden` */
    cls_buffer logits; /* float32 [max_rows, vocab], dense. The first `rows` rows are the result;
                          the others are undefined after the call */
} cls_head_call;

/* Enqueues a product after the events in `wait` (n_wait of them; NULL with 0). The call does not
 * wait, does not compile and does not flush the queue. If `done` is not NULL, *done becomes an
 * event that completes with the product, which the caller releases; after a failure it is NULL.
 *
 * The calls of a head run one after another, on whatever queues they are enqueued. On an
 * out-of-order queue, barriers before and after the call order it with all other commands of the
 * queue, because CLBlast takes no wait list.
 *
 * CLS_OK.
 * - CLS_BAD_ARGUMENT: an argument is wrong, and nothing was enqueued.
 * - CLS_BUSY: too many calls with different maps from the host are in flight, and nothing was
 *   enqueued: flush the queue, wait for an earlier call, and repeat this one.
 * - CLS_BUILD_FAILED or CLS_UNSUPPORTED_DEVICE: CLBlast failed; the message gives its status.
 * - CLS_OPENCL_ERROR: OpenCL refused a command; earlier ones of the call may run, so that the
 *   contents of `logits` are undefined. The head can be used again. */
CLS_HEAD_API CLS_WARN_UNUSED cls_status cls_head_logits(cls_head *head, cl_command_queue queue,
                                                        const cls_head_call *call, cl_uint n_wait,
                                                        const cl_event *wait, cl_event *done);

static inline cls_status cls_head_options_init(cls_head_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->max_rows = 1;
    options->scale = 1.0f;
    return CLS_OK;
}

static inline cls_status cls_head_call_init(cls_head_call *call)
{
    memset(call, 0, sizeof *call);
    call->struct_size = sizeof *call;
    return CLS_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_HEAD_H */
