/* SPDX-License-Identifier: MIT */
/* truncate: runs a row's chain over its shortlist, in the row's own order. A
 * truncation keeps a number of the list's ranks, or takes some out of it. */
#include "stages/typical_p.cl"
#include "stages/xtc.cl"
#include "stages/infill.cl"

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
