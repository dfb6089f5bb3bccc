/* SPDX-License-Identifier: MIT */
/* distribution: writes [rows, vocab] float32: probabilities, which are 0 outside the kept set, and
 * adjusted logits, which are -inf outside it. For the report it leaves three sums of each tile in
 * pass[]: the mass of the adjusted row at the final scale, the mass of what is kept, and the terms
 * of the entropy. Launch: as the survey. */
#include "draw/distribution.cl"
#include "row/measure.cl"

#if WGS == 1
#define SHARES 1 /* one item has a whole tile */
#endif
#define SUMS 3 /* the masses of the row and of what is kept, and the terms of the entropy */

/* How the tokens of a tile are read: not at all, because none counts; with all adjustments; or as
 * they are in memory. */
enum {
    READ_NONE = 0,
    READ_ADJUSTED = 1,
    READ_RAW = 2,
};

/* Writes the outputs of every SHARES-th token of a tile from i on, and adds to the sums. `unit` and
 * `whole`: the tile's units in the final distribution and in the whole row. */
static inline void write_tokens(const step_args *s, const row_logits *r, const report *t, u32 i,
                                int reads, const cls_unit *unit, const cls_unit *whole, u64 *sum)
{
    const u32 wants = s->args->wants, vocab = s->vocab,
              end = min((i / CLS_TILE + 1) * CLS_TILE, vocab);
    const size_t row_at = (size_t)get_group_id(1) * vocab;
    __global f32 *const row_probs = OUTPUT(s, probs, CLS_OUT_PROBS) + row_at;
    __global f32 *const row_final = OUTPUT(s, final_logits, CLS_OUT_FINAL_LOGITS) + row_at;
    f32 next = reads == READ_RAW && i < end ? LOAD(r->x, i) : CLS_MASKED;
    for (; i < end; i += SHARES) {
        f32 x = CLS_MASKED;
        if (reads == READ_RAW) {
            x = clean(next);
            if (i + SHARES < end) /* loaded while the current token is weighed */
                next = LOAD(r->x, i + SHARES);
        } else if (reads == READ_ADJUSTED) {
            x = load_one(r, i);
        }
        const f32 z = reads == READ_NONE ? x : report_kept(t, i, x);
        const u64 mass = z > CLS_MASKED ? report_mass(t, z, unit) : 0;
        if (wants & CLS_WANTS(CLS_OUT_PROBS))
            row_probs[i] = z > CLS_MASKED ? report_probability(t, mass) : 0.0f;
        if (wants & CLS_WANTS(CLS_OUT_FINAL_LOGITS))
            row_final[i] = z;
        if ((wants & CLS_WANTS_SUMS) && x > CLS_MASKED) {
            const u64 whole_mass =
                to_row_units(weight(x, whole->max, t->scale, whole->fraction), whole->shift);
            sum[0] += whole_mass;
            if (z > CLS_MASKED) {
                sum[1] += whole_mass;
                sum[2] += report_term(t, z, mass);
            }
        }
    }
}

/* Does this from the tile's largest key, which is CLS_KEY_NONE if the row has no token. `m`: the
 * masses of the whole row. The sums begin at 0. */
static inline void write_share(const step_args *s, const row_logits *r, const report *t,
                               const measure *m, u32 i, i32 tile_key, u64 *sum)
{
    const f32 tile_max = float_of_key(tile_key), top = float_of_key(t->set.top_key),
              max = m->row_max;
    const int reads = !(tile_max > CLS_MASKED)                 ? READ_NONE
                      : tile_kind(r, i / CLS_TILE) == TILE_RAW ? READ_RAW
                                                               : READ_ADJUSTED;
    cls_unit unit = {0.0f, 0.0f, 0}, whole = unit;
    if (reads != READ_NONE) {
        unit = unit_of(tile_max < top ? tile_max : top, top, t->exponent, t->scale);
        whole = unit_of(tile_max < max ? tile_max : max, max, m->exponent, m->scale);
    }
    for (u32 n = 0; n < SUMS; n++)
        sum[n] = 0;
    write_tokens(s, r, t, i, reads, &unit, &whole, sum);
}

#if WGS > 1
/* What a group has in local memory: the largest keys of its tiles, of which it has at most 32, and
 * the sums of shares and of max tiles. */
