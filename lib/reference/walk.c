/* SPDX-License-Identifier: MIT */
/* The reference of verification, from a request's first row to what it emits: every row
 * by the reference of sampling, with the drafts before it as output, and all of its
 * probabilities, whatever is asked. */
#include "reference/reference.h"

#include <math.h>

#define NOTHING (-1)

/* ------------------------------------------------------------------------ a row */

/* Samples row r, which so many drafts lead to. Returns whether it has a token. */
static int look(cls_verification *v, uint32_t r, uint32_t depth)
{
    const cls_host_drafts *const d = &v->drafts;
    const size_t word = v->row.mask_kind == CLS_MASK_BOOL ? 1 : sizeof(uint32_t);
    cls_host_result result = {.struct_size = sizeof result};
    v->row.logits = (const char *)v->first.logits + r * d->stride * cls_dtype_size(v->row.dtype);
    if (v->first.mask != NULL)
        v->row.mask = (const char *)v->first.mask + r * d->mask_stride * word;
    if (v->first.bias != NULL)
        v->row.bias =
            (const char *)v->first.bias + r * d->bias_stride * cls_dtype_size(v->row.bias_dtype);
    v->row.output_count = v->first.output_count + depth;
    v->row.position = v->first.position + depth;
    cls_work_run(&v->w, &v->trace, &result);
    v->outputs = v->w.outputs - depth;
    v->status |= v->trace.none ? v->trace.status : v->trace.status & (CLS_ROW_NAN | CLS_ROW_INF);
    return !v->trace.none;
}

static void follow(cls_verification *v, uint32_t draft, uint32_t depth)
{
    v->output[v->first.output_count + depth] = v->drafts.ids[draft];
}

static uint64_t random_bits(const cls_verification *v, uint32_t purpose, uint32_t depth)
{
    return philox_bits(purpose, v->w.slot.seed, v->w.slot.stream, v->first.position + depth,
                       v->first.draw);
}

/* The row's probabilities: of its final set. */
static void read_target(cls_verification *v)
{
    const cls_share share = share_of(v->trace.mass);
    memset(v->p, 0, v->w.vocab * sizeof *v->p);
    for (uint32_t i = 0; i < v->w.n; i++)
        v->p[v->w.set[i]] = share_q63(&share, cls_token_mass(&v->w, v->w.set[i]));
}

/* A draft's. The work has its logits in the row's place after that. */
static void read_draft(cls_verification *v, uint32_t draft)
{
    const uint32_t vocab = v->w.vocab;
    const size_t at = (size_t)draft * vocab;
    memset(v->q, 0, vocab * sizeof *v->q);
    if (v->drafts.draft_kind == CLS_DRAFT_NONE) {
        v->q[v->drafts.ids[draft]] = CLS_ONE_Q63;
    } else if (v->drafts.draft_kind == CLS_DRAFT_PROBS) {
        for (uint32_t i = 0; i < vocab; i++)
            v->q[i] = probability_q63((u32)CLS_AS_I32(((const float *)v->drafts.draft)[at + i]));
    } else {
        v->row.logits = (const char *)v->drafts.draft + at * cls_dtype_size(v->row.dtype);
        cls_work_read(&v->w, 1);
        if (v->w.alive == 0)
            return;
        v->w.scale = CLS_LOG2E;
        cls_weigh(&v->w);
        const cls_share share = share_of(cls_row_mass(&v->w));
        for (uint32_t i = 0; i < vocab; i++)
            v->q[i] = share_q63(&share, cls_token_mass(&v->w, i));
    }
}

/* ------------------------------------------------------------------- the drafts */

/* Whether a draft of a chain can be judged, or the drafts end before it. With a method
 * that looks at distributions both are there then. */
static int is_draft(cls_verification *v, uint32_t draft)
{
    if (v->drafts.ids[draft] < 0 || (uint32_t)v->drafts.ids[draft] >= v->w.vocab)
        return 0;
    if (v->drafts.method == CLS_VERIFY_TYPICAL)
        return 1;
    read_target(v);
    read_draft(v, draft);
    return v->q[v->drafts.ids[draft]] != 0;
}

static int32_t parent_of(const cls_verification *v, uint32_t draft)
{
    return v->drafts.parents != NULL ? v->drafts.parents[draft] : (int32_t)draft - 1;
}

/* The first draft after row r, or of them the first that is a token; or NOTHING. */
static int32_t find_child(const cls_verification *v, uint32_t r, const int32_t *token)
{
    for (uint32_t k = r; k < v->drafts.n; k++)
        if (parent_of(v, k) == (int32_t)r - 1 && (token == NULL || v->drafts.ids[k] == *token))
            return (int32_t)k;
    return NOTHING;
}

/* The mass of what is left of the target, and the token at a place in it. */
static uint64_t residual_mass(const cls_verification *v, uint64_t reach)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->w.vocab; i++)
        sum += residual_q63(v->p[i], v->q[i], reach);
    return sum;
}

