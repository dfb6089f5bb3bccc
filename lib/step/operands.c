/* SPDX-License-Identifier: MIT */
/* Runs over the tables of operands: checks them, uploads what is on the host, and writes where they
 * are into the arguments of kernels. */
#include "step/step.h"

#include <stddef.h>
#include <stdlib.h>

/* ------------------------------------------------------------------- what a row is of */

static void *at(const cls_plan *plan, uint16_t offset) { return (char *)(uintptr_t)plan + offset; }

static cls_buffer *buffer_of(const cls_plan *plan, const cls_operand *o) { return at(plan, o->at); }

const cls_buffer *cls_operand_buffer(const cls_plan *plan, const cls_operand *o)
{
    return buffer_of(plan, o);
}

/* Returns an operand's data on the host, or NULL. */
static const void *host_of(const cls_plan *plan, const cls_operand *o)
{
    const void *host = NULL;
    if (o->host != 0)
        memcpy(&host, at(plan, o->host), sizeof host);
    return host;
}

int cls_buffer_is_blank(const cls_buffer *b)
{
    return !cls_buffer_is_set(b) && (b->kind | b->reserved) == 0;
}

/* Returns an operand's bytes, or UINT64_MAX if 64 bits do not hold the number. */
static uint64_t size_of(const cls_plan *plan, const cls_operand *o)
{
    const uint64_t rows = plan->count[o->rows], width = plan->count[o->width],
                   element = plan->count[o->element];
    return cls_extent(rows, o->stride != 0 ? *(const uint64_t *)at(plan, o->stride) : width, width,
                      element);
}

/* Returns 1 if an operand's data on the host are uploaded as they are, and not to the maps. */
static int is_data(const cls_plan *plan, const cls_operand *o)
{
    return o->map == CLS_MAPS || plan->count[o->width] > 1;
}

/* -------------------------------------------------------------------------- checks */

static cls_status check_number(cls_plan *plan, const cls_operand *o)
{
    const uint32_t n = *(const uint32_t *)at(plan, o->at);
    const uint64_t most = plan->count[o->most], list = plan->count[o->shortlist];
    plan->count[o->width] = n;
    if (o->shortlist != 0 && n > list && (o->most == o->shortlist || n <= most))
        return cls_refuse(
            "%s is %u, but the kernels' lists hold %u: see the context's options->shortlist",
            o->name, (unsigned)n, (unsigned)list);
    return n <= most ? CLS_OK
                     : cls_refuse("%s is %u; it must be at most %u", o->name, (unsigned)n,
                                  (unsigned)most);
}

/* Fails if a count is 0 but a buffer for it is set, or if it is not 0 but no buffer is: a list of
 * given ids needs the ids, and each list something that is written. */
static cls_status check_group(const cls_plan *plan, const cls_operand *number)
{
    const cls_operand *missing = NULL, *written = NULL;
    const uint64_t n = plan->count[number->width];
    for (uint32_t i = 0; i < plan->operands->n; i++) {
        const cls_operand *const o = &plan->operands->row[i];
        if (o->group != number->width)
            continue;
        const int set = cls_buffer_is_set(buffer_of(plan, o)),
                  reads = o->access == CLS_KERNEL_READS;
        if (set && n == 0)
            return cls_refuse("%s is set, but %s is 0", o->name, number->name);
        if (!set && reads && n != 0)
            return cls_refuse("%s is %u, but %s.buffer is NULL", number->name, (unsigned)n,
                              o->name);
        if (!reads && !set && missing == NULL)
            missing = o;
        if (!reads && set)
            written = o;
    }
    return n == 0 || written != NULL
               ? CLS_OK
               : cls_refuse("%s is %u, but no buffer for it is set (such as %s)", number->name,
                            (unsigned)n, missing->name);
}

static cls_status check_enum(const cls_plan *plan, const cls_operand *o)
{
    const int32_t value = *(const int32_t *)at(plan, o->at);
    return value >= 0 && value <= o->words
               ? CLS_OK
               : cls_refuse("%s is %d, which is not a %s", o->name, (int)value, o->word);
}

static cls_status check_words(const cls_plan *plan, const cls_operand *o)
{
    const uint32_t *const words = at(plan, o->at);
    uint32_t any = 0;
    for (uint8_t i = 0; i < o->words; i++)
        any |= words[i];
    return any == 0 ? CLS_OK : cls_reserved_check(o->name, any);
}

