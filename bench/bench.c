/* SPDX-License-Identifier: MIT */
/* clsample bench: the list of cases and the command. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const bench_case cases[] = {
    {"greedy", BENCH_LANGUAGE, 0.0f, 0, 1.0f, 0.0f, BENCH_ALL, 0, 1.3, 0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"topk", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_ALL, 0, 1.7, 2.0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"minp", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.05f, BENCH_ALL, 0, 1.7, 2.0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"mask", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_HALF, 0, 1.25, 0, 1, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"mask_1", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_FEW, 0, 1.25, 0, 1, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"mask_but_one", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_BUT_ONE, 0, 1.25, 0, 1,
     BENCH_NO_MORE, 0, BENCH_STEP, 0},
    {"penalties", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_ALL, 1, 1.25, 0, 1, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"thinking", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_ALL, 0, 1.25, 0, 1, BENCH_THINKING, 0,
     BENCH_STEP, 0},
    {"forced", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_ALL, 0, 1.25, 0, 1, BENCH_FORCED, 0,
     BENCH_STEP, 0},
    {"loop", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_ALL, 0, 1.25, 0, 1, BENCH_LOOP, 0,
     BENCH_STEP, 0},
    {"plain", BENCH_LANGUAGE, 0.8f, 0, 1.0f, 0.0f, BENCH_ALL, 0, 2.5, 3.0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"topp_peaked", BENCH_LANGUAGE, 1.0f, 0, 0.9f, 0.0f, BENCH_ALL, 0, 3.0, 0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"llama", BENCH_LANGUAGE, 0.8f, 40, 0.95f, 0.05f, BENCH_ALL, 0, 1.5, 0, 1, BENCH_LLAMA, 64,
     BENCH_STEP, 0},
    {"dry", BENCH_LANGUAGE, 0.8f, 40, 0.95f, 0.05f, BENCH_ALL, 0, 1.5, 0, 1, BENCH_DRY, 8192,
     BENCH_STEP, 0},
    {"dry_1000", BENCH_LANGUAGE, 0.8f, 40, 0.95f, 0.05f, BENCH_ALL, 0, 1.5, 0, 1, BENCH_DRY, 1000,
     BENCH_STEP, 0},
    {"dry_100", BENCH_LANGUAGE, 0.8f, 40, 0.95f, 0.05f, BENCH_ALL, 0, 1.5, 0, 1, BENCH_DRY, 100,
     BENCH_STEP, 0},
    {"xtc", BENCH_LANGUAGE, 0.8f, 40, 0.95f, 0.05f, BENCH_ALL, 0, 1.5, 0, 1, BENCH_XTC, 64,
     BENCH_STEP, 0},
    {"typical", BENCH_LANGUAGE, 0.8f, 40, 0.95f, 0.05f, BENCH_ALL, 0, 1.5, 0, 1, BENCH_TYPICAL, 64,
     BENCH_STEP, 0},
    {"mirostat", BENCH_LANGUAGE, 0.8f, 40, 0.95f, 0.05f, BENCH_ALL, 0, 1.5, 0, 1, BENCH_MIROSTAT,
     64, BENCH_STEP, 0},
    {"mirostat_late", BENCH_LANGUAGE, 0.8f, 40, 0.95f, 0.05f, BENCH_ALL, 0, 1.5, 0, 1,
     BENCH_MIROSTAT_LATE, 64, BENCH_STEP, 0},
    {"topp_flat", BENCH_FLAT, 1.0f, 0, 0.9f, 0.0f, BENCH_ALL, 0, 7.0, 0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"topp_ties", BENCH_TIES, 1.0f, 0, 0.9f, 0.0f, BENCH_ALL, 0, 15.0, 0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, 0},
    {"verify", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_ALL, 0, 2.5, 0, 0, BENCH_NO_MORE, 0,
     BENCH_STANDARD, 0},
    {"verify_match", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_ALL, 0, 2.5, 0, 0, BENCH_NO_MORE,
     0, BENCH_MATCH, 0},
    {"verify_block", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, BENCH_ALL, 0, 2.5, 0, 0, BENCH_NO_MORE,
     0, BENCH_BLOCK, 0},
    {"kept", BENCH_LANGUAGE, 1.0f, 0, 0.9f, 0.0f, BENCH_ALL, 0, 0, 0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, 1024},
    {"kept_flat", BENCH_FLAT, 1.0f, 0, 0.9f, 0.0f, BENCH_ALL, 0, 0, 0, 0, BENCH_NO_MORE, 0,
     BENCH_STEP, UINT32_MAX},
};
#define CASES (sizeof cases / sizeof *cases)

/* The values of --case: the cases in this order, then serving. */
#define CASE_NAMES \
    "greedy|topk|minp|mask|mask_1|mask_but_one|penalties|thinking|forced|loop|plain|" \
    "topp_peaked|llama|dry|dry_1000|dry_100|xtc|typical|" \
    "mirostat|mirostat_late|topp_flat|topp_ties|verify|verify_match|verify_block|kept|kept_flat|" \
    "serving"
