/* SPDX-License-Identifier: MIT */
/* cls_sample() and cls_accept(): a step checks its arguments, uploads what changed and enqueues the
 * kernels. It never waits and never allocates. */
#include "step/step.h"

/* ------------------------------------------------------------ arguments of kernels */

cls_wide cls_wide_of(uint64_t x) { return (cls_wide){(uint32_t)x, (uint32_t)(x >> 32)}; }

cls_wide cls_element_offset(const cls_buffer *b, size_t element)
{
    return cls_wide_of(b->offset / element);
}

cls_wide cls_map_offset(const cls_sampler *s, enum cls_map which, const cls_ints *map)
{
    return map->host != NULL ? cls_wide_of((uint64_t)which * s->max_rows)
                             : cls_element_offset(&map->device, sizeof(int32_t));
}

void cls_request_args(cls_args *a, const cls_sampler *s, const cls_ints *slots, uint32_t has)
{
    a->vocab = s->vocab;
    a->n_slots = s->slots;
    a->layout = s->layout;
    a->has = has;
    a->slot_map_offset = cls_map_offset(s, CLS_MAP_SLOTS, slots);
}

void cls_draw_args(cls_args *a, const cls_sampler *s, const cls_plan *plan)
{
    const cls_step *const step = &plan->step;
    a->positions_offset = cls_map_offset(s, CLS_MAP_POSITIONS, plan->map[CLS_MAP_POSITIONS]);
    a->draws_offset = cls_map_offset(s, CLS_MAP_DRAWS, plan->map[CLS_MAP_DRAWS]);
    a->random_offset = cls_element_offset(&step->random_bits, sizeof(uint64_t));
    a->invalid_token = step->invalid_token;
    a->tokens_offset = cls_element_offset(&step->tokens, sizeof(int32_t));
    a->status_out_offset = cls_element_offset(&step->status, sizeof(int32_t));
    a->latest_offset = cls_element_offset(&plan->outputs.latest, sizeof(int32_t));
    a->n_end = s->infill_end_count;
}

static void draft_args(cls_args *a, const cls_sampler *s, const cls_plan *plan)
{
    a->nodes = CLS_MAP_NODES * s->max_rows;
    a->parents = CLS_MAP_PARENTS * s->max_rows;
    a->firsts = CLS_MAP_FIRSTS * s->max_rows;
    a->draft_ids_offset = cls_map_offset(s, CLS_MAP_TOKENS, &plan->draft_ids);
    a->draft_kind = plan->draft_kind;
    a->draft_offset = cls_element_offset(
        &plan->draft, plan->draft_kind == CLS_DRAFT_LOGITS ? plan->logit_size : sizeof(float));
    a->draft_stride = cls_wide_of(plan->draft_stride);
}

/* Returns CLS_WIDE if each row of logits certainly starts at a multiple of 16 bytes, and kernels
 * can use that: see WIDE in cl/core/load.cl. */
static uint32_t wide_rows(const cls_sampler *s, const cls_plan *plan)
{
    const cls_logits *const l = &plan->step.logits;
    const uint32_t rows = plan->step.logits_rows != 0 ? plan->step.logits_rows : plan->step.rows;
    const cls_shape *const shape = &s->context->shape;
    const cls_buffer b = {l->buffer, l->offset};
    if (shape->vector != 4 || (shape->work_group == 1 && shape->row_group == 1))
        return 0;
    return (rows == 1 || l->row_stride * plan->logit_size % 16 == 0) && cls_buffer_is_wide(&b)
               ? CLS_WIDE
               : 0;
}

static int is_raw(enum cls_arg_set arg_set)
{
    return arg_set == CLS_ARG_SET_RAW || arg_set == CLS_ARG_SET_DRAFTS;
}

uint32_t cls_step_tiles_per_group(const cls_sampler *s, uint64_t tiles)
{
    return s->tiles_per_group != 0 ? s->tiles_per_group
                                   : cls_shape_tiles_per_group(&s->context->shape, tiles);
}

static uint32_t tiles_per_group(const cls_sampler *s, uint32_t rows)
{
    return cls_step_tiles_per_group(s, (uint64_t)s->tiles * rows);
}

