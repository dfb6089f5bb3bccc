/* SPDX-License-Identifier: MIT */
/* Tests of check_binaries for the folder of compiled programs: found, damaged or replaced
 * files, a folder that cannot be written, and several processes that write at the same time. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "binaries.h"

const char *binaries_self, *binaries_folder;

static char folder[64], file[400]; /* the file is the last that was seen there */

static cls_context_options with_folder(void)
{
    cls_context_options o = plain_options();
    o.cache_dir = folder;
    return o;
}

/* How many files are there. */
static int count(void)
{
    int n = 0;
    DIR *const dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
            n++;
        }
    closedir(dir);
    return n;
}

static void empty(void)
{
    while (count() > 0)
        ck_assert_int_eq(remove(file), 0);
}

static size_t read_file(uint8_t **bytes)
{
    struct stat is;
    FILE *const f = fopen(file, "rb");
    ck_assert(f != NULL && stat(file, &is) == 0);
    const size_t size = (size_t)is.st_size;
    *bytes = malloc(size + 1);
    ck_assert_ptr_nonnull(*bytes);
    ck_assert_uint_eq(fread(*bytes, 1, size, f), size);
    fclose(f);
    return size;
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *const f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

static void open_folder(void)
{
    driver_reset();
    snprintf(folder, sizeof folder, "binaries.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void close_folder(void)
{
    empty();
    ck_assert_int_eq(rmdir(folder), 0);
    driver_reset();
}

/* Makes the file that of a program, which must be there. */
static void choose(const char *program)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "-%s-0.bin", program);
    DIR *const dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    file[0] = '\0';
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        const char *const name = e->d_name;
        if (strlen(name) <= strlen(wanted) ||
            strcmp(name + strlen(name) - strlen(wanted), wanted) != 0)
            continue;
        ck_assert_msg(strlen(name) == 9 + 32 + strlen(wanted) &&
                          strncmp(name, "clsample-", 9) == 0 &&
                          strspn(name + 9, "0123456789abcdef") == 32 && file[0] == '\0',
                      "%s", name);
        snprintf(file, sizeof file, "%s/%s", folder, name);
    }
    closedir(dir);
    ck_assert_msg(file[0] != '\0', "no file of %s", program);
}

START_TEST(kept)
{
    device *const d = fixture_device(_i);
    cls_context_options o;
    open_folder();
    o = with_folder();
    o.cache_always = 0;
    expect(d, &o, CLS_ORIGIN_SOURCE, 0, "an empty folder");
    ck_assert_int_eq(count(),
                     strstr(d->name, "Portable Computing Language") != NULL ? 0 : PROGRAMS);
    empty();
    o.cache_always = 1;
    expect(d, &o, CLS_ORIGIN_SOURCE, 0, "an empty folder, always");
    if (gives_none(d)) {
        ck_assert_int_eq(count(), 0);
        close_folder();
        return;
    }
    ck_assert_int_eq(count(), PROGRAMS);
    for (int i = 0; i < PROGRAMS; i++)
        choose(binaries_programs[i]);
    expect(d, &o, CLS_ORIGIN_CACHE, PROGRAMS, "a full folder");
    o.cache_always = 0;
    expect(d, &o, CLS_ORIGIN_CACHE, PROGRAMS, "a full folder, only read");
    fake.no_compiler = 1;
    expect(d, &o, CLS_ORIGIN_CACHE, PROGRAMS, "a full folder and no compiler");
    driver_reset();
    ck_assert_int_eq(count(), PROGRAMS);
    o.cache_always = 1;

    /* A program's file is damaged: that one alone is compiled again. */
    uint8_t *bytes;
    choose("token-list");
    const size_t size = read_file(&bytes);
    const size_t places[] = {0, 20, 45, 60, 90, size / 2, size - 1};
    const size_t lengths[] = {0, 50, 84, size / 2, size - 1, size + 1};
    const size_t n = fixture_by_size(1, 3, sizeof places / sizeof places[0]);
    const size_t m = fixture_by_size(1, 3, sizeof lengths / sizeof lengths[0]);
    for (size_t k = 0; k < n; k++) {
        bytes[places[k]] ^= 16;
        write_file(file, bytes, size);
        bytes[places[k]] ^= 16;
        expect_but(d, &o, CLS_ORIGIN_CACHE, TOKEN_LIST, PROGRAMS - 1, "a bit flipped");
        expect(d, &o, CLS_ORIGIN_CACHE, PROGRAMS, "replaced");
    }
    bytes[size] = 7;
    for (size_t k = 0; k < m; k++) {
        write_file(file, bytes, lengths[k]);
        expect_but(d, &o, CLS_ORIGIN_CACHE, TOKEN_LIST, PROGRAMS - 1, "another length");
        expect(d, &o, CLS_ORIGIN_CACHE, PROGRAMS, "replaced");
    }
    free(bytes);

    /* Another program's file under its name is none of it. */
    char there[sizeof file];
    snprintf(there, sizeof there, "%s", file);
    choose("survey");
    const size_t other = read_file(&bytes);
    write_file(there, bytes, other);
    free(bytes);
    expect_but(d, &o, CLS_ORIGIN_CACHE, TOKEN_LIST, PROGRAMS - 1, "another program");
    expect(d, &o, CLS_ORIGIN_CACHE, PROGRAMS, "replaced");

    fake.no_binaries = 1;
    expect(d, &o, CLS_ORIGIN_SOURCE, PROGRAMS, "the driver takes none");
    fake.no_binaries = 0;
    fake.wrong_reads = 1;
    fake.right_reads = 2; /* the test of groups is read first, twice */
    expect_but(d, &o, CLS_ORIGIN_CACHE, SELF_TEST, PROGRAMS, "another arithmetic");
    ck_assert_int_eq(count(), PROGRAMS);
    expect(d, &o, CLS_ORIGIN_CACHE, PROGRAMS, "replaced");

    /* The name is copied. */
    char name[sizeof folder];
    snprintf(name, sizeof name, "%s", folder);
    o.cache_dir = name;
    cls_context *const context = new_context(d, &o);
    memset(name, 'x', sizeof name - 1);
    fake.no_compiler = 1;
    must(cls_context_compile(context, 0, 0));
    cls_context_destroy(context);
    close_folder();
}
END_TEST

