/* SPDX-License-Identifier: MIT */
/* truncate: runs a row's chain over its shortlist, in the row's own order. A
 * truncation keeps a number of the list's ranks, or takes some out of it. */

/* ------------------------------------------------------------------- counts, sums */

/* The list's ranks below c->kept with keys at or above a key. */
static inline u32 list_count(const shortlist *list, u32 kept, i32 key)
{
    IV count = (IV)(0);
    for (u32 i = get_local_id(0) * VEC; i < list->n; i += WGS * VEC)
        count += (VLOAD(list->key + i) >= key) & (AS_IV(AS_UV(VLOAD(list->rank + i)) < (UV)(kept)));
    return wg_usum(COUNT(count), list->scratch);
}

static inline u64 list_sum(const shortlist *list, __global const i32 *row_key, u32 kept, u32 what, f32 top, f32 scale)
{
    const i32 exponent = split(top, scale).exponent;
    u64 sum = u64_from(0);
    u32 tile = 0xffffffffu;
    cls_unit unit;
    for (u32 i = get_local_id(0); i < list->n; i += WGS) {
        const u32 t = (u32)list->id[i] / CLS_TILE;
        if (t != tile) {
            tile = t;
            unit = tile_unit(row_key, t, top, exponent, scale);
        }
        if ((u32)list->rank[i] < kept)
            sum = u64_add(sum, sum_term(what, of_key(list->key[i]), top, scale, &unit));
    }
    return wg_mass(sum, list->scratch);
}

/* ------------------------------------------------------------------- heads */

#define GONE 0x7fffffff /* the rank of what was taken out */

/* Takes ranks first to last - 1 out of the list. */
static inline void list_drop(shortlist *list, u32 first, u32 last)
{
    BARRIER();
    for (u32 i = get_local_id(0); i < list->n; i += WGS) {
        const i32 rank = list->rank[i];
        if (rank >= (i32)first && rank < (i32)last)
            list->rank[i] = GONE;
        else if (rank >= (i32)last && rank != GONE)
            list->rank[i] = rank - (i32)(last - first);
    }
    BARRIER();
    for (u32 i = get_local_id(0); i < list->n; i += WGS)
        if (list->rank[i] != GONE)
            list->order[list->rank[i]] = (i32)i;
    BARRIER();
}

/* The list's first `dropped` ranks go; what is first then is the new top. */
static inline void drop_head(shortlist *list, chain_state *c, u32 dropped)
{
    list_drop(list, 0, dropped);
    c->kept -= dropped;
    c->set.top_key = list->key[list->order[0]];
    c->weighed = 0.0f;
}

static inline f32 rank_logit(const shortlist *list, u32 rank) { return of_key(list->key[list->order[rank]]); }

/* Typical p on the list: takes the nearest to the mean depth, from both sides.
 * One item walks. Of a key on the head side the lower ids are taken first, so
 * that ranks between them and the rest may stay out. */
static inline void typical_list(const cls_slot *slot, shortlist *list, chain_state *c, u32 mean, u64 target)
{
    const f32 top = of_key(c->set.top_key), scale = c->scale;
    u32 head = 0, tail, hole = 0, hole_end = 0;
    u64 packed = u64_from(0);
    if (get_local_id(0) == 0) {
        u64 sum = u64_from(0);
        u32 count = 0;
        while (head < c->kept && depth_q20(rank_logit(list, head), top, scale) <= mean)
            head++;
        tail = head;
        while ((u64_less(sum, target) || count < slot->min_keep) && (head > 0 || tail < c->kept)) {
            const u32 up_to = head > 0 ? mean - depth_q20(rank_logit(list, head - 1), top, scale) : 0xffffffffu;
            const u32 down_to = tail < c->kept ? depth_q20(rank_logit(list, tail), top, scale) - mean : 0xffffffffu;
            if (head > 0 && up_to <= down_to) {
                const i32 key = list->key[list->order[head - 1]];
                u32 first = head - 1, i;
                while (first > 0 && list->key[list->order[first - 1]] == key)
                    first--;
                for (i = first; i < head && (u64_less(sum, target) || count < slot->min_keep); i++) {
                    sum = u64_add(sum, list->mass[list->order[i]]);
                    count++;
                }
                hole = i;
                hole_end = head;
                head = first;
            } else {
                sum = u64_add(sum, list->mass[list->order[tail]]);
                count++;
                tail++;
            }
        }
        packed = u64_make(head | tail << 16, hole | hole_end << 16);
    }
    packed = wg_broadcast(packed, get_local_id(0) == 0, list->scratch);
    head = u64_hi(packed) & 0xffffu;
    tail = u64_hi(packed) >> 16;
    hole = u64_lo(packed) & 0xffffu;
    hole_end = u64_lo(packed) >> 16;
    c->kept = tail;
    if (head == 0 && hole == hole_end)
        return;
    const i32 key = list->key[list->order[head]], last = list->id[list->order[hole < hole_end ? hole - 1 : 0]];
    c->set.head_first = key == c->set.head_key ? c->set.head_first : 0;
    c->set.head_last = hole < hole_end ? last : key == c->set.head_key ? c->set.head_last : CLS_MAX_ID;
    c->set.head_key = key;
    list_drop(list, hole, hole_end);
    c->kept -= hole_end - hole;
    drop_head(list, c, head);
}

