/* SPDX-License-Identifier: MIT */
/* What the fuzz targets share. A target is one function; libFuzzer calls it
 * with inputs that it makes up, replay.c with those of files. */
#ifndef CLS_FUZZ_H
#define CLS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold whatever the input is: else one sentence, and abort(). */
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

/* Reads every byte, which address sanitizers look at. */
void look_at(const void *data, size_t size);

/* The input from its front: what is not there any more is 0. */
typedef struct input {
    const uint8_t *data;
    size_t size;
} input;
uint8_t take_byte(input *in);
uint32_t take_u32(input *in);

/* ------------------------------------------------------------------- files.c */

/* Files in memory: a target that includes code under test reads its input by
 * that code's own fopen(). One is open at a time. */
void file_holds(const uint8_t *data,
                size_t size); /* what every file holds that is read from now on */
FILE *file_open(const char *path, const char *mode);
int file_close(FILE *file);
void file_abandon(void);                   /* closes what code left open that has jumped out */
const uint8_t *file_written(size_t *size); /* the last one that was closed after writing; ours */

/* --------------------------------------------------------------------- cli.c */

/* What cli_fail() said since this was last called; "" is nothing. */
const char *what_was_said(void);

#endif
