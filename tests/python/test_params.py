# SPDX-License-Identifier: MIT
"""clsample.Params: each name of other systems is converted, refused or left by a sentence, as the
tables of doc/parameters.md say, and the command's table has the same names."""

import json
import math
import re
import warnings

import numpy as np
import pytest

import clsample
from clsample import Params, RowStatus, Stage, _params, _types
from clsample._cffi import ffi
from clsample._request import new_params
from conftest import SOURCE, reference, token_of

SYSTEMS = {
    "Hugging Face Transformers": (_params.TRANSFORMERS, Params.from_generation_config),
    "vLLM": (_params.VLLM, Params.from_vllm),
    "OpenAI": (_params.OPENAI, Params.from_openai),
}


def test_a_dict(context):
    params = Params({"top_k": 5}, seed=7, stop_ids=iter([3]))
    assert params == {"top_k": 5, "seed": 7, "stop_ids": [3]} and params.ignored == {}
    with context.sampler(100) as sampler, sampler.begin([1], **params) as request:
        assert request.params["stop_ids"] == [3]
    logits = [float(token) for token in range(100)]
    assert token_of(logits_of(logits), **params) >= 95
    with pytest.raises(TypeError, match="did you mean 'temperature'"):
        Params(temprature=1)
    with pytest.raises(ValueError, match="top_p is 3"):
        Params(top_p=3)


def test_a_grammar(context):
    """It is of its own vocabulary, whose ids the other parameters must have."""
    grammar = clsample.Grammar([{5: 1}, {}], final_states=[1], end_ids=[2], vocab=100)
    for read in (
        Params,
        lambda **more: Params.from_generation_config({"do_sample": True}, **more),
        lambda **more: Params.from_vllm({}, **more),
        lambda **more: Params.from_openai({}, **more),
    ):
        params = read(grammar=grammar, grammar_state=0)
        assert params["grammar"] is grammar and Params(params, seed=3)["grammar"] is grammar
        with context.sampler(100) as sampler, sampler.begin(**params) as request:
            logits = logits_of([float(token) for token in range(100)])
            tokens = [int(sampler.sample(logits, request).tokens[0]) for _ in range(2)]
        assert tokens == [5, 2]
        with pytest.raises(ValueError, match="stop_ids.* 100"):
            read(grammar=grammar, stop_ids=[100])
        with pytest.raises(TypeError, match="grammar must be a clsample.Grammar, not int"):
            read(grammar=3)


def logits_of(values):
    return np.asarray(values, np.float32)


GENERATION = [
    ({}, {"temperature": 0}),
    ({"do_sample": False, "temperature": 1.0}, {"temperature": 0}),
    ({"do_sample": True}, {"top_k": 50}),
    ({"do_sample": True, "top_k": 0, "top_p": 0.9}, {"top_k": 0, "top_p": 0.9}),
    ({"do_sample": True, "top_k": None, "temperature": 0.5}, {"top_k": 50, "temperature": 0.5}),
    ({"eos_token_id": 2}, {"temperature": 0, "stop_ids": [2]}),
    ({"eos_token_id": [2, 5]}, {"temperature": 0, "stop_ids": [2, 5]}),
    (
        {"bad_words_ids": [[4, 5], [2]], "eos_token_id": 2},
        {"temperature": 0, "bad_words": [[4, 5]], "stop_ids": [2]},
    ),
    (
        {"suppress_tokens": [7], "sequence_bias": [[[8], 1.5]]},
        {"temperature": 0, "logit_bias": [(7, -math.inf), (8, 1.5)]},
    ),
    (
        {"max_new_tokens": 9, "min_new_tokens": 3, "no_repeat_ngram_size": 4, "eos_token_id": 2},
        {
            **{"temperature": 0, "max_tokens": 9, "min_tokens": 3, "no_repeat_ngram": 4},
            "stop_ids": [2],
        },
    ),
    ({"num_beams": 1, "epsilon_cutoff": 0.0, "guidance_scale": None}, {"temperature": 0}),
]


class Detection:
    """Stands for vLLM's RepetitionDetectionParams, which are off as long as no size is named."""

    min_count, min_pattern_size, max_pattern_size = 3, 2, 0


