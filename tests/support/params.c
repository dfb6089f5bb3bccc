/* SPDX-License-Identifier: MIT */
/* Random parameters: values at the edges of their ranges and ordinary values, with few or many
 * stages turned on. */
#include <string.h>

#include "batch.h"

#define ANY(list, r) ((list)[rng_below((r), sizeof(list) / sizeof *(list))])

/* Sets a custom chain: all stages that are on and some others, in any order. The temperature is
 * always among them, because callers change it later. */
static void random_stages(cls_params *p, uint32_t vocab, rng *r)
{
    uint8_t stages[CLS_STAGE_TOP_A];
    uint32_t n = 0;
    if (p->chain != CLS_CHAIN_CUSTOM)
        return;
    for (uint8_t i = 0; i < CLS_STAGE_TOP_A; i++) {
        const uint32_t at = rng_below(r, i + 1u);
        stages[i] = stages[at];
        stages[at] = (uint8_t)(i + 1);
    }
    memset(p->stages, 0, sizeof p->stages);
    for (uint32_t i = 0; i < CLS_STAGE_TOP_A; i++)
        if (stages[i] == CLS_STAGE_TEMPERATURE || oracle_is_on(p, vocab, stages[i]) ||
            rng_below(r, 2))
            p->stages[n++] = stages[i];
}

/* Turns on stages other than top-k, top-p and min-p, each in one row of six. */
static void random_truncations(cls_params *p, rng *r)
{
    static const float sigmas[] = {0.5f, 1.0f, 1.0f, 1.5f, 2.0f, 3.0f, 1e-3f, 1e6f};
    static const float typicals[] = {0.0f, 1e-8f, 0.2f, 0.5f, 0.9f, 0.9f, 0.95f, 1.0f - 1e-7f};
    static const float chances[] = {1.0f, 1.0f, 0.5f, 0.5f, 1e-9f},
                       thresholds[] = {0.1f, 0.05f, 0.02f, 0.3f, 0.5f, 0.0f, 1e-3f, 0.51f};
    static const float ranges[] = {0.3f, 0.5f, 1.0f, 2.0f, 100.0f},
                       exponents[] = {1.0f, 1.0f, 0.5f, 2.0f, 0.0f, 1.5f, 16.0f, 1024.0f};
    static const float top_as[] = {0.2f, 0.2f, 0.05f, 1.0f, 1e-3f, 1e-20f, 1e-44f};
    static const uint32_t floors[] = {2, 5, 300};
    if (rng_below(r, 6) == 0)
        p->top_n_sigma = ANY(sigmas, r);
    if (rng_below(r, 6) == 0)
        p->typical_p = ANY(typicals, r);
    if (rng_below(r, 6) == 0) {
        p->xtc_probability = ANY(chances, r);
        p->xtc_threshold = ANY(thresholds, r);
    }
    p->p_less = rng_below(r, 6) == 0;
    if (rng_below(r, 6) == 0) {
        p->dynatemp_range = ANY(ranges, r);
        p->dynatemp_exponent = ANY(exponents, r);
    }
    if (rng_below(r, 6) == 0)
        p->top_a = ANY(top_as, r);
    if (rng_below(r, 4) == 0)
        p->min_keep = ANY(floors, r);
}

void params_random(cls_params *p, uint32_t vocab, rng *r)
{
    static const float temperatures[] = {0.0f, 1e-6f, 1e-4f, 0.8f, 0.8f, 1.0f, 1.0f, 1.3f, 100.0f};
    static const float top_ps[] = {0.0f, 1e-8f, 0.3f, 0.9f, 0.9f, 1.0f - 1e-7f, 1.0f, 1.0f};
    static const float min_ps[] = {0.0f, 0.0f, 0.0f, 1e-6f, 0.05f, 1.0f};
    const int32_t v = (int32_t)vocab;
    const int32_t top_ks[] = {-1, 0,  0,   0,   0,   1,   2,     15, 16,     17,
                              50, 50, 255, 256, 257, 600, v - 1, v,  1 << 30};
    p->chain = (int32_t)rng_below(r, 5);
    p->chain = p->chain < CLS_CHAIN_CUSTOM ? p->chain : CLS_CHAIN_CUSTOM;
    p->temperature = ANY(temperatures, r);
    p->top_p = rng_below(r, 3) ? ANY(top_ps, r) : 1.0f;
    p->min_p = rng_below(r, 3) ? ANY(min_ps, r) : 0.0f;
    p->top_k = rng_below(r, 3) ? ANY(top_ks, r) : 0;
    p->stream = rng_bits(r);
    p->position = (uint32_t)rng_bits(r);
    if (rng_below(r, 4))
        random_truncations(p, r);
    random_stages(p, vocab, r);
}

void params_adaptive(cls_params *p, uint32_t vocab, rng *r)
{
    static const float taus[] = {5.0f, 5.0f, 3.0f, 1.0f, 0.0f, 100.0f},
                       etas[] = {0.1f, 0.1f, 1.0f, 0.0f, 100.0f};
    static const float targets[] = {0.3f, 0.55f, 0.05f, 0.0f, 1.0f},
                       forgets[] = {0.9f, 0.9f, 0.5f, 0.0f, 0.99f};
    static const float decays[] = {0.9f, 0.5f, 0.999f, 1e-6f}, leasts[] = {0.1f, 1e-6f, 0.5f, 1.0f};
    switch (rng_below(r, 12)) {
    case 0:
    case 1:
        p->mirostat = 1 + (int32_t)rng_below(r, 2);
        p->mirostat_tau = ANY(taus, r);
        p->mirostat_eta = ANY(etas, r);
        break;
    case 2:
    case 3:
        p->adaptive_target = ANY(targets, r);
        p->adaptive_decay = ANY(forgets, r);
        break;
    case 4:
        p->top_p = p->top_p < 1.0f ? p->top_p : 0.9f;
        p->top_p_decay = ANY(decays, r);
        p->top_p_min = ANY(leasts, r);
        p->top_p_reset_id = rng_below(r, 2) ? -1 : (int32_t)rng_below(r, vocab);
    }
    random_stages(p, vocab, r);
}

void params_infill(cls_params *p, uint32_t vocab, rng *r)
{
    p->infill = 1;
    random_stages(p, vocab, r);
}
