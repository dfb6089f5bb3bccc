/* SPDX-License-Identifier: MIT */
/* Reads arrays from .npy files: logits, masks and biases of a step, and tables of prefixes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "rows/kinds.h"

/* ---------------------------------------------------------------------- logits */

/* Fails because the type of the array does not fit. dtype: the value of --dtype, or -1. */
static void refuse_type(const cli_npy *array, int32_t dtype)
{
    char name[16];
    if (array->kind == 'u' && array->size == 2)
        cli_die("%s: uint16 logits are read as bfloat16: use --dtype bf16, not %s", array->path,
                dtype < 0 ? "f32 or f16" : dtype_names[dtype]);
    cli_npy_type(array, name);
    if (dtype >= 0 && array->kind == 'f' && array->size != 8)
        cli_die("%s: the logits are %s ('%s'), not %s; leave out --dtype", array->path, name,
                array->descr, dtype_names[dtype]);
    cli_die("%s: the logits are %s ('%s'), not f32, f16 or bf16; convert them in NumPy by "
            "a.astype('float32')",
            array->path, name, array->descr);
}

/* Checks type, shape and size by the header. */
static void check_logits(const cli_npy *array, int32_t type, int32_t dtype)
{
    const char *const path = array->path;
    if (array->kind != (type == CLS_BF16 ? 'u' : 'f') || array->size != dtype_size(type))
        refuse_type(array, dtype);
    if (array->dims != 2)
        cli_die("%s: the array has one dimension, but logits have two: [rows, vocab]", path);
    if (array->shape[1] > 1048576)
        cli_die("%s: a row has %" PRIu64 " tokens; the most is 1048576", path, array->shape[1]);
}

/* ------------------------------------------------------------ masks and biases */

static bool is_bool(const cli_npy *array) { return array->size == 1 && array->kind != 'i'; }

static void check_mask(const cli_npy *array)
{
    if (array->dims != 2 || (!is_bool(array) && (array->size != 4 || array->kind == 'f')))
        cli_npy_refuse(array, "bool [rows, vocab], or int32 [rows, words] of 32 tokens each");
    if (array->shape[1] > (is_bool(array) ? 1048576 : 32768))
        cli_die("%s: rows of %" PRIu64 " elements are longer than any vocabulary", array->path,
                array->shape[1]);
}

static void check_bias(const cli_npy *array)
{
    if (array->dims != 2 ||
        !(array->kind == 'f' ? array->size != 8 : array->kind == 'u' && array->size == 2))
        cli_npy_refuse(array, "float32 or float16 [rows, vocab], or bfloat16 as uint16");
}

/* ------------------------------------------------------------------------- all */

void cli_array_open(cli_input what, const char *path, int32_t dtype, cli_npy *npy, cli_array *array)
{
    memset(array, 0, sizeof *array);
    cli_npy_open(path, npy);
    if (what == CLI_MASK) {
        check_mask(npy);
        array->type = is_bool(npy) ? CLS_MASK_BOOL : CLS_MASK_PACKED;
    } else {
        array->type = npy->kind == 'f' && npy->size == 2 ? CLS_F16 : CLS_F32;
        if (what == CLI_LOGITS && dtype >= 0)
            array->type = dtype;
        if (what == CLI_BIAS && npy->kind == 'u')
            array->type = CLS_BF16;
        if (what == CLI_LOGITS)
            check_logits(npy, array->type, dtype);
        else
            check_bias(npy);
    }
    if (npy->bytes == 0)
        cli_die("%s: the array is empty", path);
    array->file_rows = cli_npy_count(npy, NULL);
    array->width = (uint32_t)npy->shape[1];
    array->size = npy->size;
}

void cli_array_read(cli_npy *npy, const cli_picked *picked, cli_array *array)
{
    array->rows = cli_npy_count(npy, picked);
    array->picked = picked;
    cli_npy_rows(npy, picked);
    array->data = npy->data;
}

void cli_prefixes_read(const char *path, uint32_t vocab, cls_infill *infill)
{
    cli_npy array;
    infill->struct_size = sizeof *infill;
    if (path == NULL) {
        infill->prefix_of = memset(cli_alloc(vocab, 4), -1, vocab * (size_t)4);
        return;
    }
    cli_npy_read(path, &array);
    infill->prefix_of = array.data;
    if (array.kind != 'i' || array.size != 4 || array.dims != 1)
        cli_npy_refuse(&array, "int32 [vocab]");
    if (array.shape[0] != vocab)
        cli_die("%s: the array has %" PRIu64 " elements, but the vocabulary has %" PRIu32 " tokens",
                path, array.shape[0], vocab);
}
