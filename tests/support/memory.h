/* SPDX-License-Identifier: MIT */
/* The memory of the process, as reported by the system. */
#ifndef TESTS_MEMORY_H
#define TESTS_MEMORY_H

#include <stdint.h>

/* Returns how many bytes malloc() has allocated, or 0 if that is unknown. */
uint64_t memory_heap(void);
/* Returns the size of the resident pages in bytes, or 0 if it is unknown or a sanitizer keeps freed
 * memory. */
uint64_t memory_resident(void);

/* Calls `measure` (one of the functions above) until the result is at most `most`, for at most ten
 * seconds, and returns the last result. OpenCL's own threads may free memory some time after all
 * objects were released: on a busy machine PoCL 3.1 still held 200 to 400 KiB in 6 of 800 runs. */
uint64_t memory_settled(uint64_t (*measure)(void), uint64_t most);

#endif
