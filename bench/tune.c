/* SPDX-License-Identifier: MIT */
/* clsample bench --tune: finds the fastest shape of the kernels for a device. It tries the values
 * of one option after the other and keeps the fastest. Each shape is timed in turn with the default
 * one, so that both see the same state of the machine, and draws the same tokens, which the
 * reference confirms. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

#define MOST_TRIALS 64
#define TIMED_CASES 3 /* one for each kind of programs: usual rows, plain rows, the search */

/* A shape counts as faster only by more than this, since medians scatter. */
#define MARGIN 0.98

/* The rounds of a case: so many, in at least so many microseconds, but at most in so many. */
#define LEAST_RUNS 51
#define LEAST_US 1e5
#define MOST_US 1e6
#define CONFIRM 3 /* times as many microseconds for the fastest shape, at the end */

static const char *const timed[TIMED_CASES] = {"topk", "plain", "topp_peaked"};

/* An option of cls_context_options and the values that are tried. */
typedef struct dimension {
    const char *name, *option; /* the field, and the option of the commands */
    size_t offset;
    bool gpu; /* not on a device whose groups have one work-item */
    uint32_t values[5];
} dimension;

#define DIMENSION(field, option, gpu, ...) \
    { \
#field, option, offsetof(cls_context_options, field), gpu, { __VA_ARGS__ } \
    }
static const dimension dimensions[] = {
    DIMENSION(work_group, "--work-group", true, 64, 128, 256, 512),
    DIMENSION(row_group, "--row-group", true, 64, 128, 256, 512, 1024),
    DIMENSION(vector, "--vector", false, 2, 4, 8, 16),
    DIMENSION(groups_per_unit, "--groups-per-unit", false, 4, 8, 16, 32, 64),
};
#define DIMENSIONS (sizeof dimensions / sizeof *dimensions)
#define VALUES (sizeof dimensions->values / sizeof *dimensions->values)

/* A shape and how it did. */
typedef struct trial {
    uint32_t option[DIMENSIONS]; /* what is passed; 0: the library chooses */
    uint32_t value[DIMENSIONS];  /* what that gives */
    double compile_seconds;
    double step_us[TIMED_CASES], first_us[TIMED_CASES]; /* medians; first: of the first trial */
    double score;         /* the geometric mean of step_us / first_us */
    char error[256];      /* why it cannot be used; "": it can */
    cls_context *context; /* these two are only of the first trial, the best and the present one */
    cls_sampler *sampler;
} trial;

typedef struct tuning {
    cls_context_options options;
    cli_target target;
    bench_setup setup; /* its sampler is that of the trial that runs */
    const bench_case *cases[TIMED_CASES];
    int32_t *tokens[TIMED_CASES]; /* of the first trial; [batch] */
    int32_t *drawn;               /* [batch] */
    double begin, limit;          /* seconds */
    trial trials[MOST_TRIALS];
    uint32_t count, left_out;
    uint32_t best;  /* a trial */
    uint32_t wrong; /* trials with other tokens */
} tuning;

static uint32_t *option_of(cls_context_options *options, size_t i)
{
    return (uint32_t *)(void *)((char *)options + dimensions[i].offset);
}

/* ------------------------------------------------------------------------- a trial */

/* Ends a trial that cannot go on. `why` has been printed by cli_fail(), too. */
static int refuse(trial *t, const char *why)
{
    snprintf(t->error, sizeof t->error, "%s", why);
    return 1;
}

/* The options of a trial. An option that is not set lets the library choose smaller groups for the
 * programs that need them. */
static cls_context_options options_of(const tuning *u, const trial *t)
{
    cls_context_options options = u->options;
    for (size_t i = 0; i < DIMENSIONS; i++)
        *option_of(&options, i) = t->option[i];
    return options;
}

static void take_shape(trial *t, const cls_device_info *info)
{
    const uint32_t shape[DIMENSIONS] = {info->work_group, info->row_group, info->vector,
                                        info->groups_per_unit};
    memcpy(t->value, shape, sizeof shape);
}

