# SPDX-License-Identifier: MIT
"""Proves that grammars of Python are those of their source: dicts, arrays, outlines-core's indexes,
and the matchers of XGrammar and llguidance."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import clsample
from clsample import GRAMMAR_DEAD, GRAMMAR_ENDED, Grammar, host

END = 9
WORDS = {b"a": 0, b"b": 1, b"ab": 2, b"ba": 3, b"c": 4, b"bc": 5}


def small(**more):
    """a b* c, and the end."""
    return Grammar({"s": {0: "t"}, "t": {1: "t", 4: "u"}, "u": {}},
                   start="s", final=["u"], end_ids=[END], vocab=10, **more)


def allowed(grammar, state):
    bits = np.unpackbits(grammar.mask(state).view(np.uint8), bitorder="little")
    return np.flatnonzero(bits).tolist()


def test_states_have_their_ids():
    grammar = small()
    assert grammar.states == {"s": 0, "t": 1, "u": 2}
    assert [allowed(grammar, state) for state in range(3)] == [[0], [1, 4], [END]]
    assert [grammar.advance(text) for text in ([], [0], [0, 1, 1], [0, 4], [0, 4, END], [1])] == [
        0, 1, 1, 2, GRAMMAR_ENDED, GRAMMAR_DEAD,
    ]
    assert grammar.info.states == 3 and grammar.info.vocab == 10
    assert repr(grammar) == "<clsample.Grammar of 3 states>"


def test_forms_of_transitions_are_one_grammar():
    dicts = small()
    lists = Grammar([{0: 1}, {4: 2, 1: 1}, {}], final=[2], end_ids=[END], vocab=10)
    arrays = Grammar(
        (np.array([0, 1, 3, 3]), [0, 1, 4], [1, 1, 2]), final=[2], end_ids=[END], vocab=10
    )
    assert dicts.info.digest == lists.info.digest == arrays.info.digest
    other = Grammar([{0: 1}, {4: 2, 1: 0}, {}], final=[2], end_ids=[END], vocab=10)
    assert other.info.digest != dicts.info.digest


@pytest.mark.parametrize(
    "what, error, words",
    [
        (lambda: Grammar([{10: 0}], vocab=10), clsample.BadArgument, "10"),
        (lambda: Grammar([{0: 1}, {}], vocab=10), clsample.BadArgument, "state 1"),
        (lambda: Grammar([{0: 7}], vocab=10), ValueError, "leads to 7"),
        (lambda: Grammar([[0]], vocab=10), TypeError, "must be a dict"),
        (lambda: Grammar(3, vocab=10), TypeError, "not int"),
        (lambda: Grammar([{0: 0}], vocab=10, start=2), ValueError, "start must be 0"),
        (lambda: Grammar({0: {0: 0}}, vocab=10, start=2), ValueError, "start is 2"),
        (lambda: Grammar([{0: 0}], vocab=10, final=[1], end_ids=[1]), ValueError, "final"),
        (lambda: Grammar([{0: 0}], vocab=10, final=[0]), clsample.BadArgument, "end"),
        (lambda: Grammar(([0, 1], [0, 1], [0]), vocab=10), ValueError, "offsets"),
        (lambda: Grammar([{0.5: 0}], vocab=10), TypeError, "integers"),
        (lambda: small(max_bytes=10), clsample.BadArgument, "max_bytes"),
        (lambda: Grammar.from_matcher(3, [b"a"], end_ids=[0]), TypeError, "matcher"),
        (lambda: small().mask(3), clsample.BadArgument, "3 states"),
        (lambda: copy.copy(small()), TypeError, "copied"),
        (lambda: host.sample(np.zeros(10, np.float32), grammar=3), TypeError, "Grammar"),
    ],
)
def test_refused(what, error, words):
    with pytest.raises(error, match=words):
        what()


def texts_of(grammar, most=12):
    """All texts up to a length, without their end."""
    found, waiting = set(), [((), 0)]
    while waiting:
        text, state = waiting.pop()
        for token in allowed(grammar, state):
            if token == END:
                found.add(text)
            elif len(text) < most:
                waiting.append(((*text, token), grammar.advance([token], state)))
    return found


def names():
    """The vocabulary as a list, and all ways to write two names."""
    tokens = [b"?"] * 10
    for token, number in WORDS.items():
        tokens[number] = token
    texts = {
        text
        for n in range(1, 5)
        for text in itertools.product(range(6), repeat=n)
        if b"".join(tokens[t] for t in text) in (b"abc", b"abab")
    }
    return tokens, texts


def test_outlines():
    outlines = pytest.importorskip("outlines_core")
    words = outlines.Vocabulary(END, {token: [number] for token, number in WORDS.items()})
    index = outlines.Index("abc|abab", words)
    grammar = Grammar.from_outlines(index, vocab=10, end_ids=[END])
    assert texts_of(grammar) == names()[1]
    assert grammar.states[index.get_initial_state()] == 0


def test_xgrammar():
    xgrammar = pytest.importorskip("xgrammar")
    tokens, texts = names()
    info = xgrammar.TokenizerInfo(
        tokens[:END] + [b"</s>"], vocab_type=xgrammar.VocabType.RAW, vocab_size=10,
        stop_token_ids=[END],
    )
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)
    matcher = xgrammar.GrammarMatcher(compiler.compile_regex("abc|abab"))
    assert texts_of(Grammar.from_matcher(matcher, tokens, end_ids=[END])) == texts
    endless = xgrammar.GrammarMatcher(compiler.compile_regex("(ab)*c"))
    with pytest.raises(ValueError, match="more than 100 beginnings"):
        Grammar.from_matcher(endless, tokens, end_ids=[END], max_states=100)


class Tokens:
    """What llguidance asks of a tokenizer."""

    eos_token_id, bos_token_id, special_token_ids = END, None, [END]
    tokens = [*WORDS, b"x", b"y", b"z", b"</s>"]

    def __call__(self, text):
        return [self.tokens.index(bytes([byte])) for byte in text.encode()]


def test_llguidance():
    guidance = pytest.importorskip("llguidance")
    tokens, texts = names()
    tokenizer = guidance.LLTokenizer(guidance.TokenizerWrapper(Tokens()))
    regex = guidance.LLMatcher.grammar_from_regex
    found = texts_of(
        Grammar.from_matcher(
            guidance.LLMatcher(tokenizer, regex("abc|abab")), tokens, end_ids=[END]
        )
    )
    # Where the text is certain, llguidance allows only the tokens that its tokenizer makes of it.
    assert found <= texts and {b"".join(tokens[t] for t in text) for text in found} == {
        b"abc",
        b"abab",
    }
    with pytest.raises(ValueError, match="more than 50 beginnings"):
        endless = guidance.LLMatcher(tokenizer, regex("(ab)*c"))
        Grammar.from_matcher(endless, tokens, end_ids=[END], max_states=50)
    with pytest.raises(ValueError, match="the matcher has failed"):
        wrong = guidance.LLMatcher(tokenizer, "no grammar", log_level=0)
        Grammar.from_matcher(wrong, tokens, end_ids=[END])


def test_requests_follow_a_grammar(context):
    grammar = small()
    logits = np.zeros((2, 10), np.float32)
    with context.sampler(10, 2, slot_count=4, max_history=8, max_rollback=4) as sampler:
        guided = sampler.begin(grammar=grammar, seed=1)
        free = sampler.begin(seed=1)
        tokens = [sampler.sample(logits, [guided, free]).tokens.get() for _ in range(2)]
        state = grammar.advance([row[0] for row in tokens])
        assert state in (1, 2)
        saved = guided.save()
        assert "grammar" not in saved.params and guided.params["grammar"] is grammar
        with pytest.raises(clsample.BadArgument, match="grammar"):
            sampler.load(saved)
        with pytest.raises(TypeError, match="Grammar"):
            sampler.load(saved, grammar=3)
        guided.end()
        free.end()
        other = sampler.load(pickle.loads(pickle.dumps(saved)), grammar=small())
        assert int(sampler.sample(logits[:1], [other]).tokens.get()[0]) in allowed(grammar, state)
        with pytest.raises(clsample.BadArgument, match="grammar"):
            sampler.begin(grammar=Grammar([{0: 0}], vocab=11))
        with pytest.raises(clsample.BadArgument, match="grammar_state"):
            other.update(grammar_state=3)


def test_host_follows_a_grammar():
    grammar = small()
    logits = np.zeros(10, np.float32)
    assert host.sample(logits, grammar=grammar).token == 0
    assert host.sample(logits, grammar=grammar, output=[0, 4]).token == END
    assert host.sample(logits, grammar=grammar, output=[0, 2]).status == clsample.RowStatus.EMPTY
    assert host.sample(logits, grammar=grammar, grammar_state=2).token == END
