/* SPDX-License-Identifier: MIT */
/* Everything that can be said against a step before it is enqueued. */
#include "internal.h"

void cls_step_default(cls_step *step, size_t struct_size)
{
    cls_struct_init(step, struct_size);
    if (struct_size >= offsetof(cls_step, invalid_token) + sizeof step->invalid_token)
        step->invalid_token = -1;
}

static cls_status bad(const char *what, const char *why)
{
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->%s %s", what, why);
}

/* That [offset, offset + size) lies in a buffer of the context, aligned. */
static cls_status check_buffer(const cls_sampler *sampler, const char *what, cl_mem buffer, uint64_t offset, uint64_t size,
                               uint64_t element)
{
    size_t have = 0;
    cl_context context = NULL;
    cl_int code = clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof have, &have, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof context, &context, NULL);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_BAD_ARGUMENT, code, "step->%s is no buffer", what);
    if (context != sampler->context->cl)
        return bad(what, "belongs to another OpenCL context than the sampler");
    if (offset % element != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->%s: offset %llu is no multiple of the element's %llu bytes",
                        what, (unsigned long long)offset, (unsigned long long)element);
    if (offset > have || size > have - offset)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->%s: the buffer has %zu bytes, but the step needs %llu from offset %llu",
                        what, have, (unsigned long long)size, (unsigned long long)offset);
    return CLS_OK;
}

/* Bytes of `rows` rows of `width` elements, a stride apart; UINT64_MAX if that overflows. */
static uint64_t extent(uint64_t rows, uint64_t stride, uint64_t width, uint64_t element)
{
    if (stride > (UINT64_MAX / element - width) / rows)
        return UINT64_MAX;
    return ((rows - 1) * stride + width) * element;
}

static cls_status check_logits(const cls_sampler *sampler, cls_plan *plan)
{
    cls_logits *const l = &plan->step.logits;
    if (l->kind != CLS_LOGITS_BUFFER)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->logits.kind is %d, which is no cls_logits_kind", (int)l->kind);
    if (l->dtype < 0 || l->dtype >= CLS_DTYPES)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->logits.dtype is %d, which is no cls_dtype", (int)l->dtype);
    if (sampler->kernel[l->dtype][0] == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->logits.dtype is %d, for which the context was not compiled: see options->dtypes",
                        (int)l->dtype);
    if (l->buffer == NULL)
        return bad("logits.buffer", "is NULL");
    if (l->row_stride == 0)
        l->row_stride = sampler->vocab;
    if (l->row_stride < sampler->vocab)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->logits.row_stride is %llu, less than the vocabulary of %u",
                        (unsigned long long)l->row_stride, (unsigned)sampler->vocab);
    plan->logit_size = (uint32_t)cls_dtype_size(l->dtype);
    return check_buffer(sampler, "logits", l->buffer, l->offset,
                        extent(plan->step.rows, l->row_stride, sampler->vocab, plan->logit_size), plan->logit_size);
}

static cls_status check_mask(const cls_sampler *sampler, cls_plan *plan)
{
    cls_mask *const m = &plan->step.mask;
    if (m->words.buffer == NULL)
        return m->row_map.host != NULL || m->row_map.device.buffer != NULL
                   ? bad("mask.words.buffer", "is NULL, but there is a mask.row_map")
                   : CLS_OK;
    plan->has |= CLS_HAS_MASK;
    if (m->width == 0)
        m->width = (sampler->vocab + 31) / 32;
    if (m->rows == 0)
        m->rows = plan->step.rows;
    if (m->row_stride == 0)
        m->row_stride = m->width;
    if (m->row_stride < m->width)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->mask.row_stride is %llu, less than its width of %u words",
                        (unsigned long long)m->row_stride, (unsigned)m->width);
    if (m->row_map.host == NULL && m->row_map.device.buffer == NULL && m->rows < plan->step.rows)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->mask.rows is %u for %u rows, and there is no mask.row_map",
                        (unsigned)m->rows, (unsigned)plan->step.rows);
    return check_buffer(sampler, "mask.words", m->words.buffer, m->words.offset,
                        extent(m->rows, m->row_stride, m->width, sizeof(int32_t)), sizeof(int32_t));
}

