/* SPDX-License-Identifier: MIT */
/*
 * clsample - the next token of a language model, picked on the device that
 * computed the logits.
 *
 * This header is the manual. The flow of one step:
 *
 *     logits -> adjust -> survey -> shortlist -> truncate -> draw -> accept -> token
 *
 * An inference runtime owns its platform, context, queue and logits. It
 *
 *     1. opens a cls_context for a device    (proves that it computes right),
 *     2. creates a cls_sampler               (compiles the kernels that its options ask for,
 *                                             and allocates all that steps need),
 *     3. gives each request a slot           (cls_slot_begin),
 *     4. calls cls_sample() once a step      (enqueues; never waits).
 *
 * A slot is a request's resident state: parameters, position, which tokens its
 * prompt and output have and how often, and its latest tokens in order. It
 * stays on the device, and every step reads and updates it there: steps may be
 * enqueued ahead, and the host need not see a token to get the next.
 *
 * The same logits, parameters, seed and position give the same token, bit for
 * bit, on every device that rounds float32 to nearest even: whatever the batch
 * size, the row, the work-group size or the path that found the token. What
 * decides a token is integer arithmetic and single float32 additions,
 * subtractions and multiplications (doc/arithmetic.md).
 *
 * Units and limits. Token ids are int32, 0 to vocab-1. Sizes named *_size and
 * offsets are bytes, strides are elements. 1 <= vocab <= 1,048,576.
 *
 * Compiling. Kernels are small programs, and each is compiled when something
 * first asks for it: cls_sampler_create() for its options, a slot call for
 * parameters that need more, cls_context_compile() ahead of both. A context
 * keeps them for all its samplers. What enqueues (cls_sample(), cls_verify(),
 * cls_draw(), cls_logprobs(), cls_accept()) never compiles.
 *
 * Threads. Any number of threads may share a cls_context, create and destroy
 * samplers on it, and compile for it; a lock inside it orders what they compile,
 * and nothing that enqueues takes it. A cls_sampler, a
 * cls_readback and a cls_head are used by one thread at a time; two samplers of
 * one context may be used by two threads at once. cls_sampler_check() may be
 * called by any thread at any time, cls_host_sample() and cls_host_draw(), which
 * have no state, from anywhere. A call on a sampler that another call is using, on another
 * thread or from a callback, is CLS_BAD_ARGUMENT and does nothing; readbacks, heads,
 * cls_sampler_destroy(), cls_sampler_memory() and cls_sampler_launches() do not check that.
 * OpenCL does not survive fork(): a child may call the cls_host functions, and exec or
 * _exit(), but use and destroy nothing that its parent has opened. One that is there
 * before its parent calls OpenCL is free.
 *
 * Errors. Every function that can fail returns a cls_status and leaves one
 * sentence, which names the argument at fault, for cls_error_message() of the
 * same thread. A failed call changes nothing, but for the one case that
 * cls_sample() describes. A row that cannot be sampled
 * (all NaN, an empty mask) is not an error of the call: it gets its own status
 * (cls_row_status) and the token `invalid_token`, and its neighbours don't
 * notice.
 *
 * The library never prints, never exits, reads no environment variable, and
 * writes no file but in options->cache_dir, where a caller names one. It keeps no OpenCL object but
 * those that its handles retain, and calls OpenCL from no destructor of the process. (A head of
 * float32 weights is CLBlast's: see cls_head_create() for the exception.)
 *
 * Growth. Public structs begin with struct_size. In C and C++ call cls_NAME_init(&x), which passes
 * sizeof x to cls_NAME_default(); bindings call the latter with the size that they know. Structs
 * without these functions (cls_infill, and what the library fills) are to be cleared, and their
 * struct_size set. A size smaller than the struct had in version 0.6.0, such as that of a pointer,
 * is refused: _default() leaves struct_size 0, and the call that gets it is CLS_BAD_ARGUMENT.
 * Fields are only ever added at the end, so that a program compiled against an older header runs
 * with a newer library. An older library refuses a field that it does not know and that is not 0,
 * but for structs that it fills. Reserved fields are 0. Structs without a struct_size, which lie
 * inside others, never change.
 */
#ifndef CLSAMPLE_H
#define CLSAMPLE_H

#include <stddef.h>
#include <stdint.h>
#if defined(__APPLE__)
#include <OpenCL/cl.h>
#else
#include <CL/cl.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CLS_VERSION_STRING "0.7.0"

#if defined(_WIN32) && defined(CLS_BUILD)
#define CLS_API __declspec(dllexport)
#elif defined(_WIN32)
#define CLS_API
#elif defined(__GNUC__)
#define CLS_API __attribute__((visibility("default")))
#else
#define CLS_API
#endif

/* The library's own version: CLS_VERSION_STRING of the header that it was
 * built with. The string is static. */
CLS_API const char *cls_version(void);

/* ------------------------------------------------------------------ status */

typedef enum cls_status {
    CLS_OK = 0,
    CLS_BAD_ARGUMENT = -2001,       /* the message names the argument */
    CLS_OUT_OF_MEMORY = -2002,      /* host memory; OpenCL's own is CLS_OPENCL_ERROR */
    CLS_BUSY = -2003,               /* too many steps in flight: wait for one, call again */
    CLS_UNSUPPORTED_DEVICE = -2004, /* the message says what the device lacks */
    CLS_BUILD_FAILED = -2005,       /* the kernels did not compile: see the build log */
    CLS_SELF_TEST_FAILED = -2006, /* the device's arithmetic is not float32 as IEEE rounds it, or a
                                     program gives something else than the host */
    CLS_OPENCL_ERROR = -2007      /* OpenCL refused a call: see cls_error_opencl() */
} cls_status;

/* The name of a status ("CLS_BUSY"); static. Unknown values give "unknown". */
CLS_API const char *cls_status_name(cls_status status);

/* One sentence on the calling thread's last failed call; "" before the first.
 * Valid until the thread's next failed call. Calls that succeed leave it. */
CLS_API const char *cls_error_message(void);

/* OpenCL's own code (CL_OUT_OF_RESOURCES, ...) behind the calling thread's
 * last failed call; CL_SUCCESS if OpenCL was not the cause. */
CLS_API cl_int cls_error_opencl(void);

/* What became of a row: bits, 0 is a clean row. */
typedef enum cls_row_status {
    CLS_ROW_OK = 0,
    CLS_ROW_NAN = 1,     /* some allowed logit was NaN; sampled from the others */
    CLS_ROW_INF = 2,     /* some allowed logit was +inf; taken as FLT_MAX */
    CLS_ROW_EMPTY = 4,   /* nothing to draw from (all masked, -inf or NaN): invalid_token, state
                            untouched */
    CLS_ROW_SKIPPED = 8, /* `slots` or `logits_map` says -1, or the request had stopped before (then
                            with CLS_ROW_STOPPED): invalid_token, state untouched */
    CLS_ROW_NO_SLOT =
        16, /* on the device, `slots` names no begun slot, or `logits_map` or a mask's or bias's
               row_map a row that is not there: invalid_token, state untouched */
    CLS_ROW_STOPPED = 32, /* the request has ended: this token is a stop id, or the last of
                             max_tokens; or it had ended before (with CLS_ROW_SKIPPED) */
    CLS_ROW_LENGTH =
        64, /* with CLS_ROW_STOPPED: this token is the last of max_tokens, and no stop id */
    CLS_ROW_UNFIT = 128 /* more than 128 tokens, or than the shortlist holds, are left for
                          params->infill, or (never seen) the library misjudged what a chain needs:
                          invalid_token, state untouched */
} cls_row_status;

/* -------------------------------------------------------------- parameters */

/* A step of a row's chain: its temperature, or a truncation. */
typedef enum cls_stage {
    CLS_STAGE_END = 0, /* ends a list of them */
    CLS_STAGE_TEMPERATURE = 1,
    CLS_STAGE_TOP_K = 2,
    CLS_STAGE_TOP_P = 3,
    CLS_STAGE_MIN_P = 4,
    CLS_STAGE_TOP_N_SIGMA = 5,
    CLS_STAGE_TYPICAL_P = 6,
    CLS_STAGE_XTC = 7,
    CLS_STAGE_P_LESS = 8,
    CLS_STAGE_INFILL = 9,
    CLS_STAGE_TOP_A = 10
} cls_stage;

/* The order in which a row's truncations and its temperature apply. Each
 * truncation sees what the one before it left, renormalised; a stage before
 * the temperature works at temperature 1. A preset has top-a
 * behind min-p, and goes on with all stages that are not named here, in the order
 * top-n-sigma, typical, XTC, p-less, infill: no parameter is without effect. Stages that are off do
 * nothing. */
typedef enum cls_chain {
    CLS_CHAIN_DEFAULT = 0, /* temperature, top-k, top-p, min-p (QEfficient, Hugging Face) */
    CLS_CHAIN_VLLM = 1,    /* temperature, min-p, top-k, top-p */
    CLS_CHAIN_LLAMA =
        2, /* top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature (llama.cpp) */
    CLS_CHAIN_CUSTOM = 3 /* params->stages */
} cls_chain;
#define CLS_CHAIN_LENGTH 16

/* Which tokens count for the frequency and the presence penalty. The
 * repetition penalty always takes both. */
typedef enum cls_penalty_scope {
    CLS_SCOPE_OUTPUT = 0, /* the output (OpenAI, vLLM) */
    CLS_SCOPE_ALL = 1     /* prompt and output (llama.cpp, TensorRT-LLM) */
} cls_penalty_scope;

typedef struct cls_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -inf bans the token */
} cls_logit_bias;

/* Some token ids in a row, none outside the vocabulary. */
typedef struct cls_sequence {
    const int32_t *ids; /* [count], at least one */
    uint32_t count;
} cls_sequence;

