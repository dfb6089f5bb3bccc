# SPDX-License-Identifier: MIT
"""Draws what the stages of a chain leave of a row: the probabilities of its likeliest tokens after
each further stage. The host computes them; no device is needed. It needs matplotlib.

    python3 chain.py [PICTURE [LOGITS.npy [ROW]]]
"""

import pathlib
import sys

import numpy as np

import clsample

LOGITS = pathlib.Path(__file__).parents[1] / "data" / "stories260K-logits.npy"
CHAIN = [  # the temperature is last, as in llama.cpp
    ("top_k", dict(top_k=25)),
    ("min_p", dict(min_p=0.02)),
    ("top_p", dict(top_p=0.95)),
    ("temperature", dict(temperature=1.6)),
]
SHOWN = 40


def main(picture="chain.png", logits=LOGITS, row="40"):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    values = np.load(logits)[int(row)].astype(np.float32)
    order = np.argsort(-values, kind="stable")[:SHOWN]
    figure, axes = pyplot.subplots(
        len(CHAIN) + 1, 1, sharex=True, figsize=(8, 9), layout="constrained"
    )
    sampler = clsample.Context("host").sampler(values.size)
    stages, params, before = [], {}, None
    for axis, (stage, more) in zip(axes, [("softmax", {}), *CHAIN]):
        params |= more
        stages += [stage] if more else []
        with sampler.begin(chain=stages or "default", **params) as request:
            step = sampler.sample(values, request, probs=True, kept_set=1)
        probs = step.probs[0, order]
        if before is not None:
            axis.bar(np.arange(SHOWN), before, color="lightgray", label="before")
        axis.bar(np.arange(SHOWN), probs, width=0.5, color="tab:blue", label="after")
        axis.set_yscale("log")
        axis.set_ylim(1e-5, 1.5)
        axis.set_ylabel("probability")
        named = ", ".join(f"{name} = {value}" for name, value in more.items())
        axis.set_title(
            f"{named or stage}: {step.kept_set.counts[0]} of {values.size} tokens are left",
            loc="left",
            fontsize=10,
        )
        before = probs
    axes[1].legend(loc="upper right")
    axes[-1].set_xlabel("tokens, likeliest first")
    figure.savefig(picture, dpi=110)
    print(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
