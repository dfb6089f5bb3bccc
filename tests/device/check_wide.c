/* SPDX-License-Identifier: MIT */
/* Proves that kernels load 16 bytes at once only where logits start at multiples of 16 bytes: a
 * wider load elsewhere ends the process on CPUs, and reads other bytes on some GPUs. The memory is
 * the test's own, so that the device reads from where the test wants. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "rows/kinds.h"
#include "queue/queue.h"

enum { VOCAB = 2500, ROWS = 3, SPARE = 64 };

static cls_buffer at(cl_mem buffer, uint64_t offset)
{
    const cls_buffer b = {.buffer = buffer, .offset = offset};
    return b;
}

/* What the host knows of a buffer's place. */
START_TEST(places)
{
    const device *const d = fixture_device(_i);
    char *const block = aligned_alloc(4096, 8192);
    cl_int code;
    const cl_mem own = clCreateBuffer(d->context, CL_MEM_READ_ONLY, 4096, NULL, &code);
    must_cl(code);
    ck_assert_int_eq(cls_buffer_is_wide(&(cls_buffer){.buffer = own}, NULL), 1);
    ck_assert_int_eq(cls_buffer_is_wide(&(cls_buffer){.buffer = own, .offset = 32}, NULL), 1);
    ck_assert_int_eq(cls_buffer_is_wide(&(cls_buffer){.buffer = own, .offset = 8}, NULL), 0);
    ck_assert_int_eq(cls_buffer_is_wide(&(cls_buffer){.buffer = NULL}, NULL), 0);
    clReleaseMemObject(own);
    for (size_t off = 0; off < 32; off += 4) {
        const cl_mem theirs = clCreateBuffer(d->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR,
                                             4096, block + off, &code);
        const cl_buffer_region region = {1024, 512};
        must_cl(code);
        const cl_mem part = clCreateSubBuffer(theirs, CL_MEM_READ_ONLY,
                                              CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        must_cl(code);
        for (uint64_t offset = 0; offset < 32; offset += 4) {
            const cls_buffer whole = at(theirs, offset), sub = at(part, offset);
            ck_assert_int_eq(cls_buffer_is_wide(&whole, NULL), (off + offset) % 16 == 0);
            ck_assert_int_eq(cls_buffer_is_wide(&sub, NULL), (off + offset) % 16 == 0);
        }
        release_buffers(part, theirs);
    }
    free(block);
}
END_TEST

/* Draws a token for each row and compares it with the host's. */
static void draw(device *d, cls_sampler *sampler, int32_t dtype, cl_mem buffer, const char *rows,
                 uint64_t offset, uint64_t stride, const cls_params *params)
{
    const size_t size = dtype_size(dtype);
    int32_t tokens[ROWS];
    cl_int code;
    const cl_mem out = clCreateBuffer(d->context, CL_MEM_WRITE_ONLY, sizeof tokens, NULL, &code);
    must_cl(code);
    for (uint32_t s = 0; s < ROWS; s++)
        must(cls_slot_begin(sampler, s, params, NULL));
    cls_step step = default_step(ROWS, buffer);
    step.logits.dtype = dtype;
    step.logits.values.offset = offset;
    step.logits.row_stride = stride;
    step.tokens.buffer = out;
    must(cls_sample(sampler, d->queue, &step, 0, NULL, NULL));
    buffer_read(d, out, sizeof tokens, tokens);
    for (uint32_t r = 0; r < ROWS; r++) {
        one_result result;
        one_row row = host_row(rows + r * stride * size, VOCAB, params);
        row.dtype = dtype;
        memset(&result, 0, sizeof result);
        must(one_sample(&row, &result));
        ck_assert_msg(tokens[r] == result.token,
                      "type %d, offset %llu, stride %llu: row %u has token %d, not %d", (int)dtype,
                      (unsigned long long)offset, (unsigned long long)stride, (unsigned)r,
                      (int)tokens[r], (int)result.token);
    }
    clReleaseMemObject(out);
}

/* Each type at pointers that are off by 0 to 12 bytes, and with rows whose stride is odd. */
START_TEST(pointers)
{
    device *const d = fixture_device(_i);
    cls_sampler *sampler;
    rng r = {77};
    cls_context_options o = default_context_options();
    o.work_group = 4;
    o.row_group = 1;
    o.vector = 4;
    cls_context *const context = new_context(d, &o);
    cls_sampler_options so = sampler_options(VOCAB, ROWS);
    so.dtypes = 1u << CLS_F32 | 1u << CLS_F16 | 1u << CLS_BF16;
    so.features = 0;
    must(cls_sampler_create(context, &so, &sampler));
    cls_params params = default_params();
    params.seed = 5;
    char *const block = aligned_alloc(4096, 16 * 4096);
    for (int32_t dtype = CLS_F32; dtype <= CLS_BF16; dtype++)
        for (size_t off = 0; off < 16; off += 4)
            for (uint64_t stride = VOCAB; stride <= VOCAB + 4; stride += 4) {
                const size_t size = dtype_size(dtype);
                char *const rows = block + off;
                for (size_t i = 0; i < ROWS * stride; i++) {
                    const float x = (float)rng_below(&r, 64) * 0.25f - 8.0f;
                    dtype_encode(dtype, x, rows + i * size);
                }
                cl_int code;
                const cl_mem buffer =
                    clCreateBuffer(d->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR,
                                   ROWS * stride * size + SPARE, rows, &code);
                must_cl(code);
                draw(d, sampler, dtype, buffer, rows, 0, stride, &params);
                clReleaseMemObject(buffer);
            }
    free(block);
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
}
END_TEST

int main(void)
{
    fixture_begin(ON_DEVICES);
    add_device_test(places);
    add_device_test(pointers);
    return fixture_end();
}
