# SPDX-License-Identifier: MIT
"""OpenCL through its loader: the caller's objects, which are pyopencl's, and this package's own."""

from __future__ import annotations

import atexit
import collections
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Deque, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from . import _library
from ._cffi import ffi
from ._dlpack import keep_for_ever
from ._errors import HOST, OpenCLError, OpenCLNotFound
from ._library import owned, process
from ._types import BufferKind

if TYPE_CHECKING:
    from ._context import Context

PLATFORM_NAME = 0x0902
DEVICE_TYPE_ALL = 0xFFFFFFFF
DEVICE_NAME, DEVICE_PLATFORM = 0x102B, 0x1031
CONTEXT_DEVICES = 0x1081
QUEUE_CONTEXT, QUEUE_DEVICE = 0x1090, 0x1091
MEM_SIZE, MEM_CONTEXT = 0x1102, 0x1106
EVENT_STATUS, COMPLETE = 0x11D3, 0
READ_WRITE, READ_ONLY, USE_HOST_PTR, COPY_HOST_PTR = 1 << 0, 1 << 2, 1 << 3, 1 << 5

_lock = threading.Lock()
_loader: Any = None
_system = None if sys.platform == "win32" else ffi.dlopen(None)
_find: Tuple[Any, Any] = (ffi.NULL, ffi.NULL)  # options.find_opencl, and what it is called with


def _paths() -> List[str]:
    """Where a loader may be. pyopencl's wheels contain a loader: its module leads to it. Objects of
    several loaders can be mixed, but one is enough."""
    paths = ["libOpenCL.so.1", "libOpenCL.so"]
    if sys.platform == "darwin":
        paths = ["/System/Library/Frameworks/OpenCL.framework/OpenCL"]
    if sys.platform == "win32":
        paths = ["OpenCL.dll"]
    if "pyopencl" in sys.modules:
        paths.insert(0, "pyopencl")
    else:
        paths.append("pyopencl")
    return paths


def loader() -> Any:
    """The functions of OpenCL's loader."""
    global _loader
    _library.check_process()
    if _loader is None:
        with _lock:
            if _loader is None:
                _loader = _open()
    return _loader


def let_find(options: Any) -> None:
    """Opens the loader for the library, too, which the cls_context_options are for."""
    loader()
    options.find_opencl, options.find_opencl_user = _find


def _open_library(path: str) -> Any:
    """On Windows the library finds OpenCL.dll by itself."""
    global _find
    found = ffi.dlopen(path)
    if _system is not None:
        _find = (_system.dlsym, _system.dlopen(os.fsencode(path), ffi.RTLD_NOW))
    return found


def _open() -> Any:
    tried = []
    for path in _paths():
        try:
            if path == "pyopencl":
                import pyopencl

                path = pyopencl._cl.__file__
            found = _open_library(path)
        except (ImportError, OSError) as error:
            tried.append(str(error))
            continue
        if _library.function(found, "clGetPlatformIDs") is None:
            tried.append(f"{path} is no loader")
            continue
        process.opened = True
        return found
    raise OpenCLNotFound(
        "OpenCL's loader was not found. Install it (Debian: ocl-icd-libopencl1) "
        f"or pyopencl. Tried: {'; '.join(tried)}. {HOST}"
    )


def check(code: int, call: str) -> None:
    if code != 0:
        raise OpenCLError(f"{call} failed with OpenCL's error {code}", code)


def _info(function: str, handle: Any, what: int, ctype: str) -> Any:
    """A property of an OpenCL object, of a type of fixed size."""
    value = ffi.new(ctype + " *")
    check(getattr(loader(), function)(handle, what, ffi.sizeof(ctype), value, ffi.NULL), function)
    return value[0]


def _name(function: str, handle: Any, what: int) -> str:
    size = ffi.new("size_t *")
    check(getattr(loader(), function)(handle, what, 0, ffi.NULL, size), function)
    name = ffi.new("char[]", size[0] + 1)
    check(getattr(loader(), function)(handle, what, size[0], name, ffi.NULL), function)
    return _library.text(name).strip()


