/* SPDX-License-Identifier: MIT */
/* Error messages and warnings of the command, on stderr. */
#include <stdarg.h>
#include <stdio.h>

#include "cli.h"

static char last_error[1024];

int cli_fail(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("clsample: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return 1;
}

void cli_warn(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("clsample: warning: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

const char *cli_last_error(void) { return last_error; }

int cli_no_memory(void) { return cli_fail("out of memory"); }

int cli_fail_library(const char *what) { return cli_fail("%s: %s", what, cls_error_message()); }

int cli_fail_opencl(const char *what, cl_int error)
{
    return cli_fail("%s: OpenCL error %d", what, (int)error);
}
