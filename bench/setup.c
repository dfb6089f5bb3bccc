/* SPDX-License-Identifier: MIT */
/* Opens and closes the setup of a measurement: rows, masks and histories on host and device, and
 * the sampler. */
#include "bench/setup.h"

#include <string.h>

bool bench_is_host(const bench_setup *setup) { return setup->on->cl == NULL; }

cls_buffer bench_memory(void *memory, size_t size)
{
    return (cls_buffer){.pointer = memory, .size = size, .kind = CLS_BUFFER_HOST};
}

static cls_buffer new_buffer(const bench_setup *setup, size_t size, cl_int *error)
{
    cls_buffer b = {.buffer = NULL};
    if (bench_is_host(setup))
        return bench_memory(cli_alloc(size, 1), size);
    if (*error == CL_SUCCESS)
        b.buffer = clCreateBuffer(setup->on->cl, CL_MEM_READ_WRITE, size, NULL, error);
    return b;
}

static void release_buffer(const cls_buffer *b)
{
    if (b->buffer != NULL)
        clReleaseMemObject(b->buffer);
    cli_free(b->pointer);
}

static int write_buffer(const bench_setup *setup, const cls_buffer *to, size_t size,
                        const void *from, const char *what)
{
    if (!bench_is_host(setup))
        return cli_try_opencl(clEnqueueWriteBuffer(setup->on->queue, to->buffer, CL_TRUE, 0, size,
                                                   from, 0, NULL, NULL),
                              what);
    memcpy(to->pointer, from, size);
    return 0;
}

