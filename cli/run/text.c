/* SPDX-License-Identifier: MIT */
/* Reads the text of clsample run. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

enum { MOST_BYTES = 1 << 28, MOST_BUFFER = 1 << 24, MOST_NUMBERS = 1 << 20, MOST_WORDS = 256 };

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

/* ------------------------------------------------------------------- statements */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

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

const void *run_given_find(const run_side *side, const char *key)
{
    for (const run_given *g = side->given; g != NULL && g->key != NULL; g++)
        if (strcmp(g->key, key) == 0)
            return g->object;
    return NULL;
}

/* ------------------------------------------------------------------------ words */

const char *run_find(const run_statement *s, const char *key)
{
    for (uint32_t i = 0; i < s->words; i++)
        if (strcmp(s->word[i].key, key) == 0)
            return s->word[i].value;
    return NULL;
}

const char *run_value(const run_statement *s, const char *key)
{
    const char *const value = run_find(s, key);
    if (value == NULL)
        run_die(s, *key != '\0' ? "%s needs %s=..." : "%s needs %sa word without =", s->verb, key);
    return value;
}

/* Reads the number at the beginning of a text, and sets *end to what follows. */
static uint64_t parse_number(const run_statement *s, const char *key, const char *text,
                             const char **end)
{
    char *after;
    errno = 0;
    const uint64_t n = strtoull(text, &after, 0);
    if (*text < '0' || *text > '9' || errno != 0)
        run_die(s, "%s%s%.40s is not a number", key, *key != '\0' ? "=" : "", text);
    *end = after;
    return n;
}

uint64_t run_number(const run_statement *s, const char *key, uint64_t absent)
{
    const char *end;
    const char *const text = run_find(s, key);
    if (text == NULL)
        return absent;
    const uint64_t n = parse_number(s, key, text, &end);
    if (*end != '\0')
        run_die(s, "%s=%.40s is not a number", key, text);
    return n;
}

uint32_t run_count(const run_statement *s, const char *key, uint32_t absent)
{
    const uint64_t n = run_number(s, key, absent);
    if (n > UINT32_MAX)
        run_die(s, "%s=%" PRIu64 " does not fit 32 bits", key, n);
    return (uint32_t)n;
}

static int32_t parse_int(const run_statement *s, const char *key, const char **text)
{
    const bool negative = **text == '-';
    const uint64_t n = parse_number(s, key, *text + negative, text);
    if (n > (negative ? 2147483648u : UINT32_MAX))
        run_die(s, "%s: %s%" PRIu64 " does not fit 32 bits", key, negative ? "-" : "", n);
    return negative ? (int32_t)(-(int64_t)n) : (int32_t)(uint32_t)n;
}

int32_t *run_numbers(const run_statement *s, const char *key, const char *text, uint32_t *count)
{
    int32_t *list = NULL;
    uint32_t n = 0;
    while (*text != '\0') {
        int32_t first, last, times = 1;
        uint64_t of[3] = {0, 0, 0};
        if (strncmp(text, "random:", 7) == 0) {
            text += strlen("random");
            for (int i = 0; i < 3 && *text == ':'; i++)
                of[i] = parse_number(s, key, text + 1, &text);
            if (of[1] + n > MOST_NUMBERS || of[2] < 1 || of[2] > INT32_MAX)
                run_die(s, "%s: a random text is random:SEED:COUNT:WORDS, of at most %d ids", key,
                        (int)MOST_NUMBERS);
            list = cli_grow(list, n + (size_t)of[1] + 1, sizeof *list);
            run_random_text(of[0], (uint32_t)of[1], (uint32_t)of[2], list + n);
            n += (uint32_t)of[1];
            text += *text == ',';
            continue;
        }
        first = last = parse_int(s, key, &text);
        if (*text == '*') {
            times = first;
            text++;
            first = last = parse_int(s, key, &text);
        } else if (*text == '-') {
            text++;
            last = parse_int(s, key, &text);
        }
        if (times < 0 || last < first || (int64_t)last - first + times + n > MOST_NUMBERS)
            run_die(s, "%s: there are more than %d numbers", key, (int)MOST_NUMBERS);
        const uint32_t more = (uint32_t)(last - first) + (uint32_t)times;
        list = cli_grow(list, n + (size_t)more, sizeof *list);
        for (uint32_t i = 0; i < more; i++)
            list[n++] = first + (times > 1 ? 0 : (int32_t)i);
        if ((*text != ',' && *text != '\0') || strcmp(text, ",") == 0)
            run_die(s, "%s: '%.20s' follows a number", key, text);
        text += *text == ',';
    }
    *count = n;
    return list != NULL ? list : cli_alloc(1, sizeof *list);
}

