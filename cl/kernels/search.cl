/* SPDX-License-Identifier: MIT */
/* search: runs the chain over the whole row, for sets that do not fit the shortlist. Each stage
 * takes sums over the row and returns a cut; once what is left fits the list, the list takes over.
 * The row is read some 3 to 40 times, which is exact but not fast. Only the first top-p, top-k or
 * min-p is fast, because the pass serves it. */
#include "draw/sample.cl"
#include "stages/chain.cl"

/* Takes what the search needs of the record that the token kernel has written. The other fields
 * have their first values: if they were read here, they would occupy some twenty registers of a GPU
 * until they are written again. */
static inline void record_from_token(__global const cls_row *from, cls_row *out)
{
    out->total = from->total;
    out->status = from->status;
    out->state = from->state;
    out->no_token = from->no_token;
    out->max_key = from->max_key;
    for (u32 p = 0; p < CLS_PIVOTS; p++)
        out->pivot[p] = from->pivot[p];
}

/* Searches the rows that the token kernel has left; the group of any other row returns at once.
 * Launch: [WGS, rows]. */
ONE_COPY void search_row(const step_args *s, u32 row, SHARED row_logits *r, SHARED shortlist *list)
{
    const cut no_cut = {CLS_KEY_NONE, CLS_MAX_ID, -1, 0, 0, 0};
    row_job w;
    if (s->rows[row].state == CLS_RECORD_DONE) /* the same for the whole group */
        return;
    job_begin(s, row, r, list, &w);
    record_from_token(s->rows + row, &w.out);
    BARRIER(); /* every item has read the record, which the first item writes */
    chain_begin(w.out.max_key, &w.c);
    w.c.complete = 1;
    w.pass.valid = w.out.state != CLS_RECORD_SEARCH_ALL;
    w.pass.counts = w.out.state == CLS_RECORD_SEARCH_COUNT;
    w.pass.by_tile = s->pass + (size_t)row * VIEW(&w)->tiles * CLS_PIVOTS;
    w.pass.last = no_cut;
    w.finds_top = 0;
    if (!run_chain(s, &w))
        w.out.status |= CLS_ROW_UNFIT;
    if (!w.listed && !(w.out.status & CLS_ROW_UNFIT))
        w.out.mass = set_masses(&w, s->rows[row].scale);
    if (!(w.out.status & (CLS_ROW_UNFIT | CLS_ROW_EMPTY))) {
        pick_token(s, &w);
    } else {
        w.out.state = CLS_RECORD_DONE;
        w.out.no_token = 1;
    }
    job_end(s, &w, 1);
}

KERNEL void cls_search(STEP_PARAMETERS(CLS_TOKEN_BUFFERS))
{
    SHARED row_logits r;
    SHORTLIST(list)
    const step_args s = STEP_OF(CLS_TOKEN_BUFFERS);
    search_row(&s, get_group_id(1), &r, &list);
}
