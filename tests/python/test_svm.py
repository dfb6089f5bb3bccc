# SPDX-License-Identifier: MIT
"""Proves that pyopencl's SVM goes in and comes out wherever a buffer does, with equal results."""

import gc
import weakref

import numpy as np
import pytest

import clsample
from conftest import VOCAB, ended, token_of


@pytest.fixture
def memory(cl, theirs):
    """Makes SVM of an array, each time in the next one of the forms that pyopencl has."""
    cl_context, queue, context = theirs
    if not getattr(queue.device, "svm_capabilities", 0):
        pytest.skip("the device has no SVM")
    pytest.importorskip("pyopencl.tools")
    allocator = cl.tools.SVMAllocator(cl_context, flags=cl.svm_mem_flags.READ_WRITE, queue=queue)

    def filled(svm, values):
        cl.enqueue_copy(queue, svm, np.ascontiguousarray(values))
        return svm

    def array(values):
        return cl.array.to_device(queue, values, allocator=allocator)

    def part_of_array(values):
        wide = np.concatenate([np.zeros_like(values[:1]), values])
        return array(wide)[1:]

    def wrapped(values):
        return filled(cl.SVM(cl.csvm_empty(cl_context, values.shape, values.dtype)), values)

    def end_of_wrapped(values):
        """It begins at no multiple of 16 bytes, where its elements have less."""
        wide = np.concatenate([np.zeros(1, values.dtype), values.ravel()])
        whole = cl.csvm_empty(cl_context, wide.shape, wide.dtype)
        filled(cl.SVM(whole), wide)
        return cl.SVM(whole[1:].reshape(values.shape))

    def allocation(values):
        flags = cl.svm_mem_flags.READ_WRITE
        found = cl.SVMAllocation(cl_context, values.nbytes + 16, 64, flags, queue=queue)
        filled(found, np.concatenate([np.zeros(16, np.uint8), values.view(np.uint8).ravel()]))
        return context.array(found, values.shape, values.dtype, offset=16)

    forms = [array, part_of_array, wrapped, end_of_wrapped, allocation]

    def make(values, form=[0]):
        form[0] += 1
        return forms[form[0] % len(forms)](values)

    make.forms = forms
    return make


