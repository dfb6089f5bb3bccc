/* SPDX-License-Identifier: MIT */
#include "engine.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("in_place: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void must(int code)
{
    if (code != 0)
        fail("error %d: %s", code,
             code <= CLS_BAD_ARGUMENT ? cls_error_message() : "an OpenCL call");
}

/* ------------------------------------------------------------------------ model */

static ggml_backend_dev_t opencl_device(void)
{
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        const ggml_backend_dev_t device = ggml_backend_dev_get(i);
        if (strcmp(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)), "OpenCL") == 0)
            return device;
    }
    fail("ggml-opencl takes no device of this machine");
}

void model_open(model *m, const char *path, bool on_cpu)
{
    ggml_backend_dev_t devices[] = {on_cpu ? NULL : opencl_device(), NULL};
    struct llama_model_params options = llama_model_default_params();
    options.devices = devices;
    options.n_gpu_layers = on_cpu ? 0 : 999;
    /* llama.cpp leaves weights on the CPU whose product with 512 tokens ggml-opencl does not take,
     * such as those of q5_0. A batch has fewer here. */
    const struct llama_model_tensor_buft_override layers[] = {
        {"blk\\..*", on_cpu ? NULL : ggml_backend_dev_buffer_type(devices[0])}, {NULL, NULL}};
    if (!on_cpu)
        options.tensor_buft_overrides = layers;
    options.use_extra_bufts = false; /* among them AMX, which virtual machines name and lack */
    *m = (model){.llama = llama_model_load_from_file(path, options)};
    if (m->llama == NULL)
        fail("%s cannot be loaded", path);
    m->vocab = llama_model_get_vocab(m->llama);
    m->words = (uint32_t)llama_vocab_n_tokens(m->vocab);
    for (int32_t t = 0; t < (int32_t)m->words; t++) {
        if (!llama_vocab_is_eog(m->vocab, t))
            continue;
        if (m->end_count == sizeof m->ends / sizeof *m->ends)
            fail("the vocabulary has more than %u ends", (unsigned)m->end_count);
        m->ends[m->end_count++] = t;
    }
}

void model_close(model *m) { llama_model_free(m->llama); }

uint32_t tokenize(const model *m, const char *text, int32_t *tokens)
{
    const int n =
        llama_tokenize(m->vocab, text, (int32_t)strlen(text), tokens, MAX_TOKENS, true, true);
    if (n <= 0)
        fail("a prompt has no tokens, or more than %d", MAX_TOKENS);
    return (uint32_t)n;
}

void append_piece(const model *m, int32_t token, char *text, size_t room)
{
    const size_t used = strlen(text);
    const int n =
        llama_token_to_piece(m->vocab, token, text + used, (int32_t)(room - used - 1), 0, false);
    text[used + (n > 0 ? (size_t)n : 0)] = '\0';
}

/* ---------------------------------------------------------------------- context */

struct llama_context_params context_options(uint32_t sequences)
{
    struct llama_context_params options = llama_context_default_params();
    options.n_ctx = MAX_TOKENS * sequences;
    options.n_batch = options.n_ubatch = MAX_BATCH;
    options.n_seq_max = sequences;
    options.n_outputs_max = sequences * WIDTH;
    options.n_outputs_max_per_seq = WIDTH;
    options.n_threads = options.n_threads_batch = 2;
    options.kv_unified = true;
    /* Drafts that were refused are taken back, which a sliding window of the memory may forbid. */
    options.swa_full = true;
    /* Attention on the CPU: Intel's runtime computes ggml-opencl's soft_max and rope wrongly. */
    options.offload_kqv = false;
    options.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    return options;
}

static void progress(void *user, const char *program, uint32_t done, uint32_t count)
{
    (void)user;
    fprintf(stderr, "clsample compiles %s, %u of %u\n", program, (unsigned)done + 1,
            (unsigned)count);
}

static void open_side(side *s, const engine *e, uint32_t sequences)
{
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.vocab = e->m->words;
    options.max_rows = sequences * WIDTH;
    options.slot_count = sequences;
    options.max_history = HISTORY;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_PENALTIES | CLS_FEATURE_HISTORY |
                       CLS_FEATURE_STATE | CLS_FEATURE_LOGPROBS | CLS_FEATURE_VERIFY |
                       CLS_FEATURE_FORCED | CLS_FEATURE_KEPT_SETS;
    must(cls_sampler_create(s->context, &options, &s->sampler));
}

/* Only a tensor tells ggml's OpenCL context, so one token is decoded first. */
static void open_device(engine *e, const char *cache)
{
    clsample_llama_place place;
    cls_context_options options;
    cl_int code;
    batch_add(&e->batch, e->m->ends[0], 0, 0, true);
    engine_decode(e, &place);
    llama_memory_clear(llama_get_memory(e->llama), true);
    cls_context_options_init(&options);
    options.dtypes = 1u << place.logits.dtype;
    options.cache_dir = cache;
    options.progress = progress;
    must(cls_context_create(place.context, place.device, &options, &e->device.context));
    e->own = clCreateCommandQueue(place.context, place.device, 0, &code);
    must(code);
    e->device.memory = clCreateBuffer(place.context, CL_MEM_READ_WRITE, sizeof(union {
                                          results r;
                                          kept k;
                                      }),
                                      NULL, &code);
    must(code);
    must(cls_context_create_host(NULL, &e->host.context));
    e->host.host = &e->host_results;
    printf("the logits are sampled on %s\n", place.queue != NULL
                                                 ? "llama.cpp's queue, which the patch tells"
                                                 : "a queue of this program, after a wait");
}

