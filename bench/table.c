/* SPDX-License-Identifier: MIT */
/* The results as JSON, and the tables that are printed of it. */
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

static const char *const laws[] = {"zipf", "uniform"};

/* null if the driver reports no times. */
static json_t *device_time(double us) { return us > 0.0 ? json_real(us) : json_null(); }

json_t *bench_json_case(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
                        const bench_result *r)
{
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:f, s:s}",
                     "case", c->name, "parameters", c->params, "floor_us", r->floor_us, "step_us",
                     r->step_us, "ratio", r->step_us / r->floor_us, "empty_us", r->empty_us,
                     "floor_device_us", device_time(r->floor_device_us), "step_device_us",
                     device_time(r->step_device_us), "launches", (json_int_t)r->launches,
                     "host_bytes", (json_int_t)r->host_bytes, "runs", (json_int_t)r->runs,
                     "history", (json_int_t)bench_history(setup, c), "history_ids",
                     laws[setup->law], "accepted", r->accepted, "floor", floor->shape);
}

json_t *bench_json_shards(const bench_setup *setup, const bench_case *c, const bench_result *r)
{
    json_t *const bytes = json_array();
    for (uint32_t k = 0; k < r->exchanges && k < BENCH_EXCHANGES; k++)
        json_array_append_new(bytes, json_real(r->partial_row[k]));
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:I, s:o, s:I, s:I, s:I}", "case", c->name,
                     "shards", (json_int_t)setup->shards, "step_us", r->step_us, "local_us",
                     r->local_us, "merge_us", r->merge_us, "exchanges", (json_int_t)r->exchanges,
                     "partial_row_bytes", bytes, "launches", (json_int_t)r->launches, "runs",
                     (json_int_t)r->runs, "history", (json_int_t)bench_history(setup, c));
}

json_t *bench_json_served(const bench_setup *setup, const bench_floor *floor, const bench_served *r)
{
    const cls_memory *const m = &r->memory;
    json_t *const memory = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)m->parameters,
        "penalties", (json_int_t)m->penalties, "history", (json_int_t)m->history, "lists",
        (json_int_t)m->lists, "changes", (json_int_t)m->changes, "rows", (json_int_t)m->rows,
        "device", (json_int_t)m->device, "host", (json_int_t)m->host);
    return json_pack(
        "{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:o, s:s}", "case",
        "serving", "slots", (json_int_t)setup->batch, "floor_us", r->floor_us, "step_us",
        r->step_us, "ratio", r->step_us / r->floor_us, "host_us", r->host_us, "quiet_us",
        r->quiet_us, "quiet_host_us", r->quiet_host_us, "tokens_per_s", r->tokens_per_s, "runs",
        (json_int_t)r->runs, "quiet_runs", (json_int_t)r->quiet_runs, "requests",
        (json_int_t)r->requests, "checked", (json_int_t)r->checked, "checked_tokens",
        (json_int_t)r->checked_tokens, "memory", memory, "floor", floor->shape);
}

/* --------------------------------------------------------------------------- goals */

