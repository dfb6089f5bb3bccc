/* SPDX-License-Identifier: MIT */
/* Reads what the options that sample and explain share refer to: logits, parameters, masks, biases,
 * prompts and outputs; and writes the text of calls that they stand for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"

/* The most rows of --rows, which are listed before a file is read. */
#define MOST_PICKED (1u << 24)
#define MOST_ROWS 65535u

static cli_rows rows_of(const cli_request *q)
{
    return (cli_rows){q->rows, q->array[CLI_LOGITS].file_rows, &q->picked, "rows of logits"};
}

/* Reads a mask or a bias, which have a row for each row of the logits. */
static void input_read(cli_request *q, cli_input what)
{
    const cli_rows rows = rows_of(q);
    cli_array *const array = &q->array[what];
    cli_npy npy;
    if (q->path[what] == NULL)
        return;
    cli_array_open(what, q->path[what], -1, &npy, array);
    if (what == CLI_MASK && npy.kind == 'u' && npy.size == 1 && array->width < q->vocab &&
        (array->width == (q->vocab + 7) / 8 || array->width == (q->vocab + 31) / 32 * 4))
        cli_die("%s: %" PRIu32 " uint8 for %" PRIu32 " tokens are bits; convert them in NumPy by "
                "a.view('int32')",
                npy.path, array->width, q->vocab);
    const cli_picked *const picked = cli_rows_in(npy.path, npy.shape[0], "rows", &rows);
    cli_array_read(&npy, picked, array);
    if (what == CLI_BIAS && array->width != q->vocab)
        cli_die("%s: the rows have %" PRIu32 " values, but the vocabulary has %" PRIu32 " tokens",
                q->path[what], array->width, q->vocab);
}

static bool is_ids(const cli_npy *array) { return array->kind == 'i' && array->size >= 4; }

/* Reads prompts or outputs. Ids outside the vocabulary pad rows that are shorter than others. */
static cls_ids *texts_read(const cli_request *q, const char *path)
{
    const cli_rows rows = rows_of(q);
    cls_ids *const texts = cli_alloc(q->rows, sizeof *texts);
    cli_npy array;
    if (path == NULL)
        return texts;
    cli_npy_open(path, &array);
    if (array.bytes == 0)
        cli_die("%s: the array is empty", path);
    if (array.dims != 2 || !is_ids(&array))
        cli_npy_refuse(&array, "int32 [rows, tokens]");
    if (array.shape[1] > INT32_MAX)
        cli_die("%s: rows of %" PRIu64 " elements are too long", path, array.shape[1]);
    const size_t width = (size_t)array.shape[1];
    cli_npy_rows(&array, cli_rows_in(path, array.shape[0], "rows", &rows));
    for (uint32_t r = 0; r < q->rows; r++) {
        int32_t *const ids = cli_alloc(width, sizeof *ids);
        texts[r].ids = ids;
        for (size_t i = r * width; i < (r + 1) * width; i++) {
            const int64_t id = array.size == 8 ? ((const int64_t *)array.data)[i]
                                               : ((const int32_t *)array.data)[i];
            if (id >= 0 && id < (int64_t)q->vocab)
                ids[texts[r].count++] = (int32_t)id;
        }
    }
    return texts;
}

/* ---------------------------------------------------------------------- infill */

/* Reads the tables of the infill stage, if a row turns the stage on. */
static void infill_read(cli_request *q)
{
    bool enabled = false;
    for (uint32_t r = 0; r < q->rows; r++)
        enabled |= q->rules[r].infill != 0;
    cli_ids_parse("--infill-end", &q->end_ids, q->vocab, &q->ends);
    if (enabled && q->ends.ids == NULL)
        cli_die("--infill: this option requires --infill-end, the tokens that end a text");
    if (enabled || q->prefixes != NULL)
        cli_prefixes_read(q->prefixes, q->vocab, &q->infill);
    if (!enabled)
        q->ends.count = 0;
}

/* ------------------------------------------------------------------------- all */

/* The history that the rows' parameters need: the longest window or, for parameters without a
 * window, the whole request; at most what a sampler can keep. */