/* One request's sampling parameters. */
typedef struct cls_params {
    size_t struct_size;
    int32_t chain; /* a cls_chain; default CLS_CHAIN_DEFAULT */

    /* Logits are divided by it. Default 1. Below 1e-5 (0 included) the row is
     * greedy: it takes its largest logit, the lowest id on ties, and the
     * truncations don't matter. Negative, infinite, NaN: refused. */
    float temperature;

    /* Keep exactly the k most likely tokens; at the boundary the lower id
     * wins. 0, negative or >= vocab: off. Default 0. */
    int32_t top_k;

    /* Keep the smallest set of most likely tokens (ties by lower id) whose
     * mass reaches top_p of the mass that is left. 1: off. 0 or less keeps one
     * token. Above 1 or NaN: refused. Default 1. (Holtzman et al. 2020) */
    float top_p;

    /* Keep tokens at least min_p times as likely as the likeliest; 1 keeps the
     * maxima. 0: off. Outside [0, 1] or NaN: refused. Default 0.
     * (Nguyen et al. 2024) */
    float min_p;

    /* The position of the request's first output token: the counter of the
     * random numbers. Read by cls_slot_begin(); from then on the slot counts by
     * itself. Default 0. */
    uint32_t position;

    /* The same seed, stream and position draw the same random number, on every
     * device and in every batch. Streams tell requests of one seed apart.
     * Philox4x32-10 (Salmon et al. 2011): key = seed, counter = (position,
     * purpose, stream low, stream high). Defaults 0. */
    uint64_t seed;
    uint64_t stream;

    /* What changes a row's logits before the chain, in this order: the mask,
     * the step's dense bias, the logit bias, then these three. After each a
     * value is limited to the finite floats. A masked or banned token stays
     * out, whatever follows.
     *
     * Repetition: the logit of a token in prompt or output, once however often
     * it occurs, is divided by r if positive, else multiplied (Keskar et al.
     * 2019). 1: off (default). Below 1e-30, above 1e30 or NaN: refused.
     * Frequency: minus f times how often the token occurs. Presence: minus p if
     * it occurs. 0: off (default). Beyond +-1e30 or NaN: refused. */
    float repetition_penalty;
    float frequency_penalty;
    float presence_penalty;
    int32_t penalty_scope; /* a cls_penalty_scope; default CLS_SCOPE_OUTPUT */

    /* Only the last n tokens of prompt and output together count, for all three
     * (llama.cpp's repeat_last_n). 0: all (default). At most the sampler's
     * `history`. */
    uint32_t penalty_window;

    /* Output tokens after which the request stops. 0: no limit (default). Those
     * made elsewhere count, and those of cls_slot_begin()'s `output`. */
    uint32_t max_tokens;

    /* The request stops with the first of these: when its latest token is
     * output and one of them, and the output has min_tokens tokens. int32
     * [stop_count], any number of them; NULL with 0 (default). */
    const int32_t *stop_ids;
    uint32_t stop_count;

    /* [logit_bias_count], any number of them; several of one id add up. NULL
     * with 0 (default). +inf and NaN: refused. */
    uint32_t logit_bias_count;
    const cls_logit_bias *logit_bias;

    /* With CLS_CHAIN_CUSTOM the chain, each stage at most once, ended by
     * CLS_STAGE_END or by the array; a stage whose parameter is set must be
     * in it. Default: empty. */
    uint8_t stages[CLS_CHAIN_LENGTH];

    /* Dynamic temperature: of what is left, n tokens with entropy H, it is
     * low + (high - low) * (H / ln n)^exponent, low = max(0, temperature - range),
     * high = temperature + range; one token: temperature. If that comes to less
     * than 1e-5, only the likeliest stays. 0: off (default). Negative, infinite,
     * NaN: refused, as exponents outside [0, 1024]. Default exponent 1.
     * (llama.cpp's temp_ext) */
    float dynatemp_range;
    float dynatemp_exponent;

    /* Keep logits of at least max - n times the standard deviation (of the
     * population that is left). 0 or less: off. Default 0. Above 1e6 or NaN:
     * refused. (Tang et al. 2024) */
    float top_n_sigma;

    /* Keep the tokens whose information is nearest to the entropy, until their
     * mass exceeds p; of two equally near the likelier, of two equal the lower
     * id. 1: off (default). Above 1 or NaN: refused; 0 or less keeps one.
     * (Meister et al. 2022) */
    float typical_p;

    /* With this probability, drawn by a random stream of its own, drop all
     * tokens at least as likely as the threshold but the least likely of them.
     * Probability 0, or a threshold above 0.5: off. Defaults 0 and 0.1. Outside
     * [0, 1], or NaN: refused. (llama.cpp's XTC) */
    float xtc_probability;
    float xtc_threshold;

    /* 1: keep tokens at least as likely as the sum of squares of all. 0: off
     * (default). (p-less sampling, Tan et al. 2025) */
    int32_t p_less;

    /* After every token of the output top_p is multiplied by the decay, but
     * not below the minimum; top_p_reset_id restores it. 1: off (default).
     * Outside (0, 1]: refused. Defaults of the others 1e-6 and -1 (none). They
     * need a top_p below 1. (TensorRT-LLM) */
    float top_p_decay;
    float top_p_min;
    int32_t top_p_reset_id;

    /* 1: keep tokens as llama.cpp's infill sampler does, by the tables of
     * cls_sampler_infill(): merged probabilities decide which tokens stay, and
     * these keep their own. A row of which more than 128 tokens (or than the
     * shortlist holds) are left when this stage comes gets CLS_ROW_UNFIT and no
     * token; one of which nothing but the first end id would remain, and that is
     * masked, CLS_ROW_EMPTY. Default 0. */
    int32_t infill;

    /* 1 or 2: Mirostat (Basu et al. 2021), a mode: the chain is the temperature
     * and it, the other truncations have no effect. tau: the surprise aimed at, in
     * bits, [0, 100]; eta: the learning rate, [0, 100]. mu begins at 2 tau and is
     * updated when the token that was drawn is accepted. Defaults 0, 5, 0.1. */
    int32_t mirostat;
    float mirostat_tau;
    float mirostat_eta;

    /* Adaptive p: after the chain, draws by how near a token's probability is
     * to one that keeps the average of those drawn at the target. Below 0: off
     * (default -1). Above 1 or NaN: refused. decay: how slowly the average
     * forgets, [0, 0.99]; default 0.9. (llama.cpp's adaptive_p) */
    float adaptive_target;
    float adaptive_decay;

    /* The fewest tokens that a truncation but top-k and infill leaves. Default 1;
     * 0 is 1. */
    uint32_t min_keep;

    /* DRY: a token that would continue a repetition of length n >= the allowed
     * length loses multiplier * base^(n - allowed length). Repetitions are
     * looked for in the last dry_window tokens of prompt and output (0, the
     * default: in as many as the sampler's `history`), do not reach beyond the
     * last sequence breaker, and breakers of one token lose nothing.
     * Multiplier 0 (default) or base below 1: off. A negative one rewards.
     * Beyond +-1e30, or NaN: refused. Default base 1.75, allowed length 2.
     * (p-e-w's DRY, as llama.cpp has it) */
    float dry_multiplier;
    float dry_base;
    uint32_t dry_allowed_length;
    uint32_t dry_window;
    const cls_sequence *dry_breakers; /* [dry_breaker_count]; NULL with 0 (default) */
    uint32_t dry_breaker_count;

    /* Ban the token that would repeat an n-gram of the last `history` tokens;
     * 1 bans all of these. 0: off (default). */
    uint32_t no_repeat_ngram;

    /* Sequences that must not occur in the output: the last id of one is
     * banned while the output ends with the ids before it. */
    uint32_t bad_word_count;
    const cls_sequence *bad_words;

    /* The stop ids are banned from the output's first min_tokens tokens. One that comes
     * otherwise (cls_accept(), cls_slot_begin()'s output) stops the request only if the output,
     * with it, has at least so many. max_tokens stops in any case. Default 0. */
    uint32_t min_tokens;

    /* Only these may be drawn: int32 [allowed_count], any number of them: they cost what a
     * mask costs. NULL with 0 (default): all, unless only_allowed is 1: then none, and rows
     * are CLS_ROW_EMPTY. A count above 0 implies only_allowed; set it to 1 where the list may
     * be empty. Either needs a sampler with options->logit_bias. */
    uint32_t allowed_count;
    const int32_t *allowed_ids;
    int32_t only_allowed; /* 0 (default) or 1; anything else is refused */

    /* Keep tokens whose probability is at least a times the square of the largest
     * probability that is left; 1 keeps the most likely ones of a peaked row, and more
     * of a flat one. 0: off (default). Outside [0, 1] or NaN: refused. (BlinkDL) */
    float top_a;
} cls_params;

/* Sets neutral parameters: temperature 1, nothing truncated, no penalties, seed 0.
 * struct_size: sizeof(cls_params) as the caller sees it. */
CLS_API void cls_params_default(cls_params *params, size_t struct_size);

/* Checks params for a vocabulary without using them; what a sampler was not
 * created for, cls_sampler_check() tells.
 * CLS_OK; CLS_BAD_ARGUMENT with the field's name. */
CLS_API cls_status cls_params_check(const cls_params *params, uint32_t vocab);

/* ----------------------------------------------------------------- context */

typedef enum cls_dtype {
    CLS_F32 = 0,
    CLS_F16 = 1, /* IEEE binary16; needs no cl_khr_fp16 */
    CLS_BF16 = 2 /* the upper half of a float32 */
} cls_dtype;

/* How kernels are shaped for a device, and what decided it. */
typedef struct cls_device_info {
    size_t struct_size;
    uint32_t work_group; /* work-items of a group that goes over the vocabulary: 1 on CPUs, else up
                            to 256 */
    uint32_t vector; /* logits a work-item loads at once: 16 on CPUs (8 on those without vectors of
                        their own) and where local memory is small, else 4 */
    uint32_t shortlist;     /* candidates that a row's list holds */
    uint32_t compute_units; /* CL_DEVICE_MAX_COMPUTE_UNITS */
    uint64_t local_mem_size;
    uint64_t max_work_group;
    uint32_t row_group; /* work-items of a group that takes a row to its token: 1 on CPUs, else
                           work_group */
    uint32_t tier;      /* a cls_tier */
    uint32_t subgroups; /* a cls_subgroups; cls_device_query() tells the one that would be tried */
    uint32_t origin;    /* a cls_origin: of the program that proved the device; of others see
                           cls_context_program() */
} cls_device_info;

