/* SPDX-License-Identifier: MIT */
/* The two kernels that take a row to its token, a work-group a row.
 *
 * shortlist: serves every row whose set provably fits the list, whatever the
 *   vocabulary; leaves the others pivots for the pass.
 * final: after the pass, serves those; rows that are done do nothing.
 *
 * Launch: [WGS, rows]. */

/* Tries to serve a truncated row from a list. Returns how many ranks are
 * kept, 0 if the list cannot serve the row. */
static inline u32 serve_from_list(const row_logits *r, const cls_slot *slot, __global const i32 *row_key, u32 n,
                                  i32 max_key, u64 target, __global f32 *work, shortlist *list, cls_row *out)
{
    const f32 row_max = of_key(max_key);
    const f32 k_scale = stage_scale(slot, CLS_STAGE_TOP_K), p_scale = stage_scale(slot, CLS_STAGE_TOP_P);
    const f32 min_p_scale = stage_scale(slot, CLS_STAGE_MIN_P);
    const u32 k = (u32)slot->top_k;
    const int by_k = k_scale > 0.0f && k <= LIST;
    i32 lowest = CLS_KEY_NONE + 1, bound = lowest;
    int bounded = 0, listed = 0;
    /* min-p bounds the set by the row's maximum alone, wherever it stands, but
     * a top-p between must see all that came before it: unless that is the
     * untouched row, whose mass is known. */
    if (min_p_scale > 0.0f &&
        ((slot->flags & CLS_SLOT_TOTAL) || stage_precedes(slot, CLS_STAGE_MIN_P, CLS_STAGE_TOP_P))) {
        lowest = depth_key(row_max, min_p_scale, slot->min_p);
        bounded = 1;
    }
    /* Three ways to a bound, one after the other; a loop, so that compilers
     * that inline everything have one copy of what collects. */
    for (u32 way = 0; way < 3 && !listed; way++) {
        u32 ties = ALL_TIES;
        i32 lo = lowest;
        if (way == 0 && by_k) {
            bound = tile_bound(row_key, n, k, max_key, list->scratch);
            lo = bound > lowest ? bound : lowest;
            bounded = 1;
        } else if (way == 0) {
            if (!bounded)
                continue;
        } else if (way == 1) {
            /* Clustered, sorted or tied logits: the exact k-th key decides. */
            u32 over;
            if (!by_k)
                continue;
            lo = kth_key(r, row_key, n, k, bound, max_key, &over, list->scratch);
            ties = k - over;
        } else {
            if (!(p_scale > 0.0f && (slot->flags & CLS_SLOT_TOTAL)))
                continue;
            bounded = 0;
            lo = champion_bound(row_key, n, row_max, p_scale, target, work, list->scratch);
            if (lo == CLS_KEY_NONE)
                continue;
        }
        listed = collect(r, row_key, n, lo, CLS_KEY_INF, ties, list);
    }
    if (!listed)
        return 0;
    list_sort(list);
    return truncate_list(slot, list, row_key, row_max, bounded, out);
}

KERNEL void cls_shortlist(STEP_ARGS, DRAW_ARGS, const u32 sample_stride)
{
    SHORTLIST(list);
    const u32 row = get_group_id(1), lid = get_local_id(0);
    const i32 place = ROW_SLOT(row);
    const u32 tiles = TILES, n = MAX_TILES;
    const row_logits r = ROW_VIEW(row, place);
    __global const i32 *const row_key = tile_key + (size_t)row * n;
    __global u64 *const row_work = work + (size_t)row * tiles;
    __global f32 *const row_sample = sample + (size_t)row * sample_stride;
    cls_row out;
    out.mass = out.total = out.target = out.drawn = u64_from(0);
    out.token = invalid_token;
    out.status = place == -1 ? CLS_STATUS_SKIPPED : place < 0 ? CLS_STATUS_NO_SLOT : 0u;
    out.state = CLS_ROW_DONE;
    out.max_key = out.cut_key = CLS_KEY_NONE;
    out.cut_id = CLS_MAX_ID;
    out.scale = CLS_LOG2E;
    out.none = 1;
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        out.pivot[p] = CLS_KEY_NONE;
    if (place >= 0 && slots[place].stopped) {
        out.status = CLS_STATUS_STOPPED | CLS_STATUS_SKIPPED;
    } else if (place >= 0) {
        const cls_slot slot = slots[place];
        u32 flags = 0;
        for (u32 t = lid; t < tiles; t += WGS)
            flags |= r.flags[t];
        out.status = wg_uor(flags, list.scratch) & (CLS_STATUS_NAN | CLS_STATUS_INF);
        out.none = 0;
        out.max_key = row_max_key(row_key, n, list.scratch);
        const f32 row_max = of_key(out.max_key);
        out.scale = slot.scale;
        if (out.max_key == CLS_KEY_NONE) {
            out.status |= CLS_STATUS_EMPTY;
            out.none = 1;
        } else if (slot.flags & CLS_SLOT_GREEDY) {
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
        } else {
            const u64 bits = ROW_BITS(slots + place, row);
            if (slot.flags & CLS_SLOT_TOTAL)
                out.total = row_total(row_key, tile_mass + (size_t)row * tiles, tiles, row_max, slot.total_scale,
                                      row_work, list.scratch);
            BARRIER();
            if (slot.flags & CLS_SLOT_PLAIN) {
                const kept_set all = { CLS_KEY_NONE, CLS_MAX_ID, 1 };
                out.mass = out.total;
                out.drawn = u64_mul_hi(bits, out.mass);
                out.token = draw_row(&r, row_key, row_work, tiles, row_max, slot.scale, &all, out.drawn, list.scratch);
            } else {
                const u64 target = slot.flags & CLS_SLOT_TOTAL ? top_p_target(out.total, slot.top_p) : u64_from(0);
                u32 kept = 0;
                if (!(has & CLS_FORCE_SEARCH))
                    kept = serve_from_list(&r, &slot, row_key, n, out.max_key, target, row_sample, &list, &out);
                if (kept > 0) {
                    const u32 last = (u32)list.order[kept - 1];
                    out.cut_key = list.key[last];
                    out.cut_id = list.id[last];
                    out.mass = list_mass(&list, kept);
                    out.drawn = u64_mul_hi(bits, out.mass);
                    out.token = draw_list(&list, kept, out.drawn);
                } else {
                    /* For the pass: the first truncation that needs a search. */
                    u32 stage = 0, i = 0;
                    while (stage == 0) {
                        const u32 s = chain_stage(&slot, i++);
                        stage = s == CLS_STAGE_TEMPERATURE ? 0 : s;
                    }
                    const f32 scale = stage_scale(&slot, stage);
                    out.state = stage == CLS_STAGE_TOP_K ? CLS_ROW_SEARCH_COUNT : CLS_ROW_SEARCH_MASS;
                    out.scale = scale;
                    if (stage == CLS_STAGE_MIN_P) {
                        for (u32 p = 0; p < CLS_PIVOTS; p++)
                            out.pivot[p] = depth_key(row_max, scale, slot.min_p) - 1;
                    } else {
                        const measure m = measure_of(stage == CLS_STAGE_TOP_K, row_max, scale);
                        guess_pivots(&r, &m, stage == CLS_STAGE_TOP_K ? u64_from((u32)slot.top_k) : target, out.total,
                                     row_sample, out.pivot, list.scratch);
                    }
                }
            }
        }
    }
    FINISH_ROW(&out, row, place, &r, out.state == CLS_ROW_DONE, list.scratch);
}

