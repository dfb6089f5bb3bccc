/* SPDX-License-Identifier: MIT */
/* Runs the calls of a sampler without a device: each row after the other, by the reference. A
 * call's buffers and maps were checked as those of a device are. */
#include "step/step.h"

/* ------------------------------------------------------------ what the caller gave */

static void *memory_at(const cls_buffer *b)
{
    return b->pointer != NULL ? (char *)b->pointer + b->offset : NULL;
}

/* Returns a map, or NULL if it is absent. */
static const int32_t *map_of(const cls_ints *map)
{
    return map->host != NULL ? map->host : memory_at(&map->device);
}

/* Returns where an output of a row or a place goes; NULL if it is not wanted. */
static void *output_at(const cls_plan *plan, uint32_t which, uint64_t place)
{
    for (uint32_t i = 0; i < plan->n_present; i++) {
        const cls_operand *const o = &plan->operands->row[plan->present[i]];
        if (o->wants == CLS_WANTS(which))
            return (char *)memory_at(cls_operand_buffer(plan, o)) +
                   place * plan->count[o->width] * plan->count[o->element];
    }
    return NULL;
}

static void write_int(int32_t *to, int32_t value)
{
    if (to != NULL)
        *to = value;
}

/* Returns the slot that a map names for a row: -1 to skip the row, -2 if it names none with a
 * request. */
static int32_t slot_of(const cls_plan *plan, const cls_sampler *s, uint32_t row)
{
    const int32_t *const map = map_of(&plan->step.slots);
    const int32_t slot = map != NULL ? map[row] : (int32_t)row;
    if (slot == -1)
        return -1;
    return slot >= 0 && (uint32_t)slot < s->slots &&
                   (s->host->slot[slot].slot.flags & CLS_SLOT_BEGUN)
               ? slot
               : -2;
}

/* Returns the row of a mask, a bias or logits that a map names: -1: none; -2: one that is not
 * there.
 */
static int32_t mapped_row(const int32_t *map, uint32_t rows, uint32_t row)
{
    const int32_t mapped = map != NULL ? map[row] : (int32_t)row;
    return mapped >= -1 && (mapped < 0 || (uint32_t)mapped < rows) ? mapped : -2;
}

static const void *row_in(const void *rows, int32_t row, uint64_t stride, size_t element)
{
    return rows != NULL && row >= 0 ? (const char *)rows + (uint64_t)row * stride * element : NULL;
}

/* Finds the inputs of a row. */
static void read_row(const cls_plan *plan, const cls_sampler *s, uint32_t row, cls_row_inputs *in)
{
    const cls_step *const p = &plan->step;
    const int32_t slot = slot_of(plan, s, row),
                  logits = mapped_row(map_of(&p->logits_map), p->logits_rows, row),
                  mask = mapped_row(map_of(&p->mask.row_map), p->mask.rows, row),
                  bias = mapped_row(map_of(&p->bias.row_map), p->bias.rows, row),
                  *const positions = map_of(&p->positions), *const draws = map_of(&p->draws);
    const void *const masks = p->mask.host != NULL ? p->mask.host : memory_at(&p->mask.words),
                      *const biases = memory_at(&p->bias.values);
    const uint64_t *const random = memory_at(&p->random_bits);
    in->slot = (masks != NULL && mask == -2) || (biases != NULL && bias == -2) ? -2
               : slot == -1 || logits == -1                                    ? -1
               : logits == -2                                                  ? -2
                                                                               : slot;
    in->logits = row_in(memory_at(&p->logits.values), logits, p->logits.row_stride,
                        cls_dtype_size(p->logits.dtype));
    in->dtype = p->logits.dtype;
    in->softcap = p->logits.softcap;
    in->mask = row_in(masks, mask, p->mask.row_stride,
                      p->mask.kind == CLS_MASK_BOOL ? 1 : sizeof(uint32_t));
    in->mask_kind = p->mask.kind;
    in->mask_width = p->mask.width;
    in->bias = row_in(biases, bias, p->bias.row_stride, cls_dtype_size(p->bias.dtype));
    in->bias_dtype = p->bias.dtype;
    in->bias_factor = p->bias.factor;
    in->position = slot >= 0 ? s->host->slot[slot].slot.position : 0;
    if (positions != NULL)
        in->position =
            (uint32_t)positions[row] + (plan->has & CLS_POSITIONS_ADD ? in->position : 0);
    in->draw = draws != NULL ? (uint32_t)draws[row] : 0;
    in->random_bits = random != NULL ? random + row : NULL;
    in->invalid_token = p->invalid_token;
}

