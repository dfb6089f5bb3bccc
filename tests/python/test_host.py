# SPDX-License-Identifier: MIT
"""Proves that a device and the host write and save the same bytes in random calls, and that
requests move between them."""

import os

import numpy as np
import pytest

import clsample
from clsample import _enums
from conftest import FEATURES, HOST

# --------------------------------------------------------------- a device and the host

SMALL = 300
LOOSE = ("probs", "kept_mass", "entropy", "kept.probs")  # whose last bit may differ
GRAMMAR = clsample.Grammar(
    [{token: token % 3 for token in range(1 + state, SMALL, 2)} for state in range(3)],
    final_states=[1],
    end_ids=[0],
    vocab=SMALL,
)
PARAMS = [
    {},
    dict(temperature=0, stop_ids=[5]),
    dict(temperature=0.8, top_k=50, top_p=0.9, min_p=0.02, max_tokens=9),
    dict(chain=["min_p", "temperature", "xtc", "typical_p"], min_p=0.01, xtc_probability=0.5,
         typical_p=0.9, min_tokens=4, stop_ids=[1, 2, 3]),
    dict(chain="llama", top_n_sigma=1.5, dynatemp_range=0.5, top_a=0.1),
    dict(repetition_penalty=1.3, frequency_penalty=0.5, presence_penalty=0.2, penalty_scope="all"),
    dict(presence_penalty=3, penalty_window=16, logit_bias={1: 5.0, 2: 4.0, 3: -np.inf}),
    dict(allowed_ids=[*range(10, 40)], dry_multiplier=0.8, no_repeat_ngram=2),
    dict(bad_words=[[5, 6], [7]], loop_repeats=2, loop_max=8, temperature=0.3, top_k=3),
    dict(mirostat=2, mirostat_tau=2.0),
    dict(adaptive_target=0.3),
    dict(
        thinking_start=[11],
        thinking_ends=[[12], [20, 21]],
        thinking_budget=3,
        thinking_forced=[13, 12],
    ),
    dict(grammar=GRAMMAR, top_k=20),
    dict(infill=1, top_k=20),
]  # fmt: skip


def arrays_of(result):
    """All arrays of a result, by their names."""
    found = {}
    for name, value in vars(result).items():
        if isinstance(value, _enums.Arrays):
            found.update((f"{name}.{one}", array) for one, array in arrays_of(value).items())
        elif isinstance(value, (clsample.DeviceArray, np.ndarray)):
            found[name] = np.array(value.get())
    if found.get("offsets") is not None:  # what lies behind all sets is undefined
        found["ids"] = found["ids"][: found["offsets"][-1]]
    return found


