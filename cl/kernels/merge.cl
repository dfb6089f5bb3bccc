/* SPDX-License-Identifier: MIT */
/* merge: makes a row of the whole vocabulary of what all shards have sent (core/shards.h). The row
 * has the logits of the tokens that were sent, and -inf elsewhere; the survey of it has the largest
 * key of each max tile with such a token, and the masses of the tiles that were sent. The kernels
 * that follow read this row as they read any other. A work-group has one row.
 *
 * Launch: [WGS, rows]. */
#include "core/shards.h"
#include "row/tiles.cl"

/* One row of the merge. */
typedef struct merged_row {
    __global f32 *z;     /* [max tiles * CLS_MAX_TILE] */
    __global i32 *key;   /* [max tiles] */
    __global u64 *mass;  /* [tiles] */
    __global u32 *flags; /* [tiles] */
    u32 vocab, tiles;
} merged_row;

/* Returns where a shard's section of the row begins. */
static inline __global const u32 *section_of(const step_args *s, u32 shard, u32 section)
{
    return s->partials + (size_t)s->args->partial_words * shard + CLS_PARTIAL_HEADER_WORDS +
           section;
}

/* Returns a key that was sent. A forged one becomes the key of some logit: kernels look for the
 * token that has the largest key. */
static inline i32 sent_key(u32 word) { return key_of(clean(float_of_key((i32)word))); }

/* Returns a tile's mass that was sent, at most twice what a tile can have: a forged one must not
 * make the sum of all overflow. */
static inline u64 sent_mass(u32 high, u32 low)
{
    return high < 512 ? u64_make(high, low) : u64_make(512, 0);
}

/* Clears the row: its survey, and with `logits` all of its logits. */
static inline void clear_row(const merged_row *m, int logits)
{
    for (u32 i = LOCAL_ID; i < m->tiles * CLS_MAX_TILES_PER_TILE; i += WGS)
        m->key[i] = CLS_KEY_NONE;
    for (u32 t = LOCAL_ID; t < m->tiles; t += WGS) {
        m->mass[t] = 0;
        m->flags[t] = 0;
    }
    for (u32 i = LOCAL_ID * VEC; i < m->tiles * CLS_TILE && logits; i += WGS * VEC)
        VSTORE((FV)(CLS_MASKED), m->z + i);
}

/* Raises a max tile's key to its largest logit. */
static inline void set_max_tile(const merged_row *m, u32 at)
{
    FV most = VLOAD(m->z + at * CLS_MAX_TILE);
    for (u32 v = VEC; v < CLS_MAX_TILE; v += VEC) {
        const FV x = VLOAD(m->z + at * CLS_MAX_TILE + v);
        most = x > most ? x : most;
    }
    m->key[at] = max(m->key[at], key_of(FMAX(most)));
}

/* Returns a key that at least `wanted` tokens of the lists reach: in each list, one of its share of
 * them. So the first `wanted` tokens of the row are among those that reach it. Of eight lists of 50
 * tokens, some 100 do. */
static inline i32 list_bound(const step_args *s, u32 section, u32 wanted)
{
    const u32 shards = s->args->shards, share = (wanted + shards - 1) / shards;
    i32 bound = CLS_KEY_INF;
    SHORT_LOOP
    for (u32 shard = 0; shard < s->args->shards; shard++) {
        __global const u32 *const from = section_of(s, shard, section);
        const i32 key = from[CLS_SECTION_LISTED] >= share
                            ? sent_key(from[CLS_SECTION_WORDS + 2 * (share - 1)])
                            : CLS_KEY_NONE;
        bound = min(bound, key);
    }
    return bound;
}

/* Adds the tokens of the lists of all shards that reach a key: the lists are in descending order,
 * and an item takes every WGS-th token of each. The max tiles that get one are cleared first,
 * unless the whole row was: an item clears the same vectors of all of them, since two tokens may be
 * in one. */