/* Whether the goals are for this device and these rows. */
static bool has_goals(const bench_run *run)
{
    const bench_setup *const setup = &run->setup;
    const cli_device *const device = &run->target.device;
    return (device->type & CL_DEVICE_TYPE_CPU) && cli_integer(device->json, "compute_units") == 2 &&
           setup->dtype == CLS_F32 && setup->vocab == BENCH_VOCAB &&
           (setup->batch == BENCH_ROWS || setup->batch == 1);
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Sets the goal of a case in floors, the unit of the ratio; null: it has none. */
static void set_goal(const bench_setup *setup, const json_t *results, json_t *object)
{
    const json_t *one, *topk = NULL;
    const bench_case *const c = bench_find(cli_string(object, "case"));
    size_t i;
    json_array_foreach(results, i, one) if (strcmp(cli_string(one, "case"), "topk") == 0) topk =
        one;
    const double goal = setup->batch == 1
                            ? c->goal_one * number(object, "empty_us") / number(object, "floor_us")
                            : c->goal * (c->goal_topk ? number(topk, "ratio") : 1.0);
    json_object_set_new(object, "goal", goal > 0.0 ? json_real(goal) : json_null());
}

/* -------------------------------------------------------------------------- tables */

/* An object is in the first table whose key it has, as one line. */
static const struct table {
    const char *key, *about, *head, *line;
} tables[] = {
    {"sampler_ms",
     "milliseconds until the first token of one row is on the host: OpenCL's context\n"
     "and queue, the library's, a sampler, the first step; CPU: the processor time of\n"
     "the last three; later: the median of later steps; the token is the reference's\n",
     "case            OpenCL context  sampler    first     CPU    later  from\n",
     "{case:-14} {opencl_ms:7.1} {context_ms:7.1} {sampler_ms:8.1} {first_ms:8.2} {cpu_ms:7.1} "
     "{later_ms:8.2}  {from}\n"},
    {"goal",
     "medians in us, from enqueue to finish; device: by the device's clock;\n"
     "ratio and goal: in floors; all tokens equal the reference's\n",
     "case              floor      step    device   ratio    goal     empty launches\n",
     "{case:-13} {floor_us:9.1} {step_us:9.1} {step_device_us:9.1} {ratio:7.2} {goal:7.2} "
     "{empty_us:9.1} {launches:8}\n"},
    {"step_device_us",
     "medians in us, from enqueue to finish; device: by the device's clock;\n"
     "ratio: in floors; all tokens equal the reference's\n",
     "case              floor      step    device   ratio     empty launches\n",
     "{case:-13} {floor_us:9.1} {step_us:9.1} {step_device_us:9.1} {ratio:7.2} {empty_us:9.1} "
     "{launches:8}\n"},
    {"local_us",
     "medians; step: whole rows, from enqueue to finish; local: the sum of all\n"
     "shards, until their first partials are ready; merge: the rest of the step on\n"
     "shard 0; bytes a row: of one partial in each exchange; all tokens equal the\n"
     "reference's\n",
     "case             step us  local us  merge us exchanges  bytes a row\n",
     "{case:-14} {step_us:9.1} {local_us:9.1} {merge_us:9.1} {exchanges:9} "},
    {"slots",
     "serving: steps are enqueued ahead; medians, from the tokens of a step to\n"
     "those of the next; the tokens that were checked equal the reference's\n",
     "steps             number  floor us   step us   ratio   host us\n",
     "all            {runs:9} {floor_us:9.1} {step_us:9.1} {ratio:7.2} {host_us:9.1}\n"
     "no slot calls  {quiet_runs:9} {floor_us:9.1} {quiet_us:9.1}         {quiet_host_us:9.1}\n"
     "{requests} requests joined; {checked_tokens} tokens of {checked} requests were checked\n"
     "{tokens_per_s:.0} tokens a second\n"},
};

static void print_bytes(const json_t *bytes)
{
    const json_t *one;
    size_t i;
    json_array_foreach(bytes, i, one) printf("%s %.0f", i == 0 ? "" : " +", json_number_value(one));
    putchar('\n');
}

/* Prints the memory of a sampler by purpose. cells: its slots times its tokens. */
static void print_memory(json_t *memory, double cells)
{
    const char *purpose;
    json_t *bytes;
    printf("\n%-14s %12s %19s\n", "memory", "bytes", "a slot and token");
    json_object_foreach(memory, purpose, bytes)
        printf("%-14s %12lld %19.3f\n", purpose, (long long)json_integer_value(bytes),
               (double)json_integer_value(bytes) / cells);
}

static int print_about(const bench_setup *setup, const cli_target *target, const struct table *t,
                       const json_t *first)
{
    const bool starts = json_object_get(first, "from") != NULL;
    const json_int_t rows = starts                                    ? 1
                            : json_object_get(first, "slots") != NULL ? cli_integer(first, "slots")
                                                                      : setup->batch;
    cls_device_info info;
    cls_device_info_init(&info);
    printf("%s", target->device.name);
    if (target->cl != NULL || starts)
        printf(", device %u", (unsigned)target->index);
    printf("\n[%u, %u] %s", (unsigned)rows, (unsigned)setup->vocab,
           cli_dtype_name((int32_t)setup->dtype));
    if (target->cl == NULL && !starts)
        printf("; ");
    else if (!starts && cli_try(cls_context_info(target->context, &info), "bench"))
        return 1;
    else if (!starts)
        printf("; work-group %u, vector %u; ", (unsigned)info.work_group, (unsigned)info.vector);
    cli_put(starts ? "\n" : setup->shards != 0 ? "{shards} shards\n" : "floor: {floor}\n", first);
    printf("%s\n%s", t->about, t->head);
    return 0;
}

/* The index of the table that an object belongs to. */
static size_t table_of(const json_t *object)
{
    size_t k = 0;
    while (json_object_get(object, tables[k].key) == NULL)
        k++;
    return k;
}

int bench_print(const bench_run *run, const json_t *results)
{
    const bench_setup *const setup = &run->setup;
    size_t i, latest = sizeof tables / sizeof *tables;
    json_t *object;
    json_array_foreach(results, i, object)
    {
        if (has_goals(run) && json_object_get(object, "step_device_us") != NULL)
            set_goal(setup, results, object);
        const size_t k = table_of(object);
        if (k != latest && i != 0)
            putchar('\n');
        if (k != latest && print_about(setup, &run->target, &tables[k], object))
            return 1;
        latest = k;
        cli_put(tables[k].line, object);
        if (json_object_get(object, "shards") != NULL)
            print_bytes(json_object_get(object, "partial_row_bytes"));
        if (json_object_get(object, "memory") != NULL)
            print_memory(json_object_get(object, "memory"),
                         (double)cli_integer(object, "slots") * setup->vocab);
    }
    return 0;
}
