/* SPDX-License-Identifier: MIT */
/* The fast way to a row's set: the largest logit of each stretch of tokens, the mass of each tile,
 * and the first tokens in order, without sorting the others. A row begins as the set of all its
 * tokens, none of which is listed. Loops that read whole rows have a constant length, the tile's,
 * since compilers vectorize those at -O2, too. */
#include "base/hooks.h"
#include "host/host.h"

/* ------------------------------------------------------------------ the maxima */

#define LARGER(a, b) ((a) > (b) ? (a) : (b))

/* Halves the tokens of a max tile until the largest is left: each loop is a few vectors. */
static float max_of_tile(const float *z)
{
    float m[CLS_MAX_TILE / 2];
    for (uint32_t i = 0; i < 32; i++)
        m[i] = LARGER(z[i], z[i + 32]);
    for (uint32_t i = 0; i < 16; i++)
        m[i] = LARGER(m[i], m[i + 16]);
    for (uint32_t i = 0; i < 8; i++)
        m[i] = LARGER(m[i], m[i + 8]);
    for (uint32_t i = 0; i < 4; i++)
        m[i] = LARGER(m[i], m[i + 4]);
    return LARGER(LARGER(m[0], m[1]), LARGER(m[2], m[3]));
}

void cls_measure_tile(cls_sampled *w, uint32_t tile)
{
    const float *const z = w->z + (size_t)tile * CLS_TILE;
    float *const max = w->max + tile * CLS_MAX_TILES_PER_TILE, most = CLS_MASKED;
    for (uint32_t i = 0; i < CLS_MAX_TILES_PER_TILE; i++) {
        max[i] = max_of_tile(z + i * CLS_MAX_TILE);
        most = LARGER(max[i], most);
    }
    w->tile_max[tile] = most;
}

void cls_measure_row(cls_sampled *w)
{
    w->top = CLS_MASKED;
    for (uint32_t t = 0; t < w->tiles; t++)
        w->top = LARGER(w->tile_max[t], w->top);
    w->weighed = 0;
}

/* ------------------------------------------------------------------ the masses */

uint32_t cls_token_weight(const cls_sampled *w, uint32_t id)
{
    const cls_unit *const unit = &w->unit[id / CLS_TILE];
    return w->massed               ? w->weight[id]
           : w->z[id] > CLS_MASKED ? weight(w->z[id], unit->max, w->scale, unit->fraction)
                                   : 0;
}

uint64_t cls_token_mass(const cls_sampled *w, uint32_t id)
{
    return to_row_units(cls_token_weight(w, id), w->unit[id / CLS_TILE].shift);
}

/* Sets the weights of a tile, and returns their sum. Compilers vectorize two loops, but not one. */
static uint64_t weigh_tile(const float *restrict z, const cls_unit *unit, float scale,
                           uint32_t *restrict weights)
{
    const cls_unit u = *unit;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < CLS_TILE; i++)
        weights[i] = weight(z[i], u.max, scale, u.fraction); /* that of -inf is 0 */
    for (uint32_t i = 0; i < CLS_TILE; i++)
        sum += weights[i];
    return sum;
}

/* The units of a set serve until its largest logit or the scale changes, and so do the masses. */
void cls_weigh(cls_sampled *w)
{
    if (w->weighed && w->unit_top == w->top && w->unit_scale == w->scale)
        return;
    const int32_t exponent = split(w->top, w->scale).exponent;
    for (uint32_t t = 0; t < w->tiles; t++)
        w->unit[t] =
            unit_of(w->tile_max[t] < w->top ? w->tile_max[t] : w->top, w->top, exponent, w->scale);
    w->weighed = 1;
    w->massed = 0;
    w->unit_top = w->top;
    w->unit_scale = w->scale;
}

uint64_t cls_row_mass(cls_sampled *w)
{
    if (w->massed)
        return w->row_mass;
    w->row_mass = 0;
    for (uint32_t t = 0; t < w->tiles; t++) {
        const cls_unit *const unit = &w->unit[t];
        const size_t first = (size_t)t * CLS_TILE;
        w->tile_mass[t] =
            to_row_units(weigh_tile(w->z + first, unit, w->scale, w->weight + first), unit->shift);
        w->row_mass += w->tile_mass[t];
    }
    w->massed = 1;
    return w->row_mass;
}

/* -------------------------------------------------------------------- the order */

/* A token as a number that is smaller the earlier it comes in the order. */
static uint64_t item_of(float z, uint32_t id)
{
    return (uint64_t)(0x7fffffffu - (uint32_t)key_of(z)) << 32 | id;
}

#define ITEM_DIGITS 256

/* Sorts w->item[0], in which equal keys have ascending ids already. A digit that all items share,
 * as the highest one often is, needs no pass. */
