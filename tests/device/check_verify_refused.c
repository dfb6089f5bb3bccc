/* SPDX-License-Identifier: MIT */
/* Proves that cls_verify() refuses bad arguments with a sentence that names them and changes
 * nothing. */
#include <math.h>
#include <string.h>

#include "verifier.h"

/* One field has another value. */
#define REFUSE(field, value, name) \
    must_refuse_with(v->call, field, value, \
                     cls_verify(v->sampler, v->d->queue, &v->call, 0, NULL, NULL), name)

/* Two requests of two drafts, with a distribution. */
static drafts *two(void)
{
    static const uint32_t lengths[] = {2, 2};
    rng r = {3};
    drafts *const d = drafts_new(2, lengths, 50, CLS_F32, CLS_DRAFT_PROBS, &r);
    d->method = CLS_VERIFY_STANDARD;
    for (uint32_t row = 0; row < 6; row++)
        batch_row(d->rows, row, ROW_NORMAL1, row);
    for (uint32_t i = 0; i < 2; i++)
        batch_row(d->requests, i, ROW_NORMAL1, i);
    for (uint32_t k = 0; k < 4; k++) {
        float q[50] = {0.0f};
        q[d->ids[k] = (int32_t)k * 7] = 1.0f;
        drafts_values(d->q, k, q);
    }
    return d;
}

static void refuse_shapes(verifier *v)
{
    const int32_t from_one[] = {1, 3, 6}, not_ascending[] = {0, 3, 3}, falling[] = {0, 3, 2},
                  long_one[] = {0, 3, 133}, many[] = {0, 3, 7};
    cls_outputs outputs;
    cls_outputs_init(&outputs);
    REFUSE(struct_size, 0, "struct_size");
    REFUSE(requests, 0, "requests");
    REFUSE(requests, 7, "requests");
    REFUSE(row_offsets, NULL, "row_offsets");
    REFUSE(row_offsets, from_one, "row_offsets[0]");
    REFUSE(row_offsets, not_ascending, "row_offsets[2]");
    REFUSE(row_offsets, falling, "row_offsets[2]");
    REFUSE(row_offsets, long_one, "129");
    REFUSE(row_offsets, many, "7 rows");
    REFUSE(max_drafts, 1, "max_drafts");
    REFUSE(max_drafts, 129, "max_drafts");
    REFUSE(method, -1, "method");
    REFUSE(method, 5, "method");
    REFUSE(method, 4, "use CLS_VERIFY_MATCH, and the temperature 0");
    REFUSE(draft_kind, 3, "draft_kind");
    REFUSE(draft_kind, -1, "draft_kind");
    REFUSE(disable_bonus, -1, "call->disable_bonus is -1; it must be 0 or 1");
    REFUSE(draft_kind, CLS_DRAFT_NONE, "draft");
    REFUSE(draft_stride, 49, "draft_stride");
    REFUSE(draft_request_stride, 49, "call->draft_request_stride is 49");
    REFUSE(nodes.kind, 1, "call->nodes.kind is 1");
    REFUSE(slots.device.pointer, &outputs, "call->slots.pointer is set");
    REFUSE(epsilon, 0.0f, "epsilon");
    REFUSE(epsilon, 1.5f, "epsilon");
    REFUSE(epsilon, NAN, "epsilon");
    REFUSE(delta, 0.0f, "delta");
    REFUSE(delta, 17.0f, "delta");
    REFUSE(delta, INFINITY, "delta");
}

/* Strides with which the drafts of two requests, two each, do not fit exactly where they lie: four
 * ids, and four rows of 50 probabilities. Others fit, or nothing can. */
