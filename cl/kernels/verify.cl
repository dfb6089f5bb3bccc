/* SPDX-License-Identifier: MIT */
/* verify: decides how many of a request's drafts are accepted, and which token follows them. Each
 * row already has its token, and the target and draft probability of the draft that follows it. The
 * residual kernel has summed up what is left of each row. A method that compares probabilities
 * judges the drafts first. Then one walk goes over the rows and says what is emitted, and the slot
 * accepts that. */
#include "draw/sample.cl"
#include "draw/residual.cl"

/* A request's verification. */
typedef struct verifier {
    const step_args *s;
    __global cls_slot *slot;
    i32 slot_index;
    u32 request, first, last;            /* its rows are first to last - 1 */
    __global const i32 *nodes, *parents; /* of the drafts */
    SHARED row_logits *shared;           /* see ROW_VIEW() */
    __local u64 *scratch;
    int by_rows; /* a draft is accepted if and only if it equals the token of its row; otherwise: */
    u32 accepted; /* so many drafts are, and */
    i32 drawn;    /* this token follows them, or if it is -1 the row's own */
} verifier;

/* How far the walk through a request's rows has come. */
typedef struct walk {
    u32 row, depth; /* the row, and how many drafts are accepted on the path to it */
    u32 status;
    i32 token; /* that follows the drafts; -1: none */
} walk;

/* Returns the sum of what the residual kernel has left of a row. */
static inline u64 row_sum_of(const verifier *v, u32 row)
{
    __global const u64 *const tile_sum = tile_sums_of(v->s, row);
    u64 sum = 0;
    for (u32 t = LOCAL_ID; t < row_tiles(v->s); t += WGS)
        sum += tile_sum[t];
    return wg_mass(sum, v->scratch);
}

/* Returns whether typical acceptance accepts the draft that follows a row. */
static inline int is_typical(const verifier *v, u32 row, u32 id)
{
    ARGS const cls_args *const args = v->s->args;
    const cls_row out = v->s->rows[row];
    ROW_VIEW(v->shared, v->s, row, v->slot_index)
    const f32 top = float_of_key(out.top_key);
    report t;
    report_final(r, &out, r->slot->flags, kept_ids_of(v->s, row), &t);
    const f32 z = report_kept(&t, id, load_one(r, id));
    if (!(z > CLS_MASKED))
        return 0;
    const i32 whole = (i32)mass_q20(out.mass, top, out.scale);
    const i32 entropy = whole + (i32)mean_depth_q20(row_sum_of(v, row), out.mass);
    return (i32)depth_q20(z, top, out.scale) + whole < max(args->epsilon, args->delta + entropy);
}

/* Draws the token that follows a rejected draft, from what the residual kernel has left of the row;
 * -1 if that is nothing. */
static inline i32 draw_residual(const verifier *v, u32 row, u64 prefix_prob)
{
    const step_args *const s = v->s;
    const cls_row out = s->rows[row];
    const u64 total = row_sum_of(v, row);
    if (total == 0) /* the same for the whole group */
        return -1;
    u64 drawn = u64_mul_hi(row_bits(s, CLS_PURPOSE_RESIDUAL, v->slot, row), total);
    ROW_VIEW(v->shared, s, row, v->slot_index)
    residual rest;
    residual_of(s, r, &out, row, row_flags(s, row, v->slot_index), draft_after(s, row), prefix_prob,
                &rest);
    const u32 tile = find_tile(tile_sums_of(s, row), r->tiles, &drawn, v->scratch);
    return residual_draw(r, &rest, tile, drawn, v->scratch);
}

/* Judges a chain's drafts by probabilities. Standard and typical verification end at the first
 * draft that is rejected; block verification goes on to the end and returns to the longest accepted
 * prefix. Where a draft is rejected that was drawn from a distribution, the residual gives the
 * token. */
