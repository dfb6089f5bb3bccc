/* SPDX-License-Identifier: MIT */
/* p-less: keeps the tokens whose probability is at least the probability that two draws are
 * equal. */
#include "row/job.cl"

static inline void p_less(const step_args *s, row_job *w)
{
    const u64 squares = need(w, CLS_SUM_SQUARES);
    at_key(w, depth_q20_key(w->top, w->scale, p_less_depth(w->mass, squares, w->top, w->scale)));
}
