# SPDX-License-Identifier: MIT
"""Proves that exceptions, docstrings and signatures name Python's arguments, and stay true."""

import inspect
import re

import numpy as np
import pytest

import clsample
from clsample import _library, _types
from conftest import VOCAB, ended

# What no user of Python reads: C's names, its pointers and its shifts.
C_WORDS = re.compile(r"\bcls_\w+|\bCLS_\w+|\w->|\bNULL\b|1u <<|\bstruct\b")


@pytest.mark.parametrize(
    "params, message",
    [
        ({"top_p": 2}, "top_p is 2; it must be at most 1 (off)"),
        ({"chain": 9}, "chain is 9, which is not a cls_chain"),
        ({"stages": ["top_k"]}, "stages is set, but params->chain is not CLS_CHAIN_CUSTOM"),
        ({"top_p_reset_id": VOCAB}, f"top_p_reset_id is {VOCAB}, which is not a token of a voca"),
        ({"penalty_scope": 7}, "penalty_scope is 7; it must be "),
        ({"stop_ids": [VOCAB]}, f"stop_ids[0] is {VOCAB}, which is not a token of a vocabulary of"),
        ({"bad_words": [[1], [2, -3]]}, "bad_words[1][1] is -3, which is not a token"),
        ({"bad_words": [[1], []]}, "len(bad_words[1]) is 0; a sequence has at least one id"),
        ({"logit_bias": {7: np.inf}}, "logit_bias[0].bias is inf; it must be"),
        ({"chain": ["top_p"], "top_k": 5}, "top_k is set, but params->stages has no such stage"),
        (
            {"thinking_forced": [1], "thinking_ends": [[2] * 66]},
            "len(thinking_ends[0]) is 66, but ",
        ),
        (
            {"loop_repeats": 3},
            "loop_repeats is 3 and ",
        ),
        ({"infill": 1}, "infill needs the tables of "),
    ],
    ids=lambda value: str(value)[:30],
)
def test_messages_about_parameters(context, params, message):
    with context.sampler(VOCAB) as sampler, pytest.raises(clsample.BadArgument) as raised:
        sampler.check(**params)
    assert str(raised.value).startswith(message)


def test_messages_about_calls(context, logits):
    sampler = context.sampler(VOCAB, 2, counts="none", max_rollback=2)
    one = sampler.begin()
    for call, message in [
        (lambda: sampler.begin(presence_penalty=1), "presence_penalty needs "),
        (lambda: one.force([VOCAB]), f"tokens[0] is {VOCAB}, which is not a token"),
        (lambda: one.rollback(3), "count is 3, but the sampler was created with options->max_roll"),
        (lambda: sampler.sample(logits, [one] * 4), "the number of rows is 4; the sampler was"),
        (lambda: sampler.sample(logits[:2], [one] * 2), "requests: row 1 uses slot"),
        (lambda: sampler.sample(logits[0], one, top=129), "top is 129; it must be at most 128"),
        (lambda: sampler.sample(logits[0], one, draws=[-1]), "draws: row 0 has the value -1"),
        (
            lambda: sampler.sample(logits[0].astype(np.float16), one),
            "the dtype of logits is CLS_F16; the sampler was not created for it",
        ),
        (
            lambda: sampler.sample(logits[0], one, mask=np.ones(VOCAB, bool), mask_map=[1]),
            "mask_map: row 0 uses row 1, but there are 1 rows",
        ),
        (lambda: context.sampler(VOCAB, max_history=10**7), "max_history is 10000000; it must be"),
        (lambda: context.sampler(VOCAB, counts=5), "counts is 5, which is not a cls_counts"),
    ]:
        with pytest.raises((clsample.BadArgument, clsample.NotCompiled)) as raised:
            call()
        assert message in str(raised.value)
    ended(one)
    sampler.close()


@pytest.mark.parametrize(
    "field, name",
    [
        ("params->bad_words.sequences[1].ids[2]", "bad_words[1][2]"),
        ("params->bad_words.count", "len(bad_words)"),
        ("options->ids[3]", "ids[3]"),
        ("step->outputs->top.count", "top"),
        ("step->mask.words", "mask"),
        ("wait[1]", "logits.events"),
        ("wait[2]", "wait[2]"),
        ("queue", "queue"),
        ("", ""),
    ],
)
def test_arguments(field, name):
    assert _library.argument(field, {"wait[1]": "logits.events"}) == name


def public():
    """Each public object with the name that help() is asked for."""
    for name in clsample.__all__:
        found = getattr(clsample, name)
        if inspect.isclass(found):
            for member, value in vars(found).items():
                if not member.startswith("_") and getattr(value, "__doc__", None):
                    if callable(value) or isinstance(value, property):
                        yield f"{name}.{member}", value
        if getattr(found, "__doc__", None):
            yield name, found


