# SPDX-License-Identifier: MIT
"""Arrays on the device, and their equals on the host."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _dlpack, _opencl, _types
from ._cffi import ffi
from ._opencl import Event, Queue
from ._structs import integer, kind, unmasked

if TYPE_CHECKING:
    from ._context import Context


class DeviceArray:
    """An array in a buffer on the device, row-major, with its rows contiguous.

    shape, dtype    as NumPy's; dtype is the str "bfloat16" for such logits
    offset          bytes from the beginning of the buffer
    row_stride      elements from row to row
    event           the Event after which the contents are complete, or None
    queue           the Queue that get() reads on

    get() waits for the event and copies the contents to the host, as a NumPy array. So do indices,
    a loop over the array, np.asarray() and DLPack (torch.from_dlpack()), each time: take several
    elements from one get(). int_ptr is the cl_mem.
    """

    __slots__ = tuple(
        "context _mem shape dtype offset row_stride _event _queue _theirs _owner".split()
    )

    def __init__(
        self,
        context: Context,
        mem: Any,
        shape: Tuple[int, ...],
        dtype: Any,
        offset: int = 0,
        row_stride: Optional[int] = None,
    ) -> None:
        self.context = context
        self._mem = mem
        self.shape = shape
        self.dtype = dtype
        self.offset = offset
        self.row_stride = (shape[-1] if shape else 1) if row_stride is None else row_stride
        self._event: Any = None
        self._queue: Any = None
        self._theirs = False  # the caller's buffer, whose contents the caller's queue makes
        self._owner: Any = None  # what the memory belongs to, if its own reference does not keep it

    @property
    def mem(self) -> Any:
        """The cl_mem, as cffi's object, or an _opencl.Pointer."""
        return _opencl.alive("the array", self._mem)

    @property
    def int_ptr(self) -> int:
        """The cl_mem, as a number. SVM has none."""
        if isinstance(self.mem, _opencl.Pointer):
            raise ValueError("the array is SVM, which has no cl_mem; as_pyopencl() has its pointer")
        return int(ffi.cast("intptr_t", self.mem))

    @property
    def event(self) -> Optional[Event]:
        return None if self._event is None else Event(self._event)

    @property
    def queue(self) -> Queue:
        return self.context.queue if self._queue is None else Queue(self._queue)

    @property
    def itemsize(self) -> int:
        return 2 if isinstance(self.dtype, str) else int(self.dtype.itemsize)

    @property
    def _numpy_type(self) -> np.dtype[Any]:
        return np.dtype(np.uint16) if isinstance(self.dtype, str) else self.dtype

    @property
    def _strides(self) -> Tuple[int, ...]:
        """In bytes."""
        strides, step = [self.itemsize], self.row_stride * self.itemsize
        for length in self.shape[-2::-1]:
            strides.insert(0, step)
            step *= length
        return tuple(strides[: len(self.shape)])

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self.get()[index]

    def __iter__(self) -> Iterator[Any]:
        len(self)
        return iter(self.get())

    def get(self, out: Optional[np.ndarray[Any, Any]] = None) -> np.ndarray[Any, Any]:
        """Waits until the contents are complete, and returns them: an array of `shape`. bfloat16
        comes as its bits, uint16. out: an array for them, in place of a new one."""
        dtype = self._numpy_type
        width = self.shape[-1] if self.shape else 1
        rows = self.size // width if self.size else 0
        span = ((rows - 1) * self.row_stride + width) if rows else 0
        flat = np.empty(span, dtype)
        if span:
            _opencl.read(self.queue._handle, self.mem, self.offset, flat, self._event)
        found = np.lib.stride_tricks.as_strided(flat, self.shape, self._strides)
        if self.row_stride != width:
            found = found.copy()
        if out is None:
            return found
        if not isinstance(out, np.ndarray) or out.shape != self.shape or out.dtype != dtype:
            raise ValueError(f"out must be a NumPy array {self.shape} of {dtype}, not {kind(out)}")
        out[...] = found
        return out

    def __eq__(self, other: Any) -> Any:
        """Compares the elements, as NumPy does. Waits."""
        return self.get() == (other.get() if isinstance(other, DeviceArray) else other)

    def __ne__(self, other: Any) -> Any:
        return self.get() != (other.get() if isinstance(other, DeviceArray) else other)

    __hash__ = object.__hash__  # of the array, not of its elements

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on the device can only be copied to the host")
        found = self.get()
        return found if dtype is None else found.astype(dtype)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return _dlpack.CPU, 0

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        device = self.__dlpack_device__() if dl_device is None else tuple(dl_device)
        if copy is False or device != self.__dlpack_device__():
            raise BufferError("an array on the device can only be copied to the host")
        return _dlpack.save(self.get(), self.dtype)

    def wait(self) -> None:
        """Waits until the contents are complete."""
        if self._event is not None:
            Event(self._event).wait()

    def release(self) -> None:
        """Frees the buffer, now instead of with the last reference to this array. OpenCL keeps it
        while commands use it."""
        self._mem = None

    def as_pyopencl(self) -> Any:
        """The same memory as a pyopencl.array.Array, which waits for the event."""
        import pyopencl.array

        array = pyopencl.array.Array(
            self.queue.as_pyopencl(),
            self.shape,
            self._numpy_type,
            data=_opencl.as_pyopencl(self.mem),
            offset=self.offset,
            strides=self._strides,
        )
        if self._event is not None:
            array.add_event(Event(self._event).as_pyopencl())
        return array

    def __repr__(self) -> str:
        return f"<clsample.DeviceArray {self.shape} of {self.dtype}>"


