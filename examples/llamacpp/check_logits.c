/* SPDX-License-Identifier: MIT */
/* Draws tokens from a tensor that lies in an OpenCL buffer as ggml-opencl's do, and gives
 * clsample-llama-logits.c each batch and tensor that it must refuse. The functions of llama.cpp and
 * of ggml that say where a tensor is are here. */
#include "clsample-llama-logits.h"
#include "../opencl.h"

#include <string.h>

enum { VOCAB = 1003, SEQUENCES = 3, TOKENS = 6, AT = 4096, PADDED = VOCAB + 5 };

#define CHECK(truth) check((truth), #truth, __LINE__)

static void check(bool truth, const char *what, int line)
{
    if (truth)
        return;
    fprintf(stderr, "check_logits.c:%d: failed: %s\n", line, what);
    exit(1);
}

/* ------------------------------------------------------------------ what there is */

static struct {
    struct ggml_tensor tensor;
    struct {
        cl_mem buffer;
        cl_ulong offset;
    } extra;
    const char *backend;
    bool host, exported, hidden; /* hidden: the exported function knows no such tensor */
    cl_command_queue queue;      /* ggml's */
    int waits;
} now;

static int graph, model, vocab, context, buffer; /* their addresses are handles */

struct ggml_tensor *ggml_graph_get_tensor(const struct ggml_cgraph *g, const char *name)
{
    return (const void *)g == &graph && strcmp(name, "result_output") == 0 ? &now.tensor : NULL;
}

size_t ggml_type_size(enum ggml_type type) { return type == GGML_TYPE_F32 ? 4 : 2; }
const char *ggml_type_name(enum ggml_type type) { return type == GGML_TYPE_F32 ? "f32" : "other"; }
ggml_backend_buffer_type_t ggml_backend_buffer_get_type(ggml_backend_buffer_t b)
{
    return (void *)b;
}
bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t type) { return (void)type, now.host; }
const char *ggml_backend_buft_name(ggml_backend_buffer_type_t type)
{
    return (void)type, now.backend;
}
ggml_backend_dev_t ggml_backend_buft_get_device(ggml_backend_buffer_type_t type)
{
    return now.backend[0] != '\0' ? (void *)type : NULL;
}
ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device)
{
    return (void *)device;
}
const char *ggml_backend_reg_name(ggml_backend_reg_t backend) { return (void)backend, now.backend; }

static bool get_tensor(const struct ggml_tensor *tensor, cl_command_queue *queue, cl_mem *memory,
                       size_t *offset)
{
    *queue = now.queue;
    *memory = now.extra.buffer;
    *offset = (size_t)now.extra.offset + tensor->view_offs;
    return !now.hidden;
}

void *ggml_backend_reg_get_proc_address(ggml_backend_reg_t backend, const char *name)
{
    bool (*const function)(const struct ggml_tensor *, cl_command_queue *, cl_mem *, size_t *) =
        get_tensor;
    void *address = NULL;
    (void)backend;
    if (now.exported && strcmp(name, "ggml_backend_opencl_get_tensor") == 0)
        memcpy(&address, &function, sizeof address);
    return address;
}

const struct llama_model *llama_get_model(const struct llama_context *c)
{
    return (void)c, (void *)&model;
}
const struct llama_vocab *llama_model_get_vocab(const struct llama_model *m)
{
    return (void)m, (void *)&vocab;
}
int32_t llama_vocab_n_tokens(const struct llama_vocab *v) { return (void)v, VOCAB; }
void llama_synchronize(struct llama_context *c) { (void)c, now.waits++; }

/* --------------------------------------------------------------------- a batch */

static llama_seq_id sequence_of[TOKENS], *sequences[TOKENS];
static int32_t counts[TOKENS];
static int8_t outputs[TOKENS];
static struct llama_batch batch;

/* Six tokens of three sequences, the last of each with logits; and the tensor for them, whose rows
 * are not dense, in the middle of a buffer. */
static void usual(void)
{
    batch = (struct llama_batch){
        .n_tokens = TOKENS, .n_seq_id = counts, .seq_id = sequences, .logits = outputs};
    for (int i = 0; i < TOKENS; i++) {
        sequence_of[i] = i / 2;
        sequences[i] = &sequence_of[i];
        counts[i] = 1;
        outputs[i] = (int8_t)(i % 2);
    }
    now.tensor = (struct ggml_tensor){.type = GGML_TYPE_F32,
                                      .buffer = (void *)&buffer,
                                      .ne = {VOCAB, SEQUENCES, 1, 1},
                                      .nb = {4, 4 * PADDED, 0, 0},
                                      .view_offs = AT / 2,
                                      .extra = &now.extra};
    now.extra.offset = AT / 2;
    now.backend = "OpenCL";
    now.host = now.exported = now.hidden = false;
}

static clsample_llama_logits *l;
static clsample_llama_place place;

static bool found(void) { return clsample_llama_logits_find(l, (void *)&context, &batch, &place); }

/* A tensor or a batch as usual, but for one thing. */
#define REFUSED(change) (usual(), (void)(change), CHECK(!found()))

