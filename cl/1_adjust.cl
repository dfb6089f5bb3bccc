/* SPDX-License-Identifier: MIT */
/* adjust: how every kernel reads logits. Type, mask and bounds are applied on
 * the fly; there is no adjusted copy. */

#if DTYPE == 0
typedef float logit;
#define LOAD(p, i) ((p)[i])
#define LOAD_V(p, i) VLOAD((p) + (i))
#elif DTYPE == 1
typedef half logit; /* storage only: vload_half needs no extension */
#define LOAD(p, i) vload_half(i, p)
#if VEC == 16
#define LOAD_V(p, i) vload_half16(0, (p) + (i))
#else
/* By integers: PoCL 3.1 compiles vload_half8 to an aligned load, which kills
 * the process where a row is aligned to its elements only. Subnormal halves
 * are made by a product: their bits as a float could be flushed to zero. */
#define LOAD_V(p, i) widen(VLOAD((__global const ushort *)(p) + (i)))
static inline FV widen(CAT(ushort, VEC) h)
{
    const UV bits = CAT(convert_uint, VEC)(h);
    const UV sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    const UV normal = (magnitude << 13) + (112u << 23), special = (magnitude << 13) | 0x7f800000u;
    const UV subnormal = AS_UV(TO_FV(magnitude) * 0x1p-24f);
    UV r = magnitude < 0x0400u ? subnormal : normal;
    r = magnitude >= 0x7c00u ? special : r;
    return AS_FV(r | sign);
}
#endif
#else
typedef ushort logit; /* bfloat16: the upper half of a float */
#define LOAD(p, i) as_float((uint)(p)[i] << 16)
#define LOAD_V(p, i) AS_FV(CAT(convert_uint, VEC)(VLOAD((p) + (i))) << 16)
#endif

/* One row's logits as the step sees them. */
typedef struct row_logits {
    __global const logit *x;
    __global const u32 *mask;       /* at the row's mask */
    __global const u32 *flags;      /* of its mass tiles; set by the survey */
    u32 mask_width;                 /* words; 0: not masked */
    u32 masked;
    u32 vocab;
} row_logits;

/* What all kernels of a step are given; the host sets these arguments first. */
#define STEP_ARGS                                                                                        \
    __global const logit *logits, const u64 logits_offset, const u64 row_stride, const u32 vocab,        \
    __global const u32 *mask, const u64 mask_offset, const u64 mask_stride, const u32 mask_width,        \
    const u32 mask_rows, __global cls_slot *slots, const u32 n_slots,                                    \
    __global const i32 *slot_map, const u64 slot_map_offset, __global const i32 *mask_map,               \
    const u64 mask_map_offset, const u32 has, __global i32 *tile_key, __global u64 *tile_mass,           \
    __global u32 *tile_flags, __global cls_row *rows

/* The slot of a row, -1 to skip it, -2 where the maps name nothing valid. */
static inline i32 row_slot(__global const cls_slot *slots, u32 n_slots, __global const i32 *slot_map,
                           u64 slot_map_offset, __global const i32 *mask_map, u64 mask_map_offset, u32 mask_rows,
                           u32 has, u32 row)
{
    const i32 slot = has & CLS_HAS_SLOT_MAP ? slot_map[slot_map_offset + row] : (i32)row;
    const i32 mask_row = has & CLS_HAS_MASK_MAP ? mask_map[mask_map_offset + row] : -1;
    if (slot == -1)
        return -1;
    if (slot < 0 || (u32)slot >= n_slots || !(slots[slot].flags & CLS_SLOT_BEGUN))
        return -2;
    return mask_row < -1 || (mask_row >= 0 && (u32)mask_row >= mask_rows) ? -2 : slot;
}
#define ROW_SLOT(row)                                                                                          \
    row_slot(slots, n_slots, slot_map, slot_map_offset, mask_map, mask_map_offset, mask_rows, has, row)

#define TILES ((vocab + CLS_TILE - 1) / CLS_TILE)
#define MAX_TILES (TILES * CLS_MAX_TILES_PER_TILE)

