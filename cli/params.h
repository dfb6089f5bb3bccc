/* SPDX-License-Identifier: MIT */
/* Sampling parameters on the command line and in files: a line each. */
#ifndef CLS_CLI_PARAMS_H
#define CLS_CLI_PARAMS_H

#include "cli.h"

/* The entries of those that are one value, for an option table; p: a cls_params.
 * A file's key is the name with underscores; other names: cli/params.c. */
/* clang-format off */
#define CLI_PARAM_OPTIONS(p) \
    {"temperature", CLI_FLOAT, &(p)->temperature, "T", \
     "divide the logits by T; 0 is greedy (default 1)", NULL, 0}, \
    {"dynatemp-range", CLI_FLOAT, &(p)->dynatemp_range, "R", \
     "by the entropy from T - R to T + R (default 0: off)", NULL, 0}, \
    {"dynatemp-exp", CLI_FLOAT, &(p)->dynatemp_exponent, "E", \
     "and a power E of it (default 1)", NULL, 0}, \
    {"top-k", CLI_INT, &(p)->top_k, "K", \
     "keep the K likeliest tokens; 0 or less: off (default)", NULL, 0}, \
    {"top-p", CLI_FLOAT, &(p)->top_p, "P", \
     "keep the likeliest tokens that reach P of the mass (default 1: off)", NULL, 0}, \
    {"top-p-decay", CLI_FLOAT, &(p)->top_p_decay, "D", \
     "top-p becomes D times what it was after every token (default 1: off)", NULL, 0}, \
    {"top-p-min", CLI_FLOAT, &(p)->top_p_min, "P", \
     "but never less than P (default 1e-6)", NULL, 0}, \
    {"top-p-reset-id", CLI_INT, &(p)->top_p_reset_id, "ID", \
     "and this token restores it (default -1: none)", NULL, 0}, \
    {"min-p", CLI_FLOAT, &(p)->min_p, "P", \
     "keep tokens at least P times as likely as the likeliest (default 0)", NULL, 0}, \
    {"top-n-sigma", CLI_FLOAT, &(p)->top_n_sigma, "N", \
     "keep logits within N standard deviations of the largest (default 0: off)", NULL, 0}, \
    {"typical", CLI_FLOAT, &(p)->typical_p, "P", \
     "keep the tokens nearest to the entropy, to P of the mass (default 1: off)", NULL, 0}, \
    {"xtc-probability", CLI_FLOAT, &(p)->xtc_probability, "P", \
     "with probability P drop the likeliest tokens (default 0: off)", NULL, 0}, \
    {"xtc-threshold", CLI_FLOAT, &(p)->xtc_threshold, "P", \
     "but the last as likely as P (default 0.1)", NULL, 0}, \
    {"p-less", CLI_SWITCH, &(p)->p_less, NULL, \
     "keep tokens as likely as the sum of squares of all", NULL, 0}, \
    {"infill", CLI_SWITCH, &(p)->infill, NULL, \
     "llama.cpp's infill stage; needs --infill-end", NULL, 0}, \
    {"min-keep", CLI_UINT, &(p)->min_keep, "N", \
     "a truncation but top-k leaves at least N tokens (default 1)", NULL, 0}, \
    {"mirostat", CLI_INT, &(p)->mirostat, "N", \
     "1 or 2: Mirostat in place of all truncations (default 0: off)", NULL, 0}, \
    {"mirostat-ent", CLI_FLOAT, &(p)->mirostat_tau, "TAU", \
     "the surprise that it aims at, in bits (default 5)", NULL, 0}, \
    {"mirostat-lr", CLI_FLOAT, &(p)->mirostat_eta, "ETA", \
     "and its learning rate (default 0.1)", NULL, 0}, \
    {"adaptive-target", CLI_FLOAT, &(p)->adaptive_target, "P", \
     "draw tokens of probability P on average (default -1: off)", NULL, 0}, \
    {"adaptive-decay", CLI_FLOAT, &(p)->adaptive_decay, "D", \
     "an average that forgets by D (default 0.9)", NULL, 0}, \
    {"repetition-penalty", CLI_FLOAT, &(p)->repetition_penalty, "R", \
     "logits of tokens that occurred: / R, * R if negative (default 1)", NULL, 0}, \
    {"frequency-penalty", CLI_FLOAT, &(p)->frequency_penalty, "F", \
     "minus F for each time that a token occurred (default 0)", NULL, 0}, \
    {"presence-penalty", CLI_FLOAT, &(p)->presence_penalty, "P", \
     "minus P if a token occurred (default 0)", NULL, 0}, \
    {"penalty-scope", CLI_CHOICE, &(p)->penalty_scope, "SCOPE", \
     "where frequency and presence look: output (default) or all", "output|all", 0}, \
    {"penalty-window", CLI_UINT, &(p)->penalty_window, "N", \
     "penalties look at the last N tokens (default 0: all)", NULL, 0}, \
    {"dry-multiplier", CLI_FLOAT, &(p)->dry_multiplier, "M", \
     "DRY: minus M * BASE^(length - allowed) for repeating (default 0: off)", NULL, 0}, \
    {"dry-base", CLI_FLOAT, &(p)->dry_base, "BASE", \
     "(default 1.75)", NULL, 0}, \
    {"dry-allowed-length", CLI_UINT, &(p)->dry_allowed_length, "N", \
     "shorter repetitions cost nothing (default 2)", NULL, 0}, \
    {"dry-penalty-last-n", CLI_UINT, &(p)->dry_window, "N", \
     "DRY looks at the last N tokens (default 0: all)", NULL, 0}, \
    {"no-repeat-ngram-size", CLI_UINT, &(p)->no_repeat_ngram, "N", \
     "ban what would repeat N tokens in a row (default 0: off)", NULL, 0}, \
    {"min-tokens", CLI_UINT, &(p)->min_tokens, "N", \
     "no stop id before the output has N tokens (default 0)", NULL, 0}, \
    {"max-tokens", CLI_UINT, &(p)->max_tokens, "N", \
     "stop with the Nth output token (default 0: no limit)", NULL, 0}, \
    {"seed", CLI_UINT64, &(p)->seed, "N", \
     "row r draws with seed N + r (default 0)", NULL, 0}, \
    {"stream", CLI_UINT64, &(p)->stream, "N", \
     "tells requests of one seed apart (default 0)", NULL, 0}, \
    {"position", CLI_UINT, &(p)->position, "N", \
     "position of the first output token (default 0)", NULL, 0}

