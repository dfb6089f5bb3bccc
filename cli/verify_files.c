/* SPDX-License-Identifier: MIT */
/* Reads the files of drafts: how many each request has, their ids, and their distributions. */
#include <inttypes.h>
#include <string.h>

#include "verify.h"

/* Opens a file of integers in one dimension. `what` describes it in error messages. */
static void open_ints(const char *path, const char *what, cli_npy *array)
{
    cli_npy_open(path, array);
    if (array->kind != 'i' || array->size < 4 || array->dims != 1)
        cli_npy_refuse(array, what);
}

/* Reads them as int32. */
static int32_t *take_ints(cli_npy *array, const cli_picked *picked)
{
    const bool all = picked == NULL || picked->row == NULL;
    cli_npy_rows(array, picked);
    cli_ids_narrow(array->data, array->size, all ? (size_t)array->shape[0] : picked->count);
    return array->data;
}

/* Reads the numbers of the requests' first rows. */
static void read_cu(const cli_draft_files *files, uint32_t rows, cli_drafts *drafts)
{
    cli_npy array;
    open_ints(files->cu, "int32 [requests + 1]", &array);
    drafts->cu = take_ints(&array, NULL);
    const uint64_t count = array.shape[0];
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

/* What is read of the files of drafts. */
typedef struct reading {
    const cli_draft_files *files;
    cli_request *q;
    cli_drafts *drafts;
    uint32_t all;      /* drafts in each file */
    cli_picked picked; /* of these */
} reading;

static void add_rows(cli_picked *to, int32_t first, int32_t end)
{
    to->row = cli_grow(to->row, to->count + (size_t)(end - first), sizeof *to->row);
    for (; first < end; first++)
        to->row[to->count++] = (uint32_t)first;
}

/* Selects the requests of --rows: their rows of the target, their drafts, and where they begin
 * among these. The most drafts of a request stay those of the whole file, on which positions
 * depend. */
static void select_requests(reading *in, cli_picked *rows)
{
    const cli_picked *const picked = &in->q->picked;
    cli_drafts *const drafts = in->drafts;
    const int32_t *const all = drafts->cu;
    int32_t *const cu = cli_alloc(picked->count + (size_t)1, sizeof *cu);
    for (uint32_t i = 0; i < picked->count; i++) {
        const uint32_t r = picked->row[i];
        if (r >= drafts->requests)
            cli_die("%s: there is no request %" PRIu32 "; %s has requests 0 to %" PRIu32,
                    picked->option, r, in->files->cu, drafts->requests - 1);
        add_rows(rows, all[r], all[r + 1]);
        add_rows(&in->picked, all[r] - (int32_t)r, all[r + 1] - (int32_t)r - 1);
        cu[i + 1] = (int32_t)rows->count;
    }
    drafts->cu = cu;
    drafts->requests = picked->count;
    drafts->count = in->picked.count;
    in->q->logits.rows = rows->count;
}

static void check_count(const reading *in, const char *path, uint64_t have, const char *what)
{
    char of_file[CLI_COUNTED], drafts[CLI_COUNTED];
    if (have != in->all)
        cli_die("%s: the file has %s for %s", path, cli_counted(of_file, have, what),
                cli_counted(drafts, in->all, "drafts"));
}

/* Each draft follows the text or an earlier draft. */
static void check_parents(const reading *in)
{
    const cli_drafts *const drafts = in->drafts;
    const int32_t *parent = drafts->parents;
    for (uint32_t i = 0; i < drafts->requests; i++)
        for (uint32_t k = 0; k < cli_drafts_of(drafts, i); k++, parent++)
            if (*parent < -1 || *parent >= (int32_t)k)
                cli_die("%s: draft %" PRIu32 " of request %" PRIu32 " follows %" PRId32
                        ", which is neither -1 nor an earlier draft",
                        in->files->parents, k, cli_row_number(&in->q->picked, i), *parent);
}

static void read_drafts(const reading *in, const char *path, const char *what, int32_t **ids)
{
    cli_npy array;
    if (path == NULL)
        return;
    open_ints(path, "int32 [drafts]", &array);
    check_count(in, path, array.shape[0], what);
    *ids = take_ints(&array, &in->picked);
}

/* Reads the distributions that the drafts were drawn from. */
static void read_distributions(const reading *in)
{
    const cli_draft_files *const files = in->files;
    const char *const path = files->probs != NULL ? files->probs : files->logits;
    const cli_logits *const target = &in->q->logits;
    cli_npy array;
    cls_dtype have = CLS_F32;
    cli_npy_open(path, &array);
    in->drafts->kind = files->probs != NULL ? CLS_DRAFT_PROBS : CLS_DRAFT_LOGITS;
    if (files->logits != NULL && array.size == 2)
        have = array.kind == 'f' ? CLS_F16 : CLS_BF16;
    if (array.dims != 2 || array.kind != (have == CLS_BF16 ? 'u' : 'f') ||
        array.size != (have == CLS_F32 ? 4 : 2))
        cli_npy_refuse(&array, files->probs != NULL ? "float32 [drafts, vocab]"
                                                    : "float32 or float16 [drafts, vocab]");
    if (have != target->dtype || (have == CLS_BF16 && in->q->dtype < 0))
        cli_die("%s: the draft's logits have another type than those of %s", path, files->target);
    check_count(in, path, array.shape[0], "rows");
    if (array.shape[1] != target->vocab && in->all != 0)
        cli_die("%s: a row has %" PRIu64 " values, but the target's rows have %" PRIu32, path,
                array.shape[1], target->vocab);
    cli_npy_rows(&array, &in->picked);
    in->drafts->draft = array.data;
}

void cli_drafts_read(const cli_draft_files *files, cli_request *q, cli_drafts *drafts)
{
    reading in = {.files = files, .q = q, .drafts = drafts};
    cli_picked *const rows = cli_alloc(1, sizeof *rows);
    cli_npy target;
    cli_logits_open(files->target, q->dtype, NULL, &target, &q->logits);
    read_cu(files, q->logits.file_rows, drafts);
    in.all = drafts->count;
    q->file_requests = drafts->requests;
    if (q->picked.row != NULL)
        select_requests(&in, rows);
    q->requests = drafts->requests;
    q->picked_logits = rows;
    cli_npy_rows(&target, rows);
    q->logits.data = target.data;
    if (files->ids == NULL && drafts->count != 0)
        cli_die("--draft-ids: this option is required; name a file of %" PRIu32 " ids", in.all);
    read_drafts(&in, files->ids, "ids", &drafts->ids);
    read_drafts(&in, files->parents, "parents", &drafts->parents);
    if (files->parents != NULL)
        check_parents(&in);
    if (files->probs != NULL || files->logits != NULL)
        read_distributions(&in);
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
