# SPDX-License-Identifier: MIT
"""Proves that wrong arguments raise an exception that names the argument."""

import gc
import itertools
import re
import weakref

import numpy as np
import pytest

import clsample
from conftest import HOST, VOCAB, ended, opened

MASKED = np.ma.masked_array([1, 2], [False, True])
PARAMS = [
    ({"top_k": 1.5}, TypeError, "top_k must be an integer, not float"),
    ({"top_k": 2**40}, ValueError, "top_k is 1099511627776; it must be from -2147483648"),
    ({"top_k": None}, TypeError, "top_k is None"),
    ({"seed": "one"}, TypeError, "seed must be an integer, not str"),
    ({"temperature": "hot"}, TypeError, "temperature must be a number, not str"),
    ({"temperature": [1]}, TypeError, "temperature must be a number, not list"),
    ({"temprature": 1}, TypeError, "no argument 'temprature'; did you mean 'temperature'"),
    ({"temp": 1}, TypeError, "no argument 'temp'; did you mean 'temperature'"),
    ({"greedy": True}, TypeError, "no argument 'greedy'; temperature=0 is greedy"),
    ({"do_sample": False}, TypeError, "no argument 'do_sample'; temperature=0 is greedy"),
    ({"struct_size": 1}, TypeError, "no argument 'struct_size'"),
    ({"stop_ids": 5}, TypeError, "stop_ids must be a list or an array of integers, not int"),
    ({"chain": ["top_k", "topp"]}, ValueError, r"chain\[1\] is 'topp'.*did you mean 'top_p'"),
    ({"seed": -1}, ValueError, "seed is -1"),
    ({"chain": "vlm"}, ValueError, "chain is 'vlm'; it must be one of 'default', 'vllm'"),
    ({"chain": ["top_q"]}, ValueError, r"chain\[0\] is 'top_q'"),
    ({"chain": ["top_k"] * 17}, ValueError, "chain has 17 stages; it can have 16"),
    ({"chain": [266]}, ValueError, r"chain\[0\] is 266; it must be from 0 to 255"),
    ({"stages": [1, -1]}, ValueError, r"stages\[1\] is -1; it must be from 0 to 255"),
    ({"stages": "top_k"}, TypeError, "stages must be a list of stages"),
    ({"stop_ids": [1.5]}, TypeError, "stop_ids must have integers"),
    ({"stop_ids": ["a"]}, TypeError, "stop_ids must have integers"),
    ({"stop_ids": [[1], [2, 3]]}, TypeError, "stop_ids is no array of integers"),
    ({"stop_ids": [2**35]}, ValueError, "stop_ids has 34359738368"),
    ({"stop_ids": np.zeros((2, 2), int)}, ValueError, r"stop_ids has the shape \(2, 2\)"),
    ({"logit_bias": [1, 2]}, TypeError, "logit_bias must be a dict of biases"),
    ({"logit_bias": {"a": 1}}, TypeError, "logit_bias's id must be an integer"),
    ({"logit_bias": {1: "b"}}, TypeError, r"logit_bias\[1\] must be a number"),
    ({"bad_words": [5]}, TypeError, r"bad_words\[0\] must be a list or an array of integers"),
    ({"bad_words": 5}, TypeError, "bad_words must be a list of lists"),
    ({"bad_words": "no"}, TypeError, "bad_words must be a list of lists"),
    ({"min_p": 3}, clsample.BadArgument, "min_p is 3"),
    ({"stop_ids": MASKED}, TypeError, "stop_ids has a NumPy mask, which would be lost; filled()"),
    ({"stop_ids": [1, np.ma.masked]}, TypeError, "stop_ids has a NumPy mask"),
    ({"bad_words": [MASKED]}, TypeError, r"bad_words\[0\] has a NumPy mask"),
]


@pytest.mark.parametrize("params, error, message", PARAMS, ids=lambda x: str(x)[:30])
def test_parameters(sampler, params, error, message):
    for call in (
        lambda: sampler.check(**params),
        lambda: sampler.begin(**params),
    ):
        with pytest.raises(error, match=message):
            call()