/* How much of OpenCL the kernels use. Tokens are the same bit for bit in all. */
typedef enum cls_tier {
    CLS_TIER_AUTO = 0, /* in options: the highest that the device has and that it computes right */
    CLS_TIER_BASE =
        1, /* tier 0: OpenCL C 1.2 of the embedded profile; 64-bit numbers in two halves */
    CLS_TIER_INT64 = 2,    /* tier 1: 64-bit integers */
    CLS_TIER_SUBGROUPS = 3 /* tier 2: and sub-groups, where groups are of several work-items */
} cls_tier;

/* Whose sub-group functions the kernels use. */
typedef enum cls_subgroups {
    CLS_SUBGROUPS_NONE = 0,
    CLS_SUBGROUPS_KHR = 1,   /* cl_khr_subgroups, or OpenCL 3.0's feature */
    CLS_SUBGROUPS_INTEL = 2, /* cl_intel_subgroups */
    CLS_SUBGROUPS_QCOM = 3,  /* cl_qcom_subgroup_shuffle */
    CLS_SUBGROUPS_AMD = 4,   /* the compiler's builtins for wavefronts */
    CLS_SUBGROUPS_NV = 5     /* warps, by PTX */
} cls_subgroups;

/* Where a program is from. */
typedef enum cls_origin {
    CLS_ORIGIN_SOURCE = 0,
    CLS_ORIGIN_BINARY = 1, /* options->binary */
    CLS_ORIGIN_CACHE = 2   /* options->cache_dir */
} cls_origin;

typedef struct cls_context_options {
    size_t struct_size;
    uint32_t dtypes; /* the types of logits that samplers are compiled for whose own options name
                        none: bits 1u << cls_dtype; 0: float32 */
    uint32_t work_group; /* 0: by device type; any number from 1 to 1024 */
    uint32_t vector; /* 0: by device type; else 2, 4, 8 or 16 (2 becomes 4 where groups are of one
                        item) */
    uint32_t shortlist; /* 0: by local memory; else a power of two from 16 to 2048 */

    /* Where to put the compiler's log, failed or not; cut to the buffer's size
     * and always terminated. The caller's; NULL: not wanted. Written during
     * cls_context_create(), and later only with build_log_stays. */
    char *build_log;
    size_t build_log_size;

    /* 0: 1 on CPUs, else work_group; any number from 1 to 1024. On CPUs more
     * gains nothing, and PoCL takes minutes to compile it. */
    uint32_t row_group;
    uint32_t tier; /* a cls_tier; 0: CLS_TIER_AUTO */

    /* 0: what the device has. Kernels take no larger groups and no more local
     * memory (bytes, at least 1,024) than this, as if the device had no more. */
    uint32_t max_work_group;
    uint32_t reserved;
    uint64_t max_local_mem;

    /* Compiled programs from cls_context_export(); copied, so that they need not
     * outlive cls_context_create(). If they are of another version, device, driver or shape, or
     * damaged, the kernels are compiled from source as if they were not there; so is a program that
     * is not among them. A device without a compiler takes nothing else. */
    const void *binary;
    size_t binary_size;

    /* A folder that exists, in which compiled programs are looked for and, if
     * they are not there, kept, a file each; the name is copied. NULL: nothing is
     * read or written. Several processes may share one. Whatever is wrong with it
     * or with what is in it, the kernels are compiled from source. Who can write
     * to it decides what the device runs: a folder of your own, not one that
     * others share. PoCL compiles a program once more when it is asked for its
     * bytes, and has a cache of its own (POCL_CACHE_DIR): there the folder is
     * read, but written only with cache_always. */
    const char *cache_dir;
    int32_t cache_always;

    /* 1: build_log outlives the context and all its samplers. Programs that are
     * compiled after cls_context_create() then append their logs, too. */
    int32_t build_log_stays;

    /* Called before each program is compiled or loaded, by the thread that asked
     * for it: its name, how many of this call's programs came before it, and how
     * many there are. It must not call the library. NULL: nobody wants to know. */
    void (*progress)(void *user, const char *program, uint32_t done, uint32_t count);
    void *progress_user;
} cls_context_options;

/* Sets the defaults: everything by device. */
CLS_API void cls_context_options_default(cls_context_options *options, size_t struct_size);

/* Tells how cls_context_create() would shape kernels for a device, without
 * compiling. A driver that only knows after the build that it takes smaller
 * groups gets those then. options: NULL for defaults. info->struct_size must be
 * set.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_UNSUPPORTED_DEVICE (the message says why);
 * CLS_OPENCL_ERROR. */
CLS_API cls_status cls_device_query(cl_device_id device, const cls_context_options *options,
                                    cls_device_info *info);

/* A device that was proved, and the kernels that were compiled for it; shared
 * between threads. */
typedef struct cls_context cls_context;

/* Proves the arithmetic of `device`, which must belong to `context`, against the
 * host's, and its work-groups, where these are of several work-items; compiles
 * what that takes and nothing else. Retains `context`.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE;
 * CLS_BUILD_FAILED (the log is in options->build_log); CLS_SELF_TEST_FAILED;
 * CLS_OPENCL_ERROR. On failure *out is NULL. */
CLS_API cls_status cls_context_create(cl_context context, cl_device_id device,
                                      const cls_context_options *options, cls_context **out);

/* Releases it. NULL is allowed. Samplers keep what they need: order is free. */
CLS_API void cls_context_destroy(cls_context *context);

/* The shape in use. info->struct_size must be set. CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API cls_status cls_context_info(const cls_context *context, cls_device_info *info);

/* What a step may ask for beyond greedy rows and temperatures: bits of
 * options->features. A sampler is compiled for those that its options name, and
 * for what its slots' parameters turn out to need. */
typedef enum cls_feature {
    CLS_FEATURE_PLAIN = 1, /* kernels of their own for steps of greedy rows and rows without
                              truncation. Others serve these rows, too */
    CLS_FEATURE_LISTS = 2, /* top-k, min-p, top-p after one of these; the usual ones */
    CLS_FEATURE_SEARCH =
        4, /* chains that keep any number of tokens: top-p alone, top-k beyond the shortlist */
    CLS_FEATURE_SAMPLERS = 8,   /* all other samplers and modes */
    CLS_FEATURE_PENALTIES = 16, /* penalties, logit_bias, allowed_ids */
    CLS_FEATURE_HISTORY = 32,   /* DRY, n-grams, bad words, min_tokens */
    CLS_FEATURE_STATE = 64, /* slots that are copied, rolled back, loaded, begin a next turn, or get
                               other parameters */
    CLS_FEATURE_MASK = 128, /* step->mask, call->mask */
    CLS_FEATURE_BIAS = 256, /* step->bias, call->bias */
    CLS_FEATURE_LOGPROBS = 512, /* logprobs, ranks, top_*, given_*, kept, candidate_*, entropy,
                                   kept_mass; cls_logprobs() */
    CLS_FEATURE_PROBS = 1024,   /* probs, final_logits, entropy, kept_mass */
    CLS_FEATURE_ACCEPT = 2048,  /* cls_accept() */
    CLS_FEATURE_DRAW = 4096,    /* cls_draw() */
    CLS_FEATURE_VERIFY = 8192   /* cls_verify() */
} cls_feature;
#define CLS_FEATURES_ALL 16383u

/* The name of a feature ("CLS_FEATURE_MASK"); static. Unknown values give "unknown". */
CLS_API const char *cls_feature_name(cls_feature feature);

/* What to compile. */
typedef struct cls_compile_options {
    size_t struct_size;
    uint32_t dtypes;   /* bits 1u << cls_dtype; 0: those of the context */
    uint32_t features; /* cls_feature bits; 0: CLS_FEATURE_LISTS. CLS_FEATURES_ALL: everything */
} cls_compile_options;

CLS_API void cls_compile_options_default(cls_compile_options *options, size_t struct_size);

/* Compiles, warms up and proves the programs of these features that are not there
 * yet; samplers may run meanwhile. Blocks, for seconds where no cache helps. A
 * program whose group the device refuses gets a smaller one; where it refuses all
 * of them, this call fails, and nothing else does. options: NULL for defaults. Any
 * thread.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE;
 * CLS_BUILD_FAILED; CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_context_compile(cls_context *context, const cls_compile_options *options);

/* A program that is there. */
typedef struct cls_program_info {
    size_t struct_size;
    const char *name;    /* static: "token-list" */
    int32_t dtype;       /* a cls_dtype; -1: it reads no logits */
    uint32_t origin;     /* a cls_origin */
    uint32_t work_group; /* work-items of its groups */
    uint32_t subgroups;  /* a cls_subgroups */
    double seconds; /* that it took until it was proved. Where drivers compile at the first launch
                       (PoCL), the first of some programs pays for those that its proof runs with */
    uint64_t local_mem;      /* bytes of a group, as the driver tells */
    uint64_t private_mem;    /* bytes of a work-item, as the driver tells: 0 on many that spill */
    uint64_t max_work_group; /* that the driver would run the kernel with */
    uint64_t preferred;      /* CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE */
} cls_program_info;

/* Tells of a context's programs, 0 up, in the order of the flow; others that are
 * compiled meanwhile come in between. info->struct_size must be set. Any thread.
 * CLS_OK; CLS_BAD_ARGUMENT (there are not so many). */
CLS_API cls_status cls_context_program(const cls_context *context, uint32_t index,
                                       cls_program_info *info);

/* Writes a context's compiled programs to bytes, for options->binary: for
 * devices without a compiler, and to save compiling. They are those that are
 * there and proved: what its samplers, slot calls and cls_context_compile() have
 * asked for so far, whether it was compiled here or came from options->binary
 * or the folder. After cls_context_compile() with CLS_FEATURES_ALL and all types
 * of logits these are all programs. They fit this version of the library on this
 * device, with this driver, in this shape; a SHA-256 of all that and one of the
 * contents tell.
 * out: NULL to ask for the size, which grows with each program that is compiled,
 * also by another thread between the two calls; else *size bytes, of which *size
 * are used on return. Thread-safe.
 * CLS_OK; CLS_BAD_ARGUMENT (too small: *size then says how many are needed);
 * CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE (the driver hands out no binaries);
 * CLS_OPENCL_ERROR. */
