# SPDX-License-Identifier: MIT
"""Proves that arrays go in and come out by DLPack, bfloat16 included, and that arrays on the device
are read as other arrays are."""

import gc
import weakref

import numpy as np
import pytest

from clsample import _dlpack
from conftest import HOST, VOCAB, token_of, tokens_of


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


class Producer:
    """An array of another library, on any of DLPack's devices, which can also be read-only."""

    def __init__(self, array, elements=None, device=_dlpack.CPU, code=None):
        self.array, self.elements, self.device, self.code = array, elements, device, code

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self):
        code, array = self.code, self.array
        if array.dtype == bool:
            code, array = _dlpack.BOOL, array.view(np.uint8)  # NumPy 1.24 refuses bool
        capsule = _dlpack.save(array, self.elements)
        if code is not None:
            _dlpack.tensor_of(capsule).code = code
        return capsule


def bits_of(values):
    """The upper half of float32s: bfloat16, rounded towards zero."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def test_results(sampler, logits):
    """Indices, loops and NumPy wait, and read the array."""
    with sampler.begin(seed=1) as a, sampler.begin(seed=2) as b:
        step = sampler.sample(logits[:2], [a, b], top=3)
        expected = tokens_of(logits)
        assert [step.tokens[0], step.tokens[-1]] == expected == list(step.tokens)
        assert step.tokens[0].dtype == np.int32 and len(step.tokens) == 2
        assert (step.tokens == expected).tolist() == [True, True]
        assert (step.tokens == step.tokens).all()
        assert not (step.tokens != expected).any() and (step.status == 0).all()
        assert sampler.context is HOST or {step.tokens: 1}[step.tokens] == 1
        assert np.array_equal(step.top.ids[:, 1:], step.top.ids.get()[:, 1:])
        assert np.array_equal(np.from_dlpack(step.tokens), expected)
        assert np.array_equal(np.asarray(step.tokens), expected)
        with pytest.raises(IndexError):
            step.tokens[2]
        for event in (step.tokens, [step.tokens, step], step):  # an array is no list of events
            sampler.sample(logits[:2], [a, b], wait_for=event)


def test_results_for_others(torch, device, logits):
    with device.sampler(VOCAB) as sampler, sampler.begin(seed=1) as a:
        step = sampler.sample(logits[:1], a)
        tokens = torch.from_dlpack(step.tokens)
        assert tokens.dtype == torch.int32 and tokens.tolist() == step.tokens.get().tolist()
        tokens[0] = 7  # a copy of its own
        assert step.tokens[0] != 7
        bits = sampler.context.to_device(bits_of(logits), "bfloat16")
        found = torch.from_dlpack(bits)
        assert found.dtype == torch.bfloat16
        assert np.array_equal(found.view(torch.int16).numpy().view(np.uint16), bits_of(logits))


def test_only_copies_come_out(device, logits):
    with device.sampler(VOCAB) as sampler, sampler.begin(seed=1) as a:
        tokens = sampler.sample(logits[:1], a).tokens
        assert tokens.__dlpack_device__() == (_dlpack.CPU, 0)
        for wrong in ({"copy": False}, {"dl_device": (_dlpack.CUDA, 0)}):
            with pytest.raises(BufferError, match="can only be copied to the host"):
                tokens.__dlpack__(**wrong)


@pytest.mark.parametrize("elements", ("float32", "float16", "bfloat16"))
def test_other_libraries_arrays(context, logits, elements):
    """Arrays that know only DLPack: logits, masks and biases."""
    rows = bits_of(logits) if elements == "bfloat16" else logits.astype(elements)
    mask = np.zeros((2, VOCAB), bool)
    mask[:, :500] = True
    for part in (rows[:2], rows[1:3, 7:]):
        width = part.shape[1]
        expected = [
            token_of(np.ascontiguousarray(row), seed=5, mask=mask[0, :width], dtype=elements)
            for row in part
        ]
        with context.sampler(width, 2, dtypes=[elements], features=["mask"]) as sampler:
            requests = [sampler.begin(seed=5), sampler.begin(seed=5)]
            given = Producer(part, elements if elements == "bfloat16" else None)
            step = sampler.sample(given, requests, mask=Producer(mask[:, :width]))
            assert step.tokens.get().tolist() == expected


def test_tensors(torch, context, logits):
    tensor = torch.from_numpy(logits[:2])
    with context.sampler(VOCAB, 2, dtypes=["f32", "f16", "bf16"]) as sampler:
        requests = [sampler.begin(seed=1), sampler.begin(seed=2)]
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            rows = tensor.to(dtype)
            step = sampler.sample(rows, requests, positions=[0, 0])
            assert step.copied is not context._shares
            values = rows.float().numpy()  # the same numbers
            assert step.tokens.get().tolist() == tokens_of(values)
        with pytest.raises(TypeError, match="logits cannot be read: .*require"):
            sampler.sample(tensor.clone().requires_grad_(), requests)


def test_ml_dtypes(context, logits):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with context.sampler(VOCAB, 1, dtypes=["bf16"]) as sampler:
        row = logits[0].astype(ml_dtypes.bfloat16)
        step = sampler.sample(row, sampler.begin(seed=1))
        assert step.tokens[0] == token_of(row, seed=1)
        assert step.tokens[0] == token_of(row.view(np.uint16), dtype="bfloat16", seed=1)


def test_tensors_on_other_devices(sampler, logits):
    with sampler.begin() as a:
        for device, text in (
            (_dlpack.CUDA, "logits is on a CUDA device; .* copy it to the host first, as by torch"),
            (_dlpack.OPENCL, r"logits is on an OpenCL device; .* by Context.array\(\)"),
            (8, "logits is on DLPack's device 8; .* copy it"),
        ):
            with pytest.raises(TypeError, match=text):
                sampler.sample(Producer(logits[0], device=device), a)
        with pytest.raises(TypeError, match="logits has elements of DLPack's type 5, 64 bits"):
            sampler.sample(Producer(logits[0, :2].view(np.complex64)), a)
        for code, array in (
            (_dlpack.BFLOAT, logits[0]),
            (_dlpack.BFLOAT, np.zeros(VOCAB, np.uint8)),
            (_dlpack.FLOAT, np.zeros(VOCAB, np.uint8)),
            (_dlpack.BOOL, logits[0]),
        ):
            bits = 8 * array.itemsize
            with pytest.raises(TypeError, match=f"DLPack's type {code}, {bits} bits"):
                sampler.sample(Producer(array, code=code), a)


def test_the_memory_is_kept_and_freed(context, logits):
    """A device array does not need the producer any more; the producer's memory is freed."""
    array = logits.copy()
    alive = weakref.ref(array)
    view, elements = _dlpack.load("it", Producer(array))
    del array
    gc.collect()
    assert alive() is not None and elements == "float32" and np.array_equal(view, logits)
    assert context.to_device(view)[1, 2] == logits[1, 2]
    del view
    gc.collect()
    assert alive() is None
