/* SPDX-License-Identifier: MIT */
/* Proves that buffers that are pointers, of SVM or of USM, give what the same buffers give as
 * cl_mem, bit for bit and in every operand of a call; what is refused of them; and that a device
 * without such memory is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "pointers.h"
#include "split.h"
#include "verifier.h"

enum { ROWS = 6, VOCAB = 1500, TOP = 5, GIVEN = 3, KEPT = 20, SET = 40 };

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

/* ------------------------------------------------------------------------- steps */

static cls_buffer ints_of(device *d, const int32_t *ints, uint32_t n)
{
    return (cls_buffer){.buffer = buffer_of(d, n * sizeof *ints, ints)};
}

static cls_buffer words_of(device *d, uint32_t n)
{
    return (cls_buffer){.buffer = buffer_of(d, (n + 3) * sizeof(int32_t), NULL),
                        .offset = 3 * sizeof(int32_t)};
}

/* Gives a step all inputs and outputs that it can have, each in a buffer. */
static void whole_step(device *d, const batch *b, cls_step *step, cls_outputs *o)
{
    static const int32_t up[ROWS] = {0, 1, 2, 3, 4, 5}, down[ROWS] = {5, 4, 3, 2, 1, 0},
                         some[ROWS] = {1, 0, 3, -1, 4, 2}, given[ROWS * GIVEN] = {1, 2, 3, 99};
    step->slots = (cls_ints){.device = ints_of(d, down, ROWS)};
    step->positions = (cls_ints){.device = ints_of(d, some, ROWS)};
    step->draws = (cls_ints){.device = ints_of(d, up, ROWS)};
    step->logits_map = (cls_ints){.device = ints_of(d, down, ROWS)};
    step->mask.row_map = (cls_ints){.device = ints_of(d, some, ROWS)};
    step->bias.row_map = (cls_ints){.device = ints_of(d, some, ROWS)};
    *o = (cls_outputs){.struct_size = sizeof *o, .logprob_kind = CLS_LOGPROB_FINAL};
    o->latest = words_of(d, b->rows);
    o->logprobs = words_of(d, ROWS);
    o->ranks = words_of(d, ROWS);
    o->entropy = words_of(d, ROWS);
    o->kept_mass = words_of(d, ROWS);
    o->probs = words_of(d, ROWS * VOCAB);
    o->final_logits = words_of(d, ROWS * VOCAB);
    o->top.count = TOP;
    o->top.ids = words_of(d, ROWS * TOP);
    o->top.logprobs = words_of(d, ROWS * TOP);
    o->given.count = GIVEN;
    o->given.ids = ints_of(d, given, ROWS * GIVEN);
    o->given.logprobs = words_of(d, ROWS * GIVEN);
    o->given.ranks = words_of(d, ROWS * GIVEN);
    o->kept.count = KEPT;
    o->kept.ids = words_of(d, ROWS * KEPT);
    o->kept.logits = words_of(d, ROWS * KEPT);
    o->kept.probs = words_of(d, ROWS * KEPT);
    o->kept.counts = words_of(d, ROWS);
    o->kept_set.capacity = SET;
    o->kept_set.ids = words_of(d, ROWS * SET);
    o->kept_set.counts = words_of(d, ROWS);
}

/* Replaces the buffers of a step by copies; the table of its operands has them all, and those of
 * packed sets, which the step has not. */
static uint32_t move_step(pointers *p, cls_step *step, cls_outputs *outputs)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < cls_step_operands.n; i++) {
        const cls_operand *const o = &cls_step_operands.row[i];
        if ((o->kind != CLS_OPTIONAL && o->kind != CLS_REQUIRED) ||
            o->at >= offsetof(cls_plan, packed))
            continue;
        const int of_step = o->at < offsetof(cls_plan, outputs);
        cls_buffer *const b =
            of_step ? (cls_buffer *)(void *)((char *)step + o->at - offsetof(cls_plan, step))
                    : (cls_buffer *)(void *)((char *)outputs + o->at - offsetof(cls_plan, outputs));
        n += b->buffer != NULL;
        *b = pointers_to(p, *b);
    }
    step->outputs = outputs;
    return n;
}

