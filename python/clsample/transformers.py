# SPDX-License-Identifier: MIT
"""Sampling in the generate() of Hugging Face Transformers. Needs torch and transformers.

    import clsample.transformers

    out = model.generate(**inputs, do_sample=True, temperature=0.8, top_p=0.9, max_new_tokens=50,
                         custom_generate=clsample.transformers.generate, seed=7)

generate() takes its parameters from the model's generation_config, as model.generate() does;
LogitsProcessor, for a loop that stays Transformers', is given them. Both draw the same tokens,
which depend on the seed, the row and the text alone. Logits are brought to the host, from wherever
the model is, and from there to the OpenCL device; the tokens come back.
"""

from __future__ import annotations

import os
import secrets
import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from ._context import Context
from ._errors import without
from ._params import Params
from ._types import RowStatus

try:
    import torch
    import transformers
    from transformers.generation import logits_process, stopping_criteria as stopping
except ImportError as error:
    raise without("transformers", error) from None

Rows = Union[None, Mapping[str, Any], Sequence[Mapping[str, Any]]]

MAX_HISTORY = 16384
NEED_HISTORY = """
    bad_words dry_multiplier frequency_window loop_repeats no_repeat_ngram penalty_window
    post_thinking presence_window repetition_window
    thinking_ends thinking_forced thinking_start watermark_context watermark_key
""".split()

# What Transformers adds to the logits for parameters that clsample has, too: where its value is, in
# the processor and in the generation_config. A processor with another value is the caller's.
SERVED = {
    getattr(logits_process, name): names
    for name, *names in (
        ("MinNewTokensLengthLogitsProcessor", "min_new_tokens", "min_new_tokens"),
        ("MinPLogitsWarper", "min_p", "min_p"),
        ("NoRepeatNGramLogitsProcessor", "ngram_size", "no_repeat_ngram_size"),
        ("RepetitionPenaltyLogitsProcessor", "penalty", "repetition_penalty"),
        ("SuppressTokensLogitsProcessor", "suppress_tokens", "suppress_tokens"),
        ("TemperatureLogitsWarper", "temperature", "temperature"),
        ("TopKLogitsWarper", "top_k", "top_k"),
        ("TopPLogitsWarper", "top_p", "top_p"),
        ("TypicalLogitsWarper", "mass", "typical_p"),
    )
}

# What its other processors, which generate() runs on the logits, and its criteria do. A bad word
# may begin in the prompt there.
THEIRS = """
    bad_words_ids begin_suppress_tokens encoder_no_repeat_ngram_size encoder_repetition_penalty
    exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id guidance_scale
    max_length max_new_tokens max_time min_length num_return_sequences remove_invalid_values
    sequence_bias stop_strings token_healing
""".split()

_lock = threading.Lock()
_opened: List[Context] = []


def _default_context() -> Context:
    """The context of calls that name none, on the first usable device."""
    with _lock:
        if not _opened:
            _opened.append(Context())
        return _opened[0]


