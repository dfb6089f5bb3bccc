/* SPDX-License-Identifier: MIT */
/* infill: llama.cpp's sampler for filling in the middle. */
#include "row/list.cl"

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
