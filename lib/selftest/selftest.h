/* SPDX-License-Identifier: MIT */
/* The self-test. It makes the same calls, with requests of all kinds, on the device and on the
 * host, and compares both with stored answers. Of these three, two that agree show which one is
 * wrong. A program is proved by some of its cases, in which only the device and the host are
 * compared. */
#ifndef CLS_SELFTEST_H
#define CLS_SELFTEST_H

#include "host/host.h"
#include "shard/shard.h"
#include "step/step.h"

/* Five mass tiles, the last one ragged; more tokens than any shortlist holds. */
#define SELFTEST_VOCAB 5003u
/* The longest row of a proof. */
#define SELFTEST_MOST_VOCAB (CLS_MOST_TILES_PER_GROUP * CLS_TILE + 28u)
#define SELFTEST_MOST_CASES 144
#define SELFTEST_STEPS 2 /* steps of every case */
#define SELFTEST_HISTORY 32
#define SELFTEST_CHANGE 4 /* tokens of a change: texts take several rounds on the device */
#define SELFTEST_ROLLBACK 8
#define SELFTEST_METHODS 4  /* methods of verification */
#define SELFTEST_REQUESTS 5 /* requests in a verification */
#define SELFTEST_DRAFTS 3   /* drafts of each request */
#define SELFTEST_WIDTH \
    (SELFTEST_DRAFTS + 2) /* places of a request's outputs, one more than its rows */
#define SELFTEST_ROWS (SELFTEST_REQUESTS * (SELFTEST_DRAFTS + 1))

/* Proves a variant that is compiled: runs those of its cases for which the context has all other
 * programs. Drivers that compile at the first launch do so here. Fails if the results differ or
 * OpenCL fails; *launched then has the variants that may have caused it by the size of their
 * groups, a bit each: those that ran, or the one that the device refused to launch. It is 0 if
 * nothing was launched. */
cls_status cls_prove(cls_context *context, int variant, int32_t dtype, cls_variant_set *launched);

/* The stages of the report, in the order in which a step runs them. */
/* clang-format off */
#define SELFTEST_STAGES(stage) \
    stage(ARITHMETIC, "arithmetic") stage(RANDOM, "random numbers") \
    stage(SURVEY, "survey") stage(MASKS, "masks") stage(BIASES, "biases") \
    stage(PENALTIES, "penalties") stage(HISTORY, "history") stage(SHORTLIST, "shortlist") \
    stage(TOP_K, "top-k") stage(TOP_P, "top-p") stage(MIN_P, "min-p") \
    stage(TOP_A, "top-a") stage(SIGMA, "top-n-sigma") stage(TYPICAL, "typical") \
    stage(XTC, "XTC") stage(P_LESS, "p-less") stage(INFILL, "infill") \
    stage(TEMPERATURE, "temperature") stage(SEARCH, "search") \
    stage(DRAW, "draw") stage(MIROSTAT, "mirostat") stage(ADAPTIVE, "adaptive p") \
    stage(DECAY, "top-p decay") stage(SLOTS, "slots") stage(FORCED, "forced tokens") \
    stage(SHARDS, "shards") stage(REPORT, "report") stage(LOGPROBS, "logprobs") \
    stage(MATCH, "verify: match") \
    stage(STANDARD, "verify: standard") stage(BLOCK, "verify: block") \
    stage(VERIFY_TYPICAL, "verify: typical") stage(LOOKUP, "drafts of texts")
/* clang-format on */
#define SELFTEST_STAGE(number, name) ST_##number,
enum cls_selftest_stage_index { SELFTEST_STAGES(SELFTEST_STAGE) ST_STAGES };
typedef char cls_selftest_stages_fit[ST_STAGES <= CLS_SELFTEST_STAGES ? 1 : -1];

/* What all stages gave. */
typedef struct cls_tested {
    uint32_t failed; /* cases */
    cls_selftest_stage stage[ST_STAGES];
} cls_tested;

/* ------------------------------------------------------------- cases.c */

