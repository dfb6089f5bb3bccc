/* SPDX-License-Identifier: MIT */
#include "faulty_memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096 };

int faulty_memory_on;
static uint32_t at = UINT32_MAX, n;
static int failed;
static uintptr_t blocks[MOST];
static uint32_t alive;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *block);

void faulty_memory_arm(uint32_t which)
{
    at = which;
    n = 0;
    failed = 0;
}

uint32_t faulty_memory_calls(void) { return n; }

int faulty_memory_failed(void) { return failed; }

uint32_t faulty_memory_alive(void) { return alive; }

void faulty_memory_forget(void) { alive = 0; }

static int fails(void)
{
    const int now = faulty_memory_on && n++ == at;
    failed |= now;
    return now;
}

static void *note(void *block)
{
    if (!faulty_memory_on || block == NULL)
        return block;
    if (alive == MOST) {
        fprintf(stderr, "more blocks than faulty_memory.c can count\n");
        exit(99);
    }
    blocks[alive++] = (uintptr_t)block;
    return block;
}

static void forget(uintptr_t block)
{
    for (uint32_t i = 0; i < alive; i++) {
        if (blocks[i] == block) {
            blocks[i] = blocks[--alive];
            return;
        }
    }
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : note(__real_malloc(size)); }

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : note(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    const uintptr_t was = (uintptr_t)old;
    if (fails())
        return NULL;
    void *const block = __real_realloc(old, size);
    if (block != NULL)
        forget(was);
    return note(block);
}

void __wrap_free(void *block)
{
    forget((uintptr_t)block);
    __real_free(block);
}
