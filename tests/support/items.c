/* SPDX-License-Identifier: MIT */
/* Groups of several work-items on PoCL, whose items are coroutines.
 *
 * PoCL 3.1 makes one function of a group: it copies what lies between barriers, and what follows a
 * barrier under a condition, which takes minutes for a kernel of ours. So these kernels are
 * compiled for groups of one item, with -DWGS=N as ever, where a barrier and an item's number are
 * calls of the functions below. A launch of groups of N becomes one of as many groups of one item.
 * PoCL gets each compiled function by dlsym(), which is ours, and calls it once for a group;
 * run_group() then runs it N times, with the same local memory, on stacks of their own. At a
 * barrier an item waits for the others. They run in the order of their numbers up to one barrier
 * and in the opposite order up to the next, so that a barrier that lacks shows in what they
 * compute. An item that ends while others wait ends the process. The groups of a launch run in the
 * opposite order, too: what one writes behind its own part overwrites the next one's, which in
 * PoCL's order would overwrite it in turn. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include "items.h"

#include <stdio.h>
#include <stdlib.h>

/* The sanitizer of addresses does not know these stacks. */
#if defined(__has_feature)
#define HAS(feature) __has_feature(feature)
#else
#define HAS(feature) 0
#endif
#if !defined(__x86_64__) || !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__) || HAS(address_sanitizer) || HAS(thread_sanitizer)

void test_items(void)
{
    puts("items as coroutines are for x86-64 with glibc, without sanitizers");
    exit(77);
}
void test_fault(const char *right, const char *wrong)
{
    (void)right;
    (void)wrong;
}

#else

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hooks.h"

/* A place that no process uses, so that compiled kernels may be kept. */
#define TABLE 0x510000000000
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* OpenCL C has no pointers to functions, and PoCL links nothing but its own library. A call leaves
 * alone what the compiler may keep below the stack's pointer. */
/* clang-format off */
static const char text[] =
    "static uint items_call(ulong at, uint items)\n"
    "{\n"
    "    ulong a = *(__global ulong *)at, n = items;\n"
    "    __asm__ volatile(\"movq %%rsp, %%r12; subq $128, %%rsp; andq $-64, %%rsp;\"\n"
    "                     \"callq *%%rax; movq %%r12, %%rsp\"\n"
    "                     : \"+a\"(a), \"+D\"(n) :\n"
    "                     : \"r12\", \"rcx\", \"rdx\", \"rsi\", \"r8\", \"r9\", \"r10\", \"r11\",\n"
    "                       \"xmm0\", \"xmm1\", \"xmm2\", \"xmm3\",\n"
    "                       \"xmm4\", \"xmm5\", \"xmm6\", \"xmm7\",\n"
    "                       \"xmm8\", \"xmm9\", \"xmm10\", \"xmm11\",\n"
    "                       \"xmm12\", \"xmm13\", \"xmm14\", \"xmm15\",\n"
    "                       \"xmm16\", \"xmm17\", \"xmm18\", \"xmm19\",\n"
    "                       \"xmm20\", \"xmm21\", \"xmm22\", \"xmm23\",\n"
    "                       \"xmm24\", \"xmm25\", \"xmm26\", \"xmm27\",\n"
    "                       \"xmm28\", \"xmm29\", \"xmm30\", \"xmm31\",\n"
    "                       \"k1\", \"k2\", \"k3\", \"k4\", \"k5\", \"k6\", \"k7\",\n"
    "                       \"memory\", \"cc\");\n"
    "    return (uint)a;\n"
    "}\n"
    "#define ITEMS(i) items_call(" TEXT(TABLE) "ul + 8 * (i), WGS)\n"
    "#define barrier(fences) (void)ITEMS(0)\n"
    "#define get_local_id(dimension) ITEMS(1)\n"
    "#define get_global_id(dimension) ((uint)get_group_id(0) * WGS + ITEMS(1))\n"
    "#define reqd_work_group_size(x, y, z) reqd_work_group_size(1, 1, 1)\n";
/* clang-format on */

enum { MOST_ITEMS = 1024, STACK = 1 << 18 };

