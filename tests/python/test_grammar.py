# SPDX-License-Identifier: MIT
"""Proves that grammars of Python are those of their source: dicts, arrays, outlines-core's indexes,
and the matchers of XGrammar and llguidance."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import clsample
import clsample.grammar
from clsample import GRAMMAR_DEAD, GRAMMAR_ENDED, Grammar
from conftest import drafted, reference, token_of

END = 9
WORDS = {b"a": 0, b"b": 1, b"ab": 2, b"ba": 3, b"c": 4, b"bc": 5}


def small(**more):
    """a b* c, and the end."""
    return Grammar({"s": {0: "t"}, "t": {1: "t", 4: "u"}, "u": {}},
                   start="s", final_states=["u"], end_ids=[END], vocab=10, **more)


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
    lists = Grammar([{0: 1}, {4: 2, 1: 1}, {}], final_states=[2], end_ids=[END], vocab=10)
    arrays = Grammar(
        (np.array([0, 1, 3, 3]), [0, 1, 4], [1, 1, 2]), final_states=[2], end_ids=[END], vocab=10
    )
    assert dicts.info.digest == lists.info.digest == arrays.info.digest
    other = Grammar([{0: 1}, {4: 2, 1: 0}, {}], final_states=[2], end_ids=[END], vocab=10)
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
        (lambda: Grammar([{0: 0}], vocab=10, final_states=[1], end_ids=[1]), ValueError, "final"),
        (lambda: Grammar([{0: 0}], vocab=10, final_states=[0]), clsample.BadArgument, "end"),
        (lambda: Grammar(([0, 1], [0, 1], [0]), vocab=10), ValueError, "offsets"),
        (lambda: Grammar([{0.5: 0}], vocab=10), TypeError, "integers"),
        (lambda: small(draft_ids={"t": 2}), clsample.BadArgument, "is 2, which state 1 does not"),
        (lambda: small(draft_ids={"v": 1}), ValueError, "draft_ids has the state 'v'"),
        (lambda: small(draft_ids={"t": 0.5}), TypeError, "draft_ids must be an integer"),
        (lambda: small(max_bytes=10), clsample.BadArgument, "max_bytes"),
        (lambda: Grammar.from_matcher(3, [b"a"], end_ids=[0]), TypeError, "matcher"),
        (lambda: Grammar.from_matcher(3, [b"a", "b"], end_ids=[0]), TypeError, r"tokens\[1\] must"),
        (lambda: small().mask(3), clsample.BadArgument, "3 states"),
        (lambda: copy.copy(small()), TypeError, "copied"),
        (lambda: reference(np.zeros(10, np.float32), grammar=3), TypeError, "Grammar"),
    ],
)
def test_refused(what, error, words):
    with pytest.raises(error, match=words):
        what()


def test_draft_tokens(context):
    grammar = small(draft_ids={"t": 4})
    assert grammar.info.drafts == 3 and small().info.drafts == 2
    assert drafted(context, grammar) == [0, 4, END] and drafted(context, small()) == [0]
    assert drafted(context, grammar, 2) == [0, 4]
    assert grammar.info.digest != small().info.digest == small(draft_ids={"s": 0}).info.digest
    again = Grammar.load(grammar.save())
    assert again.info.digest == grammar.info.digest
    assert drafted(context, again, grammar_state=1) == [4, END]


def test_draft_tokens_by_bytes():
    words = [b'"', b'"n', b'"name', b"na", b"", b"x", b'"n', b'"name']
    for allowed, draft in [
        ([0, 1, 2], 2),
        ([2, 1, 0], 2),
        ([7, 2, 6], 2),  # of equal bytes the lowest id
        ([0, 3], None),
        ([0, 1, 3], None),
        ([0, 4], None),  # a token without bytes is no prefix
        ([0, 9], None),
        ([5], 5),
        ([], None),
    ]:
        found = clsample.grammar.draft_ids({"s": allowed}, [], words)
        assert found == ({} if draft is None else {"s": draft})
    assert clsample.grammar.draft_ids({0: [0, 1], 1: [0, 1]}, [1], words) == {0: 1}


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


def test_outlines(context):
    outlines = pytest.importorskip("outlines_core")
    words = outlines.Vocabulary(END, {token: [number] for token, number in WORDS.items()})
    index = outlines.Index("abc|abab", words)
    grammar = Grammar.from_outlines(index, vocab=10, end_ids=[END])
    assert texts_of(grammar) == names()[1]
    assert grammar.states[index.get_initial_state()] == 0
    assert grammar.info.drafts == 2 and drafted(context, grammar) == []  # b before c, and the end
    texts = names()[0]
    grammar = Grammar.from_outlines(index, vocab=10, end_ids=[END], tokens=texts)
    # a, ab; then abc and abab differ.
    assert drafted(context, grammar) == [WORDS[b"ab"]]
    assert drafted(context, grammar, output=[WORDS[b"ab"], WORDS[b"a"]]) == [WORDS[b"b"], END]


def test_xgrammar():
    xgrammar = pytest.importorskip("xgrammar")
    tokens, texts = names()
    tokens[6] = b"x"
    info = xgrammar.TokenizerInfo(
        tokens[:END] + [b"</s>"], vocab_type=xgrammar.VocabType.RAW, vocab_size=10,
        stop_token_ids=[END],
    )
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)
    matcher = xgrammar.GrammarMatcher(compiler.compile_regex("abc|abab"))
    assert texts_of(Grammar.from_matcher(matcher, tokens, end_ids=[END])) == texts
    matcher = xgrammar.GrammarMatcher(compiler.compile_regex("(ab)*c"))
    with pytest.raises(ValueError, match="more than 100 beginnings"):
        Grammar.from_matcher(matcher, tokens, end_ids=[END], max_states=100)
    with pytest.raises(ValueError, match="end_ids lacks 9, which ends texts"):
        Grammar.from_matcher(matcher, tokens, end_ids=[8])
    # Ids of the grammar's own, whose bytes other tokens have, too; and tokens that are counted.
    for ebnf, language in (
        ('root ::= Token(2) "x" | "abc"', {(0, 1, 4), (2, 4), (0, 5), (2, 6)}),
        ('root ::= Token(2) "cx" | "abc"', {(0, 1, 4), (2, 4), (0, 5), (2, 4, 6)}),
        (
            'root ::= some "c"\nsome[max_tokens=2] ::= "" | [ab] some',
            {(*text, 4) for n in range(3) for text in itertools.product(range(4), repeat=n)}
            | {(*text, 5) for text in [(), *itertools.product(range(4), repeat=1)]},
        ),
    ):
        compiled = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(ebnf))
        matcher = xgrammar.GrammarMatcher(compiled)
        assert texts_of(Grammar.from_matcher(matcher, tokens, end_ids=[END])) == language


class Tokens:
    """What llguidance asks of a tokenizer."""

    eos_token_id, bos_token_id, special_token_ids = END, None, [8, END]
    tokens = [*WORDS, b"x", b"y", b"<t>", b"</s>", b"a", b"<", b"t", b">", b"a", b"ab"]

    def __call__(self, text):
        return [self.tokens.index(bytes([byte])) for byte in text.encode()]


@pytest.fixture
def guidance():
    """A function that makes a matcher of llguidance, of a grammar in Lark's form."""
    llguidance = pytest.importorskip("llguidance")
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens()))

    def made(lark):
        return llguidance.LLMatcher(tokenizer, lark, log_level=0)

    return made


