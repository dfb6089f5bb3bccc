/* SPDX-License-Identifier: MIT */
/* cls_verify(): samples the rows of all drafts in a step that leaves the slots unchanged; then a
 * kernel accepts drafts and changes the slots. It never waits and never allocates. */
#include "step/step.h"

/* A verification whose arguments were checked. */
typedef struct verification {
    cls_verify_call call;
    cls_plan plan;
    cls_ints map[CLS_MAPS];
    uint32_t rows, drafts;
    uint32_t wants;
    cls_buffer output[CLS_VERIFIED];
} verification;

/* ---------------------------------------------------------------------- checks */

static cls_status check_rows(const cls_sampler *s, verification *v)
{
    const cls_verify_call *const c = &v->call;
    uint32_t most = 0;
    if (c->requests < 1 || c->requests > s->max_rows)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->requests is %u; the sampler was created for 1 to %u rows",
                        (unsigned)c->requests, (unsigned)s->max_rows);
    if (c->row_offsets == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "call->row_offsets is NULL");
    if (c->row_offsets[0] != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "call->row_offsets[0] is %d; it must be 0",
                        (int)c->row_offsets[0]);
    for (uint32_t i = 0; i < c->requests; i++) {
        const int64_t n = (int64_t)c->row_offsets[i + 1] - c->row_offsets[i];
        if (n < 1 || n > CLS_MAX_DRAFTS + 1)
            return cls_fail(
                CLS_BAD_ARGUMENT, CL_SUCCESS,
                "call->row_offsets[%u] is %d after %d: a request must have 1 to %d rows, "
                "one more than its drafts",
                (unsigned)i + 1, (int)c->row_offsets[i + 1], (int)c->row_offsets[i],
                CLS_MAX_DRAFTS + 1);
        most = (uint32_t)n - 1 > most ? (uint32_t)n - 1 : most;
    }
    v->rows = (uint32_t)c->row_offsets[c->requests];
    v->drafts = v->rows - c->requests;
    if (v->rows > s->max_rows)
        return cls_fail(
            CLS_BAD_ARGUMENT, CL_SUCCESS,
            "call->row_offsets has %u rows in total; the sampler was created for 1 to %u",
            (unsigned)v->rows, (unsigned)s->max_rows);
    if (v->call.max_drafts == 0)
        v->call.max_drafts = most;
    if (c->max_drafts < most || c->max_drafts > CLS_MAX_DRAFTS)
        return cls_fail(
            CLS_BAD_ARGUMENT, CL_SUCCESS,
            "call->max_drafts is %u; it must be %u, the most drafts of a request, to %d",
            (unsigned)c->max_drafts, (unsigned)most, CLS_MAX_DRAFTS);
    return CLS_OK;
}

/* Fails if a map of requests or parents is on the device: the host makes the rows' maps of them. */
static cls_status check_maps(const cls_verify_call *c)
{
    const struct {
        const char *name;
        const cls_ints *map;
    } maps[] = {{"slots", &c->slots},
                {"positions", &c->positions},
                {"draws", &c->draws},
                {"parents", &c->parents}};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        if (maps[i].map->device.buffer != NULL)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "call->%s is a buffer, but cls_verify() requires a host array",
                            maps[i].name);
    return CLS_OK;
}

static cls_status check_parents(const verification *v)
{
    const cls_verify_call *const c = &v->call;
    if (c->parents.host == NULL)
        return CLS_OK;
    if (c->method != CLS_VERIFY_MATCH && c->method != CLS_VERIFY_GREEDY)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->parents makes trees, which call->method %d does not support: only "
                        "CLS_VERIFY_MATCH and CLS_VERIFY_GREEDY do",
                        (int)c->method);
    for (uint32_t i = 0, k = 0; i < c->requests; i++)
        for (int32_t at = 0; at < c->row_offsets[i + 1] - c->row_offsets[i] - 1; at++, k++)
            if (c->parents.host[k] < -1 || c->parents.host[k] >= at)
                return cls_fail(
                    CLS_BAD_ARGUMENT, CL_SUCCESS,
                    "call->parents: the parent of draft %d of request %u is %d; it must "
                    "be -1 or an earlier draft",
                    (int)at, (unsigned)i, (int)c->parents.host[k]);
    return CLS_OK;
}

