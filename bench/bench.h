/* SPDX-License-Identifier: MIT */
/* clsample bench: the floor, the step, and what lies between them.
 *
 *     rows.c      the logits, masks and histories that are sampled
 *     floor.c     the fastest way to read them: what no sampler can beat
 *     measure.c   verifies a step against the reference, then times it
 *     drafts.c    the same for a verification of drafts
 *     requests.c  the requests that are served
 *     serving.c   requests that come and go while steps run ahead
 *     table.c     what was measured, for people and for programs
 *     bench.c     the cases, the command
 */
#ifndef BENCH_H
#define BENCH_H

#include "../cli/cli.h"

/* Whatever runs steps returns 1 without a message where cli_interrupted(): what it measured is
 * lost, what was finished before is not. */

/* What is measured on: one device, one shape of logits. */
typedef struct bench_setup {
    const cli_target *on; /* the opened device */
    cls_sampler *sampler;
    uint32_t batch, vocab;
    cls_dtype dtype;
    uint32_t runs;    /* 0: as many as a steady median needs */
    uint32_t spare;   /* rows of logits beyond the batch */
    uint32_t window;  /* the sampler's `history` */
    uint32_t history; /* tokens of a penalized row's history ... */
    int32_t law;      /* ... and a bench_law for them */
    uint32_t longest; /* tokens of `ids` that each row has: of the longest history */

    void *rows;          /* the logits on the host, [batch + spare, vocab] of dtype ... */
    cl_mem logits;       /* ... and on the device; BENCH_PAD elements of -inf follow */
    size_t size;         /* bytes, padding included */
    int32_t *mask_words; /* likewise, [batch, ceil(vocab / 32)] */
    cl_mem mask;
    cl_mem tokens;      /* [batch]; the statuses behind them */
    int32_t *likeliest; /* [batch + spare]: each row's likeliest token */
    int32_t *ids;       /* [batch, longest] */
} bench_setup;

#define BENCH_PAD 16
#define BENCH_ROWS 16u      /* what the command takes by default: of a step, */
#define BENCH_VOCAB 128256u /* tokens of a row */
#define BENCH_HISTORY 2000u /* and of a history */
#define BENCH_MOST_RUNS 20000u
#define BENCH_MOST_HISTORY 65536u

/* ------------------------------------------------------------------ rows.c */

typedef enum bench_rows {
    BENCH_LANGUAGE, /* a head of .6 over a tail falling with the id: top-p .9 keeps some 300 */
    BENCH_FLAT,     /* normal, sigma 1: top-p .9 keeps six tokens in ten */
    BENCH_TIES      /* the same in quarters: thousands of tokens a value */
} bench_rows;

size_t bench_dtype_size(cls_dtype dtype);

/* Element i as a float. */
float bench_get(const void *rows, cls_dtype dtype, size_t i);

/* Fills [n, vocab] and the padding behind it. The same on every machine
 * but for the last bit of its libm. */
void bench_fill_rows(void *rows, cls_dtype dtype, uint32_t n, uint32_t vocab, bench_rows kind);

/* The lowest id of the largest logit. */
int32_t bench_likeliest(const void *rows, cls_dtype dtype, uint32_t row, uint32_t vocab);

typedef enum bench_mask {
    BENCH_ALL,    /* everything is allowed */
    BENCH_HALF,   /* a random half of the tokens is allowed */
    BENCH_FEW,    /* ... a random hundredth */
    BENCH_BUT_ONE /* ... all but a random one */
} bench_mask;

/* Never allows none of a row's tokens. */
void bench_fill_mask(int32_t *words, uint32_t batch, uint32_t vocab, bench_mask kind);

typedef enum bench_law {
    BENCH_ZIPF,   /* id i with a probability of 1 / (1 + i), as text over a vocabulary sorted by
                     frequency */
    BENCH_UNIFORM /* all alike: a history that touches nearly every tile */
} bench_law;

/* n random ids; other ones with each seed. */
void bench_fill_ids(int32_t *ids, uint32_t n, uint32_t vocab, bench_law law, uint64_t seed);

/* From 0 to n - 1. */
uint32_t bench_random(uint64_t *state, uint32_t n);

/* What a draft model says of a row, at a temperature: probabilities; and a token drawn from them.
 */
int32_t bench_fill_draft(float *probs, const void *rows, cls_dtype dtype, uint32_t row,
                         uint32_t vocab, double temperature, uint64_t *state);

/* ----------------------------------------------------------------- floor.c */

/* One shape of the max-only read, ready to be enqueued. */
typedef struct bench_floor {
    cl_program program;
    cl_kernel kernel, nothing;
    cl_mem out;
    size_t local, global;
    size_t maxima;  /* that it leaves in out */
    char shape[64]; /* for people */
} bench_floor;

/* Tries several shapes on setup->logits (which must be filled) and keeps the
 * fastest that finds the right maximum. 0, or 1 after a message. */
int bench_floor_open(bench_floor *floor, const bench_setup *setup);
void bench_floor_close(bench_floor *floor);
cl_int bench_floor_enqueue(const bench_floor *floor, cl_command_queue queue);

/* --------------------------------------------------------------- measure.c */

/* What llama.cpp's chain has beside its truncations. */
typedef enum bench_more {
    BENCH_NO_MORE, /* ... and it isn't llama.cpp's chain */
    BENCH_LLAMA,   /* a repetition penalty over a window, no more by default */
    BENCH_DRY,
    BENCH_XTC,
    BENCH_TYPICAL,
    BENCH_MIROSTAT,
    BENCH_MIROSTAT_LATE /* ... after so many tokens that mu has risen above all that there is to cut
                         */
} bench_more;

