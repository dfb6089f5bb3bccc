/* SPDX-License-Identifier: MIT */
/* Queues and events of the test, which the stub of OpenCL has not all. */
#include "fixture.h"

cl_event user_event(cl_context context)
{
    cl_int code;
    const cl_event event = clCreateUserEvent(context, &code);
    must_cl(code);
    return event;
}

cl_command_queue queue_in_order(device *d)
{
    cl_int code;
    const cl_command_queue queue = clCreateCommandQueue(d->context, d->id, 0, &code);
    must_cl(code);
    return queue;
}

cl_command_queue queue_out_of_order(device *d)
{
    cl_int code;
    const cl_command_queue queue =
        clCreateCommandQueue(d->context, d->id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    return code == CL_SUCCESS ? queue : NULL;
}
