/* SPDX-License-Identifier: MIT */
/* The self-test of steps: all cases run in one batch, each in its row and slot. Those of forced
 * tokens run in another one, since another kernel ends such steps. */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------- requests */

/* Returns the slot after those of the cases, from which requests are copied or saved. */
static uint32_t spare(void) { return cls_selftest_case_count; }

static cls_status begin(cls_selftest_run *t, uint32_t slot, const cls_params *params,
                        const cls_host_row *text, uint32_t without)
{
    const cls_status status =
        cls_slot_begin(t->sampler, slot, params, text->prompt, text->prompt_count, text->output,
                       text->output_count - without);
    return status == CLS_OK && text->forced_count != 0
               ? cls_slot_force(t->sampler, slot, text->forced_ids, text->forced_count)
               : status;
}

static cls_status by_load(cls_selftest_run *t, uint32_t slot, const cls_params *params,
                          const cls_host_row *text)
{
    size_t size = 0;
    void *bytes = NULL;
    cls_status status = begin(t, spare(), params, text, 0);
    if (status == CLS_OK)
        status = cls_slot_save(t->sampler, t->queue, spare(), NULL, &size);
    if (status == CLS_OK && (bytes = malloc(size)) == NULL)
        status = cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    if (status == CLS_OK)
        status = cls_slot_save(t->sampler, t->queue, spare(), bytes, &size);
    if (status == CLS_OK)
        status = cls_slot_load(t->sampler, slot, bytes, size);
    free(bytes);
    return status;
}

/* Sets up the request of a case. Tokens that are to be accepted are left out. */
static cls_status open_case(cls_selftest_run *t, uint32_t i)
{
    cls_params params, others;
    cls_host_row text;
    cls_status status;
    cls_params_init(&others);
    others.temperature = 2.0f;
    cls_selftest_params(i, &params);
    cls_host_row_init(&text);
    cls_selftest_text(i, &text);
    switch (cls_selftest_cases[i].setup) {
    case BY_ACCEPT:
    case BY_ROLLBACK:
        return begin(t, i, &params, &text, 2);
    case BY_LOAD:
        return by_load(t, i, &params, &text);
    case BY_COPY:
        status = begin(t, spare(), &others, &text, 0);
        if (status == CLS_OK)
            status = cls_slot_copy(t->sampler, i, spare());
        return status == CLS_OK ? cls_slot_params(t->sampler, i, &params) : status;
    case BY_APPEND:
        status = cls_slot_begin(t->sampler, i, &params, text.prompt, 4, NULL, 0);
        return status == CLS_OK
                   ? cls_slot_append_prompt(t->sampler, i, text.prompt + 4, text.prompt_count - 4)
                   : status;
    case BY_RESET:
        status =
            cls_slot_begin(t->sampler, i, &others, text.output, text.output_count, text.prompt, 3);
        if (status == CLS_OK)
            status = cls_slot_reset(t->sampler, i);
        break;
    default:
        status = CLS_OK;
        break;
    }
    return status == CLS_OK ? begin(t, i, &params, &text, 0) : status;
}

/* Accepts the last two tokens of the outputs of BY_ACCEPT and BY_ROLLBACK, and for the latter one
 * more token, which is rolled back. */
static cls_status accept_last(cls_selftest_run *t)
{
    int32_t slots[8], tokens[3][8];
    cls_accept_call call;
    uint32_t n = 0;
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < cls_selftest_case_count && n < 8; i++) {
        const int setup = cls_selftest_cases[i].setup;
        cls_host_row text;
        if (setup != BY_ACCEPT && setup != BY_ROLLBACK)
            continue;
        cls_host_row_init(&text);
        cls_selftest_text(i, &text);
        tokens[0][n] = text.output[text.output_count - 2];
        tokens[1][n] = text.output[text.output_count - 1];
        tokens[2][n] = setup == BY_ROLLBACK ? 13 : -1;
        slots[n++] = (int32_t)i;
    }
    cls_accept_call_init(&call);
    call.rows = n;
    call.slots.host = slots;
    for (int j = 0; j < 3 && status == CLS_OK; j++) {
        call.tokens.host = tokens[j];
        status = cls_accept(t->sampler, t->queue, &call, 0, NULL, NULL);
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++)
        if (tokens[2][i] >= 0)
            status = cls_slot_rollback(t->sampler, (uint32_t)slots[i], 1);
    return status;
}

/* ----------------------------------------------------------------------- steps */

typedef struct inputs {
    cl_mem logits, words, dense[2], tokens, status;
    int32_t *maps[4]; /* draws, masks, biases, slots */
    uint8_t bools[SELFTEST_VOCAB];
} inputs;

static cls_status upload_logits(cls_selftest_run *t, inputs *in)
{
    const size_t size = SELFTEST_VOCAB * cls_dtype_size(t->dtype);
    char *const rows = malloc(size * cls_selftest_case_count);
    if (rows == NULL)
        return cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    for (uint32_t i = 0; i < cls_selftest_case_count; i++)
        cls_selftest_row(cls_selftest_seed(i), cls_selftest_cases[i].row, t->dtype,
                         rows + i * size);
    const cls_status status =
        cls_selftest_buffer(t, size * cls_selftest_case_count, rows, &in->logits);
    free(rows);
    return status;
}

