/* SPDX-License-Identifier: MIT */
/* Logit biases lie in the lists. First comes a bitmap of the biased tokens. With CLS_SLOT_BIAS_ROW
 * a value for every token of whole tiles follows. Otherwise, for each word of the bitmap, the
 * number of biased tokens in the words before it follows, and then the values of the biased tokens
 * alone. Offsets are relative to the bitmap. */
#ifndef CLS_BIASES_H
#define CLS_BIASES_H

#include "core/tiles.h"

CLS_INLINE u32 bias_row_offset(u32 vocab, u32 id) { return state_bitmap(vocab) + id; }
CLS_INLINE u32 bias_before_offset(u32 vocab, u32 word) { return state_bitmap(vocab) + word; }
CLS_INLINE u32 bias_list_offset(u32 vocab, u32 index) { return 2 * state_bitmap(vocab) + index; }

#endif