def from_guidance(matcher, special=b"", **more):
    tokens = [special if token == 8 else word for token, word in enumerate(Tokens.tokens)]
    return Grammar.from_matcher(matcher, tokens, **{"end_ids": [END], **more})


def texts_of_matcher(matcher, most=12):
    """The same as texts_of(), token by token, where no two texts are one state."""
    found, waiting = set(), [((), matcher)]
    while waiting:
        text, at = waiting.pop()
        bits = np.unpackbits(np.frombuffer(at.compute_bitmask(), np.uint8), bitorder="little")
        for token in np.flatnonzero(bits).tolist():
            if token == END:
                found.add(text)
            elif len(text) < most:
                after = at.deep_copy()
                assert after.consume_token(token)
                waiting.append(((*text, token), after))
    return found


def test_llguidance(guidance):
    found = texts_of(from_guidance(guidance("start: /abc|abab/")))
    assert found == texts_of_matcher(guidance("start: /abc|abab/"))
    # Where the text is certain, llguidance allows only the tokens that its tokenizer makes of it.
    assert {b"".join(Tokens.tokens[t] for t in text) for text in found} == {b"abc", b"abab"}
    with pytest.raises(ValueError, match="the matcher has failed"):
        from_guidance(guidance("no grammar"))


# Languages that texts alone do not tell: special tokens, ids of other tokens, numbers of tokens.
EXACT = [
    "start: /[ab]{0,4}/",
    "start: <t> /[ab]{2}/",
    'start: <t> "x" | "<t>y"',
    'start: <t> "abx" | "<t>aby"',
    "start: <t> <t> /a?/ | <t> /b/ <t>",
    'start: <[8]> "x" | <[7]> <[8]> <[8]>',
    'start: <[1-3]> "c" | "bc"',
    'start: <[10]> "bcx" | "abcy"',
    'start: some "x"\nsome[max_tokens=2]: /[ab]*/',
    'start: some "x"\nsome[max_tokens=3]: /[ab]*/',
    'start: "ab" /[ab]{0,2}/ (<t> /[ab]{0,1}/) | <[0]> /[ab]{0,1}/',
    # Three tokens of the same bytes, of which one goes on differently, at once or later.
    'start: <[10]> "x" | <[0]> "y" | <[14]> "y"',
    'start: <[10]> "bx" | <[0]> "by" | <[14]> "by"',
    'start: <[10]> "by" | <[0]> "bx" | <[14]> "by"',
    'start: <[10]> "by" | <[0]> "by" | <[14]> "bx"',
    'start: <[10]> "bcbcx" | <[0]> "bcbcy" | <[14]> "bcbcy"',
    'start: "c" (<[10]> "bbx" | <[0]> "bby" | <[14]> "bby") | "cabby"',
    # Two, beside shorter tokens of the same text.
    'start: <[15]> "bx" | <[2]> "by" | "a" "bby"',
    'start: <[2]> "bx" | <[15]> "by" | "a" "bby"',
]


