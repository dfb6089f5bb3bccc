/* SPDX-License-Identifier: MIT */
/* Agreements: each rank says in a header what it does, all ranks receive all headers, and each
 * comes to the same conclusion. */
#if defined(_WIN32)
#include <windows.h>
#elif !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 199309L /* nanosleep() */
#endif
#include "mpi/mpi.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAGIC 0x4d534c43u /* "CLSM" */

/* So often a rank polls before it lets others have its core. MPI_Wait() may keep it for as long as
 * it waits, which costs much where ranks, or a device that is the CPU, share the cores. */
#define POLLS 300

cls_status cls_mpi_check(cls_mpi *m, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return CLS_OK;
    m->broken = 1;
    MPI_Error_string(code, text, &length);
    return cls_fail(CLS_MPI_ERROR, CL_SUCCESS, "%s failed on rank %d: %.300s", call, m->rank, text);
}

void cls_mpi_remember(cls_mpi_problem *problem, cls_status status)
{
    problem->status = status;
    snprintf(problem->message, sizeof problem->message, "%s", cls_error_message());
}

void cls_mpi_say(cls_mpi_header *header, uint32_t kind, cls_status status)
{
    memset(header, 0, sizeof *header);
    header->magic = MAGIC;
    header->version = CLS_VERSION_NUMBER;
    header->kind = kind;
    header->status = (int32_t)status;
    if (status != CLS_OK)
        snprintf(header->message, sizeof header->message, "%s", cls_error_message());
}

cls_status cls_mpi_post(cls_mpi *m)
{
    const int size = (int)sizeof m->own;
    return cls_mpi_check(
        m,
        MPI_Iallgather(&m->own, size, MPI_BYTE, m->headers, size, MPI_BYTE, m->comm, &m->request),
        "MPI_Iallgather()");
}

/* Sleeps for some time that is short beside a step. */
static void pause_shortly(void)
{
#if defined(_WIN32)
    Sleep(0);
#else
    nanosleep(&(const struct timespec){.tv_nsec = 20000}, NULL);
#endif
}

cls_status cls_mpi_await(cls_mpi *m)
{
    int there = 0, code = MPI_SUCCESS;
    for (unsigned polls = 0; code == MPI_SUCCESS && !there; polls++) {
        if (polls > POLLS)
            pause_shortly();
        code = MPI_Test(&m->request, &there, MPI_STATUS_IGNORE);
    }
    return cls_mpi_check(m, code, "MPI_Test()");
}

/* ------------------------------------------------------------------ the conclusion */

/* Whether two ranks do the same. */
static int same(const cls_mpi_header *a, const cls_mpi_header *b)
{
    return a->kind == b->kind && a->digest == b->digest && a->size == b->size;
}

/* Returns the rank that most ranks agree with, so that a message names the one that differs. */
static int usual_rank(const cls_mpi *m)
{
    int best = 0, most = 0;
    for (int i = 0; i < m->ranks; i++) {
        int n = 0;
        for (int k = 0; k < m->ranks; k++)
            n += same(&m->headers[i], &m->headers[k]);
        if (n > most) {
            most = n;
            best = i;
        }
    }
    return best;
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {[CLS_MPI_CREATE] = "cls_mpi_create()",
                                        [CLS_MPI_SAMPLE] = "cls_mpi_sample_start()",
                                        [CLS_MPI_GATHER] = "cls_mpi_gather_start()",
                                        [CLS_MPI_NEXT] = "the next exchange of a step",
                                        [CLS_MPI_END] = "cls_mpi_destroy()"};
    return kind >= CLS_MPI_CREATE && kind <= CLS_MPI_END ? names[kind] : "an unknown call";
}

/* Names the first rank that differs from most others. */
static cls_status differing(const cls_mpi *m)
{
    const int usual = usual_rank(m);
    const cls_mpi_header *const u = &m->headers[usual];
    int i = 0;
    while (same(&m->headers[i], u))
        i++;
    const cls_mpi_header *const h = &m->headers[i];
    if (h->kind != u->kind)
        return cls_refuse_call("rank %d is at %s, but rank %d is at %s", i, kind_name(h->kind),
                               usual, kind_name(u->kind));
    if (h->kind == CLS_MPI_CREATE && h->size != u->size)
        return cls_refuse_call("rank %d has a vocabulary of %llu tokens, but rank %d one of %llu",
                               i, (unsigned long long)h->size, usual, (unsigned long long)u->size);
    if (h->kind == CLS_MPI_CREATE)
        return cls_refuse_call("rank %d has other borders than rank %d", i, usual);
    if (h->digest != u->digest && h->shortlist != u->shortlist)
        return cls_refuse_call(
            "rank %d has another step than rank %d: other rows, slots, parameters, maps or "
            "outputs, or a top_k lies between the shortlists of their devices, of %u and %u "
            "tokens: create all contexts with the same options->shortlist",
            i, usual, (unsigned)h->shortlist, (unsigned)u->shortlist);
    if (h->digest != u->digest)
        return cls_refuse_call(
            "rank %d has another step than rank %d: other rows, slots, parameters, maps or outputs",
            i, usual);
    return cls_refuse_call("rank %d has a partial of %llu bytes, but rank %d one of %llu", i,
                           (unsigned long long)h->size, usual, (unsigned long long)u->size);
}

cls_status cls_mpi_agreed(cls_mpi *m)
{
    int alike = 1;
    for (int i = 0; i < m->ranks; i++) {
        const cls_mpi_header *const h = &m->headers[i];
        if (h->magic != MAGIC || h->version != CLS_VERSION_NUMBER)
            return cls_refuse_call("rank %d has another byte order, or another release of "
                                   "libclsample-mpi than rank %d",
                                   i, m->rank);
        alike = alike && same(h, &m->headers[0]);
        if (h->kind == CLS_MPI_END && m->gone == 0)
            m->gone = i + 1;
    }
    for (int i = 0; i < m->ranks; i++)
        if (m->headers[i].status != CLS_OK)
            return cls_no_field(cls_fail((cls_status)m->headers[i].status, CL_SUCCESS,
                                         "rank %d: %s", i, m->headers[i].message));
    return alike ? CLS_OK : differing(m);
}

cls_status cls_mpi_settle(cls_mpi *m, int *answered)
{
    const cls_status status = cls_mpi_await(m);
    *answered = 0;
    m->owed = 0;
    for (int i = 0; i < m->ranks && status == CLS_OK; i++) {
        const uint32_t kind = m->headers[i].kind;
        *answered |= kind != CLS_MPI_NEXT;
        if (kind == CLS_MPI_END)
            m->gone = i + 1;
        if (kind == CLS_MPI_SAMPLE || kind == CLS_MPI_GATHER) {
            m->behind.status = (cls_status)m->own.status;
            snprintf(m->behind.message, sizeof m->behind.message,
                     "this rank lacks a step that the others have completed: %.380s",
                     m->own.message);
        }
    }
    return status;
}