/* The kinds of rows of logits. */
enum cls_selftest_row {
    ROW_PEAKED,  /* each higher logit has half as many tokens, as in a language model's row */
    ROW_TEXT,    /* the likeliest tokens are the first 32, which are in texts and lists */
    ROW_FLAT,    /* 64 values that are close together */
    ROW_TIES,    /* only three values */
    ROW_EQUAL,   /* only one value */
    ROW_NAN,     /* peaked, with NaN and -inf in it */
    ROW_INF,     /* peaked, with two logits of +inf */
    ROW_EMPTY,   /* only NaN and -inf */
    ROW_ONE_NAN, /* peaked, with one NaN; likewise: */
    ROW_ONE_INF,
    ROW_ONE /* only one token */
};

/* What a case has in addition to its parameters. */
#define WITH_TEXT 1u /* a prompt and an output */
#define WITH_MASK 2u
#define WITH_DENSE 4u /* a dense bias */
#define WITH_BIAS 8u  /* from here on the lists of its parameters: logit biases, */
#define WITH_STOP 16u /* stop ids, */
#define WITH_BREAKERS 32u
#define WITH_BAD_WORDS 64u
#define WITH_ALLOWED 128u
#define WITH_THINKING 256u /* and the sequences of a thinking budget */
#define WITH_FORCED 512u   /* ids by cls_slot_force() */
#define WITH_EXEMPT 1024u  /* ids that no n-gram bans */
#define WITH_GRAMMAR 2048u
#define WITH_PHASES 4096u /* parameters behind the thinking */

/* How the request of a case is set up. */
enum cls_selftest_setup {
    BY_BEGIN,    /* cls_slot_begin() */
    BY_ACCEPT,   /* then cls_accept() of the last two tokens of the output */
    BY_ROLLBACK, /* also of one more token, which is rolled back */
    BY_REPLACE,  /* of others, which the acceptance of these takes back */
    BY_COPY,     /* a copy of another request, then new parameters */
    BY_APPEND,   /* the prompt in two parts */
    BY_LOAD,     /* saved and loaded */
    BY_RESET     /* in a slot that had another request and was reset */
};

/* A field of cls_params and its value. */
typedef struct cls_selftest_setting {
    size_t field;
    double value;
    char kind; /* 'f': float; 'i': 32 bits; 'l': 64 bits; 0 ends the list */
} cls_selftest_setting;

/* A request, which draws SELFTEST_STEPS tokens. The cases of ST_FORCED and of ST_SHARDS come last.
 */
typedef struct cls_selftest_case {
    uint8_t stage, row;
    uint16_t with;
    uint8_t setup;
    const char *name;
    cls_variant_set proves; /* it runs when one of them is compiled */
    int32_t draw;
    uint8_t chain[4]; /* a custom chain, unless it is empty */
    cls_selftest_setting set[8];
} cls_selftest_case;

extern const cls_selftest_case cls_selftest_cases[];
extern const uint32_t cls_selftest_case_count;

/* The cases whose rows have all outputs, and those whose requests are verified with drafts. */
#define SELFTEST_OUTPUT_CASES 6
extern const char *const cls_selftest_output_cases[SELFTEST_OUTPUT_CASES];
extern const char *const cls_selftest_verified_cases[SELFTEST_REQUESTS];

/* Returns the index of the case with this name, which must exist. */
uint32_t cls_selftest_find(const char *name);

/* Returns the seed of a case's row and random numbers, a hash of its name. It does not depend on
 * other cases. */
uint32_t cls_selftest_seed(uint32_t i);

/* What a case's request begins with. */
typedef struct cls_selftest_ids {
    cls_ids prompt, output, forced;
} cls_selftest_ids;

/* Set the parameters of a case's request, and return its text and its forced ids. The arrays are
 * static. The first parameters are the request's, and may refer to the second. */
void cls_selftest_params(uint32_t i, uint32_t vocab, cls_params params[2]);
cls_selftest_ids cls_selftest_text(uint32_t i, uint32_t vocab);

/* Makes the grammar of a case, which the caller releases, if it has one. Fails if memory runs out.
 */
cls_status cls_selftest_grammar(uint32_t i, uint32_t vocab, cls_params *params);

