/* SPDX-License-Identifier: MIT */
/* The reference, one row on the host: what its files know of each other. It
 * shares the arithmetic of cl/ with the kernels and nothing else; all is done
 * by the definitions, with a full sort. */
#ifndef CLS_REFERENCE_H
#define CLS_REFERENCE_H

#include "request/request.h"

/* A place in an order of preference: nearest first. Of those at one distance the
 * ones from the head come first, lower keys before higher; from the tail it is
 * higher before lower. Of one key lower ids come first. */
typedef struct cls_preference {
    uint32_t distance, tail;
    int32_t key;
    uint32_t id;
} cls_preference;

/* A row on its way to a token. */
typedef struct cls_work {
    const cls_host_row *row; /* in our size */
    const cls_params *params;
    cls_infill infill;
    cls_slot slot; /* its mode is the row's, before the token */
    uint32_t vocab, tiles;

    /* The request's valid tokens: prompt, then `outputs` of output. */
    uint32_t *text;
    uint32_t length, outputs;

    float *z;        /* [vocab] adjusted logits; -inf: not there */
    float *tile_max; /* [tiles] of these */
    uint32_t alive;  /* how many are there */

    /* What the chain has left: ids in order, their largest logit, the scale. */
    uint32_t *set; /* [vocab] */
    uint32_t n;
    float top, scale;
    int touched; /* a stage that is on has come before, other than a static temperature */

    cls_unit *unit;        /* [tiles], by the last cls_weigh() */
    uint64_t *mass;        /* [vocab] by rank, for infill */
    uint32_t *count;       /* [vocab] how often a token counts for the penalties */
    double *bias;          /* [vocab] sums of biases; NaN: none */
    uint8_t *mark;         /* [vocab] for sets of tokens */
    cls_preference *order; /* [vocab] for sorting */
} cls_work;

/* -------------------------------------------------------------- sample.c */

/* cls_host_sample() with its masses, target and cut. */
cls_status cls_reference(const cls_host_row *row, cls_row *trace, cls_host_result *result);

/* Checks the caller's row, copies it and its parameters into our sizes, where they
 * must stay, and makes room for it with so many more tokens of output. Whatever
 * comes of it, cls_work_close(). */
cls_status cls_work_open(cls_work *w, cls_host_row *row, cls_params *params,
                         const cls_host_row *callers, uint32_t more);
void cls_work_close(cls_work *w);

/* From the row's logits to its token. If there is one (trace->none is 0) the work
 * has the final set then, weighed. result->probs must be set. */
void cls_work_run(cls_work *w, cls_row *trace, cls_host_result *result);

/* ------------------------------------------------------- adjust.c */

/* Gathers the request's tokens. */
void cls_work_text(cls_work *w);

/* Whether the request ends with a token, the output being so long with it, and
 * by what: cls_row_status bits. */
uint32_t cls_work_stops(const cls_work *w, uint32_t outputs, uint32_t id);

/* Fills z: cleaned and, but for a raw row, adjusted. Returns what to tell of
 * NaN and +inf. */
uint32_t cls_work_read(cls_work *w, int raw);

/* -------------------------------------------------------- chain.c */

/* Takes every tile's unit for the set's top and scale. */
void cls_weigh(cls_work *w);
/* In these units: the weight in a tile's, the mass in the row's. */
uint32_t cls_token_weight(const cls_work *w, uint32_t id);
uint64_t cls_token_mass(const cls_work *w, uint32_t id);
/* The mass of a tile of the untouched row, of this row, of the set by tokens, and
 * of the set as a stage takes it. */
uint64_t cls_tile_mass(const cls_work *w, uint32_t tile);
uint64_t cls_row_mass(const cls_work *w);
uint64_t cls_set_mass(const cls_work *w);
uint64_t cls_stage_mass(const cls_work *w);
uint32_t cls_token_depth(const cls_work *w, uint32_t id);
/* The mean of these, weighed by mass. */
uint32_t cls_mean_depth(const cls_work *w, uint64_t mass);

/* Leaves the first n tokens of the set; those that are marked, at least one. */
void cls_keep_first(cls_work *w, uint32_t n);
void cls_keep_marked(cls_work *w);

/* Runs the chain over the sorted row. */
void cls_chain_run(cls_work *w, cls_row *trace);

/* ---------------------------------------------------------- set.c */

/* Makes the set the whole row, in order. */
void cls_sort_row(cls_work *w);
void cls_keep_typical(cls_work *w, cls_row *trace);
/* The set may be empty after it, and trace->status says why. */
void cls_keep_infill(cls_work *w, cls_row *trace);

/* ------------------------------------------------------- verify.c */

/* A request with its drafts. */
typedef struct cls_verification {
    cls_host_drafts drafts; /* in our size, strides filled in */
    cls_host_row first;     /* the request's, at its first row ... */
    cls_host_row row;       /* ... and at the one that is looked at, which `w` is of */
    cls_params params;
    cls_work w;
    cls_row trace;    /* the row's; its token is what it draws for itself */
    uint32_t outputs; /* the request's, without drafts */
    uint32_t status;  /* of the rows that were looked at, and of what was emitted */
    int single;       /* the request takes one token a call */
    int by_token;     /* a draft is accepted iff it is the row's own token */
    int32_t *output;  /* the request's, then the drafts that were followed */
    uint64_t *p, *q;  /* [vocab] of the row and of the draft after it, * 2^63 */
    cls_host_verified result;
} cls_verification;

/* --------------------------------------------------------- walk.c */

/* Judges the drafts: v->result but for its status, and v->status. */
void cls_verification_walk(cls_verification *v);

#endif
