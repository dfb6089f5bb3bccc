/* SPDX-License-Identifier: MIT */
/* How much memory the process has, as far as the system tells. */
#ifndef TESTS_MEMORY_H
#define TESTS_MEMORY_H

#include <stdint.h>

/* What malloc() has given and not got back; 0: not known. */
uint64_t memory_heap(void);
/* Pages that are in memory, in bytes; 0: not known, or a sanitizer keeps what
 * was freed. */
uint64_t memory_resident(void);

/* What `measure` (one of the above) tells once it is `most` or less, or after
 * ten seconds: OpenCL may free in threads of its own, a while after all was
 * released. PoCL 3.1 on a busy machine: 200 to 400 KiB, in 6 of 800 runs of
 * check_soak. */
uint64_t memory_settled(uint64_t (*measure)(void), uint64_t most);

#endif