/* -------------------------------------------------------------------- outputs */

/* Returns 1 if the ids of a kept set lie behind those of the row before. */
static int packs_sets(const cls_plan *plan)
{
    return (plan->wants & CLS_WANTS(CLS_OUT_SET_OFFSETS)) != 0;
}

/* Finds where the outputs of a place go. `packed`: how many ids of sets lie before. */
static void find_outputs(const cls_plan *plan, uint64_t place, uint32_t packed,
                         cls_row_outputs *out)
{
    memset(out, 0, sizeof *out);
    out->packed = packs_sets(plan);
    for (uint32_t i = 0; i < CLS_OUT_SET_OFFSETS; i++)
        out->at[i] = output_at(plan, i, place);
    if (out->packed && out->at[CLS_OUT_SET_IDS] != NULL)
        out->at[CLS_OUT_SET_IDS] = (int32_t *)output_at(plan, CLS_OUT_SET_IDS, 0) + packed;
    out->top = plan->outputs.top.count;
    out->given = plan->outputs.given.count;
    out->kept = plan->outputs.kept.count;
    out->set = out->packed ? plan->packed.capacity - packed : plan->outputs.kept_set.capacity;
    out->raw = plan->outputs.logprob_kind == CLS_LOGPROB_RAW;
    out->wants_set = (plan->wants & CLS_WANTS_SET) != 0;
}

/* Writes the outputs of a place, of the row that was sampled, or without one those of no token.
 * *packed counts the ids of sets. */
static void write_outputs(const cls_plan *plan, cls_sampled *sampled, uint32_t vocab,
                          uint64_t place, uint32_t *packed)
{
    cls_row_outputs out;
    if ((plan->wants & CLS_WANTS_OUTPUTS) == 0)
        return;
    find_outputs(plan, place, *packed, &out);
    write_int(output_at(plan, CLS_OUT_SET_OFFSETS, place), (int32_t)*packed);
    if (sampled != NULL)
        *packed += cls_outputs_write(sampled, &out);
    else
        cls_outputs_clear(&out, vocab);
    write_int(output_at(plan, CLS_OUT_SET_OFFSETS, place + 1), (int32_t)*packed);
}

/* ---------------------------------------------------------------------- steps */

/* Returns 1 if no earlier row has the slot of a row. */
static int is_first(const cls_plan *plan, uint32_t row)
{
    const int32_t *const map = map_of(&plan->step.slots);
    uint32_t other = 0;
    while (map != NULL && map[other] != map[row])
        other++;
    return map == NULL || other == row;
}

static void finish_row(const cls_plan *plan, const cls_sampler *s, const cls_sampled *w,
                       uint32_t row)
{
    const cls_row *const trace = &w->trace;
    const int emits = !trace->no_token || trace->forced;
    int32_t *const tokens = memory_at(&plan->step.tokens),
                   *const status = memory_at(&plan->step.status),
                   *const latest = memory_at(&plan->outputs.latest);
    cls_host_slot *const h = w->row.slot >= 0 ? &s->host->slot[w->row.slot] : NULL;
    s->host->record[row] = *trace;
    if (tokens != NULL)
        tokens[row] = trace->token;
    if (status != NULL)
        status[row] = (int32_t)trace->status;
    if (!emits || h == NULL)
        return;
    if (latest != NULL)
        latest[w->row.slot] = trace->token;
    if (!(plan->has & CLS_DEFER)) {
        cls_host_slot_accept(h, (uint32_t)trace->token, &trace->next);
    } else if ((h->slot.flags & CLS_SLOT_STATEFUL) && w->drew && is_first(plan, row)) {
        h->slot.pending = w->drawn;
        h->slot.next_adaptive = w->after_drawn;
    }
}

