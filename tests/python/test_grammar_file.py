# SPDX-License-Identifier: MIT
"""Grammars in files: Grammar.save() and load(), the name of a vocabulary, and the command
`python -m clsample.grammar`, which needs outlines-core and is skipped without it."""

import hashlib
import json
import os
import pathlib
import struct
import subprocess

import numpy as np
import pytest

import clsample
from clsample import grammar as command
from conftest import drafted

WORDS = [b"a", b"bc", b"", b"d", b"\xff\x00"]
TRANSITIONS = {"start": {0: "start", 1: "end"}, "end": {4: "start"}}


@pytest.fixture
def made():
    return clsample.Grammar(
        TRANSITIONS, vocab=5, start="start", final_states=["end"], end_ids=[3]
    )


def test_round_trip(made):
    state = made.save()
    again = clsample.Grammar.load(state)
    assert again.save() == state and again.info.digest == made.info.digest
    assert (again.vocab, dict(again.states)) == (5, {0: 0, 1: 1})
    for number in range(2):
        assert (again.mask(number) == made.mask(number)).all()
    assert again.advance([0, 1, 3]) == clsample.GRAMMAR_ENDED
    assert clsample.Grammar.load(memoryview(state)).info.digest == made.info.digest


def test_a_loaded_grammar_is_followed(made, context):
    logits = np.random.default_rng(2).normal(size=5).astype(np.float32)
    texts = []
    for grammar in (made, clsample.Grammar.load(made.save())):
        with context.sampler(5, 1, features="all") as sampler:
            request = sampler.begin(grammar=grammar, seed=7, max_tokens=12)
            texts.append([int(sampler.sample(logits, request).tokens[0]) for _ in range(12)])
            request.end()
    assert texts[0] == texts[1] and 2 not in texts[0]


def test_vocabularies(made):
    name = clsample.vocabulary_digest(WORDS)
    by_hand = hashlib.sha256()
    for word in WORDS:
        by_hand.update(struct.pack("<I", len(word)) + word)
    assert name == by_hand.digest()
    state = made.save(WORDS)
    assert state == made.save(name) != made.save()
    for vocabulary in (None, WORDS, name):
        assert clsample.Grammar.load(state, vocabulary).info.digest == made.info.digest
    with pytest.raises(clsample.BadArgument, match="its ids stand for other tokens"):
        clsample.Grammar.load(state, WORDS[:-1] + [b"x"])
    with pytest.raises(clsample.BadArgument, match="the grammar was saved without one"):
        clsample.Grammar.load(made.save(), WORDS)


def test_bad_input(made):
    state = made.save()
    for data, words in [
        (state[:-1], "it was cut short or is damaged"),
        (state[:20], "are no saved grammar"),
        (b"", "are no saved grammar"),
        (state[:4] + b"\3" + state[5:], "saved in format 3; this library reads formats 1 and 2"),
        (state[:-1] + b"\1", "damaged"),
    ]:
        with pytest.raises(clsample.BadArgument, match=words):
            clsample.Grammar.load(data)
    with pytest.raises(clsample.BadArgument, match="max_bytes is 8"):
        clsample.Grammar.load(state, max_bytes=8)
    with pytest.raises(TypeError, match="state must be bytes, not str"):
        clsample.Grammar.load("text")
    with pytest.raises(TypeError, match=r"vocabulary\[1\] must be bytes, not str"):
        made.save([b"a", "b"])
    with pytest.raises(ValueError, match="vocabulary has 3 bytes; a digest has 32"):
        made.save(b"abc")
    with pytest.raises(clsample.BadArgument, match="vocab is 0"):
        made.save([])


BYTE_LEVEL = {
    "model": {"vocab": {"{": 0, "}": 1, "Ġ1": 2, "Ċ": 3, "Ã©": 4, "2": 5}},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [
        {"id": 6, "content": "<end>", "special": True},
        {"id": 8, "content": "extra", "special": False},
    ],
}
PIECES = {
    "model": {"vocab": [["<s>", 0.0], ["▁on", -1.0], ["<0x0A>", -2.0], ["é", -3.0]]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}]},
    "added_tokens": [{"id": 0, "content": "<s>", "special": True}],
}


