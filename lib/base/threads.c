/* SPDX-License-Identifier: MIT */
/* Threads that last as long as a call, as lock.c has its mutex: by POSIX and Windows. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200112L
#endif
#include "base/base.h"

#include <stdatomic.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOGDI
#include <windows.h>
typedef HANDLE thread_handle;
#define THREAD_FUNCTION(name, argument) static DWORD WINAPI name(void *argument)
#define THREAD_ENDS 0
static int thread_begin(thread_handle *t, DWORD(WINAPI *run)(void *), void *argument)
{
    return (*t = CreateThread(NULL, 0, run, argument, 0, NULL)) != NULL;
}
static void thread_join(thread_handle t)
{
    WaitForSingleObject(t, INFINITE);
    CloseHandle(t);
}
uint32_t cls_processors(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwNumberOfProcessors > 0 ? (uint32_t)info.dwNumberOfProcessors : 1;
}
int64_t cls_process(void) { return 0; } /* no process is a copy of another */
#else
#include <pthread.h>
#include <unistd.h>
typedef pthread_t thread_handle;
#define THREAD_FUNCTION(name, argument) static void *name(void *argument)
#define THREAD_ENDS NULL
static int thread_begin(thread_handle *t, void *(*run)(void *), void *argument)
{
    return pthread_create(t, NULL, run, argument) == 0;
}
static void thread_join(thread_handle t) { pthread_join(t, NULL); }
uint32_t cls_processors(void)
{
#ifdef _SC_NPROCESSORS_ONLN
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
#else
    return 1;
#endif
}
int64_t cls_process(void) { return (int64_t)getpid(); }
#endif

/* What threads share: the items that none has taken begin at `next`. */
typedef struct shared_work {
    void (*run)(void *of, uint32_t thread, uint32_t item);
    void *of;
    uint32_t items;
    atomic_uint next;
} shared_work;

typedef struct worker {
    shared_work *work;
    uint32_t number;
    thread_handle thread;
} worker;

THREAD_FUNCTION(work_on, argument)
{
    const worker *const me = argument;
    shared_work *const work = me->work;
    for (uint32_t i; (i = atomic_fetch_add(&work->next, 1)) < work->items;)
        work->run(work->of, me->number, i);
    return THREAD_ENDS;
}

void cls_threads_run(uint32_t threads, uint32_t items,
                     void (*run)(void *of, uint32_t thread, uint32_t item), void *of)
{
    worker workers[CLS_MAX_THREADS];
    shared_work work = {.run = run, .of = of, .items = items};
    const uint32_t wanted = threads < items ? threads : items;
    uint32_t begun = 1;
    atomic_init(&work.next, 0);
    workers[0] = (worker){.work = &work, .number = 0};
    while (begun < wanted) {
        workers[begun] = (worker){.work = &work, .number = begun};
        if (!thread_begin(&workers[begun].thread, work_on, &workers[begun]))
            break;
        begun++;
    }
    work_on(&workers[0]);
    while (begun-- > 1)
        thread_join(workers[begun].thread);
}
