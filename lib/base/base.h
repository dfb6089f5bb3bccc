/* SPDX-License-Identifier: MIT */
/* What every layer uses: statuses and their sentences, structs that grow, types of logits,
 * locks and SHA-256; and the arithmetic that the host shares with the kernels. */
#ifndef CLS_BASE_H
#define CLS_BASE_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include "clsample.h"

#include <float.h>

/* The host's half decides tokens, too. */
#if FLT_EVAL_METHOD != 0 || defined(__FAST_MATH__)
#error "float arithmetic must round each operation: not -ffast-math; x86-32: -msse2 -mfpmath=sse"
#endif

#include "core/types.h"
#include "core/integers.h"
#include "core/arithmetic.h"
#include "core/philox.h"
#include "core/samplers.h"
#include "core/verify.h"

/* ----------------------------------------------- status.c and structs.c */

/* Records the sentence (printf style) and OpenCL's code for the thread and
 * returns `status`. On Windows gcc's "printf" is another than C11's. */
#if defined(__MINGW32__) && !defined(__clang__)
__attribute__((format(gnu_printf, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
cls_status
cls_fail(cls_status status, cl_int opencl, const char *format, ...);

const char *cls_opencl_name(cl_int code);

/* A thread's last failure, for calls that succeed after one inside them. */
typedef struct cls_failure {
    char message[512];
    cl_int opencl;
} cls_failure;
void cls_failure_keep(cls_failure *failure);
void cls_failure_restore(const cls_failure *failure);

/* A public struct's size in the first header of this interface (soname 5): no program has a
 * smaller one, but one that passes the size of a pointer. */
#define CLS_FIRST_SIZE(p) \
    _Generic((p), cls_params * \
             : offsetof(cls_params, only_allowed), cls_selftest_report * \
             : offsetof(cls_selftest_report, stage), cls_verify_call * \
             : offsetof(cls_verify_call, latest), cls_sampler_options * \
             : offsetof(cls_sampler_options, host_mask_size), cls_step * \
             : offsetof(cls_step, logits_map), default \
             : sizeof *(p))

/* Zeroes a public struct of the caller's size and sets its struct_size; to 0, which every use
 * refuses, where that is below the first size, and then returns 0. */
int cls_struct_init(void *object, size_t caller_size, size_t first);
#define CLS_STRUCT_INIT(p, caller_size) cls_struct_init(p, caller_size, CLS_FIRST_SIZE(p))

/* Copies a public struct of the caller's size into ours, which already holds the defaults. Refuses
 * a size below the first or beyond reason and, where the struct is not there to be written, a field
 * that is not known here and is not 0. */
cls_status cls_struct_read(void *object, size_t ours, size_t first, const void *callers,
                           const char *name, int written);
#define CLS_STRUCT_READ(p, callers, name) \
    cls_struct_read(p, sizeof *(p), CLS_FIRST_SIZE(p), callers, name, 0)
#define CLS_STRUCT_OUT(p, callers, name) \
    cls_struct_read(p, sizeof *(p), CLS_FIRST_SIZE(p), callers, name, 1)

/* Refuses a reserved field that is not 0. */
cls_status cls_reserved_check(const char *what, uint64_t value);

/* ------------------------------------------------------ types of logits */

#define CLS_DTYPES 3
static inline size_t cls_dtype_size(int32_t dtype) { return dtype == CLS_F32 ? 4 : 2; }

/* The i-th stage of a slot's chain. */
static inline uint32_t cls_slot_stage(const cls_slot *slot, uint32_t i)
{
    return slot->chain[i / 4] >> (8 * (i % 4)) & 255u;
}

/* ------------------------------------------------------------- sha256.c */

#define CLS_DIGEST 32
typedef struct cls_sha256 {
    uint32_t h[8];
    uint64_t bytes; /* so far */
    uint8_t block[64];
} cls_sha256;

void cls_sha256_begin(cls_sha256 *hash);
void cls_sha256_add(cls_sha256 *hash, const void *bytes, size_t size);
void cls_sha256_end(cls_sha256 *hash, uint8_t digest[CLS_DIGEST]);

/* --------------------------------------------------------------- lock.c */

typedef struct cls_lock cls_lock;
cls_lock *cls_lock_create(void);
void cls_lock_destroy(cls_lock *lock);
void cls_lock_take(cls_lock *lock);
void cls_lock_give(cls_lock *lock);

/* Seconds, since some time or other. */
double cls_now(void);

#endif
