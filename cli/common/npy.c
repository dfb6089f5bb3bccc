/* SPDX-License-Identifier: MIT */
/* Reads and writes NumPy's .npy files of the kinds that the command needs. A header may contain
 * anything, so every number in it is checked before it is used. */
#if !defined(_FILE_OFFSET_BITS)
/* Seeks beyond 2 GiB need it on 32-bit systems. */
#define _FILE_OFFSET_BITS 64
#endif
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

#define MAGIC "\x93NUMPY"
#define HEADER_MOST 65536u
#define CHUNK ((size_t)16 << 20)

/* ---------------------------------------------------- the header's dictionary */

/* The dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } as JSON, which has
 * other brackets and words, and neither commas at the end nor the L of Python 2's integers. */
static char *to_json(const char *at)
{
    char *const json = cli_alloc(strlen(at) + 1, 1), *to = json;
    for (bool quoted = false; *at != '\0'; at++) {
        const char next = at[1 + strspn(at + 1, " \t\n")];
        if (*at == '\'') {
            quoted = !quoted;
            *to++ = '"';
        } else if (quoted) {
            *to++ = *at;
        } else if (*at != 'L' && (*at != ',' || (next != ')' && next != '}'))) {
            *to++ = *at == '(' ? '[' : *at == ')' ? ']' : (char)tolower((unsigned char)*at);
        }
    }
    return json;
}

/* dims also counts the dimensions that array->shape has no room for: the message needs it. */
static bool take_header(const char *text, cli_npy *array, int *fortran)
{
    const char *descr;
    json_t *const header = json_loads(to_json(text), JSON_REJECT_DUPLICATES, NULL), *shape;
    if (json_unpack_ex(header, NULL, JSON_STRICT, "{s:s, s:b, s:o}", "descr", &descr,
                       "fortran_order", fortran, "shape", &shape) != 0 ||
        !json_is_array(shape) || strlen(descr) >= sizeof array->descr)
        return false;
    strcpy(array->descr, descr);
    array->dims = (unsigned)json_array_size(shape);
    for (unsigned i = 0; i < array->dims; i++) {
        json_t *const size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return false;
        if (i < 2)
            array->shape[i] = (uint64_t)json_integer_value(size);
    }
    return true;
}

/* ---------------------------------------------------------------------- types */

