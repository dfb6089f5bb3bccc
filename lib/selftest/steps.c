/* SPDX-License-Identifier: MIT */
/* The self-test of steps: all cases run in one batch, each in its row and slot. Those of forced
 * tokens run in another one, since another kernel ends such steps, and so do those of a shard. */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------- requests */

/* Returns the slot after those of the cases, from which requests are copied or saved. */
static uint32_t spare(const cls_selftest_run *t) { return t->selection.count; }

static cls_status begin(cls_selftest_run *t, uint32_t slot, const cls_params *params,
                        const cls_host_row *text, uint32_t without)
{
    const cls_status status =
        cls_try_begin(t->sampler, slot, params, text->prompt, text->prompt_count, text->output,
                      text->output_count - without);
    return status == CLS_OK && text->forced_count != 0
               ? cls_try_force(t->sampler, slot, text->forced_ids, text->forced_count)
               : status;
}

static cls_status by_load(cls_selftest_run *t, uint32_t slot, const cls_params *params,
                          const cls_host_row *text)
{
    size_t size = 0;
    void *bytes = NULL;
    cls_status status = begin(t, spare(t), params, text, 0);
    if (status == CLS_OK)
        status = cls_slot_save(t->sampler, t->queue, spare(t), NULL, &size);
    if (status == CLS_OK && (bytes = malloc(size)) == NULL)
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    if (status == CLS_OK)
        status = cls_slot_save(t->sampler, t->queue, spare(t), bytes, &size);
    if (status == CLS_OK)
        status = cls_try_load(t->sampler, slot, bytes, size, params->grammar);
    free(bytes);
    return status;
}

static cls_status open_with(cls_selftest_run *t, uint32_t i, const cls_params *params)
{
    const uint32_t which = t->selection.cases[i];
    cls_params others;
    cls_host_row text;
    cls_status status;
    cls_params_init(&others);
    others.temperature = 2.0f;
    cls_host_row_init(&text);
    cls_selftest_text(which, t->selection.vocab, &text);
    switch (cls_selftest_cases[which].setup) {
    case BY_ACCEPT:
    case BY_ROLLBACK:
    case BY_REPLACE:
        return begin(t, i, params, &text, 2);
    case BY_LOAD:
        return by_load(t, i, params, &text);
    case BY_COPY:
        status = begin(t, spare(t), &others, &text, 0);
        if (status == CLS_OK)
            status = cls_try_copy(t->sampler, i, spare(t));
        return status == CLS_OK ? cls_try_params(t->sampler, i, params) : status;
    case BY_APPEND:
        status = cls_try_begin(t->sampler, i, params, text.prompt, 4, NULL, 0);
        return status == CLS_OK
                   ? cls_slot_append_prompt(t->sampler, i, text.prompt + 4, text.prompt_count - 4)
                   : status;
    case BY_RESET:
        status =
            cls_try_begin(t->sampler, i, &others, text.output, text.output_count, text.prompt, 3);
        if (status == CLS_OK)
            status = cls_slot_reset(t->sampler, i);
        break;
    default:
        status = CLS_OK;
        break;
    }
    return status == CLS_OK ? begin(t, i, params, &text, 0) : status;
}

/* Sets up the request of a case in slot i. Tokens that are to be accepted are left out. */
static cls_status open_case(cls_selftest_run *t, uint32_t i)
{
    const uint32_t which = t->selection.cases[i];
    cls_params params;
    cls_selftest_params(which, t->selection.vocab, &params);
    cls_status status = cls_selftest_grammar(which, t->selection.vocab, &params);
    if (status == CLS_OK)
        status = open_with(t, i, &params);
    cls_grammar_release(params.grammar);
    return status;
}

/* Accepts for the requests of BY_REPLACE the last two tokens of their outputs, in place of three
 * others, the first of which is the right one. */
