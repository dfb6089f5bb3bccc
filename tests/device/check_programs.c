/* SPDX-License-Identifier: MIT */
/* Proves that a context, a sampler and a slot call compile the programs that they need and no
 * others, what is refused instead, and that compiling ahead saves later compilation.
 *
 *     check_programs        exports the programs that compile quickly
 *     check_programs all    exports all of them, which PoCL compiles once more for it */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "driver.h"
#include "sampler/sampler.h"

static int all;

/* ------------------------------------------------------------------ what is there */

/* What a context has said of its progress. */
typedef struct progress {
    char names[1000]; /* one after another */
    uint32_t calls, wrong;
    uint32_t next, count; /* of the call under way */
} progress;
static progress told; /* by the latest context */

static void on_progress(void *user, const char *program, uint32_t done, uint32_t count)
{
    progress *const t = user;
    if (done == 0)
        t->next = 0, t->count = count;
    t->wrong += done != t->next++ || count != t->count || done >= count;
    t->calls++;
    if (strlen(t->names) + strlen(program) + 2 < sizeof t->names) {
        strcat(t->names, t->names[0] != '\0' ? " " : "");
        strcat(t->names, program);
    }
}

/* What creating a context told: of the test of groups as often as it was compiled, then of the
 * self-test. */
static void expect_opening(int groups)
{
    static const char test[] = "groups-test ";
    const char *at = told.names;
    int tests = 0;
    for (; strncmp(at, test, sizeof test - 1) == 0; at += sizeof test - 1)
        tests++;
    ck_assert_msg(groups ? tests > 0 : tests == 0, "progress reported \"%s\"", told.names);
    ck_assert_str_eq(at, "self-test");
    ck_assert_uint_eq(told.wrong, 0);
    told = (progress){.calls = 0};
}

static void expect_progress(const char *names)
{
    ck_assert_msg(strcmp(told.names, names) == 0, "progress reported \"%s\", not \"%s\"",
                  told.names, names);
    ck_assert_uint_eq(told.wrong, 0);
    told = (progress){.calls = 0};
}

/* The names of a context's programs, those of a type but float32 with its number. */
static const char *programs_of(const cls_context *context)
{
    static char names[2000];
    cls_program_info info = {.struct_size = sizeof info};
    char one[64];
    cls_saved_error before;
    cls_error_save(&before);
    names[0] = '\0';
    for (uint32_t i = 0; cls_context_program(context, i, &info) == CLS_OK; i++) {
        snprintf(one, sizeof one, info.dtype > 0 ? "%s%s-%d" : "%s%s", i > 0 ? " " : "", info.name,
                 info.dtype);
        strcat(names, one);
    }
    cls_error_restore(&before);
    return names;
}

static void expect_programs(const cls_context *context, const char *names)
{
    ck_assert_msg(strcmp(programs_of(context), names) == 0, "there is \"%s\", not \"%s\"",
                  programs_of(context), names);
}

static cls_context_options options(void)
{
    cls_context_options o = default_context_options();
    told = (progress){.calls = 0};
    o.progress = on_progress;
    o.progress_user = &told;
    return o;
}

static cls_context *opened(device *d)
{
    const cls_context_options o = options();
    return new_context(d, &o);
}

static cls_status compile(cls_context *context, uint32_t dtypes, uint32_t features)
{
    return cls_context_compile(context, dtypes, features);
}

static int has_groups(const cls_context *context)
{
    const cls_device_info info = context_info(context);
    return info.work_group > 1 || info.row_group > 1;
}

/* ------------------------------------------------------- one request and its sampler */

enum { VOCAB = 2100, ROWS = 2 };

typedef struct subject {
    device *d;
    batch *b; /* of one row: the request's, as the reference has it */
    cls_sampler *sampler;
    cls_step step;
    cls_outputs outputs;
} subject;

static subject subject_of(device *d, cls_context *context, int late_compile)
{
    subject s = {.d = d, .b = batch_new(1, VOCAB, CLS_F32, 0, 0)};
    s.b->history = 60;
    batch_row(s.b, 0, ROW_NORMAL3, 7);
    cls_sampler_options o = sampler_options(VOCAB, ROWS);
    o.max_history = 60;
    o.max_rollback = 4;
    o.late_compile = late_compile;
    must(cls_sampler_create(context, &o, &s.sampler));
    cls_outputs_init(&s.outputs);
    s.step = default_step(1, buffer_of(d, s.b->data_size * ROWS, NULL));
    buffer_write(d, s.step.logits.values.buffer, 0, s.b->data_size, s.b->data);
    s.step.tokens.buffer = buffer_of(d, 64, NULL);
    s.step.status.buffer = buffer_of(d, 64, NULL);
    return s;
}

static void close_subject(subject *s)
{
    cls_sampler_destroy(s->sampler);
    release_buffers(s->step.logits.values.buffer, s->step.tokens.buffer, s->step.status.buffer);
    batch_free(s->b);
}

static const int32_t prompt[] = {5, 6, 7, 8, 5, 6};

