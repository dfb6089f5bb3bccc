/* SPDX-License-Identifier: MIT */
/* Times MPI_Allgather() for partials of several sizes, and prints a line for each: the bytes of
 * each rank, and the microseconds of one exchange. Each exchange of a block needs what all ranks
 * sent in the one before, so a block takes as long as its exchanges; of the blocks, the median and
 * the fastest tenth are printed.
 *
 *     mpicc -O2 -o allgather bench/allgather.c && mpirun -n 2 ./allgather */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1 << 20, BLOCKS = 201, BLOCK = 20 };

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double us[BLOCKS];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *const own = calloc(MOST, 1), *const all = calloc((size_t)ranks, MOST);
    if (own == NULL || all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int size = 64; size <= MOST; size *= 4) {
        const int blocks = size > 65536 ? BLOCKS / 4 : BLOCKS;
        for (int i = 0; i < blocks; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            const double begin = MPI_Wtime();
            for (int k = 0; k < BLOCK; k++)
                MPI_Allgather(own, size, MPI_BYTE, all, size, MPI_BYTE, MPI_COMM_WORLD);
            us[i] = 1e6 * (MPI_Wtime() - begin) / BLOCK;
        }
        qsort(us, (size_t)blocks, sizeof *us, ascending);
        if (rank == 0)
            printf("%3d ranks  %8d bytes  median %10.1f us  tenth %10.1f us\n", ranks, size,
                   us[blocks / 2], us[blocks / 10]);
    }
    free(own);
    free(all);
    MPI_Finalize();
    return 0;
}
