/* SPDX-License-Identifier: MIT */
/* The host's engine: requests in plain C, and what the calls that enqueue do with them. It is what
 * a sampler without a device runs, and the reference with which kernels are compared. It shares
 * only the arithmetic and the types of cl/core with them. Every stage follows its definition, on a
 * set in order, of which select.c lists as much as the stage reads. */
#ifndef CLS_HOST_H
#define CLS_HOST_H

#include "request/request.h"

/* -------------------------------------------------------- state.c and slot.c */

/* A request on the host: what a slot of a device holds, in the same form (cl/core/slot.h), and
 * what the lists of a device have beside it. */
typedef struct cls_host_slot {
    cls_slot slot;
    const cls_params *params; /* of the request */
    cls_params answer_params; /* those outside the thinking, if it has post_thinking, */
    cls_slot answer;          /* and their slot */
    const int32_t *forced;    /* [slot.n_forced] the ids of cls_slot_force() */
    uint32_t *state;          /* [state_words()] */
    uint32_t vocab, layout;
    uint8_t grammar[CLS_DIGEST_SIZE]; /* of the grammar that the request follows, or 0 */
    int32_t *room;                    /* [room_size] own memory for forced ids */
    uint32_t room_size;
} cls_host_slot;

/* Returns how many tokens of the latest output a rollback can remove. */
uint32_t cls_host_slot_removable(const cls_host_slot *h);

/* Returns how often a token counts for penalties. */
uint32_t cls_host_slot_count(const cls_host_slot *h, uint32_t id);

/* Forgets all counts. */
void cls_host_slot_clear(const cls_host_slot *h);

/* Sets how often a token counts, and whether it is in context. */
void cls_host_slot_set_count(const cls_host_slot *h, uint32_t id, uint32_t count, int in_context);

/* Returns 1 if a token is in context, for the repetition penalty alone. */
int cls_host_slot_in_context(const cls_host_slot *h, uint32_t id);

/* Returns an entry of the ring by its index in the text, and the adaptive state and the states of
 * the thinking and of the grammar before the token there. */
uint32_t *cls_host_slot_entry(const cls_host_slot *h, uint32_t at);
cls_slot_adaptive *cls_host_slot_adaptive(const cls_host_slot *h, uint32_t at);
uint32_t *cls_host_slot_thinking(const cls_host_slot *h, uint32_t at);
uint32_t *cls_host_slot_grammar(const cls_host_slot *h, uint32_t at);

/* Begin a request, append entries to it, force ids, and copy a request. The parameters and the
 * forced ids stay the caller's, and remain as long as the request has them. */
void cls_host_slot_begin(cls_host_slot *h, const cls_slot *slot, const cls_params *params);
void cls_host_slot_append(cls_host_slot *h, const uint32_t *entries, uint32_t n);
void cls_host_slot_force(cls_host_slot *h, const int32_t *ids, uint32_t n);
void cls_host_slot_copy(cls_host_slot *h, const cls_host_slot *from);

/* Does what a slot call recorded, of which `words` has the words: what the kernel cls_slots does on
 * a device. params: those of the request afterwards. from: the slot that is copied. */
void cls_host_slot_change(cls_host_slot *h, const cls_change *change, const uint32_t *words,
                          const cls_params *params, const cls_host_slot *from);

/* Reserves memory for n forced ids. Returns 0 if it runs out. */
int cls_host_slot_reserve(cls_host_slot *h, uint32_t n);

/* Removes n tokens of output. A request that has fewer ends. */
void cls_host_slot_rollback(cls_host_slot *h, uint32_t n);

/* Accepts a token of output. next: the adaptive state after it; NULL: that of the pending token, if
 * this is it, and else the one before. */
void cls_host_slot_accept(cls_host_slot *h, uint32_t id, const cls_slot_adaptive *next);

/* Determines again whether the request has stopped, after a slot call. */
void cls_host_slot_check(cls_host_slot *h);

/* --------------------------------------------------------- text.c */

/* Returns the entry that lies `back` before the end of the text, from 1. */
uint32_t cls_text_entry(const cls_host_slot *h, uint32_t back);

