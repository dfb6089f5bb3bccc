/* SPDX-License-Identifier: MIT */
/* ranks: counts how many tokens of a row reach each of many keys, with few reads of the row. */
#include "row/shortlist.cl"
#include "row/ranks_cpu.cl"

/* Sorts the keys of a list, some of which may be equal or CLS_KEY_NONE. edge[] gets the different
 * keys, descending, and list->rank[] of each entry the index of its key there. Returns their
 * number. */
static inline u32 order_keys(SHARED shortlist *list, __local i32 *edge)
{
    u32 edges = 0;
    list_sort(list);
    for (u32 base = 0; base < list->n; base += WGS) {
        const u32 rank = base + LOCAL_ID;
        u32 from = 0, is_new = 0, sum;
        if (rank < list->n) {
            from = (u32)list->order[rank];
            const i32 key = list->key[from];
            is_new = key != CLS_KEY_NONE && (rank == 0 || list->key[list->order[rank - 1]] != key);
        }
        const u32 at = edges + wg_scan_u32(is_new, list->scratch, &sum);
        if (is_new)
            edge[at] = list->key[from];
        if (rank < list->n)
            list->rank[from] = (i32)(at + is_new) - 1;
        edges += sum;
    }
    BARRIER();
    return edges;
}

/* Counts how many tokens of the row reach each of `edges` descending keys, in count[], by the whole
 * group. Each read of the row serves four keys. Where one item has memory for buckets, and more
 * than two reads would be needed, one read serves all keys. */
static inline void count_keys(SHARED const row_logits *r, __local i32 *edge, u32 edges,
                              __local i32 *count, SHARED shortlist *list)
{
#ifdef COUNTS_BY_BUCKETS
    if (edges > 8) {
        count_by_buckets(r, edge, edges, count);
        return;
    }
#endif
    for (u32 i = 0; i < edges; i += 4) {
        i32 key[4];
        u64 counts[4];
        for (u32 p = 0; p < 4; p++) /* ascending */
            key[p] = edge[min(i + 3 - p, edges - 1)] - 1;
        if (edges == 1)
            counts[3] = tokens_above(r, key[3], list->scratch);
        else
            tokens_above_each(r, key, counts, list->scratch);
        for (u32 p = 0; p < 4; p++)
            if (LOCAL_ID == 0 && i + p < edges)
                count[i + p] = (i32)counts[3 - p];
    }
    BARRIER();
}
