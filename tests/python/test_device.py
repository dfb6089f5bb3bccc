# SPDX-License-Identifier: MIT
"""Proves that what goes in and comes out has an effect, and the right one, on a device and on the
host. test_host.py compares all that both write."""

import warnings

import numpy as np
import pytest

import clsample
from clsample import _structs
from conftest import HOST, ROWS, VOCAB, ended, reference, token_of


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_types_of_logits(context, logits, kind):
    if kind == "float16":
        given, row, options = logits.astype(np.float16), logits.astype(np.float16), {}
    else:
        given = row = (logits.view(np.uint32) >> 16).astype(np.uint16)
        options = {"dtype": "bfloat16"}
    with context.sampler(VOCAB, dtypes=[kind]) as sampler, sampler.begin(seed=5, top_k=40) as one:
        for value in (given[1], context.to_device(given[1:2])):
            token = sampler.sample(value, one, positions=[0], **options).tokens.get()[0]
            assert token == token_of(row[1], seed=5, top_k=40, position=0, **options)
        array = context.to_device(given[1:2], kind)
        options = options if context is HOST else {}  # whose arrays are NumPy's
        assert sampler.sample(array, one, positions=[0], **options).tokens.get()[0] == token
        assert array.get().tobytes() == given[1:2].tobytes()
        with pytest.raises(clsample.NotCompiled, match="the sampler was not created for it"):
            sampler.sample(logits[1], one)


def swapped(values):
    """The same numbers in the byte order that this machine does not have."""
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder())


def test_the_other_byte_order(sampler, logits):
    """Arrays on the host are converted, and no array on the device has the other order."""
    context, row, bits = sampler.context, logits[:1], np.array([2**63 + 5], np.uint64)
    allowed = np.arange(1, 33, dtype=np.int32).reshape(1, 32)
    bias = np.random.default_rng(3).normal(size=(1, VOCAB)).astype(np.float32) * 3
    halves = (row.view(np.uint32) >> 16).astype(np.uint16)
    cases = [
        (row, {}),
        (row.astype(np.float16), {"dtype": "float16"}),
        (halves, {"dtype": "bfloat16"}),
        (row, {"mask": allowed}),
        (row, {"bias": bias}),
    ]
    for value, more in cases:
        other = {n: v if isinstance(v, str) else swapped(v) for n, v in more.items()}
        token = token_of(value, seed=1, **more)
        assert token_of(swapped(value), seed=1, **other) == token
        if "dtype" in more:
            with context.sampler(VOCAB, dtypes=[more["dtype"]]) as typed, typed.begin(seed=1) as a:
                assert typed.sample(swapped(value), a, **other).tokens.get()[0] == token
            continue
        with sampler.begin(seed=1) as a:
            for given in (swapped(value), context.to_device(swapped(value))):
                step = sampler.sample(given, a, positions=swapped([0]), **other)
                assert step.tokens.get()[0] == token
    with sampler.begin(seed=1) as a:
        token = sampler.sample(row, a, random_bits=swapped(bits)).tokens.get()[0]
        assert token == token_of(row, random_bits=bits)
    ids, weights = np.array([5, 9, 100], np.int32), row[0, :3]
    token = clsample.draw(ids, weights, seed=1, vocab=VOCAB)
    assert token == clsample.draw(swapped(ids), swapped(weights), seed=1, vocab=VOCAB)
    assert context.to_device(swapped(row)).get().tobytes() == row.tobytes()
    with pytest.raises(TypeError, match="dtype is [<>]f4; arrays on the device have"):
        context.empty(5, swapped(row).dtype)
    with pytest.raises(TypeError, match="dtype is [<>]f4; it must be float32"):
        sampler.sample(row, [None], dtype=swapped(row).dtype)


def test_rows_with_gaps_and_few_requests(sampler, logits):
    wide = np.zeros((ROWS, VOCAB + 24), np.float32)
    wide[:, 8 : 8 + VOCAB] = logits
    part = wide[1:3, 8 : 8 + VOCAB]
    with sampler.begin(seed=1) as a:
        step = sampler.sample(part, [None, a])
        assert step.tokens.get().tolist() == [-1, token_of(logits[2], seed=1)]
        assert step.status.get().tolist() == [clsample.RowStatus.SKIPPED, 0]


