/* SPDX-License-Identifier: MIT */
/* Proves that the library survives a fault in every OpenCL call and every allocation of a
 * sampler's life (life.c), one at a time. The call that meets the fault reports it and nothing
 * leaks. Then either the repeated call succeeds and everything continues as if there had been
 * no fault, or the call is left out and everything continues as if it had not been made, or
 * the sampler is lost and reports that.
 *
 *     check_faults [stride]     the rare calls of a life and some of the others, fewer if the
 *                               stride is larger, each with one of its errors;
 *                               1: all calls with all their errors */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private.h"
#include "faulty.h"
#include "faulty_memory.h"
#include "rows/kinds.h"
#include "step/step.h"
#include "life.h"

static uint32_t stride;

/* The outcomes of the faults in a kind of call. */
enum { SURVIVED, REPEATED, SKIPPED, LOST, FATES };
static struct {
    const char *name;
    uint32_t n[FATES];
} tally[FAULTY_COUNT + 1];

/* A fault: in the n-th call of one kind (a faulty_call) or of any (CALL), with one of its errors,
 * or in the n-th allocation. */
enum { CALL = FAULTY_COUNT, ALLOCATION };
typedef struct fault {
    uint32_t n;
    int in;
    cl_int error;
} fault;

static void arm(const fault *f)
{
    faulty_disarm();
    faulty_memory_arm(f != NULL && f->in == ALLOCATION ? f->n : UINT32_MAX);
    if (f != NULL && f->in != ALLOCATION)
        faulty_arm((faulty_call)f->in, f->n, f->error, 0);
}

static int met(void) { return faulty_failed() != FAULTY_COUNT || faulty_memory_failed(); }

/* Describes a fault for messages, in static memory. */
static const char *words(const fault *f)
{
    static char text[120];
    if (f->in == ALLOCATION)
        snprintf(text, sizeof text, "allocation %u", (unsigned)f->n);
    else
        snprintf(text, sizeof text, "call %u, %s, with %d", (unsigned)faulty_failed_at(),
                 faulty_name(faulty_failed()), (int)faulty_code());
    return text;
}

/* Whether the library succeeds even if this call fails. */
static int is_dispensable(faulty_call which)
{
    switch (which) {
    case FAULTY_clReleaseContext:
    case FAULTY_clReleaseCommandQueue:
    case FAULTY_clReleaseProgram:
    case FAULTY_clReleaseKernel:
    case FAULTY_clReleaseMemObject:
    case FAULTY_clReleaseEvent:
    case FAULTY_clFlush:
    case FAULTY_clGetProgramBuildInfo:    /* the log */
    case FAULTY_clGetKernelWorkGroupInfo: /* half of the queries are only informative */
    case FAULTY_clFinish:                 /* after a read that has waited for all */
    case FAULTY_clGetEventInfo:  /* of an upload: other staging is taken; of a step: it is taken to
                                    be well */
    case FAULTY_clWaitForEvents: /* the library queries the event again */
        return 1;
    default:
        return 0;
    }
}

/* Checks the error that a call reports after a fault. Functions that destroy objects report none.
 */