static cls_status check_drafts(const cls_sampler *s, verification *v)
{
    cls_verify_call *const c = &v->call;
    const int needs_distributions =
        c->method == CLS_VERIFY_STANDARD || c->method == CLS_VERIFY_BLOCK;
    const uint64_t element = c->draft_kind == CLS_DRAFT_LOGITS ? v->plan.logit_size : sizeof(float);
    if (c->draft_ids.host == NULL && c->draft_ids.device.buffer == NULL && v->drafts != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->draft_ids is NULL, but there are %u drafts", (unsigned)v->drafts);
    cls_status status = v->drafts != 0 ? cls_map_check(s, "call->draft_ids", &c->draft_ids,
                                                       v->drafts, &v->plan.ranges)
                                       : CLS_OK;
    if (status != CLS_OK)
        return status;
    if (c->draft_kind < CLS_DRAFT_NONE || c->draft_kind > CLS_DRAFT_LOGITS)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->draft_kind is %d, which is not a cls_draft_kind",
                        (int)c->draft_kind);
    if (c->draft_kind == CLS_DRAFT_NONE && c->draft.buffer != NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->draft is set, but call->draft_kind is CLS_DRAFT_NONE");
    if (c->draft_stride == 0)
        c->draft_stride = s->vocab;
    if (c->draft_stride < s->vocab)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->draft_stride is %llu, which is less than the vocabulary of %u",
                        (unsigned long long)c->draft_stride, (unsigned)s->vocab);
    if (c->draft_kind != CLS_DRAFT_NONE && v->drafts != 0)
        status = cls_buffer_check(s->context, "call->draft", &c->draft,
                                  cls_extent(v->drafts, c->draft_stride, s->vocab, element),
                                  element, CLS_KERNEL_READS, &v->plan.ranges);
    /* Only methods that need the drafts' distributions read them. */
    v->plan.draft_kind =
        needs_distributions && v->drafts != 0 ? (uint32_t)c->draft_kind : CLS_DRAFT_NONE;
    v->plan.draft = needs_distributions ? c->draft : (cls_buffer){NULL, 0};
    v->plan.draft_stride = c->draft_stride;
    return status;
}

static cls_status check_method(const cls_verify_call *c)
{
    if (c->method < CLS_VERIFY_MATCH || c->method > CLS_VERIFY_GREEDY)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->method is %d, which is not a cls_verify_method", (int)c->method);
    if (!(c->epsilon > 0.0f && c->epsilon <= 1.0f))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->epsilon is %g; it must be above 0 and at most 1",
                        (double)c->epsilon);
    if (!(c->delta > 0.0f && c->delta <= 16.0f))
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "call->delta is %g; it must be above 0 and at most 16", (double)c->delta);
    return CLS_OK;
}

static cls_status check_outputs(const cls_sampler *s, verification *v)
{
    const cls_verify_call *const c = &v->call;
    const struct {
        const char *name;
        cls_buffer buffer;
        uint64_t elements;
    } all[CLS_VERIFIED] = {
        [CLS_VERIFIED_TOKENS] = {"call->tokens", c->tokens,
                                 (uint64_t)c->requests * (c->max_drafts + 1)},
        [CLS_VERIFIED_ACCEPTED] = {"call->accepted", c->accepted, c->requests},
        [CLS_VERIFIED_EMITTED] = {"call->emitted", c->emitted, c->requests},
        [CLS_VERIFIED_NODES] = {"call->nodes", c->nodes, (uint64_t)c->requests * c->max_drafts},
        [CLS_VERIFIED_STATUS] = {"call->status", c->status, c->requests},
        [CLS_VERIFIED_COUNTERS] = {"call->counters", c->counters, (uint64_t)s->slots * 3},
        [CLS_VERIFIED_LATEST] = {"call->latest", c->latest, s->slots},
    };
    cls_status status = CLS_OK;
    for (int i = 0; i < CLS_VERIFIED && status == CLS_OK; i++) {
        v->output[i] = all[i].buffer;
        v->wants |= all[i].buffer.buffer != NULL ? 1u << i : 0;
        status =
            cls_optional_check(s, all[i].name, &all[i].buffer, all[i].elements * sizeof(int32_t),
                               sizeof(int32_t), CLS_KERNEL_WRITES, &v->plan.ranges);
    }
    return status;
}

/* Expands the requests' slots, positions and draws to maps of the rows, and makes the maps that say
 * which draft a row or a draft follows. */
static void expand_maps(cls_sampler *s, verification *v)
{
    const cls_verify_call *const c = &v->call;
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
    for (int i = 0; i < CLS_MAPS; i++)
        v->map[i].host = map[i];
    v->plan.map[CLS_MAP_SLOTS] = &v->map[CLS_MAP_SLOTS];
    v->plan.map[CLS_MAP_POSITIONS] = &v->map[CLS_MAP_POSITIONS];
    v->plan.map[CLS_MAP_DRAWS] = &v->map[CLS_MAP_DRAWS];
    v->plan.nodes = v->map[CLS_MAP_NODES];
    v->plan.parents = v->map[CLS_MAP_PARENTS];
    v->plan.has |= CLS_DRAFTS | CLS_DEFER | CLS_HAS_SLOT_MAP | CLS_HAS_DRAWS;
    v->plan.has |= c->positions.host != NULL ? CLS_HAS_POSITIONS : CLS_POSITIONS_ADD;
}

