/* SPDX-License-Identifier: MIT */
/* Rows that lie far apart in a device's memory: logits, masks and biases, of
 * which the last ends where a large buffer does.
 *
 *     check_far [GiB]     buffers of so many, or of the largest that there can be
 *
 * `make check` takes some MiB. From 9 GiB on rows of float32 begin beyond 2^31
 * elements, from 2 GiB on those of bool masks. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"
#include "inputs.h"

enum { VOCAB = 1000, ROWS = 3 };

static double gib_wanted;

static uint64_t size_for(const device *d)
{
    cl_ulong most = 0;
    must_cl(clGetDeviceInfo(d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL));
    const uint64_t want = gib_wanted > 0.0 ? (uint64_t)(gib_wanted * 1073741824.0) : 16u << 20;
    return (want < most ? want : most) / 64 * 64;
}

/* ROWS rows, the last one at the buffer's end; returns their distance in elements. */
static uint64_t put(device *d, cl_mem buffer, uint64_t size, uint64_t element, const void *rows,
                    uint64_t *offset)
{
    const uint64_t stride = (size / element - VOCAB) / (ROWS - 1);
    *offset = (size / element - VOCAB - (ROWS - 1) * stride) * element;
    for (uint64_t row = 0; row < ROWS; row++)
        must_cl(clEnqueueWriteBuffer(
            d->queue, buffer, CL_TRUE, (size_t)(*offset + row * stride * element),
            VOCAB * (size_t)element, (const char *)rows + row * VOCAB * element, 0, NULL, NULL));
    return stride;
}

static cl_mem room(device *d, uint64_t size)
{
    cl_int code;
    cl_mem const buffer = clCreateBuffer(d->context, CL_MEM_READ_WRITE, (size_t)size, NULL, &code);
    ck_assert_msg(code == CL_SUCCESS, "%s: no buffer of %llu bytes (%d)", d->name,
                  (unsigned long long)size, (int)code);
    return buffer;
}

typedef struct rows {
    float logits[ROWS][VOCAB], bias[ROWS][VOCAB];
    unsigned char mask[ROWS][VOCAB];
} rows;

/* which: 0 logits, 1 masks, 2 biases lie far apart. */
static void sample(device *d, const rows *all, int which)
{
    const uint64_t size = size_for(d);
    int32_t token[ROWS], status[ROWS];
    uint64_t offset = 0;
    cls_sampler *sampler;
    cls_sampler_options o;
    cls_params p;
    cls_step step;
    cl_mem const far = room(d, size), logits = buffer_of(d, sizeof all->logits, all->logits),
                 out = buffer_of(d, sizeof token + sizeof status, NULL);
    cls_sampler_options_default(&o, sizeof o);
    o.vocab = VOCAB;
    o.max_rows = ROWS;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
    cls_params_default(&p, sizeof p);
    p.top_p = 0.9f;
    for (uint32_t slot = 0; slot < ROWS; slot++)
        must(cls_slot_begin(sampler, slot, &p, NULL, 0, NULL, 0));
    cls_step_default(&step, sizeof step);
    step.rows = ROWS;
    step.logits.buffer = logits;
    if (which == 0) {
        step.logits.row_stride = put(d, far, size, sizeof(float), all->logits, &offset);
        step.logits.buffer = far;
        step.logits.offset = offset;
    } else if (which == 1) {
        step.mask.row_stride = put(d, far, size, 1, all->mask, &offset);
        step.mask.words = (cls_buffer){far, offset};
        step.mask.kind = CLS_MASK_BOOL;
    } else {
        step.bias.row_stride = put(d, far, size, sizeof(float), all->bias, &offset);
        step.bias.values = (cls_buffer){far, offset};
    }
    step.tokens.buffer = step.status.buffer = out;
    step.status.offset = sizeof token;
    must(cls_sample(sampler, d->queue, &step, 0, NULL, NULL));
    must_cl(clEnqueueReadBuffer(d->queue, out, CL_TRUE, 0, sizeof token, token, 0, NULL, NULL));
    must_cl(clEnqueueReadBuffer(d->queue, out, CL_TRUE, sizeof token, sizeof status, status, 0,
                                NULL, NULL));
    for (uint32_t row = 0; row < ROWS; row++) {
        cls_host_row h;
        cls_host_result result = {.struct_size = sizeof result};
        cls_host_row_default(&h, sizeof h);
        h.logits = all->logits[row];
        h.vocab = VOCAB;
        h.params = &p;
        h.mask = which == 1 ? all->mask[row] : NULL;
        h.mask_kind = CLS_MASK_BOOL;
        h.bias = which == 2 ? all->bias[row] : NULL;
        must(cls_host_sample(&h, &result));
        ck_assert_msg(token[row] == result.token && status[row] == result.status,
                      "%s, %d, %llu bytes, row %u: token %d, status %d, not %d, %d", d->name, which,
                      (unsigned long long)size, row, token[row], status[row], result.token,
                      result.status);
    }
    printf("%s: %s: the last row begins at element %llu of %.2f GiB\n", d->name,
           which == 0   ? "logits"
           : which == 1 ? "masks"
                        : "biases",
           (unsigned long long)(which == 1 ? size - VOCAB : size / sizeof(float) - VOCAB),
           (double)size / 1073741824.0);
    cls_sampler_destroy(sampler);
    clReleaseMemObject(far);
    clReleaseMemObject(logits);
    clReleaseMemObject(out);
}

START_TEST(far_apart)
{
    static rows all;
    rng r = {fixture_seed()};
    for (uint32_t row = 0; row < ROWS; row++) {
        row_fill(ROW_NORMAL3, all.logits[row], VOCAB, fixture_seed() + row);
        row_fill(ROW_NORMAL3, all.bias[row], VOCAB, fixture_seed() + ROWS + row);
        for (uint32_t i = 0; i < VOCAB; i++)
            all.mask[row][i] = rng_below(&r, 3) == 0;
    }
    for (int which = 0; which < 3; which++)
        sample(fixture_device(_i), &all, which);
}
END_TEST

static Suite *make(void)
{
    Suite *const s = suite_create("far");
    TCase *const t = tcase_create("far");
    tcase_set_timeout(t, 0);
    add_device_test(t, far_apart);
    suite_add_tcase(s, t);
    return s;
}

int main(int argc, char **argv)
{
    fixture_random(CLS_FEATURE_MASK | CLS_FEATURE_BIAS);
    gib_wanted = argc > 1 ? strtod(argv[1], NULL) : 0.0;
    return fixture_run(make, 1);
}
