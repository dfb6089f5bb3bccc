/* SPDX-License-Identifier: MIT */
/* Says why the reference does not draw the token of a log: another one is forced, something bans
 * it, a stage of the chain removes it, or it is in the set and another token is drawn. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "explain.h"
#include "log.h"

/* ------------------------------------------------------------------------- bans */

enum { LOGIT, MASK, BIAS, LOGIT_BIAS, BAD_WORDS, NGRAM, MIN_TOKENS, BANS };

/* Each sentence goes on with the token. */
static const char *const bans[BANS] = {[LOGIT] = "a logit of minus infinity or NaN excludes",
                                       [MASK] = "the mask does not allow",
                                       [BIAS] = "the bias bans",
                                       [LOGIT_BIAS] = "logit_bias bans",
                                       [BAD_WORDS] = "bad_words bans",
                                       [NGRAM] = "no_repeat_ngram bans",
                                       [MIN_TOKENS] =
                                           "min_tokens still bans the stop ids, one of which is"};

static bool is_allowed_id(const cls_params *p, int32_t token)
{
    bool found = p->allowed_count == 0 && p->only_allowed == 0;
    for (uint32_t i = 0; i < p->allowed_count; i++)
        found |= p->allowed_ids[i] == token;
    return found;
}

/* Finds the first ban of a token: samples rows in which only this token is allowed, without a
 * chain, with one more ban each time. *ban is BANS if there is none. */
static int find_ban(const cli_logged *logged, int *ban)
{
    const cls_host_row *const all = &logged->host;
    const cls_params *const p = all->params;
    cls_params params;
    cls_host_row row = *all;
    cls_params_default(&params, sizeof params);
    params.allowed_ids = &logged->token;
    params.allowed_count = 1;
    row.params = &params;
    row.infill = NULL;
    row.mask = row.bias = NULL;
    for (*ban = LOGIT; *ban < BANS; ++*ban) {
        cls_host_result result = {.struct_size = sizeof result};
        switch (*ban) {
        case MASK:
            row.mask = all->mask;
            break;
        case BIAS:
            row.bias = all->bias;
            break;
        case LOGIT_BIAS:
            params.logit_bias = p->logit_bias;
            params.logit_bias_count = p->logit_bias_count;
            break;
        case BAD_WORDS:
            params.bad_words = p->bad_words;
            params.bad_word_count = p->bad_word_count;
            break;
        case NGRAM:
            params.no_repeat_ngram = p->no_repeat_ngram;
            break;
        case MIN_TOKENS:
            params.min_tokens = p->min_tokens;
            params.stop_ids = p->stop_ids;
            params.stop_count = p->stop_count;
        }
        if (cls_host_sample(&row, &result) != CLS_OK)
            return cli_fail_library("the reference");
        if (result.token != logged->token)
            return 0;
    }
    return 0;
}

/* ------------------------------------------------------------------------ forced */

/* Says what forces the token that the reference gives, or forces one that the mask forbids. */
static int put_forced(const cli_logged *logged, const cls_host_result *drawn, char *text,
                      size_t size)
{
    cls_host_row row = logged->host;
    cls_host_result result = {.struct_size = sizeof result};
    row.mask = NULL;
    if (cls_host_sample(&row, &result) != CLS_OK)
        return cli_fail_library("the reference");
    if (!(result.status & CLS_ROW_FORCED))
        return 0;
    if (drawn->token < 0)
        snprintf(text, size, "the mask does not allow token %" PRId32 ", which is forced",
                 result.token);
    else if (row.forced_count != 0)
        snprintf(text, size, "it is force[%" PRIu32 "]", logged->forced);
    else
        snprintf(text, size, "the thinking has used its budget of %" PRIu32 " tokens",
                 row.params->thinking_budget);
    return 0;
}

/* ----------------------------------------------------------------------- stages */

static void put_stage(const cli_explained *e, int32_t token, char *text, size_t size)
{
    uint32_t i = 1;
    while (i < e->count && e->stage[i].keeps[token])
        i++;
    const bool shown = i < e->count && e->stage[i].parameter[0] != '\0';
    if (i < e->count)
        snprintf(text, size,
                 "token %" PRId32 " is outside the kept set: stage %s%s%s%s removes it and leaves "
                 "%" PRIu32 " of %" PRIu32 " tokens",
                 token, e->stage[i].name, shown ? " (" : "", e->stage[i].parameter,
                 shown ? ")" : "", e->stage[i].kept, e->stage[i - 1].kept);
    else
        snprintf(text, size,
                 "token %" PRId32 ", of probability %.6f, is also in the set of %" PRIu32
                 " tokens, but it is not the one that is drawn",
                 token, (double)e->stage[i - 1].probs[token], e->stage[i - 1].kept);
}

int cli_replay_reason(const cli_logged *logged, const cls_host_result *drawn, char *text,
                      size_t size)
{
    const int32_t token = logged->token;
    cli_explained e = {0};
    int ban;
    if (drawn->token < 0 || (drawn->status & CLS_ROW_FORCED))
        return put_forced(logged, drawn, text, size);
    if (token < 0)
        return 0;
    if ((uint32_t)token >= logged->host.vocab) {
        snprintf(text, size, "token %" PRId32 " is not in the vocabulary", token);
        return 0;
    }
    if (logged->status & CLS_ROW_FORCED) {
        snprintf(text, size, "nothing forces token %" PRId32, token);
        return 0;
    }
    if (!is_allowed_id(logged->host.params, token)) {
        snprintf(text, size, "token %" PRId32 " is not one of the allowed ids", token);
        return 0;
    }
    if (find_ban(logged, &ban) != 0)
        return 1;
    if (ban != BANS) {
        snprintf(text, size, "%s token %" PRId32, bans[ban], token);
        return 0;
    }
    if (cli_explain(&logged->host, logged->row, 0, &e) != 0)
        return 1;
    put_stage(&e, token, text, size);
    return 0;
}
