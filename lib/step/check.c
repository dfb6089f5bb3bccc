/* SPDX-License-Identifier: MIT */
/* Checks the arguments of a step before anything is enqueued. */
#include "step/step.h"

#include <stdio.h>

void cls_step_default(cls_step *step, size_t struct_size)
{
    if (!CLS_STRUCT_INIT(step, struct_size))
        return;
    step->invalid_token = -1;
}

void cls_outputs_default(cls_outputs *outputs, size_t struct_size)
{
    CLS_STRUCT_INIT(outputs, struct_size);
}

cls_status cls_logits_check(const cls_sampler *sampler, const char *call, cls_plan *plan)
{
    cls_logits *const l = &plan->step.logits;
    if (l->kind != CLS_LOGITS_BUFFER)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->logits.kind is %d, which is not a cls_logits_kind", call,
                        (int)l->kind);
    if (l->dtype < 0 || l->dtype >= CLS_DTYPES)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->logits.dtype is %d, which is not a cls_dtype", call, (int)l->dtype);
    if (!(sampler->dtypes >> l->dtype & 1u))
        return cls_fail(
            CLS_BAD_ARGUMENT, CL_SUCCESS,
            "%s->logits.dtype is %d; the sampler was not created for it: see options->dtypes", call,
            (int)l->dtype);
    if (l->buffer == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s->logits.buffer is NULL", call);
    const uint32_t width = plan->width != 0 ? plan->width : sampler->vocab;
    if (l->row_stride == 0)
        l->row_stride = width;
    if (l->row_stride < width)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->logits.row_stride is %llu, which is less than the %s of %u", call,
                        (unsigned long long)l->row_stride,
                        plan->width != 0 ? "shard's width" : "vocabulary", (unsigned)width);
    plan->logit_size = (uint32_t)cls_dtype_size(l->dtype);
    const cls_buffer whole = {l->buffer, l->offset};
    char what[64];
    snprintf(what, sizeof what, "%s->logits", call);
    return cls_buffer_check(
        sampler->context, what, &whole,
        cls_extent(plan->step.logits_rows != 0 ? plan->step.logits_rows : plan->step.rows,
                   l->row_stride, width, plan->logit_size),
        plan->logit_size, CLS_KERNEL_READS, &plan->ranges);
}

/* Sets the defaults of a mask's or a dense bias's rows. Fails if the rows exceed the buffer, or if
 * there are fewer than the step has and no map says which to use. */
static cls_status check_row_buffer(const cls_sampler *sampler, const char *what,
                                   const cls_buffer *buffer, uint32_t width, uint64_t element,
                                   const cls_ints *map, cls_plan *plan, uint32_t *rows,
                                   uint64_t *stride)
{
    const uint32_t step_rows = plan->step.rows;
    if (*rows == 0)
        *rows = step_rows;
    if (*stride == 0)
        *stride = width;
    if (*stride < width)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s.row_stride is %llu, which is less than its width of %u", what,
                        (unsigned long long)*stride, (unsigned)width);
    if (map->host == NULL && map->device.buffer == NULL && *rows < step_rows)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s.rows is %u for %u rows, but %s.row_map is not set", what,
                        (unsigned)*rows, (unsigned)step_rows, what);
    const uint64_t size = cls_extent(*rows, *stride, width, element);
    /* The size is UINT64_MAX if 64 bits do not hold it. */
    if (buffer == NULL)
        return size < SIZE_MAX ? CLS_OK
                               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                                          "%s.row_stride is %llu; the masks exceed the memory of "
                                          "any host",
                                          what, (unsigned long long)*stride);
    return cls_buffer_check(sampler->context, what, buffer, size, element, CLS_KERNEL_READS,
                            &plan->ranges);
}

static cls_status check_no_map(const cls_ints *map, const char *call, const char *what)
{
    return map->host == NULL && map->device.buffer == NULL
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "%s->%s is NULL, but row_map is set", call,
                          what);
}

