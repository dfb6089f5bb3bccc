# SPDX-License-Identifier: MIT
"""Samples torch's tensors: one call that takes the place of softmax, top-k, top-p and multinomial,
and requests where tokens depend on earlier ones. The "model" has one layer with random weights.

    python3 tensors.py
"""

import torch

import clsample

ROWS, VOCAB, WIDTH = 4, 5000, 32


def main():
    torch.manual_seed(1)
    embedding = torch.randn(VOCAB, WIDTH).bfloat16()
    head = torch.randn(WIDTH, VOCAB).bfloat16() / 3
    tokens = torch.arange(ROWS, dtype=torch.int32)

    # The usual operators draw from torch's generator: a row's token depends on all rows.
    logits = embedding[tokens] @ head  # bfloat16 [ROWS, VOCAB]
    values, ids = (logits.float() / 0.8).topk(40)
    probs = values.softmax(-1)
    probs[probs.cumsum(-1) - probs >= 0.9] = 0
    print("torch's operators:", ids.gather(-1, probs.multinomial(1)).squeeze(-1).tolist())

    # The same distribution in one call. Each row has a seed, and draws the same in any batch.
    params = dict(temperature=0.8, top_k=40, top_p=0.9)
    seeds = torch.arange(ROWS) + 100
    drawn = clsample.sample(logits, seed=seeds, **params)
    print("clsample.sample():", drawn.tolist(), drawn.dtype)
    alone = [clsample.sample(row, seed=seeds[r : r + 1], **params) for r, row in enumerate(logits)]
    assert torch.equal(torch.stack(alone), drawn)

    # A text needs another position at each step; the parameters may differ by row.
    params = dict(temperature=torch.linspace(0, 1.5, ROWS), top_p=0.9)
    for position in range(5):
        logits = embedding[tokens] @ head
        tokens = clsample.sample(logits, seed=seeds, position=position, **params)
    print("five steps:       ", tokens.tolist())

    # Penalties need the history that requests have. Results are arrays on the device.
    with clsample.Context() as context:
        sampler = context.sampler(VOCAB, ROWS, dtypes=["bf16"], features=["shortlist", "penalties"])
        requests = [
            sampler.begin(seed=seed, temperature=0.8, presence_penalty=1) for seed in seeds.tolist()
        ]
        for _ in range(5):
            step = sampler.sample(embedding[tokens] @ head, requests)
            tokens = torch.from_dlpack(step.tokens)  # waits
        print("with penalties:   ", tokens.tolist(), "copied" if step.copied else "not copied")


if __name__ == "__main__":
    main()
