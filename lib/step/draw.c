/* SPDX-License-Identifier: MIT */
/* cls_draw(): draws tokens from lists of candidates that the host has filtered. It never waits and
 * never allocates. */
#include "step/step.h"

/* A work-item visits each candidate three times, and its loops may have 65,535 trips. */
enum { MAX_CANDIDATES = 16384 };

static cls_status check_buffers(const cls_sampler *s, cls_draw_call *call, cls_ranges *ranges)
{
    const struct {
        const char *name;
        const cls_buffer *buffer;
        uint64_t size, element;
        enum cls_access access;
    } optional[] = {
        {"call->candidates.counts", &call->candidates.counts, (uint64_t)call->rows * 4, 4,
         CLS_KERNEL_READS},
        {"call->random_bits", &call->random_bits, (uint64_t)call->rows * 8, 8, CLS_KERNEL_READS},
        {"call->tokens", &call->tokens, (uint64_t)call->rows * 4, 4, CLS_KERNEL_WRITES},
        {"call->status", &call->status, (uint64_t)call->rows * 4, 4, CLS_KERNEL_WRITES},
        {"call->latest", &call->latest, (uint64_t)s->slots * 4, 4, CLS_KERNEL_WRITES},
    };
    const uint32_t count = call->candidates.count;
    if (count < 1 || count > MAX_CANDIDATES)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->candidates.count is %u; it must be 1 to %d", (unsigned)count,
                        MAX_CANDIDATES);
    if (call->row_stride == 0)
        call->row_stride = count;
    if (call->row_stride < count)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->row_stride is %llu, which is less than call->candidates.count, %u",
                        (unsigned long long)call->row_stride, (unsigned)count);
    const uint64_t size = cls_extent(call->rows, call->row_stride, count, 4);
    cls_status status = cls_buffer_check(s->context, "call->candidates.ids", &call->candidates.ids,
                                         size, 4, CLS_KERNEL_READS, ranges);
    if (status == CLS_OK)
        status = cls_buffer_check(s->context, "call->candidates.logits", &call->candidates.logits,
                                  size, 4, CLS_KERNEL_READS, ranges);
    for (size_t i = 0; i < sizeof optional / sizeof optional[0] && status == CLS_OK; i++)
        status = cls_optional_check(s, optional[i].name, optional[i].buffer, optional[i].size,
                                    optional[i].element, optional[i].access, ranges);
    return status;
}

static cls_status check(cls_sampler *s, cl_command_queue queue, const cls_draw_call *callers,
                        cl_uint n_wait, const cl_event *wait, cls_draw_call *call, cls_plan *plan)
{
    static const cls_ints none;
    const struct {
        const char *name;
        const cls_ints *map;
        enum cls_map which;
        uint32_t has;
    } maps[] = {
        {"call->slots", &call->slots, CLS_MAP_SLOTS, CLS_HAS_SLOT_MAP},
        {"call->positions", &call->positions, CLS_MAP_POSITIONS, CLS_HAS_POSITIONS},
        {"call->draws", &call->draws, CLS_MAP_DRAWS, CLS_HAS_DRAWS},
    };
    memset(plan, 0, sizeof *plan);
    if (s == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    cls_status status = CLS_STRUCT_READ(call, callers, "call");
    if (status == CLS_OK)
        status = cls_compiled_features_check(s, CLS_FEATURE_DRAW);
    if (status == CLS_OK)
        status = cls_wait_check(s->context, n_wait, wait);
    if (status == CLS_OK && (call->rows < 1 || call->rows > s->max_rows))
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "call->rows is %u; the sampler was created for 1 to %u",
                          (unsigned)call->rows, (unsigned)s->max_rows);
    if (status == CLS_OK)
        status = cls_queue_check(s->context, queue, &plan->ordered);
    if (status == CLS_OK)
        status = check_buffers(s, call, &plan->ranges);
    for (int i = 0; i < CLS_STEP_MAPS; i++)
        plan->map[i] = &none;
    for (size_t i = 0; i < sizeof maps / sizeof maps[0] && status == CLS_OK; i++) {
        plan->map[maps[i].which] = maps[i].map;
        if (maps[i].map->host != NULL || maps[i].map->device.buffer != NULL)
            plan->has |= maps[i].has;
        status = cls_map_check(s, maps[i].name, maps[i].map, call->rows, &plan->ranges);
    }
    if (status == CLS_OK)
        status = cls_ranges_check(&plan->ranges);
    if (status == CLS_OK)
        status = cls_reserved_check("call->reserved", (uint32_t)call->reserved);
    if (status == CLS_OK)
        status = cls_reserved_check("call->candidates.reserved", call->candidates.reserved);
    if (status == CLS_OK)
        status = cls_switch_check("call->defer_accept", call->defer_accept);
    if (status == CLS_OK && call->defer_accept)
        status = cls_invalid_token_check(s, "call", call->invalid_token);
    if (status == CLS_OK)
        status = cls_draws_check("call->draws", call->draws.host, call->rows);
    if (status == CLS_OK)
        status = cls_row_slots_check(s, "call->slots", &call->slots, call->rows, call->defer_accept,
                                     plan);
    plan->step.rows = call->rows;
    plan->logit_size = sizeof(float);
    plan->step.random_bits = call->random_bits;
    plan->step.invalid_token = call->invalid_token;
    plan->step.tokens = call->tokens;
    plan->step.status = call->status;
    plan->outputs.latest = call->latest;
    plan->has |= call->candidates.counts.buffer != NULL ? CLS_HAS_COUNTS : 0;
    plan->has |= call->random_bits.buffer != NULL ? CLS_HAS_RANDOM : 0;
    plan->has |= call->tokens.buffer != NULL ? CLS_HAS_TOKENS : 0;
    plan->has |= call->status.buffer != NULL ? CLS_HAS_STATUS : 0;
    plan->has |= call->latest.buffer != NULL ? CLS_HAS_LATEST : 0;
    plan->has |= CLS_CANDIDATES | (call->defer_accept ? CLS_DEFER : 0);
    return status;
}

