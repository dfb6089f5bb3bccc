/* SPDX-License-Identifier: MIT */
/* Speculative decoding that never waits for the host: a draft model drafts DRAFTS tokens of each
 * request, cls_verify() decides which are accepted, cls_accept() makes the draft model's slots
 * follow, and the next round begins. Rounds are enqueued ahead; the host only reads the tokens of
 * old ones. Both models are small hashes, so the example needs only OpenCL. The functions show:
 *
 *     draft()     a token of each request at a time; ids and probabilities stay as they are made
 *     verify()    reads them by their strides
 *     follow()    the draft model's slots take their drafts back and get what was emitted
 *     round_()    these on one queue, without a wait
 *     deliver()   tokens, some rounds late
 *
 * At the end the same requests run without drafts. With the method match their texts must be the
 * same, and with the standard method the same however many rounds are ahead: the example fails if
 * they differ.
 *
 *     cc speculative.c $(pkg-config --cflags --libs clsample) && ./a.out
 */
#include "opencl.h"
#include <string.h>

enum { VOCAB = 512, STOP = 2, REQUESTS = 4, DRAFTS = 4, WIDTH = DRAFTS + 1, MOST_AHEAD = 4 };
enum { PROMPT = 6, MOST_TOKENS = 48, TEXT = PROMPT + MOST_TOKENS + WIDTH };

/* ------------------------------------------------------------------- the models
 *
 * A row processes the token at a position of a request, and its logits depend on this token and on
 * the one before it. `cache` holds the tokens in place of keys and values. Row j of a request reads
 * `latest` or draft j - 1, at `position` + j. The draft model knows only a part of what the target
 * does. */
enum { TARGET, DRAFT, MODELS };
static const char *model =
    "uint hash(uint a, uint b) { a = (a ^ b) * 0x9e3779b1u; a = (a ^ a >> 15) * 0x85ebca77u; "
    "return a ^ a >> 13; }\n"
    "int token(global const int *latest, global const int *ids, int i, int j, int n)\n"
    "{ return j == 0 ? latest[i] : ids[(j - 1) * n + i]; }\n"
    "kernel void forward(global int *cache, global float *logits, global const int *latest,\n"
    "                    global const int *ids, global const int *position, int first, int text,\n"
    "                    float part) {\n"
    "    int i = get_global_id(1), n = get_global_size(1), j = first + get_global_id(0);\n"
    "    int at = i * text + position[i] + j, t = token(latest, ids, i, j, n);\n"
    "    int before = j == 0 ? cache[at - 1] : token(latest, ids, i, j - 1, n);\n"
    "    global float *row = logits + (i * get_global_size(0) + get_global_id(0)) * 512;\n"
    "    uint h = hash(before, t);\n"
    "    cache[at] = t;\n"
    "    for (int v = 0; v < 512; v++)\n"
    "        row[v] = (hash(h, v) % 4096) / 300.0f + part * (hash(h + 1, v) % 4096) / 900.0f;\n"
    "}\n"
    /* The latest token is as much further on as tokens were emitted. */
    "kernel void advance(global int *position, global const int *emitted) {\n"
    "    position[get_global_id(0)] += emitted[get_global_id(0)];\n"
    "}\n";

/* What the host gets of a round, in one buffer. */
typedef struct result {
    int32_t tokens[REQUESTS][WIDTH], status[REQUESTS];
} result;

typedef struct loop {
    opencl device;
    cl_command_queue queue; /* its queue */
    cl_kernel forward, advance;
    cl_mem cache[MODELS], logits[MODELS], latest, ids, probs, position, results, emitted, drafted,
        counters;
    cls_sampler *sampler[MODELS];
    cls_readback *readback;
    uint64_t ticket[MOST_AHEAD];
    int method;
    uint32_t launches; /* of the last round */
    int32_t text[REQUESTS][TEXT];
    uint32_t n[REQUESTS];
    int ended[REQUESTS];
} loop;

static cl_mem buffer(const loop *l, size_t words)
{
    return opencl_buffer(&l->device, words * sizeof(int32_t));
}

