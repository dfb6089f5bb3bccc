/* SPDX-License-Identifier: MIT */
/* The slot calls. Each one checks and copies its arguments and records a change. The device runs
 * the changes before the next step. */
#include "sampler/sampler.h"

#include <stdio.h>
#include <stdlib.h>

/* `name`: the argument that is the slot. */
static cls_status check_slot(const cls_sampler *s, const char *name, uint32_t slot, int begun)
{
    if (s == NULL)
        return cls_refuse("sampler is NULL");
    if (s->lost != CL_SUCCESS)
        return cls_sampler_lost(s);
    if (slot >= s->slots)
        return cls_refuse("%s is %u, but the sampler has slots 0 to %u", name, (unsigned)slot,
                          (unsigned)s->slots - 1);
    if (begun && !(s->request[slot].slot.flags & CLS_SLOT_BEGUN))
        return cls_refuse("%s is %u, which has no request: call cls_slot_begin() first", name,
                          (unsigned)slot);
    return CLS_OK;
}

cls_status cls_slot_check(const cls_sampler *s, uint32_t slot, int begun)
{
    return check_slot(s, "slot", slot, begun);
}

/* ----------------------------------------------------------------- parameters */

void cls_checked_params_free(cls_checked_params *p)
{
    cls_arrays_free(&p->params);
    free(p->words);
    memset(p, 0, sizeof *p);
}

/* Fails if a parameter needs more of the latest tokens than the sampler's history keeps. Kernels
 * look for bad words in CLS_MAX_HISTORY tokens of a longer history. */
static cls_status check_histories(const cls_sampler *s, const cls_params *p)
{
    cls_history_need need;
    for (uint32_t i = 0; i < p->bad_words.count; i++)
        if (p->bad_words.sequences[i].count > CLS_MAX_HISTORY + 1)
            return cls_refuse("params->bad_words.sequences[%u].count is %u; it must be at most %d",
                              (unsigned)i, (unsigned)p->bad_words.sequences[i].count,
                              CLS_MAX_HISTORY + 1);
    for (int i = 0; cls_history_need_of(p, i, &need); i++)
        if (need.least > s->history)
            return cls_refuse("params->%s is %g%s, but options->max_history is %u: at least %llu "
                              "is needed",
                              need.name, need.value, need.more, (unsigned)s->history,
                              (unsigned long long)need.tokens);
    return CLS_OK;
}

/* Fails if a parameter needs an option that the sampler was created without. */
static cls_status check_capacities(const cls_sampler *s, const cls_params *p)
{
    const char *const need = s->counts == CLS_COUNTS_NONE
                                 ? "options->counts of CLS_COUNTS_PRESENCE or CLS_COUNTS_ALL"
                                 : "options->counts of CLS_COUNTS_ALL";
    const char *const parameter =
        s->counts == CLS_COUNTS_NONE && p->repetition_penalty != 1.0f ? "repetition_penalty"
        : s->counts == CLS_COUNTS_NONE && p->presence_penalty != 0.0f ? "presence_penalty"
        : s->counts != CLS_COUNTS_ALL && p->frequency_penalty != 0.0f ? "frequency_penalty"
                                                                      : NULL;
    if (parameter != NULL)
        return cls_refuse("params->%s needs a sampler created with %s", parameter, need);
    if (p->infill != 0 && !atomic_load(&s->has_infill))
        return cls_refuse("params->infill needs the tables of cls_sampler_infill()");
    return check_histories(s, p);
}

/* Where groups of rows have one item, a larger top-k that is all of its chain goes to the search,
 * although the list could hold its tokens. Between 700 and 1,000 neither takes 1.5 times as long as
 * the other on any of two processors; with 1,024 the list takes 1.6 times as long. In front of
 * another truncation the list serves each top-k that it holds: with top-k 701 and top-p .9 it takes
 * half as long as the search, with 1,024 as long. */
#define CLS_LISTED_TOP_K 750

/* Returns 1 if top-k is all that decides a slot's draw, but for a temperature. */
static int is_top_k_alone(const cls_slot *slot)
{
    uint32_t i = 0;
    while (cls_slot_stage(slot, i) == CLS_STAGE_TEMPERATURE)
        i++;
    const int first = cls_slot_stage(slot, i) == CLS_STAGE_TOP_K;
    do
        i++;
    while (cls_slot_stage(slot, i) == CLS_STAGE_TEMPERATURE);
    return first && cls_slot_stage(slot, i) == CLS_STAGE_END &&
           !(slot->flags & (CLS_SLOT_DYNAMIC | CLS_SLOT_ADAPTIVE));
}

