# SPDX-License-Identifier: MIT
"""What the classes of _types.py, which is generated, derive from. They print their names."""

from __future__ import annotations

import enum
import operator
from typing import Any, Optional


class Arrays:
    """What has arrays on the device as attributes, perhaps in groups."""

    def __repr__(self) -> str:
        found = [
            name
            for name, value in vars(self).items()
            if isinstance(value, Arrays) or hasattr(value, "__dlpack__")
        ]
        return f"<clsample.{type(self).__name__} of {', '.join(found) or 'no arrays'}>"


class Names(enum.IntEnum):
    """One of several values."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)


class Bits(enum.IntFlag):
    """A sum of bits, such as STOPPED|LENGTH."""

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        return super()._missing_(operator.index(value))  # also of NumPy's integers

    def __str__(self) -> str:
        value, members = int(self), type(self).__members__.items()
        found = [name for name, bit in members if bit & value]
        rest = value & ~sum(type(self).__members__.values())
        if rest:
            found.append(hex(rest))  # of a newer library
        none = next((name for name, bit in members if bit == 0), "0")
        return "|".join(found) or none

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)


class RowBits(Bits):
    """A row's status."""

    @property
    def finish_reason(self) -> Optional[str]:
        """Why the request ends with this row, in the words of vLLM and OpenAI: "stop" (the row's
        token is a stop id), "length" (max_tokens) or "repetition" (loop_repeats); None while it
        runs. "ended": it had ended before, SKIPPED, and an earlier row, if there was one, had the
        reason."""
        members = type(self).__members__
        if self & members["SKIPPED"] and self & members["STOPPED"]:
            return "ended"
        return next((reason for bit, reason in _FINISHED if members[bit] & self), None)


_FINISHED = (("LOOP", "repetition"), ("LENGTH", "length"), ("STOPPED", "stop"))
