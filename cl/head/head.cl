/* SPDX-License-Identifier: MIT */
/*
 * The LM head: hidden states to logits. The program of libclsample-head, which builds it when a
 * head is created.
 *
 *     WGS          work-items of a group: 1, or a multiple of LANES
 *     LANES        those of them that share a dot product: 1 or 16
 *     VEC          elements that a work-item loads at once
 *     ROWS, TOKENS the tile of logits that a work-item keeps sums for; the scratch has a multiple
 *                  of ROWS rows
 *     WEIGHT_F32   defined where the weight is float32; else it is float16
 *     FUSED        defined where the device has fma() in hardware
 *
 *     hidden --cls_head_gather--> scratch --cls_head_product--> logits --cls_head_finish--> logits
 *                                         or CLBlast's GEMM             with a bias or a soft-cap
 *
 * fma() and the order of sums differ from device to device. doc/kernels.md forbids that where it
 * decides a token. Here it is allowed, because logits are the sampler's input and not part of its
 * arithmetic. The soft-cap is the sampler's (core/softcap.h).
 */
#include "core/types.h"
#include "core/integers.h"
#include "core/softcap.h"

#define TEAMS (WGS / LANES)

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define floatV JOIN(float, VEC)
#define vloadV JOIN(vload, VEC)
#define vstoreV JOIN(vstore, VEC)
#define vload_halfV JOIN(vload_half, VEC)

#ifdef WEIGHT_F32
typedef float weight_element;
#define load_weights(i, w) vloadV(i, w)
#define load_weight(k, w) (w)[k]
#else
typedef half weight_element;
#define load_weights(i, w) vload_halfV(i, w)
#define load_weight(k, w) vload_half(k, w)
#endif

/* A product and a sum, rounded in the same way everywhere: a row's logits must not depend on its
 * place. */
#ifdef FUSED
#define multiply_add(a, b, c) fma(a, b, c)
#else
#define multiply_add(a, b, c) ((a) * (b) + (c))
#endif

static float total4(float4 x) { return (x.s0 + x.s2) + (x.s1 + x.s3); }

static float total(floatV x)
{
#if VEC == 2
    return x.s0 + x.s1;
#elif VEC == 4
    return total4(x);
#elif VEC == 8
    return total4(x.lo + x.hi);
#else
    const float8 y = x.lo + x.hi;
    return total4(y.lo + y.hi);
#endif
}

/* Copies rows of `hidden` to the scratch [rows of the launch, d], in the order of `map`; where the
 * map names no row, it writes zeros. Launch: a group for each row of the scratch. */
kernel void cls_head_gather(global const float *hidden, u64 hidden_offset, u64 hidden_stride,
                            uint hidden_rows, uint d, global const int *map, u64 map_offset,
                            uint has_map, uint rows, global float *scratch)
{
    const uint row = (uint)get_group_id(0), lane = (uint)get_local_id(0);
    const int from = row >= rows ? -1 : has_map ? map[(size_t)map_offset + row] : (int)row;
    global float *const to = scratch + (size_t)row * d;
    if (from >= 0 && (uint)from < hidden_rows) {
        global const float *const x = hidden + row_offset(hidden_offset, hidden_stride, (uint)from);
        for (uint i = lane; i < d / VEC; i += WGS)
            vstoreV(vloadV(i, x), i, to);
        for (uint k = d / VEC * VEC + lane; k < d; k += WGS)
            to[k] = x[k];
    } else {
        for (uint i = lane; i < d / VEC; i += WGS)
            vstoreV((floatV)(0.0f), i, to);
        for (uint k = d / VEC * VEC + lane; k < d; k += WGS)
            to[k] = 0.0f;
    }
}

/* logits [rows, vocab] = scale x scratch [.., d] x weight^T [d, vocab], in float32. Groups: blocks
 * of ROWS rows by blocks of TEAMS x TOKENS tokens; a lane takes every LANES-th vector of d. Blocks
 * of rows are neighbours in the launch, so that they find the weights in the cache. */