static void check_refused(cl_mem image)
{
    const cl_mem memory = now.extra.buffer;
    REFUSED(outputs[1] = outputs[3] = outputs[5] = 0);
    REFUSED(outputs[0] = 1); /* more outputs than rows: the batch was cut */
    REFUSED(outputs[1] = 0);
    REFUSED(sequence_of[1] = 2); /* 0 2 1 1 2 2 */
    REFUSED(sequence_of[5] = 0);
    REFUSED(sequence_of[3] = SEQUENCES);
    REFUSED(sequence_of[3] = -1);
    REFUSED(counts[2] = 2);
    REFUSED(batch.logits = NULL);
    REFUSED(batch.seq_id = NULL);
    REFUSED(now.tensor.buffer = NULL);
    REFUSED(now.tensor.ne[0] = VOCAB + 1);
    REFUSED(now.tensor.ne[2] = 2);
    REFUSED(now.tensor.type = GGML_TYPE_Q4_0);
    REFUSED(now.tensor.nb[0] = 8);
    REFUSED(now.tensor.nb[1] = 4 * PADDED + 1);
    REFUSED(now.tensor.extra = NULL);
    REFUSED(now.host = true);
    REFUSED(now.backend = "CPU");
    REFUSED(now.backend = "");
    REFUSED(now.exported = now.hidden = true);
    REFUSED(now.extra.offset = UINT64_C(1) << 40);
    REFUSED(now.tensor.view_offs += PADDED * 4); /* the last row reaches beyond the end */
    REFUSED(now.extra.buffer = image);
    now.extra.buffer = memory;
}

/* ------------------------------------------------------------------------ main */

/* Greedy tokens of the rows, whose largest logits are at 7, 107 and 207. */
static void check_tokens(const opencl *o)
{
    int32_t tokens[SEQUENCES] = {-1, -1, -1};
    cls_sampler *sampler;
    cls_sampler_options options;
    cls_params params;
    cls_step step;
    CHECK(found() && place.rows == SEQUENCES && place.context == o->context &&
          place.device == o->device);
    const cl_mem out = opencl_buffer(o, sizeof tokens);
    cls_sampler_options_init(&options);
    options.vocab = VOCAB;
    options.max_rows = SEQUENCES;
    must(cls_sampler_create(o->cls, &options, &sampler));
    cls_params_init(&params);
    params.temperature = 0;
    for (uint32_t i = 0; i < SEQUENCES; i++)
        must(cls_slot_begin(sampler, i, &params, NULL));
    cls_step_init(&step);
    step.rows = place.rows;
    step.logits = place.logits;
    step.tokens.buffer = out;
    must(cls_sample(sampler, now.queue, &step, 0, NULL, NULL));
    must(clEnqueueReadBuffer(now.queue, out, CL_TRUE, 0, sizeof tokens, tokens, 0, NULL, NULL));
    CHECK(tokens[0] == 7 && tokens[1] == 107 && tokens[2] == 207);
    cls_sampler_destroy(sampler);
    clReleaseMemObject(out);
}

int main(void)
{
    static float rows[AT / 4 + (SEQUENCES - 1) * PADDED + VOCAB];
    struct llama_context_params options = {.n_seq_max = 1};
    struct ggml_tensor tensor;
    cl_int code;
    opencl o = opencl_open();
    now.queue = o.queue;
    for (int i = 0; i < SEQUENCES; i++)
        rows[AT / 4 + i * PADDED + 7 + 100 * i] = 3;
    now.extra.buffer = clCreateBuffer(o.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                      sizeof rows, rows, &code);
    CHECK(code == CL_SUCCESS);

    fprintf(stderr, "check_logits: messages about what is refused follow\n");
    l = clsample_llama_logits_open(SEQUENCES);
    CHECK(l != NULL && clsample_llama_logits_attach(l, &options));
    CHECK(options.kv_unified && options.n_seq_max == SEQUENCES);
    CHECK(options.n_samplers == SEQUENCES && options.samplers[2].seq_id == 2);
    CHECK(!clsample_llama_logits_attach(l, &options)); /* it has samplers */
    usual();
    CHECK(!found()); /* no graph was built */

    /* llama.cpp takes the sampler for one that runs in the graph, and finds nothing to copy. */
    struct llama_sampler *const chain = options.samplers[1].sampler;
    struct llama_sampler_data data = {.logits = &tensor};
    CHECK(chain->iface->backend_init(chain, NULL, 1));
    chain->iface->backend_apply(chain, NULL, (void *)&graph, &data);
    CHECK(data.logits == NULL && data.sampled == NULL && data.probs == NULL);
    llama_token_data_array candidates = {.selected = 0};
    llama_sampler_apply(chain, &candidates);
    CHECK(candidates.selected == -1);

    usual();
    check_tokens(&o);
    CHECK(place.queue == NULL && now.waits == 1);
    now.exported = true;
    check_tokens(&o);
    CHECK(place.queue == now.queue && now.waits == 1);
    now.tensor.type = GGML_TYPE_F16;
    now.tensor.nb[0] = 2;
    CHECK(found() && place.logits.dtype == CLS_F16 && place.logits.row_stride == 2 * PADDED);

    const cl_image_format format = {CL_RGBA, CL_FLOAT};
    const cl_image_desc shape = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64, .image_height = 64};
    const cl_mem image = clCreateImage(o.context, CL_MEM_READ_WRITE, &format, &shape, NULL, &code);
    check_refused(code == CL_SUCCESS ? image : NULL);
    usual();
    CHECK(found());

    if (code == CL_SUCCESS)
        clReleaseMemObject(image);
    clsample_llama_logits_close(l);
    clReleaseMemObject(now.extra.buffer);
    opencl_close(&o);
    printf("check_logits: tokens are drawn in place, and what could be other rows is refused\n");
    return 0;
}
