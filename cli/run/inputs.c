/* SPDX-License-Identifier: MIT */
/* What rows of a call read: logits, masks and biases. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/inputs.h"

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

void *run_rows_by_hand(const run_statement *s, const char *key, const char *text, uint32_t rows,
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
    char *const to = run_room(rows, vocab, size);
    for (size_t i = 0; i < (size_t)rows * vocab; i++)
        dtype_encode(dtype,
                     x != NULL ? (float)x[i]
                               : (float)(top[i / vocab % count] == (int32_t)(i % vocab)),
                     to + i * size);
    return to;
}

/* Sets what an array of a file, or made from words, has. */
static void take(run_inputs *in, cli_input what, const void *data, int32_t type, uint32_t width)
{
    cli_array *const a = &in->of[what];
    memcpy(&a->data, &data, sizeof data);
    a->type = type;
    a->width = width;
    a->size = what != CLI_MASK ? dtype_size(type) : type == CLS_MASK_BOOL ? 1 : sizeof(uint32_t);
}

static bool take_file(run_side *side, const run_statement *s, cli_input what, const char *text,
                      int32_t dtype, run_inputs *in)
{
    if (text == NULL || strncmp(text, "file:", 5) != 0)
        return false;
    in->of[what] = *run_array(side->given, s, what, text + 5, dtype);
    const cli_array *const a = &in->of[what];
    take(in, what, a->data, a->type, a->width);
    if (what == CLI_BIAS && a->width != side->sampler_options.vocab)
        run_die(s, "the bias has rows of %" PRIu32 " values for %" PRIu32 " tokens", a->width,
                side->sampler_options.vocab);
    return true;
}

static void check_rows(const run_statement *s, const run_inputs *in, cli_input what, uint32_t rows)
{
    const uint32_t have = in->of[what].rows;
    if (have < 1 || (in->map[what].value == NULL && have < rows))
        run_die(s, "the %s has %" PRIu32 " rows for %" PRIu32, run_input_names[what], have, rows);
}

/* Puts one value into each row, lone=VALUE:FIRST: at token FIRST of the first row, at the next one
 * of the next row, and so on; lone=VALUE:FIRST:APART also so many tokens further. */
static void put_lone(const run_statement *s, uint32_t rows, uint32_t vocab, int32_t dtype, void *to)
{
    const size_t size = dtype_size(dtype);
    const char *const text = run_find(s, "lone");
    uint64_t number[3];
    char *end;
    if (text == NULL)
        return;
    const float value = (float)strtod(text, &end);
    if (end == text || *end != ':' || !run_is(s, end, "", number) || number[2] != 0)
        run_die(s, "lone=%.40s is not VALUE:FIRST or VALUE:FIRST:APART", text);
    for (uint32_t r = 0; r < rows; r++)
        for (int again = 0; again <= (number[1] != 0); again++)
            dtype_encode(dtype, value,
                         (char *)to +
                             ((size_t)r * vocab +
                              (size_t)((number[0] + r + (again ? number[1] : 0)) % vocab)) *
                                 size);
}

/* Reads the logits of a statement: its own, or those of the latest statement `logits`. */
static void read_logits(run_side *side, const run_statement *s, uint32_t rows, run_inputs *in)
{
    const char *own = run_find(s, "logits"), *text = own, *path = NULL, *kind = NULL;
    const run_statement *const from = own != NULL ? s : side->logits;
    const uint32_t vocab = side->sampler_options.vocab;
    uint64_t number[3] = {0, 0, 0};
    char *whole;
    if (from != NULL) {
        path = run_find(from, "file");
        kind = run_find(from, "kind");
    }
    if (path != NULL) {
        whole = cli_alloc(strlen(path) + sizeof "file:", 1);
        text = strcat(strcpy(whole, "file:"), path);
    }
    if (take_file(side, from, CLI_LOGITS, text, from != NULL ? dtype_of(from, "dtype", -1) : -1,
                  in)) {
        const cli_array *const a = &in->of[CLI_LOGITS];
        if (a->width != vocab || a->rows < rows)
            run_die(from,
                    "the file has %" PRIu32 " rows of %" PRIu32 " logits for %" PRIu32
                    " rows of %" PRIu32,
                    a->rows, a->width, rows, vocab);
        return;
    }
    const int32_t dtype = from != NULL ? dtype_of(from, "dtype", CLS_F32) : CLS_F32;
    void *data = from != NULL ? run_rows_by_hand(from, "logits", own, rows, vocab, dtype) : NULL;
    if (data == NULL) {
        if (own != NULL && !run_is(s, own, "random", number))
            run_die(s,
                    "logits=%.40s is none of random:SEED, list:NUMBERS, tokens:IDS and file:NAME",
                    own);
        if (from != NULL && own == NULL)
            number[0] = run_number(from, "seed", 0);
        data = run_random_logits(number[0], kind != NULL ? run_kind(from, kind) : -1, rows, vocab,
                                 dtype);
    }
    if (from != NULL)
        put_lone(from, rows, vocab, dtype, data);
    take(in, CLI_LOGITS, data, dtype, vocab);
    in->of[CLI_LOGITS].rows = rows;
}

