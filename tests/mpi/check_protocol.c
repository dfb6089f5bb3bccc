/* SPDX-License-Identifier: MIT */
/* Proves, on shards that need no device, that ranks stay in step: for steps of one to three
 * exchanges, each call of a shard fails on each rank at each exchange, and then all ranks return
 * the same status with that rank's sentence, none hangs, and the next step is complete on all.
 * tests/mpi/run.sh starts it on several ranks and stops one that hangs. */
#include "stub_shard.h"

#include <clsample-mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ranks, rank;
static unsigned checks;
static cls_mpi *mpi;
static cls_step step;
static cls_logits logits;

/* Ends all ranks: a rank that goes on alone would wait for ever. */
#define expect(condition, ...) \
    do { \
        checks++; \
        if (!(condition)) { \
            fprintf(stderr, "rank %d of %d, line %d: %s: ", rank, ranks, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__); \
            fprintf(stderr, ": \"%s\"\n", cls_error_message()); \
            MPI_Abort(MPI_COMM_WORLD, 1); \
        } \
    } while (0)

static void must(cls_status status, const char *what)
{
    expect(status == CLS_OK, "%s: %s", what, cls_status_name(status));
}

/* The status must be the same as expected, and the message must have the words. */
static void must_fail(cls_status status, cls_status wanted, const char *words, const char *what)
{
    expect(status == wanted, "%s: %s, not %s", what, cls_status_name(status),
           cls_status_name(wanted));
    expect(strstr(cls_error_message(), words) != NULL, "%s lacks \"%s\"", what, words);
    expect(!stub_is_open(), "%s", what);
}

/* Ranks that wait and ranks that test, in turn. */
static cls_status run_step(void)
{
    static unsigned calls;
    int complete = 0;
    step.rows++;
    if (calls++ % 2)
        return cls_mpi_sample(mpi, NULL, &step, 0, NULL, NULL);
    cls_status status = cls_mpi_sample_start(mpi, NULL, &step, 0, NULL);
    while (status == CLS_OK && !complete)
        status = cls_mpi_test(mpi, &complete, NULL);
    return status;
}

/* A step must be complete on all ranks. compare_tokens() tells if it had the same token. */
static uint64_t tokens;
static void good_step(const char *after)
{
    const uint32_t before = stub_completed();
    must(run_step(), after);
    expect(stub_completed() == before + 1 && stub_token() != 0, "%s", after);
    tokens = tokens * 31 + stub_token();
}