class Handle:
    """An object of OpenCL."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    @property
    def int_ptr(self) -> int:
        """The cl_device_id, cl_event or cl_command_queue, as a number."""
        return int(ffi.cast("intptr_t", self._handle))


class Device(Handle):
    """An OpenCL device. `name` and `platform` are the driver's words."""

    def __init__(self, handle: Any) -> None:
        super().__init__(handle)
        self.name = _name("clGetDeviceInfo", handle, DEVICE_NAME)
        platform = _info("clGetDeviceInfo", handle, DEVICE_PLATFORM, "cl_platform_id")
        self.platform = _name("clGetPlatformInfo", platform, PLATFORM_NAME)

    def __repr__(self) -> str:
        return f"<clsample.Device {self.name!r} on {self.platform!r}>"


def devices() -> List[Device]:
    """All OpenCL devices of this machine, in the order of their platforms."""
    cl = loader()
    count = ffi.new("cl_uint *")
    if cl.clGetPlatformIDs(0, ffi.NULL, count) != 0 or count[0] == 0:
        return []
    platforms = ffi.new("cl_platform_id[]", count[0])
    check(cl.clGetPlatformIDs(count[0], platforms, ffi.NULL), "clGetPlatformIDs")
    found = []
    for platform in platforms:
        if cl.clGetDeviceIDs(platform, DEVICE_TYPE_ALL, 0, ffi.NULL, count) != 0 or count[0] == 0:
            continue  # a platform may have no device
        ids = ffi.new("cl_device_id[]", count[0])
        check(
            cl.clGetDeviceIDs(platform, DEVICE_TYPE_ALL, count[0], ids, ffi.NULL), "clGetDeviceIDs"
        )
        found += [Device(handle) for handle in ids]
    return found


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


def tables_of(context: Any) -> Mapping[str, Any]:
    """What address() compares. A driver may have one table for all kinds of objects, or several: a
    buffer that is made for the comparison tells which."""
    if not sys.platform.startswith("linux"):
        return {}
    one, buffer = ffi.cast("void **", context)[0], create_buffer(context, 1)
    found = {"cl_mem": ffi.cast("void **", buffer)[0]}
    if found["cl_mem"] == one:
        found |= {"cl_command_queue": one, "cl_event": one}
    return found


# --------------------------------------------------------------- own objects


def kept(mem: Any) -> Any:
    """The same memory, kept by the result."""
    return mem if isinstance(mem, Pointer) else retained(mem, "MemObject")


def as_pyopencl(mem: Any) -> Any:
    """Memory as pyopencl's object."""
    import pyopencl

    if isinstance(mem, Pointer):
        return mem.owner
    loader().clRetainMemObject(mem)
    return pyopencl.Buffer.from_int_ptr(int(ffi.cast("intptr_t", mem)), retain=False)


def retained(handle: Any, kind: str) -> Any:
    """A further reference to an OpenCL object. kind: Context, CommandQueue, MemObject or Event."""
    cl = loader()
    check(getattr(cl, f"clRetain{kind}")(handle), f"clRetain{kind}")
    return owned(handle, getattr(cl, f"clRelease{kind}"))


def create_context(device: Any) -> Any:
    cl, code = loader(), ffi.new("cl_int *")
    handle = cl.clCreateContext(
        ffi.NULL, 1, ffi.new("cl_device_id[1]", [device]), ffi.NULL, ffi.NULL, code
    )
    check(code[0], "clCreateContext")
    return owned(handle, cl.clReleaseContext)


def create_queue(context: Any, device: Any) -> Any:
    cl, code = loader(), ffi.new("cl_int *")
    handle = cl.clCreateCommandQueue(context, device, 0, code)
    check(code[0], "clCreateCommandQueue")
    return owned(handle, cl.clReleaseCommandQueue)


_code = threading.local()


def create_buffer(context: Any, size: int, content: Any = None) -> Any:
    """A buffer; `content`, a NumPy array, is copied to it before the call returns."""
    if content is None:
        return buffer_of(context, READ_WRITE, size, ffi.NULL)
    return buffer_of(context, READ_WRITE | COPY_HOST_PTR, size, ffi.from_buffer(content))


