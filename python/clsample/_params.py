# SPDX-License-Identifier: MIT
"""Parameters of a request as a dict, and those of other systems converted into it.

What each system's names are here is in the tables below; doc/parameters.md has the same names,
with the differences that remain. A name that no table has is refused.
"""

from __future__ import annotations

import json
import math
import operator
import os
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Set
from typing import Tuple

from . import _types
from ._cffi import ffi
from ._library import lib, must
from ._request import new_params
from ._structs import biases, choice, ids, kind, nearest, own, switch

if TYPE_CHECKING:
    from typing_extensions import Unpack

MOST_VOCAB = 1 << 20


class Params(Dict[str, Any]):
    """A request's parameters: a dict of what Sampler.begin() takes, checked when it is made.

        params = clsample.Params.from_generation_config("model/generation_config.json", seed=7)
        request = sampler.begin(prompt, **params)

    The functions from_...() convert the parameters of other systems. They refuse what has no equal
    here, and warn of what the caller has to do itself. `ignore` names parameters of the source that
    are left out. `more` are parameters of clsample, which take precedence, but lift no ban: bad
    words and stop ids are added to the source's, allowed ids must be in both lists, and a bias of
    -inf stays.

    ignored: what the source had besides, by its names: what does not concern the choice of tokens,
    and what `ignore` names.
    """

    ignored: Dict[str, Any]

    def __init__(self, *values: Mapping[str, Any], **more: Unpack[_types.Params]) -> None:
        super().__init__(own(dict(*values, **more)))
        self.ignored = {}
        keep: List[Any] = []
        vocab = getattr(self.get("grammar"), "vocab", MOST_VOCAB)
        must(lib.cls_params_check(new_params(self, keep), vocab))

    @classmethod
    def from_generation_config(
        cls, config: Any, *, ignore: Iterable[str] = (), **more: Unpack[_types.Params]
    ) -> Params:
        """Those of Transformers' generate().

        config: a GenerationConfig, its dict, a generation_config.json, or the folder of one. As
        there, the request is greedy unless do_sample is true, and top_k is 50 unless it is given.
        """
        values = _given(config, _read if isinstance(config, (str, os.PathLike)) else _public)
        if not switch(f"{TRANSFORMERS.call}: do_sample", values.pop("do_sample", False)):
            if values.get("temperature", 1) not in (0, 1):
                warnings.warn(
                    f"{TRANSFORMERS.call}: do_sample is not true, so that the request is greedy, "
                    f"and temperature = {values['temperature']} has no effect",
                    stacklevel=2,
                )
            values["temperature"] = 0
        elif "top_k" not in values:
            values["top_k"] = 50
        found, ignored = _converted(TRANSFORMERS, values, ignore)
        ends = [[token] for token in found.get("stop_ids", ())]
        if "bad_words" in found:  # there an end is no bad word
            found["bad_words"] = [word for word in found["bad_words"] if word not in ends]
        if found.get("min_tokens") and "min_tokens" not in more and _empty({**found, **more}):
            warnings.warn(
                f"{TRANSFORMERS.call}: min_new_tokens = {found.pop('min_tokens')} has no effect, "
                "as there, since there is no eos_token_id",
                stacklevel=2,
            )
        return _joined(cls, TRANSFORMERS, found, ignored, more)

    @classmethod
    def from_vllm(
        cls, params: Any, *, ignore: Iterable[str] = (), **more: Unpack[_types.Params]
    ) -> Params:
        """Those of vLLM. params: a SamplingParams, or a dict of its fields."""
        values, skipped = _given(params, _fields), set(ignore)
        _take_ends(VLLM, values, skipped)
        return _joined(cls, VLLM, *_converted(VLLM, values, skipped), more)

    @classmethod
    def from_openai(
        cls,
        request: Mapping[str, Any],
        *,
        ignore: Iterable[str] = (),
        **more: Unpack[_types.Params],
    ) -> Params:
        """Those of a request to OpenAI's interfaces, as a dict. Fields that vLLM's server adds to
        it are converted, too."""
        values = _given(request, _public)
        text = values.get("text")
        if isinstance(text, Mapping) and text.get("format", PLAIN) == PLAIN:
            values["text"] = {"format": PLAIN}  # whatever its verbosity is
        if values.get("logprobs") is False:  # 0 asks for those of the drawn tokens
            del values["logprobs"]
        skipped = set(ignore)
        _take_ends(OPENAI, values, skipped)
        return _joined(cls, OPENAI, *_converted(OPENAI, values, skipped), more)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict.__repr__(self)})"