def test_logits(sampler, logits):
    def refused(error, message, value, **more):
        with pytest.raises(error, match=message):
            sampler.sample(value, one, **more)

    to_device = sampler.context.to_device
    with sampler.begin() as one:
        for value in (logits[:2], to_device(logits[:2])):
            refused(ValueError, r"logits has the shape \(2, 1000\); it must be \(1, 1000\)", value)
        for value in (logits[:1, :999].copy(), to_device(logits[:1, :999].copy())):
            refused(ValueError, r"logits has the shape \(1, 999\)", value)
        for value in (logits[:1].astype(np.float64), logits[:1].astype(np.int32)):
            refused(TypeError, r"of (float64|int32); they .*; astype\('float32'\) conv", value)
        refused(TypeError, "elements of int32", to_device(np.zeros((1, VOCAB), np.int32)))
        refused(TypeError, "float32, but dtype is bfloat16", logits[:1], dtype="bf16")
        refused(ValueError, "dtype is 'f64'", logits[:1], dtype="f64")
        wide = np.zeros((1, 2 * VOCAB), np.float32)
        refused(ValueError, "logits is not contiguous", np.asfortranarray(logits)[:1])
        refused(ValueError, "is not contiguous.*numpy.ascontiguousarray", wide[:, ::2])
        refused(ValueError, "logits has the shape", np.zeros((1, 1, VOCAB), np.float32))
        refused(TypeError, "logits must be an array of numbers, not None", None)
        refused(TypeError, "logits must be an array of numbers, not str", "logits")
        if sampler.context is not HOST:
            released = to_device(logits[:1])
            released.release()
            refused(ValueError, "logits was released", released)


def test_arguments_of_a_step(sampler, logits):
    row, device = logits[:1], sampler.context.to_device
    with sampler.begin() as one:
        for more, error, message in [
            ({"mask": np.ones((1, VOCAB))}, TypeError, "mask has elements of float64"),
            ({"mask": np.ones((2, VOCAB), bool)}, ValueError, "mask has 2 rows; it must have 1"),
            ({"mask": np.ones((1, VOCAB), np.int32)}, ValueError, "int32 words of 32 tokens"),
            ({"mask": np.ones((1, VOCAB + 1), bool)}, ValueError, r"mask .* \(1, 1001\)"),
            ({"mask": np.ones((1, 33), np.int32)}, ValueError, r"it must be \(rows, 32\)"),
            ({"mask": np.ones((1, 125), np.uint8)}, ValueError, "125 bytes .* view them as int32"),
            ({"mask_map": [0]}, TypeError, "mask_map is given, but mask is not"),
            ({"bias": np.zeros((1, 5), np.float32)}, ValueError, "bias has the shape"),
            ({"bias": np.zeros((1, VOCAB), np.int32)}, TypeError, "bias has elements of int32"),
            ({"bias": row, "bias_factor": 0}, ValueError, "bias_factor is 0: leave out bias"),
            ({"bias": row, "bias_factor": float("nan")}, clsample.BadArgument, "bias_factor is"),
            ({"bias_factor": 2}, TypeError, "bias_factor is given, but bias is not"),
            ({"softcap": -30}, clsample.BadArgument, "softcap is -30; it must be 0 .off. or from"),
            ({"softcap": float("nan")}, clsample.BadArgument, "softcap is nan"),
            ({"softcap": float("inf")}, clsample.BadArgument, "softcap is inf"),
            ({"softcap": "30"}, TypeError, "softcap"),
            ({"positions": [1, 2]}, ValueError, "positions has 2 elements; it must have 1"),
            ({"positions": [-1]}, ValueError, "positions has -1"),
            ({"draws": [0.5]}, TypeError, "draws must have integers"),
            ({"draws": device(row[0, :1])}, TypeError, "draws (has elements of float32|must have)"),
            ({"random_bits": [1, 2]}, ValueError, "random_bits has the shape"),
            ({"random_bits": [1, 2**64]}, ValueError, "random_bits has 184467440737.*, which"),
            ({"random_bits": [-1, 2**63]}, ValueError, "random_bits has -1, which is not from 0"),
            ({"random_bits": [1.0, 2**63]}, TypeError, "have integers; its elements are float64"),
            ({"draws": [1, 2**63]}, ValueError, "draws has 9223372036854775808, which is not from"),
            ({"random_bits": []}, ValueError, r"random_bits has the shape \(0,\), and so no"),
            ({"random_bits": device(np.zeros(1, np.float32))}, TypeError, "random_bits (has|must)"),
            ({"invalid_token": 2**31}, ValueError, "invalid_token is"),
            ({"tokens": device(row[0, :1])}, TypeError, "tokens has elements of float32"),
            ({"tokens": device(np.zeros(2, np.int32))}, ValueError, r"tokens has the shape \(2,\)"),
            (
                {"tokens": [0]},
                TypeError,
                r"tokens must be .* list .*; give True, or Context.empty\(\(1,\), 'int32'\)",
            ),
            ({"logprobs": 5}, TypeError, "logprobs must be True or an? .*array.*, not int"),
            ({"temperature": 0}, TypeError, r"temperature'; it is a .* request: see Sampler.begin"),
            ({"greedy": True}, TypeError, "no argument 'greedy'; temperature=0 is greedy"),
            ({"logprob": True}, TypeError, "no argument 'logprob'; did you mean 'logprobs'"),
            ({"logprob_kind": "raww"}, ValueError, "logprob_kind is 'raww'"),
            ({"top": -1}, ValueError, "top is -1"),
            ({"top": "five"}, TypeError, "top must be an integer"),
            ({"top": {"idz": True}}, TypeError, "top has no entry 'idz'"),
            ({"given": [5]}, ValueError, r"given has the shape \(1,\); it must be \(1, count\)"),
            ({"given": 5}, ValueError, r"given has the shape \(1,\); it must be \(1, count\)"),
            ({"given": []}, ValueError, r"given has the shape \(0,\), and so no elements"),
            ({"given": [[]]}, ValueError, r"given has the shape \(1, 0\), and so no elements"),
            ({"given": [[[5]]]}, ValueError, r"given has the shape \(1, 1, 1\); it must be"),
            ({"given": device(np.zeros((0, 1), np.int32))}, ValueError, r"given has .* \(0, 1\)"),
            ({"given": {"logprobs": True}}, TypeError, "given lacks the entry 'ids'"),
            ({"given": [["x"]]}, TypeError, "given must have integers"),
            ({"queue": 5}, TypeError, "queue (must be a pyopencl.CommandQueue|is a device's)"),
            ({"wait_for": [5]}, TypeError, r"wait_for\[0\] must be an event, not int"),
            ({"wait_for": 5}, TypeError, r"wait_for\[0\] must be an event, not int"),
        ]:
            with pytest.raises(error, match=message):
                sampler.sample(row, one, **more)
        assert sampler.sample(row, one).tokens.get()[0] >= 0  # nothing of these has happened


