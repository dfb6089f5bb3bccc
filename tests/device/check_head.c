/* SPDX-License-Identifier: MIT */
/* Proves the LM head against a double-precision product, in every shape; that a row's result
 * does not depend on its index; and that its logits can be sampled where they are.
 * check_head_calls.c tests how it is called and what it refuses. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

/* ------------------------------------------------------------------- product */

static void product_of(device *d, const layer_setup *w, rng *r, const char *where)
{
    layer l;
    layer_open(&l, d, w, r);
    layer_run(&l, d->queue);
    layer_check(&l, where);
    layer_close(&l);
}

START_TEST(product)
{
    static const struct {
        uint32_t vocab, hidden, rows;
    } shapes[] = {
        {1, 1, 1},   {64, 172, 3}, {5, 3, 9},    {2, 17, 8},    {33, 16, 16},   {7, 257, 1},
        {1, 64, 17}, {3, 15, 2},   {129, 31, 8}, {1025, 48, 7}, {513, 130, 33}, {1024, 256, 64},
    };
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    for (uint32_t i = 0; i < fixture_by_size(8, 24, 48); i++) {
        const uint32_t s = i % fixture_by_size(8, 12, 12);
        const uint32_t rows = shapes[s].rows, some = 1 + rng_below(&r, rows);
        layer_setup w = {LAYER_F16,
                         shapes[s].vocab,
                         shapes[s].hidden,
                         rows,
                         i % 3 == 0 ? rows : some,
                         i % 2 == 0,
                         (int)rng_below(&r, 2),
                         (int)rng_below(&r, 2),
                         0,
                         0};
        for (w.product = 0; w.product < LAYER_PRODUCTS; w.product++)
            if (layer_is_supported(d, w.product, TEST_SMALL))
                product_of(d, &w, &r, "product");
    }
}
END_TEST

START_TEST(large_vocabulary)
{
    device *const d = fixture_device(_i);
    rng r = {fixture_seed() + 1};
    layer_setup w = {LAYER_F16, fixture_by_size(300, 4099, 128256), 64, 4, 4, 0, 1, 1, 0, 0};
    for (w.product = 0; w.product < LAYER_PRODUCTS; w.product++)
        if (layer_is_supported(d, w.product, TEST_FULL))
            product_of(d, &w, &r, "large vocabulary");
}
END_TEST

/* Groups of several teams, of one, of one item, and all vectors. */
START_TEST(shapes)
{
    static const uint32_t groups[] = {64, 16, 1, 40}, vectors[] = {4, 2, 16, 8};
    device *const d = fixture_device(_i);
    for (uint32_t i = 0; i < fixture_by_size(2, 4, 4); i++) {
        rng r = {fixture_seed() + 2 + i};
        if (fixture_context(d, 1u << CLS_F32, groups[i], vectors[i], 0) == NULL)
            continue;
        for (uint32_t k = 0; k < 3; k++) {
            layer_setup w = {LAYER_F16, 9 + 31 * k,   1 + 133 * k,   9,         9 - k,
                             0,         (int)(k & 1), (int)(k >> 1), groups[i], vectors[i]};
            product_of(d, &w, &r, "shapes");
            w.product = LAYER_F32;
            product_of(d, &w, &r, "shapes");
        }
    }
}
END_TEST

/* -------------------------------------------------------------------- places */

/* One hidden row at every index of full and partial batches gives the same bits. */
static void same_everywhere(device *d, layer_product by, uint32_t vocab, uint32_t hidden,
                            uint32_t max_rows)
{
    rng r = {fixture_seed() + 10};
    const layer_setup w = {by, vocab, hidden, max_rows, max_rows, 1, 0, 1, 0, 0};
    layer l;
    layer_open(&l, d, &w, &r);
    layer_run(&l, d->queue);
    layer_read(&l);
    float *const first = must_malloc(vocab * sizeof *first);
    int32_t *const map = must_malloc(max_rows * sizeof *map);
    memcpy(first, l.logits + LAYER_MARGIN,
           vocab * sizeof *first); /* of hidden row 0 among others */
    l.call.which.host = map;
    for (uint32_t n = 1; n <= max_rows; n += n < 3 ? 1 : n) {
        for (uint32_t i = 0; i < n; i++)
            map[i] = (i + n) % 5 == 4 ? (int32_t)rng_below(&r, max_rows) : 0;
        l.call.rows = n;
        layer_run(&l, d->queue);
        layer_read(&l);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_msg(
                map[i] != 0 || memcmp(first, l.logits + LAYER_MARGIN + (size_t)i * vocab,
                                      vocab * sizeof *first) == 0,
                "%s: %s, vocab %u, hidden %u: row %u of %u differs from the same row elsewhere",
                d->name, layer_product_names[by], vocab, hidden, i, n);
    }
    free(first);
    free(map);
    layer_close(&l);
}