static void compare_tokens(void)
{
    const uint64_t mine[2] = {tokens, ~tokens};
    uint64_t most[2];
    MPI_Allreduce(mine, most, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    expect(most[0] == ~most[1], "the tokens of all steps");
}

static void open_all(void)
{
    must(cls_mpi_create(MPI_COMM_WORLD, NULL, NULL, &mpi), "cls_mpi_create()");
    good_step("a new cls_mpi");
}

static void close_all(void)
{
    cls_mpi_destroy(mpi);
    expect(!stub_exists(), "cls_mpi_destroy()");
    compare_tokens();
}

static void plan(int at_rank, stub_call call, uint32_t exchange, cls_status status)
{
    stub.fails = rank == at_rank ? call : STUB_NOTHING;
    stub.at = exchange;
    stub.status = status;
    stub.sentence = "the sentence of the fault";
}

/* Each rank in turn fails in each call of each exchange. */
static void test_faults(uint32_t exchanges)
{
    char words[64];
    stub.exchanges = exchanges;
    open_all();
    for (int r = 0; r < ranks; r++) {
        snprintf(words, sizeof words, "rank %d: the sentence of the fault", r);
        for (uint32_t i = 0; i < 2; i++) {
            const cls_status status = i ? CLS_BUSY : CLS_OUT_OF_MEMORY;
            plan(r, STUB_OPEN, 0, status);
            must_fail(run_step(), status, words, "a refused step");
            if (i)
                good_step("a refused step");
        }
        for (uint32_t e = 0; e < exchanges; e++) {
            plan(r, STUB_PARTIAL, e, CLS_OPENCL_ERROR);
            must_fail(run_step(), CLS_OPENCL_ERROR, words, "a lost partial");
            good_step("a lost partial");
            snprintf(words, sizeof words, "partial %d is damaged", r);
            plan(r, STUB_DAMAGE, e, CLS_OK);
            must_fail(run_step(), CLS_BAD_ARGUMENT, words, "a damaged partial");
            good_step("a damaged partial");
            snprintf(words, sizeof words, "rank %d: the sentence of the fault", r);
            plan(r, STUB_BUSY, e, CLS_OK);
            good_step("a busy merge");
            if (e + 1 == exchanges)
                continue;
            plan(r, STUB_MERGE, e, CLS_OUT_OF_MEMORY);
            must_fail(run_step(), CLS_OUT_OF_MEMORY, words, "a failed merge");
            good_step("a failed merge");
        }
    }
    close_all();
}

/* The last merge fails on one rank: it hears that at once, the others by the next step, and no
 * later step is possible. With one rank there are no others, and nothing is lost. */
static void test_last_merge(uint32_t exchanges)
{
    char words[64];
    stub.exchanges = exchanges;
    for (int r = 0; r < ranks; r++) {
        open_all();
        snprintf(words, sizeof words, "rank %d: the sentence of the fault", r);
        plan(r, STUB_MERGE, exchanges - 1, CLS_OPENCL_ERROR);
        const cls_status status = run_step();
        if (rank == r)
            must_fail(status, CLS_OPENCL_ERROR, words, "the last merge");
        else
            must(status, "another rank's last merge");
        if (ranks == 1) {
            good_step("the last merge");
        } else {
            must_fail(run_step(), CLS_OPENCL_ERROR, words, "the step after");
            snprintf(words, sizeof words, "rank %d: this rank lacks a step", r);
            for (int i = 0; i < 3; i++)
                must_fail(run_step(), CLS_OPENCL_ERROR, words, "a later step");
        }
        close_all();
        /* Destroyed at once, before the others have heard. */
        open_all();
        plan(r, STUB_MERGE, exchanges - 1, CLS_OPENCL_ERROR);
        expect((run_step() == CLS_OK) == (rank != r), "the last merge");
        close_all();
    }
}

/* The ranks do different things. */
static void test_differences(void)
{
    char words[64];
    stub.exchanges = 2;
    open_all();
    for (int r = 0; r < ranks && ranks > 1; r++) {
        /* Where two ranks differ, either may be at fault. */
        const int named = ranks == 2 ? 1 : r;
        snprintf(words, sizeof words, "rank %d has another step", named);
        step.rows += rank == r ? 100 : 0;
        must_fail(run_step(), CLS_BAD_ARGUMENT, words, "another step");
        step.rows -= rank == r ? 100 : 0;
        good_step("another step");
        snprintf(words, sizeof words, "rank %d is at cls_mpi_", named);
        must_fail(rank == r ? cls_mpi_gather(mpi, NULL, 3, &logits, 0, NULL, NULL) : run_step(),
                  CLS_BAD_ARGUMENT, words, "another call");
        step.rows += rank == r;
        good_step("another call");
        snprintf(words, sizeof words, "rank %d has a partial of", named);
        stub.size[0] += rank == r ? 8 : 0;
        must_fail(run_step(), CLS_BAD_ARGUMENT, words, "another size");
        stub.size[0] -= rank == r ? 8 : 0;
        good_step("another size");
    }
    must(cls_mpi_gather(mpi, NULL, 3, &logits, 0, NULL, NULL), "a gather");
    good_step("a gather");
    /* A rank gives up, at once or after some progress: the step ends on all ranks alike. */
    for (int r = 0; r < ranks; r++)
        for (int polls = 0; polls < 6; polls++) {
            int complete = 0;
            stub.exchanges = 1 + (uint32_t)r % 2;
            cls_status status = cls_mpi_sample_start(mpi, NULL, &step, 0, NULL);
            for (int i = 0; i < polls && status == CLS_OK && !complete; i++)
                status = cls_mpi_test(mpi, &complete, NULL);
            if (!complete && status == CLS_OK)
                status = rank == r ? cls_mpi_abandon(mpi) : cls_mpi_wait(mpi, NULL);
            tokens += (uint64_t)(status == CLS_OK); /* the same on all ranks */
            snprintf(words, sizeof words, "rank %d: this rank has abandoned", r);
            if (status != CLS_OK)
                must_fail(status, CLS_BAD_ARGUMENT, words, "an abandoned step");
            expect(polls > 0 || status != CLS_OK, "abandoned at once");
            good_step("an abandoned step");
        }
    /* Calls out of order concern this rank only. */
    int complete = 0;
    must(cls_mpi_sample_start(mpi, NULL, &step, 0, NULL), "a start");
    expect(cls_mpi_sample_start(mpi, NULL, &step, 0, NULL) == CLS_BAD_ARGUMENT, "a second start");
    must(cls_mpi_wait(mpi, NULL), "the first start's end");
    expect(cls_mpi_wait(mpi, NULL) == CLS_BAD_ARGUMENT, "a wait for nothing");
    expect(cls_mpi_test(mpi, &complete, NULL) == CLS_BAD_ARGUMENT && complete, "a test of nothing");
    must(cls_mpi_abandon(mpi), "abandoning nothing");
    good_step("calls out of order");
    close_all();
    /* Ranks with other shortlists may have the same steps. */
    stub.shortlist = rank == 1 ? 16 : 1024;
    open_all();
    step.rows += rank == 1 ? 100 : 0;
    if (ranks > 1)
        must_fail(run_step(), CLS_BAD_ARGUMENT,
                  "rank 1 has another step than rank 0: other rows, slots, parameters, maps or "
                  "outputs, or a top_k lies between the shortlists of their devices, of 16 and "
                  "1024 tokens",
                  "another shortlist");
    step.rows -= rank == 1 ? 100 : 0;
    good_step("another shortlist");
    close_all();
}

/* One rank destroys its end while the others start a step, or have one open. */
static void test_destroy(void)
{
    char words[64];
    stub.exchanges = 1;
    for (int r = 0; r < ranks && ranks > 1; r++) {
        open_all();
        snprintf(words, sizeof words, "rank %d: it has called cls_mpi_destroy()", r);
        if (rank != r) {
            must_fail(run_step(), CLS_BAD_ARGUMENT, words, "a step without a rank");
            expect(cls_mpi_sample_start(mpi, NULL, &step, 0, NULL) == CLS_BAD_ARGUMENT,
                   "a later step");
        }
        close_all();
        step.rows = 100 * (uint32_t)r;
        /* An open step ends with the cls_mpi. */
        open_all();
        must(cls_mpi_sample_start(mpi, NULL, &step, 0, NULL), "a start");
        close_all();
    }
}

/* Splits that differ where no rank's own tokens show it. */
static void test_splits(uint32_t *borders)
{
    cls_mpi_options o;
    cls_mpi_options_init(&o);
    o.borders = borders;
    for (int i = 0; i <= ranks; i++)
        borders[i] = 10 * (uint32_t)i;
    borders[ranks] += rank == ranks - 1 ? 5 : 0;
    if (ranks > 1)
        must_fail(cls_mpi_create(MPI_COMM_WORLD, NULL, &o, &mpi), CLS_BAD_ARGUMENT,
                  "has a vocabulary of", "another vocabulary");
    borders[ranks] = 10 * (uint32_t)ranks;
    borders[2] += rank == 0 ? 5 : 0;
    if (ranks > 2)
        must_fail(cls_mpi_create(MPI_COMM_WORLD, NULL, &o, &mpi), CLS_BAD_ARGUMENT,
                  "rank 0 has other borders than rank 1", "another border of other ranks");
    expect(!stub_exists(), "a split that differs");
}

static void test_create(void)
{
    char words[64];
    uint32_t borders[65];
    cls_mpi_options o;
    cls_mpi *none = (cls_mpi *)&step;
    for (int r = 0; r < ranks; r++) {
        snprintf(words, sizeof words, "rank %d: the sentence of the fault", r);
        plan(r, STUB_CREATE, 0, CLS_BUILD_FAILED);
        must_fail(cls_mpi_create(MPI_COMM_WORLD, NULL, NULL, &mpi), CLS_BUILD_FAILED, words,
                  "a shard that does not open");
        expect(mpi == NULL && !stub_exists(), "a shard that does not open");
        snprintf(words, sizeof words, "rank %d: out is NULL", r);
        must_fail(cls_mpi_create(MPI_COMM_WORLD, NULL, NULL, rank == r ? NULL : &mpi),
                  CLS_BAD_ARGUMENT, words, "no out");
        snprintf(words, sizeof words, "rank %d: options->struct_size is 8", r);
        cls_mpi_options_init(&o);
        o.struct_size = rank == r ? 8 : sizeof o;
        must_fail(cls_mpi_create(MPI_COMM_WORLD, NULL, &o, &mpi), CLS_BAD_ARGUMENT, words,
                  "a wrong size");
    }
    cls_mpi_options_init(&o);
    for (int i = 0; i <= ranks; i++)
        borders[i] = (uint32_t)(i * i + i + (i > 0 && rank == 1));
    o.borders = borders;
    const cls_status status = cls_mpi_create(MPI_COMM_WORLD, NULL, &o, &mpi);
    if (ranks > 1)
        must_fail(status, CLS_BAD_ARGUMENT, "rank 1 has a vocabulary of", "other borders");
    else
        close_all();
    test_splits(borders);
    must_fail(cls_mpi_create(MPI_COMM_NULL, NULL, NULL, &none), CLS_BAD_ARGUMENT,
              "comm is MPI_COMM_NULL", "no communicator");
    expect(none == NULL, "no communicator");
    cls_mpi_destroy(NULL);
    expect(cls_mpi_abandon(NULL) == CLS_BAD_ARGUMENT, "NULL");
    expect(cls_mpi_wait(NULL, NULL) == CLS_BAD_ARGUMENT, "NULL");
    expect(cls_mpi_sample(NULL, NULL, &step, 0, NULL, NULL) == CLS_BAD_ARGUMENT, "NULL");
    expect(cls_mpi_shard(NULL) == NULL, "NULL");
    /* Two groups of ranks work apart, each on its own communicator. */
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    must(cls_mpi_create(half, NULL, NULL, &mpi), "half of the ranks");
    for (int i = 0; i <= rank % 2; i++)
        must(run_step(), "half of the ranks");
    close_all();
    MPI_Comm_free(&half);
    step.rows = 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    test_create();
    for (uint32_t exchanges = 1; exchanges <= 3; exchanges++) {
        stub.polls = exchanges - 1;
        test_faults(exchanges);
        test_last_merge(exchanges);
        stub.size[1] = 40;
        stub.size[2] = 4096;
    }
    test_differences();
    test_destroy();
    if (rank == 0)
        printf("%u passed, 0 failed\n", checks);
    MPI_Finalize();
    return 0;
}
