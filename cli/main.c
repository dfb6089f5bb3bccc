/* SPDX-License-Identifier: MIT */
/* The command clsample: its list of subcommands. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"devices", cls_cmd_devices, "list the OpenCL devices and how clsample uses them"},
    {"sample", cls_cmd_sample, "draw tokens from logits in a file"},
    {"verify", cls_cmd_verify, "verify draft tokens against a model's logits, all from files"},
    {"explain", cls_cmd_explain, "show which tokens each sampling stage removes from a row"},
    {"replay", cls_cmd_replay, "prove the tokens of a log of sample, one by one"},
    {"demo", cls_cmd_demo, "compare greedy, top-k, top-p and min-p on a few rows of logits"},
    {"bench", cls_cmd_bench, "measure the speed of a device"},
    {"tune", cls_cmd_tune, "find the fastest shape of the kernels for a device"},
    {"selftest", cls_cmd_selftest, "check every sampling stage on a device against known answers"},
    {"report", cls_cmd_report, "describe, check and measure a device, and write two files to send"},
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

/* -------------------------------------------------------------------- commands */

static int help(void)
{
    puts("usage: clsample COMMAND [OPTION]...\n\nSamples the next token of a language model on an "
         "OpenCL device.\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].help);
    puts("\nclsample COMMAND --help lists the options of a command; clsample --version prints the "
         "version.");
    return cli_flush_output();
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return cli_fail("no command; clsample --help lists the commands");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help();
    if (strcmp(argv[1], "--version") == 0) {
        printf("clsample %s\n", cls_version());
        return cli_flush_output();
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return cli_end(commands[i].run(argc - 1, argv + 1));
    return cli_fail("unknown command '%s'; clsample --help lists the commands", argv[1]);
}