#define SERVING ((int32_t)CASES)
#define SERVED 64u /* slots of the serving case */

/* Prints a line that the next one overwrites, on terminals only. The cursor stays at the beginning
 * of the line, so that an error message overwrites it, too. */
static void progress(const char *name, const char *doing)
{
    if (!isatty(STDERR_FILENO))
        return;
    if (name == NULL)
        fputs("\033[K", stderr);
    else
        fprintf(stderr, "\033[K%s: %s\r", name, doing);
    fflush(stderr);
}

static cl_mem new_buffer(const bench_setup *setup, size_t size, cl_int *error)
{
    return *error == CL_SUCCESS
               ? clCreateBuffer(setup->on->cl, CL_MEM_READ_WRITE, size, NULL, error)
               : NULL;
}

int bench_new_sampler(const bench_setup *setup, uint32_t window, cls_sampler **sampler)
{
    cls_sampler_options options;
    cls_sampler_options_default(&options, sizeof options);
    options.vocab = setup->vocab;
    options.max_rows = setup->batch;
    options.history = window;
    options.features = CLS_FEATURE_PLAIN | CLS_FEATURE_LISTS | CLS_FEATURE_MASK |
                       (setup->kept != NULL ? CLS_FEATURE_KEPT_SETS : 0u);
    return cli_compile_done(cls_sampler_create(setup->on->context, &options, sampler)) == CLS_OK
               ? 0
               : cli_fail_library("bench: creating the sampler");
}

/* Creates the sampler, unless the present one has the same history. */
static int make_sampler(bench_setup *setup, uint32_t window)
{
    if (setup->sampler != NULL && setup->window == window)
        return 0;
    cls_sampler_destroy(setup->sampler);
    setup->sampler = NULL;
    setup->window = window;
    return bench_new_sampler(setup, window, &setup->sampler);
}

/* Creates the buffer for kept sets, unless the case writes none or the buffer is there. The sampler
 * is created again, for such cases. */
static int make_kept(bench_setup *setup, const bench_case *c)
{
    cl_int error = CL_SUCCESS;
    if (c->kept_set == 0 || setup->kept != NULL)
        return 0;
    setup->kept = new_buffer(setup, (size_t)setup->batch * setup->vocab * sizeof(int32_t), &error);
    cls_sampler_destroy(setup->sampler);
    setup->sampler = NULL;
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: the buffer for kept sets", error);
}

static size_t mask_size(const bench_setup *setup)
{
    return (size_t)setup->batch * ((setup->vocab + 31) / 32) * sizeof(int32_t);
}

/* Allocates the buffers. Each case writes its logits and its mask. */
static int open_setup(bench_setup *setup)
{
    cl_int error = CL_SUCCESS;

    setup->longest = setup->history;
    for (size_t i = 0; i < CASES; i++)
        if (cases[i].history > setup->longest)
            setup->longest = cases[i].history;
    setup->size = ((size_t)(setup->batch + setup->spare) * setup->vocab + BENCH_PAD) *
                  bench_dtype_size(setup->dtype);
    setup->rows = malloc(setup->size);
    setup->mask_words = malloc(mask_size(setup));
    setup->ids = malloc((size_t)setup->batch * (setup->longest + 1) * sizeof *setup->ids);
    setup->likeliest = malloc((setup->batch + setup->spare) * sizeof *setup->likeliest);
    if (setup->rows == NULL || setup->mask_words == NULL || setup->ids == NULL ||
        setup->likeliest == NULL)
        return cli_no_memory();
    setup->logits = new_buffer(setup, setup->size, &error);
    setup->mask = new_buffer(setup, mask_size(setup), &error);
    setup->tokens = new_buffer(setup, 2 * setup->batch * sizeof(int32_t), &error);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: the logits' buffers", error);
}

