/* SPDX-License-Identifier: MIT */
/* clsample explain: prints which tokens each stage of a row's chain removes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "request.h"
#include "run/probe.h"

#define BAR 32

/* The values of the options. */
typedef struct command {
    cli_request request;
    const char *pieces_path;
    uint32_t top;
    bool json;
} command;

/* ------------------------------------------------------------------------ table */

/* Switches to bold on a terminal, unless NO_COLOR is set (no-color.org). */
static void bold(bool on)
{
    const char *const no = getenv("NO_COLOR"), *const term = getenv("TERM");
    if (isatty(STDOUT_FILENO) && (no == NULL || *no == '\0') && term != NULL &&
        strcmp(term, "dumb") != 0)
        fputs(on ? "\033[1m" : "\033[0m", stdout);
}

static void print_line(const cli_shown *shown, bool first)
{
    char share[16] = "-", temperature[16] = "greedy";
    if (!first)
        snprintf(share, sizeof share, "%.2f%%", 100.0 * shown->share);
    if (shown->temperature > 0)
        snprintf(temperature, sizeof temperature, "%.4g", shown->temperature);
    bold(true);
    const int at = printf("%-12s %9" PRIu32 " %9.2f%% %10s %12s%s", shown->name, shown->kept,
                          100.0 * shown->mass, share, temperature, *shown->parameter ? "  " : "");
    cli_print_words(shown->parameter, (size_t)at, (size_t)at);
    bold(false);
}

static void print_top(const cli_shown *shown, const cli_pieces *pieces, double longest)
{
    for (uint32_t i = 0; i < shown->top_count; i++) {
        const double p = (double)shown->probs[shown->top[i]];
        char name[16];
        cli_pieces_name(pieces, (int32_t)shown->top[i], name);
        printf("    %-12s %9.6f  ", name, p);
        cli_bar(1.0, (int)(p / longest * BAR + 0.98));
        putchar('\n');
    }
}

static void print(const command *q, uint32_t r, const cli_explained *e, const cli_pieces *pieces)
{
    double longest = 0;
    char name[16], words[CLI_STATUS_WORDS];
    for (uint32_t i = 0; i < e->count; i++)
        if (e->stage[i].top_count != 0 && (double)e->stage[i].probs[e->stage[i].top[0]] > longest)
            longest = (double)e->stage[i].probs[e->stage[i].top[0]];
    printf("%srow %" PRIu32 " of %" PRIu32 ", %" PRIu32 " tokens, position %" PRIu32
           ", seed %" PRIu64 "\n\n",
           r == 0 ? "" : "\n", cli_row_number(&q->request.picked, r),
           q->request.array[CLI_LOGITS].file_rows, e->vocab, (uint32_t)cli_position(&q->request, r),
           q->request.rules[r].seed);
    printf("%-12s %9s %10s %10s %12s  %s\n", "stage", "tokens", "mass left", "keeps", "temperature",
           "parameter");
    for (uint32_t i = 0; i < e->count; i++) {
        print_line(&e->stage[i], i == 0);
        print_top(&e->stage[i], pieces, longest);
    }
    if (e->token < 0) {
        printf("\nno token: %s\n", cli_status_words(e->status, ", ", words));
        return;
    }
    cli_pieces_name(pieces, e->token, name);
    printf("\n%s: %s, of final probability %.6f and raw probability %.6f",
           e->status & CLS_ROW_FORCED ? "forced" : "drawn", name, e->final, e->raw);
    if (e->status != 0)
        printf(" (%s)", cli_status_words(e->status, ", ", words));
    putchar('\n');
}

/* ------------------------------------------------------------------------ JSON */

static json_t *stage_json(const cli_shown *shown)
{
    json_t *const top = json_array();
    for (uint32_t i = 0; i < shown->top_count; i++)
        json_array_append_new(top, json_pack("{s:I, s:f}", "token", (json_int_t)shown->top[i],
                                             "probability", (double)shown->probs[shown->top[i]]));
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:o}", "stage", shown->name, "parameter",
                     shown->parameter, "tokens", (json_int_t)shown->kept, "mass", shown->mass,
                     "of_before", shown->share, "temperature", shown->temperature, "top", top);
}

