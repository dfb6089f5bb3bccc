/* SPDX-License-Identifier: MIT */
/* adjust: loads logits for every kernel. Conversion, dense bias, mask, bounds, logit biases,
 * penalties and history effects are applied on the fly; no adjusted copy exists. */
#include "core/biases.h"
#include "core/softcap.h"
#include "row/view.cl"

/* A bitmap's bits for the vector at i, and the value that has all of these bits. */
#define ALL_LANES (0xffffu >> (16 - VEC))
static inline u32 vector_bits(__global const u32 *bitmap, u32 i)
{
    return bitmap[i >> 5] >> (i & 31) & ALL_LANES;
}

/* Returns a vector in which the sign of lane j is bit j of the word. */
static inline IV lane_signs(u32 word) { return (IV)((i32)word) << ((IV)(31) - LANES); }

/* ------------------------------------------------------------ mask, bias, bounds */

#if ROW
/* settle() for vectors. */
static inline FV settle_v(FV x)
{
    const IV bits = AS_IV(x), magnitude = bits & 0x7fffffff;
    const FV y =
        magnitude >= CLS_INF_BITS ? AS_FV((bits & (i32)0x80000000) | (CLS_INF_BITS - 1)) : x;
    return magnitude < 0x03800000 ? (FV)(0.0f) : y;
}

/* scale_bias() for vectors. */
static inline FV scale_bias_v(FV value, f32 factor)
{
    const IV bits = AS_IV(value), magnitude = bits & 0x7fffffff;
    const FV product = settle_v(value * factor),
             special = bits == (IV)((i32)0xff800000) ? value : AS_FV((IV)(0x7fc00000));
    const FV finite = magnitude < 0x00800000 ? (FV)(0.0f) : product;
    return magnitude >= CLS_INF_BITS ? special : finite;
}

/* softcap() for vectors. On GPUs one lane after the other, in a loop: four side by side would cost
 * the kernels that read rows registers, also where there is no soft-cap. */
#if WGS > 1 && VEC == 4
static inline FV softcap_v(FV x, f32 cap, f32 reciprocal)
{
    SHORT_LOOP
    for (u32 j = 0; j < VEC; j++)
        x = (FV)(x.yzw, softcap(x.x, cap, reciprocal));
    return x;
}
#else
#define SOFTCAP_TO_IV CAT(convert_int, VEC)
CLS_DEFINE_SOFTCAP(ONE_COPY, softcap_v, FV, IV, AS_FV, AS_IV, TO_FV, SOFTCAP_TO_IV)
#endif

/* Add the row's dense bias, which it has, to logits. All its branches are the same for the row. */
static inline FV add_dense(SHARED const row_logits *r, u32 i, FV x)
{
    FV bias;
    if (r->dense & CLS_BIAS_F16)
        bias = widen(VLOAD((__global const ushort *)r->bias + i));
    else if (r->dense & CLS_BIAS_BF16)
        bias = AS_FV(CAT(convert_uint, VEC)(VLOAD((__global const ushort *)r->bias + i)) << 16);
    else
        bias = VLOAD(r->bias + i);
    if (r->dense & CLS_BIAS_SCALED)
        bias = scale_bias_v(bias, r->bias_factor);
    return x + bias;
}
static inline f32 dense_one(SHARED const row_logits *r, u32 i)
{
    return r->dense & CLS_BIAS_F16    ? vload_half(i, (__global const half *)r->bias)
           : r->dense & CLS_BIAS_BF16 ? as_float((uint)((__global const ushort *)r->bias)[i] << 16)
                                      : r->bias[i];
}
static inline f32 bias_one(SHARED const row_logits *r, u32 i)
{
    const f32 bias = dense_one(r, i);
    return r->dense & CLS_BIAS_SCALED ? scale_bias(bias, r->bias_factor) : bias;
}
/* The soft-cap and the dense bias of one logit, where the row has them. */
static inline f32 add_dense_one(SHARED const row_logits *r, u32 i, f32 x)
{
    if (r->dense & DENSE_SOFTCAP)
        x = softcap(x, r->softcap, r->softcap_reciprocal);
    return r->dense & CLS_HAS_BIAS ? x + bias_one(r, i) : x;
}

