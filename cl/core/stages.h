/* SPDX-License-Identifier: MIT */
/* The stages of a chain, as bytes of cls_slot.chain: the values of cls_stage in clsample.h, and two
 * more for Mirostat. */
#ifndef CLS_STAGES_H
#define CLS_STAGES_H

#ifdef __OPENCL_C_VERSION__
enum {
    CLS_STAGE_END = 0,
    CLS_STAGE_TEMPERATURE = 1,
    CLS_STAGE_TOP_K = 2,
    CLS_STAGE_TOP_P = 3,
    CLS_STAGE_MIN_P = 4,
    CLS_STAGE_TOP_N_SIGMA = 5,
    CLS_STAGE_TYPICAL_P = 6,
    CLS_STAGE_XTC = 7,
    CLS_STAGE_P_LESS = 8,
    CLS_STAGE_INFILL = 9,
    CLS_STAGE_TOP_A = 10,
};
#endif
enum {
    CLS_STAGE_MIROSTAT_1 = 11,
    CLS_STAGE_MIROSTAT_2 = 12,
    CLS_STAGES = 13,
    CLS_MAX_STAGES = 16,
};
#define CLS_MIROSTAT_RANKS 100 /* tokens from which Mirostat 1 estimates the slope */

#endif