static uint32_t history_of(const cli_request *q)
{
    uint32_t history = 0;
    for (uint32_t r = 0; r < q->rows; r++) {
        const cls_params *const p = &q->rules[r];
        const uint64_t whole = (uint64_t)q->prompts[r].count + q->outputs[r].count;
        const bool looks =
            p->dry_multiplier != 0.0f || p->no_repeat_ngram != 0 || p->bad_words.count != 0;
        uint32_t needed = 0;
        if (cls_params_history(p, &needed) != CLS_OK)
            cli_die("%s", cli_reason());
        const uint64_t least[] = {!looks      ? 0
                                  : whole > 0 ? whole
                                              : 1,
                                  needed,
                                  p->watermark_context != 0 ? whole + p->watermark_context : 0};
        for (size_t i = 0; i < sizeof least / sizeof least[0]; i++)
            if (least[i] > history)
                history = least[i] > CLI_MOST_HISTORY ? CLI_MOST_HISTORY : (uint32_t)least[i];
    }
    return history > CLI_MOST_HISTORY ? CLI_MOST_HISTORY : history;
}

/* Reads all parameters: those of the command line into q->params, those of each row into q->rules.
 */
static void params_read(cli_request *q)
{
    const cli_rows rows = rows_of(q);
    cls_ids force = {NULL, 0};
    q->rules = cli_alloc(q->rows, sizeof *q->rules);
    cli_ids_parse("--force", &q->force, q->vocab, &force);
    for (uint32_t r = 0; r < q->rows; r++)
        q->forces[r] = force;
    cli_lists_parse(&q->lists, &q->params);
    if (q->grammar_path != NULL)
        q->params.grammar = q->grammar = cli_grammar_read(q->grammar_path, q->vocab);
    cli_params_check(&q->params, q->vocab);
    cli_params_rows(&q->params, q->params_file, q->seeds, &rows, q->vocab, q->rules, q->forces);
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
    const cli_option options[] = {CLI_SAMPLING_OPTIONS(&q) CLI_NO_OPTION};
    cli_help("sample|explain [PARAMETER]...",
             "The sampling parameters of these commands. They hold for all rows. The objects of "
             "--params FILE.json set them for one row; their keys are these names with "
             "underscores: \"top_k\".",
             options, true);
}

void cli_request_read(cli_request *q)
{
    cli_array *const logits = &q->array[CLI_LOGITS];
    cli_npy npy;
    if (q->path[CLI_LOGITS] == NULL)
        cli_die("--logits: this option is required; name a file of logits");
    cli_picked_parse(&q->rows_text, MOST_PICKED, &q->picked);
    cli_array_open(CLI_LOGITS, q->path[CLI_LOGITS], q->dtype, &npy, logits);
    cli_array_read(&npy, &q->picked, logits);
    if (logits->rows > MOST_ROWS)
        cli_die("%s: %" PRIu32 " rows are more than the %u of a step; select some by --rows",
                q->path[CLI_LOGITS], logits->rows, MOST_ROWS);
    q->rows = logits->rows;
    q->vocab = logits->width;
    q->forces = cli_alloc(q->rows, sizeof *q->forces);
    params_read(q);
    input_read(q, CLI_MASK);
    if (q->bias_factor == 0.0f)
        cli_die("--bias-factor: 0 would leave out the bias: leave out --bias");
    if (q->path[CLI_BIAS] == NULL && q->bias_factor != 1.0f)
        cli_die("--bias-factor: this option requires --bias");
    input_read(q, CLI_BIAS);
    q->prompts = texts_read(q, q->prompt);
    q->outputs = texts_read(q, q->output);
    infill_read(q);
    uint32_t n = 0;
    for (int i = 0; i < CLI_INPUTS; i++)
        if (q->array[i].data != NULL)
            q->given[n++] = (run_given){run_input_names[i], &q->array[i]};
    if (q->grammar != NULL)
        q->given[n++] = (run_given){"grammar", q->grammar};
    if (q->infill.prefix_of != NULL)
        q->given[n] = (run_given){"prefix", q->infill.prefix_of};
}

uint64_t cli_position(const cli_request *q, uint32_t row)
{
    return (uint64_t)q->rules[row].position + q->outputs[row].count;
}

/* ------------------------------------------------------------------------- text */

static void write_ids(run_text *t, const char *key, const cls_ids *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        run_add(t, "%s%s%s%" PRId32, i == 0 ? " " : "", i == 0 ? key : "", i == 0 ? "=" : ",",
                list->ids[i]);
}

/* A name of a file may have spaces. */
static void write_name(run_text *t, const char *key, const char *name)
{
    if (strpbrk(name, "\"\r\n") != NULL)
        cli_die("%s: a text of calls cannot have this name, because it has a quote or a new line",
                name);
    run_add(t, " %s\"%s\"", key, name);
}