static inline void judge_drafts(u32 method, verifier *v)
{
    const step_args *const s = v->s;
    const int block = method == CLS_VERIFY_BLOCK;
    u64 prefix_prob = CLS_ONE_Q63, best_prob = CLS_ONE_Q63; /* block: of accepting the prefix */
    int inner = 1, taken = 1, draws = 0;
    for (u32 depth = 0; inner && (taken || block) && depth < s->args->n_rows; depth++) {
        const u32 row = v->first + depth;
        const i32 draft = draft_after(s, row);
        u32 ended = 0, id = 0;
        u64 p = 0, q = 0;
        if (depth > 0) { /* the draft before the row */
            p = s->rows[row - 1].target_prob;
            q = s->rows[row - 1].draft_prob;
            id = (u32)draft_id(s, v->request, v->nodes[row]);
            ended = ends_request(v->slot, is_stop(v->slot, lists_of(s, v->slot), id),
                                 v->slot->outputs + depth, 0u);
        }
        inner = ended == 0 && draft >= 0 && !s->rows[row].no_token && s->rows[row].draft_prob != 0;
        if (depth > 0 && block) {
            prefix_prob = ratio_q63(prefix_prob, p, q);
            const u64 sum = inner ? row_sum_of(v, row) : prefix_prob;
            taken = accepts(row_bits(s, CLS_PURPOSE_BLOCK + depth - 1, v->slot, v->first), sum,
                            inner ? sum + CLS_ONE_Q63 - prefix_prob : CLS_ONE_Q63);
        } else if (depth > 0) {
            taken = method == CLS_VERIFY_TYPICAL
                        ? is_typical(v, row - 1, id)
                        : accepts(row_bits(s, CLS_PURPOSE_ACCEPT, v->slot, row - 1), p, q);
        }
        if (taken) {
            v->accepted = depth;
            best_prob = prefix_prob;
            draws = inner && method != CLS_VERIFY_TYPICAL;
        }
        LOCAL_BARRIER(); /* for a compiler that keeps `inner` once for all items: doc/porting.md */
    }
    if (draws) /* the same for the whole group */
        v->drawn = draw_residual(v, v->first + v->accepted, best_prob);
}

/* Returns whether the draft of a row at or after `row` + 1 follows that row: 0, 1 or, if the draft
 * is this token, 2. */
static inline u32 is_child(const verifier *v, u32 row, u32 at, i32 token)
{
    const i32 node = v->nodes[at];
    return v->parents[node] != v->nodes[row]           ? 0u
           : draft_id(v->s, v->request, node) == token ? 2u
                                                       : 1u;
}

/* Returns the first row after `row` whose draft follows it and is this token, or v->last, by the
 * whole group. *children becomes 1 if any draft follows the row. Of a chain that is the next row;
 * else the items look for it, which takes a reduction. */
static inline u32 child_with(const verifier *v, u32 row, i32 token, int *children)
{
    const u32 next = row + 1, last = v->last;
    u32 found = last, none = 1;
    if (next == last)
        return last;
    const u32 is_next = is_child(v, row, next, token);
    *children = is_next != 0;
    if (is_next == 2)
        return next;
    for (u32 at = next + LOCAL_ID; at < last && found == last; at += WGS) {
        const u32 is = is_child(v, row, at, token);
        none = is != 0 ? 0u : none;
        found = is == 2 ? at : found;
    }
    found = wg_umin(2 * found + none, v->scratch);
    *children = (int)(~found & 1u);
    return found / 2;
}

/* Returns whether relaxed acceptance accepts a token after a row that has a token of its own, by
 * the whole group: whether it is in the set, its probability is hardly less than that of the set's
 * likeliest token, and few tokens of the set are likelier. */
