/* SPDX-License-Identifier: MIT */
/* What a process of clsample accept does: it describes a device, or tests it in one shape. Each
 * difference is said as "finding", with the program, and for calls with the shortest text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../bench/bench.h"
#include "accept/accept.h"

#define ALL_DTYPES (1u << CLS_F32 | 1u << CLS_F16 | 1u << CLS_BF16)

enum { SHRINK_SECONDS = 600 }; /* at most, to make a text shorter that differs */

static double seconds(void) { return bench_clock() * 1e-6; }

/* ------------------------------------------------------------------- the device */

int accept_describe(const accept_job *job)
{
    cli_target target;
    cl_ulong whole = 0, part = 0;
    cli_find_device(job->device, &job->options, &target);
    clGetDeviceInfo(target.device.id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof whole, &whole, NULL);
    clGetDeviceInfo(target.device.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof part, &part, NULL);
    json_object_set_new(target.device.json, "global_mem_size", json_integer((json_int_t)whole));
    json_object_set_new(target.device.json, "max_alloc_size", json_integer((json_int_t)part));
    accept_say("device", json_incref(target.device.json));
    return 0;
}

/* ---------------------------------------------------------------------- findings */

static int find_fault(const char *what, const char *program, const char *message)
{
    accept_say("finding", json_pack("{s:s, s:o, s:o}", "what", what, "program",
                                    program != NULL ? cli_text(program) : json_null(), "message",
                                    cli_text(message)));
    return 1;
}

/* The program that a sentence of the library's begins with: "the program NAME ..."; or NULL. */
static const char *named_in(const char *message)
{
    static const char before[] = "the program ";
    static char name[64];
    const char *const at = strstr(message, before);
    if (at == NULL)
        return NULL;
    const char *const from = at + strlen(before);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(from, " "), from);
    return name;
}

/* --------------------------------------------------------- programs and self-test */

static int fail_call(const char *what)
{
    const char *const message = cli_reason();
    return find_fault(what, named_in(message), message);
}

/* Compiles and proves all programs, few at a time, so that the one that hangs is known. */
static int test_programs(cls_context *context)
{
    const double begin = seconds();
    cls_status status = CLS_OK;
    for (uint32_t bit = 1; bit != 0 && status == CLS_OK; bit <<= 1)
        if (CLS_FEATURES_KNOWN & bit)
            status = cls_context_compile(context, ALL_DTYPES, bit);
    if (status == CLS_OK)
        status = cls_context_compile(context, ALL_DTYPES, CLS_FEATURES_ALL);
    if (cli_compile_done(status) != CLS_OK)
        return fail_call("a program");
    accept_say("compile_seconds", json_real(seconds() - begin));
    accept_say("programs", cli_programs_json(context));
    return 0;
}

static int test_cases(cls_context *context)
{
    cls_selftest_report r = {.struct_size = sizeof r};
    json_int_t cases = 0;
    const cls_status status = cls_selftest(context, &r);
    for (uint32_t i = 0; i < r.stage_count && i < CLS_SELFTEST_STAGES; i++) {
        char text[600];
        const cls_selftest_stage *const s = &r.stages[i];
        cases += s->cases;
        snprintf(text, sizeof text, "self-test, %s: %s", s->name, s->message);
        if (s->failed != 0)
            return find_fault("the self-test", named_in(text), text);
    }
    if (status != CLS_OK)
        return fail_call("the self-test");
    accept_say("cases", json_integer(cases));
    return 0;
}

/* -------------------------------------------------------------------- random calls */

