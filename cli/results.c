/* SPDX-License-Identifier: MIT */
/* Samples requests by a text of calls, and writes the results as files and JSON. */
#include "results.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The name under which clsample run records each part, and its type and dimensions in a file. The
 * first parts are of all draws. */
static const struct part {
    const char *record;
    char kind;
    unsigned dims;
} parts[CLI_PARTS] = {[CLI_TOKENS] = {"tokens", 'i', 2},
                      [CLI_STATUS] = {"status", 'i', 2},
                      [CLI_LOGPROBS] = {"logprobs", 'f', 2},
                      [CLI_FINAL_LOGPROBS] = {"logprobs", 'f', 2},
                      [CLI_PROBS] = {"probs", 'f', 2},
                      [CLI_RANKS] = {"ranks", 'i', 1},
                      [CLI_TOP_IDS] = {"top.ids", 'i', 2},
                      [CLI_TOP_LOGPROBS] = {"top.logprobs", 'f', 2},
                      [CLI_CANDIDATE_IDS] = {"kept.ids", 'i', 2},
                      [CLI_CANDIDATE_LOGITS] = {"kept.logits", 'f', 2},
                      [CLI_CANDIDATE_PROBS] = {"kept.probs", 'f', 2},
                      [CLI_CANDIDATE_COUNTS] = {"kept.counts", 'i', 1},
                      [CLI_ENTROPY] = {"entropy", 'f', 1},
                      [CLI_KEPT_MASS] = {"kept_mass", 'f', 1},
                      [CLI_SET_IDS] = {"set.ids", 'i', 2},
                      [CLI_SET_COUNTS] = {"set.counts", 'i', 1}};
enum { OF_ALL_DRAWS = CLI_FINAL_LOGPROBS + 1 };

int32_t *cli_ints(const cli_results *results, cli_part part, uint32_t row)
{
    return (int32_t *)results->data[part] + row * results->width[part];
}

float *cli_floats(const cli_results *results, cli_part part, uint32_t row)
{
    return (float *)results->data[part] + row * results->width[part];
}

static void alloc_results(const cli_request *q, cli_results *a)
{
    const size_t draws = a->draws, logprobs = a->logprobs ? draws : 0, top = a->top_n != 0,
                 n = a->candidates_n, set = a->set_n != 0;
    const size_t widths[CLI_PARTS] = {draws, draws,    logprobs, logprobs, a->probs ? q->vocab : 0,
                                      top,   a->top_n, a->top_n, n,        n,
                                      n,     n != 0,   n != 0,   n != 0,   a->set_n,
                                      set};
    a->rows = q->rows;
    for (int i = 0; i < CLI_PARTS; i++) {
        a->width[i] = widths[i];
        a->data[i] = cli_alloc(q->rows * (a->width[i] != 0 ? a->width[i] : 1), 4);
    }
}

/* -------------------------------------------------------------------------- text */

/* Writes the step of a draw without its outputs. */
static void write_step(const cli_request *q, uint32_t draw, run_text *t)
{
    run_add(t, "step defer=1 positions=");
    for (uint32_t r = 0; r < q->rows; r++)
        run_add(t, "%s%" PRIu64, r > 0 ? "," : "", cli_position(q, r) + draw);
    cli_request_write_inputs(q, t);
}

/* The features of a sampler that computes the results. */
static const char *features_of(const cli_results *a, char text[64])
{
    const bool reports = a->top_n != 0 || a->candidates, logprobs = a->logprobs && a->by_device;
    snprintf(text, 64, "%s%s%s", logprobs || reports ? ",logprobs" : "",
             a->probs || reports ? ",probs" : "", a->set_n != 0 ? ",kept_sets" : "");
    return text;
}

