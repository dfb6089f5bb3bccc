/* SPDX-License-Identifier: MIT */
/* clsample bench: the list of cases and the command. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const bench_case bench_cases[BENCH_CASES] = {
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

/* A set of cases: bit i for case i, and then one for serving. */
typedef uint32_t bench_set;
#define SERVING ((bench_set)1 << BENCH_CASES)
#define ALL (2 * SERVING - 1)

/* The values of --case: the cases in this order, then serving. */
#define CASE_NAMES \
    "greedy|topk|minp|mask|mask_1|mask_but_one|penalties|thinking|forced|loop|plain|" \
    "topp_peaked|llama|dry|dry_1000|dry_100|xtc|typical|" \
    "mirostat|mirostat_late|topp_flat|topp_ties|verify|verify_match|verify_block|kept|kept_flat|" \
    "serving"
#define SERVED 64u /* slots of the serving case */

static int open_floor(bench_floor *floor, const bench_setup *setup)
{
    cli_progress("floor: looking for its best shape");
    return bench_floor_open(floor, setup);
}

/* The cases that can be measured with these options. */
static bench_set possible(const bench_setup *setup)
{
    bench_set set = setup->shards == 0 ? ALL : 0;
    for (size_t i = 0; i < BENCH_CASES; i++)
        set |= (bench_set)bench_can_split(&bench_cases[i]) << i;
    return set;
}

static unsigned count(bench_set set)
{
    unsigned n = 0;
    for (; set != 0; set &= set - 1)
        n++;
    return n;
}

/* written: the bench_rows in the setup's buffers; -1: they are not written yet. */
static int run_case(bench_setup *setup, bench_floor *floor, const bench_case *c, int *written,
                    bench_result *result)
{
    if (cli_interrupted())
        return 1;
    if (*written != (int)c->rows) {
        cli_progress("%s: making the rows", c->name);
        *written = -1;
        if (bench_write_rows(setup, c->rows))
            return 1;
        *written = (int)c->rows;
    }
    if (setup->shards == 0 && floor->kernel == NULL && open_floor(floor, setup))
        return 1;
    cli_progress("%s: verifying", c->name);
    if (c->drafts != BENCH_STEP)
        return bench_verify_drafts(setup, c, result);
    if (bench_make_kept(setup, c) || bench_make_sampler(setup, bench_window(c)) ||
        bench_write_mask(setup, c->mask) || bench_verify(setup, c))
        return 1;
    cli_progress("%s: timing", c->name);
    return setup->shards != 0 ? bench_time_shards(setup, c, result)
                              : bench_time(setup, floor, c, result);
}

static int run_cases(bench_setup *setup, bench_floor *floor, bench_set set, bench_result *results)
{
    int written = -1;
    for (size_t i = 0; i < BENCH_CASES; i++)
        if ((set >> i & 1u) && run_case(setup, floor, &bench_cases[i], &written, &results[i]))
            return 1;
    return 0;
}

static int print_cases(const bench_setup *setup, const bench_floor *floor,
                       const bench_result *results)
{
    return setup->shards != 0 ? bench_print_shards(setup, bench_cases, BENCH_CASES, results)
                              : bench_print_cases(setup, floor, bench_cases, BENCH_CASES, results);
}

/* Runs the cases of one step each until one fails, counts the finished ones and prints them. */
static int run_steps(bench_setup setup, bench_set set, uint32_t *finished)
{
    bench_floor floor;
    bench_result results[BENCH_CASES];
    int failed;

    memset(&floor, 0, sizeof floor);
    memset(results, 0, sizeof results);
    failed = bench_open_setup(&setup) || run_cases(&setup, &floor, set, results);
    cli_progress("%s", "");
    for (size_t i = 0; i < BENCH_CASES; i++)
        *finished += results[i].runs != 0;
    if ((!failed || cli_interrupted()) && *finished != 0)
        failed |= print_cases(&setup, &floor, results);
    bench_floor_close(&floor);
    bench_close_setup(&setup);
    return failed;
}

static int run_serving(bench_setup setup, json_t *array)
{
    bench_floor floor;
    bench_served served;
    int failed;

    memset(&floor, 0, sizeof floor);
    setup.spare = BENCH_SPARE;
    cli_progress("serving: making the rows");
    failed = bench_open_setup(&setup) || bench_make_sampler(&setup, BENCH_WINDOW) ||
             bench_write_rows(&setup, BENCH_LANGUAGE) || open_floor(&floor, &setup);
    cli_progress("serving: timing and verifying");
    failed = failed || cli_interrupted() || bench_serve(&setup, &floor, &served);
    cli_progress("%s", "");
    if (!failed)
        failed = array != NULL ? bench_json_served(array, &setup, &served)
                               : bench_print_served(&setup, &floor, &served);
    bench_floor_close(&floor);
    bench_close_setup(&setup);
    return failed;
}

