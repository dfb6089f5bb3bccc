/* SPDX-License-Identifier: MIT */
/* Groups of several work-items on PoCL, whose items are coroutines: see items.c. */
#ifndef TESTS_ITEMS_H
#define TESTS_ITEMS_H

/* From now on PoCL runs the library's programs so, on which no other OpenCL may be used. Ends the
 * process with status 77 where that is impossible. */
void test_items(void);

#endif
