/* SPDX-License-Identifier: MIT */
/* survey: the one read of the row. It stores the key of the largest logit of each max tile, the
 * status bits of each mass tile and, where the row's chain needs the total, the tile's integer mass
 * in the tile's unit.
 *
 * Launch: [splits * WGS, rows]; a group surveys tiles_per_group mass tiles. */
#include "row/survey_cpu.cl"
#include "row/survey_groups.cl"

KERNEL void cls_survey(STEP_PARAMETERS(CLS_SURVEY_BUFFERS))
{
    const step_args s = STEP_OF(CLS_SURVEY_BUFFERS);
    const u32 has = s.has, tiles = row_tiles(&s), tiles_per_group = s.args->tiles_per_group;
#if WGS > 1
    __local f32 share_max[TEAM_SHARES], max_tile[TEAM_MAX_TILES];
    __local u64 share_sum[TEAM_SHARES], part[TEAM_MAX_TILES];
    __local u32 tile_states[ROW ? 32 : 1];
    const survey_memory memory = {share_max, max_tile, share_sum, part, tile_states};
#endif
    const u32 row = get_group_id(1);
    const i32 slot = row_slot(&s, row);
    const row_logits r = row_view(&s, row, slot);
    const u32 first = ROW_FIRST(&r) / CLS_TILE + get_group_id(0) * tiles_per_group;
    const u32 skipped = slot < 0 || (slots[slot].stopped && !(has & CLS_RAW));
    const u32 end = (ROW_LAST(&r) + CLS_TILE - 1) / CLS_TILE;
    const u32 last = skipped ? first : min(first + tiles_per_group, end);
    const u32 raw = has & (CLS_RAW | CLS_RAW_MASS);
    const u32 needs_mass = raw || slot < 0 ? raw : r.slot->flags & CLS_SLOT_TOTAL;
    const f32 scale = raw || slot < 0 ? CLS_LOG2E : r.slot->total_scale;
    const survey_out out = {tile_key + (size_t)row * row_max_tiles(&s),
                            tile_flags + (size_t)row * tiles, tile_mass + (size_t)row * tiles};
#if WGS == 1
    survey_tiles(&r, first, last, needs_mass, scale, &out);
#else
    survey_teams(&r, first, last, needs_mass, scale, &out, &memory);
#endif
}
