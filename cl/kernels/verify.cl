/* SPDX-License-Identifier: MIT */
/* verify: decides how many of a request's drafts are accepted, and which token follows them. Each
 * row already has its token, and the target and draft probability of the draft that follows it. The
 * residual kernel has summed up what is left of each row. verify walks the rows, draws from a
 * residual where needed, and updates the slots. */
#include "draw/sample.cl"
#include "draw/residual.cl"

static inline u64 sum_of(__global const u64 *tile_sum, u32 tiles, __local u64 *scratch)
{
    u64 sum = 0;
    for (u32 t = LOCAL_ID; t < tiles; t += WGS)
        sum += tile_sum[t];
    return wg_mass(sum, scratch);
}

/* How far the walk through a request's rows has come. */
typedef struct walk {
    u32 row, depth; /* the row, and how many drafts are accepted on the path to it */
    u32 status;
    i32 token;         /* the token that follows the drafts; -1: none */
    int from_residual; /* that token must be drawn from the row's residual */
    u64 prefix_prob;   /* block verification: that of accepting the path; else 2^63, which is 1 */
} walk;

#undef LOGITS_ROW
#define LOGITS_ROW(row) ((i32)(row)) /* rows of drafts are in order */

/* Takes status and token from a row's record. Returns 0 if the row has no token. */
static inline int walk_row(const cls_row *out, walk *w)
{
    w->status |= out->no_token ? out->status : out->status & (CLS_STATUS_NAN | CLS_STATUS_INF);
    w->token = out->no_token ? -1 : out->token;
    return !out->no_token;
}

/* Follows the drafts that equal the rows' tokens, in a chain or a tree. */
static inline void walk_matches(__global const cls_slot *slot, __global const u32 *lists,
                                __global const cls_row *rows, __global const i32 *nodes,
                                __global const i32 *parents, __global const i32 *ids, u32 last,
                                int bonus, walk *w)
{
    const u32 first = w->row;
    for (;;) {
        const cls_row out = rows[w->row];
        u32 next = last;
        int children = 0;
        if (!walk_row(&out, w))
            return;
        for (u32 at = w->row + 1; at < last && next == last; at++) {
            if (parents[nodes[at]] != nodes[w->row])
                continue;
            children = 1;
            next = ids[nodes[at]] == out.token ? at : last;
        }
        if (next == last) {
            w->token = children || bonus || first + 1 == last ? out.token : -1;
            return;
        }
        w->row = next;
        w->depth++;
        w->token = -1;
        const u32 ended = ends_request(slot, lists, (u32)out.token, slot->outputs + w->depth);
        w->status |= ended;
        if (ended != 0)
            return;
    }
}

/* Returns whether typical acceptance accepts the draft that follows a row. */
static inline int is_typical(const cls_row *out, const row_logits *r, __global const u32 *row_ids,
                             u32 flags, u32 id, u64 terms, i32 epsilon, i32 delta)
{
    const f32 top = float_of_key(out->top_key);
    report t;
    report_final(r, out, flags, row_ids, &t);
    const f32 z = report_kept(&t, id, load_one(&t.r, id));
    if (!(z > CLS_MASKED))
        return 0;
    const i32 whole = (i32)mass_q20(out->mass, top, out->scale);
    const i32 entropy = whole + (i32)mean_depth_q20(terms, out->mass);
    return (i32)depth_q20(z, top, out->scale) + whole < max(epsilon, delta + entropy);
}

/* A request that is verified by probabilities, and the inputs. */
typedef struct verifier {
    __global const cls_slot *slot;
    __global const u32 *lists;
    __global const cls_row *rows;
    __global const i32 *nodes, *parents, *ids; /* of the drafts */
    __global const u64 *sums;                  /* the sums of the residuals of all rows, by tiles */
    u32 method, n_rows, tiles;
    int single, bonus; /* single: the request has one row */
    i32 epsilon, delta;
    __local u64 *scratch;
} verifier;

