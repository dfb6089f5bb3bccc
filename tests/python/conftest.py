# SPDX-License-Identifier: MIT
"""What the tests share: a device and the host, by turns, and rows of logits. `make check-python`
runs them on the package that it has put together in python/package."""

import os
import pathlib

import numpy as np
import pytest

import clsample

VOCAB = 1000
ROWS = 4
FEATURES = (
    "shortlist",
    "search",
    "samplers",
    "penalties",
    "history",
    "state",
    "mask",
    "bias",
    "logprobs",
    "probs",
    "accept",
    "verify",
    "kept_sets",
    "forced",
)
SOURCE = pathlib.Path(os.environ.get("srcdir", pathlib.Path(__file__).parents[2])).resolve()


HOST = clsample.Context("host")


def reference(row, prompt=(), output=(), **more):
    """The host's step of one row, of a request that begins with it. more: the request's parameters,
    and arguments of the step."""
    names = [name for name in more if name in clsample._types.Params.__annotations__]
    params = {"seed": 0, **{name: more.pop(name) for name in names}}
    with HOST.sampler(row.shape[-1], dtypes="all") as sampler:
        return sampler.sample(row, sampler.begin(prompt, output, **params), **more)


def token_of(row, *text, **more):
    return int(reference(row, *text, **more).tokens[0])


def tokens_of(rows, seeds=(1, 2)):
    return [token_of(row, seed=seed) for row, seed in zip(rows, seeds)]


@pytest.fixture(scope="session")
def device():
    """The package's own context on the first usable device."""
    try:
        found = clsample.Context()
    except (clsample.OpenCLNotFound, clsample.UnsupportedDevice) as error:
        pytest.skip(str(error))
    yield found
    found.close()


@pytest.fixture(scope="session", params=["device", "host"])
def context(request):
    return request.getfixturevalue("device") if request.param == "device" else HOST


def opened(context, **options):
    """Another context of the same device, or of the host."""
    if context is HOST:
        return clsample.Context("host", **options)
    return clsample.Context(device=context.device, **options)


@pytest.fixture(scope="session")
def whole(context):
    """A sampler for everything, which the tests share: they end their requests."""
    with context.sampler(
        VOCAB,
        2 * ROWS,
        slot_count=8,
        max_history=64,
        max_rollback=16,
        features=FEATURES,
    ) as found:
        yield found


@pytest.fixture
def sampler(whole):
    yield whole
    whole._collect()
    left = set(range(whole.slot_count)) - set(whole._free)
    for slot in left:
        whole._reset(slot)
    assert not left, "the test has left requests"


@pytest.fixture
def logits():
    """Language-like rows: few likely tokens and a long tail."""
    random = np.random.default_rng(7)
    rows = random.normal(size=(ROWS, VOCAB)).astype(np.float32)
    rows[:, random.choice(VOCAB, 40, replace=False)] += 4
    return rows


@pytest.fixture
def cl():
    return pytest.importorskip("pyopencl")


@pytest.fixture
def theirs(cl, device):
    """A pyopencl.Context and a queue on `device`, and a clsample.Context of them."""
    import pyopencl.array

    assert pyopencl.array
    found = cl.Context([cl.Device.from_int_ptr(device.device.int_ptr, retain=False)])
    queue = cl.CommandQueue(found)
    with clsample.Context(found) as opened:
        yield found, queue, opened


def ended(*requests):
    for request in requests:
        request.end()


def drafted(context, grammar, k=8, **params):
    """What a request with a grammar drafts at its beginning."""
    with context.sampler(grammar.vocab, 1, max_history=8, features="all") as sampler:
        request = sampler.begin(grammar=grammar, **params)
        found = sampler.draft([request], k)
        count = int(found.counts.get()[0])
        ids = found.draft_ids.get().ravel().tolist()
        request.end()
    assert ids[count:] == [-1] * (k - count)
    return ids[:count]
