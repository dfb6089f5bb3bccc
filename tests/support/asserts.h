/* SPDX-License-Identifier: MIT */
/* Check's assertions. One that holds costs no more than its condition: Check itself
 * would note its place, with a write to a file, which took two thirds of the time of
 * tests that assert something of each element. What fails says its place all the same. */
#ifndef TESTS_ASSERTS_H
#define TESTS_ASSERTS_H

#include <check.h>

#define _mark_point(file, line) ((void)0)

#endif
