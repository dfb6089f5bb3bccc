/* SPDX-License-Identifier: MIT */
#include "one_row_host.h"

#include <math.h>
#include <stdlib.h>

void one_row_init(one_row *row) { *row = (one_row){.invalid_token = -1}; }

void one_drafts_init(one_drafts *drafts)
{
    *drafts = (one_drafts){.epsilon = 0.09f, .delta = 0.3f};
}

static uint32_t layout_of(const one_row *row)
{
    uint64_t length = (uint64_t)row->prompt_count + row->output_count + CLS_MAX_DRAFTS + 1;
    uint64_t history = row->max_history != 0 ? row->max_history : length;
    if (history > CLS_MAX_HISTORY)
        history = (history + CLS_HISTORY_UNIT - 1) / CLS_HISTORY_UNIT * CLS_HISTORY_UNIT;
    if (history > CLS_MAX_TEXT)
        history = CLS_MAX_TEXT;
    return CLS_LAYOUT(CLS_COUNTS_ALL, history, length < CLS_MAX_HISTORY ? length : CLS_MAX_HISTORY);
}

static void append(cls_host_slot *h, const int32_t *ids, uint32_t n, uint32_t mark)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t entry = (uint32_t)ids[i] | mark;
        if (ids[i] >= 0 && (uint32_t)ids[i] < h->vocab)
            cls_host_slot_append(h, &entry, 1);
    }
}

cls_status cls_stateless_open(cls_stateless *w, const one_row *callers)
{
    one_row *const row = &w->row;
    cls_slot slot;
    memset(w, 0, sizeof *w);
    *row = *callers;
    cls_status status =
        cls_bias_check("row", row->bias != NULL, "bias_", row->bias_dtype, &row->bias_factor);
    if (status == CLS_OK)
        status = cls_softcap_check("row->softcap", row->softcap);
    if (row->mask_width == 0)
        row->mask_width = row->mask_kind == CLS_MASK_BOOL ? row->vocab : (row->vocab + 31) / 32;
    if (status == CLS_OK)
        status = cls_params_read(row->params, &w->params);
    if (status == CLS_OK)
        status = cls_slot_from_params(&w->params, row->vocab, &slot);
    if (status != CLS_OK)
        return status;
    const cls_ids *const allowed = &w->params.allowed_ids, *const stop = &w->params.stop_ids;
    uint32_t ends = 0; /* as cls_lists_create() does: if only stop ids are left, none is banned */
    for (uint32_t i = 0; i < allowed->count; i++) {
        uint32_t k = 0;
        while (k < stop->count && stop->ids[k] != allowed->ids[i])
            k++;
        ends += k < stop->count;
    }
    if (ends != 0 && ends == allowed->count)
        slot.min_tokens = 0;
    const cls_adaptive_state *const from = &row->adaptive;
    const cls_slot_adaptive given = {from->mu, from->sum, from->weight, from->top_p};
    const char *const fault = from->begun != 0 ? cls_adaptive_fault(&slot, &given) : NULL;
    if (fault != NULL)
        return cls_refuse("row->adaptive has mu %d, sum %u and weight %u: %s", (int)from->mu,
                          (unsigned)from->sum, (unsigned)from->weight, fault);
    if (w->params.infill != 0 && row->infill == NULL)
        return cls_refuse("row->infill is NULL, but params->infill is %d", (int)w->params.infill);
    w->host = cls_host_create(row->vocab, layout_of(row), 1, 1, 2048, 1);
    if (w->host == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a row of %u tokens",
                        (unsigned)row->vocab);
    if (w->params.infill != 0) {
        status = CLS_STRUCT_READ(&w->host->row.infill, row->infill, "row->infill");
        if (status == CLS_OK)
            status = cls_infill_check(&w->host->row.infill, row->vocab);
        if (status != CLS_OK)
            return status;
    }
    cls_host_slot *const h = w->host->slot;
    cls_host_slot_begin(h, &slot, &w->params);
    append(h, row->prompt, row->prompt_count, 0);
    append(h, row->output, row->output_count, CLS_ENTRY_OUTPUT);
    cls_host_slot_check(h);
    cls_host_slot_force(h, row->forced_ids, row->forced_count);
    if (from->begun != 0)
        h->slot.adaptive = given;
    w->in = (cls_row_inputs){.logits = row->logits,
                             .mask = row->mask,
                             .bias = row->bias,
                             .dtype = row->dtype,
                             .bias_dtype = row->bias_dtype,
                             .mask_width = row->mask_width,
                             .mask_kind = row->mask_kind,
                             .bias_factor = row->bias_factor,
                             .softcap = row->softcap,
                             .position = row->position,
                             .draw = row->draw,
                             .random_bits = row->random_bits,
                             .invalid_token = row->invalid_token};
    return CLS_OK;
}

/* Writes the outputs of a row that was sampled to its result. */
static void write_result(cls_stateless *w, one_result *result)
{
    cls_sampled *const row = &w->host->row;
    cls_row_outputs out = {
        .set = result->kept_capacity, .wants_set = result->kept_capacity != 0, .raw = 0};
    out.at[CLS_OUT_LOGPROBS] = &result->logprob_final;
    out.at[CLS_OUT_KEPT] = &result->kept_count;
    out.at[CLS_OUT_PROBS] = result->probs;
    out.at[CLS_OUT_SET_IDS] = result->kept_ids;
    cls_outputs_write(row, &out);
    result->logprob_raw = -INFINITY;
    memset(&out, 0, sizeof out);
    out.at[CLS_OUT_LOGPROBS] = &result->logprob_raw;
    if (!row->trace.no_token || row->trace.forced)
        cls_outputs_write_raw(row, &out);
    result->token = row->trace.token;
    result->status = (int32_t)row->trace.status;
}

