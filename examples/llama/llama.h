/* SPDX-License-Identifier: MIT */
/* llama - text from a small language model, whose tokens never leave the
 * device but to be printed. How it flows:
 *
 *     options.c       what is asked for: requests and their parameters
 *     checkpoint.c    weights and sizes from a file (random.c makes one)
 *     tokenizer.c     text to tokens and back
 *     device.c        platform, context, queue: this program owns them
 *     model.c         tokens to hidden states: the transformer, model.cl
 *     sampling.c      hidden states to tokens: clsample
 *     drafts.c        guesses at the next tokens, to be verified
 *     batch.c         which rows a step has; steps ahead; what became of them
 *     text.c          texts as they come, the table, JSON
 *     check.c         the model against recorded logits
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

/* Every error is one sentence on standard error, and exit 1. */
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
    bool own_classifier; /* or else it is the embedding */
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
                          int32_t **tokens); /* BOS first; the caller's to free */
const char *tokenizer_piece(const tokenizer *t, int32_t before, int32_t token, char byte[2]);

/* ----------------------------------------------------------------- options.c */

typedef enum ending { RUNNING, STOPPED, FULL, FAILED } ending;

typedef struct request {
    const char *prompt;
    cls_params params;
    int32_t *tokens; /* the prompt's, then the output's */
    uint32_t n_prompt, n_output;
    uint32_t most; /* output tokens */
    ending end;
    int32_t status; /* of its rows: cls_row_status bits but CLS_ROW_STOPPED */

    /* How far the enqueued steps are: ahead of n_output. */
    uint32_t slot;
    uint32_t fed;     /* tokens of the prompt */
    uint32_t sampled; /* tokens of the output */
} request;

typedef enum draft_source { NO_DRAFTS, BY_TEXT, BY_LAYERS } draft_source;
enum {
    MOST_DRAFTS = 15
}; /* of a step: each layers=N makes takes clsample's staging, which is for 16 */

typedef struct options {
    const char *checkpoint, *tokenizer, *prompts, *check_logits, *check_tokens, *draft, *method;
    uint32_t device; /* UINT32_MAX: any */
    uint32_t n_requests, streams, batch, chunk, ahead;
    bool stream, json, host_sampling, make_random;
    draft_source drafts_from;
    uint32_t drafts, draft_layers; /* of a request and step; that make them */
    int32_t verify;                /* a cls_verify_method */
    cls_params params;             /* of requests that have none of their own */
    request *requests;
    char **texts; /* the prompts' */
    uint32_t n_texts;
} options;

void options_read(options *o, int argc, char **argv);
void options_encode(options *o, const config *c, const tokenizer *t);
void options_free(options *o);

/* ------------------------------------------------------------------- model.c */

/* A step's rows, one token of a request each. */
enum { ROW_TOKEN, ROW_SLOT, ROW_POSITION, ROW_PICK, ROW_FIELDS };

typedef struct model {
    device *d;
    config c;
    uint32_t batch, slots;
    cl_program program;
    cl_kernel embed, norm, rope, attend, swiglu, product;
    struct {
        cl_mem att_norm, wqkv, wo, ffn_norm, w13, w2;
    } * layer;
    cl_mem embedding, last_norm, classifier, angles; /* classifier: may be the embedding */
    cl_mem keys, values;                             /* [slots, layers, context, kv_dim] */
    cl_mem rows;                                     /* int32 [ROW_FIELDS, batch] */
    cl_mem x, normed, qkv, mixed, gates, inner;      /* [batch, ...] */
} model;

void model_open(model *m, device *d, const checkpoint *weights, uint32_t batch, uint32_t slots);
void model_warm_up(model *m);
void model_close(model *m);
const char *model_products(void); /* who makes them */

/* y = x w^T, or y += x w^T: x [batch, in], w [out, in], y [batch, out]. Always
 * the whole batch: one shape, so that no row depends on how many there are. */
void model_product(model *m, cl_mem x, cl_mem w, cl_mem y, uint32_t out, uint32_t in, bool add);

/* Uploads `rows` (which must stay until *uploaded is complete) and takes `n` of
 * them through the first `layers`, to m->normed. A token below 0 is entry -1 - token of
 * `tokens`, on the device. */
void model_forward(model *m, const int32_t *rows, uint32_t n, uint32_t layers, cl_mem tokens,
                   cl_event *uploaded);