KERNEL void cls_final(STEP_ARGS, DRAW_ARGS)
{
    SHORTLIST(list);
    const u32 row = get_group_id(1), lid = get_local_id(0);
    cls_row out = rows[row];
    if (out.state != CLS_ROW_DONE) { /* the same for the whole group */
        const i32 place = ROW_SLOT(row);
        const cls_slot slot = slots[place];
        const u32 tiles = TILES;
        const row_logits r = ROW_VIEW(row, place);
        __global const i32 *const row_key = tile_key + (size_t)row * MAX_TILES;
        __global u64 *const row_work = work + (size_t)row * tiles;
        __global const u64 *const row_pass = pass + (size_t)row * tiles * CLS_PIVOTS;
        const f32 row_max = of_key(out.max_key);
        const u64 bits = ROW_BITS(slots + place, row);
        const int counted = out.state == CLS_ROW_SEARCH_COUNT;
        u64 known[CLS_PIVOTS];
        kept_set set = { CLS_KEY_NONE, CLS_MAX_ID, 0 };
        cut last = { CLS_KEY_NONE, CLS_MAX_ID, -1, 0, 0, 0 }; /* whose masses the pass has */
        f32 scale = CLS_LOG2E;
        int touched = 0, fresh = 1;
        for (u32 p = 0; p < CLS_PIVOTS; p++) {
            u64 sum = u64_from(0);
            for (u32 t = lid; t < tiles; t += WGS)
                sum = u64_add(sum, row_pass[t * CLS_PIVOTS + p]);
            known[p] = wg_mass(sum, list.scratch);
        }
        for (u32 i = 0; chain_stage(&slot, i) != CLS_STAGE_END; i++) {
            const u32 stage = chain_stage(&slot, i);
            cut c = { CLS_KEY_NONE, CLS_MAX_ID, -1, 0, 0, 0 };
            if (stage == CLS_STAGE_TEMPERATURE) {
                scale = slot.scale;
                continue;
            }
            const measure m = measure_of(stage == CLS_STAGE_TOP_K, row_max, scale);
            if (stage == CLS_STAGE_MIN_P) {
                c.key = depth_key(row_max, scale, slot.min_p);
                if (fresh && !counted) {
                    c.pivot = 0; /* all four are this key's: nothing to add to the pass */
                    list.n = 0;
                }
            } else {
                last.pivot = -1; /* the list is about to change */
                u64 target = u64_from((u32)slot.top_k);
                if (stage == CLS_STAGE_TOP_P) {
                    if (touched)
                        out.total = cut_masses(&r, row_key, tiles, &m, &set, row_work, list.scratch);
                    target = out.target = top_p_target(out.total, slot.top_p);
                }
                find_cut(&r, row_key, tiles, &m, target, out.pivot, known,
                         fresh && counted == (stage == CLS_STAGE_TOP_K) ? CLS_PIVOTS : 0, out.max_key, row_work, &list,
                         &c);
            }
            if (c.key > set.key || (c.key == set.key && c.id < set.id)) {
                set.key = c.key;
                set.id = c.id;
                last = c;
                if (stage == CLS_STAGE_TOP_K || scale != slot.scale || !fresh)
                    last.pivot = -1;
            }
            fresh = 0;
            touched = 1;
        }
        const measure m = measure_of(0, row_max, slot.scale);
        if (last.pivot >= 0)
            out.mass = pass_masses(&list, &last, row_pass, tiles, row_work, list.scratch);
        else
            out.mass = cut_masses(&r, row_key, tiles, &m, &set, row_work, list.scratch);
        BARRIER();
        out.scale = slot.scale;
        out.cut_key = set.key;
        out.cut_id = set.id;
        out.drawn = u64_mul_hi(bits, out.mass);
        out.token = draw_row(&r, row_key, row_work, tiles, row_max, slot.scale, &set, out.drawn, list.scratch);
        out.state = CLS_ROW_DONE;
        FINISH_ROW(&out, row, place, &r, 1, list.scratch);
    }
}
