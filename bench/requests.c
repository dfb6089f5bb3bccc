/* SPDX-License-Identifier: MIT */
/* Makes the requests of the serving case, a mix of usual parameters. */
#include "bench/bench.h"

#include <math.h>

#define LEAST_PROMPT 50u

#define TOP_K "temperature=0.8 top_k=50 top_p=0.9"
#define PENALTIES TOP_K " repetition_penalty=1.1 frequency_penalty=0.1 presence_penalty=0.1"
static const char *const kinds[BENCH_KINDS] = {
    "temperature=0",
    TOP_K,
    "temperature=0.8",
    PENALTIES,
    PENALTIES " penalty_scope=all penalty_window=16",
    TOP_K,
    TOP_K,
};
enum { BIAS = 5, STOP };

void bench_make_request(const bench_setup *setup, uint32_t number, bench_request *r)
{
    const uint32_t vocab = setup->vocab, kind = number % BENCH_KINDS;
    uint64_t state = number;
    uint32_t i;

    bench_set_params(kinds[kind], &r->params);
    r->params.seed = number;
    r->prompt_count = LEAST_PROMPT + bench_random(&state, BENCH_MOST_PROMPT - LEAST_PROMPT + 1);
    bench_fill_ids(r->prompt, r->prompt_count, vocab, BENCH_ZIPF, number);
    /* On average one request leaves in two steps. The first ones begin at different ages. */
    r->steps = (number < setup->batch ? 1 : 8) + bench_random(&state, 4 * setup->batch);
    if (kind == BIAS) {
        for (i = 0; i < BENCH_MOST_BIASES; i++) {
            r->bias[i].id = (int32_t)bench_random(&state, vocab);
            r->bias[i].bias =
                i % 10 == 0 ? -INFINITY : (float)bench_random(&state, 65) * 0.25f - 4.0f;
        }
        r->params.logit_bias.biases = r->bias;
        r->params.logit_bias.count = BENCH_MOST_BIASES;
    }
    if (kind == STOP) {
        for (i = 0; i < BENCH_MOST_STOPS; i++)
            r->stop_ids[i] = (int32_t)(i % vocab);
        for (i = 0; i < 3; i++) /* some ids that will be drawn */
            r->stop_ids[i] =
                setup->likeliest[(number + 5 + 24 * i) % (setup->batch + setup->spare)];
        r->params.stop_ids.ids = r->stop_ids;
        r->params.stop_ids.count = BENCH_MOST_STOPS;
        r->params.max_tokens = r->steps;
    }
}
