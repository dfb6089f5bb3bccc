/* SPDX-License-Identifier: MIT */
/* A step: it is announced, the ranks agree, partials travel and are merged, until the step ends. */
#include "mpi/mpi.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MARK = sizeof CLS_MPI_MARK };

/* ---------------------------------------------------------------------- memory */

/* Makes room for the partials of the exchange that follows, before any rank sends one. */
static cls_status reserve(cls_mpi *m)
{
    const size_t size = cls_shard_partial_size(m->shard), copies = (size_t)m->ranks + 1;
    /* Counts of MPI are int, and some implementations add up those of all ranks. */
    if (size > INT_MAX / copies)
        return cls_refuse("partials of %zu bytes from %d ranks are more than MPI can count; use "
                          "fewer rows in a step",
                          size, m->ranks);
    if (size < MARK)
        return cls_refuse_call("the partial has only %zu bytes", size);
    m->size = size;
    if (copies * size <= m->room)
        return CLS_OK;
    char *const larger = realloc(m->partials, copies * size);
    if (larger == NULL)
        return cls_no_memory("%zu partials of %zu bytes", copies, size);
    m->partials = larger;
    m->room = copies * size;
    return CLS_OK;
}

/* ----------------------------------------------------------------- starting a step */

/* Says to all ranks that this one opens an exchange, or why it cannot. */
static cls_status announce(cls_mpi *m, uint32_t kind, cls_status status)
{
    if (status == CLS_OK)
        status = reserve(m);
    cls_mpi_say(&m->own, kind, status);
    m->own.digest = cls_shard_digest(m->shard);
    m->own.size = cls_shard_partial_size(m->shard);
    m->own.shortlist = m->shortlist;
    status = cls_mpi_post(m);
    if (status == CLS_OK)
        m->state = CLS_MPI_AGREES;
    else
        cls_shard_abandon(m->shard);
    return status;
}

static cls_status is_gone(const cls_mpi *m)
{
    return cls_refuse_call("rank %d has called cls_mpi_destroy(): no step can follow", m->gone - 1);
}

/* What comes before the shard's own call. Returns 1 if that call must follow; otherwise *status is
 * the result of the start. */
static int begin(cls_mpi *m, uint32_t kind, cls_status *status)
{
    int answered = 0;
    *status = CLS_OK;
    if (m == NULL)
        *status = cls_refuse("mpi is NULL");
    else if (m->broken)
        *status = cls_fail(CLS_MPI_ERROR, CL_SUCCESS,
                           "MPI failed in an earlier call: destroy the cls_mpi");
    else if (m->state != CLS_MPI_IDLE)
        *status = cls_refuse_call(
            "a step is open: call cls_mpi_wait(), or cls_mpi_test() until it has ended");
    else if (m->owed)
        *status = cls_mpi_settle(m, &answered);
    if (*status != CLS_OK)
        return 0;
    m->abandoned = 0;
    m->problem.status = CLS_OK;
    if (answered && m->behind.status != CLS_OK) {
        /* The header of the failed merge was this rank's answer to the step that now starts. */
        cls_mpi_remember(&m->problem, cls_mpi_agreed(m));
        m->state = CLS_MPI_REFUSED;
        return 0;
    }
    if (m->gone != 0) {
        *status = is_gone(m);
        return 0;
    }
    if (m->behind.status == CLS_OK)
        return 1;
    *status = announce(
        m, kind, cls_no_field(cls_fail(m->behind.status, CL_SUCCESS, "%s", m->behind.message)));
    return 0;
}

cls_status cls_mpi_sample_start(cls_mpi *m, cl_command_queue queue, const cls_step *step,
                                cl_uint n_wait, const cl_event *wait)
{
    cls_status status;
    return begin(m, CLS_MPI_SAMPLE, &status)
               ? announce(m, CLS_MPI_SAMPLE, cls_shard_sample(m->shard, queue, step, n_wait, wait))
               : status;
}

cls_status cls_mpi_gather_start(cls_mpi *m, cl_command_queue queue, uint32_t rows,
                                const cls_logits *logits, cl_uint n_wait, const cl_event *wait)
{
    cls_status status;
    return begin(m, CLS_MPI_GATHER, &status)
               ? announce(m, CLS_MPI_GATHER,
                          cls_shard_gather(m->shard, queue, rows, logits, n_wait, wait))
               : status;
}

/* ------------------------------------------------------------------ an exchange */

/* Ends the open step. */
static cls_status end(cls_mpi *m, cls_status status)
{
    if (status != CLS_OK)
        cls_shard_abandon(m->shard);
    m->state = CLS_MPI_IDLE;
    return status;
}

/* Sets *there to 1 if the collective under way has ended on this rank. */
static cls_status arrived(cls_mpi *m, int block, int *there)
{
    if (block) {
        *there = 1;
        return cls_mpi_await(m);
    }
    return cls_mpi_check(m, MPI_Test(&m->request, there, MPI_STATUS_IGNORE), "MPI_Test()");
}

static cls_status abandoned(void) { return cls_refuse_call("this rank has abandoned the step"); }

/* Sends the partial, which the device has computed. If that failed, a mark travels in its
 * place: the other ranks wait for so many bytes. */
