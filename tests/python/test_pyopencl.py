# SPDX-License-Identifier: MIT
"""Proves that pyopencl's objects go in and come out: contexts, queues, buffers, arrays with offsets
and events; beside the loader that pyopencl itself uses."""

import gc

import numpy as np
import pytest

import clsample
from conftest import VOCAB, token_of, tokens_of


@pytest.fixture
def sampler(theirs):
    with theirs[2].sampler(VOCAB, 4, features=["shortlist", "logprobs"]) as found:
        yield found


def test_an_array(cl, theirs, sampler, logits):
    """Its queue is that of the step, and the result is on it."""
    _, queue, _ = theirs
    array = cl.array.to_device(queue, logits[:2])
    with sampler.begin(seed=1) as a, sampler.begin(seed=2) as b:
        step = sampler.sample(array, [a, b], logprobs=True)
        assert step.tokens.queue.int_ptr == queue.int_ptr
        out = step.tokens.as_pyopencl()
        assert isinstance(out, cl.array.Array) and out.dtype == np.int32 and out.shape == (2,)
        assert (out + 1).get().tolist() == [token + 1 for token in tokens_of(logits)]
        assert np.array_equal(step.logprobs.as_pyopencl().get(), step.logprobs.get())


def test_an_array_with_an_offset_and_gaps(cl, theirs, sampler, logits):
    _, queue, _ = theirs
    wide = np.zeros((6, VOCAB + 24), np.float32)
    wide[2:4, 8 : 8 + VOCAB] = logits[:2]
    part = cl.array.to_device(queue, wide)[2:4, 8 : 8 + VOCAB]
    assert part.offset != 0 and not part.flags.c_contiguous
    with sampler.begin(seed=1) as a, sampler.begin(seed=2) as b:
        assert sampler.sample(part, [a, b]).tokens.get().tolist() == tokens_of(logits)


def test_a_buffer(cl, theirs, sampler, logits):
    cl_context, queue, context = theirs
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffer = cl.Buffer(cl_context, flags, hostbuf=logits)
    with sampler.begin(seed=1) as a, sampler.begin(seed=2) as b:
        step = sampler.sample(buffer, [a, b], queue=queue)
        assert step.tokens.get().tolist() == tokens_of(logits)
        array = context.array(buffer, (2, VOCAB), offset=4 * VOCAB)
        step = sampler.sample(array, [a, b], queue=queue, positions=[0, 0])
        assert step.tokens.get().tolist() == tokens_of(logits[1:])
        for value in (buffer, array):
            with pytest.raises(TypeError, match="queue must be given"):
                sampler.sample(value, [a, b])
        with pytest.raises(ValueError, match="shape .* needs 16008 bytes; the buffer has 16000"):
            context.array(buffer, (4, VOCAB), offset=8)
        with pytest.raises(ValueError, match="row_stride is 3"):
            context.array(buffer, (4, 4), row_stride=3)


def test_events_in(cl, theirs, sampler, logits):
    """A step waits for the events of its arrays and of wait_for, here of a queue without order."""
    cl_context, _, _ = theirs
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(cl_context, properties=order)
    gate = cl.UserEvent(cl_context)
    array = cl.array.empty(queue, (2, VOCAB), np.float32)
    written = cl.enqueue_copy(
        queue, array.base_data, logits[:2], is_blocking=False, wait_for=[gate]
    )
    array.add_event(written)
    with sampler.begin(seed=1) as a, sampler.begin(seed=2) as b:
        step = sampler.sample(array, [a, b])
        later = sampler.sample(
            array, [a, b], wait_for=[step, step.event.as_pyopencl()], positions=[0, 0]
        )
        assert not step.done
        gate.set_status(cl.command_execution_status.COMPLETE)
        assert step.tokens.as_pyopencl().get().tolist() == tokens_of(logits)
        assert later.tokens.get().tolist() == tokens_of(logits)
        assert step.done


