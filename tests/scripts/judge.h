/* SPDX-License-Identifier: MIT */
#ifndef TESTS_JUDGE_H
#define TESTS_JUDGE_H

#include "run/script.h"
#include "run/step.h"

/* Judges what a statement gave on the host. Returns what is wrong, or NULL. */
const char *judge(run_side *side, const run_statement *s);

/* Lets the oracle judge rows, too. */
void judge_asks(void);

/* Prints how much was judged. Returns whether the oracle judged nothing, or could not decide too
 * many rows. */
bool judge_census(void);

#endif