def test_requests(sampler, logits):
    for value in (5, None, ["a"], [5], "a"):
        with pytest.raises(TypeError, match="requests must be a list of requests"):
            sampler.sample(logits[:1], value)
    with pytest.raises(ValueError, match="requests is empty"):
        sampler.sample(logits[:1], [])
    with sampler.context.sampler(VOCAB) as other, other.begin() as one:
        with pytest.raises(ValueError, match=r"requests\[0\] belongs to another sampler"):
            sampler.sample(logits[:1], [one])
        with pytest.raises(clsample.BadArgument, match="requests: row 1 uses slot"):
            twice = sampler.begin()
            sampler.sample(logits[:2], [twice, twice])
    twice.end()
    with pytest.raises(TypeError, match="prompt"):
        sampler.begin(prompt="text")
    with pytest.raises(TypeError, match="state must be bytes"):
        sampler.load("text")
    with pytest.raises(clsample.BadArgument):
        sampler.load(b"")


def test_verify(sampler, logits):
    three, ids = logits[:3], np.zeros((3, 2), np.int32)
    few = {"method": "standard", "draft_tokens": ids, "draft_probs": np.zeros((3, 2), np.float32)}
    wide = few | {"draft_tokens": np.zeros((3, 300), np.int32), "draft_probs": three[:, :300]}
    wide["draft_probs"] = np.ascontiguousarray(wide["draft_probs"])
    with sampler.begin() as one:
        for drafts, more, error, message in [
            ([[1]], {}, ValueError, r"logits has the shape \(4, 1000\); it must be \(2, 1000\)"),
            ([[1, 2, 3], []], {}, ValueError, "drafts has 2 lists for 1 requests"),
            ([5], {}, TypeError, "drafts must be a list of lists"),
            ([[1, 2, "x"]], {}, TypeError, r"drafts\[0\] must have integers"),
            ([[1, 2, 3]], {"method": "best"}, ValueError, "method is 'best'"),
            ([[1, 2, 3]], {"parents": [[-1]]}, ValueError, "parents must have as many"),
            ([[1, 2, 3]], {"parents": 5}, TypeError, "parents must be a list of lists"),
            ([[1, 2, 3]], {"epsilon": "x"}, TypeError, "epsilon must be a number"),
            ([[1, 2, 3]], {"draft_probs": logits[:2]}, ValueError, r"draft_probs .* \(2, 1000\)"),
            ([[1, 2, 3]], {"draft_probs": three, "draft_logits": three}, TypeError, "both given"),
            ([[1, 2, 3]], {"draft_probs": three.astype("f2")}, TypeError, "elements of float16"),
            ([[1, 2, 3]], {"draft_tokens": ids}, TypeError, "but draft_probs is not"),
            ([[1, 2, 3]], {"draft_probs": three, "draft_map": [1]}, TypeError, "but draft_tokens"),
            ([[1, 2, 3]], few | {"draft_tokens": ids[:2]}, ValueError, r"draft_tokens .* \(3, 2\)"),
            ([[1, 2, 3]], few | {"draft_probs": three}, ValueError, r"draft_probs .* \(3, 2\)"),
            ([[1, 2, 3]], few | {"draft_tokens": ids + 0.5}, TypeError, "draft_tokens"),
            ([[1, 2, 3]], few | {"draft_tokens": 5}, ValueError, "draft_tokens"),
            ([[1, 2, 3]], wide, clsample.BadArgument, "^the width of draft_tokens is 300; .* 256"),
        ]:
            with pytest.raises(error, match=message):
                sampler.verify(logits, drafts, [one], **more)


