/* SPDX-License-Identifier: MIT */
/* What is measured: a device and a shape of logits. */
#ifndef BENCH_SETUP_H
#define BENCH_SETUP_H

#include "bench/cases.h"

/* A function that runs steps returns 1 without a message after an interrupt. The results of the
 * current case are lost then; those of earlier cases are kept. */

/* The setup of a measurement: a device and a shape of logits. */
typedef struct bench_setup {
    const cli_target *on; /* the open device, or `host` */
    cli_target host;      /* only a context, of the host, which is the reference */
    cls_sampler *sampler;
    uint32_t batch, vocab;
    uint32_t first; /* the row whose request slot 0 has: 0, but of bench_twin() */
    cls_dtype dtype;
    uint32_t runs;     /* 0: as many as a stable median needs */
    uint32_t spare;    /* rows of logits after those of the batch */
    uint32_t window;   /* the sampler's `max_history` */
    uint32_t history;  /* tokens in the history of a row with penalties */
    int32_t law;       /* a bench_law: the distribution of these tokens */
    uint32_t shards;   /* --shards; 0: no step is split */
    uint32_t features; /* of the sampler; 0: those of the usual cases */
    uint32_t longest;  /* the length of the longest history, and of a row of `ids` */

    void *rows;          /* the logits on the host: [batch + spare, vocab] of dtype */
    cls_buffer logits;   /* the logits on the device; BENCH_PAD elements of -inf follow */
    size_t size;         /* bytes of the logits with the padding */
    int32_t *mask_words; /* the mask on the host: [batch, ceil(vocab / 32)] */
    cls_buffer mask;
    bool masks;         /* a case has written the mask, and samplers are made for one */
    cls_buffer tokens;  /* [batch], then the statuses, [batch] */
    cls_buffer kept;    /* [batch, up to vocab]: kept sets; absent: no case wrote any so far */
    int32_t *likeliest; /* [batch + spare]: each row's likeliest token */
    int32_t *ids;       /* [batch, longest] */
} bench_setup;

#define BENCH_ROWS 16u      /* default number of rows in a step */
#define BENCH_VOCAB 128256u /* default number of logits in a row */
#define BENCH_HISTORY 2000u /* default number of tokens in a history */
#define BENCH_MOST_RUNS 20000u
#define BENCH_MOST_HISTORY 65536u

/* Allocates what a setup has beside its sampler. After a failure bench_close_setup() frees what was
 * allocated. */
int bench_open_setup(bench_setup *setup);
void bench_close_setup(bench_setup *setup);

/* Fill the rows and their histories, and the mask, on host and device. The first mask destroys a
 * sampler that takes none. */
int bench_write_rows(bench_setup *setup, bench_rows kind);
int bench_write_mask(bench_setup *setup, bench_mask kind);

/* Creates a sampler for cases with this `history`, or setup->sampler, unless that has it already.
 */
int bench_new_sampler(const bench_setup *setup, uint32_t window, cls_sampler **sampler);
int bench_make_sampler(bench_setup *setup, uint32_t window);

/* Whether the steps run on the host. Its buffers are memory then, and it has no floor's kernel. */
bool bench_is_host(const bench_setup *setup);

/* Returns memory of the host as a buffer. */
cls_buffer bench_memory(void *memory, size_t size);

/* Returns a setup of one row on the host, with its logits and its mask, but without sampler, tokens
 * and kept sets. The same calls on it give what the row must give. */
bench_setup bench_twin(const bench_setup *setup, uint32_t row);

/* Creates the buffer for kept sets, unless the case writes none or the buffer is there. The sampler
 * is created again, for such cases. */
int bench_make_kept(bench_setup *setup, const bench_case *c);

/* Reads a buffer, and waits for it. */
int bench_read(const bench_setup *setup, const cls_buffer *from, size_t size, void *to);

/* The number of tokens in the histories of a case. */
uint32_t bench_history(const bench_setup *setup, const bench_case *c);

#endif