static void refuse_strides(verifier *v)
{
    cls_verify_call *const call = &v->call;
    const cls_verify_call good = *call;
    const uint64_t stride = good.draft_stride;
    REFUSE(ids_stride, 2, "call->draft_ids");
    REFUSE(ids_stride, UINT64_MAX, "call->draft_ids");
    REFUSE(ids_request_stride, 3, "call->draft_ids");
    REFUSE(ids_request_stride, UINT64_MAX, "call->draft_ids");
    REFUSE(draft_stride, stride + 4, "call->draft needs");
    REFUSE(draft_stride, UINT64_MAX / 3, "call->draft needs");
    REFUSE(draft_request_stride, 49, "call->draft_request_stride is 49");
    REFUSE(draft_request_stride, 2 * stride + 10, "call->draft needs");
    REFUSE(draft_request_stride, UINT64_MAX, "call->draft needs");
    call->ids_request_stride = 1;
    REFUSE(ids_stride, 3, "call->draft_ids");
    call->ids_request_stride = 2;
    REFUSE(ids_stride, 2, "call->draft_ids");
    call->draft_request_stride = stride;
    REFUSE(draft_stride, 2 * stride + 10, "call->draft needs");
    call->draft_kind = CLS_DRAFT_LOGITS;
    REFUSE(draft_stride, UINT64_C(1) << 40 | 1, "larger common divisor");
    call->draft_stride = UINT64_C(3) << 62;
    REFUSE(draft_request_stride, UINT64_C(1) << 63, "call->draft needs");
    *call = good;
    call->draft_ids = (cls_ints){.host = v->of->ids};
    REFUSE(ids_stride, UINT64_MAX, "call->draft_ids: its ids on the host");
    *call = good;
}

/* An output has another value. */
#define REFUSE_OUTPUT(field, value, name) \
    must_refuse_with(outputs, field, value, \
                     cls_verify(v->sampler, v->d->queue, &v->call, 0, NULL, NULL), name)

static void refuse_outputs(verifier *v, cl_mem small)
{
    const cls_buffer small_one = {.buffer = small},
                     enough = {.buffer = v->call.logits.values.buffer};
    cls_outputs outputs;
    cls_outputs_init(&outputs);
    v->call.outputs = &outputs;
    REFUSE_OUTPUT(struct_size, 0, "outputs->struct_size");
    REFUSE_OUTPUT(probs, enough, "outputs->probs is set, but cls_verify() has no such output");
    REFUSE_OUTPUT(final_logits, enough,
                  "outputs->final_logits is set, but cls_verify() has no such output");
    REFUSE_OUTPUT(kept_set.offsets, enough,
                  "outputs->kept_set.offsets is set, but outputs->kept_set.capacity is 0");
    const cls_kept_set larger = {.capacity = 1000000, .offsets = enough},
                       longer = {.capacity = 1, .offsets = small_one};
    REFUSE_OUTPUT(kept_set, larger, "outputs->kept_set.capacity is 1000000; it must be at most");
    REFUSE_OUTPUT(kept_set, longer, "outputs->kept_set.offsets needs");
    REFUSE_OUTPUT(latest, enough,
                  "outputs->latest is set, but cls_verify() has no such output: use call->latest");
    REFUSE_OUTPUT(logprob_kind, 2, "outputs->logprob_kind is 2");
    REFUSE_OUTPUT(logprobs, small_one, "outputs->logprobs");
    REFUSE_OUTPUT(entropy, small_one, "outputs->entropy");
    REFUSE_OUTPUT(ranks, v->call.tokens, "outputs->ranks");
    REFUSE_OUTPUT(top.count, 2, "outputs->top.count is 2, but no buffer for it is set");
    REFUSE_OUTPUT(given.count, 2,
                  "outputs->given.count is 2, but outputs->given.ids.buffer is NULL");
    REFUSE_OUTPUT(given.ids, enough, "outputs->given.ids is set, but outputs->given.count is 0");
    REFUSE_OUTPUT(kept_set.capacity, 51, "outputs->kept_set.capacity is 51");
    REFUSE_OUTPUT(kept.reserved[4], 1, "outputs->kept.reserved");
    outputs.logprobs = (cls_buffer){.buffer = v->output, .offset = v->call.tokens.offset};
    REFUSE_OUTPUT(reserved, 0, "overlap");
    v->call.outputs = NULL;
    REFUSE(token_status, small_one, "call->token_status");
    REFUSE(token_status, v->call.nodes, "overlap");
}