/* The states of the thinking and of the grammar after a text, and the cls_row_status bits with
 * which it ends the request; 0 if it does not. */
typedef struct cls_text_state {
    uint32_t thinking, grammar, ends;
} cls_text_state;

/* Returns what an id leads to, but for the status of a loop, which cls_text_loops() has. */
cls_text_state cls_text_next(const cls_host_slot *h, uint32_t id, int is_output);
uint32_t cls_text_loops(const cls_host_slot *h, uint32_t entry);

/* Returns the status bits with which an output token ends its text, that of a loop among them. */
uint32_t cls_text_end(const cls_host_slot *h, uint32_t id);

/* Returns the status bits with which an id ends the request as output token number `outputs`, by
 * its stop ids or max_tokens. `thinking`: the state after it. */
uint32_t cls_text_stops(const cls_host_slot *h, uint32_t id, uint32_t outputs, uint32_t thinking);

/* Returns the grammar that says what may follow the text, or NULL: the request has none, or thinks.
 */
const cls_grammar *cls_text_grammar(const cls_host_slot *h);

/* Returns 1 if an id is one of stop_ids. */
int cls_text_is_stop(const cls_host_slot *h, uint32_t id);

/* Returns 1 if the grammar and allowed_ids leave ids, but only end ids and stop ids: there is no
 * min_tokens then. */
int cls_text_leaves_ends(const cls_host_slot *h);

/* Returns the id that the next row must emit, or -1. */
int32_t cls_text_due(const cls_host_slot *h);

/* Returns 1 if the next draft is judged by relaxed acceptance. */
int cls_text_relaxes(const cls_host_slot *h);

/* Returns 1 if the grammar, where it applies, allows an id next. */
int cls_text_allows(const cls_host_slot *h, uint32_t id);

/* ------------------------------------------------------------------ a row */

/* What a row has beside its request. All pointers are the caller's. */
typedef struct cls_row_inputs {
    const void *logits; /* [vocab] of dtype */
    const void *mask;   /* NULL: everything is allowed */
    const void *bias;   /* [vocab] of bias_dtype; NULL: none */
    int32_t dtype, bias_dtype;
    uint32_t mask_width; /* as cls_mask.width */
    int32_t mask_kind;
    float bias_factor, softcap;
    uint32_t position, draw;
    const uint64_t *random_bits; /* in place of Philox's, or NULL */
    int32_t invalid_token;
    int32_t slot; /* -1: the row is skipped; -2: a map names nothing that exists */
} cls_row_inputs;

/* A row while it is sampled. Its memory is that of a sampler, and serves one row after another. */
typedef struct cls_sampled {
    cls_row_inputs row;
    const cls_host_slot *request; /* NULL: the row has none */
    cls_params params;            /* copies of the request's */
    cls_slot slot;
    cls_infill infill;  /* the sampler's tables, if it has them */
    uint32_t shortlist; /* the most tokens of a list */
    uint32_t vocab, tiles;
    cls_row trace; /* the record of the row: its masses, target and cut */

    /* The latest tokens, as far as DRY, n-grams and bad words see them, and how many of them at the
     * end are output. */
    uint32_t *text;
    uint32_t length, outputs;

    float *z;           /* [tokens of all tiles] adjusted logits; -inf if one cannot be drawn */
    float *max;         /* [max tiles] the largest logit of each */
    float *tile_max;    /* [tiles] and of each mass tile */
    uint32_t available; /* the number of tokens with a logit above -inf */

    /* The tokens that the chain has kept: how many, their largest logit, the scale. `set` lists the
     * first of them in order. Unless it lists all, they are the first n of the whole row. */
    uint32_t *set; /* [tokens of all tiles] */
    uint32_t n, listed;
    float top, scale;
    int truncated; /* 1 after any stage that is on, except for a static temperature */

    cls_unit *unit; /* [tiles] as the last cls_weigh() set them, for a largest logit and scale */
    uint64_t *tile_mass; /* [tiles] as the last cls_row_mass() set them, with their sum */
    uint32_t *weight;    /* [tokens of all tiles] likewise */
    uint64_t row_mass;
    float unit_top, unit_scale;
    int weighed, massed; /* 1 if the units, and the masses, are those of the row */

    double *bias;      /* [vocab] sums of biases */
    uint8_t *stale;    /* [tiles] 1 if a logit has changed since the tile was measured */
    uint8_t *mark;     /* [tokens of all tiles] marks sets of tokens */
    uint64_t *item[2]; /* [tokens of all tiles] tokens to sort */
    uint32_t *scratch; /* [tokens of all tiles] exponents of DRY, words of a bitmap, ids to sort */

    /* Whether a token was drawn, also where another one was emitted; and what it was and the
     * adaptive state after it. */
    int drew;
    int32_t drawn;
    cls_slot_adaptive after_drawn;
} cls_sampled;

