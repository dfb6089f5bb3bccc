/* SPDX-License-Identifier: MIT */
/* Checks what the ranges of parameters do not cover (the chain and the lists), and converts the
 * parameters to the form that kernels read. */
#include "request/request.h"

#include <math.h>
#include <stdio.h>

/* ------------------------------------------------------------------- the chain */

cls_status cls_chain_stages(int32_t chain, uint8_t stages[CLS_CHAIN_LENGTH])
{
    if (stages == NULL)
        return cls_refuse("stages is NULL");
    if (chain < 0 || chain >= CLS_CHAIN_CUSTOM)
        return cls_refuse("chain is %d, which is not a preset", (int)chain);
    memcpy(stages, cls_chain_preset((cls_chain)chain), CLS_CHAIN_LENGTH);
    return CLS_OK;
}

static const char *const stage_field[] = {
#define STAGE_FIELD(stage, run, keeps_min, name, field, on) [CLS_STAGE_##stage] = #field,
    CLS_STAGE_TABLE(STAGE_FIELD)};

/* Checks the chain. Fails if a custom one has an unknown stage or a stage twice, or lacks a stage
 * that the parameters turn on, or if there are stages without a custom chain. */
static cls_status check_chain(const cls_params *p, uint32_t vocab)
{
    int occurs[CLS_PUBLIC_STAGES] = {0};
    if (p->chain < 0 || p->chain > CLS_CHAIN_CUSTOM)
        return cls_refuse("params->chain is %d, which is not a cls_chain", (int)p->chain);
    if (p->chain != CLS_CHAIN_CUSTOM)
        return p->stages[0] == CLS_STAGE_END
                   ? CLS_OK
                   : cls_refuse("params->stages is set, but params->chain is not CLS_CHAIN_CUSTOM");
    for (int i = 0; i < CLS_CHAIN_LENGTH && p->stages[i] != CLS_STAGE_END; i++) {
        const uint8_t stage = p->stages[i];
        if (stage >= CLS_PUBLIC_STAGES)
            return cls_refuse("params->stages[%d] is %d, which is not a cls_stage", i, (int)stage);
        if (occurs[stage]++)
            return cls_refuse("params->stages[%d]: the stage of %s occurs already", i,
                              stage_field[stage]);
    }
    for (uint8_t stage = 1; stage < CLS_PUBLIC_STAGES && p->mirostat == 0; stage++)
        if (!occurs[stage] && cls_stage_is_on(stage, p, vocab))
            return cls_refuse("params->%s is set, but params->stages has no such stage",
                              stage_field[stage]);
    return CLS_OK;
}

/* Returns p in units of 2^-32. 1 becomes the largest value below it. */
static uint32_t unit_q32(float p)
{
    return p <= 0.0f ? 0
           : (double)p * 4294967296.0 + 0.5 < 4294967295.0
               ? (uint32_t)((double)p * 4294967296.0 + 0.5)
               : UINT32_MAX;
}

/* Returns the index of the first id that is not a token, or the number of ids. */
static uint32_t first_outside(const cls_ids *list, uint32_t vocab)
{
    uint32_t i = 0;
    while (i < list->count && list->ids[i] >= 0 && (uint32_t)list->ids[i] < vocab)
        i++;
    return i;
}

static cls_status refuse_id(const char *where, int32_t id, uint32_t vocab)
{
    return cls_refuse("params->%s is %d, which is not a token of a vocabulary of %u", where,
                      (int)id, (unsigned)vocab);
}

static cls_status check_ids(const char *name, const cls_ids *list, uint32_t vocab)
{
    char where[80];
    if (list->ids == NULL && list->count != 0)
        return cls_refuse("params->%s.count is %u, but params->%s.ids is NULL", name,
                          (unsigned)list->count, name);
    const uint32_t i = first_outside(list, vocab);
    if (i == list->count)
        return CLS_OK;
    snprintf(where, sizeof where, "%s.ids[%u]", name, (unsigned)i);
    return refuse_id(where, list->ids[i], vocab);
}

