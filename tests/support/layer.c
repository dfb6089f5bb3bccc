/* SPDX-License-Identifier: MIT */
#include "layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "head/head.h"

const float layer_canary = -12345.5f;
const char *const layer_product_names[LAYER_PRODUCTS] = {"float16", "float32", "CLBlast"};

int layer_is_supported(const device *d, layer_product product, test_size from)
{
    /* An interpreter needs minutes for CLBlast's kernels. */
    return product != LAYER_CLBLAST ||
           (cls_head_has_clblast() && fixture_size() >= from && !is_oclgrind(d));
}

/* Creates a buffer of random rows of a type, `stride` elements apart, from `offset` on; gaps are
 * NaN. Returns the rounded values. */
static cl_mem matrix(device *d, int dtype, uint32_t rows, uint32_t width, uint64_t stride,
                     size_t offset, double spread, rng *r, double **values)
{
    const size_t element = dtype_size(dtype),
                 elements = (rows - 1) * (size_t)stride +
                            width; /* the exact size, so that Oclgrind detects reads beyond it */
    unsigned char *const data = malloc(offset + elements * element);
    *values = malloc((size_t)rows * width * sizeof **values);
    ck_assert(data != NULL && *values != NULL);
    memset(data, 0xff, offset + elements * element); /* NaN in all types */
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < width; k++) {
            unsigned char *const at = data + offset + (i * stride + k) * element;
            dtype_encode(dtype, (float)(spread * rng_normal(r)), at);
            (*values)[(size_t)i * width + k] = (double)dtype_decode(dtype, at);
        }
    }
    cl_mem buffer = buffer_of(d, offset + elements * element, data);
    free(data);
    return buffer;
}

void layer_open(layer *l, device *d, const layer_setup *w, rng *r)
{
    const int dtype = w->product == LAYER_F16 ? CLS_F16 : CLS_F32;
    const size_t element = dtype_size(dtype);
    const int plain = w->plain;
    memset(l, 0, sizeof *l);
    l->d = d;
    l->product = w->product;
    l->weight_stride = w->hidden + (plain ? 0 : rng_below(r, 4));
    l->hidden_stride = w->hidden + (plain ? 0 : rng_below(r, 5));
    l->hidden_rows = w->rows + (plain ? 0 : rng_below(r, 4));
    cls_head_options *const o = &l->options;
    cls_head_options_init(o);
    o->vocab = w->vocab;
    o->hidden = w->hidden;
    o->max_rows = w->max_rows;
    o->dtype = dtype;
    o->weight.offset = plain ? 0 : element * rng_below(r, 9);
    o->weight_stride = plain ? 0 : l->weight_stride;
    o->scale = plain ? 1.0f : 0.75f;
    o->softcap = w->capped ? 3.0f : 0.0f;
    o->weight.buffer = l->weight_buffer = matrix(d, dtype, w->vocab, w->hidden, l->weight_stride,
                                                 (size_t)o->weight.offset, 0.5, r, &l->weight);
    if (w->biased) {
        o->bias.offset = plain ? 0 : 4 * rng_below(r, 9);
        o->bias.buffer = l->bias_buffer =
            matrix(d, CLS_F32, 1, w->vocab, w->vocab, (size_t)o->bias.offset, 2.0, r, &l->bias);
    }
    cls_context *const context = fixture_context(d, 1u << CLS_F32, w->work_group, w->vector, 0);
    ck_assert(context != NULL);
    cls_test_head_product = w->product == LAYER_CLBLAST ? CLS_HEAD_CLBLAST : CLS_HEAD_OWN_KERNEL;
    const cls_status status = cls_head_create(d->queue, o, &l->head);
    cls_test_head_product = CLS_HEAD_BY_DEVICE;
    ck_assert_msg(status == CLS_OK, "%s: vocab %u, hidden %u, max_rows %u, %s: %s", d->name,
                  w->vocab, w->hidden, w->max_rows, layer_product_names[w->product],
                  cls_error_message());
    ck_assert_int_eq(l->head->clblast, w->product == LAYER_CLBLAST);

    cls_head_call *const c = &l->call;
    cls_head_call_init(c);
    c->rows = w->rows;
    c->hidden_rows = l->hidden_rows;
    c->hidden.offset = plain ? 0 : 4 * rng_below(r, 9);
    c->hidden_stride = plain ? 0 : l->hidden_stride;
    c->hidden.buffer = l->hidden_buffer =
        matrix(d, CLS_F32, l->hidden_rows, w->hidden, l->hidden_stride, (size_t)c->hidden.offset,
               1.0, r, &l->hidden);
    if (!plain && rng_below(r, 3) > 0) {
        l->map = must_malloc((w->rows + 3) * sizeof *l->map);
        for (uint32_t i = 0; i < w->rows + 3; i++)
            l->map[i] = (int32_t)rng_below(r, l->hidden_rows + 1) - 1;
        if (rng_below(r, 2)) {
            c->which.host = l->map;
        } else {
            /* The map begins at the fourth element. A row number out of range gives zeros. */
            if (rng_below(r, 2))
                l->map[3] = (int32_t)l->hidden_rows + 7;
            c->which.device.buffer = l->map_buffer =
                buffer_of(d, (w->rows + 3) * sizeof *l->map, l->map);
            c->which.device.offset = 3 * sizeof *l->map;
            memmove(l->map, l->map + 3, w->rows * sizeof *l->map);
        }
    }
    const size_t n = (size_t)w->max_rows * w->vocab;
    l->logits_size = (n + 2 * LAYER_MARGIN) * sizeof(float);
    l->logits = must_malloc(l->logits_size);
    for (size_t i = 0; i < n + 2 * LAYER_MARGIN; i++)
        l->logits[i] = layer_canary;
    c->logits.buffer = l->logits_buffer = buffer_of(d, l->logits_size, l->logits);
    c->logits.offset = LAYER_MARGIN * sizeof(float);
}