def chain_stages(chain: _types.Choice[_types.Chain]) -> List[_types.Stage]:
    """The stages of a preset, in their order: "default", "vllm" or "llama"."""
    out = ffi.new("uint8_t[]", _types.CHAIN_LENGTH)
    must(lib.cls_chain_stages(choice("chain", chain, _types.Chain), out))
    return [_types.Stage(number) for number in out if number != 0]


# --------------------------------------------------------------------- reading a source


def _given(source: Any, read: Callable[[Any], Any]) -> Dict[str, Any]:
    """What a source sets; None stands for a value that is not set."""
    found = source if isinstance(source, Mapping) else read(source)
    if not isinstance(found, Mapping):
        raise TypeError(f"the parameters must be a dict or an object of them, not {kind(source)}")
    return {name: value for name, value in found.items() if value is not None}


def _public(source: Any) -> Any:
    return source.to_dict() if hasattr(source, "to_dict") else None


def _fields(source: Any) -> Any:
    names = getattr(source, "__struct_fields__", None) or vars(type(source)).get("__annotations__")
    return {name: getattr(source, name, None) for name in names} if names else None


def _read(path: Any) -> Any:
    if os.path.isdir(path):
        path = os.path.join(path, "generation_config.json")
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)!r} is no JSON: {error}") from None


def _take_ends(source: Source, values: Dict[str, Any], skipped: Set[str]) -> None:
    """Leaves of what vLLM's engine has made of the words and ends what a request has of them."""
    if "_bad_words_token_ids" in values:
        values.pop("bad_words", None)
    if not values.get("ignore_eos") or "ignore_eos" in skipped:
        return
    for name in ("_all_stop_token_ids", "_eos_token_id"):  # they are there for min_tokens alone
        values.pop(name, None)
    if values.get("min_tokens") and "min_tokens" not in skipped:
        raise ValueError(
            f"{source.call}: min_tokens = {values['min_tokens']!r:.60} is not converted: with "
            "ignore_eos it also bans the end of the text, which is no stop id here; "
            "ignore=['min_tokens'] leaves it out"
        )


# -------------------------------------------------------------------------- conversions


def _same(value: Any) -> Any:
    return value


def _ids(value: Any) -> List[Any]:
    """One id, or any iterable of them."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return sorted(value) if isinstance(value, (set, frozenset)) else list(value)
    return [value]


def _words(value: Any) -> List[List[Any]]:
    if any(isinstance(word, str) for word in value):
        raise TypeError("it must have lists of ids: the tokenizer converts words")
    return [_ids(word) for word in value]


def _biases(value: Any) -> List[Tuple[int, float]]:
    """Biases by ids, which JSON writes as text."""
    try:
        return [(_id(token), bias) for token, bias in dict(value).items()]
    except (TypeError, ValueError):
        raise ValueError("it must be a dict of biases by token ids") from None


def _id(token: Any) -> int:
    return int(token) if isinstance(token, str) and token.isdecimal() else operator.index(token)


def _set(value: Any) -> Any:
    """vLLM's -1 is a value that is not set."""
    return None if value == -1 else value


def _top_k(value: Any) -> Any:
    if isinstance(value, int) and value < -1:
        raise ValueError("it must be -1 or 0, which are off, or more")
    return value


