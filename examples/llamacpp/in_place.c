/* SPDX-License-Identifier: MIT */
/* llama.cpp on OpenCL, whose logits are sampled where they lie, without a copy to the host. The
 * token of each step is read, 4 bytes a sequence, and goes into the next batch.
 *
 *     in_place [-c CACHE] MODE MODEL.gguf [N]
 *
 *     greedy      the N greedy tokens equal those of llama.cpp's CPU backend, and all products with
 *                 weights are computed on OpenCL
 *     requests    five requests in one batch: greedy, penalties, a grammar, drafts of n-grams in
 *                 all of them; each call equals the host's. Up to N tokens each
 *     bytes       what crosses between host and device in N steps; with tests/llamacpp/crossings.c
 *     speed       N steps of 1, 4 and 8 sequences beside llama.cpp's own chain and the adapter
 *     kept        N steps of 4 sequences keep the tokens that llama.cpp's chain keeps
 *     f16         writes the model in float16 to the file N
 *
 * -c: a folder for clsample's compiled programs.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the nodes */

static bool computes(const struct ggml_tensor *t)
{
    switch (t->op) {
    case GGML_OP_NONE:
    case GGML_OP_VIEW:
    case GGML_OP_RESHAPE:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
        return false;
    default:
        return t->buffer != NULL && ggml_nelements(t) > 0;
    }
}

/* The weights of a product, or NULL. */
static const struct ggml_tensor *weights_of(const struct ggml_tensor *t)
{
    const struct ggml_tensor *const weights = t->src[0];
    return t->op == GGML_OP_MUL_MAT && weights->buffer != NULL &&
                   ggml_backend_buffer_get_usage(weights->buffer) ==
                       GGML_BACKEND_BUFFER_USAGE_WEIGHTS
               ? weights
               : NULL;
}

/* Counts of what is computed on OpenCL, and on the CPU. */
static void print_counts(const char *what, const char *of, const uint32_t counts[2])
{
    if (counts[0] + counts[1] > 0)
        printf("%s%-*s %8u %8u\n", what, 24 - (int)strlen(what), of, (unsigned)counts[0],
               (unsigned)counts[1]);
}

/* Prints how many nodes of each kind are computed where. Returns the number of products with
 * weights that are not computed on OpenCL. */
static uint32_t print_nodes(struct ggml_cgraph *graph)
{
    static uint32_t counts[GGML_OP_COUNT][2], types[GGML_TYPE_COUNT][2];
    uint32_t all[2] = {0}, on_cpu = 0;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const struct ggml_tensor *const t = ggml_graph_node(graph, i);
        if (!computes(t))
            continue;
        const bool cpu = ggml_backend_buffer_is_host(t->buffer);
        counts[t->op][cpu]++;
        all[cpu]++;
        if (weights_of(t) != NULL)
            types[weights_of(t)->type][cpu]++;
    }
    printf("%-24s %8s %8s\n", "nodes of the graph", "OpenCL", "CPU");
    for (int op = 0; op < GGML_OP_COUNT; op++)
        print_counts("", ggml_op_name((enum ggml_op)op), counts[op]);
    print_counts("", "in all", all);
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        print_counts("products with ", ggml_type_name((enum ggml_type)type), types[type]);
        on_cpu += types[type][1];
    }
    return on_cpu;
}

/* --------------------------------------------------------------------- greedy */

static const char *const prompts[] = {"The capital of France is", "Once upon a time",
                                      "The history of the wheel"};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

/* By llama.cpp on the CPU. */
static void on_cpu(const char *path, uint32_t n, int32_t *tokens)
{
    model m;
    model_open(&m, path, true);
    struct llama_context *const context = llama_init_from_model(m.llama, context_options(PROMPTS));
    struct llama_sampler *const sampler = llama_sampler_init_greedy();
    struct llama_batch batch = llama_batch_init(MAX_BATCH, 0, 1);
    if (context == NULL)
        fail("llama.cpp cannot create a context for the model");
    for (uint32_t i = 0; i < PROMPTS; i++) {
        int32_t feed[MAX_TOKENS];
        uint32_t count = tokenize(&m, prompts[i], feed), past = 0;
        for (uint32_t k = 0; k < n; k++, past += count, count = 1) {
            batch.n_tokens = 0;
            for (uint32_t j = 0; j < count; j++)
                batch_add(&batch, feed[j], past + j, i, j == count - 1);
            if (llama_decode(context, batch) != 0)
                fail("llama_decode() failed");
            tokens[i * n + k] = feed[0] = llama_sampler_sample(sampler, context, -1);
        }
    }
    llama_batch_free(batch);
    llama_sampler_free(sampler);
    llama_free(context);
    model_close(&m);
}

