/* SPDX-License-Identifier: MIT */
/* clsample run with what only tests can change in the library, on every device, and with a judge of
 * what the host gives:
 *
 *     hooked HOOK,... FILE... [OPTION]... */
#include <string.h>

#include "base/hooks.h"
#include "items.h"
#include "judge.h"
#include "run/calls.h"
#include "sampler/sampler.h"
#include "subgroups.h"

static void force_search(cls_sampler *sampler) { cls_sampler_force_search(sampler, 1); }

static void judges(void) { run_judge = judge; }
static void oracle(void)
{
    judges();
    judge_asks();
}
/* Each row that is truncated is searched. */
static void search(void) { run_prepare = force_search; }
static void fewest(void) { cls_test_fewest_programs = 1; }
static void small_lists(void) { cls_test_small_lists = 1; }
static void whole_sort(void) { cls_test_whole_sort = 1; }
static void short_proofs(void) { cls_test_proof_vocab = 1040; }
static void subgroups(void) { test_subgroups(EMULATED_SUBGROUPS); }
/* A list ends behind its first window of max tiles, which only long rows show. */
static void one_window(void)
{
    test_items();
    test_fault("first < n; first += WINDOW", "first < 1; first += WINDOW");
}

/* Each item looks for tokens in a range of tiles, as Intel's compiler for GPUs has it. */
static void ranges(void)
{
    test_items();
    test_fault("(SUBGROUPS == 2 && ROW", "(SUBGROUPS != 9 && ROW");
}

static const struct hook {
    const char *name;
    void (*set)(void);
} hooks[] = {
    {"judge", judges},          {"oracle", oracle},           {"search", search},
    {"fewest", fewest},         {"small-lists", small_lists}, {"short-proofs", short_proofs},
    {"whole-sort", whole_sort}, {"subgroups", subgroups},     {"items", test_items},
    {"one-window", one_window}, {"ranges", ranges},
};
enum { HOOKS = sizeof hooks / sizeof *hooks };

int main(int argc, char **argv)
{
    cli_failure = 2;
    cli_memory_begin();
    cli_progress_begin("run");
    for (const char *at = argc > 1 ? argv[1] : ""; at != NULL; at = strchr(at, ',')) {
        size_t i = 0;
        at += *at == ',';
        while (i < HOOKS && strncmp(at, hooks[i].name, strlen(hooks[i].name)) != 0)
            i++;
        if (i == HOOKS)
            cli_die("the first argument is a list of judge, oracle, search, fewest, small-lists, "
                    "short-proofs, subgroups, items, one-window and ranges");
        hooks[i].set();
        run_counts_launches &= i < 2; /* the judges leave programs as they are */
    }
    int status = cls_cmd_run(argc - 1, argv + 1);
    if (run_judge != NULL && judge_census() && status == 0)
        status = 1;
    cli_flush_output();
    cli_memory_end(NULL);
    return cli_end(status);
}