/* The rows of a call, which threads share. `packed`: the ids of sets that were written. */
typedef struct host_rows {
    const cls_plan *plan;
    cls_sampler *sampler;
    uint32_t packed;
} host_rows;

/* Returns the memory in which a thread samples its rows. */
static cls_sampled *row_of_thread(const host_rows *rows, uint32_t thread)
{
    cls_host *const h = rows->sampler->host;
    if (thread == 0)
        return &h->row;
    h->side[thread - 1].infill = h->row.infill;
    return &h->side[thread - 1];
}

static void step_row(void *of, uint32_t thread, uint32_t row)
{
    host_rows *const rows = of;
    cls_sampler *const s = rows->sampler;
    cls_sampled *const w = row_of_thread(rows, thread);
    uint32_t own = 0, *const packed = packs_sets(rows->plan) ? &rows->packed : &own;
    cls_row_inputs in;
    read_row(rows->plan, s, row, &in);
    cls_sampled_run(w, in.slot >= 0 ? &s->host->slot[in.slot] : NULL, &in, 1);
    write_outputs(rows->plan, w, s->vocab, row, packed);
    finish_row(rows->plan, s, w, row);
}

static void report_row(void *of, uint32_t thread, uint32_t row)
{
    host_rows *const rows = of;
    cls_sampled *const w = row_of_thread(rows, thread);
    cls_row_outputs out;
    read_row(rows->plan, rows->sampler, row, &w->row);
    find_outputs(rows->plan, row, 0, &out);
    w->request = NULL;
    w->trace.token = -1;
    cls_outputs_clear(&out, rows->sampler->vocab);
    cls_outputs_write_raw(w, &out);
}

/* Returns 1 if two rows name one slot. */
static int shares_slots(const cls_plan *plan, const cls_sampler *s)
{
    uint8_t *const used = s->slot_is_used;
    const int32_t *const map = map_of(&plan->step.slots);
    int shared = 0;
    for (int mark = 1; mark >= 0 && map != NULL; mark--)
        for (uint32_t row = 0; row < plan->step.rows; row++)
            if (map[row] >= 0 && (uint32_t)map[row] < s->slots) {
                shared |= mark && used[map[row]];
                used[map[row]] = (uint8_t)mark;
            }
    return shared;
}

/* Runs the rows of a call. Those that depend on each other have one thread. */
static void run_rows(host_rows *rows, void (*run)(void *of, uint32_t thread, uint32_t row))
{
    const cls_plan *const plan = rows->plan;
    const cls_host *const h = rows->sampler->host;
    const int alone = h->threads == 1 || packs_sets(plan) || cls_process() != h->process ||
                      shares_slots(plan, rows->sampler);
    cls_threads_run(alone ? 1 : h->threads, plan->step.rows, run, rows);
}

void cls_run_step(const cls_plan *plan, cls_sampler *s)
{
    host_rows rows = {plan, s, 0};
    run_rows(&rows, step_row);
}

void cls_run_logprobs(const cls_plan *plan, cls_sampler *s)
{
    host_rows rows = {plan, s, 0};
    run_rows(&rows, report_row);
}

/* ------------------------------------------------------------------ acceptance */

/* Takes `back` tokens of a request back that is about to accept n tokens. Those that equal the
 * first of these stay. Returns how many stay. If it cannot take so many back the request ends. */
static uint32_t take_back(cls_host_slot *h, const int32_t *tokens, uint32_t back, uint32_t n,
                          uint32_t per_row)
{
    uint32_t stay = 0;
    const uint32_t length = h->slot.length, limit = back < n ? back : n;
    const int possible = n <= per_row && back <= CLS_LAYOUT_ROLLBACK(h->layout) && back <= length &&
                         length - back + CLS_LAYOUT_ROLLBACK(h->layout) >= h->slot.longest;
    while (possible && stay < limit && tokens[stay] >= 0 && (uint32_t)tokens[stay] < h->vocab &&
           (*cls_host_slot_entry(h, length - back + stay) & ~CLS_ENTRY_FIRST) ==
               ((uint32_t)tokens[stay] | CLS_ENTRY_OUTPUT))
        stay++;
    if (possible && stay == back)
        return stay;
    if (possible)
        cls_host_slot_rollback(h, back - stay);
    else
        h->slot.flags = 0;
    cls_host_slot_check(h);
    return stay;
}

