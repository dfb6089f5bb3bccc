/* SPDX-License-Identifier: MIT */
/* Reads what the options that sample, verify, explain and draft share refer to: logits, parameters,
 * masks, biases, prompts and outputs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"

/* Opens an array. Messages say that it should be `what`. */
static void array_open(const char *path, const char *what, bool (*fits)(const cli_npy *),
                       cli_npy *array)
{
    cli_npy_open(path, array);
    if (array->bytes == 0)
        cli_die("%s: the array is empty", path);
    if (array->dims != 2 || !fits(array))
        cli_npy_refuse(array, what);
}

static void array_read(cli_npy *array, const cli_rows *rows)
{
    const cli_picked *const picked = cli_rows_in(array->path, array->shape[0], "rows", rows);
    if (array->shape[1] > INT32_MAX)
        cli_die("%s: rows of %" PRIu64 " elements are too long", array->path, array->shape[1]);
    cli_npy_rows(array, picked);
}

/* The most rows of --rows, which are listed before a file is read. */
#define MOST_PICKED (1u << 24)

static const char of_logits[] = "rows of logits";

static cli_rows rows_of_logits(const cli_request *q)
{
    return (cli_rows){q->logits.rows, q->logits.file_rows, q->picked_logits, of_logits};
}

/* The rows that belong to requests. In sample and explain they are the rows of the logits. */
static cli_rows rows_of_requests(const cli_request *q)
{
    return (cli_rows){q->requests, q->file_requests, &q->picked, q->of};
}

static bool is_bool(const cli_npy *array) { return array->size == 1 && array->kind != 'i'; }
bool cli_is_mask(const cli_npy *array)
{
    return is_bool(array) || (array->size == 4 && array->kind != 'f');
}
bool cli_is_bias(const cli_npy *array)
{
    return array->kind == 'f' ? array->size != 8 : array->kind == 'u' && array->size == 2;
}
cls_dtype cli_bias_dtype(const cli_npy *array)
{
    return array->size == 4 ? CLS_F32 : array->kind == 'f' ? CLS_F16 : CLS_BF16;
}
cls_mask_kind cli_mask_kind(const cli_npy *array)
{
    return is_bool(array) ? CLS_MASK_BOOL : CLS_MASK_PACKED;
}
static bool is_ids(const cli_npy *array) { return array->kind == 'i' && array->size >= 4; }

static void mask_read(const cli_request *q, cli_job *job)
{
    const cli_rows rows = rows_of_logits(q);
    cli_npy mask;
    array_open(q->mask, CLI_MASK_TYPES, cli_is_mask, &mask);
    array_read(&mask, &rows);
    job->mask = mask.data;
    job->mask_width = (uint32_t)mask.shape[1];
    job->mask_kind = cli_mask_kind(&mask);
    if (mask.shape[1] > (is_bool(&mask) ? 1048576 : 32768))
        cli_die("%s: rows of %" PRIu32 " elements are longer than any vocabulary", q->mask,
                job->mask_width);
}

static void bias_read(const cli_request *q, cli_job *job)
{
    const cli_rows rows = rows_of_logits(q);
    cli_npy bias;
    array_open(q->bias, CLI_BIAS_TYPES, cli_is_bias, &bias);
    array_read(&bias, &rows);
    job->bias = bias.data;
    job->bias_dtype = cli_bias_dtype(&bias);
    job->bias_factor = q->bias_factor;
    if (bias.shape[1] != job->logits->vocab)
        cli_die("%s: the rows have %" PRIu64 " values, but the vocabulary has %" PRIu32 " tokens",
                q->bias, bias.shape[1], job->logits->vocab);
}

void cli_ids_narrow(void *ids, unsigned size, size_t count)
{
    const int64_t *const wide = ids;
    int32_t *const narrow = ids;
    for (size_t i = 0; size == 8 && i < count; i++) {
        const int64_t id = wide[i];
        narrow[i] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
    }
}

/* Reads prompts or outputs; rows that are shorter than the array are padded with -1. */
static void tokens_read(const char *path, cli_request *q, cli_tokens *tokens)
{
    cli_npy array;
    if (path == NULL)
        return;
    array_open(path, "int32 [rows, tokens]", is_ids, &array);
    if (q->file_requests == 0) {
        q->requests = cli_npy_count(&array, &q->picked);
        q->file_requests = (uint32_t)array.shape[0];
    }
    const cli_rows rows = rows_of_requests(q);
    array_read(&array, &rows);
    tokens->ids = array.data;
    tokens->width = (uint32_t)array.shape[1];
    cli_ids_narrow(tokens->ids, array.size, (size_t)q->requests * tokens->width);
}

/* ---------------------------------------------------------------------- infill */

void cli_prefixes_read(const char *path, uint32_t vocab, cls_infill *infill)
{
    cli_npy array;
    infill->struct_size = sizeof *infill;
    if (path == NULL) {
        infill->prefix_of = memset(cli_alloc(vocab, 4), -1, vocab * (size_t)4);
        return;
    }
    cli_npy_read(path, &array);
    infill->prefix_of = array.data;
    if (array.kind != 'i' || array.size != 4 || array.dims != 1)
        cli_npy_refuse(&array, "int32 [vocab]");
    if (array.shape[0] != vocab)
        cli_die("%s: the array has %" PRIu64 " elements, but the vocabulary has %" PRIu32 " tokens",
                path, array.shape[0], vocab);
}

