/* SPDX-License-Identifier: MIT */
/* What all calls that enqueue have in common: their plans are made, checked and enqueued here,
 * before and after what each call does itself. */
#include "step/step.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TOP = 128, MOST_GIVEN = 1024 };

/* ------------------------------------------------------------- logits, masks, biases */

static cls_status check_logits(const cls_sampler *s, uint32_t width, cls_plan *plan)
{
    static const char *const names[CLS_DTYPES] = {"CLS_F32", "CLS_F16", "CLS_BF16"};
    const char *const call = plan->operands->call;
    const int32_t dtype = plan->step.logits.dtype;
    if (dtype < 0 || dtype >= CLS_DTYPES)
        return cls_refuse("%s->logits.dtype is %d, which is not a cls_dtype", call, (int)dtype);
    if (!(s->dtypes >> dtype & 1u))
        return cls_fail(
            CLS_NOT_COMPILED, CL_SUCCESS,
            "%s->logits.dtype is %s; the sampler was not created for it: see options->dtypes", call,
            names[dtype]);
    char name[32];
    snprintf(name, sizeof name, "%s->logits.softcap", call);
    const cls_status status = cls_softcap_check(name, plan->step.logits.softcap);
    if (status != CLS_OK)
        return status;
    plan->needs |= plan->step.logits.softcap != 0.0f ? CLS_FEATURE_SOFTCAP : 0;
    if (plan->step.logits_rows == 0)
        plan->step.logits_rows = plan->step.rows;
    plan->count[CLS_N_LOGITS_ROWS] = plan->step.logits_rows;
    plan->count[CLS_N_LOGITS_WIDTH] = width != 0 ? width : s->vocab;
    plan->count[CLS_N_LOGIT_BYTES] = cls_dtype_size(dtype);
    return CLS_OK;
}

static int is_set(const cls_ints *map)
{
    return map->host != NULL || cls_buffer_is_set(&map->device);
}

/* Sets the default of a mask's or a dense bias's rows. Fails if there are fewer than the step has
 * and no map says which to use, or if there is a map but nothing that it refers to. */
static cls_status check_map_rows(const cls_plan *plan, const char *what, const char *field,
                                 int present, const cls_ints *map, uint32_t *rows)
{
    const char *const call = plan->operands->call;
    if (!present)
        return !is_set(map)
                   ? CLS_OK
                   : cls_refuse("%s->%s.%s.buffer is NULL, but row_map is set", call, what, field);
    if (*rows == 0)
        *rows = plan->step.rows;
    return is_set(map) || *rows >= plan->step.rows
               ? CLS_OK
               : cls_refuse("%s->%s.rows is %u for %u rows, but %s->%s.row_map is not set", call,
                            what, (unsigned)*rows, (unsigned)plan->step.rows, call, what);
}

static cls_status check_mask(const cls_sampler *s, cls_plan *plan)
{
    cls_mask *const m = &plan->step.mask;
    const int bytes = m->kind == CLS_MASK_BOOL,
              present = cls_buffer_is_set(&m->words) || m->host != NULL;
    if (m->width == 0)
        m->width = bytes ? s->vocab : (s->vocab + 31) / 32;
    const cls_status status = check_map_rows(plan, "mask", "words", present, &m->row_map, &m->rows);
    plan->has |= present && bytes ? CLS_MASK_BYTES : 0;
    plan->count[CLS_N_MASK_ROWS] = m->rows;
    plan->count[CLS_N_MASK_WIDTH] = m->width;
    plan->count[CLS_N_MASK_BYTES] = bytes ? 1 : sizeof(int32_t);
    return status;
}

static cls_status check_bias(cls_plan *plan)
{
    cls_dense_bias *const b = &plan->step.bias;
    const char *const call = plan->operands->call;
    const int present = cls_buffer_is_set(&b->values);
    cls_status status = cls_bias_check(call, present, "bias.", b->dtype, &b->factor);
    if (status == CLS_OK)
        status = check_map_rows(plan, "bias", "values", present, &b->row_map, &b->rows);
    plan->has |= present && b->dtype == CLS_F16    ? CLS_BIAS_F16
                 : present && b->dtype == CLS_BF16 ? CLS_BIAS_BF16
                                                   : 0;
    plan->has |= present && b->factor != 1.0f ? CLS_BIAS_SCALED : 0;
    plan->count[CLS_N_BIAS_ROWS] = b->rows;
    plan->count[CLS_N_BIAS_BYTES] = cls_dtype_size(b->dtype);
    return status;
}

