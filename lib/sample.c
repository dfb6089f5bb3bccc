/* SPDX-License-Identifier: MIT */
/* cls_sample(): one step. Checks, uploads what changed, enqueues the kernels
 * in the order of the flow; never waits and never allocates. */
#include "internal.h"

/* STEP_ARGS of cl/row/adjust.cl. */
cls_arguments cls_step_arguments(const cls_sampler *s, const cls_plan *plan, enum cls_kernel which, uint32_t has)
{
    const cls_step *const step = &plan->step;
    const int raw = (has & CLS_RAW) != 0;
    /* A raw row is read as it lies, whatever else the step has. */
    cls_arguments a = { cls_sampler_kernel(s, which, step->logits.dtype, raw ? 0 : plan->needs), 0, CL_SUCCESS };
    cls_set_mem(&a, step->logits.buffer);
    cls_set_u64(&a, step->logits.offset / plan->logit_size);
    cls_set_u64(&a, step->logits.row_stride);
    cls_set_u32(&a, s->vocab);
    cls_set_buffer(&a, s, &step->mask.words, step->mask.kind == CLS_MASK_BOOL ? 1 : sizeof(int32_t));
    cls_set_u64(&a, step->mask.row_stride);
    cls_set_u32(&a, step->mask.width);
    cls_set_u32(&a, step->mask.rows);
    cls_set_buffer(&a, s, &step->bias.values, plan->bias_size != 0 ? plan->bias_size : 1);
    cls_set_u64(&a, step->bias.row_stride);
    cls_set_u32(&a, step->bias.rows);
    cls_set_mem(&a, s->slot_buffer);
    cls_set_u32(&a, s->slots);
    cls_set_mem(&a, s->state);
    cls_set_u32(&a, s->layout);
    cls_set_mem(&a, s->lists.buffer);
    cls_set_mem(&a, s->prepared);
    cls_set_map(&a, s, CLS_MAP_SLOTS, plan->map[CLS_MAP_SLOTS]);
    cls_set_map(&a, s, CLS_MAP_MASKS, plan->map[CLS_MAP_MASKS]);
    cls_set_map(&a, s, CLS_MAP_BIASES, plan->map[CLS_MAP_BIASES]);
    cls_set_u32(&a, plan->has | has);
    cls_set_mem(&a, raw ? s->raw_key : s->tile_key);
    cls_set_mem(&a, raw ? s->raw_mass : s->tile_mass);
    cls_set_mem(&a, raw ? s->raw_flags : s->tile_flags);
    cls_set_mem(&a, s->rows);
    return a;
}

/* DRAW_ARGS of cl/row/draw.cl. */
void cls_draw_arguments(cls_arguments *a, const cls_sampler *s, const cls_plan *plan)
{
    const cls_step *const step = &plan->step;
    cls_set_map(a, s, CLS_MAP_POSITIONS, plan->map[CLS_MAP_POSITIONS]);
    cls_set_map(a, s, CLS_MAP_DRAWS, plan->map[CLS_MAP_DRAWS]);
    cls_set_buffer(a, s, &step->random, sizeof(uint64_t));
    cls_set_mem(a, s->work);
    cls_set_mem(a, s->pass);
    cls_set_mem(a, s->sample);
    cls_set_u32(a, (uint32_t)step->invalid_token);
    cls_set_buffer(a, s, &step->tokens, sizeof(int32_t));
    cls_set_buffer(a, s, &step->status, sizeof(int32_t));
    cls_set_buffer(a, s, &step->latest, sizeof(int32_t));
    cls_set_mem(a, s->infill != NULL ? s->infill : s->rows);
    cls_set_u32(a, s->n_end);
}

/* Enough groups to feed the device and to even out rows that need less work;
 * a group a mass tile at most. 32 tiles at most, too, so that a work-item's
 * loops stay below the 65,535 trips that llvmpipe allows it. */
