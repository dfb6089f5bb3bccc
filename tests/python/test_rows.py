# SPDX-License-Identifier: MIT
"""Proves that clsample.sample() draws what the host and a slot of the same seed draw, for every
kind of array; and what it keeps and frees between calls."""

import collections
import os
import re
import threading
import warnings

import numpy as np
import pytest

import clsample
from clsample import RowStatus, _rows
from conftest import ROWS, VOCAB, token_of
from test_dlpack import Producer
from test_examples import run

pytestmark = pytest.mark.filterwarnings("ignore:.*draws on the host")
# Each truncation, alone and with others; numbers and arrays.
PARAMS = {
    "plain": {},
    "usual": dict(temperature=0.8, top_k=40, top_p=0.9, min_p=0.01),
    "greedy": dict(temperature=0),
    "rows": dict(
        temperature=np.array([0, 0.5, 1, 2], np.float32),
        top_k=[1, 5, 0, 50],
        top_p=np.linspace(0.5, 1, ROWS),
        min_p=(0, 0.1, 0, 0.05),
    ),
    "others": dict(typical_p=0.9, top_n_sigma=[2, 0, 1, 3], min_keep=3),
    "xtc": dict(xtc_probability=0.5, xtc_threshold=[0.1, 0.01, 0.2, 0.3], top_a=0.2),
    "chain": dict(chain="llama", temperature=1.5, top_p=0.8),
    "stages": dict(chain=["temperature", "top_k"], top_k=7, temperature=1.5),
}


@pytest.fixture(autouse=True, params=["device", "host"])
def side(request, device, monkeypatch):
    """There is a device, or there is none."""

    class Nowhere(clsample.Context):
        def __init__(self, cl=None, *device, **options):
            if cl is None:
                raise clsample.OpenCLNotFound("a loader was not found")
            super().__init__(cl, *device, **options)

    if request.param == "host":
        if "theirs" in request.fixturenames:
            pytest.skip("pyopencl has a device")
        clsample.clear()
        monkeypatch.setattr(_rows, "Context", Nowhere)
    yield request.param
    if request.param == "host":
        clsample.clear()


@pytest.fixture
def fresh():
    clsample.clear()


def row_of(params, row):
    """The parameters of one row."""
    return {
        name: value if np.ndim(value) == 0 or name == "chain" else np.asarray(value).tolist()[row]
        for name, value in params.items()
    }


def expected(logits, params, seeds, streams, position=0, **more):
    return [
        token_of(row, seed=s, stream=t, position=position, **row_of(params, r), **more)
        for r, (row, s, t) in enumerate(zip(logits, seeds, streams))
    ]


@pytest.mark.parametrize("name", PARAMS)
def test_against_the_host(logits, name):
    params, seeds, rows = PARAMS[name], [2**64 - 1, 0, 7, 7], range(ROWS)
    for position in (0, 5):
        more = {**params, "position": position}
        found = clsample.sample(logits, seed=9, **more)
        assert found.dtype == np.int32 and found.shape == (ROWS,)
        assert found.tolist() == expected(logits, params, [9] * ROWS, rows, position)
        for given in (seeds, np.array(seeds, np.uint64)):
            found = clsample.sample(logits, seed=given, **more)
            assert found.tolist() == expected(logits, params, seeds, [0] * ROWS, position)


def test_where_there_is_no_device(side, fresh, logits):
    """The host draws, and a warning says so once."""
    wanted = expected(logits, {}, [1] * ROWS, range(ROWS))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            assert clsample.sample(logits, seed=1).tolist() == wanted
        assert clsample.sample(logits, seed=1, device="host").tolist() == wanted
    assert len(found) == (side == "host")
    for one in found:
        assert re.search("draws on the host.*: a loader was not found", str(one.message))
        assert one.filename == __file__


def test_against_requests(context, logits):
    """A request of the same seed draws the same text, one call a position."""
    seeds, params = [3, 4, 5, 6], PARAMS["usual"]
    with context.sampler(VOCAB, ROWS) as sampler:
        requests = [sampler.begin(seed=seed, **params) for seed in seeds]
        for position in range(5):
            tokens = sampler.sample(logits, requests).tokens.get()
            found = clsample.sample(logits, seed=seeds, position=position, **params)
            assert np.array_equal(found, tokens)
            more = {**params, "position": np.array([position] * ROWS)}
            assert np.array_equal(clsample.sample(logits, seed=seeds, **more), tokens)


