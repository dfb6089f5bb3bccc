/* SPDX-License-Identifier: MIT */
/* The types that the host and the kernels share: integers and floats of fixed width, and the
 * structs that lie in device buffers. C and OpenCL C both compile this file. */
#ifndef CLS_TYPES_H
#define CLS_TYPES_H

#include "core/buffers.h"

#ifdef __OPENCL_C_VERSION__
#pragma OPENCL FP_CONTRACT OFF
typedef uint u32;
typedef ushort u16;
typedef int i32;
typedef ulong u64;
typedef float f32;
#define CLS_INLINE static inline
#define CLS_AS_I32(x) as_int(x)
#define CLS_AS_F32(x) as_float(x)
#else
#include <stdint.h>
#include <string.h>
typedef uint32_t u32;
typedef uint16_t u16;
typedef int32_t i32;
typedef uint64_t u64;
typedef float f32;
#define CLS_INLINE static inline
CLS_INLINE i32 CLS_AS_I32(f32 x)
{
    i32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
CLS_INLINE f32 CLS_AS_F32(i32 bits)
{
    f32 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#endif

/* Tokens of a mass tile. This number is part of the arithmetic: another one would give other
 * tokens. */
#define CLS_TILE 1024
/* Tokens of a max tile, the unit in which the shortlist is found. It affects speed only: with 64
 * the survey costs 1.1 reads of the row, with 256 it would cost 1.03; but a list of k tokens reads
 * k max tiles. */
#define CLS_MAX_TILE 64
#define CLS_MAX_TILES_PER_TILE (CLS_TILE / CLS_MAX_TILE)
#define CLS_MAX_VOCAB 1048576
#define CLS_PIVOTS 4

/* The stages of a chain, as bytes of cls_slot.chain: the values of cls_stage in clsample.h, and two
 * more for Mirostat. */
#ifdef __OPENCL_C_VERSION__
enum {
    CLS_STAGE_END = 0,
    CLS_STAGE_TEMPERATURE = 1,
    CLS_STAGE_TOP_K = 2,
    CLS_STAGE_TOP_P = 3,
    CLS_STAGE_MIN_P = 4,
    CLS_STAGE_TOP_N_SIGMA = 5,
    CLS_STAGE_TYPICAL_P = 6,
    CLS_STAGE_XTC = 7,
    CLS_STAGE_P_LESS = 8,
    CLS_STAGE_INFILL = 9,
    CLS_STAGE_TOP_A = 10,
};
#endif
enum {
    CLS_STAGE_MIROSTAT_1 = 11,
    CLS_STAGE_MIROSTAT_2 = 12,
    CLS_STAGES = 13,
    CLS_MAX_STAGES = 16,
};
/* A larger top-k of a request with CLS_SLOT_SEARCH goes to the search where groups of rows have one
 * item, although the list could hold its tokens: 16 rows with top-k 1,000 take .48 ms, not 1.12. */
#define CLS_LISTED_TOP_K 700
#define CLS_MIROSTAT_RANKS 100 /* tokens from which Mirostat 1 estimates the slope */

/* What a slot's parameters require of the kernels: the bits of cls_slot.flags. */
enum {
    CLS_SLOT_BEGUN = 1,
    CLS_SLOT_GREEDY = 2,
    CLS_SLOT_UNTRUNCATED = 4, /* no truncation is on */
    CLS_SLOT_TOTAL = 8,       /* the row's mass before any truncation is needed, at `total_scale` */
    CLS_SLOT_SEARCH = 16,     /* the set may not fit the shortlist */
};

enum {
    CLS_SLOT_PENALIZED = 32,  /* penalties or biases change the logits of adjusted tokens */
    CLS_SLOT_RAISES = 64,     /* beside CLS_SLOT_PENALIZED: these may raise a logit */
    CLS_SLOT_SCOPE_ALL = 128, /* prompt tokens count for frequency and presence, too */
    CLS_SLOT_DYNAMIC = 256,   /* the temperature follows the entropy */
    CLS_SLOT_ADAPTIVE = 512,  /* adaptive p replaces the draw */
    CLS_SLOT_DECAYS = 1024,   /* top-p decreases with every token */
    CLS_SLOT_HISTORY = 2048,  /* DRY, n-grams, bad words or min_tokens are on */
    CLS_SLOT_ALLOWED = 4096,  /* only the tokens in the bitmap at `allowed` may be drawn */
};
#define CLS_SLOT_STATEFUL (CLS_SLOT_MIROSTAT | CLS_SLOT_ADAPTIVE)
enum {
    CLS_SLOT_MIROSTAT = 8192,
    CLS_SLOT_BIAS_ROW = 16384,      /* there is a bias value for every token of the vocabulary */
    CLS_SLOT_THINKING = 32768,      /* the thinking is followed */
    CLS_SLOT_LOOPS = 65536,         /* loops of the output end the request */
    CLS_SLOT_NGRAM_OUTPUT = 262144, /* n-grams of the output only are banned */
    CLS_SLOT_RELAXED = 524288,      /* while the request thinks, likely drafts are accepted */
    CLS_SLOT_GRAMMAR = 1048576,     /* it follows the grammar at `grammar` */
    CLS_SLOT_LOOPS_THINK = 2097152, /* loops of the thinking end that, and no request */
};
/* The host's copy of a slot only: ids were forced. The device knows whether any are left. */
#define CLS_SLOT_FORCED 131072u
/* A request gets CLS_SLOT_BIAS_ROW if it has more than one bias per this many tokens of the
 * vocabulary. */
#define CLS_BIAS_ROW_PART 128u

/* No history is as long: a longer sequence of tokens is as if it had this length. */
#define CLS_LONGER 0xffffu

#define CLS_MAX_MU (1 << 29) /* Mirostat's mu is at most this far from 0 */

/* The adaptive state: what a request's samplers remember from token to token. */
typedef struct cls_slot_adaptive {
    i32 mu;          /* Mirostat's, in bits * 2^20 */
    u32 sum, weight; /* the averages of adaptive p, * 2^24 */
    u32 top_p;       /* top-p after decay, * 2^32 */
} cls_slot_adaptive;

/* A request, resident on the device. The fields from `flags` to `grammar_begin` are written by the
 * host, also when parameters change; the device updates the others. The first 128 bytes have what
 * every row needs: GPUs read memory by lines of that size, at which each slot begins. */
typedef struct cls_slot {
    u32 position;
    u32 outputs; /* output tokens so far */
    u32 length;  /* tokens that entered the history, less those rolled back */
    u32 longest; /* the largest `length` ever: entries older than `longest` less the ring's size are
                    lost */
    u32 stopped;
    u32 thinking; /* the thinking budget: 0 outside the thinking, else 1 plus the number of tokens
                     that count; see thinking_after() in cl/row/text.cl */
    u32 grammar_state;    /* before the next token */
    u32 forced, n_forced; /* ids that cls_slot_force() set, at this offset of the whole buffer of
                             lists: */
    u32 forced_from;      /* the output tokens from this number on are these ids */
    cls_slot_adaptive adaptive; /* before the next token */
    i32 pending; /* the token that a deferred step drew and that `next_adaptive` is for; -1: none */
    u32 flags;
    u32 chain[CLS_MAX_STAGES / 4]; /* the stages that are on, in order, a byte each, then
                                      CLS_STAGE_END */
    f32 scale;                     /* log2(e) / temperature: the scale of the final weights */
    f32 total_scale;               /* the scale at which the mass of the whole row is taken */
    i32 top_k;
    u32 top_p; /* p * 2^32 */
    f32 min_p; /* -log2(min_p): the greatest depth that is kept */
    u32 min_keep;
    u32 seed[2];
    u32 stream[2];
    f32 repetition, reciprocal; /* r and 1 / r */
    f32 frequency, presence;
    u32 window;     /* how many of the latest tokens count; 0: all */
    u32 max_tokens; /* 0: no limit */
    u32 lists; /* where its lists begin: the offsets of and in the lists are relative to that */
    u32 bias, n_bias; /* in the lists, if n is not 0: a bitmap of the biased ids, then their values
                         (see bias_row_offset()) */
    u32 allowed;      /* in the lists: a bitmap */
    u32 stop, n_stop; /* in the lists: n ids, ascending; then, with a grammar and min_tokens, a bit
                         for each state that leaves only ids that end the text */
    f32 low, span;    /* dynamic temperature: from low to low + span, */
    u32 exponent;     /* by this power of the entropy, times 2^16 */
    f32 sigma;        /* n of top-n-sigma */
    u32 typical_p;    /* p * 2^32 */
    u32 xtc;          /* the probability * 2^31 */
    u32 xtc_depth;    /* -log2(threshold) * 2^20 */
    u32 top_a;        /* -log2(a) * 2^20 */
    u32 decay, top_p_min;              /* top-p decay, both * 2^32 */
    i32 reset_id;                      /* the token that restores top-p; -1: none */
    u32 tau, eta;                      /* Mirostat: * 2^20, * 2^24 */
    u32 target, adaptive_decay;        /* adaptive p: * 2^30, * 2^32 */
    u32 dry, n_dry;                    /* in the lists: multiplier * base^e for e from 0 to n - 1 */
    u32 dry_first_ids, dry_single_ids; /* in the lists, behind `dry`: two bitmaps of the vocabulary:
                                          the first ids of sequence breakers, and the breakers of
                                          one token. The offsets are equal if all breakers have one
                                          token, and 0 if there are none. */
    u32 breakers, n_breakers;   /* in the lists: n offsets of breakers of several tokens, sorted by
                                   first id; at each offset the number of ids, then the ids */
    u32 banned, n_banned;       /* in the lists: bad words of one id, ascending */
    u32 bad_words, n_bad_words; /* in the lists: n offsets of bad words of several ids, stored as
                                   the breakers are, sorted by the last id but one */
    u32 ngram_exempt, n_ngram_exempt; /* in the lists: n ids, ascending, which n-grams do not ban */
    u32 min_tokens;
    u32 thinking_start, n_start; /* of the thinking budget, in the lists: the ids that begin the
                                    thinking (n = 0: it begins with the request), */
    u32 thinking_end, n_end;     /* those that end it, which follow two words with
                                    CLS_SLOT_RELAXED: relaxed_top_k and the float relaxed_delta */
    u32 thinking_forced,
        n_thinking_forced; /* and those that are emitted after `thinking_budget` tokens of it */
    u32 thinking_budget;
    u32 loop_repeats;
    u16 loop_min, loop_max; /* a loop repeats loop_min to loop_max tokens */
    u16 dry_allowed, dry_window;
    u16 ngram, ngram_window;
    u32 watermark, watermark_key[2]; /* the ids of a context; 0: the text is not marked */
    u32 grammar;       /* the offset of its words (core/grammar.h) in the whole buffer of lists */
    u32 grammar_begin; /* the state of a grammar in which a turn begins */
    cls_slot_adaptive next_adaptive; /* the adaptive state once `pending` is accepted */
    u32 answer; /* in the lists: a cls_slot with the parameters of rows outside the thinking, of
                   which chain and penalties count (row_rules()); 0: there is none */
    u32 reserved[5];
} cls_slot;
typedef char cls_slot_size[sizeof(cls_slot) % 128 == 0 ? 1 : -1];

/* ------------------------------------------------------- a slot's resident state
 *
 * Beside its cls_slot a slot has a region of the buffer `state`, in words of 32 bits: bitmaps of
 * the vocabulary (adjusted tokens, and those that are in context for the repetition penalty
 * alone), counts, a ring buffer of the latest tokens, and the adaptive state and the states of the
 * thinking budget and of the grammar before each token that can be rolled back. `layout` says which
 * of these parts exist: a cls_counts, the history (1 to 16,384, or a multiple of 64 up to
 * 1,048,576) and the rollback (0 to 16,384). */
#ifdef __OPENCL_C_VERSION__
enum {
    CLS_COUNTS_NONE = 0,     /* nothing for penalties */
    CLS_COUNTS_PRESENCE = 1, /* whether a token counts, one bit */
    CLS_COUNTS_ALL = 2,      /* how often it counts, 16 bits */
};
#endif
#define CLS_LAYOUT(counts, history, rollback) \
    ((u32)(counts) | (u32)((history) > CLS_MAX_HISTORY) << 2 | \
     (u32)((history) > CLS_MAX_HISTORY ? (history) / CLS_HISTORY_UNIT - 1 : (history)-1) << 3 | \
     (u32)(rollback) << 17)
#define CLS_LAYOUT_COUNTS(layout) ((layout)&3u)
#define CLS_LAYOUT_IS_LONG(layout) ((layout) >> 2 & 1u)
#define CLS_LAYOUT_HISTORY(layout) \
    ((((layout) >> 3 & 0x3fffu) + 1) << 6 * CLS_LAYOUT_IS_LONG(layout))
#define CLS_LAYOUT_ROLLBACK(layout) ((layout) >> 17)
#define CLS_LAYOUT_RING(layout) (CLS_LAYOUT_HISTORY(layout) + CLS_LAYOUT_ROLLBACK(layout))
enum {
    CLS_MAX_HISTORY = 16384, /* tokens that parameters can be about; DRY and n-grams see no more */
    CLS_HISTORY_UNIT = 64,   /* of longer histories, which cls_draft() searches */
    CLS_MAX_TEXT = CLS_MAX_HISTORY * CLS_HISTORY_UNIT,
    CLS_ADAPTIVE_WORDS = 4, /* of a cls_slot_adaptive */
    CLS_MAX_COUNT = 65535,
};

/* Returns the number of words of a bitmap. It has a bit for each token of whole tiles, so that a
 * kernel can always read a whole tile of it. */
CLS_INLINE u32 state_bitmap(u32 vocab)
{
    return (vocab + CLS_TILE - 1) / CLS_TILE * (CLS_TILE / 32);
}
/* These functions return the offset of each part, and the size of the region. */
CLS_INLINE u32 state_adjusted(void) { return 0; }
CLS_INLINE u32 state_in_context(u32 vocab, u32 layout)
{
    return CLS_LAYOUT_COUNTS(layout) != CLS_COUNTS_NONE ? state_bitmap(vocab) : 0u;
}
CLS_INLINE u32 state_counts(u32 vocab, u32 layout) { return state_in_context(vocab, layout) * 2; }
CLS_INLINE u32 state_ring(u32 vocab, u32 layout)
{
    /* A count takes 16 bits a token, or 1, or none. This is not written with ?:, which Oclgrind
     * gets wrong. */
    const u32 counts = CLS_LAYOUT_COUNTS(layout);
    return state_counts(vocab, layout) + state_bitmap(vocab) * ((counts >> 1) * 16 + (counts & 1u));
}
CLS_INLINE u32 state_adaptive(u32 vocab, u32 layout)
{
    return state_ring(vocab, layout) + (CLS_LAYOUT_RING(layout) + 15) / 16 * 16;
}
CLS_INLINE u32 state_thinking(u32 vocab, u32 layout)
{
    return state_adaptive(vocab, layout) +
           (CLS_LAYOUT_ROLLBACK(layout) * CLS_ADAPTIVE_WORDS + 15) / 16 * 16;
}
CLS_INLINE u32 state_grammar(u32 vocab, u32 layout)
{
    return state_thinking(vocab, layout) + (CLS_LAYOUT_ROLLBACK(layout) + 15) / 16 * 16;
}
CLS_INLINE u32 state_words(u32 vocab, u32 layout)
{
    return state_grammar(vocab, layout) + (CLS_LAYOUT_ROLLBACK(layout) + 15) / 16 * 16;
}

/* Where the bitmaps of rows with a grammar are: the lists have for each row, from
 * args->grammar_rows on, a word and room for a bitmap. The word is the offset of the row's bitmap
 * of allowed ids, which is that of the grammar's state, the request's, or the row's own; or
 * CLS_NO_BITMAP. */
#define CLS_NO_BITMAP 0xffffffffu
CLS_INLINE u32 grammar_row_words(u32 vocab) { return 1 + state_bitmap(vocab); }

/* Logit biases lie in the lists. First comes a bitmap of the biased tokens. With CLS_SLOT_BIAS_ROW
 * a value for every token of whole tiles follows. Otherwise, for each word of the bitmap, the
 * number of biased tokens in the words before it follows, and then the values of the biased tokens
 * alone. Offsets are relative to the bitmap. */
CLS_INLINE u32 bias_row_offset(u32 vocab, u32 id) { return state_bitmap(vocab) + id; }
CLS_INLINE u32 bias_before_offset(u32 vocab, u32 word) { return state_bitmap(vocab) + word; }
CLS_INLINE u32 bias_list_offset(u32 vocab, u32 index) { return 2 * state_bitmap(vocab) + index; }

/* An entry of the ring: a token's id, and what it was. */
#define CLS_ENTRY_ID 0x000fffffu
#define CLS_ENTRY_OUTPUT 0x80000000u
#define CLS_ENTRY_FIRST 0x40000000u /* no equal token counted before it */

/* ------------------------------------------------------------ a row's history effects
 *
 * A row whose slot has CLS_SLOT_HISTORY has a region of the buffer `effects`, in words: a bitmap of
 * the tokens that the history changes (marks), and a bitmap of those that it bans, which is valid
 * only in words that have a mark. With a history of more than one token there are also: for each
 * word of these bitmaps the start of its chain of entries (valid likewise); the text, which is the
 * ids of the latest tokens, oldest first, behind 16 words that a vector load may read and ignore;
 * and twice the text's length for the entries and for scratch. */
CLS_INLINE u32 effects_banned(u32 vocab) { return state_bitmap(vocab); }
CLS_INLINE u32 effects_chains(u32 vocab, u32 layout) /* without a text the offset of the bans, which
                                                        is never followed: there is no entry */
{
    return state_bitmap(vocab) * (1 + (u32)(CLS_LAYOUT_HISTORY(layout) > 1));
}
CLS_INLINE u32 effects_text(u32 vocab, u32 layout)
{
    return effects_chains(vocab, layout) + state_bitmap(vocab) + 16;
}
CLS_INLINE u32 effects_tokens(u32 layout) /* that DRY, n-grams and bad words see */
{
    if (CLS_LAYOUT_IS_LONG(layout))
        return CLS_MAX_HISTORY;
    return CLS_LAYOUT_HISTORY(layout);
}
CLS_INLINE u32 effects_length(u32 layout) { return (effects_tokens(layout) + 63) / 64 * 64; }
/* Behind these, where rows follow drafts: whether the marks are for this row, the number of its
 * drafts, the number of its patches; the drafts as entries; the patches, which are tokens whose
 * counts the drafts change, with their new counts; and the starts of the chains of patches. */
#define CLS_MAX_DRAFTS 128
#define CLS_PATCH_IN_CONTEXT 0x80000000u
#define CLS_PATCH_BUCKETS 256 /* chains of patches, by id */
CLS_INLINE u32 effects_drafts(u32 vocab, u32 layout)
{
    return effects_text(vocab, layout) + effects_length(layout) * 3;
}
CLS_INLINE u32 effects_words(u32 vocab, u32 layout)
{
    return effects_drafts(vocab, layout) + 16 + CLS_MAX_DRAFTS + 2 * 2 * CLS_MAX_DRAFTS +
           CLS_PATCH_BUCKETS;
}

/* What a slot call changes on the device: cls_change.kind. */
enum {
    CLS_CHANGE_BEGIN = 1,    /* parameters, lists, tokens */
    CLS_CHANGE_APPEND = 2,   /* tokens */
    CLS_CHANGE_PARAMS = 3,   /* parameters, lists */
    CLS_CHANGE_COPY = 4,     /* the state of another slot */
    CLS_CHANGE_LOAD = 5,     /* a saved state, which lies in the words */
    CLS_CHANGE_ROLLBACK = 6, /* rolls `tokens` tokens back */
    CLS_CHANGE_RESET = 7,
    CLS_CHANGE_TURN = 8,  /* the history becomes prompt; then tokens are appended */
    CLS_CHANGE_FORCE = 9, /* the next `tokens` tokens are those at params.lists */
};

/* A change of a slot that waits for the device: one slot call, or several that follow each other
 * and have the same effect as one. Changes of one slot have ascending rounds. Changes of one round
 * run side by side: none uses what another one writes. */
typedef struct cls_change {
    u32 kind, round;
    u32 slot, from; /* from: the slot that is copied */
    u32 words;      /* the offset of its words: tokens (entries of the ring), or a whole state */
    u32 tokens;
    u32 lists, n_lists; /* words that are copied to the lists, at params.lists */
    cls_slot params;
} cls_change;

/* The record of a row: what the kernels pass to each other, and at the end the result. `cut` is the
 * last kept token in the order (key descending, id ascending): the lower cut keeps a token if its
 * key is above cut_key, or equal to it and its id at most cut_id. */
typedef struct cls_row {
    u64 mass;    /* of the final set, in row units */
    u64 total;   /* of the whole row, where the chain needs it */
    u64 target;  /* the mass that top-p must reach */
    u64 drawn;   /* the integer in [0, mass), or in [0, adapted), that chose the token */
    u64 adapted; /* the sum of the weights that adaptive p gives to the set */
    u64 target_prob,
        draft_prob; /* units of 2^-63: the probability, in this row's distribution and in the
                       draft's own, of the draft that follows the row. draft_mass and draft_key:
                       mass and largest key of the draft's own row, where that is logits */
    u64 draft_mass;
    i32 token;
    u32 status; /* bits of cls_row_status */
    u32 state;  /* CLS_RECORD_DONE or CLS_RECORD_SEARCH_* */
    i32 max_key;
    i32 cut_key;
    i32 cut_id;
    f32 scale;    /* of the final weights */
    u32 no_token; /* no token was drawn from the row */
    i32 top_key;  /* the largest key that is kept: weights and depths are relative to it */
    i32 upper_key, upper_first, upper_last; /* the upper cut, of XTC, typical p and the like: it
                                               removes keys above upper_key, and of those equal to
                                               it the ids outside [upper_first, upper_last] */
    u32 kept;   /* the number of kept tokens, if `listed` or if they were counted; else 0 */
    u32 listed; /* the kept ids lie in the row's part of `row_scratch`: `kept` of them, ascending */
    u32 aim, min_depth; /* of adaptive p: the probability that it aims at, * 2^30, and the least
                           depth that it gives to a token of the set */
    i32 draft_key;
    u32 forced;  /* the token was not drawn from the row: it is one that the request forces or, of a
                    verification, one that takes the place of the row's own */
    u32 place;   /* of a row of a verification: where its outputs go among those of all requests */
    u32 relaxed; /* of a row of a verification: relaxed acceptance accepts the draft after it */
    cls_slot_adaptive next; /* with CLS_ACCEPTS_LATER: the adaptive state once the token is
                               accepted, of a request that has one */
    i32 pivot[CLS_PIVOTS];  /* keys, ascending; the pass measures what lies above each */
} cls_row;

enum {
    CLS_RECORD_DONE = 0,         /* the token is drawn, or the row has none */
    CLS_RECORD_SEARCH_MASS = 1,  /* the pass measures the masses above the pivots */
    CLS_RECORD_SEARCH_COUNT = 2, /* the pass counts the tokens above the pivots */
    CLS_RECORD_SEARCH_ALL = 3,   /* the search needs more than sums above keys: no pass */
};

/* What a step has: the bits of cls_args.has. */
enum {
    CLS_HAS_MASK = 1,
    CLS_HAS_SLOT_MAP = 2,
    CLS_HAS_MASK_MAP = 4,
    CLS_HAS_POSITIONS = 8,
    CLS_HAS_RANDOM = 16,
    CLS_HAS_TOKENS = 32,
    CLS_HAS_STATUS = 64,
};
/* The kernel changes nothing in the slots but the pending token. With CLS_ACCEPTS_LATER not even
 * that: a later kernel of the step accepts the token, or keeps it as the pending one. */
enum {
    CLS_DEFER = 128,
    CLS_ACCEPTS_LATER = 1024,
    CLS_RAW = 256,          /* survey the raw logits at scale log2(e), with their mass */
    CLS_FORCE_SEARCH = 512, /* for tests: no truncated row may use the shortlist */
    CLS_MASK_BYTES = 2048,  /* the mask has a byte for each token, not a bit */
    CLS_HAS_BIAS = 4096,    /* there is a dense bias, in float32, */
    CLS_BIAS_F16 = 8192,    /* or, with this bit, in float16 */
    CLS_HAS_BIAS_MAP = 16384,
    CLS_HAS_DRAWS = 32768,
    CLS_HAS_LATEST = 65536,
};
/* In row_logits.masked beside CLS_HAS_MASK: only the tokens of the slot's bitmap may be drawn. */
enum {
    CLS_MASK_LIST = 131072,
    CLS_DRAFTS = 0x40000,          /* rows follow drafts */
    CLS_POSITIONS_ADD = 0x80000,   /* a row's position is its slot's plus the one given */
    CLS_HAS_LOGITS_MAP = 0x200000, /* rows may share rows of logits */
    CLS_HAS_COUNTS = 0x2000000,    /* of cls_accept() */
    CLS_HAS_ROLLBACK = 0x4000000,
    CLS_MERGED = 0x800000, /* the logits are adjusted: shards merged them */
};
/* Beside CLS_HAS_BIAS: it is in bfloat16; it is multiplied by bias_factor. Bits of `has`, since
 * kernels keep that anyway. */
enum {
    CLS_BIAS_BF16 = 0x1000000,
    CLS_BIAS_SCALED = 0x8000000,
};
#define CLS_BIAS_KINDS (CLS_HAS_BIAS | CLS_BIAS_F16 | CLS_BIAS_BF16 | CLS_BIAS_SCALED)
#define CLS_DRAWN \
    0x400000u                      /* the first word of an untruncated row's sample is its token, \
                                      or -1: a shard drew it */
#define CLS_HAS_SEARCH 0x10000000u /* the pass and the search follow */
#define CLS_WIDE 0x80000000u       /* rows of logits start at multiples of 16 bytes */
#define CLS_NO_SLOTS 0x40000000u   /* the rows belong to no request: log-probabilities of prompts */

/* The outputs of a row beside its token, as core/buffers.h lists them. A step's `wants` has a bit
 * for each. */
#define CLS_OUTPUT_NUMBER(X, NUMBER, type, name, field, access, width, count, feature) \
    CLS_OUT_##NUMBER,
/* CLS_OUT_SET_OFFSETS: of sets that lie one behind the other. */
enum cls_output { CLS_OUTPUTS_TABLE(CLS_OUTPUT_NUMBER, 0) CLS_OUT_SET_OFFSETS, CLS_OUTPUTS };
#define CLS_WANTS(output) (1u << (output))
#define CLS_WANTS_OUTPUTS (CLS_WANTS(CLS_OUTPUTS) - 1)
/* The outputs before CLS_OUT_ENTROPY are of the raw row or of the final distribution, the others
 * only of the latter. */
#define CLS_WANTS_OF_EITHER (CLS_WANTS(CLS_OUT_ENTROPY) - 1)
#define CLS_WANTS_SUMS (CLS_WANTS(CLS_OUT_ENTROPY) | CLS_WANTS(CLS_OUT_KEPT_MASS))
#define CLS_WANTS_TILES \
    (CLS_WANTS_SUMS | CLS_WANTS(CLS_OUT_PROBS) | CLS_WANTS(CLS_OUT_FINAL_LOGITS))
#define CLS_WANTS_SET \
    (CLS_WANTS(CLS_OUT_SET_IDS) | CLS_WANTS(CLS_OUT_SET_COUNTS) | CLS_WANTS(CLS_OUT_SET_OFFSETS))
/* The launches of cls_kept. */
enum {
    CLS_KEPT_WRITE = 0,
    CLS_KEPT_COUNT = 1,
    CLS_KEPT_PLACE = 2,
};

/* The outputs of a verification, whose bits are in the same word. */
enum cls_verified {
    CLS_VERIFIED_TOKENS = CLS_OUTPUTS,
    CLS_VERIFIED_ACCEPTED,
    CLS_VERIFIED_EMITTED,
    CLS_VERIFIED_DRAFTED,
    CLS_VERIFIED_NODES,
    CLS_VERIFIED_STATUS,
    CLS_VERIFIED_COUNTERS,
    CLS_VERIFIED_LATEST,
    CLS_VERIFIED_TOKEN_STATUS,
    CLS_VERIFIED
};

/* ------------------------------------------------------------ kernels' arguments
 *
 * All arguments that are not buffers are one struct, which kernels get by value. A device may
 * refuse more than 256 bytes of arguments (OpenCL 1.2's embedded profile), which is 32 buffers;
 * there the struct lies in a buffer, and the host writes the blocks of it that have changed. */
#define CLS_BY_VALUE_SIZE 1024 /* bytes: what all kernels' arguments fit that have the struct */
typedef struct cls_wide {      /* 64 bits, for devices without such integers */
    u32 lo, hi;
} cls_wide;

#define CLS_ARGS_BLOCK 128 /* bytes: the largest pattern of clEnqueueFillBuffer() */
#define CLS_ARGS_BLOCKS 5
typedef struct cls_args {
    /* The shape of the sampler and of the rows, and their inputs. Offsets and strides are in
     * elements. */
    u32 vocab, n_slots, layout, scratch_stride;
    u32 tiles_per_group;
    u32 has;
    i32 invalid_token;
    u32 n_end; /* of infill */
    u32 mask_width, mask_rows, bias_rows;
    f32 bias_factor;
    cls_wide logits_offset, row_stride;
    cls_wide mask_offset, mask_stride, bias_offset, bias_stride;
    cls_wide slot_map_offset, mask_map_offset, bias_map_offset;
    cls_wide random_offset;
    /* Further inputs of the draw, and where its results go. */
    cls_wide positions_offset, draws_offset;
    cls_wide tokens_offset, status_out_offset, latest_offset;
    cls_wide draft_ids_offset, draft_offset, draft_stride;
    u32 draft_kind;
    u32 nodes, parents,
        firsts; /* offsets in the rows' maps: see cls_map in lib/sampler/sampler.h */
    u32 method, n_rows, bonus, max_drafts;
    i32 epsilon, delta;
    u32 logits_rows; /* rows of logits in the buffer, where a map names them */
    u32 per_row;     /* tokens of a row of cls_accept() */
    /* The outputs: bits of CLS_WANTS(), for a cls_output or a cls_verified, and the offset of
     * each. */
    cls_wide output_offset[CLS_VERIFIED];
    u32 wants, top_n, given_n, candidates_n;
    u32 given_each;   /* ids that a group of the report handles */
    u32 set_capacity; /* ids of a row's kept set; with offsets those of all rows */
    cls_wide logits_map_offset;
    /* Of a shard: its tokens, first to last - 1, and the bytes of a partial as words. */
    u32 first, last, shards, partial_words, whole_tiles;
    u32 requests;             /* of cls_verify() and cls_draft() */
    u32 min_n, max_n, drafts; /* of cls_draft(); its draft_ids are at tokens_offset */
    cls_wide ids_stride;
    cls_wide ids_apart, draft_apart; /* from request to request; 0: drafts follow each other */
    cls_wide counts_offset, rollback_offset; /* of cls_accept() */
    u32 grammar_rows;                        /* see grammar_row_words() */
    u32 reserved_3[18];
} cls_args;
/* C and OpenCL C must agree on the size. */
typedef char cls_args_size[sizeof(cls_args) == CLS_ARGS_BLOCK * CLS_ARGS_BLOCKS ? 1 : -1];

/* The sample of a row, from which a cut is first estimated: all of a small row, 16 tokens of
 * every 512 of a large one. */
enum {
    CLS_SAMPLE_ALL = 4096,
    CLS_SAMPLE_RUN = 16,
    CLS_SAMPLE_BLOCK = 512,
};
CLS_INLINE u32 sample_size(u32 vocab)
{
    return vocab <= CLS_SAMPLE_ALL ? (vocab + CLS_SAMPLE_RUN - 1) / CLS_SAMPLE_RUN * CLS_SAMPLE_RUN
                                   : vocab / CLS_SAMPLE_BLOCK * CLS_SAMPLE_RUN;
}

/* The bits of cls_row_status that kernels set: those of clsample.h. */
#ifdef __OPENCL_C_VERSION__
enum {
    CLS_ROW_NAN = 1,
    CLS_ROW_INF = 2,
    CLS_ROW_EMPTY = 4,
    CLS_ROW_SKIPPED = 8,
    CLS_ROW_NO_SLOT = 16,
    CLS_ROW_STOPPED = 32,
    CLS_ROW_LENGTH = 64,
    CLS_ROW_UNFIT = 128,
    CLS_ROW_LOOP = 256,
    CLS_ROW_FORCED = 512,
    CLS_ROW_OVERFLOW = 1024,
};
#endif
/* Two more bits of a tile's flags: the slot may adjust a token of the tile; the mask forbids
 * one. */
#define CLS_TILE_ADJUSTED 65536u
#define CLS_TILE_MASKED 131072u

/* For cls_groups_test: the words that a work-item writes, and the number it begins with. */
#define CLS_GROUP_WORDS 16
CLS_INLINE u32 group_test_input(u32 lid) { return (lid + 1) * 0x9e3779b1u; }

#endif
