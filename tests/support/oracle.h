/* SPDX-License-Identifier: MIT */
/* What a row's distribution ought to be, in double precision: its own
 * adjustments, its own sort, its own exp, its own chain, its own Philox. Shares no
 * code with the library, and is therefore what tells whether the library's
 * arithmetic is right; equality tests only tell that all paths agree.
 *
 * Where a rounding decides, the oracle cannot know. It then takes the library's
 * choice, after a check that it was a matter of rounding: of an adjusted logit
 * (within the error of float32), and, with oracle_follow(), of each token on
 * which a stage of the chain may decide either way. */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include <stdint.h>

#include <clsample.h>

typedef struct oracle {
    uint32_t vocab;
    int status; /* the cls_row_status bits that the row should get, but for a token that stops it */
    uint32_t finite; /* tokens that can be drawn at all */
    double *top; /* of each 1,024 tokens the largest of them, or -inf: weights are in units of it */
    uint32_t *order;    /* [finite] ids, most likely first */
    double *value;      /* [finite] their adjusted logits */
    double scale;       /* of the final distribution: 1 / temperature ... */
    double scale_error; /* ... and how far off it may be, of itself */
    uint8_t *keep;      /* [finite] whether it is in the final set */
    uint32_t kept;      /* how many are */
    int32_t only;       /* infill's last resort: this token alone, whatever its logit; else -1 */
    int none;           /* the status of a row that infill leaves without a token */
    int undecided;   /* roundings decided more than can be followed: nothing after them is known */
    char fault[240]; /* what the library did wrong, or "" */
    const cls_params *params;
    cls_host_mode mode;        /* before the token; begun */
    double top_p, top_p_error; /* decayed, if it decays */
} oracle;

/* Reads the row's logits, mask, biases, tokens and parameters, and runs its
 * chain. 0 if out of memory. The row must outlive it. */
int oracle_make(oracle *o, const cls_host_row *row);
void oracle_free(oracle *o);

/* Runs the chain again, stage by stage beside cls_host_sample(), which gets the
 * chain up to there. 0: they disagree, o->fault says on what. The set is then
 * the library's. Each draws this one choice the same. */
int oracle_follow(oracle *o, const cls_host_row *row);

/* Fills probs [vocab] with the final distribution; how far off in total
 * variation float32 may be. */
double oracle_probs(const oracle *o, double *probs);

/* What accepting the drawn token makes of the row's mode: NULL, or what is wrong. */
const char *oracle_mode_fault(const oracle *o, int32_t token, const cls_host_mode *after);

/* How many tokens the row's chain leaves for its infill stage, by cls_host_sample(). */
uint32_t oracle_left_for_infill(const cls_host_row *row);

/* The natural logarithm of a token's probability among all of [vocab] logits
 * at temperature 1. */
double oracle_logprob_raw(const float *logits, uint32_t vocab, int32_t token);

/* Whether the request ends with its next token being `token`. */
int oracle_stops(const cls_host_row *row, int32_t token);

/* Whether counts of draws follow probs: the chi-square statistic's quantile for
 * alpha 1e-6 is not exceeded, cells expecting fewer than 5 taken together, and
 * nothing was drawn that has no probability. */
int oracle_chi_square(const double *probs, const uint32_t *counts, uint32_t n, uint32_t draws,
                      double *statistic, double *limit);

/* ------------------------------------------------------------ its parts */

/* What a request's tokens do to a token's logit. */
typedef struct oracle_touch {
    uint32_t prompt, output; /* times in the penalties' window */
    uint8_t banned;          /* by min tokens, bad words, n-grams */
    uint8_t unlisted;        /* none of the allowed ids: as if masked */
    int32_t dry;             /* DRY's exponent, or -1 */
} oracle_touch;
void oracle_touches(const cls_host_row *row, oracle_touch *of);

/* The row's logit of a token, whose raw one is x, with every adjustment but the
 * mask and the dense bias. *error: how far off float32 may be. */
double oracle_adjusted(const cls_host_row *row, uint32_t id, float x, const oracle_touch *t,
                       double *error);

/* Fills [vocab] logits as the chain sees them, by the single float32 operations
 * of cl/core/arithmetic.h: requests.c. */
void request_adjust(const cls_host_row *row, float *adjusted);

/* Runs the chain of o->params over the sorted tokens: oracle_chain.c. */
int oracle_run(oracle *o, const cls_host_row *row, int follow);

/* A stage's view of the row: oracle_stages.c. What it decides on a token is
 * ORACLE_IN or ORACLE_OUT, and where a rounding may decide otherwise
 * ORACLE_EITHER as well. */
#define ORACLE_OUT 0
#define ORACLE_IN 1
#define ORACLE_EITHER 2
typedef struct oracle_set {
    uint32_t n;
    uint32_t *place;  /* [n] in o->order, ascending */
    double *depth;    /* [n] under the set's top, in bits */
    double *weight;   /* [n] of the top's */
    uint8_t *verdict; /* [n] */
    double total;     /* of the weights */
    double slack;     /* the share of the mass that errors can move ... */
    double lost;      /* ... and how far that moves the mean depth, in bits */
} oracle_set;
void oracle_stage(oracle *o, oracle_set *s, const cls_host_row *row, int stage);
#define ORACLE_INFILL_MOST 128 /* tokens that infill looks at */
#define ORACLE_MIROSTAT 100    /* of either kind, beside the stages of clsample.h */

/* A stage that is on, from the parameters. */
int oracle_is_on(const cls_params *p, uint32_t vocab, int stage);

#endif
