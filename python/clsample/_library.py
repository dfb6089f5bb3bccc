# SPDX-License-Identifier: MIT
"""Opens libclsample, and checks that it has what this package was generated for."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, TypeVar

from . import _types
from ._cffi import ffi
from ._errors import BY_STATUS, Error, LibraryError

C = TypeVar("C", bound="Closed")
_SUFFIXES = ("so", "dylib", "dll")
# What an argument is in Python where it is not the library's field of this name.
ARGUMENTS = {
    "ids": "tokens",
    "slots": "requests",
    "rows": "the number of rows",
    "requests": "the number of requests",
    "per_row": "the number of tokens of a row",
    "token_count": "count",
    "logits.values": "logits",
    "logits.dtype": "the dtype of logits",
    "logits.softcap": "softcap",
    "logits_rows": "the number of rows of logits",
    "mask.words": "mask",
    "mask.host": "mask",
    "mask.row_map": "mask_map",
    "bias.values": "bias",
    "bias.dtype": "the dtype of bias",
    "bias.row_map": "bias_map",
    "bias.factor": "bias_factor",
    "draft": "draft_probs or draft_logits",
    "draft_width": "the width of draft_tokens",
    "draft_count": "the number of drafts",
    "row_offsets": "drafts",
    "top.count": "top",
    "given.count": "given",
    "kept.count": "kept",
    "kept_set.capacity": "kept_set",
}


def _open() -> Tuple[Any, str]:
    """The library beside this file, or else the one of the system."""
    folder = pathlib.Path(__file__).parent
    names = [str(path) for suffix in _SUFFIXES for path in folder.glob(f"libclsample*.{suffix}")]
    name = names[0] if names else _types.LIBRARY
    try:
        return ffi.dlopen(name), name
    except OSError as error:
        raise LibraryError(f"clsample cannot open its library: {error}") from None


def table(library: Any) -> Dict[str, Dict[str, Tuple[int, int, int]]]:
    """The library's own list of its structs: for each field the size of its struct, and its offset
    and size in it."""
    structs: Dict[str, Dict[str, Tuple[int, int, int]]] = {}
    index = 0
    while True:
        field = library.cls_struct_field(index)
        if not field:
            return structs
        name = ffi.string(field.structure).decode()
        place = (field.structure_size, field.offset, field.size)
        structs.setdefault(name, {})[ffi.string(field.name).decode()] = place
        index += 1


def check(library: Any, name: str) -> None:
    """Raises LibraryError if the library is older than this package, or lays out a struct in
    another way. Newer libraries fit, since structs only grow at their ends."""
    try:
        version = library.cls_version_number()
        theirs = table(library)
    except (AttributeError, ffi.error) as error:
        raise LibraryError(
            f"the library {name} is older than this package, which is version "
            f"{_types.VERSION}: {error}"
        ) from None
    said = f"the library {name} is version {ffi.string(library.cls_version()).decode()}"
    if version < _types.VERSION_NUMBER:
        raise LibraryError(
            f"{said}, older than this package, which is version "
            f"{_types.VERSION}: install a newer libclsample"
        )
    for structure in _types.STRUCTS:
        for field, _ in ffi.typeof(structure).fields:
            if field not in theirs.get(structure, {}):
                raise LibraryError(
                    f"{said}, but its {structure} has no field {field!r}: it is "
                    "older than this package"
                )
    for structure in _types.STRUCTS:
        ours = ffi.typeof(structure)
        for field, place in ours.fields:
            found = theirs[structure][field]
            size, offset = ffi.sizeof(place.type), place.offset
            if found[0] < ffi.sizeof(ours) or found[1:] != (offset, size):
                raise LibraryError(
                    f"{said}, and does not fit this package: its {structure}.{field} has {found[2]}"
                    f" bytes at byte {found[1]} of {found[0]}, where this package has {size} bytes "
                    f"at byte {offset} of {ffi.sizeof(ours)}"
                )


lib, path = _open()
check(lib, path)


class _Process:
    """What this process may do. After fork() a child may not use, or free, what its parent opened
    in OpenCL."""

    opened = False  # OpenCL was used
    forked = False  # by the parent of this process


process = _Process()


def _after_fork() -> None:
    process.forked = process.forked or process.opened


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_process() -> None:
    """Raises if this process was forked from one that uses OpenCL."""
    if process.forked:
        raise RuntimeError(
            "this process was forked from one that had opened a device, and OpenCL "
            "does not survive fork(): open the device only in the child, or start "
            "it by multiprocessing's 'spawn'"
        )


def owned(pointer: Any, destroy: Callable[[Any], Any]) -> Any:
    """The same pointer, which is destroyed with its last reference, but not in a forked child."""

    def end(handle: Any) -> None:
        if not process.forked:
            destroy(handle)

    return ffi.gc(pointer, end)


class Unique:
    """What frees something when it ends, and is therefore not copied."""

    __slots__ = ()
    _instead = "create another"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """copy and pickle call this."""
        name = type(self).__name__
        raise TypeError(f"a {name} cannot be copied or pickled: {self._instead}")


class Closed(Unique):
    """What the end of a `with` block closes."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def must(status: int) -> None:
    """Raises the exception of a status that is not Status.OK."""
    if status != 0:
        raise failure(status)


def failure(status: int, names: Optional[Mapping[str, str]] = None, **more: Any) -> Error:
    """The exception of a status, to be raised at once: a variable of a caller that kept it would
    keep the caller's frame, and so requests and arrays, until the cyclic collector runs.

    names: what the call's caller calls otherwise than the library. more: attributes of the
    exceptions that have them.
    """
    field, sentence = text(lib.cls_error_field()), text(lib.cls_error_message())
    sentence = argument(field, names or {}) + sentence[len(field) :]
    kind = BY_STATUS.get(status, Error)
    error = kind(
        sentence or ffi.string(lib.cls_status_name(status)).decode(), lib.cls_error_opencl()
    )
    for name, value in more.items():
        if hasattr(error, name):
            setattr(error, name, value)
    return error


def argument(field: str, names: Mapping[str, str]) -> str:
    """The argument that the library calls `field`. Lists are Python's here."""
    path = re.sub(r"\.(?:ids|sequences|biases)\b", "", field.rpartition("->")[2])
    if path.endswith(".count") and path not in ARGUMENTS:
        return f"len({path[:-6]})"
    name, bracket, index = path.partition("[")
    if name == "ids" and name != field.partition("[")[0]:
        return path  # a grammar's
    return names.get(path) or ARGUMENTS.get(name, name) + bracket + index


def text(pointer: Any) -> str:
    """A C string of the library."""
    found: bytes = ffi.string(pointer) if pointer else b""
    return found.decode("utf-8", "replace")


def library_version() -> str:
    """The version of libclsample, which may be newer than this package."""
    return text(lib.cls_version())


def arithmetic_version() -> int:
    """The number of the rules that decide a token. Libraries of one number get the same tokens from
    the same calls, whatever their version and device."""
    return int(lib.cls_arithmetic_version())
