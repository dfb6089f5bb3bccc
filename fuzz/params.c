/* SPDX-License-Identifier: MIT */
/* Target: the parameters of the command, from the JSON of --params or of --grammar, or from
 * options, one a line (json.c, params.c, lists.c, grammar.c and options.c of cli/common). The
 * library must accept all parameters that the command accepts, and sample with them. The first
 * bytes are: options, a grammar, JSON, or JSON after a file of seeds; the vocabulary; the rows, or
 * the grammar's state; the length of the seeds, if there are any. */
#include "fuzz.h"

#include <string.h>

#include <jansson.h>

static json_t *json_in_memory(const char *path, size_t flags, json_error_t *error);

#define fopen file_open
#define fclose file_close
#define json_load_file json_in_memory
#include "cli/common/npy.c"
#include "cli/common/json.c"
#include "cli/common/params.c"
#include "cli/common/grammar.c"

enum { MOST_VOCAB = 256, MOST_ROWS = 4, MOST_OPTIONS = 64 };
static input rest;

static json_t *json_in_memory(const char *path, size_t flags, json_error_t *error)
{
    (void)path;
    return json_loadb((const char *)rest.data, rest.size, flags, error);
}

/* Samples a row on the host with accepted parameters and forced ids. */
static void sample(const cls_params *params, const cls_ids *force, uint32_t vocab)
{
    static const int32_t tokens[] = {1, 2, 3, 1, 2, 0, 1, 2};
    static cls_context *host;
    float logits[MOST_VOCAB], probs[MOST_VOCAB];
    int32_t prefix_of[MOST_VOCAB], token, status;
    const cls_infill infill = {sizeof infill, {tokens + 5, 1}, prefix_of};
    const size_t row = vocab * sizeof *logits;
    cls_sampler *sampler;
    cls_sampler_options options;
    cls_outputs outputs;
    cls_step step;
    for (uint32_t i = 0; i < vocab; i++) {
        logits[i] = (float)(i * 37 % 101) / 8.0f;
        prefix_of[i] = i > 10 ? (int32_t)(i / 10) : -1;
    }
    cls_sampler_options_init(&options);
    options.late_compile = 1;
    options.vocab = vocab;
    options.max_history = 1048576;
    options.features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_PROBS;
    cls_outputs_init(&outputs);
    outputs.probs = (cls_buffer){.pointer = probs, .size = row, .kind = CLS_BUFFER_HOST};
    cls_step_init(&step);
    step.rows = 1;
    step.logits.values = (cls_buffer){.pointer = logits, .size = row, .kind = CLS_BUFFER_HOST};
    step.tokens = (cls_buffer){.pointer = &token, .size = sizeof token, .kind = CLS_BUFFER_HOST};
    step.status = (cls_buffer){.pointer = &status, .size = sizeof status, .kind = CLS_BUFFER_HOST};
    step.outputs = &outputs;
    demand((host != NULL || cls_context_create_host(NULL, &host) == CLS_OK) &&
               cls_sampler_create(host, &options, &sampler) == CLS_OK &&
               cls_sampler_infill(sampler, &infill) == CLS_OK,
           "no sampler: %s", cls_error_message());
    demand(cls_slot_begin(sampler, 0, params,
                          &(cls_text){.struct_size = sizeof(cls_text),
                                      .prompt = {tokens, 8},
                                      .output = {tokens, 8}}) == CLS_OK &&
               cls_slot_force(sampler, 0, force->ids, force->count) == CLS_OK &&
               cls_sample(sampler, NULL, &step, 0, NULL, NULL) == CLS_OK,
           "the parameters are accepted, but a row cannot be sampled: %s", cls_error_message());
    cls_sampler_destroy(sampler);
    demand(token >= -1 && token < (int32_t)vocab, "token %d of %u", (int)token, vocab);
    demand((token >= 0) != ((status & (CLS_ROW_EMPTY | CLS_ROW_UNFIT | CLS_ROW_SKIPPED)) != 0),
           "token %d with status %d", (int)token, (int)status);
}

static void use(const cls_params *params, const cls_ids *force, uint32_t vocab)
{
    demand(cls_params_check(params, vocab) == CLS_OK,
           "the command accepts what the library refuses: %s", cls_error_message());
    sample(params, force, vocab);
}

static void from_json(const cls_params *base, const char *seeds, uint32_t rows, uint32_t vocab,
                      cls_params *params)
{
    const cli_rows all = {rows, rows, NULL, "rows"};
    cls_ids force[MOST_ROWS] = {{NULL, 0}};
    cli_params_rows(base, "input", seeds, &all, vocab, params, force);
    for (uint32_t r = 0; r < rows; r++)
        use(&params[r], &force[r], vocab);
}

static void from_grammar(uint8_t state, uint32_t vocab, cls_params *params)
{
    const cls_ids none = {NULL, 0};
    cls_grammar_info info;
    cls_grammar_info_init(&info);
    cls_grammar *const grammar = cli_grammar_read("input", vocab);
    demand(cls_grammar_query(grammar, &info) == CLS_OK, "no query: %s", cls_error_message());
    params->grammar = grammar;
    params->grammar_state = state % info.states;
    use(params, &none, vocab);
    cls_grammar_destroy(grammar);
}

/* Splits a copy of the text into lines, each an argument. --help would only print. */
static int split(char *text, char **argv)
{
    int n = 1;
    argv[0] = "fuzz";
    for (char *line = strtok(text, "\n"); line != NULL && n < MOST_OPTIONS;
         line = strtok(NULL, "\n"))
        if (strcmp(line, "--help") != 0 && strcmp(line, "-h") != 0)
            argv[n++] = line;
    return n;
}

static void from_options(uint32_t vocab, cls_params *params)
{
    const cls_ids none = {NULL, 0};
    cli_lists lists = {0};
    char *argv[MOST_OPTIONS];
    char *const text = cli_alloc(rest.size + 1, 1);
    cli_option options[] = {{"chain", CLI_STRING, &lists.chain, NULL, NULL},
                            CLS_PARAMS(CLI_PARAM_OPTION, params) CLS_LISTS(CLI_LIST_OPTION, &lists)
                                CLI_NO_OPTION};
    memcpy(text, rest.data, rest.size);
    cli_parse(split(text, argv), argv, "", "", options);
    cli_lists_parse(&lists, params);
    cli_params_check(params, vocab);
    use(params, &none, vocab);
}

static const char *take_seeds(void)
{
    const size_t length = take_byte(&rest), have = length < rest.size ? length : rest.size;
    file_holds(rest.data, have);
    rest.data += have;
    rest.size -= have;
    return "seeds";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rest = (input){data, size};
    const uint8_t how = take_byte(&rest);
    const uint32_t vocab = 1u + take_byte(&rest);
    const uint8_t third = take_byte(&rest);
    const uint32_t rows = 1u + third % MOST_ROWS;
    cli_memory_begin();
    cls_params base, *const params = cli_alloc(rows, sizeof *params);
    cls_params_init(&base);
    take_message();
    if (setjmp(refusal) != 0)
        demand(*take_message() != '\0', "refused without a message");
    else if (how & 1)
        from_options(vocab, &base);
    else if (how & 4)
        from_grammar(third, vocab, &base);
    else
        from_json(&base, how & 2 ? take_seeds() : NULL, rows, vocab, params);
    file_abandon();
    cli_memory_end(NULL);
    return 0;
}
