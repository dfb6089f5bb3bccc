# SPDX-License-Identifier: MIT
"""Samples where TVM has computed the logits, without a copy. Needs pyopencl, and a TVM whose OpenCL
runtime is loaded.

    import clsample.tvm

    device = tvm.opencl(0)
    context = clsample.tvm.from_device(device)
    sampler = context.sampler(vocab, rows)
    requests = [sampler.begin(temperature=0.8, seed=seed) for seed in range(rows)]
    logits = vm["decode"](...)                                 # a tvm.runtime.Tensor [rows, vocab]
    sampler.sample(clsample.tvm.array(context, logits), requests,
                   tokens=clsample.tvm.array(context, tokens))    # an int32 Tensor of TVM's

The OpenCL context and the queue are TVM's own. The queue is in order: a step runs behind the
kernels that compute its logits, and before those that TVM enqueues later. Nothing waits, and the
host reads nothing.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Iterator, Optional

import numpy as np

from . import _dlpack
from ._arrays import DeviceArray
from ._context import Context
from ._errors import LibraryError, without

try:
    import pyopencl
except ImportError as error:
    raise without("tvm", error) from None

TRIED = "0.27"
# OpenCLWorkspace::Global() and OpenCLWorkspace::GetQueue(DLDevice), which no header promises.
GLOBAL = "_ZN3tvm7runtime2cl15OpenCLWorkspace6GlobalEv"
GET_QUEUE = "_ZN3tvm7runtime2cl15OpenCLWorkspace8GetQueueE8DLDevice"


class _Device(ctypes.Structure):
    """A DLDevice."""

    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


def from_device(device: Any, library: Optional[str] = None, **options: Any) -> Context:
    """The Context of one of TVM's OpenCL devices, whose queue is TVM's.

    device: tvm.opencl(0). library: the file of TVM's OpenCL runtime; None: the one
    that the process has loaded. options: those of Context.
    """
    queue = pyopencl.CommandQueue.from_int_ptr(_queue(_index(device), library), retain=True)
    context = Context(queue.context, queue=queue, **options)
    context._tvm = (_index(device), library)
    return context


def array(context: Context, tensor: Any) -> DeviceArray:
    """A tensor's memory as an array [rows, elements] or [elements], which keeps the tensor.

    context: that of the tensor's device, by from_device(). The tensor lies in a buffer, not in a
    texture, and its rows are contiguous. The array goes in wherever an array on the device does: as
    logits, biases, masks and maps, and as `tokens` and other outputs, which a step then writes into
    the tensor.
    """
    device = getattr(tensor, "__dlpack_device__", lambda: (None, 0))()
    if device[0] != _dlpack.OPENCL:
        kind = type(tensor).__name__
        raise TypeError(f"tensor must be a tvm.runtime.Tensor on OpenCL, not {kind}")
    index, library = getattr(context, "_tvm", (None, None))
    if index != device[1] or _queue(device[1], library) != context.queue.int_ptr:
        raise ValueError(
            f"tensor is on TVM's opencl:{device[1]}, whose queue is not the context's; the Context "
            f"must be clsample.tvm.from_device(tvm.opencl({device[1]}))"
        )
    capsule = tensor.__dlpack__()
    found = _dlpack.tensor_of(capsule)
    elements, sizes = _dlpack.KINDS.get(found.code, ("", ()))
    if found.bits not in sizes or found.lanes != 1 or not found.data:
        raise TypeError(f"tensor has elements of DLPack's type {found.code}, {found.bits} bits")
    shape = tuple(found.shape[: found.ndim])
    if not 1 <= len(shape) <= 2:
        raise ValueError(f"tensor has the shape {shape}; it must have one or two dimensions")
    strides = found.strides[: found.ndim] if found.strides else [shape[-1], 1][-len(shape) :]
    several = len(shape) == 2 and shape[0] > 1
    if strides[-1] != 1 or (several and strides[0] < shape[1]):
        raise ValueError(f"tensor is a view {shape} whose rows are not contiguous")
    # The data of a DLTensor is TVM's description of the memory, which begins with its cl_mem.
    mem = pyopencl.MemoryObject.from_int_ptr(
        ctypes.c_void_p.from_address(found.data).value, retain=True
    )
    if mem.type != pyopencl.mem_object_type.BUFFER:
        raise ValueError("tensor is in a texture; logits and tokens must be in buffers")
    result = context.array(
        pyopencl.Buffer.from_int_ptr(mem.int_ptr, retain=True),
        shape,
        "bfloat16" if found.code == _dlpack.BFLOAT else np.dtype(f"{elements}{found.bits // 8}"),
        offset=found.byte_offset,
        row_stride=strides[0] if several else None,
    )
    result._owner = capsule  # TVM gives the memory of a tensor that is gone to another one
    return result


def _index(device: Any) -> int:
    """The number of one of TVM's OpenCL devices. TVM is asked for no other: it would end the
    process."""
    if getattr(device, "dlpack_device_type", lambda: None)() != _dlpack.OPENCL or not device.exist:
        raise ValueError(f"device is {device}; it must be an OpenCL device of TVM, as opencl:0 is")
    return int(device.index)


def _libraries() -> Iterator[str]:
    """The files of the loaded libraries whose names say that they are TVM's or a model's."""
    seen = set()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if path.startswith("/") and ".so" in os.path.basename(path) and path not in seen:
                seen.add(path)
                if "tvm" in path:
                    yield path


def _queue(index: int, library: Optional[str]) -> int:
    """The address of the cl_command_queue of TVM's OpenCL device with this number."""
    for path in [library] if library is not None else _libraries():
        runtime = ctypes.CDLL(path)
        if hasattr(runtime, GLOBAL) and hasattr(runtime, GET_QUEUE):
            break
    else:
        raise LibraryError(
            "no loaded library has TVM's OpenCL runtime, by the two functions that clsample.tvm "
            f"knows of TVM {TRIED}: load it first, or name its file in `library`"
        )
    workspace, get = getattr(runtime, GLOBAL), getattr(runtime, GET_QUEUE)
    workspace.restype = get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.c_void_p, _Device]
    queue = get(workspace(), _Device(_dlpack.OPENCL, index))
    if not queue:
        raise LibraryError(f"TVM has no queue of its OpenCL device {index}: open the device first")
    return int(queue)
