/* SPDX-License-Identifier: MIT */
/* Writes the bench's rows as a NumPy array of float32, for measurements of other samplers on the
 * same rows (bench/peers.py).
 *
 *     write-rows language|flat|ties ROWS VOCAB FILE.npy */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"language", "flat", "ties"};
    bench_rows kind = BENCH_LANGUAGE;
    uint32_t n, vocab;
    float *rows;
    if (argc != 5)
        return cli_fail("usage: write-rows language|flat|ties ROWS VOCAB FILE.npy");
    while (kind <= BENCH_TIES && strcmp(argv[1], kinds[kind]) != 0)
        kind++;
    if (kind > BENCH_TIES)
        return cli_fail("write-rows: '%s' is not one of language, flat, ties", argv[1]);
    cli_set(CLI_UINT, &n, NULL, "ROWS", argv[2]);
    cli_set(CLI_UINT, &vocab, NULL, "VOCAB", argv[3]);
    if (n < 1 || n > 65536 || vocab < 1 || vocab > 1048576)
        return cli_fail("write-rows: [%u, %u] is out of range; there must be 1 to 65536 rows of 1 "
                        "to 1048576 tokens",
                        (unsigned)n, (unsigned)vocab);
    rows = malloc(((size_t)n * vocab + BENCH_PAD) * sizeof *rows);
    if (rows == NULL)
        return cli_no_memory();
    if (bench_fill_rows(rows, CLS_F32, n, vocab, kind))
        return 1;
    cli_npy_write(argv[4], 'f', 2, (const uint64_t[]){n, vocab}, rows);
    free(rows);
    return 0;
}
