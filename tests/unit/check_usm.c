/* SPDX-License-Identifier: MIT */
/* Proves that kernels get pointers of USM by Intel's functions, which are looked up for them only,
 * that readbacks and gathers copy by them, and what a device without them gets. The OpenCL is a
 * stub, which computes nothing (stub_cl.h); check_pointers compares results where a device has
 * USM. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "sampler/sampler.h"
#include "stub_cl.h"

enum { VOCAB = 100, ROWS = 2, STRIDE = VOCAB + 4 };

static _Alignas(16) float logits[ROWS * STRIDE];
static _Alignas(16) int32_t tokens[4];

static cls_buffer usm(void *pointer, size_t size)
{
    return (cls_buffer){.pointer = pointer, .size = size, .kind = CLS_BUFFER_USM};
}

static cls_sampler *open_sampler(device *d)
{
    cls_sampler *sampler;
    const cls_sampler_options o = sampler_options(VOCAB, ROWS);
    const cls_params p = default_params();
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
    for (uint32_t slot = 0; slot < ROWS; slot++)
        must(cls_slot_begin(sampler, slot, &p, NULL));
    return sampler;
}

static cls_step pointer_step(void)
{
    cls_step step = default_step(ROWS, NULL);
    step.logits.values = usm(logits, sizeof logits);
    step.tokens = usm(tokens, sizeof tokens);
    return step;
}

static uint32_t surveys, draws; /* launches that got the pointers */

static int has(cl_kernel k, const void *pointer)
{
    for (int i = 0; i < STUB_ARGUMENTS; i++)
        if (k->argument[i].pointer == pointer)
            return (int)(k->pointers >> i & 1u);
    return 0;
}

static void spy(cl_kernel k)
{
    surveys += strcmp(k->name, "cls_survey") == 0 && has(k, logits);
    draws += strcmp(k->name, "cls_token") == 0 && has(k, logits) && has(k, tokens);
}

START_TEST(arguments)
{
    device *const d = fixture_device(_i);
    cls_sampler *const sampler = open_sampler(d);
    cls_step step = pointer_step();
    stub_usm = 1;
    stub_spy = spy;
    must(cls_sample(sampler, d->queue, &step, 0, NULL, NULL));
    ck_assert_uint_eq(surveys, 1);
    ck_assert_uint_eq(draws, 1);
    /* The next step has no pointers, and its kernels none of the earlier ones. */
    const cl_mem buffer = buffer_of(d, sizeof logits, NULL);
    step = default_step(ROWS, buffer);
    must(cls_sample(sampler, d->queue, &step, 0, NULL, NULL));
    ck_assert_uint_eq(surveys, 1);
    ck_assert_uint_eq(draws, 1);
    stub_spy = NULL;
    must_cl(clFinish(d->queue));
    clReleaseMemObject(buffer);
    cls_sampler_destroy(sampler);
}
END_TEST

START_TEST(refused)
{
    device *const d = fixture_device(_i);
    cls_sampler *const sampler = open_sampler(d);
    cls_step step = pointer_step();
#define REFUSED(status, words) \
    must_fail(cls_sample(sampler, d->queue, &step, 0, NULL, NULL), status, words)
    stub_usm = 0;
    REFUSED(CLS_UNSUPPORTED_DEVICE,
            "step->logits.values is a pointer of USM, which the device does not have: it has no "
            "CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL");
    stub_usm = 1;
    stub_missing = "clSetKernelArgMemPointerINTEL";
    REFUSED(CLS_UNSUPPORTED_DEVICE,
            "but this OpenCL has no function clSetKernelArgMemPointerINTEL");
    stub_missing = "clEnqueueMemcpyINTEL";
    REFUSED(CLS_UNSUPPORTED_DEVICE, "but this OpenCL has no function clEnqueueMemcpyINTEL");
    stub_missing = NULL;
    /* The stub is a library of OpenCL 1.2, which was linked all the same. */
    step.logits.values.kind = CLS_BUFFER_SVM;
    stub_svm = 1;
    REFUSED(CLS_UNSUPPORTED_DEVICE, "but this OpenCL has no function clSetKernelArgSVMPointer");
    stub_svm = 0;
    REFUSED(CLS_UNSUPPORTED_DEVICE, "it has no CL_DEVICE_SVM_CAPABILITIES");
    step.logits.values.kind = CLS_BUFFER_USM;
    stub_set_code = CL_INVALID_ARG_VALUE;
    REFUSED(CLS_LOST, "cannot enqueue the step"); /* the slots' beginnings were enqueued */
    stub_set_code = CL_SUCCESS;
    cls_sampler_destroy(sampler);
}
END_TEST

START_TEST(reads)
{
    static _Alignas(16) const int32_t words[4] = {5, 6, 7, 8};
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cls_readback *readback;
    cls_buffer from = usm((void *)(uintptr_t)words, 12);
    uint64_t ticket;
    const void *data;
    stub_usm = 1;
    from.offset = 4;
    must(cls_readback_create(context, 16, 1, &readback));
    must(cls_readback_start(readback, d->queue, &from, 12, 0, NULL, &ticket));
    must(cls_readback_get(readback, ticket, 1, &data));
    ck_assert_mem_eq(data, words + 1, 12);
    must_refuse(cls_readback_start(readback, d->queue, &from, 13, 0, NULL, &ticket),
                "from needs 13 bytes, and its size is 12");
    cls_readback_destroy(readback);
}
END_TEST

/* Rows are read one after another, the later ones after the earlier ones. */
START_TEST(gathered)
{
    device *const d = fixture_device(_i);
    cls_sampler *const sampler = open_sampler(d);
    cls_shard_options o;
    cls_shard *shard;
    cls_logits whole;
    cls_logits from = {.values = usm(logits, sizeof logits), .row_stride = STRIDE};
    stub_usm = 1;
    for (uint32_t i = 0; i < ROWS * STRIDE; i++)
        logits[i] = (float)i;
    cls_shard_options_init(&o);
    must(cls_shard_create(sampler, &o, &shard));
    must(cls_shard_gather(shard, d->queue, ROWS, &from, 0, NULL));
    must(cls_shard_merge_all(&shard, 1, NULL));
    must(cls_shard_logits(shard, &whole));
    must_cl(clFinish(d->queue));
    const unsigned char *const got = stub_memory(whole.values.buffer);
    for (uint32_t row = 0; row < ROWS; row++)
        ck_assert_mem_eq(got + whole.values.offset + row * whole.row_stride * sizeof(float),
                         logits + row * STRIDE, VOCAB * sizeof(float));
    cls_shard_destroy(shard);
    cls_sampler_destroy(sampler);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    cls_test_proofs_compare_nothing = 1; /* this OpenCL computes nothing */
    fixture_begin(ON_DEVICES);
    add_device_test(arguments);
    add_device_test(refused);
    add_device_test(reads);
    add_device_test(gathered);
    return fixture_end();
}
