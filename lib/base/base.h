/* SPDX-License-Identifier: MIT */
/* What every layer of the library uses: error messages, public structs of several sizes, types of
 * logits, locks and SHA-256. This header also includes the arithmetic that the host shares with
 * the kernels. Nothing here calls OpenCL. */
#ifndef CLS_BASE_H
#define CLS_BASE_H

#include "core/softcap.h"
#include "private.h"

#include <float.h>

/* The host computes tokens, too, and must round as the kernels do. 16 says that only numbers of 16
 * bits have their own type: GCC has it for processors with AVX512-FP16. */
#if (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16) || defined(__FAST_MATH__)
#error "floats must stay floats: not -ffast-math; x86: -mfpmath=sse; s390x: -fexcess-precision=fast"
#endif

#include "base/hooks.h"
#include "core/args.h"
#include "core/arithmetic.h"
#include "core/biases.h"
#include "core/buffers.h"
#include "core/change.h"
#include "core/effects.h"
#include "core/grammar.h"
#include "core/integers.h"
#include "core/philox.h"
#include "core/record.h"
#include "core/samplers.h"
#include "core/shards.h"
#include "core/slot.h"
#include "core/stages.h"
#include "core/state.h"
#include "core/tiles.h"
#include "core/verify.h"

/* ----------------------------------------------- status.c and structs.c */

/* Returns the status of the thread's last error. */
cls_status cls_error_status(void);

/* Returns the name of an OpenCL error code, or "an unnamed error". */
const char *cls_opencl_name(cl_int code);

/* Save and restore the thread's last error. A call that succeeds although something inside it
 * failed uses them, so that the caller still sees the error from before the call. */
typedef struct cls_saved_error {
    char message[512];
    cls_status status;
    cl_int opencl;
    size_t text_length, field_length;
} cls_saved_error;
void cls_error_save(cls_saved_error *error);
void cls_error_restore(const cls_saved_error *error);

/* Appends text to the thread's last error, before the name of OpenCL's code. */
cls_status cls_fail_further(cls_status status, const char *text);

/* Reads a struct of libclsample, in which fields that are unknown must be 0, or one that the call
 * fills. */
#define CLS_STRUCT_READ(p, callers, name) \
    cls_struct_read(p, sizeof *(p), CLS_FIRST_SIZE(p, CLS_LAST_FIELDS), callers, name, 0)
#define CLS_STRUCT_READ_OUTPUT(p, callers, name) \
    cls_struct_read(p, sizeof *(p), CLS_FIRST_SIZE(p, CLS_LAST_FIELDS), callers, name, 1)

/* Copies an output to the caller's struct, which keeps its size and gets the fields that it has. */
#define CLS_STRUCT_WRITE(p, callers) cls_struct_write(p, sizeof *(p), callers)
void cls_struct_write(const void *object, size_t our_size, void *callers);

/* Fails if a reserved field is not 0. */
cls_status cls_reserved_check(const char *name, uint64_t value);

/* Fails if a field that turns something on or off is neither 0 nor 1. Other values are kept for
 * later versions. */
cls_status cls_switch_check(const char *name, int32_t value);

/* Sets the default of the factor of a dense bias. Fails if it is no normal number or if, where
 * there is such a bias, `dtype` is not a cls_dtype. The fields are those of the struct `call`, and
 * begin with `field`. */
cls_status cls_bias_check(const char *call, int present, const char *field, int32_t dtype,
                          float *factor);

/* ------------------------------------------------------ types of logits */

#define CLS_DTYPES 3
/* Bytes of a logit. */
static inline size_t cls_dtype_size(int32_t dtype) { return dtype == CLS_F32 ? 4 : 2; }

/* Converts a float32, given by its bits, to the same number as a float16. There must be one. */
static inline uint16_t cls_f16_of(uint32_t bits)
{
    const uint32_t exponent = bits >> 23 & 255u, fraction = bits >> 13 & 0x3ffu;
    const uint32_t magnitude = exponent == 255 ? 0x7c00u | fraction
                               : exponent == 0 ? 0
                                               : (exponent - 112) << 10 | fraction;
    return (uint16_t)((bits >> 16 & 0x8000u) | magnitude);
}

/* Returns the i-th stage of a slot's chain, a CLS_STAGE_*. */
static inline uint32_t cls_slot_stage(const cls_slot *slot, uint32_t i)
{
    return slot->chain[i / 4] >> (8 * (i % 4)) & 255u;
}

/* Whether a chain has infill, which may draw an end id that earlier stages cut. */
static inline int cls_slot_infills(const cls_slot *slot)
{
    uint32_t i = 0;
    while (i < CLS_MAX_STAGES && cls_slot_stage(slot, i) != CLS_STAGE_INFILL)
        i++;
    return i < CLS_MAX_STAGES;
}

/* ------------------------------------------------------------- sha256.c */

#define CLS_DIGEST_SIZE 32
typedef struct cls_sha256 {
    uint32_t h[8];
    uint64_t bytes; /* hashed so far */
    uint8_t block[64];
} cls_sha256;

/* init, then any number of updates, then final, which writes the digest. */
void cls_sha256_init(cls_sha256 *hash);
void cls_sha256_update(cls_sha256 *hash, const void *bytes, size_t size);
void cls_sha256_final(cls_sha256 *hash, uint8_t digest[CLS_DIGEST_SIZE]);

/* --------------------------------------------------------------- hash.c */

/* Mix a word, or bytes, into a hash, and return it. */
uint64_t cls_hash_word(uint64_t hash, uint64_t word);
uint64_t cls_hash_bytes(uint64_t hash, const void *bytes, size_t size);

/* --------------------------------------------------------------- lock.c */

/* A mutex. cls_lock_create() returns NULL if there is no memory for it. */
typedef struct cls_lock cls_lock;
cls_lock *cls_lock_create(void);
void cls_lock_destroy(cls_lock *lock);
void cls_lock_acquire(cls_lock *lock);
void cls_lock_release(cls_lock *lock);

/* Returns seconds since an unspecified moment, to measure intervals. */
double cls_now(void);

/* ------------------------------------------------------------ threads.c */

#define CLS_MAX_THREADS 256

/* Calls run() for each item, in up to so many threads, 1 to CLS_MAX_THREADS, of which the first is
 * the caller's. The others end with the call. If one cannot be made, the rest do its share. */
void cls_threads_run(uint32_t threads, uint32_t items,
                     void (*run)(void *of, uint32_t thread, uint32_t item), void *of);

/* Returns the number of processors. */
uint32_t cls_processors(void);

/* Returns a number that changes with fork(). */
int64_t cls_process(void);

#endif