static cls_status check_mask(const cls_sampler *sampler, const char *call, cls_plan *plan)
{
    cls_mask *const m = &plan->step.mask;
    const uint64_t element = m->kind == CLS_MASK_BOOL ? 1 : sizeof(int32_t);
    char what[64];
    if (m->reserved != 0) {
        snprintf(what, sizeof what, "%s->mask.reserved", call);
        return cls_reserved_check(what, (uint32_t)m->reserved);
    }
    if (m->words.buffer == NULL && m->host == NULL)
        return check_no_map(&m->row_map, call, "mask.words.buffer");
    if (m->words.buffer != NULL && m->host != NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->mask.words and %s->mask.host are both set; only one may be", call,
                        call);
    if (m->kind != CLS_MASK_PACKED && m->kind != CLS_MASK_BOOL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->mask.kind is %d, which is not a cls_mask_kind", call, (int)m->kind);
    if (cls_compiled_features_check(sampler, CLS_FEATURE_MASK) != CLS_OK)
        return CLS_BAD_ARGUMENT;
    plan->needs |= CLS_FEATURE_MASK;
    plan->has |= CLS_HAS_MASK | (m->kind == CLS_MASK_BOOL ? CLS_MASK_BYTES : 0);
    if (m->width == 0)
        m->width = m->kind == CLS_MASK_BOOL ? sampler->vocab : (sampler->vocab + 31) / 32;
    snprintf(what, sizeof what, "%s->mask", call);
    return check_row_buffer(sampler, what, m->host != NULL ? NULL : &m->words, m->width, element,
                            &m->row_map, plan, &m->rows, &m->row_stride);
}

static cls_status check_bias(const cls_sampler *sampler, const char *call, cls_plan *plan)
{
    cls_dense_bias *const b = &plan->step.bias;
    char what[64];
    if (b->values.buffer == NULL)
        return check_no_map(&b->row_map, call, "bias.values.buffer");
    if (b->dtype != CLS_F32 && b->dtype != CLS_F16)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s->bias.dtype is %d; it must be CLS_F32 or CLS_F16", call, (int)b->dtype);
    if (cls_compiled_features_check(sampler, CLS_FEATURE_BIAS) != CLS_OK)
        return CLS_BAD_ARGUMENT;
    plan->needs |= CLS_FEATURE_BIAS;
    plan->has |= CLS_HAS_BIAS | (b->dtype == CLS_F16 ? CLS_BIAS_F16 : 0);
    plan->bias_size = (uint32_t)cls_dtype_size(b->dtype);
    snprintf(what, sizeof what, "%s->bias", call);
    return check_row_buffer(sampler, what, &b->values, sampler->vocab, plan->bias_size, &b->row_map,
                            plan, &b->rows, &b->row_stride);
}

cls_status cls_map_check(const cls_sampler *sampler, const char *what, const cls_ints *map,
                         uint32_t rows, cls_ranges *ranges)
{
    if (map->host != NULL && map->device.buffer != NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "%s has a host array and a buffer; only one may be set", what);
    if (map->device.buffer == NULL)
        return CLS_OK;
    return cls_buffer_check(sampler->context, what, &map->device, (uint64_t)rows * sizeof(int32_t),
                            sizeof(int32_t), CLS_KERNEL_READS, ranges);
}

static cls_status check_map(const cls_sampler *sampler, const char *call, cls_plan *plan,
                            enum cls_map which)
{
    static const char *const name[CLS_STEP_MAPS] = {"slots",        "positions",    "draws",
                                                    "mask.row_map", "bias.row_map", "logits_map"};
    static const uint32_t has[CLS_STEP_MAPS] = {CLS_HAS_SLOT_MAP, CLS_HAS_POSITIONS,
                                                CLS_HAS_DRAWS,    CLS_HAS_MASK_MAP,
                                                CLS_HAS_BIAS_MAP, CLS_HAS_LOGITS_MAP};
    const cls_ints *const map = plan->map[which];
    if (map->host != NULL || map->device.buffer != NULL)
        plan->has |= has[which];
    char what[64];
    snprintf(what, sizeof what, "%s->%s", call, name[which]);
    return cls_map_check(sampler, what, map, plan->step.rows, &plan->ranges);
}

static cls_report report_of(const cls_outputs *o)
{
    const cls_report report = {0,
                               o->top.count,
                               o->given.count,
                               o->kept.count,
                               o->kept_set.capacity,
                               {[CLS_OUT_LOGPROBS] = o->logprobs,
                                [CLS_OUT_RANKS] = o->ranks,
                                [CLS_OUT_TOP_IDS] = o->top.ids,
                                [CLS_OUT_TOP_LOGPROBS] = o->top.logprobs,
                                [CLS_OUT_GIVEN_IDS] = o->given.ids,
                                [CLS_OUT_GIVEN_LOGPROBS] = o->given.logprobs,
                                [CLS_OUT_GIVEN_RANKS] = o->given.ranks,
                                [CLS_OUT_ENTROPY] = o->entropy,
                                [CLS_OUT_KEPT] = o->kept.counts,
                                [CLS_OUT_KEPT_MASS] = o->kept_mass,
                                [CLS_OUT_CANDIDATE_IDS] = o->kept.ids,
                                [CLS_OUT_CANDIDATE_LOGITS] = o->kept.logits,
                                [CLS_OUT_CANDIDATE_PROBS] = o->kept.probs,
                                [CLS_OUT_PROBS] = o->probs,
                                [CLS_OUT_FINAL_LOGITS] = o->final_logits,
                                [CLS_OUT_SET_IDS] = o->kept_set.ids,
                                [CLS_OUT_SET_COUNTS] = o->kept_set.counts}};
    return report;
}

/* Reads the caller's outputs, if there are any, and checks the fields that are not buffers. */
static cls_status check_outputs(cls_plan *plan)
{
    cls_outputs *const o = &plan->outputs;
    cls_outputs_default(o, sizeof *o);
    if (plan->step.outputs == NULL)
        return CLS_OK;
    cls_status status = CLS_STRUCT_READ(o, plan->step.outputs, "outputs");
    if (status == CLS_OK && o->logprob_kind != CLS_LOGPROB_RAW &&
        o->logprob_kind != CLS_LOGPROB_FINAL)
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "outputs->logprob_kind is %d, which is not a cls_logprob_kind",
                          (int)o->logprob_kind);
    const struct {
        const char *name;
        uint32_t value;
    } reserved[] = {{"outputs->reserved", (uint32_t)o->reserved},
                    {"outputs->top.reserved", o->top.reserved},
                    {"outputs->given.reserved", o->given.reserved},
                    {"outputs->kept.reserved", o->kept.reserved},
                    {"outputs->kept_set.reserved", o->kept_set.reserved}};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0] && status == CLS_OK; i++)
        status = cls_reserved_check(reserved[i].name, reserved[i].value);
    plan->report = report_of(o);
    return status;
}

