/* SPDX-License-Identifier: MIT */
/* Files in memory, reading an input byte by byte, and failed demands. */
#include "fuzz.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *held;
static size_t held_size;
static FILE *open_file;
static char *written;
static size_t written_size;
static volatile unsigned char looked_at;

void broken(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void look_at(const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        looked_at ^= ((const unsigned char *)data)[i];
}

uint8_t take_byte(input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

uint32_t take_u32(input *in)
{
    uint32_t x = 0;
    for (int i = 0; i < 32; i += 8)
        x |= (uint32_t)take_byte(in) << i;
    return x;
}

void file_holds(const uint8_t *data, size_t size)
{
    held = data;
    held_size = size;
}

/* An empty input is read from /dev/null: on some systems fmemopen() cannot open 0 bytes. */
FILE *file_open(const char *path, const char *mode)
{
    (void)path;
    demand(open_file == NULL, "a second file is opened while one is open");
    if (*mode == 'r')
        open_file = held_size == 0 ? fopen("/dev/null", "rb")
                                   : fmemopen((void *)(uintptr_t)held, held_size, "rb");
    else {
        free(written);
        written = NULL;
        open_file = open_memstream(&written, &written_size);
    }
    demand(open_file != NULL, "a file in memory cannot be opened");
    return open_file;
}

int file_close(FILE *file)
{
    demand(file == open_file, "a file is closed that is not open");
    open_file = NULL;
    return fclose(file);
}

void file_abandon(void)
{
    if (open_file != NULL)
        file_close(open_file);
}

const uint8_t *file_written(size_t *size)
{
    *size = written_size;
    return (const uint8_t *)written;
}
