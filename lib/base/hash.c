/* SPDX-License-Identifier: MIT */
/* A fast hash that tells accidents apart: damaged bytes, other parameters. It is no protection
 * against forgery. */
#include "base/base.h"

uint64_t cls_hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* There are four chains side by side, because rows of logits are some megabytes. */
uint64_t cls_hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t lane[4] = {hash, ~hash, hash + 1, hash - 1}, word;
    for (; size >= 32; size -= 32)
        for (int i = 0; i < 4; i++, at += 8) {
            memcpy(&word, at, sizeof word);
            lane[i] = cls_hash_word(lane[i], word);
        }
    for (; size > 0; at++, size--)
        lane[0] = cls_hash_word(lane[0], *at);
    for (int i = 1; i < 4; i++)
        lane[0] = cls_hash_word(lane[0], lane[i]);
    return lane[0];
}
