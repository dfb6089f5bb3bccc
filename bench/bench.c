/* SPDX-License-Identifier: MIT */
/* clsample bench: the cases, the command, the table. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A step and the time it should take. `goal` is in floors, or, where
 * `goal_topk` is set, in steps of the case topk; set for [16, 128256] float32
 * on a CPU. `goal_one` is for one row, in empty launches. 0: none. */
typedef struct bench_case {
    const char *name;
    bench_rows rows;
    float temperature;
    int32_t top_k;
    float top_p, min_p;
    int masked;
    double goal, goal_one;
    int goal_topk;
} bench_case;

static const bench_case cases[] = {
    {"greedy", BENCH_LANGUAGE, 0.0f, 0, 1.0f, 0.0f, 0, 1.3, 0, 0},
    {"topk", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, 0, 1.7, 2.0, 0},
    {"minp", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.05f, 0, 1.7, 2.0, 0},
    {"mask", BENCH_LANGUAGE, 0.8f, 50, 0.9f, 0.0f, 1, 1.25, 0, 1},
    {"plain", BENCH_LANGUAGE, 0.8f, 0, 1.0f, 0.0f, 0, 2.5, 3.0, 0},
    {"topp_peaked", BENCH_LANGUAGE, 1.0f, 0, 0.9f, 0.0f, 0, 3.0, 0, 0},
    {"topp_flat", BENCH_FLAT, 1.0f, 0, 0.9f, 0.0f, 0, 7.0, 0, 0},
    {"topp_ties", BENCH_TIES, 1.0f, 0, 0.9f, 0.0f, 0, 15.0, 0, 0},
};
#define CASES (sizeof cases / sizeof *cases)

/* On a terminal only: one line that overwrites itself. The cursor waits at its
 * beginning, so that a message of failure overwrites it, too. */
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
    return *error == CL_SUCCESS ? clCreateBuffer(setup->on->cl, CL_MEM_READ_WRITE, size, NULL, error) : NULL;
}

/* The mask is written here, the logits by each kind of case. */
static int open_setup(bench_setup *setup, const cli_target *target)
{
    const size_t mask_size = (size_t)setup->batch * ((setup->vocab + 31) / 32) * sizeof(int32_t);
    cls_sampler_options options;
    cl_int error = CL_SUCCESS;

    setup->on = target;
    setup->size = ((size_t)setup->batch * setup->vocab + BENCH_PAD) * bench_dtype_size(setup->dtype);
    cls_sampler_options_default(&options, sizeof options);
    options.vocab = setup->vocab;
    options.max_rows = setup->batch;
    if (cls_sampler_create(target->context, &options, &setup->sampler) != CLS_OK)
        return cli_fail_library("bench: creating the sampler");
    setup->rows = malloc(setup->size);
    setup->mask_words = malloc(mask_size);
    if (setup->rows == NULL || setup->mask_words == NULL)
        return cli_no_memory();
    bench_fill_mask(setup->mask_words, setup->batch, setup->vocab);
    setup->logits = new_buffer(setup, setup->size, &error);
    setup->mask = new_buffer(setup, mask_size, &error);
    setup->tokens = new_buffer(setup, setup->batch * sizeof(int32_t), &error);
    if (error == CL_SUCCESS)
        error =
            clEnqueueWriteBuffer(target->queue, setup->mask, CL_TRUE, 0, mask_size, setup->mask_words, 0, NULL, NULL);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: the logits' buffers", error);
}

static void close_setup(bench_setup *setup)
{
    cls_sampler_destroy(setup->sampler);
    if (setup->tokens != NULL)
        clReleaseMemObject(setup->tokens);
    if (setup->mask != NULL)
        clReleaseMemObject(setup->mask);
    if (setup->logits != NULL)
        clReleaseMemObject(setup->logits);
    free(setup->mask_words);
    free(setup->rows);
}