static cls_status check(cls_sampler *s, cl_command_queue queue, const cls_verify_call *callers,
                        cl_uint n_wait, const cl_event *wait, verification *v)
{
    cls_plan *const plan = &v->plan;
    cls_verify_call *const c = &v->call;
    memset(v, 0, sizeof *v);
    cls_step_init(&plan->step);
    if (s == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "sampler is NULL");
    cls_status status = CLS_STRUCT_READ(c, callers, "call");
    if (status == CLS_OK)
        status = cls_wait_check(s->context, n_wait, wait);
    if (status == CLS_OK)
        status = cls_compiled_features_check(s, CLS_FEATURE_VERIFY);
    if (status == CLS_OK)
        status = check_rows(s, v);
    if (status == CLS_OK)
        status = check_method(c);
    if (status == CLS_OK)
        status = check_maps(c);
    if (status == CLS_OK)
        status = check_parents(v);
    if (status == CLS_OK)
        status = cls_queue_check(s->context, queue, &plan->ordered);
    plan->step.rows = v->rows;
    plan->step.logits = c->logits;
    plan->step.mask = c->mask;
    plan->step.bias = c->bias;
    plan->map[CLS_MAP_MASKS] = &plan->step.mask.row_map;
    plan->map[CLS_MAP_BIASES] = &plan->step.bias.row_map;
    plan->map[CLS_MAP_LOGITS] = &plan->step.logits_map; /* not set: each row has its own logits */
    if (status == CLS_OK)
        status = cls_logits_check(s, "call", plan);
    if (status == CLS_OK)
        status = cls_masks_check(s, "call", plan);
    if (status == CLS_OK)
        status = check_drafts(s, v);
    if (status == CLS_OK)
        status = check_outputs(s, v);
    if (status == CLS_OK)
        status = cls_ranges_check(&plan->ranges);
    if (status == CLS_OK)
        status = cls_switch_check("call->disable_bonus", c->disable_bonus);
    if (status == CLS_OK)
        status = cls_reserved_check("call->reserved", c->reserved);
    if (status == CLS_OK)
        status = cls_draws_check("call->draws", c->draws.host, c->requests);
    if (status == CLS_OK)
        status = cls_row_slots_check(s, "call->slots", &c->slots, c->requests, 0, plan);
    if (status != CLS_OK)
        return status;
    expand_maps(s, v);
    plan->arg_set = CLS_ARG_SET_VERIFY;
    plan->draft_ids = c->draft_ids;
    plan->needs |= CLS_FEATURE_VERIFY;
    plan->has |= s->force_search ? CLS_FORCE_SEARCH : 0;
    plan->search &= c->method != CLS_VERIFY_GREEDY;
    plan->has |= plan->search ? CLS_HAS_SEARCH : 0;
    plan->has |= c->method == CLS_VERIFY_GREEDY ? CLS_ALL_GREEDY : 0;
    return CLS_OK;
}

/* --------------------------------------------------------------------- launches */

/* Returns a plan that reads the drafts' own logits as raw rows. */
static cls_plan drafts_plan(const verification *v)
{
    cls_plan plan = v->plan;
    plan.step.rows = v->drafts;
    plan.step.logits.buffer = v->call.draft.buffer;
    plan.step.logits.offset = v->call.draft.offset;
    plan.step.logits.row_stride = v->call.draft_stride;
    plan.has = CLS_NO_SLOTS;
    return plan;
}

/* Writes the arguments of all kernels before the first launch. */
static cl_int write_args(const verification *v, cls_commands *c)
{
    const cls_verify_call *const call = &v->call;
    cls_args a;
    cls_step_args(&a, c->sampler, &v->plan, CLS_ARG_SET_VERIFY);
    a.method = (uint32_t)call->method;
    a.requests = call->requests;
    a.bonus = call->disable_bonus == 0;
    a.epsilon = cls_bits_q20(call->epsilon);
    a.delta = cls_bits_q20(call->delta);
    a.max_drafts = call->max_drafts;
    a.wants = v->wants;
    for (int i = 0; i < CLS_VERIFIED; i++)
        a.output_offset[i] = cls_element_offset(&v->output[i], sizeof(int32_t));
    cl_int code = cls_commands_write_args(c, CLS_ARG_SET_VERIFY, &a);
    if (code == CL_SUCCESS && v->plan.draft_kind == CLS_DRAFT_LOGITS) {
        const cls_plan drafts = drafts_plan(v);
        cls_step_args(&a, c->sampler, &drafts, CLS_ARG_SET_DRAFTS);
        code = cls_commands_write_args(c, CLS_ARG_SET_DRAFTS, &a);
    }
    return code;
}