/* Checks those fields of the logits, the mask and the bias that are not operands, and sets the
 * numbers that belong to them. */
static cls_status check_inputs(const cls_sampler *s, uint32_t width, cls_plan *plan)
{
    cls_status status = check_logits(s, width, plan);
    if (status == CLS_OK)
        status = check_mask(s, plan);
    return status == CLS_OK ? check_bias(plan) : status;
}

/* --------------------------------------------------------------------------- slots */

/* Adds what rows may need, whose slots need these features, to the plan. */
static void add_needs(const cls_sampler *s, uint32_t features, cls_plan *plan)
{
    /* All rows that truncate need lists. */
    const uint32_t searched = CLS_FEATURE_SEARCH | (s->force_search ? CLS_FEATURE_SHORTLIST : 0);
    plan->search |= (features & searched) != 0;
    plan->prepare |= (features & CLS_FEATURE_HISTORY) != 0;
    plan->needs |= features;
}

static cls_status fail_slot(const cls_sampler *s, const char *call, uint32_t row, int32_t slot)
{
    return slot < 0 || (uint32_t)slot >= s->slots
               ? cls_refuse("%s->slots: row %u uses slot %d, but the sampler has slots 0 to %u",
                            call, (unsigned)row, (int)slot, (unsigned)s->slots - 1)
           : !(s->request[slot].slot.flags & CLS_SLOT_BEGUN)
               ? cls_refuse("%s->slots: row %u uses slot %d, which has no request: call "
                            "cls_slot_begin() first",
                            call, (unsigned)row, (int)slot)
               : cls_refuse("%s->slots: row %u uses slot %d, which an earlier row uses; a slot may "
                            "occur only once if tokens are accepted or outputs->latest is set",
                            call, (unsigned)row, (int)slot);
}

cls_status cls_row_slots_check(cls_sampler *sampler, const cls_ints *slots, uint32_t rows,
                               int shared, cls_plan *plan)
{
    const cls_request *const request = sampler->request;
    uint8_t *const used = sampler->slot_is_used;
    const int marks = slots->host != NULL && !shared; /* without a map no slot occurs twice */
    uint32_t features = 0, row = 0;
    cls_status status = CLS_OK;
    if (cls_buffer_is_set(&slots->device)) { /* any of them may be named */
        add_needs(sampler, cls_needs_features(&sampler->needs), plan);
        return CLS_OK;
    }
    if (slots->host == NULL && rows > sampler->slots)
        return cls_refuse_call("there are %u rows but only %u slots, and %s->slots is not set",
                               (unsigned)rows, (unsigned)sampler->slots, plan->operands->call);
    for (; row < rows && status == CLS_OK; row++) {
        const int32_t slot = slots->host != NULL ? slots->host[row] : (int32_t)row;
        if (slot == -1)
            continue;
        if ((uint32_t)slot >= sampler->slots || !(request[slot].slot.flags & CLS_SLOT_BEGUN) ||
            (marks && used[slot])) {
            status = fail_slot(sampler, plan->operands->call, row, slot);
        } else {
            used[slot] = (uint8_t)marks;
            features |= request[slot].features;
        }
    }
    while (marks && row-- > 0)
        if ((uint32_t)slots->host[row] < sampler->slots)
            used[slots->host[row]] = 0;
    add_needs(sampler, features, plan);
    return status;
}

/* --------------------------------------------------------------------------- calls */

void cls_plan_begin(cls_plan *plan, const cls_operands *operands)
{
    memset(plan, 0, offsetof(cls_plan, buffers));
    plan->operands = operands;
    plan->count[CLS_N_1] = 1;
    plan->count[CLS_N_3] = 3;
    plan->count[CLS_N_4] = 4;
    plan->count[CLS_N_8] = 8;
    plan->count[CLS_N_DRAWS] = 1u << 24;
    plan->count[CLS_N_TOP_MOST] = MOST_TOP;
    plan->count[CLS_N_GIVEN_MOST] = MOST_GIVEN;
    plan->step.invalid_token = -1; /* of calls that have no such field */
}