/* XTC on the list: what is at least so likely goes, but the last of it. */
static inline void xtc_list(shortlist *list, chain_state *c, u32 count)
{
    const u32 last = (u32)list->order[count - 1];
    c->set.head_last = list->key[last] == c->set.head_key ? c->set.head_last : CLS_MAX_ID;
    c->set.head_key = list->key[last];
    c->set.head_first = list->id[last];
    drop_head(list, c, count - 1);
}

/* ------------------------------------------------------------------- infill */

#define CLS_INFILL_MOST 128 /* tokens: pairs of them are looked at */

static inline int is_end(__global const i32 *infill, u32 n_end, i32 id)
{
    int found = 0;
    for (u32 i = 0; i < n_end; i++)
        found |= infill[i] == id;
    return found;
}
static inline int begins_with(__global const i32 *prefix_of, i32 id, i32 prefix)
{
    do
        id = prefix_of[id];
    while (id >= 0 && id != prefix);
    return id == prefix;
}

/* llama.cpp's infill on a weighed list: only ends, if they are likely; else what
 * is likely once tokens that begin alike are counted together. One item looks at
 * all pairs; merged masses only decide who stays. Returns how many ranks are
 * kept; 0: nothing but the first end. */
static inline u32 infill_list(shortlist *list, u32 kept, __global const i32 *infill, u32 n_end)
{
    __global const i32 *const prefix_of = infill + n_end;
    u32 left = 0;
    if (get_local_id(0) == 0) {
        u64 ends = u64_from(0), text = u64_from(0), mass = u64_from(0);
        for (u32 a = 0; a < kept; a++) {
            const u64 m = list->mass[list->order[a]];
            if (is_end(infill, n_end, list->id[list->order[a]]))
                ends = u64_add(ends, m);
            else
                text = u64_add(text, m);
        }
        mass = u64_add(ends, text);
        const int only_ends = u64_less(u64_shr(text, 12), u64_mul(u64_shr(ends, 12), u64_from(3 * kept)));
        for (u32 a = 0; a < kept && !only_ends; a++) {
            const u32 i0 = (u32)list->order[a];
            for (u32 b = 0; b < kept && list->rank[i0] != GONE; b++) {
                const u32 i1 = (u32)list->order[b];
                if (b == a || list->rank[i1] == GONE || !begins_with(prefix_of, list->id[i1], list->id[i0]))
                    continue;
                const int more = u64_less(list->mass[i0], list->mass[i1]);
                const u32 to = more ? i1 : i0, from = more ? i0 : i1;
                list->mass[to] = u64_add(list->mass[to], list->mass[from]);
                list->rank[from] = GONE;
            }
        }
        u32 texts = 0;
        u64 of_left = u64_from(0);
        for (u32 a = 0; a < kept; a++) {
            const u32 i = (u32)list->order[a];
            const int end = is_end(infill, n_end, list->id[i]);
            if (list->rank[i] == GONE)
                continue;
            if (!end && (only_ends || u64_less(u64_mul(list->mass[i], u64_from(5)), mass))) {
                list->rank[i] = GONE;
                continue;
            }
            texts += !end;
            of_left = u64_add(of_left, list->mass[i]);
        }
        for (u32 a = 0; a < kept && (only_ends || texts > 0); a++) {
            const u32 i = (u32)list->order[a];
            if (list->rank[i] == GONE)
                continue;
            if (!only_ends && !is_end(infill, n_end, list->id[i]) && u64_less(u64_mul(list->mass[i], u64_from(texts + 1)), of_left)) {
                list->rank[i] = GONE;
                continue;
            }
            list->order[left] = (i32)i; /* left <= a */
            list->rank[i] = (i32)left;
            left++;
        }
    }
    return u64_lo(wg_broadcast(u64_from(left), get_local_id(0) == 0, list->scratch));
}