static inline int is_relaxed(const verifier *v, u32 row, u32 id)
{
    const step_args *const s = v->s;
    __global const u32 *const numbers = lists_of(s, v->slot) + v->slot->thinking_ends - 2;
    const cls_row out = s->rows[row];
    ROW_VIEW(v->shared, s, row, v->slot_index)
    const u32 flags = r->slot->flags;
    report t;
    if (flags & CLS_SLOT_GREEDY)
        report_raw(r, out.max_key,
                   row_total(r->key, s->tile_mass + (size_t)row * r->tiles, r->tiles,
                             float_of_key(out.max_key), CLS_LOG2E, 0, 0, v->scratch),
                   &t);
    else
        report_final(r, &out, flags, kept_ids_of(s, row), &t);
    report_truncate(&t, r);
    const f32 z = report_kept(&t, id, load_one(r, id)), top = float_of_key(t.set.top_key);
    if (!(z > CLS_MASKED)) /* the same for the whole group, as is what follows */
        return 0;
    const cls_reciprocal whole = reciprocal_of(t.set.by.mass);
    const cls_unit unit = report_unit(&t, id), top_unit = unit_of(top, top, t.exponent, t.scale);
    if (!is_near(fraction_q63(&whole, report_mass(&t, top, &top_unit)),
                 fraction_q63(&whole, report_mass(&t, z, &unit)), numbers[1]))
        return 0;
    if (!t.listed)
        return tokens_above(r, key_of(z), v->scratch) < numbers[0];
    u32 count = 0;
    for (u32 i = LOCAL_ID; i < t.n_ids; i += WGS)
        count += load_one(r, t.ids[i]) > z;
    return wg_usum(count, v->scratch) < numbers[0];
}

/* Judges the drafts of all rows of a request by relaxed acceptance, before the walk: in it the
 * judgement would spill 256 bytes of registers. */
static inline void relax_rows(const verifier *v)
{
    for (u32 row = v->first; row + 1 < v->last; row++) {
        const u32 id = (u32)draft_id(v->s, v->request, v->nodes[row + 1]);
        const int accepted =
            id < v->s->vocab && !v->s->rows[row].no_token && is_relaxed(v, row, id);
        BARRIER(); /* every item has read the row */
        if (LOCAL_ID == 0)
            v->s->rows[row].relaxed = (u32)accepted;
    }
    BARRIER();
}

/* Walks over the rows and sets *w to what is emitted. A row's token is, in this order, the id that
 * the request must emit, the draft after it if relaxed acceptance takes it, the draft that was
 * accepted, or the row's own draw. From the first row on that is forced or relaxed, the drafts that
 * equal the rows' tokens are accepted. `next`: the adaptive state after the first row's own token,
 * of a request that takes one token a call (one_token); another token leaves the state as it is.
 * With CLS_ACCEPTS_LATER the records of the rows become what the kernels need that write the
 * outputs and then accept the tokens. */
