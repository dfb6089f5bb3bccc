/* SPDX-License-Identifier: MIT */
/* Keeps compiled programs as files in a folder that the caller names. There are no locks: a process
 * that finds no file compiles, and the last one to write a file wins. A folder that is not there is
 * refused when a context is created, since nobody wants one in vain; later errors are ignored,
 * since a program can always be compiled. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L /* open() and fdopen() */
#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
#include <unistd.h>
#endif
#include "programs/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* The size above which a file is ignored. No driver's programs are nearly as large. */
#define MAX_BYTES (UINT64_C(1) << 30)

/* Temporary files of one program, at most: one for each process that is writing it or was killed
 * while it did. */
#define MAX_TEMPORARY_FILES 64

/* Returns the file's path: the folder, half of the key, the program and its type of logits. Returns
 * NULL if there is no memory for it. */
static char *path_of(const char *dir, const uint8_t key[CLS_DIGEST_SIZE], int32_t dtype,
                     const char *name)
{
    const size_t size = strlen(dir) + strlen(name) + 80;
    char *const path = malloc(size), *end = path;
    if (path == NULL)
        return NULL;
    end += snprintf(path, size, "%s/clsample-", dir);
    for (int i = 0; i < 16; i++)
        end += snprintf(end, 3, "%02x", key[i]);
    snprintf(end, strlen(name) + 24, "-%s-%d.bin", name, (int)dtype);
    return path;
}

static void *read_whole(FILE *file, const uint8_t key[CLS_DIGEST_SIZE], size_t *size)
{
    uint8_t header[CLS_CONTAINER_HEADER];
    uint64_t length;
    if (fread(header, sizeof header, 1, file) != 1 ||
        !cls_container_payload_size(header, key, &length) || length > MAX_BYTES)
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

/* Opens a regular file. Opening a pipe, which anybody who writes the folder can put there, would
 * wait for its writer. */
static FILE *open_file(const char *path)
{
#if defined(_WIN32)
    return fopen(path, "rb");
#else
    struct stat status;
    const int number = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const int is_regular = number >= 0 && fstat(number, &status) == 0 && S_ISREG(status.st_mode);
    FILE *const file = is_regular ? fdopen(number, "rb") : NULL;
    if (number >= 0 && file == NULL)
        close(number);
    return file;
#endif
}

cls_status cls_cache_check(const char *dir)
{
    struct stat status;
    int is_usable = stat(dir, &status) == 0 && (status.st_mode & S_IFMT) == S_IFDIR;
#if !defined(_WIN32)
    is_usable = is_usable && access(dir, X_OK) == 0;
#endif
    return is_usable
               ? CLS_OK
               : cls_refuse("options->cache_dir is \"%.200s\", which is no folder whose files "
                            "can be read",
                            dir);
}

void *cls_cache_read(const char *dir, const uint8_t key[CLS_DIGEST_SIZE], int32_t dtype,
                     const char *name, size_t *size)
{
    char *const path = *dir != '\0' ? path_of(dir, key, dtype, name) : NULL;
    FILE *const file = path != NULL ? open_file(path) : NULL;
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
    remove(to); /* rename() does not replace files on Windows */
#endif
    return rename(from, to) == 0;
}

/* Creates a file that no other process writes, and appends its number to `path`. */
static FILE *create_temporary(char *path)
{
    char *const end = path + strlen(path);
    FILE *file = NULL;
    for (int i = 0; i < MAX_TEMPORARY_FILES && file == NULL; i++) {
        snprintf(end, 16, ".%d", i);
        file = fopen(path, "wbx");
    }
    return file;
}

int cls_cache_write(const char *dir, const uint8_t key[CLS_DIGEST_SIZE], int32_t dtype,
                    const char *name, const void *bytes, size_t size)
{
    char *const path = *dir != '\0' ? path_of(dir, key, dtype, name) : NULL;
    char *const temporary = path != NULL ? path_of(dir, key, dtype, name) : NULL;
    FILE *const file = temporary != NULL ? create_temporary(temporary) : NULL;
    int written = file != NULL && fwrite(bytes, size, 1, file) == 1;
    if (file != NULL) {
        written = fclose(file) == 0 && written && replace(temporary, path);
        if (!written)
            remove(temporary);
    }
    free(path);
    free(temporary);
    return written;
}
