/* SPDX-License-Identifier: MIT */
/* The reference of the chain: runs its stages on the sorted row. The masses and the stages that
 * keep a prefix of the row are here. */
#include "reference/reference.h"

/* --------------------------------------------------------------------- masses */

void cls_weigh(cls_work *w)
{
    const cls_split row = split(w->top, w->scale);
    for (uint32_t t = 0; t < w->tiles; t++) {
        const float max = w->tile_max[t] < w->top ? w->tile_max[t] : w->top;
        if (w->tile_max[t] > CLS_AS_F32((int32_t)0xff800000))
            w->unit[t] = unit_of(max, w->top, row.exponent, w->scale);
    }
}

uint32_t cls_token_weight(const cls_work *w, uint32_t id)
{
    const cls_unit *const unit = &w->unit[id / CLS_TILE];
    return w->z[id] > CLS_AS_F32((int32_t)0xff800000)
               ? weight(w->z[id], unit->max, w->scale, unit->fraction)
               : 0;
}

uint64_t cls_token_mass(const cls_work *w, uint32_t id)
{
    return to_row_units(cls_token_weight(w, id), w->unit[id / CLS_TILE].shift);
}

uint64_t cls_tile_mass(const cls_work *w, uint32_t tile)
{
    uint64_t sum = 0;
    for (uint32_t i = tile * CLS_TILE; i < w->vocab && i / CLS_TILE == tile; i++)
        sum += cls_token_weight(w, i);
    return sum == 0 ? 0 : to_row_units(sum, w->unit[tile].shift);
}

uint64_t cls_row_mass(const cls_work *w)
{
    uint64_t mass = 0;
    for (uint32_t t = 0; t < w->tiles; t++)
        mass += cls_tile_mass(w, t);
    return mass;
}

uint64_t cls_set_mass(const cls_work *w)
{
    uint64_t mass = 0;
    for (uint32_t i = 0; i < w->n; i++)
        mass += cls_token_mass(w, w->set[i]);
    return mass;
}

/* The mass of a row without truncation is the sum of its tiles, as on the device. */
uint64_t cls_stage_mass(const cls_work *w)
{
    return w->truncated ? cls_set_mass(w) : cls_row_mass(w);
}

uint32_t cls_token_depth(const cls_work *w, uint32_t id)
{
    return depth_q20(w->z[id], w->top, w->scale);
}

uint32_t cls_mean_depth(const cls_work *w, uint64_t mass)
{
    uint64_t terms = 0;
    for (uint32_t i = 0; i < w->n; i++)
        terms += depth_term(cls_token_mass(w, w->set[i]), cls_token_depth(w, w->set[i]));
    return mean_depth_q20(terms, mass);
}

/* ----------------------------------------------------------------- truncations */

void cls_keep_first(cls_work *w, uint32_t n) { w->n = n < w->n ? n : w->n; }

void cls_keep_marked(cls_work *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->mark[w->set[i]])
            w->set[n++] = w->set[i];
    w->n = n;
    w->top = w->z[w->set[0]];
}

/* Keeps the first n tokens, but at least min_keep. */
static void truncate_to(cls_work *w, uint32_t n)
{
    cls_keep_first(w, n > w->slot.min_keep ? n : w->slot.min_keep);
}

static void keep_top_p(cls_work *w, cls_row *trace)
{
    const uint64_t mass = cls_stage_mass(w);
    const uint32_t p = w->slot.flags & CLS_SLOT_DECAYS ? w->slot.adaptive.top_p : w->slot.top_p;
    uint64_t sum = 0;
    uint32_t n = 0;
    trace->total = mass;
    trace->target = top_p_target(mass, p);
    do
        sum += cls_token_mass(w, w->set[n++]);
    while (n < w->n && sum < trace->target);
    truncate_to(w, n);
}

static void keep_min_p(cls_work *w)
{
    uint32_t n = 0;
    while (n < w->n && depth(w->z[w->set[n]], w->top, w->scale) <= w->slot.min_p)
        n++;
    truncate_to(w, n);
}

static void keep_top_n_sigma(cls_work *w)
{
    const float range = w->top - w->z[w->set[w->n - 1]];
    uint64_t sum = 0, squares = 0;
    uint32_t n = 0;
    if (!(range > 0.0f))
        return;
    const float grid = sigma_grid(range);
    for (uint32_t i = 0; i < w->n; i++) {
        const uint64_t u = sigma_unit(w->z[w->set[i]], w->top, grid);
        sum += u;
        squares += u * u;
    }
    const float limit = sigma_limit(w->n, sum, squares, w->slot.sigma);
    while (n < w->n && depth(w->z[w->set[n]], w->top, grid) <= limit)
        n++;
    truncate_to(w, n);
}

uint32_t cls_count_to_depth(const cls_work *w, uint32_t most)
{
    uint32_t n = 0;
    while (n < w->n && cls_token_depth(w, w->set[n]) <= most)
        n++;
    return n;
}

static void keep_p_less(cls_work *w)
{
    const uint64_t mass = cls_stage_mass(w);
    uint64_t squares = 0;
    for (uint32_t i = 0; i < w->n; i++)
        squares += square_term(cls_token_weight(w, w->set[i]), w->unit[w->set[i] / CLS_TILE].shift);
    truncate_to(w, cls_count_to_depth(w, p_less_depth(mass, squares, w->top, w->scale)));
}

static void keep_top_a(cls_work *w)
{
    truncate_to(
        w, cls_count_to_depth(w, top_a_depth(cls_stage_mass(w), w->slot.top_a, w->top, w->scale)));
}

/* ------------------------------------------------------------------- the chain */

void cls_chain_run(cls_work *w, cls_row *trace)
{
    w->truncated = 0;
    w->scale = w->slot.total_scale;
    cls_weigh(w);
    if (w->slot.flags & CLS_SLOT_TOTAL)
        trace->total = cls_row_mass(w);
    w->scale = CLS_LOG2E;
    for (uint32_t i = 0; i < CLS_MAX_STAGES && w->n > 0; i++) {
        const uint32_t stage = cls_slot_stage(&w->slot, i);
        cls_weigh(w);
        switch (stage) {
        case CLS_STAGE_TEMPERATURE:
            cls_apply_temperature(w);
            break;
        case CLS_STAGE_TOP_K:
            cls_keep_first(w, (uint32_t)w->slot.top_k);
            break;
        case CLS_STAGE_TOP_P:
            keep_top_p(w, trace);
            break;
        case CLS_STAGE_MIN_P:
            keep_min_p(w);
            break;
        case CLS_STAGE_TOP_N_SIGMA:
            keep_top_n_sigma(w);
            break;
        case CLS_STAGE_TYPICAL_P:
            cls_keep_typical(w, trace);
            break;
        case CLS_STAGE_XTC:
            cls_keep_xtc(w, trace);
            break;
        case CLS_STAGE_P_LESS:
            keep_p_less(w);
            break;
        case CLS_STAGE_TOP_A:
            keep_top_a(w);
            break;
        case CLS_STAGE_INFILL:
            cls_keep_infill(w, trace);
            break;
        case CLS_STAGE_MIROSTAT_1:
            cls_keep_mirostat_1(w);
            break;
        case CLS_STAGE_MIROSTAT_2:
            if (!row_is_untruncated(&w->slot))
                cls_keep_mirostat_2(w);
            break;
        default:
            return;
        }
        w->truncated |= stage != CLS_STAGE_TEMPERATURE || (w->slot.flags & CLS_SLOT_DYNAMIC) != 0;
    }
}
