/* SPDX-License-Identifier: MIT */
#include "goldens.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define F(name, value) { offsetof(cls_params, name), value, 1 }
#define I(name, value) { offsetof(cls_params, name), value, 0 }
#define RISING 4, { .1, .2, .3, .4 }
#define FALLING 4, { .4, .3, .2, .1 }
#define FOUR 4, { .25, .25, .25, .25 }
#define FIVE 5, { .2, .2, .2, .2, .2 }
#define NO_HISTORY 0, { 0 }, 0
#define TOLERANCE 1e-5

/* Distributions of llama.cpp are renormalised where it does not do so itself
 * (XTC, typical), and by id, not in its order. */
const golden goldens[] = {
    { "temperature 1", { F(temperature, 1) }, RISING, NO_HISTORY, { .1, .2, .3, .4 }, TOLERANCE },
    { "temperature 0", { F(temperature, 0) }, RISING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },
    { "temperature .5", { F(temperature, .5) }, RISING, NO_HISTORY, { 1. / 30, 4. / 30, .3, 16. / 30 }, TOLERANCE },
    { "range 0", { F(temperature, 1), F(dynatemp_range, 0), F(dynatemp_exponent, 1) }, RISING, NO_HISTORY, { .1, .2, .3, .4 },
      TOLERANCE },
    { "temperature 0, range 0", { F(temperature, 0), F(dynatemp_range, 0) }, RISING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },
    { "temperature .8, range .5, exponent 1.5", { F(temperature, .8), F(dynatemp_range, .5), F(dynatemp_exponent, 1.5) }, RISING,
      NO_HISTORY, { .117218, .210176, .29575, .376856 }, TOLERANCE },
    { "temperature 1, range .5", { F(temperature, 1), F(dynatemp_range, .5) }, RISING, NO_HISTORY,
      { .134408, .218745, .290847, .356001 }, TOLERANCE },

    { "top-k 1", { I(top_k, 1) }, RISING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },
    { "top-k 3", { I(top_k, 3) }, RISING, NO_HISTORY, { 0, 2. / 9, 3. / 9, 4. / 9 }, TOLERANCE },
    { "top-k 4", { I(top_k, 4) }, RISING, NO_HISTORY, { .1, .2, .3, .4 }, TOLERANCE },
    { "top-k 0", { I(top_k, 0) }, RISING, NO_HISTORY, { .1, .2, .3, .4 }, TOLERANCE },
    { "top-p 0", { F(top_p, 0) }, RISING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },
    { "top-p .7", { F(top_p, .7) }, RISING, NO_HISTORY, { 0, 0, 3. / 7, 4. / 7 }, TOLERANCE },
    { "top-p .8", { F(top_p, .8) }, RISING, NO_HISTORY, { 0, 2. / 9, 3. / 9, 4. / 9 }, TOLERANCE },
    { "top-p 1", { F(top_p, 1) }, RISING, NO_HISTORY, { .1, .2, .3, .4 }, TOLERANCE },
    { "min-p 0", { F(min_p, 0) }, RISING, NO_HISTORY, { .1, .2, .3, .4 }, TOLERANCE },
    { "min-p .24", { F(min_p, .24) }, RISING, NO_HISTORY, { .1, .2, .3, .4 }, TOLERANCE },
    { "min-p .26", { F(min_p, .26) }, RISING, NO_HISTORY, { 0, 2. / 9, 3. / 9, 4. / 9 }, TOLERANCE },
    { "min-p .49", { F(min_p, .49) }, RISING, NO_HISTORY, { 0, 2. / 9, 3. / 9, 4. / 9 }, TOLERANCE },
    { "min-p .51", { F(min_p, .51) }, RISING, NO_HISTORY, { 0, 0, 3. / 7, 4. / 7 }, TOLERANCE },
    { "min-p .74", { F(min_p, .74) }, RISING, NO_HISTORY, { 0, 0, 3. / 7, 4. / 7 }, TOLERANCE },
    { "min-p .76", { F(min_p, .76) }, RISING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },
    { "min-p 1", { F(min_p, 1) }, RISING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },

    { "XTC .09", { F(xtc_probability, 1), F(xtc_threshold, .09) }, FALLING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },
    { "XTC .19", { F(xtc_probability, 1), F(xtc_threshold, .19) }, FALLING, NO_HISTORY, { 0, 0, 2. / 3, 1. / 3 }, TOLERANCE },
    { "XTC .29", { F(xtc_probability, 1), F(xtc_threshold, .29) }, FALLING, NO_HISTORY, { 0, 3. / 6, 2. / 6, 1. / 6 }, TOLERANCE },
    { "XTC .39", { F(xtc_probability, 1), F(xtc_threshold, .39) }, FALLING, NO_HISTORY, { .4, .3, .2, .1 }, TOLERANCE },
    { "XTC off", { F(xtc_probability, 1), F(xtc_threshold, .51) }, FALLING, NO_HISTORY, { .4, .3, .2, .1 }, TOLERANCE },
    { "typical .5 of a peak", { F(typical_p, .5) }, 4, { .97, .01, .01, .01 }, NO_HISTORY, { 1 }, TOLERANCE },
    { "typical .5", { F(typical_p, .5) }, 4, { .4, .2, .2, .2 }, NO_HISTORY, { 0, 1. / 3, 1. / 3, 1. / 3 }, TOLERANCE },
    { "top-n-sigma 1", { F(top_n_sigma, 1) }, RISING, NO_HISTORY, { 0, 0, 3. / 7, 4. / 7 }, TOLERANCE },
    { "top-n-sigma 0", { F(top_n_sigma, 0) }, RISING, NO_HISTORY, { .1, .2, .3, .4 }, TOLERANCE },
    { "top-n-sigma 3", { F(top_n_sigma, 3) }, RISING, NO_HISTORY, { .1, .2, .3, .4 }, TOLERANCE },
    { "p-less", { I(p_less, 1) }, 5, { .1, .15, .2, .25, .3 }, NO_HISTORY, { 0, 0, 0, 5. / 11, 6. / 11 }, TOLERANCE },
    { "p-less of equals", { I(p_less, 1) }, FIVE, NO_HISTORY, { .2, .2, .2, .2, .2 }, TOLERANCE },

    { "repetition, 1 token", { F(repetition_penalty, 50) }, FIVE, 1, { 0 }, 0, { 0, .25, .25, .25, .25 }, TOLERANCE },
    { "repetition, 3 tokens", { F(repetition_penalty, 50) }, FIVE, 3, { 0, 1, 2 }, 0, { 0, 0, 0, .5, .5 }, TOLERANCE },
    { "repetition, repeated", { F(repetition_penalty, 50) }, FIVE, 5, { 0, 1, 2, 0, 0 }, 0, { 0, 0, 0, .5, .5 }, TOLERANCE },
    { "frequency and presence, 1 token", { F(frequency_penalty, 5), F(presence_penalty, 5) }, FIVE, 1, { 0 }, 0,
      { .000011, .249997, .249997, .249997, .249997 }, TOLERANCE },
    { "frequency and presence, 3 tokens", { F(frequency_penalty, 5), F(presence_penalty, 5) }, FIVE, 3, { 0, 1, 2 }, 0,
      { .000023, .000023, .000023, .499966, .499966 }, TOLERANCE },
    { "frequency and presence, repeated", { F(frequency_penalty, 5), F(presence_penalty, 5) }, FIVE, 5, { 0, 1, 2, 0, 0 }, 0,
      { 0, .000023, .000023, .499977, .499977 }, TOLERANCE },

    { "DRY, too short", { F(dry_multiplier, 1), F(dry_base, 1.1), I(dry_allowed_length, 2), I(dry_window, 4) }, FOUR, 2, { 0, 1 },
      0, { .25, .25, .25, .25 }, TOLERANCE },
    { "DRY", { F(dry_multiplier, 1), F(dry_base, 1.1), I(dry_allowed_length, 2), I(dry_window, 5) }, FOUR, 5, { 0, 1, 2, 0, 1 }, 0,
      { .296923, .296923, .109232, .296923 }, TOLERANCE },
    { "DRY, breaker", { F(dry_multiplier, 1), F(dry_base, 1.1), I(dry_allowed_length, 2), I(dry_window, 6) }, FIVE, 6,
      { 0, 1, 3, 4, 0, 1 }, 3, { .2, .2, .2, .2, .2 }, TOLERANCE },
    { "DRY, no breaker", { F(dry_multiplier, 1), F(dry_base, 1.1), I(dry_allowed_length, 2), I(dry_window, 6) }, FIVE, 6,
      { 0, 1, 3, 4, 0, 1 }, 0, { .228944, .228944, .228944, .084224, .228944 }, TOLERANCE },
    { "DRY, multiplier 2", { F(dry_multiplier, 2), F(dry_base, 1.1), I(dry_allowed_length, 2), I(dry_window, 5) }, FIVE, 5,
      { 0, 1, 2, 0, 1 }, 0, { .241818, .241818, .032727, .241818, .241818 }, TOLERANCE },
    { "DRY, allowed length 4", { F(dry_multiplier, 1), F(dry_base, 1.1), I(dry_allowed_length, 4), I(dry_window, 7) }, FIVE, 7,
      { 0, 1, 2, 3, 4, 0, 1 }, 0, { .2, .2, .2, .2, .2 }, TOLERANCE },

    /* A mode at its beginning: mu is 2 tau. */
    { "mirostat 2, mu 2", { I(mirostat, 2), F(mirostat_tau, 1) }, RISING, NO_HISTORY, { 0, 0, 3. / 7, 4. / 7 }, TOLERANCE },
    { "mirostat 2, mu 1.5", { I(mirostat, 2), F(mirostat_tau, .75) }, RISING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },
    { "mirostat 2, mu .5", { I(mirostat, 2), F(mirostat_tau, .25) }, RISING, NO_HISTORY, { 0, 0, 0, 1 }, TOLERANCE },
    { "adaptive p, target .3", { F(adaptive_target, .3) }, RISING, NO_HISTORY, { .035841, .224172, .515815, .224172 }, TOLERANCE },
    { "adaptive p, target .55", { F(adaptive_target, .55) }, RISING, NO_HISTORY, { .000578, .008756, .106053, .884613 }, TOLERANCE },
};
const uint32_t n_goldens = sizeof goldens / sizeof *goldens;