@pytest.mark.parametrize("special", [b"", b"<t>"])
@pytest.mark.parametrize("lark", EXACT)
def test_the_language_is_the_matchers(guidance, lark, special):
    """Token by token, whatever the bytes of special tokens are."""
    wanted = texts_of_matcher(guidance(lark))
    assert len(wanted) > 1
    assert texts_of(from_guidance(guidance(lark), special)) == wanted


class Listed:
    """A matcher of a list of sequences of ids, with the names of llguidance's."""

    def __init__(self, sequences, text=()):
        self.sequences, self.text = sequences, text

    def deep_copy(self):
        return Listed(self.sequences, self.text)

    def following(self):
        count = len(self.text)
        return {one[count] for one in self.sequences if one[:count] == self.text != one}

    def compute_bitmask(self):
        bits = np.zeros(16, np.uint8)
        bits[sorted(self.following())] = 1
        return np.packbits(bits, bitorder="little").tobytes()

    def is_error(self):
        return False

    def is_stopped(self):
        return self.following() == {END}

    def consume_token(self, token):
        self.text += (token,)
        return True

    def stop_reason(self):
        return "EndOfSentence" if self.text[-1:] == (END,) else "NotStopped"


def ways(text):
    """All sequences of the ids of WORDS that write a text."""
    if not text:
        return [()]
    begun = [(token, word) for word, token in WORDS.items() if text.startswith(word)]
    return [(token, *more) for token, word in begun for more in ways(text[len(word) :])]


