/* SPDX-License-Identifier: MIT */
/* Reads and writes NumPy's .npy files of the kinds that the command needs. A header may contain
 * anything, so every number in it is checked before it is used. */
#if !defined(_FILE_OFFSET_BITS)
/* Seeks beyond 2 GiB need it on 32-bit systems. */
#define _FILE_OFFSET_BITS 64
#endif
#include <errno.h>
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

/* Digits only: no sign, and a number that does not overflow. */
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
    take(at, "L"); /* Python 2 wrote it */
    *size = x;
    return true;
}

/* dims also counts the dimensions that `shape` has no room for: the error message needs it. */
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

static bool take_header(const char *at, cli_npy *array, bool *fortran)
{
    unsigned found = 0; /* a bit for each of the three entries */
    if (!take(&at, "{"))
        return false;
    while (!take(&at, "}")) {
        char key[32];
        if (!take_string(&at, key, sizeof key) || !take(&at, ":"))
            return false;
        skip_blanks(&at);
        if (strcmp(key, "descr") == 0 && take_string(&at, array->descr, sizeof array->descr)) {
            found |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            *fortran = take(&at, "True");
            if (!*fortran && !take(&at, "False"))
                return false;
            found |= 2;
        } else if (strcmp(key, "shape") == 0 && take_shape(&at, array)) {
            found |= 4;
        } else {
            return false;
        }
        if (!take(&at, ",") && *at != '}')
            return false;
    }
    skip_blanks(&at);
    return found == 7 && *at == '\0';
}

/* ---------------------------------------------------------------------- types */

/* The types are those with < for little endian, or |, which NumPy writes for single bytes. */
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

const char *cli_npy_type(const cli_npy *array, char name[16])
{
    const char *const kind = array->kind == 'f'   ? "float"
                             : array->kind == 'i' ? "int"
                             : array->kind == 'u' ? "uint"
                                                  : "bool";
    snprintf(name, 16, array->kind == 'b' ? "%s" : "%s%u", kind, array->size * 8);
    return name;
}

int cli_npy_refuse(const cli_npy *array, const char *path, const char *what)
{
    char name[16], shape[64], convert[64] = "";
    const bool other_type = strstr(what, cli_npy_type(array, name)) == NULL,
               one_shape = strchr(what, '[') == strrchr(what, '[');
    snprintf(shape, sizeof shape, array->dims == 1 ? "[%" PRIu64 "]" : "[%" PRIu64 ", %" PRIu64 "]",
             array->shape[0], array->shape[1]);
    if (other_type && one_shape)
        snprintf(convert, sizeof convert, "; convert it in NumPy by a.astype('%.*s')",
                 (int)strcspn(what, " "), what);
    return cli_fail("%s: the array must be %s, but it is %s ('%s') %s%s", path, what, name,
                    array->descr, shape, convert);
}

/* ----------------------------------------------------------------- the header */

/* Sets the type from its name in the header. Error messages show the conversion in NumPy. */
static int set_type(const char *path, cli_npy *array)
{
    const char *const descr = array->descr;
    char name[16];
    array->kind = descr[0] == '\0' ? '\0' : descr[1];
    array->size = array->kind != '\0' && strlen(descr) == 3 ? (unsigned)(descr[2] - '0') : 0;
    const bool known = known_type(array->kind, array->size);
    if (known && descr[0] == '>')
        return cli_fail(
            "%s: the numbers are big endian: %s ('%s'); convert them in NumPy by a.astype('<%s')",
            path, cli_npy_type(array, name), descr, descr + 1);
    if (known && (descr[0] == '<' || descr[0] == '|'))
        return 0;
    return cli_fail(array->kind != '\0' && strchr("fciu", array->kind) != NULL
                        ? "%s: numbers of type '%s' are not supported; convert them in NumPy, "
                          "to float32 by a.astype('float32')"
                        : "%s: numbers of type '%s' are not supported",
                    path, descr);
}

