/* SPDX-License-Identifier: MIT */
/* adjust: how every kernel reads logits. Type, dense bias, mask, bounds, logit
 * biases, penalties and what was prepared are applied on the fly; there is no
 * adjusted copy. */

/* One row's logits as the step sees them. */
typedef struct row_logits {
    __global const logit *x;
    __global const u32 *mask;       /* at the row's mask, or its bytes */
    __global const f32 *bias;       /* at the row's dense bias, or its halves */
    __global const u32 *flags;      /* of its mass tiles; set by the survey */
    __global const u32 *list;       /* its logit biases: ids, values */
    __global const u32 *touching[2]; /* bitmaps of the tokens that penalties or biases, and what was
                                        prepared, can change; twice the one if there is one */
    slot_state state;
    prepared_row prepared;
    u32 vocab;
    u32 mask_width; /* elements */
    u32 masked;     /* CLS_HAS_MASK, or that and CLS_MASK_BYTES; CLS_MASK_LIST: only what is biased */
    u32 dense;      /* 0, CLS_HAS_BIAS, or that and CLS_BIAS_F16 */
    u32 touched;    /* the slot changes logits: */
    u32 penalized;  /* ... by penalties or biases */
    u32 marked;     /* ... by what was prepared */
    u32 patched;    /* ... which has some counts, too */
    u32 raises;
    u32 n_list;
    f32 repetition, reciprocal, frequency, presence;
    /* What a chain has left of the row, once it is narrowed: as in cls_row. */
    u32 narrowed;
    i32 cut_key, cut_id, head_key, head_first, head_last;
} row_logits;

/* What all kernels of a step are given; the host sets these arguments first. */
#define STEP_ARGS                                                                                        \
    __global const logit *logits, const u64 logits_offset, const u64 row_stride, const u32 vocab,        \
    __global const u32 *mask, const u64 mask_offset, const u64 mask_stride, const u32 mask_width,        \
    const u32 mask_rows, __global const f32 *bias, const u64 bias_offset, const u64 bias_stride,         \
    const u32 bias_rows, __global cls_slot *slots, const u32 n_slots, __global u32 *state,               \
    const u32 layout, __global const u32 *lists, __global u32 *prepared, __global const i32 *slot_map,   \
    const u64 slot_map_offset, __global const i32 *mask_map, const u64 mask_map_offset,                  \
    __global const i32 *bias_map, const u64 bias_map_offset, const u32 has, __global i32 *tile_key,      \
    __global u64 *tile_mass, __global u32 *tile_flags, __global cls_row *rows

/* Whether a map names a row of `rows`, or none by -1. */
static inline int map_is_valid(__global const i32 *map, u64 offset, u32 rows, u32 there, u32 row)
{
    const i32 at = there ? map[u64_to_size(offset) + row] : -1;
    return at >= -1 && (at < 0 || (u32)at < rows);
}

/* The slot of a row, -1 to skip it, -2 where the maps name nothing valid. */
#define ROW_SLOT(row)                                                                             \
    (map_is_valid(mask_map, mask_map_offset, mask_rows, has & CLS_HAS_MASK_MAP, row) &&           \
             map_is_valid(bias_map, bias_map_offset, bias_rows, has & CLS_HAS_BIAS_MAP, row)      \
         ? mapped_slot(slots, n_slots, slot_map, slot_map_offset, has, row)                       \
         : -2)

#define TILES ((vocab + CLS_TILE - 1) / CLS_TILE)
#define MAX_TILES (TILES * CLS_MAX_TILES_PER_TILE)