class HostArray(np.ndarray[Any, Any]):
    """A NumPy array in which a call on the host has left its results, with what a DeviceArray has
    to wait for them: get(), which returns the array itself, and an event, which is None."""

    event = None

    def get(self, out: Optional[np.ndarray[Any, Any]] = None) -> np.ndarray[Any, Any]:
        if out is None:
            return self
        out[...] = self
        return out


Array = Union[DeviceArray, HostArray]


class View(NamedTuple):
    """What a call needs of an array on the device, or of one on the host where that is one."""

    mem: Any
    shape: Tuple[int, ...]
    dtype: str  # NumPy's name, or "bfloat16"
    offset: int
    row_stride: int
    events: List[Any]
    queue: Any  # the cl_command_queue on which the contents were made, or None


def on_device(value: Any) -> bool:
    """Whether it is an array that view() takes: this package's, pyopencl's, or one in SVM."""
    return isinstance(value, DeviceArray) or _opencl.is_pyopencl(value, "Array", "SVM")


COPY = "numpy.ascontiguousarray() makes a copy that is"


def view(context: Context, name: str, value: Any, advice: str = COPY) -> View:
    """A device array, or NumPy's on the host. Its rows must be contiguous. advice: for one that is
    not."""
    if isinstance(value, np.ndarray):
        stride, size = value.shape[-1] if value.ndim else 1, value.size
        if not value.flags.c_contiguous:
            stride = row_stride(name, value.shape, value.strides, value.itemsize, advice)
            size = (value.shape[0] - 1) * stride + value.shape[-1]
        place, kind = value.ctypes.data, _types.BufferKind.HOST
        mem = _opencl.Pointer(place, size * value.itemsize, value, kind)
        return View(mem, value.shape, element_name(value.dtype), 0, stride, [], None)
    context._of_device(name)
    if isinstance(value, DeviceArray):
        mem = _opencl.alive(name, value._mem)
        dtype = value.dtype if isinstance(value.dtype, str) else element_name(value.dtype)
        events = [] if value._event is None else [value._event]
        return View(mem, value.shape, dtype, value.offset, value.row_stride, events, value._queue)
    if not on_device(value):
        raise TypeError(f"{name} must be an array on the device, not {type(value).__name__}")
    tables = context._tables
    if _opencl.is_pyopencl(value, "SVM"):
        array, mem = np.asarray(value.mem), _opencl.memory(name, value, tables)
        stride = row_stride(name, array.shape, array.strides, array.itemsize, advice)
        return View(mem, array.shape, element_name(array.dtype), 0, stride, [], None)
    if value.base_data is None:
        raise ValueError(f"{name} has no buffer; its shape is {value.shape}")
    mem = _opencl.memory(name, value.base_data, tables)
    strides, itemsize = value.strides, value.dtype.itemsize
    events = [
        _opencl.address(f"{name}.events", event, "cl_event", tables) for event in value.events
    ]
    queue = value.queue
    if queue is not None:
        queue = _opencl.address(f"{name}.queue", queue, "cl_command_queue", tables)
    return View(
        mem,
        value.shape,
        element_name(value.dtype),
        value.offset,
        row_stride(name, value.shape, strides, itemsize, advice),
        events,
        queue,
    )


