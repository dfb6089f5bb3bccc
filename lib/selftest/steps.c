/* SPDX-License-Identifier: MIT */
/* The self-test of steps: all cases run in one batch, each in its row and slot. Those of forced
 * tokens run in another one, since another kernel ends such steps, and so do those of a shard. */
#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------- requests */

/* Returns the slot after those of the cases, from which requests are copied or saved. */
static uint32_t spare(const cls_selftest_run *t) { return t->selection.count; }

cls_status cls_selftest_begin(const cls_selftest_side *s, uint32_t slot, const cls_params *params,
                              cls_ids prompt, cls_ids output)
{
    cls_text text;
    cls_text_init(&text);
    text.prompt = prompt;
    text.output = output;
    return cls_slot_begin(s->sampler, slot, params, &text);
}

static cls_status begin(const cls_selftest_side *s, uint32_t slot, const cls_params *params,
                        const cls_selftest_ids *text, uint32_t without)
{
    const cls_ids output = {text->output.ids, text->output.count - without};
    const cls_status status = cls_selftest_begin(s, slot, params, text->prompt, output);
    return status == CLS_OK && text->forced.count != 0
               ? cls_slot_force(s->sampler, slot, text->forced.ids, text->forced.count)
               : status;
}

static cls_status by_load(const cls_selftest_run *t, const cls_selftest_side *s, uint32_t slot,
                          const cls_params *params, const cls_selftest_ids *text)
{
    size_t size = 0;
    void *bytes = NULL;
    cls_status status = begin(s, spare(t), params, text, 0);
    if (status == CLS_OK)
        status = cls_slot_save(s->sampler, s->queue, spare(t), NULL, &size);
    if (status == CLS_OK && (bytes = malloc(size)) == NULL)
        status = cls_no_memory("the self-test");
    if (status == CLS_OK)
        status = cls_slot_save(s->sampler, s->queue, spare(t), bytes, &size);
    if (status == CLS_OK)
        status = cls_slot_load(s->sampler, slot, bytes, size, params->grammar);
    free(bytes);
    return status;
}

static cls_status open_with(const cls_selftest_run *t, const cls_selftest_side *s, uint32_t i,
                            const cls_params *params)
{
    const uint32_t which = t->selection.cases[i];
    const cls_selftest_ids text = cls_selftest_text(which, t->selection.vocab);
    const int32_t *const prompt = text.prompt.ids;
    cls_params others;
    cls_status status;
    cls_params_init(&others);
    others.temperature = 2.0f;
    switch (cls_selftest_cases[which].setup) {
    case BY_ACCEPT:
    case BY_ROLLBACK:
    case BY_REPLACE:
        return begin(s, i, params, &text, 2);
    case BY_LOAD:
        return by_load(t, s, i, params, &text);
    case BY_COPY:
        status = begin(s, spare(t), &others, &text, 0);
        if (status == CLS_OK)
            status = cls_slot_copy(s->sampler, i, spare(t));
        return status == CLS_OK ? cls_slot_params(s->sampler, i, params) : status;
    case BY_APPEND:
        status = cls_selftest_begin(s, i, params, (cls_ids){prompt, 4}, (cls_ids){NULL, 0});
        return status == CLS_OK
                   ? cls_slot_append_prompt(s->sampler, i, prompt + 4, text.prompt.count - 4)
                   : status;
    case BY_RESET:
        status = cls_selftest_begin(s, i, &others, text.output, (cls_ids){prompt, 3});
        if (status == CLS_OK)
            status = cls_slot_reset(s->sampler, i);
        break;
    default:
        status = CLS_OK;
        break;
    }
    return status == CLS_OK ? begin(s, i, params, &text, 0) : status;
}

/* Sets up the request of a case in slot i. Tokens that are to be accepted are left out. */
static cls_status open_case(const cls_selftest_run *t, const cls_selftest_side *s, uint32_t i)
{
    const uint32_t which = t->selection.cases[i];
    cls_params params[2];
    cls_selftest_params(which, t->selection.vocab, params);
    cls_status status = cls_selftest_grammar(which, t->selection.vocab, params);
    if (status == CLS_OK)
        status = open_with(t, s, i, params);
    cls_grammar_release(params[0].grammar);
    return status;
}

/* Accepts for the requests of BY_REPLACE the last two tokens of their outputs, in place of three
 * others, the first of which is the right one. */
