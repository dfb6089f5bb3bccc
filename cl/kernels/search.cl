/* SPDX-License-Identifier: MIT */
/* search: runs the chain over the whole row, for sets that do not fit the
 * shortlist. Each stage asks the row for sums and gives a cut; once what is left
 * fits the list, the list goes on. Reads the row some 3 to 40 times: exact, not
 * fast, but for the first top-p, top-k or min-p, which have the pass. */
#include "row/pick.cl"
#include "row/truncate.cl"
#include "row/sums.cl"
#include "stages/mirostat.cl"

/* Runs the chain on from stage c->at. Returns 1 when what is left is in the list,
 * sorted, and the list can go on; 0 when the chain is done, or the row is lost.
 * `known`: what the pass found above out->pivot, n_known of them. *last: whose
 * masses the pass has. */
static inline int search_row(row_logits *r, const cls_slot *slot, __global const i32 *row_key, u32 tiles, const u64 *known,
                             u32 n_known, int counted, int coin, __global u64 *work, shortlist *list, chain_state *c,
                             cut *last, cls_row *out)
{
    const u32 n = tiles * CLS_MAX_TILES_PER_TILE;
    for (; chain_stage(slot, c->at) != CLS_STAGE_END; c->at++) {
        const u32 stage = chain_stage(slot, c->at);
        const int dynamic = stage == CLS_STAGE_TEMPERATURE && (slot->flags & CLS_SLOT_DYNAMIC);
        const int key_known = stage == CLS_STAGE_MIN_P || stage == CLS_STAGE_MIROSTAT_2;
        const int easy = key_known || stage == CLS_STAGE_TOP_K || stage == CLS_STAGE_TOP_P;
        const int fresh = !c->touched;
        const f32 top = of_key(c->set.top_key), scale = stage == CLS_STAGE_TEMPERATURE && !dynamic ? slot->scale : c->scale;
        u64 size[2] = { u64_from(0), out->total }; /* tokens, mass */
        if (stage == CLS_STAGE_TEMPERATURE && !dynamic) {
            c->scale = slot->scale;
            continue;
        }
        if (!fresh) {
            row_narrow(r, &c->set);
            last->pivot = -1; /* what the pass found is of the first stage */
        }
        for (u32 i = 0; i < 2 && (!fresh || !easy); i++) {
            const i32 all[CLS_PIVOTS] = { CLS_KEY_NONE, CLS_KEY_NONE, CLS_KEY_NONE, CLS_KEY_NONE };
            const measure m = measure_of(i == 0, top, scale);
            u64 sum[CLS_PIVOTS];
            if (i == 1 && fresh && (slot->flags & CLS_SLOT_TOTAL))
                continue;
            measure_row(r, row_key, tiles, &m, all, sum, list->scratch);
            size[i] = sum[0];
        }
        const u32 tokens = u64_lo(size[0]);
        const u64 mass = size[1];
        if ((!fresh || !easy) && tokens <= LIST) {
            if (collect(r, row_key, n, CLS_KEY_NONE + 1, CLS_KEY_INF, ALL_TIES, list)) {
                list_sort(list);
                c->kept = list->n;
                c->complete = 1;
                c->weighed = 0.0f;
                return 1;
            }
        }
        if (stage == CLS_STAGE_INFILL) {
            out->status |= CLS_STATUS_UNFIT;
            return 0;
        }
        c->touched = 1;
        /* By stage: a key, or a measure that must be reached. */
        int found = 1, heads = 0;
        i32 key = CLS_KEY_NONE + 1;
        u64 target = u64_from(1);
        int counts = 1;
        if (stage == CLS_STAGE_TOP_K) {
            found = 0;
            target = u64_from((u32)slot->top_k);
        } else if (stage == CLS_STAGE_TOP_P) {
            found = counts = 0;
            out->total = mass;
            target = out->target = top_p_target(mass, row_top_p(slot));
        } else if (stage == CLS_STAGE_MIN_P) {
            key = depth_key(top, scale, slot->min_p);
        } else if (stage == CLS_STAGE_TOP_N_SIGMA) {
            i32 lo = CLS_KEY_NONE, hi = out->max_key;
            key_range(r, row_key, n, &lo, &hi, list->scratch);
            const f32 range = top - of_key(lo + 1);
            if (!(range > 0.0f))
                continue;
            const f32 grid = sigma_grid(range);
            u64 sum[2];
            for (u32 i = 0; i < 2; i++)
                sum[i] = row_sum(r, row_key, tiles, SUM_UNITS + i, top, grid, list->scratch);
            key = depth_key(top, grid, sigma_limit(tokens, sum[0], sum[1], slot->sigma));
        } else if (stage == CLS_STAGE_P_LESS || stage == CLS_STAGE_TYPICAL_P || dynamic) {
            const u64 sum = row_sum(r, row_key, tiles, stage == CLS_STAGE_P_LESS ? SUM_SQUARES : SUM_DEPTHS, top, scale, list->scratch);
            if (stage == CLS_STAGE_P_LESS) {
                key = depth_q20_key(top, scale, p_less_depth(mass, sum, top, scale));
            } else if (dynamic) {
                f32 t = 1.0f;
                if (tokens > 1)
                    t = dynamic_temperature(mass_q20(mass, top, scale) + mean_depth_q20(sum, mass), tokens, slot->low, slot->span, slot->exponent);
                c->scale = tokens > 1 && !(t < 1e-5f) ? scale_of(t) : slot->scale;
                if (!(t < 1e-5f))
                    continue;
                found = 0; /* the first token alone */
            } else {
                const u32 mean = mean_depth_q20(sum, mass);
                found = 2;
                counts = 0;
                target = typical_target(mass, slot->typical_p);
                key = (i32)mean;
                heads = 1;
            }
        } else if (stage == CLS_STAGE_XTC) {
            const u32 bits = mass_q20(mass, top, scale);
            if (!coin || slot->xtc_depth < bits)
                continue;
            i32 lo = depth_q20_key(top, scale, slot->xtc_depth - bits) - 1, hi = out->max_key;
            const u32 many = tokens_above(r, row_key, n, lo, list->scratch);
            if (many < 2 || tokens + 1 - many < slot->min_keep)
                continue;
            key_range(r, row_key, n, &lo, &hi, list->scratch);
            const i32 last_key = lo + 1;
            const measure m = measure_of(1, top, scale);
            const i32 id = tie_cut(r, row_key, tiles, &m, last_key, u64_from(0),
                                   u64_from(key_count(r, row_key, n, last_key, list->scratch)), work, list->scratch);
            c->set.head_last = last_key == c->set.head_key ? c->set.head_last : CLS_MAX_ID;
            c->set.head_key = last_key;
            c->set.head_first = id;
            heads = 1;
        } else { /* mirostat */
            if (stage == CLS_STAGE_MIROSTAT_1)
                c->wanted = out->kept != 0 ? out->kept : mirostat_row(r, slot, row_key, n, c->set.top_key, scale, tokens, list->scratch);
            const u32 bits = mass_q20(mass, top, scale), most = mirostat_limit(slot);
            found = stage == CLS_STAGE_MIROSTAT_2 && most >= bits;
            if (found)
                key = depth_q20_key(top, scale, most - bits);
            else
                target = u64_from(stage == CLS_STAGE_MIROSTAT_1 ? c->wanted : 1u);
        }
        const int floors = slot->min_keep > 1 && (stage == CLS_STAGE_TOP_P || stage == CLS_STAGE_MIN_P || stage == CLS_STAGE_TOP_N_SIGMA ||
                                                  stage == CLS_STAGE_P_LESS || stage == CLS_STAGE_TYPICAL_P);
        const kept_set before = c->set;
        const u32 mean = (u32)key;
        for (u32 attempt = 0; attempt < 2; attempt++) {
            const measure m = measure_of(counts, top, scale);
            cut cutting = { key, CLS_MAX_ID, -1, 0, 0, 0 };
            int search = found == 0;
            c->set = before;
            if (found == 2)
                search = typical_row(r, row_key, tiles, &m, mean, target, work, &c->set, &cutting.key, list->scratch);
            if (key_known && fresh && !counted && n_known > 0) {
                cutting.pivot = 0; /* all four are this key's: nothing to add to the pass */
                list->n = 0;
            }
            if (search) {
                last->pivot = -1; /* the list is about to change */
                find_cut(r, row_key, tiles, &m, target, out->pivot, known, fresh && easy && counted == counts ? n_known : 0,
                         out->max_key, work, list, &cutting);
            }
            if (stage != CLS_STAGE_XTC && (cutting.key > c->set.key || (cutting.key == c->set.key && cutting.id < c->set.id))) {
                c->set.key = cutting.key;
                c->set.id = cutting.id;
                *last = cutting;
                if (!fresh || counted || found == 2 || attempt > 0)
                    last->pivot = -1;
            }
            if (!floors || attempt == 1)
                break;
            row_logits narrow = *r;
            row_narrow(&narrow, &c->set);
            if (tokens_above(&narrow, row_key, n, CLS_KEY_NONE, list->scratch) >= slot->min_keep)
                break;
            /* Too few: as many as must stay, in the stage's own order. */
            if (found == 2)
                row_narrow(r, &before);
            else
                found = 0;
            counts = 1;
            target = u64_from(slot->min_keep);
        }
        if (heads) {
            i32 lo = CLS_KEY_NONE, hi = out->max_key;
            row_narrow(r, &c->set);
            key_range(r, row_key, n, &lo, &hi, list->scratch);
            c->set.top_key = hi;
        }
    }
    return 0;
}

