/* SPDX-License-Identifier: MIT */
/* clsample explain --plot: gnuplot reads its commands from a pipe and writes the picture to the
 * file, so there is no temporary file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "explain.h"

#define LABELS 5     /* likeliest tokens of the last stage that get a label */
#define LEAST 1e-12f /* the smallest probability of the plot */

void cli_plot_check(const char *path)
{
    if (strlen(path) <= 4 || (!cli_ends_with(path, ".png") && !cli_ends_with(path, ".svg")))
        cli_die("--plot: '%s' must end with .png or .svg", path);
}

/* --------------------------------------------------------------------- commands */

/* Writes a string in single quotes, where gnuplot interprets nothing: in double quotes it would run
 * commands between backquotes. A single quote becomes a double one. */
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

/* Writes probabilities by rank. Of high ranks it writes about one in a hundred: on a logarithmic
 * scale more are not visible. */
static void put_curve(FILE *to, float *sorted, uint32_t n)
{
    qsort(sorted, n, sizeof *sorted, descending);
    for (uint32_t rank = 1; rank <= n && sorted[rank - 1] >= LEAST; rank += rank / 100 + 1)
        fprintf(to, "%" PRIu32 " %.9g\n", rank, (double)sorted[rank - 1]);
    fputs("e\n", to);
}

/* The number of tokens that a stage's curve shows. */
static uint32_t points_of(const cli_shown *shown, uint32_t vocab)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < vocab; t++)
        n += shown->probs[t] >= LEAST;
    return n;
}

static uint32_t rank_of(const float *probs, uint32_t vocab, uint32_t token)
{
    uint32_t rank = 1;
    for (uint32_t t = 0; t < vocab; t++)
        rank += probs[t] > probs[token] || (probs[t] == probs[token] && t < token);
    return rank;
}

/* Writes a line of the list in the right margin. Names beside their points would overlap where
 * ranks or probabilities are close. */
static void put_line(FILE *to, uint32_t line, const char *text, const char *more)
{
    fputs("set label ", to);
    quote(to, text);
    fprintf(to, " at graph 1.04,graph %.2f left noenhanced%s\n", 0.97 - 0.06 * line, more);
}

#define RING " point pointtype 6 pointsize 4 linewidth 2 linecolor rgb '#d00000'"

/* Labels the likeliest tokens: a number at the point, and its token in the list. The token that
 * was drawn gets a ring. */
static void put_labels(FILE *to, const cli_explained *e, const cli_pieces *pieces)
{
    const cli_shown *const last = &e->stage[e->count - 1];
    char name[16], text[64];
    uint32_t line = 0;
    for (; line < last->top_count && line < LABELS; line++) {
        const double p = (double)last->probs[last->top[line]];
        cli_pieces_name(pieces, (int32_t)last->top[line], name);
        snprintf(text, sizeof text, "%" PRIu32 "  %s  %.4g", line + 1, name, p);
        put_line(to, line, text, "");
        if (p >= (double)LEAST)
            fprintf(to,
                    "set label '%" PRIu32 "' at %" PRIu32
                    ",%.9g center offset 0,1.4 font ',9' front\n",
                    line + 1, line + 1, p);
    }
    if (e->token < 0)
        return;
    const uint32_t token = (uint32_t)e->token, rank = rank_of(last->probs, e->vocab, token);
    const float p = last->probs[token];
    cli_pieces_name(pieces, e->token, name);
    snprintf(text, sizeof text, "   drawn: %s", name);
    put_line(to, line + 1, text, RING);
    snprintf(text, sizeof text, "   rank %" PRIu32 ", %.4g", rank, (double)p);
    put_line(to, line + 2, text, "");
    if (p >= LEAST)
        fprintf(to, "set label '' at %" PRIu32 ",%.9g front" RING "\n", rank, (double)p);
}

/* Writes one curve of the plot command. Later curves lie above earlier ones, so they are thinner;
 * a stage that keeps one token is a point. */
