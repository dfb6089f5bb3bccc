/* SPDX-License-Identifier: MIT */
/* cls_verify(): samples the rows of all drafts in a step that leaves the slots unchanged; then a
 * kernel accepts drafts and changes the slots. It never waits, and allocates only for large masks
 * on the host. */
#include "step/step.h"

/* ---------------------------------------------------------------------- checks */

/* Checks the requests' rows, and sets the numbers that follow from them. */
static cls_status check_call_rows(cls_plan *plan)
{
    const uint32_t most_rows = (uint32_t)plan->count[CLS_N_MOST_ROWS];
    cls_verify_call *const c = &plan->verify;
    uint32_t most = 0;
    if (c->requests < 1 || c->requests > most_rows)
        return cls_refuse("call->requests is %u; the sampler was created for 1 to %u rows",
                          (unsigned)c->requests, (unsigned)most_rows);
    if (c->row_offsets == NULL)
        return cls_refuse("call->row_offsets is NULL");
    if (c->row_offsets[0] != 0)
        return cls_refuse("call->row_offsets[0] is %d; it must be 0", (int)c->row_offsets[0]);
    for (uint32_t i = 0; i < c->requests; i++) {
        const int64_t n = (int64_t)c->row_offsets[i + 1] - c->row_offsets[i];
        if (n < 1 || n > CLS_MAX_DRAFTS + 1)
            return cls_refuse(
                "call->row_offsets[%u] is %d after %d: a request must have 1 to %d rows, "
                "one more than its drafts",
                (unsigned)i + 1, (int)c->row_offsets[i + 1], (int)c->row_offsets[i],
                CLS_MAX_DRAFTS + 1);
        most = (uint32_t)n - 1 > most ? (uint32_t)n - 1 : most;
    }
    plan->step.rows = (uint32_t)c->row_offsets[c->requests];
    if (plan->step.rows > most_rows)
        return cls_refuse(
            "call->row_offsets has %u rows in total; the sampler was created for 1 to %u",
            (unsigned)plan->step.rows, (unsigned)most_rows);
    if (c->max_drafts == 0)
        c->max_drafts = most;
    if (c->max_drafts < most || c->max_drafts > CLS_MAX_DRAFTS)
        return cls_refuse(
            "call->max_drafts is %u; it must be %u, the most drafts of a request, to %d",
            (unsigned)c->max_drafts, (unsigned)most, CLS_MAX_DRAFTS);
    plan->count[CLS_N_REQUESTS] = c->requests;
    plan->count[CLS_N_DRAFTS] = plan->step.rows - c->requests;
    plan->count[CLS_N_MOST_DRAFTS] = c->max_drafts;
    plan->count[CLS_N_MOST_TOKENS] = c->max_drafts + 1;
    plan->count[CLS_N_PLACES] = (uint64_t)c->requests * (c->max_drafts + 1);
    return CLS_OK;
}

static cls_status check_call_parents(const cls_verify_call *c)
{
    for (uint32_t i = 0, k = 0; i < c->requests && c->parents.host != NULL; i++)
        for (int32_t at = 0; at < c->row_offsets[i + 1] - c->row_offsets[i] - 1; at++, k++)
            if (c->parents.host[k] < -1 || c->parents.host[k] >= at)
                return cls_refuse(
                    "call->parents: the parent of draft %d of request %u is %d; it must "
                    "be -1 or an earlier draft",
                    (int)at, (unsigned)i, (int)c->parents.host[k]);
    return CLS_OK;
}

/* Sets the default of the stride from draft to draft, and checks it and the one from request to
 * request. *extent becomes the elements of a buffer in which all drafts lie, of `width` elements
 * each, or UINT64_MAX if 64 bits do not hold the number. `what`: how the strides' names begin. */
