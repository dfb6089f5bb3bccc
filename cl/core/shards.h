/* SPDX-License-Identifier: MIT */
/* Shards: what a row's section of a partial holds. The host and the kernels share this. */
#ifndef CLS_SHARDS_H
#define CLS_SHARDS_H

#include "core/arithmetic.h"
#include "core/tiles.h"

/* What a row sends in an exchange: bits of cls_shard_row.sends. The parts follow the section's
 * first words in this order. */
#define CLS_SENDS_LIST 1u /* its first k tokens in order: key and id of each */
#define CLS_SENDS_TILES \
    2u /* the largest key and the mass of each whole tile, then the keys of the \
          tokens in tiles that a border cuts */
enum {
    CLS_SENDS_TOKEN = 4,   /* key and id of the token that the shard drew, if it has it */
    CLS_SENDS_COUNTS = 8,  /* the number and the mass of the tokens that reach each edge */
    CLS_SENDS_TOKENS = 16, /* all tokens that reach `key`: up to k pairs of key and id */
    CLS_SENDS_KEYS = 32,   /* the keys of all of the shard's tokens */
};
/* Not sent, but how to merge: it is the row's first exchange; all logits are cleared in the first
 * exchange; the masses of all tiles are computed from the keys. */
enum {
    CLS_MERGE_BEGINS = 64,
    CLS_MERGE_CLEARS = 128,
    CLS_MERGE_WEIGHS = 256,
};

typedef struct cls_shard_row {
    u32 sends;
    u32 offset; /* of the section in a partial's body, in words */
    u32 k;
    i32 key;     /* for TOKENS the least key; for COUNTS the row's largest */
    f32 scale;   /* of the row's masses */
    f32 spacing; /* of the edges, as a difference of logits */
    f32 depth;   /* min-p: how deep below the largest logit of the shard CLS_SECTION_REACH counts */
    u32 wanted;  /* of LIST: how many tokens from the top the row needs of all shards together */
} cls_shard_row;

#define CLS_PARTIAL_HEADER_WORDS 16 /* before a partial's body */

/* The first words of a section. */
enum {
    CLS_SECTION_STATUS = 0, /* cls_row_status bits of the shard's logits */
    CLS_SECTION_DIGEST = 1, /* of the request's state on the device */
    CLS_SECTION_LISTED = 2, /* number of tokens in the list that follows */
    CLS_SECTION_REACH = 3,  /* number of tokens that may reach the cut of min-p */
    CLS_SECTION_WORDS = 4,
};

enum {
    CLS_EDGES = 24,     /* of COUNTS: edge j lies j + 1 spacings below the row's largest logit */
    CLS_EDGE_WORDS = 3, /* number of tokens, and mass */
    CLS_TILE_WORDS = 3, /* key and mass */
};

/* Returns the key of an edge. */
CLS_INLINE i32 shard_edge_key(i32 top_key, f32 spacing, u32 edge)
{
    const f32 drop = spacing * (f32)(edge + 1);
    const i32 key = key_of(clean(float_of_key(top_key) - drop));
    return key > CLS_KEY_NONE ? key : CLS_KEY_NONE + 1;
}

/* The tiles that a shard with tokens first to last - 1 has wholly are shard_first_tile() to
 * shard_end_tile() - 1. The last tile of the vocabulary is whole, although it may be short. Its
 * other tokens, those in tiles that a border cuts, are first to shard_head_end() - 1 and
 * shard_tail() to last - 1. */
CLS_INLINE u32 shard_first_tile(u32 first) { return (first + CLS_TILE - 1) / CLS_TILE; }
CLS_INLINE u32 shard_end_tile(u32 first, u32 last, u32 vocab)
{
    const u32 begin = shard_first_tile(first),
              end = last == vocab ? (vocab + CLS_TILE - 1) / CLS_TILE : last / CLS_TILE;
    return end > begin ? end : begin;
}
CLS_INLINE u32 shard_head_end(u32 first, u32 last)
{
    const u32 end = shard_first_tile(first) * CLS_TILE;
    return end < last ? end : last;
}
CLS_INLINE u32 shard_tail(u32 first, u32 last, u32 vocab)
{
    const u32 head = shard_head_end(first, last),
              tail = shard_end_tile(first, last, vocab) * CLS_TILE;
    return tail <= head ? head : tail < last ? tail : last;
}

/* Mixes a word into a hash. */
CLS_INLINE u32 shard_mix(u32 hash, u32 word)
{
    hash = (hash ^ word) * 0x9e3779b1u;
    return hash ^ hash >> 15;
}

#endif
