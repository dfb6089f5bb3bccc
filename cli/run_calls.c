/* SPDX-License-Identifier: MIT */
/* The statements of clsample run that enqueue. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* ------------------------------------------------------------------------ maps */

/* A map of a call: numbers, one for each row, on the host or, behind @, on the device. */
typedef struct map {
    int32_t *value; /* NULL: absent */
    bool on_device;
} map;

static map read_map(const run_statement *s, const char *key, uint32_t rows)
{
    const char *const text = run_find(s, key);
    map m = {.value = NULL};
    uint32_t n;
    if (text == NULL)
        return m;
    m.on_device = *text == '@';
    m.value = run_numbers(s, key, text + m.on_device, &n);
    if (n < rows)
        run_die(s, "%s has %" PRIu32 " numbers for %" PRIu32 " rows", key, n, rows);
    return m;
}

static cls_ints ints_of(run_side *side, const map *m, uint32_t first, uint32_t n)
{
    cls_ints ints = {.host = NULL};
    if (m->value == NULL)
        return ints;
    if (m->on_device)
        ints.device = run_buffer(side, m->value + first, n * sizeof *m->value);
    else
        ints.host = run_passing(side, m->value + first, n * sizeof *m->value);
    return ints;
}

/* Turns the rows of data, or of a map, around. */
static void *turned(const void *data, uint32_t rows, size_t row)
{
    char *const to = cli_alloc((size_t)rows * row, 1);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(to + i * row, (const char *)data + (rows - 1 - i) * row, row);
    return to;
}

static void turn_map(map *m, uint32_t rows)
{
    if (m->value != NULL)
        m->value = turned(m->value, rows, sizeof *m->value);
}

/* The slots of rows on this side, where a missing map names the first ones. */
static void place_slots(const run_side *side, map *slots, uint32_t rows)
{
    if (side->way != RUN_PERMUTED)
        return;
    const bool absent = slots->value == NULL;
    int32_t *const placed = cli_alloc(rows, sizeof *placed);
    for (uint32_t i = 0; i < rows; i++)
        placed[i] = run_slot(side, absent ? (int32_t)i : slots->value[i]);
    slots->value = placed;
}

/* --------------------------------------------------------------------- inputs */

/* The logits, the mask and the bias of a call. */
typedef struct inputs {
    uint32_t rows; /* of logits, and of masks and biases without a map */
    const void *logits;
    int32_t dtype;
    const void *mask, *bias;
    int32_t mask_kind, bias_dtype;
    uint32_t mask_width, mask_rows, bias_rows;
    bool mask_on_host;
    map mask_map, bias_map;
    float factor;
} inputs;
#define INPUT_KEYS \
    "logits logits_pick kind dtype mask mask_pick mask_kind mask_width mask_rows mask_map " \
    "mask_host bias bias_pick bias_dtype bias_rows bias_map bias_factor hash "

static int32_t dtype_of(const run_statement *s, const char *key, int32_t absent)
{
    const char *const text = run_find(s, key);
    for (int32_t d = 0; text != NULL && d < 3; d++)
        if (strcmp(text, dtype_names[d]) == 0)
            return d;
    if (text != NULL)
        run_die(s, "%s=%.40s is none of f32, f16 and bf16", key, text);
    return absent;
}

/* Rows of a list of numbers, or rows in which one token is the likeliest: list:1,2/3 or tokens:5,6,
 * or those of the words list=1,2/3 and tokens=5,6 of a statement `logits`. NULL: neither. */
static void *rows_by_hand(const run_statement *s, const char *key, const char *text, uint32_t rows,
                          uint32_t vocab, int32_t dtype)
{
    const char *list = NULL, *tokens = NULL;
    const size_t size = dtype_size(dtype);
    uint32_t count = 0, width = vocab;
    if (text == NULL) {
        list = run_find(s, "list");
        tokens = run_find(s, "tokens");
    } else if (strncmp(text, "list:", 5) == 0) {
        list = text + 5;
    } else if (strncmp(text, "tokens:", 7) == 0) {
        tokens = text + 7;
    }
    if (list == NULL && tokens == NULL)
        return NULL;
    const double *const x = list != NULL ? run_rows(s, key, list, rows, &width, -INFINITY) : NULL;
    const int32_t *const top = list == NULL ? run_numbers(s, key, tokens, &count) : NULL;
    if (list == NULL && count < 1)
        run_die(s, "%s: there are no tokens", key);
    char *const to = cli_alloc((size_t)rows * vocab, size);
    for (size_t i = 0; i < (size_t)rows * vocab; i++)
        dtype_encode(dtype,
                     x != NULL ? (float)x[i]
                               : (float)(top[i / vocab % count] == (int32_t)(i % vocab)),
                     to + i * size);
    return to;
}

/* Reads the logits of a statement: its own, or those of the latest statement `logits`. */
static void read_logits(run_side *side, const run_statement *s, uint32_t rows, inputs *in)
{
    const run_statement *const from = run_find(s, "logits") != NULL ? s : side->logits;
    const char *const text = from == s ? run_find(s, "logits") : NULL;
    const char *const path = from != NULL ? run_find(from, "file") : NULL;
    const char *const kind = from != NULL ? run_find(from, "kind") : NULL;
    const uint32_t vocab = side->sampler_options.vocab;
    uint64_t number[3] = {0, 0, 0};
    in->rows = rows;
    const bool is_file = path != NULL || (from == s && strncmp(text, "file:", 5) == 0);
    in->dtype = from != NULL ? dtype_of(from, "dtype", is_file ? -1 : CLS_F32) : CLS_F32;
    if (is_file) {
        const cli_array *const a =
            run_array(side, from, CLI_LOGITS, path != NULL ? path : text + 5, in->dtype);
        if (a->width != vocab || a->rows < rows)
            run_die(from,
                    "the file has %" PRIu32 " rows of %" PRIu32 " logits for %" PRIu32
                    " rows of %" PRIu32,
                    a->rows, a->width, rows, vocab);
        in->logits = a->data;
        in->dtype = a->type;
        return;
    }
    in->logits = from != NULL ? rows_by_hand(from, "logits", text, rows, vocab, in->dtype) : NULL;
    if (in->logits != NULL)
        return;
    if (from == s && !run_is(s, text, "random", number))
        run_die(s, "logits=%.40s is none of random:SEED, list:NUMBERS, tokens:IDS and file:NAME",
                text);
    if (from != NULL && from != s)
        number[0] = run_number(from, "seed", 0);
    in->logits = run_random_logits(number[0], kind != NULL ? run_kind(from, kind) : -1, rows, vocab,
                                   in->dtype);
}

