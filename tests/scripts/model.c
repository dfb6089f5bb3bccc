/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static int is_token(const model *m, int32_t id) { return id >= 0 && (uint32_t)id < m->vocab; }

/* Returns whether the text ends with a sequence. */
static int ends_with(const model *m, const int32_t *ids, uint32_t n)
{
    return n != 0 && n <= m->n && memcmp(m->id + m->n - n, ids, n * sizeof *ids) == 0;
}

static int ends_thinking(const model *m)
{
    const cls_sequences *const ends = &m->params.thinking_ends;
    int some = 0;
    for (uint32_t i = 0; i < ends->count; i++)
        some |= ends_with(m, ends->sequences[i].ids, ends->sequences[i].count);
    return some;
}

/* Returns whether a request's thinking is followed: it has a budget, or relaxes drafts. */
static int follows(const cls_params *p)
{
    return p->thinking_forced.count != 0 || p->relaxed_top_k != 0 || p->post_thinking != NULL ||
           p->stop_action != CLS_STOP_REQUEST;
}

/* Returns the token that is `back` tokens before the end of the output since the last chunk of
 * prompt, or -1. The text is followed by `next` unless that is -1. */
static int32_t recent_output(const model *m, int32_t next, uint32_t back)
{
    if (next >= 0 && back == 0)
        return next;
    back -= next >= 0;
    for (uint32_t i = 0; i <= back; i++)
        if (i >= m->n || !m->is_output[m->n - 1 - i])
            return -1;
    return m->id[m->n - 1 - back];
}

/* Returns whether the output ends in a loop of at most so many tokens. */
static int loops(const model *m, int32_t next, uint32_t most)
{
    const cls_params *const p = &m->params;
    for (uint32_t n = p->loop_min; n <= p->loop_max && p->loop_repeats != 0; n++) {
        uint32_t i = n * p->loop_repeats > most ? UINT32_MAX : 0;
        while (i < n * p->loop_repeats && recent_output(m, next, i) >= 0 &&
               recent_output(m, next, i) == recent_output(m, next, i % n))
            i++;
        if (i == n * p->loop_repeats)
            return 1;
    }
    return 0;
}

/* Returns how many tokens of thinking the parameters allow. */
static uint32_t budget(const cls_params *p)
{
    return (p->loop_action != CLS_LOOP_STOP || p->stop_action == CLS_STOP_END_THINKING) &&
                   p->thinking_budget == 0
               ? INT32_MAX
               : p->thinking_budget;
}

/* Returns whether the next row must emit an id that ends the thinking. */
static int thinking_is_due(const model *m)
{
    return m->now.goes_on && m->params.thinking_forced.count != 0 &&
           m->now.counted == budget(&m->params);
}

static void begin_thinking(model *m)
{
    m->now = (thinking){follows(&m->params) && m->params.thinking_start.count == 0, 0, 0, 0};
}

static int stops(const model *m, int32_t id)
{
    uint32_t i = 0;
    while (i < m->params.stop_ids.count && m->params.stop_ids.ids[i] != id)
        i++;
    return i < m->params.stop_ids.count;
}

/* Returns min_tokens, which there is not where only stop ids are allowed. */
static uint32_t min_tokens(const model *m)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < m->params.allowed_ids.count; i++)
        others += !stops(m, m->params.allowed_ids.ids[i]);
    return m->params.allowed_ids.count != 0 && others == 0 ? 0 : m->params.min_tokens;
}

/* Follows the thinking budget after the text has got a token. */
static void think(model *m)
{
    const cls_params *const p = &m->params;
    thinking *const t = &m->now;
    const int is_output = m->is_output[m->n - 1], is_due = thinking_is_due(m);
    t->looped = 0;
    if (!follows(p))
        return;
    if (!t->goes_on)
        *t = (thinking){ends_with(m, p->thinking_start.ids, p->thinking_start.count), 0, 0, 0};
    else if (is_due && is_output && m->id[m->n - 1] == p->thinking_forced.ids[t->emitted])
        t->goes_on = ++t->emitted < p->thinking_forced.count;
    else if (ends_thinking(m))
        t->goes_on = 0;
    else if (is_output && !is_due) {
        t->counted++;
        if (p->stop_action == CLS_STOP_END_THINKING && stops(m, m->id[m->n - 1]) &&
            m->outputs + 1 >= min_tokens(m))
            t->counted = budget(p);
        t->looped = p->loop_action != CLS_LOOP_STOP && loops(m, -1, t->counted);
        t->counted = t->looped ? budget(p) : t->counted;
    }
}

/* Returns a state of the thinking under the model's parameters, which was one under others, where
 * the text had so many output tokens. */
