/* SPDX-License-Identifier: MIT */
/* Continuous batching, as in an inference server. The model is a small hash, so the example needs
 * only OpenCL. The functions show:
 *
 *     join()           a request joins the running batch; requests that fork wait for their slots
 *     plan()           prompts in chunks; which rows are sampled
 *     fork_request()   several answers to one prompt
 *     enqueue()        the buffer `latest`, and what to do on CLS_BUSY
 *     deliver()        tokens, one step late; the end of a request; cancelling
 *     leave()          a slot becomes free
 *
 * At the end the same requests run again, one at a time in one slot. The library guarantees the
 * same tokens, and the example fails if they differ.
 *
 *     cc server.c $(pkg-config --cflags --libs clsample) && ./a.out
 *
 * `./a.out tool.clsg` also serves a tool call, whose text follows the schema of the tool: the
 * grammar of a vocabulary of 512 tokens, with the end 2, that was made where there is a tokenizer:
 *
 *     python -m clsample.grammar schema.json --tokenizer tokenizer.json --end-id 2 -o tool.clsg
 *
 * `./a.out --record server.run` also writes the calls on the sampler, for `clsample run
 * server.run`.
 */
#include "opencl.h"
#include <string.h>

enum { VOCAB = 512, STOP = 2, END_OF_THINKING = 3 };
enum { SLOTS = 4, MAX_TEXT = 64, MAX_REQUESTS = 16, MAX_STEPS = 1000 };

/* -------------------------------------------------------------------- the model
 *
 * Each row of a step processes tokens of one slot: a chunk of its prompt, which the host sends, or
 * the token latest[slot], which the sampler wrote. One word for each slot replaces the cache of
 * keys and values; it depends on all tokens so far and on their order. */
enum { ROW_SLOT, ROW_POSITION, ROW_COUNT, ROW_TOKENS, ROW_WORDS = 8 };
enum { CHUNK = ROW_WORDS - ROW_TOKENS };

static const char *model =
    "uint hash(uint a, uint b) { a = (a ^ b) * 0x9e3779b1u; a = (a ^ a >> 15) * 0x85ebca77u; "
    "return a ^ a >> 13; }\n"
    "kernel void forward(global const int *rows, global uint *cache, global const int *latest,\n"
    "                    global float *logits) {\n"
    "    global const int *row = rows + get_global_id(0) * 8;\n"
    "    uint h = row[1] == 0 ? 0 : cache[row[0]];\n"
    "    for (int i = 0; i < row[2]; i++) h = hash(h, row[3 + i]);\n"
    "    cache[row[0]] = h = row[2] > 0 ? h : hash(h, latest[row[0]]);\n"
    "    for (int t = 0; t < 512; t++)\n" /* STOP becomes likelier with the position */
    "        logits[get_global_id(0) * 512 + t] = (hash(h, t) % 4096 + (t == 2 ? 48 * row[1] : 0)) "
    "/ 256.0f;\n"
    "}\n";

/* ----------------------------------------------------------------- the requests */