static void judge(const fault *f, const char *call, cls_status status, int is_end, int may_lose)
{
    const char *const message = cls_error_message();
    const faulty_call which = faulty_failed();
    const cl_int code = faulty_code();
    if (status == CLS_OK) {
        ck_assert_msg(is_end || (f->in != ALLOCATION && is_dispensable(which)),
                      "%s succeeds, whatever became of %s", call, words(f));
        return;
    }
    if (f->in == ALLOCATION) {
        ck_assert_msg(status == CLS_OUT_OF_MEMORY && strstr(message, "memory") != NULL,
                      "%s, %s: %s: %s", call, words(f), cls_status_name(status), message);
        ck_assert_msg(cls_error_opencl() == CL_SUCCESS, "%s, %s: OpenCL is to blame: %s", call,
                      words(f), message);
        return;
    }
    if (status == CLS_UNSUPPORTED_DEVICE && which == FAULTY_clGetDeviceInfo &&
        code == CL_INVALID_VALUE && strstr(message, "which the device does not have") != NULL)
        return; /* the device does not know what it was asked */
    const cls_status wanted = which == FAULTY_clBuildProgram ? CLS_BUILD_FAILED : CLS_OPENCL_ERROR;
    const int argument = status == CLS_BAD_ARGUMENT &&
                         (code == CL_INVALID_COMMAND_QUEUE || code == CL_INVALID_MEM_OBJECT ||
                          code == CL_INVALID_CONTEXT || code == CL_INVALID_DEVICE);
    ck_assert_msg(status == wanted || argument || (status == CLS_LOST && may_lose),
                  "%s, %s: %s: %s", call, words(f), cls_status_name(status), message);
    ck_assert_msg(cls_error_opencl() == code, "%s, %s: the code is %d: %s", call, words(f),
                  (int)cls_error_opencl(), message);
    ck_assert_msg(strstr(message, "OpenCL error") != NULL && strlen(message) > 40, "%s, %s: %s",
                  call, words(f), message);
}

static void expect_lost(const fault *f, const char *call, cls_status status)
{
    ck_assert_msg(status == CLS_LOST && cls_error_opencl() == faulty_code() &&
                      strstr(cls_error_message(), "destroy the sampler") != NULL,
                  "%s, after %s: %s: %s", call, words(f), cls_status_name(status),
                  cls_error_message());
}

/* A life without faults: the output after each call, and the OpenCL calls that it made. */
typedef struct reference {
    unsigned char *output[64];                /* after the call of life_calls */
    uint32_t first[65], first_allocation[65]; /* before it; approximate, as polling of uploads
                                                 depends on the time */
    uint32_t calls, allocations;
    faulty_call was[1 << 13];
} reference;

static reference reference_life, without;
enum { NONE = UINT32_MAX };

static void drop(reference *ref)
{
    for (uint32_t i = 0; i < life_count; i++)
        free(ref->output[i]);
}

/* Records a life without the call `skip`, or with all calls (NONE). */
static void record(reference *ref, life *l, uint32_t skip)
{
    memset(ref, 0, sizeof *ref);
    arm(NULL);
    life_begin(l);
    for (uint32_t i = 0; i < life_count; i++) {
        ref->first[i] = faulty_calls();
        ref->first_allocation[i] = faulty_memory_calls();
        if (i != skip)
            must(life_call_make(l, i, i % 2));
        ref->output[i] = must_malloc(life_output_size(l));
        life_read_output(l, ref->output[i]);
    }
    ref->first[life_count] = ref->calls = faulty_calls();
    ref->first_allocation[life_count] = ref->allocations = faulty_memory_calls();
    ck_assert_uint_lt(ref->calls, sizeof ref->was / sizeof ref->was[0]);
    for (uint32_t n = 0; n < ref->calls; n++)
        ref->was[n] = faulty_nth_call(n);
}

/* Whether a fault may lose the sampler: since the OpenCL call `first`, a kernel or noted slot calls
 * were enqueued before the fault. */
static int may_lose(uint32_t first, int noted)
{
    int begun = 0;
    for (uint32_t n = first; faulty_failed() != FAULTY_COUNT && n < faulty_failed_at(); n++)
        begun |= faulty_nth_call(n) == FAULTY_clEnqueueNDRangeKernel ||
                 (noted && faulty_nth_call(n) == FAULTY_clEnqueueWriteBuffer);
    return begun;
}

static void expect_output(const reference *ref, life *l, unsigned char *output, uint32_t i,
                          const fault *f, const char *when)
{
    life_read_output(l, output);
    const size_t size = life_output_size(l);
    size_t at = 0;
    while (at < size && output[at] == ref->output[i][at])
        at++;
    ck_assert_msg(at == size, "%s, %s %s: byte %zu of %zu (outputs: %zu) differs",
                  life_calls[i].name, when, words(f), at, size, l->out_size);
}

/* Runs a life with a fault and returns the outcome. The call that meets the fault is repeated,
 * unless it is `skip`; the reference then has not made this call at all. */