/* Parses token ids that are separated by commas, if there are any. */
static void tokens_parse(const char *what, const cli_list *texts, uint32_t vocab,
                         const int32_t **ids, uint32_t *count)
{
    if (texts->count == 0)
        return;
    cli_ids_parse(what, texts, ids, count);
    cli_ids_check(what, *ids, *count, vocab);
}

/* Reads the tables of the infill stage and, if a row turns the stage on, passes them to the job. */
static void infill_read(cli_request *q, cli_job *job)
{
    const uint32_t vocab = job->logits->vocab;
    cls_infill *const infill = &q->infill;
    bool enabled = false;
    for (uint32_t r = 0; r < q->requests; r++)
        enabled |= job->params[r].infill != 0;
    tokens_parse("--infill-end", &q->end_ids, vocab, &infill->end_ids.ids, &infill->end_ids.count);
    if (enabled && infill->end_ids.ids == NULL)
        cli_die("--infill: this option requires --infill-end, the tokens that end a text");
    if (enabled || q->prefixes != NULL)
        cli_prefixes_read(q->prefixes, vocab, infill);
    if (enabled)
        job->infill = infill;
}

/* ------------------------------------------------------------------------- all */

/* The history that the rows' parameters need: the longest window or, for parameters without a
 * window, the whole request; at most what a sampler can keep. */
static uint32_t history_of(const cli_job *job, uint32_t requests)
{
    const uint64_t most = (uint64_t)job->prompt.width + job->output.width + job->ahead;
    const uint32_t whole = most > CLI_MOST_HISTORY ? CLI_MOST_HISTORY
                           : most > 0              ? (uint32_t)most
                                                   : 1;
    uint32_t history = 0;
    for (uint32_t r = 0; r < requests; r++) {
        const cls_params *const p = &job->params[r];
        const bool looks =
            p->dry_multiplier != 0.0f || p->no_repeat_ngram != 0 || p->bad_words.count != 0;
        const uint64_t loops = (uint64_t)p->loop_repeats * p->loop_max;
        const uint64_t least[] = {looks ? whole : 0,       p->penalty_window,     p->dry_window,
                                  p->thinking_start.count, p->thinking_end.count, loops};
        for (size_t i = 0; i < sizeof least / sizeof least[0]; i++)
            if (least[i] > history)
                history = least[i] > CLI_MOST_HISTORY ? CLI_MOST_HISTORY : (uint32_t)least[i];
        for (uint32_t i = 0; i < p->bad_words.count; i++)
            history = p->bad_words.sequences[i].count > history ? p->bad_words.sequences[i].count
                                                                : history;
    }
    return history > CLI_MOST_HISTORY ? CLI_MOST_HISTORY : history;
}

/* Reads all parameters: those of the command line into q->params, those of each row into q->rows.
 */
static void params_read(cli_request *q, cli_job *job)
{
    const uint32_t vocab = job->logits->vocab;
    const cli_rows rows = rows_of_requests(q);
    cli_ids force = {NULL, 0};
    job->params = q->rows = cli_alloc(q->requests, sizeof *q->rows);
    job->force = q->forces = cli_alloc(q->requests, sizeof *q->forces);
    tokens_parse("--force", &q->force, vocab, &force.ids, &force.count);
    for (uint32_t r = 0; r < q->requests; r++)
        q->forces[r] = force;
    cli_lists_parse(&q->lists, &q->params);
    if (q->grammar_path != NULL)
        q->params.grammar = q->grammar = cli_grammar_read(q->grammar_path, vocab);
    cli_params_check(&q->params, vocab);
    cli_params_rows(&q->params, q->params_file, q->seeds, &rows, vocab, q->rows, q->forces);
}

void cli_request_default(cli_request *q)
{
    memset(q, 0, sizeof *q);
    q->dtype = -1;
    q->bias_factor = 1.0f;
    cls_params_init(&q->params);
}

void cli_params_help(void)
{
    cli_request q;
    const cli_option options[] = {CLI_SAMPLING_OPTIONS(&q, NULL) CLI_NO_OPTION};
    cli_help("sample|explain|verify [PARAMETER]...",
             "The sampling parameters of these commands. They hold for all rows. The objects of "
             "--params FILE.json set them for one row; their keys are these names with "
             "underscores: \"top_k\".",
             options, true);
}

void cli_picked_read(cli_request *q) { cli_picked_parse(&q->rows_text, MOST_PICKED, &q->picked); }

void cli_texts_read(cli_request *q, cli_job *job)
{
    tokens_read(q->prompt, q, &job->prompt);
    tokens_read(q->output, q, &job->output);
}

void cli_sampling_read(cli_request *q, cli_job *job)
{
    job->logits = &q->logits;
    job->picked = &q->picked;
    params_read(q, job);
    if (q->mask != NULL)
        mask_read(q, job);
    if (q->bias_factor == 0.0f)
        cli_die("--bias-factor: 0 would leave out the bias: leave out --bias");
    if (q->bias != NULL)
        bias_read(q, job);
    else if (q->bias_factor != 1.0f)
        cli_die("--bias-factor: this option requires --bias");
    cli_texts_read(q, job);
    infill_read(q, job);
    job->history = history_of(job, q->requests);
}

void cli_request_read(cli_request *q, cli_job *job)
{
    if (q->logits_path == NULL)
        cli_die("--logits: this option is required; name a file of logits");
    cli_picked_read(q);
    q->picked_logits = &q->picked;
    cli_logits_read(q->logits_path, q->dtype, &q->picked, &q->logits);
    q->requests = q->logits.rows;
    q->file_requests = q->logits.file_rows;
    q->of = of_logits;
    cli_sampling_read(q, job);
}
