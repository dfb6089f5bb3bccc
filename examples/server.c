/* SPDX-License-Identifier: MIT */
/* Continuous batching, as an inference server does it. Requests join a batch that
 * runs, bring their prompts in chunks, fork, are cancelled and leave. A token is
 * the model's next look-up on the device; the host sees it one step late, while
 * the next step runs. The model is made up, so that this needs OpenCL alone.
 *
 * In the end the same requests run once more, one at a time and in one slot.
 * Their tokens must be the same, bit for bit: that is the library's promise.
 *
 *     cc server.c $(pkg-config --cflags --libs clsample) && ./a.out
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <clsample.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 512, STOP = 2, SLOTS = 4, MAX_TEXT = 64, MAX_REQUESTS = 16, MAX_STEPS = 1000 };

/* -------------------------------------------------------------------- the model
 *
 * A row of a step brings one slot on, by a chunk of its prompt, which the host sends,
 * or by the token that latest[slot] holds. One word a slot stands for the cache of keys
 * and values; it depends on all tokens so far and on their order. */
enum {
    ROW_SLOT,
    ROW_POSITION,
    ROW_COUNT,
    ROW_TOKENS,
    ROW_WORDS = 8,
    CHUNK = ROW_WORDS - ROW_TOKENS
};

static const char *model =
    "uint hash(uint a, uint b) { a = (a ^ b) * 0x9e3779b1u; a = (a ^ a >> 15) * 0x85ebca77u; "
    "return a ^ a >> 13; }\n"
    "kernel void forward(global const int *rows, global uint *cache, global const int *latest,\n"
    "                    global float *logits) {\n"
    "    global const int *row = rows + get_global_id(0) * 8;\n"
    "    uint h = row[1] == 0 ? 0 : cache[row[0]];\n"
    "    for (int i = 0; i < row[2]; i++) h = hash(h, row[3 + i]);\n"
    "    cache[row[0]] = h = row[2] > 0 ? h : hash(h, latest[row[0]]);\n"
    "    for (int t = 0; t < 512; t++)\n" /* STOP grows likelier: texts end sooner or later */
    "        logits[get_global_id(0) * 512 + t] = (hash(h, t) % 4096 + (t == 2 ? 48 * row[1] : 0)) "
    "/ 256.0f;\n"
    "}\n";

/* ----------------------------------------------------------------- the requests */

static const struct asked {
    const char *name;
    uint32_t arrives; /* at this step */
    uint32_t prompt,
        output; /* tokens; output: what it had written when it was preempted, here or elsewhere */
    uint32_t answers; /* best of n: that many requests share one prefill */
    uint32_t hang_up; /* the client goes away after this many tokens; 0: it stays */
    uint32_t max_tokens;
    float temperature, top_p, repetition_penalty;
} table[] = {
    /* arrives, prompt, output, answers, hang-up, most; temperature, top-p, repetition */
    {"greedy", 0, 5, 0, 1, 0, 12, 0.0f, 1.0f, 1.0f},
    {"long prompt", 0, 18, 0, 1, 0, 20, 0.7f, 0.9f, 1.3f},
    {"hangs up", 0, 3, 0, 1, 4, 30, 1.0f, 1.0f, 1.0f},
    {"one token", 1, 1, 0, 1, 0, 1, 0.9f, 1.0f, 1.0f},
    {"best of 3", 3, 9, 0, 3, 0, 24, 1.2f, 0.95f, 1.1f},
    {"resumed", 5, 6, 7, 1, 0, 25, 0.8f, 0.9f, 1.2f},
    {"had all its tokens", 6, 4, 8, 1, 0, 8, 0.8f, 0.9f, 1.0f},
    {"top-p of 1.5", 8, 4, 0, 1, 0, 8, 0.8f, 1.5f,
     1.0f}, /* is refused, and the others don't notice */
    {"until it stops", 9, 7, 0, 1, 0, 50, 1.0f, 0.9f, 1.0f},
    {"after the others", 60, 2, 0, 1, 0, 10, 1.5f, 1.0f, 1.0f},
};

typedef struct request {
    const struct asked *as;
    cls_params params;
    uint32_t forks; /* the requests behind this one that become copies of it when its prompt has
                       been read */
    int whole;      /* its slot begins with all of its text; other prompts come in chunks */
    uint32_t slot;
    int32_t text[MAX_TEXT]; /* prompt and output */
    uint32_t before, n;     /* tokens of it that the request came with; tokens of it now */
    uint32_t fed;           /* ... that the model has been given */
    char end[120];          /* why it ended; empty: it has not */
} request;

