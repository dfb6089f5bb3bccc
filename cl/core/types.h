/* SPDX-License-Identifier: MIT */
/* The types that the host and the kernels share: fixed widths, and the structs
 * that lie in device buffers. Compiled by C and by OpenCL C. */
#ifndef CLS_TYPES_H
#define CLS_TYPES_H

#ifdef __OPENCL_C_VERSION__
#pragma OPENCL FP_CONTRACT OFF
typedef uint u32;
typedef int i32;
#if defined(CLS_STRICT) || (defined(TIER) && TIER == 0)
#define CLS_HALVES
#endif
#ifdef CLS_STRICT /* for tests/package/kernel-syntax.sh: no operator takes it */
typedef struct u64 {
    uint x, y;
} u64;
#elif defined(CLS_HALVES)
typedef uint2 u64;
#else
typedef ulong u64;
#endif
typedef float f32;
#define CLS_INLINE static inline
#define CLS_AS_I32(x) as_int(x)
#define CLS_AS_F32(x) as_float(x)
#else
#include <stdint.h>
#include <string.h>
typedef uint32_t u32;
typedef int32_t i32;
#ifdef CLS_HALVES /* for tests: the halves that kernels have in tier 0 */
typedef struct u64 {
    u32 x, y;
} u64;
#else
typedef uint64_t u64;
#endif
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

/* Tokens of a mass tile. Part of the arithmetic: another number, other tokens. */
#define CLS_TILE 1024
/* Tokens of a max tile, the shortlist's grain. A matter of speed only: 64 costs
 * the survey 1.1 reads where 256 costs 1.03, but a list of k needs k of them. */
#define CLS_MAX_TILE 64
#define CLS_MAX_TILES_PER_TILE (CLS_TILE / CLS_MAX_TILE)
#define CLS_MAX_VOCAB 1048576
#define CLS_PIVOTS 4

/* The stages of a chain, in the bytes of cls_slot.chain: cls_stage of clsample.h,
 * and what a mode puts there. */
#ifdef __OPENCL_C_VERSION__
#define CLS_STAGE_END 0
#define CLS_STAGE_TEMPERATURE 1
#define CLS_STAGE_TOP_K 2
#define CLS_STAGE_TOP_P 3
#define CLS_STAGE_MIN_P 4
#define CLS_STAGE_TOP_N_SIGMA 5
#define CLS_STAGE_TYPICAL_P 6
#define CLS_STAGE_XTC 7
#define CLS_STAGE_P_LESS 8
#define CLS_STAGE_INFILL 9
#define CLS_STAGE_TOP_A 10
#endif
#define CLS_STAGE_MIROSTAT_1 11
#define CLS_STAGE_MIROSTAT_2 12
#define CLS_STAGES 13
#define CLS_MAX_STAGES 16
#define CLS_MIROSTAT_RANKS 100 /* of which mirostat 1 takes the slope */

/* What a slot's parameters ask of the kernels: cls_slot.flags. */
#define CLS_SLOT_BEGUN 1u
#define CLS_SLOT_GREEDY 2u
#define CLS_SLOT_PLAIN 4u   /* no truncation is on */
#define CLS_SLOT_TOTAL 8u   /* the mass of the untouched row is needed, at `total_scale` */
#define CLS_SLOT_SEARCH 16u /* the set may not fit the shortlist: enqueue the threshold search */

#define CLS_SLOT_PENALIZED 32u  /* penalties or biases: logits of touched tokens change */
#define CLS_SLOT_RAISES 64u     /* ... and some may rise */
#define CLS_SLOT_SCOPE_ALL 128u /* prompts, too, count for frequency and presence */
#define CLS_SLOT_DYNAMIC 256u   /* the temperature follows the entropy */
#define CLS_SLOT_ADAPTIVE 512u  /* adaptive-p replaces the draw */
#define CLS_SLOT_DECAYS 1024u   /* top-p shrinks with every token */
#define CLS_SLOT_HISTORY 2048u  /* DRY, n-grams, bad words or min tokens: the row is prepared */
#define CLS_SLOT_ALLOWED 4096u  /* only the tokens of its list, a bitmap at `allowed` */
#define CLS_SLOT_MODES (CLS_SLOT_MIROSTAT | CLS_SLOT_ADAPTIVE)
#define CLS_SLOT_MIROSTAT 8192u
#define CLS_SLOT_BIAS_ROW 16384u /* biases have values for every token */
/* They have if there are more than one for so many tokens. */
#define CLS_BIAS_ROW_PART 128u

