/* SPDX-License-Identifier: MIT */
/* Groups of several work-items on PoCL, whose items are coroutines: see items.c. */
#ifndef TESTS_ITEMS_H
#define TESTS_ITEMS_H

/* From now on PoCL runs the library's programs so, on which no other OpenCL may be used. Ends the
 * process with status 77 where that is impossible. */
void test_items(void);
/* Then programs that have one of these texts, which are equally long, get the other. */
void test_fault(const char *right, const char *wrong);

#endif
