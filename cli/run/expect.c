/* SPDX-License-Identifier: MIT */
/* Checks what a text expects its statements to write. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/script.h"

static int32_t int_at(const run_record *r, size_t i)
{
    int32_t n = -1;
    if (r != NULL && (i + 1) * sizeof n <= r->size)
        memcpy(&n, r->bytes + i * sizeof n, sizeof n);
    return n;
}

/* What a statement wrote, in the form in which texts expect it: "4 FORCED, -1 EMPTY". */
static char *written(const run_side *host, const run_statement *s, uint32_t statement)
{
    const run_record *const refusal = run_record_of(host, statement, "refusal"),
                            *const tokens = run_record_of(host, statement, "tokens"),
                            *const drafts = run_record_of(host, statement, "drafts"),
                            *const status = run_record_of(host, statement, "status");
    run_text t = {NULL, 0};
    run_add(&t, "%s", "");
    if (refusal != NULL) {
        run_add(&t, "refused %.*s", (int)refusal->size, (const char *)refusal->bytes);
        return t.text;
    }
    const bool verifies = strcmp(s->verb, "verify") == 0;
    const size_t rows = status != NULL ? status->size / 4 : 0,
                 width = verifies && rows != 0 ? tokens->size / 4 / rows : 1;
    for (size_t row = 0; row < rows; row++) {
        if (row > 0)
            run_add(&t, ", ");
        for (size_t i = 0; i < width; i++)
            if (!verifies || int_at(tokens, row * width + i) >= 0)
                run_add(&t, "%s%" PRId32, i > 0 ? " " : "", int_at(tokens, row * width + i));
        if (verifies && int_at(tokens, row * width) < 0)
            run_add(&t, "none");
        run_add_status(&t, int_at(status, row));
    }
    for (size_t i = 0; drafts != NULL && i < drafts->size / 4; i++)
        if (int_at(drafts, i) != 0x5a5a5a5a)
            run_add(&t, "%s%" PRId32, i > 0 ? " " : "", int_at(drafts, i));
    return t.text;
}

/* Whether two words are equal; names of a status may have any order. */
static bool same_word(const char *a, const char *b, size_t length)
{
    if (memchr(a, '|', length) == NULL)
        return strncmp(a, b, length) == 0;
    for (size_t i = 0, n; i < length; i += n + 1) {
        bool found = false;
        n = strcspn(a + i, "|, \t");
        for (size_t k = 0, m; k < length; k += m + 1) {
            m = strcspn(b + k, "|, \t");
            found |= m == n && strncmp(a + i, b + k, n) == 0;
        }
        if (!found)
            return false;
    }
    return true;
}

static bool same_words(const char *a, const char *b)
{
    for (;;) {
        a += strspn(a, " \t");
        b += strspn(b, " \t");
        const size_t n = strcspn(a, " \t"), m = strcspn(b, " \t");
        if (n != m || !same_word(a, b, n))
            return false;
        if (n == 0)
            return true;
        a += n;
        b += m;
    }
}

/* The part of an expectation that is of a row, and its token. */
static const char *part_of_row(const char *expect, uint32_t row, size_t *length)
{
    for (; row > 0 && *expect != '\0'; row--) {
        expect += strcspn(expect, ",");
        expect += *expect == ',';
    }
    expect += strspn(expect, " \t");
    *length = strcspn(expect, ",");
    return expect;
}

/* Says how a step's first row that differs does so, and why. */
static void explain_step(run_side *host, const run_script *script, uint32_t i, const char *is,
                         run_text *t)
{
    const run_statement *const s = &script->statement[i];
    for (uint32_t row = 0;; row++) {
        size_t n, m;
        const char *const want = part_of_row(s->expect, row, &n), *const have =
                                                                      part_of_row(is, row, &m);
        if (*want == '\0' && *have == '\0')
            return;
        if (n == m && same_word(want, have, n))
            continue;
        run_add(t, ", row %" PRIu32 " is %.*s, but %.*s is expected", row, (int)m, have, (int)n,
                want);
        const size_t before = t->length;
        run_add(t, "%s", "; ");
        run_first(host, script, i);
        run_why(host, s, row, (int32_t)strtol(want, NULL, 10), strstr(want, "FORCED") != NULL, t);
        run_end(host);
        if (t->length == before + 2)
            t->text[t->length = before] = '\0';
        return;
    }
}

