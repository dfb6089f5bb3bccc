/* SPDX-License-Identifier: MIT */
/* partial: writes what a shard sends of each row in an exchange (core/shards.h). A work-group has
 * one row.
 *
 * Launch: [WGS, rows]. */
#include "core/shards.h"
#include "row/measure.cl"
#include "draw/draw.cl"

/* Returns a digest of the request's state, which must be the same on all shards. Of the text it has
 * the length and the latest tokens that are stored in order. */
static inline u32 state_digest(__global const cls_slot *slot, const slot_state *s, u64 bits)
{
    const u32 latest = min(min(slot->length, s->n_ring), 8u);
    u32 hash = shard_mix(slot->position, slot->outputs);
    hash = shard_mix(shard_mix(hash, slot->length), slot->stopped);
    hash = shard_mix(shard_mix(hash, (u32)slot->adaptive.mu), slot->adaptive.sum);
    hash = shard_mix(shard_mix(hash, slot->adaptive.weight), slot->adaptive.top_p);
    hash = shard_mix(hash, slot->grammar_state);
    SHORT_LOOP
    for (u32 i = 1; i <= latest; i++)
        hash = shard_mix(hash, s->ring[(slot->length - i) % s->n_ring]);
    return shard_mix(shard_mix(hash, u64_lo(bits)), u64_hi(bits));
}

/* Writes the first k tokens in order; returns their number. */
ONE_COPY u32 send_list(SHARED const row_logits *r, u32 k, i32 max_key, SHARED shortlist *list,
                       __global u32 *out)
{
    u32 count = 0;
    list_end(list, 0);
    if (max_key != CLS_KEY_NONE) { /* the same for the whole group */
        const i32 bound = tile_bound(r, k, max_key, list->scratch);
        collect_first(r, k, bound, max_key, list);
        list_sort(list);
        count = min(list->n, k);
    }
    for (u32 i = LOCAL_ID; i < k; i += WGS) {
        const u32 from = i < count ? (u32)list->order[i] : 0u;
        out[2 * i] = i < count ? (u32)list->key[from] : 0u;
        out[2 * i + 1] = i < count ? (u32)list->id[from] : 0u;
    }
    return count;
}

/* Returns the key of one of the shard's tokens. */
static inline u32 sent_key(SHARED const row_logits *r, int active, u32 id)
{
    return (u32)(active ? key_of(load_one(r, id)) : CLS_KEY_NONE);
}

/* Writes the whole tiles and the tokens of cut tiles. */
ONE_COPY void send_tiles(SHARED const row_logits *r, __global const u64 *row_mass, int active,
                         u32 whole_tiles, __global u32 *out)
{
    const u32 first = shard_first_tile(ROW_FIRST(r)),
              end = shard_end_tile(ROW_FIRST(r), ROW_LAST(r), r->vocab);
    for (u32 t = LOCAL_ID; t < whole_tiles; t += WGS) {
        i32 key = CLS_KEY_NONE;
        u64 mass = 0;
        if (active && first + t < end)
            key = tile_max_key(r->key, first + t);
        if (key != CLS_KEY_NONE)
            mass = row_mass[first + t];
        out[t * CLS_TILE_WORDS] = (u32)key;
        out[t * CLS_TILE_WORDS + 1] = u64_lo(mass);
        out[t * CLS_TILE_WORDS + 2] = u64_hi(mass);
    }
    __global u32 *const cut = out + whole_tiles * CLS_TILE_WORDS;
    const u32 head = shard_head_end(ROW_FIRST(r), ROW_LAST(r)),
              tail = shard_tail(ROW_FIRST(r), ROW_LAST(r), r->vocab);
    for (u32 i = ROW_FIRST(r) + LOCAL_ID; i < head; i += WGS)
        cut[i - ROW_FIRST(r)] = sent_key(r, active, i);
    for (u32 i = tail + LOCAL_ID; i < ROW_LAST(r); i += WGS)
        cut[head - ROW_FIRST(r) + i - tail] = sent_key(r, active, i);
}

