/* SPDX-License-Identifier: MIT */
/* Compares what two sides wrote. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/script.h"

/* Whether two floats differ by more than the last bits. */
static bool is_far(const unsigned char *a, const unsigned char *b)
{
    int32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    const int64_t apart = (int64_t)x - y;
    return apart > 4 || apart < -4;
}

void run_describe_element(const run_record *r, size_t i, char text[64])
{
    int32_t n;
    float x;
    memcpy(&n, r->bytes + 4 * i, sizeof n);
    memcpy(&x, r->bytes + 4 * i, sizeof x);
    if (n > -100000 && n < 10000000)
        snprintf(text, 64, "%" PRId32, n);
    else
        snprintf(text, 64, "%.9g (0x%08" PRIx32 ")", (double)x, (uint32_t)n);
}

/* Whether two sentences differ; their numbers may be of slots and addresses, which do. */
static bool sentences_differ(const run_record *a, const run_record *b)
{
    size_t i = 0, k = 0;
    for (;; i++, k++) {
        while (i < a->size && isdigit(a->bytes[i]))
            i++;
        while (k < b->size && isdigit(b->bytes[k]))
            k++;
        if (i >= a->size || k >= b->size)
            return (i >= a->size) != (k >= b->size);
        if (a->bytes[i] != b->bytes[k])
            return true;
    }
}

/* Describes how two records differ; returns false if they do not. */
static bool records_differ(const run_record *a, const run_record *b, const run_side *on,
                           char text[400])
{
    const char *const side = on->name;
    char is[64], should[64];
    if (strcmp(a->name, b->name) != 0 || a->statement != b->statement) {
        snprintf(text, 400, "%s: %s was written, and %s on the host", side, b->name, a->name);
        return true;
    }
    if (strcmp(a->name, "refusal") == 0) {
        snprintf(text, 400, "%s: \"%.*s\", on the host \"%.*s\"", side, (int)b->size,
                 (const char *)b->bytes, (int)a->size, (const char *)a->bytes);
        return sentences_differ(a, b);
    }
    if (a->size != b->size) {
        snprintf(text, 400, "%s: %s has %zu bytes, on the host %zu", side, a->name, b->size,
                 a->size);
        return true;
    }
    for (size_t i = 0; i < a->size / 4; i++) {
        if (memcmp(a->bytes + 4 * i, b->bytes + 4 * i, 4) == 0 ||
            (a->near && !is_far(a->bytes + 4 * i, b->bytes + 4 * i)))
            continue;
        run_describe_element(b, i, is);
        run_describe_element(a, i, should);
        if (a->width > 1)
            snprintf(text, 400, "%s: %s, row %zu, element %zu is %s, on the host %s", side, a->name,
                     i / a->width, i % a->width, is, should);
        else
            snprintf(text, 400, "%s: %s, element %zu is %s, on the host %s", side, a->name, i, is,
                     should);
        return true;
    }
    const size_t rest = a->size / 4 * 4;
    snprintf(text, 400, "%s: the last bytes of %s differ", side, a->name);
    return memcmp(a->bytes + rest, b->bytes + rest, a->size - rest) != 0;
}

bool run_sides_differ(const run_side *host, const run_side *side, run_difference *d)
{
    uint32_t records = host->records; /* of the statements before the side left the rest out */
    while (side->left_out != NULL && records > 0 &&
           host->record[records - 1].statement >= side->index)
        records--;
    for (uint32_t i = 0; i < records || i < side->records; i++) {
        if (i >= records || i >= side->records) {
            d->statement = i < records ? host->record[i].statement : side->record[i].statement;
            snprintf(d->text, sizeof d->text, "%s: more or less was written", side->name);
            return true;
        }
        d->statement = host->record[i].statement;
        /* A slot is saved without the marks of tokens that new parameters have ceased to count. */
        if (side->way == RUN_MOVED && strcmp(side->record[i].name, "saved") == 0)
            continue;
        if (records_differ(&host->record[i], &side->record[i], side, d->text))
            return true;
    }
    return false;
}

bool run_is_faulty(const run_side *host, run_difference *d)
{
    for (uint32_t i = 0; i < host->records; i++)
        if (strcmp(host->record[i].name, "fault") == 0) {
            d->statement = host->record[i].statement;
            snprintf(d->text, sizeof d->text, "%.*s", (int)host->record[i].size,
                     (const char *)host->record[i].bytes);
            return true;
        }
    return false;
}