class Story:
    """Random calls of a sampler, the same in each story of this number, and all that they write."""

    def __init__(self, context, number, kind="f4"):
        self.random, self.log, self.kind = np.random.default_rng(number), [], kind
        self.sampler = context.sampler(
            SMALL, 16, slot_count=5, max_history=64, max_rollback=8, features=FEATURES,
            dtypes=[np.dtype(kind)],
        )  # fmt: skip
        self.sampler.infill([0, 1], [*[-1] * 200, *range(SMALL - 200)])
        self.requests = [self.begin() for _ in range(4)]

    def some(self, count=None, most=SMALL, least=0):
        count = self.random.integers(9) if count is None else count
        return self.random.integers(least, most, count)

    def maybe(self, probability=0.5, **more):
        return more if self.random.random() < probability else {}

    def begin(self):
        params = PARAMS[self.random.integers(len(PARAMS))]
        text = (self.some(), self.some()) if "grammar" not in params else (self.some(), ())
        return self.sampler.begin(*text, seed=int(self.some(1)[0]), **params)

    def zeros(self, *width):
        """An array with a row for each slot, of which a call writes those of its requests."""
        zeros = np.zeros((self.sampler.slot_count, *width), np.int32)
        return self.sampler.context.to_device(zeros)

    def logits(self, rows):
        """Flat and peaked rows, with ties, infinities and NaN in some."""
        values = self.random.normal(size=(rows, SMALL)) * self.random.choice([0.5, 2, 6], (rows, 1))
        values = np.where(self.random.random((rows, 1)) < 0.2, np.round(values), values)
        wrong = self.random.random(values.shape) < self.random.choice([0.05, 0, 0, 0])
        values[wrong] = self.random.choice([np.nan, np.inf, -np.inf], wrong.sum())
        return values.astype(self.kind)

    def arguments(self, rows, places, shape):
        """Masks and biases of rows, positions and draws of places, and outputs of this shape."""
        maps, mask = self.some(rows, 3) - 1, self.random.random((2, SMALL)) < 0.7
        bits = np.packbits(mask, axis=1, bitorder="little")
        masks = mask, np.pad(bits, ((0, 0), (0, 2))).view(np.int32)
        bias = self.random.normal(size=(2, SMALL)).astype(self.random.choice(["f4", "f2"]))
        factor, count, size = self.random.choice([1, -0.5]), *self.some(2, 60, 1).tolist()
        sets = size, dict(capacity=size, ids=True, counts=True, offsets=True)
        return {
            **self.maybe(0.3, mask=masks[self.some(1, 2)[0]], mask_map=maps),
            **self.maybe(0.3, bias=bias, bias_map=maps[::-1], bias_factor=factor),
            **self.maybe(0.2, softcap=float(self.random.choice([0.5, 3, 30]))),
            **self.maybe(0.2, positions=self.some(places)),
            **self.maybe(0.2, draws=self.some(places)),
            **self.maybe(logprobs=True, ranks=True),
            **self.maybe(entropy=True, kept_mass=True, latest=self.zeros()),
            **self.maybe(logprob_kind="final"),
            **self.maybe(top=min(count, 20), kept=count, given=self.some((*shape, 3), least=-1)),
            **self.maybe(kept_set=sets[self.some(1, 2)[0]]),
        }

    def sample(self):
        rows = [*self.random.permutation(self.requests), None][: self.random.integers(1, 6)]
        count, defer = len(rows), self.random.random() < 0.2
        bits = self.random.integers(2**63, size=count, dtype=np.uint64)
        more = {
            **self.arguments(count, count, (count,)),
            **self.maybe(probs=True, final_logits=True),
            **self.maybe(0.2, random_bits=bits),
            **self.maybe(0.2, logits_map=self.random.permutation(count) - self.some(1, 2)),
        }
        step = self.sampler.sample(self.logits(count), rows, defer_accept=defer, **more)
        return [step] + [self.sampler.accept(step.tokens.get(), rows)] * defer

    def accept(self):
        rows, width = self.requests[: self.random.integers(1, 5)], self.random.integers(1, 5)
        counts, tokens = self.some(len(rows), width + 1), self.some((len(rows), width))
        more = self.maybe(rollback=self.some(len(rows), 4))
        return [self.sampler.accept(tokens, rows, counts=counts, **more)]

    def verify(self):
        rows = self.requests[: self.random.integers(1, 4)]
        drafts = [self.some(self.random.integers(4)).tolist() for _ in rows]
        total, width = sum(map(len, drafts)), max(map(len, drafts))
        method = self.random.choice(["match", "standard", "block", "typical"])
        more = self.arguments(total + len(rows), len(rows), (len(rows), width + 1))
        more |= dict(method=method, disable_bonus=bool(self.some(1, 2)[0]), token_status=True)
        more |= dict(counters=self.zeros(3))
        if method in ("standard", "block") and total:
            probs = self.random.random((total, SMALL)).astype("f4")
            more["draft_probs"] = probs / probs.sum(1, keepdims=True)
            if self.random.random() < 0.5:
                more["draft_probs"] = np.ascontiguousarray(more["draft_probs"][:, :5])
                more["draft_tokens"] = self.some((total, 5), least=-1)
                more |= self.maybe(0.5, draft_map=self.some(SMALL))
        elif method == "match":
            more |= self.maybe(0.3, parents=[[*range(-1, len(one) - 1)] for one in drafts])
        return [self.sampler.verify(self.logits(total + len(rows)), drafts, rows, **more)]

    def draft(self):
        return [self.sampler.draft(self.requests, int(self.some(1, 6, 1)[0]), min_n=1)]

    def logprobs(self):
        return [self.sampler.logprobs(self.logits(3), top=4, given=self.some((3, 2)))]

    def change(self):
        """A slot call."""
        one, number = self.random.choice(self.requests), int(self.some(1)[0])
        call = self.random.choice(["append_prompt", "next_turn", "force", "rollback", "update", ""])
        if call == "rollback":
            one.rollback(number % 4)
        elif call == "update":
            one.update(seed=number, temperature=float(self.random.random()))
        elif call:
            getattr(one, call)(self.some())
        else:
            place, saved = self.requests.index(one), saved_of(one)
            other = self.requests[place - 1]
            one.end()
            if isinstance(saved, bytes):
                with self.sampler.load(saved, grammar=one.params.get("grammar")) as again:
                    assert saved_of(again) == saved
            forks = number % 2 and isinstance(saved_of(other), bytes)
            self.requests[place] = other.fork() if forks else self.begin()
        return []

    def turn(self):
        """One random call: all that it writes, or why it is refused, and all requests behind it."""
        chances = dict(sample=0.4, verify=0.2, change=0.2, accept=0.1, draft=0.05, logprobs=0.05)
        name = self.random.choice(list(chances), p=list(chances.values()))
        log = []
        try:
            for result in getattr(self, name)():
                log += [(name, *one) for one in arrays_of(result).items()]
        except (ValueError, clsample.Error) as error:
            log.append((name, "refused", str(error)))
        return log + [(name, f"request {i}", saved_of(r)) for i, r in enumerate(self.requests)]