cls_status cls_reference(const one_row *callers, cls_row *trace, one_result *result)
{
    cls_stateless w;
    cls_status status = cls_stateless_open(&w, callers);
    if (status == CLS_OK) {
        cls_host_slot *const h = w.host->slot;
        cls_sampled_run(&w.host->row, h, &w.in, 1);
        *trace = w.host->row.trace;
        write_result(&w, result);
        if (!trace->no_token || trace->forced)
            cls_host_slot_accept(h, (uint32_t)trace->token, &trace->next);
        const cls_slot_adaptive *const a = &h->slot.adaptive;
        result->adaptive = (cls_adaptive_state){1, a->mu, a->sum, a->weight, a->top_p};
    }
    cls_host_destroy(w.host);
    return status;
}

cls_status one_sample(const one_row *row, one_result *result)
{
    cls_row trace;
    return cls_reference(row, &trace, result);
}

/* Sets the strides that are 0. */
static void set_strides(one_drafts *d, const one_row *row)
{
    const struct {
        uint64_t *stride, width;
    } strides[] = {
        {&d->logits_stride, row->vocab},
        {&d->mask_stride, row->mask_width},
        {&d->bias_stride, row->vocab},
        {&d->ids_stride, 1},
        {&d->draft_stride, d->draft_kind == CLS_DRAFT_SPARSE ? d->draft_width : row->vocab},
    };
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++)
        if (*strides[i].stride == 0)
            *strides[i].stride = strides[i].width;
}

/* Reports on the tokens and the places behind them. */
static void report_verified(cls_stateless *w, const one_drafts *d)
{
    cls_verification *const v = &w->host->verification;
    cls_verification_begin_report(v);
    for (uint32_t i = 0; i <= d->draft_count; i++) {
        one_result result = {
            .kept_capacity = d->kept_capacity,
            .kept_ids = d->kept_ids != NULL ? d->kept_ids + (size_t)i * d->kept_capacity : NULL};
        const int has_token = cls_verification_report(v, i);
        result.status = (int32_t)w->host->row.trace.status;
        result.logprob_raw = result.logprob_final = -INFINITY;
        for (uint32_t k = 0; k < d->kept_capacity && result.kept_ids != NULL; k++)
            result.kept_ids[k] = -1;
        if (has_token) {
            write_result(w, &result);
            v->status |= (uint32_t)result.status & CLS_ROW_OVERFLOW;
            cls_host_slot_accept(&v->trial, (uint32_t)v->result.tokens[i], NULL);
        }
        if (d->logprobs_raw != NULL)
            d->logprobs_raw[i] = result.logprob_raw;
        if (d->logprobs_final != NULL)
            d->logprobs_final[i] = result.logprob_final;
        if (d->kept_counts != NULL)
            d->kept_counts[i] = result.kept_count;
        if (d->token_status != NULL)
            d->token_status[i] = result.status;
    }
}

static cls_status verify_host(cls_stateless *w, const one_drafts *d, one_verified *result)
{
    const uint32_t n = d->draft_count;
    cls_verification *const v = &w->host->verification;
    cls_row_inputs *const rows = malloc((n + 1) * sizeof *rows);
    int32_t *const parents = malloc((n + 1) * sizeof *parents);
    if (rows == NULL || parents == NULL) {
        free(rows);
        free(parents);
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for a verification");
    }
    for (uint32_t r = 0; r <= n; r++) {
        rows[r] = w->in;
        rows[r].logits =
            (const char *)w->in.logits + r * d->logits_stride * cls_dtype_size(w->in.dtype);
        if (w->in.mask != NULL)
            rows[r].mask = (const char *)w->in.mask +
                           r * d->mask_stride * (w->in.mask_kind == CLS_MASK_BOOL ? 1 : 4);
        if (w->in.bias != NULL)
            rows[r].bias =
                (const char *)w->in.bias + r * d->bias_stride * cls_dtype_size(w->in.bias_dtype);
        if (r > 0) {
            parents[r - 1] = d->parents != NULL ? d->parents[r - 1] : (int32_t)r - 2;
            rows[r].position = rows[parents[r - 1] + 1].position + 1;
        }
    }
    v->request = w->host->slot;
    v->slot = 0;
    v->drafts = (cls_drafts){.rows = rows,
                             .count = n,
                             .ids = d->ids,
                             .ids_stride = d->ids_stride,
                             .parents = parents,
                             .draft = d->draft,
                             .draft_stride = d->draft_stride,
                             .tokens = d->draft_tokens,
                             .width = d->draft_width,
                             .method = d->method,
                             .kind = d->draft_kind,
                             .disable_bonus = d->disable_bonus,
                             .epsilon = d->epsilon,
                             .delta = d->delta};
    cls_verification_run(v);
    report_verified(w, d);
    memcpy(result->tokens, v->result.tokens, sizeof result->tokens);
    memcpy(result->nodes, v->result.nodes, sizeof result->nodes);
    result->accepted = (int32_t)v->result.accepted;
    result->emitted = (int32_t)v->result.emitted;
    result->status = (int32_t)v->status;
    free(rows);
    free(parents);
    return CLS_OK;
}

cls_status one_verify(const one_drafts *drafts, one_verified *result)
{
    one_drafts d = *drafts;
    cls_stateless w;
    cls_status status = cls_stateless_open(&w, d.row);
    set_strides(&d, &w.row);
    if (status == CLS_OK)
        status = verify_host(&w, &d, result);
    cls_host_destroy(w.host);
    return status;
}