void engine_open(engine *e, const model *m, uint32_t sequences, const char *cache)
{
    struct llama_context_params options = context_options(sequences);
    e->m = m;
    e->logits = clsample_llama_logits_open(sequences);
    if (e->logits == NULL || !clsample_llama_logits_attach(e->logits, &options))
        exit(1);
    e->llama = llama_init_from_model(m->llama, options);
    if (e->llama == NULL)
        fail("llama.cpp cannot create a context for the model");
    e->batch = llama_batch_init(MAX_BATCH, 0, 1);
    open_device(e, cache);
    open_side(&e->device, e, sequences);
    open_side(&e->host, e, sequences);
}

void engine_close(engine *e)
{
    cls_sampler_destroy(e->device.sampler);
    cls_sampler_destroy(e->host.sampler);
    cls_context_destroy(e->device.context);
    cls_context_destroy(e->host.context);
    clReleaseMemObject(e->device.memory);
    clReleaseCommandQueue(e->own);
    llama_batch_free(e->batch);
    llama_free(e->llama);
    clsample_llama_logits_close(e->logits);
}

void batch_add(struct llama_batch *batch, int32_t token, uint32_t position, uint32_t sequence,
               bool logits)
{
    const int32_t i = batch->n_tokens++;
    if (i == MAX_BATCH)
        fail("a batch has more than %d tokens", MAX_BATCH);
    batch->token[i] = token;
    batch->pos[i] = (llama_pos)position;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = (llama_seq_id)sequence;
    batch->logits[i] = logits;
}

cl_command_queue engine_decode(engine *e, clsample_llama_place *place)
{
    if (llama_decode(e->llama, e->batch) != 0)
        fail("llama_decode() failed");
    if (!clsample_llama_logits_find(e->logits, e->llama, &e->batch, place))
        exit(1);
    e->batch.n_tokens = 0;
    return place->queue != NULL ? place->queue : e->own;
}

void engine_read_logits(engine *e, uint32_t rows, float *logits)
{
    llama_synchronize(e->llama);
    ggml_backend_tensor_get(
        ggml_graph_get_tensor(clsample_llama_logits_graph(e->logits), "result_output"), logits, 0,
        rows * e->m->words * sizeof *logits);
}

cls_buffer part(const side *s, size_t offset, size_t size)
{
    if (s->memory != NULL)
        return (cls_buffer){.buffer = s->memory, .offset = offset, .size = size};
    return (cls_buffer){.pointer = (char *)s->host + offset, .size = size, .kind = CLS_BUFFER_HOST};
}

/* ---------------------------------------------------------------------- grammar */

static bool matches(const char *form, uint32_t at, unsigned char byte)
{
    if (form[at] != '\\')
        return (unsigned char)form[at] == byte;
    const char kind = form[at + 1];
    return kind == 'd'   ? byte >= '0' && byte <= '9'
           : kind == 'u' ? byte >= 'A' && byte <= 'Z'
                         : byte >= 'a' && byte <= 'z';
}

/* The place in the form behind a token's text from `at` on, or -1. A place is a state. */
static int32_t behind(const char *form, uint32_t at, const char *piece, int length)
{
    for (int i = 0; i < length; i++) {
        if (form[at] == '\0' || !matches(form, at, (unsigned char)piece[i]))
            return -1;
        at += form[at] == '\\' ? 2 : 1;
    }
    return (int32_t)at;
}

cls_grammar *grammar_of(const model *m, const char *form)
{
    const uint32_t states = (uint32_t)strlen(form) + 1;
    uint64_t *const offsets = calloc(states + 1, sizeof *offsets), room = 0, n = 0;
    uint8_t *const final_states = calloc(states, 1);
    int32_t *ids = NULL;
    uint32_t *next = NULL;
    cls_grammar *grammar;
    for (uint32_t s = 0; s < states; s++) {
        /* The state of a backslash's letter is never entered, but no state may be without a way. */
        const bool dead = s > 0 && form[s - 1] == '\\';
        for (int32_t t = 0; t < (int32_t)m->words && form[s] != '\0' && !dead; t++) {
            char piece[256];
            const int length = llama_token_to_piece(m->vocab, t, piece, sizeof piece, 0, false);
            const int32_t to = length > 0 ? behind(form, s, piece, length) : -1;
            if (to < 0 || llama_vocab_is_eog(m->vocab, t))
                continue;
            if (n == room) {
                room = room > 0 ? 2 * room : 4096;
                ids = realloc(ids, room * sizeof *ids);
                next = realloc(next, room * sizeof *next);
                if (ids == NULL || next == NULL)
                    fail("out of memory");
            }
            ids[n] = t;
            next[n++] = (uint32_t)to;
        }
        final_states[s] = form[s] == '\0' || dead;
        offsets[s + 1] = n;
    }
    cls_grammar_options options;
    cls_grammar_options_init(&options);
    options.vocab = m->words;
    options.states = states;
    options.offsets = offsets;
    options.ids = ids;
    options.next = next;
    options.final_states = final_states;
    options.end_ids = (cls_ids){m->ends, m->end_count};
    must(cls_grammar_create(&options, &grammar));
    free(offsets);
    free(final_states);
    free(ids);
    free(next);
    return grammar;
}
