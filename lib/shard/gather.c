/* SPDX-License-Identifier: MIT */
/* The exchange of whole rows of logits: for steps that need more of a row than a partial has, and
 * for cls_shard_gather(). In a partial, each row has as many elements as the widest shard. */
#include "shard/shard.h"

/* Reads rows from a pointer, for which OpenCL has no command that reads a rectangle. Each row waits
 * for the one before it, so that the last one's event is that of all. */
static cl_int read_rows(cls_shard *h, size_t width, size_t row, size_t rows, cl_uint n_wait,
                        const cl_event *wait)
{
    const cls_logits *const l = &h->plan.step.logits;
    char *const to = (char *)h->partial.data + sizeof(cls_partial_header);
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; i < rows && code == CL_SUCCESS; i++) {
        cl_event end = NULL;
        code = cls_buffer_read(
            h->queue, &l->values, i * l->row_stride * h->plan.count[CLS_N_LOGIT_BYTES], width,
            to + i * row, h->plan.calls, i == 0 ? n_wait : 1, i == 0 ? wait : &h->ready, &end);
        if (code == CL_SUCCESS && h->ready != NULL)
            clReleaseEvent(h->ready);
        if (code == CL_SUCCESS)
            h->ready = end;
    }
    return code;
}

cls_status cls_gather_open(cls_shard *h, cl_uint n_wait, const cl_event *wait)
{
    const cls_logits *const l = &h->plan.step.logits;
    const size_t element = (size_t)h->plan.count[CLS_N_LOGIT_BYTES],
                 rows = h->plan.step.logits_rows;
    const size_t row = h->widest * element, header = sizeof(cls_partial_header);
    const size_t from[3] = {(size_t)l->values.offset, 0, 0}, to[3] = {header, 0, 0},
                 region[3] = {h->width * element, rows, 1};
    const cls_status status = cls_partial_reserve(h, rows * row);
    if (status != CLS_OK)
        return status;
    memset((char *)h->partial.data + header, 0, rows * row);
    h->sealed = 0;
    cl_int code = l->values.pointer != NULL
                      ? read_rows(h, region[0], row, rows, n_wait, wait)
                      : clEnqueueReadBufferRect(h->queue, l->values.buffer, CL_FALSE, from, to,
                                                region, (size_t)l->row_stride * element, 0, row, 0,
                                                h->partial.data, n_wait, wait, &h->ready);
    if (code == CL_SUCCESS)
        code = clFlush(h->queue);
    return cls_opencl_status(code, "cannot read the shard's logits");
}

cls_status cls_gather_merge(cls_shard *h, const void *partials)
{
    cls_sampler *const s = h->sampler;
    const size_t element = (size_t)h->plan.count[CLS_N_LOGIT_BYTES],
                 rows = h->plan.step.logits_rows;
    const size_t row = h->widest * element, whole = s->vocab * element;
    /* Earlier steps may still read the buffer, on this queue or another. */
    const cl_uint n = s->last_event != NULL;
    cl_int code = CL_SUCCESS;
    cls_sampler_flush(s, h->queue);
    cls_status status =
        cls_device_buffer_grow(s, &h->gathered, rows * whole, "logits of the whole vocabulary");
    for (uint32_t i = 0; i < h->shards && status == CLS_OK && code == CL_SUCCESS; i++) {
        const size_t from[3] = {sizeof(cls_partial_header), 0, 0},
                     to[3] = {h->borders[i] * element, 0, 0},
                     region[3] = {(h->borders[i + 1] - h->borders[i]) * element, rows, 1};
        code = clEnqueueWriteBufferRect(
            h->queue, h->gathered.buffer, CL_TRUE, to, from, region, whole, 0, row, 0,
            (const char *)partials + i * h->partial.used, n, n != 0 ? &s->last_event : NULL, NULL);
    }
    if (status == CLS_OK && code != CL_SUCCESS)
        status = cls_fail(CLS_OPENCL_ERROR, code, "cannot write the logits of the shards");
    const cls_logits whole_rows = {.values.buffer = h->gathered.buffer,
                                   .row_stride = s->vocab,
                                   .dtype = h->plan.step.logits.dtype,
                                   .softcap = h->plan.step.logits.softcap};
    if (status == CLS_OK)
        cls_plan_set_logits(&h->plan, s, &whole_rows);
    return status;
}
