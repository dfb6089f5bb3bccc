/* SPDX-License-Identifier: MIT */
/* Beside llama.cpp's own sampler chain: what crosses to the host, how fast both are, and which
 * tokens both keep. */
#define _GNU_SOURCE
#include "clsample-llama.h"
#include "rounds.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const prompts[REQUESTS] = {
    "The capital of France is", "Once upon a time", "In the year 2050", "The old lighthouse keeper",
    "My favourite recipe is",   "A short poem:",    "Dear diary,",      "The history of the wheel"};

/* llama.cpp's defaults, and a repetition penalty. */
static cls_params usual(uint32_t number)
{
    cls_params params;
    clsample_llama_params(&params);
    params.repetition_penalty = 1.1f;
    params.seed = 40 + number;
    return params;
}

/* Others, so that each truncation is the one that cuts somewhere. */
static cls_params varied(uint32_t number)
{
    static const struct {
        int32_t top_k;
        float top_p, min_p, frequency;
    } values[] = {{40, 0.95f, 0.05f, 0}, {60, 0.8f, 0, 0.2f}, {64, 1, 0.02f, 0}, {20, 0.98f, 0, 0}};
    cls_params params = usual(number);
    params.top_k = values[number].top_k;
    params.top_p = values[number].top_p;
    params.min_p = values[number].min_p;
    params.frequency_penalty = values[number].frequency;
    return params;
}

static void chain_add(struct llama_sampler *chain, struct llama_sampler *sampler)
{
    llama_sampler_chain_add(chain, sampler);
}

/* The same parameters as llama.cpp's own samplers, without the one that draws. */
static struct llama_sampler *chain_of(const model *m, const cls_params *p)
{
    struct llama_sampler *const chain =
        llama_sampler_chain_init(llama_sampler_chain_default_params());
    chain_add(chain, llama_sampler_init_penalties((int32_t)m->words, (int32_t)p->penalty_window,
                                                  p->repetition_penalty, p->frequency_penalty,
                                                  p->presence_penalty));
    chain_add(chain, llama_sampler_init_top_k(p->top_k));
    chain_add(chain, llama_sampler_init_top_p(p->top_p, 1));
    chain_add(chain, llama_sampler_init_min_p(p->min_p, 1));
    chain_add(chain, llama_sampler_init_temp(p->temperature));
    return chain;
}

/* ---------------------------------------------------------- by llama.cpp's interface */

/* Sequences whose logits come to the host, and are sampled by llama_samplers. */
typedef struct copying {
    const model *m;
    struct llama_context *llama;
    struct llama_batch batch;
    clsample_llama *adapter; /* NULL: llama.cpp's own chain */
    struct llama_sampler *samplers[REQUESTS];
    uint32_t sequences, past[REQUESTS];
    int32_t latest[REQUESTS];
} copying;

/* Adds the prompts to a batch. Returns their lengths in `past`. */
static void add_prompts(const model *m, struct llama_batch *batch, uint32_t n, uint32_t *past,
                        struct llama_sampler *const *samplers)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t tokens[MAX_TOKENS];
        past[i] = tokenize(m, prompts[i], tokens);
        for (uint32_t k = 0; k < past[i]; k++) {
            batch_add(batch, tokens[k], k, i, k == past[i] - 1);
            if (samplers != NULL)
                llama_sampler_accept(samplers[i], tokens[k]);
        }
    }
}

static void copying_open(copying *c, const model *m, uint32_t sequences, bool adapter)
{
    *c = (copying){.m = m, .sequences = sequences};
    c->llama = llama_init_from_model(m->llama, context_options(sequences));
    c->batch = llama_batch_init(MAX_BATCH, 0, 1);
    if (adapter)
        c->adapter = clsample_llama_open(NULL, m->words, sequences, 64);
    if (c->llama == NULL || (adapter && c->adapter == NULL))
        fail("llama.cpp or the adapter cannot be opened");
    for (uint32_t i = 0; i < sequences; i++) {
        const cls_params params = usual(i);
        if (adapter) {
            c->samplers[i] = clsample_llama_sampler_init(c->adapter, &params);
        } else {
            c->samplers[i] = chain_of(m, &params);
            chain_add(c->samplers[i], llama_sampler_init_dist((uint32_t)params.seed));
        }
        if (c->samplers[i] == NULL)
            fail("the adapter has no sampler");
    }
    add_prompts(m, &c->batch, sequences, c->past, c->samplers);
}

