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

/* Takes status and token from a row's record. Returns 0 if the row has no token. */
static inline int walk_row(const cls_row *out, walk *w)
{
    w->status |= out->no_token ? out->status : out->status & (CLS_ROW_NAN | CLS_ROW_INF);
    w->token = out->no_token ? -1 : out->token;
    return !out->no_token;
}

/* A request's verification. */
typedef struct verifier {
    const step_args *s;
    __global cls_slot *slot;
    i32 slot_index;
    u32 request, first, last; /* its rows are first to last - 1 */
    u32 method;
    int bonus;
    __global const i32 *nodes, *parents; /* of the drafts */
    __local u64 *scratch;
} verifier;

/* Returns whether the request has one row. */
static inline int is_single(const verifier *v) { return v->first + 1 == v->last; }

/* Returns the sum of what the residual kernel has left of a row. */
static inline u64 row_sum_of(const verifier *v, u32 row)
{
    return sum_of(tile_sums_of(v->s, row), row_tiles(v->s), v->scratch);
}

/* Follows the drafts that equal the rows' tokens, in a chain or a tree. */
static inline void walk_matches(const verifier *v, walk *w)
{
    const u32 last = v->last;
    for (;;) {
        const cls_row out = v->s->rows[w->row];
        u32 next = last;
        int children = 0;
        if (!walk_row(&out, w))
            return;
        for (u32 at = w->row + 1; at < last && next == last; at++) {
            if (v->parents[v->nodes[at]] != v->nodes[w->row])
                continue;
            children = 1;
            next = draft_id(v->s, v->request, v->nodes[at]) == out.token ? at : last;
        }
        if (next == last) {
            w->token = children || v->bonus || is_single(v) ? out.token : -1;
            return;
        }
        w->row = next;
        w->depth++;
        w->token = -1;
        const u32 outputs = v->slot->outputs + w->depth;
        const u32 ended = ends_request(v->slot, lists_of(v->s, v->slot), (u32)out.token, outputs);
        w->status |= ended;
        if (ended != 0)
            return;
    }
}

/* Returns whether typical acceptance accepts the draft that follows a row. */
static inline int is_typical(const verifier *v, const cls_row *out, const row_logits *r, u32 row,
                             u32 id)
{
    ARGS const cls_args *const args = v->s->args;
    const f32 top = float_of_key(out->top_key);
    report t;
    report_final(r, out, r->slot->flags, kept_ids_of(v->s, row), &t);
    const f32 z = report_kept(&t, id, load_one(&t.r, id));
    if (!(z > CLS_MASKED))
        return 0;
    const i32 whole = (i32)mass_q20(out->mass, top, out->scale);
    const i32 entropy = whole + (i32)mean_depth_q20(row_sum_of(v, row), out->mass);
    return (i32)depth_q20(z, top, out->scale) + whole < max(args->epsilon, args->delta + entropy);
}

/* Returns whether the draft that follows a row, *draft, can be verified. If not, the walk ends with
 * the row's own token, if it may have one. */
static inline int can_verify(const verifier *v, const cls_row *out, i32 *draft, walk *w)
{
    *draft = draft_after(v->s, w->row);
    if (!walk_row(out, w))
        return 0;
    if (*draft >= 0 && out->draft_prob != 0)
        return 1;
    w->token = *draft >= 0 || v->bonus || is_single(v) ? out->token : -1;
    return 0;
}

/* Goes to the next row in block verification. `bits` decides whether the prefix up to there is
 * accepted; *best is the longest one so far. Returns 0 if it was the last row. */