uint32_t cls_tiles_per_group(const cls_sampler *s, uint32_t rows)
{
    const uint64_t all = (uint64_t)s->tiles * rows, groups = 32ull * s->context->shape.compute_units;
    const uint64_t n = all / groups;
    return n < 1 ? 1 : n > 32 ? 32 : (uint32_t)n;
}

cl_int cls_step_launch(const cls_plan *plan, cls_commands *c, enum cls_kernel which, const cls_arguments *a,
                       cl_event *done)
{
    const cls_sampler *const s = c->sampler;
    const int over_tiles = cls_kernel_part(which) == CLS_OVER_TILES;
    const uint32_t per_group = cls_tiles_per_group(s, plan->step.rows);
    const size_t parts = which == CLS_REPORT ? plan->report.given_n + 3 : 1;
    const size_t groups[2] = { over_tiles ? (s->tiles + per_group - 1) / per_group : parts, plan->step.rows };
    return cls_commands_launch(c, a, groups, done);
}

void cls_request_arguments(cls_arguments *a, const cls_sampler *s, const cls_ints *slots, uint32_t has)
{
    cls_set_mem(a, s->slot_buffer);
    cls_set_u32(a, s->slots);
    cls_set_map(a, s, CLS_MAP_SLOTS, slots);
    cls_set_mem(a, s->state);
    cls_set_u32(a, s->layout);
    cls_set_mem(a, s->lists.buffer);
    cls_set_u32(a, s->vocab);
    cls_set_u32(a, has);
}

void cls_path_arguments(cls_arguments *a, const cls_sampler *s, const cls_plan *plan)
{
    cls_set_map(a, s, CLS_MAP_NODES, &plan->nodes);
    cls_set_map(a, s, CLS_MAP_PARENTS, &plan->parents);
    cls_set_map(a, s, CLS_MAP_TOKENS, &plan->draft_ids);
}

void cls_draft_arguments(cls_arguments *a, const cls_sampler *s, const cls_plan *plan)
{
    cls_path_arguments(a, s, plan);
    cls_set_u32(a, plan->draft_kind);
    cls_set_buffer(a, s, &plan->draft, plan->draft_kind == CLS_DRAFT_LOGITS ? plan->logit_size : sizeof(float));
    cls_set_u64(a, plan->draft_stride);
    cls_set_mem(a, s->raw_key);
    cls_set_mem(a, s->raw_mass);
}

cl_int cls_step_prepare(const cls_plan *plan, cls_commands *c)
{
    const cls_sampler *const s = c->sampler;
    cls_arguments a = { cls_sampler_kernel(s, CLS_PREPARE, 0, plan->needs), 0, CL_SUCCESS };
    cls_request_arguments(&a, s, plan->map[CLS_MAP_SLOTS], plan->has);
    cls_set_mem(&a, s->prepared);
    cls_path_arguments(&a, s, plan);
    return cls_step_launch(plan, c, CLS_PREPARE, &a, NULL);
}

cl_int cls_step_survey(const cls_plan *plan, cls_commands *c, uint32_t raw)
{
    cls_arguments a = cls_step_arguments(c->sampler, plan, CLS_SURVEY, raw);
    cls_set_u32(&a, cls_tiles_per_group(c->sampler, plan->step.rows));
    return cls_step_launch(plan, c, CLS_SURVEY, &a, NULL);
}

cl_int cls_step_rows(const cls_plan *plan, cls_commands *c, enum cls_kernel which, cl_event *done)
{
    const cls_sampler *const s = c->sampler;
    cls_arguments a = cls_step_arguments(s, plan, which, 0);
    cls_draw_arguments(&a, s, plan);
    cls_set_u32(&a, s->sample_stride);
    cls_draft_arguments(&a, s, plan);
    return cls_step_launch(plan, c, which, &a, done);
}