/* Parameters of usual requests, and of all other stages, one of which each slot has. */
static const char *const usual[] = {"temperature=0",
                                    "temperature=0.8",
                                    "top_k=50 top_p=0.9",
                                    "temperature=0.7 top_k=20 min_p=0.05",
                                    "temperature=1.3 top_k=5",
                                    "top_k=200 top_p=0.99",
                                    "temperature=0 repetition_penalty=1.2 prompt=random:1:90:2000",
                                    "top_k=40 frequency_penalty=0.4 prompt=random:2:60:500"},
                         *const wide[] = {"top_p=0.9",
                                          "min_p=0.02",
                                          "temperature=2 top_p=0.95",
                                          "top_k=3000 top_p=0.8",
                                          "temperature=1e-4 top_p=0.5",
                                          "typical_p=0.9",
                                          "top_n_sigma=1.5",
                                          "temperature=1.6"};

/* What a text consists of. */
typedef enum text_kind {
    USUAL,
    WIDE,
    EVERY,
    TIES,
    SPARSE,
    LONE,
    DRAFTS,
    GRAMMARS,
    TEXTS
} text_kind;
static const char *const text_names[TEXTS] = {
    "usual requests",     "long sets",         "all calls", "ties",
    "sparse NaN and inf", "one allowed token", "drafts",    "grammars"};
static const char *const dtype_words[] = {"f32", "f16", "bf16"};

/* Begins requests with the parameters of a table, one in each slot. */
static void add_requests(run_text *t, const char *const table[8], uint32_t slots, uint32_t seed)
{
    for (uint32_t i = 0; i < slots; i++)
        run_add(t, "begin %" PRIu32 " stream=%" PRIu32 " seed=%" PRIu32 " %s\n", i, i, seed,
                table[(i + seed) % 8]);
}

/* Makes text number i, of a size and a type that depend on the number. */
static char *make_text(const accept_job *job, uint32_t i, text_kind *kind)
{
    static const uint32_t vocabs[] = {32000, 151936, 50257, 262144, 128256},
                          sizes[] = {16, 1, 64, 4};
    const uint32_t seed = job->seed + i, dtype = i / 2 % 3;
    const uint32_t vocab = run_least(vocabs[i % 5], job->largest_vocab),
                   rows = run_least(sizes[i / 3 % 4], job->largest_rows);
    const char *const d = dtype_words[dtype];
    run_text t = {NULL, 0};
    *kind = (text_kind)(i % TEXTS);
    run_add(&t, "sampler vocab=%" PRIu32 " slots=%" PRIu32 " rows=%" PRIu32, vocab, rows, rows);
    switch (*kind) {
    case USUAL:
        run_add(&t, " dtypes=%s features=shortlist,penalties\n", d);
        add_requests(&t, usual, rows, seed);
        for (uint32_t n = 0; n < 4; n++)
            run_add(&t, "step dtype=%s logits=random:%" PRIu32 "\n", d, seed * 4 + n);
        break;
    case WIDE:
        run_add(&t, " dtypes=%s features=shortlist,search,samplers,logprobs,kept_sets\n", d);
        add_requests(&t, wide, rows, seed);
        for (uint32_t n = 0; n < 3; n++)
            run_add(&t, "step dtype=%s logits=random:%" PRIu32 "%s\n", d, seed * 4 + n,
                    n == 1 ? " outputs=logprobs,ranks" : "");
        break;
    case EVERY:
        run_add(&t,
                " max_history=64 max_rollback=6 dtypes=f32,f16,bf16\n"
                "random calls=12 seed=%" PRIu32 "\n",
                seed);
        break;
    case TIES:
        run_add(&t, " dtypes=%s\n", d);
        add_requests(&t, usual, rows, seed);
        run_add(&t, "step dtype=%s logits=random:%" PRIu32 " kind=quarter-ties\n", d, seed);
        add_requests(&t, wide, rows, seed);
        run_add(&t, "step dtype=%s logits=random:%" PRIu32 " kind=quarter-ties\n", d, seed + 1);
        break;
    case SPARSE:
        run_add(&t, " dtypes=%s features=shortlist,search,samplers,penalties\n", d);
        for (uint32_t n = 0; n < 4; n++) {
            add_requests(&t, n < 2 ? usual : wide, rows, seed);
            run_add(&t,
                    "step dtype=%s logits=random:%" PRIu32 " kind=normal-1 lone=%s:%" PRIu32
                    ":%" PRIu32 "\n",
                    d, seed + n, n % 2 ? "inf" : "nan", seed * 7919 % vocab, vocab / 3 + n);
        }
        break;
    case LONE:
        run_add(&t, " dtypes=%s features=shortlist,search,samplers,mask,penalties,bias\n", d);
        add_requests(&t, wide, rows, seed);
        run_add(&t,
                "step dtype=%s logits=random:%" PRIu32 " mask=lone:%" PRIu32 "\n"
                "step dtype=%s logits=random:%" PRIu32 " mask=lone:%" PRIu32 " mask_kind=bool\n"
                "step dtype=%s logits=random:%" PRIu32 " mask=random:%" PRIu32 "\n"
                "step dtype=%s logits=random:%" PRIu32 " bias=random:%" PRIu32 "\n",
                d, seed, seed * 104729 % vocab, d, seed + 1, seed * 1299709 % vocab, d, seed + 2,
                seed, d, seed + 3, seed);
        break;
    case DRAFTS:
        run_add(&t,
                " max_history=64 max_rollback=6 dtypes=f32,f16,bf16\n"
                "random calls=10 features=params,verify,accept,draft,rollback,outputs,mask"
                " seed=%" PRIu32 "\n",
                seed);
        break;
    default:
        run_add(&t,
                " max_history=64 max_rollback=6 dtypes=f32,f16,bf16\n"
                "random calls=12 features=params,grammar,force,append,turn,fork,save,mask"
                " seed=%" PRIu32 "\n",
                seed);
    }
    return t.text;
}