static inline int next_block(const verifier *v, const cls_row *out, u64 bits, u32 stop,
                             u64 *prefix_prob, walk *w, walk *best)
{
    const cls_row next = v->s->rows[w->row];
    const i32 after = draft_after(v->s, w->row);
    const int inner = stop == 0 && !next.no_token && after >= 0 && next.draft_prob != 0;
    *prefix_prob = ratio_q63(*prefix_prob, out->target_prob, out->draft_prob);
    const u64 sum = inner ? row_sum_of(v, w->row) : *prefix_prob;
    const u64 whole = inner ? sum + CLS_ONE_Q63 - *prefix_prob : CLS_ONE_Q63;
    if (accepts(bits, sum, whole)) {
        *best = *w;
        best->from_residual = inner;
        best->prefix_prob = *prefix_prob;
        best->status |= inner ? next.status & (CLS_ROW_NAN | CLS_ROW_INF) : stop;
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

static inline int verify_row(const verifier *v, const row_logits *r, u64 bits, u64 *prefix_prob,
                             walk *w, walk *best)
{
    const cls_row out = v->s->rows[w->row];
    const int block = v->method == CLS_VERIFY_BLOCK;
    i32 draft;
    int taken = 0;
    if (!can_verify(v, &out, &draft, w)) {
        *best = *w;
        return 0;
    }
    const u32 id = (u32)draft_id(v->s, v->request, draft),
              stop = ends_request(v->slot, lists_of(v->s, v->slot), id,
                                  v->slot->outputs + w->depth + 1);
    if (v->method == CLS_VERIFY_STANDARD)
        taken = accepts(bits, out.target_prob, out.draft_prob);
    else if (v->method == CLS_VERIFY_TYPICAL)
        taken = is_typical(v, &out, r, w->row, id);
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

/* Verifies a request's drafts row by row. Standard and typical verification end at the first draft
 * that is rejected; block verification goes on to the end and returns to the longest accepted
 * prefix. */
static inline void verify_rows(const verifier *v, walk *w)
{
    const int block = v->method == CLS_VERIFY_BLOCK;
    walk best = *w;
    u64 prefix_prob = CLS_ONE_Q63;
    int more = 1;
    for (u32 remaining = v->s->args->n_rows; more && remaining > 0; remaining--) {
        const u64 bits = row_bits(v->s, block ? CLS_PURPOSE_BLOCK + w->depth : CLS_PURPOSE_ACCEPT,
                                  v->slot, block ? v->first : w->row);
        const row_logits r = row_view(v->s, w->row, v->slot_index);
        more = verify_row(v, &r, bits, &prefix_prob, w, &best);
    }
    *w = best;
}

/* Returns a draft of a path. */
static inline i32 path_id(__global const u32 *path, u32 i) { return (i32)(path[i] & CLS_ENTRY_ID); }

#if FORCED
/* Returns whether a request accepts the drafts of a row by relaxed acceptance, in a state of the
 * thinking budget. */
static inline int relaxes(__global const cls_slot *slot, u32 thinking)
{
    return (slot->flags & CLS_SLOT_RELAXED) && thinking != 0;
}

/* Returns whether relaxed acceptance accepts a token after a row that has a token of its own, by
 * the whole group: whether it is in the set, its probability is hardly less than that of the set's
 * likeliest token, and few tokens of the set are likelier. */
static inline int is_relaxed(const verifier *v, u32 row, u32 id)
{
    const step_args *const s = v->s;
    __global const u32 *const numbers = lists_of(s, v->slot) + v->slot->thinking_end - 2;
    const cls_row out = s->rows[row];
    const row_logits r = row_view(s, row, v->slot_index);
    const u32 flags = r.slot->flags;
    report t;
    if (flags & CLS_SLOT_GREEDY)
        report_raw(&r, out.max_key,
                   row_total(r.key, s->tile_mass + (size_t)row * r.tiles, r.tiles,
                             float_of_key(out.max_key), CLS_LOG2E, tile_sums_of(s, row),
                             v->scratch),
                   &t);
    else
        report_final(&r, &out, flags, kept_ids_of(s, row), &t);
    const f32 z = report_kept(&t, id, load_one(&t.r, id)), top = float_of_key(t.set.top_key);
    if (!(z > CLS_MASKED)) /* the same for the whole group, as is what follows */
        return 0;
    const cls_reciprocal whole = reciprocal_of(t.set.mass);
    const cls_unit unit = report_unit(&t, id), top_unit = unit_of(top, top, t.exponent, t.scale);
    if (!is_near(fraction_q63(&whole, report_mass(&t, top, &top_unit)),
                 fraction_q63(&whole, report_mass(&t, z, &unit)), numbers[1]))
        return 0;
    if (!t.listed)
        return tokens_above(&t.r, key_of(z), v->scratch) < numbers[0];
    u32 count = 0;
    for (u32 i = LOCAL_ID; i < t.n_ids; i += WGS)
        count += load_one(&t.r, t.ids[i]) > z;
    return wg_usum(count, v->scratch) < numbers[0];
}

/* Judges the drafts of all rows of a request by relaxed acceptance. */
static inline void relax_rows(const verifier *v)
{
    for (u32 row = v->first; row + 1 < v->last; row++) {
        const i32 id = draft_id(v->s, v->request, v->nodes[row + 1]);
        const int accepted = id >= 0 && (u32)id < v->s->vocab && !v->s->rows[row].no_token &&
                             is_relaxed(v, row, (u32)id);
        BARRIER(); /* every item has read the row */
        if (LOCAL_ID == 0)
            v->s->rows[row].relaxed = (u32)accepted;
        BARRIER();
    }
}

/* Returns the first row after `row` whose draft is this token, or v->last. *children becomes 1 if
 * any draft follows the row. */
static inline u32 child_with(const verifier *v, u32 row, i32 token, int *children)
{
    const u32 last = v->last;
    for (u32 at = row + 1; at < last; at++) {
        if (v->parents[v->nodes[at]] != v->nodes[row])
            continue;
        *children = 1;
        if (draft_id(v->s, v->request, v->nodes[at]) == token)
            return at;
    }
    return last;
}

/* Goes over the tokens of a walk again, one after the other, and sets the walk to what is emitted.
 * It ends early at a loop. Where the request must emit a forced id, that id takes the place of the
 * walk's token; where it relaxes, a draft that passes, or else the row's own draw. From there on
 * drafts are accepted if they equal forced ids or the rows' own draws, or relaxed. `path`: the
 * drafts of the walk. `next`: the adaptive state after the first row's own token, of a request that
 * takes one token a call (one_token); another token leaves the state as it is. */
static inline void emit_tokens(const verifier *v, const slot_state *state, __global const u32 *path,
                               int one_token, cls_slot_adaptive *next, walk *w)
{
    __global cls_slot *const slot = v->slot;
    __global cls_row *const rows = v->s->rows;
    __global const u32 *const lists = v->s->lists;
    const u32 last = v->last, read = w->status & (CLS_ROW_NAN | CLS_ROW_INF),
              whole = w->status & ~(CLS_ROW_STOPPED | CLS_ROW_LENGTH), depth = w->depth;
    const i32 final = w->token;
    text t = text_of(slot, state->ring, state->n_ring, 1);
    int by_rows = 0; /* 1 from the first row on that is forced or relaxed */
    t.first = t.length;
    w->row = v->first;
    w->depth = 0;
    w->status = read;
    for (;;) {
        const u32 row_status = rows[w->row].status;
        /* After a row whose maps name no mask or bias, nothing is emitted. */
        const i32 due = row_status & CLS_ROW_NO_SLOT ? -1 : text_due(slot, lists, &t);
        const int empty = (int)rows[w->row].no_token,
                  relaxed = !one_token && relaxes(slot, t.thinking);
        int children = 0;
        const i32 own = relaxed && rows[w->row].relaxed
                            ? draft_id(v->s, v->request, v->nodes[w->row + 1])
                            : rows[w->row].token;
        by_rows |= due >= 0 || relaxed;
        w->token = due >= 0   ? due
                   : !by_rows ? (w->depth < depth ? path_id(path, w->depth) : final)
                   : empty    ? -1
                              : own;
        if (by_rows)
            w->status |= row_status & (CLS_ROW_NAN | CLS_ROW_INF);
        if (due >= 0 &&
            !(mask_allows(v->s, w->row, (u32)due) && text_allows(slot, lists, &t, (u32)due))) {
            w->status |= CLS_ROW_EMPTY;
            w->token = -1;
            BARRIER(); /* every item has read the row; the branch is the same for the whole group */
            if (LOCAL_ID == 0)
                rows[w->row].status = (row_status & (CLS_ROW_NAN | CLS_ROW_INF)) | CLS_ROW_EMPTY;
            if (LOCAL_ID == 0)
                rows[w->row].no_token = 1;
        } else if (w->token < 0) {
            w->status |= by_rows ? row_status : whole;
        }
        if (w->token < 0)
            return;
        u32 at = last;
        if (!one_token && (by_rows || w->depth < depth))
            at = child_with(v, w->row, w->token, &children);
        if (by_rows && !one_token && at == last && !children && !v->bonus && !is_single(v)) {
            BARRIER();         /* every item has read the row */
            if (LOCAL_ID == 0) /* a forced id is not what ends the verification */
                rows[w->row].no_token = 0;
            w->token = -1;
            return;
        }
        w->status |= due >= 0 ? CLS_ROW_FORCED : 0u;
        if (LOCAL_ID == 0 && due >= 0)
            rows[w->row].forced = 1;
        if (due >= 0 && due != own)
            *next = slot->adaptive;
        t.following = effects_of(v->s->effects, v->s->args->layout, v->s->vocab, w->row).path;
        const u32 ended = text_follow(slot, lists, &t, (u32)w->token, 1, v->scratch);
        w->status |= ended;
        if (ended & CLS_ROW_LOOP) { /* the same for the whole group; not all end the request */
            BARRIER();              /* every item has read the row */
            if (LOCAL_ID == 0)
                rows[w->row].status |= CLS_ROW_LOOP;
        }
        if (at == last && !by_rows)
            w->status |= whole;
        if (at == last)
            return;
        w->row = at;
        w->depth++;
        w->token = -1;
        if (ended & CLS_ROW_STOPPED)
            return;
    }
}

#endif

#define WANTED(wants, output) (wants & CLS_WANTS(CLS_VERIFIED_##output))

/* Writes the result of a request, by one item. `path`: the drafts of the walk. */
static inline void verify_write(const verifier *v, const walk *w, __global const u32 *path,
                                u32 request)
{
    const step_args *const s = v->s;
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

/* Leaves what the request emits in the records of its rows, by one item, for the kernels that write
 * the outputs of its tokens and then accept them. Rows that emit nothing look like rows without a
 * token; one that should have given the next token keeps its status. */
static inline void mark_emitted(const verifier *v, const walk *w, __global const u32 *path,
                                const cls_slot_adaptive *next, u32 request)
{
    __global cls_row *const rows = v->s->rows;
    const u32 base = request * (v->s->args->max_drafts + 1), none = 0xffffffffu;
    const u32 latest = w->depth - (u32)(w->token < 0);
    const int ended = w->depth > 0 && (w->status & CLS_ROW_STOPPED),
              gave_none = w->token < 0 && rows[w->row].no_token && !ended;
    u32 row = w->row, place = w->depth + (u32)(w->token >= 0 || gave_none);
    for (u32 r = v->first; r < v->last; r++)
        rows[r].place = none;
    for (u32 left = w->depth + 1; left > 0; left--) {
        const u32 i = left - 1;
        const i32 token = i < w->depth ? path_id(path, i) : w->token;
        if (token >= 0) {
            rows[row].status = (rows[row].status & (CLS_ROW_NAN | CLS_ROW_INF | CLS_ROW_LOOP)) |
                               (rows[row].forced ? CLS_ROW_FORCED : 0u);
            if (i == latest)
                rows[row].status |= w->status & (CLS_ROW_STOPPED | CLS_ROW_LENGTH);
            rows[row].forced |= (u32)(token != rows[row].token);
            rows[row].token = token;
            rows[row].next = *next;
        }
        if (token >= 0 || gave_none)
            rows[row].place = base + i;
        const i32 parent = i > 0 ? v->parents[v->nodes[row]] : -1;
        row = parent < 0 ? v->first : (u32)parent + request + 1;
    }
    for (u32 r = v->first; r < v->last; r++) {
        if (rows[r].place != none)
            continue;
        rows[r].place = base + place++;
        rows[r].status = CLS_ROW_SKIPPED;
        rows[r].no_token = 1;
        rows[r].forced = 0;
    }
}

/* Draws the token that follows a rejected draft, from what the residual kernel has left of the
 * row. */
static inline void draw_residual(const verifier *v, u32 flags, walk *w)
{
    const step_args *const s = v->s;
    const cls_row out = s->rows[w->row];
    const u64 total = row_sum_of(v, w->row);
    if (total == 0) /* the same for the whole group */
        return;
    u64 drawn = u64_mul_hi(row_bits(s, CLS_PURPOSE_RESIDUAL, v->slot, w->row), total);
    const row_logits r = row_view(s, w->row, v->slot_index);
    residual rest;
    residual_of(s, &r, &out, w->row, flags, draft_after(s, w->row), w->prefix_prob, &rest);
    const u32 tile = find_tile(tile_sums_of(s, w->row), r.tiles, &drawn, v->scratch);
    w->token = residual_draw(&rest, tile, drawn, v->scratch);
}

/* A work-group verifies one request. Launch: [WGS, requests]. */
ONE_COPY void verify_request(const step_args *s, u32 request, __local u64 *scratch)
{
    ARGS const cls_args *const args = s->args;
    const u32 method = args->method, first = first_row(s, request),
              last = first_row(s, request + 1);
    const i32 slot_index = mapped_slot(s, first);
    __global cls_slot *const slot = slot_of(s, slot_index);
    const u32 flags = slot_index >= 0 ? slot->flags : 0u,
              stopped = slot_index >= 0 ? slot->stopped : 0u;
    walk w = {first, 0, 0u, -1, 0, CLS_ONE_Q63};
    cls_slot_adaptive next = {0, 0u, 0u, 0u};
    if (slot_index >= 0)
        next = slot->adaptive;
    const int one_token = (flags & (CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS)) != 0;
    const int by_probability = slot_index >= 0 && uses_probabilities(flags, stopped) &&
                               (method == CLS_VERIFY_STANDARD || method == CLS_VERIFY_BLOCK ||
                                method == CLS_VERIFY_TYPICAL);
    const verifier v = {s,      slot,   slot_index,       request,        first,
                        last,   method, (int)args->bonus, draft_nodes(s), draft_parents(s),
                        scratch};
#if FORCED
    if (flags & CLS_SLOT_RELAXED)
        relax_rows(&v);
#endif
    if (slot_index < 0 || stopped) {
        w.status = s->rows[first].status;
    } else if (one_token) {
        const cls_row out = s->rows[first];
        const row_logits r = row_view(s, first, slot_index);
        /* The adaptive state must follow this token before the next one is drawn. */
        if (walk_row(&out, &w))
            adaptive_after(&r, slot, flags, &out, &next);
#if FORCED
    } else if (relaxes(slot, slot->thinking)) {
        /* emit_tokens() judges the drafts. */
#endif
    } else if (!by_probability) {
        walk_matches(&v, &w);
    } else {
        verify_rows(&v, &w);
    }
    if (w.from_residual) /* the same for the whole group */
        draw_residual(&v, row_flags(s, w.row, slot_index), &w);
    const slot_state state = state_of(s->state, args->layout, s->vocab, valid_slot(slot_index));
#if FORCED
    if (slot_index >= 0 && !stopped) {
        const history_effects p = effects_of(s->effects, args->layout, s->vocab, w.row);
        BARRIER();
        emit_tokens(&v, &state, p.path, one_token, &next, &w);
    }
    BARRIER(); /* the records are complete */
#else
    if (w.token >= 0)
        w.status |=
            ends_request(slot, lists_of(s, slot), (u32)w.token, slot->outputs + w.depth + 1);
#endif
    const history_effects p = effects_of(s->effects, args->layout, s->vocab, w.row);
    const int accepts_later = (s->has & CLS_ACCEPTS_LATER) != 0;
    if (LOCAL_ID == 0)
        verify_write(&v, &w, p.path, request);
    if (LOCAL_ID == 0 && accepts_later)
        mark_emitted(&v, &w, p.path, &next, request);
    const u32 in_all = accepts_later ? 0u : w.depth + (u32)(w.token >= 0);
    for (u32 i = 0; i < in_all; i++) {
        state_accept(slot, &state, lists_of(s, slot),
                     i < w.depth ? (u32)path_id(p.path, i) : (u32)w.token, 1, &next, scratch);
        BARRIER();
    }
}

KERNEL void cls_verify(STEP_PARAMETERS(CLS_VERIFY_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_VERIFY_BUFFERS);
    verify_request(&s, get_group_id(1), scratch);
}
