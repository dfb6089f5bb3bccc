# SPDX-License-Identifier: MIT
"""Proves that clsample.host gives the recorded tokens of the arithmetic (tests/vectors), and that
each parameter reaches the library."""

import math
import struct

import numpy as np
import pytest

import clsample
from clsample import _types, host
from clsample._cffi import ffi
from clsample._request import new_params
from conftest import SOURCE

STAGES = {"temperature": "temperature", "top-k": "top_k", "top-p": "top_p", "min-p": "min_p"}


def floating(word):
    return struct.unpack(">f", bytes.fromhex(word))[0]


def records(name):
    """The rows or lists of a file: for each its name, and the fields of its records."""
    found = []
    for line in (SOURCE / "tests" / "vectors" / name).read_text().splitlines():
        words = line.split()
        if not words or words[0].startswith("#") or words[0] == "end":
            continue
        if words[0] in ("row", "list"):
            found.append((words[1], {}))
        else:
            found[-1][1].setdefault(words[0], []).append(words[1:])
    return found


def parameters(row):
    params = {name: floating(row[name][0][0]) for name in ("temperature", "top_p", "min_p")}
    params |= {name: int(row[name][0][0]) for name in ("top_k", "min_keep")}
    params["seed"], params["stream"] = map(int, row["seed"][0])
    chain = row["chain"][0]
    params["chain"] = [STAGES[word] for word in chain[1:]] if chain[0] == "3" else int(chain[0])
    return params


@pytest.mark.parametrize(
    "name, row", records("rows.txt"), ids=lambda x: x if type(x) is str else ""
)
def test_rows(name, row):
    vocab = int(row["vocab"][0][0])
    bits = np.array([int(word, 16) for words in row["logits"] for word in words], np.uint32)
    logits = bits.view(np.float32)
    assert logits.size == vocab
    mask = None
    if "masked" in row:
        mask = np.ones(vocab, bool)
        mask[[int(word) for words in row["masked"] for word in words]] = False
    params = parameters(row)
    result = host.sample(logits, mask=mask, **params)
    assert result.status == int(row["status"][0][0])
    if "kept" not in row:
        assert result.token == -1
        return
    assert result.kept_count == int(row["kept"][0][0])
    for position, draw, _, _, token in row.get("draw", []):
        found = host.sample(logits, mask=mask, position=int(position), draw=int(draw), **params)
        assert found.token == int(token)
    for bits64, _, token in row.get("given", []):
        assert host.sample(logits, mask=mask, random_bits=int(bits64, 16), **params).token == int(
            token
        )


@pytest.mark.parametrize(
    "name, row", records("lists.txt"), ids=lambda x: x if type(x) is str else ""
)
def test_lists(name, row):
    ids = [int(entry[0]) for entry in row.get("entry", [])]
    logits = np.array([int(entry[1], 16) for entry in row.get("entry", [])], np.uint32)
    options = {"vocab": int(row["vocab"][0][0])}
    options["seed"], options["stream"] = map(int, row["seed"][0])
    for position, draw, token in row.get("draw", []):
        assert host.draw(
            ids, logits.view(np.float32), position=int(position), draw=int(draw), **options
        ) == int(token)
    for bits, token in row.get("given", []):
        assert host.draw(ids, logits.view(np.float32), random_bits=int(bits, 16), **options) == int(
            token
        )


def example(name, ctype):
    """A value for a parameter, other than its default, and what the field then holds."""
    if name in _types.FIELD_ENUMS["cls_params"]:
        member = list(_types.FIELD_ENUMS["cls_params"][name][0])[1]
        return member.name.lower(), int(member)
    if ctype == "float":
        return 0.375, 0.375
    return (7, 7) if ctype in ("int32_t", "uint32_t", "uint64_t") else (None, None)


@pytest.mark.parametrize("name", list(clsample._types.Params.__annotations__))
def test_each_parameter(name):
    """The field gets the value, and no other field changes."""
    place = dict(ffi.typeof("cls_params").fields)[name]
    value, expected = example(name, place.type.cname)
    if value is None:
        pytest.skip("a list")
    default, changed, keep = new_params({}, []), None, []
    changed = new_params({name: value}, keep)
    assert getattr(changed, name) == expected
    before, after = bytes(ffi.buffer(default)), bytearray(ffi.buffer(changed))
    span = slice(place.offset, place.offset + ffi.sizeof(place.type))
    assert bytes(after[span]) != before[span] or getattr(default, name) == expected
    after[span] = before[span]
    assert bytes(after) == before