typedef struct test {
    const accept_job *job;
    run_side host, device, ahead, mixed; /* mixed: two queues, one of them out of order */
    uint64_t texts, statements, steps;
    uint64_t of_kind[TEXTS];
} test;

/* The program that a difference points at: of those that the statement launched, the one that was
 * right least often before; of several, the last. */
static const char *suspect_of(json_t *programs)
{
    const char *name = NULL;
    json_int_t least = 0;
    size_t i;
    json_t *p;
    json_array_foreach(programs, i, p) if (name == NULL || cli_integer(p, "agreed") <= least)
    {
        name = cli_string(p, "program");
        least = cli_integer(p, "agreed");
    }
    return name;
}

static int text_differs(test *t, run_side *side, run_script *script, run_difference *d)
{

    run_side *const host = &t->host;
    run_text text = {NULL, 0};
    run_shrink(host, side, script, SHRINK_SECONDS, d);
    /* Once more: what the shortest text launches. */
    host->reference = NULL;
    run_script_on(host, script);
    run_add_script(host, script, d, &text);
    accept_names_begin(&side->index);
    side->reference = host;
    run_script_on(side, script);
    json_t *const programs = accept_names_of(d->statement);
    const char *const name = suspect_of(programs);
    accept_say("finding",
               json_pack("{s:s, s:o, s:o, s:o, s:o}", "what", "a result", "program",
                         name != NULL ? json_string(name) : json_null(), "message",
                         cli_text(d->text), "text", cli_text(text.text), "programs", programs));
    return 1;
}

