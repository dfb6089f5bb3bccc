/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static int is_token(const model *m, int32_t id) { return id >= 0 && (uint32_t)id < m->vocab; }

/* Returns whether the text ends with a sequence. */
static int ends_with(const model *m, const int32_t *ids, uint32_t n)
{
    return n != 0 && n <= m->n && memcmp(m->id + m->n - n, ids, n * sizeof *ids) == 0;
}

/* Returns whether the next row must emit an id that ends the thinking. */
static int thinking_is_due(const model *m)
{
    return m->now.goes_on && m->now.counted == m->params.thinking_budget;
}

static void begin_thinking(model *m)
{
    m->now = (thinking){m->params.thinking_forced.count && !m->params.thinking_start.count, 0, 0};
}

/* Follows the thinking budget after the text has got a token. */
static void think(model *m)
{
    const cls_params *const p = &m->params;
    thinking *const t = &m->now;
    const int is_output = m->is_output[m->n - 1], is_due = thinking_is_due(m);
    if (p->thinking_forced.count == 0)
        return;
    if (!t->goes_on)
        *t = (thinking){ends_with(m, m->start, p->thinking_start.count), 0, 0};
    else if (is_due && is_output && m->id[m->n - 1] == m->finish[t->emitted])
        t->goes_on = ++t->emitted < p->thinking_forced.count;
    else if (ends_with(m, m->end, p->thinking_end.count))
        t->goes_on = 0;
    else if (is_output && !is_due)
        t->counted++;
}

/* Returns a state of the thinking under the model's parameters, which was one under others. */
static thinking kept_thinking(const model *m, const cls_params *was, thinking t)
{
    const cls_params *const p = &m->params;
    if (was->thinking_forced.count == 0)
        return (thinking){p->thinking_forced.count != 0 && p->thinking_start.count == 0, 0, 0};
    t.goes_on = t.goes_on && t.emitted < p->thinking_forced.count;
    if (t.emitted > 0 || t.counted > p->thinking_budget)
        t.counted = p->thinking_budget;
    return t;
}

static void push(model *m, int32_t id, int is_output)
{
    if (!is_token(m, id))
        return;
    ck_assert_msg(m->n < MODEL_TOKENS, "a request longer than MODEL_TOKENS");
    m->before[m->n] = m->now;
    m->id[m->n] = id;
    m->is_output[m->n++] = (unsigned char)is_output;
    think(m);
    m->outputs += (uint32_t)is_output;
    m->position += (uint32_t)is_output;
    m->longest = m->n > m->longest ? m->n : m->longest;
}

static void set_params(model *m, const cls_params *p)
{
    const struct {
        int32_t *to;
        const int32_t *ids;
        uint32_t n;
    } lists[] = {{m->stop, p->stop_ids.ids, p->stop_ids.count},
                 {m->allowed, p->allowed_ids.ids, p->allowed_ids.count},
                 {m->start, p->thinking_start.ids, p->thinking_start.count},
                 {m->end, p->thinking_end.ids, p->thinking_end.count},
                 {m->finish, p->thinking_forced.ids, p->thinking_forced.count}};
    ck_assert(p->logit_bias.count <= MODEL_LIST);
    m->params = *p;
    for (uint32_t i = 0; i < p->logit_bias.count; i++)
        m->bias[i] = p->logit_bias.biases[i];
    for (uint32_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        ck_assert(lists[k].n <= MODEL_LIST);
        for (uint32_t i = 0; i < lists[k].n; i++)
            lists[k].to[i] = lists[k].ids[i];
    }
}

void model_begin(model *m, const cls_params *params, const int32_t *prompt, uint32_t n_prompt,
                 const int32_t *output, uint32_t n_output)
{
    m->begun = 1;
    m->n = m->outputs = m->since = m->longest = m->n_forced = 0;
    m->position = params->position;
    set_params(m, params);
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
    m->now.counted = m->now.emitted = 0;
    model_append(m, ids, n);
}

void model_params(model *m, const cls_params *params)
{
    const cls_params was = m->params;
    const uint32_t window = was.penalty_window;
    const int32_t scope = was.penalty_scope;
    if (!m->begun)
        return;
    set_params(m, params);
    m->now = kept_thinking(m, &was, m->now);
    for (uint32_t i = 0; i < m->n; i++)
        m->before[i] = kept_thinking(m, &was, m->before[i]);
    if (window != params->penalty_window || scope != params->penalty_scope)
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
    n = least(n, m->n);
    if (n > 0)
        m->now = m->before[m->n - n];
    m->n -= n;
    m->outputs -= least(n, m->outputs);
    m->position -= n;
    m->since = least(m->since, m->n);
}

/* Returns the parameters with pointers to the model's lists. */
static cls_params with_lists(const model *m)
{
    cls_params p = m->params;
    p.logit_bias.biases = p.logit_bias.count ? m->bias : NULL;
    p.allowed_ids.ids = p.allowed_ids.count ? m->allowed : NULL;
    return p;
}

static int stops(const model *m, int32_t id)
{
    uint32_t i = 0;
    while (i < m->params.stop_ids.count && m->stop[i] != id)
        i++;
    return i < m->params.stop_ids.count;
}

/* Returns min_tokens, which there is not where only stop ids are allowed. */
static uint32_t min_tokens(const model *m)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < m->params.allowed_ids.count; i++)
        others += !stops(m, m->allowed[i]);
    return m->params.allowed_ids.count != 0 && others == 0 ? 0 : m->params.min_tokens;
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

