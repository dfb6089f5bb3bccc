# SPDX-License-Identifier: MIT
"""clsample.tinygrad: tokens of logits that tinygrad computed are the host's, from views and in each
type, without a copy, in the order of tinygrad's queue; what cannot be taken is refused. Skipped
where tinygrad or pyopencl is missing."""

import gc
import sys

import numpy as np
import pytest

import clsample
from clsample import _opencl
from conftest import token_of

pytest.importorskip("pyopencl")
tinygrad = pytest.importorskip("tinygrad")

import clsample.tinygrad as ours  # noqa: E402
from tinygrad import Device, Tensor, TinyJit, dtypes  # noqa: E402

VOCAB, ROWS = 262144, 4
PARAMS = (
    dict(temperature=0),
    dict(temperature=0.8, top_k=50, top_p=0.9, seed=1),
    dict(temperature=1.1, min_p=0.02, seed=2),
    dict(temperature=0.9, top_p=0.95, seed=3),
)


@pytest.fixture(scope="module")
def theirs(device):
    with ours.from_device("CL") as found:
        yield found


@pytest.fixture(scope="module")
def sampler(theirs):
    with theirs.sampler(VOCAB, ROWS, dtypes=["f32", "f16", "bf16"]) as found:
        yield found


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(5).normal(scale=3, size=(ROWS, VOCAB)).astype(np.float32)


@pytest.fixture
def requests(sampler):
    found = [sampler.begin(**params) for params in PARAMS]
    yield found
    for request in found:
        request.end()


def tensor_of(values, dtype=None):
    """A tensor that a kernel of tinygrad has written."""
    found = Tensor(np.ascontiguousarray(values), device="CL") + 0
    return (found if dtype is None else found.cast(dtype)).contiguous().realize()


def expected(rows, position=0):
    return [
        token_of(row, position=position, **params) for row, params in zip(rows, PARAMS)
    ]


def draw(sampler, requests, logits, **more):
    at = [0] * len(requests)
    return sampler.sample(logits, requests, positions=at, defer_accept=True, **more).tokens.get()


class Reads:
    """A loader that counts what the package reads from devices."""

    def __init__(self, loader):
        self.loader, self.bytes, self.calls = loader, 0, set()

    def __getattr__(self, name):
        function = getattr(self.loader, name)

        def counted(*arguments):
            self.calls.add(name)
            if name == "clEnqueueReadBuffer":
                self.bytes += arguments[4]
            return function(*arguments)

        return counted


def test_tokens_without_a_copy(theirs, sampler, requests, rows, monkeypatch):
    """The host reads four bytes a row, and nothing waits for tinygrad's queue before."""
    from tinygrad.runtime import ops_cl

    logits = tensor_of(rows)

    def never(*arguments):
        raise AssertionError("tinygrad waited or read")

    reads = Reads(_opencl.loader())
    with monkeypatch.context() as patch:
        patch.setattr(_opencl, "_loader", reads)
        patch.setattr(ops_cl.CLDevice, "synchronize", never)
        patch.setattr(ops_cl.CLAllocator, "_copyout", never)
        step = sampler.sample(ours.array(theirs, logits), requests)
        assert not step.copied and "clEnqueueReadBuffer" not in reads.calls
        found = step.tokens.get()
    assert found.tolist() == expected(rows)
    assert reads.bytes == 4 * ROWS
    assert not reads.calls & {"clEnqueueMapBuffer", "clEnqueueSVMMemcpy"}


def test_it_is_the_same_memory(theirs, sampler, requests, rows):
    logits = tensor_of(rows)
    array = ours.array(theirs, logits)
    logits.assign(tensor_of(rows[::-1])).realize()
    assert draw(sampler, requests, array).tolist() == expected(rows[::-1])


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_types(theirs, sampler, requests, rows, dtype):
    logits = tensor_of(rows, dtype)
    array = ours.array(theirs, logits)
    assert array.itemsize == 2 and array.dtype == ours.DTYPES[dtype]
    assert draw(sampler, requests, array).tolist() == expected(logits.float().numpy())