static inline row_logits row_view(__global const logit *x, __global const u32 *mask, u64 mask_offset, u64 mask_stride,
                                  u32 mask_width, __global const i32 *mask_map, u64 mask_map_offset,
                                  __global const f32 *bias, u64 bias_offset, u64 bias_stride,
                                  __global const i32 *bias_map, u64 bias_map_offset, u32 has,
                                  __global const u32 *tile_flags, __global const cls_slot *slots, i32 place,
                                  __global u32 *state, u32 layout, __global const u32 *lists,
                                  __global u32 *prepared, u32 vocab, u32 row)
{
    row_logits r;
    const i32 mask_row = has & CLS_HAS_MASK_MAP ? OF(mask_map)[row] : (i32)row;
    const i32 bias_row = has & CLS_HAS_BIAS_MAP ? OF(bias_map)[row] : (i32)row;
    const u32 some = place >= 0 && !(has & CLS_RAW);
    const u32 slot = some ? (u32)place : 0u; /* a slot 0 there always is */
    r.x = x;
    r.flags = tile_flags + (size_t)row * TILES;
    r.vocab = vocab;
    r.mask_width = mask_width;
    r.masked = some && mask_row >= 0 && (has & CLS_HAS_MASK) ? has & (CLS_HAS_MASK | CLS_MASK_BYTES) : 0u;
    r.mask = mask;
    if (r.masked & CLS_MASK_BYTES)
        r.mask = (__global const u32 *)((__global const uchar *)mask + row_place(mask_offset, mask_stride, (u32)mask_row));
    else if (r.masked)
        r.mask = mask + row_place(mask_offset, mask_stride, (u32)mask_row);
    r.dense = some && bias_row >= 0 && (has & CLS_HAS_BIAS) ? has & (CLS_HAS_BIAS | CLS_BIAS_F16) : 0u;
    r.bias = bias;
    if (r.dense & CLS_BIAS_F16)
        r.bias = (__global const f32 *)((__global const ushort *)bias + row_place(bias_offset, bias_stride, (u32)bias_row));
    else if (r.dense)
        r.bias = bias + row_place(bias_offset, bias_stride, (u32)bias_row);
    r.state = state_of(state, layout, vocab, slot);
    r.penalized = some && (slots[slot].flags & CLS_SLOT_PENALIZED);
    r.prepared = prepared_of(prepared, layout, vocab, row, lists + slots[slot].dry);
    r.patched = 0;
    if (some && (has & CLS_DRAFTS)) {
        r.marked = r.prepared.drafts[0];
        r.patched = r.prepared.drafts[2];
    } else {
        r.marked = some && is_prepared(slots + slot);
    }
    r.touched = r.penalized | r.marked;
    r.touching[0] = r.penalized || !r.marked ? r.state.touched : r.prepared.marks;
    r.touching[1] = r.marked ? r.prepared.marks : r.touching[0];
    if (some && (slots[slot].flags & CLS_SLOT_ALLOWED))
        r.masked |= CLS_MASK_LIST;
    r.raises = slots[slot].flags & CLS_SLOT_RAISES;
    r.list = lists + slots[slot].bias;
    r.n_list = slots[slot].n_bias;
    r.repetition = slots[slot].repetition;
    r.reciprocal = slots[slot].reciprocal;
    r.frequency = slots[slot].frequency;
    r.presence = slots[slot].presence;
    r.narrowed = 0;
    return r;
}
/* The row's offset needs 64 bits: 512 rows of 2^20 floats are 2 GiB. */
#define ROW_VIEW(row, place)                                                                            \
    row_view(logits + row_place(logits_offset, row_stride, row), mask, mask_offset, mask_stride,               \
             mask_width, mask_map, mask_map_offset, bias, bias_offset, bias_stride, bias_map,           \
             bias_map_offset, has, tile_flags, slots, place, state, layout, lists, prepared, vocab, row)

/* A bitmap's bits for the vector at i, and all of these. */
#define ALL_LANES (0xffffu >> (16 - VEC))
static inline u32 vector_bits(__global const u32 *bitmap, u32 i) { return bitmap[i >> 5] >> (i & 31) & ALL_LANES; }

/* Lane j's bit of a word as its sign. */
static inline IV lane_signs(u32 word) { return (IV)((i32)word) << ((IV)(31) - LANES); }

/* ------------------------------------------------------------ mask, bias, bounds */

