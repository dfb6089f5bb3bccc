/* SPDX-License-Identifier: MIT */
/* Verifications of clsample run, and the drafts that they are given. */
#include <inttypes.h>
#include <string.h>

#include "run/calls.h"

/* ---------------------------------------------------------------- verification */

static const char verify_keys[] = RUN_INPUT_KEYS
    "slots positions draws drafts ids parents draft draft_tokens draft_map outputs method requests "
    "row_offsets";

/* The number of a method of verification. */
static int32_t method_of(const run_statement *s)
{
    static const char *const names[] = {"match", "standard", "block", "typical"};
    const char *const text = run_find(s, "method");
    for (int32_t i = 0; text != NULL && i < 4; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    if (text != NULL && strspn(text, "0123456789") != strlen(text))
        run_die(s, "method=%.40s is none of match, standard, block and typical", text);
    return (int32_t)run_count(s, "method", 0);
}

/* The ids of drafts: a list, or likely:SEED, which looks at the rows that the drafts follow. */
static run_map read_drafts(const run_side *side, const run_statement *s, const int32_t *offsets,
                           uint32_t requests, const run_inputs *in)
{
    const char *const text = run_find(s, "ids");
    const uint32_t vocab = side->sampler_options.vocab;
    const uint32_t drafts = (uint32_t)offsets[requests] - requests;
    uint64_t number[3] = {0};
    run_map m = {.value = NULL};
    if (text == NULL || drafts == 0)
        return m;
    if (strcmp(text, "drafted") == 0)
        return run_latest(side, "drafts", drafts);
    if (!run_is(s, text + (*text == '@'), "likely", number))
        return run_map_read(s, "ids", drafts);
    rng r = {number[0]};
    m.on_device = *text == '@';
    m.value = cli_alloc(drafts, sizeof *m.value);
    for (uint32_t i = 0, k = 0; i < requests; i++)
        for (int32_t row = offsets[i]; row + 1 < offsets[i + 1]; row++)
            m.value[k++] = run_likely(&r,
                                      (const char *)in->of[CLI_LOGITS].data +
                                          (size_t)row * vocab * dtype_size(in->of[CLI_LOGITS].type),
                                      in->of[CLI_LOGITS].type, vocab);
    return m;
}

/* Where drafts lie on the permuted side: the number of a call says in which of five ways. */
typedef struct drafts_layout {
    uint64_t stride, apart; /* elements from one draft, and from one request, to the next; or 0 */
} drafts_layout;

static drafts_layout layout_of(const run_side *side, const int32_t *offsets, uint32_t requests,
                               uint64_t width)
{
    const uint64_t gap = width == 1 ? 1 : 3;
    uint64_t most = 1;
    for (uint32_t i = 0; i < requests; i++)
        most = (uint64_t)(offsets[i + 1] - offsets[i]) > most
                   ? (uint64_t)(offsets[i + 1] - offsets[i])
                   : most;
    const drafts_layout ways[] = {{0, 0},
                                  {requests * width, width},
                                  {width, most * width},
                                  {requests * (width + gap) + 1, width + gap},
                                  {width + gap + 2, 0}};
    return side->way == RUN_PERMUTED ? ways[side->index % 5] : ways[0];
}

/* Puts the drafts' elements of `width` times `size` bytes where a layout has them. Between them are
 * bytes that no draft has. Returns NULL if they lie one after the other. */
static void *spread_drafts(drafts_layout l, const void *from, const int32_t *offsets,
                           uint32_t requests, uint64_t width, size_t size, uint64_t *count)
{
    const uint64_t one = width * size;
    uint64_t end = 0;
    char *to = NULL;
    if (l.stride == 0)
        return NULL;
    for (int round = 0; round < 2; round++) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < requests; i++)
            for (uint64_t j = 0; j + 1 < (uint64_t)(offsets[i + 1] - offsets[i]); j++, k++) {
                const uint64_t at = l.apart != 0 ? i * l.apart + j * l.stride : k * l.stride;
                end = at + width > end ? at + width : end;
                if (to != NULL)
                    memcpy(to + at * size, (const char *)from + k * one, (size_t)one);
            }
        if (to == NULL) {
            to = cli_alloc((size_t)end + 1, size);
            memset(to, width == 1 ? 0x7e : 0xff, (size_t)(end * size)); /* no id, and NaN */
        }
    }
    *count = end;
    return to;
}

/* The logits of the rows that drafts follow, some of them changed a little, so that many drafts are
 * accepted by their probabilities. */