def test_maps(sampler, logits):
    """Rows of logits, positions, numbers of draws and random bits in place of their own."""
    bits = np.array([2**63 + 5, 77], np.uint64)
    with sampler.begin(seed=3) as a, sampler.begin(seed=4) as b:
        slots = sampler.context.to_device(np.array([b.slot, a.slot], np.int32))
        both = dict(positions=[5, 5], draws=[0, 9], defer_accept=True)
        drawn = [(r, dict(random_bits=bits[[r]])) for r in range(2)]
        for requests, more, wanted in (
            ([a, b], dict(logits_map=[3, 0]), [(3, dict(seed=3)), (0, dict(seed=4))]),
            ([a, a], both, [(r, dict(seed=3, position=5, draws=[9 * r])) for r in range(2)]),
            ([a, b], dict(random_bits=bits), drawn),
            ([a, b], dict(random_bits=bits.tolist()), drawn),
            (slots, dict(positions=[1, 1]), [(r, dict(seed=4 - r, position=1)) for r in range(2)]),
        ):
            rows = logits if "logits_map" in more else logits[:2]
            tokens = sampler.sample(rows, requests, **more).tokens.get().tolist()
            assert tokens == [token_of(logits[row], **one) for row, one in wanted]


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("packed", [False, True])
def test_masks_and_biases(sampler, logits, where, packed):
    """Each row has its own by the map, in any form."""
    random, put = np.random.default_rng(2), sampler.context.to_device
    mask = random.random((2, VOCAB)) < 0.05
    bias = random.normal(size=(2, VOCAB)).astype(np.float16 if packed else np.float32) * 3
    if packed:
        bits = np.packbits(mask, axis=1, bitorder="little")
        mask = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 4))).view(np.int32)
    requests = [sampler.begin(seed=s) for s in range(3)]
    for name, value in (("mask", mask), ("bias", bias)):
        given = {name: value if where == "host" else put(value), f"{name}_map": [1, -1, 0]}
        step = sampler.sample(logits[:3], requests, positions=[0] * 3, **given)
        own = [{name: value[1]}, {}, {name: value[0]}]
        expected = [token_of(logits[r], seed=r, **more) for r, more in enumerate(own)]
        assert step.tokens.get().tolist() == expected
    ended(*requests)


@pytest.mark.parametrize("scale", [0.5, 1.5, 4.0])
def test_guidance(sampler, logits, scale):
    """Logits and a bias of the rows without the prompt are the guided distribution."""
    without = logits[2:4] * 0.5 + logits[:2] * 0.25
    more = {"bias_factor": 1 / scale - 1}
    requests = [sampler.begin(seed=s, temperature=0.8 / scale) for s in range(2)]
    step = sampler.sample(logits[:2], requests, bias=without, probs=True, **more)
    guided = (scale * logits[:2].astype(float) + (1 - scale) * without) / 0.8
    weights = np.exp(guided - guided.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True)
    assert np.abs(step.probs.get() - expected).max() < 1e-5
    # The upper halves of floats are bfloat16.
    upper = (without.view(np.uint32) >> 16).astype(np.uint16)
    rounded = (upper.astype(np.uint32) << 16).view(np.float32)
    for given, bias in ((without, without), (upper, rounded)):
        step = sampler.sample(logits[:2], requests, bias=given, positions=[0, 0], **more)
        own = [dict(seed=r, temperature=0.8 / scale, bias=bias[r], **more) for r in range(2)]
        assert step.tokens.get().tolist() == [token_of(logits[r], **own[r]) for r in range(2)]
    ended(*requests)