static cls_status check_sequences(const char *name, const cls_sequences *list, uint32_t vocab)
{
    char where[64];
    for (uint32_t i = 0; i < list->count; i++) {
        const cls_ids *const s = &list->sequences[i];
        if (s->count != 0 && s->ids != NULL && first_outside(s, vocab) == s->count)
            continue;
        snprintf(where, sizeof where, "%s.sequences[%u]", name, (unsigned)i);
        return s->count != 0
                   ? check_ids(where, s, vocab)
                   : cls_refuse("params->%s.count is 0; a sequence has at least one id", where);
    }
    return CLS_OK;
}

static cls_status check_biases(const char *name, const cls_biases *list, uint32_t vocab)
{
    char where[64];
    for (uint32_t i = 0; i < list->count; i++) {
        const cls_logit_bias *const b = &list->biases[i];
        if (b->id >= 0 && (uint32_t)b->id < vocab && b->bias < INFINITY)
            continue;
        snprintf(where, sizeof where, "%s.biases[%u].%s", name, (unsigned)i,
                 b->bias < INFINITY ? "id" : "bias");
        return b->bias < INFINITY
                   ? refuse_id(where, b->id, vocab)
                   : cls_refuse("params->%s is %g; it must be finite, or -inf to ban the token",
                                where, (double)b->bias);
    }
    return CLS_OK;
}

/* Checks the lists. Fails if one has an id that is not a token, or an invalid value. */
static cls_status check_lists(const cls_params *p, uint32_t vocab)
{
    for (const cls_list_param *l = cls_list_table; l < cls_list_table + CLS_LIST_COUNT; l++) {
        const void *const at = (const char *)p + l->at;
        const cls_list list = cls_list_get(l, p);
        cls_status status = CLS_OK;
        if (list.array == NULL && list.count != 0)
            return cls_refuse("params->%s.count is %u, but params->%s.%s is NULL", l->name,
                              (unsigned)list.count, l->name, l->array);
        if (l->kind == CLS_LIST_ids)
            status = check_ids(l->name, at, vocab);
        else if (l->kind == CLS_LIST_biases)
            status = check_biases(l->name, at, vocab);
        else
            status = check_sequences(l->name, at, vocab);
        if (status != CLS_OK)
            return status;
    }
    return CLS_OK;
}

static uint32_t own_window(const cls_params *p, cls_penalty penalty)
{
    return penalty == CLS_REPETITION  ? p->repetition_window
           : penalty == CLS_FREQUENCY ? p->frequency_window
                                      : p->presence_window;
}

uint32_t cls_penalty_window(const cls_params *p, cls_penalty penalty)
{
    const uint32_t own = own_window(p, penalty);
    return own != 0 ? own : p->penalty_window;
}

/* Sets the longest window of the penalties, whose tokens the state counts, and the shorter ones. */
static cls_status set_windows(const cls_params *p, cls_slot *slot)
{
    static const char *const name[] = {"repetition_window", "frequency_window", "presence_window"};
    slot->window = cls_penalty_window(p, CLS_REPETITION);
    for (cls_penalty i = CLS_FREQUENCY; i <= CLS_PRESENCE; i++)
        if (cls_penalty_window(p, i) - 1 > slot->window - 1) /* 0 is all */
            slot->window = cls_penalty_window(p, i);
    for (cls_penalty i = CLS_REPETITION; i <= CLS_PRESENCE; i++) {
        const uint32_t window = cls_penalty_window(p, i);
        if (window == slot->window)
            continue;
        if (window > CLS_MAX_OWN_WINDOW)
            return cls_refuse("params->%s is %u, but another penalty has a longer window: then it "
                              "must be at most %u",
                              own_window(p, i) != 0 ? name[i] : "penalty_window", (unsigned)window,
                              (unsigned)CLS_MAX_OWN_WINDOW);
        slot->flags |= CLS_SLOT_HISTORY; /* what these have is found as other history effects are */
        slot->windows |= window << (CLS_WINDOW_BITS * (uint32_t)i);
    }
    return CLS_OK;
}