static void *near_logits(uint64_t seed, const int32_t *offsets, uint32_t requests, uint32_t vocab,
                         const run_inputs *in)
{
    const size_t size = dtype_size(in->of[CLI_LOGITS].type), row = vocab * size;
    char *const all = cli_alloc((size_t)offsets[requests] + 1, row), *to = all;
    rng r = {seed ^ 0x6e656172};
    for (uint32_t i = 0; i < requests; i++)
        for (int32_t k = offsets[i]; k + 1 < offsets[i + 1]; k++, to += row) {
            const uint32_t changed = rng_below(&r, 3);
            memcpy(to, (const char *)in->of[CLI_LOGITS].data + (size_t)k * row, row);
            for (uint32_t id = 0; id < vocab && changed != 0; id++)
                if (rng_below(&r, changed == 1 ? vocab : 3) == 0)
                    dtype_encode(in->of[CLI_LOGITS].type,
                                 dtype_decode(in->of[CLI_LOGITS].type, to + id * size) +
                                     (float)rng_normal(&r),
                                 to + id * size);
        }
    return all;
}

/* The distributions of a file, one row for each draft. */
static const void *rows_of_file(const run_statement *s, const char *name, uint32_t drafts,
                                uint32_t width, int32_t dtype)
{
    const cli_array *const a = run_array(NULL, s, CLI_LOGITS, name, dtype);
    if (a->rows < drafts || a->width != width)
        run_die(s, "%s has %" PRIu32 " rows of %" PRIu32 " values for %" PRIu32 " drafts", name,
                a->rows, a->width, drafts);
    return a->data;
}

/* Puts the drafts' rows of `width` times `size` bytes where a layout has them. */
static cls_buffer put_draft_rows(run_side *side, drafts_layout l, const void *rows,
                                 const int32_t *offsets, uint32_t requests, uint32_t width,
                                 size_t size, cls_verify_call *v)
{
    uint64_t count;
    const void *const spread = spread_drafts(l, rows, offsets, requests, width, size, &count);
    if (spread == NULL)
        return run_rows_put(side, rows, (uint32_t)offsets[requests] - requests, width * size, size,
                            &v->draft_stride);
    v->draft_stride = l.stride;
    v->draft_request_stride = l.apart;
    return run_buffer(side, spread, (size_t)count * size);
}

/* The layout of a call's distributions, unless it sets strides itself. */
static drafts_layout layout_of_rows(const run_side *side, const int32_t *offsets, uint32_t requests,
                                    uint32_t width, const cls_verify_call *v)
{
    return v->draft_stride == 0 && v->draft_request_stride == 0
               ? layout_of(side, offsets, requests, width)
               : (drafts_layout){0, 0};
}

/* The map of a reduced vocabulary: a list, or every:N, whose token i is token N i of the target. */
static int32_t *read_draft_map(const run_side *side, const run_statement *s, uint32_t *n)
{
    const char *const text = run_find(s, "draft_map");
    uint64_t number[3];
    *n = 0;
    if (text == NULL)
        return NULL;
    if (!run_is(s, text, "every", number))
        return run_numbers(s, "draft_map", text, n);
    if (number[0] < 1 || number[0] > side->sampler_options.vocab)
        run_die(s, "draft_map=every:%" PRIu64 " is not 1 to the vocabulary", number[0]);
    *n = (side->sampler_options.vocab - 1) / (uint32_t)number[0] + 1;
    int32_t *const map = cli_alloc(*n, sizeof *map);
    for (uint32_t i = 0; i < *n; i++)
        map[i] = (int32_t)(i * ((uint32_t)number[0] - 1));
    return map;
}

/* The target's token of one of a sparse distribution, or -1. */
static int32_t target_token(int32_t id, const int32_t *map, uint32_t n, uint32_t vocab)
{
    uint32_t to = (uint32_t)id;
    if (map != NULL)
        to = to < n ? to + (uint32_t)map[to] : UINT32_MAX;
    return to < vocab ? (int32_t)to : -1;
}

/* Tokens of sparse distributions: the draft itself, unless that is left out now and then, likely
 * tokens of the row that it follows, others, and none. Some are there twice. */
