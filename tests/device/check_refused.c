/* SPDX-License-Identifier: MIT */
/* Proves that every function that takes a device refuses bad arguments, names the argument and
 * changes nothing. */
#include <math.h>
#include <string.h>

#include "client.h"
#include "step/step.h"

/* Finds as many functions as it is told, which are none. */
static void *find_some(void *user, const char *name)
{
    int *const left = user;
    (void)name;
    return (*left)-- > 0 ? user : NULL;
}

START_TEST(contexts_refused)
{
    device *const d = fixture_device(_i);
    cls_device_info info = {.struct_size = sizeof info};
    cls_context *context = (cls_context *)&info;
    must_refuse(cls_context_create(NULL, d->id, NULL, &context), "context");
    ck_assert(context == NULL);
    must_refuse(cls_context_create(d->context, NULL, NULL, &context), "device");
    must_refuse(cls_context_create(d->context, d->id, NULL, NULL), "out");
    cls_context_options o = default_context_options();
#define REFUSE(field, value) \
    must_refuse_with(o, field, value, cls_context_create(d->context, d->id, &o, &context), #field)
    REFUSE(struct_size, 0);
    REFUSE(dtypes, 8);
    REFUSE(vector, 3);
    REFUSE(vector, 32);
    REFUSE(shortlist, 8);
    REFUSE(shortlist, 17);
    REFUSE(shortlist, 4096);
    REFUSE(cache_always, 2);
    REFUSE(build_log_stays, -1);
#undef REFUSE
    must_refuse(cls_device_query(NULL, NULL, &info), "device");
    must_refuse(cls_device_query(d->id, NULL, NULL), "info");
    o.vector = 5;
    must_refuse(cls_device_query(d->id, &o, &info), "vector");
    o.vector = 0;
    o.work_group = 1u << 30;
    ck_assert(cls_device_query(d->id, &o, &info) != CLS_OK);
    ck_assert(strstr(cls_error_message(), "work_group") != NULL ||
              strstr(cls_error_message(), "work-group") != NULL);
    must_refuse(cls_context_info(NULL, &info), "context");
    o = default_context_options();
    int left = 3;
    o.find_opencl = find_some;
    o.find_opencl_user = &left;
    must_fail(cls_context_create(d->context, d->id, &o, &context), CLS_UNSUPPORTED_DEVICE,
              "this OpenCL has no function clCreateContext, which is of version 1.2");
    left = 1000;
    must_refuse_exactly(cls_device_query(d->id, &o, &info),
                        "options->find_opencl finds another OpenCL than the one that this "
                        "process's first context found");
    must_refuse(cls_context_info(fixture_context(d, 1u << CLS_F32, 0, 0, 0), NULL), "info");
    info.struct_size = 0;
    must_refuse(cls_context_info(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &info), "struct_size");
    ck_assert(cls_context_build_log(fixture_context(d, 1u << CLS_F32, 0, 0, 0)) != NULL);
    cls_context_destroy(NULL);
    cls_sampler_destroy(NULL);
}
END_TEST

START_TEST(samplers_and_slots_refused)
{
    cls_context *const context = fixture_context(fixture_device(_i), 1u << CLS_F32, 0, 0, 0);
    cls_sampler_options o;
    cls_sampler *sampler;
    cls_params p;
    cls_sampler_options_init(&o);
    must_refuse(cls_sampler_create(context, &o, &sampler), "vocab"); /* it has no default */
    ck_assert(sampler == NULL);
    o.vocab = 100;
#define REFUSE(field, value) \
    must_refuse_with(o, field, value, cls_sampler_create(context, &o, &sampler), #field)
    REFUSE(vocab, 1048577);
    REFUSE(max_rows, 0);
    REFUSE(struct_size, 0);
    REFUSE(counts, -1);
    REFUSE(counts, 3);
    REFUSE(max_history, 16385);
    REFUSE(max_history, 1048576 + 64);
    REFUSE(max_rollback, 16385);
    REFUSE(slot_count, (1u << 24) + 1);
    REFUSE(no_late_compile, 2);
#undef REFUSE
    must_refuse(cls_sampler_create(NULL, &o, &sampler), "context");
    must_refuse(cls_sampler_create(context, NULL, &sampler), "options");
    must_refuse(cls_sampler_create(context, &o, NULL), "out");
    o.max_rows = 2;
    o.slot_count = 3;
    must(cls_sampler_create(context, &o, &sampler));
    cls_params_init(&p);
    must_refuse(cls_slot_begin(NULL, 0, &p, NULL, 0, NULL, 0), "sampler");
    must_refuse(cls_slot_begin(sampler, 3, &p, NULL, 0, NULL, 0), "slot");
    must_refuse(cls_slot_begin(sampler, 0, NULL, NULL, 0, NULL, 0), "params");
    must_refuse(cls_slot_params(sampler, 0, &p), "slot"); /* not begun */
    must_refuse(cls_slot_params(NULL, 0, &p), "sampler");
    must(cls_slot_begin(sampler, 2, &p, NULL, 0, NULL, 0));
    must(cls_slot_params(sampler, 2, &p));
    must_refuse_with(p, top_p, 1.5f, cls_slot_begin(sampler, 1, &p, NULL, 0, NULL, 0), "top_p");
    must_refuse_with(p, top_p, 1.5f, cls_slot_params(sampler, 2, &p), "top_p");
    must_refuse_with(p, temperature, NAN, cls_slot_begin(sampler, 1, &p, NULL, 0, NULL, 0),
                     "temperature");
    must_refuse_with(p, struct_size, 0, cls_slot_begin(sampler, 1, &p, NULL, 0, NULL, 0),
                     "struct_size");
    must_refuse(cls_slot_params(sampler, 2, NULL), "params");
    must_refuse(cls_slot_params(sampler, 7, &p), "slot");
    must_refuse(cls_slot_reset(sampler, 3), "slot");
    must_refuse(cls_slot_reset(NULL, 0), "sampler");
    must(cls_slot_reset(sampler, 2));
    cls_sampler_destroy(sampler);
}
END_TEST

/* Features that the sampler was not created for, and calls on slots without a request. */
START_TEST(slot_calls_refused)
{
    device *const d = fixture_device(_i);
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    const int32_t ids[] = {1, 2, 3};
    unsigned char bytes[64] = {0};
    size_t size = sizeof bytes;
    cls_sampler *sampler;
    cls_params p;
    cls_sampler_options o = sampler_options(100, 3);
    o.max_rows = 1;
    for (o.counts = CLS_COUNTS_NONE; o.counts <= CLS_COUNTS_ALL; o.counts++) {
        o.max_history = 5;
        o.max_rollback = 2;
        must(cls_sampler_create(context, &o, &sampler));
        cls_params_init(&p);
        must(cls_slot_begin(sampler, 0, &p, ids, 3, ids, 3));
#define REFUSE(field, value) \
    do { \
        must_refuse_with(p, field, value, cls_slot_begin(sampler, 1, &p, NULL, 0, NULL, 0), \
                         #field); \
        must_refuse_with(p, field, value, cls_slot_params(sampler, 0, &p), #field); \
    } while (0)
        if (o.counts == CLS_COUNTS_NONE) {
            REFUSE(repetition_penalty, 1.5f);
            REFUSE(presence_penalty, 1.0f);
        }
        if (o.counts != CLS_COUNTS_ALL)
            REFUSE(frequency_penalty, 1.0f);
        REFUSE(penalty_window, 6);
        REFUSE(stop_ids.count, 1);
#undef REFUSE
        must_refuse(cls_slot_rollback(sampler, 0, 3), "rollback");
        cls_sampler_destroy(sampler);
    }
    o.counts = CLS_COUNTS_ALL;
    must(cls_sampler_create(context, &o, &sampler));
    cls_params_init(&p);
    must_refuse(cls_slot_begin(sampler, 0, &p, NULL, 1, NULL, 0), "prompt");
    must_refuse(cls_slot_begin(sampler, 0, &p, NULL, 0, NULL, 1), "output");
    must_refuse(cls_slot_append_prompt(sampler, 0, ids, 3), "slot"); /* none of them has begun */
    must_refuse(cls_slot_copy(sampler, 1, 0), "slot");
    must_refuse(cls_slot_rollback(sampler, 0, 1), "slot");
    must_refuse(cls_slot_save(sampler, d->queue, 0, bytes, &size), "slot");
    must(cls_slot_begin(sampler, 0, &p, ids, 3, NULL, 0));
    must_refuse(cls_slot_append_prompt(NULL, 0, ids, 3), "sampler");
    must_refuse(cls_slot_next_turn(NULL, 0, ids, 3), "sampler");
    must_refuse(cls_slot_next_turn(sampler, 1, ids, 3), "slot 1 has no request");
    must_refuse(cls_slot_next_turn(sampler, 0, NULL, 3), "prompt");
    must_refuse(cls_slot_append_prompt(sampler, 3, ids, 3), "slot");
    must_refuse(cls_slot_append_prompt(sampler, 0, NULL, 3), "prompt");
    must_refuse(cls_slot_copy(NULL, 1, 0), "sampler");
    must_refuse(cls_slot_copy(sampler, 3, 0), "slot");
    must_refuse(cls_slot_copy(sampler, 0, 3), "slot");
    must_refuse(cls_slot_copy(sampler, 0, 1), "slot");
    must_refuse(cls_slot_rollback(NULL, 0, 1), "sampler");
    must_refuse(cls_slot_rollback(sampler, 3, 1), "slot");
    must_refuse(cls_slot_save(NULL, d->queue, 0, bytes, &size), "sampler");
    must_refuse(cls_slot_save(sampler, NULL, 0, bytes, &size), "queue");
    must_refuse(cls_slot_save(sampler, d->queue, 3, bytes, &size), "slot");
    must_refuse(cls_slot_save(sampler, d->queue, 0, bytes, NULL), "size");
    must_refuse(cls_slot_load(NULL, 0, bytes, size, NULL), "sampler");
    must_refuse(cls_slot_load(sampler, 3, bytes, size, NULL), "slot");
    must_refuse(cls_slot_load(sampler, 0, NULL, size, NULL), "bytes");
    must_refuse(cls_slot_load(sampler, 0, bytes, sizeof bytes, NULL), "bytes");
    cls_memory memory = {.struct_size = sizeof memory};
    must_refuse(cls_sampler_memory(NULL, &memory), "sampler");
    must_refuse(cls_sampler_memory(sampler, NULL), "memory");
    memory.struct_size = 0;
    must_refuse(cls_sampler_memory(sampler, &memory), "struct_size");
    must(cls_slot_rollback(sampler, 0, 2)); /* it has no output: the request ends, on the device */
    must_refuse(cls_slot_save(sampler, d->queue, 0, NULL, &size), "slot");
    cls_sampler_destroy(sampler);
}
END_TEST

START_TEST(acceptance_refused)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 4);
    const int32_t twice[] = {0, 1, 2, 1}, beyond[] = {0, 1, 2, 4}, negative[] = {0, 1, 1, -1};
    const cl_mem buffer = s.step.tokens.buffer;
    const cls_ints drawn = {.device.buffer = buffer}, none = {.host = NULL},
                   odd = {.device = {.buffer = buffer, .offset = 2}},
                   far = {.device = {.buffer = buffer, .offset = 4}};
    cls_accept_call call;
    cls_ints map = {.host = twice};
    cl_event nothing = NULL;
    must_refuse(accept_ints(NULL, d->queue, 4, 1, &drawn, NULL, 0, NULL, NULL), "sampler");
    must_refuse(accept_ints(s.sampler, NULL, 4, 1, &drawn, NULL, 0, NULL, NULL), "queue");
    must_refuse(accept_ints(s.sampler, d->queue, 0, 1, &drawn, NULL, 0, NULL, NULL), "rows");
    must_refuse(accept_ints(s.sampler, d->queue, 5, 1, &drawn, NULL, 0, NULL, NULL), "rows");
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, NULL, NULL, 0, NULL, NULL), "tokens");
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &none, NULL, 0, NULL, NULL), "tokens");
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &odd, NULL, 0, NULL, NULL), "tokens");
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &far, NULL, 0, NULL, NULL), "tokens");
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &drawn, &map, 0, NULL, NULL), "slots");
    map.host = beyond;
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &drawn, &map, 0, NULL, NULL), "slots");
    map.device.buffer = drawn.device.buffer;
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &drawn, &map, 0, NULL, NULL), "slots");
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &drawn, NULL, 1, NULL, NULL), "wait");
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &drawn, NULL, 1, &nothing, NULL), "wait");
    cls_accept_call_init(&call);
    ck_assert_uint_eq(call.per_row, 1);
    must_refuse(cls_accept(s.sampler, d->queue, NULL, 0, NULL, NULL), "call is NULL");
    call.rows = 4;
    call.tokens = drawn;
    call.counts.host = twice;
    must_refuse(cls_accept(s.sampler, d->queue, &call, 0, NULL, NULL),
                "call->counts: row 2 has the value 2; it must be 0 to 1");
    call.counts.host = negative;
    must_refuse(cls_accept(s.sampler, d->queue, &call, 0, NULL, NULL),
                "call->counts: row 3 has the value -1; it must be 0 to 1");
    call.counts.host = NULL;
    call.counts.device = (cls_buffer){.buffer = buffer, .offset = 4};
    must_refuse(cls_accept(s.sampler, d->queue, &call, 0, NULL, NULL), "call->counts needs");
    call.counts.device.buffer = NULL;
    call.rollback.host = twice;
    must_refuse(cls_accept(s.sampler, d->queue, &call, 0, NULL, NULL),
                "call->rollback: row 1 has the value 1; it must be 0 to 0");
    must(cls_slot_reset(s.sampler, 3));
    must_refuse(accept_ints(s.sampler, d->queue, 4, 1, &drawn, NULL, 0, NULL, NULL), "slot 3");
    must_refuse(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), "slot 3");
    close_small(&s);
}
END_TEST