def bytes_of(value):
    return value.tobytes() if isinstance(value, np.ndarray) else value


def saved_of(request):
    """The bytes, or why there are none: a rollback may have removed more tokens than there were."""
    try:
        return bytes(request.save())
    except clsample.BadArgument as error:
        return str(error)


@pytest.mark.parametrize("number", range(int(os.environ.get("CLSAMPLE_STORIES", 24))))
def test_random_calls(device, number):
    """A device and the host write the same bytes, and refuse the same."""
    stories = [Story(context, number, ("f4", "f2")[number % 4 == 3]) for context in (device, HOST)]
    for _ in range(25):
        ours, theirs = (story.turn() for story in stories)
        assert [one[:2] for one in ours] == [one[:2] for one in theirs]
        for (call, what, one), (*_, other) in zip(ours, theirs):
            if what in LOOSE:
                np.testing.assert_array_max_ulp(one, other, 1)
            else:
                assert bytes_of(one) == bytes_of(other), (call, what, one, other)


@pytest.mark.parametrize("params", PARAMS, ids=" ".join)
def test_requests_move(device, params):
    """A request that a device and the host have by turns draws the text of one that stays."""
    rows = np.random.default_rng(5).normal(size=(12, SMALL)).astype(np.float32) * 2
    options = dict(slot_count=2, max_history=64, max_rollback=4)
    with device.sampler(SMALL, **options) as first, HOST.sampler(SMALL, **options) as second:
        for sampler in (first, second):
            sampler.infill([0, 1], [-1] * SMALL)
        stays, moves = (first.begin([1, 2, 1, 2], seed=3, **params) for _ in range(2))
        texts = [], []
        for turn, row in enumerate(rows):
            for one, text in zip((stays, moves), texts):
                if turn == 7:
                    one.rollback(3)
                text.append(int(one.sampler.sample(row, one).tokens[0]))
            saved = moves.save()
            assert bytes(saved) == bytes(stays.save())
            moves.end()
            moves = (second, first)[turn % 2].load(saved, grammar=params.get("grammar"))
        assert texts[0] == texts[1] and max(texts[0]) >= 0