static int run_text_number(test *t, uint32_t i)
{
    static const char *const way_names[] = {"device", "ahead", "out of order"};
    const void *const memory = cli_memory();
    run_side *const sides[] = {&t->device, &t->ahead, &t->mixed};
    run_difference d;
    text_kind kind;
    char *const words = make_text(t->job, i, &kind);
    run_side *side = sides[i / TEXTS % 3];
    int failed = 0;
    if (side->lacks != NULL)
        side = &t->device;
    const run_script made = run_parse("random calls", words);
    run_script script = run_expand(&made, 0, UINT32_MAX);
    accept_say("text", json_pack("{s:s, s:s, s:I}", "kind", text_names[kind], "way",
                                 way_names[side == &t->device  ? 0
                                           : side == &t->ahead ? 1
                                                               : 2],
                                 "number", (json_int_t)(t->job->seed + i)));
    accept_names_begin(&side->index);
    t->host.reference = NULL;
    run_script_on(&t->host, &script);
    side->reference = &t->host;
    run_script_on(side, &script);
    if (run_sides_differ(&t->host, side, &d)) {
        failed = text_differs(t, side, &script, &d);
    } else {
        accept_names_agree();
        t->texts++;
        t->statements += script.count;
        t->of_kind[kind]++;
        for (uint32_t k = 0; k < script.count; k++)
            t->steps += strcmp(script.statement[k].verb, "step") == 0;
    }
    cli_memory_end(memory);
    return failed;
}

static void say_counts(const test *t)
{
    json_t *const kinds = json_object();
    for (int i = 0; i < TEXTS; i++)
        json_object_set_new(kinds, text_names[i], json_integer((json_int_t)t->of_kind[i]));
    accept_say("texts", json_integer((json_int_t)t->texts));
    accept_say("statements", json_integer((json_int_t)t->statements));
    accept_say("text_steps", json_integer((json_int_t)t->steps));
    accept_say("kinds", kinds);
}

static int test_texts(test *t, double until)
{
    int failed = 0;
    for (uint32_t i = 0; !failed && (i == 0 || seconds() < until); i++) {
        failed = run_text_number(t, i);
        say_counts(t);
    }
    return failed;
}

/* -------------------------------------------------------------------- steps ahead */

enum { AHEAD = 32 }; /* steps that are enqueued before any of them is waited for */

/* A run of steps of one size: the device's tokens in one buffer, and the host's. */
typedef struct stretch {
    const test *t;
    uint32_t rows, vocab;
    cls_sampler *device, *host;
    cl_mem logits, tokens;
    void *data; /* the logits: one more row than the step has, so that each step reads others */
    int32_t *got, *should;
} stretch;

static int begin_requests(const stretch *s, cls_sampler *sampler)
{
    static const struct {
        float temperature, top_p, min_p;
        int32_t top_k;
    } kinds[] = {{0.0f, 1.0f, 0.0f, 0},   {0.8f, 1.0f, 0.0f, 0}, {1.0f, 0.9f, 0.0f, 50},
                 {0.7f, 1.0f, 0.05f, 40}, {1.3f, 0.9f, 0.0f, 0}, {1.0f, 1.0f, 0.02f, 0}};
    const size_t n = sizeof kinds / sizeof *kinds;
    for (uint32_t i = 0; i < s->rows; i++) {
        cls_params p;
        cls_params_init(&p);
        p.temperature = kinds[i % n].temperature;
        p.top_p = kinds[i % n].top_p;
        p.min_p = kinds[i % n].min_p;
        p.top_k = kinds[i % n].top_k;
        p.repetition_penalty = i % 4 == 3 ? 1.2f : 1.0f;
        p.seed = s->t->job->seed;
        p.stream = i;
        if (cli_compile_done(cls_slot_begin(sampler, i, &p, NULL, 0, NULL, 0)) != CLS_OK)
            return fail_call("a request");
    }
    return 0;
}