def test_outputs(sampler, logits):
    requests = [sampler.begin(seed=s, top_k=30, temperature=0.7) for s in range(ROWS)]
    given = np.arange(ROWS * 3, dtype=np.int32).reshape(ROWS, 3)
    step = sampler.sample(
        logits,
        requests,
        logprobs=True,
        ranks=True,
        top=4,
        given=given,
        probs=True,
        final_logits=True,
        entropy=True,
        kept_mass=True,
        kept=40,
    )
    results = [
        reference(logits[r], seed=r, top_k=30, temperature=0.7, probs=True, logprobs=True)
        for r in range(ROWS)
    ]
    tokens = step.tokens.get()
    assert tokens.tolist() == [one.tokens[0] for one in results]
    raw = np.log(np.exp(logits - logits.max(1, keepdims=True)).astype(np.float64))
    raw -= np.log(np.exp(raw).sum(1, keepdims=True))
    order = np.argsort(-logits, axis=1, kind="stable")
    assert np.array_equal(step.top.ids.get(), order[:, :4])
    assert np.allclose(step.top.logprobs.get(), np.take_along_axis(raw, order[:, :4], 1), atol=1e-4)
    assert np.allclose(step.given.logprobs.get(), np.take_along_axis(raw, given, 1), atol=1e-4)
    assert np.array_equal(
        step.ranks.get(), [(logits[r] >= logits[r, t]).sum() for r, t in enumerate(tokens)]
    )
    assert step.logprobs.get().tolist() == [one.logprobs[0] for one in results]
    probs = step.probs.get()
    assert np.allclose(probs, [one.probs[0] for one in results], atol=1e-6)
    assert step.kept.counts.get().tolist() == [30] * ROWS
    assert np.array_equal(step.kept.ids.get()[:, :30], order[:, :30])
    assert (step.kept.ids.get()[:, 30:] == -1).all()
    assert (np.isfinite(step.final_logits.get()).sum(1) == 30).all()
    assert step.entropy.shape == step.kept_mass.shape == (ROWS,)
    together = step.get()
    assert np.array_equal(together["tokens"], tokens) and "probs" in together
    assert np.array_equal(together["top.ids"], order[:, :4])
    ended(*requests)


def test_kept_sets_with_offsets(sampler, logits):
    requests = [sampler.begin(seed=s, top_k=5 + 9 * s, temperature=0.7) for s in range(ROWS)]
    fixed = sampler.sample(logits, requests, kept_set=64, defer_accept=True)
    counts, sets = fixed.kept_set.counts.get(), fixed.kept_set.ids.get()
    assert fixed.kept_set.offsets is None
    for capacity in (counts.sum(), counts.sum() - 1, counts[0], counts[:2].sum() - 1):
        step = sampler.sample(
            logits,
            requests,
            kept_set={"capacity": capacity, "ids": True, "counts": True, "offsets": True},
            defer_accept=True,
        )
        found, offsets = step.kept_set.ids.get(), step.kept_set.offsets.get()
        places = [0]  # of sets one behind the other, without those that do not fit
        for n in counts:
            places.append(places[-1] + (n if n <= capacity - places[-1] else 0))
        assert np.array_equal(offsets, places)
        assert found.shape == (capacity,)
        assert np.array_equal(step.kept_set.counts.get(), counts)
        for r, status in enumerate(step.status.get()):
            begin, end = offsets[r : r + 2]
            fits = end - begin == counts[r]
            assert fits or begin == end
            assert bool(status & clsample.RowStatus.OVERFLOW) != fits
            assert np.array_equal(found[begin:end], sets[r, : end - begin])
    with pytest.raises(clsample.BadArgument, match="kept_set is"):
        sampler.sample(logits, requests, kept_set={"capacity": ROWS * VOCAB + 1, "offsets": True})
    ended(*requests)


def test_outputs_of_the_callers(sampler, logits):
    context = sampler.context
    tokens = context.to_device(np.zeros(2, np.int32))
    latest = context.to_device(np.full(sampler.slot_count, 7, np.int32))
    with sampler.begin() as a, sampler.begin() as b:
        step = sampler.sample(
            logits[:2],
            [a, b],
            tokens=tokens,
            status=False,
            latest=latest,
            logprob_kind="final",
            logprobs=True,
            top={"count": 2, "ids": True},
        )
        assert step.tokens is tokens and step.status is None
        assert step.top.logprobs is None and step.top.ids.shape == (2, 2)
        found = latest.get()
        assert [found[a.slot], found[b.slot]] == tokens.get().tolist()
        assert (np.delete(found, [a.slot, b.slot]) == 7).all()


