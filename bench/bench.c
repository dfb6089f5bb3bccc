/* SPDX-License-Identifier: MIT */
/* clsample bench: the command. */
#include <stdio.h>

#include "bench/bench.h"

#define SERVED 64u /* default number of slots of the serving case */

/* ------------------------------------------------------------------------- a case */

static int open_floor(bench_floor *floor, const bench_setup *setup)
{
    if (setup->shards != 0 || floor->kernel != NULL)
        return 0;
    if (bench_is_host(setup)) {
        snprintf(floor->shape, sizeof floor->shape, "a read by one thread");
        return 0;
    }
    cli_progress("floor: looking for its best shape");
    return bench_floor_open(floor, setup);
}

static int write_rows(bench_run *run, const bench_case *c)
{
    if (run->written == (int)c->rows + 1)
        return 0;
    cli_progress("%s: making the rows", c->name);
    run->written = 0;
    if (bench_write_rows(&run->setup, c->rows))
        return 1;
    run->written = (int)c->rows + 1;
    return 0;
}

static int measure_steps(bench_run *run, const bench_case *c, bench_result *result)
{
    bench_setup *const setup = &run->setup;
    if (write_rows(run, c) || open_floor(&run->floor, setup))
        return 1;
    cli_progress("%s: verifying", c->name);
    if (c->drafts != BENCH_STEP)
        return bench_verify_drafts(setup, c, result);
    if (bench_make_kept(setup, c) || bench_write_mask(setup, c->mask) ||
        bench_make_sampler(setup, bench_window(c)) || bench_verify(setup, c))
        return 1;
    cli_progress("%s: timing", c->name);
    return setup->shards != 0 ? bench_time_shards(setup, c, result)
                              : bench_time(setup, &run->floor, c, result);
}

static int measure_serving(const bench_setup *of, json_t **object)
{
    bench_setup setup = {.on = of->on,
                         .batch = cli_given("batch") ? of->batch : SERVED,
                         .vocab = of->vocab,
                         .dtype = of->dtype,
                         .runs = of->runs,
                         .spare = BENCH_SPARE,
                         .history = of->history,
                         .law = of->law};
    bench_floor floor = {0};
    bench_served served;
    cli_progress("serving: making the rows");
    int failed = bench_open_setup(&setup) || bench_make_sampler(&setup, BENCH_WINDOW) ||
                 bench_write_rows(&setup, BENCH_LANGUAGE) || open_floor(&floor, &setup);
    cli_progress("serving: timing and verifying");
    failed = failed || cli_interrupted() || bench_serve(&setup, &floor, &served);
    if (!failed)
        *object = bench_json_served(&setup, &floor, &served);
    bench_floor_close(&floor);
    bench_close_setup(&setup);
    return failed;
}

static int open_run(bench_run *run)
{
    if (run->is_open)
        return 0;
    run->setup.on = &run->target;
    if (run->on_host) {
        run->is_open =
            cli_try(cls_context_create_host(run->options, &run->target.context), "bench") == 0 &&
            bench_open_setup(&run->setup) == 0;
        return !run->is_open;
    }
    cli_progress("device: compiling");
    run->is_open = cli_open_queue(&run->target, 0) == 0 &&
                   cli_open_context(&run->target, run->options) == 0 &&
                   bench_open_setup(&run->setup) == 0;
    return !run->is_open;
}

static void close_run(bench_run *run)
{
    bench_floor_close(&run->floor);
    bench_close_setup(&run->setup);
    cli_close(&run->target);
}

json_t *bench_measure(bench_run *run, const bench_case *c)
{
    bench_result result = {0};
    json_t *object = NULL;
    if (cli_interrupted())
        return NULL;
    if (c->kind == BENCH_START)
        object = bench_start(run, c);
    else if (open_run(run))
        return NULL;
    else if (c->kind == BENCH_SERVING)
        measure_serving(&run->setup, &object);
    else if (!measure_steps(run, c, &result))
        object = run->setup.shards != 0 ? bench_json_shards(&run->setup, c, &result)
                                        : bench_json_case(&run->setup, &run->floor, c, &result);
    cli_progress("%s", "");
    return object;
}

/* --------------------------------------------------------------------- the command */

/* Whether the case can be measured with these options: on the host, whether it is steps without
 * drafts. */
static bool is_possible(const bench_run *run, const bench_case *c)
{
    return (run->setup.shards == 0 || bench_can_split(c)) &&
           (!run->on_host || (c->kind == BENCH_STEPS && c->drafts == BENCH_STEP));
}

/* Measures the cases that are wanted, until one fails; with `all` a case that fails is an object,
 * too, and the next one runs if the device is open. Returns how many have failed. */
static uint32_t measure_all(bench_run *run, const bool wanted[BENCH_CASES], bool all,
                            json_t *results)
{
    uint32_t failed = 0;
    for (size_t i = 0; i < BENCH_CASES; i++) {
        const bench_case *const c = &bench_cases[i];
        json_t *object = wanted[i] ? bench_measure(run, c) : NULL;
        if (cli_interrupted())
            break;
        if (wanted[i] && object == NULL) {
            failed++;
            if (!all)
                break;
            object = json_pack("{s:s, s:s}", "case", c->name, "error", cli_last_error());
        }
        if (object != NULL)
            json_array_append_new(results, object);
        if (failed != 0 && !run->is_open && c->kind != BENCH_START)
            break;
    }
    return failed;
}