cl_int cls_step_pass(const cls_plan *plan, cls_commands *c)
{
    const cls_sampler *const s = c->sampler;
    cls_arguments a = cls_step_arguments(s, plan, CLS_PASS, 0);
    cls_set_u32(&a, cls_tiles_per_group(s, plan->step.rows));
    cls_set_mem(&a, s->pass);
    return cls_step_launch(plan, c, CLS_PASS, &a, NULL);
}

/* Accepts tokens of a buffer, or without one those of the rows' records. */
static cl_int launch_accept(cls_commands *c, uint32_t rows, const cls_ints *tokens, const cls_ints *slots, uint32_t has,
                            cl_event *done)
{
    static const cls_ints none;
    const cls_sampler *const s = c->sampler;
    const size_t groups[2] = { 1, rows };
    cls_arguments a = { cls_sampler_kernel(s, CLS_ACCEPT, 0, 0), 0, CL_SUCCESS };
    cls_set_map(&a, s, CLS_MAP_TOKENS, tokens != NULL ? tokens : &none);
    cls_set_mem(&a, s->rows);
    cls_request_arguments(&a, s, slots, (has & CLS_HAS_SLOT_MAP) | (tokens != NULL ? CLS_HAS_TOKENS : 0));
    return cls_commands_launch(c, &a, groups, done);
}

static cl_int launch_all(cls_plan *plan, cls_commands *c, cl_event *done)
{
    const int reports = cls_report_of_final(plan) || cls_report_of_raw(plan);
    /* What reports on the distribution that was drawn from must do so before
     * the token changes it. */
    const int late = cls_report_of_final(plan) && !(plan->has & CLS_DEFER);
    plan->has |= late ? CLS_DEFER : 0;
    cl_int code = plan->prepare ? cls_step_prepare(plan, c) : CL_SUCCESS;
    if (code == CL_SUCCESS)
        code = cls_step_survey(plan, c, 0);
    if (code == CL_SUCCESS)
        code = cls_step_rows(plan, c, CLS_TOKEN, !plan->search && !reports ? done : NULL);
    if (code == CL_SUCCESS && plan->search)
        code = cls_step_pass(plan, c);
    if (code == CL_SUCCESS && plan->search)
        code = cls_step_rows(plan, c, CLS_SEARCH, !reports ? done : NULL);
    if (code == CL_SUCCESS && reports)
        code = cls_report_launch(plan, c, !late ? done : NULL);
    if (code == CL_SUCCESS && late)
        code = launch_accept(c, plan->step.rows, NULL, &plan->step.slots, plan->has, done);
    return code;
}

cls_status cls_sample(cls_sampler *s, cl_command_queue queue, const cls_step *step, cl_uint n_wait,
                      const cl_event *wait, cl_event *done)
{
    cls_plan plan;
    cls_commands c;
    cl_event end = NULL;
    cl_int code = CL_SUCCESS;
    int uploads = 0;
    if (done != NULL)
        *done = NULL;
    cls_status status = cls_step_check(s, queue, step, n_wait, wait, &plan);
    for (int i = 0; i < CLS_STEP_MAPS && status == CLS_OK; i++)
        uploads |= cls_map_changed(s, (enum cls_map)i, plan.map[i]->host, plan.step.rows);
    if (status == CLS_OK)
        status = cls_commands_begin(&c, s, queue, plan.ordered, n_wait, wait, uploads, &plan.step.mask);
    if (status != CLS_OK)
        return status;
    code = cls_commands_mask(&c, &plan.step.mask);
    for (int i = 0; i < CLS_STEP_MAPS && code == CL_SUCCESS; i++)
        code = cls_commands_map(&c, (enum cls_map)i, plan.map[i]->host, plan.step.rows);
    if (code == CL_SUCCESS)
        code = launch_all(&plan, &c, &end);
    return cls_commands_end(&c, code, "cannot enqueue the step", end, done);
}