static void write_outputs(const cli_results *a, uint32_t draw, run_text *t)
{
    run_add(t, " outputs=%s", a->kind == CLS_LOGPROB_FINAL ? "final" : "none");
    if (a->logprobs && a->by_device)
        run_add(t, ",logprobs");
    if (draw == 0 && a->probs)
        run_add(t, ",probs");
    if (draw == 0 && a->top_n != 0)
        run_add(t, ",ranks,top:%" PRIu32, a->top_n);
    if (draw == 0 && a->candidates_n != 0)
        run_add(t, ",kept:%" PRIu32 ",counts,entropy,kept_mass", a->candidates_n);
    if (draw == 0 && a->set_n != 0)
        run_add(t, ",set:%" PRIu32, a->set_n);
}

/* ----------------------------------------------------------------------- results */

/* Takes a part of a step: of all draws, a column of the results. */
static void take_part(const run_side *side, uint32_t statement, uint32_t draw, cli_part part,
                      cli_results *a)
{
    const run_record *const r = run_record_of(side, statement, parts[part].record);
    if (r == NULL || a->width[part] == 0)
        return;
    if ((int)part >= OF_ALL_DRAWS)
        memcpy(a->data[part], r->bytes, r->size);
    for (uint32_t row = 0; row < a->rows && (int)part < OF_ALL_DRAWS; row++)
        memcpy(cli_ints(a, part, row) + draw, r->bytes + row * sizeof(int32_t), sizeof(int32_t));
}

/* The most logits for which the host computes log-probabilities after a device: it takes less time
 * than the programs for them take to compile, less than a second. */
#define MOST_BY_HOST (UINT64_C(1) << 24)

/* Computes the log-probabilities of the tokens that no device did: the bits that one computes. NaN:
 * there is too much to compute, or the host has another token. */
static void add_logprobs(const cli_request *q, const cls_context_options *options, cli_results *a)
{
    const bool is_small = (uint64_t)a->rows * a->draws * q->vocab <= MOST_BY_HOST;
    run_side host = {.name = "host", .on_host = true, .dies = true, .options = *options};
    run_text t = {NULL, 0};
    run_script script;
    cli_request_write(q, "", false, &t);
    for (uint32_t d = 0; d < a->draws; d++)
        for (int kind = 0; kind < 2; kind++) {
            write_step(q, d, &t);
            run_add(&t, " outputs=%slogprobs\n", kind == CLS_LOGPROB_FINAL ? "final," : "");
        }
    if (is_small) {
        script = cli_request_script(q, t.text);
        run_open(&host, NULL, NULL);
        run_script_on(&host, &script);
    }
    for (uint32_t i = 0; i < 2 * a->draws; i++) {
        const uint32_t statement = is_small ? script.count - 2 * a->draws + i : 0, draw = i / 2;
        const cli_part part = i % 2 == 0 ? CLI_LOGPROBS : CLI_FINAL_LOGPROBS;
        const run_record *const tokens = run_record_of(&host, statement, "tokens");
        if (a->by_device && part == cli_logprobs(a))
            continue;
        take_part(&host, statement, draw, part, a);
        for (uint32_t row = 0; row < a->rows; row++)
            if (tokens == NULL || memcmp(tokens->bytes + row * sizeof(int32_t),
                                         cli_ints(a, CLI_TOKENS, row) + draw, sizeof(int32_t)) != 0)
                cli_floats(a, part, row)[draw] = NAN;
    }
    if (is_small)
        run_close(&host);
}

