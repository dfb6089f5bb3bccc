/* SPDX-License-Identifier: MIT */
/* token: takes a row to its token, a work-group a row. Launched once, it serves
 * every row whose set provably fits the list, whatever the vocabulary, and leaves
 * the others pivots for the pass. Launched again after the pass, with `again`, it
 * searches those; rows that are done do nothing.
 *
 * Launch: [WGS, rows]. */

/* What bounds a truncated row from below before its chain has run. */
typedef struct row_bound {
    u32 k;      /* so many tokens suffice; 0: no such number */
    i32 lowest; /* no token below this key does */
    int bounded, champions; /* by `lowest`; by top-p over the untouched row */
} row_bound;

static inline void chain_bound(const cls_slot *slot, i32 max_key, u64 total, row_bound *b)
{
    const f32 top = of_key(max_key);
    f32 scale = CLS_LOG2E;
    int first = 1, open = 1;
    b->k = 0;
    b->lowest = CLS_KEY_NONE + 1;
    b->bounded = b->champions = 0;
    /* Until a stage comes that must know more of the row than its maximum and its
     * mass, or that takes away its head. */
    for (u32 i = 0; open && chain_stage(slot, i) != CLS_STAGE_END; i++) {
        const u32 stage = chain_stage(slot, i);
        if (stage == CLS_STAGE_TEMPERATURE && !(slot->flags & CLS_SLOT_DYNAMIC)) {
            scale = slot->scale;
            continue;
        }
        if (stage == CLS_STAGE_TOP_K) {
            b->k = (u32)slot->top_k <= LIST ? (u32)slot->top_k : 0u;
        } else if (stage == CLS_STAGE_MIROSTAT_1) {
            b->k = min(256u, (u32)LIST);
        } else if (stage == CLS_STAGE_TOP_P) {
            b->champions = first;
            open = first;
        } else if (stage == CLS_STAGE_MIN_P) {
            if (slot->min_keep <= 1) {
                b->lowest = depth_key(top, scale, slot->min_p);
                b->bounded = 1;
            }
        } else if (stage == CLS_STAGE_MIROSTAT_2 && first) {
            const u32 size = mass_q20(total, top, scale), most = mirostat_limit(slot);
            b->lowest = most < size ? max_key : depth_q20_key(top, scale, most - size);
            b->bounded = 1;
        } else {
            open = 0;
        }
        first = 0;
    }
}

/* Collects what a truncated row's chain may keep. Returns 0 if the list cannot
 * hold it, or it is not known. Three ways to a bound, one after the other; a
 * loop, so that compilers that inline everything have one copy of what collects. */
static inline int list_row(const row_logits *r, const cls_slot *slot, __global const i32 *row_key, u32 n, i32 max_key,
                           __global f32 *work, shortlist *list, chain_state *c, const cls_row *out)
{
    row_bound b;
    chain_bound(slot, max_key, out->total, &b);
    i32 bound = CLS_KEY_NONE + 1;
    for (u32 way = 0; way < 3; way++) {
        u32 ties = ALL_TIES;
        i32 lo = b.lowest;
        if (way == 0 && r->vocab <= LIST) {
            lo = CLS_KEY_NONE + 1;
        } else if (way == 0 && b.k != 0) {
            bound = tile_bound(row_key, n, b.k, max_key, list->scratch);
            lo = bound > lo ? bound : lo;
        } else if (way == 0) {
            if (!b.bounded)
                continue;
        } else if (way == 1) {
            /* Clustered, sorted or tied logits: the exact k-th key decides. */
            u32 over;
            if (b.k == 0)
                continue;
            lo = kth_key(r, row_key, n, b.k, bound, max_key, &over, list->scratch);
            ties = b.k - over;
        } else {
            if (!b.champions)
                continue;
            lo = champion_bound(row_key, n, of_key(max_key), stage_scale(slot, CLS_STAGE_TOP_P),
                                top_p_target(out->total, row_top_p(slot)), work, list->scratch);
            if (lo == CLS_KEY_NONE)
                continue;
        }
        if (collect(r, row_key, n, lo, CLS_KEY_INF, ties, list)) {
            c->floor = ties == ALL_TIES ? lo : lo + 1;
            c->complete = c->floor == CLS_KEY_NONE + 1;
            c->kept = list->n;
            return 1;
        }
    }
    return 0;
}

