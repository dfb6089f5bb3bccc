/* SPDX-License-Identifier: MIT */
/* Compiled programs as bytes. Nothing of OpenCL: these bytes may come from
 * anywhere, and drivers have been seen to end the process over damaged ones
 * (PoCL 3.1, rusticl 22.3), so that here is where damage ends.
 *
 *     0  magic "clsample", then the format, 4 bytes
 *    12  the key: for what the programs were compiled
 *    44  the payload's length, 8 bytes, and its SHA-256
 *    84  the payload: work_group, row_group, vector, shortlist, tier, subgroups, standard and the number of
 *        programs, 4 bytes each; then each program's dtype and part, 4 bytes each, its length, 8 bytes, and its bytes
 *
 * Numbers are little-endian. */
#include "internal.h"

#define FORMAT 1

enum { AT_FORMAT = 8, AT_KEY = 12, AT_LENGTH = AT_KEY + CLS_DIGEST, AT_HASH = AT_LENGTH + 8, FIXED = 32, EACH = 16 };
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
        for (int part = 0; part < CLS_PARTS; part++)
            if (c->program[d][part].bytes != NULL)
                size += EACH + c->program[d][part].size;
    return size;
}

void cls_container_write(const cls_container *c, const uint8_t key[CLS_DIGEST], void *out)
{
    uint8_t *const start = out, *const payload = start + CLS_CONTAINER_HEADER, *to = payload;
    const cls_shape *const s = &c->shape;
    const uint32_t fixed[FIXED / 4 - 1] = {s->work_group, s->row_group, s->vector,  s->shortlist,
                                           s->tier,       s->subgroups, s->standard};
    uint32_t n = 0;
    for (int i = 0; i < CLS_DTYPES * CLS_PARTS; i++)
        n += c->program[i / CLS_PARTS][i % CLS_PARTS].bytes != NULL;
    for (int i = 0; i < FIXED / 4 - 1; i++)
        put(&to, fixed[i], 4);
    put(&to, n, 4);
    for (uint32_t d = 0; d < CLS_DTYPES; d++)
        for (uint32_t part = 0; part < CLS_PARTS; part++) {
            const cls_bytes *const p = &c->program[d][part];
            if (p->bytes == NULL)
                continue;
            put(&to, d, 4);
            put(&to, part, 4);
            put(&to, p->size, 8);
            memcpy(to, p->bytes, p->size);
            to += p->size;
        }
    const size_t length = (size_t)(to - payload);
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
    if (memcmp(start, magic, sizeof magic) != 0 || get(&at, 4) != FORMAT || memcmp(at, key, CLS_DIGEST) != 0)
        return 0;
    at = start + AT_LENGTH;
    *length = get(&at, 8);
    return *length >= FIXED;
}

/* Values that a shape can have: nothing else is ever compiled. */
static int shape_is_sane(const cls_shape *s)
{
    return s->work_group >= 1 && s->work_group <= 1024 && s->row_group >= 1 && s->row_group <= 1024 &&
           (s->vector == 2 || s->vector == 4 || s->vector == 8 || s->vector == 16) && s->shortlist >= 16 &&
           s->shortlist <= 2048 && (s->shortlist & (s->shortlist - 1)) == 0 && s->tier >= CLS_TIER_BASE &&
           s->tier <= CLS_TIER_SUBGROUPS && s->subgroups <= CLS_SUBGROUPS_WRONG && s->standard >= 120 &&
           s->standard <= 300 && (s->tier == CLS_TIER_SUBGROUPS) == (s->subgroups != CLS_SUBGROUPS_NONE);
}

static int read_programs(const uint8_t *at, const uint8_t *end, uint32_t n, cls_container *out)
{
    for (; n > 0; n--) {
        if ((size_t)(end - at) < EACH)
            return 0;
        const uint64_t dtype = get(&at, 4), part = get(&at, 4), size = get(&at, 8);
        if (dtype >= CLS_DTYPES || part >= CLS_PARTS || size == 0 || size > (size_t)(end - at))
            return 0;
        cls_bytes *const p = &out->program[dtype][part];
        if (p->bytes != NULL)
            return 0;
        p->bytes = at;
        p->size = (size_t)size;
        at += size;
    }
    return at == end;
}

int cls_container_read(const void *bytes, size_t size, const uint8_t key[CLS_DIGEST], cls_container *out)
{
    const uint8_t *const start = bytes, *at = start + CLS_CONTAINER_HEADER;
    uint8_t hash[CLS_DIGEST];
    uint64_t length;
    memset(out, 0, sizeof *out);
    if (bytes == NULL || size < CLS_CONTAINER_HEADER || !cls_container_length(bytes, key, &length) ||
        length != size - CLS_CONTAINER_HEADER)
        return 0;
    digest(at, size - CLS_CONTAINER_HEADER, hash);
    if (memcmp(hash, start + AT_HASH, sizeof hash) != 0)
        return 0;
    uint32_t *const fixed[FIXED / 4 - 1] = {&out->shape.work_group, &out->shape.row_group, &out->shape.vector,
                                            &out->shape.shortlist,  &out->shape.tier,      &out->shape.subgroups,
                                            &out->shape.standard};
    for (int i = 0; i < FIXED / 4 - 1; i++)
        *fixed[i] = (uint32_t)get(&at, 4);
    const uint32_t n = (uint32_t)get(&at, 4);
    return shape_is_sane(&out->shape) && read_programs(at, start + size, n, out);
}
