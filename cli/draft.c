/* SPDX-License-Identifier: MIT */
/* clsample draft: drafts tokens from the texts of requests, in files. */
#include <inttypes.h>
#include <stdio.h>

#include "request.h"

/* A sampler's texts: the longest, and the unit of those that are longer than CLI_MOST_HISTORY. */
#define MOST_TEXT 1048576u
#define TEXT_UNIT 64u
#define MOST_VOCAB 1048576u

/* The values of the options, and the results. */
typedef struct command {
    cli_request request;
    cls_draft_call call;
    uint32_t max_history; /* 0: all of each text */
    const char *device, *draft_ids, *cu;
    cls_context_options kernels;
    bool json;
    int32_t *ids;    /* [requests, k] */
    int32_t *counts; /* [requests] */
} command;

/* ------------------------------------------------------------------- results */

static void print_results(const command *q)
{
    json_t *const array = json_array();
    if (!q->json)
        puts("request  count  drafts");
    for (uint32_t i = 0; i < q->request.requests; i++) {
        const uint32_t number = cli_row_number(&q->request.picked, i), k = q->call.k;
        const int32_t *const ids = q->ids + i * (size_t)k;
        if (q->json) {
            json_array_append_new(array,
                                  json_pack("{s:i, s:i, s:o}", "request", (int)number, "count",
                                            (int)q->counts[i], "draft_ids", cli_ids_json(ids, k)));
            continue;
        }
        printf("%7" PRIu32 " %6" PRId32 " ", number, q->counts[i]);
        for (uint32_t d = 0; d < k; d++)
            printf(" %" PRId32, ids[d]);
        putchar('\n');
    }
    if (q->json)
        cli_print_json(array);
}

/* Writes the files as clsample verify reads them: a request has a row more than drafts. */
static void write_files(const command *q)
{
    const uint64_t requests = q->request.requests, drafts = requests * q->call.k,
                   borders = requests + 1;
    int32_t *const cu = cli_alloc((size_t)borders, sizeof *cu);
    for (uint32_t i = 0; i < borders; i++)
        cu[i] = (int32_t)(i * (q->call.k + 1));
    if (q->draft_ids != NULL)
        cli_npy_write(q->draft_ids, 'i', 1, &drafts, q->ids);
    if (q->cu != NULL)
        cli_npy_write(q->cu, 'i', 1, &borders, cu);
}

/* ----------------------------------------------------------------------- run */

static void draft_on_host(const command *q, const cli_job *job)
{
    const cli_tokens *const parts[] = {&job->prompt, &job->output};
    cls_host_text text;
    cls_host_text_init(&text);
    int32_t *const tokens = cli_alloc(job->prompt.width + (size_t)job->output.width, 4);
    text.tokens = tokens;
    text.vocab = job->logits->vocab;
    text.max_history = job->history;
    text.k = q->call.k;
    text.min_n = q->call.min_n;
    text.max_n = q->call.max_n;
    text.fill = q->call.fill;
    for (uint32_t r = 0; r < q->request.requests; r++) {
        text.token_count = 0;
        for (int i = 0; i < 2; i++)
            for (uint32_t k = 0; k < parts[i]->width; k++)
                tokens[text.token_count++] = parts[i]->ids[r * (size_t)parts[i]->width + k];
        if (cls_host_draft(&text, q->ids + r * (size_t)q->call.k, &q->counts[r]) != CLS_OK)
            cli_die("request %" PRIu32 ": %s", cli_row_number(job->picked, r), cls_error_message());
    }
}

/* Enqueues a look-up for each request, in the only slot. */
static int draft_all(const cli_target *target, const cli_job *job, cls_sampler *sampler,
                     uint32_t requests, cls_draft_call call)
{
    cls_status status = CLS_OK;
    for (uint32_t r = 0; r < requests; r++) {
        if (cli_slot_begin(job, r, sampler, 0) != 0)
            return 1;
        CLI_RETRY(status, target->queue, cls_draft(sampler, target->queue, &call, 0, NULL, NULL));
        if (cli_try(status, "drafting") != 0)
            return 1;
        call.draft_ids.offset += call.k * (size_t)4;
        call.counts.offset += 4;
    }
    return 0;
}

static int draft_on(cli_target *target, const command *q, const cli_job *job)
{
    const uint32_t requests = q->request.requests;
    const size_t counts = requests * (size_t)4, ids = counts * q->call.k;
    cls_sampler *sampler = NULL;
    cls_draft_call call = q->call;
    cls_sampler_options options;
    cli_sampler_options(job, requests, &options);
    options.features = CLS_FEATURE_VERIFY;
    call.requests = 1;
    const int failed = cli_sampler_create(target, job, &options, &sampler) ||
                       cli_buffer(target, &call.draft_ids.buffer, "draft-ids", ids, NULL) ||
                       cli_buffer(target, &call.counts.buffer, "counts", counts, NULL) ||
                       draft_all(target, job, sampler, requests, call) ||
                       cli_fetch(target, call.draft_ids.buffer, q->ids, ids) ||
                       cli_fetch(target, call.counts.buffer, q->counts, counts);
    clFinish(target->queue);
    cls_sampler_destroy(sampler);
    return failed;
}

static int draft(const command *q, const cli_job *job)
{
    cls_context_options of_type = q->kernels;
    cli_target target;
    if (cli_on_host(q->device)) {
        draft_on_host(q, job);
        return 0;
    }
    of_type.dtypes = 1u << job->logits->dtype;
    if (cli_open(q->device, &of_type, 0, &target) != 0)
        return 1;
    const int failed = draft_on(&target, q, job);
    cli_close(&target);
    return failed;
}

