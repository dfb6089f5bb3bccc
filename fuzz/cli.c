/* SPDX-License-Identifier: MIT */
/* In place of cli/main.c and cli/device.c: errors are remembered, not printed. */
#include <stdarg.h>
#include <string.h>

#include "cli/cli.h"
#include "fuzz.h"

static char said[4096], last[sizeof said];

int cli_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    demand(*said != '\0', "an error without a sentence");
    return 1;
}

int cli_no_memory(void) { return cli_fail("out of memory"); }

int cli_fail_library(const char *what) { return cli_fail("%s: %s", what, cls_error_message()); }

const char *what_was_said(void)
{
    memcpy(last, said, sizeof last);
    *said = '\0';
    return last;
}