static void set_penalties(const cls_params *p, cls_slot *slot)
{
    int raises =
        p->repetition_penalty < 1.0f || p->frequency_penalty < 0.0f || p->presence_penalty < 0.0f;
    for (uint32_t i = 0; i < p->logit_bias.count; i++)
        raises |= p->logit_bias.biases[i].bias > 0.0f;
    slot->repetition = p->repetition_penalty;
    slot->reciprocal = (float)(1.0 / (double)p->repetition_penalty);
    slot->frequency = cls_flush_subnormal(p->frequency_penalty);
    slot->presence = cls_flush_subnormal(p->presence_penalty);
    slot->max_tokens = p->max_tokens;
    slot->flags |= raises ? CLS_SLOT_RAISES : 0;
    slot->flags |= p->penalty_scope == CLS_SCOPE_ALL ? CLS_SLOT_SCOPE_ALL : 0;
    if (p->repetition_penalty != 1.0f || p->frequency_penalty != 0.0f ||
        p->presence_penalty != 0.0f || p->logit_bias.count != 0)
        slot->flags |= CLS_SLOT_PENALIZED;
    if (cls_params_allow_some(p))
        slot->flags |= CLS_SLOT_ALLOWED;
}

/* Returns the length of a sequence of tokens, in the 16 bits that a slot has for it. */
static uint16_t narrow(uint32_t tokens)
{
    return (uint16_t)(tokens < CLS_LONGER ? tokens : CLS_LONGER);
}

/* Sets the parameters of adjustments by the history, except for those that are in the lists. */
static void set_history(const cls_params *p, cls_slot *slot)
{
    slot->dry_allowed = narrow(p->dry_allowed_length);
    slot->dry_window = narrow(p->dry_window);
    slot->ngram = narrow(p->no_repeat_ngram);
    slot->ngram_window = narrow(p->ngram_window);
    slot->flags |= p->ngram_output_only ? CLS_SLOT_NGRAM_OUTPUT : 0;
    slot->min_tokens = p->stop_ids.count != 0 ? p->min_tokens : 0;
    if (cls_dry_is_on(p) && p->dry_multiplier < 0.0f)
        slot->flags |= CLS_SLOT_RAISES;
    if (cls_dry_is_on(p) || slot->ngram != 0 || p->bad_words.count != 0 || slot->min_tokens != 0 ||
        p->stop_action == CLS_STOP_BANNED)
        slot->flags |= CLS_SLOT_HISTORY;
}

/* Returns 1 if the thinking is followed: a budget ends it, drafts are accepted by relaxed
 * acceptance in it, stop ids do not stop the request in it, or a grammar begins behind it. */
static int follows_thinking(const cls_params *p)
{
    return p->thinking_forced.count != 0 || p->relaxed_top_k != 0 || p->post_thinking != NULL ||
           p->stop_action != CLS_STOP_REQUEST ||
           (p->grammar != NULL && (p->thinking_start.count != 0 || p->thinking_ends.count != 0));
}

/* Sets the thinking budget and relaxed acceptance, except for their lists, the loop stop, and where
 * a grammar begins. */
static void set_ends(const cls_params *p, cls_slot *slot)
{
    const int loops_think = p->loop_action == CLS_LOOP_END_THINKING,
              stops_think = p->stop_action == CLS_STOP_END_THINKING,
              none = p->thinking_forced.count == 0 ||
                     ((loops_think || stops_think) && p->thinking_budget == 0);
    slot->thinking_budget = none ? INT32_MAX : p->thinking_budget;
    slot->loop_repeats = p->loop_repeats;
    slot->loop_min = narrow(p->loop_min);
    slot->loop_max = narrow(p->loop_max);
    if (p->grammar != NULL) {
        slot->flags |= CLS_SLOT_GRAMMAR;
        slot->grammar_begin = slot->grammar_state = p->grammar_state;
    }
    if (follows_thinking(p)) {
        slot->flags |= CLS_SLOT_THINKING;
        slot->thinking = p->thinking_start.count == 0;
    }
    slot->flags |= p->relaxed_top_k != 0 ? CLS_SLOT_RELAXED : 0;
    slot->flags |= p->loop_repeats != 0 ? CLS_SLOT_LOOPS : 0;
    slot->flags |= loops_think ? CLS_SLOT_LOOPS_THINK : 0;
    slot->flags |= stops_think ? CLS_SLOT_STOPS_THINK : 0;
    slot->flags |= p->stop_action == CLS_STOP_BANNED ? CLS_SLOT_STOPS_BANNED : 0;
}

