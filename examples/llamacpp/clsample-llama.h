/* SPDX-License-Identifier: MIT */
/* clsample as a sampler of llama.cpp. Replace a chain of llama_sampler_init_*() by
 *
 *     cls_params params;
 *     clsample_llama_params(&params);                               (then change what you like)
 *     clsample_llama *device = clsample_llama_open(NULL, vocab, 8, 64);
 *     struct llama_sampler *sampler = clsample_llama_sampler_init(device, &params);
 *
 * and use the sampler as any other: it can be sampled, cloned, reset, freed, and be part of a
 * chain. README.md describes what it does and what it costs.
 *
 * llama.cpp's sampler interface cannot report errors. After an error the sampler prints a line to
 * standard error and selects no token (`selected` stays -1), which llama_sampler_sample() treats as
 * an error.
 *
 * Only one thread at a time may use a clsample_llama and its samplers.
 */
#ifndef CLSAMPLE_LLAMA_H
#define CLSAMPLE_LLAMA_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <clsample.h>
#include <llama.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What samplers share: a device with a queue, buffers for one row, and a slot for each sampler. */
typedef struct clsample_llama clsample_llama;

/* Opens a device (NULL: the first usable one) for rows of `vocab` tokens. samplers: how many may
 * exist at once; a clone is one. history: the longest penalty_window and dry_window, and the tokens
 * that no_repeat_ngram considers. The call blocks while kernels are compiled, which takes seconds
 * with a cold cache. It returns NULL on failure. */
clsample_llama *clsample_llama_open(cl_device_id device, uint32_t vocab, uint32_t samplers,
                                    uint32_t history);

/* Releases the device. It is freed with its last sampler, so the order does not matter. NULL is
 * allowed. */
void clsample_llama_close(clsample_llama *shared);

/* Sets llama.cpp's defaults, in its order: top-k 40, top-p 0.95, min-p 0.05, temperature 0.8.
 * Penalties and DRY, if they are on, use the last 64 tokens of prompt and output. The other
 * samplers are off. DRY's breakers are ids; doc/parameters.md shows how llama.cpp makes them from
 * texts. */
void clsample_llama_params(cls_params *params);

/* Sets the order of samplers by llama.cpp's letters: d DRY, k top-k, y typical, p top-p, s
 * top-n-sigma, m min-p, t temperature, x XTC, i infill, e penalties, a adaptive p. The default is
 * "edskypmxt". Samplers that are not named are turned off, as in llama.cpp, so call this function
 * last. Penalties and DRY always come first, adaptive p last. If a letter is unknown or repeated,
 * it returns false and does not change params. */
bool clsample_llama_order(cls_params *params, const char *order);

/* Sets the tables of the infill sampler for all samplers of `shared`. Call it before the first of
 * these is created; cls_sampler_infill() copies the tables. It returns false on failure. */
bool clsample_llama_infill(clsample_llama *shared, const cls_infill *infill);

/* Creates a sampler for one sequence, with an empty history. It copies params and its arrays.
 * stop_ids, min_tokens, max_tokens and loop_repeats are refused, because in llama.cpp the caller
 * decides when to stop. It returns NULL on failure. */
struct llama_sampler *clsample_llama_sampler_init(clsample_llama *shared, const cls_params *params);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_LLAMA_H */