static inline void walk_rows(const verifier *v, int active, int one_token, cls_slot_adaptive *next,
                             walk *w)
{
    const step_args *const s = v->s;
    __global cls_slot *const slot = v->slot;
    const u32 last = v->last;
    int by_rows = v->by_rows, more = 1;
    const slot_state own = state_of(s->state, s->args->layout, s->vocab, valid_slot(v->slot_index));
    text t = text_of(slot, own.ring, own.n_ring, active);
    t.first = t.length;
    for (u32 left = s->args->n_rows; more && left > 0; left--) {
        __global cls_row *const row = s->rows + w->row;
        const i32 drew = row->no_token ? -1 : row->token;
        u32 status = row->status, at = last, ended = 0;
        /* After a row whose maps name no mask or bias, nothing is emitted. */
        const i32 due = !active || (status & CLS_ROW_NO_SLOT) ? -1 : text_due(slot, s->lists, &t);
        const int relaxed = (slot->flags & CLS_SLOT_RELAXED) && t.thinking != 0 && !one_token;
        i32 token = drew;
        int children = 0;
        by_rows |= due >= 0 || relaxed;
        if ((relaxed && row->relaxed) || (!by_rows && w->depth < v->accepted))
            token = draft_id(s, v->request, v->nodes[w->row + 1]);
        else if (!by_rows && v->drawn >= 0)
            token = v->drawn;
        if (due >= 0)
            token = due;
        if (due >= 0 &&
            !(mask_allows(s, w->row, (u32)due) && text_allows(slot, s->lists, &t, (u32)due))) {
            status = (status & (CLS_ROW_NAN | CLS_ROW_INF)) | CLS_ROW_EMPTY;
            token = -1;
        }
        if (token >= 0)
            at = child_with(v, w->row, token, &children);
        if (one_token || !(by_rows || w->depth < v->accepted))
            at = last;
        w->status |= token < 0 ? status : status & (CLS_ROW_NAN | CLS_ROW_INF);
        /* Without a draft after it, a row of several gives a token only as the bonus. */
        if (token >= 0 && at == last && !children && !one_token && !s->args->bonus &&
            v->first + 1 != last)
            return;
        if (token >= 0) {
            t.following = effects_of(s->effects, s->args->layout, s->vocab, w->row).path;
            ended = text_follow(slot, s->lists, &t, (u32)token, 1, v->scratch);
            status =
                (status & (CLS_ROW_NAN | CLS_ROW_INF)) | ended | (due >= 0 ? CLS_ROW_FORCED : 0u);
            w->status |= status;
            if (due >= 0 && due != row->token)
                *next = slot->adaptive;
        }
        if (s->has & CLS_ACCEPTS_LATER)
            BARRIER(); /* every item has read the row */
        if (LOCAL_ID == 0 && (s->has & CLS_ACCEPTS_LATER)) {
            row->status = status;
            row->state = CLS_RECORD_EMITTED;
            s->rows[v->first + w->depth].emitted = (i32)w->row;
            row->no_token |= token < 0;
            if (token >= 0) {
                row->forced = due >= 0 || token != row->token;
                row->token = token;
                row->next = *next;
            }
        }
        w->token = token;
        more = at != last && !(ended & CLS_ROW_STOPPED);
        if (at != last) {
            w->row = at;
            w->depth++;
            w->token = -1;
        }
    }
}

#define WANTED(wants, output) (wants & CLS_WANTS(CLS_VERIFIED_##output))

/* Returns a draft of a path. */
static inline i32 path_id(__global const u32 *path, u32 i) { return (i32)(path[i] & CLS_ENTRY_ID); }

/* Writes the result of a request, by one item. `path`: the drafts of the walk. */
static inline void verify_write(const verifier *v, const walk *w, __global const u32 *path)
{
    const step_args *const s = v->s;
    const u32 request = v->request;
    const u32 wants = s->args->wants, max_drafts = s->args->max_drafts;
    const u32 in_all = w->depth + (u32)(w->token >= 0);
    if (WANTED(wants, TOKENS)) {
        __global i32 *const to =
            OUTPUT(s, tokens, CLS_VERIFIED_TOKENS) + (size_t)request * (max_drafts + 1);
        for (u32 i = 0; i <= max_drafts; i++)
            to[i] = i < w->depth ? path_id(path, i) : i == w->depth ? w->token : -1;
    }
    if (WANTED(wants, ACCEPTED))
        OUTPUT(s, accepted, CLS_VERIFIED_ACCEPTED)[request] = (i32)w->depth;
    if (WANTED(wants, EMITTED))
        OUTPUT(s, emitted, CLS_VERIFIED_EMITTED)[request] = (i32)in_all;
    if (WANTED(wants, DRAFTED)) {
        const u32 end = v->last - 1 - request;
        i32 n = 0;
        for (u32 draft = v->first - request; draft < end; draft++)
            n += (u32)draft_id(s, request, (i32)draft) < s->vocab;
        OUTPUT(s, drafted, CLS_VERIFIED_DRAFTED)[request] = n;
    }
    if (WANTED(wants, NODES)) {
        __global i32 *const to =
            OUTPUT(s, out_nodes, CLS_VERIFIED_NODES) + (size_t)request * max_drafts;
        i32 node = v->nodes[w->row];
        for (u32 i = w->depth; i < max_drafts; i++)
            to[i] = -1;
        for (u32 i = w->depth; i > 0; node = v->parents[node])
            to[--i] = node - (i32)(v->first - request);
    }
    if (WANTED(wants, STATUS))
        OUTPUT(s, status_out, CLS_VERIFIED_STATUS)[request] = (i32)w->status;
    if (WANTED(wants, COUNTERS) && v->slot_index >= 0 && !(w->status & CLS_ROW_SKIPPED)) {
        __global i32 *const sum =
            OUTPUT(s, counters, CLS_VERIFIED_COUNTERS) + (size_t)v->slot_index * 3;
        sum[0] += (i32)(v->last - v->first - 1);
        sum[1] += (i32)w->depth;
        sum[2] += (i32)in_all;
    }
    if (WANTED(wants, LATEST) && in_all > 0)
        OUTPUT(s, latest, CLS_VERIFIED_LATEST)
    [(u32)v->slot_index] = w->token >= 0 ? w->token : path_id(path, in_all - 1);
}

