/* SPDX-License-Identifier: MIT */
/* Verifies a request's drafts on the host. A copy of the request, which is on trial, accepts one
 * draft after the other, so that each row is sampled as if the drafts before it were its text. */
#include "reference/reference.h"

#define NONE (-1)

/* ------------------------------------------------------------------------ a row */

/* Samples row r, which comes after what the trial has accepted. Returns 1 if it has a token. */
static int run_target(cls_verification *v, uint32_t r)
{
    cls_sampled_run(v->w, &v->trial, &v->drafts.rows[r], 0);
    return !v->w->trace.no_token;
}

/* Does this to judge a draft. */
static int sample_row(cls_verification *v, uint32_t r)
{
    const int has_token = run_target(v, r);
    const uint32_t status = v->w->trace.status;
    v->status |= has_token ? status & (CLS_ROW_NAN | CLS_ROW_INF) : status;
    return has_token;
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
    for (uint32_t i = 0; i < v->w->n; i++)
        v->p[v->w->set[i]] = fraction_q63(&share, cls_token_mass(v->w, v->w->set[i]));
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
    } else {
        w->row.logits = (const char *)d->draft + first * cls_dtype_size(w->row.dtype);
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
    const cls_sampled *const w = v->w;
    const uint32_t mass = mass_q20(w->trace.mass, w->top, w->scale);
    const int64_t entropy =
        (int64_t)mass + mean_depth_q20(cls_need(w, CLS_SUM_DEPTHS), w->trace.mass);
    const int64_t least = cls_bits_q20(v->drafts.epsilon),
                  relative = cls_bits_q20(v->drafts.delta) + entropy;
    return cls_set_has(w, id) &&
           (int64_t)cls_token_depth(w, id) + mass < (least > relative ? least : relative);
}

/* Returns 1 if relaxed acceptance accepts a token after the row that was sampled. */
static int is_relaxed(cls_verification *v, uint32_t id)
{
    cls_sampled *const w = v->w;
    const int greedy = (w->slot.flags & CLS_SLOT_GREEDY) != 0;
    uint32_t likelier = 0;
    if (greedy)
        cls_sort_row(w); /* all tokens that the row may take, not only the likeliest */
    if (!cls_set_has(w, id))
        return 0;
    const cls_reciprocal whole = reciprocal_of(greedy ? cls_row_mass(w) : w->trace.mass);
    while (likelier < w->n && w->z[w->set[likelier]] > w->z[id])
        likelier++;
    return likelier < w->params.relaxed_top_k &&
           is_near(fraction_q63(&whole, cls_token_mass(w, w->set[0])),
                   fraction_q63(&whole, cls_token_mass(w, id)),
                   (u32)CLS_AS_I32(w->params.relaxed_delta));
}

/* --------------------------------------------------------------------- the walk */

/* Emits a token, which the trial accepts. `draft` is NONE if it is not a draft. Returns 1 if the
 * token ends the request. */
static int emit_token(cls_verification *v, int32_t token, int32_t draft)
{
    cls_emitted *const out = &v->result;
    const uint32_t ends = cls_text_next(&v->trial, (uint32_t)token, 1).ends;
    out->tokens[out->emitted++] = token;
    if (draft != NONE)
        out->nodes[out->accepted++] = draft;
    v->status |= ends;
    cls_host_slot_accept(&v->trial, (uint32_t)token, NULL);
    return ends != 0;
}

/* Returns 1 if a row without a draft after it emits its token. */
static int has_bonus(const cls_verification *v)
{
    return v->drafts.count == 0 || !v->drafts.disable_bonus;
}

/* Returns the draft that is accepted after row r. If there is none, returns NONE, and *replacement
 * is the token that is emitted, or NONE. */
