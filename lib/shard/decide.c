/* SPDX-License-Identifier: MIT */
/* What the rows of a step exchange. Every decision here depends on the parameters and on what was
 * exchanged before, by integers and single operations on floats, so that all shards decide alike.
 */
#include "shard/shard.h"

/* ----------------------------------------------------------------- kinds of rows */

/* Finds how a request's first truncation bounds its set. `wants`: the outputs. */
static cls_row_exchange decide_slot(const cls_slot *slot, uint32_t wants, float *scale)
{
    cls_row_exchange exchange = {CLS_EXCHANGE_LOGITS, 0, -1.0f, 0};
    uint32_t i = 0;
    *scale = slot->total_scale;
    if (wants & CLS_WANTS(CLS_OUT_KEPT_MASS)) /* a share of the whole row's mass */
        return exchange;
    if (slot->flags & CLS_SLOT_UNTRUNCATED) {
        /* The drawn token is all that shards know of each other's tokens. */
        exchange.kind = wants & ~CLS_WANTS(CLS_OUT_LOGPROBS) || slot->watermark != 0
                            ? CLS_EXCHANGE_LOGITS
                            : CLS_EXCHANGE_PLAIN;
        return exchange;
    }
    if (!(slot->flags & CLS_SLOT_GREEDY) && cls_slot_infills(slot))
        return exchange;
    if (!(slot->flags & CLS_SLOT_SEARCH)) {
        exchange.kind = CLS_EXCHANGE_LIST;
        exchange.target = slot->flags & CLS_SLOT_GREEDY ? 1 : (uint32_t)slot->top_k;
        return exchange;
    }
    if (slot->min_keep > 1) /* may reach below the cut */
        return exchange;
    float first = CLS_LOG2E; /* the scale of the first truncation */
    for (; cls_slot_stage(slot, i) == CLS_STAGE_TEMPERATURE; i++) {
        if (slot->flags & CLS_SLOT_DYNAMIC)
            return exchange;
        first = slot->scale;
    }
    if (cls_slot_stage(slot, i) == CLS_STAGE_TOP_P && !(slot->flags & CLS_SLOT_DECAYS)) {
        exchange.kind = CLS_EXCHANGE_MASS;
        exchange.target = slot->top_p;
    } else if (cls_slot_stage(slot, i) == CLS_STAGE_TOP_K) {
        exchange.kind = CLS_EXCHANGE_COUNT;
        exchange.target = (uint32_t)slot->top_k;
    } else if (cls_slot_stage(slot, i) == CLS_STAGE_MIN_P) {
        exchange.kind = CLS_EXCHANGE_KEY;
        exchange.min_p = slot->min_p;
    }
    if (exchange.kind != CLS_EXCHANGE_LOGITS)
        *scale = first;
    return exchange;
}

/* Plans one row: its kind, and what it sends in the first exchange. */
static void decide_row(cls_shard *h, uint32_t row, const cls_slot *slot)
{
    static const uint32_t first[] = {
        [CLS_EXCHANGE_LIST] = CLS_SENDS_LIST,
        [CLS_EXCHANGE_PLAIN] = CLS_SENDS_TILES, /* nothing else of the row is read */
        [CLS_EXCHANGE_KEY] = CLS_SENDS_LIST | CLS_MERGE_CLEARS,
        [CLS_EXCHANGE_MASS] = CLS_SENDS_TILES | CLS_MERGE_CLEARS,
        [CLS_EXCHANGE_COUNT] = CLS_SENDS_LIST | CLS_MERGE_CLEARS,
        [CLS_EXCHANGE_LOGITS] = CLS_SENDS_KEYS | CLS_MERGE_CLEARS,
    };
    const int total = (slot->flags & CLS_SLOT_TOTAL) && !(slot->flags & CLS_SLOT_GREEDY);
    const uint32_t wants = h->plan.wants;
    cls_shard_row *const r = &h->rows[row];
    cls_row_exchange *const exchange = &h->exchanges[row];
    memset(r, 0, sizeof *r);
    *exchange = decide_slot(slot, wants, &r->scale);
    r->sends = first[exchange->kind] | CLS_MERGE_BEGINS;
    if (exchange->kind == CLS_EXCHANGE_LIST && total)
        r->sends |= CLS_SENDS_TILES | CLS_MERGE_CLEARS;
    if (exchange->kind == CLS_EXCHANGE_LOGITS && total)
        r->sends |= CLS_MERGE_WEIGHS;
    if (wants != 0) /* outputs may read any token */
        r->sends |= CLS_MERGE_CLEARS;
    r->wanted = exchange->kind == CLS_EXCHANGE_LIST ? exchange->target : 1;
    r->k = r->wanted < h->widest ? r->wanted : h->widest;
    r->depth = exchange->min_p;
}