/* Allocates memory for rows, and for `text` tokens of their texts. Returns 0 if memory runs out;
 * cls_sampled_close() frees what was allocated. */
int cls_sampled_open(cls_sampled *w, uint32_t vocab, uint32_t text);
void cls_sampled_close(cls_sampled *w);

/* -------------------------------------------------------- sample.c */

/* Samples a row, from its logits to its token. If a token was drawn (w->trace.no_token is 0), the
 * struct has the final set and its units afterwards. Unless `forces` is 1, ids that the request
 * must emit are ignored, and so is whether it has stopped. */
void cls_sampled_run(cls_sampled *w, const cls_host_slot *request, const cls_row_inputs *row,
                     int forces);

/* Turns the record of a row that was sampled without forces into that of the row that emits a
 * token. forced: the request must emit it. */
void cls_sampled_emit(cls_sampled *w, int32_t token, int forced);

/* Returns 1 if adaptive p replaces the draw. */
static inline int cls_is_adaptive(const cls_sampled *w)
{
    return (w->slot.flags & CLS_SLOT_ADAPTIVE) != 0;
}

/* Return the weight of a token of the set in the draw, and the sum of these weights. Those of
 * adaptive p replace the masses. */
uint64_t cls_drawn_weight(const cls_sampled *w, uint32_t id);
uint64_t cls_drawn_sum(const cls_sampled *w);

/* ------------------------------------------------------ watermark.c */

/* Replaces the token that a marked row has drawn, unless its context occurred before. */
void cls_watermark_draw(cls_sampled *w);

/* ------------------------------------------------------- adjust.c */

/* Returns 1 if the row's mask allows a token, and the request's grammar. */
int cls_sampled_allows(const cls_sampled *w, uint32_t id);

/* Sets z to the logits with NaN and +inf replaced, adjusted unless `raw` is 1, and the units for a
 * temperature of 1. Returns the cls_row_status bits of NaN and +inf. */
uint32_t cls_sampled_read(cls_sampled *w, int raw);

/* ------------------------------------------------------- select.c */

/* Find the largest logits of a tile of z, and then that of the row. */
void cls_measure_tile(cls_sampled *w, uint32_t tile);
void cls_measure_row(cls_sampled *w);

/* Sets the units of all tiles for the set's largest logit and scale. */
void cls_weigh(cls_sampled *w);

/* Return the weight of a token in units of its tile, and its mass in units of the row. */
uint32_t cls_token_weight(const cls_sampled *w, uint32_t id);
uint64_t cls_token_mass(const cls_sampled *w, uint32_t id);

/* Sets the masses of the tiles, before truncation, and returns that of the row. */
uint64_t cls_row_mass(cls_sampled *w);

/* Lists at least the first k tokens of the set, which has them. */
void cls_select(cls_sampled *w, uint32_t k);

/* Lists more tokens than are listed, of which there are some, where the set has more: likely all
 * that it takes to reach a mass beyond that of the listed ones. */
void cls_select_mass(cls_sampled *w, uint64_t mass);

/* Returns how many tokens of the row have at least this key. */
uint32_t cls_count_above(const cls_sampled *w, int32_t key);

/* Returns the smallest logit of the row's available tokens, of which there is one. */
float cls_least(const cls_sampled *w);