def test_batches(logits):
    """With seeds of their own rows draw the same in any batch, with one seed in their places."""
    seeds = np.arange(ROWS)
    whole = clsample.sample(logits, seed=seeds, top_k=50)
    for r in range(ROWS):
        assert clsample.sample(logits[r : r + 1], seed=seeds[r : r + 1], top_k=50) == whole[r]
    more = np.concatenate([logits, logits[::-1]])
    found = clsample.sample(more, seed=[*seeds, *seeds[::-1]], top_k=50)
    assert found.tolist() == [*whole, *whole[::-1]]
    same = np.repeat(logits[:1], 8, 0)
    assert len(set(clsample.sample(same, seed=1).tolist())) > 1
    assert len(set(clsample.sample(same, seed=[1] * 8).tolist())) == 1


def test_fresh_seeds(logits):
    """Each call draws a seed, which draws the same tokens again."""
    found = [clsample.sample(logits, return_seed=True) for _ in range(4)]
    assert len({seed for _, seed in found}) == len({tuple(tokens) for tokens, _ in found}) == 4
    for tokens, seed in found:
        assert np.array_equal(clsample.sample(logits, seed=seed), tokens)
    assert clsample.sample(logits, seed=5, return_seed=True)[1] == 5


def test_one_row(logits):
    token = clsample.sample(logits[0], seed=3, top_k=20)
    assert token.shape == () and token == token_of(logits[0], seed=3, top_k=20)
    token, status, seed = clsample.sample(logits[0], return_status=True, return_seed=True)
    assert token.shape == status.shape == () and status == 0 and 0 <= seed < 2**64


@pytest.mark.parametrize("elements", ("float16", "bfloat16"))
def test_other_types(logits, elements):
    if elements == "bfloat16":
        rows = (logits.view(np.uint32) >> 16).astype(np.uint16)
        kinds = [(Producer(rows, elements), {}), (rows, {"dtype": "bfloat16"})]
    else:
        rows = logits.astype(elements)
        kinds = [(rows, {}), (Producer(rows), {})]
    wanted = expected(rows, {}, [1] * ROWS, range(ROWS), dtype=elements)
    for given, more in kinds:
        assert clsample.sample(given, seed=1, **more).tolist() == wanted


def test_torch(logits):
    torch = pytest.importorskip("torch")
    tensor, seeds = torch.from_numpy(logits), torch.arange(ROWS)
    params = dict(temperature=torch.tensor([0, 0.5, 1, 2]), top_k=torch.tensor([1, 5, 0, 50]))
    plain = {name: value.numpy() for name, value in params.items()}
    tokens, status = clsample.sample(tensor, seed=seeds, return_status=True, **params)
    assert tokens.dtype == status.dtype == torch.int32 and status.tolist() == [0] * ROWS
    assert tokens.tolist() == expected(logits, plain, range(ROWS), [0] * ROWS)
    one = clsample.sample(tensor[0].bfloat16(), seed=2)
    assert one.shape == () and one == token_of(tensor[0].bfloat16(), seed=2)
    assert isinstance(one, torch.Tensor)


def test_pyopencl(cl, theirs, logits):
    _, queue, opened = theirs
    array = cl.array.to_device(queue, logits)
    wanted = expected(logits, {}, [1] * ROWS, range(ROWS))
    tokens = clsample.sample(array, seed=1)
    assert isinstance(tokens, cl.array.Array) and tokens.dtype == np.int32
    assert (tokens + 1).get().tolist() == [token + 1 for token in wanted]
    tokens, status = clsample.sample(array, seed=1, return_status=True)
    assert tokens.get().tolist() == wanted and status.get().tolist() == [0] * ROWS
    one = clsample.sample(array[1], seed=1)
    assert one.shape == () and one.get() == token_of(logits[1], seed=1)
    many = [clsample.sample(array, seed=1, position=i, return_status=True)[0] for i in range(150)]
    for i in (0, 149):  # more than a sampler's steps in flight
        assert many[i].get().tolist() == expected(logits, {}, [1] * ROWS, range(ROWS), i)
    own = clsample.sample(opened.to_device(logits), seed=1)
    assert isinstance(own, clsample.DeviceArray) and own.get().tolist() == wanted
    one = clsample.sample(opened.to_device(logits[1]), seed=1)
    assert one.shape == () and one.get() == token_of(logits[1], seed=1)
    with pytest.raises(TypeError, match=r"logits must be an array; Context.array\(\) makes one"):
        clsample.sample(array.base_data)
    with pytest.raises(TypeError, match="device is given, but logits are on a device"):
        clsample.sample(array, device="pocl")