/* Returns the largest top-k of such a slot that the list serves. Shards exchange the tokens of
 * lists. */
static uint32_t most_listed(const cls_sampler *s, const cls_slot *slot)
{
    const cls_shape *const shape = &s->context->shape;
    return shape->row_group == 1 && s->vocab > shape->shortlist &&
                   (s->features & (CLS_FEATURE_SEARCH | CLS_FEATURE_SHARD)) == CLS_FEATURE_SEARCH &&
                   shape->shortlist > CLS_LISTED_TOP_K && is_top_k_alone(slot)
               ? CLS_LISTED_TOP_K
               : shape->shortlist;
}

/* Returns CLS_SLOT_SEARCH if the list does not serve the top-k of a slot. */
static uint32_t long_top_k(const cls_sampler *s, const cls_slot *slot)
{
    return !(slot->flags & (CLS_SLOT_GREEDY | CLS_SLOT_UNTRUNCATED | CLS_SLOT_MIROSTAT)) &&
                   slot->top_k > 0 && (uint32_t)slot->top_k < s->vocab &&
                   (uint32_t)slot->top_k > most_listed(s, slot)
               ? CLS_SLOT_SEARCH
               : 0;
}

/* Adds the slot of the rows outside the thinking, also behind the lists. */
static cls_status add_answer(const cls_sampler *s, cls_checked_params *p)
{
    const uint32_t n = sizeof p->answer / sizeof *p->words, by_lists = CLS_SLOT_BIAS_ROW;
    cls_params merged;
    cls_status status = cls_slot_of_answer(&p->params, s->vocab, &merged, &p->answer);
    if (status == CLS_OK)
        status = check_capacities(s, &merged);
    if (status != CLS_OK)
        return status;
    p->answer.bias = p->slot.bias; /* kernels find the spared ids by both offsets */
    p->answer.spared = p->slot.spared;
    p->answer.n_spared = p->slot.n_spared;
    p->answer.xtc_exempt = p->slot.xtc_exempt;
    p->answer.n_xtc_exempt = p->slot.n_xtc_exempt;
    p->answer.flags |= (p->slot.flags & by_lists) | long_top_k(s, &p->answer);
    uint32_t *const words = realloc(p->words, ((size_t)p->n_words + n) * sizeof *words);
    if (words == NULL)
        return cls_no_memory("parameters");
    memcpy(words + p->n_words, &p->answer, sizeof p->answer);
    p->slot.answer = p->n_words;
    p->words = words;
    p->n_words += n;
    return CLS_OK;
}

cls_status cls_checked_params_create(const cls_sampler *s, const cls_params *callers,
                                     cls_checked_params *out)
{
    memset(out, 0, sizeof *out);
    cls_status status = cls_params_read(callers, &out->params);
    if (status == CLS_OK)
        status = cls_slot_from_params(&out->params, s->vocab, &out->slot);
    if (status == CLS_OK)
        status = check_capacities(s, &out->params);
    if (status == CLS_OK)
        status = cls_arrays_copy(&out->params);
    if (status != CLS_OK) { /* the arrays still belong to the caller */
        memset(out, 0, sizeof *out);
        return status;
    }
    status = cls_lists_create(&out->params, s->vocab, s->history, &out->slot, &out->words,
                              &out->n_words);
    out->slot.flags |= long_top_k(s, &out->slot);
    if (status == CLS_OK && out->params.post_thinking != NULL)
        status = add_answer(s, out);
    if (status != CLS_OK)
        cls_checked_params_free(out);
    return status;
}

cls_status cls_sampler_check(const cls_sampler *s, const cls_params *params)
{
    cls_checked_params p;
    if (s == NULL)
        return cls_refuse("sampler is NULL");
    const cls_status status = cls_checked_params_create(s, params, &p);
    if (status == CLS_OK)
        cls_checked_params_free(&p);
    return status;
}

static void free_request(cls_sampler *s, uint32_t slot)
{
    cls_request *const r = &s->request[slot];
    cls_needs_remove(s, slot);
    cls_lists_release(s, r->lists);
    cls_lists_release(s, r->forced);
    cls_lists_release(s, r->grammar);
    cls_grammar_release(r->params.grammar);
    cls_arrays_free(&r->params);
    memset(&r->params, 0, sizeof r->params);
    memset(&r->slot, 0, sizeof r->slot);
    memset(&r->answer, 0, sizeof r->answer);
    r->lists = r->forced = r->grammar = NULL;
}