def test_docstrings():
    found = {
        name: words
        for name, value in public()
        for words in [C_WORDS.findall(value.__doc__ or "")]
        if words
    }
    assert not found


SIGNED = [
    (clsample.Context, clsample.Context.__init__, _types.ContextOptions),
    (clsample.Sampler, clsample.Sampler.__init__, _types.SamplerOptions),
    (clsample.Context.sampler, clsample.Context.sampler, _types.SamplerOptions),
    (clsample.Sampler.begin, clsample.Sampler.begin, _types.Params),
    (clsample.Sampler.sample, clsample.Sampler.sample, _types.OutputOptions),
]


@pytest.mark.parametrize("documented, function, arguments", SIGNED, ids=lambda x: str(x)[:40])
def test_signatures(documented, function, arguments):
    """Editors see the TypedDict, inspect.signature() and help() the signature: the same names, and
    defaults of these types. The docstring has a line for each."""
    parameters = inspect.signature(function).parameters
    types = {
        name: getattr(kind, "__forward_arg__", kind)
        for name, kind in arguments.__annotations__.items()
    }
    assert set(types) == set(parameters) - set(inspect.signature(unsigned(function)).parameters)
    lines = (documented.__doc__ or "").splitlines()
    for name, kind in types.items():
        default = parameters[name].default
        assert f"{name}: {kind} = {default!r}" in lines
        if kind in ("int", "float", "bool"):
            assert type(default).__name__ == kind
        elif kind.startswith("Choice["):
            enum = getattr(_types, re.search(r"\[(\w+)\]", kind)[1])
            assert default.upper() in enum.__members__


def unsigned(function):
    """The function with the arguments of its def alone."""

    def bare(*args, **kwargs):
        return function(*args, **kwargs)

    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    bare.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
            for name in code.co_varnames[:count]
        ]
    )
    return bare


def test_defaults_are_those_of_the_calls(context):
    """What the signature says is what leaving an argument out does."""
    parameters = inspect.signature(clsample.Sampler.begin).parameters
    defaults = {
        name: parameters[name].default for name in _types.Params.__annotations__ if name != "stages"
    }
    with context.sampler(VOCAB, slot_count=2) as sampler:
        with sampler.begin(**defaults) as one, sampler.begin(**defaults) as two:
            assert one.params["seed"] != two.params["seed"]
        with sampler.begin(seed=1) as one, sampler.load(one.save()) as two:
            plain = bytes(one.save())
            two.update(**{**defaults, "seed": 1})
            assert bytes(two.save()) == plain
    options = inspect.signature(clsample.Sampler).parameters
    defaults = {name: options[name].default for name in _types.SamplerOptions.__annotations__}
    with context.sampler(VOCAB, **defaults) as sampler, context.sampler(VOCAB) as other:
        assert sampler.memory == other.memory and sampler.slot_count == other.slot_count


def test_statuses_print_their_names(sampler, logits):
    """And the reasons are those of vLLM and OpenAI."""
    best = int(np.argmax(logits[0]))
    requests = [
        sampler.begin(temperature=0, stop_ids=[best]),
        sampler.begin(temperature=0, max_tokens=1),
        sampler.begin(temperature=0, loop_repeats=2, output=[best]),
        sampler.begin(temperature=0),
    ]
    rows = np.stack([logits[0]] * 4)
    step = sampler.sample(rows, requests)
    reasons = ["stop", "length", "repetition", None]
    assert step.finish_reasons() == reasons
    wide = sampler.sample(rows[:1], requests[3:], logprobs=True, top=2)
    assert repr(wide) == "<clsample.Step of tokens, status, logprobs, top>"
    assert repr(wide.top) == "<clsample.TopTokens of ids, logprobs>"
    for found in (step.get()["status"], step.status.get()):
        assert found.finish_reasons() == reasons
        names = ["STOPPED", "STOPPED|LENGTH", "STOPPED|LOOP", "OK"]
        assert [str(status) for status in found] == [f"{status}" for status in found] == names
        assert str(found) == f"[{' '.join(names)}]"
        assert isinstance(found[1], clsample.RowStatus) and found[1] == 96
        assert found[1] & clsample.RowStatus.LENGTH and found[1].finish_reason == "length"
        assert str(found.astype(bool)) == "[ True  True  True False]"
        assert type(found & 32) is np.ndarray and isinstance(found.max(), np.integer)
        assert found.tolist() == [32, 96, 288, 0]
    assert sampler.sample(rows, requests).finish_reasons() == ["ended"] * 3 + [None]
    verified = sampler.verify(logits[:2], [[best]], requests[3])
    assert verified.finish_reasons() == [None]
    assert str(clsample.RowStatus(4096 + 1)) == "NAN|0x1000"
    assert str(clsample.Feature.MASK | clsample.Feature.BIAS) == "MASK|BIAS"
    assert f"{clsample.Status.BUSY} {clsample.Status.BUSY:d}" == "BUSY -2003"
    ended(*requests)
