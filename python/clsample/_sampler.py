# SPDX-License-Identifier: MIT
"""Samplers, and the calls that enqueue."""

from __future__ import annotations

import collections
import contextlib
import math
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Sequence

import numpy as np

from . import _drafts, _record, _structs, _types
from ._arguments import Call, Writer
from ._arrays import on_device
from ._cffi import ffi
from ._context import Context
from ._manual import defaults_of, describe, sign
from ._grammar import Grammar
from ._library import Closed, failure, lib, must
from ._opencl import events, lend, own_event
from ._request import Request, new_params, seeded
from ._results import Drafts, Logprobs, Result, Step, Verified, finish
from ._structs import Filler, choice, choices, ids, integer, kind, new, own, query, real, switch
from ._types import Feature, Memory, OutputOptions, Params, SamplerOptions, Status, VerifyMethod

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import Choice, Choices, Ids

_OWN = ("late_compile", "record", "record_arrays")
_fill_options = Filler(
    "cls_sampler_options", "Sampler()", set(SamplerOptions.__annotations__) - set(_OWN)
)
_fill_options.names += [*_OWN, "max_rows", "vocab"]  # for messages about unknown names
MAX_HISTORY = 64  # the package's default


class Sampler(Closed):
    """The kernels and the memory that steps use, for a vocabulary of `vocab` tokens.

    vocab       tokens of a row, 1 to 1,048,576
    max_rows    the most rows of a step

    Any thread may call; a lock orders the calls. Calls that enqueue (sample(), verify(), accept(),
    logprobs()) never wait for the device, and run after `wait_for` and after the sampler's earlier
    calls. They take

    queue       a pyopencl.CommandQueue, or a Queue. Default: the queue of the logits if they are a
                pyopencl.array.Array, otherwise the context's.
    wait_for    events to wait for on the device: pyopencl.Events, Events, results. Those of arrays
                that are arguments need not be named.

    Options:
    """

    def __init__(
        self, context: Context, vocab: int, max_rows: int = 1, **options: Unpack[SamplerOptions]
    ) -> None:
        if not isinstance(context, Context):
            raise TypeError(f"context must be a Context, not {type(context).__name__}")
        self._handle: Any = None
        self._quiet = False  # the user cannot name its features
        self._lock = threading.RLock()
        self._interrupted = False  # by a fork() while another thread was in a call
        _samplers.add(self)
        self._dropped: Deque[int] = collections.deque()  # slots of requests without references
        self.context = context
        self.vocab = integer("vocab", vocab, "uint32_t")
        self.max_rows = integer("max_rows", max_rows, "uint32_t")
        struct = new("cls_sampler_options")
        struct.vocab, struct.max_rows = self.vocab, self.max_rows
        struct.max_history = MAX_HISTORY
        given = dict(options)
        # _made() compiles, and warns; the library is not told.
        self._late_compile = switch("late_compile", given.pop("late_compile", True))
        keep: List[Any] = []
        own = given.pop("record", None)
        arrays = switch("record_arrays", given.pop("record_arrays", context._record_arrays))
        _fill_options(struct, given, keep)
        out = ffi.new("cls_sampler **")
        with contextlib.nullcontext(own) if own is not None else context._next_record() as record:
            if record is not None:
                struct.record_arrays = arrays
                _record.start(struct, record, keep)
            status = lib.cls_sampler_create(context.handle, struct, out)
            if status == 0:
                # The library calls what is kept when it ends a record.
                self._handle = context._owned(
                    out[0], lambda sampler, kept=keep: lib.cls_sampler_destroy(sampler)
                )
            self._must(status)
        self.slot_count: int = struct.slot_count or self.max_rows
        self._free = list(range(self.slot_count - 1, -1, -1))
        self._step, self._outputs = new("cls_step"), new("cls_outputs")
        self._step_default = bytes(ffi.buffer(self._step))
        self._outputs_default = bytes(ffi.buffer(self._outputs))
        self._done = ffi.new("cl_event *")

    # ------------------------------------------------------------ lifetime

    @property
    def handle(self) -> Any:
        """The C library's sampler, as cffi's object."""
        if self._handle is None:
            raise ValueError("the sampler was closed")
        return self._handle

    def _locked(self) -> Any:
        """The lock, for `with`: after it, the slots of requests without references are free."""
        self._check_process()
        if self._dropped:
            self._collect()
        return self._lock

    def _check_process(self) -> None:
        self.context._check_process()
        if self._interrupted:
            raise RuntimeError(
                "this process was forked while another thread was in a call of the sampler, whose "
                "memory may be half changed here: make another sampler"
            )

    @property
    def _lost(self) -> bool:
        return self._interrupted or self.context._lost

    def _collect(self) -> None:
        with self._lock:
            while self._dropped and self._handle is not None:
                self._reset(self._dropped.popleft())

    def _reset(self, slot: int) -> None:
        lib.cls_slot_reset(self._handle, slot)
        self._free.append(slot)

    def _made(self, function: Callable[..., int], *arguments: Any) -> int:
        """The status of a call, which is made again if it lacked features that are compiled."""
        status = function(*arguments)
        if status == Status.NOT_COMPILED and self._late_compile:
            missing = lib.cls_sampler_missing(self._handle)
            if missing != 0:
                self._warn(missing)
                self.compile(missing)
                status = function(*arguments)
        return status

    def _warn(self, missing: int) -> None:
        """Tells of a compilation in a call that looks as if it were short. On the host nothing is
        compiled."""
        names = [str(one).lower() for one in Feature if one.value & missing]
        if not self.context._host and not self._quiet:
            warnings.warn(
                f"this call compiles {', '.join(names)}, which may take seconds: name them in "
                f"features of the sampler, or call compile({names}) before",
                stacklevel=5,
            )

    def _must(self, status: int) -> None:
        """Raises what the option `progress` raised in a call that may have compiled, or the
        exception of the call's status."""
        self.context._progress.check()
        must(status)

    def _new(self, params: Optional[Dict[str, Any]], fill: Callable[[Any, int], int]) -> Request:
        """A request in a free slot, which fill(handle, slot) begins."""
        with self._locked():
            handle = self.handle
            if not self._free:
                raise RuntimeError(
                    f"no slot is free, of {self.slot_count}: end() a request, or create the "
                    "sampler with a larger slot_count"
                )
            slot = self._free.pop()
            try:
                self._must(self._made(fill, handle, slot))
            except BaseException:
                self._reset(slot)
                raise
            return Request(self, slot, params)

    def close(self) -> None:
        """Frees the memory on the device; steps in flight keep what they use. Its requests end.
        Waits for a call of another thread, and until the last steps that uploaded parameters, maps
        or masks are complete. So does the last reference to a sampler that was not closed."""
        if self._lost:  # a thread of the parent may have held the lock
            self._handle = None
            return
        with self._lock:
            if self._handle is not None:
                ffi.release(self._handle)
            self._handle = None

    # ------------------------------------------------------------ requests

    def begin(self, prompt: Ids = (), output: Ids = (), **params: Unpack[Params]) -> Request:
        """Begins a request in a free slot.

        prompt, output: token ids. output: tokens that the request has generated before, in another
        slot or process, or before it was preempted. Ids outside the vocabulary are ignored.
        Raises RuntimeError if no slot is free. Parameters, where Ids are a list or an array of
        integers, Biases a dict {id: bias} or pairs, and Sequences a list of Ids:
        """
        keep: List[Any] = []
        owned_params = seeded({"seed": None, **params})
        struct = new_params(owned_params, keep)
        text = new("cls_text")
        text.prompt.ids, text.prompt.count = kept = ids("prompt", prompt)
        text.output.ids, text.output.count = kept_too = ids("output", output)
        keep += [kept, kept_too]  # the text only points to them
        return self._new(
            owned_params, lambda handle, slot: lib.cls_slot_begin(handle, slot, struct, text)
        )

    def load(
        self,
        state: bytes,
        params: Optional[Dict[str, Any]] = None,
        *,
        grammar: Optional[Grammar] = None,
    ) -> Request:
        """A saved request in a free slot. state: what Request.save() returned, or such bytes of
        another program; params: with the latter the parameters, for later updates. The sampler must
        have the vocab, counts, max_history and max_rollback of the one that saved it. grammar: the
        one that the request follows, or an equal one."""
        if not isinstance(state, (bytes, bytearray, memoryview)):
            raise TypeError(f"state must be bytes, not {kind(state)}")
        data = ffi.from_buffer(state)
        saved = getattr(state, "params", None)
        owned_params = own(params if saved is None else saved)
        followed = ffi.NULL
        if grammar is not None:
            if not isinstance(grammar, Grammar):
                raise TypeError(f"grammar must be a clsample.Grammar, not {kind(grammar)}")
            followed = grammar.handle
            if owned_params is not None:
                owned_params["grammar"] = grammar
        return self._new(
            owned_params,
            lambda handle, slot: lib.cls_slot_load(handle, slot, data, len(data), followed),
        )

    def check(self, **params: Unpack[Params]) -> None:
        """Checks parameters as begin() does, without a slot."""
        self.context._check_process()
        keep: List[Any] = []
        must(lib.cls_sampler_check(self.handle, new_params(seeded(params), keep)))

    def compile(self, features: Choices[Feature]) -> None:
        """Compiles features, such as ["mask", "logprobs"], that the sampler does not have yet. May
        be called between two steps. Blocks, for seconds where no cache helps."""
        bits = choices("features", features, Feature, False)
        with self._locked():
            self._must(lib.cls_sampler_compile(self.handle, bits))

    def infill(self, end_ids: Ids, prefix_of: Ids) -> None:
        """Sets the tables of the infill stage.

        end_ids: tokens that end a generation. prefix_of: [vocab], for each token the longest other
        token whose text is a prefix of this token's text; -1: none.
        """
        struct = new("cls_infill")
        ends = ids("end_ids", end_ids)
        prefixes, count = ids("prefix_of", prefix_of)
        if count != self.vocab:
            raise ValueError(f"prefix_of has {count} ids; it must have {self.vocab}")
        struct.end_ids, struct.prefix_of = ends, prefixes
        with self._locked():
            must(lib.cls_sampler_infill(self.handle, struct))

    @property
    def memory(self) -> Memory:
        """The memory that the sampler has, in bytes."""
        with self._locked():
            return query(Memory, lib.cls_sampler_memory, self.handle)

    @property
    def launches(self) -> int:
        """Kernel launches of the last call that enqueued."""
        with self._locked():
            return int(lib.cls_sampler_launches(self.handle))

    # --------------------------------------------------------------- steps

    def _slots(self, call: Call, target: Any, requests: Any, order: str) -> int:
        """Fills the map from rows to slots, and returns the number of rows. order: of the call's
        arguments, which a message says, since they may have been swapped."""
        if on_device(requests) or getattr(requests, "dtype", None) == np.int32:
            try:
                return math.prod(call.ints(target, "requests", requests, None))
            except TypeError as error:
                raise TypeError(f"{error}; the order is {order}") from None
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
                f"array of slots, not {kind(requests)}; the order is {order}"
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
        return self.context._own_queue()

    def _enqueue(self, call: Call, function: Any, queue: Any, wait_for: Any, struct: Any) -> Any:
        """Calls a function that enqueues; returns its event and its queue."""
        found = self._queue(call, queue)
        wait = call.wait
        if isinstance(wait_for, np.ndarray) or wait_for:
            more = events("wait_for", wait_for, self.context)
            wait = wait + more
            call.events += [f"wait_for[{i}]" for i in range(len(more))]
        count = len(wait)
        done, handle = self._done, self.handle
        arguments = handle, found, struct, count, wait if count else ffi.NULL, done
        status = self._made(function, *arguments)
        if status != 0:
            if call.lent and lib.cls_error_opencl() != 0:
                lend(None, call.lent)
            raise failure(status, call.names())
        if self.context._host:
            return None, None
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
        softcap: float = 0.0,
        mask: Any = None,
        mask_map: Any = None,
        bias: Any = None,
        bias_map: Any = None,
        bias_factor: float = 1.0,
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
                    pyopencl.array.Array, a pyopencl.Buffer or SVMAllocation or the pyopencl.SVM of
                    an array, which need `queue` where the context has none, or an array of the
                    host: NumPy's, or by DLPack, as a torch tensor. The types other than float32
                    must be in the sampler's `dtypes`. One row may be [vocab].
        copy        of logits and biases on the host. None: a CPU that shares the host's memory
                    reads them where they are, and they must not change until the step is done;
                    others copy them before the call returns. True: they are always copied. False:
                    ValueError if they must be.
        dtype       the type of the elements of a Buffer or an SVMAllocation (default float32), or
                    "bfloat16" for logits that come as uint16
        softcap     the model's soft-cap: each logit x becomes softcap * tanh(x / softcap) before
                    anything else. 0: none. Needs the feature "softcap".
        requests    the request of each row; None skips a row. Or an int32 array of slots on the
                    device. A request may occur once, except with defer_accept.
        mask        the tokens that rows may draw: bool [rows, vocab], or int32 [rows,
                    ceil(vocab / 32)] of bits, on the host or the device. Tokens beyond a
                    narrower mask are banned. Bits in uint8 are refused: view them as int32.
        bias        float32, float16, or bfloat16 or uint16 for it [rows, vocab]: added to the
                    logits; -inf bans
        bias_factor what `bias` is multiplied by first, of either sign; +inf then counts as NaN. For
                    guidance of scale s, `bias` is the unconditional logits, bias_factor 1 / s - 1,
                    and the temperature is divided by s.
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

        Raises Busy if too many steps are in flight: wait for one, and call again. Outputs:
        """
        context = self.context
        self._check_process()
        call = Call(context, copy)
        result = Step()
        with self._lock:
            if self._dropped:
                self._collect()
            step = self._step
            ffi.memmove(step, self._step_default, len(self._step_default))
            rows = step.rows = self._slots(
                call, step.slots, requests, "sample(logits, requests)"
            )
            count = None if logits_map is not None else rows
            step.logits_rows = call.logits(
                step.logits, "logits", logits, count, self.vocab, dtype
            )
            if softcap != 0.0:
                step.logits.softcap = real("softcap", softcap)
            if mask is not None or mask_map is not None:
                call.mask(step.mask, "mask", mask, rows, self.vocab, mask_map)
            if bias is not None or bias_map is not None or bias_factor != 1.0:
                call.bias(step.bias, bias, rows, self.vocab, bias_map, bias_factor)
            if logits_map is not None:
                call.ints(step.logits_map, "logits_map", logits_map, rows)
            if positions is not None:
                call.ints(step.positions, "positions", positions, rows, "uint32_t")
            if draws is not None:
                call.ints(step.draws, "draws", draws, rows)
            if random_bits is not None:
                call.random_bits(step.random_bits, random_bits, rows)
            if defer_accept:
                step.defer_accept = 1
            if invalid_token != -1:
                step.invalid_token = integer("invalid_token", invalid_token)
            sizes = {"rows": rows, "vocab": self.vocab, "slot_count": self.slot_count}
            writer = Writer(call, sizes)
            result.tokens = writer.add(step.tokens, "tokens", tokens, "int32", ("rows",))
            result.status = writer.add(step.status, "status", status, "int32", ("rows",))
            if outputs:
                ffi.memmove(self._outputs, self._outputs_default, len(self._outputs_default))
                writer.outputs(self._outputs, outputs, result)
                step.outputs = self._outputs
            writer.allocate()
            event, found = self._enqueue(call, lib.cls_sample, queue, wait_for, step)
        return finish(result, writer, event, found)

    def accept(
        self,
        tokens: Any,
        requests: Any,
        *,
        counts: Any = None,
        rollback: Any = None,
        queue: Any = None,
        wait_for: Any = (),
    ) -> Result:
        """Enqueues the acceptance of tokens that were chosen elsewhere, as if they had been drawn.

        tokens: int32 [rows], on the host or the device, or [rows, count], which each request
        accepts one after the other. An id outside the vocabulary, such as -1, has no effect.
        requests: as in sample(), each at most once.
        counts: int32 [rows], how many of its tokens each request accepts. rollback: int32 [rows],
        how many of its latest tokens it takes back before; the sampler's max_rollback limits them.
        A draft model's requests follow a verification by
        accept(found.tokens, requests, counts=found.emitted, rollback=found.drafted).
        """
        call = Call(self.context)
        with self._locked():
            struct = new("cls_accept_call")
            order = "accept(tokens, requests)"
            rows = struct.rows = self._slots(call, struct.slots, requests, order)
            if isinstance(tokens, (list, tuple)) and any(isinstance(t, Request) for t in tokens):
                raise TypeError(f"tokens has requests; the order is {order}")
            shape = call.ints(struct.tokens, "tokens", tokens, None)
            size = math.prod(shape)
            if len(shape) > 1 and (len(shape) > 2 or shape[0] != rows):
                raise ValueError(f"tokens has the shape {shape}; it must be ({rows}, count)")
            if size == 0 or size % rows != 0:
                raise ValueError(f"tokens has {size} elements; it must have {rows}, or a multiple")
            struct.per_row = size // rows
            call.ints(struct.counts, "counts", counts, rows)
            call.ints(struct.rollback, "rollback", rollback, rows)
            event, found = self._enqueue(call, lib.cls_accept, queue, wait_for, struct)
        return finish(Result(), Writer(call, {}), event, found)

    def logprobs(
        self,
        logits: Any,
        *,
        top: Any = None,
        given: Any = None,
        queue: Any = None,
        wait_for: Any = (),
        dtype: Any = None,
        softcap: float = 0.0,
        copy: Optional[bool] = None,
    ) -> Logprobs:
        """Enqueues log-probabilities of rows without requests, of a prompt or a text to be scored.
        Needs the feature "logprobs".

        logits, softcap, copy: as in sample(), 1 to max_rows rows. top: the number of likeliest
        tokens. given: int32 [rows, count], ids whose log-probabilities and ranks are wanted.
        """
        call, result = Call(self.context, copy), Logprobs()
        with self._locked():
            struct = new("cls_logprobs_call")
            rows = struct.rows = call.logits(
                struct.logits, "logits", logits, None, self.vocab, dtype
            )
            struct.logits.softcap = real("softcap", softcap)
            writer = Writer(call, {"rows": rows, "vocab": self.vocab})
            writer.outputs(struct, {"top": top, "given": given}, result)
            writer.allocate()
            event, found = self._enqueue(call, lib.cls_logprobs, queue, wait_for, struct)
        return finish(result, writer, event, found)

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
        draft_tokens: Any = None,
        draft_map: Any = None,
        draft_ids: Any = None,
        by_step: bool = False,
        mask: Any = None,
        mask_map: Any = None,
        bias: Any = None,
        bias_map: Any = None,
        bias_factor: float = 1.0,
        positions: Any = None,
        draws: Any = None,
        disable_bonus: bool = False,
        epsilon: Optional[float] = None,
        delta: Optional[float] = None,
        max_drafts: int = 0,
        counters: Any = None,
        token_status: Any = None,
        queue: Any = None,
        wait_for: Any = (),
        dtype: Any = None,
        softcap: float = 0.0,
        copy: Optional[bool] = None,
        **outputs: Unpack[OutputOptions],
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
        draft_tokens
                    int32 [drafts, width]: draft_probs has the probabilities of these tokens alone,
                    [drafts, width]; all others have 0. -1: none
        draft_map   int32 [draft_vocab]: draft_tokens are ids of a draft model with a vocabulary of
                    its own, and id i is the target's i + draft_map[i] (EAGLE-3's d2t)
        by_step     draft_ids and the distributions are as a loop makes them that drafts one token
                    for each request at a time: [most drafts, requests], and the latter
                    [most drafts * requests, vocab]
        method      a VerifyMethod or its name
        max_drafts  the width of the outputs; 0: the largest number of drafts
        counters    int32 [slot_count, 3], to which drafts, accepted drafts and tokens are added

        token_status
                    int32 [requests, max_drafts + 1]: the status of each emitted token

        The others as in sample(), softcap of `logits` alone; positions and draws have an entry for
        each request, and they and `requests` must be on the host. Outputs are as in sample(), of
        the emitted tokens: they, and the ids of `given`, have [requests, max_drafts + 1] in place
        of [rows]. There is no `probs` and no `final_logits`. Outputs:
        """
        call, result = Call(self.context, copy), Verified()
        with self._locked():
            struct = new("cls_verify_call")
            order = "verify(logits, drafts, requests)"
            count = struct.requests = self._slots(call, struct.slots, requests, order)
            drafts = _drafts.listed("drafts", drafts, order)
            lengths = _drafts.lengths_of(drafts, draft_ids, count, order)
            offsets = np.zeros(count + 1, np.int32)
            np.cumsum(np.asarray(lengths, np.int32) + 1, out=offsets[1:])
            rows, total = int(offsets[-1]), int(offsets[-1]) - count
            struct.row_offsets = offset_array = _structs.pointer(offsets, "int32_t")
            call.keep.append(offset_array)
            call.logits(struct.logits, "logits", logits, rows, self.vocab, dtype)
            struct.logits.softcap = real("softcap", softcap)
            places = max(lengths) * count if by_step else total
            if total and draft_ids is not None:
                call.ints(struct.draft_ids, "draft_ids", draft_ids, places)
                if by_step:
                    struct.ids_stride, struct.ids_request_stride = count, 1
            elif total:
                call.ints(struct.draft_ids, "draft_ids", _drafts.flat("drafts", drafts), total)
            if parents is not None:
                parents = _drafts.listed("parents", parents, order)
                if [len(one) for one in parents] != lengths:
                    raise ValueError(
                        "parents must have as many entries as drafts, request by request"
                    )
                call.ints(struct.parents, "parents", _drafts.flat("parents", parents), total)
            struct.method = choice("method", method, VerifyMethod)
            _drafts.distributions(
                call,
                struct,
                draft_probs,
                draft_logits,
                draft_tokens,
                draft_map,
                places,
                self.vocab,
                dtype,
            )
            if by_step:
                struct.draft_request_stride = struct.draft_stride
                struct.draft_stride *= count
            call.mask(struct.mask, "mask", mask, rows, self.vocab, mask_map)
            call.bias(struct.bias, bias, rows, self.vocab, bias_map, bias_factor)
            call.ints(struct.positions, "positions", positions, count, "uint32_t")
            call.ints(struct.draws, "draws", draws, count)
            struct.disable_bonus = 1 if disable_bonus else 0
            if epsilon is not None:
                struct.epsilon = real("epsilon", epsilon)
            if delta is not None:
                struct.delta = real("delta", delta)
            struct.max_drafts = integer("max_drafts", max_drafts, "uint32_t") or max(lengths)
            width = min(struct.max_drafts, _types.MAX_DRAFTS)  # the library refuses more
            writer = Writer(
                call,
                {
                    "requests": count,
                    "max_drafts": width,
                    "rows": count * (width + 1),  # of offsets
                    "slot_count": self.slot_count,
                    "vocab": self.vocab,
                },
                ("requests", "max_drafts + 1"),
            )
            values = {
                "counters": counters,
                "latest": outputs.pop("latest", None),
                "token_status": token_status,
                "nodes": struct.max_drafts > 0,
            }
            for name, (elements, words) in _types.BUFFERS["cls_verify_call"].items():
                value = values.get(name, True)
                array = writer.add(getattr(struct, name), name, value, elements, words)
                setattr(result, name, array)
            if outputs:
                struct.outputs = reports = new("cls_outputs")
                call.keep.append(reports)
                writer.outputs(reports, outputs, result)
            writer.allocate()
            event, found = self._enqueue(call, lib.cls_verify, queue, wait_for, struct)
        return finish(result, writer, event, found)

    def draft(
        self,
        requests: Any,
        k: int,
        *,
        min_n: int = 2,
        max_n: int = 8,
        fill: int = -1,
        queue: Any = None,
        wait_for: Any = (),
    ) -> Drafts:
        """Enqueues the look-up of drafts in the requests' own text: k tokens that followed when the
        text last ended as it does now, in up to max_n tokens and in at least min_n. What the
        states of a grammar draft comes first. Needs the feature "verify". verify() takes the ids,
        and k in place of each request's list:

            found = sampler.draft(requests, 4)
            sampler.verify(logits, [4] * len(requests), requests, draft_ids=found.draft_ids)

        requests: as in sample(). fill: the id in place of the drafts of a request that has none;
        -1 ends a request's drafts in verify().
        """
        call, result = Call(self.context), Drafts()
        with self._locked():
            struct = new("cls_draft_call")
            struct.requests = self._slots(call, struct.slots, requests, "draft(requests, k)")
            struct.k = integer("k", k, "uint32_t")
            struct.min_n = integer("min_n", min_n, "uint32_t")
            struct.max_n = integer("max_n", max_n, "uint32_t")
            struct.fill = integer("fill", fill, "int32_t")
            width = min(max(1, struct.k), _types.MAX_DRAFTS)  # the library refuses others
            writer = Writer(call, {"requests": struct.requests, "k": width})
            for name, (elements, words) in _types.BUFFERS["cls_draft_call"].items():
                array = writer.add(getattr(struct, name), name, True, elements, words)
                setattr(result, name, array)
            writer.allocate()
            event, found = self._enqueue(call, lib.cls_draft, queue, wait_for, struct)
        return finish(result, writer, event, found)

    def __repr__(self) -> str:
        used = self.slot_count - len(self._free)
        return (
            f"<clsample.Sampler of {self.vocab} tokens, {used} of {self.slot_count} slots in use>"
        )