static int live_with(const reference *ref, life *l, unsigned char *output, const fault *f,
                     uint32_t skip)
{
    const faulty_live before = faulty_alive();
    const uint32_t blocks = faulty_memory_alive();
    int fate = SURVIVED, noted = 0;
    arm(f);
    life_begin(l);
    for (uint32_t i = 0; i < life_count; i++) {
        const int was_met = met();
        const uint32_t first = faulty_calls();
        cls_status status = life_call_make(l, i, i % 2);
        if (fate == LOST && life_calls[i].kind != LIFE_OTHER) {
            expect_lost(f, life_calls[i].name, status);
            continue;
        }
        if (!was_met && met()) {
            judge(f, life_calls[i].name, status, i + 1 == life_count,
                  life_calls[i].kind == LIFE_STEP && may_lose(first, noted));
            if (skip != NONE &&
                (i != skip ||
                 status == CLS_OK)) { /* the call survived, or another call met the fault */
                life_end(l);
                return SURVIVED;
            }
            if (skip != NONE) {
                fate = SKIPPED;
                status = CLS_OK;
            } else if (status == CLS_LOST) {
                fate = LOST;
                continue;
            } else if (status != CLS_OK) {
                fate = REPEATED;
                status = life_call_make(l, i, (i + 1) % 2); /* again, on the other queue */
            }
        }
        ck_assert_msg(status == CLS_OK, "%s, after %s: %s: %s", life_calls[i].name, words(f),
                      cls_status_name(status), cls_error_message());
        if (life_calls[i].kind != LIFE_OTHER)
            noted = life_calls[i].kind == LIFE_SLOT;
        if (fate != LOST && met())
            expect_output(ref, l, output, i, f, "after");
    }
    ck_assert_msg(faulty_leaked(&before)[0] == '\0', "%s: leaks %s", words(f),
                  faulty_leaked(&before));
    ck_assert_msg(faulty_memory_alive() == blocks, "%s: leaks %u blocks", words(f),
                  faulty_memory_alive() - blocks);
    return fate;
}

/* The number of queries of uploads depends on the time, so the last calls may not occur. */
static void count(int fate)
{
    const faulty_call which = faulty_failed();
    if (!met())
        return;
    tally[which].name = which < FAULTY_COUNT ? faulty_name(which) : "malloc() and the like";
    tally[which].n[fate]++;
}

/* Of the calls of a kind in a life, one in step_of() is tested: all calls of rare kinds. */
static uint32_t step_of(uint32_t calls) { return stride == 1 ? 1 : calls * stride / 620 + 1; }

/* A slot call that fails and is not repeated has no effect. */
static void leave_out(const reference *ref, uint32_t skip, life *l, unsigned char *output)
{
    if (strncmp(life_calls[skip].name, "cls_slot_begin", 14) == 0)
        return; /* a step needs it */
    record(&without, l, skip);
    for (uint32_t n = ref->first[skip]; n < ref->first[skip + 1]; n++) {
        const fault f = {n, CALL, (cl_int)n};
        count(live_with(&without, l, output, &f, skip));
    }
    for (uint32_t n = ref->first_allocation[skip]; n < ref->first_allocation[skip + 1]; n++) {
        const fault f = {n, ALLOCATION, 0};
        count(live_with(&without, l, output, &f, skip));
    }
    drop(&without);
}

/* A context that has everything: late_programs() is of those that have not. */
static cls_context *ready_context(device *d)
{
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    must(cls_context_compile(context, 0, CLS_FEATURES_ALL));
    return context;
}

