/* SPDX-License-Identifier: MIT */
/* report: writes the outputs that need another read of the row: log-probabilities and ranks of the
 * token and of given ids, the most likely tokens, and sums. */
#include "draw/distribution.cl"
#include "row/ranks.cl"

/* Puts the first `wanted` tokens of the set, at most LIST, into the list, or all if it has fewer.
 * The list may get more. */
static inline void report_first(SHARED const row_logits *r, const report *t, i32 max_key,
                                u32 wanted, SHARED shortlist *list)
{
    i32 lo = report_lowest(t);
    /* The maxima of tiles are of the whole row; with an upper cut they bound nothing. Of a row that
     * shards have merged, two max tiles can have the key of one token (merge_tiles()). */
    if (t->set.cut.upper_key == CLS_KEY_INF) {
        const i32 bound = tile_bound(r, 2 * wanted, max_key, list->scratch);
        lo = lo > bound ? lo : bound;
    }
    collect_first(r, wanted, lo, max_key, list);
}

/* Fills the list with the tokens of a set that is not a range of the order. */
static inline void report_listed(SHARED const row_logits *r, const report *t,
                                 SHARED shortlist *list)
{
    for (u32 i = LOCAL_ID; i < t->n_ids; i += WGS) {
        list->id[i] = (i32)t->ids[i];
        list->key[i] = key_of(load_one(r, t->ids[i]));
    }
    list_end(list, t->n_ids);
}

/* What each of a row's groups reports, by its number in the launch. From REPORT_GIVEN on there is a
 * group for every args->given_each of the given ids. */
enum {
    REPORT_TOKEN = 0,
    REPORT_WHOLE = 1,
    REPORT_TOP = 2,
    REPORT_GIVEN = 3,
};

