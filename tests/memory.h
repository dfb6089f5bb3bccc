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

#endif