/* The least value of an element of a map on the host with such a limit: 0 for a number. Rows, slots
 * and the like may be -1, which is none. */
static int32_t least_of(enum cls_count limit)
{
    return limit == CLS_N_DRAWS || limit == CLS_N_ACCEPTED || limit == CLS_N_ROLLBACKS ? 0 : -1;
}

/* Checks a map on the host: rows, which may be -1, or numbers. Slots are checked by
 * cls_row_slots_check(), and tokens by the kernels. */
static cls_status check_entries(const cls_plan *plan, const cls_operand *o, const int32_t *map)
{
    const uint64_t limit = plan->count[o->limit];
    const int32_t least = least_of((enum cls_count)o->limit);
    for (uint32_t row = 0; o->limit != 0 && row < plan->count[o->rows]; row++)
        if (map[row] < least || (map[row] >= 0 && (uint32_t)map[row] >= limit))
            return least == 0
                       ? cls_refuse("%s: row %u has the value %d; it must be 0 to %u", o->name,
                                    (unsigned)row, (int)map[row], (unsigned)limit - 1)
                       : cls_refuse("%s: row %u uses row %d, but there are %u rows", o->name,
                                    (unsigned)row, (int)map[row], (unsigned)limit);
    return CLS_OK;
}

static cls_status check_stride(const cls_plan *plan, const cls_operand *o)
{
    uint64_t *const stride = at(plan, o->stride);
    const uint64_t width = plan->count[o->width];
    if (*stride == 0)
        *stride = width;
    return *stride >= width
               ? CLS_OK
               : cls_refuse("%s is %llu, which is less than the %llu elements of a row", o->word,
                            (unsigned long long)*stride, (unsigned long long)width);
}

/* Checks a buffer or a map that says anything. */
static cls_status check_memory(const cls_sampler *s, const cls_plan *plan, const cls_operand *o,
                               const void *host, cls_ranges *ranges)
{
    const cls_buffer *const b = buffer_of(plan, o);
    cls_status status = cls_buffer_kind_check(o->name, b);
    if (status != CLS_OK)
        return status;
    const int is_set = cls_buffer_is_set(b);
    if (!is_set && host == NULL)
        return cls_refuse(o->host != 0 ? "%s is NULL" : "%s.buffer is NULL", o->name);
    if (o->kind == CLS_NEVER)
        return cls_refuse("%s is set, but cls_verify() has no such output%s", o->name, o->word);
    if (is_set && o->kind == CLS_HOST_MAP)
        return cls_refuse("%s is a buffer, but cls_verify() requires a host array", o->name);
    if (is_set && host != NULL)
        return cls_refuse("%s has a host array and a buffer; only one may be set", o->name);
    if (plan->count[o->rows] == 0)
        return CLS_OK;
    if (o->stride != 0)
        status = check_stride(plan, o);
    if (status != CLS_OK)
        return status;
    const uint64_t size = size_of(plan, o);
    if (host != NULL && size >= SIZE_MAX)
        return cls_refuse("%s: its rows on the host exceed the memory of any host", o->name);
    return host != NULL
               ? check_entries(plan, o, host)
               : cls_buffer_check(s->context->cl, s->context->device, o->name, b, size,
                                  plan->count[o->element], (enum cls_access)o->access, ranges);
}

/* Checks a row of a table. Adds it to the present operands if it is one. */
static cls_status check_operand(const cls_sampler *s, cls_plan *plan, const cls_operand *o,
                                cls_ranges *ranges)
{
    const void *host;
    cls_status status;
    switch ((enum cls_operand_kind)o->kind) {
    case CLS_NUMBER:
        return check_number(plan, o);
    case CLS_WORDS:
        return check_words(plan, o);
    case CLS_ENUM:
        return check_enum(plan, o);
    case CLS_SWITCH:
        return cls_switch_check(o->name, *(const int32_t *)at(plan, o->at));
    case CLS_INTERNAL:
        status = CLS_OK;
        break;
    default:
        host = host_of(plan, o);
        if (host == NULL && cls_buffer_is_blank(buffer_of(plan, o)) && o->kind != CLS_REQUIRED)
            return CLS_OK;
        status = check_memory(s, plan, o, host, ranges);
    }
    if (status != CLS_OK || plan->count[o->rows] == 0 || o->kind == CLS_HOST_MAP)
        return status;
    plan->present[plan->n_present++] = (uint8_t)(o - plan->operands->row);
    plan->has |= o->has;
    plan->wants |= o->wants;
    plan->needs |= o->feature;
    return CLS_OK;
}

