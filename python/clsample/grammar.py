# SPDX-License-Identifier: MIT
"""Makes the grammar of a JSON Schema or of a regular expression, and writes it to a file, which
Grammar.load() and cls_grammar_load() of C read. Needs outlines-core.

    python -m clsample.grammar SCHEMA.json --tokenizer TOKENIZER.json --end-id 2 -o FILE
    python -m clsample.grammar --regex '(yes|no)' --tokenizer TOKENIZER.json --end-id 2 -o FILE

The file names the vocabulary: with tokens() of the same tokenizer Grammar.load() refuses a grammar
that was made for another one.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set

from ._errors import Error, without
from ._grammar import Grammar, vocabulary_digest
from ._grammar import draft_ids as draft_ids


def tokens(tokenizer: Any) -> List[bytes]:
    """The bytes of each token of a tokenizer.json of Hugging Face's tokenizers, as a dict or a
    file's name; b"" for special tokens and for ids without one. Its pieces are those of byte-level
    BPE, or words with U+2581 for a space and <0x0A> for a byte."""
    if not isinstance(tokenizer, dict):
        tokenizer = json.loads(pathlib.Path(tokenizer).read_text(encoding="utf-8"))
    vocab = tokenizer.get("model", {}).get("vocab")
    if isinstance(vocab, list):  # Unigram: pairs of a piece and its score
        vocab = {piece: token for token, (piece, _) in enumerate(vocab)}
    if not isinstance(vocab, dict):
        raise ValueError("the tokenizer has no model.vocab")
    kinds = set(_types(tokenizer.get("decoder")))
    if "ByteLevel" in kinds:
        decode = _byte_level
    elif kinds & {"Metaspace", "ByteFallback", "Replace"}:
        decode = _with_spaces
    else:
        raise ValueError(
            f"the tokenizer's decoder is {', '.join(sorted(kinds)) or 'missing'}; ByteLevel, "
            "Metaspace and ByteFallback are known"
        )
    added = {one["id"]: one for one in tokenizer.get("added_tokens", [])}
    found = [b""] * (max([*vocab.values(), *added]) + 1)
    for piece, token in vocab.items():
        found[token] = decode(piece)
    for token, one in added.items():
        found[token] = b"" if one.get("special") else one["content"].encode()
    return found


def _types(decoder: Any) -> Iterator[str]:
    """The types of a decoder and of those in it."""
    if isinstance(decoder, dict):
        yield str(decoder.get("type"))
        for one in decoder.get("decoders", []):
            yield from _types(one)


def _letters() -> Dict[str, int]:
    """The bytes that byte-level BPE writes as letters: printable ones stand for themselves, the
    others are U+0100 and the letters after it."""
    printable: Set[int] = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{chr(byte): byte for byte in printable},
        **{chr(256 + i): byte for i, byte in enumerate(others)},
    }


LETTERS = _letters()


def _byte_level(piece: str) -> bytes:
    if all(letter in LETTERS for letter in piece):
        return bytes(LETTERS[letter] for letter in piece)
    return piece.encode()  # an added token


def _with_spaces(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("\u2581", " ").encode()


def from_regex(regex: str, texts: Sequence[bytes], *, end_ids: Sequence[int]) -> Grammar:
    """The grammar of a regular expression over tokens with these bytes. end_ids: what ends a text.
    """
    try:
        from outlines_core import Index
        from outlines_core import Vocabulary as Words
    except ImportError as error:
        raise without("grammar", error) from None
    if not end_ids:
        raise ValueError("end_ids is empty: nothing could end a text")
    ids: Dict[bytes, List[int]] = {}
    for token, text in enumerate(texts):
        if text and token not in end_ids:
            ids.setdefault(text, []).append(token)
    index = Index(regex, Words(end_ids[0], ids))
    return Grammar.from_outlines(index, vocab=len(texts), end_ids=end_ids, tokens=texts)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command: 0, or 1 after a sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m clsample.grammar", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("schema", nargs="?", metavar="SCHEMA.json", help="a JSON Schema")
    parser.add_argument("--regex", help="a regular expression in place of a schema")
    parser.add_argument(
        "--whitespace",
        metavar="REGEX",
        help="what may stand between the tokens of JSON (default: outlines-core's, [ ]?); with ''"
        " the next bytes are certain more often, and more is drafted",
    )
    parser.add_argument("--tokenizer", required=True, metavar="TOKENIZER.json")
    parser.add_argument("--end-id", required=True, type=int, action="append", metavar="ID")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    given = parser.parse_args(arguments)
    if (given.schema is None) == (given.regex is None):
        parser.error("give either a schema or --regex")
    if given.schema is None and given.whitespace is not None:
        parser.error("--whitespace is for a schema")
    try:
        texts = tokens(given.tokenizer)
        for end in given.end_id:
            if not 0 <= end < len(texts):
                raise ValueError(f"--end-id {end} is no token of a vocabulary of {len(texts)}")
        regex = given.regex
        if regex is None:
            try:
                from outlines_core.json_schema import build_regex_from_schema
            except ImportError as error:
                raise without("grammar", error) from None
            schema = pathlib.Path(given.schema).read_text(encoding="utf-8")
            regex = build_regex_from_schema(schema, given.whitespace)
        grammar = from_regex(regex, texts, end_ids=given.end_id)
        data = grammar.save(vocabulary_digest(texts))
        pathlib.Path(given.output).write_bytes(data)
    except (Error, ImportError, OSError, ValueError, KeyError) as error:
        print(f"clsample.grammar: {error}", file=sys.stderr)
        return 1
    info = grammar.info
    print(
        f"{given.output}: {len(data)} bytes; {info.states} states of {info.vocab} tokens, "
        f"{info.drafts} with a draft token, {info.bytes} bytes in each sampler"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