/* Fails if the loop stop's parameters contradict each other, if a thinking budget has nothing to
 * force, or if nothing needs to know what the thinking is. */
static cls_status check_ends(const cls_params *p)
{
    if (p->thinking_ends.count > CLS_MAX_THINKING_ENDS)
        return cls_refuse("params->thinking_ends.count is %u; it must be at most %d",
                          (unsigned)p->thinking_ends.count, CLS_MAX_THINKING_ENDS);
    if (p->loop_repeats == 1)
        return cls_refuse("params->loop_repeats is 1; it must be 0 (off) or 2 to 16384");
    if (p->loop_min > p->loop_max)
        return cls_refuse("params->loop_min is %u, which is more than params->loop_max of %u",
                          (unsigned)p->loop_min, (unsigned)p->loop_max);
    if (p->loop_action != CLS_LOOP_STOP && (p->loop_repeats == 0 || p->thinking_forced.count == 0))
        return cls_refuse("params->loop_action is CLS_LOOP_END_THINKING, but params->%s",
                          p->loop_repeats == 0 ? "loop_repeats is 0" : "thinking_forced is empty");
    if (p->stop_action != CLS_STOP_REQUEST && p->stop_ids.count == 0)
        return cls_refuse("params->stop_action is %d, but params->stop_ids is empty",
                          (int)p->stop_action);
    if (p->stop_action == CLS_STOP_END_THINKING && p->thinking_forced.count == 0)
        return cls_refuse("params->stop_action is CLS_STOP_END_THINKING, but "
                          "params->thinking_forced is empty");
    if (p->relaxed_top_k == 0 && p->relaxed_delta != 0.0f)
        return cls_refuse("params->relaxed_delta is set, but params->relaxed_top_k is 0");
    if (p->thinking_forced.count == 0 &&
        (p->thinking_budget != 0 ||
         (!follows_thinking(p) && p->grammar == NULL &&
          (p->thinking_start.count != 0 || p->thinking_ends.count != 0))))
        return cls_refuse("params->%s is set, but params->thinking_forced, the ids that end the "
                          "thinking, is empty",
                          p->thinking_budget != 0        ? "thinking_budget"
                          : p->thinking_start.count != 0 ? "thinking_start"
                                                         : "thinking_ends");
    return CLS_OK;
}

/* Fails if the grammar is of another vocabulary, or does not have the state. */
static cls_status check_grammar(const cls_params *p, uint32_t vocab)
{
    if (p->grammar == NULL)
        return p->grammar_state == 0
                   ? CLS_OK
                   : cls_refuse("params->grammar_state is %u, but params->grammar is NULL",
                                (unsigned)p->grammar_state);
    if (p->grammar->vocab != vocab)
        return cls_refuse("params->grammar is of a vocabulary of %u; it must be of %u",
                          (unsigned)p->grammar->vocab, (unsigned)vocab);
    return p->grammar_state < p->grammar->states
               ? CLS_OK
               : cls_refuse("params->grammar_state is %u, but params->grammar has %u states",
                            (unsigned)p->grammar_state, (unsigned)p->grammar->states);
}

