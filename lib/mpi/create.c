/* SPDX-License-Identifier: MIT */
/* Creates and destroys a rank's end of the exchanges. */
#include "mpi/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------- one rank */

/* What can fail without MPI. *out: what was created so far, also on failure. */
static cls_status open_rank(cls_sampler *sampler, const cls_mpi_options *callers, int ranks,
                            int rank, cls_mpi **out)
{
    cls_mpi_options o;
    cls_shard_options shard;
    cls_mpi_options_init(&o);
    if (strcmp(cls_version(), CLS_VERSION_STRING) != 0)
        return cls_refuse_call("libclsample is version %s, and libclsample-mpi version %s: install "
                               "both from one release",
                               cls_version(), CLS_VERSION_STRING);
    cls_status status = CLS_OK;
    if (callers != NULL)
        status = cls_struct_read(&o, sizeof o, CLS_FIRST_SIZE(&o, CLS_LAST_FIELDS_OF_MPI), callers,
                                 "options", 0);
    if (status != CLS_OK)
        return status;
    cls_mpi *const m = calloc(1, sizeof *m);
    *out = m;
    if (m != NULL)
        m->headers = calloc((size_t)ranks, sizeof *m->headers);
    if (m == NULL || m->headers == NULL)
        return cls_no_memory("%d ranks", ranks);
    m->ranks = ranks;
    m->rank = rank;
    m->request = MPI_REQUEST_NULL;
    cls_shard_options_init(&shard);
    shard.shard_count = (uint32_t)ranks;
    shard.shard = (uint32_t)rank;
    shard.borders = o.borders;
    return cls_shard_create(sampler, &shard, &m->shard);
}

static void close_rank(cls_mpi *m)
{
    if (m == NULL)
        return;
    cls_shard_destroy(m->shard);
    free(m->partials);
    free(m->headers);
    free(m);
}

/* -------------------------------------------------------------------- all ranks */

/* A code of MPI before there is a cls_mpi. */
static cls_status check(int rank, int code, const char *call)
{
    cls_mpi m = {.rank = rank};
    return cls_mpi_check(&m, code, call);
}

/* Makes a failure on one rank that of all. This needs no memory in proportion to the ranks, which
 * may be what a rank lacks. */
static cls_status all_opened(MPI_Comm comm, int rank, cls_status status)
{
    const struct {
        int good, rank;
    } mine = {status == CLS_OK, rank};
    struct {
        int good, rank;
    } first = {0, 0};
    cls_mpi_header header;
    cls_mpi_say(&header, CLS_MPI_CREATE, status);
    status =
        check(rank, MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, comm), "MPI_Allreduce()");
    if (status != CLS_OK || first.good)
        return status;
    status = check(rank, MPI_Bcast(&header, (int)sizeof header, MPI_BYTE, first.rank, comm),
                   "MPI_Bcast()");
    return status != CLS_OK ? status
                            : cls_no_field(cls_fail((cls_status)header.status, CL_SUCCESS,
                                                    "rank %d: %s", first.rank, header.message));
}

/* Compares what all ranks have created. */
static cls_status all_fit(cls_mpi *m)
{
    cls_shard_info info;
    cls_shard_info_init(&info);
    cls_status status = cls_shard_query(m->shard, &info);
    cls_mpi_say(&m->own, CLS_MPI_CREATE, status);
    m->shortlist = info.shortlist;
    m->own.digest = info.borders;
    m->own.size = info.vocab;
    if (status == CLS_OK)
        status = cls_mpi_post(m);
    if (status == CLS_OK)
        status = cls_mpi_await(m);
    return status == CLS_OK ? cls_mpi_agreed(m) : status;
}

/* Refuses what no other rank can be told. */
static cls_status check_communicator(MPI_Comm comm)
{
    int initialized = 0, finalized = 0, inter = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized)
        return cls_refuse_call("MPI is %s",
                               finalized ? "finalized" : "not initialized: call MPI_Init() first");
    if (comm == MPI_COMM_NULL)
        return cls_refuse("comm is MPI_COMM_NULL");
    const cls_status status = check(0, MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter()");
    return status == CLS_OK && inter ? cls_refuse("comm is an inter-communicator") : status;
}

cls_status cls_mpi_create(MPI_Comm callers, cls_sampler *sampler, const cls_mpi_options *options,
                          cls_mpi **out)
{
    MPI_Comm comm;
    cls_mpi *m = NULL;
    int ranks = 0, rank = 0;
    if (out != NULL)
        *out = NULL;
    cls_status status = check_communicator(callers);
    if (status == CLS_OK)
        status = check(0, MPI_Comm_dup(callers, &comm), "MPI_Comm_dup()");
    if (status != CLS_OK)
        return status;
    /* A library does not end the program: errors are for the caller to see. */
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_size(comm, &ranks);
    MPI_Comm_rank(comm, &rank);
    status = out != NULL ? open_rank(sampler, options, ranks, rank, &m) : cls_refuse("out is NULL");
    status = all_opened(comm, rank, status);
    if (status == CLS_OK) {
        m->comm = comm;
        status = all_fit(m);
    }
    if (status != CLS_OK) {
        close_rank(m);
        if (status != CLS_MPI_ERROR)
            MPI_Comm_free(&comm);
        return status;
    }
    *out = m;
    return CLS_OK;
}

void cls_mpi_destroy(cls_mpi *m)
{
    int answered = 0;
    if (m == NULL)
        return;
    cls_mpi_abandon(m);
    if (!m->broken && m->owed)
        (void)cls_mpi_settle(m, &answered);
    if (!m->broken && m->gone == 0) {
        cls_mpi_say(&m->own, CLS_MPI_END, CLS_OK);
        m->own.status = CLS_BAD_ARGUMENT;
        snprintf(m->own.message, sizeof m->own.message, "it has called cls_mpi_destroy()");
        if (cls_mpi_post(m) == CLS_OK)
            (void)cls_mpi_await(m);
    }
    if (!m->broken)
        MPI_Comm_free(&m->comm);
    close_rank(m);
}

cls_shard *cls_mpi_shard(const cls_mpi *m) { return m != NULL ? m->shard : NULL; }