cls_status cls_plan_check(cls_plan *plan, const cls_sampler *s, cl_command_queue queue,
                          uint32_t width, cl_uint n_wait, const cl_event *wait)
{
    plan->count[CLS_N_SLOTS] = s->slots;
    plan->count[CLS_N_ROWS] = plan->step.rows;
    if (plan->count[CLS_N_REQUESTS] == 0)
        plan->count[CLS_N_PLACES] = plan->step.rows;
    plan->count[CLS_N_OFFSETS] = plan->count[CLS_N_PLACES] + 1;
    plan->count[CLS_N_PACKED_MOST] = plan->count[CLS_N_PLACES] * s->vocab < INT32_MAX
                                         ? plan->count[CLS_N_PLACES] * s->vocab
                                         : INT32_MAX;
    plan->count[CLS_N_SHORTLIST] = s->context->shape.shortlist;
    cls_status status = cls_wait_check(s->context->cl, n_wait, wait);
    if (status == CLS_OK)
        status = cls_queue_check(s->context->cl, s->context->device, queue, &plan->ordered);
    if (status == CLS_OK && plan->operands->reads_logits)
        status = check_inputs(s, width, plan);
    return status == CLS_OK ? cls_operands_check(s, plan) : status;
}

cls_status cls_call_check(const cls_call *call, cls_sampler *s, cl_command_queue queue,
                          const void *callers, uint32_t width, cl_uint n_wait, const cl_event *wait,
                          cls_plan *plan)
{
    cls_plan_begin(plan, call->operands);
    plan->args = call->args;
    if (s == NULL)
        return cls_refuse("sampler is NULL");
    plan->count[CLS_N_MOST_ROWS] = s->max_rows;
    plan->count[CLS_N_ROLLBACKS] = s->rollback + UINT64_C(1);
    plan->count[CLS_N_VOCAB] = s->vocab;
    cls_status status = call->read(callers, plan);
    if (status == CLS_OK && cls_record_is_on(s->record))
        cls_recorded_results(plan, s);
    if (status == CLS_OK && (plan->step.rows < 1 || plan->step.rows > s->max_rows))
        status = cls_refuse("%s->rows is %u; the sampler was created for 1 to %u",
                            call->operands->call, (unsigned)plan->step.rows, (unsigned)s->max_rows);
    if (status == CLS_OK)
        status = cls_plan_check(plan, s, queue, width, n_wait, wait);
    if (status == CLS_OK)
        status = call->finish(s, plan);
    s->missing_of_step = plan->missing;
    plan->has |= s->force_search ? CLS_FORCE_SEARCH : 0;
    plan->has |= plan->search ? CLS_HAS_SEARCH : 0;
    return status;
}

cls_status cls_call_enqueue(const cls_call *call, cls_plan *plan, cls_sampler *s,
                            cl_command_queue queue, cl_uint n_wait, const cl_event *wait,
                            cl_event *done)
{
    cls_commands c;
    cl_event end = NULL;
    cl_int code;
    if (s->host != NULL) {
        void *copy = NULL;
        const cls_status copied = cls_operands_copy(plan, s, &copy);
        if (copied == CLS_OK) {
            struct cls_recorded *const line = cls_recorded_begin(plan, s);
            call->run(plan, s);
            cls_recorded_on_host(line, s);
        }
        free(copy);
        return copied;
    }
    struct cls_recorded *const line = cls_recorded_begin(plan, s);
    const cls_status status = cls_plan_upload(plan, s, queue, n_wait, wait, &c, &code);
    if (status != CLS_OK)
        return status;
    if (code == CL_SUCCESS)
        code = call->launch(plan, &c, &end);
    if (code == CL_SUCCESS)
        cls_recorded_read(line, s, queue, &end);
    else if (line != NULL)
        cls_record_cut(s->record, "a call has failed", code);
    return cls_commands_end(&c, code, call->failure, end, done);
}

static cls_status run_call(const cls_call *call, cls_sampler *s, cl_command_queue queue,
                           const void *callers, cl_uint n_wait, const cl_event *wait,
                           cl_event *done)
{
    cls_plan plan;
    const cls_status status = cls_call_check(call, s, queue, callers, 0, n_wait, wait, &plan);
    return status == CLS_OK ? cls_call_enqueue(call, &plan, s, queue, n_wait, wait, done) : status;
}

cls_status cls_call_run(const cls_call *call, cls_sampler *s, cl_command_queue queue,
                        const void *callers, cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    return CLS_GUARDED_CALL(s, run_call(call, s, queue, callers, n_wait, wait, done));
}