VLLM = [
    ({}, {"chain": "vllm"}),
    ({"top_k": -1, "seed": None, "stop": []}, {"chain": "vllm", "top_k": -1}),
    ({"seed": -1, "n": 1}, {"chain": "vllm"}),
    ({"logit_bias": {"50": -100}}, {"chain": "vllm", "logit_bias": [(50, -100)]}),
    ({"stop_token_ids": [3], "min_tokens": 2}, {"chain": "vllm", "stop_ids": [3], "min_tokens": 2}),
    (
        {"bad_words": ["a"], "_bad_words_token_ids": [[3, 4]], "_eos_token_id": 2},
        {"chain": "vllm", "bad_words": [[3, 4]], "stop_ids": [2]},
    ),
    ({"thinking_token_budget": -1, "min_tokens": 0}, {"chain": "vllm", "min_tokens": 0}),
    (
        {"repetition_detection": dict(min_count=4, min_pattern_size=0, max_pattern_size=9)},
        {"chain": "vllm", "loop_repeats": 4, "loop_min": 1, "loop_max": 9},
    ),
    ({"repetition_detection": dict(min_count=4, max_pattern_size=0)}, {"chain": "vllm"}),
    ({"repetition_detection": Detection()}, {"chain": "vllm"}),
    (
        {"repetition_detection": dict(min_count=3, max_pattern_size=5)},
        {"chain": "vllm", "loop_repeats": 3, "loop_min": 1, "loop_max": 5},
    ),
]
OPENAI = [
    (
        {
            "model": "m",
            "messages": [],
            "temperature": 0.2,
            "max_completion_tokens": 5,
            "stop": None,
        },
        {"chain": "vllm", "temperature": 0.2, "max_tokens": 5},
    ),
    ({"logit_bias": {"7": 2}, "top_k": 20}, {"chain": "vllm", "logit_bias": [(7, 2)], "top_k": 20}),
    ({"response_format": {"type": "text"}}, {"chain": "vllm"}),
]


