/* SPDX-License-Identifier: MIT */
/* Proves that functions refuse what no text of calls can give them (refused.run has the rest), name
 * the argument and change nothing. */
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

/* Handles, arrays and events that are not there. What a field may not be is in refused.run. */
START_TEST(handles_refused)
{
    static const int32_t from_one[] = {1, 3, 4}, even[] = {0, 3, 3}, falling[] = {0, 3, 2},
                         long_one[] = {0, 3, 133};
    device *const d = fixture_device(_i);
    client s = small_client(d, 4);
    cls_sampler *const sampler = s.sampler;
    cls_context *const context = fixture_context(d, 1u << CLS_F32, 0, 0, 0);
    cls_step *const step = &s.step;
    const int32_t ids[] = {1, 2, 3, 4};
    const cls_ints given = {.host = ids};
    cls_sampler_options o = sampler_options(100, 1);
    cls_memory memory = {.struct_size = 0};
    cls_params p = default_params();
    cls_verify_call v;
    cls_sampler *other;
    unsigned char bytes[64] = {0};
    size_t size = sizeof bytes;
    cl_event nothing = NULL;
    must_refuse(cls_sampler_create(NULL, &o, &other), "context");
    must_refuse(cls_sampler_create(context, NULL, &other), "options");
    must_refuse(cls_sampler_create(context, &o, NULL), "out");
    must_refuse(cls_sampler_memory(NULL, &memory), "sampler");
    must_refuse(cls_sampler_memory(sampler, NULL), "memory");
    must_refuse(cls_sampler_memory(sampler, &memory), "struct_size");
    must_refuse(cls_slot_begin(NULL, 0, &p, NULL), "sampler");
    must_refuse(cls_slot_begin(sampler, 0, NULL, NULL), "params");
    must_refuse(cls_slot_begin(sampler, 0, &p, TEXT(NULL, 1, NULL, 0)), "prompt");
    must_refuse(cls_slot_begin(sampler, 0, &p, TEXT(NULL, 0, NULL, 1)), "output");
    must_refuse_with(p, struct_size, 0, cls_slot_begin(sampler, 0, &p, NULL), "struct_size");
    must_refuse_with(p, stop_ids.count, 1, cls_slot_params(sampler, 0, &p), "stop_ids");
    must_refuse(cls_slot_params(NULL, 0, &p), "sampler");
    must_refuse(cls_slot_params(sampler, 0, NULL), "params");
    must_refuse(cls_slot_reset(NULL, 0), "sampler");
    must_refuse(cls_slot_append_prompt(NULL, 0, ids, 3), "sampler");
    must_refuse(cls_slot_append_prompt(sampler, 0, NULL, 3), "prompt");
    must_refuse(cls_slot_next_turn(NULL, 0, ids, 3), "sampler");
    must_refuse(cls_slot_next_turn(sampler, 0, NULL, 3), "prompt");
    must_refuse(cls_slot_copy(NULL, 1, 0), "sampler");
    must_refuse(cls_slot_rollback(NULL, 0, 1), "sampler");
    must_refuse(cls_slot_save(NULL, d->queue, 0, bytes, &size), "sampler");
    must_refuse(cls_slot_save(sampler, NULL, 0, bytes, &size), "queue");
    must_refuse(cls_slot_save(sampler, d->queue, 0, bytes, NULL), "size");
    must_refuse(cls_slot_load(NULL, 0, bytes, size, NULL), "sampler");
    must_refuse(cls_slot_load(sampler, 0, NULL, size, NULL), "bytes");
    must_refuse(accept_ints(NULL, d->queue, 4, 1, &given, NULL, 0, NULL, NULL), "sampler");
    must_refuse(accept_ints(sampler, NULL, 4, 1, &given, NULL, 0, NULL, NULL), "queue");
    must_refuse(accept_ints(sampler, d->queue, 4, 1, &given, NULL, 1, NULL, NULL), "wait");
    must_refuse(accept_ints(sampler, d->queue, 4, 1, &given, NULL, 1, &nothing, NULL), "wait");
    must_refuse(cls_accept(sampler, d->queue, NULL, 0, NULL, NULL), "call is NULL");
    must_refuse(cls_sample(NULL, d->queue, step, 0, NULL, NULL), "sampler");
    must_refuse(cls_sample(sampler, NULL, step, 0, NULL, NULL), "queue");
    must_refuse(cls_sample(sampler, d->queue, NULL, 0, NULL, NULL), "step");
    must_refuse(cls_sample(sampler, d->queue, step, 1, NULL, NULL), "wait");
    must_refuse(cls_sample(sampler, d->queue, step, 1, &nothing, NULL), "wait");
    must_refuse(cls_sample(sampler, d->queue, step, 0, &nothing, NULL), "wait");
    /* What later versions may support is refused in each buffer, be it absent or not. */
#define REFUSE(call, object, field, value, name) \
    must_refuse_with(object, field, value, call(sampler, d->queue, &object, 0, NULL, NULL), name)
    REFUSE(cls_sample, s.step, tokens.kind, CLS_BUFFER_USM, "step->tokens.kind is 2");
    REFUSE(cls_sample, s.step, random_bits.kind, CLS_BUFFER_SVM, "step->random_bits.kind is 1");
    REFUSE(cls_sample, s.step, random_bits.pointer, &s, "step->random_bits.pointer is set");
    REFUSE(cls_sample, s.step, slots.device.pointer, &s, "step->slots.pointer is set");
    REFUSE(cls_sample, s.step, mask.row_map.host, ids, "mask");
    REFUSE(cls_sample, s.step, tokens.size, 17, "step->tokens.size is 17 from offset 0 on");
    cls_verify_call_init(&v);
    v.requests = 2;
    v.row_offsets = (const int32_t[]){0, 1, 2};
    v.logits = s.step.logits;
    must_refuse(cls_verify(NULL, d->queue, &v, 0, NULL, NULL), "sampler");
    must_refuse(cls_verify(sampler, NULL, &v, 0, NULL, NULL), "queue");
    must_refuse(cls_verify(sampler, d->queue, NULL, 0, NULL, NULL), "call");
    must_refuse(cls_verify(sampler, d->queue, &v, 1, NULL, NULL), "wait");
    REFUSE(cls_verify, v, row_offsets, NULL, "row_offsets");
    REFUSE(cls_verify, v, row_offsets, from_one, "row_offsets[0]");
    REFUSE(cls_verify, v, row_offsets, even, "row_offsets[2]");
    REFUSE(cls_verify, v, row_offsets, falling, "row_offsets[2]");
    REFUSE(cls_verify, v, row_offsets, long_one, "129");
#undef REFUSE
    client_step(&s, d->queue, 0, 0, NULL, NULL); /* none of these calls has changed anything */
    client_check(&s, 1, d->name);
    close_small(&s);
}
END_TEST