static int32_t judge(cls_verification *v, uint32_t r, int32_t *replacement)
{
    const int32_t child = find_child(v, r, NULL);
    *replacement = v->w->trace.token;
    if (child == NONE && !has_bonus(v))
        *replacement = NONE;
    if (child == NONE || v->one_token)
        return NONE;
    if (v->by_token)
        return find_child(v, r, replacement);
    if (!draft_is_valid(v, r))
        return NONE;
    const uint32_t id = (uint32_t)draft_id(v, (uint32_t)child);
    if (v->drafts.method == CLS_VERIFY_TYPICAL)
        return is_typical(v, id) ? child : NONE;
    if (accepts(random_bits(v, CLS_PURPOSE_ACCEPT, r), v->p[id], v->q[id]))
        return child;
    *replacement = draw_residual(v, CLS_ONE_Q63, r);
    return NONE;
}

/* Accepts drafts one after the other until one is rejected or ends the request. */
static void walk(cls_verification *v)
{
    uint32_t r = 0;
    while (sample_row(v, r)) {
        int32_t replacement;
        const int32_t draft = judge(v, r, &replacement);
        if (draft == NONE) {
            if (replacement != NONE)
                emit_token(v, replacement, NONE);
            return;
        }
        if (emit_token(v, draft_id(v, (uint32_t)draft), draft))
            return;
        r = (uint32_t)draft + 1;
    }
}

/* Block verification judges all prefixes of the drafts and accepts the longest that passes. For
 * each prefix that passes it also draws the token that would follow. */
static void walk_block(cls_verification *v)
{
    uint64_t reach = CLS_ONE_Q63;
    uint32_t accepted = 0, status = 0;
    int32_t next = NONE;
    int more = 1, ends = 0;
    for (uint32_t i = 0; more; i++) {
        const int has_token = !ends && sample_row(v, i);
        more = has_token && i < v->drafts.count && draft_is_valid(v, i);
        const uint64_t left = more ? residual_mass(v, reach) : 0;
        const uint64_t bits = random_bits(v, CLS_PURPOSE_BLOCK + i - 1, 0);
        const int accepts_prefix = more ? accepts(bits, left, left + CLS_ONE_Q63 - reach)
                                        : accepts(bits, reach, CLS_ONE_Q63);
        if (i == 0 || accepts_prefix) {
            accepted = i;
            status = v->status;
            if (more)
                next = draw_residual(v, reach, i);
            else
                next =
                    has_token && (i < v->drafts.count || has_bonus(v)) ? v->w->trace.token : NONE;
        }
        if (more) {
            const int32_t id = draft_id(v, i);
            reach = ratio_q63(reach, v->p[id], v->q[id]);
            ends = cls_text_next(&v->trial, (uint32_t)id, 1).ends != 0;
            cls_host_slot_accept(&v->trial, (uint32_t)id, NULL);
        }
    }
    cls_host_slot_copy(&v->trial, v->request);
    v->status = status;
    for (uint32_t i = 0; i < accepted; i++)
        emit_token(v, draft_id(v, i), (int32_t)i);
    if (next != NONE)
        emit_token(v, next, NONE);
}

/* ----------------------------------------------------------------- what is emitted */

/* Begins again with the request's first row, and nothing emitted. */
static void begin_verified(cls_verification *v)
{
    cls_emitted *const out = &v->result;
    cls_host_slot_copy(&v->trial, v->request);
    memset(out->tokens, -1, sizeof out->tokens);
    memset(out->nodes, -1, sizeof out->nodes);
    out->accepted = out->emitted = 0;
}

/* Chooses the token after row r where the request must emit an id, relaxes, or did so before.
 * *draft is the draft that it is, or NONE. Returns NONE if there is no token. */