/* Begins slot 0 with parameters; the batch's row follows if that succeeds. */
static cls_status begin(subject *s, const cls_params *p)
{
    const cls_status status = cls_slot_begin(s->sampler, 0, p, TEXT(prompt, 6, NULL, 0));
    if (status != CLS_OK)
        return status;
    tokens *const t = &s->b->tokens[0];
    s->b->params[0] = *p;
    free(t->prompt);
    t->prompt = must_malloc(sizeof prompt);
    memcpy(t->prompt, prompt, sizeof prompt);
    t->prompt_count = 6;
    t->output_count = 0;
    memset(s->b->adaptive, 0, sizeof *s->b->adaptive);
    return status;
}

/* Some tokens of slot 0, against the reference. */
static void steps(subject *s, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t token;
        batch_reference(s->b);
        must(cls_sample(s->sampler, s->d->queue, &s->step, 0, NULL, NULL));
        buffer_read(s->d, s->step.tokens.buffer, sizeof token, &token);
        ck_assert_msg(token == s->b->host[0].token, "%s: %s: token %u is %d, not %d", s->d->name,
                      what, i, token, s->b->host[0].token);
        batch_accept(s->b, 0);
    }
}

/* Parameters that need a feature beyond the usual ones. */
typedef enum wish { WISH_USUAL, WISH_PENALTY, WISH_TOP_P, WISH_TYPICAL, WISH_NGRAM, WISHES } wish;

static cls_params params_of(wish w)
{
    cls_params p = default_params();
    p.seed = 11 + (uint64_t)w;
    p.top_k = w == WISH_TOP_P ? 0 : 40;
    p.top_p = w == WISH_TOP_P ? 0.8f : 1.0f;
    p.repetition_penalty = w == WISH_PENALTY ? 1.3f : 1.0f;
    p.typical_p = w == WISH_TYPICAL ? 0.7f : 1.0f;
    p.no_repeat_ngram = w == WISH_NGRAM ? 2 : 0;
    return p;
}

/* ------------------------------------------------------------------- what is compiled */

START_TEST(by_need)
{
    device *const d = fixture_device(_i);
    fake.builds = 0;
    cls_context *const context = opened(d);
    expect_opening(has_groups(context));
    expect_programs(context, "self-test");
    if (!has_groups(context))
        ck_assert_uint_eq(fake.builds, 1);
    else
        ck_assert_uint_ge(fake.builds, 2); /* and the test of groups */
    fake.builds = 0;
    subject s = subject_of(d, context, 1);
    expect_progress("slots survey token-list");
    expect_programs(context, "self-test slots survey token-list");
    ck_assert_uint_eq(fake.builds, 3);
    cls_params p = params_of(WISH_USUAL);
    must(begin(&s, &p));
    steps(&s, 3, "usual");
    p.temperature = 0.0f;
    must(begin(&s, &p));
    steps(&s, 1, "greedy");
    ck_assert_uint_eq(fake.builds, 3);

    p = params_of(WISH_PENALTY);
    must(begin(&s, &p));
    expect_progress("survey-row token-row");
    steps(&s, 3, "a penalty");
    p = params_of(WISH_TOP_P);
    must(begin(&s, &p));
    expect_progress("pass pass-row search search-row");
    steps(&s, 3, "top-p alone");
    p = params_of(WISH_NGRAM);
    must(begin(&s, &p));
    expect_progress("prepare");
    steps(&s, 3, "n-grams");
    p = params_of(WISH_TYPICAL);
    must(begin(&s, &p));
    expect_progress("token-all search-all");
    steps(&s, 3, "typical");
    p = params_of(WISH_USUAL);
    must(cls_slot_params(s.sampler, 0, &p));
    expect_progress("slots-state");
    p.position = s.b->params[0].position;
    s.b->params[0] = p;
    steps(&s, 3, "other parameters");
    must(cls_slot_copy(s.sampler, 1, 0));
    must(cls_slot_rollback(s.sampler, 0, 1));
    s.b->tokens[0].output_count--;
    steps(&s, 2, "rolled back");
    must(cls_slot_reset(s.sampler, 1));
    must(cls_slot_append_prompt(s.sampler, 0, prompt, 2));
    ck_assert_uint_eq(told.calls, 0);
    expect_programs(context, "self-test slots slots-state prepare survey survey-row token-list "
                             "token-row token-all pass pass-row search search-row search-all");
    close_subject(&s);

    /* All that is there: another sampler compiles nothing, nor does a call ahead. */
    fake.builds = 0;
    s = subject_of(d, context, 0);
    must(compile(context, 1u << CLS_F32,
                 CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH | CLS_FEATURE_SAMPLERS |
                     CLS_FEATURE_STATE));
    must(cls_context_compile(context, 0, 0));
    ck_assert_uint_eq(fake.builds + told.calls, 0);
    close_subject(&s);
    cls_context_destroy(context);
}
END_TEST

/* Without late_compile the same calls are refused, by the feature's name, and the slot is what it
 * was. */
