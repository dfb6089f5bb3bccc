/* SPDX-License-Identifier: MIT */
/* Reads logits from a .npy file: all rows, or the selected ones; and the text of each token from a
 * llama2.c tokenizer. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Each cls_dtype. */
static const struct type {
    const char *name;
    char kind;
    unsigned size;
} types[] = {
    [CLS_F32] = {"f32", 'f', 4}, [CLS_F16] = {"f16", 'f', 2}, [CLS_BF16] = {"bf16", 'u', 2}};

/* Fails because the type of the array does not fit. dtype: the value of --dtype, or -1. */
static void refuse_type(const cli_npy *array, int32_t dtype)
{
    char name[16];
    if (array->kind == 'u' && array->size == 2)
        cli_die("%s: uint16 logits are read as bfloat16: use --dtype bf16, not %s", array->path,
                dtype < 0 ? "f32 or f16" : types[dtype].name);
    cli_npy_type(array, name);
    if (dtype >= 0 && array->kind == 'f' && array->size != 8)
        cli_die("%s: the logits are %s ('%s'), not %s; leave out --dtype", array->path, name,
                array->descr, types[dtype].name);
    cli_die("%s: the logits are %s ('%s'), not f32, f16 or bf16; convert them in NumPy by "
            "a.astype('float32')",
            array->path, name, array->descr);
}

/* Checks type, shape and size by the header. */
static void check_logits(const cli_npy *array, cls_dtype type, int32_t dtype)
{
    const char *const path = array->path;
    if (array->kind != types[type].kind || array->size != types[type].size)
        refuse_type(array, dtype);
    if (array->dims != 2)
        cli_die("%s: the array has one dimension, but logits have two: [rows, vocab]", path);
    if (array->shape[1] > 1048576)
        cli_die("%s: a row has %" PRIu64 " tokens; the most is 1048576", path, array->shape[1]);
    if (array->bytes == 0)
        cli_die("%s: the array is empty", path);
}

void cli_logits_open(const char *path, int32_t dtype, const cli_picked *picked, cli_npy *array,
                     cli_logits *logits)
{
    memset(logits, 0, sizeof *logits);
    cli_npy_open(path, array);
    logits->dtype = dtype >= 0                               ? (cls_dtype)dtype
                    : array->kind == 'f' && array->size == 2 ? CLS_F16
                                                             : CLS_F32;
    check_logits(array, logits->dtype, dtype);
    logits->rows = cli_npy_count(array, picked);
    logits->file_rows = (uint32_t)array->shape[0];
    logits->vocab = (uint32_t)array->shape[1];
    logits->size = array->size;
}

void cli_logits_read(const char *path, int32_t dtype, const cli_picked *picked, cli_logits *logits)
{
    cli_npy array;
    cli_logits_open(path, dtype, picked, &array, logits);
    cli_npy_rows(&array, picked);
    logits->data = array.data;
}

const char *cli_logits_type(cls_dtype dtype) { return types[dtype].name; }

/* ----------------------------------------------------------------- token texts */

void cli_pieces_read(const char *path, uint32_t vocab, cli_pieces *pieces)
{
    FILE *file = fopen(path, "rb");
    int32_t longest, length = 0;
    bool good;
    if (file == NULL)
        cli_die("%s: cannot be opened: %s", path, strerror(errno));
    pieces->text = cli_alloc(vocab, sizeof *pieces->text);
    good = fread(&longest, 4, 1, file) == 1;
    for (uint32_t i = 0; i < vocab && good; i++) {
        char bytes[256], *text = pieces->text[i];
        float score;
        good = fread(&score, 4, 1, file) == 1 && fread(&length, 4, 1, file) == 1 && length >= 0 &&
               (size_t)length < sizeof bytes &&
               fread(bytes, 1, (size_t)length, file) == (size_t)length;
        if (!good)
            break;
        for (int32_t c = 0; c < length; c++) /* ASCII only: columns count bytes */
            bytes[c] = bytes[c] < 32 || bytes[c] > 126 ? '?' : bytes[c];
        snprintf(text, sizeof *pieces->text, "'%.*s'", length > 9 ? 9 : length, bytes);
    }
    fclose(file);
    pieces->count = vocab;
    if (!good)
        cli_die("%s: not a llama2.c tokenizer with %" PRIu32 " pieces, one for each logit of a row",
                path, vocab);
}

void cli_pieces_name(const cli_pieces *pieces, int32_t token, char name[16])
{
    if (token < 0 || (uint32_t)token >= pieces->count)
        snprintf(name, 16, "#%" PRId32, token);
    else
        memcpy(name, pieces->text[token], 16);
}
