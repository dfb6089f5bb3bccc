# SPDX-License-Identifier: MIT
"""Turns Python's values into fields of the library's structs, and structs into tuples.

What a field takes follows from its C type and from the tables in _types.py, which are generated
from the headers. Every exception names the argument.
"""

from __future__ import annotations

import difflib
import enum
import operator
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type
from typing import TypeVar

import numpy as np

from . import _types
from ._cffi import ffi
from ._library import lib, must

RANGES: Dict[str, Tuple[int, int]] = {
    "uint8_t": (0, 2**8 - 1),
    "int32_t": (-(2**31), 2**31 - 1),
    "uint32_t": (0, 2**32 - 1),
    "uint64_t": (0, 2**64 - 1),
    "size_t": (0, int(ffi.cast("size_t", -1))),
}

T = TypeVar("T")
DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2}


def new(name: str) -> Any:
    """A public struct with its defaults."""
    struct = ffi.new(name + " *")
    lib.cls_struct_init(name.encode(), struct, ffi.sizeof(name))
    return struct


def integer(name: str, value: Any, ctype: str = "int32_t") -> int:
    """An integer of the C type."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {kind(value)}") from None
    least, most = RANGES[ctype]
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}; it must be from {least} to {most}")
    return number


def real(name: str, value: Any) -> float:
    """A float. Text is none."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {kind(value)}") from None


def factor(name: str, value: Any) -> float:
    """The factor of a bias. The library takes 0 for 1."""
    found = real(name, value)
    if found == 0:
        raise ValueError(f"{name} is 0: leave out bias")
    return found


