/* SPDX-License-Identifier: MIT */
/* Proves that under thousands of steps of load every request gives the tokens that it gives
 * alone, and that no memory is lost between two pauses.
 *
 *     check_load [steps [streams]] */
#include <stdio.h>
#include <stdlib.h>

#include "load.h"
#include "memory.h"

#define RUSH 8 /* steps at the beginning, which ask for all the memory that slot calls may need */
#define PEAK 4096 /* bytes that small buffers may grow by */
/* What OpenCL, and malloc() itself, keep, whatever the number of steps. */
#define HEAP_ALLOWED (128u << 10) /* beyond what samplers tell */
#define RESIDENT_ALLOWED (4u << 20)

typedef struct memory {
    cls_memory served, alone;
    uint64_t heap, resident; /* the whole process's */
} memory;

static uint32_t steps_wanted, streams_wanted;

/* ---------------------------------------------------------------------- memory */

static memory measure(load *l)
{
    memory m = {.served.struct_size = sizeof m.served, .alone.struct_size = sizeof m.alone};
    load_lull(l);
    must(cls_sampler_memory(l->sampler, &m.served));
    must(cls_sampler_memory(l->alone, &m.alone));
    m.heap = memory_heap();
    m.resident = memory_resident();
    return m;
}

static void no_growth(const load *l, const char *whose, const char *what, uint64_t before,
                      uint64_t after, uint64_t allowed)
{
    printf("    %-10s %-8s %9.1f KiB -> %9.1f KiB\n", whose, what, (double)before / 1024,
           (double)after / 1024);
    ck_assert_msg(
        after <= before + allowed,
        "%s: %u streams, %u steps: memory of %s (%s) has grown by %llu bytes, %llu are allowed",
        l->d->name, l->slots, l->steps, whose, what, (unsigned long long)(after - before),
        (unsigned long long)allowed);
}

static void no_process_growth(const load *l, const char *what, uint64_t before,
                              uint64_t (*now)(void), uint64_t allowed)
{
    no_growth(l, "process", what, before, memory_settled(now, before + allowed), allowed);
}

/* Some step may see more slot calls and more lists than any before: memory for
 * them may double, and no more, however many steps there are. How many of its
 * stagings a sampler uses at once, each with what was ever uploaded in one
 * step, is a matter of the device's pace. */
static void no_sampler_growth(const load *l, const char *whose, const cls_memory *before,
                              const cls_memory *after)
{
    const uint64_t lists = before->lists + PEAK, changes = before->changes + PEAK;
    no_growth(l, whose, "lists", before->lists, after->lists, lists);
    no_growth(l, whose, "changes", before->changes, after->changes, changes);
    no_growth(l, whose, "rest", before->device - before->lists - before->changes,
              after->device - after->lists - after->changes, 0);
    no_growth(l, whose, "host", before->host, after->host, 16 * after->changes);
}

/* ------------------------------------------------------------------------ a run */

static void run(device *d, uint32_t streams, uint32_t steps)
{
    load l;
    memory before, after;
    load_open(&l, d, streams);
    while (l.steps < RUSH || l.steps < steps / 5) {
        l.rush = l.steps < RUSH;
        load_step(&l);
    }
    l.rush = 0;
    before = measure(&l);
    while (l.steps < steps) {
        load_step(&l);
        if (l.steps % 1000 == 0)
            printf("%u streams: %u of %u steps, %u requests\n", streams, l.steps, steps,
                   l.requests);
    }
    after = measure(&l);
    printf("%s: %u streams, %u steps: %u requests, %u of them forks; %llu rows, %llu tokens, %u "
           "stops; "
           "%u changes of parameters, %u times forced ids, %u chunks of prompt, %u rollbacks of %u "
           "tokens (%u rows of "
           "requests that they "
           "ended), %u moves, %u rows paused, %u times busy; %u requests run alone in %llu steps: "
           "the same\n",
           d->name, streams, l.steps, l.requests, l.forks, (unsigned long long)l.rows,
           (unsigned long long)l.tokens, l.stops, l.world.made[CHANGE_PARAMS],
           l.world.made[CHANGE_FORCE], l.world.made[CHANGE_APPEND], l.world.made[CHANGE_ROLLBACK],
           l.world.taken_back, l.ends, l.moves, l.paused, l.busy, l.replayed,
           (unsigned long long)l.alone_steps);
    no_sampler_growth(&l, "all slots", &before.served, &after.served);
    no_sampler_growth(&l, "one slot", &before.alone, &after.alone);
    no_process_growth(&l, "heap", before.heap, memory_heap,
                      after.served.host - before.served.host + after.alone.host -
                          before.alone.host + HEAP_ALLOWED);
    no_process_growth(&l, "resident", before.resident, memory_resident, RESIDENT_ALLOWED);
    ck_assert(steps < 200 || (l.forks && l.moves && l.stops && l.ends && l.world.taken_back));
    load_close(&l);
}

START_TEST(serving)
{
    device *const d = fixture_device(_i);
    const uint32_t steps = steps_wanted ? steps_wanted : fixture_by_size(40, 100, 300);
    if (streams_wanted != 0) {
        run(d, streams_wanted, steps);
        return;
    }
    run(d, fixture_by_size(5, 64, 64), steps);
    if (fixture_size() != TEST_TINY)
        run(d, 512, steps_wanted ? steps : steps / 5);
}
END_TEST

int main(int argc, char **argv)
{
    fixture_random(CLS_FEATURE_ACCEPT);
    steps_wanted = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    streams_wanted = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (streams_wanted > LOAD_STREAMS) {
        fprintf(stderr, "at most %d streams\n", LOAD_STREAMS);
        return 99;
    }
    fixture_begin(ON_DEVICES);
    add_device_test(serving);
    return fixture_end();
}
