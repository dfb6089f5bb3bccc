/* SPDX-License-Identifier: MIT */
#include "goldens.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define F(name, value) \
    { \
        offsetof(cls_params, name), value, 1 \
    }
#define I(name, value) \
    { \
        offsetof(cls_params, name), value, 0 \
    }
#define RISING \
    4, { .1, .2, .3, .4 }
#define FALLING \
    4, { .4, .3, .2, .1 }
#define FOUR \
    4, { .25, .25, .25, .25 }
#define FIVE \
    5, { .2, .2, .2, .2, .2 }
#define FRESH 0, {0}, 0
#define DRY(multiplier, allowed, window) \
    { \
        F(dry_multiplier, multiplier), F(dry_base, 1.1), I(dry_allowed_length, allowed), \
            I(dry_window, window) \
    }

/* Distributions from llama.cpp are renormalised where llama.cpp does not do so (XTC, typical), and
 * are in the order of ids. */
const golden goldens[] = {
    {"temperature 1", {F(temperature, 1)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"temperature 0", {F(temperature, 0)}, RISING, FRESH, {0, 0, 0, 1}, 1e-5},
    {"temperature .5", {F(temperature, .5)}, RISING, FRESH, {1. / 30, 4. / 30, .3, 16. / 30}, 1e-5},
    {"range 0",
     {F(dynatemp_range, 0), F(dynatemp_exponent, 1)},
     RISING,
     FRESH,
     {.1, .2, .3, .4},
     1e-5},
    {"temperature 0, range 0",
     {F(temperature, 0), F(dynatemp_range, 0)},
     RISING,
     FRESH,
     {0, 0, 0, 1},
     1e-5},
    {"range .5, exponent 1.5",
     {F(temperature, .8), F(dynatemp_range, .5), F(dynatemp_exponent, 1.5)},
     RISING,
     FRESH,
     {.117218, .210176, .29575, .376856},
     1e-5},
    {"range .5",
     {F(temperature, 1), F(dynatemp_range, .5)},
     RISING,
     FRESH,
     {.134408, .218745, .290847, .356001},
     1e-5},

    {"top-k 1", {I(top_k, 1)}, RISING, FRESH, {0, 0, 0, 1}, 1e-5},
    {"top-k 3", {I(top_k, 3)}, RISING, FRESH, {0, 2. / 9, 3. / 9, 4. / 9}, 1e-5},
    {"top-k 4", {I(top_k, 4)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"top-k 0", {I(top_k, 0)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"top-p 0", {F(top_p, 0)}, RISING, FRESH, {0, 0, 0, 1}, 1e-5},
    {"top-p .7", {F(top_p, .7)}, RISING, FRESH, {0, 0, 3. / 7, 4. / 7}, 1e-5},
    {"top-p .8", {F(top_p, .8)}, RISING, FRESH, {0, 2. / 9, 3. / 9, 4. / 9}, 1e-5},
    {"top-p 1", {F(top_p, 1)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"min-p 0", {F(min_p, 0)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"min-p .24", {F(min_p, .24)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"min-p .26", {F(min_p, .26)}, RISING, FRESH, {0, 2. / 9, 3. / 9, 4. / 9}, 1e-5},
    {"min-p .49", {F(min_p, .49)}, RISING, FRESH, {0, 2. / 9, 3. / 9, 4. / 9}, 1e-5},
    {"min-p .51", {F(min_p, .51)}, RISING, FRESH, {0, 0, 3. / 7, 4. / 7}, 1e-5},
    {"min-p .74", {F(min_p, .74)}, RISING, FRESH, {0, 0, 3. / 7, 4. / 7}, 1e-5},
    {"min-p .76", {F(min_p, .76)}, RISING, FRESH, {0, 0, 0, 1}, 1e-5},
    {"min-p 1", {F(min_p, 1)}, RISING, FRESH, {0, 0, 0, 1}, 1e-5},

    {"XTC .09", {F(xtc_probability, 1), F(xtc_threshold, .09)}, FALLING, FRESH, {0, 0, 0, 1}, 1e-5},
    {"XTC .19",
     {F(xtc_probability, 1), F(xtc_threshold, .19)},
     FALLING,
     FRESH,
     {0, 0, 2. / 3, 1. / 3},
     1e-5},
    {"XTC .29",
     {F(xtc_probability, 1), F(xtc_threshold, .29)},
     FALLING,
     FRESH,
     {0, .5, 1. / 3, 1. / 6},
     1e-5},
    {"XTC .39",
     {F(xtc_probability, 1), F(xtc_threshold, .39)},
     FALLING,
     FRESH,
     {.4, .3, .2, .1},
     1e-5},
    {"XTC off",
     {F(xtc_probability, 1), F(xtc_threshold, .51)},
     FALLING,
     FRESH,
     {.4, .3, .2, .1},
     1e-5},
    {"typical .5 of a peak", {F(typical_p, .5)}, 4, {.97, .01, .01, .01}, FRESH, {1}, 1e-5},
    {"typical .5",
     {F(typical_p, .5)},
     4,
     {.4, .2, .2, .2},
     FRESH,
     {0, 1. / 3, 1. / 3, 1. / 3},
     1e-5},
    {"top-n-sigma 1", {F(top_n_sigma, 1)}, RISING, FRESH, {0, 0, 3. / 7, 4. / 7}, 1e-5},
    {"top-n-sigma 0", {F(top_n_sigma, 0)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"top-n-sigma 3", {F(top_n_sigma, 3)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"p-less", {I(p_less, 1)}, 5, {.1, .15, .2, .25, .3}, FRESH, {0, 0, 0, 5. / 11, 6. / 11}, 1e-5},
    {"top-a .5", {F(top_a, .5)}, RISING, FRESH, {.1, .2, .3, .4}, 1e-5},
    {"top-a 1", {F(top_a, 1)}, RISING, FRESH, {0, 2. / 9, 3. / 9, 4. / 9}, 1e-5},
    {"top-a 1 of a peak", {F(top_a, 1)}, 4, {.9, .08, .01, .01}, FRESH, {1}, 1e-5},
    {"p-less of equals", {I(p_less, 1)}, FIVE, FRESH, {.2, .2, .2, .2, .2}, 1e-5},

    {"repetition, 1 token",
     {F(repetition_penalty, 50)},
     FIVE,
     1,
     {0},
     0,
     {0, .25, .25, .25, .25},
     1e-5},
    {"repetition, 3 tokens",
     {F(repetition_penalty, 50)},
     FIVE,
     3,
     {0, 1, 2},
     0,
     {0, 0, 0, .5, .5},
     1e-5},
    {"repetition, repeated",
     {F(repetition_penalty, 50)},
     FIVE,
     5,
     {0, 1, 2, 0, 0},
     0,
     {0, 0, 0, .5, .5},
     1e-5},
    {"frequency and presence, 1 token",
     {F(frequency_penalty, 5), F(presence_penalty, 5)},
     FIVE,
     1,
     {0},
     0,
     {.000011, .249997, .249997, .249997, .249997},
     1e-5},
    {"frequency and presence, 3 tokens",
     {F(frequency_penalty, 5), F(presence_penalty, 5)},
     FIVE,
     3,
     {0, 1, 2},
     0,
     {.000023, .000023, .000023, .499966, .499966},
     1e-5},
    {"frequency and presence, repeated",
     {F(frequency_penalty, 5), F(presence_penalty, 5)},
     FIVE,
     5,
     {0, 1, 2, 0, 0},
     0,
     {0, .000023, .000023, .499977, .499977},
     1e-5},

    {"DRY, too short", DRY(1, 2, 4), FOUR, 2, {0, 1}, 0, {.25, .25, .25, .25}, 1e-5},
    {"DRY", DRY(1, 2, 5), FOUR, 5, {0, 1, 2, 0, 1}, 0, {.296923, .296923, .109232, .296923}, 1e-5},
    {"DRY, breaker", DRY(1, 2, 6), FIVE, 6, {0, 1, 3, 4, 0, 1}, 3, {.2, .2, .2, .2, .2}, 1e-5},
    {"DRY, no breaker",
     DRY(1, 2, 6),
     FIVE,
     6,
     {0, 1, 3, 4, 0, 1},
     0,
     {.228944, .228944, .228944, .084224, .228944},
     1e-5},
    {"DRY, multiplier 2",
     DRY(2, 2, 5),
     FIVE,
     5,
     {0, 1, 2, 0, 1},
     0,
     {.241818, .241818, .032727, .241818, .241818},
     1e-5},
    {"DRY, allowed length 4",
     DRY(1, 4, 7),
     FIVE,
     7,
     {0, 1, 2, 3, 4, 0, 1},
     0,
     {.2, .2, .2, .2, .2},
     1e-5},

    /* Mirostat begins with mu = 2 tau. */
    {"mirostat 2, mu 2",
     {I(mirostat, 2), F(mirostat_tau, 1)},
     RISING,
     FRESH,
     {0, 0, 3. / 7, 4. / 7},
     1e-5},
    {"mirostat 2, mu 1.5",
     {I(mirostat, 2), F(mirostat_tau, .75)},
     RISING,
     FRESH,
     {0, 0, 0, 1},
     1e-5},
    {"mirostat 2, mu .5",
     {I(mirostat, 2), F(mirostat_tau, .25)},
     RISING,
     FRESH,
     {0, 0, 0, 1},
     1e-5},
    {"adaptive p, .3",
     {F(adaptive_target, .3)},
     RISING,
     FRESH,
     {.035841, .224172, .515815, .224172},
     1e-5},
    {"adaptive p, .55",
     {F(adaptive_target, .55)},
     RISING,
     FRESH,
     {.000578, .008756, .106053, .884613},
     1e-5},
};
const uint32_t n_goldens = sizeof goldens / sizeof *goldens;

#define K CLS_STAGE_TOP_K
#define P CLS_STAGE_TOP_P
#define M CLS_STAGE_MIN_P
#define IDS_FROM(first) GOLDEN_LOG_ID, 10000, first, 10000 - (first)
#define KPM I(top_k, 100), F(top_p, .8), F(min_p, .1)

/* Token 0 is at -inf, so no set contains it. */
const golden_set golden_sets[] = {
    {"k 10000", {I(top_k, 10000)}, {0}, IDS_FROM(1)},
    {"k 1", {I(top_k, 1)}, {0}, IDS_FROM(9999)},
    {"k 100", {I(top_k, 100)}, {0}, IDS_FROM(9900)},
    {"p 1", {F(top_p, 1)}, {0}, IDS_FROM(1)},
    {"p 0", {F(top_p, 0)}, {0}, IDS_FROM(9999)},
    {"p .0003", {F(top_p, .0003)}, {0}, IDS_FROM(9998)},
    {"p .8", {F(top_p, .8)}, {0}, IDS_FROM(4472)},
    {"m 1", {F(min_p, 1)}, {0}, IDS_FROM(9999)},
    {"m 1e-12", {F(min_p, 1e-12)}, {0}, IDS_FROM(1)},
    {"m 9997.9/9999", {F(min_p, 9997.9 / 9999.0)}, {0}, IDS_FROM(9998)},
    {"m .1", {F(min_p, .1)}, {0}, IDS_FROM(1000)},
    {"k 100, p .8", {I(top_k, 100), F(top_p, .8)}, {K, P}, IDS_FROM(9920)},
    {"k 100, p .8, m .1", {KPM}, {K, P, M}, IDS_FROM(9920)},
    {"k 100, m .1, p .8", {KPM}, {K, M, P}, IDS_FROM(9920)},
    {"m .1, k 100, p .8", {KPM}, {M, K, P}, IDS_FROM(9920)},
    {"k 100, m .1", {I(top_k, 100), F(min_p, .1)}, {K, M}, IDS_FROM(9900)},
    {"p .8, k 100", {I(top_k, 100), F(top_p, .8)}, {P, K}, IDS_FROM(9900)},
    {"m .1, k 100", {I(top_k, 100), F(min_p, .1)}, {M, K}, IDS_FROM(9900)},
    {"p .8, k 100, m .1", {KPM}, {P, K, M}, IDS_FROM(9900)},
    {"p .8, m .1, k 100", {KPM}, {P, M, K}, IDS_FROM(9900)},
    {"m .1, p .8, k 100", {KPM}, {M, P, K}, IDS_FROM(9900)},
    {"p .8, m .1", {F(top_p, .8), F(min_p, .1)}, {P, M}, IDS_FROM(4472)},
    {"m 9997.9/9999, p .8", {F(top_p, .8), F(min_p, 9997.9 / 9999.0)}, {M, P}, IDS_FROM(9998)},
    {"m .1, p .8", {F(top_p, .8), F(min_p, .1)}, {M, P}, IDS_FROM(4560)},
    {"mirostat 1, mu 10", {I(mirostat, 1), F(mirostat_tau, 5)}, {0}, GOLDEN_ZIPF, 1000, 0, 65},
};
const uint32_t n_golden_sets = sizeof golden_sets / sizeof *golden_sets;

static void apply(const golden_setting *settings, size_t n, cls_params *p)
{
    cls_params_init(p);
    for (size_t i = 0; i < n && settings[i].field != 0; i++) {
        const float real = (float)settings[i].value;
        const int32_t whole = (int32_t)settings[i].value;
        memcpy((char *)p + settings[i].field, settings[i].is_float ? (const void *)&real : &whole,
               4);
    }
}

void golden_params(const golden *g, cls_params *p)
{
    static cls_ids breakers[sizeof goldens / sizeof *goldens];
    apply(g->settings, sizeof g->settings / sizeof *g->settings, p);
    if (g->breaker == 0)
        return;
    cls_ids *const breaker = &breakers[g - goldens];
    *breaker = (cls_ids){.ids = &g->breaker, .count = 1};
    p->dry_breakers.sequences = breaker;
    p->dry_breakers.count = 1;
}

void golden_set_params(const golden_set *g, cls_params *p)
{
    apply(g->settings, sizeof g->settings / sizeof *g->settings, p);
    if (g->stages[0] != CLS_STAGE_END) {
        p->chain = CLS_CHAIN_CUSTOM;
        memcpy(p->stages, g->stages, sizeof p->stages);
    }
}

void golden_logits(const golden *g, float *logits)
{
    for (uint32_t i = 0; i < g->vocab; i++)
        logits[i] = (float)log(g->input[i]);
}

void golden_set_logits(const golden_set *g, float *logits)
{
    for (uint32_t i = 0; i < g->vocab; i++)
        logits[i] = (float)(g->input == GOLDEN_ZIPF ? -1.5 * log(i + 1.0)
                            : i == 0                ? -INFINITY
                                                    : log((double)i));
}