typedef void (*group_function)(void *arguments, void *context, size_t x, size_t y, size_t z);

/* What a thread runs. Item 0 runs alone until it asks for its number or waits: then it says how
 * many there are. */
typedef struct group {
    group_function function;
    void *arguments, *context;
    size_t x, y, z;
    uint32_t items, own, ended;
    void *caller, *item[MOST_ITEMS]; /* stacks' pointers */
    char *stack[MOST_ITEMS];
} group;
static _Thread_local group *now;

static _Noreturn void die(const char *why)
{
    fprintf(stderr, "items: %s\n", why);
    abort();
}

/* Saves what a function must keep on its own stack, whose pointer goes to *own, and goes on where
 * the other stack was left. */
__attribute__((naked, noinline)) static void change_stack(__attribute__((unused)) void **own,
                                                          __attribute__((unused)) void *other)
{
    __asm__("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15;"
            "movq %rsp, (%rdi); movq %rsi, %rsp;"
            "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret");
}

static void run_item(void)
{
    group *const g = now;
    g->function(g->arguments, g->context, g->x, g->y, g->z);
    g->ended++;
    change_stack(&g->item[g->own], g->caller);
    die("an item goes on behind its end");
}

/* Makes the stack of an item such that change_stack() begins run_item() on it. */
static void begin_item(group *g, uint32_t i)
{
    enum { SAVED = 6 };
    void (*const begin)(void) = run_item;
    if (g->stack[i] == NULL) {
        g->stack[i] = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (g->stack[i] == MAP_FAILED)
            die("there is no memory for stacks");
    }
    void **const top = (void **)(void *)(g->stack[i] + STACK) - SAVED - 2;
    memset(top, 0, (SAVED + 2) * sizeof *top);
    memcpy(top + SAVED, &begin, sizeof begin);
    g->item[i] = top;
}

static void learn_size(group *g, uint32_t items)
{
    if (items > MOST_ITEMS || (g->items != 1 && g->items != items))
        die("a kernel says two sizes of its group");
    g->items = items;
}

/* Called by kernels. */
static uint32_t wait_for_others(uint32_t items)
{
    group *const g = now;
    learn_size(g, items);
    change_stack(&g->item[g->own], g->caller);
    return 0;
}
static uint32_t own_number(uint32_t items)
{
    learn_size(now, items);
    return now->own;
}

static void run_group(group_function f, void *arguments, void *context, size_t x, size_t y,
                      size_t z)
{
    static _Thread_local group *of_thread;
    const size_t *const groups = context; /* PoCL's struct begins with how many there are */
    if (of_thread == NULL && (of_thread = calloc(1, sizeof *of_thread)) == NULL)
        die("there is no memory");
    group *const g = now = of_thread;
    g->function = f;
    g->arguments = arguments;
    g->context = context;
    g->x = groups[0] - 1 - x;
    g->y = groups[1] - 1 - y;
    g->z = groups[2] - 1 - z;
    g->items = 1;
    g->ended = 0;
    for (uint32_t phase = 0; g->ended == 0; phase++) {
        for (uint32_t i = 0; i < g->items; i++) {
            g->own = phase % 2 == 0 ? i : g->items - 1 - i;
            if (phase == 0)
                begin_item(g, i);
            change_stack(&g->caller, g->item[g->own]);
        }
    }
    if (g->ended != g->items)
        die("some items of a group have ended, and others wait at a barrier");
}

/* ------------------------------------------------------------------ compiled kernels */

