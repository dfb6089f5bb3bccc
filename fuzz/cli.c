/* SPDX-License-Identifier: MIT */
/* Replaces cli/errors.c: error messages are stored, not printed. */
#include <stdarg.h>
#include <string.h>

#include "cli/cli.h"
#include "fuzz.h"

static char message[4096], last[sizeof message];

int cli_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    demand(*message != '\0', "an error without a message");
    return 1;
}

int cli_no_memory(void) { return cli_fail("out of memory"); }

int cli_fail_library(const char *what) { return cli_fail("%s: %s", what, cls_error_message()); }

int cli_try(cls_status status, const char *what)
{
    return status == CLS_OK ? 0 : cli_fail_library(what);
}

const char *take_message(void)
{
    memcpy(last, message, sizeof last);
    *message = '\0';
    return last;
}
