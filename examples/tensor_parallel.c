/* SPDX-License-Identifier: MIT */
/* Tensor parallelism: the LM head is divided by tokens between the ranks of MPI. Each rank keeps
 * its rows of the weight only, computes only their logits, and samples them together with the
 * others by libclsample-mpi. The tokens of a step are then on each rank's device, where its next
 * embedding reads them; the host reads them once, at the end. The weights are random, and the rest
 * of the model is one small kernel that every rank runs in full. The functions show:
 *
 *     loop_open()   the rank's tokens, and a head for them
 *     step()        hidden states, the rank's logits, the tokens of the whole vocabulary
 *
 * At the end each rank runs the same requests with the whole head, by cls_sample(). The example
 * fails if a token differs: the head's own kernel gives a token's logit the same bits wherever the
 * weight is divided, and so does the exchange with the tokens. What that needs:
 *
 *  - a float16 weight: CLBlast, which multiplies float32 weights on GPUs, may round differently for
 *    another number of tokens;
 *  - the same hidden states on all ranks, whose devices are of the same kind therefore. Several
 *    ranks may share one;
 *  - the same slot calls in the same order on all ranks.
 *
 *     mpicc tensor_parallel.c $(pkg-config --cflags --libs clsample-mpi clsample-head)
 *     mpirun -n 4 ./a.out
 */
#include "opencl.h"
#include <clsample-mpi.h>
#include <clsample/head.h>
#include <string.h>

enum { VOCAB = 5003, HIDDEN = 64, REQUESTS = 5, STEPS = 40 }; /* the ranks' parts are not equal */

/* Row t of the weight has random numbers that depend on t. A hidden state is the embedding of the
 * latest token, which are others, and half of the state before. */
static const char *const model =
    "float random(uint token, uint k) {\n"
    "    uint a = token * 64 + k;\n"
    "    a = (a ^ a >> 16) * 0x7feb352du;\n"
    "    a = (a ^ a >> 15) * 0x846ca68bu;\n"
    "    return (int)((a ^ a >> 16) >> 20) / 2048.0f - 1;\n"
    "}\n"
    "kernel void weight(global half *rows, uint first) {\n"
    "    size_t k = get_global_id(0), t = get_global_id(1);\n"
    "    vstore_half(random(first + t, k), t * 64 + k, rows);\n"
    "}\n"
    "kernel void body(global float *hidden, global const int *latest) {\n"
    "    size_t k = get_global_id(0), i = get_global_id(1);\n"
    "    hidden[i * 64 + k] = hidden[i * 64 + k] / 2 + random(5003 + latest[i], k);\n"
    "}\n";

typedef struct loop {
    const opencl *device;
    cl_kernel body;
    cl_mem weight, hidden, logits, latest, tokens; /* tokens: [STEPS, REQUESTS] */
    cls_head *head;
    cls_sampler *sampler;
    cls_mpi *mpi; /* NULL: this process has the whole vocabulary */
} loop;

static void launch(const loop *l, cl_kernel kernel, size_t rows)
{
    const size_t size[] = {HIDDEN, rows};
    must(clEnqueueNDRangeKernel(l->device->queue, kernel, 2, NULL, size, NULL, 0, NULL, NULL));
}

static void begin(const loop *l)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const int32_t prompt[] = {(int32_t)(11 * i), (int32_t)(7 + i)};
        cls_params params;
        cls_params_init(&params);
        params.seed = i;
        params.temperature = i == 0 ? 0.0f : 1.0f;
        params.top_k = i == 1 ? 40 : 0;
        params.min_p = i == 2 ? 0.02f : 0.0f;
        params.repetition_penalty = i == 3 ? 1.5f : 1.0f;
        params.max_tokens = i == 4 ? STEPS / 2 : 0; /* it ends while the others go on */
        must(cls_slot_begin(l->sampler, i, &params,
                            &(cls_text){.struct_size = sizeof(cls_text), .prompt = {prompt, 2}}));
    }
}

