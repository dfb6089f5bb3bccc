/* SPDX-License-Identifier: MIT */
/* Opens and destroys samplers: their options, memory and kernels. */
#include "sampler/sampler.h"

#include <stdlib.h>

/* A buffer of fixed size in device memory. */
typedef struct fixed_buffer {
    const char *what; /* its purpose, for messages */
    cl_mem *buffer;
    uint64_t bytes;
} fixed_buffer;

enum { FIXED_BUFFERS = 14 + CLS_ARG_SETS };
/* Lists the buffers of fixed size: two for slots, then those for rows. */
static void list_fixed_buffers(cls_sampler *s, fixed_buffer all[FIXED_BUFFERS])
{
    const uint64_t rows = s->max_rows, tiles = s->tiles, max_tiles = tiles * CLS_MAX_TILES_PER_TILE,
                   raw_key = max_tiles > CLS_SPARSE_WORDS ? max_tiles : CLS_SPARSE_WORDS;
    const fixed_buffer table[FIXED_BUFFERS - CLS_ARG_SETS] = {
        {"slots", &s->slot_buffer, (uint64_t)s->slots * sizeof(cls_slot)},
        {"penalties and history", &s->state,
         (uint64_t)s->slots * state_words(s->vocab, s->layout) * sizeof(uint32_t)},
        {"row maps", &s->maps, rows * CLS_MAPS * sizeof(int32_t)},
        {"row records", &s->rows, rows * sizeof(cls_row)},
        {"effects of the history", &s->effects,
         rows * effects_words(s->vocab, s->layout) * sizeof(uint32_t)},
        {"tile maxima", &s->tile_key, rows * max_tiles * sizeof(int32_t)},
        {"tile masses", &s->tile_mass, rows * tiles * sizeof(uint64_t)},
        {"tile flags", &s->tile_flags, rows * tiles * sizeof(uint32_t)},
        {"masses above pivots", &s->pass, rows * tiles * CLS_PIVOTS * sizeof(uint64_t)},
        {"masses of the kept set", &s->tile_sums, rows * tiles * sizeof(uint64_t)},
        {"rows' samples", &s->row_scratch, rows * s->scratch_stride * sizeof(float)},
        {"raw tile maxima or sparse drafts", &s->raw_key, rows * raw_key * sizeof(int32_t)},
        {"raw tile masses", &s->raw_mass, rows * tiles * sizeof(uint64_t)},
        {"raw tile flags", &s->raw_flags, rows * tiles * sizeof(uint32_t)},
    };
    memcpy(all, table, sizeof table);
    for (int i = 0; i < CLS_ARG_SETS; i++)
        all[FIXED_BUFFERS - CLS_ARG_SETS + i] =
            (fixed_buffer){"kernels' arguments", &s->arg_buffers[i].buffer, sizeof(cls_args)};
}