static cls_status check_map(const cls_sampler *sampler, cls_plan *plan, enum cls_map which)
{
    static const char *const name[CLS_MAPS] = { "slots", "positions", "mask.row_map" };
    static const uint32_t has[CLS_MAPS] = { CLS_HAS_SLOT_MAP, CLS_HAS_POSITIONS, CLS_HAS_MASK_MAP };
    const cls_ints *const map = plan->map[which];
    if (map->host != NULL && map->device.buffer != NULL)
        return bad(name[which], "has a host array and a buffer; it can have one");
    if (map->host == NULL && map->device.buffer == NULL)
        return CLS_OK;
    plan->has |= has[which];
    if (map->device.buffer == NULL)
        return CLS_OK;
    return check_buffer(sampler, name[which], map->device.buffer, map->device.offset,
                        (uint64_t)plan->step.rows * sizeof(int32_t), sizeof(int32_t));
}

static cls_status check_output(const cls_sampler *sampler, const char *what, const cls_buffer *output, uint64_t size,
                               uint64_t element)
{
    return output->buffer == NULL ? CLS_OK : check_buffer(sampler, what, output->buffer, output->offset, size, element);
}

/* The slots that rows name, as far as the host can see them: begun, and none twice. */
static cls_status check_slots(cls_sampler *sampler, cls_plan *plan)
{
    const cls_step *const s = &plan->step;
    cls_status status = CLS_OK;
    uint32_t row = 0;
    for (uint32_t i = 0; s->slots.device.buffer != NULL && i < sampler->slots; i++)
        plan->search |= (sampler->slot[i].flags & CLS_SLOT_SEARCH) != 0;
    for (; s->slots.device.buffer == NULL && row < s->rows && status == CLS_OK; row++) {
        const int32_t slot = s->slots.host != NULL ? s->slots.host[row] : (int32_t)row;
        if (slot == -1)
            continue;
        if (slot < 0 || (uint32_t)slot >= sampler->slots)
            status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->slots: row %u names slot %d, but there are %u",
                              (unsigned)row, (int)slot, (unsigned)sampler->slots);
        else if (!(sampler->slot[slot].flags & CLS_SLOT_BEGUN))
            status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->slots: row %u names slot %d, which has no request: call cls_slot_begin() first",
                              (unsigned)row, (int)slot);
        else if (sampler->seen[slot] && !s->defer_accept)
            status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->slots: row %u names slot %d, as a row before it; without step->defer_accept a slot may occur once",
                              (unsigned)row, (int)slot);
        else {
            sampler->seen[slot] = 1;
            plan->search |= (sampler->slot[slot].flags & CLS_SLOT_SEARCH) != 0;
            plan->search |= sampler->force_search && !(sampler->slot[slot].flags & (CLS_SLOT_GREEDY | CLS_SLOT_PLAIN));
        }
    }
    while (row-- > 0) {
        const int32_t slot = s->slots.host != NULL ? s->slots.host[row] : (int32_t)row;
        if (slot >= 0 && (uint32_t)slot < sampler->slots)
            sampler->seen[slot] = 0;
    }
    return status;
}

static cls_status check_mask_rows(const cls_plan *plan)
{
    const int32_t *const map = plan->step.mask.row_map.host;
    for (uint32_t row = 0; map != NULL && row < plan->step.rows; row++)
        if (map[row] < -1 || (map[row] >= 0 && (uint32_t)map[row] >= plan->step.mask.rows))
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->mask.row_map: row %u names mask row %d, but there are %u",
                            (unsigned)row, (int)map[row], (unsigned)plan->step.mask.rows);
    return CLS_OK;
}

