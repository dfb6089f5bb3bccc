/* SPDX-License-Identifier: MIT */
/* The library's malloc() and the like, of which one fails. For programs linked
 * with --wrap of these names: calls from shared libraries, of which the OpenCL
 * driver is one, are not touched. */
#ifndef TESTS_FAULTY_MEMORY_H
#define TESTS_FAULTY_MEMORY_H

#include <stdint.h>

/* Counts from here on, while faulty_memory_on; the n-th allocation gives NULL. */
void faulty_memory_arm(uint32_t n);
extern int faulty_memory_on;

uint32_t faulty_memory_calls(void);
int faulty_memory_failed(void);
/* Blocks that were allocated while counting, and are not freed; and no longer counts these. */
uint32_t faulty_memory_alive(void);
void faulty_memory_forget(void);

#endif
