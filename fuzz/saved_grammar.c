/* SPDX-License-Identifier: MIT */
/* Target: a saved grammar for cls_grammar_load(). What is accepted is saved as the same bytes, and
 * stays within its states whatever ids follow.
 *
 * The first byte selects whether the digest is corrected, and whether the header is one that fits
 * the size of the rest, with draft tokens or without: its vocabulary and its states follow then. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "request/request.h"

enum { CORRECTED = 1, FITTING = 2, WITH_NAME = 4, WITH_DRAFTS = 8 }; /* bits of the first byte */
enum { HEADER = 88, VOCAB_AT = 8, DIGEST_AT = 56 };

static void put(uint8_t *at, uint32_t word)
{
    for (int b = 0; b < 4; b++)
        at[b] = (uint8_t)(word >> 8 * b);
}

/* Writes a header in front of classes and transitions, which the size says the number of. Returns 0
 * if there is none. */
static int write_header(uint8_t *bytes, size_t size, int with_drafts, input *in)
{
    const uint32_t vocab = 1u + take_byte(in) % 64, states = 1u + take_byte(in) % 16;
    const size_t words = (size - HEADER) / 4, others = vocab + states * (with_drafts ? 2 : 1);
    if (size % 4 != 0 || words < others || (words - others) % 2 != 0)
        return 0;
    put(bytes, 0x47534c43u);
    put(bytes + 4, with_drafts ? 2 : 1);
    put(bytes + VOCAB_AT, vocab);
    put(bytes + VOCAB_AT + 4, states);
    put(bytes + 16, (uint32_t)(words - others) / 2);
    put(bytes + 20, take_byte(in) % 2);
    return 1;
}

static void correct(uint8_t *bytes, size_t size)
{
    cls_sha256 hash;
    cls_sha256_init(&hash);
    cls_sha256_update(&hash, bytes + VOCAB_AT, 8);
    cls_sha256_update(&hash, bytes + HEADER, size - HEADER);
    cls_sha256_final(&hash, bytes + DIGEST_AT);
}

static void check_grammar(cls_grammar *g, const uint8_t *bytes, size_t size)
{
    cls_grammar_info info;
    size_t again = 0;
    cls_grammar_info_init(&info);
    demand(cls_grammar_query(g, &info) == CLS_OK && info.states > 0, "no information");
    demand(cls_grammar_save(g, NULL, NULL, &again) == CLS_OK && again == size,
           "%zu bytes are saved as %zu", size, again);
    uint8_t *const copy = malloc(again);
    demand(copy != NULL && cls_grammar_save(g, NULL, copy, &again) == CLS_OK, "it is not saved");
    demand(memcmp(copy + DIGEST_AT, bytes + DIGEST_AT, size - DIGEST_AT) == 0,
           "other bytes are saved");
    free(copy);
    for (uint32_t s = 0; s < info.states && s < 16; s++) {
        const uint32_t draft = grammar_draft(g->words, s);
        uint32_t after = s;
        demand(draft == CLS_NO_DRAFT || draft < info.vocab, "draft %u", (unsigned)draft);
        demand(draft == CLS_NO_DRAFT ||
                   (cls_grammar_advance(g, &(int32_t){(int32_t)draft}, 1, &after) == CLS_OK &&
                    after != CLS_GRAMMAR_DEAD),
               "state %u drafts %u, which it does not allow", (unsigned)s, (unsigned)draft);
        for (uint32_t id = 0; id < info.vocab && id < 64; id++) {
            const int32_t token = (int32_t)id;
            uint32_t state = s;
            demand(cls_grammar_advance(g, &token, 1, &state) == CLS_OK &&
                       (state < info.states || state == CLS_GRAMMAR_ENDED ||
                        state == CLS_GRAMMAR_DEAD),
                   "state %u leads to %u", (unsigned)s, (unsigned)state);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    input in = {data, data_size};
    const uint8_t how = take_byte(&in);
    cls_saved_grammar saved;
    cls_grammar *g;
    uint8_t name[32] = {0};
    if (in.size > 1 << 16)
        return 0;
    size_t size = in.size;
    if (how & FITTING) {
        const input rest = {in.data + 3, in.size > 3 ? in.size - 3 : 0};
        size = HEADER + rest.size / 4 * 4;
    }
    uint8_t *const bytes = calloc(size + (size == 0), 1);
    demand(bytes != NULL, "out of memory");
    if (how & FITTING) {
        if (in.size > 3)
            memcpy(bytes + HEADER, in.data + 3, size - HEADER);
        if (!write_header(bytes, size, how & WITH_DRAFTS, &in)) {
            free(bytes);
            return 0;
        }
    } else if (size != 0) {
        memcpy(bytes, in.data, size);
    }
    if ((how & CORRECTED) && size >= HEADER)
        correct(bytes, size);
    cls_saved_grammar_init(&saved);
    saved.bytes = bytes;
    saved.size = size;
    saved.vocabulary = how & WITH_NAME ? name : NULL;
    saved.max_bytes = 1 << 22;
    const cls_status status = cls_grammar_load(&saved, &g);
    demand(status == CLS_OK || status == CLS_BAD_ARGUMENT, "status %d", (int)status);
    demand((status == CLS_OK) == (g != NULL), "a grammar, and a failure");
    if (g != NULL)
        check_grammar(g, bytes, size);
    cls_grammar_destroy(g);
    free(bytes);
    return 0;
}