static cls_status replace_last(cls_selftest_run *t)
{
    int32_t slots[SELFTEST_MOST_CASES], tokens[SELFTEST_MOST_CASES][3], counts[SELFTEST_MOST_CASES],
        rollback[SELFTEST_MOST_CASES];
    cls_accept_call call;
    cls_accept_call_init(&call);
    for (uint32_t i = 0; i < t->selection.count; i++) {
        cls_host_row text;
        if (cls_selftest_cases[t->selection.cases[i]].setup != BY_REPLACE)
            continue;
        cls_host_row_init(&text);
        cls_selftest_text(t->selection.cases[i], t->selection.vocab, &text);
        memcpy(tokens[call.rows], text.output + text.output_count - 2, 2 * sizeof **tokens);
        tokens[call.rows][2] = 13;
        counts[call.rows] = 2;
        rollback[call.rows] = 3;
        slots[call.rows++] = (int32_t)i;
    }
    call.per_row = 3;
    call.tokens.host = tokens[0];
    call.slots.host = slots;
    call.counts.host = counts;
    call.rollback.host = rollback;
    return call.rows != 0 ? cls_accept(t->sampler, t->queue, &call, 0, NULL, NULL) : CLS_OK;
}

/* Accepts the last two tokens of the outputs of BY_ACCEPT and BY_ROLLBACK, and for the latter one
 * more token, which is rolled back. */
static cls_status accept_last(cls_selftest_run *t)
{
    int32_t slots[SELFTEST_MOST_CASES], tokens[3][SELFTEST_MOST_CASES];
    cls_accept_call call;
    uint32_t n = 0;
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < t->selection.count; i++) {
        const int setup = cls_selftest_cases[t->selection.cases[i]].setup;
        cls_host_row text;
        if (setup != BY_ACCEPT && setup != BY_ROLLBACK && setup != BY_REPLACE)
            continue;
        cls_host_row_init(&text);
        cls_selftest_text(t->selection.cases[i], t->selection.vocab, &text);
        tokens[0][n] = text.output[text.output_count - 2];
        tokens[1][n] = setup == BY_REPLACE ? 13 : text.output[text.output_count - 1];
        tokens[2][n] = setup == BY_ACCEPT ? -1 : 13;
        slots[n++] = (int32_t)i;
    }
    cls_accept_call_init(&call);
    call.rows = n;
    call.slots.host = slots;
    for (int j = 0; j < 3 && n != 0 && status == CLS_OK; j++) {
        call.tokens.host = tokens[j];
        status = cls_accept(t->sampler, t->queue, &call, 0, NULL, NULL);
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++)
        if (tokens[2][i] >= 0 && tokens[1][i] != 13)
            status = cls_try_rollback(t->sampler, (uint32_t)slots[i], 1);
    return status == CLS_OK ? replace_last(t) : status;
}

/* ----------------------------------------------------------------------- steps */

/* Creates a buffer with the first `size` bytes of `data`, which were written if `status` is OK. */
static cls_status upload_inputs(cls_selftest_run *t, cls_status status, size_t size,
                                const void *data, cl_mem *out)
{
    return status == CLS_OK ? cls_selftest_buffer(t, size, data, out) : status;
}

static cls_status open_buffers(cls_selftest_run *t, char *scratch)
{
    const uint32_t n = t->selection.count, vocab = t->selection.vocab;
    const size_t size = vocab * cls_dtype_size(t->dtype), ints = n * sizeof(int32_t);
    cls_selftest_inputs *const in = &t->in;
    for (uint32_t i = 0; i < n; i++)
        cls_selftest_row(cls_selftest_seed(t->selection.cases[i]),
                         cls_selftest_cases[t->selection.cases[i]].row, t->dtype, vocab,
                         scratch + i * size);
    cls_status status = upload_inputs(t, CLS_OK, n * size, scratch, &in->logits);
    cls_selftest_mask(CLS_MASK_PACKED, vocab, scratch);
    status = upload_inputs(t, status, (vocab + 31) / 32 * sizeof(uint32_t), scratch, &in->words);
    for (int i = 0; i < CLS_DTYPES; i++) {
        cls_selftest_dense(i, vocab, scratch);
        status = upload_inputs(t, status, vocab * sizeof(float), scratch, &in->dense[i]);
    }
    status = upload_inputs(t, status, ints, NULL, &in->tokens);
    return upload_inputs(t, status, ints, NULL, &in->status);
}