int cli_results_get(const cli_request *q, const char *device, const cls_context_options *options,
                    cli_results *a)
{
    run_side side = {
        .name = "device", .on_host = cli_on_host(device), .dies = true, .options = *options};
    cls_device_info info = {.struct_size = sizeof info};
    run_text t = {NULL, 0};
    char features[64];
    a->by_device |= (uint64_t)q->rows * a->draws * q->vocab > MOST_BY_HOST;
    side.options.dtypes = 1u << q->array[CLI_LOGITS].type;
    run_open(&side, device, NULL);
    if (a->candidates &&
        cli_try(cls_context_info(side.target.context, &info), "querying the device") != 0)
        return 1;
    a->candidates_n = info.shortlist;
    alloc_results(q, a);
    cli_request_write(q, features_of(a, features), false, &t);
    for (uint32_t d = 0; d < a->draws; d++) {
        write_step(q, d, &t);
        write_outputs(a, d, &t);
        run_add(&t, "\n");
    }
    const run_script script = cli_request_script(q, t.text);
    run_script_on(&side, &script);
    for (uint32_t d = 0; d < a->draws; d++)
        for (int i = 0; i < (d == 0 ? CLI_PARTS : OF_ALL_DRAWS); i++)
            if ((i != CLI_LOGPROBS && i != CLI_FINAL_LOGPROBS) || i == (int)cli_logprobs(a))
                take_part(&side, script.count - a->draws + d, d, (cli_part)i, a);
    run_close(&side);
    if (a->logprobs)
        add_logprobs(q, options, a);
    return 0;
}

/* -------------------------------------------------------------------------- logs */

void cli_log_check(const cli_request *q)
{
    const char *const paths[] = {q->path[CLI_LOGITS], q->path[CLI_MASK], q->path[CLI_BIAS],
                                 q->prefixes, q->grammar_path};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i] != NULL && cli_kind_of(paths[i]) == CLI_OTHER)
            cli_die("--log: %s is a pipe, which clsample run cannot read again; store the array in "
                    "a file",
                    paths[i]);
}

void cli_log_write(const char *path, const cli_request *q, const cli_results *a)
{
    run_text t = {NULL, 0};
    run_add(&t, "version %s arithmetic=%" PRIu32 "\n", cls_version(), cls_arithmetic_version());
    cli_request_write(q, "", true, &t);
    for (uint32_t d = 0; d < a->draws; d++) {
        write_step(q, d, &t);
        for (uint32_t r = 0; r < a->rows; r++)
            run_add(&t, "%s%016" PRIx64, r > 0 ? "," : " hash=", run_hash_of_row(q->array, r));
        for (uint32_t r = 0; r < a->rows; r++) {
            run_add(&t, "%s%" PRId32, r > 0 ? ", " : " -> ", cli_ints(a, CLI_TOKENS, r)[d]);
            run_add_status(&t, cli_ints(a, CLI_STATUS, r)[d] & ~CLS_ROW_OVERFLOW);
        }
        run_add(&t, "\n");
    }
    run_add(&t, "end\n");
    FILE *const file = fopen(path, "w");
    if (file == NULL || fputs(t.text, file) == EOF || fclose(file) != 0)
        cli_die("%s: cannot be written: %s", path, strerror(errno));
}

/* --------------------------------------------------------------- files and JSON */

void cli_part_write(const char *path, const cli_results *results, cli_part part)
{
    const unsigned dims = (int)part < OF_ALL_DRAWS && results->draws == 1 ? 1 : parts[part].dims;
    const uint64_t shape[2] = {results->rows, results->width[part]};
    cli_npy_write(path, parts[part].kind, dims, shape, cli_ints(results, part, 0));
}

void cli_sets_write(const char *ids_path, const char *offsets_path, const cli_results *results)
{
    const uint32_t rows = results->rows, most = results->set_n;
    int32_t *const offsets = cli_alloc(rows + (size_t)1, 4), *const ids =
                                                                 cli_alloc(rows * (size_t)most, 4);
    offsets[0] = 0;
    for (uint32_t r = 0; r < rows; r++) {
        const int32_t count = *cli_ints(results, CLI_SET_COUNTS, r),
                      n = count <= (int64_t)most && count <= INT32_MAX - offsets[r] ? count : 0;
        memcpy(ids + offsets[r], cli_ints(results, CLI_SET_IDS, r), (size_t)n * 4);
        offsets[r + 1] = offsets[r] + n;
    }
    cli_npy_write(ids_path, 'i', 1, &(uint64_t){(uint64_t)offsets[rows]}, ids);
    cli_npy_write(offsets_path, 'i', 1, &(uint64_t){rows + (uint64_t)1}, offsets);
    cli_free(offsets);
    cli_free(ids);
}

