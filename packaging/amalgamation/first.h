/* SPDX-License-Identifier: MIT */

/* Compile this file as C11. Each of these macros leaves out a part of the library:
 *     CLS_WITHOUT_SHARDS    one vocabulary over several devices: cls_shard_...()
 *     CLS_WITHOUT_SELFTEST  cls_selftest(), and with it the proof of each compiled program
 *     CLS_WITHOUT_BINARIES  compiled programs: cls_context_export(), options->binary and cache_dir
 *     CLS_WITHOUT_VERIFY    cls_verify(), cls_draft(): CLS_FEATURE_VERIFY
 *     CLS_WITHOUT_SEARCH    rows whose set may exceed the shortlist: CLS_FEATURE_SEARCH
 *     CLS_WITHOUT_SAMPLERS  all stages but temperature, top-k, top-p and min-p; watermarks
 *     CLS_WITHOUT_OUTPUTS   outputs of CLS_FEATURE_PROBS and CLS_FEATURE_KEPT_SETS
 *     CLS_WITHOUT_GRAMMARS  cls_grammar_create()
 *     CLS_WITHOUT_HOST      cls_context_create_host(), and SELFTEST, which compares with it
 *     CLS_WITHOUT_RECORD    options->record of a sampler
 *     CLS_WITHOUT_LAYOUT    cls_struct_field(), for bindings of other languages
 * A call that needs a part which was left out is refused by a sentence with the macro's name.
 */
#if defined CLS_WITHOUT_HOST && !defined CLS_WITHOUT_SELFTEST
#define CLS_WITHOUT_SELFTEST
#endif
#if defined CLS_WITHOUT_SAMPLERS && !defined CLS_WITHOUT_VERIFY /* its programs have all stages */
#define CLS_WITHOUT_VERIFY
#endif
#if defined CLS_WITHOUT_VERIFY || defined CLS_WITHOUT_SEARCH || defined CLS_WITHOUT_SAMPLERS || \
    defined CLS_WITHOUT_OUTPUTS || defined CLS_WITHOUT_GRAMMARS
#define CLS_SOME_FEATURES
#endif
/* A fused operation rounds once where two operations round twice, and tokens would differ. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
#ifdef __GNUC__ /* what a part that was left out alone uses, and inline functions for kernels */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#if defined(__clang__) || __GNUC__ >= 6
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif
#endif
#ifdef __MINGW32__ /* its isnan() converts a double, which it does not use, to a float */
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#endif

#define CLS_BUILD
#define CLS_PACKED
#define CL_TARGET_OPENCL_VERSION 120
#if !defined(_WIN32)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT, open() and fdopen() */
#endif
#define _FILE_OFFSET_BITS 64
#endif
#include "clsample.h"

static cls_status cls_left_out(const char *function, const char *macro);