static cls_status allocate_sampler(cls_sampler *s, cl_mem *buffer, uint64_t bytes, const char *what)
{
    cl_int code = CL_INVALID_BUFFER_SIZE;
    if (bytes <= SIZE_MAX)
        *buffer = clCreateBuffer(s->context->cl, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    return cls_opencl_status(code, "cannot allocate %llu bytes on the device for %s",
                             (unsigned long long)bytes, what);
}

/* Allocates device memory. The buffers of slot calls and lists begin small and grow later. */
static cls_status allocate_device(cls_sampler *s)
{
    fixed_buffer all[FIXED_BUFFERS];
    cls_device_buffer *const growing[] = {&s->lists, &s->changes, &s->words};
    cls_status status = CLS_OK;
    list_fixed_buffers(s, all);
    for (size_t i = 0; i < FIXED_BUFFERS && status == CLS_OK; i++)
        status = allocate_sampler(s, all[i].buffer, all[i].bytes, all[i].what);
    for (size_t i = 0; i < sizeof growing / sizeof growing[0] && status == CLS_OK; i++) {
        growing[i]->size = 4096;
        status = allocate_sampler(s, &growing[i]->buffer, growing[i]->size, "slot calls");
    }
    if (status == CLS_OK && s->host_mask_size != 0) {
        s->payload.size = (size_t)s->host_mask_size;
        status =
            allocate_sampler(s, &s->payload.buffer, s->payload.size, "options->host_mask_size");
    }
    return status;
}

/* Allocates host memory: what a step checks and, without a device, what it runs on; or else what
 * its uploads read. */
static cls_status allocate_host(cls_sampler *s)
{
    const int has_device = !s->context->shape.host;
    int missing = 0;
    s->request = calloc(s->slots, sizeof *s->request);
    s->slot_is_used = calloc(s->slots, 1);
    s->device_maps = calloc((size_t)CLS_MAPS * s->max_rows, sizeof *s->device_maps);
    s->expanded_maps = calloc((size_t)CLS_MAPS * s->max_rows, sizeof *s->expanded_maps);
    if (!has_device)
        s->host = cls_host_create(s->vocab, s->layout, s->slots, s->max_rows,
                                  s->context->shape.shortlist, s->context->options.host_threads);
    missing |= s->request == NULL || s->slot_is_used == NULL || s->device_maps == NULL ||
               s->expanded_maps == NULL || (!has_device && s->host == NULL);
    for (int i = 0; i < CLS_STAGING_COUNT && has_device; i++) {
        s->staging[i].maps = calloc((size_t)CLS_MAPS * s->max_rows, sizeof *s->staging[i].maps);
        s->staging[i].payload =
            (cls_host_buffer){s->host_mask_size != 0 ? malloc((size_t)s->host_mask_size) : NULL, 0,
                              (size_t)s->host_mask_size};
        missing |= s->staging[i].maps == NULL ||
                   (s->host_mask_size != 0 && s->staging[i].payload.data == NULL);
    }
    return missing ? cls_no_memory("a sampler of %u slots, %u rows and a host_mask_size of %llu",
                                   (unsigned)s->slots, (unsigned)s->max_rows,
                                   (unsigned long long)s->host_mask_size)
                   : cls_needs_create(&s->needs, s->context->shape.shortlist);
}

/* -------------------------------------------------------------------- creation */

/* Makes all slots free and empty. A map on the device may name any slot from the first step on, and
 * bitmaps in a slot's state show which counts are valid. */
static cls_status clear_slots(cls_sampler *s)
{
    const uint32_t zero = 0;
    cl_int code;
    const cl_command_queue queue =
        clCreateCommandQueue(s->context->cl, s->context->device, 0, &code);
    if (code == CL_SUCCESS) {
        code = clEnqueueFillBuffer(queue, s->slot_buffer, &zero, sizeof zero, 0,
                                   s->slots * sizeof(cls_slot), 0, NULL, NULL);
        if (code == CL_SUCCESS)
            code = clEnqueueFillBuffer(
                queue, s->state, &zero, sizeof zero, 0,
                (size_t)s->slots * state_words(s->vocab, s->layout) * sizeof zero, 0, NULL, NULL);
        if (code == CL_SUCCESS)
            code = clFinish(queue);
        clReleaseCommandQueue(queue);
    }
    return cls_opencl_status(code, "cannot clear the slots on the device");
}

static cls_status set_infill(cls_sampler *s, const cls_infill *callers)
{
    cls_infill infill;
    if (s == NULL)
        return cls_refuse("sampler is NULL");
    cls_status status = CLS_STRUCT_READ(&infill, callers, "infill");
    if (status == CLS_OK)
        status = cls_infill_check(&infill, s->vocab);
    if (status != CLS_OK)
        return status;
    const size_t n = (size_t)infill.end_ids.count + s->vocab;
    int32_t *const table = malloc(n * sizeof *table);
    cl_int code;
    if (table == NULL)
        return cls_no_memory("the infill tables");
    memcpy(table, infill.end_ids.ids, infill.end_ids.count * sizeof *table);
    memcpy(table + infill.end_ids.count, infill.prefix_of, s->vocab * sizeof *table);
    if (s->host != NULL) {
        free(s->host->infill);
        s->host->infill = table;
        s->host->row.infill.end_ids = (cls_ids){table, infill.end_ids.count};
        s->host->row.infill.prefix_of = table + infill.end_ids.count;
        atomic_store(&s->has_infill, 1);
        if (cls_record_is_on(s->record))
            cls_record_infill(s->record, &infill, s->vocab);
        return CLS_OK;
    }
    const cl_mem buffer = clCreateBuffer(s->context->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                         n * sizeof *table, table, &code);
    free(table);
    if (code != CL_SUCCESS)
        return cls_fail(CLS_OPENCL_ERROR, code,
                        "cannot allocate %zu bytes on the device for the infill tables",
                        n * sizeof *table);
    if (s->infill != NULL)
        clReleaseMemObject(s->infill); /* OpenCL keeps it for steps in flight */
    s->infill = buffer;
    s->infill_end_count = infill.end_ids.count;
    atomic_store(&s->has_infill, 1);
    if (cls_record_is_on(s->record))
        cls_record_infill(s->record, &infill, s->vocab);
    return CLS_OK;
}

cls_status cls_sampler_infill(cls_sampler *s, const cls_infill *callers)
{
    return CLS_GUARDED_CALL(s, set_infill(s, callers));
}

static cls_status check_sampler_options(const cls_sampler_options *o)
{
    if (o->vocab < 1 || o->vocab > CLS_MAX_VOCAB)
        return cls_refuse("options->vocab is %u; it must be 1 to %d", (unsigned)o->vocab,
                          CLS_MAX_VOCAB);
    if (o->max_rows < 1 || o->max_rows > 65535)
        return cls_refuse("options->max_rows is %u; it must be 1 to 65535", (unsigned)o->max_rows);
    if (o->slot_count > 1u << 24)
        return cls_refuse("options->slot_count is %u; it must be at most %u",
                          (unsigned)o->slot_count, 1u << 24);
    if (o->counts < CLS_COUNTS_NONE || o->counts > CLS_COUNTS_ALL)
        return cls_refuse("options->counts is %d, which is not a cls_counts", (int)o->counts);
    if (o->max_history > CLS_MAX_HISTORY &&
        (o->max_history > CLS_MAX_TEXT || o->max_history % CLS_HISTORY_UNIT != 0))
        return cls_refuse(
            "options->max_history is %u; it must be at most %d, or a multiple of %d up to %d",
            (unsigned)o->max_history, CLS_MAX_HISTORY, CLS_HISTORY_UNIT, CLS_MAX_TEXT);
    if (o->max_rollback > CLS_MAX_HISTORY)
        return cls_refuse("options->max_rollback is %u; it must be at most %d",
                          (unsigned)o->max_rollback, CLS_MAX_HISTORY);
    if (o->host_mask_size > SIZE_MAX / 2)
        return cls_refuse("options->host_mask_size is %llu; it exceeds the memory of any host",
                          (unsigned long long)o->host_mask_size);
    cls_status status = cls_switch_check("options->late_compile", o->late_compile);
    if (status == CLS_OK)
        status = cls_switch_check("options->record_arrays", o->record_arrays);
    return status == CLS_OK ? cls_features_check("options->", o->dtypes, o->features) : status;
}

cls_status cls_sampler_open(cls_context *context, const cls_sampler_options *callers,
                            cls_sampler **out)
{
    cls_sampler_options o;
    if (out == NULL)
        return cls_refuse("out is NULL");
    *out = NULL;
    if (context == NULL)
        return cls_refuse("context is NULL");
    cls_status status = CLS_STRUCT_READ(&o, callers, "options");
    if (status != CLS_OK)
        return status;
    status = check_sampler_options(&o);
    if (status != CLS_OK)
        return status;
    cls_sampler *const s = calloc(1, sizeof *s);
    if (s == NULL)
        return cls_no_memory("a sampler");
    cls_context_retain(context);
    s->context = context;
    atomic_flag_clear(&s->in_use);
    s->host_mask_size = o.host_mask_size;
    s->vocab = o.vocab;
    s->max_rows = o.max_rows;
    s->slots = o.slot_count != 0 ? o.slot_count : o.max_rows;
    s->counts = (uint32_t)o.counts;
    s->history = o.max_history;
    s->rollback = o.max_rollback;
    s->dtypes = o.dtypes != 0 ? o.dtypes : cls_context_dtypes(context);
    s->features = (o.features != 0 ? o.features : CLS_FEATURE_SHORTLIST) | cls_test_features;
    s->features &= cls_features_built();
    s->late_compile = o.late_compile;
    /* At least one entry, since the latest token decides whether a request has ended. */
    s->layout = CLS_LAYOUT(s->counts, o.max_history != 0 ? o.max_history : 1, o.max_rollback);
    s->tiles = (o.vocab + CLS_TILE - 1) / CLS_TILE;
    s->scratch_stride = 2 * sample_size(o.vocab);
    if (s->scratch_stride <
        s->tiles * CLS_MAX_TILES_PER_TILE) /* the maxima of max tiles need a float each */
        s->scratch_stride = s->tiles * CLS_MAX_TILES_PER_TILE;
    status = allocate_host(s);
    if (status == CLS_OK && s->host == NULL)
        status = allocate_device(s);
    if (status == CLS_OK && s->host == NULL)
        status = clear_slots(s);
    if (status != CLS_OK) {
        cls_sampler_destroy(s);
        return status;
    }
    *out = s;
    return CLS_OK;
}

/* Begins the text of a sampler's calls. The tokens and statuses that the caller does not ask for
 * are written to memory of the sampler. */
static cls_status create_record(cls_sampler *s, const cls_sampler_options *callers)
{
    cls_sampler_options o;
    cls_status status = CLS_STRUCT_READ(&o, callers, "options");
    const uint64_t rows = s->max_rows, bytes = 2 * rows * sizeof(int32_t);
    if (status != CLS_OK || o.record == NULL)
        return status;
    /* Float32 logits and biases, masks of bytes, and what else a line has. */
    status = cls_record_create(&o, rows * (s->vocab * UINT64_C(9) + 256) + 16384, &s->record);
    if (status == CLS_OK && s->host != NULL) {
        s->recorded_on_host = malloc((size_t)bytes);
        return s->recorded_on_host != NULL ? CLS_OK : cls_no_memory("options->record");
    }
    return status == CLS_OK ? allocate_sampler(s, &s->recorded, bytes, "options->record") : status;
}

cls_status cls_sampler_create(cls_context *context, const cls_sampler_options *options,
                              cls_sampler **out)
{
    cls_status status = cls_sampler_open(context, options, out);
    if (status != CLS_OK)
        return status;
    status = cls_sampler_add_features(*out, (*out)->features);
    if (status == CLS_OK)
        status = create_record(*out, options);
    if (status != CLS_OK) {
        if ((*out)->record != NULL)
            cls_record_cut((*out)->record, "the sampler could not be created", CL_SUCCESS);
        cls_sampler_destroy(*out);
        *out = NULL;
    }
    return status;
}

void cls_sampler_destroy(cls_sampler *s)
{
    fixed_buffer all[FIXED_BUFFERS];
    if (s == NULL)
        return;
    cl_mem *const others[] = {&s->lists.buffer,   &s->changes.buffer, &s->words.buffer,
                              &s->payload.buffer, &s->lists_to_copy,  &s->infill,
                              &s->recorded};
    /* Uploads read the staging memory until they have ended. */
    cls_sampler_flush(s, NULL);
    for (int i = 0; i < CLS_STAGING_COUNT; i++) {
        if (!cls_upload_wait(&s->staging[i].done))
            continue;
        free(s->staging[i].maps);
        free(s->staging[i].changes.data);
        free(s->staging[i].words.data);
        free(s->staging[i].payload.data);
        free(s->staging[i].rows.data);
    }
    cls_record_destroy(s->record);
    free(s->recorded_on_host);
    if (s->last_event != NULL)
        clReleaseEvent(s->last_event);
    if (s->last_queue != NULL)
        clReleaseCommandQueue(s->last_queue);
    list_fixed_buffers(s, all);
    for (size_t i = 0; i < FIXED_BUFFERS; i++)
        if (*all[i].buffer != NULL)
            clReleaseMemObject(*all[i].buffer);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (*others[i] != NULL)
            clReleaseMemObject(*others[i]);
    for (int i = 0; i < CLS_DTYPES * CLS_VARIANTS; i++) {
        const struct cls_compiled_kernel *const k = &s->kernels[i / CLS_VARIANTS][i % CLS_VARIANTS];
        if (k->handle != NULL)
            clReleaseKernel(k->handle);
        free(k->known);
    }
    cls_context_destroy(s->context);
    cls_requests_free(s);
    cls_host_destroy(s->host);
    free(s->slot_is_used);
    free(s->device_maps);
    free(s->expanded_maps);
    free(s);
}

cls_status cls_sampler_memory(const cls_sampler *s, cls_memory *callers)
{
    cls_memory m;
    fixed_buffer all[FIXED_BUFFERS];
    if (s == NULL)
        return cls_refuse("sampler is NULL");
    const cls_status status = CLS_STRUCT_READ_OUTPUT(&m, callers, "memory");
    if (status != CLS_OK)
        return status;
    cls_memory_init(&m);
    if (s->host != NULL) {
        m.host = sizeof *s + s->slots * (sizeof *s->request + 1) +
                 2 * (uint64_t)CLS_MAPS * s->max_rows * sizeof(int32_t) + s->needs.arrays +
                 (s->needs.shortlist + 1) * sizeof *s->needs.listed +
                 cls_host_size(s->host, s->max_rows) + cls_record_size(s->record) +
                 (s->recorded_on_host != NULL ? 2 * sizeof(int32_t) * s->max_rows : 0);
        CLS_STRUCT_WRITE(&m, callers);
        return CLS_OK;
    }
    list_fixed_buffers((cls_sampler *)(uintptr_t)s, all);
    for (size_t i = 2; i < FIXED_BUFFERS; i++)
        m.rows += all[i].bytes;
    m.rows += s->recorded != NULL ? 2 * sizeof(int32_t) * s->max_rows : 0;
    m.parameters = all[0].bytes;
    m.penalties = (uint64_t)s->slots * state_ring(s->vocab, s->layout) * sizeof(uint32_t);
    m.history = all[1].bytes - m.penalties;
    m.lists =
        (s->infill != NULL ? ((uint64_t)s->infill_end_count + s->vocab) * sizeof(int32_t) : 0) +
        s->lists.size + (s->lists_to_copy != NULL ? s->lists_to_copy_size : 0);
    for (const cls_lists *l = s->grammars; l != NULL; l = l->next_grammar)
        m.lists += l->upload != NULL ? l->words * sizeof(uint32_t) : 0;
    m.changes = s->changes.size + s->words.size + s->payload.size;
    m.device = m.parameters + m.penalties + m.history + m.lists + m.changes + m.rows;
    m.host = sizeof *s + s->slots * (sizeof *s->request + 1) +
             (uint64_t)(CLS_STAGING_COUNT + 2) * CLS_MAPS * s->max_rows * sizeof(int32_t) +
             s->pending_changes.size + s->pending_words.size + s->needs.arrays +
             cls_record_size(s->record) + (s->needs.shortlist + 1) * sizeof *s->needs.listed;
    for (int i = 0; i < CLS_DTYPES * CLS_VARIANTS; i++)
        if (s->kernels[i / CLS_VARIANTS][i % CLS_VARIANTS].known != NULL)
            m.host += sizeof(cls_known);
    for (int i = 0; i < CLS_STAGING_COUNT; i++)
        m.host += s->staging[i].changes.size + s->staging[i].words.size +
                  s->staging[i].payload.size + s->staging[i].rows.size;
    for (const cls_lists *l = s->first_lists; l != NULL; l = l->next)
        m.host += sizeof *l;
    CLS_STRUCT_WRITE(&m, callers);
    return CLS_OK;
}
