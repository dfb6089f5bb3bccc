/* SPDX-License-Identifier: MIT */
/* A llama_sampler is a slot of clsample. llama.cpp calls
 *
 *     apply()    to select one of the candidates; it may call it again for the same token, after a
 *                grammar has refused the first choice
 *     accept()   with the token that was selected, or with a token of the prompt
 *
 * so apply() defers accepting and does not change the slot. A token that is accepted after apply()
 * is output; other tokens are prompt.
 */
#include "clsample-llama.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_SLOT (-1)

/* The outputs of a step in `out`, for one readback. */
struct drawn {
    int32_t token, status;
    float logprob;
};

struct clsample_llama {
    uint32_t references; /* of the caller of open, and of each sampler */
    uint32_t vocab, slots;
    unsigned char *taken; /* [slots] */
    float *row;           /* [vocab], the data for `logits` */
    cl_context cl;
    cl_command_queue queue; /* in order */
    cl_mem logits;          /* float32 [vocab] */
    cl_mem out;             /* struct drawn */
    cls_context *context;
    cls_sampler *sampler;
};

struct slot_sampler {
    clsample_llama *shared;
    int32_t slot;      /* NO_SLOT: the sampler has failed and selects nothing */
    cls_params params; /* for reset(); the arrays are copies */
    uint32_t draws;    /* calls of apply() for the next token */
    int32_t *prompt;   /* tokens of the prompt that the slot does not have yet */
    uint32_t prompt_count, prompt_room;
};

static bool failed(const char *what, const char *why)
{
    fprintf(stderr, "clsample: %s: %s\n", what, why);
    return false;
}

/* Whether a call succeeded; otherwise it prints the error. */
static bool done(cls_status status, const char *what)
{
    return status == CLS_OK || failed(what, cls_error_message());
}

static bool cl_done(cl_int code, const char *what)
{
    char why[64];
    if (code == CL_SUCCESS)
        return true;
    snprintf(why, sizeof why, "OpenCL error %d", (int)code);
    return failed(what, why);
}

/* ------------------------------------------------------------------- device */

static cl_device_id first_usable_device(void)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cls_device_info info;
    cls_device_info_init(&info);
    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        return NULL;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        cl_device_id device; /* a platform may have no device */
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS &&
            cls_device_query(device, NULL, &info) == CLS_OK)
            return device;
    }
    return NULL;
}

static void release(clsample_llama *shared)
{
    if (--shared->references > 0)
        return;
    if (shared->queue != NULL)
        clFinish(shared->queue); /* the upload of the row may still run */
    cls_sampler_destroy(shared->sampler);
    cls_context_destroy(shared->context);
    if (shared->out != NULL)
        clReleaseMemObject(shared->out);
    if (shared->logits != NULL)
        clReleaseMemObject(shared->logits);
    if (shared->queue != NULL)
        clReleaseCommandQueue(shared->queue);
    if (shared->cl != NULL)
        clReleaseContext(shared->cl);
    free(shared->row);
    free(shared->taken);
    free(shared);
}

static bool open_device(clsample_llama *shared, cl_device_id device)
{
    cl_int code;
    if (device == NULL && (device = first_usable_device()) == NULL)
        return failed("open", "no usable OpenCL device");
    shared->cl = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (!cl_done(code, "context"))
        return false;
    shared->queue = clCreateCommandQueue(shared->cl, device, 0, &code);
    if (!cl_done(code, "queue"))
        return false;
    shared->logits =
        clCreateBuffer(shared->cl, CL_MEM_READ_ONLY, shared->vocab * sizeof(float), NULL, &code);
    if (!cl_done(code, "logits"))
        return false;
    shared->out = clCreateBuffer(shared->cl, CL_MEM_READ_WRITE, sizeof(struct drawn), NULL, &code);
    if (!cl_done(code, "outputs"))
        return false;

    cls_context_options options;
    cls_context_options_init(&options);
    options.dtypes = 1u << CLS_F32;
    return done(cls_context_create(shared->cl, device, &options, &shared->context), "kernels");
}

