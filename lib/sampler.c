/* SPDX-License-Identifier: MIT */
/* A sampler: the memory that steps need, and the requests' slots. */
#include "internal.h"

#include <stdlib.h>

void cls_sampler_options_default(cls_sampler_options *options, size_t struct_size)
{
    cls_struct_init(options, struct_size);
    if (struct_size >= offsetof(cls_sampler_options, max_rows) + sizeof options->max_rows)
        options->max_rows = 1;
}

/* The device memory of a sampler: where it goes, and its bytes a row. */
typedef struct allotment {
    cl_mem *buffer;
    uint64_t bytes;
    const char *what;
} allotment;

static cls_status allocate_device(cls_sampler *s)
{
    const uint64_t rows = s->max_rows, tiles = s->tiles, max_tiles = tiles * CLS_MAX_TILES_PER_TILE;
    const allotment all[] = {
        { &s->slot_buffer, (uint64_t)s->slots * sizeof(cls_slot), "slots" },
        { &s->maps, rows * CLS_MAPS * sizeof(int32_t), "row maps" },
        { &s->rows, rows * sizeof(cls_row), "row records" },
        { &s->tile_key, rows * max_tiles * sizeof(int32_t), "tile maxima" },
        { &s->tile_mass, rows * tiles * sizeof(uint64_t), "tile masses" },
        { &s->tile_flags, rows * tiles * sizeof(uint32_t), "tile flags" },
        { &s->pass, rows * tiles * CLS_PIVOTS * sizeof(uint64_t), "masses above pivots" },
        { &s->work, rows * tiles * sizeof(uint64_t), "masses of the kept set" },
        { &s->sample, rows * s->sample_stride * sizeof(float), "rows' samples" },
        { &s->raw_key, rows * max_tiles * sizeof(int32_t), "raw tile maxima" },
        { &s->raw_mass, rows * tiles * sizeof(uint64_t), "raw tile masses" },
        { &s->raw_flags, rows * tiles * sizeof(uint32_t), "raw tile flags" },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        cl_int code = CL_INVALID_BUFFER_SIZE;
        if (all[i].bytes <= SIZE_MAX)
            *all[i].buffer = clCreateBuffer(s->context->cl, CL_MEM_READ_WRITE, (size_t)all[i].bytes, NULL, &code);
        if (code != CL_SUCCESS)
            return cls_fail(CLS_OPENCL_ERROR, code, "cannot allocate %llu bytes on the device for %s",
                            (unsigned long long)all[i].bytes, all[i].what);
    }
    return CLS_OK;
}

static cls_status allocate_host(cls_sampler *s)
{
    int missing = 0;
    s->slot = calloc(s->slots, sizeof *s->slot);
    s->dirty = calloc(s->slots, 1);
    s->seen = calloc(s->slots, 1);
    s->sent = calloc((size_t)CLS_MAPS * s->max_rows, sizeof *s->sent);
    missing |= s->slot == NULL || s->dirty == NULL || s->seen == NULL || s->sent == NULL;
    for (int i = 0; i < CLS_STAGING; i++) {
        s->staging[i].slots = calloc(s->slots, sizeof *s->staging[i].slots);
        s->staging[i].maps = calloc((size_t)CLS_MAPS * s->max_rows, sizeof *s->staging[i].maps);
        missing |= s->staging[i].slots == NULL || s->staging[i].maps == NULL;
    }
    return missing ? cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a sampler of %u slots and %u rows",
                              (unsigned)s->slots, (unsigned)s->max_rows)
                   : CLS_OK;
}

/* Each sampler has its own kernels: two threads must not set one's arguments. */
static cls_status create_kernels(cls_sampler *s)
{
    for (int d = 0; d < CLS_DTYPES; d++) {
        for (int k = 0; k < CLS_SELF_TEST && s->context->program[d][0] != NULL; k++) {
            cl_int code;
            s->kernel[d][k] = clCreateKernel(s->context->program[d][cls_kernel_part((enum cls_kernel)k)],
                                             cls_kernel_names[k], &code);
            if (code != CL_SUCCESS)
                return cls_fail(CLS_OPENCL_ERROR, code, "cannot create kernel %s", cls_kernel_names[k]);
        }
    }
    return CLS_OK;
}

/* A device map may name any slot from the first step on: all start free. */
static cls_status clear_slots(cls_sampler *s)
{
    cl_int code;
    const cl_command_queue queue = clCreateCommandQueue(s->context->cl, s->context->device, 0, &code);
    if (code == CL_SUCCESS) {
        code = clEnqueueWriteBuffer(queue, s->slot_buffer, CL_TRUE, 0, s->slots * sizeof *s->slot, s->slot, 0, NULL, NULL);
        clReleaseCommandQueue(queue);
    }
    return code == CL_SUCCESS ? CLS_OK : cls_fail(CLS_OPENCL_ERROR, code, "cannot clear the slots on the device");
}

