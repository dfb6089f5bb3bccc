/* SPDX-License-Identifier: MIT */
/* Verifies a request's drafts on the host. A copy of the request, which is on trial, accepts one
 * draft after the other, so that each row is sampled as if the drafts before it were its text. */
#include "host/host.h"

#define NONE (-1)

/* ------------------------------------------------------------------------ a row */

/* Samples row r, which comes after what the trial has accepted. Returns 1 if it has a token. */
static int run_target(cls_verification *v, uint32_t r)
{
    cls_sampled_run(v->w, &v->trial, &v->drafts.rows[r], 0);
    return !v->w->trace.no_token;
}

static int32_t draft_id(const cls_verification *v, uint32_t draft)
{
    return v->drafts.ids[draft * v->drafts.ids_stride];
}

static uint64_t random_bits(const cls_verification *v, uint32_t purpose, uint32_t r)
{
    const cls_row_inputs *const row = &v->drafts.rows[r];
    const cls_slot *const slot = &v->request->slot;
    return philox_bits(purpose, slot->seed, slot->stream, row->position, row->draw);
}

/* Sets p to the probabilities of the row's final set. */
static void read_target(cls_verification *v)
{
    const cls_reciprocal share = reciprocal_of(v->w->trace.mass);
    memset(v->p, 0, v->w->vocab * sizeof *v->p);
    for (uint32_t i = 0; (i = cls_next_marked(v->w, i)) < v->w->vocab; i++)
        v->p[i] = fraction_q63(&share, cls_token_mass(v->w, i));
}

/* Returns the token of a place of a sparse distribution, or NONE. */
static int32_t sparse_token(const cls_drafts *d, uint64_t at, uint32_t vocab)
{
    uint32_t id = (uint32_t)d->tokens[at];
    if (d->map != NULL)
        id = id < d->draft_vocab ? id + (uint32_t)d->map[id] : UINT32_MAX;
    return id < vocab ? (int32_t)id : NONE;
}

/* Sets q to the distribution of a draft. Draft logits replace those of the row. */
static void read_draft(cls_verification *v, uint32_t draft)
{
    const cls_drafts *const d = &v->drafts;
    cls_sampled *const w = v->w;
    const uint32_t vocab = w->vocab;
    const uint64_t first = draft * d->draft_stride;
    memset(v->q, 0, vocab * sizeof *v->q);
    if (d->kind == CLS_DRAFT_NONE) {
        v->q[draft_id(v, draft)] = CLS_ONE_Q63;
    } else if (d->kind == CLS_DRAFT_PROBS) {
        for (uint32_t i = 0; i < vocab; i++)
            v->q[i] = probability_q63((u32)CLS_AS_I32(((const float *)d->draft)[first + i]));
    } else if (d->kind == CLS_DRAFT_SPARSE) {
        for (uint32_t i = d->width; i-- > 0;) { /* the first of equal ids is the last to be set */
            const int32_t id = sparse_token(d, first + i, vocab);
            if (id != NONE)
                v->q[id] = probability_q63((u32)CLS_AS_I32(((const float *)d->draft)[first + i]));
        }
    } else {
        w->row.logits = (const char *)d->draft + first * cls_dtype_size(w->row.dtype);
        w->row.softcap = 0.0f; /* the target's */
        cls_sampled_read(w, 1);
        const cls_reciprocal share = reciprocal_of(cls_row_mass(w));
        for (uint32_t i = 0; i < vocab; i++)
            v->q[i] = fraction_q63(&share, cls_token_mass(w, i));
    }
}

/* ------------------------------------------------------------------- the drafts */

/* Returns 1 if a draft of a chain is a token to which its distribution gives a probability;
 * otherwise the drafts end before it. Methods that use distributions have p and q set then. */
static int draft_is_valid(cls_verification *v, uint32_t draft)
{
    const int32_t id = draft_id(v, draft);
    if (id < 0 || (uint32_t)id >= v->w->vocab)
        return 0;
    if (v->drafts.method == CLS_VERIFY_TYPICAL)
        return 1;
    read_target(v);
    read_draft(v, draft);
    return v->q[id] != 0;
}

/* Returns the draft that a draft follows, or NONE. */
static int32_t parent_of(const cls_verification *v, uint32_t draft)
{
    const int32_t parent = v->drafts.parents[draft];
    return parent < 0 ? NONE : parent - v->drafts.first;
}

/* Returns the first draft after row r that is this token (any draft if `token` is NULL), or NONE.
 */
static int32_t find_child(const cls_verification *v, uint32_t r, const int32_t *token)
{
    for (uint32_t k = r; k < v->drafts.count; k++)
        if (parent_of(v, k) == (int32_t)r - 1 && (token == NULL || draft_id(v, k) == *token))
            return (int32_t)k;
    return NONE;
}