clsample_llama *clsample_llama_open(cl_device_id device, uint32_t vocab, uint32_t samplers,
                                    uint32_t history)
{
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.late_compile = 1;
    options.vocab = vocab;
    options.slot_count = samplers;
    options.max_history = history;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_LOGPROBS | CLS_FEATURE_ACCEPT;
    if (vocab == 0 || samplers == 0) {
        failed("open", "vocab and samplers must be at least 1");
        return NULL;
    }
    clsample_llama *shared = calloc(1, sizeof *shared);
    if (shared == NULL) {
        failed("open", "out of memory");
        return NULL;
    }
    shared->references = 1;
    shared->vocab = vocab;
    shared->slots = samplers;
    shared->row = malloc(vocab * sizeof *shared->row);
    shared->taken = calloc(samplers, 1);
    if (shared->row == NULL || shared->taken == NULL)
        failed("open", "out of memory");
    else if (open_device(shared, device) &&
             done(cls_sampler_create(shared->context, &options, &shared->sampler), "open"))
        return shared;
    release(shared);
    return NULL;
}

void clsample_llama_close(clsample_llama *shared)
{
    if (shared != NULL)
        release(shared);
}

void clsample_llama_params(cls_params *params)
{
    cls_params_init(params);
    params->chain = CLS_CHAIN_LLAMA;
    params->temperature = 0.8f;
    params->top_k = 40;
    params->top_p = 0.95f;
    params->min_p = 0.05f;
    params->penalty_scope = CLS_SCOPE_ALL;
    params->penalty_window = 64;
    params->dry_window = 64;
}

bool clsample_llama_order(cls_params *params, const char *order)
{
    static const char letters[] =
        "tkpmsyx?i"; /* of the cls_stages; p-less, which has none, comes last */
    uint8_t stages[CLS_CHAIN_LENGTH] = {CLS_STAGE_END};
    uint32_t n = 0;
    cls_params named = *params, off;
    cls_params_init(&off);
    for (const char *c = order; *c != '\0'; c++) {
        const char *stage = *c == '?' ? NULL : strchr(letters, *c);
        if (stage == NULL && strchr("eda", *c) == NULL)
            return failed("order", "an unknown letter; the letters are edskypmxt, i and a");
        if (strchr(order, *c) != c)
            return failed("order", "a letter is repeated");
        if (stage != NULL)
            stages[n++] = (uint8_t)(CLS_STAGE_TEMPERATURE + (stage - letters));
    }
    stages[n] = CLS_STAGE_P_LESS;
    params->chain = CLS_CHAIN_CUSTOM;
    memcpy(params->stages, stages, sizeof stages);

    const cls_params *from[256]; /* samplers that are not named are off */
    for (const char *c = "edskypmxta"; *c != '\0'; c++)
        from[(unsigned char)*c] = strchr(order, *c) != NULL ? &named : &off;
    params->temperature = from['t']->temperature;
    params->dynatemp_range = from['t']->dynatemp_range;
    params->top_k = from['k']->top_k;
    params->top_p = from['p']->top_p;
    params->min_p = from['m']->min_p;
    params->top_n_sigma = from['s']->top_n_sigma;
    params->typical_p = from['y']->typical_p;
    params->xtc_probability = from['x']->xtc_probability;
    params->repetition_penalty = from['e']->repetition_penalty;
    params->frequency_penalty = from['e']->frequency_penalty;
    params->presence_penalty = from['e']->presence_penalty;
    params->dry_multiplier = from['d']->dry_multiplier;
    params->adaptive_target = from['a']->adaptive_target;
    params->infill = strchr(order, 'i') != NULL;
    return true;
}

bool clsample_llama_infill(clsample_llama *shared, const cls_infill *infill)
{
    return done(cls_sampler_infill(shared->sampler, infill), "infill");
}

/* ------------------------------------------------------------------ sampler */

/* Marks a sampler as failed: from now on it selects nothing. */
static void give_up(struct slot_sampler *m)
{
    if (m->slot == NO_SLOT)
        return;
    (void)cls_slot_reset(m->shared->sampler, (uint32_t)m->slot);
    m->shared->taken[m->slot] = 0;
    m->slot = NO_SLOT;
}

/* Appends the collected tokens of the prompt to the slot, in one call. */
static bool settle_prompt(struct slot_sampler *m)
{
    if (m->slot == NO_SLOT)
        return false;
    if (m->prompt_count > 0 && !done(cls_slot_append_prompt(m->shared->sampler, (uint32_t)m->slot,
                                                            m->prompt, m->prompt_count),
                                     "prompt"))
        give_up(m);
    m->prompt_count = 0;
    return m->slot != NO_SLOT;
}

