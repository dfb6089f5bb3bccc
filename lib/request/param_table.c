/* SPDX-License-Identifier: MIT */
/* The table of parameters as an array. Checks the ranges. */
#include "request/request.h"

#include <stddef.h>

/* clang-format off */
#define FLOAT CLS_PARAM_FLOAT
#define INT CLS_PARAM_INT
#define UINT CLS_PARAM_UINT
#define UINT64 CLS_PARAM_UINT64
#define SWITCH CLS_PARAM_INT
#define CHOICE CLS_PARAM_INT
#define BYTES CLS_PARAM_BYTES
#define PARAMS CLS_PARAM_PARAMS
#define BOTH 0
#define EACH 1
#define ROW(p, id, type, field, stage, phase, initial, least, most, range) \
    {#field, type, id, phase, offsetof(cls_params, field), sizeof((cls_params *)0)->field, \
     (double)(least), (double)(most), range},
#define ROW_OF_OPTION(p, id, type, field, stage, phase, initial, least, most, range, ...) \
    ROW(p, id, type, field, stage, phase, initial, least, most, range)
#define ROW_OF_LIST(p, kind, list, kept, option, meta, key, help) \
    ROW(p, CLS_LIST_ID kept, UINT, list.count, END, BOTH, 0, 0, 0, NULL)
/* clang-format on */

const cls_param cls_param_table[] = {
    CLS_PARAMS(ROW_OF_OPTION, ) CLS_PARAMS_WITHOUT_OPTION(ROW, ) CLS_LISTS(ROW_OF_LIST, ) /* */
};
enum { PARAM_ROWS = sizeof cls_param_table / sizeof cls_param_table[0] };
const cls_param *const cls_param_end = cls_param_table + PARAM_ROWS;

const cls_param *cls_param_by_id(uint32_t id)
{
    for (int i = 0; i < PARAM_ROWS; i++)
        if (cls_param_table[i].id == id)
            return &cls_param_table[i];
    return NULL;
}

void *cls_param_in(const cls_param *param, cls_params *params)
{
    return (char *)params + param->offset;
}

/* Returns the value of a parameter, or 0 for arrays and for 64-bit numbers, which have no range. */
static double number_in(const cls_param *param, const cls_params *params)
{
    const void *const at = (const char *)params + param->offset;
    switch (param->type) {
    case CLS_PARAM_FLOAT:
        return (double)*(const float *)at;
    case CLS_PARAM_INT:
        return (double)*(const int32_t *)at;
    case CLS_PARAM_UINT:
        return (double)*(const uint32_t *)at;
    default:
        return 0.0;
    }
}

cls_status cls_params_read(const cls_params *callers, cls_params *params)
{
    return CLS_STRUCT_READ(params, callers, "params");
}

cls_status cls_param_refuse(const char *field, double value, const char *range)
{
    /* %g would round an integer to six digits. */
    const int whole = value > -1e15 && value < 1e15 && (double)(int64_t)value == value;
    return cls_refuse(whole ? "params->%s is %.0f; it must be %s"
                            : "params->%s is %g; it must be %s",
                      field, value, range);
}

cls_status cls_params_check_ranges(const cls_params *params)
{
    for (int i = 0; i < PARAM_ROWS; i++) {
        const cls_param *const param = &cls_param_table[i];
        const double value = number_in(param, params);
        if (param->range != NULL && !(value >= param->least && value <= param->most))
            return cls_param_refuse(param->field, value, param->range);
    }
    return CLS_OK;
}