static void check_rows(const run_statement *s, const char *what, uint32_t have, const int32_t *to,
                       uint32_t rows)
{
    if (have < 1 || (to == NULL && have < rows))
        run_die(s, "the %s has %" PRIu32 " rows for %" PRIu32, what, have, rows);
}

static void read_mask(const run_side *side, const run_statement *s, uint32_t rows, inputs *in)
{
    const char *const text = run_find(s, "mask"), *const kind = run_find(s, "mask_kind");
    const uint32_t vocab = side->sampler_options.vocab;
    uint64_t number[3];
    if (text == NULL)
        return;
    in->mask_map = read_map(s, "mask_map", rows);
    in->mask_on_host = run_number(s, "mask_host", 0) != 0;
    if (strncmp(text, "file:", 5) == 0) {
        const cli_array *const a = run_array(side, s, CLI_MASK, text + 5, -1);
        in->mask = a->data;
        in->mask_kind = a->type;
        in->mask_width = a->width;
        in->mask_rows = a->rows;
        check_rows(s, "mask", a->rows, in->mask_map.value, rows);
        return;
    }
    in->mask_kind = kind != NULL && strcmp(kind, "bool") == 0 ? CLS_MASK_BOOL : CLS_MASK_PACKED;
    const uint32_t whole = in->mask_kind == CLS_MASK_BOOL ? vocab : (vocab + 31) / 32;
    in->mask_rows = (uint32_t)run_number(s, "mask_rows", rows);
    if (strncmp(text, "list:", 5) == 0) {
        const double *const x = run_rows(s, "mask", text + 5, in->mask_rows, &in->mask_width, 0.0);
        const size_t n = (size_t)in->mask_rows * in->mask_width;
        uint32_t *const words = cli_alloc(n, sizeof *words);
        for (size_t i = 0; i < n; i++)
            if (in->mask_kind == CLS_MASK_BOOL)
                ((uint8_t *)words)[i] = x[i] != 0.0;
            else
                words[i] = x[i] >= 0.0 && x[i] <= UINT32_MAX ? (uint32_t)x[i] : 0;
        in->mask = words;
        check_rows(s, "mask", in->mask_rows, in->mask_map.value, rows);
        return;
    }
    if (!run_is(s, text, "random", number))
        run_die(s,
                "mask=%.40s is none of random:SEED, random:SEED:PERCENT, list:WORDS and file:NAME",
                text);
    in->mask_width = (uint32_t)run_number(s, "mask_width", whole);
    if (in->mask_width < 1 || in->mask_width > 4 * whole)
        run_die(s, "mask_width=%" PRIu32 " is not 1 to %" PRIu32, in->mask_width, 4 * whole);
    check_rows(s, "mask", in->mask_rows, in->mask_map.value, rows);
    in->mask = run_random_mask(number[0], (uint32_t)number[1], in->mask_kind, in->mask_rows,
                               in->mask_width);
}

static void read_bias(const run_side *side, const run_statement *s, uint32_t rows, inputs *in)
{
    const char *const text = run_find(s, "bias"), *const factor = run_find(s, "bias_factor");
    uint64_t number[3];
    if (text == NULL)
        return;
    in->bias_map = read_map(s, "bias_map", rows);
    if (factor != NULL)
        cli_set(CLI_FLOAT, &in->factor, NULL, "bias_factor", factor);
    if (strncmp(text, "file:", 5) == 0) {
        const cli_array *const a = run_array(side, s, CLI_BIAS, text + 5, -1);
        in->bias = a->data;
        in->bias_dtype = a->type;
        in->bias_rows = a->rows;
        check_rows(s, "bias", a->rows, in->bias_map.value, rows);
        if (a->width != side->sampler_options.vocab)
            run_die(s, "the bias has rows of %" PRIu32 " values for %" PRIu32 " tokens", a->width,
                    side->sampler_options.vocab);
        return;
    }
    in->bias_dtype = dtype_of(s, "bias_dtype", CLS_F32);
    in->bias_rows = (uint32_t)run_number(s, "bias_rows", rows);
    check_rows(s, "bias", in->bias_rows, in->bias_map.value, rows);
    in->bias =
        rows_by_hand(s, "bias", text, in->bias_rows, side->sampler_options.vocab, in->bias_dtype);
    if (in->bias != NULL)
        return;
    if (!run_is(s, text, "random", number))
        run_die(s, "bias=%.40s is none of random:SEED, list:VALUES and file:NAME", text);
    in->bias =
        run_random_bias(number[0], in->bias_rows, side->sampler_options.vocab, in->bias_dtype);
}

static size_t mask_row(const inputs *in)
{
    return (size_t)in->mask_width * (in->mask_kind == CLS_MASK_BOOL ? 1 : sizeof(uint32_t));
}

/* The hash of what a row reads, without maps. */
static uint64_t hash_of_row(const run_side *side, const inputs *in, uint32_t row)
{
    const uint32_t vocab = side->sampler_options.vocab;
    const size_t size[CLI_INPUTS] = {vocab * dtype_size(in->dtype), mask_row(in),
                                     vocab * dtype_size(in->bias_dtype)};
    const void *const data[CLI_INPUTS] = {in->logits, in->mask, in->bias};
    uint64_t hash = RUN_HASH;
    for (int i = 0; i < CLI_INPUTS; i++)
        if (data[i] != NULL)
            hash = run_hash(hash, (const char *)data[i] + row * size[i], size[i]);
    return hash;
}

static inputs read_inputs(run_side *side, const run_statement *s, uint32_t logits_rows,
                          uint32_t rows)
{
    inputs in = {.factor = 0.0f};
    read_logits(side, s, logits_rows, &in);
    read_mask(side, s, rows, &in);
    read_bias(side, s, rows, &in);
    return in;
}

