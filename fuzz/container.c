/* SPDX-License-Identifier: MIT */
/* Target: compiled programs as bytes, read by lib/programs/container.c and lib/programs/cache.c.
 * Nothing in an accepted container may point outside of its bytes.
 *
 * The first byte selects how the rest is used: as bytes, as bytes whose hash is corrected, or to
 * write a container and change it, after which the hash is corrected or not. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "programs/programs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files that cache.c opens. */
#define fopen file_open
#define fclose file_close
#define open(path, flags) ((void)(path), 0)
#define fstat(number, status) ((status)->st_mode = S_IFREG, 0)
#define fdopen(number, mode) file_open("", mode)
#define close(number) (void)(number)
#include "lib/programs/cache.c"

enum { RAW, CORRECTED, EDITED, KINDS };
enum { AT_KEY = 12, AT_LENGTH = 44, AT_HASH = 52, PROGRAMS = CLS_DTYPES * CLS_VARIANTS };
static const uint8_t key[CLS_DIGEST_SIZE] = "the key of what runs this target";

/* Sets key, length and hash to those of the payload. */
static void correct_header(uint8_t *bytes, size_t size)
{
    cls_sha256 hash;
    if (size < CLS_CONTAINER_HEADER)
        return;
    const uint64_t length = size - CLS_CONTAINER_HEADER;
    memcpy(bytes + AT_KEY, key, sizeof key);
    for (int i = 0; i < 8; i++)
        bytes[AT_LENGTH + i] = (uint8_t)(length >> 8 * i);
    cls_sha256_init(&hash);
    cls_sha256_update(&hash, bytes + CLS_CONTAINER_HEADER, (size_t)length);
    cls_sha256_final(&hash, bytes + AT_HASH);
}

/* Writes a container with a possible shape and programs of any length. */
static uint8_t *write_container(input *in, size_t *size)
{
    static const uint8_t code[256] = {1, 2, 3};
    const uint8_t shape = take_byte(in), which = take_byte(in);
    const cls_build_config as = {1u + shape % 4, CLS_TIER_INT64, CLS_SUBGROUPS_NONE, 120, 64};
    cls_container c;
    memset(&c, 0, sizeof c);
    for (unsigned i = 0; i < 8; i++)
        if (which >> i & 1) {
            const unsigned at = (i + shape) % PROGRAMS;
            c.program[at / CLS_VARIANTS][at % CLS_VARIANTS].config = as;
            c.program[at / CLS_VARIANTS][at % CLS_VARIANTS].bytes =
                (cls_bytes){code, 1u + take_byte(in)};
        }
    uint8_t *const bytes = malloc(*size = cls_container_size(&c));
    demand(bytes != NULL, "out of memory");
    cls_container_write(&c, key, bytes);
    demand(cls_container_read(bytes, *size, key, &c), "a container that was written is refused");
    return bytes;
}

/* Changes words, then shortens or extends the bytes. */
static uint8_t *edit_container(input *in, uint8_t *bytes, size_t *size)
{
    const uint8_t edits = take_byte(in) % 8, longer = take_byte(in);
    for (uint8_t i = 0; i < edits; i++) {
        const uint32_t at = take_u32(in), word = take_u32(in);
        memcpy(bytes + at % (*size / 4) * 4, &word, sizeof word);
    }
    const size_t had = *size;
    *size = longer < 224 ? had : longer < 240 ? had - (longer - 224u) : had + (longer - 240u);
    uint8_t *const room = realloc(bytes, *size);
    demand(room != NULL, "out of memory");
    if (*size > had)
        memset(room + had, 0, *size - had);
    return room;
}

/* Checks that the programs lie within the bytes, and that the container written again is equal. */
static void check_container(const cls_container *c, const uint8_t *bytes, size_t size)
{
    cls_container again;
    size_t programs = 0;
    for (unsigned i = 0; i < PROGRAMS; i++) {
        const cls_bytes *const p = &c->program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes;
        const uint8_t *const at = p->bytes;
        if (at == NULL)
            continue;
        demand(at >= bytes + CLS_CONTAINER_HEADER && p->size != 0 &&
                   p->size <= (size_t)(bytes + size - at),
               "program %u lies outside of the bytes", i);
        look_at(at, p->size);
        programs += p->size;
    }
    demand(programs < size, "the programs are longer than their container");
    demand(cls_container_size(c) == size, "%zu bytes would be written as %zu", size,
           cls_container_size(c));
    uint8_t *const copy = malloc(size);
    demand(copy != NULL, "out of memory");
    memcpy(copy, bytes, size);
    correct_header(copy, size);
    demand(memcmp(copy, bytes, size) == 0, "key, length or hash is wrong");
    cls_container_write(c, key, copy);
    demand(cls_container_read(copy, size, key, &again),
           "a container that was read and written again is refused");
    for (unsigned i = 0; i < PROGRAMS; i++) {
        const cls_bytes *const p = &c->program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes,
                               *const q = &again.program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes;
        demand(p->size == q->size && (p->size == 0 || memcmp(p->bytes, q->bytes, p->size) == 0),
               "program %u has changed", i);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_size)
{
    input in = {data, data_size};
    const uint8_t first = take_byte(&in), how = first % KINDS;
    size_t size = in.size, from_file;
    cls_container c;
    uint8_t *bytes;
    if (how == EDITED) {
        bytes = edit_container(&in, write_container(&in, &size), &size);
    } else {
        bytes = malloc(size + (size == 0));
        demand(bytes != NULL, "out of memory");
        memcpy(bytes, in.data, size);
    }
    if (how == CORRECTED || (how == EDITED && first < 128))
        correct_header(bytes, size);
    const int good = cls_container_read(bytes, size, key, &c);
    if (good)
        check_container(&c, bytes, size);
    file_holds(bytes, size);
    void *const cached = cls_cache_read("folder", key, 1, "token-list", &from_file);
    demand(!good || cached != NULL, "a valid container is refused from a file");
    demand(cached == NULL || (from_file == size && memcmp(cached, bytes, size) == 0),
           "a file of %zu bytes is read as %zu bytes", size, from_file);
    free(cached);
    free(bytes);
    return 0;
}
