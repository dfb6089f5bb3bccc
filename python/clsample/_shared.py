# SPDX-License-Identifier: MIT
"""Buffers of the host's own memory, for devices that compute in it."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from . import _opencl
from ._cffi import ffi
from ._errors import OpenCLError

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
    size = offset + memory.size
    whole = np.frombuffer(ffi.buffer(ffi.cast("char *", memory.pointer - offset), size), np.uint8)
    flags = _opencl.pyopencl().mem_flags
    return _opencl.buffer_of(context, flags.READ_ONLY | flags.USE_HOST_PTR, size, whole), offset


def shares_memory(context: Any, device: Any) -> bool:
    """Whether the device computes in the host's memory. A CPU says so; what it says is compared
    with what it does, for an array that begins at no multiple of ALIGNMENT."""
    found = _opencl.retained(device, "Device")
    try:
        if not found.type & _opencl.pyopencl().device_type.CPU or not found.host_unified_memory:
            return False
        return _is_shared(context, _opencl.Queue(_opencl.create_queue(context, device)))
    except OpenCLError:
        return False


def _is_shared(context: Any, queue: _opencl.Queue) -> bool:
    """Writes to an array through its buffer's map, and past it, and lets the device read it."""
    array = np.zeros(1024, np.uint32)[1:]
    size, on = array.nbytes, queue.as_pyopencl()
    mem, offset = share(context, _opencl.Pointer(array.ctypes.data, size, array))
    buffer, other = _opencl.as_pyopencl(mem), _opencl.create_buffer(context, size)
    with _opencl.calling("a trial of the host's memory") as cl:
        how = cl.map_flags.WRITE
        mapped, _ = cl.enqueue_map_buffer(on, buffer, how, offset, array.shape, array.dtype)
        same: bool = mapped.ctypes.data == array.ctypes.data
        if same:
            array[:] = 1
        mapped.base.release(on)
        on.finish()
        array[1::2] = 2  # a copy of the memory would not have it
        to = _opencl.as_pyopencl(other)
        cl.enqueue_copy(on, to, buffer, byte_count=size, src_offset=offset)
    found = np.zeros_like(array)
    _opencl.read(queue._handle, other, 0, found, None)
    return same and found[:4].tolist() == [1, 2, 1, 2] and bool((found == array).all())