CLS_API cls_status cls_context_export(const cls_context *context, void *out, size_t *size);

/* What became of one stage's known answers. */
typedef struct cls_selftest_stage {
    const char *name; /* static */
    uint32_t cases, failed;
    char message[200]; /* of the first that failed; else empty */
} cls_selftest_stage;

#define CLS_SELFTEST_STAGES 32
typedef struct cls_selftest_report {
    size_t struct_size;
    uint32_t stages; /* of which stage[] tells; at most CLS_SELFTEST_STAGES */
    uint32_t failed; /* cases, of all */
    cls_selftest_stage stage[CLS_SELFTEST_STAGES];
} cls_selftest_report;

/* Runs known answers of every stage on the context's device, for which it
 * compiles everything: what to run first where tokens look wrong. Each answer is compared with the
 * library's host functions and with numbers that were written down when the stage was made.
 * Allocates and blocks; well under a second once kernels are compiled. Any
 * thread; goes on after a failure. report: NULL, or what to fill, with
 * struct_size set.
 * CLS_OK: all agree; CLS_SELF_TEST_FAILED: the message names the first stage
 * that does not, the report tells all; or a program does not compute what the
 * host does, which ends the self-test; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY;
 * CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_selftest(cls_context *context, cls_selftest_report *report);

/* The compiler's log of all programs so far; owned by the context, and valid until
 * it compiles again. */
CLS_API const char *cls_context_build_log(const cls_context *context);

/* ----------------------------------------------------------------- sampler */

/* What a slot keeps of its request's tokens, on the device. */
typedef enum cls_keep {
    CLS_KEEP_NONE = 0,  /* nothing: no penalties */
    CLS_KEEP_SEEN = 1,  /* which occur: no frequency penalty. 3/8 byte a token of the vocabulary */
    CLS_KEEP_COUNTS = 2 /* how often they occur. 2 1/4 bytes a token. A count that has reached
                           65,535 stays there, rollback or not */
} cls_keep;

typedef struct cls_sampler_options {
    size_t struct_size;
    uint32_t vocab;     /* tokens of a row, 1 to 1,048,576; no default */
    uint32_t max_rows;  /* most rows of a step, 1 to 65,535; default 1 */
    uint32_t slots;     /* requests that can be alive at once, up to 2^24; 0 (default): max_rows */
    int32_t keep;       /* a cls_keep; default CLS_KEEP_COUNTS */
    int32_t logit_bias; /* whether requests may have a logit_bias or allowed_ids: default 1; 0
                          refuses them, and saves no memory. A request takes with biases 1/4 byte a
                          token of the vocabulary and 4 bytes an id, with more than vocab / 128 of
                          them 4 1/8 bytes a token; with allowed ids 1/8 byte a token */
    uint32_t history; /* a request's latest tokens that are kept in order, 4 bytes each: the longest
                         penalty_window, what DRY, n-grams and bad words look at. Up to 16,384;
                         default 0 */
    uint32_t rollback; /* most tokens that cls_slot_rollback() takes back, 20 bytes each. Up to
                          16,384; default 0 */

    /* What to compile for: types of logits, bits 1u << cls_dtype, 0 (default): the
     * context's; and cls_feature bits, 0 (default): CLS_FEATURE_LISTS. A step that
     * asks for what belongs to a feature that is not named here (masks, a dense
     * bias, outputs, drafts, ...) is refused by its name. */
    uint32_t dtypes;
    uint32_t features;

    /* What slot calls need beyond that (CLS_FEATURE_PLAIN to CLS_FEATURE_STATE) they
     * compile, which may take seconds the first time. 1: they are refused instead,
     * with the feature's name; default 0. */
    int32_t no_late_compile;
    int32_t reserved; /* 0 */

    /* Bytes of the largest mask.host of a step or a verification, for which room is made at
     * creation: of packed masks without a row_stride 4 * mask.rows * ceil(vocab / 32). The sampler
     * takes this once on the device and 16 times on the host. 0 (default): steps with such masks
     * allocate when they first come, the first 16 of them on the host, and when they become larger;
     * they may then return CLS_OUT_OF_MEMORY or CLS_OPENCL_ERROR, with nothing enqueued. */
    uint64_t host_mask_size;
} cls_sampler_options;

CLS_API void cls_sampler_options_default(cls_sampler_options *options, size_t struct_size);

/* The memory that steps need, and the requests' state. One thread at a time. */
typedef struct cls_sampler cls_sampler;

/* Compiles what options->features name and is not there yet, as
 * cls_context_compile() does; allocates everything, on the host and on the device.
 * Blocks for that. Steps compile nothing, and allocate only for a mask.host larger than
 * options->host_mask_size. Retains `context`.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE;
 * CLS_BUILD_FAILED; CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR. On failure *out is
 * NULL. */
CLS_API cls_status cls_sampler_create(cls_context *context, const cls_sampler_options *options,
                                      cls_sampler **out);

/* Releases it; OpenCL keeps what steps in flight use. Blocks until the last
 * steps that uploaded parameters, maps or masks are done. NULL is allowed. */
CLS_API void cls_sampler_destroy(cls_sampler *sampler);

/* Bytes that a sampler takes. */
typedef struct cls_memory {
    size_t struct_size;
    uint64_t parameters; /* on the device: the slots' parameters and positions */
    uint64_t penalties;  /* ... which tokens prompts and outputs have, and how often */
    uint64_t history;    /* ... the latest tokens in order */
    uint64_t lists; /* ... logit biases, allowed and stop ids, tables of infill; grows with them */
    uint64_t changes; /* ... what slot calls and mask.host upload; grows with the longest prompt and
                         the largest of these masks */
    uint64_t rows;    /* ... what kernels hand each other in a step */
    uint64_t device;  /* the sum of these */
    uint64_t host;    /* on the host; with 16 copies of the largest mask.host */
} cls_memory;

/* What the infill stage knows of a model's tokens. */
typedef struct cls_infill {
    size_t struct_size;
    const int32_t *end_ids;   /* [end_count] tokens that end a generation; the first is what remains
                                 when   nothing else does */
    uint32_t end_count;       /* at least 1 */
    const int32_t *prefix_of; /* [vocab]: of each token the longest other one whose text begins its
                                 own; -1: none */
} cls_infill;

/* Gives a sampler the tables of the infill stage, in place of earlier ones;
 * copies them, blocks. Steps in flight finish with those they began with.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_sampler_infill(cls_sampler *sampler, const cls_infill *infill);

/* Checks params as cls_slot_begin() does, without a slot.
 * CLS_OK; CLS_BAD_ARGUMENT with the field's name; CLS_OUT_OF_MEMORY. */
CLS_API cls_status cls_sampler_check(const cls_sampler *sampler, const cls_params *params);

/* memory->struct_size must be set. CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API cls_status cls_sampler_memory(const cls_sampler *sampler, cls_memory *memory);

/* ------------------------------------------------------------------- slots
 *
 * Slot calls copy their arrays and may allocate; the first one whose parameters need
 * a feature that the sampler was not created for compiles it, which may take
 * seconds, and may fail as cls_sampler_create() does: CLS_UNSUPPORTED_DEVICE,
 * CLS_BUILD_FAILED or CLS_SELF_TEST_FAILED. They take effect in the order
 * of the calls, with the next cls_sample(), cls_accept() or cls_slot_save() of
 * the sampler, after everything enqueued before it. Each touches its own slot
 * and no other. A call that fails changes nothing: no slot, and no token of a
 * later step. Programs that it compiled before it failed stay, for calls that
 * need them later.
 *
 * Token ids outside the vocabulary (padding, placeholders of images) are left
 * out, as if they were not in the array. */

