/* SPDX-License-Identifier: MIT */
/* One vocabulary over several shards in this process, which exchange their partials through the
 * host's memory; and the options that split a vocabulary. */
#ifndef CLS_CLI_SHARDS_H
#define CLS_CLI_SHARDS_H

#include "cli.h"

/* ----------------------------------------------------------------------- steps */

#define CLI_EXCHANGES 8u /* whose sizes are recorded */

typedef struct cli_shards {
    uint32_t count; /* shards that were added */
    cls_shard **shard;
    cl_command_queue *queue;
    cls_step *step; /* the caller sets these before each step */

    /* What the last step exchanged: the number of exchanges, and the bytes of one partial in each
     * of the first ones. */
    uint32_t exchanges;
    size_t bytes[CLI_EXCHANGES];
    unsigned char *partials; /* of all shards, in the latest exchange */
    size_t size;
} cli_shards;

/* What a step took, in microseconds. */
typedef struct cli_shard_times {
    double
        local_us; /* all shards' first partials, from the step's beginning until they are ready */
    double merge_us; /* of shard 0: all that follows, until its queue is finished */
} cli_shard_times;

/* Allocates room for `most` shards. */
void cli_shards_alloc(cli_shards *shards, uint32_t most);
/* Destroys the shards, before the samplers are destroyed. */
void cli_shards_free(cli_shards *shards);

/* Makes a sampler the next of split->shards shards, whose steps use the queue. Sets its window. */
int cli_shards_add(cli_shards *shards, const cli_split *split, cls_sampler *sampler,
                   cl_command_queue queue, uint32_t *first, uint32_t *width);

/* Runs a step on all shards: it is enqueued to its end when the call returns. If `times` is not
 * NULL, only one shard works at a time, so that all have a device to themselves, and the queues are
 * finished when the call returns. */
int cli_shards_step(cli_shards *shards, cli_shard_times *times);

/* --------------------------------------------------------------------- options */

typedef struct cli_split_options {
    uint32_t shards;
    cli_list borders;
} cli_split_options;

/* Checks the value of --shards if it was given. */
void cli_shards_check(uint32_t shards, uint32_t vocab);

/* Checks --shards, --borders and --device, and converts them. */
void cli_split_read(const cli_split_options *q, const char *device, uint32_t vocab,
                    cli_split *split);

/* Opens the devices that --device names: [split->targets]. A failure leaves nothing to close. */
int cli_split_open(const char *device, const cls_context_options *options, const cli_split *split,
                   cli_target **targets);
void cli_split_close(const cli_split *split, cli_target *targets);

#endif
