/* SPDX-License-Identifier: MIT */
/* clsample: version, status codes, and the types that the other headers share. */
#ifndef CLSAMPLE_BASE_H
#define CLSAMPLE_BASE_H

#include <stddef.h>
#include <stdint.h>
#if defined(__APPLE__)
#include <OpenCL/cl.h>
#else
#include <CL/cl.h>
#endif
/* On POWER OpenCL's headers include altivec.h, which makes macros of these words. */
#if defined(__ALTIVEC__) && defined(vector)
#undef vector
#undef pixel
#undef bool
#if defined(__bool_true_false_are_defined) && !defined(__cplusplus)
#define bool _Bool
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- version */

/* The version of this header, as text and as major * 10000 + minor * 100 + patch. */
#define CLS_VERSION_STRING "0.12.0"
#define CLS_VERSION_NUMBER 1200
#define CLS_ARITHMETIC_VERSION 1 /* see cls_arithmetic_version() */

/* ------------------------------------------------------------- annotations */

#if defined(_WIN32) && defined(CLS_BUILD)
#define CLS_API __declspec(dllexport)
#elif defined(_WIN32)
#define CLS_API
#elif defined(__GNUC__)
#define CLS_API __attribute__((visibility("default")))
#else
#define CLS_API
#endif

/* The compiler warns where the result of such a function is ignored (GCC and Clang). */
#if defined(__GNUC__)
#define CLS_WARN_UNUSED __attribute__((warn_unused_result))
#else
#define CLS_WARN_UNUSED
#endif

/* The result of such a function is never NULL (GCC and Clang). */
#if defined(__GNUC__)
#define CLS_RETURNS_NONNULL __attribute__((returns_nonnull))
#else
#define CLS_RETURNS_NONNULL
#endif

/* Defines NAME_init(object), which sets the defaults of a public struct and returns what
 * cls_struct_init() does. It fails only where the library is older than the header. */
#define CLS_INIT_FUNCTION(name) \
    static inline cls_status name##_init(name *s) { return cls_struct_init(#name, s, sizeof *s); }

/* Return the CLS_VERSION_STRING and the CLS_VERSION_NUMBER of the library that runs, which may be
 * newer than this header. The string is static. Any thread may call these. */
CLS_API CLS_RETURNS_NONNULL const char *cls_version(void);
CLS_API uint32_t cls_version_number(void);

/* Returns the CLS_ARITHMETIC_VERSION of the library that runs: the number of the rules that decide
 * a token (doc/arithmetic.md). Libraries of one number get the same tokens, statuses and masses
 * from the same calls, logits, parameters and random bits, whatever their version, device and
 * shape. Libraries of two numbers need not, also if their interface is the same. A saved slot is
 * loaded, and a log of the command is compared, only by a library of its number.
 *
 * What a version adds leaves the number as it is: a new stage, or a new parameter that is off by
 * default. When a wrong token is mended, the number becomes the next one if contexts of the host
 * got that token, too. If only some devices or drivers did, they broke the number's promise and
 * keep it now, so the number stays. NEWS names the calls in both cases. Any thread may call this.
 */
CLS_API uint32_t cls_arithmetic_version(void);

/* ------------------------------------------------------------------ status */

/* The result of a call. cls_error_message() says more about a failure. */
typedef enum cls_status {
    CLS_OK = 0,                     /* the call did what it says */
    CLS_BAD_ARGUMENT = -2001,       /* the message names the argument; nothing has happened */
    CLS_OUT_OF_MEMORY = -2002,      /* host memory; for the device's see CLS_OPENCL_ERROR */
    CLS_BUSY = -2003,               /* too many steps are in flight: wait for one, call again */
    CLS_UNSUPPORTED_DEVICE = -2004, /* the message says what the device lacks */
    CLS_BUILD_FAILED = -2005,       /* the kernels did not compile: see the build log */
    /* The device does not round float32 arithmetic as IEEE 754 does, or the result of a program
     * differs from the host's. */
    CLS_SELF_TEST_FAILED = -2006,
    CLS_OPENCL_ERROR = -2007, /* an OpenCL call failed, and no object is lost: cls_error_opencl() */
    CLS_MPI_ERROR = -2008,    /* MPI failed; only libclsample-mpi returns this */
    /* Another call is using the sampler: only one thread at a time may, and no callback of a call.
     * Nothing has happened. Every call on a sampler can return this. */
    CLS_IN_USE = -2009,
    /* The sampler was not created for a feature or a type of logits that the call needs, or the
     * library was built without it. Nothing has happened. The message names what is missing. Slot
     * calls and calls that enqueue can return this. */
    CLS_NOT_COMPILED = -2010,
    /* A step failed in the middle, in this call or before it, and the host cannot know which slots
     * have moved on. cls_error_opencl() is the code of that failure. Every later call that enqueues
     * or concerns a slot returns this, too. Destroy the sampler (and before it its shard). The
     * context, its other samplers, readbacks and saved slots are not concerned, unless the device
     * itself is gone: then each has such a failure of its own. In another sampler, begin the
     * requests with the tokens that have been read, or load their saved slots. */
    CLS_LOST = -2011
} cls_status;