void cls_run_accept(const cls_plan *plan, cls_sampler *s)
{
    const uint32_t per_row = plan->accept.per_row;
    const int32_t *const counts = map_of(&plan->accept.counts), *const rollback =
                                                                    map_of(&plan->accept.rollback);
    for (uint32_t row = 0; row < plan->step.rows; row++) {
        const int32_t slot = slot_of(plan, s, row), *const tokens = map_of(&plan->accept.tokens) +
                                                                    (size_t)row * per_row;
        const uint32_t n = counts != NULL ? (uint32_t)counts[row] : per_row;
        if (slot < 0)
            continue;
        cls_host_slot *const h = &s->host->slot[slot];
        uint32_t i = 0;
        if (counts != NULL || rollback != NULL)
            i = take_back(h, tokens, rollback != NULL ? (uint32_t)rollback[row] : 0, n, per_row);
        for (; i < n && (h->slot.flags & CLS_SLOT_BEGUN) && !h->slot.stopped; i++)
            if (tokens[i] >= 0 && (uint32_t)tokens[i] < s->vocab)
                cls_host_slot_accept(h, (uint32_t)tokens[i], NULL);
    }
}

/* ---------------------------------------------------------------------- drafts */

void cls_run_lookup(const cls_plan *plan, cls_sampler *s)
{
    const cls_draft_call *const c = &plan->draft;
    for (uint32_t i = 0; i < c->requests; i++) {
        const int32_t slot = slot_of(plan, s, i);
        const cls_host_slot *h = slot >= 0 ? &s->host->slot[slot] : NULL;
        int32_t *const drafts = (int32_t *)memory_at(&c->draft_ids) + i * c->ids_request_stride;
        uint32_t n = 0;
        if (h != NULL && h->slot.stopped)
            h = NULL;
        if (h != NULL)
            n = h->slot.length < s->history ? h->slot.length : s->history;
        for (uint32_t k = 0; k < n; k++)
            s->host->text[k] = (int32_t)(cls_text_entry(h, n - k) & CLS_ENTRY_ID);
        write_int(output_at(plan, CLS_VERIFIED_EMITTED, i),
                  (int32_t)cls_lookup(c, h, s->host->text, n, drafts, c->ids_stride));
    }
}

/* --------------------------------------------------------------- verifications */

/* Finds where the drafts of a request are. */
static void find_drafts(const cls_plan *plan, const cls_sampler *s, uint32_t request,
                        cls_drafts *out)
{
    const cls_verify_call *const c = &plan->verify;
    const int32_t *const firsts = plan->firsts.host; /* an output may lie in row_offsets */
    const uint32_t first = (uint32_t)firsts[request], begin = first - request,
                   end =
                       request + 1 < c->requests ? (uint32_t)firsts[request + 1] : plan->step.rows;
    const size_t element = plan->draft_kind == CLS_DRAFT_LOGITS
                               ? cls_dtype_size(plan->step.logits.dtype)
                               : sizeof(float);
    const uint64_t before =
        c->draft_request_stride != 0 ? request * c->draft_request_stride : begin * c->draft_stride;
    const void *const draft = memory_at(&c->draft);
    const int32_t *const tokens = memory_at(&c->draft_tokens);
    out->rows = s->host->inputs + first;
    out->count = end - first - 1;
    out->ids = map_of(&c->draft_ids);
    if (out->ids != NULL)
        out->ids +=
            c->ids_request_stride != 0 ? request * c->ids_request_stride : begin * c->ids_stride;
    out->ids_stride = c->ids_stride;
    out->parents = plan->parents.host + begin;
    out->first = (int32_t)begin;
    out->draft = draft != NULL ? (const char *)draft + before * element : NULL;
    out->tokens = tokens != NULL ? tokens + before : NULL;
    out->map = memory_at(&c->draft_map);
    out->width = c->draft_width;
    out->draft_vocab = c->draft_vocab;
    out->draft_stride = c->draft_stride;
    out->method = c->method;
    out->kind = (int32_t)plan->draft_kind;
    out->disable_bonus = c->disable_bonus;
    out->epsilon = c->epsilon;
    out->delta = c->delta;
}

