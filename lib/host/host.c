/* SPDX-License-Identifier: MIT */
/* The memory of a sampler without a device. */
#include "host/host.h"

#include <stdlib.h>

/* The arrays of a row, each with its number of elements. */
#define ARRAYS(X) \
    X(text, text) \
    X(z, n) \
    X(set, n) \
    X(scratch, n) \
    X(bias, n) \
    X(mark, n) \
    X(item[0], n) \
    X(item[1], n) \
    X(max, w->tiles *CLS_MAX_TILES_PER_TILE) \
    X(tile_max, w->tiles) \
    X(tile_mass, w->tiles) \
    X(weight, n) \
    X(stale, w->tiles) \
    X(unit, w->tiles)

int cls_sampled_open(cls_sampled *w, uint32_t vocab, uint32_t text)
{
    const size_t n = ((size_t)vocab + CLS_TILE - 1) / CLS_TILE * CLS_TILE;
    memset(w, 0, sizeof *w);
    w->vocab = vocab;
    w->tiles = (uint32_t)(n / CLS_TILE);
#define ALLOCATE(name, count) (w->name = calloc((size_t)(count), sizeof *w->name)) != NULL &&
    return ARRAYS(ALLOCATE) 1;
}

void cls_sampled_close(cls_sampled *w)
{
#define FREE(name, count) free(w->name);
    ARRAYS(FREE)
}

/* Allocates the states of the slots and of the trial, which are 0. */
static int allocate_slots(cls_host *h, uint32_t layout)
{
    const size_t words = state_words(h->vocab, layout), all = (size_t)h->slots + 1;
    h->slot = calloc(h->slots, sizeof *h->slot);
    h->memory =
        words < SIZE_MAX / sizeof *h->memory / all ? calloc(all, words * sizeof *h->memory) : NULL;
    if (h->slot == NULL || h->memory == NULL)
        return 0;
    for (size_t i = 0; i < all; i++) {
        cls_host_slot *const slot = i < h->slots ? &h->slot[i] : &h->verification.trial;
        *slot =
            (cls_host_slot){.state = h->memory + i * words, .vocab = h->vocab, .layout = layout};
    }
    return 1;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Allocates the rows of all threads, which see as much of the text. Returns 0 if memory runs out.
 */
static int open_all_rows(cls_host *h, uint32_t text, uint32_t threads, uint32_t shortlist)
{
    int opened = cls_sampled_open(&h->row, h->vocab, text);
    h->row.shortlist = shortlist;
    h->process = cls_process();
    h->threads = 1;
    h->side = calloc(threads, sizeof *h->side);
    for (; opened && h->side != NULL && h->threads < threads; h->threads++) {
        opened = cls_sampled_open(&h->side[h->threads - 1], h->vocab, text);
        h->side[h->threads - 1].shortlist = shortlist;
    }
    return opened && h->side != NULL;
}

cls_host *cls_host_create(uint32_t vocab, uint32_t layout, uint32_t slots, uint32_t max_rows,
                          uint32_t shortlist, uint32_t threads)
{
    const uint32_t text = least(CLS_LAYOUT_HISTORY(layout), CLS_MAX_HISTORY),
                   wanted = threads != 0 ? threads : least(cls_processors(), CLS_MAX_THREADS);
    cls_host *const h = calloc(1, sizeof *h);
    if (h == NULL)
        return NULL;
    h->vocab = vocab;
    h->slots = slots;
    h->inputs = calloc(max_rows, sizeof *h->inputs);
    h->record = calloc(max_rows, sizeof *h->record);
    h->text = calloc(CLS_LAYOUT_HISTORY(layout), sizeof *h->text);
    h->verification.p = calloc(vocab, sizeof *h->verification.p);
    h->verification.q = calloc(vocab, sizeof *h->verification.q);
    h->verification.w = &h->row;
    if (!open_all_rows(h, text, least(wanted, max_rows), shortlist) || !allocate_slots(h, layout) ||
        h->inputs == NULL || h->record == NULL || h->text == NULL || h->verification.p == NULL ||
        h->verification.q == NULL) {
        cls_host_destroy(h);
        return NULL;
    }
    return h;
}

void cls_host_destroy(cls_host *h)
{
    if (h == NULL)
        return;
    for (uint32_t i = 0; h->slot != NULL && i < h->slots; i++)
        free(h->slot[i].room);
    cls_sampled_close(&h->row);
    for (uint32_t i = 0; h->side != NULL && i + 1 < h->threads; i++)
        cls_sampled_close(&h->side[i]);
    free(h->side);
    free(h->slot);
    free(h->memory);
    free(h->inputs);
    free(h->record);
    free(h->text);
    free(h->verification.p);
    free(h->verification.q);
    free(h->infill);
    free(h);
}

uint64_t cls_host_size(const cls_host *h, uint32_t max_rows)
{
    const cls_sampled *const w = &h->row;
    const uint64_t n = (uint64_t)w->tiles * CLS_TILE,
                   text = least(CLS_LAYOUT_HISTORY(h->slot[0].layout), CLS_MAX_HISTORY);
    uint64_t row = 0, size = sizeof *h + h->slots * sizeof *h->slot +
                             (h->slots + UINT64_C(1)) * state_words(h->vocab, h->slot[0].layout) *
                                 sizeof *h->memory +
                             max_rows * (uint64_t)(sizeof *h->inputs + sizeof *h->record) +
                             CLS_LAYOUT_HISTORY(h->slot[0].layout) * (uint64_t)sizeof *h->text +
                             2 * (uint64_t)h->vocab * sizeof *h->verification.p;
#define SIZE(name, count) row += (count) * (uint64_t)sizeof *w->name;
    ARRAYS(SIZE)
    return size + h->threads * (row + sizeof *h->side);
}
