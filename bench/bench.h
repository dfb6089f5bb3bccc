/* SPDX-License-Identifier: MIT */
/* clsample bench: times sampling steps and compares them with the floor, the time of a plain read
 * of the same logits.
 *
 *     parallel.c  runs the host's work on all its processors
 *     rows.c      makes the logits, masks and histories
 *     setup.c     holds them on host and device
 *     floor.c     finds the fastest plain read of the logits
 *     measure.c   verifies a step against the reference, then times it
 *     host.c      times a step of the host
 *     events.c    times a step and the floor by the device's clock
 *     drafts.c    verifies and times the verification of drafts
 *     shards.c    times the steps of a vocabulary that is split over shards
 *     requests.c  makes the requests of the serving case
 *     serving.c   times steps while requests join and leave
 *     start.c     times the first token of a process
 *     table.c     prints the results as tables and as JSON
 *     bench.c     the list of cases, and the command
 *     tune.c      clsample bench --tune: measures shapes of the kernels by some cases
 */
#ifndef BENCH_H
#define BENCH_H

#include "common/cli.h"

/* A function that runs steps returns 1 without a message after an interrupt. The results of the
 * current case are lost then; those of earlier cases are kept. */

/* The setup of a measurement: a device and a shape of logits. */
typedef struct bench_setup {
    const cli_target *on; /* the open device, or `host` */
    cli_target host;      /* only a context, of the host, which is the reference */
    cls_sampler *sampler;
    uint32_t batch, vocab;
    uint32_t first; /* the row whose request slot 0 has: 0, but of bench_twin() */
    cls_dtype dtype;
    uint32_t runs;     /* 0: as many as a stable median needs */
    uint32_t spare;    /* rows of logits after those of the batch */
    uint32_t window;   /* the sampler's `max_history` */
    uint32_t history;  /* tokens in the history of a row with penalties */
    int32_t law;       /* a bench_law: the distribution of these tokens */
    uint32_t shards;   /* --shards; 0: no step is split */
    uint32_t features; /* of the sampler; 0: those of the usual cases */
    uint32_t longest;  /* the length of the longest history, and of a row of `ids` */

    void *rows;          /* the logits on the host: [batch + spare, vocab] of dtype */
    cls_buffer logits;   /* the logits on the device; BENCH_PAD elements of -inf follow */
    size_t size;         /* bytes of the logits with the padding */
    int32_t *mask_words; /* the mask on the host: [batch, ceil(vocab / 32)] */
    cls_buffer mask;
    bool masks;         /* a case has written the mask, and samplers are made for one */
    cls_buffer tokens;  /* [batch], then the statuses, [batch] */
    cls_buffer kept;    /* [batch, up to vocab]: kept sets; absent: no case wrote any so far */
    int32_t *likeliest; /* [batch + spare]: each row's likeliest token */
    int32_t *ids;       /* [batch, longest] */
} bench_setup;

#define BENCH_PAD 16
#define BENCH_ROWS 16u      /* default number of rows in a step */
#define BENCH_VOCAB 128256u /* default number of logits in a row */
#define BENCH_HISTORY 2000u /* default number of tokens in a history */
#define BENCH_MOST_RUNS 20000u
#define BENCH_MOST_HISTORY 65536u

/* -------------------------------------------------------------- parallel.c */

/* Calls run(of, i) for each i below n, in several threads. `run` returns 1 if it fails, and no more
 * are begun then. Returns 1 if one failed. */
int bench_each(uint32_t n, int (*run)(void *of, uint32_t i), void *of);

/* ------------------------------------------------------------------ rows.c */

typedef enum bench_rows {
    BENCH_LANGUAGE, /* a token of 0.6, then a tail that falls with the id: top-p 0.9 keeps about 300
                     */
    BENCH_FLAT,     /* normal, sigma 1: top-p 0.9 keeps six tokens in ten */
    BENCH_TIES,     /* normal, rounded to quarters: thousands of tokens have the same logit */
    BENCH_SORTED    /* as BENCH_LANGUAGE, and the likeliest tokens have the lowest ids */
} bench_rows;

size_t bench_dtype_size(cls_dtype dtype);

/* Element i as a float. */
float bench_get(const void *rows, cls_dtype dtype, size_t i);

/* Fills [n, vocab] and the padding after it. The rows are the same on every machine, except for
 * the last bit of functions of its libm. */
int bench_fill_rows(void *rows, cls_dtype dtype, uint32_t n, uint32_t vocab, bench_rows kind);

/* The token with the largest logit; the lowest id of several. */
int32_t bench_likeliest(const void *rows, cls_dtype dtype, uint32_t row, uint32_t vocab);