static inline u64 row_sum_of(const verifier *v, u32 row)
{
    return sum_of(v->sums + (size_t)row * v->tiles, v->tiles, v->scratch);
}

/* Returns whether the draft that follows a row, *draft, can be verified. If not, the walk ends with
 * the row's own token, if it may have one. */
static inline int can_verify(const verifier *v, const cls_row *out, i32 *draft, walk *w)
{
    *draft = draft_after(v->nodes, v->parents, w->row, v->n_rows);
    if (!walk_row(out, w))
        return 0;
    if (*draft >= 0 && out->draft_prob != 0)
        return 1;
    w->token = *draft >= 0 || v->bonus || v->single ? out->token : -1;
    return 0;
}

/* Goes to the next row in block verification. `bits` decides whether the prefix up to there is
 * accepted; *best is the longest one so far. Returns 0 if it was the last row. */
static inline int next_block(const verifier *v, const cls_row *out, u64 bits, u32 stop,
                             u64 *prefix_prob, walk *w, walk *best)
{
    const cls_row next = v->rows[w->row];
    const i32 after = draft_after(v->nodes, v->parents, w->row, v->n_rows);
    const int inner = stop == 0 && !next.no_token && after >= 0 && next.draft_prob != 0;
    *prefix_prob = ratio_q63(*prefix_prob, out->target_prob, out->draft_prob);
    const u64 sum = inner ? row_sum_of(v, w->row) : *prefix_prob;
    const u64 whole = inner ? sum + CLS_ONE_Q63 - *prefix_prob : CLS_ONE_Q63;
    if (accepts(bits, sum, whole)) {
        *best = *w;
        best->from_residual = inner;
        best->prefix_prob = *prefix_prob;
        best->status |= inner ? next.status & (CLS_STATUS_NAN | CLS_STATUS_INF) : stop;
        best->token = inner ? next.token : -1;
    }
    /* If the last prefix was accepted, the row after it gives the next token. */
    if (!inner && stop == 0 && best->row == w->row) {
        walk_row(&next, best);
        if (!next.no_token && after < 0 && !v->bonus)
            best->token = -1;
    }
    return inner;
}

/* Verifies a request's drafts row by row. Standard and typical verification end at the first draft
 * that is rejected; block verification goes on to the end and returns to the longest accepted
 * prefix. This is a macro because it draws with the kernel's arguments. */
#define VERIFY_ROWS(v, w, first) \
    { \
        walk best = w; \
        u64 prefix_prob = CLS_ONE_Q63; \
        int more = 1; \
        for (u32 remaining = n_rows; more && remaining > 0; remaining--) { \
            const int together = method == CLS_VERIFY_BLOCK; \
            const u64 bits = ROW_BITS(together ? CLS_PURPOSE_BLOCK + w.depth : CLS_PURPOSE_ACCEPT, \
                                      slot, together ? first : w.row); \
            const row_logits r = ROW_VIEW(w.row, slot_index); \
            more = verify_row(v, &r, \
                              (__global const u32 *)sample + (size_t)w.row * args->sample_stride, \
                              bits, &prefix_prob, &w, &best); \
        } \
        w = best; \
    }
static inline int verify_row(const verifier *v, const row_logits *r, __global const u32 *row_ids,
                             u64 bits, u64 *prefix_prob, walk *w, walk *best)
{
    const cls_row out = v->rows[w->row];
    const int block = v->method == CLS_VERIFY_BLOCK;
    i32 draft;
    int taken = 0;
    if (!can_verify(v, &out, &draft, w)) {
        *best = *w;
        return 0;
    }
    const u32 id = (u32)v->ids[draft],
              stop = ends_request(v->slot, v->lists, id, v->slot->outputs + w->depth + 1);
    if (v->method == CLS_VERIFY_STANDARD)
        taken = accepts(bits, out.target_prob, out.draft_prob);
    else if (v->method == CLS_VERIFY_TYPICAL)
        taken = is_typical(&out, r, row_ids, v->slot->flags, id, row_sum_of(v, w->row), v->epsilon,
                           v->delta);
    if (block || !taken) {
        w->from_residual = v->method != CLS_VERIFY_TYPICAL;
        w->prefix_prob = *prefix_prob;
        if (w->depth == 0 || !block)
            *best = *w;
        if (!block)
            return 0;
    }
    w->from_residual = 0;
    w->row++;
    w->depth++;
    w->token = -1;
    if (block)
        return next_block(v, &out, bits, stop, prefix_prob, w, best);
    if (stop != 0) {
        w->status |= stop;
        *best = *w;
    }
    return stop == 0;
}