static void every_fault(device *d, uint32_t vocab)
{
    reference *const ref = &reference_life;
    uint32_t made[FAULTY_COUNT] = {0};
    life l;
    life_open(&l, d, ready_context(d), vocab);
    record(ref, &l, NONE); /* and whatever the driver does once */
    unsigned char *const output = must_malloc(life_output_size(&l));
    for (uint32_t n = 0; n < ref->calls; n++)
        made[ref->was[n]]++;
    for (int which = 0; which < FAULTY_COUNT; which++) {
        const uint32_t step = step_of(made[which]),
                       errors = stride == 1 ? faulty_errors((faulty_call)which) : 1;
        for (uint32_t n = 0; n < made[which]; n += step)
            for (uint32_t e = 0; e < errors; e++) {
                const fault f = {n, which, (cl_int)(stride == 1 ? e : n / step)};
                count(live_with(ref, &l, output, &f, NONE));
            }
    }
    for (uint32_t n = 0; n < ref->allocations; n++) {
        const fault f = {n, ALLOCATION, 0};
        count(live_with(ref, &l, output, &f, NONE));
    }
    for (uint32_t i = 0; i < life_count; i++)
        if (life_calls[i].kind == LIFE_SLOT)
            leave_out(ref, i, &l, output);
    printf("%s, vocabulary of %u: %u calls, %u allocations\n", d->name, (unsigned)vocab,
           (unsigned)ref->calls, (unsigned)ref->allocations);
    drop(ref);
    free(output);
    life_close(&l);
}

/* ------------------------------------------------------------------- a lost device */

/* From the n-th call on all calls fail. Every step reports it, nothing hangs, and destroying the
 * objects releases everything except host memory and the ring's buffer, which an upload or a read
 * in flight may still use. */
static uint32_t lose(life *l, uint32_t n, cl_int code)
{
    const faulty_live before = faulty_alive();
    const fault f = {n, CALL, code};
    faulty_memory_forget();
    arm(NULL);
    faulty_arm(FAULTY_COUNT, n, code, 1);
    life_begin(l);
    for (uint32_t i = 0; i + 1 < life_count; i++) {
        const int was_met = met();
        const cls_status status = life_call_make(l, i, i % 2);
        if (status == CLS_OK) {
            ck_assert_msg(!was_met || life_calls[i].kind != LIFE_STEP, "%s succeeds after %s",
                          life_calls[i].name, words(&f));
            continue;
        }
        ck_assert_msg(met() && (status == CLS_OPENCL_ERROR || status == CLS_BAD_ARGUMENT ||
                                status == CLS_BUILD_FAILED || status == CLS_LOST),
                      "%s, %s: %s: %s", life_calls[i].name, words(&f), cls_status_name(status),
                      cls_error_message());
        ck_assert_msg(strlen(cls_error_message()) > 10, "%s, %s: %s", life_calls[i].name, words(&f),
                      cls_error_message());
    }
    life_call_make(l, life_count - 1, 0);
    life_end(l);
    const uint32_t blocks = faulty_memory_alive();
    faulty_live now = faulty_alive();
    ck_assert_msg(now.n[FAULTY_MEMORY] - before.n[FAULTY_MEMORY] <= 1, "%s: leaks %s", words(&f),
                  faulty_leaked(&before));
    now.n[FAULTY_MEMORY] = before.n[FAULTY_MEMORY];
    ck_assert_msg(memcmp(&now, &before, sizeof now) == 0, "%s: leaks %s", words(&f),
                  faulty_leaked(&before));
    faulty_memory_forget();
    return blocks;
}

START_TEST(lost_device)
{
    static const cl_int codes[] = {CL_OUT_OF_RESOURCES, CL_INVALID_COMMAND_QUEUE, -9999};
    device *const d = fixture_device(_i);
    uint32_t most = 0, lives = 0;
    life l;
    life_open(&l, d, ready_context(d), 40);
    record(&reference_life, &l, NONE);
    for (uint32_t n = 0; n < reference_life.calls; n += 3 * stride, lives++) {
        const uint32_t blocks = lose(&l, n, codes[lives % 3]);
        most = blocks > most ? blocks : most;
    }
    printf("%s: lost %u times; at most %u blocks were left to it\n", d->name, (unsigned)lives,
           (unsigned)most);
    drop(&reference_life);
    life_close(&l);
}
END_TEST

/* ------------------------------------------------------------------------ late programs */

/* A sampler of the usual features, a request of theirs, and one that needs more. */
enum { CREATE, USUAL, LATE, CHANGE, LATE_CALLS };
static const char *const late_names[LATE_CALLS] = {"cls_sampler_create()", "cls_slot_begin()",
                                                   "cls_slot_begin(), with a penalty",
                                                   "cls_slot_params()"};

