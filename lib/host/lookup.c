/* SPDX-License-Identifier: MIT */
/* The drafts of cls_draft(): what followed when the text last ended as it does now, and what the
 * states of a grammar draft. A place is the number of tokens before it. */
#include "host/host.h"

/* Returns how many tokens before two places are the same; at most `most`. */
static uint32_t tokens_alike(const int32_t *text, uint32_t end, uint32_t place, uint32_t most)
{
    uint32_t same = 0;
    while (same < most && same < place && text[end - 1 - same] == text[place - 1 - same])
        same++;
    return same;
}

/* Returns the distance of the best place from the end; 0 if there is none. */
static uint32_t find_place(const cls_draft_call *call, const int32_t *text, uint32_t n)
{
    uint32_t best = 0, found = 0;
    for (uint32_t place = n; place-- > 1 && best < call->max_n;) {
        const uint32_t same = tokens_alike(text, n, place, call->max_n);
        if (same > best) {
            best = same;
            found = place;
        }
    }
    return best >= call->min_n ? n - found : 0;
}

/* Returns 1 if the parameters of a request that a grammar rules forbid an id. */
static int forbids_draft(const cls_host_slot *h, uint32_t id)
{
    const cls_params *const p = h->params;
    int allowed = !cls_params_allow_some(p), banned = 0;
    for (uint32_t i = 0; i < p->allowed_ids.count; i++)
        allowed |= (uint32_t)p->allowed_ids.ids[i] == id;
    for (uint32_t i = 0; i < p->bad_words.count; i++)
        banned |= p->bad_words.sequences[i].count == 1 &&
                  (uint32_t)p->bad_words.sequences[i].ids[0] == id;
    return !allowed || banned ||
           (h->slot.outputs < h->slot.min_tokens && cls_text_is_stop(h, id) &&
            !cls_text_leaves_ends(h));
}

/* Sets the drafts of a request that a grammar rules, and returns their number. copied: [distance]
 * what the text has. */
static uint32_t draft_by_grammar(const cls_draft_call *call, const cls_host_slot *h,
                                 const int32_t *copied, uint32_t distance, int32_t *drafts,
                                 uint64_t stride)
{
    const cls_grammar *const grammar = cls_text_grammar(h);
    cls_host_slot now = *h; /* whose text stays as it is */
    cls_text_state next = {0, h->slot.grammar_state, CLS_ROW_OK};
    uint32_t n = 0;
    while (n < call->k && next.ends == CLS_ROW_OK && now.slot.grammar_state < grammar->states) {
        const uint32_t of_text = distance != 0 ? (uint32_t)copied[n % distance] : CLS_NO_DRAFT,
                       of_state = grammar_draft(grammar->words, now.slot.grammar_state),
                       id = of_state != CLS_NO_DRAFT ? of_state : of_text;
        if (id == CLS_NO_DRAFT || forbids_draft(&now, id))
            break;
        next = cls_text_next(&now, id, 1);
        if (next.grammar == CLS_GRAMMAR_DEAD)
            break;
        now.slot.grammar_state = next.grammar;
        now.slot.outputs++;
        drafts[n++ * stride] = (int32_t)id;
        distance = id == of_text ? distance : 0;
    }
    return n;
}

uint32_t cls_lookup(const cls_draft_call *call, const cls_host_slot *h, const int32_t *text,
                    uint32_t n, int32_t *drafts, uint64_t stride)
{
    const uint32_t distance = find_place(call, text, n);
    const int32_t *const copied = text + n - distance;
    uint32_t count = 0;
    if (h != NULL && cls_text_grammar(h) != NULL)
        count = draft_by_grammar(call, h, copied, distance, drafts, stride);
    else
        for (; distance != 0 && count < call->k; count++)
            drafts[count * stride] = copied[count % distance];
    for (uint32_t i = count; i < call->k; i++)
        drafts[i * stride] = call->fill;
    return count;
}