void layer_close(layer *l)
{
    cl_mem *const buffers[] = {&l->weight_buffer, &l->hidden_buffer, &l->bias_buffer,
                               &l->map_buffer, &l->logits_buffer};
    cls_head_destroy(l->head);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (*buffers[i] != NULL)
            clReleaseMemObject(*buffers[i]);
    free(l->weight);
    free(l->hidden);
    free(l->bias);
    free(l->map);
    free(l->logits);
}

void layer_run(layer *l, cl_command_queue queue)
{
    must(cls_head_logits(l->head, queue, &l->call, 0, NULL, NULL));
    must_cl(clFinish(queue));
}

void layer_read(layer *l) { buffer_read(l->d, l->logits_buffer, l->logits_size, l->logits); }

/* Returns the product in double precision. *slack is the error that float32 sums may have. */
static double expected(const layer *l, uint32_t row, uint32_t token, double *slack)
{
    const cls_head_options *const o = &l->options;
    const int64_t from = l->map != NULL ? l->map[row] : (int64_t)row;
    double sum = 0.0, size = 0.0;
    if (from >= 0 && from < (int64_t)l->hidden_rows) {
        const double *const w = l->weight + (size_t)token * o->hidden;
        const double *const h = l->hidden + (size_t)from * o->hidden;
        for (uint32_t k = 0; k < o->hidden; k++) {
            sum += w[k] * h[k];
            size += fabs(w[k] * h[k]);
        }
    }
    double x = (double)o->scale * sum;
    *slack = ldexp((o->hidden + 8.0) * size * fabs((double)o->scale) + 1.0, -24);
    if (l->bias != NULL) {
        x += l->bias[token];
        *slack += ldexp(fabs(x) + fabs(l->bias[token]), -23);
    }
    if (o->softcap > 0.0f) {
        x = (double)o->softcap * tanh(x / (double)o->softcap);
        *slack += ldexp(16.0 * (double)o->softcap, -24);
    }
    return x;
}

void layer_check(layer *l, const char *where)
{
    const uint32_t vocab = l->options.vocab;
    const uint64_t all = (uint64_t)l->call.rows * vocab * l->options.hidden;
    /* Large products are only sampled: the edges and every n-th element. */
    const uint32_t stride = all > 20000000u ? (uint32_t)(all / 20000000u) : 1;
    const float *const logits = l->logits + LAYER_MARGIN;
    layer_read(l);
    for (uint32_t i = 0; i < LAYER_MARGIN; i++)
        ck_assert_msg(l->logits[i] == layer_canary &&
                          logits[(size_t)l->options.max_rows * vocab + i] == layer_canary,
                      "%s: %s: writes beside the logits", l->d->name, where);
    for (uint32_t row = 0; row < l->call.rows; row++) {
        for (uint32_t t = 0; t < vocab; t += t < 64 || t + 64 + stride > vocab ? 1 : stride) {
            double slack;
            const double x = expected(l, row, t, &slack),
                         y = (double)logits[(size_t)row * vocab + t];
            ck_assert_msg(fabs(x - y) <= slack,
                          "%s: %s: %s, vocab %u, hidden %u, rows %u of %u: logit %u of row %u is "
                          "%.9g, not %.9g",
                          l->d->name, where, layer_product_names[l->product], vocab,
                          l->options.hidden, l->call.rows, l->options.max_rows, t, row, y, x);
        }
    }
}
