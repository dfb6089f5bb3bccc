/* SPDX-License-Identifier: MIT */
/* Checks the caller's buffers: whether each one is large enough and may be accessed, and whether
 * bytes that a call writes overlap other bytes that it uses. */
#include "queue/queue.h"

/* Kernels take what begins at a pointer for what has the largest type, as they may for a cl_mem. */
#define POINTER_ALIGNMENT 16

static cl_int query(cl_mem object, cls_mem_info *m)
{
    cl_mem parent = NULL;
    memset(m, 0, sizeof *m);
    cl_int code = clGetMemObjectInfo(object, CL_MEM_SIZE, sizeof m->size, &m->size, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(object, CL_MEM_CONTEXT, sizeof m->context, &m->context, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(object, CL_MEM_TYPE, sizeof m->type, &m->type, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(object, CL_MEM_FLAGS, sizeof m->flags, &m->flags, NULL);
    if (code == CL_SUCCESS)
        code =
            clGetMemObjectInfo(object, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent, NULL);
    if (code == CL_SUCCESS && parent != NULL)
        code = clGetMemObjectInfo(object, CL_MEM_OFFSET, sizeof m->origin, &m->origin, NULL);
    m->object = object;
    m->root = parent != NULL ? parent : object;
    return code;
}

/* Finds what a call has already learnt of a buffer, or asks OpenCL. `own` has room for the answer
 * if the ranges do not remember it. */
static cl_int find(cl_mem object, cls_ranges *ranges, cls_mem_info *own, const cls_mem_info **out)
{
    *out = own;
    if (ranges == NULL)
        return query(object, own);
    for (uint32_t i = 0; i < ranges->infos; i++)
        if (ranges->info[i].object == object) {
            *out = &ranges->info[i];
            return CL_SUCCESS;
        }
    const int remembers = ranges->infos < CLS_MAX_RANGES;
    cls_mem_info *const m = remembers ? &ranges->info[ranges->infos] : own;
    const cl_int code = query(object, m);
    ranges->infos += remembers && code == CL_SUCCESS;
    *out = m;
    return code;
}

static void add_range(cls_ranges *ranges, const char *name, cl_mem root, uint64_t begin,
                      uint64_t size, int written)
{
    if (size != 0 && ranges->n < CLS_MAX_RANGES)
        ranges->range[ranges->n++] = (struct cls_range){root, begin, begin + size, written, name};
}

void cls_ranges_begin(cls_ranges *ranges)
{
    ranges->n = ranges->infos = 0;
    memset(ranges->calls, 0, sizeof ranges->calls);
}

cls_status cls_buffer_kind_check(const char *name, const cls_buffer *b)
{
    const int is_pointer = b->kind != CLS_BUFFER_MEM;
    if (b->kind < 0 || b->kind >= CLS_BUFFER_KINDS)
        return cls_refuse("%s.kind is %d, which is not a cls_buffer_kind", name, (int)b->kind);
    if (is_pointer ? b->buffer != NULL : b->pointer != NULL)
        return cls_refuse("%s.%s is set, but %s.kind is %d", name,
                          is_pointer ? "buffer" : "pointer", name, (int)b->kind);
    if (is_pointer && b->pointer == NULL)
        return cls_refuse("%s.pointer is NULL, but %s.kind is %d", name, name, (int)b->kind);
    return b->reserved == 0
               ? CLS_OK
               : cls_refuse("%s.reserved is %d; it is reserved for later versions and must be 0",
                            name, (int)b->reserved);
}

static cls_status check_buffer_size(const char *name, const cls_buffer *b, size_t all,
                                    uint64_t size, uint64_t element)
{
    if (b->offset % element != 0)
        return cls_refuse("%s: offset %llu is no multiple of the element's %llu bytes", name,
                          (unsigned long long)b->offset, (unsigned long long)element);
    if (b->size != 0 && size > b->size)
        return cls_refuse("%s needs %llu bytes, and its size is %llu", name,
                          (unsigned long long)size, (unsigned long long)b->size);
    if (b->offset > all || size > all - b->offset)
        return cls_refuse(
            "%s needs %llu bytes from offset %llu on, %llu in all, and the buffer has %zu", name,
            (unsigned long long)size, (unsigned long long)b->offset,
            (unsigned long long)(size <= UINT64_MAX - b->offset ? size + b->offset : UINT64_MAX),
            all);
    return b->size <= all - b->offset
               ? CLS_OK
               : cls_refuse("%s.size is %llu from offset %llu on, and the buffer has %zu", name,
                            (unsigned long long)b->size, (unsigned long long)b->offset, all);
}

static cls_status check_pointer(cl_device_id device, const char *name, const cls_buffer *b,
                                uint64_t element, cls_ranges *ranges)
{
    const uintptr_t address = (uintptr_t)b->pointer;
    const uint64_t unit = b->kind == CLS_BUFFER_HOST ? element : POINTER_ALIGNMENT;
    if (address % unit != 0)
        return cls_refuse("%s.pointer is no multiple of %llu bytes; %s.offset can be", name,
                          (unsigned long long)unit, name);
    if (b->size == 0)
        return cls_refuse("%s.size is 0, but nothing else says how large a pointer's memory is",
                          name);
    if (b->offset > UINTPTR_MAX - address || b->size > UINTPTR_MAX - address - b->offset)
        return cls_refuse("%s: %llu bytes from offset %llu on are beyond the last address", name,
                          (unsigned long long)b->size, (unsigned long long)b->offset);
    return b->kind == CLS_BUFFER_HOST
               ? CLS_OK
               : cls_pointer_calls_find(device, name, b->kind, &ranges->calls[b->kind]);
}

/* Fails if a buffer is the host's and the context a device's, or the other way round. */
static cls_status check_side(const char *name, const cls_buffer *b, int is_host)
{
    if (is_host == (b->kind == CLS_BUFFER_HOST))
        return CLS_OK;
    return is_host ? cls_refuse("%s.kind is %d, but the context has no device: its buffers are "
                                "pointers of the kind CLS_BUFFER_HOST",
                                name, (int)b->kind)
                   : cls_refuse("%s is memory of the host (CLS_BUFFER_HOST), which only a context "
                                "of cls_context_create_host() takes",
                                name);
}

cls_status cls_buffer_check(cl_context context, cl_device_id device, const char *name,
                            const cls_buffer *b, uint64_t size, uint64_t element,
                            enum cls_access access, cls_ranges *ranges)
{
    static const struct {
        cl_mem_flags forbidden;
        const char *flags, *use;
    } accesses[] = {
        [CLS_KERNEL_READS] = {CL_MEM_WRITE_ONLY, "CL_MEM_WRITE_ONLY", "a kernel reads it"},
        [CLS_KERNEL_WRITES] = {CL_MEM_READ_ONLY, "CL_MEM_READ_ONLY", "a kernel writes it"},
        [CLS_HOST_READS] = {CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS,
                            "CL_MEM_HOST_WRITE_ONLY or CL_MEM_HOST_NO_ACCESS", "the host reads it"},
    };
    cls_mem_info own;
    const cls_mem_info *m;
    cls_status status = cls_buffer_kind_check(name, b);
    if (status == CLS_OK && cls_buffer_is_set(b))
        status = check_side(name, b, context == NULL);
    if (status != CLS_OK)
        return status;
    if (b->pointer != NULL) {
        status = check_pointer(device, name, b, element, ranges);
        if (status == CLS_OK)
            status = check_buffer_size(name, b, (size_t)(b->offset + b->size), size, element);
        if (status == CLS_OK)
            add_range(ranges, name, NULL, (uintptr_t)b->pointer + b->offset, size,
                      access == CLS_KERNEL_WRITES);
        return status;
    }
    if (b->buffer == NULL)
        return cls_refuse("%s.buffer is NULL", name);
    const cl_int code = find(b->buffer, ranges, &own, &m);
    if (code != CL_SUCCESS)
        return code == CL_INVALID_MEM_OBJECT
                   ? cls_fail(CLS_BAD_ARGUMENT, code, "%s is not an OpenCL buffer", name)
                   : cls_fail(CLS_OPENCL_ERROR, code, "cannot query the buffer of %s", name);
    if (m->type != CL_MEM_OBJECT_BUFFER)
        return cls_refuse("%s is not a buffer but an image or a pipe", name);
    if (m->context != context)
        return cls_refuse("%s belongs to another OpenCL context than the cls_context", name);
    if (m->flags & accesses[access].forbidden)
        return cls_refuse("%s was created with %s, but %s", name, accesses[access].flags,
                          accesses[access].use);
    status = check_buffer_size(name, b, m->size, size, element);
    if (status == CLS_OK)
        add_range(ranges, name, m->root, m->origin + b->offset, size, access == CLS_KERNEL_WRITES);
    return status;
}

int cls_buffer_is_wide(const cls_buffer *b, cls_ranges *ranges)
{
    cls_mem_info own;
    const cls_mem_info *m;
    void *pointer = NULL;
    if (b->pointer != NULL)
        return ((uintptr_t)b->pointer + b->offset) % 16 == 0;
    if (b->buffer == NULL || find(b->buffer, ranges, &own, &m) != CL_SUCCESS ||
        clGetMemObjectInfo(m->root, CL_MEM_HOST_PTR, sizeof pointer, &pointer, NULL) != CL_SUCCESS)
        return 0;
    return ((uintptr_t)pointer + m->origin + b->offset) % 16 == 0;
}

cl_int cls_buffer_read(cl_command_queue queue, const cls_buffer *from, uint64_t at, size_t size,
                       void *to, const cls_pointer_calls calls[CLS_BUFFER_KINDS], cl_uint n_wait,
                       const cl_event *wait, cl_event *event)
{
    const size_t begin = (size_t)(from->offset + at);
    return from->pointer != NULL
               ? calls[from->kind].copy(queue, CL_FALSE, to, (const char *)from->pointer + begin,
                                        size, n_wait, wait, event)
               : clEnqueueReadBuffer(queue, from->buffer, CL_FALSE, begin, size, to, n_wait, wait,
                                     event);
}

cls_status cls_ranges_check(const cls_ranges *ranges)
{
    for (uint32_t i = 0; i < ranges->n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct cls_range *const a = &ranges->range[i], *const b = &ranges->range[k];
            if (a->root == b->root && (a->written || b->written) && a->begin < b->end &&
                b->begin < a->end)
                return cls_refuse("%s, bytes %llu to %llu, and %s, bytes %llu to %llu, overlap in "
                                  "one buffer; bytes that are written must not overlap others",
                                  b->name, (unsigned long long)b->begin,
                                  (unsigned long long)(b->end - 1), a->name,
                                  (unsigned long long)a->begin, (unsigned long long)(a->end - 1));
        }
    return CLS_OK;
}