static int32_t draw_residual(const cls_verification *v, uint64_t reach, uint32_t depth)
{
    const uint64_t mass = residual_mass(v, reach);
    uint64_t rest = u64_mul_hi(random_bits(v, CLS_PURPOSE_RESIDUAL, depth), mass), here;
    uint32_t i = 0;
    if (mass == 0)
        return v->trace.token;
    for (; (here = residual_q63(v->p[i], v->q[i], reach)) <= rest; i++)
        rest -= here;
    return (int32_t)i;
}

/* -log2 x in units of 2^-20. */
static int32_t bits_q20(float x) { return (int32_t)floor(-log2((double)x) * 1048576.0 + 0.5); }

static int is_typical(const cls_verification *v, uint32_t id)
{
    const cls_work *const w = &v->w;
    const uint32_t mass = mass_q20(v->trace.mass, w->top, w->scale);
    const int64_t entropy = (int64_t)mass + cls_mean_depth(w, v->trace.mass);
    const int64_t least = bits_q20(v->drafts.epsilon),
                  relative = bits_q20(v->drafts.delta) + entropy;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->set[i] == id)
            return (int64_t)cls_token_depth(w, id) + mass < (least > relative ? least : relative);
    return 0;
}

/* --------------------------------------------------------------------- the walk */

/* Emits a token, a draft or (NOTHING) the target's own. Returns whether it ends the request. */
static int emit(cls_verification *v, int32_t token, int32_t draft)
{
    cls_host_verified *const out = &v->result;
    out->tokens[out->emitted++] = token;
    if (draft != NOTHING)
        out->nodes[out->accepted++] = draft;
    const uint32_t stops =
        cls_work_stops(&v->w, v->outputs + (uint32_t)out->emitted, (uint32_t)token);
    v->status |= stops;
    return stops != 0;
}

/* Whether a row that has no draft after it emits its token. */
static int has_bonus(const cls_verification *v)
{
    return v->drafts.n == 0 || !v->drafts.disable_bonus;
}

/* The draft that is accepted after row r, or NOTHING, and then what is emitted in its place. */
static int32_t judge(cls_verification *v, uint32_t r, uint32_t depth, int32_t *instead)
{
    const int32_t child = find_child(v, r, NULL);
    *instead = v->trace.token;
    if (child == NOTHING && !has_bonus(v))
        *instead = NOTHING;
    if (child == NOTHING || v->single)
        return NOTHING;
    if (v->by_token)
        return find_child(v, r, instead);
    if (!is_draft(v, r))
        return NOTHING;
    const uint32_t id = (uint32_t)v->drafts.ids[child];
    if (v->drafts.method == CLS_VERIFY_TYPICAL)
        return is_typical(v, id) ? child : NOTHING;
    if (accepts(random_bits(v, CLS_PURPOSE_ACCEPT, depth), v->p[id], v->q[id]))
        return child;
    *instead = draw_residual(v, CLS_ONE_Q63, depth);
    return NOTHING;
}

static void walk(cls_verification *v)
{
    uint32_t r = 0;
    for (uint32_t depth = 0; look(v, r, depth); depth++) {
        int32_t instead;
        const int32_t draft = judge(v, r, depth, &instead);
        if (draft == NOTHING) {
            if (instead != NOTHING)
                emit(v, instead, NOTHING);
            return;
        }
        if (emit(v, v->drafts.ids[draft], draft))
            return;
        follow(v, (uint32_t)draft, depth);
        r = (uint32_t)draft + 1;
    }
}

/* Block verification: all prefixes are judged, and the longest good one counts. What would
 * follow each is noted on the way. */
static void walk_block(cls_verification *v)
{
    uint64_t reach = CLS_ONE_Q63;
    uint32_t good = 0, status = 0;
    int32_t next = NOTHING;
    int more = 1, stops = 0;
    for (uint32_t i = 0; more; i++) {
        const int there = !stops && look(v, i, i);
        more = there && i < v->drafts.n && is_draft(v, i);
        const uint64_t left = more ? residual_mass(v, reach) : 0;
        const uint64_t bits = random_bits(v, CLS_PURPOSE_BLOCK + i - 1, 0);
        const int likely = more ? accepts(bits, left, left + CLS_ONE_Q63 - reach)
                                : accepts(bits, reach, CLS_ONE_Q63);
        if (i == 0 || likely) {
            good = i;
            status = v->status;
            if (more)
                next = draw_residual(v, reach, i);
            else
                next = there && (i < v->drafts.n || has_bonus(v)) ? v->trace.token : NOTHING;
        }
        if (more) {
            const int32_t id = v->drafts.ids[i];
            reach = ratio_q63(reach, v->p[id], v->q[id]);
            stops = cls_work_stops(&v->w, v->outputs + i + 1, (uint32_t)id) != 0;
            follow(v, i, i);
        }
    }
    v->status = status;
    for (uint32_t i = 0; i < good; i++)
        emit(v, v->drafts.ids[i], (int32_t)i);
    if (next != NOTHING)
        emit(v, next, NOTHING);
}

void cls_verification_walk(cls_verification *v)
{
    memset(v->result.tokens, -1, sizeof v->result.tokens);
    memset(v->result.nodes, -1, sizeof v->result.nodes);
    if (v->drafts.method == CLS_VERIFY_BLOCK && !v->single && !v->by_token)
        walk_block(v);
    else
        walk(v);
}