def test_other_calls(sampler, logits):
    with sampler.begin() as one:
        for call, error, message in [
            (lambda: sampler.draft(one, 0), clsample.BadArgument, "^k is 0; it must be 1 to 128"),
            (lambda: sampler.draft(one, 2, min_n=9), clsample.BadArgument, "^min_n is 9 and"),
            (lambda: sampler.draft(one, 2, fill=VOCAB), clsample.BadArgument, "^fill is 1000"),
            (lambda: sampler.draft(one, "x"), TypeError, "k must be"),
            (lambda: sampler.accept([1, 2, 3], [one, None]), ValueError, "tokens has 3 elements"),
            (lambda: one.force([1.5]), TypeError, "tokens must have integers"),
            (lambda: sampler.accept("a", one), TypeError, "tokens must have integers"),
            (lambda: sampler.accept([1], one, counts=[1, 1]), ValueError, "counts has 2 elements"),
            (lambda: sampler.accept([1], one, rollback=[-1]), clsample.BadArgument, "rollback"),
            (lambda: sampler.accept([[1], [2]], one), ValueError, r"\(2, 1\); .* \(1, count\)"),
            (lambda: sampler.accept([[[1]]], one), ValueError, r"it must be \(1, count\)"),
            (lambda: sampler.infill([1], [1]), ValueError, "prefix_of has 1 ids"),
            (lambda: sampler.accept(None, one), ValueError, "tokens has 0 elements"),
            (lambda: sampler.context.sampler(9, dtypes=[-1]), ValueError, "dtypes has -1"),
            (lambda: sampler.context.compile([-1]), ValueError, "features is -1"),
            (lambda: one.rollback(-1), ValueError, "count is -1"),
            (lambda: sampler.context.compile("everything"), ValueError, "features is 'everything'"),
            (lambda: sampler.context.compile(1 << 30), clsample.BadArgument, "features"),
            (lambda: sampler.context.empty((2, -1)), ValueError, "shape is -1"),
            (lambda: sampler.context.empty((1, 2, 3)), ValueError, "one or two dimensions"),
            (lambda: sampler.context.array(b"x", 4), TypeError, "buffer (must be|is a device's)"),
            (lambda: clsample.Sampler(5, 5), TypeError, "context must be a Context, not int"),
            (lambda: sampler.context.sampler(0), clsample.BadArgument, "vocab is 0"),
            (lambda: sampler.context.sampler("a"), TypeError, "vocab must be an integer"),
            (lambda: sampler.context.sampler(9, histry=1), TypeError, "did you mean 'max_history'"),
            (lambda: sampler.context.sampler(9, max_row=1), TypeError, "did you mean 'max_rows'"),
            (lambda: sampler.context.sampler(9, counts="some"), ValueError, "counts is 'some'"),
            (lambda: sampler.context.sampler(9, late_compile=1), TypeError, "True or False"),
            (lambda: sampler.context.sampler(9, no_late_compile=1), TypeError, "late_compile"),
            (lambda: clsample.Context(device=5), TypeError, "device must be"),
            (lambda: clsample.Context(device="no such"), clsample.UnsupportedDevice, "no such"),
            (lambda: clsample.Context(work_group=5000), clsample.BadArgument, "work_group"),
            (lambda: clsample.Context(binary="x"), TypeError, "binary must be bytes"),
            (lambda: clsample.Context(progress=5), TypeError, "progress must be a function"),
            (lambda: clsample.Context(log=5), TypeError, "log must be a function"),
            (lambda: clsample.Context(cache_dir=5), TypeError, "path|bytes"),
        ]:
            with pytest.raises(error, match=message):
                call()


