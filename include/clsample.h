/* SPDX-License-Identifier: MIT */
/*
 * clsample draws the next token of a language model on the device that computed the logits.
 *
 * The headers in clsample/ are the manual, and each can be read and included alone. Most programs
 * need the first five. The types that they share are in clsample/base.h.
 *
 * - clsample/params.h: a request's sampling parameters (and clsample/chain.h: their order)
 * - clsample/context.h: opening a device
 * - clsample/sampler.h: the memory and the kernels that steps use
 * - clsample/slot.h: requests: beginning, continuing, copying, saving and ending them
 * - clsample/step.h: sampling one token for each row, and accepting tokens
 *
 * - clsample/grammar.h: grammars that requests follow on the device
 * - clsample/outputs.h: what a step can report beyond tokens; log-probabilities of prompts
 * - clsample/verify.h: speculative decoding
 * - clsample/draft.h: drafts from a request's own text
 * - clsample/readback.h: bringing results to the host without stalling a queue
 * - clsample/shard.h: one vocabulary over several devices, without gathering the logits
 * - clsample/host.h: the same results in plain C, without a device
 * - clsample/programs.h: which kernels are compiled, when, and their compiled form
 * - clsample/selftest.h: comparing a device with known answers
 * - clsample/layout.h: sizes and offsets of the structs, for bindings to other languages
 *
 * The flow. One step takes a row of logits through
 *
 *     logits -> adjust -> survey -> shortlist -> truncate -> draw -> accept -> token
 *
 * The inference runtime owns the OpenCL platform, context, queue and logits. It
 *
 * 1. opens a cls_context for a device, which checks that the device computes correctly,
 * 2. creates a cls_sampler, which compiles the kernels that its options name and allocates
 *    all the memory that steps need,
 * 3. assigns each request a slot with cls_slot_begin(), and a seed with params.seed,
 * 4. calls cls_sample() once a step, which enqueues commands and never waits.
 *
 * A slot is the state of a request on the device: its parameters, its position, the tokens that
 * occur in its prompt and output with their counts, and its latest tokens in order. Each step reads
 * and updates this state there. Steps can therefore be enqueued ahead: the host need not see a
 * token before the next one is drawn.
 *
 * Reproducibility. The same logits, parameters, seed and position give the same token, bit for
 * bit, on every device that rounds float32 to nearest even. The batch size, the index of the row,
 * the work-group size and the path through the kernels do not matter. Only integer arithmetic and
 * single float32 additions, subtractions and multiplications decide a token (doc/arithmetic.md).
 * Their rules have a number: what it promises from one version to the next, see
 * cls_arithmetic_version().
 *
 * Units and limits. Token ids are int32, from 0 to vocab - 1. Names that end in _size and offsets
 * are in bytes; strides are in elements. Arrays are row-major; [rows, vocab] has `rows` rows of
 * `vocab` elements. The vocabulary has 1 to 1,048,576 tokens.
 *
 * Compiling. The kernels are small programs. Each is compiled when a call first needs it:
 * cls_sampler_create() for its options, a slot call for parameters that need more, and
 * cls_context_compile() ahead of both. A context keeps them for all its samplers. The functions
 * that enqueue (such as cls_sample(), cls_verify() and cls_accept()) never compile.
 *
 * Threads. Any number of threads may share a cls_context: they may create and destroy samplers on
 * it and compile for it. A lock in the context orders compilations, and the functions that enqueue
 * do not take it. A cls_sampler and a cls_readback may be used by one thread at a time;
 * two threads may use two samplers of one context at once. cls_sampler_check() may be called by any
 * thread at any time. The functions of clsample/host.h have no state and may be called from
 * anywhere. A call on a sampler that another call is using, on another thread or from a callback,
 * returns CLS_IN_USE and does nothing; readbacks, cls_sampler_destroy(),
 * cls_sampler_memory(), cls_sampler_missing() and cls_sampler_launches() do not check this.
 *
 * fork(). OpenCL does not survive fork(). The child may call the functions of clsample/host.h,
 * exec() and _exit(), and may use what its parent opened without a device
 * (cls_context_create_host()), but it must not use or destroy anything else that its parent has
 * opened. Nor may it use or destroy a sampler of which another thread was in a call at the fork:
 * its memory is half changed, and most calls refuse it, as one that is in use. A child that was
 * forked before its parent first called OpenCL is not restricted in anything else.
 *
 * Errors. Every function that can fail returns a cls_status. After a failure cls_error_message()
 * returns a sentence that says what is wrong and names the argument, if one is at fault. A failed
 * call changes nothing, except in the one case that cls_sample() describes. No pointer is declared
 * nonnull, since the library reports a NULL that it cannot use as CLS_BAD_ARGUMENT. A row that
 * cannot be sampled (all its logits are NaN, or its mask is empty) is not an error of the call: the
 * row gets a cls_row_status and the token `invalid_token`, and the other rows are not affected.
 *
 * Side effects. The library never prints, never exits, reads no environment variable, and writes
 * no file except in options->cache_dir. It retains only the OpenCL objects that its handles need,
 * and calls OpenCL from no destructor of the process.
 *
 * The LM head, which computes logits from hidden states, is a separate library, libclsample-head:
 * see clsample/head.h.
 *
 * Ownership. Handles belong to the caller, who destroys them in any order, but a shard before its
 * sampler; each retains what it needs. Buffers, queues and events that are passed to a call remain
 * the caller's. Host arrays that are passed to a call are copied, unless the call says otherwise,
 * and may be reused when it returns. Strings that the library returns belong to it.
 *
 * Growth. A struct that is passed to a call, or that a call fills, begins with struct_size; call
 * cls_NAME_init(&object) before its first use. Later versions add fields only at its end, with 0 as
 * their default. A program that was compiled against an older header therefore runs with a newer
 * library. An older library refuses a field that it does not know if the field is not 0, except in
 * structs that it fills. Structs without struct_size are parts of others, and their size never
 * changes. Later versions give their reserved fields a meaning; until then these must be 0.
 *
 * Promises, from version 1.0 on and for all versions 1.x. A program that compiles with a version
 * compiles with later ones, and one that was linked with it runs with them: the soname stays. The
 * same logits, parameters, random numbers and history give the same tokens, statuses and kept sets,
 * bit for bit, on every device and in every version. Slots that 0.11 to 1.x saved can be loaded by
 * every later version. No promise is made on the number of launches, on speed, on the words of
 * messages, and on outputs whose comment says that their last bit may differ. Compiled programs
 * belong to one version, and shards exchange partials with shards of the same version only.
 */
#ifndef CLSAMPLE_H
#define CLSAMPLE_H

#include "clsample/base.h"
#include "clsample/params.h"
#include "clsample/grammar.h"
#include "clsample/context.h"
#include "clsample/sampler.h"
#include "clsample/slot.h"
#include "clsample/step.h"
#include "clsample/outputs.h"
#include "clsample/verify.h"
#include "clsample/draft.h"
#include "clsample/readback.h"
#include "clsample/shard.h"
#include "clsample/host.h"
#include "clsample/programs.h"
#include "clsample/selftest.h"
#include "clsample/layout.h"

#endif /* CLSAMPLE_H */
