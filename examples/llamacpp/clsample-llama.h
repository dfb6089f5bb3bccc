/* SPDX-License-Identifier: MIT */
/* clsample as a sampler of llama.cpp: in place of a chain of llama_sampler_init_*(),
 *
 *     cls_params params;
 *     clsample_llama_params(&params);                               (then change what you like)
 *     clsample_llama *device = clsample_llama_open(NULL, vocab, 8, 64);
 *     struct llama_sampler *sampler = clsample_llama_sampler_init(device, &params);
 *
 * and use it as any other: llama_sampler_sample(), in a chain, cloned, reset,
 * freed. README.md tells what it gives and what it costs.
 *
 * llama.cpp's sampler interface has no way to fail. What goes wrong is said on
 * standard error, in a line, and the sampler then selects nothing
 * (`selected` stays -1), which llama_sampler_sample() takes as an error.
 *
 * One thread at a time for everything made from one clsample_llama.
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

/* What samplers share: a device with its queue, buffers for a row, and a slot
 * for each sampler. */
typedef struct clsample_llama clsample_llama;

/* Opens a device (NULL: the first that works) for rows of `vocab` tokens.
 * samplers: how many may be alive at once; a clone is one, and
 * llama_sampler_copy() needs one for a moment. history: the longest
 * penalty_window and dry_window, and how far no_repeat_ngram looks back. Blocks,
 * seconds on a cold compiler cache. NULL on failure. */
clsample_llama *clsample_llama_open(cl_device_id device, uint32_t vocab, uint32_t samplers,
                                    uint32_t history);

/* Lets go of it. It ends with the last sampler: the order is free. NULL is
 * allowed. */
void clsample_llama_close(clsample_llama *shared);

/* llama.cpp's own defaults, in its order: top-k 40, top-p 0.95, min-p 0.05,
 * temperature 0.8; penalties and DRY, if set, over the last 64 tokens of prompt
 * and output. Its other samplers are there and off. DRY's breakers are ids:
 * doc/integration.md tells how llama.cpp makes them from texts. */
void clsample_llama_params(cls_params *params);

/* Another order of samplers, by llama.cpp's letters: d DRY, k top-k, y typical, p
 * top-p, s top-n-sigma, m min-p, t temperature, x XTC, i infill, e penalties,
 * a adaptive p; "edskypmxt" is its default. Call it last: what is not named it
 * turns off, as llama.cpp does. Penalties and DRY always come first, adaptive p
 * last. False, params as they were, if a letter is unknown or there twice. */
bool clsample_llama_order(cls_params *params, const char *order);

/* The tables of the infill sampler, for all samplers of `shared`, before the first
 * that has it; cls_sampler_infill() copies them. False on failure. */
bool clsample_llama_infill(clsample_llama *shared, const cls_infill *infill);

/* A sampler for one sequence, its history empty. params is copied, its arrays
 * too. stop_ids and max_tokens are refused: in llama.cpp the caller
 * decides when to stop. NULL on failure. */
struct llama_sampler *clsample_llama_sampler_init(clsample_llama *shared, const cls_params *params);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_LLAMA_H */