static int write_rows(bench_setup *setup, bench_rows kind)
{
    cl_int error;
    bench_fill_rows(setup->rows, setup->dtype, setup->batch, setup->vocab, kind);
    error = clEnqueueWriteBuffer(setup->on->queue, setup->logits, CL_TRUE, 0, setup->size, setup->rows, 0, NULL, NULL);
    return error == CL_SUCCESS ? 0 : cli_fail_opencl("bench: writing the logits", error);
}

static int begin_slots(const bench_setup *setup, const cls_params *params)
{
    for (uint32_t slot = 0; slot < setup->batch; slot++) {
        cls_params own = *params;
        own.seed += slot;
        if (cls_slot_begin(setup->sampler, slot, &own, NULL, 0, NULL, 0) != CLS_OK)
            return cli_fail_library("bench: beginning a slot");
    }
    return 0;
}

static int run_case(bench_setup *setup, const bench_floor *floor, const bench_case *c, bench_result *result)
{
    cls_params params;
    cls_params_default(&params, sizeof params);
    params.temperature = c->temperature;
    params.top_k = c->top_k;
    params.top_p = c->top_p;
    params.min_p = c->min_p;
    progress(c->name, "verifying");
    if (begin_slots(setup, &params) || bench_verify(setup, c->name, &params, c->masked))
        return 1;
    progress(c->name, "timing");
    return bench_time(setup, floor, c->masked, result);
}

static int run_cases(bench_setup *setup, bench_floor *floor, const char *only, bench_result *results)
{
    int written = -1;
    for (size_t i = 0; i < CASES; i++) {
        if (only != NULL && strcmp(only, cases[i].name) != 0)
            continue;
        if (written != (int)cases[i].rows) {
            progress(cases[i].name, "making the rows");
            if (write_rows(setup, cases[i].rows))
                return 1;
            written = (int)cases[i].rows;
        }
        if (floor->kernel == NULL) {
            progress("floor", "looking for its best shape");
            if (bench_floor_open(floor, setup))
                return 1;
        }
        if (run_case(setup, floor, &cases[i], &results[i]))
            return 1;
    }
    return 0;
}

