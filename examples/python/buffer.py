# SPDX-License-Identifier: MIT
"""Samples logits that a kernel of the program's own leaves in a pyopencl buffer. The tokens stay on
the device, where a second kernel reads them; only its sums come to the host. Then the same in one
call, without requests.

    python3 buffer.py
"""

import numpy as np
import pyopencl as cl
import pyopencl.array

import clsample

ROWS, VOCAB = 4, 5000
SOURCE = """
// Each row of logits has a peak of its own.
kernel void logits(global float *out, int step)
{
    const int token = get_global_id(0), row = get_global_id(1);
    const int vocab = get_global_size(0), peak = (1000 * row + 10 * step) % vocab;
    out[row * vocab + token] = 8.0f / (1.0f + 0.2f * abs(token - peak));
}
kernel void add(global int *sums, global const int *tokens, int at)
{
    sums[get_global_id(0)] += tokens[at + get_global_id(0)];
}
"""


def main():
    device = cl.Device.from_int_ptr(clsample.Context().device.int_ptr)  # the first usable one
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    fill, add = program.logits, program.add
    logits = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * ROWS * VOCAB)
    sums = cl.array.zeros(queue, ROWS, np.int32)

    with clsample.Context(context, queue=queue) as opened:
        sampler = opened.sampler(VOCAB, ROWS)
        requests = [sampler.begin(temperature=0.8, top_k=40, seed=r) for r in range(ROWS)]
        for i in range(10):
            fill(queue, (VOCAB, ROWS), None, logits, np.int32(i))
            step = sampler.sample(logits, requests)  # [ROWS, VOCAB]; nothing waits
            tokens = step.tokens.as_pyopencl()
            add(queue, (ROWS,), None, sums.data, tokens.base_data, np.int32(tokens.offset // 4))
        print("tokens of the last step:", *step.tokens.get())
        print("mean token of each row: ", *(sums.get() / 10))
        array = cl.array.Array(queue, (ROWS, VOCAB), np.float32, data=logits)
        tokens = clsample.sample(array, temperature=0.8, top_k=40, seed=range(ROWS), position=9)
        print("tokens of one call:     ", *tokens.get())


if __name__ == "__main__":
    main()