/* What is known of drafts, and how they are verified. */
typedef enum bench_drafts {
    BENCH_STEP,     /* none: a plain step */
    BENCH_MATCH,    /* no distribution */
    BENCH_STANDARD, /* probabilities */
    BENCH_BLOCK
} bench_drafts;

/* A step and the time it should take. `goal` is in floors, or, where
 * `goal_topk` is set, in steps of the case topk; set for [16, 128256] float32
 * on a CPU. `goal_one` is for one row, in empty launches. 0: none. */
typedef struct bench_case {
    const char *name;
    bench_rows rows;
    float temperature;
    int32_t top_k;
    float top_p, min_p;
    bench_mask mask;
    int penalized;
    double goal, goal_one;
    int goal_topk;
    bench_more more;
    uint32_t history; /* in place of the setup's */
    bench_drafts drafts;
} bench_case;

/* Tokens of a case's histories. */
uint32_t bench_history(const bench_setup *setup, const bench_case *c);

/* The `history` that its requests ask of a sampler. */
uint32_t bench_window(const bench_case *c);

typedef struct bench_result {
    double floor_us, step_us, empty_us; /* medians, enqueue to finish */
    uint32_t launches, runs;
    uint64_t host_bytes; /* read by the host in a step */
    double accepted;     /* share of the drafts */
} bench_result;

/* Microseconds from some start. */
double bench_clock(void);

/* Sorts `times`. */
double bench_median(double *times, size_t n);

/* Whether `runs` runs in `spent` microseconds make a steady median, or are the
 * `wanted` ones. */
int bench_enough(uint32_t wanted, uint32_t runs, double spent);

/* The floor's kernel, enqueue to finish. */
int bench_run_floor(const bench_setup *setup, const bench_floor *floor);

/* Begins all slots, samples one step and compares each token with
 * cls_host_sample()'s. 0, or 1 after a message. */
int bench_verify(const bench_setup *setup, const bench_case *c);

/* Floor, step and empty launches in turn. 0, or 1 after a message. */
int bench_time(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
               bench_result *result);

/* The same of any step: `run` enqueues one of setup->sampler's and waits for it,
 * `begin` begins its requests. Both return 0, or 1 after a message. */
typedef struct bench_steps {
    int (*run)(void *of);
    int (*begin)(void *of);
    void *of;
} bench_steps;

int bench_time_steps(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                     bench_result *result);

/* The parameters of a row that has no history. */
void bench_make_params(const bench_case *c, uint32_t row, cls_params *params);

/* ---------------------------------------------------------------- drafts.c */

#define BENCH_DRAFTS 4 /* of a request */

/* A case with drafts, on logits of its own and against a floor that reads these,
 * and the draft's probabilities where there are some. 0, or 1 after a message. */
int bench_verify_drafts(const bench_setup *setup, const bench_case *c, bench_result *result);

/* -------------------------------------------------------------- requests.c */

#define BENCH_KINDS 7   /* of requests, in turn */
#define BENCH_WINDOW 16 /* the window of the requests that have one */
#define BENCH_MOST_PROMPT 500
#define BENCH_MOST_BIASES 100
#define BENCH_MOST_STOPS 64

/* What comes with a request. */
typedef struct bench_request {
    cls_params params; /* points into this */
    uint32_t steps;    /* until it leaves, if nothing stops it before */
    uint32_t prompt_count;
    int32_t prompt[BENCH_MOST_PROMPT];
    cls_logit_bias bias[BENCH_MOST_BIASES];
    int32_t stop_ids[BENCH_MOST_STOPS];
} bench_request;

/* A request's number makes it: requests need not be kept. */
void bench_make_request(const bench_setup *setup, uint32_t number, bench_request *r);

/* --------------------------------------------------------------- serving.c */

#define BENCH_SPARE 8 /* rows: each step begins at another of them */

typedef struct bench_served {
    double floor_us;
    double step_us, host_us; /* medians: from token to token; in slot calls and the step's own */
    double quiet_us, quiet_host_us; /* of steps before which no request came or left */
    double tokens_per_s;
    uint32_t runs, quiet_runs;
    uint32_t requests;                /* that came */
    uint32_t checked, checked_tokens; /* requests made again by the reference, and their tokens */
    cls_memory memory;
} bench_served;

/* setup: with BENCH_SPARE and BENCH_WINDOW. 0, or 1 after a message. */
int bench_serve(const bench_setup *setup, const bench_floor *floor, bench_served *served);

/* ----------------------------------------------------------------- bench.c */

/* All cases and then serving, quick: some cases, on an opened device, into `object`:
 * "floor_shape" and "cases", an array of bench_json_cases() and bench_json_served().
 * Goes on after a case that fails, which becomes {"case", "error"}, and ends where it is
 * interrupted. setup: what the command's options set. Returns how many failed. */
int bench_collect(const bench_setup *setup, bool quick, json_t *object);

/* ----------------------------------------------------------------- table.c */

/* results: [n], of the cases; those with runs count. cases[1] is topk. */
int bench_print_cases(const bench_setup *setup, const bench_floor *floor, const bench_case *cases,
                      size_t n, const bench_result *results);
int bench_print_served(const bench_setup *setup, const bench_floor *floor,
                       const bench_served *served);

/* The same as objects, appended to an array. */
int bench_json_cases(json_t *array, const bench_setup *setup, const bench_case *cases, size_t n,
                     const bench_result *results);
int bench_json_served(json_t *array, const bench_setup *setup, const bench_served *served);

#endif
