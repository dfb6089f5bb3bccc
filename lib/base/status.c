/* SPDX-License-Identifier: MIT */
/* The names of statuses and of OpenCL's error codes, and the error message of each thread. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[sizeof((cls_saved_error *)0)->message];
static _Thread_local cls_status failed; /* the status of the last failure */
static _Thread_local cl_int opencl_code;
static _Thread_local size_t text_length;  /* of the message without OpenCL's code */
static _Thread_local size_t field_length; /* of the argument that it begins with, or 0 */

const char *cls_version(void) { return CLS_VERSION_STRING; }

uint32_t cls_version_number(void) { return CLS_VERSION_NUMBER; }

uint32_t cls_arithmetic_version(void) { return CLS_ARITHMETIC_VERSION; }

const char *cls_status_name(cls_status status)
{
    switch (status) {
    case CLS_OK:
        return "CLS_OK";
    case CLS_BAD_ARGUMENT:
        return "CLS_BAD_ARGUMENT";
    case CLS_OUT_OF_MEMORY:
        return "CLS_OUT_OF_MEMORY";
    case CLS_BUSY:
        return "CLS_BUSY";
    case CLS_UNSUPPORTED_DEVICE:
        return "CLS_UNSUPPORTED_DEVICE";
    case CLS_BUILD_FAILED:
        return "CLS_BUILD_FAILED";
    case CLS_SELF_TEST_FAILED:
        return "CLS_SELF_TEST_FAILED";
    case CLS_OPENCL_ERROR:
        return "CLS_OPENCL_ERROR";
    case CLS_MPI_ERROR:
        return "CLS_MPI_ERROR";
    case CLS_IN_USE:
        return "CLS_IN_USE";
    case CLS_NOT_COMPILED:
        return "CLS_NOT_COMPILED";
    case CLS_LOST:
        return "CLS_LOST";
    }
    return "unknown";
}

const char *cls_error_message(void) { return message; }

const char *cls_error_field(void)
{
    static _Thread_local char field[sizeof message];
    snprintf(field, sizeof field, "%.*s", (int)field_length, message);
    return field;
}

cl_int cls_error_opencl(void) { return opencl_code; }

cls_status cls_error_status(void) { return failed; }

/* Ends the message, whose text has just got n more characters, with OpenCL's code. */
static void append_code(int n)
{
    const size_t room = sizeof message - text_length;
    text_length += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
    if (opencl_code != CL_SUCCESS)
        snprintf(message + text_length, sizeof message - text_length, ": OpenCL error %s (%d)",
                 cls_opencl_name(opencl_code), (int)opencl_code);
}

cls_status cls_fail(cls_status status, cl_int opencl, const char *format, ...)
{
    va_list args;
    failed = status;
    opencl_code = opencl;
    text_length = 0;
    va_start(args, format);
    append_code(vsnprintf(message, sizeof message, format, args));
    va_end(args);
    field_length =
        status == CLS_BAD_ARGUMENT || status == CLS_NOT_COMPILED ? strcspn(message, " :,") : 0;
    return status;
}

cls_status cls_no_field(cls_status status)
{
    field_length = 0;
    return status;
}

cls_status cls_fail_further(cls_status status, const char *text)
{
    if (text_length > sizeof message - 200) /* so that there is room */
        text_length = sizeof message - 200;
    append_code(snprintf(message + text_length, sizeof message - text_length, "%s", text));
    return status;
}

void cls_error_save(cls_saved_error *error)
{
    memcpy(error->message, message, sizeof message);
    error->status = failed;
    error->opencl = opencl_code;
    error->text_length = text_length;
    error->field_length = field_length;
}

void cls_error_restore(const cls_saved_error *error)
{
    memcpy(message, error->message, sizeof message);
    failed = error->status;
    opencl_code = error->opencl;
    text_length = error->text_length;
    field_length = error->field_length;
}

const char *cls_opencl_name(cl_int code)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
#define NAME(x) {x, #x}
        NAME(CL_SUCCESS),
        NAME(CL_DEVICE_NOT_FOUND),
        NAME(CL_DEVICE_NOT_AVAILABLE),
        NAME(CL_COMPILER_NOT_AVAILABLE),
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        NAME(CL_OUT_OF_RESOURCES),
        NAME(CL_OUT_OF_HOST_MEMORY),
        NAME(CL_MAP_FAILURE),
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET),
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        NAME(CL_BUILD_PROGRAM_FAILURE),
        NAME(CL_INVALID_VALUE),
        NAME(CL_INVALID_DEVICE),
        NAME(CL_INVALID_CONTEXT),
        NAME(CL_INVALID_COMMAND_QUEUE),
        NAME(CL_INVALID_MEM_OBJECT),
        NAME(CL_INVALID_BINARY),
        NAME(CL_INVALID_BUILD_OPTIONS),
        NAME(CL_INVALID_PROGRAM),
        NAME(CL_INVALID_PROGRAM_EXECUTABLE),
        NAME(CL_INVALID_KERNEL_NAME),
        NAME(CL_INVALID_KERNEL),
        NAME(CL_INVALID_ARG_INDEX),
        NAME(CL_INVALID_ARG_VALUE),
        NAME(CL_INVALID_ARG_SIZE),
        NAME(CL_INVALID_KERNEL_ARGS),
        NAME(CL_INVALID_WORK_DIMENSION),
        NAME(CL_INVALID_WORK_GROUP_SIZE),
        NAME(CL_INVALID_WORK_ITEM_SIZE),
        NAME(CL_INVALID_EVENT_WAIT_LIST),
        NAME(CL_INVALID_EVENT),
        NAME(CL_INVALID_OPERATION),
        NAME(CL_INVALID_BUFFER_SIZE),
#undef NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code)
            return names[i].name;
    return "an unnamed error";
}