int32_t *run_list(const run_statement *s, const char *key, uint32_t *count)
{
    const char *const text = run_find(s, key);
    *count = 0;
    return text != NULL ? run_numbers(s, key, text, count) : NULL;
}

int32_t *run_slots(const run_statement *s, uint32_t *count)
{
    return run_numbers(s, s->verb, run_value(s, ""), count);
}

int run_is(const run_statement *s, const char *text, const char *name, uint64_t number[3])
{
    const size_t length = strlen(name);
    memset(number, 0, 3 * sizeof *number);
    if (strncmp(text, name, length) != 0 || (text[length] != ':' && text[length] != '\0'))
        return 0;
    text += length;
    for (int i = 0; i < 3 && *text == ':'; i++) {
        const char *end;
        number[i] = parse_number(s, name, text + 1, &end);
        text = end;
    }
    if (*text != '\0')
        run_die(s, "%s: '%.20s' follows the numbers", name, text);
    return 1;
}

/* ----------------------------------------------------------------------- fields */

/* The field of a struct, or NULL. `size`: of the struct, whose name is then not known. */
static const cls_field *find_field(const char *structure, size_t size, const char *name,
                                   size_t length)
{
    const cls_field *f;
    for (uint32_t i = 0; (f = cls_struct_field(i)) != NULL; i++)
        if ((structure != NULL ? strcmp(f->structure, structure) == 0
                               : f->structure_size == size) &&
            strlen(f->name) == length && strncmp(f->name, name, length) == 0)
            return f;
    return NULL;
}

/* Whether a field is a pointer, which no text may set: it could be any place of the memory. */
static bool is_pointer(const cls_field *f)
{
    static const char *const names[] = {"buffer", "pointer", "host", "outputs", "row_offsets"};
    bool is = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is |= strcmp(f->name, names[i]) == 0;
    return is && f->size == sizeof(void *);
}

/* Finds a field by a name such as mask.words.offset. Returns its size, or 0 if there is none that
 * a text may set. */
static size_t find_part(const char *structure, const char *name, size_t *offset)
{
    size_t size = 0;
    *offset = 0;
    for (const cls_field *f;; name++) {
        const size_t length = strcspn(name, ".");
        if (structure == NULL && size == 0)
            return 0;
        if ((f = find_field(structure, size, name, length)) == NULL || is_pointer(f))
            return 0;
        structure = NULL;
        *offset += f->offset;
        size = f->size;
        name += length;
        if (*name == '\0')
            return size;
    }
}

const char *run_listed(const char *list, char end, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, end)) {
        at += *at == end;
        if (strncmp(at, name, length) == 0 &&
            (at[length] == end || at[length] == ':' || at[length] == '\0'))
            return at + length;
    }
    return NULL;
}

void run_check_words(const run_statement *s, const char *key, const char *words)
{
    const char *text = run_find(s, key);
    while (text != NULL) {
        cli_near near = {.word = text, .length = strcspn(text, ",")};
        const char *word = words;
        size_t n;
        while ((n = strcspn(word, "|")) != near.length || strncmp(word, text, n) != 0) {
            cli_near_try(&near, word);
            if (word[n] == '\0')
                run_die(s, "%s: '%.*s' is unknown%s", key,
                        (int)(near.length < 40 ? near.length : 40), text, cli_near_text(&near, ""));
            word += n + 1;
        }
        text = text[near.length] == ',' ? text + near.length + 1 : NULL;
    }
}

static bool has_word(const char *words, const char *word)
{
    return run_listed(words, ' ', word) != NULL;
}

void run_check_keys(const run_statement *s, const char *keys, const char *structure)
{
    for (uint32_t i = 0; i < s->words; i++) {
        const char *const key = s->word[i].key;
        size_t offset;
        if (*key == '\0' || has_word(keys, key) || find_part(structure, key, &offset) != 0 ||
            (strncmp(key, "outputs.", 8) == 0 && find_part("cls_outputs", key + 8, &offset) != 0))
            continue;
        run_die(s, "%s does not know '%.40s'; it knows: %s", s->verb, key, keys);
    }
}