def test_tokens_of_tokenizers(tmp_path):
    assert command.tokens(BYTE_LEVEL) == [
        b"{", b"}", b" 1", b"\n", "é".encode(), b"2", b"", b"", b"extra"
    ]  # fmt: skip
    assert command.tokens(PIECES) == [b"", b" on", b"\n", "é".encode()]
    with pytest.raises(ValueError, match="decoder is missing; ByteLevel"):
        command.tokens({"model": {"vocab": {"a": 0}}})
    with pytest.raises(ValueError, match="decoder is WordPiece; ByteLevel"):
        command.tokens({"model": {"vocab": {"a": 0}}, "decoder": {"type": "WordPiece"}})
    with pytest.raises(ValueError, match="the tokenizer has no model.vocab"):
        command.tokens({})
    (tmp_path / "tokenizer.json").write_text(json.dumps(PIECES))
    assert command.tokens(tmp_path / "tokenizer.json")[1] == b" on"


def test_the_command(tmp_path, capsys):
    pytest.importorskip("outlines_core")
    files = {name: tmp_path / name for name in ("schema.json", "tokenizer.json", "out.clsg")}
    vocab = dict(command.LETTERS)
    vocab.update({'{"': 256, '":': 257, "true": 258})
    tokenizer = {
        "model": {"vocab": vocab},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [
            {"id": 259, "content": "<end>", "special": True},
            {"id": 260, "content": "<turn>", "special": True},
        ],
    }
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    files["tokenizer.json"].write_text(json.dumps(tokenizer))
    files["schema.json"].write_text(json.dumps(schema))
    given = ["--tokenizer", str(files["tokenizer.json"]), "-o", str(files["out.clsg"])]
    ends = ["--end-id", "259", "--end-id", "260"]
    assert command.main([str(files["schema.json"]), *given, *ends]) == 0
    assert "states of 261 tokens" in capsys.readouterr().out
    texts = command.tokens(files["tokenizer.json"])
    grammar = clsample.Grammar.load(files["out.clsg"].read_bytes(), texts)
    text = [256, *b"ok", 257, 258, *b"}"]
    state = grammar.advance(text)
    allowed = np.unpackbits(grammar.mask(state).view(np.uint8), bitorder="little")
    assert list(np.flatnonzero(allowed)) == [259, 260]  # both ends, and nothing else
    assert grammar.advance([*text, 260]) == clsample.GRAMMAR_ENDED
    assert grammar.advance([*b"["]) == clsample.GRAMMAR_DEAD
    spaced, free = [256, *b"ok", 257, 32, 258, *b"}"], grammar.info.states - grammar.info.drafts
    assert grammar.advance(spaced) == state
    compact = [str(files["schema.json"]), *given, *ends, "--whitespace", ""]
    assert command.main(compact) == 0
    grammar = clsample.Grammar.load(files["out.clsg"].read_bytes())
    assert grammar.advance(spaced) == clsample.GRAMMAR_DEAD
    assert grammar.info.states - grammar.info.drafts < free
    assert command.main(["--regex", "(yes|no)", *given, "--end-id", "259"]) == 0
    assert clsample.Grammar.load(files["out.clsg"].read_bytes()).advance([*b"yes", 259]) == (
        clsample.GRAMMAR_ENDED
    )
    capsys.readouterr()
    for arguments, words in [
        ([str(tmp_path / "none.json"), *given, *ends], "none.json"),
        (["--regex", "a", *given, "--end-id", "261"], "--end-id 261 is no token of a vocabulary"),
        (["--regex", "(a", *given, *ends], "clsample.grammar: "),
    ]:
        assert command.main(arguments) == 1
        error = capsys.readouterr().err
        assert words in error and error.startswith("clsample.grammar: ")
    for arguments in [[*given, *ends], ["--regex", "a", *given, *ends, "--whitespace", ""]]:
        with pytest.raises(SystemExit):
            command.main(arguments)