/* What a self-test or a proof runs. */
typedef struct cls_selftest_selection {
    uint32_t vocab; /* 1,000 to SELFTEST_MOST_VOCAB */
    uint32_t parts;
    uint32_t methods; /* of verification, a bit each */
    uint32_t count;
    uint32_t cases[SELFTEST_MOST_CASES]; /* ascending; case i has row i of a batch, and slot i */
} cls_selftest_selection;

#define PART_ARITHMETIC 1u
#define PART_STEPS 2u
#define PART_OUTPUTS 4u
#define PART_DRAFTS 8u
#define PART_LOOKUP 16u

/* Returns the selection of the whole self-test. */
cls_selftest_selection cls_selftest_whole(void);

/* Returns where the case with this name is among those of a selection, or -1. */
int32_t cls_selftest_position(const cls_selftest_selection *selection, const char *name);

/* Writes a row of logits in type dtype. All types hold their values exactly. */
void cls_selftest_row(uint32_t seed, int kind, int32_t dtype, uint32_t vocab, void *logits);

/* Write the mask and the dense bias that cases share, one row each. */
void cls_selftest_mask(int32_t kind, uint32_t vocab, void *mask);
void cls_selftest_dense(int32_t dtype, uint32_t vocab, void *bias);

/* Write the tables of the infill stage: the token that each token begins with, and the tokens that
 * end a generation. */
#define SELFTEST_ENDS 2
void cls_selftest_prefixes(int32_t prefix_of[SELFTEST_VOCAB]);
void cls_selftest_ends(int32_t ends[SELFTEST_ENDS]);

/* ------------------------------------------------------------- known.c */

/* A token, and a digest of the host's results that belong to it. */
typedef struct cls_selftest_known {
    int32_t token;
    uint32_t digest;
} cls_selftest_known;

/* The most answers of a selection. They are those of each step of each case, and of each request of
 * each method. */
#define SELFTEST_ANSWERS \
    (SELFTEST_MOST_CASES * SELFTEST_STEPS + SELFTEST_METHODS * SELFTEST_REQUESTS)

/* The known answers of the whole self-test. */
extern const cls_selftest_known cls_selftest_table[];
extern const uint32_t cls_selftest_table_count;

/* Returns the index of a request's answer. */
static inline uint32_t cls_selftest_draft_answer(const cls_selftest_selection *selection,
                                                 int method, uint32_t request)
{
    return selection->count * SELFTEST_STEPS + (uint32_t)method * SELFTEST_REQUESTS + request;
}

/* --------------------------------------- run.c, parts.c and selftest.c */

/* The buffers of the steps of all cases. */
enum {
    IN_LOGITS,
    IN_WORDS,                          /* the packed mask */
    IN_DENSE,                          /* the dense bias in each type */
    IN_TOKENS = IN_DENSE + CLS_DTYPES, /* what the steps write */
    IN_STATUS,
    INPUTS
};

/* Where the calls of a run are made. Both sides make the same calls, on memory of their own. */
enum { SIDE_HOST, SIDE_DEVICE, SIDES };
typedef struct cls_selftest_side {
    cls_context *context;
    cl_command_queue queue; /* NULL on the host */
    cls_sampler *sampler;
    cls_buffer in[INPUTS];
    int32_t token[SELFTEST_STEPS * SELFTEST_MOST_CASES]; /* [steps][cases] */
    int32_t status[SELFTEST_STEPS * SELFTEST_MOST_CASES];
    cls_row trace[SELFTEST_STEPS * SELFTEST_MOST_CASES];
} cls_selftest_side;

/* A self-test or a proof while it runs. */
typedef struct cls_selftest_run {
    cls_selftest_side side[SIDES];
    cls_selftest_selection selection;
    cls_tested tested;
    const cls_selftest_known *known;             /* in a proof, those of the host */
    cls_selftest_known answer[SELFTEST_ANSWERS]; /* of the host */
    /* 1 once the host has run the steps: it runs those of the first type only, since the type of
     * logits must not change an answer. */
    int answered;
    cls_variant_set launched;             /* variants that were launched without the sampler */
    int32_t dtype;                        /* type of logits under test */
    int32_t maps[4][SELFTEST_MOST_CASES]; /* of steps: draws, masks, biases, slots */
    uint8_t bools[SELFTEST_MOST_VOCAB];   /* the mask in bytes */
} cls_selftest_run;