/* Returns 1 if a stage needs the mass of the tokens that earlier stages kept. */
static int needs_mass(uint8_t stage, const cls_slot *slot)
{
    return stage == CLS_STAGE_TOP_P || stage == CLS_STAGE_TYPICAL_P || stage == CLS_STAGE_XTC ||
           stage == CLS_STAGE_P_LESS || stage == CLS_STAGE_TOP_A || stage == CLS_STAGE_MIROSTAT_2 ||
           (stage == CLS_STAGE_TEMPERATURE && (slot->flags & CLS_SLOT_DYNAMIC));
}

int32_t cls_bits_q20(float x)
{
    return (int32_t)floor(fmin(-cls_log2((double)x), 1000.0) * 1048576.0 + 0.5);
}

/* Fails if something else decides the draw of a request with a watermark, or if what belongs to one
 * is unused. */
static cls_status check_watermark(const cls_params *p)
{
    const char *const other = p->mirostat != 0             ? "mirostat"
                              : p->adaptive_target >= 0.0f ? "adaptive_target"
                              : p->relaxed_top_k != 0      ? "relaxed_top_k"
                                                           : NULL;
    const int sglang = p->watermark_rule == CLS_WATERMARK_SGLANG;
    const char *const unused =
        p->watermark_context == 0 && p->watermark_key != 0       ? "watermark_key"
        : p->watermark_context == 0 && sglang                    ? "watermark_rule"
        : !sglang && p->watermark_key_b != 0                     ? "watermark_key_b"
        : !sglang && p->watermark_max_probability < 1.0f         ? "watermark_max_probability"
        : p->watermark_key_b == 0 && p->watermark_mixing != 0.5f ? "watermark_mixing"
                                                                 : NULL;
    if (unused != NULL)
        return cls_refuse("params->%s is set, but params->%s", unused,
                          p->watermark_context == 0 ? "watermark_context is 0"
                          : !sglang                 ? "watermark_rule is not CLS_WATERMARK_SGLANG"
                                                    : "watermark_key_b is 0");
    return p->watermark_context == 0 || other == NULL
               ? CLS_OK
               : cls_refuse("params->watermark_context is set, and so is params->%s, "
                            "which has another draw",
                            other);
}

