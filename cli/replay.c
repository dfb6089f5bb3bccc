/* SPDX-License-Identifier: MIT */
/* clsample replay: proves the tokens of a log by the reference, and says why it does not draw a
 * token: another one is forced, something bans it, a stage of the chain removes it, or it is in the
 * set and another token is drawn. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain.h"
#include "log.h"

enum { PROVEN, DIFFERENT }; /* exit statuses, beside cli_failure */

/* ------------------------------------------------------------------------- bans */

enum { LOGIT, MASK, GRAMMAR, BIAS, LOGIT_BIAS, BAD_WORDS, NGRAM, MIN_TOKENS, BANS };

/* Each sentence goes on with the token. */
static const char *const bans[BANS] = {[LOGIT] = "a logit of minus infinity or NaN excludes",
                                       [MASK] = "the mask does not allow",
                                       [GRAMMAR] = "the grammar does not allow",
                                       [BIAS] = "the bias bans",
                                       [LOGIT_BIAS] = "logit_bias bans",
                                       [BAD_WORDS] = "bad_words bans",
                                       [NGRAM] = "no_repeat_ngram bans",
                                       [MIN_TOKENS] =
                                           "min_tokens still bans the stop ids, one of which is"};

static bool is_allowed_id(const cls_params *p, int32_t token)
{
    bool found = p->allowed_ids.count == 0 && p->only_allowed == 0;
    for (uint32_t i = 0; i < p->allowed_ids.count; i++)
        found |= p->allowed_ids.ids[i] == token;
    return found;
}

/* Finds the first ban of a token: samples rows in which only this token is allowed, without a
 * chain, with one more ban each time. BANS: there is none. min_tokens depends on all that is
 * allowed, except by masks, so that a mask allows the token alone then. */
static int find_ban(const cli_logged *logged)
{
    const cls_host_row *const all = &logged->host;
    const cls_params *const p = all->params;
    uint8_t *const only = cli_alloc(all->vocab, 1);
    cls_params params;
    cls_host_row row = *all;
    int ban = LOGIT;
    only[logged->token] = 1;
    cls_params_init(&params);
    params.allowed_ids.ids = &logged->token;
    params.allowed_ids.count = 1;
    row.params = &params;
    row.infill = NULL;
    row.mask = row.bias = NULL;
    for (bool found = false; ban < BANS && !found; ban += !found) {
        cls_host_result result = {.struct_size = sizeof result};
        switch (ban) {
        case MASK:
            row.mask = all->mask;
            break;
        case GRAMMAR: /* unless the request thinks */
            if (p->grammar == NULL)
                break;
            params.grammar = p->grammar;
            params.grammar_state = p->grammar_state;
            params.thinking_start = p->thinking_start;
            params.thinking_end = p->thinking_end;
            params.thinking_forced = p->thinking_forced;
            params.thinking_budget = p->thinking_budget;
            break;
        case BIAS:
            row.bias = all->bias;
            break;
        case LOGIT_BIAS:
            params.logit_bias.biases = p->logit_bias.biases;
            params.logit_bias.count = p->logit_bias.count;
            break;
        case BAD_WORDS:
            params.bad_words.sequences = p->bad_words.sequences;
            params.bad_words.count = p->bad_words.count;
            break;
        case NGRAM:
            params.no_repeat_ngram = p->no_repeat_ngram;
            params.ngram_window = p->ngram_window;
            params.ngram_output_only = p->ngram_output_only;
            params.ngram_exempt_ids = p->ngram_exempt_ids;
            break;
        case MIN_TOKENS:
            row.mask = only;
            row.mask_kind = CLS_MASK_BOOL;
            row.mask_width = row.vocab;
            params.allowed_ids = p->allowed_ids;
            params.only_allowed = p->only_allowed;
            params.min_tokens = p->min_tokens;
            params.stop_ids.ids = p->stop_ids.ids;
            params.stop_ids.count = p->stop_ids.count;
        }
        cli_sample_host(&row, logged->row, &result);
        found = result.token != logged->token;
    }
    cli_free(only);
    return ban;
}

/* ------------------------------------------------------------------------ forced */

/* Says what forces the token that the reference gives, or forces one that the mask forbids. */
static void put_forced(const cli_logged *logged, const cls_host_result *drawn, char *text,
                       size_t size)
{
    cls_host_row row = logged->host;
    cls_host_result result = {.struct_size = sizeof result};
    row.mask = NULL;
    cli_sample_host(&row, logged->row, &result);
    if (!(result.status & CLS_ROW_FORCED))
        return;
    if (drawn->token < 0)
        snprintf(text, size, "the mask does not allow token %" PRId32 ", which is forced",
                 result.token);
    else if (row.forced_count != 0)
        snprintf(text, size, "it is force[%" PRIu32 "]", logged->forced);
    else
        snprintf(text, size, "the thinking has used its budget of %" PRIu32 " tokens",
                 row.params->thinking_budget);
}

/* ----------------------------------------------------------------------- stages */