static uint32_t make_requests(request *requests)
{
    static const int32_t stop_ids[] = {STOP};
    uint32_t n = 0;
    for (uint32_t a = 0; a < sizeof table / sizeof *table; a++)
        for (uint32_t answer = 0; answer < table[a].answers; answer++) {
            request *r = &requests[n++];
            r->as = &table[a];
            r->forks = answer == 0 ? r->as->answers - 1 : 0;
            r->whole = r->as->output > 0;
            r->before = r->n = r->as->prompt + r->as->output;
            for (uint32_t i = 0; i < r->n; i++)
                r->text[i] = (int32_t)(3 + (a * 71 + i * 13) % (VOCAB - 3));
            cls_params_init(&r->params);
            r->params.temperature = r->as->temperature;
            r->params.top_k = 50;
            r->params.top_p = r->as->top_p;
            r->params.repetition_penalty = r->as->repetition_penalty;
            r->params.max_tokens = r->as->max_tokens;
            r->params.stop_ids = stop_ids;
            r->params.stop_count = 1;
            r->params.seed = a;
            r->params.stream = answer; /* tells the answers to one prompt apart */
        }
    return n;
}

/* ------------------------------------------------------------------- the server */

static void must(int code) /* a cls_status, or OpenCL's */
{
    if (code == 0)
        return;
    fprintf(stderr, "error %d: %s\n", code,
            code <= CLS_BAD_ARGUMENT ? cls_error_message() : "an OpenCL call");
    exit(1);
}

typedef struct step {
    uint32_t n;                      /* rows; 0: nothing to wait for */
    request *who[SLOTS];             /* whose they are */
    int32_t slots[SLOTS];            /* for the sampler; -1: not sampled */
    int32_t rows[SLOTS * ROW_WORDS]; /* for the model */
    uint64_t ticket;
} step;

typedef struct server {
    cl_context context;
    cl_command_queue queue; /* in order: nothing here needs an event */
    cl_kernel forward;
    cl_mem rows, cache, latest, logits, out;
    cls_sampler *sampler;
    cls_readback *readback;
    request *owner[SLOTS]; /* who has the slot */
    uint32_t free;         /* slots that nobody has, and no fork will take */
    step steps[2];
    uint32_t n_steps, n_rows;
} server;

static cl_mem buffer(const server *s, size_t words)
{
    cl_int code;
    const cl_mem made =
        clCreateBuffer(s->context, CL_MEM_READ_WRITE, words * sizeof(int32_t), NULL, &code);
    must(code);
    return made;
}

static void server_open(server *s, cl_device_id device)
{
    cls_context *context;
    cls_sampler_options options;
    s->context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    s->queue = clCreateCommandQueue(s->context, device, 0, NULL);
    const cl_program program = clCreateProgramWithSource(s->context, 1, &model, NULL, NULL);
    must(clBuildProgram(program, 1, &device, NULL, NULL,
                        NULL)); /* fails if one of these has failed */
    s->forward = clCreateKernel(program, "forward", NULL);
    clReleaseProgram(program);
    const cl_mem args[] = {s->rows = buffer(s, SLOTS * ROW_WORDS), s->cache = buffer(s, SLOTS),
                           s->latest = buffer(s, SLOTS), s->logits = buffer(s, SLOTS * VOCAB)};
    for (cl_uint i = 0; i < 4; i++)
        must(clSetKernelArg(s->forward, i, sizeof args[i], &args[i]));
    s->out = buffer(s, 2 * SLOTS); /* tokens, then statuses: one read brings both */
    must(cls_context_create(s->context, device, NULL, &context));
    cls_sampler_options_init(&options);
    options.vocab = VOCAB;
    options.max_rows = SLOTS;
    options.features =
        CLS_FEATURE_LISTS | CLS_FEATURE_PENALTIES | CLS_FEATURE_STATE; /* state: forks */
    must(cls_sampler_create(context, &options, &s->sampler));
    must(cls_readback_create(context, 2 * SLOTS * sizeof(int32_t), 2,
                             &s->readback)); /* two steps under way */
    cls_context_destroy(context);            /* the sampler keeps what it needs */
}

static void server_close(server *s)
{
    const cl_mem buffers[] = {s->rows, s->cache, s->latest, s->logits, s->out};
    cls_readback_destroy(s->readback);
    cls_sampler_destroy(s->sampler);
    clReleaseKernel(s->forward);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        clReleaseMemObject(buffers[i]);
    clReleaseCommandQueue(s->queue);
    clReleaseContext(s->context);
}

static void take_slot(server *s, request *r)
{
    for (r->slot = 0; s->owner[r->slot] != NULL;)
        r->slot++;
    s->owner[r->slot] = r;
}

/* The slot is free at once. A step that is under way may still have a row of it, but
 * what comes into the slot next is enqueued behind that step. */
