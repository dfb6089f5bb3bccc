/* SPDX-License-Identifier: MIT */
/* What needs no request: draws from a list of candidates that the host has filtered, and places of
 * kept sets. */
#include "host/host.h"

static float candidate_logit(const cls_host_candidates *c, uint32_t i)
{
    return c->ids[i] >= 0 && (uint32_t)c->ids[i] < c->vocab ? clean(c->logits[i]) : CLS_MASKED;
}

static uint64_t mass_of(const cls_host_candidates *c, uint32_t i, float top, float fraction)
{
    return to_row_units(weight(candidate_logit(c, i), top, CLS_LOG2E, fraction), 0);
}

static int32_t draw(const cls_host_candidates *c, uint64_t bits)
{
    float top = CLS_MASKED;
    uint64_t all = 0, mass;
    uint32_t i = 0;
    for (uint32_t j = 0; j < c->count; j++)
        top = candidate_logit(c, j) > top ? candidate_logit(c, j) : top;
    if (top == CLS_MASKED)
        return -1;
    const float fraction = split(top, CLS_LOG2E).fraction;
    for (uint32_t j = 0; j < c->count; j++)
        all += mass_of(c, j, top, fraction);
    uint64_t rest = u64_mul_hi(bits, all);
    for (; (mass = mass_of(c, i, top, fraction)) <= rest; i++)
        rest -= mass;
    return c->ids[i];
}

cls_status cls_host_draw(const cls_host_candidates *callers, int32_t *token)
{
    cls_host_candidates c;
    if (token == NULL)
        return cls_refuse("token is NULL");
    const cls_status status = CLS_STRUCT_READ(&c, callers, "candidates");
    if (status != CLS_OK)
        return status;
    if (c.count > CLS_MAX_VOCAB)
        return cls_refuse("candidates->count is %u; it must be at most %d", (unsigned)c.count,
                          CLS_MAX_VOCAB);
    if (c.vocab < 1 || c.vocab > CLS_MAX_VOCAB)
        return cls_refuse("candidates->vocab is %u; it must be 1 to %d", (unsigned)c.vocab,
                          CLS_MAX_VOCAB);
    if (c.count != 0 && (c.ids == NULL || c.logits == NULL))
        return cls_refuse("candidates->count is %u, but candidates->%s is NULL", (unsigned)c.count,
                          c.ids == NULL ? "ids" : "logits");
    if (c.draw >= 1u << 24)
        return cls_refuse("candidates->draw is %u; it must be 0 to 16777215", (unsigned)c.draw);
    const uint32_t seed[2] = {(uint32_t)c.seed, (uint32_t)(c.seed >> 32)};
    const uint32_t stream[2] = {(uint32_t)c.stream, (uint32_t)(c.stream >> 32)};
    *token = draw(&c, c.random_bits != NULL
                          ? *c.random_bits
                          : philox_bits(CLS_PURPOSE_TOKEN, seed, stream, c.position, c.draw));
    return CLS_OK;
}
