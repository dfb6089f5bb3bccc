/* SPDX-License-Identifier: MIT */
/* residual: computes what is left of a row's distribution when its draft's distribution is
 * subtracted. */
#include "draw/drafts.cl"

/* A row and its draft, for computing the residual. */
typedef struct residual {
    report t;
    draft_row d;
    cls_reciprocal reciprocal;
    u64 prefix_prob;
} residual;

static inline void residual_of(const step_args *s, SHARED row_logits *r, const cls_row *out,
                               u32 row, u32 flags, i32 draft, u64 prefix_prob, residual *w)
{
    report_final(r, out, flags, kept_ids_of(s, row), &w->t);
    report_truncate(&w->t, r);
    w->d = draft_row_of(s, row, (u32)draft);
    draft_weighed(out, &w->d);
    w->reciprocal = reciprocal_of(out->mass);
    w->prefix_prob = prefix_prob;
}

/* Computes the residuals of a vector's tokens, in lane[]; 0 for tokens that are not in the set. */
static inline void residual_lanes(SHARED const row_logits *r, const residual *w, u32 i, int kind,
                                  const cls_unit *unit, const cls_unit *draft_tile, u64 *lane)
{
    f32 x[VEC];
    VSTORE(load_v(r, i, kind, CLS_MASKED), x);
    for (u32 j = 0; j < VEC; j++) {
        const f32 z = clean(x[j]);
        lane[j] = 0;
        if (!(z > CLS_MASKED) || !(report_kept(&w->t, i + j, z) > CLS_MASKED))
            continue;
        lane[j] = residual_q63(fraction_q63(&w->reciprocal, report_mass(&w->t, z, unit)),
                               draft_probability(&w->d, i + j, draft_tile), w->prefix_prob);
    }
}

/* Computes the units of a tile in the row and in the draft's row. Returns 0 if the set has nothing
 * in the tile. */
static inline int residual_units(const residual *w, u32 tile, cls_unit *unit, cls_unit *draft_tile)
{
    const i32 key = tile_max_key(w->t.key, tile);
    if (key < report_lowest(&w->t))
        return 0;
    *unit = report_unit(&w->t, tile * CLS_TILE);
    *draft_tile = draft_unit(&w->d, tile);
    return 1;
}

/* Returns the token of a tile whose interval contains `drawn`, by the whole group. */
static inline i32 residual_draw(SHARED const row_logits *r, const residual *w, u32 tile, u64 drawn,
                                __local u64 *scratch)
{
    const u32 n = tile_vectors(r, tile), per_item = (n + WGS - 1) / WGS;
    const u32 first = min(LOCAL_ID * per_item, n), last = min(first + per_item, n);
    const int kind = tile_kind(r, tile);
    cls_unit unit, draft_tile;
    u64 mine = 0, sum = 0, total, lane[VEC];
    i32 token = -1;
    residual_units(w, tile, &unit, &draft_tile);
    /* Round 0 sums up each item's vectors; round 1 finds the token, in the one item that has it. */
    for (u32 round = 0; round < 2; round++) {
        const int here = round == 0 || (drawn >= sum && drawn < sum + mine);
        for (u32 v = first; v < last && here && token < 0; v++) {
            residual_lanes(r, w, tile * CLS_TILE + v * VEC, kind, &unit, &draft_tile, lane);
            for (u32 j = 0; j < VEC; j++) {
                if (round == 0) {
                    mine += lane[j];
                } else if (token < 0) {
                    sum += lane[j];
                    token = drawn < sum ? (i32)(tile * CLS_TILE + v * VEC + j) : -1;
                }
            }
        }
        if (round == 0)
            sum = wg_scan_mass(mine, scratch, &total);
    }
    return wg_imax(token, scratch);
}

/* Returns whether a request's drafts are accepted by their probabilities. */
static inline int uses_probabilities(u32 flags, u32 stopped)
{
    return !stopped && !(flags & (CLS_SLOT_GREEDY | CLS_SLOT_STATEFUL | CLS_SLOT_DECAYS));
}
