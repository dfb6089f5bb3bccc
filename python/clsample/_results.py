# SPDX-License-Identifier: MIT
"""What the calls that enqueue return: arrays on the device, and the event after which they are
complete; on the host arrays that are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, TypeVar

import numpy as np

from . import _opencl
from ._arrays import Array, DeviceArray, HostArray
from ._enums import Arrays
from ._opencl import Event
from ._types import GivenTokens, Outputs, RowStatus, TopTokens

if TYPE_CHECKING:
    from ._arguments import Writer


class Statuses(HostArray):
    """int32 [rows] on the host, whose elements are RowStatus."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return RowStatus(int(found)) if isinstance(found, np.int32) else found

    def __array_wrap__(self, array: Any, *others: Any) -> Any:
        return np.asarray(array)[()]  # what is computed of statuses is none

    def finish_reasons(self) -> List[Optional[str]]:
        """RowStatus.finish_reason of each row."""
        return [RowStatus(status).finish_reason for status in self.tolist()]

    def __str__(self) -> str:
        if self.ndim != 1 or self.dtype != np.int32:  # made of statuses
            return str(np.asarray(self))
        return f"[{' '.join(str(RowStatus(status)) for status in self.tolist())}]"

    def __repr__(self) -> str:
        return f"Statuses({self})"


class StatusArray(DeviceArray):
    """int32 [rows] on the device, which get() brings to the host as Statuses."""

    __slots__ = ()

    def get(self, out: Optional[np.ndarray[Any, Any]] = None) -> np.ndarray[Any, Any]:
        """Waits, and returns the statuses, whose elements are RowStatus."""
        found = super().get(out)
        return found if out is not None else found.view(Statuses)


class Result(Arrays):
    """What a call that enqueues returns at once.

    event: the Event after which all arrays of the result are complete; None on the host, where they
    are when the call returns.
    copied: whether logits (or biases, or distributions of drafts) of the host were copied to the
    device. Otherwise it reads the host's arrays themselves, which must not change until `done`.
    """

    event: Optional[Event]
    copied: bool

    def __init__(self) -> None:
        self._small: List[Any] = []

    def wait(self) -> None:
        """Waits until the call's commands are complete."""
        if self.event is not None:
            self.event.wait()

    @property
    def done(self) -> bool:
        """Whether the call's commands are complete. Does not wait."""
        return self.event is None or self.event.done

    def get(self) -> Dict[str, np.ndarray[Any, Any]]:
        """Waits, and brings the new arrays of few bytes a row to the host in one transfer: a dict
        by their names, such as {"tokens": ..., "top.ids": ...}. Each array's own get() brings one.
        """
        if not self._small:
            self.wait()
            return {}
        first = self._small[0][1]
        if isinstance(first, HostArray):
            return dict(self._small)
        size = sum(array.size * 4 for _, array in self._small)
        block = np.empty(size, np.uint8)
        _opencl.read(first.queue._handle, first.mem, 0, block, first._event)
        found = {
            name: block[array.offset : array.offset + array.size * 4]
            .view(array.dtype)
            .reshape(array.shape)
            for name, array in self._small
        }
        if "status" in found:
            found["status"] = found["status"].view(Statuses)
        return found


class Rows(Result):
    """A result with a status for each row, or for each request."""

    status: Array

    def finish_reasons(self) -> List[Optional[str]]:
        """Waits, and returns why each request ends: "stop", "length", "repetition", "ended" if it
        had ended before, or None while it runs. Which stop id it was is the row's token. See
        RowStatus.finish_reason."""
        return self.status.get().view(Statuses).finish_reasons()


class Step(Outputs, Rows):
    """One step: a token for each row. All arrays are on the device.

    tokens      int32 [rows]; invalid_token (-1) where a row has none
    status      int32 [rows]; on the host its elements are RowStatus
    and the outputs that were asked for.
    """

    tokens: Array


class Verified(Outputs, Rows):
    """The result of a verification. All arrays are on the device.

    tokens      int32 [requests, max_drafts + 1]: the emitted tokens, then -1
    accepted    int32 [requests]: the number of drafts that were emitted
    emitted     int32 [requests]: the number of tokens in all
    drafted     int32 [requests]: how many draft ids were in the vocabulary
    nodes       int32 [requests, max_drafts]: the indices of the emitted drafts, then -1
    status      int32 [requests]: the RowStatus of all rows that were used
    token_status
                int32 [requests, max_drafts + 1]: the RowStatus bits of each token
    and the outputs that were asked for, which have [requests, max_drafts + 1] in place of [rows].
    """

    tokens: Array
    accepted: Array
    emitted: Array
    drafted: Array
    nodes: Array
    counters: Optional[Array] = None
    token_status: Optional[Array] = None


class Drafts(Result):
    """Drafts from the requests' own text. Both arrays are on the device.

    draft_ids   int32 [requests, k], for Sampler.verify()
    counts      int32 [requests]: k, or 0 for a request without drafts
    """

    draft_ids: Array
    counts: Array


class Logprobs(Result):
    """Log-probabilities of rows without requests: `top` and `given`, as Step has them."""

    top: Optional[TopTokens] = None
    given: Optional[GivenTokens] = None


R = TypeVar("R", bound="Result")


def finish(result: R, writer: Writer, event: Any, queue: Any) -> R:
    writer.enqueued(event, queue)
    result.event = None if event is None else Event(event)
    result.copied = writer.call.copied
    result._small = writer.small
    return result