static void leave(server *s, request *r, const char *why)
{
    must(cls_slot_reset(s->sampler, r->slot));
    s->owner[r->slot] = NULL;
    s->free++;
    snprintf(r->end, sizeof r->end, "%s", why);
}

/* 0: there are not slots enough for it and its forks. */
static int join(server *s, request *r)
{
    if (s->free < 1 + r->forks)
        return 0;
    if (cls_sampler_check(s->sampler, &r->params) != CLS_OK) { /* the server goes on without it */
        for (uint32_t i = 0; i <= r->forks; i++)
            snprintf(r[i].end, sizeof r->end, "refused: %s", cls_error_message());
        return 1;
    }
    s->free -= 1 + r->forks;
    take_slot(s, r);
    must(cls_slot_begin(s->sampler, r->slot, &r->params, r->text, r->whole ? r->as->prompt : 0,
                        r->text + r->as->prompt, r->as->output));
    /* The first look-up of a row that is sampled is the last token that the request came with.
     * Nothing else writes that into `latest`. */
    must(clEnqueueWriteBuffer(s->queue, s->latest, CL_FALSE, r->slot * sizeof(int32_t),
                              sizeof(int32_t), &r->text[r->before - 1], 0, NULL, NULL));
    return 1;
}

/* The sampler copies its slot, and the runtime what belongs to the model: on the device
 * and in the queue's order, since what the host knows may be a step old. */
static void fork_request(server *s, const request *from, request *to)
{
    take_slot(s, to);
    to->fed = from->fed;
    must(cls_slot_copy(s->sampler, to->slot, from->slot));
    must(cls_slot_params(s->sampler, to->slot, &to->params)); /* another stream */
    const size_t here = from->slot * sizeof(int32_t), there = to->slot * sizeof(int32_t);
    must(clEnqueueCopyBuffer(s->queue, s->cache, s->cache, here, there, sizeof(int32_t), 0, NULL,
                             NULL));
    must(clEnqueueCopyBuffer(s->queue, s->latest, s->latest, here, there, sizeof(int32_t), 0, NULL,
                             NULL));
}

/* A row for every request: a chunk of the text that it came with, which is not sampled; or
 * its look-up in `latest`, first that of the text's last token, which is. */
static void plan(server *s, step *p)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        request *r = s->owner[slot];
        if (r == NULL)
            continue;
        const uint32_t last = r->before - 1, left = r->fed < last ? last - r->fed : 0;
        const uint32_t count = left < CHUNK ? left : CHUNK, tokens = count > 0 ? count : 1;
        for (uint32_t i = 1; i <= r->forks && r->fed == last; i++)
            fork_request(s, r, r + i);
        if (r->fed < r->as->prompt && !r->whole) /* the slot's penalties want the prompt, too */
            must(cls_slot_append_prompt(s->sampler, slot, r->text + r->fed, tokens));
        int32_t *row = p->rows + p->n * ROW_WORDS;
        row[ROW_SLOT] = (int32_t)slot;
        row[ROW_POSITION] = (int32_t)r->fed;
        row[ROW_COUNT] = (int32_t)count;
        memcpy(row + ROW_TOKENS, r->text + r->fed, count * sizeof *row);
        p->slots[p->n] = count > 0 ? -1 : (int32_t)slot;
        p->who[p->n++] = r;
        r->fed += tokens;
    }
}

/* Enqueues a step and its tokens' way to the host; waits for nothing. */
static void enqueue(server *s, step *p, const step *earlier)
{
    const size_t rows = p->n;
    const void *ignored;
    cls_status status;
    cls_step call;
    cls_outputs outputs;
    must(clEnqueueWriteBuffer(s->queue, s->rows, CL_FALSE, 0, sizeof p->rows, p->rows, 0, NULL,
                              NULL));
    must(clEnqueueNDRangeKernel(s->queue, s->forward, 1, NULL, &rows, NULL, 0, NULL, NULL));
    cls_step_init(&call);
    call.rows = p->n;
    call.logits.buffer = s->logits;
    call.slots.host = p->slots;
    call.tokens.buffer = call.status.buffer = s->out;
    call.status.offset = SLOTS * sizeof(int32_t);
    cls_outputs_init(&outputs);
    outputs.latest.buffer = s->latest;
    call.outputs = &outputs;
    /* CLS_BUSY: nothing was enqueued, since too many steps are under way. Wait for one, but
     * don't deliver its tokens here: that could free slots which this step names. */
    while ((status = cls_sample(s->sampler, s->queue, &call, 0, NULL, NULL)) == CLS_BUSY)
        must(cls_readback_get(s->readback, earlier->ticket, 1, &ignored));
    must(status);
    must(cls_readback_start(s->readback, s->queue, &call.tokens, 2 * SLOTS * sizeof(int32_t), 0,
                            NULL, &p->ticket));
    must(clFlush(s->queue));
    s->n_steps++;
    s->n_rows += p->n;
}

