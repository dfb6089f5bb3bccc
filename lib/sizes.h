/* SPDX-License-Identifier: MIT */
/* The first sizes of public structs. A program that was compiled with an older header passes the
 * size that a struct had there, and every call takes it: none is below that of the first header of
 * the interface (soname 11, version 0.12.0). */
#ifndef CLS_SIZES_H
#define CLS_SIZES_H

#include <stddef.h>

/* The last field of each struct in that header. A struct that grows keeps its row, and a new struct
 * gets one; a new soname begins with the last fields of its own header. */
#define CLS_LAST_FIELDS(X) \
    X(cls_context_options, host_threads) \
    X(cls_device_info, arithmetic) \
    X(cls_program_info, preferred_multiple) \
    X(cls_selftest_report, failed) \
    X(cls_sampler_options, host_mask_size) \
    X(cls_memory, host) \
    X(cls_text, output) \
    X(cls_infill, prefix_of) \
    X(cls_params, post_thinking) \
    X(cls_grammar_options, max_bytes) \
    X(cls_grammar_info, digest) \
    X(cls_saved_grammar, max_bytes) \
    X(cls_step, outputs) \
    X(cls_outputs, kept_set) \
    X(cls_logprobs_call, given) \
    X(cls_accept_call, rollback) \
    X(cls_verify_call, reserved) \
    X(cls_draft_call, counts) \
    X(cls_shard_options, reserved) \
    X(cls_shard_info, borders) \
    X(cls_host_candidates, random_bits) \
    X(cls_watermark_call, reserved) \
    X(cls_watermark_score, p_value)
#define CLS_LAST_FIELDS_OF_HEAD(X) X(cls_head_options, softcap) X(cls_head_call, logits)
#define CLS_LAST_FIELDS_OF_MPI(X) X(cls_mpi_options, borders)

/* The size of a struct that ends with a field. */
#define CLS_SIZE_UP_TO(type, field) \
    ((offsetof(type, field) + sizeof(((type *)0)->field) + _Alignof(type) - 1) / _Alignof(type) * \
     _Alignof(type))
/* The first size of the struct that p points to, by the table of its library. */
#define CLS_SIZE_ROW(type, field) type * : CLS_SIZE_UP_TO(type, field),
#define CLS_FIRST_SIZE(p, TABLE) _Generic((p), TABLE(CLS_SIZE_ROW) void * : 0)

#endif