kernel void cls_head_product(global const weight_element *weight, u64 weight_offset,
                             u64 weight_stride, global const float *scratch, uint d, uint vocab,
                             uint rows, float scale, global float *logits, u64 logits_offset)
{
    const uint item = (uint)get_local_id(0), lane = item % LANES;
    const uint first_row = (uint)get_group_id(0) * ROWS;
    const uint block = (uint)(get_group_id(1) + get_global_offset(1)); /* see launch() */
    const uint first_token = block * (TEAMS * TOKENS);
    global const weight_element *w[TOKENS];
    global const float *const x = scratch + (size_t)first_row * d;
    floatV sum[ROWS][TOKENS];
    float part[ROWS][TOKENS];

    /* Tokens beyond the vocabulary compute the last token's logit again. */
#pragma unroll
    for (uint t = 0; t < TOKENS; t++)
        w[t] = weight + row_offset(weight_offset, weight_stride,
                                   min(first_token + item / LANES * TOKENS + t, vocab - 1));
#pragma unroll
    for (uint r = 0; r < ROWS; r++)
#pragma unroll
        for (uint t = 0; t < TOKENS; t++)
            sum[r][t] = (floatV)(0.0f);
    for (uint i = lane; i < d / VEC; i += LANES) {
        floatV weights[TOKENS];
#pragma unroll
        for (uint t = 0; t < TOKENS; t++)
            weights[t] = load_weights(i, w[t]);
#pragma unroll
        for (uint r = 0; r < ROWS; r++) {
            const floatV h = vloadV(i, x + r * d);
#pragma unroll
            for (uint t = 0; t < TOKENS; t++)
                sum[r][t] = multiply_add(weights[t], h, sum[r][t]);
        }
    }
#pragma unroll
    for (uint r = 0; r < ROWS; r++)
#pragma unroll
        for (uint t = 0; t < TOKENS; t++)
            part[r][t] = total(sum[r][t]);
    /* The rest is less than a vector. */
    if (lane == 0) {
        for (uint k = d / VEC * VEC; k < d; k++) {
#pragma unroll
            for (uint r = 0; r < ROWS; r++)
#pragma unroll
                for (uint t = 0; t < TOKENS; t++)
                    part[r][t] = multiply_add(load_weight(k, w[t]), x[r * d + k], part[r][t]);
        }
    }

    logits += (size_t)logits_offset + (size_t)first_row * vocab + first_token;
#if LANES == 1
    for (uint r = 0; r < ROWS && first_row + r < rows; r++)
        for (uint t = 0; t < TOKENS && first_token + t < vocab; t++)
            logits[(size_t)r * vocab + t] = scale * part[r][t];
#else
    local float parts[ROWS][TOKENS][WGS];
#pragma unroll
    for (uint r = 0; r < ROWS; r++)
#pragma unroll
        for (uint t = 0; t < TOKENS; t++)
            parts[r][t][item] = part[r][t];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < ROWS * TOKENS * TEAMS; i += WGS) {
        const uint r = i / (TOKENS * TEAMS), t = i % (TOKENS * TEAMS);
        local const float *const team = parts[r][t % TOKENS] + t / TOKENS * LANES;
        float all = team[0];
        for (uint l = 1; l < LANES; l++)
            all += team[l];
        if (first_row + r < rows && first_token + t < vocab)
            logits[(size_t)r * vocab + t] = scale * all;
    }
#endif
}

/* Adds the bias and applies the soft-cap, in place, to logits [rows, vocab]. Groups: blocks of
 * FINISH_TOKENS tokens by rows. */
#define intV JOIN(int, VEC)
CLS_DEFINE_SOFTCAP(static inline, softcap_v, floatV, intV, JOIN(as_float, VEC), JOIN(as_int, VEC),
                   JOIN(convert_float, VEC), JOIN(convert_int, VEC))
#define FINISH_TOKENS 1024
#define FINISH(x, b, CAP) \
    do { \
        if (has_bias) \
            x += b; \
        if (cap > 0.0f) \
            x = CAP(x, cap, reciprocal); \
    } while (0)
kernel void cls_head_finish(uint vocab, global const float *bias, u64 bias_offset, uint has_bias,
                            float cap, float reciprocal, global float *logits, u64 logits_offset)
{
    const uint first = (uint)get_group_id(0) * FINISH_TOKENS, item = (uint)get_local_id(0);
    const uint n = min(vocab - first, (uint)FINISH_TOKENS);
    logits += (size_t)logits_offset + (size_t)get_group_id(1) * vocab + first;
    bias += (size_t)bias_offset + first;
    for (uint i = item; i < n / VEC; i += WGS) {
        floatV x = vloadV(i, logits);
        FINISH(x, vloadV(i, bias), softcap_v);
        vstoreV(x, i, logits);
    }
    for (uint i = n / VEC * VEC + item; i < n; i += WGS) {
        float x = logits[i];
        FINISH(x, bias[i], softcap);
        logits[i] = x;
    }
}