@pytest.mark.parametrize(
    "read,given,wanted",
    [
        (read, *pair)
        for read, pairs in (
            (Params.from_generation_config, GENERATION),
            (Params.from_vllm, VLLM),
            (Params.from_openai, OPENAI),
        )
        for pair in pairs
    ],
)
def test_conversions(read, given, wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(given) == wanted
        more = {"temperature": 0.3, "dry_multiplier": 0.8}
        assert read(given, **more) == {**wanted, **more}


OFF = -math.inf
JOINED = [
    ({"suppress_tokens": [1, 2]}, {"logit_bias": {5: 1.0}}, [(1, OFF), (2, OFF), (5, 1.0)]),
    ({"suppress_tokens": [1]}, {"logit_bias": iter([(1, 9.0)])}, [(1, OFF), (1, 9.0)]),
    ({"sequence_bias": {(1,): 2.0}}, {"logit_bias": {1: 3.0}}, [(1, 3.0)]),
    ({"sequence_bias": {(1,): 2.0}}, {"logit_bias": {1: OFF}}, [(1, OFF)]),
    ({"sequence_bias": {(1,): 2.0}, "suppress_tokens": [1]}, {"logit_bias": None}, [(1, OFF)]),
    ({"eos_token_id": 2}, {"stop_ids": (2, 3)}, [2, 3]),
    ({"bad_words_ids": [[4]]}, {"bad_words": [[5, 6]]}, [[4], [5, 6]]),
    ({"bad_words_ids": [[4]], "eos_token_id": 2}, {"bad_words": [[2]]}, [[4], [2]]),
    ({"bad_words_ids": [[4]]}, {"bad_words": [[5]], "stop_ids": [4]}, [[4], [5]]),
]
JOINED_VLLM = [
    ({"allowed_token_ids": [1, 2, 3]}, {"allowed_ids": np.array([3, 4, 1])}, [1, 3]),
    ({"allowed_token_ids": [1]}, {"allowed_ids": []}, []),
    ({"allowed_token_ids": [1]}, {"allowed_ids": None}, [1]),
    ({"stop_token_ids": [5], "_all_stop_token_ids": {5, 2}}, {"stop_ids": [7]}, [5, 2, 7]),
    ({"_bad_words_token_ids": [[3]]}, {"bad_words": [np.array([4])]}, [[3], [4]]),
    ({"logit_bias": {"5": -math.inf}}, {"logit_bias": {6: 1}}, [(5, OFF), (6, 1)]),
]


@pytest.mark.parametrize(
    "read, given, more, wanted",
    [(Params.from_generation_config, *case) for case in JOINED]
    + [(read, *case) for case in JOINED_VLLM for read in (Params.from_vllm, Params.from_openai)],
)
def test_what_forbids_is_joined(read, given, more, wanted):
    """What the caller adds to a source's lists lifts no ban of the source, nor does None."""
    found = read(given, **more)
    assert found[next(iter(more))] == wanted
    with pytest.raises((TypeError, ValueError), match=f"{next(iter(more))}"):
        read(given, **{next(iter(more)): [[[1]]]})


def test_a_ban_stays(sampler, logits):
    """Also where a bias of the caller would raise the same token, on the host and on a device."""
    best = int(logits[0].argmax())
    params = Params.from_generation_config({"suppress_tokens": [best]}, logit_bias={best: 50.0})
    with sampler.begin(**params) as request:
        token = int(sampler.sample(logits[:1], request).tokens[0])
    assert token == token_of(logits[0], **params) != best


def test_greedy_without_do_sample():
    for given in ({"temperature": 0.7}, {"do_sample": False, "temperature": 0.7}):
        with pytest.warns(UserWarning, match="do_sample is not true.* temperature = 0.7 has no"):
            assert Params.from_generation_config(given) == {"temperature": 0}


def test_files(tmp_path):
    path = tmp_path / "generation_config.json"
    given = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.40.0"}
    path.write_text(json.dumps({**given, "bos_token_id": 1, "_from_model_config": True}))
    wanted = {"temperature": 0.6, "top_p": 0.9, "top_k": 50}
    for source in (path, str(path), tmp_path):
        found = Params.from_generation_config(source)
        assert found == wanted
        assert list(found.ignored) == ["transformers_version", "bos_token_id", "_from_model_config"]
    with pytest.raises(OSError):
        Params.from_generation_config(tmp_path / "nothing.json")
    path.write_text('{"do_sample": ')
    with pytest.raises(ValueError, match="generation_config.json' is no JSON: Expecting value"):
        Params.from_generation_config(tmp_path)


class Sampling:
    """Stands for vLLM's SamplingParams, which is a struct with the names of its fields."""

    __struct_fields__ = (
        *("temperature", "top_k", "stop", "seed", "_all_stop_token_ids", "watermarking"),
        *("stream_interval", "routed_experts_prompt_start", "trace_decode_token_ids"),
    )
    temperature, top_k, stop, seed, _all_stop_token_ids = 0.5, 0, None, 3, {9, 2}
    watermarking, stream_interval, trace_decode_token_ids = None, None, None
    routed_experts_prompt_start = 0


def test_objects():
    assert Params.from_vllm(Sampling()) == {
        "chain": "vllm",
        "temperature": 0.5,
        "top_k": 0,
        "seed": 3,
        "stop_ids": [2, 9],
    }
    for read in (Params.from_generation_config, Params.from_vllm, Params.from_openai):
        with pytest.raises(TypeError, match="must be a dict or an object of them, not int"):
            read(5)


def test_their_objects():
    """The real class: every attribute has a place in the table, and neutral ones are off."""
    transformers = pytest.importorskip("transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = transformers.GenerationConfig(do_sample=True, temperature=0.7, eos_token_id=[2])
        found = Params.from_generation_config(config, ignore=["max_length"])
        assert found.items() >= {"temperature": 0.7, "stop_ids": [2], "top_k": 50}.items()
        theirs = getattr(transformers.GenerationConfig, "_get_default_generation_params", None)
        defaults = theirs() if theirs else transformers.GenerationConfig().to_dict()  # version 4
        assert Params.from_generation_config(defaults, ignore=["max_length"])["temperature"] == 0
    table, _ = SYSTEMS["Hugging Face Transformers"]
    known = {*table.rules, *table.refused, *table.left, *table.unused, "do_sample"}
    assert {name for name in vars(config) if not name.startswith("_")} <= known


# Values that other systems refuse, or do what clsample could not do: what is said of each.
# Parameters besides it are of the same source.
WALKED_VLLM = [
    ({"temperature": -1}, "temperature is -1"),
    ({"temperature": True}, "temperature = True: it must be a number"),
    ({"top_p": 1.5}, "top_p is 1.5"),
    ({"top_k": 1.5}, "top_k must be an integer"),
    ({"top_k": -5}, "top_k = -5: it must be -1 or 0, which are off, or more"),
    ({"top_k": True}, "top_k = True: it must be a number"),
    ({"min_p": -1}, "min_p is -1"),
    ({"repetition_penalty": 0}, "repetition_penalty is 0"),
    ({"presence_penalty": math.inf}, "presence_penalty is inf"),
    ({"frequency_penalty": math.nan}, "frequency_penalty is nan"),
    ({"max_tokens": 0}, "max_tokens = 0: it must be 1 or more"),
    ({"max_tokens": True}, "max_tokens = True: it must be a number"),
    ({"seed": -5}, "seed is -5"),
    ({"logit_bias": {3: math.inf}}, r"logit_bias\[0\].bias is inf"),
    ({"allowed_token_ids": [-1]}, r"allowed_ids\[0\] is -1"),
    ({"bad_words": ["a"]}, "bad_words = .*the tokenizer converts words"),
    ({"_bad_words_token_ids": [[]]}, "bad_words"),
    ({"stop_token_ids": [-1]}, r"stop_ids\[0\] is -1"),
    ({"_all_stop_token_ids": {-1}}, r"stop_ids\[0\] is -1"),
    ({"_eos_token_id": -1}, r"stop_ids\[0\] is -1"),
    ({"min_tokens": -1}, "min_tokens is -1"),
    ({"min_tokens": 3}, "min_tokens = 3 .* there are no stop ids that it could ban.*ignore=.'min_"),
    ({"min_tokens": 3, "stop_token_ids": []}, "there are no stop ids that it could ban"),
    ({"min_tokens": 5, "max_tokens": 4, "stop_token_ids": [2]}, "min_tokens = 5 .* max_tokens = 4"),
    ({"min_tokens": 3, "ignore_eos": True, "stop_token_ids": [5]}, "min_tokens = 3 .*ignore_eos"),
    (
        {"min_tokens": 3, "ignore_eos": True, "_all_stop_token_ids": {2}, "_eos_token_id": 2},
        "min_tokens = 3 is not converted: with ignore_eos it also bans the end",
    ),
    ({"thinking_token_budget": 0}, "thinking_token_budget = 0 .* thinking_forced.* is empty"),
    ({"thinking_token_budget": 5}, "thinking_budget is set, but .*thinking_forced"),
    ({"thinking_token_budget": -2}, "thinking_budget is -2"),
    ({"post_thinking": {"seed": 3}}, "post_thinking = .* 'seed' is not by phase"),
    ({"post_thinking": {"top_k": 3}}, "post_thinking is set, but .*thinking_start"),
    ({"repetition_detection": {"max_pattern_size": 5}}, "its min_count is 0; it must be 2 or"),
    ({"repetition_detection": {"max_pattern_size": -5, "min_count": 2}}, "a number below 0"),
    (
        {"repetition_detection": dict(min_count=2, min_pattern_size=3, max_pattern_size=2)},
        "loop_min is 3",
    ),
]
WALKED = {
    "vLLM": WALKED_VLLM,
    "OpenAI": [
        *WALKED_VLLM,
        ({"max_completion_tokens": 0}, "max_completion_tokens = 0: it must be 1 or more"),
        ({"max_output_tokens": -1}, "max_tokens is -1"),
    ],
    "Hugging Face Transformers": [
        ({"do_sample": 1}, "do_sample must be True or False"),
        ({"do_sample": True, "temperature": -1}, "temperature is -1"),
        ({"top_k": -2}, "top_k = -2: it must be -1 or 0"),
        ({"top_p": 2}, "top_p is 2"),
        ({"min_p": 2}, "min_p is 2"),
        ({"typical_p": 2}, "typical_p is 2"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0"),
        ({"no_repeat_ngram_size": 20000}, "no_repeat_ngram is 20000"),
        ({"bad_words_ids": [[]]}, "bad_words"),
        ({"sequence_bias": {(1, 2): 1.0}}, "several tokens"),
        ({"suppress_tokens": [-1]}, r"logit_bias\[0\].id is -1"),
        ({"eos_token_id": -1}, r"stop_ids\[0\] is -1"),
        ({"max_new_tokens": 0}, "max_new_tokens = 0: it must be 1 or more"),
        ({"min_new_tokens": -1, "eos_token_id": 2}, "min_tokens is -1"),
        (
            {"min_new_tokens": 5, "max_new_tokens": 4, "eos_token_id": 2},
            "min_new_tokens = 5 .* max_tokens = 4; ignore=.'min_new_tokens'",
        ),
    ],
}


@pytest.mark.parametrize(
    "system, given, words", [(system, *one) for system, rows in WALKED.items() for one in rows]
)
def test_what_cannot_be_honoured_is_refused(system, given, words):
    """test_refused_left_and_unused() has the names that are not converted."""
    table, read = SYSTEMS[system]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError), match=re.escape(table.call) + ".*" + words):
            read(given)


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_name_is_walked(system):
    walked = {name for given, _ in WALKED[system] for name in given}
    assert set(SYSTEMS[system][0].rules) <= walked


def test_parameters_with_an_effect_elsewhere():
    """What is refused alone is converted where the caller gives what it lacks."""
    for read in (Params.from_vllm, Params.from_openai):
        found = read({"min_tokens": 3}, stop_ids=np.array([2]))
        assert found["min_tokens"] == 3 and found["stop_ids"] == [2]
        assert read({"min_tokens": 3}, ignore=["min_tokens"]).ignored == {"min_tokens": 3}
        budget = {"thinking_token_budget": 0}
        found = read(budget, thinking_forced=[7, 6], thinking_ends=[[6]])
        assert found["thinking_budget"] == 0
        loops = dict(thinking_forced=[6], loop_repeats=2, loop_action="end_thinking")
        with pytest.raises(ValueError, match="thinking_token_budget = 0 .* 0 is no budget where"):
            read(budget, **loops)
        stops = dict(thinking_forced=[6], stop_ids=[2], stop_action="end_thinking")
        with pytest.raises(ValueError, match="0 is no budget where stop_action ends"):
            read(budget, **stops)
        assert read(budget, **{**stops, "stop_action": "banned"})["thinking_budget"] == 0
        ended = {"stop_token_ids": [5], "_all_stop_token_ids": {2, 5}, "_eos_token_id": 2}
        assert read({**ended, "min_tokens": 3})["stop_ids"] == [5, 2]
        ended["ignore_eos"] = True
        with pytest.warns(UserWarning, match="ignore_eos = True"):
            assert read(ended) == {"chain": "vllm", "stop_ids": [5]}
        assert read(ended, ignore=iter(["ignore_eos"]))["stop_ids"] == [5, 2]
    with pytest.warns(UserWarning, match="min_new_tokens = 3 has no effect, as there"):
        assert Params.from_generation_config({"min_new_tokens": 3}) == {"temperature": 0}
    assert Params.from_generation_config({"min_new_tokens": 3}, stop_ids=[2])["min_tokens"] == 3


def test_log_probabilities_of_drawn_tokens():
    """0 asks for them, and False for none."""
    with pytest.warns(UserWarning, match="logprobs = 0 .ask the step"):
        Params.from_openai({"logprobs": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Params.from_openai({"logprobs": False}) == {"chain": "vllm"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_refused_left_and_unused(system):
    table, read = SYSTEMS[system]
    for name, (off, advice) in table.refused.items():
        with pytest.raises(
            ValueError, match=f"{re.escape(table.call)}: {name} = .*{re.escape(advice[:20])}"
        ):
            read({name: 17})
        for value in off:
            read({name: value})
    for name, (off, advice) in table.left.items():
        with pytest.warns(
            UserWarning, match=f"left to the caller: {name} = 17 .{re.escape(advice[:10])}"
        ):
            read({name: 17})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert name in read({name: 17}, ignore=[name]).ignored
            for value in off:
                read({name: value})
    for name in table.unused:
        assert read({name: 17}).ignored == {name: 17}
    for name in table.rules:
        assert name not in {*table.refused, *table.left, *table.unused}


def test_messages():
    for read, given, words in (
        (
            Params.from_generation_config,
            {"temperatur": 1},
            "did you mean 'temperature'.*ignore=.'te",
        ),
        (Params.from_generation_config, {"zzz": 1}, r"'zzz' is not known; ignore=\['zzz'\]"),
        (Params.from_generation_config, {"eos_token_id": "x"}, "integers; its elements are text"),
        (Params.from_generation_config, {"sequence_bias": {(1, 2): 1.0}}, "several tokens"),
        (Params.from_generation_config, {"repetition_penalty": 0}, "repetition_penalty is 0"),
        (Params.from_vllm, {"watermarking": True}, "the engine has the key; give watermark_key"),
        (Params.from_vllm, {"bad_words": ["word"]}, "bad_words = .*: it must.*tokenizer converts"),
        (Params.from_openai, {"logit_bias": {"a": 1}}, "logit_bias = .*a dict of biases by token"),
        (Params.from_openai, {"logit_bias": [1]}, "logit_bias = .*a dict of biases by token ids"),
        (Params.from_vllm, {"logit_bias": {1.9: 1}}, "logit_bias = .*a dict of biases by"),
        (Params.from_openai, {"logit_bias": {"1.9": 1}}, "logit_bias = .*a dict of biases by"),
        (Params.from_openai, {"logit_bias": {"1_9": 1}}, "logit_bias = .*a dict of biases by"),
        (
            Params.from_vllm,
            {"repetition_detection": {"max_patern_size": 3}},
            "repetition_detection = .*: it has no 'max_patern_size'",
        ),
        (Params.from_openai, {"max_tokens": 0}, "max_tokens = 0: it must be 1 or more"),
        (Params.from_vllm, {"max_tokens": 0}, "max_tokens = 0: it must be 1 or more"),
        (Params.from_generation_config, {"max_new_tokens": 0}, "max_new_tokens = 0: it must be 1"),
        (
            Params.from_openai,
            {"max_tokens": 5, "max_completion_tokens": 6},
            "max_completion_tokens = 6: another name of it has 5",
        ),
        (Params.from_generation_config, {"do_sample": "no"}, "do_sample must be True or False"),
        (Params.from_generation_config, {"num_beams": 2}, r"not converted: beams.*ignore=\['num_"),
        (Params.from_openai, {"temperature": "hot"}, "temperature must be a number"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            read(given)


FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    "read, given",
    [
        (Params.from_openai, {"response_format": FORMAT}),
        (Params.from_openai, {"response_format": {"type": "json_object"}}),
        (Params.from_openai, {"text": {"format": FORMAT, "verbosity": "low"}}),
        (Params.from_openai, {"tools": [{"type": "function", "name": "f", "strict": True}]}),
        (Params.from_openai, {"tool_choice": "required"}),
        (Params.from_openai, {"tool_choice": {"type": "function", "name": "f"}}),
        (Params.from_openai, {"parallel_tool_calls": False}),
        (Params.from_openai, {"structured_outputs": {"choice": ["a", "b"]}}),
        (Params.from_vllm, {"structured_outputs": {"json": "{}"}}),
        (Params.from_vllm, {"trace_decode_token_ids": [3]}),
        (Params.from_vllm, {"extra_args": {"ngram_size": 3}}),
        (Params.from_generation_config, {"min_length": 5}),
    ],
)
def test_what_constrains_the_text_is_refused(read, given):
    """Unless the caller says that it shall not count."""
    name, value = next(iter(given.items()))
    with pytest.raises(ValueError, match=rf"{name} = .* is not converted: .*ignore=\['{name}'\]"):
        read(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(given, ignore=[name]).ignored == {name: value}
    for plain in ({"tool_choice": "auto"}, {"text": {"verbosity": "low"}}, {"tools": []}):
        assert Params.from_openai(plain) == {"chain": "vllm"}


def rows_of(system):
    """The rows of a table of doc/parameters.md: the names in the first two columns."""
    text = (SOURCE / "doc" / "parameters.md").read_text()
    section = text[text.index(f"## {system}\n") :].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| ") and "|---" not in line:
            yield [re.findall(r"`(\w+)\b[^`]*`", cell) for cell in line.split("|")[1:3]]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_document_agrees(system):
    """Each rule is a row of the document's table, and names what the document names."""
    table, _ = SYSTEMS[system]
    rows = list(rows_of(system))
    if system == "OpenAI":  # vLLM's server adds its own names
        rows += rows_of("vLLM")
    for theirs, rules in table.rules.items():
        if not theirs.startswith("_"):
            found = [row for row in rows if theirs in row[0]]
            assert found, f"{theirs} is not in the table of {system}"
            for ours, _ in rules:
                same = ours in found[0][1] or (theirs == ours and "same" not in found[0][1])
                assert same, f"{theirs} is {ours} here, and {found[0][1]} in the table of {system}"
    names = {name for row in rows for name in row[0]}
    for theirs in {*table.refused, *table.left}:
        assert theirs in names, f"{theirs} is not in the table of {system}"


# ------------------------------------------------------------------ parameters by themselves


def example(name, ctype):
    """A value for a parameter, other than its default, and what the field then holds."""
    if name in _types.FIELD_ENUMS["cls_params"]:
        member = list(_types.FIELD_ENUMS["cls_params"][name][0])[1]
        return member.name.lower(), int(member)
    if ctype == "float":
        return 0.375, 0.375
    return (7, 7) if ctype in ("int32_t", "uint32_t", "uint64_t") else (None, None)


@pytest.mark.parametrize("name", list(_types.Params.__annotations__))
def test_each_parameter(name):
    """The field gets the value, and no other field changes."""
    place = dict(ffi.typeof("cls_params").fields)[name]
    value, expected = example(name, place.type.cname)
    if value is None:
        pytest.skip("a list")
    default, changed, keep = new_params({}, []), None, []
    changed = new_params({"watermark_context": 0, name: value}, keep)
    assert getattr(changed, name) == expected
    before, after = bytes(ffi.buffer(default)), bytearray(ffi.buffer(changed))
    span = slice(place.offset, place.offset + ffi.sizeof(place.type))
    assert bytes(after[span]) != before[span] or getattr(default, name) == expected
    after[span] = before[span]
    assert bytes(after) == before


def test_lists_of_parameters():
    keep = []
    params = new_params(
        {
            "stop_ids": [3, 4],
            "logit_bias": {5: -math.inf, 6: 1.5},
            "bad_words": [[7], np.array([8, 9])],
            "dry_breakers": ((1, 2),),
            "allowed_ids": np.arange(4),
            "chain": ["top_k", "temperature"],
        },
        keep,
    )
    assert list(params.stop_ids.ids[0 : params.stop_ids.count]) == [3, 4]
    assert [(b.id, b.bias) for b in params.logit_bias.biases[0 : params.logit_bias.count]] == [
        (5, -math.inf),
        (6, 1.5),
    ]
    bad = params.bad_words
    words = [list(w.ids[0 : w.count]) for w in bad.sequences[0 : bad.count]]
    assert words == [[7], [8, 9]] and params.dry_breakers.count == 1
    assert params.allowed_ids.count == 4 and params.only_allowed == 1
    assert params.chain == clsample.Chain.CUSTOM
    assert list(params.stages)[:3] == [clsample.Stage.TOP_K, clsample.Stage.TEMPERATURE, 0]


def test_an_empty_list_of_allowed_ids_allows_nothing():
    logits = np.zeros(10, np.float32)
    assert reference(logits, allowed_ids=[]).status == [RowStatus.EMPTY]
    assert reference(logits, allowed_ids=None).status == [RowStatus.OK]
    assert token_of(logits, allowed_ids=[4]) == 4


def test_stages():
    assert clsample.chain_stages("llama")[0] == Stage.TOP_N_SIGMA
    assert clsample.chain_stages(clsample.Chain.VLLM)[:2] == [Stage.TEMPERATURE, Stage.MIN_P]