static cl_int write_args(cls_plan *plan, const cls_draw_call *call, cls_commands *c)
{
    const cls_sampler *const s = c->sampler;
    cls_args a;
    const cl_int code = cls_step_force_args(plan, c);
    if (code != CL_SUCCESS)
        return code;
    memset(&a, 0, sizeof a);
    cls_request_args(&a, s, plan->map[CLS_MAP_SLOTS], plan->has);
    cls_draw_args(&a, s, plan);
    a.ids_offset = cls_element_offset(&call->candidates.ids, sizeof(int32_t));
    a.logits_offset = cls_element_offset(&call->candidates.logits, sizeof(float));
    a.row_stride = cls_wide_of(call->row_stride);
    a.counts_offset = cls_element_offset(&call->candidates.counts, sizeof(int32_t));
    a.candidates = call->candidates.count;
    return cls_commands_write_args(c, CLS_ARG_SET_DRAW, &a);
}

static cl_int launch(const cls_plan *plan, const cls_draw_call *call, cls_commands *c,
                     cl_event *done)
{
    const cls_sampler *const s = c->sampler;
    const size_t groups[2] = {1, call->rows};
    cls_buffers b = cls_step_buffers(s, plan, CLS_ARG_SET_DRAW);
    b.ids = call->candidates.ids.buffer;
    b.id_logits = call->candidates.logits.buffer;
    b.counts = call->candidates.counts.buffer;
    const cls_arguments a =
        cls_kernel_arguments(cls_sampler_kernel(s, CLS_DRAW, 0, 0), CLS_DRAW, &b);
    return cls_commands_launch(c, &a, groups, done);
}

static cls_status draw_rows(cls_sampler *s, cl_command_queue queue, const cls_draw_call *callers,
                            cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    cls_draw_call call;
    cls_plan plan;
    cls_commands c;
    cl_event end = NULL;
    cl_int code = CL_SUCCESS;
    int uploads = 0;
    cls_status status = check(s, queue, callers, n_wait, wait, &call, &plan);
    for (int i = 0; i < CLS_STEP_MAPS && status == CLS_OK; i++)
        uploads |= cls_map_changed(s, (enum cls_map)i, plan.map[i]->host, call.rows);
    if (status == CLS_OK)
        status = cls_commands_begin(&c, s, queue, plan.ordered, n_wait, wait, uploads, NULL);
    if (status != CLS_OK)
        return status;
    for (int i = 0; i < CLS_STEP_MAPS && code == CL_SUCCESS; i++)
        code = cls_commands_upload_map(&c, (enum cls_map)i, plan.map[i]->host, call.rows);
    if (code == CL_SUCCESS)
        code = write_args(&plan, &call, &c);
    if (code == CL_SUCCESS)
        code = launch(&plan, &call, &c, plan.forces ? NULL : &end);
    if (code == CL_SUCCESS && plan.forces)
        code = cls_step_launch(&plan, &c, CLS_FORCE, CLS_ARG_SET_FORCE, &end);
    return cls_commands_end(&c, code, "cannot enqueue the draw", end, done);
}

cls_status cls_draw(cls_sampler *s, cl_command_queue queue, const cls_draw_call *callers,
                    cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    return CLS_GUARDED_CALL(s, draw_rows(s, queue, callers, n_wait, wait, done));
}
