/* SPDX-License-Identifier: MIT */
/* What check_binaries.c and binaries.c share: contexts on a driver that refuses
 * and lies. */
#ifndef TESTS_BINARIES_H
#define TESTS_BINARIES_H

#include "client.h"
#include "driver.h"

/* This driver builds no longer shortlists, and runs none of those that are longer
 * than the second: what is compiled here is in a shape that was not the first. */
enum { MOST_BUILT = 512, MOST_LAUNCHED = 256 };

void driver_reset(void);

/* The defaults, for one type of logits. */
cls_context_options plain_options(void);
cls_device_info info_of(const cls_context *context);

/* Rows with random requests are the reference's. */
void check_tokens(device *d, cls_context *context);

/* A context with these options, which must be of this origin and draw the right
 * tokens; seen: whether the driver was shown compiled programs. */
void expect(device *d, const cls_context_options *o, cls_origin origin, int seen, const char *what);

/* The folder, with and without damage, writers at once. binaries.c */
void add_cache_tests(TCase *tcase);

/* The program's name, and what one of several at once does with a folder. */
extern const char *binaries_self, *binaries_folder;
Suite *writer_suite(void);

#endif