typedef struct late {
    cls_context *context;
    cls_sampler *sampler;
    cl_mem logits, tokens;
    cls_params params[2];
} late;

enum { LATE_VOCAB = 100 };

static cls_status late_call(late *l, int which)
{
    static const int32_t prompt[] = {3, 1, 4};
    cls_status status = CLS_OK;
    cls_sampler_options o = sampler_options(LATE_VOCAB, 2);
    faulty_on = faulty_memory_on = 1;
    if (which == CREATE)
        status = cls_sampler_create(l->context, &o, &l->sampler);
    else if (which == CHANGE)
        status = cls_slot_params(l->sampler, 0, &l->params[0]);
    else
        status = cls_slot_begin(l->sampler, which == LATE, &l->params[which == LATE],
                                TEXT(prompt, 3, NULL, 0));
    faulty_on = faulty_memory_on = 0;
    return status;
}

/* Whether a sampler has the programs of its features, so that the failure came after them. */
static int has_all(const cls_sampler *s)
{
    const cls_variant_set small = CLS_VARIANT_BIT(CLS_TOKEN_SMALL),
                          all = cls_variants_of(s->features);
    const cls_variant_set set =
        cls_shape_wants_small_lists(&s->context->shape) ? all : all & ~small;
    int has = 1;
    for (int v = 0; v < CLS_VARIANTS; v++)
        has &= !(set >> v & 1u) || s->kernels[CLS_F32][v].handle != NULL;
    return has;
}

static uint32_t programs_of(const cls_context *context)
{
    cls_program_info info = {.struct_size = sizeof info};
    uint32_t n = 0;
    cls_saved_error before;
    cls_error_save(&before);
    while (cls_context_program(context, n, &info) == CLS_OK)
        n++;
    cls_error_restore(&before);
    return n;
}

/* Runs a step with n rows and reads its tokens. */
static void late_step(late *l, device *d, uint32_t rows, int32_t *tokens)
{
    cls_step s;
    cls_step_init(&s);
    s.rows = rows;
    s.logits.values.buffer = l->logits;
    s.tokens.buffer = l->tokens;
    must(cls_sample(l->sampler, d->queue, &s, 0, NULL, NULL));
    buffer_read(d, l->tokens, rows * sizeof *tokens, tokens);
}

/* Makes all calls with a fault (NULL: none) and repeats the call that fails. Stores the number of
 * OpenCL calls of each. Returns whether the fault was met. */
