/* SPDX-License-Identifier: MIT */
/* Writes compiled programs as bytes and reads them. The bytes may come from anywhere, and drivers
 * have been seen to end the process over damaged ones (PoCL 3.1, rusticl 22.3). Reading therefore
 * checks everything before a driver gets a program. This file calls nothing of OpenCL.
 *
 * offset  contents
 *      0  container_magic "clsample", then the format's number, 4 bytes
 *     12  the cache key, 32 bytes: what the programs were compiled for
 *     44  the payload's size, 8 bytes, and its SHA-256, 32 bytes
 *     84  the payload: the number of programs, 4 bytes, and the programs
 *
 * A program is its dtype, variant, group, tier, subgroups, standard and shortlist, 4 bytes each,
 * its size, 8 bytes, and its bytes. Numbers are little-endian. */
#include "programs/programs.h"

#define FORMAT 2

enum {
    FORMAT_OFFSET = 8,
    KEY_OFFSET = 12,
    SIZE_OFFSET = KEY_OFFSET + CLS_DIGEST_SIZE,
    HASH_OFFSET = SIZE_OFFSET + 8,
    COUNT_SIZE = 4,          /* the number of programs */
    PROGRAM_HEADER_SIZE = 36 /* a program without its bytes */
};
static const char container_magic[FORMAT_OFFSET] = {'c', 'l', 's', 'a', 'm', 'p', 'l', 'e'};

static void put_number(uint8_t **to, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*to)++ = (uint8_t)(x >> (8 * i));
}

static uint64_t get_number(const uint8_t **from, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint64_t) * (*from)++ << (8 * i);
    return x;
}

static void container_digest(const uint8_t *bytes, size_t size, uint8_t out[CLS_DIGEST_SIZE])
{
    cls_sha256 hash;
    cls_sha256_init(&hash);
    cls_sha256_update(&hash, bytes, size);
    cls_sha256_final(&hash, out);
}

/* ------------------------------------------------------------------- writing */

size_t cls_container_size(const cls_container *c)
{
    size_t size = CLS_CONTAINER_HEADER + COUNT_SIZE;
    for (int d = 0; d < CLS_DTYPES; d++)
        for (int v = 0; v < CLS_VARIANTS; v++)
            if (c->program[d][v].bytes.bytes != NULL)
                size += PROGRAM_HEADER_SIZE + c->program[d][v].bytes.size;
    return size;
}

void cls_container_write(const cls_container *c, const uint8_t key[CLS_DIGEST_SIZE], void *out)
{
    uint8_t *const start = out, *const payload = start + CLS_CONTAINER_HEADER,
                   *to = payload + COUNT_SIZE;
    uint32_t n = 0;
    for (uint32_t d = 0; d < CLS_DTYPES; d++)
        for (uint32_t v = 0; v < CLS_VARIANTS; v++) {
            const cls_build_config *const config = &c->program[d][v].config;
            const cls_bytes *const p = &c->program[d][v].bytes;
            if (p->bytes == NULL)
                continue;
            n++;
            put_number(&to, d, 4);
            put_number(&to, v, 4);
            put_number(&to, config->group, 4);
            put_number(&to, config->tier, 4);
            put_number(&to, config->subgroups, 4);
            put_number(&to, config->standard, 4);
            put_number(&to, config->shortlist, 4);
            put_number(&to, p->size, 8);
            memcpy(to, p->bytes, p->size);
            to += p->size;
        }
    const size_t payload_size = (size_t)(to - payload);
    to = payload;
    put_number(&to, n, 4);
    memcpy(start, container_magic, sizeof container_magic);
    to = start + FORMAT_OFFSET;
    put_number(&to, FORMAT, 4);
    memcpy(to, key, CLS_DIGEST_SIZE);
    to = start + SIZE_OFFSET;
    put_number(&to, payload_size, 8);
    container_digest(payload, payload_size, to);
}

/* ------------------------------------------------------------------- reading */

int cls_container_payload_size(const void *header, const uint8_t key[CLS_DIGEST_SIZE],
                               uint64_t *size)
{
    const uint8_t *const start = header, *from = start + FORMAT_OFFSET;
    if (memcmp(start, container_magic, sizeof container_magic) != 0 ||
        get_number(&from, 4) != FORMAT || memcmp(from, key, CLS_DIGEST_SIZE) != 0)
        return 0;
    from = start + SIZE_OFFSET;
    *size = get_number(&from, 8);
    return *size >= COUNT_SIZE;
}

/* Returns 1 if a configuration is one that the library may compile. */
static int is_valid(const cls_build_config *config)
{
    return config->group >= 1 && config->group <= 1024 && config->tier >= CLS_TIER_INT64 &&
           config->tier <= CLS_TIER_SUBGROUPS && config->subgroups <= CLS_SUBGROUPS_TEST &&
           config->standard >= 120 && config->standard <= 310 && config->shortlist >= 16 &&
           config->shortlist <= 2048 && (config->shortlist & (config->shortlist - 1)) == 0 &&
           (config->tier == CLS_TIER_SUBGROUPS) == (config->subgroups != CLS_SUBGROUPS_NONE);
}

/* Returns 0 unless the bytes hold n valid programs, each at most once, and nothing else. */
static int read_programs(const uint8_t *from, const uint8_t *end, uint32_t n, cls_container *out)
{
    for (; n > 0; n--) {
        cls_build_config config;
        uint32_t *const fields[] = {&config.group, &config.tier, &config.subgroups,
                                    &config.standard, &config.shortlist};
        if ((size_t)(end - from) < PROGRAM_HEADER_SIZE)
            return 0;
        const uint64_t dtype = get_number(&from, 4), variant = get_number(&from, 4);
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            *fields[i] = (uint32_t)get_number(&from, 4);
        const uint64_t size = get_number(&from, 8);
        if (dtype >= CLS_DTYPES || variant >= CLS_VARIANTS || !is_valid(&config) || size == 0 ||
            size > (size_t)(end - from))
            return 0;
        cls_bytes *const p = &out->program[dtype][variant].bytes;
        if (p->bytes != NULL)
            return 0;
        out->program[dtype][variant].config = config;
        p->bytes = from;
        p->size = (size_t)size;
        from += size;
    }
    return from == end;
}

int cls_container_read(const void *bytes, size_t size, const uint8_t key[CLS_DIGEST_SIZE],
                       cls_container *out)
{
    const uint8_t *const start = bytes, *from = start + CLS_CONTAINER_HEADER;
    uint8_t hash[CLS_DIGEST_SIZE];
    uint64_t payload_size;
    memset(out, 0, sizeof *out);
    if (bytes == NULL || size < CLS_CONTAINER_HEADER ||
        !cls_container_payload_size(bytes, key, &payload_size) ||
        payload_size != size - CLS_CONTAINER_HEADER)
        return 0;
    container_digest(from, size - CLS_CONTAINER_HEADER, hash);
    if (memcmp(hash, start + HASH_OFFSET, sizeof hash) != 0)
        return 0;
    const uint32_t n = (uint32_t)get_number(&from, 4);
    return read_programs(from, start + size, n, out);
}