static cls_status open_inputs(cls_selftest_run *t, inputs *in)
{
    const uint32_t n = cls_selftest_case_count;
    uint32_t words[(SELFTEST_VOCAB + 31) / 32];
    float dense[SELFTEST_VOCAB];
    memset(in, 0, sizeof *in);
    cls_status status = upload_logits(t, in);
    cls_selftest_mask(CLS_MASK_BOOL, in->bools);
    cls_selftest_mask(CLS_MASK_PACKED, words);
    if (status == CLS_OK)
        status = cls_selftest_buffer(t, sizeof words, words, &in->words);
    for (int i = 0; i < 2 && status == CLS_OK; i++) {
        cls_selftest_dense(i == 0 ? CLS_F32 : CLS_F16, dense);
        status = cls_selftest_buffer(t, sizeof dense, dense, &in->dense[i]);
    }
    if (status == CLS_OK)
        status = cls_selftest_buffer(t, n * sizeof(int32_t), NULL, &in->tokens);
    if (status == CLS_OK)
        status = cls_selftest_buffer(t, n * sizeof(int32_t), NULL, &in->status);
    for (int i = 0; i < 4 && status == CLS_OK; i++)
        if ((in->maps[i] = malloc(n * sizeof(int32_t))) == NULL)
            status =
                cls_fail(CLS_OUT_OF_MEMORY, CL_SUCCESS, "out of host memory for the self-test");
    for (uint32_t i = 0; i < n && status == CLS_OK; i++) {
        in->maps[0][i] = cls_selftest_cases[i].draw;
        in->maps[1][i] = cls_selftest_cases[i].with & WITH_MASK ? 0 : -1;
        in->maps[2][i] = cls_selftest_cases[i].with & WITH_DENSE ? 0 : -1;
        in->maps[3][i] = (int32_t)i;
    }
    return status;
}

static void close_inputs(inputs *in)
{
    const cl_mem all[] = {in->logits,   in->words,  in->dense[0],
                          in->dense[1], in->tokens, in->status};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] != NULL)
            clReleaseMemObject(all[i]);
    for (int i = 0; i < 4; i++)
        free(in->maps[i]);
}

/* Samples the cases from `first` to `end`. */
static cls_status run_step(cls_selftest_run *t, const inputs *in, uint32_t which, uint32_t first,
                           uint32_t end)
{
    const uint32_t n = end - first, at = which * cls_selftest_case_count + first;
    const size_t size = n * sizeof(int32_t);
    cls_step step;
    cls_step_init(&step);
    step.rows = n;
    step.logits.dtype = t->dtype;
    step.logits.values.buffer = in->logits;
    step.logits.values.offset = (uint64_t)first * SELFTEST_VOCAB * cls_dtype_size(t->dtype);
    step.slots.host = in->maps[3] + first;
    step.draws.host = in->maps[0] + first;
    step.mask.row_map.host = in->maps[1] + first;
    step.mask.rows = 1;
    if (which == 0) {
        step.mask.words.buffer = in->words;
    } else {
        step.mask.kind = CLS_MASK_BOOL;
        step.mask.host = in->bools;
    }
    step.bias.values.buffer = in->dense[which];
    step.bias.dtype = which == 0 ? CLS_F32 : CLS_F16;
    step.bias.rows = 1;
    step.bias.row_map.host = in->maps[2] + first;
    step.tokens.buffer = in->tokens;
    step.status.buffer = in->status;
    cls_status status = cls_sample(t->sampler, t->queue, &step, 0, NULL, NULL);
    if (status == CLS_OK)
        status = cls_sampler_trace(t->sampler, t->queue, t->trace + at, n);
    if (status == CLS_OK)
        status = cls_selftest_read(t, in->tokens, size, t->token + at);
    return status == CLS_OK ? cls_selftest_read(t, in->status, size, t->status + at) : status;
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
    const uint32_t answer = i * SELFTEST_STEPS + step,
                   run_index = step * cls_selftest_case_count + i;
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

cls_status cls_selftest_steps(cls_selftest_run *t)
{
    const uint32_t forced = cls_selftest_first_forced();
    inputs in;
    cls_status status = open_inputs(t, &in);
    for (uint32_t i = 0; i < cls_selftest_case_count && status == CLS_OK; i++)
        status = open_case(t, i);
    if (status == CLS_OK)
        status = accept_last(t);
    for (uint32_t step = 0; step < SELFTEST_STEPS && status == CLS_OK; step++) {
        status = run_step(t, &in, step, 0, forced);
        if (status == CLS_OK)
            status = run_step(t, &in, step, forced, cls_selftest_case_count);
    }
    close_inputs(&in);
    for (uint32_t i = 0; i < cls_selftest_case_count && status == CLS_OK; i++) {
        char name[64] = "", difference[128] = "", message[200] = "";
        for (uint32_t step = 0; step < SELFTEST_STEPS && *difference == '\0'; step++) {
            compare_step(t, i, step, difference, sizeof difference);
            cls_selftest_name(t, cls_selftest_cases[i].name, step, name, sizeof name);
        }
        if (*difference != '\0')
            snprintf(message, sizeof message, "%s: %s", name, difference);
        cls_selftest_count(t, cls_selftest_cases[i].stage, message);
    }
    return status;
}
