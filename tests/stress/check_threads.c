/* SPDX-License-Identifier: MIT */
/* Proves that samplers in threads give what each gives alone, and that their traffic takes no more
 * memory as it goes on. A thread has a sampler, a queue and random traffic; all share one context.
 *
 *     check_threads [steps [threads]]
 *
 * check_threads uses a device's OpenCL. check_threads_stub is the same program with an OpenCL
 * that computes nothing, so that ThreadSanitizer sees the library and no driver. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "script.h"
#ifdef CLS_STUB
#include "sampler/sampler.h"
#include "stub_cl.h"
#endif

enum { MOST = 64 };

static uint32_t steps_wanted, threads_wanted;

static int computes(void)
{
#ifdef CLS_STUB
    return 0;
#else
    return 1;
#endif
}

/* ---------------------------------------------------------------------- traffic */

enum { SLOTS = 4, LOGITS = 64 };

/* Requests that follow scripts, change, fork and end, in the slots of one sampler. */
typedef struct traffic {
    device *d;
    cls_context *context;
    script_world world;
    request q[SLOTS];
    uint32_t requests;
    cls_sampler *sampler;
    cls_readback *readback;
    cl_command_queue queue;
    cl_mem logits, output;
    uint64_t steps, hash; /* of all tokens and statuses */
} traffic;

static void traffic_open(traffic *t, device *d, cls_context *context, uint32_t vocab, uint64_t seed)
{
    const size_t size = (size_t)LOGITS * vocab * sizeof(float);
    float *const x = must_malloc(size);
    cl_int code;
    *t = (traffic){.d = d, .context = context, .world = {.seed = seed}};
    t->world.o = sampler_options(vocab, SLOTS);
    t->world.o.max_history = 32;
    t->world.o.max_rollback = 8;
    for (uint32_t row = 0; row < LOGITS; row++)
        row_fill((row_kind)(row % ROW_GOOD), x + (size_t)row * vocab, vocab, seed + row);
    t->queue = clCreateCommandQueue(d->context, d->id, 0, &code);
    must_cl(code);
    t->logits = buffer_of(d, size, x);
    t->output = buffer_of(d, 2 * SLOTS * sizeof(int32_t), NULL);
    must(cls_sampler_create(context, &t->world.o, &t->sampler));
    must(cls_readback_create(context, 2 * SLOTS * sizeof(int32_t), 2, &t->readback));
    free(x);
}

static void traffic_close(traffic *t)
{
    cls_readback_destroy(t->readback);
    cls_sampler_destroy(t->sampler);
    release_buffers(t->logits, t->output);
    clReleaseCommandQueue(t->queue);
}

/* Changes the requests, samples a token of each, and waits for the results. */
static void traffic_step(traffic *t)
{
    const cls_buffer output = {.buffer = t->output};
    int32_t rows[SLOTS];
    uint64_t ticket;
    const void *data;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        request *const q = &t->q[slot];
        if (t->steps == 0 || q->samples >= q->life) {
            const uint32_t from = (slot + 1) % SLOTS, number = ++t->requests;
            if (t->steps != 0 && number % 3 == 0) {
                must(cls_slot_copy(t->sampler, slot, from));
                *q = t->q[from];
                request_fork(q, &t->world, number, t->sampler, slot);
            } else {
                request_begin(q, &t->world, number, t->sampler, slot);
            }
        }
        while (request_change(q, &t->world, t->sampler, slot))
            ;
        rows[slot] = (int32_t)request_logits(q, &t->world, LOGITS);
        request_sampled(q);
    }
    cls_step step = default_step(SLOTS, t->logits);
    step.logits_rows = LOGITS;
    step.logits_map.host = rows;
    step.tokens = output;
    step.status = (cls_buffer){.buffer = t->output, .offset = SLOTS * sizeof(int32_t)};
    must(cls_sample(t->sampler, t->queue, &step, 0, NULL, NULL));
    must(cls_readback_start(t->readback, t->queue, &output, 2 * SLOTS * sizeof(int32_t), 0, NULL,
                            &ticket));
    must(cls_readback_get(t->readback, ticket, 1, &data));
    for (uint32_t i = 0; i < 2 * SLOTS; i++)
        t->hash = (t->hash ^ ((const uint32_t *)data)[i]) * UINT64_C(0x100000001b3);
    t->steps++;
}