/* A work-group verifies one request. Launch: [WGS, requests]. */
ONE_COPY void verify_request(const step_args *s, u32 request, SHARED row_logits *shared,
                             __local u64 *scratch)
{
    ARGS const cls_args *const args = s->args;
    const u32 method = args->method, first = first_row(s, request);
    const i32 slot_index = mapped_slot(s, first);
    __global cls_slot *const slot = slot_of(s, slot_index);
    const u32 flags = slot_index >= 0 ? slot->flags : 0u;
    const int active = slot_index >= 0 && !slot->stopped,
              one_token = (flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS)) != 0,
              accepts_later = (s->has & CLS_ACCEPTS_LATER) != 0;
    walk w = {first, 0, 0u, -1};
    verifier v = {s,
                  slot,
                  slot_index,
                  request,
                  first,
                  first_row(s, request + 1),
                  draft_nodes(s),
                  draft_parents(s),
                  shared,
                  scratch,
                  method == CLS_VERIFY_MATCH || !uses_probabilities(flags, !active),
                  0u,
                  -1};
    cls_slot_adaptive next = {0, 0u, 0u, 0u};
    if (slot_index >= 0)
        next = slot->adaptive;
    if (one_token) {
        const cls_row out = s->rows[first];
        ROW_VIEW(v.shared, s, first, slot_index)
        /* The adaptive state must follow this token before the next one is drawn. */
        adaptive_after(r, slot, flags, &out, &next);
    }
    if (flags & CLS_SLOT_RELAXED) {
        relax_rows(&v);
        v.by_rows |= slot->thinking != 0;
    }
    if (!v.by_rows) /* the same for the whole group */
        judge_drafts(method, &v);
    walk_rows(&v, active, one_token, &next, &w);
    __global const u32 *const path = effects_of(s->effects, args->layout, s->vocab, w.row).path;
    BARRIER(); /* every item has read the rows */
    if (LOCAL_ID == 0)
        verify_write(&v, &w, path);
    for (u32 row = first + LOCAL_ID; accepts_later && row < v.last; row += WGS)
        s->rows[row].no_token |=
            s->rows[row].state != CLS_RECORD_EMITTED; /* its distribution is of no use */
    const slot_state state = state_of(s->state, args->layout, s->vocab, valid_slot(slot_index));
    const u32 in_all = accepts_later ? 0u : w.depth + (u32)(w.token >= 0);
    for (u32 i = 0; i < in_all; i++) {
        state_accept(slot, &state, lists_of(s, slot),
                     i < w.depth ? (u32)path_id(path, i) : (u32)w.token, 1, &next, scratch);
        BARRIER();
    }
}

KERNEL void cls_verify(STEP_PARAMETERS(CLS_VERIFY_BUFFERS))
{
    SHARED row_logits shared;
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_VERIFY_BUFFERS);
    verify_request(&s, get_group_id(1), &shared, scratch);
}