static cls_status open_inputs(cls_selftest_run *t)
{
    char *const scratch =
        malloc(((size_t)t->selection.count + 1) * t->selection.vocab * sizeof(float));
    if (scratch == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    const cls_status status = open_buffers(t, scratch);
    free(scratch);
    cls_selftest_mask(CLS_MASK_BOOL, t->selection.vocab, t->in.bools);
    for (uint32_t i = 0; i < t->selection.count; i++) {
        const cls_selftest_case *const c = &cls_selftest_cases[t->selection.cases[i]];
        t->in.maps[0][i] = c->draw;
        t->in.maps[1][i] = c->with & WITH_MASK ? 0 : -1;
        t->in.maps[2][i] = c->with & WITH_DENSE ? 0 : -1;
        t->in.maps[3][i] = (int32_t)i;
    }
    return status;
}

void cls_selftest_inputs_release(cls_selftest_inputs *in)
{
    cl_mem *const all[] = {&in->logits,   &in->words,  &in->dense[0], &in->dense[1],
                           &in->dense[2], &in->tokens, &in->status};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (*all[i] != NULL) {
            clReleaseMemObject(*all[i]);
            *all[i] = NULL;
        }
}

void cls_selftest_guide(const cls_selftest_run *t, int packed, const int32_t *masks,
                        const int32_t *biases, cls_step *step)
{
    if (t->sampler->features & CLS_FEATURE_MASK) {
        step->mask.row_map.host = masks;
        step->mask.rows = 1;
        step->mask.kind = packed ? CLS_MASK_PACKED : CLS_MASK_BOOL;
        step->mask.words.buffer = packed ? t->in.words : NULL;
        step->mask.host = packed ? NULL : t->in.bools;
    }
    if (t->sampler->features & CLS_FEATURE_BIAS) {
        step->bias.row_map.host = biases;
        step->bias.rows = 1;
        step->bias.dtype = packed ? CLS_F32 : CLS_F16;
        step->bias.values.buffer = t->in.dense[packed ? 0 : 1];
    }
}

/* Runs a step, by a shard that has the whole vocabulary if the cases want one. Tokens are the same
 * without it. */
#ifdef CLS_WITHOUT_SHARDS
static cls_status sample_cases(cls_selftest_run *t, const cls_step *step, int by_shard)
{
    (void)by_shard;
    return cls_sample(t->sampler, t->queue, step, 0, NULL, NULL);
}
#else
static cls_status sample_cases(cls_selftest_run *t, const cls_step *step, int by_shard)
{
    cls_shard *shard = NULL;
    const void *partial;
    size_t size;
    int more = 1;
    if (!by_shard)
        return cls_sample(t->sampler, t->queue, step, 0, NULL, NULL);
    cls_status status = cls_try_shard(t->sampler, NULL, &shard);
    if (status == CLS_OK)
        status = cls_shard_sample(shard, t->queue, step, 0, NULL);
    while (status == CLS_OK && more) {
        status = cls_shard_partial(shard, &partial, &size);
        if (status == CLS_OK)
            status = cls_shard_merge(shard, partial, size, &more, NULL);
    }
    cls_shard_destroy(shard);
    return status;
}
#endif

/* Returns the stage of cases that have a batch of their own; others have 0. */
static int batch_of(const cls_selftest_run *t, uint32_t i)
{
    const int stage = cls_selftest_cases[t->selection.cases[i]].stage;
    return stage == ST_FORCED || stage == ST_SHARDS ? stage : 0;
}

/* Samples the cases from `first` to `end`. */
static cls_status run_step(cls_selftest_run *t, uint32_t which, uint32_t first, uint32_t end)
{
    const cls_selftest_inputs *const in = &t->in;
    const uint32_t n = end - first, at = which * t->selection.count + first;
    const size_t size = n * sizeof(int32_t);
    cls_step step;
    cls_step_init(&step);
    step.rows = n;
    step.logits.dtype = t->dtype;
    step.logits.values.buffer = in->logits;
    step.logits.values.offset = (uint64_t)first * t->selection.vocab * cls_dtype_size(t->dtype);
    step.slots.host = in->maps[3] + first;
    step.draws.host = in->maps[0] + first;
    cls_selftest_guide(t, which == 0, in->maps[1] + first, in->maps[2] + first, &step);
    step.tokens.buffer = in->tokens;
    step.status.buffer = in->status;
    cls_status status = sample_cases(t, &step, batch_of(t, first) == ST_SHARDS);
    if (status == CLS_OK)
        status = cls_selftest_read(t, in->tokens, size, t->token + at);
    if (status == CLS_OK)
        status = cls_selftest_read(t, in->status, size, t->status + at);
    return status == CLS_OK ? cls_sampler_trace(t->sampler, t->queue, t->trace + at, n) : status;
}

/* -------------------------------------------------------------------- checking */

/* Returns 1 if a value of the device's set or draw differs from the host's, and describes it. */
static int set_differs(const cls_row *d, const cls_row *h, char *out, size_t size)
{
    const struct {
        const char *name;
        uint64_t ours, hosts;
    } all[] = {
        {"tokens kept", d->kept != 0 ? d->kept : h->kept, h->kept},
        {"largest key", (uint32_t)d->top_key, (uint32_t)h->top_key},
        {"scale", cls_as_u32(d->scale), cls_as_u32(h->scale)},
        {"mass", d->mass, h->mass},
        {"adapted mass", h->adapted != 0 ? d->adapted : 0, h->adapted},
        {"number drawn", d->drawn, h->drawn},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].ours != all[i].hosts) {
            snprintf(out, size, "%s 0x%llx, not 0x%llx", all[i].name,
                     (unsigned long long)all[i].ours, (unsigned long long)all[i].hosts);
            return 1;
        }
    return 0;
}