/* Starts a request in a slot, whatever was there. prompt: int32 [prompt_count],
 * NULL with 0. output: int32 [output_count], tokens that the request has
 * generated before (on another slot, in another process, before it was
 * preempted): its position is params->position plus their number, and if it
 * ends with a stop id and has min_tokens tokens, or is max_tokens long, the
 * request has stopped already.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE;
 * CLS_BUILD_FAILED; CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_begin(cls_sampler *sampler, uint32_t slot, const cls_params *params,
                                  const int32_t *prompt, uint32_t prompt_count,
                                  const int32_t *output, uint32_t output_count);

/* Adds to a begun request's prompt: the next chunk of a prefill, or of a
 * conversation. A request that stopped by a stop id goes on after it; one that
 * stopped by max_tokens does not. Its output stays output: see cls_slot_next_turn().
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_append_prompt(cls_sampler *sampler, uint32_t slot,
                                          const int32_t *prompt, uint32_t prompt_count);

/* A conversation's next turn: what the request has put out so far becomes prompt, and `prompt`
 * (int32 [prompt_count], NULL with 0) is added to it. min_tokens and max_tokens count from 0 again,
 * and nothing so far counts by CLS_SCOPE_OUTPUT. A request that had stopped goes on, also one that
 * max_tokens stopped. The position goes on, so that no random number is drawn twice. top_p's decay
 * starts over; mirostat's mu and adaptive p's average stay. n-grams, DRY and windows see output of
 * earlier turns as the prompt that it is, and cls_slot_rollback() cannot take it back: that ends
 * the request. (vLLM and llama.cpp begin another request instead, with all of the text as its
 * prompt.) CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_next_turn(cls_sampler *sampler, uint32_t slot, const int32_t *prompt,
                                      uint32_t prompt_count);

/* Changes the parameters of a begun slot; its position goes on
 * (params->position is ignored). Whether it has stopped is asked anew: with a
 * larger max_tokens it goes on. With another penalty_scope or penalty_window
 * the counts are made anew from the sampler's `history` latest tokens; older
 * ones don't count from then on. With a `history` of 0 another scope is refused.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE;
 * CLS_BUILD_FAILED; CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_params(cls_sampler *sampler, uint32_t slot, const cls_params *params);

/* Makes slot `to` (whatever was there) the same request as the begun slot
 * `from`, position, counts and history included: a fork. Both draw the same
 * numbers until cls_slot_params() gives one another seed or stream.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE;
 * CLS_BUILD_FAILED; CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_copy(cls_sampler *sampler, uint32_t to, uint32_t from);

/* Takes back the last n accepted output tokens, as if they had never been:
 * position, counts, history, windows, a stop, mirostat's mu and the like. Rollbacks add up: a
 * request is never more than the sampler's `rollback` tokens shorter than its longest so far. Only
 * output since the last chunk of prompt can be taken back. The same positions then draw the same
 * numbers (cls_step.draws: others). The host does not know how many tokens there are: where the
 * device cannot do it, this still returns CLS_OK, the request ends, its rows get CLS_ROW_NO_SLOT,
 * and later calls on it do nothing until another request is there. CLS_OK; CLS_BAD_ARGUMENT;
 * CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED; CLS_SELF_TEST_FAILED;
 * CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_rollback(cls_sampler *sampler, uint32_t slot, uint32_t n);

/* Frees a slot. A row that names it by a device map gets CLS_ROW_NO_SLOT; a
 * step that names it by a host map, or by having none, is refused.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_reset(cls_sampler *sampler, uint32_t slot);

/* Writes a begun slot's whole state to bytes, for another slot, sampler,
 * process or machine. Waits on `queue` for the sampler's steps and slot calls.
 * *size: in, the bytes at `out`; out, the bytes of the state. out NULL: only
 * the size, which the next step may change.
 * CLS_OK; CLS_BAD_ARGUMENT (out is too small, and *size says what it takes; the
 * slot has no request, or a rollback ended it); CLS_BUSY; CLS_OUT_OF_MEMORY;
 * CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_save(cls_sampler *sampler, cl_command_queue queue, uint32_t slot,
                                 void *out, size_t *size);

/* Makes a slot (whatever was there) what was saved. The sampler must have the
 * vocab, keep, history and rollback of the one that saved, and logit_bias if
 * the request has a logit bias or allowed ids. Bytes of the versions 0.3 to 0.6
 * (format 2) are read as well as this version's (format 3).
 * CLS_OK; CLS_BAD_ARGUMENT (damaged, cut short, of another version or another
 * kind of sampler: the message says which); CLS_OUT_OF_MEMORY;
 * CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED; CLS_SELF_TEST_FAILED;
 * CLS_OPENCL_ERROR. */
CLS_API cls_status cls_slot_load(cls_sampler *sampler, uint32_t slot, const void *bytes,
                                 size_t size);

/* -------------------------------------------------------------------- step */

typedef enum cls_logits_kind {
    CLS_LOGITS_BUFFER = 0 /* a cl_mem buffer */
} cls_logits_kind;

/* Logits [rows, vocab], row-major; read only. (With a step's logits_map [logits_rows, vocab].) */
typedef struct cls_logits {
    int32_t kind;  /* a cls_logits_kind */
    int32_t dtype; /* a cls_dtype that the sampler was compiled for */
    cl_mem buffer;
    uint64_t offset;     /* bytes to row 0; a multiple of the element's size */
    uint64_t row_stride; /* elements from row to row; 0: vocab. At least vocab */
} cls_logits;

/* A buffer of the caller's, or none (buffer NULL). */
typedef struct cls_buffer {
    cl_mem buffer;
    uint64_t offset; /* bytes; a multiple of the element's size */
} cls_buffer;

/* One int32 per row: on the host (copied by the call), on the device, or
 * neither. Both: refused. */
typedef struct cls_ints {
    const int32_t *host;
    cls_buffer device;
} cls_ints;

typedef enum cls_mask_kind {
    CLS_MASK_PACKED = 0, /* int32 words as XGrammar and llguidance write them: token t is allowed
                            iff bit t % 32 of word t / 32 is set. Bits beyond the vocabulary are
                            ignored */
    CLS_MASK_BOOL = 1    /* bytes, as QEfficient's token_bitmasks: token t is allowed iff byte t is
                            not 0 */
} cls_mask_kind;

/* Which tokens a row may draw. An element is a word or a byte, as the kind
 * says. Tokens beyond the mask's width are not allowed. */
typedef struct cls_mask {
    cls_buffer words;
    uint32_t width;      /* elements of a mask row; 0: ceil(vocab / 32) words, vocab bytes */
    uint32_t rows;       /* mask rows in the buffer; 0: as many as the step's */
    uint64_t row_stride; /* elements from mask row to mask row; 0: width */
    cls_ints row_map;    /* which mask row a row uses, -1: none; absent: row r uses mask row r */
    int32_t kind;        /* a cls_mask_kind */
    int32_t reserved;    /* 0 */
    const void *host; /* the masks on the host in place of `words`, rows as above: the call copies
                         them, and uploads them through a ring, so that a grammar may fill the next
                         ones while the queue runs. It allocates, unless the sampler's
                         options->host_mask_size is as large as they are */
} cls_mask;

/* Values added to every logit of a row (guidance, watermarks, a caller's own
 * processor): [rows, vocab]. -inf bans; a sum that is NaN or infinite counts as
 * if the logit itself were so. */
typedef struct cls_dense_bias {
    cls_buffer values;
    int32_t dtype;       /* CLS_F32 or CLS_F16 */
    uint32_t rows;       /* rows in the buffer; 0: as many as the step's */
    uint64_t row_stride; /* elements from row to row; 0: vocab */
    cls_ints row_map;    /* which row a row uses, -1: none; absent: row r uses row r */
} cls_dense_bias;

typedef enum cls_logprob_kind {
    CLS_LOGPROB_RAW =
        0, /* of the logits as they came, at temperature 1, unmasked, whatever a token weighs */
    CLS_LOGPROB_FINAL =
        1 /* of the distribution that was drawn from; of greedy rows 0 for their token, -inf for
             others. Weights are integers, so a kept token may weigh nothing: `probs` has 0, and its
             log-probability is -inf. That begins between 29 and 30 bits (20.1 and 20.8 nats) under
             the likeliest of the 1,024 tokens in a tile (ids 1024 t to 1024 t + 1023), and 42 to 43
             bits under the row's. All such tokens together have less than 1023 * 2^-29 +
             vocab * 2^-42 of the exact softmax's probability, 2.2e-6 at the most
             (doc/arithmetic.md). A row that is truncated never draws one; one that is not may, in
             less than vocab * 2^-42 of all draws, and the drawn token's own log-probability
             (`logprobs`) is finite then. */
} cls_logprob_kind;

/* One step: what comes in, what is wanted. What is not asked for is not
 * computed. Outputs may overlap neither each other nor an input, nor may sub-buffers of one buffer:
 * that is CLS_BAD_ARGUMENT, as images, CL_MEM_READ_ONLY outputs and CL_MEM_WRITE_ONLY inputs are,
 * here and in all calls that take buffers. (Two buffers over the same memory of the host are not
 * recognised.) All buffers are the caller's and must stay as they are until the step's event is
 * complete; host arrays may be reused when the call returns. */