def test_rows_without_a_token(cl, theirs, logits):
    rows = logits.copy()
    rows[1, 5], rows[3] = np.nan, -np.inf  # the other tokens of row 1 remain
    for array in (rows, cl.array.to_device(theirs[1], rows)):
        with pytest.raises(ValueError, match="of logits, whose status is: row 3: EMPTY$"):
            clsample.sample(array)
        found = clsample.sample(array, seed=1, return_status=True)
        tokens, status = found if array is rows else [one.get() for one in found]
        wanted = expected(rows, {}, [1] * ROWS, range(ROWS))
        assert tokens.tolist() == wanted and wanted[1] >= 0 and wanted[3] == -1
        assert status.tolist() == [0, RowStatus.NAN, 0, RowStatus.EMPTY]


@pytest.mark.parametrize(
    "arguments, error, text",
    (
        (dict(temperature=-1), clsample.BadArgument, "row 0: .*temperature"),
        (dict(top_p=[1, 1, 2, 1]), clsample.BadArgument, "row 2: .*top_p"),
        (dict(top_k=[1, 2]), ValueError, "top_k has 2 values; it must have 4, one for each row"),
        (dict(top_k=np.ones((2, 2), int)), ValueError, "top_k has 2 values"),
        (dict(top_k=1.5), TypeError, "top_k must be an integer, not float"),
        (dict(top_k=[1, 2, 3.0, 4]), TypeError, "top_k must be an integer, not float"),
        (dict(min_p="much"), TypeError, "min_p must be a number, not str"),
        (dict(seed=-1), ValueError, "seed is -1; it must be from 0 to"),
        (dict(seed=[1, 2, 3, 2**64]), ValueError, "seed is 18446744073709551616"),
        (dict(seed=1.0), TypeError, "seed must be an integer, not float"),
        (dict(position=-1), ValueError, "position is -1; it must be from 0 to 4294967295"),
        (dict(position=[1]), ValueError, "position has 1 values; it must have 4"),
        (dict(presence_penalty=1), TypeError, r"no presence_penalty, .*: see Sampler.begin\(\)"),
        (dict(stop_ids=[1]), TypeError, r"no stop_ids, which needs a request"),
        (dict(top_q=1), TypeError, "sample.. has no argument 'top_q'; did you mean"),
        (dict(temp=1), TypeError, "sample.. has no argument 'temp'; did you mean 'temperature'"),
        (dict(return_seeds=True), TypeError, "did you mean 'return_seed'"),
        (dict(temperature=None), TypeError, "temperature is None; leave it out for its default"),
    ),
)
def test_wrong_arguments(logits, arguments, error, text):
    """The error names the argument, whatever was called before, and the next call works."""
    clsample.sample(logits, seed=1, top_k=[1, 2, 3, 4])
    with pytest.raises(error, match=text):
        clsample.sample(logits, **{"seed": 1, **arguments})
    assert clsample.sample(logits, seed=1).tolist() == expected(logits, {}, [1] * ROWS, range(ROWS))


def test_wrong_logits(logits):
    for wrong, error, text in (
        (logits.astype(np.float64), TypeError, "logits has elements of float64; they must be"),
        (logits[None], ValueError, r"logits has the shape \(1, 4, 1000\); it must be \(rows, voc"),
        (logits[:0], ValueError, r"logits has the shape \(0, 1000\)"),
        (logits.T, ValueError, "logits is not contiguous"),
        ("logits", TypeError, "logits must be an array of numbers"),
        (Producer(logits, device=2), TypeError, "logits is on a CUDA device; .*torch's .cpu()"),
    ):
        with pytest.raises(error, match=text):
            clsample.sample(wrong)
    with pytest.raises(clsample.Error, match="names have no 'a quantum computer'|loader was not"):
        clsample.sample(logits, device="a quantum computer")


# ------------------------------------------------------------ what is kept


def test_what_is_kept(fresh, logits, monkeypatch):
    """One sampler for a vocabulary, a type and a device; only the latest ones; nothing after
    clear()."""
    opened = collections.Counter()

    class Counted(_rows._Rows):
        def __init__(self, context, vocab, count, dtype):
            opened[vocab, count, dtype] += 1
            super().__init__(context, vocab, count, dtype)

    monkeypatch.setattr(_rows, "_Rows", Counted)
    for _ in range(3):
        for rows in (3, 4, 1):
            clsample.sample(logits[:rows])
            clsample.sample(logits[:rows, :500])
    assert opened == {(VOCAB, 4, "float32"): 1, (500, 4, "float32"): 1}
    clsample.sample(np.concatenate([logits, logits]))
    clsample.sample(logits)
    assert opened[VOCAB, 8, "float32"] == 1 and len(opened) == 3
    assert len(_rows._idle) == 2 and len(_rows._contexts) == 1
    for vocab in range(100, 100 + 2 * _rows.SAMPLERS):
        clsample.sample(logits[:1, :vocab])
    assert len(_rows._idle) == _rows.SAMPLERS
    clsample.clear()
    assert not _rows._idle and not _rows._contexts
    clsample.sample(logits)
    assert opened[VOCAB, 4, "float32"] == 2


