/* SPDX-License-Identifier: MIT */
/* Proves that the reference gives the test vectors of tests/vectors, line by line. So a change of
 * the arithmetic is seen, and other implementations can be tested with the same files.
 *
 *     check_vectors                    # compares
 *     check_vectors --fill <OLD >NEW   # writes records with what the reference gives
 *
 * --fill takes the fields and records that are given, and replaces all that follow from them: new
 * vectors are written without results. */
#include "vectors.h"

#define WORDS 2048u /* of a line */

/* Reads records, and writes them with the reference's results. Returns 0 at a record that is wrong
 * or that the reference refuses. */
static int fill(FILE *in, FILE *out)
{
    static char line[VECTOR_LINE];
    char *word[WORDS];
    int is_block = 0; /* 1 from the first record of a row or of a list to its last one */
    for (unsigned number = 1; fgets(line, sizeof line, in) != NULL; number++) {
        uint32_t n = 0;
        if (line[0] == '#') {
            fputs(line, out);
            continue;
        }
        for (char *w = strtok(line, " \n"); w != NULL && n < WORDS; w = strtok(NULL, " \n"))
            word[n++] = w;
        is_block |= n == 2 && (strcmp(word[0], "row") == 0 || strcmp(word[0], "list") == 0);
        if (n == 0 || !(is_block ? write_record(out, word, n) : write_value(out, word, n))) {
            fprintf(stderr, "line %u cannot be computed: %s\n", number, cls_error_message());
            return 0;
        }
        is_block &= strcmp(word[0], "end") != 0;
    }
    return fflush(out) == 0;
}

/* Compares a file with what the reference gives. Returns 1 if they are equal. */
static int compare(const char *path)
{
    static char stored[VECTOR_LINE], now[VECTOR_LINE];
    FILE *const f = fopen(path, "r"), *const filled = tmpfile();
    if (f == NULL || filled == NULL || !fill(f, filled)) {
        printf("FAILED: %s cannot be read or computed\n", path);
        return 0;
    }
    rewind(f);
    rewind(filled);
    for (unsigned line = 1;; line++) {
        const char *const x = fgets(stored, sizeof stored, f), *const y =
                                                                   fgets(now, sizeof now, filled);
        if (x == NULL && y == NULL)
            break;
        if (x == NULL || y == NULL || strcmp(x, y) != 0) {
            printf("FAILED: %s:%u is\n    %s  but the reference gives\n    %s", path, line,
                   x == NULL ? "" : x, y == NULL ? "" : y);
            return 0;
        }
    }
    fclose(f);
    fclose(filled);
    return 1;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"values.txt", "rows.txt", "lists.txt"};
    const char *const source = getenv("srcdir") != NULL ? getenv("srcdir") : ".";
    int ok = 1;
    if (argc == 2 && strcmp(argv[1], "--fill") == 0)
        return !fill(stdin, stdout);
    for (int i = 0; i < 3; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/tests/vectors/%s", source, names[i]);
        ok &= compare(path);
    }
    printf("%s\n", ok ? "the vectors are those of the reference" : "the vectors differ");
    return !ok;
}
