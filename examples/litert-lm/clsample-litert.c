/* SPDX-License-Identifier: MIT */
/* libLiteRtTopKOpenClSampler.so: clsample as the sampler that LiteRT-LM loads.
 *
 * Each row of the logits is a slot. A session begins with the sampler, and with each update that
 * brings a generator, as LiteRT-LM makes when it binds a sampler to a session. */
#include "plugin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY 4096 /* the latest tokens that DRY, n-grams and penalty windows see */

/* What the host reads of each step, as arrays of one buffer. */
enum { TOKENS, STATUS, LOGPROBS, OUTPUTS };

/* ------------------------------------------------------------------ messages */

/* LiteRT-LM drops the message of UNAVAILABLE, and its user would not learn why another sampler is
 * used. */
int fail(char **error, int code, const char *format, ...)
{
    char text[1024] = "clsample: ";
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    if (code == LITERT_UNAVAILABLE)
        fprintf(stderr, "%s\n", text);
    if (error != NULL)
        *error = strdup(text);
    return code;
}

/* The code for a call of clsample. */
static int done(cls_status status, const char *what, char **error)
{
    static const struct {
        cls_status status;
        int code;
    } codes[] = {
        {CLS_BAD_ARGUMENT, LITERT_INVALID_ARGUMENT},
        {CLS_OUT_OF_MEMORY, LITERT_RESOURCE_EXHAUSTED},
        {CLS_UNSUPPORTED_DEVICE, LITERT_UNAVAILABLE},
        {CLS_BUILD_FAILED, LITERT_UNAVAILABLE},
        {CLS_SELF_TEST_FAILED, LITERT_UNAVAILABLE},
    };
    if (status == CLS_OK)
        return LITERT_OK;
    int code = LITERT_INTERNAL;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].status == status)
            code = codes[i].code;
    return fail(error, code, "%s: %s", what, cls_error_message());
}

int cl_done(cl_int code, const char *what, char **error)
{
    return code == CL_SUCCESS
               ? LITERT_OK
               : fail(error, LITERT_INTERNAL, "%s: OpenCL error %d", what, (int)code);
}

int runtime_done(int status, const char *what, char **error)
{
    return status == 0 ? LITERT_OK
                       : fail(error, LITERT_INTERNAL, "%s: LiteRT's status %d", what, status);
}

/* -------------------------------------------------------------------- OpenCL */

/* Opens OpenCL's library. LiteRT has loaded the one that its handles come from, so that comes
 * first; it stays loaded. */
static void *open_opencl(void)
{
    static const char *const names[] = {
        "libOpenCL.so",
        "libOpenCL.so.1",
        "/vendor/lib64/libOpenCL.so",
        "/system/vendor/lib64/libOpenCL.so",
        "/vendor/lib/libOpenCL.so",
        "/system/vendor/lib/libOpenCL.so",
    };
    static const int flags[] = {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW};
    void *library = NULL;
    for (size_t f = 0; f < 2; f++)
        for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; i++)
            library = dlopen(names[i], flags[f]);
    return library;
}

static void *find_opencl(void *library, const char *name) { return dlsym(library, name); }

/* ---------------------------------------------------------------- parameters */

/* Sets *params, whose seed stays if there is none and draws is false. */
static int convert(const struct sampler *s, const struct parameters *from, bool draws,
                   cls_params *params, char **error)
{
    const uint64_t seed = params->seed;
    *params = s->from_file;
    params->seed = from->has_seed ? from->seed : seed;
    if (!from->has_seed && draws) {
        FILE *const random = fopen("/dev/urandom", "rb");
        const size_t read =
            random != NULL ? fread(&params->seed, sizeof params->seed, 1, random) : 0;
        if (random != NULL)
            fclose(random);
        if (read != 1)
            return fail(error, LITERT_INTERNAL, "/dev/urandom gives no seed");
    }
    params->temperature = from->type == LITERT_TYPE_GREEDY ? 0 : from->temperature;
    switch (from->type) {
    case LITERT_TYPE_UNSPECIFIED: /* what is set */
        params->top_k = from->k;
        params->top_p = from->p != 0 ? from->p : 1;
        break;
    case LITERT_TYPE_TOP_K:
        params->top_k = from->k;
        break;
    case LITERT_TYPE_TOP_P:
        params->top_k = from->k;
        params->top_p = from->p;
        break;
    case LITERT_TYPE_GREEDY:
        break;
    default:
        return fail(error, LITERT_UNIMPLEMENTED, "type %llu of the parameters is not known",
                    (unsigned long long)from->type);
    }
    if (params->top_k < 0)
        return fail(error, LITERT_INVALID_ARGUMENT, "k is %d", (int)params->top_k);
    return LITERT_OK;
}

