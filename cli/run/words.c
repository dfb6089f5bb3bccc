/* SPDX-License-Identifier: MIT */
/* The values of a statement's words. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/text.h"
#include "rows/kinds.h"

enum { MOST_NUMBERS = 1 << 20 };

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

int32_t run_int(const run_statement *s, const char *key, const char **text)
{
    const bool negative = **text == '-';
    const uint64_t n = parse_number(s, key, *text + negative, text);
    if (n > (negative ? 2147483648u : UINT32_MAX))
        run_die(s, "%s: %s%" PRIu64 " does not fit 32 bits", key, negative ? "-" : "", n);
    return negative ? (int32_t)(-(int64_t)n) : (int32_t)(uint32_t)n;
}

/* A text of few words, most of which repeats itself from some place on, nearly. */
static void random_text(uint64_t seed, uint32_t count, uint32_t words, int32_t *ids)
{
    rng r = {seed ^ 0x74657874};
    const uint32_t what = rng_below(&r, 8), most = what < 5 || count < 32 ? 16 : count / 2,
                   period = what == 6 ? count : 1 + rng_below(&r, most),
                   begin = what < 3 ? rng_below(&r, 4) : rng_below(&r, count + 1);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = what == 7 && i % 2 == 0                    ? 0 /* every other word is the same */
                 : what != 7 && i >= (size_t)begin + period ? ids[i - period]
                                                            : (int32_t)rng_below(&r, words);
    for (uint32_t n = rng_below(&r, 3); n > 0 && count != 0; n--)
        ids[rng_below(&r, count)] = (int32_t)rng_below(&r, words);
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
            random_text(of[0], (uint32_t)of[1], (uint32_t)of[2], list + n);
            n += (uint32_t)of[1];
            text += *text == ',';
            continue;
        }
        first = last = run_int(s, key, &text);
        if (*text == '*') {
            times = first;
            text++;
            first = last = run_int(s, key, &text);
        } else if (*text == '-') {
            text++;
            last = run_int(s, key, &text);
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
