# SPDX-License-Identifier: MIT
"""A generation loop whose logits come from NumPy: the "model" counts which letters follow two
letters in a text. Each request has parameters of its own, and leaves the batch when it stops.

    python3 loop.py [TEXT]      default: README.md
"""

import pathlib
import sys

import numpy as np

import clsample

REQUESTS = {
    "greedy": dict(temperature=0),
    "usual": dict(temperature=0.8, top_k=40, top_p=0.9, seed=1),
    "varied": dict(temperature=1.2, min_p=0.02, seed=2, presence_penalty=0.3),
    "a line": dict(temperature=0.7, seed=3, stop_ids=[ord("\n")]),
}


def train(text):
    """counts[a, b, c]: how often the byte c follows the bytes a and b."""
    data = np.frombuffer(text.encode("ascii", "replace"), np.uint8)
    counts = np.zeros((128, 128, 128), np.float32)
    np.add.at(counts, (data[:-2], data[1:-1], data[2:]), 1)
    return counts


def main(path=pathlib.Path(__file__).parents[2] / "README.md"):
    counts = train(pathlib.Path(path).read_text())
    prompt = [ord(c) for c in "th"]
    with clsample.Context() as context:
        features = ["shortlist", "search", "penalties"]  # what the requests will use
        sampler = context.sampler(128, len(REQUESTS), features=features)
        texts = {name: bytearray(prompt) for name in REQUESTS}
        alive = {
            name: sampler.begin(prompt, max_tokens=120, **params)
            for name, params in REQUESTS.items()
        }
        while alive:
            last = np.array([texts[name][-2:] for name in alive])
            logits = np.log(counts[last[:, 0], last[:, 1]] + 1e-3)
            found = sampler.sample(logits, alive.values()).get()
            for name, token, status in zip(list(alive), found["tokens"], found["status"]):
                texts[name].append(token)
                if status.finish_reason:
                    alive.pop(name).end()
    for name, text in texts.items():
        print(f"{name}: {text.decode()!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
