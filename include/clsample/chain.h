/* SPDX-License-Identifier: MIT */
/* clsample: the order in which parameters apply, and the stages of a request's chain.
 *
 * Before the chain a row's logits are adjusted in this order:
 *
 * 1. the step's mask and allowed_ids,
 * 2. the step's dense bias, times its factor,
 * 3. logit_bias,
 * 4. the bans: bad_words, no_repeat_ngram, min_tokens,
 * 5. the repetition, the frequency and the presence penalty,
 * 6. DRY.
 *
 * After each of 3, 5 and 6 a logit is limited to the finite floats. A token that is masked or
 * banned is never drawn, whatever follows. */
#ifndef CLSAMPLE_CHAIN_H
#define CLSAMPLE_CHAIN_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A stage of a row's chain: the temperature, or a truncation. */
typedef enum cls_stage {
    CLS_STAGE_END = 0,         /* ends a list of stages */
    CLS_STAGE_TEMPERATURE = 1, /* params->temperature, or dynatemp_range */
    CLS_STAGE_TOP_K = 2,       /* params->top_k */
    CLS_STAGE_TOP_P = 3,       /* params->top_p */
    CLS_STAGE_MIN_P = 4,       /* params->min_p */
    CLS_STAGE_TOP_N_SIGMA = 5, /* params->top_n_sigma */
    CLS_STAGE_TYPICAL_P = 6,   /* params->typical_p */
    CLS_STAGE_XTC = 7,         /* params->xtc_probability */
    CLS_STAGE_P_LESS = 8,      /* params->p_less */
    CLS_STAGE_INFILL = 9,      /* params->infill */
    CLS_STAGE_TOP_A = 10       /* params->top_a */
} cls_stage;

/* The order in which a row's temperature and truncations apply. Each truncation sees the tokens
 * that the stage before it kept, renormalised; a stage before the temperature works at
 * temperature 1. A stage that is off does nothing. Each preset contains all stages, so that no
 * parameter is without effect: top-a follows min-p, and the other stages that the preset's comment
 * does not name come last, in the order top-n-sigma, typical, XTC, p-less, infill.
 * cls_chain_stages() lists a preset. */
typedef enum cls_chain {
    CLS_CHAIN_DEFAULT = 0, /* temperature, top-k, top-p, min-p (QEfficient, Hugging Face) */
    CLS_CHAIN_VLLM = 1,    /* temperature, min-p, top-k, top-p (vLLM) */
    CLS_CHAIN_LLAMA = 2,   /* top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature
                              (llama.cpp) */
    CLS_CHAIN_CUSTOM = 3   /* params->stages */
} cls_chain;
#define CLS_CHAIN_LENGTH 16 /* stages that a chain can have */

/* Writes the stages of a preset (a cls_chain, but not CLS_CHAIN_CUSTOM) in their order, and
 * CLS_STAGE_END after them. Any thread may call this.
 * CLS_OK; CLS_BAD_ARGUMENT: `chain` is no preset, or `stages` is NULL. */
CLS_API CLS_WARN_UNUSED cls_status cls_chain_stages(int32_t chain,
                                                    uint8_t stages[CLS_CHAIN_LENGTH]);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_CHAIN_H */
