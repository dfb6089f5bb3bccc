# SPDX-License-Identifier: MIT
"""What help() and editors show of calls whose arguments are those of a struct: each argument with
its type, its default, which is the library's, and the header's comment."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Mapping

from . import _types
from ._cffi import ffi
from ._structs import new


def defaults_of(structure: str, arguments: Any, own: Mapping[str, Any]) -> Dict[str, Any]:
    """The defaults of arguments, which a TypedDict names. own: those that the package sets."""
    struct = new(structure)
    enums = _types.FIELD_ENUMS.get(structure, {})
    found: Dict[str, Any] = {}
    for name in arguments.__annotations__:
        value = own[name] if name in own else getattr(struct, name)
        if name not in own and isinstance(value, ffi.CData):
            value = () if ffi.typeof(value).kind == "array" else None
        elif name in enums and enums[name][1] == 0 and name not in own:
            value = enums[name][0](value).name.lower()
        elif isinstance(value, float):
            value = float(f"{value:.7g}")  # of float32
        found[name] = value
    return found


def describe(
    documented: Any, arguments: Any, manual: _types.Manual, defaults: Mapping[str, Any]
) -> str:
    """The docstring of a function or a class, and after it the arguments."""
    lines = [inspect.cleandoc(documented.__doc__), ""]
    for names, text in manual:
        for name in names:
            kind = arguments.__annotations__[name]
            kind = getattr(kind, "__forward_arg__", kind)
            lines.append(f"{name}: {kind} = {defaults[name]!r}")
        lines.append(text)
    return "\n".join(lines) + "\n"


def sign(function: Callable[..., Any], defaults: Mapping[str, Any]) -> None:
    """Makes inspect.signature() list the arguments in place of **arguments."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)
        for name, value in defaults.items()
    ]
    setattr(function, "__signature__", signature.replace(parameters=parameters))
