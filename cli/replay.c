/* SPDX-License-Identifier: MIT */
/* clsample replay: proves the tokens of a log by the reference. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

enum { PROVEN, DIFFERENT }; /* exit statuses; or cli_failure */

static void put_token(const char *before, int32_t token, const char *after)
{
    if (token < 0)
        printf("%sno token%s", before, after);
    else
        printf("%stoken %" PRId32 "%s", before, token, after);
}

/* Prints what differs, as one line. */
static int report(const cli_log *log, const cli_logged *logged, const cls_host_result *drawn)
{
    char reason[512] = "", words[CLI_STATUS_WORDS];
    const bool same = drawn->token == logged->token;
    if (!same && logged->same_inputs &&
        cli_replay_reason(logged, drawn, reason, sizeof reason) != 0)
        return 1;
    printf("line %" PRIu64 ", row %" PRIu32 ", step %" PRIu32 ", position %" PRIu32 ": ", log->line,
           logged->row, logged->step, logged->host.position);
    if (!logged->same_inputs) {
        puts("the logits, the mask or the bias have changed since the token was sampled");
        return 0;
    }
    if (same) {
        put_token("", logged->token, " has the status ");
        printf("\"%s\" in the log", cli_status_words(logged->status, words));
        printf(", but it should be \"%s\"\n", cli_status_words(drawn->status, words));
        return 0;
    }
    put_token("the log has ", logged->token, ", but ");
    if (drawn->status & CLS_ROW_FORCED)
        put_token("", drawn->token, " is forced");
    else
        put_token("the draw gives ", drawn->token, "");
    if (drawn->token < 0)
        printf(" (%s)", cli_status_words(drawn->status, words));
    else if (!(drawn->status & CLS_ROW_FORCED))
        printf(", of probability %.6f", exp((double)drawn->logprob_final));
    printf("%s%s\n", *reason == '\0' ? "" : "; ", reason);
    return 0;
}

static int prove(cli_log *log, bool all)
{
    uint64_t different = 0;
    for (;;) {
        cli_logged logged;
        cls_host_result drawn = {.struct_size = sizeof drawn};
        bool more;
        if (cli_log_next(log, &more, &logged) != 0)
            return cli_failure;
        if (!more)
            break;
        if (cls_host_sample(&logged.host, &drawn) != CLS_OK) {
            cli_fail("%s: line %" PRIu64 ": %s", log->path, log->line, cls_error_message());
            return cli_failure;
        }
        if (logged.same_inputs && drawn.token == logged.token && drawn.status == logged.status)
            continue;
        if (different++ == 0 && strcmp(log->version, cls_version()) != 0)
            printf("the log was written by clsample %s; this is %s\n", log->version, cls_version());
        void *const before = cli_memory();
        if (report(log, &logged, &drawn) != 0)
            return cli_failure;
        cli_memory_end(before); /* the explanations of many tokens are large */
        if (!all)
            return cli_flush_output() != 0 ? cli_failure : DIFFERENT;
    }
    if (different == 0)
        printf("all %" PRIu64 " tokens of %" PRIu32 " requests are proven\n", log->tokens_read,
               log->requests);
    else
        printf("%" PRIu64 " of %" PRIu64 " tokens differ\n", different, log->tokens_read);
    if (cli_flush_output() != 0)
        return cli_failure;
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
        {"all", CLI_FLAG, &all, NULL, "report all tokens that differ, not only the first"},
        CLI_NO_OPTION};
    const cli_parsed parsed =
        cli_parse(argc, argv, "replay LOG [--all]",
                  "Proves each token of a log of clsample sample --log by the reference.", options);
    if (parsed != CLI_GO)
        return parsed == CLI_FAILED ? cli_failure : PROVEN;
    if (path == NULL) {
        cli_fail("replay: the name of a log is missing; clsample sample --log writes one");
        return cli_failure;
    }
    const int status = cli_log_open(path, &log) != 0 ? cli_failure : prove(&log, all);
    cli_log_close(&log);
    return status;
}