@pytest.mark.parametrize("head, odd", [(head, odd) for head in (b"abc", b"abab", b"babc")
                                       for odd in range(len(ways(head)))])
def test_one_way_to_write_a_text_goes_on_differently(head, odd):
    """Three tokens later: by x, where all others go on by y."""
    sequences = {
        (*way, *more, 6 if number == odd else 7, END)
        for number, way in enumerate(ways(head))
        for more in ways(b"cab")
    }
    tokens = [*WORDS, b"x", b"y", b"", b"</s>"]
    grammar = Grammar.from_matcher(Listed(sequences), tokens, end_ids=[END])
    assert texts_of(grammar) == {one[:-1] for one in sequences}


@pytest.mark.parametrize(
    "lark, ends, words",
    [
        ("start: /a*/", [11], "end_ids lacks 9, which ends texts of the matcher"),
        ("start: /ab?/", [], "end_ids lacks 9"),
        ("start: /ab/", [1], "end_ids has 1, which ends no text of the matcher"),
        ("start: /ab/", [9, 11], "end_ids has 11, which the matcher does not allow where a text"),
    ],
)
def test_end_ids_are_the_matchers(guidance, lark, ends, words):
    with pytest.raises(ValueError, match=words):
        from_guidance(guidance(lark), end_ids=ends)


@pytest.mark.parametrize(
    "lark, most, words",
    [
        ("/a*/", 0, "more than 0 beginnings of texts"),
        ("/a*/", 500, "500 beginnings of texts: perhaps infinitely many. Pass.*raise max_states"),
        ("/[ab]{30}c/", 100, "100 .*, and none of them has come to an id of end_ids: perhaps"),
        ("some\nsome[max_tokens=3]: /[ab]*/", 99, "99 sequences of tokens, which it tells apart"),
    ],
)
def test_too_many_states(guidance, lark, most, words):
    with pytest.raises(ValueError, match=words):
        from_guidance(guidance(f"start: {lark}"), max_states=most)


def test_an_endless_text_takes_little_memory(guidance):
    """In the process, also outside Python: of the states before its length is too large."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # VmHWM begins again
    before = memory("VmRSS")
    with pytest.raises(ValueError, match="texts of more than 8192 bytes: perhaps infinitely many"):
        from_guidance(guidance("start: /a*/"))
    assert memory("VmHWM") - before < 100 << 10


def memory(name):
    """In KiB."""
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return int(line.split()[1])


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
        with sampler.load(bytes(saved), {}, grammar=grammar) as bare:
            bare.update(temperature=0)
            assert bare.params == {"grammar": grammar, "temperature": 0}
        with sampler.load(bytes(saved), grammar=grammar) as bare:
            again = bare.save()
        with sampler.load(again, {"seed": 1}, grammar=grammar) as bare:
            bare.update(temperature=0)
        with pytest.raises(clsample.BadArgument, match="grammar"):
            sampler.begin(grammar=Grammar([{0: 0}], vocab=11))
        with pytest.raises(clsample.BadArgument, match="grammar_state"):
            other.update(grammar_state=3)


def test_host_follows_a_grammar():
    grammar = small()
    logits = np.zeros(10, np.float32)
    assert token_of(logits, grammar=grammar) == 0
    assert token_of(logits, grammar=grammar, output=[0, 4]) == END
    found = reference(logits, grammar=grammar, output=[0, 2])
    assert found.status == [clsample.RowStatus.EMPTY]
    assert token_of(logits, grammar=grammar, grammar_state=2) == END
