/* SPDX-License-Identifier: MIT */
/* The text of clsample run: its statements and their words, and writing them. The page of
 * clsample-run describes the text. */
#ifndef CLS_CLI_RUN_TEXT_H
#define CLS_CLI_RUN_TEXT_H

#include <setjmp.h>

#include "common/params.h"

/* ------------------------------------------------------------ cli/run/text.c */

/* A word of a statement: KEY=VALUE, or a value alone, whose key is "". */
typedef struct run_word {
    const char *key, *value;
} run_word;

typedef struct run_statement {
    const char *path;  /* for messages */
    const char *label; /* messages begin with it in place of path and line; or NULL */
    uint32_t line;
    const char *text; /* the whole line */
    const char *verb;
    run_word *word;
    uint32_t words;
    const char *expect; /* what follows ->, or NULL */
    bool is_random;     /* a random statement made it: it may be refused */
} run_statement;

/* What a command has read already, in place of a file that a statement names. */
typedef struct run_given {
    const char *key; /* logits, mask, bias: a cli_array; prefix: [vocab]; grammar: a cls_grammar */
    const void *object;
} run_given;

typedef struct run_script {
    const char *path;
    const run_given *given; /* the last one's key is NULL; or NULL */
    run_statement *statement;
    uint32_t count;
} run_script;

/* Reads a file, or makes a script of a text. */
run_script run_read(const char *path);
run_script run_parse(const char *path, const char *text);

/* Ends the command with a sentence on a statement: "FILE: line 3: ...", or jumps to run_escape,
 * which is set while statements are left out to see whether a shorter text fails, too. */
extern jmp_buf *run_escape;
_Noreturn void run_die(const run_statement *s, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The value of a word, or NULL. */
const char *run_find(const run_statement *s, const char *key);

/* ----------------------------------------------------------- cli/run/words.c */

/* The value of a word; if there is none, it ends the command. */
const char *run_value(const run_statement *s, const char *key);

/* A number, and one of at most 32 bits; `absent` if there is no such word. */
uint64_t run_number(const run_statement *s, const char *key, uint64_t absent);
uint32_t run_count(const run_statement *s, const char *key, uint32_t absent);

/* The number of 32 bits, which may be negative, at the beginning of a text, which becomes what
 * follows it. */
int32_t run_int(const run_statement *s, const char *key, const char **text);

/* Numbers that are separated by commas; a part may be FIRST-LAST or COUNT*NUMBER. *count becomes
 * their number. NULL: there is no such word. `text` is the value, `key` its name for messages. */
int32_t *run_numbers(const run_statement *s, const char *key, const char *text, uint32_t *count);
int32_t *run_list(const run_statement *s, const char *key, uint32_t *count);

/* The slots of the first word without a key. */
int32_t *run_slots(const run_statement *s, uint32_t *count);

/* Reads "NAME:A:B": returns 1 if the text is NAME, and the numbers after it, which are 0 where they
 * are missing. */
int run_is(const run_statement *s, const char *text, const char *name, uint64_t number[3]);

/* Finds a name in a list, whose parts end with `end`, or with : and a number. Returns what follows
 * it, or NULL. list NULL: it is empty. */
const char *run_listed(const char *list, char end, const char *name);

/* Ends the command if the list that is a word's value has a part that is none of `words`, which |
 * separates. */
void run_check_words(const run_statement *s, const char *key, const char *words);

/* ----------------------------------------------------------- cli/run/write.c */

/* A text that is being written. */
typedef struct run_text {
    char *text;
    size_t length;
} run_text;
void run_add(run_text *t, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Appends parameters to a text, those that do not have their defaults: " temperature=0.5 ...". */
void run_add_params(run_text *t, const cls_params *params);

/* Appends the names of a status: " FORCED|STOPPED". */
void run_add_status(run_text *t, int32_t status);

#endif
