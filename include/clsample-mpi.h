/* SPDX-License-Identifier: MIT */
/*
 * libclsample-mpi: the shards of clsample/shard.h, whose partials travel by MPI.
 *
 * Each rank of a communicator has one shard of the vocabulary: rank i has shard i. One step:
 *
 *     cls_mpi_sample(mpi, queue, &step, 0, NULL, NULL);
 *
 * or, for a rank that has other work meanwhile,
 *
 *     cls_mpi_sample_start(mpi, queue, &step, 0, NULL);
 *     ... other work, and now and then cls_mpi_test(mpi, &complete, NULL);
 *     cls_mpi_wait(mpi, NULL);
 *
 * The tokens are those of cls_sample() on the whole logits, bit for bit, on every rank.
 *
 * The library is optional: it is built by `configure --with-mpi`, and belongs to the MPI it was
 * built with. libclsample does not know of MPI. Link a program with
 *
 *     mpicc program.c $(pkg-config --cflags --libs clsample-mpi)
 *
 * Both libraries must be from the same release, and on all ranks the same.
 *
 * Collective calls. Creating, starting a step and destroying are collective: all ranks of the
 * communicator make the same of these calls in the same order. They also make the same slot calls
 * in the same order, each on its own sampler, between the same steps: a slot has the state of the
 * whole request on every rank. A rank that must tell the others which requests begin does that
 * with its own messages.
 *
 * Communicators. cls_mpi_create() duplicates the caller's, so that its messages meet no others.
 * Several cls_mpi may exist at once, also on one communicator. Data-parallel groups of
 * tensor-parallel ranks are communicators of their own:
 *
 *     MPI_Comm_split(MPI_COMM_WORLD, rank / group_size, rank, &group);
 *     cls_mpi_create(group, sampler, NULL, &mpi);
 *
 * Several ranks may use one device: each has its own context, sampler and memory there.
 *
 * Progress is made only in the calls of this header. There is no helper thread. A step consists of
 * one or more exchanges. In each, the ranks first agree by a message of fixed size, which travels
 * while the device computes the partial, and then exchange the partials. Both are non-blocking
 * collectives of MPI, from and to memory of the host.
 *
 * Failures. When a step starts on all ranks, they agree whether it starts at all. If the call was
 * refused on a rank (its queue is full, its arguments are wrong), or if a rank started another
 * step, the step has happened nowhere, and every rank returns the refusing rank's status and its
 * sentence, with the rank in front: "rank 3: step->rows is 0; ...". The ranks can go on with
 * another step. The same holds for a partial that arrives damaged.
 *
 * If a rank fails later, for example because its device does, the step ends without a token on all
 * ranks, in the same way; with CLS_LOST it is that rank's sampler which is lost. If one rank fails
 * in the last merge, when the others no longer wait for it, its own call reports that, and the
 * next step is refused on all ranks with that rank's sentence. So are all steps after it: that
 * rank's requests are one token behind. Save the slots of another rank (cls_slot_save()), and
 * create samplers and cls_mpi again on all ranks. After any failure a rank must call again, either
 * a step or cls_mpi_destroy(), so that the others hear of it.
 *
 * The statuses of a step are those of cls_shard_sample(), cls_shard_partial() and
 * cls_shard_merge(), of this rank or of another, and CLS_MPI_ERROR if MPI itself failed.
 * cls_error_opencl() is CL_SUCCESS then, and the sentence names OpenCL's error. When a rank's
 * process ends, MPI decides what happens to the others: usually it ends them, too.
 *
 * Threads. MPI must be initialized before cls_mpi_create(), and finalized after cls_mpi_destroy().
 * A cls_mpi is used by one thread at a time, as its sampler is. MPI_THREAD_SINGLE is enough for a
 * process of one thread (an OpenCL driver's own threads do not call MPI), MPI_THREAD_FUNNELED if
 * only the main thread calls MPI and this library, MPI_THREAD_SERIALIZED if several threads do so
 * one after another, and MPI_THREAD_MULTIPLE if two threads may do so at once.
 */
#ifndef CLSAMPLE_MPI_H
#define CLSAMPLE_MPI_H

#include <clsample.h>
#include <string.h>
/* Some mpi.h have C++ classes, which MPI 3 removed and which need one more library. A program that
 * uses them includes mpi.h first. */
#if defined(__cplusplus) && !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if defined(__cplusplus) && !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(CLS_MPI_BUILD)
#define CLS_MPI_API __declspec(dllexport)
#elif !defined(_WIN32) && defined(__GNUC__)
#define CLS_MPI_API __attribute__((visibility("default")))
#else
#define CLS_MPI_API
#endif

/* One rank's end of the exchanges: a shard and a communicator. */
typedef struct cls_mpi cls_mpi;

/* How the vocabulary is divided. */
typedef struct cls_mpi_options {
    size_t struct_size;
    const uint32_t *borders; /* [ranks + 1]: as cls_shard_options.borders, the same on all ranks;
                                NULL (default): those of cls_shard_create(). Copied */
} cls_mpi_options;