#define K CLS_STAGE_TOP_K
#define P CLS_STAGE_TOP_P
#define M CLS_STAGE_MIN_P
#define IDS_FROM(first) GOLDEN_LOG_ID, 10000, first, 10000 - (first)
#define KPM I(top_k, 100), F(top_p, .8), F(min_p, .1)

/* Token 0, at -inf, is in no set of ours. */
const golden_set golden_sets[] = {
    { "k 10000", { I(top_k, 10000) }, { 0 }, IDS_FROM(1) },
    { "k 1", { I(top_k, 1) }, { 0 }, IDS_FROM(9999) },
    { "k 100", { I(top_k, 100) }, { 0 }, IDS_FROM(9900) },
    { "p 1", { F(top_p, 1) }, { 0 }, IDS_FROM(1) },
    { "p 0", { F(top_p, 0) }, { 0 }, IDS_FROM(9999) },
    { "p .0003", { F(top_p, .0003) }, { 0 }, IDS_FROM(9998) },
    { "p .8", { F(top_p, .8) }, { 0 }, IDS_FROM(4472) },
    { "m 1", { F(min_p, 1) }, { 0 }, IDS_FROM(9999) },
    { "m 1e-12", { F(min_p, 1e-12) }, { 0 }, IDS_FROM(1) },
    { "m 9997.9/9999", { F(min_p, 9997.9 / 9999.0) }, { 0 }, IDS_FROM(9998) },
    { "m .1", { F(min_p, .1) }, { 0 }, IDS_FROM(1000) },
    { "k 100, p .8", { I(top_k, 100), F(top_p, .8) }, { K, P }, IDS_FROM(9920) },
    { "k 100, p .8, m .1", { KPM }, { K, P, M }, IDS_FROM(9920) },
    { "k 100, m .1, p .8", { KPM }, { K, M, P }, IDS_FROM(9920) },
    { "m .1, k 100, p .8", { KPM }, { M, K, P }, IDS_FROM(9920) },
    { "k 100, m .1", { I(top_k, 100), F(min_p, .1) }, { K, M }, IDS_FROM(9900) },
    { "p .8, k 100", { I(top_k, 100), F(top_p, .8) }, { P, K }, IDS_FROM(9900) },
    { "m .1, k 100", { I(top_k, 100), F(min_p, .1) }, { M, K }, IDS_FROM(9900) },
    { "p .8, k 100, m .1", { KPM }, { P, K, M }, IDS_FROM(9900) },
    { "p .8, m .1, k 100", { KPM }, { P, M, K }, IDS_FROM(9900) },
    { "m .1, p .8, k 100", { KPM }, { M, P, K }, IDS_FROM(9900) },
    { "p .8, m .1", { F(top_p, .8), F(min_p, .1) }, { P, M }, IDS_FROM(4472) },
    { "m 9997.9/9999, p .8", { F(top_p, .8), F(min_p, 9997.9 / 9999.0) }, { M, P }, IDS_FROM(9998) },
    { "m .1, p .8", { F(top_p, .8), F(min_p, .1) }, { M, P }, IDS_FROM(4560) },
    { "mirostat 1, mu 10", { I(mirostat, 1), F(mirostat_tau, 5) }, { 0 }, GOLDEN_ZIPF, 1000, 0, 65 },
};
const uint32_t n_golden_sets = sizeof golden_sets / sizeof *golden_sets;

static void apply(const golden_setting *settings, size_t n, cls_params *p)
{
    cls_params_default(p, sizeof *p);
    for (size_t i = 0; i < n && settings[i].field != 0; i++) {
        const float real = (float)settings[i].value;
        const int32_t whole = (int32_t)settings[i].value;
        memcpy((char *)p + settings[i].field, settings[i].is_float ? (const void *)&real : &whole, 4);
    }
}

void golden_params(const golden *g, cls_params *p)
{
    static cls_sequence breakers[sizeof goldens / sizeof *goldens];
    apply(g->settings, sizeof g->settings / sizeof *g->settings, p);
    if (g->breaker == 0)
        return;
    cls_sequence *const breaker = &breakers[g - goldens];
    *breaker = (cls_sequence){ .ids = &g->breaker, .count = 1 };
    p->dry_breakers = breaker;
    p->dry_breaker_count = 1;
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
        logits[i] = (float)(g->input == GOLDEN_ZIPF ? -1.5 * log(i + 1.0) : i == 0 ? -INFINITY : log((double)i));
}
