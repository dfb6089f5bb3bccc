/* SPDX-License-Identifier: MIT */
/* What the fuzz targets share. A target is one function. libFuzzer calls it with inputs that it
 * generates, and replay.c with the contents of files. */
#ifndef CLS_FUZZ_H
#define CLS_FUZZ_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks a condition that must hold for every input. If it does not, the process prints one
 * sentence and aborts. */
#define demand(condition, ...) \
    do { \
        if (!(condition)) \
            broken(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)
_Noreturn void broken(const char *file, int line, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Reads every byte, so that an address sanitizer checks it. */
void look_at(const void *data, size_t size);

/* The rest of an input. Bytes beyond its end are 0. */
typedef struct input {
    const uint8_t *data;
    size_t size;
} input;
uint8_t take_byte(input *in);
uint32_t take_u32(input *in);

/* ------------------------------------------------------------------- files.c */

/* Files in memory. A target includes the code under test and replaces its fopen() by file_open(),
 * so that this code reads the input. One file may be open at a time. */
void file_holds(const uint8_t *data, size_t size); /* the contents of every file from now on */
FILE *file_open(const char *path, const char *mode);
int file_close(FILE *file);
void file_abandon(void);                   /* closes a file that is still open after a longjmp() */
const uint8_t *file_written(size_t *size); /* the last file that was written; do not free it */

/* --------------------------------------------------------------------- cli.c */

/* Where cli_die() goes on. */
extern jmp_buf refusal;

/* The message of cli_fail() or cli_die() since the last call of this function; "" if there was
 * none. */
const char *take_message(void);

#endif
