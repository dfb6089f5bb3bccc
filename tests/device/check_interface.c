/* SPDX-License-Identifier: MIT */
/* Proves the promises of the interface that no text of calls can: defaults, layouts of structs, the
 * argument at fault, events and lifetimes. */
#include <stdio.h>
#include <string.h>

#include "client.h"

START_TEST(defaults)
{
    cls_params p;
    cls_context_options c;
    cls_sampler_options o;
    cls_step step;
    cls_outputs outputs;
    memset(&outputs, 0x55, sizeof outputs);
    memset(&p, 0x55, sizeof p);
    memset(&c, 0x55, sizeof c);
    memset(&o, 0x55, sizeof o);
    memset(&step, 0x55, sizeof step);
    cls_params_init(&p);
    cls_context_options_init(&c);
    cls_sampler_options_init(&o);
    cls_step_init(&step);
    cls_outputs_init(&outputs);
    ck_assert(p.struct_size == sizeof p && c.struct_size == sizeof c && o.struct_size == sizeof o);
    ck_assert(outputs.struct_size == sizeof outputs && outputs.top.count == 0 &&
              outputs.kept.ids.buffer == NULL && outputs.latest.buffer == NULL);
    ck_assert(step.struct_size == sizeof step);
    ck_assert(p.chain == CLS_CHAIN_DEFAULT && p.temperature == 1.0f && p.top_k == 0 &&
              p.top_p == 1.0f && p.min_p == 0.0f);
    ck_assert(p.position == 0 && p.seed == 0 && p.stream == 0);
    ck_assert(c.dtypes == 0 && c.work_group == 0 && c.vector == 0 && c.shortlist == 0 &&
              c.build_log == NULL);
    ck_assert(o.vocab == 0 && o.max_rows == 1 && o.slot_count == 0);
    ck_assert(p.repetition_penalty == 1.0f && p.frequency_penalty == 0.0f &&
              p.presence_penalty == 0.0f);
    ck_assert(p.penalty_scope == CLS_SCOPE_OUTPUT && p.penalty_window == 0 && p.max_tokens == 0);
    ck_assert(p.stop_ids.ids == NULL && p.stop_ids.count == 0 && p.logit_bias.biases == NULL &&
              p.logit_bias.count == 0);
    ck_assert(o.counts == CLS_COUNTS_ALL && o.max_history == 0 && o.max_rollback == 0);
    ck_assert(step.bias.values.buffer == NULL);
    ck_assert(step.invalid_token == -1 && step.defer_accept == 0 &&
              outputs.logprob_kind == CLS_LOGPROB_RAW && step.outputs == NULL);
    ck_assert(step.tokens.buffer == NULL && step.mask.words.buffer == NULL &&
              step.slots.host == NULL);

    /* A struct shorter than in the first header is refused, and nothing beyond it is touched. */
    memset(&p, 0x55, sizeof p);
    ck_assert_int_eq(cls_struct_init("cls_params", &p, offsetof(cls_params, only_allowed)),
                     CLS_BAD_ARGUMENT);
    ck_assert(p.struct_size == 0 && p.only_allowed == 0x55555555);
    ck_assert_int_eq(cls_params_check(&p, 10), CLS_BAD_ARGUMENT);
    /* If a program is compiled against a shorter struct that is long enough, the fields that the
     * program lacks are 0. */
    struct growing {
        size_t struct_size;
        int32_t first, added;
    } program = {offsetof(struct growing, added), 3, 0x55555555}, library = {.added = 7};
    must(cls_struct_read(&library, sizeof library, offsetof(struct growing, added), &program,
                         "program", 0));
    ck_assert(library.struct_size == sizeof library && library.first == 3 && library.added == 0);
    /* A program that passes the size of a pointer, or less, is refused. */
    for (size_t size = 0; size <= sizeof(void *); size++) {
        memset(&p, 0, sizeof p);
        ck_assert_int_eq(cls_struct_init("cls_params", &p, size), CLS_BAD_ARGUMENT);
        p.temperature = -3.0f;
        must_refuse(cls_params_check(&p, 10), "params->struct_size is 0");
    }
    /* Every public struct with a struct_size can be initialized, and no other name. */
    uint32_t structs = 0;
    for (uint32_t i = 0; cls_struct_field(i) != NULL; i++) {
        const cls_field *const f = cls_struct_field(i);
        unsigned char object[16384];
        if (strcmp(f->name, "struct_size") != 0)
            continue;
        size_t first = sizeof object;
        must(cls_struct_init(f->structure, object, sizeof object));
        memcpy(&first, object, sizeof first);
        ck_assert_uint_eq(first, sizeof object); /* a newer header's, whose new fields are 0 */
        structs++;
    }
    /* A program of the first header has a smaller struct, if it has grown, but no smaller one. */
#define INIT_FIRST(type, last) \
    { \
        unsigned char object[sizeof(type) + 8]; \
        const size_t first = CLS_SIZE_UP_TO(type, last); \
        memset(object, 0x55, sizeof object); \
        must(cls_struct_init(#type, object, first)); \
        ck_assert(object[first] == 0x55 && memcmp(object, &first, sizeof first) == 0); \
        must_refuse(cls_struct_init(#type, object, first - 1), #type " has at least"); \
        structs--; \
    }
    CLS_LAST_FIELDS(INIT_FIRST)
    ck_assert_uint_eq(structs, 0);
    ck_assert_int_eq(cls_struct_init("cls_buffer", &p, sizeof p), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_struct_init(NULL, &p, sizeof p), CLS_BAD_ARGUMENT);
    /* In a struct of a newer header, fields that this library does not know must be 0. */
    struct {
        cls_params known;
        uint32_t unknown[2];
    } newer = {.unknown = {0, 0}};
    cls_params_init(&newer.known);
    newer.known.struct_size = sizeof newer;
    must(cls_params_check(&newer.known, 10));
    newer.unknown[1] = 1;
    must_refuse(cls_params_check(&newer.known, 10), "does not know");
    cls_params_init(&p);
    ck_assert(p.struct_size == sizeof p && p.temperature == 1.0f);
    p.top_a = 1.5f;
    must_refuse(cls_params_check(&p, 10), "params->top_a is 1.5; it must be between 0 (off) and 1");
    cls_params_init(NULL);
    cls_step_init(NULL);
    cls_sampler_options_init(NULL);
    cls_verify_call_init(NULL);
    cls_host_candidates_init(NULL);

    ck_assert_str_eq(cls_version(), CLS_VERSION_STRING);
    ck_assert_uint_eq(cls_version_number(), CLS_VERSION_NUMBER);
    ck_assert_uint_eq(cls_arithmetic_version(), CLS_ARITHMETIC_VERSION);
    unsigned major = 0, minor = 0, patch = 0;
    ck_assert_int_eq(sscanf(CLS_VERSION_STRING, "%u.%u.%u", &major, &minor, &patch), 3);
    ck_assert_uint_eq(CLS_VERSION_NUMBER, major * 10000 + minor * 100 + patch);
    ck_assert_str_eq(cls_status_name(CLS_OK), "CLS_OK");
    ck_assert_str_eq(cls_status_name(CLS_BUSY), "CLS_BUSY");
    ck_assert_str_eq(cls_status_name((cls_status)5), "unknown");
}
END_TEST

/* Each preset has all stages once, in the order of its name, and is what a custom chain of these
 * stages is. */
START_TEST(presets)
{
    static const uint8_t expected[][CLS_CHAIN_LENGTH] = {
        [CLS_CHAIN_DEFAULT] = {CLS_STAGE_TEMPERATURE, CLS_STAGE_TOP_K, CLS_STAGE_TOP_P,
                               CLS_STAGE_MIN_P, CLS_STAGE_TOP_A, CLS_STAGE_TOP_N_SIGMA,
                               CLS_STAGE_TYPICAL_P, CLS_STAGE_XTC, CLS_STAGE_P_LESS,
                               CLS_STAGE_INFILL},
        [CLS_CHAIN_VLLM] = {CLS_STAGE_TEMPERATURE, CLS_STAGE_MIN_P, CLS_STAGE_TOP_A,
                            CLS_STAGE_TOP_K, CLS_STAGE_TOP_P, CLS_STAGE_TOP_N_SIGMA,
                            CLS_STAGE_TYPICAL_P, CLS_STAGE_XTC, CLS_STAGE_P_LESS, CLS_STAGE_INFILL},
        [CLS_CHAIN_LLAMA] = {CLS_STAGE_TOP_N_SIGMA, CLS_STAGE_TOP_K, CLS_STAGE_TYPICAL_P,
                             CLS_STAGE_TOP_P, CLS_STAGE_MIN_P, CLS_STAGE_TOP_A, CLS_STAGE_XTC,
                             CLS_STAGE_TEMPERATURE, CLS_STAGE_P_LESS, CLS_STAGE_INFILL}};
    uint8_t stages[CLS_CHAIN_LENGTH];
    uint32_t lengths[CLS_CHAIN_CUSTOM] = {0};
    for (int32_t chain = 0; chain < CLS_CHAIN_CUSTOM; chain++) {
        uint32_t seen = 0;
        memset(stages, 0x55, sizeof stages);
        must(cls_chain_stages(chain, stages));
        ck_assert_mem_eq(stages, expected[chain], sizeof stages);
        for (uint32_t i = 0; i < CLS_CHAIN_LENGTH && stages[i] != CLS_STAGE_END; i++) {
            ck_assert_uint_eq(seen >> stages[i] & 1u, 0);
            seen |= 1u << stages[i];
            lengths[chain]++;
        }
        ck_assert(lengths[chain] >= 9 && lengths[chain] < CLS_CHAIN_LENGTH &&
                  lengths[chain] == lengths[0]);
        for (uint32_t i = lengths[chain]; i < CLS_CHAIN_LENGTH; i++)
            ck_assert_uint_eq(stages[i], CLS_STAGE_END);
        cls_params p = default_params();
        p.chain = CLS_CHAIN_CUSTOM;
        memcpy(p.stages, stages, sizeof stages);
        must(cls_params_check(&p, 10));
    }
    ck_assert_int_eq(cls_chain_stages(CLS_CHAIN_CUSTOM, stages), CLS_BAD_ARGUMENT);
    ck_assert_str_eq(cls_error_message(), "chain is 3, which is not a preset");
    ck_assert_int_eq(cls_chain_stages(-1, stages), CLS_BAD_ARGUMENT);
    ck_assert_int_eq(cls_chain_stages(CLS_CHAIN_DEFAULT, NULL), CLS_BAD_ARGUMENT);
    ck_assert_str_eq(cls_error_message(), "stages is NULL");
}
END_TEST

/* Expects a refusal of an argument, or with "" one of which none is at fault alone. */
#define REFUSED(call, field) \
    do { \
        ck_assert_int_eq((call), CLS_BAD_ARGUMENT); \
        ck_assert_str_eq(cls_error_field(), (field)); \
    } while (0)

/* The argument at fault has the name that the message begins with, and stays until the next failure
 * of the thread. */
START_TEST(field_at_fault)
{
    int32_t out[2], status[2], slots[2] = {0, 0}, map[2] = {0, 9}, ids[] = {1, -2};
    float logits[2][10] = {{0}};
    uint32_t mask[2] = {~0u, ~0u};
    cls_context *context;
    cls_sampler *sampler;
    cls_params p = default_params();
    p.top_p = 2;
    REFUSED(cls_params_check(&p, 10), "params->top_p");
    must(cls_context_create_host(NULL, &context));
    ck_assert_str_eq(cls_error_field(), "params->top_p");
    p = default_params();
    p.bad_words = (cls_sequences){.sequences = (cls_ids[]){{ids, 2}}, .count = 1};
    REFUSED(cls_params_check(&p, 10), "params->bad_words.sequences[0].ids[1]");
    REFUSED(cls_params_check(NULL, 10), "params");
    REFUSED(cls_chain_stages(CLS_CHAIN_CUSTOM, NULL), "stages");
    REFUSED(cls_struct_init("cls_nothing", &p, sizeof p), "structure");
    REFUSED(cls_context_export(context, NULL, &(size_t){0}), "");
    cls_sampler_options o = sampler_options(10, 2);
    o.counts = 9;
    REFUSED(cls_sampler_create(context, &o, &sampler), "options->counts");
    o = sampler_options(10, 2);
    must(cls_sampler_create(context, &o, &sampler));
    p = default_params();
    REFUSED(cls_slot_begin(sampler, 2, &p, NULL), "slot");
    REFUSED(cls_slot_begin(sampler, 1, NULL, NULL), "params");
    for (uint32_t slot = 0; slot < 2; slot++)
        must(cls_slot_begin(sampler, slot, &p, NULL));
    cls_step step = default_step(1, NULL);
    step.logits.values =
        (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = logits, .size = sizeof logits};
    step.tokens = (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = out, .size = 8};
    step.status = (cls_buffer){.kind = CLS_BUFFER_HOST, .pointer = status, .size = 8};
    must(cls_sample(sampler, NULL, &step, 0, NULL, NULL));
    step.tokens.kind = CLS_BUFFER_MEM;
    REFUSED(cls_sample(sampler, NULL, &step, 0, NULL, NULL), "step->tokens.pointer");
    step.tokens.kind = CLS_BUFFER_HOST;
    step.mask =
        (cls_mask){.host = mask, .width = 1, .row_stride = 1, .rows = 2, .row_map.host = map + 1};
    REFUSED(cls_sample(sampler, NULL, &step, 0, NULL, NULL), "step->mask.row_map");
    step.mask = (cls_mask){0};
    step.rows = 2;
    step.slots.host = slots;
    REFUSED(cls_sample(sampler, NULL, &step, 0, NULL, NULL), "step->slots");
    REFUSED(cls_sample(sampler, NULL, &step, 1, NULL, NULL), "n_wait");
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
}
END_TEST

/* No struct of the table, which offsetof() fills, has a hole that a field could be missing in. */
START_TEST(layouts)
{
    const cls_field *before = NULL;
    uint32_t structs = 0, n = 0;
    for (const cls_field *f = NULL; (f = cls_struct_field(n)) != NULL; n++) {
        const int first = before == NULL || strcmp(before->structure, f->structure) != 0;
        const uint32_t end = first ? 0 : before->offset + before->size;
        if (first && before != NULL)
            ck_assert_msg(before->structure_size - before->offset - before->size < 8,
                          "%s goes on after %s", before->structure, before->name);
        ck_assert_msg(f->offset >= end && f->offset - end < 8, "%s.%s is at %u, after %u",
                      f->structure, f->name, f->offset, end);
        structs += (uint32_t)first;
        before = f;
    }
    ck_assert_uint_eq(before->structure_size, before->offset + before->size);
    ck_assert_uint_ge(structs, 31);
    ck_assert_ptr_null(cls_struct_field(n + 1));
    ck_assert_ptr_null(cls_struct_field(UINT32_MAX));
}
END_TEST

/* Compares one step with the reference; rows that got a token advance. */
static void expect_step(client *s)
{
    client_step(s, s->d->queue, 0, 0, NULL, NULL);
    client_tokens(s, 0);
    batch_reference(s->b);
    for (uint32_t row = 0; row < s->b->rows; row++) {
        ck_assert_msg(s->b->token[row] == s->b->host[row].token &&
                          s->b->status[row] == s->b->host[row].status,
                      "%s: token %d, status %d; the reference: %d, %d", batch_words(s->b, row),
                      s->b->token[row], s->b->status[row], s->b->host[row].token,
                      s->b->host[row].status);
        if (s->b->token[row] >= 0)
            s->b->params[row].position++;
    }
}

/* Proves that cls_sampler_check() refuses what the sampler was not created for. */
START_TEST(checks_params)
{
    client s = small_client(fixture_device(_i), 2);
    cls_params p = s.b->params[0];
    must(cls_sampler_check(s.sampler, &p));
    p.penalty_window = 5;
    must(cls_params_check(&p, s.b->vocab));
    must_refuse(cls_sampler_check(s.sampler, &p), "penalty_window");
    ck_assert_int_eq(cls_sampler_check(NULL, &p), CLS_BAD_ARGUMENT);
    close_small(&s);
}
END_TEST

START_TEST(events)
{
    device *const d = fixture_device(_i);
    client s = small_client(d, 2);
    cl_event first, second;
    cl_int state = CL_QUEUED;
    client_step(&s, d->queue, 0, 0, NULL, &first);
    client_step(&s, d->queue, 0, 1, &first, &second);
    must_cl(clFlush(d->queue));
    must_cl(clWaitForEvents(1, &second));
    must_cl(clGetEventInfo(first, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    ck_assert_int_eq(state, CL_COMPLETE);
    clReleaseEvent(first);
    clReleaseEvent(second);
    close_small(&s);
}
END_TEST

/* Proves that a step without outputs works, and that handles can be destroyed in any order, even
 * with steps in flight. */
START_TEST(lifetimes)
{
    device *const d = fixture_device(_i);
    cls_context_options o = default_context_options();
    o.dtypes = 1u << CLS_F32;
    char log[64] = "untouched";
    o.build_log = log;
    o.build_log_size = sizeof log;
    cls_context *const context = new_context(d, &o);
    ck_assert(memchr(log, 0, sizeof log) != NULL && strcmp(log, "untouched") != 0);
    batch *const b = batch_new(2, 100, CLS_F32, 0, 0);
    client s;
    batch_row(b, 0, ROW_NORMAL1, 1);
    batch_row(b, 1, ROW_NORMAL1, 2);
    client_open(&s, b, d, context, 1);
    cls_context_destroy(context); /* the sampler retains what it needs of it */
    expect_step(&s);
    const cls_step step = s.step;
    s.step.tokens.buffer = s.step.status.buffer = NULL;
    must(cls_sample(s.sampler, d->queue, &s.step, 0, NULL, NULL));
    s.step = step;
    b->params[0].position++;
    b->params[1].position++;
    client_step(&s, d->queue, 0, 0, NULL, NULL);
    cls_sampler_destroy(s.sampler); /* the steps in flight still run */
    s.sampler = NULL;
    client_tokens(&s, 0);
    batch_reference(b);
    for (uint32_t row = 0; row < 2; row++)
        ck_assert_int_eq(b->token[row], b->host[row].token);
    close_small(&s);
}
END_TEST

/* Proves that no kernel has more than 256 bytes of arguments, of up to 8 bytes each: OpenCL
 * guarantees no more on a device of the embedded profile. */
START_TEST(arguments)
{
    client s = small_client(fixture_device(_i), 1);
    uint32_t kernels = 0;
    for (int dtype = 0; dtype < CLS_DTYPES; dtype++)
        for (int v = 0; v < CLS_VARIANTS; v++) {
            const cl_kernel kernel = s.sampler->kernels[dtype][v].handle;
            cl_uint n = 0;
            if (kernel == NULL)
                continue;
            must_cl(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL));
            ck_assert_msg(n > 0 && n <= CLS_MAX_ARGUMENTS && n * sizeof(uint64_t) <= 256,
                          "%s has %u arguments", cls_variants[v].name, (unsigned)n);
            kernels++;
        }
    ck_assert_uint_ge(kernels, CLS_KERNELS - 1); /* the sampler has all but the self-test's */
    close_small(&s);
}
END_TEST

int main(void)
{
    fixture_features(CLS_FEATURES_ALL);
    fixture_begin(ON_DEVICES);
    add_test(defaults);
    add_test(presets);
    add_test(field_at_fault);
    add_test(layouts);
    add_device_test(checks_params);
    add_device_test(events);
    add_device_test(lifetimes);
    add_device_test(arguments);
    return fixture_end();
}
