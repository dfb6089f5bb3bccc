# SPDX-License-Identifier: MIT
"""Measures what a step costs in Python beyond what it costs in C: bench/python.sh runs it with an
OpenCL that computes nothing. Rounds of both alternate, so that other work on the machine meets
both alike; the medians of all rounds are printed."""

import ctypes
import statistics
import sys
import time

import numpy as np

import clsample
from clsample import _library

VOCAB = 1000


def in_c(rows, count):
    calls = ctypes.CDLL(_library.path).bench_calls
    seconds = (ctypes.c_double * count)()
    calls(rows, VOCAB, count, seconds)
    return list(seconds)


def in_python(rows, count, **options):
    with clsample.Context() as context:
        sampler = context.sampler(VOCAB, rows, features=["shortlist", "logprobs"])
        requests = [sampler.begin(temperature=0.8, top_k=50) for _ in range(rows)]
        logits = context.to_device(np.zeros((rows, VOCAB), np.float32))
        seconds = []
        for _ in range(count):
            begun = time.perf_counter()
            step = sampler.sample(logits, requests, **options)
            seconds.append(time.perf_counter() - begun)
            step.wait()
        sampler.close()
        return seconds


def median(seconds):
    return 1e6 * statistics.median(seconds)


def main(rounds=10, count=1000):
    assert clsample.devices()[0].name == "Stub"
    print("rows    C, us    Python, us    overhead, us    with logprobs and top 5, us")
    for rows in (1, 16, 64, 256):
        c, python, outputs = [], [], []
        for _ in range(int(rounds)):
            c += in_c(rows, int(count))
            python += in_python(rows, int(count))
            outputs += in_python(rows, int(count), logprobs=True, top=5)
        print(
            f"{rows:4} {median(c):8.1f} {median(python):13.1f} "
            f"{median(python) - median(c):15.1f} {median(outputs):30.1f}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
