/* SPDX-License-Identifier: MIT */
/* clsample explain --plot: gnuplot reads its commands from a pipe and writes to
 * the file, so no other file is made. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "explain.h"

extern char **environ;

#define LABELS 5     /* of the likeliest tokens at the end */
#define LEAST 1e-12f /* what is less likely isn't drawn */

static bool ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

int cli_plot_check(const char *path)
{
    if (ends_with(path, ".png") || ends_with(path, ".svg"))
        return 0;
    return cli_fail("--plot: '%s' is neither .png nor .svg", path);
}

/* --------------------------------------------------------------------- commands */

/* Between single quotes gnuplot takes everything as it is (between others it
 * would run what is in back quotes); a quote becomes a double one. */
static void quote(FILE *to, const char *text)
{
    putc('\'', to);
    for (; *text != '\0'; text++)
        putc(*text == '\'' ? '"' : *text, to);
    putc('\'', to);
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Probabilities by rank. Of many, so many as the eye tells apart on a logarithmic
 * scale. */
static void put_curve(FILE *to, float *sorted, uint32_t n)
{
    qsort(sorted, n, sizeof *sorted, descending);
    for (uint32_t rank = 1; rank <= n && sorted[rank - 1] >= LEAST; rank += rank / 100 + 1)
        fprintf(to, "%" PRIu32 " %.9g\n", rank, (double)sorted[rank - 1]);
    fputs("e\n", to);
}

static void put_labels(FILE *to, const cli_shown *last, const cli_pieces *pieces)
{
    for (uint32_t i = 0; i < last->tops && i < LABELS; i++) {
        char name[16];
        cli_pieces_name(pieces, (int32_t)last->top[i], name);
        fputs("set label ", to);
        quote(to, name);
        fprintf(to, " at %" PRIu32 ",%.9g noenhanced front rotate by 30 offset 0.5,0.5 point pointtype 7\n", i + 1,
                (double)last->probs[last->top[i]]);
    }
}

static int put_commands(FILE *to, bool svg, const cli_explained *e, const cli_pieces *pieces)
{
    static const char *const colours[] = {"#c0c0c0", "#56b4e9", "#009e73", "#e69f00", "#cc79a7", "#0072b2", "#d55e00"};
    float *sorted = malloc(e->vocab * sizeof *sorted);
    uint32_t drawn = 0;
    if (sorted == NULL)
        return cli_no_memory();
    fputs(svg ? "set terminal svg size 960,600 noenhanced\n"
              : "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo size 960,600 noenhanced; "
                "else set terminal png size 960,600 noenhanced\n",
          to);
    fprintf(to, "set title 'row %" PRIu32 ": probability by rank after each stage'\n", e->row);
    fputs("set xlabel 'rank'\nset ylabel 'probability'\nset logscale xy\nset grid\nset key inside left bottom\n"
          "set format y '%g'\nset xrange [0.9:*]\nset yrange [*:5]\n",
          to);
    put_labels(to, &e->stage[e->count - 1], pieces);
    for (uint32_t i = 0; i < e->count; i++) {
        char title[256];
        if (e->stage[i].kept == 0)
            continue;
        snprintf(title, sizeof title, "%s%s%s (%" PRIu32 " left)", e->stage[i].name,
                 e->stage[i].parameter[0] == '\0' ? "" : " ", e->stage[i].parameter, e->stage[i].kept);
        /* Later curves lie on earlier ones: they are thinner. */
        fprintf(to, "%s '-' with lines linewidth %d linecolor rgb '%s' title ", drawn == 0 ? "plot" : ",",
                drawn < 5 ? 12 - 2 * (int)drawn : 2, colours[drawn % (sizeof colours / sizeof colours[0])]);
        drawn++;
        quote(to, title);
    }
    fputs("\n", to);
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->stage[i].kept == 0)
            continue;
        memcpy(sorted, e->stage[i].probs, e->vocab * sizeof *sorted);
        put_curve(to, sorted, e->vocab);
    }
    free(sorted);
    return 0;
}

/* ------------------------------------------------------------------------- run */

/* Starts gnuplot with its input and output there, its messages nowhere. */
static int start(int in, int out, pid_t *pid)
{
    char name[] = "gnuplot";
    char *const argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    if ((error = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)) == 0)
        error = posix_spawnp(pid, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* The descriptors are not the child's: its end of the pipe would never come. */
static int make_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        return cli_fail("--plot: no pipe to gnuplot: %s", strerror(errno));
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return 0;
}

static int feed(int into, bool svg, const cli_explained *e, const cli_pieces *pieces)
{
    FILE *const to = fdopen(into, "w");
    int failed;
    if (to == NULL) {
        close(into);
        return cli_no_memory();
    }
    failed = put_commands(to, svg, e, pieces);
    fclose(to); /* what gnuplot did not read, its exit status tells */
    return failed;
}

static int run(int out, bool svg, const cli_explained *e, const cli_pieces *pieces)
{
    int ends[2], failed, error, status = 0;
    void (*before)(int);
    pid_t pid;
    if (make_pipe(ends) != 0)
        return 1;
    error = start(ends[0], out, &pid);
    close(ends[0]);
    if (error != 0) {
        close(ends[1]);
        return error == ENOENT ? cli_fail("--plot: gnuplot is not installed, or not in PATH")
                               : cli_fail("--plot: gnuplot cannot be started: %s", strerror(error));
    }
    before = signal(SIGPIPE, SIG_IGN); /* gnuplot may give up early */
    if (ftruncate(out, 0) != 0) /* no file, but a device or a pipe: nothing to overwrite */
        errno = 0;
    failed = feed(ends[1], svg, e, pieces);
    signal(SIGPIPE, before);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!failed && status != 0)
        failed = cli_fail("--plot: gnuplot failed, status %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return failed;
}

/* What was there is overwritten once gnuplot runs, and not before. */
int cli_plot(const char *path, const cli_explained *e, const cli_pieces *pieces)
{
    const bool is_new = access(path, F_OK) != 0;
    int out, failed;
    if (e->stage[e->count - 1].kept == 0)
        return cli_fail("--plot: row %" PRIu32 " is empty: nothing is left to draw", e->row);
    if ((out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) < 0)
        return cli_fail("%s: cannot be written: %s", path, strerror(errno));
    failed = run(out, ends_with(path, ".svg"), e, pieces);
    if (close(out) != 0 && !failed)
        failed = cli_fail("%s: cannot be written: %s", path, strerror(errno));
    if (failed && is_new)
        unlink(path);
    return failed;
}
