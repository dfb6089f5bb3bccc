/* SPDX-License-Identifier: MIT */
/* SHA-256, written from FIPS 180-4. It shows whether compiled programs are undamaged and whether
 * they fit the device. */
#include "base/base.h"

/* The round constants: the first 32 bits of the fractional parts of the cube roots of the first 64
 * primes (section 4.2.2). */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

/* Hashes one block of 64 bytes (section 6.2.2). */
static void compress(uint32_t h[8], const uint8_t *block)
{
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], hh = h[7];
    uint32_t w[64];
    for (int t = 0; t < 16; t++, block += 4)
        w[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    for (int t = 16; t < 64; t++)
        w[t] =
            (rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10) + w[t - 7] +
            (rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3) + w[t - 16];
    for (int t = 0; t < 64; t++) {
        const uint32_t t1 = hh + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                            ((e & f) ^ (~e & g)) + k[t] + w[t];
        const uint32_t t2 = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                            ((a & b) ^ (a & c) ^ (b & c));
        hh = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d;
    h[4] += e, h[5] += f, h[6] += g, h[7] += hh;
}

void cls_sha256_init(cls_sha256 *hash)
{
    /* The initial hash value, from the square roots of the first eight primes (section 5.3.3). */
    static const uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->h, h, sizeof h);
    hash->bytes = 0;
}

void cls_sha256_update(cls_sha256 *hash, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    while (size > 0) {
        const size_t used = (size_t)(hash->bytes % sizeof hash->block),
                     room = sizeof hash->block - used;
        const size_t n = size < room ? size : room;
        memcpy(hash->block + used, from, n);
        if (n == room)
            compress(hash->h, hash->block);
        hash->bytes += n;
        from += n;
        size -= n;
    }
}

void cls_sha256_final(cls_sha256 *hash, uint8_t digest[CLS_DIGEST_SIZE])
{
    static const uint8_t padding[64] = {0x80};
    const uint64_t bits = hash->bytes * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    /* 1 to 64 bytes of padding leave eight bytes of the last block for the length. */
    cls_sha256_update(hash, padding, 1 + (size_t)((119 - hash->bytes % 64) % 64));
    cls_sha256_update(hash, length, sizeof length);
    for (int i = 0; i < CLS_DIGEST_SIZE; i++)
        digest[i] = (uint8_t)(hash->h[i / 4] >> (24 - 8 * (i % 4)));
}
