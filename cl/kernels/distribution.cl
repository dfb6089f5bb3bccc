/* SPDX-License-Identifier: MIT */
/* distribution: writes [rows, vocab] float32: probabilities, which are 0 outside the kept set, and
 * adjusted logits, which are -inf outside it. For the report it leaves three sums of each tile in
 * pass[]: the mass of the adjusted row at the final scale, the mass of what is kept, and the terms
 * of the entropy. Launch: as the survey. */
#include "draw/distribution.cl"
#include "row/measure.cl"

#if WGS == 1 /* one item has a whole tile */
#define SHARES 1
#define TEAMS 1
#define TEAM_SHARES 1
#define TILE_TOP(t) tile_max_key(r.key, t)
#else
#define TILE_TOP(t) tile_top[(t)-first]
#endif
#define SUMS 3 /* the masses of the row and of what is kept, and the terms of the entropy */

/* Writes the outputs of every SHARES-th token from i on, and adds to the sums. `raw`: the tile's
 * logits can be used as they are in memory. `empty`: no token of the tile counts. */
static inline void write_tokens(const row_logits *r, const report *t, u32 i, u32 end, int raw,
                                int empty, u32 wants, const cls_unit *unit, const cls_unit *whole,
                                f32 scale, __global f32 *row_probs, __global f32 *row_final,
                                u64 *sum)
{
    f32 next = raw && i < end ? LOAD(r->x, i) : CLS_MASKED;
    for (; i < end; i += SHARES) {
        f32 x = CLS_MASKED;
        if (raw) {
            x = clean(next);
            if (i + SHARES < end) /* loaded while the current token is weighed */
                next = LOAD(r->x, i + SHARES);
        } else if (!empty) {
            x = load_one(r, i);
        }
        const f32 z = empty ? x : report_kept(t, i, x);
        const u64 mass = z > CLS_MASKED ? report_mass(t, z, unit) : 0;
        if (wants & CLS_WANTS(CLS_OUT_PROBS))
            row_probs[i] = z > CLS_MASKED ? report_probability(t, mass) : 0.0f;
        if (wants & CLS_WANTS(CLS_OUT_FINAL_LOGITS))
            row_final[i] = z;
        if ((wants & CLS_WANTS_SUMS) && x > CLS_MASKED) {
            const u64 whole_mass =
                to_row_units(weight(x, whole->max, scale, whole->fraction), whole->shift);
            sum[0] += whole_mass;
            if (z > CLS_MASKED) {
                sum[1] += whole_mass;
                sum[2] += report_term(t, z, mass);
            }
        }
    }
}

KERNEL void cls_distribution(ROWS_ARGS, __global const f32 *sample, __global u64 *pass,
                             __global f32 *probs, __global f32 *final_logits)
{
    STEP_LOCALS
    const u32 tiles_per_group = args->tiles_per_group, wants = args->wants;
#if WGS > 1
    __local i32 tile_top[32]; /* a group has at most 32 tiles */
    __local u64 share_sum[SUMS * TEAM_SUMS];
#if TWO_STEPS
    __local u64 part[SUMS * TEAM_MAX_TILES];
#else
    __local u64 *const part = share_sum;
#endif
#endif
    const u32 row = get_group_id(1), lid = LOCAL_ID;
    const cls_row out = rows[row];
    const i32 slot_index = ROW_SLOT(row);
    const row_logits r = ROW_VIEW(row, slot_index);
    const u32 first = get_group_id(0) * tiles_per_group, last = min(first + tiles_per_group, TILES);
    const int no_token = out.no_token || slot_index < 0;
    report t;
    report_final(&r, &out, no_token ? 0u : slots[slot_index].flags,
                 (__global const u32 *)sample + (size_t)row * args->sample_stride, &t);
    const f32 max = float_of_key(out.max_key), top = float_of_key(t.set.top_key);
    const i32 exponent = split(max, out.scale).exponent;
    __global u64 *const sums = pass + (size_t)row * TILES * CLS_PIVOTS;
    __global f32 *const row_probs = OUTPUT(probs, CLS_OUT_PROBS) + (size_t)row * vocab;
    __global f32 *const row_final =
        OUTPUT(final_logits, CLS_OUT_FINAL_LOGITS) + (size_t)row * vocab;
#if WGS > 1
    for (u32 n = lid; n < 32; n += WGS)
        if (first + n < last)
            tile_top[n] = tile_max_key(r.key, first + n);
    LOCAL_BARRIER();
#endif
    /* Each round processes as many tiles as there are teams. An item has every SHARES-th token of a
     * tile. */
    for (u32 round = first; round < last; round += TEAMS) {
        const u32 now = min((u32)TEAMS, last - round);
        for (u32 s = lid; s < TEAM_SHARES; s += WGS) {
            if (s >= now * SHARES)
                continue;
            const u32 tile = round + s / SHARES, end = min((tile + 1) * CLS_TILE, vocab);
            const f32 tile_max = float_of_key(TILE_TOP(tile));
            const int empty = no_token || !(tile_max > CLS_MASKED),
                      raw = !empty && tile_kind(&r, tile) == TILE_RAW;
            cls_unit unit = {0.0f, 0.0f, 0}, whole = unit;
            u64 sum[SUMS] = {0, 0, 0};
            if (!empty) {
                unit = unit_of(tile_max < top ? tile_max : top, top, t.exponent, t.scale);
                whole = unit_of(tile_max < max ? tile_max : max, max, exponent, out.scale);
            }
            write_tokens(&r, &t, tile * CLS_TILE + s % SHARES, end, raw, empty, wants, &unit,
                         &whole, out.scale, row_probs, row_final, sum);
#if WGS == 1
            for (u32 n = 0; n < SUMS && (wants & CLS_WANTS_SUMS); n++)
                sums[tile * CLS_PIVOTS + n] = sum[n];
#else
            __local u64 *const to = share_sum + SUM_INDEX(s);
            for (u32 n = 0; n < SUMS; n++)
                to[n * TEAM_SUMS] = IS_FIRST_SHARE(s) ? sum[n] : to[n * TEAM_SUMS] + sum[n];
#endif
        }
#if WGS > 1
        if (!(wants & CLS_WANTS_SUMS)) /* an argument, so the same for all items */
            continue;
        LOCAL_BARRIER();
#if TWO_STEPS
        for (u32 n = lid; n < SUMS * TEAM_MAX_TILES; n += WGS)
            part[n] = fold_sums(share_sum + n * MAX_TILE_SHARES, MAX_TILE_SHARES);
        LOCAL_BARRIER();
#endif
        for (u32 n = lid; n < SUMS * TEAMS; n += WGS)
            if (n % TEAMS < now)
                sums[(round + n % TEAMS) * CLS_PIVOTS + n / TEAMS] =
                    fold_sums(part + n * LAST_SUMS, LAST_SUMS);
#if !TWO_STEPS
        LOCAL_BARRIER();
#endif
#endif
    }
}
