/* SPDX-License-Identifier: MIT */
/* The test vectors of rows with chains, and of lists of candidates. */
#include "vectors.h"

/* The row or the list whose records are being read. */
static struct {
    int is_list, is_done; /* 1: its results are written */
    uint32_t n;           /* its logits so far */
    float logits[VECTOR_MOST];
    int32_t ids[VECTOR_MOST];     /* of a list */
    uint8_t allowed[VECTOR_MOST]; /* in a row */
    cls_params p;
    one_row row;
    cls_host_candidates list;
    cls_stateless one; /* what the reference computed from the row */
} block;

/* -------------------------------------------------------------- what is given */

static int begin(char **word, uint32_t n)
{
    cls_host_destroy(block.one.host);
    memset(&block, 0, sizeof block);
    memset(block.allowed, 1, sizeof block.allowed);
    block.is_list = strcmp(word[0], "list") == 0;
    cls_params_init(&block.p);
    one_row_init(&block.row);
    cls_host_candidates_init(&block.list);
    block.row.logits = block.list.logits = block.logits;
    block.row.params = &block.p;
    block.row.mask_kind = CLS_MASK_BOOL;
    block.list.ids = block.ids;
    return n == 2;
}

static int set_vocab(char **word, uint32_t n)
{
    block.row.vocab = block.list.vocab = (uint32_t)strtoul(word[1], NULL, 10);
    return n == 2 && block.row.vocab <= VECTOR_MOST;
}

static int add_logits(char **word, uint32_t n)
{
    for (uint32_t i = 1; i < n && block.n < VECTOR_MOST; i++)
        block.logits[block.n++] = float_of(word[i]);
    return block.n <= block.row.vocab;
}

static int add_entry(char **word, uint32_t n)
{
    block.ids[block.n] = (int32_t)strtol(word[1], NULL, 10);
    block.logits[block.n] = float_of(word[2]);
    block.list.count = ++block.n;
    return n == 3 && block.n < VECTOR_MOST;
}

static int set_mask(char **word, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        block.allowed[strtoul(word[i], NULL, 10) % VECTOR_MOST] = 0;
    block.row.mask = block.allowed;
    return 1;
}

static int set_chain(char **word, uint32_t n)
{
    static const char *const names[] = {"end", "temperature", "top-k", "top-p", "min-p"};
    block.p.chain = (int32_t)strtol(word[1], NULL, 10);
    for (uint32_t i = 2; i < n && i < 2 + CLS_CHAIN_LENGTH; i++)
        while (strcmp(names[block.p.stages[i - 2]], word[i]) != 0)
            if (++block.p.stages[i - 2] == sizeof names / sizeof *names)
                return 0;
    return 1;
}

static int set_seed(char **word, uint32_t n)
{
    block.p.seed = block.list.seed = strtoull(word[1], NULL, 10);
    block.p.stream = block.list.stream = strtoull(word[2], NULL, 10);
    return n == 3;
}

static int set_parameter(char **word, uint32_t n)
{
    const cls_param *param;
    for (uint32_t id = 1; (param = cls_param_by_id(id)) != NULL; id++)
        if (strcmp(param->field, word[0]) == 0) {
            const float real = float_of(word[1]);
            const int32_t whole = (int32_t)strtol(word[1], NULL, 10);
            memcpy(cls_param_in(param, &block.p),
                   param->type == CLS_PARAM_FLOAT ? (const void *)&real : &whole, 4);
            return n == 2;
        }
    return 0;
}

/* --------------------------------------------------------------- what follows */

/* Writes the tiles at the final scale. */
static void write_tiles(FILE *f, const cls_sampled *w)
{
    for (uint32_t t = 0; t < w->tiles; t++) {
        const cls_split at = split(w->tile_max[t], w->scale);
        uint64_t sum = 0;
        if (!(w->tile_max[t] > CLS_MASKED))
            continue;
        for (uint32_t i = t * CLS_TILE; i < w->vocab && i / CLS_TILE == t; i++)
            sum += cls_token_weight(w, i);
        fprintf(f, "tile %u %08x %d %d %" PRIu64 " %u %" PRIu64 "\n", (unsigned)t,
                bits_of(w->tile_max[t]), (int)at.exponent, (int)(at.fraction * 16777216.0f), sum,
                (unsigned)w->unit[t].shift, to_row_units(sum, w->unit[t].shift));
    }
}