static int print_json(const bench_result *results)
{
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < CASES; i++) {
        const bench_result *r = &results[i];
        json_t *object;
        if (r->runs == 0)
            continue;
        object =
            json_pack("{s:s, s:f, s:f, s:f, s:f, s:I, s:I, s:I}", "case", cases[i].name, "floor_us", r->floor_us,
                      "step_us", r->step_us, "ratio", r->step_us / r->floor_us, "empty_us", r->empty_us, "launches",
                      (json_int_t)r->launches, "host_bytes", (json_int_t)r->host_bytes, "runs", (json_int_t)r->runs);
        if (json_array_append_new(array, object) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return cli_print_json(array);
}

/* The goal as the table's ratio has it: in floors. */
static double goal_of(const bench_setup *setup, const bench_result *results, size_t i)
{
    const bench_result *topk = &results[1];
    if (setup->batch == 1)
        return cases[i].goal_one * results[i].empty_us / results[i].floor_us;
    if (cases[i].goal_topk)
        return topk->runs == 0 ? 0.0 : cases[i].goal * topk->step_us / topk->floor_us;
    return cases[i].goal;
}

static int print_table(const bench_setup *setup, const bench_floor *floor, const bench_result *results)
{
    static const char *const dtypes[] = {"float32", "float16", "bfloat16"};
    cls_device_info info = {.struct_size = sizeof info};
    if (cls_context_info(setup->on->context, &info) != CLS_OK)
        return cli_fail_library("bench");
    printf("%s, device %u\n", setup->on->at.name, (unsigned)setup->on->index);
    printf("[%u, %u] %s; work-group %u, vector %u; floor: %s\n", (unsigned)setup->batch, (unsigned)setup->vocab,
           dtypes[setup->dtype], (unsigned)info.work_group, (unsigned)info.vector, floor->shape);
    printf("medians, enqueue to finish; ratio and goal in floors; tokens equal the reference's\n\n");
    printf("%-12s %9s %9s %7s %7s %9s %9s %11s\n", "case", "floor us", "step us", "ratio", "goal", "empty us",
           "launches", "host bytes");
    for (size_t i = 0; i < CASES; i++) {
        const bench_result *r = &results[i];
        const double goal = goal_of(setup, results, i);
        char goal_text[16] = "-";
        if (r->runs == 0)
            continue;
        if (goal > 0)
            snprintf(goal_text, sizeof goal_text, "%.2f", goal);
        printf("%-12s %9.1f %9.1f %7.2f %7s %9.1f %9u %11llu\n", cases[i].name, r->floor_us, r->step_us,
               r->step_us / r->floor_us, goal_text, r->empty_us, (unsigned)r->launches,
               (unsigned long long)r->host_bytes);
    }
    return cli_flush();
}

static int run(bench_setup *setup, const char *device, const cls_context_options *options, int32_t only, int json)
{
    cli_target target;
    bench_floor floor;
    bench_result results[CASES];
    int failed;

    memset(&floor, 0, sizeof floor);
    memset(results, 0, sizeof results);
    progress("device", "compiling");
    if (cli_open(device, options, 0, &target))
        return 1;
    failed = open_setup(setup, &target) || run_cases(setup, &floor, only < 0 ? NULL : cases[only].name, results);
    progress(NULL, NULL);
    if (!failed)
        failed = json ? print_json(results) : print_table(setup, &floor, results);
    bench_floor_close(&floor);
    close_setup(setup);
    cli_close(&target);
    return failed;
}

int cls_cmd_bench(int argc, char **argv)
{
    static const char about[] = "Times sampling steps against a plain read of the logits (the floor), once their\n"
                                "tokens are known to be the reference's.";
    bench_setup setup = {.batch = 16, .vocab = 128256};
    cls_context_options context;
    const char *device = NULL;
    int32_t dtype = CLS_F32, only = -1;
    bool json = false;
    cli_option options[] = {
        {"batch", CLI_UINT, &setup.batch, "N", "rows of a step (default 16)", NULL, 0},
        {"vocab", CLI_UINT, &setup.vocab, "N", "tokens of a row (default 128256)", NULL, 0},
        {"dtype", CLI_CHOICE, &dtype, "TYPE", "f32 (default), f16 or bf16", "f32|f16|bf16", 0},
        {"case", CLI_CHOICE, &only, "NAME", "only this case",
         "greedy|topk|minp|mask|plain|topp_peaked|topp_flat|topp_ties", 0},
        {"runs", CLI_UINT, &setup.runs, "N", "runs of a case (default: 101 and a second)", NULL, 0},
        {"device", CLI_STRING, &device, "N", "the number that clsample devices shows", NULL, 0},
        {"work-group", CLI_UINT, &context.work_group, "N", "work-items of a group (default: by device)", NULL, 0},
        {"vector", CLI_UINT, &context.vector, "N", "logits a work-item loads at once (default: by device)", NULL, 0},
        {"json", CLI_FLAG, &json, NULL, "print an array of objects", NULL, 0},
        {NULL, CLI_FLAG, NULL, NULL, NULL, NULL, 0},
    };

    cls_context_options_default(&context, sizeof context);
    switch (cli_parse(argc, argv, "bench [options]", about, options)) {
    case CLI_HELPED:
        return 0;
    case CLI_FAILED:
        return 1;
    case CLI_GO:
        break;
    }
    if (setup.batch < 1 || setup.batch > 4096)
        return cli_fail("--batch: %u is not from 1 to 4096", (unsigned)setup.batch);
    if (setup.vocab < 1 || setup.vocab > 1048576)
        return cli_fail("--vocab: %u is not from 1 to 1048576", (unsigned)setup.vocab);
    if (setup.runs > BENCH_MOST_RUNS)
        return cli_fail("--runs: %u is above %u", (unsigned)setup.runs, BENCH_MOST_RUNS);
    setup.dtype = (cls_dtype)dtype;
    context.dtypes = 1u << dtype;
    return run(&setup, device, &context, only, json);
}
