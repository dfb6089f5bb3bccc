/* SPDX-License-Identifier: MIT */
/* Runs independent work of the host on all its processors. Making hundreds of rows, and sampling
 * them by the reference, takes longer than the steps that are measured. */
#include "bench/rows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MOST_THREADS 64

typedef struct work {
    uint32_t n;
    int (*run)(void *of, uint32_t i);
    void *of;
    atomic_uint next; /* the first item that no thread has taken */
    atomic_int failed;
} work;

static void *take_items(void *argument)
{
    work *const w = argument;
    uint32_t i;
    while ((i = atomic_fetch_add(&w->next, 1)) < w->n && !atomic_load(&w->failed))
        if (w->run(w->of, i))
            atomic_store(&w->failed, 1);
    return NULL;
}

int bench_each(uint32_t n, int (*run)(void *of, uint32_t i), void *of)
{
    pthread_t threads[MOST_THREADS];
    work w = {.n = n, .run = run, .of = of};
#if defined(_WIN32)
    const long processors = pthread_num_processors_np(); /* of mingw's threads */
#else
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    uint32_t wanted = processors < 1              ? 1
                      : processors > MOST_THREADS ? MOST_THREADS
                                                  : (uint32_t)processors,
             started = 0;
    if (wanted > n)
        wanted = n;
    atomic_init(&w.next, 0);
    atomic_init(&w.failed, 0);
    /* This thread works, too, so a system that gives no thread only makes it slower. */
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, take_items, &w) == 0)
        started++;
    take_items(&w);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return atomic_load(&w.failed);
}
