/* SPDX-License-Identifier: MIT */
/* clsample: dispatch to the subcommands. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"devices", cls_cmd_devices, "list the OpenCL devices and how they would be used"},
    {"sample", cls_cmd_sample, "draw tokens from logits in a file"},
    {"verify", cls_cmd_verify, "verify drafts against a model's logits in files"},
    {"explain", cls_cmd_explain, "show what each stage of a row's chain removes"},
    {"demo", cls_cmd_demo, "show what the samplers make of some rows of logits"},
    {"bench", cls_cmd_bench, "measure a device"},
    {"selftest", cls_cmd_selftest, "run known answers of every stage on a device"},
    {"report", cls_cmd_report,
     "write all that there is to tell of a device into two files to send"},
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static char sentence[1024];

int cli_fail(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("clsample: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return 1;
}

void cli_warn(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("clsample: warning: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

const char *cli_sentence(void) { return sentence; }

int cli_no_memory(void) { return cli_fail("out of memory"); }

/* ------------------------------------------------------------------- interrupts */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);
}

void cli_hear_interrupt(void)
{
    if (signal(SIGINT, on_interrupt) == SIG_IGN) /* as in the background of a script */
        signal(SIGINT, SIG_IGN);
}

bool cli_interrupted(void) { return interrupted != 0; }

/* By the signal itself: a script's shell goes on where a command only returns 130. */
static int end(int status)
{
    if (!interrupted)
        return status;
    fflush(stdout);
#if !defined(_WIN32)
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
#endif
    return 130;
}

/* -------------------------------------------------------------------- commands */

static int help(void)
{
    puts("usage: clsample COMMAND [OPTION]...\n\nSamples the next token of a language model on an "
         "OpenCL device.\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].help);
    puts("\n  clsample COMMAND --help tells its options; clsample --version the version.");
    return cli_flush();
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return cli_fail("no command given; clsample --help lists them");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help();
    if (strcmp(argv[1], "--version") == 0) {
        printf("clsample %s\n", cls_version());
        return cli_flush();
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return end(commands[i].run(argc - 1, argv + 1));
    return cli_fail("unknown command '%s'; clsample --help lists them", argv[1]);
}