def test_defer_and_accept(sampler, logits):
    with sampler.begin(seed=1, presence_penalty=5.0) as a:
        first = sampler.sample(logits[0], a, defer_accept=True).tokens
        accepted = sampler.accept(first, [a])
        second = sampler.sample(logits[0], a).tokens.get()[0]
        accepted.wait()
        assert accepted.done
        one = first.get()[0]
        assert one == token_of(logits[0], seed=1, presence_penalty=5.0)
        assert second == token_of(logits[0], seed=1, presence_penalty=5.0, output=[one])
        sampler.accept([12], a)
        third = sampler.sample(logits[0], a).tokens.get()[0]
        assert third == token_of(logits[0], (), [one, second, 12], seed=1, presence_penalty=5.0)


def test_logprobs(sampler, logits):
    found = sampler.logprobs(logits[:3], top=2, given=[[5], [6], [7]])
    step_ids = np.argsort(-logits[:3], axis=1, kind="stable")[:, :2]
    assert np.array_equal(found.top.ids.get(), step_ids)
    exact = logits[:3].astype(np.float64)
    exact -= np.log(np.exp(exact).sum(1, keepdims=True))
    assert np.allclose(found.given.logprobs.get()[:, 0], exact[[0, 1, 2], [5, 6, 7]], atol=1e-4)


def test_draw(sampler, logits):
    """A host filters the kept set of a deferred step, draws, and the request takes the token."""
    with sampler.begin(seed=11, stream=3) as a:
        step = sampler.sample(logits[:1], [a], kept=50, defer_accept=True)
        ids, weights = step.kept.ids.get()[0, :9], step.kept.logits.get()[0, :9]
        token = clsample.draw(ids, weights, seed=11, stream=3, vocab=VOCAB)
        assert token in ids
        sampler.accept([token], [a])
        expected = token_of(logits[1], seed=11, stream=3, output=[token])
        assert sampler.sample(logits[1:2], [a]).tokens.get().tolist() == [expected]


@pytest.mark.parametrize("method", ["match", "standard", "block"])
def test_forms_of_drafts(sampler, method):
    """In lists, in an array, and as a loop makes them that drafts one token for each request at a
    time: a verification gives the same."""
    random = np.random.default_rng(8)
    drafts, ids = [[3, 4, 5], [], [6]], np.array([3, 4, 5, 6], np.int32)
    rows = random.normal(size=(7, VOCAB)).astype(np.float32)
    rows[[0, 1], [3, 4]] += 20
    probs = random.random((4, VOCAB)).astype(np.float32)
    probs /= probs.sum(1, keepdims=True)
    steps, own_by_step = np.full((3, 3), -1, np.int32), np.full((3, 3, VOCAB), np.nan, np.float32)
    for place, i, k in ((0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 2, 0)):
        steps[k, i], own_by_step[k, i] = ids[place], probs[place]
    found = []
    for given, more, own in (
        (drafts, {}, probs),
        ([3, 0, 1], dict(draft_ids=sampler.context.to_device(ids)), probs),
        (drafts, dict(draft_ids=steps, by_step=True), own_by_step.reshape(9, VOCAB)),
    ):
        requests = [sampler.begin(seed=s, top_p=0.9) for s in range(3)]
        if method != "match":
            more["draft_probs"] = own
        found.append(sampler.verify(rows, given, requests, method=method, logprobs=True, **more))
        ended(*requests)
    assert found[0].emitted.get()[0] >= 2
    for other in found[1:]:
        for name, array in found[0].get().items():
            assert np.array_equal(other.get()[name], array), name


