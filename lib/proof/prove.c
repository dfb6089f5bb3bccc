/* SPDX-License-Identifier: MIT */
/* Proves a program: runs a small step with it on the device and compares the result with what the
 * host computes. */
#include "proof/proof.h"

#include <stdlib.h>

/* Proves the self-test: the device's arithmetic must equal the host's. */
static cls_status prove_self_test(cls_context *context, const cls_program *p,
                                  cl_command_queue queue, int *launched)
{
    enum { WORDS = 1024 };
    uint32_t words[WORDS];
    const cl_uint n = WORDS;
    const size_t size = p->config.group;
    cl_int code;
    cl_kernel kernel = clCreateKernel(p->program, cls_kernel_name(CLS_SELF_TEST), &code);
    cl_mem out = NULL;
    if (code == CL_SUCCESS)
        out = clCreateBuffer(context->cl, CL_MEM_WRITE_ONLY, sizeof words, NULL, &code);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(kernel, 0, sizeof out, &out);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(kernel, 1, sizeof n, &n);
    *launched = code == CL_SUCCESS;
    if (code == CL_SUCCESS)
        code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, &size, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof words, words, 0, NULL, NULL);
    if (kernel != NULL)
        clReleaseKernel(kernel);
    if (out != NULL)
        clReleaseMemObject(out);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "the self-test did not run");
    for (uint32_t i = 0; i < n; i++)
        if (words[i] != self_test_word(i))
            return cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                            "the device's arithmetic differs from float32 rounded to nearest, with "
                            "infinities and NaN "
                            "(word %u: 0x%08x, not 0x%08x)",
                            (unsigned)i, (unsigned)words[i], (unsigned)self_test_word(i));
    return CLS_OK;
}

/* ------------------------------------------------------------------- small steps */

/* VOCAB: a row of three mass tiles and a part of one. MOST: the longest row of proof_shape(). */
enum { VOCAB = 3100, PART = 28, MOST = CLS_MOST_TILES_PER_GROUP * CLS_TILE + PART, PROMPT = 5 };

/* A row of logits, and a sampler with only the program to be proved and those that run with it. */
typedef struct trial {
    cls_context *context;
    cls_sampler *sampler;
    cl_command_queue queue;
    int32_t dtype;
    uint32_t vocab;
    int32_t likeliest;
    int32_t prompt[PROMPT];
    cl_mem logits, out; /* out: [2][vocab] words for outputs */
    float row[MOST];
    uint16_t halves[MOST];
    int32_t words[2 * MOST]; /* what was read from `out` */
    cls_params params;
    cls_host_row host;
    uint32_t kept;     /* number of tokens that the host's last step kept */
    int32_t set[MOST]; /* their ids, then -1 */
    cls_shard *shard;  /* the only one of the vocabulary, for the programs of shards; or NULL */
} trial;

/* Sets the length of a row, and returns how many tiles each group gets, or 0 for as many as usual.
 * A group that reads several tiles at once gets a quarter more, so that it also does what follows a
 * first round of tiles and has work for some of its items only; another group gets a part of a
 * tile. */
static uint32_t proof_shape(const cls_shape *shape, uint32_t *vocab)
{
    const uint32_t round = cls_shape_round(shape), wanted = round + (round + 3) / 4;
    const uint32_t tiles = wanted < CLS_MOST_TILES_PER_GROUP ? wanted : CLS_MOST_TILES_PER_GROUP;
    *vocab = round == 1 ? VOCAB : tiles * CLS_TILE + PART;
    if (cls_test_proof_vocab != 0)
        *vocab = cls_test_proof_vocab;
    return round == 1 ? 0 : tiles;
}

/* Makes a row of logits that all types represent exactly: multiples of 1/8 from -8 to 8 in no
 * order, and a single 9. */