static const struct scenario {
    const char *name;
    uint32_t arrival; /* the step at which the request arrives */
    uint32_t prompt;  /* tokens of the prompt */
    uint32_t output;  /* tokens that it has generated before, if it was preempted */
    uint32_t answers; /* requests that share this prompt: best of n */
    uint32_t cancel;  /* cancelled after so many tokens; 0: never */
    uint32_t max_tokens;
    uint32_t thinking;  /* it begins with thinking, of at most so many tokens; 0: it does not */
    uint32_t favourite; /* a token that it prefers to all others; 0: none */
    uint32_t tool;      /* 1: it follows the tool's grammar, and is left out without one */
    float temperature, top_p, repetition_penalty;
} scenarios[] = {
    /* arrival, prompt, output, answers, cancel, max_tokens, thinking, favourite, tool;
     * temperature, top-p, repetition */
    {"greedy", 0, 5, 0, 1, 0, 12, 0, 0, 0, 0.0f, 1.0f, 1.0f},
    {"long prompt", 0, 18, 0, 1, 0, 20, 0, 0, 0, 0.7f, 0.9f, 1.3f},
    {"cancelled", 0, 3, 0, 1, 4, 30, 0, 0, 0, 1.0f, 1.0f, 1.0f},
    {"one token", 1, 1, 0, 1, 0, 1, 0, 0, 0, 0.9f, 1.0f, 1.0f},
    {"best of 3", 3, 9, 0, 3, 0, 24, 0, 0, 0, 1.2f, 0.95f, 1.1f},
    {"resumed", 5, 6, 7, 1, 0, 25, 0, 0, 0, 0.8f, 0.9f, 1.2f},
    {"complete before", 6, 4, 8, 1, 0, 8, 0, 0, 0, 0.8f, 0.9f, 1.0f},
    /* This one is refused; the others continue. */
    {"top-p of 1.5", 8, 4, 0, 1, 0, 8, 0, 0, 0, 0.8f, 1.5f, 1.0f},
    {"until it stops", 9, 7, 0, 1, 0, 50, 0, 0, 0, 1.0f, 0.9f, 1.0f},
    /* 6 tokens, then END_OF_THINKING. */
    {"thinking", 10, 4, 0, 1, 0, 14, 6, 0, 0, 1.0f, 0.9f, 1.0f},
    {"repeats itself", 11, 4, 0, 1, 0, 50, 0, 9, 0, 0.0f, 1.0f, 1.0f},
    {"tool call", 12, 6, 0, 1, 0, 50, 0, 0, 1, 1.0f, 1.0f, 1.0f},
    {"after the others", 60, 2, 0, 1, 0, 10, 0, 0, 0, 1.5f, 1.0f, 1.0f},
};

typedef struct request {
    const struct scenario *scenario;
    cls_params params;
    uint32_t forks; /* the next requests in the array, which become copies after the prompt */
    int whole;      /* the slot begins with the whole prompt; otherwise it gets chunks */
    uint32_t slot;
    int32_t text[MAX_TEXT]; /* prompt and output */
    uint32_t initial, n;    /* tokens of the text at the arrival, and now */
    uint32_t fed;           /* tokens that the enqueued steps pass to the model */
    char end[120];          /* the reason why the request ended; empty: it has not ended */
} request;

/* Loads the grammar of a file. */
static cls_grammar *load_grammar(const char *path)
{
    static char bytes[1 << 20];
    cls_saved_grammar saved;
    cls_grammar *grammar;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    cls_saved_grammar_init(&saved);
    saved.bytes = bytes;
    saved.size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    must(cls_grammar_load(&saved, &grammar));
    return grammar;
}

static uint32_t make_requests(request *requests, const cls_grammar *tool)
{
    static const int32_t stop_ids[] = {STOP}, end_ids[] = {END_OF_THINKING};
    static const cls_ids end = {end_ids, 1};
    static cls_logit_bias favourites[MAX_REQUESTS];
    uint32_t n = 0;
    for (uint32_t a = 0; a < sizeof scenarios / sizeof *scenarios; a++)
        for (uint32_t number = 0; number < scenarios[a].answers; number++) {
            if (scenarios[a].tool && tool == NULL)
                continue;
            request *r = &requests[n++];
            r->scenario = &scenarios[a];
            r->forks = number == 0 ? r->scenario->answers - 1 : 0;
            r->whole = r->scenario->output > 0;
            r->initial = r->n = r->scenario->prompt + r->scenario->output;
            for (uint32_t i = 0; i < r->n; i++)
                r->text[i] = (int32_t)(3 + (a * 71 + i * 13) % (VOCAB - 3));
            cls_params_init(&r->params);
            r->params.temperature = r->scenario->temperature;
            r->params.top_k = 50;
            r->params.top_p = r->scenario->top_p;
            r->params.repetition_penalty = r->scenario->repetition_penalty;
            r->params.max_tokens = r->scenario->max_tokens;
            r->params.stop_ids.ids = stop_ids;
            r->params.stop_ids.count = 1;
            r->params.seed = a;
            r->params.stream = number;  /* answers to one prompt differ */
            r->params.loop_repeats = 4; /* ends requests that repeat up to 4 tokens */
            r->params.loop_max = 4;
            if (r->scenario->thinking > 0) {
                r->params.thinking_budget = r->scenario->thinking;
                r->params.thinking_forced = end;
                r->params.thinking_ends.sequences = &end;
                r->params.thinking_ends.count = 1;
            }
            r->params.grammar = r->scenario->tool ? tool : NULL;
            favourites[a] = (cls_logit_bias){(int32_t)r->scenario->favourite, 100.0f};
            r->params.logit_bias.biases = &favourites[a];
            r->params.logit_bias.count = r->scenario->favourite > 0;
        }
    return n;
}