/* Turns around what belongs to rows: what a map names stays. `mapped`: the logits have a map. */
static void turn_inputs(const run_side *side, inputs *in, uint32_t rows, bool mapped)
{
    const uint32_t vocab = side->sampler_options.vocab;
    if (!mapped)
        in->logits = turned(in->logits, rows, vocab * dtype_size(in->dtype));
    if (in->mask != NULL && in->mask_map.value == NULL)
        in->mask = turned(in->mask, rows, mask_row(in));
    if (in->bias != NULL && in->bias_map.value == NULL)
        in->bias = turned(in->bias, rows, vocab * dtype_size(in->bias_dtype));
    turn_map(&in->mask_map, rows);
    turn_map(&in->bias_map, rows);
}

/* Rows with something between them on the permuted side. */
static const void *spread_rows(const run_side *side, const void *data, uint32_t rows, size_t row,
                               size_t element, size_t *size, uint64_t *stride)
{
    const size_t apart = row + 7 * element;
    *size = rows * row;
    if (side->way != RUN_PERMUTED)
        return data;
    char *const spread = cli_alloc(rows, apart);
    memset(spread, 0x7e, rows * apart);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(spread + i * apart, (const char *)data + i * row, row);
    *stride = apart / element;
    *size = rows * apart;
    return spread;
}

static cls_buffer make_rows(run_side *side, const void *data, uint32_t rows, size_t row,
                            size_t element, uint64_t *stride)
{
    size_t size;
    const void *const spread = spread_rows(side, data, rows, row, element, &size, stride);
    return run_buffer(side, spread, size);
}

/* Sets the logits of a call: rows from `first` on. A shard has a window of each row, unless it is
 * given WHOLE ones. */
enum { WHOLE = RUN_MOST_SHARDS };
static cls_logits make_logits(run_side *side, const inputs *in, uint32_t first, uint32_t rows,
                              uint32_t shard)
{
    const uint32_t vocab = side->sampler_options.vocab;
    const size_t size = dtype_size(in->dtype), row = vocab * size;
    cls_logits l = {.dtype = in->dtype};
    cls_shard_info info;
    if (side->shards == 0 || shard == WHOLE) {
        l.values =
            make_rows(side, (const char *)in->logits + first * row, rows, row, size, &l.row_stride);
        return l;
    }
    cls_shard_info_init(&info);
    if (cls_shard_query(side->shard[shard], &info) != CLS_OK)
        run_die(side->now, "%s", cls_error_message());
    char *const window = cli_alloc((size_t)rows * info.count, size);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(window + i * info.count * size,
               (const char *)in->logits + (first + i) * row + info.first * size, info.count * size);
    l.values = run_buffer(side, window, rows * info.count * size);
    cli_free(window);
    return l;
}

static void make_mask(run_side *side, const inputs *in, uint32_t first, uint32_t rows,
                      cls_mask *mask)
{
    const bool mapped = in->mask_map.value != NULL;
    if (in->mask == NULL)
        return;
    const char *const from = (const char *)in->mask + (mapped ? 0 : first * mask_row(in));
    mask->kind = in->mask_kind;
    mask->width = in->mask_width;
    mask->rows = mapped ? in->mask_rows : rows;
    mask->row_map = ints_of(side, &in->mask_map, first, rows);
    if (in->mask_on_host)
        mask->host = from;
    else
        mask->words =
            make_rows(side, from, mask->rows, mask_row(in),
                      in->mask_kind == CLS_MASK_BOOL ? 1 : sizeof(uint32_t), &mask->row_stride);
}

/* The library cannot check how large a mask on the host is, of which words may have changed parts.
 */
static void check_mask(const run_side *side, const run_statement *s, const cls_mask *m,
                       const inputs *in)
{
    const bool packed = m->kind == CLS_MASK_PACKED;
    const uint32_t vocab = side->sampler_options.vocab;
    const double width = m->width != 0 ? m->width
                         : packed      ? (vocab + 31) / 32
                                       : vocab,
                 stride = (double)m->row_stride > width ? (double)m->row_stride : width,
                 rows = m->rows != 0 ? m->rows : in->mask_rows;
    if (m->host != NULL && ((rows - 1.0) * stride + width) * (packed ? 4.0 : 1.0) >
                               (double)in->mask_rows * (double)mask_row(in))
        run_die(s, "the mask on the host is not so large");
}

static void make_bias(run_side *side, const inputs *in, uint32_t first, uint32_t rows,
                      cls_dense_bias *bias)
{
    const bool mapped = in->bias_map.value != NULL;
    const size_t row = side->sampler_options.vocab * dtype_size(in->bias_dtype);
    if (in->bias == NULL)
        return;
    bias->dtype = in->bias_dtype;
    bias->rows = mapped ? in->bias_rows : rows;
    bias->row_map = ints_of(side, &in->bias_map, first, rows);
    bias->factor = in->factor;
    bias->values = make_rows(side, (const char *)in->bias + (mapped ? 0 : first * row), bias->rows,
                             row, dtype_size(in->bias_dtype), &bias->row_stride);
}

/* --------------------------------------------------------------------- outputs */

/* The outputs that a call writes, of which a row is a part. */
typedef struct outputs {
    cls_outputs o;
    bool any, packed;
} outputs;

static const struct known_output {
    const char *name, *record;
    size_t buffer, count; /* places in a cls_outputs; count 0: one element a row, 1: the vocabulary,
                             2: one a slot */
    bool near;
} known_outputs[] = {
#define OF(field) offsetof(cls_outputs, field)
    {"logprobs", "logprobs", OF(logprobs), 0, false},
    {"ranks", "ranks", OF(ranks), 0, false},
    {"top", "top.ids", OF(top.ids), OF(top.count), false},
    {"top", "top.logprobs", OF(top.logprobs), OF(top.count), false},
    {"given", "given.logprobs", OF(given.logprobs), OF(given.count), false},
    {"given", "given.ranks", OF(given.ranks), OF(given.count), false},
    {"probs", "probs", OF(probs), 1, true},
    {"final_logits", "final_logits", OF(final_logits), 1, false},
    {"entropy", "entropy", OF(entropy), 0, true},
    {"kept_mass", "kept_mass", OF(kept_mass), 0, true},
    {"kept", "kept.ids", OF(kept.ids), OF(kept.count), false},
    {"kept", "kept.logits", OF(kept.logits), OF(kept.count), false},
    {"kept", "kept.probs", OF(kept.probs), OF(kept.count), true},
    {"counts", "kept.counts", OF(kept.counts), 0, false},
    {"set", "set.ids", OF(kept_set.ids), OF(kept_set.capacity), false},
    {"set", "set.counts", OF(kept_set.counts), 0, false},
    {"latest", "latest", OF(latest), 2, false},
#undef OF
};
enum { KNOWN_OUTPUTS = sizeof known_outputs / sizeof *known_outputs };

