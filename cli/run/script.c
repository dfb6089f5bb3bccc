/* SPDX-License-Identifier: MIT */
/* Runs a script on a side: each statement by its verb. */
#include <inttypes.h>
#include <string.h>

#include "run/calls.h"
#include "run/script.h"

const char *(*run_judge)(run_side *side, const run_statement *s);

static void set_logits(run_side *side, const run_statement *s) { side->logits = s; }
static void set_outputs(run_side *side, const run_statement *s) { side->outputs = s; }

/* version N [arithmetic=N]: what wrote the text. Its tokens are those of one arithmetic. */
static void check_version(run_side *side, const run_statement *s)
{
    (void)side;
    run_check_keys(s, "arithmetic", NULL);
    const uint64_t theirs = run_number(s, "arithmetic", cls_arithmetic_version());
    if (theirs != cls_arithmetic_version())
        run_die(s,
                "the text is of arithmetic %" PRIu64 "; this library has arithmetic %" PRIu32
                ", which may draw other tokens",
                theirs, cls_arithmetic_version());
}

static void do_nothing(run_side *side, const run_statement *s) { (void)side, (void)s; }

static bool begins_side(const char *begin, size_t length)
{
#define SIDE_NAME(name, way, shards) name,
    static const char *const names[] = {RUN_SIDES(SIDE_NAME)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (length != 0 && strncmp(names[i], begin, length) == 0)
            return true;
    return false;
}

/* leave SIDE,...: leaves the rest of the script out on sides whose names begin so. */
static void leave(run_side *side, const run_statement *s)
{
    const char *at = run_value(s, "");
    while (*at != '\0') {
        const size_t length = strcspn(at, ",");
        if (!begins_side(at, length))
            run_die(s, "leave: no side's name begins with '%.*s'", (int)(length < 40 ? length : 40),
                    at);
        if (strncmp(side->name, at, length) == 0)
            run_leave_out(side, "its statement leave names this side");
        at += length + (at[length] == ',');
    }
}

/* The statements, of which the first ones need no sampler. */
static const struct verb {
    const char *name;
    void (*run)(run_side *side, const run_statement *s);
} verbs[] = {
    {"leave", leave},           {"version", check_version},
    {"wrote", do_nothing},      {"end", do_nothing},
    {"sampler", run_sampler},   {"logits", set_logits},
    {"outputs", set_outputs},   {"grammar", run_grammar},
    {"infill", run_infill},     {"begin", run_slot_call},
    {"params", run_slot_call},  {"append", run_slot_call},
    {"turn", run_slot_call},    {"force", run_slot_call},
    {"copy", run_slot_call},    {"rollback", run_slot_call},
    {"reset", run_slot_call},   {"save", run_save},
    {"load", run_load},         {"same", run_same},
    {"compile", run_compile},   {"step", run_step},
    {"verify", run_verify},     {"accept", run_accept},
    {"draft", run_draft},       {"logprobs", run_logprobs},
    {"launches", run_launches},
};
enum { VERBS = sizeof verbs / sizeof *verbs, FREE = 7 };

static const struct verb *verb_of(const run_statement *s)
{
    cli_near near = {.word = s->verb, .length = strlen(s->verb)};
    for (int i = 0; i < VERBS; i++) {
        if (strcmp(s->verb, verbs[i].name) == 0)
            return &verbs[i];
        cli_near_try(&near, verbs[i].name);
    }
    run_die(s, "'%.40s' is no statement%s", s->verb, cli_near_text(&near, ""));
}

static void run_statement_on(run_side *side, const run_statement *s)
{
    const struct verb *const verb = verb_of(s);
    if (verb - verbs >= FREE && side->sampler[0] == NULL)
        run_die(s, "there is no sampler yet: a script begins with one, such as sampler "
                   "vocab=40 slots=3");
    verb->run(side, s);
}

/* The types of logits, as bits: all where a word chooses one, or a file has its own. */
static uint32_t dtypes_of(const run_script *script)
{
    for (uint32_t i = 0; i < script->count; i++)
        for (uint32_t w = 0; w < script->statement[i].words; w++) {
            const run_word *const word = &script->statement[i].word[w];
            if (strstr(word->key, "dtype") != NULL || strcmp(word->key, "file") == 0 ||
                strncmp(word->value, "file:", 5) == 0)
                return 1u << CLS_F32 | 1u << CLS_F16 | 1u << CLS_BF16;
        }
    return 1u << CLS_F32;
}

void run_first(run_side *side, const run_script *script, uint32_t count)
{
    side->records = 0;
    side->index = 0;
    side->given = script->given;
    side->dtypes = dtypes_of(script);
    side->record = NULL;
    side->left_out = NULL;
    side->logits = side->outputs = NULL;
    if (side->lacks != NULL)
        run_leave_out(side, side->lacks);
    for (uint32_t i = 0; i < count && side->left_out == NULL; i++) {
        const run_statement *const s = &script->statement[i];
        side->now = s;
        side->index = i;
        if (side->queue[1] != NULL)
            side->target.queue = side->queue[i * UINT32_C(2654435761) >> 31];
        run_statement_on(side, s);
        if (side->way == RUN_MOVED && side->left_out == NULL)
            run_move(side);
        if (run_judge != NULL && side->on_host && side->way == RUN_PLAIN) {
            run_drain(side);
            const char *const fault = run_judge(side, s);
            if (fault != NULL)
                run_note(side, "fault", fault, strlen(fault));
        }
    }
    run_drain(side);
}

void run_script_on(run_side *side, const run_script *script)
{
    run_first(side, script, script->count);
    run_end(side);
}