def test_tensors_that_are_not_computed_yet(theirs, sampler, requests, rows):
    lazy = tensor_of(rows) * 2
    assert not lazy.uop.is_realized
    assert draw(sampler, requests, ours.array(theirs, lazy)).tolist() == expected(rows * 2)
    lazy = (tensor_of(rows) * 2).reshape(2, 2, VOCAB)[:, 1]
    found = draw(sampler, requests[1:3], ours.array(theirs, lazy))
    assert found.tolist() == [
        token_of(2 * rows[row], **PARAMS[1 + i]) for i, row in enumerate((1, 3))
    ]


VIEWS = {
    "rows": lambda t: t[2:6, 8 : 8 + VOCAB],
    "every second row": lambda t: t[1:8:2, :VOCAB],
    "a middle axis": lambda t: t.reshape(4, 2, VOCAB + 24)[:, 1, 24:],
    "one row": lambda t: t[5, 7 : 7 + VOCAB],
    "one row of two axes": lambda t: t[5:6, 7 : 7 + VOCAB],
    "an axis more": lambda t: t.unsqueeze(1)[4:, 0, 3 : 3 + VOCAB],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(theirs, sampler, requests, name):
    wide = np.random.default_rng(6).normal(scale=3, size=(8, VOCAB + 24)).astype(np.float32)
    base = tensor_of(wide)
    view = VIEWS[name](base)
    array = ours.array(theirs, view)
    assert array.offset != 0
    assert array.int_ptr == ours.array(theirs, base).int_ptr, "it was copied"
    values = np.atleast_2d(view.numpy())
    assert array.get().tolist() == view.numpy().tolist()
    found = draw(sampler, requests[: len(values)], array)
    assert found.tolist() == expected(values)


def test_what_is_refused(theirs, device):
    small = tensor_of(np.arange(24, dtype=np.float32).reshape(4, 6))
    for view in (
        small.T,
        small.flip(1),
        small.flip(0),
        small[:, ::2],
        small[0:1].expand(4, 6),
        small.pad(((0, 1), (0, 0))),
        small[:, :4].reshape(8, 2),
    ):
        with pytest.raises(ValueError, match="not contiguous; tensor.contiguous"):
            ours.array(theirs, view)
        copied = ours.array(theirs, view.contiguous())
        assert copied.get().tolist() == view.numpy().tolist()
    for value, message in (
        (Tensor([1.0, 2.0], device="PYTHON"), "tensor's device is PYTHON; it must be an OpenCL"),
        (small.reshape(2, 2, 6), r"shape \(2, 2, 6\); it must have one or two"),
    ):
        with pytest.raises(ValueError, match=message):
            ours.array(theirs, value)
    with pytest.raises(TypeError, match="must be a tinygrad.Tensor, not ndarray"):
        ours.array(theirs, np.zeros(4))
    with pytest.raises(TypeError, match=r"elements of dtypes.long; cast\(\) it to one of float"):
        ours.array(theirs, small.cast("int64"))
    with pytest.raises(ValueError, match="must be clsample.tinygrad.from_device"):
        ours.array(device, small)
    with pytest.raises(ValueError, match="device is CPU; it must be an OpenCL device"):
        ours.from_device("CPU")
    with pytest.raises(TypeError, match="must be a clsample.DeviceArray, not Tensor"):
        ours.tensor(small)
    with pytest.raises(ValueError, match="whose queue is not that of"):
        ours.tensor(device.empty(4))
    array = theirs.array(ours.array(theirs, small).as_pyopencl().base_data, (2, 4), row_stride=6)
    with pytest.raises(ValueError, match="gaps between its rows"):
        ours.tensor(array)


def test_a_version_that_lacks_something(theirs, monkeypatch):
    view = tensor_of(np.zeros((4, 6), np.float32))[:, :4]
    monkeypatch.delattr("tinygrad.schedule.rangeify.pm_mops")
    with pytest.raises(clsample.LibraryError, match="tinygrad [0-9.]+ is not as .* tried with 0"):
        ours.array(theirs, view)
    monkeypatch.delattr(Device["CL"], "queue")
    with pytest.raises(clsample.LibraryError, match="has no attribute 'queue'"):
        ours.from_device("CL")


def test_the_order_of_the_queue(theirs, sampler, requests, rows):
    """Kernels that tinygrad enqueues behind a step overwrite its logits after it has read them."""
    logits, other = tensor_of(rows), tensor_of(-rows)
    steps = []
    for turn in range(6):
        at = dict(positions=[turn] * ROWS, defer_accept=True)
        steps.append(sampler.sample(ours.array(theirs, logits), requests, **at))
        logits.assign(other if turn % 2 == 0 else tensor_of(rows)).realize()
    for turn, step in enumerate(steps):
        wanted = expected(rows if turn % 2 == 0 else -rows, turn)
        assert step.tokens.get().tolist() == wanted, turn


def test_an_array_keeps_its_tensor(theirs, sampler, requests, rows):
    """tinygrad gives the memory of tensors that are gone to new ones of the same size."""
    array = ours.array(theirs, tensor_of(rows))
    gc.collect()
    others = [tensor_of(np.full_like(rows, n)) for n in range(4)]
    assert draw(sampler, requests, array).tolist() == expected(rows)
    assert len({array.int_ptr, *(ours.array(theirs, one).int_ptr for one in others)}) == 5


def test_outputs_as_tensors(theirs, sampler, requests, rows):
    array = ours.array(theirs, tensor_of(rows))
    more = dict(positions=[0] * ROWS, defer_accept=True, logprobs=True, top=3)
    step = sampler.sample(array, requests, **more)
    for output in (step.tokens, step.status, step.logprobs, step.top.ids, step.top.logprobs):
        found = ours.tensor(output)
        assert found.shape == output.shape and found.device == "CL"
        assert found.numpy().tolist() == np.asarray(output.get()).tolist()
    assert step.logprobs.offset > 0
    assert (ours.tensor(step.tokens) + 1).tolist() == [token + 1 for token in expected(rows)]


def test_tensors_outlive_the_step(rows):
    with ours.from_device("CL") as context, context.sampler(VOCAB, ROWS) as sampler:
        requests = [sampler.begin(**params) for params in PARAMS]
        step = sampler.sample(ours.array(context, tensor_of(rows)), requests)
        tokens = ours.tensor(step.tokens)
        del step, requests
    del sampler, context
    gc.collect()
    others = [tensor_of(np.full(ROWS, n, np.int32)) for n in range(8)]
    assert tokens.tolist() == expected(rows)
    del tokens, others


def test_a_tensor_to_write(theirs, sampler, requests, rows):
    tokens = tensor_of(np.zeros(ROWS, np.int32))
    array = ours.array(theirs, tokens)
    step = sampler.sample(ours.array(theirs, tensor_of(rows)), requests, tokens=array)
    assert ours.tensor(step.tokens) is tokens
    assert tokens.tolist() == expected(rows)


def test_a_loop_on_the_device(theirs, sampler):
    """Each step's tokens choose the next rows on the device; the host reads all of them later."""
    table = np.random.default_rng(8).normal(scale=3, size=(97, VOCAB)).astype(np.float32)
    weights = tensor_of(table)

    @TinyJit
    def model(tokens):
        return weights[tokens % 97].contiguous()

    requests = [sampler.begin(**params) for params in PARAMS]
    tokens, steps = tensor_of(np.arange(ROWS, dtype=np.int32)), []
    for _ in range(6):
        steps.append(sampler.sample(ours.array(theirs, model(tokens).realize()), requests))
        tokens = ours.tensor(steps[-1].tokens)
    last = list(range(ROWS))
    for position, step in enumerate(steps):
        last = expected(table[[token % 97 for token in last]], position)
        assert step.tokens.get().tolist() == last, position
    for request in requests:
        request.end()


def test_import_alone():
    """The package does not import tinygrad by itself."""
    import subprocess

    code = "import sys, clsample; assert 'tinygrad' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


assert tinygrad
