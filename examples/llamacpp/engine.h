/* SPDX-License-Identifier: MIT */
/* What the parts of in_place.c share: llama.cpp's model and context, and a sampler of clsample in
 * ggml's OpenCL context. The first error ends the program. */
#ifndef ENGINE_H
#define ENGINE_H

#include "clsample-llama-logits.h"

enum {
    REQUESTS = 8,
    DRAFTS = 4,
    WIDTH = DRAFTS + 1,
    MAX_TOKENS = 512,
    MAX_BATCH = 256,
    HISTORY = 1024
};
enum { KEPT = 64 }; /* ids of a kept set that are read: top-k keeps fewer */

/* What a call writes, in one buffer for one read. A step without drafts fills the first column. */
typedef struct results {
    int32_t tokens[REQUESTS][WIDTH], statuses[REQUESTS][WIDTH];
    int32_t accepted[REQUESTS], emitted[REQUESTS];
    float logprobs[REQUESTS][WIDTH];
    int32_t drafts[REQUESTS][DRAFTS]; /* for the next call */
} results;

/* What a step of the comparison of kept sets writes, in the same buffer. */
typedef struct kept {
    int32_t tokens[REQUESTS], counts[REQUESTS], ids[REQUESTS][KEPT];
} kept;

typedef struct model {
    struct llama_model *llama;
    const struct llama_vocab *vocab;
    uint32_t words;
    int32_t ends[64]; /* what llama.cpp takes for the end of a text */
    uint32_t end_count;
} model;

/* What says how to sample: on the device, or the same on the host, for the comparison. */
typedef struct side {
    cls_context *context;
    cls_sampler *sampler;
    cl_mem memory; /* NULL: on the host, at `host` */
    void *host;
} side;

/* A context of llama.cpp whose logits stay where they are, and the samplers for it. */
typedef struct engine {
    const model *m;
    struct llama_context *llama;
    clsample_llama_logits *logits;
    cl_command_queue own; /* where llama.cpp does not tell its queue */
    struct llama_batch batch;
    side device, host;
    results host_results;
} engine;

_Noreturn void fail(const char *format, ...);
void must(int code); /* of clsample or of OpenCL */

void model_open(model *m, const char *path, bool on_cpu);
void model_close(model *m);
uint32_t tokenize(const model *m, const char *text, int32_t *tokens); /* [MAX_TOKENS] */
void append_piece(const model *m, int32_t token, char *text, size_t room);

/* Options of a context for `sequences`, which both sides of a comparison have. */
struct llama_context_params context_options(uint32_t sequences);

/* cache: a folder for compiled programs, or NULL. */
void engine_open(engine *e, const model *m, uint32_t sequences, const char *cache);
void engine_close(engine *e);

void batch_add(struct llama_batch *batch, int32_t token, uint32_t position, uint32_t sequence,
               bool logits);
/* Decodes the batch, and finds its logits. Returns the queue to enqueue on. */
cl_command_queue engine_decode(engine *e, clsample_llama_place *place);
/* The logits on the host, for comparisons: [rows, words]. */
void engine_read_logits(engine *e, uint32_t rows, float *logits);

/* A part of a side's results. */
cls_buffer part(const side *s, size_t offset, size_t size);
#define PART(side, type, field) part(side, offsetof(type, field), sizeof((type *)0)->field)

/* A grammar of the texts of one form, in which \d stands for a digit, \u and \l for an upper and a
 * lower letter, and every other character for itself. */
cls_grammar *grammar_of(const model *m, const char *form);

/* The modes. They return the program's exit status. */
int mode_requests(const model *m, const char *cache, uint32_t tokens);
int mode_bytes(const model *m, const char *cache, uint32_t steps);
int mode_speed(const model *m, const char *cache, uint32_t steps);
int mode_kept(const model *m, const char *cache, uint32_t steps);

#endif /* ENGINE_H */
