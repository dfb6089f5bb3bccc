# SPDX-License-Identifier: MIT
"""OpenCL through pyopencl: the caller's objects, and this package's own, which calls of the library
have as cffi's handles."""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Deque,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

import numpy as np

from . import _library
from ._cffi import ffi
from ._dlpack import keep_for_ever
from ._errors import HOST, OpenCLError, OpenCLNotFound
from ._library import process
from ._types import BufferKind

if TYPE_CHECKING:
    from ._context import Context

_system = None if sys.platform == "win32" else ffi.dlopen(None)


def pyopencl() -> Any:
    """The module pyopencl."""
    _library.check_process()
    try:
        import pyopencl as module
    except ImportError as error:
        raise OpenCLNotFound(
            "a device needs pyopencl, which pip install 'clsample[opencl]' brings (Debian: "
            f"python3-pyopencl): {error}. {HOST}"
        ) from None
    process.opened = True
    return module


def let_find(options: Any) -> None:
    """Lets the library, which the cls_context_options are for, find the functions of the loader
    that pyopencl is linked with. On Windows the library finds OpenCL.dll by itself."""
    path = pyopencl()._cl.__file__
    if _system is not None:
        options.find_opencl = _system.dlsym
        options.find_opencl_user = _system.dlopen(os.fsencode(path), ffi.RTLD_NOW)


@contextlib.contextmanager
def calling(what: str) -> Iterator[Any]:
    """pyopencl, whose errors are this package's; what: what fails then."""
    module = pyopencl()
    try:
        yield module
    except module.Error as error:
        raise OpenCLError(f"{what} failed with OpenCL's error {error.code}", error.code) from None


def held(ctype: str, value: Any) -> Any:
    """The handle of a pyopencl object that is this package's own, and lives as long as the handle.
    In a forked child it is never released."""

    def end(handle: Any) -> None:
        if process.forked:
            keep_for_ever(value)

    return ffi.gc(ffi.cast(ctype, value.int_ptr), end)


def number(handle: Any) -> int:
    return int(ffi.cast("intptr_t", handle))


def retained(handle: Any, kind: str) -> Any:
    """pyopencl's object of a handle, with a reference of its own. kind: its class."""
    return getattr(pyopencl(), kind).from_int_ptr(number(handle), retain=True)


class Handle:
    """An object of OpenCL."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    @property
    def int_ptr(self) -> int:
        """The cl_device_id, cl_event or cl_command_queue, as a number."""
        return number(self._handle)


class Device(Handle):
    """An OpenCL device. `name` and `platform` are the driver's words."""

    def __init__(self, handle: Any) -> None:
        super().__init__(handle)
        device = retained(handle, "Device")
        self.name: str = device.name.strip()
        self.platform: str = device.platform.name.strip()

    def __repr__(self) -> str:
        return f"<clsample.Device {self.name!r} on {self.platform!r}>"


def devices() -> List[Device]:
    """All OpenCL devices of this machine, in the order of their platforms."""
    cl, found = pyopencl(), []
    with contextlib.suppress(cl.Error):  # there may be no platform
        for platform in cl.get_platforms():
            with contextlib.suppress(cl.Error):  # or one without devices
                found += platform.get_devices()
    return [Device(ffi.cast("cl_device_id", device.int_ptr)) for device in found]


# ------------------------------------------------------------------ pyopencl


def is_pyopencl(value: Any, *names: str) -> bool:
    """Whether it is an object of one of pyopencl's classes, such as "Buffer"."""
    module = sys.modules.get("pyopencl")
    if module is None:
        return False
    arrays = sys.modules.get("pyopencl.array")
    classes = [getattr(arrays if n == "Array" else module, n, ()) for n in names]  # or none: ()
    return isinstance(value, tuple(classes))


def is_memory(value: Any) -> bool:
    """Whether it is pyopencl's memory that has no shape: a buffer, or an allocation of SVM."""
    return is_pyopencl(value, "MemoryObjectHolder", "SVMPointer") and not is_pyopencl(value, "SVM")


