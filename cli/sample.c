/* SPDX-License-Identifier: MIT */
/* clsample sample: draws tokens from logits in a file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "results.h"

/* The values of the options. */
typedef struct command {
    cli_request request;
    const char *device, *logprobs, *candidates, *log, *set_offsets;
    const char *files[CLI_PARTS]; /* .npy files for parts of the results */
    cls_context_options kernels;
    int32_t logprob_kind;
    bool json;
    cli_results results;
} command;

/* ------------------------------------------------------------------- results */

/* Prints the logarithm of the kind that was asked for, then the raw and the final probability. The
 * one that is unknown or, for the likeliest tokens, of the other kind is NaN. */
static void print_logprobs(const cli_results *results, double raw, double final)
{
    const double both[] = {raw, final};
    printf(" %13.4f", both[results->kind]);
    for (int i = 0; i < 2; i++)
        if (isnan(both[i]))
            printf(" %11s", "-");
        else
            printf(" %11.6f", cli_probability(both[i]));
}

/* Prints the likeliest tokens below the row's first draw. */
static void print_top(const cli_results *results, uint32_t r)
{
    const int32_t *const ids = cli_ints(results, CLI_TOP_IDS, r);
    const float *const logprobs = cli_floats(results, CLI_TOP_LOGPROBS, r);
    for (uint32_t i = 0; i < results->top_n && ids[i] >= 0; i++) {
        const double x = (double)logprobs[i];
        const bool raw = results->kind == CLS_LOGPROB_RAW;
        printf("%15s %8" PRId32, i == 0 ? "likeliest" : "", ids[i]);
        print_logprobs(results, raw ? x : (double)NAN, raw ? (double)NAN : x);
        putchar('\n');
    }
}

/* Prints the kept set of the row's first draw. */
static void print_set(const cli_results *results, uint32_t r)
{
    const int32_t *const ids = cli_ints(results, CLI_SET_IDS, r);
    printf("%15s %8" PRId32 ":", "kept", *cli_ints(results, CLI_SET_COUNTS, r));
    for (uint32_t i = 0; i < results->set_n && ids[i] >= 0; i++)
        printf(" %" PRId32, ids[i]);
    putchar('\n');
}

static void print_table(const cli_request *q, const cli_results *results)
{
    printf("%6s %8s %8s %13s %11s %11s  %s\n", "row", "position", "token",
           results->kind == CLS_LOGPROB_RAW ? "raw logprob" : "final logprob", "raw prob.",
           "final prob.", "status");
    for (uint32_t r = 0; r < results->rows; r++)
        for (uint32_t d = 0; d < results->draws; d++) {
            char words[CLI_STATUS_WORDS];
            printf("%6" PRIu32 " %8" PRIu64 " %8" PRId32, cli_row_number(&q->picked, r),
                   cli_position(q, r) + d, cli_ints(results, CLI_TOKENS, r)[d]);
            print_logprobs(results, (double)cli_floats(results, CLI_LOGPROBS, r)[d],
                           (double)cli_floats(results, CLI_FINAL_LOGPROBS, r)[d]);
            printf("  %s\n", cli_status_words(cli_ints(results, CLI_STATUS, r)[d], ", ", words));
            if (d == 0)
                print_top(results, r);
            if (d == 0 && results->set_n != 0)
                print_set(results, r);
        }
}

static void print_results(const command *q)
{
    json_t *const array = json_array();
    for (uint32_t r = 0; r < q->results.rows && q->json; r++)
        json_array_append_new(array, cli_row_json(&q->request, &q->results, r));
    if (q->json)
        cli_print_json(array);
    else
        print_table(&q->request, &q->results);
}

static void write_files(const command *q)
{
    for (int i = 0; i < CLI_PARTS; i++)
        if (q->files[i] != NULL && (i != CLI_SET_IDS || q->set_offsets == NULL))
            cli_part_write(q->files[i], &q->results, (cli_part)i);
    if (q->set_offsets != NULL)
        cli_sets_write(q->files[CLI_SET_IDS], q->set_offsets, &q->results);
    if (q->candidates != NULL)
        cli_candidates_write(q->candidates, &q->request, &q->results);
    if (q->log != NULL)
        cli_log_write(q->log, &q->request, &q->results);
}

/* ----------------------------------------------------------------------- run */

/* Fails if options are out of range or exclude each other. */
static void check(const command *q)
{
    const char *const of_top =
        q->files[CLI_TOP_IDS] != NULL ? "--logprobs-top-ids" : "--logprobs-top-values";
    const char *const of_set =
        q->files[CLI_SET_IDS] != NULL ? "--kept-set-ids" : "--kept-set-counts";
    if (q->results.draws == 0)
        cli_die("--draws: it must be at least 1");
    if (q->results.top_n > CLI_MOST_TOP)
        cli_die("--logprobs-top: %" PRIu32 " is too large; the most is %u", q->results.top_n,
                CLI_MOST_TOP);
    if ((q->files[CLI_TOP_IDS] != NULL || q->files[CLI_TOP_LOGPROBS] != NULL) &&
        q->results.top_n == 0)
        cli_die("%s: it requires --logprobs-top", of_top);
    if ((q->files[CLI_SET_IDS] != NULL || q->files[CLI_SET_COUNTS] != NULL) &&
        q->results.set_n == 0)
        cli_die("%s: it requires --kept-set", of_set);
    if (q->set_offsets != NULL && q->files[CLI_SET_IDS] == NULL)
        cli_die("--kept-set-offsets: it requires --kept-set-ids");
}