/* Allocates the lists of checked parameters, and those of their grammar. Fails if memory runs out.
 */
static cls_status allocate_lists(cls_sampler *s, cls_checked_params *p)
{
    cls_status status = cls_lists_of_grammar(s, p->params.grammar, &p->grammar);
    if (status == CLS_OK)
        status = cls_lists_allocate(s, p->n_words, &p->lists);
    if (status != CLS_OK)
        cls_lists_release(s, p->grammar);
    return status;
}

/* Makes checked parameters and their lists those of a slot's request. */
static void hold_params(cls_sampler *s, uint32_t slot, cls_checked_params *p)
{
    cls_request *const r = &s->request[slot];
    if (p->params.grammar != NULL)
        cls_grammar_retain(p->params.grammar);
    free_request(s, slot);
    r->slot = p->slot;
    r->answer = p->answer;
    r->params = p->params;
    r->lists = p->lists;
    r->grammar = p->grammar;
    cls_needs_add(s, slot);
    memset(&p->params, 0, sizeof p->params); /* its arrays are the request's now */
    cls_checked_params_free(p);
}

/* Moves checked parameters into a slot, and their lists into a change. */
static void move_params(cls_sampler *s, uint32_t slot, cls_checked_params *p, cls_change *c)
{
    c->lists = cls_pending_words_count(s);
    c->n_lists = p->n_words;
    c->params = p->slot;
    c->params.lists = p->lists != NULL ? p->lists->offset : 0;
    c->params.forced += c->params.lists;
    c->params.grammar = p->grammar != NULL ? p->grammar->offset : 0;
    cls_pending_words_add(s, p->words, p->n_words);
    hold_params(s, slot, p);
}

void cls_requests_free(cls_sampler *s)
{
    for (uint32_t slot = 0; s->needs.requests != 0; slot++)
        if (s->request[slot].slot.flags & CLS_SLOT_BEGUN)
            free_request(s, slot);
    cls_lists_release(s, s->grammar_rows);
    s->batch++; /* so that all lists are freed: no pending change will use them */
    cls_lists_collect(s);
    free(s->request);
    free(s->needs.listed);
    free(s->pending_changes.data);
    free(s->pending_words.data);
}

/* Says whether a request is forced to emit ids, and where they are on a device, or NULL, with their
 * digest. The request takes over the reference. */
static void set_forced(cls_sampler *s, uint32_t slot, int is_forced, cls_lists *forced,
                       uint64_t digest)
{
    cls_request *const r = &s->request[slot];
    cls_needs_remove(s, slot);
    cls_lists_release(s, r->forced);
    r->forced = forced;
    r->forced_digest = digest;
    r->slot.flags &= ~CLS_SLOT_FORCED;
    r->slot.flags |= is_forced ? CLS_SLOT_FORCED : 0;
    cls_needs_add(s, slot);
}

/* Reserves memory for forced ids on the host. Fails if it runs out. */
static cls_status reserve_forced(const cls_sampler *s, uint32_t slot, uint32_t n)
{
    return s->host == NULL || cls_host_slot_reserve(&s->host->slot[slot], n)
               ? CLS_OK
               : cls_no_memory("%u forced ids", (unsigned)n);
}

/* ------------------------------------------------------------------ slot calls */

static cls_status check_tokens(const char *what, const int32_t *ids, uint32_t n)
{
    return ids == NULL && n != 0
               ? cls_refuse("%s_count is %u, but %s is NULL", what, (unsigned)n, what)
               : CLS_OK;
}

/* Returns 1 if tokens of a slot are appended by the larger variant of the kernel: with a window
 * they are counted again, and the thinking budget, the loop stop and the grammar look at them. */
static int begins_with_state(const cls_slot *slot)
{
    return slot->window != 0 ||
           (slot->flags & (CLS_SLOT_THINKING | CLS_SLOT_LOOPS | CLS_SLOT_GRAMMAR)) != 0;
}

static uint32_t features_of(const cls_checked_params *p)
{
    return cls_features_of_slot(&p->slot) | cls_features_of_slot(&p->answer);
}
uint32_t cls_features_to_begin(const cls_checked_params *p)
{
    return features_of(p) | (begins_with_state(&p->slot) ? CLS_FEATURE_STATE : 0);
}

