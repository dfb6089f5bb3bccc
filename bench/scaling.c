/* SPDX-License-Identifier: MIT */
/* Measures what a vocabulary that is split over N shards exchanges, and how long each shard works.
 * All shards live in this process, on one device, and take turns: nothing here measures a network.
 * Each token is compared with that of cls_sample() on the whole logits; a difference ends the
 * program. doc/scaling.md explains the columns and has results.
 *
 *     scaling [N ...]          default: 2 4 8 16 64 256 1024
 *
 * The library's launches pass through clEnqueueNDRangeKernel() below, which keeps the events that
 * tell how long a kernel ran. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "bench.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VOCAB = BENCH_VOCAB, MOST_ROWS = 16, MOST_EXCHANGES = 8, HISTORY = 500, MOST_US = 2500000 };

/* ------------------------------------------------------------------------- cases */

typedef enum row_order { AS_MADE, SORTED } row_order;

typedef struct scaling_case {
    const char *name;
    bench_rows rows;
    row_order order; /* SORTED: the likeliest tokens have the lowest ids, and so one shard */
    float temperature;
    int32_t top_k;
    float top_p, min_p, typical_p;
    int penalized;
} scaling_case;

static const scaling_case cases[] = {
    {"greedy", BENCH_LANGUAGE, AS_MADE, 0.0f, 0, 1.0f, 0.0f, 1.0f, 0},
    {"usual", BENCH_LANGUAGE, AS_MADE, 0.8f, 50, 0.9f, 0.05f, 1.0f, 1},
    {"plain", BENCH_LANGUAGE, AS_MADE, 1.0f, 0, 1.0f, 0.0f, 1.0f, 0},
    {"minp", BENCH_LANGUAGE, AS_MADE, 1.0f, 0, 1.0f, 0.05f, 1.0f, 0},
    {"minp_flat", BENCH_FLAT, AS_MADE, 1.0f, 0, 1.0f, 0.05f, 1.0f, 0},
    {"topk_2000", BENCH_LANGUAGE, AS_MADE, 1.0f, 2000, 1.0f, 0.0f, 1.0f, 0},
    {"topp", BENCH_LANGUAGE, AS_MADE, 1.0f, 0, 0.9f, 0.0f, 1.0f, 0},
    {"topp_sorted", BENCH_LANGUAGE, SORTED, 1.0f, 0, 0.9f, 0.0f, 1.0f, 0},
    {"topp_flat", BENCH_FLAT, AS_MADE, 1.0f, 0, 0.9f, 0.0f, 1.0f, 0},
    {"topp_ties", BENCH_TIES, AS_MADE, 1.0f, 0, 0.9f, 0.0f, 1.0f, 0},
    {"typical", BENCH_LANGUAGE, AS_MADE, 1.0f, 0, 1.0f, 0.0f, 0.95f, 0},
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* ------------------------------------------------------------------ kernel times */

typedef enum kernel_kind { SURVEY, PARTIAL, MERGE, DRAW, KERNEL_KINDS } kernel_kind;

static struct launch {
    cl_event event;
    kernel_kind kind;
} launches[64];
static uint32_t launch_count;

static kernel_kind kind_of(cl_kernel kernel)
{
    char name[64] = "";
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    return strcmp(name, "cls_survey") == 0    ? SURVEY
           : strcmp(name, "cls_partial") == 0 ? PARTIAL
           : strcmp(name, "cls_merge") == 0   ? MERGE
                                              : DRAW;
}

static __typeof__(&(clEnqueueNDRangeKernel)) real_launch;

/* Finds the function behind this file's. ISO C has no cast to a pointer to a function. */
static void find_next(const char *name, void *function)
{
    void *const found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

CLS_API cl_int(clEnqueueNDRangeKernel)(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                       const size_t *offset, const size_t *global,
                                       const size_t *local, cl_uint n_wait, const cl_event *wait,
                                       cl_event *event)
{
    cl_event here = NULL;
    const cl_int code =
        real_launch(queue, kernel, dimensions, offset, global, local, n_wait, wait, &here);
    if (code != CL_SUCCESS)
        return code;
    if (event != NULL) {
        clRetainEvent(here);
        *event = here;
    }
    if (launch_count < sizeof launches / sizeof launches[0])
        launches[launch_count++] = (struct launch){here, kind_of(kernel)};
    else
        clReleaseEvent(here);
    return CL_SUCCESS;
}

/* Adds the microseconds of the launches since the last call, which must have ended. */
static void add_launches(double us[KERNEL_KINDS])
{
    for (uint32_t i = 0; i < launch_count; i++) {
        cl_ulong begin = 0, end = 0;
        if (clGetEventProfilingInfo(launches[i].event, CL_PROFILING_COMMAND_START, sizeof begin,
                                    &begin, NULL) == CL_SUCCESS &&
            clGetEventProfilingInfo(launches[i].event, CL_PROFILING_COMMAND_END, sizeof end, &end,
                                    NULL) == CL_SUCCESS)
            us[launches[i].kind] += 1e-3 * (double)(end - begin);
        clReleaseEvent(launches[i].event);
    }
    launch_count = 0;
}

/* ----------------------------------------------------------------------- helpers */

static void fail(const char *what)
{
    fprintf(stderr, "scaling: %s\n", what);
    exit(1);
}

static void must(cls_status status)
{
    if (status != CLS_OK)
        fail(cls_error_message());
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int descending_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Times, of which the tenth percentile counts: other work on the machine hardly changes it. */
typedef struct times {
    double *us;
    size_t n, room;
} times;

static void add_time(times *t, double us)
{
    if (t->n == t->room) {
        t->room = t->room != 0 ? 2 * t->room : 64;
        t->us = realloc(t->us, t->room * sizeof *t->us);
        if (t->us == NULL)
            fail("out of memory");
    }
    t->us[t->n++] = us;
}

/* Returns the time that one run in ten does not exceed, and forgets the times. */
static double typical_time(times *t)
{
    const double us =
        t->n != 0 ? (qsort(t->us, t->n, sizeof *t->us, ascending), t->us[t->n / 10]) : 0.0;
    free(t->us);
    memset(t, 0, sizeof *t);
    return us;
}

/* ------------------------------------------------------------------------- scene */

typedef struct scene {
    cl_context cl;
    cl_command_queue queue;
    cls_context *context;
    float *rows;
    cl_mem logits; /* [MOST_ROWS, VOCAB] of the current case */
    int32_t prompt[HISTORY];
} scene;

/* A sampler, with a shard or without. */
typedef struct party {
    cls_sampler *sampler;
    cls_shard *shard;
    cl_mem tokens;
    cls_step step;
    double kernel_us[KERNEL_KINDS]; /* of the current step */
    double between_us;
} party;

static cl_device_id first_device(void)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cls_device_info info;
    cls_device_info_init(&info);
    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        return NULL;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        cl_device_id device;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS &&
            cls_device_query(device, NULL, &info) == CLS_OK)
            return device;
    }
    return NULL;
}