/* Saves a slot and loads it into the next one, where it is saved as the same bytes. */
static void traffic_move(traffic *t)
{
    size_t size = 0, again = 0;
    if (cls_slot_save(t->sampler, t->queue, 0, NULL, &size) != CLS_OK) /* it has ended */
        return;
    unsigned char *const bytes = must_malloc(2 * size);
    again = size;
    must(cls_slot_save(t->sampler, t->queue, 0, bytes, &size));
    must(cls_slot_load(t->sampler, 1, bytes, size, NULL));
    t->q[1] = t->q[0];
    must(cls_slot_save(t->sampler, t->queue, 1, bytes + size, &again));
    ck_assert(size == again && memcmp(bytes, bytes + size, size) == 0);
    free(bytes);
}

typedef struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    device *d;
    cls_context *context;
    uint32_t number, steps;
    uint64_t hash;
} worker;

/* Each thread has its own error message, which other threads do not change. */
static void err(const worker *w, const traffic *t)
{
    char slot[40];
    snprintf(slot, sizeof slot, "slot is %u,", 1000 + w->number);
    ck_assert_int_eq(cls_slot_reset(t->sampler, 1000 + w->number), CLS_BAD_ARGUMENT);
    sched_yield();
    ck_assert_msg(strncmp(cls_error_message(), slot, strlen(slot)) == 0,
                  "thread %u has the message \"%s\"", w->number, cls_error_message());
}

static void *work(void *data)
{
    static const uint32_t vocabs[] = {64, 40, 96, 50};
    worker *const w = data;
    traffic t;
    if (w->start != NULL)
        pthread_barrier_wait(w->start);
    traffic_open(&t, w->d, w->context, vocabs[w->number % 4], fixture_seed() + w->number);
    for (uint32_t i = 1; i <= w->steps; i++) {
        traffic_step(&t);
        if (i % 50 == 0)
            err(w, &t);
        if (i % 40 == 0 && computes())
            traffic_move(&t);
    }
    traffic_close(&t);
    w->hash = t.hash;
    return NULL;
}