def test_slots_begin_only_where_parameters_change(fresh, logits, monkeypatch):
    calls = []
    begin = _rows.lib.cls_slot_begin

    class Library:
        def __getattr__(self, name):
            return getattr(clsample._library.lib, name)

        def cls_slot_begin(self, sampler, slot, *more):
            status = begin(sampler, slot, *more)
            if status == 0:  # a call that lacks features is made again
                calls.append(slot)
            return status

    monkeypatch.setattr(_rows, "lib", Library())
    for params, begun in (
        (dict(top_k=5), [0, 1, 2, 3]),
        (dict(top_k=5, position=7), []),
        (dict(top_k=[5, 6, 5, 5]), [1]),
        (dict(top_k=[5, 6, 5, 5], typical_p=1), [0, 1, 2, 3]),
        (dict(top_k=5, typical_p=0.5), [0, 1, 2, 3]),
        (dict(top_k=5, top_a=0.5), [0, 1, 2, 3]),
        (dict(top_k=5), [0, 1, 2, 3]),
    ):
        calls.clear()
        position = params.get("position", 0)
        found = clsample.sample(logits, seed=1, **params)
        params.pop("position", None)
        assert found.tolist() == expected(logits, params, [1] * ROWS, range(ROWS), position)
        assert calls == begun


def test_a_chain_that_changes(logits):
    """The caller's list may be another one at the next call."""
    chain = ["temperature", "typical_p"]
    for _ in range(2):
        params = dict(typical_p=0.5, temperature=2)
        found = clsample.sample(logits, seed=1, chain=chain, **params)
        params["chain"] = list(chain)
        assert found.tolist() == expected(logits, params, [1] * ROWS, range(ROWS))
        chain.reverse()


def test_tokens_do_not_enter_the_slots(fresh, logits):
    states = []
    for _ in range(2):
        clsample.sample(logits, seed=1)
        states.append(_rows._idle[0].requests[0].save())
    assert states[0] == states[1]


def test_contexts_of_pyopencl(fresh, cl, theirs, logits):
    """Those of the caller are kept, too, but only the latest."""
    device = theirs[1].device
    for _ in range(_rows.CONTEXTS + 2):
        array = cl.array.to_device(cl.CommandQueue(cl.Context([device])), logits)
        tokens = clsample.sample(array, seed=1).get().tolist()
        assert tokens == expected(logits, {}, [1] * ROWS, range(ROWS))
    assert len(_rows._contexts) == len(_rows._idle) == _rows.CONTEXTS


def test_threads(fresh, logits):
    """Calls of several threads at once have samplers of their own."""
    wanted = [expected(logits, {}, [s] * ROWS, range(ROWS)) for s in range(4)]
    wrong = []

    def work(seed):
        for _ in range(20):
            if clsample.sample(logits, seed=seed).tolist() != wanted[seed]:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and 1 <= len(_rows._idle) <= 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork(device):
    """The child has nothing of its parent's, and says that OpenCL does not survive the fork, even
    if a thread of the parent was in a call. The host does."""
    out = run(
        "-c",
        "import os, clsample, numpy\n"
        "from clsample import _rows\n"
        "x = numpy.zeros((1, 50), numpy.float32)\n"
        "clsample.sample(x)\n"
        "_rows._lock.acquire()\n"
        "if os.fork() == 0:\n"
        "    print(len(_rows._idle), len(_rows._contexts))\n"
        "    try: clsample.sample(x)\n"
        "    except RuntimeError as error: print(str(error)[:23], flush=True)\n"
        "    print(clsample.sample(x, device='host').shape, flush=True)\n"
        "    clsample.clear()\n"
        "    os._exit(0)\n"
        "os.wait(); _rows._lock.release(); print(clsample.sample(x).shape)\n",
    )
    assert out == "0 0\nthis process was forked\n(1,)\n(1,)\n"


def test_the_end_of_a_process(device):
    """What is kept is freed in order."""
    code = "import clsample, numpy; print(clsample.sample(numpy.ones(9, 'f')).shape)"
    assert run("-c", code) == "()\n"
