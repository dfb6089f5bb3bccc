/* SPDX-License-Identifier: MIT */
/* Prints the results as tables and as JSON. */
#include "bench.h"

#include <stdio.h>

static const char *const laws[] = {"zipf", "uniform"};

static int add_json(json_t *array, json_t *object)
{
    return json_array_append_new(array, object) == 0 ? 0 : cli_no_memory();
}

/* null if the driver reports no times. */
static json_t *device_time(double us) { return us > 0.0 ? json_real(us) : json_null(); }

int bench_json_cases(json_t *array, const bench_setup *setup, const bench_case *cases, size_t n,
                     const bench_result *results)
{
    for (size_t i = 0; i < n; i++) {
        const bench_result *r = &results[i];
        if (r->runs != 0 &&
            add_json(array,
                     json_pack("{s:s, s:f, s:f, s:f, s:f, s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:f}",
                               "case", cases[i].name, "floor_us", r->floor_us, "step_us",
                               r->step_us, "ratio", r->step_us / r->floor_us, "empty_us",
                               r->empty_us, "floor_device_us", device_time(r->floor_device_us),
                               "step_device_us", device_time(r->step_device_us), "launches",
                               (json_int_t)r->launches, "host_bytes", (json_int_t)r->host_bytes,
                               "runs", (json_int_t)r->runs, "history",
                               (json_int_t)bench_history(setup, &cases[i]), "history_ids",
                               laws[setup->law], "accepted", r->accepted)))
            return 1;
    }
    return 0;
}

int bench_json_shards(json_t *array, const bench_setup *setup, const bench_case *cases, size_t n,
                      const bench_result *results)
{
    for (size_t i = 0; i < n; i++) {
        const bench_result *r = &results[i];
        json_t *const bytes = r->runs != 0 ? json_array() : NULL;
        for (uint32_t k = 0; bytes != NULL && k < r->exchanges && k < BENCH_EXCHANGES; k++)
            json_array_append_new(bytes, json_real(r->partial_row[k]));
        if (r->runs != 0 &&
            add_json(array, json_pack("{s:s, s:I, s:f, s:f, s:f, s:I, s:o, s:I, s:I, s:I}", "case",
                                      cases[i].name, "shards", (json_int_t)setup->shards, "step_us",
                                      r->step_us, "local_us", r->split.local_us, "merge_us",
                                      r->split.merge_us, "exchanges", (json_int_t)r->exchanges,
                                      "partial_row_bytes", bytes, "launches",
                                      (json_int_t)r->launches, "runs", (json_int_t)r->runs,
                                      "history", (json_int_t)bench_history(setup, &cases[i]))))
            return 1;
    }
    return 0;
}

/* Lists the memory of a sampler by purpose. */
#define PURPOSES 8
static void purposes(const cls_memory *m, const char *names[PURPOSES], uint64_t bytes[PURPOSES])
{
    static const char *const all[PURPOSES] = {"parameters", "penalties", "history", "lists",
                                              "changes",    "rows",      "device",  "host"};
    const uint64_t values[PURPOSES] = {m->parameters, m->penalties, m->history, m->lists,
                                       m->changes,    m->rows,      m->device,  m->host};
    for (size_t i = 0; i < PURPOSES; i++) {
        names[i] = all[i];
        bytes[i] = values[i];
    }
}

int bench_json_served(json_t *array, const bench_setup *setup, const bench_served *r)
{
    const char *names[PURPOSES];
    uint64_t bytes[PURPOSES];
    json_t *memory = json_object();
    purposes(&r->memory, names, bytes);
    for (size_t i = 0; i < PURPOSES; i++)
        if (json_object_set_new(memory, names[i], json_integer((json_int_t)bytes[i])) != 0) {
            json_decref(memory);
            return cli_no_memory();
        }
    return add_json(
        array,
        json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:o}",
                  "case", "serving", "slots", (json_int_t)setup->batch, "floor_us", r->floor_us,
                  "step_us", r->step_us, "ratio", r->step_us / r->floor_us, "host_us", r->host_us,
                  "quiet_us", r->quiet_us, "quiet_host_us", r->quiet_host_us, "tokens_per_s",
                  r->tokens_per_s, "runs", (json_int_t)r->runs, "quiet_runs",
                  (json_int_t)r->quiet_runs, "requests", (json_int_t)r->requests, "checked",
                  (json_int_t)r->checked, "checked_tokens", (json_int_t)r->checked_tokens, "memory",
                  memory));
}

/* Whether the goals are for this device and these rows. */
static bool has_goals(const bench_setup *setup)
{
    cl_uint units = 0;
    (void)clGetDeviceInfo(setup->on->device.id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units,
                          NULL);
    return (setup->on->device.type & CL_DEVICE_TYPE_CPU) && units == 2 && setup->dtype == CLS_F32 &&
           setup->vocab == BENCH_VOCAB && (setup->batch == BENCH_ROWS || setup->batch == 1);
}

/* The goal in floors, the unit of the table's ratio. */
static double goal_of(const bench_setup *setup, const bench_case *cases,
                      const bench_result *results, size_t i)
{
    const bench_result *topk = &results[1];
    if (setup->batch == 1)
        return cases[i].goal_one * results[i].empty_us / results[i].floor_us;
    if (cases[i].goal_topk)
        return topk->runs == 0 ? 0.0 : cases[i].goal * topk->step_us / topk->floor_us;
    return cases[i].goal;
}

