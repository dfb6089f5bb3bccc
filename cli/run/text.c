/* SPDX-License-Identifier: MIT */
/* Reads the text of clsample run: statements, and their words. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run/text.h"

enum { MOST_BYTES = 1 << 28, MOST_WORDS = 256 };

jmp_buf *run_escape;

void run_die(const run_statement *s, const char *format, ...)
{
    char text[600];
    va_list more;
    va_start(more, format);
    vsnprintf(text, sizeof text, format, more);
    va_end(more);
    if (run_escape != NULL)
        longjmp(*run_escape, 1);
    if (s->label != NULL)
        cli_die("%s: %s", s->label, text);
    cli_die("%s: line %" PRIu32 ": %s", s->path, s->line, text);
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

const char *run_find(const run_statement *s, const char *key)
{
    for (uint32_t i = 0; i < s->words; i++)
        if (strcmp(s->word[i].key, key) == 0)
            return s->word[i].value;
    return NULL;
}

/* Copies a part of a text. */
static char *copy(const char *from, size_t length)
{
    char *const text = cli_alloc(length + 1, 1);
    memcpy(text, from, length);
    return text;
}

static void add_word(run_statement *s, char *text)
{
    char *const value = strchr(text, '=');
    if (s->words == MOST_WORDS)
        run_die(s, "there are more than %d words", (int)MOST_WORDS);
    if (value != NULL)
        *value = '\0';
    if (run_find(s, value != NULL ? text : "") != NULL)
        run_die(s, "%s has %.40s twice", s->verb, value != NULL ? text : "a word without =");
    s->word[s->words++] = (run_word){value != NULL ? text : "", value != NULL ? value + 1 : text};
}

/* Copies the word that begins at a text without its quotes, in which it may have spaces. Sets *at
 * to its end. */
static char *take_word(const run_statement *s, const char **at)
{
    char *const word = copy(*at, strlen(*at)), *to = word;
    while (**at != '\0' && !is_space(**at)) {
        if (*(*at)++ != '"') {
            *to++ = (*at)[-1];
            continue;
        }
        while (**at != '"') {
            if (**at == '\0')
                run_die(s, "a quote has no end");
            *to++ = *(*at)++;
        }
        (*at)++;
    }
    *to = '\0';
    return cli_grow(word, (size_t)(to - word) + 1, 1);
}

/* Splits a line into its verb, its words and what it expects. Returns 0 if it is empty. */
static bool split_line(run_statement *s, const char *text, size_t length)
{
    const char *at = s->text = copy(text, length);
    s->word = cli_alloc(MOST_WORDS, sizeof *s->word);
    for (;;) {
        while (is_space(*at))
            at++;
        if (*at == '\0' || *at == '#')
            break;
        if (at[0] == '-' && at[1] == '>' && s->verb != NULL) {
            at += 2 + strspn(at + 2, " \t");
            s->expect = copy(at, strcspn(at, "#\r"));
            break;
        }
        char *const word = take_word(s, &at);
        if (s->verb == NULL)
            s->verb = word;
        else
            add_word(s, word);
    }
    s->word = cli_grow(s->word, s->words + (size_t)1, sizeof *s->word);
    return s->verb != NULL;
}

run_script run_parse(const char *path, const char *text)
{
    run_script script = {.path = path};
    uint32_t room = 0;
    for (uint32_t line = 1; *text != '\0'; line++) {
        const size_t length = strcspn(text, "\n");
        run_statement s = {.path = path, .line = line};
        if (split_line(&s, text, length)) {
            if (script.count == room) {
                room = room * 2 + 64;
                script.statement = cli_grow(script.statement, room, sizeof *script.statement);
            }
            script.statement[script.count++] = s;
        }
        text += length + (text[length] == '\n');
    }
    return script;
}

run_script run_read(const char *path)
{
    const cli_file_kind kind = cli_kind_of(path);
    if (kind == CLI_OTHER)
        cli_die("%s is not a regular file", path);
    FILE *const file = fopen(path, "rb");
    if (file == NULL)
        cli_die("%s: cannot be opened: %s", path, strerror(errno));
    size_t size = 0, room = 1 << 16;
    char *text = cli_grow(NULL, room + 1, 1);
    for (size_t n; (n = fread(text + size, 1, room - size, file)) != 0;) {
        size += n;
        if (size > MOST_BYTES)
            cli_die("%s: the file is larger than %d bytes", path, (int)MOST_BYTES);
        if (size == room)
            text = cli_grow(text, (room *= 2) + 1, 1);
    }
    fclose(file);
    text[size] = '\0';
    if (size >= 6 && memcmp(text, "\x93NUMPY", 6) == 0)
        cli_die("%s is a NumPy array, not a text of calls; clsample sample --logits takes it",
                path);
    if (strlen(text) != size)
        cli_die("%s: byte %zu is 0, so that the file is no text", path, strlen(text));
    return run_parse(path, text);
}