/* Plans the rows of a map on the device, which may name any request: all requests must be of the
 * kind that sends nothing but a list, and all rows send the longest. Returns 0 if one is not. */
static int decide_any_slot(cls_shard *h)
{
    const cls_slot longest = {.top_k = (int32_t)cls_needs_longest(&h->sampler->needs)};
    for (uint32_t row = 0; row < h->plan.step.rows && longest.top_k != 0; row++)
        decide_row(h, row, &longest);
    return longest.top_k != 0 && h->exchanges[0].kind == CLS_EXCHANGE_LIST;
}

enum cls_protocol cls_rows_decide(cls_shard *h)
{
    static const cls_slot skipped = {.flags = CLS_SLOT_GREEDY};
    const cls_sampler *const s = h->sampler;
    const cls_step *const step = &h->plan.step;
    if (h->gathers || cls_report_of_raw(&h->plan) || (h->plan.has & CLS_HAS_LOGITS_MAP) ||
        s->force_search)
        return CLS_PROTOCOL_LOGITS;
    if (cls_buffer_is_set(&step->slots.device))
        return decide_any_slot(h) ? CLS_PROTOCOL_ROWS : CLS_PROTOCOL_LOGITS;
    for (uint32_t row = 0; row < step->rows; row++) {
        const int32_t slot = step->slots.host != NULL ? step->slots.host[row] : (int32_t)row;
        if (slot >= 0 && s->request[slot].slot.answer != 0) /* only devices know a row's phase */
            return CLS_PROTOCOL_LOGITS;
        decide_row(h, row, slot >= 0 ? &s->request[slot].slot : &skipped);
    }
    return CLS_PROTOCOL_ROWS;
}

/* ------------------------------------------------------------------ sizes of sections */

static uint32_t section_words(const cls_shard *h, const cls_shard_row *r)
{
    uint32_t words = CLS_SECTION_WORDS;
    if (r->sends & (CLS_SENDS_LIST | CLS_SENDS_TOKENS))
        words += 2 * r->k;
    if (r->sends & CLS_SENDS_TILES)
        words += h->whole_tiles * CLS_TILE_WORDS + h->cut_tokens;
    if (r->sends & CLS_SENDS_TOKEN)
        words += 2;
    if (r->sends & CLS_SENDS_COUNTS)
        words += CLS_EDGES * CLS_EDGE_WORDS;
    if (r->sends & CLS_SENDS_KEYS)
        words += h->widest;
    return words;
}

uint64_t cls_rows_place(cls_shard *h)
{
    uint64_t words = 0;
    for (uint32_t row = 0; row < h->plan.step.rows; row++) {
        h->rows[row].offset = (uint32_t)words;
        words += h->rows[row].sends != 0 ? section_words(h, &h->rows[row]) : 0;
    }
    return words;
}

/* ---------------------------------------------------------------- the merged tiles */

/* The tiles of a row, as all shards have sent them. */
typedef struct tile_table {
    const cls_shard *h;
    const void *partials;
    const cls_shard_row *row;
} tile_table;

/* Returns where shard s sent the row's tiles. */
static const uint32_t *tiles_of(const tile_table *t, uint32_t s)
{
    return cls_partial_words(t->h, t->partials, s) + t->row->offset + CLS_SECTION_WORDS +
           (t->row->sends & CLS_SENDS_LIST ? 2 * t->row->k : 0);
}