def test_arrays_to_write(cl, theirs, sampler, logits):
    _, queue, _ = theirs
    out = cl.array.zeros(queue, 4, np.int32)
    with sampler.begin(seed=1) as a, sampler.begin(seed=2) as b:
        step = sampler.sample(cl.array.to_device(queue, logits[:2]), [a, b], tokens=out[1:3])
        step.wait()
        assert out.get().tolist() == [0, *tokens_of(logits), 0]


def test_readers_wait_for_arrays_to_write(cl, theirs, sampler, logits):
    """A command on another queue that reads such an array waits for the step, which waits for all
    that was enqueued for the array before; the list of its events does not grow."""
    cl_context, queue, _ = theirs
    out = cl.array.zeros(queue, 4, np.int32)
    with sampler.begin(seed=1) as a, sampler.begin(seed=2) as b:
        for _ in range(20):  # more than add_event() keeps without waiting
            gate = cl.UserEvent(cl_context)
            step = sampler.sample(
                logits[:2], [a, b], positions=[0, 0], tokens=out[1:3], wait_for=[gate], queue=queue
            )
            read, other = np.zeros(4, np.int32), cl.CommandQueue(cl_context)
            copied = cl.enqueue_copy(
                other, read, out.base_data, is_blocking=False, wait_for=out.events
            )
            names, early = [event.int_ptr for event in out.events], step.done
            gate.set_status(cl.command_execution_status.COMPLETE)
            copied.wait()
            assert not early and names == [step.event.int_ptr]
            assert read.tolist() == [0, *tokens_of(logits), 0]


def test_arrays_of_the_other_byte_order(cl, theirs, sampler, logits):
    _, queue, context = theirs
    other = logits[:1].astype(logits.dtype.newbyteorder())
    array = cl.array.to_device(queue, other)
    with sampler.begin(seed=1) as a:
        with pytest.raises(TypeError, match="logits has elements of [<>]f4; they must be float32"):
            sampler.sample(array, a)
        slots = cl.array.to_device(queue, np.array([0]).astype(other.dtype.str[0] + "i4"))
        with pytest.raises(TypeError, match="tokens has elements of [<>]i4; they must be int32"):
            sampler.sample(logits[:1], a, tokens=slots)
        with pytest.raises(TypeError, match="dtype is [<>]f4; arrays on the device have"):
            context.array(array.base_data, VOCAB, other.dtype)


def test_parts_of_arrays_as_tokens(cl, theirs, logits):
    """accept() refuses what is not one row of tokens for each request, in their order."""
    _, queue, context = theirs
    tokens = np.array([[4, 5, 6], [7, 8, 9]], np.int32)
    params = {"presence_penalty": 5, "seed": 3}
    with context.sampler(VOCAB, 2, features=["shortlist", "accept", "penalties"]) as sampler:
        with sampler.begin(**params) as a, sampler.begin(**params) as b:
            for value in (tokens.T, cl.array.to_device(queue, tokens.T.copy())):
                with pytest.raises(ValueError, match=r"tokens has the shape \(3, 2\)"):
                    sampler.accept(value, [a, b])
            for value in (cl.array.to_device(queue, tokens).T, cl.array.to_device(queue, tokens.T)):
                with pytest.raises(ValueError, match="tokens (is not contiguous|has the shape)"):
                    sampler.accept(value, [a, b])
            deep = cl.array.to_device(queue, np.zeros((1, 4, 3), np.int32))[:, ::2]
            with pytest.raises(ValueError, match="tokens has the shape"):
                sampler.accept(deep, [a, b])
            sampler.accept(np.asfortranarray(tokens), [a, b], queue=queue)
            assert sampler.sample(logits[:2], [a, b], queue=queue).tokens.get().tolist() == [
                token_of(row, output=ids, **params)
                for row, ids in zip(logits, tokens.tolist())
            ]