static batch *some_batch(int dtype, rng *r)
{
    batch *const b = batch_new(ROWS, VOCAB, dtype, VOCAB + 2, 4);
    b->keep = CLS_COUNTS_ALL;
    b->forces = 1;
    batch_random(b, r);
    batch_requests(b, r);
    b->mask_kind = dtype == CLS_F32 ? CLS_MASK_PACKED : CLS_MASK_BOOL;
    batch_mask(b, r, 70, 0);
    batch_bias(b, r, dtype == CLS_F32 ? CLS_F32 : CLS_F16);
    b->random = must_calloc(ROWS, sizeof *b->random);
    for (uint32_t row = 0; row < ROWS; row++)
        b->random[row] = rng_bits(r);
    return b;
}

static void same_slots(cl_command_queue queue, cls_sampler *a, cls_sampler *b, const char *where)
{
    for (uint32_t slot = 0; slot < ROWS; slot++)
        ck_assert_msg(slots_are_same(queue, a, slot, b, slot), "%s: slot %u", where, slot);
}

/* Three steps, of which the second one has no pointers, so that arguments are set in both ways.
 * Only `latest` is always one, since it keeps what earlier steps wrote. */
static void step_with(device *d, pointers *p, int dtype)
{
    rng r = {fixture_seed() + (uint64_t)dtype};
    batch *const b = some_batch(dtype, &r);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    client s;
    char where[200];
    client_open(&s, b, d, context, 1);
    cls_sampler *const other = client_sampler(b, context);
    whole_step(d, b, &s.step, &s.outputs);
    s.step.outputs = &s.outputs;
    cls_step moved = s.step;
    cls_outputs outputs = s.outputs;
    ck_assert_uint_ge(move_step(p, &moved, &outputs), 30);
    cls_step plain = s.step;
    cls_outputs plain_outputs = s.outputs;
    plain.outputs = &plain_outputs;
    plain_outputs.latest = outputs.latest;
    for (int i = 0; i < 3; i++) {
        snprintf(where, sizeof where, "%s: %s, %s, step %d", d->name, kind_names[p->kind],
                 dtype_names[dtype], i);
        must(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL));
        must(cls_sample(other, d->queue, i == 1 ? &plain : &moved, 0, NULL, NULL));
        if (i != 1)
            pointers_equal(p, where);
        same_slots(d->queue, s.sampler, other, where);
    }
    for (uint32_t i = 0; i < p->n; i++)
        clReleaseMemObject(p->copy[i].of);
    cls_sampler_destroy(other);
    cls_sampler_destroy(s.sampler);
    batch_free(b);
}

static void step_f32(device *d, pointers *p) { step_with(d, p, CLS_F32); }
static void step_f16(device *d, pointers *p) { step_with(d, p, CLS_F16); }

START_TEST(steps)
{
    for_kinds(fixture_device(_i), step_f32);
    for_kinds(fixture_device(_i), step_f16);
}
END_TEST

/* ----------------------------------------------------------------- other calls */

/* What is verified, by a method and with drafts' distributions of any kind. */
static void verify_with(device *d, pointers *p, int method)
{
    rng r = {fixture_seed() + 100 + (uint64_t)method};
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    drafts *const of = drafts_random(4, 300, method, &r);
    verifier v, other;
    char where[200];
    verifier_open(&v, d, context, of, 1, 1);
    verifier_open(&other, d, context, of, 1, 1);
    drafts_choose(of, &r);
    snprintf(where, sizeof where, "%s: %s, method %d", d->name, kind_names[p->kind], method);
    cls_buffer *const outputs[] = {&other.call.tokens, &other.call.accepted, &other.call.emitted,
                                   &other.call.nodes,  &other.call.status,   &other.call.counters,
                                   &other.call.latest};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        *outputs[i] = pointers_to(p, *outputs[i]);
    verifier_run(&v);
    cls_verify_call call = v.call;
    call.logits.values = pointers_to(p, call.logits.values);
    call.draft = pointers_to(p, call.draft);
    call.draft_ids.device = pointers_to(p, call.draft_ids.device);
    call.mask.words = pointers_to(p, call.mask.words);
    call.bias.values = pointers_to(p, call.bias.values);
    call.tokens = other.call.tokens;
    call.accepted = other.call.accepted;
    call.emitted = other.call.emitted;
    call.nodes = other.call.nodes;
    call.status = other.call.status;
    call.counters = other.call.counters;
    call.latest = other.call.latest;
    must(cls_verify(other.sampler, d->queue, &call, 0, NULL, NULL));
    const cl_mem own = p->copy[0].of;
    p->copy[0].of = v.output; /* their results are compared */
    pointers_equal(p, where);
    p->copy[0].of = own;
    for (uint32_t i = 0; i < of->n; i++)
        ck_assert_msg(slots_are_same(d->queue, v.sampler, (uint32_t)of->slots[i], other.sampler,
                                     (uint32_t)of->slots[i]),
                      "%s: request %u", where, i);
    verifier_close(&v);
    verifier_close(&other);
    drafts_free(of);
}