/* Outputs that overlap another buffer or a part of one, and objects that kernels cannot write. */
static void refuse_overlaps(client *s)
{
    device *const d = s->d;
    cls_step *const step = &s->step;
    const cls_step good = s->step;
    cl_int code = CL_SUCCESS;
    cl_mem both = buffer_of(d, 64, NULL);
    const cl_buffer_region region = {0, 32};
    const cl_mem part =
        clCreateSubBuffer(both, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    const cl_mem read_only = clCreateBuffer(d->context, CL_MEM_READ_ONLY, 64, NULL, &code);
    const cl_mem write_only =
        clCreateBuffer(d->context, CL_MEM_WRITE_ONLY, 4 * 100 * sizeof(float), NULL, &code);
    ck_assert(part != NULL && read_only != NULL && write_only != NULL);
    step->tokens.buffer = step->status.buffer = both;
    must_refuse(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL),
                "step->tokens, bytes 0 to 15, and step->status, bytes 0 to 15, overlap");
    step->status.offset = 12;
    must_refuse(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL), "overlap");
    step->status = (cls_buffer){.buffer = part, .offset = 12};
    must_refuse(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL), "overlap");
    step->status.offset = 16; /* beside them */
    step->defer_accept = 1;
    must(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL));
    must_cl(clFinish(d->queue));
    *step = good;
    step->tokens = (cls_buffer){.buffer = step->logits.values.buffer};
    must_refuse(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL), "step->logits");
    *step = good;
    step->slots.device.buffer = step->positions.device.buffer =
        both; /* inputs may share a buffer */
    s->outputs.latest.buffer = both;
    step->outputs = &s->outputs;
    must_refuse(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL), "outputs->latest");
    s->outputs.latest.buffer = NULL;
    *step = good;
    step->tokens.buffer = read_only;
    must_refuse(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL),
                "step->tokens was created with CL_MEM_READ_ONLY");
    *step = good;
    step->logits.values.buffer = write_only;
    must_refuse(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL),
                "step->logits.values was created with CL_MEM_WRITE_ONLY");
    *step = good;
    step->tokens.buffer = write_only; /* by kernels: the host may read it */
    step->defer_accept = 1;
    must(cls_sample(s->sampler, d->queue, step, 0, NULL, NULL));
    cls_readback *ring;
    uint64_t ticket;
    must(cls_readback_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), 16, 1, &ring));
    must(cls_readback_start(ring, d->queue, &step->tokens, 16, 0, NULL, &ticket));
    cls_readback_destroy(ring);
    *step = good;
    release_buffers(part, both, read_only, write_only);
}

