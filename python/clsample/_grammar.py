# SPDX-License-Identifier: MIT
"""Grammars: automata over token ids that requests follow on the device."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple
from typing import Union

import numpy as np

from ._cffi import ffi
from ._library import Unique, lib, must
from ._matcher import MOST_STATES, explored
from ._structs import ids, integer, kind, new, numpy, pointer, query
from ._types import GrammarInfo


class Arrays(NamedTuple):
    """The transitions as the library takes them: state after state, their ids ascending."""

    offsets: np.ndarray[Any, Any]
    ids: np.ndarray[Any, Any]
    next: np.ndarray[Any, Any]


class Grammar(Unique):
    """An automaton over the token ids of a vocabulary, which requests follow on the device.

        grammar = clsample.Grammar.from_outlines(index, vocab=32000, end_ids=[2])
        request = sampler.begin(prompt, grammar=grammar)

    A request draws only what its state allows; each token that it accepts moves it on. Steps can
    thus be enqueued ahead. After an end id, which a final state allows, the request stops. Any
    number of requests and samplers share a grammar, which never changes.

    transitions: for each state a dict of the next states by ids, as a dict by states or as a list;
        or three arrays, of which state s has the ids and next states offsets[s] to offsets[s + 1].
        States of a dict may be anything that can be its key: `states` has their numbers.
    start: the state in which requests begin, unless they have another grammar_state. It has number
        0 in a dict, and must be 0 otherwise.
    final_states: the states in which a text may end, by one of end_ids.
    draft_ids: the draft tokens of states, by states: what Sampler.draft() drafts there. A state
        that allows one id drafts it in any case.
    max_bytes: the most memory that the grammar may take in a sampler.
    """

    _instead = "save() it, make it again, or share it"
    states: Mapping[Any, int]

    def __init__(
        self,
        transitions: Any,
        *,
        vocab: int,
        start: Any = 0,
        final_states: Iterable[Any] = (),
        end_ids: Iterable[int] = (),
        max_bytes: int = 1 << 28,
        draft_ids: Optional[Mapping[Any, int]] = None,
    ) -> None:
        arrays, self.states = _arrays_of(transitions, start)
        flags = np.zeros(max(len(arrays.offsets) - 1, 1), np.uint8)
        for state in final_states:
            flags[_number(self.states, "final_states", state)] = 1
        drafts = np.full(len(flags), -1, np.int32)
        for state, token in (draft_ids or {}).items():
            drafts[_number(self.states, "draft_ids", state)] = integer("draft_ids", token)
        ends = ids("end_ids", list(end_ids))
        options = new("cls_grammar_options")
        options.vocab = integer("vocab", vocab, "uint32_t")
        options.states = len(arrays.offsets) - 1
        options.offsets = pointer(arrays.offsets, "uint64_t")
        options.ids = pointer(arrays.ids, "int32_t")
        options.next = pointer(arrays.next, "uint32_t")
        options.final_states = pointer(flags, "uint8_t")
        options.end_ids = ends
        options.draft_ids = pointer(drafts, "int32_t")
        options.max_bytes = integer("max_bytes", max_bytes, "uint64_t")
        out = ffi.new("cls_grammar **")
        must(lib.cls_grammar_create(options, out))
        self.handle = ffi.gc(out[0], lib.cls_grammar_destroy)
        self.vocab = int(options.vocab)

    @classmethod
    def from_outlines(
        cls,
        index: Any,
        *,
        vocab: int,
        end_ids: Iterable[int],
        max_bytes: int = 1 << 28,
        tokens: Optional[Sequence[bytes]] = None,
    ) -> Grammar:
        """That of an outlines_core.Index. end_ids: those of its vocabulary, which may end a text in
        its final states. vocab: that of the sampler, which may be larger. tokens: the bytes of each
        token, by which states have draft tokens (draft_ids())."""
        ends = set(end_ids)
        transitions = index.get_transitions()
        for state in index.get_final_states():
            transitions.setdefault(state, {})
        for state, found in transitions.items():
            if not ends.isdisjoint(found):
                transitions[state] = {t: to for t, to in found.items() if t not in ends}
        final = index.get_final_states()
        return cls(
            transitions,
            vocab=vocab,
            start=index.get_initial_state(),
            final_states=final,
            end_ids=sorted(ends),
            max_bytes=max_bytes,
            draft_ids=None if tokens is None else draft_ids(transitions, final, tokens),
        )

    @classmethod
    def from_matcher(
        cls,
        matcher: Any,
        tokens: Sequence[bytes],
        *,
        end_ids: Iterable[int],
        max_states: int = MOST_STATES,
        max_bytes: int = 1 << 28,
    ) -> Grammar:
        """That of an xgrammar.GrammarMatcher or an llguidance.LLMatcher, which is explored: all
        texts that it allows, token by token. It must allow finitely many texts, such as a choice
        of names. After more than max_states different beginnings of texts it is refused; the masks
        of steps serve then.

        tokens: the bytes of each token of the vocabulary; b"" for one that is no text, such as a
        special token, which then is a symbol of its own. Texts of equal bytes are one state, unless
        the matcher goes on differently after two of them that were followed, among them each token
        that may be the last one of a text: then each sequence of tokens is a state. States have
        draft tokens (draft_ids()).
        end_ids: all ids that end a text of the matcher, and no others.
        """
        words = list(tokens)
        for token, word in enumerate(words):
            if not isinstance(word, bytes):
                raise TypeError(f"tokens[{token}] must be bytes, not {kind(word)}")
        ends = sorted(set(end_ids))
        most = integer("max_states", max_states, "uint32_t")
        transitions, final = explored(matcher, words, set(ends), most)
        return cls(
            transitions,
            vocab=len(words),
            final_states=final,
            end_ids=ends,
            max_bytes=max_bytes,
            draft_ids=draft_ids(dict(enumerate(transitions)), final, words),
        )

    def save(self, vocabulary: Optional[Vocabulary] = None) -> bytes:
        """The grammar as bytes, which load() takes, and the library's own call in C, also on
        another machine. vocabulary: the tokens that the ids stand for, as the bytes of each (b""
        for one that is no text), or their vocabulary_digest(); then only who names the same can
        load it.
        """
        digest, size = _digest(vocabulary), ffi.new("size_t *")
        must(lib.cls_grammar_save(self.handle, digest, ffi.NULL, size))
        out = ffi.new("uint8_t[]", size[0])
        must(lib.cls_grammar_save(self.handle, digest, out, size))
        return bytes(ffi.buffer(out, size[0]))

    @classmethod
    def load(
        cls, state: bytes, vocabulary: Optional[Vocabulary] = None, *, max_bytes: int = 1 << 28
    ) -> Grammar:
        """A grammar that save() has written, with the same digest. vocabulary: as there; what was
        saved for another one, or for none, is refused. None: whatever the ids stand for. Requests
        begin in state 0, as before."""
        if not isinstance(state, (bytes, bytearray, memoryview)):
            raise TypeError(f"state must be bytes, not {kind(state)}")
        saved, data = new("cls_saved_grammar"), ffi.from_buffer("uint8_t[]", state)
        digest = _digest(vocabulary)
        saved.bytes, saved.size, saved.vocabulary = data, len(data), digest
        saved.max_bytes = integer("max_bytes", max_bytes, "uint64_t")
        out = ffi.new("cls_grammar **")
        must(lib.cls_grammar_load(saved, out))
        self = cls.__new__(cls)
        self.handle = ffi.gc(out[0], lib.cls_grammar_destroy)
        self.vocab = int(self.info.vocab)
        self.states = {state: state for state in range(self.info.states)}
        return self

    @property
    def info(self) -> GrammarInfo:
        """Its numbers of states, classes and bitmaps, its bytes in a sampler, and its digest."""
        return query(GrammarInfo, lib.cls_grammar_query, self.handle)

    def mask(self, state: int = 0) -> np.ndarray[Any, Any]:
        """What a state, by its number, allows, as a step's mask: int32 [ceil(vocab / 32)]."""
        words = np.zeros((self.vocab + 31) // 32, np.int32)
        must(
            lib.cls_grammar_mask(
                self.handle, integer("state", state, "uint32_t"), pointer(words, "int32_t")
            )
        )
        return words

    def advance(self, tokens: Any, state: int = 0) -> int:
        """The number of the state after tokens. clsample.GRAMMAR_ENDED and GRAMMAR_DEAD are states
        that allow nothing: after an end id, and after a token that the grammar does not allow."""
        array, count = ids("tokens", tokens)
        found = ffi.new("uint32_t *", integer("state", state, "uint32_t"))
        must(lib.cls_grammar_advance(self.handle, array, count, found))
        return int(found[0])

    def __repr__(self) -> str:
        return f"<clsample.Grammar of {self.info.states} states>"


# ----------------------------------------------------------------------------------- drafts


def draft_ids(
    transitions: Mapping[Any, Iterable[int]], final_states: Iterable[Any], tokens: Sequence[bytes]
) -> Dict[Any, int]:
    """The draft tokens of states whose next bytes are certain: the longest token that a state
    allows, if the bytes of all others that it allows are prefixes of it. Where `"`, `"n` and
    `"name` are allowed, the model most likely writes `"name`. A state in which the text may also
    end has none, nor has one that allows tokens without bytes."""
    found: Dict[Any, int] = {}
    final = set(final_states)
    for state, allowed in transitions.items():
        longest = _longest(allowed, tokens) if state not in final else None
        if longest is not None:
            found[state] = longest
    return found


def _longest(allowed: Iterable[int], tokens: Sequence[bytes]) -> Optional[int]:
    """Large sets mostly end at their second token: it does not begin as the first one does."""
    best, text = None, b""
    for token in allowed:
        word = tokens[token] if token < len(tokens) else b""
        if not word or not (word.startswith(text) or text.startswith(word)):
            return None
        if best is None or (len(word), -token) > (len(text), -best):
            best, text = token, word
    return best


# ----------------------------------------------------------------------------- vocabularies

Vocabulary = Union[bytes, Sequence[bytes]]


def vocabulary_digest(tokens: Sequence[bytes]) -> bytes:
    """The 32 bytes that name a vocabulary, of the bytes of each token (b"" for one that is no
    text): a SHA-256, which the library also computes in C."""
    texts = []
    for token, text in enumerate(tokens):
        if not isinstance(text, bytes):
            raise TypeError(f"vocabulary[{token}] must be bytes, not {kind(text)}")
        texts.append(ffi.from_buffer(text))
    lengths = ffi.new("uint32_t[]", [len(text) for text in texts])
    out = ffi.new("uint8_t[32]")
    must(lib.cls_vocabulary_digest(ffi.new("void *[]", texts), lengths, len(texts), out))
    return bytes(ffi.buffer(out))


def _digest(vocabulary: Optional[Vocabulary]) -> Any:
    if vocabulary is None:
        return ffi.NULL
    if not isinstance(vocabulary, bytes):
        vocabulary = vocabulary_digest(vocabulary)
    if len(vocabulary) != 32:
        raise ValueError(f"vocabulary has {len(vocabulary)} bytes; a digest has 32")
    return ffi.new("uint8_t[32]", vocabulary)


# ---------------------------------------------------------------------------- transitions


def _number(states: Mapping[Any, int], name: str, state: Any) -> int:
    try:
        return states[state]
    except (KeyError, TypeError, IndexError):
        raise ValueError(f"{name} has the state {state!r}, which has no transitions") from None


def _arrays_of(transitions: Any, start: Any) -> Tuple[Arrays, Mapping[Any, int]]:
    """The arrays of any form of transitions, and the numbers of its states."""
    if isinstance(transitions, Mapping):
        return _numbered(transitions, start)
    if start != 0:
        raise ValueError("start must be 0, unless the transitions are a dict by states")
    if isinstance(transitions, tuple) and len(transitions) == 3:
        offsets, tokens, following = transitions
        arrays = Arrays(
            numpy("offsets", offsets, "uint64_t").ravel(),
            numpy("ids", tokens).ravel(),
            numpy("next", following, "uint32_t").ravel(),
        )
        if len(arrays.offsets) < 2 or not (
            len(arrays.ids) == len(arrays.next) == arrays.offsets[-1]
        ):
            raise ValueError(
                "offsets must have one number more than there are states, and its last one must be "
                "the number of ids, and of next states"
            )
        return arrays, {s: s for s in range(len(arrays.offsets) - 1)}
    if isinstance(transitions, (str, bytes)) or not isinstance(transitions, Iterable):
        raise TypeError(f"transitions must be a dict, a list or three arrays, not "
                        f"{kind(transitions)}")
    return _numbered(dict(enumerate(transitions)), start)


def _numbered(
    transitions: Mapping[Any, Mapping[int, Any]], start: Any
) -> Tuple[Arrays, Mapping[Any, int]]:
    """Numbers the states from 0, which is the start."""
    if start not in transitions:
        raise ValueError(f"start is {start!r}, which is no state of the transitions")
    states: Dict[Any, int] = {start: 0}
    for state in transitions:
        states.setdefault(state, len(states))
    offsets = np.zeros(len(states) + 1, np.uint64)
    tokens: List[np.ndarray[Any, Any]] = []
    following: List[np.ndarray[Any, Any]] = []
    for number, state in enumerate(states):
        found = transitions[state]
        if not isinstance(found, Mapping):
            raise TypeError(f"the transitions of state {state!r} must be a dict of next states by "
                            f"ids, not {kind(found)}")
        each = numpy(f"the ids of state {state!r}", list(found))
        order = np.argsort(each, kind="stable")
        try:
            to = np.array([states[one] for one in found.values()], np.uint32)
        except (KeyError, TypeError):
            wrong = next(one for one in found.values() if one not in states)
            raise ValueError(
                f"state {state!r} leads to {wrong!r}, which is no state of the transitions; a "
                "state without transitions has an empty dict"
            ) from None
        tokens.append(each[order])
        following.append(to[order])
        offsets[number + 1] = offsets[number] + len(found)
    return Arrays(offsets, np.concatenate(tokens), np.concatenate(following)), states
