/* SPDX-License-Identifier: MIT */
/* clsample demo: compares some samplers on a few rows of logits, in one table for each row.
 * Each column is a row of one batch, with the same logits and other parameters. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "explain.h"
#include "results.h"

#define MOST_ROWS 16
#define SHOWN 6 /* tokens of a table */
#define DRAWS 3
#define BAR 6
#define COLUMN 13 /* characters: bar, share and two blanks */

/* The columns. The second one truncates nothing, so it decides which tokens are shown. */
static const struct setting {
    const char *title;
    float temperature;
    int32_t top_k;
    float top_p, min_p;
} settings[] = {
    {"greedy", 0.0f, 0, 1.0f, 0.0f},      {"temp 0.8", 0.8f, 0, 1.0f, 0.0f},
    {"+ top-k 3", 0.8f, 3, 1.0f, 0.0f},   {"+ top-p 0.9", 0.8f, 0, 0.9f, 0.0f},
    {"+ min-p 0.1", 0.8f, 0, 1.0f, 0.1f},
};
#define SETTINGS (sizeof settings / sizeof settings[0])
#define PLAIN 1

/* --------------------------------------------------------------------- picture */

static void print_share(float p)
{
    if (p > 0.0f) {
        cli_bar((double)p, BAR);
        printf(p < 0.005f ? "  <1%%  " : " %3.0f%%  ", 100.0 * (double)p);
    } else {
        printf("%*s", COLUMN, "");
    }
}

static void print_row(const cli_results *results, uint32_t vocab, const cli_pieces *pieces,
                      uint32_t at, uint32_t row)
{
    const float *const probs = cli_floats(results, CLI_PROBS, at);
    uint32_t top[SHOWN] = {0};
    const uint32_t n = cli_likeliest(probs + PLAIN * (size_t)vocab, vocab, 0.0f, SHOWN, top);
    char name[16];
    printf("\nrow %-8" PRIu32, row);
    for (size_t s = 0; s < SETTINGS; s++)
        printf("%-*s", COLUMN, settings[s].title);
    for (uint32_t i = 0; i < n; i++) {
        cli_pieces_name(pieces, (int32_t)top[i], name);
        printf("\n%-11s ", name);
        for (size_t s = 0; s < SETTINGS; s++)
            print_share(probs[s * vocab + top[i]]);
    }
    printf("\n%-12s", "tokens left");
    for (size_t s = 0; s < SETTINGS; s++) {
        uint32_t kept = 0;
        for (uint32_t t = 0; t < vocab; t++)
            kept += probs[s * vocab + t] > 0.0f;
        printf("%-*" PRIu32, COLUMN, kept);
    }
    for (uint32_t d = 0; d < DRAWS; d++) {
        printf("\n%-12s", d == 0 ? "drawn" : "");
        for (size_t s = 0; s < SETTINGS; s++) {
            cli_pieces_name(pieces, cli_ints(results, CLI_TOKENS, at + (uint32_t)s)[d], name);
            printf("%-*s", COLUMN, name);
        }
    }
    putchar('\n');
}

/* ------------------------------------------------------------------------- run */

/* Makes the batch, which has each selected row once for each setting, all with one seed. */
static void fill(const cli_picked *rows, uint64_t seed, cli_request *q)
{
    const uint32_t count = rows->count * (uint32_t)SETTINGS;
    q->picked = (cli_picked){rows->option, count, cli_alloc(count, sizeof *rows->row)};
    q->rules = cli_alloc(count, sizeof *q->rules);
    for (uint32_t r = 0; r < count; r++) {
        const struct setting *setting = &settings[r % SETTINGS];
        cls_params *const p = &q->rules[r];
        q->picked.row[r] = rows->row[r / SETTINGS];
        cls_params_init(p);
        p->temperature = setting->temperature;
        p->top_k = setting->top_k;
        p->top_p = setting->top_p;
        p->min_p = setting->min_p;
        p->seed = seed + q->picked.row[r];
    }
}

int cls_cmd_demo(int argc, char **argv)
{
    const char *device = NULL, *pieces_path = NULL;
    cli_list rows = {0};
    uint64_t seed = 0;
    cli_picked picked;
    cli_request q;
    cls_context_options kernels;
    cli_pieces words = {0};
    cli_results results = {
        .draws = DRAWS, .probs = true, .features = ",search"}; /* top-p alone needs it */
    cli_option options[] = {
        CLI_TITLE("Input"),
        {"logits", CLI_INPUT, &q.path[CLI_LOGITS], "FILE.npy", "[rows, vocab] float32 or float16"},
        CLI_ROWS(&rows, "rows to show, at most 16, such as 0,3,8-15 (default 0)"),
        {"pieces", CLI_INPUT, &pieces_path, "FILE.bin",
         "the text of the tokens, a tokenizer of llama2.c"},
        {"seed", CLI_UINT64, &seed, "N", "row r is drawn with seed N + r (default 0)"},
        CLI_DEVICE_OR_HOST(&device),
        CLI_DEVICE_OPTIONS(&kernels),
        CLI_NO_OPTION};
    cli_request_default(&q);
    cls_context_options_init(&kernels);
    cli_parse(argc, argv, "demo --logits FILE.npy [OPTION]...",
              "Compares greedy, temperature, top-k, top-p and min-p on some rows of logits.",
              options);
    if (q.path[CLI_LOGITS] == NULL)
        cli_die("--logits: this option is required; name a file of logits");
    if (rows.count == 0)
        cli_set(CLI_LIST, &rows, NULL, NULL, "0");
    cli_picked_parse(&rows, MOST_ROWS, &picked);
    fill(&picked, seed, &q);
    cli_request_read(&q);
    if (pieces_path != NULL)
        cli_pieces_read(pieces_path, q.vocab, &words);
    if (cli_results_get(&q, device, &kernels, true, &results) != 0)
        return 1;
    for (uint32_t r = 0; r < q.rows; r += (uint32_t)SETTINGS)
        print_row(&results, q.vocab, &words, r, q.picked.row[r]);
    return 0;
}
