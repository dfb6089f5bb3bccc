# SPDX-License-Identifier: MIT
"""Samples where tinygrad has computed the logits, without a copy. Needs tinygrad and pyopencl.

    import clsample.tinygrad

    context = clsample.tinygrad.from_device("CL")
    sampler = context.sampler(vocab, rows)
    requests = [sampler.begin(temperature=0.8, seed=seed) for seed in range(rows)]
    logits = model(tokens)                                        # a tinygrad.Tensor [rows, vocab]
    step = sampler.sample(clsample.tinygrad.array(context, logits), requests)
    tokens = clsample.tinygrad.tensor(step.tokens)                # for the next embedding

The OpenCL context and the queue are tinygrad's own. The queue is in order: a step runs behind the
kernels that compute its logits, and before those that tinygrad enqueues later, whatever memory they
use. Nothing waits, and the host reads nothing. A step on another queue needs events, which tinygrad
has not.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from ._arrays import Array, DeviceArray
from ._context import Context
from ._errors import LibraryError, without

try:
    import pyopencl
    from tinygrad import Device, Tensor, dtypes
except ImportError as error:
    raise without("tinygrad", error) from None

DTYPES = {
    dtypes.float32: np.float32,
    dtypes.float16: np.float16,
    dtypes.bfloat16: "bfloat16",
    dtypes.int32: np.int32,
    dtypes.uint32: np.uint32,
    dtypes.uint64: np.uint64,
    dtypes.bool: np.bool_,
    dtypes.int8: np.int8,
    dtypes.uint8: np.uint8,
}


def from_device(device: str = "CL", **options: Any) -> Context:
    """The Context of one of tinygrad's OpenCL devices, "CL" or "CL:1", whose queue is tinygrad's.
    options: those of Context."""
    context, queue = _handles("device", device)
    return Context(
        pyopencl.Context.from_int_ptr(context, retain=True),
        queue=pyopencl.CommandQueue.from_int_ptr(queue, retain=True),
        **options,
    )


def array(context: Context, tensor: Tensor) -> DeviceArray:
    """A tensor's memory as an array [rows, elements] or [elements], which keeps the tensor.

    context: that of the tensor's device, by from_device(). A tensor that is not computed yet is
    realized. A view of rows that are contiguous, such as tensor[1:3, :1000], is taken where it is.
    The array goes in wherever an array on the device does: as logits, biases, masks and maps, and
    as `tokens` and other outputs, which a step then writes into the tensor.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"tensor must be a tinygrad.Tensor, not {type(tensor).__name__}")
    _same_queue("tensor's device", tensor.device, context.queue.int_ptr)
    if tensor.dtype not in DTYPES:
        raise TypeError(
            f"tensor has elements of {tensor.dtype}; cast() it to one of "
            + ", ".join(dtype.name for dtype in DTYPES)
        )
    shape = tensor.shape
    if not 1 <= len(shape) <= 2:
        raise ValueError(f"tensor has the shape {shape}; it must have one or two dimensions")
    tensor.realize()
    mem, offset, strides = _place(tensor) or (0, 0, [0])
    several = len(shape) == 2 and shape[0] > 1
    if strides[-1] != 1 or (several and strides[0] < shape[1]):
        raise ValueError(
            f"tensor is a view {shape} whose rows are not contiguous; tensor.contiguous() makes a "
            "copy that is"
        )
    result = context.array(
        pyopencl.Buffer.from_int_ptr(mem, retain=True),
        shape,
        DTYPES[tensor.dtype],
        offset=offset * tensor.dtype.itemsize,
        row_stride=strides[0] if several else None,
    )
    result._owner = tensor  # tinygrad gives the memory of a tensor that is gone to another one
    return result


def tensor(array: Array, device: str = "CL") -> Tensor:
    """An output of a step, such as step.tokens, as a tensor of tinygrad's device over the same
    memory. What tinygrad computes of it runs behind the step, whose queue must be tinygrad's. Of an
    array that array() has made it is the tensor itself."""
    if not isinstance(array, DeviceArray):
        raise TypeError(f"array must be a clsample.DeviceArray, not {type(array).__name__}")
    _same_queue("device", device, array.queue.int_ptr)
    if isinstance(array._owner, Tensor):
        return array._owner
    found = [dtype for dtype, one in DTYPES.items() if one == array.dtype]
    begin, width = array.offset // array.itemsize, array.shape[-1] if array.shape else 1
    if array.offset % array.itemsize != 0 or array.row_stride != width:
        raise ValueError("array has gaps between its rows, or begins between two elements")
    flat = _wrapped(array.int_ptr, begin + array.size, found[0], device)
    return flat[begin:].reshape(array.shape)