static int sample(command *q)
{
    const cli_request *const request = &q->request;
    const uint32_t rows = request->rows;
    if (q->results.set_n > request->vocab)
        cli_die("--kept-set: %" PRIu32 " is more than the vocabulary's %" PRIu32 " tokens",
                q->results.set_n, request->vocab);
    if (q->results.draws > SIZE_MAX / 8 / rows)
        cli_die("--draws: %" PRIu32 " draws of %" PRIu32 " rows need too much memory",
                q->results.draws, rows);
    for (uint32_t r = 0; r < rows; r++)
        if (cli_position(request, r) > UINT32_MAX - (q->results.draws - 1))
            cli_die("--draws: %" PRIu32 " draws of row %" PRIu32 " from position %" PRIu64
                    " on exceed the last position, 4294967295",
                    q->results.draws, cli_row_number(&request->picked, r),
                    cli_position(request, r));
    q->results.by_device = q->logprobs != NULL;
    if (cli_results_get(request, q->device, &q->kernels, &q->results) != 0)
        return 1;
    write_files(q);
    print_results(q);
    return 0;
}

int cls_cmd_sample(int argc, char **argv)
{
    command q = {.results = {.draws = 1, .logprobs = true}};
    cli_option options[] = {
        CLI_REQUEST_OPTIONS(&q.request) CLI_TITLE("Output"),
        {"draws", CLI_UINT, &q.results.draws, "N",
         "draw N tokens for each row, at successive positions (default 1)"},
        {"json", CLI_FLAG, &q.json, NULL, "print an array with one object for each row"},
        {"tokens", CLI_OUTPUT, &q.files[CLI_TOKENS], "OUT.npy",
         "write the tokens: int32 [rows], or [rows, draws]"},
        {"logprobs", CLI_OUTPUT, &q.logprobs, "OUT.npy",
         "write their log-probabilities: float32 of the same shape"},
        {"logprob-kind", CLI_CHOICE, &q.logprob_kind, "KIND=raw|final",
         "raw (default): by the logits; final: by the distribution that is drawn from"},
        {"probs", CLI_OUTPUT, &q.files[CLI_PROBS], "OUT.npy",
         "write the final distribution: float32 [rows, vocab]"},
        {"logprobs-top", CLI_UINT, &q.results.top_n, "N",
         "also print the N likeliest tokens of each row"},
        {"logprobs-top-ids", CLI_OUTPUT, &q.files[CLI_TOP_IDS], "OUT.npy",
         "write their ids: int32 [rows, N]"},
        {"logprobs-top-values", CLI_OUTPUT, &q.files[CLI_TOP_LOGPROBS], "OUT.npy",
         "write their log-probabilities: float32 [rows, N]"},
        {"kept-set", CLI_UINT, &q.results.set_n, "N",
         "also print the ids of each row's kept set, at most N"},
        {"kept-set-ids", CLI_OUTPUT, &q.files[CLI_SET_IDS], "OUT.npy",
         "write these ids: int32 [rows, N]"},
        {"kept-set-offsets", CLI_OUTPUT, &q.set_offsets, "OUT.npy",
         "write where each row's ids begin: int32 [rows + 1]; the ids are then int32 [ids], the "
         "sets one behind the other, without those of more than N"},
        {"kept-set-counts", CLI_OUTPUT, &q.files[CLI_SET_COUNTS], "OUT.npy",
         "write the sizes of the whole sets: int32 [rows]"},
        {"candidates", CLI_OUTPUT, &q.candidates, "OUT.json",
         "write the tokens of each row that the chain keeps"},
        {"log", CLI_OUTPUT, &q.log, "FILE", "write a text of calls that clsample run proves"},
        CLI_DEVICE_OR_HOST(&q.device),
        CLI_SHAPE_OPTIONS(&q.kernels),
        CLI_DEVICE_OPTIONS(&q.kernels),
        CLI_NO_OPTION};
    cli_request_default(&q.request);
    cls_context_options_init(&q.kernels);
    cli_parse(argc, argv, "sample --logits FILE.npy [OPTION]...",
              "Draws a token for each row of logits.", options);
    q.results.candidates = q.candidates != NULL;
    q.results.probs = q.files[CLI_PROBS] != NULL;
    q.results.kind = q.logprob_kind == 1 ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
    q.files[cli_logprobs(&q.results)] = q.logprobs;
    check(&q);
    if (q.log != NULL)
        cli_log_check(&q.request);
    cli_request_read(&q.request);
    const int code = sample(&q);
    cls_grammar_destroy(q.request.grammar);
    return code;
}