static void scene_open(scene *s)
{
    cls_context_options o;
    cl_int code;
    find_next("clEnqueueNDRangeKernel", &real_launch);
    must(cls_opencl_find(NULL));
    const cl_device_id device = first_device();
    if (device == NULL) {
        fputs("scaling: no usable OpenCL device\n", stderr);
        exit(77);
    }
    s->cl = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        s->queue = clCreateCommandQueue(s->cl, device, CL_QUEUE_PROFILING_ENABLE, &code);
    if (code == CL_SUCCESS)
        s->logits = clCreateBuffer(s->cl, CL_MEM_READ_ONLY,
                                   (size_t)MOST_ROWS * VOCAB * sizeof(float), NULL, &code);
    s->rows = malloc(((size_t)MOST_ROWS * VOCAB + BENCH_PAD) * sizeof *s->rows);
    if (code != CL_SUCCESS || s->rows == NULL)
        fail("cannot create a context, a queue and a buffer");
    cls_context_options_init(&o);
    o.dtypes = 1u << CLS_F32;
    must(cls_context_create(s->cl, device, &o, &s->context));
    bench_fill_ids(s->prompt, HISTORY, VOCAB, BENCH_ZIPF, 1);
}

static void scene_close(scene *s)
{
    cls_context_destroy(s->context);
    clReleaseMemObject(s->logits);
    clReleaseCommandQueue(s->queue);
    clReleaseContext(s->cl);
    free(s->rows);
}