static cl_int survey_drafts(const verification *v, cls_commands *c)
{
    const cls_plan plan = drafts_plan(v);
    return cls_step_launch(&plan, c, CLS_SURVEY, CLS_ARG_SET_DRAFTS, NULL);
}

static cl_int launch_verify(const verification *v, cls_commands *c, cl_event *done)
{
    const size_t groups[2] = {1, v->call.requests};
    cls_buffers b = cls_step_buffers(c->sampler, &v->plan, CLS_ARG_SET_VERIFY);
    b.tokens = v->call.tokens.buffer;
    b.accepted = v->call.accepted.buffer;
    b.emitted = v->call.emitted.buffer;
    b.out_nodes = v->call.nodes.buffer;
    b.status_out = v->call.status.buffer;
    b.counters = v->call.counters.buffer;
    b.latest = v->call.latest.buffer;
    const cls_arguments a = cls_kernel_arguments(
        cls_step_kernel(c->sampler, &v->plan, CLS_VERIFY, CLS_ARG_SET_VERIFY), CLS_VERIFY, &b);
    return cls_commands_launch(c, &a, groups, done);
}

static cl_int launch_all(const verification *v, cls_commands *c, cl_event *done)
{
    const cls_plan *const plan = &v->plan;
    const int method = v->call.method;
    const int has_residual =
        v->drafts != 0 && method != CLS_VERIFY_MATCH && method != CLS_VERIFY_GREEDY;
    cl_int code = write_args(v, c);
    if (code == CL_SUCCESS)
        code = cls_step_launch(plan, c, CLS_PREPARE, plan->arg_set, NULL);
    if (code == CL_SUCCESS)
        code = cls_step_launch(plan, c, CLS_SURVEY, plan->arg_set, NULL);
    if (code == CL_SUCCESS && plan->draft_kind == CLS_DRAFT_LOGITS)
        code = survey_drafts(v, c);
    if (code == CL_SUCCESS)
        code = cls_step_rows(plan, c, NULL);
    if (code == CL_SUCCESS && has_residual)
        code = cls_step_launch(plan, c, CLS_RESIDUAL, plan->arg_set, NULL);
    return code == CL_SUCCESS ? launch_verify(v, c, done) : code;
}

/* Returns how many entries a verification's map has. */
static uint32_t map_entries(const verification *v, enum cls_map which)
{
    return which == CLS_MAP_FIRSTS                               ? v->call.requests
           : which == CLS_MAP_TOKENS || which == CLS_MAP_PARENTS ? v->drafts
                                                                 : v->rows;
}

static cls_status verify_drafts(cls_sampler *s, cl_command_queue queue, const cls_verify_call *call,
                                cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    verification v;
    cls_commands c;
    cl_event end = NULL;
    cl_int code = CL_SUCCESS;
    cls_status status = check(s, queue, call, n_wait, wait, &v);
    if (status != CLS_OK)
        return status;
    v.map[CLS_MAP_TOKENS].host = v.plan.draft_ids.host;
    v.map[CLS_MAP_MASKS].host = v.plan.step.mask.row_map.host;
    v.map[CLS_MAP_BIASES].host = v.plan.step.bias.row_map.host;
    v.map[CLS_MAP_LOGITS].host = NULL;
    int uploads = 0;
    for (int i = 0; i < CLS_MAPS; i++)
        uploads |=
            cls_map_changed(s, (enum cls_map)i, v.map[i].host, map_entries(&v, (enum cls_map)i));
    status =
        cls_commands_begin(&c, s, queue, v.plan.ordered, n_wait, wait, uploads, &v.plan.step.mask);
    if (status != CLS_OK)
        return status;
    code = cls_commands_upload_mask(&c, &v.plan.step.mask);
    for (int i = 0; i < CLS_MAPS && code == CL_SUCCESS; i++)
        code = cls_commands_upload_map(&c, (enum cls_map)i, v.map[i].host,
                                       map_entries(&v, (enum cls_map)i));
    if (code == CL_SUCCESS)
        code = launch_all(&v, &c, &end);
    return cls_commands_end(&c, code, "cannot enqueue the verification", end, done);
}

cls_status cls_verify(cls_sampler *s, cl_command_queue queue, const cls_verify_call *call,
                      cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    return CLS_GUARDED_CALL(s, verify_drafts(s, queue, call, n_wait, wait, done));
}