typedef struct cls_step {
    size_t struct_size;
    uint32_t rows; /* 1 to max_rows */

    cls_logits logits;

    /* The slot of each row; -1 skips the row. Absent: row r is slot r, and all
     * of these must have a request. A host
     * map is checked by the call, a device map by the kernels
     * (CLS_ROW_NO_SLOT). A slot may occur once, unless `defer_accept` is set;
     * what a device map that breaks this makes of that slot is undefined. */
    cls_ints slots;

    /* Positions to use in place of the slots' own, taken as uint32. Absent: the
     * slots' own, which move on by one either way. */
    cls_ints positions;

    /* Which of a position's draws each row makes, 0 to 2^24 - 1: several rows
     * of one slot, or another try at one position, draw independent numbers by
     * different ones. Absent: 0. Of a device's numbers the lower 24 bits count. */
    cls_ints draws;

    /* The 64 random bits of each row as uint64, in place of Philox. */
    cls_buffer random;

    cls_mask mask;       /* words.buffer NULL: everything is allowed */
    cls_dense_bias bias; /* values.buffer NULL: none */

    /* 0: the drawn token is accepted: it enters its slot's state before
     * anything enqueued later reads that. 1: the slots stay as they are, and
     * several rows may share one; cls_accept() may follow. Status and outputs
     * are those of an accepted token. */
    int32_t defer_accept;

    /* What a row without a token gets; default -1. With defer_accept an id of the
     * vocabulary is refused, since a later cls_accept() would accept it. */
    int32_t invalid_token;

    cls_buffer tokens;    /* int32 [rows] */
    cls_buffer status;    /* int32 [rows], cls_row_status bits */
    cls_buffer logprobs;  /* float32 [rows], natural logarithm; -inf without a token */
    int32_t logprob_kind; /* a cls_logprob_kind; default CLS_LOGPROB_RAW */
    int32_t reserved;     /* 0 */

    /* float32 [rows, vocab], row-major and dense: the distribution that was
     * drawn from, 0 outside the kept set and for kept tokens that weigh nothing
     * (CLS_LOGPROB_FINAL); one-hot for greedy rows, all 0 without a token. Its total
     * variation from the exact softmax is less than 1.7e-7 (entropy in bits + 2) +
     * 1023 * 2^-29 + vocab * 2^-42. Where nothing truncates a row, a token that it
     * gives 0 may yet be drawn, in less than vocab * 2^-42 of all draws. Unlike
     * tokens, statuses and logprobs it may differ in the last bit from device to
     * device. */
    cls_buffer probs;

    /* int32 [slots]: each row's token at its slot's place, for a next embedding
     * look-up that goes by slots; what rows without a token, and slots without
     * a row, have there stays. Not with several rows of one slot.
     *
     * Only rows write it; slot calls and cls_accept() do not. The runtime does the rest:
     * - When a request joins, begins its next turn or gets more prompt, it writes the last
     *   token of the prompt there, if that is the first one that is looked up; after
     *   cls_accept() the accepted token.
     * - A fork needs a copy of its parent's entry, made on the device and behind the
     *   parent's last step. While that step is in flight, cls_slot_copy() gives the child
     *   the state after it, and the latest token that the host knows is one step old.
     * - After cls_slot_rollback() the entry is still a token that was taken back, until
     *   the runtime writes the last one that is left. */
    cls_buffer latest;

    /* More about a row, each on request. What follows up to given_ranks is, as
     * logprobs are, of what logprob_kind says: the raw logits, or the distribution
     * that was drawn from, in which only the tokens of the kept set are (a greedy
     * row: its token, with logprob 0). Order is that of the logits, likeliest first,
     * ties by lower id; with adaptive p, too, which changes probabilities only.
     * Numbers whose buffers are absent must be 0, and the other way round. Any of
     * the buffers of one number may be absent, but not given_ids, and not all.
     *
     * Rank: how many tokens have a logit at least as large as the token's: 1 is the
     * likeliest, tokens that tie have the same. 0 without a token. */
    cls_buffer ranks; /* int32 [rows] */

    /* The top_n likeliest tokens, 0 to 128, and no more than
     * cls_device_info.shortlist: beyond the last one the id is -1 and the logprob
     * -inf. */
    uint32_t top_n;
    uint32_t given_n;
    cls_buffer top_ids;      /* int32 [rows, top_n] */
    cls_buffer top_logprobs; /* float32 [rows, top_n] */

    /* Tokens of the caller's choice, given_n a row, 0 to 1024. An id outside the
     * vocabulary (-1) is none: logprob -inf, rank 0, as of a token that is not kept,
     * and in rows without a token. A kept token that weighs nothing has a rank and,
     * with CLS_LOGPROB_FINAL, the logprob -inf. Ranks of many ids take a read of the
     * row for all of them on CPUs, and elsewhere one for four of them. */
    cls_buffer given_ids;      /* in: int32 [rows, given_n] */
    cls_buffer given_logprobs; /* float32 [rows, given_n] */
    cls_buffer given_ranks;    /* int32 [rows, given_n] */

    /* All below is of the distribution that was drawn from.
     *
     * The adjusted logits (masked, biased, penalised, not divided by the
     * temperature) of the tokens of the kept set, -inf elsewhere: float32
     * [rows, vocab], dense. All -inf without a token. */
    cls_buffer final_logits;

    cls_buffer entropy; /* float32 [rows], in nats; 0 for greedy rows and without a token */
    cls_buffer kept;    /* int32 [rows]: tokens of the kept set; 0 without a token */
    cls_buffer
        kept_mass; /* float32 [rows]: its share of the probability of all allowed tokens, penalties
                      and temperature applied; 1 for greedy rows, 0 without a token. It and
                      candidate_probs may differ in the last bit from device to device */

    /* The kept set itself, for a host that goes on filtering: the first
     * candidates_n tokens in order, 0 to cls_device_info.shortlist, and how many
     * there are in all, which may be more. Beyond the last one: -1, -inf, 0. What
     * the host made of them, cls_draw() draws from. */
    uint32_t candidates_n;
    uint32_t reserved_2;         /* 0 */
    cls_buffer candidate_ids;    /* int32 [rows, candidates_n] */
    cls_buffer candidate_logits; /* float32 [rows, candidates_n], as final_logits */
    cls_buffer candidate_probs;  /* float32 [rows, candidates_n] */
    cls_buffer candidate_counts; /* int32 [rows] */

    /* Which row of `logits` each row reads, so that several slots sample one: the continuations
     * of a prompt after its prefill. -1 skips the row (CLS_ROW_SKIPPED); a number out of range is
     * CLS_ROW_NO_SLOT in a device map, CLS_BAD_ARGUMENT in a host map. Absent: row r reads row r.
     * The other maps, masks and outputs go by the step's rows. */
    cls_ints logits_map;
    uint32_t logits_rows; /* rows of `logits`; 0: rows. Without logits_map at least `rows` */
    uint32_t reserved_3;  /* 0 */
} cls_step;

CLS_API void cls_step_default(cls_step *step, size_t struct_size);

/* Enqueues one step on `queue`, which belongs to the context and may be in
 * order or out of order: no waiting, no compilation, and no allocation but for a mask.host
 * larger than options->host_mask_size. The step
 * runs after `wait` (n_wait events; NULL if 0), after everything enqueued
 * before it where the queue is in order, and after this sampler's earlier
 * steps on whatever queue. *done (may be NULL) becomes the caller's: it is the
 * last of several commands, so its profile is that command's and no more; it is
 * complete when all outputs are written and the state is updated. The queue is
 * not flushed; another one, where the sampler's last step lies, is.
 *
 * CLS_OK; CLS_BAD_ARGUMENT (nothing was enqueued); CLS_BUSY: 16 steps with slot
 * calls or changed host arrays are in flight, as many as there is staging for
 * (nothing was enqueued: flush the queue, wait for an earlier step, call again);
 * CLS_OUT_OF_MEMORY, or CLS_OPENCL_ERROR with the sampler as it was: no memory for a mask.host that
 * is larger than options->host_mask_size (nothing was enqueued);
 * CLS_OPENCL_ERROR: OpenCL refused a command, and *done is NULL. If slot calls
 * or a kernel had been enqueued before it, slots may be half changed, and the
 * sampler is lost: all its sampling, accepting and slot calls return
 * CLS_OPENCL_ERROR from then on, with cls_error_opencl() CL_SUCCESS. So it is,
 * and nobody tells, if *done or one of `wait` ends with a negative status:
 * destroy the sampler then. */
CLS_API cls_status cls_sample(cls_sampler *sampler, cl_command_queue queue, const cls_step *step,
                              cl_uint n_wait, const cl_event *wait, cl_event *done);

/* Enqueues the acceptance of tokens made elsewhere (forced, drawn by a host,
 * chosen among deferred rows): tokens, a host array (copied) or a buffer, enter
 * the slots' states as if they had been drawn. A row's id outside the
 * vocabulary, a slot of -1 or one that has stopped, and by a device map one that
 * has no request: that row does nothing. Mirostat and adaptive p move on if the
 * token is the one that the slot's last deferred step drew (of several rows of
 * one slot: the first one). There is no row status, and `latest`
 * is not written: that a token ended its request, the slot's next row tells.
 * rows: 1 to max_rows. slots: as in cls_step, none twice; NULL: row r is slot r.
 * Queue, events and what is returned: as cls_sample(). */
CLS_API cls_status cls_accept(cls_sampler *sampler, cl_command_queue queue, uint32_t rows,
                              const cls_ints *tokens, const cls_ints *slots, cl_uint n_wait,
                              const cl_event *wait, cl_event *done);

/* Kernel launches of the last cls_sample() or cls_accept(). A step: 2 where the
 * parameters of all rows bound their sets to the shortlist (with a device map:
 * of all begun slots), 4 otherwise; 1 more before these for DRY, n-grams, bad
 * words and min_tokens; 2 more for logprobs, ranks, top and given tokens
 * of the raw logits; 1 more for these of the final distribution, entropy, kept,
 * kept_mass and candidates together; 1 more for entropy, kept_mass, probs and
 * final_logits together; and 1 for accepting after what tells of the final
 * distribution. cls_logprobs(): 2. cls_draw(): 1.
 * Slot calls before it: 1 more, or as many as the longest chain of calls that wait for
 * each other has. A call waits for the earlier calls on its slot, a copy for those on its
 * source as well, and a later call on the source for the copy; copies of one slot do not
 * wait for each other. Calls that follow each other on a slot count as one where the
 * result is the same: prompts that are appended to a beginning or to each other, up to
 * 8,192 tokens; a beginning, a reset or a load after any other call; new parameters
 * after parameters that changed neither window, scope, top_p nor which of mirostat,
 * adaptive p and top-p decay are on. Of more than 65,535 calls that need not wait, each
 * further 65,535 take 1 more. */
CLS_API uint32_t cls_sampler_launches(const cls_sampler *sampler);

/* --------------------------------------------------- speculative decoding */

/* How drafts are verified. Whatever the method, greedy requests accept a draft
 * iff it is the row's largest logit, and requests whose sampler needs each token
 * before the next (mirostat, adaptive p, top-p decay) take one token a call. */
typedef enum cls_verify_method {
    /* A draft is accepted iff it is the token that cls_sample() would draw there,
     * which is emitted where it is not: a seeded text is bit for bit the one
     * without drafts. For drafts without a distribution, and for trees. */
    CLS_VERIFY_MATCH = 0,
    /* A draft d is accepted iff u q(d) < p(d); the first one that is not is replaced by a
     * draw from max(p - q, 0). Lossless (Leviathan et al. 2023, Chen et al. 2023). */
    CLS_VERIFY_STANDARD = 1,
    /* The same law with longer prefixes: all drafts are judged together (Sun et al.
     * 2024, block verification). */
    CLS_VERIFY_BLOCK = 2,
    /* A draft is accepted iff p(d) > min(epsilon, delta e^-H), H the row's entropy;
     * where it is not, the row's own draw is emitted. Not lossless (Medusa, Cai et
     * al. 2024). */
    CLS_VERIFY_TYPICAL = 3,
    /* As if the temperature of all requests were 0. */
    CLS_VERIFY_GREEDY = 4
} cls_verify_method;

typedef enum cls_draft_kind {
    CLS_DRAFT_NONE = 0,  /* no distribution (look-up, n-grams): standard and block take q(d) as 1 */
    CLS_DRAFT_PROBS = 1, /* float32 probabilities, such as the `probs` of the step that drew the
                            drafts. What is negative or NaN is 0, what is above 1 is 1 */
    CLS_DRAFT_LOGITS = 2 /* logits of the target's dtype; q is their softmax, at temperature 1 */
} cls_draft_kind;

#define CLS_MAX_DRAFTS 128 /* of a request */

