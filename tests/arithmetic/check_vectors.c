/* SPDX-License-Identifier: MIT */
/* Proves that the reference gives the test vectors of tests/vectors, line by line. So a change of
 * the arithmetic is seen, and other implementations can be tested with the same files.
 *
 *     check_vectors                       # compares
 *     check_vectors --write FOLDER        # writes the files, for a new version or for new vectors
 *     check_vectors --random SEED ROWS N  # writes random rows with N draws each to standard output
 */
#include "vectors.h"

#include <stdlib.h>

static int write_values_too(FILE *f)
{
    write_values(f);
    return 1;
}

static const struct {
    const char *name;
    int (*write)(FILE *);
} files[] = {
    {"values.txt", write_values_too}, {"rows.txt", write_rows}, {"lists.txt", write_lists}};

/* Writes a file with its first line. Returns 0 if the reference fails. */
static int write_file(FILE *f, int i)
{
    fprintf(f, "# Test vectors of the arithmetic, version 1. Made by check_vectors --write. "
               "README.md has the format.\n");
    if (files[i].write(f) && fflush(f) == 0)
        return 1;
    fprintf(stderr, "%s: %s\n", files[i].name, cls_error_message());
    return 0;
}

/* Returns the line at which two files begin to differ, or 0. Sets the two lines. */
static unsigned differ_at(FILE *a, FILE *b, char one[4096], char two[4096])
{
    for (unsigned line = 1;; line++) {
        const char *const x = fgets(one, 4096, a), *const y = fgets(two, 4096, b);
        if (x == NULL && y == NULL)
            return 0;
        if (x == NULL || y == NULL)
            (x == NULL ? one : two)[0] = '\0';
        if (strcmp(one, two) != 0)
            return line;
    }
}

/* Compares a file with what the reference gives. Returns 1 if they are equal. */
static int compare(const char *path, int i)
{
    static char stored[4096], given[4096];
    FILE *const f = fopen(path, "r"), *const now = tmpfile();
    unsigned line = 0;
    int ok = 0;
    if (f == NULL || now == NULL) {
        printf("FAILED: %s cannot be opened\n", f == NULL ? path : "a temporary file");
    } else if (write_file(now, i)) {
        rewind(now);
        line = differ_at(f, now, stored, given);
        ok = line == 0;
        if (!ok)
            printf("FAILED: %s:%u is\n    %s  but the reference gives\n    %s", path, line, stored,
                   given);
    }
    if (f != NULL)
        fclose(f);
    if (now != NULL)
        fclose(now);
    return ok;
}

int main(int argc, char **argv)
{
    const char *const source = getenv("srcdir") != NULL ? getenv("srcdir") : ".";
    const int writes = argc == 3 && strcmp(argv[1], "--write") == 0;
    int ok = 1;
    if (argc == 5 && strcmp(argv[1], "--random") == 0)
        return !write_random(stdout, strtoull(argv[2], NULL, 10),
                             (uint32_t)strtoul(argv[3], NULL, 10),
                             (uint32_t)strtoul(argv[4], NULL, 10));
    for (int i = 0; i < 3; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s%s/%s", writes ? argv[2] : source,
                 writes ? "" : "/tests/vectors", files[i].name);
        if (writes) {
            FILE *const f = fopen(path, "w");
            ok &= f != NULL && write_file(f, i) && fclose(f) == 0;
        } else {
            ok &= compare(path, i);
        }
    }
    printf("%s\n", ok ? "the vectors are those of the reference" : "the vectors differ");
    return !ok;
}
