/* SPDX-License-Identifier: MIT */
/* Makes one of the library's memory allocations fail. Programs are linked with --wrap for malloc()
 * and the similar functions; calls from shared libraries such as the OpenCL driver are unaffected.
 */
#ifndef TESTS_FAULTY_MEMORY_H
#define TESTS_FAULTY_MEMORY_H

#include <stdint.h>

/* Starts counting allocations at 0, while faulty_memory_on is set; the n-th one returns NULL. */
void faulty_memory_arm(uint32_t n);
extern int faulty_memory_on;

/* Return the number of allocations so far, and whether one has failed. */
uint32_t faulty_memory_calls(void);
int faulty_memory_failed(void);
/* Returns the number of counted blocks that are not freed; faulty_memory_forget() resets it to 0.
 */
uint32_t faulty_memory_alive(void);
void faulty_memory_forget(void);

#endif