def test_outputs_that_are_refused(cl, sampler, logits):
    """The advice fits an array that is written, of which a copy would not help."""
    with sampler.begin() as a, sampler.begin() as b:
        wide = sampler.context.to_device(np.zeros((2, 2 * VOCAB), np.float32))
        if sampler.context is not HOST:
            wide = wide.as_pyopencl()
        for probs, words in (
            (wide, "has the shape .*; it must be"),
            (wide[:, :VOCAB], "has gaps between its rows"),
            (wide[:, ::2], "is not contiguous"),
        ):
            empty = rf"give True, or Context.empty\(\(2, {VOCAB}\), 'float32'\)$"
            with pytest.raises(ValueError, match=f"^probs {words}.*; {empty}"):
                sampler.sample(logits[:2], [a, b], probs=probs)
        fixed = np.zeros(2, np.int32)
        fixed.flags.writeable = False
        what = "is not writeable" if sampler.context is HOST else "must be True or an array on the"
        with pytest.raises((TypeError, ValueError), match=f"^tokens {what}"):
            sampler.sample(logits[:2], [a, b], tokens=fixed)


def test_masked_arrays_are_refused(sampler, logits):
    """Their masks would be lost, and what these hide would count."""
    hidden = np.ma.masked_array(logits[:1], logits[:1] > 0)
    allowed = np.ma.masked_array(np.ones((1, VOCAB), bool), logits[:1] > 0)
    with sampler.begin() as one:
        for call, name in (
            (lambda: sampler.sample(hidden, one), "logits"),
            (lambda: sampler.sample([hidden[0]], one), "logits"),
            (lambda: sampler.sample(logits[:1], one, mask=allowed), "mask"),
            (lambda: sampler.sample(logits[:1], one, bias=hidden), "bias"),
            (lambda: sampler.sample(logits[:1], one, given=[MASKED]), "given"),
            (lambda: sampler.begin(MASKED), "prompt"),
            (lambda: sampler.context.to_device(hidden), "values"),
            (lambda: clsample.sample(hidden), "logits"),
            (lambda: clsample.sample(logits[:2], top_k=MASKED), "top_k"),
        ):
            with pytest.raises(TypeError, match=f"^{name}.* has a NumPy mask"):
                call()


@pytest.mark.parametrize("number", (2**20, 2**31, 2**32 - 1))
def test_numbers_are_checked_before_memory_is_allocated(sampler, logits, monkeypatch, number):
    create = clsample._opencl.create_buffer

    def bounded(cl, size, *more):
        assert size < 1 << 20
        return create(cl, size, *more)

    monkeypatch.setattr(clsample._opencl, "create_buffer", bounded)
    row, packed = logits[:1], {"capacity": number, "ids": True, "offsets": True}
    with sampler.begin() as one:
        for call, name in (
            (lambda: sampler.sample(row, one, top=number), "top"),
            (lambda: sampler.sample(row, one, kept=number), "kept"),
            (lambda: sampler.sample(row, one, kept_set=number), "kept_set"),
            (lambda: sampler.sample(row, one, kept_set=packed), "kept_set"),
            (lambda: sampler.logprobs(row, top=number), "top"),
            (lambda: sampler.verify(row, [[]], one, kept_set=number), "kept_set"),
            (lambda: sampler.verify(row, [[]], one, max_drafts=number), "max_drafts"),
            (lambda: sampler.draft(one, number), "k"),
        ):
            with pytest.raises(clsample.BadArgument, match=f"^{name} is {number}"):
                call()


