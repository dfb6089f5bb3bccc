/* SPDX-License-Identifier: MIT */
/* llama - generates text with a small language model. Tokens stay on the device and are copied to
 * the host only to be printed. The files, in the order of the flow:
 *
 *     options.c       command line: requests and their parameters
 *     checkpoint.c    weights and sizes from a file (random.c writes a random one)
 *     tokenizer.c     text to tokens and back
 *     device.c        platform, context and queue, which this program owns
 *     model.c         tokens to hidden states: the transformer (kernels in model.cl)
 *     sampling.c      hidden states to tokens, by clsample
 *     whole.c         the vocabulary is on one device (examples/tensor_parallel: on several)
 *     drafts.c        draft tokens for the verification
 *     batch.c         the rows of each step; steps in flight; their results
 *     text.c          prints texts, the table and JSON
 *     check.c         compares the model with recorded logits
 */
#ifndef LLAMA_H
#define LLAMA_H

#define CL_TARGET_OPENCL_VERSION 120
#include <clsample.h>
#include <clsample/head.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ device.c */

/* Prints one sentence to standard error and exits with status 1. */
_Noreturn void die(const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;
void *allocate(size_t count, size_t size); /* zeros */
void must(cls_status status, const char *what);
void must_cl(cl_int error, const char *what);
double now(void);

typedef struct device {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue; /* in order, with profiling */
    char name[128];
    bool is_cpu;
} device;

void device_open(device *d, uint32_t number); /* UINT32_MAX: the first that clsample can use */
void device_close(device *d);
cl_mem device_buffer(const device *d, size_t size, const void *data); /* data NULL: zeros */

/* -------------------------------------------------------------- checkpoint.c */

typedef struct config {
    uint32_t dim, hidden, layers, heads, kv_heads, vocab, context;
    uint32_t head_dim, kv_dim;
    bool own_classifier; /* else the classifier is the embedding */
} config;

typedef struct checkpoint {
    config c;
    float *data;
    const float *embedding, *att_norm, *wq, *wk, *wv, *wo, *ffn_norm, *w1, *w2, *w3, *norm,
        *classifier;
} checkpoint;

void checkpoint_load(checkpoint *m, const char *path);
void checkpoint_free(checkpoint *m);
void make_random(const char *checkpoint, const char *tokenizer);

/* --------------------------------------------------------------- tokenizer.c */

enum { BOS = 1, EOS = 2 };

typedef struct tokenizer {
    uint32_t vocab, longest;
    char **piece;
    float *score;
    int32_t *sorted; /* ids in the order of their pieces */
} tokenizer;

void tokenizer_load(tokenizer *t, const char *path, uint32_t vocab);
void tokenizer_free(tokenizer *t);
uint32_t tokenizer_encode(const tokenizer *t, const char *text,
                          int32_t **tokens); /* the first is BOS; the caller frees them */
const char *tokenizer_piece(const tokenizer *t, int32_t before, int32_t token, char byte[2]);

/* ----------------------------------------------------------------- options.c */

typedef enum ending { RUNNING, STOPPED, FULL, FAILED } ending;

typedef struct request {
    const char *prompt;
    cls_params params;
    int32_t *tokens; /* of the prompt, then of the output */
    uint32_t n_prompt, n_output;
    uint32_t most; /* the most output tokens */
    ending end;
    int32_t status; /* cls_row_status bits of its rows, without CLS_ROW_STOPPED */

    /* The progress of the enqueued steps, which are ahead of n_output. */
    uint32_t slot;
    uint32_t fed;     /* tokens of the prompt that the model has */
    uint32_t sampled; /* tokens of the output that steps sample */
} request;

typedef enum draft_source { NO_DRAFTS, BY_TEXT, BY_LAYERS } draft_source;
/* The most drafts of a step: each draft by layers=N uses clsample's staging, which has 16 entries.
 */
enum { MOST_DRAFTS = 15 };

typedef struct options {
    const char *checkpoint, *tokenizer, *prompts, *check_logits, *check_tokens, *draft, *method;
    const char *cache_dir;
    uint32_t device; /* UINT32_MAX: the first usable one */
    uint32_t n_requests, streams, batch, chunk, ahead;
    bool stream, json, make_random, half;
    draft_source drafts_from;
    uint32_t drafts;       /* the most drafts of a request in a step */
    uint32_t draft_layers; /* the number of layers that make them */
    int32_t verify;        /* a cls_verify_method */
    cls_params params;     /* the defaults for all requests */
    request *requests;
    char **texts; /* the prompts */
    uint32_t n_texts;
} options;

void options_read(options *o, int argc, char **argv);
void options_encode(options *o, const config *c, const tokenizer *t);
void options_free(options *o);

/* ------------------------------------------------------------------- model.c */

/* The fields of a step's rows. Each row is one token of a request. */
enum { ROW_TOKEN, ROW_SLOT, ROW_POSITION, ROW_PICK, ROW_FIELDS };

typedef struct model {
    device *d;
    config c;
    uint32_t batch, slots;
    cl_program program;
    cl_kernel embed, norm, rope, attend, swiglu, product, halve;
    struct {
        cl_mem att_norm, wqkv, wo, ffn_norm, w13, w2;
    } * layer;
    cl_mem embedding, last_norm, classifier, angles; /* classifier may be the same as embedding */
    cl_mem keys, values;                             /* [slots, layers, context, kv_dim] */
    cl_mem rows;                                     /* int32 [ROW_FIELDS, batch] */
    cl_mem x, normed, qkv, mixed, gates, inner;      /* [batch, ...] */
} model;

void model_open(model *m, device *d, const checkpoint *weights, uint32_t batch, uint32_t slots);
void model_warm_up(model *m);
void model_close(model *m);
const char *model_products(void); /* "CLBlast" or "own kernel" */

/* y = x w^T, or y += x w^T with `add`: x [batch, in], w [out, in], y [batch, out]. It always
 * computes the whole batch: with one shape no row depends on how many rows there are. */
void model_product(model *m, cl_mem x, cl_mem w, cl_mem y, uint32_t out, uint32_t in, bool add);

/* Returns `count` rows of the classifier, in float32 or float16, for the last layer. The caller
 * releases them. */
cl_mem model_classifier(model *m, uint32_t first, uint32_t count, bool half);

/* Uploads `rows`, which must not change until *uploaded is complete, and computes the first
 * `layers` layers of `n` of them. The result is in m->normed. A negative token is entry -1 - token
 * of the buffer `tokens`. */
void model_forward(model *m, const int32_t *rows, uint32_t n, uint32_t layers, cl_mem tokens,
                   cl_event *uploaded);

/* ---------------------------------------------------------------- sampling.c */

typedef struct sampling {
    model *m;
    uint32_t most;   /* the most requests in a step */
    uint32_t drafts; /* the most drafts of each */
    cls_context *context;
    cls_head *head;
    cl_mem weight;         /* of the head: [count, dim] */
    uint32_t first, count; /* the tokens whose logits this process computes */
    cls_sampler *sampler;
    cls_readback *readback;
    cl_mem logits; /* float32 [batch, count] */
    cl_mem out;    /* int32: tokens [most, drafts + 1], statuses [most], accepted drafts [most] */
    cl_mem latest; /* int32 [slots]: the tokens that the next embedding look-up reads */
} sampling;

typedef struct sampled {
    const int32_t *tokens, *status, *accepted; /* accepted: only after a verification */
} sampled;

void sampling_open(sampling *s, model *m, const options *o);
void sampling_close(sampling *s);

/* Begins a request in its slot. */
void sampling_begin(sampling *s, const request *r);

/* Computes logits for the rows of the last model_forward() that the first `n` entries of ROW_PICK
 * select. False: too many calls are in flight; wait for one and repeat. */
bool sampling_logits(sampling *s, const int32_t *rows, uint32_t n);

/* Samples a token for each of n rows of logits and starts its readback. It only enqueues. False:
 * too many steps are in flight. */
bool sampling_start(sampling *s, const int32_t *slots, uint32_t n, cl_event *done,
                    uint64_t *ticket);

/* Does the same for a verification. The call has the requests and their drafts; this function sets
 * logits and outputs. */
bool sampling_verify(sampling *s, cls_verify_call *call, cl_event *done, uint64_t *ticket);
sampled sampling_wait(sampling *s, uint64_t ticket);

/* ------------------------------------------------------------------- whole.c */

/* How the vocabulary is divided between processes: here not at all. examples/tensor_parallel has
 * another file with these functions. */

/* Comes first and last in the program. vocabulary_begin() returns false in a process that must not
 * write files, because another does. */
bool vocabulary_begin(int *argc, char ***argv);
void vocabulary_end(void);

/* Divides the vocabulary of s->sampler: sets s->first and s->count. */
void vocabulary_open(sampling *s, const options *o);
void vocabulary_close(sampling *s);

/* Samples a step whose logits are this process's part. */
cls_status vocabulary_sample(sampling *s, const cls_step *step, cl_event *done);

/* Sets *logits to `rows` rows of the whole vocabulary, of which s->logits has this process's part.
 */
cls_status vocabulary_gather(sampling *s, uint32_t rows, cls_logits *logits);

/* ------------------------------------------------------------------ drafts.c */

/* Draft tokens: guesses at the next tokens of each request. Each request has the same number of
 * entries; unused ones are -1. */
typedef struct drafts {
    model *m;
    sampling *s;
    draft_source from;
    uint32_t most;     /* the most drafts of a request */
    uint32_t layers;   /* the number of layers that make them */
    int32_t verify;    /* a cls_verify_method */
    uint32_t *n;       /* [streams]: the drafts of each request */
    int32_t *cu;       /* [streams + 1] */
    cl_mem device_ids; /* int32 [streams, most]: the drafts */
    cl_mem probs;      /* float32 [streams, most, vocab]: their distributions; NULL: not needed */
    cl_mem drawn, drawn_probs; /* one draft of each request */
    int32_t *rows[MOST_DRAFTS], *slots, *positions;
} drafts;

void drafts_open(drafts *d, model *m, sampling *s, const options *o);
void drafts_close(drafts *d);

/* Makes drafts for n requests. The host must have all of their tokens. *begun: the first command on
 * the device. */
void drafts_propose(drafts *d, request *const *requests, uint32_t n, cl_event *begun);

/* Draft k of request i as a token for model_forward(), whose `tokens` is then d->device_ids. */
int32_t drafts_token(const drafts *d, uint32_t i, uint32_t k);

/* Verifies the drafts of n requests, with logits [n, most + 1]; otherwise like sampling_start(). */
bool drafts_verify(drafts *d, const int32_t *slots, uint32_t n, cl_event *done, uint64_t *ticket);

/* ------------------------------------------------------------------- batch.c */

typedef struct totals {
    uint64_t steps, rows, prompt_tokens, tokens; /* rows include those after a request's end */
    uint64_t drafted, accepted;
    uint32_t finished;        /* requests */
    double seconds;           /* since the first step */
    double working, sampling; /* device seconds of all steps, and of these from logits to tokens */
} totals;

void batch_run(model *m, sampling *s, const options *o, const tokenizer *t, totals *sum);

/* -------------------------------------------------------------------- text.c */

void text_show(const options *o, const tokenizer *t, const totals *sum);
void text_table(const options *o, const model *m, const totals *sum);
void text_json(const options *o, const model *m, const tokenizer *t, const totals *sum);

/* ------------------------------------------------------------------- check.c */

int check(model *m, sampling *s, const options *o);

#endif