/* Finds a name among those of a list: "NAME" or "NAME:COUNT". */
static bool is_listed(const run_statement *s, const char *list, const char *name, uint64_t *count)
{
    const size_t length = strlen(name);
    *count = 0;
    while (list != NULL && *list != '\0') {
        const size_t part = strcspn(list, ",");
        if (part >= length && strncmp(list, name, length) == 0 &&
            (part == length || list[length] == ':')) {
            char text[32];
            uint64_t number[3];
            snprintf(text, sizeof text, "%.*s", (int)(part < 31 ? part : 31), list);
            run_is(s, text, name, number);
            *count = number[0];
            return true;
        }
        list += part + (list[part] == ',');
    }
    return false;
}

static void check_listed(const run_statement *s, const char *list)
{
    while (*list != '\0') {
        const size_t part = strcspn(list, ",:"), whole = strcspn(list, ",");
        bool known = (part == 5 && strncmp(list, "final", 5) == 0) ||
                     (part == 6 && strncmp(list, "packed", 6) == 0) ||
                     (part == 4 && strncmp(list, "none", 4) == 0);
        for (int i = 0; i < KNOWN_OUTPUTS; i++)
            known |= strlen(known_outputs[i].name) == part &&
                     strncmp(known_outputs[i].name, list, part) == 0;
        if (!known)
            run_die(s,
                    "outputs: '%.*s' is unknown; known are final, logprobs, ranks, top:N, "
                    "given:N, probs, final_logits, entropy, kept_mass, kept:N, counts, set:N, "
                    "packed:N and latest",
                    (int)(part < 40 ? part : 40), list);
        list += whole + (list[whole] == ',');
    }
}

/* Makes the outputs that a statement or the latest `outputs` asks for. places: rows, or those of a
 * verification. */
static outputs make_outputs(run_side *side, const run_statement *s, uint32_t places, bool verifies)
{
    const uint32_t vocab = side->sampler_options.vocab, slots = side->sampler_options.slot_count;
    const char *list = run_find(s, "outputs");
    outputs out = {.any = false};
    uint64_t n;
    cls_outputs_init(&out.o);
    if (list == NULL && side->outputs != NULL)
        list = run_find(side->outputs, "");
    if (list == NULL)
        return out;
    check_listed(s, list);
    out.o.logprob_kind = is_listed(s, list, "final", &n) ? CLS_LOGPROB_FINAL : CLS_LOGPROB_RAW;
    out.packed = is_listed(s, list, "packed", &n);
    const uint64_t packed = n;
    for (int i = 0; i < KNOWN_OUTPUTS; i++) {
        const struct known_output *const k = &known_outputs[i];
        if (!is_listed(s, list, k->name, &n) || (verifies && (k->count == 1 || k->count == 2)))
            continue;
        if (n > (uint64_t)2 * vocab + 2048)
            run_die(s, "outputs: %s:%" PRIu64 " is too many", k->name, n);
        uint32_t width = k->count == 1 ? vocab : 1, rows = k->count == 2 ? slots : places;
        if (k->count > 2) {
            width = (uint32_t)n;
            memcpy((char *)&out.o + k->count, &width, sizeof width);
        }
        const bool reverses = side->reverses;
        side->reverses = k->count == 2 ? side->way == RUN_PERMUTED : reverses;
        const cls_buffer b = run_result(side, k->record, rows, width, k->near);
        side->reverses = reverses;
        memcpy((char *)&out.o + k->buffer, &b, sizeof b);
        out.any = true;
    }
    if (out.o.given.count != 0) {
        int32_t *const ids = cli_alloc((size_t)places * out.o.given.count, sizeof *ids);
        for (uint32_t i = 0; i < places * out.o.given.count; i++)
            ids[i] = i % 9 == 8 ? -1 : (int32_t)((uint64_t)i * 2654435761u % vocab);
        out.o.given.ids = run_buffer(
            side, side->reverses ? turned(ids, places, out.o.given.count * sizeof *ids) : ids,
            (size_t)places * out.o.given.count * sizeof *ids);
    }
    if (out.packed && packed != 0 && packed <= (uint64_t)1 << 24) {
        out.o.kept_set.capacity = (uint32_t)packed;
        out.o.kept_set.ids = run_result(side, "set.ids", 1, (size_t)packed, false);
        out.o.kept_set.counts = run_result(side, "set.counts", places, 1, false);
        out.o.kept_set.offsets = run_result(side, "offsets", places + 1, 1, false);
        out.any = true;
    }
    return out;
}

/* Sets what words name of a complete call and its outputs. */
static void set_parts(run_side *side, const run_statement *s, const char *keys,
                      const char *structure, void *call, outputs *out)
{
    run_set_parts(side, s, keys, "", structure, call);
    run_set_parts(side, s, keys, "outputs.", "cls_outputs", &out->o);
    for (uint32_t i = 0; i < s->words; i++)
        out->any |= strncmp(s->word[i].key, "outputs.", 8) == 0;
}

/* The outputs of one row. */
static cls_outputs outputs_of_row(const outputs *all, uint32_t vocab, uint32_t row)
{
    cls_outputs o = all->o;
    for (int i = 0; i < KNOWN_OUTPUTS; i++) {
        const struct known_output *const k = &known_outputs[i];
        cls_buffer *const b = (cls_buffer *)(void *)((char *)&o + k->buffer);
        uint32_t width = k->count == 1 ? vocab : 1;
        if (k->count > 2)
            memcpy(&width, (const char *)&o + k->count, sizeof width);
        if (k->count == 2 || (b->buffer == NULL && b->pointer == NULL))
            continue;
        b->offset = (uint64_t)row * width * sizeof(float);
        b->size = width * sizeof(float);
    }
    o.given.ids.offset = (uint64_t)row * o.given.count * sizeof(int32_t);
    o.given.ids.size = o.given.count * sizeof(int32_t);
    return o;
}

static cls_buffer part_of(cls_buffer b, uint32_t row, size_t size)
{
    if (b.buffer != NULL || b.pointer != NULL) {
        b.offset = row * size;
        b.size = size;
    }
    return b;
}

/* ----------------------------------------------------------------------- steps */

