/* SPDX-License-Identifier: MIT */
/* Checks a row that the caller passes to the reference, and allocates memory for it. */
#include "reference/reference.h"

#include <stdlib.h>

static cls_status check_host_row(const cls_host_row *row)
{
    if (row->logits == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->logits is NULL");
    if (row->dtype < 0 || row->dtype >= CLS_DTYPES)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->dtype is %d, which is not a cls_dtype",
                        (int)row->dtype);
    if (row->vocab < 1 || row->vocab > CLS_MAX_VOCAB)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS, "row->vocab is %u; it must be 1 to %d",
                        (unsigned)row->vocab, CLS_MAX_VOCAB);
    if (row->mask_kind != CLS_MASK_PACKED && row->mask_kind != CLS_MASK_BOOL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->mask_kind is %d, which is not a cls_mask_kind", (int)row->mask_kind);
    if (row->prompt == NULL && row->prompt_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->prompt_count is %u, but row->prompt is NULL",
                        (unsigned)row->prompt_count);
    if (row->output == NULL && row->output_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->output_count is %u, but row->output is NULL",
                        (unsigned)row->output_count);
    if (row->forced_ids == NULL && row->forced_count != 0)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->forced_count is %u, but row->forced_ids is NULL",
                        (unsigned)row->forced_count);
    for (uint32_t i = 0; i < row->forced_count; i++)
        if (row->forced_ids[i] < 0 || (uint32_t)row->forced_ids[i] >= row->vocab)
            return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                            "row->forced_ids[%u] is %d, which is not a token of a vocabulary of %u",
                            (unsigned)i, (int)row->forced_ids[i], (unsigned)row->vocab);
    return CLS_OK;
}

/* Sets the adaptive state that the caller gives. */
static cls_status read_adaptive(cls_scratch *w)
{
    const cls_adaptive_state *const from = &w->row.adaptive;
    w->given = (cls_slot_adaptive){from->mu, from->sum, from->weight, from->top_p};
    const char *const fault = from->begun != 0 ? cls_adaptive_fault(&w->slot, &w->given) : NULL;
    return fault == NULL
               ? CLS_OK
               : cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                          "row->adaptive has mu %d, sum %u and weight %u: %s", (int)from->mu,
                          (unsigned)from->sum, (unsigned)from->weight, fault);
}

/* Reads the tables of the infill stage if the parameters turn it on. Fails if they are missing or
 * invalid. */
static cls_status read_infill(cls_scratch *w)
{
    if (w->params.infill == 0)
        return CLS_OK;
    if (w->row.infill == NULL)
        return cls_fail(CLS_BAD_ARGUMENT, CL_SUCCESS,
                        "row->infill is NULL, but params->infill is %d", (int)w->params.infill);
    const cls_status status = CLS_STRUCT_READ(&w->infill, w->row.infill, "row->infill");
    return status == CLS_OK ? cls_infill_check(&w->infill, w->vocab) : status;
}

/* The arrays, each with its number of elements. */
#define ARRAYS(X) \
    X(text, text) \
    X(z, n) \
    X(set, n) \
    X(scratch, n) \
    X(bias, n) \
    X(mark, n) \
    X(is_stop, n) \
    X(order, n) \
    X(tile_max, w->tiles) \
    X(unit, w->tiles)

/* Allocates the arrays. Returns 0 if memory runs out; cls_scratch_close() frees what was allocated.
 */
static int allocate_row(cls_scratch *w, uint32_t more)
{
    const size_t n = w->vocab, text = (size_t)w->row.prompt_count + w->row.output_count + more + 1;
    w->tiles = (w->vocab + CLS_TILE - 1) / CLS_TILE;
#define ALLOCATE(name, count) \
    (w->name = (size_t)(count) < SIZE_MAX / sizeof *w->name ? malloc((count) * sizeof *w->name) \
                                                            : NULL) &&
    return ARRAYS(ALLOCATE) 1;
}

void cls_scratch_close(cls_scratch *w)
{
#define FREE(name, count) free(w->name);
    ARRAYS(FREE)
}

/* Marks the stop ids. Where allowed_ids allow these only, there is no min_tokens. */
static void mark_stops(cls_scratch *w)
{
    const cls_ids *const stop = &w->params.stop_ids, *const allowed = &w->params.allowed_ids;
    uint32_t i = 0;
    memset(w->is_stop, 0, w->vocab);
    for (uint32_t k = 0; k < stop->count; k++)
        w->is_stop[stop->ids[k]] = 1;
    while (i < allowed->count && w->is_stop[allowed->ids[i]])
        i++;
    if (i != 0 && i == allowed->count)
        w->slot.min_tokens = 0;
}

cls_status cls_scratch_open(cls_scratch *w, const cls_host_row *callers, uint32_t more)
{
    cls_host_row *const row = &w->row;
    memset(w, 0, sizeof *w);
    cls_status status = CLS_STRUCT_READ(row, callers, "row");
    if (status == CLS_OK)
        status = check_host_row(row);
    if (status == CLS_OK)
        status =
            cls_bias_check("row", row->bias != NULL, "bias_", row->bias_dtype, &row->bias_factor);
    if (row->mask_width == 0)
        row->mask_width = row->mask_kind == CLS_MASK_BOOL ? row->vocab : (row->vocab + 31) / 32;
    w->vocab = row->vocab;
    if (status == CLS_OK)
        status = cls_slot_from_params(row->params, row->vocab, &w->slot);
    if (status == CLS_OK)
        status = read_adaptive(w);
    if (status == CLS_OK)
        status = cls_params_read(row->params, &w->params);
    if (status == CLS_OK)
        status = read_infill(w);
    if (status == CLS_OK && !allocate_row(w, more))
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS,
                          "out of host memory for a row of %u tokens", (unsigned)w->vocab);
    if (status == CLS_OK)
        mark_stops(w);
    return status;
}
