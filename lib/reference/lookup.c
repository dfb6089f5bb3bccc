/* SPDX-License-Identifier: MIT */
/* The reference of cls_draft(): the look-up of a text's end in the text. A place is the number of
 * ids before it, the last of which is a token. */
#include "reference/reference.h"

/* Returns the last place that is not behind `at`; 0 if there is none. */
static uint32_t place_up_to(const cls_host_text *t, uint32_t at)
{
    while (at > 0 && (t->tokens[at - 1] < 0 || (uint32_t)t->tokens[at - 1] >= t->vocab))
        at--;
    return at;
}

/* Returns how many tokens before two places are the same; at most max_n. */
static uint32_t tokens_alike(const cls_host_text *t, uint32_t first, uint32_t end, uint32_t place)
{
    uint32_t same = 0;
    while (same < t->max_n && place > first && t->tokens[end - 1] == t->tokens[place - 1]) {
        same++;
        end = place_up_to(t, end - 1);
        place = place_up_to(t, place - 1);
    }
    return same;
}

static void find_drafts(const cls_host_text *t, int32_t *draft_ids, int32_t *count)
{
    const uint32_t end = place_up_to(t, t->token_count);
    uint32_t first = t->max_history == 0 ? 0 : end, best = 0, found = 0;
    for (uint32_t i = 0; i < t->max_history && first > 0; i++)
        first = place_up_to(t, first - 1);
    for (uint32_t place = end; place > first && best < t->max_n;) {
        place = place_up_to(t, place - 1);
        const uint32_t same = tokens_alike(t, first, end, place);
        if (same > best) {
            best = same;
            found = place;
        }
    }
    const int has_drafts = best >= t->min_n;
    uint32_t next = found;
    for (uint32_t i = 0; i < t->k; i++) {
        if (has_drafts)
            while (place_up_to(t, next + 1) != next + 1)
                next++;
        draft_ids[i] = has_drafts ? t->tokens[next++] : t->fill;
        if (next == end)
            next = found;
    }
    if (count != NULL)
        *count = has_drafts ? (int32_t)t->k : 0;
}

cls_status cls_host_draft(const cls_host_text *callers, int32_t *draft_ids, int32_t *count)
{
    cls_host_text t;
    cls_status status = CLS_STRUCT_READ(&t, callers, "text");
    if (status == CLS_OK && (t.vocab < 1 || t.vocab > CLS_MAX_VOCAB))
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "text->vocab is %u; it must be 1 to %d",
                          (unsigned)t.vocab, CLS_MAX_VOCAB);
    if (status == CLS_OK)
        status = cls_lookup_check("text", t.k, t.min_n, t.max_n, t.fill, t.vocab);
    if (status == CLS_OK && t.tokens == NULL && t.token_count != 0)
        status =
            cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                     "text->token_count is %u, but text->tokens is NULL", (unsigned)t.token_count);
    if (status == CLS_OK && draft_ids == NULL)
        status = cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "draft_ids is NULL");
    if (status == CLS_OK)
        find_drafts(&t, draft_ids, count);
    return status;
}