static int read_header(cli_npy *array)
{
    const char *const path = array->path;
    FILE *const file = array->file;
    unsigned char fixed[12];
    char *text;
    bool fortran = false, good;
    size_t length;
    if (fread(fixed, 1, 10, file) != 10 || memcmp(fixed, MAGIC, 6) != 0)
        return ferror(file) ? cli_fail("%s: cannot be read: %s", path, strerror(errno))
                            : cli_fail("%s: not a .npy file", path);
    length = fixed[8] | (size_t)fixed[9] << 8;
    if (fixed[6] == 2 || fixed[6] == 3) {
        if (fread(fixed + 10, 1, 2, file) != 2)
            return cli_fail("%s: the header is cut short", path);
        length |= (size_t)fixed[10] << 16 | (size_t)fixed[11] << 24;
    } else if (fixed[6] != 1) {
        return cli_fail("%s: version %u of the .npy format is not supported", path, fixed[6]);
    }
    if (length > HEADER_MOST)
        return cli_fail("%s: the header is longer than 65536 bytes", path);
    if ((text = calloc(length + 1, 1)) == NULL)
        return cli_no_memory();
    if (fread(text, 1, length, file) != length) {
        free(text);
        return cli_fail("%s: the header is cut short", path);
    }
    good = strlen(text) == length && take_header(text, array, &fortran);
    free(text);
    if (!good)
        return cli_fail("%s: the header is not valid", path);
    if (set_type(path, array) != 0)
        return 1;
    if (fortran && array->dims > 1)
        return cli_fail(
            "%s: the array is in Fortran order; convert it in NumPy by numpy.ascontiguousarray(a)",
            path);
    if (array->dims < 1 || array->dims > 2)
        return cli_fail("%s: the array has %u dimensions; it must have 1 or 2", path, array->dims);
    if (array->dims == 1)
        array->shape[1] = 1;
    return 0;
}

/* -------------------------------------------------------------------- the data */

/* Compares the length of a file with its header. The length of a pipe is only known after it has
 * been read. */
static int check_length(cli_npy *array)
{
    FILE *const file = array->file;
    const off_t begin = ftello(file);
    off_t end = -1;
    if (array->shape[1] != 0 && array->shape[0] > UINT64_MAX / 16 / array->shape[1])
        return cli_fail("%s: the array is too large", array->path);
    array->bytes = array->shape[0] * array->shape[1] * array->size;
    if (begin < 0 || fseeko(file, 0, SEEK_END) != 0 || (end = ftello(file)) < begin ||
        fseeko(file, begin, SEEK_SET) != 0)
        return 0;
    const uint64_t have = (uint64_t)(end - begin);
    array->seekable = true;
    array->begin = (uint64_t)begin;
    if (have < array->bytes)
        return cli_fail("%s: the file is cut short: it has %" PRIu64
                        " bytes of data instead of %" PRIu64,
                        array->path, have, array->bytes);
    return have == array->bytes
               ? 0
               : cli_fail("%s: the file has more data than its header says", array->path);
}

/* A buffer that grows with the data that arrive. The header of a pipe alone must not make the
 * command allocate memory. */
typedef struct block {
    char *data;
    size_t capacity;
} block;

static int grow(const cli_npy *array, size_t size, block *to)
{
    const size_t capacity = array->seekable || size < CHUNK || to->capacity > size / 2 ? size
                            : to->capacity < CHUNK                                     ? CHUNK
                                                   : to->capacity * 2;
    void *const grown = realloc(to->data, capacity);
    if (grown == NULL)
        return cli_fail("%s: out of memory for %zu bytes", array->path, capacity);
    to->data = grown;
    to->capacity = capacity;
    return 0;
}

static int read_block(cli_npy *array, uint64_t size, block *to)
{
    uint64_t have = 0;
    if (size > SIZE_MAX / 2)
        return cli_fail("%s: out of memory for %" PRIu64 " bytes", array->path, size);
    while (have < size) {
        if (have == to->capacity && grow(array, (size_t)size, to) != 0)
            return 1;
        const size_t most = (size_t)((to->capacity < size ? to->capacity : size) - have);
        const size_t got = fread(to->data + have, 1, most, array->file);
        if (got == 0)
            return ferror(array->file)
                       ? cli_fail("%s: cannot be read: %s", array->path, strerror(errno))
                       : cli_fail("%s: the file is cut short: it has %" PRIu64
                                  " bytes of data instead of %" PRIu64,
                                  array->path, array->bytes_read + have, array->bytes);
        have += got;
    }
    array->bytes_read += size;
    return 0;
}