/* Drafts of several requests and what the model says of them. Request i has the
 * target rows cu[i] to cu[i + 1] - 1: the first one follows its text so far, and
 * one more follows each draft, in order; so it has cu[i + 1] - cu[i] - 1 drafts,
 * and these are drafts cu[i] - i up of draft_ids. All parameters of the requests
 * hold at every row, with the drafts before it as if they had been accepted:
 * penalties and their windows, DRY, n-grams, bad words, min_tokens, chains. */
typedef struct cls_verify_call {
    size_t struct_size;
    uint32_t requests; /* 1 to max_rows */
    int32_t method;    /* a cls_verify_method */
    const int32_t *cu; /* [requests + 1], 0 first, each at least 1 and at most 129 above the one
                          before; the last is the number of target rows, 1 to max_rows */
    cls_logits logits; /* [cu[requests], vocab] */
    const int32_t
        *slots; /* [requests], none twice; -1 skips a request. NULL: request i is slot i */
    const int32_t
        *positions; /* [requests]: of the first rows, in place of the slots' own, taken as uint32; a
                    row's is greater by the drafts before it. NULL: the slots' own */
    const int32_t *draws; /* [requests], as cls_step.draws. NULL: 0 */

    cls_ints draft_ids; /* [cu[requests] - requests]. An id outside the vocabulary (-1) ends its
                           request's drafts: the row before it draws for itself */
    /* Trees: the index, in the request's drafts, of the draft that each one follows, which comes
     * before it, or -1: it follows the text. NULL: each follows the one before. Only with
     * CLS_VERIFY_MATCH and CLS_VERIFY_GREEDY: sibling drafts of the other methods would need the
     * law by which they were drawn without replacement. */
    const int32_t *parents; /* [cu[requests] - requests] */

    int32_t draft_kind; /* a cls_draft_kind; for CLS_VERIFY_STANDARD and _BLOCK. A draft that its
                           own distribution gives no probability (or NaN) cannot come from it and
                           ends its request's drafts */
    int32_t
        disable_bonus; /* 1: no token of the target's own follows where all drafts are accepted */
    cls_buffer draft;  /* [cu[requests] - requests, vocab]; beside draft_ids */
    uint64_t draft_stride; /* elements from row to row; 0: vocab */

    cls_mask mask;       /* as in cls_step, by target row: a mask a position */
    cls_dense_bias bias; /* likewise */

    float epsilon, delta; /* of CLS_VERIFY_TYPICAL; default 0.09, 0.3 */

    /* What is emitted: the accepted drafts, then a token of the target's, unless a
     * stop id or max_tokens ended the request, its row was empty, or by
     * disable_bonus. Only that enters the slots. */
    uint32_t
        max_drafts; /* the outputs' width; at least every request's drafts. 0: the most of them */
    uint32_t reserved;   /* 0 */
    cls_buffer tokens;   /* int32 [requests, max_drafts + 1], then -1 */
    cls_buffer accepted; /* int32 [requests]: drafts that were emitted */
    cls_buffer emitted;  /* int32 [requests]: tokens in all */
    cls_buffer nodes;    /* int32 [requests, max_drafts]: which drafts these were, then -1: the path
                            through a    tree, whose keys and values are to be kept */
    cls_buffer status;   /* int32 [requests]: cls_row_status bits of the rows that were looked at */
    cls_buffer counters; /* int32 [slots, 3]: drafts given (those behind an id of -1, too), drafts
                            accepted, tokens emitted; added to what is there, which the caller
                            clears at first. Requests that are skipped or had stopped add nothing.
                            Rates, without the host */
    cls_buffer latest;   /* int32 [slots]: the last token that was emitted, at its request's slot;
                            what requests   without a token have there stays. Joins, forks and
                            rollbacks: as cls_step.latest */
} cls_verify_call;

CLS_API void cls_verify_call_default(cls_verify_call *call, size_t struct_size);

/* Enqueues a verification: 4 to 6 kernel launches however long the drafts are, and 2 for the
 * threshold search where parameters need it. Random numbers: Philox by
 * position, with purposes of their own for accepting and for the residual. Queue, events and
 * what is returned: as cls_sample().
 * CLS_OK; CLS_BAD_ARGUMENT (nothing was enqueued; among others a tree with a method that takes
 * none); CLS_BUSY; CLS_OUT_OF_MEMORY (mask.host); CLS_OPENCL_ERROR. */
CLS_API cls_status cls_verify(cls_sampler *sampler, cl_command_queue queue,
                              const cls_verify_call *call, cl_uint n_wait, const cl_event *wait,
                              cl_event *done);

/* Log-probabilities of many rows without requests: those of a prompt, of a text
 * to be scored. Fields are as in cls_step with CLS_LOGPROB_RAW. */
typedef struct cls_logprobs_call {
    size_t struct_size;
    uint32_t rows; /* 1 to max_rows; longer prompts in several calls */
    uint32_t top_n;
    uint32_t given_n;  /* usually 1: the token that follows the row's */
    uint32_t reserved; /* 0 */
    cls_logits logits;
    cls_buffer given_ids, given_logprobs, given_ranks;
    cls_buffer top_ids, top_logprobs;
} cls_logprobs_call;

CLS_API void cls_logprobs_call_default(cls_logprobs_call *call, size_t struct_size);

/* Enqueues it. Reads no slot and changes none; works in the sampler's own memory,
 * some bytes for every 64 logits: there is no log-softmax of [rows, vocab]. Slot
 * calls before it take effect with it. A row without a finite logit has no tokens:
 * -1, -inf and 0. Queue, events and what is returned: as cls_sample(). */
CLS_API cls_status cls_logprobs(cls_sampler *sampler, cl_command_queue queue,
                                const cls_logprobs_call *call, cl_uint n_wait, const cl_event *wait,
                                cl_event *done);

/* Draws from lists of candidates that the host has filtered. Fields that are not
 * explained are as in cls_step. */
typedef struct cls_draw_call {
    size_t struct_size;
    uint32_t rows;     /* 1 to max_rows */
    uint32_t n;        /* candidates of a row, 1 to 16,384 */
    cls_buffer ids;    /* int32 [rows, n]. An id outside the vocabulary, and a logit that is NaN or
                          -inf, is no candidate. An id that occurs twice may be drawn by either */
    cls_buffer logits; /* float32 [rows, n]: a candidate's weight is e^logit, so they must have been
                          divided by the temperature already; logarithms of weights of any sum do as
                          well */
    cls_buffer counts; /* int32 [rows]: candidates that count, from the first on; absent: n. Below 0
                          is 0, above n is n */
    uint64_t row_stride; /* elements of ids and of logits from row to row; 0: n */
    cls_ints slots, positions, draws;
    cls_buffer random;
    int32_t defer_accept;
    int32_t invalid_token;
    cls_buffer tokens, status, latest;
} cls_draw_call;

CLS_API void cls_draw_call_default(cls_draw_call *call, size_t struct_size);

/* Enqueues it. A slot gives the random number, which is that of cls_sample() at the
 * same position and draw, and takes the token; its parameters are not asked, but for
 * what ends the request. The order of the list is the order of the draw: the token is
 * the same, bit for bit, on every device and in cls_host_draw(). It follows the law
 * of cls_sample(), but is not the token that cls_sample() draws from these
 * candidates, which it orders and rounds otherwise. A row that has no candidate gets
 * CLS_ROW_EMPTY. Queue, events and what is returned: as cls_sample(). */
CLS_API cls_status cls_draw(cls_sampler *sampler, cl_command_queue queue, const cls_draw_call *call,
                            cl_uint n_wait, const cl_event *wait, cl_event *done);

/* ----------------------------------------------------------------- LM head */

/* The layer before the sampler: logits = scale * (hidden * weight^T) + bias,
 * then softcap * tanh(logits / softcap). One thread at a time. */
typedef struct cls_head cls_head;

/* Whether the library was built with CLBlast, without which float32 weights
 * are CLS_UNSUPPORTED_DEVICE. */
CLS_API int cls_head_has_clblast(void);

typedef struct cls_head_options {
    size_t struct_size;
    uint32_t vocab;    /* 1 to 1,048,576; no default */
    uint32_t hidden;   /* d, the length of a hidden row, 1 to 65,536; no default */
    uint32_t max_rows; /* most rows of a call, 1 to 65,535; default 1 */
    int32_t dtype;     /* the weight's: CLS_F32 (default) or CLS_F16. Hidden rows are float32 */
    cls_buffer weight; /* [vocab, hidden]; retained, and read in every call */
    uint64_t weight_stride; /* elements from row to row; 0: hidden */
    cls_buffer bias;        /* float32 [vocab], retained; buffer NULL (default): none */
    float scale;            /* default 1; finite */
    float softcap;          /* 0 (default): off. Negative, infinite, NaN: refused */
} cls_head_options;

CLS_API void cls_head_options_default(cls_head_options *options, size_t struct_size);

/* Compiles, allocates and warms up on `queue`; blocks, and needs memory for a
 * second `logits` meanwhile. What the weight holds does not matter yet. Retains
 * `context`.
 *
 * float16 weights are multiplied by a kernel of the library that needs no
 * cl_khr_fp16 and sums in float32 (CLBlast's would sum in float16). Each row's
 * logits are the same bits in any batch, at any place, in any head of that
 * device with these weights.
 *
 * float32 weights are multiplied by CLBlast's GEMM (Nugteren 2018), always as
 * max_rows rows, so that one shape is compiled and a row's logits don't depend
 * on what else is in the batch. On the place of the row they do not depend
 * either, as far as the device's compiler treats the edge of a tile as its
 * inside: CLBlast adds up in the same order everywhere. Heads of other max_rows
 * may round differently. vocab * weight_stride and vocab * max_rows stay below
 * 2^31, where CLBlast's counting ends.
 *
 * CLBlast is an exception to what this library promises: it keeps its programs
 * for the process (they retain the OpenCL context until CLBlastClearCache() or
 * the exit, whose destructors release them), may write to standard output when
 * it fails to compile one, and may allocate in every call. A head of float16
 * weights never calls it.
 *
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE (built
 * without CLBlast, or CLBlast refuses the device or the size: the message says
 * which); CLS_BUILD_FAILED (the message has the log's beginning);
 * CLS_OPENCL_ERROR. On failure *out is NULL. */