int bench_read(const bench_setup *setup, const cls_buffer *from, size_t size, void *to)
{
    if (bench_is_host(setup)) {
        memcpy(to, from->pointer, size);
        return 0;
    }
    cl_int error =
        clEnqueueReadBuffer(setup->on->queue, from->buffer, CL_FALSE, 0, size, to, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(setup->on->queue);
    return cli_try_opencl(error, "bench: reading the results");
}

bench_setup bench_twin(const bench_setup *setup, uint32_t row)
{
    const size_t logits = setup->vocab * bench_dtype_size(setup->dtype),
                 mask = (setup->vocab + 31) / 32 * sizeof(int32_t);
    bench_setup twin = *setup;
    twin.on = &setup->host;
    twin.sampler = NULL;
    twin.batch = 1;
    twin.first = row;
    twin.logits = bench_memory((char *)setup->rows + row * logits, logits);
    twin.mask = bench_memory((char *)setup->mask_words + row * mask, mask);
    twin.tokens = twin.kept = (cls_buffer){.buffer = NULL};
    return twin;
}

static bool has_kept(const bench_setup *setup)
{
    return setup->kept.buffer != NULL || setup->kept.pointer != NULL;
}

int bench_new_sampler(const bench_setup *setup, uint32_t window, cls_sampler **sampler)
{
    cls_sampler_options options;
    cls_sampler_options_init(&options);
    options.late_compile = 1;
    options.vocab = setup->vocab;
    options.max_rows = setup->batch;
    options.max_history = window;
    options.dtypes = 1u << setup->dtype;
    options.features = setup->features != 0 ? setup->features
                                            : CLS_FEATURE_PLAIN | CLS_FEATURE_SHORTLIST |
                                                  (setup->masks ? CLS_FEATURE_MASK : 0u) |
                                                  (has_kept(setup) ? CLS_FEATURE_KEPT_SETS : 0u);
    const cls_status status = cls_sampler_create(setup->on->context, &options, sampler);
    if (!bench_is_host(setup)) /* the host compiles nothing */
        cli_compile_done(status);
    return cli_try(status, "bench: creating the sampler");
}

int bench_make_sampler(bench_setup *setup, uint32_t window)
{
    if (setup->sampler != NULL && setup->window == window)
        return 0;
    cls_sampler_destroy(setup->sampler);
    setup->sampler = NULL;
    setup->window = window;
    return bench_new_sampler(setup, window, &setup->sampler);
}

int bench_make_kept(bench_setup *setup, const bench_case *c)
{
    cl_int error = CL_SUCCESS;
    if (c->kept_set == 0 || has_kept(setup))
        return 0;
    setup->kept = new_buffer(setup, (size_t)setup->batch * setup->vocab * sizeof(int32_t), &error);
    cls_sampler_destroy(setup->sampler);
    setup->sampler = NULL;
    return cli_try_opencl(error, "bench: the buffer for kept sets");
}

static size_t mask_size(const bench_setup *setup)
{
    return (size_t)setup->batch * ((setup->vocab + 31) / 32) * sizeof(int32_t);
}

int bench_open_setup(bench_setup *setup)
{
    cl_int error = CL_SUCCESS;

    setup->longest = setup->history;
    for (size_t i = 0; i < BENCH_CASES; i++)
        if (bench_cases[i].history > setup->longest)
            setup->longest = bench_cases[i].history;
    setup->size = ((size_t)(setup->batch + setup->spare) * setup->vocab + BENCH_PAD) *
                  bench_dtype_size(setup->dtype);
    setup->rows = cli_alloc(setup->size, 1);
    setup->mask_words = cli_alloc(mask_size(setup), 1);
    setup->ids = cli_alloc(setup->batch, (setup->longest + 1) * sizeof *setup->ids);
    setup->likeliest = cli_alloc(setup->batch + setup->spare, sizeof *setup->likeliest);
    if (cli_try(cls_context_create_host(NULL, &setup->host.context), "bench: opening the host"))
        return 1;
    setup->logits = new_buffer(setup, setup->size, &error);
    setup->mask = new_buffer(setup, mask_size(setup), &error);
    setup->tokens = new_buffer(setup, 2 * setup->batch * sizeof(int32_t), &error);
    return cli_try_opencl(error, "bench: the logits' buffers");
}

void bench_close_setup(bench_setup *setup)
{
    cls_sampler_destroy(setup->sampler);
    cls_context_destroy(setup->host.context);
    release_buffer(&setup->kept);
    release_buffer(&setup->tokens);
    release_buffer(&setup->mask);
    release_buffer(&setup->logits);
    cli_free(setup->likeliest);
    cli_free(setup->ids);
    cli_free(setup->mask_words);
    cli_free(setup->rows);
}

/* Finds the row's likeliest token and fills its history with random ids. Every 64th is that token:
 * models repeat themselves, and penalties that change no draw would not be verified. DRY's
 * histories end with the tokens before one of these. */
static int fill_history(void *of, uint32_t row)
{
    const bench_setup *const setup = of;
    int32_t *const ids = setup->ids + (size_t)row * setup->longest;
    setup->likeliest[row] = bench_likeliest(setup->rows, setup->dtype, row, setup->vocab);
    if (row >= setup->batch) /* a spare row */
        return 0;
    bench_fill_ids(ids, setup->longest, setup->vocab, (bench_law)setup->law, row);
    for (uint32_t i = 0; i < setup->longest; i += 64)
        ids[i] = setup->likeliest[row];
    for (size_t i = 0; i < BENCH_CASES; i++)
        if (bench_params(&bench_cases[i])->dry_multiplier != 0.0f)
            memcpy(ids + bench_cases[i].history - 3, ids + 61, 3 * sizeof *ids);
    return 0;
}

int bench_write_rows(bench_setup *setup, bench_rows kind)
{
    const uint32_t rows = setup->batch + setup->spare;
    if (bench_fill_rows(setup->rows, setup->dtype, rows, setup->vocab, kind) ||
        bench_each(rows, fill_history, setup))
        return 1;
    return write_buffer(setup, &setup->logits, setup->size, setup->rows,
                        "bench: writing the logits");
}

int bench_write_mask(bench_setup *setup, bench_mask kind)
{
    if (kind == BENCH_ALL)
        return 0;
    if (!setup->masks) { /* only a case with masks compiles the programs that read them */
        cls_sampler_destroy(setup->sampler);
        setup->sampler = NULL;
        setup->masks = true;
    }
    bench_fill_mask(setup->mask_words, setup->batch, setup->vocab, kind);
    return write_buffer(setup, &setup->mask, mask_size(setup), setup->mask_words,
                        "bench: writing the mask");
}

uint32_t bench_history(const bench_setup *setup, const bench_case *c)
{
    return c->history != 0 ? c->history : c->penalized ? setup->history : 0;
}
