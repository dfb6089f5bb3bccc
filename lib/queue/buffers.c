/* SPDX-License-Identifier: MIT */
/* The caller's buffers: whether they are what a call needs, and whether what it
 * writes overlaps what else it is given. */
#include "queue/queue.h"

#include <stdio.h>

uint64_t cls_extent(uint64_t rows, uint64_t stride, uint64_t width, uint64_t element)
{
    if (stride > (UINT64_MAX / element - width) / rows)
        return UINT64_MAX;
    return ((rows - 1) * stride + width) * element;
}

/* What OpenCL says of a memory object. */
typedef struct memory {
    size_t size, origin; /* origin: where a sub-buffer begins in its parent */
    cl_context context;
    cl_mem_object_type type;
    cl_mem_flags flags;
    cl_mem parent; /* NULL: it is no sub-buffer */
} memory;

static cl_int ask(cl_mem object, memory *m)
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

static void note_range(cls_ranges *ranges, const char *what, cl_mem root, uint64_t begin,
                       uint64_t size, int written)
{
    if (ranges == NULL || size == 0 || ranges->n == CLS_MOST_RANGES)
        return;
    struct cls_range *const r = &ranges->range[ranges->n++];
    r->root = root;
    r->begin = begin;
    r->end = begin + size;
    r->written = written;
    snprintf(r->what, sizeof r->what, "%s", what);
}

cls_status cls_buffer_check(const cls_context *c, const char *what, const cls_buffer *b,
                            uint64_t size, uint64_t element, enum cls_access access,
                            cls_ranges *ranges)
{
    static const struct {
        cl_mem_flags forbidden;
        const char *names, *what;
    } accesses[] = {
        [CLS_READS] = {CL_MEM_WRITE_ONLY, "CL_MEM_WRITE_ONLY", "a kernel reads it"},
        [CLS_WRITES] = {CL_MEM_READ_ONLY, "CL_MEM_READ_ONLY", "a kernel writes it"},
        [CLS_COPIES] = {CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS,
                        "CL_MEM_HOST_WRITE_ONLY or CL_MEM_HOST_NO_ACCESS", "the host reads it"},
    };
    memory m;
    if (b->buffer == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s.buffer is NULL", what);
    const cl_int code = ask(b->buffer, &m);
    if (code != CL_SUCCESS)
        return code == CL_INVALID_MEM_OBJECT
                   ? cls_fail(CLS_BAD_ARGUMENT, code, "%s is no buffer", what)
                   : cls_fail(CLS_OPENCL_ERROR, code, "cannot query %s", what);
    if (m.type != CL_MEM_OBJECT_BUFFER)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s is no buffer but an image or a pipe",
                        what);
    if (m.context != c->cl)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s belongs to another OpenCL context than the cls_context", what);
    if (m.flags & accesses[access].forbidden)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s was created with %s, and %s", what,
                        accesses[access].names, accesses[access].what);
    if (b->offset % element != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s: offset %llu is no multiple of the element's %llu bytes", what,
                        (unsigned long long)b->offset, (unsigned long long)element);
    if (b->offset > m.size || size > m.size - b->offset)
        return cls_fail(
            CLS_BAD_ARGUMENT, CL_SUCCESS,
            "%s needs %llu bytes from offset %llu on, %llu in all, and the buffer has %zu", what,
            (unsigned long long)size, (unsigned long long)b->offset,
            (unsigned long long)(size <= UINT64_MAX - b->offset ? size + b->offset : UINT64_MAX),
            m.size);
    note_range(ranges, what, m.parent != NULL ? m.parent : b->buffer, m.origin + b->offset, size,
               access == CLS_WRITES);
    return CLS_OK;
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
                                "one buffer; what is written may not",
                                b->what, (unsigned long long)b->begin,
                                (unsigned long long)(b->end - 1), a->what,
                                (unsigned long long)a->begin, (unsigned long long)(a->end - 1));
        }
    return CLS_OK;
}
