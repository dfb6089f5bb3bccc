/* SPDX-License-Identifier: MIT */
/* Target: the binary files of the command, read by cli/common/npy.c, cli/common/arrays.c and
 * cli/common/pieces.c. The first byte selects the kind of file. */
#include "fuzz.h"

#include <string.h>

#define fopen file_open
#define fclose file_close
#include "cli/common/npy.c"
#include "cli/common/arrays.c"
#include "cli/common/pieces.c"

/* Whether the array can be read, and not refused. */
static bool reads(const char *path, cli_npy *array)
{
    if (setjmp(refusal) != 0)
        return false;
    cli_npy_read(path, array);
    return true;
}

static bool reads_rows(cli_input what, int32_t dtype, const cli_picked *picked, cli_array *rows)
{
    cli_npy array;
    if (setjmp(refusal) != 0)
        return false;
    cli_array_open(what, "input", dtype, &array, rows);
    cli_array_read(&array, picked, rows);
    return true;
}

/* Reads an array, checks that all data are there, writes it and compares the result. */
static void any_array(void)
{
    cli_npy array, again;
    if (!reads("input", &array)) {
        demand(*take_message() != '\0', "refused without a message");
        return;
    }
    const size_t size = (size_t)(array.shape[0] * array.shape[1]) * array.size;
    demand(array.dims == 1 || array.dims == 2, "%u dimensions", array.dims);
    demand((array.data != NULL) == (size != 0), "data and their size disagree");
    look_at(array.data, size);
    if (array.size == 4 && array.data != NULL) {
        size_t file_size;
        cli_npy_write("output", array.kind, array.dims, array.shape, array.data);
        const uint8_t *const file = file_written(&file_size);
        file_holds(file, file_size);
        demand(reads("output", &again), "an array that was written is refused: %s", take_message());
        demand(again.kind == array.kind && again.dims == array.dims &&
                   again.shape[0] == array.shape[0] && again.shape[1] == array.shape[1] &&
                   memcmp(again.data, array.data, size) == 0,
               "an array that was written has changed");
    }
}

static void all_rows(cli_input what, int32_t dtype)
{
    cli_array rows;
    if (reads_rows(what, dtype, NULL, &rows)) {
        demand(rows.rows != 0 && rows.width != 0, "rows of no size");
        look_at(rows.data, rows.size * rows.rows * rows.width);
    } else {
        demand(*take_message() != '\0', "refused without a message");
    }
}

/* Compares selected rows with the same rows of the whole file. */
static void some_rows(uint32_t first, uint32_t second)
{
    uint32_t row[2] = {first, second};
    const cli_picked picked = {"--rows", 2, row};
    cli_array all, some;
    const bool whole = reads_rows(CLI_LOGITS, -1, NULL, &all);
    file_abandon();
    if (reads_rows(CLI_LOGITS, -1, &picked, &some)) {
        const size_t size = some.size * some.width;
        demand(whole && some.rows == 2 && some.file_rows == all.rows,
               "rows of a file that is refused");
        for (size_t i = 0; i < 2; i++)
            demand(memcmp((char *)some.data + i * size, (char *)all.data + row[i] * size, size) ==
                       0,
                   "a row that was not selected");
    } else {
        demand(!whole || first >= all.rows || second >= all.rows, "existing rows are refused");
    }
}

static void some_pieces(uint32_t vocab)
{
    cli_pieces pieces;
    char name[16];
    if (setjmp(refusal) != 0)
        return;
    cli_pieces_read("input", vocab, &pieces);
    for (int32_t id = -1; id <= (int32_t)vocab; id++) {
        cli_pieces_name(&pieces, id, name);
        demand(memchr(name, '\0', sizeof name) != NULL, "a name without an end");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t dtypes[] = {-1, CLS_F32, CLS_F16, CLS_BF16};
    input in = {data, size};
    const uint8_t how = take_byte(&in);
    cli_memory_begin();
    file_holds(in.data, in.size);
    take_message();
    if (how < 4)
        all_rows(CLI_LOGITS, dtypes[how]);
    else if (how < 6)
        all_rows(how == 4 ? CLI_MASK : CLI_BIAS, -1);
    else if (how >= 250)
        some_pieces(1u + how - 250);
    else if (how >= 246)
        some_rows(how & 1u, how >> 1 & 1u);
    else
        any_array();
    file_abandon();
    cli_memory_end(NULL);
    return 0;
}