static void loop_open(loop *l)
{
    cls_sampler_options options;
    memset(l, 0, sizeof *l);
    l->device = opencl_open();
    l->queue = l->device.queue;
    const cl_program program = opencl_program(&l->device, model);
    l->forward = clCreateKernel(program, "forward", NULL);
    l->advance = clCreateKernel(program, "advance", NULL);
    clReleaseProgram(program);
    for (int m = 0; m < MODELS; m++) {
        cls_sampler_options_init(&options);
        options.vocab = VOCAB;
        options.max_rows = m == TARGET ? REQUESTS * WIDTH : REQUESTS;
        options.slot_count = REQUESTS;
        options.max_rollback = m == DRAFT ? DRAFTS : 0;
        options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_PENALTIES;
        options.features |= m == TARGET
                                ? CLS_FEATURE_VERIFY
                                : CLS_FEATURE_PROBS | CLS_FEATURE_ACCEPT | CLS_FEATURE_STATE;
        must(cls_sampler_create(l->device.cls, &options, &l->sampler[m]));
        l->cache[m] = buffer(l, REQUESTS * TEXT);
        l->logits[m] = buffer(l, (size_t)options.max_rows * VOCAB);
    }
    must(cls_readback_create(l->device.cls, sizeof(result), MOST_AHEAD, &l->readback));
    l->latest = buffer(l, REQUESTS);
    l->position = buffer(l, REQUESTS);
    l->ids = buffer(l, DRAFTS * REQUESTS);
    l->probs = buffer(l, (size_t)DRAFTS * REQUESTS * VOCAB);
    l->results = buffer(l, sizeof(result) / sizeof(int32_t));
    l->emitted = buffer(l, REQUESTS);
    l->drafted = buffer(l, REQUESTS);
    l->counters = buffer(l, REQUESTS * 3);
}

static void loop_close(loop *l)
{
    const cl_mem buffers[] = {l->cache[0], l->cache[1], l->logits[0], l->logits[1],
                              l->latest,   l->ids,      l->probs,     l->position,
                              l->results,  l->emitted,  l->drafted,   l->counters};
    cls_readback_destroy(l->readback);
    for (int m = 0; m < MODELS; m++)
        cls_sampler_destroy(l->sampler[m]);
    clReleaseKernel(l->forward);
    clReleaseKernel(l->advance);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        clReleaseMemObject(buffers[i]);
    opencl_close(&l->device);
}

/* Runs a model over `count` rows of each request, from row `first` on. */
static void forward(loop *l, int m, cl_int first, size_t count)
{
    const size_t rows[] = {count, REQUESTS};
    const cl_int text = TEXT;
    const cl_float part = m == TARGET ? 1.0f : 0.5f;
    const cl_mem args[] = {l->cache[m], l->logits[m], l->latest, l->ids, l->position};
    for (cl_uint i = 0; i < 5; i++)
        must(clSetKernelArg(l->forward, i, sizeof args[i], &args[i]));
    must(clSetKernelArg(l->forward, 5, sizeof first, &first));
    must(clSetKernelArg(l->forward, 6, sizeof text, &text));
    must(clSetKernelArg(l->forward, 7, sizeof part, &part));
    must(clEnqueueNDRangeKernel(l->queue, l->forward, 2, NULL, rows, NULL, 0, NULL, NULL));
    l->launches++;
}

/* -------------------------------------------------------------------- the requests */

/* Begins the requests in both samplers. The draft model's have no end of their own: they would
 * only draft less. */
static void begin(loop *l)
{
    const int32_t stop[] = {STOP};
    int32_t latest[REQUESTS], position[REQUESTS];
    memset(l->n, 0, sizeof l->n);
    memset(l->ended, 0, sizeof l->ended);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        cls_params params;
        cls_params_init(&params);
        params.temperature = 0.7f + 0.1f * (float)i;
        params.top_k = 40;
        params.repetition_penalty = 1.1f;
        params.seed = 20 + i; /* with the target's random numbers more drafts match */
        for (uint32_t k = 0; k < PROMPT; k++)
            l->text[i][l->n[i]++] = (int32_t)(3 + (i * 71 + k * 13) % (VOCAB - 3));
        must(cls_slot_begin(
            l->sampler[DRAFT], i, &params,
            &(cls_text){.struct_size = sizeof(cls_text), .prompt = {l->text[i], PROMPT}}));
        params.max_tokens = MOST_TOKENS - 9 * i; /* some end on a draft, some on a bonus */
        params.stop_ids.ids = stop;
        params.stop_ids.count = 1;
        must(cls_slot_begin(
            l->sampler[TARGET], i, &params,
            &(cls_text){.struct_size = sizeof(cls_text), .prompt = {l->text[i], PROMPT}}));
        latest[i] = l->text[i][PROMPT - 1];
        position[i] = PROMPT - 1;
    }
    for (int m = 0; m < MODELS; m++) /* the prompt's pass, but for its last token */
        must(clEnqueueWriteBuffer(l->queue, l->cache[m], CL_TRUE, 0, sizeof l->text, l->text, 0,
                                  NULL, NULL));
    must(clEnqueueWriteBuffer(l->queue, l->latest, CL_TRUE, 0, sizeof latest, latest, 0, NULL,
                              NULL));
    must(clEnqueueWriteBuffer(l->queue, l->position, CL_TRUE, 0, sizeof position, position, 0, NULL,
                              NULL));
    const int32_t zero[REQUESTS * 3] = {0};
    must(clEnqueueWriteBuffer(l->queue, l->counters, CL_TRUE, 0, sizeof zero, zero, 0, NULL, NULL));
}