typedef struct distribution_memory {
    __local i32 *tile_top;
    __local u64 *share_sum, *part;
} distribution_memory;

/* Writes tiles first to last - 1 with a group. Each round processes as many tiles as there are
 * teams. An item has every SHARES-th token of a tile. */
static inline void write_teams(const step_args *s, const row_logits *r, const report *t,
                               const measure *m, u32 first, u32 last, const distribution_memory *at,
                               __global u64 *sums)
{
    for (u32 round = first; round < last; round += TEAMS) {
        const u32 now = min((u32)TEAMS, last - round);
        for (u32 share = LOCAL_ID; share < TEAM_SHARES; share += WGS) {
            if (share >= now * SHARES)
                continue;
            const u32 tile = round + share / SHARES;
            u64 sum[SUMS];
            write_share(s, r, t, m, tile * CLS_TILE + share % SHARES, at->tile_top[tile - first],
                        sum);
            __local u64 *const to = at->share_sum + SUM_INDEX(share);
            for (u32 n = 0; n < SUMS; n++)
                to[n * TEAM_SUMS] = IS_FIRST_SHARE(share) ? sum[n] : to[n * TEAM_SUMS] + sum[n];
        }
        if (!(s->args->wants & CLS_WANTS_SUMS)) /* an argument, so the same for all items */
            continue;
        LOCAL_BARRIER();
#if TWO_STEPS
        for (u32 n = LOCAL_ID; n < SUMS * TEAM_MAX_TILES; n += WGS)
            at->part[n] = fold_sums(at->share_sum + n * MAX_TILE_SHARES, MAX_TILE_SHARES);
        LOCAL_BARRIER();
#endif
        for (u32 n = LOCAL_ID; n < SUMS * TEAMS; n += WGS)
            if (n % TEAMS < now)
                sums[(round + n % TEAMS) * CLS_PIVOTS + n / TEAMS] =
                    fold_sums(at->part + n * LAST_SUMS, LAST_SUMS);
#if !TWO_STEPS
        LOCAL_BARRIER();
#endif
    }
}
#endif

KERNEL void cls_distribution(STEP_PARAMETERS(CLS_DISTRIBUTION_BUFFERS))
{
    const step_args s = STEP_OF(CLS_DISTRIBUTION_BUFFERS);
    const u32 tiles_per_group = args->tiles_per_group, tiles = row_tiles(&s);
#if WGS > 1
    __local i32 tile_top[32];
    __local u64 share_sum[SUMS * TEAM_SUMS];
#if TWO_STEPS
    __local u64 part[SUMS * TEAM_MAX_TILES];
#else
    __local u64 *const part = share_sum;
#endif
    const distribution_memory memory = {tile_top, share_sum, part};
#endif
    const u32 row = get_group_id(1);
    const cls_row out = rows[row];
    const i32 slot_index = row_slot(&s, row);
    const row_logits r = row_view(&s, row, slot_index);
    const u32 first = get_group_id(0) * tiles_per_group, last = min(first + tiles_per_group, tiles);
    const int no_token = out.no_token || slot_index < 0;
    report t;
    report_final(&r, &out, no_token ? 0u : slots[slot_index].flags, kept_ids_of(&s, row), &t);
    const measure m = measure_of(0, float_of_key(out.max_key), out.scale);
    __global u64 *const sums = pass + (size_t)row * tiles * CLS_PIVOTS;
#if WGS == 1
    for (u32 tile = first; tile < last; tile++) {
        u64 sum[SUMS];
        write_share(&s, &r, &t, &m, tile * CLS_TILE,
                    no_token ? CLS_KEY_NONE : tile_max_key(r.key, tile), sum);
        for (u32 n = 0; n < SUMS && (args->wants & CLS_WANTS_SUMS); n++)
            sums[tile * CLS_PIVOTS + n] = sum[n];
    }
#else
    for (u32 n = LOCAL_ID; n < 32; n += WGS)
        if (first + n < last)
            tile_top[n] = no_token ? CLS_KEY_NONE : tile_max_key(r.key, first + n);
    LOCAL_BARRIER();
    write_teams(&s, &r, &t, &m, first, last, &memory, sums);
#endif
}