static int32_t *likely_tokens(uint64_t seed, const int32_t *offsets, uint32_t requests,
                              const int32_t *ids, const int32_t *map, uint32_t n_map,
                              uint32_t width, uint32_t vocab, const run_inputs *in)
{
    const size_t size = dtype_size(in->of[CLI_LOGITS].type);
    int32_t *const all = run_room((uint64_t)offsets[requests] + 1, width, sizeof *all), *to = all;
    rng r = {seed ^ 0x73706172};
    for (uint32_t i = 0, k = 0; i < requests; i++)
        for (int32_t row = offsets[i]; row + 1 < offsets[i + 1]; row++, k++, to += width) {
            const uint32_t own = rng_below(&r, width);
            const bool has_own = rng_below(&r, 12) != 0 && ids != NULL;
            for (uint32_t j = 0; j < width; j++) {
                const uint32_t what = rng_below(&r, 8);
                int32_t token = (int32_t)rng_below(&r, vocab);
                if (what == 0)
                    token = rng_below(&r, 2) ? -1 : (int32_t)vocab;
                else if (what < 3)
                    token = run_likely(
                        &r, (const char *)in->of[CLI_LOGITS].data + (size_t)row * vocab * size,
                        in->of[CLI_LOGITS].type, vocab);
                else if (what == 3 && j > 0)
                    token = target_token(to[j - 1], map, n_map, vocab);
                if (j == own && has_own)
                    token = ids[k];
                to[j] = token;
                for (uint32_t m = 0; m < n_map; m++) /* to the draft model's */
                    if (token == (int32_t)m + map[m]) {
                        to[j] = (int32_t)m;
                        break;
                    }
            }
        }
    return all;
}

/* The same distributions as rows of the whole vocabulary. */
static float *dense_of(const int32_t *tokens, const float *probs, const int32_t *map,
                       uint32_t n_map, uint32_t drafts, uint32_t width, uint32_t vocab)
{
    float *const all = run_room(drafts, vocab, sizeof *all);
    for (uint32_t k = 0; k < drafts; k++)
        for (uint32_t j = width; j-- > 0;) {
            const int32_t id = target_token(tokens[(size_t)k * width + j], map, n_map, vocab);
            if (id >= 0)
                all[(size_t)k * vocab + (uint32_t)id] = probs[(size_t)k * width + j];
        }
    return all;
}

/* Whether every other statement of the permuted side shall pass sparse distributions as rows of the
 * whole vocabulary, which must give the same results. A statement that sets fields itself is as it
 * is. */
static bool passes_dense(const run_side *side, const run_statement *s)
{
    bool as_it_is = false;
    for (uint32_t i = 0; i < s->words; i++)
        as_it_is |= strncmp(s->word[i].key, "draft_", 6) == 0 &&
                    strcmp(s->word[i].key, "draft_tokens") != 0 &&
                    strcmp(s->word[i].key, "draft_map") != 0 &&
                    strcmp(s->word[i].key, "draft_width") != 0;
    return side->way == RUN_PERMUTED && side->index % 2 == 0 && !as_it_is;
}

/* Sparse distributions: draft_tokens, a list or likely:SEED, with draft=probs:SEED, list:NUMBERS or
 * file:NAME, of draft_width each. `ids`: the drafts, or NULL. */
static void read_sparse(run_side *side, const run_statement *s, const int32_t *offsets,
                        uint32_t requests, const int32_t *ids, const run_inputs *in,
                        cls_verify_call *v)
{
    const uint32_t drafts = (uint32_t)offsets[requests] - requests,
                   vocab = side->sampler_options.vocab;
    const char *const text = run_find(s, "draft_tokens");
    const char *const draft = run_find(s, "draft") != NULL ? run_value(s, "draft") : "";
    uint64_t number[3];
    uint32_t n_map, n = 0;
    int32_t *const map = read_draft_map(side, s, &n_map);
    const bool likely = run_is(s, text, "likely", number);
    const int32_t *tokens = likely ? NULL : run_numbers(s, "draft_tokens", text, &n);
    if (run_find(s, "draft_width") == NULL && drafts != 0)
        v->draft_width = n / drafts;
    const uint32_t width = v->draft_width < 1                     ? 1
                           : v->draft_width > CLS_MAX_DRAFT_WIDTH ? CLS_MAX_DRAFT_WIDTH + 1
                                                                  : v->draft_width;
    if (likely)
        tokens = likely_tokens(number[0], offsets, requests, ids, map, n_map, width, vocab, in);
    else if (n < (uint64_t)drafts * width)
        run_die(s, "draft_tokens has %" PRIu32 " numbers for %" PRIu32 " drafts of %" PRIu32, n,
                drafts, width);
    const float *const probs = run_is(s, draft, "probs", number)
                                   ? run_random_probs(number[0], drafts, width)
                               : strncmp(draft, "file:", 5) == 0
                                   ? rows_of_file(s, draft + 5, drafts, width, CLS_F32)
                                   : run_rows_by_hand(s, "draft", draft, drafts, width, CLS_F32);
    if (probs == NULL)
        run_die(s, "draft=%.40s is none of probs:SEED, list:NUMBERS and file:NAME", draft);
    if (passes_dense(side, s)) {
        v->draft_kind = CLS_DRAFT_PROBS;
        v->draft_width = 0;
        v->draft = put_draft_rows(side, layout_of_rows(side, offsets, requests, vocab, v),
                                  dense_of(tokens, probs, map, n_map, drafts, width, vocab),
                                  offsets, requests, vocab, sizeof(float), v);
        return;
    }
    if (run_find(s, "draft_kind") == NULL)
        v->draft_kind = CLS_DRAFT_SPARSE;
    if (run_find(s, "draft_vocab") == NULL)
        v->draft_vocab = n_map;
    if (map != NULL)
        v->draft_map = run_buffer(side, map, n_map * sizeof *map);
    const drafts_layout l = layout_of_rows(side, offsets, requests, width, v);
    v->draft = put_draft_rows(side, l, probs, offsets, requests, width, sizeof(float), v);
    v->draft_tokens = put_draft_rows(side, l, tokens, offsets, requests, width, sizeof(int32_t), v);
}