START_TEST(refused_late)
{
    static const struct {
        wish w;
        const char *name;
    } all_of[] = {{WISH_PENALTY, "CLS_FEATURE_PENALTIES"},
                  {WISH_TOP_P, "CLS_FEATURE_SEARCH"},
                  {WISH_TYPICAL, "CLS_FEATURE_SEARCH"},
                  {WISH_NGRAM, "CLS_FEATURE_HISTORY"}};
    device *const d = fixture_device(_i);
    cls_context *const context = opened(d);
    subject s = subject_of(d, context, 0);
    cls_params p = params_of(WISH_USUAL);
    must(begin(&s, &p));
    steps(&s, 2, "usual");
    told = (progress){.calls = 0};
    for (size_t i = 0; i < sizeof all_of / sizeof all_of[0]; i++) {
        p = params_of(all_of[i].w);
        p.top_k = all_of[i].w == WISH_TYPICAL ? 0 : p.top_k;
        must_fail(begin(&s, &p), CLS_NOT_COMPILED, all_of[i].name);
        must_say("options->late_compile");
        must(cls_sampler_check(s.sampler, &p)); /* which asks no device, and compiles nothing */
        steps(&s, 1, all_of[i].name);
    }
    /* What cls_sampler_compile() adds between two steps is there; other bits are no features. */
    ck_assert_int_eq(cls_sampler_compile(s.sampler, 1u << 30), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_sampler_compile(NULL, CLS_FEATURE_PENALTIES), CLS_BAD_ARGUMENT);
    must(cls_sampler_compile(s.sampler, CLS_FEATURE_PENALTIES));
    p = params_of(WISH_PENALTY);
    must(begin(&s, &p));
    steps(&s, 2, "a penalty, compiled for");
    expect_progress("survey-row token-row");
    p = params_of(WISH_USUAL);
    must(begin(&s, &p));
    must_fail(cls_slot_params(s.sampler, 0, &p), CLS_NOT_COMPILED, "CLS_FEATURE_STATE");
    must_fail(cls_slot_copy(s.sampler, 1, 0), CLS_NOT_COMPILED, "CLS_FEATURE_STATE");
    must_fail(cls_slot_rollback(s.sampler, 0, 1), CLS_NOT_COMPILED, "CLS_FEATURE_STATE");
    must(cls_slot_rollback(s.sampler, 0, 0));
    must(cls_slot_append_prompt(s.sampler, 0, NULL, 0));
    steps(&s, 2, "after all refusals");
    ck_assert_uint_eq(told.calls, 0);
    expect_programs(context, "self-test slots survey survey-row token-list token-row");
    close_subject(&s);
    cls_context_destroy(context);
}
END_TEST

/* The features that a call lacks are those whose names its message has; without any, 0. */
static void named_as_missing(const cls_sampler *sampler, const char *message)
{
    const uint32_t missing = cls_sampler_missing(sampler);
    for (uint32_t bit = 1; bit <= CLS_FEATURES_KNOWN; bit <<= 1) {
        char name[CLS_FEATURE_NAMES];
        cls_features_name(name, bit);
        if (bit & CLS_FEATURES_KNOWN)
            ck_assert_msg((strstr(message, name) != NULL) == ((missing & bit) != 0),
                          "missing is 0x%x: %s", (unsigned)missing, message);
    }
}

/* What is enqueued compiles nothing: what lacks its feature is refused, and the
 * device gets no command. */
