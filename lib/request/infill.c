/* SPDX-License-Identifier: MIT */
/* Checks the tables of the infill stage. */
#include "request/request.h"

#include <stdlib.h>

/* Returns 1 if the prefixes of every token end. A token is marked 1 while its prefixes are
 * followed, and 2 once they are known to end. */
static int prefixes_end(const int32_t *prefix_of, uint32_t vocab, uint8_t *visited)
{
    for (uint32_t i = 0; i < vocab; i++) {
        int32_t token = (int32_t)i;
        for (; token >= 0 && visited[token] == 0; token = prefix_of[token])
            visited[token] = 1;
        if (token >= 0 && visited[token] == 1)
            return 0;
        for (token = (int32_t)i; token >= 0 && visited[token] == 1; token = prefix_of[token])
            visited[token] = 2;
    }
    return 1;
}

cls_status cls_infill_check(const cls_infill *infill, uint32_t vocab)
{
    if (infill->end_ids.ids == NULL || infill->end_ids.count == 0 || infill->end_ids.count > 65535)
        return cls_refuse("infill->end_ids.count is %u; it must be from 1 to 65535",
                          (unsigned)infill->end_ids.count);
    if (infill->prefix_of == NULL)
        return cls_refuse("infill->prefix_of is NULL");
    for (uint32_t i = 0; i < infill->end_ids.count; i++)
        if (infill->end_ids.ids[i] < 0 || (uint32_t)infill->end_ids.ids[i] >= vocab)
            return cls_refuse(
                "infill->end_ids.ids[%u] is %d, which is not a token of a vocabulary of %u",
                (unsigned)i, (int)infill->end_ids.ids[i], (unsigned)vocab);
    for (uint32_t i = 0; i < vocab; i++)
        if (infill->prefix_of[i] < -1 ||
            (infill->prefix_of[i] >= 0 && (uint32_t)infill->prefix_of[i] >= vocab))
            return cls_refuse(
                "infill->prefix_of[%u] is %d, which is not a token of a vocabulary of %u",
                (unsigned)i, (int)infill->prefix_of[i], (unsigned)vocab);
    uint8_t *const visited = calloc(vocab, 1);
    if (visited == NULL)
        return cls_no_memory("%u tokens", (unsigned)vocab);
    const int ends = prefixes_end(infill->prefix_of, vocab, visited);
    free(visited);
    return ends ? CLS_OK : cls_refuse("infill->prefix_of has a cycle");
}
