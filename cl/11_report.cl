/* SPDX-License-Identifier: MIT */
/* report: outputs that need another read, for those who ask: log-probabilities
 * and the distribution that was drawn from. */

/* probs: [rows, vocab] float32, 0 outside the kept set, one-hot for greedy
 * rows. Launch: as the survey. */
KERNEL void cls_probs(STEP_ARGS, const u32 tiles_per_group, __global f32 *probs, const u64 probs_offset)
{
    const u32 row = get_group_id(1);
    const cls_row out = rows[row];
    const i32 place = ROW_SLOT(row);
    const row_logits r = ROW_VIEW(row, place);
    const u32 first = get_group_id(0) * tiles_per_group, last = min(first + tiles_per_group, TILES);
    const int none = out.none || place < 0;
    const u32 flags = none ? 0u : slots[place].flags;
    const i32 exponent = none ? 0 : split(of_key(out.max_key), out.scale).exponent;
    const f32 mass = u64_to_f32(out.mass);
    __global f32 *const p = probs + (probs_offset + (u64)row * vocab);
    for (u32 t = first; t < last; t++) {
        const i32 top = none ? CLS_KEY_NONE : tile_max_key(tile_key + (size_t)row * MAX_TILES, t);
        const int dead = top == CLS_KEY_NONE || (flags & CLS_SLOT_GREEDY);
        cls_unit unit = { 0.0f, 0.0f, 0 };
        if (!dead)
            unit = unit_of(of_key(top), of_key(out.max_key), exponent, out.scale);
        for (u32 i = t * CLS_TILE + get_local_id(0); i < min((t + 1) * CLS_TILE, vocab); i += WGS) {
            f32 value = 0.0f;
            if (!dead) {
                const f32 z = load_one(&r, i);
                const i32 key = key_of(z);
                if (key > out.cut_key || (key == out.cut_key && key != CLS_KEY_NONE && (i32)i <= out.cut_id))
                    value = u64_to_f32(up(u64_from(weight(z, unit.max, out.scale, unit.fraction)), unit.shift)) / mass;
            } else if (!none && (i32)i == out.token) {
                value = 1.0f;
            }
            p[i] = value;
        }
    }
}

/* logprob: the natural logarithm of the token's probability, in the raw row
 * (whose survey lies in raw_*) or in the final distribution.
 * Launch: [WGS, rows]. */
KERNEL void cls_logprob(STEP_ARGS, __global const i32 *raw_key, __global const u64 *raw_mass, __global u64 *work,
                        __global f32 *logprobs, const u64 logprobs_offset)
{
    __local u64 scratch[WGS];
    const u32 row = get_group_id(1);
    const cls_row out = rows[row];
    const i32 place = ROW_SLOT(row);
    const int none = out.none || place < 0;
    f32 value = -INFINITY;
    if (!none && (has & CLS_OF_FINAL)) {
        const row_logits r = ROW_VIEW(row, place);
        const f32 z = load_one(&r, (u32)out.token);
        value = slots[place].flags & CLS_SLOT_GREEDY ? 0.0f : logprob_of(z, of_key(out.max_key), out.scale, out.mass);
    }
    if (!none && !(has & CLS_OF_FINAL)) {
        __global const i32 *const key = raw_key + (size_t)row * MAX_TILES;
        const f32 row_max = of_key(row_max_key(key, MAX_TILES, scratch));
        const u64 total = row_total(key, raw_mass + (size_t)row * TILES, TILES, row_max, CLS_LOG2E,
                                    work + (size_t)row * TILES, scratch);
        const f32 z = clean(LOAD(logits + (logits_offset + row_stride * (u64)row), (u32)out.token));
        value = logprob_of(z, row_max, CLS_LOG2E, total);
    }
    if (get_local_id(0) == 0)
        logprobs[logprobs_offset + row] = value;
}

/* self_test: weights, splits and sums that the host knows: out[i] from seed i.
 * One item, some microseconds: a device whose arithmetic differs is refused. */
KERNEL void cls_self_test(__global u32 *out, const u32 n)
{
    for (u32 i = get_local_id(0); i < n; i += WGS)
        out[i] = self_test_word(i);
}