START_TEST(steps_refused)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 4);
    cls_step *const step = &s.step;
    const cls_step good = s.step;
    const int32_t twice[] = {0, 1, 2, 1}, beyond[] = {0, 1, 2, 4}, below[] = {0, 1, 2, -2};
    cl_mem tiny = buffer_of(d, 4, NULL), masks = buffer_of(d, 4 * 4 * 4, NULL);
    cl_mem biases = buffer_of(d, 4 * 100 * sizeof(float), NULL);
    cl_event nothing = NULL;
    must_refuse(cls_sample(NULL, d->queue, step, 0, NULL, NULL), "sampler");
    must_refuse(cls_sample(s.sampler, NULL, step, 0, NULL, NULL), "queue");
    must_refuse(cls_sample(s.sampler, d->queue, NULL, 0, NULL, NULL), "step");
    must_refuse(cls_sample(s.sampler, d->queue, step, 1, NULL, NULL), "wait");
    must_refuse(cls_sample(s.sampler, d->queue, step, 1, &nothing, NULL), "wait");
    must_refuse(cls_sample(s.sampler, d->queue, step, 0, &nothing, NULL), "wait");
#define REFUSE(field, value, name) \
    must_refuse_with(*step, field, value, cls_sample(s.sampler, d->queue, step, 0, NULL, NULL), \
                     name)