/* ---------------------------------------------------------- set.c */

/* Makes the set the whole row. */
void cls_set_begin(cls_sampled *w);

/* Keeps the first n tokens of the set. */
void cls_set_cut(cls_sampled *w, uint32_t n);

/* Returns how far a token's logit lies below the largest of the set, in units of 2^-20 bits. */
uint32_t cls_token_depth(const cls_sampled *w, uint32_t id);

/* Returns a sum over the set. */
uint64_t cls_need(cls_sampled *w, cls_sum what);

/* Return how many tokens of the set have at least this key, and how many, in order, have a mass
 * that reaches the target; it takes at least one, and lists what it takes. It lists so many tokens
 * first, and then four times as many: those of a language model's row are seldom more. */
#define CLS_LISTED_FIRST 256u
uint32_t cls_at_key(const cls_sampled *w, int32_t key);
uint32_t cls_reach(cls_sampled *w, uint64_t target);

/* Returns the next marked token from an id on, or the number of tokens. */
static inline uint32_t cls_next_marked(const cls_sampled *w, uint32_t id)
{
    const uint8_t *const at = id < w->vocab ? memchr(w->mark + id, 1, w->vocab - id) : NULL;
    return at != NULL ? (uint32_t)(at - w->mark) : w->vocab;
}

/* Keeps the marked tokens of the set, which is listed. There is at least one. Returns how many. */
uint32_t cls_keep_marked(cls_sampled *w);

/* Records that the set begins at its largest key, with ids from `first` to `last`. If one of these
 * is -1, an upper cut at the same key before this one decides it. */
void cls_upper(cls_sampled *w, int32_t first, int32_t last);

/* --------------------------------------------------- stages and chain.c */

/* Each stage has the file of its name in stages. It returns how many of the set's first tokens it
 * keeps; a stage that drops others drops these itself. If infill keeps none, trace.status says why.
 */
typedef uint32_t cls_stage_run(cls_sampled *w);
#define CLS_STAGE_DECLARED(stage, run, keeps_min, name, field, on) cls_stage_run cls_stage_##run;
CLS_STAGE_TABLE(CLS_STAGE_DECLARED)
#undef CLS_STAGE_DECLARED
cls_stage_run cls_stage_mirostat_1, cls_stage_mirostat_2;

/* Runs the chain over the row. */
void cls_chain_run(cls_sampled *w);

/* ------------------------------------------------------ outputs.c */

/* Where the outputs of a row go. */
typedef struct cls_row_outputs {
    void *at[CLS_OUTPUTS];          /* by cls_output; NULL: not wanted */
    uint32_t top, given, kept, set; /* how many elements those that are lists have */
    int raw;                        /* 1: of CLS_LOGPROB_RAW */
    int wants_set;                  /* 1 if a kept set is wanted */
    int packed; /* 1: `set` ids are left for all sets, and a set gets ids if they are enough */
} cls_row_outputs;

/* Writes the outputs of a row that was sampled, whose status gets CLS_ROW_OVERFLOW if its set does
 * not fit. Returns how many ids of the set were written. */
uint32_t cls_outputs_write(cls_sampled *w, const cls_row_outputs *out);

/* Writes those of the raw row alone, which need no request. */
void cls_outputs_write_raw(cls_sampled *w, const cls_row_outputs *out);

/* Writes those of a row without a token. */
void cls_outputs_clear(const cls_row_outputs *out, uint32_t vocab);

/* ------------------------------------------------------- verify.c */

/* A request's drafts, as cls_verify_call describes them. */
typedef struct cls_drafts {
    const cls_row_inputs *rows; /* [count + 1] */
    uint32_t count;
    const int32_t *ids; /* ids_stride apart */
    uint64_t ids_stride;
    const int32_t *parents; /* [count] the draft that each follows, counted like `first`, or -1 */
    int32_t first;          /* the number of the first of these drafts */
    const void *draft;      /* the distributions of `kind`, draft_stride elements apart */
    uint64_t draft_stride;
    const int32_t *tokens; /* of sparse distributions: as `draft`, of `width` numbers each */
    const int32_t *map;    /* [draft_vocab] of these, or NULL */
    uint32_t width, draft_vocab;
    int32_t method, kind, disable_bonus;
    float epsilon, delta;
} cls_drafts;

