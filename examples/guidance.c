/* SPDX-License-Identifier: MIT */
/* Classifier-free guidance: a text draws its tokens from softmax((s c + (1 - s) u) / T), where c
 * are its logits with the prompt, u those without it, and s is the scale. The model writes both
 * rows into one buffer, and the sampler reads the second one as a bias: no kernel combines them.
 * Compares the probabilities with the formula, and the tokens with those of the same
 * calls on the host.
 *
 *     cc guidance.c $(pkg-config --cflags --libs clsample) -lm && ./a.out
 */
#include "opencl.h"
#include <math.h>
#include <string.h>

#define VOCAB 1000
#define STEPS 20
#define TEMPERATURE 0.8f

/* Stands for the model: the row with the prompt, then the row without it. */
static void run_model(float logits[2][VOCAB], int step)
{
    for (int row = 0; row < 2; row++)
        for (int t = 0; t < VOCAB; t++)
            logits[row][t] = 6.0f / (1.0f + 0.1f * (float)abs(t - 50 * step + 7 * row)) -
                             (float)(t * 37 % 11) * 0.2f;
    logits[1][3] = -INFINITY; /* a token that either row bans is not drawn */
}

/* Returns the largest distance of the probabilities from the formula, whose exponents are exact
 * enough in double precision. */
static double distance(float logits[2][VOCAB], const float *probs, double scale)
{
    static double weight[VOCAB];
    double sum = 0, most = 0;
    for (int t = 0; t < VOCAB; t++) {
        const double guided = scale * (double)logits[0][t] + (1 - scale) * (double)logits[1][t];
        weight[t] = isinf(logits[1][t]) ? 0 : exp(guided / (double)TEMPERATURE - 10 * scale);
        sum += weight[t];
    }
    for (int t = 0; t < VOCAB; t++)
        most = fmax(most, fabs(weight[t] / sum - (double)probs[t]));
    return most;
}

int main(void)
{
    static const float scales[] = {1.5f, 4, 0.5f};
    static float logits[2][VOCAB], probs[VOCAB];
    int32_t token, token_of_host;

    opencl device = opencl_open();
    cl_command_queue queue = device.queue;
    cl_mem in = opencl_buffer(&device, sizeof logits);
    cl_mem out = opencl_buffer(&device, sizeof token);
    cl_mem dense = opencl_buffer(&device, sizeof probs);

    cls_context *host;
    cls_sampler *sampler, *reference;
    must(cls_context_create_host(NULL, &host));
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.vocab = VOCAB;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_BIAS | CLS_FEATURE_PROBS;
    must(cls_sampler_create(device.cls, &options, &sampler));
    must(cls_sampler_create(host, &options, &reference));

    cls_outputs outputs;
    cls_outputs_init(&outputs);
    outputs.probs.buffer = dense;
    cls_step step;
    cls_step_init(&step);
    step.rows = 1;
    step.logits.values.buffer = in; /* c, the first row of the buffer */
    step.bias.values.buffer = in;   /* u, the second row: */
    step.bias.values.offset = sizeof(float) * VOCAB;
    step.tokens.buffer = out;
    step.outputs = &outputs;
    cls_step on_host = step; /* with other memory */
    on_host.outputs = NULL;
    on_host.logits.values = host_memory(logits[0], sizeof logits[0]);
    on_host.bias.values = host_memory(logits[1], sizeof logits[1]);
    on_host.tokens = host_memory(&token_of_host, sizeof token_of_host);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        const float scale = scales[i];
        double most = 0;
        cls_params params;
        cls_params_init(&params);
        params.temperature = TEMPERATURE / scale;
        params.seed = 11;
        step.bias.factor = on_host.bias.factor =
            1 / scale - 1; /* below 0 for scales above 1; a scale of 1 has no bias */
        must(cls_slot_begin(sampler, 0, &params, NULL));
        must(cls_slot_begin(reference, 0, &params, NULL));
        printf("scale %.1f:", (double)scale);
        for (int s = 0; s < STEPS; s++) {
            run_model(logits, s);
            must(clEnqueueWriteBuffer(queue, in, CL_TRUE, 0, sizeof logits, logits, 0, NULL, NULL));
            must(cls_sample(sampler, queue, &step, 0, NULL, NULL));
            must(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof token, &token, 0, NULL, NULL));
            must(clEnqueueReadBuffer(queue, dense, CL_TRUE, 0, sizeof probs, probs, 0, NULL, NULL));
            most = fmax(most, distance(logits, probs, (double)scale));
            must(cls_sample(reference, NULL, &on_host, 0, NULL, NULL));
            if (token != token_of_host) {
                fprintf(stderr, "step %d: the host draws another token\n", s);
                return 1;
            }
            printf(" %d", (int)token);
        }
        printf("\n           probabilities differ from the formula by at most %.1e\n", most);
        if (!(most < 1e-5))
            return 1;
    }

    cls_sampler_destroy(reference);
    cls_sampler_destroy(sampler);
    cls_context_destroy(host);
    clReleaseMemObject(dense);
    clReleaseMemObject(out);
    clReleaseMemObject(in);
    opencl_close(&device);
    return 0;
}