/* The words of a mask: a list or random ones. */
static void make_mask_rows(const run_side *side, const run_statement *s, const char *text,
                           run_inputs *in)
{
    const char *const kind = run_find(s, "mask_kind");
    const uint32_t vocab = side->sampler_options.vocab, rows = in->of[CLI_MASK].rows;
    const bool bytes = kind != NULL && strcmp(kind, "bool") == 0;
    const uint32_t whole = bytes ? vocab : (vocab + 31) / 32;
    uint32_t width = 0;
    uint64_t number[3];
    void *words;
    if (strncmp(text, "list:", 5) == 0) {
        const double *const x = run_rows(s, "mask", text + 5, rows, &width, 0.0);
        const size_t n = (size_t)rows * width;
        words = cli_alloc(n, sizeof(uint32_t));
        for (size_t i = 0; i < n; i++)
            if (bytes)
                ((uint8_t *)words)[i] = x[i] != 0.0;
            else
                ((uint32_t *)words)[i] = x[i] >= 0.0 && x[i] <= UINT32_MAX ? (uint32_t)x[i] : 0;
    } else {
        const bool lone = run_is(s, text, "lone", number);
        if (!lone && !run_is(s, text, "random", number))
            run_die(s,
                    "mask=%.40s is none of random:SEED, random:SEED:PERCENT, lone:FIRST, "
                    "list:WORDS and file:NAME",
                    text);
        width = run_count(s, "mask_width", whole);
        if (width < 1 || width > 4 * whole)
            run_die(s, "mask_width=%" PRIu32 " is not 1 to %" PRIu32, width, 4 * whole);
        words = lone ? run_lone_mask(number[0], bytes, rows, width, vocab)
                     : run_random_mask(number[0], (uint32_t)number[1],
                                       bytes ? CLS_MASK_BOOL : CLS_MASK_PACKED, rows, width);
    }
    take(in, CLI_MASK, words, bytes ? CLS_MASK_BOOL : CLS_MASK_PACKED, width);
}

static void make_bias_rows(const run_side *side, const run_statement *s, const char *text,
                           run_inputs *in)
{
    const int32_t dtype = dtype_of(s, "bias_dtype", CLS_F32);
    const uint32_t rows = in->of[CLI_BIAS].rows, vocab = side->sampler_options.vocab;
    uint64_t number[3];
    void *values = run_rows_by_hand(s, "bias", text, rows, vocab, dtype);
    if (values == NULL && !run_is(s, text, "random", number))
        run_die(s, "bias=%.40s is none of random:SEED, list:VALUES and file:NAME", text);
    if (values == NULL)
        values = run_random_bias(number[0], rows, vocab, dtype);
    take(in, CLI_BIAS, values, dtype, vocab);
}

/* Reads the mask or the bias of a statement. */
static void read_guide(run_side *side, const run_statement *s, cli_input what, uint32_t rows,
                       run_inputs *in)
{
    const bool is_mask = what == CLI_MASK;
    const char *const text = run_find(s, run_input_names[what]);
    if (text == NULL)
        return;
    in->map[what] = run_map_read(s, is_mask ? "mask_map" : "bias_map", rows);
    in->of[what].rows = run_count(s, is_mask ? "mask_rows" : "bias_rows", rows);
    if (!take_file(side, s, what, text, -1, in)) {
        check_rows(s, in, what, rows);
        (is_mask ? make_mask_rows : make_bias_rows)(side, s, text, in);
    }
    check_rows(s, in, what, rows);
}

run_inputs run_inputs_read(run_side *side, const run_statement *s, uint32_t logits_rows,
                           uint32_t rows)
{
    run_inputs in = {.factor = 0.0f};
    const char *const factor = run_find(s, "bias_factor"), *const cap = run_find(s, "softcap");
    read_logits(side, s, logits_rows, &in);
    read_guide(side, s, CLI_MASK, rows, &in);
    read_guide(side, s, CLI_BIAS, rows, &in);
    in.mask_on_host = run_number(s, "mask_host", 0) != 0;
    if (factor != NULL)
        cli_set(CLI_FLOAT, &in.factor, NULL, "bias_factor", factor);
    if (cap != NULL)
        cli_set(CLI_FLOAT, &in.softcap, NULL, "softcap", cap);
    return in;
}

static size_t row_size(const run_inputs *in, cli_input what)
{
    return in->of[what].width * in->of[what].size;
}