/* Fails if the sampler was not compiled for `needs`, or for none of the features of an operand. */
static cls_status check_features(const cls_sampler *s, cls_plan *plan, uint32_t needs)
{
    char names[CLS_FEATURE_NAMES];
    /* Nothing is compiled for the host, but a part of the library may be left out. */
    const uint32_t has = s->host != NULL ? cls_features_built() : s->features;
    uint32_t missing = needs & ~has & ~CLS_NEEDS_OF_REQUESTS;
    for (uint32_t i = 0; i < plan->n_present; i++) {
        const uint32_t feature = plan->operands->row[plan->present[i]].feature;
        if ((feature & has) == 0)
            missing |= feature & (~feature + 1);
    }
    plan->missing = missing;
    if (missing == 0)
        return CLS_OK;
    const cls_status status = cls_features_refuse("the call needs ", missing);
    if (status != CLS_OK)
        return status;
    cls_features_name(names, missing);
    return cls_not_compiled(
        "the sampler is not compiled for what the call needs: create it with %s in "
        "options->features",
        names);
}

/* Returns CLS_WIDE if each row of logits certainly starts at a multiple of 16 bytes, and kernels
 * can use that. */
static uint32_t wide_rows(const cls_plan *plan, const cls_sampler *s, cls_ranges *ranges)
{
    const cls_logits *const l = &plan->step.logits;
    const cls_shape *const shape = &s->context->shape;
    if (s->host != NULL || shape->vector != 4 || (shape->work_group == 1 && shape->row_group == 1))
        return 0;
    return (plan->count[CLS_N_LOGITS_ROWS] == 1 ||
            l->row_stride * plan->count[CLS_N_LOGIT_BYTES] % 16 == 0) &&
                   cls_buffer_is_wide(&l->values, ranges)
               ? CLS_WIDE
               : 0;
}

cls_status cls_operands_check(const cls_sampler *s, cls_plan *plan)
{
    cls_ranges ranges;
    const cls_operand *const end = plan->operands->row + plan->operands->n;
    const uint32_t needs = plan->needs;
    cls_status status = CLS_OK;
    cls_ranges_begin(&ranges);
    for (const cls_operand *o = plan->operands->row; o < end && status == CLS_OK; o++)
        status = check_operand(s, plan, o, &ranges);
    for (const cls_operand *o = plan->operands->row; o < end && status == CLS_OK; o++)
        if (o->kind == CLS_NUMBER && (plan->count[o->width] != 0 || plan->wants != 0))
            status = check_group(plan, o);
    if (status == CLS_OK)
        status = check_features(s, plan, needs);
    if (status == CLS_OK)
        status = cls_ranges_check(&ranges);
    if (status == CLS_OK && cls_buffer_is_set(&plan->step.logits.values))
        plan->wide = wide_rows(plan, s, &ranges);
    memcpy(plan->calls, ranges.calls, sizeof plan->calls);
    return status;
}

/* -------------------------------------------------------------- uploads and arguments */

static void bind(cls_plan *plan, const cls_sampler *s)
{
    plan->buffers = cls_sampler_buffers(s);
    for (uint32_t i = 0; i < plan->n_present; i++) {
        const cls_operand *const o = &plan->operands->row[plan->present[i]];
        const cls_buffer maps = {.buffer = s->maps};
        if (o->buffer != 0)
            cls_buffers_bind(&plan->buffers, o->buffer,
                             host_of(plan, o) != NULL ? &maps : buffer_of(plan, o), plan->calls);
    }
}