/* ------------------------------------------------------------------- the stages */

/* A truncation keeps the first `count` ranks, but not fewer than min_keep;
 * `inside`: the cut lies in the list for certain. Where min_keep reaches beyond
 * the list, so does the set. */
static inline void keep_ranks(const cls_slot *slot, chain_state *c, u32 count, int inside)
{
    const u32 least = max(count, slot->min_keep);
    if (!c->complete && least > c->kept && least > count)
        return;
    c->complete |= inside || count < c->kept;
    c->kept = min(least, c->kept);
}

/* Runs the chain from stage c->at over the sorted list. Returns 0 if the list
 * cannot serve it: if more of the row must be known, or may be kept. */
static inline int truncate_list(const cls_slot *slot, shortlist *list, __global const i32 *row_key, const row_logits *r,
                                int coin, __global const i32 *infill, u32 n_end, chain_state *c, cls_row *out)
{
    for (; chain_stage(slot, c->at) != CLS_STAGE_END; c->at++) {
        const u32 stage = chain_stage(slot, c->at);
        const int dynamic = stage == CLS_STAGE_TEMPERATURE && (slot->flags & CLS_SLOT_DYNAMIC);
        const int of_list = stage == CLS_STAGE_TYPICAL_P || stage == CLS_STAGE_P_LESS || stage == CLS_STAGE_TOP_N_SIGMA ||
                            stage == CLS_STAGE_INFILL || dynamic; /* needs all of the set */
        const int of_mass = of_list ? stage != CLS_STAGE_TOP_N_SIGMA
                                    : stage == CLS_STAGE_TOP_P || stage == CLS_STAGE_XTC || stage == CLS_STAGE_MIROSTAT_2;
        const f32 top = of_key(c->set.top_key);
        u64 mass = out->total;
        if (stage == CLS_STAGE_TEMPERATURE && !dynamic) {
            c->scale = slot->scale;
            continue;
        }
        if (!c->complete && (of_list || (of_mass && c->touched)))
            return 0;
        if (of_mass && c->weighed != c->scale) {
            list_weigh(list, row_key, top, c->scale);
            c->weighed = c->scale;
        }
        if (of_mass && (c->touched || !(slot->flags & CLS_SLOT_TOTAL)))
            mass = list_mass(list, c->kept);
        c->touched = 1;
        /* By stage: a number of ranks, by a key or by itself. */
        u32 count = c->kept, inside = 0;
        i32 key = CLS_KEY_INF;
        if (stage == CLS_STAGE_TOP_K) {
            c->complete |= c->kept >= (u32)slot->top_k;
            c->kept = min(c->kept, (u32)slot->top_k);
            continue;
        } else if (stage == CLS_STAGE_TOP_P) {
            out->total = mass;
            out->target = top_p_target(mass, row_top_p(slot));
            count = list_reach(list, c->kept, u64_from(0), out->target);
            if (count > c->kept && !c->complete)
                continue; /* goes on beyond the list */
            inside = 1;
        } else if (stage == CLS_STAGE_MIN_P) {
            key = depth_key(top, c->scale, slot->min_p);
        } else if (stage == CLS_STAGE_TOP_N_SIGMA) {
            const f32 range = top - rank_logit(list, c->kept - 1);
            if (!(range > 0.0f))
                continue;
            const f32 grid = sigma_grid(range);
            u64 sum[2];
            for (u32 i = 0; i < 2; i++)
                sum[i] = list_sum(list, row_key, c->kept, SUM_UNITS + i, top, grid);
            key = depth_key(top, grid, sigma_limit(c->kept, sum[0], sum[1], slot->sigma));
        } else if (stage == CLS_STAGE_P_LESS) {
            const u64 squares = list_sum(list, row_key, c->kept, SUM_SQUARES, top, c->scale);
            key = depth_q20_key(top, c->scale, p_less_depth(mass, squares, top, c->scale));
        } else if (stage == CLS_STAGE_TYPICAL_P || dynamic) {
            const u32 mean = mean_depth_q20(list_sum(list, row_key, c->kept, SUM_DEPTHS, top, c->scale), mass);
            if (!dynamic) {
                typical_list(slot, list, c, mean, typical_target(mass, slot->typical_p));
                continue;
            }
            f32 t = 1.0f;
            const u32 n = c->kept;
            if (n > 1)
                t = dynamic_temperature(mass_q20(mass, top, c->scale) + mean, n, slot->low, slot->span, slot->exponent);
            if (t < 1e-5f)
                c->kept = 1;
            c->scale = n > 1 && !(t < 1e-5f) ? scale_of(t) : slot->scale;
            continue;
        } else if (stage == CLS_STAGE_XTC) {
            const u32 size = mass_q20(mass, top, c->scale);
            if (!coin || slot->xtc_depth < size)
                continue;
            count = list_count(list, c->kept, depth_q20_key(top, c->scale, slot->xtc_depth - size));
            if (!c->complete && (count == c->kept || c->kept + 1 - count < slot->min_keep))
                return 0;
            if (count >= 2 && c->kept + 1 - count >= slot->min_keep)
                xtc_list(list, c, count);
            continue;
        } else if (stage == CLS_STAGE_MIROSTAT_2) {
            const u32 size = mass_q20(mass, top, c->scale), most = mirostat_limit(slot);
            count = 1;
            if (most >= size) {
                key = depth_q20_key(top, c->scale, most - size);
                count = max(list_count(list, c->kept, key), 1u);
            }
            c->complete |= most < size || key >= c->floor || count < c->kept;
            c->kept = count;
            continue;
        } else if (stage == CLS_STAGE_MIROSTAT_1) {
            if (!c->complete && c->kept < CLS_MIROSTAT_RANKS)
                return 0;
            if (c->kept < 2)
                continue;
            u64 terms = u64_from(0), squares = u64_from(0);
            for (u32 i = get_local_id(0); i < min(c->kept, (u32)CLS_MIROSTAT_RANKS) - 1; i += WGS) {
                const u32 step = mirostat_step(i);
                const u32 drop = depth_q20(rank_logit(list, i + 1), top, c->scale) - depth_q20(rank_logit(list, i), top, c->scale);
                terms = u64_add(terms, u64_mul32(step, drop));
                squares = u64_add(squares, u64_mul32(step, step));
            }
            terms = wg_mass(terms, list->scratch);
            squares = wg_mass(squares, list->scratch);
            c->wanted = mirostat_count(terms, squares, slot->mode.mu, r->vocab);
            if (c->wanted > c->kept && !c->complete)
                return 0;
            c->complete = 1;
            c->kept = min(c->kept, c->wanted);
            continue;
        } else { /* infill */
            if (c->kept > CLS_INFILL_MOST) {
                out->status |= CLS_STATUS_UNFIT;
                return 1;
            }
            c->kept = infill_list(list, c->kept, infill, n_end);
            if (c->kept == 0) {
                const f32 z = load_whole(r, (u32)infill[0]); /* cut or not */
                if (!(z > CLS_MASKED)) {
                    out->status |= CLS_STATUS_EMPTY;
                    return 1;
                }
                BARRIER();
                if (get_local_id(0) == 0) {
                    list->key[0] = key_of(z);
                    list->id[0] = infill[0];
                    list->order[0] = list->rank[0] = 0;
                    for (u32 i = 1; i < VEC; i++)
                        list->key[i] = CLS_KEY_NONE;
                }
                c->kept = list->n = 1;
            }
            BARRIER();
            c->set.top_key = list->key[list->order[0]];
            c->weighed = 0.0f;
            c->listed = 1;
            continue;
        }
        if (key != CLS_KEY_INF) {
            count = list_count(list, c->kept, key);
            inside = key >= c->floor;
        }
        keep_ranks(slot, c, count, (int)inside);
    }
    return c->complete;
}