static int open_stretch(stretch *s)
{
    cls_sampler_options o;
    cl_int error = CL_SUCCESS, other = CL_SUCCESS;
    const size_t size = ((size_t)s->rows + 1) * s->vocab * sizeof(float);
    const cli_target *const on = &s->t->device.target;
    cls_sampler_options_init(&o);
    o.vocab = s->vocab;
    o.max_rows = s->rows;
    o.dtypes = 1u << CLS_F32;
    o.features =
        CLS_FEATURE_PLAIN | CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH | CLS_FEATURE_PENALTIES;
    s->data = run_random_logits(s->t->job->seed, -1, s->rows + 1, s->vocab, CLS_F32);
    s->got = cli_alloc((size_t)AHEAD * s->rows, sizeof *s->got);
    s->should = cli_alloc((size_t)AHEAD * s->rows, sizeof *s->should);
    if (cli_compile_done(cls_sampler_create(on->context, &o, &s->device)) != CLS_OK ||
        cls_sampler_create(s->t->host.target.context, &o, &s->host) != CLS_OK)
        return fail_call("a sampler");
    s->logits =
        clCreateBuffer(on->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, s->data, &error);
    s->tokens = clCreateBuffer(on->cl, CL_MEM_READ_WRITE, (size_t)AHEAD * s->rows * sizeof *s->got,
                               NULL, &other);
    if (error != CL_SUCCESS || other != CL_SUCCESS)
        return find_fault("memory", NULL, "the device has no memory for the logits of a step");
    return begin_requests(s, s->device) || begin_requests(s, s->host);
}

static void close_stretch(stretch *s)
{
    cls_sampler_destroy(s->device);
    cls_sampler_destroy(s->host);
    if (s->logits != NULL)
        clReleaseMemObject(s->logits);
    if (s->tokens != NULL)
        clReleaseMemObject(s->tokens);
}

/* Step i reads its rows from row i % 2 on, and writes its tokens behind those of step i - 1. */
static cls_step step_of(const stretch *s, uint32_t i)
{
    cls_step step;
    cls_step_init(&step);
    step.rows = s->rows;
    step.logits.dtype = CLS_F32;
    step.logits.values.buffer = s->logits;
    step.logits.values.offset = (uint64_t)(i % 2) * s->vocab * sizeof(float);
    step.tokens.buffer = s->tokens;
    step.tokens.offset = (uint64_t)i * s->rows * sizeof *s->got;
    return step;
}

static int sample_ahead(const stretch *s, double *took)
{
    const run_side *const of = &s->t->ahead;
    const double begin = seconds();
    for (uint32_t i = 0; i < AHEAD; i++) {
        const cls_step step = step_of(s, i);
        cl_command_queue const queue = of->queue[i / 3 % 2];
        cls_status status = cls_sample(s->device, queue, &step, 0, NULL, NULL);
        if (status == CLS_BUSY) {
            run_finish(of);
            status = cls_sample(s->device, queue, &step, 0, NULL, NULL);
        }
        if (status != CLS_OK)
            return fail_call("a step");
        clFlush(queue);
    }
    run_finish(of);
    *took = (seconds() - begin) / AHEAD;
    if (clEnqueueReadBuffer(of->queue[0], s->tokens, CL_TRUE, 0,
                            (size_t)AHEAD * s->rows * sizeof *s->got, s->got, 0, NULL,
                            NULL) != CL_SUCCESS)
        return find_fault("a step", NULL, "the tokens of a step cannot be read");
    return 0;
}

static int sample_on_host(const stretch *s)
{
    for (uint32_t i = 0; i < AHEAD; i++) {
        cls_step step = step_of(s, i);
        step.logits.values = (cls_buffer){.pointer = (char *)s->data + step.logits.values.offset,
                                          .size = (uint64_t)s->rows * s->vocab * sizeof(float),
                                          .kind = CLS_BUFFER_HOST};
        step.tokens = (cls_buffer){.pointer = s->should + (size_t)i * s->rows,
                                   .size = s->rows * sizeof *s->should,
                                   .kind = CLS_BUFFER_HOST};
        if (cls_sample(s->host, NULL, &step, 0, NULL, NULL) != CLS_OK)
            return fail_call("a step of the host");
    }
    return 0;
}