@pytest.mark.parametrize("method", ["standard", "block"])
def test_sparse_drafts(sampler, method):
    """The kept tokens of the step that drew the drafts are the same distribution as its `probs`,
    and so are they as ids of a reduced vocabulary."""
    random = np.random.default_rng(28)
    to_device = sampler.context.to_device
    accepted = 0
    for seed in range(6):
        rows = 4 * random.normal(size=(2 * 3, VOCAB)).astype(np.float32)
        drafters = [sampler.begin(seed=s, top_k=20, temperature=0.8) for s in range(3)]
        own = rows[::2] + random.normal(size=(3, VOCAB)).astype(np.float32) / 4
        step = sampler.sample(own, drafters, probs=True, kept=20)
        ended(*drafters)
        order = random.permutation(20)
        ids = np.ascontiguousarray(step.kept.ids.get()[:, order])
        probs = np.ascontiguousarray(step.kept.probs.get()[:, order])
        reduced = np.arange(VOCAB, dtype=np.int32)[::-1]  # token i of the draft model is this one
        found = []
        for more in (
            dict(draft_probs=step.probs),
            dict(draft_probs=step.kept.probs, draft_tokens=step.kept.ids),
            dict(draft_probs=probs, draft_tokens=ids),
            dict(
                draft_probs=probs,
                draft_tokens=to_device(VOCAB - 1 - ids),
                draft_map=to_device(reduced - np.arange(VOCAB, dtype=np.int32)),
            ),
        ):
            requests = [sampler.begin(seed=s + 10 * seed, top_p=0.95) for s in range(3)]
            done = sampler.verify(
                rows, [1, 1, 1], requests, method=method, draft_ids=step.tokens, **more
            )
            found.append(done.get())
            ended(*requests)
        accepted += found[0]["accepted"].sum()
        for other in found[1:]:
            for name, array in found[0].items():
                assert np.array_equal(other[name], array), name
    assert 3 < accepted < 18


def test_drafts_of_texts(sampler):
    """Drafts are what followed before, and verify() takes them where they are."""
    texts = [[1, 2, 3, 4, 1, 2, 3], [5, 6, 7], [8] * 100]
    requests = [sampler.begin(text, temperature=0) for text in texts]
    found = sampler.draft(requests, 3, min_n=1, max_n=5)
    assert found.draft_ids.get().tolist() == [[4, 1, 2], [-1] * 3, [8] * 3]
    assert found.counts.get().tolist() == [3, 0, 3]
    first = sampler.draft(requests[:2], 3, fill=0, min_n=1)
    rows = np.zeros((8, VOCAB), np.float32)
    rows[range(8), [4, 1, 9, 9, 9, 9, 9, 9]] = 1
    verified = sampler.verify(rows, [3] * 2, requests[:2], draft_ids=first.draft_ids)
    assert first.get()["draft_ids"].tolist() == [[4, 1, 2], [0, 0, 0]]
    assert verified.emitted.get().tolist() == [3, 1]
    ended(*requests)


def test_outputs_of_a_verification(sampler):
    """They are those of steps: each token has the outputs of its row."""
    rows = np.random.default_rng(18).normal(size=(2, VOCAB)).astype(np.float32)
    rows[0, 3] += 20
    given = np.tile(np.array([3, 7, -1], np.int32), (1, 2, 1))
    outputs = dict(logprobs=True, entropy=True, kept_set=200, top=2)
    with sampler.begin(seed=1, top_p=0.9) as a, sampler.begin(seed=1, top_p=0.9) as b:
        found = sampler.verify(rows, [[3]], a, given=given, token_status=True, **outputs).get()
        for place, row in enumerate(rows):
            step = sampler.sample(row, b, given=given[0, place : place + 1], **outputs)
            for name, array in step.get().items():
                name = "token_status" if name == "status" else name
                assert np.array_equal(found[name][0, place], array[0]), name
        assert found["emitted"] == 2 and found["given.ranks"].shape == (1, 2, 3)
        with pytest.raises(clsample.BadArgument, match="probs is set"):
            sampler.verify(rows, [[3]], a, probs=True)
        with pytest.raises(ValueError, match=r"it must be \(1, 2, count\)"):
            sampler.verify(rows, [[3]], a, given=given[:, 0])