/* What a request's samplers remember from token to token. */
typedef struct cls_mode {
    i32 mu;          /* mirostat's, bits * 2^20 */
    u32 sum, weight; /* adaptive-p's averages, * 2^24 */
    u32 top_p;       /* decayed, * 2^32 */
} cls_mode;

/* A request, resident on the device. Up to `position` it is the caller's, and
 * a change of parameters writes it; from there on the device moves it on. */
typedef struct cls_slot {
    u32 flags;
    u32 chain[CLS_MAX_STAGES /
              4];    /* stages that are on, a byte each, in order, then CLS_STAGE_END */
    f32 scale;       /* log2(e) / temperature: final weights */
    f32 total_scale; /* the scale at which the untouched row's mass is taken */
    i32 top_k;
    u32 top_p; /* p * 2^32 */
    f32 min_p; /* -log2(min_p): the greatest depth that is kept */
    u32 seed[2];
    u32 stream[2];
    f32 repetition, reciprocal; /* r, 1/r */
    f32 frequency, presence;
    u32 window;       /* latest tokens that count; 0: all */
    u32 max_tokens;   /* 0: no limit */
    u32 lists;        /* where its lists begin; places in them are counted from there */
    u32 bias, n_bias; /* in the lists, if n is not 0: a bitmap of the biased ids, and their values:
                         see bias_row_place() */
    u32 allowed;      /* in the lists: a bitmap */
    u32 stop, n_stop; /* in the lists: n ids, ascending */
    f32 low, span;    /* dynamic temperature: from low to low + span ... */
    u32 exponent;     /* ... by this power of the entropy, times 2^16 */
    f32 sigma;        /* top-n-sigma's n */
    u32 typical_p;    /* p * 2^32 */
    u32 xtc;          /* the probability * 2^31 */
    u32 xtc_depth;    /* -log2(threshold) * 2^20 */
    u32 top_a;        /* -log2(a) * 2^20 */
    u32 min_keep;
    u32 decay, top_p_least;     /* top-p decay, both * 2^32 */
    i32 reset_id;               /* that restores top-p; -1: none */
    u32 tau, eta;               /* mirostat: * 2^20, * 2^24 */
    u32 target, adaptive_decay; /* adaptive-p: * 2^30, * 2^32 */
    u32 dry, n_dry;             /* in the lists: multiplier * base^e of n exponents, 0 up */
    u32 dry_allowed, dry_window;
    u32 dry_heads, dry_singles; /* in the lists: bitmaps of the vocabulary: first ids of sequence
                                   breakers; breakers of one token. Equal places: all are of one */
    u32 breakers, n_breakers; /* in the lists: n places of breakers of several tokens, by first id;
                                 at a place the number of ids, then these */
    u32 banned, n_banned;     /* in the lists: bad words of one id, ascending */
    u32 bad_words, n_bad_words; /* in the lists: n places of sequences, as the breakers', by the
                                   last id but one */
    u32 ngram;
    u32 min_tokens;
    u32 position;
    u32 outputs; /* output tokens so far */
    u32 length;  /* tokens that entered the history, less those taken back */
    u32 longest; /* the most that ever was: older entries than that less the ring are gone */
    u32 stopped;
    cls_mode mode; /* before the next token */
    i32 pending;   /* the token that a step drew and `next` is for; -1: none */
    cls_mode next; /* what accepting it makes of `mode` */
} cls_slot;

/* ------------------------------------------------------- a slot's resident state
 *
 * Beside its cls_slot a slot has a region of `state`, in words of 32 bits:
 * bitmaps of the vocabulary (touched, seen), counts, the ring of its
 * latest tokens, and what the mode was before each that can be taken back.
 * `layout` tells which of them there are: a cls_keep, the history (1 to 16,384) and
 * the rollback (0 to 16,384). */