static cls_status replace_last(const cls_selftest_run *t, const cls_selftest_side *s)
{
    int32_t slots[SELFTEST_MOST_CASES], tokens[SELFTEST_MOST_CASES][3], counts[SELFTEST_MOST_CASES],
        rollback[SELFTEST_MOST_CASES];
    cls_accept_call call;
    cls_accept_call_init(&call);
    for (uint32_t i = 0; i < t->selection.count; i++) {
        const uint32_t which = t->selection.cases[i];
        if (cls_selftest_cases[which].setup != BY_REPLACE)
            continue;
        const cls_ids output = cls_selftest_text(which, t->selection.vocab).output;
        memcpy(tokens[call.rows], output.ids + output.count - 2, 2 * sizeof **tokens);
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
    return call.rows != 0 ? cls_accept(s->sampler, s->queue, &call, 0, NULL, NULL) : CLS_OK;
}

/* Accepts the last two tokens of the outputs of BY_ACCEPT and BY_ROLLBACK, and for the latter one
 * more token, which is rolled back. */
static cls_status accept_last(const cls_selftest_run *t, const cls_selftest_side *s)
{
    int32_t slots[SELFTEST_MOST_CASES], tokens[3][SELFTEST_MOST_CASES];
    cls_accept_call call;
    uint32_t n = 0;
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < t->selection.count; i++) {
        const uint32_t which = t->selection.cases[i];
        const int setup = cls_selftest_cases[which].setup;
        if (setup != BY_ACCEPT && setup != BY_ROLLBACK && setup != BY_REPLACE)
            continue;
        const cls_ids output = cls_selftest_text(which, t->selection.vocab).output;
        tokens[0][n] = output.ids[output.count - 2];
        tokens[1][n] = setup == BY_REPLACE ? 13 : output.ids[output.count - 1];
        tokens[2][n] = setup == BY_ACCEPT ? -1 : 13;
        slots[n++] = (int32_t)i;
    }
    cls_accept_call_init(&call);
    call.rows = n;
    call.slots.host = slots;
    for (int j = 0; j < 3 && n != 0 && status == CLS_OK; j++) {
        call.tokens.host = tokens[j];
        status = cls_accept(s->sampler, s->queue, &call, 0, NULL, NULL);
    }
    for (uint32_t i = 0; i < n && status == CLS_OK; i++)
        if (tokens[2][i] >= 0 && tokens[1][i] != 13)
            status = cls_slot_rollback(s->sampler, (uint32_t)slots[i], 1);
    return status == CLS_OK ? replace_last(t, s) : status;
}

/* ----------------------------------------------------------------------- steps */

/* Creates a buffer on both sides with the first `size` bytes of `data`, unless `status` is a
 * failure. */
static cls_status upload_inputs(cls_selftest_run *t, cls_status status, int which, size_t size,
                                const void *data)
{
    for (int i = 0; i < SIDES && status == CLS_OK; i++)
        status = cls_selftest_buffer(&t->side[i], size, data, &t->side[i].in[which]);
    return status;
}

static cls_status open_buffers(cls_selftest_run *t, char *scratch)
{
    const uint32_t n = t->selection.count, vocab = t->selection.vocab;
    const size_t size = vocab * cls_dtype_size(t->dtype), ints = n * sizeof(int32_t);
    for (uint32_t i = 0; i < n; i++)
        cls_selftest_row(cls_selftest_seed(t->selection.cases[i]),
                         cls_selftest_cases[t->selection.cases[i]].row, t->dtype, vocab,
                         scratch + i * size);
    cls_status status = upload_inputs(t, CLS_OK, IN_LOGITS, n * size, scratch);
    cls_selftest_mask(CLS_MASK_PACKED, vocab, scratch);
    status = upload_inputs(t, status, IN_WORDS, (vocab + 31) / 32 * sizeof(uint32_t), scratch);
    for (int i = 0; i < CLS_DTYPES; i++) {
        cls_selftest_dense(i, vocab, scratch);
        status = upload_inputs(t, status, IN_DENSE + i, vocab * sizeof(float), scratch);
    }
    status = upload_inputs(t, status, IN_TOKENS, ints, NULL);
    return upload_inputs(t, status, IN_STATUS, ints, NULL);
}

static cls_status open_inputs(cls_selftest_run *t)
{
    char *const scratch =
        malloc(((size_t)t->selection.count + 1) * t->selection.vocab * sizeof(float));
    if (scratch == NULL)
        return cls_no_memory("the self-test");
    const cls_status status = open_buffers(t, scratch);
    free(scratch);
    cls_selftest_mask(CLS_MASK_BOOL, t->selection.vocab, t->bools);
    for (uint32_t i = 0; i < t->selection.count; i++) {
        const cls_selftest_case *const c = &cls_selftest_cases[t->selection.cases[i]];
        t->maps[0][i] = c->draw;
        t->maps[1][i] = c->with & WITH_MASK ? 0 : -1;
        t->maps[2][i] = c->with & WITH_DENSE ? 0 : -1;
        t->maps[3][i] = (int32_t)i;
    }
    return status;
}

