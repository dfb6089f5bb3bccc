/* SPDX-License-Identifier: MIT */
/* Reads checkpoints of llama2.c: seven int32, then float32 weights, all in the byte order of the
 * machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

static void check_sizes(const config *c, const char *path)
{
    const struct {
        const char *name;
        uint32_t value, most;
    } all[] = {{"dimension", c->dim, 1u << 16},     {"hidden dimension", c->hidden, 1u << 18},
               {"layers", c->layers, 1u << 10},     {"heads", c->heads, c->dim},
               {"kv heads", c->kv_heads, c->heads}, {"vocabulary", c->vocab, 1u << 20},
               {"context", c->context, 1u << 20}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value < 1 || all[i].value > all[i].most)
            die("%s: not a llama2.c checkpoint: %s %d is not between 1 and %u", path, all[i].name,
                (int)all[i].value, all[i].most);
    if (c->vocab <= EOS)
        die("%s: a vocabulary of %u tokens lacks BOS and EOS, which are tokens 1 and 2", path,
            c->vocab);
    if (c->dim % c->heads != 0 || c->dim / c->heads % 2 != 0)
        die("%s: dimension %u cannot be divided into %u heads of an even length", path, c->dim,
            c->heads);
    if (c->heads % c->kv_heads != 0)
        die("%s: %u heads cannot share %u kv heads", path, c->heads, c->kv_heads);
}

void checkpoint_load(checkpoint *m, const char *path)
{
    config *c = &m->c;
    int32_t header[7];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        die("%s: cannot be opened", path);
    if (fread(header, sizeof *header, 7, file) != 7)
        die("%s: too short for a llama2.c checkpoint: its header has 28 bytes", path);
    *c = (config){(uint32_t)header[0],
                  (uint32_t)header[1],
                  (uint32_t)header[2],
                  (uint32_t)header[3],
                  (uint32_t)header[4],
                  (uint32_t)header[5],
                  (uint32_t)header[6],
                  0,
                  0,
                  header[5] < 0};
    if (c->own_classifier)
        c->vocab = 0 - c->vocab;
    check_sizes(c, path);
    c->head_dim = c->dim / c->heads;
    c->kv_dim = c->head_dim * c->kv_heads;

    const uint64_t d = c->dim, h = c->hidden, l = c->layers, kv = c->kv_dim, v = c->vocab;
    const struct {
        const float **at;
        uint64_t count;
    } parts[] = {
        {&m->embedding, v * d},
        {&m->att_norm, l * d},
        {&m->wq, l * d * d},
        {&m->wk, l * kv * d},
        {&m->wv, l * kv * d},
        {&m->wo, l * d * d},
        {&m->ffn_norm, l * d},
        {&m->w1, l * h * d},
        {&m->w2, l * d * h},
        {&m->w3, l * h * d},
        {&m->norm, d},
        {NULL, (uint64_t)c->context * c->head_dim}, /* tables of angles, which are not used */
        {&m->classifier, c->own_classifier ? v * d : 0}};
    const size_t n = sizeof parts / sizeof *parts;
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += parts[i].count;

    /* A damaged header may describe any size, so the size is checked before the allocation. */
    long size = -1;
    if (fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size < 0 || fseek(file, sizeof header, SEEK_SET) != 0)
        die("%s: not a regular file", path);
    const uint64_t expected = sizeof header + 4 * count;
    if ((uint64_t)size != expected)
        die("%s: %s: it has %ld bytes instead of %llu", path,
            (uint64_t)size < expected ? "truncated"
                                      : "longer than a llama2.c checkpoint of its sizes",
            size, (unsigned long long)expected);

    m->data = allocate((size_t)count, sizeof *m->data);
    if (fread(m->data, sizeof *m->data, (size_t)count, file) != count)
        die("%s: cannot be read", path);
    fclose(file);
    const float *at = m->data;
    for (size_t i = 0; i < n; at += parts[i++].count)
        if (parts[i].at != NULL)
            *parts[i].at = at;
    if (!c->own_classifier)
        m->classifier = m->embedding;
}

void checkpoint_free(checkpoint *m) { free(m->data); }