def test_numpy_and_a_queue_of_the_context(cl, theirs, sampler, logits):
    cl_context, queue, _ = theirs
    with sampler.begin(seed=1) as a:
        assert sampler.sample(logits[0], a).tokens.get()[0] == tokens_of(logits)[0]
    with clsample.Context(cl_context, queue=queue) as context:
        assert context.queue.int_ptr == queue.int_ptr
        assert context.queue.as_pyopencl() == queue
        context.queue.flush()
        context.queue.finish()


def test_results_outlive_what_made_them(cl, theirs, logits):
    cl_context, queue, context = theirs
    sampler = context.sampler(VOCAB, 1)
    step = sampler.sample(cl.array.to_device(queue, logits[0]), sampler.begin(seed=1))
    out = step.tokens.as_pyopencl()
    sampler.close()
    del step, sampler
    gc.collect()
    assert out.get()[0] == tokens_of(logits)[0]


def test_reference_counts(cl, theirs, sampler, logits):
    """What goes in and comes out leaves no reference behind."""
    _, queue, _ = theirs
    array = cl.array.to_device(queue, logits[:1])

    def count():
        return array.base_data.get_info(cl.mem_info.REFERENCE_COUNT)

    before, queues = count(), []
    with sampler.begin(seed=1) as a:
        for steps in (20, 40):
            for _ in range(steps):
                sampler.sample(array, a).tokens.as_pyopencl().get()
            gc.collect()
            queue.finish()
            assert count() == before
            queues.append(queue.get_info(cl.command_queue_info.REFERENCE_COUNT))
    assert queues[0] == queues[1]


def test_released_objects(cl, theirs, sampler, logits):
    """They are refused: OpenCL itself cannot tell them, and would crash."""
    cl_context, queue, context = theirs
    buffer = cl.Buffer(cl_context, cl.mem_flags.READ_WRITE, 4 * VOCAB)
    array = context.array(buffer, VOCAB)
    buffer.release()
    array.release()
    with sampler.begin(seed=1) as a:
        with pytest.raises(ValueError, match="logits was released"):
            sampler.sample(buffer, a, queue=queue)
        with pytest.raises(ValueError, match="logits was released"):
            sampler.sample(array, a, queue=queue)
        with pytest.raises(ValueError, match="the array was released"):
            array.get()


def test_objects_of_another_context(cl, theirs, sampler, logits):
    _, queue, context = theirs
    other = cl.Context(context_devices(cl, queue))
    other_queue = cl.CommandQueue(other)
    array = cl.array.to_device(other_queue, logits[0])
    with sampler.begin(seed=1) as a:
        with pytest.raises(clsample.BadArgument, match=r"logits.events belongs to another"):
            sampler.sample(array, a, queue=queue)
        with pytest.raises(clsample.BadArgument, match="logits belongs to another OpenCL"):
            sampler.sample(context.array(array.base_data, VOCAB), a, queue=queue)
        array.finish()  # it has no events then
        with pytest.raises(clsample.BadArgument, match="queue"):
            sampler.sample(array, a)
        with pytest.raises(clsample.BadArgument, match=r"wait_for\[0\] belongs to another"):
            sampler.sample(logits[0], a, wait_for=cl.UserEvent(other))


def context_devices(cl, queue):
    return [queue.device]


def test_contexts(cl, theirs):
    cl_context, queue, _ = theirs
    with clsample.Context(cl_context, device=queue.device) as context:
        assert context.device.int_ptr == queue.device.int_ptr
    with clsample.Context(device=queue.device) as context:
        assert context.device.int_ptr == queue.device.int_ptr
    with pytest.raises(TypeError, match="cl must be a pyopencl.Context or 'host', not CommandQ"):
        clsample.Context(queue)
    with pytest.raises(TypeError, match="not str; to name a device, write device='gpu'"):
        clsample.Context("gpu")
    with pytest.raises(TypeError, match="queue needs the pyopencl.Context"):
        clsample.Context(queue=queue)
    with pytest.raises(TypeError, match="queue must be a pyopencl.CommandQueue, not int"):
        clsample.Context(cl_context, queue=5)
