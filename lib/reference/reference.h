/* SPDX-License-Identifier: MIT */
/* The reference: samples one row, or verifies one request, on the host in plain C. It shares only
 * the arithmetic of cl/core with the kernels. Every stage follows its definition, on a fully sorted
 * row. */
#ifndef CLS_REFERENCE_H
#define CLS_REFERENCE_H

#include "request/request.h"

/* A token in the order in which typical sampling keeps tokens. Smaller distances come first. At one
 * distance, tokens above the mean (tail 0) come first, lower keys before higher ones; then tokens
 * below it, higher keys before lower ones. Of one key, lower ids come first. */
typedef struct cls_preference {
    uint32_t distance, tail;
    int32_t key;
    uint32_t id;
} cls_preference;

/* A row while it is sampled. */
typedef struct cls_scratch {
    cls_host_row row; /* the caller's and its parameters, in this version's size */
    cls_params params;
    cls_infill infill;
    cls_slot slot;           /* its adaptive state is the one before the token */
    cls_slot_adaptive given; /* the caller's, if row->adaptive.begun is not 0 */
    uint32_t vocab, tiles;
    cls_row trace; /* the record of the row: its masses, target and cut */

    /* The request's valid tokens: prompt, then `outputs` of output. */
    uint32_t *text;
    uint32_t length, outputs;

    float *z;           /* [vocab] adjusted logits; -inf if the token cannot be drawn */
    float *tile_max;    /* [tiles] the largest logit of each tile */
    uint32_t available; /* the number of tokens with a logit above -inf */

    /* The tokens that the chain has kept: ids in order, their largest logit, the scale. */
    uint32_t *set; /* [vocab] */
    uint32_t n;
    float top, scale;
    int truncated; /* 1 after any stage that is on, except for a static temperature */

    cls_unit *unit;        /* [tiles] as the last cls_weigh() set them */
    double *bias;          /* [vocab] sums of biases; NaN if a token has none */
    uint8_t *mark;         /* [vocab] marks sets of tokens */
    uint8_t *is_stop;      /* [vocab] marks the stop ids */
    cls_preference *order; /* [vocab] for typical sampling */
    uint32_t *scratch;     /* [vocab] counts of tokens in the text, or ids in another order */
} cls_scratch;

/* ---------------------------------------------------- sample.c and open.c */

/* Does what cls_host_sample() does, and sets the record of the row: its masses, target and cut.
 * Fails as that does. */
cls_status cls_reference(const cls_host_row *row, cls_row *trace, cls_host_result *result);

/* Checks the caller's row, copies it and its parameters, and allocates memory for it and for `more`
 * tokens of output. Fails if an argument is invalid or memory runs out. The caller calls
 * cls_scratch_close() in any case. */
cls_status cls_scratch_open(cls_scratch *w, const cls_host_row *callers, uint32_t more);
void cls_scratch_close(cls_scratch *w);

/* Samples the row, from its logits to its token. If there is a token (w->trace.no_token is 0), the
 * work has the final set and its units afterwards. result->probs and result->kept_ids must be set
 * or NULL. Unless `forces` is 1, ids that the request must emit are ignored, and so is whether it
 * has stopped. */
void cls_scratch_run(cls_scratch *w, int forces, cls_host_result *result);

/* Turns the result of a row that was sampled without forces into the one of the row that emits a
 * token. forced: the request must emit it. */
void cls_scratch_emit(cls_scratch *w, int32_t token, int forced, cls_host_result *result);

/* Checks what the caller has set for the kept sets of rows. `name` is that of their struct. */
cls_status cls_kept_check(const char *name, const int32_t *ids, uint32_t capacity, uint32_t vocab);

/* Returns 1 if the request has stopped with the work's text. */
int cls_scratch_stopped(const cls_scratch *w);

/* ------------------------------------------------------- adjust.c */

/* Sets the text to the request's valid tokens. */
void cls_scratch_text(cls_scratch *w);

/* Returns the cls_row_status bits of a token that ends the request, or 0, except for those of
 * loops. `outputs` is the length of the output including this token. */
uint32_t cls_scratch_stops(const cls_scratch *w, uint32_t outputs, uint32_t id);

/* Returns 1 if the row's mask allows a token, and the request's grammar after the work's text. */
int cls_scratch_allows(const cls_scratch *w, uint32_t id);

/* Sets z to the logits with NaN and +inf replaced, adjusted unless `raw` is 1, and the units for a
 * temperature of 1. Returns the cls_row_status bits of NaN and +inf. */
uint32_t cls_scratch_read(cls_scratch *w, int raw);

/* --------------------------------------------------------- text.c */

/* Returns the id that the request must emit after the work's text, or -1. `at`: how many of the
 * caller's forced ids the text has. */
int32_t cls_scratch_forced(const cls_scratch *w, uint32_t at);

/* Returns 1 if drafts are accepted by relaxed acceptance after the work's text. */
int cls_scratch_relaxes(const cls_scratch *w);
/* Sets *state to the state of the request's grammar after the work's text. Returns 0 if the request
 * has none, or if it thinks, where the grammar does not apply. */