def on_host(cl, queue, value):
    """What pyopencl finds in an array of integers."""
    if isinstance(value, cl.array.Array):  # get() has no offsets in SVM
        whole = cl.array.Array(queue, value.base_data.size // 4, np.int32, data=value.base_data)
        return whole.get()[value.offset // 4 :][: value.size].tolist()
    with value.map_ro(queue) as found:
        return found.tolist()


def test_the_forms(cl, theirs, memory, logits):
    """Each one as logits, and as the tokens that a step writes."""
    _, queue, context = theirs
    expected = [token_of(row, seed=r) for r, row in enumerate(logits[:2])]
    with context.sampler(VOCAB, 2) as sampler:
        requests = [sampler.begin(seed=r) for r in range(2)]
        for form in memory.forms:
            out = form(np.zeros(2, np.int32))
            step = sampler.sample(
                form(logits[:2]), requests, positions=[0, 0], tokens=out, queue=queue
            )
            assert step.tokens.get().tolist() == expected, form
            assert on_host(cl, queue, step.tokens.as_pyopencl()) == expected, form
            if not isinstance(out, clsample.DeviceArray):
                assert on_host(cl, queue, out) == expected, form


def test_every_input_and_output_of_a_step(theirs, memory, logits):
    _, queue, context = theirs
    random = np.random.default_rng(3)
    rows, inputs = 3, {}
    inputs["mask"] = random.random((2, VOCAB)) < 0.5
    inputs["bias"] = random.normal(size=(2, VOCAB)).astype(np.float32)
    inputs["mask_map"] = np.array([1, -1, 0], np.int32)
    inputs["bias_map"] = np.array([0, 1, -1], np.int32)
    inputs["logits_map"] = np.array([2, 0, 1], np.int32)
    inputs["positions"] = np.array([5, 6, 7], np.int32)
    inputs["draws"] = np.array([1, 0, 2], np.int32)
    bits = random.integers(2**63, size=rows, dtype=np.uint64)
    slots, given = np.array([0, 2, 1], np.int32), np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    shapes = {"logprobs": np.float32, "ranks": np.int32, "entropy": np.float32}
    with context.sampler(VOCAB, rows, slot_count=4) as sampler:
        requests = [sampler.begin(top_k=40, seed=s) for s in range(rows)]
        assert [one.slot for one in requests] == [0, 1, 2]

        def step(put, put_output, **more):
            outputs = {name: put_output(np.zeros(rows, dtype)) for name, dtype in shapes.items()}
            found = sampler.sample(
                put(logits), put(slots), given=put(given), queue=queue, defer_accept=True,
                **{name: put(value) for name, value in inputs.items()}, **outputs,
                **{name: put(value) for name, value in more.items()},
            )
            names = ["tokens", "status", *shapes]
            return [getattr(found, name).get().tolist() for name in names] + [
                found.given.logprobs.get().tolist()
            ]

        for more in ({}, {"random_bits": bits}):
            expected = step(lambda value: value if value is not slots else
                            context.to_device(value), lambda value: True, **more)
            for _ in memory.forms:  # each operand has each form once
                assert step(memory, memory, **more) == expected
                memory(slots)
        ended(*requests)


def test_other_calls(theirs, memory, logits):
    _, queue, context = theirs
    features = ["shortlist", "verify", "accept", "penalties", "logprobs"]
    drafts = np.array([4, 5, 6], np.int32)
    probs = np.full((3, VOCAB), 1 / VOCAB, np.float32)
    with context.sampler(VOCAB, 8, slot_count=2, features=features, max_rollback=4) as sampler:
        found = []
        for put in (lambda value: value, memory):
            requests = [sampler.begin(seed=s, presence_penalty=2) for s in range(2)]
            verified = sampler.verify(
                put(np.concatenate([logits, logits[:1]])), [2, 1], requests, queue=queue,
                draft_ids=put(drafts), draft_probs=put(probs), method="standard", logprobs=True,
            )
            accepted = sampler.accept(put(np.array([3, 9], np.int32)), requests, queue=queue)
            rows = sampler.logprobs(put(logits), top=3, queue=queue)
            accepted.wait()
            step = sampler.sample(put(logits[:2]), requests, queue=queue)
            found.append([
                one.get().tolist()
                for one in (verified.tokens, verified.logprobs, rows.top.ids, step.tokens)
            ])
            ended(*requests)
        assert found[0] == found[1]


def test_one_call(cl, theirs, memory, logits):
    expected = clsample.sample(logits, seed=3).tolist()
    array = memory.forms[0](logits)
    found = clsample.sample(array, seed=3)
    assert isinstance(found, cl.array.Array) and found.get().tolist() == expected
    with pytest.raises(TypeError, match="logits must be an array; Context.array.. makes one"):
        clsample.sample(memory.forms[2](logits))


@pytest.mark.filterwarnings("ignore:Array has different queue")
def test_memory_without_a_shape(cl, theirs, memory, logits):
    """It is taken as a buffer is: as logits, and by Context.array()."""
    cl_context, queue, context = theirs
    svm = cl.SVMAllocation(cl_context, logits.nbytes, 64, cl.svm_mem_flags.READ_WRITE)
    cl.enqueue_copy(queue, svm, logits)
    with context.sampler(VOCAB, 2) as sampler, sampler.begin(seed=1) as a, sampler.begin() as b:
        step = sampler.sample(svm, [a, None], queue=queue)
        assert step.tokens.get()[0] == token_of(logits[0], seed=1)
        array = context.array(svm, (2, VOCAB))
        for value in (svm, array, cl.SVM(cl.csvm_empty(cl_context, (2, VOCAB), np.float32))):
            with pytest.raises(TypeError, match="queue must be given"):
                sampler.sample(value, [a, b])
        assert np.array_equal(array.get(), logits[:2]) and array.as_pyopencl().base_data is svm
        with pytest.raises(ValueError, match="the array is SVM, which has no cl_mem"):
            array.int_ptr
        with pytest.raises(ValueError, match="needs 16008 bytes; the buffer has 16000"):
            context.array(svm, (4, VOCAB), offset=8)
        with pytest.raises(TypeError, match="must be a pyopencl.Buffer or pyopencl's SVM, not int"):
            context.array(svm.svm_ptr, (4, VOCAB))
        with pytest.raises(TypeError, match="mask must be an array of numbers, not SVMAllocation"):
            sampler.sample(logits[:2], [a, b], mask=svm)
        with pytest.raises(TypeError, match="tokens must be True or an array on the .*, not SVM"):
            sampler.sample(logits[:2], [a, b], tokens=svm)
        wrong = cl.SVM(cl.csvm_empty(cl_context, 2, np.float64))
        with pytest.raises(TypeError, match="tokens has elements of float64; they must be int32"):
            sampler.sample(logits[:2], [a, b], tokens=wrong)
        small = cl.SVMAllocation(cl_context, 4, 64, cl.svm_mem_flags.READ_WRITE)
        with pytest.raises(clsample.BadArgument, match="needs 8000 bytes, and its size is 4"):
            sampler.sample(small, [a, b], queue=queue)
        both = memory.forms[2](np.zeros(2, np.int32))
        with pytest.raises(clsample.BadArgument, match="overlap"):
            sampler.sample(logits[:2], [a, b], tokens=both, status=both, queue=queue)
        part = context.array(small, 1)
        small.release()
        for value in (small, part):
            with pytest.raises(ValueError, match="logits was released"):
                sampler.sample(value, [a, b], queue=queue)
        with pytest.raises(ValueError, match="the array was released"):
            part.get()


def test_the_memory_lives_as_long_as_the_step(cl, theirs, memory, logits):
    cl_context, queue, context = theirs
    gate = cl.UserEvent(cl_context)
    values = cl.csvm_empty(cl_context, (1, VOCAB), np.float32)
    svm = cl.SVM(values)
    cl.enqueue_copy(queue, svm, logits[:1])
    with context.sampler(VOCAB) as sampler, sampler.begin(seed=1) as a:
        step = sampler.sample(svm, a, queue=queue, wait_for=[gate])
        alive = weakref.ref(values)
        del svm, values
        gc.collect()
        kept = alive() is not None and not step.done
        gate.set_status(0)
        assert kept and step.tokens.get()[0] == token_of(logits[0], seed=1)
        gc.collect()
        assert alive() is None
        for _ in range(9):  # also where only OpenCL is asked
            array = memory(logits[:1])
            sampler.sample(array, a, queue=queue).event.as_pyopencl().wait()
        assert len(clsample._opencl._lent) < 5
