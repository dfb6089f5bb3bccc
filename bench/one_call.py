# SPDX-License-Identifier: MIT
"""Measures clsample.sample() against torch's operators, and what it takes to bring logits of the
host to the device. It needs torch. In a build folder, after `make python-package`:

    PYTHONPATH=python/package python3 SOURCE/bench/one_call.py [ROWS [VOCAB [ROUNDS]]]
"""

import sys
import time

import numpy as np
import torch

import clsample

SETTINGS = {
    "temperature": dict(temperature=0.8),
    "top-k 50, top-p .9": dict(temperature=0.8, top_k=50, top_p=0.9),
    "top-p .9": dict(temperature=0.8, top_p=0.9),
}


def torch_sample(logits, temperature, top_k=0, top_p=1.0):
    """The usual operators: top-k before the softmax, top-p over sorted tokens."""
    logits, ids = logits / temperature, None
    if top_k:
        logits, ids = logits.topk(top_k)
    elif top_p < 1:
        logits, ids = logits.sort(descending=True)
    probs = logits.softmax(-1)
    if top_p < 1:
        probs[probs.cumsum(-1) - probs >= top_p] = 0
    drawn = probs.multinomial(1)
    return (drawn if ids is None else ids.gather(-1, drawn)).squeeze(-1)


def milliseconds(ways, rounds):
    """The fastest call of each way. Its calls follow each other: torch's threads wait actively for
    a while, and would slow the next way down."""
    times = {name: [] for name in ways}
    for _ in range(3):
        for name, way in ways.items():
            way(), way()
            for _ in range(rounds // 3):
                start = time.perf_counter()
                way()
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: min(found) for name, found in times.items()}


def main(rows=16, vocab=128256, rounds=60):
    rows, vocab, rounds = int(rows), int(vocab), int(rounds)
    logits = np.random.default_rng(1).normal(scale=2, size=(rows, vocab)).astype(np.float32)
    tensor = torch.from_numpy(logits)
    print(f"{rows} x {vocab} float32, the fastest of {rounds} calls in ms")
    for setting, params in SETTINGS.items():
        ways = {
            "NumPy": lambda: clsample.sample(logits, seed=1, **params),
            "torch": lambda: clsample.sample(tensor, seed=1, **params),
            "NumPy, fresh seeds": lambda: clsample.sample(logits, **params),
            "torch's operators": lambda: torch_sample(tensor, **params),
        }
        report(setting, milliseconds(ways, rounds))
    with clsample.Context() as context:
        sampler = context.sampler(vocab, rows)
        requests = [sampler.begin(seed=r, **SETTINGS["top-k 50, top-p .9"]) for r in range(rows)]
        array = context.to_device(logits)
        ways = {
            "a DeviceArray": lambda: sampler.sample(array, requests).tokens.get(),
            "read where it is": lambda: sampler.sample(logits, requests).tokens.get(),
            "copied": lambda: sampler.sample(logits, requests, copy=True).tokens.get(),
        }
        report("Sampler.sample()", milliseconds(ways, rounds))


def report(title, found):
    print(f"{title:20}", "   ".join(f"{name} {value:.2f}" for name, value in found.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
