/* SPDX-License-Identifier: MIT */
/* The reference of what follows from the end of a request's text: the ids that it must emit, by its
 * thinking budget or because the caller forces them, and whether its output ends in a loop. */
#include "reference/reference.h"

/* Returns 1 if the first n tokens of the text end with a sequence. */
static int ends_with(const cls_work *w, uint32_t n, const int32_t *ids, uint32_t count)
{
    if (count == 0 || count > n)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (w->text[n - count + i] != (uint32_t)ids[i])
            return 0;
    return 1;
}

/* Returns the id that the thinking budget forces after the whole text, or -1. */
static int32_t thinking_id(const cls_work *w)
{
    const cls_params *const p = w->params;
    const uint32_t prompt = w->length - w->outputs;
    int thinks = p->thinking_start_count == 0;
    uint32_t count = 0;   /* output tokens of the thinking */
    uint32_t emitted = 0; /* ids of thinking_forced that the output has */
    if (p->thinking_forced_count == 0)
        return -1;
    for (uint32_t i = 0; i < w->length; i++) {
        const int is_due = thinks && count >= p->thinking_budget;
        if (!thinks) {
            thinks = ends_with(w, i + 1, p->thinking_start, p->thinking_start_count);
        } else if (is_due && i >= prompt && w->text[i] == (uint32_t)p->thinking_forced[emitted]) {
            emitted++;
            thinks = emitted < p->thinking_forced_count;
        } else if (ends_with(w, i + 1, p->thinking_end, p->thinking_end_count)) {
            thinks = 0;
        } else if (!is_due && i >= prompt) {
            count++;
        }
        if (!thinks)
            count = emitted = 0;
    }
    return thinks && count >= p->thinking_budget ? p->thinking_forced[emitted] : -1;
}

int32_t cls_work_forced(const cls_work *w, uint32_t at)
{
    return at < w->row->forced_count ? w->row->forced_ids[at] : thinking_id(w);
}

int cls_work_loops(const cls_work *w, uint32_t length, uint32_t outputs, uint32_t id)
{
    const cls_params *const p = w->params;
    for (uint32_t n = p->loop_min; p->loop_repeats != 0 && n <= p->loop_max; n++) {
        const uint64_t all = (uint64_t)n * p->loop_repeats;
        uint32_t same = 0; /* tokens before the end that equal those n tokens earlier */
        if (all > (uint64_t)outputs + 1)
            break;
        while (same < all - n &&
               w->text[length - same - n] == (same == 0 ? id : w->text[length - same]))
            same++;
        if (same == all - n)
            return 1;
    }
    return 0;
}
