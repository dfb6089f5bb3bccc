/* SPDX-License-Identifier: MIT */
/* A request's parameters: defaults, checks, and the form that kernels read. */
#include "request/request.h"

#include <math.h>

void cls_params_default(cls_params *params, size_t struct_size)
{
    cls_params full;
    CLS_STRUCT_INIT(&full, sizeof full);
    full.chain = CLS_CHAIN_DEFAULT;
    full.temperature = 1.0f;
    full.top_p = 1.0f;
    full.repetition_penalty = 1.0f;
    full.dynatemp_exponent = 1.0f;
    full.typical_p = 1.0f;
    full.xtc_threshold = 0.1f;
    full.top_p_decay = 1.0f;
    full.top_p_min = 1e-6f;
    full.top_p_reset_id = -1;
    full.mirostat_tau = 5.0f;
    full.mirostat_eta = 0.1f;
    full.adaptive_target = -1.0f;
    full.adaptive_decay = 0.9f;
    full.min_keep = 1;
    full.dry_base = 1.75f;
    full.dry_allowed_length = 2;
    if (!CLS_STRUCT_INIT(params, struct_size))
        return;
    memcpy((char *)params + sizeof(size_t), (char *)&full + sizeof(size_t),
           (struct_size < sizeof full ? struct_size : sizeof full) - sizeof(size_t));
}

static cls_status bad(const char *field, double value, const char *range)
{
    return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->%s is %g; it must be %s", field, value,
                    range);
}

/* ------------------------------------------------------------------- the chain */

/* The preset chains, each with all stages. */
static const uint8_t presets[][CLS_CHAIN_LENGTH] = {
    [CLS_CHAIN_DEFAULT] = {CLS_STAGE_TEMPERATURE, CLS_STAGE_TOP_K, CLS_STAGE_TOP_P, CLS_STAGE_MIN_P,
                           CLS_STAGE_TOP_N_SIGMA, CLS_STAGE_TYPICAL_P, CLS_STAGE_XTC,
                           CLS_STAGE_P_LESS, CLS_STAGE_INFILL},
    [CLS_CHAIN_VLLM] = {CLS_STAGE_TEMPERATURE, CLS_STAGE_MIN_P, CLS_STAGE_TOP_K, CLS_STAGE_TOP_P,
                        CLS_STAGE_TOP_N_SIGMA, CLS_STAGE_TYPICAL_P, CLS_STAGE_XTC, CLS_STAGE_P_LESS,
                        CLS_STAGE_INFILL},
    [CLS_CHAIN_LLAMA] = {CLS_STAGE_TOP_N_SIGMA, CLS_STAGE_TOP_K, CLS_STAGE_TYPICAL_P,
                         CLS_STAGE_TOP_P, CLS_STAGE_MIN_P, CLS_STAGE_XTC, CLS_STAGE_TEMPERATURE,
                         CLS_STAGE_P_LESS, CLS_STAGE_INFILL},
};

cls_status cls_chain_stages(int32_t chain, uint8_t stages[CLS_CHAIN_LENGTH])
{
    if (stages == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "stages is NULL");
    if (chain < 0 || chain >= CLS_CHAIN_CUSTOM)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "chain is %d, which is no preset",
                        (int)chain);
    memcpy(stages, presets[chain], sizeof presets[chain]);
    return CLS_OK;
}

/* The stages of clsample.h: whether one is on, and the parameter that says so. */
static const char *const stage_field[] = {
    [CLS_STAGE_TEMPERATURE] = "temperature",
    [CLS_STAGE_TOP_K] = "top_k",
    [CLS_STAGE_TOP_P] = "top_p",
    [CLS_STAGE_MIN_P] = "min_p",
    [CLS_STAGE_TOP_N_SIGMA] = "top_n_sigma",
    [CLS_STAGE_TYPICAL_P] = "typical_p",
    [CLS_STAGE_XTC] = "xtc_probability",
    [CLS_STAGE_P_LESS] = "p_less",
    [CLS_STAGE_INFILL] = "infill",
};
enum { PUBLIC_STAGES = sizeof stage_field / sizeof stage_field[0] };