/* Reads the text that a request begins with. */
static cls_status read_begun_text(const cls_text *callers, cls_text *text)
{
    cls_text_init(text);
    const cls_status status = callers != NULL ? CLS_STRUCT_READ(text, callers, "text") : CLS_OK;
    if (status != CLS_OK)
        return status;
    const cls_ids *const missing =
        text->prompt.ids == NULL && text->prompt.count != 0   ? &text->prompt
        : text->output.ids == NULL && text->output.count != 0 ? &text->output
                                                              : NULL;
    const char *const name = missing == &text->prompt ? "prompt" : "output";
    return missing == NULL ? CLS_OK
                           : cls_refuse("text->%s.count is %u, but text->%s.ids is NULL", name,
                                        (unsigned)missing->count, name);
}

static cls_status begin_slot(cls_sampler *s, uint32_t slot, const cls_params *params,
                             const cls_text *callers)
{
    cls_checked_params p;
    cls_text text;
    cls_status status = cls_slot_check(s, slot, 0);
    if (status == CLS_OK)
        status = read_begun_text(callers, &text);
    if (status == CLS_OK)
        status = cls_checked_params_create(s, params, &p);
    if (status != CLS_OK)
        return status;
    status = cls_sampler_require(s, cls_features_to_begin(&p));
    if (status == CLS_OK)
        status = cls_changes_reserve(s, (size_t)text.prompt.count + text.output.count, p.n_words);
    if (status == CLS_OK)
        status = allocate_lists(s, &p);
    if (status != CLS_OK) {
        cls_checked_params_free(&p);
        return status;
    }
    s->pending_needs_state |= begins_with_state(&p.slot);
    cls_change *const c = cls_change_replace(s, CLS_CHANGE_BEGIN, slot);
    move_params(s, slot, &p, c);
    c->words = cls_pending_words_count(s);
    cls_change_add_tokens(s, slot, text.prompt.ids, text.prompt.count, 0);
    cls_change_add_tokens(s, slot, text.output.ids, text.output.count, CLS_ENTRY_OUTPUT);
    return CLS_OK;
}

static void record_begun(cls_sampler *s, uint32_t slot, const cls_text *callers)
{
    cls_text text;
    if (read_begun_text(callers, &text) == CLS_OK)
        cls_record_request(s->record, "begin", slot, &s->request[slot].params, &text);
}

cls_status cls_slot_begin(cls_sampler *s, uint32_t slot, const cls_params *params,
                          const cls_text *text)
{
    return CLS_SLOT_CALL(s, begin_slot(s, slot, params, text), record_begun(s, slot, text));
}

static cls_status append_prompt(cls_sampler *s, uint32_t slot, const int32_t *prompt,
                                uint32_t prompt_count)
{
    cls_status status = cls_slot_check(s, slot, 1);
    if (status == CLS_OK)
        status = check_tokens("prompt", prompt, prompt_count);
    if (status == CLS_OK)
        status = cls_change_append_tokens(s, slot, prompt, prompt_count);
    if (status == CLS_OK)
        s->pending_needs_state |= begins_with_state(&s->request[slot].slot);
    return status;
}

cls_status cls_slot_append_prompt(cls_sampler *s, uint32_t slot, const int32_t *prompt,
                                  uint32_t prompt_count)
{
    return CLS_SLOT_CALL(
        s, append_prompt(s, slot, prompt, prompt_count),
        cls_record_line(s->record, "append", slot, "prompt", prompt, prompt_count));
}

static cls_status next_turn(cls_sampler *s, uint32_t slot, const int32_t *prompt,
                            uint32_t prompt_count)
{
    cls_status status = cls_slot_check(s, slot, 1);
    if (status == CLS_OK)
        status = check_tokens("prompt", prompt, prompt_count);
    if (status == CLS_OK)
        status = cls_sampler_require(s, CLS_FEATURE_STATE);
    if (status == CLS_OK)
        status = cls_changes_reserve(s, prompt_count, 0);
    if (status != CLS_OK)
        return status;
    cls_change_add(s, CLS_CHANGE_TURN, slot)->words = cls_pending_words_count(s);
    cls_change_add_tokens(s, slot, prompt, prompt_count, 0);
    return CLS_OK;
}

cls_status cls_slot_next_turn(cls_sampler *s, uint32_t slot, const int32_t *prompt,
                              uint32_t prompt_count)
{
    return CLS_SLOT_CALL(s, next_turn(s, slot, prompt, prompt_count),
                         cls_record_line(s->record, "turn", slot, "prompt", prompt, prompt_count));
}

