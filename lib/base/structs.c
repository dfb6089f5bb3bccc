/* SPDX-License-Identifier: MIT */
/* The defaults of public structs. Their sizes may be those of an older or a newer header, since
 * fields are only ever added at the end. */
#include "base/base.h"
#include "base/param_table.h"

#include <string.h>

/* clang-format off */
/* The defaults of parameters, by their types. */
#define FLOAT_IS(value) (float)(value)
#define INT_IS(value) value
#define UINT_IS(value) value
#define UINT64_IS(value) value
#define SWITCH_IS(value) value
#define CHOICE_IS(value) value
#define BYTES_IS(value) {value}
#define PARAMS_IS(value) value
#define PARAM(p, id, type, field, stage, phase, initial, ...) .field = type##_IS(initial),

/* The public structs with a struct_size, and their fields whose defaults are not 0. */
#define STRUCTS(X) \
    X(cls_context_options, .host_threads = 1) \
    X(cls_device_info, ) \
    X(cls_program_info, ) \
    X(cls_selftest_report, ) \
    X(cls_sampler_options, .max_rows = 1, .counts = CLS_COUNTS_ALL) \
    X(cls_memory, ) \
    X(cls_text, ) \
    X(cls_infill, ) \
    X(cls_params, CLS_PARAMS(PARAM, ) CLS_PARAMS_WITHOUT_OPTION(PARAM, )) \
    X(cls_grammar_options, .max_bytes = UINT64_C(1) << 28) \
    X(cls_grammar_info, ) \
    X(cls_saved_grammar, .max_bytes = UINT64_C(1) << 28) \
    X(cls_step, .invalid_token = -1) \
    X(cls_outputs, ) \
    X(cls_logprobs_call, ) \
    X(cls_accept_call, .per_row = 1) \
    X(cls_verify_call, .epsilon = 0.09f, .delta = 0.3f) \
    X(cls_draft_call, .min_n = 2, .max_n = 8, .fill = -1) \
    X(cls_shard_options, .shard_count = 1) \
    X(cls_shard_info, ) \
    X(cls_host_candidates, .vocab = CLS_MAX_VOCAB) \
    X(cls_watermark_call, .mixing = 0.5f) \
    X(cls_watermark_score, )
#define DEFAULTS(name, ...) \
    static const name name##_defaults = {.struct_size = sizeof(name), __VA_ARGS__};
#define ROW(name, ...) \
    {#name, &name##_defaults, sizeof(name), CLS_FIRST_SIZE((name *)0, CLS_LAST_FIELDS)},
/* clang-format on */
STRUCTS(DEFAULTS)
static const struct {
    const char *name;
    const void *defaults;
    size_t size, first_size;
} structs[] = {STRUCTS(ROW)};

cls_status cls_struct_init(const char *structure, void *object, size_t struct_size)
{
    const size_t invalid = 0;
    if (object == NULL)
        return cls_refuse("object is NULL");
    if (struct_size >= sizeof invalid)
        memcpy(object, &invalid, sizeof invalid); /* the first field of every struct */
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++) {
        if (structure == NULL || strcmp(structs[i].name, structure) != 0)
            continue;
        const size_t size = structs[i].size;
        if (struct_size < structs[i].first_size)
            return cls_refuse("struct_size is %zu; %s has at least %zu bytes", struct_size,
                              structure, structs[i].first_size);
        memset(object, 0, struct_size);
        memcpy(object, structs[i].defaults, size < struct_size ? size : struct_size);
        memcpy(object, &struct_size, sizeof struct_size);
        return CLS_OK;
    }
    return cls_refuse("structure is %s, which names no struct with a struct_size",
                      structure != NULL ? structure : "NULL");
}
