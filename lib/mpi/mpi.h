/* SPDX-License-Identifier: MIT */
/* What the files of libclsample-mpi share. Of libclsample they use its public calls and
 * lib/private.h, and nothing else. */
#ifndef CLS_MPI_PRIVATE_H
#define CLS_MPI_PRIVATE_H

#include "private.h"

#include "clsample-mpi.h"

/* What a rank says in an agreement. */
enum cls_mpi_kind {
    CLS_MPI_CREATE = 1, /* it creates a cls_mpi */
    CLS_MPI_SAMPLE,     /* it starts a step */
    CLS_MPI_GATHER,     /* it starts a gather */
    CLS_MPI_NEXT,       /* it goes on with the open step, or failed to */
    CLS_MPI_END         /* it destroys its end */
};

/* What travels in an agreement, from each rank to all. The size is fixed, so that a rank that
 * knows nothing of what the others do can still take part, and hear from them. Numbers are in the
 * byte order of the host: another order shows in `magic`. */
typedef struct cls_mpi_header {
    uint32_t magic, version; /* of this library */
    uint32_t kind;
    int32_t status;     /* CLS_OK, or why this rank refuses */
    uint64_t digest;    /* of the step; CLS_MPI_CREATE: of the borders */
    uint64_t size;      /* of a partial, in bytes; CLS_MPI_CREATE: of the vocabulary */
    uint32_t shortlist; /* of the rank's device; 0 in CLS_MPI_CREATE and CLS_MPI_END */
    char message[476];  /* the sentence, if the status is not CLS_OK */
} cls_mpi_header;

/* What travels in place of a partial of a rank that cannot compute it: this mark, and zeros. A
 * partial never begins with it, as it is longer than a partial's own magic number. The ranks that
 * see it agree once more, which brings the sentence. */
#define CLS_MPI_MARK "clsample: failed"

/* Where the open step is. */
enum cls_mpi_state {
    CLS_MPI_IDLE,     /* no step is open */
    CLS_MPI_AGREES,   /* the headers travel */
    CLS_MPI_COMPUTES, /* all agreed; the device computes the partial */
    CLS_MPI_SENDS,    /* the partials travel */
    CLS_MPI_MERGES,   /* all partials are here */
    CLS_MPI_REFUSED   /* the step has ended before it started; `problem` says why */
};

/* A status and its sentence, to be reported later. */
typedef struct cls_mpi_problem {
    cls_status status; /* CLS_OK: none */
    char message[472];
} cls_mpi_problem;

struct cls_mpi {
    MPI_Comm comm; /* a duplicate of the caller's */
    int ranks, rank;
    cls_shard *shard;
    uint32_t shortlist; /* of its device */
    enum cls_mpi_state state;
    int abandoned; /* the caller has asked for the open step's end */

    MPI_Request request;     /* of the collective that is under way */
    cls_mpi_header own;      /* what this rank says */
    cls_mpi_header *headers; /* [ranks] what all said */
    size_t size;             /* of the current exchange's partial */
    char *partials;          /* [ranks][size], then [size] for a CLS_MPI_MARK */
    size_t room;             /* of the memory at `partials` */

    int owed; /* a header of ours with a failure is under way, which answers the others' next one */
    cls_mpi_problem problem; /* of a step that is CLS_MPI_REFUSED, or of this rank's partial */
    cls_mpi_problem behind;  /* this rank lacks a step that the others completed */
    int gone;                /* the rank + 1 of one that destroyed its end; 0: none */
    int broken;              /* MPI failed */
};

/* --------------------------------------------------------------- agree.c */

/* Turns a code of MPI into a status; a failure makes `m` unusable. */
cls_status cls_mpi_check(cls_mpi *m, int code, const char *call);

/* Remembers the thread's last failure. */
void cls_mpi_remember(cls_mpi_problem *problem, cls_status status);

/* Fills a header; the thread's error message goes along if the status is not CLS_OK. */
void cls_mpi_say(cls_mpi_header *header, uint32_t kind, cls_status status);

/* Sends m->own to all ranks, and begins to receive theirs in m->headers. */
cls_status cls_mpi_post(cls_mpi *m);

/* Waits for the collective that is under way. */
cls_status cls_mpi_await(cls_mpi *m);

/* Returns CLS_OK if the headers agree. Otherwise the result, also the sentence, is the same on all
 * ranks. */
cls_status cls_mpi_agreed(cls_mpi *m);

/* Waits for the header that this rank owes, and finds out what the others did. *answered: 1 if the
 * header was the answer to a call of theirs, which then failed; 0 if the others, too, were in the
 * step that failed. */
cls_status cls_mpi_settle(cls_mpi *m, int *answered);

/* ------------------------------------------------------------ exchange.c */

/* Goes on with the open step until it ends or, if `block` is 0, until it would wait. */
cls_status cls_mpi_progress(cls_mpi *m, int block, int *complete, cl_event *done);

#endif