/* By cls_sample() on the device. Returns the products with weights that are computed elsewhere. */
static uint32_t on_device(const model *m, const char *cache, uint32_t n, int32_t *tokens)
{
    static engine e;
    uint32_t elsewhere = 0;
    engine_open(&e, m, PROMPTS, cache);
    const int64_t begun = llama_time_us();
    for (uint32_t i = 0; i < PROMPTS; i++) {
        int32_t feed[MAX_TOKENS];
        uint32_t count = tokenize(m, prompts[i], feed), past = 0;
        cls_params params;
        cls_params_init(&params);
        params.temperature = 0;
        must(cls_slot_begin(e.device.sampler, i, &params, NULL));
        for (uint32_t k = 0; k < n; k++, past += count, count = 1) {
            clsample_llama_place place;
            cls_step step;
            const int32_t slot = (int32_t)i;
            for (uint32_t j = 0; j < count; j++)
                batch_add(&e.batch, feed[j], past + j, i, j == count - 1);
            const cl_command_queue queue = engine_decode(&e, &place);
            cls_step_init(&step);
            step.rows = 1;
            step.logits = place.logits;
            step.slots.host = &slot;
            step.tokens = PART(&e.device, results, tokens);
            must(cls_sample(e.device.sampler, queue, &step, 0, NULL, NULL));
            must(clEnqueueReadBuffer(queue, e.device.memory, CL_TRUE, 0, sizeof *feed, feed, 0,
                                     NULL, NULL));
            tokens[i * n + k] = feed[0];
        }
    }
    printf("%.2f s a token on OpenCL\n", 1e-6 * (double)(llama_time_us() - begun) / (PROMPTS * n));
    elsewhere = print_nodes(clsample_llama_logits_graph(e.logits));
    engine_close(&e);
    return elsewhere;
}

static int mode_greedy(const model *m, const char *path, const char *cache, uint32_t n)
{
    int32_t *const cpu = calloc(PROMPTS * n, sizeof *cpu), *const device =
                                                               calloc(PROMPTS * n, sizeof *device);
    if (cpu == NULL || device == NULL)
        fail("out of memory");
    on_cpu(path, n, cpu);
    int failed = on_device(m, cache, n, device) != 0;
    if (failed)
        printf("FAILED: products with weights are computed on the CPU\n");
    for (uint32_t i = 0; i < PROMPTS; i++) {
        char text[4096] = "";
        uint32_t equal = 0;
        while (equal < n && cpu[i * n + equal] == device[i * n + equal])
            equal++;
        for (uint32_t k = 0; k < n; k++)
            append_piece(m, device[i * n + k], text, sizeof text);
        printf("%u of %u tokens equal the CPU's: %s%s\n", (unsigned)equal, (unsigned)n, prompts[i],
               text);
        failed |= equal < n;
    }
    free(cpu);
    free(device);
    return failed;
}

/* ----------------------------------------------------------------------- main */

static int write_f16(const char *from, const char *to)
{
    struct llama_model_quantize_params options = llama_model_quantize_default_params();
    options.ftype = LLAMA_FTYPE_MOSTLY_F16;
    options.allow_requantize = true;
    options.nthread = 2;
    if (llama_model_quantize(from, to, &options) != 0)
        fail("%s cannot be written", to);
    return 0;
}

/* Warnings, errors, and their continuations; the rest is some hundred lines. */
static void log_line(enum ggml_log_level level, const char *text, void *user)
{
    static enum ggml_log_level last = GGML_LOG_LEVEL_NONE;
    (void)user;
    if (level != GGML_LOG_LEVEL_CONT)
        last = level;
    if (last >= GGML_LOG_LEVEL_WARN)
        fputs(text, stderr);
}

int main(int argc, char **argv)
{
    const char *cache = NULL;
    model m;
    int status = 2;
    if (argc > 2 && strcmp(argv[1], "-c") == 0) {
        cache = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 3)
        fail("usage: in_place [-c CACHE] greedy|requests|bytes|speed|kept|f16 MODEL.gguf [N]");
    const char *const mode = argv[1], *const path = argv[2];
    const uint32_t n = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 16;
    setvbuf(stdout, NULL, _IOLBF, 0);
    llama_log_set(log_line, NULL);
    llama_backend_init();
    if (strcmp(mode, "f16") == 0 && argc > 3)
        return write_f16(path, argv[3]);
    if (n == 0 || n > MAX_TOKENS / 2)
        fail("N is 1 to %d", MAX_TOKENS / 2);
    model_open(&m, path, false);
    if (strcmp(mode, "greedy") == 0)
        status = mode_greedy(&m, path, cache, n);
    else if (strcmp(mode, "requests") == 0)
        status = mode_requests(&m, cache, n);
    else if (strcmp(mode, "bytes") == 0)
        status = mode_bytes(&m, cache, n);
    else if (strcmp(mode, "speed") == 0)
        status = mode_speed(&m, cache, n);
    else if (strcmp(mode, "kept") == 0)
        status = mode_kept(&m, cache, n);
    else
        fail("unknown mode %s", mode);
    model_close(&m);
    llama_backend_free();
    return status;
}
