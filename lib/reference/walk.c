/* SPDX-License-Identifier: MIT */
/* The reference of cls_verify(), part 2: judges the drafts of a request, from its first row to the
 * tokens that it emits. The reference of sampling samples each row, whose output includes the
 * drafts before it. */
#include "reference/reference.h"

#include <math.h>

#define NONE (-1)

/* ------------------------------------------------------------------------ a row */

/* Samples row r, which comes after `depth` drafts. */
static void run_row(cls_verification *v, uint32_t r, uint32_t depth, cls_host_result *result)
{
    const cls_host_drafts *const d = &v->drafts;
    const size_t word = v->w.row.mask_kind == CLS_MASK_BOOL ? 1 : sizeof(uint32_t);
    v->w.row.logits =
        (const char *)v->first.logits + r * d->logits_stride * cls_dtype_size(v->w.row.dtype);
    if (v->first.mask != NULL)
        v->w.row.mask = (const char *)v->first.mask + r * d->mask_stride * word;
    if (v->first.bias != NULL)
        v->w.row.bias =
            (const char *)v->first.bias + r * d->bias_stride * cls_dtype_size(v->w.row.bias_dtype);
    v->w.row.output_count = v->first.output_count + depth;
    v->w.row.position = v->first.position + depth;
    cls_scratch_run(&v->w, 0, result);
    v->outputs = v->w.outputs - depth;
}

/* Does this to judge a draft, and returns 1 if the row has a token. */
static int sample_row(cls_verification *v, uint32_t r, uint32_t depth)
{
    cls_host_result result = {.struct_size = sizeof result};
    run_row(v, r, depth, &result);
    v->status |=
        v->w.trace.no_token ? v->w.trace.status : v->w.trace.status & (CLS_ROW_NAN | CLS_ROW_INF);
    return !v->w.trace.no_token;
}

/* Appends a draft to the output. */
static void append_draft(cls_verification *v, uint32_t draft, uint32_t depth)
{
    v->output[v->first.output_count + depth] = v->drafts.ids[draft];
}

static uint64_t random_bits(const cls_verification *v, uint32_t purpose, uint32_t depth)
{
    return philox_bits(purpose, v->w.slot.seed, v->w.slot.stream, v->first.position + depth,
                       v->first.draw);
}

/* Sets p to the probabilities of the row's final set. */
static void read_target(cls_verification *v)
{
    const cls_reciprocal share = reciprocal_of(v->w.trace.mass);
    memset(v->p, 0, v->w.vocab * sizeof *v->p);
    for (uint32_t i = 0; i < v->w.n; i++)
        v->p[v->w.set[i]] = fraction_q63(&share, cls_token_mass(&v->w, v->w.set[i]));
}

/* Sets q to the distribution of a draft. Draft logits replace the row's logits in the work. */
static void read_draft(cls_verification *v, uint32_t draft)
{
    const uint32_t vocab = v->w.vocab;
    const size_t first = (size_t)(draft * v->drafts.draft_stride);
    memset(v->q, 0, vocab * sizeof *v->q);
    if (v->drafts.draft_kind == CLS_DRAFT_NONE) {
        v->q[v->drafts.ids[draft]] = CLS_ONE_Q63;
    } else if (v->drafts.draft_kind == CLS_DRAFT_PROBS) {
        for (uint32_t i = 0; i < vocab; i++)
            v->q[i] = probability_q63((u32)CLS_AS_I32(((const float *)v->drafts.draft)[first + i]));
    } else {
        v->w.row.logits = (const char *)v->drafts.draft + first * cls_dtype_size(v->w.row.dtype);
        cls_scratch_read(&v->w, 1);
        const cls_reciprocal share = reciprocal_of(cls_row_mass(&v->w));
        for (uint32_t i = 0; i < vocab; i++)
            v->q[i] = fraction_q63(&share, cls_token_mass(&v->w, i));
    }
}

/* ------------------------------------------------------------------- the drafts */

/* Returns 1 if a draft of a chain is a token to which its distribution gives a probability;
 * otherwise the drafts end before it. Methods that use distributions have p and q set then. */
