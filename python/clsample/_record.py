# SPDX-License-Identifier: MIT
"""The option `record`: the calls on a sampler as a text that clsample run replays."""

from __future__ import annotations

import _thread
import os
import threading
import warnings
from typing import Any, List, Optional

from ._cffi import ffi


def numbered(path: str, number: int) -> str:
    """The text of a context's sampler: that of the first is the path itself."""
    stem, suffix = os.path.splitext(path)
    return path if number == 1 else f"{stem}-{number}{suffix}"


def absolute(path: Any) -> str:
    """The path of a text, which stays the same where the program changes its folder."""
    path = os.fspath(path)
    if not isinstance(path, str):
        raise TypeError(f"record must be a path, not {type(path).__name__}")
    return os.path.abspath(path)


def start(struct: Any, path: Any, keep: List[Any]) -> None:
    """Lets the library write the calls of a sampler, whose options these are."""
    path = absolute(path)
    folder, name = os.path.split(path)
    process = os.getpid()
    prefix = ffi.new("char[]", os.path.splitext(name)[0].encode("utf-8", "replace"))
    with open(path, "ab"):
        pass  # a path that cannot be written raises here

    def write(user: Any, file: Any, offset: int, data: Any, size: int) -> int:
        if os.getpid() != process:
            return 1  # after fork() the text is the parent's
        to = os.path.join(folder, ffi.string(file).decode() if file else name)
        with open(to, "ab" if offset else "wb") as out:
            out.write(ffi.buffer(data, size))
        return 0

    def failed(kind: Any, value: Optional[BaseException], trace: Any) -> None:
        if isinstance(value, KeyboardInterrupt):
            # cffi would drop it, here as well: it comes again when the call has returned.
            threading.Timer(0.01, _thread.interrupt_main).start()
        warnings.warn(f"{path}: {value!r}; the record ends here", RuntimeWarning, stacklevel=2)

    callback = ffi.callback(
        "int(void *, const char *, uint64_t, const void *, size_t)", write, 1, failed
    )
    struct.record, struct.record_name = callback, prefix
    keep += [callback, prefix]