/* Whether a number in a text is not the i-th element: one with a point is a float, near enough. */
static bool element_differs(const run_record *r, size_t i, const char *want)
{
    float x;
    memcpy(&x, r->bytes + 4 * i, sizeof x);
    if (want[strcspn(want, ".in \t,")] == '.') {
        const double y = strtod(want, NULL), apart = (double)x - y;
        return !(apart <= 1e-5 && apart >= -1e-5);
    }
    if (strncmp(want, "inf", 3) == 0 || strncmp(want, "-inf", 4) == 0)
        return x != (*want == '-' ? -INFINITY : INFINITY);
    return int_at(r, i) != (int32_t)strtol(want, NULL, 0);
}

/* Compares what a statement before wrote under a name with what is expected: the first elements of
 * the first rows. Describes the first that differs. */
static bool wrote_other(const run_side *host, const run_statement *s, uint32_t statement,
                        run_text *t)
{
    const char *const name = run_value(s, ""), *at = s->expect;
    const run_record *r = NULL;
    for (uint32_t i = statement; i-- > 0 && r == NULL;)
        r = run_record_of(host, i, name);
    run_add(t, "line %" PRIu32, s->line);
    if (r == NULL || at == NULL) {
        run_add(t, ": %s %s", at == NULL ? "nothing is expected of" : "no statement has written",
                name);
        return true;
    }
    for (size_t row = 0, i = 0; *(at += strspn(at, " \t")) != '\0'; at += strcspn(at, " \t,")) {
        char is[64];
        while (*at == ',') {
            row++;
            i = 0;
            at += 1 + strspn(at + 1, " \t");
        }
        const size_t place = row * r->width + i++;
        if (i > r->width || 4 * place + 4 > r->size) {
            run_add(t, ": %s has %zu elements in each of %zu rows", name, r->width,
                    r->size / 4 / r->width);
            return true;
        }
        if (!element_differs(r, place, at))
            continue;
        run_describe_element(r, place, is);
        run_add(t, ", row %zu, element %zu of %s is %s, but %.*s is expected", row, i - 1, name, is,
                (int)strcspn(at, " \t,"), at);
        return true;
    }
    return false;
}

/* Checks what the script expects. */
bool run_expects_other(run_side *host, const run_script *script, run_difference *d)
{
    for (uint32_t i = 0; i < script->count; i++) {
        const run_statement *const s = &script->statement[i];
        run_text t = {NULL, 0};
        if (strcmp(s->verb, "wrote") == 0) {
            d->statement = i;
            if (!wrote_other(host, s, i, &t))
                continue;
            snprintf(d->text, sizeof d->text, "%s", t.text);
            return true;
        }
        const run_record *const changed = run_record_of(host, i, "changed");
        const char *const is = written(host, s, i);
        const bool is_refused = strncmp(is, "refused", 7) == 0;
        const run_record *const equal = run_record_of(host, i, "equal");
        d->statement = i;
        if (s->expect == NULL && (s->is_random || !is_refused) &&
            (equal == NULL || int_at(equal, 0) != 0))
            continue;
        if (s->expect == NULL) {
            snprintf(d->text, sizeof d->text, "line %" PRIu32 "%s%.300s", s->line,
                     equal != NULL ? ": the slots differ" : " is ", equal != NULL ? "" : is);
            return true;
        }
        const bool refused = strncmp(s->expect, "refused", 7) == 0;
        const char *const part = s->expect + 7 + strspn(s->expect + (refused ? 7 : 0), " ");
        if (changed == NULL &&
            (refused ? is_refused && strstr(is, part) != NULL : same_words(is, s->expect)))
            continue;
        run_add(&t, "line %" PRIu32, s->line);
        if (changed != NULL)
            run_add(&t,
                    ", row %" PRId32
                    ": the logits, the mask or the bias have changed since the text was written",
                    int_at(changed, 0));
        else if (strcmp(s->verb, "step") == 0 && !refused && !is_refused)
            explain_step(host, script, i, is, &t);
        else
            run_add(&t, ": it is %.150s, but %.150s is expected", *is != '\0' ? is : "nothing",
                    s->expect);
        snprintf(d->text, sizeof d->text, "%s", t.text);
        return true;
    }
    return false;
}
