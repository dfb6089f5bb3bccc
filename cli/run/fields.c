/* SPDX-License-Identifier: MIT */
/* Fields of the library's structs that words name. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/inputs.h"

enum { MOST_BUFFER = 1 << 24 };

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
        const int32_t n = strcmp(text, "nan") == 0 ? 0x7fc00000 : run_int(s, key, &text);
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
