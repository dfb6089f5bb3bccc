/* SPDX-License-Identifier: MIT */
/* Proves that compiled programs, stored as bytes, are accepted only if they are complete, have
 * this version's format and match the expected key and hash, and that the key covers every byte of
 * the kernels. Needs no device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "programs/programs.h"
#include "stub_cl.h"

/* --------------------------------------------------------------------- SHA-256 */

static void hex_of(const void *bytes, size_t size, size_t at_once, char hex[65])
{
    uint8_t digest[CLS_DIGEST_SIZE];
    cls_sha256 hash;
    cls_sha256_init(&hash);
    for (size_t at = 0; at < size; at += at_once)
        cls_sha256_update(&hash, (const char *)bytes + at,
                          size - at < at_once ? size - at : at_once);
    cls_sha256_final(&hash, digest);
    for (int i = 0; i < CLS_DIGEST_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* The examples of FIPS 180-2's appendix B and of its test vectors. */
START_TEST(known_hashes)
{
    static const struct {
        const char *text, *hash;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "mnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[65];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        hex_of(known[i].text, strlen(known[i].text), 1000, hex);
        ck_assert_str_eq(hex, known[i].hash);
    }
    char *const million = must_malloc(1000000);
    memset(million, 'a', 1000000);
    hex_of(million, 1000000, 1000000, hex);
    ck_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    hex_of(million, 1000000, 61, hex);
    ck_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}
END_TEST

/* In pieces of any length a text of any length has one hash. */
START_TEST(pieces)
{
    char text[200], whole[65], hex[65];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    for (size_t n = 0; n <= sizeof text; n++) {
        hex_of(text, n, sizeof text, whole);
        for (size_t at_once = 1; at_once <= 130; at_once++) {
            hex_of(text, n, at_once, hex);
            ck_assert_str_eq(hex, whole);
        }
    }
}
END_TEST

/* ------------------------------------------------------------------- cache key */

/* Writes the key for the stub's device if it had these variants, as one text. */
static void cache_key_of(const cls_variant *variants, char hex[65])
{
    cls_shape shape;
    uint8_t key[CLS_DIGEST_SIZE];
    must(cls_shape_query(stub_device(), NULL, &shape));
    must(cls_cache_key(stub_device(), &shape, variants, key));
    for (int i = 0; i < CLS_DIGEST_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
}

/* One byte changed in any part of any program's source, or a part less, gives another key. */
START_TEST(key_covers_sources)
{
    cls_variant variants[CLS_VARIANTS];
    char usual[65], hex[65];
    memcpy(variants, cls_variants, sizeof variants);
    cache_key_of(cls_variants, usual);
    cache_key_of(variants, hex);
    ck_assert_str_eq(hex, usual);
    for (int v = 0; v < CLS_VARIANTS; v++) {
        const unsigned n = *cls_variants[v].count, fewer = n - 1;
        const char **const parts = must_malloc(n * sizeof *parts);
        memcpy(parts, cls_variants[v].source, n * sizeof *parts);
        variants[v].source = parts;
        for (unsigned i = 0; i < n; i++) {
            char *const text = strdup(parts[i]);
            ck_assert_ptr_nonnull(text);
            text[(i * 7919) % strlen(text)] ^= 1;
            parts[i] = text;
            cache_key_of(variants, hex);
            ck_assert_msg(strcmp(hex, usual) != 0, "part %u of %s is not in the key", i,
                          cls_variants[v].name);
            parts[i] = cls_variants[v].source[i];
            free(text);
        }
        variants[v].count = &fewer;
        cache_key_of(variants, hex);
        ck_assert_str_ne(hex, usual);
        variants[v] = cls_variants[v];
        free(parts);
    }
    variants[CLS_SURVEY_0].options = "";
    cache_key_of(variants, hex);
    ck_assert_str_ne(hex, usual);
}
END_TEST

/* ------------------------------------------------------------------- containers */

static const uint8_t key[CLS_DIGEST_SIZE] = {1, 2,   3,   4,   5,   6,   7,  8,
                                             9, 250, 251, 252, 253, 254, 255};

enum { FIRST_OF = CLS_SURVEY_0, SECOND_OF = CLS_TOKEN_1 };
static const cls_container some = {
    .program =
        {
            [CLS_F32] =
                {
                    [FIRST_OF] = {{256, CLS_TIER_SUBGROUPS, CLS_SUBGROUPS_NV, 120, 512},
                                  {(const uint8_t *)"tiles", 5}},
                    [SECOND_OF] = {{100, CLS_TIER_INT64, CLS_SUBGROUPS_NONE, 120, 512},
                                   {(const uint8_t *)"rows\0\1\2\377", 8}},
                },
            [CLS_BF16] =
                {
                    [FIRST_OF] = {{1, CLS_TIER_INT64, CLS_SUBGROUPS_NONE, 300, 16},
                                  {(const uint8_t *)"!", 1}},
                },
        },
};

static uint8_t *packed_of(const cls_container *c, size_t *size)
{
    *size = cls_container_size(c);
    uint8_t *const bytes = must_malloc(*size + 1); /* tests add a byte */
    memset(bytes, 0x55, *size + 1);
    cls_container_write(c, key, bytes);
    return bytes;
}

static int reads(const void *bytes, size_t size)
{
    cls_container out;
    return cls_container_read(bytes, size, key, &out);
}

START_TEST(round_trip)
{
    size_t size;
    uint64_t length;
    uint8_t *const bytes = packed_of(&some, &size);
    cls_container c;
    ck_assert_uint_eq(bytes[size], 0x55); /* nothing beyond */
    ck_assert(cls_container_read(bytes, size, key, &c));
    ck_assert(cls_container_payload_size(bytes, key, &length));
    ck_assert_uint_eq(length, size - CLS_CONTAINER_HEADER);
    for (int i = 0; i < CLS_DTYPES * CLS_VARIANTS; i++) {
        const cls_bytes *const was = &some.program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes;
        const cls_bytes *const is = &c.program[i / CLS_VARIANTS][i % CLS_VARIANTS].bytes;
        const cls_build_config *const s = &c.program[i / CLS_VARIANTS][i % CLS_VARIANTS].config;
        const cls_build_config *const g = &some.program[i / CLS_VARIANTS][i % CLS_VARIANTS].config;
        ck_assert_uint_eq(is->size, was->size);
        ck_assert((is->bytes == NULL) == (was->bytes == NULL));
        ck_assert(is->size == 0 || memcmp(is->bytes, was->bytes, was->size) == 0);
        ck_assert(s->group == g->group && s->tier == g->tier && s->subgroups == g->subgroups);
        ck_assert_uint_eq(s->standard, g->standard);
        ck_assert_uint_eq(s->shortlist, g->shortlist);
    }
    free(bytes);
}
END_TEST

/* Format 2, byte for byte: programs of one release are read by it on machines of any byte order. */
START_TEST(layout)
{
    static const uint8_t begin[16] = {'c', 'l', 's', 'a', 'm', 'p', 'l', 'e',
                                      2,   0,   0,   0,   1,   2,   3,   4};
    static const uint8_t number[4] = {3, 0, 0, 0};
    static const uint8_t first[41] = {0, 0, 0, 0, FIRST_OF, 0, 0,   0, 0,   1,   0,   0,   2,  0,
                                      0, 0, 5, 0, 0,        0, 120, 0, 0,   0,   0,   2,   0,  0,
                                      5, 0, 0, 0, 0,        0, 0,   0, 't', 'i', 'l', 'e', 's'};
    size_t size;
    uint8_t *const bytes = packed_of(&some, &size);
    ck_assert_uint_eq(size, 84 + 4 + 3 * 36 + 5 + 8 + 1);
    ck_assert(memcmp(bytes, begin, sizeof begin) == 0);
    ck_assert(memcmp(bytes + 84, number, sizeof number) == 0);
    ck_assert(memcmp(bytes + 88, first, sizeof first) == 0);
    free(bytes);
}
END_TEST

START_TEST(damage)
{
    size_t size;
    uint8_t *const bytes = packed_of(&some, &size);
    uint64_t length;
    for (size_t at = 0; at < size; at++)
        for (int flip = 1; flip < 256; flip++) {
            bytes[at] ^= (uint8_t)flip;
            ck_assert_msg(!reads(bytes, size), "byte %zu with 0x%02x flipped is taken", at,
                          (unsigned)flip);
            bytes[at] ^= (uint8_t)flip;
        }
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *const less =
            must_malloc(cut != 0 ? cut : 1); /* of its own length, for the sanitizer */
        memcpy(less, bytes, cut);
        ck_assert_msg(!reads(less, cut), "the first %zu bytes are taken", cut);
        free(less);
    }
    ck_assert(!reads(bytes, size + 1));
    ck_assert(!reads(NULL, 0));
    for (int i = 0; i < CLS_DIGEST_SIZE; i++) {
        uint8_t other[CLS_DIGEST_SIZE];
        cls_container c;
        memcpy(other, key, sizeof other);
        other[i] ^= 1;
        ck_assert(!cls_container_read(bytes, size, other, &c));
        ck_assert(!cls_container_payload_size(bytes, other, &length));
    }
    ck_assert(reads(bytes, size));
    free(bytes);
}
END_TEST

/* With the right hash, as an attacker would compute it. */
static int reads_with_hash(uint8_t *bytes, size_t size)
{
    cls_sha256 hash;
    cls_sha256_init(&hash);
    cls_sha256_update(&hash, bytes + CLS_CONTAINER_HEADER, size - CLS_CONTAINER_HEADER);
    cls_sha256_final(&hash, bytes + CLS_CONTAINER_HEADER - CLS_DIGEST_SIZE);
    return reads(bytes, size);
}

START_TEST(nonsense)
{
    enum { N = CLS_CONTAINER_HEADER, FIRST = N + 4, SECOND = FIRST + 36 + 5 };
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {
        {N, 0},                    /* fewer programs than there are */
        {N, 4},                    /* more */
        {N + 3, 255},              /* ... */
        {FIRST, 3},                /* of no type */
        {FIRST + 4, CLS_VARIANTS}, /* of no variant */
        {FIRST + 9, 0},            /* a group of 0 */
        {FIRST + 9, 5},            /* ... of 1280 */
        {FIRST + 12, 0},           /* a tier that does not exist */
        {FIRST + 12, 3},           /* ... */
        {FIRST + 12, 1},           /* int64 with sub-groups */
        {FIRST + 16, 0},           /* sub-groups without any */
        {FIRST + 16, 200},         /* ... of nobody's */
        {FIRST + 20, 0},           /* OpenCL C 0 */
        {FIRST + 24, 1},           /* a list of 513 */
        {FIRST + 25, 16},          /* ... of 4096 */
        {FIRST + 25, 0},           /* ... of 0 */
        {FIRST + 28, 0},           /* empty */
        {FIRST + 28, 6},           /* one byte longer */
        {FIRST + 35, 255},         /* ... many bytes */
        {SECOND + 4, FIRST_OF},    /* a second program in the first one's place */
    };
    size_t size;
    uint8_t *const bytes = packed_of(&some, &size);
    ck_assert(reads_with_hash(bytes, size));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const uint8_t was = bytes[wrong[i].at];
        bytes[wrong[i].at] = wrong[i].value;
        ck_assert_msg(!reads_with_hash(bytes, size), "byte %zu is taken as %u", wrong[i].at,
                      (unsigned)wrong[i].value);
        bytes[wrong[i].at] = was;
    }
    ck_assert(reads_with_hash(bytes, size));
    free(bytes);
}
END_TEST

int main(void)
{
    fixture_begin(ON_HOST);
    add_test(known_hashes);
    add_test(pieces);
    add_test(key_covers_sources);
    add_test(round_trip);
    add_test(layout);
    add_test(damage);
    add_test(nonsense);
    return fixture_end();
}