/* Gives each row the parameters: a new request, or other parameters for its request. All calls can
 * fail before the first one changes a slot, but for a lack of memory. */
static int set_params(struct sampler *s, const void *message, bool begins, char **error)
{
    struct parameters read;
    cls_params params = s->params;
    int code = read_message(message, &read, error);
    if (code == LITERT_OK)
        code = convert(s, &read, begins, &params, error);
    for (uint32_t r = 0; r < s->rows && code == LITERT_OK; r++) {
        params.stream = r;
        code = done(begins ? cls_slot_begin(s->sampler, r, &params, NULL)
                           : cls_slot_params(s->sampler, r, &params),
                    "parameters", error);
    }
    if (code == LITERT_OK)
        s->params = params;
    return code;
}

/* ------------------------------------------------------------------- sampling */

static cls_buffer output(const struct sampler *s, int which)
{
    return (cls_buffer){.buffer = s->outputs,
                        .offset = (uint64_t)which * s->rows * sizeof(int32_t)};
}

static int draw(struct sampler *s, const struct tensor *logits, const int32_t **read, char **error)
{
    cls_step step;
    cls_outputs outputs;
    uint64_t ticket;
    const void *data;
    cls_step_init(&step);
    cls_outputs_init(&outputs);
    step.rows = s->rows;
    step.logits.values = (cls_buffer){.buffer = logits->memory, .offset = logits->offset};
    step.logits.dtype = logits->element == LITERT_FLOAT16 ? CLS_F16 : CLS_F32;
    step.tokens = output(s, TOKENS);
    step.status = output(s, STATUS);
    step.outputs = &outputs;
    outputs.logprobs = output(s, LOGPROBS);
    outputs.logprob_kind = CLS_LOGPROB_FINAL;
    int code = done(cls_sample(s->sampler, s->queue, &step, 0, NULL, NULL), "sample", error);
    const cls_buffer all = output(s, TOKENS);
    if (code == LITERT_OK)
        code = done(cls_readback_start(s->readback, s->queue, &all,
                                       OUTPUTS * s->rows * sizeof(int32_t), 0, NULL, &ticket),
                    "read", error);
    if (code == LITERT_OK)
        code = done(cls_readback_get(s->readback, ticket, 1, &data), "read", error);
    if (code == LITERT_OK)
        *read = data;
    return code;
}

LITERT_API int LiteRtTopKOpenClSampler_SampleToIdAndScoreBuffer(void *sampler, void *logits,
                                                                void *ids, void *const *scores,
                                                                char **error)
{
    struct sampler *const s = sampler;
    struct tensor values, tokens, logprobs;
    const int32_t *read = NULL;
    int code;
    if ((code = read_logits(s, logits, &values, error)) != LITERT_OK ||
        (code = read_output(s, ids, "ids", LITERT_INT32, &tokens, error)) != LITERT_OK ||
        (scores != NULL && (code = read_output(s, *scores, "scores", LITERT_FLOAT32, &logprobs,
                                               error)) != LITERT_OK) ||
        (code = draw(s, &values, &read, error)) != LITERT_OK)
        return code;
    for (uint32_t r = 0; r < s->rows; r++) {
        const int32_t status = read[STATUS * s->rows + r];
        if (read[TOKENS * s->rows + r] < 0)
            return fail(error, LITERT_INTERNAL,
                        "row %u has no token, status %d: all logits are -inf, NaN or banned", r,
                        (int)status);
        /* LiteRT-LM decides where a text ends. Its next token begins another turn. */
        if ((status & CLS_ROW_STOPPED) != 0 &&
            (code = done(cls_slot_next_turn(s->sampler, r, NULL, 0), "next turn", error)) !=
                LITERT_OK)
            return code;
    }
    code = put(s, &tokens, read + TOKENS * s->rows, error);
    if (code == LITERT_OK && scores != NULL)
        code = put(s, &logprobs, read + LOGPROBS * s->rows, error);
    return code;
}

