/* SPDX-License-Identifier: MIT */
/* Writes a small checkpoint of random weights and a tokenizer, to test the program without a model.
 * The dimensions are unusual on purpose: they are not multiples of a power of two, heads share
 * keys, and the classifier is separate from the embedding. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "llama.h"

enum { DIM = 48, HIDDEN = 37, LAYERS = 2, HEADS = 6, KV_HEADS = 2, VOCAB = 301, CONTEXT = 96 };
enum { KV_DIM = DIM / HEADS * KV_HEADS, BYTES = 256 };

static FILE *create(const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        die("%s: cannot be created", path);
    return file;
}

static void finish(FILE *file, const char *path)
{
    const int failed = ferror(file);
    if (fclose(file) != 0 || failed)
        die("%s: cannot be written", path);
}

/* A uniform number from -1 to 1, by splitmix64. */
static float uniform(void)
{
    static uint64_t state;
    uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (float)((z ^ (z >> 31)) >> 40) / 8388608.0f - 1.0f;
}

static void weights(FILE *file, uint32_t count, float scale, float around)
{
    for (uint32_t i = 0; i < count; i++) {
        const float w = around + scale * uniform();
        fwrite(&w, sizeof w, 1, file);
    }
}

static void write_checkpoint(const char *path)
{
    const int32_t header[7] = {DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, -VOCAB, CONTEXT};
    const float by_dim = 1.7f / sqrtf(DIM), by_hidden = 1.7f / sqrtf(HIDDEN);
    FILE *file = create(path);
    fwrite(header, sizeof *header, 7, file);
    weights(file, VOCAB * DIM, 1, 0);
    weights(file, LAYERS * DIM, 0.1f, 1);
    weights(file, LAYERS * DIM * DIM, by_dim, 0);
    weights(file, LAYERS * KV_DIM * DIM, by_dim, 0);
    weights(file, LAYERS * KV_DIM * DIM, by_dim, 0);
    weights(file, LAYERS * DIM * DIM, by_dim, 0);
    weights(file, LAYERS * DIM, 0.1f, 1);
    weights(file, LAYERS * HIDDEN * DIM, by_dim, 0);
    weights(file, LAYERS * DIM * HIDDEN, by_hidden, 0);
    weights(file, LAYERS * HIDDEN * DIM, by_dim, 0);
    weights(file, DIM, 0.1f, 1);
    weights(file, CONTEXT * DIM / HEADS, 0, 0);
    weights(file, VOCAB * DIM, 3 * by_dim, 0); /* peaked, like a trained model's */
    finish(file, path);
}

static void write_piece(FILE *file, const char *text, float score)
{
    const int32_t length = (int32_t)strlen(text);
    fwrite(&score, sizeof score, 1, file);
    fwrite(&length, sizeof length, 1, file);
    fwrite(text, 1, (size_t)length, file);
}

static void write_tokenizer(const char *path)
{
    static const char *const words[] = {"<unk>", "\n<s>\n", "\n</s>\n"}, *const joined[] = {
                                                                             "th", "the", " the"};
    const int32_t longest = 7;
    char text[8];
    FILE *file = create(path);
    fwrite(&longest, sizeof longest, 1, file);
    for (int i = 0; i < 3; i++)
        write_piece(file, words[i], 0);
    for (unsigned i = 0; i < BYTES; i++) {
        snprintf(text, sizeof text, "<0x%02X>", i);
        write_piece(file, text, 0);
    }
    for (int i = 0; i < 3; i++)
        write_piece(file, joined[i], -(float)i);
    /* The space is last; before it are ASCII characters from z downwards. */
    for (int i = 3 + BYTES + 3; i < VOCAB; i++) {
        snprintf(text, sizeof text, "%c", i == VOCAB - 1 ? ' ' : 'z' - (i - 3 - BYTES - 3));
        write_piece(file, text, -(float)i);
    }
    finish(file, path);
}

void make_random(const char *checkpoint_path, const char *tokenizer_path)
{
    write_checkpoint(checkpoint_path);
    write_tokenizer(tokenizer_path);
}
