/* SPDX-License-Identifier: MIT */
/* Proves that rows which lie far apart in a device's memory are read correctly: logits of each
 * type, masks and biases whose last row ends where a large buffer ends.
 *
 *     check_far [GiB]     buffers of this size
 *
 * `make check` uses some MiB and logits of float32. From 9 GiB on, rows of float32 begin beyond
 * 2^31 elements, and those of the other types beyond 2^32; from 2 GiB on, rows of bool masks do. A
 * device that has no buffers of this size is left out, and if that leaves none, the test is
 * skipped. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "rows/kinds.h"

enum { VOCAB = 1000, ROWS = 3 };

static uint64_t size = 16u << 20; /* of a buffer */
static int tested;                /* devices that have one */

/* ROWS rows, the last one at the buffer's end; returns their distance in elements. */
static uint64_t put(device *d, cl_mem buffer, uint64_t element, const void *rows, uint64_t *offset)
{
    const uint64_t stride = (size / element - VOCAB) / (ROWS - 1);
    *offset = (size / element - VOCAB - (ROWS - 1) * stride) * element;
    for (uint64_t row = 0; row < ROWS; row++)
        buffer_write(d, buffer, (size_t)(*offset + row * stride * element), VOCAB * (size_t)element,
                     (const char *)rows + row * VOCAB * element);
    return stride;
}

/* Returns a buffer that the device can also fill, or NULL: some drivers allocate only then. */
static cl_mem room(device *d)
{
    const uint32_t pattern = 0;
    cl_ulong most = 0;
    cl_int code;
    must_cl(clGetDeviceInfo(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL));
    if (size > most) {
        printf("%s: left out: a buffer of %.2f GiB exceeds the device's limit of %.2f GiB\n",
               d->name, (double)size / 1073741824.0, (double)most / 1073741824.0);
        return NULL;
    }
    cl_mem buffer = clCreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)size, NULL, &code);
    if (code == CL_SUCCESS)
        code = clEnqueueFillBuffer(d->queue, buffer, &pattern, sizeof pattern, 0, (size_t)size, 0,
                                   NULL, NULL);
    if (code == CL_SUCCESS)
        code = clFinish(d->queue);
    if (code == CL_SUCCESS)
        return buffer;
    printf("%s: left out: the device cannot allocate a buffer of %.2f GiB (OpenCL error %d)\n",
           d->name, (double)size / 1073741824.0, (int)code);
    if (buffer != NULL)
        clReleaseMemObject(buffer);
    return NULL;
}

/* What lies far apart. */
static const struct input {
    const char *name;
    int dtype; /* of logits */
    uint64_t element;
} inputs[] = {{"float32 logits", CLS_F32, 4},
              {"float16 logits", CLS_F16, 2},
              {"bfloat16 logits", CLS_BF16, 2},
              {"bool masks", CLS_F32, 1},
              {"biases", CLS_F32, 4}};
enum { MASKS = 3, BIASES = 4, INPUTS = 5 };

typedef struct rows {
    unsigned char logits[3][ROWS * VOCAB * 4]; /* of each type */
    float bias[ROWS][VOCAB];
    unsigned char mask[ROWS][VOCAB];
} rows;

