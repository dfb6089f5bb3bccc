# SPDX-License-Identifier: MIT
"""Requests, and their parameters."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from ._cffi import ffi
from ._library import Unique, lib, must
from ._structs import Filler, ids, integer, new, own
from ._types import Params

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._sampler import Sampler
    from ._types import Ids

_fill_params = Filler("cls_params", "the request", Params.__annotations__)


def new_params(values: Mapping[str, Any], keep: List[Any]) -> Any:
    """A cls_params of keyword arguments."""
    params = new("cls_params")
    if "watermark_key" in values:
        values = {"watermark_context": 4, **values}
    _fill_params(params, values, keep)
    return params


def seeded(values: Mapping[str, Any]) -> Dict[str, Any]:
    """The request's own copies of keyword arguments. The seed None becomes one of the system's."""
    found: Dict[str, Any] = own(values)
    if found.get("seed", 0) is None:
        found["seed"] = secrets.randbits(64)
    return found


class SavedRequest(bytes):
    """A request's whole state, for another sampler, process or machine. It can be pickled; its
    bytes are those that C programs save. params: the parameters that the request had, without its
    grammar, which Sampler.load() needs."""

    params: Optional[Dict[str, Any]]

    def __new__(cls, state: bytes, params: Optional[Dict[str, Any]] = None) -> SavedRequest:
        self = super().__new__(cls, state)
        self.params = params
        return self

    def __reduce__(self) -> Any:
        return type(self), (bytes(self), self.params)


class Request(Unique):
    """A request: parameters, position and tokens in a slot of a sampler.

    Sampler.begin() makes it. end(), leaving a `with` block, or its last reference frees the slot.
    The calls take effect with the sampler's next step, in their order. Lists, arrays and iterators
    that are given are read, and copied, during the call. A request cannot be copied by copy or
    pickle: fork() makes a copy in another slot, and save() one that can be pickled.
    """

    __slots__ = ("sampler", "_slot", "_params", "__weakref__")
    _instead = "fork() makes a copy in another slot, and save() one that can be pickled"

    def __init__(self, sampler: Sampler, slot: int, params: Optional[Dict[str, Any]]) -> None:
        self.sampler = sampler
        self._slot = slot
        self._params = params  # its own; see own()

    @property
    def slot(self) -> int:
        """The number of the slot, for maps on the device."""
        if self._slot < 0:
            raise ValueError("the request has ended")
        return self._slot

    @property
    def params(self) -> Optional[Dict[str, Any]]:
        """The parameters as keyword arguments, with the seed, which may have been drawn. None: it
        was loaded from bytes without them."""
        found: Optional[Dict[str, Any]] = own(self._params)
        return found

    def update(self, **changes: Unpack[Params]) -> None:
        """Changes parameters, as Sampler.begin() has them; the others stay. The position continues.
        seed=None draws a new seed."""
        owned_changes = seeded(changes)
        keep: List[Any] = []
        with self.sampler._locked():
            if self._params is None:
                raise ValueError(
                    "the parameters of a request that was loaded from plain bytes are "
                    "not known: pass them to load()"
                )
            merged = {**self._params, **owned_changes}
            self._call(lib.cls_slot_params, new_params(merged, keep))
            self._params = merged

    def _call(self, function: Any, *arguments: Any) -> None:
        """A call on the slot."""
        with self.sampler._locked():
            made = self.sampler._made(function, self.sampler.handle, self.slot, *arguments)
            self.sampler._must(made)

    def append_prompt(self, prompt: Ids) -> None:
        """Adds tokens to the prompt, such as the next chunk of a prefill."""
        self._call(lib.cls_slot_append_prompt, *ids("prompt", prompt))

    def next_turn(self, prompt: Ids = ()) -> None:
        """Begins the next turn of a conversation: the output so far becomes prompt, and `prompt` is
        added to it."""
        self._call(lib.cls_slot_next_turn, *ids("prompt", prompt))

    def rollback(self, count: int) -> None:
        """Removes the last `count` output tokens, as if they had never been accepted. The sampler's
        `max_rollback` limits the number."""
        self._call(lib.cls_slot_rollback, integer("count", count, "uint32_t"))

    def force(self, tokens: Ids) -> None:
        """Makes the next rows of the request emit these ids, one each, in place of the tokens that
        they would draw. They replace ids that are still due; an empty list only removes these."""
        self._call(lib.cls_slot_force, *ids("tokens", tokens))

    def fork(self, **changes: Unpack[Params]) -> Request:
        """A copy in another slot, with other parameters where `changes` names some. Without another
        seed or stream both draw the same numbers; seed=None draws a seed for the copy."""
        with self.sampler._locked():
            source = self.slot
            child = self.sampler._new(
                self.params, lambda handle, slot: lib.cls_slot_copy(handle, slot, source)
            )
            if changes:
                child.update(**changes)
            return child

    def save(self) -> SavedRequest:
        """The request's whole state. Waits for the sampler's steps."""
        size = ffi.new("size_t *")
        with self.sampler._locked():
            handle, slot = self.sampler.handle, self.slot
            queue = self.sampler.context._own_queue()
            must(lib.cls_slot_save(handle, queue, slot, ffi.NULL, size))
            out = ffi.new("char[]", size[0])
            must(lib.cls_slot_save(handle, queue, slot, out, size))
            params = self.params
            if params is not None:
                params.pop("grammar", None)
            return SavedRequest(bytes(ffi.buffer(out, size[0])), params)

    def end(self) -> None:
        """Frees the slot. A request that has ended stays so."""
        slot, self._slot = self._slot, -1
        if slot >= 0 and not self.sampler._lost:
            self.sampler._dropped.append(slot)
            self.sampler._collect()

    def __enter__(self) -> Request:
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def __del__(self) -> None:
        if getattr(self, "_slot", -1) >= 0:
            self.sampler._dropped.append(self._slot)  # the sampler may be in another call now

    def __repr__(self) -> str:
        return f"<clsample.Request in slot {self._slot}>" if self._slot >= 0 else "<ended request>"