json_t *cli_row_json(const cli_request *q, const cli_results *results, uint32_t row)
{
    const int32_t *const tokens = cli_ints(results, CLI_TOKENS, row),
                         *const status = cli_ints(results, CLI_STATUS, row),
                         *const top_ids = cli_ints(results, CLI_TOP_IDS, row),
                         *const set_ids = cli_ints(results, CLI_SET_IDS, row);
    const float *const drawn = cli_floats(results, cli_logprobs(results), row),
                       *const raw = cli_floats(results, CLI_LOGPROBS, row),
                       *const final = cli_floats(results, CLI_FINAL_LOGPROBS, row),
                       *const tops = cli_floats(results, CLI_TOP_LOGPROBS, row);
    json_t *const logprobs = json_array(), *const top = json_array();
    char words[CLI_STATUS_WORDS];
    uint32_t set = 0;
    for (uint32_t d = 0; d < results->draws; d++)
        json_array_append_new(logprobs, cli_real((double)drawn[d]));
    json_t *const object = json_pack(
        "{s:i, s:I, s:i, s:o, s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "row",
        (int)cli_row_number(&q->picked, row), "position", (json_int_t)cli_position(q, row),
        "status", (int)*status, "statuses", cli_ids_json(status, results->draws), "status_words",
        cli_status_words(*status, ", ", words), "token", (int)*tokens, "tokens",
        cli_ids_json(tokens, results->draws), "logprob", cli_real((double)*drawn), "logprobs",
        logprobs, "raw_probability", cli_real(cli_probability((double)*raw)), "final_probability",
        cli_real(cli_probability((double)*final)));
    for (uint32_t i = 0; i < results->top_n && top_ids[i] >= 0; i++)
        json_array_append_new(top, json_pack("{s:i, s:o}", "token", (int)top_ids[i], "logprob",
                                             cli_real((double)tops[i])));
    while (set < results->set_n && set_ids[set] >= 0)
        set++;
    if (results->top_n != 0)
        json_object_update(object, json_pack("{s:i, s:o}", "rank",
                                             (int)*cli_ints(results, CLI_RANKS, row), "top", top));
    if (results->set_n != 0)
        json_object_update(object, json_pack("{s:i, s:o}", "kept_count",
                                             (int)*cli_ints(results, CLI_SET_COUNTS, row),
                                             "kept_ids", cli_ids_json(set_ids, set)));
    return object;
}

static json_t *candidates_json(const cli_request *q, const cli_results *results, uint32_t row)
{
    const int32_t *const ids = cli_ints(results, CLI_CANDIDATE_IDS, row);
    const float *const logits = cli_floats(results, CLI_CANDIDATE_LOGITS, row);
    const float *const probs = cli_floats(results, CLI_CANDIDATE_PROBS, row);
    json_t *const all = json_array();
    for (uint32_t i = 0; i < results->candidates_n && ids[i] >= 0; i++)
        json_array_append_new(all, json_pack("{s:i, s:o, s:o}", "token", (int)ids[i], "logit",
                                             cli_real((double)logits[i]), "probability",
                                             cli_real((double)probs[i])));
    return json_pack("{s:i, s:i, s:i, s:o, s:o, s:o}", "row", (int)cli_row_number(&q->picked, row),
                     "token", (int)*cli_ints(results, CLI_TOKENS, row), "count",
                     (int)*cli_ints(results, CLI_CANDIDATE_COUNTS, row), "entropy",
                     cli_real((double)*cli_floats(results, CLI_ENTROPY, row)), "kept_mass",
                     cli_real((double)*cli_floats(results, CLI_KEPT_MASS, row)), "candidates", all);
}

void cli_candidates_write(const char *path, const cli_request *q, const cli_results *results)
{
    json_t *const array = json_array();
    for (uint32_t r = 0; r < results->rows; r++)
        json_array_append_new(array, candidates_json(q, results, r));
    if (json_dump_file(array, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0)
        cli_die("%s: cannot be written: %s", path, strerror(errno));
}
