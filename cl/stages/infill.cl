/* SPDX-License-Identifier: MIT */
/* infill: llama.cpp's sampler for filling in the middle. It keeps only end tokens if these are
 * likely. Otherwise it counts tokens together where one is a prefix of the other, and keeps the
 * likely ones. The merged masses only decide which tokens are kept. */
#include "row/job.cl"

#define CLS_INFILL_MAX 128 /* the largest set: all pairs of its tokens are looked at */

static inline int is_end(__global const i32 *infill, u32 n_end, i32 id)
{
    int found = 0;
    for (u32 i = 0; i < n_end; i++)
        found |= infill[i] == id;
    return found;
}

/* An item's share of the list's entries that are among its first `kept` ranks. */
#define EACH_KEPT(i) \
    SHORT_LOOP \
    for (u32 i = LOCAL_ID; i < list->n; i += WGS) \
        if ((u32)list->rank[i] < kept)

/* Stores for each kept token the index of the longest other one that is its prefix, or -1. These
 * take the place of the order, which is made again when the list loses tokens. */
static inline void infill_link(SHARED shortlist *list, u32 kept, __global const i32 *prefix_of)
{
    EACH_KEPT(i)
    {
        i32 id = prefix_of[list->id[i]], at = -1;
        SHORT_LOOP
        for (; id >= 0 && at < 0; id = prefix_of[id])
            at = kept_index(list, kept, id);
        list->order[i] = at;
    }
    BARRIER();
}

/* Merges pairs of tokens of which one is a prefix of the other: the likelier one gets both masses,
 * the other one is removed. Each round merges the first pair that is left, in the order of the
 * prefix's rank and then of the other one's. */
static inline void infill_merge(SHARED shortlist *list, u32 kept)
{
    const u32 none = CLS_INFILL_MAX * CLS_INFILL_MAX;
    for (u32 round = 1; round < kept; round++) {
        u32 pair = none, prefix = 0, longer = 0;
        EACH_KEPT(i)
        {
            i32 at = list->order[i];
            SHORT_LOOP
            for (u32 steps = 1; at >= 0 && steps < kept; steps++, at = list->order[at]) {
                const u32 rank = (u32)list->rank[at],
                          this = rank * CLS_INFILL_MAX + (u32)list->rank[i];
                if (rank < kept && this < pair) {
                    pair = this;
                    prefix = (u32)at;
                    longer = i;
                }
            }
        }
        const u32 first = wg_umin(pair, list->scratch);
        if (first == none) /* the same for the whole group */
            break;
        if (pair == first) {
            const int more = list->mass[prefix] < list->mass[longer];
            const u32 to = more ? longer : prefix, from = more ? prefix : longer;
            list->mass[to] += list->mass[from];
            list->rank[from] = RANK_REMOVED;
        }
        LOCAL_BARRIER();
    }
}

/* Removes all text tokens if the end tokens are likely; else those below a fifth of the mass, and
 * then those below the mean of what is left. Returns whether a token is left. */
static inline int infill_ranks(SHARED shortlist *list, u32 kept, __global const i32 *infill,
                               u32 n_end)
{
    u64 ends = 0, text = 0;
    EACH_KEPT(i)
    {
        if (is_end(infill, n_end, list->id[i]))
            ends += list->mass[i];
        else
            text += list->mass[i];
    }
    ends = wg_mass(ends, list->scratch);
    text = wg_mass(text, list->scratch);
    const int only_ends = text >> 12 < (ends >> 12) * (3 * kept);
    if (!only_ends) { /* the same for the whole group */
        infill_link(list, kept, infill + n_end);
        infill_merge(list, kept);
    }
    /* A text token is removed if its mass is below `least` / `shares`. */
    u64 least = only_ends ? 1 : ends + text;
    u32 shares = only_ends ? 0 : 5, has_text = 1;
    for (u32 round = 0; round < 2 && has_text != 0; round++) {
        u64 left = 0;
        u32 texts = 0;
        EACH_KEPT(i)
        {
            const int end = is_end(infill, n_end, list->id[i]);
            if (!end && list->mass[i] * shares < least) {
                list->rank[i] = RANK_REMOVED;
                continue;
            }
            left += list->mass[i];
            texts += !end;
        }
        least = wg_mass(left, list->scratch);
        has_text = wg_usum(texts, list->scratch);
        shares = has_text + 1;
    }
    return only_ends || has_text != 0;
}

/* Makes the first end token the list's only one, even if it was cut. Returns 0 if it has no
 * logit. */
static inline int infill_first_end(row_job *w, i32 id)
{
    SHARED shortlist *const list = w->list;
    const f32 z = load_whole(VIEW(w), (u32)id);
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

static inline void infill(const step_args *s, row_job *w)
{
    chain_state *const c = &w->c;
    w->cut = CUT_DONE;
    if (!LISTED(w) || c->kept > CLS_INFILL_MAX) {
        w->out.status |= CLS_ROW_UNFIT;
        w->cut = CUT_EMPTY;
        return;
    }
    if (infill_ranks(w->list, c->kept, s->infill, s->args->n_end)) {
        list_drop(w->list, c->kept);
    } else if (!infill_first_end(w, s->infill[0])) {
        w->out.status |= CLS_ROW_EMPTY;
        w->cut = CUT_EMPTY;
        return;
    }
    c->kept = w->list->n;
    c->set.top_key = w->list->key[w->list->order[0]];
    c->weighed = 0.0f;
    c->by_ids = 1;
}
