# SPDX-License-Identifier: MIT
"""The automaton of a matcher of XGrammar or llguidance, which is explored token by token.

A matcher does not show its states: all that it says of a text is which tokens may follow. A state
here is the bytes of a text, in which a token without bytes is a symbol. Many sequences of tokens
write the same text, and the matcher must allow the same tokens after each of them that is seen.
Two are followed to each text: by the longest token that may be its last one, and by the shortest.
Then each other token that may be the last one, as one of equal bytes may, is followed to all texts
behind. Where two sequences differ, since the matcher counts tokens or knows some by their ids, each
sequence of tokens is a state. Sequences that differ from the first one in several places are not
all followed: there are too many.
"""

from __future__ import annotations

import hashlib
import heapq
from typing import Any, Dict, List, NoReturn, Sequence, Set, Tuple, Union

import numpy as np

from ._structs import kind

MOST_STATES = 1 << 17
# Bytes of a text. To copy a matcher of llguidance takes 2 us behind 100 tokens, and 1.3 ms behind
# 50,000, so that an endless text would take hours to come to the most states.
MOST_LENGTH = 1 << 13
KEPT = 64  # matchers, each of up to 300 kB


class XGrammar:
    def __init__(self, matcher: Any, vocab: int) -> None:
        import xgrammar

        self.words = xgrammar.allocate_token_bitmask(1, vocab)
        self.stops = set(matcher.stop_token_ids)

    def copy(self, matcher: Any) -> Any:
        return matcher.fork()

    def mask(self, matcher: Any) -> np.ndarray[Any, Any]:
        """The tokens that may follow, a bit each, as uint8."""
        matcher.fill_next_token_bitmask(self.words)
        found: np.ndarray[Any, Any] = self.words.numpy()[0].view(np.uint8)
        return found

    def accept(self, matcher: Any, token: int) -> bool:
        """Takes a token that may follow; returns whether it has ended the text."""
        if not matcher.accept_token(token):
            raise ValueError(NOT_ACCEPTED.format(token))
        return token in self.stops and bool(matcher.is_terminated())


class LLGuidance:
    def copy(self, matcher: Any) -> Any:
        return matcher.deep_copy()

    def mask(self, matcher: Any) -> np.ndarray[Any, Any]:
        found = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():  # it then allows the end
            raise ValueError(f"the matcher has failed: {matcher.get_error()}")
        return found

    def accept(self, matcher: Any, token: int) -> bool:
        complete = matcher.is_stopped()  # only an end may follow
        if not matcher.consume_token(token):
            raise ValueError(NOT_ACCEPTED.format(token))
        return bool(complete or matcher.stop_reason() == "EndOfSentence")


Interface = Union[XGrammar, LLGuidance]
NOT_ACCEPTED = "the matcher allows the token {}, and does not accept it"


def interface(matcher: Any, vocab: int) -> Interface:
    if hasattr(matcher, "fill_next_token_bitmask"):
        return XGrammar(matcher, vocab)
    if hasattr(matcher, "compute_bitmask"):
        return LLGuidance()
    raise TypeError(
        "matcher must be an xgrammar.GrammarMatcher or an llguidance.LLMatcher, not "
        + kind(matcher)
    )


class Ways:
    """A way to each state: the token that leads to it, and the state before. Matchers are kept for
    the latest states only, and are made again from those: all of them would take gigabytes, and
    llguidance's rollback() does not always restore what may follow."""

    def __init__(self, engine: Interface, matcher: Any) -> None:
        self.engine, self.first = engine, engine.copy(matcher)
        self.before: Dict[int, Tuple[int, int]] = {}
        self.kept: Dict[int, Any] = {}

    def matcher(self, state: int) -> Any:
        at, ahead = state, []
        while at != 0 and at not in self.kept:
            at, token = self.before[at]
            ahead.append(token)
        found = self.engine.copy(self.kept.get(at, self.first))
        for token in reversed(ahead):
            self.engine.accept(found, token)
        self.kept[state] = found
        if len(self.kept) > KEPT:
            del self.kept[next(iter(self.kept))]
        return found


class TellsApart(Exception):
    """Two sequences of tokens write the same text, and the matcher goes on differently."""