static void set_number(const run_statement *s, const char *key, const char *text, size_t size,
                       void *to)
{
    if (size == 8) {
        const uint64_t n = run_number(s, key, 0);
        uint64_t most;
        memcpy(&most, to, sizeof most);
        if (strstr(key, "struct_size") != NULL && n > most)
            run_die(s, "%s may be at most %" PRIu64 ", since all that it covers is read", key,
                    most);
        memcpy(to, &n, sizeof n);
    } else if (strpbrk(text, ".en") != NULL && *text != 'n') {
        cli_set(CLI_FLOAT, to, NULL, key, text);
    } else {
        const int32_t n = strcmp(text, "nan") == 0 ? 0x7fc00000 : parse_int(s, key, &text);
        memcpy(to, &n, sizeof n);
    }
}

void run_set_fields(const run_statement *s, const char *keys, const char *structure, void *object)
{
    for (uint32_t i = 0; i < s->words; i++) {
        const char *const key = s->word[i].key;
        size_t offset, size;
        if (*key == '\0' || has_word(keys, key) || strchr(key, '.') != NULL)
            continue;
        size = find_part(structure, key, &offset);
        if (size == 4 || size == 8)
            set_number(s, key, s->word[i].value, size, (char *)object + offset);
    }
}

void run_begin_call(const run_statement *s, const char *keys, const char *structure, void *call,
                    size_t size)
{
    run_check_keys(s, keys, structure);
    if (run_find(s, "") != NULL)
        run_die(s, "%s takes no word without =, such as %.40s", s->verb, run_find(s, ""));
    if (cls_struct_init(structure, call, size) != CLS_OK)
        run_die(s, "%s", cls_error_message());
    run_set_fields(s, keys, structure, call);
}

/* Sets the offset or the size of a buffer, of which never more may be used than there is. */
static void set_extent(const run_statement *s, const char *key, const char *text, cls_buffer *b,
                       bool is_offset)
{
    const uint64_t size = b->size;
    set_number(s, key, text, sizeof size, is_offset ? &b->offset : &b->size);
    if (is_offset)
        b->size = size > b->offset ? size - b->offset : 0;
    else if (b->size > size)
        b->size = size;
}

void run_set_parts(run_side *side, const run_statement *s, const char *keys, const char *prefix,
                   const char *structure, void *object)
{
    const size_t before = strlen(prefix);
    for (uint32_t i = 0; i < s->words; i++) {
        const char *const key = s->word[i].key, *const text = s->word[i].value;
        size_t offset, size, from;
        uint64_t number[3];
        if (strncmp(key, prefix, before) != 0 || *key == '\0' || has_word(keys, key))
            continue;
        size = find_part(structure, key + before, &offset);
        char *const to = (char *)object + offset, *const dot = strrchr(key, '.');
        char whole[64];
        snprintf(whole, sizeof whole, "%.*s", dot != NULL ? (int)(dot - key) : 0, key);
        const bool is_offset = dot != NULL && strcmp(dot, ".offset") == 0;
        if (dot - key > (ptrdiff_t)before && (is_offset || strcmp(dot, ".size") == 0) &&
            find_part(structure, whole + before, &from) == sizeof(cls_buffer)) {
            set_extent(s, key, text, (cls_buffer *)(void *)((char *)object + from), is_offset);
        } else if (size == 4 || size == 8) {
            set_number(s, key, text, size, to);
        } else if (size > 8 && strcmp(text, "none") == 0) {
            memset(to, 0, size);
        } else if (size == sizeof(cls_buffer) && run_is(s, text, "buffer", number)) {
            if (number[0] > MOST_BUFFER)
                run_die(s, "%s=%.40s is larger than %d bytes", key, text, (int)MOST_BUFFER);
            const cls_buffer b =
                run_buffer(side, cli_alloc((size_t)number[0] + 1, 1), (size_t)number[0]);
            memcpy(to, &b, sizeof b);
        } else if (size > 8 && find_part(structure, text, &from) == size) {
            memcpy(to, (char *)object + from, size);
        } else if (size > 8) { /* an array: its first element */
            set_number(s, key, text, 4, to);
        }
    }
}