/* Returns a token of a tile that a border cuts, which shard s has: its key. */
static int32_t cut_key(const tile_table *t, uint32_t s, uint32_t id)
{
    const cls_shard *const h = t->h;
    const uint32_t first = h->borders[s], last = h->borders[s + 1];
    const uint32_t head = shard_head_end(first, last),
                   tail = shard_tail(first, last, h->sampler->vocab);
    const uint32_t *const keys = tiles_of(t, s) + h->whole_tiles * CLS_TILE_WORDS;
    return (int32_t)(id < head ? keys[id - first] : keys[head - first + id - tail]);
}

/* Returns the largest key of a tile that borders cut. Unless `mass` is NULL, sets it to the tile's
 * mass in its unit. `s`: the shard that has the tile's first token. */
static int32_t cut_tile(const tile_table *t, uint32_t tile, uint32_t s, uint64_t *mass)
{
    const cls_shard *const h = t->h;
    const float scale = t->row->scale;
    const uint32_t begin = tile * CLS_TILE, end = begin + CLS_TILE < h->sampler->vocab
                                                      ? begin + CLS_TILE
                                                      : h->sampler->vocab;
    int32_t top = CLS_KEY_NONE;
    for (uint32_t round = 0; round < (mass != NULL ? 2u : 1u); round++) {
        const float max = float_of_key(top);
        const float fraction = top != CLS_KEY_NONE ? split(max, scale).fraction : 0.0f;
        for (uint32_t id = begin, at = s; id < end; id++) {
            while (id >= h->borders[at + 1])
                at++;
            const int32_t key = cut_key(t, at, id);
            if (round == 0)
                top = key > top ? key : top;
            else if (key != CLS_KEY_NONE)
                *mass += weight(float_of_key(key), max, scale, fraction);
        }
    }
    return top;
}

/* Goes over all tiles of the vocabulary. Returns the row's largest key if `total` is NULL;
 * otherwise sets it to the row's mass, of which `top` is the largest key. */
static int32_t scan_tiles(const tile_table *t, int32_t top, uint64_t *total)
{
    const cls_shard *const h = t->h;
    const uint32_t tiles = h->sampler->tiles;
    const float row_max = float_of_key(top), scale = t->row->scale;
    const int32_t exponent = total != NULL ? split(row_max, scale).exponent : 0;
    int32_t largest = CLS_KEY_NONE;
    for (uint32_t tile = 0, s = 0; tile < tiles; tile++) {
        uint64_t mass = 0;
        int32_t key;
        while (tile * CLS_TILE >= h->borders[s + 1])
            s++;
        const uint32_t begin = shard_first_tile(h->borders[s]);
        if (tile >= begin &&
            tile < shard_end_tile(h->borders[s], h->borders[s + 1], h->sampler->vocab)) {
            const uint32_t *const words = tiles_of(t, s) + (tile - begin) * CLS_TILE_WORDS;
            key = (int32_t)words[0];
            mass = (uint64_t)words[2] << 32 | words[1];
        } else {
            key = cut_tile(t, tile, s, total != NULL ? &mass : NULL);
        }
        if (key == CLS_KEY_NONE)
            continue;
        largest = key > largest ? key : largest;
        if (total != NULL)
            *total +=
                to_row_units(mass, unit_of(float_of_key(key), row_max, exponent, scale).shift);
    }
    return largest;
}

/* ------------------------------------------------------------------ what comes next */

/* Returns a word of a row's section in shard s's partial. */
static uint32_t section_word(const cls_shard *h, const void *partials, uint32_t s,
                             const cls_shard_row *r, uint32_t at)
{
    return cls_partial_words(h, partials, s)[r->offset + at];
}

/* Returns the largest key that a row's lists have. */
static int32_t largest_listed(const cls_shard *h, const void *partials, const cls_shard_row *r)
{
    int32_t key = CLS_KEY_NONE;
    for (uint32_t s = 0; s < h->shards; s++) {
        const int32_t top = (int32_t)section_word(h, partials, s, r, CLS_SECTION_WORDS);
        if (section_word(h, partials, s, r, CLS_SECTION_LISTED) != 0 && top > key)
            key = top;
    }
    return key;
}