/* Takes a step's tokens, and frees a slot at the first row with CLS_ROW_STOPPED while the slot
 * is still that request's. More rows may follow, as the host learns of an end one step late, and
 * by then the slot may be another request's: these rows are nobody's. Whether the row is
 * CLS_ROW_SKIPPED as well does not matter: that says that it has no token. The first row of a
 * request that began with all of its output, or as a copy of one that had stopped, has both bits
 * already. (One that may come back to its old slot needs a number for each stay: `who` is the same
 * in both.) */
static void deliver(server *s, step *p)
{
    const void *data;
    if (p->n == 0)
        return;
    must(cls_readback_get(s->readback, p->ticket, 1, &data));
    const int32_t *token = data, *status = token + SLOTS;
    for (uint32_t i = 0; i < p->n; i++) {
        request *r = p->who[i];
        if (p->slots[i] < 0 || s->owner[p->slots[i]] != r)
            continue;
        if (token[i] >= 0)
            r->text[r->n++] = token[i];
        if (status[i] & CLS_ROW_STOPPED)
            leave(s, r,
                  status[i] & CLS_ROW_SKIPPED  ? "had ended"
                  : status[i] & CLS_ROW_LENGTH ? "max_tokens"
                                               : "stop");
        else if (token[i] < 0)
            leave(s, r, "no token");
        else if (r->as->hang_up > 0 && r->n - r->before == r->as->hang_up)
            leave(s, r, "cancelled");
    }
    p->n = 0;
}

static void serve(server *s, request *requests, uint32_t n, uint32_t slots)
{
    uint32_t joined = 0, ended = 0;
    s->free = slots;
    for (uint32_t now = 0; ended < n && now < MAX_STEPS; now++) {
        step *next = &s->steps[now % 2], *earlier = &s->steps[(now + 1) % 2];
        while (joined < n && (slots == 1 || requests[joined].as->arrives <= now) &&
               join(s, &requests[joined]))
            joined += 1 + requests[joined].forks;
        plan(s, next);
        if (next->n > 0)
            enqueue(s, next, earlier);
        deliver(s, earlier); /* while `next` runs */
        while (ended < n && requests[ended].end[0] != '\0')
            ended++;
    }
    must(clFinish(s->queue)); /* rows that are nobody's */
    s->steps[0].n = s->steps[1].n = 0;
}

/* --------------------------------------------------------------------- the check */

static cl_device_id first_usable_device(void)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cls_device_info info = {.struct_size = sizeof info};
    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        return NULL;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        cl_device_id device; /* a platform may have none */
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS &&
            cls_device_query(device, NULL, &info) == CLS_OK)
            return device;
    }
    return NULL;
}

int main(void)
{
    static request together[MAX_REQUESTS], alone[MAX_REQUESTS];
    static server s;
    const uint32_t n = make_requests(together);
    uint32_t tokens = 0, others = 0;
    const cl_device_id device = first_usable_device();
    if (device == NULL) {
        fprintf(stderr, "no usable OpenCL device\n");
        return 77;
    }
    server_open(&s, device);
    serve(&s, together, n, SLOTS);
    const uint32_t steps = s.n_steps, rows = s.n_rows;
    make_requests(alone);
    for (uint32_t i = 0; i < n; i++) {
        request *r = &together[i], *one = &alone[i];
        one->forks = 0;
        one->whole = 1;
        serve(&s, one, 1, 1);
        printf("%-18s", r->as->name);
        for (uint32_t t = r->before; t < r->n; t++)
            printf(" %d", (int)r->text[t]);
        printf(" [%s]\n", r->end);
        tokens += r->n - r->before;
        if (r->n != one->n || memcmp(r->text, one->text, sizeof r->text) != 0 ||
            strcmp(r->end, one->end) != 0) {
            printf("  alone it gets other tokens, %u of them [%s]\n",
                   (unsigned)(one->n - one->before), one->end);
            others++;
        } else if (r->end[0] == '\0') {
            printf("  it never ended\n");
            others++;
        }
    }
    printf("%u requests, %u tokens: %u steps of %.1f rows; one request at a time: %u steps, %u "
           "with other tokens\n",
           (unsigned)n, (unsigned)tokens, (unsigned)steps, (double)rows / steps,
           (unsigned)(s.n_steps - steps), (unsigned)others);
    server_close(&s);
    return others > 0;
}