START_TEST(as_alone)
{
    device *const d = fixture_device(_i);
    const uint32_t n = threads_wanted ? threads_wanted : fixture_by_size(4, 8, 8),
                   steps = steps_wanted ? steps_wanted : fixture_by_size(100, 300, 1000);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    static worker alone[MOST], together[MOST];
    pthread_barrier_t start;
    ck_assert_int_eq(pthread_barrier_init(&start, NULL, n), 0);
    for (uint32_t i = 0; i < n; i++) {
        alone[i] = together[i] = (worker){.d = d, .context = context, .number = i, .steps = steps};
        together[i].start = &start;
        work(&alone[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(pthread_create(&together[i].thread, NULL, work, &together[i]), 0);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_join(together[i].thread, NULL), 0);
        ck_assert_msg(together[i].hash == alone[i].hash,
                      "%s: thread %u of %u gives other tokens than alone", d->name, i, n);
    }
    pthread_barrier_destroy(&start);
    printf("%s: %u threads of %u steps, as alone\n", d->name, n, steps);
}
END_TEST

/* ---------------------------------------------------------------------- memory */

/* What OpenCL, and malloc() itself, keep, whatever the number of steps. */
#define HEAP_ALLOWED (128u << 10) /* beyond what the sampler tells */
#define RESIDENT_ALLOWED (4u << 20)
#define PEAK 4096 /* bytes that small buffers may grow by */

static void no_growth(const traffic *t, const char *what, uint64_t before, uint64_t after,
                      uint64_t allowed)
{
    printf("    %-8s %9.1f KiB -> %9.1f KiB\n", what, (double)before / 1024, (double)after / 1024);
    ck_assert_msg(after <= before + allowed,
                  "%s: in %llu steps the memory (%s) has grown by %llu bytes, %llu are allowed",
                  t->d->name, (unsigned long long)t->steps, what,
                  (unsigned long long)(after - before), (unsigned long long)allowed);
}

/* A later step may see more slot calls and more lists than any before: memory for them may double,
 * and no more, however many steps there are. The host's is stagings, each with what was ever
 * uploaded in one step; how many are in use at once is a matter of the device's pace. */
START_TEST(no_more_memory)
{
    const uint32_t steps = steps_wanted ? steps_wanted : fixture_by_size(200, 1000, 3000);
    cls_memory before = {.struct_size = sizeof before}, after = before;
    traffic t;
    traffic_open(&t, fixture_device(_i),
                 fixture_context(fixture_device(_i), 1u << CLS_F32, 0, 0, 0), 96, fixture_seed());
    while (t.steps < 8 + steps / 5)
        traffic_step(&t);
    must(cls_sampler_memory(t.sampler, &before));
    const uint64_t heap = memory_heap(), resident = memory_resident();
    while (t.steps < 8 + steps) {
        traffic_step(&t);
        if (t.steps % 20 == 0)
            traffic_move(&t);
    }
    must(cls_sampler_memory(t.sampler, &after));
    no_growth(&t, "lists", before.lists, after.lists, before.lists + PEAK);
    no_growth(&t, "changes", before.changes, after.changes, before.changes + PEAK);
    no_growth(&t, "rest", before.device - before.lists - before.changes,
              after.device - after.lists - after.changes, 0);
    no_growth(&t, "host", before.host, after.host, 16 * after.changes);
    const uint64_t most = heap + after.host - before.host + HEAP_ALLOWED;
    no_growth(&t, "heap", heap, memory_settled(memory_heap, most), most - heap);
    no_growth(&t, "resident", resident,
              memory_settled(memory_resident, resident + RESIDENT_ALLOWED), RESIDENT_ALLOWED);
    traffic_close(&t);
}
END_TEST

/* ------------------------------------------------------------- who keeps a context */

typedef struct keeper {
    pthread_t thread;
    pthread_barrier_t *made;
    device *d;
    cls_context *context;
    uint32_t number;
    cls_sampler *sampler; /* created by one thread, and destroyed by the next one */
    cls_readback *readback;
    struct keeper *next;
} keeper;

/* All threads release a context. Samplers created from it remain usable, in another thread and
 * after the last reference to the context itself is released. */
static void *keep(void *data)
{
    keeper *const k = data;
    cl_int code;
    cls_sampler_options o = sampler_options(40 + k->number, 1);
    if (cls_sampler_create(k->context, &o, &k->sampler) != CLS_OK ||
        cls_readback_create(k->context, 64, 2, &k->readback) != CLS_OK)
        abort();
    if (pthread_barrier_wait(k->made) == PTHREAD_BARRIER_SERIAL_THREAD)
        cls_context_destroy(k->context); /* the creator's reference */
    const keeper *const theirs = k->next;
    cl_command_queue const queue = clCreateCommandQueue(k->d->context, k->d->id, 0, &code);
    cl_mem const logits = clCreateBuffer(k->d->context, CL_MEM_READ_WRITE, 400, NULL, &code);
    cls_step step;
    cls_step_init(&step);
    cls_params p = default_params();
    step.rows = 1;
    step.logits.values.buffer = step.tokens.buffer = logits;
    step.tokens.offset = 396;
    if (cls_slot_begin(theirs->sampler, 0, &p, NULL) != CLS_OK ||
        cls_sample(theirs->sampler, queue, &step, 0, NULL, NULL) != CLS_OK)
        abort();
    /* The step is in flight, and no thread waits for it. */
    cls_readback_destroy(theirs->readback);
    cls_sampler_destroy(theirs->sampler);
    clReleaseMemObject(logits);
    clReleaseCommandQueue(queue);
    return NULL;
}

START_TEST(keepers)
{
    device *const d = fixture_device(_i);
    const uint32_t threads = threads_wanted ? threads_wanted : 8,
                   rounds = computes() ? 1 : fixture_by_size(5, 20, 50);
    static keeper k[MOST];
    for (uint32_t round = 0; round < rounds; round++) {
        pthread_barrier_t made;
        cls_context_options o = default_context_options();
        o.dtypes = 1u << CLS_F32;
        cls_context *context = new_context(d, &o);
        ck_assert_int_eq(pthread_barrier_init(&made, NULL, threads), 0);
        for (uint32_t i = 0; i < threads; i++)
            k[i] = (keeper){.d = d,
                            .context = context,
                            .number = i,
                            .made = &made,
                            .next = &k[(i + 1) % threads]};
        for (uint32_t i = 0; i < threads; i++)
            ck_assert_int_eq(pthread_create(&k[i].thread, NULL, keep, &k[i]), 0);
        for (uint32_t i = 0; i < threads; i++)
            ck_assert_int_eq(pthread_join(k[i].thread, NULL), 0);
        pthread_barrier_destroy(&made);
    }
}
END_TEST

/* ------------------------------------------------------------------- bystanders */

typedef struct bystander {
    pthread_t thread;
    cls_sampler *sampler;
    cls_context *context;
    atomic_int over;
} bystander;

/* What any thread may call at any time. The log that it got first stays as it is. */
static void *look_on(void *data)
{
    bystander *const b = data;
    cls_device_info info = {.struct_size = sizeof info};
    cls_params p = default_params();
    const char *const log = cls_context_build_log(b->context);
    const size_t length = strlen(log);
    p.infill = 1;
    p.top_p = 0.9f;
    while (!atomic_load(&b->over)) {
        cls_program_info program = {.struct_size = sizeof program};
        const cls_status status = cls_sampler_check(b->sampler, &p);
        if ((status != CLS_OK && status != CLS_BAD_ARGUMENT) ||
            cls_context_info(b->context, &info) != CLS_OK ||
            cls_context_program(b->context, 0, &program) != CLS_OK ||
            strlen(cls_context_build_log(b->context)) < length || strlen(log) != length)
            abort();
    }
    return NULL;
}

START_TEST(bystanders)
{
    static const int32_t end = 3;
    device *const d = fixture_device(_i);
    static bystander b;
    int32_t prefixes[64];
    cls_infill infill = {sizeof infill, {&end, 1}, prefixes};
    traffic t;
    for (int i = 0; i < 64; i++)
        prefixes[i] = -1;
    /* Slot calls compile, and add features to the sampler, meanwhile. */
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    cls_context *const context =
        computes() ? fixture_context(d, 1u << CLS_F32, 0, 0, 0) : new_context(d, &o);
    fixture_features(0);
    traffic_open(&t, d, context, 64, fixture_seed());
    b = (bystander){.sampler = t.sampler, .context = t.context};
    ck_assert_int_eq(pthread_create(&b.thread, NULL, look_on, &b), 0);
    for (uint32_t i = 0; i < fixture_by_size(50, 200, 500); i++) {
        traffic_step(&t);
        if (i % 20 == 0)
            must(cls_sampler_infill(t.sampler, &infill));
    }
    atomic_store(&b.over, 1);
    ck_assert_int_eq(pthread_join(b.thread, NULL), 0);
    traffic_close(&t);
    if (!computes())
        cls_context_destroy(context);
    fixture_random(CLS_FEATURES_ALL);
}
END_TEST

int main(int argc, char **argv)
{
    fixture_random(CLS_FEATURES_ALL);
#ifdef CLS_STUB
    cls_test_proofs_compare_nothing = 1;
#endif
    steps_wanted = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    threads_wanted = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (threads_wanted > MOST) {
        fprintf(stderr, "at most %d threads\n", MOST);
        return 99;
    }
    fixture_begin(ON_DEVICES);
    add_device_test(as_alone);
    if (computes())
        add_device_test(no_more_memory);
    add_device_test(keepers);
    add_device_test(bystanders);
    const int status = fixture_end();
#ifdef CLS_STUB
    for (int kind = 0; kind < STUB_KINDS; kind++) {
        printf("%ld %s are left\n", stub_alive((stub_kind)kind), stub_kind_names[kind]);
        if (stub_alive((stub_kind)kind) != 0)
            return EXIT_FAILURE;
    }
#endif
    return status;
}
