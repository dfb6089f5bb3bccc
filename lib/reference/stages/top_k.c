/* SPDX-License-Identifier: MIT */
/* The reference of top-k. */
#include "reference/reference.h"

uint32_t cls_stage_top_k(cls_sampled *w) { return (uint32_t)w->slot.top_k; }
