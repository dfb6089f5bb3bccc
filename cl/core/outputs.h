/* SPDX-License-Identifier: MIT */
/* The outputs of a step and of a verification. `wants` of a cls_args has a bit for each. */
#ifndef CLS_OUTPUTS_H
#define CLS_OUTPUTS_H

#include "core/buffers.h"

/* The outputs of a row beside its token, as core/buffers.h lists them. */
#define CLS_OUTPUT_NUMBER(X, NUMBER, type, name, field, access, width, count, feature) \
    CLS_OUT_##NUMBER,
/* CLS_OUT_SET_OFFSETS: of sets that lie one behind the other. */
enum cls_output { CLS_OUTPUTS_TABLE(CLS_OUTPUT_NUMBER, 0) CLS_OUT_SET_OFFSETS, CLS_OUTPUTS };
#define CLS_WANTS(output) (1u << (output))
#define CLS_WANTS_OUTPUTS (CLS_WANTS(CLS_OUTPUTS) - 1)
/* The outputs before CLS_OUT_ENTROPY are of the raw row or of the final distribution, the others
 * only of the latter. */
#define CLS_WANTS_OF_EITHER (CLS_WANTS(CLS_OUT_ENTROPY) - 1)
#define CLS_WANTS_SUMS (CLS_WANTS(CLS_OUT_ENTROPY) | CLS_WANTS(CLS_OUT_KEPT_MASS))
#define CLS_WANTS_TILES \
    (CLS_WANTS_SUMS | CLS_WANTS(CLS_OUT_PROBS) | CLS_WANTS(CLS_OUT_FINAL_LOGITS))
#define CLS_WANTS_SET \
    (CLS_WANTS(CLS_OUT_SET_IDS) | CLS_WANTS(CLS_OUT_SET_COUNTS) | CLS_WANTS(CLS_OUT_SET_OFFSETS))
/* The launches of cls_kept. */
enum {
    CLS_KEPT_WRITE = 0,
    CLS_KEPT_COUNT = 1,
    CLS_KEPT_PLACE = 2,
};

enum cls_verified {
    CLS_VERIFIED_TOKENS = CLS_OUTPUTS,
    CLS_VERIFIED_ACCEPTED,
    CLS_VERIFIED_EMITTED,
    CLS_VERIFIED_DRAFTED,
    CLS_VERIFIED_NODES,
    CLS_VERIFIED_STATUS,
    CLS_VERIFIED_COUNTERS,
    CLS_VERIFIED_LATEST,
    CLS_VERIFIED_TOKEN_STATUS,
    CLS_VERIFIED
};

#endif