START_TEST(refused_steps)
{
    static const int32_t cu[] = {0, 1};
    static const cls_ints one = {.host = prompt};
    device *const d = fixture_device(_i);
    cls_context *const context = opened(d);
    subject s = subject_of(d, context, 1);
    s.step.outputs = &s.outputs;
    const cls_step good = s.step;
    const cls_outputs none = s.outputs;
    cls_params p = params_of(WISH_USUAL);
    must(begin(&s, &p));
    steps(&s, 1, "usual");
    told = (progress){.calls = 0};
    const cl_mem out = buffer_of(d, VOCAB * 4, NULL);
    const uint32_t launches = cls_sampler_launches(s.sampler);
#define REFUSED(call, name) \
    do { \
        cl_event done = (cl_event)&s; \
        must_fail(call, CLS_NOT_COMPILED, name); \
        ck_assert_ptr_null(done); \
        ck_assert_uint_eq(cls_sampler_launches(s.sampler), launches); \
        named_as_missing(s.sampler, name); \
        s.step = good; \
        s.outputs = none; \
    } while (0)
#define STEP_REFUSED(field, name) \
    do { \
        s.field = out; \
        REFUSED(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, &done), name); \
    } while (0)
    STEP_REFUSED(step.mask.words.buffer, "CLS_FEATURE_MASK");
    STEP_REFUSED(step.bias.values.buffer, "CLS_FEATURE_BIAS");
    s.step.logits.softcap = 30.0f;
    REFUSED(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, &done), "CLS_FEATURE_SOFTCAP");
    STEP_REFUSED(outputs.logprobs.buffer, "CLS_FEATURE_LOGPROBS");
    STEP_REFUSED(outputs.ranks.buffer, "CLS_FEATURE_LOGPROBS");
    STEP_REFUSED(outputs.kept.counts.buffer, "CLS_FEATURE_LOGPROBS");
    STEP_REFUSED(outputs.entropy.buffer, "CLS_FEATURE_LOGPROBS");
    STEP_REFUSED(outputs.kept_mass.buffer, "CLS_FEATURE_LOGPROBS");
    STEP_REFUSED(outputs.probs.buffer, "CLS_FEATURE_PROBS");
    STEP_REFUSED(outputs.final_logits.buffer, "CLS_FEATURE_PROBS");
    s.outputs.top.count = 2;
    STEP_REFUSED(outputs.top.ids.buffer, "CLS_FEATURE_LOGPROBS");
    s.outputs.kept.count = 2;
    STEP_REFUSED(outputs.kept.ids.buffer, "CLS_FEATURE_LOGPROBS");
    s.outputs.kept_set.capacity = 2;
    STEP_REFUSED(outputs.kept_set.ids.buffer, "CLS_FEATURE_KEPT_SETS");
    s.outputs.kept_set.capacity = 2;
    STEP_REFUSED(outputs.kept_set.counts.buffer, "CLS_FEATURE_KEPT_SETS");
    /* All that is missing is named at once. */
    s.step.mask.words.buffer = s.step.bias.values.buffer = s.outputs.probs.buffer = out;
    REFUSED(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, &done),
            "create it with CLS_FEATURE_MASK | CLS_FEATURE_BIAS | CLS_FEATURE_PROBS in ");
    s.step.mask.words.buffer = s.step.bias.values.buffer = s.outputs.probs.buffer = NULL;
    s.step.logits.dtype = CLS_F16;
    REFUSED(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, &done), "options->dtypes");
    REFUSED(accept_ints(s.sampler, d->queue, 1, 1, &one, NULL, 0, NULL, &done),
            "CLS_FEATURE_ACCEPT");
    cls_verify_call verify;
    cls_verify_call_init(&verify);
    verify.requests = 1;
    verify.row_offsets = cu;
    verify.logits.values.buffer = s.step.logits.values.buffer;
    REFUSED(cls_verify(s.sampler, d->queue, &verify, 0, NULL, &done), "CLS_FEATURE_VERIFY");
    cls_logprobs_call logprobs;
    cls_logprobs_call_init(&logprobs);
    logprobs.rows = 1;
    logprobs.top.count = 1;
    logprobs.logits.values.buffer = s.step.logits.values.buffer;
    logprobs.top.ids.buffer = out;
    REFUSED(cls_logprobs(s.sampler, d->queue, &logprobs, 0, NULL, &done), "CLS_FEATURE_LOGPROBS");
    steps(&s, 2, "after all refusals");
    ck_assert_uint_eq(told.calls, 0);
    ck_assert_uint_eq(cls_sampler_missing(s.sampler), 0);
    ck_assert_uint_eq(cls_sampler_missing(NULL), 0);
    /* What was missing can be compiled, and the call made again. */
    ck_assert_int_eq(cls_logprobs(s.sampler, d->queue, &logprobs, 0, NULL, NULL), CLS_NOT_COMPILED);
    must(cls_sampler_compile(s.sampler, cls_sampler_missing(s.sampler)));
    must(cls_logprobs(s.sampler, d->queue, &logprobs, 0, NULL, NULL));
    ck_assert_uint_eq(cls_sampler_missing(s.sampler), 0);
    ck_assert_int_eq(clFinish(d->queue), CL_SUCCESS);
    clReleaseMemObject(out);
    close_subject(&s);
    cls_context_destroy(context);
}
END_TEST

/* Each feature alone: its programs are proved with the few others that a sampler then has. They are
 * kept between the tests, and loaded. */
START_TEST(single_features)
{
    device *const d = fixture_device(_i);
    for (uint32_t bit = 1; bit <= CLS_FEATURES_KNOWN; bit <<= 1) {
        if (!(bit & CLS_FEATURES_KNOWN))
            continue;
        cls_context_options o = default_context_options();
        o.cache_dir = getenv("CLS_TEST_PROGRAMS");
        o.cache_always = 1;
        cls_context *const context = new_context(d, &o);
        cls_sampler *sampler;
        cls_sampler_options so = sampler_options(301, 1);
        so.dtypes = 1u << CLS_F32;
        so.features = bit;
        const cls_status status = cls_sampler_create(context, &so, &sampler);
        ck_assert_msg(status == CLS_OK, "feature 0x%x: %s", (unsigned)bit, cls_error_message());
        cls_sampler_destroy(sampler);
        cls_context_destroy(context);
    }
}
END_TEST

/* Bits that there are not. */
START_TEST(bad_bits)
{
    device *const d = fixture_device(_i);
    cls_context_options o = options();
    cls_context *const context = new_context(d, &o), *none = NULL;
    cls_sampler *sampler = NULL;
    told = (progress){.calls = 0};
    cls_sampler_options so = sampler_options(100, 1);
    must_refuse(compile(context, 8, 0), "dtypes is 0x8");
    must_refuse(compile(context, 0, 1u << 18), "features is 0x40000");
    must_refuse(compile(context, 0, CLS_FEATURES_ALL - 1), "features is 0xfffffffe");
    so.features = CLS_FEATURE_MASK | 1u << 31;
    must_refuse(cls_sampler_create(context, &so, &sampler), "options->features is 0x80000080");
    so.features = 0;
    so.dtypes = 9;
    must_refuse(cls_sampler_create(context, &so, &sampler), "options->dtypes is 0x9");
    ck_assert_ptr_null(sampler);
    o.dtypes = 8;
    must_refuse(cls_context_create(d->context, d->id, &o, &none), "dtypes is 0x8");
    ck_assert_int_eq(cls_context_compile(NULL, 0, 0), CLS_BAD_ARGUMENT);
    cls_program_info info = {.struct_size = sizeof info};
    ck_assert_int_eq(cls_context_program(NULL, 0, &info), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_context_program(context, 0, NULL), CLS_BAD_ARGUMENT);
    must_refuse(cls_context_program(context, 1, &info), "index is 1, but the context has 1");
    ck_assert_uint_eq(told.calls, 0);
    expect_programs(context, "self-test");
    cls_context_destroy(context);
}
END_TEST