/* ---------------------------------------------------------------- sampling.c */

typedef struct sampling {
    model *m;
    uint32_t most;   /* requests of a step */
    uint32_t drafts; /* of each */
    cls_context *context;
    cls_head *head;
    cls_sampler *sampler;
    cls_readback *readback;
    cl_mem logits; /* float32 [batch, vocab] */
    cl_mem out; /* int32: tokens [most, drafts + 1], statuses [most], drafts accepted [most]; what
                   the host reads */
    cl_mem latest; /* int32 [slots]: what the next look-up reads */
    bool on_host;  /* then the next two are used, and neither sampler nor readback */
    float *host_logits;
    int32_t *host_out, *host_latest;
} sampling;

typedef struct sampled {
    const int32_t *tokens, *status, *accepted; /* accepted: of a verification */
} sampled;

void sampling_open(sampling *s, model *m, const options *o);
void sampling_close(sampling *s);

/* A request takes its slot; what was there is gone. */
void sampling_begin(sampling *s, const request *r);

/* Logits of `n` of the rows of the last model_forward(), ROW_PICK of these
 * `rows`, in that order. False: too much is in flight. */
bool sampling_logits(sampling *s, const int32_t *rows, uint32_t n);

/* A token for each of n rows of logits, left on the device and on its way to
 * the host; only enqueues. False: too much is in flight. */
bool sampling_start(sampling *s, const int32_t *slots, uint32_t n, cl_event *done,
                    uint64_t *ticket);

/* The same of a verification, which says whose drafts there are and where; logits and outputs are
 * set here. */
bool sampling_verify(sampling *s, cls_verify_call *call, cl_event *done, uint64_t *ticket);
sampled sampling_wait(sampling *s, uint64_t ticket);

/* The same by logits copied to the host; waits. */
sampled sampling_on_host(sampling *s, const request *requests, const uint32_t *who, uint32_t n);

/* ------------------------------------------------------------------ drafts.c */

/* Guesses at what requests write next: the same number for each, -1 in the place of those that were
 * not made. */
typedef struct drafts {
    model *m;
    sampling *s;
    draft_source from;
    uint32_t most, layers; /* of a request; that make them */
    int32_t verify;        /* a cls_verify_method */
    uint32_t *n;           /* [streams]: that each request has */
    int32_t *cu;           /* [streams + 1] */
    int32_t *ids;          /* [streams, most]: those of the host, BY_TEXT */
    cl_mem there;          /* int32 [streams, most]: those of the device, BY_LAYERS */
    cl_mem
        probs; /* float32 [streams, most, vocab], which they were drawn from; NULL: nobody asks */
    cl_mem drawn, drawn_probs; /* one of each request */
    int32_t *rows[MOST_DRAFTS], *slots, *positions;
} drafts;

void drafts_open(drafts *d, model *m, sampling *s, const options *o);
void drafts_close(drafts *d);

/* For n requests, all of whose tokens the host knows. *begun: the first command on
 * the device, or NULL where there is none. */
void drafts_propose(drafts *d, request *const *who, uint32_t n, cl_event *begun);

/* Draft k of request i, as model_forward() takes it, with d->there. */
int32_t drafts_token(const drafts *d, uint32_t i, uint32_t k);

/* As sampling_start(), of n requests with their drafts: rows of logits are [n, most + 1]. */
bool drafts_verify(drafts *d, const int32_t *slots, uint32_t n, cl_event *done, uint64_t *ticket);

/* ------------------------------------------------------------------- batch.c */

typedef struct totals {
    uint64_t steps, rows, prompt_tokens, tokens; /* rows: with those of requests that had stopped */
    uint64_t drafted, accepted;
    uint32_t finished;        /* requests */
    double seconds;           /* from the first step on */
    double working, sampling; /* seconds of the device at steps; of these from logits to tokens */
} totals;

void batch_run(model *m, sampling *s, const options *o, const tokenizer *t, totals *sum);

/* -------------------------------------------------------------------- text.c */

void text_show(const options *o, const tokenizer *t, const totals *sum);
void text_table(const options *o, const model *m, const totals *sum);
void text_json(const options *o, const model *m, const tokenizer *t, const totals *sum);

/* ------------------------------------------------------------------- check.c */

int check(model *m, sampling *s, const options *o);

#endif