def _limit(value: Any) -> Any:
    if value == 0:
        raise ValueError("it must be 1 or more; in clsample 0 is no limit")
    return value


def _bans(value: Any) -> List[Tuple[int, float]]:
    return [(token, -math.inf) for token in _ids(value)]


def _sequence_biases(value: Any) -> List[Tuple[int, float]]:
    """Biases of sequences, as a dict or, in JSON, as a list of pairs."""
    pairs = value.items() if isinstance(value, Mapping) else value
    if any(len(_ids(sequence)) != 1 for sequence, _ in pairs):
        raise ValueError("it has a sequence of several tokens; a step's `bias` can express it")
    return [(_ids(sequence)[0], bias) for sequence, bias in pairs]


PHASED = ("temperature", "top_k", "top_p", "min_p")  # what vLLM's post_thinking has
DETECTION = {"min_count": 0, "min_pattern_size": 0, "max_pattern_size": 0}  # vLLM's defaults


def _loops(name: str, least: int = 0) -> Callable[[Any], Any]:
    """Reads a number of vLLM's repetition_detection, a dict or an object, which is off if no
    pattern has a size."""

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            value = {one: getattr(value, one) for one in DETECTION}
        elif not set(value) <= set(DETECTION):
            raise ValueError(f"it has no {min(set(value) - set(DETECTION))!r}")
        found = {**DETECTION, **value}
        if min(found.values()) < 0:
            raise ValueError("it has a number below 0")
        if found["max_pattern_size"] and found["min_count"] < 2:
            raise ValueError(f"its min_count is {found['min_count']}; it must be 2 or more")
        return max(least, found[name]) if found["max_pattern_size"] else None

    return read


def _phase(value: Any) -> Dict[str, Any]:
    """vLLM's post_thinking, a dict or an object."""
    given = _given(value, _fields)
    if not set(given) <= set(PHASED):
        raise ValueError(f"{min(set(given) - set(PHASED))!r} is not by phase")
    return given


# ------------------------------------------------------------------------------- joining


def _both_allow(first: List[Any], more: Any) -> List[Any]:
    ids("allowed_ids", more)
    allowed = set(_ids(more))
    return [token for token in first if token in allowed]


def _all_stops(first: List[Any], more: Any) -> List[Any]:
    ids("stop_ids", more)
    return [*first, *(token for token in _ids(more) if token not in first)]


def _both_biases(first: List[Any], more: Any) -> List[Any]:
    """The later bias of an id takes the place of the earlier, but for -inf."""
    biases("logit_bias", more)
    pairs = list(more.items() if isinstance(more, Mapping) else more)
    again = {token for token, _ in pairs}
    return [pair for pair in first if pair[0] not in again or pair[1] == -math.inf] + pairs


# What forbids: how a list is joined with another one.
JOINED: Mapping[str, Callable[[Any, Any], Any]] = {
    "allowed_ids": _both_allow,
    "bad_words": lambda first, more: [*first, *more],
    "logit_bias": _both_biases,
    "stop_ids": _all_stops,
}


# ----------------------------------------------------------------------------- effects


def _empty(params: Mapping[str, Any], name: str = "stop_ids") -> bool:
    return params.get(name) is None or len(params[name]) == 0