static int draft_is_valid(cls_verification *v, uint32_t draft)
{
    if (v->drafts.ids[draft] < 0 || (uint32_t)v->drafts.ids[draft] >= v->w.vocab)
        return 0;
    if (v->drafts.method == CLS_VERIFY_TYPICAL)
        return 1;
    read_target(v);
    read_draft(v, draft);
    return v->q[v->drafts.ids[draft]] != 0;
}

/* Returns the draft that a draft follows, or NONE. */
static int32_t parent_of(const cls_verification *v, uint32_t draft)
{
    return v->drafts.parents != NULL ? v->drafts.parents[draft] : (int32_t)draft - 1;
}

/* Returns the first draft after row r that is this token (any draft if `token` is NULL), or NONE.
 */
static int32_t find_child(const cls_verification *v, uint32_t r, const int32_t *token)
{
    for (uint32_t k = r; k < v->drafts.draft_count; k++)
        if (parent_of(v, k) == (int32_t)r - 1 && (token == NULL || v->drafts.ids[k] == *token))
            return (int32_t)k;
    return NONE;
}

/* Returns the mass of the residual distribution: what the target's exceeds the draft's by. */
static uint64_t residual_mass(const cls_verification *v, uint64_t reach)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->w.vocab; i++)
        sum += residual_q63(v->p[i], v->q[i], reach);
    return sum;
}

/* Draws a token from the residual distribution. */
static int32_t draw_residual(const cls_verification *v, uint64_t reach, uint32_t depth)
{
    const uint64_t mass = residual_mass(v, reach);
    uint64_t rest = u64_mul_hi(random_bits(v, CLS_PURPOSE_RESIDUAL, depth), mass), token_mass;
    uint32_t i = 0;
    if (mass == 0)
        return v->w.trace.token;
    for (; (token_mass = residual_q63(v->p[i], v->q[i], reach)) <= rest; i++)
        rest -= token_mass;
    return (int32_t)i;
}

/* Returns 1 if typical acceptance accepts a token. */
static int is_typical(const cls_verification *v, uint32_t id)
{
    const cls_scratch *const w = &v->w;
    const uint32_t mass = mass_q20(v->w.trace.mass, w->top, w->scale);
    const int64_t entropy =
        (int64_t)mass + mean_depth_q20(cls_need(w, CLS_SUM_DEPTHS), v->w.trace.mass);
    const int64_t least = cls_bits_q20(v->drafts.epsilon),
                  relative = cls_bits_q20(v->drafts.delta) + entropy;
    return cls_set_has(w, id) &&
           (int64_t)cls_token_depth(w, id) + mass < (least > relative ? least : relative);
}