static cls_status set_params(cls_sampler *s, uint32_t slot, const cls_params *params)
{
    cls_checked_params p;
    cls_status status = cls_slot_check(s, slot, 1);
    if (status == CLS_OK)
        status = cls_checked_params_create(s, params, &p);
    if (status != CLS_OK)
        return status;
    if (s->history == 0 && s->counts != CLS_COUNTS_NONE &&
        ((p.slot.flags ^ s->request[slot].slot.flags) & CLS_SLOT_SCOPE_ALL))
        status =
            cls_refuse("params->penalty_scope differs from that of slot %u, whose tokens cannot be "
                       "counted again: the sampler was created with options->max_history of 0",
                       (unsigned)slot);
    if (status == CLS_OK)
        status = cls_sampler_require(s, features_of(&p) | CLS_FEATURE_STATE);
    if (status == CLS_OK)
        status = cls_changes_reserve(s, 0, p.n_words);
    if (status == CLS_OK)
        status = allocate_lists(s, &p);
    if (status != CLS_OK) {
        cls_checked_params_free(&p);
        return status;
    }
    cls_lists *const forced = s->request[slot].forced; /* stays */
    const int is_forced = (s->request[slot].slot.flags & CLS_SLOT_FORCED) != 0;
    const uint64_t digest = s->request[slot].forced_digest;
    if (forced != NULL)
        forced->references++;
    move_params(s, slot, &p, cls_change_add_params(s, slot, &p.slot));
    set_forced(s, slot, is_forced, forced, digest);
    return CLS_OK;
}

cls_status cls_slot_params(cls_sampler *s, uint32_t slot, const cls_params *params)
{
    return CLS_SLOT_CALL(
        s, set_params(s, slot, params),
        cls_record_request(s->record, "params", slot, &s->request[slot].params, NULL));
}

static cls_status force_ids(cls_sampler *s, uint32_t slot, const int32_t *ids, uint32_t n)
{
    cls_lists *forced = NULL;
    uint32_t i = 0;
    cls_status status = cls_slot_check(s, slot, 1);
    if (status == CLS_OK && ids == NULL && n != 0)
        status = cls_refuse("id_count is %u, but ids is NULL", (unsigned)n);
    while (status == CLS_OK && i < n && ids[i] >= 0 && (uint32_t)ids[i] < s->vocab)
        i++;
    if (status == CLS_OK && i < n)
        status = cls_refuse("ids[%u] is %d, which is not a token of a vocabulary of %u",
                            (unsigned)i, (int)ids[i], (unsigned)s->vocab);
    if (status == CLS_OK)
        status = cls_sampler_require(s, CLS_FEATURE_STATE | (n != 0 ? CLS_FEATURE_FORCED : 0));
    if (status == CLS_OK)
        status = reserve_forced(s, slot, n);
    if (status == CLS_OK)
        status = cls_changes_reserve(s, 0, n);
    if (status == CLS_OK)
        status = cls_lists_allocate(s, n, &forced);
    if (status != CLS_OK)
        return status;
    cls_change *const c = cls_change_add(s, CLS_CHANGE_FORCE, slot);
    c->tokens = n;
    c->lists = cls_pending_words_count(s);
    c->n_lists = n;
    c->params.lists = forced != NULL ? forced->offset : 0;
    cls_pending_words_add(s, (const uint32_t *)ids, n);
    set_forced(s, slot, n != 0, forced, n != 0 ? cls_hash_bytes(1, ids, n * sizeof *ids) : 1);
    return CLS_OK;
}

cls_status cls_slot_force(cls_sampler *s, uint32_t slot, const int32_t *ids, uint32_t n)
{
    return CLS_SLOT_CALL(s, force_ids(s, slot, ids, n),
                         cls_record_line(s->record, "force", slot, "ids", ids, n));
}

/* Copies the host's part of a request. The slot takes over the parameters. */
static void copy_request(cls_sampler *s, uint32_t to, uint32_t from, const cls_params *params)
{
    const cls_request *const r = &s->request[from];
    cls_request *const copy = &s->request[to];
    if (params->grammar != NULL)
        cls_grammar_retain(params->grammar);
    free_request(s, to);
    copy->slot = r->slot;
    copy->answer = r->answer;
    copy->params = *params;
    copy->lists = r->lists;
    copy->forced = r->forced;
    copy->forced_digest = r->forced_digest;
    copy->grammar = r->grammar;
    if (r->lists != NULL)
        r->lists->references++;
    if (r->forced != NULL)
        r->forced->references++;
    if (r->grammar != NULL)
        r->grammar->references++;
    cls_needs_add(s, to);
}

