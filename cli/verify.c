/* SPDX-License-Identifier: MIT */
/* clsample verify: verifies draft tokens against a model's logits, all from files. */
#include <inttypes.h>
#include <stdio.h>

#include "verify.h"

/* The values of the options. */
typedef struct command {
    cli_request request;
    cli_draft_files files;
    cli_drafts drafts;
    const char *device, *tokens, *nodes, *accepted, *logprobs;
    int32_t method, logprob_kind; /* -1: not chosen */
    cls_context_options kernels;
    bool json;
} command;

/* ------------------------------------------------------------------- results */

/* The sums over all trials. */
static uint64_t accepted_by(const cli_drafts *d, uint32_t request)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < d->trials; t++)
        sum += (uint64_t)d->accepted[(size_t)t * d->requests + request];
    return sum;
}

static uint64_t emitted_by(const cli_drafts *d, uint32_t request)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < d->trials; t++)
        sum += cli_emitted(d, t, request);
    return sum;
}

/* Prints the tokens of a single trial, or the means of several. */
static void print_table(const cli_job *job, const cli_drafts *d)
{
    char words[CLI_STATUS_WORDS];
    printf("%7s %8s %6s %8s %8s  %s\n", "request", "position", "drafts", "accepted", "emitted",
           d->trials == 1 ? "tokens" : "");
    for (uint32_t i = 0; i < d->requests; i++) {
        const uint64_t accepted = accepted_by(d, i), emitted = emitted_by(d, i);
        printf("%7" PRIu32 " %8" PRIu64 " %6" PRIu32, cli_row_number(job->picked, i),
               cli_position(job, i), cli_drafts_of(d, i));
        if (d->trials != 1) {
            printf(" %8.4f %8.4f\n", (double)accepted / d->trials, (double)emitted / d->trials);
            continue;
        }
        printf(" %8" PRIu64 " %8" PRIu64 " ", accepted, emitted);
        for (uint64_t k = 0; k < emitted; k++)
            printf(" %" PRId32, d->tokens[i * (size_t)(d->most + 1) + k]);
        if (d->status[i] != 0)
            printf(" (%s)", cli_status_words(d->status[i], words));
        putchar('\n');
    }
}

/* {"request", "position", "trials", "drafts", "accepted", "emitted", "status", "status_words",
 * "tokens", "nodes"}, and "logprobs" if they were asked for: accepted and emitted are sums over all
 * trials, and the keys from "status" on are of the first trial. */
static json_t *request_json(const cli_job *job, const cli_drafts *d, uint32_t i)
{
    char words[CLI_STATUS_WORDS];
    json_t *const object = json_pack(
        "{s:i, s:I, s:I, s:i, s:I, s:I, s:i, s:s, s:o, s:o}", "request",
        (int)cli_row_number(job->picked, i), "position", (json_int_t)cli_position(job, i), "trials",
        (json_int_t)d->trials, "drafts", (int)cli_drafts_of(d, i), "accepted",
        (json_int_t)accepted_by(d, i), "emitted", (json_int_t)emitted_by(d, i), "status",
        (int)d->status[i], "status_words", cli_status_words(d->status[i], words), "tokens",
        cli_ids_json(d->tokens + i * (size_t)(d->most + 1), cli_emitted(d, 0, i)), "nodes",
        cli_ids_json(d->nodes + i * (size_t)d->most, (size_t)d->accepted[i]));
    if (d->logprobs == NULL)
        return object;
    json_t *const logprobs = json_array();
    for (uint32_t k = 0; k < cli_emitted(d, 0, i); k++)
        json_array_append_new(logprobs,
                              cli_real((double)d->logprobs[i * (size_t)(d->most + 1) + k]));
    json_object_set_new(object, "logprobs", logprobs);
    return object;
}

static void print_results(const command *q, const cli_job *job)
{
    json_t *const array = json_array();
    for (uint32_t i = 0; i < q->drafts.requests && q->json; i++)
        json_array_append_new(array, request_json(job, &q->drafts, i));
    if (q->json)
        cli_print_json(array);
    else
        print_table(job, &q->drafts);
}

