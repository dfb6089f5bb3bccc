# SPDX-License-Identifier: MIT
"""Rows and lists without requests: one call for rows, which keeps what it opened for the next one,
and two for what steps write of their sets."""

from __future__ import annotations

import atexit
import collections
import os
import secrets
import sys
import threading
import warnings
from typing import (
    Any,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    OrderedDict,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from . import _opencl, _structs
from ._arguments import named_type
from ._arrays import DeviceArray, native
from ._cffi import ffi
from ._context import Context
from ._errors import BadArgument, Busy, OpenCLNotFound, UnsupportedDevice
from ._library import lib, must
from ._request import Request
from ._results import Step
from ._sampler import Sampler
from ._structs import RANGES, Filler, choice, ids, integer, logit_type, new, real
from ._types import BY_PHASE, Ids, Params, RowStatus, WatermarkRule

# The truncations that need neither a history of tokens nor tables.
NUMBERS = [
    name
    for name in BY_PHASE
    if name not in ("infill", "stages") and not name.endswith("_penalty")
]
_fill = Filler("cls_params", "sample()", [*NUMBERS, "stages", "seed", "stream"])
_fill.names = [*NUMBERS, "seed", "position", "device", "dtype", "return_status", "return_seed"]
_fill_draw = Filler("cls_host_candidates", "draw()", "seed stream position draw vocab".split())
CONTEXTS, SAMPLERS = 4, 8  # the most that are kept while no call uses them

_lock = threading.Lock()
_contexts: OrderedDict[Any, Context] = collections.OrderedDict()  # the latest last
_idle: List[_Rows] = []


def sample(
    logits: Any,
    *,
    temperature: Any = 1.0,
    top_k: Any = 0,
    top_p: Any = 1.0,
    min_p: Any = 0.0,
    seed: Any = None,
    position: Any = 0,
    device: Any = None,
    dtype: Any = None,
    return_status: bool = False,
    return_seed: bool = False,
    **truncations: Any,
) -> Any:
    """Draws a token for each row of logits, without a request or a sampler.

    logits      [rows, vocab], or [vocab] for one row, of float32, float16 or bfloat16: an array of
                NumPy, torch (on the CPU), pyopencl or this package
    temperature, top_k, top_p, min_p
                as the parameters of a request: a number, or one for each row. Also the other
                truncations but infill, such as typical_p, xtc_probability and dynatemp_range;
                min_keep; and chain, for all rows. There are no penalties: they need the history of
                a request.
    seed        None: drawn from the system at each call. A number: row r draws from stream r of
                this seed, so that a token depends on its place in the batch. An array [rows]: row r
                draws from stream 0 of its own seed, in any batch.
    position    the number of the row's draw, or one for each row: give another at each step
    device      of an array of the host: as Context's, or "host". Default: the first usable one; or
                else the host, which a warning says when the host is opened
    dtype       "bfloat16" if the logits are its bits, uint16

    Returns the tokens, int32 [rows], or [] for one row, in the kind of array that the logits are.
    return_status=True adds their statuses, RowStatus bits, in the same kind, and a row without a
    token is -1; otherwise such a row raises ValueError. return_seed=True adds the seed.

    The call waits for the tokens, except where logits on a device and return_status=True leave them
    there. What it opens and compiles is kept for the next call with the same device, vocabulary and
    type of logits; clsample.clear() frees it.
    """
    form = _form(logits)
    if form in ("numpy", "torch"):
        logits, elements = native("logits", logits)
        dtype = "bfloat16" if elements == "bfloat16" else dtype
    elif device is not None:
        raise TypeError("device is given, but logits are on a device")
    shape = tuple(logits.shape)
    if len(shape) not in (1, 2) or 0 in shape:
        raise ValueError(
            f"logits has the shape {shape}; it must be (rows, vocab) or (vocab,), without a 0"
        )
    count = shape[0] if len(shape) == 2 else 1
    if seed is None:
        seed = secrets.randbits(64)
    values = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    params = _params({**values, **truncations}, seed, count)
    positions = _column("position", position, count)
    elements = str(logits.dtype) if dtype is None else named_type(dtype)
    logit_type("logits", elements)
    rows = _take(_context(logits, form, device), shape[-1], count, elements)
    try:
        step = rows.step(logits, params, positions, dtype)
    except (TypeError, ValueError):
        _give(rows)  # the arguments were wrong; after other errors it may not be usable
        raise
    _give(rows)
    results = _results(step, form, shape[:-1], return_status)
    if return_seed:
        results.append(seed)
    return results[0] if len(results) == 1 else tuple(results)


def draw(
    ids: Ids,
    logits: Any,
    *,
    seed: int = 0,
    stream: int = 0,
    position: int = 0,
    draw: int = 0,
    random_bits: Optional[int] = None,
    vocab: int = 1 << 20,
) -> int:
    """Draws a token from a list of candidates, such as those of a step's `kept`, on the host: -1 if
    there is none. Sampler.accept() enters it into its request.

    ids, logits: [count], int32 and float32. The others as the parameters of a request, `draw` as
    Sampler.sample()'s `draws`, and random_bits 64 bits in place of Philox's.
    """
    struct = new("cls_host_candidates")
    try:
        tokens, struct.count = _structs.ids("ids", ids)
    except TypeError as error:
        raise TypeError(f"{error}; the order is draw(ids, logits)") from None
    values, elements = native("logits", logits)
    if elements != "float32":
        raise _structs.wrong_floats("logits", elements, "float32")
    if values.shape != (struct.count,):
        raise ValueError(f"logits has the shape {values.shape}; it must be ({struct.count},)")
    weights = _structs.pointer(np.ascontiguousarray(values), "float")
    struct.ids, struct.logits = tokens, weights
    numbers = dict(seed=seed, stream=stream, position=position, draw=draw, vocab=vocab)
    _fill_draw(struct, numbers, [])
    bits = ffi.new("uint64_t *", integer("random_bits", random_bits or 0, "uint64_t"))
    if random_bits is not None:
        struct.random_bits = bits
    token = ffi.new("int32_t *")
    must(lib.cls_host_draw(struct, token))
    return int(token[0])


class Watermark(NamedTuple):
    """What watermark_detect() finds: how many tokens count, their score, and the probability that
    a text without the watermark has this score or a larger one. At most 0.01 counts as marked."""

    scored: int
    score: float
    p_value: float


def clear() -> None:
    """Frees what sample() keeps: contexts, samplers and their memory on the devices."""
    with _lock:
        _idle.clear()
        _contexts.clear()


def _form(logits: Any) -> str:
    if isinstance(logits, DeviceArray):
        return "device"
    if _opencl.is_pyopencl(logits, "Array"):
        return "pyopencl"
    if _opencl.is_pyopencl(logits, "MemoryObjectHolder", "SVMPointer"):
        raise TypeError("logits must be an array; Context.array() makes one of a buffer or SVM")
    torch = sys.modules.get("torch")
    return "torch" if torch is not None and isinstance(logits, torch.Tensor) else "numpy"


def _results(step: Step, form: str, shape: Tuple[int, ...], return_status: bool) -> List[Any]:
    found: Dict[str, Any] = {}
    if form in ("numpy", "torch") or not return_status:
        found = step.get()
    if not return_status and (found["tokens"] < 0).any():
        missing = [
            f"row {r}: {RowStatus(status)}"
            for r, (token, status) in enumerate(zip(found["tokens"], found["status"]))
            if token < 0
        ]
        more = [f"{len(missing) - 8} more"] if len(missing) > 8 else []
        raise ValueError(
            "no token can be drawn from these rows of logits, whose status is: "
            + "; ".join(missing[:8] + more)
        )
    names = ("tokens", "status") if return_status else ("tokens",)
    if form in ("device", "pyopencl"):
        arrays: List[Any] = [getattr(step, name) for name in names]
        for array in arrays:
            array.shape = shape
        return [array.as_pyopencl() for array in arrays] if form == "pyopencl" else arrays
    arrays = [found[name].reshape(shape) for name in names]
    if form == "torch":
        arrays = [sys.modules["torch"].from_numpy(array) for array in arrays]
    return arrays


# ------------------------------------------------------------------ parameters


def _column(name: str, value: Any, rows: int) -> Sequence[Any]:
    """A value for each row, of the type that the parameter has."""
    if name == "chain":
        stages = isinstance(value, Iterable) and not isinstance(value, str)
        return [tuple(value) if stages else value] * rows
    if value is None:
        raise TypeError(f"{name} is None; leave it out for its default")
    ctype = "uint32_t" if name == "position" else _fill.ctypes.get(name, "")
    if not isinstance(value, (int, float, str, list, tuple)):
        value = native(name, value)[0].tolist()
    if not isinstance(value, (list, tuple)):
        return [_number(name, value, ctype)] * rows
    if len(value) != rows:
        raise ValueError(f"{name} has {len(value)} values; it must have {rows}, one for each row")
    return [_number(name, one, ctype) for one in value]


def _number(name: str, value: Any, ctype: str) -> Any:
    return integer(name, value, ctype) if ctype in RANGES else real(name, value)


def _params(values: Dict[str, Any], seed: Any, rows: int) -> Tuple[List[str], List[Any]]:
    """The names of the parameters, and for each row their values."""
    for name in values:
        if name in Params.__annotations__ and name not in NUMBERS:
            raise TypeError(f"sample() has no {name}, which needs a request: see Sampler.begin()")
        if name not in NUMBERS:
            raise _fill.unknown(name)
    columns = {name: _column(name, value, rows) for name, value in values.items()}
    columns["seed"] = _column("seed", seed, rows)
    single = isinstance(seed, int) or np.ndim(seed) == 0
    columns["stream"] = range(rows) if single else [0] * rows
    return list(columns), list(zip(*columns.values()))


# ------------------------------------------------------------ what is kept


class _Rows:
    """A sampler whose slots stand for the rows of a call. A slot begins again where its parameters
    change; the calls' tokens do not enter it."""

    def __init__(self, context: Context, vocab: int, count: int, dtype: str) -> None:
        self.context, self.vocab, self.dtype = context, vocab, dtype
        self.sampler = Sampler(context, vocab, count, dtypes=[dtype], max_history=0)
        self.sampler._quiet = True
        self.sampler._free.clear()
        self.requests = [Request(self.sampler, slot, None) for slot in range(count)]
        self.begun: List[Any] = [None] * count
        self.latest: Optional[Step] = None

    def begin(self, names: List[str], rows: List[Any]) -> None:
        struct = new("cls_params")
        keep: List[Any] = []
        filled: Sequence[Any] = [None] * len(names)
        for row, values in enumerate(rows):
            if self.begun[row] == (names, values):
                continue
            changed = {n: new for n, new, old in zip(names, values, filled) if new != old}
            _fill(struct, changed, keep)
            filled = values
            try:
                handle = self.sampler.handle
                must(self.sampler._made(lib.cls_slot_begin, handle, row, struct, ffi.NULL))
            except BadArgument as error:
                raise BadArgument(f"row {row}: {error}") from None
            self.begun[row] = names, values

    def step(self, logits: Any, params: Any, positions: Any, dtype: Any) -> Step:
        self.begin(*params)
        requests = self.requests[: len(params[1])]
        more = {"positions": positions, "defer_accept": True, "dtype": dtype}
        try:
            self.latest = self.sampler.sample(logits, requests, **more)
        except Busy:
            assert self.latest is not None
            self.latest.wait()
            self.latest = self.sampler.sample(logits, requests, **more)
        return self.latest


def _context(logits: Any, form: str, device: Any) -> Context:
    if form == "device":
        found: Context = logits.context
        return found
    arguments: Tuple[Any, ...] = ("host", None) if device == "host" else (None, device)
    key: Any = getattr(device, "int_ptr", device)
    if form == "pyopencl":
        queue = logits.queue
        arguments = (logits.context, None if queue is None else queue.device)
        key = tuple(None if one is None else one.int_ptr for one in arguments)
    with _lock:
        context = _contexts.pop(key, None) or _open(*arguments)
        _contexts[key] = context
        if len(_contexts) > CONTEXTS:
            _, old = _contexts.popitem(last=False)
            _idle[:] = [one for one in _idle if one.context is not old]
    return context


def _open(cl: Any, device: Any) -> Context:
    try:
        return Context(cl, device)
    except (OpenCLNotFound, UnsupportedDevice) as error:
        if (cl, device) != (None, None):
            raise
        why = f"clsample.sample() draws on the host, as with device='host': {error}"
    warnings.warn(why, stacklevel=4)
    return Context("host")


def _take(context: Context, vocab: int, count: int, dtype: str) -> _Rows:
    """A sampler that no other call uses meanwhile."""
    with _lock:
        fitting = [
            one
            for one in _idle
            if one.context is context and one.vocab == vocab and one.dtype == dtype
        ]
        for one in reversed(fitting):
            _idle.remove(one)
            if len(one.requests) >= count:
                return one
    return _Rows(context, vocab, 1 << (count - 1).bit_length(), dtype)


def _give(rows: _Rows) -> None:
    with _lock:
        _idle.append(rows)
        del _idle[:-SAMPLERS]


def _after_fork() -> None:
    """OpenCL does not survive a fork, nor does a lock that another thread held."""
    global _lock
    _lock = threading.Lock()
    clear()


atexit.register(clear)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def watermark_detect(
    tokens: Ids,
    key: int,
    context: int = 4,
    *,
    rule: Union[str, int] = "vllm",
    key_b: int = 0,
    mixing: float = 0.5,
    prompt: Ids = (),
) -> Watermark:
    """Looks for the watermark of a request's watermark_key in a text: the ids of its output, from
    its first token on. key_b, mixing and the ids of the prompt belong to the rule "sglang"."""
    call, found = new("cls_watermark_call"), new("cls_watermark_score")
    output, before = ids("tokens", tokens), ids("prompt", prompt)
    call.output.ids, call.output.count = output
    call.prompt.ids, call.prompt.count = before
    call.rule = choice("rule", rule, WatermarkRule)
    call.context = integer("context", context, "uint32_t")
    call.key, call.key_b = integer("key", key, "uint64_t"), integer("key_b", key_b, "uint64_t")
    call.mixing = real("mixing", mixing)
    must(lib.cls_watermark_detect(call, found))
    return Watermark(found.scored, found.score, found.p_value)