def address(name: str, value: Any, ctype: str, tables: Optional[Mapping[str, Any]] = None) -> Any:
    """The handle of a pyopencl object. An object of OpenCL begins with a pointer to the functions
    of its driver (cl_khr_icd). It tells objects that were released from those that are alive, which
    OpenCL itself does not. tables: these pointers, by the kind of object."""
    try:
        handle = ffi.cast(ctype, value.int_ptr)
    except Exception as error:
        raise ValueError(f"{name} was released: {error}") from None
    if not handle:
        raise ValueError(f"{name} was released")
    if tables and ctype in tables and ffi.cast("void **", handle)[0] != tables[ctype]:
        raise ValueError(
            f"{name} was released, or belongs to another OpenCL platform than the context"
        )
    return handle


class Pointer(NamedTuple):
    """Shared virtual memory, or the host's, which stands where other memory has its cl_mem."""

    pointer: int
    size: int  # bytes
    owner: Any  # pyopencl's object, which frees the memory, or NumPy's array
    kind: BufferKind = BufferKind.SVM


def memory(name: str, value: Any, tables: Mapping[str, Any]) -> Any:
    """What pyopencl's memory is to calls: a cl_mem, or a Pointer."""
    if not is_pyopencl(value, "SVMPointer"):
        return address(name, value, "cl_mem", tables)
    if value.size is None:
        raise ValueError(f"{name} is SVM of unknown size; a pyopencl.SVMAllocation has one")
    return alive(name, Pointer(value.svm_ptr, value.size, value))


def alive(name: str, mem: Any) -> Any:
    """A DeviceArray's memory, unless it was released."""
    if mem is None or (isinstance(mem, Pointer) and not mem.owner.svm_ptr):
        raise ValueError(f"{name} was released")
    return mem


def tables_of(context: Any, handle: Any) -> Mapping[str, Any]:
    """What address() compares. A driver may have one table for all kinds of objects, or several: a
    buffer that is made for the comparison tells which."""
    if not sys.platform.startswith("linux"):
        return {}
    one, buffer = ffi.cast("void **", handle)[0], create_buffer(context, 1)
    found = {"cl_mem": ffi.cast("void **", buffer)[0]}
    if found["cl_mem"] == one:
        found |= {"cl_command_queue": one, "cl_event": one}
    return found


# --------------------------------------------------------------- own objects
# `context` is pyopencl's here, and all else a handle.


def kept(mem: Any) -> Any:
    """The same memory, kept by the result."""
    return mem if isinstance(mem, Pointer) else held("cl_mem", as_pyopencl(mem))


def as_pyopencl(mem: Any) -> Any:
    """Memory as pyopencl's object."""
    return mem.owner if isinstance(mem, Pointer) else retained(mem, "Buffer")


def create_context(device: Any) -> Any:
    with calling("clCreateContext") as cl:
        return cl.Context([retained(device, "Device")])


def create_queue(context: Any, device: Any) -> Any:
    with calling("clCreateCommandQueue") as cl:
        return held("cl_command_queue", cl.CommandQueue(context, retained(device, "Device")))


def create_buffer(context: Any, size: int, content: Any = None) -> Any:
    """A buffer; `content`, a NumPy array, is copied to it before the call returns."""
    flags = pyopencl().mem_flags
    if content is None:
        return buffer_of(context, flags.READ_WRITE, size)
    return buffer_of(context, flags.READ_WRITE | flags.COPY_HOST_PTR, size, content)


def buffer_of(context: Any, flags: int, size: int, host: Any = None) -> Any:
    """A buffer with OpenCL's flags. host: what has the host's memory."""
    cl = pyopencl()
    try:
        size = size if host is None else 0  # pyopencl's word for all that the host has
        return held("cl_mem", cl.Buffer(context, flags, size, host))
    except cl.Error as error:
        raise OpenCLError(
            f"a buffer of {size or host.nbytes} bytes cannot be allocated: OpenCL's error "
            f"{error.code}",
            error.code,
        ) from None