void cls_step_args(cls_args *a, const cls_sampler *s, const cls_plan *plan,
                   enum cls_arg_set arg_set)
{
    const cls_step *const step = &plan->step;
    memset(a, 0, sizeof *a);
    cls_request_args(a, s, plan->map[CLS_MAP_SLOTS],
                     plan->has | (is_raw(arg_set) ? CLS_RAW : 0) | wide_rows(s, plan));
    a->n_rows = step->rows;
    a->scratch_stride = s->scratch_stride;
    a->tiles_per_group = tiles_per_group(s, step->rows);
    a->logits_offset = cls_wide_of(step->logits.offset / plan->logit_size);
    a->row_stride = cls_wide_of(step->logits.row_stride);
    a->mask_offset = cls_element_offset(&step->mask.words,
                                        step->mask.kind == CLS_MASK_BOOL ? 1 : sizeof(int32_t));
    a->mask_stride = cls_wide_of(step->mask.row_stride);
    a->mask_width = step->mask.width;
    a->mask_rows = step->mask.rows;
    a->mask_map_offset = cls_map_offset(s, CLS_MAP_MASKS, plan->map[CLS_MAP_MASKS]);
    a->bias_offset =
        cls_element_offset(&step->bias.values, plan->bias_size != 0 ? plan->bias_size : 1);
    a->bias_stride = cls_wide_of(step->bias.row_stride);
    a->bias_rows = step->bias.rows;
    a->logits_rows = step->logits_rows;
    a->logits_map_offset = cls_map_offset(s, CLS_MAP_LOGITS, plan->map[CLS_MAP_LOGITS]);
    a->bias_map_offset = cls_map_offset(s, CLS_MAP_BIASES, plan->map[CLS_MAP_BIASES]);
    cls_draw_args(a, s, plan);
    draft_args(a, s, plan);
    cls_report_args(a, s, plan, is_raw(arg_set));
}

/* ------------------------------------------------------------- buffers of kernels */

cls_buffers cls_step_buffers(const cls_sampler *s, const cls_plan *plan, enum cls_arg_set arg_set)
{
    const cls_step *const step = &plan->step;
    cls_buffers b = cls_sampler_buffers(s, arg_set);
    if (plan->survey != NULL || is_raw(arg_set)) {
        b.tile_key = plan->survey != NULL ? plan->survey[0] : s->raw_key;
        b.tile_mass = plan->survey != NULL ? plan->survey[1] : s->raw_mass;
        b.tile_flags = plan->survey != NULL ? plan->survey[2] : s->raw_flags;
    }
    b.logits = step->logits.buffer;
    b.mask = step->mask.words.buffer;
    b.bias = step->bias.values.buffer;
    b.slot_map = cls_map_buffer(s, plan->map[CLS_MAP_SLOTS]);
    b.mask_map = cls_map_buffer(s, plan->map[CLS_MAP_MASKS]);
    b.bias_map = cls_map_buffer(s, plan->map[CLS_MAP_BIASES]);
    b.logits_map = cls_map_buffer(s, plan->map[CLS_MAP_LOGITS]);
    b.positions = cls_map_buffer(s, plan->map[CLS_MAP_POSITIONS]);
    b.draws = cls_map_buffer(s, plan->map[CLS_MAP_DRAWS]);
    b.random = step->random_bits.buffer;
    b.draft_ids = cls_map_buffer(s, &plan->draft_ids);
    b.draft_x = plan->draft.buffer;
    b.tokens = step->tokens.buffer;
    b.status_out = step->status.buffer;
    b.latest = plan->outputs.latest.buffer;
    cls_report_buffers(&plan->report, &b);
    return b;
}

struct cls_compiled_kernel cls_step_kernel(const cls_sampler *s, const cls_plan *plan,
                                           enum cls_kernel which, enum cls_arg_set arg_set)
{
    return cls_sampler_kernel(s, which, plan->step.logits.dtype, is_raw(arg_set) ? 0 : plan->needs);
}

/* --------------------------------------------------------------------- launches */