#define CLS_KEEPS_NONE 0u
#define CLS_KEEPS_SEEN 1u
#define CLS_KEEPS_COUNTS 2u
#define CLS_LAYOUT(keep, history, rollback) \
    ((u32)(keep) | (u32)((history)-1) << 3 | (u32)(rollback) << 17)
#define CLS_LAYOUT_KEEP(layout) ((layout)&3u)
#define CLS_LAYOUT_HISTORY(layout) (((layout) >> 3 & 0x3fffu) + 1)
#define CLS_LAYOUT_ROLLBACK(layout) ((layout) >> 17)
#define CLS_LAYOUT_RING(layout) (CLS_LAYOUT_HISTORY(layout) + CLS_LAYOUT_ROLLBACK(layout))
#define CLS_MAX_HISTORY 16384
#define CLS_MODE_WORDS 4 /* of a cls_mode */
#define CLS_MAX_COUNT 65535u

/* A bitmap's words, of whole tiles: who reads the last one reads it whole. */
CLS_INLINE u32 state_bitmap(u32 vocab)
{
    return (vocab + CLS_TILE - 1) / CLS_TILE * (CLS_TILE / 32);
}
/* Where the parts begin, and where the region ends. */
CLS_INLINE u32 state_touched(void) { return 0; }
CLS_INLINE u32 state_seen(u32 vocab, u32 layout)
{
    return CLS_LAYOUT_KEEP(layout) != CLS_KEEPS_NONE ? state_bitmap(vocab) : 0u;
}
CLS_INLINE u32 state_counts(u32 vocab, u32 layout) { return state_seen(vocab, layout) * 2; }
CLS_INLINE u32 state_ring(u32 vocab, u32 layout)
{
    /* 16 bits a token, or 1, or none. Not by ?:, of which oclgrind makes something else. */
    const u32 keep = CLS_LAYOUT_KEEP(layout);
    return state_counts(vocab, layout) + state_bitmap(vocab) * ((keep >> 1) * 16 + (keep & 1u));
}
CLS_INLINE u32 state_modes(u32 vocab, u32 layout)
{
    return state_ring(vocab, layout) + (CLS_LAYOUT_RING(layout) + 15) / 16 * 16;
}
CLS_INLINE u32 state_words(u32 vocab, u32 layout)
{
    return state_modes(vocab, layout) +
           (CLS_LAYOUT_ROLLBACK(layout) * CLS_MODE_WORDS + 15) / 16 * 16;
}

/* Logit biases lie in the lists: a bitmap of the biased tokens, then a value for every token of
 * whole tiles (CLS_SLOT_BIAS_ROW); or, for each word of the bitmap, how many biased tokens the
 * words before it have, and then their values alone. Places are from the bitmap's beginning. */
CLS_INLINE u32 bias_row_place(u32 vocab, u32 id) { return state_bitmap(vocab) + id; }
CLS_INLINE u32 bias_before_place(u32 vocab, u32 word) { return state_bitmap(vocab) + word; }
CLS_INLINE u32 bias_list_place(u32 vocab, u32 index) { return 2 * state_bitmap(vocab) + index; }

/* An entry of the ring: an id, and what it was. */
#define CLS_ENTRY_ID 0x000fffffu
#define CLS_ENTRY_OUTPUT 0x80000000u
#define CLS_ENTRY_FIRST 0x40000000u /* no such token counted before it: taken back, none counts */

/* ------------------------------------------------------------ what prepare leaves
 *
 * A row whose slot has CLS_SLOT_HISTORY has a region of `prepared`, in words:
 * a bitmap of the tokens that it changes (marks), one of those that it bans,
 * valid in words that have a mark; with a history of more than a token also, for
 * each word of these, where its entries begin (likewise valid), the text
 * (the ids of the latest tokens, oldest first, after what a vector may read in
 * vain) and twice its length for the entries and for scratch. */
