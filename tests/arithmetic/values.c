/* SPDX-License-Identifier: MIT */
/* The test vectors of single functions. */
#include "vectors.h"

#include <inttypes.h>

/* Returns the scale of a temperature, and the other two forms of parameters. */
static cls_slot slot_of(float temperature, float top_p, float min_p)
{
    cls_slot slot;
    cls_params p;
    cls_params_init(&p);
    p.temperature = temperature;
    p.top_p = top_p;
    p.min_p = min_p;
    if (cls_slot_from_params(&p, 1024, &slot) != CLS_OK)
        memset(&slot, 0, sizeof slot);
    return slot;
}

static int fraction_of(cls_split split) { return (int)(split.fraction * 16777216.0f); }

/* Returns a temperature, a probability below 1, or a scale: 2^-most to 1 times 2^up. */
static float next_positive(sequence *s, uint32_t most, uint32_t up)
{
    const uint32_t exponent = 126 + up - next_below(s, most + 1);
    return float_of(exponent << 23 | (uint32_t)(next_bits(s) & 0x7fffffu));
}

static void write_clean(FILE *f, float x)
{
    const float y = clean(x);
    fprintf(f, "clean %08x %08x %d\n", bits_of(x), bits_of(y), (int)key_of(y));
}

static void write_split(FILE *f, float max, float scale)
{
    const cls_split split_of = split(max, scale);
    fprintf(f, "split %08x %08x %d %d\n", bits_of(max), bits_of(scale), (int)split_of.exponent,
            fraction_of(split_of));
}

static void write_weight(FILE *f, float z, float max, float scale)
{
    const cls_split split_of = split(max, scale);
    fprintf(f, "weight %08x %08x %08x %d %u\n", bits_of(z), bits_of(max), bits_of(scale),
            fraction_of(split_of), (unsigned)weight(z, max, scale, split_of.fraction));
}

static void write_parameters(FILE *f, sequence *s)
{
    static const float temperatures[] = {0x1.4f8b58p-17f, 0.25f,    0.5f,     0.7f,    1.0f, 1.5f,
                                         0x1p+40f,        1.2e+38f, 1.3e+38f, 3.4e+38f};
    static const float ps[] = {0x1p-149f, 0x1p-40f,       0x1p-33f, 0x1p-32f, 0.05f,
                               0.1f,      0x1.fffffep-1f, 0.9f,     0.95f,    0.5f};
    for (uint32_t i = 0; i < 40; i++) {
        const float t = i < 10 ? temperatures[i] : next_positive(s, 20, 8);
        fprintf(f, "scale %08x %08x\n", bits_of(t), bits_of(slot_of(t, 1.0f, 0.0f).scale));
    }
    for (uint32_t i = 0; i < 40; i++) {
        const float p = i < 10 ? ps[i] : next_positive(s, 12, 0);
        fprintf(f, "top_p %08x %u\n", bits_of(p), (unsigned)slot_of(1.0f, p, 0.0f).top_p);
    }
    fprintf(f, "top_p %08x %u\ntop_p %08x %u\n", bits_of(0.0f),
            (unsigned)slot_of(1.0f, 0.0f, 0.0f).top_p, bits_of(-1.0f),
            (unsigned)slot_of(1.0f, -1.0f, 0.0f).top_p);
    for (uint32_t i = 0; i < 40; i++) {
        const float p = i < 10 ? ps[i] : next_positive(s, 12, 0);
        fprintf(f, "min_p %08x %08x\n", bits_of(p), bits_of(slot_of(1.0f, 1.0f, p).min_p));
    }
    fprintf(f, "min_p %08x %08x\n", bits_of(1.0f), bits_of(slot_of(1.0f, 1.0f, 1.0f).min_p));
}

static void write_floats(FILE *f, sequence *s)
{
    static const uint32_t edges[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff,
                                     0x807fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff,
                                     0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fc00000,
                                     0xffc00000, 0x7fffffff, 0xffffffff};
    for (uint32_t i = 0; i < sizeof edges / sizeof *edges; i++)
        write_clean(f, float_of(edges[i]));
    for (int i = 0; i < 20; i++)
        write_clean(f, float_of((uint32_t)next_bits(s)));
    write_split(f, 0.0f, CLS_LOG2E);
    write_split(f, 3.0f, 1.0f);
    write_split(f, -3.0f, 1.0f);
    write_split(f, 0x1p+30f, 1.0f);
    write_split(f, -0x1p+30f, 1.0f);
    write_split(f, 0x1.fffffep+29f, 0x1.000002p+0f);
    write_split(f, 0x1p-126f, 0x1p-126f);
    write_split(f, -0x1.fffffep+127f, 0x1.1p+17f);
    for (int i = 0; i < 60; i++) {
        const float max = clean(i < 40 ? next_normal(s) : float_of((uint32_t)next_bits(s)));
        if (max > CLS_MASKED)
            write_split(f, max, next_positive(s, 8, 4));
    }
}

