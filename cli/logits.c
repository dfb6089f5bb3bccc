/* SPDX-License-Identifier: MIT */
/* Reads logits from a .npy file: all rows, or the selected ones. */
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

/* Fails because the type of the array does not fit. dtype_name: the value of --dtype, or NULL. */
static int refuse_type(const cli_npy *array, const char *dtype_name)
{
    char name[16];
    if (array->kind == 'u' && array->size == 2)
        return cli_fail("%s: uint16 logits are read as bfloat16: use --dtype bf16, not %s",
                        array->path, dtype_name == NULL ? "f32 or f16" : dtype_name);
    cli_npy_type(array, name);
    if (dtype_name != NULL && array->kind == 'f' && array->size != 8)
        return cli_fail("%s: the logits are %s ('%s'), not %s; leave out --dtype", array->path,
                        name, array->descr, dtype_name);
    return cli_fail("%s: the logits are %s ('%s'), not f32, f16 or bf16; convert them in NumPy by "
                    "a.astype('float32')",
                    array->path, name, array->descr);
}

/* Checks type, shape and size by the header. */
static int check_logits(const cli_npy *array, const struct type *type, const char *dtype_name,
                        const cli_picked *picked)
{
    const char *const path = array->path;
    if (array->kind != type->kind || array->size != type->size)
        return refuse_type(array, dtype_name);
    if (array->dims != 2)
        return cli_fail("%s: the array has one dimension, but logits have two: [rows, vocab]",
                        path);
    if (array->shape[1] > 1048576)
        return cli_fail("%s: a row has %" PRIu64 " tokens; the most is 1048576", path,
                        array->shape[1]);
    if (array->shape[0] > INT32_MAX)
        return cli_fail("%s: the array has %" PRIu64 " rows, which are too many", path,
                        array->shape[0]);
    if (array->bytes == 0)
        return cli_fail("%s: the array is empty", path);
    for (uint32_t i = 0; i < (picked == NULL || picked->row == NULL ? 0 : picked->count); i++)
        if (picked->row[i] >= array->shape[0])
            return cli_fail("%s: there is no row %" PRIu32 "; the file has rows 0 to %" PRIu64,
                            picked->option, picked->row[i], array->shape[0] - 1);
    return 0;
}

int cli_logits_open(const char *path, const char *dtype_name, const cli_picked *picked,
                    cli_npy *array, cli_logits *logits)
{
    size_t i = 0;
    memset(logits, 0, sizeof *logits);
    if (dtype_name != NULL) {
        while (i < 3 && strcmp(types[i].name, dtype_name) != 0)
            i++;
        if (i == 3)
            return cli_fail("--dtype: '%s' is not one of f32, f16, bf16", dtype_name);
    }
    if (cli_npy_open(path, array) != 0)
        return 1;
    if (dtype_name == NULL && array->kind == 'f' && array->size == 2)
        i = 1;
    if (check_logits(array, &types[i], dtype_name, picked) != 0) {
        cli_npy_close(array);
        return 1;
    }
    logits->file_rows = (uint32_t)array->shape[0];
    logits->rows = picked == NULL || picked->row == NULL ? logits->file_rows : picked->count;
    logits->vocab = (uint32_t)array->shape[1];
    logits->dtype = types[i].dtype;
    logits->size = types[i].size;
    return 0;
}

int cli_logits_read(const char *path, const char *dtype_name, const cli_picked *picked,
                    cli_logits *logits)
{
    cli_npy array;
    if (cli_logits_open(path, dtype_name, picked, &array, logits) != 0 ||
        cli_npy_rows(&array, picked) != 0)
        return 1;
    logits->data = array.data;
    return 0;
}

const char *cli_logits_type(cls_dtype dtype)
{
    size_t i = 0;
    while (types[i].dtype != dtype)
        i++;
    return types[i].name;
}