static void make_row(trial *t)
{
    t->likeliest = (int32_t)(t->vocab * 2 / 5);
    const int32_t ids[PROMPT] = {1, 7, 40, (int32_t)t->vocab / 2, (int32_t)t->vocab - 100};
    memcpy(t->prompt, ids, sizeof ids);
    for (uint32_t i = 0; i < t->vocab; i++) {
        const uint32_t noise = (i * 2654435761u) >> 25; /* 0 to 127 */
        const float x = i == (uint32_t)t->likeliest ? 9.0f : (float)noise * 0.125f - 8.0f;
        const uint32_t bits = cls_as_u32(x);
        t->row[i] = x;
        t->halves[i] = t->dtype == CLS_F16 ? cls_f16_of(bits) : (uint16_t)(bits >> 16);
    }
}

static cls_status open_trial(trial *t, cls_context *context, int variant, int32_t dtype,
                             uint32_t available)
{
    cls_sampler_options o;
    cl_int code = CL_SUCCESS;
    t->context = context;
    t->dtype = dtype;
    const uint32_t tiles_per_group = proof_shape(&context->shape, &t->vocab);
    make_row(t);
    const void *const data = dtype == CLS_F32 ? (const void *)t->row : t->halves;
    t->logits =
        clCreateBuffer(context->cl, CL_MEM_READ_WRITE, 2 * t->vocab * sizeof(float), NULL, &code);
    if (code == CL_SUCCESS)
        t->out = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, 2 * t->vocab * sizeof(uint32_t),
                                NULL, &code);
    for (size_t i = 0; i < 2 && code == CL_SUCCESS; i++)
        code =
            clEnqueueWriteBuffer(t->queue, t->logits, CL_TRUE, i * t->vocab * cls_dtype_size(dtype),
                                 t->vocab * cls_dtype_size(dtype), data, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code,
                        "cannot write the buffers for the proof of a program");
    cls_sampler_options_init(&o);
    o.vocab = t->vocab;
    o.max_rows = 2;
    o.max_history = 64;
    o.max_rollback = 8;
    o.dtypes = 1u << dtype;
    cls_status status = cls_sampler_create_empty(context, &o, &t->sampler);
    if (status == CLS_OK)
        status = cls_sampler_add_kernels(t->sampler, dtype, available);
    if (status == CLS_OK) {
        t->sampler->override_variants = UINT32_C(1) << variant;
        t->sampler->tiles_per_group = tiles_per_group;
    }
    cls_params_init(&t->params);
    t->params.temperature = 0.9f; /* at 0.8 some tokens of the row would weigh nothing */
    t->params.seed = 20;
    return status;
}

static void close_trial(trial *t)
{
    cls_shard_destroy(t->shard);
    cls_sampler_destroy(t->sampler);
    if (t->logits != NULL)
        clReleaseMemObject(t->logits);
    if (t->out != NULL)
        clReleaseMemObject(t->out);
}

/* Records that a result differs from the host's. */
static cls_status fail_differs(int variant, const char *what, int32_t device, int32_t host)
{
    if (cls_test_proofs_compare_nothing)
        return CLS_OK;
    return cls_fail(CLS_SELF_TEST_FAILED, CL_SUCCESS,
                    "the program %s gives another %s than the host: %d, not %d",
                    cls_variants[variant].name, what, (int)device, (int)host);
}

static cls_status read_words(const trial *t, void *words, size_t n)
{
    const cl_int code = clEnqueueReadBuffer(t->queue, t->out, CL_TRUE, 0, n * sizeof(uint32_t),
                                            words, 0, NULL, NULL);
    return code == CL_SUCCESS
               ? CLS_OK
               : cls_fail(CLS_OPENCL_ERROR, code, "the proof of a program did not run");
}

/* Enqueues a step. */
static cls_status sample(const trial *t, const cls_step *step)
{
    const void *partial;
    size_t size;
    int more = 1;
    if (t->shard == NULL)
        return cls_sample(t->sampler, t->queue, step, 0, NULL, NULL);
    cls_status status = cls_shard_sample(t->shard, t->queue, step, 0, NULL);
    while (status == CLS_OK && more) {
        status = cls_shard_partial(t->shard, &partial, &size);
        if (status == CLS_OK)
            status = cls_shard_merge(t->shard, partial, size, &more, NULL);
    }
    return status;
}