typedef enum bench_mask {
    BENCH_ALL,    /* all tokens are allowed */
    BENCH_HALF,   /* a random half of the tokens is allowed */
    BENCH_FEW,    /* a random hundredth of the tokens is allowed */
    BENCH_BUT_ONE /* all tokens but a random one are allowed */
} bench_mask;

/* Fills a mask. At least one token of each row is allowed. */
void bench_fill_mask(int32_t *words, uint32_t batch, uint32_t vocab, bench_mask kind);

typedef enum bench_law {
    BENCH_ZIPF,   /* id i with a probability of 1 / (1 + i), as text over a vocabulary sorted by
                     frequency */
    BENCH_UNIFORM /* all with the same probability: a history has tokens of nearly every tile */
} bench_law;

/* Fills n random ids, which depend on the seed. */
void bench_fill_ids(int32_t *ids, uint32_t n, uint32_t vocab, bench_law law, uint64_t seed);

/* A random number from 0 to n - 1, and one between 0 and 1. */
uint32_t bench_random(uint64_t *state, uint32_t n);
double bench_uniform(uint64_t *state);

/* Computes the probabilities of a draft model for a row, at a temperature, and returns the token
 * that the number `uniform` draws from them. */
int32_t bench_fill_draft(float *probs, const void *rows, cls_dtype dtype, uint32_t row,
                         uint32_t vocab, double temperature, double uniform);

/* ----------------------------------------------------------------- floor.c */

/* The floor's kernel, which reads logits and keeps maxima only, in one shape. */
typedef struct bench_floor {
    cl_program program;
    cl_kernel kernel, nothing, busy;
    cl_mem out;
    size_t local, global;
    size_t maxima;  /* numbers that it writes to `out` */
    char shape[64]; /* the shape in words */
} bench_floor;

/* Tries several shapes on setup->logits, which must be filled, and keeps the fastest one that
 * computes the right maximum. */
int bench_floor_open(bench_floor *floor, const bench_setup *setup);
void bench_floor_close(bench_floor *floor);

/* done: the event, or NULL. */
cl_int bench_floor_enqueue(const bench_floor *floor, cl_command_queue queue, cl_event *done);

/* Enqueues a kernel that keeps the device busy until the host has enqueued what follows it. */
cl_int bench_floor_busy(const bench_floor *floor, cl_command_queue queue, cl_event *done);

/* --------------------------------------------------------------- measure.c */

/* How drafts are verified, and which distributions come with them. */
typedef enum bench_drafts {
    BENCH_STEP,     /* no drafts: a plain step */
    BENCH_MATCH,    /* drafts without a distribution */
    BENCH_STANDARD, /* drafts with probabilities */
    BENCH_BLOCK     /* drafts with probabilities, verified as a block */
} bench_drafts;

/* What is timed. */
typedef enum bench_kind {
    BENCH_STEPS,   /* steps of one set of parameters */
    BENCH_SERVING, /* requests that come and go */
    BENCH_START    /* the first token of a process */
} bench_kind;

/* A case and the goal for the time of its step. The unit of `goal` is the floor or, if `goal_topk`
 * is set, the step of case topk; the goals are for [16, 128256] float32 on a CPU of two cores. The
 * unit of `goal_one`, the goal for one row, is the time of empty launches. 0: no goal. */
typedef struct bench_case {
    const char *name, *params; /* as in a text of calls */
    bench_rows rows;
    bench_mask mask;
    double goal, goal_one;
    int goal_topk;
    uint32_t history; /* tokens of a history */
    bool penalized;   /* there are as many as in the setup, if `history` is 0 */
    bool forced;      /* the tokens are forced */
    bool late;        /* after so many tokens that Mirostat's mu is too large to cut anything */
    bench_drafts drafts;
    uint32_t kept_set; /* ids of a row's kept set that the step writes, at most vocab; 0: none */
    bench_kind kind;
    uint32_t features; /* of a start's sampler */
    bool extra;        /* only measured where --case names it */
} bench_case;

/* The number of tokens in the histories of a case. */
uint32_t bench_history(const bench_setup *setup, const bench_case *c);

/* The `history` that a sampler needs for a case. */
uint32_t bench_window(const bench_case *c);

#define BENCH_EXCHANGES 8u /* of a step on shards, whose sizes are recorded */