/* Returns the name of a status, such as "CLS_BUSY", and "unknown" for any other value. The string
 * is static. Any thread may call this. */
CLS_API CLS_RETURNS_NONNULL const char *cls_status_name(cls_status status);

/* Returns a sentence on the calling thread's last failed call, and "" before the first failure. The
 * string is valid until the next failed call of the thread; calls that succeed do not change it. */
CLS_API CLS_RETURNS_NONNULL const char *cls_error_message(void);

/* Returns the argument at fault of the calling thread's last failed call, with which its message
 * begins: "params->top_k", "step->mask.words", "wait[2]" or "queue". "" if the status was neither
 * CLS_BAD_ARGUMENT nor CLS_NOT_COMPILED, or no argument is at fault alone, and before the first
 * failure. A program that has other names for the arguments can print those instead. The string is
 * valid until the next call of this function by the thread. */
CLS_API CLS_RETURNS_NONNULL const char *cls_error_field(void);

/* Returns the OpenCL status (CL_OUT_OF_RESOURCES, ...) that caused the calling thread's last failed
 * call, and CL_SUCCESS if OpenCL was not the cause. */
CLS_API cl_int cls_error_opencl(void);

/* Sets the defaults of the public struct with this name, such as "cls_params". NAME_init() calls it
 * in C and C++; a binding calls it with the size that it knows. struct_size is the size of the
 * struct in the caller's header, and nothing beyond it is touched. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: `object` is NULL, no struct with a struct_size has this name, or the
 * size is smaller than in the first version with this soname, such as the size of a pointer. The
 * struct's struct_size is then 0 if there is room for it, and every call refuses the struct. */
CLS_API cls_status cls_struct_init(const char *structure, void *object, size_t struct_size);

/* ------------------------------------------------------------------ types */

/* The tokens that count for the frequency and the presence penalty. For the repetition penalty
 * prompt and output always count. */
typedef enum cls_penalty_scope {
    CLS_SCOPE_OUTPUT = 0, /* the output (OpenAI, vLLM) */
    CLS_SCOPE_ALL = 1     /* prompt and output (llama.cpp, TensorRT-LLM) */
} cls_penalty_scope;

/* What a loop does (cls_params.loop_action). */
typedef enum cls_loop_action {
    CLS_LOOP_STOP = 0,        /* it stops the request */
    CLS_LOOP_END_THINKING = 1 /* it ends the thinking */
} cls_loop_action;

/* What a stop id does while the request thinks (cls_params.stop_action). */
typedef enum cls_stop_action {
    CLS_STOP_REQUEST = 0,     /* it stops the request, as it does elsewhere */
    CLS_STOP_BANNED = 1,      /* it is not drawn, and stops nothing */
    CLS_STOP_END_THINKING = 2 /* it ends the thinking */
} cls_stop_action;

/* Whose watermark a request has (cls_params.watermark_rule): whose detector finds it. */
typedef enum cls_watermark_rule {
    /* vLLM's Gumbel-max watermark: Philox numbers of the output's ids. The context has -1 in place
     * of ids before the output, which begins again with a turn or a chunk of prompt. */
    CLS_WATERMARK_VLLM = 0,
    /* SGLang's: Murmur3 hashes of the ids of prompt and output. Before the text has so many ids the
     * context has fewer, and without any id the row is not marked. */
    CLS_WATERMARK_SGLANG = 1
} cls_watermark_rule;

/* An automaton over token ids, which clsample/grammar.h makes. */
typedef struct cls_grammar cls_grammar;

/* The type of an array's elements. */
typedef enum cls_dtype {
    CLS_F32 = 0, /* IEEE binary32 */
    CLS_F16 = 1, /* IEEE binary16; does not need cl_khr_fp16 */
    CLS_BF16 = 2 /* bfloat16: the upper half of a float32 */
} cls_dtype;

/* Structs that stand in other structs by value (cls_mask, cls_logits, cls_top_tokens, ...) have no
 * struct_size. They grow within their `reserved` words, which must be 0: a call refuses any other
 * value, so that a later version can give these words a meaning. */

