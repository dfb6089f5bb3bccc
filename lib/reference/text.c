/* SPDX-License-Identifier: MIT */
/* The reference of what follows from the end of a request's text: the ids that it must emit, by its
 * thinking budget or because the caller forces them, and whether its output ends in a loop. */
#include "reference/reference.h"

int cls_text_ends_with(const cls_scratch *w, uint32_t n, const int32_t *ids, uint32_t count)
{
    uint32_t same = 0;
    while (count <= n && same < count && w->text[n - count + same] == (uint32_t)ids[same])
        same++;
    return same == count;
}

/* Returns 1 if the request thinks after the whole text, and in *forced the id that its thinking
 * budget forces then, or -1. */
static int thinks_after(const cls_scratch *w, int32_t *forced)
{
    const cls_params *const p = &w->params;
    const uint32_t prompt = w->length - w->outputs;
    const int has_budget = p->thinking_forced.count != 0;
    int thinks = p->thinking_start.count == 0;
    uint32_t count = 0;   /* output tokens of the thinking */
    uint32_t emitted = 0; /* ids of thinking_forced that the output has */
    for (uint32_t i = 0; i < w->length; i++) {
        const int is_due = thinks && has_budget && count >= p->thinking_budget;
        if (!thinks) {
            thinks = p->thinking_start.count != 0 &&
                     cls_text_ends_with(w, i + 1, p->thinking_start.ids, p->thinking_start.count);
        } else if (is_due && i >= prompt &&
                   w->text[i] == (uint32_t)p->thinking_forced.ids[emitted]) {
            emitted++;
            thinks = emitted < p->thinking_forced.count;
        } else if (p->thinking_end.count != 0 &&
                   cls_text_ends_with(w, i + 1, p->thinking_end.ids, p->thinking_end.count)) {
            thinks = 0;
        } else if (!is_due && i >= prompt) {
            count++;
        }
        if (!thinks)
            count = emitted = 0;
    }
    *forced =
        thinks && has_budget && count >= p->thinking_budget ? p->thinking_forced.ids[emitted] : -1;
    return thinks;
}

int cls_scratch_relaxes(const cls_scratch *w)
{
    int32_t forced;
    return w->params.relaxed_top_k != 0 && thinks_after(w, &forced);
}

int32_t cls_scratch_forced(const cls_scratch *w, uint32_t at)
{
    int32_t forced = at < w->row.forced_count ? w->row.forced_ids[at] : -1;
    if (at >= w->row.forced_count && w->params.thinking_forced.count != 0)
        thinks_after(w, &forced);
    return forced;
}

uint32_t cls_scratch_loops(const cls_scratch *w, uint32_t length, uint32_t outputs, uint32_t id)
{
    const cls_params *const p = &w->params;
    for (uint32_t n = p->loop_min; p->loop_repeats != 0 && n <= p->loop_max; n++) {
        const uint64_t all = (uint64_t)n * p->loop_repeats;
        uint32_t same = 0; /* tokens before the end that equal those n tokens earlier */
        if (all > (uint64_t)outputs + 1)
            break;
        while (same < all - n &&
               w->text[length - same - n] == (same == 0 ? id : w->text[length - same]))
            same++;
        if (same == all - n)
            return CLS_ROW_STOPPED | CLS_ROW_LOOP;
    }
    return 0;
}