/* ------------------------------------------------------ for clsample report and --json */

const bench_case *bench_find(const char *name)
{
    for (size_t i = 0; i < BENCH_CASES; i++)
        if (strcmp(bench_cases[i].name, name) == 0)
            return &bench_cases[i];
    return NULL;
}

static bench_set quick_cases(void)
{
    static const char *const names[] = {"greedy", "topk", "plain", "topp_peaked"};
    bench_set set = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        set |= (bench_set)1 << (bench_find(names[i]) - bench_cases);
    return set;
}

/* Appends a failed case with its error message, which has been printed. */
static int add_failure(json_t *array, const char *name)
{
    json_array_append_new(array, json_pack("{s:s, s:s}", "case", name, "error", cli_last_error()));
    return 1;
}

/* Runs the cases of one step each and appends them to the array, also those that fail. Returns how
 * many failed. shape: set to the floor's. */
static int collect_steps(bench_setup setup, bench_set set, json_t *array, uint32_t *finished,
                         char shape[64])
{
    bench_floor floor;
    int written = -1, failed;

    memset(&floor, 0, sizeof floor);
    failed = bench_open_setup(&setup) ? add_failure(array, "steps") : 0;
    for (size_t i = 0; i < BENCH_CASES; i++) {
        bench_result result;
        memset(&result, 0, sizeof result);
        /* If the first case finds no rows or no floor, the others cannot run either. */
        if (failed && (written < 0 || (setup.shards == 0 && floor.kernel == NULL)))
            break;
        if (!(set >> i & 1u))
            continue;
        const int undone = run_case(&setup, &floor, &bench_cases[i], &written, &result);
        if (cli_interrupted())
            break;
        if (undone)
            failed += add_failure(array, bench_cases[i].name);
        else
            failed += setup.shards != 0
                          ? bench_json_shards(array, &setup, &bench_cases[i], 1, &result)
                          : bench_json_cases(array, &setup, &bench_cases[i], 1, &result);
        *finished += !undone;
    }
    cli_progress("%s", "");
    snprintf(shape, sizeof floor.shape, "%s", floor.shape);
    bench_floor_close(&floor);
    bench_close_setup(&setup);
    return failed;
}

static int collect_serving(bench_setup setup, json_t *array, uint32_t *finished)
{
    const int failed = run_serving(setup, array);
    *finished += !failed;
    return failed && !cli_interrupted() ? add_failure(array, "serving") : 0;
}

int bench_collect(const bench_setup *setup, bool quick, json_t *object)
{
    bench_setup some = *setup;
    json_t *array = json_array();
    uint32_t finished = 0;
    char shape[64];
    int failed;

    if (json_object_set_new(object, "cases", array) != 0)
        return cli_no_memory();
    failed = collect_steps(some, quick ? quick_cases() : ALL, array, &finished, shape);
    json_object_set_new(object, "floor_shape", json_string(shape));
    some.batch = SERVED;
    return quick || cli_interrupted() ? failed : failed + collect_serving(some, array, &finished);
}

/* --------------------------------------------------------------- the command */

/* Runs the cases of a set and prints them, or appends them to the array unless that is NULL. It
 * returns nonzero after an error or an interrupt. */
static int run_all(const bench_setup *setup, bench_set set, json_t *array, uint32_t *finished)
{
    bench_setup some = *setup;
    char shape[64];
    int failed = 0;
    some.batch = setup->batch != 0 ? setup->batch : BENCH_ROWS;
    if (set != SERVING)
        failed = array != NULL ? collect_steps(some, set, array, finished, shape)
                               : run_steps(some, set, finished);
    if (!(set & SERVING) || cli_interrupted() || (failed && array == NULL))
        return failed || cli_interrupted();
    some.batch = setup->batch != 0 ? setup->batch : SERVED;
    if (array != NULL)
        return failed | collect_serving(some, array, finished) | cli_interrupted();
    if (set != SERVING)
        putchar('\n');
    failed = run_serving(some, NULL);
    *finished += !failed;
    return failed;
}