static void copying_close(copying *c)
{
    for (uint32_t i = 0; i < c->sequences; i++)
        llama_sampler_free(c->samplers[i]);
    clsample_llama_close(c->adapter);
    llama_batch_free(c->batch);
    llama_free(c->llama);
}

/* Microseconds of the two halves of a step. */
typedef struct times {
    int64_t decode, sample;
} times;

static times copying_step(copying *c)
{
    times t;
    int32_t outputs[REQUESTS];
    uint32_t n = 0;
    for (int32_t i = 0; i < c->batch.n_tokens; i++)
        if (c->batch.logits[i])
            outputs[n++] = i;
    const int64_t begun = llama_time_us();
    if (llama_decode(c->llama, c->batch) != 0)
        fail("llama_decode() failed");
    llama_synchronize(c->llama);
    const int64_t decoded = llama_time_us();
    c->batch.n_tokens = 0;
    for (uint32_t i = 0; i < c->sequences; i++)
        c->latest[i] = llama_sampler_sample(c->samplers[i], c->llama, outputs[i]);
    t = (times){decoded - begun, llama_time_us() - decoded};
    for (uint32_t i = 0; i < c->sequences; i++)
        batch_add(&c->batch, c->latest[i], c->past[i]++, i, true);
    return t;
}

/* -------------------------------------------------------------------- in place */

typedef struct placed {
    engine e;
    uint32_t sequences, past[REQUESTS];
    kept found;
    clsample_llama_place place;
} placed;

static void placed_begin(placed *p, uint32_t sequences, cls_params (*params_of)(uint32_t))
{
    p->sequences = sequences;
    p->e.batch.n_tokens = 0;
    llama_memory_clear(llama_get_memory(p->e.llama), true);
    for (uint32_t i = 0; i < sequences; i++) {
        const cls_params params = params_of(i);
        int32_t tokens[MAX_TOKENS];
        cls_text text;
        cls_text_init(&text);
        text.prompt = (cls_ids){tokens, tokenize(p->e.m, prompts[i], tokens)};
        must(cls_slot_begin(p->e.device.sampler, i, &params, &text));
    }
    add_prompts(p->e.m, &p->e.batch, sequences, p->past, NULL);
}

static times placed_step(placed *p, bool sets)
{
    const side *const s = &p->e.device;
    cls_step step;
    cls_outputs outputs;
    const int64_t begun = llama_time_us();
    const cl_command_queue queue = engine_decode(&p->e, &p->place);
    llama_synchronize(p->e.llama); /* only so that the two halves can be timed */
    const int64_t decoded = llama_time_us();
    cls_step_init(&step);
    cls_outputs_init(&outputs);
    step.rows = p->sequences;
    step.logits = p->place.logits;
    step.tokens = PART(s, kept, tokens);
    if (sets) {
        outputs.kept_set.capacity = KEPT;
        outputs.kept_set.ids = PART(s, kept, ids);
        outputs.kept_set.counts = PART(s, kept, counts);
        step.outputs = &outputs;
    }
    must(cls_sample(s->sampler, queue, &step, 0, NULL, NULL));
    const size_t size = sets ? sizeof p->found : p->sequences * sizeof *p->found.tokens;
    must(clEnqueueReadBuffer(queue, s->memory, CL_TRUE, 0, size, &p->found, 0, NULL, NULL));
    const times t = {decoded - begun, llama_time_us() - decoded};
    for (uint32_t i = 0; i < p->sequences; i++)
        batch_add(&p->e.batch, p->found.tokens[i], p->past[i]++, i, true);
    return t;
}

/* ----------------------------------------------------------------------- bytes */

/* The counter's functions, if it is preloaded (tests/llamacpp/crossings.c). */
static void count(const char *title, uint32_t steps)
{
    void (*const begin_)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "crossings_begin");
    void (*const end)(const char *, unsigned) =
        (void (*)(const char *, unsigned))dlsym(RTLD_DEFAULT, "crossings_end");
    if (begin_ == NULL || end == NULL)
        fail("the counter is not preloaded (LD_PRELOAD)");
    if (title == NULL)
        begin_();
    else
        end(title, steps);
}

