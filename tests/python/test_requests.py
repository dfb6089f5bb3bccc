# SPDX-License-Identifier: MIT
"""Proves the calls on requests: forks, rollbacks, saved states, turns, and slots that are freed."""

import copy
import gc
import pickle

import numpy as np
import pytest

import clsample
from conftest import HOST, ended, token_of


def draw(sampler, row, *requests):
    return (
        sampler.sample([row] * len(requests) if len(requests) > 1 else row, requests)
        .tokens.get()
        .tolist()
    )


def test_a_fork_draws_the_same_until_it_has_another_seed(sampler, logits):
    row = logits[0]
    parent = sampler.begin([1, 2], seed=5)
    draw(sampler, row, parent)
    child, other = parent.fork(), parent.fork(seed=6)
    assert child.params == parent.params == {"seed": 5} and other.params == {"seed": 6}
    a, b, c = draw(sampler, row, parent, child, other)
    assert a == b == token_of(row, seed=5, position=1)
    assert c == token_of(row, seed=6, position=1)
    ended(parent, child, other)


def test_a_request_without_a_seed_has_one_of_its_own(sampler, logits):
    """The seed is drawn from the system, and reported. 0 is a seed."""
    one, two, zero = sampler.begin(), sampler.begin(seed=None), sampler.begin(seed=0)
    seeds = [request.params["seed"] for request in (one, two, zero)]
    assert seeds[2] == 0 and len(set(seeds)) == 3 and all(0 <= seed < 2**64 for seed in seeds)
    copy, other = one.fork(), one.fork(seed=None)
    assert copy.params["seed"] == seeds[0] != other.params["seed"]
    two.update(temperature=0.5)
    assert two.params["seed"] == seeds[1]
    two.update(seed=None, temperature=1.0)
    assert two.params["seed"] not in seeds
    requests = [one, two, zero, copy, other]
    assert draw(sampler, logits[0], *requests) == [
        token_of(logits[0], seed=request.params["seed"]) for request in requests
    ]
    sampler.check(seed=None)
    state = one.save()
    with sampler.load(state) as loaded:
        assert loaded.params["seed"] == seeds[0]
    ended(*requests)


def test_rollback(sampler, logits):
    with sampler.begin(seed=5, frequency_penalty=1.0) as one:
        tokens = [draw(sampler, logits[1], one)[0] for _ in range(4)]
        one.rollback(3)
        assert [draw(sampler, logits[1], one)[0] for _ in range(3)] == tokens[1:]
        with pytest.raises(ValueError, match="rollback of 16"):
            one.rollback(17)


def test_save_and_load(sampler, logits):
    one = sampler.begin([4, 5, 6], seed=9, repetition_penalty=1.5)
    first = draw(sampler, logits[2], one)
    saved = pickle.loads(pickle.dumps(one.save()))
    assert saved.params == {"seed": 9, "repetition_penalty": 1.5}
    two = sampler.load(saved)
    assert draw(sampler, logits[2], one) == draw(sampler, logits[2], two)
    two.update(seed=10)
    assert two.params["seed"] == 10
    plain = sampler.load(bytes(saved))
    with pytest.raises(ValueError, match="not known"):
        plain.update(seed=1)
    expected = token_of(
        logits[2], prompt=[4, 5, 6], output=first, seed=9, repetition_penalty=1.5
    )
    assert draw(sampler, logits[2], plain) == [expected]
    with pytest.raises(clsample.BadArgument):
        sampler.load(bytes(saved)[:-1])
    ended(one, two, plain)


def test_prompts_turns_and_updates(sampler, logits):
    row = logits[3]
    params = {"seed": 2, "presence_penalty": 4.0, "penalty_scope": "all"}
    with sampler.begin([1], max_tokens=2, **params) as one:
        one.append_prompt([2, 3])
        output = []
        for _ in range(2):
            output += draw(sampler, row, one)
            assert (
                output[-1] == token_of(row, prompt=[1, 2, 3], output=output[:-1], **params)
            )
        assert draw(sampler, row, one) == [-1]
        one.next_turn([4])
        prompt = [1, 2, 3, *output, 4]
        assert draw(sampler, row, one) == [
            token_of(row, prompt=prompt, position=2, **params)
        ]
        one.update(temperature=0)
        assert one.params["temperature"] == 0 and one.params["seed"] == 2
        sampler.check(temperature=0.5)