/* Returns 1 if relaxed acceptance accepts a token after the row that was sampled. */
static int is_relaxed(cls_verification *v, uint32_t id)
{
    cls_scratch *const w = &v->w;
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

/* Emits a token. `draft` is NONE if it is not a draft. Returns 1 if the token ends the request. */
static int emit(cls_verification *v, int32_t token, int32_t draft)
{
    cls_host_verified *const out = &v->result;
    out->tokens[out->emitted++] = token;
    if (draft != NONE)
        out->nodes[out->accepted++] = draft;
    const uint32_t ends =
        cls_scratch_stops(&v->w, v->outputs + (uint32_t)out->emitted, (uint32_t)token) |
        cls_scratch_ends(&v->w, (uint32_t)token);
    v->status |= ends;
    return ends != 0;
}

/* Returns 1 if a row without a draft after it emits its token. */
static int has_bonus(const cls_verification *v)
{
    return v->drafts.draft_count == 0 || !v->drafts.disable_bonus;
}

/* Returns the draft that is accepted after row r. If there is none, returns NONE, and *replacement
 * is the token that is emitted, or NONE. */
static int32_t judge(cls_verification *v, uint32_t r, uint32_t depth, int32_t *replacement)
{
    const int32_t child = find_child(v, r, NULL);
    *replacement = v->w.trace.token;
    if (child == NONE && !has_bonus(v))
        *replacement = NONE;
    if (child == NONE || v->one_token)
        return NONE;
    if (v->by_token)
        return find_child(v, r, replacement);
    if (!draft_is_valid(v, r))
        return NONE;
    const uint32_t id = (uint32_t)v->drafts.ids[child];
    if (v->drafts.method == CLS_VERIFY_TYPICAL)
        return is_typical(v, id) ? child : NONE;
    if (accepts(random_bits(v, CLS_PURPOSE_ACCEPT, depth), v->p[id], v->q[id]))
        return child;
    *replacement = draw_residual(v, CLS_ONE_Q63, depth);
    return NONE;
}

/* Accepts drafts one after the other until one is rejected or ends the request. */
static void walk(cls_verification *v)
{
    uint32_t r = 0;
    for (uint32_t depth = 0; sample_row(v, r, depth); depth++) {
        int32_t replacement;
        const int32_t draft = judge(v, r, depth, &replacement);
        if (draft == NONE) {
            if (replacement != NONE)
                emit(v, replacement, NONE);
            return;
        }
        if (emit(v, v->drafts.ids[draft], draft))
            return;
        append_draft(v, (uint32_t)draft, depth);
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
        const int has_token = !ends && sample_row(v, i, i);
        more = has_token && i < v->drafts.draft_count && draft_is_valid(v, i);
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
                next = has_token && (i < v->drafts.draft_count || has_bonus(v)) ? v->w.trace.token
                                                                                : NONE;
        }
        if (more) {
            const int32_t id = v->drafts.ids[i];
            reach = ratio_q63(reach, v->p[id], v->q[id]);
            ends = cls_scratch_stops(&v->w, v->outputs + i + 1, (uint32_t)id) != 0;
            append_draft(v, i, i);
        }
    }
    v->status = status;
    for (uint32_t i = 0; i < accepted; i++)
        emit(v, v->drafts.ids[i], (int32_t)i);
    if (next != NONE)
        emit(v, next, NONE);
}

/* Forgets the tokens that were emitted. */
static void clear_result(cls_host_verified *result)
{
    memset(result->tokens, -1, sizeof result->tokens);
    memset(result->nodes, -1, sizeof result->nodes);
    result->accepted = result->emitted = 0;
}

/* Emits the tokens of the walk again, one after the other, and ends early at a loop. Where the
 * request must emit a forced id, that id takes the place of the walk's token; where it relaxes, a
 * draft that passes, or else the row's own draw. From there on drafts are accepted if they equal
 * forced ids or the rows' own draws, or relaxed. */
static void emit_tokens(cls_verification *v)
{
    const cls_host_verified walked = v->result;
    const uint32_t whole = v->status & ~(uint32_t)(CLS_ROW_STOPPED | CLS_ROW_LENGTH);
    int by_rows = 0; /* 1 from the first row on that is forced or relaxed */
    uint32_t r = 0;
    clear_result(&v->result);
    v->status = whole & (CLS_ROW_NAN | CLS_ROW_INF);
    for (uint32_t depth = 0;; depth++) {
        v->w.row.output_count = v->first.output_count + depth;
        cls_scratch_text(&v->w);
        v->outputs = v->w.outputs - depth;
        const int32_t forced = cls_scratch_forced(&v->w, depth);
        const int relaxed = !v->one_token && cls_scratch_relaxes(&v->w);
        int32_t token = (int32_t)depth < walked.emitted ? walked.tokens[depth] : NONE;
        int32_t draft = (int32_t)depth < walked.accepted ? walked.nodes[depth] : NONE;
        int is_masked = 0, is_bonus = 0;
        by_rows |= forced >= 0 || relaxed;
        if (by_rows) {
            const uint32_t before = v->status;
            const int has_token = sample_row(v, r, depth);
            is_masked = forced >= 0 && !cls_scratch_allows(&v->w, (uint32_t)forced);
            if (forced >= 0)
                v->status = before | (v->w.trace.status & (CLS_ROW_NAN | CLS_ROW_INF)) |
                            (is_masked ? CLS_ROW_EMPTY : 0);
            token = is_masked ? NONE : forced >= 0 ? forced : has_token ? v->w.trace.token : NONE;
            const int32_t next = find_child(v, r, NULL);
            if (relaxed && forced < 0 && has_token && next != NONE &&
                is_relaxed(v, (uint32_t)v->drafts.ids[next]))
                token = v->drafts.ids[next];
            draft = token != NONE && !v->one_token ? find_child(v, r, &token) : NONE;
            is_bonus = token != NONE && draft == NONE && !v->one_token && next == NONE;
            if (is_bonus && !has_bonus(v))
                token = NONE;
        } else if (token == NONE || draft == NONE) {
            v->status |= whole;
        }
        if (token == NONE) {
            v->last_row = is_bonus ? NONE : (int32_t)r;
            v->last_masked = is_masked;
            return;
        }
        v->emitted[depth].row = r;
        v->emitted[depth].forced = forced >= 0;
        v->status |= forced >= 0 ? CLS_ROW_FORCED : 0;
        const uint32_t loops = cls_scratch_loops(&v->w, v->w.length, v->w.outputs, (uint32_t)token);
        v->status |= loops;
        if (emit(v, token, draft) || loops != 0 || draft == NONE)
            return;
        append_draft(v, (uint32_t)draft, depth);
        r = (uint32_t)draft + 1;
    }
}

