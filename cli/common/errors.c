/* SPDX-License-Identifier: MIT */
/* Error messages and warnings of the command, on stderr, and Ctrl-C in commands that measure. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cli.h"

#if defined(_WIN32)
#define flockfile _lock_file
#define funlockfile _unlock_file
#endif

int cli_failure = 1;
static char last_error[1024];

static void print(const char *before, const char *format, va_list args)
{
    fflush(stdout);
    flockfile(stderr); /* cli/common/progress.c writes lines of its own */
    fputs(before, stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    funlockfile(stderr);
}

int cli_fail(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    print("clsample: ", format, args);
    vsnprintf(last_error, sizeof last_error, format, again);
    va_end(again);
    va_end(args);
    return 1;
}

void cli_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print("clsample: ", format, args);
    va_end(args);
    exit(cli_failure);
}

void cli_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print("clsample: warning: ", format, args);
    va_end(args);
}

const char *cli_last_error(void) { return last_error; }

/* ------------------------------------------------------------------ interrupts */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);
}

void cli_catch_interrupt(void)
{
    if (signal(SIGINT, on_interrupt) == SIG_IGN) /* as in a script's background job */
        signal(SIGINT, SIG_IGN);
}

bool cli_interrupted(void) { return interrupted != 0; }

int cli_end(int status)
{
    if (!interrupted)
        return status;
    fflush(stdout);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    return 130;
}