static void verify_match(device *d, pointers *p) { verify_with(d, p, CLS_VERIFY_MATCH); }
static void verify_standard(device *d, pointers *p) { verify_with(d, p, CLS_VERIFY_STANDARD); }
static void verify_block(device *d, pointers *p) { verify_with(d, p, CLS_VERIFY_BLOCK); }

START_TEST(verifications)
{
    for_kinds(fixture_device(_i), verify_match);
    for_kinds(fixture_device(_i), verify_standard);
    for_kinds(fixture_device(_i), verify_block);
}
END_TEST

static void accept_with(device *d, pointers *p)
{
    static const int32_t ids[ROWS * 2] = {7, 8, 9, -1, 5, 4, 3, 2, 1, 0, 11, 12},
                                    slots[ROWS] = {3, 1, 0, -1, 5, 4};
    rng r = {fixture_seed()};
    batch *const b = some_batch(CLS_F32, &r);
    cls_context *const context = fixture_context(d, 0, 0, 0, 0);
    cls_sampler *const one = client_sampler(b, context), *const other = client_sampler(b, context);
    const cls_ints by_buffer = {.device = ints_of(d, ids, ROWS * 2)},
                   map = {.device = ints_of(d, slots, ROWS)};
    const cls_ints by_pointer = {.device = pointers_to(p, by_buffer.device)},
                   map_by_pointer = {.device = pointers_to(p, map.device)};
    must(accept_ints(one, d->queue, ROWS, 2, &by_buffer, &map, 0, NULL, NULL));
    must(accept_ints(other, d->queue, ROWS, 2, &by_pointer, &map_by_pointer, 0, NULL, NULL));
    same_slots(d->queue, one, other, d->name);
    cls_sampler_destroy(one);
    cls_sampler_destroy(other);
    release_buffers(by_buffer.device.buffer, map.device.buffer);
    batch_free(b);
}

static void logprobs_with(device *d, pointers *p)
{
    rng r = {fixture_seed()};
    batch *const b = some_batch(CLS_F32, &r);
    cls_sampler *const sampler = client_sampler(b, fixture_context(d, 0, 0, 0, 0));
    cls_logprobs_call call;
    cls_logprobs_call_init(&call);
    call.rows = ROWS;
    call.logits.values.buffer = buffer_of(d, b->data_size, b->data);
    call.logits.values.offset = b->offset;
    call.logits.row_stride = b->stride;
    call.top.count = TOP;
    call.top.ids = words_of(d, ROWS * TOP);
    call.top.logprobs = words_of(d, ROWS * TOP);
    cls_logprobs_call moved = call;
    moved.logits.values = pointers_to(p, call.logits.values);
    moved.top.ids = pointers_to(p, call.top.ids);
    moved.top.logprobs = pointers_to(p, call.top.logprobs);
    must(cls_logprobs(sampler, d->queue, &call, 0, NULL, NULL));
    must(cls_logprobs(sampler, d->queue, &moved, 0, NULL, NULL));
    pointers_equal(p, d->name);
    release_buffers(call.logits.values.buffer, call.top.ids.buffer, call.top.logprobs.buffer);
    cls_sampler_destroy(sampler);
    batch_free(b);
}

/* A shard reads its logits by kernels, or to the host if whole rows are exchanged. */
static void shards_with(device *d, pointers *p)
{
    rng r = {fixture_seed()};
    batch *const b = some_batch(CLS_F32, &r);
    cls_context *const contexts[2] = {fixture_context(d, 0, 0, 0, 0),
                                      fixture_context(d, 0, 0, 0, 0)};
    client s;
    splits split;
    free(b->random);
    b->random = NULL;
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
    for_kinds(fixture_device(_i), accept_with);
    for_kinds(fixture_device(_i), logprobs_with);
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
    add_device_test(steps);
    add_device_test(verifications);
    add_device_test(other_calls);
    add_device_test(bad_arguments);
    add_device_test(missing);
    add_test(wide);
    const int status = fixture_end();
    printf("%u comparisons\n", compared);
    return status;
}
