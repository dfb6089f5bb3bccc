/* SPDX-License-Identifier: MIT */
/* A fault in every OpenCL call and every allocation of a whole life (life.c), one
 * at a time: the call that met it says so, nothing leaks, and either the same
 * call then succeeds and all goes on as if nothing had been, or the sampler is
 * lost and says that.
 *
 *     tests/check_faults [stride]     every so many calls, with one of its errors;
 *                                     1: all calls with all their errors */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faulty.h"
#include "faulty_memory.h"
#include "life.h"

static uint32_t stride;

/* What became of the faults in a kind of call. */
enum { SURVIVED, REPEATED, LOST, FATES };
static struct {
    const char *name;
    uint32_t n[FATES];
} tally[FAULTY_COUNT + 1];

/* A fault: in the n-th call, with one of its errors, or in the n-th allocation. */
typedef struct fault {
    uint32_t n;
    enum { CALL, ALLOCATION } in;
    cl_int error;
} fault;

static void arm(const fault *f)
{
    faulty_disarm();
    faulty_memory_arm(f != NULL && f->in == ALLOCATION ? f->n : UINT32_MAX);
    if (f != NULL && f->in == CALL)
        faulty_arm(FAULTY_COUNT, f->n, f->error, 0);
}

static int met(void)
{
    return faulty_failed() != FAULTY_COUNT || faulty_memory_failed();
}

/* For messages. Static memory. */
static const char *words(const fault *f)
{
    static char text[120];
    if (f->in == ALLOCATION)
        snprintf(text, sizeof text, "allocation %u", (unsigned)f->n);
    else
        snprintf(text, sizeof text, "call %u, %s, with %d", (unsigned)f->n, faulty_name(faulty_failed()), (int)faulty_code());
    return text;
}

/* Calls without which all goes on as well. */
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
    case FAULTY_clGetProgramBuildInfo: /* the log */
    case FAULTY_clGetEventInfo:        /* of an upload: other staging is taken */
        return 1;
    default:
        return 0;
    }
}

/* What a call says that met a fault. */
static void judge(const fault *f, const char *call, cls_status status)
{
    const char *const message = cls_error_message();
    const faulty_call which = faulty_failed();
    const cl_int code = faulty_code();
    if (status == CLS_OK) {
        ck_assert_msg(f->in == CALL && is_dispensable(which), "%s succeeds, whatever became of %s", call, words(f));
        return;
    }
    if (f->in == ALLOCATION) {
        ck_assert_msg(status == CLS_OUT_OF_MEMORY && strstr(message, "memory") != NULL, "%s, %s: %s: %s", call, words(f),
                      cls_status_name(status), message);
        ck_assert_msg(cls_error_opencl() == CL_SUCCESS, "%s, %s: OpenCL is to blame: %s", call, words(f), message);
        return;
    }
    const cls_status wanted = which == FAULTY_clBuildProgram ? CLS_BUILD_FAILED : CLS_OPENCL_ERROR;
    const int argument = status == CLS_BAD_ARGUMENT &&
                         (code == CL_INVALID_COMMAND_QUEUE || code == CL_INVALID_MEM_OBJECT ||
                          code == CL_INVALID_CONTEXT || code == CL_INVALID_DEVICE);
    ck_assert_msg(status == wanted || argument, "%s, %s: %s: %s", call, words(f), cls_status_name(status), message);
    ck_assert_msg(cls_error_opencl() == code, "%s, %s: the code is %d: %s", call, words(f), (int)cls_error_opencl(), message);
    ck_assert_msg(strstr(message, "OpenCL says") != NULL && strlen(message) > 40, "%s, %s: %s", call, words(f), message);
}

static void expect_lost(const fault *f, const char *call, cls_status status)
{
    ck_assert_msg(status == CLS_OPENCL_ERROR && cls_error_opencl() == CL_SUCCESS &&
                      strstr(cls_error_message(), "destroy the sampler") != NULL,
                  "%s, after %s: %s: %s", call, words(f), cls_status_name(status), cls_error_message());
}

/* A life without faults: what is seen after each call, and which calls it made. */
typedef struct reference {
    unsigned char *seen[64]; /* after the call of life_calls */
    uint32_t calls, allocations;
    faulty_call was[1 << 13];
} reference;

static void record(reference *ref, life *l)
{
    arm(NULL);
    life_begin(l);
    for (uint32_t i = 0; i < life_count; i++) {
        must(life_make(l, i, i % 2));
        ref->seen[i] = malloc(life_seen_size(l));
        ck_assert(ref->seen[i] != NULL);
        life_see(l, ref->seen[i]);
    }
    ref->calls = faulty_calls();
    ref->allocations = faulty_memory_calls();
    ck_assert_uint_lt(ref->calls, sizeof ref->was / sizeof ref->was[0]);
    for (uint32_t n = 0; n < ref->calls; n++)
        ref->was[n] = faulty_was(n);
}

/* Whether a fault may lose the sampler: from the call `first` on a kernel was
 * under way before it, or slot calls, if some were noted. */