static bool note_prompt(struct slot_sampler *m, int32_t token)
{
    if (m->prompt_count == m->prompt_room) {
        uint32_t room = m->prompt_room > 0 ? 2 * m->prompt_room : 256;
        int32_t *prompt = realloc(m->prompt, room * sizeof *prompt);
        if (prompt == NULL)
            return failed("prompt", "out of memory");
        m->prompt = prompt;
        m->prompt_room = room;
    }
    m->prompt[m->prompt_count++] = token;
    return true;
}

static const char *sampler_name(const struct llama_sampler *s)
{
    (void)s;
    return "clsample";
}

static void sampler_accept(struct llama_sampler *s, llama_token token)
{
    struct slot_sampler *m = s->ctx;
    clsample_llama *shared = m->shared;
    cls_accept_call call;
    if (m->slot == NO_SLOT || token < 0 || (uint32_t)token >= shared->vocab)
        return;
    if (m->draws == 0) {
        if (!note_prompt(m, token))
            give_up(m);
        return;
    }
    cls_accept_call_init(&call);
    call.rows = 1;
    call.tokens.host = &token;
    call.slots.host = &m->slot;
    if (!done(cls_accept(shared->sampler, shared->queue, &call, 0, NULL, NULL), "accept"))
        give_up(m);
    m->draws = 0;
}

/* Converts candidates to a row in the order of ids. Tokens that earlier samplers removed are
 * banned. */
static bool fill_row(clsample_llama *shared, const llama_token_data_array *candidates)
{
    if (candidates->size < shared->vocab)
        for (uint32_t t = 0; t < shared->vocab; t++)
            shared->row[t] = -INFINITY;
    for (size_t i = 0; i < candidates->size; i++) {
        llama_token id = candidates->data[i].id;
        if (id < 0 || (uint32_t)id >= shared->vocab)
            return failed("sample", "a candidate is outside the vocabulary of the open call");
        shared->row[id] = candidates->data[i].logit;
    }
    return true;
}

/* The index of a token among the candidates: usually it equals the id. -1: there is none. */
static int64_t index_of(const llama_token_data_array *candidates, int32_t token)
{
    if ((size_t)token < candidates->size && candidates->data[token].id == token)
        return token;
    for (size_t i = 0; i < candidates->size; i++)
        if (candidates->data[i].id == token)
            return (int64_t)i;
    return -1;
}

static bool draw(struct slot_sampler *m, struct drawn *drawn)
{
    clsample_llama *shared = m->shared;
    /* A second draw for the same token needs another random number: the first one is not uniform
     * any more, since its token was refused. */
    int32_t nth = (int32_t)m->draws;
    cls_step step;
    cls_outputs outputs;
    cls_step_init(&step);
    cls_outputs_init(&outputs);
    step.outputs = &outputs;
    step.rows = 1;
    step.logits.values.buffer = shared->logits;
    step.logits.dtype = CLS_F32;
    step.slots.host = &m->slot;
    step.draws.host = &nth;
    step.defer_accept = 1;
    step.tokens = (cls_buffer){.buffer = shared->out, .offset = offsetof(struct drawn, token)};
    step.status = (cls_buffer){.buffer = shared->out, .offset = offsetof(struct drawn, status)};
    outputs.logprobs =
        (cls_buffer){.buffer = shared->out, .offset = offsetof(struct drawn, logprob)};
    outputs.logprob_kind = CLS_LOGPROB_FINAL;
    return cl_done(clEnqueueWriteBuffer(shared->queue, shared->logits, CL_FALSE, 0,
                                        shared->vocab * sizeof(float), shared->row, 0, NULL, NULL),
                   "upload") &&
           done(cls_sample(shared->sampler, shared->queue, &step, 0, NULL, NULL), "sample") &&
           cl_done(clEnqueueReadBuffer(shared->queue, shared->out, CL_TRUE, 0, sizeof *drawn, drawn,
                                       0, NULL, NULL),
                   "read");
}

