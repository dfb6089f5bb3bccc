# SPDX-License-Identifier: MIT
"""A model end to end, small enough for CI: the file is a GGUF of Gemma 3's architecture with random
weights in Q8_0 and a vocabulary of letters, bytes and a few words, made here. It shows that

- examples/python/gemma.py reads it, and decodes rows of other lengths to the logits that NumPy
  computes of the same weights, also beyond the window of the sliding layers;
- clsample draws the tokens in tinygrad's memory, without a copy, and tinygrad's next embedding
  reads them there: all streams have the tokens of a run whose logits the host reads and samples,
  with penalties, and with a schema, to which the text keeps to its end.

It does not show that the architecture is Gemma's, since the weights are random: test_gemma.py does.
Skipped where a package that gemma.py needs, or gguf, is missing."""

import json
import sys

import numpy as np
import pytest

from conftest import SOURCE

pytest.importorskip("pyopencl")
pytest.importorskip("tinygrad")
pytest.importorskip("outlines_core")
pytest.importorskip("sentencepiece")
gguf = pytest.importorskip("gguf")

sys.path[:0] = [str(SOURCE / "examples" / "python"), str(SOURCE / "tests" / "python")]
import gemma  # noqa: E402
import gemma_rows  # noqa: E402

BLOCKS, WIDTH, INNER, HEADS, SIZE, WINDOW, PLACES = 6, 64, 96, 4, 32, 8, 224
CONTROL, UNKNOWN, BYTE = gguf.TokenType.CONTROL, gguf.TokenType.UNKNOWN, gguf.TokenType.BYTE
WORDS = "he in er an re on at en is or the ing and name age city once upon time girl sea".split()


def pieces():
    """Text and type of each token. SentencePiece merges the earlier pieces first."""
    yield from zip(("<pad>", "<eos>", "<bos>", "<unk>"), (CONTROL, CONTROL, CONTROL, UNKNOWN))
    yield from ((f"<0x{byte:02X}>", BYTE) for byte in range(256))
    texts = [*WORDS, *map(chr, range(32, 127))]
    yield from ((text, gguf.TokenType.NORMAL) for text in dict.fromkeys(texts))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "random.gguf"
    writer = gguf.GGUFWriter(path, "gemma3")
    texts, kinds = zip(*pieces())
    writer.add_block_count(BLOCKS)
    writer.add_embedding_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_key_length(SIZE)
    writer.add_sliding_window(WINDOW)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_token_list(list(texts))
    writer.add_token_scores([-float(i) for i in range(len(texts))])
    writer.add_token_types(list(kinds))
    writer.add_eos_token_id(1)
    writer.add_bos_token_id(2)
    random = np.random.default_rng(1)

    def add(name, *shape):
        """What the blocks add is large, or each token would be its embedding's own again."""
        if len(shape) == 1:
            values = random.uniform(0.5, 1.5, shape) * (4 if ".post_" in name else 1)
            return writer.add_tensor(name + ".weight", values.astype(np.float32))
        values = random.normal(scale=2 / shape[1] ** 0.5, size=shape).astype(np.float32)
        values = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(name + ".weight", values, raw_dtype=gguf.GGMLQuantizationType.Q8_0)

    add("token_embd", len(texts), WIDTH)
    add("output_norm", WIDTH)
    for block in range(BLOCKS):
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            add(f"blk.{block}.{name}", WIDTH)
        for name in ("attn_q_norm", "attn_k_norm"):
            add(f"blk.{block}.{name}", SIZE)
        for name, heads in (("q", HEADS), ("k", 1), ("v", 1)):
            add(f"blk.{block}.attn_{name}", heads * SIZE, WIDTH)
        add(f"blk.{block}.attn_output", WIDTH, HEADS * SIZE)
        add(f"blk.{block}.ffn_gate", INNER, WIDTH)
        add(f"blk.{block}.ffn_up", INNER, WIDTH)
        add(f"blk.{block}.ffn_down", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


@pytest.fixture(scope="module")
def model(path, device):
    return gemma.Gemma(path, len(gemma.STREAMS), PLACES)


def test_logits(model, path):
    info, weights = gemma_rows.weights_of(path)
    for name, one in weights.items():  # as the model keeps them
        weights[name] = one.astype(np.float16) if one.ndim == 2 else one
    words = gemma.tokenizer(info)
    texts = "a", "Once upon a time", "\n", "é"
    prompts = [[words.bos_id(), *words.encode(text)] for text in texts]
    assert len(set(map(len, prompts))) == 3 and len(prompts[1]) > WINDOW
    tokens, rows = gemma_rows.greedy(model, prompts, 24)
    for prompt, ids, found in zip(prompts, tokens, rows):
        x = gemma_rows.forward(info, weights, prompt + ids[:-1].tolist())[-len(ids) :]
        wanted = gemma_rows.logits_of(weights, x, np.float32)
        assert wanted.std() > 1
        assert np.abs(found - wanted).max() < 2e-3
        assert len(set(ids.tolist())) > 4


def test_tokens(model):
    streams = [(text, dict(params, seed=i)) for i, (text, params) in enumerate(gemma.STREAMS)]
    loop = gemma.Loop(model, streams)
    tokens = loop.run(loop.clsample, 160)[0]
    assert loop.steps and not any(step.copied for step in loop.steps)
    assert np.array_equal(tokens, loop.run(loop.host, 160)[0])
    assert (tokens[:3] >= 0).sum() > 100
    ids = tokens[3]
    text = loop.words.decode(ids[(ids >= 0) & (ids != loop.words.eos_id())].tolist())
    assert set(json.loads(text)) == {"name", "age", "city"}