def _after_fork() -> None:
    """OpenCL does not survive a fork, nor does a lock that another thread held."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _seed(given: Optional[int]) -> int:
    return secrets.randbits(63) if given is None else given


class LogitsProcessor(transformers.LogitsProcessor):  # type: ignore[misc]
    """Replaces the logits by the token that clsample draws from them.

        processor = clsample.transformers.LogitsProcessor({"temperature": 0.8, "top_k": 40})
        model.generate(**inputs, logits_processor=[processor],
                       stopping_criteria=[processor.stopping], max_new_tokens=50)

    params      parameters for all rows, which then have streams of their own (that of `params`,
                plus the row); or a list of them, one for each row. A seed that they lack is drawn.
    attention_mask
                of the inputs, where prompts are padded: padding is no part of a prompt
    context     a Context; otherwise the first usable device's, which stays open

    One object serves one generate(), greedy or do_sample. Parameters of generate() that change the
    logits before it (repetition_penalty, suppress_tokens, ...) work as well, so name each in one
    place. Those that Transformers applies after it have no effect: temperature, top_k, top_p and
    other truncations, watermarking_config, and processors behind it in the list. Rows end by
    generate()'s own criteria and, with `stopping`, by stop_ids, max_tokens and loop_repeats.
    A text that changes other than by a token at the end of each row is refused: assistants change
    it so, and beams, which gain nothing from scores of one token each.

    The attribute `params` has after the first step the parameters of each row, with its seed, and
    `status` the RowStatus of each row at the latest step.
    """

    def __init__(
        self, params: Rows = None, *, attention_mask: Any = None, context: Optional[Context] = None
    ) -> None:
        self._shared = params is None or isinstance(params, Mapping)
        rows: Any = [params or {}] if self._shared else params
        self.params = [Params(one, seed=_seed(one.get("seed"))) for one in rows]
        self.status: List[RowStatus] = []
        self.stopping = _Stopping(self)
        self._mask = attention_mask
        self._context = context
        self._sampler: Any = None
        self._text: Any = None  # as of the last call
        self._asked = False  # generate() asks which rows have stopped
        self._stopped = np.zeros(0, bool)
        self._drawn = np.zeros(0, np.int64)

    def _begin(self, text: Any, vocab: int) -> None:
        rows = text.shape[0]
        if self._shared:
            one = self.params[0]
            stream = one.get("stream", 0)
            self.params = [Params(one, stream=stream + row) for row in range(rows)]
        if len(self.params) != rows:
            raise ValueError(f"params has {len(self.params)} entries; the text has {rows} rows")
        mask = self._mask if text.shape[1] else None
        if mask is not None:
            if mask.shape[1:] != text.shape[1:] or rows % mask.shape[0] != 0:
                raise ValueError(
                    f"attention_mask has the shape {tuple(mask.shape)}; it must be that of "
                    f"the prompts, {tuple(text.shape)}"
                )
            mask = mask.cpu().repeat_interleave(rows // mask.shape[0], 0).bool()
        history = any(name in one for one in self.params for name in NEED_HISTORY)
        self._sampler = (self._context or _default_context()).sampler(
            vocab,
            rows,
            max_history=MAX_HISTORY if history else 0,
            features=["shortlist", "accept"],
        )
        self._sampler._quiet = True
        self._requests = [
            self._sampler.begin(text[row] if mask is None else text[row][mask[row]], **one)
            for row, one in enumerate(self.params)
        ]
        self._stopped = np.zeros(rows, bool)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        text = input_ids.cpu()
        if self._text is None:
            self._begin(text, scores.shape[-1])
        elif text.shape != (len(self.params), self._text.shape[1] + 1) or not torch.equal(
            text[:, :-1], self._text
        ):
            raise ValueError(
                "the text is not that of the last call and one token more: a LogitsProcessor "
                "serves one generate(), without beams and assistants"
            )
        else:
            self._sampler.accept(text[:, -1:].numpy().astype(np.int32), self._requests)
        self._text = text
        logits = scores.detach().to("cpu", torch.float32).contiguous().numpy()
        found = self._sampler.sample(logits, self._requests, defer_accept=True).get()
        return self._only(found, scores)

    def _only(self, found: Mapping[str, Any], scores: Any) -> Any:
        """Scores of which only the drawn tokens' are not -inf."""
        tokens = found["tokens"].astype(np.int64)
        self.status = [RowStatus(int(one)) for one in found["status"]]
        for row in np.flatnonzero(tokens < 0):
            if not self.status[row] & RowStatus.STOPPED:
                raise RuntimeError(f"row {row} has no token: {self.status[row]!r}")
            if not self._asked:
                raise ValueError(
                    f"row {row} has stopped, but generate() continues it: pass "
                    "stopping_criteria=[processor.stopping]"
                )
            tokens[row] = self._drawn[row]  # generate() writes padding in its place
        self._drawn = tokens
        chosen = torch.from_numpy(tokens).to(scores.device)[:, None]
        return torch.full_like(scores, -float("inf")).scatter_(1, chosen, 0)

    def close(self) -> None:
        """Ends the requests, and frees the sampler's memory."""
        if self._sampler is not None:
            self._sampler.close()


class _Stopping(transformers.StoppingCriteria):  # type: ignore[misc]
    """Ends the rows whose requests have stopped."""

    def __init__(self, processor: LogitsProcessor) -> None:
        self.processor = processor

    def __call__(self, input_ids: Any, scores: Any, **unused: Any) -> Any:
        p = self.processor
        p._asked = True
        taken = input_ids[:, -1].cpu().numpy() == p._drawn
        p._stopped |= taken & [bool(one & RowStatus.STOPPED) for one in p.status]
        return torch.from_numpy(p._stopped.copy()).to(input_ids.device)


