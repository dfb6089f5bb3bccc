# SPDX-License-Identifier: MIT
"""Guided decoding: texts follow grammars of outlines-core, which the device follows by itself, so
that steps are enqueued ahead of the tokens that the host has seen. Then the same texts again, with
a mask for each token from the host. The model is random, and so is the vocabulary; each text is
checked by the index of outlines-core.

    pip install outlines-core
    python3 guided.py [TEXTS [VOCAB]]
"""

import json
import random
import sys
import time

import numpy as np
import outlines_core
from outlines_core.json_schema import build_regex_from_schema

import clsample

ROWS, AHEAD, MOST = 64, 4, 400
POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
    "required": ["x", "y"],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "home": {
            "type": "object",
            "properties": {"zip": {"type": "string", "pattern": "[0-9]{5}"}, "at": POINT},
            "required": ["zip", "at"],
        },
    },
    "required": ["name", "age", "tags", "home"],
}


def vocabulary(size):
    """All bytes, pieces of JSON, and random words, some after a space; the last id is the end."""
    chance = random.Random(1)
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [b'": ', b'", "', b'", ', b'": "', b'": {"', b'"}', b"}}", b'{"', b"[]"]
    tokens += [b"%d" % n for n in range(10, 1000)]
    found = set(tokens)
    while len(tokens) < size - 1:
        word = "".join(
            chance.choice("bcdfghlmnprst") + chance.choice("aeiou")
            for _ in range(chance.choice([1, 2, 2, 3, 3, 4]))
        )
        token = (" " * chance.getrandbits(1) + word + chance.choice(["", "n", "s", "r"])).encode()
        if token not in found:
            found.add(token)
            tokens.append(token)
    return tokens


def regexes():
    chance = random.Random(2)
    names = {
        "".join(chance.choice("abcdefghilmnoprstu") for _ in range(chance.randint(6, 24)))
        for _ in range(1000)
    }
    return {
        "a JSON schema": build_regex_from_schema(json.dumps(SCHEMA)),
        "addresses": r"[a-z]{1,12}@[a-z]{1,12}\.(com|org|net)( \+[0-9]{6,12})?",
        "1,000 names": "|".join(sorted(names)),
    }


class Texts:
    """Many texts, ROWS at a time: a request's slot is free for another text when its end was seen.
    """

    def __init__(self, sampler, logits, count, grammar):
        self.sampler, self.logits, self.count, self.grammar = sampler, logits, count, grammar
        self.found = []

    def begin(self, grammar):
        text = len(self.found)
        if text == self.count:
            return None
        self.found.append([])
        more = {"grammar": grammar} if grammar else {"stop_ids": [self.grammar.vocab - 1]}
        return text, self.sampler.begin(temperature=1.0, seed=text, max_tokens=MOST, **more)

    def step(self, active, **more):
        """A step of texts, each with a row of logits of its own."""
        requests = [request for _, request in active]
        rows = [text % ROWS for text, _ in active]
        return self.sampler.sample(self.logits, requests, logits_map=rows, **more)

    def take(self, active, tokens):
        """Appends a step's tokens; returns the texts that go on."""
        ended = set()
        for (text, request), token in zip(active, tokens):
            if token >= 0:
                self.found[text].append(int(token))
                if token == self.grammar.vocab - 1 or len(self.found[text]) == MOST:
                    request.end()
                    ended.add(text)
        return ended

    def by_device(self):
        """The device follows the grammar, and the host reads tokens AHEAD steps later."""
        active, steps, ended = [], [], set()
        while True:
            active = [one for one in active if one[0] not in ended]
            while len(active) < ROWS and (one := self.begin(self.grammar)):
                active.append(one)
            if active:
                steps.append((active[:], self.step(active)))
            if len(steps) == AHEAD or not active:
                if not steps:
                    return self.found
                rows, step = steps.pop(0)
                ended |= self.take(rows, step.tokens.get())

    def by_host(self):
        """The host makes the next masks from the tokens of each step."""
        active, states, ended = [], {}, set()
        while True:
            active = [one for one in active if one[0] not in ended]
            while len(active) < ROWS and (one := self.begin(None)):
                active.append(one)
                states[one[0]] = 0
            if not active:
                return self.found
            masks = np.stack([self.grammar.mask(states[text]) for text, _ in active])
            tokens = self.step(active, mask=masks).tokens.get()
            ended |= self.take(active, tokens)
            for (text, _), token in zip(active, tokens):
                if text not in ended:
                    states[text] = self.grammar.advance([token], states[text])


def accepted(index, tokens):
    """Whether outlines-core reads the whole text, and it may end there."""
    state = index.get_initial_state()
    for token in tokens[:-1]:
        state = index.get_next_state(state, token)
        if state is None:
            return False
    return index.is_final_state(state)


def main(count=200, size=2000):
    tokens = vocabulary(size)
    words = outlines_core.Vocabulary(size - 1, {token: [i] for i, token in enumerate(tokens)})
    row = np.random.default_rng(0).normal(size=(ROWS, size)).astype(np.float32)
    ends = [i for i, token in enumerate(tokens) if set(token) & set(b'",}]')] + [size - 1]
    row[:, ends] += np.log(size).astype(np.float32)  # so that strings and numbers end
    good = True
    with clsample.Context() as context:
        for name, regex in regexes().items():
            index = outlines_core.Index(regex, words)
            grammar = clsample.Grammar.from_outlines(index, vocab=size, end_ids=[size - 1])
            with context.sampler(size, ROWS, max_history=MOST) as sampler:
                times, found = [], []
                for run in ("by_host", "by_device"):
                    begin = time.perf_counter()
                    found.append(getattr(Texts(sampler, row, count, grammar), run)())
                    times.append(time.perf_counter() - begin)
            same = sum(a == b for a, b in zip(*found))
            read = sum(accepted(index, text) for text in found[1])
            number = sum(map(len, found[1]))
            info = grammar.info
            print(
                f"{name}: {info.states} states, {info.bytes / 1e6:.2f} MB; {read} of {count} texts "
                f"are accepted, {same} are the same with masks; {number / count:.1f} tokens each; "
                f"{times[0] / times[1]:.2f} times as fast as masks"
            )
            print(" ", repr(b"".join(tokens[t] for t in found[1][0][:-1]).decode()[:70]))
            good &= same == read == count
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