/* The test of groups is told before it is compiled, since a driver may take long for it. */
START_TEST(told_of_groups)
{
    device *const d = fixture_device(_i);
    cls_context_options o = options();
    o.work_group = 4;
    o.row_group = 1;
    cls_context *const context = new_context(d, &o);
    expect_opening(1);
    cls_context_destroy(context);
}
END_TEST

/* The information about a program; a caller with an older header gets fewer fields. */
START_TEST(program_infos)
{
    device *const d = fixture_device(_i);
    cls_context *const context = opened(d);
    cls_program_info info = {.struct_size = sizeof info};
    expect_opening(has_groups(context));
    must(compile(context, 1u << CLS_F32 | 1u << CLS_F16, 0));
    expect_programs(context, "self-test slots survey survey-1 token-list token-list-1");
    expect_progress("slots survey survey token-list token-list");
    const cls_device_info device_info = context_info(context);
    for (uint32_t i = 0; i < 6; i++) {
        static const int32_t dtypes[] = {-1, -1, CLS_F32, CLS_F16, CLS_F32, CLS_F16};
        const int over_tiles = i == 2 || i == 3;
        must(cls_context_program(context, i, &info));
        ck_assert_int_eq(info.dtype, dtypes[i]);
        ck_assert_uint_eq(info.origin, CLS_ORIGIN_SOURCE);
        ck_assert_uint_le(info.work_group,
                          over_tiles ? device_info.work_group : device_info.row_group);
        ck_assert(info.subgroups == CLS_SUBGROUPS_NONE || info.subgroups == device_info.subgroups);
        ck_assert(info.seconds > 0 && info.seconds < 10000);
        ck_assert(info.local_mem_size <= device_info.local_mem_size);
        ck_assert(info.max_work_group == 0 || info.max_work_group >= info.work_group);
    }
    memset(&info, 0x5a, sizeof info);
    info.struct_size = offsetof(cls_program_info, origin);
    ck_assert_int_eq(cls_context_program(context, 0, &info),
                     CLS_BAD_ARGUMENT); /* less than any header had */
    ck_assert(info.dtype == 0x5a5a5a5a && info.origin == 0x5a5a5a5au);
    ck_assert_uint_eq(info.struct_size, offsetof(cls_program_info, origin));
    struct { /* a newer header's: what is not known here stays */
        cls_program_info known;
        uint32_t unknown;
    } newer = {.unknown = 0x5a5a5a5au};
    newer.known.struct_size = sizeof newer;
    must(cls_context_program(context, 0, &newer.known));
    ck_assert(strcmp(newer.known.name, "self-test") == 0 && newer.known.dtype == -1 &&
              newer.unknown == 0x5a5a5a5au);
    ck_assert_uint_eq(newer.known.struct_size, sizeof newer);
    cls_context_destroy(context);
}
END_TEST

/* A caller's buffer is written while the context is created, and later only if it stays. */
START_TEST(build_logs)
{
    device *const d = fixture_device(_i);
    for (int stays = 0; stays < 2; stays++) {
        char log[4096];
        cls_context_options o = options();
        memset(log, 'x', sizeof log);
        o.build_log = log;
        o.build_log_size = sizeof log;
        o.build_log_stays = stays;
        cls_context *const context = new_context(d, &o);
        ck_assert_ptr_nonnull(memchr(log, '\0', sizeof log));
        ck_assert(strncmp(log, cls_context_build_log(context), sizeof log - 1) == 0);
        memset(log, 'x', sizeof log);
        must(cls_context_compile(context, 0, 0));
        if (stays)
            ck_assert(strncmp(log, cls_context_build_log(context), sizeof log - 1) == 0);
        for (size_t i = 0; i < sizeof log && !stays; i++)
            ck_assert_msg(log[i] == 'x', "byte %zu was written", i);
        memset(log, 'x', sizeof log);
        must(cls_context_compile(context, 0, 0)); /* nothing: says nothing */
        ck_assert(log[0] == 'x');
        cls_context_destroy(context);
    }
}
END_TEST

/* ---------------------------------------------------------------------------- ahead */

typedef struct ahead {
    cls_context *context;
    uint32_t features;
    cls_status status;
    atomic_int done;
} ahead;

static void *compile_ahead(void *data)
{
    ahead *const a = data;
    a->status = compile(a->context, 1u << CLS_F32, a->features);
    atomic_store(&a->done, 1);
    return NULL;
}