#ifdef CLS_LIMITED
static inline i32 dense_bits(const row_logits *r, u32 i)
{
    return r->dense & CLS_BIAS_F16 ? half_bits((__global const ushort *)r->bias, i) : as_int(r->bias[i]);
}
/* The status bits of a sum. A finite one is taken by halves. */
static inline u32 sum_status(i32 a, i32 b)
{
    const u32 its = bits_status(a) | bits_status(b);
    if ((a ^ b) == (i32)0x80000000 && (a & 0x7fffffff) == 0x7f800000) /* +inf and -inf */
        return CLS_STATUS_NAN;
    if ((a & 0x7fffffff) >= 0x7f800000 || (b & 0x7fffffff) >= 0x7f800000)
        return its & CLS_STATUS_NAN ? CLS_STATUS_NAN : its;
    return 0.5f * as_float(a) + 0.5f * as_float(b) >= 0x1p+127f ? CLS_STATUS_INF : 0u;
}
static inline FV add_dense(const row_logits *r, u32 i, FV x)
{
    FV bias;
    if (r->dense & CLS_BIAS_F16)
        bias = limited_v(AS_IV(widen_bits(VLOAD((__global const ushort *)r->bias + i))));
    else
        bias = limited_v(VLOAD((__global const i32 *)r->bias + i));
    const FV sum = x + bias, least = (FV)(-CLS_FLT_MAX);
    return ((x > CLS_MASKED) & (bias > CLS_MASKED)) ? (sum > least ? sum : least) : (FV)(CLS_MASKED);
}
static inline f32 add_dense_one(const row_logits *r, u32 i, f32 x)
{
    const f32 bias = r->dense ? limited(dense_bits(r, i)) : 0.0f;
    return x > CLS_MASKED && bias > CLS_MASKED ? LARGER(x + bias, -CLS_FLT_MAX) : CLS_MASKED;
}
#else
static inline FV add_dense(const row_logits *r, u32 i, FV x)
{
    if (r->dense & CLS_BIAS_F16)
        return x + widen(VLOAD((__global const ushort *)r->bias + i));
    return x + VLOAD(r->bias + i);
}
static inline f32 dense_one(const row_logits *r, u32 i)
{
    return r->dense & CLS_BIAS_F16 ? vload_half(i, (__global const half *)r->bias) : r->bias[i];
}
static inline f32 add_dense_one(const row_logits *r, u32 i, f32 x) { return x + (r->dense ? dense_one(r, i) : 0.0f); }
#endif

/* Whether mask and list allow an id. */
static inline int is_allowed(const row_logits *r, u32 i)
{
    if ((r->masked & CLS_MASK_LIST) && !(r->state.biased[i >> 5] >> (i & 31) & 1u))
        return 0;
    if (r->masked & CLS_MASK_BYTES)
        return i < r->mask_width && ((__global const uchar *)r->mask)[i] != 0;
    return !(r->masked & CLS_HAS_MASK) || (i >> 5 < r->mask_width && (r->mask[i >> 5] >> (i & 31) & 1u));
}

/* VEC logits from id i, a multiple of VEC; -inf where masked or beyond the
 * row. Not cleaned: NaN and +inf come through. Biases and penalties are not in. */
static inline FV load_checked(const row_logits *r, u32 i)
{
    FV x;
    const u32 listed = r->masked & CLS_MASK_LIST ? vector_bits(r->state.biased, i) : ALL_LANES;
    u32 word = ALL_LANES;
    if ((r->masked & CLS_HAS_MASK) && !(r->masked & CLS_MASK_BYTES))
        word = i >> 5 < r->mask_width ? r->mask[i >> 5] >> (i & 31) : 0u;
    if ((listed & word & ALL_LANES) == 0) /* not read at all */
        return (FV)(CLS_MASKED);
    const int inside = i + VEC <= r->vocab && !((r->masked & CLS_MASK_BYTES) && i + VEC > r->mask_width);
    if (inside) {
        x = LOAD_V(r->x, i);
        if (r->dense)
            x = add_dense(r, i, x);
    } else {
        x = (FV)(CLS_MASKED);
        /* Not a constant number of them, which compilers would unroll. */
        for (u32 j = 0; j < VEC && i + j < r->vocab; j++)
            if (is_allowed(r, i + j))
                x = LANES == (IV)((i32)j) ? (FV)(add_dense_one(r, i + j, LOAD(r->x, i + j))) : x;
        return x;
    }
    if (r->masked & CLS_MASK_BYTES) {
        const IV allowed = CAT(convert_int, VEC)(VLOAD((__global const uchar *)r->mask + i));
        x = allowed != 0 ? x : (FV)(CLS_MASKED);
    } else if (r->masked & CLS_HAS_MASK) {
        x = lane_signs(word) < 0 ? x : (FV)(CLS_MASKED);
    }
    if (listed != ALL_LANES)
        x = lane_signs(listed) < 0 ? x : (FV)(CLS_MASKED);
    return x;
}

/* The status bits of a vector that load_checked() gave. */
static inline u32 vector_status(const row_logits *r, u32 i, FV x)
{
#ifdef CLS_LIMITED
    u32 flags = 0;
    if (!r->dense && i + VEC <= r->vocab && !ANY((BITS_V(r->x, i) & 0x7fffffff) >= (IV)(0x7f800000)))
        return 0;
    for (u32 j = i; j < i + VEC && j < r->vocab; j++)
        if (is_allowed(r, j))
            flags |= r->dense ? sum_status(BITS(r->x, j), dense_bits(r, j)) : bits_status(BITS(r->x, j));
    return flags;
#else
    return (ANY(x != x) ? CLS_STATUS_NAN : 0u) | (ANY(x == CLS_INF) ? CLS_STATUS_INF : 0u);
#endif
}