def _check_effects(source: Source, found: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Refuses what the source names and clsample would take, but could not do."""
    least, most = params.get("min_tokens"), params.get("max_tokens")
    why = ""
    if "min_tokens" in found and least:
        if _empty(params):
            why = "there are no stop ids that it could ban; give stop_ids"
        elif most and least > most:
            why = f"the text ends after max_tokens = {most}"
        if why:
            raise _without_effect(source, "min_tokens", least, why)
    budget, action = params.get("thinking_budget"), params.get("loop_action")
    stop = params.get("stop_action")
    if "thinking_budget" in found and budget == 0:  # the library refuses others
        if _empty(params, "thinking_forced"):
            why = "thinking_forced, the ids that end the thinking, is empty"
        elif action is not None and choice("loop_action", action, _types.LoopAction):
            why = "0 is no budget where loop_action ends the thinking"
        elif stop is not None and choice("stop_action", stop, _types.StopAction) == 2:
            why = "0 is no budget where stop_action ends the thinking"
        if why:
            raise _without_effect(source, "thinking_budget", budget, why)


def _without_effect(source: Source, ours: str, value: Any, why: str) -> ValueError:
    theirs = next(name for name, rules in source.rules.items() if rules[0][0] == ours)
    return ValueError(
        f"{theirs} = {value!r:.60} is not converted: {why}; ignore=[{theirs!r}] leaves it out"
    )


# ------------------------------------------------------------------------------- tables


class Source(NamedTuple):
    """How the parameters of another system are converted."""

    call: str
    defaults: Mapping[str, Any]  # what its rows are here, if the source says nothing
    # Their name: what it is here, once or several times, and how the value is converted.
    rules: Mapping[str, Tuple[Tuple[str, Callable[[Any], Any]], ...]]
    # Their name: the values that are off, and what to say of any other. These are refused, among
    # them whatever decides which text may be written ...
    refused: Mapping[str, Tuple[Tuple[Any, ...], str]]
    # ... and these are what the caller does, such as to end the text.
    left: Mapping[str, Tuple[Tuple[Any, ...], str]]
    unused: Iterable[str]  # what does not concern the choice of tokens


def _one(ours: str, convert: Callable[[Any], Any] = _same) -> Any:
    return ((ours, convert),)


def _equal(*names: str) -> Any:
    """Rules for parameters that have the same names and values here."""
    return {name: _one(name) for name in names}


BEAMS = "beams are not served"
ENCODER = "the encoder's text is not known here"
MASKS = "make a Grammar of it, or pass its masks to the steps"
PLAIN = {"type": "text"}  # text of any form
OUTPUTS = "ask the step for logprobs=True or top=N"

TRANSFORMERS = Source(
    "from_generation_config()",
    {},
    {
        **_equal("temperature", "top_p", "min_p", "typical_p", "repetition_penalty"),
        "top_k": _one("top_k", _top_k),
        "no_repeat_ngram_size": _one("no_repeat_ngram"),
        "bad_words_ids": _one("bad_words", _words),
        "sequence_bias": _one("logit_bias", _sequence_biases),
        "suppress_tokens": _one("logit_bias", _bans),
        "eos_token_id": _one("stop_ids", _ids),
        "max_new_tokens": _one("max_tokens", _limit),
        "min_new_tokens": _one("min_tokens"),
    },
    {
        "num_beams": ((1,), BEAMS),
        "num_beam_groups": ((1,), BEAMS),
        "diversity_penalty": ((0,), BEAMS),
        "constraints": ((), BEAMS),
        "force_words_ids": ((), BEAMS),
        "penalty_alpha": ((0,), "contrastive search is not served"),
        "dola_layers": ((), "DoLa needs the logits of several layers"),
        "epsilon_cutoff": ((0, 1), "no truncation here is its equal; min_p is near to it"),
        "eta_cutoff": ((0, 1), "no truncation here is its equal; min_p is near to it"),
        "top_h": ((), "no truncation here is its equal"),
        "guidance_scale": ((1,), "a step's `bias` and `bias_factor` express it"),
        "encoder_repetition_penalty": ((1,), ENCODER),
        "encoder_no_repeat_ngram_size": ((0,), ENCODER),
        "watermarking_config": ((), "a step's `bias` can express a watermark of the logits"),
        "exponential_decay_length_penalty": ((), "a step's `bias` can express it"),
        "forced_bos_token_id": ((), "Request.force() forces a first token"),
        "forced_eos_token_id": ((), "Request.force() forces a last token"),
        "begin_suppress_tokens": (
            ([],),
            "begin with these ids in logit_bias, and update() it after the first token",
        ),
        "prompt_lookup_num_tokens": ((0,), "Sampler.verify() verifies drafts"),
        "use_mtp": ((False,), "Sampler.verify() verifies drafts"),
        "token_healing": ((False,), "heal the prompt before the request begins"),
        "min_length": ((0,), "it counts the prompt; give min_tokens"),
    },
    {
        "max_length": ((), "it counts the prompt; give max_tokens"),
        "max_time": ((), "end the request"),
        "stop_strings": (([],), "find them in the text"),
        "num_return_sequences": ((1,), "begin a request for each, with a stream of its own"),
        "remove_invalid_values": ((False,), "NaN is never drawn, and the status reports it"),
    },
    """
        assistant_confidence_threshold assistant_early_exit assistant_ensemble_weight
        assistant_lookbehind bos_token_id cache_config cache_implementation compile_config
        continuous_batching_config decoder_start_token_id disable_compile early_stopping
        is_assistant length_penalty low_memory max_cache_len max_matching_ngram_size
        num_assistant_tokens num_assistant_tokens_schedule output_attentions
        output_hidden_states output_logits output_scores pad_token_id prefill_chunk_size
        renormalize_logits return_dict_in_generate return_legacy_cache speculation_type
        target_lookbehind transformers_version use_cache
    """.split(),
)

VLLM = Source(
    "from_vllm()",
    {"chain": "vllm"},
    {
        **_equal("temperature", "top_p", "min_p", "repetition_penalty"),
        **_equal("presence_penalty", "frequency_penalty", "min_tokens"),
        "top_k": _one("top_k", _top_k),
        "max_tokens": _one("max_tokens", _limit),
        "seed": _one("seed", _set),
        "logit_bias": _one("logit_bias", _biases),
        "allowed_token_ids": _one("allowed_ids", _ids),
        "bad_words": _one("bad_words", _words),
        "_bad_words_token_ids": _one("bad_words", _words),
        "stop_token_ids": _one("stop_ids", _ids),
        "_all_stop_token_ids": _one("stop_ids", _ids),
        "_eos_token_id": _one("stop_ids", _ids),
        "thinking_token_budget": _one("thinking_budget", _set),
        "post_thinking": _one("post_thinking", _phase),
        "repetition_detection": (
            ("loop_repeats", _loops("min_count")),
            ("loop_min", _loops("min_pattern_size", 1)),
            ("loop_max", _loops("max_pattern_size", 1)),
        ),
    },
    {
        "structured_outputs": ((), MASKS),
        "logits_processors": (([],), "a step's `bias` and `mask` take their place"),
        "trace_decode_token_ids": ((), "Request.force() forces them"),
        "extra_args": (({},), "clsample does not know what they do"),
        "watermarking": ((False,), "the engine has the key; give watermark_key"),
    },
    {
        "n": ((1,), "begin a request for each, with a stream of its own"),
        "stop": (([], ""), "find the texts"),
        "ignore_eos": ((False,), "leave the end out of stop_ids"),
        "logprobs": ((), OUTPUTS),
        "prompt_logprobs": ((), "Sampler.logprobs() computes them"),
        "prompt_logprob_token_ids": ((), "Sampler.logprobs() computes them"),
        "prompt_logprob_start": ((), "Sampler.logprobs() computes what it is given"),
        "logprob_token_ids": ((), "give a step these ids as `given`"),
        "truncate_prompt_tokens": ((), "truncate the prompt"),
    },
    """
        detokenize flat_logprobs include_stop_str_in_output output_kind
        output_text_buffer_length routed_experts_prompt_start skip_clone
        skip_reading_prefix_cache skip_special_tokens spaces_between_special_tokens
        stream_interval
    """.split(),
)

OPENAI = VLLM._replace(
    call="from_openai()",
    rules={
        **VLLM.rules,
        "max_completion_tokens": _one("max_tokens", _limit),
        "max_output_tokens": _one("max_tokens", _limit),
    },
    refused={
        **VLLM.refused,
        "response_format": ((PLAIN,), MASKS),
        "text": (({"format": PLAIN},), MASKS),
        "tools": (([],), MASKS),
        "tool_choice": (("auto", "none"), MASKS),
        "parallel_tool_calls": ((True,), MASKS),
    },
    left={
        **VLLM.left,
        "best_of": ((1,), "begin a request for each, with a stream of its own"),
        "top_logprobs": ((0,), OUTPUTS),
        "echo": ((False,), "the prompt is the caller's"),
        "suffix": ((), "the prompt is the caller's"),
    },
    unused=(
        *VLLM.unused,
        *"""
        audio background conversation include input instructions max_tool_calls messages
        metadata modalities model prediction previous_response_id prompt
        prompt_cache_key reasoning reasoning_effort safety_identifier service_tier store
        stream stream_options truncation user verbosity web_search_options
    """.split(),
    ),
)


def _converted(
    source: Source, values: Mapping[str, Any], ignore: Iterable[str]
) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Applies a table: the parameters here, and what is ignored."""
    found: Dict[str, Any] = dict(source.defaults)
    ignored: Dict[str, Any] = {}
    left: List[str] = []
    skipped = set(ignore)
    for name, value in values.items():
        if name in skipped or name in source.unused:
            ignored[name] = value
        elif name in source.rules:
            for ours, convert in source.rules[name]:
                try:
                    if isinstance(value, bool):  # Python takes it for 0 or 1
                        raise TypeError("it must be a number, not True or False")
                    one = convert(value)
                    if one is None:
                        continue
                    if ours in found and ours in JOINED:
                        one = JOINED[ours](found[ours], one)
                    elif ours in found and found[ours] != one:
                        raise ValueError(f"another name of it has {found[ours]!r}")
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    raise ValueError(f"{source.call}: {name} = {value!r:.60}: {error}") from None
                found[ours] = one
        elif name in source.refused or name in source.left:
            off, advice = {**source.refused, **source.left}[name]
            if not any(value == one for one in off):
                if name in source.refused:
                    raise ValueError(
                        f"{source.call}: {name} = {value!r:.60} is not converted: {advice}; "
                        f"ignore=[{name!r}] leaves it out"
                    )
                left.append(f"{name} = {value!r:.60} ({advice})")
        elif name.startswith("_"):  # of the object, and no parameter
            ignored[name] = value
        else:
            raise _unknown(source, name)
    if left:
        warnings.warn(f"{source.call}: this is left to the caller: {'; '.join(left)}", stacklevel=3)
    return found, ignored


def _joined(
    cls: Any,
    source: Source,
    found: Dict[str, Any],
    ignored: Dict[str, Any],
    more: Mapping[str, Any],
) -> Params:
    """The parameters of a source, with those that the caller adds."""
    try:
        given = own(dict(more))
        for name in JOINED:
            if name in found and given.get(name) is None:
                given.pop(name, None)  # None stands for a list that is not given
            elif name in found:
                given[name] = JOINED[name](found[name], given[name])
        if "post_thinking" in found and "post_thinking" not in given:
            both = {**found, **given}
            given["post_thinking"] = {
                # What the others have, too, unless it is given.
                **{name: both[name] for name in _types.BY_PHASE if both.get(name) is not None},
                **found["post_thinking"],
            }
        params: Params = cls(found, **given)
        _check_effects(source, found, params)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{source.call}: {error}") from None
    params.ignored = ignored
    return params


def _unknown(source: Source, name: str) -> TypeError:
    known = [*source.rules, *source.refused, *source.left, *source.unused, "do_sample"]
    near = nearest(name, known)
    hint = f"did you mean {near!r}? " if near else ""
    return TypeError(f"{source.call}: {name!r} is not known; {hint}ignore=[{name!r}] leaves it out")