def test_arithmetic_has_a_number():
    assert clsample.arithmetic_version() == HOST.info.arithmetic == 1


# --------------------------------------------------------------- what only a device has


def test_what_is_a_devices(device, cl, theirs):
    """It is refused by its name; what is the host's goes on."""
    assert (HOST.info.host, device.info.host) == (1, 0) and HOST.info.shortlist == 1024
    assert repr(HOST) == "<clsample.Context on the host>" and HOST.programs() == []
    row = np.zeros((1, SMALL), np.float32)
    refused = "is a device's, and the Context is the host's(; the order is .*)?$"
    buffer = cl.Buffer(theirs[0], cl.mem_flags.READ_WRITE, row.nbytes)
    with HOST.sampler(SMALL) as sampler, sampler.begin() as here, device.sampler(SMALL) as other:
        step, array = other.sample(row, other.begin()), device.to_device(row)
        nothing = HOST.empty(1)
        for what, call in (
            ("logits", lambda: sampler.sample(array, here)),
            ("logits", lambda: sampler.sample(buffer, here)),
            ("bias", lambda: sampler.sample(row, here, bias=array)),
            ("mask", lambda: sampler.sample(row, here, mask=cl.array.to_device(theirs[1], row))),
            ("positions", lambda: sampler.sample(row, here, positions=step.tokens)),
            ("given", lambda: sampler.sample(row, here, given=array)),
            ("requests", lambda: sampler.sample(row, step.tokens)),
            ("tokens", lambda: sampler.accept(step.tokens, here)),
            ("queue", lambda: sampler.sample(row, here, queue=device.queue)),
            (r"wait_for\[0\]", lambda: sampler.sample(row, here, wait_for=step)),
            (r"wait_for\[1\]", lambda: sampler.draft(here, 2, wait_for=[nothing, step.event])),
            ("queue", lambda: HOST.queue),
            ("device", lambda: HOST.device),
            ("buffer", lambda: HOST.array(buffer, SMALL)),
            ("the self-test", HOST.selftest),
            ("device", lambda: clsample.Context("host", "pocl")),
            ("queue", lambda: clsample.Context("host", queue=device.queue)),
        ):
            with pytest.raises(TypeError, match=f"^{what} {refused}"):
                call()
        with pytest.raises(TypeError, match="^tokens must be True or a NumPy array, not DeviceArr"):
            sampler.sample(row, here, tokens=step.tokens)
        with pytest.raises(clsample.BadArgument, match="no device, so that it has no compiled pr"):
            HOST.export()
        first = sampler.sample(row, here, wait_for=[])
        assert first.done and first.event is None and first.wait() is None
        assert sampler.sample(row, here, wait_for=[first, first.tokens]).get()["tokens"][0] >= 0


def test_numpys_arrays(logits):
    """They are what a device's arrays are elsewhere: requests by slots, outputs, results."""
    with HOST.sampler(1000, 2, max_rollback=1) as sampler:
        a, b = sampler.begin(seed=1), sampler.begin(seed=2)
        wanted = sampler.sample(logits[:2], [a, b], logprobs=True, defer_accept=True)
        tokens, logprobs = np.zeros(2, np.int32), HOST.empty(2)
        slots = np.array([a.slot, b.slot], np.int32)
        step = sampler.sample(logits[:2], slots, tokens=tokens, logprobs=logprobs)
        assert step.tokens is tokens and step.logprobs is logprobs
        assert isinstance(wanted.tokens, clsample.HostArray)
        assert wanted.get()["tokens"] is wanted.tokens
        assert np.array_equal(tokens, wanted.tokens) and np.array_equal(logprobs, wanted.logprobs)
        into = np.zeros(2, np.int32)
        assert wanted.tokens.get(into) is into and np.array_equal(into, tokens)
        sampler.accept(step.tokens, slots, rollback=[1, 1])
        for wrong in (slots.astype(float), slots.astype(np.int64)):
            with pytest.raises(TypeError, match="requests must be a list of requests"):
                sampler.sample(logits[:2], wrong)
        with pytest.raises(clsample.BadArgument, match="requests"):
            sampler.sample(logits[:1], np.array([5], np.int32))