/* Returns the mass of the residual distribution: what the target's exceeds the draft's by. */
static uint64_t residual_mass(const cls_verification *v, uint64_t reach)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->w->vocab; i++)
        sum += residual_q63(v->p[i], v->q[i], reach);
    return sum;
}

/* Draws a token from the residual distribution of row r. */
static int32_t draw_residual(const cls_verification *v, uint64_t reach, uint32_t r)
{
    const uint64_t mass = residual_mass(v, reach);
    uint64_t rest = u64_mul_hi(random_bits(v, CLS_PURPOSE_RESIDUAL, r), mass), token_mass;
    uint32_t i = 0;
    if (mass == 0)
        return v->w->trace.token;
    for (; (token_mass = residual_q63(v->p[i], v->q[i], reach)) <= rest; i++)
        rest -= token_mass;
    return (int32_t)i;
}

/* Returns 1 if typical acceptance accepts a token. */
static int is_typical(const cls_verification *v, uint32_t id)
{
    cls_sampled *const w = v->w;
    const uint32_t mass = mass_q20(w->trace.mass, w->top, w->scale);
    const int64_t entropy =
        (int64_t)mass + mean_depth_q20(cls_need(w, CLS_SUM_DEPTHS), w->trace.mass);
    const int64_t least = cls_bits_q20(v->drafts.epsilon),
                  relative = cls_bits_q20(v->drafts.delta) + entropy;
    return w->mark[id] &&
           (int64_t)cls_token_depth(w, id) + mass < (least > relative ? least : relative);
}

/* Returns 1 if relaxed acceptance accepts a token after the row that was sampled. */
static int is_relaxed(cls_verification *v, uint32_t id)
{
    cls_sampled *const w = v->w;
    const int greedy = (w->slot.flags & CLS_SLOT_GREEDY) != 0;
    if (greedy)
        cls_set_begin(w); /* all tokens that the row may take, not only the likeliest */
    if (greedy ? !(w->z[id] > CLS_MASKED) : !w->mark[id])
        return 0;
    const cls_reciprocal whole = reciprocal_of(greedy ? cls_row_mass(w) : w->trace.mass);
    cls_select(w, 1);
    return cls_at_key(w, key_of(w->z[id]) + 1) < w->params.relaxed_top_k &&
           is_near(fraction_q63(&whole, cls_token_mass(w, w->set[0])),
                   fraction_q63(&whole, cls_token_mass(w, id)),
                   (u32)CLS_AS_I32(w->params.relaxed_delta));
}

/* Returns 1 if a row without a draft after it emits its token. */
static int has_bonus(const cls_verification *v)
{
    return v->drafts.count == 0 || !v->drafts.disable_bonus;
}

/* Judges a chain's drafts by probabilities: how many are accepted, and the token of the residual
 * that follows them. Block verification judges all prefixes and accepts the longest that passes;
 * the other methods end at the first draft that is rejected. */
static void judge_drafts(cls_verification *v)
{
    const int block = v->drafts.method == CLS_VERIFY_BLOCK,
              typical = v->drafts.method == CLS_VERIFY_TYPICAL;
    uint64_t reach = CLS_ONE_Q63;
    int inner = 1, taken = 1, ends = 0;
    for (uint32_t i = 0; inner && (taken || block); i++) {
        const int has_token = !ends && run_target(v, i);
        v->judged[i] = v->w->trace.status;
        inner = has_token && i < v->drafts.count && draft_is_valid(v, i);
        if (block && i > 0) {
            const uint64_t left = inner ? residual_mass(v, reach) : reach;
            taken = accepts(random_bits(v, CLS_PURPOSE_BLOCK + i - 1, 0), left,
                            inner ? left + CLS_ONE_Q63 - reach : CLS_ONE_Q63);
        }
        if (taken)
            v->accepted = i;
        if (taken && block)
            v->drawn = inner ? draw_residual(v, reach, i) : NONE;
        if (!inner)
            return;
        const uint32_t id = (uint32_t)draft_id(v, i);
        if (block)
            reach = ratio_q63(reach, v->p[id], v->q[id]);
        else if (typical)
            taken = is_typical(v, id);
        else
            taken = accepts(random_bits(v, CLS_PURPOSE_ACCEPT, i), v->p[id], v->q[id]);
        if (!taken && !block && !typical)
            v->drawn = draw_residual(v, CLS_ONE_Q63, i);
        ends = cls_text_next(&v->trial, id, 1).ends != 0;
        cls_host_slot_accept(&v->trial, id, NULL);
    }
}

/* Begins with the request's first row, and nothing emitted. */
static void begin_verified(cls_verification *v)
{
    cls_emitted *const out = &v->result;
    cls_host_slot_copy(&v->trial, v->request);
    memset(out->tokens, -1, sizeof out->tokens);
    memset(out->nodes, -1, sizeof out->nodes);
    out->accepted = out->emitted = 0;
}