_options = defaults_of(
    "cls_sampler_options",
    SamplerOptions,
    {"late_compile": True, "max_history": MAX_HISTORY, "record_arrays": False},
)
_params = defaults_of("cls_params", Params, {"seed": None})
_outputs = {**dict.fromkeys(OutputOptions.__annotations__), "logprob_kind": "raw"}
Sampler.__doc__ = describe(Sampler, SamplerOptions, _types.SAMPLER_OPTIONS_MANUAL, _options)
Context.sampler.__doc__ = f"Creates a Sampler.\n\n{Sampler.__doc__}"
Sampler.begin.__doc__ = describe(Sampler.begin, Params, _types.PARAMS_MANUAL, _params)
_token_outputs = {n: v for n, v in _outputs.items() if n not in ("probs", "final_logits")}
_token_manual = [
    (names, text) for names, text in _types.OUTPUTS_MANUAL if set(names) <= set(_token_outputs)
]
Sampler.sample.__doc__ = describe(Sampler.sample, OutputOptions, _types.OUTPUTS_MANUAL, _outputs)
Sampler.verify.__doc__ = describe(Sampler.verify, OutputOptions, _token_manual, _token_outputs)
for _function, _defaults in (
    (Sampler.__init__, _options),
    (Context.sampler, _options),
    (Sampler.begin, _params),
    (Sampler.check, _params),
    (Sampler.sample, _outputs),
    (Sampler.verify, _token_outputs),
):
    sign(_function, _defaults)


_samplers: "weakref.WeakSet[Sampler]" = weakref.WeakSet()


def _after_fork() -> None:
    """A thread that was in a call of a sampler is not in the child: the sampler's lock would stay
    held, and what the call had half changed is neither used nor freed."""
    for sampler in list(_samplers):
        if sampler._lock.acquire(blocking=False):
            sampler._lock.release()
            continue
        sampler._lock = threading.RLock()
        sampler._interrupted = True
        if sampler._handle is not None:
            ffi.gc(sampler._handle, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