#if FORCED
/* Returns the first row after `row` whose draft is this token, or `last`. *children becomes 1 if
 * any draft follows the row. */
static inline u32 child_with(const verifier *v, u32 row, u32 last, i32 token, int *children)
{
    for (u32 at = row + 1; at < last; at++) {
        if (v->parents[v->nodes[at]] != v->nodes[row])
            continue;
        *children = 1;
        if (v->ids[v->nodes[at]] == token)
            return at;
    }
    return last;
}

/* Emits the tokens of a walk, which its slot accepts one after the other, and sets the walk to what
 * was emitted. It ends early at a loop. Where the request must emit a forced id, that id takes the
 * place of the walk's token, and from there on drafts are accepted if they equal forced ids or the
 * rows' own draws. `path`: the drafts of the walk. `next`: the adaptive state after the first row's
 * own token, of a request that takes one token a call (one_token). */
static inline void emit_tokens(const verifier *v, __global const cls_args *args,
                               __global const u32 *mask, __global const i32 *mask_map,
                               __global cls_slot *slot, const slot_state *s,
                               __global const u32 *path, u32 first, u32 last, int one_token,
                               const cls_slot_adaptive *next, walk *w)
{
    const u32 has = args->has, read = w->status & (CLS_STATUS_NAN | CLS_STATUS_INF),
              whole = w->status & ~(CLS_STATUS_STOPPED | CLS_STATUS_LENGTH), depth = w->depth;
    const i32 final = w->token;
    const cls_slot_adaptive same = slot->adaptive;
    int by_rows = 0; /* 1 from the first forced id on */
    w->row = first;
    w->depth = 0;
    w->status = read;
    for (;;) {
        const i32 due = forced_id(slot, v->lists), own = v->rows[w->row].token;
        const u32 row_status = v->rows[w->row].status;
        const int empty = (int)v->rows[w->row].no_token;
        int children = 0;
        by_rows |= due >= 0;
        w->token = due >= 0   ? due
                   : !by_rows ? (w->depth < depth ? (i32)path[w->depth] : final)
                   : empty    ? -1
                              : own;
        if (by_rows)
            w->status |= row_status & (CLS_STATUS_NAN | CLS_STATUS_INF);
        if (due >= 0 && !mask_allows(args, mask, mask_map, has, w->row, (u32)due)) {
            w->status |= CLS_STATUS_EMPTY;
            w->token = -1;
        } else if (w->token < 0) {
            w->status |= by_rows ? row_status : whole;
        }
        if (w->token < 0)
            return;
        u32 at = last;
        if (!one_token && (by_rows || w->depth < depth))
            at = child_with(v, w->row, last, w->token, &children);
        if (by_rows && !one_token && at == last && !children && !v->bonus && !v->single) {
            w->token = -1;
            return;
        }
        w->status |= due >= 0 ? CLS_STATUS_FORCED : 0u;
        const text t = text_in(s->ring, s->n_ring, slot->length);
        u32 ended = ends_request(slot, v->lists, (u32)w->token, slot->outputs + 1);
        if (ends_in_loop(slot, &t, (u32)w->token | CLS_ENTRY_OUTPUT, 1, v->scratch))
            ended |= CLS_STATUS_STOPPED | CLS_STATUS_LOOP;
        w->status |= ended;
        if (at == last && !by_rows)
            w->status |= whole;
        state_accept(slot, s, v->lists, (u32)w->token, 1,
                     one_token && !(due >= 0 && due != own) ? next : &same, v->scratch);
        BARRIER();
        if (at == last)
            return;
        w->row = at;
        w->depth++;
        w->token = -1;
        if (ended != 0)
            return;
    }
}