static cls_status check_places(const cls_plan *plan, const char *what, uint64_t width,
                               uint64_t *stride, uint64_t apart, uint64_t *extent)
{
    const cls_verify_call *const c = &plan->verify;
    const uint64_t drafts = plan->count[CLS_N_DRAFTS];
    if (*stride == 0)
        *stride = width;
    if (*stride < width || (apart != 0 && apart < width))
        return cls_refuse("call->%s_%s is %llu, which is less than the %llu elements of a row",
                          what, *stride < width ? "stride" : "request_stride",
                          (unsigned long long)(*stride < width ? *stride : apart),
                          (unsigned long long)width);
    *extent = apart != 0 || drafts == 0 ? 0 : cls_extent(drafts, *stride, width, 1);
    for (uint32_t i = 0; i < c->requests && apart != 0; i++) {
        const int32_t n = c->row_offsets[i + 1] - c->row_offsets[i] - 1;
        const uint64_t own = n != 0 ? cls_extent((uint64_t)n, *stride, width, 1) : 0,
                       end = n != 0 ? cls_extent(i + UINT64_C(1), apart, own, 1) : 0;
        *extent = end > *extent ? end : *extent;
    }
    return CLS_OK;
}

static uint64_t divisor_of(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Checks the fields that only sparse distributions have. */
static cls_status check_sparse(const cls_verify_call *c)
{
    const int sparse = c->draft_kind == CLS_DRAFT_SPARSE;
    if (!sparse && (c->draft_width != 0 || cls_buffer_is_set(&c->draft_tokens) ||
                    c->draft_vocab != 0 || cls_buffer_is_set(&c->draft_map)))
        return cls_refuse("call->%s is set, but call->draft_kind is %d, not CLS_DRAFT_SPARSE",
                          c->draft_width != 0                   ? "draft_width"
                          : cls_buffer_is_set(&c->draft_tokens) ? "draft_tokens"
                          : c->draft_vocab != 0                 ? "draft_vocab"
                                                                : "draft_map",
                          (int)c->draft_kind);
    if (sparse && (c->draft_width < 1 || c->draft_width > CLS_MAX_DRAFT_WIDTH))
        return cls_refuse("call->draft_width is %u; it must be 1 to %d", (unsigned)c->draft_width,
                          CLS_MAX_DRAFT_WIDTH);
    return (c->draft_vocab != 0) == cls_buffer_is_set(&c->draft_map)
               ? CLS_OK
               : cls_refuse(c->draft_vocab != 0
                                ? "call->draft_vocab is %u, but call->draft_map.buffer is NULL"
                                : "call->draft_map is set, but call->draft_vocab is %u",
                            (unsigned)c->draft_vocab);
}

/* Checks the strides of the drafts, and finds the unit in which the kernels count their logits. */
static cls_status check_strides_of_drafts(cls_plan *plan)
{
    cls_verify_call *const c = &plan->verify;
    const uint64_t width =
        c->draft_kind == CLS_DRAFT_SPARSE ? c->draft_width : plan->count[CLS_N_VOCAB];
    uint64_t *const ids = &plan->count[CLS_N_DRAFT_IDS], *const extent =
                                                             &plan->count[CLS_N_DRAFT_EXTENT];
    cls_status status = check_places(plan, "ids", 1, &c->ids_stride, c->ids_request_stride, ids);
    if (status == CLS_OK)
        status =
            check_places(plan, "draft", width, &c->draft_stride, c->draft_request_stride, extent);
    if (status != CLS_OK)
        return status;
    if (c->draft_ids.host != NULL && *ids >= SIZE_MAX / 8)
        return cls_refuse("call->draft_ids: its ids on the host exceed the memory of any host");
    if (c->draft_ids.host != NULL)
        *ids = plan->count[CLS_N_DRAFTS]; /* they are gathered */
    plan->draft_unit = divisor_of(c->draft_stride, c->draft_request_stride);
    return c->draft_kind != CLS_DRAFT_LOGITS || c->draft_request_stride == 0 ||
                   *extent / plan->draft_unit < INT32_MAX
               ? CLS_OK
               : cls_refuse(
                     "call->draft_stride is %llu and call->draft_request_stride %llu: logits "
                     "that lie so far apart need strides with a larger common divisor",
                     (unsigned long long)c->draft_stride,
                     (unsigned long long)c->draft_request_stride);
}

static cls_status check_call_drafts(cls_plan *plan)
{
    const cls_verify_call *const c = &plan->verify;
    const uint32_t drafts = (uint32_t)plan->count[CLS_N_DRAFTS];
    const int has_ids = c->draft_ids.host != NULL || cls_buffer_is_set(&c->draft_ids.device);
    plan->count[CLS_N_DRAFT_BYTES] =
        c->draft_kind == CLS_DRAFT_LOGITS ? cls_dtype_size(c->logits.dtype) : sizeof(float);
    plan->count[CLS_N_DRAFT_VOCAB] = c->draft_vocab;
    cls_status status = check_sparse(c);
    if (status == CLS_OK)
        status = check_strides_of_drafts(plan);
    if (status != CLS_OK)
        return status;
    if (drafts != 0 && !has_ids)
        return cls_refuse("call->draft_ids is NULL, but there are %u drafts", (unsigned)drafts);
    if (c->draft_kind == CLS_DRAFT_NONE && cls_buffer_is_set(&c->draft))
        return cls_refuse("call->draft is set, but call->draft_kind is CLS_DRAFT_NONE");
    const cls_buffer *const needed =
        c->draft_kind == CLS_DRAFT_SPARSE && cls_buffer_is_set(&c->draft) ? &c->draft_tokens
                                                                          : &c->draft;
    return c->draft_kind == CLS_DRAFT_NONE || cls_buffer_is_set(needed) || drafts == 0
               ? CLS_OK
               : cls_refuse("call->%s.buffer is NULL, but call->draft_kind is %d",
                            needed == &c->draft ? "draft" : "draft_tokens", (int)c->draft_kind);
}

/* Checks the method and its numbers. */
static cls_status check_fields(const cls_verify_call *c)
{
    if (!(c->epsilon > 0.0f && c->epsilon <= 1.0f))
        return cls_refuse("call->epsilon is %g; it must be above 0 and at most 1",
                          (double)c->epsilon);
    if (!(c->delta > 0.0f && c->delta <= 16.0f))
        return cls_refuse("call->delta is %g; it must be above 0 and at most 16", (double)c->delta);
    if (c->method < CLS_VERIFY_MATCH || c->method > CLS_VERIFY_TYPICAL)
        return cls_refuse("call->method is %d, which is not a cls_verify_method", (int)c->method);
    return c->parents.host == NULL || c->method == CLS_VERIFY_MATCH
               ? CLS_OK
               : cls_refuse("call->parents is set: call->method must then be CLS_VERIFY_MATCH, but "
                            "is %d",
                            (int)c->method);
}

/* Expands the requests' slots, positions and draws to maps of the rows, and makes the maps that say
 * which draft a row or a draft follows. */
static void expand_maps(const cls_sampler *s, cls_plan *plan)
{
    const cls_verify_call *const c = &plan->verify;
    cls_step *const step = &plan->step;
    int32_t *map[CLS_MAPS];
    for (int i = 0; i < CLS_MAPS; i++)
        map[i] = s->expanded_maps + (size_t)i * s->max_rows;
    for (uint32_t i = 0, k = 0; i < c->requests; i++) {
        const uint32_t first = (uint32_t)c->row_offsets[i], last = (uint32_t)c->row_offsets[i + 1],
                       begin = k;
        map[CLS_MAP_FIRSTS][i] = (int32_t)first;
        for (uint32_t row = first; row < last; row++) {
            int32_t depth = 0;
            map[CLS_MAP_NODES][row] = -1;
            if (row > first) {
                const int32_t parent =
                    c->parents.host != NULL ? c->parents.host[k] : (int32_t)(k - begin) - 1;
                map[CLS_MAP_PARENTS][k] = parent < 0 ? -1 : parent + (int32_t)begin;
                map[CLS_MAP_NODES][row] = (int32_t)k;
                depth = (int32_t)((uint32_t)map[CLS_MAP_POSITIONS][(int32_t)first + 1 + parent] -
                                  (uint32_t)map[CLS_MAP_POSITIONS][first] + 1u);
                k++;
            }
            map[CLS_MAP_SLOTS][row] = c->slots.host != NULL ? c->slots.host[i] : (int32_t)i;
            map[CLS_MAP_POSITIONS][row] =
                (int32_t)((c->positions.host != NULL ? (uint32_t)c->positions.host[i] : 0u) +
                          (uint32_t)depth);
            map[CLS_MAP_DRAWS][row] = c->draws.host != NULL ? c->draws.host[i] : 0;
        }
    }
    step->slots.host = map[CLS_MAP_SLOTS];
    step->positions.host = map[CLS_MAP_POSITIONS];
    step->draws.host = map[CLS_MAP_DRAWS];
    plan->nodes.host = map[CLS_MAP_NODES];
    plan->parents.host = map[CLS_MAP_PARENTS];
    plan->firsts.host = map[CLS_MAP_FIRSTS];
    plan->has |= CLS_DRAFTS | CLS_DEFER;
    plan->has |= c->positions.host != NULL ? CLS_HAS_POSITIONS : CLS_POSITIONS_ADD;
}

/* Gathers ids that the host has with strides. Where the kernels read drafts' logits that are not
 * evenly spaced, makes the map of their rows. */
static void place_drafts(const cls_sampler *s, cls_plan *plan)
{
    cls_verify_call *const c = &plan->verify;
    const uint64_t apart = c->ids_request_stride;
    const int32_t *const ids = c->ids_stride != 1 || apart != 0 ? c->draft_ids.host : NULL;
    const int spaced = plan->draft_kind == CLS_DRAFT_LOGITS && c->draft_request_stride != 0;
    int32_t *const gathered = s->expanded_maps + (size_t)CLS_MAP_TOKENS * s->max_rows,
                   *const rows = s->expanded_maps + (size_t)CLS_MAP_LOGITS * s->max_rows;
    for (uint32_t i = 0, k = 0; i < c->requests; i++)
        for (int32_t j = 0; j < c->row_offsets[i + 1] - c->row_offsets[i] - 1; j++, k++) {
            if (ids != NULL)
                gathered[k] =
                    ids[apart == 0 ? k * c->ids_stride : i * apart + (uint32_t)j * c->ids_stride];
            if (spaced)
                rows[k] = (int32_t)((i * c->draft_request_stride + (uint32_t)j * c->draft_stride) /
                                    plan->draft_unit);
        }
    plan->draft_rows.host = spaced ? rows : NULL;
    if (ids == NULL)
        return;
    c->draft_ids.host = gathered;
    c->ids_stride = 1;
    c->ids_request_stride = 0;
}

static cls_status read_drafts(const void *callers, cls_plan *plan)
{
    cls_verify_call *const c = &plan->verify;
    cls_status status = CLS_STRUCT_READ(c, callers, "call");
    plan->arg_set = CLS_ARG_SET_VERIFY;
    plan->needs = CLS_FEATURE_VERIFY;
    plan->step.logits = c->logits;
    plan->step.mask = c->mask;
    plan->step.bias = c->bias;
    if (status == CLS_OK)
        status = cls_outputs_read(plan, c->outputs);
    if (status == CLS_OK)
        status = check_call_rows(plan);
    if (status == CLS_OK)
        status = check_fields(c);
    if (status == CLS_OK)
        status = check_call_parents(c);
    return status == CLS_OK ? check_call_drafts(plan) : status;
}

/* Fails if a tree has a request with relaxed acceptance. */
static cls_status check_call_relaxed(const cls_sampler *s, const cls_verify_call *c)
{
    for (uint32_t i = 0; i < c->requests && c->parents.host != NULL; i++) {
        const int32_t slot = c->slots.host != NULL ? c->slots.host[i] : (int32_t)i;
        if (slot >= 0 && (s->request[slot].slot.flags & CLS_SLOT_RELAXED))
            return cls_refuse("call->parents is set, and so is params->relaxed_top_k of slot %d; "
                              "relaxed acceptance supports no trees",
                              (int)slot);
    }
    return CLS_OK;
}

static cls_status finish_drafts(cls_sampler *s, cls_plan *plan)
{
    cls_verify_call *const c = &plan->verify;
    cls_status status = cls_row_slots_check(s, &c->slots, c->requests, 0, plan);
    if (status == CLS_OK)
        status = check_call_relaxed(s, c);
    if (status == CLS_OK && (plan->needs & CLS_FEATURE_WATERMARK) &&
        c->method != CLS_VERIFY_MATCH && plan->count[CLS_N_DRAFTS] != 0)
        status = cls_refuse("call->method is %d, but a slot has params->watermark_context: only "
                            "CLS_VERIFY_MATCH marks the tokens that it accepts",
                            (int)c->method);
    if (status == CLS_OK && (plan->needs & CLS_NEED_MIXED) && c->method != CLS_VERIFY_MATCH &&
        plan->count[CLS_N_DRAFTS] != 0)
        status =
            cls_refuse("call->method is %d, but a slot has params->post_thinking, and only one "
                       "of its phases is greedy: only CLS_VERIFY_MATCH verifies both",
                       (int)c->method);
    if (status == CLS_OK && (plan->needs & CLS_NEED_STOPS) && c->method != CLS_VERIFY_MATCH &&
        plan->count[CLS_N_DRAFTS] != 0)
        status = cls_refuse("call->method is %d, but a slot has params->stop_action: only "
                            "CLS_VERIFY_MATCH verifies beside it",
                            (int)c->method);
    if (status != CLS_OK)
        return status;
    expand_maps(s, plan);
    if (c->method != CLS_VERIFY_STANDARD && c->method != CLS_VERIFY_BLOCK)
        c->draft = c->draft_tokens = c->draft_map =
            (cls_buffer){.buffer = NULL}; /* the other methods do not read them */
    plan->draft_kind = cls_buffer_is_set(&c->draft) && plan->count[CLS_N_DRAFTS] != 0
                           ? (uint32_t)c->draft_kind
                           : CLS_DRAFT_NONE;
    place_drafts(s, plan);
    return CLS_OK;
}

static void verify_args(cls_args *a, const cls_sampler *s, const cls_plan *plan)
{
    const cls_verify_call *const c = &plan->verify;
    a->nodes = CLS_MAP_NODES * s->max_rows;
    a->parents = CLS_MAP_PARENTS * s->max_rows;
    a->firsts = CLS_MAP_FIRSTS * s->max_rows;
    a->draft_kind = plan->draft_kind;
    a->draft_stride = cls_wide_of(c->draft_stride);
    a->draft_apart = cls_wide_of(c->draft_request_stride);
    a->draft_width = c->draft_width;
    a->draft_vocab = c->draft_vocab;
    a->ids_stride = cls_wide_of(c->ids_stride);
    a->ids_apart = cls_wide_of(c->ids_request_stride);
    a->method = (uint32_t)c->method;
    a->requests = c->requests;
    a->bonus = c->disable_bonus == 0;
    a->epsilon = cls_bits_q20(c->epsilon);
    a->delta = cls_bits_q20(c->delta);
    a->max_drafts = c->max_drafts;
}

/* --------------------------------------------------------------------- launches */

/* Returns a plan that reads the drafts' own logits as raw rows. */
static cls_plan drafts_plan(const cls_plan *of, const cls_sampler *s)
{
    cls_plan plan = *of;
    const cls_logits logits = {
        .values = of->verify.draft, .row_stride = of->draft_unit, .dtype = of->step.logits.dtype};
    plan.step.rows = (uint32_t)of->count[CLS_N_DRAFTS];
    plan.count[CLS_N_LOGITS_ROWS] = plan.step.rows;
    cls_plan_set_logits(&plan, s, &logits);
    plan.has = CLS_NO_SLOTS;
    if (of->draft_rows.host != NULL) { /* the call has checked that all are in the buffer */
        plan.has |= CLS_HAS_LOGITS_MAP;
        plan.step.logits_rows = INT32_MAX;
    }
    return plan;
}

/* Writes all arguments, before the first launch. What is reported on tokens is computed before they
 * are accepted, which would change the distributions. */
static cl_int write_verify_args(cls_plan *plan, const cls_plan *drafts, cls_commands *c)
{
    plan->accept_later =
        cls_report_kinds(plan) != 0 || (plan->wants & CLS_WANTS(CLS_VERIFIED_TOKEN_STATUS)) != 0;
    plan->has |= plan->accept_later ? CLS_ACCEPTS_LATER : 0;
    cl_int code = cls_args_write(plan, c, CLS_ARG_SET_VERIFY);
    if (code == CL_SUCCESS && plan->draft_kind == CLS_DRAFT_LOGITS)
        code = cls_args_write(drafts, c, CLS_ARG_SET_DRAFTS);
    if (code == CL_SUCCESS && cls_report_of_raw(plan))
        code = cls_args_write(plan, c, CLS_ARG_SET_RAW);
    if (code == CL_SUCCESS && plan->accept_later)
        code = cls_args_write(plan, c, CLS_ARG_SET_ACCEPT);
    return code;
}

static cl_int launch_verify(cls_plan *plan, cls_commands *c, cl_event *done)
{
    const int has_logits = plan->draft_kind == CLS_DRAFT_LOGITS;
    const int has_residual =
        plan->count[CLS_N_DRAFTS] != 0 && plan->verify.method != CLS_VERIFY_MATCH;
    cls_plan drafts;
    if (has_logits)
        drafts = drafts_plan(plan, c->sampler);
    cl_int code = write_verify_args(plan, &drafts, c);
    if (code == CL_SUCCESS)
        code = cls_step_launch(plan, c, CLS_PREPARE, plan->arg_set, NULL);
    if (code == CL_SUCCESS)
        code = cls_step_launch(plan, c, CLS_SURVEY, plan->arg_set, NULL);
    if (code == CL_SUCCESS && has_logits)
        code = cls_step_launch(&drafts, c, CLS_SURVEY, CLS_ARG_SET_DRAFTS, NULL);
    if (code == CL_SUCCESS)
        code = cls_step_rows(plan, c, NULL);
    if (code == CL_SUCCESS && has_residual)
        code = cls_step_launch(plan, c, CLS_RESIDUAL, plan->arg_set, NULL);
    if (code == CL_SUCCESS)
        code =
            cls_step_launch(plan, c, CLS_VERIFY, plan->arg_set, plan->accept_later ? NULL : done);
    if (code == CL_SUCCESS && plan->accept_later)
        code = cls_report_launch(plan, c, NULL);
    if (code == CL_SUCCESS && plan->accept_later)
        code = cls_step_launch(plan, c, CLS_ACCEPT, CLS_ARG_SET_ACCEPT, done);
    return code;
}

cls_status cls_verify(cls_sampler *s, cl_command_queue queue, const cls_verify_call *callers,
                      cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    static const cls_call call = {&cls_verify_operands, read_drafts,
                                  finish_drafts,        launch_verify,
                                  cls_run_verify,       "cannot enqueue the verification",
                                  verify_args};
    return cls_call_run(&call, s, queue, callers, n_wait, wait, done);
}
