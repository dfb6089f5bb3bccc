/* SPDX-License-Identifier: MIT */
/* The vocabulary is divided between the ranks of MPI: each computes the logits of its own tokens,
 * and libclsample-mpi samples them together. All ranks run the same program on the same requests.
 * Their schedules stay equal, since what they decide follows from tokens, which are equal, and from
 * the statuses of steps, on which the ranks agree. */
#include <stdio.h>

#include "llama.h"

#include <clsample-mpi.h>

static cls_mpi *ranks;

/* Rank 0 prints for all. */
bool vocabulary_begin(int *argc, char ***argv)
{
    int rank;
    if (MPI_Init(argc, argv) != MPI_SUCCESS)
        die("MPI cannot be initialized");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0 && (freopen("/dev/null", "w", stdout) == NULL))
        die("/dev/null cannot be opened");
    return rank == 0;
}

void vocabulary_end(void) { MPI_Finalize(); }

void vocabulary_open(sampling *s, const options *o)
{
    must(cls_mpi_create(MPI_COMM_WORLD, s->sampler, NULL, &ranks), "the ranks");
    cls_shard_info info;
    cls_shard_info_init(&info);
    must(cls_shard_query(cls_mpi_shard(ranks), &info), "the ranks");
    s->first = info.first;
    s->count = info.count;
    if (o->check_logits != NULL && s->count != s->m->c.vocab)
        die("--check-logits needs the whole vocabulary on one rank");
}

void vocabulary_close(sampling *s)
{
    (void)s;
    cls_mpi_destroy(ranks);
}

/* The call waits for the partials of all ranks, and therefore for this rank's logits. So the head
 * never has more than one product in flight, and is never busy on one rank alone. */
cls_status vocabulary_sample(sampling *s, const cls_step *step, cl_event *done)
{
    return cls_mpi_sample(ranks, s->m->d->queue, step, 0, NULL, done);
}

/* A verification of drafts needs whole rows, which every rank then has and verifies. */
cls_status vocabulary_gather(sampling *s, uint32_t rows, cls_logits *logits)
{
    const cls_logits part = {.values.buffer = s->logits, .dtype = CLS_F32};
    const cls_status status = cls_mpi_gather(ranks, s->m->d->queue, rows, &part, 0, NULL, NULL);
    return status == CLS_OK ? cls_shard_logits(cls_mpi_shard(ranks), logits) : status;
}
