/* SPDX-License-Identifier: MIT */
/* The expected distribution of a row in double precision. The oracle has its own adjustments, sort,
 * exp, chain and Philox and shares no code with the library. It therefore tests whether the
 * library's arithmetic is right; equality tests only show that all paths agree.
 *
 * The oracle cannot know the result if a rounding decides it. It then checks that the library's
 * choice is within the rounding error, and adopts it. This holds for adjusted logits and, with
 * oracle_follow(), for each token that a stage of the chain may keep or remove. */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include <stdint.h>

#include "one_row.h"

typedef struct oracle {
    uint32_t vocab;
    int status; /* the expected cls_row_status bits, without those of a token that stops the request
                 */
    uint32_t finite; /* tokens that can be drawn at all */
    double *top; /* the largest logit of each 1,024 tokens, or -inf; the unit of their weights */
    uint32_t *order;     /* [finite] ids, most likely first */
    double *value;       /* [finite] their adjusted logits */
    double scale;        /* 1 / temperature of the final distribution */
    double scale_error;  /* the largest relative error of scale */
    uint8_t *keep;       /* [finite] whether the token is in the final set */
    uint32_t kept;       /* tokens in the final set */
    int32_t last_resort; /* the only token that infill keeps if no other is left; otherwise -1 */
    int empty_status;    /* the status of a row that infill leaves without a token */
    int undecided;       /* too many roundings decided: nothing after them is known */
    char fault[240];     /* describes what the library did wrong, or "" */
    const cls_params *params;
    cls_adaptive_state adaptive; /* the state before the token, begun */
    double top_p, top_p_error;   /* top_p after decay, and its error */
} oracle;

/* Reads the row's logits, mask, biases, tokens and parameters, and runs its chain. Returns 0 if
 * memory is exhausted. The row must outlive the oracle. */
int oracle_make(oracle *o, const one_row *row);
void oracle_free(oracle *o);

/* Runs the chain again and compares each stage with one_sample(), which runs the chain up to
 * that stage. The resulting set is the library's. Returns 0 if they disagree; o->fault describes
 * the difference. */
int oracle_follow(oracle *o, const one_row *row);

/* Computes the final distribution in probs [vocab]. Returns the error that float32 may have, as a
 * total variation distance. */
double oracle_probs(const oracle *o, double *probs);

/* Checks the row's adaptive state after the drawn token is accepted. Returns NULL, or a description
 * of the error. */
const char *oracle_adaptive_fault(const oracle *o, int32_t token, const cls_adaptive_state *after);

/* Samples a row by one_sample() into *result, and compares the set, the probabilities, the
 * log-probabilities, the status and the adaptive state. Returns NULL, or what is wrong, in static
 * memory. *decided: whether the oracle could decide. In against.c. */
const char *oracle_against(const one_row *row, one_result *result, int *decided);

/* Returns the natural logarithm of a token's probability at temperature 1 among all logits [vocab].
 */
double oracle_logprob_raw(const float *logits, uint32_t vocab, int32_t token);

/* Returns whether the request stops if its next token is `token`. */
int oracle_stops(const one_row *row, int32_t token);
/* Returns min_tokens; 0 where allowed_ids allow stop ids only. */
uint32_t oracle_min_tokens(const cls_params *p);

/* Returns whether counts of draws follow probs: a chi-square test with alpha 1e-6, which merges
 * cells with an expected count below 5. Also fails if a token without probability was drawn. */
int oracle_chi_square(const double *probs, const uint32_t *counts, uint32_t n, uint32_t draws,
                      double *statistic, double *limit);

/* ------------------------------------------------------------ parts of the oracle */

/* The effect of a request's tokens on the logit of one token. */
typedef struct oracle_effect {
    uint32_t repeats, counted, present; /* occurrences, for each penalty in its window */
    uint8_t banned;                     /* by min tokens, bad words, n-grams */
    uint8_t unlisted;                   /* not one of the allowed ids, hence masked */
    uint8_t spared;                     /* penalties do not concern it */
    int32_t dry;                        /* DRY's exponent, or -1 */
} oracle_effect;
void oracle_effects(const one_row *row, oracle_effect *of);

/* The same for a request as a list of its tokens, oldest first. */
typedef struct oracle_story {
    const int32_t *id;
    const uint8_t *is_output;
    uint32_t n, outputs;
    uint32_t first; /* the first one that DRY, n-grams and bad words consider */
} oracle_story;
void oracle_effects_of(const cls_params *p, uint32_t vocab, const oracle_story *s,
                       oracle_effect *of);

/* Returns a logit with a soft-cap, by the rules of doc/arithmetic.md, and that of a row. */
float oracle_softcap(float x, float cap);
float oracle_logit(const one_row *row, uint32_t id);

/* Return a row's raw logit with its dense bias, whether its mask allows the token, and whether its
 * list of biases has the token; *bias is their sum. */
float oracle_raw(const one_row *row, uint32_t id);
int oracle_allows(const one_row *row, uint32_t id);
int oracle_biases(const cls_params *p, uint32_t id, double *bias);

/* Returns what DRY subtracts from a logit: the amount of an exponent, 0 for -1. */
double oracle_dry_amount(const cls_params *p, int32_t exponent);

/* Returns the logit that a raw one stands for: NaN is -inf, +inf the largest float, and a subnormal
 * one 0. */
double oracle_meant(float x);

/* A token and its logit. Sorts by logit, largest first, and by id. */
typedef struct oracle_entry {
    double value;
    uint32_t id;
} oracle_entry;
void oracle_sort(oracle_entry *entries, uint32_t n);

/* Applies every adjustment except the mask and the dense bias to a token's raw logit x. *error is
 * the error that float32 may have. */
double oracle_adjusted(const one_row *row, uint32_t id, float x, const oracle_effect *t,
                       double *error);

/* Computes the adjusted logits [vocab] by the single float32 operations of cl/core/arithmetic.h. In
 * oracle_rounded.c. */
void oracle_rounded(const one_row *row, float *adjusted);

/* Runs the chain of o->params over the sorted tokens. In oracle_chain.c. */
int oracle_run(oracle *o, const one_row *row, int follow);

/* The tokens that a stage sees. A verdict on a token is ORACLE_IN or ORACLE_OUT, combined with
 * ORACLE_EITHER if a rounding may decide otherwise. In oracle_stages.c. */
#define ORACLE_OUT 0
#define ORACLE_IN 1
#define ORACLE_EITHER 2
typedef struct oracle_set {
    uint32_t n;
    uint32_t *index;  /* [n] positions in o->order, ascending */
    double *depth;    /* [n] bits below the set's largest logit */
    double *weight;   /* [n] relative to the likeliest token's */
    uint8_t *verdict; /* [n] */
    double total;     /* the sum of the weights */
    double slack;     /* the share of the mass that errors can move */
    double lost;      /* the resulting error of the mean depth, in bits */
} oracle_set;
void oracle_stage(oracle *o, oracle_set *s, const one_row *row, int stage);
/* Weights of less than 2^-29 of their tile's maximum may be 0. In bits. */
#define ORACLE_MAY_WEIGH_NOTHING 28.9
#define ORACLE_INFILL_MOST 128 /* tokens that infill considers */
#define ORACLE_MIROSTAT 100 /* a stage number for Mirostat 1 and 2, besides those of clsample.h */

#endif