#define REFUSE_OUTPUT(field, value, name) \
    do { \
        step->outputs = &s.outputs; \
        must_refuse_with(s.outputs, field, value, \
                         cls_sample(s.sampler, d->queue, step, 0, NULL, NULL), name); \
        step->outputs = NULL; \
    } while (0)
    REFUSE(struct_size, 0, "struct_size");
    REFUSE(rows, 0, "rows");
    REFUSE(rows, 5, "rows");
    REFUSE(logits.dtype, 3, "logits.dtype");
    REFUSE(logits.dtype, -1, "logits.dtype");
    REFUSE(logits.values.buffer, NULL, "logits.values.buffer is NULL");
    REFUSE(logits.values.buffer, tiny, "logits");
    REFUSE(logits.values.offset, 2, "logits");
    REFUSE(logits.values.offset, 4, "logits"); /* one element too far */
    REFUSE(logits.values.offset, UINT64_MAX - 3, "logits");
    REFUSE(logits.row_stride, 99, "logits.row_stride");
    REFUSE(logits.row_stride, UINT64_C(1) << 62, "logits");
    REFUSE(slots.host, twice, "slots");
    REFUSE(slots.host, beyond, "slots");
    REFUSE(slots.host, below, "slots");
    REFUSE(slots.device.buffer, tiny, "slots");
    REFUSE(positions.device.buffer, tiny, "positions");
    REFUSE(random_bits.buffer, tiny, "random");
    REFUSE(tokens.buffer, tiny, "tokens");
    REFUSE(tokens.offset, 4, "tokens");
    REFUSE(tokens.offset, 1, "tokens");
    REFUSE(status.buffer, tiny, "status");
    REFUSE_OUTPUT(logprobs.buffer, tiny, "outputs->logprobs");
    REFUSE_OUTPUT(probs.buffer, tiny, "outputs->probs");
    REFUSE_OUTPUT(logprob_kind, 2, "outputs->logprob_kind");
    REFUSE_OUTPUT(struct_size, 0, "outputs->struct_size");
    REFUSE_OUTPUT(reserved, 1, "outputs->reserved");
    REFUSE_OUTPUT(top.reserved[0], 1, "outputs->top.reserved");
    REFUSE_OUTPUT(given.reserved[0], 1, "outputs->given.reserved");
    REFUSE_OUTPUT(kept.reserved[0], 1, "outputs->kept.reserved");
    REFUSE(mask.words.buffer, tiny, "mask");
    step->slots.device.buffer = step->positions.device.buffer = step->random_bits.buffer = masks;
    REFUSE(slots.host, twice, "slots");
    REFUSE(positions.host, twice, "positions");
    REFUSE(random_bits.offset, 4, "random");
    *step = good;
    REFUSE(mask.row_map.host, twice, "mask");
    step->mask.words.buffer = masks;
    REFUSE(mask.row_stride, 3, "mask.row_stride");
    REFUSE(mask.words.offset, 2, "mask");
    REFUSE(mask.row_map.host, beyond, "mask.row_map");
    REFUSE(mask.rows, 3, "mask"); /* absent map: row 3 has no mask row */
    REFUSE(mask.kind, 2, "mask.kind");
    REFUSE(mask.kind, CLS_MASK_BOOL, "mask"); /* 400 bytes it has not */
    *step = good;
    REFUSE(bias.row_map.host, twice, "bias");
    REFUSE(bias.values.buffer, tiny, "bias");
    REFUSE(mask.reserved[4], 1, "mask.reserved is 1");
    REFUSE(bias.reserved[0], 1, "bias.reserved is 1");
    REFUSE(logits.reserved[2], 1, "logits.reserved is 1");
    step->bias.values.buffer = biases;
    REFUSE(bias.dtype, 3, "bias.dtype is 3, which is not a cls_dtype");
    REFUSE(bias.values.offset, 4, "bias");
    REFUSE(bias.values.offset, 1, "bias");
    REFUSE(bias.row_stride, 99, "bias");
    REFUSE(bias.row_stride, 101, "bias");
    REFUSE(bias.rows, 3, "bias");
    REFUSE(bias.row_map.host, beyond, "bias.row_map");
    REFUSE(bias.factor, 0x1p-127f, "bias.factor is 5.87747e-39; it must be finite, and");
    REFUSE(bias.factor, -INFINITY, "bias.factor is -inf");
    REFUSE(bias.factor, NAN, "bias.factor");
    *step = good;
    /* What later versions may support is refused in each buffer, be it absent or not. */
    REFUSE(tokens.kind, CLS_BUFFER_USM, "step->tokens.kind is 2");
    REFUSE(random_bits.kind, CLS_BUFFER_SVM, "step->random_bits.kind is 1");
    REFUSE(random_bits.pointer, &s, "step->random_bits.pointer is set");
    REFUSE(slots.device.pointer, &s, "step->slots.pointer is set");
    REFUSE(mask.words.reserved, 1, "step->mask.words.reserved is 1");
    REFUSE(logits.values.kind, -1, "step->logits.values.kind is -1");
    REFUSE_OUTPUT(entropy.pointer, &s, "outputs->entropy.pointer is set");
    REFUSE_OUTPUT(kept_set.offsets.buffer, tiny, "outputs->kept_set.offsets");
    REFUSE(tokens.size, 15, "step->tokens needs 16 bytes, and its size is 15");
    REFUSE(tokens.size, 17, "step->tokens.size is 17 from offset 0 on, and the buffer has 16");
    step->tokens.size = 16;
    step->defer_accept = 1;
    must(cls_sample(s.sampler, d->queue, step, 0, NULL, NULL));
    *step = good;
    REFUSE(defer_accept, 2, "step->defer_accept is 2; it must be 0 or 1");
    /* A row without a token must not be accepted later as if it had one. */
    step->defer_accept = 1;
    REFUSE(invalid_token, 0, "invalid_token is 0, which is a token");
    REFUSE(invalid_token, 99, "invalid_token");
    *step = good;
    refuse_overlaps(&s);