START_TEST(places)
{
    device *const d = fixture_device(_i);
    for (layer_product p = 0; p < LAYER_PRODUCTS; p++) {
        if (!layer_is_supported(d, p, TEST_SMALL))
            continue;
        same_everywhere(d, p, 67, 45, 11);
        same_everywhere(d, p, fixture_by_size(100, 1025, 4099), 172,
                        p == LAYER_CLBLAST ? 64 : fixture_by_size(9, 17, 64));
    }
}
END_TEST

/* The library's kernel: heads for more rows give the same bits, too. */
static void same_in_other_heads(device *d, layer_product by)
{
    float first[77];
    for (uint32_t max_rows = 1; max_rows <= 64; max_rows *= 4) {
        rng r = {fixture_seed() + 11};
        const layer_setup w = {by, 77, 100, max_rows, 1, 1, 1, 0, 0, 0};
        layer l;
        layer_open(&l, d, &w, &r);
        layer_run(&l, d->queue);
        layer_read(&l);
        if (max_rows == 1)
            memcpy(first, l.logits + LAYER_MARGIN, sizeof first);
        ck_assert_msg(memcmp(first, l.logits + LAYER_MARGIN, sizeof first) == 0,
                      "%s: %s: a head for %u rows differs", d->name, layer_product_names[by],
                      max_rows);
        layer_close(&l);
    }
}

START_TEST(other_heads)
{
    same_in_other_heads(fixture_device(_i), LAYER_F16);
    same_in_other_heads(fixture_device(_i), LAYER_F32);
}
END_TEST

/* ------------------------------------------------------------------ sampling */

/* The sampler reads the logits where the head put them; the host, from the same
 * bits, draws the same tokens. */
START_TEST(sampled_in_place)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    for (layer_product by = 0; by < LAYER_PRODUCTS; by++) {
        rng r = {fixture_seed() + 40};
        const uint32_t vocab = fixture_by_size(150, 1025, 4099), rows = 6;
        const layer_setup w = {by, vocab, 96, 8, rows, 1, 1, 1, 0, 0};
        cls_sampler *sampler;
        int32_t tokens[8];
        layer l;
        if (!layer_is_supported(d, by, TEST_SMALL))
            continue;
        layer_open(&l, d, &w, &r);
        cl_mem buffer = buffer_of(d, sizeof tokens, NULL);
        cls_sampler_options o = sampler_options(vocab, 8);
        must(cls_sampler_create(context, &o, &sampler));
        cls_params p = default_params();
        p.top_p = 0.9f;
        p.temperature = 0.8f;
        for (uint32_t i = 0; i < rows; i++) {
            p.seed = 100 + i;
            must(cls_slot_begin(sampler, i, &p, NULL));
        }
        cls_step step = default_step(rows, l.logits_buffer);
        step.logits.values.offset = l.call.logits.offset;
        step.tokens.buffer = buffer;
        must(cls_head_logits(l.head, d->queue, &l.call, 0, NULL, NULL));
        must(cls_sample(sampler, d->queue, &step, 0, NULL, NULL));
        buffer_read(d, buffer, sizeof tokens, tokens);
        layer_check(&l, "sampled in place");
        for (uint32_t i = 0; i < rows; i++) {
            one_row row;
            one_row_init(&row);
            p.seed = 100 + i;
            row.params = &p;
            row.logits = l.logits + LAYER_MARGIN + (size_t)i * vocab;
            row.vocab = vocab;
            const one_result result = host_result(&row);
            ck_assert_int_eq(tokens[i], result.token);
            ck_assert_int_ge(tokens[i], 0);
        }
        cls_sampler_destroy(sampler);
        clReleaseMemObject(buffer);
        layer_close(&l);
    }
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(product);
    add_device_test(large_vocabulary);
    add_device_test(shapes);
    add_device_test(places);
    add_device_test(other_heads);
    add_device_test(sampled_in_place);
    return fixture_end();
}
