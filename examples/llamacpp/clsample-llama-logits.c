/* SPDX-License-Identifier: MIT */
/* llama.cpp builds a graph for a batch, or computes the last one again if it has the same shape. It
 * calls backend_apply() while it builds one, so that the last call has the graph of the batch.
 *
 * What is private to ggml-opencl is read in one place, place_of(): `extra` of a tensor begins with
 * the cl_mem and a 64-bit offset, to which view_offs is added. It was read in ggml 0.25.3.
 */
#include "clsample-llama-logits.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct clsample_llama_logits {
    uint32_t sequences;
    struct llama_sampler_seq_config *chains; /* [sequences] */
    struct ggml_cgraph *graph;               /* the last one that was built */
};

/* The first words of ggml-opencl's struct for a tensor of numbers that are not quantized. */
struct extra {
    cl_mem buffer;
    cl_ulong offset;
};

/* A function of ggml-opencl with the patch of doc/runtimes.md. */
typedef bool (*get_tensor)(const struct ggml_tensor *tensor, cl_command_queue *queue,
                           cl_mem *buffer, size_t *offset);

static bool failed(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("clsample: the logits cannot be sampled in place: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

/* ------------------------------------------------- a sampler that leaves the logits */

static const char *sampler_name(const struct llama_sampler *s)
{
    (void)s;
    return "clsample-logits";
}

/* Only a program that calls llama_sampler_sample() comes here, where the logits are not. */
static void sampler_apply(struct llama_sampler *s, llama_token_data_array *candidates)
{
    (void)s;
    candidates->selected = -1;
    failed("llama_sampler_sample() was called, but cls_sample() draws the token");
}

static bool sampler_init(struct llama_sampler *s, ggml_backend_buffer_type_t type, uint32_t outputs)
{
    (void)s, (void)type, (void)outputs;
    return true;
}

static void sampler_graph(struct llama_sampler *s, struct ggml_context *context,
                          struct ggml_cgraph *graph, struct llama_sampler_data *data)
{
    clsample_llama_logits *const l = s->ctx;
    (void)context;
    l->graph = graph;
    data->logits = NULL; /* nothing is added to the graph, and nothing is copied */
}

static struct llama_sampler *sampler_clone(const struct llama_sampler *s);
static void sampler_free(struct llama_sampler *s) { (void)s; }

static struct llama_sampler_i sampler_interface = {
    .name = sampler_name,
    .apply = sampler_apply,
    .clone = sampler_clone,
    .free = sampler_free,
    .backend_init = sampler_init,
    .backend_apply = sampler_graph,
};

static struct llama_sampler *sampler_clone(const struct llama_sampler *s)
{
    return llama_sampler_init(&sampler_interface, s->ctx);
}

clsample_llama_logits *clsample_llama_logits_open(uint32_t sequences)
{
    clsample_llama_logits *const l = calloc(1, sizeof *l);
    if (l != NULL)
        l->chains = calloc(sequences, sizeof *l->chains);
    if (l == NULL || l->chains == NULL) {
        failed("out of memory");
        free(l);
        return NULL;
    }
    for (; l->sequences < sequences; l->sequences++) {
        struct llama_sampler *const chain =
            llama_sampler_chain_init(llama_sampler_chain_default_params());
        llama_sampler_chain_add(chain, llama_sampler_init(&sampler_interface, l));
        l->chains[l->sequences] =
            (struct llama_sampler_seq_config){(llama_seq_id)l->sequences, chain};
    }
    return l;
}

void clsample_llama_logits_close(clsample_llama_logits *l)
{
    if (l == NULL)
        return;
    for (uint32_t i = 0; i < l->sequences; i++)
        llama_sampler_free(l->chains[i].sampler);
    free(l->chains);
    free(l);
}

bool clsample_llama_logits_attach(clsample_llama_logits *l, struct llama_context_params *options)
{
    if (options->n_samplers != 0)
        return failed("the context's options have samplers");
    options->samplers = l->chains;
    options->n_samplers = l->sequences;
    options->kv_unified = true; /* else llama.cpp sorts the tokens of a batch by their sequences */
    if (options->n_seq_max < l->sequences)
        options->n_seq_max = l->sequences;
    return true;
}

struct ggml_cgraph *clsample_llama_logits_graph(clsample_llama_logits *l) { return l->graph; }

/* -------------------------------------------------------------------- the batch */

/* Counts the outputs of a batch, 0 if rows of the graph could be in another order: llama.cpp may
 * sort tokens by sequences, which changes nothing if each sequence's are together. */
static uint32_t outputs_of(const clsample_llama_logits *l, const struct llama_batch *batch)
{
    uint32_t outputs = 0;
    if (batch->logits == NULL || batch->seq_id == NULL || batch->n_seq_id == NULL) {
        failed("the batch does not say which of its tokens have logits, and of which sequence");
        return 0;
    }
    for (int32_t i = 0; i < batch->n_tokens; i++) {
        const llama_seq_id sequence = batch->seq_id[i][0];
        if (batch->n_seq_id[i] != 1 || sequence < 0 || (uint32_t)sequence >= l->sequences) {
            failed("token %d of the batch is not of one sequence from 0 to %u", (int)i,
                   (unsigned)l->sequences - 1);
            return 0;
        }
        for (int32_t j = i; j > 1 && sequence != batch->seq_id[i - 1][0]; j--)
            if (batch->seq_id[j - 2][0] == sequence) {
                failed("the tokens of sequence %d are not together in the batch", (int)sequence);
                return 0;
            }
        outputs += batch->logits[i] != 0;
    }
    if (outputs == 0)
        failed("no token of the batch has logits");
    return outputs;
}

/* ------------------------------------------------------------------- the tensor */

/* The buffer, offset and queue of a tensor of ggml-opencl. */
static bool place_of(const struct ggml_tensor *t, clsample_llama_place *place)
{
    const ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(t->buffer);
    const ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    const ggml_backend_reg_t backend = device != NULL ? ggml_backend_dev_backend_reg(device) : NULL;
    if (backend == NULL || strcmp(ggml_backend_reg_name(backend), "OpenCL") != 0 ||
        ggml_backend_buft_is_host(type))
        return failed("they are in memory of %s, not of OpenCL; is the output layer offloaded?",
                      ggml_backend_buft_name(type));
    cls_buffer *const values = &place->logits.values;
    const struct extra *const extra = t->extra;
    const get_tensor exported =
        (get_tensor)ggml_backend_reg_get_proc_address(backend, "ggml_backend_opencl_get_tensor");
    size_t offset = 0;
    if (exported != NULL) {
        if (!exported(t, &place->queue, &values->buffer, &offset))
            return failed("ggml-opencl does not say where they are");
        values->offset = offset;
    } else if (extra != NULL) {
        values->buffer = extra->buffer;
        values->offset = extra->offset + t->view_offs;
    } else {
        return failed("the tensor has no buffer");
    }
    return true;
}

/* The context and the device of a buffer, which must have room for the logits. */
static bool check_buffer(clsample_llama_place *place)
{
    const cls_buffer *const values = &place->logits.values;
    cl_mem_object_type type = 0;
    size_t size = 0;
    cl_uint devices = 0;
    if (clGetMemObjectInfo(values->buffer, CL_MEM_TYPE, sizeof type, &type, NULL) != CL_SUCCESS ||
        type != CL_MEM_OBJECT_BUFFER ||
        clGetMemObjectInfo(values->buffer, CL_MEM_SIZE, sizeof size, &size, NULL) != CL_SUCCESS ||
        clGetMemObjectInfo(values->buffer, CL_MEM_CONTEXT, sizeof place->context, &place->context,
                           NULL) != CL_SUCCESS)
        return failed("the tensor does not begin with a buffer in this version of ggml-opencl");
    if (values->offset > size || values->size > size - values->offset)
        return failed("the tensor reaches beyond its buffer");
    if (clGetContextInfo(place->context, CL_CONTEXT_NUM_DEVICES, sizeof devices, &devices, NULL) !=
            CL_SUCCESS ||
        devices != 1)
        return failed("ggml's context has %u devices; GGML_OPENCL_DEVICE selects one",
                      (unsigned)devices);
    return clGetContextInfo(place->context, CL_CONTEXT_DEVICES, sizeof place->device,
                            &place->device, NULL) == CL_SUCCESS ||
           failed("the context does not tell its device");
}

bool clsample_llama_logits_find(clsample_llama_logits *l, struct llama_context *context,
                                const struct llama_batch *batch, clsample_llama_place *place)
{
    const int64_t vocab = llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
    *place = (clsample_llama_place){.rows = outputs_of(l, batch)};
    if (place->rows == 0)
        return false;
    if (l->graph == NULL)
        return failed("the context was not made with the options of "
                      "clsample_llama_logits_attach()");
    const struct ggml_tensor *const t = ggml_graph_get_tensor(l->graph, "result_output");
    if (t == NULL || t->buffer == NULL)
        return failed("the graph has no tensor result_output");
    if (t->ne[0] != vocab || t->ne[1] != place->rows || t->ne[2] != 1 || t->ne[3] != 1)
        return failed("result_output is [%lld, %lld], and the batch has %u outputs; one larger "
                      "than n_ubatch is computed in pieces",
                      (long long)t->ne[0], (long long)t->ne[1], (unsigned)place->rows);
    if ((t->type != GGML_TYPE_F32 && t->type != GGML_TYPE_F16) ||
        t->nb[0] != ggml_type_size(t->type) || t->nb[1] % t->nb[0] != 0)
        return failed("result_output is %s with a stride of %zu bytes", ggml_type_name(t->type),
                      t->nb[0]);
    place->logits.dtype = t->type == GGML_TYPE_F32 ? CLS_F32 : CLS_F16;
    place->logits.row_stride = t->nb[1] / t->nb[0];
    place->logits.values.size = (place->rows - 1) * t->nb[1] + (size_t)vocab * t->nb[0];
    if (!place_of(t, place) || !check_buffer(place))
        return false;
    if (place->queue == NULL)
        llama_synchronize(context); /* nothing else orders another queue behind ggml's */
    return true;
}