def test_the_command_gives_draft_tokens(tmp_path, context):
    """What the schema of a tool makes certain is drafted, in the longest tokens that write it."""
    pytest.importorskip("outlines_core")
    texts = [bytes([byte]) for byte in range(256)]
    texts += [b'{"', b'"na', b"name", b'":', b': "', b'"arg', b"uments", b'","', b"sea", b"rch"]
    texts, end = [*texts, b""], len(texts)
    regex = r'\{"name":"(search|weather)","arguments":\{"city":"[a-z]+"\}\}'
    grammar = command.from_regex(regex, texts, end_ids=[end])
    loaded = clsample.Grammar.load(grammar.save(texts), texts)

    def after(text):
        state = loaded.advance([texts.index(word) for word in text])
        return [texts[i] for i in drafted(context, loaded, 16, grammar_state=state)]

    assert after([]) == [b'{"', b"name", b'":', b'"']
    assert after([b'{"', b"n"]) == [b"a", b"m", b"e", b'":', b'"']
    assert after([b'{"', b"name", b'":', b'"', b"s"]) == [
        b"e", b"a", b"rch", b'","', b"a", b"r", b"g", b"uments", b'":', b'{"', b"c", b"i", b"t",
        b"y", b'":',
    ]  # fmt: skip
    before = [b'{"', b"name", b'":', b'"', b"sea", b"rch", b'","', b"a", b"r", b"g", b"uments",
              b'":', b'{"', b"c", b"i", b"t", b"y", b'":', b'"']  # fmt: skip
    assert after(before) == []
    assert after([*before, b"x", b'"']) == [b"}", b"}", b""]


TOOL = {
    "type": "object",
    "properties": {
        "name": {"enum": ["search", "weather"]},
        "arguments": {
            "type": "object",
            "properties": {"city": {"enum": ["Bern", "Oslo"]}, "days": {"enum": [1, 3, 7]}},
            "required": ["city", "days"],
        },
    },
    "required": ["name", "arguments"],
}


def test_a_server_of_c_follows_a_tool(tmp_path):
    """examples/server.c loads a tool's grammar, and the text of its call is JSON of the schema."""
    pytest.importorskip("outlines_core")
    server = pathlib.Path(os.environ["BUILD"]) / "examples" / "server"
    if not server.exists():
        pytest.skip("the examples are not built")
    special = ["<unknown>", "<begin>", "<end>", "<answer>"]
    vocab = {letter: len(special) + byte for letter, byte in command.LETTERS.items()}
    for word in ["name", "arguments", "city", "days", '{"', '":', '","', "search", "Bern"]:
        vocab[word] = len(special) + len(vocab)
    while len(vocab) < 512 - len(special):
        vocab[f"w{len(vocab)}"] = len(special) + len(vocab)
    tokenizer = {
        "model": {"vocab": vocab},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [
            {"id": i, "content": content, "special": True} for i, content in enumerate(special)
        ],
    }
    files = {name: tmp_path / name for name in ("schema.json", "tokenizer.json", "tool.clsg")}
    files["tokenizer.json"].write_text(json.dumps(tokenizer))
    files["schema.json"].write_text(json.dumps(TOOL))
    arguments = ["--tokenizer", str(files["tokenizer.json"]), "--end-id", "2"]
    assert command.main([str(files["schema.json"]), *arguments, "-o", str(files["tool.clsg"])]) == 0
    done = subprocess.run([server, files["tool.clsg"]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" 0 requests differ\n")
    line = next(line for line in done.stdout.splitlines() if line.startswith("tool call "))
    ids = [int(word) for word in line[len("tool call ") : line.index("[")].split()]
    assert ids[-1] == 2 and "[stop]" in line
    call = json.loads(b"".join(command.tokens(tokenizer)[i] for i in ids))
    assert call["name"] in ("search", "weather")
    assert call["arguments"]["city"] in ("Bern", "Oslo") and call["arguments"]["days"] in (1, 3, 7)
