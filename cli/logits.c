/* SPDX-License-Identifier: MIT */
/* Logits from a .npy file: all of its rows, or those that are asked for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct type {
    const char *name;
    cls_dtype dtype;
    char kind;
    unsigned size;
} types[] = {{"f32", CLS_F32, 'f', 4}, {"f16", CLS_F16, 'f', 2}, {"bf16", CLS_BF16, 'u', 2}};

/* They are not of the type that was asked for; asked: --dtype, or NULL. */
static int refuse_type(const cli_npy *array, const char *asked)
{
    char name[16];
    if (array->kind == 'u' && array->size == 2)
        return cli_fail("%s: uint16 logits need --dtype bf16, not %s", array->path,
                        asked == NULL ? "f32 or f16" : asked);
    cli_npy_type(array, name);
    if (asked != NULL && array->kind == 'f' && array->size != 8)
        return cli_fail("%s: the logits are %s ('%s'), not %s; leave out --dtype", array->path,
                        name, array->descr, asked);
    return cli_fail("%s: the logits are %s ('%s'), not f32, f16 or bf16; NumPy converts them by "
                    "a.astype('float32')",
                    array->path, name, array->descr);
}

/* What the header says of them. */
static int check_logits(const cli_npy *array, const struct type *type, const char *asked,
                        const cli_picked *picked)
{
    const char *const path = array->path;
    if (array->kind != type->kind || array->size != type->size)
        return refuse_type(array, asked);
    if (array->dims != 2)
        return cli_fail("%s: the array has one dimension, not two: [rows, vocab]", path);
    if (array->shape[1] > 1048576)
        return cli_fail("%s: rows of %" PRIu64 " tokens are longer than 1048576", path,
                        array->shape[1]);
    if (array->shape[0] > INT32_MAX)
        return cli_fail("%s: %" PRIu64 " rows are too many", path, array->shape[0]);
    if (array->bytes == 0)
        return cli_fail("%s: the array is empty", path);
    for (uint32_t i = 0; i < (picked == NULL || picked->row == NULL ? 0 : picked->count); i++)
        if (picked->row[i] >= array->shape[0])
            return cli_fail("%s: there is no row %" PRIu32 " among %" PRIu64, picked->option,
                            picked->row[i], array->shape[0]);
    return 0;
}

int cli_logits_read(const char *path, const char *dtype_name, const cli_picked *picked,
                    cli_logits *logits)
{
    cli_npy array;
    size_t i = 0;
    memset(logits, 0, sizeof *logits);
    if (dtype_name != NULL) {
        while (i < 3 && strcmp(types[i].name, dtype_name) != 0)
            i++;
        if (i == 3)
            return cli_fail("--dtype: '%s' is none of f32, f16, bf16", dtype_name);
    }
    if (cli_npy_open(path, &array) != 0)
        return 1;
    if (dtype_name == NULL && array.kind == 'f' && array.size == 2)
        i = 1;
    if (check_logits(&array, &types[i], dtype_name, picked) != 0) {
        cli_npy_close(&array);
        return 1;
    }
    if (cli_npy_rows(&array, picked) != 0)
        return 1;
    logits->data = array.data;
    logits->file_rows = (uint32_t)array.shape[0];
    logits->rows = picked == NULL || picked->row == NULL ? logits->file_rows : picked->count;
    logits->vocab = (uint32_t)array.shape[1];
    logits->dtype = types[i].dtype;
    logits->size = types[i].size;
    return 0;
}