cls_status cls_compiled_features_check(const cls_sampler *s, uint32_t features)
{
    const uint32_t missing = features & ~s->features;
    if (missing == 0)
        return CLS_OK;
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                    "the sampler is not compiled for %s: create it with %s in options->features",
                    cls_feature_description(missing),
                    cls_feature_name((cls_feature)(missing & (~missing + 1))));
}

cls_status cls_optional_check(const cls_sampler *sampler, const char *what,
                              const cls_buffer *buffer, uint64_t size, uint64_t element,
                              enum cls_access access, cls_ranges *ranges)
{
    return buffer->buffer == NULL
               ? CLS_OK
               : cls_buffer_check(sampler->context, what, buffer, size, element, access, ranges);
}

cls_status cls_invalid_token_check(const cls_sampler *sampler, const char *call, int32_t token)
{
    return token < 0 || (uint32_t)token >= sampler->vocab
               ? CLS_OK
               : cls_fail(
                     CLS_BAD_ARGUMENT, CL_SUCCESS,
                     "%s->invalid_token is %d, which is a token: with %s->defer_accept a later "
                     "cls_accept() would accept it for rows without a token",
                     call, (int)token, call);
}

/* Adds what rows may need, whose slots need these features, to the plan. */
static void add_needs(const cls_sampler *s, uint32_t features, cls_plan *plan)
{
    /* All rows that truncate need lists. */
    const uint32_t searched = CLS_FEATURE_SEARCH | (s->force_search ? CLS_FEATURE_LISTS : 0);
    plan->search |= (features & searched) != 0;
    plan->prepare |= (features & CLS_FEATURE_HISTORY) != 0;
    plan->needs |= features;
}