static void sort_items(cls_sampled *w, uint32_t n)
{
    uint32_t count[4][ITEM_DIGITS] = {{0}};
    for (uint32_t i = 0; i < n; i++)
        for (int d = 0; d < 4; d++)
            count[d][w->item[0][i] >> (32 + 8 * d) & (ITEM_DIGITS - 1)]++;
    for (int d = 0; d < 4; d++) {
        uint32_t place[ITEM_DIGITS], next = 0;
        const int shift = 32 + 8 * d;
        uint64_t *const from = w->item[0], *const to = w->item[1];
        if (n == 0 || count[d][from[0] >> shift & (ITEM_DIGITS - 1)] == n)
            continue;
        for (uint32_t k = 0; k < ITEM_DIGITS; k++) {
            place[k] = next;
            next += count[d][k];
        }
        for (uint32_t i = 0; i < n; i++)
            to[place[from[i] >> shift & (ITEM_DIGITS - 1)]++] = from[i];
        w->item[0] = to;
        w->item[1] = from;
    }
}

/* Returns the k-th largest of n numbers; -inf if fewer than k are at least `least`. */
static float largest_but(cls_sampled *w, const float *of, uint32_t n, uint32_t k, float least)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        w->item[0][found] = item_of(of[i], i);
        found += of[i] >= least;
    }
    sort_items(w, found);
    return found < k ? CLS_MASKED : of[(uint32_t)w->item[0][k - 1]];
}

/* Returns a logit that at least k tokens reach, those of -inf among them: the k-th largest maximum,
 * of the tiles, and then of the max tiles that reach that one. */
static float bound_of(cls_sampled *w, uint32_t k)
{
    const uint32_t all = w->tiles * CLS_MAX_TILES_PER_TILE;
    float bound = -CLS_FLT_MAX;
    if (k == 1)
        return w->top;
    if (k <= w->tiles)
        bound = largest_but(w, w->tile_max, w->tiles, k, CLS_MASKED);
    return k <= all ? largest_but(w, w->max, all, k, bound) : bound;
}

/* Lists the tokens of the set whose logit is at least `bound`. Those of -inf come last in order,
 * and the set has none. */
static void list_above(cls_sampled *w, float bound)
{
    const uint32_t all = w->tiles * CLS_MAX_TILES_PER_TILE;
    uint32_t found = 0;
    for (uint32_t t = 0; t < all; t++) {
        const uint32_t first = t * CLS_MAX_TILE;
        for (uint32_t i = first; w->max[t] >= bound && i < first + CLS_MAX_TILE; i++) {
            w->item[0][found] = item_of(w->z[i], i);
            found += w->z[i] >= bound;
        }
    }
    sort_items(w, found);
    w->listed = found < w->n ? found : w->n;
    for (uint32_t i = 0; i < w->listed; i++)
        w->set[i] = (uint32_t)w->item[0][i];
}

void cls_select(cls_sampled *w, uint32_t k)
{
    if (k > w->listed)
        list_above(w, bound_of(w, k));
}

/* Every so many tokens are the sample of a row: a prime number, since rows may have a period. */
#define SAMPLED 61u

void cls_select_mass(cls_sampled *w, uint64_t mass)
{
    const uint32_t listed = w->listed, last = w->set[listed - 1];
    const uint64_t last_item = item_of(w->z[last], last);
    uint64_t sum = 0;
    uint32_t found = 0, n = 0;
    for (uint32_t i = 0; i < w->vocab; i += SAMPLED) {
        w->item[0][found] = item_of(w->z[i], i);
        found += w->z[i] > CLS_MASKED && w->item[0][found] > last_item;
    }
    sort_items(w, found);
    while (n < found && sum < mass / SAMPLED + mass / (16 * SAMPLED))
        sum += cls_token_mass(w, (uint32_t)w->item[0][n++]);
    if (n > 0 && n < found)
        list_above(w, w->z[(uint32_t)w->item[0][n - 1]]);
    if (w->listed <= listed)
        list_above(w, -CLS_FLT_MAX);
}

/* ---------------------------------------------------------------------- counts */

uint32_t cls_count_above(const cls_sampled *w, int32_t key)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < w->tiles; t++) {
        const float *const z = w->z + (size_t)t * CLS_TILE;
        if (key_of(w->tile_max[t]) < key)
            continue;
        for (uint32_t i = 0; i < CLS_TILE; i++)
            n += key_of(z[i]) >= key;
    }
    return n;
}

float cls_least(const cls_sampled *w)
{
    float least = CLS_FLT_MAX;
    for (uint32_t i = 0; i < w->tiles * CLS_TILE; i++)
        least = w->z[i] > CLS_MASKED && w->z[i] < least ? w->z[i] : least;
    return least;
}