/* ------------------------------------------------------------------- the server */

typedef struct step {
    uint32_t n;                      /* rows; 0: there is nothing to wait for */
    request *requests[SLOTS];        /* of the rows */
    int32_t slots[SLOTS];            /* of the rows; -1: the row is not sampled */
    int32_t rows[SLOTS * ROW_WORDS]; /* the input of the model */
    uint64_t ticket;
} step;

typedef struct server {
    opencl device;
    cl_command_queue queue; /* its queue */
    cl_kernel forward;
    cl_mem rows, cache, latest, logits, out;
    cls_sampler *sampler;
    cls_readback *readback;
    request *owner[SLOTS]; /* the request in each slot, or NULL */
    uint32_t free;         /* free slots, without those that are reserved for forks */
    step steps[2];
    uint32_t n_steps, n_rows;
} server;

static cl_mem buffer(const server *s, size_t words)
{
    return opencl_buffer(&s->device, words * sizeof(int32_t));
}

/* Writes what the library gives it of a record. `user`: the path of the text. */
static int write_record(void *user, const char *file, uint64_t offset, const void *bytes,
                        size_t size)
{
    const char *text = user, *slash = strrchr(text, '/');
    char path[1024];
    snprintf(path, sizeof path, "%.*s%s",
             file != NULL && slash != NULL ? (int)(slash + 1 - text) : 0, text,
             file != NULL ? file : text);
    FILE *out = fopen(path, offset == 0 ? "wb" : "ab");
    if (out == NULL)
        return 1;
    const size_t written = fwrite(bytes, 1, size, out);
    return fclose(out) != 0 || written != size;
}

static void server_open(server *s, const cls_grammar *tool, char *record)
{
    cls_sampler_options options;
    s->device = opencl_open();
    s->queue = s->device.queue;
    const cl_program program = opencl_program(&s->device, model);
    s->forward = clCreateKernel(program, "forward", NULL);
    clReleaseProgram(program);
    const cl_mem args[] = {s->rows = buffer(s, SLOTS * ROW_WORDS), s->cache = buffer(s, SLOTS),
                           s->latest = buffer(s, SLOTS), s->logits = buffer(s, SLOTS * VOCAB)};
    for (cl_uint i = 0; i < 4; i++)
        must(clSetKernelArg(s->forward, i, sizeof args[i], &args[i]));
    s->out = buffer(s, 2 * SLOTS); /* tokens, then statuses, for one readback */
    cls_sampler_options_init(&options);
    options.vocab = VOCAB;
    options.max_rows = SLOTS;
    options.max_history = 16; /* for loops of 4 tokens, 4 times */
    /* CLS_FEATURE_STATE is for cls_slot_copy() and cls_slot_params(), CLS_FEATURE_FORCED for loops,
     * thinking and grammars, which also need CLS_FEATURE_HISTORY. */
    options.features =
        CLS_FEATURE_SHORTLIST | CLS_FEATURE_PENALTIES | CLS_FEATURE_STATE | CLS_FEATURE_FORCED;
    if (tool != NULL)
        options.features |= CLS_FEATURE_HISTORY;
    if (record != NULL) {
        options.record = write_record;
        options.record_user = record;
        options.record_arrays = 1;
    }
    must(cls_sampler_create(s->device.cls, &options, &s->sampler));
    /* Two entries: two steps are in flight. */
    must(cls_readback_create(s->device.cls, 2 * SLOTS * sizeof(int32_t), 2, &s->readback));
}

static void server_close(server *s)
{
    const cl_mem buffers[] = {s->rows, s->cache, s->latest, s->logits, s->out};
    cls_readback_destroy(s->readback);
    cls_sampler_destroy(s->sampler);
    clReleaseKernel(s->forward);
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        clReleaseMemObject(buffers[i]);
    opencl_close(&s->device);
}

static void take_slot(server *s, request *r)
{
    for (r->slot = 0; s->owner[r->slot] != NULL;)
        r->slot++;
    s->owner[r->slot] = r;
}

/* Ends a request. Its slot is free at once: a step in flight may still have a row of it, but the
 * commands of the next request come later in the queue. */