static void sample(device *d, cl_mem far, const rows *all, int which)
{
    const struct input *const input = &inputs[which];
    const void *const contents = which == MASKS    ? (const void *)all->mask
                                 : which == BIASES ? (const void *)all->bias
                                                   : all->logits[input->dtype];
    const size_t row_size = VOCAB * dtype_size(input->dtype);
    int32_t token[ROWS], status[ROWS];
    uint64_t offset = 0;
    cls_sampler *sampler;
    cl_mem const logits = buffer_of(d, ROWS * row_size, all->logits[input->dtype]),
                 out = buffer_of(d, sizeof token + sizeof status, NULL);
    cls_sampler_options o = sampler_options(VOCAB, ROWS);
    o.dtypes = 1u << input->dtype;
    must(cls_sampler_create(fixture_context(d, 0, 0, 0, 0), &o, &sampler));
    cls_params p = default_params();
    p.top_p = 0.9f;
    for (uint32_t slot = 0; slot < ROWS; slot++)
        must(cls_slot_begin(sampler, slot, &p, NULL));
    cls_step step = default_step(ROWS, logits);
    step.logits.dtype = input->dtype;
    const uint64_t stride = put(d, far, input->element, contents, &offset);
    if (which == MASKS) {
        step.mask.row_stride = stride;
        step.mask.words = (cls_buffer){.buffer = far, .offset = offset};
        step.mask.kind = CLS_MASK_BOOL;
    } else if (which == BIASES) {
        step.bias.row_stride = stride;
        step.bias.values = (cls_buffer){.buffer = far, .offset = offset};
    } else {
        step.logits.row_stride = stride;
        step.logits.values.buffer = far;
        step.logits.values.offset = offset;
    }
    step.tokens.buffer = step.status.buffer = out;
    step.status.offset = sizeof token;
    must(cls_sample(sampler, d->queue, &step, 0, NULL, NULL));
    buffer_read(d, out, sizeof token, token);
    buffer_read_at(d, out, sizeof token, sizeof status, status);
    for (uint32_t row = 0; row < ROWS; row++) {
        one_row h = host_row(all->logits[input->dtype] + row * row_size, VOCAB, &p);
        h.dtype = input->dtype;
        h.mask = which == MASKS ? all->mask[row] : NULL;
        h.mask_kind = CLS_MASK_BOOL;
        h.bias = which == BIASES ? all->bias[row] : NULL;
        const one_result result = host_result(&h);
        ck_assert_msg(token[row] == result.token && status[row] == result.status,
                      "%s, %s, %llu bytes, row %u: token %d, status %d, not %d, %d", d->name,
                      input->name, (unsigned long long)size, row, token[row], status[row],
                      result.token, result.status);
    }
    printf("%s: %s: the last row begins at element %llu of %.2f GiB\n", d->name, input->name,
           (unsigned long long)(size / input->element - VOCAB), (double)size / 1073741824.0);
    cls_sampler_destroy(sampler);
    release_buffers(logits, out);
}

START_TEST(far_apart)
{
    static rows all;
    device *const d = fixture_device(_i);
    rng r = {fixture_seed()};
    cl_mem const far = room(d);
    if (far == NULL)
        return;
    for (uint32_t row = 0; row < ROWS; row++) {
        float x[VOCAB];
        row_fill(ROW_NORMAL3, x, VOCAB, fixture_seed() + row);
        for (int dtype = CLS_F32; dtype <= CLS_BF16; dtype++)
            for (uint32_t i = 0; i < VOCAB; i++)
                dtype_encode(dtype, x[i],
                             all.logits[dtype] + (row * VOCAB + i) * dtype_size(dtype));
        row_fill(ROW_NORMAL3, all.bias[row], VOCAB, fixture_seed() + ROWS + row);
        for (uint32_t i = 0; i < VOCAB; i++)
            all.mask[row][i] = rng_below(&r, 3) == 0;
    }
    for (int which = 0; which < INPUTS; which++)
        if (fixture_size() == TEST_FULL || inputs[which].dtype == CLS_F32)
            sample(d, far, &all, which);
    clReleaseMemObject(far);
    tested++;
}
END_TEST

int main(int argc, char **argv)
{
    fixture_random(CLS_FEATURE_MASK | CLS_FEATURE_BIAS);
    if (argc > 1)
        size = (uint64_t)(strtod(argv[1], NULL) * 1073741824.0) / 64 * 64;
    fixture_begin(ON_DEVICES);
    add_device_test(far_apart);
    const int status = fixture_end();
    return status == 0 && tested == 0 ? 77 : status;
}