void cls_selftest_guide(const cls_selftest_run *t, const cls_selftest_side *s, int packed,
                        const int32_t *masks, const int32_t *biases, cls_step *step)
{
    if (cls_selftest_has(t, CLS_FEATURE_MASK)) {
        step->mask.row_map.host = masks;
        step->mask.rows = 1;
        step->mask.kind = packed ? CLS_MASK_PACKED : CLS_MASK_BOOL;
        if (packed)
            step->mask.words = s->in[IN_WORDS];
        else
            step->mask.host = t->bools;
    }
    if (cls_selftest_has(t, CLS_FEATURE_BIAS)) {
        step->bias.row_map.host = biases;
        step->bias.rows = 1;
        step->bias.dtype = packed ? CLS_F32 : CLS_F16;
        step->bias.values = s->in[IN_DENSE + step->bias.dtype];
    }
}

/* Runs a step, by a shard that has the whole vocabulary if the cases want one. Tokens are the same
 * without it. */
#ifdef CLS_WITHOUT_SHARDS
static cls_status sample_cases(const cls_selftest_side *s, const cls_step *step, int by_shard)
{
    (void)by_shard;
    return cls_sample(s->sampler, s->queue, step, 0, NULL, NULL);
}
#else
static cls_status sample_cases(const cls_selftest_side *s, const cls_step *step, int by_shard)
{
    cls_shard *shard = NULL;
    const void *partial;
    size_t size;
    int more = 1;
    if (!by_shard || s->context->shape.host)
        return cls_sample(s->sampler, s->queue, step, 0, NULL, NULL);
    cls_status status = cls_shard_create(s->sampler, NULL, &shard);
    if (status == CLS_OK)
        status = cls_shard_sample(shard, s->queue, step, 0, NULL);
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

/* Returns the logits of a side, from those of the case `first` on. */
static cls_logits logits_from(const cls_selftest_run *t, const cls_selftest_side *s, uint32_t first)
{
    const size_t row = t->selection.vocab * cls_dtype_size(t->dtype);
    return (cls_logits){.values = cls_selftest_at(s->in[IN_LOGITS], first * (uint64_t)row),
                        .dtype = t->dtype};
}

/* Samples the cases from `first` to `end`. */
static cls_status run_step(const cls_selftest_run *t, cls_selftest_side *s, uint32_t which,
                           uint32_t first, uint32_t end, const cls_outputs *outputs)
{
    const uint32_t n = end - first, at = which * t->selection.count + first;
    const size_t size = n * sizeof(int32_t);
    cls_step step;
    cls_step_init(&step);
    step.rows = n;
    step.logits = logits_from(t, s, first);
    step.slots.host = t->maps[3] + first;
    step.draws.host = t->maps[0] + first;
    cls_selftest_guide(t, s, which == 0, t->maps[1] + first, t->maps[2] + first, &step);
    step.tokens = s->in[IN_TOKENS];
    step.status = s->in[IN_STATUS];
    step.outputs = outputs;
    cls_status status = sample_cases(s, &step, batch_of(t, first) == ST_SHARDS);
    if (status == CLS_OK)
        status = cls_selftest_read(s, &s->in[IN_TOKENS], size, s->token + at);
    if (status == CLS_OK)
        status = cls_selftest_read(s, &s->in[IN_STATUS], size, s->status + at);
    return status == CLS_OK ? cls_sampler_trace(s->sampler, s->queue, s->trace + at, n) : status;
}

/* What digests have beside the host's tokens and the records of its rows. */
typedef struct reported {
    float raw[SELFTEST_MOST_CASES], final[SELFTEST_MOST_CASES]; /* log-probabilities */
    int32_t kept[SELFTEST_MOST_CASES];
} reported;

static cls_buffer host_memory(void *memory, size_t size)
{
    return (cls_buffer){.pointer = memory, .size = size, .kind = CLS_BUFFER_HOST};
}

static void set_answers(cls_selftest_run *t, uint32_t which, uint32_t first, uint32_t end,
                        const reported *of)
{
    const cls_selftest_side *const s = &t->side[SIDE_HOST];
    for (uint32_t i = first; i < end; i++) {
        const uint32_t at = which * t->selection.count + i;
        const cls_row *const trace = &s->trace[at];
        const cls_slot_adaptive *const after = &s->sampler->host->slot[i].slot.adaptive;
        const uint32_t words[] = {(uint32_t)s->token[at],
                                  (uint32_t)s->status[at],
                                  (uint32_t)of->kept[i - first],
                                  cls_as_u32(of->raw[i - first]),
                                  cls_as_u32(of->final[i - first]),
                                  (uint32_t)trace->mass,
                                  (uint32_t)(trace->mass >> 32),
                                  (uint32_t)trace->drawn,
                                  (uint32_t)(trace->drawn >> 32),
                                  (uint32_t)trace->top_key,
                                  cls_as_u32(trace->scale),
                                  (uint32_t)after->mu,
                                  after->sum,
                                  after->weight,
                                  after->top_p};
        t->answer[i * SELFTEST_STEPS + which] = (cls_selftest_known){
            s->token[at], cls_selftest_digest(words, sizeof words / sizeof *words)};
    }
}

/* Samples these cases on the host, which sets their answers. */
static cls_status run_host(cls_selftest_run *t, uint32_t which, uint32_t first, uint32_t end)
{
    cls_selftest_side *const s = &t->side[SIDE_HOST];
    int32_t *const tokens = s->token + which * t->selection.count + first;
    const size_t size = (end - first) * sizeof *tokens;
    reported of;
    cls_outputs outputs;
    cls_logprobs_call raw;
    cls_outputs_init(&outputs);
    outputs.logprob_kind = CLS_LOGPROB_FINAL;
    outputs.logprobs = host_memory(of.final, size);
    outputs.kept.counts = host_memory(of.kept, size);
    cls_status status = run_step(t, s, which, first, end, &outputs);
    cls_logprobs_call_init(&raw);
    raw.rows = end - first;
    raw.logits = logits_from(t, s, first);
    raw.given.count = 1;
    raw.given.ids = host_memory(tokens, size);
    raw.given.logprobs = host_memory(of.raw, size);
    if (status == CLS_OK)
        status = cls_logprobs(s->sampler, s->queue, &raw, 0, NULL, NULL);
    if (status == CLS_OK)
        set_answers(t, which, first, end, &of);
    return status;
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
    const uint32_t answer = i * SELFTEST_STEPS + step, at = step * t->selection.count + i;
    const cls_selftest_known *const known = &t->known[answer], *const host = &t->answer[answer];
    const cls_row *const trace = &t->side[SIDE_HOST].trace[at];
    const cls_selftest_side *const device = &t->side[SIDE_DEVICE];
    const int32_t token = device->token[at], row_status = device->status[at];
    const int host_differs = host->token != known->token || host->digest != known->digest;
    char more[96];
    *out = '\0';
    if (host->token != known->token && token != known->token)
        snprintf(out, size, "device: token %d, host: token %d, not %d", (int)token,
                 (int)host->token, (int)known->token);
    else if (token != known->token)
        snprintf(out, size, "device: token %d, not %d", (int)token, (int)known->token);
    else if (host->token != known->token)
        snprintf(out, size, "host: token %d, not %d", (int)host->token, (int)known->token);
    else if (host_differs)
        snprintf(out, size, "host: token %d, but digest 0x%08x, not 0x%08x", (int)host->token,
                 (unsigned)host->digest, (unsigned)known->digest);
    else if (row_status != (int32_t)trace->status)
        snprintf(out, size, "device: token %d, but status %d, not %d", (int)token, (int)row_status,
                 (int)trace->status);
    else if (trace->mass != 0 && /* it is 0 for greedy requests and rows without a token */
             set_differs(&device->trace[at], trace, more, sizeof more))
        snprintf(out, size, "device: token %d, but %s", (int)token, more);
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

/* Opens the cases on a side and runs their steps. */
static cls_status run_side(cls_selftest_run *t, int side)
{
    cls_selftest_side *const s = &t->side[side];
    const uint32_t n = t->selection.count;
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < n && status == CLS_OK; i++)
        status = open_case(t, s, i);
    if (status == CLS_OK)
        status = accept_last(t, s);
    for (uint32_t step = 0; step < SELFTEST_STEPS; step++)
        for (uint32_t first = 0, end; first < n && status == CLS_OK; first = end) {
            for (end = first + 1; end < n && batch_of(t, end) == batch_of(t, first);)
                end++;
            status = side == SIDE_HOST ? run_host(t, step, first, end)
                                       : run_step(t, s, step, first, end, NULL);
        }
    return status;
}

cls_status cls_selftest_steps(cls_selftest_run *t)
{
    cls_status status = open_inputs(t);
    for (int i = t->answered ? SIDE_DEVICE : SIDE_HOST; i < SIDES && status == CLS_OK; i++)
        status = run_side(t, i);
    t->answered = 1;
    for (uint32_t i = 0; i < t->selection.count && status == CLS_OK; i++)
        check_case(t, i);
    return status;
}
