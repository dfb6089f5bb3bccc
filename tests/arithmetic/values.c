/* SPDX-License-Identifier: MIT */
/* The test vectors of single rules. */
#include "vectors.h"

static uint32_t word32(const char *digits) { return (uint32_t)strtoul(digits, NULL, 10); }
static uint64_t word64(const char *digits) { return strtoull(digits, NULL, 10); }

/* Returns a slot with the three parameters that rules S1 to S3 convert. */
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

static void write_clean(FILE *f, char **w)
{
    const float x = clean(float_of(w[0]));
    fprintf(f, " %08x %d", bits_of(x), (int)key_of(x));
}

static void write_scale(FILE *f, char **w)
{
    fprintf(f, " %08x", bits_of(slot_of(float_of(w[0]), 1.0f, 0.0f).scale));
}

static void write_top_p(FILE *f, char **w)
{
    fprintf(f, " %u", (unsigned)slot_of(1.0f, float_of(w[0]), 0.0f).top_p);
}

static void write_min_p(FILE *f, char **w)
{
    fprintf(f, " %08x", bits_of(slot_of(1.0f, 1.0f, float_of(w[0])).min_p));
}

static void write_split(FILE *f, char **w)
{
    const cls_split of = split(float_of(w[0]), float_of(w[1]));
    fprintf(f, " %d %d", (int)of.exponent, fraction_of(of));
}

static void write_weight(FILE *f, char **w)
{
    const float max = float_of(w[1]), scale = float_of(w[2]);
    const cls_split of = split(max, scale);
    fprintf(f, " %d %u", fraction_of(of),
            (unsigned)weight(float_of(w[0]), max, scale, of.fraction));
}

static void write_depth(FILE *f, char **w)
{
    fprintf(f, " %08x", bits_of(depth(float_of(w[0]), float_of(w[1]), float_of(w[2]))));
}

static void write_row_units(FILE *f, char **w)
{
    fprintf(f, " %" PRIu64, to_row_units(word64(w[0]), word32(w[1])));
}

static void write_philox(FILE *f, char **w)
{
    uint32_t c[4], k[2];
    for (int i = 0; i < 6; i++)
        (i < 4 ? c : k)[i & 3] = (uint32_t)strtoul(w[i], NULL, 16);
    philox4x32(c, k[0], k[1]);
    fprintf(f, " %08x %08x %08x %08x", c[0], c[1], c[2], c[3]);
}

static void write_bits(FILE *f, char **w)
{
    const uint64_t a = word64(w[1]), b = word64(w[2]);
    const uint32_t seed[2] = {(uint32_t)a, (uint32_t)(a >> 32)};
    const uint32_t stream[2] = {(uint32_t)b, (uint32_t)(b >> 32)};
    fprintf(f, " %016" PRIx64, philox_bits(word32(w[0]), seed, stream, word32(w[3]), word32(w[4])));
}

static void write_target(FILE *f, char **w)
{
    fprintf(f, " %" PRIu64, top_p_target(word64(w[0]), word32(w[1])));
}

static void write_drawn(FILE *f, char **w)
{
    fprintf(f, " %" PRIu64, u64_mul_hi(strtoull(w[0], NULL, 16), word64(w[1])));
}

static void write_softcap(FILE *f, char **w)
{
    const float cap = float_of(w[1]);
    fprintf(f, " %08x", bits_of(softcap(float_of(w[0]), cap, cls_softcap_reciprocal(cap))));
}

static const struct {
    const char *name;
    uint32_t given;
    void (*write)(FILE *, char **);
} rules[] = {
    {"clean", 1, write_clean},     {"scale", 1, write_scale},   {"top_p", 1, write_top_p},
    {"min_p", 1, write_min_p},     {"split", 2, write_split},   {"weight", 3, write_weight},
    {"depth", 3, write_depth},     {"philox", 6, write_philox}, {"row_units", 2, write_row_units},
    {"bits", 5, write_bits},       {"target", 2, write_target}, {"drawn", 2, write_drawn},
    {"softcap", 2, write_softcap},
};

int write_value(FILE *f, char **word, uint32_t n)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (n <= rules[i].given || strcmp(word[0], rules[i].name) != 0)
            continue;
        for (uint32_t k = 0; k <= rules[i].given; k++)
            fprintf(f, "%s%s", k == 0 ? "" : " ", word[k]);
        rules[i].write(f, word + 1);
        fprintf(f, "\n");
        return 1;
    }
    return 0;
}