static int live_late(device *d, const fault *f, int32_t tokens[3], uint32_t first[LATE_CALLS + 1],
                     uint32_t first_allocation[LATE_CALLS + 1])
{
    const faulty_live before = faulty_alive();
    const uint32_t blocks = faulty_memory_alive();
    late l = {0};
    int fate = SURVIVED;
    rng r = {1};
    float logits[2 * LATE_VOCAB];
    cls_context_options o = default_context_options();
    for (uint32_t i = 0; i < 2 * LATE_VOCAB; i++)
        logits[i] = (float)rng_normal(&r);
    for (int i = 0; i < 2; i++) {
        cls_params_init(&l.params[i]);
        l.params[i].top_k = 20;
        l.params[i].seed = 5;
    }
    l.params[1].presence_penalty = 0.5f;
    l.logits = buffer_of(d, sizeof logits, logits);
    l.tokens = buffer_of(d, 2 * sizeof *tokens, NULL);
    must(cls_context_create(d->context, d->id, &o, &l.context));
    arm(f);
    for (int i = 0; i < LATE_CALLS; i++) {
        const int was_met = met();
        const uint32_t had = programs_of(l.context),
                       features = l.sampler != NULL ? l.sampler->features : 0;
        first[i] = faulty_calls();
        first_allocation[i] = faulty_memory_calls();
        cls_status status = late_call(&l, i);
        first[i + 1] = faulty_calls();
        first_allocation[i + 1] = faulty_memory_calls();
        if (!was_met && met())
            judge(f, late_names[i], status, 0, 0);
        if (status != CLS_OK) {
            ck_assert_msg(!was_met && met(), "%s, after %s: %s", late_names[i], words(f),
                          cls_error_message());
            /* Programs that were proved before the one at fault stay. */
            ck_assert_msg(programs_of(l.context) >= had, "%s, %s: programs are lost", late_names[i],
                          words(f));
            ck_assert_msg(i == CREATE ? l.sampler == NULL
                                      : l.sampler->features == features || has_all(l.sampler),
                          "%s, %s: changed the sampler", late_names[i], words(f));
            if (i == LATE)
                ck_assert(!(l.sampler->request[1].slot.flags & CLS_SLOT_BEGUN));
            fate = REPEATED;
            must(late_call(&l, i));
        }
        if (i == USUAL)
            late_step(&l, d, 1, tokens);
    }
    late_step(&l, d, 2, tokens + 1);
    const int was_met = f != NULL && met();
    if (f != NULL)
        count(fate);
    faulty_on = 1;
    cls_sampler_destroy(l.sampler);
    cls_context_destroy(l.context);
    faulty_on = 0;
    release_buffers(l.logits, l.tokens);
    ck_assert_msg(f == NULL || faulty_leaked(&before)[0] == '\0', "%s: leaks %s", words(f),
                  faulty_leaked(&before));
    ck_assert_msg(f == NULL || faulty_memory_alive() == blocks, "%s: leaks %u blocks", words(f),
                  faulty_memory_alive() - blocks);
    return was_met;
}

static void same_late(const int32_t *tokens, const int32_t *wanted, const fault *f)
{
    ck_assert_msg(memcmp(tokens, wanted, 3 * sizeof *tokens) == 0,
                  "%s: tokens %d, %d, %d, not %d, %d, %d", words(f), tokens[0], tokens[1],
                  tokens[2], wanted[0], wanted[1], wanted[2]);
}

START_TEST(late_programs)
{
    device *const d = fixture_device(_i);
    uint32_t first[LATE_CALLS + 1], first_allocation[LATE_CALLS + 1], at[LATE_CALLS + 1],
        at_allocation[LATE_CALLS + 1];
    int32_t wanted[3], tokens[3];
    uint32_t lives = 0;
    fixture_features(0);
    for (int i = 0; i < 2; i++) { /* once for what the driver does once */
        arm(NULL);
        live_late(d, NULL, wanted, first, first_allocation);
    }
    /* Each of the first three compiles or uses what was compiled. */
    ck_assert(first[CREATE + 1] - first[CREATE] > 100 && first[LATE + 1] - first[LATE] > 100);
    const uint32_t calls = first[LATE_CALLS], allocations = first_allocation[LATE_CALLS];
    const uint32_t step = stride == 1 ? 1 : stride / 3 + 1, few = stride == 1 ? 1 : stride / 8 + 1;
    for (uint32_t n = 0; n < calls; n += step, lives++) {
        const fault f = {n, CALL, (cl_int)(n / step)};
        live_late(d, &f, tokens, at, at_allocation);
        same_late(tokens, wanted, &f);
    }
    for (uint32_t n = 0; n < allocations; n += few, lives++) {
        const fault f = {n, ALLOCATION, 0};
        live_late(d, &f, tokens, at, at_allocation);
        same_late(tokens, wanted, &f);
    }
    arm(NULL);
    fixture_features(CLS_FEATURES_ALL);
    printf("%s, programs by need: %u calls, %u allocations, %u lives\n", d->name, (unsigned)calls,
           (unsigned)allocations, (unsigned)lives);
}
END_TEST

/* ------------------------------------------------------------------------ contexts */

/* The shape that the device has anyway: else a smaller one is tried, and compiled. */
static cls_status make_context(device *d, cls_context **out)
{
    const cls_device_info info = context_info(fixture_context(d, 1u << CLS_F32, 0, 0, 0));
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    o.tier = info.tier;
    o.work_group = info.work_group;
    o.row_group = info.row_group;
    o.vector = info.vector;
    o.shortlist = info.shortlist;
    faulty_on = faulty_memory_on = 1;
    const cls_status status = cls_context_create(d->context, d->id, &o, out);
    faulty_on = faulty_memory_on = 0;
    return status;
}

