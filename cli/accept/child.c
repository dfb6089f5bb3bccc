/* SPDX-License-Identifier: MIT */
/* A process that may hang or abort, and what it says: lines of "@KEY JSON" in a pipe, which also
 * has what drivers print. It is made by fork() without exec(): the command has not called OpenCL,
 * so that no driver has threads that the process would miss. */
#include "accept/accept.h"

#if defined(_WIN32)
bool accept_can(void) { return false; }

void accept_say(const char *key, json_t *value)
{
    (void)key;
    json_decref(value);
}

accept_end accept_in_child(int (*run)(const accept_job *job), const accept_job *job, uint32_t limit,
                           void (*hear)(void *of, const char *key, json_t *value), void *of,
                           char text[4001], int *number)
{
    (void)run, (void)job, (void)limit, (void)hear, (void)of;
    *text = '\0';
    *number = 0;
    return ACCEPT_NO_PROCESS;
}
#else
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool accept_can(void) { return true; }

void accept_say(const char *key, json_t *value)
{
    char *const line = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    /* A driver may have printed a part of a line. */
    if (line != NULL)
        printf("\n@%s %s\n", key, line);
    fflush(stdout);
    json_decref(value);
}

/* What the command reads of a process. */
typedef struct listener {
    void (*hear)(void *of, const char *key, json_t *value);
    void *of;
    char *line; /* what was read since the last end of a line */
    size_t length, room;
    char *text;
    bool heard;
} listener;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Keeps the end of what was printed. */
static void keep_text(listener *l)
{
    const size_t had = strlen(l->text), n = l->length < 3999 ? l->length : 3999;
    const size_t kept = had + n + 1 <= 4000 ? had : 4000 - n - 1;
    if (n == 0)
        return;
    memmove(l->text, l->text + had - kept, kept);
    memcpy(l->text + kept, l->line + l->length - n, n);
    memcpy(l->text + kept + n, "\n", 2);
}

static void end_line(listener *l)
{
    char *const space = memchr(l->line, ' ', l->length);
    l->line[l->length] = '\0';
    json_t *const value =
        l->line[0] == '@' && space != NULL ? json_loads(space + 1, JSON_DECODE_ANY, NULL) : NULL;
    if (value == NULL) {
        keep_text(l);
    } else {
        *space = '\0';
        l->heard = true;
        l->hear(l->of, l->line + 1, value);
    }
    l->length = 0;
}

static void take(listener *l, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (l->length + 1 >= l->room) {
            l->room = 2 * l->room + 256;
            l->line = cli_grow(l->line, l->room, 1);
        }
        if (bytes[i] == '\n')
            end_line(l);
        else
            l->line[l->length++] = bytes[i];
    }
}

/* Reads until the process closes the pipe. Returns true if it was silent for too long. */
static bool listen_to(listener *l, int from, uint32_t limit)
{
    static char bytes[1 << 16];
    double last = now();
    for (;;) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        const double left = last + limit - now();
        if (left <= 0)
            return true;
        const int ready = poll(&p, 1, left < 1 ? (int)(left * 1000) + 1 : 1000);
        if (cli_interrupted())
            return false;
        if (ready <= 0)
            continue;
        const ssize_t n = read(from, bytes, sizeof bytes);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            break;
        l->heard = false;
        take(l, bytes, (size_t)n);
        if (l->heard)
            last = now();
    }
    if (l->length != 0)
        end_line(l);
    return false;
}

/* Waits for the end of a process, which may have closed the pipe and hang in its driver's end. */
static bool wait_for(pid_t child, uint32_t limit, int *status)
{
    const double begin = now();
    for (;;) {
        const pid_t ended = waitpid(child, status, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR))
            return true;
        if (now() - begin > limit || cli_interrupted())
            return false;
        poll(NULL, 0, 10);
    }
}

_Noreturn static void be_child(int (*run)(const accept_job *job), const accept_job *job, int to)
{
    signal(SIGINT, SIG_DFL);
    dup2(to, STDOUT_FILENO);
    dup2(to, STDERR_FILENO);
    close(to);
    const int result = run(job);
    fflush(stdout);
    /* Not exit(): what drivers do at the end of a process is no part of the test. */
    _exit(result);
}

accept_end accept_in_child(int (*run)(const accept_job *job), const accept_job *job, uint32_t limit,
                           void (*hear)(void *of, const char *key, json_t *value), void *of,
                           char text[4001], int *number)
{
    listener l = {.hear = hear, .of = of, .text = text};
    int ends[2], status = 0;
    *text = '\0';
    *number = 0;
    if (pipe(ends) != 0)
        return ACCEPT_NO_PROCESS;
    fflush(NULL);
    const pid_t child = cli_progress_fork();
    if (child == 0) {
        close(ends[0]);
        be_child(run, job, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return ACCEPT_NO_PROCESS;
    }
    bool hangs = listen_to(&l, ends[0], limit);
    close(ends[0]);
    if (!hangs && !cli_interrupted())
        hangs = !wait_for(child, limit, &status);
    if (hangs || cli_interrupted()) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    if (cli_interrupted())
        return ACCEPT_INTERRUPTED;
    if (hangs)
        return ACCEPT_HANGS;
    if (WIFSIGNALED(status)) {
        *number = WTERMSIG(status);
        return ACCEPT_ABORTED;
    }
    *number = WEXITSTATUS(status);
    return *number == 0 ? ACCEPT_DONE : *number == 1 ? ACCEPT_DIFFERS : ACCEPT_FAILED;
}
#endif