static const char step_keys[] =
    INPUT_KEYS "rows slots positions draws logits_map random_bits outputs defer";

typedef struct step_call {
    uint32_t rows, logits_rows;
    map slots, positions, draws, logits_map;
    const uint64_t *random;
    inputs in;
    cls_step fields; /* what statements set by its name */
    int32_t own_slot;
} step_call;

static uint32_t least(uint64_t a, uint64_t b) { return (uint32_t)(a < b ? a : b); }

static step_call read_step(run_side *side, const run_statement *s)
{
    const uint32_t most = side->sampler_options.max_rows;
    step_call c = {.rows = 0};
    uint32_t listed = 0;
    uint64_t number[3];
    run_check_keys(s, step_keys, "cls_step");
    cls_step_init(&c.fields);
    run_set_fields(s, step_keys, "cls_step", &c.fields);
    const char *const slots = run_find(s, "slots"), *const random = run_find(s, "random_bits");
    if (slots != NULL)
        run_numbers(s, "slots", slots + (*slots == '@'), &listed);
    c.fields.rows = (uint32_t)run_number(
        s, "rows", slots != NULL ? listed : least(most, side->sampler_options.slot_count));
    c.fields.defer_accept = (int32_t)run_number(s, "defer", (uint64_t)c.fields.defer_accept);
    c.rows = least(c.fields.rows, most);
    c.logits_rows = least(c.fields.logits_rows != 0 ? c.fields.logits_rows : c.rows, most);
    c.slots = read_map(s, "slots", c.rows);
    c.positions = read_map(s, "positions", c.rows);
    c.draws = read_map(s, "draws", c.rows);
    c.logits_map = read_map(s, "logits_map", c.rows);
    c.in = read_inputs(side, s, c.logits_rows, c.rows);
    if (random != NULL && !run_is(s, random, "edges", number)) {
        if (!run_is(s, random, "random", number))
            run_die(s, "random_bits=%.40s is neither random:SEED nor edges:SEED", random);
        uint64_t *const bits = cli_alloc(c.rows + (size_t)1, sizeof *bits);
        rng r = {number[0]};
        for (uint32_t i = 0; i < c.rows; i++)
            bits[i] = rng_bits(&r);
        c.random = bits;
    }
    return c;
}

/* random_bits=edges:SEED: the host finds the first or the last number that draws a token. */
static void find_edges(run_side *side, const run_statement *s, step_call *c)
{
    const char *const random = run_find(s, "random_bits");
    const run_side *const of = side->reference;
    const size_t size = c->rows * sizeof *c->random;
    uint64_t number[3], *const bits = cli_alloc(c->rows + (size_t)1, sizeof *bits);
    if (random == NULL || !run_is(s, random, "edges", number))
        return;
    for (uint32_t i = 0; of != NULL && i < of->records; i++)
        if (of->record[i].statement == side->index && strcmp(of->record[i].name, "edges") == 0)
            memcpy(bits, of->record[i].bytes, size);
    for (uint32_t row = 0; of == NULL && row < c->rows; row++)
        bits[row] = run_edge(side, s, row, number[0]);
    run_note(side, "edges", bits, size);
    c->random = bits;
}

/* Whether rows of one step share a slot, which makes their order matter. */
static bool shares_slots(const step_call *c)
{
    for (uint32_t i = 0; c->slots.value != NULL && i < c->rows; i++)
        for (uint32_t k = 0; k < i; k++)
            if (c->slots.value[i] == c->slots.value[k] && c->slots.value[i] >= 0)
                return true;
    return false;
}

static void turn_step(run_side *side, step_call *c)
{
    place_slots(side, &c->slots, c->rows);
    if (!side->reverses)
        return;
    turn_inputs(side, &c->in, c->rows, c->logits_map.value != NULL);
    turn_map(&c->slots, c->rows);
    turn_map(&c->positions, c->rows);
    turn_map(&c->draws, c->rows);
    turn_map(&c->logits_map, c->rows);
    if (c->random != NULL)
        c->random = turned(c->random, c->rows, sizeof *c->random);
}

/* Sets a step of rows from `first` on: all of them, or one. */
static void make_step(run_side *side, step_call *c, uint32_t first, uint32_t rows, uint32_t shard,
                      cls_step *step)
{
    const bool whole = rows == c->rows;
    *step = c->fields;
    if (!whole) {
        step->rows = rows;
        step->logits_rows = c->logits_map.value != NULL ? c->logits_rows : rows;
    }
    step->logits = c->logits_map.value != NULL || whole
                       ? make_logits(side, &c->in, 0, c->logits_rows, shard)
                       : make_logits(side, &c->in, first, rows, shard);
    step->slots = ints_of(side, &c->slots, first, rows);
    if (!whole && c->slots.value == NULL) {
        c->own_slot = (int32_t)first;
        step->slots.host = &c->own_slot;
    }
    step->positions = ints_of(side, &c->positions, first, rows);
    step->draws = ints_of(side, &c->draws, first, rows);
    step->logits_map = ints_of(side, &c->logits_map, first, rows);
    make_mask(side, &c->in, first, rows, &step->mask);
    make_bias(side, &c->in, first, rows, &step->bias);
    if (c->random != NULL)
        step->random_bits = run_buffer(side, c->random + first, rows * sizeof *c->random);
}

/* Exchanges the partials of the shards' open step until it is complete. Three shards do so on the
 * device, five every other time. */
static cls_status exchange(run_side *side)
{
    const bool at_once = side->shards == 3 || (side->shards == 5 && side->index % 2);
    cls_status status = CLS_OK;
    unsigned char *partials = NULL;
    if (at_once)
        return cls_shard_merge_all(side->shard, side->shards, NULL);
    for (int more = 1; more && status == CLS_OK;) {
        size_t one = 0;
        for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++) {
            const void *partial;
            status = cls_shard_partial(side->shard[i], &partial, &one);
            if (status == CLS_OK) {
                partials = cli_grow(partials, side->shards, one);
                memcpy(partials + i * one, partial, one);
            }
        }
        for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
            status = cls_shard_merge(side->shard[i], partials, side->shards * one, &more, NULL);
    }
    cli_free(partials);
    return status;
}

static cls_status step_of_shards(run_side *side, const cls_step *steps)
{
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
        status = cls_shard_sample(side->shard[i], side->target.queue, &steps[i], 0, NULL);
    if (status == CLS_OK)
        status = exchange(side);
    for (uint32_t i = 0; i < side->shards && status != CLS_OK; i++)
        cls_shard_abandon(side->shard[i]);
    return status;
}