/* Compares two tokens of a request, and the mass that each was drawn from, with the host's. */
static cls_status prove_steps(trial *t, int variant, const cls_step *outputs, int *launched)
{
    cls_step step = *outputs;
    int32_t output = 0;
    cls_status status = cls_slot_begin(t->sampler, 0, &t->params, t->prompt, PROMPT, NULL, 0);
    step.rows = 1;
    step.logits.dtype = t->dtype;
    step.logits.values.buffer = t->logits;
    step.tokens.buffer = t->out;
    *launched = 1;
    for (uint32_t i = 0; i < 2 && status == CLS_OK; i++) {
        cls_host_result result;
        cls_row expected, row;
        int32_t token = -2;
        cls_host_row_init(&t->host);
        t->host.vocab = t->vocab;
        t->host.logits = t->row;
        t->host.dtype = CLS_F32;
        t->host.params = &t->params;
        t->host.prompt = t->prompt;
        t->host.prompt_count = PROMPT;
        t->host.output = &output;
        t->host.output_count = i;
        t->host.max_history = 64;
        t->host.position = t->params.position + i;
        memset(&result, 0, sizeof result);
        result.struct_size = sizeof result;
        result.kept_ids = t->set;
        result.kept_capacity = t->vocab;
        status = cls_reference(&t->host, &expected, &result);
        if (status == CLS_OK)
            status = sample(t, &step);
        if (status == CLS_OK)
            status = read_words(t, &token, 1);
        if (status == CLS_OK)
            status = cls_sampler_trace(t->sampler, t->queue, &row, 1);
        if (status == CLS_OK && token != result.token)
            status = fail_differs(variant, "token", token, result.token);
        if (status == CLS_OK && !(t->params.temperature < 1e-5f) && row.mass != expected.mass)
            status = fail_differs(variant, "mass", (int32_t)(uint32_t)row.mass,
                                  (int32_t)(uint32_t)expected.mass);
        output = token;
        t->kept = result.kept_count;
    }
    return status;
}

static int has_kernel(const trial *t, int variant)
{
    return t->sampler->kernels[t->dtype][variant].handle != NULL;
}

/* Sets parameters that use all that this variant and the others of the sampler support. */
static void set_params(trial *t, int variant)
{
    cls_params *const p = &t->params;
    const cls_variant *const v = &cls_variants[variant];
    const int searched = v->kernel == CLS_PASS || v->kernel == CLS_SEARCH;
    const int shards =
        v->kernel == CLS_SHARD_SURVEY || v->kernel == CLS_PARTIAL || v->kernel == CLS_MERGE;
    const int lists =
        has_kernel(t, CLS_TOKEN_1) || has_kernel(t, CLS_TOKEN_2) || has_kernel(t, CLS_TOKEN_3);
    if (lists && v->kernel != CLS_SLOTS && variant != CLS_SURVEY_0 && variant != CLS_TOKEN_0) {
        p->top_p = 0.9f;
        p->min_p = 0.02f;
        p->top_k = searched                           ? 0
                   : t->context->shape.shortlist < 50 ? (int32_t)t->context->shape.shortlist
                                                      : 50;
    }
    /* The kernels before it must read penalties, too. Another sampler may have compiled some. */
    if (cls_variant_supports(variant, CLS_FEATURE_PENALTIES) && v->kernel != CLS_SLOTS &&
        has_kernel(t, shards ? CLS_SHARD_SURVEY_1 : CLS_SURVEY_1) &&
        (!searched || has_kernel(t, CLS_PASS_1))) {
        p->repetition_penalty = 1.25f;
        p->presence_penalty = 0.5f;
    }
    if (v->kernel == CLS_PREPARE)
        p->no_repeat_ngram = 1;
    if (v->kernel == CLS_FORCE) { /* the first token is drawn, the second one is forced */
        p->thinking_forced.ids = t->prompt;
        p->thinking_forced.count = 1;
        p->thinking_budget = 1;
    }
    if (variant == CLS_TOKEN_3 || variant == CLS_SEARCH_2) {
        p->typical_p = 0.9f;
        p->xtc_probability = 1.0f;
        p->xtc_threshold = 0.001f;
    }
    t->sampler->force_search = searched;
}

