/* SPDX-License-Identifier: MIT */
/* residual: what is left of a row's distribution when its draft's is taken off. */
#include "row/drafts.cl"

/* What is left of a row's distribution when its draft's is taken off. */
typedef struct residual {
    report t;
    draft_rows d;
    u32 n, draft, drafted; /* max tiles of a row; the draft, its token */
    i32 draft_key;
    cls_share share, draft_share;
    u64 reach;
} residual;

static inline void residual_of(const row_logits *r, const cls_row *out, u32 flags,
                               __global const u32 *row_ids, const draft_rows *d, u32 n, u32 draft,
                               u32 drafted, u64 reach, residual *w)
{
    report_final(r, out, flags, row_ids, &w->t);
    w->d = *d;
    w->n = n;
    w->draft = draft;
    w->drafted = drafted;
    w->draft_key = out->draft_key;
    w->share = share_of(out->mass);
    w->draft_share = share_of(out->draft_mass);
    w->reach = reach;
}

/* The residual of the tokens of a vector, as far as they are there, in lane[]. */
static inline void residual_lanes(const residual *w, u32 i, int kind, const cls_unit *unit,
                                  const cls_unit *its, u64 *lane)
{
    f32 x[VEC];
    VSTORE(load_v(&w->t.r, i, kind), x);
    for (u32 j = 0; j < VEC; j++) {
        const f32 z = clean(x[j]);
        u64 q = u64_from(0);
        lane[j] = u64_from(0);
        if (!(z > CLS_MASKED) || !(report_kept(&w->t, i + j, z) > CLS_MASKED))
            continue;
        if (w->d.kind != CLS_DRAFT_NONE)
            q = draft_share(&w->d, w->draft, i + j, its, &w->draft_share);
        else if (i + j == w->drafted)
            q = CLS_ONE_Q63;
        lane[j] = residual_q63(share_q63(&w->share, report_mass(&w->t, z, unit)), q, w->reach);
    }
}

/* A tile's units, the row's and the draft's; 0 if nothing of it is in the set. */
static inline int residual_units(const residual *w, __global const i32 *row_key, u32 tile,
                                 cls_unit *unit, cls_unit *its)
{
    const i32 key = tile_max_key(row_key, tile);
    its->max = its->fraction = 0.0f;
    its->shift = 0;
    if (key == CLS_KEY_NONE || key < w->t.set.key)
        return 0;
    *unit = report_unit(&w->t, row_key, tile * CLS_TILE);
    if (w->d.kind == CLS_DRAFT_LOGITS && w->draft_key != CLS_KEY_NONE)
        *its = draft_unit(&w->d, w->draft, tile, w->n, w->draft_key);
    return 1;
}

/* The token of a tile whose interval holds `drawn`, by the whole group. */
static inline i32 residual_draw(const residual *w, __global const i32 *row_key, u32 tile, u64 drawn,
                                __local u64 *scratch)
{
    const u32 stretch = (TILE_VECTORS + WGS - 1) / WGS;
    const u32 first = min(LOCAL_ID * stretch, (u32)TILE_VECTORS);
    const u32 last = min(first + stretch, (u32)TILE_VECTORS);
    const int kind = tile_kind(&w->t.r, tile);
    cls_unit unit, its;
    u64 mine = u64_from(0), sum = u64_from(0), total, lane[VEC];
    i32 token = -1;
    residual_units(w, row_key, tile, &unit, &its);
    /* First what each item's stretch has, then, in one of them, where it is. */
    for (u32 round = 0; round < 2; round++) {
        const int here =
            round == 0 || (!u64_less(drawn, sum) && u64_less(drawn, u64_add(sum, mine)));
        for (u32 v = first; v < last && here && token < 0; v++) {
            residual_lanes(w, tile * CLS_TILE + v * VEC, kind, &unit, &its, lane);
            for (u32 j = 0; j < VEC; j++) {
                if (round == 0) {
                    mine = u64_add(mine, lane[j]);
                } else if (token < 0) {
                    sum = u64_add(sum, lane[j]);
                    token = u64_less(drawn, sum) ? (i32)(tile * CLS_TILE + v * VEC + j) : -1;
                }
            }
        }
        if (round == 0)
            sum = wg_scan_mass(mine, scratch, &total);
    }
    return wg_imax(token, scratch);
}

/* Whether drafts of a request are judged by probabilities. */
static inline int is_judged(u32 flags, u32 stopped, u32 has)
{
    return !stopped && !(has & CLS_ALL_GREEDY) &&
           !(flags & (CLS_SLOT_GREEDY | CLS_SLOT_MODES | CLS_SLOT_DECAYS));
}