static int stage_is_on(uint8_t stage, const cls_params *p, uint32_t vocab)
{
    switch (stage) {
    case CLS_STAGE_TEMPERATURE:
        return p->temperature != 1.0f || p->dynatemp_range > 0.0f;
    case CLS_STAGE_TOP_K:
        return p->top_k > 0 && (uint32_t)p->top_k < vocab;
    case CLS_STAGE_TOP_P:
        return p->top_p < 1.0f;
    case CLS_STAGE_MIN_P:
        return p->min_p > 0.0f;
    case CLS_STAGE_TOP_N_SIGMA:
        return p->top_n_sigma > 0.0f;
    case CLS_STAGE_TYPICAL_P:
        return p->typical_p < 1.0f;
    case CLS_STAGE_XTC:
        return p->xtc_probability > 0.0f && p->xtc_threshold <= 0.5f;
    case CLS_STAGE_P_LESS:
        return p->p_less != 0;
    case CLS_STAGE_INFILL:
        return p->infill != 0;
    }
    return 0;
}

/* A custom chain: known stages, each once, and all that are on. */
static cls_status check_chain(const cls_params *p, uint32_t vocab)
{
    int there[PUBLIC_STAGES] = {0};
    if (p->chain < 0 || p->chain > CLS_CHAIN_CUSTOM)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->chain is %d, which is no cls_chain",
                        (int)p->chain);
    if (p->chain != CLS_CHAIN_CUSTOM)
        return CLS_OK;
    for (int i = 0; i < CLS_CHAIN_LENGTH && p->stages[i] != CLS_STAGE_END; i++) {
        const uint8_t stage = p->stages[i];
        if (stage >= PUBLIC_STAGES)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "params->stages[%d] is %d, which is no cls_stage", i, (int)stage);
        if (there[stage]++)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "params->stages[%d]: the stage of %s is there already", i,
                            stage_field[stage]);
    }
    for (uint8_t stage = 1; stage < PUBLIC_STAGES && p->mirostat == 0; stage++)
        if (!there[stage] && stage_is_on(stage, p, vocab))
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "params->%s is set, but params->stages has no such stage",
                            stage_field[stage]);
    return CLS_OK;
}

/* Everything of a chain that is a number, with its range. */
static cls_status check_ranges(const cls_params *p)
{
    if (!(p->temperature >= 0.0f) || isinf(p->temperature))
        return bad("temperature", (double)p->temperature, "0 (greedy) or more, and finite");
    if (!(p->top_p <= 1.0f))
        return bad("top_p", (double)p->top_p, "at most 1 (off)");
    if (!(p->min_p >= 0.0f && p->min_p <= 1.0f))
        return bad("min_p", (double)p->min_p, "between 0 (off) and 1");
    if (!(p->dynatemp_range >= 0.0f && p->dynatemp_range <= 1e30f))
        return bad("dynatemp_range", (double)p->dynatemp_range, "0 (off) to 1e30");
    if (!(p->dynatemp_exponent >= 0.0f && p->dynatemp_exponent <= 1024.0f))
        return bad("dynatemp_exponent", (double)p->dynatemp_exponent, "between 0 and 1024");
    if (p->dynatemp_range > 0.0f && p->temperature > 1e30f)
        return bad("temperature", (double)p->temperature, "at most 1e30 with a dynatemp_range");
    if (!(p->top_n_sigma <= 1e6f))
        return bad("top_n_sigma", (double)p->top_n_sigma, "at most 1e6; 0 or less is off");
    if (!(p->typical_p <= 1.0f))
        return bad("typical_p", (double)p->typical_p, "at most 1 (off)");
    if (!(p->xtc_probability >= 0.0f && p->xtc_probability <= 1.0f))
        return bad("xtc_probability", (double)p->xtc_probability, "between 0 (off) and 1");
    if (!(p->xtc_threshold >= 0.0f && p->xtc_threshold <= 1.0f))
        return bad("xtc_threshold", (double)p->xtc_threshold, "between 0 and 1; above 0.5 is off");
    if (!(p->top_p_decay > 0.0f && p->top_p_decay <= 1.0f))
        return bad("top_p_decay", (double)p->top_p_decay, "above 0 and at most 1 (off)");
    if (!(p->top_p_min > 0.0f && p->top_p_min <= 1.0f))
        return bad("top_p_min", (double)p->top_p_min, "above 0 and at most 1");
    if (p->mirostat < 0 || p->mirostat > 2)
        return bad("mirostat", (double)p->mirostat, "0 (off), 1 or 2");
    if (!(p->mirostat_tau >= 0.0f && p->mirostat_tau <= 100.0f))
        return bad("mirostat_tau", (double)p->mirostat_tau, "between 0 and 100");
    if (!(p->mirostat_eta >= 0.0f && p->mirostat_eta <= 100.0f))
        return bad("mirostat_eta", (double)p->mirostat_eta, "between 0 and 100");
    if (!(p->adaptive_target <= 1.0f))
        return bad("adaptive_target", (double)p->adaptive_target, "at most 1; below 0 is off");
    if (!(p->adaptive_decay >= 0.0f && p->adaptive_decay <= 0.99f))
        return bad("adaptive_decay", (double)p->adaptive_decay, "between 0 and 0.99");
    return CLS_OK;
}

