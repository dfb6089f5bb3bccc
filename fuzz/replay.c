/* SPDX-License-Identifier: MIT */
/* Runs a target on stored inputs, with any compiler.
 *
 *     fuzz/npy [FILE or DIRECTORY]...    # default: the target's directory in $srcdir/fuzz/corpus
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static unsigned long runs;

_Noreturn static void fail(const char *what, const char *path)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(99);
}

static void run_file(const char *path, size_t size)
{
    FILE *const file = fopen(path, "rb");
    uint8_t *const data = malloc(
        size != 0 ? size : 1); /* of exactly this size, so that a sanitizer finds reads beyond it */
    if (file == NULL || data == NULL || fread(data, 1, size, file) != size)
        fail("cannot be read", path);
    fclose(file);
    fprintf(stderr, "%s\n", path); /* after a failure, the last path is the input that failed */
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    runs++;
}

static void run(const char *path)
{
    struct stat about;
    struct dirent **entry;
    if (stat(path, &about) != 0)
        fail("no such file or directory", path);
    if (!S_ISDIR(about.st_mode)) {
        run_file(path, (size_t)about.st_size);
        return;
    }
    const int n = scandir(path, &entry, NULL, alphasort);
    if (n < 0)
        fail("cannot be read", path);
    for (int i = 0; i < n; i++) {
        char *const name = malloc(strlen(path) + strlen(entry[i]->d_name) + 2);
        if (name == NULL)
            fail("out of memory", path);
        sprintf(name, "%s/%s", path, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.')
            run(name);
        free(name);
        free(entry[i]);
    }
    free(entry);
}

int main(int argc, char **argv)
{
    const char *const slash = strrchr(argv[0], '/'), *const top = getenv("srcdir");
    const char *const name = slash != NULL ? slash + 1 : argv[0];
    char own[1024];
    snprintf(own, sizeof own, "%s/fuzz/corpus/%s", top != NULL ? top : ".", name);
    if (argc < 2)
        run(own);
    for (int i = 1; i < argc; i++)
        run(argv[i]);
    printf("%s: %lu inputs\n", name, runs);
    return runs != 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
