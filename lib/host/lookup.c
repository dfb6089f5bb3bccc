/* SPDX-License-Identifier: MIT */
/* The look-up of a text's end in the text, for cls_draft(). A place is the number of tokens before
 * it. */
#include "host/host.h"

/* Returns how many tokens before two places are the same; at most `most`. */
static uint32_t tokens_alike(const int32_t *text, uint32_t end, uint32_t place, uint32_t most)
{
    uint32_t same = 0;
    while (same < most && same < place && text[end - 1 - same] == text[place - 1 - same])
        same++;
    return same;
}

uint32_t cls_lookup(const cls_draft_call *call, const int32_t *text, uint32_t n, int32_t *drafts,
                    uint64_t stride)
{
    uint32_t best = 0, found = 0;
    for (uint32_t place = n; place-- > 1 && best < call->max_n;) {
        const uint32_t same = tokens_alike(text, n, place, call->max_n);
        if (same > best) {
            best = same;
            found = place;
        }
    }
    const int has_drafts = best >= call->min_n;
    for (uint32_t i = 0; i < call->k; i++)
        drafts[i * stride] = has_drafts ? text[found + i % (n - found)] : call->fill;
    return has_drafts ? call->k : 0;
}
