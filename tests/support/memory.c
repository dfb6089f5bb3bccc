/* SPDX-License-Identifier: MIT */
#include "memory.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
#include <malloc.h>
#define HAVE_MALLINFO2 1
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEEPS_FREED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KEEPS_FREED 1
#endif
#endif

uint64_t memory_heap(void)
{
#if defined(HAVE_MALLINFO2) && !defined(KEEPS_FREED)
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

uint64_t memory_resident(void)
{
#if !defined(KEEPS_FREED) && !defined(_WIN32)
    unsigned long long size, pages = 0;
    FILE *const f = fopen("/proc/self/statm", "r");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%llu %llu", &size, &pages) != 2)
        pages = 0;
    fclose(f);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
#else
    return 0;
#endif
}

uint64_t memory_settled(uint64_t (*measure)(void), uint64_t most)
{
    uint64_t now = measure();
    for (int i = 0; i < 1000 && now > most; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        now = measure();
    }
    return now;
}
