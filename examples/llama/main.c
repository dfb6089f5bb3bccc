/* SPDX-License-Identifier: MIT */
/* Generates text with a llama2.c checkpoint; see llama.h and llama --help. */
#include <stdio.h>

#include "llama.h"

int main(int argc, char **argv)
{
    options o;
    checkpoint weights = {0};
    tokenizer t = {0};
    device d = {0};
    model m = {0};
    sampling s = {0};
    totals sum = {0};

    const bool writes = vocabulary_begin(&argc, &argv);
    options_read(&o, argc, argv);
    if (o.make_random) {
        if (writes)
            make_random(o.checkpoint, o.tokenizer);
        options_free(&o);
        vocabulary_end();
        return 0;
    }
    checkpoint_load(&weights, o.checkpoint);
    tokenizer_load(&t, o.tokenizer, weights.c.vocab);
    options_encode(&o, &weights.c, &t);

    device_open(&d, o.device);
    model_open(&m, &d, &weights, o.batch, o.streams);
    checkpoint_free(&weights);
    model_warm_up(&m);
    sampling_open(&s, &m, &o);
    if (o.check_logits != NULL) {
        check(&m, &s, &o);
    } else {
        batch_run(&m, &s, &o, &t, &sum);
        if (o.json)
            text_json(&o, &m, &t, &sum);
        else
            text_table(&o, &m, &sum);
    }
    sampling_close(&s);
    model_close(&m);
    device_close(&d);
    tokenizer_free(&t);
    options_free(&o);
    if (fclose(stdout) != 0)
        die("standard output cannot be written");
    vocabulary_end();
    return 0;
}