typedef struct bench_result {
    double floor_us, step_us, empty_us; /* medians, from enqueue to finish */
    /* Medians by the device's clock; 0 if its events have no times. */
    double floor_device_us, step_device_us;
    uint32_t launches, runs;
    uint64_t host_bytes; /* that the host reads in a step */
    double accepted;     /* accepted drafts divided by all drafts */

    /* With setup->shards, and then without floor_us and empty_us: */
    double local_us; /* medians: all shards' first partials, from the step's beginning on */
    double merge_us; /* of shard 0: all that follows, until its queue is finished */
    uint32_t exchanges;
    double partial_row[BENCH_EXCHANGES]; /* bytes of a partial, divided by the rows */
} bench_result;

/* Sorts `times` and returns the median. */
double bench_median(double *times, size_t n);

/* Reads a buffer, and waits for it. */
int bench_read(const bench_setup *setup, const cls_buffer *from, size_t size, void *to);

#define BENCH_PARTS 3 /* the most parts of a round */

/* Rounds of which each has parts that are timed: `run` sets their microseconds. `begin` begins the
 * requests, at first and again after many rounds, since histories grow. There are `least` rounds in
 * `least_us`, but no more than `most_us` allow. */
typedef struct bench_rounds {
    int (*begin)(void *of);
    int (*run)(void *of, double *us);
    void *of;
    uint32_t least;
    double least_us, most_us;
} bench_rounds;
#define BENCH_STABLE 101, 1e6, 1e7

/* Whether n rounds in `spent` microseconds are enough, or as many as are wanted. */
bool bench_enough(const bench_rounds *rounds, uint32_t wanted, uint32_t n, double spent);

/* Runs rounds, and finds the medians of their parts. wanted: their number; 0: as many as the rounds
 * say. */
int bench_medians(const bench_rounds *rounds, uint32_t wanted, double *medians, uint32_t *runs);

/* Runs the floor's kernel and waits for it. */
int bench_run_floor(const bench_setup *setup, const bench_floor *floor);

/* Begins the requests of a case in all slots of setup->sampler. */
int bench_begin_slots(const bench_setup *setup, const bench_case *c);

/* Describes the step of a case, which writes setup->tokens. */
void bench_make_step(const bench_setup *setup, const bench_case *c, cls_step *step);

/* Enqueues it. done: its event, or NULL. */
int bench_enqueue_step(const bench_setup *setup, const bench_case *c, cl_command_queue queue,
                       cl_event *done);

/* Does what a decode loop does: it enqueues the step, reads its tokens and waits. */
int bench_run_step(const bench_setup *setup, const bench_case *c, int32_t *tokens);

/* Begins all slots, samples one step and compares each token, and each kept set, with those of the
 * same calls on the host. */
int bench_verify(const bench_setup *setup, const bench_case *c);

/* Times floor, step and empty launches in turn. */
int bench_time(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
               bench_result *result);

/* Any kind of step. `begin` begins the requests, `enqueue` enqueues one step, whose last event is
 * *done, and `run` also reads its results and waits for them. */
typedef struct bench_steps {
    int (*begin)(void *of);
    int (*enqueue)(void *of, cl_command_queue queue, cl_event *done);
    int (*run)(void *of);
    void *of;
} bench_steps;

int bench_time_steps(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                     bench_result *result);

/* Sets parameters by a text, and those of a case, which cls_cmd_bench() has read. */
void bench_set_params(const char *text, cls_params *params);
const cls_params *bench_params(const bench_case *c);

/* ----------------------------------------------------------------- setup.c */

/* Allocates what a setup has beside its sampler. After a failure bench_close_setup() frees what was
 * allocated. */
int bench_open_setup(bench_setup *setup);
void bench_close_setup(bench_setup *setup);

/* Fill the rows and their histories, and the mask, on host and device. The first mask destroys a
 * sampler that takes none. */
int bench_write_rows(bench_setup *setup, bench_rows kind);
int bench_write_mask(bench_setup *setup, bench_mask kind);

/* Creates a sampler for cases with this `history`, or setup->sampler, unless that has it already.
 */
int bench_new_sampler(const bench_setup *setup, uint32_t window, cls_sampler **sampler);
int bench_make_sampler(bench_setup *setup, uint32_t window);

/* Whether the steps run on the host. Its buffers are memory then, and it has no floor's kernel. */
bool bench_is_host(const bench_setup *setup);

/* Returns memory of the host as a buffer. */
cls_buffer bench_memory(void *memory, size_t size);

/* Returns a setup of one row on the host, with its logits and its mask, but without sampler, tokens
 * and kept sets. The same calls on it give what the row must give. */
bench_setup bench_twin(const bench_setup *setup, uint32_t row);

/* Creates the buffer for kept sets, unless the case writes none or the buffer is there. The sampler
 * is created again, for such cases. */
int bench_make_kept(bench_setup *setup, const bench_case *c);