static void fill_logits(scene *s, const scaling_case *c)
{
    bench_fill_rows(s->rows, CLS_F32, MOST_ROWS, VOCAB, c->rows);
    for (size_t row = 0; row < MOST_ROWS && c->order == SORTED; row++)
        qsort(s->rows + row * VOCAB, VOCAB, sizeof *s->rows, descending_floats);
    if (clEnqueueWriteBuffer(s->queue, s->logits, CL_TRUE, 0,
                             (size_t)MOST_ROWS * VOCAB * sizeof(float), s->rows, 0, NULL,
                             NULL) != CL_SUCCESS)
        fail("cannot write the logits");
}

/* o: NULL for a sampler without a shard. */
static void party_open(party *p, const scene *s, uint32_t rows, const cls_shard_options *o)
{
    cls_sampler_options so;
    cl_int code;
    uint32_t first = 0;
    memset(p, 0, sizeof *p);
    cls_sampler_options_init(&so);
    so.vocab = VOCAB;
    so.max_rows = rows;
    so.features = CLS_FEATURE_PLAIN | CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH |
                  CLS_FEATURE_SAMPLERS | CLS_FEATURE_PENALTIES;
    must(cls_sampler_create(s->context, &so, &p->sampler));
    if (o != NULL) {
        must(cls_shard_create(p->sampler, o, &p->shard));
        cls_shard_info info;
        cls_shard_info_init(&info);
        must(cls_shard_query(p->shard, &info));
        first = info.first;
    }
    p->tokens = clCreateBuffer(s->cl, CL_MEM_READ_WRITE, rows * sizeof(int32_t), NULL, &code);
    if (code != CL_SUCCESS)
        fail("cannot create a buffer");
    cls_step_init(&p->step);
    p->step.rows = rows;
    p->step.logits.values.buffer = s->logits;
    p->step.logits.values.offset = first * sizeof(float);
    p->step.logits.row_stride = VOCAB;
    p->step.tokens.buffer = p->tokens;
}

static void party_close(party *p)
{
    cls_shard_destroy(p->shard);
    cls_sampler_destroy(p->sampler);
    clReleaseMemObject(p->tokens);
}

static void begin_requests(const party *p, const scene *s, const scaling_case *c)
{
    for (uint32_t row = 0; row < p->step.rows; row++) {
        cls_params q;
        cls_params_init(&q);
        q.seed = row;
        q.temperature = c->temperature;
        q.top_k = c->top_k;
        q.top_p = c->top_p;
        q.min_p = c->min_p;
        q.typical_p = c->typical_p;
        if (c->penalized) {
            q.penalty_scope = CLS_SCOPE_ALL;
            q.repetition_penalty = 1.1f;
            q.frequency_penalty = q.presence_penalty = 0.1f;
        }
        must(cls_slot_begin(p->sampler, row, &q, s->prompt, c->penalized ? HISTORY : 0, NULL, 0));
    }
}

/* ------------------------------------------------------------------------- steps */

/* What the steps of a case cost. */
typedef struct result {
    uint32_t exchanges, steps;
    double bytes[MOST_EXCHANGES];          /* of the bodies of one shard's partials; sums */
    times first, between, last;            /* up to the first partial; to the later ones; rest */
    times survey, partial, merge, draw;    /* kernels on one shard */
    times whole, whole_survey, whole_draw; /* of the step on the whole logits */
} result;

/* Runs a step on the whole logits. */
static void whole_step(party *p, const scene *s, result *r)
{
    cl_event done;
    const double begin = now_us();
    must(cls_sample(p->sampler, s->queue, &p->step, 0, NULL, &done));
    clWaitForEvents(1, &done);
    add_time(&r->whole, now_us() - begin);
    clReleaseEvent(done);
    memset(p->kernel_us, 0, sizeof p->kernel_us);
    add_launches(p->kernel_us);
    add_time(&r->whole_survey, p->kernel_us[SURVEY]);
    add_time(&r->whole_draw, p->kernel_us[DRAW]);
}

