/* SPDX-License-Identifier: MIT */
/* infill: llama.cpp's sampler for filling in the middle. It keeps only end tokens if these are
 * likely. Otherwise it counts tokens together where one is a prefix of the other, and keeps the
 * likely ones. One item looks at all pairs. The merged masses only decide which tokens are kept. */
#include "row/job.cl"

#define CLS_INFILL_MAX 128 /* the largest set: all pairs of its tokens are looked at */

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

/* Computes the mass of the list's first `kept` ranks, in *mass. Returns whether only the end tokens
 * are kept. */
static inline int infill_only_ends(const shortlist *list, u32 kept, __global const i32 *infill,
                                   u32 n_end, u64 *mass)
{
    u64 ends = 0, text = 0;
    for (u32 a = 0; a < kept; a++) {
        const u64 m = list->mass[list->order[a]];
        if (is_end(infill, n_end, list->id[list->order[a]]))
            ends += m;
        else
            text += m;
    }
    *mass = ends + text;
    return text >> 12 < (ends >> 12) * (3 * kept);
}

/* Merges pairs of tokens of which one is a prefix of the other: the likelier one gets both masses,
 * the other one is removed. */
static inline void infill_merge(shortlist *list, u32 kept, __global const i32 *prefix_of)
{
    for (u32 a = 0; a < kept; a++) {
        const u32 i0 = (u32)list->order[a];
        for (u32 b = 0; b < kept && list->rank[i0] != RANK_REMOVED; b++) {
            const u32 i1 = (u32)list->order[b];
            if (b == a || list->rank[i1] == RANK_REMOVED ||
                !begins_with(prefix_of, list->id[i1], list->id[i0]))
                continue;
            const int more = list->mass[i0] < list->mass[i1];
            const u32 to = more ? i1 : i0, from = more ? i0 : i1;
            list->mass[to] += list->mass[from];
            list->rank[from] = RANK_REMOVED;
        }
    }
}

/* Removes text tokens below a fifth of the mass, then those below the mean of what is left. Returns
 * the number of kept ranks. */
static inline u32 infill_ranks(shortlist *list, u32 kept, __global const i32 *infill, u32 n_end)
{
    u64 mass, of_left = 0;
    const int only_ends = infill_only_ends(list, kept, infill, n_end, &mass);
    u32 has_text = 0, left = 0;
    if (!only_ends)
        infill_merge(list, kept, infill + n_end);
    for (u32 a = 0; a < kept; a++) {
        const u32 i = (u32)list->order[a];
        const int end = is_end(infill, n_end, list->id[i]);
        if (list->rank[i] == RANK_REMOVED)
            continue;
        if (!end && (only_ends || list->mass[i] * 5 < mass)) {
            list->rank[i] = RANK_REMOVED;
            continue;
        }
        has_text += !end;
        of_left += list->mass[i];
    }
    for (u32 a = 0; a < kept && (only_ends || has_text > 0); a++) {
        const u32 i = (u32)list->order[a];
        if (list->rank[i] == RANK_REMOVED)
            continue;
        if (!only_ends && !is_end(infill, n_end, list->id[i]) &&
            list->mass[i] * (has_text + 1) < of_left) {
            list->rank[i] = RANK_REMOVED;
            continue;
        }
        left++;
    }
    return left;
}

/* Makes the first end token the list's only one, even if it was cut. Returns 0 if it has no
 * logit. */
static inline int infill_first_end(row_job *w, i32 id)
{
    shortlist *const list = &w->list;
    const f32 z = load_whole(&w->r, (u32)id);
    if (!(z > CLS_MASKED))
        return 0;
    BARRIER();
    if (LOCAL_ID == 0) {
        list->key[0] = key_of(z);
        list->id[0] = id;
    }
    list_end(list, 1);
    list_sort(list);
    whole_row(key_of(z), &w->c.set); /* stages that follow must not remove it for an earlier cut */
    return 1;
}

static inline void infill(row_job *w)
{
    chain_state *const c = &w->c;
    const int first_item = LOCAL_ID == 0;
    u32 left = 0;
    w->cut = CUT_DONE;
    if (!LISTED(w) || c->kept > CLS_INFILL_MAX) {
        w->out.status |= CLS_ROW_UNFIT;
        w->cut = CUT_EMPTY;
        return;
    }
    if (first_item)
        left = infill_ranks(&w->list, c->kept, w->s->infill, w->s->args->n_end);
    left = u64_lo(wg_broadcast(left, first_item, w->list.scratch));
    if (left != 0) {
        list_drop(&w->list, c->kept);
    } else if (!infill_first_end(w, w->s->infill[0])) {
        w->out.status |= CLS_ROW_EMPTY;
        w->cut = CUT_EMPTY;
    }
    c->kept = w->list.n;
    c->set.top_key = w->list.key[w->list.order[0]];
    c->weighed = 0.0f;
    c->by_ids = 1;
}