cls_status cls_sampler_create(cls_context *context, const cls_sampler_options *callers, cls_sampler **out)
{
    cls_sampler_options o;
    cls_sampler_options_default(&o, sizeof o);
    if (out == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "out is NULL");
    *out = NULL;
    if (context == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "context is NULL");
    cls_status status = cls_struct_read(&o, sizeof o, callers, "options");
    if (status != CLS_OK)
        return status;
    if (o.vocab < 1 || o.vocab > CLS_MAX_VOCAB)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->vocab is %u; it must be 1 to %d", (unsigned)o.vocab,
                        CLS_MAX_VOCAB);
    if (o.max_rows < 1 || o.max_rows > 65535)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->max_rows is %u; it must be 1 to 65535", (unsigned)o.max_rows);
    if (o.slots > 1u << 24)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "options->slots is %u; it must be at most %u", (unsigned)o.slots, 1u << 24);
    cls_sampler *const s = calloc(1, sizeof *s);
    if (s == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a sampler");
    cls_context_retain(context);
    s->context = context;
    s->vocab = o.vocab;
    s->max_rows = o.max_rows;
    s->slots = o.slots != 0 ? o.slots : o.max_rows;
    s->tiles = (o.vocab + CLS_TILE - 1) / CLS_TILE;
    s->sample_stride = 2 * sample_size(o.vocab);
    if (s->sample_stride < s->tiles * CLS_MAX_TILES_PER_TILE) /* champions need a float a max tile */
        s->sample_stride = s->tiles * CLS_MAX_TILES_PER_TILE;
    status = allocate_host(s);
    if (status == CLS_OK)
        status = allocate_device(s);
    if (status == CLS_OK)
        status = create_kernels(s);
    if (status == CLS_OK)
        status = clear_slots(s);
    if (status != CLS_OK) {
        cls_sampler_destroy(s);
        return status;
    }
    *out = s;
    return CLS_OK;
}

void cls_sampler_destroy(cls_sampler *s)
{
    if (s == NULL)
        return;
    cl_mem *const buffers[] = { &s->slot_buffer, &s->maps, &s->rows, &s->tile_key, &s->tile_mass, &s->tile_flags, &s->pass,
                                &s->work, &s->sample, &s->raw_key, &s->raw_mass, &s->raw_flags };
    /* Uploads read the staging memory until they are done. */
    for (int i = 0; i < CLS_STAGING; i++) {
        if (s->staging[i].done != NULL) {
            clWaitForEvents(1, &s->staging[i].done);
            clReleaseEvent(s->staging[i].done);
        }
        free(s->staging[i].slots);
        free(s->staging[i].maps);
    }
    if (s->last != NULL)
        clReleaseEvent(s->last);
    if (s->last_queue != NULL)
        clReleaseCommandQueue(s->last_queue);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (*buffers[i] != NULL)
            clReleaseMemObject(*buffers[i]);
    for (int d = 0; d < CLS_DTYPES; d++)
        for (int k = 0; k < CLS_KERNELS; k++)
            if (s->kernel[d][k] != NULL)
                clReleaseKernel(s->kernel[d][k]);
    cls_context_destroy(s->context);
    free(s->slot);
    free(s->dirty);
    free(s->seen);
    free(s->sent);
    free(s);
}

/* --------------------------------------------------------------------- slots */

static cls_status check_slot(const cls_sampler *s, uint32_t slot)
{
    if (s == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    if (slot >= s->slots)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "slot is %u, but there are %u", (unsigned)slot, (unsigned)s->slots);
    return CLS_OK;
}

static cls_status set_slot(cls_sampler *s, uint32_t slot, const cls_params *params, uint8_t dirty)
{
    cls_slot next;
    const cls_status status = cls_slot_from_params(params, s->vocab, &next);
    if (status != CLS_OK)
        return status;
    if (!(next.flags & (CLS_SLOT_GREEDY | CLS_SLOT_PLAIN)) && next.top_k > 0 && (uint32_t)next.top_k < s->vocab &&
        (uint32_t)next.top_k > s->context->shape.shortlist)
        next.flags |= CLS_SLOT_SEARCH;
    s->slot[slot] = next;
    s->dirty[slot] |= dirty;
    s->any_dirty = 1;
    return CLS_OK;
}

cls_status cls_slot_begin(cls_sampler *s, uint32_t slot, const cls_params *params)
{
    const cls_status status = check_slot(s, slot);
    return status == CLS_OK ? set_slot(s, slot, params, CLS_DIRTY_BEGUN) : status;
}

cls_status cls_slot_params(cls_sampler *s, uint32_t slot, const cls_params *params)
{
    const cls_status status = check_slot(s, slot);
    if (status != CLS_OK)
        return status;
    if (!(s->slot[slot].flags & CLS_SLOT_BEGUN))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "slot %u has no request: call cls_slot_begin() first", (unsigned)slot);
    const uint32_t position = s->slot[slot].position; /* of a begin that no step has seen yet */
    const cls_status set = set_slot(s, slot, params, CLS_DIRTY_PARAMS);
    if (set == CLS_OK)
        s->slot[slot].position = position;
    return set;
}

cls_status cls_slot_reset(cls_sampler *s, uint32_t slot)
{
    const cls_status status = check_slot(s, slot);
    if (status != CLS_OK)
        return status;
    memset(&s->slot[slot], 0, sizeof s->slot[slot]);
    s->dirty[slot] = CLS_DIRTY_BEGUN;
    s->any_dirty = 1;
    return CLS_OK;
}
