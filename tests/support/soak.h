/* SPDX-License-Identifier: MIT */
/* Steps with random everything, in one thread: requests of all kinds come,
 * change, fork, move, go back and leave; rows are sampled, deferred, accepted,
 * verified, drawn and scored, under masks, biases and random numbers of the
 * caller's, ahead of the results. The host knows each request as its tokens and
 * runs the reference beside every step. */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include "batch.h"

#define SOAK_SLOTS 8
#define SOAK_ROWS 8  /* most of a step */
#define SOAK_LIFE 64 /* most tokens that a request gets */
#define SOAK_AHEAD 4
#define SOAK_HISTORY 100
#define SOAK_ROLLBACK 8

typedef struct guest {
    batch *b;                     /* one row: its parameters, tokens, mode; NULL: nobody */
    uint32_t made, longest;       /* tokens since it began; the most there were */
    cls_host_mode was[SOAK_LIFE]; /* before each of these */
} guest;

/* What a row must give. */
typedef struct soak_row {
    int32_t token, status;
    float logprob;
    int32_t kept;
} soak_row;

/* A step under way: what it reads, which nobody may change, and what it gives. */
typedef struct flight {
    batch *rows; /* logits, masks, biases */
    uint32_t n;
    int32_t slot[SOAK_ROWS], draw[SOAK_ROWS], position[SOAK_ROWS];
    uint64_t random[SOAK_ROWS];
    int reports, deferred;
    soak_row row[SOAK_ROWS];
    guest *guest[SOAK_ROWS];
    cls_host_mode mode[SOAK_ROWS]; /* after the row's token */
} flight;

typedef struct soak_counts {
    uint64_t calls, rows, tokens, compared, guests, forks, moves, rollbacks, changes, deferred,
        accepts, verified, drafts, accepted, draws, scored, masks, biases, reports, searches,
        samplers, busy;
} soak_counts;

typedef struct soak {
    device *d;
    cls_context *context;
    int computes;        /* the device does: what it gives is compared */
    uint64_t seed, hash; /* of all tokens and statuses */
    rng r;
    cls_sampler_options o;
    cls_sampler *sampler;
    cls_readback *readback;
    cl_command_queue queue, other_queue; /* on which some steps lie */
    guest guest[SOAK_SLOTS];
    flight flight[SOAK_AHEAD];
    uint64_t started, taken;
    cl_mem input, masks, biases, ints, random, output,
        other; /* all but the last have a part for each flight */
    soak_counts n;
} soak;

/* A context for F32. computes: 0 if the device only pretends to. */
void soak_open(soak *s, device *d, cls_context *context, int computes, uint32_t vocab,
               uint64_t seed);
/* One call that samples, after some slot calls. */
void soak_step(soak *s);
/* All results come. */
void soak_settle(soak *s);
/* Saves all requests, destroys the sampler, and goes on with another. */
void soak_move_all(soak *s);
void soak_close(soak *s);
void soak_add(soak_counts *sum, const soak_counts *more);
/* Prints what there was. */
void soak_tell(const soak_counts *n, const char *who);

/* For soak.c's other files. Not ck_assert(): that may not fail in a thread. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), noreturn))
#endif
void soak_fail(const soak *s, const char *format, ...);
#define sure(s, is, ...) ((is) ? (void)0 : soak_fail((s), __VA_ARGS__))
#define sure_ok(s, call) soak_status((s), (call), #call)
void soak_status(const soak *s, cls_status status, const char *call);
#define sure_cl(s, call) soak_code((s), (call), #call)
void soak_code(const soak *s, cl_int code, const char *call);
/* A call that is repeated while it finds no staging. */
#define patiently(s, call) \
    do { \
        cls_status status_; \
        while ((status_ = (call)) == CLS_BUSY) { \
            sure_cl((s), clFinish((s)->queue)); \
            sure_cl((s), clFinish((s)->other_queue)); \
            (s)->n.busy++; \
        } \
        soak_status((s), status_, #call); \
    } while (0)

/* Whether the host must follow what a request's sampler remembers. */
int guest_has_mode(const guest *g);
/* What a token does to a request: stop bits. */
int32_t guest_ends(const guest *g, int32_t token);
int guest_stopped(const guest *g);
/* A token more. */
void guest_push(soak *s, guest *g, int32_t token, const cls_host_mode *after);
/* Counts a result. */
void soak_note(soak *s, int32_t token, int32_t status);
/* Values for a flight's rows. */
void flight_fill(soak *s, flight *f, uint32_t n);

/* ---------------------------------------------------------- soak_calls.c */
void soak_verify(soak *s);
void soak_draw(soak *s);
void soak_score(soak *s);

/* --------------------------------------------------------- soak_guests.c */
/* What happens to requests between two steps. */
void soak_visit(soak *s);
void guest_leave(soak *s, uint32_t slot);

#endif
