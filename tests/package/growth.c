/* SPDX-License-Identifier: MIT */
/* Passes each public struct with a struct_size to a call of a context without a device. What lies
 * behind the struct must stay as it is, and what a call fills must be filled. For growth.sh. */
#define CL_TARGET_OPENCL_VERSION 120
#include "clsample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK 0x55

/* A struct of this header's size, and bytes that no call may touch. */
#define GUARDED(type, name) \
    struct { \
        type s; \
        unsigned char after[64]; \
    } name; \
    memset(&name, MARK, sizeof name); \
    type##_init(&name.s)
#define UNTOUCHED(name) \
    untouched(#name, name.after, sizeof name.after, name.s.struct_size, sizeof name.s)

static void fail(const char *what, const char *why)
{
    printf("%s: %s\n", what, why);
    exit(1);
}

static void must(const char *what, cls_status status)
{
    if (status != CLS_OK)
        fail(what, cls_error_message());
}
#define MUST(call) must(#call, call)

static void untouched(const char *name, const unsigned char *after, size_t n, size_t size,
                      size_t ours)
{
    if (size != ours)
        fail(name, "its struct_size has changed");
    for (size_t i = 0; i < n; i++)
        if (after[i] != MARK)
            fail(name, "bytes behind it have changed");
}

static cls_buffer memory_of(void *at, size_t size)
{
    return (cls_buffer){.pointer = at, .size = size, .kind = CLS_BUFFER_HOST};
}

int main(void)
{
    enum { VOCAB = 40 };
    static float logits[2 * VOCAB];
    static int32_t prefix_of[VOCAB];
    const int32_t text[] = {1, 2, 3, 1, 2}, draft = 7, offsets[] = {0, 2}, slot = 0, ends[] = {3},
                  ids[] = {7, 3};
    const uint32_t next[] = {0};
    const uint64_t state_offsets[] = {0, 1};
    const cls_ids start = {ids, 1}, end = {ends, 1};
    int32_t token[3] = {-2, -2, -2}, count = 0;
    float logprob = 1.0f;
    cls_context *context;
    cls_sampler *sampler;
    cls_grammar *grammar;
    cls_shard *shard;
    logits[7] = logits[VOCAB + 9] = 5.0f;

    GUARDED(cls_context_options, context_options);
    MUST(cls_context_create_host(&context_options.s, &context));
    UNTOUCHED(context_options);
    GUARDED(cls_device_info, device_info);
    MUST(cls_context_info(context, &device_info.s));
    UNTOUCHED(device_info);
    if (device_info.s.host != 1)
        fail("cls_context_query", "info->host is not 1");
    GUARDED(cls_program_info, program_info);
    if (cls_context_program(context, 0, &program_info.s) == CLS_OK ||
        strstr(cls_error_message(), "struct_size") != NULL)
        fail("cls_context_program", cls_error_message());
    UNTOUCHED(program_info);
    GUARDED(cls_selftest_report, report);
    MUST(cls_selftest(context, &report.s));
    UNTOUCHED(report);
    if (report.s.stage_count == 0)
        fail("cls_selftest", "no stages");

    GUARDED(cls_sampler_options, sampler_options);
    sampler_options.s.vocab = VOCAB;
    sampler_options.s.max_rows = 2;
    sampler_options.s.max_history = 20;
    sampler_options.s.late_compile = 1;
    MUST(cls_sampler_create(context, &sampler_options.s, &sampler));
    UNTOUCHED(sampler_options);
    GUARDED(cls_memory, memory);
    MUST(cls_sampler_memory(sampler, &memory.s));
    UNTOUCHED(memory);
    if (memory.s.host == 0)
        fail("cls_sampler_memory", "no bytes on the host");
    for (int i = 0; i < VOCAB; i++)
        prefix_of[i] = -1;
    GUARDED(cls_infill, infill);
    infill.s.end_ids = end;
    infill.s.prefix_of = prefix_of;
    MUST(cls_sampler_infill(sampler, &infill.s));
    UNTOUCHED(infill);

    GUARDED(cls_grammar_options, grammar_options);
    grammar_options.s.vocab = VOCAB;
    grammar_options.s.states = 1;
    grammar_options.s.offsets = state_offsets;
    grammar_options.s.ids = ids;
    grammar_options.s.next = next;
    MUST(cls_grammar_create(&grammar_options.s, &grammar));
    UNTOUCHED(grammar_options);
    GUARDED(cls_grammar_info, grammar_info);
    MUST(cls_grammar_query(grammar, &grammar_info.s));
    UNTOUCHED(grammar_info);
    if (grammar_info.s.vocab != VOCAB)
        fail("cls_grammar_query", "another vocabulary");
    unsigned char bytes[1024];
    size_t size = sizeof bytes;
    MUST(cls_grammar_save(grammar, NULL, bytes, &size));
    cls_grammar_destroy(grammar);
    GUARDED(cls_saved_grammar, saved);
    saved.s.bytes = bytes;
    saved.s.size = size;
    MUST(cls_grammar_load(&saved.s, &grammar));
    UNTOUCHED(saved);
    cls_grammar_destroy(grammar);

    GUARDED(cls_params, answer);
    GUARDED(cls_params, params);
    answer.s.top_k = params.s.top_k = 1;
    params.s.thinking_start = start;
    params.s.thinking_ends = (cls_sequences){&end, 1};
    params.s.post_thinking = &answer.s;
    GUARDED(cls_text, begun);
    begun.s.prompt = (cls_ids){text, 5};
    MUST(cls_slot_begin(sampler, 0, &params.s, &begun.s));
    UNTOUCHED(begun);
    UNTOUCHED(params);
    UNTOUCHED(answer);

    GUARDED(cls_outputs, outputs);
    outputs.s.logprobs = memory_of(&logprob, sizeof logprob);
    GUARDED(cls_step, step);
    step.s.rows = 1;
    step.s.logits.values = memory_of(logits, sizeof logits);
    step.s.tokens = memory_of(token, sizeof *token);
    step.s.outputs = &outputs.s;
    MUST(cls_sample(sampler, NULL, &step.s, 0, NULL, NULL));
    UNTOUCHED(step);
    UNTOUCHED(outputs);
    if (token[0] != 7 || !(logprob <= 0.0f))
        fail("cls_sample", "another token");
    GUARDED(cls_accept_call, accept);
    accept.s.rows = 1;
    accept.s.tokens.host = text;
    MUST(cls_accept(sampler, NULL, &accept.s, 0, NULL, NULL));
    UNTOUCHED(accept);
    GUARDED(cls_logprobs_call, logprobs);
    logprobs.s.rows = 2;
    logprobs.s.logits = step.s.logits;
    logprobs.s.top.count = 1;
    logprobs.s.top.ids = memory_of(token, 2 * sizeof *token);
    MUST(cls_logprobs(sampler, NULL, &logprobs.s, 0, NULL, NULL));
    UNTOUCHED(logprobs);
    if (token[0] != 7 || token[1] != 9)
        fail("cls_logprobs", "other tokens");
    GUARDED(cls_verify_call, verify);
    verify.s.requests = 1;
    verify.s.method = CLS_VERIFY_MATCH;
    verify.s.row_offsets = offsets;
    verify.s.logits = step.s.logits;
    verify.s.draft_ids.host = &draft;
    verify.s.tokens = memory_of(token, 2 * sizeof *token);
    MUST(cls_verify(sampler, NULL, &verify.s, 0, NULL, NULL));
    UNTOUCHED(verify);
    if (token[0] != 7 || token[1] != 9)
        fail("cls_verify", "other tokens");
    MUST(cls_slot_begin(sampler, 0, &params.s, &begun.s));
    GUARDED(cls_draft_call, drafts);
    drafts.s.requests = 1;
    drafts.s.k = 1;
    drafts.s.slots.host = &slot;
    drafts.s.draft_ids = memory_of(token, sizeof *token);
    MUST(cls_draft(sampler, NULL, &drafts.s, 0, NULL, NULL));
    UNTOUCHED(drafts);
    if (token[0] != 3)
        fail("cls_draft", "another draft");

    GUARDED(cls_watermark_call, watermark);
    GUARDED(cls_watermark_score, score);
    watermark.s.output = (cls_ids){text, 5};
    watermark.s.context = 1;
    MUST(cls_watermark_detect(&watermark.s, &score.s));
    UNTOUCHED(watermark);
    UNTOUCHED(score);
    if (score.s.scored != 4)
        fail("cls_watermark_detect", "another number of contexts");

    GUARDED(cls_host_candidates, candidates);
    candidates.s.ids = ids;
    candidates.s.logits = logits;
    candidates.s.count = 1;
    MUST(cls_host_draw(&candidates.s, &count));
    UNTOUCHED(candidates);
    GUARDED(cls_shard_options, shard_options);
    const cls_status sharded = cls_shard_create(sampler, &shard_options.s, &shard);
    if (sharded != CLS_OK && strstr(cls_error_message(), "struct_size") != NULL)
        fail("cls_shard_create", cls_error_message());
    UNTOUCHED(shard_options);
    if (sharded == CLS_OK) {
        GUARDED(cls_shard_info, shard_info);
        MUST(cls_shard_query(shard, &shard_info.s));
        UNTOUCHED(shard_info);
        cls_shard_destroy(shard);
    }
    cls_sampler_destroy(sampler);
    cls_context_destroy(context);
    puts("all calls take and fill their structs");
    return 0;
}