static void close_setup(bench_setup *setup)
{
    cls_sampler_destroy(setup->sampler);
    if (setup->kept != NULL)
        clReleaseMemObject(setup->kept);
    if (setup->tokens != NULL)
        clReleaseMemObject(setup->tokens);
    if (setup->mask != NULL)
        clReleaseMemObject(setup->mask);
    if (setup->logits != NULL)
        clReleaseMemObject(setup->logits);
    free(setup->likeliest);
    free(setup->ids);
    free(setup->mask_words);
    free(setup->rows);
}

/* Fills the histories with random ids. Every 64th is the likeliest token of the row: models repeat
 * themselves, and penalties that change no draw would not be verified. DRY's histories end with the
 * tokens before one of these. */
static void fill_histories(bench_setup *setup)
{
    for (uint32_t row = 0; row < setup->batch; row++) {
        int32_t *const ids = setup->ids + (size_t)row * setup->longest;
        bench_fill_ids(ids, setup->longest, setup->vocab, (bench_law)setup->law, row);
        for (uint32_t i = 0; i < setup->longest; i += 64)
            ids[i] = setup->likeliest[row];
        for (size_t i = 0; i < CASES; i++)
            if (cases[i].more == BENCH_DRY)
                memcpy(ids + cases[i].history - 3, ids + 61, 3 * sizeof *ids);
    }
}

static int write_rows(bench_setup *setup, bench_rows kind)
{
    cl_int error;
    bench_fill_rows(setup->rows, setup->dtype, setup->batch + setup->spare, setup->vocab, kind);
    for (uint32_t row = 0; row < setup->batch + setup->spare; row++)
        setup->likeliest[row] = bench_likeliest(setup->rows, setup->dtype, row, setup->vocab);
    fill_histories(setup);
    error = clEnqueueWriteBuffer(setup->on->queue, setup->logits, CL_TRUE, 0, setup->size,
                                 setup->rows, 0, NULL, NULL);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: writing the logits", error);
}

static int write_mask(bench_setup *setup, bench_mask kind)
{
    cl_int error;
    if (kind == BENCH_ALL)
        return 0;
    bench_fill_mask(setup->mask_words, setup->batch, setup->vocab, kind);
    error = clEnqueueWriteBuffer(setup->on->queue, setup->mask, CL_TRUE, 0, mask_size(setup),
                                 setup->mask_words, 0, NULL, NULL);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: writing the mask", error);
}

static int open_floor(bench_floor *floor, const bench_setup *setup)
{
    progress("floor", "looking for its best shape");
    return bench_floor_open(floor, setup);
}

/* Whether the command runs the case. */
static bool is_selected(const bench_setup *setup, int32_t only, size_t i)
{
    return (only < 0 || only == (int32_t)i) && (setup->shards == 0 || bench_can_split(&cases[i]));
}

/* written: the bench_rows in the setup's buffers; -1: they are not written yet. */
static int run_case(bench_setup *setup, bench_floor *floor, const bench_case *c, int *written,
                    bench_result *result)
{
    if (cli_interrupted())
        return 1;
    if (*written != (int)c->rows) {
        progress(c->name, "making the rows");
        *written = -1;
        if (write_rows(setup, c->rows))
            return 1;
        *written = (int)c->rows;
    }
    if (setup->shards == 0 && floor->kernel == NULL && open_floor(floor, setup))
        return 1;
    progress(c->name, "verifying");
    if (c->drafts != BENCH_STEP)
        return bench_verify_drafts(setup, c, result);
    if (make_kept(setup, c) || make_sampler(setup, bench_window(c)) || write_mask(setup, c->mask) ||
        bench_verify(setup, c))
        return 1;
    progress(c->name, "timing");
    return setup->shards != 0 ? bench_time_shards(setup, c, result)
                              : bench_time(setup, floor, c, result);
}

static int run_cases(bench_setup *setup, bench_floor *floor, int32_t only, bench_result *results)
{
    int written = -1;
    for (size_t i = 0; i < CASES; i++)
        if (is_selected(setup, only, i) && run_case(setup, floor, &cases[i], &written, &results[i]))
            return 1;
    return 0;
}

/* Prints the finished cases, or appends them to the array, and counts them. */
static int print_cases(const bench_setup *setup, const bench_floor *floor,
                       const bench_result *results, json_t *array, uint32_t *finished)
{
    for (size_t i = 0; i < CASES; i++)
        *finished += results[i].runs != 0;
    if (setup->shards != 0 && array != NULL)
        return bench_json_shards(array, setup, cases, CASES, results);
    if (setup->shards != 0)
        return *finished == 0 ? 0 : bench_print_shards(setup, cases, CASES, results);
    if (array != NULL)
        return bench_json_cases(array, setup, cases, CASES, results);
    return *finished == 0 ? 0 : bench_print_cases(setup, floor, cases, CASES, results);
}

