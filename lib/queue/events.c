/* SPDX-License-Identifier: MIT */
/* Checks the caller's queue and events, and waits for uploads. */
#include "queue/queue.h"

cls_status cls_queue_check(cl_context wanted, cl_device_id wanted_device, cl_command_queue queue,
                           int *in_order)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    *in_order = 1;
    if (wanted == NULL)
        return queue == NULL ? CLS_OK
                             : cls_refuse("queue is set, but the context has no device: its calls "
                                          "take no queue");
    if (queue == NULL)
        return cls_refuse("queue is NULL");
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (code == CL_SUCCESS)
        code =
            clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (code != CL_SUCCESS)
        return code == CL_INVALID_COMMAND_QUEUE
                   ? cls_fail(CLS_BAD_ARGUMENT, code, "queue is not a command queue")
                   : cls_fail(CLS_OPENCL_ERROR, code, "cannot query queue");
    if (context != wanted || device != wanted_device)
        return cls_refuse("queue belongs to another OpenCL context or device than the cls_context");
    *in_order = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    return CLS_OK;
}

static cls_status check_event(cl_context wanted, cl_uint i, cl_event event)
{
    cl_context context = NULL;
    cl_int state = CL_COMPLETE;
    if (event == NULL)
        return cls_refuse("wait[%u] is NULL", (unsigned)i);
    cl_int code = clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (code != CL_SUCCESS)
        return code == CL_INVALID_EVENT
                   ? cls_fail(CLS_BAD_ARGUMENT, code, "wait[%u] is not an event", (unsigned)i)
                   : cls_fail(CLS_OPENCL_ERROR, code, "cannot query wait[%u]", (unsigned)i);
    if (context != wanted)
        return cls_refuse("wait[%u] belongs to another OpenCL context than the cls_context",
                          (unsigned)i);
    if (state < CL_COMPLETE)
        return cls_fail(CLS_OPENCL_ERROR, state, "wait[%u] has ended with an error", (unsigned)i);
    return CLS_OK;
}

cls_status cls_wait_check(cl_context context, cl_uint n_wait, const cl_event *wait)
{
    cls_status status = CLS_OK;
    if ((n_wait == 0) != (wait == NULL))
        return cls_refuse("n_wait is %u, but wait is %s", (unsigned)n_wait,
                          wait == NULL ? "NULL" : "not NULL");
    if (n_wait != 0 && context == NULL)
        return cls_refuse("n_wait is %u, but the context has no device: its calls take no events",
                          (unsigned)n_wait);
    for (cl_uint i = 0; i < n_wait && status == CLS_OK; i++)
        status = check_event(context, i, wait[i]);
    return status;
}

cl_int cls_upload_poll(cl_event *done)
{
    cl_int state = CL_COMPLETE;
    if (*done == NULL)
        return CL_COMPLETE;
    const cl_int code =
        clGetEventInfo(*done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (code != CL_SUCCESS || state > CL_COMPLETE)
        return code != CL_SUCCESS ? code : state;
    clReleaseEvent(*done);
    *done = NULL;
    return CL_COMPLETE;
}

cl_int cls_upload_extend(cl_event *done, cl_event end)
{
    if (*done == NULL)
        return CL_SUCCESS;
    const cl_int code = clRetainEvent(end);
    if (code == CL_SUCCESS) {
        clReleaseEvent(*done);
        *done = end;
    }
    return code;
}

int cls_upload_wait(cl_event *done)
{
    for (int i = 0; i < 2 && *done != NULL; i++) { /* twice, since waiting may fail */
        clWaitForEvents(1, done);
        cls_upload_poll(done);
    }
    if (*done == NULL)
        return 1;
    clReleaseEvent(*done);
    *done = NULL;
    return 0;
}
