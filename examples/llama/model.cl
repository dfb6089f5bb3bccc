/* SPDX-License-Identifier: MIT */
/* The kernels of the transformer except its matrix products. They are compiled with the sizes of
 * the model: DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT, BATCH, and LANES, which is 2,
 * 4 or 8 and divides HEAD_DIM. All arrays are [BATCH, ...]; a row of `rows` is one token of a
 * request. */
#define KV_DIM (KV_HEADS * HEAD_DIM)
#define QKV_DIM (DIM + 2 * KV_DIM)
#define CHUNKS (HEAD_DIM / LANES)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define FLOATS PASTE(float, LANES)
#define LOAD PASTE(vload, LANES)
#define STORE PASTE(vstore, LANES)
#define SUM PASTE(sum, LANES)

/* rows: int [4, BATCH] */
#define TOKEN(r) rows[r]
#define SLOT(r) rows[BATCH + (r)]
#define POSITION(r) rows[2 * BATCH + (r)]

/* The offset of a layer's keys and values of a request: [slots, layers, context, kv_dim]. */
#define CACHE(slot, layer) (((size_t)(slot)*LAYERS + (layer)) * CONTEXT * KV_DIM)

/* x = the embedding of each row's token. A negative token t stands for tokens[-1 - t], which the
 * sampler wrote. An unused draft is -1; its row is not used. Launch: (DIM, rows). */
__kernel void embed(__global float *x, __global const float *embedding, __global const int *rows,
                    __global const int *tokens)
{
    const size_t i = get_global_id(0), r = get_global_id(1);
    const int t = TOKEN(r);
    x[r * DIM + i] = embedding[(size_t)max(t < 0 ? tokens[-1 - t] : t, 0) * DIM + i];
}

/* RMSNorm. Launch: (1, rows). */
__kernel void norm(__global float *out, __global const float *x, __global const float *weight)
{
    const size_t r = get_global_id(1);
    float sum = 0;
    x += r * DIM;
    out += r * DIM;
    for (uint i = 0; i < DIM; i++)
        sum += x[i] * x[i];
    const float scale = 1 / sqrt(sum / DIM + 1e-5f);
    for (uint i = 0; i < DIM; i++)
        out[i] = weight[i] * (scale * x[i]);
}

/* Rotates queries in place and keys by their position (Su et al. 2021), and writes keys and values
 * to the cache. angles: (cos, sin) [CONTEXT, HEAD_DIM / 2]. Launch: (QKV_DIM / 2, rows). */
__kernel void rope(__global float *qkv, __global float *keys, __global float *values,
                   __global const int *rows, __global const float2 *angles, uint layer)
{
    const size_t i = 2 * get_global_id(0), r = get_global_id(1);
    __global float *from = qkv + r * QKV_DIM + i;
    const size_t at = CACHE(SLOT(r), layer) + (size_t)POSITION(r) * KV_DIM;
    const float a = from[0], b = from[1];
    if (i >= DIM + KV_DIM) {
        values[at + i - DIM - KV_DIM] = a;
        values[at + i - DIM - KV_DIM + 1] = b;
        return;
    }
    const float2 turn = angles[(size_t)POSITION(r) * (HEAD_DIM / 2) + i % HEAD_DIM / 2];
    __global float *to = i < DIM ? from : keys + at + i - DIM;
    to[0] = a * turn.x - b * turn.y;
    to[1] = a * turn.y + b * turn.x;
}

float sum2(float2 v) { return v.x + v.y; }
float sum4(float4 v) { return sum2(v.lo + v.hi); }
float sum8(float8 v) { return sum4(v.lo + v.hi); }

/* Attention of one head of a row over the positions of its request so far, in one pass of 16 at a
 * time. Weights are relative to the largest score so far (Milakov and Gimelshein 2018). Launch:
 * (HEADS, rows). */
__kernel void attend(__global float *out, __global const float *qkv, __global const float *keys,
                     __global const float *values, __global const int *rows, uint layer)
{
    const size_t head = get_global_id(0), r = get_global_id(1);
    const size_t at = CACHE(SLOT(r), layer) + head / (HEADS / KV_HEADS) * HEAD_DIM;
    const int last = POSITION(r);
    const float scale = 1 / sqrt((float)HEAD_DIM);
    FLOATS q[CHUNKS], mixed[CHUNKS];
    float largest = -INFINITY, total = 0;
    for (uint i = 0; i < CHUNKS; i++) {
        q[i] = scale * LOAD(i, qkv + r * QKV_DIM + head * HEAD_DIM);
        mixed[i] = 0;
    }
    for (int t = 0; t <= last; t += 16) {
        const int n = min(16, last + 1 - t);
        __global const float *k = keys + at + (size_t)t * KV_DIM,
                             *v = values + at + (size_t)t * KV_DIM;
        float scores[16], before = largest;
        for (int j = 0; j < n; j++, k += KV_DIM) {
            FLOATS products = q[0] * LOAD(0, k);
            for (uint i = 1; i < CHUNKS; i++)
                products += q[i] * LOAD(i, k);
            scores[j] = SUM(products);
            largest = max(largest, scores[j]);
        }
        for (int j = n; j < 16; j++)
            scores[j] = -INFINITY;
        const float shrink = exp(before - largest);
        vstore16(exp(vload16(0, scores) - largest), 0, scores);
        total *= shrink;
        for (uint i = 0; i < CHUNKS; i++)
            mixed[i] *= shrink;
        for (int j = 0; j < n; j++, v += KV_DIM) {
            total += scores[j];
            for (uint i = 0; i < CHUNKS; i++)
                mixed[i] += scores[j] * LOAD(i, v);
        }
    }
    for (uint i = 0; i < CHUNKS; i++)
        STORE(mixed[i] / total, i, out + r * DIM + head * HEAD_DIM);
}

/* inner = silu(gate) * up; a row of gates is gate, then up. Launch: (HIDDEN, rows). */
__kernel void swiglu(__global float *inner, __global const float *gates)
{
    const size_t i = get_global_id(0), r = get_global_id(1);
    const float gate = gates[r * 2 * HIDDEN + i], up = gates[r * 2 * HIDDEN + HIDDEN + i];
    inner[r * HIDDEN + i] = gate / (1 + exp(-gate)) * up;
}

/* Rounds weights to float16, which needs no support for its arithmetic. Launch: (number of them,
 * 1). */
__kernel void halve(__global const float *from, __global half *to, uint first)
{
    const size_t i = get_global_id(0);
    vstore_half(from[(size_t)first * DIM + i], i, to);
}

/* y = x w^T, or y += x w^T with `add`; for builds without CLBlast. Launch: (out, BATCH). */
__kernel void product(__global const float *x, __global const float *w, __global float *y, uint in,
                      uint add)
{
    const size_t n = get_global_id(0), r = get_global_id(1), at = r * get_global_size(0) + n;
    float sum = 0;
    x += r * in;
    w += n * in;
    for (uint i = 0; i < in; i++)
        sum += x[i] * w[i];
    y[at] = add ? y[at] + sum : sum;
}
