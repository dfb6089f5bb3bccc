# SPDX-License-Identifier: MIT
"""Measures what clsample costs in Python. In a build folder, after `make python-package`:

    PYTHONPATH=python/package python3 SOURCE/bench/python.py [call|step|once]

call  what Sampler.sample() takes beyond cls_sample(), which it calls, by rows; medians in us. It
      runs on the host, since a CPU's driver would compute at the same time on the same cores
step  a step on the device to its tokens, from logits there and on the host; the fastest in ms
once  clsample.sample() beside torch's operators; the fastest in ms. It needs torch
"""

import statistics
import sys
import time

import numpy as np

import clsample
from clsample import _sampler

ROWS, VOCAB = 16, 128256
SETTINGS = {
    "temperature": dict(temperature=0.8),
    "top-k 50, top-p .9": dict(temperature=0.8, top_k=50, top_p=0.9),
    "top-p .9": dict(temperature=0.8, top_p=0.9),
}


class Timed:
    """The library, with the seconds of the last call of cls_sample()."""

    def __init__(self, library):
        self._library, self.seconds = library, 0.0

    def __getattr__(self, name):
        return getattr(self._library, name)

    def cls_sample(self, *arguments):
        begun = time.perf_counter()
        status = self._library.cls_sample(*arguments)
        self.seconds = time.perf_counter() - begun
        return status


def calls(rows, **options):
    """Microseconds of steps of small rows beyond those in C."""
    timed, beyond = Timed(_sampler.lib), []
    with clsample.Context("host") as context:
        sampler = context.sampler(64, rows, features=["shortlist", "logprobs"])
        requests = [sampler.begin(temperature=0.8, top_k=50) for _ in range(rows)]
        logits = np.zeros((rows, 64), np.float32)
        _sampler.lib = timed
        try:
            for _ in range(1000):
                begun = time.perf_counter()
                sampler.sample(logits, requests, **options)
                beyond.append(time.perf_counter() - begun - timed.seconds)
        finally:
            _sampler.lib = timed._library
    return 1e6 * statistics.median(beyond)


def call():
    print("rows   overhead, us   with logprobs and top 5")
    for rows in (1, 16, 64, 256):
        print(f"{rows:4}{calls(rows):15.1f}{calls(rows, logprobs=True, top=5):25.1f}")


def report(title, ways, rounds=60):
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
    print(f"{title:20}", "   ".join(f"{name} {min(found):.2f}" for name, found in times.items()))


def logits_of_host():
    return np.random.default_rng(1).normal(scale=2, size=(ROWS, VOCAB)).astype(np.float32)


def step():
    logits = logits_of_host()
    with clsample.Context() as context:
        sampler = context.sampler(VOCAB, ROWS)
        requests = [sampler.begin(seed=r, **SETTINGS["top-k 50, top-p .9"]) for r in range(ROWS)]
        array = context.to_device(logits)
        ways = {
            "a DeviceArray": lambda: sampler.sample(array, requests).tokens.get(),
            "read where it is": lambda: sampler.sample(logits, requests).tokens.get(),
            "copied": lambda: sampler.sample(logits, requests, copy=True).tokens.get(),
        }
        report("Sampler.sample()", ways)


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


def once():
    import torch

    logits = logits_of_host()
    tensor = torch.from_numpy(logits)
    for setting, params in SETTINGS.items():
        ways = {
            "NumPy": lambda: clsample.sample(logits, seed=1, **params),
            "torch": lambda: clsample.sample(tensor, seed=1, **params),
            "NumPy, fresh seeds": lambda: clsample.sample(logits, **params),
            "torch's operators": lambda: torch_sample(tensor, **params),
        }
        report(setting, ways)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["call", "step", "once"]:
        {"call": call, "step": step, "once": once}[name]()
