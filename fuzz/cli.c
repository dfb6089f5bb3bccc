/* SPDX-License-Identifier: MIT */
/* Replaces cli/common/errors.c: an error message is stored, and ends the call and not the process.
 */
#include <stdarg.h>
#include <string.h>

#include "common/cli.h"
#include "fuzz.h"

jmp_buf refusal;
int cli_failure = 1;
static char message[4096], last[sizeof message];

static void store(const char *format, va_list arguments)
{
    vsnprintf(message, sizeof message, format, arguments);
    demand(*message != '\0', "an error without a message");
}

int cli_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    store(format, arguments);
    va_end(arguments);
    return 1;
}

void cli_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    store(format, arguments);
    va_end(arguments);
    longjmp(refusal, 1);
}

const char *cli_last_error(void) { return message; }
void cli_catch_interrupt(void) {}
bool cli_interrupted(void) { return false; }
int cli_end(int status) { return status; }

void cli_warn(const char *format, ...) { (void)format; }

const char *take_message(void)
{
    memcpy(last, message, sizeof last);
    *message = '\0';
    return last;
}