static cls_status copy_slot(cls_sampler *s, uint32_t to, uint32_t from)
{
    cls_status status = check_slot(s, "to", to, 0);
    if (status == CLS_OK)
        status = check_slot(s, "from", from, 1);
    if (status != CLS_OK || to == from)
        return status;
    cls_params params = s->request[from].params;
    status = cls_sampler_require(s, CLS_FEATURE_STATE);
    if (status == CLS_OK)
        status = cls_changes_reserve(s, 0, 0);
    if (status == CLS_OK && s->host != NULL)
        status = reserve_forced(s, to, s->host->slot[from].slot.n_forced);
    if (status == CLS_OK)
        status = cls_arrays_copy(&params);
    if (status != CLS_OK)
        return status;
    copy_request(s, to, from, &params);
    cls_change_add_copy(s, to, from);
    return CLS_OK;
}

cls_status cls_slot_copy(cls_sampler *s, uint32_t to, uint32_t from)
{
    return CLS_SLOT_CALL(s, copy_slot(s, to, from),
                         cls_record_number(s->record, "copy", to, "from", from));
}

static cls_status roll_back(cls_sampler *s, uint32_t slot, uint32_t n)
{
    cls_status status = cls_slot_check(s, slot, 1);
    if (status != CLS_OK)
        return status;
    if (n > s->rollback)
        return cls_refuse(
            "token_count is %u, but the sampler was created with options->max_rollback of %u",
            (unsigned)n, (unsigned)s->rollback);
    if (n != 0)
        status = cls_sampler_require(s, CLS_FEATURE_STATE);
    if (status == CLS_OK)
        status = cls_changes_reserve(s, 0, 0);
    if (status == CLS_OK && n != 0)
        cls_change_add(s, CLS_CHANGE_ROLLBACK, slot)->tokens = n;
    return status;
}

cls_status cls_slot_rollback(cls_sampler *s, uint32_t slot, uint32_t n)
{
    return CLS_SLOT_CALL(s, roll_back(s, slot, n),
                         cls_record_number(s->record, "rollback", slot, "count", n));
}

static cls_status reset_slot(cls_sampler *s, uint32_t slot)
{
    cls_status status = cls_slot_check(s, slot, 0);
    if (status == CLS_OK)
        status = cls_changes_reserve(s, 0, 0);
    if (status != CLS_OK)
        return status;
    free_request(s, slot);
    cls_change_replace(s, CLS_CHANGE_RESET, slot);
    return CLS_OK;
}

cls_status cls_slot_reset(cls_sampler *s, uint32_t slot)
{
    return CLS_SLOT_CALL(s, reset_slot(s, slot),
                         cls_record_number(s->record, "reset", slot, NULL, 0));
}

cls_status cls_slot_put(cls_sampler *s, uint32_t slot, cls_checked_params *p, const uint32_t *state)
{
    const uint32_t n = state_words(s->vocab, s->layout);
    const int is_forced = p->slot.n_forced != 0;
    cls_status status = cls_sampler_require(s, features_of(p) | CLS_FEATURE_STATE |
                                                   (is_forced ? CLS_FEATURE_FORCED : 0));
    if (status == CLS_OK)
        status = reserve_forced(s, slot, p->slot.n_forced);
    if (status == CLS_OK)
        status = cls_changes_reserve(s, 0, (size_t)n + p->n_words);
    if (status == CLS_OK)
        status = allocate_lists(s, p);
    if (status != CLS_OK)
        return status;
    cls_lists *const lists = p->lists;
    cls_change *const c = cls_change_replace(s, CLS_CHANGE_LOAD, slot);
    const uint64_t forced_digest = is_forced ? cls_hash_bytes(1, p->words + p->slot.forced,
                                                              p->slot.n_forced * sizeof *p->words)
                                             : 1;
    move_params(s, slot, p, c);
    if (is_forced) {
        if (lists != NULL)
            lists->references++;
        set_forced(s, slot, 1, lists, forced_digest);
    }
    c->words = cls_pending_words_count(s);
    cls_pending_words_add(s, state, n);
    return CLS_OK;
}
