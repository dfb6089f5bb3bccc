/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "fixture.h"

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static int is_token(const model *m, int32_t id) { return id >= 0 && (uint32_t)id < m->vocab; }

static void push(model *m, int32_t id, int is_output)
{
    if (!is_token(m, id))
        return;
    ck_assert_msg(m->n < MODEL_TOKENS, "a request longer than MODEL_TOKENS");
    m->id[m->n] = id;
    m->is_output[m->n++] = (unsigned char)is_output;
    m->outputs += (uint32_t)is_output;
    m->position += (uint32_t)is_output;
    m->longest = m->n > m->longest ? m->n : m->longest;
}

static void set_params(model *m, const cls_params *p)
{
    ck_assert(p->logit_bias_count <= MODEL_LIST && p->stop_count <= MODEL_LIST);
    m->params = *p;
    for (uint32_t i = 0; i < p->logit_bias_count; i++)
        m->bias[i] = p->logit_bias[i];
    for (uint32_t i = 0; i < p->stop_count; i++)
        m->stop[i] = p->stop_ids[i];
}

void model_begin(model *m, const cls_params *params, const int32_t *prompt, uint32_t n_prompt,
                 const int32_t *output, uint32_t n_output)
{
    m->begun = 1;
    m->n = m->outputs = m->since = m->longest = 0;
    m->position = params->position;
    set_params(m, params);
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
    m->outputs = 0;
    model_append(m, ids, n);
}

void model_params(model *m, const cls_params *params)
{
    const uint32_t window = m->params.penalty_window;
    const int32_t scope = m->params.penalty_scope;
    if (!m->begun)
        return;
    set_params(m, params);
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
    m->n -= n;
    m->outputs -= least(n, m->outputs);
    m->position -= n;
    m->since = least(m->since, m->n);
}

/* Returns the parameters with pointers to the model's lists. */
static cls_params with_lists(const model *m)
{
    cls_params p = m->params;
    p.logit_bias = p.logit_bias_count ? m->bias : NULL;
    p.stop_ids = p.stop_count ? m->stop : NULL;
    return p;
}

/* Returns cls_row_status bits. */
static int32_t ends(const model *m, int32_t token, uint32_t outputs)
{
    for (uint32_t i = 0; i < m->params.stop_count && outputs >= m->params.min_tokens; i++)
        if (m->stop[i] == token)
            return CLS_ROW_STOPPED;
    return m->params.max_tokens != 0 && outputs >= m->params.max_tokens
               ? CLS_ROW_STOPPED | CLS_ROW_LENGTH
               : 0;
}

int model_stopped(const model *m)
{
    const int after_prompt = m->n == 0 || !m->is_output[m->n - 1];
    return m->outputs != 0 && 0 != ends(m, after_prompt ? -1 : m->id[m->n - 1], m->outputs);
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
    cls_params p = with_lists(m);
    cls_host_row row;
    cls_host_result result = {.struct_size = sizeof result};
    *token = invalid_token;
    *status = !m->begun ? CLS_ROW_NO_SLOT : CLS_ROW_STOPPED | CLS_ROW_SKIPPED;
    if (!m->begun || model_stopped(m))
        return;
    for (uint32_t i = window ? m->n - least(window, m->n) : m->since; i < m->n; i++)
        kind[m->is_output[i]][n[m->is_output[i]]++] = m->id[i];
    p.penalty_window = 0;
    p.max_tokens = 0;
    p.stop_ids = NULL;
    p.stop_count = 0;
    cls_host_row_default(&row, sizeof row);
    row.logits = logits;
    row.vocab = m->vocab;
    row.params = &p;
    row.prompt = kind[0];
    row.prompt_count = n[0];
    row.output = kind[1];
    row.output_count = n[1];
    row.position = position ? *position : m->position;
    row.invalid_token = invalid_token;
    must(cls_host_sample(&row, &result));
    *token = result.token;
    *status = result.status;
    if (!(result.status & CLS_ROW_EMPTY))
        *status |= ends(m, result.token, m->outputs + 1);
}

const char *model_words(const model *m)
{
    static char words[400];
    const cls_params *const p = &m->params;
    snprintf(
        words, sizeof words,
        "%s, %u tokens, %u of them output, longest %u, counting from %u, position %u, T %g, k %d, "
        "p %g, repetition %g, "
        "frequency %g, presence %g, scope %d, window %u, max_tokens %u, %u biases, %u stop ids",
        m->begun ? "begun" : "not begun", m->n, m->outputs, m->longest, m->since, m->position,
        (double)p->temperature, p->top_k, (double)p->top_p, (double)p->repetition_penalty,
        (double)p->frequency_penalty, (double)p->presence_penalty, p->penalty_scope,
        p->penalty_window, p->max_tokens, p->logit_bias_count, p->stop_count);
    return words;
}
