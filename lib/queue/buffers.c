/* SPDX-License-Identifier: MIT */
/* Checks the caller's buffers: whether each one is large enough and may be accessed, and whether
 * bytes that a call writes overlap other bytes that it uses. */
#include "queue/queue.h"

#include <stdio.h>

/* The properties of a memory object. */
typedef struct memory {
    size_t size, origin; /* origin: offset of a sub-buffer in its parent */
    cl_context context;
    cl_mem_object_type type;
    cl_mem_flags flags;
    cl_mem parent; /* NULL unless it is a sub-buffer */
} memory;

static cl_int query_memory(cl_mem object, memory *m)
{
    memset(m, 0, sizeof *m);
    cl_int code = clGetMemObjectInfo(object, CL_MEM_SIZE, sizeof m->size, &m->size, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(object, CL_MEM_CONTEXT, sizeof m->context, &m->context, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(object, CL_MEM_TYPE, sizeof m->type, &m->type, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(object, CL_MEM_FLAGS, sizeof m->flags, &m->flags, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(object, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof m->parent, &m->parent,
                                  NULL);
    if (code == CL_SUCCESS && m->parent != NULL)
        code = clGetMemObjectInfo(object, CL_MEM_OFFSET, sizeof m->origin, &m->origin, NULL);
    return code;
}

static void add_range(cls_ranges *ranges, const char *name, cl_mem root, uint64_t begin,
                      uint64_t size, int written)
{
    if (ranges == NULL || size == 0 || ranges->n == CLS_MAX_RANGES)
        return;
    struct cls_range *const r = &ranges->range[ranges->n++];
    r->root = root;
    r->begin = begin;
    r->end = begin + size;
    r->written = written;
    snprintf(r->name, sizeof r->name, "%s", name);
}

cls_status cls_buffer_check(const cls_context *c, const char *name, const cls_buffer *b,
                            uint64_t size, uint64_t element, enum cls_access access,
                            cls_ranges *ranges)
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
    memory m;
    if (b->buffer == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s.buffer is NULL", name);
    const cl_int code = query_memory(b->buffer, &m);
    if (code != CL_SUCCESS)
        return code == CL_INVALID_MEM_OBJECT
                   ? cls_fail(CLS_BAD_ARGUMENT, code, "%s is not an OpenCL buffer", name)
                   : cls_fail(CLS_OPENCL_ERROR, code, "cannot query the buffer of %s", name);
    if (m.type != CL_MEM_OBJECT_BUFFER)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s is not a buffer but an image or a pipe",
                        name);
    if (m.context != c->cl)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s belongs to another OpenCL context than the cls_context", name);
    if (m.flags & accesses[access].forbidden)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s was created with %s, but %s", name,
                        accesses[access].flags, accesses[access].use);
    if (b->offset % element != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s: offset %llu is no multiple of the element's %llu bytes", name,
                        (unsigned long long)b->offset, (unsigned long long)element);
    if (b->offset > m.size || size > m.size - b->offset)
        return cls_fail(
            CLS_BAD_ARGUMENT, CL_SUCCESS,
            "%s needs %llu bytes from offset %llu on, %llu in all, and the buffer has %zu", name,
            (unsigned long long)size, (unsigned long long)b->offset,
            (unsigned long long)(size <= UINT64_MAX - b->offset ? size + b->offset : UINT64_MAX),
            m.size);
    add_range(ranges, name, m.parent != NULL ? m.parent : b->buffer, m.origin + b->offset, size,
              access == CLS_KERNEL_WRITES);
    return CLS_OK;
}

int cls_buffer_is_wide(const cls_buffer *b)
{
    memory m;
    void *pointer = NULL;
    if (b->buffer == NULL || query_memory(b->buffer, &m) != CL_SUCCESS ||
        clGetMemObjectInfo(m.parent != NULL ? m.parent : b->buffer, CL_MEM_HOST_PTR, sizeof pointer,
                           &pointer, NULL) != CL_SUCCESS)
        return 0;
    return ((uintptr_t)pointer + m.origin + b->offset) % 16 == 0;
}

cls_status cls_ranges_check(const cls_ranges *ranges)
{
    for (uint32_t i = 0; i < ranges->n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct cls_range *const a = &ranges->range[i], *const b = &ranges->range[k];
            if (a->root == b->root && (a->written || b->written) && a->begin < b->end &&
                b->begin < a->end)
                return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                                "%s, bytes %llu to %llu, and %s, bytes %llu to %llu, overlap in "
                                "one buffer; bytes that are written must not overlap others",
                                b->name, (unsigned long long)b->begin,
                                (unsigned long long)(b->end - 1), a->name,
                                (unsigned long long)a->begin, (unsigned long long)(a->end - 1));
        }
    return CLS_OK;
}