def _same_queue(name: str, device: Any, queue: int) -> None:
    if _handles(name, device)[1] != queue:
        raise ValueError(
            f"{name} is {device}, whose queue is not that of the context or the array; the Context "
            f"must be clsample.tinygrad.from_device({device!r})"
        )


# --------------------------------------------- what tinygrad does not promise

TRIED = "0.14.0"


@contextlib.contextmanager
def _private() -> Iterator[None]:
    """Around each use of what is not in tinygrad's interface."""
    try:
        yield
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        raise LibraryError(
            f"tinygrad {importlib.metadata.version('tinygrad')} is not as clsample.tinygrad needs "
            f"it, which was tried with {TRIED}: {error}"
        ) from error


def _address(handle: Any) -> int:
    """An OpenCL object's address, which tinygrad has as a pointer of ctypes."""
    found = ctypes.cast(handle, ctypes.c_void_p).value
    if not found:
        raise ValueError("an OpenCL object has no address")
    return found


def _handles(name: str, device: Any) -> Tuple[int, int]:
    """The cl_context and the cl_command_queue of a device."""
    if not isinstance(device, str) or device.split(":")[0].upper() != "CL":
        raise ValueError(f"{name} is {device}; it must be an OpenCL device of tinygrad, as CL is")
    opened: Any = Device[device]
    with _private():
        return _address(opened.context), _address(opened.queue)


def _place(tensor: Any) -> Optional[Tuple[int, int, List[int]]]:
    """The cl_mem of a tensor that is realized, and where its elements are: the first one, and the
    steps along the axes, in elements. None if no such numbers say it."""
    with _private():
        from tinygrad.schedule.rangeify import pm_mops
        from tinygrad.uop.ops import Ops, UOp, graph_rewrite
        from tinygrad.uop.symbolic import symbolic

        if tensor.uop.has_buffer_identity():
            strides = [1, tensor.shape[-1]][len(tensor.shape) - 1 :: -1]
            return _address(tensor.uop.buffer._buf), 0, strides
        # Views are operations on the index. tinygrad itself makes of index [i, j] one into the
        # buffer: a sum of i, j and numbers, if the view is one of strides.
        axes = [UOp.range(length, axis) for axis, length in enumerate(tensor.shape)]
        index = graph_rewrite(tensor.uop.index(*axes), pm_mops + symbolic)
        if index.op is not Ops.INDEX or index.src[0].op is not Ops.BUFFER or len(index.src) != 2:
            return None
        offset, strides = 0, [0 if length > 1 else 1 for length in tensor.shape]
        for term in index.src[1].split_uop(Ops.ADD):
            factor = 1
            if term.op is Ops.MUL and term.src[1].op is Ops.CONST:
                term, factor = term.src[0], term.src[1].arg
            if term.op is Ops.CONST:
                offset += term.arg * factor
            elif term.op is Ops.RANGE:
                strides[term.arg[0]] = factor
            else:
                return None
        return _address(index.src[0].buffer._buf), offset, strides


def _wrapped(mem: int, size: int, dtype: Any, device: str) -> Tensor:
    """A tensor of a cl_mem, which keeps it."""
    with _private():
        from tinygrad.device import Buffer, BufferSpec
        from tinygrad.runtime.autogen import opencl
        from tinygrad.uop.ops import UOp

        handle = ctypes.cast(ctypes.c_void_p(mem), opencl.cl_mem)
        code = opencl.clRetainMemObject(handle)
        if code != 0:
            raise ValueError(f"clRetainMemObject failed with OpenCL's error {code}")
        # Without nolru tinygrad would use the memory for another tensor afterwards.
        buffer = Buffer(device, size, dtype, opaque=handle, options=BufferSpec(nolru=True))
        return Tensor(UOp.from_buffer(buffer))