static int may_lose(const fault *f, uint32_t first, int noted)
{
    int begun = 0;
    for (uint32_t n = first; n < f->n && f->in == CALL; n++)
        begun |= faulty_was(n) == FAULTY_clEnqueueNDRangeKernel || (noted && faulty_was(n) == FAULTY_clEnqueueWriteBuffer);
    return begun;
}

static void expect_seen(const reference *ref, life *l, unsigned char *seen, uint32_t i, const fault *f, const char *when)
{
    life_see(l, seen);
    const size_t size = life_seen_size(l);
    size_t at = 0;
    while (at < size && seen[at] == ref->seen[i][at])
        at++;
    ck_assert_msg(at == size, "%s, %s %s: byte %zu of %zu (outputs: %zu) differs", life_calls[i].name, when, words(f), at, size,
                  l->out_size);
}

/* Returns what became of it. */
static int live_with(const reference *ref, life *l, unsigned char *seen, const fault *f)
{
    const faulty_live before = faulty_alive();
    const uint32_t blocks = faulty_memory_alive();
    int fate = SURVIVED, noted = 0;
    arm(f);
    life_begin(l);
    for (uint32_t i = 0; i < life_count; i++) {
        const int was_met = met();
        const uint32_t first = faulty_calls();
        cls_status status = life_make(l, i, i % 2);
        if (fate == LOST && life_calls[i].what != LIFE_FREE) {
            expect_lost(f, life_calls[i].name, status);
            continue;
        }
        if (!was_met && met()) {
            judge(f, life_calls[i].name, status);
            if (status != CLS_OK) {
                fate = REPEATED;
                status = life_make(l, i, (i + 1) % 2); /* again, on the other queue */
                if (status != CLS_OK && life_calls[i].what == LIFE_STEP && may_lose(f, first, noted)) {
                    expect_lost(f, life_calls[i].name, status);
                    fate = LOST;
                    continue;
                }
            }
        }
        ck_assert_msg(status == CLS_OK, "%s, after %s: %s: %s", life_calls[i].name, words(f), cls_status_name(status),
                      cls_error_message());
        if (life_calls[i].what != LIFE_FREE)
            noted = life_calls[i].what == LIFE_SLOT;
        if (fate != LOST && met())
            expect_seen(ref, l, seen, i, f, "after");
    }
    ck_assert_msg(faulty_leaked(&before)[0] == '\0', "%s: leaks %s", words(f), faulty_leaked(&before));
    ck_assert_msg(faulty_memory_alive() == blocks, "%s: leaks %u blocks", words(f), faulty_memory_alive() - blocks);
    return fate;
}

/* How often OpenCL is asked whether uploads are over depends on the time, so the
 * last calls may not be met. */
static void count(int fate)
{
    const faulty_call which = faulty_failed();
    if (!met())
        return;
    tally[which].name = which < FAULTY_COUNT ? faulty_name(which) : "malloc() and the like";
    tally[which].n[fate]++;
}

static void every_fault(device *d, uint32_t vocab)
{
    static reference ref;
    life l;
    memset(&ref, 0, sizeof ref);
    life_open(&l, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), vocab);
    record(&ref, &l); /* and whatever the driver does once */
    unsigned char *const seen = malloc(life_seen_size(&l));
    ck_assert(seen != NULL);
    for (uint32_t n = 0; n < ref.calls; n += stride) {
        const uint32_t errors = stride == 1 ? faulty_errors(ref.was[n]) : 1;
        for (uint32_t e = 0; e < errors; e++) {
            const fault f = { n, CALL, (cl_int)(stride == 1 ? e : n / stride) };
            count(live_with(&ref, &l, seen, &f));
        }
    }
    for (uint32_t n = 0; n < ref.allocations; n++) {
        const fault f = { n, ALLOCATION, 0 };
        count(live_with(&ref, &l, seen, &f));
    }
    printf("%s, vocabulary of %u: %u calls, %u allocations\n", d->name, (unsigned)vocab, (unsigned)ref.calls,
           (unsigned)ref.allocations);
    for (uint32_t i = 0; i < life_count; i++)
        free(ref.seen[i]);
    free(seen);
    life_close(&l);
}

START_TEST(small_vocabulary)
{
    every_fault(fixture_device(_i), 40);
}
END_TEST

START_TEST(large_vocabulary)
{
    every_fault(fixture_device(_i), 1500);
}
END_TEST

static Suite *make(void)
{
    Suite *const s = suite_create("faults");
    TCase *const t = tcase_create("faults");
    tcase_set_timeout(t, 0);
    add_device_test(t, small_vocabulary);
    add_device_test(t, large_vocabulary);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    stride = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : fixture_by_size(97, 23, 11);
    stride = stride != 0 ? stride : 1;
    const int status = fixture_run(make, 1);
    printf("%-32s %9s %9s %9s\n", "faults in", "survived", "repeated", "lost");
    for (int i = 0; i <= FAULTY_COUNT; i++)
        if (tally[i].name != NULL)
            printf("%-32s %9u %9u %9u\n", tally[i].name, (unsigned)tally[i].n[SURVIVED], (unsigned)tally[i].n[REPEATED],
                   (unsigned)tally[i].n[LOST]);
    return status;
}
