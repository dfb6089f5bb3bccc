# SPDX-License-Identifier: MIT
"""Proves that a CPU reads arrays of the host where they are, that they live until it has read them,
and that this is seen from what the device does."""

import gc
import weakref

import numpy as np
import pytest

import clsample
from clsample import _opencl, _shared
from conftest import VOCAB, tokens_of
from test_examples import run

TOKENS = "import clsample, numpy; tokens = lambda: numpy.zeros((2, 1000), numpy.float32)\n"


@pytest.fixture
def shared(device):
    if not device._shares:
        pytest.skip("the device does not compute in the host's memory")


@pytest.fixture
def late(shared, cl, theirs):
    """A function that samples rows, as soon as an event of the user is complete."""
    cl_context, queue, opened = theirs
    sampler = opened.sampler(VOCAB, 4)
    requests = [sampler.begin(seed=1), sampler.begin(seed=2)]
    gates = []

    def sample(rows, **more):
        gates.append(cl.UserEvent(cl_context))
        more = {"queue": queue, "positions": [0, 0], "wait_for": gates[-1:], **more}
        step = sampler.sample(rows, requests, **more)
        return step, gates[-1]

    yield sample
    for gate in gates:
        if gate.command_execution_status != cl.command_execution_status.COMPLETE:
            gate.set_status(cl.command_execution_status.COMPLETE)  # the test failed before it
    queue.finish()
    sampler.close()


def test_the_device_reads_the_array_itself(late, logits):
    """What is written before the step runs counts, unless the array was copied."""
    for copy, rows in ((None, logits[2:]), (False, logits[2:]), (True, logits[:2])):
        array = logits[:2].copy()
        step, gate = late(array, copy=copy)
        array[:] = logits[2:]
        gate.set_status(0)
        assert step.copied is (copy is True)
        assert step.tokens.get().tolist() == tokens_of(rows)
    assert tokens_of(logits[:2]) != tokens_of(logits[2:])


@pytest.mark.parametrize("dtype", (np.float32, np.float16))
@pytest.mark.parametrize("first", range(6))
def test_any_element_may_be_the_first(shared, context, logits, dtype, first):
    """Also one that no vector type could begin at; and rows with gaps between them."""
    memory = np.zeros(64 + 4 * (VOCAB + 3), dtype)
    array = memory[first : first + 4 * (VOCAB + 3)].reshape(4, VOCAB + 3)[:2, 1 : 1 + VOCAB]
    array[:] = logits[:2]
    array.flags.writeable = False
    with context.sampler(VOCAB, 2, dtypes=[dtype]) as sampler:
        step = sampler.sample(array, [sampler.begin(seed=1), sampler.begin(seed=2)], copy=False)
        assert step.tokens.get().tolist() == tokens_of(array) and not step.copied


def test_elements_that_begin_nowhere(sampler, logits):
    """An array whose elements are not aligned is copied."""
    array = np.zeros(4 * VOCAB + 1, np.uint8)[1:].view(np.float32)
    array[:] = logits[0]
    assert not array.flags.aligned
    with sampler.begin(seed=1) as a:
        step = sampler.sample(array, a)
        assert step.copied and step.tokens.get()[0] == tokens_of(logits)[0]


def test_other_arrays_of_the_host(shared, sampler, logits):
    """Biases are read where they are, too; and what a step copies does not depend on its logits."""
    bias = np.zeros_like(logits[:2])
    bias[:, 5] = 100
    on_device = sampler.context.to_device(logits[:2])
    with sampler.begin(seed=1) as a, sampler.begin(seed=2) as b:
        for rows in (logits[:2], on_device):
            for copy in (None, True):
                step = sampler.sample(rows, [a, b], bias=bias, copy=copy)
                assert step.copied is (copy is True)
                assert step.tokens.get().tolist() == [5, 5]
        assert not sampler.sample(on_device, [a, b], copy=False).copied
        assert not sampler.accept([1, 2], [a, b]).copied
        assert not sampler.logprobs(logits[:2], top=1, copy=False).copied


def test_devices_of_their_own_memory(sampler, logits, monkeypatch):
    monkeypatch.setattr(sampler.context, "_shares", False)
    with sampler.begin(seed=1) as a:
        step = sampler.sample(logits[0], a)
        assert step.copied and step.tokens.get()[0] == tokens_of(logits)[0]
        with pytest.raises(ValueError, match="logits must be copied to the device, but copy is Fa"):
            sampler.sample(logits[0], a, copy=False)
        with pytest.raises(TypeError, match="copy must be True, False or None, not str"):
            sampler.sample(logits[0], a, copy="never")


def test_the_array_lives_as_long_as_the_step(late, logits):
    array = logits[:2].copy()
    alive, expected = weakref.ref(array), tokens_of(array)
    step, gate = late(array)
    tokens = step.tokens
    del step, array
    gc.collect()
    assert alive() is not None
    gate.set_status(0)
    assert tokens.get().tolist() == expected
    assert alive() is None


def test_the_process_may_end_first(shared):
    """The device reads the array while the process ends, and after."""
    out = run(
        "-c",
        TOKENS
        + "s = clsample.Context().sampler(1000, 2)\n"
        + "r = [s.begin(), s.begin()]\n"
        + "x = [s.sample(tokens(), r) for _ in range(8)]; print(x[0].copied)\n",
    )
    assert out == "False\n"


def test_what_may_be_read_is_kept_to_the_end(tmp_path):
    """The process ends without freeing what its commands may still read."""
    code = """
import atexit, weakref, numpy
atexit.register(lambda: (_opencl._lent.clear(), print(alive() is not None)))  # the last to be run
from clsample import _opencl
array = numpy.zeros(5)
alive = weakref.ref(array)
_opencl.lend(None, array)
del array
"""
    assert run("-c", code) == "True\n"


def test_buffers_begin_where_vectors_may(shared, device):
    array = np.zeros(100, np.float32)
    for first in range(40):
        part = array[first:]
        place = _opencl.Pointer(part.ctypes.data, part.nbytes, part)
        mem, offset = _shared.share(device._cl, place)
        host_ptr = _opencl._info("clGetMemObjectInfo", mem, 0x1103, "void *")
        start = int(_opencl.ffi.cast("intptr_t", host_ptr))
        assert start % 128 == 0 and start + offset == part.ctypes.data
        assert _opencl.buffer_size(mem) == offset + part.nbytes


def test_it_is_checked(shared, device, monkeypatch):
    """A driver is noticed that copies, with or without maps of the host's memory, or refuses."""
    assert _shared.shares_memory(device._cl, device._device)

    def copied(cl, memory):
        return _opencl.create_buffer(cl, memory.size, memory.owner), 0

    def announced(queue, buffer, offset, target, event):
        target[:] = 1

    def refused(code, call):
        raise clsample.OpenCLError(call, code)

    for module, name, wrong in (
        (_shared, "share", copied),
        (_opencl, "read", announced),
        (_opencl, "check", refused),
    ):
        monkeypatch.setattr(module, name, wrong)
        assert not _shared.shares_memory(device._cl, device._device)
        monkeypatch.undo()
    info = _opencl._info
    for what, value in ((_shared.DEVICE_TYPE, 1 << 2), (_shared.HOST_UNIFIED_MEMORY, 0)):
        monkeypatch.setattr(_opencl, "_info", lambda *a: value if a[2] == what else info(*a))
        assert not _shared.shares_memory(device._cl, device._device)
