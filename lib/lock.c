/* SPDX-License-Identifier: MIT */
/* A lock that may be held for the seconds that a compiler takes. C11's threads.h is
 * missing on macOS and in older C libraries. */
#include "internal.h"

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
#else
#include <pthread.h>
struct cls_lock {
    pthread_mutex_t lock;
};
static int lock_init(cls_lock *l) { return pthread_mutex_init(&l->lock, NULL); }
static void lock_end(cls_lock *l) { pthread_mutex_destroy(&l->lock); }
void cls_lock_take(cls_lock *l) { pthread_mutex_lock(&l->lock); }
void cls_lock_give(cls_lock *l) { pthread_mutex_unlock(&l->lock); }
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
