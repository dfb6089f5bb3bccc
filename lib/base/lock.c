/* SPDX-License-Identifier: MIT */
/* A mutex, which may be held for the seconds that compiling takes, and a clock to measure these
 * seconds. They use POSIX and Windows calls, since C11's threads.h is missing on macOS and in older
 * C libraries, and its clock is that of the day, which may be set in between. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200112L /* C11 alone does not declare clock_gettime() */
#endif
#include "base/base.h"

#include <stdlib.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOGDI
#include <windows.h>
struct cls_lock {
    SRWLOCK lock;
};
static int lock_init(cls_lock *l)
{
    InitializeSRWLock(&l->lock);
    return 0;
}
static void lock_uninit(cls_lock *l) { (void)l; }
void cls_lock_acquire(cls_lock *l) { AcquireSRWLockExclusive(&l->lock); }
void cls_lock_release(cls_lock *l) { ReleaseSRWLockExclusive(&l->lock); }
double cls_now(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    return (double)ticks.QuadPart / (double)per_second.QuadPart;
}
#else
#include <pthread.h>
#include <time.h>
struct cls_lock {
    pthread_mutex_t lock;
};
static int lock_init(cls_lock *l) { return pthread_mutex_init(&l->lock, NULL); }
static void lock_uninit(cls_lock *l) { pthread_mutex_destroy(&l->lock); }
void cls_lock_acquire(cls_lock *l) { pthread_mutex_lock(&l->lock); }
void cls_lock_release(cls_lock *l) { pthread_mutex_unlock(&l->lock); }
double cls_now(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec
                                                   : 0;
}
#endif

cls_lock *cls_lock_create(void)
{
    cls_lock *const l = malloc(sizeof *l);
    if (l != NULL && lock_init(l) != 0) {
        free(l);
        return NULL;
    }
    return l;
}

void cls_lock_destroy(cls_lock *l)
{
    if (l == NULL)
        return;
    lock_uninit(l);
    free(l);
}
