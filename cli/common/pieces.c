/* SPDX-License-Identifier: MIT */
/* Reads the text of each token from a llama2.c tokenizer. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/cli.h"

void cli_pieces_read(const char *path, uint32_t vocab, cli_pieces *pieces)
{
    FILE *file = fopen(path, "rb");
    int32_t longest, length = 0;
    bool good;
    if (file == NULL)
        cli_die("%s: cannot be opened: %s", path, strerror(errno));
    pieces->text = cli_alloc(vocab, sizeof *pieces->text);
    good = fread(&longest, 4, 1, file) == 1;
    for (uint32_t i = 0; i < vocab && good; i++) {
        char bytes[256], *text = pieces->text[i];
        float score;
        good = fread(&score, 4, 1, file) == 1 && fread(&length, 4, 1, file) == 1 && length >= 0 &&
               (size_t)length < sizeof bytes &&
               fread(bytes, 1, (size_t)length, file) == (size_t)length;
        if (!good)
            break;
        for (int32_t c = 0; c < length; c++) /* ASCII only: columns count bytes */
            bytes[c] = bytes[c] < 32 || bytes[c] > 126 ? '?' : bytes[c];
        snprintf(text, sizeof *pieces->text, "'%.*s'", length > 9 ? 9 : length, bytes);
    }
    fclose(file);
    pieces->count = vocab;
    if (!good)
        cli_die("%s: not a llama2.c tokenizer with %" PRIu32 " pieces, one for each logit of a row",
                path, vocab);
}

void cli_pieces_name(const cli_pieces *pieces, int32_t token, char name[16])
{
    if (token < 0 || (uint32_t)token >= pieces->count)
        snprintf(name, 16, "#%" PRId32, token);
    else
        memcpy(name, pieces->text[token], 16);
}
