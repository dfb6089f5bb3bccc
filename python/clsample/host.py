# SPDX-License-Identifier: MIT
"""The reference in plain C: the same results as on a device, bit for bit, without one.

These functions need neither OpenCL nor its loader. They have no state, and any thread may call
them, also after fork().
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from . import _structs, _types
from ._arrays import native, on_host, row_stride
from ._cffi import ffi
from ._library import lib, must
from ._request import new_params
from ._structs import Filler, choice, ids, init, integer, kind, real, record
from ._types import AdaptiveState, DraftKind, HostResult, Params, RowStatus, VerifyMethod

if TYPE_CHECKING:
    from ._types import Choice, Ids

# What sample() sets in a cls_host_row from arguments of its own. The other numbers and lists of ids
# are keyword arguments by their own names.
OWN_FIELDS = set(
    "struct_size logits dtype vocab mask mask_width position random_bits params mask_kind bias "
    "bias_dtype bias_factor prompt output infill adaptive".split()
)
ROW_COUNTS = _types.FIELD_COUNTS["cls_host_row"]
ROW_FIELDS = [
    name
    for name, place in ffi.typeof("cls_host_row").fields
    if place.type.cname in ("int32_t", "uint32_t", "float", "int32_t *")
    and name not in OWN_FIELDS
    and name not in ROW_COUNTS.values()
    and not name.startswith("reserved")
]
_fill_row = Filler("cls_host_row", "sample()", ROW_FIELDS)
_fill_row.names += Params.__annotations__  # for the message about an unknown name
# Arrays of cls_host_result that the caller may ask for, by the C type of their elements.
RESULT_ARRAYS = {
    name: place.type.cname
    for name, place in ffi.typeof("cls_host_result").fields
    if place.type.cname in ("float *", "int32_t *")
}
NUMPY_TYPES = {"float *": np.dtype(np.float32), "int32_t *": np.dtype(np.int32)}


def _pointer(array: np.ndarray[Any, Any]) -> Any:
    return ffi.cast("void *", array.ctypes.data)


def _logits(name: str, value: Any, dtype: Any) -> Any:
    """A NumPy array of logits and the number of its type."""
    array, elements = on_host(name, value)
    if dtype is not None:
        number = choice("dtype", dtype, _types.DType)
        fits = elements in ("uint16", "int16") and number != _types.DType.F32
        if not fits and _structs.DTYPES.get(elements) != number:
            raise TypeError(f"{name} has elements of {elements}, which are not {dtype!r}")
        return array, number
    return array, _structs.logit_type(name, elements)


def _rows(name: str, array: np.ndarray[Any, Any], rows: int, width: int) -> int:
    """Checks the shape [rows, width], or [width] for one row; returns the row stride."""
    shape = array.shape if array.ndim != 1 else (1, *array.shape)
    if shape != (rows, width):
        raise ValueError(f"{name} has the shape {array.shape}; it must be {(rows, width)}")
    return row_stride(name, array.shape, array.strides, array.itemsize)


class _Row:
    """A cls_host_row, and the arrays that it points to."""

    def __init__(
        self,
        logits: Any,
        rows: Optional[int],
        dtype: Any,
        prompt: Any,
        output: Any,
        mask: Any,
        bias: Any,
        bias_factor: float,
        position: Optional[int],
        random_bits: Any,
        infill: Any,
        adaptive: Optional[AdaptiveState],
        more: Mapping[str, Any],
    ) -> None:
        self.keep: List[Any] = []
        self.row = row = ffi.new("cls_host_row *")
        init("cls_host_row", row)
        array, row.dtype = _logits("logits", logits, dtype)
        if (
            array.ndim not in (1, 2)
            or array.size == 0
            or (rows is None and array.ndim == 2 and array.shape[0] != 1)
        ):
            raise ValueError(f"logits has the shape {array.shape}; it must be (vocab,)")
        row.vocab = vocab = array.shape[-1]
        count = 1 if rows is None else rows
        self.logits_stride = _rows("logits", array, count, vocab)
        row.logits = _pointer(array)
        params = {name: value for name, value in more.items() if name in Params.__annotations__}
        fields = {name: value for name, value in more.items() if name not in params}
        row.params = self.params = new_params(params, self.keep)
        _fill_row(row, fields, self.keep)
        row.prompt, row.prompt_count = self.held(ids("prompt", prompt))
        row.output, row.output_count = self.held(ids("output", output))
        self.mask_stride = self.mask(mask, count, vocab)
        self.bias_stride = self.bias(bias, count, vocab, bias_factor)
        if position is None:
            valid = _structs.numpy("output", output)
            position = self.params.position + int(((valid >= 0) & (valid < vocab)).sum())
        row.position = integer("position", position, "uint32_t")
        if random_bits is not None:
            bits = ffi.new("uint64_t[1]", [integer("random_bits", random_bits, "uint64_t")])
            row.random_bits = bits
            self.keep.append(bits)
        if infill is not None:
            row.infill = self.infill(infill, vocab)
        if adaptive is not None:
            for name, value in zip(AdaptiveState._fields, adaptive):
                setattr(row.adaptive, name, value)
        self.keep += [array, row]

    def held(self, found: Any) -> Any:
        self.keep.append(found)
        return found

    def mask(self, value: Any, rows: int, vocab: int) -> int:
        if value is None:
            return 0
        array, _ = on_host("mask", value)
        if array.dtype.name in ("int32", "uint32"):
            self.row.mask_kind, most = _types.MaskKind.PACKED, -(-vocab // 32)
        elif array.dtype.name in ("bool", "uint8", "int8"):
            self.row.mask_kind, most = _types.MaskKind.BOOL, vocab
        else:
            raise TypeError(
                f"mask has elements of {array.dtype}; they must be bool, or int32 words "
                "of 32 tokens"
            )
        if array.ndim not in (1, 2) or not 0 < array.shape[-1] <= most:
            raise ValueError(f"mask has the shape {array.shape}; it must be ({rows}, {most})")
        self.row.mask, self.row.mask_width = _pointer(array), array.shape[-1]
        self.keep.append(array)
        return _rows("mask", array, rows, array.shape[-1])

    def bias(self, value: Any, rows: int, vocab: int, factor: float) -> int:
        self.row.bias_factor = _structs.factor("bias_factor", factor)
        if value is None:
            if self.row.bias_factor != 1.0:
                raise TypeError("bias_factor is given, but bias is not")
            return 0
        array, elements = on_host("bias", value)
        self.row.bias, self.row.bias_dtype = _pointer(array), _structs.bias_type(elements)
        self.keep.append(array)
        return _rows("bias", array, rows, vocab)

    def infill(self, value: Any, vocab: int) -> Any:
        try:
            end_ids, prefix_of = value
        except (TypeError, ValueError):
            raise TypeError(f"infill must be (end_ids, prefix_of), not {kind(value)}") from None
        struct = ffi.new("cls_infill *")
        init("cls_infill", struct)
        struct.end_ids = self.held(ids("infill[0]", end_ids))
        struct.prefix_of, count = self.held(ids("infill[1]", prefix_of))
        if count != vocab:
            raise ValueError(f"infill[1] has {count} ids; it must have {vocab}")
        self.keep.append(struct)
        return struct


def sample(
    logits: Any,
    *,
    prompt: Ids = (),
    output: Ids = (),
    dtype: Any = None,
    mask: Any = None,
    bias: Any = None,
    bias_factor: float = 1.0,
    position: Optional[int] = None,
    random_bits: Optional[int] = None,
    infill_tables: Any = None,
    adaptive: Optional[AdaptiveState] = None,
    **more: Any,
) -> HostResult:
    """Samples one row of logits: the token of Sampler.sample(), bit for bit.

    logits      [vocab] of float32, float16 or bfloat16 (or uint16 with dtype="bfloat16")
    prompt, output
                token ids of the request so far
    mask, bias, bias_factor
                as in Sampler.sample(), mask and bias of one row
    position    of this draw. Default: the parameter `position` plus the number of output tokens.
    random_bits 64 random bits in place of Philox's
    infill_tables
                (end_ids, prefix_of), as in Sampler.infill(), for the parameter `infill`
    adaptive    the `adaptive` of the request's previous token, with Mirostat, adaptive p and top-p
                decay
    more        parameters of the request, as in Sampler.begin(), but with the seed 0 where none is
                given, since this function has nothing to report one; `draw`, `max_history` and
                `invalid_token`; and probs=True for the probabilities, float32 [vocab]

    Returns a HostResult: token, status, kept_count, logprob_raw, logprob_final, probs, adaptive...
    """
    wanted: Dict[str, Any] = {name: more.pop(name) for name in list(more) if name in RESULT_ARRAYS}
    row = _Row(
        logits,
        None,
        dtype,
        prompt,
        output,
        mask,
        bias,
        bias_factor,
        position,
        random_bits,
        infill_tables,
        adaptive,
        more,
    )
    result = ffi.new("cls_host_result *")
    init("cls_host_result", result)
    arrays: Dict[str, Optional[np.ndarray[Any, Any]]] = dict.fromkeys(RESULT_ARRAYS)
    for name, value in wanted.items():
        if value is None or value is False:
            continue
        if value is not True:
            raise TypeError(f"{name} must be True or False, not {kind(value)}")
        array = np.empty(row.row.vocab, NUMPY_TYPES[RESULT_ARRAYS[name]])
        setattr(result, name, ffi.cast(RESULT_ARRAYS[name], array.ctypes.data))
        capacity = name.split("_")[0] + "_capacity"
        if hasattr(result, capacity):
            setattr(result, capacity, array.size)
        arrays[name] = array
    must(lib.cls_host_sample(row.row, result))
    found: HostResult = record(HostResult, result)
    return found._replace(**arrays)  # type: ignore[arg-type]


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
    """Draws a token from a list of candidates, such as those of a step's `kept`: -1 if there is
    none. Sampler.accept() enters it into its request.

    ids, logits: [count], int32 and float32. The others as the parameters of a request.
    """
    struct = ffi.new("cls_host_candidates *")
    init("cls_host_candidates", struct)
    tokens, struct.count = _structs.ids("ids", ids)
    values, _ = native("logits", logits)
    if values.dtype != np.float32:
        raise _structs.wrong_floats("logits", str(values.dtype), "float32")
    if values.shape != (struct.count,):
        raise ValueError(f"logits has the shape {values.shape}; it must be ({struct.count},)")
    values = np.ascontiguousarray(values)
    struct.ids, struct.logits = tokens, ffi.cast("float *", values.ctypes.data)
    struct.vocab = integer("vocab", vocab, "uint32_t")
    struct.seed = integer("seed", seed, "uint64_t")
    struct.stream = integer("stream", stream, "uint64_t")
    struct.position = integer("position", position, "uint32_t")
    struct.draw = integer("draw", draw, "uint32_t")
    bits = ffi.new("uint64_t[1]", [integer("random_bits", random_bits or 0, "uint64_t")])
    if random_bits is not None:
        struct.random_bits = bits
    token = ffi.new("int32_t *")
    must(lib.cls_host_draw(struct, token))
    return int(token[0])


def draft(
    tokens: Ids,
    k: int,
    *,
    min_n: int = 2,
    max_n: int = 8,
    vocab: int = 1 << 20,
    max_history: int = 0,
) -> List[int]:
    """Looks the end of a text up in the text: the k drafts of Sampler.draft(), or none.

    tokens: prompt, earlier turns and output. max_history: how many of the latest tokens are
    searched; 0: all.
    """
    struct = ffi.new("cls_host_text *")
    init("cls_host_text", struct)
    found, struct.token_count = ids("tokens", tokens)
    struct.tokens = found
    for name, value in (
        ("k", k),
        ("min_n", min_n),
        ("max_n", max_n),
        ("vocab", vocab),
        ("max_history", max_history),
    ):
        setattr(struct, name, integer(name, value, "uint32_t"))
    drafts, count = ffi.new("int32_t[]", _types.MAX_DRAFTS), ffi.new("int32_t *")
    must(lib.cls_host_draft(struct, drafts, count))
    return list(drafts[0 : count[0]])


TOKEN_REPORTS = {
    "token_status": "int32_t[]",
    "logprobs_raw": "float[]",
    "logprobs_final": "float[]",
    "kept_counts": "uint32_t[]",
}


class Verified(NamedTuple):
    """What verify() returns: the emitted tokens, the indices of the emitted drafts, and the
    RowStatus bits of all rows that were read. With outputs=True also, for each emitted token, what
    sample() returns of its row."""

    tokens: List[int]
    nodes: List[int]
    status: RowStatus
    token_status: Optional[List[RowStatus]] = None
    logprobs_raw: Optional[List[float]] = None
    logprobs_final: Optional[List[float]] = None
    kept_ids: Optional[List[np.ndarray[Any, Any]]] = None


def verify(
    logits: Any,
    drafts: Ids,
    *,
    method: Choice[VerifyMethod] = VerifyMethod.MATCH,
    parents: Optional[Ids] = None,
    draft_probs: Any = None,
    draft_logits: Any = None,
    disable_bonus: bool = False,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    prompt: Ids = (),
    output: Ids = (),
    dtype: Any = None,
    mask: Any = None,
    bias: Any = None,
    bias_factor: float = 1.0,
    position: Optional[int] = None,
    infill_tables: Any = None,
    adaptive: Optional[AdaptiveState] = None,
    outputs: bool = False,
    **more: Any,
) -> Verified:
    """Verifies one request's drafts: the result of Sampler.verify().

    logits, mask, bias: [len(drafts) + 1, ...]. outputs: True for statuses, log-probabilities and
    kept sets of the tokens. The others as in Sampler.verify() and sample().
    """
    tokens, count = ids("drafts", drafts)
    row = _Row(
        logits,
        count + 1,
        dtype,
        prompt,
        output,
        mask,
        bias,
        bias_factor,
        position,
        None,
        infill_tables,
        adaptive,
        more,
    )
    struct = ffi.new("cls_host_drafts *")
    init("cls_host_drafts", struct)
    struct.row, struct.ids, struct.draft_count = row.row, tokens, count
    struct.logits_stride = row.logits_stride
    struct.mask_stride, struct.bias_stride = row.mask_stride, row.bias_stride
    struct.method = choice("method", method, VerifyMethod)
    if parents is not None:
        nodes, number = ids("parents", parents)
        if number != count:
            raise ValueError(f"parents has {number} entries for {count} drafts")
        struct.parents = nodes
    own = _distribution(draft_probs, draft_logits, row.row, count)
    if own is not None:
        struct.draft, struct.draft_kind = _pointer(own[0]), own[1]
    struct.disable_bonus = 1 if disable_bonus else 0
    if epsilon is not None:
        struct.epsilon = real("epsilon", epsilon)
    if delta is not None:
        struct.delta = real("delta", delta)
    result = ffi.new("cls_host_verified *")
    init("cls_host_verified", result)
    vocab = row.row.vocab if outputs else 0
    reports = {name: ffi.new(ctype, count + 1) for name, ctype in TOKEN_REPORTS.items()}
    kept = np.empty((count + 1, vocab), np.int32)
    if outputs:
        for name, array in reports.items():
            setattr(struct, name, array)
        struct.kept_ids, struct.kept_capacity = ffi.cast("int32_t *", kept.ctypes.data), vocab
    must(lib.cls_host_verify(struct, result))
    n = result.emitted
    found = Verified(
        list(result.tokens[0:n]), list(result.nodes[0 : result.accepted]), RowStatus(result.status)
    )
    if not outputs:
        return found
    return found._replace(
        token_status=[RowStatus(status) for status in reports["token_status"][0:n]],
        logprobs_raw=list(reports["logprobs_raw"][0:n]),
        logprobs_final=list(reports["logprobs_final"][0:n]),
        kept_ids=[kept[i, : reports["kept_counts"][i]] for i in range(n)],
    )


def _distribution(probs: Any, logits: Any, row: Any, count: int) -> Any:
    """The drafts' own distributions, dense, and their kind."""
    if probs is not None and logits is not None:
        raise TypeError("draft_probs and draft_logits are both given; only one may be")
    if (probs is None and logits is None) or count == 0:
        return None
    name = "draft_probs" if probs is not None else "draft_logits"
    array, number = _logits(name, probs if probs is not None else logits, None)
    if number != (0 if probs is not None else row.dtype):
        raise TypeError(
            f"{name} has elements of {array.dtype}; they must be "
            f"{'float32' if probs is not None else 'of the type of logits'}"
        )
    _rows(name, array, count, row.vocab)
    kinds = DraftKind
    return np.ascontiguousarray(array), kinds.PROBS if probs is not None else kinds.LOGITS


def kept_offsets(counts: Ids, capacity: int) -> np.ndarray[Any, Any]:
    """The offsets of kept sets that lie one behind the other, int32 [rows + 1], from the numbers of
    their tokens: those of Sampler.sample(kept_set={"capacity": capacity, "offsets": True})."""
    numbers, rows = ids("counts", counts)
    offsets = np.empty(rows + 1, np.int32)
    limit = integer("capacity", capacity, "uint32_t")
    to = ffi.cast("int32_t *", offsets.ctypes.data)
    must(lib.cls_host_kept_offsets(rows, numbers, limit, to))
    return offsets


def check(vocab: int, **params: Any) -> None:
    """Checks the ranges of a request's parameters, for a vocabulary of `vocab` tokens."""
    keep: List[Any] = []
    must(lib.cls_params_check(new_params(params, keep), integer("vocab", vocab, "uint32_t")))


def stages(chain: Any) -> Sequence[_types.Stage]:
    """The stages of a preset, in their order: "default", "vllm" or "llama"."""
    out = ffi.new("uint8_t[]", _types.CHAIN_LENGTH)
    must(lib.cls_chain_stages(choice("chain", chain, _types.Chain), out))
    return [_types.Stage(number) for number in out if number != 0]
