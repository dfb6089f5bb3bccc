/* SPDX-License-Identifier: MIT */
/* The adjusted logits by the single float32 operations of cl/core/arithmetic.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_row_host.h"
#include "oracle.h"

static void *room(size_t size)
{
    void *const memory = malloc(size);
    if (memory == NULL)
        abort();
    return memory;
}

static void demand(cls_status status)
{
    if (status == CLS_OK)
        return;
    fprintf(stderr, "the oracle: %s\n", cls_error_message());
    abort();
}

/* Marks the ids that the row's grammar and allowed_ids leave after its text, with 2 where they end
 * the text. Returns 1 if no others are left. */
static int left_by_grammar(const one_row *row, uint8_t *left)
{
    const cls_params *const p = row->params;
    cls_stateless w;
    int more = 0, any = 0;
    demand(cls_stateless_open(&w, row));
    const cls_slot *const slot = &w.host->slot->slot;
    const int applies = slot->thinking == 0;
    const uint32_t now = slot->grammar_state;
    cls_host_destroy(w.host);
    memset(left, p->only_allowed == 0 && p->allowed_ids.count == 0, row->vocab);
    for (uint32_t i = 0; i < p->allowed_ids.count; i++)
        left[p->allowed_ids.ids[i]] = 1;
    for (uint32_t i = 0; i < row->vocab && applies; i++) {
        const int32_t id = (int32_t)i;
        uint32_t next = now;
        demand(cls_grammar_advance(p->grammar, &id, 1, &next));
        left[i] = (uint8_t)(next == CLS_GRAMMAR_DEAD ? 0 : left[i] << (next == CLS_GRAMMAR_ENDED));
    }
    for (uint32_t i = 0; i < p->stop_ids.count; i++)
        left[p->stop_ids.ids[i]] = (uint8_t)(left[p->stop_ids.ids[i]] != 0 ? 2 : 0);
    for (uint32_t i = 0; i < row->vocab; i++) {
        more |= left[i] == 1;
        any |= left[i] == 2;
    }
    return any && !more && applies;
}

void oracle_rounded(const one_row *row, float *adjusted)
{
    const cls_params *const p = row->params;
    oracle_effect *const touches = room(row->vocab * sizeof *touches);
    uint8_t *const left = p->grammar != NULL ? room(row->vocab) : NULL;
    cls_slot slot;
    one_row before = *row; /* without min_tokens where only ends are left */
    cls_params params = *p;
    demand(cls_slot_from_params(p, row->vocab, &slot)); /* neutral penalties do not round */
    params.min_tokens = left != NULL && left_by_grammar(row, left) ? 0 : p->min_tokens;
    before.params = &params;
    oracle_effects(&before, touches);
    for (uint32_t i = 0; i < row->vocab; i++) {
        const oracle_effect *const t = &touches[i];
        double bias;
        const int biased = oracle_biases(p, i, &bias);
        const int stays =
            oracle_allows(row, i) && !t->banned && !t->unlisted && (left == NULL || left[i] != 0);
        float x = stays ? clean(oracle_raw(row, i)) : -INFINITY;
        x = biased ? add_bias(x, cls_flush_subnormal((float)bias)) : x;
        if (!t->spared && (slot.flags & CLS_SLOT_PENALIZED))
            x = penalize_each(
                x, t->repeats > 0, t->counted < CLS_MAX_COUNT ? t->counted : CLS_MAX_COUNT,
                t->present > 0, p->repetition_penalty, (float)(1.0 / (double)p->repetition_penalty),
                p->frequency_penalty, p->presence_penalty);
        if (t->dry >= 0 && x > -INFINITY)
            x = settle(x - cls_flush_subnormal((float)oracle_dry_amount(p, t->dry)));
        adjusted[i] = x;
    }
    free(left);
    free(touches);
}
