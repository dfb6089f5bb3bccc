/* SPDX-License-Identifier: MIT */
/* The watermark: how the host draws the token of a marked row, and the detector. */
#include "host/host.h"
#include "core/watermark.h"

#include <math.h>
#include <stdlib.h>

/* -------------------------------------------------------------------- the draw */

/* Returns the id that is `back` places before the next token, if it is output. */
static uint32_t output_before(const cls_host_slot *h, uint32_t back)
{
    const uint32_t entry = back <= h->slot.length ? cls_text_entry(h, back) : 0;
    return entry & CLS_ENTRY_OUTPUT ? entry & CLS_ENTRY_ID : CLS_WATERMARK_NONE;
}

/* Sets ids to the context, of w tokens, of the token that is `back` places before the next one.
 * Nothing before a token that is no output belongs to it. */
static void context_of(const cls_host_slot *h, uint32_t w, uint32_t back,
                       uint32_t ids[CLS_WATERMARK_MOST])
{
    for (uint32_t i = w, id = 0; i > 0; i--)
        ids[i - 1] = id = id != CLS_WATERMARK_NONE ? output_before(h, back + w + 1 - i) : id;
}

static int context_repeats(const cls_host_slot *h, uint32_t w,
                           const uint32_t ids[CLS_WATERMARK_MOST])
{
    const uint32_t known = CLS_LAYOUT_HISTORY(h->layout) - w;
    uint32_t earlier[CLS_WATERMARK_MOST];
    for (uint32_t back = 1; back <= known && back <= CLS_WATERMARK_POSITIONS; back++) {
        context_of(h, w, back, earlier);
        if (output_before(h, back) != CLS_WATERMARK_NONE &&
            memcmp(ids, earlier, w * sizeof *ids) == 0)
            return 1;
    }
    return 0;
}

static void hash_context(const uint32_t *ids, uint32_t w, const uint32_t key[2], uint32_t state[4])
{
    watermark_begin(state, w);
    for (uint32_t first = 0; first < w; first += 4) {
        uint32_t four[4] = {0};
        memcpy(four, ids + first, (w - first < 4 ? w - first : 4) * sizeof *ids);
        watermark_hash(state, w, first, four, key);
    }
}

void cls_watermark_draw(cls_sampled *w)
{
    const cls_slot *const slot = &w->slot; /* the parameters of this row's phase */
    uint32_t ids[CLS_WATERMARK_MOST], state[4], words[4];
    cls_marked best = marked_none();
    context_of(w->request, slot->watermark, 0, ids);
    if (context_repeats(w->request, slot->watermark, ids))
        return;
    hash_context(ids, slot->watermark, slot->watermark_key, state);
    for (uint32_t i = cls_next_marked(w, 0); i < w->vocab; i = cls_next_marked(w, i + 1)) {
        watermark_words(words, state, i / 4, slot->watermark_key);
        marked_try(words[i % 4], cls_token_mass(w, i), i, &best);
    }
    w->trace.token = (int32_t)best.id;
}

/* ---------------------------------------------------------------- the detector */

/* A token: the four words of its context's state, and where it is in the text. */
typedef struct scored {
    uint32_t word[5];
} scored;

static int compare_contexts(const void *a, const void *b)
{
    const uint32_t *const x = ((const scored *)a)->word, *const y = ((const scored *)b)->word;
    for (int i = 0; i < 5; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

/* Returns -ln(1 - u), of the number u that vLLM has: rounded to float32. */
static double score_of(const scored *token, const int32_t *ids, const uint32_t key[2])
{
    const uint32_t id = (uint32_t)ids[token->word[4]];
    uint32_t words[4];
    watermark_words(words, token->word, id / 4, key);
    return -log(1.0 - (double)(float)(((words[id % 4] >> 8) + 1.0) / 16777217.0));
}

/* Returns Q(n, x), the tail of a sum of n exponential numbers: e^-x times the sum of x^k / k! for k
 * below n. The logarithms of the terms are added up, since the terms may be too small. */
static double tail_of(uint32_t n, double x)
{
    double sum = 0.0, log_term = -x;
    for (uint32_t k = 1; k <= n && x > 0.0; k++) {
        sum += exp(log_term);
        log_term += log(x / k);
    }
    return x > 0.0 && sum < 1.0 ? sum : 1.0;
}

cls_status cls_watermark_detect(const cls_watermark_call *callers,
                                cls_watermark_score *callers_score)
{
    cls_watermark_call call;
    cls_watermark_score score;
    uint32_t before[CLS_WATERMARK_MOST];
    cls_status status = CLS_STRUCT_READ(&call, callers, "call");
    if (status == CLS_OK)
        status = CLS_STRUCT_READ_OUTPUT(&score, callers_score, "score");
    if (status == CLS_OK)
        status = cls_reserved_check("call->reserved", call.reserved);
    if (status != CLS_OK)
        return status;
    const uint32_t halves[2] = {(uint32_t)call.key, (uint32_t)(call.key >> 32)};
    const uint32_t count = call.output.count, context = call.context;
    const int32_t *const ids = call.output.ids;
    if (ids == NULL && count != 0)
        return cls_refuse("call->output.ids is NULL, but call->output.count is %u",
                          (unsigned)count);
    if (context < 1 || context > CLS_WATERMARK_MOST)
        return cls_refuse("call->context is %u; it must be 1 to %d", (unsigned)context,
                          CLS_WATERMARK_MOST);
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < 0)
            return cls_refuse("call->output.ids[%u] is %d, which is not a token", (unsigned)i,
                              (int)ids[i]);
    scored *const tokens = calloc(count + (size_t)1, sizeof *tokens);
    if (tokens == NULL)
        return cls_no_memory("%u tokens", (unsigned)count);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < context; j++)
            before[j] = i + j >= context ? (uint32_t)ids[i + j - context] : CLS_WATERMARK_NONE;
        hash_context(before, context, halves, tokens[i].word);
        tokens[i].word[4] = i;
    }
    qsort(tokens, count, sizeof *tokens, compare_contexts);
    score.scored = 0;
    score.score = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0 && memcmp(tokens[i].word, tokens[i - 1].word, 4 * sizeof *tokens[i].word) == 0)
            continue; /* the first token after each context counts */
        score.scored++;
        score.score += score_of(&tokens[i], ids, halves);
    }
    free(tokens);
    score.p_value = tail_of(score.scored, score.score);
    CLS_STRUCT_WRITE(&score, callers_score);
    return CLS_OK;
}
