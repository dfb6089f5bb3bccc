/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *zeroes(size_t n, size_t size)
{
    void *const p = calloc(n, size);
    ck_assert_msg(p != NULL, "out of memory");
    return p;
}

batch *batch_new(uint32_t rows, uint32_t vocab, int dtype, uint32_t stride, size_t offset)
{
    batch *const b = zeroes(1, sizeof *b);
    b->rows = rows;
    b->vocab = vocab;
    b->stride = stride ? stride : vocab;
    b->dtype = dtype;
    b->offset = offset;
    b->data_size = offset + ((size_t)(rows - 1) * b->stride + vocab) * dtype_size(dtype);
    b->data = zeroes(b->data_size, 1);
    memset(b->data, 0x7e, b->data_size); /* large where nothing should look; NaN in f16 */
    b->values = zeroes((size_t)rows * vocab, sizeof *b->values);
    b->kind = zeroes(rows, sizeof *b->kind);
    b->params = zeroes(rows, sizeof *b->params);
    b->trace = zeroes(rows, sizeof *b->trace);
    b->host = zeroes(rows, sizeof *b->host);
    b->device_trace = zeroes(rows, sizeof *b->device_trace);
    b->token = zeroes(rows, sizeof *b->token);
    b->status = zeroes(rows, sizeof *b->status);
    b->tokens = zeroes(rows, sizeof *b->tokens);
    b->adjusted = zeroes((size_t)rows * vocab, sizeof *b->adjusted);
    b->keep = CLS_KEEP_COUNTS;
    b->logit_bias = 1;
    return b;
}

void batch_free(batch *b)
{
    free(b->data);
    free(b->values);
    free(b->kind);
    free(b->params);
    free(b->mask);
    free(b->mask_map);
    free(b->bias);
    free(b->bias_map);
    free(b->random);
    free(b->slots);
    for (uint32_t row = 0; row < b->rows; row++) {
        free(b->tokens[row].prompt);
        free(b->tokens[row].output);
    }
    for (uint32_t i = 0; i < b->n_lists; i++)
        free(b->lists[i]);
    free(b->tokens);
    free(b->lists);
    free(b->adjusted);
    free(b->trace);
    free(b->host);
    free(b->device_trace);
    free(b->token);
    free(b->status);
    free(b);
}

void batch_row(batch *b, uint32_t row, row_kind kind, uint64_t seed)
{
    float *const values = b->values + (size_t)row * b->vocab;
    unsigned char *const data = b->data + b->offset + (size_t)row * b->stride * dtype_size(b->dtype);
    b->kind[row] = kind;
    row_fill(kind, values, b->vocab, seed);
    for (uint32_t i = 0; i < b->vocab; i++) {
        dtype_encode(b->dtype, values[i], data + i * dtype_size(b->dtype));
        values[i] = dtype_decode(b->dtype, data + i * dtype_size(b->dtype));
    }
    cls_params_default(&b->params[row], sizeof(cls_params));
    b->params[row].seed = seed;
    b->params[row].position = row;
}

void params_random(cls_params *p, uint32_t vocab, rng *r)
{
    static const float temperatures[] = {0.0f, 1e-6f, 1e-4f, 0.8f, 0.8f, 1.0f, 1.0f, 1.3f, 100.0f};
    static const float top_ps[] = {0.0f, 1e-8f, 0.3f, 0.9f, 0.9f, 1.0f - 1e-7f, 1.0f, 1.0f};
    static const float min_ps[] = {0.0f, 0.0f, 0.0f, 1e-6f, 0.05f, 1.0f};
    const int32_t v = (int32_t)vocab;
    const int32_t top_ks[] = {-1, 0, 0, 0, 0, 1, 2, 15, 16, 17, 50, 50, 255, 256, 257, 600, v - 1, v, 1 << 30};
    p->chain = (int32_t)rng_below(r, 3);
    p->temperature = temperatures[rng_below(r, sizeof temperatures / sizeof *temperatures)];
    p->top_p = top_ps[rng_below(r, sizeof top_ps / sizeof *top_ps)];
    p->min_p = min_ps[rng_below(r, sizeof min_ps / sizeof *min_ps)];
    p->top_k = top_ks[rng_below(r, sizeof top_ks / sizeof *top_ks)];
    p->stream = rng_bits(r);
    p->position = (uint32_t)rng_bits(r);
}

void batch_random(batch *b, rng *r)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        batch_row(b, row, (row_kind)rng_below(r, ROW_KINDS), rng_bits(r));
        params_random(&b->params[row], b->vocab, r);
    }
}