cl_int cls_step_launch_arguments(const cls_plan *plan, cls_commands *c, enum cls_kernel which,
                                 const cls_arguments *a, cl_event *done)
{
    const cls_sampler *const s = c->sampler;
    const int over_tiles = cls_kernel_covers_tiles(which);
    const uint32_t per_group = tiles_per_group(s, plan->step.rows);
    const size_t parts = which == CLS_REPORT ? cls_report_groups(s, plan) : 1;
    const size_t groups[2] = {over_tiles ? (s->tiles + per_group - 1) / per_group : parts,
                              plan->step.rows};
    return cls_commands_launch(c, a, groups, done);
}

cl_int cls_step_launch(const cls_plan *plan, cls_commands *c, enum cls_kernel which,
                       enum cls_arg_set arg_set, cl_event *done)
{
    const cls_buffers b = cls_step_buffers(c->sampler, plan, arg_set);
    const cls_arguments a =
        cls_kernel_arguments(cls_step_kernel(c->sampler, plan, which, arg_set), which, &b);
    return cls_step_launch_arguments(plan, c, which, &a, done);
}

cl_int cls_step_rows(const cls_plan *plan, cls_commands *c, cl_event *done)
{
    cl_int code = cls_step_launch(plan, c, CLS_TOKEN, plan->arg_set, plan->search ? NULL : done);
    if (code == CL_SUCCESS && plan->search)
        code = cls_step_launch(plan, c, CLS_PASS, plan->arg_set, NULL);
    if (code == CL_SUCCESS && plan->search)
        code = cls_step_launch(plan, c, CLS_SEARCH, plan->arg_set, done);
    return code;
}

cl_int cls_step_force_args(cls_plan *plan, cls_commands *c)
{
    cls_args a;
    plan->forces = (plan->needs & CLS_FEATURE_FORCED) != 0;
    if (!plan->forces)
        return CL_SUCCESS;
    cls_step_args(&a, c->sampler, plan, CLS_ARG_SET_FORCE);
    plan->has &= ~(uint32_t)CLS_HAS_LATEST;
    plan->has |= CLS_DEFER | CLS_ACCEPTS_LATER;
    return cls_commands_write_args(c, CLS_ARG_SET_FORCE, &a);
}

/* Writes the arguments of accepting `tokens`, per_row of each row, or the tokens of the row records
 * if that is NULL. */
static cl_int accept_args(cls_commands *c, const cls_ints *tokens, uint32_t per_row,
                          const cls_ints *slots, uint32_t has)
{
    const cls_sampler *const s = c->sampler;
    cls_args a;
    memset(&a, 0, sizeof a);
    cls_request_args(&a, s, slots,
                     (has & CLS_HAS_SLOT_MAP) | (tokens != NULL ? CLS_HAS_TOKENS : 0));
    a.per_row = per_row;
    if (tokens != NULL)
        a.tokens_offset = cls_map_offset(s, CLS_MAP_TOKENS, tokens);
    return cls_commands_write_args(c, CLS_ARG_SET_ACCEPT, &a);
}

static cl_int launch_accept(cls_commands *c, uint32_t rows, const cls_ints *tokens,
                            const cls_ints *slots, cl_event *done)
{
    const cls_sampler *const s = c->sampler;
    const size_t groups[2] = {1, rows};
    cls_buffers b = cls_sampler_buffers(s, CLS_ARG_SET_ACCEPT);
    b.slot_map = cls_map_buffer(s, slots);
    b.tokens = tokens != NULL ? cls_map_buffer(s, tokens) : NULL;
    const cls_arguments a =
        cls_kernel_arguments(cls_sampler_kernel(s, CLS_ACCEPT, 0, 0), CLS_ACCEPT, &b);
    return cls_commands_launch(c, &a, groups, done);
}

cl_int cls_step_write_args(cls_plan *plan, cls_commands *c)
{
    cls_args a;
    /* Outputs of the final distribution are computed before the token is accepted, which would
     * change that distribution. */
    plan->accept_later = cls_report_of_final(plan) && !(plan->has & CLS_DEFER);
    plan->has |= plan->accept_later ? CLS_DEFER | CLS_ACCEPTS_LATER : 0;
    cl_int code = cls_step_force_args(plan, c);
    cls_step_args(&a, c->sampler, plan, plan->arg_set);
    if (code == CL_SUCCESS)
        code = cls_commands_write_args(c, plan->arg_set, &a);
    if (code == CL_SUCCESS && cls_report_of_raw(plan)) {
        cls_step_args(&a, c->sampler, plan, CLS_ARG_SET_RAW);
        code = cls_commands_write_args(c, CLS_ARG_SET_RAW, &a);
    }
    if (code == CL_SUCCESS && plan->accept_later)
        code = accept_args(c, NULL, 1, &plan->step.slots, plan->has);
    return code;
}

