/* SPDX-License-Identifier: MIT */
/* The self-test: what its files know of each other. Requests of all kinds are
 * sampled on the device, by the host functions, and by numbers that were written
 * down: three opinions, of which two tell which one is wrong. */
#ifndef CLS_SELFTEST_H
#define CLS_SELFTEST_H

#include "reference/reference.h"
#include "step/step.h"

/* Five mass tiles, the last one ragged; more tokens than any shortlist holds. */
#define SELFTEST_VOCAB 5003u
#define SELFTEST_STEPS 2 /* of every case */
#define SELFTEST_HISTORY 32
#define SELFTEST_ROLLBACK 8
#define SELFTEST_LISTS 8u   /* of candidates ... */
#define SELFTEST_LIST 16u   /* ... so long */
#define SELFTEST_NAN_LIST 2 /* has one */
#define SELFTEST_METHODS 5  /* of verification */
#define SELFTEST_REQUESTS 4 /* of one verification ... */
#define SELFTEST_DRAFTS 3   /* ... with so many drafts each */
#define SELFTEST_ROWS (SELFTEST_REQUESTS * (SELFTEST_DRAFTS + 1))

/* In the order of the flow: the report's lines. */
enum cls_selftest_stage_index {
    ST_ARITHMETIC,
    ST_RANDOM,
    ST_SURVEY,
    ST_MASKS,
    ST_BIASES,
    ST_PENALTIES,
    ST_HISTORY,
    ST_SHORTLIST,
    ST_TOP_K,
    ST_TOP_P,
    ST_MIN_P,
    ST_TOP_A,
    ST_SIGMA,
    ST_TYPICAL,
    ST_XTC,
    ST_P_LESS,
    ST_INFILL,
    ST_TEMPERATURE,
    ST_SEARCH,
    ST_DRAW,
    ST_MIROSTAT,
    ST_ADAPTIVE,
    ST_DECAY,
    ST_SLOTS,
    ST_REPORT,
    ST_LOGPROBS,
    ST_CANDIDATES,
    ST_MATCH,
    ST_STANDARD,
    ST_BLOCK,
    ST_VERIFY_TYPICAL,
    ST_VERIFY_GREEDY,
    ST_STAGES
};

/* ------------------------------------------------------------- cases.c */

/* What a row of logits looks like. */
enum cls_selftest_row {
    ROW_PEAKED, /* half as many tokens for each step up: like a language model's */
    ROW_TEXT,   /* the likeliest are the first 32, which are in texts and lists */
    ROW_FLAT,   /* 64 values close together */
    ROW_TIES,   /* three values */
    ROW_EQUAL,  /* one */
    ROW_NAN,    /* peaked, with NaN and -inf in it */
    ROW_INF,    /* peaked, with two of +inf */
    ROW_EMPTY   /* NaN and -inf alone */
};

/* What a case has beside its parameters. */
#define WITH_TEXT 1u /* a prompt and an output */
#define WITH_MASK 2u
#define WITH_DENSE 4u /* a dense bias */
#define WITH_BIAS 8u  /* the lists that are asked for by parameters: logit biases, */
#define WITH_STOP 16u /* stop ids, */
#define WITH_BREAKERS 32u
#define WITH_BAD_WORDS 64u
#define WITH_ALLOWED 128u

/* How its request comes to be what it is when it is sampled. */
enum cls_selftest_way {
    BY_BEGIN,
    BY_ACCEPT,   /* the last two tokens of the output are accepted */
    BY_ROLLBACK, /* so is one more, and taken back */
    BY_COPY,     /* a fork of another request, which then gets other parameters */
    BY_APPEND,   /* the prompt comes in two parts */
    BY_LOAD,     /* saved and loaded */
    BY_RESET     /* where another request was */
};

/* A field of cls_params and what it is set to. */
typedef struct cls_selftest_setting {
    size_t field;
    double value;
    char kind; /* 'f': float; 'i': 32 bits; 'l': 64; 0: none, the end */
} cls_selftest_setting;

/* A request, which draws SELFTEST_STEPS tokens. */
typedef struct cls_selftest_case {
    uint8_t stage, row, with, way;
    const char *name;
    int32_t draw;
    uint8_t chain[4]; /* of a custom chain; empty: none */
    cls_selftest_setting set[8];
} cls_selftest_case;

extern const cls_selftest_case cls_selftest_cases[];
extern const uint32_t cls_selftest_case_count;