/* Another thread compiles while steps run; a sampler of these features then finds all. */
START_TEST(another_thread)
{
    device *const d = fixture_device(_i);
    cls_context *const context = opened(d);
    subject s = subject_of(d, context, 1);
    ahead a = {.context = context,
               .features = CLS_FEATURE_SHORTLIST | CLS_FEATURE_MASK | CLS_FEATURE_STATE};
    pthread_t thread;
    uint32_t n = 0;
    cls_params p = params_of(WISH_USUAL);
    must(begin(&s, &p));
    if (is_oclgrind(d)) { /* it stops where two kernels run at once */
        compile_ahead(&a);
    } else {
        ck_assert_int_eq(pthread_create(&thread, NULL, compile_ahead, &a), 0);
        while (!atomic_load(&a.done) && n < 2000) {
            steps(&s, 1, "while another thread compiles");
            n++;
        }
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    ck_assert_int_eq(a.status, CLS_OK);
    steps(&s, 2, "afterwards");
    expect_programs(context, "self-test slots slots-state survey survey-row token-list token-row");
    told = (progress){.calls = 0};
    fake.builds = 0;
    fixture_features(a.features);
    subject other = subject_of(d, context, 0);
    fixture_features(0);
    ck_assert_uint_eq(fake.builds + told.calls, 0);
    p = params_of(WISH_USUAL);
    must(begin(&other, &p));
    must(cls_slot_params(other.sampler, 0, &p));
    steps(&other, 2, "what was compiled ahead");
    close_subject(&other);
    close_subject(&s);
    cls_context_destroy(context);
    printf("%s: %u steps while another thread compiled\n", d->name, n);
}
END_TEST

/* --------------------------------------------------------------------------- exports */

/* What a context exports grows with its programs, and serves one without a compiler. */
START_TEST(exports)
{
    device *const d = fixture_device(_i);
    cls_context_options o = options();
    const int everything = all || !cls_binary_query_recompiles(d->id);
    const uint32_t features =
        everything ? CLS_FEATURES_ALL : CLS_FEATURE_SHORTLIST | CLS_FEATURE_ACCEPT;
    size_t alone = 0, usual = 0, size = 0;
    cls_context *context = new_context(d, &o);
    if (cls_binary_check(d->id) != CLS_OK) {
        must_fail(cls_context_export(context, NULL, &alone), CLS_UNSUPPORTED_DEVICE,
                  "is not asked for compiled programs");
        printf("left out on %s: %s\n", d->name, cls_error_message());
        cls_context_destroy(context);
        return;
    }
    must(cls_context_export(context, NULL, &alone));
    must(cls_context_compile(context, 0, 0));
    must(cls_context_export(context, NULL, &usual));
    ck_assert_uint_gt(usual, alone);
    must(compile(context, 0, features));
    must(cls_context_export(context, NULL, &size));
    ck_assert_uint_gt(size, usual);
    char *const before = strdup(programs_of(context));
    uint8_t *const bytes = malloc(size);
    ck_assert(before != NULL && bytes != NULL);
    must(cls_context_export(context, bytes, &size));
    cls_context_destroy(context);

    o.binary = bytes;
    o.binary_size = size;
    fake.no_compiler = 1;
    context = new_context(d, &o);
    memset(bytes, 0, size); /* they are copied */
    free(bytes);
    expect_programs(context, "self-test");
    must(compile(context, 0, features));
    expect_programs(context, before);
    cls_program_info info = {.struct_size = sizeof info};
    for (uint32_t i = 0; cls_context_program(context, i, &info) == CLS_OK; i++)
        ck_assert_msg(info.origin == CLS_ORIGIN_BINARY, "%s is of origin %u", info.name,
                      info.origin);
    subject s = subject_of(d, context, 1);
    for (int w = WISH_USUAL; w < (everything ? WISHES : WISH_USUAL + 1); w++) {
        const cls_params p = params_of((wish)w);
        must(begin(&s, &p));
        steps(&s, 3, "from a binary");
    }
    close_subject(&s);
    must_fail(compile(context, 1u << CLS_BF16, 0), CLS_UNSUPPORTED_DEVICE, "has no compiler");
    expect_programs(context, before);
    fake.no_compiler = 0;
    free(before);
    cls_context_destroy(context);
}
END_TEST

/* -------------------------------------------------------------- variants and features */

/* Which kernels a call may launch with features of its rows and its inputs. */
static int launches(enum cls_kernel kernel, uint32_t needs)
{
    const uint32_t reporting = CLS_FEATURE_LOGPROBS | CLS_FEATURE_PROBS;
    switch (kernel) {
    case CLS_SLOTS:
    case CLS_SURVEY:
    case CLS_TOKEN:
        return 1;
    case CLS_PREPARE:
        return (needs & (CLS_FEATURE_HISTORY | CLS_FEATURE_VERIFY)) != 0;
    case CLS_PASS:
    case CLS_SEARCH:
        return (needs & CLS_FEATURE_SEARCH) != 0;
    case CLS_DISTRIBUTION:
    case CLS_REPORT:
        return (needs & reporting) != 0;
    case CLS_KEPT:
        return (needs & CLS_FEATURE_KEPT_SETS) != 0;
    case CLS_WATERMARK:
        return (needs & CLS_FEATURE_WATERMARK) != 0;
    case CLS_FORCE:
        return (needs & (CLS_FEATURE_FORCED | CLS_FEATURE_WATERMARK)) != 0;
    case CLS_ACCEPT:
        return (needs & (reporting | CLS_FEATURE_KEPT_SETS | CLS_FEATURE_ACCEPT)) != 0;
    case CLS_RESIDUAL:
    case CLS_VERIFY:
    case CLS_LOOKUP:
        return (needs & CLS_FEATURE_VERIFY) != 0;
    case CLS_PARTIAL:
    case CLS_MERGE:
        return (needs & CLS_FEATURE_SHARD) != 0;
    default:
        return 0;
    }
}

/* What a variant leaves out, by the options that it is compiled with. */
static uint32_t left_out(int variant)
{
    const cls_variant *const v = &cls_variants[variant];
    const int samples = v->kernel == CLS_SURVEY || v->kernel == CLS_TOKEN ||
                        v->kernel == CLS_PASS || v->kernel == CLS_SEARCH;
    uint32_t out = 0;
    if (v->kernel == CLS_PARTIAL || v->kernel == CLS_MERGE) /* one variant serves all */
        return 0;
    if (strstr(v->options, "-DROW=0") != NULL)
        out |= CLS_FEATURE_PENALTIES | CLS_FEATURE_HISTORY | CLS_FEATURE_MASK | CLS_FEATURE_BIAS |
               CLS_FEATURE_SOFTCAP | (samples ? CLS_FEATURE_VERIFY : 0u);
    if (strstr(v->options, "-DCHAIN=") != NULL)
        out |= CLS_FEATURE_SAMPLERS | CLS_FEATURE_VERIFY;
    if (strstr(v->options, "-DCHAIN=0") != NULL)
        out |= CLS_FEATURE_SHORTLIST | CLS_FEATURE_SEARCH | (samples ? CLS_NEED_LONG_LIST : 0u);
    if (strstr(v->options, "-DLIST=") != NULL)
        out |= CLS_FEATURE_SEARCH | CLS_NEED_LONG_LIST;
    if (v->kernel == CLS_TOKEN && strstr(v->options, "-DROW=0") != NULL)
        out |= CLS_FEATURE_SHARD;
    if (strstr(v->options, "-DCHANGES=0") != NULL)
        out |= CLS_FEATURE_STATE | CLS_FEATURE_FORCED;
    if ((v->kernel == CLS_REPORT || v->kernel == CLS_KEPT) && strstr(v->options, "-DROW=0") != NULL)
        out |= CLS_FEATURE_VERIFY;
    return out;
}

START_TEST(what_serves)
{
    uint32_t last = CLS_KERNELS;
    ck_assert_int_le(CLS_VARIANTS, 64);
    for (int v = 0; v < CLS_VARIANTS; v++) {
        ck_assert(v == 0 || cls_variants[v].kernel == last ||
                  cls_variants[v].kernel == last + 1); /* in their order */
        last = cls_variants[v].kernel;
        for (int w = 0; w < v; w++)
            ck_assert_str_ne(cls_variants[v].name, cls_variants[w].name);
        for (uint32_t needs = 0; needs <= CLS_NEEDS_ALL; needs++)
            ck_assert_msg(!cls_variant_supports(v, needs) == ((needs & left_out(v)) != 0),
                          "%s: %s 0x%x", cls_variants[v].name,
                          cls_variant_supports(v, needs) ? "serves" : "does not serve", needs);
    }
    for (uint32_t needs = 0; needs <= CLS_NEEDS_ALL; needs++)
        for (int k = 0; k < CLS_KERNELS; k++) {
            const int v = cls_variant_find((enum cls_kernel)k, needs);
            ck_assert(v >= 0 && v < CLS_VARIANTS && (int)cls_variants[v].kernel == k);
            ck_assert_uint_eq(needs & left_out(v), 0);
            for (int w = 0; w < v; w++)
                ck_assert((int)cls_variants[w].kernel != k || (needs & left_out(w)) != 0);
        }
}
END_TEST

/* The compilers' options: only NVIDIA's compiler gets a limit of registers, and only for
 * work-groups that can have as many. */
START_TEST(build_options)
{
    cls_shape shape = {.vector = 4, .extra_options = ""};
    char options[CLS_BUILD_OPTIONS];
    for (int v = 0; v < CLS_VARIANTS; v++)
        for (uint32_t group = 1; group <= 1024; group *= 2)
            for (int nvidia = 0; nvidia < 2; nvidia++) {
                const cls_build_config as = {group, CLS_TIER_SUBGROUPS, CLS_SUBGROUPS_NV, 120,
                                             2048};
                const int registers = cls_variants[v].registers;
                char limit[40] = "";
                shape.nvidia = nvidia;
                cls_program_options(&shape, &as, CLS_BF16, &cls_variants[v], options);
                ck_assert_uint_lt(strlen(options), CLS_BUILD_OPTIONS - 20);
                ck_assert_ptr_nonnull(strstr(options, cls_variants[v].options));
                const char *const list = strstr(options, " -DLIST=");
                ck_assert_ptr_nonnull(list);
                ck_assert_ptr_null(strstr(list + 1, " -DLIST="));
                ck_assert_int_eq(atoi(list + strlen(" -DLIST=")),
                                 v == CLS_TOKEN_SMALL ? CLS_SMALL_LIST : 2048);
                if (nvidia && registers != 0 && group <= 256)
                    snprintf(limit, sizeof limit, " -cl-nv-maxrregcount=%d", registers);
                const char *const given = strstr(options, " -cl-nv-");
                ck_assert_str_eq(given != NULL ? given : "", limit);
                ck_assert(registers * 256 <= 65536);
            }
}
END_TEST

/* Of each set of features, and of all that its steps may need, there is a variant
 * of every kernel that such a step launches. */
START_TEST(what_samplers_have)
{
    static uint32_t launched[CLS_NEEDS_ALL + 1]; /* kernels, by the features of a step */
    for (uint32_t needs = 0; needs <= CLS_NEEDS_ALL; needs++)
        for (int k = CLS_SLOTS; k < CLS_KERNELS; k++)
            launched[needs] |= (uint32_t)launches((enum cls_kernel)k, needs) << k;
    for (uint32_t features = 1; features <= CLS_FEATURES_KNOWN; features++) {
        const cls_variant_set set = cls_variants_of(features);
        int there[CLS_KERNELS] = {0}, n = 0;
        uint32_t kernel[CLS_VARIANTS], out[CLS_VARIANTS];
        for (int v = 0; v < CLS_VARIANTS; v++) {
            if (!(set >> v & 1u))
                continue;
            there[cls_variants[v].kernel] = 1;
            kernel[n] = UINT32_C(1) << cls_variants[v].kernel;
            out[n++] = left_out(v);
        }
        ck_assert(!there[CLS_SELF_TEST]);
        for (int k = CLS_SLOTS; k < CLS_KERNELS; k++)
            ck_assert_msg(there[k] == launches((enum cls_kernel)k, features), "0x%x: %s", features,
                          cls_kernel_name((enum cls_kernel)k));
        /* The features of a step are all sets of the sampler's; lists may be long ones. */
        const uint32_t most =
            features | (features & CLS_FEATURE_SHORTLIST ? CLS_NEED_LONG_LIST : 0);
        for (uint32_t needs = most;; needs = (needs - 1) & most) {
            uint32_t served = 0;
            for (int v = 0; v < n; v++)
                served |= (needs & out[v]) == 0 ? kernel[v] : 0u;
            for (int k = CLS_SLOTS; (launched[needs] & ~served) != 0; k++)
                if ((launched[needs] & ~served) >> k & 1u)
                    ck_abort_msg("features 0x%x, needs 0x%x: no %s", features, needs,
                                 cls_kernel_name((enum cls_kernel)k));
            if (needs == 0)
                break;
        }
        const cls_variant_set plain = set & CLS_VARIANT_BIT(CLS_TOKEN_0),
                              list = set & CLS_VARIANT_BIT(CLS_TOKEN_1),
                              small = set & CLS_VARIANT_BIT(CLS_TOKEN_SMALL);
        ck_assert_msg((features & CLS_FEATURE_PLAIN) == 0 || plain,
                      "0x%x: no kernel for plain rows", features);
        ck_assert_msg((features & CLS_FEATURE_SHORTLIST) == 0 || (list && small),
                      "0x%x: no kernel for the usual rows", features);
    }
    ck_assert_uint_eq(cls_variants_of(CLS_FEATURE_SHORTLIST),
                      CLS_VARIANT_BIT(CLS_SLOTS_0) | CLS_VARIANT_BIT(CLS_SURVEY_0) |
                          CLS_VARIANT_BIT(CLS_TOKEN_SMALL) | CLS_VARIANT_BIT(CLS_TOKEN_1));
    for (uint32_t bit = 0; bit < 20; bit++) {
        char name[CLS_FEATURE_NAMES];
        cls_features_name(name, UINT32_C(1) << bit);
        ck_assert_msg(CLS_FEATURES_KNOWN >> bit & 1u
                          ? strncmp(name, "CLS_FEATURE_", 12) == 0
                          : *name == '\0' || strcmp(name, "unknown") == 0,
                      "%s", name);
    }
}
END_TEST

/* ------------------------------------------------------------------- small lists */

/* The usual shape as on a device with little local memory. On a device of groups of one item the
 * variant is forced, since PoCL takes many minutes to compile such programs for larger groups. */
static cls_context *little(device *d)
{
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    o.max_local_mem_size = 32768;
    cls_context *const context = fixture_shaped(d, &o, CLS_SUBGROUPS_NONE);
    cls_test_small_lists = context->shape.row_group == 1;
    ck_assert(cls_shape_wants_small_lists(&context->shape));
    return context;
}

/* The programs that such a context has, and their local memory. The list's entries take 24 bytes
 * each. */
START_TEST(small_lists)
{
    device *const d = fixture_device(_i);
    cls_context *const context = little(d);
    cls_program_info info = {.struct_size = sizeof info};
    uint64_t local[2] = {0, 0};
    must(cls_context_compile(context, 0, 0));
    for (uint32_t i = 0; cls_context_program(context, i, &info) == CLS_OK; i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(info.name, k ? "token-list" : "token-small") == 0)
                local[k] = info.local_mem_size;
    printf("%s: local memory of token-small: %llu, of token-list: %llu bytes\n", d->name,
           (unsigned long long)local[0], (unsigned long long)local[1]);
    /* PoCL 6.0 says 0 of every kernel whose local memory is declared in it. */
    if (strstr(d->name, "Portable Computing Language") != NULL && local[0] + local[1] == 0)
        return;
    ck_assert_uint_gt(local[0], 0);
    ck_assert_uint_ge(local[1] - local[0], 24 * (context->shape.shortlist - CLS_SMALL_LIST));
}
END_TEST

int main(int argc, char **argv)
{
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    fixture_begin(ON_DEVICES);
    add_test(what_serves);
    add_test(build_options);
    add_test(what_samplers_have);
    add_device_test(by_need);
    add_device_test(refused_late);
    add_device_test(refused_steps);
    add_device_test(single_features);
    add_device_test(bad_bits);
    add_device_test(told_of_groups);
    add_device_test(program_infos);
    add_device_test(build_logs);
    add_device_test(another_thread);
    add_device_test(exports);
    add_device_test(small_lists);
    return fixture_end();
}