#endif

#define VERIFY_OUTS \
    __global i32 *out_tokens, __global i32 *accepted, __global i32 *emitted, \
        __global i32 *out_nodes, __global i32 *out_status, __global i32 *counters, \
        __global i32 *latest
#define VERIFY_OUT_NAMES out_tokens, accepted, emitted, out_nodes, out_status, counters, latest
#define WANTED(output) (wants & CLS_WANTS(CLS_VERIFIED_##output))
#define VERIFIED(buffer, output) OUTPUT(buffer, CLS_VERIFIED_##output)

/* Writes the result of a request, by one item. */
static inline void verify_write(__global const cls_args *args, const walk *w,
                                __global const u32 *path, __global const i32 *nodes,
                                __global const i32 *parents, u32 request, u32 first, u32 last,
                                i32 slot_index, VERIFY_OUTS)
{
    const u32 wants = args->wants, max_drafts = args->max_drafts;
    const u32 in_all = w->depth + (u32)(w->token >= 0);
    if (WANTED(TOKENS))
        for (u32 i = 0; i <= max_drafts; i++)
            VERIFIED(out_tokens, TOKENS)
    [(size_t)request * (max_drafts + 1) + i] = i < w->depth    ? (i32)path[i]
                                               : i == w->depth ? w->token
                                                               : -1;
    if (WANTED(ACCEPTED))
        VERIFIED(accepted, ACCEPTED)[request] = (i32)w->depth;
    if (WANTED(EMITTED))
        VERIFIED(emitted, EMITTED)[request] = (i32)in_all;
    if (WANTED(NODES)) {
        __global i32 *const to = VERIFIED(out_nodes, NODES) + (size_t)request * max_drafts;
        i32 node = nodes[w->row];
        for (u32 i = w->depth; i < max_drafts; i++)
            to[i] = -1;
        for (u32 i = w->depth; i > 0; node = parents[node])
            to[--i] = node - (i32)(first - request);
    }
    if (WANTED(STATUS))
        VERIFIED(out_status, STATUS)[request] = (i32)w->status;
    if (WANTED(COUNTERS) && slot_index >= 0 && !(w->status & CLS_STATUS_SKIPPED)) {
        __global i32 *const sum = VERIFIED(counters, COUNTERS) + (size_t)slot_index * 3;
        sum[0] += (i32)(last - first - 1);
        sum[1] += (i32)w->depth;
        sum[2] += (i32)in_all;
    }
    if (WANTED(LATEST) && in_all > 0)
        VERIFIED(latest, LATEST)
    [(u32) slot_index] = w->token >= 0 ? w->token : (i32)path[in_all - 1];
}

/* A work-group verifies one request. Launch: [WGS, requests]. */
#define VERIFY_ARGS \
    STEP_ARGS, RANDOM_ARGS, __global u64 *work, __global f32 *sample, DRAFT_ARGS, DRAFT_ROW_ARGS, \
        VERIFY_OUTS