static void loop_open(loop *l, const opencl *device, int divided)
{
    const float zeros[REQUESTS * HIDDEN] = {0};
    const int32_t latest[REQUESTS] = {7, 8, 9, 10, 11}; /* the prompts' last tokens */
    memset(l, 0, sizeof *l);
    l->device = device;

    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.vocab = VOCAB; /* on each rank: its slots have the state of the whole requests */
    options.max_rows = REQUESTS;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH | CLS_FEATURE_SAMPLERS |
                       CLS_FEATURE_PENALTIES | CLS_FEATURE_SHARD;
    must(cls_sampler_create(device->cls, &options, &l->sampler));
    cls_shard_info part;
    cls_shard_info_init(&part);
    part.count = VOCAB;
    if (divided) {
        must(cls_mpi_create(MPI_COMM_WORLD, l->sampler, NULL, &l->mpi));
        must(cls_shard_query(cls_mpi_shard(l->mpi), &part));
    }

    const cl_program program = opencl_program(device, model);
    const cl_kernel weight = clCreateKernel(program, "weight", NULL);
    l->body = clCreateKernel(program, "body", NULL);
    clReleaseProgram(program);
    l->weight = opencl_buffer(device, (size_t)part.count * HIDDEN * sizeof(cl_half));
    l->hidden = opencl_buffer(device, sizeof zeros);
    l->logits = opencl_buffer(device, (size_t)REQUESTS * part.count * sizeof(float));
    l->latest = opencl_buffer(device, sizeof latest);
    l->tokens = opencl_buffer(device, (size_t)STEPS * REQUESTS * sizeof(int32_t));
    must(clEnqueueWriteBuffer(device->queue, l->hidden, CL_TRUE, 0, sizeof zeros, zeros, 0, NULL,
                              NULL));
    must(clEnqueueWriteBuffer(device->queue, l->latest, CL_TRUE, 0, sizeof latest, latest, 0, NULL,
                              NULL));
    must(clSetKernelArg(weight, 0, sizeof l->weight, &l->weight));
    must(clSetKernelArg(weight, 1, sizeof part.first, &part.first));
    launch(l, weight, part.count);
    clReleaseKernel(weight);
    must(clSetKernelArg(l->body, 0, sizeof l->hidden, &l->hidden));
    must(clSetKernelArg(l->body, 1, sizeof l->latest, &l->latest));

    cls_head_options head;
    cls_head_options_init(&head);
    head.vocab = part.count;
    head.hidden = HIDDEN;
    head.max_rows = REQUESTS;
    head.dtype = CLS_F16;
    head.weight.buffer = l->weight;
    must(cls_head_create(device->queue, &head, &l->head));
    begin(l);
}

static void loop_close(loop *l)
{
    const cl_mem buffers[] = {l->weight, l->hidden, l->logits, l->latest, l->tokens};
    cls_mpi_destroy(l->mpi);
    cls_sampler_destroy(l->sampler);
    cls_head_destroy(l->head);
    clReleaseKernel(l->body);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        clReleaseMemObject(buffers[i]);
}

/* The step of cls_mpi_sample() waits for the partials of all ranks, and therefore for this rank's
 * logits, but not for the tokens. */
static void step(loop *l, uint32_t number)
{
    const cl_command_queue queue = l->device->queue;
    launch(l, l->body, REQUESTS);

    cls_head_call product;
    cls_head_call_init(&product);
    product.rows = REQUESTS;
    product.hidden.buffer = l->hidden;
    product.logits.buffer = l->logits;
    must(cls_head_logits(l->head, queue, &product, 0, NULL, NULL));

    cls_step sampled;
    cls_outputs outputs;
    cls_step_init(&sampled);
    cls_outputs_init(&outputs);
    sampled.rows = REQUESTS;
    sampled.logits.values.buffer = l->logits;
    sampled.logits.dtype = CLS_F32;
    sampled.tokens.buffer = l->tokens;
    sampled.tokens.offset = (uint64_t)number * REQUESTS * sizeof(int32_t);
    outputs.latest.buffer = l->latest; /* of a request that has ended it is the last one */
    sampled.outputs = &outputs;
    must(l->mpi != NULL ? cls_mpi_sample(l->mpi, queue, &sampled, 0, NULL, NULL)
                        : cls_sample(l->sampler, queue, &sampled, 0, NULL, NULL));
}

static void run(const opencl *device, int divided, int32_t tokens[STEPS][REQUESTS])
{
    loop l;
    loop_open(&l, device, divided);
    for (uint32_t i = 0; i < STEPS; i++)
        step(&l, i);
    must(clEnqueueReadBuffer(device->queue, l.tokens, CL_TRUE, 0, sizeof(int32_t[STEPS][REQUESTS]),
                             tokens, 0, NULL, NULL));
    loop_close(&l);
}

int main(int argc, char **argv)
{
    static int32_t tokens[STEPS][REQUESTS], whole[STEPS][REQUESTS];
    int rank;
    opencl device = opencl_open();
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    run(&device, 1, tokens);
    run(&device, 0, whole);
    const int equal = memcmp(tokens, whole, sizeof tokens) == 0;
    for (int i = 0; rank == 0 && i < REQUESTS; i++) {
        printf("request %d:", i);
        for (int k = 0; k < STEPS && tokens[k][i] >= 0; k++)
            printf(" %d", (int)tokens[k][i]);
        printf("\n");
    }
    if (!equal)
        fprintf(stderr, "rank %d: the whole head draws other tokens\n", rank);
    opencl_close(&device);
    MPI_Finalize();
    return !equal;
}