static cls_buffer read_distributions(run_side *side, const run_statement *s, const int32_t *offsets,
                                     uint32_t requests, const run_inputs *in, cls_verify_call *v)
{
    const uint32_t drafts = (uint32_t)offsets[requests] - requests;
    int32_t dtype = in->of[CLI_LOGITS].type;
    const char *const text = run_find(s, "draft");
    const uint32_t vocab = side->sampler_options.vocab;
    uint64_t number[3];
    v->draft_kind = CLS_DRAFT_NONE;
    if (text == NULL)
        return (cls_buffer){.buffer = NULL};
    const bool probs = run_is(s, text, "probs", number),
               near = !probs && run_is(s, text, "near", number),
               logits = near || (!probs && run_is(s, text, "logits", number));
    const char *const by_hand = strncmp(text, "logits-", 7) == 0 ? text + 7 : text;
    if (by_hand == text && !logits)
        dtype = CLS_F32;
    const char *const of_logits = strncmp(text, "logits-file:", 12) == 0 ? text + 7 : text;
    const bool of_file = strncmp(of_logits, "file:", 5) == 0;
    if (of_file)
        dtype = of_logits == text ? CLS_F32 : in->of[CLI_LOGITS].type;
    const void *const rows = of_file  ? rows_of_file(s, of_logits + 5, drafts, vocab, dtype)
                             : probs  ? run_random_probs(number[0], drafts, vocab)
                             : near   ? near_logits(number[0], offsets, requests, vocab, in)
                             : logits ? run_random_logits(number[0], -1, drafts, vocab, dtype)
                                      : run_rows_by_hand(s, "draft", by_hand, drafts, vocab, dtype);
    if (rows == NULL)
        run_die(s,
                "draft=%.40s is none of probs:SEED, list:NUMBERS, file:NAME, logits:SEED, "
                "near:SEED, logits-list:NUMBERS and logits-file:NAME",
                text);
    v->draft_kind =
        logits || by_hand != text || of_logits != text ? CLS_DRAFT_LOGITS : CLS_DRAFT_PROBS;
    return put_draft_rows(side, layout_of_rows(side, offsets, requests, vocab, v), rows, offsets,
                          requests, vocab, dtype_size(dtype), v);
}

/* On the permuted side the drafts' ids lie in other places. Returns how many numbers there are. */
static uint32_t spread_ids(const run_side *side, run_map *ids, const int32_t *offsets,
                           uint32_t requests, cls_verify_call *v)
{
    const uint32_t drafts = (uint32_t)offsets[requests] - requests;
    const drafts_layout l = layout_of(side, offsets, requests, 1);
    uint64_t count;
    if (ids->value == NULL || v->ids_stride != 0 || v->ids_request_stride != 0)
        return drafts;
    int32_t *const spread =
        spread_drafts(l, ids->value, offsets, requests, 1, sizeof *spread, &count);
    if (spread == NULL)
        return drafts;
    ids->value = spread;
    v->ids_stride = l.stride;
    v->ids_request_stride = l.apart;
    return (uint32_t)count;
}