#undef REFUSE
    /* None of these calls has changed anything. */
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    client_check(&s, 1, d->name);
    release_buffers(tiny, masks, biases);
    close_small(&s);
}
END_TEST

START_TEST(uncompiled_type_refused)
{
    device *const d = fixture_device(_i);
    batch *const b = batch_new(1, 50, CLS_F32, 0, 0);
    client s;
    batch_row(b, 0, ROW_NORMAL1, 1);
    client_open(&s, b, d, fixture_context(d, 1u << CLS_F32, 0, 0, 0), 1);
    s.step.logits.dtype = CLS_BF16;
    must_refuse(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL), "dtype");
    close_small(&s);
}
END_TEST

/* Calls on a sampler while another call is using it, made from a callback of that call. */
typedef struct nested {
    cls_sampler *sampler;
    cl_command_queue queue;
    uint32_t calls;
} nested;

static void call_again(void *user, const char *program, uint32_t done, uint32_t count)
{
    nested *const n = user;
    (void)program, (void)done, (void)count;
    if (n->sampler == NULL)
        return;
    cls_params p = default_params();
    must_refuse(cls_slot_begin(n->sampler, 0, &p, NULL, 0, NULL, 0),
                "sampler is in use by another call");
    must_refuse(cls_slot_reset(n->sampler, 0), "in use");
    must_refuse(cls_sample(n->sampler, n->queue, NULL, 0, NULL, NULL), "in use");
    n->calls++;
}