/* ----------------------------------------------------------------------- a round */

/* Step k drafts a token for each request: ids [DRAFTS, REQUESTS], and the probabilities likewise,
 * which the standard method needs. */
static void draft(loop *l)
{
    for (int k = 0; k < DRAFTS; k++) {
        cls_step step;
        cls_outputs outputs;
        forward(l, DRAFT, k, 1);
        cls_step_init(&step);
        cls_outputs_init(&outputs);
        step.rows = REQUESTS;
        step.logits.values.buffer = l->logits[DRAFT];
        step.tokens.buffer = l->ids;
        step.tokens.offset = (uint64_t)k * REQUESTS * sizeof(int32_t);
        if (l->method == CLS_VERIFY_STANDARD) {
            outputs.probs.buffer = l->probs;
            outputs.probs.offset = (uint64_t)k * REQUESTS * VOCAB * sizeof(float);
            step.outputs = &outputs;
        }
        must(cls_sample(l->sampler[DRAFT], l->queue, &step, 0, NULL, NULL));
        l->launches += cls_sampler_launches(l->sampler[DRAFT]);
    }
    forward(l, DRAFT, DRAFTS, 1); /* its cache gets the last draft, which may be accepted */
}

static void verify(loop *l)
{
    static const int32_t offsets[REQUESTS + 1] = {0, WIDTH, 2 * WIDTH, 3 * WIDTH, 4 * WIDTH};
    cls_verify_call call;
    forward(l, TARGET, 0, WIDTH);
    cls_verify_call_init(&call);
    call.requests = REQUESTS;
    call.method = l->method;
    call.row_offsets = offsets;
    call.logits.values.buffer = l->logits[TARGET];
    call.draft_ids.device.buffer = l->ids;
    call.ids_stride = REQUESTS; /* from draft to draft, and from request to request: */
    call.ids_request_stride = 1;
    if (l->method == CLS_VERIFY_STANDARD) {
        call.draft_kind = CLS_DRAFT_PROBS;
        call.draft.buffer = l->probs;
        call.draft_stride = REQUESTS * VOCAB;
        call.draft_request_stride = VOCAB;
    }
    call.tokens.buffer = call.status.buffer = l->results;
    call.status.offset = sizeof(int32_t) * REQUESTS * WIDTH;
    call.emitted.buffer = l->emitted;
    call.drafted.buffer = l->drafted;
    call.counters.buffer = l->counters;
    call.latest.buffer = l->latest;
    must(cls_verify(l->sampler[TARGET], l->queue, &call, 0, NULL, NULL));
    l->launches += cls_sampler_launches(l->sampler[TARGET]);
}

/* The draft model's slots take all drafts back and accept what was emitted. "Accept the last token"
 * would be wrong where a request ended on an accepted draft, which the slot has already, and so it
 * would be with disable_bonus where all drafts were accepted. */
static void follow(loop *l)
{
    const size_t requests = REQUESTS;
    cls_accept_call call;
    cls_accept_call_init(&call);
    call.rows = REQUESTS;
    call.per_row = WIDTH;
    call.tokens.device.buffer = l->results;
    call.counts.device.buffer = l->emitted;
    call.rollback.device.buffer = l->drafted;
    must(cls_accept(l->sampler[DRAFT], l->queue, &call, 0, NULL, NULL));
    must(clSetKernelArg(l->advance, 0, sizeof l->position, &l->position));
    must(clSetKernelArg(l->advance, 1, sizeof l->emitted, &l->emitted));
    must(clEnqueueNDRangeKernel(l->queue, l->advance, 1, NULL, &requests, NULL, 0, NULL, NULL));
    l->launches += cls_sampler_launches(l->sampler[DRAFT]) + 1;
}

/* Enqueues a round and the readback of its tokens. */
static void round_(loop *l, uint32_t number)
{
    const cls_buffer results = {.buffer = l->results};
    l->launches = 0;
    draft(l);
    verify(l);
    follow(l);
    must(cls_readback_start(l->readback, l->queue, &results, sizeof(result), 0, NULL,
                            &l->ticket[number % MOST_AHEAD]));
    must(clFlush(l->queue));
}