static thinking kept_thinking(const model *m, const cls_params *was, uint32_t outputs, thinking t)
{
    const cls_params *const p = &m->params;
    if (!follows(was) || !follows(p))
        return (thinking){follows(p) && p->thinking_start.count == 0, 0, 0, 0};
    t.goes_on = t.goes_on && (t.emitted == 0 || t.emitted < p->thinking_forced.count);
    if (p->thinking_forced.count != 0 && (t.emitted > 0 || t.counted > budget(p)))
        t.counted = budget(p);
    if (p->thinking_forced.count == 0)
        t.counted = least(t.counted, outputs);
    return t;
}

static void push(model *m, int32_t id, int is_output)
{
    if (!is_token(m, id))
        return;
    m->unknown |= m->n == MODEL_TOKENS;
    if (m->unknown)
        return;
    m->before[m->n] = m->now;
    m->id[m->n] = id;
    m->is_output[m->n++] = (unsigned char)is_output;
    think(m);
    m->outputs += (uint32_t)is_output;
    m->position += (uint32_t)is_output;
    m->longest = m->n > m->longest ? m->n : m->longest;
}

void model_begin(model *m, const cls_params *params, const int32_t *prompt, uint32_t n_prompt,
                 const int32_t *output, uint32_t n_output)
{
    m->begun = 1;
    m->unknown = params->grammar != NULL;
    m->adapts = true;
    m->adaptive = (cls_adaptive_state){.begun = 0};
    m->judged = -1;
    m->n = m->outputs = m->since = m->longest = m->n_forced = 0;
    m->position = params->position;
    m->params = *params;
    begin_thinking(m);
    for (uint32_t i = 0; i < n_prompt; i++)
        push(m, prompt[i], 0);
    for (uint32_t i = 0; i < n_output; i++)
        push(m, output[i], 1);
}

void model_append(model *m, const int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n && m->begun; i++)
        push(m, ids[i], 0);
}

void model_next_turn(model *m, const int32_t *ids, uint32_t n)
{
    memset(m->is_output, 0, sizeof m->is_output);
    m->outputs = m->n_forced = 0;
    m->adapts &= m->params.top_p_decay >= 1.0f; /* top-p begins anew, and the rest goes on */
    m->now.counted = m->now.emitted = 0;
    model_append(m, ids, n);
}

/* The longest window of the penalties: what a slot counts. */
static uint32_t longest_window(const cls_params *p)
{
    const uint32_t own[] = {p->repetition_window, p->frequency_window, p->presence_window};
    uint32_t longest = 0;
    for (int i = 0; i < 3; i++) {
        const uint32_t window = own[i] != 0 ? own[i] : p->penalty_window;
        if (window == 0)
            return 0;
        longest = window > longest ? window : longest;
    }
    return longest;
}

void model_params(model *m, const cls_params *params)
{
    const cls_params was = m->params;
    const uint32_t window = longest_window(&was);
    const int32_t scope = was.penalty_scope;
    if (!m->begun)
        return;
    m->params = *params;
    m->unknown |= params->grammar != NULL; /* what it emits then is not followed */
    m->adapts = false;
    m->now = kept_thinking(m, &was, m->outputs, m->now);
    for (uint32_t i = m->n, outputs = m->outputs; i-- > 0;) {
        outputs -= m->is_output[i];
        m->before[i] = kept_thinking(m, &was, outputs, m->before[i]);
    }
    if (window != longest_window(params) || scope != params->penalty_scope)
        m->since = m->n - least(m->n, m->history);
}

uint32_t model_can_roll_back(const model *m)
{
    uint32_t n = 0;
    while (n < m->n && m->is_output[m->n - 1 - n] && m->n - n + m->rollback > m->longest)
        n++;
    return n;
}

void model_rollback(model *m, uint32_t n)
{
    if (!m->begun)
        return;
    m->begun = n <= model_can_roll_back(m);
    m->adapts = false;
    n = least(n, m->n);
    if (n > 0)
        m->now = m->before[m->n - n];
    m->n -= n;
    m->outputs -= least(n, m->outputs);
    m->position -= n;
    m->since = least(m->since, m->n);
}

/* Returns cls_row_status bits. */
static int32_t ends(const model *m, int32_t token, uint32_t outputs, bool thinks)
{
    const bool goes_on = thinks && m->params.stop_action != CLS_STOP_REQUEST;
    if (!goes_on && outputs >= min_tokens(m) && stops(m, token))
        return CLS_ROW_STOPPED;
    return m->params.max_tokens != 0 && outputs >= m->params.max_tokens
               ? CLS_ROW_STOPPED | CLS_ROW_LENGTH
               : 0;
}

