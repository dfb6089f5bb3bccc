# SPDX-License-Identifier: MIT
"""The drafts that Sampler.verify() is given."""

from __future__ import annotations

from typing import Any, Iterable, List

import numpy as np

from . import _structs, _types
from ._arguments import Call
from ._structs import integer, kind


def listed(name: str, lists: Any, order: str) -> List[Any]:
    """The lists, which are read twice, so that an iterator would be used up."""
    try:
        return list(lists)
    except TypeError:
        raise no_lists(name, lists, order) from None


def no_lists(name: str, value: Any, order: str) -> TypeError:
    """order: of the call's arguments, which may have been swapped."""
    return TypeError(
        f"{name} must be a list of lists of ids, not {kind(value)}; the order is {order}"
    )


def flat(name: str, lists: Iterable[Any]) -> np.ndarray[Any, Any]:
    found = [_structs.numpy(f"{name}[{i}]", one) for i, one in enumerate(lists)]
    return np.concatenate(found) if found else np.zeros(0, np.int32)


def lengths_of(drafts: Any, draft_ids: Any, count: int, order: str) -> List[int]:
    try:
        lengths = [
            (
                integer(f"drafts[{i}]", one, "uint32_t")
                if draft_ids is not None and not hasattr(one, "__len__")
                else len(one)
            )
            for i, one in enumerate(drafts)
        ]
    except TypeError:
        raise no_lists("drafts", drafts, order) from None
    if len(lengths) != count:
        raise ValueError(
            f"drafts has {len(lengths)} lists for {count} requests; the order is {order}"
        )
    return lengths


def sparse(
    call: Call, struct: Any, probs: Any, tokens: Any, draft_map: Any, total: int
) -> None:
    """A few tokens for each draft, and their probabilities."""
    shape = np.shape(tokens)
    width = shape[-1] if shape else 0
    ids = call.tokens("draft_tokens", tokens, total, width)
    found, elements = call.floats("draft_probs", probs, total, width, None)
    if elements != "float32":
        raise _structs.wrong_floats("draft_probs", elements, "float32")
    if ids.row_stride != found.row_stride:
        raise ValueError(
            f"draft_probs has its rows {found.row_stride} elements apart, but draft_tokens"
            f" {ids.row_stride}"
        )
    struct.draft_kind = _types.DraftKind.SPARSE
    struct.draft_width, struct.draft_stride = width, found.row_stride
    call.buffer(struct.draft, found)
    call.buffer(struct.draft_tokens, ids)
    if draft_map is not None:
        length = (np.shape(draft_map) or (0,))[-1]
        ids = call.tokens("draft_map", draft_map, 1, length)
        struct.draft_vocab = ids.shape[-1]
        call.buffer(struct.draft_map, ids)


def distributions(
    call: Call,
    struct: Any,
    probs: Any,
    logits: Any,
    tokens: Any,
    draft_map: Any,
    total: int,
    vocab: int,
    dtype: Any,
) -> None:
    if probs is not None and logits is not None:
        raise TypeError("draft_probs and draft_logits are both given; only one may be")
    if tokens is not None and probs is None:
        raise TypeError("draft_tokens is given, but draft_probs is not")
    if draft_map is not None and tokens is None:
        raise TypeError("draft_map is given, but draft_tokens is not")
    if (probs is None and logits is None) or total == 0:
        return
    if tokens is not None:
        sparse(call, struct, probs, tokens, draft_map, total)
        return
    name, value = ("draft_probs", probs) if probs is not None else ("draft_logits", logits)
    found, elements = call.floats(name, value, total, vocab, dtype if probs is None else None)
    wanted = "float32" if probs is not None else list(_structs.DTYPES)[struct.logits.dtype]
    if elements != wanted:
        raise _structs.wrong_floats(name, elements, wanted)
    kinds = _types.DraftKind
    struct.draft_kind = kinds.PROBS if probs is not None else kinds.LOGITS
    struct.draft_stride = found.row_stride
    call.buffer(struct.draft, found)
