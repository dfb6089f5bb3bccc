/* SPDX-License-Identifier: MIT */
/* The command clsample: its list of subcommands. */
#include <stdio.h>
#include <string.h>

#include "common/cli.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
    int failure; /* the exit status if the command cannot run */
} commands[] = {
    {"devices", cls_cmd_devices, "list the OpenCL devices and how clsample uses them", 1},
    {"sample", cls_cmd_sample, "draw tokens from logits in a file", 1},
    {"explain", cls_cmd_explain, "show which tokens each sampling stage removes from a row", 1},
    {"run", cls_cmd_run, "run texts of calls or logs on several sides, and compare them", 2},
    {"bench", cls_cmd_bench, "measure the speed of a device, and find the fastest shape for it", 1},
    {"selftest", cls_cmd_selftest, "check every sampling stage on a device against known answers",
     2},
    {"accept", cls_cmd_accept, "compare a new device with the host at production sizes", 2},
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void help(void)
{
    puts("usage: clsample COMMAND [OPTION]...\n\n"
         "Samples the next token of a language model on an OpenCL device.\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].help);
    puts("\nclsample help COMMAND lists the options of a command, clsample help params the\n"
         "sampling parameters; clsample --version prints the version.");
}

/* Runs a command and returns its exit status. */
static int run(const struct command *command, int argc, char **argv)
{
    cli_failure = command->failure;
    cli_memory_begin();
    cli_progress_begin(command->name);
    const int status = command->run(argc, argv);
    cli_flush_output();
    cli_memory_end(NULL);
    return cli_end(status);
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* also: another name that is known here. */
_Noreturn static void refuse(const char *name, const char *also)
{
    cli_near near = {.word = name, .length = strlen(name)};
    for (size_t i = 0; i < N_COMMANDS; i++)
        cli_near_try(&near, commands[i].name);
    cli_near_try(&near, also);
    cli_near_try(&near, "--version");
    cli_die("unknown command '%s'%s", name,
            near.name != NULL ? cli_near_text(&near, "") : "; clsample --help lists the commands");
}

/* clsample help [COMMAND|params] */
static int answer(int argc, char **argv)
{
    char *args[] = {argc > 2 ? argv[2] : argv[0], "--help"};
    if (argc < 3 || strcmp(argv[2], "help") == 0 || argv[2][0] == '-')
        help();
    else if (strcmp(argv[2], "params") == 0)
        cli_params_help();
    else if (find(argv[2]) != NULL)
        return run(find(argv[2]), 2, args);
    else
        refuse(argv[2], "params");
    return 0;
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    int status = 0;
    if (find(name) != NULL)
        return run(find(name), argc - 1, argv + 1);
    if (argc < 2) {
        help();
        status = 1;
    } else if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        status = answer(argc, argv);
    else if (strcmp(name, "--version") == 0)
        printf("clsample %s\n", cls_version());
    else
        refuse(name, "help");
    cli_flush_output();
    return status;
}