def test_lists_of_parameters():
    keep = []
    params = new_params(
        {
            "stop_ids": [3, 4],
            "logit_bias": {5: -math.inf, 6: 1.5},
            "bad_words": [[7], np.array([8, 9])],
            "dry_breakers": ((1, 2),),
            "allowed_ids": np.arange(4),
            "chain": ["top_k", "temperature"],
        },
        keep,
    )
    assert list(params.stop_ids.ids[0 : params.stop_ids.count]) == [3, 4]
    assert [(b.id, b.bias) for b in params.logit_bias.biases[0 : params.logit_bias.count]] == [
        (5, -math.inf),
        (6, 1.5),
    ]
    bad = params.bad_words
    words = [list(w.ids[0 : w.count]) for w in bad.sequences[0 : bad.count]]
    assert words == [[7], [8, 9]] and params.dry_breakers.count == 1
    assert params.allowed_ids.count == 4 and params.only_allowed == 1
    assert params.chain == clsample.Chain.CUSTOM
    assert list(params.stages)[:3] == [clsample.Stage.TOP_K, clsample.Stage.TEMPERATURE, 0]


def test_an_empty_list_of_allowed_ids_allows_nothing():
    logits = np.zeros(10, np.float32)
    assert host.sample(logits, allowed_ids=[]).status == clsample.RowStatus.EMPTY
    assert host.sample(logits, allowed_ids=None).status == clsample.RowStatus.OK
    assert host.sample(logits, allowed_ids=[4]).token == 4


def test_probs_and_types(logits):
    row = logits[0].astype(np.float16)
    found = host.sample(row, temperature=0.5, top_k=20, probs=True, seed=3)
    assert found.kept_count == 20 and np.count_nonzero(found.probs) == 20
    assert abs(found.probs.sum() - 1) < 1e-5
    same = host.sample(row.astype(np.float32), temperature=0.5, top_k=20, seed=3)
    assert same.token == found.token and same.probs is None
    bits = (logits[0].view(np.uint32) >> 16).astype(np.uint16)
    rounded = (bits.astype(np.uint32) << 16).view(np.float32)
    assert host.sample(bits, dtype="bfloat16", seed=9).token == host.sample(rounded, seed=9).token


def test_adaptive_state(logits):
    """Mirostat's state goes from one token to the next."""
    state, tokens = None, []
    for i in range(6):
        found = host.sample(
            logits[0], mirostat=2, mirostat_tau=1.0, seed=4, output=tokens, adaptive=state
        )
        assert state is None or found.adaptive.mu != state.mu
        state = found.adaptive
        tokens.append(found.token)
    assert state.begun == 1


def test_strided_rows(logits):
    """A column of a matrix is refused, and a row of one with gaps is not."""
    wide = np.zeros((4, 1200), np.float32)
    wide[:, :1000] = logits
    assert host.sample(wide[2, :1000], seed=1).token == host.sample(logits[2], seed=1).token
    with pytest.raises(ValueError, match="logits is not contiguous"):
        host.sample(np.asfortranarray(logits)[1])


def test_stages():
    assert host.stages("llama")[0] == clsample.Stage.TOP_N_SIGMA
    assert host.stages(clsample.Chain.VLLM)[:2] == [
        clsample.Stage.TEMPERATURE,
        clsample.Stage.MIN_P,
    ]


def banned_by_ocr(output, ngram_size, window_size, whitelist):
    """What DeepSeek-OCR's NoRepeatNGramLogitsProcessor bans after an output, by its formula."""
    if len(output) < ngram_size:
        return set()
    prefix = tuple(output[-(ngram_size - 1) :])
    start = max(0, len(output) - window_size)
    ngrams = [
        tuple(output[i : i + ngram_size]) for i in range(start, len(output) - ngram_size + 1)
    ]
    return {ngram[-1] for ngram in ngrams if ngram[:-1] == prefix} - whitelist


def test_ngrams_of_ocr_models():
    random, found = np.random.default_rng(7), 0
    for _ in range(500):
        output = random.integers(0, 4, random.integers(0, 30)).tolist()
        n, window = int(random.integers(2, 6)), int(random.integers(1, 35))
        exempt = random.integers(0, 10, random.integers(0, 3)).tolist()
        result = host.sample(
            np.zeros(10, np.float32),
            prompt=[0, 1, 2, 3, 0, 1, 2, 3],
            output=output,
            no_repeat_ngram=n,
            ngram_window=window,
            ngram_output_only=1,
            ngram_exempt_ids=exempt,
            probs=True,
        )
        banned = banned_by_ocr(output, n, window, set(exempt))
        assert set(np.flatnonzero(result.probs == 0).tolist()) == banned
        found += bool(banned)
    assert found > 50


def test_relaxed_acceptance():
    logits = np.log(np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], np.float32))
    relaxed = dict(temperature=0, relaxed_top_k=2, relaxed_delta=0.25, thinking_end=[1])
    assert host.verify(logits, [1, 1], **relaxed).tokens == [1, 0]
    assert host.verify(logits, [2, 1], **relaxed).tokens == [0]
    with pytest.raises(clsample.Error, match="relaxed_delta is set, but relaxed_top_k is 0"):
        host.verify(logits, [1, 1], relaxed_delta=0.25)
    with pytest.raises(clsample.Error, match="supports no trees"):
        host.verify(logits, [1, 1], parents=[-1, -1], **relaxed)