static void leave(server *s, request *r, const char *why)
{
    must(cls_slot_reset(s->sampler, r->slot));
    s->owner[r->slot] = NULL;
    s->free++;
    snprintf(r->end, sizeof r->end, "%s", why);
}

/* Lets a request join. 0: there are not enough free slots for it and its forks. */
static int join(server *s, request *r)
{
    if (s->free < 1 + r->forks)
        return 0;
    if (cls_sampler_check(s->sampler, &r->params) != CLS_OK) {
        for (uint32_t i = 0; i <= r->forks; i++)
            snprintf(r[i].end, sizeof r->end, "refused: %s", cls_error_message());
        return 1;
    }
    s->free -= 1 + r->forks;
    take_slot(s, r);
    must(cls_slot_begin(
        s->sampler, r->slot, &r->params,
        &(cls_text){.struct_size = sizeof(cls_text),
                    .prompt = {r->text, r->whole ? r->scenario->prompt : 0},
                    .output = {r->text + r->scenario->prompt, r->scenario->output}}));
    /* The first sampled row reads the last token of the initial text from `latest`. Later entries
     * are written by the sampler. */
    must(clEnqueueWriteBuffer(s->queue, s->latest, CL_FALSE, r->slot * sizeof(int32_t),
                              sizeof(int32_t), &r->text[r->initial - 1], 0, NULL, NULL));
    return 1;
}

/* Copies a request: the sampler's slot, and the model's cache and `latest`, which belong to the
 * server. The copies are commands in the queue, because the host's data may be one step old. */
static void fork_request(server *s, const request *from, request *to)
{
    take_slot(s, to);
    to->fed = from->fed;
    must(cls_slot_copy(s->sampler, to->slot, from->slot));
    must(cls_slot_params(s->sampler, to->slot, &to->params)); /* with another stream */
    const size_t here = from->slot * sizeof(int32_t), there = to->slot * sizeof(int32_t);
    must(clEnqueueCopyBuffer(s->queue, s->cache, s->cache, here, there, sizeof(int32_t), 0, NULL,
                             NULL));
    must(clEnqueueCopyBuffer(s->queue, s->latest, s->latest, here, there, sizeof(int32_t), 0, NULL,
                             NULL));
}

/* Makes a row for every request. A row with a chunk of the initial text is not sampled. A row that
 * reads its token from `latest` is sampled; the first of these reads the last initial token. */
static void plan(server *s, step *p)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        request *r = s->owner[slot];
        if (r == NULL)
            continue;
        const uint32_t last = r->initial - 1, left = r->fed < last ? last - r->fed : 0;
        const uint32_t count = left < CHUNK ? left : CHUNK, tokens = count > 0 ? count : 1;
        for (uint32_t i = 1; i <= r->forks && r->fed == last; i++)
            fork_request(s, r, r + i);
        if (r->fed < r->scenario->prompt && !r->whole) /* penalties count the prompt, too */
            must(cls_slot_append_prompt(s->sampler, slot, r->text + r->fed, tokens));
        int32_t *row = p->rows + p->n * ROW_WORDS;
        row[ROW_SLOT] = (int32_t)slot;
        row[ROW_POSITION] = (int32_t)r->fed;
        row[ROW_COUNT] = (int32_t)count;
        memcpy(row + ROW_TOKENS, r->text + r->fed, count * sizeof *row);
        p->slots[p->n] = count > 0 ? -1 : (int32_t)slot;
        p->requests[p->n++] = r;
        r->fed += tokens;
    }
}

/* Enqueues a step and the readback of its tokens, without waiting. */
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
    call.logits.values.buffer = s->logits;
    call.slots.host = p->slots;
    call.tokens.buffer = call.status.buffer = s->out;
    call.status.offset = SLOTS * sizeof(int32_t);
    cls_outputs_init(&outputs);
    outputs.latest.buffer = s->latest;
    call.outputs = &outputs;
    /* CLS_BUSY: too many steps are in flight, and nothing was enqueued. Wait for one of them, but
     * do not deliver its tokens here: that could free slots that this step uses. */
    while ((status = cls_sample(s->sampler, s->queue, &call, 0, NULL, NULL)) == CLS_BUSY)
        must(cls_readback_get(s->readback, earlier->ticket, 1, &ignored));
    must(status);
    must(cls_readback_start(s->readback, s->queue, &call.tokens, 2 * SLOTS * sizeof(int32_t), 0,
                            NULL, &p->ticket));
    must(clFlush(s->queue));
    s->n_steps++;
    s->n_rows += p->n;
}