/* p as units of 2^-32; 1 is the most there is below it. */
static uint32_t unit_q32(float p)
{
    return p <= 0.0f ? 0
           : (double)p * 4294967296.0 + 0.5 < 4294967295.0
               ? (uint32_t)((double)p * 4294967296.0 + 0.5)
               : UINT32_MAX;
}

/* An array and its length: one without the other. */
static cls_status check_array(const char *name, const char *counter, const void *array, uint32_t n)
{
    return array == NULL && n != 0
               ? cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "params->%s is %u, but params->%s is NULL",
                          counter, (unsigned)n, name)
               : CLS_OK;
}

/* The first of n ids that is no token; n if all are. */
static uint32_t first_outside(const int32_t *ids, uint32_t n, uint32_t vocab)
{
    uint32_t i = 0;
    while (i < n && ids[i] >= 0 && (uint32_t)ids[i] < vocab)
        i++;
    return i;
}

static cls_status check_ids(const char *name, const char *counter, const int32_t *ids, uint32_t n,
                            uint32_t vocab)
{
    const cls_status status = check_array(name, counter, ids, n);
    const uint32_t at = status == CLS_OK ? first_outside(ids, n, vocab) : n;
    return at == n ? status
                   : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                              "params->%s[%u] is %d, which is no token of a vocabulary of %u", name,
                              (unsigned)at, (int)ids[at], (unsigned)vocab);
}

static cls_status check_sequences(const char *name, const char *counter,
                                  const cls_sequence *sequences, uint32_t n, uint32_t vocab)
{
    const cls_status status = check_array(name, counter, sequences, n);
    for (uint32_t i = 0; status == CLS_OK && i < n; i++) {
        const cls_sequence *const s = &sequences[i];
        if (s->count == 0)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "params->%s[%u].count is 0; a sequence has at least one id", name,
                            (unsigned)i);
        if (s->ids == NULL)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "params->%s[%u].count is %u, but its ids are NULL", name, (unsigned)i,
                            (unsigned)s->count);
        const uint32_t at = first_outside(s->ids, s->count, vocab);
        if (at < s->count)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "params->%s[%u].ids[%u] is %d, which is no token of a vocabulary of %u",
                            name, (unsigned)i, (unsigned)at, (int)s->ids[at], (unsigned)vocab);
    }
    return status;
}