/* Brings the rows of the shards together on each of them. */
static void gather(run_side *side, const inputs *in, uint32_t rows, cls_logits *whole)
{
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++) {
        const cls_logits own = make_logits(side, in, 0, rows, i);
        status = cls_shard_gather(side->shard[i], side->target.queue, rows, &own, 0, NULL);
    }
    if (status == CLS_OK)
        status = exchange(side);
    for (uint32_t i = 0; i < side->shards && status == CLS_OK; i++)
        status = cls_shard_logits(side->shard[i], &whole[i]);
    if (status != CLS_OK)
        run_die(side->now, "%s: %s", side->name, cls_error_message());
}

/* Keeps the results of the first shard, or those of another one that differ. */
static void join_shards(run_side *side, uint32_t since)
{
    const uint32_t each = (side->records - since) / side->shards;
    run_drain(side);
    for (uint32_t i = since + each; i < side->records; i++) {
        run_record *const a = &side->record[since + (i - since) % each];
        if (!a->near && memcmp(a->bytes, side->record[i].bytes, a->size) != 0)
            *a = side->record[i];
    }
    side->records = since + each;
}

/* Records the rows whose inputs are not those that the text's hashes are of. */
static void check_hashes(run_side *side, const run_statement *s, const step_call *c)
{
    const char *text = run_find(s, "hash");
    for (uint32_t row = 0; row < c->rows && row < c->in.rows; row++) {
        char *end;
        const unsigned long long hash = strtoull(text, &end, 16);
        if (end == text)
            run_die(s, "hash has fewer numbers than the step has rows");
        if (hash != hash_of_row(side, &c->in, row)) {
            const int32_t changed = (int32_t)row;
            run_note(side, "changed", &changed, sizeof changed);
        }
        text = end + (*end == ',');
    }
}

void run_step_row(run_side *side, const run_statement *s, uint32_t row, cls_step *step)
{
    step_call *const c = cli_alloc(1, sizeof *c);
    *c = read_step(side, s);
    make_step(side, c, row, 1, 0, step);
}

void run_step(run_side *side, const run_statement *s)
{
    step_call c = read_step(side, s);
    find_edges(side, s, &c);
    const uint32_t shards = side->shards != 0 ? side->shards : 1, since = side->records;
    const bool refused = run_reference(side) != CLS_OK;
    cls_step steps[RUN_MOST_SHARDS] = {{.rows = 0}};
    outputs out[RUN_MOST_SHARDS];
    cls_status status = CLS_OK;
    const char *const list = run_find(s, "outputs");
    uint64_t n;
    const bool packed = is_listed(s, list, "packed", &n) ||
                        (list == NULL && side->outputs != NULL &&
                         is_listed(s, run_find(side->outputs, ""), "packed", &n));
    const bool divides = !refused && !packed && !shares_slots(&c) && c.rows == c.fields.rows;
    side->reverses = side->way == RUN_PERMUTED && divides &&
                     (c.fields.logits_rows == 0 || c.logits_map.value != NULL);
    if (run_find(s, "hash") != NULL && side->reference == NULL)
        check_hashes(side, s, &c);
    turn_step(side, &c);
    for (uint32_t i = 0; i < shards; i++) {
        const cls_buffer tokens = run_result(side, "tokens", c.rows, 1, false),
                         words = run_result(side, "status", c.rows, 1, false);
        out[i] = make_outputs(side, s, c.rows, false);
        if (side->way != RUN_ALONE || !divides)
            make_step(side, &c, 0, c.rows, i, &steps[i]);
        steps[i].tokens = tokens;
        steps[i].status = words;
        set_parts(side, s, step_keys, "cls_step", &steps[i], &out[i]);
        check_mask(side, s, &steps[i].mask, &c.in);
        steps[i].outputs = out[i].any ? &out[i].o : NULL;
    }
    if (side->shards != 0) {
        status = step_of_shards(side, steps);
        if (status == CLS_OK)
            join_shards(side, since);
    } else if (side->way == RUN_ALONE && divides) {
        for (uint32_t row = 0; row < c.rows && status == CLS_OK; row++) {
            cls_step one;
            const cls_outputs of_row = outputs_of_row(&out[0], side->sampler_options.vocab, row);
            make_step(side, &c, row, 1, 0, &one);
            one.tokens = part_of(steps[0].tokens, row, sizeof(int32_t));
            one.status = part_of(steps[0].status, row, sizeof(int32_t));
            one.outputs = out[0].any ? &of_row : NULL;
            RUN_RETRY(status, side,
                      cls_sample(side->sampler[0], side->target.queue, &one, 0, NULL, NULL));
        }
    } else {
        RUN_RETRY(status, side,
                  cls_sample(side->sampler[0], side->target.queue, &steps[0], 0, NULL, NULL));
    }
    side->reverses = false;
    run_returned(side, status, since);
}

/* ---------------------------------------------------------------- verification */

static const char verify_keys[] =
    INPUT_KEYS "slots positions draws drafts ids parents draft outputs method requests row_offsets";

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
    return (int32_t)run_number(s, "method", 0);
}

/* What the latest call wrote under a name, by the host: at least n numbers. They are -1 if there is
 * no such call, as where a random step was refused. */
static map latest_ints(const run_side *side, const char *name, uint32_t n)
{
    const run_side *const of = side->reference != NULL ? side->reference : side;
    for (uint32_t i = of->records; i-- > 0;) {
        const run_record *const r = &of->record[i];
        if (r->statement < side->index && strcmp(r->name, name) == 0 &&
            r->size >= n * sizeof(int32_t))
            return (map){.value = (int32_t *)(void *)r->bytes, .on_device = true};
    }
    int32_t *const none = cli_alloc(n, sizeof *none);
    memset(none, 0xff, n * sizeof *none);
    return (map){.value = none, .on_device = true};
}