static inline u32 allowed_word(SHARED const row_logits *r, u32 w)
{
    return r->list[r->allowed + (i32)w];
}

/* Returns word w of a row's mask in bits, with the slot's list. */
static inline u32 mask_word(SHARED const row_logits *r, u32 w)
{
    const u32 listed = r->masked & CLS_MASK_LIST ? allowed_word(r, w) : ~0u;
    return w < r->mask_width ? r->mask[w] & listed : 0u;
}

/* Returns whether the mask and the slot's list allow an id. */
static inline int is_allowed(SHARED const row_logits *r, u32 i)
{
    if ((r->masked & CLS_MASK_LIST) && !(allowed_word(r, i >> 5) >> (i & 31) & 1u))
        return 0;
    if (r->masked & CLS_MASK_BYTES)
        return i < r->mask_width && ((__global const uchar *)r->mask)[i] != 0;
    return !(r->masked & CLS_HAS_MASK) ||
           (i >> 5 < r->mask_width && (r->mask[i >> 5] >> (i & 31) & 1u));
}

/* Returns VEC logits from id i, a multiple of VEC; -inf where they are masked or beyond the row.
 * They are not cleaned: NaN and +inf stay. Logit biases and penalties are not applied. */
static inline FV load_checked(SHARED const row_logits *r, u32 i)
{
    FV x;
    const u32 listed =
        r->masked & CLS_MASK_LIST ? (allowed_word(r, i >> 5) >> (i & 31) & ALL_LANES) : ALL_LANES;
    u32 word = ALL_LANES;
    if ((r->masked & CLS_HAS_MASK) && !(r->masked & CLS_MASK_BYTES))
        word = i >> 5 < r->mask_width ? r->mask[i >> 5] >> (i & 31) : 0u;
    if ((listed & word & ALL_LANES) == 0) /* no logit is read */
        return (FV)(CLS_MASKED);
    const int inside = i >= ROW_FIRST(r) && i + VEC <= ROW_LAST(r) &&
                       !((r->masked & CLS_MASK_BYTES) && i + VEC > r->mask_width);
    if (inside) {
        x = LOAD_V(r->x, i);
    } else {
        x = (FV)(CLS_MASKED);
        /* The number of iterations is no constant, so that compilers do not unroll the loop. */
        SHORT_LOOP
        for (u32 j = 0; j < VEC && i + j < ROW_LAST(r); j++)
            if (i + j >= ROW_FIRST(r) && is_allowed(r, i + j))
                x = LANES == (IV)((i32)j) ? (FV)(LOAD(r->x, i + j)) : x;
    }
    if (r->dense & DENSE_SOFTCAP)
        x = softcap_v(x, r->softcap, r->softcap_reciprocal);
    if (!inside) {
        SHORT_LOOP
        for (u32 j = 0; r->dense & CLS_HAS_BIAS && j < VEC && i + j < ROW_LAST(r); j++)
            if (i + j >= ROW_FIRST(r) && is_allowed(r, i + j))
                x = LANES == (IV)((i32)j) ? x + (FV)(bias_one(r, i + j)) : x;
        return x;
    }
    if (r->dense & CLS_HAS_BIAS)
        x = add_dense(r, i, x);
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

#else
static inline int is_allowed(SHARED const row_logits *r, u32 i) { return 1; }
/* Does the same without masks and biases: only the end of the row is checked. */
static inline FV load_checked(SHARED const row_logits *r, u32 i)
{
    FV x = (FV)(CLS_MASKED);
    if (i >= ROW_FIRST(r) && i + VEC <= ROW_LAST(r))
        return LOAD_V(r->x, i);
    /* There are fewer than VEC iterations. If compilers knew the bound, they would unroll the
     * loop. */
    SHORT_LOOP
    for (u32 j = LARGER(i, ROW_FIRST(r)), end = SMALLER(i + VEC, ROW_LAST(r)); j < end; j++)
        x = LANES == (IV)((i32)(j - i)) ? (FV)(LOAD(r->x, j)) : x;
    return x;
}
#endif

/* Returns the status bits of a vector that load_checked() returned. */
static inline u32 vector_status(FV x)
{
    return (ANY(x != x) ? CLS_ROW_NAN : 0u) | (ANY(x == CLS_INF) ? CLS_ROW_INF : 0u);
}

/* -------------------------------------------------------- biases, penalties, history effects */

#if ROW
/* adjusted_word() returns the tokens of word w that the slot may adjust, adjusted_lanes() those of
 * the vector at i, a bit each. */
static inline u32 adjusted_word(SHARED const row_logits *r, u32 w)
{
    const u32 adjusted = r->adjusted[0][w] | r->adjusted[1][w];
    return r->adjustments & ADJUST_BIASES ? adjusted | r->list[w] : adjusted;
}
static inline u32 adjusted_lanes(SHARED const row_logits *r, u32 i)
{
    return adjusted_word(r, i >> 5) >> (i & 31) & ALL_LANES;
}

/* Adds a token's bias from the list form, where the bitmap's word leads to its value. */
static inline f32 add_listed(SHARED const row_logits *r, u32 i, f32 x)
{
    const u32 w = i >> 5, bit = 1u << (i & 31), word = r->list[w];
    const u32 before = r->list[bias_before_offset(r->vocab, w)] + popcount(word & (bit - 1));
    return word & bit ? add_bias(x, as_float(r->list[bias_list_offset(r->vocab, before)])) : x;
}

/* Returns whether penalties spare a token. */
static inline int is_spared(SHARED const row_logits *r, u32 i)
{
    __global const cls_slot *const slot = r->slot;
    const u32 n = slot->n_spared;
    return n != 0 && list_find(r->list + (i32)(slot->spared - slot->bias), n, i) < n;
}

/* Adjusts one token: its bias from the list form, penalties, and then history effects, that is
 * bans, and DRY last. */
CALLED f32 adjust_listed(SHARED const row_logits *r, u32 i, f32 x)
{
    const slot_state state = r->state, *const s = &state;
    const history_effects effects = r->effects;
    const u32 marked = (r->adjustments & ADJUST_MARKS) && bit_of(r->effects.marks, i);
    if (r->adjustments & ADJUST_BIAS_LIST)
        x = add_listed(r, i, x);
    if (r->adjustments & ADJUST_PENALTIES) {
        const u32 count = count_of(s, i), in_context = s->in_context[i >> 5] >> (i & 31) & 1u;
        u32 known = beyond_windows(r->slot->windows, occurrences_of(count, in_context));
        if ((r->adjustments & ADJUST_PATCHES) && marked)
            known = find_patch(&effects, i, known);
        if (known != 0 && !is_spared(r, i))
            x = penalize_each(x, (known & OCCURS) != 0, known & OCCURS_COUNT,
                              (known & OCCURS_PRESENT) != 0, r->slot->repetition,
                              r->slot->reciprocal, r->slot->frequency, r->slot->presence);
    }
    if (marked)
        x = apply_effects(&effects, i, x);
    return x;
}

/* Adds the biases of the row form to the tokens of a vector that have a bit in `lanes`. */
static inline FV add_row(SHARED const row_logits *r, u32 i, u32 lanes, FV x)
{
    const FV bias = AS_FV(VLOAD((__global const i32 *)r->list + bias_row_offset(r->vocab, i)));
    const FV sum = ((x > CLS_MASKED) & (bias > CLS_MASKED)) ? settle_v(x + bias) : (FV)(CLS_MASKED);
    return ((IV)((i32)lanes) & ((IV)(1) << LANES)) != 0 ? sum : x;
}

/* Applies biases of the row form to a clean vector, then adjusts the adjusted tokens above `least`
 * one by one. These are few, and code for whole vectors would double what compilers get at every
 * place that loads. */
static inline __attribute__((always_inline)) FV adjust_vector(SHARED const row_logits *r, u32 i,
                                                              FV x, f32 least)
{
    const u32 w = i >> 5;
    u32 adjusted = r->adjustments & (ADJUST_PENALTIES | ADJUST_MARKS)
                       ? r->adjusted[0][w] | r->adjusted[1][w]
                       : 0u;
    if (r->adjustments & ADJUST_BIAS_ROW) {
        const u32 biased = r->list[w] >> (i & 31) & ALL_LANES;
        if (biased != 0)
            x = add_row(r, i, biased, x);
    } else if (r->adjustments & ADJUST_BIAS_LIST) {
        adjusted |= r->list[w];
    }
    adjusted = adjusted >> (i & 31) & ALL_LANES;
    if (adjusted == 0)
        return x;
    adjusted &= lane_bits(x > least);
    for (; adjusted != 0; adjusted &= adjusted - 1) {
        const u32 j = lowest_bit(adjusted);
        const IV at = LANES == (IV)((i32)j);
        x = at ? (FV)(adjust_listed(r, i + j, FMAX(at ? x : (FV)(CLS_MASKED)))) : x;
    }
    return x;
}

#else
static inline u32 adjusted_word(SHARED const row_logits *r, u32 w) { return 0; }
static inline u32 adjusted_lanes(SHARED const row_logits *r, u32 i) { return 0; }
static inline FV adjust_vector(SHARED const row_logits *r, u32 i, FV x, f32 least) { return x; }
#endif

/* Sets tokens outside the cuts of the chain to -inf. */
static inline FV truncate_v(cls_cut cut, u32 i, FV x)
{
    const IV id = LANES + (IV)((i32)i);
    /* Keys where they must be equal, floats where not: keys alone spill in cls_verify. */
    const IV bits = AS_IV(x), key = bits ^ ((bits >> 31) & 0x7fffffff); /* key_of() */
    IV out = (x > above(cut.upper_key)) | (x <= above(cut.key - 1)) |
             ((key == cut.key) & (id > (IV)(cut.id)));
    out |= (key == cut.upper_key) & ((id < (IV)(cut.upper_first)) | (id > (IV)(cut.upper_last)));
    return out ? (FV)(CLS_MASKED) : x;
}
static inline f32 truncate_one(cls_cut cut, u32 i, f32 x)
{
    const i32 key = key_of(x), id = (i32)i;
    if (key > cut.upper_key || key < cut.key || (key == cut.key && id > cut.id) ||
        (key == cut.upper_key && (id < cut.upper_first || id > cut.upper_last)))
        return CLS_MASKED;
    return x;
}

/* Returns the `least` to load with where only tokens above a bound matter: tokens below it need no
 * adjustment, since that would only lower them. If adjustments may raise tokens, all need it;
 * settle() raises tiny negative logits to 0. */
static inline f32 least_above(SHARED const row_logits *r, f32 bound)
{
    return (r->adjustments & ADJUST_RAISES) || (bound < 0.0f && bound > -0x1p-119f) ? CLS_MASKED
                                                                                    : bound;
}

/* Returns one token as the chain saw it at first, before any cut. */
static inline f32 load_whole(SHARED const row_logits *r, u32 i)
{
#if !ROW
    return clean(LOAD(r->x, i));
#else
    if (!is_allowed(r, i))
        return CLS_MASKED;
    f32 x = clean(add_dense_one(r, i, LOAD(r->x, i)));
    if (!r->adjustments || !(adjusted_word(r, i >> 5) >> (i & 31) & 1u))
        return x;
    if ((r->adjustments & ADJUST_BIAS_ROW) && bit_of(r->list, i))
        x = add_bias(x, as_float(r->list[bias_row_offset(r->vocab, i)]));
    return adjust_listed(r, i, x);
#endif
}
CALLED f32 load_one(SHARED const row_logits *r, u32 i)
{
    const f32 x = load_whole(r, i);
    return r->truncated ? truncate_one(r->cut, i, x) : x;
}