ONE_COPY void verify_request(u32 request, __local u64 *scratch, VERIFY_ARGS)
{
    STEP_LOCALS
    const u32 lid = LOCAL_ID, tiles = TILES;
    const u32 method = args->method, n_rows = args->n_rows;
    const int bonus = (int)args->bonus;
    const u32 first = (u32)FIRSTS[request];
    const u32 last = request + 1 < args->requests ? (u32)FIRSTS[request + 1] : n_rows;
    const i32 slot_index = mapped_slot(args, slots, slot_map, has, first);
    __global const i32 *const nodes = NODES, *const parents = PARENTS;
    __global const i32 *const ids = AT_OFFSET(draft_ids);
    __global const cls_slot *const slot = slots + (slot_index >= 0 ? slot_index : 0);
    const u32 flags = slot_index >= 0 ? slot->flags : 0u,
              stopped = slot_index >= 0 ? slot->stopped : 0u;
    walk w = {first, 0, 0u, -1, 0, CLS_ONE_Q63};
    cls_slot_adaptive next = {0, 0u, 0u, 0u};
    if (slot_index >= 0)
        next = slot->adaptive;
    const int one_token =
        !(has & CLS_ALL_GREEDY) && (flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS));
    const int by_probability = slot_index >= 0 && uses_probabilities(flags, stopped, has) &&
                               (method == CLS_VERIFY_STANDARD || method == CLS_VERIFY_BLOCK ||
                                method == CLS_VERIFY_TYPICAL);
    const verifier v = {slot,          lists,       rows,   nodes, parents,           ids,
                        work,          method,      n_rows, tiles, first + 1 == last, bonus,
                        args->epsilon, args->delta, scratch};
    if (slot_index < 0 || stopped) {
        w.status = rows[first].status;
    } else if (one_token) {
        const cls_row out = rows[first];
        const row_logits r = ROW_VIEW(first, slot_index);
        /* The adaptive state must follow this token before the next one is drawn. */
        if (walk_row(&out, &w))
            adaptive_after(&r, slot, flags, &out, &next);
    } else if (!by_probability) {
        walk_matches(slot, lists, rows, nodes, parents, ids, last, bonus, &w);
    } else {
        VERIFY_ROWS(&v, w, first)
    }
    if (w.from_residual) { /* the same for the whole group */
        const cls_row out = rows[w.row];
        const i32 draft = draft_after(nodes, parents, w.row, n_rows);
        __global const u64 *const sums = work + (size_t)w.row * tiles;
        const u64 total = sum_of(sums, tiles, scratch);
        if (total != 0) {
            u64 drawn = u64_mul_hi(ROW_BITS(CLS_PURPOSE_RESIDUAL, slot, w.row), total);
            const row_logits r = ROW_VIEW(w.row, slot_index);
            const draft_rows d = ROW_DRAFTS;
            residual rest;
            residual_of(&r, &out, flags,
                        (__global const u32 *)sample + (size_t)w.row * args->sample_stride, &d,
                        (u32)draft, (u32)ids[draft], w.prefix_prob, &rest);
            const u32 tile = find_tile(sums, tiles, &drawn, scratch);
            w.token = residual_draw(&rest, tile, drawn, scratch);
        }
    }
#if FORCED
    if (slot_index >= 0 && !stopped) {
        const history_effects p = effects_of(effects, args->layout, vocab, w.row, lists);
        const slot_state s = state_of(state, args->layout, vocab, (u32)slot_index);
        BARRIER();
        emit_tokens(&v, args, mask, mask_map, slots + slot_index, &s, p.path, first, last,
                    one_token, &next, &w);
    }
#else
    if (w.token >= 0)
        w.status |= ends_request(slot, lists, (u32)w.token, slot->outputs + w.depth + 1);
#endif
    const history_effects p = effects_of(effects, args->layout, vocab, w.row, lists);
    if (lid == 0)
        verify_write(args, &w, p.path, nodes, parents, request, first, last, slot_index,
                     VERIFY_OUT_NAMES);
#if !FORCED
    const u32 in_all = w.depth + (u32)(w.token >= 0);
    const slot_state s =
        state_of(state, args->layout, vocab, slot_index < 0 ? 0u : (u32)slot_index);
    for (u32 i = 0; i < in_all; i++) {
        state_accept(slots + slot_index, &s, lists, i < w.depth ? p.path[i] : (u32)w.token, 1,
                     &next, scratch);
        BARRIER();
    }
#endif
}

KERNEL void cls_verify(VERIFY_ARGS)
{
    __local u64 scratch[WGS];
    verify_request(get_group_id(1), scratch, STEP_NAMES, RANDOM_NAMES, work, sample, DRAFT_NAMES,
                   DRAFT_ROW_NAMES, VERIFY_OUT_NAMES);
}