cl_int cls_step_draw(const cls_plan *plan, cls_commands *c, cl_event *done)
{
    const int reports = cls_report_of_final(plan) || cls_report_of_raw(plan);
    cl_event *const finished = reports ? NULL : done, *const drawn = plan->forces ? NULL : finished;
    cl_int code = cls_step_rows(plan, c, drawn);
    if (code == CL_SUCCESS && plan->forces)
        code = cls_step_launch(plan, c, CLS_FORCE, CLS_ARG_SET_FORCE, finished);
    if (code == CL_SUCCESS && reports)
        code = cls_report_launch(plan, c, !plan->accept_later ? done : NULL);
    if (code == CL_SUCCESS && plan->accept_later)
        code = launch_accept(c, plan->step.rows, NULL, &plan->step.slots, done);
    return code;
}

static cl_int launch_all(cls_plan *plan, cls_commands *c, cl_event *done)
{
    cl_int code = cls_step_write_args(plan, c);
    if (code == CL_SUCCESS && plan->prepare)
        code = cls_step_launch(plan, c, CLS_PREPARE, plan->arg_set, NULL);
    if (code == CL_SUCCESS)
        code = cls_step_launch(plan, c, CLS_SURVEY, plan->arg_set, NULL);
    return code == CL_SUCCESS ? cls_step_draw(plan, c, done) : code;
}

cls_status cls_step_upload(cls_plan *plan, cls_sampler *s, cl_command_queue queue, cl_uint n_wait,
                           const cl_event *wait, cls_commands *c, cl_int *code)
{
    int uploads = plan->uploads;
    for (int i = 0; i < CLS_STEP_MAPS; i++)
        uploads |= cls_map_changed(s, (enum cls_map)i, plan->map[i]->host, plan->step.rows);
    const cls_status status =
        cls_commands_begin(c, s, queue, plan->ordered, n_wait, wait, uploads, &plan->step.mask);
    *code = status == CLS_OK ? cls_commands_upload_mask(c, &plan->step.mask) : CL_SUCCESS;
    for (int i = 0; i < CLS_STEP_MAPS && status == CLS_OK && *code == CL_SUCCESS; i++)
        *code = cls_commands_upload_map(c, (enum cls_map)i, plan->map[i]->host, plan->step.rows);
    return status;
}

cls_status cls_step_enqueue(cls_plan *plan, cls_sampler *s, cl_command_queue queue, cl_uint n_wait,
                            const cl_event *wait, cl_event *done)
{
    cls_commands c;
    cl_event end = NULL;
    cl_int code;
    const cls_status status = cls_step_upload(plan, s, queue, n_wait, wait, &c, &code);
    if (status != CLS_OK)
        return status;
    if (code == CL_SUCCESS)
        code = launch_all(plan, &c, &end);
    return cls_commands_end(&c, code, "cannot enqueue the step", end, done);
}

static cls_status sample_step(cls_sampler *s, cl_command_queue queue, const cls_step *step,
                              cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    cls_plan plan;
    const cls_status status = cls_step_check(s, queue, step, 0, n_wait, wait, &plan);
    return status == CLS_OK ? cls_step_enqueue(&plan, s, queue, n_wait, wait, done) : status;
}

cls_status cls_sample(cls_sampler *s, cl_command_queue queue, const cls_step *step, cl_uint n_wait,
                      const cl_event *wait, cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    return CLS_GUARDED_CALL(s, sample_step(s, queue, step, n_wait, wait, done));
}