class Explorer:
    """What is known of a matcher's texts. apart: whether each token is a symbol, so that no two
    sequences of tokens write the same text."""

    def __init__(
        self, matcher: Any, tokens: Sequence[bytes], ends: Set[int], most: int, apart: bool
    ) -> None:
        self.tokens, self.ends, self.most, self.apart = tokens, ends, most, apart
        self.engine = interface(matcher, len(tokens))
        self.first, self.last = Ways(self.engine, matcher), Ways(self.engine, matcher)
        self.longer: Dict[Tuple[int, Any], int] = {}  # a text and a byte or symbol: another text
        self.states = {0: 0}  # by their texts
        self.waiting = [(0, 0, 0)]  # a text's length, its state, the text: the shortest first
        self.masks: Dict[int, bytes] = {}  # digests of what may follow each state
        self.one_way = {0}  # the states to which one sequence of tokens leads
        self.transitions: Dict[int, Dict[int, int]] = {}
        self.final: List[int] = []

    def state(self, text: int, length: int, token: int) -> int:
        """The state of a text with a token behind it."""
        word: Sequence[Any] = self.tokens[token]
        if self.apart or not word:
            word = [(token,)]
        for letter in word:
            text = self.longer.setdefault((text, letter), len(self.longer) + 1)
        if text not in self.states:
            if len(self.states) >= self.most:
                what = "sequences of tokens, which it tells apart" if self.apart else (
                    "beginnings of texts"
                )
                self.too_many(f"more than {self.most} {what}", ", or raise max_states")
            if length + len(word) > MOST_LENGTH:
                self.too_many(f"texts of more than {MOST_LENGTH} bytes", "")
            self.states[text] = len(self.states)
            heapq.heappush(self.waiting, (length + len(word), self.states[text], text))
        return self.states[text]

    def following(self, ways: Ways, state: int, text: int, length: int) -> Dict[int, int]:
        """The states behind a state, by tokens; -1 behind an end id."""
        matcher = ways.matcher(state)
        bits = np.unpackbits(self.engine.mask(matcher), bitorder="little")[: len(self.tokens)]
        allowed = np.flatnonzero(bits).tolist()
        found = {t: -1 if t in self.ends else self.state(text, length, t) for t in allowed}
        for token, to in found.items():
            ahead = self.engine.copy(matcher)
            ended = self.engine.accept(ahead, token)
            if ended and to >= 0:
                raise ValueError(f"end_ids lacks {token}, which ends texts of the matcher")
            if not ended and to < 0:
                raise ValueError(f"end_ids has {token}, which ends no text of the matcher")
            if not ended:
                self.compare(ahead, to)
        missing = self.ends.difference(found)
        if missing and len(missing) < len(self.ends):
            raise ValueError(
                f"end_ids has {min(missing)}, which the matcher does not allow where a text ends"
            )
        return found

    def compare(self, matcher: Any, state: int) -> None:
        """What a matcher allows must be what others allowed in the state."""
        mask = hashlib.sha256(self.engine.mask(matcher).tobytes()).digest()
        if self.masks.setdefault(state, mask) != mask:
            raise TellsApart

    def follow_each(self) -> None:
        """Follows each of several tokens that may be the last one of a text."""
        ends: Dict[int, List[Tuple[int, int]]] = {}
        for state, found in self.transitions.items():
            for token, to in found.items():
                ends.setdefault(to, []).append((state, token))
        for each in ends.values():
            if len(each) > 1:
                for state, token in each:
                    self.follow(state, token)

    def follow(self, state: int, token: int) -> None:
        """Comes once to each state behind a token, from one state."""
        to = self.transitions[state][token]
        waiting, seen = [(self.first.matcher(state), token, to)], {to}
        while waiting:
            before, token, at = waiting.pop()
            matcher = self.engine.copy(before)
            self.engine.accept(matcher, token)
            self.compare(matcher, at)
            for token, to in self.transitions[at].items():
                if to not in seen:
                    seen.add(to)
                    waiting.append((matcher, token, to))

    def explore(self) -> None:
        while self.waiting:
            length, state, text = heapq.heappop(self.waiting)
            found = self.following(self.first, state, text, length)
            if state not in self.one_way:
                self.following(self.last, state, text, length)
            self.transitions[state] = {token: to for token, to in found.items() if to >= 0}
            if len(found) > len(self.transitions[state]):
                self.final.append(state)
            for token, to in self.transitions[state].items():
                self.last.before[to] = state, token
                if to in self.first.before:
                    self.one_way.discard(to)
                    continue
                self.first.before[to] = state, token
                if state in self.one_way:
                    self.one_way.add(to)

    def too_many(self, what: str, more: str) -> NoReturn:
        end = "" if self.final else ", and none of them has come to an id of end_ids"
        raise ValueError(
            f"the matcher allows {what}{end}: perhaps infinitely many. Pass its masks to the steps"
            + more
        )


def explored(
    matcher: Any, tokens: Sequence[bytes], ends: Set[int], most: int
) -> Tuple[List[Dict[int, int]], List[int]]:
    """The transitions of the states, and the final ones, of all texts that a matcher allows."""
    found = Explorer(matcher, tokens, ends, most, False)
    try:
        found.explore()
        found.follow_each()
    except TellsApart:
        found = Explorer(matcher, tokens, ends, most, True)
        found.explore()
    return [found.transitions[state] for state in range(len(found.states))], found.final