/* -------------------------------------------------------- biases and penalties */

/* The tokens of a word that the slot can change; those of the vector at i, a bit each. */
static inline u32 touched_word(const row_logits *r, u32 w) { return r->touching[0][w] | r->touching[1][w]; }
static inline u32 touched_lanes(const row_logits *r, u32 i) { return touched_word(r, i >> 5) >> (i & 31) & ALL_LANES; }

/* A touched token's biases and penalties, then what was prepared: bans, and DRY
 * comes last. */
static inline f32 adjust_one(const row_logits *r, u32 i, f32 x)
{
    const slot_state *const s = &r->state;
    if (r->penalized) {
        if (s->biases && (s->biased[i >> 5] >> (i & 31) & 1u)) {
            const u32 at = list_find(r->list, r->n_list, i);
            if (at < r->n_list)
                x = add_bias(x, FROM_BITS(r->list[r->n_list + at]));
        }
        u32 count = count_of(s, i), seen = s->keep != CLS_KEEPS_NONE ? s->seen[i >> 5] >> (i & 31) & 1u : 0u;
        if (r->patched)
            find_patch(&r->prepared, i, &count, &seen);
        if (count != 0 || seen != 0)
            x = penalize(x, count, r->repetition, r->reciprocal, r->frequency, r->presence);
    }
    if (r->marked && (r->prepared.marks[i >> 5] >> (i & 31) & 1u))
        x = adjust_prepared(&r->prepared, i, x);
    return x;
}

/* A vector that has touched tokens: those above `least` one by one. They are few, and code
 * for whole vectors made every place that loads twice as large for compilers. */
static inline FV adjust_touched(const row_logits *r, u32 i, FV x, f32 least)
{
    for (u32 touched = touched_lanes(r, i) & lane_bits(x > least); touched != 0; touched &= touched - 1) {
        const u32 j = 31 - clz(touched & (~touched + 1));
        const IV at = LANES == (IV)((i32)j);
        x = at ? (FV)(adjust_one(r, i + j, FMAX(at ? x : (FV)(CLS_MASKED)))) : x;
    }
    return x;
}

/* Without what a chain has cut already. */
static inline FV narrow_v(const row_logits *r, u32 i, FV x)
{
    const IV id = LANES + (IV)((i32)i);
    const IV at_head = (x > above(r->head_key - 1)) & (x <= above(r->head_key));
    const IV at_cut = (x > above(r->cut_key - 1)) & (x <= above(r->cut_key));
    IV out = (x > above(r->head_key)) | (x <= above(r->cut_key - 1)) | (at_cut & (id > (IV)(r->cut_id)));
    out |= at_head & ((id < (IV)(r->head_first)) | (id > (IV)(r->head_last)));
    return out ? (FV)(CLS_MASKED) : x;
}
static inline f32 narrow_one(const row_logits *r, u32 i, f32 x)
{
    const i32 key = key_of(x), id = (i32)i;
    if (key > r->head_key || key < r->cut_key || (key == r->cut_key && id > r->cut_id) ||
        (key == r->head_key && (id < r->head_first || id > r->head_last)))
        return CLS_MASKED;
    return x;
}

/* Where only tokens above a bound matter: the `least` that spares the adjustment
 * of the others, which fall further. Unless some may rise, as by settle() tiny
 * negative ones do, to 0. */
static inline f32 least_above(const row_logits *r, f32 bound)
{
    return r->raises || (bound < 0.0f && bound > -0x1p-119f) ? CLS_MASKED : bound;
}

/* The vector as the chain sees it, but for what is not above `least`, which stays
 * below it. open: whether tile_is_open() holds. */
static inline FV load_adjusted(const row_logits *r, u32 i, int open, f32 least)
{
    FV x = clean_v(open ? LOAD_V(r->x, i) : load_checked(r, i));
    if (r->touched && touched_lanes(r, i) != 0)
        x = adjust_touched(r, i, x, least);
    return r->narrowed ? narrow_v(r, i, x) : x;
}

/* One token as the chain saw it first, whatever it has cut since. */
static inline f32 load_whole(const row_logits *r, u32 i)
{
    if (!is_allowed(r, i))
        return CLS_MASKED;
    f32 x = clean(add_dense_one(r, i, LOAD(r->x, i)));
    return r->touched && (touched_word(r, i >> 5) >> (i & 31) & 1u) ? adjust_one(r, i, x) : x;
}
static inline f32 load_one(const row_logits *r, u32 i)
{
    const f32 x = load_whole(r, i);
    return r->narrowed ? narrow_one(r, i, x) : x;
}

