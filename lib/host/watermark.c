/* SPDX-License-Identifier: MIT */
/* The watermark: how the host draws the token of a marked row, and the detector. */
#include "host/host.h"
#include "core/watermark.h"

#include <math.h>
#include <stdlib.h>

/* -------------------------------------------------------------------- the draw */

/* Returns the id that is `back` places before the next token, if it is output, or if any counts. */
static uint32_t id_before(const cls_host_slot *h, uint32_t back, int any)
{
    const uint32_t entry = back <= h->slot.length ? cls_text_entry(h, back) : 0;
    return entry & CLS_ENTRY_OUTPUT || (any && back <= h->slot.length) ? entry & CLS_ENTRY_ID
                                                                       : CLS_WATERMARK_NONE;
}

/* Sets ids to the context, of w tokens, of the token that is `back` places before the next one.
 * Nothing before one that does not count belongs to it. */
static void context_of(const cls_host_slot *h, uint32_t w, uint32_t back, int any,
                       uint32_t ids[CLS_WATERMARK_MOST])
{
    for (uint32_t i = w, id = 0; i > 0; i--)
        ids[i - 1] = id = id != CLS_WATERMARK_NONE ? id_before(h, back + w + 1 - i, any) : id;
}

static int context_repeats(const cls_host_slot *h, uint32_t w, int any,
                           const uint32_t ids[CLS_WATERMARK_MOST])
{
    const uint32_t known = CLS_LAYOUT_HISTORY(h->layout) - w;
    uint32_t earlier[CLS_WATERMARK_MOST];
    for (uint32_t back = 1; back <= known && back <= CLS_WATERMARK_POSITIONS; back++) {
        context_of(h, w, back, any, earlier);
        if (id_before(h, back, 0) != CLS_WATERMARK_NONE &&
            memcmp(ids, earlier, w * sizeof *ids) == 0)
            return 1;
    }
    return 0;
}

static void hash_context(const uint32_t *ids, uint32_t w, const uint32_t key[2], cls_mark *mark)
{
    mark->sglang = 0;
    mark->key[0] = key[0];
    mark->key[1] = key[1];
    watermark_begin(mark->state, w);
    for (uint32_t first = 0; first < w; first += 4) {
        uint32_t four[4] = {0};
        memcpy(four, ids + first, (w - first < 4 ? w - first : 4) * sizeof *ids);
        watermark_hash(mark->state, w, first, four, key);
    }
}

/* Does this by SGLang's rule, with its words, from the last n ids of w. */
static void hash_words(const uint32_t *ids, uint32_t w, uint32_t n,
                       const uint32_t words[CLS_SGLANG_WORDS], cls_mark *mark)
{
    uint32_t hash = 0;
    for (uint32_t i = w - n; i < w; i++)
        hash = murmur_word(hash, ids[i]);
    watermark_keyed(mark, murmur_end(hash, n), words + CLS_SGLANG_KEYS, words[CLS_SGLANG_MIXING]);
}

/* Whether the set's likeliest token is too likely for a mark. */
static int is_too_likely(const cls_sampled *w, uint32_t most)
{
    const float top = float_of_key(w->trace.top_key);
    const uint64_t mass = (uint64_t)weight(top, top, w->scale, split(top, w->scale).fraction) << 13;
    return watermark_spares(mass, w->trace.mass, most);
}

void cls_watermark_draw(cls_sampled *w)
{
    const cls_slot *const slot = &w->slot; /* the parameters of this row's phase */
    const int any = slot->flags & CLS_SLOT_SGLANG ? 1 : 0;
    const uint32_t length = w->request->slot.length, n = slot->watermark;
    uint32_t ids[CLS_WATERMARK_MOST], words[4];
    cls_mark mark = {0};
    cls_marked best = marked_none();
    context_of(w->request, n, 0, any, ids);
    if ((any && length == 0) || context_repeats(w->request, n, any, ids))
        return;
    if (any) {
        uint32_t numbers[CLS_SGLANG_WORDS];
        cls_sglang_words(w->request->params, numbers);
        if (is_too_likely(w, numbers[CLS_SGLANG_MOST]))
            return;
        hash_words(ids, n, n < length ? n : length, numbers, &mark);
    } else
        hash_context(ids, n, slot->watermark_key, &mark);
    for (uint32_t i = cls_next_marked(w, 0); i < w->vocab; i = cls_next_marked(w, i + 1)) {
        watermark_words(words, &mark, i / 4);
        marked_try(&mark, words[i % 4], cls_token_mass(w, i), i, &best);
    }
    w->trace.token = (int32_t)best.id;
}

/* ---------------------------------------------------------------- the detector */

/* SGLang marks after so many contexts of a request, and its detector counts so many. */
#define MOST_CONTEXTS 4096u

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