/* Runs the cases of one step each. array: the results for --json, or NULL. */
static int run_steps(bench_setup setup, int32_t only, json_t *array, uint32_t *finished)
{
    bench_floor floor;
    bench_result results[CASES];
    int failed;

    memset(&floor, 0, sizeof floor);
    memset(results, 0, sizeof results);
    failed = open_setup(&setup) || run_cases(&setup, &floor, only, results);
    progress(NULL, NULL);
    if (!failed || cli_interrupted())
        failed |= print_cases(&setup, &floor, results, array, finished);
    bench_floor_close(&floor);
    close_setup(&setup);
    return failed;
}

static int run_serving(bench_setup setup, json_t *array)
{
    bench_floor floor;
    bench_served served;
    int failed;

    memset(&floor, 0, sizeof floor);
    setup.spare = BENCH_SPARE;
    progress("serving", "making the rows");
    failed = open_setup(&setup) || make_sampler(&setup, BENCH_WINDOW) ||
             write_rows(&setup, BENCH_LANGUAGE) || open_floor(&floor, &setup);
    progress("serving", "timing and verifying");
    failed = failed || cli_interrupted() || bench_serve(&setup, &floor, &served);
    progress(NULL, NULL);
    if (!failed)
        failed = array != NULL ? bench_json_served(array, &setup, &served)
                               : bench_print_served(&setup, &floor, &served);
    bench_floor_close(&floor);
    close_setup(&setup);
    return failed;
}

/* ------------------------------------------------------- for clsample report */