CLS_INLINE u32 prepared_banned(u32 vocab) { return state_bitmap(vocab); }
CLS_INLINE u32 prepared_heads(u32 vocab,
                              u32 layout) /* without a text the bans': no entry ever is */
{
    return state_bitmap(vocab) * (1 + (u32)(CLS_LAYOUT_HISTORY(layout) > 1));
}
CLS_INLINE u32 prepared_text(u32 vocab, u32 layout)
{
    return prepared_heads(vocab, layout) + state_bitmap(vocab) + 16;
}
CLS_INLINE u32 prepared_length(u32 layout) { return (CLS_LAYOUT_HISTORY(layout) + 63) / 64 * 64; }
/* Then, where rows follow drafts: whether the marks are of this row, the number of
 * these drafts and of patches, the drafts' ids, and the patches: tokens whose
 * counts the drafts change, with what the counts become; and where their chains begin. */
#define CLS_DRAFTS_MOST 128
#define CLS_PATCH_SEEN 0x80000000u
#define CLS_PATCH_BUCKETS 256 /* chains of patches, by id */
CLS_INLINE u32 prepared_drafts(u32 vocab, u32 layout)
{
    return prepared_text(vocab, layout) + prepared_length(layout) * 3;
}
CLS_INLINE u32 prepared_words(u32 vocab, u32 layout)
{
    return prepared_drafts(vocab, layout) + 16 + CLS_DRAFTS_MOST + 2 * 2 * CLS_DRAFTS_MOST +
           CLS_PATCH_BUCKETS;
}

/* What a slot call asks of the device: cls_change.kind. */
#define CLS_CHANGE_BEGIN 1u    /* parameters, lists, tokens */
#define CLS_CHANGE_APPEND 2u   /* tokens */
#define CLS_CHANGE_PARAMS 3u   /* parameters, lists */
#define CLS_CHANGE_COPY 4u     /* the state of another slot */
#define CLS_CHANGE_LOAD 5u     /* a state from the words */
#define CLS_CHANGE_ROLLBACK 6u /* `tokens` of them */
#define CLS_CHANGE_RESET 7u
#define CLS_CHANGE_TURN 8u /* what there is becomes prompt; tokens */

/* Slot calls on their way to the device: one, or several that follow each other and are as
 * good as one. Changes of one slot have ascending rounds; those of one round run side by
 * side: none touches what another one writes. */
typedef struct cls_change {
    u32 kind, round;
    u32 slot, from; /* from: the slot that is copied */
    u32 words;      /* where its words begin: tokens (entries of the ring), or a whole state */
    u32 tokens;
    u32 lists, n_lists; /* words for the lists, at slot.lists */
    cls_slot params;
} cls_change;

/* What the kernels know of a row at the end, and what they hand each other on
 * the way. `cut` is the last kept place in the order (key descending, id
 * ascending): a token is kept iff its key is above cut_key, or equal to it and
 * its id at most cut_id. */
typedef struct cls_row {
    u64 mass;    /* of the final set, row units */
    u64 total;   /* of the untouched row, where the chain needs it */
    u64 target;  /* of top-p */
    u64 drawn;   /* the integer in [0, mass), or [0, adapted), that chose the token */
    u64 adapted; /* the mass that adaptive-p makes of the set */
    u64 given,
        asked; /* of the draft that follows the row, 2^-63: its probability here and in its own
                  distribution, whose row has this mass and largest key, where it is logits */
    u64 draft_mass;
    i32 token;
    u32 status; /* cls_row_status bits */
    u32 state;  /* CLS_ROW_DONE, CLS_ROW_SEARCH_* */
    i32 max_key;
    i32 cut_key;
    i32 cut_id;
    f32 scale;   /* of the final weights */
    u32 none;    /* the row has no token of its own */
    i32 top_key; /* the largest key that is kept: weights and depths are relative to it */
    i32 head_key, head_first, head_last; /* what was cut from above: keys above head_key, and those
                                            equal to it whose ids are not in [first, last] */
    u32 kept;                            /* tokens, where `listed` or counted; else 0 */
    u32 listed; /* the kept ids lie in the row's sample: `kept` of them, ascending */
    u32 aim,
        least; /* adaptive-p: the probability aimed at, * 2^30; the least depth that it gives */
    i32 draft_key, reserved;
    i32 pivot[CLS_PIVOTS]; /* keys, ascending; the pass measures what lies above each */
} cls_row;