class _Criteria(transformers.StoppingCriteriaList):  # type: ignore[misc]
    """Criteria that remember why each row has ended."""

    reasons: List[Optional[str]] = []

    def __call__(self, input_ids: Any, scores: Any, **more: Any) -> Any:
        if not self.reasons:
            self.reasons = [None] * len(input_ids)
        for one in self:
            ended = one(input_ids, scores, **more)
            for row in torch.nonzero(torch.as_tensor(ended)).flatten().tolist():
                self.reasons[row] = self.reasons[row] or self.reason(one, row)
        ended = [reason is not None for reason in self.reasons]
        return torch.tensor(ended, device=input_ids.device)

    def reason(self, one: Any, row: int) -> str:
        if isinstance(one, _Stopping):
            status = one.processor.status[row]
            ended = {RowStatus.LENGTH: "length", RowStatus.LOOP: "repetition"}
            return next((word for bit, word in ended.items() if status & bit), "stop")
        limits = (stopping.MaxLengthCriteria, stopping.MaxTimeCriteria)
        return "length" if isinstance(one, limits) else "stop"


def generate(
    model: Any,
    input_ids: Any,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    params: Rows = None,
    seed: Optional[int] = None,
    context: Optional[Context] = None,
    stream_to: Any = None,
    **model_kwargs: Any,
) -> Any:
    """For model.generate(..., custom_generate=clsample.transformers.generate).

    The parameters are those of the generation_config and of the call, as Transformers has them;
    what clsample has no equal for is refused. Arguments of generate() besides its own:

    params      parameters of clsample, which take precedence, but lift no ban (see Params): a dict
                for all rows, or a list of one for each row
    seed        of all rows, which have streams of their own; None draws one
    context     as for LogitsProcessor
    stream_to   a streamer. Transformers does not pass on `streamer`.

    Processors of the caller, and those of Transformers whose work clsample does not do itself, run
    on the logits before. With return_dict_in_generate=True the result also has finish_reasons,
    "stop", "length" or "repetition" for each row, and params, its parameters with its seed.
    """
    if generation_config.output_scores:
        raise ValueError(
            "output_scores: the scores stay on the device; output_logits returns the model's"
        )
    of_decoder = "decoder_" if model.config.is_encoder_decoder else ""
    processor = LogitsProcessor(
        _merged(generation_config, params, seed),
        attention_mask=model_kwargs.get(of_decoder + "attention_mask"),
        context=context,
    )
    others = [one for one in logits_processor if not _served(one, generation_config)]
    criteria = _Criteria([*stopping_criteria, processor.stopping])
    generation_config.do_sample = False
    if stream_to is not None:
        stream_to.put(input_ids.cpu())
    try:
        result = model._sample(
            input_ids,
            logits_processor=transformers.LogitsProcessorList([*others, processor]),
            stopping_criteria=criteria,
            generation_config=generation_config,
            streamer=stream_to,
            **model_kwargs,
        )
    finally:
        processor.close()
    if generation_config.return_dict_in_generate:
        extra: Dict[str, Any] = {"finish_reasons": criteria.reasons, "params": processor.params}
        for name, value in extra.items():
            result[name] = value
    return result


def _long(config: Any) -> bool:
    """Whether texts may have n-grams that clsample no longer sees."""
    return bool(config.max_length is None or config.max_length > MAX_HISTORY)


def _served(one: Any, config: Any) -> bool:
    """Whether clsample does the work of one of Transformers' processors."""
    if type(one) is logits_process.LogitNormalization:
        return True
    theirs, ours = SERVED.get(type(one), ("", ""))
    if not ours or (ours == "no_repeat_ngram_size" and _long(config)):
        return False
    value, wanted = getattr(one, theirs, None), getattr(config, ours, None)
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    return wanted is not None and bool(value == wanted)


def _merged(config: Any, params: Rows, seed: Optional[int]) -> Rows:
    """The parameters of a generation_config, with those of clsample in place of them."""
    ignore = [*THEIRS, *["no_repeat_ngram_size"] * _long(config)]
    config = {**config.to_dict(), "top_k": config.top_k or 0}  # generate() has set its default
    if params is None or isinstance(params, Mapping):
        more = {**(params or {}), **({} if seed is None else {"seed": seed})}
        return Params.from_generation_config(config, ignore=ignore, **more)
    if seed is not None:
        raise TypeError("seed is that of all rows; name one in each entry of params")
    return [Params.from_generation_config(config, ignore=ignore, **one) for one in params]
