# SPDX-License-Identifier: MIT
"""Opening a device, or the host."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, NamedTuple, Optional

import numpy as np

from . import _opencl, _record, _types
from ._arrays import Array, DeviceArray, HostArray, device_type, native, shape_of, wrap
from ._cffi import ffi
from ._errors import HOST, BadArgument, UnsupportedDevice
from ._library import Closed, check_process, failure, lib, must, owned, process, text
from ._opencl import Device, Queue, devices
from ._manual import defaults_of, describe, sign
from ._shared import shares_memory
from ._structs import Filler, choices, new, query, switch
from ._types import Choices, ContextOptions, DeviceInfo, DType, Feature, ProgramInfo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._sampler import Sampler
    from ._types import SamplerOptions

_fill = Filler("cls_context_options", "Context()", ContextOptions.__annotations__)


class TestedStage(NamedTuple):
    """A stage of the self-test: how many cases it has, how many failed, and the first failure."""

    name: str
    cases: int
    failed: int
    message: str


class Context(Closed):
    """A device that was checked, and the kernels that were compiled for it; or the host. Threads
    may share it.

    Context()                   the first usable device of this machine
    Context("host")             the host, without OpenCL: the same calls, with the same results
    Context(device=...)         a Device of devices(), a pyopencl.Device, or a part of the name of a
                                device or a platform, such as "pocl"
    Context(cl)                 the caller's pyopencl.Context, whose only device is meant unless
                                `device` or `queue` names one

    On the host a call returns when its work is done. Arrays are NumPy's, as arguments, outputs and
    results (HostArray), and there are no queues and events. Nothing is compiled.

    queue: the pyopencl.CommandQueue of the calls that name none. Without one the package makes a
    queue, in order; with the caller's Context these calls must then have a queue, or logits that
    are a pyopencl.array.Array, which has one.

    record: the path of a file to which the calls on the context's first sampler are written, as a
    text that clsample run replays (Sampler's option `record`); those of the others go to files that
    are numbered: server.run, server-2.run and so on. record_arrays: as the option of Sampler.

    Opening compares the device's arithmetic with the host's, and raises SelfTestFailed if they
    differ. Other exceptions: UnsupportedDevice, BuildFailed (its `log` is the compiler's),
    OpenCLError, OpenCLNotFound, and ValueError or TypeError for arguments. A context may be closed
    before its samplers. What the option `progress` raises, KeyboardInterrupt too, is raised by the
    call that compiles, after the library has compiled. progress(program, done, count) must not call
    the context: RuntimeError. Options:
    """

    __test__ = False

    def __init__(
        self,
        cl: Any = None,
        device: Any = None,
        *,
        queue: Any = None,
        record: Optional[str] = None,
        record_arrays: bool = False,
        **options: Unpack[ContextOptions],
    ) -> None:
        self._host = isinstance(cl, str) and cl == "host"
        self._check_process()
        self._handle: Any = None
        self._keep: List[Any] = []
        self._progress = _Progress()
        self._record = None if record is None else _record.absolute(record)
        self._record_arrays = switch("record_arrays", record_arrays)
        self._recorded = 0
        self._recording = threading.Lock()
        struct = new("cls_context_options")
        self._set_options(struct, dict(options))
        self._foreign = cl is not None
        self._queue: Any = None
        self._found_tables: Any = None
        if device is not None:
            self._of_device("device")
        if queue is not None:
            self._of_device("queue")
        out = ffi.new("cls_context **")
        if self._host:
            status = lib.cls_context_create_host(struct, out)
        else:
            _opencl.let_find(struct)
            self._open(cl, device, queue, struct)
            if queue is not None:
                self._queue = self._find_queue("queue", queue)
            status = lib.cls_context_create(self._cl_handle, self._device, struct, out)
        if status == 0:
            self._handle = self._owned(out[0], lib.cls_context_destroy)
        self._progress.check()
        if status != 0:
            raise failure(status, log=text(struct.build_log))
        self._shares = self._host or shares_memory(self._cl, self._device)

    # After fork() the child may use the host's contexts, and what they own is freed there.

    def _check_process(self) -> None:
        if not self._host:
            check_process()

    @property
    def _lost(self) -> bool:
        return process.forked and not self._host

    def _owned(self, pointer: Any, destroy: Callable[[Any], Any]) -> Any:
        return ffi.gc(pointer, destroy) if self._host else owned(pointer, destroy)

    @contextlib.contextmanager
    def _next_record(self) -> Iterator[Optional[str]]:
        """The path of the text of the next sampler, whose number is taken if it could be made."""
        if self._record is None:
            yield None
            return
        with self._recording:
            yield _record.numbered(self._record, self._recorded + 1)
            self._recorded += 1

    def _of_device(self, name: str) -> None:
        """Refuses on the host what only a device has."""
        if self._host:
            raise TypeError(f"{name} is a device's, and the Context is the host's")

    def _set_options(self, struct: Any, options: Any) -> None:
        binary = options.pop("binary", None)
        progress, sentences = options.pop("progress", None), options.pop("log", None)
        _fill(struct, options, self._keep)
        log = ffi.new("char[]", 65536)
        struct.build_log, struct.build_log_size = log, 65536
        self._keep.append(log)
        if binary is not None:
            if not isinstance(binary, (bytes, bytearray, memoryview)):
                raise TypeError(f"binary must be bytes, not {type(binary).__name__}")
            data = ffi.from_buffer(binary)
            struct.binary, struct.binary_size = data, len(data)
            self._keep.append(data)
        if progress is not None:
            if not callable(progress):
                raise TypeError(f"progress must be a function, not {type(progress).__name__}")
            callback = self._progress.callback(progress)
            struct.progress = callback
            self._keep.append(callback)  # the library calls it as long as it compiles
        if sentences is not None:
            if not callable(sentences):
                raise TypeError(f"log must be a function, not {type(sentences).__name__}")
            callback = self._progress.log(sentences)
            struct.log = callback
            self._keep.append(callback)

    def _open(self, cl: Any, device: Any, queue: Any, struct: Any) -> None:
        """Finds the cl_context and the cl_device_id."""
        if cl is None:
            if queue is not None:
                raise TypeError("queue needs the pyopencl.Context that it belongs to")
            if device is None:
                self._device = first_usable(struct)
            elif isinstance(device, str):
                self._device = first_usable(struct, device)
            else:
                self._device = _device_handle(device)
            self._keep_cl(_opencl.create_context(self._device))
            return
        if not _opencl.is_pyopencl(cl, "Context"):
            named = f"; to name a device, write device={cl!r}" if isinstance(cl, str) else ""
            raise TypeError(
                f"cl must be a pyopencl.Context or 'host', not {type(cl).__name__}{named}"
            )
        self._keep_cl(_opencl.retained(_opencl.address("cl", cl, "cl_context"), "Context"))
        if device is not None:
            self._device = _device_handle(device)
        elif queue is not None:
            on = Queue(self._find_queue("queue", queue)).as_pyopencl()
            self._device = _device_handle(on.device)
        else:
            found = self._cl.devices
            if len(found) != 1:
                raise ValueError(f"cl has {len(found)} devices: name one by device or queue")
            self._device = _device_handle(found[0])

    def _keep_cl(self, cl: Any) -> None:
        self._cl, self._cl_handle = cl, _opencl.held("cl_context", cl)

    def _find_queue(self, name: str, value: Any) -> Any:
        """The cl_command_queue of an argument, retained."""
        self._of_device(name)
        if isinstance(value, Queue):
            return value._handle
        if not _opencl.is_pyopencl(value, "CommandQueue"):
            raise TypeError(f"{name} must be a pyopencl.CommandQueue, not {type(value).__name__}")
        handle = _opencl.address(name, value, "cl_command_queue", self._tables)
        return _opencl.held("cl_command_queue", _opencl.retained(handle, "CommandQueue"))

    @property
    def _tables(self) -> Any:
        """What tells the caller's objects that were released; see _opencl.address()."""
        if self._found_tables is None:
            self._found_tables = _opencl.tables_of(self._cl, self._cl_handle)
        return self._found_tables

    @property
    def handle(self) -> Any:
        """The C library's context, as cffi's object."""
        self._check_process()
        if self._progress.running:
            raise RuntimeError("progress must not call the context, which is compiling")
        if self._handle is None:
            raise ValueError("the context was closed")
        return self._handle

    @property
    def queue(self) -> Queue:
        """The queue of calls that name none."""
        self._of_device("queue")
        if self._queue is None:
            self._queue = _opencl.create_queue(self._cl, self._device)
        return Queue(self._queue)

    def _own_queue(self) -> Any:
        """The cl_command_queue of calls that name none; NULL on the host."""
        return ffi.NULL if self._host else self.queue._handle

    @property
    def info(self) -> DeviceInfo:
        """How kernels are shaped for the device."""
        return query(DeviceInfo, lib.cls_context_info, self.handle)

    @property
    def device(self) -> Device:
        """The device."""
        self._of_device("device")
        return Device(self._device)

    @property
    def build_log(self) -> str:
        """What the compiler said of all programs so far."""
        return text(lib.cls_context_build_log(self.handle))

    def compile(self, features: Choices[Feature] = 0, dtypes: Choices[DType] = 0) -> None:
        """Compiles the programs of features, such as ["shortlist", "logprobs"], and types of
        logits, such as ["f16"], that the context does not have yet. Blocks, for seconds where no
        cache helps. Feature.SHORTLIST and the context's types if nothing is named."""
        status = lib.cls_context_compile(
            self.handle,
            choices("dtypes", dtypes, DType, True),
            choices("features", features, Feature, False),
        )
        self._progress.check()
        must(status)

    def programs(self) -> List[ProgramInfo]:
        """The compiled programs, in the order of the flow."""
        found: List[ProgramInfo] = []
        handle, program = self.handle, lib.cls_context_program
        with contextlib.suppress(BadArgument):  # behind the last one
            while True:
                found.append(query(ProgramInfo, program, handle, len(found)))
        return found

    def export(self) -> bytes:
        """The compiled programs, for Context(..., binary=...) on the same device and driver."""
        size = ffi.new("size_t *")
        must(lib.cls_context_export(self.handle, ffi.NULL, size))
        out = ffi.new("char[]", size[0])
        must(lib.cls_context_export(self.handle, out, size))
        return bytes(ffi.buffer(out, size[0]))

    def selftest(self) -> List[TestedStage]:
        """Compares the device with known answers of every stage. Compiles all programs. Raises
        SelfTestFailed if an answer is wrong; its `stages` are then this list."""
        self._of_device("the self-test")
        report = new("cls_selftest_report")
        found = ffi.new("cls_selftest_stage[]", _types.SELFTEST_STAGES)
        report.stages, report.stage_capacity = found, len(found)
        status = lib.cls_selftest(self.handle, report)
        self._progress.check()
        stages = [
            TestedStage(text(s.name), s.cases, s.failed, text(s.message))
            for s in found[0 : report.stage_count]
        ]
        if status != 0:
            raise failure(status, stages=stages)
        return stages

    def sampler(self, vocab: int, max_rows: int = 1, **options: Unpack[SamplerOptions]) -> Sampler:
        from ._sampler import Sampler

        return Sampler(self, vocab, max_rows, **options)

    def array(
        self,
        buffer: Any,
        shape: Any,
        dtype: Any = np.float32,
        *,
        offset: int = 0,
        row_stride: Optional[int] = None,
    ) -> DeviceArray:
        """A part of a pyopencl.Buffer, or of pyopencl's SVM, as an array, which keeps it alive.

        shape: (rows, elements), or one number. dtype: as NumPy's, or "bfloat16". offset: bytes to
        the first element. row_stride: elements from row to row.
        """
        self._of_device("buffer")
        return wrap(self, buffer, shape, dtype, offset, row_stride)

    def empty(self, shape: Any, dtype: Any = np.float32) -> Array:
        """An array in a buffer of its own, with undefined contents."""
        lengths = shape_of("shape", shape)
        array = DeviceArray(self, None, lengths, device_type(dtype))
        _ = self.handle
        if self._host:
            return np.empty(lengths, array._numpy_type).view(HostArray)
        array._mem = _opencl.create_buffer(self._cl, max(1, array.size * array.itemsize))
        return array

    def to_device(self, values: Any, dtype: Any = None) -> Array:
        """A copy of a NumPy array on the device. dtype: "bfloat16" if the values, uint16, are the
        bits of such numbers."""
        host, elements = native("values", values)
        host = np.ascontiguousarray(host)
        lengths = shape_of("values' shape", host.shape)
        _ = self.handle
        if self._host:
            return np.array(host).view(HostArray)
        mem = _opencl.create_buffer(self._cl, max(1, host.nbytes), host if host.size else None)
        bits: Any = host.dtype
        if "bfloat16" in (dtype, elements):
            bits = "bfloat16"
        return DeviceArray(self, mem, lengths, bits)

    def close(self) -> None:
        """Releases the context; its samplers keep what they need of it."""
        self._handle = None  # the library's is destroyed when no call uses it any more

    def __repr__(self) -> str:
        return f"<clsample.Context on {'the host' if self._host else repr(self.device.name)}>"


_options = defaults_of("cls_context_options", ContextOptions, {})
Context.__doc__ = describe(Context, ContextOptions, _types.CONTEXT_OPTIONS_MANUAL, _options)
sign(Context.__init__, _options)


class _Progress(threading.local):
    """The option `progress`: what its function does during a call of the library, which calls it
    in the thread that needs the programs."""

    running = False  # the function is being called
    raised: Optional[BaseException] = None

    def callback(self, function: Callable[..., None]) -> Any:
        def call(user: Any, program: Any, done: int, count: int) -> None:
            self._call(function, text(program), done, count)

        kind = "void(void *, const char *, uint32_t, uint32_t)"
        return ffi.callback(kind, call, onerror=self._caught)

    def log(self, function: Callable[[str], None]) -> Any:
        """The option `log`, which is called like it."""

        def call(user: Any, sentence: Any) -> None:
            self._call(function, text(sentence))

        return ffi.callback("void(void *, const char *)", call, onerror=self._caught)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        if self.raised is None:
            self.running = True
            function(*arguments)
            self.running = False

    def _caught(self, kind: Any, value: BaseException, trace: Any) -> None:
        self.running, self.raised = False, value

    def check(self) -> None:
        """Raises what the function raised in the call that has just returned."""
        raised, self.raised = self.raised, None
        try:
            if raised is not None:
                raise raised
        finally:
            del raised  # see failure()


def _device_handle(device: Any) -> Any:
    if isinstance(device, Device):
        return device._handle
    if _opencl.is_pyopencl(device, "Device"):
        return _opencl.address("device", device, "cl_device_id")
    raise TypeError(
        f"device must be a Device, a pyopencl.Device or a part of its name, not "
        f"{type(device).__name__}"
    )


def first_usable(struct: Any, name: Optional[str] = None) -> Any:
    """The first device that the library can use; with a name, whose name or platform has it."""
    reasons: List[str] = []
    info = new("cls_device_info")
    for device in devices():
        if name is not None and name.lower() not in (device.name + "\n" + device.platform).lower():
            reasons.append(f"{device.name}, {device.platform}: these names have no {name!r}")
            continue
        status = lib.cls_device_query(device._handle, struct, info)
        if status == 0:
            return device._handle
        if status == _types.Status.BAD_ARGUMENT:
            raise failure(status)
        reasons.append(f"{device.name}: {failure(status)}")
    found = "; ".join(reasons) or "there is none"
    raise UnsupportedDevice(f"no usable OpenCL device: {found}. {HOST}")