int mode_bytes(const model *m, const char *cache, uint32_t steps)
{
    static placed p;
    static copying c;
    uint32_t n, differ = 0;
    request *const requests = requests_of(m, MAX_TOKENS / 2, &n);
    engine_open(&p.e, m, n, cache);
    placed_begin(&p, 1, usual);
    for (uint32_t i = 0; i < steps + 2; i++) { /* not the prompt, nor what the first step makes */
        if (i == 2)
            count(NULL, 0);
        placed_step(&p, false);
    }
    count("in place, 1 sequence", steps);
    p.e.batch.n_tokens = 0;
    begin(&p.e, requests, n);
    for (uint32_t i = 0; i < steps + 2; i++) {
        if (i == 2)
            count(NULL, 0);
        step(&p.e, requests, n, true, false, &differ);
    }
    count("in place, 5 sequences with drafts", steps);
    engine_close(&p.e);
    free(requests);
    copying_open(&c, m, 1, true);
    for (uint32_t i = 0; i < steps + 2; i++) {
        if (i == 2)
            count(NULL, 0);
        copying_step(&c);
    }
    count("the adapter, 1 sequence", steps);
    copying_close(&c);
    return 0;
}

/* ----------------------------------------------------------------------- speed */

/* The quickest of some steps, which other work on the machine disturbs least. */
static double least_ms(const int64_t *of, uint32_t n)
{
    int64_t least = of[0];
    for (uint32_t i = 1; i < n; i++)
        if (of[i] < least)
            least = of[i];
    return 1e-3 * (double)least;
}

int mode_speed(const model *m, const char *cache, uint32_t steps)
{
    static const char *const names[] = {"llama.cpp's chain", "clsample's adapter", "in place"};
    static placed p;
    static copying c[2];
    int64_t *const all = calloc(6 * steps, sizeof *all);
    if (all == NULL)
        fail("out of memory");
    for (uint32_t n = 1; n <= REQUESTS; n = n == 1 ? 4 : 2 * n) {
        copying_open(&c[0], m, n, false);
        copying_open(&c[1], m, n, true);
        engine_open(&p.e, m, n, cache);
        placed_begin(&p, n, usual);
        printf("%-10s %-20s %10s %10s %10s\n", "sequences", "sampled by", "tokens/s", "decode ms",
               "sample ms");
        for (uint32_t i = 0; i <= steps; i++) /* in turns; the first one has the prompts */
            for (uint32_t k = 0; k < 3; k++) {
                const uint32_t side = (i + k) % 3;
                const times t = side < 2 ? copying_step(&c[side]) : placed_step(&p, false);
                if (i > 0) {
                    all[2 * side * steps + i - 1] = t.decode;
                    all[(2 * side + 1) * steps + i - 1] = t.sample;
                }
            }
        for (uint32_t side = 0; side < 3; side++) {
            const double decode = least_ms(all + 2 * side * steps, steps),
                         sample = least_ms(all + (2 * side + 1) * steps, steps);
            printf("%-10u %-20s %10.2f %10.2f %10.3f\n", (unsigned)n, names[side],
                   1e3 * n / (decode + sample), decode, sample);
        }
        copying_close(&c[0]);
        copying_close(&c[1]);
        engine_close(&p.e);
    }
    free(all);
    return 0;
}

/* ------------------------------------------------------------------- kept sets */

static int likelier(const void *a, const void *b)
{
    const llama_token_data *x = a, *y = b;
    return (x->logit < y->logit) - (x->logit > y->logit);
}

/* How far a token is from a limit of top-k, top-p or min-p, as a probability, in float64. all: the
 * candidates with their penalties. */