/* What the memory of a cls_buffer is. */
typedef enum cls_buffer_kind {
    CLS_BUFFER_MEM = 0, /* a cl_mem, in `buffer` */
    CLS_BUFFER_SVM = 1, /* shared virtual memory at `pointer`, of clSVMAlloc() */
    CLS_BUFFER_USM = 2, /* unified shared memory at `pointer`, of clDeviceMemAllocINTEL(), ... */
    CLS_BUFFER_HOST = 3 /* memory of the host at `pointer`, for a context without a device */
} cls_buffer_kind;

/* A buffer of the caller's: a cl_mem, or memory at a pointer. If both are NULL the struct stands
 * for no buffer, and `kind` must be CLS_BUFFER_MEM.
 *
 * All calls check buffers in the same way. They return CLS_BAD_ARGUMENT for an image, for a
 * CL_MEM_READ_ONLY buffer that the call writes, for a CL_MEM_WRITE_ONLY buffer that kernels read,
 * for a buffer of another context, for a buffer that is smaller than its `size`, for a `size` that
 * is not enough, and for fields that its kind does not have. They also return it if an output
 * overlaps another output or an input, which includes sub-buffers of one buffer, and pointers into
 * the same memory. An overlap of two buffers that use the same host memory, or of a cl_mem and a
 * pointer, is not detected. The contents must not change until the event of the call is complete.
 *
 * OpenCL does not say what a pointer refers to. The caller guarantees that `size` bytes of this
 * kind of memory begin at the offset, and that the context's device may access them until the event
 * is complete. Coarse-grained SVM must not be mapped during that time.
 *
 * A context without a device (cls_context_create_host()) takes CLS_BUFFER_HOST only, and a device
 * takes the other kinds only. A buffer of another kind is CLS_BAD_ARGUMENT.
 *
 * All calls return CLS_UNSUPPORTED_DEVICE for a pointer of a kind that the device does not have
 * (CL_DEVICE_SVM_CAPABILITIES, CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL), or if its functions are
 * missing. They are clSetKernelArgSVMPointer() and clEnqueueSVMMemcpy() of OpenCL 2.0, and
 * clSetKernelArgMemPointerINTEL() and clEnqueueMemcpyINTEL() of cl_intel_unified_shared_memory. */
typedef struct cls_buffer {
    cl_mem buffer;    /* of CLS_BUFFER_MEM; else NULL */
    uint64_t offset;  /* bytes; a multiple of the element's size */
    uint64_t size;    /* bytes from the offset on that the call may use. 0, which only a cl_mem may
                         have: to its end */
    void *pointer;    /* of the other kinds: a multiple of 16 bytes, or with CLS_BUFFER_HOST of the
                         element's size. Else NULL */
    int32_t kind;     /* a cls_buffer_kind */
    int32_t reserved; /* 0 */
} cls_buffer;

/* A map: one int32 for each row, or for each element that the field's comment names. It is on the
 * host or on the device, and is absent if both are NULL. Setting both is refused. The call copies
 * and checks a map on the host; the kernels check a map on the device. */
typedef struct cls_ints {
    const int32_t *host; /* NULL: not on the host */
    cls_buffer device;   /* int32; without a buffer: not on the device */
} cls_ints;

/* A value for the logit of one token. */
typedef struct cls_logit_bias {
    int32_t id; /* the token, in the vocabulary */
    float bias; /* added to the logit; -inf bans the token */
} cls_logit_bias;

/* Lists of a request's parameters. An empty list, which is the default, has a NULL array and the
 * count 0. */
typedef struct cls_ids {
    const int32_t *ids; /* [count], all in the vocabulary */
    uint32_t count;     /* of the ids */
} cls_ids;

/* As cls_ids. */
typedef struct cls_biases {
    const cls_logit_bias *biases; /* [count] */
    uint32_t count;               /* of the biases */
} cls_biases;

/* As cls_ids. */
typedef struct cls_sequences {
    const cls_ids *sequences; /* [count], of at least one id each */
    uint32_t count;           /* of the sequences */
} cls_sequences;

/* Logits [rows, vocab], row-major, which the library only reads. */
typedef struct cls_logits {
    cls_buffer values;   /* from row 0 on */
    uint64_t row_stride; /* elements from row to row, at least vocab; 0: vocab */
    int32_t dtype;       /* a cls_dtype that the sampler was compiled for */
    /* The model's soft-cap (30 for Gemma 2): each logit x counts as softcap * tanh(x / softcap),
     * before anything else, also for what is called raw; -inf, +inf and NaN stay what they are.
     * 0 (default): none; else from 2^-100 to 2^100, and the call needs CLS_FEATURE_SOFTCAP. The
     * tanh is the library's own, the same on all devices, and never makes a larger logit the
     * smaller one. Logits that become equal are ties: the lower id comes first, also where it had
     * the smaller logit. */
    float softcap;
    uint32_t reserved[4]; /* 0 */
} cls_logits;

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_BASE_H */
