/* SPDX-License-Identifier: MIT */
/* Reads the files of drafts: how many each request has, their ids, and their distributions. */
#include <inttypes.h>
#include <string.h>

#include "verify.h"

/* Reads integers in one dimension as int32. `what` describes the array in error messages. */
static void read_ints(const char *path, const char *what, int32_t **ids, uint64_t *count)
{
    cli_npy array;
    cli_npy_read(path, &array);
    *ids = array.data;
    *count = array.shape[0];
    if (array.kind != 'i' || array.size < 4 || array.dims != 1)
        cli_npy_refuse(&array, what);
    cli_ids_narrow(array.data, array.size, (size_t)array.shape[0]);
}

/* Reads the numbers of the requests' first rows. */
static void read_cu(const cli_draft_files *files, uint32_t rows, cli_drafts *drafts)
{
    uint64_t count;
    read_ints(files->cu, "int32 [requests + 1]", &drafts->cu, &count);
    if (count < 2)
        cli_die("%s: there is no request; the file needs at least two numbers", files->cu);
    if (drafts->cu[0] != 0)
        cli_die("%s: the first number must be 0, not %" PRId32, files->cu, drafts->cu[0]);
    for (uint64_t i = 0; i + 1 < count; i++) {
        const int64_t of_request = (int64_t)drafts->cu[i + 1] - drafts->cu[i];
        if (of_request < 1 || of_request > CLS_MAX_DRAFTS + 1)
            cli_die("%s: request %" PRIu64 " has %" PRId64 " rows; it must have 1 to %d", files->cu,
                    i, of_request, CLS_MAX_DRAFTS + 1);
        if (of_request - 1 > drafts->most)
            drafts->most = (uint32_t)of_request - 1;
    }
    if ((uint32_t)drafts->cu[count - 1] != rows)
        cli_die("%s: the last number is %" PRId32 ", but %s has %" PRIu32 " rows", files->cu,
                drafts->cu[count - 1], files->target, rows);
    drafts->requests = (uint32_t)count - 1;
    drafts->count = rows - drafts->requests;
}

static void check_count(const char *path, uint64_t have, const char *what, const cli_drafts *drafts)
{
    if (have != drafts->count)
        cli_die("%s: the file has %" PRIu64 " %s, but there are %" PRIu32 " drafts", path, have,
                what, drafts->count);
}

/* Each draft follows the text or an earlier draft. */
static void check_parents(const char *path, const cli_drafts *drafts)
{
    const int32_t *parent = drafts->parents;
    for (uint32_t i = 0; i < drafts->requests; i++)
        for (uint32_t k = 0; k < cli_drafts_of(drafts, i); k++, parent++)
            if (*parent < -1 || *parent >= (int32_t)k)
                cli_die("%s: draft %" PRIu32 " of request %" PRIu32 " follows %" PRId32
                        ", which is neither -1 nor an earlier draft",
                        path, k, i, *parent);
}

static void read_ids(const cli_draft_files *files, cli_drafts *drafts)
{
    uint64_t count;
    if (files->ids == NULL && drafts->count != 0)
        cli_die("--draft-ids: this option is required; name a file of %" PRIu32 " ids",
                drafts->count);
    if (files->ids != NULL) {
        read_ints(files->ids, "int32 [drafts]", &drafts->ids, &count);
        check_count(files->ids, count, "ids", drafts);
    }
    if (files->parents != NULL) {
        read_ints(files->parents, "int32 [drafts]", &drafts->parents, &count);
        check_count(files->parents, count, "parents", drafts);
        check_parents(files->parents, drafts);
    }
}

/* Reads the distributions that the drafts were drawn from. */
static void read_distributions(const cli_draft_files *files, const char *dtype,
                               const cli_logits *target, cli_drafts *drafts)
{
    const char *const path = files->probs != NULL ? files->probs : files->logits;
    cli_npy array;
    cls_dtype have = CLS_F32;
    cli_npy_read(path, &array);
    drafts->draft = array.data;
    drafts->kind = files->probs != NULL ? CLS_DRAFT_PROBS : CLS_DRAFT_LOGITS;
    if (files->logits != NULL && array.size == 2)
        have = array.kind == 'f' ? CLS_F16 : CLS_BF16;
    if (array.dims != 2 || array.kind != (have == CLS_BF16 ? 'u' : 'f') ||
        array.size != (have == CLS_F32 ? 4 : 2))
        cli_npy_refuse(&array, files->probs != NULL ? "float32 [drafts, vocab]"
                                                    : "float32 or float16 [drafts, vocab]");
    if (have != target->dtype || (have == CLS_BF16 && dtype == NULL))
        cli_die("%s: the draft's logits have another type than those of %s", path, files->target);
    check_count(path, array.shape[0], "rows", drafts);
    if (array.shape[1] != target->vocab && drafts->count != 0)
        cli_die("%s: a row has %" PRIu64 " values, but the target's rows have %" PRIu32, path,
                array.shape[1], target->vocab);
}

void cli_drafts_read(const cli_draft_files *files, const char *dtype, const cli_logits *target,
                     cli_drafts *drafts)
{
    read_cu(files, target->rows, drafts);
    read_ids(files, drafts);
    if (files->probs != NULL || files->logits != NULL)
        read_distributions(files, dtype, target, drafts);
}

uint32_t cli_draft_position(const cli_job *job, const cli_drafts *drafts, uint32_t trial,
                            uint32_t request)
{
    return (uint32_t)cli_position(job, request) + trial * (drafts->most + 1);
}

size_t cli_draft_size(const cli_job *job, const cli_drafts *drafts)
{
    return drafts->kind == CLS_DRAFT_LOGITS ? job->logits->size : 4;
}

uint32_t cli_emitted(const cli_drafts *drafts, uint32_t trial, uint32_t request)
{
    const size_t width = drafts->most + 1;
    const int32_t *const tokens =
        drafts->tokens + ((size_t)trial * drafts->requests + request) * width;
    uint32_t n = 0;
    while (n < width && tokens[n] >= 0)
        n++;
    return n;
}