static double distance(const cls_params *p, llama_token_data *all, size_t n, int32_t token)
{
    double sum = 0, before = 0, least = INFINITY;
    size_t at = 0;
    qsort(all, n, sizeof *all, likelier);
    const size_t k = (size_t)p->top_k;
    while (at < n && all[at].id != token)
        at++;
    for (size_t i = 0; i < k; i++)
        sum += exp((double)all[i].logit - (double)all[0].logit);
    for (size_t i = 0; i < at && i < k; i++)
        before += exp((double)all[i].logit - (double)all[0].logit) / sum;
    least = fabs(before - (double)p->top_p);
    least = fmin(least, fabs(exp((double)all[at].logit - (double)all[0].logit) - (double)p->min_p));
    return fmin(least, fabs((double)all[at].logit - (double)all[at < k ? k : k - 1].logit));
}

static bool among(const int32_t *ids, uint32_t n, int32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Compares a row's kept sets. Returns the tokens that one of them lacks and that are not within
 * 1e-5 of a limit; *near counts those that are. */
static uint32_t compare(const cls_params *p, struct llama_sampler *chain, llama_token_data *all,
                        uint32_t words, const int32_t *ids, uint32_t count, uint32_t *near)
{
    int32_t theirs[KEPT];
    uint32_t apart = 0, n = 0;
    llama_token_data_array candidates = {all, words, -1, false};
    llama_sampler_apply(llama_sampler_chain_get(chain, 0), &candidates);
    llama_token_data *const adjusted = malloc(words * sizeof *adjusted);
    if (adjusted == NULL)
        fail("out of memory");
    memcpy(adjusted, all, words * sizeof *adjusted);
    for (int32_t i = 1; i < llama_sampler_chain_n(chain); i++)
        llama_sampler_apply(llama_sampler_chain_get(chain, i), &candidates);
    for (; n < candidates.size && n < KEPT; n++)
        theirs[n] = candidates.data[n].id;
    if (candidates.size > KEPT || count > KEPT)
        fail("a set has more than %d tokens", KEPT);
    for (uint32_t i = 0; i < n + count; i++) {
        const int32_t id = i < n ? theirs[i] : ids[i - n];
        if (among(i < n ? ids : theirs, i < n ? count : n, id))
            continue;
        const double far = distance(p, adjusted, words, id);
        printf("token %d is in the set of %s alone, %.1e from a limit\n", (int)id,
               i < n ? "llama.cpp" : "clsample", far);
        *near += far <= 1e-5;
        apart += far > 1e-5;
    }
    free(adjusted);
    return apart;
}

int mode_kept(const model *m, const char *cache, uint32_t steps)
{
    enum { SEQUENCES = 4 };
    static placed p;
    struct llama_sampler *chains[SEQUENCES];
    uint32_t sets = 0, tokens = 0, near = 0, apart = 0;
    float *const logits = malloc(sizeof *logits * SEQUENCES * m->words);
    llama_token_data *const all = malloc(m->words * sizeof *all);
    if (logits == NULL || all == NULL)
        fail("out of memory");
    engine_open(&p.e, m, SEQUENCES, cache);
    placed_begin(&p, SEQUENCES, varied);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const cls_params params = varied(i);
        int32_t prompt[MAX_TOKENS];
        const uint32_t n = tokenize(m, prompts[i], prompt);
        chains[i] = chain_of(m, &params);
        for (uint32_t k = 0; k < n; k++)
            llama_sampler_accept(chains[i], prompt[k]);
    }
    for (uint32_t s = 0; s < steps; s++) {
        placed_step(&p, true);
        engine_read_logits(&p.e, SEQUENCES, logits);
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            const cls_params params = varied(i);
            const float *const row = logits + (size_t)i * m->words;
            for (uint32_t t = 0; t < m->words; t++)
                all[t] = (llama_token_data){(llama_token)t, row[t], 0};
            const uint32_t count = (uint32_t)p.found.counts[i];
            apart += compare(&params, chains[i], all, m->words, p.found.ids[i], count, &near);
            llama_sampler_accept(chains[i], p.found.tokens[i]);
            tokens += count;
            sets++;
        }
        if (s % 50 == 49)
            fprintf(stderr, "%u steps\n", (unsigned)s + 1);
    }
    printf("%u kept sets of %u steps, %u tokens: %u differ within 1e-5 of a limit, %u elsewhere\n",
           (unsigned)sets, (unsigned)steps, (unsigned)tokens, (unsigned)near, (unsigned)apart);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        llama_sampler_free(chains[i]);
    free(logits);
    free(all);
    engine_close(&p.e);
    return apart != 0;
}