#define CLS_ROW_DONE 0u         /* the token is drawn (or the row has none) */
#define CLS_ROW_SEARCH_MASS 1u  /* the pass measures masses above the pivots */
#define CLS_ROW_SEARCH_COUNT 2u /* ... counts */
#define CLS_ROW_SEARCH_ALL 3u   /* the search asks more than what lies above a key: no pass */

/* What a step has: cls_args.has. */
#define CLS_HAS_MASK 1u
#define CLS_HAS_SLOT_MAP 2u
#define CLS_HAS_MASK_MAP 4u
#define CLS_HAS_POSITIONS 8u
#define CLS_HAS_RANDOM 16u
#define CLS_HAS_TOKENS 32u
#define CLS_HAS_STATUS 64u
#define CLS_DEFER 128u        /* the slots stay as they are */
#define CLS_RAW 256u          /* survey the raw row: no mask, scale log2(e), mass wanted */
#define CLS_FORCE_SEARCH 512u /* tests: the shortlist serves no row that truncates */
#define CLS_MASK_BYTES 2048u  /* a bool mask */
#define CLS_HAS_BIAS 4096u    /* a dense bias, float32 ... */
#define CLS_BIAS_F16 8192u    /* ... or float16 */
#define CLS_HAS_BIAS_MAP 16384u
#define CLS_HAS_DRAWS 32768u
#define CLS_HAS_LATEST 65536u
/* Beside CLS_HAS_MASK in row_logits.masked: only the tokens of a list may be drawn. */
#define CLS_MASK_LIST 131072u
#define CLS_DRAFTS 0x40000u          /* rows follow drafts */
#define CLS_POSITIONS_ADD 0x80000u   /* positions are the slots' own plus these */
#define CLS_ALL_GREEDY 0x100000u     /* whatever the temperatures are */
#define CLS_HAS_LOGITS_MAP 0x200000u /* rows may share rows of logits */
#define CLS_HAS_COUNTS 0x20000000u   /* of candidates */
#define CLS_HAS_SEARCH 0x10000000u   /* the pass and the search follow */
#define CLS_NO_SLOTS 0x40000000u     /* rows of no request: logprobs of prompts */

/* What is told of a row beside its token, in the order of the kernels'
 * arguments; a step's `wants` has a bit for each. */
enum cls_output {
    CLS_OUT_LOGPROBS,
    CLS_OUT_RANKS,
    CLS_OUT_TOP_IDS,
    CLS_OUT_TOP_LOGPROBS,
    CLS_OUT_GIVEN_IDS,
    CLS_OUT_GIVEN_LOGPROBS,
    CLS_OUT_GIVEN_RANKS,
    CLS_OUT_ENTROPY,
    CLS_OUT_KEPT,
    CLS_OUT_KEPT_MASS,
    CLS_OUT_CANDIDATE_IDS,
    CLS_OUT_CANDIDATE_LOGITS,
    CLS_OUT_CANDIDATE_PROBS,
    CLS_OUT_CANDIDATE_COUNTS,
    CLS_OUT_PROBS, /* from here on [rows, vocab] */
    CLS_OUT_FINAL_LOGITS,
    CLS_OUTPUTS
};
#define CLS_WANTS(output) (1u << (output))
/* The first are of the raw row or of the final distribution; the rest only of that. */
#define CLS_WANTS_OF_EITHER (CLS_WANTS(CLS_OUT_ENTROPY) - 1)
#define CLS_WANTS_SUMS (CLS_WANTS(CLS_OUT_ENTROPY) | CLS_WANTS(CLS_OUT_KEPT_MASS))
#define CLS_WANTS_TILES \
    (CLS_WANTS_SUMS | CLS_WANTS(CLS_OUT_PROBS) | CLS_WANTS(CLS_OUT_FINAL_LOGITS))

/* Outputs of a verification, likewise. */
enum cls_verified {
    CLS_VERIFIED_TOKENS,
    CLS_VERIFIED_ACCEPTED,
    CLS_VERIFIED_EMITTED,
    CLS_VERIFIED_NODES,
    CLS_VERIFIED_STATUS,
    CLS_VERIFIED_COUNTERS,
    CLS_VERIFIED_LATEST,
    CLS_VERIFIED
};