/* Requests only the state that the parameters need, because it is large. */
static void write_sampler(const cli_request *q, const char *features, run_text *t)
{
    const char *counts = "none";
    const uint32_t history = history_of(q);
    for (uint32_t r = 0; r < q->rows; r++) {
        const cls_params *const p = &q->rules[r];
        if (p->repetition_penalty != 1.0f || p->frequency_penalty != 0.0f ||
            p->presence_penalty != 0.0f)
            counts = "all";
    }
    run_add(t, "sampler vocab=%" PRIu32 " slots=%" PRIu32 " dtypes=%s counts=%s", q->vocab, q->rows,
            dtype_names[q->array[CLI_LOGITS].type], counts);
    if (history != 0)
        run_add(t, " max_history=%" PRIu32, history);
    run_add(t, " features=shortlist%s%s%s%s\n", q->array[CLI_MASK].data != NULL ? ",mask" : "",
            q->array[CLI_BIAS].data != NULL ? ",bias" : "", q->softcap != 0.0f ? ",softcap" : "",
            features);
}

static void write_request(const cli_request *q, uint32_t r, run_text *t)
{
    const cls_ids *const force = &q->forces[r], *const output = &q->outputs[r];
    run_add(t, "begin %" PRIu32, r);
    run_add_params(t, &q->rules[r]);
    if (q->grammar != NULL)
        run_add(t, " grammar=grammar");
    write_ids(t, "prompt", &q->prompts[r]);
    write_ids(t, "output", output);
    if (force->count > output->count) {
        run_add(t, "\nforce %" PRIu32, r);
        write_ids(t, "ids", &(cls_ids){force->ids + output->count, force->count - output->count});
    }
    run_add(t, "\n");
}

void cli_request_write(const cli_request *q, const char *features, bool log, run_text *t)
{
    write_sampler(q, features, t);
    if (q->grammar != NULL) {
        char digest[CLI_DIGEST];
        run_add(t, "grammar grammar");
        write_name(t, "file=", q->grammar_path);
        cli_grammar_digest(q->grammar, digest);
        if (log)
            run_add(t, " digest=%s", digest);
        run_add(t, "\n");
    }
    if (q->ends.count != 0) {
        run_add(t, "infill");
        write_ids(t, "end", &q->ends);
        if (q->prefixes != NULL)
            write_name(t, "prefix=", q->prefixes);
        run_add(t, "\n");
    }
    for (uint32_t r = 0; r < q->rows; r++)
        write_request(q, r, t);
}

void cli_request_write_inputs(const cli_request *q, run_text *t)
{
    for (int i = 0; i < CLI_INPUTS; i++) {
        const cli_picked *const picked = q->array[i].picked;
        if (q->array[i].data == NULL)
            continue;
        char key[16];
        snprintf(key, sizeof key, "%s=file:", run_input_names[i]);
        write_name(t, key, q->path[i]);
        if (picked == NULL || picked->row == NULL)
            continue;
        run_add(t, " %s_pick=", run_input_names[i]);
        for (uint32_t r = 0; r < picked->count; r++)
            run_add(t, "%s%" PRIu32, r > 0 ? "," : "", picked->row[r]);
    }
    if (q->array[CLI_LOGITS].type == CLS_BF16)
        run_add(t, " dtype=bf16");
    if (q->softcap != 0.0f)
        run_add(t, " softcap=%.9g", (double)q->softcap);
    if (q->bias_factor != 1.0f)
        run_add(t, " bias_factor=%.9g", (double)q->bias_factor);
}

run_script cli_request_script(const cli_request *q, const char *text)
{
    run_script script = run_parse(NULL, text);
    uint32_t row = 0;
    script.given = q->given;
    for (uint32_t i = 0; i < script.count; i++) {
        run_statement *const s = &script.statement[i];
        if (strcmp(s->verb, "begin") == 0 || strcmp(s->verb, "force") == 0) {
            char *const label = cli_alloc(32, 1);
            row = run_count(s, "", 0);
            snprintf(label, 32, "row %" PRIu32, cli_row_number(&q->picked, row));
            s->label = label;
        } else {
            s->label = strcmp(s->verb, "sampler") == 0  ? "creating the sampler"
                       : strcmp(s->verb, "infill") == 0 ? "setting the infill tables"
                                                        : "sampling";
        }
    }
    return script;
}