static cls_status check_accepted(const cls_sampler *s, uint32_t rows, uint32_t per_row,
                                 const cls_ints *tokens)
{
    if (rows < 1 || rows > s->max_rows)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "rows is %u; the sampler was created for 1 to %u", (unsigned)rows,
                        (unsigned)s->max_rows);
    if (per_row < 1 || per_row > CLS_MAX_ACCEPTED)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "per_row is %u; it must be 1 to %d",
                        (unsigned)per_row, CLS_MAX_ACCEPTED);
    if (tokens == NULL || (tokens->host == NULL && tokens->device.buffer == NULL))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "tokens is NULL");
    return cls_compiled_features_check(s, CLS_FEATURE_ACCEPT);
}

static cls_status accept_tokens(cls_sampler *s, cl_command_queue queue, uint32_t rows,
                                uint32_t per_row, const cls_ints *tokens, const cls_ints *slots,
                                cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    static const cls_ints identity;
    const cls_ints *const map = slots != NULL ? slots : &identity;
    const uint32_t has = map->host != NULL || map->device.buffer != NULL ? CLS_HAS_SLOT_MAP : 0;
    cls_commands c;
    cls_plan ignored;
    cls_mask many = {.width = per_row, .row_stride = per_row, .rows = rows};
    cl_event end = NULL;
    int ordered = 0;
    memset(&ignored, 0, sizeof ignored);
    if (s == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    cls_status status = check_accepted(s, rows, per_row, tokens);
    if (status == CLS_OK)
        status = cls_wait_check(s->context, n_wait, wait);
    if (status == CLS_OK)
        status = cls_queue_check(s->context, queue, &ordered);
    if (status == CLS_OK)
        status = cls_map_check(s, "tokens", tokens, rows * per_row, NULL);
    if (status == CLS_OK)
        status = cls_map_check(s, "slots", map, rows, NULL);
    if (status == CLS_OK)
        status = cls_row_slots_check(s, "slots", map, rows, 0, &ignored);
    if (status != CLS_OK)
        return status;
    cls_ints accepted = *tokens;
    if (per_row > 1) { /* the tokens are uploaded as a mask of the host would be */
        many.host = accepted.host;
        accepted.host = NULL;
    }
    status = cls_commands_begin(&c, s, queue, ordered, n_wait, wait,
                                cls_map_changed(s, CLS_MAP_SLOTS, map->host, rows) ||
                                    cls_map_changed(s, CLS_MAP_TOKENS, accepted.host, rows),
                                &many);
    if (status != CLS_OK)
        return status;
    cl_int code = cls_commands_upload_map(&c, CLS_MAP_SLOTS, map->host, rows);
    if (code == CL_SUCCESS)
        code = cls_commands_upload_map(&c, CLS_MAP_TOKENS, accepted.host, rows);
    if (code == CL_SUCCESS && many.host != NULL) {
        code = cls_commands_upload_mask(&c, &many);
        accepted.device = many.words;
    }
    if (code == CL_SUCCESS)
        code = accept_args(&c, &accepted, per_row, map, has);
    if (code == CL_SUCCESS)
        code = launch_accept(&c, rows, &accepted, map, &end);
    return cls_commands_end(&c, code, "cannot enqueue the acceptance", end, done);
}

cls_status cls_accept(cls_sampler *s, cl_command_queue queue, uint32_t rows, uint32_t per_row,
                      const cls_ints *tokens, const cls_ints *slots, cl_uint n_wait,
                      const cl_event *wait, cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    return CLS_GUARDED_CALL(
        s, accept_tokens(s, queue, rows, per_row, tokens, slots, n_wait, wait, done));
}

uint32_t cls_sampler_launches(const cls_sampler *s) { return s != NULL ? s->launches : 0; }

/* ----------------------------------------------------------------- for tests */

cls_status cls_sampler_trace(cls_sampler *s, cl_command_queue queue, cls_row *rows, uint32_t n)
{
    cls_sampler_flush(s, queue);
    const cl_int code = clEnqueueReadBuffer(queue, s->rows, CL_TRUE, 0, n * sizeof *rows, rows,
                                            s->last_event != NULL ? 1 : 0,
                                            s->last_event != NULL ? &s->last_event : NULL, NULL);
    return code == CL_SUCCESS ? CLS_OK
                              : cls_fail(CLS_OPENCL_ERROR, code, "cannot read the row records");
}
