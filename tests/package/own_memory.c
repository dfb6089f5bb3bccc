/* SPDX-License-Identifier: MIT */
/* An allocator of a program's own, for the library in one file: amalgamation.sh compiles that with
 * -Dmalloc=own_malloc and so on. Prints a line, which is then not expected, if the library has not
 * used it or has not freed all. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static size_t allocated, alive;

static void report(void)
{
    if (allocated == 0 || alive != 0)
        printf("%zu blocks were allocated, and %zu are left\n", allocated, alive);
}

/* A block that the library gives to free() or realloc() of the system would end the program: its
 * pointer is 32 bytes behind that of the system. */
void *own_realloc(void *block, size_t size);
void *own_realloc(void *block, size_t size)
{
    char *const at = realloc(block != NULL ? (char *)block - 32 : NULL, size + 32);
    if (block == NULL && at != NULL && allocated++ == 0)
        atexit(report);
    alive += block == NULL && at != NULL;
    return at != NULL ? at + 32 : NULL;
}

void *own_malloc(size_t size);
void *own_malloc(size_t size) { return own_realloc(NULL, size); }

void *own_calloc(size_t n, size_t size);
void *own_calloc(size_t n, size_t size)
{
    char *const block = n != 0 && size > SIZE_MAX / n ? NULL : own_malloc(n * size);
    for (size_t i = 0; block != NULL && i < n * size; i++)
        block[i] = 0;
    return block;
}

void own_free(void *block);
void own_free(void *block)
{
    alive -= block != NULL;
    free(block != NULL ? (char *)block - 32 : NULL);
}