void batch_mask(batch *b, rng *r, uint32_t percent, uint32_t width)
{
    const int packed = b->mask_kind == CLS_MASK_PACKED;
    b->mask_width = width ? width : packed ? (b->vocab + 31) / 32 : b->vocab;
    const size_t n = (size_t)b->rows * b->mask_width;
    free(b->mask);
    b->mask = zeroes(n, packed ? 4 : 1);
    for (size_t i = 0; i < n && !packed; i++)
        ((unsigned char *)b->mask)[i] = (unsigned char)(rng_below(r, 100) < percent ? 1 + rng_below(r, 255) : 0);
    for (size_t i = 0; i < n && packed; i++)
        for (unsigned bit = 0; bit < 32; bit++)
            ((uint32_t *)b->mask)[i] |= (uint32_t)(rng_below(r, 100) < percent) << bit;
}

batch *batch_pick(const batch *b, uint32_t rows, const uint32_t *which, int dtype, uint32_t stride, size_t offset)
{
    batch *const c = batch_new(rows, b->vocab, dtype, stride, offset);
    const size_t size = dtype_size(dtype);
    c->keep = b->keep;
    c->logit_bias = b->logit_bias;
    c->history = b->history;
    for (uint32_t row = 0; row < rows; row++) {
        const uint32_t from = which ? which[row] : row;
        const float *const values = b->values + (size_t)from * b->vocab;
        memcpy(c->values + (size_t)row * c->vocab, values, c->vocab * sizeof *values);
        for (uint32_t i = 0; i < c->vocab; i++)
            dtype_encode(dtype, values[i], c->data + c->offset + ((size_t)row * c->stride + i) * size);
        c->kind[row] = b->kind[from];
        request_take(c, row, b, from);
        memcpy(c->adjusted + (size_t)row * c->vocab, b->adjusted + (size_t)from * b->vocab, c->vocab * sizeof(float));
        c->trace[row] = b->trace[from];
        c->host[row] = b->host[from];
    }
    return c;
}

cls_host_row batch_host_row(const batch *b, uint32_t row)
{
    const tokens *const t = &b->tokens[row];
    const int32_t mask = b->mask_map ? b->mask_map[row] : (int32_t)row, bias = b->bias_map ? b->bias_map[row] : (int32_t)row;
    cls_host_row h;
    cls_host_row_default(&h, sizeof h);
    h.logits = b->data + b->offset + (size_t)row * b->stride * dtype_size(b->dtype);
    h.dtype = b->dtype;
    h.vocab = b->vocab;
    h.mask_kind = b->mask_kind;
    if (b->mask && mask >= 0)
        h.mask = (unsigned char *)b->mask + (size_t)mask * b->mask_width * (b->mask_kind == CLS_MASK_PACKED ? 4 : 1);
    h.mask_width = b->mask_width;
    if (b->bias && bias >= 0)
        h.bias = b->bias + (size_t)bias * b->vocab * dtype_size(b->bias_dtype);
    h.bias_dtype = b->bias_dtype;
    h.prompt = t->prompt;
    h.prompt_count = t->prompt_count;
    h.output = t->output;
    h.output_count = t->output_count;
    h.position = b->params[row].position;
    for (uint32_t i = 0; i < t->output_count; i++)
        h.position += t->output[i] >= 0 && (uint32_t)t->output[i] < b->vocab;
    h.random = b->random ? &b->random[row] : NULL;
    h.params = &b->params[row];
    return h;
}

void batch_reference(batch *b)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const cls_host_row h = batch_host_row(b, row);
        b->host[row].struct_size = sizeof b->host[row];
        must(cls_reference(&h, &b->trace[row], &b->host[row]));
        request_adjust(&h, b->adjusted + (size_t)row * b->vocab);
    }
}

static int is_greedy(const batch *b, uint32_t row)
{
    return b->params[row].temperature < 1e-5f;
}

/* A token's logit as the chain sees it. */
static float seen(const batch *b, uint32_t row, uint32_t i)
{
    return b->adjusted[(size_t)row * b->vocab + i];
}

static int is_kept(const batch *b, uint32_t row, uint32_t i, const cls_row *cut)
{
    const int32_t key = key_of(seen(b, row, i));
    return key > CLS_KEY_NONE && (key > cut->cut_key || (key == cut->cut_key && (int32_t)i <= cut->cut_id));
}

/* ceil(u * 2^64 / mass), u < mass: the least random number that draws unit u. */
static uint64_t random_for(uint64_t u, uint64_t mass)
{
    uint64_t quotient = 0, rest = u;
    for (int bit = 0; bit < 64; bit++) {
        const int carry = rest >> 63 != 0;
        rest <<= 1;
        quotient <<= 1;
        if (carry || rest >= mass) {
            rest -= mass;
            quotient |= 1;
        }
    }
    return quotient + (rest != 0);
}

