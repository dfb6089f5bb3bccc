/* SPDX-License-Identifier: MIT */
/* The options that split a vocabulary over shards and devices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"
#include "shards.h"

int cli_shards_check(uint32_t shards, uint32_t vocab)
{
    if (!cli_given("shards"))
        return 0;
    if (shards < 1)
        return cli_fail("--shards: it must be at least 1");
    if (shards > CLS_MAX_SHARDS)
        return cli_fail("--shards: %" PRIu32 " is too large; the most is %d", shards,
                        CLS_MAX_SHARDS);
    if (vocab != 0 && shards > vocab)
        return cli_fail("--shards: %" PRIu32 " shards are more than the vocabulary's %" PRIu32
                        " tokens",
                        shards, vocab);
    return 0;
}

/* The number of devices that --device names. */
static uint32_t count_devices(const char *device)
{
    uint32_t n = 1;
    for (; device != NULL && *device != '\0'; device++)
        n += *device == ',';
    return n;
}

int cli_split_check(const cli_split_options *q, const char *device)
{
    const uint32_t devices = count_devices(device);
    if (cli_shards_check(q->shards, 0) != 0)
        return 1;
    if (!cli_given("shards")) {
        if (q->borders.count != 0)
            return cli_fail("--borders: this option requires --shards");
        return devices == 1 ? 0 : cli_fail("--device: several devices require --shards");
    }
    if (cli_on_host(device))
        return cli_fail("--shards: the reference has no shards; choose another --device");
    if (devices > q->shards)
        return cli_fail("--device: %" PRIu32 " devices are too many for --shards %" PRIu32, devices,
                        q->shards);
    return 0;
}

/* Converts the inner borders of --borders to those of all shards. */
static int read_borders(const cli_split_options *q, uint32_t vocab, cli_split *split)
{
    const uint32_t n = split->shards;
    uint32_t count = 0;
    const int32_t *inner = NULL;
    if (cli_ids_parse("--borders", &q->borders, &inner, &count) != 0)
        return 1;
    if (count != n - 1)
        return cli_fail("--borders: --shards %" PRIu32 " needs %" PRIu32 " of them, but %" PRIu32
                        " %s given",
                        n, n - 1, count, count == 1 ? "is" : "are");
    split->borders = cli_alloc(n + (size_t)1, sizeof *split->borders);
    for (uint32_t i = 0; i < count; i++) {
        if (inner[i] < 1 || (uint32_t)inner[i] >= vocab)
            return cli_fail("--borders: %" PRId32 " is not within a vocabulary of %" PRIu32
                            " tokens",
                            inner[i], vocab);
        if ((uint32_t)inner[i] <= split->borders[i])
            return cli_fail("--borders: %" PRId32 " is not above the border before it", inner[i]);
        split->borders[i + 1] = (uint32_t)inner[i];
    }
    split->borders[n] = vocab;
    return 0;
}

int cli_split_read(const cli_split_options *q, const char *device, uint32_t vocab, cli_split *split)
{
    split->targets = 1;
    if (!cli_given("shards"))
        return 0;
    split->shards = q->shards;
    split->targets = count_devices(device);
    return cli_shards_check(q->shards, vocab) ||
           (q->borders.count != 0 && read_borders(q, vocab, split));
}

/* -------------------------------------------------------------------- devices */

void cli_split_close(const cli_split *split, cli_target *targets)
{
    for (uint32_t i = 0; i < split->targets; i++)
        cli_close(&targets[i]);
}

int cli_split_open(const char *device, const cls_context_options *options, const cli_split *split,
                   cli_target **targets)
{
    int failed = 0;
    *targets = cli_alloc(split->targets, sizeof **targets);
    for (uint32_t i = 0; i < split->targets && !failed; i++) {
        char name[16];
        const size_t length = device != NULL ? strcspn(device, ",") : 0;
        snprintf(name, sizeof name, "%.*s", (int)length, device != NULL ? device : "");
        failed = cli_open(device != NULL ? name : NULL, options, 0, &(*targets)[i]);
        if (device != NULL)
            device += length + 1;
    }
    if (failed)
        cli_split_close(split, *targets);
    return failed;
}