cls_status cls_row_slots_check(cls_sampler *sampler, const char *what, const cls_ints *slots,
                               uint32_t rows, int shared, cls_plan *plan)
{
    cls_status status = CLS_OK;
    uint32_t row = 0;
    if (slots->device.buffer != NULL) /* any of them may be named */
        add_needs(sampler, cls_needs_features(&sampler->needs), plan);
    if (slots->host == NULL && slots->device.buffer == NULL && rows > sampler->slots)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "there are %u rows but only %u slots, and %s is not set", (unsigned)rows,
                        (unsigned)sampler->slots, what);
    for (; slots->device.buffer == NULL && row < rows && status == CLS_OK; row++) {
        const int32_t slot = slots->host != NULL ? slots->host[row] : (int32_t)row;
        if (slot == -1)
            continue;
        if (slot < 0 || (uint32_t)slot >= sampler->slots)
            status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                              "%s: row %u uses slot %d, but the sampler has slots 0 to %u", what,
                              (unsigned)row, (int)slot, (unsigned)sampler->slots - 1);
        else if (!(sampler->request[slot].slot.flags & CLS_SLOT_BEGUN))
            status = cls_fail(
                CLS_BAD_ARGUMENT, CL_SUCCESS,
                "%s: row %u uses slot %d, which has no request: call cls_slot_begin() first", what,
                (unsigned)row, (int)slot);
        else if (sampler->slot_is_used[slot] && !shared)
            status =
                cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                         "%s: row %u uses slot %d, which an earlier row uses; a slot may occur "
                         "only once if tokens are accepted",
                         what, (unsigned)row, (int)slot);
        else {
            sampler->slot_is_used[slot] = 1;
            add_needs(sampler, cls_features_of_slot(&sampler->request[slot].slot), plan);
        }
    }
    while (row-- > 0) {
        const int32_t slot = slots->host != NULL ? slots->host[row] : (int32_t)row;
        if (slot >= 0 && (uint32_t)slot < sampler->slots)
            sampler->slot_is_used[slot] = 0;
    }
    return status;
}

cls_status cls_draws_check(const char *what, const int32_t *draws, uint32_t n)
{
    for (uint32_t row = 0; draws != NULL && row < n; row++)
        if (draws[row] < 0 || draws[row] >= 1 << 24)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "%s: row %u has the value %d; it must be 0 to 16777215", what,
                            (unsigned)row, (int)draws[row]);
    return CLS_OK;
}

/* Fails if a map from the host refers to a row that does not exist. */
static cls_status check_row_map(const char *what, const int32_t *map, uint32_t n, uint32_t rows)
{
    for (uint32_t row = 0; map != NULL && row < n; row++)
        if (map[row] < -1 || (map[row] >= 0 && (uint32_t)map[row] >= rows))
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "%s: row %u uses row %d, but there are %u rows", what, (unsigned)row,
                            (int)map[row], (unsigned)rows);
    return CLS_OK;
}

cls_status cls_masks_check(const cls_sampler *sampler, const char *call, cls_plan *plan)
{
    const cls_step *const s = &plan->step;
    char what[64];
    cls_status status = check_mask(sampler, call, plan);
    if (status == CLS_OK)
        status = check_bias(sampler, call, plan);
    if (status == CLS_OK)
        status = check_map(sampler, call, plan, CLS_MAP_MASKS);
    if (status == CLS_OK)
        status = check_map(sampler, call, plan, CLS_MAP_BIASES);
    snprintf(what, sizeof what, "%s->mask.row_map", call);
    if (status == CLS_OK)
        status = check_row_map(what, s->mask.row_map.host, s->rows, s->mask.rows);
    snprintf(what, sizeof what, "%s->bias.row_map", call);
    if (status == CLS_OK)
        status = check_row_map(what, s->bias.row_map.host, s->rows, s->bias.rows);
    return status;
}