/* What accepting the drawn token makes of the slot's mode. */
static inline void next_mode(const row_logits *r, const cls_slot *slot, __global const i32 *row_key, const cls_row *out,
                             cls_mode *m)
{
    *m = slot->mode;
    if (out->none || out->state != CLS_ROW_DONE || !(slot->flags & CLS_SLOT_MODES))
        return;
    const f32 top = of_key(out->top_key), z = load_whole(r, (u32)out->token);
    if (slot->flags & CLS_SLOT_MIROSTAT)
        m->mu = mirostat_next(m->mu, depth_q20(z, top, out->scale) + mass_q20(out->mass, top, out->scale), slot->tau, slot->eta);
    if (slot->flags & CLS_SLOT_ADAPTIVE) {
        const cls_unit unit = tile_unit(row_key, (u32)out->token / CLS_TILE, top, split(top, out->scale).exponent, out->scale);
        const u64 mass = up(u64_from(weight(z, unit.max, out->scale, unit.fraction)), unit.shift);
        mode_adapt(m, probability_q30(mass, out->mass), slot->adaptive_decay);
    }
}

KERNEL void cls_token(STEP_ARGS, DRAW_ARGS, const u32 sample_stride, const u32 again)
{
    SHORTLIST(list);
    const u32 row = get_group_id(1), lid = get_local_id(0);
    const u32 tiles = TILES, n = MAX_TILES;
    const i32 place = ROW_SLOT(row);
    __global const i32 *const row_key = tile_key + (size_t)row * n;
    __global u64 *const row_work = work + (size_t)row * tiles;
    __global f32 *const row_sample = sample + (size_t)row * sample_stride;
    __global const u64 *const row_pass = pass + (size_t)row * tiles * CLS_PIVOTS;
    cls_row out = rows[row];
    const int idle = again && out.state == CLS_ROW_DONE;
    row_logits r = ROW_VIEW(row, place);
    cls_slot slot;
    slot.flags = slot.stopped = 0;
    if (place >= 0) /* what is no slot of this row's another may be writing */
        slot = slots[place];
    int sampled = again && !idle;
    BARRIER(); /* all have read the record, which the first item writes anew */
    if (!again) {
        out.mass = out.total = out.target = out.drawn = out.adapted = u64_from(0);
        out.token = invalid_token;
        out.status = place == -1 ? CLS_STATUS_SKIPPED : place < 0 ? CLS_STATUS_NO_SLOT : 0u;
        out.state = CLS_ROW_DONE;
        out.max_key = out.cut_key = out.top_key = CLS_KEY_NONE;
        out.cut_id = out.head_last = CLS_MAX_ID;
        out.head_key = CLS_KEY_INF;
        out.head_first = 0;
        out.scale = CLS_LOG2E;
        out.none = 1;
        out.kept = out.listed = out.aim = out.least = 0;
        for (u32 p = 0; p < CLS_PIVOTS; p++)
            out.pivot[p] = CLS_KEY_NONE;
        if (place >= 0 && slot.stopped) {
            out.status = CLS_STATUS_STOPPED | CLS_STATUS_SKIPPED;
        } else if (place >= 0) {
            u32 flags = 0;
            for (u32 t = lid; t < tiles; t += WGS)
                flags |= r.flags[t];
            out.status = wg_uor(flags, list.scratch) & (CLS_STATUS_NAN | CLS_STATUS_INF);
            out.max_key = out.top_key = row_max_key(row_key, n, list.scratch);
            out.none = out.max_key == CLS_KEY_NONE;
            out.status |= out.none ? CLS_STATUS_EMPTY : 0u;
            out.scale = slot.scale;
            sampled = !out.none && !(slot.flags & CLS_SLOT_GREEDY);
            if (!out.none && (slot.flags & CLS_SLOT_GREEDY)) {
                /* The first token of the first max tile that has the maximum. */
                u32 first = 0x7fffffffu;
                for (u32 base = lid * VEC; base < n && first == 0x7fffffffu; base += WGS * VEC) {
                    const u32 tops = lane_bits(VLOAD(row_key + base) == out.max_key);
                    first = tops != 0 ? base + 31 - clz(tops & (~tops + 1)) : first;
                }
                first = (u32)-wg_imax(-(i32)first, list.scratch);
                const int kind = max_tile_kind(&r, first);
                const f32 under = above(out.max_key - 1);
                i32 id = CLS_MAX_ID;
                for (u32 v = lid * VEC; v < CLS_MAX_TILE && id == CLS_MAX_ID; v += WGS * VEC) {
                    const u32 tops = lane_bits(load_v(&r, first * CLS_MAX_TILE + v, kind) > under);
                    id = tops != 0 ? (i32)(first * CLS_MAX_TILE + v + 31 - clz(tops & (~tops + 1))) : id;
                }
                out.token = -wg_imax(-id, list.scratch);
                out.cut_key = out.max_key;
                out.cut_id = out.token;
                out.kept = 1;
            }
        }
    }
    if (sampled) { /* the same for the whole group */
        const u64 bits = ROW_BITS(CLS_PURPOSE_TOKEN, &slot, row);
        const int coin = slot.xtc != 0 && u64_hi(ROW_BITS(CLS_PURPOSE_XTC, &slot, row)) >> 1 < slot.xtc;
        const f32 row_max = of_key(out.max_key);
        chain_state c;
        chain_begin(out.max_key, &c);
        cut last = { CLS_KEY_NONE, CLS_MAX_ID, -1, 0, 0, 0 }; /* whose masses the pass has */
        const f32 pass_scale = out.scale;
        int listed = 0, done = 1;
        if (!again) {
            if (slot.flags & CLS_SLOT_TOTAL)
                out.total = row_total(row_key, tile_mass + (size_t)row * tiles, tiles, row_max, slot.total_scale,
                                      row_work, list.scratch);
            BARRIER();
            if (row_is_plain(&slot)) {
                c.set.plain = 1;
                c.scale = slot.scale;
                out.mass = out.total;
            } else {
                if (!(has & CLS_FORCE_SEARCH))
                    listed = list_row(&r, &slot, row_key, n, out.max_key, row_sample, &list, &c, &out);
                if (listed)
                    list_sort(&list);
                done = listed;
            }
        } else {
            u64 known[CLS_PIVOTS];
            const int counted = out.state == CLS_ROW_SEARCH_COUNT;
            for (u32 p = 0; p < CLS_PIVOTS; p++) {
                u64 sum = u64_from(0);
                for (u32 t = lid; t < tiles && out.state != CLS_ROW_SEARCH_ALL; t += WGS)
                    sum = u64_add(sum, row_pass[t * CLS_PIVOTS + p]);
                known[p] = wg_mass(sum, list.scratch);
            }
            listed = search_row(&r, &slot, row_key, tiles, known, out.state == CLS_ROW_SEARCH_ALL ? 0 : CLS_PIVOTS, counted,
                                coin, row_work, &list, &c, &last, &out);
        }
        if (listed)
            done = listed = truncate_list(&slot, &list, row_key, &r, coin, infill, n_end, &c, &out);
        if (done && !(out.status & (CLS_STATUS_UNFIT | CLS_STATUS_EMPTY))) {
            const f32 top = of_key(c.set.top_key);
            out.state = CLS_ROW_DONE;
            out.scale = c.scale;
            out.top_key = c.set.top_key;
            out.kept = 0; /* nobody counted, unless it is a list */
            if (listed) {
                const u32 end = (u32)list.order[c.kept - 1];
                c.set.key = list.key[end];
                c.set.id = list.id[end];
                out.kept = c.kept;
                if (c.weighed != c.scale)
                    list_weigh(&list, row_key, top, c.scale);
                out.mass = list_mass(&list, c.kept);
            } else if (!c.set.plain) {
                const measure m = measure_of(0, top, c.scale);
                if (last.pivot >= 0 && c.scale == pass_scale)
                    out.mass = pass_masses(&list, &last, row_pass, tiles, row_work, list.scratch);
                else
                    out.mass = cut_masses(&r, row_key, tiles, &m, &c.set, row_work, list.scratch);
                BARRIER();
            }
            if (!c.touched)
                out.mass = out.total; /* by tiles, as whoever has the whole row takes it */
            u64 drawable = out.mass;
            if (slot.flags & CLS_SLOT_ADAPTIVE) {
                c.set.adapted = 1;
                c.set.mass = out.mass;
                out.aim = c.set.aim = adaptive_aim(slot.target, slot.mode.sum, slot.mode.weight);
                if (listed) {
                    list_adapt(&list, c.kept, &c.set);
                    out.adapted = list_mass(&list, c.kept);
                } else {
                    out.adapted = row_adapt(&r, row_key, tiles, top, c.scale, &c.set, row_work, list.scratch);
                    BARRIER();
                }
                out.least = c.set.least;
                drawable = out.adapted;
            }
            out.drawn = u64_mul_hi(bits, drawable);
            out.cut_key = c.set.key;
            out.cut_id = c.set.id;
            out.head_key = c.set.head_key;
            out.head_first = c.set.head_first;
            out.head_last = c.set.head_last;
            out.listed = (u32)c.listed;
            if (listed)
                out.token = draw_list(&list, c.kept, out.drawn);
            else
                out.token = draw_row(&r, row_key, row_work, tiles, top, c.scale, &c.set, out.drawn, list.scratch);
            if (c.listed && lid == 0) {
                u32 at = 0;
                for (u32 i = 0; i < list.n; i++)
                    if ((u32)list.rank[i] < c.kept)
                        ((__global u32 *)row_sample)[at++] = (u32)list.id[i];
            }
        } else if (done || !(has & CLS_HAS_SEARCH)) {
            /* Nothing to draw; or nobody would search, though the host took the
             * row for bounded: a status, not the token of some other step. */
            out.status |= done ? 0u : CLS_STATUS_UNFIT;
            out.state = CLS_ROW_DONE;
            out.none = 1;
        } else {
            /* For the pass: the first truncation. */
            const u32 stage = first_truncation(&slot);
            const f32 scale = stage_scale(&slot, stage);
            out.state = stage == CLS_STAGE_TOP_K                                    ? CLS_ROW_SEARCH_COUNT
                        : stage == CLS_STAGE_TOP_P || stage == CLS_STAGE_MIN_P || stage == CLS_STAGE_MIROSTAT_2
                            ? CLS_ROW_SEARCH_MASS
                            : CLS_ROW_SEARCH_ALL;
            out.scale = scale;
            out.kept = c.wanted;
            if (stage == CLS_STAGE_MIN_P || stage == CLS_STAGE_MIROSTAT_2) {
                row_bound b;
                chain_bound(&slot, out.max_key, out.total, &b);
                const i32 lowest = stage == CLS_STAGE_MIN_P ? depth_key(row_max, scale, slot.min_p) : b.lowest;
                for (u32 p = 0; p < CLS_PIVOTS; p++)
                    out.pivot[p] = lowest - 1;
            } else if (out.state != CLS_ROW_SEARCH_ALL) {
                const measure m = measure_of(stage == CLS_STAGE_TOP_K, row_max, scale);
                const u64 target = stage == CLS_STAGE_TOP_K ? u64_from((u32)slot.top_k) : top_p_target(out.total, row_top_p(&slot));
                guess_pivots(&r, &m, target, out.total, row_sample, out.pivot, list.scratch);
            }
        }
    }
    const int done = !idle && out.state == CLS_ROW_DONE;
    cls_mode made;
    next_mode(&r, &slot, row_key, &out, &made);
    FINISH_ROW(&out, row, place, &r, done, first_of_slot(&slot, slots, n_slots, slot_map, slot_map_offset, has, row, place),
               &made, list.scratch);
}