int32_t batch_aim(batch *b, uint32_t row, uint32_t pick, int last)
{
    const cls_row *const trace = &b->trace[row];
    const cls_params *const p = &b->params[row];
    const int plain = trace->cut_key == CLS_KEY_NONE && trace->cut_id == CLS_MAX_ID;
    uint64_t before = 0, first = 0, end = 0;
    uint32_t kept = 0;
    int32_t token = -1;
    if (!b->random)
        b->random = zeroes(b->rows, sizeof *b->random);
    if (is_greedy(b, row) || trace->mass == 0)
        return trace->token;
    const float scale = (float)(1.4426950408889634074 / (double)p->temperature);
    const float max = of_key(trace->max_key);
    for (uint32_t t = 0; t < b->vocab; t += CLS_TILE) {
        const uint32_t stop = t + CLS_TILE < b->vocab ? t + CLS_TILE : b->vocab;
        float tile_max = -INFINITY;
        for (uint32_t i = t; i < stop; i++)
            tile_max = seen(b, row, i) > tile_max ? seen(b, row, i) : tile_max;
        if (tile_max == -INFINITY)
            continue;
        const cls_unit unit = unit_of(tile_max, max, split(max, scale).exponent, scale);
        uint64_t whole = 0, mass = 0; /* of the tile up to i: tile units, row units */
        for (uint32_t i = t; i < stop; i++) {
            const uint64_t was = mass;
            const uint32_t x = is_kept(b, row, i, trace) ? weight(seen(b, row, i), tile_max, scale, unit.fraction) : 0;
            whole += x;
            mass = plain ? up(whole, unit.shift) : mass + up(x, unit.shift);
            if (mass == was)
                continue;
            if (kept++ <= pick) { /* the pick-th token that has mass, or the last one */
                token = (int32_t)i;
                first = before + was;
                end = before + mass;
            }
        }
        before += mass;
    }
    ck_assert_msg(before == trace->mass, "%s: mass %llu, the reference says %llu", batch_words(b, row),
                  (unsigned long long)before, (unsigned long long)trace->mass);
    b->random[row] = random_for(last ? end - 1 : first, trace->mass);
    return token;
}

const char *batch_words(const batch *b, uint32_t row)
{
    static char words[640];
    static const char *const chains[] = {"default", "vllm", "llama"}, *const scopes[] = {"output", "all"};
    const cls_params *const p = &b->params[row];
    const tokens *const t = &b->tokens[row];
    snprintf(words, sizeof words,
             "row %u of %u, %s, vocab %u, stride %u, offset %zu, %s%s%s, chain %s, T %g, k %d, p %.9g, min_p %g, seed %llu, "
             "position %u, %u of prompt, %u of output, repetition %g, frequency %g, presence %g, scope %s, window %u, "
             "max_tokens %u, %u biases, %u stop ids",
             row, b->rows, row_kind_names[b->kind[row]], b->vocab, b->stride, b->offset, dtype_names[b->dtype],
             b->mask ? b->mask_kind == CLS_MASK_BOOL ? ", bool mask" : ", masked" : "", b->bias ? ", dense bias" : "",
             chains[p->chain], (double)p->temperature, p->top_k, (double)p->top_p, (double)p->min_p,
             (unsigned long long)p->seed, p->position, t->prompt_count, t->output_count, (double)p->repetition_penalty,
             (double)p->frequency_penalty, (double)p->presence_penalty, scopes[p->penalty_scope], p->penalty_window,
             p->max_tokens, p->logit_bias_count, p->stop_count);
    return words;
}

static void compare_u64(const batch *b, uint32_t row, const char *where, const char *what, uint64_t ours,
                        uint64_t host)
{
    ck_assert_msg(ours == host, "%s: %s: %s is %llu on the device, %llu in the reference", where, batch_words(b, row),
                  what, (unsigned long long)ours, (unsigned long long)host);
}

void batch_equal(const batch *b, const char *where)
{
    for (uint32_t row = 0; row < b->rows; row++) {
        const cls_row *const d = &b->device_trace[row], *const h = &b->trace[row];
        ck_assert_msg(b->status[row] == b->host[row].status, "%s: %s: status is %d on the device, %d in the reference",
                      where, batch_words(b, row), b->status[row], b->host[row].status);
        if (!is_greedy(b, row) && b->host[row].token >= 0) {
            if (b->params[row].top_p < 1.0f)
                compare_u64(b, row, where, "top-p's target", d->target, h->target);
            for (uint32_t i = 0; i < b->vocab; i++)
                ck_assert_msg(is_kept(b, row, i, d) == is_kept(b, row, i, h), "%s: %s: token %u is %s", where,
                              batch_words(b, row), i,
                              is_kept(b, row, i, d) ? "kept on the device only" : "kept in the reference only");
            compare_u64(b, row, where, "the set's mass", d->mass, h->mass);
            compare_u64(b, row, where, "the number drawn", d->drawn, h->drawn);
        }
        ck_assert_msg(b->token[row] == b->host[row].token, "%s: %s: token is %d on the device, %d in the reference",
                      where, batch_words(b, row), b->token[row], b->host[row].token);
    }
}