static int write_results(FILE *f)
{
    cls_sampled *w;
    block.is_done = 1;
    if (block.is_list)
        return 1;
    if (block.n != block.row.vocab || cls_stateless_open(&block.one, &block.row) != CLS_OK)
        return 0;
    w = &block.one.host->row;
    cls_sampled_run(w, block.one.host->slot, &block.one.in, 1);
    fprintf(f, "status %u\n", (unsigned)w->trace.status);
    if (w->trace.no_token)
        return 1;
    cls_select(w, w->n);
    fprintf(f, "kept %u", (unsigned)w->n);
    for (uint32_t i = 0; i < w->n && i < 16; i++)
        fprintf(f, " %u", (unsigned)w->set[i]);
    fprintf(f, "\nlast %u\n", (unsigned)w->set[w->n - 1]);
    if (w->slot.flags & CLS_SLOT_GREEDY)
        return 1;
    fprintf(f, "scale %08x\n", bits_of(w->scale));
    write_tiles(f, w);
    if (w->trace.target != 0)
        fprintf(f, "top_p_target %" PRIu64 " %" PRIu64 "\n", w->trace.total, w->trace.target);
    fprintf(f, "mass %" PRIu64 "\n", w->trace.mass);
    return 1;
}

/* Draws a token, whose position and number or whose random bits are given. */
static int write_draw(FILE *f, char **word, int is_given)
{
    const uint64_t bits = is_given ? strtoull(word[1], NULL, 16) : 0;
    const uint32_t position = is_given ? 0 : (uint32_t)strtoul(word[1], NULL, 10),
                   number = is_given ? 0 : (uint32_t)strtoul(word[2], NULL, 10);
    one_result result = {0};
    cls_row trace;
    block.row.random_bits = block.list.random_bits = is_given ? &bits : NULL;
    block.row.position = block.list.position = position;
    block.row.draw = block.list.draw = number;
    fprintf(f, is_given ? "given %s" : "draw %s %s", word[1], word[2]);
    if (block.is_list) {
        if (cls_host_draw(&block.list, &result.token) != CLS_OK)
            return 0;
        fprintf(f, " %d\n", (int)result.token);
        return 1;
    }
    if (one_sample(&block.row, &result) != CLS_OK ||
        cls_reference(&block.row, &trace, &result) != CLS_OK || trace.token != result.token)
        return 0;
    if (!is_given)
        fprintf(f, " %016" PRIx64,
                philox_bits(CLS_PURPOSE_TOKEN, block.one.host->row.slot.seed,
                            block.one.host->row.slot.stream, position, number));
    fprintf(f, " %" PRIu64 " %d\n", trace.drawn, (int)result.token);
    return 1;
}

/* ------------------------------------------------------------------- records */

static const struct {
    const char *name;
    int (*take)(char **word, uint32_t n); /* NULL: the record is a result */
} records[] = {
    {"row", begin},           {"list", begin},          {"vocab", set_vocab},
    {"logits", add_logits},   {"masked", set_mask},     {"chain", set_chain},
    {"top_k", set_parameter}, {"top_p", set_parameter}, {"min_p", set_parameter},
    {"seed", set_seed},       {"entry", add_entry},     {"temperature", set_parameter},
    {"status", NULL},         {"kept", NULL},           {"min_keep", set_parameter},
    {"last", NULL},           {"scale", NULL},          {"tile", NULL},
    {"mass", NULL},           {"top_p_target", NULL},
};

int write_record(FILE *f, char **word, uint32_t n)
{
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        if (strcmp(records[i].name, word[0]) != 0)
            continue;
        if (records[i].take == NULL)
            return 1;
        for (uint32_t k = 0; k < n; k++)
            fprintf(f, "%s%s", word[k], k + 1 < n ? " " : "\n");
        return n > 1 && records[i].take(word, n);
    }
    if (!block.is_done && !write_results(f))
        return 0;
    if (strcmp(word[0], "end") == 0)
        return fprintf(f, "end\n") > 0;
    const int is_given = strcmp(word[0], "given") == 0;
    return (is_given || strcmp(word[0], "draw") == 0) && n > (is_given ? 1 : 2) &&
           write_draw(f, word, is_given);
}