def own_event(handle: Any) -> Any:
    """Takes the caller's reference to an event."""
    event = pyopencl().Event.from_int_ptr(number(handle), retain=False)
    return held("cl_event", event)


# What commands in flight use, and OpenCL does not keep: (event, what to keep), until the event is
# complete. The event is None after a failure, which leaves unknown what still runs.
_lent: Deque[Tuple[Any, Any]] = collections.deque()


def lend(event: Any, keep: Any) -> None:
    """Keeps what the commands before an event use."""
    settle()
    _lent.append((event, keep))


def settle() -> None:
    """Forgets what no command uses any more."""
    for _ in range(len(_lent)):
        try:
            one = _lent.popleft()
        except IndexError:
            return  # another thread has them
        if one[0] is None or status_of(one[0]) > 0:
            _lent.append(one)


@atexit.register
def _leave() -> None:
    """Commands may run until the process has ended, and a wait for them might be one for ever."""
    if not process.forked:
        settle()
    keep_for_ever(list(_lent))


def status_of(event: Any) -> int:
    """0 if the event is complete, less after a failure, and more before."""
    return int(retained(event, "Event").command_execution_status)


class Event(Handle):
    """The end of a call's commands on the device."""

    def wait(self) -> None:
        """Waits until the commands are complete."""
        with calling("clWaitForEvents"):
            self.as_pyopencl().wait()
        settle()

    @property
    def done(self) -> bool:
        """Whether the commands are complete. Does not wait."""
        status = status_of(self._handle)
        if status < 0:
            raise OpenCLError(f"the device ended the commands with OpenCL's error {status}", status)
        return status == 0

    def as_pyopencl(self) -> Any:
        """The same event as a pyopencl.Event."""
        return retained(self._handle, "Event")

    def __repr__(self) -> str:
        return f"<clsample.Event {self.int_ptr:#x}>"


def events(name: str, value: Any, context: Context) -> List[Any]:
    """The handles of events: this package's, pyopencl's, or anything that has an `event`, which is
    None if there is nothing to wait for."""
    if value is None:
        return []
    if hasattr(value, "event") or is_pyopencl(value, "Event") or not isinstance(value, Iterable):
        value = [value]
    found = []
    for i, given in enumerate(value):
        one = getattr(given, "event", given)
        if isinstance(one, Event) or is_pyopencl(one, "Event"):
            context._of_device(f"{name}[{i}]")
        if isinstance(one, Event):
            found.append(one._handle)
        elif is_pyopencl(one, "Event"):
            found.append(address(f"{name}[{i}]", one, "cl_event", context._tables))
        elif one is not None or given is None:
            raise TypeError(f"{name}[{i}] must be an event, not {type(one).__name__}")
    return found


class Queue(Handle):
    """A command queue: this package's own, or the caller's."""

    def flush(self) -> None:
        """Sends the commands so far to the device."""
        with calling("clFlush"):
            self.as_pyopencl().flush()

    def finish(self) -> None:
        """Waits until all commands are complete."""
        with calling("clFinish"):
            self.as_pyopencl().finish()

    def as_pyopencl(self) -> Any:
        """The same queue as a pyopencl.CommandQueue."""
        return retained(self._handle, "CommandQueue")


def buffer_size(mem: Any) -> int:
    return int(mem.size if isinstance(mem, Pointer) else as_pyopencl(mem).size)


def read(queue: Any, mem: Any, offset: int, target: np.ndarray[Any, Any], event: Any) -> None:
    """Waits for the event, and copies bytes to a NumPy array."""
    to_wait = [] if event is None else [retained(event, "Event")]
    with calling("reading a buffer") as cl:
        on = retained(queue, "CommandQueue")
        if isinstance(mem, Pointer):
            start = ffi.cast("char *", mem.pointer + offset)
            source = np.frombuffer(ffi.buffer(start, target.nbytes), target.dtype)
            cl.enqueue_copy(on, cl.SVM(target), cl.SVM(source), wait_for=to_wait)
        else:
            source = as_pyopencl(mem)
            cl.enqueue_copy(on, target, source, src_offset=offset, wait_for=to_wait)
    settle()
