/* SPDX-License-Identifier: MIT */
/* Says on stderr what a command is doing: on a terminal in a line that the next text overwrites,
 * elsewhere in a new line every ten seconds. */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/cli.h"

#define SECONDS 10u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool says;           /* the thread runs */
static const char *command; /* NULL: the program is not a command; it says nothing */
static char doing[128];     /* "": nothing special */

double cli_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

double cli_seconds(void) { return cli_clock() * 1e-6; }

/* A signal is for the command's thread. */
static void take_no_signals(void)
{
#if !defined(_WIN32)
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
#endif
}

static void *say(void *unused)
{
    take_no_signals();
    pthread_mutex_lock(&lock);
    says = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    for (unsigned passed = SECONDS;; passed += SECONDS) {
        sleep(SECONDS);
        pthread_mutex_lock(&lock);
        fprintf(stderr, "clsample: %s, %u s%s%s\n", command, passed, *doing != '\0' ? ": " : "",
                doing);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

/* Waits until the thread runs: if the command forked while a thread starts, AddressSanitizer's
 * locks would stay locked in the child, which hung in 2 of 119 runs of clsample accept. */
void cli_progress_begin(const char *name)
{
    pthread_t thread;
    command = name;
    if (isatty(STDERR_FILENO) || pthread_create(&thread, NULL, say, NULL) != 0)
        return;
    pthread_detach(thread);
    pthread_mutex_lock(&lock);
    while (!says)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void cli_progress(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&lock);
    const bool shown = *doing != '\0';
    vsnprintf(doing, sizeof doing, format, args);
    pthread_mutex_unlock(&lock);
    va_end(args);
    fflush(stdout); /* what was printed before comes before this */
    /* The cursor stays at the beginning of the line, so that an error message overwrites it. */
    if (command != NULL && isatty(STDERR_FILENO) && (shown || *doing != '\0'))
        fprintf(stderr, "\033[K%s\r", doing);
}

#if !defined(_WIN32)
int cli_progress_fork(void)
{
    pthread_mutex_lock(&lock);
    const pid_t child = fork();
    if (child == 0)
        command = NULL;
    pthread_mutex_unlock(&lock);
    return (int)child;
}
#endif
