/* SPDX-License-Identifier: MIT */
/* Byte pair encoding with a tokenizer of llama2.c. The file has an int32 with the length of the
 * longest piece, then for each id a float32 score, an int32 length and the bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

enum { FIRST_BYTE = 3 }; /* ids of the pieces <0x00>, <0x01>, ... */

static const tokenizer *sorting; /* qsort() has no argument to pass on */

static int by_piece(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const int order = strcmp(sorting->piece[i], sorting->piece[j]);
    return order != 0 ? order : i < j ? -1 : 1;
}

void tokenizer_load(tokenizer *t, const char *path, uint32_t vocab)
{
    FILE *file = fopen(path, "rb");
    int32_t longest = 0;
    if (file == NULL)
        die("%s: cannot be opened", path);
    if (fread(&longest, sizeof longest, 1, file) != 1 || longest < 1 || longest > 65536)
        die("%s: not a llama2.c tokenizer: it does not begin with the length of the longest piece",
            path);
    t->vocab = vocab;
    t->longest = (uint32_t)longest;
    t->piece = allocate(vocab, sizeof *t->piece);
    t->score = allocate(vocab, sizeof *t->score);
    t->sorted = allocate(vocab, sizeof *t->sorted);
    for (uint32_t i = 0; i < vocab; i++) {
        int32_t length = 0;
        if (fread(&t->score[i], sizeof(float), 1, file) != 1 ||
            fread(&length, sizeof length, 1, file) != 1)
            die("%s: ends with piece %u of the %u that the checkpoint has", path, i, vocab);
        if (length < 0 || length > longest)
            die("%s: not a llama2.c tokenizer: piece %u has %d bytes, but by the header the "
                "longest has %d",
                path, i, (int)length, (int)longest);
        t->piece[i] = allocate((size_t)length + 1, 1);
        if (fread(t->piece[i], 1, (size_t)length, file) != (size_t)length)
            die("%s: ends within piece %u of the %u that the checkpoint has", path, i, vocab);
        t->sorted[i] = (int32_t)i;
    }
    if (fgetc(file) != EOF)
        die("%s: has more pieces than the %u that the checkpoint has", path, vocab);
    fclose(file);
    sorting = t;
    qsort(t->sorted, vocab, sizeof *t->sorted, by_piece);
}

void tokenizer_free(tokenizer *t)
{
    for (uint32_t i = 0; i < t->vocab; i++)
        free(t->piece[i]);
    free(t->piece);
    free(t->score);
    free(t->sorted);
}

/* The id of a piece, or -1. */
static int32_t find(const tokenizer *t, const char *text)
{
    uint32_t low = 0, high = t->vocab;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (strcmp(t->piece[t->sorted[middle]], text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->vocab && strcmp(t->piece[t->sorted[low]], text) == 0 ? t->sorted[low] : -1;
}

/* The number of bytes of a UTF-8 character; 1 if it is not valid. */
static size_t character(const char *text)
{
    size_t n = 1;
    while (n < 4 && ((unsigned char)text[n] & 0xC0) == 0x80)
        n++;
    return n;
}

uint32_t tokenizer_encode(const tokenizer *t, const char *text, int32_t **tokens)
{
    const size_t length = strlen(text);
    int32_t *ids = allocate(length + 2, sizeof *ids);
    char *pair = allocate(2 * (size_t)t->longest + 1, 1);
    uint32_t n = 0;
    ids[n++] = BOS;
    /* A text is encoded with a space before it. */
    if (length > 0 && find(t, " ") >= 0)
        ids[n++] = find(t, " ");
    for (const char *at = text; *at != '\0';) {
        char one[5] = "";
        const size_t bytes = character(at);
        memcpy(one, at, bytes);
        if (find(t, one) >= 0)
            ids[n++] = find(t, one);
        else
            for (size_t i = 0; i < bytes; i++) {
                const int32_t byte = FIRST_BYTE + (unsigned char)at[i];
                if (byte >= (int32_t)t->vocab)
                    die("the tokenizer has no piece for byte %d of the prompt '%s'",
                        byte - FIRST_BYTE, text);
                ids[n++] = byte;
            }
        at += bytes;
    }
    /* Join the neighbours that make the piece with the best score, until no two make a piece. */
    for (;;) {
        uint32_t best = 0;
        int32_t joined = -1;
        for (uint32_t i = 1; i + 1 < n; i++) {
            snprintf(pair, 2 * (size_t)t->longest + 1, "%s%s", t->piece[ids[i]],
                     t->piece[ids[i + 1]]);
            const int32_t id = find(t, pair);
            if (id >= 0 && (joined < 0 || t->score[id] > t->score[joined])) {
                best = i;
                joined = id;
            }
        }
        if (joined < 0)
            break;
        ids[best] = joined;
        memmove(ids + best + 1, ids + best + 2, (--n - best - 1) * sizeof *ids);
    }
    free(pair);
    *tokens = ids;
    return n;
}

/* The text of a token after the token `before`. `byte` has room for a piece of one byte. */
const char *tokenizer_piece(const tokenizer *t, int32_t before, int32_t token, char byte[2])
{
    const char *piece = t->piece[token];
    unsigned value;
    if (before == BOS && piece[0] == ' ')
        piece++;
    if (strlen(piece) == 6 && sscanf(piece, "<0x%2X>", &value) == 1 && piece[5] == '>') {
        byte[0] = (char)value;
        byte[1] = '\0';
        return byte;
    }
    return piece;
}