def test_drafts_follow(sampler):
    """The draft model's requests get the outputs of a verification, and have its text then."""
    rows = np.zeros((6, VOCAB), np.float32)
    rows[[0, 1, 2, 3, 4, 5], [5, 6, 7, 5, 9, 9]] = 30
    requests = [sampler.begin(temperature=0, stop_ids=[6]), sampler.begin(temperature=0)]
    with sampler.context.sampler(VOCAB, max_rows=2, max_rollback=2) as drafter:
        own = [drafter.begin(seed=i, repetition_penalty=1.5) for i in range(2)]
        drafter.accept([[5, 6], [5, 8]], own)
        found = sampler.verify(rows, [[5, 6], [5, 8]], requests)
        assert found.tokens.get().tolist() == [[5, 6, -1], [5, 9, -1]]
        drafter.accept(found.tokens, own, counts=found.emitted, rollback=found.drafted)
        logits = np.random.default_rng(5).normal(size=(2, VOCAB)).astype(np.float32)
        tokens = drafter.sample(logits, own).tokens.get()
        for i, text in enumerate([[5, 6], [5, 9]]):
            assert tokens[i] == token_of(logits[i], (), text, seed=i, repetition_penalty=1.5)
        ended(*own)
    ended(*requests)


def test_verify_a_tree(sampler):
    rows = np.zeros((4, VOCAB), np.float32)
    rows[0, 8], rows[2, 9], rows[3, 1] = 30, 30, 30
    with sampler.begin(temperature=0) as a:
        counters = sampler.context.to_device(np.zeros((sampler.slot_count, 3), np.int32))
        found = sampler.verify(
            rows,
            iter([[7, 8, 9]]),
            [a],
            method="match",
            parents=iter([[-1, -1, 1]]),
            counters=counters,
        )
        assert found.tokens.get()[0].tolist() == [8, 9, 1, -1]
        assert found.nodes.get()[0].tolist() == [1, 2, -1]
        assert counters.get()[a.slot].tolist() == [3, 2, 3]


def test_bad_rows_fail_alone(sampler, logits):
    rows = logits.copy()
    rows[0] = np.nan
    rows[1, 3] = np.inf
    requests = [sampler.begin(seed=s) for s in range(3)]
    step = sampler.sample(rows[:3], requests, invalid_token=-5)
    assert step.tokens.get().tolist() == [-5, 3, token_of(logits[2], seed=2)]
    assert [clsample.RowStatus(s) for s in step.status.get()] == [
        clsample.RowStatus.NAN | clsample.RowStatus.EMPTY,
        clsample.RowStatus.INF,
        0,
    ]
    ended(*requests)


def test_context(device):
    assert device.info.tier >= clsample.Tier.INT64 and "tier" in device.info._fields
    assert device.device.name and device.device.platform
    assert any(one.int_ptr == device.device.int_ptr for one in clsample.devices())
    names = [program.name for program in device.programs()]
    assert "survey" in " ".join(names)
    found = clsample.Context(device=device.device.platform[:6], work_group=1)
    assert found.device.int_ptr == device.device.int_ptr
    found.close()


def test_features_that_are_added(device, logits):
    """A step needs a feature that the sampler lacks, until compile() adds it."""
    with device.sampler(VOCAB, 1, late_compile=False) as one:
        request = one.begin(seed=5)
        with pytest.raises(clsample.NotCompiled, match="create it with CLS_FEATURE_LOGPROBS"):
            one.sample(logits[:1], request, logprobs=True)
        with pytest.raises(clsample.NotCompiled, match="STATE.*features lack"):
            request.update(presence_penalty=1.0)
        with pytest.raises(ValueError, match="features is 'nothing'"):
            one.compile("nothing")
        one.compile(["logprobs"])
        step = one.sample(logits[:1], request, logprobs=True)
        assert step.get()["logprobs"].shape == (1,)
        mask = np.ones(VOCAB, bool)
        with pytest.raises(clsample.NotCompiled, match="CLS_FEATURE_MASK . CLS_FEATURE_PROBS"):
            one.sample(logits[:1], request, mask=mask, probs=True)
        ended(request)