static inline row_logits row_view(__global const logit *x, __global const u32 *mask, u64 mask_offset, u64 mask_stride,
                                  u32 mask_width, __global const i32 *mask_map, u64 mask_map_offset, u32 has,
                                  __global const u32 *tile_flags, u32 vocab, u32 row)
{
    row_logits r;
    const i32 mask_row = has & CLS_HAS_MASK_MAP ? mask_map[mask_map_offset + row] : (i32)row;
    r.x = x;
    r.flags = tile_flags + (size_t)row * TILES;
    r.vocab = vocab;
    r.mask_width = mask_width;
    r.masked = (has & CLS_HAS_MASK) && !(has & CLS_RAW) && mask_row >= 0;
    r.mask = r.masked ? mask + (mask_offset + mask_stride * (u64)mask_row) : mask;
    return r;
}
/* The row's offset needs 64 bits: 512 rows of 2^20 floats are 2 GiB. */
#define ROW_VIEW(row)                                                                                   \
    row_view(logits + (logits_offset + row_stride * (u64)(row)), mask, mask_offset, mask_stride,        \
             mask_width, mask_map, mask_map_offset, has, tile_flags, vocab, row)

static inline FV clean_v(FV x)
{
    const IV bits = AS_IV(x);
    const IV magnitude = bits & 0x7fffffff;
    x = magnitude < 0x00800000 ? (FV)(0.0f) : x;
    x = bits == CLS_INF_BITS ? (FV)(CLS_FLT_MAX) : x;
    return magnitude > CLS_INF_BITS ? (FV)(-INFINITY) : x;
}

/* VEC logits from id i, a multiple of VEC; -inf where masked or beyond the
 * row. Not cleaned: NaN and +inf come through. */
static inline FV load_checked(const row_logits *r, u32 i)
{
    FV x;
    if (i + VEC <= r->vocab) {
        x = LOAD_V(r->x, i);
    } else {
        f32 lane[VEC];
        for (u32 j = 0; j < VEC; j++)
            lane[j] = i + j < r->vocab ? LOAD(r->x, i + j) : -INFINITY;
        x = VLOAD(lane);
    }
    if (r->masked) {
        const u32 word = i >> 5 < r->mask_width ? r->mask[i >> 5] >> (i & 31) : 0u;
        const IV allowed = (IV)((i32)word) << ((IV)(31) - LANES); /* the token's bit as the sign */
        x = allowed < 0 ? x : (FV)(-INFINITY);
    }
    return x;
}

/* Whether a tile's logits may be loaded as they lie: whole and not masked. */
static inline int tile_is_open(const row_logits *r, u32 tile)
{
    return !r->masked && (tile + 1) * CLS_TILE <= r->vocab;
}
/* The same after the survey. NaN compares false and weighs nothing, subnormals
 * make no difference (above()); only a tile with +inf must be cleaned. */
static inline int tile_is_plain(const row_logits *r, u32 tile)
{
    return tile_is_open(r, tile) && !(r->flags[tile] & CLS_STATUS_INF);
}
/* plain: whether tile_is_plain() holds for the tile of i. */
static inline FV load_v(const row_logits *r, u32 i, int plain)
{
    return plain ? LOAD_V(r->x, i) : clean_v(load_checked(r, i));
}

/* A gang of vectors, `stride` tokens apart. */
#define GANG_OPEN(g) x[g] = LOAD_V(r->x, i + g * stride);
#define GANG_CHECKED(g) x[g] = clean_v(load_checked(r, i + g * stride));
static inline void load_gang(const row_logits *r, u32 i, u32 stride, int plain, FV *x)
{
    if (plain) {
        EACH_GANG(GANG_OPEN)
    } else {
        EACH_GANG(GANG_CHECKED)
    }
}

static inline f32 load_one(const row_logits *r, u32 i)
{
    if (r->masked && !(i >> 5 < r->mask_width && (r->mask[i >> 5] >> (i & 31) & 1u)))
        return -INFINITY;
    return clean(LOAD(r->x, i));
}
