/* SPDX-License-Identifier: MIT */
/* The step of a case: its requests, the call, and its results. */

#include "bench/measure.h"

#define FORCED 512u /* forced ids of a request: more than the steps until it begins again */

/* Begins the request of a row in a slot: the parameters, and the history, of which half is prompt
 * and half is output. */
static cls_status begin_row(const bench_setup *setup, const bench_case *c, uint32_t slot)
{
    const uint32_t row = setup->first + slot, history = bench_history(setup, c),
                   outputs = history / 2, prompts = history - outputs;
    const int32_t *const ids = setup->ids + (size_t)row * setup->longest;
    cls_params params = *bench_params(c);
    params.seed = row;
    if (setup->vocab <= 13) /* the largest of DRY's breakers */
        params.dry_breakers.count = 0;
    const cls_status status =
        cls_slot_begin(setup->sampler, slot, &params,
                       &(cls_text){.struct_size = sizeof(cls_text),
                                   .prompt = {prompts != 0 ? ids : NULL, prompts},
                                   .output = {outputs != 0 ? ids + prompts : NULL, outputs}});
    return status == CLS_OK && c->forced ? cls_slot_force(setup->sampler, slot, ids, FORCED)
                                         : status;
}

int bench_begin_slots(const bench_setup *setup, const bench_case *c)
{
    int failed =
        c->softcap != 0.0f && cli_try(cls_sampler_compile(setup->sampler, CLS_FEATURE_SOFTCAP),
                                      "bench: compiling the soft-cap");
    for (uint32_t slot = 0; slot < setup->batch && !failed; slot++)
        failed = cli_try(begin_row(setup, c, slot), "bench: beginning a slot");
    return failed;
}

void bench_make_step(const bench_setup *setup, const bench_case *c, cls_step *step)
{
    cls_step_init(step);
    step->rows = setup->batch;
    step->logits.dtype = (int32_t)setup->dtype;
    step->logits.values = setup->logits;
    step->logits.softcap = c->softcap;
    step->tokens = setup->tokens;
    if (c->mask != BENCH_ALL)
        step->mask.words = setup->mask;
}

uint32_t bench_kept_capacity(const bench_setup *setup, const bench_case *c)
{
    return c->kept_set < setup->vocab ? c->kept_set : setup->vocab;
}

int bench_enqueue_step(const bench_setup *setup, const bench_case *c, cl_command_queue queue,
                       cl_event *done)
{
    cls_step step;
    cls_outputs outputs;
    bench_make_step(setup, c, &step);
    if (c->kept_set != 0) {
        cls_outputs_init(&outputs);
        outputs.kept_set.capacity = bench_kept_capacity(setup, c);
        outputs.kept_set.ids = setup->kept;
        step.outputs = &outputs;
    }
    return cli_try(cls_sample(setup->sampler, queue, &step, 0, NULL, done), "bench: the step");
}

int bench_run_step(const bench_setup *setup, const bench_case *c, int32_t *tokens)
{
    return bench_enqueue_step(setup, c, setup->on->queue, NULL) ||
           bench_read(setup, &setup->tokens, setup->batch * sizeof *tokens, tokens);
}