static cls_status check_queue(const cls_sampler *sampler, cl_command_queue queue, cls_plan *plan)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    if (queue == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "queue is NULL");
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_BAD_ARGUMENT, code, "queue is no command queue");
    if (context != sampler->context->cl || device != sampler->context->device)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "queue belongs to another OpenCL context or device than the sampler");
    plan->ordered = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    return CLS_OK;
}

cls_status cls_step_check(cls_sampler *sampler, cl_command_queue queue, const cls_step *callers, cl_uint n_wait,
                          const cl_event *wait, cls_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    cls_step *const s = &plan->step;
    cls_step_default(s, sizeof *s);
    if (sampler == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    cls_status status = cls_struct_read(s, sizeof *s, callers, "step");
    if (status != CLS_OK)
        return status;
    plan->map[CLS_MAP_SLOTS] = &s->slots;
    plan->map[CLS_MAP_POSITIONS] = &s->positions;
    plan->map[CLS_MAP_MASKS] = &s->mask.row_map;
    if ((n_wait == 0) != (wait == NULL))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "n_wait is %u, but wait is %s", (unsigned)n_wait,
                        wait == NULL ? "NULL" : "not NULL");
    for (cl_uint i = 0; i < n_wait; i++)
        if (wait[i] == NULL)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "wait[%u] is NULL", (unsigned)i);
    if (s->rows < 1 || s->rows > sampler->max_rows)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->rows is %u; the sampler was created for 1 to %u",
                        (unsigned)s->rows, (unsigned)sampler->max_rows);
    if (s->logprob_kind != CLS_LOGPROB_RAW && s->logprob_kind != CLS_LOGPROB_FINAL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->logprob_kind is %d, which is no cls_logprob_kind",
                        (int)s->logprob_kind);
    if (s->slots.host == NULL && s->slots.device.buffer == NULL && s->rows > sampler->slots)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "step->rows is %u, but there are %u slots and no step->slots",
                        (unsigned)s->rows, (unsigned)sampler->slots);
    const uint64_t rows = s->rows;
    status = check_queue(sampler, queue, plan);
    if (status == CLS_OK)
        status = check_logits(sampler, plan);
    if (status == CLS_OK)
        status = check_mask(sampler, plan);
    for (int i = 0; i < CLS_MAPS && status == CLS_OK; i++)
        status = check_map(sampler, plan, (enum cls_map)i);
    if (status == CLS_OK)
        status = check_output(sampler, "random", &s->random, rows * sizeof(uint64_t), sizeof(uint64_t));
    if (status == CLS_OK)
        status = check_output(sampler, "tokens", &s->tokens, rows * sizeof(int32_t), sizeof(int32_t));
    if (status == CLS_OK)
        status = check_output(sampler, "status", &s->status, rows * sizeof(int32_t), sizeof(int32_t));
    if (status == CLS_OK)
        status = check_output(sampler, "logprobs", &s->logprobs, rows * sizeof(float), sizeof(float));
    if (status == CLS_OK)
        status = check_output(sampler, "probs", &s->probs, rows * sampler->vocab * sizeof(float), sizeof(float));
    if (status == CLS_OK)
        status = check_mask_rows(plan);
    if (status == CLS_OK)
        status = check_slots(sampler, plan);
    plan->has |= s->random.buffer != NULL ? CLS_HAS_RANDOM : 0;
    plan->has |= s->tokens.buffer != NULL ? CLS_HAS_TOKENS : 0;
    plan->has |= s->status.buffer != NULL ? CLS_HAS_STATUS : 0;
    plan->has |= s->defer_accept ? CLS_DEFER : 0;
    if (sampler->force_search) {
        plan->has |= CLS_FORCE_SEARCH;
        plan->search |= s->slots.device.buffer != NULL;
    }
    return status;
}