/* Those that are more than one value; l: a cli_lists. */
#define CLI_LIST_OPTIONS(l) \
    {"chain", CLI_STRING, &(l)->chain, "ORDER", \
     "default, vllm, llama, or stages in order with commas between", NULL, 0}, \
    {"stop-id", CLI_LIST, &(l)->stop_ids, "ID", \
     "stop with this token", NULL, 0}, \
    {"logit-bias", CLI_LIST, &(l)->logit_bias, "ID:VALUE", \
     "add VALUE to a token's logit; -inf bans it", NULL, 0}, \
    {"allowed-id", CLI_LIST, &(l)->allowed_ids, "IDS", \
     "only these tokens, with commas between", NULL, 0}, \
    {"bad-word", CLI_LIST, &(l)->bad_words, "IDS", \
     "tokens, with commas between, that must not follow one another", NULL, 0}, \
    {"dry-sequence-breaker", CLI_LIST, &(l)->breakers, "IDS", \
     "tokens, with commas between, that end a repetition", NULL, 0}
/* clang-format on */

/* What these options leave: texts into argv. */
typedef struct cli_lists {
    const char *chain;
    cli_list stop_ids, logit_bias, allowed_ids, bad_words, breakers;
} cli_lists;

/* ------------------------------------------------------------------ cli/lists.c */

/* Parses the texts into params, which must have no lists yet and owns what is
 * made, parsed or half parsed. */
int cli_lists_parse(const cli_lists *texts, uint32_t vocab, cls_params *params);
void cli_lists_free(cli_lists *texts); /* the texts, not what was parsed */

/* A list of a row from a JSON value; -1: no list has this key. `what` is for
 * the sentence. Replaces, and does not free, what params has. */
int cli_list_from_json(const char *key, const char *what, json_t *value, uint32_t vocab,
                       cls_params *params);

/* Reads ids with commas between; what it returns is the caller's. NULL: failed. */
int32_t *cli_ids_parse(const char *what, const cli_list *texts, uint32_t *count);

/* ----------------------------------------------------------------- cli/params.c */

/* Sets a value from JSON of its type; `what` is for the sentence. An integer
 * beyond JSON's 63 bits comes as a string. */
int cli_set_from_json(const cli_option *option, const char *what, json_t *value);

/* Names the option whose value the library refuses. options: as given. */
int cli_params_check(const cli_option *options, const cls_params *params, uint32_t vocab);

/* Rows of requests. */
typedef struct cli_rows {
    uint32_t count;           /* that are asked for */
    uint32_t all;             /* that files have */
    const cli_picked *picked; /* which of them; NULL: all */
    const char *of;           /* what they are rows of, for sentences: "rows of logits" */
} cli_rows;

/* The rows' parameters: base, for row r of the files with seed base->seed + r or that of the file
 * seeds_path (may be NULL), then what the file params_path (may be NULL) says. */
int cli_params_rows(const cls_params *base, const char *params_path, const char *seeds_path,
                    const cli_rows *rows, uint32_t vocab, cls_params *params);

/* Frees the lists of base and of the rows (params may be NULL), which may share them. */
void cli_params_free(cls_params *base, cls_params *params, uint32_t rows);

#endif