/* The ids of drafts: a list, or likely:SEED, which looks at the rows that the drafts follow. */
static map read_drafts(const run_side *side, const run_statement *s, const int32_t *offsets,
                       uint32_t requests, const inputs *in)
{
    const char *const text = run_find(s, "ids");
    const uint32_t vocab = side->sampler_options.vocab;
    const uint32_t drafts = (uint32_t)offsets[requests] - requests;
    uint64_t number[3] = {0};
    map m = {.value = NULL};
    if (text == NULL || drafts == 0)
        return m;
    if (strcmp(text, "drafted") == 0)
        return latest_ints(side, "drafts", drafts);
    if (!run_is(s, text + (*text == '@'), "likely", number))
        return read_map(s, "ids", drafts);
    rng r = {number[0]};
    m.on_device = *text == '@';
    m.value = cli_alloc(drafts, sizeof *m.value);
    for (uint32_t i = 0, k = 0; i < requests; i++)
        for (int32_t row = offsets[i]; row + 1 < offsets[i + 1]; row++)
            m.value[k++] = run_likely(
                &r, (const char *)in->logits + (size_t)row * vocab * dtype_size(in->dtype),
                in->dtype, vocab);
    return m;
}

/* The distributions of the drafts, and the elements from one to the next. */
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
                         const inputs *in)
{
    const size_t size = dtype_size(in->dtype), row = vocab * size;
    char *const all = cli_alloc((size_t)offsets[requests] + 1, row), *to = all;
    rng r = {seed ^ 0x6e656172};
    for (uint32_t i = 0; i < requests; i++)
        for (int32_t k = offsets[i]; k + 1 < offsets[i + 1]; k++, to += row) {
            const uint32_t changed = rng_below(&r, 3);
            memcpy(to, (const char *)in->logits + (size_t)k * row, row);
            for (uint32_t id = 0; id < vocab && changed != 0; id++)
                if (rng_below(&r, changed == 1 ? vocab : 3) == 0)
                    dtype_encode(in->dtype,
                                 dtype_decode(in->dtype, to + id * size) + (float)rng_normal(&r),
                                 to + id * size);
        }
    return all;
}

static cls_buffer read_distributions(run_side *side, const run_statement *s, const int32_t *offsets,
                                     uint32_t requests, const inputs *in, cls_verify_call *v)
{
    const uint32_t drafts = (uint32_t)offsets[requests] - requests;
    int32_t dtype = in->dtype;
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
    const void *const rows = probs    ? run_random_probs(number[0], drafts, vocab)
                             : near   ? near_logits(number[0], offsets, requests, vocab, in)
                             : logits ? run_random_logits(number[0], -1, drafts, vocab, dtype)
                                      : rows_by_hand(s, "draft", by_hand, drafts, vocab, dtype);
    if (rows == NULL)
        run_die(s,
                "draft=%.40s is none of probs:SEED, list:NUMBERS, logits:SEED, near:SEED and "
                "logits-list:NUMBERS",
                text);
    v->draft_kind = logits || by_hand != text ? CLS_DRAFT_LOGITS : CLS_DRAFT_PROBS;
    const size_t size = dtype_size(dtype);
    const drafts_layout l = v->draft_stride == 0 && v->draft_request_stride == 0
                                ? layout_of(side, offsets, requests, vocab)
                                : (drafts_layout){0, 0};
    uint64_t count;
    const void *const spread = spread_drafts(l, rows, offsets, requests, vocab, size, &count);
    if (spread == NULL)
        return make_rows(side, rows, drafts, vocab * size, size, &v->draft_stride);
    v->draft_stride = l.stride;
    v->draft_request_stride = l.apart;
    return run_buffer(side, spread, (size_t)count * size);
}

/* On the permuted side the drafts' ids lie in other places. Returns how many numbers there are. */
static uint32_t spread_ids(const run_side *side, map *ids, const int32_t *offsets,
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
    run_check_keys(s, verify_keys, "cls_verify_call");
    cls_verify_call_init(&v);
    run_set_fields(s, verify_keys, "cls_verify_call", &v);
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
    const inputs in = read_inputs(side, s, rows, rows);
    map slots = read_map(s, "slots", requests), positions = read_map(s, "positions", requests),
        draws = read_map(s, "draws", requests), parents = read_map(s, "parents", rows - requests),
        ids = read_drafts(side, s, offsets, requests, &in);
    place_slots(side, &slots, requests);
    v.requests = (uint32_t)run_number(s, "requests", requests);
    if (v.requests > requests)
        run_die(s, "requests=%" PRIu32 " exceeds the numbers of drafts", v.requests);
    v.method = method_of(s);
    v.row_offsets = run_passing(side, offsets, (requests + (size_t)1) * sizeof *offsets);
    if (gathers)
        gather(side, &in, rows, whole);
    else
        v.logits = make_logits(side, &in, 0, rows, WHOLE);
    v.slots = ints_of(side, &slots, 0, requests);
    v.positions = ints_of(side, &positions, 0, requests);
    v.draws = ints_of(side, &draws, 0, requests);
    v.parents = ints_of(side, &parents, 0, rows - requests);
    const uint32_t places_of_ids = spread_ids(side, &ids, offsets, requests, &v);
    v.draft_ids = ints_of(side, &ids, 0, places_of_ids);
    v.draft = read_distributions(side, s, offsets, requests, &in, &v);
    make_mask(side, &in, 0, rows, &v.mask);
    make_bias(side, &in, 0, rows, &v.bias);
    const uint32_t width = v.max_drafts != 0 ? v.max_drafts : most_drafts,
                   places = requests * (least(width, CLS_MAX_DRAFTS) + 1),
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
        outputs out = make_outputs(side, s, places, true);
        set_parts(side, s, verify_keys, "cls_verify_call", &v, &out);
        check_mask(side, s, &v.mask, &in);
        v.outputs = out.any ? &out.o : NULL;
        RUN_RETRY(status, side,
                  cls_verify(side->sampler[i], side->target.queue, &v, 0, NULL, NULL));
    }
    if (gathers && status == CLS_OK)
        join_shards(side, since);
    run_returned(side, status, since);
}

/* ---------------------------------------------------------------- other calls */

