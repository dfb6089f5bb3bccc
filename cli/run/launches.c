/* SPDX-License-Identifier: MIT */
/* What slot calls enqueue, and counting it. */

#include "run/calls.h"

void run_flush(run_side *side)
{
    static const int32_t none = -1;
    cls_step step;
    cls_step_init(&step);
    step.rows = 1;
    step.slots.host = &none;
    while (!(side->sampler_options.dtypes >> step.logits.dtype & 1))
        step.logits.dtype++;
    step.logits.values = run_buffer(side, cli_alloc(side->sampler_options.vocab, sizeof(float)),
                                    side->sampler_options.vocab * sizeof(float));
    step.tokens = run_buffer(side, &none, sizeof none);
    for (uint32_t i = 0; i < run_samplers(side); i++) {
        cls_status status;
        RUN_RETRY(status, side, i, cls_sample, &step);
        if (status != CLS_OK)
            run_die(side->now, "%s", cls_error_message());
    }
}

bool run_counts_launches = true;

/* launches N: a device takes so many for the slot calls since the last step. launches most=N: it
 * has taken no more for the call before. */
void run_launches(run_side *side, const run_statement *s)
{
    const bool of_call = run_find(s, "most") != NULL;
    uint32_t n = run_count(s, of_call ? "most" : "", 0),
             launches = cls_sampler_launches(side->sampler[0]);
    run_check_keys(s, "most", NULL);
    if (!of_call) {
        run_flush(side);
        launches = cls_sampler_launches(side->sampler[0]);
        run_flush(side);
        launches -= cls_sampler_launches(side->sampler[0]);
    }
    if (run_counts_launches && !side->on_host && side->shards == 0 && side->way != RUN_EACH &&
        side->way != RUN_MOVED && side->way != RUN_ALONE && (!of_call || launches > n))
        n = launches;
    run_note(side, "launches", &n, sizeof n);
}
