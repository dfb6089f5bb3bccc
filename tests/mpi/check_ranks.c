/* SPDX-License-Identifier: MIT */
/* Proves that ranks that each have a part of the vocabulary draw the tokens of the reference, bit
 * for bit and with the same row records: usual rows, and requests of many kinds with penalties and
 * histories, even and uneven borders, by cls_mpi_sample() and by cls_mpi_gather() with
 * cls_sample(). shards.run has every input of a step. Between the steps, on each rank in turn,
 * arguments are refused, a request differs, a partial is damaged and one is lost. These steps must
 * happen nowhere, and the next one must be right. Ranks with different vocabularies are refused.
 * tests/mpi/check_mpi.sh starts it on several ranks. */
#include <clsample-mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "split.h"

enum { STEPS = 3 };

static int ranks, rank;

/* --------------------------------------------------------- partials that go wrong */

/* The linker puts this in front of cls_shard_partial(). */
static enum { NO_FAULT, DAMAGED, LOST } fault;
cls_status __real_cls_shard_partial(cls_shard *shard, const void **partial, size_t *size);
cls_status __wrap_cls_shard_partial(cls_shard *shard, const void **partial, size_t *size);

cls_status __wrap_cls_shard_partial(cls_shard *shard, const void **partial, size_t *size)
{
    const cls_status status = __real_cls_shard_partial(shard, partial, size);
    if (status == CLS_OK && fault == DAMAGED)
        ((unsigned char *)(uintptr_t)*partial)[*size - 1] ^= 1;
    const int lost = fault == LOST;
    fault = NO_FAULT;
    return lost ? cls_fail(CLS_OPENCL_ERROR, CL_OUT_OF_RESOURCES, "the device failed") : status;
}

/* ------------------------------------------------------------------------- a step */

typedef struct ranked {
    client s;
    batch *b;
    device *d;
    cls_mpi *mpi;
    cls_logits part; /* this rank's columns of the logits */
    unsigned steps;
} ranked;

static cls_status run_step(ranked *t)
{
    int complete = 0;
    cl_event done = NULL;
    cls_status status;
    if (t->steps++ % 2) {
        status = cls_mpi_sample(t->mpi, t->d->queue, &t->s.step, 0, NULL, &done);
    } else {
        status = cls_mpi_sample_start(t->mpi, t->d->queue, &t->s.step, 0, NULL);
        while (status == CLS_OK && !complete)
            status = cls_mpi_test(t->mpi, &complete, &done);
    }
    ck_assert_int_eq(done != NULL, status == CLS_OK);
    if (done != NULL) {
        must_end(done);
    }
    return status;
}

/* All ranks must return the status and a message with these words. */
static void all_must_fail(cls_status status, cls_status wanted, const char *words)
{
    ck_assert_msg(status == wanted && strstr(cls_error_message(), words) != NULL,
                  "rank %d: %s, not %s: \"%s\", not \"%s\"", rank, cls_status_name(status),
                  cls_status_name(wanted), cls_error_message(), words);
}

static void check_tokens(ranked *t, const char *what)
{
    char where[240];
    batch *const b = t->b;
    client_tokens(&t->s, 0);
    must(cls_sampler_trace(t->s.sampler, t->d->queue, b->device_trace, b->rows));
    snprintf(where, sizeof where, "%s, %s, rank %d of %d, %u tokens", t->d->name, what, rank, ranks,
             b->vocab);
    batch_equal(b, where);
    for (uint32_t row = 0; row < b->rows; row++) {
        if (b->token[row] < 0)
            b->host[row].token = -1;
        batch_accept(b, row);
    }
}

/* --------------------------------------------------------------------- the faults */

static void run_faults(ranked *t, int r)
{
    char words[80];
    const cls_step step = t->s.step;
    const int here = rank == r;
    snprintf(words, sizeof words, "rank %d: step->rows is 0", r);
    t->s.step.rows = here ? 0 : step.rows;
    all_must_fail(run_step(t), CLS_BAD_ARGUMENT, words);
    t->s.step = step;
    snprintf(words, sizeof words, "rank %d: ", r);
    all_must_fail(cls_mpi_sample(t->mpi, here ? NULL : t->d->queue, &step, 0, NULL, NULL),
                  CLS_BAD_ARGUMENT, words);
    /* Another temperature of one request. */
    if (ranks > 1) {
        cls_params other = t->b->params[0];
        other.temperature += here ? 0.5f : 0.0f;
        must(cls_slot_params(t->s.sampler, 0, &other));
        all_must_fail(run_step(t), CLS_BAD_ARGUMENT, "has another step than rank");
        must(cls_slot_params(t->s.sampler, 0, &t->b->params[0]));
    }
    fault = here ? DAMAGED : NO_FAULT;
    snprintf(words, sizeof words, "partial %d is damaged", r);
    all_must_fail(run_step(t), CLS_BAD_ARGUMENT, words);
    fault = here ? LOST : NO_FAULT;
    snprintf(words, sizeof words, "rank %d: the device failed", r);
    all_must_fail(run_step(t), CLS_OPENCL_ERROR, words);
}

/* ------------------------------------------------------------------------ batches */

