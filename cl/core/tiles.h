/* SPDX-License-Identifier: MIT */
/* How a row is divided: its tiles, its bitmaps, and its sample. */
#ifndef CLS_TILES_H
#define CLS_TILES_H

#include "core/types.h"

/* Tokens of a mass tile. This number is part of the arithmetic: another one would give other
 * tokens. */
#define CLS_TILE 1024
/* Tokens of a max tile, the unit in which the shortlist is found. It affects speed only: with 64
 * the survey costs 1.1 reads of the row, with 256 it would cost 1.03; but a list of k tokens reads
 * k max tiles. */
#define CLS_MAX_TILE 64
#define CLS_MAX_TILES_PER_TILE (CLS_TILE / CLS_MAX_TILE)
#define CLS_MAX_VOCAB 1048576

/* Two more bits of a tile's flags: the slot may adjust a token of the tile; the mask forbids
 * one. */
#define CLS_TILE_ADJUSTED 65536u
#define CLS_TILE_MASKED 131072u

/* Returns the number of words of a bitmap. It has a bit for each token of whole tiles, so that a
 * kernel can always read a whole tile of it. */
CLS_INLINE u32 state_bitmap(u32 vocab)
{
    return (vocab + CLS_TILE - 1) / CLS_TILE * (CLS_TILE / 32);
}

/* The sample of a row, from which a cut is first estimated: all of a small row, 16 tokens of
 * every 512 of a large one. */
enum {
    CLS_SAMPLE_ALL = 4096,
    CLS_SAMPLE_RUN = 16,
    CLS_SAMPLE_BLOCK = 512,
};
CLS_INLINE u32 sample_size(u32 vocab)
{
    return vocab <= CLS_SAMPLE_ALL ? (vocab + CLS_SAMPLE_RUN - 1) / CLS_SAMPLE_RUN * CLS_SAMPLE_RUN
                                   : vocab / CLS_SAMPLE_BLOCK * CLS_SAMPLE_RUN;
}

#endif