/* search: the rows that the token kernel left. The others do nothing. */
KERNEL void cls_search(STEP_ARGS, DRAW_ARGS, const u32 sample_stride, DRAFT_ARGS, DRAFT_ROW_ARGS)
{
    if (rows[get_group_id(1)].state == CLS_ROW_DONE) /* the same for the whole group */
        return;
    ROW_BEGIN
    __global const u64 *const row_pass = pass + (size_t)row * tiles * CLS_PIVOTS;
    const f32 pass_scale = out.scale;
    const int counted = out.state == CLS_ROW_SEARCH_COUNT, coin = ROW_COIN(&slot, row);
    cut last = { CLS_KEY_NONE, CLS_MAX_ID, -1, 0, 0, 0 }; /* whose masses the pass has */
    u64 known[CLS_PIVOTS];
    chain_state c;
    chain_begin(out.max_key, &c);
    for (u32 p = 0; p < CLS_PIVOTS; p++) {
        u64 sum = u64_from(0);
        for (u32 t = get_local_id(0); t < tiles && out.state != CLS_ROW_SEARCH_ALL; t += WGS)
            sum = u64_add(sum, row_pass[t * CLS_PIVOTS + p]);
        known[p] = wg_mass(sum, list.scratch);
    }
    const int listed = search_row(&r, &slot, row_key, tiles, known, out.state == CLS_ROW_SEARCH_ALL ? 0 : CLS_PIVOTS, counted,
                            coin, row_work, &list, &c, &last, &out);
    if (listed) /* all of the set is in the list, so it can serve it; else, a status */
        out.status |= truncate_list(&slot, &list, row_key, &r, coin, infill, n_end, &c, &out) ? 0u : CLS_STATUS_UNFIT;
    else if (!(out.status & CLS_STATUS_UNFIT))
        out.mass = set_masses(&r, row_key, tiles, &c, &last, pass_scale, row_pass, row_work, &list);
    if (!(out.status & (CLS_STATUS_UNFIT | CLS_STATUS_EMPTY))) {
        pick_token(&r, &slot, row_key, tiles, listed, ROW_BITS(CLS_PURPOSE_TOKEN, &slot, row), invalid_token, row_work, row_sample, &list, &c, &out);
    } else {
        out.state = CLS_ROW_DONE;
        out.none = 1;
    }
    ROW_END(1)
}