/* The partials of all shards: of this exchange and of the next one. */
typedef struct basket {
    char *bytes[2];
    size_t size[2], room[2];
} basket;

/* Takes shard i's partial into one half of the basket. */
static void take_partial(basket *b, int half, const party *p, uint32_t i, uint32_t n)
{
    const void *bytes;
    size_t size;
    must(cls_shard_partial(p->shard, &bytes, &size));
    if (i == 0) {
        b->size[half] = size;
        if (n * size > b->room[half]) {
            b->room[half] = n * size;
            b->bytes[half] = realloc(b->bytes[half], n * size);
            if (b->bytes[half] == NULL)
                fail("out of memory");
        }
    }
    if (size != b->size[half])
        fail("partials differ in size");
    memcpy(b->bytes[half] + i * size, bytes, size);
}

/* Runs a step on all shards, one after another. */
static void shard_step(party *shards, uint32_t n, const scene *s, basket *b, result *r)
{
    enum { HEADER = 64 };
    const uint32_t rows = shards[0].step.rows;
    uint32_t exchange = 0;
    int half = 0;
    for (uint32_t i = 0; i < n; i++) {
        party *const p = &shards[i];
        const double begin = now_us();
        must(cls_shard_sample(p->shard, s->queue, &p->step, 0, NULL));
        const void *bytes;
        size_t size;
        must(cls_shard_partial(p->shard, &bytes, &size));
        add_time(&r->first, now_us() - begin);
        memset(p->kernel_us, 0, sizeof p->kernel_us);
        p->between_us = 0.0;
        add_launches(p->kernel_us);
        take_partial(b, half, p, i, n);
    }
    for (int more = 1; more; half = 1 - half) {
        if (exchange == MOST_EXCHANGES)
            fail("too many exchanges");
        r->bytes[exchange++] += (double)(b->size[half] - HEADER) / rows;
        for (uint32_t i = 0; i < n; i++) {
            party *const p = &shards[i];
            cl_event done;
            const double begin = now_us();
            must(cls_shard_merge(p->shard, b->bytes[half], n * b->size[half], &more, &done));
            if (more) {
                take_partial(b, 1 - half, p, i, n);
                p->between_us += now_us() - begin;
            } else {
                clWaitForEvents(1, &done);
                add_time(&r->last, now_us() - begin);
                clReleaseEvent(done);
            }
            add_launches(p->kernel_us);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        add_time(&r->between, shards[i].between_us);
        add_time(&r->survey, shards[i].kernel_us[SURVEY]);
        add_time(&r->partial, shards[i].kernel_us[PARTIAL]);
        add_time(&r->merge, shards[i].kernel_us[MERGE]);
        add_time(&r->draw, shards[i].kernel_us[DRAW]);
    }
    r->exchanges = exchange > r->exchanges ? exchange : r->exchanges;
    r->steps++;
}

static void read_tokens(const party *p, const scene *s, int32_t *tokens)
{
    if (clEnqueueReadBuffer(s->queue, p->tokens, CL_TRUE, 0, p->step.rows * sizeof *tokens, tokens,
                            0, NULL, NULL) != CL_SUCCESS)
        fail("cannot read tokens");
}

/* Compares the tokens of all shards with those of the whole logits. */
static void compare(const party *whole, const party *shards, uint32_t n, const scene *s,
                    const char *name)
{
    int32_t wanted[MOST_ROWS], tokens[MOST_ROWS];
    read_tokens(whole, s, wanted);
    for (uint32_t i = 0; i < n; i++) {
        read_tokens(&shards[i], s, tokens);
        if (memcmp(tokens, wanted, whole->step.rows * sizeof *tokens) == 0)
            continue;
        fprintf(stderr, "scaling: case %s: tokens of shard %u of %u differ\n", name, (unsigned)i,
                (unsigned)n);
        exit(1);
    }
}

/* --------------------------------------------------------------------- the table */

static void print_result(const scaling_case *c, uint32_t widest, result *r)
{
    char bytes[80] = "";
    double sum = 0.0;
    for (uint32_t i = 0; i < r->exchanges; i++) {
        const size_t at = strlen(bytes);
        snprintf(bytes + at, sizeof bytes - at, "%s%.0f", i != 0 ? " + " : "",
                 r->bytes[i] / r->steps);
        sum += r->bytes[i] / r->steps;
    }
    printf("%-12s %2u  %-22s %6.2f %%  %7.0f %7.0f %7.0f %7.0f  %6.0f %6.1f  %6.0f  %6.0f %6.0f "
           "%6.0f\n",
           c->name, (unsigned)r->exchanges, bytes, 100.0 * sum / (widest * sizeof(float)),
           typical_time(&r->first), typical_time(&r->between), typical_time(&r->last),
           typical_time(&r->whole), typical_time(&r->survey), typical_time(&r->whole_survey),
           typical_time(&r->partial), typical_time(&r->merge), typical_time(&r->draw),
           typical_time(&r->whole_draw));
    fflush(stdout);
}

static void run_split(scene *s, uint32_t n, int even)
{
    const uint32_t rows = n <= 16 ? 16 : n <= 64 ? 4 : 1, steps = n <= 16 ? 3 : 1;
    uint32_t *const borders = malloc((n + 1) * sizeof *borders), widest = 0;
    party *const shards = malloc(n * sizeof *shards);
    party whole;
    basket b = {0};
    if (borders == NULL || shards == NULL)
        fail("out of memory");
    for (uint32_t i = 0; i <= n; i++)
        borders[i] = (uint32_t)((uint64_t)i * VOCAB / n);
    party_open(&whole, s, rows, NULL);
    for (uint32_t i = 0; i < n; i++) {
        cls_shard_options o;
        cls_shard_options_init(&o);
        o.shard_count = n;
        o.shard = i;
        o.borders = even ? borders : NULL;
        party_open(&shards[i], s, rows, &o);
        cls_shard_info info;
        cls_shard_info_init(&info);
        must(cls_shard_query(shards[i].shard, &info));
        widest = info.count > widest ? info.count : widest;
    }
    printf("\n%u shards, %s borders, at most %u tokens a shard; %u rows\n", (unsigned)n,
           even ? "even" : "default", (unsigned)widest, (unsigned)rows);
    puts("case         ex  bytes a row                      |   first between    last   whole |"
         "survey /whole|partial | merge   draw /whole");
    for (int k = 0; k < CASES; k++) {
        const scaling_case *const c = &cases[k];
        result r = {0};
        fill_logits(s, c);
        begin_requests(&whole, s, c);
        for (uint32_t i = 0; i < n; i++)
            begin_requests(&shards[i], s, c);
        const double begin = now_us();
        for (uint32_t i = 0; i < steps || (i < 201 && now_us() - begin < MOST_US); i++) {
            whole_step(&whole, s, &r);
            shard_step(shards, n, s, &b, &r);
            compare(&whole, shards, n, s, c->name);
        }
        for (int i = 0; i < 20 && r.steps < 10; i++) /* many shards had few steps */
            whole_step(&whole, s, &r);
        print_result(c, widest, &r);
    }
    for (uint32_t i = 0; i < n; i++)
        party_close(&shards[i]);
    party_close(&whole);
    free(b.bytes[0]);
    free(b.bytes[1]);
    free(borders);
    free(shards);
}

int main(int argc, char **argv)
{
    static const uint32_t usual[] = {2, 4, 8, 16, 64, 256, 1024};
    const int given = argc > 1, count = given ? argc - 1 : (int)(sizeof usual / sizeof usual[0]);
    static scene s;
    scene_open(&s);
    for (int i = 0; i < count; i++) {
        const uint32_t n = given ? (uint32_t)strtoul(argv[i + 1], NULL, 10) : usual[i];
        if (n < 1 || n > CLS_MAX_SHARDS)
            fail("N must be 1 to 4096");
        run_split(&s, n, 0);
        run_split(&s, n, 1);
    }
    scene_close(&s);
    return 0;
}