/* Appends the tokens of a round to the texts. Returns the number of requests that go on. */
static uint32_t deliver(loop *l, uint32_t number)
{
    const void *found;
    uint32_t left = 0;
    must(cls_readback_get(l->readback, l->ticket[number % MOST_AHEAD], 1, &found));
    const result *const r = found;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        for (uint32_t k = 0; k < WIDTH && r->tokens[i][k] >= 0; k++)
            l->text[i][l->n[i]++] = r->tokens[i][k];
        l->ended[i] |= (r->status[i] & CLS_ROW_STOPPED) != 0;
        left += !l->ended[i];
    }
    return left;
}

/* Runs all requests to their end, with some rounds ahead of the host. Returns the rounds that were
 * needed. */
static uint32_t run(loop *l, int method, uint32_t ahead)
{
    uint32_t enqueued = 0, delivered = 0, left = REQUESTS;
    l->method = method;
    begin(l);
    while (left != 0) {
        while (enqueued < delivered + ahead)
            round_(l, enqueued++);
        left = deliver(l, delivered++);
    }
    must(clFinish(l->queue)); /* rounds ahead found that all had ended */
    return delivered;
}

/* The same requests without drafts: one token a step. */
static uint32_t run_without_drafts(loop *l)
{
    uint32_t left = REQUESTS, steps = 0;
    const int32_t one[REQUESTS] = {1, 1, 1, 1};
    begin(l);
    must(clEnqueueWriteBuffer(l->queue, l->emitted, CL_TRUE, 0, sizeof one, one, 0, NULL, NULL));
    for (; left != 0; steps++) {
        const size_t requests = REQUESTS;
        result r;
        cls_step step;
        cls_outputs outputs;
        forward(l, TARGET, 0, 1);
        cls_step_init(&step);
        cls_outputs_init(&outputs);
        step.rows = REQUESTS;
        step.logits.values.buffer = l->logits[TARGET];
        step.tokens.buffer = step.status.buffer = l->results;
        step.status.offset = sizeof(int32_t) * REQUESTS * WIDTH;
        outputs.latest.buffer = l->latest;
        step.outputs = &outputs;
        must(cls_sample(l->sampler[TARGET], l->queue, &step, 0, NULL, NULL));
        must(clEnqueueNDRangeKernel(l->queue, l->advance, 1, NULL, &requests, NULL, 0, NULL, NULL));
        must(clEnqueueReadBuffer(l->queue, l->results, CL_TRUE, 0, sizeof r, &r, 0, NULL, NULL));
        left = 0;
        for (uint32_t i = 0; i < REQUESTS; i++) {
            const int32_t token = ((const int32_t *)r.tokens)[i];
            if (token >= 0)
                l->text[i][l->n[i]++] = token;
            left += (r.status[i] & CLS_ROW_STOPPED) == 0;
        }
    }
    return steps;
}

/* ------------------------------------------------------------------------- main */

/* Runs with drafts and prints how it went. */
static void show(loop *l, const char *name, int method, uint32_t ahead)
{
    int32_t counted[REQUESTS][3], all[3] = {0};
    const uint32_t rounds = run(l, method, ahead);
    must(clEnqueueReadBuffer(l->queue, l->counters, CL_TRUE, 0, sizeof counted, counted, 0, NULL,
                             NULL));
    for (int i = 0; i < REQUESTS; i++)
        for (int k = 0; k < 3; k++)
            all[k] += counted[i][k];
    printf("%s, %u rounds ahead: %u rounds, %d of %d drafts accepted, %d tokens; %u launches a "
           "round\n",
           name, (unsigned)ahead, (unsigned)rounds, (int)all[1], (int)all[0], (int)all[2],
           (unsigned)l->launches);
}

static int differs(const loop *l, const loop *other, const char *what)
{
    int different = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        different |= l->n[i] != other->n[i] ||
                     memcmp(l->text[i], other->text[i], l->n[i] * sizeof **l->text) != 0;
    if (different)
        printf("%s: other texts\n", what);
    return different;
}

int main(void)
{
    static loop l, before;
    int different = 0;
    loop_open(&l);
    show(&l, "match", CLS_VERIFY_MATCH, MOST_AHEAD);
    before = l;
    show(&l, "match", CLS_VERIFY_MATCH, 1);
    different |= differs(&l, &before, "match, with another number of rounds ahead");
    const uint32_t steps = run_without_drafts(&l);
    printf("without drafts: %u steps\n", (unsigned)steps);
    different |= differs(&l, &before, "match, without drafts");
    show(&l, "standard", CLS_VERIFY_STANDARD, MOST_AHEAD);
    before = l;
    show(&l, "standard", CLS_VERIFY_STANDARD, 1);
    different |= differs(&l, &before, "standard, with another number of rounds ahead");
    loop_close(&l);
    return different;
}
