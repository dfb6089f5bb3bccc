/* SPDX-License-Identifier: MIT */
/* Proves that the host samples rows side by side in as many threads as host_threads says, with the
 * same results as in one; that rows which depend on each other have one thread, and so has a child
 * after fork(); and that a call goes on where no thread can be made. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "fixture.h"
#include "rows/kinds.h"

enum { ROWS = 9, VOCAB = 3000, KEPT = 64, GRANTED = 1000 };

/* ---------------------------------------------------------------------- threads */

static int begun, granted = GRANTED;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *const found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &found, sizeof real);
    if (begun == granted)
        return EAGAIN;
    begun++;
    return real(thread, attributes, run, argument);
}

/* -------------------------------------------------------------------- the calls */

/* All that a step writes. */
typedef struct written {
    int32_t tokens[ROWS], status[ROWS], set[ROWS * KEPT], counts[ROWS], offsets[ROWS + 1];
    float logprobs[ROWS];
} written;

typedef struct bench {
    cls_context *context;
    cls_sampler *sampler;
} bench;

static float logits[ROWS * VOCAB];

static cls_buffer memory(void *of, size_t size)
{
    return (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = of, .size = size};
}

static bench open_bench(uint32_t threads)
{
    bench b;
    cls_context_options o = default_context_options();
    cls_sampler_options s = sampler_options(VOCAB, ROWS);
    o.host_threads = threads;
    s.features |= CLS_FEATURE_KEPT_SETS;
    must(cls_context_create_host(&o, &b.context));
    must(cls_sampler_create(b.context, &s, &b.sampler));
    for (uint32_t i = 0; i < ROWS; i++) {
        cls_params p = default_params();
        params_set(&p, i % 3 == 0 ? "top_k=40" : i % 3 == 1 ? "temperature=0.7" : "top_p=0.8");
        p.seed = i;
        must(cls_slot_begin(b.sampler, i, &p, NULL));
    }
    return b;
}

static void close_bench(const bench *b)
{
    cls_sampler_destroy(b->sampler);
    cls_context_destroy(b->context);
}

/* Makes a step. map: NULL, or the slots of rows, whose tokens are not accepted. Returns how many
 * threads it has begun. */
static int step(const bench *b, written *w, int packs, int32_t *map)
{
    cls_step call = default_step(ROWS, NULL);
    cls_outputs outputs = {.struct_size = sizeof outputs};
    memset(w, 0, sizeof *w);
    call.logits.values = memory(logits, sizeof logits);
    call.tokens = memory(w->tokens, sizeof w->tokens);
    call.status = memory(w->status, sizeof w->status);
    call.outputs = &outputs;
    outputs.logprobs = memory(w->logprobs, sizeof w->logprobs);
    outputs.kept_set.ids = memory(w->set, sizeof w->set);
    outputs.kept_set.capacity = packs ? ROWS * KEPT : KEPT;
    if (packs)
        outputs.kept_set.offsets = memory(w->offsets, sizeof w->offsets);
    else
        outputs.kept_set.counts = memory(w->counts, sizeof w->counts);
    if (map != NULL) {
        call.slots.device = memory(map, ROWS * sizeof *map);
        call.defer_accept = 1;
    }
    begun = 0;
    must(cls_sample(b->sampler, NULL, &call, 0, NULL, NULL));
    return begun;
}

static void compare(uint32_t threads, int wanted, int packs, int32_t *map)
{
    written one, many;
    const bench alone = open_bench(1), other = open_bench(threads);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(step(&alone, &one, packs, map), 0);
        ck_assert_int_eq(step(&other, &many, packs, map), wanted);
        ck_assert_msg(memcmp(&one, &many, sizeof one) == 0, "%u threads: step %d is another",
                      (unsigned)threads, i);
    }
    close_bench(&alone);
    close_bench(&other);
}

static void fill(void)
{
    for (uint32_t i = 0; i < ROWS; i++)
        row_fill(ROW_NORMAL1, logits + (size_t)i * VOCAB, VOCAB, i);
    logits[3 * VOCAB + 5] = NAN; /* a status of its own */
}

/* As many threads as there are, but no more than rows. */
START_TEST(any_number)
{
    const uint32_t processors = cls_processors();
    fill();
    compare(1, 0, 0, NULL);
    compare(2, 1, 0, NULL);
    compare(5, 4, 0, NULL);
    compare(256, ROWS - 1, 0, NULL);
    compare(0, (int)(processors < ROWS ? processors : ROWS) - 1, 0, NULL);
    cls_context *context;
    cls_context_options o = default_context_options();
    o.host_threads = 257;
    must_refuse_exactly(cls_context_create_host(&o, &context),
                        "options->host_threads is 257; it must be at most 256");
}
END_TEST

START_TEST(dependent_rows)
{
    int32_t apart[ROWS] = {8, 7, 6, 5, 4, 3, 2, 1, 0}, shared[ROWS] = {0, 1, 2, 3, 1, 5, 6, 7, 8};
    fill();
    compare(3, 2, 0, apart);
    compare(3, 0, 0, shared);
    compare(3, 0, 1, NULL);
    compare(3, 2, 0, apart); /* no slot is marked any more */
}
END_TEST

START_TEST(no_threads)
{
    fill();
    granted = 0;
    compare(4, 0, 0, NULL);
    granted = 1;
    compare(4, 1, 0, NULL);
    granted = GRANTED;
}
END_TEST

START_TEST(after_fork)
{
    written one, many;
    int status = 0;
    fill();
    const bench alone = open_bench(1), other = open_bench(4);
    step(&alone, &one, 0, NULL);
    const pid_t child = fork();
    if (child == 0)
        _exit(step(&other, &many, 0, NULL) == 0 && memcmp(&one, &many, sizeof one) == 0 ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(step(&other, &many, 0, NULL), 3);
    close_bench(&alone);
    close_bench(&other);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(any_number);
    add_test(dependent_rows);
    add_test(no_threads);
    add_test(after_fork);
    return fixture_end();
}
