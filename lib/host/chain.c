/* SPDX-License-Identifier: MIT */
/* The chain on the host: runs its stages, one after the other, on the set of the row. */
#include "host/host.h"

#define ROW(stage, run, keeps_min, name, field, on) \
    [CLS_STAGE_##stage] = {cls_stage_##run, keeps_min},
static const struct {
    cls_stage_run *run;
    int keeps_min; /* 1: at least min_keep tokens stay */
} stages[CLS_STAGES] = {[CLS_STAGE_MIROSTAT_1] = {cls_stage_mirostat_1, 0},
                        [CLS_STAGE_MIROSTAT_2] = {cls_stage_mirostat_2, 0},
                        CLS_STAGE_TABLE(ROW)};
#undef ROW

void cls_chain_run(cls_sampled *w)
{
    w->truncated = 0;
    if (w->slot.flags & CLS_SLOT_TOTAL) {
        w->scale = w->slot.total_scale;
        cls_weigh(w);
        w->trace.total = cls_row_mass(w);
    }
    w->scale = CLS_LOG2E;
    for (uint32_t i = 0; i < CLS_MAX_STAGES && w->n > 0; i++) {
        const uint32_t stage = cls_slot_stage(&w->slot, i);
        if (stage == CLS_STAGE_END)
            return;
        cls_weigh(w);
        const uint32_t n = stages[stage].run(w);
        const uint32_t least = stages[stage].keeps_min ? w->slot.min_keep : 0;
        const uint32_t kept = n > least ? n : least;
        cls_set_cut(w, kept < w->n ? kept : w->n);
        w->truncated |= stage != CLS_STAGE_TEMPERATURE || (w->slot.flags & CLS_SLOT_DYNAMIC) != 0;
    }
}