/* A function for each compiled kernel, since PoCL passes nothing that tells them apart. */
#define FOUR(X, n) X(n##0) X(n##1) X(n##2) X(n##3)
#define FOURS(X, n) FOUR(X, n##0) FOUR(X, n##1) FOUR(X, n##2) FOUR(X, n##3)
#define SIXTEENS(X, n) FOURS(X, n##0) FOURS(X, n##1) FOURS(X, n##2) FOURS(X, n##3)
#define EACH(X) SIXTEENS(X, 0) SIXTEENS(X, 1) SIXTEENS(X, 2) SIXTEENS(X, 3)
enum {
#define NUMBER(n) NUMBER_##n,
    EACH(NUMBER) KERNELS
};
static group_function kernels[KERNELS];
static unsigned known;
#define RUN(n) \
    static void run_##n(void *arguments, void *context, size_t x, size_t y, size_t z) \
    { \
        run_group(kernels[NUMBER_##n], arguments, context, x, y, z); \
    }
EACH(RUN)
#define NAME(n) run_##n,
static const group_function runs[] = {EACH(NAME)};

/* The function that runs a compiled kernel in groups. PoCL holds a lock where it looks one up. */
static void *runner_of(void *found)
{
    group_function f, run;
    unsigned i = 0;
    memcpy(&f, &found, sizeof f);
    while (i < known && kernels[i] != f)
        i++;
    if (i == KERNELS)
        die("there are more kernels than functions for them");
    known += i == known;
    kernels[i] = f;
    run = runs[i];
    memcpy(&found, &run, sizeof found);
    return found;
}

typedef cl_int (*launch_function)(cl_command_queue, cl_kernel, cl_uint, const size_t *,
                                  const size_t *, const size_t *, cl_uint, const cl_event *,
                                  cl_event *);
static launch_function launch;
static cl_int launch_groups(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                            const size_t *offset, const size_t *global, const size_t *local,
                            cl_uint n_wait, const cl_event *wait, cl_event *done)
{
    static const size_t one[3] = {1, 1, 1};
    size_t groups[3] = {1, 1, 1};
    for (cl_uint i = 0; i < dimensions; i++)
        groups[i] = global[i] / local[i];
    return launch(queue, kernel, dimensions, offset, groups, one, n_wait, wait, done);
}

/* What programs have, and what they get in its place, which is as long. */
static const char *right_text, *wrong_text;
typedef cl_program (*source_function)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
static source_function with_source;
static cl_program with_wrong_source(cl_context context, cl_uint n, const char **strings,
                                    const size_t *lengths, cl_int *code)
{
    const char **const all = calloc(n, sizeof *all);
    char *wrong = NULL;
    for (cl_uint i = 0; all != NULL && i < n; i++) {
        const char *const at = strstr(strings[i], right_text);
        all[i] = strings[i];
        if (at == NULL || (wrong = strdup(strings[i])) == NULL)
            continue;
        memcpy(wrong + (at - strings[i]), wrong_text, strlen(wrong_text));
        all[i] = wrong;
    }
    const cl_program program = with_source(context, n, all, lengths, code);
    free(wrong);
    free(all);
    return program;
}

static void *(*find)(void *, const char *);
static void find_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (size_t i = 0; find == NULL && i < sizeof versions / sizeof *versions; i++) {
        void *const found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&find, &found, sizeof find);
    }
    if (find == NULL)
        die("there is no dlsym()");
}

/* PoCL looks up compiled kernels, and the library the functions of OpenCL. */
__attribute__((visibility("default"))) void *dlsym(void *library, const char *name)
{
    if (find == NULL)
        find_dlsym();
    void *found = find(library, name);
    if (cls_test_text != text || found == NULL)
        return found;
    if (strncmp(name, "_pocl_kernel_cls_", 17) == 0)
        return runner_of(found);
    if (strcmp(name, "clEnqueueNDRangeKernel") == 0) {
        const launch_function own = launch_groups;
        memcpy(&launch, &found, sizeof launch);
        memcpy(&found, &own, sizeof found);
    }
    if (right_text != NULL && strcmp(name, "clCreateProgramWithSource") == 0) {
        const source_function own = with_wrong_source;
        memcpy(&with_source, &found, sizeof with_source);
        memcpy(&found, &own, sizeof found);
    }
    return found;
}

void test_fault(const char *right, const char *wrong)
{
    right_text = right;
    wrong_text = wrong;
}

void test_items(void)
{
    uint32_t (*const functions[])(uint32_t) = {wait_for_others, own_number};
    void *const place = (void *)(uintptr_t)TABLE; /* NOLINT: the kernels have it */
    if (mmap(place, sizeof functions, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
        place)
        die("the place of the table is taken");
    memcpy(place, functions, sizeof functions);
    cls_test_text = text;
}

#endif