/* ------------------------------------------------------------------- other calls */

static cls_status prove_report(trial *t, int variant, int *launched)
{
    cls_step step;
    cls_outputs outputs;
    int32_t *const words = t->words;
    set_params(t, variant);
    cls_outputs_init(&outputs);
    cls_step_init(&step);
    step.outputs = &outputs;
    if (cls_variants[variant].kernel == CLS_REPORT) {
        outputs.kept.counts.buffer = t->out;
        outputs.kept.counts.offset = 4;
        outputs.ranks.buffer = t->out;
        outputs.ranks.offset = 8;
        outputs.logprob_kind = CLS_LOGPROB_FINAL;
    } else {
        outputs.probs.buffer = t->out;
        outputs.probs.offset = 4;
    }
    cls_status status = prove_steps(t, variant, &step, launched);
    if (status == CLS_OK)
        status = read_words(t, words, 1 + t->vocab);
    if (status != CLS_OK)
        return status;
    int32_t kept = words[1], above_0 = 0;
    for (uint32_t i = 0; i < t->vocab; i++)
        above_0 += words[1 + i] != 0;
    kept = cls_variants[variant].kernel == CLS_REPORT ? kept : above_0;
    return kept == (int32_t)t->kept
               ? CLS_OK
               : fail_differs(variant, "number of kept tokens", kept, (int32_t)t->kept);
}

static cls_status prove_kept(trial *t, int variant, int *launched)
{
    cls_step step;
    cls_outputs outputs;
    int32_t *const words = t->words;
    set_params(t, variant);
    cls_outputs_init(&outputs);
    cls_step_init(&step);
    step.outputs = &outputs;
    outputs.kept_set.capacity = t->vocab;
    outputs.kept_set.counts = (cls_buffer){.buffer = t->out, .offset = 4};
    outputs.kept_set.ids = (cls_buffer){.buffer = t->out, .offset = 8};
    cls_status status = prove_steps(t, variant, &step, launched);
    if (status == CLS_OK)
        status = read_words(t, words, 2 + t->vocab);
    if (status == CLS_OK && words[1] != (int32_t)t->kept)
        status = fail_differs(variant, "number of kept tokens", words[1], (int32_t)t->kept);
    for (uint32_t i = 0; i < t->vocab && status == CLS_OK; i++)
        if (words[2 + i] != t->set[i])
            status = fail_differs(variant, "kept token", words[2 + i], t->set[i]);
    return status;
}

static cls_status prove_accept(trial *t, int variant, int *launched)
{
    cls_status status = cls_slot_begin(t->sampler, 0, &t->params, NULL, 0, NULL, 0);
    cls_accept_call call;
    cls_slot slot;
    cl_int code = CL_SUCCESS;
    *launched = 1;
    cls_accept_call_init(&call);
    call.rows = 1;
    call.tokens.host = t->prompt;
    if (status == CLS_OK)
        status = cls_accept(t->sampler, t->queue, &call, 0, NULL, NULL);
    if (status == CLS_OK)
        code = clEnqueueReadBuffer(t->queue, t->sampler->slot_buffer, CL_TRUE, 0, sizeof slot,
                                   &slot, 0, NULL, NULL);
    if (status != CLS_OK || code != CL_SUCCESS)
        return status != CLS_OK
                   ? status
                   : cls_fail(CLS_OPENCL_ERROR, code, "the proof of a program did not run");
    return slot.position == 1 && slot.outputs == 1
               ? CLS_OK
               : fail_differs(variant, "position", (int32_t)slot.position, 1);
}