/* Five of the cases have all that can be told of a row told, four have drafts verified. */
#define SELFTEST_TOLD 5
extern const char *const cls_selftest_told[SELFTEST_TOLD];
extern const char *const cls_selftest_verified[SELFTEST_REQUESTS];
uint32_t cls_selftest_find(const char *name);

/* Of a case's row and of its random numbers: by its name, so that other cases
 * don't change it. */
uint32_t cls_selftest_seed(uint32_t i);

/* A case's request. The arrays are static. */
void cls_selftest_params(uint32_t i, cls_params *params);
void cls_selftest_text(uint32_t i, cls_host_row *row);

/* Logits that all types of logits hold exactly. dtype: how they are written. */
void cls_selftest_row(uint32_t seed, int kind, int32_t dtype, void *logits);
/* The mask and the dense bias, one row each, that cases share. */
void cls_selftest_mask(int32_t kind, void *mask);
void cls_selftest_dense(int32_t dtype, void *bias);
/* The tables of infill: of each token the one that its text begins with; tokens
 * that end a generation. */
#define SELFTEST_ENDS 2
void cls_selftest_prefixes(int32_t prefix_of[SELFTEST_VOCAB]);
void cls_selftest_ends(int32_t ends[SELFTEST_ENDS]);

/* ------------------------------------------------------------- known.c */

/* A token, and a digest of all that the host knows of how it came about. */
typedef struct cls_selftest_known {
    int32_t token;
    uint32_t digest;
} cls_selftest_known;

/* Of each case's steps, the lists, the methods' requests. */
extern const cls_selftest_known cls_selftest_table[];
extern const uint32_t cls_selftest_table_count;

/* -------------------------------------------------------------- host.c */

/* What the host says. */
typedef struct cls_selftest_answers {
    cls_row *trace;          /* [cases][steps] */
    cls_host_result *result; /* [cases][steps] */
    int32_t list_token[SELFTEST_LISTS];
    cls_host_verified verified[SELFTEST_METHODS][SELFTEST_REQUESTS];
    cls_selftest_known *known; /* in the table's order: what it should have */
    uint32_t count;
} cls_selftest_answers;

cls_status cls_selftest_answer(cls_selftest_answers *answers);
void cls_selftest_forget(cls_selftest_answers *answers);

/* Lists of candidates. */
void cls_selftest_lists(int32_t *ids, float *logits);

/* The rows of a request with drafts, and these. */
uint32_t cls_selftest_draft_seed(uint32_t request, uint32_t row);
int32_t cls_selftest_draft(int method, uint32_t request, uint32_t draft);
/* How a method has its drafts' distributions; [SELFTEST_REQUESTS][SELFTEST_DRAFTS] of these rows.
 */
int32_t cls_selftest_draft_kind(int method);
size_t cls_selftest_distributions(int32_t kind, int32_t dtype, void *rows);
/* What drafts follow, where a method takes trees; NULL elsewhere. */
const int32_t *cls_selftest_parents(int method, uint32_t request);

/* ------------------------------------------------------------------ selftest.c */

/* A self-test under way. */
typedef struct cls_selftest_run {
    cls_context *context;
    cl_command_queue queue;
    cls_sampler *sampler;
    cls_selftest_report report;
    const cls_selftest_known *known;
    cls_selftest_answers host;
    int32_t dtype;           /* under test */
    int32_t *token, *status; /* [cases] a step's */
    cls_row *trace;          /* [cases] */
} cls_selftest_run;

/* Counts a case, which failed if there is something to say. */
void cls_selftest_count(cls_selftest_run *t, int stage, const char *what);
/* Names the case for what is said of it: "top-p 0.9, float16, token 2". */
void cls_selftest_name(const cls_selftest_run *t, const char *name, uint32_t step, char *out,
                       size_t size);

/* A buffer of the test's; its contents, or none. */
cls_status cls_selftest_buffer(cls_selftest_run *t, size_t size, const void *contents, cl_mem *out);
cls_status cls_selftest_read(cls_selftest_run *t, cl_mem buffer, size_t size, void *contents);

/* With another table: for tests. */
cls_status cls_selftest_with(cls_context *context, const cls_selftest_known *known,
                             cls_selftest_report *report);

/* ------------------------------------------------- steps.c, calls.c */

/* For one type of logits. */
cls_status cls_selftest_steps(cls_selftest_run *t);
cls_status cls_selftest_tell(cls_selftest_run *t);
cls_status cls_selftest_draw(cls_selftest_run *t);
cls_status cls_selftest_verify(cls_selftest_run *t);

#endif
