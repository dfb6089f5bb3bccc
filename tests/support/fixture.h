/* SPDX-License-Identifier: MIT */
/* What all test programs share: devices, contexts, the size of the run, the
 * seed.
 *
 *     CLS_TEST_SIZE  unset: everything; "small": vocabularies up to 4,099, for
 *                    slow devices; "tiny": some hundred steps, for interpreters
 *     CLS_TEST_SEED  the seed of all random rows; printed by every program */
#ifndef TESTS_FIXTURE_H
#define TESTS_FIXTURE_H

#include <stdint.h>

#include <clsample.h>

#include "asserts.h"

/* What the program's samplers are compiled for at their creation, beside what their
 * own options name: cls_feature bits. Slot calls compile the rest. */
void fixture_features(uint32_t features);

/* The same for programs of random requests: beside these features all that slot calls
 * may need, and no leaner variants, which steps of random rows never launch: six
 * programs a shape and type. What each variant computes, check_programs compares. */
void fixture_random(uint32_t features);

typedef enum test_size { TEST_TINY, TEST_SMALL, TEST_FULL } test_size;

test_size fixture_size(void);
/* One of three numbers, by the size of the run. */
uint32_t fixture_by_size(uint32_t tiny, uint32_t small, uint32_t full);
uint64_t fixture_seed(void);

#define FIXTURE_CONTEXTS 96

typedef struct device {
    char name[160];
    cl_device_id id;
    cl_context context;
    cl_command_queue queue; /* in order */
    cls_context *cached[FIXTURE_CONTEXTS];
    cls_context_options shape[FIXTURE_CONTEXTS];
    uint32_t pretended[FIXTURE_CONTEXTS];
    unsigned n_cached;
} device;

/* Every usable device of every platform that is loaded. */
int fixture_devices(void);
device *fixture_device(int i);

/* The context of a shape (0s: by device), compiled once a program; NULL if
 * the device does not allow it. */
cls_context *fixture_context(device *d, uint32_t dtypes, uint32_t work_group, uint32_t vector,
                             uint32_t shortlist);

/* For cls_limits_pretended: the compiler may assume that there are none, which
 * ordinary kernels do not survive. */
#define FIXTURE_NO_INFINITIES " -cl-finite-math-only"

/* The same of any options; pretended: cls_subgroups_pretended. With
 * cls_limits_pretended another one than without. */
cls_context *fixture_shaped(device *d, const cls_context_options *o, uint32_t pretended);

/* Calls that must not fail; the message says what did. */
#define must(call) must_status((call), #call, __FILE__, __LINE__)
void must_status(cls_status status, const char *call, const char *file, int line);
#define must_cl(code) ck_assert_int_eq((code), CL_SUCCESS)

/* Buffers with contents (or NULL: zeroes), and back. */
cl_mem buffer_of(device *d, size_t size, const void *contents);
void buffer_read(device *d, cl_mem buffer, size_t size, void *contents);

/* Adds a test, run once for each device. */
#define add_device_test(tcase, test) tcase_add_loop_test((tcase), (test), 0, fixture_devices())

/* The rest of main(): runs the suite in this process. needs_device: exit 77
 * where there is none. Returns the exit status. */
int fixture_run(Suite *(*make)(void), int needs_device);

#endif