/* Writes how a step of a case differs from the answer, or "". */
static void compare_step(const cls_selftest_run *t, uint32_t i, uint32_t step, char *out,
                         size_t size)
{
    const uint32_t answer = i * SELFTEST_STEPS + step, run_index = step * t->selection.count + i;
    const cls_selftest_known *const known = &t->known[answer], *const host = &t->host.known[answer];
    const cls_row *const trace = &t->host.trace[answer];
    const int host_differs = host->token != known->token || host->digest != known->digest;
    char more[96];
    *out = '\0';
    if (host->token != known->token && t->token[run_index] != known->token)
        snprintf(out, size, "device: token %d, host: token %d, not %d", (int)t->token[run_index],
                 (int)host->token, (int)known->token);
    else if (t->token[run_index] != known->token)
        snprintf(out, size, "device: token %d, not %d", (int)t->token[run_index],
                 (int)known->token);
    else if (host->token != known->token)
        snprintf(out, size, "host: token %d, not %d", (int)host->token, (int)known->token);
    else if (host_differs)
        snprintf(out, size, "host: token %d, but digest 0x%08x, not 0x%08x", (int)host->token,
                 (unsigned)host->digest, (unsigned)known->digest);
    else if (t->status[run_index] != (int32_t)trace->status)
        snprintf(out, size, "device: token %d, but status %d, not %d", (int)known->token,
                 (int)t->status[run_index], (int)trace->status);
    else if (trace->mass != 0 && /* it is 0 for greedy requests and rows without a token */
             set_differs(&t->trace[run_index], trace, more, sizeof more))
        snprintf(out, size, "device: token %d, but %s", (int)known->token, more);
}

static void check_case(cls_selftest_run *t, uint32_t i)
{
    const cls_selftest_case *const c = &cls_selftest_cases[t->selection.cases[i]];
    char name[64] = "", difference[128] = "", message[200] = "";
    for (uint32_t step = 0; step < SELFTEST_STEPS && *difference == '\0'; step++) {
        compare_step(t, i, step, difference, sizeof difference);
        cls_selftest_name(t, c->name, step, name, sizeof name);
    }
    if (*difference != '\0')
        snprintf(message, sizeof message, "%s: %s", name, difference);
    cls_selftest_count(t, c->stage, message);
}

cls_status cls_selftest_steps(cls_selftest_run *t)
{
    const uint32_t n = t->selection.count;
    cls_status status = open_inputs(t);
    for (uint32_t i = 0; i < n && status == CLS_OK; i++)
        status = open_case(t, i);
    if (status == CLS_OK)
        status = accept_last(t);
    for (uint32_t step = 0; step < SELFTEST_STEPS; step++)
        for (uint32_t first = 0, end; first < n && status == CLS_OK; first = end) {
            for (end = first + 1; end < n && batch_of(t, end) == batch_of(t, first);)
                end++;
            status = run_step(t, step, first, end);
        }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++)
        check_case(t, i);
    return status;
}
