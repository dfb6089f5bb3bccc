/* SPDX-License-Identifier: MIT */
/* The tables of the buffers and maps of each call: their rows are in tables.c, and operands.c
 * checks them, uploads what is on the host, and binds them to the kernels' arguments. */
#ifndef CLS_OPERANDS_H
#define CLS_OPERANDS_H

#include "sampler/sampler.h"

/* The numbers of a plan that the sizes of operands are made of. */
enum cls_count {
    CLS_N_0, /* a number that is not used */
    CLS_N_1,
    CLS_N_3,
    CLS_N_4,
    CLS_N_8,
    CLS_N_DRAWS,     /* the number of values that a draw may have, */
    CLS_N_ACCEPTED,  /* that the number of accepted tokens may have, */
    CLS_N_ROLLBACKS, /* and that of tokens that are taken back */
    CLS_N_SHORTLIST,
    CLS_N_TOP_MOST,
    CLS_N_GIVEN_MOST,
    CLS_N_MOST_ROWS, /* of a call */
    CLS_N_SLOTS,
    CLS_N_VOCAB,
    CLS_N_ROWS,
    CLS_N_TOP,
    CLS_N_GIVEN,
    CLS_N_KEPT,
    CLS_N_SET,
    CLS_N_PACKED, /* ids of all kept sets, where these have offsets */
    CLS_N_PACKED_MOST,
    CLS_N_OFFSETS, /* places, and one */
    CLS_N_LOGITS_ROWS,
    CLS_N_LOGITS_WIDTH,
    CLS_N_LOGIT_BYTES,
    CLS_N_MASK_ROWS,
    CLS_N_MASK_WIDTH,
    CLS_N_MASK_BYTES,
    CLS_N_BIAS_ROWS,
    CLS_N_BIAS_BYTES,
    CLS_N_PER_ROW,     /* tokens of a row that are accepted */
    CLS_N_REQUESTS,    /* of a verification */
    CLS_N_MOST_DRAFTS, /* of a request */
    CLS_N_MOST_TOKENS, /* one more */
    CLS_N_DRAFTS,      /* of all requests */
    CLS_N_DRAFT_IDS,   /* what they take of draft_ids and of `draft`, in elements */
    CLS_N_DRAFT_EXTENT,
    CLS_N_PLACES, /* of outputs: rows, or all tokens that all requests could emit */
    CLS_N_DRAFT_BYTES,
    CLS_N_DRAFT_VOCAB,
    CLS_COUNTS
};

/* What a row of a table is of. */
enum cls_operand_kind {
    CLS_OPTIONAL, /* a buffer or a map, which may be absent */
    CLS_REQUIRED, /* one that may not */
    CLS_NEVER,    /* one that makes no sense in the call */
    CLS_HOST_MAP, /* a map that may be absent and must be on the host; the kernels do not read it */
    CLS_INTERNAL, /* a map that the call makes; not checked */
    CLS_NUMBER,   /* a number of the caller's: count `width`, at most count `most` */
    CLS_WORDS,    /* `words` words that must be 0 */
    CLS_ENUM,     /* a value of an enum, 0 to `words` */
    CLS_SWITCH    /* a number that must be 0 or 1 */
};

/* A row of a call's table. `at`, `host` and `stride` are offsets in a cls_plan. */
typedef struct cls_operand {
    const char *name;        /* in messages */
    uint8_t kind;            /* a cls_operand_kind */
    uint8_t words;           /* of CLS_WORDS; of CLS_ENUM the last value */
    uint8_t most, shortlist; /* of CLS_NUMBER: cls_count; shortlist: 0 or another one */
    uint16_t at;             /* the cls_buffer or the number */
    uint16_t host;           /* the pointer to data on the host, or 0 */
    uint16_t stride;         /* the stride from row to row, or 0: dense rows */
    const char *word;        /* in messages: the stride or the enum */
    uint8_t rows, width, element, access; /* cls_count, and a cls_access */
    uint8_t map;                          /* a cls_map, if it is one */
    uint8_t limit;     /* cls_count: data on the host must be below; -1 is allowed for rows */
    uint8_t group;     /* cls_count, which must not be 0 if the operand is present */
    uint32_t feature;  /* cls_feature bits, of which it needs one */
    uint32_t has;      /* bits of cls_args.has */
    uint32_t wants;    /* bits of cls_args.wants */
    uint16_t buffer;   /* in a cls_buffers, or 0 */
    uint16_t argument; /* in a cls_args: where its offset goes, and behind that its stride; or 0 */
} cls_operand;

/* The table of a call, the name of its struct, and 1 if it reads logits. */
typedef struct cls_operands {
    const char *call;
    int reads_logits;
    const cls_operand *row;
    uint32_t n;
} cls_operands;
extern const cls_operands cls_step_operands, cls_verify_operands, cls_accept_operands,
    cls_logprobs_operands, cls_gather_operands, cls_draft_operands;

#endif