def switch(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {kind(value)}")
    return bool(value)


def own(value: Any) -> Any:
    """A copy that changes only where its owner changes it: iterators become lists."""
    if isinstance(value, (str, bytes, int, float, np.generic, np.ma.MaskedArray)):
        return value
    if hasattr(value, "__array__"):
        try:
            return np.array(value)
        except (TypeError, ValueError):
            return value  # whoever reads it says what is wrong
    if isinstance(value, Mapping):
        return {key: own(one) for key, one in value.items()}
    if not isinstance(value, Iterable):
        return value
    found = [one if type(one) is int else own(one) for one in value]
    return tuple(found) if type(value) is tuple else found


def unmasked(name: str, value: Any) -> None:
    """Refuses NumPy's masked arrays: asarray() drops the mask, and what it hides would count."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    if any(isinstance(one, np.ma.MaskedArray) for one in parts):
        raise TypeError(
            f"{name} has a NumPy mask, which would be lost; filled() makes an array without one"
        )


def kind(value: Any) -> str:
    """What to call a value of the wrong type in a message."""
    return "None" if value is None else f"{type(value).__name__} ({value!r:.40})"


def nearest(word: str, names: Iterable[str]) -> Optional[str]:
    """The shortest name that begins with the word, or else the one that resembles it most."""
    names = list(names)
    begun = [name for name in names if len(word) > 2 and name.startswith(word)]
    return next(iter(sorted(begun, key=len) or difflib.get_close_matches(word, names, 1)), None)


def choice(name: str, value: Any, names: Type[Any]) -> int:
    """A member of an enum, by itself, by its name or by its number."""
    if isinstance(value, str):
        key = value.upper().replace("-", "_")
        if key in names.__members__:
            return int(names[key])
        if names is _types.DType and value in DTYPES:
            return DTYPES[value]
        words = ", ".join(repr(member.lower()) for member in names.__members__)
        near = nearest(value.lower(), (member.lower() for member in names.__members__))
        hint = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"{name} is {value!r}; it must be one of {words}{hint}")
    if names is _types.DType and not isinstance(value, (int, np.integer)):
        return DTYPES[element_type(name, value)]
    return integer(name, value)


def choices(name: str, value: Any, names: Type[Any], shift: bool) -> int:
    """A sum of an enum's members: a number, names, or "all". With `shift` member n counts
    1 << n; otherwise "all" are all features, also those that only the library knows."""
    if isinstance(value, str) and value == "all":
        value = list(names.__members__) if shift else _types.FEATURES_ALL
    if isinstance(value, (int, np.integer)) and not (shift and isinstance(value, enum.IntEnum)):
        return integer(name, value, "uint32_t")
    single = isinstance(value, (str, enum.IntEnum)) or not isinstance(value, Iterable)
    total = 0
    for one in [value] if single else value:
        member = choice(name, one, names)
        if shift and not 0 <= member < 32:
            raise ValueError(f"{name} has {member}, which is not from 0 to 31")
        total |= 1 << member if shift else member
    return integer(name, total, "uint32_t")


def element_type(name: str, value: Any) -> str:
    """The name of a type of logits: float32, float16 or bfloat16."""
    try:
        found = value if value == "bfloat16" else str(np.dtype(value))
    except TypeError:
        found = str(value)
    if found not in DTYPES:
        raise TypeError(f"{name} is {found}; it must be float32, float16 or bfloat16")
    return str(found)


def logit_type(name: str, elements: str) -> int:
    """The DType of logits with these elements."""
    if elements not in DTYPES:
        raise wrong_floats(name, elements, "float32, float16 or bfloat16")
    return DTYPES[elements]


def wrong_floats(name: str, elements: str, wanted: str) -> TypeError:
    number = elements.startswith(("float", "int", "uint"))
    cast = "; astype('float32') converts them, or float() of a torch tensor" if number else ""
    return TypeError(f"{name} has elements of {elements}; they must be {wanted}{cast}")


def bias_type(elements: str) -> int:
    """The DType of a bias with these elements. NumPy has float16, so that uint16 is bfloat16."""
    return logit_type("bias", "bfloat16" if elements in ("uint16", "int16") else elements)


def ids(name: str, value: Any, ctype: str = "int32_t") -> Tuple[Any, int]:
    """An array of integers, as (pointer, count). An empty one is (NULL, 0)."""
    if type(value) in (list, tuple):
        try:
            return (ffi.new(ctype + "[]", value), len(value)) if value else (ffi.NULL, 0)
        except (TypeError, OverflowError, np.ma.MaskError):
            pass  # what is wrong, numpy() says
    array = numpy(name, value, ctype)
    if array.ndim == 0:
        raise TypeError(f"{name} must be a list or an array of integers, not {kind(value)}")
    if array.ndim != 1:
        raise ValueError(f"{name} has the shape {array.shape}; it must have one dimension")
    return pointer(array, ctype), array.size


def numpy(name: str, value: Any, ctype: str = "int32_t") -> np.ndarray[Any, Any]:
    """A contiguous array of integers of the C type."""
    unmasked(name, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise TypeError(f"{name} is no array of integers: {error}") from None
    dtype = np.dtype(ctype.replace("_t", ""))
    if array.size == 0:
        return np.zeros(array.shape, dtype)
    if array.dtype.kind not in "iu":
        exact = _integers(value)
        if exact is None:
            elements = "text" if array.dtype.kind in "SU" else array.dtype
            raise TypeError(f"{name} must have integers; its elements are {elements}")
        array = exact
    least, most = RANGES[ctype]
    if not (least <= int(array.min()) and int(array.max()) <= most):
        wrong = next(int(x) for x in array.flat if not least <= int(x) <= most)
        raise ValueError(f"{name} has {wrong}, which is not from {least} to {most}")
    return array.astype(dtype, order="C", copy=False)


def _integers(value: Any) -> Optional[np.ndarray[Any, Any]]:
    """Python's integers as they are, of which NumPy makes floats if some are above 2^63 - 1 and
    others are not. None: there are others."""
    if hasattr(value, "dtype"):
        return None
    exact: np.ndarray[Any, Any] = np.array(value, object)
    for place, one in np.ndenumerate(exact):
        try:
            exact[place] = operator.index(one)
        except TypeError:
            return None
    return exact


def pointer(array: np.ndarray[Any, Any], ctype: str) -> Any:
    """A pointer to a contiguous array's elements, which keeps the array."""
    return ffi.from_buffer(ctype + "[]", array) if array.size else ffi.NULL


def biases(name: str, value: Any) -> Tuple[Any, int]:
    """Logit biases: {id: bias}, or pairs."""
    pairs: List[Tuple[int, float]] = []
    try:
        found = list(value.items() if isinstance(value, Mapping) else value)
        for token, bias in found:
            pairs.append((integer(f"{name}'s id", token), real(f"{name}[{token}]", bias)))
    except (TypeError, ValueError) as error:
        if str(error).startswith(name):
            raise
        raise TypeError(f"{name} must be a dict of biases by token id, not {kind(value)}") from None
    return (ffi.new("cls_logit_bias[]", pairs), len(pairs)) if pairs else (ffi.NULL, 0)


def sequences(name: str, value: Any, keep: List[Any]) -> Tuple[Any, int]:
    """A list of lists of token ids."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of lists of token ids, not {kind(value)}")
    rows = [ids(f"{name}[{i}]", one) for i, one in enumerate(value)]
    keep.extend(rows)
    return (ffi.new("cls_ids[]", rows), len(rows)) if rows else (ffi.NULL, 0)


def stages(name: str, value: Any, length: int) -> List[int]:
    """The stages of a chain, by their names."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of stages, not {kind(value)}")
    found = [choice(f"{name}[{i}]", one, _types.Stage) for i, one in enumerate(value)]
    if len(found) > length:
        raise ValueError(f"{name} has {len(found)} stages; it can have {length}")
    return [integer(f"{name}[{i}]", one, "uint8_t") for i, one in enumerate(found)]


