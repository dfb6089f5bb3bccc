/* SPDX-License-Identifier: MIT */
/* What the files are that a command line names. */
#if !defined(_FILE_OFFSET_BITS)
/* stat() fails for large files on 32-bit systems without it. */
#define _FILE_OFFSET_BITS 64
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

cli_file_kind cli_kind_of(const char *path)
{
    struct stat file;
    return stat(path, &file) != 0 ? CLI_NO_FILE : S_ISREG(file.st_mode) ? CLI_REGULAR : CLI_OTHER;
}

bool cli_ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

static bool is_same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The part of a path after the folder, whose inode it sets. */
static const char *name_in(const char *path, struct stat *folder)
{
    const char *const slash = strrchr(path, '/'), *const name = slash == NULL ? path : slash + 1;
    char text[4096];
    snprintf(text, sizeof text, "%.*s.", (int)(name - path), path);
    return stat(text, folder) == 0 ? name : NULL;
}

/* Whether two paths are those of one file, which need not exist yet. Devices and pipes, which
 * nothing overwrites, may be named twice. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    const bool has_a = stat(a, &x) == 0, has_b = stat(b, &y) == 0;
    if (has_a || has_b)
        return has_a && has_b && S_ISREG(x.st_mode) && is_same_inode(&x, &y);
    const char *const name_a = name_in(a, &x), *const name_b = name_in(b, &y);
    return name_a != NULL && name_b != NULL && is_same_inode(&x, &y) && strcmp(name_a, name_b) == 0;
}

static const char *file_of(const cli_option *option)
{
    const bool names = option->type == CLI_INPUT || option->type == CLI_OUTPUT;
    return names ? *(const char **)option->value : NULL;
}

void cli_outputs_check(const cli_option *options)
{
    for (const cli_option *out = options; out->name != NULL; out++)
        for (const cli_option *other = options; other->name != NULL; other++) {
            const char *const path = file_of(out), *const also = file_of(other);
            if (out->type == CLI_OUTPUT && other != out && path != NULL && also != NULL &&
                is_same_file(path, also))
                cli_die("--%s: %s is also the file of --%s; name another one", out->name, path,
                        other->name);
        }
}
