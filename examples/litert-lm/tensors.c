/* SPDX-License-Identifier: MIT */
/* The tensors of LiteRT that a step reads and writes. */
#include "plugin.h"

#include <string.h>

/* Reads what a tensor is; its memory must be dense. Messages begin with the name. */
static int read_tensor(const struct sampler *s, void *handle, const char *name, struct tensor *t,
                       char **error)
{
    const struct LiteRtRuntimeCApiStruct *const runtime = s->runtime;
    litert_tensor_type type;
    int code;
    memset(t, 0, sizeof *t);
    t->handle = handle;
    if (handle == NULL)
        return fail(error, LITERT_INVALID_ARGUMENT, "there is no tensor of %s", name);
    if ((code = runtime_done(runtime->get_tensor_buffer_type(handle, &t->type), name, error)) !=
            LITERT_OK ||
        (code = runtime_done(runtime->get_tensor_buffer_tensor_type(handle, &type), name, error)) !=
            LITERT_OK)
        return code;
    const uint32_t rank = type.rank & 127;
    if (rank < 1 || rank > 8)
        return fail(error, LITERT_INVALID_ARGUMENT, "%s have %u dimensions", name, rank);
    t->element = type.element;
    t->last = type.dimensions[rank - 1];
    t->count = 1;
    for (uint32_t d = rank; d-- > 0;) {
        if (type.dimensions[d] < 1 || t->count > UINT32_MAX)
            return fail(error, LITERT_INVALID_ARGUMENT, "a dimension of %s is %d", name,
                        (int)type.dimensions[d]);
        if ((type.rank & 128) != 0 && type.dimensions[d] > 1 && type.strides[d] != t->count)
            return fail(error, LITERT_UNIMPLEMENTED, "%s are not dense", name);
        t->count *= (uint64_t)type.dimensions[d];
    }
    if (t->type < LITERT_CL_BUFFER || t->type > LITERT_CL_LAST)
        return LITERT_OK; /* the host reads and writes it */
    if (t->type != LITERT_CL_PACKED && t->type != LITERT_CL_BUFFER &&
        t->type != LITERT_CL_BUFFER_F16)
        return fail(error, LITERT_UNIMPLEMENTED, "%s are in an image", name);
    if (t->type != LITERT_CL_PACKED && t->count != (uint64_t)t->last)
        return fail(error, LITERT_UNIMPLEMENTED,
                    "%s of several rows are in memory of type %d, which is not dense", name,
                    t->type);
    if (t->type == LITERT_CL_BUFFER_F16)
        t->element = LITERT_FLOAT16;
    void *memory = NULL;
    if ((code = runtime_done(runtime->get_tensor_buffer_opencl_memory(handle, &memory), name,
                             error)) != LITERT_OK ||
        (code = runtime_done(runtime->get_tensor_buffer_offset(handle, &t->offset), name, error)) !=
            LITERT_OK)
        return code;
    t->memory = memory;
    return memory != NULL ? LITERT_OK : fail(error, LITERT_INTERNAL, "%s have no memory", name);
}

/* Waits for what writes a tensor on another queue, if anything does. */
static int wait_for(const struct sampler *s, const struct tensor *t, char **error)
{
    bool has_event = false;
    void *event;
    int status = s->runtime->has_tensor_buffer_event(t->handle, &has_event);
    if (status == 0 && has_event)
        status = s->runtime->get_tensor_buffer_event(t->handle, &event);
    if (status == 0 && has_event)
        status = s->runtime->wait_event(event, -1);
    return runtime_done(status, "the logits' event", error);
}

/* Copies a tensor on the host to s->staged, which then stands for it. */
static int stage(struct sampler *s, struct tensor *t, char **error)
{
    const size_t size = (size_t)t->count * (t->element == LITERT_FLOAT16 ? 2 : 4);
    void *bytes;
    cl_int failure = CL_SUCCESS;
    if (s->staged_size < size) {
        if (s->staged != NULL)
            CL(s, clReleaseMemObject)(s->staged);
        s->staged = CL(s, clCreateBuffer)(s->cl, CL_MEM_READ_WRITE, size, NULL, &failure);
        s->staged_size = s->staged != NULL ? size : 0;
    }
    int code = cl_done(failure, "memory for logits", error);
    if (code == LITERT_OK)
        code = runtime_done(s->runtime->lock_tensor_buffer(t->handle, &bytes, LITERT_LOCK_READ),
                            "lock", error);
    if (code != LITERT_OK)
        return code;
    code = cl_done(
        CL(s, clEnqueueWriteBuffer)(s->queue, s->staged, CL_TRUE, 0, size, bytes, 0, NULL, NULL),
        "upload", error);
    (void)s->runtime->unlock_tensor_buffer(t->handle);
    t->memory = s->staged;
    t->offset = 0;
    return code;
}

int put(struct sampler *s, const struct tensor *t, const void *values, char **error)
{
    const size_t size = s->rows * sizeof(int32_t);
    void *bytes;
    if (t->memory != NULL)
        return cl_done(CL(s, clEnqueueWriteBuffer)(s->queue, t->memory, CL_TRUE, t->offset, size,
                                                   values, 0, NULL, NULL),
                       "ids and scores", error);
    const int code = runtime_done(
        s->runtime->lock_tensor_buffer(t->handle, &bytes, LITERT_LOCK_WRITE), "lock", error);
    if (code != LITERT_OK)
        return code;
    memcpy(bytes, values, size);
    return runtime_done(s->runtime->unlock_tensor_buffer(t->handle), "unlock", error);
}

int read_output(const struct sampler *s, void *handle, const char *name, int32_t element,
                struct tensor *t, char **error)
{
    const int code = read_tensor(s, handle, name, t, error);
    if (code == LITERT_OK && (t->element != element || t->count != s->rows))
        return fail(error, LITERT_INVALID_ARGUMENT, "%s are %llu elements of type %d, not %u of %d",
                    name, (unsigned long long)t->count, (int)t->element, s->rows, (int)element);
    return code;
}

int read_logits(struct sampler *s, void *handle, struct tensor *t, char **error)
{
    int code = read_tensor(s, handle, "logits", t, error);
    if (code != LITERT_OK)
        return code;
    if (t->last != (int64_t)s->vocab || t->count != (uint64_t)s->rows * s->vocab)
        return fail(error, LITERT_INVALID_ARGUMENT, "logits are not %u rows of %u", s->rows,
                    s->vocab);
    if (t->element != LITERT_FLOAT32 && t->element != LITERT_FLOAT16)
        return fail(error, LITERT_UNIMPLEMENTED, "logits are of type %d, not float32 or float16",
                    (int)t->element);
    code = wait_for(s, t, error);
    return code == LITERT_OK && t->memory == NULL ? stage(s, t, error) : code;
}