/* Says which stage removes the token, or that it is in the set and another one is drawn. */
static void put_stage(const cli_logged *logged, char *text, size_t size)
{
    const int32_t token = logged->token;
    cli_explained explained, *const e = &explained;
    uint32_t i = 1;
    cli_explain(&logged->host, logged->row, 0, e);
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
                 "token %" PRId32 ", of final probability %.6f, is also in the set of %" PRIu32
                 " tokens, but it is not the one that is drawn",
                 token, (double)e->stage[i - 1].probs[token], e->stage[i - 1].kept);
}

/* Writes why the reference gives another token than the log, or nothing where the token's status
 * says that. */
static void put_reason(const cli_logged *logged, const cls_host_result *drawn, char *text,
                       size_t size)
{
    const int32_t token = logged->token;
    if (drawn->token < 0 || (drawn->status & CLS_ROW_FORCED)) {
        put_forced(logged, drawn, text, size);
    } else if (token < 0) {
        *text = '\0';
    } else if ((uint32_t)token >= logged->host.vocab) {
        snprintf(text, size, "token %" PRId32 " is not in the vocabulary", token);
    } else if (logged->status & CLS_ROW_FORCED) {
        snprintf(text, size, "nothing forces token %" PRId32, token);
    } else if (!is_allowed_id(logged->host.params, token)) {
        snprintf(text, size, "token %" PRId32 " is not one of the allowed ids", token);
    } else {
        const int ban = find_ban(logged);
        if (ban != BANS)
            snprintf(text, size, "%s token %" PRId32, bans[ban], token);
        else
            put_stage(logged, text, size);
    }
}

/* ---------------------------------------------------------------------- reports */

static void put_token(const char *before, int32_t token, const char *after)
{
    if (token < 0)
        printf("%sno token%s", before, after);
    else
        printf("%stoken %" PRId32 "%s", before, token, after);
}

/* Prints what differs, as one line. */
static void report(const cli_log *log, const cli_logged *logged, const cls_host_result *drawn)
{
    char reason[512] = "", words[CLI_STATUS_WORDS];
    const bool same = drawn->token == logged->token;
    if (!same && logged->same_inputs)
        put_reason(logged, drawn, reason, sizeof reason);
    printf("line %" PRIu64 ", row %" PRIu32 ", step %" PRIu32 ", position %" PRIu32 ": ", log->line,
           logged->row, logged->step, logged->host.position);
    if (!logged->same_inputs) {
        puts("the logits, the mask or the bias have changed since the token was sampled");
        return;
    }
    if (same) {
        put_token("", logged->token, " has the status ");
        printf("\"%s\" in the log", cli_status_words(logged->status, words));
        printf(", but it should be \"%s\"\n", cli_status_words(drawn->status, words));
        return;
    }
    put_token("the log has ", logged->token, ", but ");
    if (drawn->status & CLS_ROW_FORCED)
        put_token("", drawn->token, " is forced");
    else
        put_token("the draw gives ", drawn->token, "");
    if (drawn->token < 0)
        printf(" (%s)", cli_status_words(drawn->status, words));
    else if (!(drawn->status & CLS_ROW_FORCED))
        printf(", of final probability %.6f", cli_probability((double)drawn->logprob_final));
    printf("%s%s\n", *reason == '\0' ? "" : "; ", reason);
}

static int prove(cli_log *log, bool all)
{
    uint64_t different = 0;
    cli_logged logged;
    while (cli_log_next(log, &logged)) {
        cls_host_result drawn = {.struct_size = sizeof drawn};
        if (cls_host_sample(&logged.host, &drawn) != CLS_OK)
            cli_die("%s: line %" PRIu64 ": %s", log->path, log->line, cls_error_message());
        if (logged.same_inputs && drawn.token == logged.token && drawn.status == logged.status)
            continue;
        if (different++ == 0 && strcmp(log->version, cls_version()) != 0)
            printf("the log was written by clsample %s; this is %s\n", log->version, cls_version());
        void *const before = cli_memory();
        report(log, &logged, &drawn);
        cli_memory_end(before); /* the explanations of many tokens are large */
        if (!all)
            return DIFFERENT;
    }
    if (different == 0)
        printf("all %" PRIu64 " tokens of %" PRIu32 " requests are proven\n", log->tokens_read,
               log->requests);
    else
        printf("%" PRIu64 " of %" PRIu64 " tokens differ\n", different, log->tokens_read);
    return different == 0 ? PROVEN : DIFFERENT;
}

/* Takes the first argument that is no option out of the arguments. NULL: there is none. */
static const char *take_path(int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++)
        if (argv[i][0] != '-') {
            const char *const path = argv[i];
            memmove(&argv[i], &argv[i + 1], (size_t)(*argc - i) * sizeof *argv);
            --*argc;
            return path;
        }
    return NULL;
}

int cls_cmd_replay(int argc, char **argv)
{
    const char *const path = take_path(&argc, argv);
    bool all = false;
    cli_log log;
    cli_option options[] = {
        CLI_TITLE("Output"),
        {"all", CLI_FLAG, &all, NULL, "report all tokens that differ, not only the first"},
        CLI_NO_OPTION};
    cli_parse(argc, argv, "replay LOG [--all]",
              "Proves each token of a log of clsample sample --log by the reference.", options);
    if (path == NULL)
        cli_die("replay: the name of a log is missing; clsample sample --log writes one");
    cli_log_open(path, &log);
    const int code = prove(&log, all);
    cls_grammar_destroy(log.grammar);
    return code;
}
