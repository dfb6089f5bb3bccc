/* SPDX-License-Identifier: MIT */
/* A change of a slot that waits for the device: one slot call, or several that follow each other
 * and have the same effect as one. Changes of one slot have ascending rounds. Changes of one round
 * run side by side: none uses what another one writes. */
#ifndef CLS_CHANGE_H
#define CLS_CHANGE_H

#include "core/slot.h"

/* cls_change.kind. */
enum {
    CLS_CHANGE_BEGIN = 1,    /* parameters, lists, tokens */
    CLS_CHANGE_APPEND = 2,   /* tokens */
    CLS_CHANGE_PARAMS = 3,   /* parameters, lists */
    CLS_CHANGE_COPY = 4,     /* the state of another slot */
    CLS_CHANGE_LOAD = 5,     /* a saved state, which lies in the words */
    CLS_CHANGE_ROLLBACK = 6, /* rolls `tokens` tokens back */
    CLS_CHANGE_RESET = 7,
    CLS_CHANGE_TURN = 8,  /* the history becomes prompt; then tokens are appended */
    CLS_CHANGE_FORCE = 9, /* the next `tokens` tokens are those at params.lists */
};

typedef struct cls_change {
    u32 kind, round;
    u32 slot, from; /* from: the slot that is copied */
    u32 words;      /* the offset of its words: tokens (entries of the ring), or a whole state */
    u32 tokens;
    u32 lists, n_lists; /* words that are copied to the lists, at params.lists */
    cls_slot params;
} cls_change;

#endif
