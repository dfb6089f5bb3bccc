/* SPDX-License-Identifier: MIT */
/* Samples rows of logits that belong to no request: each token follows from a row's logits, its
 * parameters, its seed and a position, and from nothing before it. The logits are in the host's
 * memory, where a CPU reads them without a copy. Compares the tokens with those of the same calls
 * on the host, and prints what the first step takes, the fastest of those with the same parameters,
 * and the fastest of those with new ones.
 *
 *     cc rows.c $(pkg-config --cflags --libs clsample) && ./a.out
 */
#include "opencl.h"
#include <string.h>
#include <time.h>

#define ROWS 16
#define VOCAB 32000
#define STEPS 40

static double microseconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static double least(double a, double b) { return a < b ? a : b; }

/* Writes the logits through a map of their buffer. Where nothing is copied the map is the memory
 * itself, and both calls take no time. */
static void write_logits(cl_command_queue queue, cl_mem buffer, int step)
{
    cl_int code;
    float *logits =
        (float *)clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                    sizeof(float) * ROWS * VOCAB, 0, NULL, NULL, &code);
    must(code);
    for (uint32_t i = 0; i < ROWS * VOCAB; i++)
        logits[i] = (float)((i * 7919 + (uint32_t)step * 104729) % 10007) * 1e-3f;
    must(clEnqueueUnmapMemObject(queue, buffer, logits, 0, NULL, NULL));
}

/* Each row has a slot of its own for its parameters. Tokens do not enter it. */
static cls_params params_of(uint32_t row, uint64_t seed)
{
    cls_params params;
    cls_params_init(&params);
    params.temperature = 0.5f + 0.1f * (float)row;
    params.top_k = 50;
    params.seed = seed; /* the same seed for all rows would need another `stream` for each */
    return params;
}

int main(void)
{
    /* A buffer of the host's memory begins at a multiple of 128 bytes, as OpenCL's compilers may
     * assume; some drivers of GPUs that share the memory copy it unless it is whole pages. */
    static char memory[sizeof(float) * ROWS * VOCAB + 4096];
    float *logits = (float *)(void *)(memory + (4096 - (uintptr_t)memory % 4096) % 4096);
    int32_t tokens[ROWS], tokens_of_host[ROWS], positions[ROWS];
    double in_call = 1e9, in_all = 1e9; /* of the fastest step */
    cl_int code;

    opencl device = opencl_open();
    cl_command_queue queue = device.queue;
    cl_mem in = clCreateBuffer(device.context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR,
                               sizeof(float) * ROWS * VOCAB, logits, &code);
    must(code);
    cl_mem out = opencl_buffer(&device, sizeof tokens);

    cls_context *host;
    cls_sampler *sampler, *reference;
    must(cls_context_create_host(NULL, &host));
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.vocab = VOCAB;
    options.max_rows = ROWS;
    must(cls_sampler_create(device.cls, &options, &sampler));
    must(cls_sampler_create(host, &options, &reference));

    cls_step step;
    cls_step_init(&step);
    step.rows = ROWS;
    step.logits.values.buffer = in;
    step.positions.host = positions;
    step.defer_accept = 1; /* the slots do not change: no row depends on an earlier step */
    step.tokens.buffer = out;
    cls_step on_host = step; /* with other memory */
    on_host.logits.values = host_memory(logits, sizeof(float) * ROWS * VOCAB);
    on_host.tokens = host_memory(tokens_of_host, sizeof tokens_of_host);
    for (int s = 0; s < STEPS; s++) {
        write_logits(queue, in, s);
        const double start = microseconds();
        for (uint32_t r = 0; r < ROWS; r++) {
            const cls_params params = params_of(r, 100 + r);
            positions[r] = s;
            if (s == 0 || s >= STEPS / 2) /* once, and again where parameters change */
                must(cls_slot_begin(sampler, r, &params, NULL));
            if (s == 0)
                must(cls_slot_begin(reference, r, &params, NULL));
        }
        must(cls_sample(sampler, queue, &step, 0, NULL, NULL));
        in_call = least(in_call, microseconds() - start);
        must(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof tokens, tokens, 0, NULL, NULL));
        in_all = least(in_all, microseconds() - start);
        must(cls_sample(reference, NULL, &on_host, 0, NULL, NULL));
        if (memcmp(tokens, tokens_of_host, sizeof tokens) != 0) {
            fprintf(stderr, "step %d: the host draws another token\n", s);
            return 1;
        }
        if (s == 0 || s == STEPS / 2 - 1 || s == STEPS - 1) {
            printf("%2d calls: %5.0f us on the host, %5.0f us to the tokens\n",
                   s > 0 && s < STEPS / 2 ? 1 : ROWS + 1, in_call, in_all);
            in_call = in_all = 1e9;
        }
    }

    cls_sampler_destroy(reference);
    cls_sampler_destroy(sampler);
    cls_context_destroy(host);
    clReleaseMemObject(out);
    clReleaseMemObject(in);
    opencl_close(&device);
    return 0;
}