/* Outputs that overlap a part of another buffer, and objects that kernels cannot write. */
START_TEST(objects_refused)
{
    device *const d = fixture_device(_i);
    client all = small_client(d, 4), *const s = &all;
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
    client_step(s, d->queue, 0, 0, NULL, NULL); /* nothing of this has changed anything */
    client_check(s, 1, d->name);
    close_small(s);
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
    must_fail(cls_slot_begin(n->sampler, 0, &p, NULL), CLS_IN_USE,
              "sampler is in use by another call");
    must_fail(cls_slot_reset(n->sampler, 0), CLS_IN_USE, "in use");
    must_fail(cls_sample(n->sampler, n->queue, NULL, 0, NULL, NULL), CLS_IN_USE, "in use");
    n->calls++;
}

START_TEST(in_use_refused)
{
    device *const d = fixture_device(_i);
    nested n = {NULL, d->queue, 0};
    cls_context_options c = default_context_options();
    c.progress = call_again;
    c.progress_user = &n;
    cls_context *const context = new_context(d, &c);
    cls_sampler_options o = sampler_options(100, 1);
    cls_sampler *sampler;
    const uint32_t features = cls_test_features;
    cls_test_features = 0;
    must(cls_sampler_create(context, &o, &sampler));
    cls_test_features = features;
    n.sampler = sampler;
    cls_params p = default_params();
    p.repetition_penalty = 1.5f; /* needs kernels that are not there yet */
    must(cls_slot_begin(sampler, 0, &p, NULL));
    ck_assert_uint_gt(n.calls, 0);
    n.sampler = NULL;
    must(cls_slot_reset(sampler, 0)); /* it is free again */
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    fixture_begin(ON_DEVICES);
    add_device_test(contexts_refused);
    add_device_test(handles_refused);
    add_device_test(objects_refused);
    add_device_test(in_use_refused);
    return fixture_end();
}