static bool is_quick(const char *name)
{
    static const char *const names[] = {"greedy", "topk", "plain", "topp_peaked"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Appends a failed case with its error message, which has been printed. */
static int add_failure(json_t *array, const char *name)
{
    json_array_append_new(array, json_pack("{s:s, s:s}", "case", name, "error", cli_last_error()));
    return 1;
}

static int collect_steps(bench_setup setup, bool quick, json_t *object, json_t *array)
{
    bench_floor floor;
    int written = -1, failed;

    memset(&floor, 0, sizeof floor);
    failed = open_setup(&setup) ? add_failure(array, "steps") : 0;
    /* If the first case finds no rows or no floor, the others cannot run either. */
    for (size_t i = 0; i < CASES && (written < 0 ? failed == 0 : floor.kernel != NULL); i++) {
        bench_result result;
        memset(&result, 0, sizeof result);
        if (quick && !is_quick(cases[i].name))
            continue;
        const int undone = run_case(&setup, &floor, &cases[i], &written, &result);
        if (cli_interrupted())
            break;
        if (undone)
            failed += add_failure(array, cases[i].name);
        else
            failed += bench_json_cases(array, &setup, &cases[i], 1, &result);
    }
    progress(NULL, NULL);
    json_object_set_new(object, "floor_shape", json_string(floor.shape));
    bench_floor_close(&floor);
    close_setup(&setup);
    return failed;
}

int bench_collect(const bench_setup *setup, bool quick, json_t *object)
{
    bench_setup some = *setup;
    json_t *array = json_array();
    int failed;

    if (json_object_set_new(object, "cases", array) != 0)
        return cli_no_memory();
    failed = collect_steps(some, quick, object, array);
    if (quick || cli_interrupted())
        return failed;
    some.batch = SERVED;
    if (run_serving(some, array) && !cli_interrupted())
        failed += add_failure(array, "serving");
    return failed;
}

/* --------------------------------------------------------------- the command */

/* Runs the selected cases. It returns 1 after an error or an interrupt. */
static int run_all(bench_setup *setup, int32_t only, json_t *array, uint32_t *finished)
{
    const uint32_t batch = setup->batch;
    if (only != SERVING) {
        setup->batch = batch != 0 ? batch : BENCH_ROWS;
        if (run_steps(*setup, only, array, finished))
            return 1;
    }
    if ((only >= 0 && only != SERVING) || setup->shards != 0)
        return 0;
    if (only < 0 && array == NULL)
        putchar('\n');
    setup->batch = batch != 0 ? batch : SERVED;
    if (run_serving(*setup, array))
        return 1;
    ++*finished;
    return 0;
}

/* The number of cases that the command runs. */
static unsigned count_cases(const bench_setup *setup, int32_t only)
{
    unsigned n = setup->shards == 0 && (only < 0 || only == SERVING);
    for (size_t i = 0; i < CASES; i++)
        n += is_selected(setup, only, i);
    return n;
}

static int run(bench_setup *setup, const char *device, const cls_context_options *options,
               int32_t only, int json)
{
    json_t *array = json ? json_array() : NULL;
    uint32_t finished = 0;
    cli_target target;
    int failed;

    progress("device", "compiling");
    if (json && array == NULL)
        return cli_no_memory();
    if (cli_open(device, options, 0, &target)) {
        json_decref(array);
        return 1;
    }
    setup->on = &target;
    cli_catch_interrupt();
    failed = run_all(setup, only, array, &finished);
    cli_close(&target);
    if (json && (!failed || cli_interrupted()))
        failed |= cli_print_json(array);
    else
        json_decref(array);
    if (cli_interrupted())
        cli_fail("bench: interrupted; of %u cases %u %s finished", count_cases(setup, only),
                 (unsigned)finished, finished == 1 ? "is" : "are");
    return failed;
}

int cls_cmd_bench(int argc, char **argv)
{
    static const char about[] =
        "Times sampling steps and compares them with a plain read of the logits, the floor.\n"
        "The tokens of each step are first compared with the reference's.";
    bench_setup setup = {.vocab = BENCH_VOCAB, .history = BENCH_HISTORY};
    cls_context_options context;
    const char *device = NULL;
    int32_t dtype = CLS_F32, only = -1;
    bool json = false;
    cli_option options[] = {
        {"batch", CLI_UINT, &setup.batch, "N", "rows in a step (default 16; serving: 64)", NULL, 0},
        {"vocab", CLI_UINT, &setup.vocab, "N", "logits in a row (default 128256)", NULL, 0},
        {"dtype", CLI_CHOICE, &dtype, "TYPE", "f32 (default), f16 or bf16", "f32|f16|bf16", 0},
        {"case", CLI_CHOICE, &only, "NAME", "run only this case", CASE_NAMES, 0},
        {"history", CLI_UINT, &setup.history, "N",
         "tokens in a row's history in case penalties (default 2000)", NULL, 0},
        {"history-ids", CLI_CHOICE, &setup.law, "LAW",
         "the distribution of these tokens: zipf (default) or uniform", "zipf|uniform", 0},
        {"runs", CLI_UINT, &setup.runs, "N",
         "runs of a case (default: at least 101, and one second)", NULL, 0},
        {"shards", CLI_UINT, &setup.shards, "N",
         "time steps of N shards in one process, beside whole steps", NULL, 0},
        {"device", CLI_STRING, &device, "N", "the number of a device, from clsample devices", NULL,
         0},
        {"work-group", CLI_UINT, &context.work_group, "N",
         "work-items in a group (default: chosen for the device)", NULL, 0},
        {"vector", CLI_UINT, &context.vector, "N",
         "logits per load of a work-item (default: chosen for the device)", NULL, 0},
        CLI_DEVICE_OPTIONS(&context),
        {"json", CLI_FLAG, &json, NULL, "print an array of objects", NULL, 0},
        {NULL, CLI_FLAG, NULL, NULL, NULL, NULL, 0},
    };

    cls_context_options_default(&context, sizeof context);
    switch (cli_parse(argc, argv, "bench [OPTION]...", about, options)) {
    case CLI_HELPED:
        return 0;
    case CLI_FAILED:
        return 1;
    case CLI_GO:
        break;
    }
    if (options[0].given && (setup.batch < 1 || setup.batch > 4096))
        return cli_fail("--batch: %u is out of range; it must be 1 to 4096", (unsigned)setup.batch);
    if (setup.vocab < 1 || setup.vocab > 1048576)
        return cli_fail("--vocab: %u is out of range; it must be 1 to 1048576",
                        (unsigned)setup.vocab);
    if (setup.runs > BENCH_MOST_RUNS)
        return cli_fail("--runs: %u is too large; the most is %u", (unsigned)setup.runs,
                        BENCH_MOST_RUNS);
    if (setup.history > BENCH_MOST_HISTORY)
        return cli_fail("--history: %u is too large; the most is %u", (unsigned)setup.history,
                        BENCH_MOST_HISTORY);
    if (cli_shards_check(options, setup.shards, setup.vocab))
        return 1;
    if (setup.shards != 0 && only >= 0 && count_cases(&setup, only) == 0)
        return cli_fail("--case: this case is not measured with --shards");
    setup.dtype = (cls_dtype)dtype;
    context.dtypes = 1u << dtype;
    return run(&setup, device, &context, only, json);
}