static void sampler_apply(struct llama_sampler *s, llama_token_data_array *candidates)
{
    struct slot_sampler *m = s->ctx;
    struct drawn drawn;
    candidates->selected = -1;
    if (!settle_prompt(m) || !fill_row(m->shared, candidates))
        return;
    if (!draw(m, &drawn)) {
        give_up(m);
        return;
    }
    m->draws++;
    if (drawn.status & (CLS_ROW_EMPTY | CLS_ROW_UNFIT)) {
        failed("sample", drawn.status & CLS_ROW_EMPTY
                             ? "all candidates are banned or NaN"
                             : "infill supports 128 candidates; use a top_k before it");
        return;
    }
    candidates->selected = index_of(candidates, drawn.token);
    if (candidates->selected >= 0)
        candidates->data[candidates->selected].p = expf(drawn.logprob);
    else
        failed("sample", drawn.token < 0
                             ? "the text has ended by an end id of its grammar"
                             : "a sampler before this one has removed the forced token");
}

static void sampler_reset(struct llama_sampler *s)
{
    struct slot_sampler *m = s->ctx;
    m->draws = m->prompt_count = 0;
    if (m->slot != NO_SLOT &&
        !done(cls_slot_begin(m->shared->sampler, (uint32_t)m->slot, &m->params, NULL), "reset"))
        give_up(m);
}

static void free_arrays(cls_params *params)
{
    free((void *)params->logit_bias.biases);
    free((void *)params->allowed_ids.ids);
    free((void *)params->ngram_exempt_ids.ids);
    free((void *)params->penalty_exempt_ids.ids);
    free((void *)params->xtc_exempt_ids.ids);
    free((void *)params->dry_breakers.sequences);
    free((void *)params->bad_words.sequences);
    free((void *)params->thinking_start.ids);
    free((void *)params->thinking_ends.sequences);
    free((void *)params->thinking_forced.ids);
    free((void *)params->post_thinking);
}

static void *copy_of(const void *bytes, size_t n)
{
    void *copy = n > 0 ? malloc(n) : NULL;
    return copy != NULL ? memcpy(copy, bytes, n) : NULL;
}

/* Copies sequences and their ids into one block. */
static cls_ids *copy_sequences(const cls_ids *sequences, uint32_t n)
{
    size_t ids = 0;
    for (uint32_t i = 0; i < n; i++)
        ids += sequences[i].count;
    cls_ids *copy = n > 0 ? malloc(n * sizeof *copy + ids * sizeof(int32_t)) : NULL;
    if (copy == NULL)
        return NULL;
    int32_t *at = (int32_t *)(copy + n);
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = (cls_ids){at, sequences[i].count};
        memcpy(at, sequences[i].ids, sequences[i].count * sizeof *at);
        at += copy[i].count;
    }
    return copy;
}

/* Replaces ids by a copy. */
static bool copy_ids(const int32_t **ids, uint32_t n)
{
    *ids = copy_of(*ids, n * sizeof **ids);
    return *ids != NULL || n == 0;
}

/* Replaces the arrays by copies. False: out of memory; arrays without a copy are NULL. */
static bool copy_arrays(cls_params *p)
{
    p->logit_bias.biases =
        copy_of(p->logit_bias.biases, p->logit_bias.count * sizeof *p->logit_bias.biases);
    p->dry_breakers.sequences = copy_sequences(p->dry_breakers.sequences, p->dry_breakers.count);
    p->bad_words.sequences = copy_sequences(p->bad_words.sequences, p->bad_words.count);
    p->thinking_ends.sequences = copy_sequences(p->thinking_ends.sequences, p->thinking_ends.count);
    const bool phases = p->post_thinking != NULL; /* whose own lists are empty */
    p->post_thinking = copy_of(p->post_thinking, phases ? p->post_thinking->struct_size : 0);
    /* All of them, also after one that failed: no array may remain the caller's. */
    const bool allowed = copy_ids(&p->allowed_ids.ids, p->allowed_ids.count);
    const bool exempt = copy_ids(&p->ngram_exempt_ids.ids, p->ngram_exempt_ids.count);
    const bool spared = copy_ids(&p->penalty_exempt_ids.ids, p->penalty_exempt_ids.count);
    const bool kept = copy_ids(&p->xtc_exempt_ids.ids, p->xtc_exempt_ids.count);
    const bool start = copy_ids(&p->thinking_start.ids, p->thinking_start.count);
    const bool forced = copy_ids(&p->thinking_forced.ids, p->thinking_forced.count);
    return allowed && exempt && spared && kept && start && forced &&
           phases == (p->post_thinking != NULL) &&
           (p->logit_bias.biases != NULL || p->logit_bias.count == 0) &&
           (p->dry_breakers.sequences != NULL || p->dry_breakers.count == 0) &&
           (p->bad_words.sequences != NULL || p->bad_words.count == 0) &&
           (p->thinking_ends.sequences != NULL || p->thinking_ends.count == 0);
}