START_TEST(in_use_refused)
{
    device *const d = fixture_device(_i);
    nested n = {NULL, d->queue, 0};
    cls_context *context;
    cls_context_options c = default_context_options();
    c.progress = call_again;
    c.progress_user = &n;
    must(cls_context_create(d->context, d->id, &c, &context));
    cls_sampler_options o = sampler_options(100, 1);
    cls_sampler *sampler;
    const uint32_t features = cls_test_features;
    cls_test_features = 0;
    must(cls_sampler_create(context, &o, &sampler));
    cls_test_features = features;
    n.sampler = sampler;
    cls_params p = default_params();
    p.repetition_penalty = 1.5f; /* needs kernels that are not there yet */
    must(cls_slot_begin(sampler, 0, &p, NULL, 0, NULL, 0));
    ck_assert_uint_gt(n.calls, 0);
    n.sampler = NULL;
    must(cls_slot_reset(sampler, 0)); /* it is free again */
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
}
END_TEST

/* Another scope is refused if there is no history to count tokens again. */
START_TEST(scope_refused)
{
    device *const d = fixture_device(_i);
    cls_sampler *sampler;
    cls_sampler_options o = sampler_options(100, 1);
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
    cls_params p = default_params();
    p.presence_penalty = 1.0f;
    must(cls_slot_begin(sampler, 0, &p, NULL, 0, NULL, 0));
    must(cls_slot_params(sampler, 0, &p));
    p.penalty_scope = CLS_SCOPE_ALL;
    must_refuse(cls_slot_params(sampler, 0, &p), "params->penalty_scope");
    cls_sampler_destroy(sampler);
    o.max_history = 1;
    must(cls_sampler_create(fixture_context(d, 1u << CLS_F32, 0, 0, 0), &o, &sampler));
    p.penalty_scope = CLS_SCOPE_OUTPUT;
    must(cls_slot_begin(sampler, 0, &p, NULL, 0, NULL, 0));
    p.penalty_scope = CLS_SCOPE_ALL;
    must(cls_slot_params(sampler, 0, &p));
    cls_sampler_destroy(sampler);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    fixture_begin(ON_DEVICES);
    add_device_test(contexts_refused);
    add_device_test(samplers_and_slots_refused);
    add_device_test(slot_calls_refused);
    add_device_test(acceptance_refused);
    add_device_test(steps_refused);
    add_device_test(in_use_refused);
    add_device_test(scope_refused);
    add_device_test(uncompiled_type_refused);
    return fixture_end();
}
