/* SPDX-License-Identifier: MIT */
/* A request's parameters: defaults, checks, and the form that kernels read. */
#include "internal.h"

#include <math.h>

void cls_params_default(cls_params *params, size_t struct_size)
{
    cls_params full;
    cls_struct_init(&full, sizeof full);
    full.chain = CLS_CHAIN_DEFAULT;
    full.temperature = 1.0f;
    full.top_p = 1.0f;
    cls_struct_init(params, struct_size);
    if (struct_size < sizeof(size_t))
        return;
    memcpy((char *)params + sizeof(size_t), (char *)&full + sizeof(size_t),
           (struct_size < sizeof full ? struct_size : sizeof full) - sizeof(size_t));
}

/* The preset chains, each with all stages that exist. */
static const uint8_t presets[][CLS_MAX_STAGES] = {
    [CLS_CHAIN_DEFAULT] = { CLS_STAGE_TEMPERATURE, CLS_STAGE_TOP_K, CLS_STAGE_TOP_P, CLS_STAGE_MIN_P },
    [CLS_CHAIN_VLLM] = { CLS_STAGE_TEMPERATURE, CLS_STAGE_MIN_P, CLS_STAGE_TOP_K, CLS_STAGE_TOP_P },
    [CLS_CHAIN_LLAMA] = { CLS_STAGE_TOP_K, CLS_STAGE_TOP_P, CLS_STAGE_MIN_P, CLS_STAGE_TEMPERATURE },
};

static cls_status bad(const char *field, double value, const char *range)
{
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->%s is %g; it must be %s", field, value, range);
}

static int stage_is_on(uint8_t stage, const cls_params *p, uint32_t vocab)
{
    switch (stage) {
    case CLS_STAGE_TEMPERATURE: return p->temperature != 1.0f;
    case CLS_STAGE_TOP_K: return p->top_k > 0 && (uint32_t)p->top_k < vocab;
    case CLS_STAGE_TOP_P: return p->top_p < 1.0f;
    case CLS_STAGE_MIN_P: return p->min_p > 0.0f;
    }
    return 0;
}

cls_status cls_slot_from_params(const cls_params *callers, uint32_t vocab, cls_slot *slot)
{
    cls_params p;
    cls_params_default(&p, sizeof p);
    cls_status status = cls_struct_read(&p, sizeof p, callers, "params");
    if (status != CLS_OK)
        return status;
    if (p.chain < 0 || (size_t)p.chain >= sizeof presets / sizeof presets[0])
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->chain is %d, which is no cls_chain", (int)p.chain);
    if (!(p.temperature >= 0.0f) || isinf(p.temperature))
        return bad("temperature", (double)p.temperature, "0 (greedy) or more, and finite");
    if (!(p.top_p <= 1.0f))
        return bad("top_p", (double)p.top_p, "at most 1 (off)");
    if (!(p.min_p >= 0.0f && p.min_p <= 1.0f))
        return bad("min_p", (double)p.min_p, "between 0 (off) and 1");

    memset(slot, 0, sizeof *slot);
    slot->flags = CLS_SLOT_BEGUN;
    slot->position = p.position;
    slot->seed[0] = (uint32_t)p.seed;
    slot->seed[1] = (uint32_t)(p.seed >> 32);
    slot->stream[0] = (uint32_t)p.stream;
    slot->stream[1] = (uint32_t)(p.stream >> 32);
    slot->scale = slot->total_scale = CLS_LOG2E;
    if (p.temperature < 1e-5f) {
        slot->flags |= CLS_SLOT_GREEDY;
        return CLS_OK;
    }
    /* Rounded once; a subnormal scale would differ on devices that flush it. */
    slot->scale = (float)fmax(1.4426950408889634074 / (double)p.temperature, 0x1p-126);
    slot->top_k = p.top_k;
    slot->top_p = p.top_p > 0.0f ? (uint32_t)((double)p.top_p * 4294967296.0 + 0.5) : 0;
    /* Below 2^-100 a depth could be flushed to zero: it counts as zero. */
    slot->min_p = p.min_p > 0.0f ? (float)fmax(-log2((double)p.min_p), 0x1p-100) : 0.0f;

    uint32_t n = 0;
    int truncated = 0;
    float scale = CLS_LOG2E;
    for (uint32_t i = 0; i < CLS_MAX_STAGES && presets[p.chain][i] != CLS_STAGE_END; i++) {
        const uint8_t stage = presets[p.chain][i];
        if (!stage_is_on(stage, &p, vocab))
            continue;
        slot->chain[n / 4] |= (uint32_t)stage << (8 * (n % 4));
        n++;
        if (stage == CLS_STAGE_TEMPERATURE) {
            scale = slot->scale;
            continue;
        }
        if (stage == CLS_STAGE_TOP_P && !truncated) {
            slot->flags |= CLS_SLOT_TOTAL;
            slot->total_scale = scale;
        }
        truncated = 1;
    }
    if (!truncated) {
        slot->flags |= CLS_SLOT_PLAIN | CLS_SLOT_TOTAL;
        slot->total_scale = slot->scale;
    } else if (!stage_is_on(CLS_STAGE_TOP_K, &p, vocab)) {
        slot->flags |= CLS_SLOT_SEARCH;
    }
    return CLS_OK;
}

cls_status cls_params_check(const cls_params *params, uint32_t vocab)
{
    cls_slot slot;
    if (vocab < 1 || vocab > CLS_MAX_VOCAB)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "vocab is %u; it must be 1 to %d", (unsigned)vocab, CLS_MAX_VOCAB);
    return cls_slot_from_params(params, vocab, &slot);
}
