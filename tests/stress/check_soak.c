/* SPDX-License-Identifier: MIT */
/* Proves steps with random everything against the reference, one by one, and that no memory is
 * lost: after each part everything is closed and the heap is as large as before.
 *
 *     check_soak [steps]       in parts of up to 10,000 */
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "soak.h"

enum {
    PART = 10000,
    PARTS = 6,
    WARM = 3
}; /* a part's most steps; the fewest parts; those after which memory no longer grows */

/* What OpenCL, and malloc() itself, keep, however many steps there are; what
 * Check notes of a part. */
#define HEAP_ALLOWED(part) ((128u << 10) + 512u * (part))
#define RESIDENT_ALLOWED (8u << 20)

static uint32_t steps_wanted;

static uint32_t steps(void) { return steps_wanted ? steps_wanted : fixture_by_size(60, 300, 1800); }

static uint32_t parts(void)
{
    const uint32_t n = (steps() + PART - 1) / PART;
    return n > PARTS ? n : PARTS;
}

static void no_growth(const char *what, uint32_t part, uint64_t before, uint64_t (*measure)(void),
                      uint64_t allowed)
{
    const uint64_t now = memory_settled(measure, before + allowed);
    ck_assert_msg(now <= before + allowed,
                  "part %u: the process's %s has grown from %llu to %llu KiB", part, what,
                  (unsigned long long)(before >> 10), (unsigned long long)(now >> 10));
}

/* A test each, so that a failure names its part. */
START_TEST(soaking)
{
    static const uint32_t vocabs[] = {300, 96, 700, 40, 1100, 200};
    static soak s;
    static soak_counts sum;
    static uint64_t heap, resident;
    const uint32_t n = parts(), part = (uint32_t)_i % n;
    device *const d = fixture_device(_i / (int)n);
    if (part == 0)
        sum = (soak_counts){0};
    soak_open(&s, d, fixture_context(d, 1u << CLS_F32, 0, 0, 128), 1, vocabs[part % 6],
              fixture_seed() + part);
    for (uint32_t i = 1; i <= (steps() + n - 1) / n; i++) {
        soak_step(&s);
        if (i % 2500 == 0)
            soak_move_all(&s);
    }
    soak_close(&s);
    soak_add(&sum, &s.n);
    if (part <= WARM) {
        heap = memory_heap();
        resident = memory_resident();
    }
    no_growth("heap", part, heap, memory_heap, HEAP_ALLOWED(part));
    no_growth("resident memory", part, resident, memory_resident, RESIDENT_ALLOWED);
    printf("part %u of %u, vocab %u: heap %llu KiB, resident %llu KiB, %016llx\n", part + 1, n,
           s.o.vocab, (unsigned long long)(memory_heap() >> 10),
           (unsigned long long)(memory_resident() >> 10), (unsigned long long)s.hash);
    if (part == n - 1)
        soak_print(&sum, d->name);
}
END_TEST

int main(int argc, char **argv)
{
    fixture_random(CLS_FEATURES_ALL);
    steps_wanted = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    fixture_begin(ON_DEVICES);
    add_loop_test(soaking, fixture_devices() * (int)parts());
    return fixture_end();
}