def test_progress_and_binary(device):
    calls, log = [], []
    with clsample.Context(
        device=device.device, progress=lambda *call: calls.append(call), log=log.append
    ) as one:
        try:
            compiled = one.export()
        except clsample.UnsupportedDevice:
            compiled = None
    assert calls and calls[0][1] == 0 and isinstance(calls[0][0], str)
    assert any(line.startswith("self-test is compiled and proved in ") for line in log)
    if compiled is not None:
        with clsample.Context(device=device.device, binary=compiled) as one:
            assert one.info.origin == clsample.Origin.BINARY
    with pytest.raises(ZeroDivisionError):
        clsample.Context(device=device.device, progress=lambda *call: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        clsample.Context(device=device.device, log=lambda line: 1 // 0)


def test_a_call_compiles_what_it_needs(device, logits):
    """Before it enqueues, once, with progress."""
    programs = []
    one = clsample.Context(device=device.device, progress=lambda name, *_: programs.append(name))
    with one, one.sampler(VOCAB, 2) as sampler, sampler.begin(seed=5) as request:
        bias = np.zeros(VOCAB, np.float32)

        def step():
            return sampler.sample(logits[0], request, bias=bias, logprobs=True, probs=True)

        for call, compiles in (
            (step, True),
            (lambda: sampler.logprobs(logits[0], top=2), False),  # the step has what these need
            (lambda: sampler.accept([3], request), False),
            (lambda: sampler.verify(logits[:2], [[4]], request), True),
        ):
            programs.clear()
            call()
            assert bool(programs) == compiles
            programs.clear()
            call()
            assert not programs
        assert step().tokens.get()[0] >= 0


def test_a_late_compilation_is_told(device, logits):
    """Once, with the names that would have avoided it."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with device.sampler(VOCAB, 1) as one:
            request = one.begin(seed=5)
            request.update(presence_penalty=1.0)
            one.sample(logits[:1], request, mask=np.ones(VOCAB, bool))
            one.sample(logits[:1], request, mask=np.ones(VOCAB, bool))
            request.update(presence_penalty=0.5)
    told = [str(one.message) for one in found]
    assert [one.split(",")[0] for one in told] == [
        "this call compiles penalties", "this call compiles mask"
    ]
    assert all(one.filename == __file__ for one in found)
    assert "call compile(['mask']) before" in told[1]


def test_features_by_name(context, logits):
    for features in ("mask", ["mask"], clsample.Feature.MASK):
        with context.sampler(VOCAB, features=features, late_compile=False) as sampler:
            with sampler.begin() as one:
                sampler.sample(logits[0], one, mask=np.ones(VOCAB, bool))
    assert _structs.choices("features", "all", clsample.Feature, False) == clsample.FEATURES_ALL
    assert _structs.choices("dtypes", "all", clsample.DType, True) == 7


def test_the_history_serves_what_is_usual(context, logits):
    with context.sampler(VOCAB) as sampler:
        for params in (
            {"dry_multiplier": 0.8},
            {"penalty_window": 64, "presence_penalty": 1.0},
            {"loop_repeats": 2},
            {"no_repeat_ngram": 3, "bad_words": [[1, 2, 3]]},
        ):
            sampler.check(**params)
        with pytest.raises(clsample.BadArgument, match="at least 65 is needed"):
            sampler.check(penalty_window=65)
    with context.sampler(VOCAB, max_history=0) as sampler:
        with pytest.raises(clsample.BadArgument, match="at least 64 is needed"):
            sampler.check(loop_repeats=2)


def test_a_progress_that_raises(device):
    """The exception reaches the call that compiles, in its thread, when the library has returned:
    all is compiled then, and the next call goes on."""
    raised, calls = [], []

    def progress(*call):
        calls.append(call)
        if raised:
            raise raised[0]

    with clsample.Context(device=device.device, progress=progress) as one, one.sampler(9) as late:
        for error, call in [
            (KeyboardInterrupt, lambda: one.compile("mask")),
            (ZeroDivisionError, lambda: one.sampler(VOCAB, features=["verify"])),
            (KeyboardInterrupt, lambda: late.compile("kept_sets")),
            (ZeroDivisionError, lambda: late.begin(presence_penalty=1.0)),
        ]:
            raised[:], calls[:] = [error], []
            with pytest.raises(error):
                call()
            assert len(calls) == 1  # it is not called again
            raised.clear()
            call()
            assert len(calls) == 1  # there is nothing left to compile
    with pytest.raises(KeyboardInterrupt):
        raised.append(KeyboardInterrupt)
        clsample.Context(device=device.device, progress=progress)