static void sampler_free(struct llama_sampler *s)
{
    struct slot_sampler *m = s->ctx;
    if (m == NULL)
        return;
    give_up(m);
    release(m->shared);
    free(m->prompt);
    free_arrays(&m->params);
    free(m);
}

static void take_slot(struct slot_sampler *m)
{
    for (uint32_t slot = 0; slot < m->shared->slots && m->slot == NO_SLOT; slot++)
        if (!m->shared->taken[slot])
            m->slot = (int32_t)slot;
    if (m->slot == NO_SLOT)
        failed("sampler", "all slots are in use; open with more samplers");
    else
        m->shared->taken[m->slot] = 1;
}

/* Copies what changes: history, position and adaptive state. A failed sampler has none to copy. */
static void copy_changing(struct slot_sampler *m, struct slot_sampler *from, const char *what)
{
    m->draws = from->draws;
    m->prompt_count = 0;
    if (m->slot != NO_SLOT &&
        !(settle_prompt(from) &&
          done(cls_slot_copy(m->shared->sampler, (uint32_t)m->slot, (uint32_t)from->slot), what)))
        give_up(m);
}

#ifndef CLSAMPLE_LLAMA_WITHOUT_COPY_STATE
/* llama.cpp calls this only for samplers of one configuration. */
static void sampler_copy_state(const struct llama_sampler *from, struct llama_sampler *to)
{
    struct slot_sampler *m = to->ctx, *source = from->ctx;
    if (m->shared != source->shared) {
        failed("copy", "the two samplers do not share a clsample_llama");
        give_up(m);
        return;
    }
    if (m->slot == NO_SLOT)
        take_slot(m);
    copy_changing(m, source, "copy");
}
#endif

static struct llama_sampler *sampler_clone(const struct llama_sampler *s);

static struct llama_sampler_i sampler_interface = {
    .name = sampler_name,
    .accept = sampler_accept,
    .apply = sampler_apply,
    .reset = sampler_reset,
    .clone = sampler_clone,
    .free = sampler_free,
#ifndef CLSAMPLE_LLAMA_WITHOUT_COPY_STATE
    .copy_state = sampler_copy_state,
#endif
};

/* Creates a sampler with a copy of the parameters and, if one is free, a slot. */
static struct slot_sampler *sampler_new(clsample_llama *shared, const cls_params *params)
{
    struct slot_sampler *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->params = *params;
    m->slot = NO_SLOT;
    if (!copy_arrays(&m->params)) {
        free_arrays(&m->params);
        free(m);
        return NULL;
    }
    m->shared = shared;
    shared->references++;
    take_slot(m);
    return m;
}

static struct llama_sampler *sampler_clone(const struct llama_sampler *s)
{
    struct slot_sampler *from = s->ctx;
    struct slot_sampler *m = sampler_new(from->shared, &from->params);
    if (m == NULL) {
        failed("clone", "out of memory");
        return NULL;
    }
    copy_changing(m, from, "clone");
    return llama_sampler_init(&sampler_interface, m);
}

struct llama_sampler *clsample_llama_sampler_init(clsample_llama *shared, const cls_params *params)
{
    if (!done(cls_params_check(params, shared->vocab), "params"))
        return NULL;
    if (params->stop_ids.count > 0 || params->min_tokens > 0 || params->max_tokens > 0 ||
        params->loop_repeats > 0) {
        failed("params", "stop_ids, min_tokens, max_tokens and loop_repeats are not supported; "
                         "llama.cpp's caller decides when to stop");
        return NULL;
    }
    struct llama_sampler shell = {&sampler_interface, sampler_new(shared, params)};
    struct slot_sampler *m = shell.ctx;
    if (m == NULL) {
        failed("sampler", "out of memory");
        return NULL;
    }
    sampler_reset(&shell);
    if (m->slot == NO_SLOT) {
        sampler_free(&shell);
        return NULL;
    }
    return llama_sampler_init(&sampler_interface, m);
}
