/* SPDX-License-Identifier: MIT */
/* clsample: the requests of a sampler.
 *
 * A slot holds a request. Slots are numbered from 0 to options->slot_count - 1.
 *
 * Slot calls copy their arrays and may allocate. A call that needs a feature that the sampler was
 * not created for returns CLS_NOT_COMPILED. With options->late_compile it compiles the feature
 * instead, which may take seconds, and may fail as in cls_sampler_create(): with
 * CLS_UNSUPPORTED_DEVICE, CLS_BUILD_FAILED or CLS_SELF_TEST_FAILED.
 *
 * Slot calls take effect in the order of the calls, with the next call of the sampler that enqueues
 * (cls_sample(), cls_accept(), ...) or cls_slot_save(), after everything enqueued before it. Each
 * changes only its own slot. A call that fails changes no slot and no token of a later step.
 * Programs that it compiled before it failed remain compiled.
 *
 * Token ids outside the vocabulary (padding, placeholders for images) are ignored, as if they were
 * not in the array.
 *
 * Like all calls on a sampler, slot calls may be made by one thread at a time. All of them return
 * CLS_BAD_ARGUMENT if the slot does not exist, CLS_IN_USE, and CLS_LOST if the sampler is lost. */
#ifndef CLSAMPLE_SLOT_H
#define CLSAMPLE_SLOT_H

#include "sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The text that a request begins with. */
typedef struct cls_text {
    size_t struct_size;
    cls_ids prompt; /* empty by default */

    /* Tokens that the request has generated before, in another slot, in another process, or before
     * it was preempted; empty by default. */
    cls_ids output;
} cls_text;

CLS_INIT_FUNCTION(cls_text)

/* Begins a request in a slot, whatever the slot held. text: NULL for an empty one. The position is
 * params->position plus the number of tokens of text->output. The request has already stopped if
 * the output has max_tokens tokens, if it ends with a stop id and has at least min_tokens tokens,
 * or if it ends the grammar, which follows the output from params->grammar_state on.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_begin(cls_sampler *sampler, uint32_t slot,
                                                  const cls_params *params, const cls_text *text);

/* Adds tokens to a begun request's prompt, such as the next chunk of a prefill. A request that a
 * stop id stopped continues; one that max_tokens stopped does not. The output so far remains
 * output; cls_slot_next_turn() makes it prompt.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_append_prompt(cls_sampler *sampler, uint32_t slot,
                                                          const int32_t *prompt,
                                                          uint32_t prompt_count);

/* Begins the next turn of a conversation: the output so far becomes prompt, and `prompt` (int32
 * [prompt_count], NULL with 0) is added to it. min_tokens and max_tokens count from 0 again, and
 * earlier tokens no longer count with CLS_SCOPE_OUTPUT. A request that had stopped continues, also
 * after max_tokens. The position continues, so that no random number is drawn twice. The decay of
 * top_p and the grammar start again; Mirostat's mu and the average of adaptive p are kept. n-grams,
 * DRY and penalty windows see the output of earlier turns as prompt. cls_slot_rollback() cannot
 * remove it: such a call ends the request. (vLLM and llama.cpp begin another request instead, with
 * the whole text as its prompt.)
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_next_turn(cls_sampler *sampler, uint32_t slot,
                                                      const int32_t *prompt, uint32_t prompt_count);

/* Changes the parameters of a begun slot. Its position continues, and params->position is ignored.
 * Whether the request has stopped is determined again: with a larger max_tokens it continues. With
 * another penalty_scope or penalty_window the counts are computed again from the sampler's
 * `max_history` latest tokens, and older tokens no longer count. With a `max_history` of 0 another
 * scope is refused. A request that thinks keeps its count of tokens, limited to the new budget (or,
 * without thinking_forced, to the output tokens), and its place in the forced ids. If the budget
 * was off before and thinking_start is empty, the thinking begins with the call. The same grammar
 * keeps its state, and params->grammar_state is ignored. Another grammar begins with the call, also
 * after a rollback to a token before the call.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_params(cls_sampler *sampler, uint32_t slot,
                                                   const cls_params *params);

/* Forces the next id_count output tokens of a request: its next rows emit these ids, one each, in
 * place of the tokens that they would draw. Forced tokens are output tokens: they advance the
 * position, count for penalties, and may stop the request. Bans, penalties and the chain do not
 * concern them; their rows report the log-probabilities that the model gave them, and
 * CLS_ROW_FORCED. If a step's mask forbids a forced id, the row is CLS_ROW_EMPTY, and the next row
 * tries again.
 *
 * The ids are tied to their places in the output: a token that cls_accept() adds takes the place of
 * the id that was due, and after a rollback the ids are due again at the same places. The call
 * replaces ids that are still due. The next turn drops them, and so does a beginning. With id_count
 * 0 no id is due. Steps whose rows may be forced take one more launch until the request ends or
 * gets such a call.
 * ids: int32 [id_count], all in the vocabulary; NULL with 0.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_force(cls_sampler *sampler, uint32_t slot,
                                                  const int32_t *ids, uint32_t id_count);

/* Copies the request of the begun slot `from` to the slot `to`, whatever `to` held: a fork, with
 * position, counts and history. Both requests draw the same numbers until cls_slot_params() gives
 * one of them another seed or stream.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_copy(cls_sampler *sampler, uint32_t to, uint32_t from);

/* Removes the last token_count accepted output tokens. The position, counts, history, windows,
 * the decision whether the request has stopped, and the adaptive state of Mirostat, adaptive p and
 * top-p decay are then as if these tokens had never been accepted. The same positions draw the same
 * random numbers again; cls_step.draws selects others.
 *
 * Rollbacks add up: a request cannot become more than the sampler's `max_rollback` tokens shorter
 * than it was at its longest. Only output since the last chunk of prompt can be removed. The host
 * does not know how many tokens a request has, so the call returns CLS_OK even if the device cannot
 * remove that many. The request then ends: its rows get CLS_ROW_NO_SLOT, and later calls on it have
 * no effect until the slot holds another request.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED;
 * CLS_SELF_TEST_FAILED; CLS_OPENCL_ERROR; CLS_NOT_COMPILED; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_rollback(cls_sampler *sampler, uint32_t slot,
                                                     uint32_t token_count);

/* Frees a slot. A row that names it in a device map then gets CLS_ROW_NO_SLOT; a step that names it
 * in a host map, or has no map and a row for it, is refused.
 * CLS_OK; CLS_BAD_ARGUMENT; CLS_OUT_OF_MEMORY; CLS_OPENCL_ERROR; CLS_IN_USE; CLS_LOST. */