def test_a_refused_call_keeps_nothing(context, logits):
    """Its requests' slots and its arrays are free when the exception is, without the collector."""

    def stop(*unused):
        raise KeyError("stop")

    sampler = context.sampler(VOCAB, 1, slot_count=1, features=["verify"])
    gc.collect()
    gc.disable()
    try:
        for call in (
            lambda row, one: sampler.sample(row, one, top=129),
            lambda row, one: sampler.sample(row, one, given=[[VOCAB]] * 2),
            lambda row, one: sampler.verify(row, [[]], one, max_drafts=1000),
            lambda row, one: sampler.draft(one, 1000),
            lambda row, one: sampler.accept([1], one, counts=[2]),
            lambda row, one: sampler.logprobs(row, top=129),
            lambda row, one: one.update(top_p=2),
            lambda row, one: opened(context, work_group=5000),
            *[lambda row, one: opened(context, progress=stop)] * (context is not HOST),
        ):
            row = logits[:1].copy()
            alive = weakref.ref(row)
            with pytest.raises((ValueError, KeyError)):
                call(row, sampler.begin())
            del row
            assert alive() is None
            assert sampler.begin().slot == 0
    finally:
        gc.enable()
        sampler.close()


def test_closed(context, logits):
    sampler = context.sampler(VOCAB)
    one = sampler.begin()
    sampler.close()
    sampler.close()
    for call in (
        lambda: sampler.sample(logits[:1], one),
        sampler.begin,
        lambda: one.rollback(1),
        lambda: sampler.memory,
        lambda: one.save(),
    ):
        with pytest.raises(ValueError, match="the sampler was closed"):
            call()
    one.end()
    other = opened(context)
    other.close()
    with pytest.raises(ValueError, match="the context was closed"):
        other.sampler(VOCAB)


def test_what_needs_no_sampler(logits):
    with pytest.raises(ValueError, match="chain is 'x'"):
        clsample.chain_stages("x")
    for more, error, message in (
        ({"ids": "a"}, TypeError, "ids must have integers"),
        ({"logits": logits[0]}, ValueError, r"logits has the shape \(1000,\); it must be \(2,\)"),
        ({"logits": [1, 2]}, TypeError, "logits has elements of int64; they must be float32"),
        ({"random_bits": 2**64}, ValueError, "random_bits is"),
        ({"vocab": 0}, clsample.BadArgument, "vocab is 0"),
    ):
        with pytest.raises(error, match=message):
            clsample.draw(**{"ids": [1, 2], "logits": logits[0, :2], **more})


def test_each_status_has_an_exception():
    kinds = {kind.status for kind in clsample.Error.__subclasses__()}
    assert set(clsample.Status) <= kinds | {clsample.Status.OK}


def test_swapped_arguments(context):
    """The message says the order, whatever the other arguments are."""
    rows, lists = np.zeros((4, 100), np.float32), [[1], [2]]
    with context.sampler(100, 4, features=["verify"]) as sampler:
        requests = [sampler.begin(seed=seed) for seed in range(2)]
        for order, call, right in (
            ("sample(logits, requests)", sampler.sample, (rows[:2], requests)),
            ("sample(logits, requests)", sampler.sample, (rows[0], requests[0])),
            ("sample(logits, requests)", sampler.sample, (context.to_device(rows[:2]), requests)),
            ("accept(tokens, requests)", sampler.accept, ([1, 2], requests)),
            ("accept(tokens, requests)", sampler.accept, (np.array([1, 2], np.int32), requests)),
            ("draft(requests, k)", sampler.draft, (requests, 2)),
            ("verify(logits, drafts, requests)", sampler.verify, (rows, lists, requests)),
            (
                "verify(logits, drafts, requests)",
                sampler.verify,
                (rows, np.array(lists, np.int32), requests),
            ),
        ):
            for wrong in itertools.permutations(right):
                if any(a is not b for a, b in zip(wrong, right)):
                    with pytest.raises((TypeError, ValueError), match=re.escape(order)):
                        call(*wrong)
        ended(*requests)
    with pytest.raises(TypeError, match=r"order is draw\(ids, logits\)"):
        clsample.draw(rows[0], [1, 2])