CLS_API cls_status cls_head_create(cls_context *context, cl_command_queue queue,
                                   const cls_head_options *options, cls_head **out);

/* Releases it; commands in flight keep what they use. Waits for the calls under
 * way that uploaded maps. NULL is allowed. */
CLS_API void cls_head_destroy(cls_head *head);

/* One product. */
typedef struct cls_head_call {
    size_t struct_size;
    uint32_t rows;          /* rows of logits, 1 to max_rows */
    uint32_t hidden_rows;   /* rows of `hidden`; 0: rows */
    cls_buffer hidden;      /* float32 [hidden_rows, hidden] */
    uint64_t hidden_stride; /* elements from row to row; 0: the options' hidden */
    cls_ints which;    /* for each row of logits the row of `hidden` that it comes from (the last
                          position of each request), -1: zeros in its place; absent: row r from
                          row r. What a device map names beyond hidden_rows gives zeros, too */
    cls_buffer logits; /* float32 [max_rows, vocab], dense: what cls_sample() then reads as
                          CLS_F32. Rows from `rows` on may be overwritten */
} cls_head_call;

CLS_API void cls_head_call_default(cls_head_call *call, size_t struct_size);

/* Enqueues it after `wait`; *done (may be NULL) becomes the caller's. No
 * waiting, no compilation. CLBlast takes no wait list: on an out-of-order queue
 * barriers before and after the call order it with everything else there. Calls
 * of one head follow one another, on whatever queues. A host map is copied. The
 * queue is not flushed.
 * CLS_OK; CLS_BAD_ARGUMENT (nothing was enqueued); CLS_BUSY (more calls with
 * changed host maps are in flight than there is staging for: flush the queue,
 * wait for an earlier one, call again); CLS_OPENCL_ERROR. */
CLS_API cls_status cls_head_logits(cls_head *head, cl_command_queue queue,
                                   const cls_head_call *call, cl_uint n_wait, const cl_event *wait,
                                   cl_event *done);

/* ---------------------------------------------------------------- readback */

/* Brings small results to the host without stalling the queue: a ring of
 * page-locked memory. One thread at a time. */
typedef struct cls_readback cls_readback;

/* A ring of `depth` entries (1 to 1024) of `size` bytes (1 to 2^30) each;
 * blocks. Who has up to n steps under way, and takes a step's result before it
 * enqueues another, needs n of them. Retains `context`.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR. */
CLS_API cls_status cls_readback_create(cls_context *context, size_t size, uint32_t depth,
                                       cls_readback **out);

/* Waits for reads under way, then releases it. NULL is allowed. */
CLS_API void cls_readback_destroy(cls_readback *readback);

/* Enqueues a read of `size` bytes from `from`, after `wait`, into the ring's
 * next entry, and numbers it: *ticket is 0 for the first, then 1, 2, ... The
 * queue is not flushed. `queue` and `from` belong to the context.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_BUSY (that entry's last read is still under way:
 * wait for it by cls_readback_get() and start the read again, not the step);
 * CLS_OPENCL_ERROR. */
CLS_API cls_status cls_readback_start(cls_readback *readback, cl_command_queue queue,
                                      const cls_buffer *from, size_t size, cl_uint n_wait,
                                      const cl_event *wait, uint64_t *ticket);

/* The bytes of a ticket, which stay where they are until `depth` more reads
 * have been started. block 0: never waits. block 1: flushes the queue and waits.
 * CLS_OK; CLS_BAD_ARGUMENT (no such ticket, or overwritten); CLS_BUSY (not there
 * yet; only if block is 0); CLS_OPENCL_ERROR. */
CLS_API cls_status cls_readback_get(cls_readback *readback, uint64_t ticket, int block,
                                    const void **data);

/* -------------------------------------------------------------------- host */

/* What mirostat, adaptive p and top-p decay remember of a request. */
typedef struct cls_host_mode {
    uint32_t begun;       /* 0: nothing yet, whatever the rest says */
    int32_t mu;           /* bits * 2^20 */
    uint32_t sum, weight; /* adaptive p's averages, * 2^24 */
    uint32_t top_p;       /* decayed, * 2^32 */
} cls_host_mode;

/* One row for cls_host_sample(). */
typedef struct cls_host_row {
    size_t struct_size;
    const void *logits; /* [vocab] of dtype */
    int32_t dtype;      /* a cls_dtype */
    uint32_t vocab;
    const void *mask;       /* as in cls_mask; NULL: everything is allowed */
    uint32_t mask_width;    /* elements; tokens beyond them are not allowed; 0: as many as there are
                               tokens */
    uint32_t position;      /* of this draw: params->position plus the number of valid ids in
                               `output`. Neither is added here */
    const uint64_t *random; /* 64 random bits in place of Philox; NULL: Philox */
    const cls_params *params;
    int32_t invalid_token;
    int32_t mask_kind; /* a cls_mask_kind */
    const void *bias;  /* [vocab] of bias_dtype, as cls_dense_bias; NULL: none */
    int32_t bias_dtype;

    /* The request's tokens so far, as in cls_slot_begin(). */
    uint32_t prompt_count;
    const int32_t *prompt;
    const int32_t *output;
    uint32_t output_count;
    uint32_t draw; /* as cls_step.draws */

    /* How many of the latest tokens DRY and n-grams look at: the sampler's
     * `history`. 0: all. */
    uint32_t history;
    uint32_t reserved;        /* 0 */
    const cls_infill *infill; /* for params->infill, else NULL */
    cls_host_mode mode;       /* before this token: what the row before it gave; default: at the
                                 beginning,       top_p decayed by `output` */
} cls_host_row;

typedef struct cls_host_result {
    size_t struct_size;
    int32_t token;
    int32_t status;    /* cls_row_status bits */
    uint32_t kept;     /* tokens that survived the chain */
    float logprob_raw; /* as CLS_LOGPROB_RAW */
    float
        logprob_final; /* as CLS_LOGPROB_FINAL; of the token drawn, so finite but without a token */
    uint32_t reserved;
    float *probs;       /* in: where to put [vocab] probabilities, or NULL */
    cls_host_mode mode; /* after this token */
} cls_host_result;

CLS_API void cls_host_row_default(cls_host_row *row, size_t struct_size);

/* The reference: samples one row on the host, in plain C, giving the token
 * that cls_sample() gives, bit for bit. Allocates and frees some 45 bytes a
 * token, and what qsort() takes.
 * result->struct_size and result->probs (NULL: not wanted) must be set.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY. */
CLS_API cls_status cls_host_sample(const cls_host_row *row, cls_host_result *result);

/* One row's candidates for cls_host_draw(). */
typedef struct cls_host_candidates {
    size_t struct_size;
    const int32_t *ids;  /* [count] */
    const float *logits; /* [count], as in cls_draw_call */
    uint32_t count;      /* up to 1,048,576 */
    uint32_t vocab;      /* 1 to 1,048,576; default 1,048,576 */
    uint64_t seed, stream;
    uint32_t position; /* of this draw */
    uint32_t draw;
    const uint64_t *random; /* 64 random bits in place of Philox; NULL: Philox */
} cls_host_candidates;

CLS_API void cls_host_candidates_default(cls_host_candidates *candidates, size_t struct_size);

/* The token that cls_draw() draws, in plain C; -1 if there is no candidate.
 * CLS_OK; CLS_BAD_ARGUMENT. */
CLS_API cls_status cls_host_draw(const cls_host_candidates *candidates, int32_t *token);

/* One request for cls_host_verify(); all rows are of `row`'s vocab and dtype. */
typedef struct cls_host_drafts {
    size_t struct_size;
    const cls_host_row *row; /* the request as cls_host_sample() takes it, but without `random`, at
                                its first row; its logits, mask and bias are those of all rows, one
                                after another: [n + 1, stride] */
    uint32_t n;              /* drafts, 0 to CLS_MAX_DRAFTS */
    int32_t method;          /* a cls_verify_method */
    uint64_t stride, mask_stride,
        bias_stride;        /* elements from row to row; 0: vocab, the mask's width, vocab */
    const int32_t *ids;     /* [n] */
    const int32_t *parents; /* [n] or NULL */
    const void *draft;      /* [n, vocab] of draft_kind, dense */
    int32_t draft_kind;
    int32_t disable_bonus;
    float epsilon, delta;
} cls_host_drafts;

typedef struct cls_host_verified {
    size_t struct_size;
    int32_t tokens[CLS_MAX_DRAFTS + 1]; /* then -1 */
    int32_t nodes[CLS_MAX_DRAFTS];      /* then -1 */
    int32_t accepted, emitted;
    int32_t status;
} cls_host_verified;

CLS_API void cls_host_drafts_default(cls_host_drafts *drafts, size_t struct_size);

/* The reference of cls_verify(): plain C, as cls_host_sample() and what it returns. The mode after
 * a request that takes one token a call is that of cls_host_sample(). */
CLS_API cls_status cls_host_verify(const cls_host_drafts *drafts, cls_host_verified *result);

/* ------------------------------------------------------------------ structs
 *
 * cls_params_init(&params) is cls_params_default(&params, sizeof params), and so on. */
#define CLS_STRUCT(name) \
    static inline void name##_init(name *object) { name##_default(object, sizeof *object); }
CLS_STRUCT(cls_params)
CLS_STRUCT(cls_context_options)
CLS_STRUCT(cls_compile_options)
CLS_STRUCT(cls_sampler_options)
CLS_STRUCT(cls_step)
CLS_STRUCT(cls_verify_call)
CLS_STRUCT(cls_logprobs_call)
CLS_STRUCT(cls_draw_call)
CLS_STRUCT(cls_head_options)
CLS_STRUCT(cls_head_call)
CLS_STRUCT(cls_host_row)
CLS_STRUCT(cls_host_candidates)
CLS_STRUCT(cls_host_drafts)
#undef CLS_STRUCT

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_H */