/* As good as a full disk; without OpenCL, whose implementations write files, too. */
static void full_disk(void)
{
    static const uint8_t key[CLS_DIGEST_SIZE];
    struct rlimit was, small;
    enum { SIZE = 100000 };
    uint8_t *const packed = must_calloc(1, SIZE);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 0; most < SIZE; most += 8192) {
        small = was;
        small.rlim_cur = most;
        const int failed =
            setrlimit(RLIMIT_FSIZE, &small); /* Check writes a file with every assertion */
        cls_cache_write(folder, key, 1, "token-list", packed, SIZE);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &was) | failed, 0);
        ck_assert_int_eq(count(), 0);
    }
    cls_cache_write(folder, key, 1, "token-list", packed, SIZE);
    ck_assert_int_eq(count(), 1);
    empty();
    free(packed);
}

/* What cannot be written is not, and nothing is left behind. */
START_TEST(not_kept)
{
    device *const d = fixture_device(_i);
    cls_context_options o;
    char path[sizeof file], temporary[sizeof file + 16];
    if (gives_none(d))
        return;
    open_folder();
    o = with_folder();
    expect(d, &o, CLS_ORIGIN_SOURCE, 0, "for the name");
    ck_assert_int_eq(count(), PROGRAMS);
    choose("survey");
    snprintf(path, sizeof path, "%s", file);

    /* A folder in the file's place. */
    ck_assert(remove(path) == 0 && mkdir(path, 0700) == 0);
    expect_but(d, &o, CLS_ORIGIN_CACHE, SURVEY, PROGRAMS - 1, "a folder in its place");
    ck_assert_int_eq(count(), PROGRAMS);
    ck_assert_int_eq(rmdir(path), 0);

    /* Writers that were killed: as many as there are names. */
    for (int i = 0; i < 64; i++) {
        snprintf(temporary, sizeof temporary, "%s.%d", path, i);
        write_file(temporary, (const uint8_t *)"x", 1);
    }
    expect_but(d, &o, CLS_ORIGIN_CACHE, SURVEY, PROGRAMS - 1, "no name left");
    ck_assert_int_eq(count(), 64 + PROGRAMS - 1);
    empty();

    full_disk();

    /* No folder, or none to write in. */
    char absent[sizeof folder + 8];
    cls_context *none = NULL;
    snprintf(absent, sizeof absent, "%s/none", folder);
    for (int kind = 0; kind < 3; kind++) { /* nothing there, a file, no name */
        if (kind == 1)
            write_file(absent, (const uint8_t *)"x", 1);
        o.cache_dir = kind == 2 ? "" : absent;
        must_refuse(cls_context_create(d->context, d->id, &o, &none), "options->cache_dir is ");
        ck_assert_ptr_null(none);
    }
    ck_assert_int_eq(remove(absent), 0);
    ck_assert_int_eq(count(), 0);
    if (geteuid() != 0) {
        o.cache_dir = folder;
        ck_assert_int_eq(chmod(folder, 0500), 0);
        expect(d, &o, CLS_ORIGIN_SOURCE, 0, "not to be written");
        ck_assert_int_eq(chmod(folder, 0700), 0);
        ck_assert_int_eq(count(), 0);
    }
    close_folder();
}
END_TEST

/* --------------------------------------------------------------- many processes */

START_TEST(write_one)
{
    device *const d = fixture_device(_i);
    cls_context_options o = plain_options();
    o.cache_dir = binaries_folder;
    cls_context *const context = new_context(d, &o);
    check_tokens(d, context);
    cls_context_destroy(context);
}
END_TEST

void add_writer(void) { add_device_test(write_one); }

START_TEST(at_once)
{
    enum { WRITERS = 4 };
    device *const d = fixture_device(_i);
    cls_context_options o;
    if (gives_none(d))
        return;
    open_folder();
    o = with_folder();
    for (uint32_t round = 0; round < fixture_by_size(1, 1, 3); round++) {
        FILE *writer[WRITERS];
        char command[600], line[400], said[4000] = "";
        snprintf(command, sizeof command, "'%s' '%s' 2>&1", binaries_self, folder);
        for (int i = 0; i < WRITERS; i++)
            ck_assert_ptr_nonnull(writer[i] = popen(command, "r"));
        for (int i = 0; i < WRITERS; i++) {
            while (fgets(line, sizeof line, writer[i]) != NULL)
                if (strlen(said) + strlen(line) < sizeof said)
                    strcat(said, line);
            ck_assert_msg(pclose(writer[i]) == 0, "writer %d: %s", i, said);
        }
        ck_assert_int_eq(count(), PROGRAMS * fixture_devices());
        fake.no_compiler = 1;
        expect(d, &o, CLS_ORIGIN_CACHE, PROGRAMS, "after several writers");
        driver_reset();
        empty();
    }
    close_folder();
}
END_TEST

void add_cache_tests(void)
{
    add_device_test(kept);
    add_device_test(not_kept);
    add_loop_test(at_once, fixture_devices() > 0);
}