/* Returns the status of the row that should have given the next token. */
static int32_t last_status(cls_verification *v, uint32_t depth)
{
    cls_host_result result = {.struct_size = sizeof result};
    if (v->last_row == NONE)
        return CLS_ROW_SKIPPED;
    run_row(v, (uint32_t)v->last_row, depth, &result);
    return v->last_masked        ? (result.status & (CLS_ROW_NAN | CLS_ROW_INF)) | CLS_ROW_EMPTY
           : v->w.trace.no_token ? result.status
                                 : CLS_ROW_SKIPPED;
}

/* Reports on a token, or on the absence of one behind the last token. */
static void report(cls_verification *v, uint32_t i)
{
    const cls_host_drafts *const d = &v->drafts;
    const uint32_t emitted = (uint32_t)v->result.emitted;
    cls_host_result result = {
        .struct_size = sizeof result,
        .kept_capacity = d->kept_capacity,
        .kept_ids = d->kept_ids != NULL ? d->kept_ids + (size_t)i * d->kept_capacity : NULL};
    if (i < emitted) {
        run_row(v, v->emitted[i].row, i, &result);
        cls_scratch_emit(&v->w, v->result.tokens[i], v->emitted[i].forced, &result);
        v->status |= (uint32_t)result.status & CLS_ROW_OVERFLOW;
    } else {
        result.logprob_raw = result.logprob_final = -INFINITY;
        result.status = i == 0 && (v->status & CLS_ROW_SKIPPED) ? (int32_t)v->status
                        : i == emitted                          ? last_status(v, i)
                                                                : CLS_ROW_SKIPPED;
        for (uint32_t k = 0; k < d->kept_capacity && d->kept_ids != NULL; k++)
            result.kept_ids[k] = -1;
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

static void report_all(cls_verification *v)
{
    const cls_host_drafts *const d = &v->drafts;
    const int wanted = d->logprobs_raw != NULL || d->logprobs_final != NULL ||
                       d->kept_counts != NULL || d->token_status != NULL || d->kept_ids != NULL;
    for (uint32_t i = 0; i <= d->draft_count && wanted; i++)
        report(v, i);
}

/* Walks through the drafts of a request that has not stopped, and emits what they give. */
static void walk_drafts(cls_verification *v)
{
    const int relaxes = !v->one_token && cls_scratch_relaxes(&v->w); /* emit_tokens() judges */
    if (!relaxes && v->drafts.method == CLS_VERIFY_BLOCK && !v->one_token && !v->by_token)
        walk_block(v);
    else if (!relaxes)
        walk(v);
    emit_tokens(v);
}

void cls_verification_walk(cls_verification *v)
{
    clear_result(&v->result);
    v->last_row = NONE;
    v->w.row.output_count = v->first.output_count;
    cls_scratch_text(&v->w);
    if (cls_scratch_stopped(&v->w))
        v->status = CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    else
        walk_drafts(v);
    report_all(v);
}