/* ------------------------------------------------------------------ host.c */

/* Times steps and the floor, a read of the logits by one thread, in turn. */
int bench_time_host(const bench_setup *setup, const bench_steps *steps, bench_result *result);

/* ---------------------------------------------------------------- events.c */

/* Sets result->floor_device_us and step_device_us. */
int bench_time_events(const bench_setup *setup, const bench_floor *floor, const bench_steps *steps,
                      bench_result *result);

/* ---------------------------------------------------------------- drafts.c */

#define BENCH_DRAFTS 4 /* of a request */

/* Verifies and times a case with drafts. It has separate logits, and its floor reads these and the
 * probabilities of the drafts. */
int bench_verify_drafts(const bench_setup *setup, const bench_case *c, bench_result *result);

/* ---------------------------------------------------------------- shards.c */

/* Whether a case can be split over shards: it is a step without drafts, and its requests begin
 * without a thousand steps. */
bool bench_can_split(const bench_case *c);

/* Times the whole step and that of setup->shards shards in turn, and compares their tokens. */
int bench_time_shards(const bench_setup *setup, const bench_case *c, bench_result *result);

/* -------------------------------------------------------------- requests.c */

#define BENCH_KINDS 7   /* kinds of requests, which take turns */
#define BENCH_WINDOW 16 /* the penalty window of the requests that have one */
#define BENCH_MOST_PROMPT 500
#define BENCH_MOST_BIASES 100
#define BENCH_MOST_STOPS 64

/* A request with the arrays that its parameters point to. */
typedef struct bench_request {
    cls_params params;
    uint32_t steps; /* until it leaves, unless it stops earlier */
    uint32_t prompt_count;
    int32_t prompt[BENCH_MOST_PROMPT];
    cls_logit_bias bias[BENCH_MOST_BIASES];
    int32_t stop_ids[BENCH_MOST_STOPS];
} bench_request;

/* Makes a request. It depends on its number only, so it can be made again. */
void bench_make_request(const bench_setup *setup, uint32_t number, bench_request *r);

/* --------------------------------------------------------------- serving.c */

#define BENCH_SPARE 8 /* spare rows: steps begin at different rows */

typedef struct bench_served {
    double floor_us;
    double step_us;       /* median, from the tokens of a step to those of the next */
    double host_us;       /* median, in slot calls and in cls_sample() */
    double quiet_us;      /* medians of the steps before which no request */
    double quiet_host_us; /* joined or left */
    double tokens_per_s;
    uint32_t runs, quiet_runs;
    uint32_t requests;                /* that joined */
    uint32_t checked, checked_tokens; /* requests that the reference repeated, and their tokens */
    cls_memory memory;
} bench_served;

/* setup: with BENCH_SPARE and BENCH_WINDOW. */
int bench_serve(const bench_setup *setup, const bench_floor *floor, bench_served *served);

/* ----------------------------------------------------------------- bench.c */

#define BENCH_CASES 41
extern const bench_case bench_cases[BENCH_CASES];
const bench_case *bench_find(const char *name);

/* What cases have in common. */
typedef struct bench_run {
    bench_setup setup; /* the values of the options, and what bench_measure() opens */
    const cls_context_options *options;
    cli_target target; /* the device, which bench_measure() opens */
    bool on_host;      /* whether the target is the host */
    bool is_open;      /* whether the device and the setup are */
    bench_floor floor;
    int written; /* the bench_rows in the setup's buffers, plus 1; 0: there are none yet */
} bench_run;

/* Verifies and times a case. NULL: it failed, or was interrupted. */
json_t *bench_measure(bench_run *run, const bench_case *c);

/* ----------------------------------------------------------------- start.c */

/* Opens the device that run->target names, once more, and times that and the first token. NULL: it
 * failed. */
json_t *bench_start(const bench_run *run, const bench_case *c);

/* ------------------------------------------------------------------ tune.c */

/* Tries shapes of the kernels on run->target, which is not open, until `limit` seconds are over,
 * and prints which is the fastest. */
int bench_tune(const bench_run *run, uint32_t limit, bool json);

/* ----------------------------------------------------------------- table.c */

/* The objects of the results, which clsample-bench(1) describes. */
json_t *bench_json_case(const bench_setup *setup, const bench_floor *floor, const bench_case *c,
                        const bench_result *result);
json_t *bench_json_shards(const bench_setup *setup, const bench_case *c,
                          const bench_result *result);
json_t *bench_json_served(const bench_setup *setup, const bench_floor *floor,
                          const bench_served *served);

/* Prints an array of such objects as tables. */
int bench_print(const bench_run *run, const json_t *results);

#endif