/* What a verification gives a request. */
typedef struct cls_emitted {
    int32_t tokens[CLS_MAX_DRAFTS + 1], nodes[CLS_MAX_DRAFTS]; /* then -1 */
    uint32_t accepted, emitted; /* drafts that were emitted, and tokens in all */
} cls_emitted;

/* A request with its drafts while it is verified. */
typedef struct cls_verification {
    cls_drafts drafts;
    const cls_host_slot *request; /* does not change */
    int32_t slot;                 /* of the request; -1: skipped; -2: none */
    cls_host_slot trial;          /* the request with the tokens before the row that is sampled */
    cls_sampled *w;
    uint64_t *p, *q;   /* [vocab] probabilities of the row and of the draft after it, * 2^63 */
    uint32_t status;   /* of the rows that were used and the tokens that were emitted */
    int one_token;     /* 1 if the request takes only one token from a call */
    int by_token;      /* 1 if a draft is accepted only if the row draws it; otherwise: */
    uint32_t accepted; /* how many are, */
    int32_t drawn;     /* the token that follows them; -1: that of the row */
    uint32_t judged[CLS_MAX_DRAFTS + 1]; /* and the statuses of the rows before */
    struct {
        uint32_t row;
        int forced;                /* the request had to emit the token */
    } emitted[CLS_MAX_DRAFTS + 1]; /* of each emitted token */
    int32_t last_row;              /* the row that should have given the next token, or -1 */
    int last_forbidden; /* 1 if the request had to emit an id there that its mask forbids */
    cls_slot_adaptive
        next; /* the request's adaptive state afterwards, but for the decay of top-p */
    cls_emitted result;
} cls_verification;

/* Judges the drafts: sets the result, and the status but for CLS_ROW_OVERFLOW. */
void cls_verification_run(cls_verification *v);

/* Sample the rows of the emitted tokens again, to report on them in order: begin, and then for each
 * place. Returns 1 if the place has a token, whose row the struct then has; the trial must accept
 * the token before the next place. The row's record has the status of the place in any case. */
void cls_verification_begin_report(cls_verification *v);
int cls_verification_report(cls_verification *v, uint32_t place);

/* ------------------------------------------------------- lookup.c */

/* Sets k drafts of a request, NULL: none, as cls_draft() does. Returns how many there are; the rest
 * is `fill`. `text`: [n] the tokens that are searched. */
uint32_t cls_lookup(const cls_draft_call *call, const cls_host_slot *h, const int32_t *text,
                    uint32_t n, int32_t *drafts, uint64_t stride);

/* --------------------------------------------------------- host.c */

/* What a sampler without a device has in place of device memory and kernels. Steps allocate nothing
 * of it. */
typedef struct cls_host {
    uint32_t vocab, slots;
    cls_host_slot *slot; /* [slots] */
    cls_sampled row;
    cls_sampled *side; /* [threads - 1] rows of the other threads */
    uint32_t threads;  /* at most */
    int64_t process;   /* that has made it: after fork() it has one thread */
    cls_verification verification;
    cls_row_inputs *inputs; /* [max_rows] */
    cls_row *record;        /* [max_rows] of the last step's rows */
    int32_t *text;          /* [history] for look-ups */
    int32_t *infill;        /* the tables of cls_sampler_infill(), or NULL */
    uint32_t *memory;       /* the states of the slots and of the trial */
} cls_host;

/* Allocates it, for slots with this layout. threads: as cls_context_options.host_threads. Returns
 * NULL if memory runs out. */
cls_host *cls_host_create(uint32_t vocab, uint32_t layout, uint32_t slots, uint32_t max_rows,
                          uint32_t shortlist, uint32_t threads);
void cls_host_destroy(cls_host *host);

/* Returns its bytes, for so many rows. */
uint64_t cls_host_size(const cls_host *host, uint32_t max_rows);

#endif