void run_inputs_turn(run_inputs *in, uint32_t rows)
{
    for (cli_input i = 0; i < CLI_INPUTS; i++) {
        if (in->of[i].data != NULL && in->map[i].value == NULL)
            in->of[i].data = run_turned(in->of[i].data, rows, row_size(in, i));
        run_map_turn(&in->map[i], rows);
    }
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

cls_buffer run_rows_put(run_side *side, const void *data, uint32_t rows, size_t row, size_t element,
                        uint64_t *stride)
{
    size_t size;
    const void *const spread = spread_rows(side, data, rows, row, element, &size, stride);
    return run_buffer(side, spread, size);
}

/* The rows of an input from `first` on, or all where it has a map. */
static cls_buffer put_rows(run_side *side, const run_inputs *in, cli_input what, uint32_t first,
                           uint32_t *rows, uint64_t *stride)
{
    const bool mapped = in->map[what].value != NULL;
    const char *const from = in->of[what].data;
    if (mapped)
        *rows = in->of[what].rows;
    return run_rows_put(side, from + (mapped ? 0 : first * row_size(in, what)), *rows,
                        row_size(in, what), in->of[what].size, stride);
}

cls_logits run_logits(run_side *side, const run_inputs *in, uint32_t first, uint32_t rows,
                      uint32_t shard)
{
    const cli_array *const a = &in->of[CLI_LOGITS];
    cls_logits l = {.dtype = a->type, .softcap = in->softcap};
    cls_shard_info info;
    if (side->shards == 0 || shard == RUN_WHOLE) {
        l.values = put_rows(side, in, CLI_LOGITS, first, &rows, &l.row_stride);
        return l;
    }
    cls_shard_info_init(&info);
    if (cls_shard_query(side->shard[shard], &info) != CLS_OK)
        run_die(side->now, "%s", cls_error_message());
    char *const window = cli_alloc((size_t)rows * info.count, a->size);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(window + i * info.count * a->size,
               (const char *)a->data + (first + i) * row_size(in, CLI_LOGITS) +
                   info.first * a->size,
               info.count * a->size);
    l.values = run_buffer(side, window, rows * info.count * a->size);
    cli_free(window);
    return l;
}

void run_guides(run_side *side, const run_inputs *in, uint32_t first, uint32_t rows, cls_mask *mask,
                cls_dense_bias *bias)
{
    const cli_array *const m = &in->of[CLI_MASK], *const b = &in->of[CLI_BIAS];
    if (m->data != NULL) {
        mask->kind = m->type;
        mask->width = m->width;
        mask->rows = in->map[CLI_MASK].value != NULL ? m->rows : rows;
        mask->row_map = run_map_put(side, &in->map[CLI_MASK], first, rows);
        if (in->mask_on_host)
            mask->host = (const char *)m->data +
                         (in->map[CLI_MASK].value != NULL ? 0 : first * row_size(in, CLI_MASK));
        else
            mask->words = put_rows(side, in, CLI_MASK, first, &mask->rows, &mask->row_stride);
    }
    if (b->data != NULL) {
        bias->dtype = b->type;
        bias->factor = in->factor;
        bias->rows = rows;
        bias->row_map = run_map_put(side, &in->map[CLI_BIAS], first, rows);
        bias->values = put_rows(side, in, CLI_BIAS, first, &bias->rows, &bias->row_stride);
    }
}

/* The library cannot check how large a mask on the host is, of which words may have changed parts.
 */
void run_check_mask(const run_side *side, const run_statement *s, const cls_mask *m,
                    const run_inputs *in)
{
    const bool packed = m->kind == CLS_MASK_PACKED;
    const uint32_t vocab = side->sampler_options.vocab;
    const double width = m->width != 0 ? m->width
                         : packed      ? (vocab + 31) / 32
                                       : vocab,
                 stride = (double)m->row_stride > width ? (double)m->row_stride : width,
                 rows = m->rows != 0 ? m->rows : in->of[CLI_MASK].rows;
    if (m->host != NULL && ((rows - 1.0) * stride + width) * (packed ? 4.0 : 1.0) >
                               in->of[CLI_MASK].rows * (double)row_size(in, CLI_MASK))
        run_die(s, "the mask on the host is not so large");
}

void run_hashes(run_side *side, const run_statement *s, const run_inputs *in, uint32_t rows)
{
    const char *text = run_find(s, "hash");
    if (text == NULL || side->reference != NULL)
        return;
    for (uint32_t row = 0; row < rows && row < in->of[CLI_LOGITS].rows; row++) {
        char *end;
        const unsigned long long hash = strtoull(text, &end, 16);
        if (end == text)
            run_die(s, "hash has fewer numbers than the call has rows");
        if (hash != run_hash_of_row(in->of, row)) {
            const int32_t changed = (int32_t)row;
            run_note(side, "changed", &changed, sizeof changed);
        }
        text = end + (*end == ',');
    }
}
