/* SPDX-License-Identifier: MIT */
/* Proves that buffers that are pointers, of SVM or of USM, give what the same buffers give as
 * cl_mem, in calls that no text has: of shards, of read-backs and of the LM head; what is refused
 * of them; and that a device without such memory is named. Texts run with pointers on the side svm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "pointers.h"
#include "split.h"

enum { ROWS = 6, VOCAB = 1500 };

static const int32_t kinds[] = {CLS_BUFFER_SVM, CLS_BUFFER_USM};
static const char *const kind_names[] = {[CLS_BUFFER_SVM] = "SVM", [CLS_BUFFER_USM] = "USM"};
static uint32_t compared; /* tests that had such memory */

/* Runs a test for each kind of pointers that the device has. */
static void for_kinds(device *d, void (*test)(device *d, pointers *p))
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pointers p;
        if (!pointers_open(&p, d, kinds[i]))
            continue;
        test(d, &p);
        pointers_close(&p);
        compared++;
    }
}

static cls_buffer ints_of(device *d, const int32_t *ints, uint32_t n)
{
    return (cls_buffer){.buffer = buffer_of(d, n * sizeof *ints, ints)};
}

/* A shard reads its logits by kernels, or to the host if whole rows are exchanged. */
static void shards_with(device *d, pointers *p)
{
    rng r = {fixture_seed()};
    batch *const b = batch_new(ROWS, VOCAB, CLS_F32, VOCAB + 2, 4);
    for (uint32_t row = 0; row < ROWS; row++) {
        batch_row(b, row, row % 2 ? ROW_LANGUAGE : ROW_NORMAL3, rng_bits(&r));
        batch_kind(b, row, rng_below(&r, PARAMS_HISTORY));
    }
    cls_context *const contexts[2] = {fixture_context(d, 0, 0, 0, 0),
                                      fixture_context(d, 0, 0, 0, 0)};
    client s;
    splits split;
    client_open(&s, b, d, contexts[0], 1);
    split_open(&split, &s, contexts, 2, NULL);
    for (int whole = 0; whole < 2; whole++) {
        client_step(&s, d->queue, 0, 0, NULL, NULL);
        client_tokens(&s, 0);
        for (uint32_t i = 0; i < 2; i++) {
            cls_step *const step = &split.step[i];
            cls_sampler_force_search(split.sampler[i], whole);
            if (whole == 0) {
                step->logits.values = pointers_to(p, step->logits.values);
                step->tokens = pointers_to(p, step->tokens);
                step->status = pointers_to(p, step->status);
            }
        }
        split_step(&split);
        ck_assert_uint_ge(split.exchanges, 1);
        for (uint32_t i = 0; i < 2; i++) {
            int32_t got[ROWS], status[ROWS];
            must_cl(p->calls.copy(d->queue, CL_TRUE, got, split.step[i].tokens.pointer, sizeof got,
                                  0, NULL, NULL));
            must_cl(p->calls.copy(d->queue, CL_TRUE, status, split.step[i].status.pointer,
                                  sizeof status, 0, NULL, NULL));
            for (uint32_t row = 0; row < ROWS; row++)
                ck_assert_msg(got[row] == b->token[row] && status[row] == b->status[row],
                              "%s: %s, shard %u: %s: token %d, status %d, not %d, %d", d->name,
                              whole ? "whole rows" : "partials", i, batch_words(b, row), got[row],
                              status[row], b->token[row], b->status[row]);
        }
    }
    for (uint32_t i = 0; i < p->n; i++)
        clReleaseMemObject(p->copy[i].of);
    split_close(&split);
    client_close(&s);
    batch_free(b);
}

static void readback_with(device *d, pointers *p)
{
    static const int32_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const cls_buffer mem = ints_of(d, words, 8);
    cls_buffer from = pointers_to(p, mem);
    cls_readback *readback;
    uint64_t ticket;
    const void *data;
    must(cls_readback_create(fixture_context(d, 0, 0, 0, 0), 16, 2, &readback));
    from.offset = 8;
    from.size -= 8;
    must(cls_readback_start(readback, d->queue, &from, 16, 0, NULL, &ticket));
    must(cls_readback_get(readback, ticket, 1, &data));
    ck_assert_mem_eq(data, words + 2, 16);
    from.size = 15;
    must_refuse_exactly(cls_readback_start(readback, d->queue, &from, 16, 0, NULL, &ticket),
                        "from needs 16 bytes, and its size is 15");
    cls_readback_destroy(readback);
    clReleaseMemObject(mem.buffer);
}