/* ------------------------------------------------------------ kernels' arguments
 *
 * A device need not take more than 256 bytes of them (OpenCL 1.2's embedded
 * profile), which are 32 buffers: so all other arguments lie in one of these
 * buffers. The host writes what has changed, in blocks. */
typedef struct cls_wide { /* 64 bits, where there may be no such integers */
    u32 lo, hi;
} cls_wide;

#define CLS_ARGS_BLOCK 128 /* bytes: the largest pattern of clEnqueueFillBuffer() */
#define CLS_ARGS_BLOCKS 4
typedef struct cls_args {
    /* The sampler's and the rows' shape, and their inputs; offsets and strides in elements. */
    u32 vocab, n_slots, layout, sample_stride;
    u32 tiles_per_group;
    u32 has;
    i32 invalid_token;
    u32 n_end; /* of infill */
    u32 mask_width, mask_rows, bias_rows;
    u32 candidates; /* a row of cls_draw */
    cls_wide logits_offset, row_stride;
    cls_wide mask_offset, mask_stride, bias_offset, bias_stride;
    cls_wide slot_map_offset, mask_map_offset, bias_map_offset;
    cls_wide random_offset;
    /* What else it is drawn by, and where it goes. */
    cls_wide positions_offset, draws_offset;
    cls_wide tokens_offset, status_out_offset, latest_offset;
    cls_wide ids_offset, counts_offset; /* of candidates */
    cls_wide draft_ids_offset, draft_offset, draft_stride;
    u32 draft_kind;
    u32 nodes, parents, firsts; /* in the rows' maps: see cls_map in lib/sampler/sampler.h */
    u32 method, n_rows, bonus, max_drafts;
    i32 epsilon, delta;
    u32 logits_rows; /* in the buffer, where there is a map to them */
    u32 reserved_1;
    /* What is told: CLS_WANTS() of outputs, or bits of cls_verified, and where they are. */
    cls_wide output_offset[CLS_OUTPUTS];
    u32 wants, top_n, given_n, candidates_n;
    u32 given_each; /* ids that a group of the report serves */
    u32 reserved_2;
    cls_wide logits_map_offset;
    u32 reserved_3[24];
} cls_args;
/* C and OpenCL C must agree on it. */
typedef char cls_args_size[sizeof(cls_args) == CLS_ARGS_BLOCK * CLS_ARGS_BLOCKS ? 1 : -1];

/* A row is sampled for a threshold's first guess: all of a small one, of a
 * large one 16 tokens in 512. */
#define CLS_SAMPLE_ALL 4096
#define CLS_SAMPLE_RUN 16
#define CLS_SAMPLE_BLOCK 512
CLS_INLINE u32 sample_size(u32 vocab)
{
    return vocab <= CLS_SAMPLE_ALL ? (vocab + CLS_SAMPLE_RUN - 1) / CLS_SAMPLE_RUN * CLS_SAMPLE_RUN
                                   : vocab / CLS_SAMPLE_BLOCK * CLS_SAMPLE_RUN;
}

/* Bits of cls_row_status that kernels set; the same numbers as in clsample.h. */
#define CLS_STATUS_NAN 1u
#define CLS_STATUS_INF 2u
#define CLS_STATUS_EMPTY 4u
#define CLS_STATUS_SKIPPED 8u
#define CLS_STATUS_NO_SLOT 16u
#define CLS_STATUS_STOPPED 32u
#define CLS_STATUS_LENGTH 64u
#define CLS_STATUS_UNFIT 128u
/* Beside these in a tile's flags: the row's slot touches a token of the tile; its
 * mask forbids one. */
#define CLS_TILE_TOUCHED 256u
#define CLS_TILE_MASKED 512u

/* Of cls_groups_test: the words that an item writes, and the number it begins with. */
#define CLS_GROUP_WORDS 16
CLS_INLINE u32 group_test_input(u32 lid) { return (lid + 1) * 0x9e3779b1u; }

#endif
