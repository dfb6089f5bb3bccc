/* SPDX-License-Identifier: MIT */
/* Helpers of check_binaries.c and binaries.c: contexts on a driver that refuses calls or returns
 * wrong results (driver.h). */
#ifndef TESTS_BINARIES_H
#define TESTS_BINARIES_H

#include "client.h"
#include "driver.h"

/* The driver has a GPU. It builds no work-groups larger than MOST_BUILT and runs none larger than
 * MOST_LAUNCHED, so that programs are compiled for smaller work-groups than the first choice. PoCL
 * compiles work-groups of one item quickly. */
enum { GROUP = 4, MOST_BUILT = 2, MOST_LAUNCHED = 1 };

void driver_reset(void);

/* Returns the default options with work-groups of at most GROUP and one type of logits; files are
 * written on PoCL, too. */
cls_context_options plain_options(void);

/* Fails unless rows with ordinary random requests give the reference's tokens. */
void check_tokens(device *d, cls_context *context);

/* Whether the driver must not be asked for compiled programs: then it is shown that the library
 * does not, and the test is left out. */
int gives_none(device *d);

/* The programs that these rows need. */
enum { PROGRAMS = 4 };
extern const char *const binaries_programs[PROGRAMS];

/* Creates a context with these options. Its programs must have this origin and draw the right
 * tokens. binaries: the number of compiled programs that the driver must have received. */
void expect(device *d, const cls_context_options *o, cls_origin origin, unsigned binaries,
            const char *what);

/* Does the same, except that the programs with a bit set are from source. */
void expect_but(device *d, const cls_context_options *o, cls_origin origin, unsigned sources,
                unsigned binaries, const char *what);
enum { SELF_TEST = 1, SLOTS = 2, SURVEY = 4, TOKEN_LIST = 8, ALL_PROGRAMS = 15 };

/* The folder, with and without damage, writers at once. binaries.c */
void add_cache_tests(void);

/* The program's name, and what one of several at once does with a folder. */
extern const char *binaries_self, *binaries_folder;
void add_writer(void);

#endif