/* ------------------------------------------------------------ tiles that need less */

/* What the mask makes of a tile, by its words all at once: grammars mostly allow
 * next to nothing or nearly everything. */
#define MASK_ALL 0u
#define MASK_SOME 1u
#define MASK_NONE 2u
static inline u32 tile_mask(const row_logits *r, u32 tile)
{
    const u32 first = tile * (CLS_TILE / 32), last = first + CLS_TILE / 32;
    if (!r->masked)
        return MASK_ALL;
    if (r->masked != CLS_HAS_MASK || last > r->mask_width)
        return MASK_SOME;
    IV all = (IV)(-1), any = (IV)(0);
    for (u32 w = first; w < last; w += VEC) {
        const IV words = VLOAD((__global const i32 *)r->mask + w);
        all &= words;
        any |= words;
    }
    if (CAT(fold_or, VEC)(any) == 0)
        return MASK_NONE;
    return CAT(fold_or, VEC)(~all) == 0 ? MASK_ALL : MASK_SOME;
}
/* Whether a tile's logits may be loaded as they lie, but for touched tokens:
 * whole, not masked, no dense bias. */
static inline int tile_is_open(const row_logits *r, u32 tile, u32 masked)
{
    return masked == MASK_ALL && !r->dense && (tile + 1) * CLS_TILE <= r->vocab;
}
/* The words of the touched bitmaps that a tile has, all together. */
static inline u32 tile_touched(const row_logits *r, u32 tile)
{
    IV touched = (IV)(0);
    for (u32 w = tile * (CLS_TILE / 32); w < (tile + 1) * (CLS_TILE / 32); w += VEC)
        touched |= VLOAD((__global const i32 *)r->touching[0] + w) | VLOAD((__global const i32 *)r->touching[1] + w);
    return (u32)CAT(fold_or, VEC)(touched);
}
/* How a tile's vectors are to be loaded, once it was surveyed. */
#define TILE_ANY 0   /* with everything */
#define TILE_PLAIN 1 /* as they lie. NaN compares false and weighs nothing, subnormals make no
                        difference (above()); only a tile with +inf must be cleaned */
#define TILE_OPEN 2  /* cleaned, with biases and penalties */
static inline int tile_kind(const row_logits *r, u32 tile)
{
    if (!tile_is_open(r, tile, r->masked ? r->flags[tile] & CLS_TILE_MASKED : MASK_ALL))
        return TILE_ANY;
    if (r->narrowed)
        return TILE_OPEN;
    return r->flags[tile] & (CLS_STATUS_INF | CLS_TILE_TOUCHED) ? TILE_OPEN : TILE_PLAIN;
}
static inline int max_tile_kind(const row_logits *r, u32 m)
{
    const u32 tile = m / CLS_MAX_TILES_PER_TILE, w = m * (CLS_MAX_TILE / 32);
    const int kind = tile_kind(r, tile);
    if (kind != TILE_OPEN || r->narrowed || (r->flags[tile] & CLS_STATUS_INF))
        return kind;
    return (touched_word(r, w) | touched_word(r, w + 1)) == 0 ? TILE_PLAIN : TILE_OPEN;
}
static inline FV load_above(const row_logits *r, u32 i, int kind, f32 least)
{
    return kind == TILE_PLAIN ? LOAD_V(r->x, i) : load_adjusted(r, i, kind == TILE_OPEN, least);
}
static inline FV load_v(const row_logits *r, u32 i, int kind) { return load_above(r, i, kind, CLS_MASKED); }

/* A gang of vectors, `stride` tokens apart. */
#define GANG_PLAIN(g) x[g] = LOAD_V(r->x, i + g * stride);
#define GANG_COPY(g) x[g] = adjusted[g];
static inline void load_gang(const row_logits *r, u32 i, u32 stride, int kind, FV *x)
{
    if (kind == TILE_PLAIN) {
        EACH_GANG(GANG_PLAIN)
    } else {
        /* A loop, for one copy of its body; by way of an array of its own,
         * since x stays in registers only while its indices are constants. */
        FV adjusted[GANG];
        for (u32 g = 0; g < GANG; g++)
            adjusted[g] = load_adjusted(r, i + g * stride, kind == TILE_OPEN, CLS_MASKED);
        EACH_GANG(GANG_COPY)
    }
}