/* rest: the end of the second line. */
static int print_header(const bench_setup *setup, const char *rest)
{
    cls_device_info info;
    cls_device_info_init(&info);
    if (cls_context_info(setup->on->context, &info) != CLS_OK)
        return cli_fail_library("bench");
    printf("%s, device %u\n", setup->on->device.name, (unsigned)setup->on->index);
    printf("[%u, %u] %s; work-group %u, vector %u; %s\n", (unsigned)setup->batch,
           (unsigned)setup->vocab, cli_dtype_name((int32_t)setup->dtype), (unsigned)info.work_group,
           (unsigned)info.vector, rest);
    return 0;
}

static int print_with_floor(const bench_setup *setup, const bench_floor *floor)
{
    char rest[sizeof floor->shape + 8];
    snprintf(rest, sizeof rest, "floor: %s", floor->shape);
    return print_header(setup, rest);
}

int bench_print_cases(const bench_setup *setup, const bench_floor *floor, const bench_case *cases,
                      size_t n, const bench_result *results)
{
    const bool goals = has_goals(setup);
    if (print_with_floor(setup, floor))
        return 1;
    printf("medians in us, from enqueue to finish; device: by the device's clock;\n"
           "ratio%s: in floors; all tokens equal the reference's\n\n",
           goals ? " and goal" : "");
    printf("%-13s %9s %9s %9s %7s%s %9s %8s\n", "case", "floor", "step", "device", "ratio",
           goals ? "    goal" : "", "empty", "launches");
    for (size_t i = 0; i < n; i++) {
        const bench_result *r = &results[i];
        const double goal = goals ? goal_of(setup, cases, results, i) : 0.0;
        char goal_text[16] = "", on_device[16] = "-";
        if (r->runs == 0)
            continue;
        if (goals)
            snprintf(goal_text, sizeof goal_text, goal > 0 ? " %7.2f" : "       -", goal);
        if (r->step_device_us > 0)
            snprintf(on_device, sizeof on_device, "%.1f", r->step_device_us);
        printf("%-13s %9.1f %9.1f %9s %7.2f%s %9.1f %8u\n", cases[i].name, r->floor_us, r->step_us,
               on_device, r->step_us / r->floor_us, goal_text, r->empty_us, (unsigned)r->launches);
    }
    return 0;
}

int bench_print_shards(const bench_setup *setup, const bench_case *cases, size_t n,
                       const bench_result *results)
{
    char rest[32];
    snprintf(rest, sizeof rest, "%u shards", (unsigned)setup->shards);
    if (print_header(setup, rest))
        return 1;
    printf("medians; step: whole rows, from enqueue to finish; local: the sum of all\n"
           "shards, until their first partials are ready; merge: the rest of the step on\n"
           "shard 0; bytes a row: of one partial in each exchange; all tokens equal the\n"
           "reference's\n\n");
    printf("%-12s %9s %9s %9s %9s  %s\n", "case", "step us", "local us", "merge us", "exchanges",
           "bytes a row");
    for (size_t i = 0; i < n; i++) {
        const bench_result *r = &results[i];
        if (r->runs == 0)
            continue;
        printf("%-12s %9.1f %9.1f %9.1f %9u ", cases[i].name, r->step_us, r->split.local_us,
               r->split.merge_us, (unsigned)r->exchanges);
        for (uint32_t k = 0; k < r->exchanges && k < BENCH_EXCHANGES; k++)
            printf("%s %.0f", k == 0 ? "" : " +", r->partial_row[k]);
        putchar('\n');
    }
    return 0;
}

static void print_steps(const char *which, uint32_t n, double floor_us, double step_us,
                        double host_us)
{
    printf("%-14s %9u %9.1f %9.1f %7.2f %9.1f\n", which, (unsigned)n, floor_us, step_us,
           step_us / floor_us, host_us);
}

int bench_print_served(const bench_setup *setup, const bench_floor *floor, const bench_served *r)
{
    const char *names[PURPOSES];
    uint64_t bytes[PURPOSES];
    if (print_with_floor(setup, floor))
        return 1;
    printf("serving: steps are enqueued ahead; %u requests joined; medians, from the tokens\n"
           "of a step to those of the next; %u tokens of %u requests equal the\n"
           "reference's\n\n",
           (unsigned)r->requests, (unsigned)r->checked_tokens, (unsigned)r->checked);
    printf("%-14s %9s %9s %9s %7s %9s\n", "steps", "number", "floor us", "step us", "ratio",
           "host us");
    print_steps("all", r->runs, r->floor_us, r->step_us, r->host_us);
    if (r->quiet_runs != 0)
        print_steps("no slot calls", r->quiet_runs, r->floor_us, r->quiet_us, r->quiet_host_us);
    printf("%.0f tokens a second\n\n%-14s %12s %19s\n", r->tokens_per_s, "memory", "bytes",
           "a slot and token");
    purposes(&r->memory, names, bytes);
    for (size_t i = 0; i < PURPOSES; i++)
        printf("%-14s %12llu %19.3f\n", names[i], (unsigned long long)bytes[i],
               (double)bytes[i] / ((double)setup->batch * setup->vocab));
    return 0;
}
