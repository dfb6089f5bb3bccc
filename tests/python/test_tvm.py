# SPDX-License-Identifier: MIT
"""clsample.tvm: tokens of logits in TVM's buffers are the host's, and are written into TVM's. The
wheel of TVM has no OpenCL runtime, so a stub stands for it here: a library with its two functions,
and tensors that DLPack describes as TVM's do. With CLSAMPLE_TVM=FILE, the OpenCL runtime of an
installed TVM, the same is tried there. Skipped without pyopencl or a C compiler."""

import ctypes
import os
import shutil
import subprocess

import numpy as np
import pytest

import clsample
from clsample import _dlpack
from conftest import token_of

pyopencl = pytest.importorskip("pyopencl")
import clsample.tvm as ours  # noqa: E402

VOCAB, ROWS = 1000, 4
STUB = f"""
struct device {{ int kind, index; }};
static void *queues[2];
void set_queue(int index, void *queue) {{ queues[index] = queue; }}
void *{ours.GLOBAL}(void) {{ return queues; }}
void *{ours.GET_QUEUE}(void **self, struct device d) {{ return d.kind == 4 ? self[d.index] : 0; }}
"""


class Device:
    """As tvm.runtime.Device."""

    def __init__(self, index, kind=_dlpack.OPENCL, exist=True):
        self.index, self.kind, self.exist = index, kind, exist

    def dlpack_device_type(self):
        return self.kind


class Tensor:
    """As tvm.runtime.Tensor: its data points to a description of a cl_mem."""

    def __init__(self, mem, dtype, shape, strides=None, offset=0, index=0):
        self.mem = mem
        self.descriptor = (ctypes.c_void_p * 4)(mem.int_ptr)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(shape))(*strides)
        self.index = index
        dtype = np.dtype(dtype)
        code = {"f": _dlpack.FLOAT, "i": _dlpack.INT, "u": _dlpack.UINT}[dtype.kind]
        self.tensor = _dlpack.Tensor(
            ctypes.addressof(self.descriptor),
            (_dlpack.OPENCL, index),
            len(shape),
            code,
            dtype.itemsize * 8,
            1,
            self.shape,
            self.strides or None,
            offset,
        )

    def __dlpack_device__(self):
        return _dlpack.OPENCL, self.index

    def __dlpack__(self):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
        self.name = ctypes.create_string_buffer(b"dltensor")
        return make(ctypes.addressof(self.tensor), ctypes.addressof(self.name), None)