static void refuse_inputs(verifier *v, cl_mem small)
{
    const int32_t twice[] = {1, 1}, outside[] = {0, 4}, not_begun[] = {0, 3}, negative[] = {0, -2},
                  draws[] = {0, 1 << 24}, rows[] = {0, 1, 2, 3, 4, 1};
    const cls_buffer small_one = {.buffer = small},
                     odd = {.buffer = v->call.draft.buffer, .offset = 2};
    const uint32_t masks[2 * 6] = {0};
    REFUSE(slots.host, twice, "slots");
    REFUSE(slots.host, outside, "slots");
    REFUSE(slots.host, not_begun, "slots");
    REFUSE(slots.host, negative, "slots");
    REFUSE(draws.host, draws, "draws");
    REFUSE(slots.device, small_one, "call->slots is a buffer");
    REFUSE(positions.device, small_one, "call->positions is a buffer");
    REFUSE(draws.device, small_one, "call->draws is a buffer");
    REFUSE(parents.device, small_one, "call->parents is a buffer");
    REFUSE(draft_ids.host, NULL, "draft_ids");
    REFUSE(draft_ids.device, small_one, "draft_ids");
    REFUSE(draft.buffer, NULL, "draft");
    REFUSE(draft, small_one, "draft");
    REFUSE(draft, odd, "draft");
    REFUSE(logits.values.buffer, NULL, "logits");
    REFUSE(logits.values.buffer, small, "logits");
    REFUSE(logits.dtype, 3, "dtype");
    REFUSE(logits.dtype, CLS_F16, "dtype");
    REFUSE(logits.row_stride, 49, "row_stride");
    REFUSE(mask.host, masks, "mask"); /* beside words */
    v->call.mask.words.buffer = NULL;
    REFUSE(mask.row_map.host, rows, "mask");
    v->call.mask.host = masks;
    v->call.mask.rows = 4;
    REFUSE(mask.rows, 5, "mask"); /* fewer than rows, and no map */
    REFUSE(mask.row_map.host, rows, "row_map");
    v->call.mask.row_map.host = rows;
    v->call.mask.rows = 5;
    REFUSE(mask.kind, 2, "kind");
    REFUSE(mask.row_stride, 1, "row_stride");
    REFUSE(bias.values, small_one, "bias");
}

START_TEST(refused)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    const int32_t parents[] = {-1, 0, -1, 0}, later[] = {-1, 0, -1, 1}, below[] = {-1, -2, -1, 0};
    const cl_mem small = buffer_of(d, 4, NULL);
    const cls_buffer small_one = {.buffer = small};
    drafts *const of = two();
    verifier all, *const v = &all;
    batch_mask(of->rows, &(rng){1}, 100, 0);
    of->rows->mask_map = NULL;
    verifier_open(v, d, context, of, 1, 0);
    drafts_reference(of);
    verifier_run(v); /* it is right ... */
    verifier_equal(v, d->name);
    refuse_strides(v);
    clReleaseMemObject(v->call.draft_ids.device.buffer);
    v->call.draft_ids.device.buffer = NULL;
    v->call.draft_ids.host = of->ids;

    must_refuse(cls_verify(NULL, d->queue, &v->call, 0, NULL, NULL), "sampler");
    must_refuse(cls_verify(v->sampler, NULL, &v->call, 0, NULL, NULL), "queue");
    must_refuse(cls_verify(v->sampler, d->queue, NULL, 0, NULL, NULL), "call");
    must_refuse(cls_verify(v->sampler, d->queue, &v->call, 1, NULL, NULL), "wait");
    refuse_shapes(v);
    refuse_outputs(v, small);
    REFUSE(parents.host, parents, "parents"); /* standard takes no trees */
    v->call.method = CLS_VERIFY_BLOCK;
    REFUSE(parents.host, parents, "parents");
    v->call.method = CLS_VERIFY_TYPICAL;
    REFUSE(parents.host, parents, "parents");
    v->call.method = CLS_VERIFY_MATCH;
    REFUSE(parents.host, later, "parents");
    REFUSE(parents.host, below, "parents");
    v->call.method = CLS_VERIFY_STANDARD;
    REFUSE(tokens, small_one, "tokens");
    REFUSE(accepted, small_one, "accepted");
    REFUSE(emitted, small_one, "emitted");
    REFUSE(nodes, small_one, "nodes");
    REFUSE(status, small_one, "status");
    REFUSE(counters, small_one, "counters");
    const cl_mem masks = v->call.mask.words.buffer;
    refuse_inputs(v, small);
    v->call.mask =
        (cls_mask){.words = {.buffer = masks, .offset = 0}, .width = of->rows->mask_width};

    drafts_accept(of); /* ... and is again, after what it gave first */
    drafts_reference(of);
    verifier_run(v);
    verifier_equal(v, d->name);
    drafts_accept(of);
    verifier_step(v, d->name);
    verifier_close(v);
    drafts_free(of);
    clReleaseMemObject(small);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    fixture_begin(ON_DEVICES);
    add_device_test(refused);
    return fixture_end();
}