/* Returns whether the output ends in a loop. */
static int loops(const model *m, int32_t next)
{
    const cls_params *const p = &m->params;
    for (uint32_t n = p->loop_min; n <= p->loop_max && p->loop_repeats != 0; n++) {
        uint32_t i = 0;
        while (i < n * p->loop_repeats && recent_output(m, next, i) >= 0 &&
               recent_output(m, next, i) == recent_output(m, next, i % n))
            i++;
        if (i == n * p->loop_repeats)
            return 1;
    }
    return 0;
}

/* Returns cls_row_status bits. */
static int32_t ends(const model *m, int32_t token, uint32_t outputs)
{
    if (outputs >= min_tokens(m) && stops(m, token))
        return CLS_ROW_STOPPED;
    return m->params.max_tokens != 0 && outputs >= m->params.max_tokens
               ? CLS_ROW_STOPPED | CLS_ROW_LENGTH
               : 0;
}

int model_stopped(const model *m)
{
    const int after_prompt = m->n == 0 || !m->is_output[m->n - 1];
    return m->outputs != 0 &&
           (0 != ends(m, after_prompt ? -1 : m->id[m->n - 1], m->outputs) || loops(m, -1));
}

int32_t model_due(const model *m)
{
    if (m->outputs >= m->forced_from && m->outputs - m->forced_from < m->n_forced)
        return m->forced[m->outputs - m->forced_from];
    return thinking_is_due(m) ? m->finish[m->now.emitted] : -1;
}

void model_force(model *m, const int32_t *ids, uint32_t n)
{
    ck_assert(n <= MODEL_LIST);
    if (!m->begun)
        return;
    for (uint32_t i = 0; i < n; i++)
        m->forced[i] = ids[i];
    m->n_forced = n;
    m->forced_from = m->outputs;
}

void model_accept(model *m, int32_t token)
{
    if (m->begun && !model_stopped(m))
        push(m, token, 1);
}

void model_next(const model *m, const float *logits, const uint32_t *position,
                int32_t invalid_token, int32_t *token, int32_t *status)
{
    const uint32_t window = m->params.penalty_window;
    int32_t kind[2][MODEL_TOKENS]; /* prompt, output */
    uint32_t n[2] = {0, 0};
    cls_logit_bias bias[2 * MODEL_LIST];
    cls_params p = with_lists(m);
    *token = invalid_token;
    *status = !m->begun ? CLS_ROW_NO_SLOT : CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    if (!m->begun || model_stopped(m))
        return;
    for (uint32_t i = window ? m->n - least(window, m->n) : m->since; i < m->n; i++)
        kind[m->is_output[i]][n[m->is_output[i]]++] = m->id[i];
    for (uint32_t i = 0; i < p.logit_bias.count; i++)
        bias[i] = m->bias[i];
    for (uint32_t i = 0; i < p.stop_ids.count && m->outputs < min_tokens(m); i++)
        bias[p.logit_bias.count++] = (cls_logit_bias){m->stop[i], -INFINITY};
    p.logit_bias.biases = p.logit_bias.count ? bias : NULL;
    p.penalty_window = p.min_tokens = 0;
    p.max_tokens = p.loop_repeats = p.thinking_budget = 0;
    p.stop_ids.ids = p.thinking_start.ids = p.thinking_end.ids = p.thinking_forced.ids = NULL;
    p.stop_ids.count = p.thinking_start.count = p.thinking_end.count = p.thinking_forced.count = 0;
    cls_host_row row = host_row(logits, m->vocab, &p);
    row.prompt = kind[0];
    row.prompt_count = n[0];
    row.output = kind[1];
    row.output_count = n[1];
    row.position = position ? *position : m->position;
    row.invalid_token = invalid_token;
    const cls_host_result result = host_result(&row);
    *token = result.token;
    *status = result.status;
    if (model_due(m) >= 0) {
        *token = model_due(m);
        *status = (result.status & (CLS_ROW_NAN | CLS_ROW_INF)) | CLS_ROW_FORCED;
    }
    if (*status & CLS_ROW_EMPTY)
        return;
    *status |= ends(m, *token, m->outputs + 1);
    if (loops(m, *token))
        *status |= CLS_ROW_STOPPED | CLS_ROW_LOOP;
}

const char *model_words(const model *m)
{
    static char words[700];
    const cls_params *const p = &m->params;
    snprintf(
        words, sizeof words,
        "%s, %u tokens, %u of them output, longest %u, counting from %u, position %u, T %g, k %d, "
        "p %g, repetition %g, "
        "frequency %g, presence %g, scope %d, window %u, max_tokens %u, %u biases, %u stop ids, "
        "min_tokens %u, %u allowed, "
        "thinking budget %u (%u, %u, %u ids; now %s, %u counted, %u emitted), loops %u to %u times "
        "%u, %u ids forced from output %u",
        m->begun ? "begun" : "not begun", m->n, m->outputs, m->longest, m->since, m->position,
        (double)p->temperature, p->top_k, (double)p->top_p, (double)p->repetition_penalty,
        (double)p->frequency_penalty, (double)p->presence_penalty, p->penalty_scope,
        p->penalty_window, p->max_tokens, p->logit_bias.count, p->stop_ids.count, p->min_tokens,
        p->allowed_ids.count, p->thinking_budget, p->thinking_start.count, p->thinking_end.count,
        p->thinking_forced.count, m->now.goes_on ? "on" : "off", m->now.counted, m->now.emitted,
        p->loop_min, p->loop_max, p->loop_repeats, m->n_forced, m->forced_from);
    return words;
}