ONE_COPY void merge_lists(const step_args *s, const merged_row *m, u32 section, i32 bound,
                          int is_cleared)
{
    for (u32 round = is_cleared ? 1u : 0u; round < 2; round++) {
        for (u32 shard = 0; shard < s->args->shards; shard++) {
            __global const u32 *const from = section_of(s, shard, section);
            __global const u32 *const list = from + CLS_SECTION_WORDS;
            const u32 listed = from[CLS_SECTION_LISTED];
            const u32 first = round == 0 ? 0u : LOCAL_ID, step = round == 0 ? 1u : WGS;
            for (u32 i = first; i < listed && sent_key(list[2 * i]) >= bound; i += step) {
                const i32 key = sent_key(list[2 * i]);
                const u32 id = list[2 * i + 1], at = id / CLS_MAX_TILE;
                if (round == 0) {
                    for (u32 v = LOCAL_ID * VEC; v < CLS_MAX_TILE; v += WGS * VEC)
                        VSTORE((FV)(CLS_MASKED), m->z + at * CLS_MAX_TILE + v);
                } else {
                    m->z[id] = float_of_key(key);
                    atomic_max(m->key + at, key);
                }
            }
        }
        BARRIER();
    }
}

/* Adds the tokens that a shard sends one after another, from token `first` to last - 1. */
static inline void merge_keys(const merged_row *m, __global const u32 *from, u32 first, u32 last)
{
    for (u32 i = first + LOCAL_ID; i < last; i += WGS)
        m->z[i] = float_of_key(sent_key(from[i - first]));
}

/* Sums up the mass of a tile whose tokens are all there. */
static inline u64 whole_mass(const merged_row *m, u32 tile, f32 scale, __local u64 *scratch)
{
    const i32 key = tile_max_key(m->key, tile);
    u64 mass = 0;
    if (key != CLS_KEY_NONE) { /* the same for the whole group */
        const f32 top = float_of_key(key), fraction = split(top, scale).fraction;
        SHORT_LOOP
        for (u32 v = LOCAL_ID * VEC; v < CLS_TILE; v += WGS * VEC) {
            const UV w = weight_v(VLOAD(m->z + tile * CLS_TILE + v), top, scale, fraction);
            mass += SUM_64(w);
        }
    }
    return wg_mass(mass, scratch);
}

/* Adds the tiles of all shards, and those that borders cut. A tile's key goes to its first max
 * tile, beside the keys of its tokens that are there: it may stand for a token that no shard has
 * sent, which matters to no cut above that token. */
ONE_COPY void merge_tiles(const step_args *s, const merged_row *m, u32 section, f32 scale,
                          __local u64 *scratch)
{
    const u32 shards = s->args->shards;
    for (u32 shard = 0; shard < shards; shard++) {
        __global const u32 *const from = section_of(s, shard, section), *const cut =
                                                                            from +
                                                                            s->args->whole_tiles *
                                                                                CLS_TILE_WORDS;
        const u32 first = s->borders[shard], last = s->borders[shard + 1],
                  begin = shard_first_tile(first), end = shard_end_tile(first, last, m->vocab);
        for (u32 t = begin + LOCAL_ID; t < end; t += WGS) {
            __global const u32 *const tile = from + (t - begin) * CLS_TILE_WORDS;
            __global i32 *const key = m->key + t * CLS_MAX_TILES_PER_TILE;
            *key = max(*key, sent_key(tile[0]));
            m->mass[t] = sent_mass(tile[2], tile[1]);
        }
        const u32 head = shard_head_end(first, last);
        merge_keys(m, cut, first, head);
        merge_keys(m, cut + (head - first), shard_tail(first, last, m->vocab), last);
    }
    BARRIER();
    for (u32 shard = 1, before = m->tiles; shard < shards; shard++) {
        const u32 t = s->borders[shard] / CLS_TILE;
        if (s->borders[shard] % CLS_TILE == 0 || t == before) /* the same for the whole group */
            continue;
        before = t;
        for (u32 i = LOCAL_ID; i < CLS_MAX_TILES_PER_TILE; i += WGS)
            set_max_tile(m, t * CLS_MAX_TILES_PER_TILE + i);
        BARRIER();
        const u64 mass = whole_mass(m, t, scale, scratch);
        if (LOCAL_ID == 0)
            m->mass[t] = mass;
    }
    BARRIER();
}

/* Gives the shard's own survey the merged maxima of the tiles that its two borders cut: their units
 * depend on these. */