cls_status cls_accept(cls_sampler *s, cl_command_queue queue, uint32_t rows, const cls_ints *tokens,
                      const cls_ints *slots, cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    static const cls_ints identity;
    const cls_ints *const map = slots != NULL ? slots : &identity;
    const uint32_t has = map->host != NULL || map->device.buffer != NULL ? CLS_HAS_SLOT_MAP : 0;
    cls_commands c;
    cls_plan ignored;
    cl_event end = NULL;
    int ordered = 0;
    memset(&ignored, 0, sizeof ignored);
    if (done != NULL)
        *done = NULL;
    if (s == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    if (rows < 1 || rows > s->max_rows)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "rows is %u; the sampler was created for 1 to %u", (unsigned)rows,
                        (unsigned)s->max_rows);
    if (tokens == NULL || (tokens->host == NULL && tokens->device.buffer == NULL))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "tokens is NULL");
    if (cls_features_missing(s, CLS_FEATURE_ACCEPT) != CLS_OK)
        return CLS_BAD_ARGUMENT;
    cls_status status = cls_wait_check(s->context, n_wait, wait);
    if (status == CLS_OK)
        status = cls_queue_check(s->context, queue, &ordered);
    if (status == CLS_OK)
        status = cls_map_check(s, "tokens", tokens, rows);
    if (status == CLS_OK)
        status = cls_map_check(s, "slots", map, rows);
    if (status == CLS_OK)
        status = cls_row_slots_check(s, "slots", map, rows, 0, &ignored);
    if (status == CLS_OK)
        status = cls_commands_begin(&c, s, queue, ordered, n_wait, wait,
                                    cls_map_changed(s, CLS_MAP_SLOTS, map->host, rows) ||
                                        cls_map_changed(s, CLS_MAP_TOKENS, tokens->host, rows),
                                    NULL);
    if (status != CLS_OK)
        return status;
    cl_int code = cls_commands_map(&c, CLS_MAP_SLOTS, map->host, rows);
    if (code == CL_SUCCESS)
        code = cls_commands_map(&c, CLS_MAP_TOKENS, tokens->host, rows);
    if (code == CL_SUCCESS)
        code = launch_accept(&c, rows, tokens, map, has, &end);
    return cls_commands_end(&c, code, "cannot enqueue the acceptance", end, done);
}

uint32_t cls_sampler_launches(const cls_sampler *s)
{
    return s != NULL ? s->launches : 0;
}

/* ----------------------------------------------------------------- for tests */

void cls_sampler_force_search(cls_sampler *s, int on)
{
    if (!on || cls_sampler_need(s, CLS_FEATURE_SEARCH) == CLS_OK)
        s->force_search = on;
}

/* A key of limited kernels as others have it. */
static int32_t unlimited_key(int32_t key)
{
    const int32_t shift = CLS_INF_BITS - CLS_LIMIT_BITS;
    return key >= CLS_LIMIT_BITS - 1 ? key + shift : key <= ~(CLS_LIMIT_BITS - 1) ? key - shift : key;
}

cls_status cls_sampler_trace(cls_sampler *s, cl_command_queue queue, cls_row *rows, uint32_t n)
{
    const cl_int code = clEnqueueReadBuffer(queue, s->rows, CL_TRUE, 0, n * sizeof *rows, rows, s->last != NULL ? 1 : 0,
                                            s->last != NULL ? &s->last : NULL, NULL);
    for (uint32_t i = 0; i < n && s->context->shape.limited; i++) {
        rows[i].max_key = unlimited_key(rows[i].max_key);
        rows[i].cut_key = unlimited_key(rows[i].cut_key);
        rows[i].top_key = unlimited_key(rows[i].top_key);
        rows[i].head_key = unlimited_key(rows[i].head_key);
        rows[i].draft_key = unlimited_key(rows[i].draft_key);
    }
    return code == CL_SUCCESS ? CLS_OK : cls_fail(CLS_OPENCL_ERROR, code, "cannot read the row records");
}