/* Uploads what the operands have on the host. Larger data become a buffer of the plan. */
static cl_int upload_operand(cls_plan *plan, cls_commands *c, const cls_host_data *data)
{
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0; i < plan->n_present && code == CL_SUCCESS; i++) {
        const cls_operand *const o = &plan->operands->row[plan->present[i]];
        const void *const host = host_of(plan, o);
        if (host != NULL && is_data(plan, o)) {
            code = cls_commands_upload_data(c, data);
            memset(at(plan, o->host), 0, sizeof host);
            *buffer_of(plan, o) = (cls_buffer){.buffer = c->sampler->payload.buffer};
        } else if (host != NULL) {
            code = cls_commands_upload_map(c, (enum cls_map)o->map, host,
                                           (uint32_t)plan->count[o->rows]);
        }
    }
    return code;
}

cls_status cls_plan_upload(cls_plan *plan, cls_sampler *s, cl_command_queue queue, cl_uint n_wait,
                           const cl_event *wait, cls_commands *c, cl_int *code)
{
    cls_host_data data = {NULL, 0, NULL};
    int uploads = plan->uploads;
    for (uint32_t i = 0; i < plan->n_present; i++) {
        const cls_operand *const o = &plan->operands->row[plan->present[i]];
        const void *const host = host_of(plan, o);
        if (host == NULL)
            continue;
        if (is_data(plan, o))
            data = (cls_host_data){host, (size_t)size_of(plan, o), o->name};
        else
            uploads |=
                cls_map_changed(s, (enum cls_map)o->map, host, (uint32_t)plan->count[o->rows]);
    }
    const cls_status status =
        cls_commands_begin(c, s, queue, plan->ordered, n_wait, wait, uploads, &data);
    *code = status == CLS_OK ? upload_operand(plan, c, &data) : CL_SUCCESS;
    bind(plan, s);
    return status;
}

/* Returns 1 if an operand that is written lies in these bytes. */
static int is_written(const cls_plan *plan, const void *bytes, uint64_t size)
{
    const uintptr_t begin = (uintptr_t)bytes;
    int written = 0;
    for (uint32_t i = 0; i < plan->n_present; i++) {
        const cls_operand *const o = &plan->operands->row[plan->present[i]];
        const cls_buffer *const b = buffer_of(plan, o);
        const uintptr_t at_host = (uintptr_t)b->pointer + (size_t)b->offset;
        written |= o->access != CLS_KERNEL_READS && b->pointer != NULL && at_host < begin + size &&
                   begin < at_host + size_of(plan, o);
    }
    return written;
}

cls_status cls_operands_copy(cls_plan *plan, const cls_sampler *s, void **copy)
{
    for (uint32_t i = 0; i < plan->n_present; i++) {
        const cls_operand *const o = &plan->operands->row[plan->present[i]];
        const void *host = host_of(plan, o);
        if (host == NULL)
            continue;
        if (!is_data(plan, o)) {
            int32_t *const map = s->expanded_maps + (size_t)o->map * s->max_rows;
            if (host != map) /* a verification has made its maps there */
                memcpy(map, host, (size_t)plan->count[o->rows] * sizeof *map);
            host = map;
        } else if (is_written(plan, host, size_of(plan, o))) {
            *copy = malloc((size_t)size_of(plan, o));
            if (*copy == NULL)
                return cls_no_memory("masks on the host that an output overwrites");
            host = memcpy(*copy, host, (size_t)size_of(plan, o));
        }
        memcpy(at(plan, o->host), &host, sizeof host);
    }
    return CLS_OK;
}

void cls_operands_args(cls_args *a, const cls_sampler *s, const cls_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_present; i++) {
        const cls_operand *const o = &plan->operands->row[plan->present[i]];
        const cls_buffer *const b = buffer_of(plan, o);
        cls_wide *const to = (cls_wide *)(void *)((char *)a + o->argument);
        if (o->argument == 0)
            continue;
        to[0] = cls_wide_of(host_of(plan, o) != NULL ? (uint64_t)o->map * s->max_rows
                                                     : b->offset / plan->count[o->element]);
        if (o->stride != 0)
            to[1] = cls_wide_of(*(const uint64_t *)at(plan, o->stride));
    }
}

void cls_plan_set_logits(cls_plan *plan, const cls_sampler *s, const cls_logits *logits)
{
    plan->step.logits = *logits;
    cls_buffers_bind(&plan->buffers, offsetof(cls_buffers, logits), &logits->values, plan->calls);
    plan->wide = wide_rows(plan, s, NULL);
}
