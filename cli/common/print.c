/* SPDX-License-Identifier: MIT */
/* Prints JSON, also as text, status words and bars. */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#else
#include <langinfo.h>
#endif

#include "common/cli.h"

void cli_flush_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        cli_die("standard output cannot be written: %s", strerror(errno));
}

void cli_print_json(const json_t *value)
{
    if (value == NULL)
        cli_die("the results have a text that is not valid UTF-8, which JSON requires");
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    cli_flush_output();
}

const char *cli_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

json_int_t cli_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

json_t *cli_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

double cli_probability(double logprob) { return exp(logprob > 0 ? 0 : logprob); }

const char *cli_counted(char text[CLI_COUNTED], uint64_t n, const char *nouns)
{
    const int first = (int)strcspn(nouns, " ");
    snprintf(text, CLI_COUNTED, "%" PRIu64 " %.*s%s", n, n == 1 ? first - 1 : first, nouns,
             nouns + first);
    return text;
}

json_t *cli_text(const char *text)
{
    json_t *const value = json_string(text);
    if (value != NULL)
        return value;
    char *const plain = cli_alloc(strlen(text) + 1, 1);
    for (size_t i = 0; text[i] != '\0'; i++)
        plain[i] = (unsigned char)text[i] > 126 ? '?' : text[i];
    return json_string(plain);
}

/* Writes a value by the conversion %SPEC of printf(), with the letter of the value's type. */
static void put_value(const json_t *value, const char *spec, size_t length)
{
    const bool is_real = json_is_real(value) || memchr(spec, '.', length) != NULL;
    const char *text = json_string_value(value);
    char format[32];
    if (value == NULL || json_is_null(value)) {
        snprintf(format, sizeof format, "%%%.*ss", (int)length, spec);
        printf(format, "-");
        return;
    }
    snprintf(format, sizeof format, "%%%.*s%s", (int)length, spec,
             is_real                  ? "f"
             : json_is_integer(value) ? JSON_INTEGER_FORMAT
                                      : "s");
    if (is_real)
        printf(format, json_number_value(value));
    else if (json_is_integer(value))
        printf(format, json_integer_value(value));
    else if (text != NULL)
        printf(format, text);
    else
        printf(format, json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "?");
}

void cli_put(const char *line, const json_t *object)
{
    for (; *line != '\0'; line++) {
        char key[40];
        if (*line != '{') {
            putchar(*line);
            continue;
        }
        const size_t length = strcspn(++line, "}"), name = strcspn(line, ":}");
        snprintf(key, sizeof key, "%.*s", (int)name, line);
        const size_t spec = name < length ? name + 1 : length;
        put_value(json_object_get(object, key), line + spec, length - spec);
        line += length;
    }
}

const char *cli_status_words(int32_t status, const char *between, char words[CLI_STATUS_WORDS])
{
    static const char *const bits[] = {"nan",    "inf",   "empty", "skipped", "no slot", "stopped",
                                       "length", "unfit", "loop",  "forced",  "overflow"};
    words[0] = '\0';
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        if (status >> i & 1) {
            if (words[0] != '\0')
                strcat(words, between);
            strcat(words, bits[i]);
        }
    return words[0] == '\0' ? "ok" : words;
}

static int prints_utf8(void)
{
#if defined(_WIN32)
    return GetConsoleOutputCP() == CP_UTF8;
#else
    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
#endif
}

void cli_bar(double x, int width)
{
    static int utf8 = -1;
    int filled = (int)(x * width + 0.5);
    if (utf8 < 0)
        utf8 = prints_utf8();
    if (filled == 0 && x > 0.005)
        filled = 1;
    for (int i = 0; i < width; i++)
        fputs(i >= filled ? " " : utf8 ? "\xe2\x96\x88" : "#", stdout);
}
