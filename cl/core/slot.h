/* SPDX-License-Identifier: MIT */
/* A request as it lies on the device: its parameters, and what changes with each token. What has no
 * fixed size is in the lists, or in the slot's state (core/state.h). */
#ifndef CLS_SLOT_H
#define CLS_SLOT_H

#include "core/stages.h"
#include "core/types.h"

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
#define CLS_SLOT_STOPS (CLS_SLOT_STOPS_BANNED | CLS_SLOT_STOPS_THINK)
#define CLS_SLOT_STATEFUL (CLS_SLOT_MIROSTAT | CLS_SLOT_ADAPTIVE)
enum {
    CLS_SLOT_MIROSTAT = 8192,
    CLS_SLOT_BIAS_ROW = 16384,       /* there is a bias value for every token of the vocabulary */
    CLS_SLOT_THINKING = 32768,       /* the thinking is followed */
    CLS_SLOT_LOOPS = 65536,          /* loops of the output end the request */
    CLS_SLOT_NGRAM_OUTPUT = 262144,  /* n-grams of the output only are banned */
    CLS_SLOT_RELAXED = 524288,       /* while the request thinks, likely drafts are accepted */
    CLS_SLOT_GRAMMAR = 1048576,      /* it follows the grammar at `grammar` */
    CLS_SLOT_LOOPS_THINK = 2097152,  /* loops of the thinking end that, and no request */
    CLS_SLOT_STOPS_BANNED = 4194304, /* stop ids are banned while the request thinks, */
    CLS_SLOT_STOPS_THINK = 8388608,  /* or end the thinking, and no request */
    CLS_SLOT_SGLANG = 16777216,      /* the watermark is SGLang's */
};
/* The host's copy of a slot only: ids were forced. The device knows whether any are left. */
#define CLS_SLOT_FORCED 131072u

/* The penalties, in the order of their windows. */
typedef enum { CLS_REPETITION = 0, CLS_FREQUENCY = 1, CLS_PRESENCE = 2 } cls_penalty;
#define CLS_WINDOW_BITS 8
#define CLS_WINDOW_OF(windows, penalty) \
    ((windows) >> CLS_WINDOW_BITS * (penalty) & ((1u << CLS_WINDOW_BITS) - 1))
#ifdef __OPENCL_C_VERSION__
#define CLS_MAX_OWN_WINDOW 128
#endif
CLS_INLINE u32 longest_short_window(u32 windows)
{
    const u32 a = CLS_WINDOW_OF(windows, CLS_REPETITION), b = CLS_WINDOW_OF(windows, CLS_FREQUENCY),
              c = CLS_WINDOW_OF(windows, CLS_PRESENCE);
    const u32 most = a > b ? a : b;
    return most > c ? most : c;
}

/* The words of SGLang's watermark: two keys, the probability of the first, times 2^32, or 0 if
 * there is no second one, and the greatest probability of a token of a marked row, times 2^32, or
 * 0. */
enum { CLS_SGLANG_KEYS = 0, CLS_SGLANG_MIXING = 4, CLS_SGLANG_MOST = 5, CLS_SGLANG_WORDS = 6 };

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
                     that count; see thinking_after() in cl/slot/text.cl */
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
    u32 window;     /* how many of the latest tokens count, for a penalty at least; 0: all */
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
    u32 spared, n_spared;             /* in the lists: n ids, ascending, without penalties */
    u32 xtc_exempt, n_xtc_exempt;     /* in the lists: n ids, ascending, that XTC does not remove */
    u32 min_tokens;
    u32 thinking_start, n_start; /* of the thinking budget, in the lists: the ids that begin the
                                    thinking (n = 0: it begins with the request), */
    u32 thinking_ends, n_ends;   /* n sequences, a count and the ids of each, that end it; with
                                    CLS_SLOT_RELAXED they follow two words: relaxed_top_k and the
                                    float relaxed_delta */
    u32 thinking_forced,
        n_thinking_forced; /* and those that are emitted after `thinking_budget` tokens of it */
    u32 thinking_budget;
    u32 loop_repeats;
    u16 loop_min, loop_max; /* a loop repeats loop_min to loop_max tokens */
    u16 dry_allowed, dry_window;
    u16 ngram, ngram_window;
    u32 watermark, watermark_key[2]; /* the ids of a context; 0: the text is not marked. With
                                        CLS_SLOT_SGLANG the first word of the key is where
                                        CLS_SGLANG_WORDS lie in the lists. */
    u32 grammar;       /* the offset of its words (core/grammar.h) in the whole buffer of lists */
    u32 grammar_begin; /* the state of a grammar in which a turn begins */
    cls_slot_adaptive next_adaptive; /* the adaptive state once `pending` is accepted */
    u32 answer;  /* in the lists: a cls_slot with the parameters of rows outside the thinking, of
                    which chain and penalties count (row_rules()); 0: there is none */
    u32 windows; /* of the penalties that consider fewer tokens than `window`, by cls_penalty,
                    CLS_WINDOW_BITS each */
} cls_slot;
typedef char cls_slot_size[sizeof(cls_slot) % 128 == 0 ? 1 : -1];

#endif
