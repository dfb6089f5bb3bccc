/* SPDX-License-Identifier: MIT */
/* Ctrl-C in commands that measure. */
#include <signal.h>
#include <stdio.h>

#include "cli.h"

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
