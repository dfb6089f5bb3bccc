/* SPDX-License-Identifier: MIT */
/* Asks for each part that the library in one file may leave out, and prints a line for each: the
 * macro whose name must be in the message, and the message. For amalgamation.sh. */
#define CL_TARGET_OPENCL_VERSION 120
#include "clsample.h"
#include <stdio.h>

static void ask(const char *part, const char *what, cls_status status)
{
    printf("%s %s: %s\n", part, what, status != CLS_OK ? cls_error_message() : "accepted");
}

static int drop(void *user, const char *file, uint64_t offset, const void *bytes, size_t size)
{
    return user != NULL && file == bytes && offset == size;
}

int main(void)
{
    static const struct {
        const char *part;
        uint32_t feature;
    } features[] = {{"SHARDS", CLS_FEATURE_SHARD},       {"VERIFY", CLS_FEATURE_VERIFY},
                    {"SEARCH", CLS_FEATURE_SEARCH},      {"SAMPLERS", CLS_FEATURE_SAMPLERS},
                    {"SAMPLERS", CLS_FEATURE_WATERMARK}, {"OUTPUTS", CLS_FEATURE_PROBS},
                    {"OUTPUTS", CLS_FEATURE_KEPT_SETS}};
    enum { VOCAB = 70000 };
    static float zeros[VOCAB];
    cl_platform_id platform;
    cl_device_id device;
    cls_context_options context_options;
    cls_sampler_options o;
    cls_context *context, *other = NULL;
    cls_sampler *sampler;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
        return 77;
    const cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    const cl_command_queue queue = clCreateCommandQueue(cl, device, 0, NULL);
    cls_sampler_options_init(&o);
    o.late_compile = 1;
    o.vocab = VOCAB;
    if (cls_context_create(cl, device, NULL, &context) != CLS_OK ||
        cls_sampler_create(context, &o, &sampler) != CLS_OK)
        return 1;

    cls_context_options_init(&context_options);
    context_options.cache_dir = ".";
    ask("BINARIES", "cache_dir", cls_context_create(cl, device, &context_options, &other));
    cls_context_destroy(other);
    other = NULL;
    ask("HOST", "the host", cls_context_create_host(NULL, &other));
    cls_context_destroy(other);
    o.record = drop;
    cls_sampler *recorded = NULL;
    ask("RECORD", "options->record", cls_sampler_create(context, &o, &recorded));
    cls_sampler_destroy(recorded);
    o.record = NULL;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        cls_sampler *more = NULL;
        o.features = features[i].feature;
        ask(features[i].part, "options->features", cls_sampler_create(context, &o, &more));
        cls_sampler_destroy(more);
        ask(features[i].part, "compile", cls_context_compile(context, 0, features[i].feature));
    }

#define BEGIN(PART, FIELD, VALUE) \
    { \
        cls_params p; \
        cls_params_init(&p); \
        p.temperature = 0.5f; \
        p.top_k = 40; \
        p.FIELD = VALUE; \
        ask(PART, #FIELD, cls_slot_begin(sampler, 0, &p, NULL)); \
    }
    BEGIN("SAMPLERS", top_a, 0.5f)
    BEGIN("SAMPLERS", top_n_sigma, 1)
    BEGIN("SAMPLERS", typical_p, 0.5f)
    BEGIN("SAMPLERS", xtc_probability, 0.5f)
    BEGIN("SAMPLERS", p_less, 1)
    BEGIN("SAMPLERS", mirostat, 1)
    BEGIN("SAMPLERS", mirostat, 2)
    BEGIN("SAMPLERS", dynatemp_range, 0.25f)
    BEGIN("SAMPLERS", adaptive_target, 0.5f)
    BEGIN("SEARCH", top_k, 0; p.top_p = 0.9f)
    BEGIN("SEARCH", top_k, 5000)

    cls_params p;
    cls_step step;
    cls_outputs outputs;
    cls_params_init(&p);
    cls_step_init(&step);
    cls_outputs_init(&outputs);
    if (cls_slot_begin(sampler, 0, &p, NULL) != CLS_OK)
        return 1;
    step.rows = 1;
    step.outputs = &outputs;
    step.logits.values.buffer =
        clCreateBuffer(cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros, NULL);
    const cl_mem out = clCreateBuffer(cl, CL_MEM_READ_WRITE, sizeof zeros, NULL, NULL);
    outputs.probs.buffer = out;
    ask("OUTPUTS", "probs", cls_sample(sampler, queue, &step, 0, NULL, NULL));
    outputs.probs.buffer = NULL;
    outputs.kept_set.ids.buffer = out;
    outputs.kept_set.counts.buffer = out;
    outputs.kept_set.capacity = 8;
    ask("OUTPUTS", "kept_set", cls_sample(sampler, queue, &step, 0, NULL, NULL));
    clFinish(queue);
    if (cls_context_create_host(NULL, &other) == CLS_OK) { /* without a device, too */
        static float probs[VOCAB];
        static int32_t ids[8];
        cls_sampler *on_host = NULL;
        o.features = 0;
        if (cls_sampler_create(other, &o, &on_host) != CLS_OK)
            return 1;
        cls_step_init(&step);
        cls_outputs_init(&outputs);
        step.rows = 1;
        step.outputs = &outputs;
        step.logits.values =
            (cls_buffer){.pointer = zeros, .size = sizeof zeros, .kind = CLS_BUFFER_HOST};
        outputs.probs =
            (cls_buffer){.pointer = probs, .size = sizeof probs, .kind = CLS_BUFFER_HOST};
        ask("OUTPUTS", "probs of the host", cls_sample(on_host, NULL, &step, 0, NULL, NULL));
        outputs.probs = (cls_buffer){.buffer = NULL};
        outputs.kept_set.capacity = 8;
        outputs.kept_set.ids =
            (cls_buffer){.pointer = ids, .size = sizeof ids, .kind = CLS_BUFFER_HOST};
        ask("OUTPUTS", "kept_set of the host", cls_sample(on_host, NULL, &step, 0, NULL, NULL));
        cls_sampler_destroy(on_host);
        cls_context_destroy(other);
    }

    cls_grammar *grammar = (cls_grammar *)&grammar;
    cls_shard *shard = (cls_shard *)&shard;
    size_t size = 0;
    int32_t token;
    ask("GRAMMARS", "grammar", cls_grammar_create(NULL, &grammar));
    ask("SHARDS", "shard", cls_shard_create(sampler, NULL, &shard));
    if (grammar != NULL)
        puts("GRAMMARS: it is not NULL");
    ask("VERIFY", "verify", cls_verify(sampler, queue, NULL, 0, NULL, NULL));
    ask("VERIFY", "draft", cls_draft(sampler, queue, NULL, 0, NULL, NULL));
    ask("BINARIES", "export", cls_context_export(context, NULL, &size));
    ask("HOST", "cls_host_draw", cls_host_draw(NULL, &token));
    ask("SELFTEST", "selftest", cls_selftest(NULL, NULL));
    return 0;
}