static int run_bench(bench_run *run, const bool wanted[BENCH_CASES], bool json)
{
    json_t *const results = json_array();
    uint32_t count = 0;
    for (size_t i = 0; i < BENCH_CASES; i++)
        count += wanted[i];
    const uint32_t wrong = measure_all(run, wanted, json, results);
    const size_t finished = json_array_size(results) - (json ? wrong : 0);
    int failed = wrong != 0;
    if (json)
        cli_print_json(results);
    else if (finished != 0)
        failed |= bench_print(run, results);
    close_run(run);
    if (cli_interrupted())
        failed = cli_fail("bench: interrupted; of %u cases %zu %s finished", (unsigned)count,
                          finished, finished == 1 ? "is" : "are");
    return failed;
}

static int check_setup(const bench_setup *setup)
{
    if (setup->batch < 1 || setup->batch > 4096)
        return cli_fail("--batch: %u is out of range; it must be 1 to 4096",
                        (unsigned)setup->batch);
    if (setup->vocab < 1 || setup->vocab > 1048576)
        return cli_fail("--vocab: %u is out of range; it must be 1 to 1048576",
                        (unsigned)setup->vocab);
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

/* Finds the cases that --case names. No name: all that are possible. */
static int select_cases(const bench_run *run, const cli_list *names, bool wanted[BENCH_CASES])
{
    char words[1024] = "";
    size_t used = 0;
    int32_t found;
    for (size_t i = 0; i < BENCH_CASES; i++) {
        wanted[i] = names->count == 0 && !bench_cases[i].extra && is_possible(run, &bench_cases[i]);
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i == 0 ? "" : "|",
                                 bench_cases[i].name);
    }
    for (uint32_t k = 0; k < names->count; k++) {
        cli_set(CLI_CHOICE, &found, words, "--case", names->text[k]);
        if (!is_possible(run, &bench_cases[found]))
            return cli_fail("--case: %s is not measured %s", names->text[k],
                            run->on_host ? "on the host" : "with --shards");
        wanted[found] = true;
    }
    return 0;
}

/* Fails if an option is given that --tune chooses or does not use, or one that only it uses. */
static int check_tune(bool tune)
{
    static const char *const others[] = {"case",      "history",        "history-ids", "runs",
                                         "shards",    "vector",         "work-group",  "row-group",
                                         "shortlist", "groups-per-unit"};
    for (size_t i = 0; tune && i < sizeof others / sizeof *others; i++)
        if (cli_given(others[i]))
            return cli_fail("--tune: --%s has no meaning with it", others[i]);
    return !tune && cli_given("seconds") ? cli_fail("--seconds: it is only for --tune") : 0;
}

/* Fails if an option is given that the host has no use for. */
static int check_host(const bench_run *run, bool tune)
{
    if (run->on_host && (tune || run->setup.shards != 0))
        return cli_fail("--%s: it needs a device, not the host", tune ? "tune" : "shards");
    return !run->on_host && cli_given("host-threads")
               ? cli_fail("--host-threads: it is only for --device host")
               : 0;
}

int cls_cmd_bench(int argc, char **argv)
{
    static const char about[] =
        "Times sampling steps and compares them with a plain read of the logits, the floor. "
        "The tokens of each step are first compared with the reference's.";
    cls_context_options context;
    bench_run run = {.setup = {.batch = BENCH_ROWS, .vocab = BENCH_VOCAB, .history = BENCH_HISTORY},
                     .options = &context};
    bench_setup *const setup = &run.setup;
    const char *device = NULL;
    int32_t dtype = CLS_F32;
    cli_list names = {NULL, 0};
    bool wanted[BENCH_CASES], json = false, tune = false;
    uint32_t limit = 60;
    cli_option options[] = {
        CLI_TITLE("Steps"),
        {"batch", CLI_UINT, &setup->batch, "N", "rows in a step (default 16; serving: 64)"},
        {"vocab", CLI_UINT, &setup->vocab, "N", "logits in a row (default 128256)"},
        {"dtype", CLI_CHOICE, &dtype, "TYPE=f32|f16|bf16", "f32 (default), f16 or bf16"},
        {"case", CLI_LIST, &names, "NAME", "run only this case"},
        {"history", CLI_UINT, &setup->history, "N",
         "tokens in a row's history in case penalties (default 2000)"},
        {"history-ids", CLI_CHOICE, &setup->law, "LAW=zipf|uniform",
         "the distribution of these tokens: zipf (default) or uniform"},
        {"runs", CLI_UINT, &setup->runs, "N",
         "runs of a case (default: at least 101, and one second)"},
        {"shards", CLI_UINT, &setup->shards, "N",
         "time steps of N shards in one process, beside whole steps"},
        {"tune", CLI_FLAG, &tune, NULL,
         "try shapes of the kernels, and say which is the fastest and the options for it"},
        {"seconds", CLI_UINT, &limit, "N",
         "with --tune, try no further shape after this time (default 60)"},
        {"json", CLI_FLAG, &json, NULL, "print an array of objects; with --tune an object"},
        CLI_DEVICE_OR_HOST(&device),
        {"host-threads", CLI_UINT, &context.host_threads, "N",
         "with --device host: threads that sample rows side by side; 0: all processors (default "
         "1)"},
        CLI_SHAPE_OPTIONS(&context),
        CLI_DEVICE_OPTIONS(&context),
        CLI_NO_OPTION};

    bench_read_cases();
    cls_context_options_init(&context);
    cli_parse(argc, argv, "bench [OPTION]...", about, options);
    setup->dtype = (cls_dtype)dtype;
    context.dtypes = 1u << dtype;
    run.on_host = cli_on_host(device);
    if (check_tune(tune) || check_setup(setup) || check_host(&run, tune) ||
        select_cases(&run, &names, wanted))
        return 1;
    if (run.on_host)
        run.target.device.name = "the host";
    else
        cli_find_device(device, &context, &run.target);
    cli_catch_interrupt();
    return tune ? bench_tune(&run, limit, json) : run_bench(&run, wanted, json);
}
