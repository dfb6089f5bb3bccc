/* SPDX-License-Identifier: MIT */
/* Counts the bytes that a program moves between the host and an OpenCL device: preloaded, it stands
 * before each call that reads, writes, maps or copies, and knows which library made the call.
 *
 *     cc -shared -fPIC crossings.c -o crossings.so && LD_PRELOAD=./crossings.so PROGRAM
 *
 * The program looks for these two functions, and calls them around its steps:
 *
 *     void crossings_begin(void);
 *     void crossings_end(const char *title, unsigned steps);       prints what has crossed
 *
 * Images are not counted: clsample has none, and ggml-opencl makes them with Adreno's kernels only.
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FROM __builtin_return_address(0) /* in the library that called */

/* Calls of one kind, size and caller. */
struct crossing {
    const char *function; /* without "clEnqueue" */
    char library[32];
    size_t size;
    unsigned long calls;
};

static struct crossing seen[4096];
static unsigned kinds, counting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void count(const char *function, size_t size, void *from)
{
    Dl_info info;
    const char *path = dladdr(from, &info) != 0 ? info.dli_fname : "?";
    const char *const slash = strrchr(path, '/');
    char library[sizeof seen->library];
    snprintf(library, sizeof library, "%s", slash != NULL ? slash + 1 : path);
    pthread_mutex_lock(&lock);
    unsigned i = 0;
    while (i < kinds && (seen[i].function != function || seen[i].size != size ||
                         strcmp(seen[i].library, library) != 0))
        i++;
    if (i == sizeof seen / sizeof *seen) {
        fprintf(stderr, "crossings: more kinds of calls than the table has\n");
        exit(1);
    }
    if (i == kinds) {
        seen[kinds++] = (struct crossing){.function = function, .size = size};
        strcpy(seen[i].library, library);
    }
    seen[i].calls += counting;
    pthread_mutex_unlock(&lock);
}

void crossings_begin(void)
{
    pthread_mutex_lock(&lock);
    kinds = 0;
    counting = 1;
    pthread_mutex_unlock(&lock);
}

static int larger(const void *a, const void *b)
{
    const struct crossing *x = a, *y = b;
    const double left = (double)x->size * (double)x->calls,
                 right = (double)y->size * (double)y->calls;
    return (left < right) - (left > right);
}

void crossings_end(const char *title, unsigned steps)
{
    double bytes = 0;
    pthread_mutex_lock(&lock);
    counting = 0;
    qsort(seen, kinds, sizeof *seen, larger);
    printf("== what crosses: %s, %u steps\n", title, steps);
    printf("%-24s %-12s %12s %14s %14s\n", "by", "call", "bytes", "calls a step", "bytes a step");
    for (unsigned i = 0; i < kinds; i++) {
        const double calls = (double)seen[i].calls / steps;
        printf("%-24s %-12s %12zu %14.2f %14.0f\n", seen[i].library, seen[i].function, seen[i].size,
               calls, calls * (double)seen[i].size);
        bytes += calls * (double)seen[i].size;
    }
    printf("%-24s %-12s %12s %14s %14.0f\n", "in all", "", "", "", bytes);
    fflush(stdout);
    pthread_mutex_unlock(&lock);
}

cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset,
                           size_t size, void *to, cl_uint n, const cl_event *wait, cl_event *done)
{
    count("Read", size, FROM);
    return NEXT(clEnqueueReadBuffer)(q, m, blocking, offset, size, to, n, wait, done);
}

cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t offset,
                            size_t size, const void *from, cl_uint n, const cl_event *wait,
                            cl_event *done)
{
    count("Write", size, FROM);
    return NEXT(clEnqueueWriteBuffer)(q, m, blocking, offset, size, from, n, wait, done);
}

static size_t volume(const size_t *region) { return region[0] * region[1] * region[2]; }

cl_int clEnqueueReadBufferRect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *b,
                               const size_t *h, const size_t *region, size_t br, size_t bs,
                               size_t hr, size_t hs, void *to, cl_uint n, const cl_event *wait,
                               cl_event *done)
{
    count("ReadRect", volume(region), FROM);
    return NEXT(clEnqueueReadBufferRect)(q, m, blocking, b, h, region, br, bs, hr, hs, to, n, wait,
                                         done);
}

cl_int clEnqueueWriteBufferRect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *b,
                                const size_t *h, const size_t *region, size_t br, size_t bs,
                                size_t hr, size_t hs, const void *from, cl_uint n,
                                const cl_event *wait, cl_event *done)
{
    count("WriteRect", volume(region), FROM);
    return NEXT(clEnqueueWriteBufferRect)(q, m, blocking, b, h, region, br, bs, hr, hs, from, n,
                                          wait, done);
}

/* On the device, but counted: a copy of the logits would be one of these, too. */
cl_int clEnqueueCopyBuffer(cl_command_queue q, cl_mem from, cl_mem to, size_t a, size_t b,
                           size_t size, cl_uint n, const cl_event *wait, cl_event *done)
{
    count("Copy", size, FROM);
    return NEXT(clEnqueueCopyBuffer)(q, from, to, a, b, size, n, wait, done);
}

cl_int clEnqueueCopyBufferRect(cl_command_queue q, cl_mem from, cl_mem to, const size_t *a,
                               const size_t *b, const size_t *region, size_t ar, size_t as,
                               size_t br, size_t bs, cl_uint n, const cl_event *wait,
                               cl_event *done)
{
    count("CopyRect", volume(region), FROM);
    return NEXT(clEnqueueCopyBufferRect)(q, from, to, a, b, region, ar, as, br, bs, n, wait, done);
}

void *clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags flags,
                         size_t offset, size_t size, cl_uint n, const cl_event *wait,
                         cl_event *done, cl_int *code)
{
    count("Map", size, FROM);
    return NEXT(clEnqueueMapBuffer)(q, m, blocking, flags, offset, size, n, wait, done, code);
}

cl_int clEnqueueSVMMemcpy(cl_command_queue q, cl_bool blocking, void *to, const void *from,
                          size_t size, cl_uint n, const cl_event *wait, cl_event *done)
{
    count("SVMMemcpy", size, FROM);
    return NEXT(clEnqueueSVMMemcpy)(q, blocking, to, from, size, n, wait, done);
}

cl_int clEnqueueSVMMap(cl_command_queue q, cl_bool blocking, cl_map_flags flags, void *pointer,
                       size_t size, cl_uint n, const cl_event *wait, cl_event *done)
{
    count("SVMMap", size, FROM);
    return NEXT(clEnqueueSVMMap)(q, blocking, flags, pointer, size, n, wait, done);
}

/* A buffer that is made from the host's memory. */
cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    if (host != NULL)
        count("Create", size, FROM);
    return NEXT(clCreateBuffer)(context, flags, size, host, code);
}
