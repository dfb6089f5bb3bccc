/* SPDX-License-Identifier: MIT */
/* The command clsample: its list of subcommands. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
    int failure; /* the exit status if the command cannot run */
} commands[] = {
    {"devices", cls_cmd_devices, "list the OpenCL devices and how clsample uses them", 1},
    {"sample", cls_cmd_sample, "draw tokens from logits in a file", 1},
    {"verify", cls_cmd_verify, "verify draft tokens against a model's logits, all from files", 1},
    {"explain", cls_cmd_explain, "show which tokens each sampling stage removes from a row", 1},
    {"replay", cls_cmd_replay, "prove the tokens of a log of sample, one by one", 2},
    {"demo", cls_cmd_demo, "compare greedy, top-k, top-p and min-p on a few rows of logits", 1},
    {"bench", cls_cmd_bench, "measure the speed of a device", 1},
    {"tune", cls_cmd_tune, "find the fastest shape of the kernels for a device", 1},
    {"selftest", cls_cmd_selftest, "check every sampling stage on a device against known answers",
     2},
    {"report", cls_cmd_report, "describe, check and measure a device, and write two files to send",
     2},
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void help(void)
{
    puts("usage: clsample COMMAND [OPTION]...\n\nSamples the next token of a language model on an "
         "OpenCL device.\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].help);
    puts("\nclsample COMMAND --help lists the options of a command; clsample --version prints the "
         "version.");
}

/* Runs a command and returns its exit status. */
static int run(const struct command *command, int argc, char **argv)
{
    cli_failure = command->failure;
    cli_memory_begin();
    const int status = command->run(argc, argv);
    cli_flush_output();
    cli_memory_end(NULL);
    return cli_end(status);
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    const bool asks = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (argc < 2)
        cli_die("no command; clsample --help lists the commands");
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return run(&commands[i], argc - 1, argv + 1);
    if (asks || strcmp(name, "help") == 0)
        help();
    else if (strcmp(name, "--version") == 0)
        printf("clsample %s\n", cls_version());
    else
        cli_die("unknown command '%s'; clsample --help lists the commands", name);
    cli_flush_output();
    return 0;
}