cls_status cls_step_check(cls_sampler *sampler, cl_command_queue queue, const cls_step *callers,
                          uint32_t width, cl_uint n_wait, const cl_event *wait, cls_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->width = width;
    cls_step *const s = &plan->step;
    cls_step_default(s, sizeof *s);
    if (sampler == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    cls_status status = CLS_STRUCT_READ(s, callers, "step");
    if (status != CLS_OK)
        return status;
    plan->map[CLS_MAP_SLOTS] = &s->slots;
    plan->map[CLS_MAP_POSITIONS] = &s->positions;
    plan->map[CLS_MAP_DRAWS] = &s->draws;
    plan->map[CLS_MAP_MASKS] = &s->mask.row_map;
    plan->map[CLS_MAP_BIASES] = &s->bias.row_map;
    plan->map[CLS_MAP_LOGITS] = &s->logits_map;
    status = cls_wait_check(sampler->context, n_wait, wait);
    if (status != CLS_OK)
        return status;
    if (s->rows < 1 || s->rows > sampler->max_rows)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "step->rows is %u; the sampler was created for 1 to %u", (unsigned)s->rows,
                        (unsigned)sampler->max_rows);
    const uint64_t rows = s->rows;
    status = check_outputs(plan);
    if (status != CLS_OK)
        return status;
    if (s->logits_rows == 0)
        s->logits_rows = s->rows;
    if (s->logits_map.host == NULL && s->logits_map.device.buffer == NULL &&
        s->logits_rows < s->rows)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "step->logits_rows is %u for %u rows, but step->logits_map is not set",
                        (unsigned)s->logits_rows, (unsigned)s->rows);
    status = cls_queue_check(sampler->context, queue, &plan->ordered);
    if (status == CLS_OK)
        status = cls_logits_check(sampler, "step", plan);
    for (int i = 0; i < CLS_MAP_MASKS && status == CLS_OK; i++)
        status = check_map(sampler, "step", plan, (enum cls_map)i);
    if (status == CLS_OK)
        status = check_map(sampler, "step", plan, CLS_MAP_LOGITS);
    if (status == CLS_OK)
        status = check_row_map("step->logits_map", s->logits_map.host, s->rows, s->logits_rows);
    if (status == CLS_OK)
        status = cls_masks_check(sampler, "step", plan);
    const struct {
        const char *name;
        const cls_buffer *buffer;
        uint64_t elements, element;
        enum cls_access access;
    } optional[] = {
        {"step->random_bits", &s->random_bits, rows, sizeof(uint64_t), CLS_KERNEL_READS},
        {"step->tokens", &s->tokens, rows, sizeof(int32_t), CLS_KERNEL_WRITES},
        {"step->status", &s->status, rows, sizeof(int32_t), CLS_KERNEL_WRITES},
        {"outputs->latest", &plan->outputs.latest, sampler->slots, sizeof(int32_t),
         CLS_KERNEL_WRITES},
    };
    for (size_t i = 0; i < sizeof optional / sizeof optional[0] && status == CLS_OK; i++)
        status = cls_optional_check(sampler, optional[i].name, optional[i].buffer,
                                    optional[i].elements * optional[i].element, optional[i].element,
                                    optional[i].access, &plan->ranges);
    if (status == CLS_OK)
        status = cls_report_check(sampler, "outputs", s->rows, &plan->report, &plan->ranges);
    if (status == CLS_OK)
        status = cls_ranges_check(&plan->ranges);
    if (status == CLS_OK)
        status = cls_switch_check("step->defer_accept", s->defer_accept);
    if (status == CLS_OK && s->defer_accept)
        status = cls_invalid_token_check(sampler, "step", s->invalid_token);
    if (status == CLS_OK)
        status = cls_draws_check("step->draws", s->draws.host, s->rows);
    if (status == CLS_OK)
        status =
            cls_row_slots_check(sampler, "step->slots", &s->slots, s->rows, s->defer_accept, plan);
    plan->has |= s->random_bits.buffer != NULL ? CLS_HAS_RANDOM : 0;
    plan->has |= s->tokens.buffer != NULL ? CLS_HAS_TOKENS : 0;
    plan->has |= s->status.buffer != NULL ? CLS_HAS_STATUS : 0;
    plan->has |= plan->outputs.latest.buffer != NULL ? CLS_HAS_LATEST : 0;
    plan->has |= s->defer_accept ? CLS_DEFER : 0;
    plan->has |= sampler->force_search ? CLS_FORCE_SEARCH : 0;
    plan->has |= plan->search ? CLS_HAS_SEARCH : 0;
    return status;
}
