/* SPDX-License-Identifier: MIT */
/* On the host: llama.cpp's infill stage. */
#include "host/host.h"

static int is_end(const cls_sampled *w, uint32_t id)
{
    for (uint32_t i = 0; i < w->infill.end_ids.count; i++)
        if ((uint32_t)w->infill.end_ids.ids[i] == id)
            return 1;
    return 0;
}

static int begins_with(const cls_sampled *w, uint32_t id, uint32_t prefix)
{
    int32_t at = w->infill.prefix_of[id];
    while (at >= 0 && (uint32_t)at != prefix)
        at = w->infill.prefix_of[at];
    return at >= 0;
}

/* If the text of one token begins with that of another, the likelier takes both masses and the
 * other is dropped. mass[] is by rank. */
static void merge_prefixes(cls_sampled *w, uint64_t *mass)
{
    for (uint32_t a = 0; a < w->n; a++)
        for (uint32_t b = 0; b < w->n && w->mark[w->set[a]]; b++) {
            if (!w->mark[w->set[b]] || !begins_with(w, w->set[b], w->set[a]))
                continue;
            const uint32_t to = mass[b] > mass[a] ? b : a, from = to == a ? b : a;
            mass[to] += mass[from];
            w->mark[w->set[from]] = 0;
        }
}

/* Drops tokens that are not ends and have less than the mass `of` divided by `shares`. Returns how
 * many of them are left. *left is the mass of these and of the ends. */
static uint32_t drop_unlikely(cls_sampled *w, const uint64_t *mass, uint64_t shares, uint64_t of,
                              uint64_t *left)
{
    uint32_t texts = 0;
    *left = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t id = w->set[i];
        const int end = is_end(w, id);
        if (!end && mass[i] * shares < of)
            w->mark[id] = 0;
        if (w->mark[id])
            *left += mass[i];
        texts += w->mark[id] && !end;
    }
    return texts;
}

#define INFILL_MAX_TOKENS 128u

uint32_t cls_stage_infill(cls_sampled *w)
{
    uint64_t mass[INFILL_MAX_TOKENS]; /* by rank */
    uint64_t ends = 0, texts = 0, left;
    w->trace.listed = 1;
    if (w->n > INFILL_MAX_TOKENS || w->n > w->shortlist) {
        w->trace.status |= CLS_ROW_UNFIT;
        return 0;
    }
    cls_select(w, w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        mass[i] = cls_token_mass(w, w->set[i]);
        w->mark[w->set[i]] = 1;
        if (is_end(w, w->set[i]))
            ends += mass[i];
        else
            texts += mass[i];
    }
    if (3 * (ends >> 12) * w->n > texts >> 12) {
        for (uint32_t i = 0; i < w->n; i++)
            w->mark[w->set[i]] = (uint8_t)is_end(w, w->set[i]);
        return cls_keep_marked(w);
    }
    merge_prefixes(w, mass);
    const uint32_t m = drop_unlikely(w, mass, 5, ends + texts, &left);
    if (m == 0) {
        w->set[0] = (uint32_t)w->infill.end_ids.ids[0];
        w->top = w->z[w->set[0]];
        w->n = w->listed = key_of(w->top) > CLS_KEY_NONE;
        w->trace.status |= w->n == 0 ? CLS_ROW_EMPTY : 0;
        return w->n;
    }
    drop_unlikely(w, mass, m + 1, left, &left);
    return cls_keep_marked(w);
}
