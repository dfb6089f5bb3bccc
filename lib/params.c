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
    full.repetition_penalty = 1.0f;
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

/* What the lists may not contain. */
static cls_status check_lists(const cls_params *p, uint32_t vocab)
{
    if (p->logit_bias == NULL && p->logit_bias_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->logit_bias_count is %u, but params->logit_bias is NULL",
                        (unsigned)p->logit_bias_count);
    if (p->stop_ids == NULL && p->stop_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->stop_count is %u, but params->stop_ids is NULL",
                        (unsigned)p->stop_count);
    for (uint32_t i = 0; i < p->logit_bias_count; i++) {
        const cls_logit_bias *const b = &p->logit_bias[i];
        if (b->id < 0 || (uint32_t)b->id >= vocab)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->logit_bias[%u].id is %d, which is no token of a vocabulary of %u",
                            (unsigned)i, (int)b->id, (unsigned)vocab);
        if (!(b->bias < INFINITY))
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->logit_bias[%u].bias is %g; it must be finite, or -inf to ban the token",
                            (unsigned)i, (double)b->bias);
    }
    for (uint32_t i = 0; i < p->stop_count; i++)
        if (p->stop_ids[i] < 0 || (uint32_t)p->stop_ids[i] >= vocab)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->stop_ids[%u] is %d, which is no token of a vocabulary of %u",
                            (unsigned)i, (int)p->stop_ids[i], (unsigned)vocab);
    return CLS_OK;
}

static cls_status check_penalties(const cls_params *p)
{
    if (!(p->repetition_penalty >= 1e-30f && p->repetition_penalty <= 1e30f))
        return bad("repetition_penalty", (double)p->repetition_penalty, "above 0 (from 1e-30 to 1e30); 1 is off");
    if (!(fabsf(p->frequency_penalty) <= 1e30f))
        return bad("frequency_penalty", (double)p->frequency_penalty, "between -1e30 and 1e30; 0 is off");
    if (!(fabsf(p->presence_penalty) <= 1e30f))
        return bad("presence_penalty", (double)p->presence_penalty, "between -1e30 and 1e30; 0 is off");
    if (p->penalty_scope != CLS_SCOPE_OUTPUT && p->penalty_scope != CLS_SCOPE_ALL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->penalty_scope is %d, which is no cls_penalty_scope",
                        (int)p->penalty_scope);
    if (p->penalty_window > CLS_MAX_HISTORY)
        return bad("penalty_window", (double)p->penalty_window, "at most 16384; 0 is all");
    return CLS_OK;
}

float cls_normal(float x)
{
    return fabsf(x) < 0x1p-126f ? 0.0f : x;
}

static void set_penalties(const cls_params *p, cls_slot *slot)
{
    int raises = p->repetition_penalty < 1.0f || p->frequency_penalty < 0.0f || p->presence_penalty < 0.0f;
    for (uint32_t i = 0; i < p->logit_bias_count; i++)
        raises |= p->logit_bias[i].bias > 0.0f;
    slot->repetition = p->repetition_penalty;
    slot->reciprocal = (float)(1.0 / (double)p->repetition_penalty);
    slot->frequency = cls_normal(p->frequency_penalty);
    slot->presence = cls_normal(p->presence_penalty);
    slot->window = p->penalty_window;
    slot->max_tokens = p->max_tokens;
    slot->flags |= raises ? CLS_SLOT_RAISES : 0;
    slot->flags |= p->penalty_scope == CLS_SCOPE_ALL ? CLS_SLOT_SCOPE_ALL : 0;
    if (p->repetition_penalty != 1.0f || p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f ||
        p->logit_bias_count != 0)
        slot->flags |= CLS_SLOT_PENALIZED;
}

cls_status cls_params_read(const cls_params *callers, cls_params *params)
{
    cls_params_default(params, sizeof *params);
    return cls_struct_read(params, sizeof *params, callers, "params");
}

cls_status cls_slot_from_params(const cls_params *callers, uint32_t vocab, cls_slot *slot)
{
    cls_params p;
    cls_status status = cls_params_read(callers, &p);
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

    status = check_penalties(&p);
    if (status == CLS_OK)
        status = check_lists(&p, vocab);
    if (status != CLS_OK)
        return status;

    memset(slot, 0, sizeof *slot);
    slot->flags = CLS_SLOT_BEGUN;
    set_penalties(&p, slot);
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