@pytest.fixture(scope="module")
def runtime(device, tmp_path_factory):
    """The stub, whose queue 0 is another one than the package's own."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("tvm")
    (folder / "stub.c").write_text(STUB)
    path = str(folder / "libtvm_stub.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, str(folder / "stub.c")], check=True)
    library = ctypes.CDLL(path)
    library.set_queue.argtypes = [ctypes.c_int, ctypes.c_void_p]
    own = pyopencl.CommandQueue.from_int_ptr(device.queue.int_ptr, retain=True)
    queue = pyopencl.CommandQueue(own.context)
    library.set_queue(0, queue.int_ptr)
    library.queue, library.path = queue, path
    return library


@pytest.fixture(scope="module")
def theirs(runtime):
    with ours.from_device(Device(0)) as found:  # the stub is found by its file's name
        yield found


def buffer_of(runtime, values):
    flags = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.COPY_HOST_PTR
    return pyopencl.Buffer(runtime.queue.context, flags, hostbuf=values)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_tokens_are_the_hosts(runtime, theirs, dtype):
    rows = np.random.default_rng(3).normal(size=(ROWS, VOCAB)).astype(dtype)
    tokens = buffer_of(runtime, np.full(ROWS, -7, np.int32))
    params = dict(temperature=0.8, top_k=40, top_p=0.95)
    with theirs.sampler(VOCAB, ROWS, dtypes=["f32", "f16"]) as sampler:
        requests = [sampler.begin(seed=seed, **params) for seed in range(ROWS)]
        logits = ours.array(theirs, Tensor(buffer_of(runtime, rows), dtype, rows.shape))
        sampler.sample(
            logits, requests, tokens=ours.array(theirs, Tensor(tokens, np.int32, [ROWS]))
        )
        found = np.empty(ROWS, np.int32)
        pyopencl.enqueue_copy(runtime.queue, found, tokens)  # behind the step: one queue
    assert list(found) == [token_of(row, seed=s, **params) for s, row in enumerate(rows)]


def test_views(runtime, theirs):
    rows = np.random.default_rng(4).normal(size=(ROWS, VOCAB)).astype(np.float32)
    mem = buffer_of(runtime, rows)
    with theirs.sampler(VOCAB - 100, 2) as sampler:
        requests = [sampler.begin(temperature=0) for _ in range(2)]
        view = Tensor(mem, np.float32, [2, VOCAB - 100], [VOCAB, 1], 4 * VOCAB)
        step = sampler.sample(ours.array(theirs, view), requests)
        assert list(step.tokens.get()) == list(rows[1:3, : VOCAB - 100].argmax(axis=1))


def test_what_cannot_be_taken(runtime, theirs):
    mem = buffer_of(runtime, np.zeros((ROWS, VOCAB), np.float32))
    good = dict(dtype=np.float32, shape=[ROWS, VOCAB])
    image = pyopencl.Image(
        runtime.queue.context,
        pyopencl.mem_flags.READ_WRITE,
        pyopencl.ImageFormat(pyopencl.channel_order.RGBA, pyopencl.channel_type.FLOAT),
        shape=(64, 64),
    )
    odd = Tensor(mem, **good)
    odd.tensor.lanes = 4
    for tensor, error, words in [
        (np.zeros(3, np.float32), TypeError, "tensor must be a tvm.runtime.Tensor on OpenCL, not"),
        (Tensor(mem, **good, index=1), ValueError, "tensor is on TVM's opencl:1, whose queue is"),
        (Tensor(mem, **good, strides=[1, ROWS]), ValueError, "whose rows are not contiguous"),
        (Tensor(mem, np.float32, [2, 2, 2]), ValueError, "it must have one or two dimensions"),
        (Tensor(image, **good), ValueError, "tensor is in a texture"),
        (odd, TypeError, "tensor has elements of DLPack's type 2, 32 bits"),
        (Tensor(mem, np.float32, [ROWS + 1, VOCAB]), ValueError, ""),
    ]:
        with pytest.raises(error) as raised:
            ours.array(theirs, tensor)
        assert words in str(raised.value)
    with pytest.raises(ValueError, match="whose queue is not the context's"):
        ours.array(clsample.Context("host"), Tensor(mem, **good))
    for device in (Device(0, kind=1), Device(0, exist=False), "opencl"):
        with pytest.raises(ValueError, match="it must be an OpenCL device of TVM"):
            ours.from_device(device)
    with pytest.raises(clsample.LibraryError, match="TVM has no queue of its OpenCL device 1"):
        ours.from_device(Device(1))
    with pytest.raises(clsample.LibraryError, match="no loaded library has TVM's OpenCL runtime"):
        ours.from_device(Device(0), library="libm.so.6")


def test_with_tvm():
    """40 steps in TVM's own buffers, and its own tensor for the tokens."""
    path = os.environ.get("CLSAMPLE_TVM")
    if path is None:
        pytest.skip("CLSAMPLE_TVM does not name TVM's OpenCL runtime")
    tvm = pytest.importorskip("tvm")
    ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    opencl = tvm.device("opencl", 0)
    params = dict(temperature=0.8, top_k=50, top_p=0.95, presence_penalty=0.3)
    random = np.random.default_rng(1)
    with ours.from_device(opencl, library=path) as theirs, clsample.Context("host") as host:
        sampler = theirs.sampler(32000, ROWS, features=["shortlist", "penalties"])
        judge = host.sampler(32000, ROWS)
        requests = [[one.begin(seed=s, **params) for s in range(ROWS)] for one in (sampler, judge)]
        tokens = tvm.runtime.tensor(np.full(ROWS, -7, np.int32), device=opencl)
        for _ in range(40):
            rows = random.normal(scale=3, size=(ROWS, 32000)).astype(np.float32)
            logits = ours.array(theirs, tvm.runtime.tensor(rows, device=opencl))
            sampler.sample(logits, requests[0], tokens=ours.array(theirs, tokens))
            assert list(tokens.numpy()) == list(judge.sample(rows, requests[1]).tokens.get())