int model_stopped(const model *m)
{
    const int after_prompt = m->n == 0 || !m->is_output[m->n - 1];
    return m->outputs != 0 &&
           (0 != ends(m, after_prompt ? -1 : m->id[m->n - 1], m->outputs, m->now.goes_on) ||
            (m->params.loop_action == CLS_LOOP_STOP && loops(m, -1, UINT32_MAX)));
}

/* Returns the id that the next row must emit, or -1. */
static int32_t due(const model *m)
{
    if (m->outputs >= m->forced_from && m->outputs - m->forced_from < m->n_forced)
        return m->forced[m->outputs - m->forced_from];
    return thinking_is_due(m) ? m->params.thinking_forced.ids[m->now.emitted] : -1;
}

void model_force(model *m, const int32_t *ids, uint32_t n)
{
    if (!m->begun)
        return;
    m->forced = ids;
    m->n_forced = n;
    m->forced_from = m->outputs;
}

void model_accept(model *m, int32_t token)
{
    if (is_token(m, token)) { /* another adds nothing */
        m->adapts &= token == m->judged;
        m->adaptive = m->after;
    }
    m->judged = -1;
    if (m->begun && !model_stopped(m))
        push(m, token, 1);
}

static bool sees_text(const cls_params *p)
{
    return p->dry_multiplier != 0.0f || p->no_repeat_ngram != 0 || p->bad_words.count != 0 ||
           p->watermark_context != 0 || p->repetition_window != 0 || p->frequency_window != 0 ||
           p->presence_window != 0;
}

bool model_can_tell(const model *m)
{
    const cls_params *const p = &m->params;
    uint32_t turns = 0;
    for (uint32_t i = 1; i < m->n; i++)
        turns += m->is_output[i - 1] && !m->is_output[i];
    return !m->unknown && p->mirostat == 0 && p->adaptive_target < 0.0f && p->top_p_decay >= 1.0f &&
           (!sees_text(p) || (p->penalty_window == 0 && m->since == 0 && turns == 0));
}

bool model_row(const model *m, one_row *row)
{
    const cls_params *const p = &m->params;
    const bool has_mode = p->mirostat != 0 || p->adaptive_target >= 0.0f || p->top_p_decay < 1.0f;
    uint32_t prompts = 0;
    while (prompts < m->n && !m->is_output[prompts])
        prompts++;
    for (uint32_t i = prompts; i < m->n; i++)
        if (!m->is_output[i])
            return false;
    if (!m->begun || m->unknown || m->since != 0 || m->n_forced != 0 || follows(p) ||
        p->thinking_start.count != 0 || p->loop_repeats != 0 || (has_mode && !m->adapts))
        return false;
    row->params = p;
    row->prompt = m->id;
    row->prompt_count = prompts;
    row->output = m->id + prompts;
    row->output_count = m->n - prompts;
    row->max_history = m->history;
    if (has_mode)
        row->adaptive = m->adaptive;
    return true;
}

/* Returns whether the mask of a row allows a token. */
static bool is_allowed(const one_row *row, uint32_t id)
{
    const uint32_t width = row->mask_width;
    const uint8_t *const bytes = row->mask;
    uint32_t word;
    if (bytes == NULL)
        return true;
    if (row->mask_kind == CLS_MASK_BOOL)
        return (width == 0 || id < width) && bytes[id] != 0;
    if (width != 0 && id / 32 >= width)
        return false;
    memcpy(&word, bytes + id / 32 * sizeof word, sizeof word);
    return word >> id % 32 & 1;
}

/* Takes what post_thinking has. */
static void take_phase(cls_params *p, const cls_params *second)
{
    cls_params s = *second;
    s.thinking_start = s.thinking_forced = (cls_ids){NULL, 0};
    s.thinking_ends = (cls_sequences){NULL, 0};
    s.position = p->position;
    s.seed = p->seed;
    s.stream = p->stream;
    s.penalty_scope = p->penalty_scope;
    s.repetition_window = p->repetition_window;
    s.frequency_window = p->frequency_window;
    s.presence_window = p->presence_window;
    s.dry_multiplier = p->dry_multiplier;
    s.dry_base = p->dry_base;
    s.dry_allowed_length = p->dry_allowed_length;
    s.dry_window = p->dry_window;
    s.dry_breakers = p->dry_breakers;
    s.no_repeat_ngram = p->no_repeat_ngram;
    s.ngram_window = p->ngram_window;
    s.ngram_output_only = p->ngram_output_only;
    s.ngram_exempt_ids = p->ngram_exempt_ids;
    s.penalty_exempt_ids = p->penalty_exempt_ids;
    s.xtc_exempt_ids = p->xtc_exempt_ids;
    s.bad_words = p->bad_words;
    s.logit_bias = p->logit_bias;
    s.allowed_ids = p->allowed_ids;
    s.only_allowed = p->only_allowed;
    s.stop_ids = p->stop_ids;
    s.stop_action = p->stop_action;
    s.watermark_context = p->watermark_context;
    s.watermark_key = p->watermark_key;
    s.watermark_rule = p->watermark_rule;
    s.watermark_key_b = p->watermark_key_b;
    s.watermark_mixing = p->watermark_mixing;
    s.watermark_max_probability = p->watermark_max_probability;
    *p = s;
}

