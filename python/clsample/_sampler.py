# SPDX-License-Identifier: MIT
"""Samplers and requests."""

from __future__ import annotations

import collections
import math
import re
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Deque,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
)

import numpy as np

from . import _opencl, _structs, _types
from ._arguments import Call, Writer
from ._arrays import DeviceArray
from ._cffi import ffi
from ._context import Context
from ._errors import Error
from ._library import Unique, check_process, failure, lib, must, owned, process
from ._opencl import Event, events, lend, own_event
from ._structs import Filler, choice, choices, ids, init, integer, kind, own, real, record
from ._types import (
    Feature,
    GivenTokens,
    Memory,
    Outputs,
    Params,
    SamplerOptions,
    TopTokens,
    VerifyMethod,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import Choice, Choices, Ids, OutputOptions

_fill_options = Filler("cls_sampler_options", "Sampler()", SamplerOptions.__annotations__)
_fill_params = Filler("cls_params", "the request", Params.__annotations__)


def new_params(values: Mapping[str, Any], keep: List[Any]) -> Any:
    """A cls_params of keyword arguments."""
    params = ffi.new("cls_params *")
    init("cls_params", params)
    _fill_params(params, values, keep)
    return params


class Result:
    """What a call that enqueues returns at once.

    event: the Event after which all arrays of the result are complete.
    copied: whether logits (or biases, or distributions of drafts) of the host were copied to the
    device. Otherwise it reads the host's arrays themselves, which must not change until `done`.
    """

    event: Event
    copied: bool

    def __init__(self) -> None:
        self._small: List[Any] = []

    def wait(self) -> None:
        """Waits until the call's commands are complete."""
        self.event.wait()

    @property
    def done(self) -> bool:
        """Whether the call's commands are complete. Does not wait."""
        return self.event.done

    def get(self) -> Dict[str, np.ndarray[Any, Any]]:
        """Waits, and brings the new arrays of few bytes a row to the host in one transfer: a dict
        by their names, such as {"tokens": ..., "top.ids": ...}. Each array's own get() brings one.
        """
        if not self._small:
            self.wait()
            return {}
        first: DeviceArray = self._small[0][1]
        size = sum(array.size * 4 for _, array in self._small)
        block = np.empty(size, np.uint8)
        _opencl.read(first.queue._handle, first.mem, 0, block, first._event)
        return {
            name: block[array.offset : array.offset + array.size * 4]
            .view(array.dtype)
            .reshape(array.shape)
            for name, array in self._small
        }


class Step(Outputs, Result):
    """One step: a token for each row. All arrays are on the device.

    tokens      int32 [rows]; invalid_token (-1) where a row has none
    status      int32 [rows], RowStatus bits
    and the outputs that were asked for.
    """

    tokens: DeviceArray
    status: DeviceArray


class Verified(Result):
    """The result of a verification. All arrays are on the device.

    tokens      int32 [requests, max_drafts + 1]: the emitted tokens, then -1
    accepted    int32 [requests]: the number of drafts that were emitted
    emitted     int32 [requests]: the number of tokens in all
    nodes       int32 [requests, max_drafts]: the indices of the emitted drafts, then -1
    status      int32 [requests]: the RowStatus bits of all rows that were read
    """

    tokens: DeviceArray
    accepted: DeviceArray
    emitted: DeviceArray
    nodes: DeviceArray
    status: DeviceArray
    latest: Optional[DeviceArray] = None
    counters: Optional[DeviceArray] = None


class Logprobs(Result):
    """Log-probabilities of rows without requests: `top` and `given`, as Step has them."""

    top: Optional[TopTokens] = None
    given: Optional[GivenTokens] = None


class SavedRequest(bytes):
    """A request's whole state, for another sampler, process or machine. It can be pickled; its
    bytes are those of cls_slot_save(). params: the parameters that the request had."""

    params: Optional[Dict[str, Any]]

    def __new__(cls, state: bytes, params: Optional[Dict[str, Any]] = None) -> SavedRequest:
        self = super().__new__(cls, state)
        self.params = params
        return self

    def __reduce__(self) -> Any:
        return type(self), (bytes(self), self.params)


class Request(Unique):
    """A request: parameters, position and tokens in a slot of a sampler.

    Sampler.begin() makes it. end(), leaving a `with` block, or its last reference frees the slot.
    The calls take effect with the sampler's next step, in their order. Lists, arrays and iterators
    that are given are read, and copied, during the call. A request cannot be copied by copy or
    pickle: fork() makes a copy in another slot, and save() one that can be pickled.
    """

    __slots__ = ("sampler", "_slot", "_params", "__weakref__")
    _instead = "fork() makes a copy in another slot, and save() one that can be pickled"

    def __init__(self, sampler: Sampler, slot: int, params: Optional[Dict[str, Any]]) -> None:
        self.sampler = sampler
        self._slot = slot
        self._params = params  # its own; see own()

    @property
    def slot(self) -> int:
        """The number of the slot, for maps on the device."""
        if self._slot < 0:
            raise ValueError("the request has ended")
        return self._slot

    @property
    def params(self) -> Optional[Dict[str, Any]]:
        """The parameters as keyword arguments. None: it was loaded from bytes without them."""
        found: Optional[Dict[str, Any]] = own(self._params)
        return found

    def update(self, **changes: Unpack[Params]) -> None:
        """Changes parameters; the others stay. The position continues."""
        owned_changes = own(changes)
        with self.sampler._locked():
            if self._params is None:
                raise ValueError(
                    "the parameters of a request that was loaded from plain bytes are "
                    "not known: pass them to load()"
                )
            merged = {**self._params, **owned_changes}
            keep: List[Any] = []
            must(lib.cls_slot_params(self.sampler.handle, self.slot, new_params(merged, keep)))
            self._params = merged

    def append_prompt(self, prompt: Ids) -> None:
        """Adds tokens to the prompt, such as the next chunk of a prefill."""
        tokens, count = ids("prompt", prompt)
        with self.sampler._locked():
            must(lib.cls_slot_append_prompt(self.sampler.handle, self.slot, tokens, count))

    def next_turn(self, prompt: Ids = ()) -> None:
        """Begins the next turn of a conversation: the output so far becomes prompt, and `prompt` is
        added to it."""
        tokens, count = ids("prompt", prompt)
        with self.sampler._locked():
            must(lib.cls_slot_next_turn(self.sampler.handle, self.slot, tokens, count))

    def rollback(self, count: int) -> None:
        """Removes the last `count` output tokens, as if they had never been accepted. The sampler's
        `rollback` limits the number."""
        number = integer("count", count, "uint32_t")
        with self.sampler._locked():
            must(lib.cls_slot_rollback(self.sampler.handle, self.slot, number))

    def force(self, tokens: Ids) -> None:
        """Makes the next rows of the request emit these ids, one each, in place of the tokens that
        they would draw. They replace ids that are still due; an empty list only removes these."""
        pointer, count = ids("tokens", tokens)
        with self.sampler._locked():
            must(lib.cls_slot_force(self.sampler.handle, self.slot, pointer, count))

    def fork(self, **changes: Unpack[Params]) -> Request:
        """A copy in another slot, with other parameters where `changes` names some. Without another
        seed or stream both draw the same numbers."""
        with self.sampler._locked():
            source = self.slot
            slot = self.sampler._take_slot()
            try:
                must(lib.cls_slot_copy(self.sampler.handle, slot, source))
                child = Request(self.sampler, slot, self.params)
            except BaseException:
                self.sampler._free.append(slot)
                raise
            if changes:
                child.update(**changes)
            return child

    def save(self) -> SavedRequest:
        """The request's whole state. Waits for the sampler's steps."""
        size = ffi.new("size_t *")
        with self.sampler._locked():
            handle, slot = self.sampler.handle, self.slot
            queue = self.sampler.context.queue._handle
            must(lib.cls_slot_save(handle, queue, slot, ffi.NULL, size))
            out = ffi.new("char[]", size[0])
            must(lib.cls_slot_save(handle, queue, slot, out, size))
            return SavedRequest(bytes(ffi.buffer(out, size[0])), self.params)

    def end(self) -> None:
        """Frees the slot. A request that has ended stays so."""
        slot, self._slot = self._slot, -1
        if slot >= 0 and not process.forked:
            self.sampler._dropped.append(slot)
            self.sampler._collect()

    def __enter__(self) -> Request:
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def __del__(self) -> None:
        if getattr(self, "_slot", -1) >= 0:
            self.sampler._dropped.append(self._slot)  # the sampler may be in another call now

    def __repr__(self) -> str:
        return f"<clsample.Request in slot {self._slot}>" if self._slot >= 0 else "<ended request>"


class Sampler(Unique):
    """The kernels and the memory that steps use, for a vocabulary of `vocab` tokens.

    vocab       tokens of a row, 1 to 1,048,576
    max_rows    the most rows of a step

    Any thread may call; a lock orders the calls. Calls that enqueue (sample(), verify(), accept(),
    draw(), logprobs()) never wait for the device, and run after `wait_for` and after the sampler's
    earlier calls. They take

    queue       a pyopencl.CommandQueue, or a Queue. Default: the queue of the logits if they are a
                pyopencl.array.Array, otherwise the context's.
    wait_for    events to wait for on the device: pyopencl.Events, Events, results. Those of arrays
                that are arguments need not be named.

    features names what steps need beyond the usual chains: "logprobs", "mask", "verify", ...; a
    step that needs another one raises BadArgument, which names it. Options:

    """

    def __init__(
        self, context: Context, vocab: int, max_rows: int = 1, **options: Unpack[SamplerOptions]
    ) -> None:
        if not isinstance(context, Context):
            raise TypeError(f"context must be a Context, not {type(context).__name__}")
        self._handle: Any = None
        self._lock = threading.RLock()
        self._dropped: Deque[int] = collections.deque()  # slots of requests without references
        self.context = context
        self.vocab = integer("vocab", vocab, "uint32_t")
        self.max_rows = integer("max_rows", max_rows, "uint32_t")
        struct = ffi.new("cls_sampler_options *")
        init("cls_sampler_options", struct)
        struct.vocab, struct.max_rows = self.vocab, self.max_rows
        keep: List[Any] = []
        _fill_options(struct, options, keep)
        out = ffi.new("cls_sampler **")
        status = lib.cls_sampler_create(context.handle, struct, out)
        if status == 0:
            self._handle = owned(out[0], lib.cls_sampler_destroy)
        context._progress.check()
        must(status)
        self.slot_count: int = struct.slot_count or self.max_rows
        self._free = list(range(self.slot_count - 1, -1, -1))
        self._step = ffi.new("cls_step *")
        self._outputs = ffi.new("cls_outputs *")
        init("cls_step", self._step)
        init("cls_outputs", self._outputs)
        self._step_default = bytes(ffi.buffer(self._step))
        self._outputs_default = bytes(ffi.buffer(self._outputs))
        self._done = ffi.new("cl_event *")

    # ------------------------------------------------------------ lifetime

    @property
    def handle(self) -> Any:
        """The cls_sampler, as cffi's object."""
        if self._handle is None:
            raise ValueError("the sampler was closed")
        return self._handle

    def _locked(self) -> Any:
        """The lock, for `with`: after it, the slots of requests without references are free."""
        check_process()
        if self._dropped:
            self._collect()
        return self._lock

    def _collect(self) -> None:
        with self._lock:
            while self._dropped and self._handle is not None:
                self._reset(self._dropped.popleft())

    def _reset(self, slot: int) -> None:
        lib.cls_slot_reset(self._handle, slot)
        self._free.append(slot)

    def _take_slot(self) -> int:
        if not self._free:
            raise RuntimeError(
                f"all {self.slot_count} slots have requests: end one, or create the "
                "sampler with a larger slot_count"
            )
        return self._free.pop()

    def close(self) -> None:
        """Frees the memory on the device; steps in flight keep what they use. Its requests end."""
        if process.forked:  # a thread of the parent may have held the lock
            self._handle = None
            return
        with self._lock:
            if self._handle is not None:
                ffi.release(self._handle)
            self._handle = None

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    # ------------------------------------------------------------ requests

    def begin(self, prompt: Ids = (), output: Ids = (), **params: Unpack[Params]) -> Request:
        """Begins a request in a free slot.

        prompt, output: token ids. output: tokens that the request has generated before, in another
        slot or process, or before it was preempted. Ids outside the vocabulary are ignored.
        Raises RuntimeError if no slot is free. Parameters, all of which have defaults; `chain` may
        also be the list of its stages, such as ["top_k", "temperature"]:

        """
        keep: List[Any] = []
        owned_params = own(params)
        struct = new_params(owned_params, keep)
        prompt_ids, prompt_count = ids("prompt", prompt)
        output_ids, output_count = ids("output", output)
        with self._locked():
            handle, slot = self.handle, self._take_slot()
            status = lib.cls_slot_begin(
                handle, slot, struct, prompt_ids, prompt_count, output_ids, output_count
            )
            if status != 0:
                self._free.append(slot)
                must(status)
        return Request(self, slot, owned_params)

    def load(self, state: bytes, params: Optional[Dict[str, Any]] = None) -> Request:
        """A saved request in a free slot. state: what Request.save() returned, or bytes of
        cls_slot_save(); params: with the latter the parameters, for later updates."""
        if not isinstance(state, (bytes, bytearray, memoryview)):
            raise TypeError(f"state must be bytes, not {kind(state)}")
        data = ffi.from_buffer(state)
        owned_params = own(getattr(state, "params", params))
        with self._locked():
            handle, slot = self.handle, self._take_slot()
            status = lib.cls_slot_load(handle, slot, data, len(data))
            if status != 0:
                self._free.append(slot)
                must(status)
        return Request(self, slot, owned_params)

    def check(self, **params: Unpack[Params]) -> None:
        """Checks parameters as begin() does, without a slot."""
        check_process()
        keep: List[Any] = []
        must(lib.cls_sampler_check(self.handle, new_params(params, keep)))

    def compile(self, features: Choices[Feature]) -> None:
        """Compiles features, such as ["mask", "logprobs"], that the sampler does not have yet. May
        be called between two steps. Blocks, for seconds where no cache helps."""
        bits = choices("features", features, Feature, False)
        with self._locked():
            must(lib.cls_sampler_compile(self.handle, bits))

    def infill(self, end_ids: Ids, prefix_of: Ids) -> None:
        """Sets the tables of the infill stage.

        end_ids: tokens that end a generation. prefix_of: [vocab], for each token the longest other
        token whose text is a prefix of this token's text; -1: none.
        """
        struct = ffi.new("cls_infill *")
        ends = ids("end_ids", end_ids)
        prefixes, count = ids("prefix_of", prefix_of)
        if count != self.vocab:
            raise ValueError(f"prefix_of has {count} ids; it must have {self.vocab}")
        init("cls_infill", struct)
        struct.end_ids, struct.prefix_of = ends, prefixes
        with self._locked():
            must(lib.cls_sampler_infill(self.handle, struct))

    @property
    def memory(self) -> Memory:
        """The memory that the sampler has, in bytes."""
        struct = ffi.new("cls_memory *")
        init("cls_memory", struct)
        with self._locked():
            must(lib.cls_sampler_memory(self.handle, struct))
        found: Memory = record(Memory, struct)
        return found

    @property
    def launches(self) -> int:
        """Kernel launches of the last call that enqueued."""
        with self._locked():
            return int(lib.cls_sampler_launches(self.handle))

    # --------------------------------------------------------------- steps

    def _slots(self, call: Call, target: Any, requests: Any) -> int:
        """Fills the map from rows to slots, and returns the number of rows."""
        if isinstance(requests, DeviceArray) or _opencl.is_pyopencl(requests, "Array"):
            return math.prod(call.ints(target, "requests", requests, None))
        if isinstance(requests, Request):
            requests = (requests,)
        slots = []
        try:
            for request in requests:
                if request is None:
                    slots.append(-1)
                elif request.sampler is self:
                    if request._slot < 0:
                        raise ValueError(f"requests[{len(slots)}] has ended")
                    slots.append(request._slot)
                else:
                    raise ValueError(f"requests[{len(slots)}] belongs to another sampler")
        except (TypeError, AttributeError):
            raise TypeError(
                "requests must be a list of requests (None skips a row), or an int32 "
                f"array of slots on the device, not {kind(requests)}"
            ) from None
        if not slots:
            raise ValueError("requests is empty")
        target.host = array = ffi.new("int32_t[]", slots)
        call.keep.append(array)
        return len(slots)

    def _queue(self, call: Call, queue: Any) -> Any:
        """The queue of a call."""
        if queue is not None:
            return self.context._find_queue("queue", queue)
        if call.queue is not None:
            return call.queue
        if self.context._queue is None and self.context._foreign and call.theirs:
            raise TypeError("queue must be given: the Context was opened without one")
        return self.context.queue._handle

    def _enqueue(self, call: Call, function: Any, queue: Any, wait_for: Any, struct: Any) -> Any:
        """Calls a function that enqueues; returns its event and its queue."""
        found = self._queue(call, queue)
        wait = call.wait
        if wait_for:
            more = events("wait_for", wait_for, self.context._tables)
            wait = wait + more
            call.names += [f"wait_for[{i}]" for i in range(len(more))]
        count = len(wait)
        done = self._done
        status = function(self.handle, found, struct, count, wait if count else ffi.NULL, done)
        if status != 0:
            error = _named(failure(status), call)
            if call.lent and error.opencl != 0:
                lend(None, call.lent)
            raise error
        event = own_event(done[0])
        if call.lent:
            lend(event, call.lent)
        return event, found

    def sample(
        self,
        logits: Any,
        requests: Any,
        *,
        queue: Any = None,
        wait_for: Any = (),
        dtype: Any = None,
        mask: Any = None,
        mask_map: Any = None,
        bias: Any = None,
        bias_map: Any = None,
        logits_map: Any = None,
        positions: Any = None,
        draws: Any = None,
        random_bits: Any = None,
        defer_accept: bool = False,
        invalid_token: int = -1,
        copy: Optional[bool] = None,
        tokens: Any = True,
        status: Any = True,
        **outputs: Unpack[OutputOptions],
    ) -> Step:
        """Enqueues one step, a token for each row, and returns at once.

        logits      [rows, vocab] of float32, float16 or bfloat16: a DeviceArray, a
                    pyopencl.array.Array, a pyopencl.Buffer, which needs `queue` where the context
                    has none, or an array of the host: NumPy's, or by DLPack, as a torch tensor. The
                    types other than float32 must be in the sampler's `dtypes`. One row may be
                    [vocab].
        copy        of logits and biases on the host. None: a CPU that shares the host's memory
                    reads them where they are, and they must not change until the step is done;
                    others copy them before the call returns. True: they are always copied. False:
                    ValueError if they must be.
        dtype       the type of a Buffer's elements (default float32), or "bfloat16" for logits
                    that come as uint16
        requests    the request of each row; None skips a row. Or an int32 array of slots on the
                    device. A request may occur once, except with defer_accept.
        mask        the tokens that rows may draw: bool [rows, vocab], or int32 [rows,
                    ceil(vocab / 32)] of bits, on the host or the device
        bias        float32 or float16 [rows, vocab], added to the logits
        mask_map, bias_map, logits_map
                    int32 [rows]: the row of the mask, the bias or the logits that a row uses;
                    -1: none. Without it row r uses row r.
        positions, draws
                    int32 [rows]: positions in place of the requests' own; numbers of independent
                    draws at a position
        random_bits uint64 [rows], in place of Philox's
        defer_accept
                    True: the requests do not change, and accept() may follow
        invalid_token
                    the token of a row that has none
        tokens, status
                    True: new arrays; False: not wanted; or int32 arrays [rows] to write

        Each output may be True, for a new array, or a device array to write. `top`, `kept` and
        others with a count are that count (top=5), and `given` is an int32 array [rows, count] of
        ids; a dict selects among their arrays: top={"count": 5, "ids": True}.

        Raises Busy if too many steps are in flight: wait for one, and call again.

        Outputs:

        """
        check_process()
        context = self.context
        call = Call(context, copy)
        result = Step()
        with self._lock:
            if self._dropped:
                self._collect()
            step = self._step
            ffi.memmove(step, self._step_default, len(self._step_default))
            rows = step.rows = self._slots(call, step.slots, requests)
            step.logits_rows = call.logits(
                step.logits,
                "logits",
                logits,
                None if logits_map is not None else rows,
                self.vocab,
                dtype,
            )
            if mask is not None or mask_map is not None:
                call.mask(step.mask, "mask", mask, rows, self.vocab, mask_map)
            if bias is not None or bias_map is not None:
                call.bias(step.bias, "bias", bias, rows, self.vocab, bias_map)
            if logits_map is not None:
                call.ints(step.logits_map, "logits_map", logits_map, rows)
            if positions is not None:
                call.ints(step.positions, "positions", positions, rows, "uint32_t")
            if draws is not None:
                call.ints(step.draws, "draws", draws, rows)
            if random_bits is not None:
                _random_bits(call, step.random_bits, random_bits, rows)
            if defer_accept:
                step.defer_accept = 1
            if invalid_token != -1:
                step.invalid_token = integer("invalid_token", invalid_token)
            writer = Writer(
                call, {"rows": rows, "vocab": self.vocab, "slot_count": self.slot_count}
            )
            result.tokens = writer.add(step.tokens, "tokens", tokens, "int32", ("rows",))
            result.status = writer.add(step.status, "status", status, "int32", ("rows",))
            if outputs:
                ffi.memmove(self._outputs, self._outputs_default, len(self._outputs_default))
                writer.outputs(self._outputs, outputs, result)
                step.outputs = self._outputs
            writer.allocate()
            event, found = self._enqueue(call, lib.cls_sample, queue, wait_for, step)
        return _finish(result, writer, event, found)

    def accept(
        self, tokens: Any, requests: Any, *, queue: Any = None, wait_for: Any = ()
    ) -> Result:
        """Enqueues the acceptance of tokens that were chosen elsewhere, as if they had been drawn.

        tokens: int32 [rows], on the host or the device, or [rows, count], which each request
        accepts one after the other. An id outside the vocabulary, such as -1, has no effect.
        requests: as in sample(), each at most once.
        """
        call = Call(self.context)
        with self._locked():
            struct = ffi.new("cls_accept_call *")
            init("cls_accept_call", struct)
            rows = struct.rows = self._slots(call, struct.slots, requests)
            shape = call.ints(struct.tokens, "tokens", tokens, None)
            size = math.prod(shape)
            if len(shape) > 1 and (len(shape) > 2 or shape[0] != rows):
                raise ValueError(f"tokens has the shape {shape}; it must be ({rows}, count)")
            if size == 0 or size % rows != 0:
                raise ValueError(f"tokens has {size} elements; it must have {rows}, or a multiple")
            struct.per_row = size // rows
            event, _ = self._enqueue(call, lib.cls_accept, queue, wait_for, struct)
        result = Result()
        result.event, result.copied = Event(event), call.copied
        return result

    def logprobs(
        self,
        logits: Any,
        *,
        top: Any = None,
        given: Any = None,
        queue: Any = None,
        wait_for: Any = (),
        dtype: Any = None,
        copy: Optional[bool] = None,
    ) -> Logprobs:
        """Enqueues log-probabilities of rows without requests, of a prompt or a text to be scored.
        Needs the feature "logprobs".

        logits, copy: as in sample(), 1 to max_rows rows. top: the number of likeliest tokens.
        given: int32 [rows, count], ids whose log-probabilities and ranks are wanted.
        """
        call, result = Call(self.context, copy), Logprobs()
        with self._locked():
            struct = ffi.new("cls_logprobs_call *")
            init("cls_logprobs_call", struct)
            rows = struct.rows = call.logits(
                struct.logits, "logits", logits, None, self.vocab, dtype
            )
            writer = Writer(call, {"rows": rows, "vocab": self.vocab})
            writer.outputs(struct, {"top": top, "given": given}, result)
            writer.allocate()
            event, found = self._enqueue(call, lib.cls_logprobs, queue, wait_for, struct)
        return _finish(result, writer, event, found)

    def verify(
        self,
        logits: Any,
        drafts: Sequence[Any],
        requests: Any,
        *,
        method: Choice[VerifyMethod] = VerifyMethod.MATCH,
        parents: Optional[Sequence[Any]] = None,
        draft_probs: Any = None,
        draft_logits: Any = None,
        draft_ids: Any = None,
        mask: Any = None,
        mask_map: Any = None,
        bias: Any = None,
        bias_map: Any = None,
        positions: Any = None,
        draws: Any = None,
        disable_bonus: bool = False,
        epsilon: Optional[float] = None,
        delta: Optional[float] = None,
        max_drafts: int = 0,
        counters: Any = None,
        latest: Any = None,
        queue: Any = None,
        wait_for: Any = (),
        dtype: Any = None,
        copy: Optional[bool] = None,
    ) -> Verified:
        """Enqueues the verification of drafts. Needs the feature "verify".

        logits      [rows, vocab]: for each request the row after its text so far, and one after
                    each of its drafts, so len(draft) + 1 rows, request by request
        drafts      for each request a list of draft token ids. -1 ends a request's drafts.
        draft_ids   int32 [drafts] on the device, in place of the ids in `drafts`, whose lists then
                    only say how many drafts a request has; or those numbers themselves
        parents     trees: for each request a list; for each draft the index of the draft that it
                    follows, -1 for the text. With the method "match".
        draft_probs, draft_logits
                    [drafts, vocab]: the drafts' own distributions, for "standard" and "block":
                    float32 probabilities, or logits of the type of `logits`
        method      a VerifyMethod or its name
        max_drafts  the width of the outputs; 0: the largest number of drafts
        counters    int32 [slot_count, 3], to which drafts, accepted drafts and tokens are added

        The others as in sample(); positions and draws have an entry for each request, and they and
        `requests` must be on the host.
        """
        call, result = Call(self.context, copy), Verified()
        with self._locked():
            struct = ffi.new("cls_verify_call *")
            init("cls_verify_call", struct)
            count = struct.requests = self._slots(call, struct.slots, requests)
            drafts = _listed("drafts", drafts)
            lengths = _draft_lengths(drafts, draft_ids, count)
            offsets = np.zeros(count + 1, np.int32)
            np.cumsum(np.asarray(lengths, np.int32) + 1, out=offsets[1:])
            rows, total = int(offsets[-1]), int(offsets[-1]) - count
            struct.row_offsets = offset_array = _structs.pointer(offsets, "int32_t")
            call.keep.append(offset_array)
            call.logits(struct.logits, "logits", logits, rows, self.vocab, dtype)
            if total:
                flat = draft_ids if draft_ids is not None else _flat("drafts", drafts)
                call.ints(struct.draft_ids, "draft_ids", flat, total)
            if parents is not None:
                parents = _listed("parents", parents)
                if [len(one) for one in parents] != lengths:
                    raise ValueError(
                        "parents must have as many entries as drafts, request by " "request"
                    )
                call.ints(struct.parents, "parents", _flat("parents", parents), total)
            struct.method = choice("method", method, VerifyMethod)
            _draft_distributions(call, struct, draft_probs, draft_logits, total, self.vocab, dtype)
            call.mask(struct.mask, "mask", mask, rows, self.vocab, mask_map)
            call.bias(struct.bias, "bias", bias, rows, self.vocab, bias_map)
            call.ints(struct.positions, "positions", positions, count, "uint32_t")
            call.ints(struct.draws, "draws", draws, count)
            struct.disable_bonus = 1 if disable_bonus else 0
            if epsilon is not None:
                struct.epsilon = real("epsilon", epsilon)
            if delta is not None:
                struct.delta = real("delta", delta)
            struct.max_drafts = integer("max_drafts", max_drafts, "uint32_t") or max(lengths)
            writer = Writer(
                call,
                {"requests": count, "max_drafts": struct.max_drafts, "slot_count": self.slot_count},
            )
            for name, (elements, words) in _types.BUFFERS["cls_verify_call"].items():
                if name in ("counters", "latest"):
                    value = counters if name == "counters" else latest
                else:
                    value = name != "nodes" or struct.max_drafts > 0
                array = writer.add(getattr(struct, name), name, value, elements, words)
                setattr(result, name, array)
            writer.allocate()
            event, found = self._enqueue(call, lib.cls_verify, queue, wait_for, struct)
        return _finish(result, writer, event, found)

    def __repr__(self) -> str:
        used = self.slot_count - len(self._free)
        return (
            f"<clsample.Sampler of {self.vocab} tokens, {used} of {self.slot_count} slots in use>"
        )


Sampler.__doc__ = (Sampler.__doc__ or "") + _types.SAMPLER_OPTIONS_MANUAL
Sampler.begin.__doc__ = (Sampler.begin.__doc__ or "") + _types.PARAMS_MANUAL
Sampler.sample.__doc__ = (Sampler.sample.__doc__ or "") + _types.OUTPUTS_MANUAL


R = TypeVar("R", bound="Result")


def _finish(result: R, writer: Writer, event: Any, queue: Any) -> R:
    writer.enqueued(event, queue)
    result.event = Event(event)
    result.copied = writer.call.copied
    result._small = writer.small
    return result


def _named(error: Error, call: Call) -> Error:
    """An error about wait[i] names the argument that the event is of."""
    found = re.match(r"wait\[(\d+)\]", str(error))
    if found and int(found[1]) < len(call.names):
        name = call.names[int(found[1])]
        return type(error)(name + str(error)[found.end() :], error.opencl)
    return error


def _random_bits(call: Call, target: Any, value: Any, rows: int) -> None:
    if isinstance(value, DeviceArray) or _opencl.is_pyopencl(value, "Array"):
        found = call.view("random_bits", value)
        if found.dtype != "uint64":
            raise TypeError(f"random_bits has elements of {found.dtype}; they must be uint64")
    else:
        found = call.upload(_structs.numpy("random_bits", value, "uint64_t"))
    if found.shape != (rows,):
        raise ValueError(f"random_bits has the shape {found.shape}; it must be ({rows},)")
    call.buffer(target, found)


def _listed(name: str, lists: Any) -> List[Any]:
    """The lists, which are read twice, so that an iterator would be used up."""
    try:
        return list(lists)
    except TypeError:
        raise TypeError(f"{name} must be a list of lists of ids, not {kind(lists)}") from None


def _flat(name: str, lists: Iterable[Any]) -> np.ndarray[Any, Any]:
    found = [_structs.numpy(f"{name}[{i}]", one) for i, one in enumerate(lists)]
    return np.concatenate(found) if found else np.zeros(0, np.int32)


def _draft_lengths(drafts: Any, draft_ids: Any, count: int) -> List[int]:
    try:
        lengths = [
            (
                integer(f"drafts[{i}]", one, "uint32_t")
                if draft_ids is not None and not hasattr(one, "__len__")
                else len(one)
            )
            for i, one in enumerate(drafts)
        ]
    except TypeError:
        raise TypeError(f"drafts must be a list of lists of ids, not {kind(drafts)}") from None
    if len(lengths) != count:
        raise ValueError(f"drafts has {len(lengths)} lists for {count} requests")
    return lengths


def _draft_distributions(
    call: Call, struct: Any, probs: Any, logits: Any, total: int, vocab: int, dtype: Any
) -> None:
    if probs is not None and logits is not None:
        raise TypeError("draft_probs and draft_logits are both given; only one may be")
    if (probs is None and logits is None) or total == 0:
        return
    name, value = ("draft_probs", probs) if probs is not None else ("draft_logits", logits)
    found, elements = call.floats(name, value, total, vocab, dtype if probs is None else None)
    wanted = "float32" if probs is not None else list(_structs.DTYPES)[struct.logits.dtype]
    if elements != wanted:
        raise TypeError(f"{name} has elements of {elements}; they must be {wanted}")
    kinds = _types.DraftKind
    struct.draft_kind = kinds.PROBS if probs is not None else kinds.LOGITS
    struct.draft_stride = found.row_stride
    call.buffer(struct.draft, found)