static inline void share_maxima(const merged_row *m, u32 first, u32 last, __global i32 *own_key)
{
    if (LOCAL_ID != 0)
        return;
    for (u32 i = 0; i < 2; i++) {
        const u32 border = i == 0 ? first : last, t = border / CLS_TILE;
        if (border % CLS_TILE != 0 && border != m->vocab)
            own_key[t * CLS_MAX_TILES_PER_TILE] =
                max(own_key[t * CLS_MAX_TILES_PER_TILE], tile_max_key(m->key, t));
    }
}

ONE_COPY void merge_row(const step_args *s, u32 row, __local u64 *scratch)
{
    const u32 vocab = s->vocab, tiles = row_tiles(s), n = row_max_tiles(s);
    const cls_shard_row p = s->plan[row];
    const u32 section = p.offset;
    const merged_row m = {s->merged_logits + (size_t)row * tiles * CLS_TILE,
                          s->merged_key + (size_t)row * n,
                          s->merged_mass + (size_t)row * tiles,
                          s->merged_flags + (size_t)row * tiles,
                          vocab,
                          tiles};
    if (p.sends == 0) /* the same for the whole group, as below */
        return;
    /* The shards' requests must be in the same state; otherwise the row gets no token. */
    u32 differs = 0;
    for (u32 shard = 1; shard < s->args->shards; shard++)
        differs |= section_of(s, shard, section)[CLS_SECTION_DIGEST] ^
                   section_of(s, 0, section)[CLS_SECTION_DIGEST];
    if (differs != 0) {
        clear_row(&m, 0);
        BARRIER();
        if (LOCAL_ID == 0)
            m.flags[0] = CLS_ROW_UNFIT;
        return;
    }
    if (p.sends & CLS_MERGE_BEGINS) {
        clear_row(&m, (p.sends & CLS_MERGE_CLEARS) != 0);
        BARRIER();
    }
    if (p.sends & (CLS_SENDS_LIST | CLS_SENDS_TOKEN | CLS_SENDS_TOKENS))
        merge_lists(s, &m, section,
                    p.sends & CLS_SENDS_LIST ? list_bound(s, section, p.wanted) : CLS_KEY_NONE,
                    (p.sends & CLS_MERGE_CLEARS) != 0);
    if (p.sends & CLS_SENDS_TILES) {
        merge_tiles(s, &m, section + CLS_SECTION_WORDS + (p.sends & CLS_SENDS_LIST ? 2 * p.k : 0u),
                    p.scale, scratch);
        share_maxima(&m, s->args->first, s->args->last, s->tile_key + (size_t)row * n);
    }
    if (p.sends & CLS_SENDS_KEYS) {
        for (u32 shard = 0; shard < s->args->shards; shard++)
            merge_keys(&m, section_of(s, shard, section) + CLS_SECTION_WORDS, s->borders[shard],
                       s->borders[shard + 1]);
        BARRIER();
        for (u32 i = LOCAL_ID; i < n; i += WGS)
            set_max_tile(&m, i);
        BARRIER();
        for (u32 t = 0; t < tiles && (p.sends & CLS_MERGE_WEIGHS); t++) {
            const u64 sum = whole_mass(&m, t, p.scale, scratch);
            if (LOCAL_ID == 0)
                m.mass[t] = sum;
        }
    }
    if (LOCAL_ID == 0) {
        i32 token = -1;
        u32 status = 0;
        for (u32 shard = 0; shard < s->args->shards; shard++) {
            __global const u32 *const from = section_of(s, shard, section);
            status |= from[CLS_SECTION_STATUS];
            if ((p.sends & CLS_SENDS_TOKEN) && from[CLS_SECTION_LISTED] != 0)
                token = (i32)from[CLS_SECTION_WORDS + 1];
        }
        m.flags[0] = status;
        if (p.sends & (CLS_SENDS_TOKEN | CLS_MERGE_BEGINS))
            *(__global i32 *)scratch_of(s, row) = token;
    }
}

KERNEL void cls_merge(STEP_PARAMETERS(CLS_MERGE_ROW_BUFFERS))
{
    __local u64 scratch[WGS];
    const step_args s = STEP_OF(CLS_MERGE_ROW_BUFFERS);
    merge_row(&s, get_group_id(1), scratch);
}