void run_verify(run_side *side, const run_statement *s)
{
    const uint32_t most = side->sampler_options.max_rows, since = side->records;
    const bool gathers = side->shards != 0 && run_reference(side) == CLS_OK;
    cls_logits whole[RUN_MOST_SHARDS];
    cls_verify_call v;
    uint32_t requests = 0, most_drafts = 0;
    run_begin_call(s, verify_keys, "cls_verify_call", &v, sizeof v);
    run_value(s, "drafts");
    const int32_t *const drafts = run_list(s, "drafts", &requests);
    int32_t *const offsets = cli_alloc(requests + (size_t)1, sizeof *offsets);
    for (uint32_t i = 0; i < requests; i++) {
        if (drafts[i] < 0 || drafts[i] > CLS_MAX_DRAFTS)
            run_die(s, "drafts: %" PRId32 " is not a number of drafts", drafts[i]);
        offsets[i + 1] = offsets[i] + drafts[i] + 1;
        most_drafts = (uint32_t)drafts[i] > most_drafts ? (uint32_t)drafts[i] : most_drafts;
    }
    const uint32_t rows = requests != 0 ? (uint32_t)offsets[requests] : 0;
    if (rows > 4 * most + 1024)
        run_die(s, "drafts: there are %" PRIu32 " rows for a sampler of %" PRIu32, rows, most);
    const run_inputs in = run_inputs_read(side, s, rows, rows);
    run_hashes(side, s, &in, rows);
    run_map slots = run_map_read(s, "slots", requests),
            positions = run_map_read(s, "positions", requests),
            draws = run_map_read(s, "draws", requests),
            parents = run_map_read(s, "parents", rows - requests),
            ids = read_drafts(side, s, offsets, requests, &in);
    run_place_slots(side, &slots, requests);
    v.requests = run_count(s, "requests", requests);
    if (v.requests > requests)
        run_die(s, "requests=%" PRIu32 " exceeds the numbers of drafts", v.requests);
    v.method = method_of(s);
    v.row_offsets = run_passing(side, offsets, (requests + (size_t)1) * sizeof *offsets);
    if (gathers)
        run_gather(side, &in, rows, whole);
    else
        v.logits = run_logits(side, &in, 0, rows, RUN_WHOLE);
    v.slots = run_map_put(side, &slots, 0, requests);
    v.positions = run_map_put(side, &positions, 0, requests);
    v.draws = run_map_put(side, &draws, 0, requests);
    v.parents = run_map_put(side, &parents, 0, rows - requests);
    const int32_t *const drafted = ids.value;
    const uint32_t places_of_ids = spread_ids(side, &ids, offsets, requests, &v);
    v.draft_ids = run_map_put(side, &ids, 0, places_of_ids);
    const bool sparse = run_find(s, "draft_tokens") != NULL,
               dense = sparse && passes_dense(side, s);
    if (sparse)
        read_sparse(side, s, offsets, requests, drafted, &in, &v);
    else
        v.draft = read_distributions(side, s, offsets, requests, &in, &v);
    run_guides(side, &in, 0, rows, &v.mask, &v.bias);
    const uint32_t width = v.max_drafts != 0 ? v.max_drafts : most_drafts,
                   places = requests * (run_least(width, CLS_MAX_DRAFTS) + 1),
                   of_slots = side->sampler_options.slot_count;
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < (gathers ? side->shards : 1) && status == CLS_OK; i++) {
        if (gathers)
            v.logits = whole[i];
        v.tokens = run_result(side, "tokens", places, 1, false);
        v.accepted = run_result(side, "accepted", requests, 1, false);
        v.emitted = run_result(side, "emitted", requests, 1, false);
        v.nodes = run_result(side, "nodes", places - requests, 1, false);
        v.status = run_result(side, "status", requests, 1, false);
        v.drafted = run_result(side, "drafted", requests, 1, false);
        side->reverses = side->way == RUN_PERMUTED;
        v.counters = run_result(side, "counters", of_slots, 3, false);
        v.latest = run_result(side, "latest", of_slots, 1, false);
        side->reverses = false;
        v.token_status = run_result(side, "token_status", places, 1, false);
        run_outputs out = run_outputs_make(side, s, places, true);
        run_set_all_parts(side, s, verify_keys, "cls_verify_call", &v, &out);
        if (dense) /* the word has set it */
            v.draft_width = 0;
        run_check_mask(side, s, &v.mask, &in);
        v.outputs = out.any ? &out.o : NULL;
        RUN_RETRY(status, side, i, cls_verify, &v);
    }
    if (gathers && status == CLS_OK)
        run_join_shards(side, since);
    run_returned(side, status, since);
}