static json_t *row_json(const cli_request *q, uint32_t r, const cli_explained *e)
{
    json_t *const stages = json_array();
    char words[CLI_STATUS_WORDS];
    for (uint32_t i = 0; i < e->count; i++)
        json_array_append_new(stages, stage_json(&e->stage[i]));
    return json_pack("{s:I, s:I, s:i, s:o, s:o, s:i, s:s, s:o}", "row",
                     (json_int_t)cli_row_number(&q->picked, r), "position",
                     (json_int_t)cli_position(q, r), "token", (int)e->token, "raw_probability",
                     cli_real(e->raw), "final_probability", cli_real(e->final), "status",
                     (int)e->status, "status_words", cli_status_words(e->status, ", ", words),
                     "stages", stages);
}

/* --------------------------------------------------------------------- command */

/* The stages of many rows would be too large. */
static void free_stages(cli_explained *e)
{
    for (uint32_t i = 0; i < e->count; i++) {
        cli_free(e->stage[i].probs);
        cli_free(e->stage[i].keeps);
        cli_free(e->stage[i].top);
    }
}

static void explain(const command *q)
{
    const cli_request *const request = &q->request;
    const uint32_t top = q->top < request->vocab ? q->top : request->vocab;
    json_t *const array = json_array();
    cli_pieces pieces = {0};
    run_side host = {.name = "host", .on_host = true, .dies = true};
    run_text t = {NULL, 0};
    if (q->pieces_path != NULL)
        cli_pieces_read(q->pieces_path, request->vocab, &pieces);
    cli_request_write(request, "", false, &t);
    run_add(&t, "step");
    cli_request_write_inputs(request, &t);
    run_script script = cli_request_script(request, t.text);
    cls_context_options_init(&host.options);
    run_open(&host, NULL, NULL);
    run_first(&host, &script, script.count - 1);
    for (uint32_t r = 0; r < request->rows; r++) {
        cli_explained e;
        const cli_probe probe = run_probe(&host, &script.statement[script.count - 1], r);
        cli_explain(&probe, top, &e);
        cls_sampler_destroy(probe.sampler);
        if (q->json)
            json_array_append_new(array, row_json(request, r, &e));
        else
            print(q, r, &e, &pieces);
        free_stages(&e);
    }
    if (q->json)
        cli_print_json(json_array_size(array) == 1 ? json_array_get(array, 0) : array);
    run_close(&host);
}

int cls_cmd_explain(int argc, char **argv)
{
    static const char about[] =
        "Shows which tokens each stage of a row's chain removes, computed on the host.";
    command q = {.top = 8};
    cli_option options[] = {
        CLI_REQUEST_OPTIONS(&q.request) CLI_TITLE("Output"),
        {"top", CLI_UINT, &q.top, "N", "tokens to list after each stage (default 8)"},
        {"pieces", CLI_INPUT, &q.pieces_path, "FILE.bin",
         "the text of the tokens, a tokenizer of llama2.c"},
        {"json", CLI_FLAG, &q.json, NULL, "print an object, or an array of those of several rows"},
        CLI_NO_OPTION};
    cli_request_default(&q.request);
    cli_parse(argc, argv, "explain --logits FILE.npy [OPTION]...", about, options);
    if (q.request.rows_text.count == 0)
        cli_set(CLI_LIST, &q.request.rows_text, NULL, NULL, "0");
    cli_request_read(&q.request);
    for (uint32_t i = 0; i < q.request.rows; i++)
        if (q.request.rules[i].post_thinking != NULL)
            cli_die("explain shows the stages of one phase: give the parameters of the row's "
                    "phase, without \"post_thinking\"");
    explain(&q);
    cls_grammar_destroy(q.request.grammar);
    return 0;
}