static cls_status send(cls_mpi *m)
{
    const void *partial;
    size_t size;
    cls_status status = cls_shard_partial(m->shard, &partial, &size);
    if (status == CLS_OK && m->abandoned)
        status = abandoned();
    if (status != CLS_OK) {
        cls_mpi_remember(&m->problem, status);
        char *const at = m->partials + (size_t)m->ranks * m->size;
        memset(at, 0, m->size);
        memcpy(at, CLS_MPI_MARK, MARK);
        partial = at;
    }
    m->state = CLS_MPI_SENDS;
    return cls_mpi_check(m,
                         MPI_Iallgather(partial, (int)m->size, MPI_BYTE, m->partials, (int)m->size,
                                        MPI_BYTE, m->comm, &m->request),
                         "MPI_Iallgather()");
}

/* Goes on to the merge if all ranks have sent partials. Otherwise all ranks have seen the same
 * mark, and say once more what became of theirs. */
static cls_status received(cls_mpi *m)
{
    m->state = CLS_MPI_MERGES;
    for (int i = 0; i < m->ranks; i++)
        if (memcmp(m->partials + (size_t)i * m->size, CLS_MPI_MARK, MARK) == 0)
            return announce(m, CLS_MPI_NEXT,
                            m->problem.status == CLS_OK
                                ? CLS_OK
                                : cls_no_field(cls_fail(m->problem.status, CL_SUCCESS, "%s",
                                                        m->problem.message)));
    return CLS_OK;
}

/* Merges the partials. *more: 1 if another exchange follows; 2 if the merge must be repeated. */
static cls_status merge(cls_mpi *m, int *more, cl_event *done)
{
    *more = 0;
    cls_status status =
        cls_shard_merge(m->shard, m->partials, (size_t)m->ranks * m->size, more, done);
    if (status == CLS_BUSY) { /* earlier steps make room as they end */
        *more = 2;
        return CLS_OK;
    }
    if (status == CLS_OK && *more)
        return announce(m, CLS_MPI_NEXT, m->abandoned ? abandoned() : CLS_OK);
    if (status == CLS_OK)
        return CLS_OK;
    /* The other ranks may have completed the step, or wait for the next exchange. Both hear of the
     * failure by their next agreement, and this rank then hears which it was. */
    cls_mpi_say(&m->own, CLS_MPI_NEXT, status);
    if (cls_mpi_post(m) != CLS_OK)
        return CLS_MPI_ERROR;
    m->owed = 1;
    return cls_no_field(cls_fail(status, CL_SUCCESS, "rank %d: %s", m->rank, m->own.message));
}

cls_status cls_mpi_progress(cls_mpi *m, int block, int *complete, cl_event *done)
{
    cls_status status = CLS_OK;
    int there = 1, more = 1;
    *complete = 0;
    while (status == CLS_OK && there && more) {
        switch (m->state) {
        case CLS_MPI_REFUSED:
            status =
                cls_no_field(cls_fail(m->problem.status, CL_SUCCESS, "%s", m->problem.message));
            break;
        case CLS_MPI_AGREES:
            status = arrived(m, block, &there);
            if (status == CLS_OK && there)
                status = cls_mpi_agreed(m);
            if (status == CLS_OK && there)
                m->state = CLS_MPI_COMPUTES;
            break;
        case CLS_MPI_COMPUTES:
            there = block || cls_shard_is_ready(m->shard);
            if (there)
                status = send(m);
            break;
        case CLS_MPI_SENDS:
            status = arrived(m, block, &there);
            if (status == CLS_OK && there)
                status = received(m);
            break;
        default:
            status = merge(m, &more, done);
            there = more != 2 || block;
        }
    }
    if (status == CLS_OK && more)
        return CLS_OK;
    *complete = 1;
    return end(m, status);
}

/* ----------------------------------------------------------------- the calls */

static cls_status check_open(const cls_mpi *m)
{
    if (m == NULL)
        return cls_refuse("mpi is NULL");
    return m->state != CLS_MPI_IDLE
               ? CLS_OK
               : cls_refuse_call("no step is open: call cls_mpi_sample_start() or "
                                 "cls_mpi_gather_start() first");
}

cls_status cls_mpi_test(cls_mpi *m, int *complete, cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    if (complete == NULL)
        return cls_refuse("complete is NULL");
    *complete = 1;
    const cls_status status = check_open(m);
    return status == CLS_OK ? cls_mpi_progress(m, 0, complete, done) : status;
}

cls_status cls_mpi_wait(cls_mpi *m, cl_event *done)
{
    int complete;
    if (done != NULL)
        *done = NULL;
    const cls_status status = check_open(m);
    return status == CLS_OK ? cls_mpi_progress(m, 1, &complete, done) : status;
}

cls_status cls_mpi_sample(cls_mpi *m, cl_command_queue queue, const cls_step *step, cl_uint n_wait,
                          const cl_event *wait, cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    const cls_status status = cls_mpi_sample_start(m, queue, step, n_wait, wait);
    return status == CLS_OK ? cls_mpi_wait(m, done) : status;
}

cls_status cls_mpi_gather(cls_mpi *m, cl_command_queue queue, uint32_t rows,
                          const cls_logits *logits, cl_uint n_wait, const cl_event *wait,
                          cl_event *done)
{
    if (done != NULL)
        *done = NULL;
    const cls_status status = cls_mpi_gather_start(m, queue, rows, logits, n_wait, wait);
    return status == CLS_OK ? cls_mpi_wait(m, done) : status;
}

cls_status cls_mpi_abandon(cls_mpi *m)
{
    if (m == NULL)
        return cls_refuse("mpi is NULL");
    if (m->state == CLS_MPI_IDLE)
        return CLS_OK;
    m->abandoned = 1;
    return cls_mpi_wait(m, NULL);
}
