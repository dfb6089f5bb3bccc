/* SPDX-License-Identifier: MIT */
/* Random calls in one thread. Requests of all kinds arrive, change, fork, move, roll back and
 * leave. Rows are sampled, deferred, accepted, verified, drawn and scored with masks, biases and
 * the caller's random numbers, ahead of the results. The host keeps each request as a list of
 * tokens and runs the reference for every step. */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include "batch.h"

#define SOAK_SLOTS 8
#define SOAK_ROWS 8  /* the most rows of a step */
#define SOAK_LIFE 64 /* the most output tokens of a request */
#define SOAK_AHEAD 4
#define SOAK_HISTORY 100
#define SOAK_ROLLBACK 8

typedef struct guest {
    batch *b;               /* one row: parameters, tokens, adaptive state; NULL: no request */
    uint32_t made, longest; /* tokens since it began; the largest number so far */
    cls_adaptive_state was[SOAK_LIFE]; /* the state before each of these tokens */
    int32_t forced[4]; /* the ids that cls_slot_force() set after `forced_made` of these tokens */
    uint32_t n_forced, forced_made;
} guest;

/* The expected results of a row. */
typedef struct soak_row {
    int32_t token, status;
    float logprob;
    int32_t kept;
} soak_row;

/* A step in flight: its inputs, which must not change, and its expected results. */
typedef struct flight {
    batch *rows; /* logits, masks, biases */
    uint32_t n;
    int32_t slot[SOAK_ROWS], draw[SOAK_ROWS], position[SOAK_ROWS];
    uint64_t random[SOAK_ROWS];
    int reports, deferred;
    soak_row row[SOAK_ROWS];
    guest *guest[SOAK_ROWS];
    cls_adaptive_state adaptive[SOAK_ROWS]; /* after the row's token */
} flight;

typedef struct soak_counts {
    uint64_t calls, rows, tokens, compared, guests, forks, grammars, moves, rollbacks, changes,
        forced, deferred, accepts, verified, drafts, accepted, scored, masks, biases, reports,
        searches, samplers, busy;
} soak_counts;

typedef struct soak {
    device *d;
    cls_context *context;
    int computes;        /* the device computes, so that its results are compared */
    uint64_t seed, hash; /* of all tokens and statuses */
    rng r;
    cls_sampler_options o;
    cls_sampler *sampler;
    cls_readback *readback;
    cl_command_queue queue, other_queue; /* other_queue: gets some of the steps */
    guest guest[SOAK_SLOTS];
    flight flight[SOAK_AHEAD];
    uint64_t started, taken;
    cl_mem input, masks, biases, ints, random, output,
        other; /* all except `other` have a part for each flight */
    soak_counts n;
} soak;

/* The context must support float32. computes: 0 if the device computes nothing (stub_cl.h). */
void soak_open(soak *s, device *d, cls_context *context, int computes, uint32_t vocab,
               uint64_t seed);
/* Makes some slot calls and one call that samples. */
void soak_step(soak *s);
/* Waits for all results and compares them. */
void soak_settle(soak *s);
/* Saves all requests, destroys the sampler, and loads the requests into a new one. */
void soak_move_all(soak *s);
void soak_close(soak *s);
void soak_add(soak_counts *sum, const soak_counts *more);
/* Prints the counts after the name `who`. */
void soak_print(const soak_counts *n, const char *who);

/* Assertions for the soak tests. ck_assert() must not fail in a thread other than the main one. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), noreturn))
#endif
void soak_fail(const soak *s, const char *format, ...);
#define soak_require(s, is, ...) ((is) ? (void)0 : soak_fail((s), __VA_ARGS__))
#define soak_require_ok(s, call) soak_status((s), (call), #call)
void soak_status(const soak *s, cls_status status, const char *call);
#define soak_require_cl(s, call) soak_code((s), (call), #call)
void soak_code(const soak *s, cl_int code, const char *call);
/* Repeats a call while no staging memory is free. */
#define soak_retry(s, call) \
    do { \
        cls_status status_; \
        while ((status_ = (call)) == CLS_BUSY) { \
            soak_require_cl((s), clFinish((s)->queue)); \
            soak_require_cl((s), clFinish((s)->other_queue)); \
            (s)->n.busy++; \
        } \
        soak_status((s), status_, #call); \
    } while (0)

/* Returns whether a request has an adaptive state, which the host must follow. */
int guest_has_adaptive_state(const guest *g);
/* Returns whether a request has stopped, by the reference. */
int guest_stopped(const guest *g);
/* Forces ids, and sets those of the request's next rows after its tokens have changed. */
void guest_force(guest *g, const int32_t *ids, uint32_t n);
void guest_set_forced(guest *g);
/* Appends a token. `after` is the adaptive state after it. */
void guest_push(soak *s, guest *g, int32_t token, const cls_adaptive_state *after);
/* Adds a result to the count of rows and to the hash. */
void soak_note(soak *s, int32_t token, int32_t status);
/* Fills the n rows of a flight with random inputs. */
void flight_fill(soak *s, flight *f, uint32_t n);

/* ---------------------------------------------------------- soak_calls.c */
void soak_verify(soak *s);
void soak_score(soak *s);

/* --------------------------------------------------------- soak_guests.c */
/* Makes random slot calls between two steps. */
void soak_visit(soak *s);
void guest_leave(soak *s, uint32_t slot);

#endif
