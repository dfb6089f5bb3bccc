/* SPDX-License-Identifier: MIT */
/* On the host: top-k. */
#include "host/host.h"

uint32_t cls_stage_top_k(cls_sampled *w) { return (uint32_t)w->slot.top_k; }
