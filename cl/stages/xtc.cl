/* SPDX-License-Identifier: MIT */
/* XTC: drop what is at least as likely as a threshold, but the least likely of it. */
#include "row/list.cl"

/* XTC on the list: what is at least so likely goes, but the last of it. */
static inline void xtc_list(shortlist *list, chain_state *c, u32 count)
{
    const u32 last = (u32)list->order[count - 1];
    c->set.head_last = list->key[last] == c->set.head_key ? c->set.head_last : CLS_MAX_ID;
    c->set.head_key = list->key[last];
    c->set.head_first = list->id[last];
    drop_head(list, c, count - 1);
}