/* Copies a row to each place at which it was selected. */
static int keep_row(cli_npy *array, const cli_picked *picked, uint64_t r, const block *row,
                    size_t size)
{
    if (array->data == NULL && (array->data = calloc(picked->count, size)) == NULL)
        return cli_fail("%s: out of memory for %" PRIu32 " rows of %zu bytes", array->path,
                        picked->count, size);
    for (uint32_t i = 0; i < picked->count; i++)
        if (picked->row[i] == r)
            memcpy((char *)array->data + i * size, row->data, size);
    return 0;
}

/* Reads the selected rows: of a file by seeking, of a pipe by reading all rows. */
static int read_picked(cli_npy *array, const cli_picked *picked)
{
    const uint64_t size = array->shape[1] * array->size,
                   n = array->seekable ? picked->count : array->shape[0];
    block row = {0};
    int failed = 0;
    for (uint64_t i = 0; i < n && size != 0 && !failed; i++) {
        const uint64_t r = array->seekable ? picked->row[i] : i;
        if (array->seekable && fseeko(array->file, (off_t)(array->begin + r * size), SEEK_SET) != 0)
            failed = cli_fail("%s: cannot be read: %s", array->path, strerror(errno));
        else
            failed =
                read_block(array, size, &row) || keep_row(array, picked, r, &row, (size_t)size);
    }
    free(row.data);
    return failed;
}

int cli_npy_open(const char *path, cli_npy *array)
{
    memset(array, 0, sizeof *array);
    array->path = path;
    if ((array->file = fopen(path, "rb")) == NULL)
        return cli_fail("%s: cannot be opened: %s", path, strerror(errno));
    if (read_header(array) == 0 && check_length(array) == 0)
        return 0;
    cli_npy_close(array);
    return 1;
}

int cli_npy_at(cli_npy *array, uint64_t offset, void *to, size_t size)
{
    if (fseeko(array->file, (off_t)offset, SEEK_SET) != 0 ||
        fread(to, 1, size, array->file) != size)
        return cli_fail("%s: cannot be read: %s", array->path, strerror(errno));
    return 0;
}

void cli_npy_close(cli_npy *array)
{
    if (array->file != NULL)
        fclose(array->file);
    array->file = NULL;
    free(array->data);
    array->data = NULL;
}

int cli_npy_rows(cli_npy *array, const cli_picked *picked)
{
    block all = {0};
    int failed;
    if (picked != NULL && picked->row != NULL) {
        failed = read_picked(array, picked);
    } else {
        failed = read_block(array, array->bytes, &all);
        array->data = all.data;
    }
    if (!failed && !array->seekable && fgetc(array->file) != EOF)
        failed = cli_fail("%s: the file has more data than its header says", array->path);
    if (failed) {
        cli_npy_close(array);
        return 1;
    }
    fclose(array->file);
    array->file = NULL;
    return 0;
}

int cli_npy_read_any(const char *path, cli_npy *array)
{
    return cli_npy_open(path, array) || cli_npy_rows(array, NULL);
}

int cli_npy_read(const char *path, cli_npy *array)
{
    if (cli_npy_read_any(path, array) != 0)
        return 1;
    return array->data != NULL ? 0 : cli_fail("%s: the array is empty", path);
}

/* ------------------------------------------------------------------- writing */

int cli_npy_write(const char *path, char kind, unsigned dims, const uint64_t *shape,
                  const void *data)
{
    char header[128], shape_text[72];
    size_t count = 1, length = 0;
    FILE *file = fopen(path, "wb");
    bool good;
    if (file == NULL)
        return cli_fail("%s: cannot be written: %s", path, strerror(errno));
    for (unsigned i = 0; i < dims; i++) {
        count *= (size_t)shape[i];
        length += (size_t)snprintf(shape_text + length, sizeof shape_text - length,
                                   i == 0 ? "%" PRIu64 : ", %" PRIu64, shape[i]);
    }
    /* 10 bytes, then 118 of the dictionary: the data begin at a multiple of 64. */
    snprintf(header, sizeof header, "{'descr': '<%c4', 'fortran_order': False, 'shape': (%s%s), }",
             kind, shape_text, dims == 1 ? "," : "");
    good = fwrite(MAGIC "\x01\x00\x76\x00", 1, 10, file) == 10 &&
           fprintf(file, "%-117s\n", header) == 118 && fwrite(data, 4, count, file) == count;
    good = fclose(file) == 0 && good;
    return good ? 0 : cli_fail("%s: cannot be written: %s", path, strerror(errno));
}
