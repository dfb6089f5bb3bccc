/* SPDX-License-Identifier: MIT */
/* Prints JSON, status words and bars to standard output. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int cli_flush_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return cli_fail("standard output cannot be written: %s", strerror(errno));
    return 0;
}

int cli_print_json(const json_t *value)
{
    if (value == NULL)
        return cli_fail("the results have a text that is not valid UTF-8, which JSON requires");
    const int failed = json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    return failed != 0 ? cli_fail("standard output cannot be written: %s", strerror(errno))
                       : cli_flush_output();
}

json_t *cli_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

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

const char *cli_status_words(int32_t status, char words[CLI_STATUS_WORDS])
{
    static const struct {
        int32_t bit;
        const char *word;
    } bits[] = {
        {CLS_ROW_NAN, "nan"},         {CLS_ROW_INF, "inf"},          {CLS_ROW_EMPTY, "empty"},
        {CLS_ROW_SKIPPED, "skipped"}, {CLS_ROW_NO_SLOT, "no slot"},  {CLS_ROW_STOPPED, "stopped"},
        {CLS_ROW_LENGTH, "length"},   {CLS_ROW_UNFIT, "unfit"},      {CLS_ROW_LOOP, "loop"},
        {CLS_ROW_FORCED, "forced"},   {CLS_ROW_OVERFLOW, "overflow"}};
    words[0] = '\0';
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        if (status & bits[i].bit) {
            if (words[0] != '\0')
                strcat(words, ", ");
            strcat(words, bits[i].word);
        }
    return words[0] == '\0' ? "ok" : words;
}

void cli_bar(double x, int width)
{
    static int utf8 = -1;
    int filled = (int)(x * width + 0.5);
    if (utf8 < 0) {
        setlocale(LC_CTYPE, "");
        utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    }
    if (filled == 0 && x > 0.005)
        filled = 1;
    for (int i = 0; i < width; i++)
        fputs(i >= filled ? " " : utf8 ? "\xe2\x96\x88" : "#", stdout);
}
