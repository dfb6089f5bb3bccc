/* SPDX-License-Identifier: MIT */
/* What check_binaries.c and binaries.c share: contexts on a driver that refuses
 * and lies. */
#ifndef TESTS_BINARIES_H
#define TESTS_BINARIES_H

#include "client.h"
#include "driver.h"

/* This driver has a GPU that takes groups of four. It builds none of more than the
 * first, and runs none of more than the second: what is compiled here is in groups
 * that were not the first. PoCL compiles those of one item only, which is soon done. */
enum { GROUP = 4, MOST_BUILT = 2, MOST_LAUNCHED = 1 };

void driver_reset(void);

/* The defaults, in groups of at most GROUP, for one type of logits; files are written on PoCL, too.
 */
cls_context_options plain_options(void);
cls_device_info info_of(const cls_context *context);

/* Rows with random requests of the usual kind are the reference's. */
void check_tokens(device *d, cls_context *context);

/* The programs that this takes. */
enum { PROGRAMS = 4 };
extern const char *const binaries_programs[PROGRAMS];

/* A context with these options, whose programs must be of this origin and draw the
 * right tokens; seen: how many compiled programs the driver was shown. */
void expect(device *d, const cls_context_options *o, cls_origin origin, unsigned binaries,
            const char *what);

/* The same; but some programs, a bit each, are from source. */
void expect_but(device *d, const cls_context_options *o, cls_origin origin, unsigned sources,
                unsigned binaries, const char *what);
enum { SELF_TEST = 1, SLOTS = 2, SURVEY = 4, TOKEN_LIST = 8, ALL_PROGRAMS = 15 };

/* The folder, with and without damage, writers at once. binaries.c */
void add_cache_tests(TCase *tcase);

/* The program's name, and what one of several at once does with a folder. */
extern const char *binaries_self, *binaries_folder;
Suite *writer_suite(void);

#endif