/* Reports on the tokens of a request, one after the other, and on the places without one. */
static void report_request(const cls_plan *plan, const cls_sampler *s, uint32_t request,
                           uint32_t *packed)
{
    cls_verification *const v = &s->host->verification;
    const uint32_t width = plan->verify.max_drafts + 1;
    int32_t *const status = output_at(plan, CLS_VERIFIED_TOKEN_STATUS, request);
    if ((plan->wants & (CLS_WANTS_OUTPUTS | CLS_WANTS(CLS_VERIFIED_TOKEN_STATUS))) == 0)
        return;
    cls_verification_begin_report(v);
    for (uint32_t i = 0; i < width; i++) {
        const uint64_t place = (uint64_t)request * width + i;
        const int has_token = cls_verification_report(v, i);
        write_outputs(plan, has_token ? &s->host->row : NULL, s->vocab, place, packed);
        if (status != NULL)
            status[i] = (int32_t)s->host->row.trace.status;
        if (!has_token)
            continue;
        v->status |= s->host->row.trace.status & CLS_ROW_OVERFLOW;
        cls_host_slot_accept(&v->trial, (uint32_t)v->result.tokens[i], NULL);
    }
}

/* Writes what a verification gave a request. */
static void write_verified(const cls_plan *plan, const cls_sampler *s, uint32_t request)
{
    const cls_verification *const v = &s->host->verification;
    const cls_emitted *const r = &v->result;
    const uint32_t drafts = v->drafts.count, most = plan->verify.max_drafts;
    int32_t *const tokens = output_at(plan, CLS_VERIFIED_TOKENS, request), *const nodes = output_at(
                                                                               plan,
                                                                               CLS_VERIFIED_NODES,
                                                                               request);
    int32_t drafted = 0;
    for (uint32_t i = 0; i <= most && tokens != NULL; i++)
        tokens[i] = r->tokens[i];
    for (uint32_t i = 0; i < most && nodes != NULL; i++)
        nodes[i] = r->nodes[i];
    for (uint32_t i = 0; i < drafts; i++) {
        const int32_t id = v->drafts.ids[i * v->drafts.ids_stride];
        drafted += id >= 0 && (uint32_t)id < s->vocab;
    }
    write_int(output_at(plan, CLS_VERIFIED_ACCEPTED, request), (int32_t)r->accepted);
    write_int(output_at(plan, CLS_VERIFIED_EMITTED, request), (int32_t)r->emitted);
    write_int(output_at(plan, CLS_VERIFIED_DRAFTED, request), drafted);
    write_int(output_at(plan, CLS_VERIFIED_STATUS, request), (int32_t)v->status);
    if (v->slot < 0)
        return;
    int32_t *const sums = output_at(plan, CLS_VERIFIED_COUNTERS, (uint32_t)v->slot);
    if (sums != NULL && !(v->status & CLS_ROW_SKIPPED)) {
        sums[0] += (int32_t)drafts;
        sums[1] += (int32_t)r->accepted;
        sums[2] += (int32_t)r->emitted;
    }
    if (r->emitted != 0)
        write_int(output_at(plan, CLS_VERIFIED_LATEST, (uint32_t)v->slot),
                  r->tokens[r->emitted - 1]);
}

void cls_run_verify(const cls_plan *plan, cls_sampler *s)
{
    cls_verification *const v = &s->host->verification;
    uint32_t packed = 0;
    for (uint32_t row = 0; row < plan->step.rows; row++)
        read_row(plan, s, row, &s->host->inputs[row]);
    for (uint32_t i = 0; i < plan->verify.requests; i++) {
        v->slot = slot_of(plan, s, (uint32_t)plan->firsts.host[i]);
        cls_host_slot *const h = &s->host->slot[v->slot >= 0 ? v->slot : 0];
        v->request = h;
        find_drafts(plan, s, i, &v->drafts);
        cls_verification_run(v);
        report_request(plan, s, i, &packed);
        write_verified(plan, s, i);
        for (uint32_t k = 0; k < v->result.emitted; k++)
            cls_host_slot_accept(h, (uint32_t)v->result.tokens[k], &v->next);
    }
}