/* What the lists may not contain. */
static cls_status check_lists(const cls_params *p, uint32_t vocab)
{
    cls_status status =
        check_array("logit_bias", "logit_bias_count", p->logit_bias, p->logit_bias_count);
    if (status != CLS_OK)
        return status;
    for (uint32_t i = 0; i < p->logit_bias_count; i++) {
        const cls_logit_bias *const b = &p->logit_bias[i];
        if (b->id < 0 || (uint32_t)b->id >= vocab)
            return cls_fail(
                CLS_BAD_ARGUMENT, CL_SUCCESS,
                "params->logit_bias[%u].id is %d, which is no token of a vocabulary of %u",
                (unsigned)i, (int)b->id, (unsigned)vocab);
        if (!(b->bias < INFINITY))
            return cls_fail(
                CLS_BAD_ARGUMENT, CL_SUCCESS,
                "params->logit_bias[%u].bias is %g; it must be finite, or -inf to ban the token",
                (unsigned)i, (double)b->bias);
    }
    status = check_ids("stop_ids", "stop_count", p->stop_ids, p->stop_count, vocab);
    if (status == CLS_OK)
        status = check_ids("allowed_ids", "allowed_count", p->allowed_ids, p->allowed_count, vocab);
    if (status == CLS_OK && p->only_allowed != 0 && p->only_allowed != 1)
        status = bad("only_allowed", (double)p->only_allowed, "0 or 1");
    if (status == CLS_OK)
        status = cls_reserved_check("params->reserved", (uint32_t)p->reserved);
    if (status == CLS_OK)
        status = check_sequences("dry_breakers", "dry_breaker_count", p->dry_breakers,
                                 p->dry_breaker_count, vocab);
    if (status == CLS_OK)
        status =
            check_sequences("bad_words", "bad_word_count", p->bad_words, p->bad_word_count, vocab);
    return status;
}

static cls_status check_dry(const cls_params *p)
{
    if (!(fabsf(p->dry_multiplier) <= 1e30f))
        return bad("dry_multiplier", (double)p->dry_multiplier, "between -1e30 and 1e30; 0 is off");
    if (!(p->dry_base <= 1e30f))
        return bad("dry_base", (double)p->dry_base, "at most 1e30; below 1 is off");
    if (p->dry_window > CLS_MAX_HISTORY)
        return bad("dry_window", (double)p->dry_window, "at most 16384; 0 is all");
    return CLS_OK;
}

static cls_status check_penalties(const cls_params *p)
{
    if (!(p->repetition_penalty >= 1e-30f && p->repetition_penalty <= 1e30f))
        return bad("repetition_penalty", (double)p->repetition_penalty,
                   "above 0 (from 1e-30 to 1e30); 1 is off");
    if (!(fabsf(p->frequency_penalty) <= 1e30f))
        return bad("frequency_penalty", (double)p->frequency_penalty,
                   "between -1e30 and 1e30; 0 is off");
    if (!(fabsf(p->presence_penalty) <= 1e30f))
        return bad("presence_penalty", (double)p->presence_penalty,
                   "between -1e30 and 1e30; 0 is off");
    if (p->penalty_scope != CLS_SCOPE_OUTPUT && p->penalty_scope != CLS_SCOPE_ALL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "params->penalty_scope is %d, which is no cls_penalty_scope",
                        (int)p->penalty_scope);
    if (p->penalty_window > CLS_MAX_HISTORY)
        return bad("penalty_window", (double)p->penalty_window, "at most 16384; 0 is all");
    return CLS_OK;
}

float cls_normal(float x) { return fabsf(x) < 0x1p-126f ? 0.0f : x; }

static void set_penalties(const cls_params *p, cls_slot *slot)
{
    int raises =
        p->repetition_penalty < 1.0f || p->frequency_penalty < 0.0f || p->presence_penalty < 0.0f;
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
    if (p->repetition_penalty != 1.0f || p->frequency_penalty != 0.0f ||
        p->presence_penalty != 0.0f || p->logit_bias_count != 0)
        slot->flags |= CLS_SLOT_PENALIZED;
    if (cls_params_allow_some(p))
        slot->flags |= CLS_SLOT_ALLOWED;
}