static cls_status prove_verify(trial *t, int variant, int *launched)
{
    static const int32_t cu[2] = {0, 2};
    const int32_t id = t->likeliest;
    cls_verify_call call;
    int32_t words[3] = {-2, -2, -2};
    /* A draft without a distribution counts as drawn with probability 1. It is accepted with its
     * target probability; otherwise another token is drawn in its place. */
    cls_status status = cls_slot_begin(t->sampler, 0, &t->params, NULL, 0, NULL, 0);
    cls_verify_call_init(&call);
    call.requests = 1;
    call.method = CLS_VERIFY_STANDARD;
    call.row_offsets = cu;
    call.draft_ids.host = &id;
    call.logits.dtype = t->dtype;
    call.logits.values.buffer = t->logits;
    call.tokens.buffer = t->out;
    call.accepted.buffer = t->out;
    call.accepted.offset = 8;
    *launched = 1;
    if (status == CLS_OK)
        status = cls_verify(t->sampler, t->queue, &call, 0, NULL, NULL);
    if (status == CLS_OK)
        status = read_words(t, words, 3);
    if (status != CLS_OK)
        return status;
    const int right = words[2] == 1
                          ? words[0] == id && words[1] >= 0 && words[1] < (int32_t)t->vocab
                          : words[2] == 0 && words[0] >= 0 && words[0] < (int32_t)t->vocab &&
                                words[0] != id && words[1] == -1;
    return right ? CLS_OK : fail_differs(variant, "number of accepted drafts", words[2], 1);
}

/* ----------------------------------------------------------------- one program */

static cls_status run(trial *t, cls_context *context, int variant, int32_t dtype,
                      uint32_t available, int *launched)
{
    cls_step step;
    cls_status status = open_trial(t, context, variant, dtype, available);
    if (status != CLS_OK)
        return status;
    switch (cls_variants[variant].kernel) {
    case CLS_REPORT:
    case CLS_DISTRIBUTION:
        return prove_report(t, variant, launched);
    case CLS_KEPT:
        return prove_kept(t, variant, launched);
    case CLS_ACCEPT:
        return prove_accept(t, variant, launched);
    case CLS_RESIDUAL:
    case CLS_VERIFY:
        return prove_verify(t, variant, launched);
    case CLS_SHARD_SURVEY:
    case CLS_PARTIAL:
    case CLS_MERGE:
        status = cls_sampler_add_kernels(t->sampler, CLS_F32, UINT32_MAX);
        if (status == CLS_OK)
            status = cls_shard_create(t->sampler, NULL, &t->shard);
        if (status != CLS_OK)
            return status;
        cls_step_init(&step);
        set_params(t, variant);
        return prove_steps(t, variant, &step, launched);
    default:
        cls_step_init(&step);
        set_params(t, variant);
        return prove_steps(t, variant, &step, launched);
    }
}

cls_status cls_prove(cls_context *context, int variant, int32_t dtype, uint32_t available,
                     uint32_t *launched_variants)
{
    cl_int code;
    int launched = 0;
    *launched_variants = 0;
    const cl_command_queue queue = clCreateCommandQueue(context->cl, context->device, 0, &code);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code, "cannot create a queue for the proof of a program");
    cls_status status;
    if (cls_variants[variant].kernel == CLS_SELF_TEST) {
        status = prove_self_test(context, &context->program[0][variant], queue, &launched);
        *launched_variants = launched ? UINT32_C(1) << variant : 0;
    } else {
        trial *const t = calloc(1, sizeof *t);
        if (t == NULL) {
            status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                              "out of host memory for the proof of a program");
        } else {
            t->queue = queue;
            status = run(t, context, variant, dtype, available, &launched);
            clFinish(queue);
            if (launched)
                *launched_variants = t->sampler->refused_variants != 0
                                         ? t->sampler->refused_variants
                                         : t->sampler->launched_variants | UINT32_C(1) << variant;
            close_trial(t);
            free(t);
        }
    }
    clReleaseCommandQueue(queue);
    return status;
}