static int run(bench_setup *setup, const char *device, const cls_context_options *options,
               bench_set set, int json)
{
    json_t *array = json ? json_array() : NULL;
    uint32_t finished = 0;
    cli_target target;
    int failed;

    cli_progress("device: compiling");
    if (json && array == NULL)
        return cli_no_memory();
    if (cli_open(device, options, 0, &target)) {
        json_decref(array);
        return 1;
    }
    setup->on = &target;
    cli_catch_interrupt();
    failed = run_all(setup, set, array, &finished);
    cli_close(&target);
    if (json)
        cli_print_json(array);
    if (cli_interrupted())
        cli_fail("bench: interrupted; of %u cases %u %s finished", count(set), (unsigned)finished,
                 finished == 1 ? "is" : "are");
    return failed;
}

int bench_check(uint32_t batch, uint32_t vocab)
{
    if (batch < 1 || batch > 4096)
        return cli_fail("--batch: %u is out of range; it must be 1 to 4096", (unsigned)batch);
    if (vocab < 1 || vocab > 1048576)
        return cli_fail("--vocab: %u is out of range; it must be 1 to 1048576", (unsigned)vocab);
    return 0;
}

static int check_setup(const bench_setup *setup)
{
    if (bench_check(cli_given("batch") ? setup->batch : 1, setup->vocab))
        return 1;
    if (setup->runs > BENCH_MOST_RUNS)
        return cli_fail("--runs: %u is too large; the most is %u", (unsigned)setup->runs,
                        BENCH_MOST_RUNS);
    if (setup->history > BENCH_MOST_HISTORY)
        return cli_fail("--history: %u is too large; the most is %u", (unsigned)setup->history,
                        BENCH_MOST_HISTORY);
    if (cli_given("shards") && setup->shards == 0)
        return cli_fail("--shards: it must be at least 1");
    if (setup->shards > CLS_MAX_SHARDS)
        return cli_fail("--shards: %u is too large; the most is %d", (unsigned)setup->shards,
                        CLS_MAX_SHARDS);
    if (setup->shards > setup->vocab)
        return cli_fail("--shards: %u shards are more than the vocabulary's %u tokens",
                        (unsigned)setup->shards, (unsigned)setup->vocab);
    return 0;
}

/* Sets the cases that --case names. No name: all that are possible. */
static int select_cases(const bench_setup *setup, const cli_list *names, bench_set *set)
{
    int32_t i;
    *set = names->count == 0 ? possible(setup) : 0;
    for (uint32_t k = 0; k < names->count; k++) {
        cli_set(CLI_CHOICE, &i, CASE_NAMES, "--case", names->text[k]);
        if (!(possible(setup) >> i & 1u))
            return cli_fail("--case: %s is not measured with --shards", names->text[k]);
        *set |= (bench_set)1 << i;
    }
    return 0;
}

int cls_cmd_bench(int argc, char **argv)
{
    static const char about[] =
        "Times sampling steps and compares them with a plain read of the logits, the floor. "
        "The tokens of each step are first compared with the reference's.";
    bench_setup setup = {.vocab = BENCH_VOCAB, .history = BENCH_HISTORY};
    cls_context_options context;
    const char *device = NULL;
    int32_t dtype = CLS_F32;
    cli_list names = {NULL, 0};
    bench_set set;
    bool json = false;
    cli_option options[] = {
        CLI_TITLE("Steps"),
        {"batch", CLI_UINT, &setup.batch, "N", "rows in a step (default 16; serving: 64)"},
        {"vocab", CLI_UINT, &setup.vocab, "N", "logits in a row (default 128256)"},
        {"dtype", CLI_CHOICE, &dtype, "TYPE=f32|f16|bf16", "f32 (default), f16 or bf16"},
        {"case", CLI_LIST, &names, "NAME", "run only this case"},
        {"history", CLI_UINT, &setup.history, "N",
         "tokens in a row's history in case penalties (default 2000)"},
        {"history-ids", CLI_CHOICE, &setup.law, "LAW=zipf|uniform",
         "the distribution of these tokens: zipf (default) or uniform"},
        {"runs", CLI_UINT, &setup.runs, "N",
         "runs of a case (default: at least 101, and one second)"},
        {"shards", CLI_UINT, &setup.shards, "N",
         "time steps of N shards in one process, beside whole steps"},
        {"json", CLI_FLAG, &json, NULL, "print an array of objects"},
        CLI_DEVICE(&device),
        CLI_SHAPE_OPTIONS(&context),
        CLI_DEVICE_OPTIONS(&context),
        CLI_NO_OPTION};

    cls_context_options_init(&context);
    cli_parse(argc, argv, "bench [OPTION]...", about, options);
    setup.dtype = (cls_dtype)dtype;
    context.dtypes = 1u << dtype;
    return check_setup(&setup) || select_cases(&setup, &names, &set) ||
           run(&setup, device, &context, set, json);
}