/* --------------------------------------------------------------------- options */

/* Fails if options are missing or out of range. */
static void check(const command *q)
{
    const cls_draft_call *const c = &q->call;
    const uint32_t vocab = q->request.logits.vocab;
    const struct range {
        const char *option;
        uint32_t value, least, most;
    } ranges[] = {{"--k", c->k, 1, CLS_MAX_DRAFTS},
                  {"--max-n", c->max_n, 1, CLS_MAX_DRAFTS},
                  {"--min-n", c->min_n, 1, c->max_n},
                  {"--vocab", vocab, 1, MOST_VOCAB}};
    if (q->request.prompt == NULL && q->request.output == NULL)
        cli_die("--prompt: this option or --output is required; name a file of tokens");
    if (!cli_given("k"))
        cli_die("--k: this option is required; it is the number of drafts, 1 to %d",
                CLS_MAX_DRAFTS);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            cli_die("%s: %" PRIu32 " is out of range; it must be %" PRIu32 " to %" PRIu32,
                    ranges[i].option, ranges[i].value, ranges[i].least, ranges[i].most);
    if (c->fill < -1 || (c->fill >= 0 && (uint32_t)c->fill >= vocab))
        cli_die("--fill: %" PRId32 " is neither -1 nor a token of a vocabulary of %" PRIu32,
                c->fill, vocab);
    if (q->max_history > CLI_MOST_HISTORY &&
        (q->max_history > MOST_TEXT || q->max_history % TEXT_UNIT != 0))
        cli_die("--max-history: %" PRIu32 " is neither at most %u nor a multiple of %u up to %u",
                q->max_history, CLI_MOST_HISTORY, TEXT_UNIT, MOST_TEXT);
}

static void read_all(command *q, cli_job *job)
{
    cli_request *const request = &q->request;
    cli_picked_read(request);
    request->of = "requests";
    job->logits = &request->logits;
    job->picked = &request->picked;
    cli_texts_read(request, job);
    if ((uint64_t)request->requests * (q->call.k + 1) > INT32_MAX)
        cli_die("--k: %" PRIu32 " drafts of %" PRIu32 " requests are too many", q->call.k,
                request->requests);
    job->params = request->rows = cli_alloc(request->requests, sizeof *request->rows);
    for (uint32_t r = 0; r < request->requests; r++)
        request->rows[r] = request->params;
    const uint64_t width = (uint64_t)job->prompt.width + job->output.width,
                   history = (width + TEXT_UNIT - 1) / TEXT_UNIT * TEXT_UNIT;
    job->history = q->max_history != 0   ? q->max_history
                   : history < MOST_TEXT ? (uint32_t)history
                                         : MOST_TEXT;
    q->ids = cli_alloc(request->requests, q->call.k * sizeof *q->ids);
    q->counts = cli_alloc(request->requests, sizeof *q->counts);
}

int cls_cmd_draft(int argc, char **argv)
{
    static const char usage[] = "draft --prompt FILE.npy --k N [OPTION]...",
                      about[] =
                          "Looks the end of each request's text up in the text itself, and drafts "
                          "the tokens that followed there. The text is the prompt and the output.";
    command q = {.json = false};
    cli_job job = {0};
    cli_option options[] = {
        CLI_TITLE("Input"),
        CLI_TEXT_OPTIONS(&q.request),
        CLI_ROWS(&q.request.rows_text, CLI_REQUESTS_HELP),
        {"vocab", CLI_UINT, &q.request.logits.vocab, "N",
         "the tokens of the vocabulary: larger ids are left out (default 1048576)"},
        CLI_TITLE("Drafts"),
        {"k", CLI_UINT, &q.call.k, "N", "the drafts of each request, 1 to 128"},
        {"min-n", CLI_UINT, &q.call.min_n, "N",
         "the least number of last tokens to look up (default 2)"},
        {"max-n", CLI_UINT, &q.call.max_n, "N",
         "the largest number of last tokens, up to 128 (default 8)"},
        {"fill", CLI_INT, &q.call.fill, "ID",
         "the token in place of drafts where none are found, or -1 (default -1)"},
        {"max-history", CLI_UINT, &q.max_history, "N",
         "search the latest N tokens, as a sampler of this max_history (default 0: up to 1048576)"},
        CLI_TITLE("Output"),
        {"json", CLI_FLAG, &q.json, NULL, "print an array with one object for each request"},
        {"draft-ids", CLI_OUTPUT, &q.draft_ids, "OUT.npy",
         "write the drafts of all requests, in order, for verify: int32 [requests * k]"},
        {"cu", CLI_OUTPUT, &q.cu, "OUT.npy",
         "write the first row of each request in verify: int32 [requests + 1]"},
        CLI_DEVICE_OR_HOST(&q.device),
        CLI_DEVICE_OPTIONS(&q.kernels),
        CLI_NO_OPTION};
    cli_request_default(&q.request);
    cls_draft_call_init(&q.call);
    cls_context_options_init(&q.kernels);
    q.request.logits.vocab = MOST_VOCAB;
    q.request.logits.dtype = CLS_F32;
    cli_parse(argc, argv, usage, about, options);
    check(&q);
    read_all(&q, &job);
    if (draft(&q, &job) != 0)
        return 1;
    write_files(&q);
    print_results(&q);
    return 0;
}
