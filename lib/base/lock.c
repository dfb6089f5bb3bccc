/* SPDX-License-Identifier: MIT */
/* A lock that may be held for the seconds that a compiler takes, and these seconds.
 * C11's threads.h is missing on macOS and in older C libraries, its timespec_get()
 * in those of Windows. */
#include "base/base.h"

#include <stdlib.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
struct cls_lock {
    SRWLOCK lock;
};
static int lock_init(cls_lock *l)
{
    InitializeSRWLock(&l->lock);
    return 0;
}
static void lock_end(cls_lock *l) { (void)l; }
void cls_lock_take(cls_lock *l) { AcquireSRWLockExclusive(&l->lock); }
void cls_lock_give(cls_lock *l) { ReleaseSRWLockExclusive(&l->lock); }
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
static void lock_end(cls_lock *l) { pthread_mutex_destroy(&l->lock); }
void cls_lock_take(cls_lock *l) { pthread_mutex_lock(&l->lock); }
void cls_lock_give(cls_lock *l) { pthread_mutex_unlock(&l->lock); }
double cls_now(void)
{
    struct timespec t;
    return timespec_get(&t, TIME_UTC) == TIME_UTC ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
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
    lock_end(l);
    free(l);
}