/* Writes an array; a single trial has no axis of trials. */
static void write_one(const char *path, const cli_drafts *d, char type, unsigned dims,
                      uint64_t width, const void *data)
{
    const uint64_t shape[3] = {d->trials, d->requests, width};
    const unsigned first = d->trials == 1;
    if (path != NULL)
        cli_npy_write(path, type, dims - first, shape + first, data);
}

static void write_files(const command *q)
{
    const cli_drafts *const d = &q->drafts;
    write_one(q->tokens, d, 'i', 3, d->most + 1, d->tokens);
    write_one(q->nodes, d, 'i', 3, d->most, d->nodes);
    write_one(q->accepted, d, 'i', 2, 0, d->accepted);
    write_one(q->logprobs, d, 'f', 3, d->most + 1, d->logprobs);
}

/* ----------------------------------------------------------------------- run */

static void results_alloc(cli_drafts *d, bool logprobs)
{
    const size_t results = (size_t)d->trials * d->requests;
    d->tokens = cli_alloc(results, (d->most + 1) * sizeof *d->tokens);
    d->nodes = cli_alloc(results, d->most * sizeof *d->nodes);
    d->accepted = cli_alloc(results, sizeof *d->accepted);
    d->status = cli_alloc(results, sizeof *d->status);
    if (logprobs)
        d->logprobs = cli_alloc(results, (d->most + 1) * sizeof *d->logprobs);
}

static int verify(command *q, const cli_job *job)
{
    cli_drafts *const d = &q->drafts;
    const uint64_t width = d->most + (uint64_t)1;
    if (d->trials > SIZE_MAX / 16 / width / d->requests)
        cli_die("--trials: %" PRIu32 " trials of %" PRIu32 " requests need too much memory",
                d->trials, d->requests);
    for (uint32_t i = 0; i < d->requests; i++)
        if (cli_position(job, i) + d->trials * width - 1 > UINT32_MAX)
            cli_die("--trials: the %" PRIu64 " positions of request %" PRIu32 " from %" PRIu64
                    " on exceed the last position, 4294967295",
                    d->trials * width, cli_row_number(job->picked, i), cli_position(job, i));
    results_alloc(d, q->logprobs != NULL || q->logprob_kind >= 0);
    if (cli_verify(q->device, &q->kernels, job, d) != 0)
        return 1;
    write_files(q);
    print_results(q, job);
    return 0;
}

/* Fails if options are missing, out of range or exclude each other. */
static void check(const command *q)
{
    static const char *const methods[] = {"match", "standard", "block", "typical"};
    if (q->files.target == NULL)
        cli_die("--target: this option is required; name a file of logits");
    if (q->files.cu == NULL)
        cli_die("--cu: this option is required; name a file with the first row of each request");
    if (q->files.probs != NULL && q->files.logits != NULL)
        cli_die("--draft-logits: it cannot be combined with --draft-probs");
    if (q->files.parents != NULL && q->drafts.method != CLS_VERIFY_MATCH)
        cli_die("--parents: the method %s does not support trees; use match",
                methods[q->drafts.method]);
    if (!(q->drafts.epsilon > 0.0f && q->drafts.epsilon <= 1.0f))
        cli_die("--epsilon: %g is out of range; it must be above 0 and at most 1",
                (double)q->drafts.epsilon);
    if (!(q->drafts.delta > 0.0f && q->drafts.delta <= 16.0f))
        cli_die("--delta: %g is out of range; it must be above 0 and at most 16",
                (double)q->drafts.delta);
    if (q->drafts.trials == 0)
        cli_die("--trials: it must be at least 1");
}

static void read_all(command *q, cli_job *job)
{
    cli_drafts *const d = &q->drafts;
    cli_picked_read(&q->request);
    cli_drafts_read(&q->files, &q->request, d);
    if (d->method != CLS_VERIFY_STANDARD && d->method != CLS_VERIFY_BLOCK)
        d->draft = NULL; /* this method does not need it */
    q->request.of = "requests";
    job->ahead = d->most;
    cli_sampling_read(&q->request, job);
}