/* What looks at the history; the rest is in the lists. */
static void set_history(const cls_params *p, cls_slot *slot)
{
    slot->dry_allowed = p->dry_allowed_length;
    slot->dry_window = p->dry_window;
    slot->ngram = p->no_repeat_ngram;
    slot->min_tokens = p->stop_count != 0 ? p->min_tokens : 0;
    if (cls_dry_is_on(p) && p->dry_multiplier < 0.0f)
        slot->flags |= CLS_SLOT_RAISES;
    if (cls_dry_is_on(p) || slot->ngram != 0 || p->bad_word_count != 0 || slot->min_tokens != 0)
        slot->flags |= CLS_SLOT_HISTORY;
}

/* Whether a stage needs the mass of what is left when it comes. */
static int needs_mass(uint8_t stage, const cls_slot *slot)
{
    return stage == CLS_STAGE_TOP_P || stage == CLS_STAGE_TYPICAL_P || stage == CLS_STAGE_XTC ||
           stage == CLS_STAGE_P_LESS || stage == CLS_STAGE_MIROSTAT_2 ||
           (stage == CLS_STAGE_TEMPERATURE && (slot->flags & CLS_SLOT_DYNAMIC));
}

static void set_samplers(const cls_params *p, cls_slot *slot)
{
    slot->top_k = p->top_k;
    slot->top_p = unit_q32(p->top_p);
    /* Below 2^-100 a depth could be flushed to zero: it counts as zero. */
    slot->min_p = p->min_p > 0.0f ? (float)fmax(-log2((double)p->min_p), 0x1p-100) : 0.0f;
    slot->low = fmaxf(0.0f, p->temperature - p->dynatemp_range);
    slot->span = (p->temperature + p->dynatemp_range) - slot->low;
    slot->low = cls_normal(slot->low);
    slot->exponent = (uint32_t)((double)p->dynatemp_exponent * 65536.0 + 0.5);
    slot->sigma = p->top_n_sigma;
    slot->typical_p = p->typical_p < 1.0f ? unit_q32(p->typical_p) : UINT32_MAX;
    slot->xtc = (uint32_t)((double)p->xtc_probability * 2147483648.0 + 0.5);
    slot->xtc_depth = (uint32_t)(fmin(-log2((double)p->xtc_threshold), 1000.0) * 1048576.0 + 0.5);
    slot->min_keep = p->min_keep > 1 ? p->min_keep : 1;
    slot->decay = unit_q32(p->top_p_decay);
    slot->top_p_min = unit_q32(p->top_p_min);
    slot->reset_id = p->top_p_reset_id;
    slot->tau = (uint32_t)((double)p->mirostat_tau * 1048576.0 + 0.5);
    slot->eta = (uint32_t)((double)p->mirostat_eta * 16777216.0 + 0.5);
    slot->target =
        p->adaptive_target > 0.0f ? (uint32_t)((double)p->adaptive_target * 1073741824.0 + 0.5) : 0;
    slot->adaptive_decay = unit_q32(p->adaptive_decay);
    if (p->dynatemp_range > 0.0f)
        slot->flags |= CLS_SLOT_DYNAMIC;
    if (p->adaptive_target >= 0.0f && p->mirostat == 0)
        slot->flags |= CLS_SLOT_ADAPTIVE;
    if (p->mirostat != 0)
        slot->flags |= CLS_SLOT_MIROSTAT;
    if (p->top_p_decay < 1.0f && p->top_p < 1.0f && p->mirostat == 0)
        slot->flags |= CLS_SLOT_DECAYS;
}

