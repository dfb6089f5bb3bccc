/* SPDX-License-Identifier: MIT */
/* All test programs share this: devices, contexts, the size of the run, and the seed.
 *
 *     CLS_TEST_SIZE  unset: everything; "small": vocabularies up to 4,099, for
 *                    slow devices; "tiny": some hundred steps, for interpreters
 *     CLS_TEST_SEED  the seed of all random rows; printed by every program
 *     CLS_TEST_PLATFORM  the name of the only platform that may be there
 *     CLS_TEST_GROUP, CLS_TEST_TIER
 *                    the work-items of groups, and a tier by name (int64 or subgroups), where
 *                    a test chooses neither and sets no limit */
#ifndef TESTS_FIXTURE_H
#define TESTS_FIXTURE_H

#include <stdint.h>
#include <string.h>

#include <clsample.h>

#include "asserts.h"
#include "one_row.h"

/* Sets the cls_feature bits that the samplers of all contexts are compiled for when they are
 * created, in addition to their own options. Slot calls compile other features later. */
void fixture_features(uint32_t features);

/* Does the same for test programs with random requests. It adds all features that slot calls may
 * need and omits the leaner variants, which steps of random rows never launch. This leaves six
 * programs per shape and type. check_proofs proves each variant. */
void fixture_random(uint32_t features);

typedef enum test_size { TEST_TINY, TEST_SMALL, TEST_FULL } test_size;

test_size fixture_size(void);
/* Returns one of three numbers, by the size of the run. */
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
    uint32_t subgroups[FIXTURE_CONTEXTS];
    unsigned n_cached;
} device;

/* Return the number of usable devices of all platforms, and the i-th of them. */
int fixture_devices(void);
device *fixture_device(int i);

/* Returns the context of a shape (0: chosen for the device), which is created once in each test
 * program; NULL if the device does not support it. A dozen programs are compiled for each shape
 * and type, in a second each on PoCL, so tests that are not run in full use few of them: mostly the
 * default one, and a shortlist of 16 for float32. */
cls_context *fixture_context(device *d, uint32_t dtypes, uint32_t work_group, uint32_t vector,
                             uint32_t shortlist);

/* Does the same for any options. subgroups: as for test_subgroups(). */
cls_context *fixture_shaped(device *d, const cls_context_options *o, uint32_t subgroups);

/* Creates a context that the caller destroys. */
cls_context *new_context(device *d, const cls_context_options *o);

/* Make calls that must not fail. The message names the call that failed. */
#define must(call) must_status((call), #call, __FILE__, __LINE__)
void must_status(cls_status status, const char *call, const char *file, int line);
#define must_cl(code) ck_assert_int_eq((code), CL_SUCCESS)

/* Allocate memory. */
void *must_malloc(size_t size);
void *must_calloc(size_t n, size_t size);

/* Oclgrind runs one kernel at a time, and stops where commands wait for the host. */
int is_oclgrind(const device *d);

/* Return an event that the test completes, and a queue. A device may have none out of order: NULL.
 */
cl_event user_event(cl_context context);
cl_command_queue queue_in_order(device *d);
cl_command_queue queue_out_of_order(device *d);

/* Waits for an event, which must be no error, and releases it. */
void must_end(cl_event event);

/* Make calls that must fail with a status and a message that has these words. A refusal is
 * CLS_BAD_ARGUMENT, with no OpenCL error; exactly: with no other words. must_say() is about the
 * last message. */