/* Makes a sampler of the whole vocabulary the shard of this rank: shard_count is the size of
 * `comm`, and shard is the rank in it. Collective. The sampler must outlive the result, and must
 * have no shard yet. `comm` is duplicated and remains the caller's. It must not be an
 * inter-communicator. options may be NULL.
 *
 * CLS_OK, on all ranks, or none: the status and the sentence are those of the first rank that
 * failed.
 * - CLS_BAD_ARGUMENT: an argument is wrong, the ranks' borders or vocabularies differ, or their
 *   libraries are of different releases. If it is `comm`, or if MPI is not initialized, the call
 *   is not collective: the other ranks wait.
 * - CLS_MPI_ERROR: MPI failed.
 *
 * Or a status of cls_shard_create(). On failure *out is NULL. */
CLS_MPI_API CLS_WARN_UNUSED cls_status cls_mpi_create(MPI_Comm comm, cls_sampler *sampler,
                                                      const cls_mpi_options *options,
                                                      cls_mpi **out);

/* Destroys a cls_mpi and its shard, before its sampler. Collective. An open step ends first,
 * without a token if it can. Blocks until all ranks have made this call, or a step in its place:
 * that step is then refused there, and so are all later ones. NULL is allowed. */
CLS_MPI_API void cls_mpi_destroy(cls_mpi *mpi);

/* Returns the shard, for cls_shard_query(), cls_shard_logits() and cls_shard_digest(). Its other
 * functions must not be called: they belong to the steps. */
CLS_MPI_API cls_shard *cls_mpi_shard(const cls_mpi *mpi);

/* Starts a step, or a gather: the arguments are those of cls_shard_sample() and
 * cls_shard_gather(), and what `step` points to must remain until the step has ended. Collective.
 * Does not wait, except after a step that failed in a merge on this rank: then it waits for the
 * other ranks' next call. All ranks start the same: a step for one and a gather for another are
 * refused on all.
 *
 * CLS_OK: the step has started, and cls_mpi_test() or cls_mpi_wait() must be called until it has
 * ended. Also if this rank's own arguments are refused: all ranks hear that by these calls.
 * - CLS_BAD_ARGUMENT: mpi is NULL, a step is open, or a rank has destroyed its end. Other ranks are
 *   not told.
 * - CLS_MPI_ERROR: MPI failed now or before. */
CLS_MPI_API CLS_WARN_UNUSED cls_status cls_mpi_sample_start(cls_mpi *mpi, cl_command_queue queue,
                                                            const cls_step *step, cl_uint n_wait,
                                                            const cl_event *wait);
CLS_MPI_API CLS_WARN_UNUSED cls_status cls_mpi_gather_start(cls_mpi *mpi, cl_command_queue queue,
                                                            uint32_t rows, const cls_logits *logits,
                                                            cl_uint n_wait, const cl_event *wait);

/* Makes progress with the open step, as far as that is possible without waiting. Sets *complete to
 * 1 if the step has ended, and to 0 if the call must be repeated. If it has ended with CLS_OK, all
 * that is left of it is enqueued, and *done (done may be NULL) is its event, as that of
 * cls_sample(). Otherwise *done is NULL.
 *
 * CLS_OK: the step has ended well, or has not ended.
 * - CLS_BAD_ARGUMENT: also if no step is open. *complete is 1.
 * - CLS_BUSY; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR; CLS_MPI_ERROR: the step has ended without a
 *   token; see above. */
CLS_MPI_API CLS_WARN_UNUSED cls_status cls_mpi_test(cls_mpi *mpi, int *complete, cl_event *done);

/* Waits until the open step has ended; otherwise as cls_mpi_test(). It does not wait for the
 * device to draw the tokens, only for the partials. */
CLS_MPI_API CLS_WARN_UNUSED cls_status cls_mpi_wait(cls_mpi *mpi, cl_event *done);

/* Starts and waits: cls_mpi_sample_start() or cls_mpi_gather_start(), and cls_mpi_wait(). After a
 * gather, cls_shard_logits(cls_mpi_shard(mpi), &logits) has the rows. */
CLS_MPI_API CLS_WARN_UNUSED cls_status cls_mpi_sample(cls_mpi *mpi, cl_command_queue queue,
                                                      const cls_step *step, cl_uint n_wait,
                                                      const cl_event *wait, cl_event *done);
CLS_MPI_API CLS_WARN_UNUSED cls_status cls_mpi_gather(cls_mpi *mpi, cl_command_queue queue,
                                                      uint32_t rows, const cls_logits *logits,
                                                      cl_uint n_wait, const cl_event *wait,
                                                      cl_event *done);

/* Ends the open step without a token on all ranks, if this rank still has something to contribute,
 * and waits for its end. The other ranks' calls return CLS_BAD_ARGUMENT and name this rank.
 * Returns what cls_mpi_wait() does: CLS_OK if it was too late, and the step is complete everywhere.
 * Without an open step it does nothing and returns CLS_OK. */
CLS_MPI_API cls_status cls_mpi_abandon(cls_mpi *mpi);

static inline cls_status cls_mpi_options_init(cls_mpi_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    return CLS_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_MPI_H */