# How the lists of parameters are made, by their C types.
LISTS: Dict[str, Callable[[str, Any, List[Any]], Tuple[Any, int]]] = {
    "cls_ids": lambda name, value, keep: ids(name, value),
    "cls_biases": lambda name, value, keep: biases(name, value),
    "cls_sequences": sequences,
}


class Filler:
    """Fills the fields of one kind of struct from keyword arguments."""

    def __init__(self, structure: str, call: str, names: Iterable[str]) -> None:
        """names: the fields that may be named, as the generated TypedDict lists them."""
        self.structure = structure
        self.call = call
        self.names = list(names)
        fields = dict(ffi.typeof(structure).fields)
        self.ctypes: Dict[str, str] = {
            name: fields[name].type.cname.replace("struct ", "") for name in self.names
        }
        self.enums = _types.FIELD_ENUMS.get(structure, {})

    def __call__(self, struct: Any, values: Mapping[str, Any], keep: List[Any]) -> None:
        """Sets the fields. What they point to is appended to `keep`, to live as long as it. None
        stands for a list that is not given."""
        for name, value in values.items():
            ctype = self.ctypes.get(name)
            if ctype is None:
                raise self.unknown(name)
            if value is not None:
                self.set(struct, name, ctype, value, keep)
            elif not ctype.endswith("*") and ctype not in LISTS:
                raise TypeError(f"{name} is None; leave it out for its default")

    def unknown(self, name: str) -> TypeError:
        near = nearest(name, self.names)
        hint = f"; did you mean {near!r}?" if near else ""
        if name in ("greedy", "do_sample"):
            hint = "; temperature=0 is greedy"
        elif name in _types.Params.__annotations__:
            hint = "; it is a parameter of a request: see Sampler.begin()"
        return TypeError(f"{self.call} has no argument {name!r}{hint}")

    def set(self, struct: Any, name: str, ctype: str, value: Any, keep: List[Any]) -> None:
        found = self.enums.get(name)
        if name == "chain" and isinstance(value, Iterable) and not isinstance(value, str):
            struct.stages = stages(name, value, _types.CHAIN_LENGTH)
            struct.chain = _types.Chain.CUSTOM
        elif found:
            how = found[1]
            setattr(
                struct,
                name,
                choices(name, value, found[0], how == 2) if how else choice(name, value, found[0]),
            )
        elif ctype in RANGES:
            setattr(struct, name, integer(name, value, ctype))
        elif ctype in ("float", "double"):
            setattr(struct, name, real(name, value))
        elif ctype.startswith("uint8_t["):
            setattr(struct, name, stages(name, value, _types.CHAIN_LENGTH))
        elif ctype in LISTS:
            array, count = LISTS[ctype](name, value, keep)
            keep.append(array)
            setattr(struct, name, (array, count))
            if name == "allowed_ids":
                struct.only_allowed = 1  # also if the list is empty: then no token is allowed
        elif ctype == "char *":
            keep.append(ffi.new("char[]", os.fsencode(value)))
            setattr(struct, name, keep[-1])
        elif ctype == "cls_params *":
            if not isinstance(value, Mapping):
                raise TypeError(f"{name} must be a dict of parameters, not {kind(value)}")
            keep.append(new("cls_params"))
            setattr(struct, name, keep[-1])
            self(keep[-1], value, keep)
        elif ctype == "cls_grammar *":
            if not hasattr(value, "handle"):
                raise TypeError(f"{name} must be a clsample.Grammar, not {kind(value)}")
            keep.append(value.handle)
            setattr(struct, name, value.handle)
        else:
            raise TypeError(f"{self.call} cannot set {name!r}, whose C type is {ctype}")


def query(kind_: Type[T], function: Any, *arguments: Any) -> T:
    """The struct that a function fills, as one of the generated named tuples."""
    of: Any = kind_
    struct = new(of.structure())
    must(function(*arguments, struct))
    enums = _types.FIELD_ENUMS.get(of.structure(), {})
    values: List[Any] = []
    for name in of._fields:
        value = getattr(struct, name)
        if name in enums and enums[name][1] < 2:
            try:
                value = enums[name][0](value)
            except ValueError:
                pass  # of a newer library
        elif isinstance(value, ffi.CData):
            value = nested(value)
        values.append(value)
    return kind_(*values)


def nested(value: Any) -> Any:
    """A field that is no number: text, or an array of numbers."""
    if ffi.typeof(value).kind == "array":
        return tuple(value)
    return ffi.string(value).decode() if value else ""


def shape_of(words: Sequence[str], sizes: Mapping[str, int]) -> Tuple[int, ...]:
    """A shape as the headers write it, such as ("rows", "max_drafts + 1")."""
    return tuple([sizes[word] if word in sizes else _sum_of(word, sizes) for word in words])


def _sum_of(word: str, sizes: Mapping[str, int]) -> int:
    return sum(int(part) if part.isdigit() else sizes[part] for part in word.split(" + "))