void model_next(const model *m, const one_row *inputs, float *probs, int32_t *token,
                int32_t *status)
{
    const uint32_t window = m->params.penalty_window;
    static int32_t kind[2][MODEL_TOKENS]; /* prompt, output */
    uint32_t n[2] = {0, 0};
    cls_params p = m->params;
    one_row row = *inputs;
    one_result result = {.token = -1, .probs = probs};
    *token = row.invalid_token;
    *status = !m->begun ? CLS_ROW_NO_SLOT : CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    if (!m->begun || model_stopped(m))
        return;
    for (uint32_t i = window ? m->n - least(window, m->n) : m->since; i < m->n; i++)
        kind[m->is_output[i]][n[m->is_output[i]]++] = m->id[i];
    if (p.post_thinking != NULL && !m->now.goes_on)
        take_phase(&p, p.post_thinking);
    p.post_thinking = NULL;
    const bool bans =
        m->outputs < min_tokens(m) || (m->now.goes_on && p.stop_action == CLS_STOP_BANNED);
    const uint32_t banned = bans ? p.stop_ids.count : 0;
    cls_logit_bias *const bias = calloc(p.logit_bias.count + (size_t)banned + 1, sizeof *bias);
    if (bias == NULL)
        abort();
    if (p.logit_bias.count != 0)
        memcpy(bias, p.logit_bias.biases, p.logit_bias.count * sizeof *bias);
    for (uint32_t i = 0; i < banned; i++)
        bias[p.logit_bias.count++] = (cls_logit_bias){p.stop_ids.ids[i], -INFINITY};
    p.logit_bias.biases = p.logit_bias.count ? bias : NULL;
    p.penalty_window = p.min_tokens = p.max_tokens = p.loop_repeats = p.thinking_budget = 0;
    p.loop_action = CLS_LOOP_STOP;
    p.stop_action = CLS_STOP_REQUEST;
    p.relaxed_top_k = 0;
    p.relaxed_delta = 0.0f;
    p.stop_ids = p.thinking_start = p.thinking_forced = (cls_ids){NULL, 0};
    p.thinking_ends = (cls_sequences){NULL, 0};
    row.params = &p;
    row.prompt = kind[0];
    row.prompt_count = n[0];
    row.output = kind[1];
    row.output_count = n[1];
    row.max_history = m->history;
    if (one_sample(&row, &result) != CLS_OK) {
        fprintf(stderr, "the model: %s\n", cls_error_message());
        abort();
    }
    free(bias);
    *token = result.token;
    *status = result.status;
    if (due(m) >= 0) {
        const bool allowed = is_allowed(&row, (uint32_t)due(m));
        *token = allowed ? due(m) : row.invalid_token;
        *status = (result.status & (CLS_ROW_NAN | CLS_ROW_INF)) |
                  (allowed ? CLS_ROW_FORCED : CLS_ROW_EMPTY);
    }
    if (*status & (CLS_ROW_EMPTY | CLS_ROW_UNFIT))
        return;
    static model after;
    after = *m;
    push(&after, *token, 1);
    *status |= ends(m, *token, m->outputs + 1, after.now.goes_on);
    if (m->params.loop_action != CLS_LOOP_STOP) {
        *status |= after.now.looped ? CLS_ROW_LOOP : 0;
    } else if (loops(m, *token, UINT32_MAX)) {
        *status |= CLS_ROW_STOPPED | CLS_ROW_LOOP;
    }
}

const char *model_words(const model *m)
{
    static char words[300];
    snprintf(words, sizeof words,
             "%u tokens, %u of them output, longest %u, counting from %u, position %u; the "
             "thinking %s, %u counted, %u emitted; %u ids forced from output %u",
             m->n, m->outputs, m->longest, m->since, m->position,
             m->now.goes_on ? "goes on" : "does not go on", m->now.counted, m->now.emitted,
             m->n_forced, m->forced_from);
    return words;
}
