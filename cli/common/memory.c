/* SPDX-License-Identifier: MIT */
/* The command's memory: a command that gets none ends, and what it got is freed at its end. So no
 * function of the command frees anything, except large copies that are needed for a moment. */
#include <stdint.h>
#include <stdlib.h>

#include "common/cli.h"

/* What is before each allocation: a list of all. */
typedef struct block {
    struct block *next, **link; /* link: what points to this one */
} block;

static block *all;

static void add(block *b)
{
    b->next = all;
    b->link = &all;
    if (all != NULL)
        all->link = &b->next;
    all = b;
}

static block *take(void *memory)
{
    block *const b = (block *)memory - 1;
    *b->link = b->next;
    if (b->next != NULL)
        b->next->link = b->link;
    return b;
}

static size_t size_of(size_t count, size_t size)
{
    return size != 0 && count > (SIZE_MAX - sizeof(block)) / size ? SIZE_MAX
                                                                  : sizeof(block) + count * size;
}

static void *keep(block *b, size_t size)
{
    if (b == NULL)
        cli_die("out of memory for %zu bytes", size);
    add(b);
    return b + 1;
}

void *cli_alloc(size_t count, size_t size)
{
    const size_t bytes = size_of(count, size);
    return keep(calloc(1, bytes), bytes);
}

void *cli_grow(void *memory, size_t count, size_t size)
{
    const size_t bytes = size_of(count, size);
    return keep(realloc(memory != NULL ? take(memory) : NULL, bytes), bytes);
}

void cli_free(void *memory)
{
    if (memory != NULL)
        free(take(memory));
}

static void *alloc_json(size_t size) { return cli_alloc(1, size); }

void cli_memory_begin(void) { json_set_alloc_funcs(alloc_json, cli_free); }

void *cli_memory(void) { return all; }

void cli_memory_end(const void *since)
{
    while (all != since)
        cli_free(all + 1);
}