static void head_with(device *d, pointers *p)
{
    const layer_product products[] = {LAYER_F16, LAYER_F32};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        rng r = {fixture_seed() + i};
        const layer_setup w = {products[i], 300, 40, 5, 4, 0, 1, 1, 0, 0};
        layer l;
        layer_open(&l, d, &w, &r);
        cls_head *const by_buffers = l.head;
        cls_head_options o = l.options;
        cls_head_call call = l.call;
        o.weight = pointers_to(p, o.weight);
        o.bias = pointers_to(p, o.bias);
        call.hidden = pointers_to(p, call.hidden);
        call.which.device = pointers_to(p, call.which.device);
        call.logits = pointers_to(p, call.logits);
        layer_run(&l, d->queue);
        layer_check(&l, kind_names[p->kind]);
        must(cls_head_create(d->queue, &o, &l.head));
        must(cls_head_logits(l.head, d->queue, &call, 0, NULL, NULL));
        /* Rows beyond call.rows are undefined. */
        const size_t size = (LAYER_MARGIN + (size_t)4 * 300) * sizeof(float);
        float *const got = must_malloc(size);
        pointers_read(p, l.logits_buffer, size, got);
        layer_read(&l);
        ck_assert_mem_eq(got, l.logits, size);
        call.hidden.size = 3;
        must_refuse(cls_head_logits(l.head, d->queue, &call, 0, NULL, NULL), "call->hidden needs");
        cls_head_destroy(l.head);
        l.head = by_buffers;
        free(got);
        layer_close(&l);
    }
}

START_TEST(other_calls)
{
    for_kinds(fixture_device(_i), shards_with);
    for_kinds(fixture_device(_i), readback_with);
    for_kinds(fixture_device(_i), head_with);
}
END_TEST

/* --------------------------------------------------------------------- refusals */

#define REFUSE(field, value, sentence) \
    must_refuse_with(s.step, field, value, \
                     cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), sentence)

static void refusals(device *d, pointers *p)
{
    client s = small_client(d, 4);
    const cls_step before = s.step;
    static int32_t ids[4];
    cls_buffer *const field = &s.step.tokens;
    *field = pointers_to(p, s.step.tokens);
    s.step.status = pointers_to(p, s.step.status);
    s.step.logits.values = pointers_to(p, s.step.logits.values);
    char *const at = field->pointer;
    REFUSE(tokens.size, 0, "step->tokens.size is 0");
    REFUSE(tokens.size, 15, "step->tokens needs 16 bytes, and its size is 15");
    REFUSE(tokens.size, UINT64_MAX, "bytes from offset 0 on are beyond the last address");
    REFUSE(tokens.offset, UINT64_MAX - 3, "are beyond the last address");
    REFUSE(tokens.offset, 2, "step->tokens: offset 2 is no multiple of the element's 4 bytes");
    REFUSE(tokens.pointer, NULL, "step->tokens.pointer is NULL, but step->tokens.kind is");
    REFUSE(tokens.pointer, at + 4, "step->tokens.pointer is no multiple of 16 bytes");
    REFUSE(tokens.buffer, before.tokens.buffer, "step->tokens.buffer is set, but");
    REFUSE(tokens.kind, CLS_BUFFER_MEM, "step->tokens.pointer is set, but step->tokens.kind is 0");
    REFUSE(tokens.kind, 4, "step->tokens.kind is 4, which is not a cls_buffer_kind");
    REFUSE(tokens.kind, -1, "step->tokens.kind is -1, which is not a cls_buffer_kind");
    REFUSE(tokens.reserved, 1, "step->tokens.reserved is 1");
    REFUSE(tokens.pointer, s.step.status.pointer, "step->tokens, bytes");
    REFUSE(slots.host, ids, "");
    s.step.slots.device = *field;
    REFUSE(slots.host, ids, "step->slots has a host array and a buffer");
    s.step.slots.host = NULL;
    REFUSE(rows, 4, "step->slots, bytes");
    s.step.slots = before.slots;
    /* None of these calls has changed anything. */
    must(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL));
    int32_t got[4];
    pointers_read(p, before.tokens.buffer, sizeof got, got);
    s.step = before;
    batch_reference(s.b);
    for (uint32_t row = 0; row < 4; row++)
        ck_assert_int_eq(got[row], s.b->host[row].token);
    close_small(&s);
}

START_TEST(bad_arguments) { for_kinds(fixture_device(_i), refusals); }
END_TEST

/* A device without such memory is named, also where the pointer is of no such memory. */
START_TEST(missing)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 4);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        static _Alignas(16) int32_t memory[4];
        const cls_buffer before = s.step.tokens;
        pointers p;
        if (pointers_open(&p, d, kinds[i]))
            continue;
        s.step.tokens = (cls_buffer){.pointer = memory, .size = 16, .kind = kinds[i]};
        must_fail(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), CLS_UNSUPPORTED_DEVICE,
                  kind_names[kinds[i]]);
        must_say("step->tokens is a pointer of");
        s.step.tokens = before;
    }
    close_small(&s);
}
END_TEST

/* Kernels read several logits at once only from where this says so. */
START_TEST(wide)
{
    static _Alignas(16) float x[16];
    for (uint64_t offset = 0; offset < 32; offset += 4) {
        const cls_buffer b = {.pointer = x, .offset = offset, .size = 16, .kind = CLS_BUFFER_SVM};
        ck_assert_int_eq(cls_buffer_is_wide(&b, NULL), offset % 16 == 0);
    }
}
END_TEST

int main(void)
{
    fixture_random(CLS_FEATURES_ALL);
    fixture_begin(ON_DEVICES);
    add_device_test(other_calls);
    add_device_test(bad_arguments);
    add_device_test(missing);
    add_test(wide);
    const int status = fixture_end();
    printf("%u comparisons\n", compared);
    return status;
}
