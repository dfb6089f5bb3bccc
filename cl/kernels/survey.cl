/* SPDX-License-Identifier: MIT */
/* survey: the one read of the row. It stores the key of the largest logit of each max tile, the
 * status bits of each mass tile and, where the row's chain needs the total, the tile's integer mass
 * in the tile's unit.
 *
 * Launch: [splits * WGS, rows]; a group surveys tiles_per_group mass tiles. */
#include "row/survey_cpu.cl"
#include "row/survey_groups.cl"

/* The tile after the row's last one. */
#if SHARD
#define END_TILE ((r.last + CLS_TILE - 1) / CLS_TILE)
#else
#define END_TILE tiles
#endif

KERNEL void cls_survey(STEP_PARAMETERS(CLS_SURVEY_BUFFERS))
{
    const step_args s = STEP_OF(CLS_SURVEY_BUFFERS);
    const u32 has = s.has, tiles = row_tiles(&s), tiles_per_group = args->tiles_per_group;
#if WGS > 1
    __local f32 share_max[TEAM_SHARES], max_tile[TEAM_MAX_TILES];
    __local u64 share_sum[TEAM_SHARES], part[TEAM_MAX_TILES];
#if ROW
    __local u32 state_of_tile[32];
#endif
#endif
    const u32 row = get_group_id(1);
    const i32 slot = row_slot(&s, row);
    const row_logits r = row_view(&s, row, slot);
    const u32 first = ROW_FIRST(&r) / CLS_TILE + get_group_id(0) * tiles_per_group;
    const u32 skipped = slot < 0 || (slots[slot].stopped && !(has & CLS_RAW));
    const u32 last = skipped ? first : min(first + tiles_per_group, END_TILE);
    const u32 needs_mass = has & CLS_RAW ? 1u : slot < 0 ? 0u : slots[slot].flags & CLS_SLOT_TOTAL;
    const f32 scale = has & CLS_RAW || slot < 0 ? CLS_LOG2E : slots[slot].total_scale;
    __global i32 *const row_key = tile_key + (size_t)row * row_max_tiles(&s);
#if WGS == 1
    survey_tiles(&r, first, last, needs_mass, scale, row_key, tile_flags + (size_t)row * tiles,
                 tile_mass + (size_t)row * tiles);
#else
    /* Each round takes TEAMS tiles with two barriers; that is 16 KB of float32 in groups of 256
     * with vectors of 4. At its end the masses are still those of shares. They are added up between
     * the barriers of the next round; so there is one more round, without tiles. */
    const u32 lid = LOCAL_ID, from_end = WGS - 1 - lid;
#if ROW
    for (u32 n = lid; n < 32; n += WGS)
        if (first + n < last)
            state_of_tile[n] = tile_state(&r, first + n);
    LOCAL_BARRIER();
#endif
    for (u32 t = first, before = 0; t < last || before != 0; t += TEAMS) {
        const u32 now = t < last ? min((u32)TEAMS, last - t) : 0u;
        FV x[4];
        u32 status = 0;
        for (u32 s = lid; s < TEAM_SHARES; s += WGS)
            if (s < now * SHARES)
                share_max[s] = share_read(&r, SHARE_AT(s), STATE(t + s / SHARES), x, &status);
        LOCAL_BARRIER();
        for (u32 m = lid; m < TEAM_MAX_TILES; m += WGS)
            if (m < now * CLS_MAX_TILES_PER_TILE) {
                max_tile[m] = max_tile_maximum(share_max + m * MAX_TILE_SHARES);
                row_key[t * CLS_MAX_TILES_PER_TILE + m] = key_of(max_tile[m]);
            }
        for (u32 m = from_end; m < TEAM_MAX_TILES; m += WGS)
            if (m < before * CLS_MAX_TILES_PER_TILE)
                part[m] = fold_sums(share_sum + m * MAX_TILE_SHARES, MAX_TILE_SHARES);
        LOCAL_BARRIER();
        for (u32 s = lid; s < TEAM_SHARES; s += WGS)
            if (s < now * SHARES) {
                const f32 most = tile_maximum(max_tile + s / SHARES * CLS_MAX_TILES_PER_TILE);
                u64 mass = 0;
#if WGS < \
    SHARES /* an item has several shares, and only the vectors of the latest are still there */
                share_read(&r, SHARE_AT(s), STATE(t + s / SHARES), x, &status);
#endif
                if (needs_mass && most > CLS_MASKED)
                    mass = share_mass(x, most, scale);
                share_sum[s] = u64_make(u64_hi(mass) | status, u64_lo(mass));
            }
        for (u32 n = from_end; n < TEAMS; n += WGS)
            if (n < before) {
                const u64 sum =
                    fold_sums(part + n * CLS_MAX_TILES_PER_TILE, CLS_MAX_TILES_PER_TILE);
                const size_t at = (size_t)row * tiles + t - TEAMS + n;
                tile_flags[at] = team_flags(u64_hi(sum), STATE(t - TEAMS + n));
                tile_mass[at] = u64_make(u64_hi(sum) & (SUM_NAN - 1), u64_lo(sum));
            }
        before = now;
    }
#endif
}