/* Writes an element of an output, if the step wants it. */
#define REPORT(name, NAME, at, value) \
    if (wants & CLS_WANTS(CLS_OUT_##NAME)) \
        OUTPUT(s, name, CLS_OUT_##NAME)[at] = (value);

/* Returns the rank of a key in the list. */
static inline u32 listed_rank(SHARED shortlist *list, i32 key)
{
    IV count = (IV)(0);
    for (u32 i = 0; i < list->n; i += VEC)
        count += VLOAD(list->key + i) >= key;
    return COUNT(count);
}

/* Reports on ids: the row's token, the most likely tokens and the candidates, which are in the
 * sorted list, or n given ids, the first of which is `first`. To count the ranks of tokens of a set
 * that is not a list, their keys are put into the list, which must have room for twice as many. */
static inline void report_ids(const step_args *s, SHARED const row_logits *r, const report *t,
                              int no_token, u32 part, const cls_row *out, u32 place, u32 first,
                              u32 n, SHARED shortlist *list)
{
    const int given = part >= REPORT_GIVEN, tops = part == REPORT_TOP;
    const u32 wants = s->args->wants, top_n = s->args->top_n, candidates_n = s->args->candidates_n;
    const u32 bits = wants >> (given ? CLS_OUT_GIVEN_LOGPROBS : CLS_OUT_LOGPROBS) & 3u;
    const int ranked = (bits & 2u) != 0;
    const int counted = ranked && !tops && !no_token && !t->listed;
    const size_t from = given ? (size_t)place * s->args->given_n + first : place;
    __global i32 *const ranks =
        given ? OUTPUT(s, given_ranks, CLS_OUT_GIVEN_RANKS) : OUTPUT(s, ranks, CLS_OUT_RANKS);
    if (!tops && bits == 0)
        return; /* another launch reports on them, of the raw row */
    for (u32 i = LOCAL_ID; i < n; i += WGS) {
        const i32 id = tops    ? i < list->n ? list->id[list->order[i]] : -1
                       : given ? OUTPUT(s, given_ids, CLS_OUT_GIVEN_IDS)[from + i]
                               : out->token;
        f32 z = CLS_MASKED;
        cls_unit unit = {0.0f, 0.0f, 0};
        if (!no_token && id >= 0 && (u32)id < r->vocab) {
            z = report_kept(t, (u32)id, load_one(r, (u32)id));
            unit = report_unit(t, (u32)id);
        }
        const f32 logprob = report_logprob(t, z, &unit, part == REPORT_TOKEN && !out->forced);
        if (tops) {
            const size_t top = (size_t)place * top_n + i,
                         candidate = (size_t)place * candidates_n + i;
            if (i < top_n) {
                REPORT(top_ids, TOP_IDS, top, id)
                REPORT(top_logprobs, TOP_LOGPROBS, top, logprob)
            }
            if (i < candidates_n) {
                REPORT(candidate_ids, CANDIDATE_IDS, candidate, id)
                REPORT(candidate_logits, CANDIDATE_LOGITS, candidate, z)
                REPORT(candidate_probs, CANDIDATE_PROBS, candidate,
                       id < 0 ? 0.0f : report_probability(t, report_mass(t, z, &unit)))
            }
            continue;
        }
        if (given) {
            REPORT(given_logprobs, GIVEN_LOGPROBS, from + i, logprob)
        } else {
            REPORT(logprobs, LOGPROBS, from, logprob)
        }
        if (counted)
            list->key[i] = key_of(z);
        else if (ranked)
            ranks[from + i] = z > CLS_MASKED ? (i32)listed_rank(list, key_of(z)) : 0;
    }
    if (!counted) /* the same for the whole group */
        return;
    list_end(list, n);
    const u32 edges = order_keys(list, list->id);
    count_keys(r, list->id, edges, list->order, list);
    for (u32 i = LOCAL_ID; i < n; i += WGS)
        ranks[from + i] = list->key[i] > CLS_KEY_NONE ? list->order[list->rank[i]] : 0;
}

/* Reports the number of tokens in the set, and from the sums that the distribution left the entropy
 * and the kept share of the mass. */
static inline void report_whole(const step_args *s, SHARED const row_logits *r, const report *t,
                                int no_token, u32 row, u32 place, SHARED shortlist *list)
{
    const u32 wants = s->args->wants, per_group = s->args->tiles_per_group;
    __global const u64 *const sums = s->pass + (size_t)row * r->tiles * CLS_PIVOTS;
    u64 sum[CLS_PIVOTS] = {0, 0, 0, 0};
    u32 count = 0;
    if ((wants & CLS_WANTS(CLS_OUT_KEPT)) && !no_token) /* the same for the whole group */
        count = t->listed ? t->n_ids : tokens_above(r, report_lowest(t) - 1, list->scratch);
    if (wants & CLS_WANTS_SUMS) { /* an argument */
        for (u32 g = LOCAL_ID; g * per_group < r->tiles; g += WGS)
            for (u32 i = 0; i < 3; i++)
                sum[i] += sums[g * CLS_PIVOTS + i];
        wg_masses(sum, 3, list->scratch);
    }
    if (LOCAL_ID != 0)
        return;
    REPORT(kept, KEPT, place, (i32)count)
    REPORT(entropy, ENTROPY, place, no_token || t->greedy ? 0.0f : report_entropy(t, sum[2]))
    REPORT(kept_mass, KEPT_MASS, place,
           no_token    ? 0.0f
           : t->greedy ? 1.0f
                       : u64_to_f32(sum[1]) / u64_to_f32(sum[0]))
}

/* Reports on each row's token, the given ids, the most likely tokens, and sums, each by a separate
 * group. A place where a verification emits no token has what a row without a token has. With
 * CLS_RAW it reports on the raw row, and the survey in the arguments is that of the raw row;
 * otherwise on the final distribution. Launch: [(3 + given_n / given_each, rounded up) * WGS, rows]
 * or, after a verification, [.., places]. */
ONE_COPY void report_row(const step_args *s, u32 place, u32 part, SHARED row_logits *shared,
                         SHARED shortlist *list)
{
    ARGS const cls_args *const args = s->args;
    const i32 own = row_at(s, place);
    const u32 row = (u32)max(own, 0);
    const i32 slot_index = own < 0 ? -1 : row_slot(s, row);
    ROW_VIEW(shared, s, row, slot_index)
    const cls_row out = s->rows[row];
    i32 max_key = out.max_key;
    int no_token = slot_index < 0 || (out.no_token && !(s->has & CLS_NO_SLOTS));
    report t;
    if (s->has & CLS_RAW) {
        no_token &= slot_index < 0 || !out.forced; /* nothing could be drawn, but the model's
                                                      distribution has the forced token */
        max_key = row_max_key(r->key, max_tiles(r), list->scratch);
        no_token |= max_key == CLS_KEY_NONE;
        const u64 total = row_total(r->key, s->tile_mass + (size_t)row * r->tiles, r->tiles,
                                    float_of_key(max_key), CLS_LOG2E, 0, 0, list->scratch);
        report_raw(r, max_key, total, &t);
    } else {
        report_final(r, &out, no_token ? 0u : r->slot->flags, kept_ids_of(s, row), &t);
    }
    report_truncate(&t, r);
    t.listed = no_token ? 0u : t.listed;
    if (t.listed) /* the same for the whole group, as are no_token and part */
        report_listed(r, &t, list);
    if (part == REPORT_WHOLE) {
        report_whole(s, r, &t, no_token, row, place, list);
        return;
    }
    const u32 first = part >= REPORT_GIVEN ? (part - REPORT_GIVEN) * args->given_each : 0u;
    const u32 n = part == REPORT_TOKEN ? 1u
                  : part == REPORT_TOP ? max(args->top_n, args->candidates_n)
                                       : min(args->given_each, args->given_n - first);
    if (n == 0)
        return;
    if (part == REPORT_TOP) {
        if (no_token)
            list_end(list, 0);
        else if (!t.listed)
            report_first(r, &t, max_key, n, list);
        list_sort(list);
    }
    report_ids(s, r, &t, no_token, part, &out, place, first, n, list);
}

KERNEL void cls_report(STEP_PARAMETERS(CLS_REPORT_BUFFERS))
{
    SHARED row_logits shared;
    SHORTLIST(list)
    const step_args s = STEP_OF(CLS_REPORT_BUFFERS);
    report_row(&s, GROUP_OF_ALL, get_group_id(0), &shared, &list);
}