static void open_ranked(ranked *t, batch *b, device *d, cls_context *context,
                        const uint32_t *borders)
{
    const size_t element = dtype_size(b->dtype);
    uint32_t first, width;
    cls_mpi_options o;
    memset(t, 0, sizeof *t);
    t->b = b;
    t->d = d;
    client_open(&t->s, b, d, context, 1);
    cls_mpi_options_init(&o);
    o.borders = borders;
    must(cls_mpi_create(MPI_COMM_WORLD, t->s.sampler, &o, &t->mpi));
    cls_shard_info info;
    cls_shard_info_init(&info);
    must(cls_shard_query(cls_mpi_shard(t->mpi), &info));
    first = info.first;
    width = info.count;
    unsigned char *const part = must_malloc(b->rows * width * element);
    for (uint32_t row = 0; row < b->rows; row++)
        memcpy(part + row * width * element,
               b->data + b->offset + ((size_t)row * b->stride + first) * element, width * element);
    t->part = (cls_logits){.dtype = b->dtype,
                           .values.buffer = buffer_of(d, b->rows * width * element, part)};
    free(part);
}

static void run_batch(batch *b, device *d, cls_context *context, const uint32_t *borders,
                      int faults)
{
    ranked t;
    open_ranked(&t, b, d, context, borders);
    const cls_logits whole = t.s.step.logits;
    t.s.step.logits = t.part;
    for (int i = 0; i < STEPS; i++) {
        batch_reference(b);
        for (int r = i; r < ranks && faults; r += STEPS)
            run_faults(&t, r);
        must(run_step(&t));
        check_tokens(&t, "split");
    }
    /* The whole rows on each rank, and an ordinary step. */
    batch_reference(b);
    must(cls_mpi_gather(t.mpi, d->queue, b->rows, &t.part, 0, NULL, NULL));
    must(cls_shard_logits(cls_mpi_shard(t.mpi), &t.s.step.logits));
    must(cls_sample(t.s.sampler, d->queue, &t.s.step, 0, NULL, NULL));
    check_tokens(&t, "gathered");
    t.s.step.logits = whole;
    clReleaseMemObject(t.part.values.buffer);
    cls_mpi_destroy(t.mpi);
    client_close(&t.s);
}

static batch *make_batch(uint32_t i, uint32_t vocab, int usual, rng *r)
{
    const int dtype = i % 2 ? CLS_F16 : CLS_F32;
    batch *const b = batch_new(usual ? 5 : 8, vocab, dtype, vocab + rng_below(r, 9), 0);
    for (uint32_t row = 0; row < b->rows; row++) {
        cls_params *const p = &b->params[row];
        batch_row(b, row, usual ? ROW_LANGUAGE : (row_kind)rng_below(r, ROW_KINDS), rng_bits(r));
        if (!usual) {
            batch_kind(b, row, (i / 2 * b->rows + row) % PARAMS_KINDS);
            continue;
        }
        /* Greedy, plain, top-k, top-p, min-p. */
        p->temperature = row == 0 ? 0.0f : 0.3f + (float)rng_unit(r);
        p->top_k = row == 2 ? 20 : 0;
        p->top_p = row == 3 ? 0.9f : 1.0f;
        p->min_p = row == 4 ? 0.05f : 0.0f;
    }
    b->history = usual ? 0 : 100;
    if (!usual)
        batch_prompts(b, r);
    return b;
}

/* Compiles on one rank first: the others load what that has stored. Without it each compiles all.
 * They sleep meanwhile, since MPI_Barrier() would keep a core busy. */
static cls_context *compiled(device *d)
{
    static const struct timespec wait = {.tv_nsec = 10000000};
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    MPI_Request barrier;
    int complete = 0;
    if (rank == 0)
        must(cls_context_compile(context, 1u << CLS_F32 | 1u << CLS_F16,
                                 cls_test_features | CLS_FEATURE_SHARD));
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    while (MPI_Test(&barrier, &complete, MPI_STATUS_IGNORE), !complete)
        nanosleep(&wait, NULL);
    must(cls_context_compile(context, 1u << CLS_F32 | 1u << CLS_F16,
                             cls_test_features | CLS_FEATURE_SHARD));
    return context;
}

START_TEST(steps)
{
    static const uint32_t sizes[] = {2500, 1025, 31, 5000, 1023, 32000};
    device *const d = fixture_device(0);
    cls_context *const context = compiled(d);
    rng r = {fixture_seed() + 500};
    for (uint32_t i = 0; i < fixture_by_size(4, 8, 60); i++) {
        const uint32_t vocab = sizes[i % fixture_by_size(3, 5, 6)];
        uint32_t borders[SPLIT_MOST + 1];
        batch *const b = make_batch(i, vocab, i % 2 == 0, &r);
        split_borders(vocab, (uint32_t)ranks, i % 3 == 0, &r, borders);
        run_batch(b, d, context, i % 4 == 3 ? NULL : borders, i < 2);
        batch_free(b);
    }
}
END_TEST

/* The last rank has another vocabulary, and all have the same borders before it. */
START_TEST(vocabularies)
{
    device *const d = fixture_device(0);
    cls_sampler *sampler;
    cls_mpi *mpi;
    cls_sampler_options o = sampler_options(rank == ranks - 1 ? 3000 : 2100, 1);
    o.dtypes = 1u << CLS_F32;
    must(cls_sampler_create(compiled(d), &o, &sampler));
    const cls_status status = cls_mpi_create(MPI_COMM_WORLD, sampler, NULL, &mpi);
    if (ranks > 1)
        all_must_fail(status, CLS_BAD_ARGUMENT,
                      "has a vocabulary of 3000 tokens, but rank 0 one of 2");
    cls_mpi_destroy(mpi);
    cls_sampler_destroy(sampler);
}
END_TEST

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    fixture_random(CLS_FEATURE_MASK | CLS_FEATURE_BIAS);
    fixture_begin(ON_DEVICES);
    add_test(vocabularies);
    add_test(steps);
    const int result = fixture_end();
    if (result != 0 && result != 77) /* the other ranks wait for this one */
        MPI_Abort(MPI_COMM_WORLD, result);
    MPI_Finalize();
    return result;
}
