# SPDX-License-Identifier: MIT
"""Buffers of the host's own memory, for devices that compute in it."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from . import _opencl
from ._cffi import ffi
from ._errors import OpenCLError

DEVICE_TYPE, TYPE_CPU, HOST_UNIFIED_MEMORY = 0x1000, 1 << 1, 0x1035
MAP_WRITE = 1 << 1
# OpenCL's compilers may assume that a buffer begins at a multiple of its largest type's size, which
# is that of double16.
ALIGNMENT = 128


def share(context: Any, memory: _opencl.Pointer) -> Tuple[Any, int]:
    """A buffer of an array's own memory, and the array's place in it, in bytes.

    The buffer begins at the multiple of ALIGNMENT before the array, in the same page of memory, so
    that the array may begin at any element. The device only reads the buffer. The host wrote the
    array before the buffer was made, and writes it again when the buffer is gone; no write of the
    host needs to be announced to OpenCL by mapping the buffer.
    """
    offset = memory.pointer % ALIGNMENT
    start = ffi.cast("void *", memory.pointer - offset)
    flags = _opencl.READ_ONLY | _opencl.USE_HOST_PTR
    return _opencl.buffer_of(context, flags, offset + memory.size, start), offset


def shares_memory(context: Any, device: Any) -> bool:
    """Whether the device computes in the host's memory. A CPU says so; what it says is compared
    with what it does, for an array that begins at no multiple of ALIGNMENT."""
    try:
        kind = _opencl._info("clGetDeviceInfo", device, DEVICE_TYPE, "cl_bitfield")
        if not kind & TYPE_CPU:
            return False
        unified = _opencl._info("clGetDeviceInfo", device, HOST_UNIFIED_MEMORY, "cl_bool")
        return bool(unified) and _is_shared(context, _opencl.create_queue(context, device))
    except OpenCLError:
        return False


def _is_shared(context: Any, queue: Any) -> bool:
    """Writes to an array through its buffer's map, and past it, and lets the device read it."""
    cl, code = _opencl.loader(), ffi.new("cl_int *")
    array = np.zeros(1024, np.uint32)[1:]
    size = array.nbytes
    buffer, offset = share(context, _opencl.Pointer(array.ctypes.data, size, array))
    mapped = cl.clEnqueueMapBuffer(
        queue, buffer, 1, MAP_WRITE, offset, size, 0, ffi.NULL, ffi.NULL, code
    )
    _opencl.check(code[0], "clEnqueueMapBuffer")
    same = int(ffi.cast("intptr_t", mapped)) == array.ctypes.data
    if same:
        array[:] = 1
    _opencl.check(
        cl.clEnqueueUnmapMemObject(queue, buffer, mapped, 0, ffi.NULL, ffi.NULL),
        "clEnqueueUnmapMemObject",
    )
    _opencl.check(cl.clFinish(queue), "clFinish")
    array[1::2] = 2  # a copy of the memory would not have it
    found = np.zeros_like(array)
    other = _opencl.create_buffer(context, size)
    _opencl.check(
        cl.clEnqueueCopyBuffer(queue, buffer, other, offset, 0, size, 0, ffi.NULL, ffi.NULL),
        "clEnqueueCopyBuffer",
    )
    _opencl.read(queue, other, 0, found, None)
    return same and found[:4].tolist() == [1, 2, 1, 2] and bool((found == array).all())