/* --------------------------------------------------------------------- opening */

static void *option(const struct LiteRtRuntimeCApiStruct *runtime, void *options, int tag)
{
    litert_any any = {0};
    if (runtime->get_environment_options_value(options, tag, &any) != 0)
        return NULL;
    return any.type == LITERT_ANY_POINTER ? (void *)any.value.pointer
           : any.type == LITERT_ANY_INT   ? (void *)(intptr_t)any.value.integer
                                          : NULL;
}

static int open_context(struct sampler *s, void *environment, const void *activations, char **error)
{
    cls_context_options options;
    cl_command_queue_properties kind;
    void *of = NULL;
    if (s->runtime->get_environment_options(environment, &of) != 0)
        return fail(error, LITERT_UNAVAILABLE, "the environment has no options");
    cl_device_id const device = option(s->runtime, of, LITERT_CL_DEVICE);
    s->cl = option(s->runtime, of, LITERT_CL_CONTEXT);
    s->queue = option(s->runtime, of, LITERT_CL_QUEUE);
    if (device == NULL || s->cl == NULL || s->queue == NULL)
        return fail(error, LITERT_UNAVAILABLE, "the environment's options have no OpenCL %s",
                    device == NULL  ? "device"
                    : s->cl == NULL ? "context"
                                    : "queue");
    if ((s->opencl = open_opencl()) == NULL)
        return fail(error, LITERT_UNAVAILABLE, "OpenCL's library was not found");
    if (CL(s, clGetCommandQueueInfo)(s->queue, CL_QUEUE_PROPERTIES, sizeof kind, &kind, NULL) !=
            CL_SUCCESS ||
        (kind & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
        return fail(error, LITERT_UNAVAILABLE, "the environment's queue is not in order");
    cls_context_options_init(&options);
    options.find_opencl = find_opencl;
    options.find_opencl_user = s->opencl;
    options.cache_dir = getenv("CLSAMPLE_LITERT_CACHE");
    options.dtypes = 1u << CLS_F32 | 1u << CLS_F16;
    if (activations != NULL && *(const int *)activations == LITERT_ACTIVATIONS_F32)
        options.dtypes = 1u << CLS_F32;
    if (activations != NULL && *(const int *)activations == LITERT_ACTIVATIONS_F16)
        options.dtypes = 1u << CLS_F16;
    return done(cls_context_create(s->cl, device, &options, &s->context), "device", error);
}

static int open_sampler(struct sampler *s, const char *file, char **error)
{
    cls_sampler_options options;
    cl_int failure;
    cls_sampler_options_init(&options);
    options.late_compile = 1;
    options.vocab = s->vocab;
    options.max_rows = s->rows;
    options.counts = file != NULL ? CLS_COUNTS_ALL : CLS_COUNTS_NONE;
    options.max_history = file != NULL ? HISTORY : 0;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_LOGPROBS;
    const size_t size = OUTPUTS * s->rows * sizeof(int32_t);
    int code = done(cls_sampler_create(s->context, &options, &s->sampler), "sampler", error);
    if (code == LITERT_OK)
        code = done(cls_readback_create(s->context, size, 1, &s->readback), "sampler", error);
    if (code != LITERT_OK)
        return code;
    s->outputs = CL(s, clCreateBuffer)(s->cl, CL_MEM_READ_WRITE, size, NULL, &failure);
    return cl_done(failure, "memory for tokens", error);
}

LITERT_API void LiteRtTopKOpenClSampler_Destroy(void *sampler)
{
    struct sampler *const s = sampler;
    if (s == NULL)
        return;
    cls_readback_destroy(s->readback);
    cls_sampler_destroy(s->sampler);
    cls_context_destroy(s->context);
    if (s->outputs != NULL)
        CL(s, clReleaseMemObject)(s->outputs);
    if (s->staged != NULL)
        CL(s, clReleaseMemObject)(s->staged);
    params_forget(&s->from_file);
    free(s);
}

LITERT_API int LiteRtTopKOpenClSampler_Create(const struct LiteRtRuntimeCApiStruct *runtime,
                                              void *environment, int batch, int sequence, int vocab,
                                              const void *activations, const void *parameters,
                                              void **out, char **error)
{
    const char *const file = getenv("CLSAMPLE_LITERT_PARAMS");
    char why[512];
    if (runtime == NULL || environment == NULL || out == NULL)
        return fail(error, LITERT_INVALID_ARGUMENT, "runtime, environment or sampler is NULL");
    *out = NULL;
    if (batch < 1 || sequence < 1 || vocab < 1 || batch > 65535 / sequence)
        return fail(error, LITERT_INVALID_ARGUMENT, "batch is %d, sequence %d, vocabulary %d",
                    batch, sequence, vocab);
    if (file != NULL && sequence > 1)
        return fail(error, LITERT_UNIMPLEMENTED,
                    "CLSAMPLE_LITERT_PARAMS is set, but with a sequence of %d LiteRT-LM does not "
                    "say which tokens it accepts",
                    sequence);
    struct sampler *const s = calloc(1, sizeof *s);
    if (s == NULL)
        return fail(error, LITERT_RESOURCE_EXHAUSTED, "out of memory");
    s->runtime = runtime;
    s->batch = (uint32_t)batch;
    s->rows = (uint32_t)(batch * sequence);
    s->vocab = (uint32_t)vocab;
    cls_params_init(&s->from_file);
    int code = LITERT_OK;
    if (file != NULL && !params_read(file, &s->from_file, why, sizeof why))
        code = fail(error, LITERT_INVALID_ARGUMENT, "%s", why);
    if (code == LITERT_OK)
        code = open_context(s, environment, activations, error);
    if (code == LITERT_OK)
        code = open_sampler(s, file, error);
    if (code == LITERT_OK)
        code = set_params(s, parameters, true, error);
    if (code == LITERT_OK)
        *out = s;
    else
        LiteRtTopKOpenClSampler_Destroy(s);
    return code;
}

/* generator: a std::shared_ptr, whose first word is NULL if it points to nothing. Random numbers
 * come from the seed, not from it. */
LITERT_API int LiteRtTopKOpenClSampler_UpdateConfig(void *sampler, const void *parameters,
                                                    int batch, void *generator, char **error)
{
    struct sampler *const s = sampler;
    const bool begins = generator != NULL && *(void *const *)generator != NULL;
    if (batch != (int)s->batch)
        return fail(error, LITERT_INVALID_ARGUMENT, "the batch is %d; it was created for %u", batch,
                    s->batch);
    return set_params(s, parameters, begins, error);
}

/* ------------------------------------------------- the next step's input tensors */

LITERT_API int LiteRtTopKOpenClSampler_CanHandleInput(void *sampler)
{
    (void)sampler;
    return 0;
}

LITERT_API int LiteRtTopKOpenClSampler_HandlesInput(void *sampler)
{
    (void)sampler;
    return 0;
}

/* All NULL: the input is not to be handled, which it is not. */
LITERT_API int LiteRtTopKOpenClSampler_SetInferenceFuncAndInputTensors(
    void *sampler, int (*run)(void *argument), void *argument, void *ids, void *previous_positions,
    void *positions, void *previous_mask, void *mask, void *previous_param, void *param,
    char **error)
{
    (void)sampler, (void)argument, (void)ids, (void)previous_positions, (void)positions;
    (void)previous_mask, (void)mask, (void)previous_param, (void)param;
    return run == NULL
               ? LITERT_OK
               : fail(error, LITERT_UNIMPLEMENTED, "it does not write the next step's input");
}