@functools.lru_cache(maxsize=64)
def element_name(dtype: Any) -> str:
    """What NumPy calls the type; ">f4" and the like if it has the other byte order."""
    return str(dtype)


def device_type(dtype: Any) -> Any:
    """The type of an array on the device: NumPy's, or "bfloat16"."""
    if element_name(dtype) == "bfloat16":
        return "bfloat16"
    found = np.dtype(dtype)
    if not found.isnative:
        raise TypeError(f"dtype is {found}; arrays on the device have this machine's byte order")
    return found


def row_stride(
    name: str, shape: Sequence[int], strides: Sequence[int], itemsize: int, advice: str = COPY
) -> int:
    """Elements from row to row. The rows must be contiguous and in order."""
    if len(shape) > 2:
        raise ValueError(f"{name} has the shape {tuple(shape)}; it must have one or two dimensions")
    if 0 not in shape and len(shape) > 0 and shape[-1] > 1 and strides[-1] != itemsize:
        raise ValueError(
            f"{name} is not contiguous: its strides are {tuple(strides)} bytes, for "
            f"elements of {itemsize}; {advice}"
        )
    if len(shape) == 1 or len(shape) == 0 or shape[0] <= 1:
        return shape[-1] if len(shape) else 1
    if strides[0] < shape[-1] * itemsize or strides[0] % itemsize != 0:
        raise ValueError(
            f"{name}'s rows overlap, or do not begin at elements: its strides are "
            f"{tuple(strides)} bytes"
        )
    return strides[0] // itemsize


def wrap(
    context: Context, buffer: Any, shape: Any, dtype: Any, offset: Any, stride: Any
) -> DeviceArray:
    """A part of pyopencl's memory as a DeviceArray; Context.array() documents it."""
    if not _opencl.is_pyopencl(buffer, "MemoryObjectHolder", "SVMPointer"):
        raise TypeError(
            f"buffer must be a pyopencl.Buffer or pyopencl's SVM, not {type(buffer).__name__}"
        )
    found_shape = shape_of("shape", shape)
    found_type = device_type(dtype)
    start = integer("offset", offset, "uint64_t")
    elements = None if stride is None else integer("row_stride", stride, "uint64_t")
    mem = _opencl.kept(_opencl.memory("buffer", buffer, context._tables))
    array = DeviceArray(context, mem, found_shape, found_type, start, elements)
    rows = array.size // found_shape[-1] if array.size else 0
    need = start + (
        ((rows - 1) * array.row_stride + found_shape[-1]) * array.itemsize if rows else 0
    )
    array._theirs = True
    if array.row_stride < (found_shape[-1] if found_shape else 1):
        raise ValueError(f"row_stride is {array.row_stride}; a row has {found_shape[-1]} elements")
    if need > _opencl.buffer_size(mem):
        raise ValueError(
            f"shape {found_shape} at offset {start} needs {need} bytes; the buffer "
            f"has {_opencl.buffer_size(mem)}"
        )
    return array


def shape_of(name: str, value: Any) -> Tuple[int, ...]:
    lengths = value if isinstance(value, (tuple, list)) else (value,)
    found = tuple(integer(name, length, "uint32_t") for length in lengths)
    if not 1 <= len(found) <= 2:
        raise ValueError(f"{name} is {value!r}; it must have one or two dimensions")
    return found


def native(name: str, value: Any) -> Tuple[np.ndarray[Any, Any], str]:
    """An array of numbers of the host, in this machine's byte order, and the name of its type. It
    is not copied if it is NumPy's or can be had by DLPack."""
    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        return _dlpack.load(name, value)
    unmasked(name, value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is no array: {error}") from None
    if array.dtype.kind in "OUSM":
        raise TypeError(f"{name} must be an array of numbers, not {kind(value)}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array, element_name(array.dtype)


def on_host(name: str, value: Any) -> Tuple[np.ndarray[Any, Any], str, int]:
    """The same, with contiguous rows, and the elements from row to row."""
    array, elements = native(name, value)
    return array, elements, row_stride(name, array.shape, array.strides, array.itemsize)