/* The types are those with <, for little endian, or |, which NumPy writes for single bytes. */
static bool known_type(const char *descr)
{
    return strlen(descr) == 3 && strstr("f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1", descr + 1) != NULL;
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

void cli_npy_refuse(const cli_npy *array, const char *what)
{
    char name[16], shape[64], convert[64] = "";
    const bool other_type = strstr(what, cli_npy_type(array, name)) == NULL,
               one_shape = strchr(what, '[') == strrchr(what, '[');
    snprintf(shape, sizeof shape, array->dims == 1 ? "[%" PRIu64 "]" : "[%" PRIu64 ", %" PRIu64 "]",
             array->shape[0], array->shape[1]);
    if (other_type && one_shape)
        snprintf(convert, sizeof convert, "; convert it in NumPy by a.astype('%.*s')",
                 (int)strcspn(what, " "), what);
    cli_die("%s: the array must be %s, but it is %s ('%s') %s%s", array->path, what, name,
            array->descr, shape, convert);
}

/* ----------------------------------------------------------------- the header */

/* Sets the type from its name in the header. Error messages show the conversion in NumPy. */
static void set_type(cli_npy *array)
{
    const char *const path = array->path, *const descr = array->descr;
    char name[16];
    array->kind = descr[0] == '\0' ? '\0' : descr[1];
    array->size = array->kind != '\0' && strlen(descr) == 3 ? (unsigned)(descr[2] - '0') : 0;
    const bool known = known_type(descr);
    if (known && descr[0] == '>')
        cli_die(
            "%s: the numbers are big endian: %s ('%s'); convert them in NumPy by a.astype('<%s')",
            path, cli_npy_type(array, name), descr, descr + 1);
    if (known && (descr[0] == '<' || descr[0] == '|'))
        return;
    cli_die(array->kind != '\0' && strchr("fciu", array->kind) != NULL
                ? "%s: numbers of type '%s' are not supported; convert them in NumPy, "
                  "to float32 by a.astype('float32')"
                : "%s: numbers of type '%s' are not supported",
            path, descr);
}

static void read_header(cli_npy *array)
{
    const char *const path = array->path;
    FILE *const file = array->file;
    unsigned char fixed[12];
    char *text;
    int fortran = 0;
    size_t length;
    if (fread(fixed, 1, 10, file) != 10 || memcmp(fixed, MAGIC, 6) != 0)
        cli_die(ferror(file) ? "%s: cannot be read: %s" : "%s: not a .npy file", path,
                strerror(errno));
    length = fixed[8] | (size_t)fixed[9] << 8;
    if (fixed[6] == 2 || fixed[6] == 3) {
        if (fread(fixed + 10, 1, 2, file) != 2)
            cli_die("%s: the header is cut short", path);
        length |= (size_t)fixed[10] << 16 | (size_t)fixed[11] << 24;
    } else if (fixed[6] != 1) {
        cli_die("%s: version %u of the .npy format is not supported", path, fixed[6]);
    }
    if (length > HEADER_MOST)
        cli_die("%s: the header is longer than 65536 bytes", path);
    text = cli_alloc(length + 1, 1);
    if (fread(text, 1, length, file) != length)
        cli_die("%s: the header is cut short", path);
    if (strlen(text) != length || !take_header(text, array, &fortran))
        cli_die("%s: the header is not valid", path);
    set_type(array);
    if (fortran && array->dims > 1)
        cli_die(
            "%s: the array is in Fortran order; convert it in NumPy by numpy.ascontiguousarray(a)",
            path);
    if (array->dims < 1 || array->dims > 2)
        cli_die("%s: the array has %u dimensions; it must have 1 or 2", path, array->dims);
    if (array->dims == 1)
        array->shape[1] = 1;
}

/* -------------------------------------------------------------------- the data */

_Noreturn static void refuse_short(const cli_npy *array, uint64_t have)
{
    cli_die("%s: the file is cut short: it has %" PRIu64 " bytes of data instead of %" PRIu64,
            array->path, have, array->bytes);
}

/* Compares the length of a file with its header. The length of a pipe is only known after it has
 * been read. */
static void check_length(cli_npy *array)
{
    FILE *const file = array->file;
    const off_t begin = ftello(file);
    off_t end = -1;
    if (array->shape[1] != 0 && array->shape[0] > UINT64_MAX / 16 / array->shape[1])
        cli_die("%s: the array is too large", array->path);
    array->bytes = array->shape[0] * array->shape[1] * array->size;
    if (begin < 0 || fseeko(file, 0, SEEK_END) != 0 || (end = ftello(file)) < begin ||
        fseeko(file, begin, SEEK_SET) != 0)
        return;
    const uint64_t have = (uint64_t)(end - begin);
    array->seekable = true;
    array->begin = (uint64_t)begin;
    if (have < array->bytes)
        refuse_short(array, have);
    if (have != array->bytes)
        cli_die("%s: the file has more data than its header says", array->path);
}

void *cli_bytes_read(const char *path, size_t *size)
{
    FILE *const file = fopen(path, "rb");
    char *bytes = NULL;
    size_t got = 0, room = 0;
    if (file == NULL)
        cli_die("%s: cannot be opened: %s", path, strerror(errno));
    do {
        room = room == 0 ? 65536 : 2 * room;
        bytes = cli_grow(bytes, room, 1);
        got += fread(bytes + got, 1, room - got, file);
    } while (got == room);
    if (ferror(file))
        cli_die("%s: cannot be read: %s", path, strerror(errno));
    fclose(file);
    *size = got;
    return bytes;
}

/* Reads `size` bytes. The header of a pipe alone must not make the command allocate memory, so the
 * memory grows with the data that arrive. */
static void read_block(cli_npy *array, uint64_t size, void **data)
{
    for (uint64_t have = 0, room = 0; have < size;) {
        if (have == room) {
            room = array->seekable || room > size / 2 || size < CHUNK ? size
                   : room < CHUNK                                     ? CHUNK
                                                                      : 2 * room;
            if (room > SIZE_MAX / 2)
                cli_die("%s: out of memory for %" PRIu64 " bytes", array->path, size);
            *data = cli_grow(*data, (size_t)room, 1);
        }
        const size_t got = fread((char *)*data + have, 1, (size_t)(room - have), array->file);
        if (got == 0 && ferror(array->file))
            cli_die("%s: cannot be read: %s", array->path, strerror(errno));
        if (got == 0)
            refuse_short(array, array->bytes_read + have);
        have += got;
    }
    array->bytes_read += size;
}

/* Numbers of .npy files are little-endian here: turns them where the machine's are not. */
static void turn(void *data, uint64_t bytes, unsigned size)
{
    const uint16_t one = 1;
    unsigned char first, *const at = data;
    memcpy(&first, &one, 1);
    for (uint64_t i = 0; first == 0 && i < bytes; i += size)
        for (unsigned k = 0; k < size / 2; k++) {
            const unsigned char byte = at[i + k];
            at[i + k] = at[i + size - 1 - k];
            at[i + size - 1 - k] = byte;
        }
}

/* Reads the selected rows: of a file by seeking, of a pipe by reading all rows. */
static void read_picked(cli_npy *array, const cli_picked *picked)
{
    const size_t size = (size_t)array->shape[1] * array->size;
    char *const rows = cli_alloc(picked->count, size);
    void *row = NULL;
    array->data = rows;
    for (uint32_t i = 0; array->seekable && i < picked->count; i++)
        cli_npy_at(array, array->begin + picked->row[i] * (uint64_t)size, rows + i * size, size);
    for (uint64_t r = 0; !array->seekable && r < array->shape[0]; r++) {
        read_block(array, size, &row);
        for (uint32_t i = 0; i < picked->count; i++)
            if (picked->row[i] == r)
                memcpy(rows + i * size, row, size);
    }
    cli_free(row);
}

void cli_npy_open(const char *path, cli_npy *array)
{
    memset(array, 0, sizeof *array);
    array->path = path;
    if ((array->file = fopen(path, "rb")) == NULL)
        cli_die("%s: cannot be opened: %s", path, strerror(errno));
    read_header(array);
    check_length(array);
}

void cli_npy_at(cli_npy *array, uint64_t offset, void *to, size_t size)
{
    if (fseeko(array->file, (off_t)offset, SEEK_SET) != 0 ||
        fread(to, 1, size, array->file) != size)
        cli_die("%s: cannot be read: %s", array->path, strerror(errno));
}

void cli_npy_close(cli_npy *array)
{
    if (array->file != NULL)
        fclose(array->file);
    array->file = NULL;
}

void cli_npy_rows(cli_npy *array, const cli_picked *picked)
{
    const bool some = picked != NULL && picked->row != NULL;
    if (some)
        read_picked(array, picked);
    else
        read_block(array, array->bytes, &array->data);
    turn(array->data, some ? picked->count * array->shape[1] * array->size : array->bytes,
         array->size);
    if (!array->seekable && fgetc(array->file) != EOF)
        cli_die("%s: the file has more data than its header says", array->path);
    cli_npy_close(array);
}

uint32_t cli_npy_count(const cli_npy *array, const cli_picked *picked)
{
    if (array->shape[0] > INT32_MAX)
        cli_die("%s: the array has %" PRIu64 " rows, which are too many", array->path,
                array->shape[0]);
    if (picked == NULL || picked->row == NULL)
        return (uint32_t)array->shape[0];
    for (uint32_t i = 0; i < picked->count; i++)
        if (picked->row[i] >= array->shape[0])
            cli_die("%s: there is no row %" PRIu32 "; the file has rows 0 to %" PRIu64,
                    picked->option, picked->row[i], array->shape[0] - 1);
    return picked->count;
}

void cli_npy_read(const char *path, cli_npy *array)
{
    cli_npy_open(path, array);
    cli_npy_rows(array, NULL);
}

/* ------------------------------------------------------------------- writing */

void cli_npy_write(const char *path, char kind, unsigned dims, const uint64_t *shape,
                   const void *data)
{
    char header[128], shape_text[72];
    size_t count = 1, length = 0;
    FILE *file = fopen(path, "wb");
    bool good;
    if (file == NULL)
        cli_die("%s: cannot be written: %s", path, strerror(errno));
    for (unsigned i = 0; i < dims; i++) {
        count *= (size_t)shape[i];
        length += (size_t)snprintf(shape_text + length, sizeof shape_text - length,
                                   i == 0 ? "%" PRIu64 : ", %" PRIu64, shape[i]);
    }
    /* 10 bytes, then 118 of the dictionary: the data begin at a multiple of 64. */
    snprintf(header, sizeof header, "{'descr': '<%c4', 'fortran_order': False, 'shape': (%s%s), }",
             kind, shape_text, dims == 1 ? "," : "");
    good = fwrite(MAGIC "\x01\x00\x76\x00", 1, 10, file) == 10 &&
           fprintf(file, "%-117s\n", header) == 118;
    for (size_t at = 0, n; at < 4 * count && good; at += n) {
        unsigned char some[4096];
        n = 4 * count - at < sizeof some ? 4 * count - at : sizeof some;
        memcpy(some, (const char *)data + at, n);
        turn(some, n, 4);
        good = fwrite(some, 1, n, file) == n;
    }
    good = fclose(file) == 0 && good;
    if (!good)
        cli_die("%s: cannot be written: %s", path, strerror(errno));
}
