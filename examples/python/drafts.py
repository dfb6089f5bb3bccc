# SPDX-License-Identifier: MIT
"""Drafts: each step of a model verifies tokens that were guessed before, so that it may emit
several of them. The texts are those of one token a step. The drafts come from a look-up of n-grams
in the request's own text, then from a smaller model. The "models" are tables of which token follows
which: a large one, and a coarse copy that drafts.

    python3 drafts.py
"""

import numpy as np

import clsample

VOCAB, DRAFTS, MOST = 50, 4, 100
PARAMS = dict(temperature=0.7, top_k=20, max_tokens=MOST)
PROMPTS = [[3, 1, 4], [1, 5, 9], [2, 6, 5]]
OPTIONS = dict(max_history=MOST + 8, max_rollback=DRAFTS + 1)


def models():
    """Logits [VOCAB, VOCAB] by the latest token: of the model, and of one that drafts."""
    random = np.random.default_rng(1)
    large = random.normal(size=(VOCAB, VOCAB)).astype(np.float32)
    likely = np.argsort(random.random((VOCAB, VOCAB)))[:, :2]
    np.put_along_axis(large, likely, np.float32([[9, 7]]), axis=1)
    return large, large + random.normal(size=large.shape).astype(np.float32) / 2


def begin(sampler):
    return [sampler.begin(ids, seed=seed, **PARAMS) for seed, ids in enumerate(PROMPTS)]


def one_by_one(context, large):
    """The texts without drafts."""
    texts = [ids[:] for ids in PROMPTS]
    with context.sampler(VOCAB, len(texts), features=["shortlist"], **OPTIONS) as sampler:
        requests = begin(sampler)
        for _ in range(MOST):
            tokens = sampler.sample(large[[text[-1] for text in texts]], requests).tokens.get()
            for text, token in zip(texts, tokens):
                text.append(int(token))
    return texts


class Drafted:
    """The same texts, whose drafts a function proposes."""

    def __init__(self, context, large):
        self.large, self.texts = large, [ids[:] for ids in PROMPTS]
        self.sampler = context.sampler(
            VOCAB, len(PROMPTS) * (DRAFTS + 1), features=["shortlist", "verify"], **OPTIONS
        )
        self.requests = begin(self.sampler)
        self.steps = 0

    def alive(self):
        """The requests whose texts are not complete."""
        ends = [len(ids) + MOST for ids in PROMPTS]
        return [r for r, text in enumerate(self.texts) if len(text) < ends[r]]

    def step(self, active, drafts):
        """Verifies drafts. Row 0 of a request follows its text, and row i its i-th draft, so that a
        real model computes all of them in one pass."""
        rows = [self.large[[self.texts[r][-1], *ids]] for r, ids in zip(active, drafts)]
        requests = [self.requests[r] for r in active]
        found = self.sampler.verify(np.concatenate(rows), drafts, requests)
        for r, tokens, count in zip(active, found.tokens.get(), found.emitted.get()):
            self.texts[r] += tokens[:count].tolist()
        self.steps += 1
        return found

    def look_up(self):
        """Drafts are what followed the latest two to eight tokens when they last occurred."""
        while active := self.alive():
            requests = [self.requests[r] for r in active]
            ids = self.sampler.draft(requests, DRAFTS).draft_ids.get()
            self.step(active, [row[row >= 0].tolist() for row in ids])
        return self

    def by_model(self, context, small):
        """The small model samples the drafts by requests of its own, with the same seeds: it draws
        the large model's token wherever it agrees. After each verification its requests take back
        what was refused, and accept what was emitted."""
        features = ["shortlist", "state", "accept"]
        with context.sampler(VOCAB, len(PROMPTS), features=features, **OPTIONS) as sampler:
            ahead = begin(sampler)
            while active := self.alive():
                requests = [ahead[r] for r in active]
                latest, columns = [self.texts[r][-1] for r in active], []
                for _ in range(DRAFTS):
                    latest = sampler.sample(small[latest], requests).tokens.get()
                    columns.append(latest)
                    latest = np.maximum(latest, 0)  # -1: the request has its last token
                drafts = [row[row >= 0].tolist() for row in np.stack(columns, axis=1)]
                found = self.step(active, drafts)
                sampler.accept(
                    found.tokens, requests, counts=found.emitted, rollback=found.drafted
                )
        return self


def main():
    large, small = models()
    try:
        context = clsample.Context()
    except (clsample.OpenCLNotFound, clsample.UnsupportedDevice):
        context = clsample.Context("host")
    with context:
        texts = one_by_one(context, large)
        for name, found in (
            ("n-grams of the text", Drafted(context, large).look_up()),
            ("a smaller model", Drafted(context, large).by_model(context, small)),
        ):
            same = sum(a == b for a, b in zip(found.texts, texts))
            print(
                f"{name}: {same} of {len(texts)} texts are the same, "
                f"{found.steps} steps for {MOST} tokens"
            )


if __name__ == "__main__":
    main()