static void set_samplers(const cls_params *p, cls_slot *slot)
{
    slot->top_k = p->top_k;
    slot->top_p = unit_q32(p->top_p);
    /* The depth is at least 2^-100, since devices may flush smaller ones to zero. */
    slot->min_p = p->min_p > 0.0f ? (float)fmax(-cls_log2((double)p->min_p), 0x1p-100) : 0.0f;
    slot->low = fmaxf(0.0f, p->temperature - p->dynatemp_range);
    slot->span = (p->temperature + p->dynatemp_range) - slot->low;
    slot->low = cls_flush_subnormal(slot->low);
    slot->exponent = (uint32_t)((double)p->dynatemp_exponent * 65536.0 + 0.5);
    slot->sigma = p->top_n_sigma;
    slot->typical_p = p->typical_p < 1.0f ? unit_q32(p->typical_p) : UINT32_MAX;
    slot->xtc = (uint32_t)((double)p->xtc_probability * 2147483648.0 + 0.5);
    slot->xtc_depth = (uint32_t)cls_bits_q20(p->xtc_threshold);
    slot->top_a = (uint32_t)cls_bits_q20(p->top_a);
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

/* Sets the stages that are on, in order, and what the first of them needs from the survey. */
static void set_chain(const cls_params *p, uint32_t vocab, cls_slot *slot)
{
    const uint8_t mirostat[CLS_CHAIN_LENGTH] = {
        CLS_STAGE_TEMPERATURE, p->mirostat == 1 ? CLS_STAGE_MIROSTAT_1 : CLS_STAGE_MIROSTAT_2};
    const uint8_t *const chain = p->mirostat != 0 ? mirostat
                                 : p->chain == CLS_CHAIN_CUSTOM
                                     ? p->stages
                                     : cls_chain_preset((cls_chain)p->chain);
    uint32_t n = 0;
    int truncated = 0, bounded = 0, blocked = 0;
    float scale = CLS_LOG2E;
    slot->scale = slot->total_scale = CLS_LOG2E;
    if (p->temperature < 1e-5f) {
        slot->flags |= CLS_SLOT_GREEDY;
        slot->flags |= p->relaxed_top_k != 0 ? CLS_SLOT_TOTAL : 0; /* at temperature 1 */
        return;
    }
    set_samplers(p, slot);
    /* The scale is rounded once. It is not subnormal, since some devices flush subnormals. */
    slot->scale = (float)fmax(1.4426950408889634074 / (double)p->temperature, 0x1p-126);
    for (uint32_t i = 0; i < CLS_CHAIN_LENGTH && chain[i] != CLS_STAGE_END; i++) {
        const uint8_t stage = chain[i];
        if (stage < CLS_PUBLIC_STAGES && !cls_stage_is_on(stage, p, vocab))
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
        /* Top-k bounds the set, unless an earlier stage needs more of the row than its maximum and
         * its mass, or drops the likeliest tokens. */
        bounded |= stage == CLS_STAGE_TOP_K && !blocked;
        blocked |= stage != CLS_STAGE_TOP_K && stage != CLS_STAGE_MIN_P &&
                   ((stage != CLS_STAGE_TOP_P && stage != CLS_STAGE_TOP_A) || truncated);
        truncated = 1;
    }
    if (!truncated && (slot->flags & CLS_SLOT_ADAPTIVE))
        slot->flags |= CLS_SLOT_SEARCH; /* the set is the whole row, token by token */
    else if (!truncated)
        slot->flags |= CLS_SLOT_UNTRUNCATED;
    if (!truncated) {
        slot->flags |= CLS_SLOT_TOTAL;
        slot->total_scale = slot->scale;
    } else if (!bounded) {
        slot->flags |= CLS_SLOT_SEARCH;
    }
}

static cls_status slot_from(const cls_params *p, uint32_t vocab, cls_slot *slot)
{
    cls_status status = check_chain(p, vocab);
    if (status == CLS_OK)
        status = cls_params_check_ranges(p);
    if (status == CLS_OK && p->dynatemp_range > 0.0f && p->temperature > 1e30f)
        status = cls_param_refuse("temperature", (double)p->temperature,
                                  "at most 1e30 with a dynatemp_range");
    if (status == CLS_OK && p->top_p_reset_id != -1 &&
        (p->top_p_reset_id < 0 || (uint32_t)p->top_p_reset_id >= vocab))
        status = refuse_id("top_p_reset_id", p->top_p_reset_id, vocab);
    if (status == CLS_OK)
        status = check_lists(p, vocab);
    if (status == CLS_OK)
        status = check_ends(p);
    if (status == CLS_OK)
        status = check_grammar(p, vocab);
    if (status == CLS_OK)
        status = check_watermark(p);
    if (status != CLS_OK)
        return status;

    memset(slot, 0, sizeof *slot);
    slot->flags = CLS_SLOT_BEGUN;
    status = set_windows(p, slot);
    if (status != CLS_OK)
        return status;
    set_penalties(p, slot);
    set_history(p, slot);
    set_ends(p, slot);
    slot->position = p->position;
    slot->seed[0] = (uint32_t)p->seed;
    slot->seed[1] = (uint32_t)(p->seed >> 32);
    slot->stream[0] = (uint32_t)p->stream;
    slot->stream[1] = (uint32_t)(p->stream >> 32);
    set_chain(p, vocab, slot);
    slot->watermark = slot->flags & CLS_SLOT_GREEDY ? 0 : p->watermark_context;
    slot->watermark_key[0] = (uint32_t)p->watermark_key;
    slot->watermark_key[1] = (uint32_t)(p->watermark_key >> 32);
    slot->flags |= p->watermark_rule == CLS_WATERMARK_SGLANG ? CLS_SLOT_SGLANG : 0;
    slot->pending = -1;
    slot->adaptive = slot->next_adaptive = adaptive_begin(slot);
    return CLS_OK;
}

/* ------------------------------------------------------------- parameters by phase */

/* Fails if a request with post_thinking has what does not go with it, or lacks what it needs. */
static cls_status check_phases(const cls_params *p)
{
    const char *const other = p->mirostat != 0                ? "mirostat"
                              : p->adaptive_target >= 0.0f    ? "adaptive_target"
                              : p->top_p_decay < 1.0f         ? "top_p_decay"
                              : p->thinking_forced.count != 0 ? "thinking_forced"
                                                              : NULL;
    if (p->thinking_start.count == 0 || p->thinking_ends.count == 0)
        return cls_refuse("params->post_thinking is set, but params->%s is empty",
                          p->thinking_start.count == 0 ? "thinking_start" : "thinking_ends");
    return other == NULL
               ? CLS_OK
               : cls_refuse(
                     "params->post_thinking is set, and so is params->%s, which is not by phase",
                     other);
}

/* Merges the parameters outside the thinking. Fails if post_thinking sets others. */
static cls_status merge_phases(const cls_params *p, cls_params *merged)
{
    cls_params second, initial;
    const cls_status status = CLS_STRUCT_READ(&second, p->post_thinking, "params->post_thinking");
    cls_params_init(&initial);
    *merged = *p;
    for (const cls_param *row = cls_param_table; status == CLS_OK && row < cls_param_end; row++) {
        const void *const is = cls_param_in(row, &second);
        if (row->by_phase)
            memcpy(cls_param_in(row, merged), is, row->size);
        else if (memcmp(is, cls_param_in(row, &initial), row->size) != 0)
            return cls_refuse("params->post_thinking has %s, which is not by phase: it must have "
                              "its default there",
                              row->field);
    }
    return status != CLS_OK || (second.grammar == NULL && second.grammar_state == 0)
               ? status
               : cls_refuse("params->post_thinking has %s, which is not by phase: it must have its "
                            "default there",
                            second.grammar != NULL ? "grammar" : "grammar_state");
}

cls_status cls_slot_of_answer(const cls_params *p, uint32_t vocab, cls_params *merged,
                              cls_slot *slot)
{
    char why[sizeof((cls_saved_error *)0)->message];
    memset(slot, 0, sizeof *slot);
    if (p->post_thinking == NULL)
        return CLS_OK;
    cls_status status = check_phases(p);
    if (status == CLS_OK)
        status = merge_phases(p, merged);
    if (status != CLS_OK || (status = slot_from(merged, vocab, slot)) == CLS_OK)
        return status;
    snprintf(why, sizeof why, "%s", cls_error_message());
    return cls_fail(status, CL_SUCCESS, "params->post_thinking: %s", why);
}

cls_status cls_slot_from_params(const cls_params *p, uint32_t vocab, cls_slot *slot)
{
    cls_params merged;
    cls_slot answer;
    const cls_status status = slot_from(p, vocab, slot);
    return status == CLS_OK ? cls_slot_of_answer(p, vocab, &merged, &answer) : status;
}

cls_status cls_params_check(const cls_params *params, uint32_t vocab)
{
    cls_params p;
    cls_slot slot;
    if (vocab < 1 || vocab > CLS_MAX_VOCAB)
        return cls_refuse("vocab is %u; it must be 1 to %d", (unsigned)vocab, CLS_MAX_VOCAB);
    const cls_status status = cls_params_read(params, &p);
    return status == CLS_OK ? cls_slot_from_params(&p, vocab, &slot) : status;
}

const char *cls_adaptive_fault(const cls_slot *slot, const cls_slot_adaptive *state)
{
    if ((slot->flags & CLS_SLOT_ADAPTIVE) &&
        (state->weight < 1u << 24 || state->sum > state->weight))
        return "the averages of adaptive p are impossible";
    if ((slot->flags & CLS_SLOT_MIROSTAT) && (state->mu > CLS_MAX_MU || state->mu < -CLS_MAX_MU))
        return "Mirostat's mu is impossible";
    return NULL;
}