int cls_scratch_grammar(const cls_scratch *w, uint32_t *state);

/* Returns 1 if a state of the grammar and allowed_ids leave ids, but only end ids and stop ids:
 * there is no min_tokens there. */
int cls_scratch_leaves_ends(const cls_scratch *w, uint32_t state);

/* Returns the state of the grammar after the text and this token; 0 where no grammar applies. */
uint32_t cls_scratch_after(const cls_scratch *w, uint32_t id);

/* Return the cls_row_status bits of a token with which the grammar ends, or 0; and 1 if the work's
 * text has ended with one. */
uint32_t cls_scratch_ends(const cls_scratch *w, uint32_t id);
int cls_scratch_ended(const cls_scratch *w);

/* Returns 1 if the first n tokens of the text end with these. */
int cls_text_ends_with(const cls_scratch *w, uint32_t n, const int32_t *ids, uint32_t count);

/* Returns the cls_row_status bits of a loop if the first `length` tokens of the text, of which
 * `outputs` are output, end in one with this token after them; otherwise 0. */
uint32_t cls_scratch_loops(const cls_scratch *w, uint32_t length, uint32_t outputs, uint32_t id);

/* ---------------------------------------------------------- set.c */

/* Sets the set to the whole row, sorted. */
void cls_sort_row(cls_scratch *w);

/* Returns 1 if a token is in the set. */
int cls_set_has(const cls_scratch *w, uint32_t id);

/* Sets the units of all tiles for the set's largest logit and scale. */
void cls_weigh(cls_scratch *w);

/* Return the weight of a token in units of its tile, and its mass in units of the row. */
uint32_t cls_token_weight(const cls_scratch *w, uint32_t id);
uint64_t cls_token_mass(const cls_scratch *w, uint32_t id);

/* Return the mass of a tile and of the row, both before truncation. */
uint64_t cls_tile_mass(const cls_scratch *w, uint32_t tile);
uint64_t cls_row_mass(const cls_scratch *w);

/* Returns how far a token's logit lies below the largest of the set, in units of 2^-20 bits. */
uint32_t cls_token_depth(const cls_scratch *w, uint32_t id);

/* Returns a sum over the set. */
uint64_t cls_need(const cls_scratch *w, cls_sum what);

/* Return how many tokens of the set have at least this key, and how many of these ids, in their
 * order, have a mass that reaches the target. The ids are those of the set; it takes at least one.
 */
uint32_t cls_at_key(const cls_scratch *w, int32_t key);
uint32_t cls_reach(const cls_scratch *w, const uint32_t *ids, uint64_t target);

/* Keeps the marked tokens of the set, of which there is at least one, and returns their number. */
uint32_t cls_keep_marked(cls_scratch *w);

/* Records that the set begins at its largest key, with ids from `first` to `last`. If one of these
 * is -1, an upper cut at the same key before this one decides it. */
void cls_upper(cls_scratch *w, int32_t first, int32_t last);

/* --------------------------------------------------- stages and chain.c */

/* Each stage has the file of its name in stages. It returns how many of the set's first tokens it
 * keeps; a stage that drops others drops these itself. If infill keeps none, trace.status says why.
 */
typedef uint32_t cls_stage_run(cls_scratch *w);
cls_stage_run cls_stage_temperature, cls_stage_top_k, cls_stage_top_p, cls_stage_min_p,
    cls_stage_top_n_sigma, cls_stage_typical_p, cls_stage_xtc, cls_stage_p_less, cls_stage_infill,
    cls_stage_top_a, cls_stage_mirostat_1, cls_stage_mirostat_2;

/* Runs the chain over the sorted row. */
void cls_chain_run(cls_scratch *w);

/* ------------------------------------------------------- verify.c */

/* A request with its drafts while it is verified. */
typedef struct cls_verification {
    cls_host_drafts drafts; /* in this version's size, with all strides set */
    cls_host_row first;     /* the request's first row */
    cls_scratch w;          /* samples one row after the other */
    uint32_t outputs;       /* length of the request's output, without drafts */
    uint32_t status;        /* of the rows that were sampled and the tokens that were emitted */
    int one_token;          /* 1 if the request takes only one token from a call */
    int by_token;           /* 1 if a draft is accepted only if the row draws it */
    int32_t *output;        /* the request's output, then the drafts that were accepted */
    int32_t *ids;           /* the drafts, without a stride */
    struct {
        uint32_t row;
        int forced;                /* the request had to emit the token */
    } emitted[CLS_MAX_DRAFTS + 1]; /* of each emitted token */
    int32_t last_row;              /* the row that should have given the next token, or -1 */
    int last_masked; /* 1 if the request had to emit a token there that its mask forbids */
    uint64_t *p, *q; /* [vocab] probabilities of the row and of the draft after it, * 2^63 */
    cls_host_verified result;
} cls_verification;

/* --------------------------------------------------------- walk.c */

/* Judges the drafts. Sets v->status and v->result, except for the status of the result. */
void cls_verification_walk(cls_verification *v);

#endif
