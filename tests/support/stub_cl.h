/* SPDX-License-Identifier: MIT */
/* An OpenCL implementation that computes nothing. It has one platform with one device and is linked
 * instead of a driver. It counts objects, and its commands copy bytes between buffers. It runs only
 * the two kernels whose results the library reads (stub_kernels.c). Each queue is a thread, so that
 * commands end some time after the call and ThreadSanitizer detects what is changed before. The
 * stub locks nothing that a driver need not lock, because a lock here would hide races in the
 * library. */
#ifndef TESTS_STUB_CL_H
#define TESTS_STUB_CL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <CL/cl.h>

#define STUB_ARGUMENTS 32
#define STUB_GROUPS 65535             /* of a launch in its second dimension, as on GPUs */
#define STUB_MEMORY ((size_t)1 << 30) /* larger buffers have no memory */

typedef enum stub_kind {
    STUB_CONTEXT,
    STUB_QUEUE,
    STUB_BUFFER,
    STUB_PROGRAM,
    STUB_KERNEL,
    STUB_EVENT,
    STUB_KINDS
} stub_kind;
extern const char *const stub_kind_names[STUB_KINDS];

/* Returns the number of live objects of a kind. */
long stub_alive(stub_kind kind);

typedef struct stub_object {
    stub_kind kind;
    atomic_int references;
} stub_object;

struct _cl_context {
    stub_object object;
};
struct _cl_mem {
    stub_object object;
    cl_context context;
    size_t size;
    _Atomic(unsigned char *) data; /* allocated at the first access */
};
struct _cl_program {
    stub_object object;
    cl_context context;
};

typedef union stub_value {
    cl_mem mem;
    const void *pointer;
    cl_uint u32;
    cl_ulong u64;
} stub_value;

/* A kernel that the stub runs. `buffers` has a bit for each argument that is a buffer. */
typedef struct stub_kernel {
    const char *name;
    uint64_t buffers;
    void (*run)(const stub_value *arguments, const size_t *global);
} stub_kernel;
struct _cl_kernel {
    stub_object object;
    cl_program program;
    char name[32];
    const stub_kernel *what; /* NULL: the kernel does nothing */
    stub_value argument[STUB_ARGUMENTS];
    uint64_t pointers;  /* arguments that were set as pointers, a bit each */
    size_t first, rows; /* of the latest launch: its offset and size in the second dimension */
};
/* How often properties of buffers were asked for, and arguments of kernels set. */
extern atomic_uint stub_memory_queries, stub_arguments_set;
/* If it is set, it is called for each launch, by one thread only. */
extern void (*stub_spy)(cl_kernel kernel);
const stub_kernel *stub_kernel_find(const char *name);

struct _cl_event {
    stub_object object;
    cl_context context;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    cl_int state;
};

typedef struct stub_command stub_command;
struct _cl_command_queue {
    stub_object object;
    cl_context context;
    cl_command_queue_properties properties;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    stub_command *first, **end;
    size_t commands, flushed; /* how many there are, and how many of them may run */
    int closing;
};
/* If it is set, commands run only when their queue is flushed, by clFlush() or a call on that queue
 * that waits, as the specification allows. Who waits for another command is told after seconds
 * that it has failed. */
extern atomic_int stub_lazy;

/* Reference counting. stub_release() returns 1 for the last reference; the caller then frees the
 * object. */
void *stub_new(stub_kind kind, size_t size);
cl_int stub_retain(stub_object *object, stub_kind kind, cl_int error);
int stub_release(stub_object *object);
void stub_free(stub_object *object);

cl_device_id stub_device(void);

/* What the device says of itself. Its type is a GPU's unless another one is set. */
typedef struct stub_device_texts {
    const char *version, *driver, *extensions, *platform;
    cl_device_type type;
    const char *platform_version; /* NULL: "OpenCL 1.2 stub" */
} stub_device_texts;
extern stub_device_texts stub_texts;

/* If it is set, it is called for each build and returns its code. */
extern cl_int (*stub_build)(const char *options);

/* What the device lacks: infinities and NaN, or (it is of the embedded profile) 64-bit integers. */
typedef enum stub_lack { STUB_LACKS_NOTHING, STUB_LACKS_INFINITIES, STUB_LACKS_INT64 } stub_lack;
extern stub_lack stub_lacks;

/* What the device says that it has of SVM and USM: 0, or bits. There are Intel's functions for USM,
 * but for the one that is missing; none for SVM. The one that sets a pointer returns a code. */
extern cl_bitfield stub_svm, stub_usm;
extern const char *stub_missing;
extern cl_int stub_set_code;

/* clEnqueueMemcpyINTEL(). */
cl_int CL_API_CALL stub_copy(cl_command_queue queue, cl_bool blocking, void *to, const void *from,
                             size_t size, cl_uint n, const cl_event *wait, cl_event *event);

/* Returns a buffer's memory, or NULL if the buffer is too large to have any. */
unsigned char *stub_memory(cl_mem buffer);

#endif
