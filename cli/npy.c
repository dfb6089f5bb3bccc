/* SPDX-License-Identifier: MIT */
/* NumPy's .npy files, as far as the command needs them. A header is text that
 * anyone can write: every number in it is checked before it is used. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define MAGIC "\x93NUMPY"
#define HEADER_MOST 65536u
#define CHUNK ((size_t)16 << 20)

/* ---------------------------------------------------- the header's dictionary */

/* {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */
static void skip_blanks(const char **at) { *at += strspn(*at, " \t\n"); }

static bool take(const char **at, const char *token)
{
    const size_t length = strlen(token);
    skip_blanks(at);
    if (strncmp(*at, token, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool take_string(const char **at, char *text, size_t size)
{
    const char quotes[2] = {**at, '\0'};
    size_t length;
    if (*quotes != '\'' && *quotes != '"')
        return false;
    length = strcspn(++*at, quotes);
    if (length >= size || (*at)[length] == '\0')
        return false;
    memcpy(text, *at, length);
    text[length] = '\0';
    *at += length + 1;
    return true;
}

/* Plain digits: no sign, no NaN, nothing that overflows. */
static bool take_size(const char **at, uint64_t *size)
{
    uint64_t x = 0;
    skip_blanks(at);
    if (**at < '0' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        if (x > (UINT64_C(1) << 48))
            return false;
        x = x * 10 + (uint64_t)(**at - '0');
    }
    take(at, "L"); /* as Python 2 wrote them */
    *size = x;
    return true;
}

/* dims counts on above what shape holds, so that the message can say so. */
static bool take_shape(const char **at, cli_npy *array)
{
    if (!take(at, "("))
        return false;
    for (array->dims = 0; !take(at, ")"); array->dims++) {
        uint64_t size;
        if (!take_size(at, &size) || array->dims > 32)
            return false;
        if (array->dims < 2)
            array->shape[array->dims] = size;
        if (!take(at, ",")) {
            array->dims++;
            return take(at, ")");
        }
    }
    return true;
}

static bool take_header(const char *at, cli_npy *array, char descr[16], bool *fortran)
{
    unsigned seen = 0;
    if (!take(&at, "{"))
        return false;
    while (!take(&at, "}")) {
        char key[32];
        if (!take_string(&at, key, sizeof key) || !take(&at, ":"))
            return false;
        skip_blanks(&at);
        if (strcmp(key, "descr") == 0 && take_string(&at, descr, 16)) {
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            *fortran = take(&at, "True");
            if (!*fortran && !take(&at, "False"))
                return false;
            seen |= 2;
        } else if (strcmp(key, "shape") == 0 && take_shape(&at, array)) {
            seen |= 4;
        } else {
            return false;
        }
        if (!take(&at, ",") && *at != '}')
            return false;
    }
    skip_blanks(&at);
    return seen == 7 && *at == '\0';
}

/* ------------------------------------------------------------------- reading */

/* Bytes have no order; NumPy writes their types with | in place of <. */
static bool known_type(char kind, unsigned size)
{
    switch (kind) {
    case 'f':
        return size == 2 || size == 4 || size == 8;
    case 'i':
    case 'u':
        return size == 1 || size == 2 || size == 4 || size == 8;
    default:
        return kind == 'b' && size == 1;
    }
}

static int read_header(FILE *file, const char *path, cli_npy *array)
{
    unsigned char fixed[12];
    char descr[16] = "", *text;
    bool fortran = false, good;
    size_t length;
    if (fread(fixed, 1, 10, file) != 10 || memcmp(fixed, MAGIC, 6) != 0)
        return cli_fail("%s: not a .npy file", path);
    length = fixed[8] | (size_t)fixed[9] << 8;
    if (fixed[6] == 2 || fixed[6] == 3) {
        if (fread(fixed + 10, 1, 2, file) != 2)
            return cli_fail("%s: the header is cut short", path);
        length |= (size_t)fixed[10] << 16 | (size_t)fixed[11] << 24;
    } else if (fixed[6] != 1) {
        return cli_fail("%s: .npy format version %u is unknown", path, fixed[6]);
    }
    if (length > HEADER_MOST)
        return cli_fail("%s: the header is too long", path);
    if ((text = calloc(length + 1, 1)) == NULL)
        return cli_no_memory();
    if (fread(text, 1, length, file) != length) {
        free(text);
        return cli_fail("%s: the header is cut short", path);
    }
    good = strlen(text) == length && take_header(text, array, descr, &fortran);
    free(text);
    if (!good)
        return cli_fail("%s: the header cannot be understood", path);
    if (fortran && array->dims > 1)
        return cli_fail("%s: the array is in Fortran order; save it in C order", path);
    if (descr[0] == '>')
        return cli_fail("%s: the numbers are big endian (%s); save them as little endian", path, descr);
    array->kind = descr[1];
    array->size = strchr("<|", descr[0]) != NULL && strlen(descr) == 3 ? (unsigned)(descr[2] - '0') : 0;
    if (!known_type(array->kind, array->size))
        return cli_fail("%s: numbers of type '%s' are not read", path, descr);
    if (array->dims < 1 || array->dims > 2)
        return cli_fail("%s: the array has %u dimensions, not 1 or 2", path, array->dims);
    if (array->dims == 1)
        array->shape[1] = 1;
    return 0;
}

/* Memory grows with what is really there: a header alone allocates nothing. */
static int read_data(FILE *file, const char *path, cli_npy *array)
{
    const uint64_t most = (SIZE_MAX / 2) / array->size;
    size_t size, have = 0, room = 0;
    if (array->shape[1] != 0 && array->shape[0] > most / array->shape[1])
        return cli_fail("%s: the array is too large", path);
    size = (size_t)(array->shape[0] * array->shape[1]) * array->size;
    while (have < size) {
        size_t got;
        if (have == room) {
            void *grown;
            room = room > size / 2 || size < CHUNK ? size : room < CHUNK ? CHUNK : room * 2;
            if ((grown = realloc(array->data, room)) == NULL)
                return cli_fail("%s: out of memory for %zu bytes", path, room);
            array->data = grown;
        }
        got = fread((char *)array->data + have, 1, room - have, file);
        if (got == 0)
            return ferror(file) ? cli_fail("%s: cannot be read", path)
                                : cli_fail("%s: cut short: %zu bytes of data, not %zu", path, have, size);
        have += got;
    }
    if (fgetc(file) != EOF)
        return cli_fail("%s: there is more data than the header says", path);
    return 0;
}

int cli_npy_read_any(const char *path, cli_npy *array)
{
    FILE *file = fopen(path, "rb");
    int failed;
    memset(array, 0, sizeof *array);
    if (file == NULL)
        return cli_fail("%s: cannot be opened", path);
    failed = read_header(file, path, array);
    if (!failed)
        failed = read_data(file, path, array);
    fclose(file);
    if (failed) {
        free(array->data);
        array->data = NULL;
    }
    return failed;
}

int cli_npy_read(const char *path, cli_npy *array)
{
    if (cli_npy_read_any(path, array) != 0)
        return 1;
    return array->data != NULL ? 0 : cli_fail("%s: the array is empty", path);
}

int cli_logits_read(const char *path, const char *dtype_name, cli_logits *logits)
{
    static const struct {
        const char *name;
        cls_dtype dtype;
        char kind;
        unsigned size;
    } types[] = {{"f32", CLS_F32, 'f', 4}, {"f16", CLS_F16, 'f', 2}, {"bf16", CLS_BF16, 'u', 2}};
    cli_npy array;
    size_t i = 0;
    memset(logits, 0, sizeof *logits);
    if (dtype_name != NULL) {
        while (i < 3 && strcmp(types[i].name, dtype_name) != 0)
            i++;
        if (i == 3)
            return cli_fail("--dtype: '%s' is none of f32, f16, bf16", dtype_name);
    }
    if (cli_npy_read(path, &array) != 0)
        return 1;
    logits->data = array.data;
    if (dtype_name == NULL && array.kind == 'f' && array.size == 2)
        i = 1;
    if (array.kind != types[i].kind || array.size != types[i].size) {
        cli_fail(array.kind == 'u' && array.size == 2 ? "%s: uint16 logits need --dtype bf16, not %s"
                                                      : "%s: the numbers are not %s logits",
                 path, dtype_name == NULL ? "f32 or f16" : dtype_name);
    } else if (array.dims != 2) {
        cli_fail("%s: the array has one dimension, not two: [rows, vocab]", path);
    } else if (array.shape[1] > 1048576) {
        cli_fail("%s: rows of %" PRIu64 " tokens are longer than 1048576", path, array.shape[1]);
    } else if (array.shape[0] > INT32_MAX) {
        cli_fail("%s: %" PRIu64 " rows are too many", path, array.shape[0]);
    } else {
        logits->rows = (uint32_t)array.shape[0];
        logits->vocab = (uint32_t)array.shape[1];
        logits->dtype = types[i].dtype;
        logits->size = types[i].size;
        return 0;
    }
    free(logits->data);
    logits->data = NULL;
    return 1;
}

/* ------------------------------------------------------------------- writing */

int cli_npy_write(const char *path, char kind, unsigned dims, const uint64_t *shape, const void *data)
{
    char header[128], shape_text[72];
    size_t count = 1, length = 0;
    FILE *file = fopen(path, "wb");
    bool good;
    if (file == NULL)
        return cli_fail("%s: cannot be written", path);
    for (unsigned i = 0; i < dims; i++) {
        count *= (size_t)shape[i];
        length += (size_t)snprintf(shape_text + length, sizeof shape_text - length, i == 0 ? "%" PRIu64 : ", %" PRIu64,
                                   shape[i]);
    }
    /* 10 bytes before it and 118 of it: the data begin at a multiple of 64. */
    snprintf(header, sizeof header, "{'descr': '<%c4', 'fortran_order': False, 'shape': (%s%s), }", kind, shape_text,
             dims == 1 ? "," : "");
    good = fwrite(MAGIC "\x01\x00\x76\x00", 1, 10, file) == 10 && fprintf(file, "%-117s\n", header) == 118 &&
           fwrite(data, 4, count, file) == count;
    if (fclose(file) != 0 || !good)
        return cli_fail("%s: cannot be written", path);
    return 0;
}
