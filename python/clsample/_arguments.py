# SPDX-License-Identifier: MIT
"""The arguments of calls that enqueue: logits, maps, masks, and the arrays that a call writes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type

import numpy as np

from . import _arrays, _opencl, _shared, _structs, _types
from ._arrays import DeviceArray, HostArray, View
from ._cffi import ffi
from ._opencl import Event
from ._results import StatusArray, Statuses
from ._structs import Filler, integer, kind, shape_of

if TYPE_CHECKING:
    from ._context import Context

# Arrays with more bytes a row are in buffers of their own, so that small results can be kept, and
# read in one piece, without them.
SMALL_ROW = 4096
MOST_IDS = 1024  # of a row, in outputs whose ids are not limited by the vocabulary


class Call:
    """What one call is given: the arrays to keep until it returns, the events to wait for, and the
    queue that its arrays name."""

    __slots__ = "context", "keep", "wait", "queue", "events", "theirs", "copy", "copied", "lent"

    def __init__(self, context: Context, copy: Optional[bool] = None) -> None:
        if copy not in (None, True, False):
            raise TypeError(f"copy must be True, False or None, not {_structs.kind(copy)}")
        self.context = context
        self.copy = copy
        self.copied = False  # values of the host were copied
        self.lent: List[Any] = []  # what the device uses, and OpenCL does not keep
        self.keep: List[Any] = []
        self.wait: List[Any] = []
        self.events: List[str] = []  # the arguments that these events are of
        self.queue: Any = None
        self.theirs = False  # there is a buffer whose contents a queue of the caller makes

    def view(self, name: str, value: Any, *advice: str) -> View:
        """An array on the device, for whose contents the call waits."""
        found = _arrays.view(self.context, name, value, *advice)
        self.keep.append(found.mem)
        if found.events:
            self.wait += found.events
            self.events += [name + ".events"] * len(found.events)
        return found

    def names(self) -> Dict[str, str]:
        """What the caller calls the events that a message is about."""
        return {f"wait[{i}]": name for i, name in enumerate(self.events)}

    def buffer(self, target: Any, found: View) -> None:
        """Fills a cls_buffer."""
        mem, target.offset = found.mem, found.offset
        if not isinstance(mem, _opencl.Pointer):
            target.buffer = mem
            return
        # The library's pointers to a device's memory are multiples.
        before = mem.pointer % 16 if mem.kind == _types.BufferKind.SVM else 0
        target.kind = mem.kind
        target.pointer = ffi.cast("void *", mem.pointer - before)
        target.offset += before
        target.size = mem.size - found.offset
        self.lent.append(mem.owner)

    # -------------------------------------------------------------- logits

    def logits(
        self, target: Any, name: str, value: Any, rows: Optional[int], width: int, dtype: Any
    ) -> int:
        """Fills a cls_logits, and returns the number of rows."""
        found, elements = self.floats(name, value, rows, width, dtype)
        target.dtype = _structs.logit_type(name, elements)
        self.buffer(target.values, found)
        target.row_stride = found.row_stride
        return found.shape[0] if len(found.shape) == 2 else 1

    def floats(
        self, name: str, value: Any, rows: Optional[int], width: int, dtype: Any
    ) -> Tuple[View, str]:
        """An array [rows, width], from the device or the host, and the type of its elements.
        rows: None for any number."""
        if _opencl.is_memory(value):
            self.context._of_device(name)
            mem = _opencl.memory(name, value, self.context._tables)
            elements = "float32" if dtype is None else named_type(dtype)
            count = 1 if rows is None else rows
            self.theirs = True
            return View(mem, (count, width), elements, 0, width, [], None), elements
        if _arrays.on_device(value):
            found = self.view(name, value)
            self.theirs |= getattr(value, "_theirs", _opencl.is_pyopencl(value, "SVM"))
            if self.queue is None:
                self.queue = found.queue
        else:
            host, elements, _ = _arrays.on_host(name, value)
            self.check_shape(name, host.shape, rows, width)
            found = self.values(name, host, elements)
        self.check_shape(name, found.shape, rows, width)
        elements = found.dtype
        if dtype is not None:
            elements = named_type(dtype)
            if found.dtype != elements and found.dtype not in ("uint16", "int16"):
                raise TypeError(f"{name} has elements of {found.dtype}, but dtype is {elements}")
            if elements == "float32" and found.dtype != elements:
                raise TypeError(f"{name} has elements of {found.dtype}, but dtype is float32")
        return found, elements

    def check_shape(self, name: str, shape: Sequence[int], rows: Optional[int], width: int) -> None:
        """The shape must be [rows, width]; one row may lack its first dimension."""
        full = tuple(shape) if len(shape) != 1 else (1, *shape)
        if len(full) != 2 or full[1] != width or (rows is not None and full[0] != rows):
            wanted = "rows" if rows is None else str(rows)
            raise ValueError(f"{name} has the shape {tuple(shape)}; it must be ({wanted}, {width})")

    def values(self, name: str, host: np.ndarray[Any, Any], elements: str) -> View:
        """An array of the host in the memory that it has, or copied."""
        shared = self.context._shares and self.copy is not True and host.flags.aligned
        if self.copy is False and not shared:
            raise ValueError(f"{name} must be copied to the device, but copy is False")
        if not shared or host.size == 0:
            self.copied = True
            return self.upload(name, host)._replace(dtype=elements)
        found = self.view(name, host)._replace(dtype=elements)
        if self.context._host:
            return found
        mem, offset = _shared.share(self.context._cl, found.mem)
        self.lent.append((mem, host))
        return found._replace(mem=mem, offset=offset)

    def upload(self, name: str, host: np.ndarray[Any, Any]) -> View:
        """A copy of a host's array. The copy is made when the buffer is, without a queue. The host
        copies only what is not contiguous and aligned."""
        host = np.ascontiguousarray(host)
        if host.size == 0:
            raise ValueError(f"{name} has the shape {host.shape}, and so no elements")
        if self.context._host:
            return self.view(name, np.require(host, requirements="A"))
        mem = _opencl.create_buffer(self.context._cl, host.nbytes, host.view(np.uint8))
        self.keep.append(mem)
        shape = host.shape
        return View(mem, shape, _arrays.element_name(host.dtype), 0, shape[-1], [], None)

    # ---------------------------------------------------------------- maps

    def ints(
        self, target: Any, name: str, value: Any, count: Optional[int], ctype: str = "int32_t"
    ) -> Tuple[int, ...]:
        """Fills a cls_ints of `count` elements, None for any number, and returns their shape."""
        if value is None:
            return (0,)
        if _arrays.on_device(value):
            found = self.view(name, value)
            if found.dtype not in ("int32", "uint32"):
                raise TypeError(f"{name} has elements of {found.dtype}; they must be int32")
            shape = found.shape
            if len(found.shape) == 2 and found.shape[0] > 1 and found.row_stride != found.shape[1]:
                raise ValueError(f"{name} is not contiguous")
            self.buffer(target.device, found)
        else:
            array = _structs.numpy(name, value, ctype)
            shape = array.shape
            pointer = _structs.pointer(array, ctype)
            self.keep.append(pointer)
            target.host = ffi.cast("const int32_t *", pointer)
        size = math.prod(shape)
        if count is not None and size != count:
            raise ValueError(f"{name} has {size} elements; it must have {count}")
        return shape

    def tokens(self, name: str, value: Any, rows: int, width: int) -> View:
        """An array [rows, width] of ids, from the device or the host."""
        if _arrays.on_device(value):
            found = self.view(name, value)
            if found.dtype not in ("int32", "uint32"):
                raise TypeError(f"{name} has elements of {found.dtype}; they must be int32")
        else:
            found = self.upload(name, _structs.numpy(name, value, "int32_t"))
        self.check_shape(name, found.shape, rows, width)
        return found

    def random_bits(self, target: Any, value: Any, rows: int) -> None:
        """Fills the cls_buffer of a step's own random bits."""
        if _arrays.on_device(value):
            found = self.view("random_bits", value)
            if found.dtype != "uint64":
                raise TypeError(f"random_bits has elements of {found.dtype}; they must be uint64")
        else:
            found = self.upload("random_bits", _structs.numpy("random_bits", value, "uint64_t"))
        if found.shape != (rows,):
            raise ValueError(f"random_bits has the shape {found.shape}; it must be ({rows},)")
        self.buffer(target, found)

    # --------------------------------------------------------------- masks

    def mask(self, target: Any, name: str, value: Any, rows: int, vocab: int, row_map: Any) -> None:
        """Fills a cls_mask: bits in int32 words, or bytes, on the host or on the device."""
        if value is None:
            if row_map is not None:
                raise TypeError(f"{name}_map is given, but {name} is not")
            return
        if _arrays.on_device(value):
            found = self.view(name, value)
            shape, elements, stride = found.shape, found.dtype, found.row_stride
            self.buffer(target.words, found)
        else:
            host, elements, stride = _arrays.on_host(name, value)
            shape, target.host = host.shape, ffi.cast("void *", host.ctypes.data)
            self.keep.append(host)
        if elements in ("int32", "uint32"):
            target.kind, most = _types.MaskKind.PACKED, -(-vocab // 32)
        elif elements in ("bool", "uint8", "int8"):
            target.kind, most = _types.MaskKind.BOOL, vocab
        else:
            raise TypeError(
                f"{name} has elements of {elements}; they must be bool, or int32 words "
                "of 32 tokens"
            )
        bits = (-(-vocab // 8), 4 * -(-vocab // 32))  # bytes of a row of bits, without and in words
        if elements in ("uint8", "int8") and shape and shape[-1] in bits and shape[-1] < vocab:
            raise ValueError(
                f"{name} has {shape[-1]} bytes for {vocab} tokens, as bits have; view them as int32"
            )
        if len(shape) not in (1, 2) or shape[-1] == 0 or shape[-1] > most:
            words = f", of {elements} words of 32 tokens" if most < vocab else ""
            raise ValueError(
                f"{name} has the shape {tuple(shape)}; it must be (rows, {most}){words}"
            )
        target.width, target.row_stride = shape[-1], stride
        target.rows = self.map_rows(name, shape, rows, row_map)
        self.ints(target.row_map, f"{name}_map", row_map, rows)

    def bias(
        self, target: Any, value: Any, rows: int, vocab: int, row_map: Any, factor: float
    ) -> None:
        """Fills a cls_dense_bias."""
        name = "bias"
        target.factor = _structs.factor("bias_factor", factor)
        if value is None:
            if row_map is not None or target.factor != 1.0:
                given = "map" if row_map is not None else "factor"
                raise TypeError(f"{name}_{given} is given, but {name} is not")
            return
        found, elements = self.floats(
            name, value, None if row_map is not None else rows, vocab, None
        )
        target.dtype = _structs.bias_type(elements)
        target.row_stride = found.row_stride
        target.rows = self.map_rows(name, found.shape, rows, row_map)
        self.buffer(target.values, found)
        self.ints(target.row_map, f"{name}_map", row_map, rows)

    def map_rows(self, name: str, shape: Sequence[int], rows: int, row_map: Any) -> int:
        found = shape[0] if len(shape) == 2 else 1
        if row_map is None and found != rows:
            raise ValueError(
                f"{name} has {found} row{'s' * (found != 1)}; it must have {rows}, or "
                f"{name}_map must say which row uses which"
            )
        return found


def named_type(dtype: Any) -> str:
    number = _structs.choice("dtype", dtype, _types.DType)
    return list(_structs.DTYPES)[number] if 0 <= number < len(_structs.DTYPES) else str(dtype)


# -------------------------------------------------------------------- outputs


class Group:
    """A struct of cls_outputs that has a count and several buffers, such as cls_top_tokens."""

    def __init__(self, name: str, structure: str) -> None:
        self.name = name
        self.attributes = getattr(_types, _class_name(structure))
        self.count = ffi.typeof(structure).fields[0][0]
        self.buffers = _types.BUFFERS[structure]
        self.inputs = _types.INPUTS.get(structure, ())


def _class_name(structure: str) -> str:
    return "".join(word.capitalize() for word in structure.split("_")[1:])


BUFFERS = _types.BUFFERS["cls_outputs"]
GROUPS: Dict[str, Group] = {}
for _name, _place in ffi.typeof("cls_outputs").fields:
    _cname = _place.type.cname.replace("struct ", "")
    if _cname in _types.BUFFERS:
        GROUPS[_name] = Group(_name, _cname)
fill_outputs = Filler(
    "cls_outputs",
    "sample()",
    [
        name
        for name in _types.OutputOptions.__annotations__
        if name not in BUFFERS and name not in GROUPS
    ],
)
fill_outputs.names += [*BUFFERS, *GROUPS]


class Writer:
    """The arrays that a call writes: the caller's, and new ones, of which the small ones share a
    buffer."""

    def __init__(
        self, call: Call, sizes: Mapping[str, int], rows: Tuple[str, ...] = ("rows",)
    ) -> None:
        self.call = call
        self.sizes = sizes
        self.rows = rows  # the axes that outputs have in place of rows
        self.block = 0  # bytes
        self.pending: List[Tuple[Any, DeviceArray]] = []
        self.arrays: List[DeviceArray] = []
        self.theirs: List[Any] = []  # pyopencl's arrays
        self.small: List[Tuple[str, Any]] = []

    def add(
        self, target: Any, name: str, value: Any, elements: str, words: Sequence[str], **sizes: int
    ) -> Any:
        """Fills a cls_buffer. value: True for a new array, False for none, or the caller's."""
        if value is None or value is False:
            return None
        words = [axis for word in words for axis in (self.rows if word == "rows" else (word,))]
        shape = shape_of(words, {**self.sizes, **sizes} if sizes else self.sizes)
        if value is not True:
            return self.given(target, name, value, elements, shape)
        context = self.call.context
        row = 4 * math.prod(shape[1:])
        small = row <= SMALL_ROW and words[0] not in ("slot_count", "capacity")
        if context._host:
            kind = Statuses if name == "status" else HostArray
            zeros = np.zeros(shape, DTYPES[elements]).view(kind)
            self.call.buffer(target, self.call.view(name, zeros))
            self.small += [(name, zeros)] * small
            return zeros
        array = class_of(name)(context, None, shape, DTYPES[elements])
        self.arrays.append(array)
        if not small:
            array._mem = _opencl.create_buffer(context._cl, max(1, row * shape[0]))
            target.buffer = array._mem
        else:
            array.offset = self.block
            self.block += row * shape[0]
            self.pending.append((target, array))
            self.small.append((name, array))
        return array

    def given(
        self, target: Any, name: str, value: Any, elements: str, shape: Tuple[int, ...]
    ) -> Any:
        advice = f"give True, or Context.empty({shape}, {elements!r})"
        host = self.call.context._host
        if not (isinstance(value, np.ndarray) if host else _arrays.on_device(value)):
            where = "a NumPy array" if host else "an array on the device"
            raise TypeError(f"{name} must be True or {where}, not {kind(value)}; {advice}")
        found = self.call.view(name, value, advice)
        if found.dtype not in (elements, elements.replace("int32", "uint32")):
            raise TypeError(
                f"{name} has elements of {found.dtype}; they must be {elements}; {advice}"
            )
        if found.shape != shape:
            raise ValueError(f"{name} has the shape {found.shape}; it must be {shape}; {advice}")
        if len(shape) > 1 and shape[0] > 1 and found.row_stride != shape[-1]:
            raise ValueError(f"{name} has gaps between its rows; {advice}")
        self.call.buffer(target, found)
        if host:
            if not (value.flags.writeable and value.flags.aligned):
                raise ValueError(f"{name} is not writeable, or not aligned; {advice}")
            return value
        if not isinstance(value, DeviceArray):
            if _opencl.is_pyopencl(value, "Array"):
                self.theirs.append(value)
            mem, context = _opencl.kept(found.mem), self.call.context
            value = class_of(name)(context, mem, shape, DTYPES[elements], found.offset)
        array: DeviceArray = value
        self.arrays.append(array)
        return array

    def outputs(self, struct: Any, options: Mapping[str, Any], result: Any) -> bool:
        """Fills a cls_outputs, and sets the attributes of `result`. Returns whether there is any
        output."""
        for name, value in options.items():
            if name in BUFFERS:
                elements, words = BUFFERS[name]
                target = getattr(struct, name)
                setattr(result, name, self.add(target, name, value, elements, words))
            elif name in GROUPS:
                self.group(getattr(struct, name), GROUPS[name], value, result)
            else:
                fill_outputs(struct, {name: value}, self.call.keep)
        return bool(options)

    def group(self, struct: Any, group: Group, value: Any, result: Any) -> None:
        if value is None or value is False:
            return
        name = group.name
        wanted: Mapping[str, Any] = {field: field != "offsets" for field in group.buffers}
        if isinstance(value, Mapping):
            wanted = {key: one for key, one in value.items() if key in group.buffers}
            others = set(value) - set(wanted) - {group.count, *group.inputs}
            if others:
                raise TypeError(f"{name} has no entry {min(others)!r}")
            if not set(value).issuperset(group.inputs):
                raise TypeError(f"{name} lacks the entry {group.inputs[0]!r}")
            value = value.get(group.inputs[0] if group.inputs else group.count, 0)
        if group.inputs:
            count = self.inputs(getattr(struct, group.inputs[0]), name, value)
        else:
            count = integer(name, value, "uint32_t")
        setattr(struct, group.count, count)
        attributes = group.attributes()
        packed = wanted.get("offsets") not in (None, False)
        # What the library refuses is not allocated before.
        most = self.sizes["vocab"] * (self.sizes["rows"] if packed else 1)
        for field, one in wanted.items():
            elements, words = group.buffers[field]
            if packed and field == "ids":  # of all rows, one behind the other
                words = ("capacity",)
            if group.count in words and count == 0:
                continue
            array = self.add(
                getattr(struct, field),
                f"{name}.{field}",
                one,
                elements,
                words,
                **{group.count: min(count, max(most, MOST_IDS))},
            )
            setattr(attributes, field, array)
        setattr(result, name, attributes)

    def inputs(self, target: Any, name: str, value: Any) -> int:
        """Ids [rows, count] that the call reads; their number in a row."""
        rows = shape_of(self.rows, self.sizes)
        if _arrays.on_device(value):
            found = self.call.view(name, value)
            if found.dtype != "int32":
                raise TypeError(f"{name} has elements of {found.dtype}; they must be int32")
        else:
            found = self.call.upload(name, _structs.numpy(name, value))
        if found.shape[:-1] != rows or found.row_stride != found.shape[-1]:
            raise ValueError(
                f"{name} has the shape {found.shape}; it must be "
                f"({', '.join(map(str, rows))}, count), without gaps between rows"
            )
        self.call.buffer(target, found)
        return found.shape[-1]

    def allocate(self) -> None:
        """Makes the buffer that the small arrays share."""
        if self.block:
            mem = _opencl.create_buffer(self.call.context._cl, self.block)
            for target, array in self.pending:
                array._mem = mem
                target.buffer, target.offset = mem, array.offset

    def enqueued(self, event: Any, queue: Any) -> None:
        for array in self.arrays:
            array._event, array._queue = event, queue
        for given in self.theirs:
            # The event stands for the array's earlier ones, since the call waits for them. The
            # array's add_event() would wait here where there are many.
            given.events[:] = [Event(event).as_pyopencl()]


def class_of(name: str) -> Type[DeviceArray]:
    """The class of a new output."""
    return StatusArray if name == "status" else DeviceArray


DTYPES = {"int32": np.dtype(np.int32), "float32": np.dtype(np.float32)}