/* Draws the token of a row without truncation, if it lies in a tile that the shard has wholly.
 * Every shard chooses the tile by the same masses. Returns the id, or -1. */
ONE_COPY i32 draw_own(SHARED const row_logits *r, __global const i32 *merged_key,
                      __global const u64 *merged_mass, u32 tiles, f32 scale, u64 bits,
                      __global u64 *row_work, __local u64 *scratch)
{
    const i32 max_key = row_max_key(merged_key, tiles * CLS_MAX_TILES_PER_TILE, scratch);
    if (max_key == CLS_KEY_NONE)
        return -1; /* the same for the whole group, as below */
    const f32 top = float_of_key(max_key);
    const u64 total = row_total(merged_key, merged_mass, tiles, top, scale, 1, row_work, scratch);
    u64 drawn = u64_mul_hi(bits, total);
    BARRIER();
    const u32 t = find_tile(row_work, tiles, &drawn, scratch);
    if (t < shard_first_tile(ROW_FIRST(r)) ||
        t >= shard_end_tile(ROW_FIRST(r), ROW_LAST(r), r->vocab))
        return -1;
    kept_set set;
    whole_row(max_key, &set);
    set.untruncated = 1;
    const cls_unit unit = tile_unit(merged_key, t, top, split(top, scale).exponent, scale);
    return draw_in_tile(r, t, &unit, scale, &set, drawn, scratch);
}

/* Writes the number and the mass of the tokens that reach each edge. */
ONE_COPY void send_counts(SHARED const row_logits *r, const cls_shard_row *p, __global u32 *out,
                          __local u64 *scratch)
{
    const measure m = measure_of(0, float_of_key(p->key), p->scale);
    /* Intel's compiler for CPUs lets each item of a group add to one `e` if the loop counts it. */
    for (u32 batch = 0; batch < CLS_EDGES / CLS_PIVOTS; batch++) {
        const u32 e = batch * CLS_PIVOTS;
        i32 key[CLS_PIVOTS];
        u64 count[CLS_PIVOTS];
        u64 mass[CLS_PIVOTS];
        for (u32 i = 0; i < CLS_PIVOTS; i++) /* ascending */
            key[i] = shard_edge_key(p->key, p->spacing, e + CLS_PIVOTS - 1 - i) - 1;
        tokens_above_each(r, key, count, scratch);
        measure_row(r, &m, CLS_KEY_INF, 0, 0, key, mass, scratch);
        if (LOCAL_ID != 0)
            continue;
        for (u32 i = 0; i < CLS_PIVOTS; i++) {
            __global u32 *const at = out + (e + CLS_PIVOTS - 1 - i) * CLS_EDGE_WORDS;
            at[0] = u64_lo(count[i]);
            at[1] = u64_lo(mass[i]);
            at[2] = u64_hi(mass[i]);
        }
    }
}

/* Writes all tokens with at least a key, up to k of them, in no order that matters; returns their
 * number. Round 0 counts, and round 1 writes behind the tokens of the items before. */
ONE_COPY u32 send_tokens(SHARED const row_logits *r, i32 lo, u32 k, __global u32 *out,
                         __local u64 *scratch)
{
    const u32 n = max_tiles(r), per_item = (n + WGS - 1) / WGS;
    const u32 first = min(LOCAL_ID * per_item, n), last = min(first + per_item, n);
    const f32 under = above(lo - 1);
    u32 total = 0, at = 0;
    for (u32 write = 0; write < 2; write++) {
        u32 found = at;
        for (u32 m = first; m < last; m++) {
            if (r->key[m] < lo)
                continue;
            const int kind = max_tile_kind(r, m);
            for (u32 v = 0; v < CLS_MAX_TILE; v += VEC) {
                const u32 i = m * CLS_MAX_TILE + v;
                const FV x = load_v(r, i, kind, CLS_MASKED);
                SHORT_LOOP
                for (u32 hits = lane_bits(x > under); hits != 0; hits &= hits - 1) {
                    const u32 j = lowest_bit(hits);
                    if (write && found < k) {
                        out[2 * found] = (u32)key_of(clean(lane_of(x, j)));
                        out[2 * found + 1] = i + j;
                    }
                    found++;
                }
            }
        }
        if (!write)
            at = wg_scan_u32(found, scratch, &total);
    }
    for (u32 i = min(total, k) + LOCAL_ID; i < k; i += WGS)
        out[2 * i] = out[2 * i + 1] = 0;
    return min(total, k);
}