/* Sends all tokens that reach a key, of which no shard has more than `most`. */
static void send_tokens(const cls_shard *h, cls_shard_row *r, int32_t key, uint32_t most)
{
    const int dense = 2 * (uint64_t)most >= h->widest;
    r->sends = (dense ? CLS_SENDS_KEYS : CLS_SENDS_TOKENS) | CLS_MERGE_CLEARS;
    r->key = key;
    r->k = most;
}

/* Sends what reaches each of 24 edges below the largest key, a bit apart. The set that top-p 0.9
 * leaves of rows as models make them ends 8 to 16 bits below; a bit more has up to twice its
 * tokens. */
static void send_counts(cls_shard_row *r, int32_t top)
{
    r->sends = CLS_SENDS_COUNTS | CLS_MERGE_CLEARS;
    r->key = top;
    r->spacing = 1.0f / r->scale;
}

/* Finds the highest edge that certainly has the whole set above it, from what all shards have
 * measured, and sends the tokens above it: all of the row's, if no edge has. */
static void send_above_edge(const cls_shard *h, const void *partials,
                            const cls_row_exchange *exchange, uint64_t target, cls_shard_row *r)
{
    for (uint32_t e = 0; e < CLS_EDGES; e++) {
        uint64_t sum = 0;
        uint32_t most = 0;
        for (uint32_t s = 0; s < h->shards; s++) {
            const uint32_t *const at = cls_partial_words(h, partials, s) + r->offset +
                                       CLS_SECTION_WORDS + e * CLS_EDGE_WORDS;
            sum += exchange->kind == CLS_EXCHANGE_COUNT ? at[0] : ((uint64_t)at[2] << 32 | at[1]);
            most = at[0] > most ? at[0] : most;
        }
        if (sum >= target && most != 0) {
            send_tokens(h, r, shard_edge_key(r->key, r->spacing, e), most);
            return;
        }
    }
    send_tokens(h, r, CLS_KEY_NONE + 1, h->widest);
}

/* Decides what a row sends next. */
static void next_of_row(cls_shard *h, const void *partials, cls_row_exchange *exchange,
                        cls_shard_row *r)
{
    const tile_table table = {h, partials, r};
    const uint32_t sent = r->sends;
    int32_t top = CLS_KEY_NONE;
    r->sends = 0;
    if (exchange->kind == CLS_EXCHANGE_LIST || exchange->kind == CLS_EXCHANGE_LOGITS ||
        (sent & (CLS_SENDS_TOKEN | CLS_SENDS_TOKENS | CLS_SENDS_KEYS)))
        return;
    if (sent & CLS_SENDS_COUNTS) {
        send_above_edge(h, partials, exchange, exchange->goal, r);
        return;
    }
    r->sends = sent;
    top = sent & CLS_SENDS_TILES ? scan_tiles(&table, CLS_KEY_NONE, NULL)
                                 : largest_listed(h, partials, r);
    if (top == CLS_KEY_NONE) { /* the row has no token */
        r->sends = 0;
    } else if (exchange->kind == CLS_EXCHANGE_PLAIN) {
        r->sends = CLS_SENDS_TOKEN | (sent & CLS_MERGE_CLEARS);
    } else if (exchange->kind == CLS_EXCHANGE_KEY) {
        uint32_t most = 1;
        for (uint32_t s = 0; s < h->shards; s++) {
            const uint32_t reach = section_word(h, partials, s, r, CLS_SECTION_REACH);
            most = reach > most ? reach : most;
        }
        r->depth = -1.0f;
        send_tokens(h, r, depth_key(float_of_key(top), r->scale, exchange->min_p), most);
    } else {
        uint64_t total = 0;
        exchange->goal = exchange->target;
        if (exchange->kind == CLS_EXCHANGE_MASS) {
            scan_tiles(&table, top, &total);
            exchange->goal = top_p_target(total, exchange->target);
            exchange->goal += exchange->goal == 0;
        }
        send_counts(r, top);
    }
}

int cls_rows_next(cls_shard *h, const void *partials)
{
    int more = 0;
    for (uint32_t row = 0; row < h->plan.step.rows; row++) {
        cls_shard_row *const r = &h->next[row];
        *r = h->rows[row];
        if (r->sends != 0)
            next_of_row(h, partials, &h->exchanges[row], r);
        more |= r->sends != 0;
    }
    return more;
}