int cls_cmd_verify(int argc, char **argv)
{
    static const char usage
        [] = "verify --target FILE.npy --cu FILE.npy --draft-ids FILE.npy [OPTION]...",
   about[] =
        "Verifies the drafts of several requests. Request i has rows CU[i] to CU[i + 1] - 1 of the "
        "target: one before each of its drafts and one after the last. Masks and biases have a row "
        "for each row of the target, all other files a row for each request.";
    command q = {.drafts.trials = 1};
    cls_verify_call defaults;
    cli_job job = {0};
    cli_option options[] = {
        CLI_TITLE("Input"),
        {"target", CLI_INPUT, &q.files.target, "FILE.npy",
         "[drafts + requests, vocab] float32 or float16, or uint16 as bf16"},
        {"cu", CLI_INPUT, &q.files.cu, "FILE.npy",
         "int32 [requests + 1]: the first row of each request, then the number of rows"},
        {"draft-ids", CLI_INPUT, &q.files.ids, "FILE.npy",
         "int32 [drafts]: the drafts of all requests, in order"},
        {"draft-probs", CLI_INPUT, &q.files.probs, "FILE.npy",
         "float32 [drafts, vocab]: the distributions that they were drawn from"},
        {"draft-logits", CLI_INPUT, &q.files.logits, "FILE.npy",
         "the same as logits, of the type of the target"},
        {"parents", CLI_INPUT, &q.files.parents, "FILE.npy",
         "int32 [drafts]: the draft that each one follows, or -1 for the text; makes trees, for "
         "match"},
        CLI_SAMPLING_OPTIONS(&q.request, CLI_REQUESTS_HELP) CLI_TITLE("Verification"),
        {"method", CLI_CHOICE, &q.method, "METHOD=match|standard|block|typical",
         "match, standard, block or typical (default: standard with --draft-*, else match)"},
        {"epsilon", CLI_FLOAT, &q.drafts.epsilon, "X",
         "typical: accept tokens of a probability of at least min(X, ...) (default 0.09)"},
        {"delta", CLI_FLOAT, &q.drafts.delta, "X", "typical: ... X * exp(-entropy) (default 0.3)"},
        {"disable-bonus", CLI_SWITCH, &q.drafts.disable_bonus, NULL,
         "emit no further token if all drafts are accepted"},
        {"trials", CLI_UINT, &q.drafts.trials, "N",
         "verify N times, each at the positions after the previous one (default 1)"},
        CLI_TITLE("Output"),
        {"json", CLI_FLAG, &q.json, NULL, "print an array with one object for each request"},
        {"tokens", CLI_OUTPUT, &q.tokens, "OUT.npy",
         "write the tokens: int32 [requests, most drafts + 1], or [trials, ...]; padded with -1"},
        {"accepted", CLI_OUTPUT, &q.accepted, "OUT.npy",
         "write the numbers of accepted drafts: int32 [requests], or [trials, ...]"},
        {"nodes", CLI_OUTPUT, &q.nodes, "OUT.npy",
         "write which were accepted: int32 [requests, most drafts], or [trials, ...]; padded with "
         "-1"},
        {"logprobs", CLI_OUTPUT, &q.logprobs, "OUT.npy",
         "write the tokens' log-probabilities: float32, of the shape of --tokens; padded with "
         "-inf"},
        {"logprob-kind", CLI_CHOICE, &q.logprob_kind, "KIND=raw|final",
         "raw: of the logits (default); final: of the distributions after the chain. With --json, "
         "also print them"},
        CLI_DEVICE_OR_HOST(&q.device),
        CLI_DEVICE_OPTIONS(&q.kernels),
        CLI_NO_OPTION};
    cls_context_options_init(&q.kernels);
    cls_verify_call_init(&defaults);
    q.drafts.epsilon = defaults.epsilon;
    q.drafts.delta = defaults.delta;
    q.method = q.logprob_kind = -1;
    cli_request_default(&q.request);
    cli_parse(argc, argv, usage, about, options);
    q.drafts.method = q.method >= 0                                     ? q.method
                      : q.files.probs != NULL || q.files.logits != NULL ? CLS_VERIFY_STANDARD
                                                                        : CLS_VERIFY_MATCH;
    q.drafts.logprob_kind = q.logprob_kind == 1 ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
    check(&q);
    read_all(&q, &job);
    const int code = verify(&q, &job);
    cls_grammar_destroy(q.request.grammar);
    return code;
}