def buffer_of(context: Any, flags: int, size: int, host: Any) -> Any:
    """A buffer with OpenCL's flags, of a pointer to the host's memory or ffi.NULL."""
    code = getattr(_code, "code", None)
    if code is None:
        code = _code.code = ffi.new("cl_int *")
    handle = _loader.clCreateBuffer(context, flags, size, host, code)
    if code[0] != 0:
        raise OpenCLError(
            f"a buffer of {size} bytes cannot be allocated: OpenCL's error " f"{code[0]}", code[0]
        )
    return ffi.gc(handle, _release_buffer)


def _release_buffer(handle: Any) -> None:
    if not process.forked:
        _loader.clReleaseMemObject(handle)


def own_event(handle: Any) -> Any:
    """Takes the caller's reference to an event."""
    return ffi.gc(handle, _release_event)


def _release_event(handle: Any) -> None:
    if not process.forked:
        _loader.clReleaseEvent(handle)


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
        if one[0] is None or _info("clGetEventInfo", one[0], EVENT_STATUS, "cl_int") > COMPLETE:
            _lent.append(one)


@atexit.register
def _leave() -> None:
    """Commands may run until the process has ended, and a wait for them might be one for ever."""
    if not process.forked:
        settle()
    keep_for_ever(list(_lent))


class Event(Handle):
    """The end of a call's commands on the device."""

    def wait(self) -> None:
        """Waits until the commands are complete."""
        check(
            loader().clWaitForEvents(1, ffi.new("cl_event[1]", [self._handle])), "clWaitForEvents"
        )
        settle()

    @property
    def done(self) -> bool:
        """Whether the commands are complete. Does not wait."""
        status: int = _info("clGetEventInfo", self._handle, EVENT_STATUS, "cl_int")
        if status < 0:
            raise OpenCLError(f"the device ended the commands with OpenCL's error {status}", status)
        return status == COMPLETE

    def as_pyopencl(self) -> Any:
        """The same event as a pyopencl.Event."""
        import pyopencl

        loader().clRetainEvent(self._handle)
        return pyopencl.Event.from_int_ptr(self.int_ptr, retain=False)

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
        check(loader().clFlush(self._handle), "clFlush")

    def finish(self) -> None:
        """Waits until all commands are complete."""
        check(loader().clFinish(self._handle), "clFinish")

    def as_pyopencl(self) -> Any:
        """The same queue as a pyopencl.CommandQueue."""
        import pyopencl

        loader().clRetainCommandQueue(self._handle)
        return pyopencl.CommandQueue.from_int_ptr(self.int_ptr, retain=False)


def context_devices(context: Any) -> Tuple[Any, ...]:
    """The devices of a cl_context."""
    cl, size = loader(), ffi.new("size_t *")
    check(cl.clGetContextInfo(context, CONTEXT_DEVICES, 0, ffi.NULL, size), "clGetContextInfo")
    ids = ffi.new("cl_device_id[]", size[0] // ffi.sizeof("cl_device_id"))
    check(cl.clGetContextInfo(context, CONTEXT_DEVICES, size[0], ids, ffi.NULL), "clGetContextInfo")
    return tuple(ids)


def queue_device(queue: Any) -> Any:
    return _info("clGetCommandQueueInfo", queue, QUEUE_DEVICE, "cl_device_id")


def buffer_size(mem: Any) -> int:
    if isinstance(mem, Pointer):
        return mem.size
    return int(_info("clGetMemObjectInfo", mem, MEM_SIZE, "size_t"))


def read(queue: Any, mem: Any, offset: int, target: Any, event: Optional[Any]) -> None:
    """Waits for the event, and copies bytes to a NumPy array."""
    cl, to, size = loader(), ffi.from_buffer(target), target.nbytes
    wait = (0, ffi.NULL) if event is None else (1, ffi.new("cl_event[1]", [event]))
    if isinstance(mem, Pointer):
        source = ffi.cast("void *", mem.pointer + offset)
        code = cl.clEnqueueSVMMemcpy(queue, 1, to, source, size, *wait, ffi.NULL)
    else:
        code = cl.clEnqueueReadBuffer(queue, mem, 1, offset, size, to, *wait, ffi.NULL)
    check(code, "reading a buffer")
    settle()