static int compare_stretch(const stretch *s)
{
    char text[200];
    for (uint32_t i = 0; i < AHEAD * s->rows; i++) {
        if (s->got[i] == s->should[i])
            continue;
        snprintf(text, sizeof text,
                 "steps ahead on two queues, %" PRIu32 " rows of %" PRIu32 " tokens: step %" PRIu32
                 ", row %" PRIu32 " is %" PRId32 ", on the host %" PRId32,
                 s->rows, s->vocab, i / s->rows, i % s->rows, s->got[i], s->should[i]);
        json_t *const programs = accept_names_of(0);
        const char *const name = suspect_of(programs);
        accept_say("finding", json_pack("{s:s, s:o, s:s, s:o}", "what", "a result", "program",
                                        name != NULL ? json_string(name) : json_null(), "message",
                                        text, "programs", programs));
        return 1;
    }
    return 0;
}

/* Several stretches of one size; what the first one took includes what the driver does once. */
static int test_stretch(const test *t, uint32_t rows, uint32_t vocab, json_t *row)
{
    static const uint32_t no_statement;
    const void *const memory = cli_memory();
    stretch s = {.t = t, .rows = rows, .vocab = vocab};
    double least = 0, took = 0;
    int failed = open_stretch(&s);
    for (int i = 0; i < 3 && !failed; i++) {
        accept_say("at", json_pack("{s:s, s:s}", "program", "steps ahead", "does", "run"));
        accept_names_begin(&no_statement);
        failed = sample_ahead(&s, &took) || sample_on_host(&s) || compare_stretch(&s);
        if (!failed)
            accept_names_agree();
        if (i == 0 || took < least)
            least = took;
    }
    close_stretch(&s);
    cli_memory_end(memory);
    json_object_set_new(row, "seconds", json_real(least));
    return failed;
}

static int test_steps(test *t)
{
    static const uint32_t sizes[] = {1, 16, 64};
    json_t *const rows = json_array();
    json_int_t steps = 0;
    const uint32_t vocab = run_least(128256, t->job->largest_vocab);
    accept_names_begin(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        json_t *const row = json_pack(
            "{s:I, s:I, s:I, s:f}", "rows", (json_int_t)run_least(sizes[i], t->job->largest_rows),
            "vocab", (json_int_t)vocab, "steps", (json_int_t)(3 * AHEAD), "seconds", 0.0);
        json_array_append_new(rows, row);
        if (test_stretch(t, run_least(sizes[i], t->job->largest_rows), vocab, row))
            return 1;
        steps += 3 * AHEAD;
        accept_say("seconds_a_step", json_deep_copy(rows));
        accept_say("steps", json_integer(steps));
    }
    return 0;
}

/* ----------------------------------------------------------------------- a shape */

static void open_sides(test *t)
{
    cls_device_info info;
    cls_device_info_init(&info);
    t->device = (run_side){.name = "device", .options = t->job->options};
    t->ahead = (run_side){.name = "ahead", .way = RUN_AHEAD, .options = t->job->options};
    t->mixed =
        (run_side){.name = "out of order", .way = RUN_OUT_OF_ORDER, .options = t->job->options};
    run_open(&t->device, t->job->device, NULL);
    run_open(&t->ahead, t->job->device, &t->device);
    run_open(&t->mixed, t->job->device, &t->device);
    if (cls_context_info(t->device.target.context, &info) != CLS_OK)
        cli_die("%s", cls_error_message());
    /* The host serves what a device with a short list serves. */
    t->host = (run_side){.name = "host", .on_host = true, .options = t->job->options};
    t->host.options.shortlist = info.shortlist;
    run_open(&t->host, NULL, NULL);
    accept_say("shape", cli_shape_json(t->device.target.context));
}

int accept_shape(const accept_job *job)
{
    test *const t = cli_alloc(1, sizeof *t);
    t->job = job;
    if (cls_opencl_find(NULL) != CLS_OK)
        cli_no_device();
    accept_names_watch();
    accept_say("at", json_pack("{s:s, s:s}", "program", "the device", "does", "is opened"));
    open_sides(t);
    accept_names_begin(NULL);
    cls_context *const context = t->device.target.context;
    if (test_programs(context) || test_cases(context))
        return 1;
    accept_names_agree();
    return test_texts(t, seconds() + job->seconds) || test_steps(t);
}