/* Creates the context and the sampler of a shape, with the programs of all cases. */
static int open_trial(tuning *u, trial *t)
{
    const cls_context_options options = options_of(u, t);
    cls_sampler_options sampler;
    cls_device_info info;
    cls_device_info_init(&info);
    const double start = cli_seconds();
    cls_status status =
        cls_context_create(u->target.cl, u->target.device.id, &options, &t->context);
    if (status == CLS_OK)
        status = cls_context_info(t->context, &info);
    if (status == CLS_OK) {
        take_shape(t, &info);
        cls_sampler_options_init(&sampler);
        sampler.vocab = u->setup.vocab;
        sampler.max_rows = u->setup.batch;
        sampler.features = CLS_FEATURE_PLAIN | CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH;
        status = cls_sampler_create(t->context, &sampler, &t->sampler);
    }
    t->compile_seconds = cli_seconds() - start;
    return status == CLS_OK ? 0 : refuse(t, cls_error_message());
}

static void close_trial(trial *t)
{
    cls_sampler_destroy(t->sampler);
    cls_context_destroy(t->context);
    t->sampler = NULL;
    t->context = NULL;
}

static int run_step(tuning *u, const trial *t, size_t k)
{
    u->setup.sampler = t->sampler;
    return bench_run_step(&u->setup, u->cases[k], u->drawn);
}

static int begin(tuning *u, const trial *t, size_t k)
{
    u->setup.sampler = t->sampler;
    return bench_begin_slots(&u->setup, u->cases[k]);
}

/* Compares the tokens of a case with those of the first trial or, for that one, with the
 * reference's. */
static int prove(tuning *u, trial *t, size_t k)
{
    const bench_case *const c = u->cases[k];
    const bool first = t == u->trials;
    u->setup.sampler = t->sampler;
    if ((first && bench_verify(&u->setup, c)) || begin(u, t, k) || run_step(u, t, k))
        return refuse(t, cli_last_error());
    if (first)
        memcpy(u->tokens[k], u->drawn, u->setup.batch * sizeof(int32_t));
    for (uint32_t row = 0; row < u->setup.batch; row++)
        if (u->drawn[row] != u->tokens[k][row]) {
            u->wrong++;
            snprintf(t->error, sizeof t->error, "%s, row %u: token %d, not %d", c->name,
                     (unsigned)row, (int)u->drawn[row], (int)u->tokens[k][row]);
            return 1;
        }
    return 0;
}

/* The first trial and another one, which run a case in turn. */
typedef struct pair {
    tuning *u;
    trial *t;
    size_t k;
} pair;

static int begin_pair(void *of)
{
    const pair *const p = of;
    return begin(p->u, p->u->trials, p->k) || begin(p->u, p->t, p->k);
}

static int run_pair(void *of, double *us)
{
    const pair *const p = of;
    const double start = cli_clock();
    if (run_step(p->u, p->u->trials, p->k))
        return 1;
    const double middle = cli_clock();
    us[0] = middle - start;
    const int failed = run_step(p->u, p->t, p->k);
    us[1] = cli_clock() - middle;
    return failed;
}

static int time_case(tuning *u, trial *t, size_t k, double times)
{
    pair p = {u, t, k};
    const bench_rounds rounds = {begin_pair, run_pair, &p, LEAST_RUNS, times * LEAST_US, MOST_US};
    double us[BENCH_PARTS];
    uint32_t runs;
    if (bench_medians(&rounds, 0, us, &runs))
        return cli_interrupted() ? 1 : refuse(t, cli_last_error());
    t->first_us[k] = us[0];
    t->step_us[k] = us[1];
    return 0;
}

static int time_all(tuning *u, trial *t, double times)
{
    double sum = 0.0;
    for (size_t k = 0; k < TIMED_CASES; k++) {
        if (time_case(u, t, k, times))
            return 1;
        sum += log(t->step_us[k] / t->first_us[k]);
    }
    t->score = t == u->trials ? 1.0 : exp(sum / TIMED_CASES);
    return 0;
}

/* Runs the next trial, u->trials[u->count]. A shape that cannot be used is no failure, unless it is
 * the first. */
static int run_trial(tuning *u)
{
    trial *const t = &u->trials[u->count], *const best = &u->trials[u->best];
    char what[96] = "the default shape";
    int failed;
    if (u->count != 0)
        snprintf(what, sizeof what, "groups of %u and %u, vectors of %u, %u groups per unit",
                 (unsigned)t->value[0], (unsigned)t->value[1], (unsigned)t->value[2],
                 (unsigned)t->value[3]);
    cli_progress("tune: %s", what);
    failed = open_trial(u, t);
    for (size_t k = 0; k < TIMED_CASES && !failed; k++)
        failed = cli_interrupted() || prove(u, t, k);
    failed = failed || time_all(u, t, 1.0);
    if (cli_interrupted()) {
        close_trial(t);
        return 1;
    }
    const bool better = !failed && u->count != 0 && t->score < best->score * MARGIN;
    if (better && best != u->trials)
        close_trial(best);
    if (better)
        u->best = u->count;
    else if (u->count != 0)
        close_trial(t);
    u->count++;
    return failed && u->count == 1 ? cli_fail("tune: the default shape: %s", t->error) : 0;
}