static void put_stage(FILE *to, const cli_shown *shown, uint32_t vocab, uint32_t drawn)
{
    static const char *const colours[] = {"#c0c0c0", "#56b4e9", "#009e73", "#e69f00",
                                          "#cc79a7", "#0072b2", "#d55e00"};
    const int thinner = drawn < 5 ? (int)drawn : 5;
    char title[256];
    snprintf(title, sizeof title, "%s%s%s (%" PRIu32 " left)", shown->name,
             shown->parameter[0] == '\0' ? "" : " ", shown->parameter, shown->kept);
    fprintf(to, "%s '-' with ", drawn == 0 ? "plot" : ",");
    if (points_of(shown, vocab) > 1)
        fprintf(to, "lines linewidth %d", 12 - 2 * thinner);
    else
        fprintf(to, "points pointtype 7 pointsize %.1f", 3.5 - 0.5 * thinner);
    fprintf(to, " linecolor rgb '%s' title ",
            colours[drawn % (sizeof colours / sizeof colours[0])]);
    quote(to, title);
}

static void put_commands(FILE *to, bool svg, const cli_explained *e, const cli_pieces *pieces)
{
    float *const sorted = cli_alloc(e->vocab, sizeof *sorted);
    const unsigned height = 520 + 20 * e->count; /* the legend is below the plot */
    uint32_t drawn = 0;
    if (svg)
        fprintf(to, "set terminal svg size 960,%u noenhanced\n", height);
    else
        fprintf(to,
                "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo size 960,%u "
                "noenhanced; else set terminal png size 960,%u noenhanced\n",
                height, height);
    fprintf(to, "set title 'row %" PRIu32 ": probability by rank after each stage'\n", e->row);
    fputs("set xlabel 'rank'\nset ylabel 'probability'\nset logscale xy\nset grid\n"
          "set key bmargin left Left reverse vertical maxcols 1\nset lmargin 10\nset rmargin "
          "30\nset format y '%g'\n",
          to);
    fprintf(to, "set xrange [0.8:%.9g]\nset yrange [*:5]\n", 1.1 * e->vocab + 1);
    put_labels(to, e, pieces);
    for (uint32_t i = 0; i < e->count; i++)
        if (e->stage[i].kept != 0)
            put_stage(to, &e->stage[i], e->vocab, drawn++);
    fputs("\n", to);
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->stage[i].kept == 0)
            continue;
        memcpy(sorted, e->stage[i].probs, e->vocab * sizeof *sorted);
        put_curve(to, sorted, e->vocab);
    }
}

/* ------------------------------------------------------------------------- run */

/* Starts gnuplot, which writes the picture to `out`; its messages are discarded. NULL: it cannot be
 * started. */
static FILE *start(int out)
{
    const int before = dup(STDOUT_FILENO);
    FILE *to = NULL;
    if (before >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        to = popen("exec 2>/dev/null; exec gnuplot", "w");
    const int error = errno;
    if (before >= 0) {
        dup2(before, STDOUT_FILENO);
        close(before);
    }
    errno = error;
    return to;
}

static int run(int out, bool svg, const cli_explained *e, const cli_pieces *pieces)
{
    FILE *const to = start(out);
    void (*before)(int);
    int status;
    if (to == NULL)
        return cli_fail("--plot: gnuplot cannot be started: %s", strerror(errno));
    before = signal(SIGPIPE, SIG_IGN); /* gnuplot may end early: its exit status shows that */
    put_commands(to, svg, e, pieces);
    status = pclose(to);
    signal(SIGPIPE, before);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return cli_fail("--plot: gnuplot is not installed, or not in PATH");
    const off_t end = lseek(out, 0, SEEK_CUR);
    if (ftruncate(out, end) != 0) /* a device or a pipe: there was no longer picture */
        errno = 0;
    return status == 0 ? 0
                       : cli_fail("--plot: gnuplot failed with status %d",
                                  WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* An existing file stays as it is if there is no gnuplot. */
int cli_plot(const char *path, const cli_explained *e, const cli_pieces *pieces)
{
    const bool is_new = access(path, F_OK) != 0;
    int out, failed;
    if (e->stage[e->count - 1].kept == 0)
        return cli_fail("--plot: no token of row %" PRIu32 " is left to plot", e->row);
    if ((out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) < 0)
        return cli_fail("%s: cannot be written: %s", path, strerror(errno));
    failed = run(out, cli_ends_with(path, ".svg"), e, pieces);
    if (close(out) != 0 && !failed)
        failed = cli_fail("%s: cannot be written: %s", path, strerror(errno));
    if (failed && is_new)
        unlink(path);
    return failed;
}