def test_a_watermark_is_found():
    logits = np.random.default_rng(1).normal(0, 2, (60, 1000)).astype(np.float32)
    with HOST.sampler(1000, 1, slot_count=2, max_history=64) as sampler:
        request = sampler.begin(watermark_key=42)  # a context of 4
        tokens = [int(sampler.sample(row[None], [request]).tokens.get()[0]) for row in logits]
        with pytest.raises(clsample.BadArgument, match="watermark_context is 0"):
            sampler.begin(watermark_key=42, watermark_context=0)
    found = clsample.watermark_detect(tokens, 42)
    assert found.scored == 60 and found.p_value < 1e-6
    assert clsample.watermark_detect(tokens, 43).p_value > 1e-3
    squares = clsample.watermark_detect([i * i % 97 for i in range(24)], 42, context=4)
    assert squares.score == pytest.approx(36.26764966) and squares.scored == 24
    with pytest.raises(clsample.BadArgument, match=r"context is 65; it must be 1 to 64"):
        clsample.watermark_detect(tokens, 42, 65)


def test_a_watermark_of_sglang_is_found():
    logits = np.random.default_rng(2).normal(0, 2, (60, 1000)).astype(np.float32)
    keys = dict(key_b=7, mixing=0.25)
    with HOST.sampler(1000, 1, slot_count=2, max_history=64) as sampler:
        request = sampler.begin(
            [3, 1, 4],
            watermark_rule="sglang",
            watermark_key=42,
            watermark_key_b=7,
            watermark_mixing=0.25,
        )
        tokens = [int(sampler.sample(row[None], [request]).tokens.get()[0]) for row in logits]
    found = clsample.watermark_detect(tokens, 42, rule="sglang", prompt=[3, 1, 4], **keys)
    assert found.scored == 60 and found.p_value < 1e-6
    assert clsample.watermark_detect(tokens, 42, rule="sglang", **keys).scored == 56
    assert clsample.watermark_detect(tokens, 42).p_value > 1e-3
    assert clsample.watermark_detect(tokens, 42, rule="sglang").p_value > found.p_value
    with pytest.raises(clsample.BadArgument, match="prompt is set, but call->rule is not"):
        clsample.watermark_detect(tokens, 42, prompt=[1])
    with pytest.raises(ValueError, match="rule is 'sg'; it must be one of 'vllm', 'sglang'"):
        clsample.watermark_detect(tokens, 42, rule="sg")


def test_parameters_by_phase():
    params = clsample.Params.from_vllm(
        {"temperature": 0.0, "presence_penalty": 4.0, "post_thinking": {"top_k": 1}},
        thinking_start=[8],
        thinking_ends=[[9]],
        typical_p=0.5,
    )
    second = params["post_thinking"]
    assert second["presence_penalty"] == 4.0 and second["typical_p"] == 0.5
    params["post_thinking"] = {"temperature": 0}
    logits = np.array([[3, 2, 0, 0, 0, 0, 0, 0, 0, 1]], np.float32)
    with HOST.sampler(10, 1, max_history=8) as sampler, sampler.begin(**params) as request:
        tokens = [int(sampler.sample(logits, [request]).tokens.get()[0]) for _ in range(2)]
        request.append_prompt([8])
        tokens += [int(sampler.sample(logits, [request]).tokens.get()[0]) for _ in range(3)]
        assert tokens == [0, 0, 1, 9, 0]
        with pytest.raises(clsample.BadArgument, match="post_thinking has seed, which is not by"):
            request.update(post_thinking={"seed": 3})
    with pytest.raises(ValueError, match="post_thinking = .*: 'seed' is not by phase"):
        clsample.Params.from_vllm({"post_thinking": {"seed": 3}})