/* Times the best shape again, for longer, since the best of many is a lucky one. */
static int confirm(tuning *u)
{
    trial *const best = &u->trials[u->best];
    if (u->best == 0)
        return 0;
    cli_progress("tune: timing the fastest shape again");
    if (time_all(u, best, CONFIRM))
        return 1;
    if (best->score > MARGIN) {
        close_trial(best);
        u->best = 0;
    }
    return 0;
}

/* ------------------------------------------------------------------------ the search */

/* The longest trial so far: the next one may take as long. */
static double expected_seconds(const tuning *u)
{
    double most = 0.0;
    for (uint32_t i = 0; i < u->count; i++)
        most = fmax(most, u->trials[i].compile_seconds);
    return most;
}

/* Whether the shape was tried. A vector of 2, for one, becomes 4 where groups have one work-item.
 */
static bool is_known(const tuning *u, trial *wanted)
{
    const cls_context_options options = options_of(u, wanted);
    cls_device_info info;
    cls_device_info_init(&info);
    if (cls_device_query(u->target.device.id, &options, &info) == CLS_OK)
        take_shape(wanted, &info);
    for (uint32_t i = 0; i < u->count; i++)
        if (memcmp(u->trials[i].value, wanted->value, sizeof wanted->value) == 0)
            return true;
    return false;
}

/* Tries the values of one option, beside the best ones of the others. */
static int search(tuning *u, size_t i)
{
    for (size_t v = 0; v < VALUES && dimensions[i].values[v] != 0; v++) {
        trial *const t = &u->trials[u->count];
        memset(t, 0, sizeof *t);
        memcpy(t->option, u->trials[u->best].option, sizeof t->option);
        t->option[i] = dimensions[i].values[v];
        memcpy(t->value, t->option, sizeof t->value);
        if (is_known(u, t))
            continue;
        t->option[i] = t->value[i];
        if (cli_seconds() - u->begin + expected_seconds(u) > u->limit ||
            u->count + 1 == MOST_TRIALS)
            u->left_out++;
        else if (run_trial(u))
            return 1;
    }
    return 0;
}

static int search_all(tuning *u)
{
    u->begin = cli_seconds();
    if (run_trial(u))
        return 1;
    const bool has_groups = u->trials[0].value[0] > 1;
    for (size_t i = 0; i < DIMENSIONS; i++)
        if ((has_groups || !dimensions[i].gpu) && search(u, i))
            return 1;
    return confirm(u);
}

/* ------------------------------------------------------------------------- the results */

static json_t *trial_json(const tuning *u, const trial *t)
{
    json_t *const object = json_object(), *const cases = json_array(), *const set = json_object();
    for (size_t i = 0; i < DIMENSIONS; i++) {
        json_object_set_new(object, dimensions[i].name, json_integer(t->value[i]));
        if (t->option[i] != 0)
            json_object_set_new(set, dimensions[i].name, json_integer(t->option[i]));
    }
    json_object_set_new(object, "options", set);
    json_object_set_new(object, "compile_seconds", json_real(t->compile_seconds));
    if (t->error[0] != '\0') {
        json_object_set_new(object, "error", cli_text(t->error));
        json_decref(cases);
        return object;
    }
    json_object_set_new(object, "score", json_real(t->score));
    for (size_t k = 0; k < TIMED_CASES; k++)
        json_array_append_new(cases,
                              json_pack("{s:s, s:f, s:f}", "case", u->cases[k]->name, "step_us",
                                        t->step_us[k], "default_us", t->first_us[k]));
    json_object_set_new(object, "cases", cases);
    return object;
}

static int print_json(const tuning *u)
{
    json_t *const trials = json_array();
    for (uint32_t i = 0; i < u->count; i++)
        json_array_append_new(trials, trial_json(u, &u->trials[i]));
    cli_print_json(json_pack("{s:s, s:o, s:I, s:I, s:s, s:f, s:I, s:I, s:o}", "clsample",
                             cls_version(), "device", json_incref(u->target.device.json), "batch",
                             (json_int_t)u->setup.batch, "vocab", (json_int_t)u->setup.vocab,
                             "dtype", cli_dtype_name((int32_t)u->setup.dtype), "seconds",
                             cli_seconds() - u->begin, "left_out", (json_int_t)u->left_out, "best",
                             (json_int_t)u->best, "trials", trials));
    return 0;
}

