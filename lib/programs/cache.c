/* SPDX-License-Identifier: MIT */
/* Compiled programs in a folder that the caller names. No locks: whoever finds
 * nothing compiles, and the last to write wins. Whatever fails, fails silently. */
#include "programs/programs.h"

#include <stdio.h>
#include <stdlib.h>

/* More than any driver's programs; what says to be longer is none of ours. */
#define MOST_BYTES (UINT64_C(1) << 30)

/* As many writers at once, or that were killed before they were done. */
#define TEMPORARIES 64

/* The file's name: the key, the program and its type of logits; NULL without memory. */
static char *path_of(const char *dir, const uint8_t key[CLS_DIGEST], int32_t dtype,
                     const char *name)
{
    const size_t size = strlen(dir) + strlen(name) + 80;
    char *const path = malloc(size), *at = path;
    if (path == NULL)
        return NULL;
    at += snprintf(path, size, "%s/clsample-", dir);
    for (int i = 0; i < 16; i++)
        at += snprintf(at, 3, "%02x", key[i]);
    snprintf(at, strlen(name) + 24, "-%s-%d.bin", name, (int)dtype);
    return path;
}

static void *read_whole(FILE *file, const uint8_t key[CLS_DIGEST], size_t *size)
{
    uint8_t header[CLS_CONTAINER_HEADER];
    uint64_t length;
    if (fread(header, sizeof header, 1, file) != 1 || !cls_container_length(header, key, &length) ||
        length > MOST_BYTES)
        return NULL;
    *size = sizeof header + (size_t)length;
    uint8_t *const bytes = malloc(*size);
    if (bytes == NULL)
        return NULL;
    memcpy(bytes, header, sizeof header);
    if (fread(bytes + sizeof header, (size_t)length, 1, file) == 1 && fgetc(file) == EOF &&
        !ferror(file))
        return bytes;
    free(bytes);
    return NULL;
}

void *cls_cache_read(const char *dir, const uint8_t key[CLS_DIGEST], int32_t dtype,
                     const char *name, size_t *size)
{
    char *const path = *dir != '\0' ? path_of(dir, key, dtype, name) : NULL;
    FILE *const file = path != NULL ? fopen(path, "rb") : NULL;
    void *bytes = NULL;
    free(path);
    if (file == NULL)
        return NULL;
    bytes = read_whole(file, key, size);
    fclose(file);
    return bytes;
}

static int replace(const char *from, const char *to)
{
#if defined(_WIN32)
    remove(to); /* rename() replaces nothing there */
#endif
    return rename(from, to) == 0;
}

/* A file of its own for this writer; path becomes its name. */
static FILE *create_temporary(char *path)
{
    char *const end = path + strlen(path);
    FILE *file = NULL;
    for (int i = 0; i < TEMPORARIES && file == NULL; i++) {
        snprintf(end, 16, ".%d", i);
        file = fopen(path, "wbx");
    }
    return file;
}

void cls_cache_write(const char *dir, const uint8_t key[CLS_DIGEST], int32_t dtype,
                     const char *name, const void *bytes, size_t size)
{
    char *const path = *dir != '\0' ? path_of(dir, key, dtype, name) : NULL;
    char *const temporary = path != NULL ? path_of(dir, key, dtype, name) : NULL;
    FILE *const file = temporary != NULL ? create_temporary(temporary) : NULL;
    if (file != NULL) {
        int done = fwrite(bytes, size, 1, file) == 1;
        done = fclose(file) == 0 && done;
        if (!done || !replace(temporary, path))
            remove(temporary);
    }
    free(path);
    free(temporary);
}