ONE_COPY void send_row(const step_args *s, u32 row, SHARED row_logits *shared,
                       SHARED shortlist *list)
{
    const cls_shard_row p = s->plan[row];
    if (p.sends == 0) /* the same for the whole group */
        return;
    const u32 tiles = row_tiles(s);
    const i32 slot_index = row_slot(s, row);
    __global const cls_slot *const slot = slot_of(s, slot_index);
    ROW_VIEW(shared, s, row, slot_index)
    if (WRITES_SHARED) /* tiles after the shard's last one have no key */
        r->tiles = (ROW_LAST(r) + CLS_TILE - 1) / CLS_TILE;
    SHARED_BARRIER();
    const int active = slot_index >= 0 && !slot->stopped;
    __global u32 *const section = s->partial + p.offset;
    __global u32 *out = section + CLS_SECTION_WORDS;
    const u64 bits = active ? row_bits(s, CLS_PURPOSE_TOKEN, slot, row) : 0;
    if (LOCAL_ID == 0) { /* at once: what it reads need not stay in registers */
        const slot_state state = r->state;
        section[CLS_SECTION_DIGEST] = active ? state_digest(slot, &state, bits) : (u32)slot_index;
    }
    u32 status = 0, listed = 0, reach = 0;
    i32 max_key = CLS_KEY_NONE;
    if (active)
        max_key = row_summary(r, &status, list->scratch);
    if (p.sends & CLS_SENDS_LIST) {
        listed = send_list(r, p.k, max_key, list, out);
        out += 2 * p.k;
    }
    if (p.sends & CLS_SENDS_TILES)
        send_tiles(r, s->tile_mass + (size_t)row * tiles, active, s->args->whole_tiles, out);
    if (p.depth >= 0.0f && max_key != CLS_KEY_NONE)
        reach =
            tokens_above(r, depth_key(float_of_key(max_key), p.scale, p.depth) - 1, list->scratch);
    if (p.sends & CLS_SENDS_TOKEN) {
        const i32 id = active ? draw_own(r, s->merged_key + (size_t)row * row_max_tiles(s),
                                         s->merged_mass + (size_t)row * tiles, tiles, p.scale, bits,
                                         tile_sums_of(s, row), list->scratch)
                              : -1;
        listed = id >= 0;
        if (LOCAL_ID == 0) {
            out[0] = listed ? (u32)key_of(load_one(r, (u32)id)) : 0u;
            out[1] = listed ? (u32)id : 0u;
        }
    }
    if (p.sends & CLS_SENDS_COUNTS)
        send_counts(r, &p, out, list->scratch);
    if (p.sends & CLS_SENDS_TOKENS)
        listed = send_tokens(r, p.key, p.k, out, list->scratch);
    if (p.sends & CLS_SENDS_KEYS)
        for (u32 i = ROW_FIRST(r) + LOCAL_ID; i < ROW_LAST(r); i += WGS)
            out[i - ROW_FIRST(r)] = sent_key(r, active, i);
    if (LOCAL_ID == 0) {
        section[CLS_SECTION_STATUS] = status & (CLS_ROW_NAN | CLS_ROW_INF);
        section[CLS_SECTION_LISTED] = listed;
        section[CLS_SECTION_REACH] = reach;
    }
}

KERNEL void cls_partial(STEP_PARAMETERS(CLS_PARTIAL_BUFFERS))
{
    SHARED row_logits shared;
    SHORTLIST(list)
    const step_args s = STEP_OF(CLS_PARTIAL_BUFFERS);
    send_row(&s, get_group_id(1), &shared, &list);
}