static int32_t choose_by_row(cls_verification *v, uint32_t r, int32_t forced, int32_t *draft)
{
    const uint32_t before = v->status;
    const int has_token = sample_row(v, r), relaxed = !v->one_token && cls_text_relaxes(&v->trial);
    const int32_t next = find_child(v, r, NULL);
    int32_t token = has_token ? v->w->trace.token : NONE;
    v->last_row = (int32_t)r;
    if (forced >= 0 && v->w->request != NULL) {
        v->last_forbidden = !cls_sampled_allows(v->w, (uint32_t)forced);
        v->status = before | (v->w->trace.status & (CLS_ROW_NAN | CLS_ROW_INF)) |
                    (v->last_forbidden ? CLS_ROW_EMPTY : 0);
        token = v->last_forbidden ? NONE : forced;
    } else if (relaxed && has_token && next != NONE) {
        const int32_t id = draft_id(v, (uint32_t)next);
        if (id >= 0 && (uint32_t)id < v->w->vocab && is_relaxed(v, (uint32_t)id))
            token = id;
    }
    *draft = token != NONE && !v->one_token ? find_child(v, r, &token) : NONE;
    if (token != NONE && *draft == NONE && !v->one_token && next == NONE && !has_bonus(v)) {
        v->last_row = NONE; /* a token is there, and stays due */
        return NONE;
    }
    return token;
}

/* Emits the tokens of the walk again, one after the other, and ends early at a loop. Where the
 * request must emit a forced id, that id takes the place of the walk's token; where it relaxes, a
 * draft that passes, or else the row's own draw. From there on drafts are accepted if they equal
 * forced ids or the rows' own draws, or relaxed. */
static void emit_tokens(cls_verification *v)
{
    const cls_emitted walked = v->result;
    const uint32_t whole = v->status & ~(uint32_t)(CLS_ROW_STOPPED | CLS_ROW_LENGTH);
    int by_rows = 0; /* 1 from the first row on that is forced or relaxed */
    uint32_t r = 0;
    begin_verified(v);
    v->status = whole & (CLS_ROW_NAN | CLS_ROW_INF);
    for (uint32_t i = 0;; i++) {
        const int32_t forced = cls_text_due(&v->trial);
        int32_t token = i < walked.emitted ? walked.tokens[i] : NONE;
        int32_t draft = i < walked.accepted ? walked.nodes[i] : NONE;
        by_rows |= forced >= 0 || (!v->one_token && cls_text_relaxes(&v->trial));
        v->last_row = (int32_t)r;
        v->last_forbidden = 0;
        if (by_rows)
            token = choose_by_row(v, r, forced, &draft);
        else if (token == NONE || draft == NONE)
            v->status |= whole;
        if (token == NONE)
            return;
        v->emitted[i].row = r;
        v->emitted[i].forced = forced >= 0;
        v->status |= forced >= 0 ? CLS_ROW_FORCED : 0;
        const uint32_t loops = cls_text_loops(&v->trial, (uint32_t)token | CLS_ENTRY_OUTPUT);
        v->status |= loops;
        if (v->one_token && token == v->w->trace.token)
            v->next = v->w->trace.next;
        const int ends = emit_token(v, token, draft);
        v->last_row = NONE;
        if (ends || (loops & CLS_ROW_STOPPED) || draft == NONE)
            return;
        r = (uint32_t)draft + 1;
    }
}

void cls_verification_run(cls_verification *v)
{
    const uint32_t flags = v->request->slot.flags;
    v->status = 0;
    v->last_row = NONE;
    v->last_forbidden = 0;
    v->next = v->request->slot.adaptive;
    begin_verified(v);
    v->one_token = (flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS)) != 0; /* never if it is greedy */
    v->by_token = (flags & CLS_SLOT_GREEDY) != 0 || v->drafts.method == CLS_VERIFY_MATCH;
    if (v->slot < 0 || v->request->slot.stopped) {
        cls_sampled_run(v->w, v->request, &v->drafts.rows[0], 1);
        v->status = v->w->trace.status;
        return;
    }
    if (v->one_token || !cls_text_relaxes(&v->trial)) { /* else emit_tokens() judges */
        if (v->drafts.method == CLS_VERIFY_BLOCK && !v->one_token && !v->by_token)
            walk_block(v);
        else
            walk(v);
    }
    emit_tokens(v);
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
