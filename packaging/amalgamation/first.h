/* SPDX-License-Identifier: MIT */

/* Compile this file as C11. Each of these macros leaves out a part of the library:
 *     CLS_WITHOUT_SHARDS    one vocabulary over several devices: cls_shard_...()
 *     CLS_WITHOUT_SELFTEST  cls_selftest(), and with it the proof of each compiled program
 *     CLS_WITHOUT_BINARIES  compiled programs: cls_context_export(), options->binary and cache_dir
 */
/* A fused operation rounds once where two operations round twice, and tokens would differ. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
#ifdef __GNUC__ /* what a part that was left out alone uses, and inline functions for kernels */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#if defined(__clang__) || __GNUC__ >= 6
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif
#endif
#ifdef __MINGW32__ /* its isnan() converts a double, which it does not use, to a float */
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#endif

#define CLS_BUILD
#define CL_TARGET_OPENCL_VERSION 120
#if !defined(_WIN32)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT, open() and fdopen() */
#endif
#define _FILE_OFFSET_BITS 64
#endif
#include "clsample.h"