/* Emits tokens, which the trial accepts, one after the other. A row's token is, in this order, the
 * id that the request must emit, the draft after it if relaxed acceptance takes it, the draft that
 * was accepted, or the row's own draw. From the first row on that is forced or relaxed, the drafts
 * that equal the rows' tokens are accepted. */
static void walk(cls_verification *v)
{
    cls_emitted *const out = &v->result;
    int by_rows = v->by_token, goes_on = 1;
    for (uint32_t r = 0; goes_on;) {
        const int32_t due = cls_text_due(&v->trial), next = find_child(v, r, NULL);
        const int relaxed = !v->one_token && cls_text_relaxes(&v->trial);
        by_rows |= due >= 0 || relaxed;
        const int accepted = !by_rows && r < v->accepted, has_token = accepted || run_target(v, r);
        uint32_t status = accepted ? v->judged[r] : v->w->trace.status;
        int32_t token = has_token ? v->w->trace.token : NONE, draft = NONE;
        v->last_forbidden = 0;
        if (due >= 0 && v->w->request != NULL) {
            v->last_forbidden = !cls_sampled_allows(v->w, (uint32_t)due);
            token = v->last_forbidden ? NONE : due;
        } else if (accepted || (relaxed && has_token && next != NONE)) {
            const int32_t id = draft_id(v, (uint32_t)next);
            if (accepted || (id >= 0 && (uint32_t)id < v->w->vocab && is_relaxed(v, (uint32_t)id)))
                token = id;
        } else if (!by_rows && v->drawn != NONE) {
            token = v->drawn;
        }
        if (v->last_forbidden)
            status = (status & (CLS_ROW_NAN | CLS_ROW_INF)) | CLS_ROW_EMPTY;
        v->status |= token == NONE ? status : status & (CLS_ROW_NAN | CLS_ROW_INF);
        v->last_row = token == NONE ? (int32_t)r : NONE;
        if (token != NONE && !v->one_token && (by_rows || accepted))
            draft = find_child(v, r, &token);
        if (token == NONE || (!v->one_token && next == NONE && !has_bonus(v)))
            return;
        const uint32_t end = cls_text_end(&v->trial, (uint32_t)token);
        v->status |= end | (due >= 0 ? CLS_ROW_FORCED : 0);
        if (v->one_token && token == v->w->trace.token)
            v->next = v->w->trace.next;
        v->emitted[out->emitted].row = r;
        v->emitted[out->emitted].forced = due >= 0;
        out->tokens[out->emitted++] = token;
        if (draft != NONE)
            out->nodes[out->accepted++] = draft;
        cls_host_slot_accept(&v->trial, (uint32_t)token, NULL);
        goes_on = !(end & CLS_ROW_STOPPED) && draft != NONE;
        r = (uint32_t)draft + 1;
    }
}

void cls_verification_run(cls_verification *v)
{
    const uint32_t flags = v->request->slot.flags;
    v->status = v->accepted = 0;
    v->drawn = v->last_row = NONE;
    v->last_forbidden = 0;
    v->next = v->request->slot.adaptive;
    begin_verified(v);
    v->one_token = (flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS)) != 0; /* never if it is greedy */
    v->by_token = v->one_token || (flags & CLS_SLOT_GREEDY) != 0 ||
                  v->drafts.method == CLS_VERIFY_MATCH || cls_text_relaxes(&v->trial);
    if (v->slot < 0 || v->request->slot.stopped) {
        cls_sampled_run(v->w, v->request, &v->drafts.rows[0], 1);
        v->status = v->w->trace.status;
        return;
    }
    if (!v->by_token) {
        judge_drafts(v);
        begin_verified(v);
    }
    walk(v);
}

/* ------------------------------------------------------------------- afterwards */

void cls_verification_begin_report(cls_verification *v)
{
    cls_host_slot_copy(&v->trial, v->request);
}

int cls_verification_report(cls_verification *v, uint32_t place)
{
    const cls_emitted *const out = &v->result;
    if (place < out->emitted) {
        run_target(v, v->emitted[place].row);
        cls_sampled_emit(v->w, out->tokens[place], v->emitted[place].forced);
        return 1;
    }
    v->w->trace.status = CLS_ROW_SKIPPED;
    if (place > out->emitted)
        return 0;
    if (place == 0 && (v->slot < 0 || v->request->slot.stopped)) {
        v->w->trace.status = v->status;
    } else if (v->last_row != NONE) {
        const int has_token = run_target(v, (uint32_t)v->last_row);
        const uint32_t status = v->w->trace.status;
        v->w->trace.status = v->last_forbidden
                                 ? (status & (CLS_ROW_NAN | CLS_ROW_INF)) | CLS_ROW_EMPTY
                             : has_token ? CLS_ROW_SKIPPED
                                         : status;
    }
    return 0;
}
