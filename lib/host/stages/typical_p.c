/* SPDX-License-Identifier: MIT */
/* On the host: typical sampling, which keeps the tokens nearest to the entropy. */
#include "host/host.h"

/* The set from its mean depth on: upwards, where the tokens of one key, which are next, are those
 * from `at` to `end`, and downwards from `below`. */
typedef struct both_ways {
    uint32_t mean, at, end, first, below;
} both_ways;

/* Finds the next tokens upwards: those of the lowest key that is left, by ascending ids. */
static void open_key(const cls_sampled *w, both_ways *s)
{
    s->end = s->at = s->first;
    while (s->at > 0 && w->z[w->set[s->at - 1]] == w->z[w->set[s->end - 1]])
        s->at--;
    s->first = s->at;
}

/* Returns the rank of the token that comes next: that at the smaller distance from the mean depth.
 * Of two at the same one, the token above the mean comes first. */
static uint32_t next_rank(const cls_sampled *w, both_ways *s)
{
    if (s->at == s->end)
        open_key(w, s);
    if (s->at < s->end && (s->below == w->n || s->mean - cls_token_depth(w, w->set[s->at]) <=
                                                   cls_token_depth(w, w->set[s->below]) - s->mean))
        return s->at++;
    return s->below++;
}

uint32_t cls_stage_typical_p(cls_sampled *w)
{
    const uint64_t mass = cls_need(w, CLS_SUM_MASS),
                   target = typical_target(mass, w->slot.typical_p);
    both_ways s = {.mean = mean_depth_q20(cls_need(w, CLS_SUM_DEPTHS), mass)};
    cls_select(w, w->n);
    const uint32_t first = w->set[0];
    while (s.below < w->n && cls_token_depth(w, w->set[s.below]) <= s.mean)
        s.below++;
    s.at = s.end = s.first = s.below;
    for (uint32_t i = 0; i < w->n; i++)
        w->mark[w->set[i]] = 0;
    uint64_t sum = 0;
    uint32_t rank = 0, above = s.below;
    for (uint32_t n = 0; n < w->n && (sum < target || n < w->slot.min_keep); n++) {
        rank = next_rank(w, &s);
        w->mark[w->set[rank]] = 1;
        sum += cls_token_mass(w, w->set[rank]);
    }
    /* The upper cut drops larger keys. If the last token that is kept lies above the mean, it may
     * also drop the higher ids of that key, since lower ids are preferred there. */
    const int partly = rank < above && s.at < s.end;
    const int32_t last = (int32_t)w->set[rank];
    cls_keep_marked(w);
    if (w->set[0] != first || partly)
        cls_upper(w, -1, partly ? last : -1);
    return w->n;
}
