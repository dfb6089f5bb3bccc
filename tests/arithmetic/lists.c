/* SPDX-License-Identifier: MIT */
/* Lists of candidates, and what cls_host_draw() draws from them. */
#include "vectors.h"

#include <inttypes.h>

#define LIST_MOST 64

int write_list(FILE *f, const char *name, uint32_t most, uint32_t draws, sequence *s)
{
    int32_t ids[LIST_MOST];
    float logits[LIST_MOST];
    cls_host_candidates c;
    cls_host_candidates_init(&c);
    c.vocab = 1 + next_below(s, 100);
    c.count = next_below(s, (most < LIST_MOST ? most : LIST_MOST) + 1);
    c.ids = ids;
    c.logits = logits;
    c.seed = next_bits(s);
    c.stream = next_wide(s, 63);
    fprintf(f, "list %s\nvocab %u\nseed %" PRIu64 " %" PRIu64 "\n", name, (unsigned)c.vocab, c.seed,
            c.stream);
    for (uint32_t i = 0; i < c.count; i++) {
        ids[i] = next_is_one_in(s, 10) ? (int32_t)next_below(s, 300) - 100
                                       : (int32_t)next_below(s, c.vocab);
        logits[i] = next_is_one_in(s, 10) ? next_special(s) : next_normal(s);
        fprintf(f, "entry %d %08x\n", (int)ids[i], bits_of(logits[i]));
    }
    for (uint32_t i = 0; i < draws; i++) {
        int32_t token;
        const uint64_t given = i == 1 ? 0 : i == 3 ? UINT64_MAX : next_bits(s);
        c.position = next_below(s, 1u << 20);
        c.draw = next_is_one_in(s, 4) ? next_below(s, 1u << 24) : 0;
        c.random_bits = i % 2 != 0 ? &given : NULL;
        if (cls_host_draw(&c, &token) != CLS_OK)
            return 0;
        if (c.random_bits != NULL)
            fprintf(f, "given %016" PRIx64 " %d\n", given, (int)token);
        else
            fprintf(f, "draw %u %u %d\n", (unsigned)c.position, (unsigned)c.draw, (int)token);
    }
    fprintf(f, "end\n");
    return 1;
}

int write_lists(FILE *f)
{
    sequence s = {3};
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "list-%d", i);
        if (!write_list(f, name, i < 30 ? 10 : LIST_MOST, 6, &s))
            return 0;
    }
    return 1;
}
