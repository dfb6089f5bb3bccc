/* SPDX-License-Identifier: MIT */
#include "pointers.h"

#include <stdlib.h>
#include <string.h>

/* OpenCL's headers declare these for programs of version 2.0. */
extern __attribute__((weak)) void *CL_API_CALL clSVMAlloc(cl_context, cl_bitfield, size_t, cl_uint);
extern __attribute__((weak)) void CL_API_CALL clSVMFree(cl_context, void *);

/* Intel's clSharedMemAllocINTEL() and clMemBlockingFreeINTEL(). */
typedef void *(CL_API_CALL *shared_alloc)(cl_context, cl_device_id, const cl_bitfield *, size_t,
                                          cl_uint, cl_int *);
typedef cl_int(CL_API_CALL *blocking_free)(cl_context, void *);

static void *find(device *d, const char *name)
{
    cl_platform_id platform;
    must_cl(clGetDeviceInfo(d->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL));
    void *const found = clGetExtensionFunctionAddressForPlatform(platform, name);
    ck_assert_msg(found != NULL, "%s has no %s", d->name, name);
    return found;
}

static void *allocate(const pointers *p, size_t size)
{
    shared_alloc alloc;
    cl_int code = CL_SUCCESS;
    void *at;
    if (p->kind == CLS_BUFFER_SVM) {
        at = clSVMAlloc(p->d->context, CL_MEM_READ_WRITE, size, 0);
    } else {
        at = find(p->d, "clSharedMemAllocINTEL");
        memcpy(&alloc, &at, sizeof alloc);
        at = alloc(p->d->context, p->d->id, NULL, size, 0, &code);
    }
    must_cl(code);
    ck_assert_ptr_nonnull(at);
    return at;
}

int pointers_open(pointers *p, device *d, int32_t kind)
{
    memset(p, 0, sizeof *p);
    p->d = d;
    p->kind = kind;
    return cls_pointer_calls_find(d->id, "a buffer", kind, &p->calls) == CLS_OK;
}

void pointers_close(pointers *p)
{
    must_cl(clFinish(p->d->queue));
    for (uint32_t i = 0; i < p->n; i++) {
        must_cl(clReleaseMemObject(p->copy[i].of));
        if (p->kind == CLS_BUFFER_SVM) {
            clSVMFree(p->d->context, p->copy[i].at);
        } else {
            blocking_free release;
            void *const found = find(p->d, "clMemBlockingFreeINTEL");
            memcpy(&release, &found, sizeof release);
            must_cl(release(p->d->context, p->copy[i].at));
        }
    }
}

/* Returns the number of a buffer's copy, or p->n. */
static uint32_t copy_of(const pointers *p, cl_mem of)
{
    uint32_t i = 0;
    while (i < p->n && p->copy[i].of != of)
        i++;
    return i;
}

cls_buffer pointers_to(pointers *p, cls_buffer of)
{
    if (of.buffer == NULL)
        return of;
    const uint32_t i = copy_of(p, of.buffer);
    if (i == p->n) {
        size_t size;
        ck_assert_uint_lt(p->n, POINTERS_MOST);
        must_cl(clGetMemObjectInfo(of.buffer, CL_MEM_SIZE, sizeof size, &size, NULL));
        void *const host = must_malloc(size);
        buffer_read(p->d, of.buffer, size, host);
        must_cl(clRetainMemObject(of.buffer)); /* another one must not get its handle */
        p->copy[i].of = of.buffer;
        p->copy[i].size = size;
        p->copy[i].at = allocate(p, size);
        p->n++;
        must_cl(p->calls.copy(p->d->queue, CL_TRUE, p->copy[i].at, host, size, 0, NULL, NULL));
        free(host);
    }
    return (cls_buffer){.pointer = p->copy[i].at,
                        .offset = of.offset,
                        .size = of.size != 0 ? of.size : p->copy[i].size - of.offset,
                        .kind = p->kind};
}

void pointers_read(const pointers *p, cl_mem of, size_t size, void *out)
{
    const uint32_t i = copy_of(p, of);
    ck_assert(i < p->n && size <= p->copy[i].size);
    must_cl(p->calls.copy(p->d->queue, CL_TRUE, out, p->copy[i].at, size, 0, NULL, NULL));
}