void run_accept(run_side *side, const run_statement *s)
{
    static const char keys[] = "rows slots tokens counts rollback";
    const uint32_t since = side->records;
    cls_accept_call a;
    uint32_t listed = 0;
    run_check_keys(s, keys, "cls_accept_call");
    cls_accept_call_init(&a);
    run_set_fields(s, keys, "cls_accept_call", &a);
    const char *const slots_text = run_find(s, "slots");
    if (slots_text != NULL)
        run_numbers(s, "slots", slots_text + (*slots_text == '@'), &listed);
    a.rows = (uint32_t)run_number(s, "rows",
                                  slots_text != NULL ? listed : side->sampler_options.max_rows);
    const uint32_t rows = least(a.rows, side->sampler_options.max_rows),
                   per_row = least(a.per_row, CLS_MAX_ACCEPTED);
    const bool drawn = run_find(s, "tokens") != NULL && strcmp(run_find(s, "tokens"), "drawn") == 0;
    map slots = read_map(s, "slots", rows),
        tokens = drawn ? latest_ints(side, "tokens", rows * per_row)
                       : read_map(s, "tokens", rows * per_row),
        counts = read_map(s, "counts", rows), back = read_map(s, "rollback", rows);
    place_slots(side, &slots, rows);
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < (side->shards != 0 ? side->shards : 1) && status == CLS_OK; i++) {
        a.slots = ints_of(side, &slots, 0, rows);
        a.tokens = ints_of(side, &tokens, 0, rows * per_row);
        a.counts = ints_of(side, &counts, 0, rows);
        a.rollback = ints_of(side, &back, 0, rows);
        run_set_parts(side, s, keys, "", "cls_accept_call", &a);
        RUN_RETRY(status, side,
                  cls_accept(side->sampler[i], side->target.queue, &a, 0, NULL, NULL));
    }
    run_returned(side, status, since);
}

void run_draft(run_side *side, const run_statement *s)
{
    static const char keys[] = "slots requests";
    const uint32_t since = side->records;
    cls_draft_call d;
    uint32_t listed = 0;
    run_check_keys(s, keys, "cls_draft_call");
    cls_draft_call_init(&d);
    run_set_fields(s, keys, "cls_draft_call", &d);
    const char *const slots_text = run_find(s, "slots");
    if (slots_text != NULL)
        run_numbers(s, "slots", slots_text + (*slots_text == '@'), &listed);
    d.requests = (uint32_t)run_number(s, "requests",
                                      slots_text != NULL ? listed : side->sampler_options.max_rows);
    const uint32_t requests = least(d.requests, side->sampler_options.max_rows);
    map slots = read_map(s, "slots", requests);
    place_slots(side, &slots, requests);
    if (d.ids_stride > 1024 || d.ids_request_stride > 1 << 20)
        run_die(s, "the strides are too large");
    const uint64_t apart =
        d.ids_request_stride != 0 ? d.ids_request_stride : d.k * (d.ids_stride + UINT64_C(1));
    d.slots = ints_of(side, &slots, 0, requests);
    d.draft_ids = run_result(
        side, "drafts", 1,
        (size_t)(requests * apart + least(d.k, CLS_MAX_DRAFTS) * (d.ids_stride + 1)), false);
    d.counts = run_result(side, "counts", requests, 1, false);
    run_set_parts(side, s, keys, "", "cls_draft_call", &d);
    cls_status status;
    RUN_RETRY(status, side, cls_draft(side->sampler[0], side->target.queue, &d, 0, NULL, NULL));
    run_returned(side, status, since);
}

void run_logprobs(run_side *side, const run_statement *s)
{
    static const char keys[] = INPUT_KEYS "rows outputs";
    const uint32_t since = side->records;
    cls_logprobs_call l;
    run_check_keys(s, keys, "cls_logprobs_call");
    cls_logprobs_call_init(&l);
    run_set_fields(s, keys, "cls_logprobs_call", &l);
    const bool gathers = side->shards != 0 && run_reference(side) == CLS_OK;
    cls_logits whole[RUN_MOST_SHARDS];
    l.rows = (uint32_t)run_number(s, "rows", side->sampler_options.max_rows);
    const uint32_t rows = least(l.rows, side->sampler_options.max_rows);
    inputs in = {.factor = 0.0f};
    read_logits(side, s, rows, &in);
    if (gathers)
        gather(side, &in, rows, whole);
    else
        l.logits = make_logits(side, &in, 0, rows, WHOLE);
    cls_status status = CLS_OK;
    for (uint32_t i = 0; i < (gathers ? side->shards : 1) && status == CLS_OK; i++) {
        const outputs out = make_outputs(side, s, rows, true);
        if (gathers)
            l.logits = whole[i];
        l.top = out.o.top;
        l.given = out.o.given;
        run_set_parts(side, s, keys, "", "cls_logprobs_call", &l);
        RUN_RETRY(status, side,
                  cls_logprobs(side->sampler[i], side->target.queue, &l, 0, NULL, NULL));
    }
    if (gathers && status == CLS_OK)
        join_shards(side, since);
    run_returned(side, status, since);
}

/* ------------------------------------------------------------------- launches */

void run_flush(run_side *side)
{
    static const int32_t none = -1;
    cls_step step;
    cls_step_init(&step);
    step.rows = 1;
    step.slots.host = &none;
    while (!(side->sampler_options.dtypes >> step.logits.dtype & 1))
        step.logits.dtype++;
    step.logits.values = run_buffer(side, cli_alloc(side->sampler_options.vocab, sizeof(float)),
                                    side->sampler_options.vocab * sizeof(float));
    step.tokens = run_buffer(side, &none, sizeof none);
    for (uint32_t i = 0; i < (side->shards != 0 ? side->shards : 1); i++) {
        cls_status status;
        RUN_RETRY(status, side,
                  cls_sample(side->sampler[i], side->target.queue, &step, 0, NULL, NULL));
        if (status != CLS_OK)
            run_die(side->now, "%s", cls_error_message());
    }
}

bool run_counts_launches = true;

/* launches N: a device takes so many for the slot calls since the last step. launches most=N: it
 * has taken no more for the call before. */
void run_launches(run_side *side, const run_statement *s)
{
    const bool of_call = run_find(s, "most") != NULL;
    uint32_t n = (uint32_t)run_number(s, of_call ? "most" : "", 0),
             launches = cls_sampler_launches(side->sampler[0]);
    run_check_keys(s, "most", NULL);
    if (!of_call) {
        run_flush(side);
        launches = cls_sampler_launches(side->sampler[0]);
        run_flush(side);
        launches -= cls_sampler_launches(side->sampler[0]);
    }
    if (run_counts_launches && !side->on_host && side->shards == 0 && side->way != RUN_EACH &&
        side->way != RUN_ALONE && (!of_call || launches > n))
        n = launches;
    run_note(side, "launches", &n, sizeof n);
}