static void write_weights(FILE *f, sequence *s)
{
    write_weight(f, 0.0f, 0.0f, CLS_LOG2E);
    write_weight(f, CLS_MASKED, 1.0f, CLS_LOG2E);
    write_weight(f, -0x1.fffffep+127f, 0x1.fffffep+127f, CLS_LOG2E);
    for (int i = 0; i < 48; i++) /* around the last bits of the polynomial's range */
        write_weight(f, -(float)(i * 5 + 1) * 0x1p-3f, 0.0f, 1.0f);
    for (int i = 0; i < 100; i++) {
        const float a = next_normal(s), b = next_normal(s), scale = next_positive(s, 4, 4);
        write_weight(f, a < b ? a : b, a < b ? b : a, scale);
    }
    for (int i = 0; i < 40; i++) {
        const float a = next_normal(s), b = next_normal(s), scale = next_positive(s, 4, 4);
        const float low = a < b ? a : b, high = a < b ? b : a;
        fprintf(f, "depth %08x %08x %08x %08x\n", bits_of(low), bits_of(high), bits_of(scale),
                bits_of(depth(low, high, scale)));
    }
    for (int i = 0; i < 40; i++) {
        const uint64_t mass = next_wide(s, 39) >> 24;
        const uint32_t shift = next_below(s, 64);
        fprintf(f, "row_units %" PRIu64 " %u %" PRIu64 "\n", mass, (unsigned)shift,
                to_row_units(mass, shift));
    }
}

static void write_draws(FILE *f, sequence *s)
{
    for (int i = 0; i < 22; i++) {
        uint32_t c[4], k[2];
        for (int j = 0; j < 6; j++)
            (j < 4 ? c : k)[j & 3] = i == 0 ? 0 : i == 1 ? UINT32_MAX : (uint32_t)next_bits(s);
        fprintf(f, "philox %08x %08x %08x %08x %08x %08x", c[0], c[1], c[2], c[3], k[0], k[1]);
        philox4x32(c, k[0], k[1]);
        fprintf(f, " %08x %08x %08x %08x\n", c[0], c[1], c[2], c[3]);
    }
    for (uint32_t i = 0; i < 30; i++) {
        const uint64_t a = next_bits(s), b = next_bits(s);
        const uint32_t seed[2] = {(uint32_t)a, (uint32_t)(a >> 32)};
        const uint32_t stream[2] = {(uint32_t)b, (uint32_t)(b >> 32)};
        const uint32_t position = i < 10 ? i : (uint32_t)next_bits(s),
                       number = i < 20 ? 0 : next_below(s, 1u << 24), purpose = i % 5;
        fprintf(f, "bits %u %" PRIu64 " %" PRIu64 " %u %u %016" PRIx64 "\n", purpose, a, b,
                position, number, philox_bits(purpose, seed, stream, position, number));
    }
    for (int i = 0; i < 40; i++) {
        const uint64_t mass = next_wide(s, 29) / 2 + 1;
        const uint32_t p = i < 4 ? UINT32_MAX - (uint32_t)i : (uint32_t)next_bits(s);
        fprintf(f, "target %" PRIu64 " %u %" PRIu64 "\n", mass, p, top_p_target(mass, p));
    }
    for (int i = 0; i < 40; i++) {
        const uint64_t mass = next_wide(s, 29) / 2 + 1;
        const uint64_t r = i == 0 ? 0 : i == 1 ? UINT64_MAX : next_bits(s);
        fprintf(f, "drawn %016" PRIx64 " %" PRIu64 " %" PRIu64 "\n", r, mass, u64_mul_hi(r, mass));
    }
}

void write_values(FILE *f)
{
    sequence s = {1};
    write_floats(f, &s);
    write_parameters(f, &s);
    write_weights(f, &s);
    write_draws(f, &s);
}