CLS_API cls_status cls_slot_reset(cls_sampler *sampler, uint32_t slot);

/* Writes a begun slot's whole state to bytes, for another slot, sampler, process or machine. Waits
 * on `queue` for the sampler's steps and slot calls. *size: on entry the size of `out` in bytes, on
 * return that of the state. If `out` is NULL only the size is returned, which the next step may
 * change.
 * CLS_OK; CLS_BAD_ARGUMENT: among others, `out` is too small, and *size is then the size that is
 * needed; or the slot has no request, or a rollback has ended it; CLS_BUSY; CLS_OUT_OF_MEMORY;
 * CLS_OPENCL_ERROR; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_save(cls_sampler *sampler, cl_command_queue queue,
                                                 uint32_t slot, void *out, size_t *size);

/* Restores a saved state in a slot, whatever the slot held. The sampler must have the vocab,
 * counts, max_history and max_rollback of the sampler that saved it. `grammar`: the grammar that
 * the request follows, which the state names by its digest; NULL if it follows none. States that
 * version 0.11 or a later one saved can be loaded.
 * CLS_OK; CLS_BAD_ARGUMENT: the bytes are damaged, cut short, in a format that this version does
 * not read, of a text of 2^31 tokens or more, of another kind of sampler, or of another grammar;
 * CLS_OUT_OF_MEMORY; CLS_UNSUPPORTED_DEVICE; CLS_BUILD_FAILED; CLS_SELF_TEST_FAILED;
 * CLS_OPENCL_ERROR; CLS_NOT_COMPILED; CLS_IN_USE; CLS_LOST. */
CLS_API CLS_WARN_UNUSED cls_status cls_slot_load(cls_sampler *sampler, uint32_t slot,
                                                 const void *bytes, size_t size,
                                                 const cls_grammar *grammar);

#ifdef __cplusplus
}
#endif
#endif /* CLSAMPLE_SLOT_H */