def test_what_was_given_stays_as_it_was(sampler, logits):
    """A request has its own copies: iterators that are used up, and arrays, lists and dicts that
    the caller changes, do not change what a later update() sets."""
    best = [int(token) for token in np.argsort(-logits[0])[:6]]
    wanted = {
        "stop_ids": best[:1],
        "bad_words": [[best[0]], [best[1]]],
        "logit_bias": {best[2]: -100.0},
        "allowed_ids": best[:5],
        "chain": ["top_k", "temperature"],
    }
    token = token_of(logits[0], seed=3, **wanted)
    assert token in best[3:5]

    def arrays():
        return {
            "stop_ids": np.array(best[:1]),
            "bad_words": [[best[0]], np.array([best[1]])],
            "logit_bias": dict(wanted["logit_bias"]),
            "allowed_ids": np.array(best[:5]),
            "chain": list(wanted["chain"]),
        }

    def iterators():
        pairs = {**wanted, "logit_bias": wanted["logit_bias"].items()}
        return {name: (one for one in value) for name, value in pairs.items()}

    def spoil(params):
        params["bad_words"][1][0] = best[5]
        params.pop("seed", None)
        for value in params.values():
            value.fill(best[5]) if isinstance(value, np.ndarray) else value.clear()

    def updated(params):
        one = sampler.begin()
        one.update(**params)
        return one

    state = bytes(updated(wanted).save())
    for make in (arrays, iterators):
        for begin in (
            lambda params: sampler.begin(**params),
            lambda params: sampler.load(state, params),
            updated,
        ):
            params = make()
            with begin(params) as one:
                if make is arrays:
                    spoil(params)
                spoil(one.params)
                spoil(one.save().params)
                one.update(seed=3)
                assert draw(sampler, logits[0], one) == [token]
                assert pickle.loads(pickle.dumps(one.save())).params.keys() == one.params.keys()


def test_what_owns_something_is_not_copied(sampler):
    """Two objects with the same slot, or with the same memory, would free it twice."""
    with sampler.begin() as one:
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"a Request cannot be copied .* fork\(\)"):
                way(one)
            with pytest.raises(TypeError, match="a Sampler cannot be copied"):
                way(sampler)
            with pytest.raises(TypeError, match="a Context cannot be copied"):
                way(sampler.context)


def test_forced_ids(sampler, logits):
    with sampler.begin(seed=3) as one:
        one.force([7, 8, 9])
        step = sampler.sample(logits[0], one)
        assert step.tokens.get().tolist() == [7]
        assert step.status.get()[0] & clsample.RowStatus.FORCED
        assert draw(sampler, logits[0], one) == [8]
        one.force([])
        assert draw(sampler, logits[0], one) == [token_of(logits[0], (), [7, 8], seed=3)]


def test_accepting_several(sampler, logits):
    params = {"presence_penalty": 3.0}
    with sampler.begin(seed=1, **params) as a, sampler.begin(seed=2, **params) as b:
        sampler.accept([[4, 5, 6], [7, -1, -1]], [a, b])
        assert draw(sampler, logits[1], a, b) == [
            token_of(logits[1], seed=1, output=[4, 5, 6], **params),
            token_of(logits[1], seed=2, output=[7], **params),
        ]


def test_thinking_and_loops(sampler, logits):
    with sampler.begin(
        seed=1, thinking_budget=2, thinking_forced=[5, 6], loop_repeats=2, loop_max=4
    ) as one:
        assert [draw(sampler, logits[0], one)[0] for _ in range(4)][2:] == [5, 6]


def test_output_of_before(sampler, logits):
    with sampler.begin([1], [8, 9], seed=3) as one:
        assert draw(sampler, logits[0], one) == [token_of(logits[0], seed=3, position=2)]


def test_slots_are_freed(sampler, logits):
    requests = [sampler.begin() for _ in range(sampler.slot_count)]
    assert sorted(request.slot for request in requests) == list(range(sampler.slot_count))
    with pytest.raises(RuntimeError, match="no slot is free, of 8"):
        sampler.begin()
    requests.pop()  # the last reference
    gc.collect()
    requests.append(sampler.begin())
    requests[0].end()
    requests[0].end()
    with pytest.raises(ValueError, match="has ended"):
        requests[0].append_prompt([1])
    with pytest.raises(ValueError, match=r"requests\[1\] has ended"):
        sampler.sample(logits[:2], [requests[1], requests[0]])
    ended(*requests)


def test_a_refused_request_takes_no_slot(sampler):
    before = len(sampler._free)
    with pytest.raises(clsample.BadArgument, match="top_p"):
        sampler.begin(top_p=2.0)
    assert len(sampler._free) == before


def test_infill(sampler, logits):
    tables = ([0, 1], np.full(1000, -1))
    sampler.infill(*tables)
    with sampler.begin(infill=1, top_k=20, seed=3) as one:
        with HOST.sampler(1000) as twin, twin.begin(top_k=20, seed=3) as other:
            message = "infill needs the tables of cls_sampler_infill"
            with pytest.raises(clsample.BadArgument, match=message):
                other.update(infill=1)
            twin.infill(*tables)
            other.update(infill=1)
            assert draw(sampler, logits[0], one) == draw(twin, logits[0], other)
