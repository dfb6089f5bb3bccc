/* SPDX-License-Identifier: MIT */
/* The functions that Check's macros call, without Check: a failure ends the process. check.h is not
 * included because its versions declare the last arguments differently. */
#include "fuzz.h"

#include <stdarg.h>
#include <stdlib.h>

void _mark_point(const char *file, int line);
void _ck_assert_failed(const char *file, int line, const char *expression, const char *format, ...);

void _mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}

void _ck_assert_failed(const char *file, int line, const char *expression, const char *format, ...)
{
    char words[2048] = "";
    va_list arguments;
    va_start(arguments, format);
    if (format != NULL)
        vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    broken(file, line, "%s: %s", expression, words);
}