/* Takes the tokens of a step and ends requests. The host learns of an end one step late. The next
 * step then still has a row of that request, or the slot already belongs to another one; rows whose
 * request is not the owner of the slot are ignored. (If a request can return to a slot that it had
 * before, this comparison is not enough: the server must also number the uses of each slot.)
 *
 * CLS_ROW_STOPPED means that the request has ended. If CLS_ROW_SKIPPED is set, too, the request had
 * stopped before, and the row has no token. The first row of a request that began with all of its
 * output, or as a copy of a request that had stopped, has both bits. */
static void deliver(server *s, step *p)
{
    const void *data;
    if (p->n == 0)
        return;
    must(cls_readback_get(s->readback, p->ticket, 1, &data));
    const int32_t *token = data, *status = token + SLOTS;
    for (uint32_t i = 0; i < p->n; i++) {
        request *r = p->requests[i];
        if (p->slots[i] < 0 || s->owner[p->slots[i]] != r)
            continue;
        if (token[i] >= 0)
            r->text[r->n++] = token[i];
        if (status[i] & CLS_ROW_STOPPED)
            leave(s, r,
                  status[i] & CLS_ROW_SKIPPED  ? "stopped before"
                  : status[i] & CLS_ROW_LENGTH ? "max_tokens"
                  : status[i] & CLS_ROW_LOOP   ? "a loop"
                                               : "stop");
        else if (token[i] < 0)
            leave(s, r, "no token");
        else if (r->scenario->cancel > 0 && r->n - r->initial == r->scenario->cancel)
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
        while (joined < n && (slots == 1 || requests[joined].scenario->arrival <= now) &&
               join(s, &requests[joined]))
            joined += 1 + requests[joined].forks;
        plan(s, next);
        if (next->n > 0)
            enqueue(s, next, earlier);
        deliver(s, earlier); /* while `next` runs */
        while (ended < n && requests[ended].end[0] != '\0')
            ended++;
    }
    must(clFinish(s->queue)); /* the last step has only rows of ended requests */
    s->steps[0].n = s->steps[1].n = 0;
}

/* --------------------------------------------------------------------- the check */

int main(int argc, char **argv)
{
    const int records = argc > 2 && strcmp(argv[1], "--record") == 0;
    char *record = records ? argv[2] : NULL;
    const int next = records ? 3 : 1;
    cls_grammar *tool = argc > next ? load_grammar(argv[next]) : NULL;
    static request together[MAX_REQUESTS], alone[MAX_REQUESTS];
    static server s;
    const uint32_t n = make_requests(together, tool);
    uint32_t tokens = 0, different = 0;
    server_open(&s, tool, record);
    serve(&s, together, n, SLOTS);
    const uint32_t steps = s.n_steps, rows = s.n_rows;
    make_requests(alone, tool);
    for (uint32_t i = 0; i < n; i++) {
        request *r = &together[i], *one = &alone[i];
        one->forks = 0;
        one->whole = 1;
        serve(&s, one, 1, 1);
        printf("%-18s", r->scenario->name);
        for (uint32_t t = r->initial; t < r->n; t++)
            printf(" %d", (int)r->text[t]);
        printf(" [%s]\n", r->end);
        tokens += r->n - r->initial;
        if (r->n != one->n || memcmp(r->text, one->text, sizeof r->text) != 0 ||
            strcmp(r->end, one->end) != 0) {
            printf("  alone it has different tokens: %u [%s]\n", (unsigned)(one->n - one->initial),
                   one->end);
            different++;
        } else if (r->end[0] == '\0') {
            printf("  it did not end\n");
            different++;
        }
    }
    printf("%u requests, %u tokens: %u steps of %.1f rows; one request at a time: %u steps, %u "
           "requests differ\n",
           (unsigned)n, (unsigned)tokens, (unsigned)steps, (double)rows / steps,
           (unsigned)(s.n_steps - steps), (unsigned)different);
    server_close(&s);
    cls_grammar_destroy(tool);
    return different > 0;
}
