/* SPDX-License-Identifier: MIT */
#include "faulty.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERRORS = 6, MOST_CALLS = 1 << 16 };

static const struct {
    const char *name;
    cl_int errors[ERRORS + 1];
} calls[FAULTY_COUNT] = {
#define LIST(...) __VA_ARGS__
#define CALL(name, parameters, arguments, errors, done) {#name, {LIST errors}},
#define MAKE(name, type, parameters, arguments, errors, kind) {#name, {LIST errors}},
#define RELEASE(name, type, kind) {#name, {FAULTY_ALL}},
    FAULTY_CALLS(CALL) FAULTY_MAKERS(MAKE) FAULTY_RELEASES(RELEASE)
#undef CALL
#undef MAKE
#undef RELEASE
};

int faulty_on;
const char *faulty_options;
cl_int faulty_state;

static struct {
    faulty_call which, failed;
    uint32_t at, of_which, n, failed_at;
    cl_int code;
    int lasting;
} plan = {FAULTY_COUNT, FAULTY_COUNT, UINT32_MAX, 0, 0, 0, CL_SUCCESS, 0};
static unsigned char was[MOST_CALLS];
enum { FAULTY_NOTHING = FAULTY_KINDS };
static atomic_int live[FAULTY_KINDS + 1];

void faulty_arm(faulty_call which, uint32_t n, cl_int code, int lasting)
{
    plan.which = which;
    plan.failed = FAULTY_COUNT;
    plan.at = n;
    plan.of_which = plan.n = 0;
    plan.code = code;
    plan.lasting = lasting;
}

void faulty_disarm(void) { faulty_arm(FAULTY_COUNT, UINT32_MAX, CL_SUCCESS, 0); }

uint32_t faulty_calls(void) { return plan.n; }

faulty_call faulty_failed(void) { return plan.failed; }

uint32_t faulty_failed_at(void) { return plan.failed_at; }

cl_int faulty_code(void) { return plan.code; }

faulty_call faulty_nth_call(uint32_t n)
{
    return n < MOST_CALLS ? (faulty_call)was[n] : FAULTY_COUNT;
}

const char *faulty_name(faulty_call which)
{
    return which < FAULTY_COUNT ? calls[which].name : "none";
}

uint32_t faulty_errors(faulty_call which)
{
    uint32_t n = 0;
    while (n < ERRORS && calls[which].errors[n] != CL_SUCCESS)
        n++;
    return n;
}

faulty_live faulty_alive(void)
{
    faulty_live l;
    for (int i = 0; i < FAULTY_KINDS; i++)
        l.n[i] = atomic_load(&live[i]);
    return l;
}

const char *faulty_leaked(const faulty_live *before)
{
    static const char *const names[FAULTY_KINDS] = {"contexts", "queues",  "programs",
                                                    "kernels",  "buffers", "events"};
    static char words[200];
    const faulty_live now = faulty_alive();
    size_t at = 0;
    words[0] = '\0';
    for (int i = 0; i < FAULTY_KINDS; i++)
        if (now.n[i] != before->n[i])
            at += (size_t)snprintf(words + at, sizeof words - at, "%+d %s ",
                                   (int)(now.n[i] - before->n[i]), names[i]);
    return words;
}

/* ---------------------------------------------------------------------- calls */

/* Finds the real function. */
static void *look_up(const char *name)
{
    static void *library;
    if (library == NULL)
        library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *const found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) {
        fprintf(stderr, "no %s in libOpenCL.so.1\n", name);
        exit(99);
    }
    return found;
}

/* Returns the error of a call that must fail, or CL_SUCCESS if the call is made. */
static cl_int fault(faulty_call which)
{
    if (!faulty_on)
        return CL_SUCCESS;
    const uint32_t at = plan.which == FAULTY_COUNT ? plan.n : plan.of_which;
    const int candidate = plan.which == FAULTY_COUNT || plan.which == which;
    if (plan.n < MOST_CALLS)
        was[plan.n] = (unsigned char)which;
    plan.n++;
    plan.of_which += plan.which == which;
    if (plan.failed != FAULTY_COUNT)
        return plan.lasting ? plan.code : CL_SUCCESS;
    if (!candidate || at != plan.at)
        return CL_SUCCESS;
    plan.failed = which;
    plan.failed_at = plan.n - 1;
    if (plan.code >= 0)
        plan.code = calls[which].errors[(uint32_t)plan.code % faulty_errors(which)];
    return plan.code;
}

#define FAULTY_LIVE(kind, n) atomic_fetch_add(&live[FAULTY_##kind], (n));
#define FAULTY_EVENT \
    if (event != NULL) \
    FAULTY_LIVE(EVENTS, 1)

/* Converts a pointer to data into a pointer to a function, for which ISO C has no cast. */
#define REAL(name, parameters, type) \
    type(CL_API_CALL *real) parameters; \
    void *const found = look_up(#name); \
    memcpy(&real, &found, sizeof real)

#define CALL(name, parameters, arguments, errors, done) \
    cl_int CL_API_CALL name parameters \
    { \
        cl_int answer = fault(FAULTY_##name); \
        if (answer == CL_SUCCESS) { \
            REAL(name, parameters, cl_int); \
            answer = real arguments; \
            if (answer == CL_SUCCESS) { \
                done \
            } \
        } \
        return answer; \
    }

#define MAKE(name, type, parameters, arguments, errors, kind) \
    type CL_API_CALL name parameters \
    { \
        const cl_int answer = fault(FAULTY_##name); \
        type made = NULL; \
        if (answer == CL_SUCCESS) { \
            REAL(name, parameters, type); \
            made = real arguments; \
        } else if (code != NULL) { \
            *code = answer; \
        } \
        if (made != NULL) \
            FAULTY_LIVE(kind, 1) \
        return made; \
    }

#define RELEASE(name, type, kind) \
    cl_int CL_API_CALL name(type o) \
    { \
        const cl_int answer = fault(FAULTY_##name); \
        REAL(name, (type), cl_int); \
        const cl_int code = real(o); \
        if (code == CL_SUCCESS) \
            FAULTY_LIVE(kind, -1) \
        return answer != CL_SUCCESS ? answer : code; \
    }

FAULTY_CALLS(CALL)
FAULTY_MAKERS(MAKE)
FAULTY_RELEASES(RELEASE)

void *CL_API_CALL clSVMAlloc(cl_context context, cl_bitfield flags, size_t size, cl_uint alignment)
{
    REAL(clSVMAlloc, (cl_context, cl_bitfield, size_t, cl_uint), void *);
    return real(context, flags, size, alignment);
}

void CL_API_CALL clSVMFree(cl_context context, void *memory)
{
    REAL(clSVMFree, (cl_context, void *), void);
    real(context, memory);
}

/* The layer has no extensions. */
void *CL_API_CALL clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
                                                           const char *name)
{
    (void)platform, (void)name;
    return NULL;
}