/* The stages that are on, in order, and what the first of them asks of the survey. */
static void set_chain(const cls_params *p, uint32_t vocab, cls_slot *slot)
{
    const uint8_t mirostat[CLS_CHAIN_LENGTH] = {
        CLS_STAGE_TEMPERATURE, p->mirostat == 1 ? CLS_STAGE_MIROSTAT_1 : CLS_STAGE_MIROSTAT_2};
    const uint8_t *const chain = p->mirostat != 0               ? mirostat
                                 : p->chain == CLS_CHAIN_CUSTOM ? p->stages
                                                                : presets[p->chain];
    uint32_t n = 0;
    int truncated = 0, bounded = 0, blocked = 0;
    float scale = CLS_LOG2E;
    slot->scale = slot->total_scale = CLS_LOG2E;
    if (p->temperature < 1e-5f) {
        slot->flags |= CLS_SLOT_GREEDY;
        return;
    }
    set_samplers(p, slot);
    /* Rounded once; a subnormal scale would differ on devices that flush it. */
    slot->scale = (float)fmax(1.4426950408889634074 / (double)p->temperature, 0x1p-126);
    for (uint32_t i = 0; i < CLS_CHAIN_LENGTH && chain[i] != CLS_STAGE_END; i++) {
        const uint8_t stage = chain[i];
        if (stage < PUBLIC_STAGES && !stage_is_on(stage, p, vocab))
            continue;
        slot->chain[n / 4] |= (uint32_t)stage << (8 * (n % 4));
        n++;
        if (!truncated && needs_mass(stage, slot)) {
            slot->flags |= CLS_SLOT_TOTAL;
            slot->total_scale = scale;
        }
        if (stage == CLS_STAGE_TEMPERATURE && !(slot->flags & CLS_SLOT_DYNAMIC)) {
            scale = slot->scale;
            continue;
        }
        /* Top-k bounds the set, unless something before it must know more of
         * the row than its maximum and its mass, or takes away its head. */
        bounded |= stage == CLS_STAGE_TOP_K && !blocked;
        blocked |= stage != CLS_STAGE_TOP_K && stage != CLS_STAGE_MIN_P &&
                   (stage != CLS_STAGE_TOP_P || truncated);
        truncated = 1;
    }
    if (!truncated && (slot->flags & CLS_SLOT_ADAPTIVE))
        slot->flags |= CLS_SLOT_SEARCH; /* a set of the whole row, by tokens */
    else if (!truncated)
        slot->flags |= CLS_SLOT_UNTRUNCATED;
    if (!truncated) {
        slot->flags |= CLS_SLOT_TOTAL;
        slot->total_scale = slot->scale;
    } else if (!bounded) {
        slot->flags |= CLS_SLOT_SEARCH;
    }
}

cls_status cls_params_read(const cls_params *callers, cls_params *params)
{
    cls_params_default(params, sizeof *params);
    return CLS_STRUCT_READ(params, callers, "params");
}

cls_status cls_slot_from_params(const cls_params *callers, uint32_t vocab, cls_slot *slot)
{
    cls_params p;
    cls_status status = cls_params_read(callers, &p);
    if (status != CLS_OK)
        return status;
    status = check_chain(&p, vocab);
    if (status == CLS_OK)
        status = check_ranges(&p);
    if (status == CLS_OK)
        status = check_penalties(&p);
    if (status == CLS_OK)
        status = check_dry(&p);
    if (status == CLS_OK)
        status = check_lists(&p, vocab);
    if (status != CLS_OK)
        return status;

    memset(slot, 0, sizeof *slot);
    slot->flags = CLS_SLOT_BEGUN;
    set_penalties(&p, slot);
    set_history(&p, slot);
    slot->position = p.position;
    slot->seed[0] = (uint32_t)p.seed;
    slot->seed[1] = (uint32_t)(p.seed >> 32);
    slot->stream[0] = (uint32_t)p.stream;
    slot->stream[1] = (uint32_t)(p.stream >> 32);
    set_chain(&p, vocab, slot);
    slot->pending = -1;
    slot->adaptive = slot->next_adaptive = adaptive_begin(slot);
    return CLS_OK;
}

cls_status cls_params_check(const cls_params *params, uint32_t vocab)
{
    cls_slot slot;
    if (vocab < 1 || vocab > CLS_MAX_VOCAB)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "vocab is %u; it must be 1 to %d",
                        (unsigned)vocab, CLS_MAX_VOCAB);
    return cls_slot_from_params(params, vocab, &slot);
}
