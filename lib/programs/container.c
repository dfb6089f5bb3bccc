/* SPDX-License-Identifier: MIT */
/* Compiled programs as bytes. Nothing of OpenCL: these bytes may come from
 * anywhere, and drivers have been seen to end the process over damaged ones
 * (PoCL 3.1, rusticl 22.3), so that here is where damage ends.
 *
 *     0  magic "clsample", then the format, 4 bytes
 *    12  the key: for what the programs were compiled
 *    44  the payload's length, 8 bytes, and its SHA-256
 *    84  the payload: the number of programs, 4 bytes; then each program's dtype, variant, group,
 * tier, subgroups, standard and shortlist, 4 bytes each, its length, 8 bytes, and its bytes
 *
 * Numbers are little-endian. */
#include "programs/programs.h"

#define FORMAT 2

enum {
    AT_FORMAT = 8,
    AT_KEY = 12,
    AT_LENGTH = AT_KEY + CLS_DIGEST,
    AT_HASH = AT_LENGTH + 8,
    FIXED = 4,
    EACH = 36
};
static const char magic[AT_FORMAT] = {'c', 'l', 's', 'a', 'm', 'p', 'l', 'e'};

static void put(uint8_t **to, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*to)++ = (uint8_t)(x >> (8 * i));
}

static uint64_t get(const uint8_t **from, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint64_t) * (*from)++ << (8 * i);
    return x;
}

static void digest(const uint8_t *bytes, size_t size, uint8_t out[CLS_DIGEST])
{
    cls_sha256 hash;
    cls_sha256_begin(&hash);
    cls_sha256_add(&hash, bytes, size);
    cls_sha256_end(&hash, out);
}

/* ------------------------------------------------------------------- writing */

size_t cls_container_size(const cls_container *c)
{
    size_t size = CLS_CONTAINER_HEADER + FIXED;
    for (int d = 0; d < CLS_DTYPES; d++)
        for (int v = 0; v < CLS_VARIANTS; v++)
            if (c->program[d][v].bytes.bytes != NULL)
                size += EACH + c->program[d][v].bytes.size;
    return size;
}

void cls_container_write(const cls_container *c, const uint8_t key[CLS_DIGEST], void *out)
{
    uint8_t *const start = out, *const payload = start + CLS_CONTAINER_HEADER,
                   *to = payload + FIXED;
    uint32_t n = 0;
    for (uint32_t d = 0; d < CLS_DTYPES; d++)
        for (uint32_t v = 0; v < CLS_VARIANTS; v++) {
            const cls_grouping *const as = &c->program[d][v].as;
            const cls_bytes *const p = &c->program[d][v].bytes;
            if (p->bytes == NULL)
                continue;
            n++;
            put(&to, d, 4);
            put(&to, v, 4);
            put(&to, as->group, 4);
            put(&to, as->tier, 4);
            put(&to, as->subgroups, 4);
            put(&to, as->standard, 4);
            put(&to, as->shortlist, 4);
            put(&to, p->size, 8);
            memcpy(to, p->bytes, p->size);
            to += p->size;
        }
    const size_t length = (size_t)(to - payload);
    to = payload;
    put(&to, n, 4);
    memcpy(start, magic, sizeof magic);
    to = start + AT_FORMAT;
    put(&to, FORMAT, 4);
    memcpy(to, key, CLS_DIGEST);
    to = start + AT_LENGTH;
    put(&to, length, 8);
    digest(payload, length, to);
}

/* ------------------------------------------------------------------- reading */

int cls_container_length(const void *header, const uint8_t key[CLS_DIGEST], uint64_t *length)
{
    const uint8_t *const start = header, *at = start + AT_FORMAT;
    if (memcmp(start, magic, sizeof magic) != 0 || get(&at, 4) != FORMAT ||
        memcmp(at, key, CLS_DIGEST) != 0)
        return 0;
    at = start + AT_LENGTH;
    *length = get(&at, 8);
    return *length >= FIXED;
}

/* Values that a grouping can have: nothing else is ever compiled. */
static int is_sane(const cls_grouping *as)
{
    return as->group >= 1 && as->group <= 1024 && as->tier >= CLS_TIER_BASE &&
           as->tier <= CLS_TIER_SUBGROUPS && as->subgroups <= CLS_SUBGROUPS_WRONG &&
           as->standard >= 120 && as->standard <= 300 && as->shortlist >= 16 &&
           as->shortlist <= 2048 && (as->shortlist & (as->shortlist - 1)) == 0 &&
           (as->tier == CLS_TIER_SUBGROUPS) == (as->subgroups != CLS_SUBGROUPS_NONE);
}

static int read_programs(const uint8_t *at, const uint8_t *end, uint32_t n, cls_container *out)
{
    for (; n > 0; n--) {
        cls_grouping as;
        uint32_t *const fields[] = {&as.group, &as.tier, &as.subgroups, &as.standard,
                                    &as.shortlist};
        if ((size_t)(end - at) < EACH)
            return 0;
        const uint64_t dtype = get(&at, 4), variant = get(&at, 4);
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            *fields[i] = (uint32_t)get(&at, 4);
        const uint64_t size = get(&at, 8);
        if (dtype >= CLS_DTYPES || variant >= CLS_VARIANTS || !is_sane(&as) || size == 0 ||
            size > (size_t)(end - at))
            return 0;
        cls_bytes *const p = &out->program[dtype][variant].bytes;
        if (p->bytes != NULL)
            return 0;
        out->program[dtype][variant].as = as;
        p->bytes = at;
        p->size = (size_t)size;
        at += size;
    }
    return at == end;
}

int cls_container_read(const void *bytes, size_t size, const uint8_t key[CLS_DIGEST],
                       cls_container *out)
{
    const uint8_t *const start = bytes, *at = start + CLS_CONTAINER_HEADER;
    uint8_t hash[CLS_DIGEST];
    uint64_t length;
    memset(out, 0, sizeof *out);
    if (bytes == NULL || size < CLS_CONTAINER_HEADER ||
        !cls_container_length(bytes, key, &length) || length != size - CLS_CONTAINER_HEADER)
        return 0;
    digest(at, size - CLS_CONTAINER_HEADER, hash);
    if (memcmp(hash, start + AT_HASH, sizeof hash) != 0)
        return 0;
    const uint32_t n = (uint32_t)get(&at, 4);
    return read_programs(at, start + size, n, out);
}