/* Returns 1 if the device's sampler has one of these features. The host's has all. */
static inline int cls_selftest_has(const cls_selftest_run *t, uint32_t features)
{
    return (t->side[SIDE_DEVICE].sampler->features & features) != 0;
}

/* Returns a run of nothing yet, which cls_selftest_close() frees, or NULL if memory runs out. */
cls_selftest_run *cls_selftest_new(cls_context *context);
void cls_selftest_close(cls_selftest_run *t);

/* Creates the queue of a run and, unless `features` is 0, the samplers of both sides; the device's
 * has no kernels yet. */
cls_status cls_selftest_open(cls_selftest_run *t, uint32_t features);

/* Runs the parts of the selection with the type t->dtype; a proof ends after the first part with a
 * wrong answer. Wrong answers are counted. A call that fails counts as a case of the part's stage,
 * and ends the run. */
cls_status cls_selftest_parts(cls_selftest_run *t);

/* Returns the first stage that failed, or NULL. */
const cls_selftest_stage *cls_selftest_failed(const cls_tested *tested);

/* Counts a case of a stage. It failed unless the message is empty. */
void cls_selftest_count(cls_selftest_run *t, int stage, const char *message);

/* Writes the name of a case for messages, such as "top-p .5, float16, second token". */
void cls_selftest_name(const cls_selftest_run *t, const char *name, uint32_t step, char *out,
                       size_t size);

/* Creates a side's buffer, with contents unless `contents` is NULL. Fails if memory runs out or
 * OpenCL fails. */
cls_status cls_selftest_buffer(const cls_selftest_side *side, size_t size, const void *contents,
                               cls_buffer *out);
void cls_selftest_release(cls_buffer *buffer);

/* Returns the part of a buffer from an offset on. */
static inline cls_buffer cls_selftest_at(cls_buffer buffer, uint64_t offset)
{
    buffer.offset += offset;
    buffer.size -= offset;
    return buffer;
}

/* Reads a buffer. Fails if OpenCL does. */
cls_status cls_selftest_read(const cls_selftest_side *side, const cls_buffer *buffer, size_t size,
                             void *contents);

/* Returns the status of a self-test, whose samplers its caller does not know: CLS_OPENCL_ERROR in
 * place of CLS_LOST. */
cls_status cls_selftest_status(cls_status status);

/* Begins a request of a side in a slot, with a text. */
cls_status cls_selftest_begin(const cls_selftest_side *side, uint32_t slot,
                              const cls_params *params, cls_ids prompt, cls_ids output);

/* Returns the FNV-1a hash of words. */
uint32_t cls_selftest_digest(const uint32_t *words, size_t n);

/* Runs the self-test with another table of answers, for tests; NULL: with those of the host.
 * answers: [SELFTEST_ANSWERS] gets the host's, or NULL. Fails if the device or the host gives a
 * wrong answer, if memory runs out or if OpenCL fails. */
cls_status cls_selftest_with(cls_context *context, const cls_selftest_known *known,
                             cls_selftest_known *answers, cls_tested *tested);

/* ------------------------------------- steps.c, outputs.c, calls.c */

/* Gives a step the mask and the dense bias, for the rows whose maps have 0, as far as the sampler
 * has kernels: packed and float32, or bytes and float16. */
void cls_selftest_guide(const cls_selftest_run *t, const cls_selftest_side *side, int packed,
                        const int32_t *masks, const int32_t *biases, cls_step *step);

/* Test the steps of all cases, the outputs of rows, and cls_verify() with one type of logits, and
 * cls_draft(), which reads none. Wrong answers are counted. They fail if a call fails. The buffers
 * of the steps stay, since the outputs need them, too. */
cls_status cls_selftest_steps(cls_selftest_run *t);
cls_status cls_selftest_outputs(cls_selftest_run *t);
cls_status cls_selftest_verify(cls_selftest_run *t);
cls_status cls_selftest_lookup(cls_selftest_run *t);

#endif