/* Returns -ln(1 - u), of the number u that SGLang has, or vLLM: rounded to float32. */
static double score_of(const cls_mark *mark, uint32_t id)
{
    uint32_t words[4];
    watermark_words(words, mark, id / 4);
    return mark->sglang ? -log((4294967295.5 - words[id % 4]) / 4294967296.0)
                        : -log(1.0 - (double)(float)(((words[id % 4] >> 8) + 1.0) / 16777217.0));
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

static cls_status check_text(const char *name, const cls_ids *ids)
{
    if (ids->ids == NULL && ids->count != 0)
        return cls_refuse("call->%s.ids is NULL, but call->%s.count is %u", name, name,
                          (unsigned)ids->count);
    for (uint32_t i = 0; i < ids->count; i++)
        if (ids->ids[i] < 0)
            return cls_refuse("call->%s.ids[%u] is %d, which is not a token", name, (unsigned)i,
                              (int)ids->ids[i]);
    return CLS_OK;
}

static cls_status check_detection(const cls_watermark_call *call)
{
    cls_status status = cls_reserved_check("call->reserved", call->reserved);
    if (status == CLS_OK)
        status = check_text("output", &call->output);
    if (status == CLS_OK)
        status = check_text("prompt", &call->prompt);
    if (status != CLS_OK)
        return status;
    if (call->context < 1 || call->context > CLS_WATERMARK_MOST)
        return cls_refuse("call->context is %u; it must be 1 to %d", (unsigned)call->context,
                          CLS_WATERMARK_MOST);
    if (call->rule != CLS_WATERMARK_VLLM && call->rule != CLS_WATERMARK_SGLANG)
        return cls_refuse("call->rule is %d; it must be CLS_WATERMARK_VLLM (0) or "
                          "CLS_WATERMARK_SGLANG (1)",
                          (int)call->rule);
    if (call->rule == CLS_WATERMARK_VLLM && (call->key_b != 0 || call->prompt.count != 0))
        return cls_refuse("call->%s is set, but call->rule is not CLS_WATERMARK_SGLANG",
                          call->key_b != 0 ? "key_b" : "prompt");
    return call->mixing > 0.0f && call->mixing < 1.0f
               ? CLS_OK
               : cls_refuse("call->mixing is %g; it must be above 0 and below 1",
                            (double)call->mixing);
}

/* Sets ids to the context of the output's token i. Returns how many of its ids there are. */
static uint32_t context_in(const cls_watermark_call *call, uint32_t i, uint32_t *ids)
{
    const uint32_t w = call->context, before = call->prompt.count;
    uint32_t known = 0;
    for (uint32_t j = 0; j < w; j++) {
        const uint64_t at = (uint64_t)before + i + j; /* in prompt and output, plus w */
        const int is_known = at >= w;
        ids[j] = !is_known          ? CLS_WATERMARK_NONE
                 : at - w >= before ? (uint32_t)call->output.ids[at - w - before]
                                    : (uint32_t)call->prompt.ids[at - w];
        known += (uint32_t)is_known;
    }
    return known;
}

/* Marks the first token after each context: those that count. Contexts are equal if 128 bits of
 * theirs are. */
static void mark_first(const cls_watermark_call *call, scored *tokens, uint8_t *counts)
{
    static const uint32_t key[2] = {0, 0};
    uint32_t ids[CLS_WATERMARK_MOST];
    cls_mark mark = {0};
    for (uint32_t i = 0; i < call->output.count; i++) {
        (void)context_in(call, i, ids);
        hash_context(ids, call->context, key, &mark);
        memcpy(tokens[i].word, mark.state, sizeof mark.state);
        tokens[i].word[4] = i;
    }
    qsort(tokens, call->output.count, sizeof *tokens, compare_contexts);
    for (uint32_t i = 0; i < call->output.count; i++)
        counts[tokens[i].word[4]] =
            i == 0 || memcmp(tokens[i].word, tokens[i - 1].word, sizeof mark.state) != 0;
}

cls_status cls_watermark_detect(const cls_watermark_call *callers,
                                cls_watermark_score *callers_score)
{
    cls_watermark_call call;
    cls_watermark_score score;
    uint32_t ids[CLS_WATERMARK_MOST], words[CLS_SGLANG_WORDS];
    cls_mark mark = {0};
    cls_status status = CLS_STRUCT_READ(&call, callers, "call");
    if (status == CLS_OK)
        status = CLS_STRUCT_READ_OUTPUT(&score, callers_score, "score");
    if (status == CLS_OK)
        status = check_detection(&call);
    if (status != CLS_OK)
        return status;
    const cls_params params = {
        .watermark_key = call.key, .watermark_key_b = call.key_b, .watermark_mixing = call.mixing};
    const int sglang = call.rule == CLS_WATERMARK_SGLANG;
    const uint32_t count = call.output.count, most = sglang ? MOST_CONTEXTS : UINT32_MAX;
    scored *const tokens = calloc(count + (size_t)1, sizeof *tokens);
    uint8_t *const counts = calloc(count + (size_t)1, 1);
    score.scored = 0;
    score.score = 0.0;
    if (tokens != NULL && counts != NULL)
        mark_first(&call, tokens, counts);
    else
        status = cls_no_memory("%u tokens", (unsigned)count);
    cls_sglang_words(&params, words);
    for (uint32_t i = sglang && call.prompt.count == 0 ? call.context : 0;
         i < count && score.scored < most && status == CLS_OK; i++) {
        const uint32_t known = context_in(&call, i, ids);
        if (!counts[i])
            continue;
        if (sglang)
            hash_words(ids, call.context, known, words, &mark);
        else
            hash_context(ids, call.context, words + CLS_SGLANG_KEYS, &mark);
        score.scored++;
        score.score += score_of(&mark, (uint32_t)call.output.ids[i]);
    }
    free(tokens);
    free(counts);
    if (status != CLS_OK)
        return status;
    score.p_value = tail_of(score.scored, score.score);
    CLS_STRUCT_WRITE(&score, callers_score);
    return CLS_OK;
}