static void print_advice(const tuning *u)
{
    const trial *const best = &u->trials[u->best];
    if (u->left_out != 0)
        printf("%u shapes were left out, since --seconds is %.0f.\n", (unsigned)u->left_out,
               u->limit);
    if (u->best == 0) {
        puts("No shape is faster than the default by more than two hundredths.");
        return;
    }
    printf("The fastest shape takes %.2f of the default's time. Pass\n\n   ", best->score);
    for (size_t i = 0; i < DIMENSIONS; i++)
        if (best->option[i] != 0)
            printf(" options.%s = %u;", dimensions[i].name, (unsigned)best->option[i]);
    printf("\n\nto cls_context_create(), or to commands:");
    for (size_t i = 0; i < DIMENSIONS; i++)
        if (best->option[i] != 0)
            printf(" %s %u", dimensions[i].option, (unsigned)best->option[i]);
    putchar('\n');
}

static int width_of(const bench_case *c)
{
    const int length = (int)strlen(c->name);
    return length > 7 ? length : 7;
}

static int print_table(const tuning *u)
{
    printf("%s, device %u\n[%u, %u] %s; medians in us, from enqueue to finish; score: the "
           "cases'\ntimes divided by the first shape's, which were measured in turn with them\n\n",
           u->target.device.name, (unsigned)u->target.index, (unsigned)u->setup.batch,
           (unsigned)u->setup.vocab, cli_dtype_name((int32_t)u->setup.dtype));
    printf("%10s %9s %6s %8s %7s", "work-group", "row-group", "vector", "per unit", "compile");
    for (size_t k = 0; k < TIMED_CASES; k++)
        printf(" %*s", width_of(u->cases[k]), u->cases[k]->name);
    printf(" %5s\n", "score");
    for (uint32_t i = 0; i < u->count; i++) {
        const trial *const t = &u->trials[i];
        printf("%10u %9u %6u %8u %5.1f s", (unsigned)t->value[0], (unsigned)t->value[1],
               (unsigned)t->value[2], (unsigned)t->value[3], t->compile_seconds);
        for (size_t k = 0; k < TIMED_CASES && t->error[0] == '\0'; k++)
            printf(" %*.1f", width_of(u->cases[k]), t->step_us[k]);
        if (t->error[0] == '\0')
            printf(" %5.2f%s\n", t->score, i == u->best ? " *" : "");
        else
            printf("  %s\n", t->error);
    }
    putchar('\n');
    print_advice(u);
    return 0;
}

/* ------------------------------------------------------------------------- all of it */

static int open_tuning(tuning *u)
{
    for (size_t k = 0; k < TIMED_CASES; k++) {
        u->cases[k] = bench_find(timed[k]);
        u->tokens[k] = cli_alloc(u->setup.batch, sizeof(int32_t));
    }
    u->drawn = cli_alloc(u->setup.batch, sizeof(int32_t));
    u->setup.on = &u->target;
    cli_progress("tune: making the rows");
    return bench_open_setup(&u->setup) || bench_write_rows(&u->setup, BENCH_LANGUAGE);
}

static void close_tuning(tuning *u)
{
    for (uint32_t i = 0; i < u->count; i++)
        close_trial(&u->trials[i]);
    u->setup.sampler = NULL;
    bench_close_setup(&u->setup);
    cli_close(&u->target);
}

int bench_tune(const bench_run *run, uint32_t limit, bool json)
{
    static tuning u;
    int failed;
    u.options = *run->options;
    u.target = run->target;
    u.setup = (bench_setup){
        .batch = run->setup.batch, .vocab = run->setup.vocab, .dtype = run->setup.dtype};
    u.limit = limit;
    failed = cli_open_queue(&u.target, 0) || open_tuning(&u) || search_all(&u);
    cli_progress("%s", "");
    if (u.count != 0 && u.trials[0].error[0] == '\0') {
        failed |= json ? print_json(&u) : print_table(&u);
        if (cli_interrupted())
            cli_fail("tune: interrupted after %u shapes", (unsigned)u.count);
        if (u.wrong != 0)
            failed = cli_fail("tune: tokens of %u shapes differ from those of the default shape",
                              (unsigned)u.wrong);
    }
    close_tuning(&u);
    return failed;
}