static void context_with(const reference *ref, life *l, unsigned char *output, const fault *f)
{
    const faulty_live before = faulty_alive();
    const uint32_t blocks = faulty_memory_alive();
    int fate = SURVIVED;
    cls_context *context = NULL;
    arm(f);
    cls_status status = make_context(l->d, &context);
    if (status != CLS_OK) {
        ck_assert_msg(context == NULL, "cls_context_create(), %s: failed, and gives a context",
                      words(f));
        judge(f, "cls_context_create()", status, 0, 0);
        fate = REPEATED;
        status = make_context(l->d, &context);
    }
    ck_assert_msg(status == CLS_OK, "cls_context_create(), after %s: %s", words(f),
                  cls_error_message());
    count(fate);
    if (fate == SURVIVED) { /* with a log less, it may be; but it works */
        l->context = context;
        arm(NULL);
        must(cls_context_compile(context, 0, CLS_FEATURES_ALL));
        life_begin(l);
        for (uint32_t i = 0; i < life_count; i++)
            must(life_call_make(l, i, i % 2));
        expect_output(ref, l, output, life_count - 1, f, "in a context created despite");
    }
    faulty_on = 1;
    cls_context_destroy(context);
    faulty_on = 0;
    ck_assert_msg(faulty_leaked(&before)[0] == '\0', "%s: leaks %s", words(f),
                  faulty_leaked(&before));
    ck_assert_msg(faulty_memory_alive() == blocks, "%s: leaks %u blocks", words(f),
                  faulty_memory_alive() - blocks);
}

START_TEST(contexts)
{
    device *const d = fixture_device(_i);
    cls_context *context = NULL;
    life l;
    life_open(&l, d, ready_context(d), 40);
    record(&reference_life, &l, NONE);
    unsigned char *const output = must_malloc(life_output_size(&l));
    for (int i = 0; i < 2; i++) { /* once for what the driver does once */
        arm(NULL);
        must(make_context(d, &context));
        cls_context_destroy(context);
    }
    const uint32_t calls = faulty_calls(), allocations = faulty_memory_calls();
    for (uint32_t n = 0; n < calls; n += 2 * stride - 1)
        context_with(&reference_life, &l, output, &(const fault){n, CALL, (cl_int)(n / stride)});
    for (uint32_t n = 0; n < allocations; n++)
        context_with(&reference_life, &l, output, &(const fault){n, ALLOCATION, 0});
    printf("%s, a context: %u calls, %u allocations\n", d->name, (unsigned)calls,
           (unsigned)allocations);
    free(output);
    drop(&reference_life);
    life_close(&l);
}
END_TEST

START_TEST(small_vocabulary) { every_fault(fixture_device(_i), 40); }
END_TEST

START_TEST(large_vocabulary) { every_fault(fixture_device(_i), 1500); }
END_TEST

int main(int argc, char **argv)
{
    fixture_features(CLS_FEATURES_ALL);
    stride = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : fixture_by_size(127, 61, 61);
    stride = stride != 0 ? stride : 1;
    fixture_begin(ON_DEVICES);
    add_device_test(small_vocabulary);
    add_device_test(large_vocabulary);
    add_device_test(lost_device);
    add_device_test(contexts);
    add_device_test(late_programs);
    const int status = fixture_end();
    printf("%-32s %9s %9s %9s %9s\n", "faults in", "survived", "repeated", "left out", "lost");
    for (int i = 0; i <= FAULTY_COUNT; i++)
        if (tally[i].name != NULL)
            printf("%-32s %9u %9u %9u %9u\n", tally[i].name, (unsigned)tally[i].n[SURVIVED],
                   (unsigned)tally[i].n[REPEATED], (unsigned)tally[i].n[SKIPPED],
                   (unsigned)tally[i].n[LOST]);
    return status;
}