#define must_fail(call, status, words) \
    must_fail_status((call), (status), (words), #call, __FILE__, __LINE__)
#define must_refuse(call, words) must_fail(call, CLS_BAD_ARGUMENT, words)
#define must_refuse_exactly(call, sentence) \
    do { \
        must_refuse(call, sentence); \
        ck_assert_str_eq(cls_error_message(), sentence); \
    } while (0)
#define must_say(words) must_say_words((words), __FILE__, __LINE__)
void must_fail_status(cls_status status, cls_status wanted, const char *words, const char *call,
                      const char *file, int line);
void must_say_words(const char *words, const char *file, int line);

/* Makes a call that must be refused because a field of a struct has another value, and puts the
 * struct back. */
#define must_refuse_with(of, field, value, call, words) \
    do { \
        unsigned char good_[sizeof(of)]; \
        memcpy(good_, &(of), sizeof good_); \
        (of).field = (value); \
        must_fail_status((call), CLS_BAD_ARGUMENT, (words), #field " = " #value, __FILE__, \
                         __LINE__); \
        memcpy(&(of), good_, sizeof good_); \
    } while (0)

/* A text for cls_slot_begin(), from ids and their numbers. */
#define TEXT(prompt_ids, prompts, output_ids, outputs) \
    (&(cls_text){.struct_size = sizeof(cls_text), \
                 .prompt = {(prompt_ids), (prompts)}, \
                 .output = {(output_ids), (outputs)}})

/* Return the defaults: options with as many rows and slots, a step with float32 logits. */
cls_params default_params(void);
cls_sampler_options sampler_options(uint32_t vocab, uint32_t slots);
cls_context_options default_context_options(void);
cls_step default_step(uint32_t rows, cl_mem logits);
one_row host_row(const void *logits, uint32_t vocab, const cls_params *params);

/* Return what a context says of itself, and the result of a row that must be sampled. */
cls_device_info context_info(const cls_context *context);
one_result host_result(const one_row *row);

/* Sets fields of parameters, such as "top_k=3 top_p=0.5 stages=top-p,top-k" names them. A value
 * with a point is a float. */
void params_set(cls_params *p, const char *words);

/* Samples a row of float32 logits on the host, writes its probabilities to probs[vocab] unless that
 * is NULL, and returns the number of tokens that the chain kept. */
uint32_t host_kept_count(const float *logits, uint32_t vocab, const cls_params *p, float *probs);

/* Calls cls_accept() with these tokens and slots, which may be NULL. */
cls_status accept_ints(cls_sampler *sampler, cl_command_queue queue, uint32_t rows,
                       uint32_t per_row, const cls_ints *tokens, const cls_ints *slots,
                       cl_uint n_wait, const cl_event *wait, cl_event *done);

/* Creates a buffer with these contents (NULL: zeroes), and reads a buffer. */
cl_mem buffer_of(device *d, size_t size, const void *contents);
void buffer_read(device *d, cl_mem buffer, size_t size, void *contents);
/* Releases buffers; NULL is none. */
#define release_buffers(...) \
    release_all((const cl_mem[]){__VA_ARGS__}, \
                sizeof((const cl_mem[]){__VA_ARGS__}) / sizeof(cl_mem))
void release_all(const cl_mem *buffers, size_t n);
/* Blocking: read and write a part of a buffer. */
void buffer_read_at(device *d, cl_mem buffer, size_t offset, size_t size, void *contents);
void buffer_write(device *d, cl_mem buffer, size_t offset, size_t size, const void *contents);

/* Prints the seed and, for ON_DEVICES, opens the devices. Each main() calls it before it adds the
 * tests, and ends with fixture_end(). */
typedef enum fixture_kind { ON_HOST, ON_DEVICES } fixture_kind;
void fixture_begin(fixture_kind kind);

/* Add a test that is run once, n times with _i from 0 on, or once for each device. Check has a case
 * for each test, so that CK_RUN_CASE can choose it by its name. */
#define add_test(test) add_loop_test(test, 1)
#define add_loop_test(test, n) tcase_add_loop_test(fixture_case(#test), (test), 0, (int)(n))
#define add_device_test(test) add_loop_test(test, fixture_devices())
TCase *fixture_case(const char *name);

/* Runs the tests in this process and returns the exit status for main(): 77 (skipped) if they need
 * a device and there is none. */
int fixture_end(void);

#endif
