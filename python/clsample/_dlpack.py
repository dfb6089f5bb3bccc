# SPDX-License-Identifier: MIT
"""Arrays of the host by DLPack, which NumPy's own types do not cover: bfloat16 has no name there.

A producer's __dlpack__() returns a capsule with a DLManagedTensor. As long as nobody renames the
capsule, its destructor frees the tensor, so that whoever keeps the capsule keeps the memory.
"""

from __future__ import annotations

import ctypes
from typing import Any, Tuple

import numpy as np

CPU, CUDA, CUDA_HOST, OPENCL = 1, 2, 3, 4  # DLDeviceType
INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6  # DLDataTypeCode
# NumPy's kind of each, and the bits of an element.
KINDS = {
    INT: ("i", (8, 16, 32, 64)),
    UINT: ("u", (8, 16, 32, 64)),
    FLOAT: ("f", (16, 32, 64)),
    BFLOAT: ("u", (16,)),
    BOOL: ("b", (8,)),
}
DEVICES = {CUDA: "a CUDA device", OPENCL: "an OpenCL device"}
INSTEAD = {OPENCL: "give its buffer as a pyopencl array, or by Context.array()"}


class Tensor(ctypes.Structure):
    """A DLTensor, with which a DLManagedTensor begins."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def tensor_of(capsule: Any) -> Tensor:
    return Tensor.from_address(_pointer_of(capsule, b"dltensor"))


class _Memory:
    """What a NumPy array has as its base: it keeps the capsule."""

    def __init__(self, capsule: Any, shape: Tuple[int, ...], strides: Any, kind: str) -> None:
        tensor = tensor_of(capsule)
        self.capsule = capsule
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "strides": strides,
            "typestr": kind,
            "data": ((tensor.data or 0) + tensor.byte_offset, True),
        }


def load(name: str, value: Any) -> Tuple[np.ndarray[Any, Any], str]:
    """Another library's array on the host, without a copy and read-only, and the name of its type.
    The elements of bfloat16 are uint16."""
    device = value.__dlpack_device__()[0]
    if device not in (CPU, CUDA_HOST):
        where = DEVICES.get(int(device), f"DLPack's device {int(device)}")
        what = INSTEAD.get(int(device), "copy it to the host first, as by torch's .cpu()")
        raise TypeError(
            f"{name} is on {where}; clsample reads the host's memory and OpenCL's buffers: {what}"
        )
    try:
        capsule = value.__dlpack__()
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(f"{name} cannot be read: {error}") from None
    tensor = tensor_of(capsule)
    kind, sizes = KINDS.get(tensor.code, ("", ()))
    if tensor.bits not in sizes or tensor.lanes != 1:
        raise TypeError(f"{name} has elements of DLPack's type {tensor.code}, {tensor.bits} bits")
    dtype = np.dtype(f"{kind}{tensor.bits // 8}")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(length * dtype.itemsize for length in tensor.strides[: tensor.ndim])
    array = np.asarray(_Memory(capsule, shape, strides, dtype.str))
    return array, "bfloat16" if tensor.code == BFLOAT else str(dtype)


def save(array: np.ndarray[Any, Any], elements: Any) -> Any:
    """A capsule of a NumPy array. elements: "bfloat16" if the array has its bits."""
    capsule = array.__dlpack__()
    if isinstance(elements, str):
        tensor_of(capsule).code = BFLOAT
    return capsule


def keep_for_ever(value: Any) -> None:
    """Keeps a reference that nothing releases, not even the end of the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
